#!/usr/bin/env python3
"""Write tests/golden/ops/ops.safetensors: inputs, outputs and gradients of the composite ops, computed by PyTorch.

    python3 tools/golden/make_op.py [FILE]

Floating-point tensors are F64, ids and counts I32. Inputs are exactly representable in float32; outputs are computed in
float64. grad_y is the gradient of the output, grad_x that of input x. tests/golden/README.md lists the tensors.
"""

import argparse
import pathlib

import numpy
import torch
from safetensors.numpy import save_file
from torch.nn import functional

IGNORED = -100


class Golden:
    """Collects named tensors and draws inputs."""

    def __init__(self, seed):
        self.tensors = {}
        self.generator = numpy.random.default_rng(seed)

    def draw(self, *shape, scale=1.0, shift=0.0):
        return single(shift + scale * self.generator.standard_normal(shape))

    def add(self, op, **tensors):
        for name, value in tensors.items():
            if isinstance(value, torch.Tensor):
                value = value.detach().numpy()
            value = numpy.atleast_1d(numpy.asarray(value))
            kind = numpy.float64 if value.dtype.kind == "f" else numpy.int32
            self.tensors[f"{op}.{name}"] = numpy.ascontiguousarray(value.astype(kind))


def single(values):
    """Return a float64 tensor with float32 values."""
    return torch.from_numpy(numpy.asarray(values, dtype=numpy.float32).astype(numpy.float64))


def gradients(output, grad_output, *inputs):
    return torch.autograd.grad(output, inputs, grad_output, retain_graph=True)


def leaf(tensor):
    return tensor.clone().requires_grad_()


def layer_norm(golden, op, x, epsilon):
    width = x.shape[-1]
    x, gain, bias = leaf(x), leaf(golden.draw(width, scale=0.3, shift=1.0)), leaf(golden.draw(width, scale=0.2))
    y, mean, reciprocal = torch.native_layer_norm(x, [width], gain, bias, epsilon)
    grad_y = golden.draw(*x.shape)
    grad_x, grad_gain, grad_bias = gradients(y, grad_y, x, gain, bias)
    golden.add(op, x=x, gain=gain, bias=bias, epsilon=epsilon, y=y, mean=mean.squeeze(-1), grad_y=grad_y)
    golden.add(op, reciprocal_deviation=reciprocal.squeeze(-1), grad_x=grad_x, grad_gain=grad_gain, grad_bias=grad_bias)


def elementwise(golden, op, function, x):
    x = leaf(x)
    y = function(x)
    grad_y = golden.draw(*x.shape)
    golden.add(op, x=x, y=y, grad_y=grad_y, grad_x=gradients(y, grad_y, x)[0])


def cross_entropy(golden, op, logits, targets):
    logits = leaf(logits)
    labels = torch.tensor(targets)
    loss = functional.cross_entropy(logits, labels, ignore_index=IGNORED, reduction="none")
    mean = functional.cross_entropy(logits, labels, ignore_index=IGNORED, reduction="mean")
    grad_loss = golden.draw(len(targets))
    golden.add(op, logits=logits, targets=labels, ignored=IGNORED, loss=loss, logsumexp=logits.logsumexp(-1))
    golden.add(op, grad_loss=grad_loss, grad_logits=gradients(loss, grad_loss, logits)[0])
    golden.add(op, mean=mean, mean_grad_logits=gradients(mean, None, logits)[0])


def smoothed_cross_entropy(golden, op, logits, targets, label_smoothing, weights):
    logits = leaf(logits)
    labels = torch.tensor(targets)
    config = {"ignore_index": IGNORED, "label_smoothing": label_smoothing, "weight": weights}
    loss = functional.cross_entropy(logits, labels, reduction="none", **config)
    grad_loss = golden.draw(len(targets))
    golden.add(op, logits=logits, targets=labels, ignored=IGNORED, label_smoothing=label_smoothing, loss=loss)
    golden.add(op, grad_loss=grad_loss, grad_logits=gradients(loss, grad_loss, logits)[0])
    if weights is not None:
        golden.add(op, weights=weights)


def attention(golden, op, lengths, width, heads, scale, sharpness):
    """Packed sequences with causal attention within each; qkv rows are [query, key, value], heads side by side."""
    offsets = numpy.concatenate([[0], numpy.cumsum(lengths)])
    qkv = leaf(golden.draw(int(offsets[-1]), 3 * width, scale=sharpness))
    outputs, logsumexps = [], []
    for begin, end in zip(offsets[:-1], offsets[1:]):
        rows = qkv[begin:end].reshape(end - begin, 3, heads, width // heads).permute(1, 2, 0, 3)
        query, key, value = rows[0], rows[1], rows[2]
        output = functional.scaled_dot_product_attention(query, key, value, is_causal=True, scale=scale)
        outputs.append(output.permute(1, 0, 2).reshape(end - begin, width))
        hidden = torch.ones(end - begin, end - begin, dtype=torch.bool).triu(1)
        scores = (query @ key.transpose(1, 2) * scale).masked_fill(hidden, float("-inf"))
        logsumexps.append(scores.logsumexp(-1).transpose(0, 1))
    y = torch.cat(outputs)
    grad_y = golden.draw(*y.shape)
    golden.add(op, qkv=qkv, offsets=offsets, heads=heads, scale=scale, y=y, logsumexp=torch.cat(logsumexps))
    golden.add(op, grad_y=grad_y, grad_qkv=gradients(y, grad_y, qkv)[0])


def dot_product(golden, op, shapes, mask, causal=False):
    """Queries, keys and values of three shapes; heads of queries may share heads of keys."""
    query, key, value = (leaf(golden.draw(*shape)) for shape in shapes)
    y = functional.scaled_dot_product_attention(
        query, key, value, attn_mask=mask, is_causal=causal, scale=0.375, enable_gqa=True
    )
    grad_y = golden.draw(*y.shape)
    grads = gradients(y, grad_y, query, key, value)
    golden.add(op, q=query, k=key, v=value, y=y, grad_y=grad_y, grad_q=grads[0], grad_k=grads[1], grad_v=grads[2])
    if mask is not None:
        golden.add(op, mask=mask.to(torch.int32) if mask.dtype == torch.bool else mask)
    golden.add(op, causal=int(causal), scale=0.375)


def embedding(golden, op, rows, width, ids):
    table = leaf(golden.draw(rows, width))
    y = functional.embedding(torch.tensor(ids), table)
    grad_y = golden.draw(*y.shape)
    golden.add(op, table=table, ids=ids, y=y, grad_y=grad_y, grad_table=gradients(y, grad_y, table)[0])


def adamw(golden, op, step, m, v, weight_decay):
    gradient = golden.draw(24)
    gradient[:6] = single([0.0, 1e-9, -1e-7, 1e-4, 1e6, -30.0])
    parameter = golden.draw(24)
    hyper = {"beta1": 0.9, "beta2": 0.999, "epsilon": 1e-8, "weight_decay": weight_decay}
    rate = float(numpy.float32(3e-3))
    golden.add(op, parameter=parameter, gradient=gradient, m=m, v=v, learning_rate=rate, step=step, **hyper)
    updated = parameter.clone().requires_grad_()
    optimizer = torch.optim.AdamW([updated], lr=rate, betas=(0.9, 0.999), eps=1e-8, weight_decay=weight_decay)
    state = optimizer.state[updated]
    state.update(step=torch.tensor(float(step - 1)), exp_avg=m.clone(), exp_avg_sq=v.clone())
    updated.grad = gradient.clone()
    optimizer.step()
    golden.add(op, new_parameter=updated, new_m=state["exp_avg"], new_v=state["exp_avg_sq"])


def clip(golden, op, limit):
    """Clipping by the joint norm of two tensors."""
    a, b = golden.draw(7, 5), golden.draw(13)
    first, second = leaf(torch.zeros_like(a)), leaf(torch.zeros_like(b))
    first.grad, second.grad = a.clone(), b.clone()
    norm = torch.nn.utils.clip_grad_norm_([first, second], limit)
    golden.add(op, gradient_a=a, gradient_b=b, limit=limit, norm=norm, clipped_a=first.grad, clipped_b=second.grad)


def make(golden):
    layer_norm(golden, "layer_norm", golden.draw(3, 5, 17), 1e-5)
    layer_norm(golden, "layer_norm_far_mean", golden.draw(4, 33, shift=1000.0), 1e-4)
    layer_norm(golden, "layer_norm_constant", single(numpy.full((2, 8), 0.75)), 1e-5)

    corners = [0.0, 1e-8, -1e-8, 1e-3, -1e-3, 0.5, -0.5, 1.0, -1.0, 3.0, -3.0, 5.0, -5.0, 10.0, -10.0, 40.0, -40.0]
    points = torch.cat([single(corners), golden.draw(46, scale=2.0)])
    elementwise(golden, "gelu_tanh", lambda x: functional.gelu(x, approximate="tanh"), points)
    elementwise(golden, "gelu_erf", functional.gelu, points)

    rows = golden.draw(4, 19)
    large = torch.cat([golden.draw(2, 19, scale=50.0), golden.draw(2, 19, scale=2.0, shift=1e4)])
    masked = golden.draw(3, 19)
    masked[0, 4:] = float("-inf")
    masked[1, :18] = float("-inf")
    masked[2, ::2] = float("-inf")
    for op, function in (("softmax", functional.softmax), ("log_softmax", functional.log_softmax)):
        elementwise(golden, op, lambda x, f=function: f(x, dim=-1), rows)
        elementwise(golden, op + "_large", lambda x, f=function: f(x, dim=-1), large)
    elementwise(golden, "softmax_masked", lambda x: functional.softmax(x, dim=-1), masked)

    cross_entropy(golden, "cross_entropy", golden.draw(7, 23, scale=2.0), [0, 22, IGNORED, 5, 5, IGNORED, 11])
    cross_entropy(golden, "cross_entropy_large", golden.draw(4, 23, scale=60.0, shift=-500.0), [3, IGNORED, 22, 0])

    attention(golden, "attention", [7, 1, 12], width=24, heads=3, scale=8.0**-0.5, sharpness=1.0)
    attention(golden, "attention_sharp", [5, 9], width=10, heads=2, scale=0.375, sharpness=4.0)

    embedding(golden, "embedding", 11, 6, [3, 0, 10, 3, 3, 7, 0, 1, 10])

    zeros = torch.zeros(24, dtype=torch.float64)
    adamw(golden, "adamw_first", 1, zeros, zeros, 0.0)
    adamw(golden, "adamw", 7, golden.draw(24, scale=0.1), single(golden.draw(24, scale=0.1) ** 2), 0.1)

    clip(golden, "clip", 0.5)
    clip(golden, "clip_below_limit", 50.0)

    # Add new cases here, so that the random values of existing cases do not change.
    targets = [0, 12, IGNORED, 5, 5, IGNORED, 11]
    weights = golden.draw(13).abs()
    smoothed_cross_entropy(golden, "cross_entropy_smoothed", golden.draw(7, 13, scale=2.0), targets, 0.1, None)
    smoothed_cross_entropy(golden, "cross_entropy_weighted", golden.draw(7, 13, scale=2.0), targets, 0.0, weights)
    smoothed_cross_entropy(golden, "cross_entropy_both", golden.draw(7, 13, scale=2.0), targets, 0.25, weights)

    shapes = (2, 4, 5, 3), (2, 2, 7, 3), (2, 2, 7, 2)
    seen = golden.draw(2, 1, 5, 7) > -0.5
    seen[..., 0] = True
    dot_product(golden, "dot_product_causal", shapes, None, causal=True)
    dot_product(golden, "dot_product_mask", shapes, seen)
    dot_product(golden, "dot_product_bias", shapes, golden.draw(4, 5, 7).masked_fill(~seen[0], float("-inf")))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    default = pathlib.Path(__file__).resolve().parent.parent.parent / "tests" / "golden" / "ops" / "ops.safetensors"
    parser.add_argument("file", nargs="?", type=pathlib.Path, default=default)
    file = parser.parse_args().file
    torch.set_num_threads(1)
    golden = Golden(seed=20)
    make(golden)
    file.parent.mkdir(parents=True, exist_ok=True)
    save_file(golden.tensors, file)
    print(f"{file}: {len(golden.tensors)} tensors, {file.stat().st_size} bytes, torch {torch.__version__}")


if __name__ == "__main__":
    main()
