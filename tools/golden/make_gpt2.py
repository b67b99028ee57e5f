#!/usr/bin/env python3
"""Write tests/golden/gpt2: small GPT-2 directories written by transformers, and PyTorch's results with them.

    python3 tools/golden/make_gpt2.py [DIRECTORY]

Every number in an expected.safetensors is computed in float64 from the weights next to it. For each directory, prints the
error of PyTorch in float32: the accuracy to expect of a float32 program. tests/golden/README.md describes each tensor.
"""

import argparse
import json
import math
import pathlib
import shutil

import numpy
import torch
import transformers
from safetensors.numpy import load_file, save_file

IGNORED = -100
STEPS = 20
WARMUP_STEPS = 5
PEAK_RATE = 1e-3
CLIP_NORM = 0.5
GENERATED = 20
LEAST_MARGIN = 1e-3

# batch and block apply to the expected values. Only differences from transformers' GPT2Config are listed. All shapes
# except one clip every step; that one clips some steps.
SHAPES = {
    "tanh": {
        "seed": 1,
        "batch": 2,
        "block": 9,
        "config": {"vocab_size": 61, "n_positions": 24, "n_embd": 24, "n_head": 3, "n_layer": 2},
    },
    "erf": {
        "seed": 2,
        "batch": 3,
        "block": 7,
        "config": {
            "vocab_size": 97,
            "n_positions": 32,
            "n_embd": 32,
            "n_head": 4,
            "n_layer": 3,
            "activation_function": "gelu",
        },
    },
    "inner": {
        "seed": 3,
        "batch": 1,
        "block": 24,
        "config": {
            "vocab_size": 131,
            "n_positions": 24,
            "n_embd": 40,
            "n_head": 5,
            "n_layer": 2,
            "n_inner": 72,
            "layer_norm_epsilon": 1e-4,
            "scale_attn_by_inverse_layer_idx": True,
        },
    },
    "wide": {
        "seed": 4,
        "batch": 2,
        "block": 13,
        "config": {"vocab_size": 257, "n_positions": 48, "n_embd": 40, "n_head": 2, "n_layer": 1},
    },
    "deep": {
        "seed": 5,
        "batch": 2,
        "block": 11,
        "clip_norm": 4.0,
        "config": {
            "vocab_size": 67,
            "n_positions": 64,
            "n_embd": 16,
            "n_head": 2,
            "n_layer": 6,
            "scale_attn_weights": False,
        },
    },
    "untied": {
        "seed": 6,
        "batch": 2,
        "block": 8,
        "config": {
            "vocab_size": 53,
            "n_positions": 24,
            "n_embd": 24,
            "n_head": 3,
            "n_layer": 1,
            "tie_word_embeddings": False,
        },
    },
}


def make_model(shape):
    """Return a model in which every parameter is random enough to affect the output."""
    config = transformers.GPT2Config(
        resid_pdrop=0.0,
        embd_pdrop=0.0,
        attn_pdrop=0.0,
        bos_token_id=shape["config"]["vocab_size"] - 1,
        eos_token_id=shape["config"]["vocab_size"] - 1,
        **shape["config"],
    )
    model = transformers.GPT2LMHeadModel(config)
    generator = numpy.random.default_rng(shape["seed"])
    deviations = {"wte.weight": 0.3, "wpe.weight": 0.2, "c_attn.weight": 0.25, "lm_head.weight": 0.3}
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            noise = generator.standard_normal(tuple(parameter.shape))
            if ".ln_" in name and name.endswith(".weight"):
                values = 1.0 + 0.2 * noise
            elif parameter.ndim == 1:
                values = 0.1 * noise
            else:
                values = next((d for suffix, d in deviations.items() if name.endswith(suffix)), 0.15) * noise
            parameter.copy_(torch.from_numpy(values.astype(numpy.float32)))
    return model


def load_model(directory, dtype, attention="eager"):
    model = transformers.GPT2LMHeadModel.from_pretrained(directory, attn_implementation=attention)
    return model.to(dtype).eval()


def draw_tokens(generator, vocabulary, size):
    """Return tokens with a skewed distribution, so that there is something to learn."""
    weights = 1.0 / (numpy.arange(vocabulary) + 3.0)
    return generator.choice(vocabulary, size=size, p=weights / weights.sum())


def draw_batch(generator, vocabulary, batch, block, ignored):
    """Return tokens and targets [batch, block]. The target of a position is the next token; `ignored` targets are -100."""
    stream = draw_tokens(generator, vocabulary, (batch, block + 1))
    targets = stream[:, 1:].copy()
    targets.reshape(-1)[generator.choice(batch * block, size=ignored, replace=False)] = IGNORED
    return stream[:, :-1].astype(numpy.int32), targets.astype(numpy.int32)


def logits_of(model, tokens):
    return model(input_ids=torch.from_numpy(tokens.astype(numpy.int64)), use_cache=False).logits


def sum_of_losses(model, tokens, targets):
    """Return the sum of the losses of the valid targets, in the model's precision."""
    logits = logits_of(model, tokens)
    labels = torch.from_numpy(targets.astype(numpy.int64))
    return torch.nn.functional.cross_entropy(
        logits.reshape(-1, logits.shape[-1]), labels.reshape(-1), ignore_index=IGNORED, reduction="sum"
    )


def count_valid(targets):
    return int((targets != IGNORED).sum())


def evaluate(model, tokens, targets):
    """Return logits, mean loss over the valid targets, and the gradients of this loss by parameter name."""
    model.zero_grad(set_to_none=True)
    loss = sum_of_losses(model, tokens, targets) / count_valid(targets)
    loss.backward()
    with torch.no_grad():
        logits = logits_of(model, tokens)
    gradients = {name: parameter.grad.detach().numpy() for name, parameter in model.named_parameters()}
    return logits.numpy(), loss.item(), gradients


def learning_rates(steps=STEPS, warmup=WARMUP_STEPS, peak=PEAK_RATE):
    """Linear from 0 to the peak at step `warmup`, then a cosine to a tenth of it at the last step; steps from 1."""
    rates = []
    for step in range(1, steps + 1):
        if step <= warmup:
            rates.append(peak * step / warmup)
        else:
            progress = (step - warmup) / (steps - warmup)
            rates.append(peak * (0.1 + 0.9 * 0.5 * (1.0 + math.cos(math.pi * progress))))
    return numpy.array(rates, dtype=numpy.float32)


def draw_training_data(generator, vocabulary, batch, block):
    """Return [steps, 2, batch, block]. The two micro-batches of a step differ in valid targets; once, one has none."""
    tokens, targets = [], []
    for step in range(STEPS):
        ignored = (1 + step % 3, batch * block if step == 6 else batch * block // 2 - step % 2)
        pair = [draw_batch(generator, vocabulary, batch, block, count) for count in ignored]
        tokens.append([pair[0][0], pair[1][0]])
        targets.append([pair[0][1], pair[1][1]])
    return numpy.array(tokens), numpy.array(targets)


def train(model, tokens, targets, rates, clip_norm, weight_decay=0.1):
    """Take one AdamW step per group of micro-batches. Return mean losses and gradient norms before clipping."""
    decayed = [parameter for parameter in model.parameters() if parameter.ndim >= 2]
    others = [parameter for parameter in model.parameters() if parameter.ndim < 2]
    optimizer = torch.optim.AdamW(
        [{"params": decayed, "weight_decay": weight_decay}, {"params": others, "weight_decay": 0.0}],
        lr=PEAK_RATE,
        betas=(0.9, 0.999),
        eps=1e-8,
        foreach=False,
    )
    losses, norms = [], []
    for step in range(len(rates)):
        valid = count_valid(targets[step])
        optimizer.zero_grad(set_to_none=True)
        total = 0.0
        for part in range(tokens.shape[1]):
            loss = sum_of_losses(model, tokens[step, part], targets[step, part]) / valid
            loss.backward()
            total += loss.item()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), clip_norm)
        for group in optimizer.param_groups:
            group["lr"] = float(rates[step])
        optimizer.step()
        losses.append(total)
        norms.append(norm.item())
    return numpy.array(losses), numpy.array(norms)


def generate(model, prompt):
    """Continue greedily with the key-value cache. Return ids, last logits, and the smallest gap of the two best logits."""
    model.generation_config.eos_token_id = None
    model.generation_config.pad_token_id = 0
    inputs = torch.from_numpy(prompt.astype(numpy.int64))
    with torch.no_grad():
        output = model.generate(
            inputs,
            attention_mask=torch.ones_like(inputs),
            max_new_tokens=GENERATED,
            do_sample=False,
            use_cache=True,
            output_logits=True,
            return_dict_in_generate=True,
        )
    ids = output.sequences[:, prompt.shape[1] :].numpy()
    if ids.shape[1] != GENERATED:
        raise SystemExit(f"generation stopped after {ids.shape[1]} of {GENERATED} tokens")
    best = torch.stack(output.logits).topk(2).values
    margin = (best[..., 0] - best[..., 1]).min().item()
    if margin < LEAST_MARGIN:
        raise SystemExit(f"a generated token has a margin of only {margin}: change the seed")
    # Recompute the last logits without a cache, because generate() may round them to float32.
    sequence = numpy.concatenate([prompt, ids[:, :-1]], axis=1)
    with torch.no_grad():
        last = logits_of(model, sequence)[:, -1]
    return ids, last.numpy(), margin


def distance(value, reference):
    """Return the largest absolute difference."""
    return float(numpy.max(numpy.abs(numpy.asarray(value, dtype=numpy.float64) - reference)))


def relative_distance(values, references):
    """Return the largest ||value - reference|| / ||reference|| over tensors whose gradient is not theoretically zero."""
    ratios = []
    for name, reference in references.items():
        norm = numpy.linalg.norm(reference)
        if norm > 1e-9:
            ratios.append(float(numpy.linalg.norm(values[name] - reference) / norm))
    return max(ratios)


def expected_of(directory, shape, full):
    """Return the expected tensors of a directory (gradients, training and generation only if `full`), and a report."""
    vocabulary, batch, block = shape["config"]["vocab_size"], shape["batch"], shape["block"]
    generator = numpy.random.default_rng([shape["seed"], 1])
    tokens, targets = draw_batch(generator, vocabulary, batch, block, 3)
    exact, single = load_model(directory, torch.float64), load_model(directory, torch.float32)
    logits, loss, gradients = evaluate(exact, tokens, targets)
    logits_single, loss_single, gradients_single = evaluate(single, tokens, targets)
    logits_fused, _, gradients_fused = evaluate(load_model(directory, torch.float64, "sdpa"), tokens, targets)
    if distance(logits_fused, logits) > 1e-12 or relative_distance(gradients_fused, gradients) > 1e-10:
        raise SystemExit(f"{directory}: the two attention paths of transformers disagree")
    expected = {
        "tokens": tokens,
        "targets": targets,
        "logits": logits.astype(numpy.float32),
        "loss": numpy.array([loss]),
    }
    report = {
        "logits": distance(logits_single, logits),
        "largest_logit": float(numpy.max(numpy.abs(logits))),
        "loss": abs(loss_single - loss),
        "gradients_relative": relative_distance(gradients_single, gradients),
    }
    if not full:
        return expected, report

    for name, gradient in gradients.items():
        expected["grad." + name] = gradient.astype(numpy.float32)

    prompt = draw_tokens(generator, vocabulary, (2, 5)).astype(numpy.int32)
    ids, last_logits, margin = generate(exact, prompt)
    expected["generate.prompt"] = prompt
    expected["generate.ids"] = ids.astype(numpy.int32)
    expected["generate.last_logits"] = last_logits.astype(numpy.float32)
    report["generate_margin"] = margin
    report["generate_distinct"] = len(set(ids.reshape(-1).tolist()))

    tokens, targets = draw_training_data(generator, vocabulary, batch, block)
    rates = learning_rates()
    clip_norm = shape.get("clip_norm", CLIP_NORM)
    losses, norms = train(exact, tokens, targets, rates, clip_norm)
    losses_single, norms_single = train(single, tokens, targets, rates, clip_norm)
    expected["train.tokens"] = tokens
    expected["train.targets"] = targets
    expected["train.learning_rates"] = rates
    expected["train.clip_norm"] = numpy.array([clip_norm], dtype=numpy.float32)
    expected["train.losses"] = losses
    expected["train.grad_norms"] = norms
    parameters, parameters_single = dict(exact.named_parameters()), dict(single.named_parameters())
    last_layer = f"transformer.h.{shape['config']['n_layer'] - 1}.mlp.c_fc.weight"
    finals = ["transformer.wte.weight", "transformer.h.0.ln_1.bias", last_layer]
    report["final_weights"] = 0.0
    for name in finals:
        final = parameters[name].detach().numpy()
        expected["train.final." + name] = final.astype(numpy.float32)
        moved = distance(parameters_single[name].detach().numpy(), final)
        report["final_weights"] = max(report["final_weights"], moved)
    report["train_losses"] = distance(losses_single, losses)
    report["train_grad_norms_relative"] = float(numpy.max(numpy.abs(norms_single / norms - 1.0)))
    report["train_first_last_loss"] = [round(float(losses[0]), 4), round(float(losses[-1]), 4)]
    report["train_grad_norm_range"] = [round(float(norms.min()), 4), round(float(norms.max()), 4)]
    return expected, report


def write_expected(directory, shape, full):
    expected, report = expected_of(directory, shape, full)
    tensors = {name: numpy.ascontiguousarray(value) for name, value in expected.items()}
    save_file(tensors, directory / "expected.safetensors")
    print(json.dumps({"directory": directory.name, **report}), flush=True)


def copy_configuration(source, target):
    target.mkdir(parents=True)
    shutil.copyfile(source / "config.json", target / "config.json")


def check_same_logits(directory, reference, tokens):
    with torch.no_grad():
        pair = [logits_of(load_model(path, torch.float64), tokens) for path in (directory, reference)]
    if not torch.equal(pair[0], pair[1]):
        raise SystemExit(f"{directory} does not have the model of {reference}")


def write_variants(root, name, shape):
    """Write the model of root/name in other common formats."""
    source = root / name
    tokens = draw_tokens(numpy.random.default_rng(0), shape["config"]["vocab_size"], (2, 8))
    model = load_model(source, torch.float32)

    plain = root / f"{name}-plain"
    model.transformer.save_pretrained(plain)

    # The format of early versions of transformers and of the published GPT-2, with masks among the weights.
    masked = root / f"{name}-masks"
    copy_configuration(source, masked)
    tensors = load_file(plain / "model.safetensors")
    positions = shape["config"]["n_positions"]
    for layer in range(shape["config"]["n_layer"]):
        tensors[f"h.{layer}.attn.bias"] = numpy.tril(numpy.ones((1, 1, positions, positions), dtype=numpy.float32))
        tensors[f"h.{layer}.attn.masked_bias"] = numpy.array(-1e4, dtype=numpy.float32)
    save_file(tensors, masked / "model.safetensors", metadata={"format": "pt"})

    sharded = root / f"{name}-sharded"
    model.save_pretrained(sharded, max_shard_size="28KB")
    shards = len(list(sharded.glob("model-*.safetensors")))
    if shards not in (2, 3):
        raise SystemExit(f"{sharded} has {shards} shards, not 2 or 3: change max_shard_size")

    for directory in (plain, masked, sharded):
        check_same_logits(directory, source, tokens)

    for suffix, dtype in (("bf16", torch.bfloat16), ("f16", torch.float16)):
        directory = root / f"{name}-{suffix}"
        load_model(source, dtype).save_pretrained(directory)
        write_expected(directory, shape, full=False)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    default = pathlib.Path(__file__).resolve().parent.parent.parent / "tests" / "golden" / "gpt2"
    parser.add_argument("directory", nargs="?", type=pathlib.Path, default=default)
    root = parser.parse_args().directory
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    print(json.dumps({"torch": torch.__version__, "transformers": transformers.__version__}), flush=True)
    shutil.rmtree(root, ignore_errors=True)
    for name, shape in SHAPES.items():
        make_model(shape).save_pretrained(root / name)
        write_expected(root / name, shape, full=True)
    write_variants(root, "tanh", SHAPES["tanh"])


if __name__ == "__main__":
    main()
