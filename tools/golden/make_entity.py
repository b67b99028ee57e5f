#!/usr/bin/env python3
"""Write the golden values of tests/task/test_entities.c with seqeval: tests/golden/entities/expected.txt, or the file given.

    pip install seqeval==1.2.2
    python3 tools/golden/make_entity.py [FILE]

Writes a line per sentence: the true labels of its words, the predicted ones, and the entities of both as found by seqeval
with its defaults. The last lines are seqeval's metrics over all sentences and for each type.
"""

import argparse
import pathlib
import random

from seqeval import metrics
from seqeval.metrics.sequence_labeling import get_entities

SENTENCES = 60
TYPES = ["PER", "LOC", "B-X"]
SCHEMES = {"IOB2": "BI", "IOB1": "IB", "BIOES": "BIES", "none": "BIES"}


def correct(generator, scheme, length):
    """Return labels that follow a scheme."""
    labels = []
    while len(labels) < length:
        size, kind = generator.randint(1, 3), generator.choice(TYPES)
        if generator.random() < 0.5:
            labels += ["O"] * size
        elif scheme == "IOB2":
            labels += ["B-" + kind] + ["I-" + kind] * (size - 1)
        elif scheme == "IOB1":
            touches = bool(labels) and labels[-1][2:] == kind
            labels += [("B-" if touches else "I-") + kind] + ["I-" + kind] * (size - 1)
        else:
            labels += ["S-" + kind] if size == 1 else ["B-" + kind] + ["I-" + kind] * (size - 2) + ["E-" + kind]
    return labels[:length]


def anything(generator, length):
    choices = ["O"] + [prefix + "-" + kind for prefix in "BIES" for kind in TYPES]
    return [generator.choice(choices) for _ in range(length)]


def sentence(generator):
    scheme, length = generator.choice(list(SCHEMES)), generator.randint(1, 9)
    truth = anything(generator, length) if scheme == "none" else correct(generator, scheme, length)
    guesses = [label if generator.random() < 0.8 else generator.choice(anything(generator, 1)) for label in truth]
    return truth, guesses


def described(labels):
    return " ".join(f"{kind}:{first}-{last}" for kind, first, last in get_entities(labels))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    default = pathlib.Path(__file__).resolve().parent.parent.parent / "tests" / "golden" / "entities" / "expected.txt"
    parser.add_argument("file", nargs="?", type=pathlib.Path, default=default)
    generator = random.Random(5)
    pairs = [sentence(generator) for _ in range(SENTENCES)]
    truth, guesses = [list(labels) for labels in zip(*pairs)]
    lines = ["/* Written by tools/golden/make_entity.py. */"]
    for real, guess in pairs:
        lines.append(f'SENTENCE("{" ".join(real)}", "{" ".join(guess)}", "{described(real)}", "{described(guess)}")')
    for name in ("accuracy", "precision", "recall", "f1"):
        value = getattr(metrics, name + "_score")(truth, guesses)
        lines.append(f'METRIC("{"" if name == "accuracy" else "entity_"}{name}", {value:.17g})')
    for kind, values in metrics.classification_report(truth, guesses, output_dict=True).items():
        if kind in TYPES:
            numbers = ", ".join(f"{values[name]:.17g}" for name in ("precision", "recall", "f1-score"))
            lines.append(f'TYPE("{kind}", {numbers}, {values["support"]})')
    parser.parse_args().file.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
