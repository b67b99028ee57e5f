#!/usr/bin/env python3
"""Train, resume from the second to last checkpoint, and read the records with TensorBoard and pandas: every value must
equal metrics.jsonl, and the first records of repeated steps must be gone.

    python3 tools/peers/read_records.py --eitp build/eitp [--work DIRECTORY]

Needs the packages tensorboard and pandas.
"""
import argparse
import json
import math
import pathlib
import shutil
import subprocess
import tempfile

import numpy
import pandas
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.util.tensor_util import make_ndarray

GUIDE_TAGS = {"Training/Loss": "loss", "Loss": "loss", "LR": "lr", "Training/GradientNorm": "grad_norm",
              "GradNorm": "grad_norm"}


def same(a, b):
    return a == b or (math.isnan(a) and math.isnan(b))


def is_part(wanted, found):
    """True if `wanted` is `found` without some elements: TensorBoard drops scalars of repeated steps, but keeps their
    text."""
    rest = iter(found)
    return all(any(a[0] == b[0] and b[1] in (None, a[1]) for a in rest) for b in wanted)


def train(eitp, directory):
    """Train, lose the last checkpoint, and resume."""
    text = directory / "text.txt"
    text.write_text("".join(f"Line {i} of {i * i % 97} lines, \"quoted\".\n" for i in range(3000)), encoding="utf-8")
    out = directory / "out"
    command = [eitp, "train", "--data", text, "--init", "tiny", "--block-size", "32", "--eval-steps", "5", "--save-steps",
               "5", "--report-to", "all", "--guide-tags", "--log-every", "1", "--quiet", "--output-dir", out, "--resume",
               "auto", "--steps"]
    subprocess.run(command + ["12"], check=True)
    shutil.rmtree(out / "checkpoint-12")
    subprocess.run(command + ["17"], check=True)
    return out


def read_lines(path):
    """Return scalars and text by name, each a list of (step, value) in file order."""
    scalars, texts = {}, {}
    records = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    for record in records:
        if "event" in record:
            message = record.get("message")
            texts.setdefault("events/" + record["event"], []).append((record["step"], message))
            continue
        for name, value in record.items():
            if name in ("step", "time", "elapsed"):
                continue
            kind = texts if isinstance(value, str) else scalars
            kind.setdefault(name, []).append((record["step"], value))
    return records, scalars, texts


def compare_tensorboard(directory, scalars, texts):
    read = EventAccumulator(str(directory / "tensorboard"), size_guidance={"scalars": 0, "tensors": 0})
    read.Reload()
    tags = read.Tags()
    expected = dict(scalars)
    for tag, name in GUIDE_TAGS.items():
        if tag in tags["scalars"]:
            expected[tag] = scalars[name]
    wrong = 0
    if set(tags["scalars"]) != set(expected) or set(tags["tensors"]) != set(texts):
        print("tags differ:", set(tags["scalars"]) ^ set(expected), set(tags["tensors"]) ^ set(texts))
        wrong += 1
    compared = 0
    for tag in tags["scalars"]:
        found = [(event.step, event.value) for event in read.Scalars(tag)]
        wanted = [(step, float("nan") if value is None else float(numpy.float32(value)))
                  for step, value in expected.get(tag, [])]
        equal = len(found) == len(wanted) and all(
            a[0] == b[0] and (same(a[1], b[1]) or (math.isnan(b[1]) and math.isinf(a[1]))) for a, b in zip(found, wanted))
        compared += len(found)
        if not equal:
            print(f"{tag}: {found[:5]} ... differs from {wanted[:5]} ...")
            wrong += 1
    for tag in tags["tensors"]:
        found = [(event.step, make_ndarray(event.tensor_proto).item().decode()) for event in read.Tensors(tag)]
        wanted = texts.get(tag, [])
        compared += len(wanted)
        if not is_part(wanted, found):
            print(f"{tag}: {found[:5]} ... differs from {wanted[:5]} ...")
            wrong += 1
    return wrong, f"{len(tags['scalars'])} scalars and {len(tags['tensors'])} texts of TensorBoard, {compared} values"


def compare_csv(directory, records):
    table = pandas.read_csv(directory / "metrics.csv")
    wrong = abs(len(table) - len(records))
    compared = 0
    for (_, row), record in zip(table.iterrows(), records):
        other = json.loads(row["other"]) if isinstance(row["other"], str) else {}
        for name, value in record.items():
            found = other.get(name) if name in other else row.get(name)
            if isinstance(value, str):
                equal = str(found) == value
            elif value is None:
                equal = found is None or not math.isfinite(float(found))
            else:
                equal = float(found) == float(value)
            compared += 1
            if not equal:
                print(f"metrics.csv, step {record['step']}: {name} is {found!r}, expected {value!r}")
                wrong += 1
    return wrong, f"{len(table)} rows of pandas, {compared} values"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--eitp", default="build/eitp")
    parser.add_argument("--work", help="directory to train in, without an existing run")
    arguments = parser.parse_args()
    work = pathlib.Path(arguments.work or tempfile.mkdtemp())
    work.mkdir(parents=True, exist_ok=True)
    shutil.rmtree(work / "out", ignore_errors=True)
    directory = train(arguments.eitp, work)
    records, scalars, texts = read_lines(directory / "metrics.jsonl")
    tags_wrong, read = compare_tensorboard(directory, scalars, texts)
    rows_wrong, rows = compare_csv(directory, records)
    if not arguments.work:
        shutil.rmtree(work)
    print(f"{read}; {rows}; {tags_wrong + rows_wrong} differ from metrics.jsonl")
    raise SystemExit(1 if tags_wrong + rows_wrong else 0)


if __name__ == "__main__":
    main()
