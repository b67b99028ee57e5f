#!/usr/bin/env python3
"""Write the golden values of tests/model/test_config_keys.c with transformers: tests/golden/config_keys, or the directory given.

    python3 tools/golden/make_config_keys.py [DIRECTORY]

Each case sets and removes keys in the config.json of a committed golden model. cases.json has one case per line, with the
loss of a float64 run to nine digits, or the error raised by transformers. If eitp must refuse a case, `refused` is a part
of its message. transformers then also raises an error, or computes something that eitp does not support.
"""

import argparse
import json
import pathlib
import shutil
import tempfile

import make_bert
import make_llama
import torch
import transformers

GOLDEN = pathlib.Path(__file__).resolve().parent.parent.parent / "tests" / "golden"
LLAMA3 = {"rope_type": "llama3", "factor": 4.0, "low_freq_factor": 0.5, "high_freq_factor": 2.0}
LINEAR = {"rope_type": "linear", "factor": 2.0}
FULL, SLIDING = "full_attention", "sliding_attention"
REMOVED = object()
PLAIN = {"rope_parameters": REMOVED}

# Model, keys to set or remove, and a part of the message if eitp refuses them.
CASES = [
    # Rotary positions: precedence of keys
    ("llama/llama-lm", {}),
    ("llama/llama-lm", PLAIN),
    ("llama/llama-lm", {**PLAIN, "rope_theta": 77.0}),
    ("llama/llama-lm", {"rope_parameters": {"rope_type": "default", "rope_theta": 50.0}, "rope_theta": 77.0}),
    ("llama/llama-lm", {"rope_parameters": {"rope_type": "default"}, "rope_theta": 77.0}),
    ("llama/llama-lm", {"rope_parameters": {"rope_type": "default", "rope_theta": 50.0}, "rope_scaling": LINEAR}),
    ("llama/llama-lm", {"rope_parameters": {"rope_type": "default", "rope_theta": 50.0}, "rope_scaling": None}),
    ("llama/llama-lm", {"rope_parameters": {"rope_type": "default", "rope_theta": 50.0}, "rope_scaling": {}}),
    ("llama/llama-lm", {"rope_parameters": {"rope_type": "default", "rope_theta": 50.0, "factor": 2.0}}),
    ("llama/llama-lm", {**PLAIN, "rope_scaling": {"type": "linear", "factor": 2.0}, "rope_theta": 77.0}),
    ("llama/llama-lm", {**PLAIN, "rope_scaling": {"type": "linear", "rope_type": "default", "factor": 2.0}}),
    ("llama/llama-lm", {**PLAIN, "rope_scaling": {**LINEAR, "rope_theta": 50.0}, "rope_theta": 77.0}),
    ("llama/llama-lm", {**PLAIN, "rope_scaling": {**LLAMA3, "original_max_position_embeddings": 16}, "rope_theta": 50.0}),
    ("llama/llama-lm", {**PLAIN, "rope_scaling": LLAMA3, "rope_theta": 50.0}),
    ("llama/llama-lm", {**PLAIN, "rope_scaling": LLAMA3, "rope_theta": 50.0, "original_max_position_embeddings": 7}),
    (
        "llama/llama-lm",
        {
            **PLAIN,
            "rope_scaling": {**LLAMA3, "original_max_position_embeddings": 16},
            "rope_theta": 50.0,
            "original_max_position_embeddings": 7,
        },
    ),
    ("llama/llama-lm", {**PLAIN, "rope_scaling": {"rope_type": "linear"}}, "rope_type linear requires 'factor'"),
    ("llama/llama-lm", {**PLAIN, "rope_scaling": {"rope_type": "linear", "factor": None}}, "rope_type linear requires 'factor'"),
    (
        "llama/llama-lm",
        {**PLAIN, "rope_scaling": {"rope_type": "llama3", "factor": 4.0, "high_freq_factor": 2.0}},
        "rope_type llama3 requires 'low_freq_factor'",
    ),
    (
        "llama/llama-lm",
        {**PLAIN, "rope_scaling": {"rope_type": "llama3", "factor": 4.0, "low_freq_factor": 0.5}},
        "rope_type llama3 requires 'high_freq_factor'",
    ),
    (
        "llama/llama-lm",
        {**PLAIN, "rope_scaling": {"rope_type": "llama3", "high_freq_factor": 2.0, "low_freq_factor": 0.5}},
        "rope_type llama3 requires 'factor'",
    ),
    ("llama/llama-lm", {**PLAIN, "rope_scaling": {"rope_type": "dynamic", "factor": 2.0}}, "rope_type 'dynamic'"),
    ("llama/llama-lm", {**PLAIN, "rope_scaling": {"rope_type": "yarn", "factor": 2.0}}, "rope_type 'yarn'"),
    (
        "llama/llama-lm",
        {**PLAIN, "rope_scaling": {"rope_type": "longrope", "short_factor": [1.0, 1.0], "long_factor": [2.0, 2.0]}},
        "rope_type 'longrope'",
    ),
    ("llama/llama-lm", {**PLAIN, "rope_scaling": {"factor": 2.0, "rope_type": None}}, "rope_type"),
    ("llama/llama-lm", {"partial_rotary_factor": 0.5}, "partial_rotary_factor"),
    ("llama/llama-lm", {**PLAIN, "rope_scaling": {**LINEAR, "partial_rotary_factor": 0.5}}, "partial_rotary_factor"),
    ("llama/llama-lm", {"partial_rotary_factor": 1.0}),
    ("llama/llama-lm", {"rope_parameters": {FULL: LINEAR, SLIDING: {"rope_type": "default"}}}, "full_attention"),
    ("llama/qwen2-lm", {"rope_parameters": {FULL: LINEAR, SLIDING: {"rope_type": "default"}}}, "full_attention"),
    # Gemma has two sets of rotary positions
    ("llama/gemma3-lm", {}),
    ("llama/gemma3-lm", PLAIN),
    ("llama/gemma3-lm", {**PLAIN, "rope_theta": 50.0, "rope_local_base_freq": 30.0}),
    ("llama/gemma3-lm", {**PLAIN, "rope_scaling": LINEAR, "rope_theta": 50.0}),
    ("llama/gemma3-lm", {"rope_scaling": {"rope_type": "default"}, "rope_theta": 50.0, "rope_local_base_freq": 30.0}),
    ("llama/gemma3-lm", {"rope_parameters": {**LINEAR, "rope_theta": 20.0}, "rope_theta": 50.0}),
    ("llama/gemma3-lm", {"rope_parameters": {FULL: LINEAR}, "rope_theta": 50.0}),
    ("llama/gemma3-lm", {"rope_parameters": {FULL: None, SLIDING: None}, "rope_theta": 50.0, "rope_local_base_freq": 30.0}),
    ("llama/gemma3-lm", {"rope_parameters": LINEAR, "rope_scaling": LINEAR}, "full_attention"),
    ("llama/gemma3-lm", {"rope_parameters": {SLIDING: LINEAR}}, "sliding_attention"),
    ("llama/gemma3-lm", {"rope_parameters": {FULL: {**LLAMA3, "rope_theta": 50.0}}}),
    ("llama/gemma3-lm", {"rope_parameters": {FULL: {**LLAMA3, "rope_theta": 50.0}}, "original_max_position_embeddings": 7}),
    # Activations
    ("llama/gemma3-lm", {"hidden_activation": REMOVED, "hidden_act": "silu"}),
    ("llama/gemma3-lm", {"hidden_activation": "relu", "hidden_act": "silu"}),
    ("llama/llama-lm", {"hidden_act": "gelu_pytorch_tanh"}),
    # Causal attention
    *[(model, {"is_causal": False}, "is_causal") for model in ("llama/llama-lm", "llama/mistral-lm", "llama/qwen2-lm", "llama/qwen3-lm", "llama/gemma3-lm", "bert/gpt2-tokens")],
    ("llama/llama-lm", {"is_causal": True}),
    ("llama/gemma3-lm", {"use_bidirectional_attention": True}, "use_bidirectional_attention"),
    # Windows
    ("llama/qwen2-lm", {}),
    ("llama/qwen2-lm", {"layer_types": REMOVED}),
    ("llama/qwen2-lm", {"layer_types": REMOVED, "sliding_window": REMOVED, "max_window_layers": 0}),
    ("llama/qwen2-lm", {"layer_types": REMOVED, "sliding_window": None, "max_window_layers": 0}),
    ("llama/qwen2-lm", {"layer_types": REMOVED, "use_sliding_window": False, "max_window_layers": 0}),
    ("llama/qwen2-lm", {"layer_types": [SLIDING, FULL, SLIDING]}),
    ("llama/qwen2-lm", {"layer_types": ["attention", SLIDING, "attention"]}),
    ("llama/qwen2-lm", {"layer_types": [FULL, SLIDING, FULL]}),
    ("llama/qwen3-lm", {"layer_types": [SLIDING, SLIDING, FULL], "use_sliding_window": True, "sliding_window": 2}),
    ("llama/qwen2-lm", {"layer_types": [FULL, SLIDING, FULL], "use_sliding_window": False}, "sliding_window"),
    ("llama/qwen2-lm", {"layer_types": [FULL, SLIDING]}, "layer_types"),
    ("llama/qwen2-lm", {"layer_types": [FULL, SLIDING, "linear"]}, "layer_types"),
    ("llama/gemma3-lm", {"layer_types": REMOVED, "sliding_window_pattern": 2}),
    ("llama/gemma3-lm", {"layer_types": REMOVED}),
    ("llama/gemma3-lm", {"layer_types": [FULL, SLIDING, SLIDING], "sliding_window_pattern": 2}),
    ("llama/mistral-lm", {"sliding_window": REMOVED}),
    ("llama/mistral-lm", {"sliding_window": None}),
    ("llama/mistral-lm", {"layer_types": [FULL, FULL]}),
    ("llama/llama-lm", {"layer_types": [SLIDING, FULL], "sliding_window": 2}),
    # Scores and logits
    ("llama/gemma3-lm", {"attn_logit_softcapping": 1.0}, "attn_logit_softcapping"),
    ("llama/gemma3-lm", {"final_logit_softcapping": 1.0}, "final_logit_softcapping"),
    ("llama/gemma3-lm", {"query_pre_attn_scalar": REMOVED}),
    ("bert/gpt2-tokens", {"scale_attn_weights": False}),
    ("bert/gpt2-tokens", {"num_hidden_layers": 1, "scale_attn_by_inverse_layer_idx": True}),
    # Names from other architectures
    ("bert/gpt2-tokens", {"num_attention_heads": 4}),
    ("bert/gpt2-tokens", {"n_ctx": 5}),
    ("bert/distilbert-tokens", {"num_attention_heads": 4}),
    # Biases missing in the configuration of an architecture
    ("llama/qwen2-lm", {"attention_bias": True}),
    ("llama/mistral-lm", {"attention_bias": True, "mlp_bias": True}),
    # BERT: heads and decoder options
    ("bert/bert-tokens", {"position_embedding_type": "relative_key"}, "position_embedding_type"),
    ("bert/bert-tokens", {"position_embedding_type": "absolute"}),
    ("bert/bert-tokens", {"is_decoder": True}, "is_decoder"),
    ("bert/bert-tokens", {"add_cross_attention": True}, "add_cross_attention"),
    ("bert/bert-tokens", {"pruned_heads": {"0": [1]}}, "pruned_heads"),
    ("bert/bert-tokens", {"pruned_heads": {}}),
    ("bert/bert-tokens", {"chunk_size_feed_forward": 1}),
    ("bert/bert-tokens", {"is_causal": True}),
    ("bert/bert-tokens", {"layer_norm_eps": REMOVED}),
    ("bert/roberta-tokens", {"layer_norm_eps": REMOVED}),
    ("bert/distilbert-tokens", {"sinusoidal_pos_embds": True}),
    # Labels
    ("bert/bert-class", {"num_labels": 2}, "has 3 labels, expected 2"),
    ("bert/bert-class", {"num_labels": 3, "id2label": {"0": "a", "1": "b"}, "label2id": REMOVED}),
    ("bert/bert-class", {"id2label": {"0": "a", "1": "b"}, "label2id": REMOVED}, "has 3 labels, expected 2"),
    ("bert/bert-class", {"num_labels": 3}),
    # Quantized weights, and values that differ by layer
    ("llama/llama-lm", {"quantization_config": {"quant_method": "fp8"}}, "quantization_config"),
    ("llama/llama-lm", {"quantization_config": None}),
    ("llama/llama-lm", {"per_layer_config": {"1": {"hidden_act": "relu"}}}, "per_layer_config"),
    # Sizes that do not fit
    ("llama/llama-lm", {"num_attention_heads": 5}, "hidden_size 12 is not divisible by num_attention_heads 5"),
    ("llama/gemma3-lm", {"num_attention_heads": 5}, "hidden_size 12 is not divisible by num_attention_heads 5"),
    # Missing values
    ("llama/llama-lm", {"head_dim": None, "num_key_value_heads": 1}),
    ("llama/llama-lm", {"rms_norm_eps": None}, "rms_norm_eps"),
    ("llama/llama-lm", {"hidden_act": None}, "hidden_act"),
    ("llama/llama-lm", {"vocab_size": None}, "vocab_size"),
    ("llama/llama-lm", {"tie_word_embeddings": None}, "tie_word_embeddings"),
    ("llama/llama-lm", {"tie_word_embeddings": REMOVED}),
    ("llama/llama-lm", {**PLAIN, "rope_theta": None}, "rope_theta"),
    ("llama/qwen3-lm", {"head_dim": None}, "head_dim"),
    ("llama/qwen2-lm", {"head_dim": None}, "head_dim"),
    ("llama/qwen2-lm", {"num_key_value_heads": None}, "self_attn.k_proj"),
    ("llama/mistral-lm", {"num_key_value_heads": None}, "num_key_value_heads"),
    ("llama/gemma3-lm", {"num_key_value_heads": None}, "num_key_value_heads"),
    ("llama/llama-lm", {"is_encoder_decoder": None}),
    ("llama/gemma3-lm", {"sliding_window": None, "layer_types": [FULL, FULL, FULL]}, "sliding_window"),
    ("llama/gemma3-lm", {"layer_types": [FULL, FULL, FULL]}),
    ("llama/gemma3-lm", {"use_bidirectional_attention": None}),
    ("bert/bert-tokens", {"position_embedding_type": None}),
    ("bert/bert-class", {"classifier_dropout": None}),
    ("bert/gpt2-tokens", {"attn_pdrop": None}, "attn_pdrop"),
    # Unknown keys
    ("llama/llama-lm", {"my_key": {"a": [1, "b"]}, "use_cache": False, "pretraining_tp": 2}),
]


def loss_of(name, directory, seed):
    """Return the loss of a model, computed like its committed value."""
    module = make_llama if name in make_llama.MODELS else make_bert
    make_bert.MODELS = {**BERT_MODELS, **make_llama.MODELS}
    batch = make_bert.draw_batch(name, seed)
    model_class = getattr(transformers, make_bert.MODELS[name][0])
    attention = "sdpa" if module is make_llama else "eager"
    model = model_class.from_pretrained(directory, attn_implementation=attention).to(torch.float64).eval()
    with torch.no_grad():
        loss = module.forward(name, model, batch)[0].item()
    return loss


def evaluate(path, changes):
    family, name = path.split("/")
    models = make_llama.MODELS if family == "llama" else BERT_MODELS
    config = json.loads((GOLDEN / path / "config.json").read_text())
    config.update(changes)
    config = {key: value for key, value in config.items() if value is not REMOVED}
    with tempfile.TemporaryDirectory() as scratch:
        scratch = pathlib.Path(scratch)
        shutil.copy(GOLDEN / path / "model.safetensors", scratch)
        (scratch / "config.json").write_text(json.dumps(config))
        case = {"model": path, "set": {key: value for key, value in changes.items() if value is not REMOVED}}
        case["removed"] = [key for key, value in changes.items() if value is REMOVED]
        try:
            case["loss"] = float(f"{loss_of(name, scratch, list(models).index(name)):.9g}")
        except Exception as error:
            case["error"] = type(error).__name__
    return case


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", nargs="?", type=pathlib.Path, default=GOLDEN / "config_keys")
    directory = parser.parse_args().directory
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    cases = []
    for path, changes, *refused in CASES:
        case = evaluate(path, changes)
        if "error" in case and not refused:
            raise SystemExit(f"{path} {changes}: {case['error']} in transformers, but the case has no message of eitp")
        case.update({"refused": text for text in refused})
        cases.append(case)
        print(json.dumps(case), flush=True)
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "cases.json").write_text("[\n" + ",\n".join(map(json.dumps, cases)) + "\n]\n")


BERT_MODELS = make_bert.MODELS

if __name__ == "__main__":
    main()
