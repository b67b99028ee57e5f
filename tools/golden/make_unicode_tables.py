#!/usr/bin/env python3
"""Write src/base/unicode_tables.inc, the tables of src/base/unicode.c.

The character classes of GPT-2's pattern are letters (category L*), numbers (N*) and white space (the property
White_Space: category Z*, U+0009 to U+000D, U+0085), in the version of Unicode that version 0.23 of the library `tokenizers`
applies; tools/golden/make_tokenizer.py compares every code point with it.

BERT's normalizer and pre-tokenizer in that library mix several versions of Unicode. The library is therefore queried for
every code point: whether it removes it or treats it as white space, punctuation or an ideograph, its form without accents
and in lower case, and the order of marks.

    pip install unicodedata2==16.0.0 tokenizers==0.23.3
    python3 tools/golden/make_unicode_tables.py
"""

import os

import unicodedata2
from tokenizers import normalizers, pre_tokenizers

VERSION = "16.0.0"
CONTROL_SPACES = (0x09, 0x0A, 0x0B, 0x0C, 0x0D, 0x85)
OTHER, LETTER, NUMBER, SPACE = range(4)
# Same as in src/base/unicode.h.
WORD, REMOVED, BLANK, REMOVED_BLANK, PUNCTUATION, IDEOGRAPH, ACCENT, REORDERED_ACCENT = range(8)
HANGUL = range(0xAC00, 0xD7A4)
POINTS = [point for point in range(0x110000) if not 0xD800 <= point < 0xE000]

clean = normalizers.BertNormalizer(True, False, False, False).normalize_str
isolate = normalizers.BertNormalizer(False, True, False, False).normalize_str
strip = normalizers.BertNormalizer(False, False, True, False).normalize_str
lower = normalizers.BertNormalizer(False, False, False, True).normalize_str
decompose = normalizers.NFD().normalize_str
split = pre_tokenizers.BertPreTokenizer().pre_tokenize_str


def class_of(code_point):
    category = unicodedata2.category(chr(code_point))
    if category[0] == "Z" or code_point in CONTROL_SPACES:
        return SPACE
    return {"L": LETTER, "N": NUMBER}.get(category[0], OTHER)


def inside(change, character):
    """Return the result of a function for a character between two letters."""
    return change("a" + character + "b")[1:-1]


def reorders(character):
    """True if the character moves after a mark of the lowest class, or that mark after it. Only marks do."""
    low, high = "\u0334", "\u0345"  # classes 1 and 240
    return inside(decompose, character + low) != character + low or inside(decompose, high + character) != high + character


def word_class(code_point):
    character = chr(code_point)
    pieces = len(split("a" + character + "b"))
    cleaned = inside(clean, character)
    if pieces == 2:
        return BLANK if cleaned == " " else REMOVED_BLANK
    if pieces == 3:
        return PUNCTUATION
    if cleaned != character:
        return REMOVED
    if inside(isolate, character) != character:
        return IDEOGRAPH
    if inside(strip, character) == "":
        return REORDERED_ACCENT if reorders(character) else ACCENT
    return WORD


def combining_class(character, marks):
    """Return the canonical combining class: that of the first of `marks`, one per class in order, that stays after it."""
    for value, mark in marks:
        if inside(decompose, character + mark) == character + mark:
            return value
    raise SystemExit("a class above 240: U+%04X" % ord(character))


def changes_of(function, bits):
    changes, last = [], None
    for code_point in range(0x110000):
        current = last if 0xD800 <= code_point < 0xE000 else function(code_point)
        if current != last:
            changes.append("0x%X" % (code_point << bits | current))
            last = current
    return changes


def marks_by_class():
    found = {}
    for point in POINTS:
        if unicodedata2.combining(chr(point)) and reorders(chr(point)):
            found.setdefault(unicodedata2.combining(chr(point)), chr(point))
    return sorted(found.items())


def reordered_words():
    """Return marks that are reordered but not removed as accents, as ranges: first, last, class."""
    ranges = []
    marks = marks_by_class()
    for point in POINTS:
        if not reorders(chr(point)) or inside(strip, chr(point)) == "" or inside(decompose, chr(point)) != chr(point):
            continue
        value = combining_class(chr(point), marks)
        if ranges and ranges[-1][1] == point - 1 and ranges[-1][2] == value:
            ranges[-1][1] = point
        else:
            ranges.append([point, point, value])
    return ranges


def stripped_letters():
    """Return ranges (first, last, index of the first letter), letters, and the sequences that replace some of them."""
    ranges, letters, sequences = [], [], []
    for point in POINTS:
        text = inside(strip, chr(point))
        if text in ("", chr(point)) or point in HANGUL:
            continue
        if ranges and point - ranges[-1][1] <= 3:
            letters += [ranges[-1][1] + 1 + i for i in range(point - ranges[-1][1] - 1)]
            ranges[-1][1] = point
        else:
            ranges.append([point, point, len(letters)])
        if len(text) == 1:
            letters.append(ord(text))
        else:
            letters.append(len(text) << 24 | len(sequences))
            sequences += map(ord, text)
    return ranges, letters, sequences


def lowercase_ranges():
    """Return ranges: first, last, distance between members, difference added to each."""
    mapped = {}
    for point in POINTS:
        text = inside(lower, chr(point))
        if text != chr(point):
            assert len(text) == 1 or point == 0x130, hex(point)
            if len(text) == 1:
                mapped[point] = ord(text) - point
    ranges = []
    for point in sorted(mapped):
        if ranges and ranges[-1][3] == mapped[point]:
            first, last, step, _ = ranges[-1]
            if point - last == step or (first == last and point - last <= 2):
                ranges[-1][1:3] = [point, point - last]
                continue
        ranges.append([point, point, 1, mapped[point]])
    return ranges


def check_hangul():
    for point in HANGUL:
        index = point - 0xAC00
        jamo = chr(0x1100 + index // 588) + chr(0x1161 + index % 588 // 28) + (chr(0x11A7 + index % 28) if index % 28 else "")
        assert inside(strip, chr(point)) == jamo


def write_rows(out, values):
    line = "   "
    for value in values:
        if len(line) + len(value) + 2 > 120:
            out.write(line + "\n")
            line = "   "
        line += " " + value + ","
    out.write(line + "\n};\n")


def hexadecimal(rows):
    return ["{%s}" % ", ".join("0x%X" % value for value in row) for row in rows]


def main():
    assert unicodedata2.unidata_version == VERSION, unicodedata2.unidata_version
    check_hangul()
    ranges, letters, sequences = stripped_letters()
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "src", "base", "unicode_tables.inc")
    with open(path, "w", newline="\n") as out:
        out.write("/* Generated by tools/golden/make_unicode_tables.py from Unicode %s: " % VERSION)
        out.write("code points where the class changes, as\n   code point << 2 | class (0 other, 1 letter, 2 number, 3 white space). */\n")
        out.write("static const uint32_t eitp__unicode_changes[] = {\n")
        write_rows(out, changes_of(class_of, 2))
        out.write("\n/* Code points where the class in BERT's tokenizer changes, as code point << 3 | class (unicode.h).\n"
                  "   This table and all below are from version 0.23.3 of the library `tokenizers`. */\n")
        out.write("static const uint32_t eitp__unicode_word_changes[] = {\n")
        write_rows(out, changes_of(word_class, 3))
        out.write("\n/* Characters that change without their accents: first, last, and the index of the first in\n"
                  "   eitp__unicode_letters. */\n")
        out.write("static const struct {\n    uint32_t first, last, index;\n} eitp__unicode_letter_ranges[] = {\n")
        write_rows(out, hexadecimal(ranges))
        out.write("\n/* Their replacements: a code point, or the length of a sequence << 24 | its index in eitp__unicode_sequences. */\n")
        out.write("static const uint32_t eitp__unicode_letters[] = {\n")
        write_rows(out, ["0x%X" % letter for letter in letters])
        out.write("\nstatic const uint32_t eitp__unicode_sequences[] = {\n")
        write_rows(out, ["0x%X" % point for point in sequences])
        out.write("\n/* Characters with a lower case, except U+0130: first, last, distance between them, and the difference. */\n")
        out.write("static const struct {\n    uint32_t first, last, step;\n    int32_t difference;\n} eitp__unicode_lowercase_ranges[] = {\n")
        write_rows(out, ["{0x%X, 0x%X, %d, %d}" % tuple(row) for row in lowercase_ranges()])
        out.write("\n/* Marks that are not accents but are ordered among them: first, last, canonical combining class. */\n")
        out.write("static const struct {\n    uint32_t first, last, order;\n} eitp__unicode_order_ranges[] = {\n")
        write_rows(out, ["{0x%X, 0x%X, %d}" % tuple(row) for row in reordered_words()])


if __name__ == "__main__":
    main()
