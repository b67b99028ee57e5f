#!/usr/bin/env python3
"""Write the golden values of tests/model/test_bert.c with transformers: tests/golden/bert, or the directory given.

    python3 tools/golden/make_bert.py [DIRECTORY]

Each model is tiny and random, in the format of save_pretrained. expected.safetensors next to it has the results of a
float64 run with its weights. Sequences are padded for transformers; their packed rows are written.
"""

import argparse
import json
import pathlib
import shutil

import numpy
import torch
import transformers
from safetensors.numpy import save_file

LENGTHS = (7, 4, 11, 1)
IGNORED = -100
STEPS, RATE, CLIP_NORM = 20, 1e-3, 2.0
BERT = {
    "vocab_size": 23,
    "hidden_size": 8,
    "num_attention_heads": 2,
    "num_hidden_layers": 1,
    "intermediate_size": 12,
    "max_position_embeddings": 13,
    "hidden_dropout_prob": 0.0,
    "attention_probs_dropout_prob": 0.0,
}
DISTILBERT = {
    "vocab_size": 23,
    "dim": 8,
    "n_heads": 2,
    "n_layers": 1,
    "hidden_dim": 12,
    "max_position_embeddings": 13,
    "dropout": 0.0,
    "attention_dropout": 0.0,
    "seq_classif_dropout": 0.0,
}
GPT2 = {
    "vocab_size": 23,
    "n_embd": 8,
    "n_head": 2,
    "n_layer": 1,
    "n_inner": 12,
    "n_positions": 13,
    "resid_pdrop": 0.0,
    "embd_pdrop": 0.0,
    "attn_pdrop": 0.0,
    "bos_token_id": 22,
    "eos_token_id": 22,
    "pad_token_id": 1,
}
NAMES = {0: "bad", 1: "so so", 2: "gut, \"sehr\" gut"}
LABELS = {"id2label": NAMES, "label2id": {name: number for number, name in NAMES.items()}}
ROBERTA = {**BERT, "max_position_embeddings": 15, "type_vocab_size": 1, "layer_norm_eps": 1e-5}
MODELS = {
    "bert": ("BertModel", BERT),
    "bert-mlm": ("BertForMaskedLM", BERT),
    "bert-untied": ("BertForMaskedLM", {**BERT, "tie_word_embeddings": False}),
    "bert-class": ("BertForSequenceClassification", {**BERT, **LABELS, "num_hidden_layers": 2, "problem_type": "single_label_classification"}),
    "roberta": ("RobertaModel", ROBERTA),
    "roberta-mlm": ("RobertaForMaskedLM", {**ROBERTA, "hidden_act": "relu"}),
    "roberta-class": ("RobertaForSequenceClassification", {**ROBERTA, **LABELS, "problem_type": "multi_label_classification"}),
    "distilbert-mlm": ("DistilBertForMaskedLM", DISTILBERT),
    "distilbert-class": ("DistilBertForSequenceClassification", {**DISTILBERT, "num_labels": 1, "problem_type": "regression"}),
    "gpt2-class": ("GPT2ForSequenceClassification", {**GPT2, **LABELS}),
    "bert-tokens": ("BertForTokenClassification", {**BERT, **LABELS}),
    "roberta-tokens": ("RobertaForTokenClassification", {**ROBERTA, **LABELS}),
    "distilbert-tokens": ("DistilBertForTokenClassification", {**DISTILBERT, **LABELS}),
    "gpt2-tokens": ("GPT2ForTokenClassification", {**GPT2, **LABELS}),
    "roberta-padding": ("RobertaModel", ROBERTA),
}
TRAINED = ("-mlm", "-lm", "-class", "-tokens")


def make_model(name, seed):
    """Return a model in which every parameter is random enough to affect the output."""
    class_name, members = MODELS[name]
    model_class = getattr(transformers, class_name)
    model = model_class(model_class.config_class(**members))
    generator = numpy.random.default_rng(seed)
    with torch.no_grad():
        for key, parameter in model.named_parameters():
            noise = generator.standard_normal(tuple(parameter.shape))
            is_gain = parameter.ndim == 1 and key.endswith("weight") and not name.startswith("gemma")
            values = 1.0 + 0.2 * noise if is_gain else 0.3 * noise if parameter.ndim > 1 else 0.1 * noise
            parameter.copy_(torch.from_numpy(values.astype(numpy.float32)))
    return model


def padded(rows, fill):
    """Return consecutive rows as [batch, longest]."""
    out = torch.full((len(LENGTHS), max(LENGTHS)), fill, dtype=torch.long)
    at = 0
    for i, length in enumerate(LENGTHS):
        out[i, :length] = torch.from_numpy(rows[at : at + length].astype(numpy.int64))
        at += length
    return out


def packed(values):
    """Return the rows of [batch, longest, ...] without padding."""
    return torch.cat([values[i, :length] for i, length in enumerate(LENGTHS)])


def draw_batch(name, seed):
    generator = numpy.random.default_rng([seed, 1])
    count = sum(LENGTHS)
    batch = {"tokens": generator.integers(2, 22, count), "segments": numpy.zeros(count, dtype=numpy.int64)}
    if name.endswith("-padding"):
        batch["tokens"][[0, 3, 4, 12, 20]] = 1
    at = 0
    for length in LENGTHS:
        batch["segments"][at + (length + 1) // 2 : at + length] = 1 if name.startswith("bert") else 0
        at += length
    batch["targets"] = generator.integers(0, 23, count)
    batch["targets"][generator.permutation(count)[: count // 2]] = IGNORED
    batch["labels"] = generator.integers(0, 3, len(LENGTHS))
    if name.endswith("-tokens"):
        batch["targets"] = numpy.where(batch["targets"] == IGNORED, IGNORED, batch["targets"] % 3)
    return batch


def loss_of(name, output, batch):
    """Return a sum of losses that depends on every parameter with a gradient, and the output of the head."""
    config = MODELS[name][1]
    if name.endswith(("-mlm", "-lm", "-untied", "-tokens")):
        logits = packed(output.logits)
        targets = torch.from_numpy(batch["targets"])
        return torch.nn.functional.cross_entropy(logits, targets, ignore_index=IGNORED, reduction="sum"), logits
    if name.endswith("-class"):
        problem = config.get("problem_type")
        labels = torch.from_numpy(batch["labels"])
        if problem == "regression":
            return ((output.logits[:, 0] - labels) ** 2).sum(), output.logits
        if problem == "multi_label_classification":
            wanted = torch.nn.functional.one_hot(labels, 3).to(output.logits.dtype)
            losses = torch.nn.functional.binary_cross_entropy_with_logits(output.logits, wanted, reduction="sum")
            return losses, output.logits
        return torch.nn.functional.cross_entropy(output.logits, labels, reduction="sum"), output.logits
    return packed(output.last_hidden_state).sum(), None


def forward(name, model, batch):
    """Return the loss, the output of the head, the hidden states, and the mask."""
    inputs = {"input_ids": padded(batch["tokens"], 1), "attention_mask": padded(numpy.ones(sum(LENGTHS)), 0)}
    if name.startswith(("bert", "roberta")):
        inputs["token_type_ids"] = padded(batch["segments"], 0)
    if name.startswith("gpt2"):
        inputs["use_cache"] = False
    output = model(**inputs, output_hidden_states=True)
    return *loss_of(name, output, batch), output, inputs["attention_mask"]


def evaluate(name, model, batch):
    model.zero_grad(set_to_none=True)
    loss, head, output, mask = forward(name, model, batch)
    loss.backward()
    hidden = output.hidden_states[-1]
    mask = mask.to(hidden.dtype)[:, :, None]
    values = {"hidden": packed(hidden), "loss": loss.reshape(1)}
    if head is not None:
        values["head"] = head
    else:
        values["mean"] = (hidden * mask).sum(1) / mask.sum(1)
    if getattr(output, "pooler_output", None) is not None:
        values["pooled"] = output.pooler_output
    values = {key: value.detach().numpy() for key, value in values.items()}
    for key, parameter in model.named_parameters():
        if parameter.grad is not None and name.endswith(TRAINED):
            values["grad." + key] = parameter.grad.numpy()
    return values


def train(model, name, batch):
    """Return losses and gradient norms, before clipping, of steps on the same batch."""
    decayed = [parameter for parameter in model.parameters() if parameter.ndim >= 2]
    others = [parameter for parameter in model.parameters() if parameter.ndim < 2]
    groups = [{"params": decayed, "weight_decay": 0.1}, {"params": others, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=RATE, betas=(0.9, 0.999), eps=1e-8, foreach=False)
    losses, norms = [], []
    for _ in range(STEPS):
        optimizer.zero_grad(set_to_none=True)
        loss = forward(name, model, batch)[0]
        loss.backward()
        norms.append(torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP_NORM).item())
        optimizer.step()
        losses.append(loss.item())
    return numpy.array(losses), numpy.array(norms)


def write_model(root, name, seed, attention="eager"):
    directory = root / name
    make_model(name, seed).save_pretrained(directory)
    model_class = getattr(transformers, MODELS[name][0])
    batch = draw_batch(name, seed)
    exact = model_class.from_pretrained(directory, attn_implementation=attention).to(torch.float64).eval()
    single = model_class.from_pretrained(directory, attn_implementation=attention).eval()
    values, rounded = evaluate(name, exact, batch), evaluate(name, single, batch)
    worst = {"hidden": 0.0, "head": 0.0, "grad": 0.0}
    for key, value in values.items():
        part = key.split(".")[0]
        norm = numpy.linalg.norm(value)
        if part in worst and norm > 1e-9:
            worst[part] = max(worst[part], float(numpy.linalg.norm(rounded[key] - value) / norm))
    tensors = {key: value.astype(numpy.float32) for key, value in values.items() if key != "loss"}
    tensors["loss"] = values["loss"].astype(numpy.float64)
    if name.endswith(TRAINED):
        tensors["train.losses"], tensors["train.grad_norms"] = train(exact, name, batch)
    for key, value in batch.items():
        tensors[key] = value.astype(numpy.int32)
    tensors["offsets"] = numpy.cumsum([0, *LENGTHS]).astype(numpy.int32)
    save_file({key: numpy.ascontiguousarray(value) for key, value in tensors.items()}, directory / "expected.safetensors")
    print(json.dumps({"directory": name, **worst}), flush=True)


def write_models(family, description, attention="eager"):
    """Write all models to tests/golden/<family>, or the directory given on the command line."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    default = pathlib.Path(__file__).resolve().parent.parent.parent / "tests" / "golden" / family
    parser.add_argument("directory", nargs="?", type=pathlib.Path, default=default)
    root = parser.parse_args().directory
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    shutil.rmtree(root, ignore_errors=True)
    for seed, name in enumerate(MODELS):
        write_model(root, name, seed, attention)


if __name__ == "__main__":
    write_models("bert", __doc__)
