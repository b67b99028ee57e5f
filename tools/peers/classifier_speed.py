#!/usr/bin/env python3
"""Compare the speed of fine-tuning a classifier with eitp and PyTorch, alternating on the same sentences.

    python3 tools/peers/sentiment_data.py DATA
    python3 tools/peers/classifier_speed.py DATA --model DIRECTORY [--init bert-base] [--set film] [--shape 1x128x16]
        [--fill] [--modes eitp-fp32,fp32,...] [--rounds 2] [--steps 6] [--warmup 3] [--threads N] [--eitp build/eitp] [--json]

DIRECTORY has the tokenizer and, without --init, the model; --init bert-base trains random weights of that shape. A step
has batch x length x accumulation of --shape: samples per micro-batch, maximum tokens per sample, and micro-batches. --fill
joins the rows of a label until each sample has the full length; otherwise they keep their length. The modes:

    eitp-fp32, eitp-bf16      eitp train --precision: without padding, and with as many micro-batches per pass as fit
    eitp-fp32+padded, ...     eitp, each sample repeated to the full length: the cost of padding to the length
    fp32, autocast            transformers in fp32, and in bf16 autocast with fp32 weights: each micro-batch padded to its
                              longest sample, without a mask if nothing is padded; fused AdamW
    ...+compile               each of these with torch.compile and dynamic shapes

All train on the same samples in the same order, with the model's dropout, clipping and AdamW, after --warmup steps. Samples
are encoded beforehand. Speed counts real tokens: no padding or repetition. Each round runs each mode once, in a separate
process. Speeds are the best of all rounds. "ratio" is relative to the fastest PyTorch mode. Run it on an idle machine. It
needs `pip install torch transformers numpy`, a C++ compiler, and eitp as built by `make`.
"""

import argparse
import csv
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import report as reports  # noqa: E402

HERE = pathlib.Path(__file__).resolve().parent
MODES = ("eitp-fp32", "fp32", "fp32+compile", "eitp-bf16", "autocast", "autocast+compile")
KNOWN = MODES + ("eitp-fp32+padded", "eitp-bf16+padded")
INIT = {"bert-base": {}, "minilm": {"hidden_size": 384, "num_hidden_layers": 6, "intermediate_size": 1536}}
LABELS = ["neg", "pos"]


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=pathlib.Path)
    parser.add_argument("--model", type=pathlib.Path, required=True)
    parser.add_argument("--init", choices=tuple(INIT))
    parser.add_argument("--set", default="film")
    parser.add_argument("--shape", default="1x128x16")
    parser.add_argument("--fill", action="store_true")
    parser.add_argument("--modes", default=",".join(MODES))
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--warmup", type=int, default=3)
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
    arguments.batch, arguments.length, arguments.accumulation = (int(n) for n in arguments.shape.split("x"))
    return arguments


# ---- Samples ----


def read_rows(path):
    with open(path, newline="", encoding="utf-8") as file:
        return [(row["text"], row["label"]) for row in csv.DictReader(file)]


def encode(tokenizer, rows, length):
    return tokenizer([text for text, _ in rows], truncation=True, max_length=length)["input_ids"]


def fill(tokenizer, rows, length):
    """Join the samples of each label until they have the full length."""
    filled = []
    for label in LABELS:
        joined = ""
        for text, _ in (row for row in rows if row[1] == label):
            joined = f"{joined} {text}" if joined else text
            if len(tokenizer(joined)["input_ids"]) >= length:
                filled.append((joined, label))
                joined = ""
    # Alternate the labels.
    return [row for pair in zip(filled[: len(filled) // 2], filled[len(filled) // 2 :]) for row in pair]


def choose_rows(tokenizer, arguments):
    """Return the samples of all steps, starting over if there are too few."""
    rows = read_rows(arguments.data / f"{arguments.set}-train.csv")
    if arguments.fill:
        rows = fill(tokenizer, rows, arguments.length)
    count = arguments.batch * arguments.accumulation * (arguments.warmup + arguments.steps)
    return [rows[i % len(rows)] for i in range(count)]


def repeat(tokenizer, rows, length):
    """Return each sample, repeated to the full length."""
    repeated = []
    for text, label in rows:
        tokens = max(1, len(tokenizer(text, add_special_tokens=False)["input_ids"]))
        repeated.append((" ".join([text] * -(-length // tokens)), label))
    return repeated


def write_rows(path, rows):
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["text", "label"])
        writer.writerows(rows)


# ---- In a separate process: PyTorch ----


def make_batch(tokenizer, ids, labels):
    """Return the tensors of a micro-batch, padded to its longest sample."""
    import torch

    longest = max(len(text) for text in ids)
    inputs = {"input_ids": torch.full((len(ids), longest), tokenizer.pad_token_id)}
    for row, text in zip(inputs["input_ids"], ids):
        row[: len(text)] = torch.tensor(text)
    if any(len(text) < longest for text in ids):
        lengths = torch.tensor([len(text) for text in ids])
        inputs["attention_mask"] = (torch.arange(longest) < lengths[:, None]).long()
    return inputs, torch.tensor(labels)


def train_step(model, optimizer, batches):
    import torch

    optimizer.zero_grad(set_to_none=True)
    for inputs, labels in batches:
        loss = torch.nn.functional.cross_entropy(model(**inputs).logits.float(), labels) / len(batches)
        loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()


def work(arguments):
    """Train in the mode `worker` and print the seconds of each step."""
    import torch
    import transformers

    transformers.logging.set_verbosity_error()
    torch.set_num_threads(arguments.threads)
    kind, _, compiled = arguments.worker.partition("+")
    tokenizer = transformers.AutoTokenizer.from_pretrained(arguments.model)
    model = transformers.AutoModelForSequenceClassification.from_pretrained(arguments.model, num_labels=2).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-5, weight_decay=0.01, fused=True)
    run = torch.compile(model, dynamic=True) if compiled else model
    rows = read_rows(arguments.data)
    ids = encode(tokenizer, rows, arguments.length)
    labels = [LABELS.index(label) for _, label in rows]
    seconds, size = [], arguments.batch * arguments.accumulation
    for first in range(0, len(rows), size):
        began = time.perf_counter()
        parts = [slice(at, at + arguments.batch) for at in range(first, first + size, arguments.batch)]
        with torch.autocast("cpu", torch.bfloat16, enabled=kind == "autocast"):
            train_step(run, optimizer, [make_batch(tokenizer, ids[part], labels[part]) for part in parts])
        seconds.append(time.perf_counter() - began)
    print(json.dumps({"seconds": seconds, "torch": torch.__version__, "transformers": transformers.__version__}))


# ---- Alternating ----


def command_of(mode, work_directory, arguments):
    data = work_directory / ("padded.csv" if mode.endswith("+padded") else "rows.csv")
    if not mode.startswith("eitp-"):
        words = [sys.executable, HERE / "classifier_speed.py", data, "--worker", mode, "--threads", arguments.threads]
        return [*words, "--model", work_directory / "model", "--shape", arguments.shape]
    settings = ["--precision", mode.removeprefix("eitp-").removesuffix("+padded"), "--threads", arguments.threads]
    settings += ["--batch-size", arguments.batch, "--grad-accum", arguments.accumulation, "--block-size", arguments.length]
    settings += ["--steps", arguments.warmup + arguments.steps, "--lr", 2e-5, "--max-grad-norm", 1, "--optimizer", "adamw"]
    settings += ["--shuffle", "none", "--val-fraction", 0, "--eval", "no", "--save-steps", 0, "-q"]
    words = [arguments.eitp, "train", "--task", "classify", "--model", work_directory / "model", "--data", data]
    return [*words, *settings, "--output-dir", work_directory / "out"]


def run_mode(mode, work_directory, arguments):
    """Return the seconds of each step and the versions, or the reason for a failure."""
    environment = dict(os.environ)
    environment.setdefault("GOMP_SPINCOUNT", "1000")
    command = [str(word) for word in command_of(mode, work_directory, arguments)]
    shutil.rmtree(work_directory / "out", ignore_errors=True)
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=arguments.timeout, env=environment)
    except OSError as error:
        return str(error)
    except subprocess.TimeoutExpired:
        return f"timed out after {arguments.timeout} s"
    if done.returncode:
        return (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1][:200]
    if not mode.startswith("eitp-"):
        return json.loads(done.stdout.strip().splitlines()[-1])
    lines = (work_directory / "out" / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    steps = [step for step in map(json.loads, lines) if "step_time_s" in step]
    return {"seconds": [step["step_time_s"] for step in steps]}


def measure(work_directory, arguments):
    runs, failures = {mode: [] for mode in arguments.modes}, {}
    for number in range(arguments.rounds):
        for mode in arguments.modes:
            if mode in failures:
                continue
            print(f"round {number + 1} of {arguments.rounds}: {mode}", file=sys.stderr)
            result = run_mode(mode, work_directory, arguments)
            if isinstance(result, str):
                failures[mode] = result
                print(f"{mode} is excluded: {result}", file=sys.stderr)
            else:
                runs[mode].append(result["seconds"][arguments.warmup :])
    return {mode: done for mode, done in runs.items() if done and mode not in failures}, failures


def summarize(runs, tokens, arguments):
    """`tokens`: the real tokens of each measured step."""
    speeds = {mode: [sum(tokens) / sum(seconds) for seconds in done] for mode, done in runs.items()}
    peers = [done for mode, done in speeds.items() if not mode.startswith("eitp-")]
    rows = []
    for mode, done in speeds.items():
        row = {"mode": mode, "tokens_per_s": statistics.median(done), "tokens_per_s_best": max(done)}
        row["texts_per_s"] = row["tokens_per_s"] * len(tokens) * arguments.batch * arguments.accumulation / sum(tokens)
        best = [max(peer[i] for peer in peers) for i in range(len(done))] if peers else []
        row["ratio"] = statistics.median(a / b for a, b in zip(done, best)) if best else None
        rows.append(row)
    return rows


def print_table(report):
    print(f"{report['date']}, {report['machine']}, {report['threads']} threads")
    print(f"{report['name']}, steps of {report['shape']}, {report['tokens_per_text']:.1f} tokens per sample, "
          f"{report['rounds']} rounds of {report['steps']} steps\n")
    print(f"| {'mode':18} | tokens/s | texts/s | ratio |")
    print(f"|{'-' * 20}|---------:|--------:|------:|")
    peers = [row["tokens_per_s_best"] for row in report["rows"] if not row["mode"].startswith("eitp-")]
    for row in report["rows"]:
        best = row["tokens_per_s_best"]
        ratio = f"{best / max(peers):.2f}" if peers else "-"
        texts = row["texts_per_s"] * best / row["tokens_per_s"]
        print(f"| {row['mode']:18} | {best:8.1f} | {texts:7.1f} | {ratio:>5} |")
    for mode, why in report["failures"].items():
        print(f"\n{mode} failed: {why}")
    print("\nbest of all rounds; ratio: relative to the fastest PyTorch mode; tokens without padding")


def prepare(work_directory, arguments):
    """Write the model with its classifier, and the rows. Return the real tokens of each measured step."""
    import transformers

    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    tokenizer = transformers.AutoTokenizer.from_pretrained(arguments.model)
    names = {"id2label": dict(enumerate(LABELS)), "label2id": {label: i for i, label in enumerate(LABELS)}}
    if arguments.init:
        config = transformers.BertConfig(**INIT[arguments.init], **names)
        model = transformers.BertForSequenceClassification(config)
    else:
        model = transformers.AutoModelForSequenceClassification.from_pretrained(arguments.model, **names)
    model.save_pretrained(work_directory / "model")
    tokenizer.save_pretrained(work_directory / "model")
    rows = choose_rows(tokenizer, arguments)
    write_rows(work_directory / "rows.csv", rows)
    write_rows(work_directory / "padded.csv", repeat(tokenizer, rows, arguments.length))
    lengths = [len(text) for text in encode(tokenizer, rows, arguments.length)]
    size = arguments.batch * arguments.accumulation
    return [sum(lengths[first : first + size]) for first in range(arguments.warmup * size, len(rows), size)]


def main():
    arguments = parse_arguments()
    if arguments.worker:
        return work(arguments)
    with tempfile.TemporaryDirectory() as directory:
        work_directory = pathlib.Path(directory)
        tokens = prepare(work_directory, arguments)
        runs, failures = measure(work_directory, arguments)
    texts = arguments.batch * arguments.accumulation * len(tokens)
    report = {**reports.header("classifier"), "rows": summarize(runs, tokens, arguments), "failures": failures}
    report |= {"name": arguments.init or str(arguments.model), "tokens_per_text": sum(tokens) / texts}
    for name in ("shape", "fill", "set", "rounds", "steps", "warmup", "threads"):
        report[name] = getattr(arguments, name)
    if arguments.json:
        print(json.dumps(report))
    else:
        print_table(report)
    return 0 if runs else 1


if __name__ == "__main__":
    sys.exit(main())
