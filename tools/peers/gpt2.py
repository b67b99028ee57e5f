"""GPT-2 in PyTorch, for machines without transformers: the same layers, and weights under the same names."""

import json
import pathlib
import types

import torch
from torch import nn
from torch.nn import functional


class Projection(nn.Module):
    """A linear layer whose weight is [inputs, outputs], as in GPT-2's files."""

    def __init__(self, inputs, outputs):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(inputs, outputs) * 0.02)
        self.bias = nn.Parameter(torch.zeros(outputs))

    def forward(self, x):
        return torch.addmm(self.bias, x.flatten(0, -2), self.weight).view(*x.shape[:-1], -1)


class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.c_attn = Projection(width, 3 * width)
        self.c_proj = Projection(width, width)

    def forward(self, x):
        parts = self.c_attn(x).view(*x.shape[:2], 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        y = functional.scaled_dot_product_attention(parts[0], parts[1], parts[2], is_causal=True)
        return self.c_proj(y.transpose(1, 2).flatten(2))


class Inner(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.c_fc = Projection(width, 4 * width)
        self.c_proj = Projection(4 * width, width)

    def forward(self, x):
        return self.c_proj(functional.gelu(self.c_fc(x), approximate="tanh"))


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.ln_1 = nn.LayerNorm(width)
        self.attn = Attention(width, heads)
        self.ln_2 = nn.LayerNorm(width)
        self.mlp = Inner(width)

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))


class GPT2(nn.Module):
    """The model without dropout. Its output has `logits`."""

    def __init__(self, vocabulary=50257, positions=1024, width=768, heads=12, layers=12):
        super().__init__()
        self.config = types.SimpleNamespace(vocab_size=vocabulary, num_hidden_layers=layers)
        self.wte = nn.Embedding(vocabulary, width)
        self.wpe = nn.Embedding(positions, width)
        nn.init.normal_(self.wte.weight, std=0.02)
        nn.init.normal_(self.wpe.weight, std=0.01)
        self.h = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.ln_f = nn.LayerNorm(width)

    def forward(self, input_ids, use_cache=False):
        x = self.wte(input_ids) + self.wpe.weight[: input_ids.shape[1]]
        for block in self.h:
            x = block(x)
        return types.SimpleNamespace(logits=functional.linear(self.ln_f(x), self.wte.weight))


def read_safetensors(path):
    """Return the tensors of a file, which are F32."""
    data = pathlib.Path(path).read_bytes()
    size = int.from_bytes(data[:8], "little")
    tensors = {}
    for name, entry in json.loads(data[8 : 8 + size]).items():
        if name == "__metadata__":
            continue
        if entry["dtype"] != "F32":
            raise SystemExit(f"{path}: {name} is {entry['dtype']}, not F32")
        begin, end = (8 + size + offset for offset in entry["data_offsets"])
        tensors[name] = torch.frombuffer(bytearray(data[begin:end]), dtype=torch.float32).view(entry["shape"])
    return tensors


def load(path, heads=None):
    """Return the model of a file: `heads` heads, by default of 64."""
    tensors = {name.removeprefix("transformer."): tensor for name, tensor in read_safetensors(path).items()}
    vocabulary, width = tensors["wte.weight"].shape
    layers = sum(name.endswith(".ln_1.weight") for name in tensors)
    model = GPT2(vocabulary, tensors["wpe.weight"].shape[0], width, heads or width // 64, layers)
    model.load_state_dict({name: tensors[name] for name in model.state_dict()})
    return model
