#!/usr/bin/env python3
"""Measure training steps of eitp against the limits of the machine, as a report.

    python3 tools/peers/roofline.py [--eitp build/eitp] [--model gpt2] [--task auto] [--rounds 2] [--steps 8]
                                    [--shapes 4x64,1x1024] [--precisions bf16,fp32]

A shape is batch x tokens, or batch x tokens x accumulation. Alternates `eitp bench step` over shapes and precisions, and
prints the best round of each as JSON.
"""

import argparse
import json
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import report as reports  # noqa: E402

FIELDS = ("tokens_per_s", "tokens_per_s_best", "of_limit", "of_limit_best", "peak_rss_bytes", "limits")


def bench(arguments, shape, precision):
    batch, block, accumulation = (shape + "x1").split("x")[:3]
    command = [arguments.eitp, "bench", "step", "--json", "-q", "--model", arguments.model, "--grad-accum", accumulation]
    command += ["--task", arguments.task]
    command += ["--precision", precision, "--batch-size", batch, "--block-size", block, "--steps", str(arguments.steps)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    result = json.loads(done.stdout)
    return {"what": f"{precision}, {shape.replace('x', ' x ')}", **{name: result[name] for name in FIELDS}}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--eitp", default="build/eitp")
    parser.add_argument("--model", default="gpt2")
    parser.add_argument("--task", default="auto")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--shapes", default="4x64,1x1024")
    parser.add_argument("--precisions", default="bf16,fp32")
    arguments = parser.parse_args()
    cases = [(s, p) for s in arguments.shapes.split(",") for p in arguments.precisions.split(",")]
    best = {}
    for _ in range(arguments.rounds):
        for case in cases:
            row = bench(arguments, *case)
            if case not in best or row["of_limit_best"] > best[case]["of_limit_best"]:
                best[case] = row
    about = {"model": arguments.model, "task": arguments.task}
    print(json.dumps({**reports.header("roofline"), **about, "rows": [best[case] for case in cases]}, indent=1))


if __name__ == "__main__":
    main()
