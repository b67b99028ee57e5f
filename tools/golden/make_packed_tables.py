#!/usr/bin/env python3
"""Write src/base/packed_tables.inc, the tables of src/base/unicode_packed.c.

Version 0.23 of the library `tokenizers` is asked what its Normalization Form KD makes of every code point beyond Form D, and which
characters are part of a word to an added token with single_word. Both are numbers in text, since eitp.h is copied into projects:
five bits in a character, the lowest first, of which the last one is below 32.

    pip install unicodedata2==16.0.0 tokenizers==0.23.3
    python3 tools/golden/make_packed_tables.py
"""

import json
import os

import unicodedata2
from make_unicode_tables import HANGUL, POINTS, decompose, inside
from tokenizers import Tokenizer, normalizers

FIRST = ord("#")  # the digit 0
GROUP = 64  # code points that are read one after another at most
decompose_all = normalizers.NFKD().normalize_str
compose_all = normalizers.NFKC().normalize_str


def packed(number):
    text = ""
    while number > 31:
        text += chr(FIRST + 32 + number % 32)
        number //= 32
    return text + chr(FIRST + number)


def signed(number):
    return packed(2 * number if number >= 0 else -2 * number - 1)


def compatibility_groups():
    """Groups of code points that follow on one another: first, number, and for each its length and what it becomes. A first part
    is told from that of the code point before, the others from the one before."""
    groups = []
    for point in POINTS:
        parts = inside(decompose_all, chr(point))
        if point in HANGUL or parts == inside(decompose, chr(point)):
            continue
        assert len(parts) <= 18 and all(ord(part) < 0x10000 for part in parts)
        if not groups or point >= groups[-1][0] + GROUP or point - groups[-1][0] - groups[-1][1] > 3:
            groups.append([point, 0, "", 0])
        group = groups[-1]
        group[2] += packed(0) * (point - group[0] - group[1]) + packed(len(parts)) + signed(ord(parts[0]) - group[3])
        for before, part in zip(parts, parts[1:]):
            group[2] += signed(ord(part) - ord(before))
        group[1], group[3] = point - group[0] + 1, ord(parts[0])
    return groups


def check_forms():
    """The library's version of Unicode is older: characters that it lacks are left alone."""
    for name, change in ("NFKD", decompose_all), ("NFKC", compose_all):
        for point in POINTS:
            text = inside(change, chr(point))
            assert text in (chr(point), inside(lambda text: unicodedata2.normalize(name, text), chr(point))), hex(point)


def word_changes():
    """The distances between the code points where the class changes, from no part of a word on."""
    token = {"id": 1, "content": "zz", "single_word": True, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    model = {"type": "BPE", "vocab": {"a": 0}, "merges": []}
    tokenizer = Tokenizer.from_str(json.dumps({"added_tokens": [token], "model": model}))
    text, last, state = "", 0, False
    for begin in range(0, len(POINTS), 32768):
        points = POINTS[begin : begin + 32768]
        for point, encoding in zip(points, tokenizer.encode_batch(["zz" + chr(point) for point in points])):
            if (1 not in encoding.ids) != state:
                text, last, state = text + packed(point - last), point, not state
    return text


def literals(text, width, indent):
    """String literals of at most this many characters each."""
    lines, line = [], ""
    for character in text:
        escaped = "\\" + character if character in "\\?" else character
        if len(line) + len(escaped) > width:
            lines.append(line)
            line = ""
        line += escaped
    return ("\n" + indent).join('"%s"' % line for line in [*lines, line])


def main():
    check_forms()
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "src", "base", "packed_tables.inc")
    with open(path, "w", newline="\n") as out:
        out.write("/* Made by tools/golden/make_packed_tables.py from version 0.23.3 of the library `tokenizers`: compatibility\n"
                  "   decompositions, as groups of code points: the first, their number, and what they become. */\n")
        out.write("static const struct {\n    uint32_t first, count;\n    const char *parts;\n} eitp__unicode_compatible[] = {\n")
        for first, count, text, _ in compatibility_groups():
            out.write("    {0x%X, %d,\n     %s},\n" % (first, count, literals(text, 112, "     ")))
        out.write("};\n\n/* The distances between code points where characters begin or end to be part of a word. */\n")
        out.write("static const char eitp__unicode_word_steps[] =\n    %s;\n" % literals(word_changes(), 112, "    "))


if __name__ == "__main__":
    main()
