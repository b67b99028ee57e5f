#!/usr/bin/env python3
"""Fine-tune token classifiers with transformers and with eitp, batch for batch, and compare them.

    python3 tools/peers/token_losses.py [--eitp build/eitp] [--steps 20] [--work DIRECTORY]

Uses small random models, the tokenizers of tests/golden/words, and synthetic sentences in CoNLL columns, with labels on the
first piece of each word (is_split_into_words; RoBERTa with add_prefix_space). Compares ids and labels of all tokens, the losses
of each step (AdamW 1e-3, 16 sentences, for eitp in four micro-batches), the results of the trained models in transformers, and
the labels predicted by eitp. Fails if ids, labels or names differ, or losses by more than 1e-5, relative. Prints a line of JSON
for each model.
"""

import argparse
import json
import pathlib
import random
import shutil
import subprocess

import numpy
import tokenizers
import torch
import transformers

TOLERANCE, RATE, BATCH, LENGTH, CLIP, IGNORED = 1e-5, 1e-3, 16, 24, 1.0, -100
ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
WORDS = """The of water don't unaffable café Zürich 3.14 e-mail 中文 who [MASK] tokenization , . straße KİEV it's over foo_bar
<b> U.S. classifier embedding Москва naïve""".split()
LABELS = ["B-LOC", "B-PER", "I-PER", "O"]
NUMBERS = {"id2label": dict(enumerate(LABELS)), "label2id": {label: i for i, label in enumerate(LABELS)}}
NO_DROPOUT = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
SHAPE = {"hidden_size": 32, "num_attention_heads": 2, "num_hidden_layers": 2, "intermediate_size": 64, **NO_DROPOUT}
DISTILBERT = {"dim": 32, "n_heads": 2, "n_layers": 2, "hidden_dim": 64, "dropout": 0.0, "attention_dropout": 0.0}
MODELS = {
    "BertForTokenClassification": ("uncased", SHAPE),
    "RobertaForTokenClassification": ("roberta", {**SHAPE, "type_vocab_size": 1, "pad_token_id": 1}),
    "DistilBertForTokenClassification": ("cased", DISTILBERT),
}


def label(words, i):
    before = sum(map(ord, words[i - 1])) % 4 if i else 0
    return "I-PER" if i and before == 1 else ["O", "B-PER", "B-LOC", "O"][sum(map(ord, words[i])) % 4]


def make_sentences(count):
    generator = random.Random(7)
    for _ in range(count):
        words = generator.choices(WORDS, k=generator.randint(1, 14))
        yield words, [label(words, i) for i in range(len(words))]


def prepare(name, work):
    """Return the tokenizer for transformers, and the model. eitp gets the directory "start"."""
    file, shape = MODELS[name]
    special = {"roberta": ("<s>", "</s>", "<pad>", "<unk>", "<mask>")}.get(file, ("[CLS]", "[SEP]", "[PAD]", "[UNK]", "[MASK]"))
    roles = dict(zip(("cls_token", "sep_token", "pad_token", "unk_token", "mask_token"), special))
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_file=str(ROOT / f"tests/golden/words/{file}.json"), **roles)
    tokenizer.save_pretrained(work / "start")
    if file == "roberta":
        tokenizer.backend_tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=True)
    torch.manual_seed(1)
    model_class = getattr(transformers, name)
    config = model_class.config_class(vocab_size=len(tokenizer), max_position_embeddings=40, **shape, **NUMBERS)
    model = model_class(config)
    model.save_pretrained(work / "start")
    return tokenizer, model


def encode(tokenizer, rows):
    """Align labels like run_ner.py of transformers."""
    inputs = tokenizer([words for words, _ in rows], is_split_into_words=True, truncation=True, max_length=LENGTH, padding=True,
                       return_tensors="pt")
    labels = torch.full(inputs["input_ids"].shape, IGNORED)
    for row, (_, names) in enumerate(rows):
        word_ids = inputs.word_ids(row)
        for i, word in enumerate(word_ids):
            if word is not None and (not i or word != word_ids[i - 1]):
                labels[row, i] = LABELS.index(names[word])
    return {name: inputs[name] for name in ("input_ids", "attention_mask")}, labels


def train_transformers(tokenizer, model, rows, steps):
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE, weight_decay=0.0)
    losses = []
    for step in range(steps):
        inputs, labels = encode(tokenizer, rows[step * BATCH : (step + 1) * BATCH])
        loss = model(**inputs, labels=labels).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP)
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    return losses


def run(command, **keywords):
    return subprocess.run([str(part) for part in command], check=True, **keywords)


def train_eitp(eitp, rows, work, steps):
    text = "".join("".join(f"{word}\t{name}\n" for word, name in zip(*row)) + "\n" for row in rows)
    (work / "rows.conll").write_text(text, encoding="utf-8")
    settings = ["--steps", steps, "--batch-size", BATCH // 4, "--grad-accum", 4, "--block-size", LENGTH, "--lr", RATE]
    settings += ["--weight-decay", 0, "--warmup-steps", 0, "--lr-schedule", "constant", "--max-grad-norm", CLIP]
    settings += ["--precision", "fp32", "--shuffle", "none", "--val-fraction", 0, "--eval", "no", "--output-dir", work / "out", "-q"]
    run([eitp, "train", "--task", "tokens", "--model", work / "start", "--data", work / "rows.conll", *settings])
    lines = [json.loads(line) for line in (work / "out" / "metrics.jsonl").read_text().splitlines()]
    return [line["loss"] for line in lines if "loss" in line]


def packed(work):
    """Return the ids and labels of each sample in the labelled file (docs/sample-file.md)."""
    file = numpy.fromfile(next((work / "out" / "data").glob("*.labelled")), "u1")
    samples, ids, values, _ = (int(n) for n in file[16:48].view("<u8"))
    size = int(file[12:16].view("<u4")[0])
    at = 256 + (ids * size + 7) // 8 * 8
    tokens = file[256 : 256 + ids * size].view("<u2" if size == 2 else "<u4")
    index = file[at : at + 40 * samples].view("<u8").reshape(samples, 5)
    labels = file[at + 40 * samples : at + 40 * samples + 4 * values].view("<i4")
    for first, _, _, lengths, _ in index.tolist():
        length = lengths & 0xFFFFFFFF
        yield tokens[first : first + length].tolist(), [value if value >= 0 else IGNORED for value in labels[first : first + length].tolist()]


def same_tokens(tokenizer, rows, work):
    ours = list(packed(work))
    for row, (ids, labels) in zip(rows, ours, strict=True):
        inputs, expected = encode(tokenizer, [row])
        if inputs["input_ids"][0].tolist() != ids or expected[0].tolist() != labels:
            return False
    return True


def predicted(eitp, rows, work):
    with open(work / "rows.jsonl", "w", encoding="utf-8") as file:
        file.writelines(json.dumps({"text": words}) + "\n" for words, _ in rows)
    command = [eitp, "predict", "--model", work / "out", "--data", work / "rows.jsonl", "--max-length", LENGTH, "--precision", "fp32", "--json", "-q"]
    return [json.loads(line)["labels"] for line in run(command, capture_output=True, text=True).stdout.splitlines()]


def compare_trained(name, tokenizer, model, eitp, rows, work):
    """Return the largest difference of logits, names missing in transformers, and rows with different predicted labels."""
    opened, info = getattr(transformers, name).from_pretrained(work / "out" / "latest_model", output_loading_info=True)
    inputs, labels = encode(tokenizer, rows)
    with torch.no_grad():
        theirs = model.eval()(**inputs).logits[labels != IGNORED]
        ours = opened.eval()(**inputs).logits
    wrong = 0
    for row, found in enumerate(predicted(eitp, rows, work)):
        best = [opened.config.id2label[int(k)] for k in ours[row][labels[row] != IGNORED].argmax(-1)]
        wrong += [name for name in found if name is not None] != best
    difference = (theirs - ours[labels != IGNORED]).abs().max().item()
    return difference, [*info["missing_keys"], *info["unexpected_keys"]], wrong


def compare(name, arguments):
    work = arguments.work / name
    work.mkdir(parents=True)
    rows = list(make_sentences(arguments.steps * BATCH))
    tokenizer, model = prepare(name, work)
    theirs = train_transformers(tokenizer, model, rows, arguments.steps)
    ours = train_eitp(arguments.eitp, rows, work, arguments.steps)
    difference = max(abs(a - b) / abs(a) for a, b in zip(theirs, ours, strict=True))
    same = same_tokens(tokenizer, rows, work)
    logits, names, wrong = compare_trained(name, tokenizer, model, arguments.eitp, rows[:100], work)
    result = {"model": name, "steps": len(ours), "first_loss": theirs[0], "last_loss": theirs[-1], "largest_difference": difference}
    result |= {"same_ids_and_labels": same, "logits_difference": logits, "missing_or_unexpected": names, "rows_predicted_otherwise": wrong}
    print(json.dumps(result), flush=True)
    return difference <= TOLERANCE and same and not names and not wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--eitp", default="build/eitp")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--work", type=pathlib.Path, default=pathlib.Path("build/parity/tokens"))
    arguments = parser.parse_args()
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    torch.set_num_threads(1)
    shutil.rmtree(arguments.work, ignore_errors=True)
    results = [compare(name, arguments) for name in MODELS]
    return int(not all(results))


raise SystemExit(main())
