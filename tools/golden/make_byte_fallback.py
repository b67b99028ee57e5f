#!/usr/bin/env python3
"""Write the golden values of tests/text/test_byte_fallback.c with the library `tokenizers`: tests/golden/byte_fallback, or the directory given.

    python3 tools/golden/make_byte_fallback.py [DIRECTORY]

Small BPE tokenizers with byte fallback in the style of the tokenizer.json of Gemma, Llama 2 and Mistral, and with other
parts that such files can have; ids of strings and of pre-split words, and decoded ids.

    pip install tokenizers==0.23.3
"""

import argparse
import json
import pathlib
import random

from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

SPACE = "\u2581"
BYTES = ["<0x%02X>" % byte for byte in range(256)]
WORDS = [
    "the", "then", "there", "cat", "car", "care", "caf\xe9", "1", "12", "2024", "\u6f22\u5b57", "\u6f22", "\u5b57\u6f22", "\u0928\u092e\u0938\u094d\u0924\u0947", "\u0645\u0631\u062d\u0628\u0627", "\ud55c\uad6d\uc5b4",
    "x=1;", "don't", "...", "\u0416\u0443\u043a", "e\u0301",
]
ATOMS = [
    *WORDS, " ", " ", " ", "  ", "   ", " " * 9, "\n", "\n\n", "\n\n\n\n\n", "\t", "\r\n", "\xa0", "\u3000", "\u2028", "\x00", "\x1b", "\x7f", "\ufeff", "\ufffd",
    SPACE, SPACE + "the", "the" + SPACE, "\u05e9\u05c1\u05dc\u05d5\u05dd", "\u0e2a\u0e27\u0e31\u0e2a\u0e14\u0e35", "\u10d2\u10d0", "\u12a0", "\u0db8", "\u1780\u17d2", "\u0f56\u0f7c\u0f51", "\ua015", "\U00010330", "\U0001f600",
    "\U0001f468\u200d\U0001f469", "\U0001f1e9\U0001f1ea", "\U000e0041", "\U0010ffff", "<0x41>", "<0x4", "<unk>", "<s>", "</s>", "<bos>", "<start_of_turn>", " <mask>  ",
    "<mask>", "two words", "q", "zzz",
]
ILL_FORMED = [b"\xff", b"a\xc3", b"\xe6\xbc the", b"the \xf0\x9f\x98", b"\xed\xa0\x80", b"\xc0\x80 cat", b"\xf4\x90\x80\x80"]


def train(specials, alphabet, extra_merges=()):
    """Return the vocabulary and the merges of a trained model: special tokens, bytes, characters and merged tokens."""
    generator = random.Random(3)
    lines = ["".join(generator.choice(WORDS) + generator.choice([" ", " ", " ", "", "\n"]) for _ in range(12)) for _ in range(200)]
    model = Tokenizer(models.BPE())
    model.pre_tokenizer = pre_tokenizers.Metaspace(replacement=SPACE, prepend_scheme="always", split=True)
    model.train_from_iterator(
        lines, trainers.BpeTrainer(vocab_size=150, limit_alphabet=44, show_progress=False, special_tokens=[SPACE])
    )
    learnt = json.loads(model.to_str())["model"]
    merges = [tuple(merge) for merge in learnt["merges"]] + list(extra_merges)
    tokens = [*specials, *alphabet, *learnt["vocab"], *(left + right for left, right in merges)]
    return {token: id for id, token in enumerate(dict.fromkeys(tokens))}, merges


def runs(character, most):
    """Return merges that build runs of a character, as in Gemma."""
    return [(character * (count // 2), character * (count - count // 2)) for count in range(2, most + 1)]


def decoder(*after):
    return decoders.Sequence([decoders.Replace(SPACE, " "), decoders.ByteFallback(), decoders.Fuse(), *after])


def gemma():
    specials = ["<pad>", "<eos>", "<bos>", "<unk>", "<mask>", "<start_of_turn>"]
    vocabulary, merges = train(specials, [*BYTES, "\n", "\t"], runs(SPACE, 8) + runs("\n", 4))
    model = Tokenizer(models.BPE(vocabulary, merges, unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    model.normalizer = normalizers.Replace(" ", SPACE)
    model.pre_tokenizer = pre_tokenizers.Split(" ", "merged_with_previous")
    model.decoder = decoder()
    model.add_special_tokens([AddedToken(token, normalized=False) for token in specials])
    model.add_tokens([AddedToken(token, normalized=False) for token in ("\n\n", SPACE * 2, "two words")])
    model.post_processor = processors.TemplateProcessing(
        single="<bos> $A", pair="<bos> $A <bos>:1 $B:1", special_tokens=[("<bos>", 2)]
    )
    return model


def llama2():
    specials = ["<unk>", "<s>", "</s>"]
    vocabulary, merges = train(specials, BYTES)
    model = Tokenizer(models.BPE(vocabulary, merges, unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    model.normalizer = normalizers.Sequence([normalizers.Prepend(SPACE), normalizers.Replace(" ", SPACE)])
    model.decoder = decoder(decoders.Strip(" ", 1, 0))
    model.add_special_tokens([AddedToken("<unk>", normalized=True), "<s>", AddedToken("</s>", normalized=False, rstrip=True)])
    model.add_tokens([AddedToken("two words", normalized=True), AddedToken("<mask>", lstrip=True, normalized=False)])
    model.post_processor = processors.TemplateProcessing(
        single="<s> $A", pair="<s> $A <s>:1 $B:1", special_tokens=[("<s>", 1)]
    )
    return model


def mistral():
    """No spaces in the normalizer. The pre-tokenizer adds the first space of a text."""
    specials = ["<unk>", "<s>", "</s>"]
    vocabulary, merges = train(specials, BYTES)
    model = Tokenizer(models.BPE(vocabulary, merges, unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    model.pre_tokenizer = pre_tokenizers.Metaspace(replacement=SPACE, prepend_scheme="first", split=False)
    model.decoder = decoder(decoders.Strip(" ", 1, 0))
    model.add_special_tokens([AddedToken(token, normalized=False) for token in specials])
    model.add_tokens([AddedToken("two words", normalized=True), AddedToken("<mask>", lstrip=True, rstrip=True, normalized=False)])
    return model


def split():
    """Splits at spaces; pieces that are tokens are not merged. Some bytes have no token. The decoder only handles spaces."""
    bytes = [byte for byte in BYTES if byte[3] in "012345CE"]
    vocabulary, merges = train(["<unk>"], [*bytes, SPACE + "zzz", SPACE + "q"])
    model = Tokenizer(
        models.BPE(vocabulary, merges, unk_token="<unk>", fuse_unk=False, byte_fallback=True, ignore_merges=True)
    )
    model.pre_tokenizer = pre_tokenizers.Metaspace(replacement=SPACE, prepend_scheme="always", split=True)
    model.decoder = decoders.Metaspace(replacement=SPACE, prepend_scheme="always")
    return model


def crossing():
    """Tokens with a space inside and at the end, so that text cannot be cut before spaces. Unknown characters are dropped."""
    merges = [("t", SPACE), (SPACE, "1"), ("t" + SPACE, SPACE + "1"), ("a", SPACE)]
    vocabulary, merges = train(["<unk>"], [byte for byte in BYTES if byte[3] in "01E"], merges)
    model = Tokenizer(models.BPE(vocabulary, merges, byte_fallback=True))
    model.pre_tokenizer = pre_tokenizers.Metaspace(replacement=SPACE, prepend_scheme="never", split=False)
    return model


def texts(generator):
    yield from (text.encode() for text in ("", " ", "  ", " the", "the ", "the cat", "\n", SPACE))
    yield from ILL_FORMED
    for atom in ATOMS[len(WORDS) + 3 :]:
        yield ("cat " + atom + "the").encode()
    for _ in range(50):
        yield "".join(generator.choice(ATOMS) for _ in range(generator.randint(1, 16))).encode()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    default = pathlib.Path(__file__).resolve().parent.parent.parent / "tests" / "golden" / "byte_fallback"
    parser.add_argument("directory", nargs="?", type=pathlib.Path, default=default)
    directory = parser.parse_args().directory
    directory.mkdir(parents=True, exist_ok=True)
    generator = random.Random(8)
    made = {make.__name__: make() for make in (gemma, llama2, mistral, split, crossing)}
    rows, words, sequences = [], [], []
    for text in texts(generator):
        row = {"hex": text.hex()}
        for name, tokenizer in made.items():
            ids = tokenizer.encode(text.decode("utf-8", "replace"), add_special_tokens=False).ids
            decoded = tokenizer.decode(ids, skip_special_tokens=False).encode()
            row[name] = [ids] if decoded == text else [ids, decoded.hex()]
        rows.append(row)
    for _ in range(8):
        parts = [generator.choice(ATOMS) for _ in range(generator.randint(1, 5))]
        row = {"words": [part.encode().hex() for part in parts]}
        for name, tokenizer in made.items():
            row[name] = tokenizer.encode(parts, is_pretokenized=True).ids
        words.append(row)
    for _ in range(12):
        row = {}
        for name, tokenizer in made.items():
            size = tokenizer.get_vocab_size()
            low = tokenizer.token_to_id("<0x00>")
            ids = [generator.randrange(low, low + 20) if generator.random() < 0.3 else generator.randrange(size) for _ in range(12)]
            row[name] = [ids, tokenizer.decode(ids, skip_special_tokens=False).encode().hex()]
        sequences.append(row)
    for name, tokenizer in made.items():
        (directory / f"{name}.json").write_bytes(tokenizer.to_str(pretty=False).encode())
    unit = "\u6f22\u5b57\u10d2"  # repeated by long_texts_are_cut in the test
    encode = made["gemma"].encode
    assert encode(unit * 3000, add_special_tokens=False).ids == encode(unit, add_special_tokens=False).ids * 3000
    lists = {"texts": rows, "words": words, "sequences": sequences}
    parts = [f'"{name}":[\n' + ",\n".join(json.dumps(row, separators=(",", ":")) for row in list) + "\n]" for name, list in lists.items()]
    (directory / "cases.json").write_bytes(("{" + ",\n".join(parts) + "}\n").encode())


if __name__ == "__main__":
    main()
