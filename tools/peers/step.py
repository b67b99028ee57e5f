#!/usr/bin/env python3
"""Compare a training step of eitp with the same step in PyTorch, alternating on this machine.

    python3 tools/peers/step.py [--modes eitp-fp32,fp32,fp32+compile,...] [--rounds 3] [--steps 5] [--batch 4]
                                [--block 64] [--shape gpt2|qwen2-0.5b] [--lora-rank 0] [--threads 2] [--warmup 1]
                                [--reference fp32] [--eitp build/eitp] [--timeout 600] [--device cpu|cuda] [--json]

A step trains GPT-2 124M, or Qwen2 0.5B, on batch x block random tokens: forward, backward, clipping, AdamW. With --lora-rank,
only adapters on all linear layers are trained. The modes:

    eitp-fp32, eitp-bf16, eitp-fp16      eitp bench step --precision
    fp32, autocast, bf16                 PyTorch: fp32; bf16 autocast with fp32 weights; bf16 throughout
    ...+compile                          each of these with torch.compile, which needs a C++ compiler

Each round runs each mode once, in a separate process, so that changes of the machine's speed affect all of them. A mode that
fails or exceeds --timeout (for example bf16 throughout on processors without instructions for it) is reported and excluded.
The table has the best of all rounds, and "ratio", the speed relative to the reference. --json adds the medians of the steps,
and of the ratios within rounds. Run it on an idle machine.

Waiting threads spin for milliseconds by default, which makes steps many times slower on a busy machine. The command eitp
sets GOMP_SPINCOUNT=1000 for itself, and this script sets it for PyTorch, unless it is already set.

It needs `pip install torch transformers numpy`, and eitp as built by `make`.
"""

import argparse
import json
import os
import pathlib
import platform
import statistics
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import report as reports  # noqa: E402

HERE = pathlib.Path(__file__).resolve().parent
MODES = (
    "eitp-fp32",
    "fp32",
    "fp32+compile",
    "eitp-bf16",
    "autocast",
    "autocast+compile",
    "bf16",
    "bf16+compile",
)
KNOWN = MODES + ("eitp-fp16",)


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--modes", default=",".join(MODES))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--block", type=int, default=64)
    parser.add_argument("--shape", choices=("gpt2", "qwen2-0.5b"), default="gpt2")
    parser.add_argument("--lora-rank", type=int, default=0)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--reference", default="fp32")
    parser.add_argument("--eitp", type=pathlib.Path, default=HERE.parent.parent / "build" / "eitp")
    parser.add_argument("--warmup", type=int, default=1, help="warm-up steps; always 1 for eitp")
    parser.add_argument("--timeout", type=int, default=600, help="maximum seconds of a mode in a round")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--json", action="store_true", help="print everything as one JSON object instead of a table")
    arguments = parser.parse_args()
    arguments.modes = [mode for mode in arguments.modes.split(",") if mode]
    for mode in arguments.modes:
        if mode not in KNOWN:
            parser.error(f"unknown mode '{mode}'; choose from {', '.join(KNOWN)}")
    for name in ("rounds", "steps", "batch", "block", "threads", "timeout"):
        if getattr(arguments, name) < 1:
            parser.error(f"--{name} must be at least 1")
    return arguments


def command_of(mode, arguments):
    if mode.startswith("eitp-"):
        return [
            str(arguments.eitp), "bench", "step", "--json", "--quiet", "--model", arguments.shape, "--grad-accum", "1",
            "--precision", mode.removeprefix("eitp-"), "--steps", str(arguments.steps),
            "--batch-size", str(arguments.batch), "--block-size", str(arguments.block),
            "--threads", str(arguments.threads), "--device", arguments.device,
        ] + (["--lora-rank", str(arguments.lora_rank), "--lora-targets", "all-linear"] if arguments.lora_rank else [])
    dtype, _, compiled = mode.partition("+")
    return [
        sys.executable, str(HERE / "pytorch_step.py"), "--dtype", dtype, "--steps", str(arguments.steps),
        "--warmup", str(arguments.warmup), "--shape", arguments.shape, "--lora-rank", str(arguments.lora_rank),
        "--batch", str(arguments.batch), "--block", str(arguments.block), "--threads", str(arguments.threads), "--device", arguments.device,
    ] + (["--compile"] if compiled else [])


def seconds_of(mode, result):
    """Return the median and the best step of a result, and the peak memory."""
    if mode.startswith("eitp-"):
        at = result["name"].index("step")
        return result["median_seconds"][at], result["seconds"][at], result["peak_rss_bytes"]
    return result["step_seconds_median"], result["step_seconds_best"], result["peak_rss_bytes"]


def run_mode(mode, arguments):
    """Return the output of a mode and the reason for its failure; one of them is None."""
    environment = dict(os.environ)
    if "OMP_WAIT_POLICY" not in environment:
        environment.setdefault("GOMP_SPINCOUNT", "1000")
    try:
        done = subprocess.run(
            command_of(mode, arguments), capture_output=True, text=True, timeout=arguments.timeout, env=environment
        )
    except OSError as error:
        return None, str(error)
    except subprocess.TimeoutExpired:
        return None, f"timed out after {arguments.timeout} s"
    if done.returncode:
        lines = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
        return None, lines[-1][:200]
    return json.loads(done.stdout.strip().splitlines()[-1]), None


def measure(arguments):
    """Return a list of (median, best, memory, result) per mode, one for each round, and the failures."""
    runs, failures = {mode: [] for mode in arguments.modes}, {}
    for number in range(arguments.rounds):
        for mode in arguments.modes:
            if mode in failures:
                continue
            print(f"round {number + 1} of {arguments.rounds}: {mode}", file=sys.stderr)
            result, why = run_mode(mode, arguments)
            if why is None:
                runs[mode].append((*seconds_of(mode, result), result))
            else:
                failures[mode] = why
                print(f"{mode} is excluded: {why}", file=sys.stderr)
    return {mode: done for mode, done in runs.items() if done and mode not in failures}, failures


def summarize(runs, arguments):
    tokens, reference, rows = arguments.batch * arguments.block, runs.get(arguments.reference), []
    for mode, done in runs.items():
        median, best = statistics.median(run[0] for run in done), min(run[1] for run in done)
        row = {
            "mode": mode,
            "step_seconds_median": median,
            "step_seconds_best": best,
            "tokens_per_s": tokens / median,
            "tokens_per_s_best": tokens / best,
            "peak_rss_bytes": max(run[2] for run in done),
            "ratio": None,
            "ratio_best": None,
        }
        if reference:
            row["ratio"] = statistics.median(one[0] / other[0] for one, other in zip(reference, done))
            row["ratio_best"] = min(run[1] for run in reference) / best
        rows.append(row)
    return rows


def versions(runs):
    found = {"python": platform.python_version()}
    for done in runs.values():
        for name in ("torch", "transformers", "version", "device"):
            if name in done[0][3]:
                found["eitp" if name == "version" else name] = done[0][3][name]
    return found


def print_table(report):
    print(f"{report['date']}, {report['machine']}, {report['threads']} threads")
    print(", ".join(f"{name} {value}" for name, value in report["versions"].items()))
    lora = f" with adapters of rank {report['lora_rank']}" if report["lora_rank"] else ""
    print(f"{report['shape']}{lora}, {report['batch']} x {report['block']} tokens per step,", end=" ")
    print(f"{report['rounds']} rounds of {report['steps']} steps")
    print()
    print(f"| {'mode':18} |      ms | tokens/s | peak GB | ratio |")
    print(f"|{'-' * 20}|--------:|---------:|--------:|------:|")
    for row in report["rows"]:
        ratio = f"{row['ratio_best']:.2f}" if row["ratio_best"] else "-"
        print(
            f"| {row['mode']:18} | {1e3 * row['step_seconds_best']:7.1f} | {row['tokens_per_s_best']:8.1f} "
            f"| {row['peak_rss_bytes'] / 1e9:7.2f} | {ratio:>5} |"
        )
    for mode, why in report["failures"].items():
        print(f"\n{mode} failed: {why}")
    print(f"\nbest of all rounds; ratio: speed relative to {report['reference']}")


def main():
    arguments = parse_arguments()
    runs, failures = measure(arguments)
    report = {
        **reports.header("step"),
        "versions": versions(runs),
        "rows": summarize(runs, arguments),
        "failures": failures,
    }
    for name in ("shape", "lora_rank", "batch", "block", "steps", "rounds", "threads", "reference"):
        report[name] = getattr(arguments, name)
    if arguments.json:
        print(json.dumps(report))
    else:
        print_table(report)
    return 0 if runs else 1


if __name__ == "__main__":
    sys.exit(main())
