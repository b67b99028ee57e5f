#!/usr/bin/env python3
"""Compare the speed of `eitp predict` and `eitp embed` with transformers, alternating on the same inputs.

    python3 tools/peers/predict_speed.py --model DIRECTORY --data FILE [--task predict|embed] [--modes eitp-fp32,fp32,...]
                                         [--rounds 3] [--batch 32] [--max-length 128] [--threads N] [--eitp build/eitp] [--json]

FILE has one input per line. For predict, a DIRECTORY without a classifier gets a random one with two labels. The modes:

    eitp-fp32, eitp-bf16   the command, with --precision
    fp32, autocast, bf16   transformers: fp32; bf16 autocast with fp32 weights; bf16 throughout. predict: the
                           text-classification pipeline; embed: AutoModel, the mean of the hidden states, normalized
    ...+compile            each of these with torch.compile and dynamic shapes

transformers gets the inputs sorted by length, in batches of --batch, each padded to its longest input. Each round runs each
mode once, in a separate process. "whole" is the time of the process, including the loading of transformers' libraries.
"inside" is the time of the inputs alone, after the model is loaded and, in transformers, after a pass over all inputs to warm
up and compile. "ratio" is the speed relative to --reference in the same round, the median over rounds, inside and whole. Run it
on an idle machine. It needs `pip install torch transformers numpy`, and eitp as built by `make`.
"""

import argparse
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import report as reports  # noqa: E402

HERE = pathlib.Path(__file__).resolve().parent
MODES = ("eitp-fp32", "fp32", "fp32+compile", "eitp-bf16", "autocast", "autocast+compile", "bf16")
KNOWN = MODES + ("bf16+compile",)


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=pathlib.Path, required=True)
    parser.add_argument("--data", type=pathlib.Path, required=True)
    parser.add_argument("--task", choices=("predict", "embed"), default="predict")
    parser.add_argument("--modes", default=",".join(MODES))
    parser.add_argument("--reference", default="fp32")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--max-length", type=int, default=128)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--eitp", type=pathlib.Path, default=HERE.parent.parent / "build" / "eitp")
    parser.add_argument("--timeout", type=int, default=1800, help="maximum seconds of a mode in a round")
    parser.add_argument("--json", action="store_true", help="print everything as one JSON object instead of a table")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    arguments.modes = [mode for mode in arguments.modes.split(",") if mode]
    for mode in arguments.modes:
        if mode not in KNOWN:
            parser.error(f"unknown mode '{mode}'; choose from {', '.join(KNOWN)}")
    return arguments


# ---- In a separate process: transformers ----


def in_batches(texts, size):
    return [texts[start : start + size] for start in range(0, len(texts), size)]


def make_predict(model, tokenizer, arguments):
    import transformers

    pipe = transformers.pipeline("text-classification", model=model, tokenizer=tokenizer, device="cpu", top_k=None)
    return lambda texts: pipe(texts, batch_size=arguments.batch, truncation=True, max_length=arguments.max_length)


def make_embed(model, tokenizer, arguments):
    import torch

    def embed(texts):
        results = []
        for batch in in_batches(texts, arguments.batch):
            inputs = tokenizer(batch, padding=True, truncation=True, max_length=arguments.max_length, return_tensors="pt")
            hidden, mask = model(**inputs).last_hidden_state, inputs["attention_mask"][:, :, None]
            mean = (hidden * mask).sum(1) / mask.sum(1)
            results.extend(torch.nn.functional.normalize(mean.float(), dim=1).tolist())
        return results

    return embed


def work(arguments):
    """Compute all inputs twice in the mode `worker` and print the time of the second pass."""
    import torch
    import transformers

    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    torch.set_num_threads(arguments.threads)
    kind, _, compiled = arguments.worker.partition("+")
    classes = {"predict": transformers.AutoModelForSequenceClassification, "embed": transformers.AutoModel}
    dtype = torch.bfloat16 if kind == "bf16" else torch.float32
    model = classes[arguments.task].from_pretrained(arguments.model, dtype=dtype).eval()
    if compiled:
        model.forward = torch.compile(model.forward, dynamic=True)
    tokenizer = transformers.AutoTokenizer.from_pretrained(arguments.model)
    # The order with the least padding in transformers; by string length, because nothing is encoded yet.
    texts = sorted(arguments.data.read_text(encoding="utf-8").splitlines(), key=len, reverse=True)
    compute = {"predict": make_predict, "embed": make_embed}[arguments.task](model, tokenizer, arguments)
    with torch.inference_mode(), torch.autocast("cpu", torch.bfloat16, enabled=kind == "autocast"):
        compute(texts)
        began = time.perf_counter()
        count = len(compute(texts))
        seconds = time.perf_counter() - began
    versions = {"torch": torch.__version__, "transformers": transformers.__version__}
    print(json.dumps({"inside": seconds, "texts": count, **versions}))


# ---- Alternating ----


def command_of(mode, arguments):
    if not mode.startswith("eitp-"):
        options = ["--task", arguments.task, "--batch", arguments.batch, "--max-length", arguments.max_length]
        words = [sys.executable, HERE / "predict_speed.py", "--worker", mode, "--threads", arguments.threads, *options]
        return [*words, "--model", arguments.model, "--data", arguments.data]
    words = [arguments.eitp, arguments.task, "--json", "--precision", mode.removeprefix("eitp-")]
    return [*words, "--threads", arguments.threads, "--max-length", arguments.max_length,
            "--model", arguments.model, "--data", arguments.data]


def run_mode(mode, arguments):
    """Return (whole seconds, inside seconds, number of inputs, other results), or the reason for a failure."""
    environment = dict(os.environ)
    environment.setdefault("GOMP_SPINCOUNT", "1000")
    began = time.perf_counter()
    try:
        done = subprocess.Popen([str(word) for word in command_of(mode, arguments)], stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, text=True, env=environment)
        output, said = done.communicate(timeout=arguments.timeout)
    except OSError as error:
        return str(error)
    except subprocess.TimeoutExpired:
        done.kill()
        done.communicate()
        return f"timed out after {arguments.timeout} s"
    whole = time.perf_counter() - began
    if done.returncode:
        return (said.strip().splitlines() or [f"exit code {done.returncode}"])[-1][:200]
    if not mode.startswith("eitp-"):
        result = json.loads(output.strip().splitlines()[-1])
        # The process computed all inputs twice.
        return whole - result["inside"], result["inside"], result["texts"], result
    found = re.search(r"^(\d+) inputs, (\d+) tokens, ([0-9.]+) s", said, re.MULTILINE)
    return whole, float(found[3]), output.count("\n"), {"tokens": int(found[2])}


def measure(arguments):
    runs, failures = {mode: [] for mode in arguments.modes}, {}
    for number in range(arguments.rounds):
        for mode in arguments.modes:
            if mode in failures:
                continue
            print(f"round {number + 1} of {arguments.rounds}: {mode}", file=sys.stderr)
            result = run_mode(mode, arguments)
            if isinstance(result, str):
                failures[mode] = result
                print(f"{mode} is excluded: {result}", file=sys.stderr)
            else:
                runs[mode].append(result)
    return {mode: done for mode, done in runs.items() if done and mode not in failures}, failures


def summarize(runs, arguments):
    reference, rows = runs.get(arguments.reference), []
    for mode, done in runs.items():
        row = {"mode": mode, "texts": done[0][2], "said": done[0][3]}
        for at, name in enumerate(("whole", "inside")):
            row[f"{name}_seconds"] = statistics.median(run[at] for run in done)
            row[f"{name}_texts_per_s"] = done[0][2] / row[f"{name}_seconds"]
            pairs = list(zip(reference or [], done))
            row[f"{name}_ratio"] = statistics.median(one[at] / other[at] for one, other in pairs) if pairs else None
        rows.append(row)
    return rows


def print_table(report):
    print(f"{report['date']}, {report['machine']}, {report['threads']} threads")
    print(f"{report['task']}, {report['model']}, at most {report['max_length']} tokens, batches of {report['batch']}\n")
    print(f"| {'mode':18} | texts/s inside | ratio | texts/s whole | ratio |")
    print(f"|{'-' * 20}|---------------:|------:|--------------:|------:|")
    for row in report["rows"]:
        ratios = [f"{row[name]:.2f}" if row[name] else "-" for name in ("inside_ratio", "whole_ratio")]
        print(f"| {row['mode']:18} | {row['inside_texts_per_s']:14.1f} | {ratios[0]:>5} "
              f"| {row['whole_texts_per_s']:13.1f} | {ratios[1]:>5} |")
    for mode, why in report["failures"].items():
        print(f"\n{mode} failed: {why}")
    print(f"\nratio: speed relative to {report['reference']}, in the same round")


def with_classifier(model, directory):
    """Return the model, or a copy of it with a random classifier."""
    classes = json.loads((model / "config.json").read_text(encoding="utf-8")).get("architectures") or [""]
    if "SequenceClassification" in classes[0]:
        return model
    import transformers

    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    transformers.AutoModelForSequenceClassification.from_pretrained(model, num_labels=2).save_pretrained(directory)
    transformers.AutoTokenizer.from_pretrained(model).save_pretrained(directory)
    return pathlib.Path(directory)


def main():
    arguments = parse_arguments()
    if arguments.worker:
        return work(arguments)
    named = str(arguments.model)
    with tempfile.TemporaryDirectory() as directory:
        if arguments.task == "predict":
            arguments.model = with_classifier(arguments.model, directory)
        runs, failures = measure(arguments)
    report = {**reports.header("predict"), "rows": summarize(runs, arguments), "failures": failures, "model": named}
    for name in ("task", "batch", "max_length", "rounds", "threads", "reference"):
        report[name] = getattr(arguments, name)
    if arguments.json:
        print(json.dumps(report))
    else:
        print_table(report)
    return 0 if runs else 1


if __name__ == "__main__":
    sys.exit(main())
