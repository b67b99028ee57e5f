#!/usr/bin/env python3
"""Write src/base/unicode_tables.inc: the code points where the character class changes, for eitp__unicode_class.

The classes are those that GPT-2's pattern names: letters (category L*), numbers (N*) and white space (the property
White_Space: category Z*, U+0009 to U+000D, U+0085). The version of Unicode is the one that version 0.23 of the library
`tokenizers` applies; tools/make_tokenizer_golden.py compares every code point with it.

    pip install unicodedata2==16.0.0
    python3 tools/make_unicode_tables.py
"""

import os

import unicodedata2

VERSION = "16.0.0"
CONTROL_SPACES = (0x09, 0x0A, 0x0B, 0x0C, 0x0D, 0x85)
OTHER, LETTER, NUMBER, SPACE = range(4)


def class_of(code_point):
    category = unicodedata2.category(chr(code_point))
    if category[0] == "Z" or code_point in CONTROL_SPACES:
        return SPACE
    return {"L": LETTER, "N": NUMBER}.get(category[0], OTHER)


def main():
    assert unicodedata2.unidata_version == VERSION, unicodedata2.unidata_version
    changes = []
    last = None
    for code_point in range(0x110000):
        current = class_of(code_point)
        if current != last:
            changes.append("0x%X" % (code_point << 2 | current))
            last = current
    lines, line = [], "   "
    for change in changes:
        if len(line) + len(change) + 2 > 120:
            lines.append(line)
            line = "   "
        line += " " + change + ","
    lines.append(line)
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "src", "base", "unicode_tables.inc")
    with open(path, "w", newline="\n") as out:
        out.write("/* Made by tools/make_unicode_tables.py from Unicode %s: " % VERSION)
        out.write("where the class of code points changes, as\n   code point << 2 | class (0 other, 1 letter, 2 number, 3 white space). */\n")
        out.write("static const uint32_t eitp__unicode_changes[] = {\n")
        out.write("\n".join(lines) + "\n};\n")


if __name__ == "__main__":
    main()
