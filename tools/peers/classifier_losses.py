#!/usr/bin/env python3
"""Fine-tune one classifier with transformers and with eitp, batch for batch, and compare the losses of each step.

    python3 tools/peers/sentiment_data.py DATA
    python3 tools/peers/classifier_losses.py DATA --model DIRECTORY [--eitp build/eitp] [--set amazon] [--steps 50]

Both start from weights written by transformers, including a random classifier, without dropout, and read the samples in
order: AdamW 5e-5, weight decay 0.01, 10 % warm-up, linear decay, 16 samples of at most 64 tokens per step, clipping at 1.0,
fp32. Fails if a loss differs by more than 1e-4, relative, or if transformers cannot open eitp's model with the same scores.
Prints one line of JSON.
"""

import argparse
import csv
import json
import math
import pathlib
import shutil
import subprocess

TOLERANCE = 1e-4
RATE, DECAY, WARMUP, BATCH, LENGTH, CLIP = 5e-5, 0.01, 0.1, 16, 64, 1.0
LABELS = ["neg", "pos"]


def prepare(directory, work):
    import torch
    import transformers

    transformers.logging.set_verbosity_error()
    torch.manual_seed(1)
    tokenizer = transformers.AutoTokenizer.from_pretrained(directory)
    model = transformers.AutoModelForSequenceClassification.from_pretrained(
        directory,
        id2label=dict(enumerate(LABELS)),
        label2id={label: i for i, label in enumerate(LABELS)},
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
        classifier_dropout=0.0,
    )
    model.save_pretrained(work / "start")
    tokenizer.save_pretrained(work / "start")
    return tokenizer, model


def read(path, count):
    with open(path, newline="", encoding="utf-8") as file:
        rows = [(row["text"], LABELS.index(row["label"])) for row in csv.DictReader(file)]
    return rows[:count]


def factor(step, warmup, steps):
    """Return the rate of transformers' linear schedule, but with a rate above 0 in the first step."""
    return (step + 1) / warmup if step < warmup else (steps - step) / (steps - warmup)


def train_transformers(tokenizer, model, rows, steps):
    import torch

    decayed = [p for n, p in model.named_parameters() if p.ndim > 1]
    others = [p for n, p in model.named_parameters() if p.ndim == 1]
    groups = [{"params": decayed, "weight_decay": DECAY}, {"params": others, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=RATE)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: factor(step, math.ceil(WARMUP * steps), steps))
    losses = []
    for step in range(steps):
        chosen = rows[step * BATCH : (step + 1) * BATCH]
        inputs = tokenizer([text for text, _ in chosen], truncation=True, max_length=LENGTH, padding=True, return_tensors="pt")
        loss = model(**inputs, labels=torch.tensor([label for _, label in chosen])).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    return losses


def train_eitp(eitp, data, work, steps):
    with open(work / "rows.csv", "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["text", "label"])
        writer.writerows((text, LABELS[label]) for text, label in data)
    settings = ["--steps", steps, "--batch-size", BATCH, "--grad-accum", 1, "--block-size", LENGTH, "--lr", RATE]
    settings += ["--weight-decay", DECAY, "--warmup-ratio", WARMUP, "--lr-schedule", "linear", "--max-grad-norm", CLIP]
    settings += ["--precision", "fp32", "--shuffle", "none", "--val-fraction", 0, "--eval", "no", "--output-dir", work / "out", "-q"]
    command = [eitp, "train", "--task", "classify", "--model", work / "start", "--data", work / "rows.csv", *settings]
    subprocess.run([str(part) for part in command], check=True)
    lines = [json.loads(line) for line in (work / "out" / "metrics.jsonl").read_text().splitlines()]
    return [line["loss"] for line in lines if "loss" in line]


def compare_scores(tokenizer, model, directory, rows):
    """Return the largest difference of logits between the trained models, and the names missing in transformers."""
    import torch
    import transformers

    opened, info = transformers.AutoModelForSequenceClassification.from_pretrained(directory, output_loading_info=True)
    inputs = tokenizer([text for text, _ in rows[:64]], truncation=True, max_length=LENGTH, padding=True, return_tensors="pt")
    model.eval()
    opened.eval()
    with torch.no_grad():
        difference = (model(**inputs).logits - opened(**inputs).logits).abs().max().item()
    names = [*info["missing_keys"], *info["unexpected_keys"]]
    labels = [opened.config.id2label[i] for i in range(len(LABELS))]
    return difference, names, labels


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("data", type=pathlib.Path)
    parser.add_argument("--model", required=True)
    parser.add_argument("--eitp", default="build/eitp")
    parser.add_argument("--set", default="amazon")
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--work", type=pathlib.Path, default=pathlib.Path("build/parity/classifier"))
    arguments = parser.parse_args()
    shutil.rmtree(arguments.work, ignore_errors=True)
    arguments.work.mkdir(parents=True)
    rows = read(arguments.data / f"{arguments.set}-train.csv", arguments.steps * BATCH)
    tokenizer, model = prepare(arguments.model, arguments.work)
    theirs = train_transformers(tokenizer, model, rows, arguments.steps)
    ours = train_eitp(arguments.eitp, rows, arguments.work, arguments.steps)
    differences = [abs(a - b) / abs(a) for a, b in zip(theirs, ours, strict=True)]
    logits, names, labels = compare_scores(tokenizer, model, arguments.work / "out" / "latest_model", rows)
    result = {"steps": len(ours), "first_loss": theirs[0], "last_loss": theirs[-1]}
    result["largest_difference"] = {n: max(differences[:n]) for n in (20, arguments.steps)}
    result |= {"logits_difference": logits, "missing_or_unexpected": names, "labels": labels}
    print(json.dumps(result))
    return int(max(differences) > TOLERANCE or bool(names) or labels != LABELS)


raise SystemExit(main())
