#!/usr/bin/env python3
"""Write tests/golden/tokenizer: a tokenizer trained by the library `tokenizers`, and strings encoded by it.

    pip install tokenizers==0.23.3
    python3 tools/golden/make_tokenizer.py [DIRECTORY]

train.txt       a generated text
tokenizer.json  the library's byte-level BPE trained on that text, with added tokens of several kinds
cases.json      "classes": FNV-1a (64 bits, hexadecimal) over one byte for each code point that is not a surrogate, in
                order: 0 other, 1 letter, 2 number, 3 white space, as in the library's pattern;
                "cases": the bytes of a string ("hex"), its ids, and its ids with add_prefix_space ("prefixed");
                bytes that are not UTF-8 were first replaced with Python's errors="replace"
"""

import argparse
import json
import pathlib
import random

from tokenizers import AddedToken, Tokenizer, models, pre_tokenizers, trainers

VOCABULARY_SIZE = 900
WORDS = """the of and to in is it that was for on are with as his they be at one have this from or had by but some what
there we can out other were all your when up use word how said an each she which do their time if will way about many
then them would write like so these her long make thing see him two has look more day could go come did my sound no most
number who over know water than call first people may down side been now find any new work part take get place made live
where after back little only round man year came show every good me give our under name very through just form much
great think say help low line before turn cause same mean differ move right boy old too does tell sentence set three
want air well also play small end put home read hand port large spell add even land here must big high such follow act
why ask men change went light kind off need house picture try us again animal point mother world near build self earth
father head stand own page should country found answer school grow study still learn plant cover food sun four thought
let keep eye never last door between city tree cross since hard start might story saw far sea draw left late run don't
while press close night real life few stop open seem together next white children begin got walk example ease paper
I'm you've we'll he'd they're it's can't""".split()
OTHER = [
    "na\xefve", "stra\xdfe", "Z\xfcrich", "fa\xe7ade", "\u0395\u03bb\u03bb\u03ac\u03b4\u03b1",
    "\u041c\u043e\u0441\u043a\u0432\u0430", "\u65e5\u672c\u8a9e", "\u4e2d\u6587\u6587\u672c", "\ud55c\uad6d\uc5b4",
    "\u0627\u0644\u0639\u0631\u0628\u064a\u0629", "\u0939\u093f\u0928\u094d\u0926\u0940", "\u0e44\u0e17\u0e22",
    "\U0001f600", "\U0001f469\u200d\U0001f680", "3.14", "2024", "x += 1;", "if (n > 0) {", "return -1;", "}",
    "/* note */", "0xFF", "\xbd", "<|endoftext|", "<b>", "---", "==", "...",
]
SPACES = [
    " ", "  ", "    ", "\n", "\n\n", "\t", "\r\n", "\xa0", "\x85", "\u2003", "\u3000", "\u1680", "\u2028", "\v", "\f",
    "\x1c", "\u200b", "\ufeff",
]
ATOMS = SPACES + OTHER + WORDS[:60] + [
    "'s", "'S", "'re", "'RE", "'ve", "'ll", "'LL", "'d", "'m", "'t", "'", "''", "'l", "'r", "<|endoftext|>",
    "<|endoftext|>x", "<|endoftext|>xy", "<|pad|>", "<|pa", "<|", "|>", "two  words", "two", "\xe9t\xe9", "\u0301",
    "e\u0308", "\U00010400", "\u2167", "\u0663", "\u0967", "\ufffd", "\uffff", "\0", "\x7f", "!", "?!", "_", "#", "a",
    "Z", "7",
]
TEXTS = [
    " ", "  ", "\n", "a", " a", "  a", "a ", "a  ", "a\n\nb", "a \n b", "\u3000a", "\u3000 a", " \u3000a", "'", "''s",
    " 's", "it's", "IT'S", "'re're", "'r", "'lx", "x'll", "1's", "!'s", "a'", "a' s", "12ab!?34", "a1 b2",
    "\xb9\xb2\xb3", "<|endoftext|>", "<|endoftext|><|endoftext|>", " <|endoftext|> ", "a<|endoftext|>b",
    "<|endoftext|>x", "<|endoftext|>xy", "<|endoftext|> x", "<|endoftext", "<|endoftext|", "<<|pad|>>",
    "<|pa<|pad|>d|>", "two  words", "two two  wordsx", "\xe9t\xe9", "<|pad|>\n<|pad|>",
    "\n<|endoftext|>\n\n<|endoftext|>",
]
UNITS = [
    "a", " ", "\n", "=", "ab", "the ", "\u65e5", "\u3000", "\xe9", "9", "'s", "x'",
]
BROKEN = [
    b"\x80", b"\xff", b"\xc0\xaf", b"\xc3", b"\xe2\x82", b"\xe2\x82\xac\xe2\x82", b"\xed\xa0\x80", b"\xf0\x90\x80",
    b"\xf0\x80\x80\x80", b"\xf4\x90\x80\x80", b"\xf5\x80\x80\x80", b"\xe0\x80\xaf", b"\xf0\x9f\x98",
    b"\xf8\x88\x80\x80\x80", b"\xe1\x80\xe2\xf0\x91\x92\xf1\xbfA",
]


def training_text(generator):
    weights = [1 / (rank + 3) for rank in range(len(WORDS))]
    lines = []
    for _ in range(330):
        words = generator.choices(WORDS, weights, k=generator.randint(3, 14))
        if generator.random() < 0.5:
            words.insert(generator.randrange(len(words)), generator.choice(OTHER))
        if generator.random() < 0.7:
            words[0] = words[0].capitalize()
        indent = generator.choice(["", "", "", "    ", "        ", "\t"])
        end = generator.choice([".", ".", "?", "!", ", and so on.", " -- " + "=" * 24])
        lines.append(indent + " ".join(words) + end)
    return "\n".join(lines) + "\n"


def texts(generator):
    yield b""
    for text in TEXTS:
        yield text.encode()
    for unit in UNITS:
        yield (unit * generator.randint(100, 260)).encode()
    for _ in range(60):
        yield "".join(generator.choice(ATOMS) for _ in range(generator.randint(2, 24))).encode()
    for _ in range(12):
        points = (generator.choice((0x80, 0x800, 0x10000, 0x110000)) for _ in range(30))
        text = (chr(generator.randrange(limit)) for limit in points)
        text = (c + generator.choice(["", " ", "a", "1", "!"]) for c in text if not 0xD800 <= ord(c) < 0xE000)
        yield "".join(text).encode()
    for broken in BROKEN:
        yield b"a " + broken + b" b" + broken
    for _ in range(15):
        parts = (generator.choice(BROKEN + [atom.encode() for atom in ATOMS]) for _ in range(12))
        yield b"".join(parts)


def class_of(pattern, code_point):
    """A character that continues a letter, a digit or a mark has that class. One that continues none is white space."""
    for number, before in ((1, "a"), (2, "1"), (0, "!")):
        if len(pattern.pre_tokenize_str(before + chr(code_point))) == 1:
            return number
    return 3


def classes_hash():
    pattern = pre_tokenizers.ByteLevel(add_prefix_space=False)
    value = 0xCBF29CE484222325
    for code_point in range(0x110000):
        if not 0xD800 <= code_point < 0xE000:
            value = (value ^ class_of(pattern, code_point)) * 0x100000001B3 % 2**64
    return f"{value:016x}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    default = pathlib.Path(__file__).resolve().parent.parent.parent / "tests" / "golden" / "tokenizer"
    parser.add_argument("directory", nargs="?", type=pathlib.Path, default=default)
    directory = parser.parse_args().directory
    directory.mkdir(parents=True, exist_ok=True)
    generator = random.Random(2)
    text = training_text(generator)
    (directory / "train.txt").write_bytes(text.encode())

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.train_from_iterator([text], trainers.BpeTrainer(
        vocab_size=VOCABULARY_SIZE, special_tokens=["<|endoftext|>"], show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    tokenizer.add_special_tokens([AddedToken("<|pad|>", normalized=False)])
    tokenizer.add_tokens([AddedToken("<|endoftext|>x", normalized=False)])
    tokenizer.add_tokens([AddedToken("two  words"), AddedToken("\u00e9t\u00e9")])
    (directory / "tokenizer.json").write_bytes(tokenizer.to_str(pretty=False).encode())

    prefixed = Tokenizer.from_str(tokenizer.to_str())
    prefixed.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    rows = []
    for data in texts(generator):
        valid = data.decode("utf-8", "replace")
        row = {"hex": data.hex(), "ids": tokenizer.encode(valid).ids, "prefixed": prefixed.encode(valid).ids}
        rows.append(json.dumps(row, separators=(",", ":")))
    content = '{"classes":"%s",\n"cases":[\n%s\n]}\n' % (classes_hash(), ",\n".join(rows))
    (directory / "cases.json").write_bytes(content.encode())


if __name__ == "__main__":
    main()
