#!/usr/bin/env python3
"""Write the losses of 50 fine-tuning steps with transformers: tests/golden/classification/losses.txt, or the file given.

    python3 tools/golden/make_classification.py [FILE]

Uses the models of tests/golden/bert, in float64. Samples follow the formulas of tests/task/test_classification.c; each
batch has the next four of 16, padded. The loss is the one that the model returns for labels, or torch.nn.CrossEntropyLoss
with class weights and label smoothing.
"""

import argparse
import pathlib

import torch
import transformers

STEPS, BATCH, SAMPLES = 50, 4, 16
ROOT = pathlib.Path(__file__).resolve().parent.parent.parent / "tests" / "golden"
CASES = [
    ("bert-class", "single_label_classification", False),
    ("bert-class", "single_label_classification", True),
    ("roberta-class", "multi_label_classification", False),
    ("distilbert-class", "regression", False),
    ("gpt2-class", "single_label_classification", False),
    ("bert-tokens", "tokens", False),
    ("bert-tokens", "tokens", True),
    ("roberta-tokens", "tokens", False),
    ("distilbert-tokens", "tokens", False),
]
WEIGHTS, SMOOTHING = torch.tensor([0.25, 3.0, 1.5], dtype=torch.float64), 0.1


def sample(i):
    length = 1 + i * 5 % 11
    return [2 + (i * 7 + j * 5 + i * j) % 20 for j in range(length)]


def label(i):
    return (i * i + i // 2) % 3


def token_label(i, j):
    return -100 if j % 3 == 2 else (i + j * j) % 3


def make_batch(name, problem, numbers):
    rows = [sample(i) for i in numbers]
    longest = max(map(len, rows))
    batch = {
        "input_ids": torch.tensor([row + [1] * (longest - len(row)) for row in rows]),
        "attention_mask": torch.tensor([[1] * len(row) + [0] * (longest - len(row)) for row in rows]),
    }
    if name.startswith("bert"):
        segments = [[int(j >= len(row) // 2) for j in range(len(row))] + [0] * (longest - len(row)) for row in rows]
        batch["token_type_ids"] = torch.tensor(segments)
    if problem == "tokens":
        rows = [[token_label(i, j) for j in range(len(row))] for i, row in zip(numbers, rows)]
        return {**batch, "labels": torch.tensor([row + [-100] * (longest - len(row)) for row in rows])}
    labels = torch.tensor([label(i) for i in numbers])
    if problem == "multi_label_classification":
        labels = torch.stack([(labels + 1) >> k & 1 for k in range(3)], dim=1).double()
    elif problem == "regression":
        labels = labels.double() - 0.5
    return {**batch, "labels": labels}


def losses(name, problem, is_weighted):
    model_class = getattr(transformers, transformers.AutoConfig.from_pretrained(ROOT / "bert" / name).architectures[0])
    model = model_class.from_pretrained(ROOT / "bert" / name, attn_implementation="eager").to(torch.float64).train()
    if problem != "tokens":
        model.config.problem_type = problem
    decayed = [parameter for parameter in model.parameters() if parameter.ndim >= 2]
    others = [parameter for parameter in model.parameters() if parameter.ndim < 2]
    groups = [{"params": decayed, "weight_decay": 0.1}, {"params": others, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, foreach=False)
    weighted = torch.nn.CrossEntropyLoss(weight=WEIGHTS, label_smoothing=SMOOTHING)
    found = []
    for step in range(STEPS):
        batch = make_batch(name, problem, [(step * BATCH + i) % SAMPLES for i in range(BATCH)])
        optimizer.zero_grad(set_to_none=True)
        output = model(**batch)
        loss = weighted(output.logits.flatten(0, -2), batch["labels"].flatten()) if is_weighted else output.loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        found.append(loss.item())
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", nargs="?", type=pathlib.Path, default=ROOT / "classification" / "losses.txt")
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    lines = ["/* Written by tools/golden/make_classification.py. */"]
    for name, problem, is_weighted in CASES:
        kind = f"EITP_PROBLEM_{problem.upper().replace('_CLASSIFICATION', '')}"
        values = [f"{value:.9g}" for value in losses(name, problem, is_weighted)]
        lines.append(f'{{"{name}", {kind}, {int(is_weighted)},\n {{{", ".join(values)}}}}},')
    parser.parse_args().file.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
