#!/usr/bin/env python3
"""Compare special tokens and ids of eitp and transformers, both ways.

    python3 tools/peers/special_tokens.py [--eitp build/eitp]

transformers saves tokenizers in current and older formats, in which eitp must find the same special tokens and ids. Then
eitp trains one step with each, and transformers must find them in the checkpoint, in config.json and in
generation_config.json. Works with transformers 4 and 5. Does not need PyTorch.
"""

import argparse
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile

import transformers
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

TEXTS = [
    "hello world the cat",
    " on the mat's end </s> of<s> it",
    "a<|endoftext|>b",
    "\u00e9 \u65e5\u672c\n\n  x",
    "<pad><unk>",
]
NAMES = ["eos_token", "bos_token", "pad_token", "unk_token"]
PLAIN = {"tokenizer_class": "PreTrainedTokenizerFast"}


def train_backend():
    backend = Tokenizer(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    specials = ["<s>", "</s>", "<pad>", "<unk>"]
    trainer = trainers.BpeTrainer(vocab_size=300, special_tokens=specials, initial_alphabet=alphabet)
    backend.train_from_iterator(["hello world the cat sat on the mat " * 20, "it's the end of it all"], trainer)
    return backend


def save_all(root):
    """Yield directories as saved by transformers, and with other files next to tokenizer.json. None: file is missing."""
    backend = train_backend()
    specials = {"eos_token": "</s>", "bos_token": "<s>", "unk_token": "<unk>"}
    fast = transformers.PreTrainedTokenizerFast(tokenizer_object=backend, pad_token="<pad>", **specials)
    fast.save_pretrained(root / "fast")
    fast(TEXTS, truncation=True, max_length=4, padding=True)
    fast.save_pretrained(root / "truncated")
    transformers.PreTrainedTokenizerFast(tokenizer_object=backend).save_pretrained(root / "nothing")
    files = {
        "map": ({**PLAIN}, {"eos_token": {"content": "</s>"}, "bos_token": "<s>"}),
        "map over": ({**PLAIN, "eos_token": "<s>"}, {"eos_token": "</s>"}),
        "object": ({**PLAIN, "eos_token": {"__type": "AddedToken", "content": "</s>"}}, None),
        "word": ({**PLAIN, "eos_token": "hello"}, None),
        "null": ({**PLAIN, "eos_token": None, "bos_token": "<s>"}, None),
    }
    for name, (config, special_map) in files.items():
        (root / name).mkdir()
        shutil.copy(root / "fast" / "tokenizer.json", root / name)
        (root / name / "tokenizer_config.json").write_text(json.dumps(config))
        if special_map:
            (root / name / "special_tokens_map.json").write_text(json.dumps(special_map))
    return ["fast", "truncated", "nothing", *files]


def of_transformers(directory):
    tokenizer = transformers.AutoTokenizer.from_pretrained(directory)
    return [getattr(tokenizer, name + "_id") for name in NAMES], [tokenizer(text).input_ids for text in TEXTS]


def run(eitp, *arguments):
    return subprocess.run([eitp, *map(str, arguments)], capture_output=True, text=True, check=True).stdout


def of_eitp(eitp, directory):
    said = json.loads(run(eitp, "tokenizer", "inspect", "--tokenizer", directory, "--json"))
    ids = [said[name] for name in ("end_of_text", "begin_of_text", "padding", "unknown")]
    encoded = [run(eitp, "tokenizer", "encode", "--tokenizer", directory, "--text", text) for text in TEXTS]
    return [id if id >= 0 else None for id in ids], [[int(id) for id in line.split()] for line in encoded]


def train(eitp, root, tokenizer):
    """Return a checkpoint with this tokenizer, after one step."""
    (root / "text").write_text("hello world the cat sat on the mat's end")
    shape = "--init tiny --vocab-size 304 --precision fp32"
    options = shape + " --steps 1 --block-size 4 --batch-size 1 --grad-accum 1 --val-fraction 0"
    output = root / (tokenizer.name + " trained")
    run(eitp, "train", "--data", root / "text", "--tokenizer", tokenizer, *options.split(), "--output-dir", output)
    return output / "checkpoint-1"


def compare(eitp, root, name):
    expected = of_transformers(root / name)
    checkpoint = train(eitp, root, root / name)
    config = transformers.AutoConfig.from_pretrained(checkpoint)
    generation = transformers.GenerationConfig.from_pretrained(checkpoint)
    end, begin = expected[0][:2]
    begin = end if begin is None else begin
    return {
        "eitp reads": of_eitp(eitp, root / name) == expected,
        "transformers reads again": of_transformers(checkpoint) == expected,
        "config.json": [config.eos_token_id, config.bos_token_id] == [end, begin],
        "generation_config.json": [generation.eos_token_id, generation.bos_token_id] == [end, begin],
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--eitp", default="build/eitp")
    eitp = str(pathlib.Path(parser.parse_args().eitp).resolve())
    failed = 0
    with tempfile.TemporaryDirectory() as root:
        for name in save_all(pathlib.Path(root)):
            result = compare(eitp, pathlib.Path(root), name)
            failed += not all(result.values())
            print(json.dumps({"tokenizer": name, "transformers": transformers.__version__, **result}))
    return failed != 0


if __name__ == "__main__":
    sys.exit(main())
