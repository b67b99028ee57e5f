#!/usr/bin/env python3
"""Measure the time and memory of runs with decreasing memory budgets, alternating with one without a budget.

    python3 tools/peers/rungs.py [--eitp build/eitp] [--init gpt2] [--budgets 1650M,1G,...] [--rounds 3] [--steps 4]
                                 [--cgroup DIR] [--data TEXT] [--json]

Each round runs each budget once, in a separate process, starting with the run without a budget. The time of a run is its
fastest step except the first. Prints the median over rounds of its ratio to the run without a budget in the same round, the
ratio predicted by the plans, and the peak resident memory. --cgroup: see memory.py. Run it on an idle machine.
"""

import argparse
import json
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import memory  # noqa: E402
import report as reports  # noqa: E402

# The text is trained as bytes, but the model keeps its full vocabulary.
GPT2_VOCABULARY = 50257

# Fixed, because larger budgets would otherwise get longer sequences.
BLOCK_SIZE = 64


def seconds_of(directory):
    """Return the time of the fastest step except the first."""
    lines = (directory / "metrics.jsonl").read_text().splitlines()
    times = [json.loads(line)["step_time_s"] for line in lines if "step_time_s" in line]
    return min(times[1:])


def describe(chosen):
    """Describe the configuration chosen by the planner."""
    text = f"{chosen['optimizer']} in {chosen['precision']}"
    if chosen["recomputed_values"]:
        text += f", {chosen['recomputed_values']} tensors recomputed"
    if chosen["offloaded"]:
        text += f", offloaded: a step reads {chosen['file_reads'] / 1e9:.1f} GB and writes {chosen['file_writes'] / 1e9:.1f} GB"
    return text


def predicted(arguments, budget):
    command = [arguments.eitp, "plan", "--init", arguments.init, "--vocab-size", str(GPT2_VOCABULARY), "--json"]
    command += ["--block-size", str(BLOCK_SIZE)]
    command += ["--memory-budget", budget, "--offload", "auto"] if budget else []
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    chosen = json.loads(done.stdout)["chosen"]
    return chosen["nominal_seconds"], describe(chosen)


def run(arguments, work, text, budget):
    out = work / "run"
    shutil.rmtree(out, ignore_errors=True)
    command = [arguments.eitp, "train", "--init", arguments.init, "--data", text, "--output-dir", str(out), "--json", "-q"]
    command += ["--vocab-size", str(GPT2_VOCABULARY), "--block-size", str(BLOCK_SIZE)]
    command += ["--steps", str(arguments.steps), "--eval-windows", "1", "--eval-steps", "0", "--val-fraction", "0.02"]
    command += ["--memory-budget", budget, "--offload", "auto"] if budget else []
    limit = memory.bytes_of(budget) if budget else 0
    done = subprocess.run(
        command, capture_output=True, text=True, check=True, preexec_fn=memory.enter_group(arguments.cgroup, limit)
    )
    seconds = seconds_of(out)
    shutil.rmtree(out, ignore_errors=True)
    return seconds, json.loads(done.stdout)["peak_rss_bytes"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--eitp", default="build/eitp")
    parser.add_argument("--init", default="gpt2")
    parser.add_argument("--budgets", default="1650M,1G,800M,650M,400M")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--cgroup")
    parser.add_argument("--data", required=True)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    work = pathlib.Path(tempfile.mkdtemp())
    budgets = ["", *arguments.budgets.split(",")]
    plans = {budget: predicted(arguments, budget) for budget in budgets}
    times, peaks = {budget: [] for budget in budgets}, {}
    for _ in range(arguments.rounds):
        for budget in budgets:
            seconds, peaks[budget] = run(arguments, work, arguments.data, budget)
            times[budget].append(seconds)
    rows = [
        {
            "budget": budget or "none",
            "chosen": plans[budget][1],
            "best_seconds": min(times[budget]),
            "ratio": statistics.median(a / b for a, b in zip(times[budget], times[""])),
            "predicted_ratio": plans[budget][0] / plans[""][0],
            "peak_bytes": peaks[budget],
        }
        for budget in budgets
    ]
    if arguments.json:
        print(json.dumps({**reports.header("ladder"), "model": arguments.init, "rows": rows}, indent=1))
        return
    for row in rows:
        print(
            f"{row['budget']:7} {row['chosen']:40} best step {row['best_seconds']:.2f} s, {row['ratio']:.2f} times the"
            f" first (predicted {row['predicted_ratio']:.2f}), peak {row['peak_bytes'] / 1e6:.1f} MB"
        )


if __name__ == "__main__":
    main()
