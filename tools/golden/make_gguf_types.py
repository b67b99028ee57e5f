#!/usr/bin/env python3
"""Write the golden values of tests/gguf/test_types.c with gguf: tests/golden/gguf/types.txt, or the file given.

    python3 tools/golden/make_gguf_types.py [FILE]

A line has the name, number, values and bytes of a type. If gguf dequantizes it exactly, it also has the offsets of the F16
numbers in a block, the number of blocks, the CRC32C of their values as f32, and some of these values. The blocks are random
bytes from the same Philox generator as in the test.
"""

import argparse
import pathlib

import numpy
from gguf import GGMLQuantizationType, GGML_QUANT_SIZES
from gguf.quants import dequantize

# Offsets of F16 numbers, for the types that eitp widens.
WIDENED = {
    "F32": [], "F16": [0], "BF16": [], "Q8_0": [0], "Q4_0": [0], "Q4_1": [0, 2], "Q5_0": [0], "Q5_1": [0, 2], "IQ4_NL": [0],
    "MXFP4": [], "Q2_K": [80, 82], "Q3_K": [108], "Q4_K": [0, 2], "Q5_K": [0, 2], "Q6_K": [208], "IQ4_XS": [0],
}
# Q8_1 is never in files, and gguf 0.19 states another size than ggml. It does not have Q2_0 yet.
SIZES = {"Q8_1": (9, 32, 36), "Q2_0": (42, 64, 18)}
BLOCKS, NUMBERS = 512, 4096
SHOWN = 4


def philox(seed, stream, count):
    """Return `count` blocks of four words, as eitp__philox(seed, 0, stream, index)."""
    index = numpy.arange(count, dtype=numpy.uint64)
    low = numpy.uint64(0xFFFFFFFF)
    half = numpy.uint64(32)
    c = [index & low, index >> half, numpy.zeros_like(index), numpy.full_like(index, stream)]
    k = [seed & 0xFFFFFFFF, seed >> 32]
    for _ in range(10):
        p = c[0] * numpy.uint64(0xD2511F53), c[2] * numpy.uint64(0xCD9E8D57)
        c = [(p[1] >> half) ^ c[1] ^ numpy.uint64(k[0]), p[1] & low, (p[0] >> half) ^ c[3] ^ numpy.uint64(k[1]), p[0] & low]
        k = [(k[0] + 0x9E3779B9) & 0xFFFFFFFF, (k[1] + 0xBB67AE85) & 0xFFFFFFFF]
    return numpy.stack(c, axis=1).astype(numpy.uint32)


def crc32c(data):
    table = []
    for i in range(256):
        for _ in range(8):
            i = i >> 1 ^ (0x82F63B78 if i & 1 else 0)
        table.append(i)
    crc = 0xFFFFFFFF
    for byte in data:
        crc = table[(crc ^ byte) & 255] ^ crc >> 8
    return crc ^ 0xFFFFFFFF


def make_blocks(name, number, size, halves):
    """Random bytes; F16 numbers are finite, and subnormal, the largest, or zero in every eighth block."""
    count = NUMBERS if size <= 4 else BLOCKS
    words = philox(number, 0, (count * size + 15) // 16)
    blocks = words.astype("<u4").view(numpy.uint8).reshape(-1)[: count * size].reshape(count, size).copy()
    for place, offset in enumerate(halves):
        half = blocks[:, offset].astype(numpy.uint16) | blocks[:, offset + 1].astype(numpy.uint16) << 8
        case = (numpy.arange(count) + 3 * place) % 8
        half[case == 0] &= 0x83FF
        half[case == 1] = half[case == 1] & 0x8000 | 0x7BFF
        half[case == 2] &= 0x8000
        half[half & 0x7C00 == 0x7C00] ^= 0x4000
        blocks[:, offset], blocks[:, offset + 1] = half & 255, half >> 8
    if name == "MXFP4":
        blocks[:, 0] = numpy.arange(count) & 255
    return blocks


def line(name, number, values, size):
    halves = WIDENED.get(name)
    start = f'{{"{name}", {number}, {values}, {size}'
    if halves is None:
        return start + ", {-1, -1}, 0, 0, {{0, 0}}},\n"
    blocks = make_blocks(name, number, size, halves)
    with numpy.errstate(over="ignore"):
        result = dequantize(blocks, GGMLQuantizationType[name]).astype("<f4").reshape(-1)
    bits = result.view(numpy.uint32)
    shown = [(i * 1009 + 7) * 13 % len(bits) for i in range(SHOWN)]
    offsets = (halves + [-1, -1])[:2]
    return (
        start
        + f", {{{offsets[0]}, {offsets[1]}}}, {len(blocks)}, 0x{crc32c(result.tobytes()):08x}, {{"
        + ", ".join(f"{{{i}, 0x{bits[i]:08x}}}" for i in shown)
        + "}},\n"
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    default = pathlib.Path(__file__).resolve().parents[2] / "tests" / "golden" / "gguf" / "types.txt"
    parser.add_argument("file", nargs="?", type=pathlib.Path, default=default)
    sizes = {t.name: (int(t), *GGML_QUANT_SIZES[t]) for t in GGMLQuantizationType} | SIZES
    lines = [line(name, *size) for name, size in sorted(sizes.items(), key=lambda item: item[1])]
    file = parser.parse_args().file
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("".join(lines))


if __name__ == "__main__":
    main()
