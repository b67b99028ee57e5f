#!/usr/bin/env python3
"""Fine-tune the same classifier with transformers and with eitp, for several seeds, and compare the accuracies.

    python3 tools/peers/sentiment_data.py DATA
    python3 tools/peers/classifier_scores.py DATA --model DIRECTORY [--eitp build/eitp] [--sets amazon film tweets]
        [--seeds 5] [--only transformers|eitp] [--results FILE]

Both use the same recipe: one epoch, AdamW 5e-5 without weight decay, 10 % warm-up, linear decay, 32 samples of at most 64
tokens per step, clipping at 1.0, fp32. Results are appended to FILE as lines of JSON, and runs in FILE are not repeated. The
last line printed has the means for each set, their standard errors, and the difference in standard errors.
"""

import argparse
import csv
import json
import math
import pathlib
import subprocess
import tempfile

RATE, WARMUP, BATCH, LENGTH, CLIP = 5e-5, 0.1, 32, 64, 1.0
PART = 8  # samples per batch in transformers
LABELS = ["neg", "pos"]


def read(path):
    with open(path, newline="", encoding="utf-8") as file:
        return [(row["text"], LABELS.index(row["label"])) for row in csv.DictReader(file)]


def make_batch(tokenizer, rows):
    import torch

    inputs = tokenizer([text for text, _ in rows], truncation=True, max_length=LENGTH, padding=True, return_tensors="pt")
    return inputs, torch.tensor([label for _, label in rows])


def parts(rows):
    """Group the samples of a step by length, so that less padding is computed."""
    by_length = sorted(rows, key=lambda row: len(row[0]))
    return [by_length[i : i + PART] for i in range(0, len(by_length), PART)]


def accuracy(model, tokenizer, rows):
    import torch

    model.eval()
    right = 0
    with torch.no_grad():
        for part in parts(rows):
            inputs, labels = make_batch(tokenizer, part)
            right += (model(**inputs).logits.argmax(-1) == labels).sum().item()
    return right / len(rows)


def train_transformers(directory, train, test, seed):
    import torch
    import transformers

    transformers.logging.set_verbosity_error()
    torch.manual_seed(seed)
    tokenizer = transformers.AutoTokenizer.from_pretrained(directory)
    model = transformers.AutoModelForSequenceClassification.from_pretrained(directory, num_labels=2)
    steps = math.ceil(len(train) / BATCH)
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE, weight_decay=0)
    schedule = transformers.get_linear_schedule_with_warmup(optimizer, math.ceil(WARMUP * steps), steps)
    model.train()
    order = torch.randperm(len(train)).tolist()
    for start in range(0, len(order), BATCH):
        chosen = [train[i] for i in order[start : start + BATCH]]
        for part in parts(chosen):
            inputs, labels = make_batch(tokenizer, part)
            (model(**inputs, labels=labels).loss * (len(part) / len(chosen))).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
    return accuracy(model, tokenizer, test)


def train_eitp(eitp, directory, data, name, seed):
    with tempfile.TemporaryDirectory() as work:
        settings = ["--epochs", 1, "--batch-size", BATCH, "--grad-accum", 1, "--block-size", LENGTH, "--lr", RATE]
        settings += ["--weight-decay", 0, "--warmup-ratio", WARMUP, "--lr-schedule", "linear", "--max-grad-norm", CLIP]
        settings += ["--precision", "fp32", "--seed", seed, "--val-data", data / f"{name}-test.csv", "--eval-steps", 0]
        command = [eitp, "train", "--task", "classify", "--model", directory, "--data", data / f"{name}-train.csv"]
        command += [*settings, "--output-dir", pathlib.Path(work) / "out", "-q"]
        subprocess.run([str(part) for part in command], check=True)
        command = [eitp, "eval", "--model", pathlib.Path(work) / "out", "--data", data / f"{name}-test.csv", "--json", "-q"]
        result = subprocess.run([str(part) for part in command], check=True, capture_output=True, text=True)
        return json.loads(result.stdout)["accuracy"]


def summarize(results, names, seeds):
    summary = {}
    for name in names:
        parts = {}
        for peer in ("transformers", "eitp"):
            values = [r["accuracy"] for r in results if r["set"] == name and r["peer"] == peer and r["seed"] <= seeds]
            if not values:
                continue
            mean = sum(values) / len(values)
            variance = sum((v - mean) ** 2 for v in values) / max(1, len(values) - 1)
            parts[peer] = {"mean": round(mean, 4), "error": round(math.sqrt(variance / len(values)), 4), "runs": len(values)}
        if len(parts) == 2:
            error = math.hypot(parts["transformers"]["error"], parts["eitp"]["error"])
            difference = parts["eitp"]["mean"] - parts["transformers"]["mean"]
            parts["difference_in_errors"] = round(difference / error, 2) if error else None
        summary[name] = parts
    return summary


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("data", type=pathlib.Path)
    parser.add_argument("--model", required=True)
    parser.add_argument("--eitp", default="build/eitp")
    parser.add_argument("--sets", nargs="*", default=["amazon", "film", "tweets"])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--only", choices=["transformers", "eitp"])
    parser.add_argument("--results", type=pathlib.Path, default=pathlib.Path("classifier_scores.jsonl"))
    arguments = parser.parse_args()
    results = []
    if arguments.results.exists():
        results = [json.loads(line) for line in arguments.results.read_text().splitlines()]
    for name in arguments.sets:
        train, test = (read(arguments.data / f"{name}-{part}.csv") for part in ("train", "test"))
        for seed in range(1, arguments.seeds + 1):
            for peer in ("transformers", "eitp"):
                key = {"set": name, "seed": seed, "peer": peer}
                if arguments.only not in (None, peer) or any(key.items() <= r.items() for r in results):
                    continue
                if peer == "eitp":
                    value = train_eitp(arguments.eitp, arguments.model, arguments.data, name, seed)
                else:
                    value = train_transformers(arguments.model, train, test, seed)
                results.append({**key, "accuracy": round(value, 5)})
                with open(arguments.results, "a") as file:
                    file.write(json.dumps(results[-1]) + "\n")
    print(json.dumps(summarize(results, arguments.sets, arguments.seeds)))


main()
