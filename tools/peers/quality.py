#!/usr/bin/env python3
"""Compare the final validation loss of the optimizers, over several seeds.

    python3 tools/peers/quality.py --data TEXT... [--tokenizer DIR] [--init SHAPE] [--steps 500] [--seeds 3] [--lr 1e-3]
                                   [--batch-size 8] [--block-size 128] [--optimizers adamw,adamw8,...] [--eitp build/eitp]
                                   [--json]

Trains the same model from random weights with each optimizer and each seed (for weights and order). Prints the losses of
each optimizer, their mean, its difference from the first optimizer's, and the spread over seeds. --init is the name of a
shape or a config.json with the vocabulary size of the tokenizer.
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
import report as reports  # noqa: E402


def train(arguments, work, optimizer, seed):
    """Return the final validation loss of one run."""
    out = work / "run"
    shutil.rmtree(out, ignore_errors=True)
    command = [arguments.eitp, "train", "--init", arguments.init, "--output-dir", out, "--json", "-q"]
    for path in arguments.data:
        command += ["--data", path]
    if arguments.tokenizer:
        command += ["--tokenizer", arguments.tokenizer]
    command += ["--optimizer", optimizer, "--seed", seed, "--steps", arguments.steps, "--lr", arguments.lr]
    command += ["--batch-size", arguments.batch_size, "--block-size", arguments.block_size, "--grad-accum", 1]
    command += ["--lr-schedule", "cosine", "--warmup-steps", arguments.steps // 10, "--eval-steps", 0]
    command += ["--save-steps", 0, "--val-fraction", "0.03", "--eval-windows", 256]
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, check=True)
    shutil.rmtree(out, ignore_errors=True)
    return json.loads(done.stdout)["val_loss"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", nargs="+", required=True)
    parser.add_argument("--tokenizer")
    parser.add_argument("--init", default="tiny")
    parser.add_argument("--steps", type=int, default=500)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--batch-size", type=int, default=8)
    parser.add_argument("--block-size", type=int, default=128)
    parser.add_argument("--optimizers", default="adamw,adamw8,adamw8-sr,factored")
    parser.add_argument("--eitp", default="build/eitp")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    work = pathlib.Path(tempfile.mkdtemp())
    rows = []
    for optimizer in arguments.optimizers.split(","):
        losses = [train(arguments, work, optimizer, seed) for seed in range(1, arguments.seeds + 1)]
        mean = statistics.mean(losses)
        row = {
            "optimizer": optimizer,
            "losses": losses,
            "mean": mean,
            "difference_percent": 100 * (mean / (rows[0]["mean"] if rows else mean) - 1),
            "seeds_percent": 100 * (max(losses) - min(losses)) / mean,
        }
        rows.append(row)
        if not arguments.json:
            print(
                f"{optimizer:10} {' '.join(f'{loss:.4f}' for loss in losses)}  mean {mean:.4f}"
                f"  {row['difference_percent']:+.2f} %  seeds apart {row['seeds_percent']:.2f} %",
                flush=True,
            )
    if arguments.json:
        print(json.dumps({**reports.header("quality"), "rows": rows}, indent=1))


if __name__ == "__main__":
    main()
