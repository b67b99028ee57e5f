#!/usr/bin/env python3
"""Compare 20 training steps of a model with a latent variable, and its evaluations, with those of PyTorch in float64.

    python3 tools/peers/vae.py [--eitp build/eitp]

In a scratch directory, `eitp train --task vae` trains a small random BERT with a WordPiece tokenizer and a small random GPT-2
on bytes, both from transformers, with linear annealing, free bits and word dropout. Each step uses every sample once, so that
their order does not matter. Its noise is recomputed here. Then the encoder and decoder of the last checkpoint must open in
transformers with the weights computed by PyTorch. Prints one line of JSON. Fails if the relative error of a term, a gradient
norm, or a bound exceeds 1e-5. Downloads nothing.
"""

import argparse
import json
import math
import os
import pathlib
import subprocess
import sys
import tempfile

STEPS, TEXTS, UNITS, DRAWS, SEED = 20, 12, 6, 5, 11
RATE, DECAY, CLIP = 2e-3, 0.1, 0.5
KL_WEIGHT, ANNEAL, FREE_BITS, WORD_DROPOUT = 0.8, 10, 0.002, 0.2
END, TOLERANCE = 256, 1e-5
NOISE, DROPPED = 9, 10  # rng streams


def philox(seed, step, stream, index):
    """Philox-4x32-10 (Salmon et al., 2011)."""
    low = 0xFFFFFFFF
    counter = [index & low, index >> 32, step & low, stream]
    key = [seed & low, (seed >> 32) ^ (step >> 32)]
    for _ in range(10):
        a, b = counter[0] * 0xD2511F53, counter[2] * 0xCD9E8D57
        counter = [(b >> 32) ^ counter[1] ^ key[0], b & low, (a >> 32) ^ counter[3] ^ key[1], a & low]
        key = [(key[0] + 0x9E3779B9) & low, (key[1] + 0xBB67AE85) & low]
    return counter


def normal(seed, step, index):
    w = philox(seed, step, NOISE, index)
    uniform = (w[0] * 2.0**32 + w[1]) / 2.0**64 * (1 - 2.0**-53)
    radius, angle = math.sqrt(-2 * math.log(1 - uniform)), 2 * math.pi * ((w[2] * 2.0**32 + w[3]) / 2.0**64)
    return radius * math.cos(angle), radius * math.sin(angle)


def draw_noise(seed, epoch, number, count):
    pairs = [normal(seed, epoch, (number << 24) | i) for i in range((count + 1) // 2)]
    return [value for pair in pairs for value in pair][:count]


def is_dropped(seed, epoch, number, place):
    w = philox(seed, epoch, DROPPED, (number << 24) | place)
    return (((w[1] << 32) | w[0]) >> 11) * 2.0**-53 < WORD_DROPOUT


def make_models(scratch):
    import torch
    import transformers

    torch.manual_seed(5)
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "an", "it", "##ing", "number", "text"]
    words += [c for c in "abcdefghijklmnopqrstuvwxyz.0123456789"] + ["##" + c for c in "abcdefghijklmnopqrstuvwxyz0123456789"]
    bert = transformers.BertConfig(
        vocab_size=len(words), hidden_size=36, num_attention_heads=3, num_hidden_layers=2, intermediate_size=80,
        max_position_embeddings=64, hidden_dropout_prob=0, attention_probs_dropout_prob=0,
    )
    gpt2 = transformers.GPT2Config(
        vocab_size=257, n_positions=64, n_embd=48, n_head=3, n_layer=2, resid_pdrop=0, embd_pdrop=0, attn_pdrop=0,
        bos_token_id=END, eos_token_id=END,
    )
    models = transformers.BertModel(bert, add_pooling_layer=False), transformers.GPT2LMHeadModel(gpt2)
    for model, name in zip(models, ("bert", "gpt2")):
        for parameter in model.parameters():
            torch.nn.init.normal_(parameter, 0, 0.1)
        model.save_pretrained(scratch / name)
    (scratch / "bert" / "vocab.txt").write_text("".join(word + "\n" for word in words))
    (scratch / "bert" / "tokenizer_config.json").write_text('{"do_lower_case": true, "tokenizer_class": "BertTokenizer"}')


def by_eitp(arguments, scratch):
    command = [arguments.eitp.resolve(), "train", "--task", "vae", "--encoder", scratch / "bert", "--decoder", scratch / "gpt2"]
    command += ["--data", scratch / "texts.txt", "--val-data", scratch / "texts.txt", "--steps", STEPS, "--batch-size", TEXTS // 3]
    command += ["--grad-accum", 3, "--dropout", 0, "--optimizer", "adamw", "--precision", "fp32", "--lr", RATE]
    command += ["--lr-schedule", "constant", "--warmup-steps", 0, "--weight-decay", DECAY, "--max-grad-norm", CLIP]
    command += ["--latent-size", UNITS, "--latent-input", arguments.latent_input, "--kl-weight", KL_WEIGHT, "--kl-anneal", "linear"]
    command += ["--kl-anneal-steps", ANNEAL, "--free-bits", FREE_BITS, "--word-dropout", WORD_DROPOUT, "--seed", SEED]
    command += ["--importance-samples", DRAWS, "--eval-steps", 1, "--save-steps", STEPS, "--output-dir", scratch / "run"]
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(done.stderr)
    records = [json.loads(line) for line in (scratch / "run" / "metrics.jsonl").read_text().splitlines()]
    steps = [(r["loss_reconstruction"], r["loss_kl"], r["grad_norm"]) for r in records if "loss_kl" in r]
    bounds = [(r["val_loss"], r["val_reconstruction"], r["val_kl"], r["val_nll"]) for r in records if "val_nll" in r]
    return steps, bounds


class Reference:
    """Return the model in float64, with eitp's initial latent weights."""

    def __init__(self, scratch, latent, latent_input):
        import torch
        import transformers

        self.torch, self.latent_input = torch, latent_input
        self.encoder = transformers.BertModel.from_pretrained(scratch / "bert", add_pooling_layer=False, attn_implementation="eager")
        self.decoder = transformers.GPT2LMHeadModel.from_pretrained(scratch / "gpt2", attn_implementation="eager")
        self.encoder, self.decoder = self.encoder.double().train(), self.decoder.double().train()
        self.latent = {name: torch.nn.Parameter(value.double()) for name, value in latent.items()}

    def parameters(self):
        return [*self.encoder.parameters(), *self.decoder.parameters(), *self.latent.values()]

    def posterior(self, ids):
        state = self.encoder(input_ids=self.torch.tensor([ids])).last_hidden_state[0].mean(0)
        return [state @ self.latent[f"latent.{name}.weight"].T + self.latent[f"latent.{name}.bias"] for name in ("mean", "log_deviation")]

    def reconstruction(self, tokens, kept, z):
        torch = self.torch
        embedded = self.decoder.transformer.wte(torch.tensor([END, *tokens])) * torch.tensor(kept, dtype=torch.double)[:, None]
        added = self.latent["latent.embedding.weight"] @ z
        if self.latent_input == "added":
            embedded = embedded + added
        else:
            embedded = torch.cat([embedded[:1] + added, embedded[1:]])
        logits = self.decoder(inputs_embeds=embedded[None], use_cache=False).logits[0]
        return torch.nn.functional.cross_entropy(logits, torch.tensor([*tokens, END]), reduction="sum")

    def terms(self, texts, step):
        torch = self.torch
        losses, divergences = [], []
        for number, (tokens, ids) in enumerate(texts):
            mean, log_deviation = self.posterior(ids)
            noise = torch.tensor(draw_noise(SEED, step, number, DRAWS * UNITS)[:UNITS], dtype=torch.double)
            kept = [1] + [0 if is_dropped(SEED, step, number, i) else 1 for i in range(1, len(tokens) + 1)]
            losses.append(self.reconstruction(tokens, kept, mean + log_deviation.exp() * noise))
            units = 0.5 * (mean**2 + (2 * log_deviation).exp() - 2 * log_deviation - 1)
            divergences.append(torch.clamp(units, min=FREE_BITS).sum())
        return torch.stack(losses).mean(), torch.stack(divergences).mean()

    def bounds(self, texts):
        torch = self.torch
        sums = torch.zeros(4, dtype=torch.double)
        for number, (tokens, ids) in enumerate(texts):
            mean, log_deviation = self.posterior(ids)
            noise = torch.tensor(draw_noise(0, 0, number, DRAWS * UNITS), dtype=torch.double).view(DRAWS, UNITS)
            draws = mean + log_deviation.exp() * noise
            losses = torch.stack([self.reconstruction(tokens, [1] * (len(tokens) + 1), z) for z in draws])
            ratios = (0.5 * noise**2 + log_deviation - 0.5 * draws**2).sum(1)
            kl = 0.5 * (mean**2 + (2 * log_deviation).exp() - 2 * log_deviation - 1).sum()
            sums += torch.stack([losses[0] + kl, losses[0], kl, math.log(DRAWS) - torch.logsumexp(ratios - losses, 0)])
        return (sums / len(texts)).tolist()

    def train(self, texts):
        torch = self.torch
        groups = [{"params": [p for p in self.parameters() if p.ndim == 2], "weight_decay": DECAY}]
        groups += [{"params": [p for p in self.parameters() if p.ndim != 2], "weight_decay": 0.0}]
        optimizer = torch.optim.AdamW(groups, lr=RATE, betas=(0.9, 0.999), eps=1e-8)
        steps, bounds = [], []
        with torch.no_grad():
            bounds.append(self.bounds(texts))
        for step in range(STEPS):
            optimizer.zero_grad()
            loss, kl = self.terms(texts, step)
            (loss + KL_WEIGHT * min(1, (step + 1) / ANNEAL) * kl).backward()
            norm = torch.nn.utils.clip_grad_norm_(self.parameters(), CLIP)
            optimizer.step()
            steps.append((loss.item(), kl.item(), norm.item()))
            with torch.no_grad():
                bounds.append(self.bounds(texts))
        return steps, bounds


def read_latent(arguments, scratch):
    """Return eitp's initial weights, saved by a run of zero steps."""
    import safetensors.torch

    command = [arguments.eitp.resolve(), "train", "--task", "vae", "--encoder", scratch / "bert", "--decoder", scratch / "gpt2"]
    command += ["--data", scratch / "texts.txt", "--val-fraction", 0, "--steps", 1, "--lr", 0, "--weight-decay", 0, "--seed", SEED]
    command += ["--latent-size", UNITS, "--precision", "fp32", "--output-dir", scratch / "start"]
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(done.stderr)
    return safetensors.torch.load_file(scratch / "start" / "checkpoint-1" / "model.safetensors")


def largest_error(found, reference):
    return max(abs(a - b) / abs(b) for row, other in zip(found, reference) for a, b in zip(row, other))


def compare_weights(reference, scratch):
    """Return the largest difference between the weights of the last checkpoint in transformers and the reference."""
    import transformers

    parts = [(transformers.BertModel, "encoder", reference.encoder, {"add_pooling_layer": False})]
    parts += [(transformers.GPT2LMHeadModel, "decoder", reference.decoder, {})]
    worst = 0
    for kind, name, own, options in parts:
        opened, about = kind.from_pretrained(scratch / "run" / f"checkpoint-{STEPS}" / name, output_loading_info=True, **options)
        if about["missing_keys"] or about["unexpected_keys"]:
            raise SystemExit(f"{name}: {about}")
        for a, b in zip(opened.parameters(), own.parameters()):
            worst = max(worst, (a.double() - b).abs().max().item())
    return worst


def compare(arguments, latent_input):
    import transformers

    arguments.latent_input = latent_input
    with tempfile.TemporaryDirectory() as scratch:
        scratch = pathlib.Path(scratch)
        lines = [f"text {i} is the number {i * i} {'and more ' * (i % 4)}".strip() for i in range(TEXTS)]
        (scratch / "texts.txt").write_text("".join(line + "\n" for line in lines))
        make_models(scratch)
        tokenizer = transformers.BertTokenizer(vocab=str(scratch / "bert" / "vocab.txt"), do_lower_case=True)
        texts = [(list(line.encode()), tokenizer(line)["input_ids"]) for line in lines]
        reference = Reference(scratch, read_latent(arguments, scratch), latent_input)
        steps, bounds = reference.train(texts)
        found_steps, found_bounds = by_eitp(arguments, scratch)
        if len(found_steps) != STEPS or len(found_bounds) != STEPS + 1:
            raise SystemExit(f"eitp recorded {len(found_steps)} steps and {len(found_bounds)} evaluations")
        result = {"first": steps[0][:2], "last": steps[-1][:2], "last_nll": bounds[-1][3]}
        result["terms"] = largest_error([row[:2] for row in found_steps], [row[:2] for row in steps])
        result["grad_norm"] = largest_error([row[2:] for row in found_steps], [row[2:] for row in steps])
        result["bounds"] = largest_error(found_bounds, bounds)
        result["weights"] = compare_weights(reference, scratch)
    return result


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--eitp", type=pathlib.Path, default=pathlib.Path("build/eitp"))
    arguments = parser.parse_args()
    os.environ["HF_HUB_OFFLINE"] = "1"
    import torch
    import transformers

    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    results = {"torch": torch.__version__}
    for latent_input in ("prefix", "added"):
        results[latent_input] = compare(arguments, latent_input)
    print(json.dumps(results))
    return any(max(results[kind][name] for name in ("terms", "grad_norm", "bounds")) > TOLERANCE for kind in ("prefix", "added"))


if __name__ == "__main__":
    sys.exit(main())
