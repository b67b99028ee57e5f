#!/usr/bin/env python3
"""Compare eitp with transformers and PEFT on random shapes of the decoders with rotary positions.

    python3 tools/peers/decoders.py [--eitp build/eitp] [--shapes 4] [--seed 1]

For each architecture and shape, transformers writes a model with odd sizes to a scratch directory. Weights are normal with
deviation 0.3, so that a wrong angle, window or bias shows. Some models are in shards, in 16 bits, with a separate or tied head.
Compares
  * losses and gradient norms of 20 steps of `eitp train` and of PyTorch in float64;
  * the same with adapters on all linear layers, starting from eitp's initial adapters;
  * the loss of models and adapters saved by one of the two and loaded by the other.
Each step uses every window of the text once, so that their order does not matter. Prints one line of JSON. Fails if the
relative error of a loss exceeds 1e-5, or that of a gradient norm 1e-4 and four times PyTorch's error in float32, because the
drift of norms with such weights depends on the model. Downloads nothing.
"""

import argparse
import json
import os
import pathlib
import random
import sys
import tempfile

TOOLS = pathlib.Path(__file__).resolve().parent.parent
sys.path += [str(TOOLS / "golden"), str(TOOLS / "peers")]

STEPS, BLOCK, BATCH, ACCUMULATED = 20, 24, 3, 2
RATE, DECAY, CLIP = 1e-3, 0.1, 2.0
CLASSES = {
    "llama": "LlamaForCausalLM",
    "mistral": "MistralForCausalLM",
    "qwen2": "Qwen2ForCausalLM",
    "qwen3": "Qwen3ForCausalLM",
    "gemma3": "Gemma3ForCausalLM",
}


def rotary(draw):
    theta = draw.choice([20.0, 300.0, 10000.0])
    kind = draw.choice(["default", "linear", "llama3"])
    if kind == "default":
        return {"rope_type": kind, "rope_theta": theta}
    if kind == "linear":
        return {"rope_type": kind, "rope_theta": theta, "factor": draw.choice([2.0, 3.5])}
    return {
        "rope_type": kind,
        "rope_theta": theta,
        "factor": 4.0,
        "low_freq_factor": 0.5,
        "high_freq_factor": 3.0,
        "original_max_position_embeddings": 16,
    }


def layer_types(shape, draw):
    return [draw.choice(["full_attention", "sliding_attention"]) for _ in range(shape["num_hidden_layers"])]


def draw_shape(kind, draw):
    key_heads, group, width = draw.choice([1, 2, 3]), draw.choice([1, 2, 3]), draw.choice([2, 4, 6, 10])
    heads = key_heads * group
    shape = {
        "vocab_size": 257,
        "max_position_embeddings": 64,
        "bos_token_id": 256,
        "eos_token_id": 256,
        "pad_token_id": None,
        "hidden_size": heads * width,
        "num_attention_heads": heads,
        "num_key_value_heads": key_heads,
        "num_hidden_layers": draw.choice([1, 2, 3]),
        "intermediate_size": draw.choice([7, 20, 33]),
        "tie_word_embeddings": draw.random() < 0.5,
        "rope_parameters": rotary(draw),
    }
    if kind != "qwen2":
        shape["head_dim"] = width + draw.choice([0, 2])
        if kind in ("llama", "mistral") and draw.random() < 0.5:
            shape["head_dim"] = width
    if kind == "mistral":
        shape["sliding_window"] = draw.choice([None, 1, 5, 11])
    if kind.startswith("qwen"):
        shape.update(use_sliding_window=draw.random() < 0.6, sliding_window=draw.choice([3, 9]), max_window_layers=draw.choice([0, 1]))
        if shape["use_sliding_window"] and draw.random() < 0.5:
            shape["layer_types"] = layer_types(shape, draw)
    if kind == "gemma3":
        shape.update(sliding_window=draw.choice([2, 7]), query_pre_attn_scalar=draw.choice([3, 16]))
        shape["layer_types"] = layer_types(shape, draw)
        local = {"rope_type": "default", "rope_theta": 50.0}
        shape["rope_parameters"] = {"full_attention": shape["rope_parameters"], "sliding_attention": local}
    if kind in ("llama", "qwen3", "gemma3"):
        shape["attention_bias"] = draw.random() < 0.5
    if kind == "llama":
        shape["mlp_bias"] = draw.random() < 0.5
    return shape


def make_model(kind, shape, directory, dtype, shards):
    import torch
    import transformers

    model_class = getattr(transformers, CLASSES[kind])
    model = model_class(model_class.config_class(**shape))
    deviation = 0.3 if kind != "gemma3" else 0.2
    for name, parameter in model.named_parameters():
        is_gain = parameter.ndim == 1 and name.endswith("norm.weight") and kind != "gemma3"
        torch.nn.init.normal_(parameter, 1.0 if is_gain else 0.0, deviation if parameter.ndim > 1 else 0.2)
    model.to(dtype).save_pretrained(directory, max_shard_size=2000 if shards else "5GB")


def open_model(directory, kind):
    import torch
    import transformers

    # In the files' dtype, Gemma's embedding scale would be rounded too.
    model_class = getattr(transformers, CLASSES[kind])
    return model_class.from_pretrained(directory, attn_implementation="sdpa", dtype=torch.float64)


def windows(ids):
    import torch

    count = BATCH * ACCUMULATED
    inputs = torch.tensor([ids[i * BLOCK : (i + 1) * BLOCK] for i in range(count)])
    return inputs, torch.tensor([ids[i * BLOCK + 1 : (i + 1) * BLOCK + 1] for i in range(count)])


def loss_of(model, ids):
    import torch
    from make_llama import exact_norms

    inputs, targets = windows(ids)
    with exact_norms():
        logits = model(input_ids=inputs, use_cache=False).logits
    return torch.nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten())


def train(model, ids, decay):
    """Return losses and gradient norms of steps on all windows."""
    import torch

    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    groups = [{"params": [p for p in trained if p.ndim == 2], "weight_decay": decay}]
    groups += [{"params": [p for p in trained if p.ndim != 2], "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW([group for group in groups if group["params"]], lr=RATE, betas=(0.9, 0.999), eps=1e-8)
    result = []
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = loss_of(model, ids)
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(trained, CLIP)
        optimizer.step()
        result.append((loss.item(), norm.item()))
    return result


def train_by_eitp(eitp, base, text, directory, *more):
    from peft_roundtrip import run_eitp

    command = ["train", "--model", base, "--data", text, "--val-fraction", 0, "--steps", STEPS, "--block-size", BLOCK]
    command += ["--batch-size", BATCH, "--grad-accum", ACCUMULATED, "--dropout", 0, "--optimizer", "adamw"]
    command += ["--precision", "fp32", "--lr", RATE, "--lr-schedule", "constant", "--warmup-steps", 0]
    command += ["--weight-decay", DECAY, "--max-grad-norm", CLIP, "--output-dir", directory, *more]
    run_eitp(eitp, *command)
    records = map(json.loads, (directory / "metrics.jsonl").read_text().splitlines())
    return [(record["loss"], record["grad_norm"]) for record in records if "loss" in record]


def eitp_loss(eitp, model, text, *more):
    from peft_roundtrip import run_eitp

    arguments = ["eval", "--model", model, "--data", text, "--block-size", BLOCK, "--precision", "fp32", "--json"]
    return json.loads(run_eitp(eitp, *arguments, *more))["loss"]


def largest(found, reference):
    if len(found) != len(reference):
        raise SystemExit(f"eitp recorded {len(found)} steps, expected {len(reference)}")
    return [max(abs(a[at] - b[at]) / abs(b[at]) for a, b in zip(found, reference)) for at in (0, 1)]


def compare(eitp, kind, shape, draw, scratch):
    import peft
    import torch

    base, text = scratch / "base", scratch / "text.txt"
    dtype = draw.choice([torch.float32, torch.float16, torch.bfloat16])
    text.write_text("".join(f"Line {i}: words.\n" for i in range(99))[: BATCH * ACCUMULATED * BLOCK])
    ids = [*text.read_bytes(), 256]
    make_model(kind, shape, base, dtype, draw.random() < 0.5)
    result = {}
    found = train_by_eitp(eitp, base, text, scratch / "run")
    reference = train(open_model(base, kind), ids, DECAY)
    result["loss"], result["grad_norm"] = largest(found, reference)
    result["float32_loss"], result["float32_grad_norm"] = largest(train(open_model(base, kind).float(), ids, DECAY), reference)
    saved = scratch / "run" / f"checkpoint-{STEPS}"
    with torch.no_grad():
        by_torch = loss_of(open_model(saved, kind), ids).item()
    result["saved"] = abs(eitp_loss(eitp, saved, text) / by_torch - 1)
    adapters = ["--lora-rank", 3, "--lora-targets", "all-linear"]
    train_by_eitp(eitp, base, text, scratch / "start", *adapters, "--steps", 1, "--lr", 1e-30)
    found = train_by_eitp(eitp, base, text, scratch / "lora", *adapters)
    start = peft.PeftModel.from_pretrained(open_model(base, kind), scratch / "start" / "checkpoint-1", is_trainable=True)
    result["lora_loss"], result["lora_grad_norm"] = largest(found, train(start.double(), ids, DECAY))
    adapter = scratch / "lora" / f"checkpoint-{STEPS}"
    with torch.no_grad():
        by_peft = loss_of(peft.PeftModel.from_pretrained(open_model(base, kind), adapter).double(), ids).item()
    result["lora_saved"] = abs(eitp_loss(eitp, base, text, "--adapter", adapter) / by_peft - 1)
    start.save_pretrained(scratch / "by_peft")
    with torch.no_grad():
        by_peft = loss_of(start, ids).item()
    result["lora_opened"] = abs(eitp_loss(eitp, base, text, "--adapter", scratch / "by_peft") / by_peft - 1)
    norm = max(1e-4, 4 * result["float32_grad_norm"])
    worst = {
        key: value for key, value in result.items()
        if not key.startswith("float32") and not value < (norm if key.endswith("norm") else 1e-5)
    }
    if worst:
        raise SystemExit(f"{kind} {json.dumps(shape)} {dtype}: {json.dumps(result)}")
    return result


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--eitp", type=pathlib.Path, default=pathlib.Path("build/eitp"))
    parser.add_argument("--shapes", type=int, default=4)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    os.environ["HF_HUB_OFFLINE"] = "1"
    import peft
    import torch
    import transformers

    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    worst = {}
    for kind in CLASSES:
        for i in range(arguments.shapes):
            draw = random.Random(f"{kind} {i} {arguments.seed}")
            torch.manual_seed(draw.randrange(1 << 30))
            with tempfile.TemporaryDirectory() as scratch:
                found = compare(arguments.eitp, kind, draw_shape(kind, draw), draw, pathlib.Path(scratch))
            worst = {key: max(value, worst.get(key, 0.0)) for key, value in found.items()}
    print(json.dumps({"transformers": transformers.__version__, "peft": peft.__version__, "shapes": arguments.shapes * len(CLASSES), **worst}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
