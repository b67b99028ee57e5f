#!/usr/bin/env python3
"""Write tests/golden/pytorch: files written by torch.save.

    python3 tools/golden/make_pytorch.py [DIRECTORY]

tensors.bin has a tensor of each type and layout, small.bin only two. bert-class.bin has the weights of
tests/golden/bert/bert-class, with matrices transposed in the file, as in conversions from TensorFlow. The same version of
torch always writes the same bytes.
"""

import argparse
import collections
import pathlib

import torch
from safetensors.torch import load_file

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent


def transposed(matrix):
    return matrix.t().contiguous().t()


def make_tensors():
    matrix = torch.arange(6, dtype=torch.float32).reshape(2, 3) / 4
    tensors = collections.OrderedDict()
    tensors["wte.weight"] = matrix
    tensors["tied"] = matrix
    tensors["row"] = matrix[1]
    tensors["column"] = matrix[:, 1:2][:1]
    tensors["transposed"] = matrix.t()
    tensors["half.transposed"] = transposed((torch.arange(35, dtype=torch.float32).reshape(5, 7) - 9).half())
    tensors["parameter"] = torch.nn.Parameter(torch.tensor([1.5, -2.0, float("inf"), 5.9604645e-8, 65504.0]).half())
    tensors["bfloat"] = torch.tensor([1.0, -3.0, 0.15625]).bfloat16()
    tensors["double"] = torch.tensor([0.1, float("-inf"), 2.5], dtype=torch.float64)
    tensors["position_ids"] = torch.arange(4)[None]
    tensors["integers"] = torch.tensor([-1, 70000], dtype=torch.int32)
    tensors["short"] = torch.tensor([-2, 300], dtype=torch.int16)
    tensors["signed"] = torch.tensor([-3, 4], dtype=torch.int8)
    tensors["bytes"] = torch.tensor([1, 2, 255], dtype=torch.uint8)
    tensors["mask"] = torch.tensor([True, False, True])
    tensors["scalar"] = torch.tensor(123.5)
    tensors["empty"] = torch.zeros(0, 4)
    tensors["caf\u00e9"] = torch.zeros(1, 2, 1, 3)
    tensors._metadata = collections.OrderedDict({"": {"version": 1}, "norm": {"version": 2}})
    return tensors


def make_weights():
    weights = load_file(ROOT / "tests" / "golden" / "bert" / "bert-class" / "model.safetensors")
    return {name: transposed(value) if value.ndim == 2 else value for name, value in weights.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", nargs="?", type=pathlib.Path, default=ROOT / "tests" / "golden" / "pytorch")
    directory = parser.parse_args().directory
    directory.mkdir(parents=True, exist_ok=True)
    torch.save(make_tensors(), directory / "tensors.bin")
    torch.save({"a": torch.tensor([1.0, 2.0]), "b": torch.tensor([[3.0], [4.0]])}, directory / "small.bin")
    torch.save(make_weights(), directory / "bert-class.bin")


if __name__ == "__main__":
    main()
