#!/usr/bin/env python3
"""Write the golden values of tests/text/test_splits.c with the library `tokenizers`: tests/golden/splits, or the directory given.

    python3 tools/golden/make_splits.py [DIRECTORY]

Small byte-level BPE with the normalizers and patterns of SmolLM, Qwen2 and Llama 3 (which ignores merges for pieces that are
tokens); pieces and ids of strings, and the Normalization Form C of characters.

    pip install tokenizers==0.23.3
"""

import argparse
import json
import pathlib
import random

from make_words import fnv
from tokenizers import AddedToken, Regex, Tokenizer, models, normalizers, pre_tokenizers, trainers

CASELESS = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|%s| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
ATOMS = [
    "a", "the", " the", "The", "'s", "'S", "'\u017f", "'Re", "'ve", "'LL", "'l", "'", "n't", "1", "12", "1234", "\u0663\u0664", "\u2167", "\xb2", " ", "  ",
    "   ", "\n", "\n\n", "\r\n", "\r", " \r ", "\u1100\u0323\u1161", "\u09c7\u0323\u09be", " \n", "\n ", "\t", "\t\t", "\xa0", "\u3000", "\u2028", "!", "?!", "...\n", "!\r\n\n", "_", "a_b", "e\u0301", "\xe9", "\u0301",
    "\u0323\u0307", "\u1e9b\u0323", "\u212b", "\u1100\u1161\u11a8", "\uac00\u11a8", "\u09c7\u09be", "\u0958", "\u0f71\u0f72", "\u6f22\u5b57", "\uf900",
    "\u0939\u093f\u0928", "\U0001f468\u200d\U0001f469", "\U0001d165", "\x00", "\ufffd", "<|im_start|>", "<|im_end|>", "<think>", "fo\u00f3 bar", "foo\u0301 bar",
]


def train(name, generator):
    model = Tokenizer(models.BPE(ignore_merges=name == "llama3"))
    level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=name == "smollm")
    first = pre_tokenizers.Digits(individual_digits=True)
    if name != "smollm":
        pattern = Regex(CASELESS % (r"\p{N}" if name == "qwen2" else r"\p{N}{1,3}"))
        first = pre_tokenizers.Split(pattern, behavior="isolated", invert=False)
    model.pre_tokenizer = pre_tokenizers.Sequence([first, level])
    if name == "qwen2":
        model.normalizer = normalizers.NFC()
    lines = ["".join(generator.choice(ATOMS[:-5]) for _ in range(12)) for _ in range(400)]
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    model.train_from_iterator(lines, trainers.BpeTrainer(vocab_size=500, show_progress=False, initial_alphabet=alphabet))
    if name == "llama3":  # a token that merges cannot produce
        text = json.loads(model.to_str())
        text["model"]["vocab"]["zq"] = len(text["model"]["vocab"])
        model = Tokenizer.from_str(json.dumps(text))
    model.add_special_tokens(["<|endoftext|>", "<|im_start|>", "<|im_end|>"])
    model.add_tokens([AddedToken("<think>", normalized=False), AddedToken("foo\u0301 bar", normalized=True)])
    return model


def texts(generator):
    yield ""
    yield "zq zqz zq"
    for atom in ATOMS:
        yield "a " + atom + "b"
        yield atom
    for _ in range(120):
        yield "".join(generator.choice(ATOMS) for _ in range(generator.randint(2, 24)))


def pieces(tokenizer, text):
    """Return the bytes of each piece. ByteLevel spells bytes as characters."""
    return [len(piece) for piece, _ in tokenizer.pre_tokenizer.pre_tokenize_str(text)]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    default = pathlib.Path(__file__).resolve().parent.parent.parent / "tests" / "golden" / "splits"
    parser.add_argument("directory", nargs="?", type=pathlib.Path, default=default)
    directory = parser.parse_args().directory
    directory.mkdir(parents=True, exist_ok=True)
    generator = random.Random(5)
    tokenizers = {name: train(name, generator) for name in ("smollm", "qwen2", "llama3")}
    compose = normalizers.NFC().normalize_str
    value = 0xCBF29CE484222325
    for code_point in range(0x110000):
        if not 0xD800 <= code_point < 0xE000:
            value = fnv(compose("a" + chr(code_point) + "\u0301b").encode(), value)
    rows = []
    for text in texts(generator):
        row = {"hex": text.encode().hex(), "composed": compose(text).encode().hex()}
        row["pieces"] = {name: pieces(tokenizer, text) for name, tokenizer in tokenizers.items()}
        rows.append({**row, **{name: t.encode(text, add_special_tokens=False).ids for name, t in tokenizers.items()}})
    for name, tokenizer in tokenizers.items():
        (directory / f"{name}.json").write_bytes(tokenizer.to_str(pretty=False).encode())
    lines = ",\n".join(json.dumps(row, separators=(",", ":")) for row in rows)
    (directory / "cases.json").write_bytes(('{"composed":"%016x",\n"texts":[\n%s\n]}\n' % (value, lines)).encode())


if __name__ == "__main__":
    main()
