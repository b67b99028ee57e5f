#!/usr/bin/env python3
"""Draw the content of a terminal, read from `tmux capture-pane -p -e`, as SVG on standard output."""

import html
import re
import sys

CELL, LINE, MARGIN = 8, 16, 12
COLOURS = {31: "#f07178", 32: "#a5d27a", 33: "#f0c36a", 34: "#7aa7f0", 35: "#c792ea", 36: "#6fc7d8", 37: "#e8ecf2"}
TEXT, FAINT, BACKGROUND = "#d6dbe4", "#9aa4b4", "#161b24"


class Style:
    def __init__(self):
        self.bold, self.faint, self.reverse, self.colour = False, False, False, None

    def apply(self, codes):
        for code in [int(code or 0) for code in codes.split(";")]:
            if code == 0:
                self.__init__()
            elif code == 1:
                self.bold = True
            elif code == 2:
                self.faint = True
            elif code == 7:
                self.reverse = True
            elif code in COLOURS or code - 60 in COLOURS:
                self.colour = COLOURS[code if code in COLOURS else code - 60]
            elif code == 39:
                self.colour = None

    def attributes(self):
        fill = BACKGROUND if self.reverse else self.colour or (FAINT if self.faint else TEXT)
        return f'fill="{fill}"' + (' font-weight="bold"' if self.bold else "")


def runs(line, style):
    """Yield runs of text in one style, each with its start column."""
    column = 0
    for part in re.split(r"(\x1b\[[0-9;]*m)", line):
        if part.startswith("\x1b"):
            style.apply(part[2:-1])
        elif part:
            yield column, part, style
            column += len(part)


def draw(lines):
    width = max(len(re.sub(r"\x1b\[[0-9;]*m", "", line)) for line in lines)
    size = f"{width * CELL + 2 * MARGIN} {len(lines) * LINE + 2 * MARGIN}"
    yield f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {size}" width="{size.split()[0]}" height="{size.split()[1]}"'
    yield ' role="img" font-family="ui-monospace, DejaVu Sans Mono, Consolas, monospace" font-size="13">'
    yield "<title>eitp monitor: a run in a terminal</title>"
    yield f'<rect width="100%" height="100%" rx="8" fill="{BACKGROUND}"/>'
    style = Style()
    for row, line in enumerate(lines):
        y = MARGIN + LINE * row
        for column, text, at in runs(line, style):
            x = MARGIN + CELL * column
            if at.reverse:
                yield f'<rect x="{x}" y="{y}" width="{CELL * len(text)}" height="{LINE}" fill="{TEXT}"/>'
            if text.strip():
                yield (
                    f'<text x="{x}" y="{y + 13}" textLength="{CELL * len(text)}" xml:space="preserve" {at.attributes()}>'
                    f"{html.escape(text)}</text>"
                )
    yield "</svg>"


def main():
    lines = sys.stdin.read().rstrip("\n").split("\n")
    print("\n".join(draw(lines)))


if __name__ == "__main__":
    main()
