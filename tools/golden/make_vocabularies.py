#!/usr/bin/env python3
"""Write the golden values of tests/text/test_vocabularies.c with the library `tokenizers`: tests/golden/vocabularies, or the
directory given.

    python3 tools/golden/make_vocabularies.py [DIRECTORY]

Small tokenizers with unusual features of model files: bytes without a token, gaps between ids, repeated merges, added tokens
that must be separate words, Unicode normalization forms and lower case in any order; and their results for every code point.

    pip install tokenizers==0.23.3
"""

import argparse
import json
import pathlib

from make_words import fnv
from tokenizers import Tokenizer, normalizers

LEVEL = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
VISIBLE = [*range(33, 127), *range(161, 173), *range(174, 256)]
HIDDEN = [byte for byte in range(256) if byte not in VISIBLE]


def spelling(byte):
    return chr(byte) if byte in VISIBLE else chr(256 + HIDDEN.index(byte))


def byte_level(known, tokens=(), ids=None, added=(), normalizer=None, pre_tokenizer=LEVEL, **model):
    """Return a tokenizer.json with tokens for the bytes `known`, then `tokens`. `ids` replaces some of their ids."""
    vocabulary = {text: i for i, text in enumerate([*map(spelling, known), *tokens])}
    vocabulary.update(ids or {})
    return {
        "added_tokens": list(added),
        "normalizer": normalizer,
        "pre_tokenizer": pre_tokenizer,
        "post_processor": None,
        "decoder": LEVEL,
        "model": {"type": "BPE", "vocab": vocabulary, "merges": [], **model},
    }


def added(number, content, **flags):
    usual = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": False}
    return {"id": number, "content": content, **usual, **flags}


SOME = [*b" abcde.", 0xC3, 0xA9]  # not 0xA8, so that the second letter below has only one of its two bytes
UNKNOWN_TEXTS = ["abc", "a\x04\x06b\x04", "\x04", "\x04\x04", "\xe9\xe8", "e\xe8\xe8e", "a x b", "x", "ab\x01bc ab"]
MERGES = {"tokens": ["ab", "bc"], "merges": ["a b", "b c"]}


def cases():
    yield "dropped", byte_level(SOME, **MERGES), UNKNOWN_TEXTS
    yield "unknown", byte_level(SOME, ["ab", "bc", "<u>"], merges=["a b", "b c"], unk_token="<u>"), UNKNOWN_TEXTS
    yield "fused", byte_level(SOME, ["ab", "bc", "<u>"], merges=["a b", "b c"], unk_token="<u>", fuse_unk=True), UNKNOWN_TEXTS
    # Merges that use the unknown token, which is spelled like a known byte.
    yield "merged", byte_level(SOME, ["ae", "ab"], merges=["a e", "a b"], unk_token="e"), UNKNOWN_TEXTS
    whole = byte_level(SOME, ["ab", spelling(4) + "a", "a" + spelling(4)], merges=["a b"], ignore_merges=True)
    yield "whole", whole, [*UNKNOWN_TEXTS, "\x04a", "a\x04"]
    yield "repeated merge", byte_level(SOME, ["ab", "bc"], merges=["a b", "b c", "a b"]), ["abc", "ab", "bcab"]
    yield "gaps", byte_level(SOME, ["ab"], {"ab": 20, "a": 15}, merges=["a b"]), ["abc", "aab"]
    yield "gaps, added", byte_level(SOME, ["ab"], {"ab": 20}, [added(20, "ab"), added(10, "<x>")], merges=["a b"]), ["b<x>abab"]


def sequence(*names):
    return {"type": "Sequence", "normalizers": [{"type": name} for name in names]}


FORMS = [
    {"type": "NFD"},
    {"type": "NFKC"},
    {"type": "NFKD"},
    {"type": "Lowercase"},
    sequence(),
    sequence("NFC"),
    sequence("NFKC", "Lowercase"),
    sequence("Lowercase", "NFKC"),
    sequence("NFD", "Lowercase", "NFC"),
    {"type": "Sequence", "normalizers": [{"type": "NFKD"}, sequence("Lowercase")]},
]
FORM_TEXTS = [
    "",
    "Ab \xc9\xe9\u0301 e\u0301\u0323",
    "\ufb01\ufb02 \u2460\xbd \uff21\uff22\uff76\uff9e \u3392\u33a5",
    "\u0130I\u0307 \u03a3\u03a3 \u1e9e \u01c4\u01c5",
    "\ud55c\uad6d\u1100\u1161\u11a8 \uffa1\uffc2",
    "\u0301\u0323 a\u0344 \ufdfa\u0301 \U0001d400\U0001d7ff\u212b",
    "<a>\xc9x \xc9X <\xaa>\u0301 ZZ\u0301 zz",
]
SPACE = "\u2581"
REPLACE = {"type": "Replace", "pattern": {"String": " "}, "content": SPACE}
PREPEND = {"type": "Prepend", "prepend": SPACE}


def form_cases():
    marks = [added(256, "<a>"), added(257, "\xc9x", normalized=True), added(258, "<\xaa>", normalized=True), added(259, "ZZ", normalized=True)]
    for form in FORMS:
        yield json.dumps(form), byte_level(range(256), added=marks, normalizer=form), FORM_TEXTS
    pieces = [SPACE, *"abcde", SPACE + "a", "<u>", *("<0x%02X>" % byte for byte in range(256))]
    model = {"type": "BPE", "byte_fallback": True, "unk_token": "<u>", "vocab": {piece: i for i, piece in enumerate(pieces)}}
    for steps in ["NFKC", "Lowercase", PREPEND, REPLACE], [PREPEND, "NFKD", REPLACE], ["NFKC", REPLACE]:
        steps = [step if isinstance(step, dict) else {"type": step} for step in steps]
        content = {"added_tokens": [added(264, "<A>"), added(265, "CD", normalized=True)], "pre_tokenizer": None, "post_processor": None}
        content.update(normalizer={"type": "Sequence", "normalizers": steps}, decoder={"type": "Fuse"}, model={**model, "merges": [SPACE + " a"]})
        yield "byte fallback", content, ["A\xa0a <A> a", "", "\uff41 cd CD", "\u0301a", " "]
    content = {"added_tokens": [added(0, "[UNK]", special=True)], "pre_tokenizer": {"type": "BertPreTokenizer"}, "post_processor": None, "decoder": None}
    words = {word: i for i, word in enumerate(["[UNK]", "ab", "##fi", "e", "\xe9", "##\u0301"])}
    model = {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##", "max_input_chars_per_word": 100, "vocab": words}
    bert = {"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True, "strip_accents": False, "lowercase": True}
    for form in {"type": "Lowercase"}, sequence("NFKC", "Lowercase"), {"type": "Sequence", "normalizers": [{"type": "NFKC"}, bert]}, sequence("NFD"):
        yield "words", {**content, "normalizer": form, "model": model}, ["AB ab\ufb01 \xc9 e\u0301 AB\ufb01"]


def word_cases():
    flags = {"single_word": True}
    tokens = [added(256, "ab", **flags), added(257, "abc"), added(258, "a b", **flags), added(259, "de", lstrip=True, rstrip=True, **flags)]
    tokens += [added(260, "<x>", **flags), added(261, "\xe9\xe8", **flags), added(102, "f", **flags, special=True)]
    texts = ["ab", "ab ab", "xab", "abx", "ab.ab", "ab_", "ab\u0301", "ab\u200d", "ab\xbd", "1ab", "ab\u0661", "\u4e00ab\u4e00", "abc", "abcab", "ababc ab"]
    texts += ["a b", "a b c", "a bab", "  de  ", "x de x", "de de", "xde", "<x><x>", "a<x>", "<x>a", "\xe9\xe8\xe9\xe8", "\xe9\xe8 \xe9\xe8 \xe9\xe8x", "f<x>f", "abab ab", "ab\nab\tab"]
    yield "words", byte_level(range(256), added=tokens), texts
    yield "normalized words", byte_level(range(256), added=[{**token, "normalized": True} for token in tokens], normalizer={"type": "NFC"}), texts
    mixed = [{**token, "normalized": token["id"] % 2 == 0} for token in tokens]
    yield "mixed words", byte_level(range(256), added=mixed, pre_tokenizer={**LEVEL, "add_prefix_space": True}), texts


def points():
    return (chr(code_point) for code_point in range(0x110000) if not 0xD800 <= code_point < 0xE000)


def form_hash(change):
    value = 0xCBF29CE484222325
    for character in points():
        value = fnv(change("a" + character + "\u0301b").encode(), value)
    return "%016x" % value


def word_hash():
    """Return a hash over all characters: whether the character next to an added token is part of a word."""
    tokenizer = Tokenizer.from_str(json.dumps(byte_level(b"a", added=[added(1, "zz", single_word=True)])))
    digits = [b"01"[1 not in encoding.ids] for encoding in tokenizer.encode_batch(["zz" + character for character in points()])]
    return "%016x" % fnv(bytes(digits), 0xCBF29CE484222325)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    default = pathlib.Path(__file__).resolve().parent.parent.parent / "tests" / "golden" / "vocabularies"
    parser.add_argument("directory", nargs="?", type=pathlib.Path, default=default)
    directory = parser.parse_args().directory
    directory.mkdir(parents=True, exist_ok=True)
    rows = []
    for name, content, texts in [*cases(), *form_cases(), *word_cases()]:
        tokenizer = Tokenizer.from_str(json.dumps(content))
        ids = [{"text": text, "ids": tokenizer.encode(text, add_special_tokens=False).ids} for text in texts]
        rows.append({"name": name, "tokenizer": content, "texts": ids})
    lines = ",\n".join(json.dumps(row, separators=(",", ":")) for row in rows)
    forms = {form["type"]: form_hash(normalizers.__dict__[form["type"]]().normalize_str) for form in FORMS[:4]}
    values = json.dumps({"forms": forms, "words": word_hash()})
    (directory / "cases.json").write_bytes(("{%s,\n\"cases\":[\n%s\n]}\n" % (values[1:-1], lines)).encode())


if __name__ == "__main__":
    main()
