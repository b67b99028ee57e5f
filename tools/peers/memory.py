#!/usr/bin/env python3
"""Compare planned with measured peak memory, over many configurations.

    python3 tools/peers/memory.py [--eitp build/eitp] [--filter WORD] [--cgroup DIR] [--work DIR] [--json]

Trains each configuration for one step, with an evaluation before and after it and a checkpoint at the end, in a separate
process. The peak is the kernel's VmHWM (not ru_maxrss, which starts at this process's value). A plan holds if it is not below
the peak and at most 3 % or 8 MB above it, whichever is more. --cgroup names a writable version 1 memory cgroup: runs with a
budget are put there with the budget as the limit, and are killed if they exceed it. Exits with 1 if a plan does not hold.
"""

import argparse
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import report as reports  # noqa: E402

SMALL = {"n_layer": 6, "n_embd": 256, "n_head": 8, "n_positions": 512, "vocab_size": 8000}


# Vocabularies of the shapes, which are larger than that of byte-level text.
VOCABULARIES = {name: 50257 for name in ("tiny", "distilgpt2", "gpt2", "gpt2-medium")}
VOCABULARIES.update({"smollm2-135m": 49152, "gemma-3-270m": 262144, "qwen2-0.5b": 151936})


def shapes(work, eitp, wanted):
    """Return the options that choose a model, by shape name. "NAME+lora" is a model with adapters; its weights are made first."""
    small = dict(SMALL, model_type="gpt2", n_ctx=SMALL["n_positions"])
    path = work / "small.json"
    path.write_text(json.dumps(small))
    chosen = {"small": ["--init", str(path)]}
    for name, vocabulary in VOCABULARIES.items():
        chosen[name] = ["--init", name, "--vocab-size", str(vocabulary)]
    for shape in sorted({shape for shape in wanted if shape.endswith("+lora")}):
        base = work / shape
        command = [eitp, "train", *chosen[shape.removesuffix("+lora")], "--data", work / "text.txt", "--val-fraction", "0", "--steps", "1"]
        command += ["--block-size", "16", "--optimizer", "sgd", "--output-dir", base]
        subprocess.run([str(part) for part in command], check=True, capture_output=True)
        chosen[shape] = ["--model", str(base / "checkpoint-1"), "--lora-rank", "16", "--lora-targets", "all-linear"]
    return chosen


def configurations():
    """Yield (shape, options) of every run."""
    for shape in ("tiny", "small"):
        for precision in ("fp32", "bf16", "fp16"):
            for batch, block in ((1, 64), (4, 128)):
                yield shape, ["--precision", precision, "--batch-size", batch, "--block-size", block]
        for optimizer in ("adamw8", "adamw8-sr"):
            yield shape, ["--optimizer", optimizer]
        for recompute in ("attention", "layer"):
            yield shape, ["--recompute", recompute, "--batch-size", 4, "--block-size", 128]
        yield shape, ["--micro-batches-per-pass", 1, "--batch-size", 2]
        yield shape, ["--micro-batches-per-pass", 2, "--precision", "bf16", "--dropout", 0.1]
    for budget in ("160M", "120M", "90M", "80M"):
        yield "small", ["--memory-budget", budget, "--batch-size", 2, "--block-size", 128]
    for offload in ("states", "all"):
        yield "small", ["--offload", offload, "--batch-size", 2]
        yield "gpt2", ["--offload", offload, "--precision", "bf16", "--optimizer", "adamw8"]
    for precision in ("fp32", "bf16"):
        yield "distilgpt2", ["--precision", precision]
        yield "distilgpt2", ["--precision", precision, "--batch-size", 1, "--block-size", 512, "--grad-accum", 1]
    yield "distilgpt2", ["--optimizer", "adamw8", "--batch-size", 2, "--block-size", 256]
    for budget in ("1650M", "1G", "800M", "650M"):
        yield "gpt2", ["--memory-budget", budget]
    for budget, optimizer in (("240M", "adamw8"), ("260M", "adamw")):
        yield "gpt2", ["--offload", "auto", "--memory-budget", budget, "--optimizer", optimizer]
    yield "gpt2", ["--precision", "fp32"]
    yield "gpt2", ["--micro-batches-per-pass", 1]
    yield "gpt2", ["--precision", "bf16", "--recompute", "layer"]
    yield "gpt2-medium", ["--memory-budget", "2G"]
    for precision in ("fp32", "bf16"):
        yield "smollm2-135m", ["--precision", precision, "--block-size", 512]
        yield "smollm2-135m+lora", ["--precision", precision, "--block-size", 512, "--batch-size", 2]
    for budget in ("4G", "3G"):
        yield "gemma-3-270m", ["--memory-budget", budget, "--batch-size", 1, "--block-size", 1024]
    for budget in ("3G", "2G"):
        yield "gemma-3-270m+lora", ["--memory-budget", budget, "--batch-size", 1, "--block-size", 1024]
    yield "qwen2-0.5b", ["--memory-budget", "6G", "--batch-size", 1, "--block-size", 512, "--grad-accum", 2]
    for budget in ("5G", "3.2G", "2G"):
        yield "qwen2-0.5b+lora", ["--memory-budget", budget, "--batch-size", 1, "--block-size", 512, "--grad-accum", 2]


def bytes_of(text):
    return int(float(text[:-1]) * {"M": 1e6, "G": 1e9}[text[-1]])


def enter_group(group, limit):
    """Prepare a child process before it executes the run."""

    def enter():
        pathlib.Path(group, "cgroup.procs").write_text(str(os.getpid()))

    if not group:
        return None
    pathlib.Path(group, "memory.limit_in_bytes").write_text(str(limit if limit else -1))
    return enter


def run(arguments, work, init, options):
    """Return the run's summary, with the reason in "error" if it failed."""
    out = work / "run"
    shutil.rmtree(out, ignore_errors=True)
    command = [arguments.eitp, "train", *init, "--data", work / "text.txt", "--val-fraction", "0.02"]
    command += ["--eval-windows", "2", "--steps", "1", "--output-dir", out, "--json", *options]
    limit = bytes_of(options[options.index("--memory-budget") + 1]) if "--memory-budget" in options else 0
    done = subprocess.run(
        [str(part) for part in command],
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=enter_group(arguments.cgroup, limit),
    )
    shutil.rmtree(out, ignore_errors=True)
    if done.returncode:
        return {"error": f"exit code {done.returncode}: {done.stderr.strip()[-300:]}"}
    return json.loads(done.stdout)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--eitp", default="build/eitp")
    parser.add_argument("--filter", default="")
    parser.add_argument("--cgroup")
    parser.add_argument("--work", type=pathlib.Path)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    work = arguments.work or pathlib.Path(tempfile.mkdtemp())
    work.mkdir(parents=True, exist_ok=True)
    root = pathlib.Path(__file__).resolve().parent.parent.parent
    text = "".join(path.read_text(encoding="utf-8") for path in sorted(root.glob("docs/*.md"))) * 8
    (work / "text.txt").write_text(text)
    chosen = [(" ".join([shape, *map(str, options)]), shape, options) for shape, options in configurations()]
    chosen = [entry for entry in chosen if arguments.filter in entry[0]]
    inits, results, failed = shapes(work, arguments.eitp, [shape for _, shape, _ in chosen]), [], 0
    for name, shape, options in chosen:
        result = run(arguments, work, inits[shape], [str(option) for option in options])
        if "error" in result:
            failed += 1
            print(f"FAILED {name}: {result['error']}", flush=True)
            continue
        planned, peak = result["planned_bytes"], result["peak_rss_bytes"]
        over = planned - peak
        holds = 0 <= over <= max(0.03 * peak, 8e6)
        failed += not holds
        results.append({"name": name, "planned": planned, "peak": peak, "holds": holds})
        if not arguments.json:
            print(
                f"{'' if holds else 'FAILED '}{name}: planned {planned / 1e6:.1f} MB, peak {peak / 1e6:.1f} MB"
                f" ({over / 1e6:+.1f} MB, {100 * over / peak:+.2f} %)",
                flush=True,
            )
    if arguments.json:
        print(json.dumps({**reports.header("memory"), "rows": results}, indent=1))
        sys.exit(1 if failed else 0)
    print(f"{len(results)} measured, {failed} do not hold")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
