#!/usr/bin/env python3
"""Write src/base/composition_tables.inc, the tables of src/base/composition.c.

Version 0.23 of the library `tokenizers` is asked what its Normalization Form D makes of every code point, in which order it
puts marks, and what its Form C makes of the parts of every character again.

    pip install unicodedata2==16.0.0 tokenizers==0.23.3
    python3 tools/golden/make_composition_tables.py
"""

import os

from make_unicode_tables import (
    HANGUL, POINTS, combining_class, decompose, hexadecimal, inside, marks_by_class, reorders, write_rows
)
from tokenizers import normalizers

compose = normalizers.NFC().normalize_str


def mark_ranges():
    """Marks that change places with others, as ranges: first, last, canonical combining class."""
    ranges, marks = [], marks_by_class()
    for point in POINTS:
        if not reorders(chr(point)) or inside(decompose, chr(point)) != chr(point):
            continue
        value = combining_class(chr(point), marks)
        if ranges and ranges[-1][1] == point - 1 and ranges[-1][2] == value:
            ranges[-1][1] = point
        else:
            ranges.append([point, point, value])
    return ranges


def main():
    decompositions, parts, compositions = [], [], []
    for point in POINTS:
        text = inside(decompose, chr(point))
        if text == chr(point) or point in HANGUL:
            continue
        assert len(text) <= 4, hex(point)
        decompositions.append((point, len(parts), len(text)))
        parts += map(ord, text)
        first = inside(compose, text[:-1]) if len(text) > 1 else ""
        if len(first) == 1 and compose(first + text[-1]) == chr(point):
            compositions.append((ord(first), ord(text[-1]), point))
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "src", "base", "composition_tables.inc")
    with open(path, "w", newline="\n") as out:
        out.write("/* Made by tools/golden/make_composition_tables.py from version 0.23.3 of the library `tokenizers`: canonical combining\n"
                  "   classes of marks, as first, last, class. */\n")
        out.write("static const struct {\n    uint32_t first, last, order;\n} eitp__unicode_mark_ranges[] = {\n")
        write_rows(out, ["{0x%X, 0x%X, %d}" % tuple(row) for row in mark_ranges()])
        out.write("\n/* Canonical decompositions: a code point, where its parts are in eitp__unicode_parts, and their number. */\n")
        out.write("static const struct {\n    uint32_t code_point;\n    uint16_t at, count;\n} eitp__unicode_decompositions[] = {\n")
        write_rows(out, ["{0x%X, %d, %d}" % row for row in decompositions])
        out.write("\nstatic const uint32_t eitp__unicode_parts[] = {\n")
        write_rows(out, ["0x%X" % point for point in parts])
        out.write("\n/* What two code points become: first, second, composed. */\n")
        out.write("static const struct {\n    uint32_t first, second, composed;\n} eitp__unicode_compositions[] = {\n")
        write_rows(out, hexadecimal(sorted(compositions)))


if __name__ == "__main__":
    main()
