#!/usr/bin/env python3
"""Compare training on conversations with transformers and PyTorch.

    python3 tools/peers/conversations.py [--eitp build/eitp] [--shapes 2] [--seed 1]

Uses random conversations of unequal length, rendered by the chat templates of tools/golden/make_chat.py, and random decoder
shapes from tools/peers/decoders.py. eitp gets each template without {% generation %} blocks and packs the conversations.
transformers gets it with the blocks, reports which tokens are the assistant's, and sees one conversation at a time in float64.
Compares 20 steps on all conversations: losses over the assistant's tokens, and gradient norms, for whole models and adapters.
Prints one line of JSON. Fails if the relative error of a loss exceeds 1e-5, or that of a gradient norm 1e-4 and four times
PyTorch's error in float32, because some of these models are chaotic. "typical" is the median of all losses. Downloads nothing.
"""

import argparse
import json
import os
import pathlib
import random
import statistics
import sys
import tempfile

import decoders
from decoders import ACCUMULATED, BATCH, CLASSES, CLIP, DECAY, RATE, STEPS, TOOLS

sys.path.append(str(TOOLS / "golden"))
WORDS = "a the sea fog 12 144 'S don't e\u0301 \u0939\u093f \U0001f468\u200d\U0001f469 <think> foo\u0301 bar \n\n ... ?".split(" ")


def talk(draw):
    """Return a conversation of one to three turns."""
    messages = [{"role": "system", "content": " ".join(draw.choices(WORDS, k=3))}] if draw.random() < 0.5 else []
    for _ in range(draw.randint(1, 3)):
        for role in "user", "assistant":
            messages.append({"role": role, "content": " ".join(draw.choices(WORDS, k=draw.randint(1, 9)))})
    return {"messages": messages}


def samples(tokenizer, marked, conversations):
    for conversation in conversations:
        encoded = tokenizer.apply_chat_template(
            conversation["messages"], chat_template=marked, tokenize=True, return_dict=True, return_assistant_tokens_mask=True
        )
        yield encoded["input_ids"], encoded["assistant_masks"]


def loss_of(model, batch):
    import torch
    from make_llama import exact_norms

    total, count = 0, sum(sum(trained[1:]) for _, trained in batch)
    for ids, trained in batch:
        with exact_norms():
            logits = model(input_ids=torch.tensor([ids[:-1]]), use_cache=False).logits[0]
        targets = torch.tensor([i if t else -100 for i, t in zip(ids[1:], trained[1:])])
        total = total + torch.nn.functional.cross_entropy(logits, targets, ignore_index=-100, reduction="sum")
    return total / count


def train_by_eitp(eitp, base, template, data, directory, *more):
    from peft_roundtrip import run_eitp

    command = ["train", "--model", base, "--data", data, "--chat-template", template, "--val-fraction", 0, "--steps", STEPS]
    command += ["--batch-size", BATCH, "--grad-accum", ACCUMULATED, "--dropout", 0, "--optimizer", "adamw", "--precision", "fp32"]
    command += ["--lr", RATE, "--lr-schedule", "constant", "--warmup-steps", 0, "--weight-decay", DECAY, "--max-grad-norm", CLIP]
    run_eitp(eitp, *command, "--output-dir", directory, *more)
    records = map(json.loads, (directory / "metrics.jsonl").read_text().splitlines())
    return [(record["loss"], record["grad_norm"]) for record in records if "loss" in record]


def compare(eitp, kind, shape, draw, scratch):
    import peft
    import torch
    from make_chat import TEMPLATES, tokenizer_of

    split, name = "splits/" + draw.choice(["qwen2", "llama3", "smollm"]), draw.choice(sorted(set(TEMPLATES) - {"brackets"}))
    tokenizer = tokenizer_of(split)
    conversations = [talk(draw) for _ in range(BATCH * ACCUMULATED)]
    batch = list(samples(tokenizer, TEMPLATES[name].replace("G(", "{% generation %}").replace(")G", "{% endgeneration %}"), conversations))
    shape.update(vocab_size=len(tokenizer), max_position_embeddings=512)
    shape["bos_token_id"] = shape["eos_token_id"] = tokenizer.eos_token_id
    base, data, template = scratch / "base", scratch / "chats.jsonl", scratch / "template.jinja"
    decoders.make_model(kind, shape, base, torch.float32, False)
    tokenizer.save_pretrained(base)
    data.write_text("".join(json.dumps(conversation) + "\n" for conversation in conversations))
    template.write_text(TEMPLATES[name].replace("G(", "").replace(")G", ""))
    decoders.loss_of = loss_of  # use these samples instead of windows
    result = {}
    found = train_by_eitp(eitp, base, template, data, scratch / "run")
    reference = decoders.train(decoders.open_model(base, kind), batch, DECAY)
    result["loss"], result["grad_norm"] = decoders.largest(found, reference)
    of_float32 = decoders.largest(decoders.train(decoders.open_model(base, kind).float(), batch, DECAY), reference)
    result["float32_loss"], result["float32_grad_norm"] = of_float32
    adapters = ["--lora-rank", 3, "--lora-targets", "all-linear"]
    train_by_eitp(eitp, base, template, data, scratch / "start", *adapters, "--steps", 1, "--lr", 1e-30)
    found = train_by_eitp(eitp, base, template, data, scratch / "lora", *adapters)
    start = peft.PeftModel.from_pretrained(decoders.open_model(base, kind), scratch / "start" / "checkpoint-1", is_trainable=True)
    result["lora_loss"], result["lora_grad_norm"] = decoders.largest(found, decoders.train(start.double(), batch, DECAY))
    bounds = {"loss": max(1e-5, 4 * of_float32[0]), "grad_norm": max(1e-4, 4 * of_float32[1]), "lora_loss": 1e-5, "lora_grad_norm": 1e-4}
    if any(not result[key] < bound for key, bound in bounds.items()):
        raise SystemExit(f"{kind} {split} {name} {json.dumps(shape)}: {json.dumps(result)}")
    return result


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--eitp", type=pathlib.Path, default=pathlib.Path("build/eitp"))
    parser.add_argument("--shapes", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    os.environ["HF_HUB_OFFLINE"] = "1"
    import torch
    import transformers

    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    worst, losses = {}, []
    for kind in CLASSES:
        for i in range(arguments.shapes):
            draw = random.Random(f"conversations {kind} {i} {arguments.seed}")
            torch.manual_seed(draw.randrange(1 << 30))
            with tempfile.TemporaryDirectory() as scratch:
                shape = decoders.draw_shape(kind, draw)
                while shape["hidden_size"] < 8:  # norms over fewer values are chaotic in float32, also in PyTorch
                    shape = decoders.draw_shape(kind, draw)
                found = compare(arguments.eitp, kind, shape, draw, pathlib.Path(scratch))
            losses += [found["loss"], found["lora_loss"]]
            worst = {key: max(value, worst.get(key, 0.0)) for key, value in found.items()}
    print(json.dumps({"transformers": transformers.__version__, "shapes": arguments.shapes * len(CLASSES), "typical": statistics.median(losses), **worst}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
