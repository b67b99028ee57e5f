#!/usr/bin/env python3
"""Encode texts with eitp and with Hugging Face's tokenizers, and compare every id.

    python3 tools/peers/tokenizers_parity.py [--eitp build/eitp] [--megabytes 20] [--tokenizer FILE] [TEXT...]

FILE is a tokenizer.json (default: tests/golden/tokenizer/tokenizer.json); one that eitp trains here is compared too. TEXT
defaults to the files of this tree, Python's library, and random code points of every plane. Prints one line of JSON. Fails
if an id differs.
"""

import argparse
import json
import pathlib
import random
import subprocess
import sys
import sysconfig
import tempfile


def parse_arguments():
    root = pathlib.Path(__file__).resolve().parent.parent.parent
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--eitp", type=pathlib.Path, default=pathlib.Path("build/eitp"))
    parser.add_argument("--megabytes", type=float, default=20)
    parser.add_argument("--tokenizer", type=pathlib.Path, default=root / "tests/golden/tokenizer/tokenizer.json")
    parser.add_argument("text", nargs="*", type=pathlib.Path)
    return parser.parse_args()


def run_eitp(arguments, *words):
    done = subprocess.run([str(arguments.eitp.resolve()), *map(str, words)], capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(done.stderr)
    return done.stdout


def random_text(generator, count):
    """Code points of every plane, beside what a pattern treats apart: spaces, apostrophes, digits."""
    limits, marks = (0x80, 0x800, 0x3100, 0xA000, 0x20000, 0x110000), [" ", "  ", "\n", "\t ", "'s", "'LL", "9", "\u3000", "e\u0301"]
    parts = []
    for _ in range(count):
        point = generator.randrange(generator.choice(limits))
        parts.append("" if 0xD800 <= point < 0xE000 else chr(point))
        parts.append(generator.choice(marks) if generator.random() < 0.3 else "")
    return "".join(parts)


def texts(arguments):
    left = arguments.megabytes * 1e6
    root = pathlib.Path(__file__).resolve().parent.parent.parent
    files = arguments.text or [
        *sorted(root.glob("*.md")), *sorted(root.glob("src/**/*.c")), *sorted(root.glob("tests/corpus/**/*")),
        *sorted(pathlib.Path(sysconfig.get_paths()["stdlib"]).rglob("*.py")),
    ]
    if not arguments.text:
        for seed in range(8):
            text = random_text(random.Random(seed), 100000)
            left -= len(text.encode())
            yield text
    for file in files:
        if left <= 0:
            return
        if file.is_file():
            text = file.read_bytes().decode("utf-8", "replace")
            left -= len(text.encode())
            yield text


def compare(arguments, scratch, name, tokenizer):
    import tokenizers

    reference = tokenizers.Tokenizer.from_file(str(tokenizer))
    size = ids = 0
    batch = []
    file = scratch / "text.txt"

    def flush():
        nonlocal ids, size
        text = "".join(batch)
        batch.clear()
        file.write_bytes(text.encode())
        found = list(map(int, run_eitp(arguments, "tokenizer", "encode", "--tokenizer", tokenizer, "--data", file).split()))
        expected = reference.encode(text, add_special_tokens=False).ids
        if found != expected:
            at = next((i for i, pair in enumerate(zip(found, expected)) if pair[0] != pair[1]), min(len(found), len(expected)))
            raise SystemExit(f"{name}: id {at} differs: eitp {found[at - 3 : at + 4]}, tokenizers {expected[at - 3 : at + 4]}")
        ids += len(expected)
        size += file.stat().st_size

    for text in texts(arguments):
        batch.append(text)
        if sum(map(len, batch)) > 1 << 20:
            flush()
    flush()
    return {"bytes": size, "ids": ids, "different": 0}


def main():
    arguments = parse_arguments()
    import tokenizers

    with tempfile.TemporaryDirectory() as scratch:
        scratch = pathlib.Path(scratch)
        learnt = scratch / "learnt"
        source = pathlib.Path(__file__).resolve().parent.parent.parent / "CONTRIBUTING.md"
        run_eitp(arguments, "tokenizer", "train", "--data", source, "--vocab-size", 1200, "--output", learnt)
        result = {"tokenizers": tokenizers.__version__}
        for name, file in ("given", arguments.tokenizer), ("learnt", learnt / "tokenizer.json"):
            result[name] = compare(arguments, scratch, name, file)
    print(json.dumps(result))
    return 0


if __name__ == "__main__":
    sys.exit(main())
