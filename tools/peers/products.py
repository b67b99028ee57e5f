#!/usr/bin/env python3
"""Compare matrix products in f32 with oneDNN, over the shapes of a GPT-2 step: a report from onednn_sgemm.c.

    apt-get install libdnnl-dev
    python3 tools/peers/products.py [--runs 3] [--seconds 1] [--threads 2] [--json]

Builds tools/peers/onednn_sgemm.c, runs it --runs times, and reports the best speed of both for each shape.
"""

import argparse
import json
import math
import os
import pathlib
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import report as reports  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent


def build(directory):
    program = pathlib.Path(directory) / "onednn_sgemm"
    source = ROOT / "tools" / "peers" / "onednn_sgemm.c"
    command = [os.environ.get("CC", "cc"), "-O2", "-fopenmp", f"-I{ROOT}", str(source), "-ldnnl", "-lm", "-o", str(program)]
    subprocess.run(command, check=True)
    return program


def best_of(runs):
    rows = runs[0]
    for run in runs[1:]:
        for row, other in zip(rows, run):
            for name in ("eitp_gflops", "onednn_gflops"):
                row[name] = max(row[name], other[name])
    for row in rows:
        row["ratio"] = row["eitp_gflops"] / row["onednn_gflops"]
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=1)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    environment = {**os.environ, "OMP_NUM_THREADS": str(arguments.threads)}
    with tempfile.TemporaryDirectory() as directory:
        program, runs = build(directory), []
        for _ in range(arguments.runs):
            command = [str(program), str(arguments.seconds), "--json"]
            done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
            runs.append(json.loads(done.stdout)[:-1])
    rows = best_of(runs)
    mean = math.exp(sum(math.log(row["ratio"]) for row in rows) / len(rows))
    if arguments.json:
        header = reports.header("products")
        print(json.dumps({**header, "threads": arguments.threads, "runs": arguments.runs, "mean": mean, "rows": rows}))
        return
    for row in rows:
        print(f"{row['what']:22} {row['eitp_gflops']:7.1f} {row['onednn_gflops']:7.1f} GFLOP/s  {row['ratio']:.2f}")
    print(f"geometric mean of the ratios: {mean:.3f}")


if __name__ == "__main__":
    main()
