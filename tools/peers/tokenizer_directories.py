#!/usr/bin/env python3
"""Compare BERT's and RoBERTa's tokenizers of eitp and transformers, both ways.

    python3 tools/peers/tokenizer_directories.py [--eitp build/eitp] [DIRECTORY...]

transformers saves tokenizers in current and older formats, in which eitp must find the same special tokens, and the same ids
and segments of inputs and pairs, with every truncation mode. Then eitp trains one step with each, and transformers must find the
same in the checkpoint. DIRECTORY: more directories with a tokenizer. Prints a line of JSON for each. Does not need PyTorch.
"""

import argparse
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile

import transformers
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, trainers

TEXTS = [
    "Hello World, the cat's naïve CAFÉ!",
    "unaffable [MASK] tokens [SEP] and <mask> more  <mask>\n <s>x</s>",
    "日本語 中文 한국어 Ελλάδα ΟΔΥΣΣΕΥΣ İstanbul \U0001f600 \u200b\x00 \ufffd",
    "It is , do not . I 'm", "", " ", "x" * 101, "नमस्ते שָׁלוֹם العَرَبِيَّة",
]
PAIRS = [(TEXTS[0], TEXTS[1]), (TEXTS[2], TEXTS[0]), (TEXTS[3], TEXTS[3]), (TEXTS[1], TEXTS[5])]
NAMES = ["eos_token", "bos_token", "pad_token", "unk_token", "cls_token", "sep_token", "mask_token"]
ROLES = ["end_of_text", "begin_of_text", "padding", "unknown", "classifier", "separator", "mask"]
STRATEGIES = ["longest_first", "only_first", "only_second"]
LENGTHS = [5, 8, 9, 16]


def train_wordpiece(texts, lowercase):
    backend = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    backend.normalizer = normalizers.BertNormalizer(lowercase=lowercase)
    backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    specials = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    backend.train_from_iterator(texts, trainers.WordPieceTrainer(vocab_size=400, special_tokens=specials, show_progress=False))
    return backend


def train_bytes(texts):
    backend = Tokenizer(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    specials = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    backend.train_from_iterator(texts, trainers.BpeTrainer(
        vocab_size=400, special_tokens=specials, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False))
    return backend


def write(directory, **files):
    directory.mkdir()
    for name, content in files.items():
        text = content if isinstance(content, str) else json.dumps(content, ensure_ascii=False)
        (directory / name.replace("__", ".")).write_text(text, encoding="utf-8", newline="\n")
    return directory


def lines(backend):
    return "".join(token + "\n" for token, _ in sorted(backend.get_vocab().items(), key=lambda item: item[1]))


def save_all(root):
    texts = [text for text in TEXTS * 20 if len(text) < 100]
    uncased, cased, roberta = train_wordpiece(texts, True), train_wordpiece(texts, False), train_bytes(texts)
    state = json.loads(roberta.to_str())["model"]
    vocabulary, merges = state["vocab"], "#version: 0.2\n" + "".join(" ".join(pair) + "\n" for pair in state["merges"])
    bert, config = {"model_type": "bert"}, {"tokenizer_class": "BertTokenizer"}
    made = [
        write(root / "vocab.txt alone", vocab__txt=lines(uncased), config__json=bert),
        write(root / "vocab.txt cased", vocab__txt=lines(cased), tokenizer_config__json={**config, "do_lower_case": False}),
        write(root / "vocab.txt accents", vocab__txt=lines(cased), config__json={"model_type": "distilbert"},
              tokenizer_config__json={"strip_accents": False, "tokenize_chinese_chars": False, "model_max_length": 512}),
        write(root / "roberta lists", vocab__json=vocabulary, merges__txt=merges, config__json={"model_type": "roberta"}),
        write(root / "roberta prefix", vocab__json=vocabulary, merges__txt=merges, tokenizer_config__json={
            "tokenizer_class": "RobertaTokenizer", "add_prefix_space": True,
            "mask_token": {"__type": "AddedToken", "content": "<mask>", "lstrip": True, "rstrip": False, "normalized": False,
                           "single_word": False, "special": True}}),
    ]
    for directory in list(made):
        tokenizer = transformers.AutoTokenizer.from_pretrained(directory)
        made.append(root / (directory.name + ", saved"))
        tokenizer.save_pretrained(made[-1])
    tokenizer = transformers.AutoTokenizer.from_pretrained(root / "vocab.txt alone")
    tokenizer.add_tokens(["FooBar", "the cat"])
    tokenizer(TEXTS, truncation=True, max_length=9, padding="max_length")
    made.append(root / "added")
    tokenizer.save_pretrained(made[-1])
    return made


def of_transformers(directory):
    tokenizer = transformers.AutoTokenizer.from_pretrained(directory)
    result = {"roles": [getattr(tokenizer, name + "_id") for name in NAMES]}
    result["texts"] = [tokenizer(text).input_ids for text in TEXTS]
    result["plain"] = [tokenizer(text, add_special_tokens=False).input_ids for text in TEXTS]
    pairs = [tokenizer(*pair, return_token_type_ids=True) for pair in PAIRS]
    result["pairs"] = [[pair.input_ids, pair.token_type_ids] for pair in pairs]
    result["cut"] = [cut(tokenizer, pair, length, strategy) for pair in PAIRS for length in LENGTHS for strategy in STRATEGIES]
    return result


def cut(tokenizer, pair, length, strategy):
    try:
        return tokenizer(*pair, truncation=strategy, max_length=length).input_ids
    except BaseException:  # the library's errors and panics
        return None


def run(eitp, *arguments):
    return subprocess.run([eitp, *map(str, arguments)], capture_output=True, text=True)


def encode(eitp, directory, text, *options):
    """Use standard input, which may have zero bytes, unlike arguments."""
    words = [eitp, "tokenizer", "encode", "--tokenizer", str(directory), "--json", *map(str, options)]
    done = subprocess.run(words, capture_output=True, input=text.encode())
    return json.loads(done.stdout) if not done.returncode else {"ids": None, "segments": None}


def of_eitp(eitp, directory):
    said = run(eitp, "tokenizer", "inspect", "--tokenizer", directory, "--json")
    if said.returncode:
        raise SystemExit(said.stderr)
    ids = [json.loads(said.stdout)[role] for role in ROLES]
    result = {"roles": [id if id >= 0 else None for id in ids]}
    result["texts"] = [encode(eitp, directory, text, "--special-tokens", "--block-size", 0)["ids"] for text in TEXTS]
    result["plain"] = [encode(eitp, directory, text)["ids"] for text in TEXTS]
    pairs = [encode(eitp, directory, first, "--special-tokens", "--block-size", 0, "--pair", second) for first, second in PAIRS]
    result["pairs"] = [[pair["ids"], pair["segments"]] for pair in pairs]
    result["cut"] = [encode(eitp, directory, first, "--special-tokens", "--pair", second, "--block-size", length, "--truncation",
                            strategy)["ids"] for first, second in PAIRS for length in LENGTHS for strategy in STRATEGIES]
    return result


def train(eitp, root, tokenizer, size):
    """Return a checkpoint with this tokenizer, after one step."""
    (root / "text").write_text("hello world the cat sat on the mat's end hello world the cat sat on the mat's end")
    shape = f"--init tiny --vocab-size {size} --precision fp32"
    options = shape + " --steps 1 --block-size 4 --batch-size 1 --grad-accum 1 --val-fraction 0"
    output = root / (tokenizer.name + " trained")
    done = run(eitp, "train", "--data", root / "text", "--tokenizer", tokenizer, *options.split(), "--output-dir", output)
    if done.returncode:
        raise SystemExit(done.stderr)
    (output / "checkpoint-1" / "config.json").unlink()  # it is GPT-2's and does not match the tokenizer
    for name in ("config.json", "1_Pooling"):
        if (tokenizer / name).is_file():
            shutil.copy(tokenizer / name, output / "checkpoint-1")
    return output / "checkpoint-1"


def differences(expected, found):
    return {name: sum(a != b for a, b in zip(expected[name], found[name])) for name in expected}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--eitp", default="build/eitp")
    parser.add_argument("directory", nargs="*", type=pathlib.Path)
    arguments = parser.parse_args()
    eitp = str(pathlib.Path(arguments.eitp).resolve())
    failed = 0
    with tempfile.TemporaryDirectory() as root:
        for directory in [*save_all(pathlib.Path(root)), *arguments.directory]:
            expected = of_transformers(directory)
            size = json.loads(run(eitp, "tokenizer", "inspect", "--tokenizer", directory, "--json").stdout)["tokens"]
            checkpoint = train(eitp, pathlib.Path(root), directory, size)
            result = {"eitp reads": differences(expected, of_eitp(eitp, directory)),
                      "transformers reads again": differences(expected, of_transformers(checkpoint))}
            failed += any(count for part in result.values() for count in part.values())
            print(json.dumps({"tokenizer": directory.name, "transformers": transformers.__version__, **result}))
    return failed != 0


if __name__ == "__main__":
    sys.exit(main())
