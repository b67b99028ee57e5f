#!/usr/bin/env python3
"""Write the golden values of tests/model/test_llama.c with transformers: tests/golden/llama, or the directory given.

    python3 tools/golden/make_llama.py [DIRECTORY]

Like make_bert.py, for decoders with rotary positions. Weights are large enough for a wrong angle, window or bias to show.
Sequences are computed one by one, because a padding row whose window has only padding would be NaN. transformers computes
norms in float32 regardless of the model's dtype, which is avoided for float64 models. Angles stay in float32, as in training.
"""

import contextlib
import types

import make_bert
import numpy
import torch

SHARED = {"vocab_size": 23, "max_position_embeddings": 32, "bos_token_id": 0, "eos_token_id": 22, "pad_token_id": 1}
LLAMA = {
    **SHARED,
    "hidden_size": 12,
    "num_attention_heads": 3,
    "num_key_value_heads": 1,
    "num_hidden_layers": 2,
    "intermediate_size": 20,
}
QWEN = {**LLAMA, "hidden_size": 16, "num_attention_heads": 4, "num_key_value_heads": 2, "num_hidden_layers": 3}
GEMMA = {
    **SHARED,
    "hidden_size": 12,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "head_dim": 8,
    "num_hidden_layers": 3,
    "intermediate_size": 16,
    "query_pre_attn_scalar": 5,
    "sliding_window": 3,
}
LLAMA3 = {
    "rope_type": "llama3",
    "rope_theta": 50.0,
    "factor": 4.0,
    "low_freq_factor": 0.5,
    "high_freq_factor": 2.0,
    "original_max_position_embeddings": 16,
}
NAMES = {"id2label": make_bert.NAMES, "label2id": make_bert.LABELS["label2id"]}
MODELS = {
    "llama-lm": ("LlamaForCausalLM", {**LLAMA, "rope_parameters": LLAMA3}),
    "llama-wide-lm": (
        "LlamaForCausalLM",
        {
            **LLAMA,
            "head_dim": 6,
            "num_key_value_heads": 3,
            "tie_word_embeddings": True,
            "hidden_act": "gelu",
            "rope_parameters": {"rope_type": "linear", "rope_theta": 100.0, "factor": 2.5},
        },
    ),
    "llama-class": ("LlamaForSequenceClassification", {**LLAMA, **NAMES, "problem_type": "single_label_classification"}),
    "qwen2-lm": ("Qwen2ForCausalLM", {**QWEN, "use_sliding_window": True, "sliding_window": 4, "max_window_layers": 1}),
    "qwen2-tied-lm": ("Qwen2ForCausalLM", {**QWEN, "tie_word_embeddings": True, "sliding_window": 4}),
    "qwen2-tokens": ("Qwen2ForTokenClassification", {**QWEN, **NAMES}),
    "qwen3-lm": ("Qwen3ForCausalLM", {**QWEN, "head_dim": 6, "tie_word_embeddings": True}),
    "gemma3-lm": (
        "Gemma3ForCausalLM",
        {
            **GEMMA,
            "layer_types": ["sliding_attention", "full_attention", "sliding_attention"],
            "rope_parameters": {
                "full_attention": {"rope_type": "linear", "rope_theta": 1000.0, "factor": 2.0},
                "sliding_attention": {"rope_type": "default", "rope_theta": 20.0},
            },
        },
    ),
    "gemma3-untied-lm": ("Gemma3ForCausalLM", {**GEMMA, "tie_word_embeddings": False, "sliding_window": 5}),
    "mistral-lm": ("MistralForCausalLM", {**LLAMA, "sliding_window": 5, "head_dim": 8}),
    "mistral": ("MistralModel", {**LLAMA, "sliding_window": None}),
    "llama-biases-lm": ("LlamaForCausalLM", {**LLAMA, "attention_bias": True, "mlp_bias": True}),
    "qwen3-biases-lm": (
        "Qwen3ForCausalLM",
        {
            **QWEN,
            "head_dim": 6,
            "attention_bias": True,
            "use_sliding_window": True,
            "sliding_window": 3,
            "layer_types": ["sliding_attention", "sliding_attention", "full_attention"],
        },
    ),
    "gemma3-biases-lm": (
        "Gemma3ForCausalLM",
        {**GEMMA, "attention_bias": True, "layer_types": ["full_attention", "sliding_attention", "sliding_attention"]},
    ),
}



@contextlib.contextmanager
def exact_norms():
    """Make casts from float64 to float32 return their input, and compute sines and cosines of float32 in float64."""
    narrow, cast = torch.Tensor.float, torch.Tensor.to
    cosine, sine = torch.Tensor.cos, torch.Tensor.sin
    torch.Tensor.cos = lambda x: narrow(cosine(x.double()))
    torch.Tensor.sin = lambda x: narrow(sine(x.double()))
    torch.Tensor.float = lambda x: x if x.dtype == torch.float64 else narrow(x)
    torch.Tensor.to = lambda x, *a, **k: x if x.dtype == torch.float64 and a == (torch.float32,) else cast(x, *a, **k)
    yield
    torch.Tensor.float, torch.Tensor.to = narrow, cast
    torch.Tensor.cos, torch.Tensor.sin = cosine, sine


def forward(name, model, batch):
    """Like make_bert.forward."""
    with exact_norms():
        return forward_exactly(name, model, batch)


def forward_exactly(name, model, batch):
    mask = make_bert.padded(numpy.ones(sum(make_bert.LENGTHS)), 0)
    states, logits, at = [], [], 0
    for length in make_bert.LENGTHS:
        tokens = torch.from_numpy(batch["tokens"][at : at + length].astype(numpy.int64))[None]
        output = model(input_ids=tokens, use_cache=False, output_hidden_states=True)
        states.append(output.hidden_states[-1][0])
        logits.append(output.logits[0] if hasattr(output, "logits") else None)
        at += length
    output = types.SimpleNamespace(hidden_states=[pad(states)], last_hidden_state=pad(states))
    if logits[0] is not None:
        output.logits = torch.stack(logits) if name.endswith("-class") else pad(logits)
    return *make_bert.loss_of(name, output, batch), output, mask


def pad(rows):
    return torch.nn.utils.rnn.pad_sequence(rows, batch_first=True)


if __name__ == "__main__":
    make_bert.MODELS = MODELS
    make_bert.forward = forward
    make_bert.write_models("llama", __doc__, "sdpa")
