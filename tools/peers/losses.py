#!/usr/bin/env python3
"""Compare the losses of 20 training steps of eitp with those of PyTorch in float64, on the same weights and text.

    python3 tools/peers/losses.py [--eitp build/eitp] [--precision fp32]

In a scratch directory, `eitp train` trains a small random GPT-2 from transformers. Each step uses every window of the text
once, so that their order does not matter. Prints one line of JSON. Fails if the relative error of a loss or gradient norm
exceeds 2e-6 in fp32 or 2e-2 in bf16. Downloads nothing.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile

STEPS, BLOCK, BATCH, ACCUMULATED = 20, 32, 4, 3
RATE, DECAY, CLIP = 3e-3, 0.1, 0.5
TOLERANCES = {"fp32": 2e-6, "bf16": 2e-2}


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--eitp", type=pathlib.Path, default=pathlib.Path("build/eitp"))
    parser.add_argument("--precision", choices=sorted(TOLERANCES), default="fp32")
    return parser.parse_args()


def make_model(directory):
    import torch
    import transformers

    torch.manual_seed(3)
    config = transformers.GPT2Config(
        vocab_size=257, n_positions=64, n_embd=48, n_head=3, n_layer=3, resid_pdrop=0, embd_pdrop=0, attn_pdrop=0,
        bos_token_id=256, eos_token_id=256,
    )
    model = transformers.GPT2LMHeadModel(config)
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, 0, 0.1)
    model.save_pretrained(directory)


def by_eitp(arguments, base, text, directory):
    command = [arguments.eitp.resolve(), "train", "--model", base, "--data", text, "--val-fraction", 0, "--steps", STEPS]
    command += ["--block-size", BLOCK, "--batch-size", BATCH, "--grad-accum", ACCUMULATED, "--dropout", 0]
    command += ["--optimizer", "adamw", "--precision", arguments.precision, "--lr", RATE, "--lr-schedule", "constant"]
    command += ["--warmup-steps", 0, "--weight-decay", DECAY, "--max-grad-norm", CLIP, "--output-dir", directory]
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(done.stderr)
    records = map(json.loads, (directory / "metrics.jsonl").read_text().splitlines())
    return [(record["loss"], record["grad_norm"]) for record in records if "loss" in record]


def by_pytorch(base, ids):
    import torch
    import transformers

    model = transformers.GPT2LMHeadModel.from_pretrained(base, attn_implementation="eager").double().train()
    groups = [{"params": [p for p in model.parameters() if p.ndim == 2], "weight_decay": DECAY}]
    groups += [{"params": [p for p in model.parameters() if p.ndim != 2], "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=RATE, betas=(0.9, 0.999), eps=1e-8)
    count = BATCH * ACCUMULATED
    inputs = torch.tensor([ids[i * BLOCK : (i + 1) * BLOCK] for i in range(count)])
    targets = torch.tensor([ids[i * BLOCK + 1 : (i + 1) * BLOCK + 1] for i in range(count)])
    result = []
    for _ in range(STEPS):
        optimizer.zero_grad()
        logits = model(input_ids=inputs, use_cache=False).logits
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten())
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP)
        optimizer.step()
        result.append((loss.item(), norm.item()))
    return result


def main():
    arguments = parse_arguments()
    os.environ["HF_HUB_OFFLINE"] = "1"
    import torch
    import transformers

    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    with tempfile.TemporaryDirectory() as scratch:
        scratch = pathlib.Path(scratch)
        text = "".join(f"Line {i}: what a model is trained on.\n" for i in range(99))[: BATCH * ACCUMULATED * BLOCK]
        (scratch / "text.txt").write_text(text)
        make_model(scratch / "base")
        # eitp appends the end-of-text token, which is the last target here.
        reference = by_pytorch(scratch / "base", [*text.encode(), 256])
        found = by_eitp(arguments, scratch / "base", scratch / "text.txt", scratch / "run")
    if len(found) != STEPS:
        raise SystemExit(f"eitp recorded {len(found)} steps, expected {STEPS}")
    result = {"torch": torch.__version__, "precision": arguments.precision, "first": reference[0][0]}
    result["last"] = reference[-1][0]
    for at, name in enumerate(("loss", "grad_norm")):
        result[name] = max(abs(a[at] - b[at]) / abs(b[at]) for a, b in zip(found, reference))
    print(json.dumps(result))
    return max(result["loss"], result["grad_norm"]) > TOLERANCES[arguments.precision]


if __name__ == "__main__":
    sys.exit(main())
