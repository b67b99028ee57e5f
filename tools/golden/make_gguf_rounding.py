#!/usr/bin/env python3
"""Write the golden bytes of tests/gguf/test_rounding.c with llama.cpp: tests/golden/gguf/rounding.txt, or the file given.

    python3 tools/golden/make_gguf_rounding.py LIBRARY [FILE]      LIBRARY: libggml-base.so, for any x86-64 processor

A line has a type, a pattern of values, the CRC32C of the blocks they are rounded to, and the bytes of the first block. Where
gguf implements a type, it must give the same bytes, except for zeros of both signs and for values so small that inverses of
scales overflow. The random numbers are those of the Philox generator in the test.
"""

import argparse
import ctypes
import pathlib

import numpy
from gguf import GGMLQuantizationType, GGML_QUANT_SIZES
from gguf.quants import quantize

from make_gguf_types import crc32c, philox

TYPES = "F16 BF16 Q4_0 Q4_1 Q5_0 Q5_1 Q8_0 Q4_K Q5_K Q6_K".split()
NOT_IN_GGUF = "Q4_K Q5_K Q6_K".split()
PATTERNS = "normal heavy constant zero alternating tiny large sparse positive grid uneven any".split()
COUNT = 64 * 256


def make_values(pattern):
    """Integers times powers of two. `bell` is nearly normal, with a standard deviation of 2^15.2."""
    words = philox(PATTERNS.index(pattern), 1, COUNT).astype(numpy.int64)
    bell = (words[:, 0] & 0xFFFF) + (words[:, 0] >> 16) + (words[:, 1] & 0xFFFF) + (words[:, 1] >> 16) - 131070
    free = words[:, 2]
    i = numpy.arange(COUNT)
    exponent = numpy.full(COUNT, -22)
    if pattern == "heavy":
        exponent = (free & 15) - 30
    elif pattern == "constant":
        bell = bell[i & ~255]
    elif pattern == "zero":
        bell = bell * 0
    elif pattern == "alternating":
        bell = numpy.where(i & 1, -bell[i & ~31], bell[i & ~31])
    elif pattern == "tiny":
        exponent = (i >> 8 & 63) * 2 - 149
    elif pattern == "large":
        exponent = exponent * 0
    elif pattern == "sparse":
        bell = numpy.where(free & 15, 0, bell)
    elif pattern == "positive":
        bell = abs(bell) + 1000
    elif pattern == "grid":
        bell >>= 13
    elif pattern == "uneven":
        exponent = (free[i & ~15] & 15) - 36
    elif pattern == "any":
        exponent = free % 200 - 140
    values = numpy.ldexp(bell.astype(numpy.float64), exponent).astype(numpy.float32)
    return numpy.copysign(values, (i & 1) * -2 + 1).astype(numpy.float32) if pattern == "zero" else values


def round_values(library, name, values):
    """Return the bytes of llama.cpp."""
    kind = GGMLQuantizationType[name]
    block, size = GGML_QUANT_SIZES[kind]
    result = numpy.empty(len(values) // block * size, numpy.uint8)
    rows = len(values) // 256
    chunk = library.ggml_quantize_chunk
    chunk.restype = ctypes.c_size_t
    chunk.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, *[ctypes.c_int64] * 3, ctypes.c_void_p]
    written = chunk(int(kind), values.ctypes.data, result.ctypes.data, 0, rows, 256, None)
    if written != len(result):
        raise SystemExit(f"{name}: {written} bytes, expected {len(result)}")
    return result


def line(library, name, pattern):
    values = make_values(pattern)
    result = round_values(library, name, values)
    if name not in NOT_IN_GGUF and pattern not in ("zero", "tiny", "any"):
        with numpy.errstate(over="ignore"):
            other = quantize(values, GGMLQuantizationType[name]).view(numpy.uint8)
        if not numpy.array_equal(result, other):
            raise SystemExit(f"{name}, {pattern}: gguf gives other bytes than llama.cpp")
    first = result[: GGML_QUANT_SIZES[GGMLQuantizationType[name]][1]].tobytes()
    return f'{{"{name}", "{pattern}", 0x{crc32c(result.tobytes()):08x}, "{first.hex()}"}},\n'


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    default = pathlib.Path(__file__).resolve().parents[2] / "tests" / "golden" / "gguf" / "rounding.txt"
    parser.add_argument("library")
    parser.add_argument("file", nargs="?", type=pathlib.Path, default=default)
    arguments = parser.parse_args()
    library = ctypes.CDLL(arguments.library)
    lines = [line(library, name, pattern) for name in TYPES for pattern in PATTERNS]
    arguments.file.parent.mkdir(parents=True, exist_ok=True)
    arguments.file.write_text("".join(lines))


if __name__ == "__main__":
    main()
