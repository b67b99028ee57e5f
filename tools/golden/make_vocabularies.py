#!/usr/bin/env python3
"""Write the golden values of tests/text/test_vocabularies.c with the library `tokenizers`: tests/golden/vocabularies, or the
directory given.

    python3 tools/golden/make_vocabularies.py [DIRECTORY]

Small tokenizers with what files of models have beside the usual: bytes without a token, gaps between ids, repeated merges.

    pip install tokenizers==0.23.3
"""

import argparse
import json
import pathlib

from tokenizers import Tokenizer

LEVEL = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
VISIBLE = [*range(33, 127), *range(161, 173), *range(174, 256)]
HIDDEN = [byte for byte in range(256) if byte not in VISIBLE]


def spelling(byte):
    return chr(byte) if byte in VISIBLE else chr(256 + HIDDEN.index(byte))


def byte_level(known, tokens=(), ids=None, added=(), normalizer=None, pre_tokenizer=LEVEL, **model):
    """A tokenizer.json with tokens for the bytes `known`, then `tokens`; `ids` replaces some of their ids."""
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


SOME = [*b" abcde.", 0xC3, 0xA9]  # not 0xA8, so that the second letter below has one byte of two
UNKNOWN_TEXTS = ["abc", "a\x04\x06b\x04", "\x04", "\x04\x04", "\xe9\xe8", "e\xe8\xe8e", "a x b", "x", "ab\x01bc ab"]
MERGES = {"tokens": ["ab", "bc"], "merges": ["a b", "b c"]}


def cases():
    yield "dropped", byte_level(SOME, **MERGES), UNKNOWN_TEXTS
    yield "unknown", byte_level(SOME, ["ab", "bc", "<u>"], merges=["a b", "b c"], unk_token="<u>"), UNKNOWN_TEXTS
    yield "fused", byte_level(SOME, ["ab", "bc", "<u>"], merges=["a b", "b c"], unk_token="<u>", fuse_unk=True), UNKNOWN_TEXTS
    # Merges that take the unknown token, which is spelled as a byte that is known.
    yield "merged", byte_level(SOME, ["ae", "ab"], merges=["a e", "a b"], unk_token="e"), UNKNOWN_TEXTS
    whole = byte_level(SOME, ["ab", spelling(4) + "a", "a" + spelling(4)], merges=["a b"], ignore_merges=True)
    yield "whole", whole, [*UNKNOWN_TEXTS, "\x04a", "a\x04"]
    yield "repeated merge", byte_level(SOME, ["ab", "bc"], merges=["a b", "b c", "a b"]), ["abc", "ab", "bcab"]
    yield "gaps", byte_level(SOME, ["ab"], {"ab": 20, "a": 15}, merges=["a b"]), ["abc", "aab"]
    yield "gaps, added", byte_level(SOME, ["ab"], {"ab": 20}, [added(20, "ab"), added(10, "<x>")], merges=["a b"]), ["b<x>abab"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    default = pathlib.Path(__file__).resolve().parent.parent.parent / "tests" / "golden" / "vocabularies"
    parser.add_argument("directory", nargs="?", type=pathlib.Path, default=default)
    directory = parser.parse_args().directory
    directory.mkdir(parents=True, exist_ok=True)
    rows = []
    for name, content, texts in cases():
        tokenizer = Tokenizer.from_str(json.dumps(content))
        ids = [{"text": text, "ids": tokenizer.encode(text, add_special_tokens=False).ids} for text in texts]
        rows.append({"name": name, "tokenizer": content, "texts": ids})
    lines = ",\n".join(json.dumps(row, separators=(",", ":")) for row in rows)
    (directory / "cases.json").write_bytes(("[\n%s\n]\n" % lines).encode())


if __name__ == "__main__":
    main()
