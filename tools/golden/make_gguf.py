#!/usr/bin/env python3
"""Write the golden models of tests/io/test_gguf_models.c: tests/golden/gguf, or the directory given.

    python3 tools/golden/make_gguf.py LLAMA_CPP [DIRECTORY]

Tiny random models and the outputs that transformers computed, as in make_bert.py and make_llama.py. llama.cpp's own
converter writes the files. LLAMA_CPP is a directory with its sources, such as vendor/llama.cpp in the source package of
PyPI's llama-cpp-python. The models have no vocabulary.
"""

import argparse
import json
import logging
import pathlib
import sys
import tempfile

import make_bert
import make_llama
import torch
import transformers
from safetensors.numpy import load_file, save_file

LLAMA = {**make_llama.LLAMA, "hidden_size": 24, "head_dim": 8}
SCALING = {
    "rope_type": "llama3",
    "rope_theta": 500000.0,
    "factor": 32.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 8192,
}
LINEAR = {"rope_type": "linear", "rope_theta": 100.0, "factor": 2.5}
GEMMA = {**make_llama.GEMMA, "query_pre_attn_scalar": 8, "num_hidden_layers": 7, "sliding_window": 3}
ENCODERS = {
    "gpt2-lm": ("GPT2LMHeadModel", {**make_bert.GPT2, "n_layer": 2, "n_inner": None, "n_ctx": 13}),
    "bert": ("BertModel", make_bert.BERT),
    "distilbert": ("DistilBertModel", make_bert.DISTILBERT),
    "roberta": ("RobertaModel", {**make_bert.ROBERTA, "pad_token_id": 1}),
}
DECODERS = {
    "llama-scaled-lm": ("LlamaForCausalLM", {**LLAMA, "rope_parameters": SCALING}),
    "llama-linear-lm": ("LlamaForCausalLM", {**LLAMA, "tie_word_embeddings": True, "rope_parameters": LINEAR}),
    "llama-biases-lm": ("LlamaForCausalLM", {**LLAMA, "attention_bias": True, "mlp_bias": True}),
    "qwen2-lm": ("Qwen2ForCausalLM", make_llama.QWEN),
    "qwen3-lm": ("Qwen3ForCausalLM", {**make_llama.QWEN, "head_dim": 6, "tie_word_embeddings": True}),
    "gemma3-lm": ("Gemma3ForCausalLM", GEMMA),
}


def convert(source, target, converter):
    """Write a directory as GGUF, in f32, without a vocabulary."""
    parameters = converter.ModelBase.load_hparams(source, False)
    name = converter.get_model_architecture(parameters, converter.ModelType.TEXT)
    model_class = converter.get_model_class(name)
    model_class.set_vocab = lambda self: self.gguf_writer.add_tokenizer_model("no_vocab")
    if "Bert" in name:
        model_class.set_vocab = lambda self: self.gguf_writer.add_token_type_count(parameters.get("type_vocab_size", 1))
    with torch.inference_mode():
        model_class(source, converter.gguf.LlamaFileType.ALL_F32, target).write()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    default = pathlib.Path(__file__).resolve().parent.parent.parent / "tests" / "golden" / "gguf"
    parser.add_argument("llama_cpp", type=pathlib.Path)
    parser.add_argument("directory", nargs="?", type=pathlib.Path, default=default)
    arguments = parser.parse_args()
    sys.path[:0] = [str(arguments.llama_cpp), str(arguments.llama_cpp / "gguf-py")]
    import convert_hf_to_gguf as converter

    logging.disable(logging.WARNING)
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    forward = make_bert.forward
    make_bert.MODELS = {**ENCODERS, **DECODERS}
    for seed, name in enumerate(make_bert.MODELS):
        make_bert.forward = make_llama.forward if name in DECODERS else forward
        with tempfile.TemporaryDirectory() as directory:
            source = pathlib.Path(directory) / name
            make_bert.write_model(source.parent, name, seed, "sdpa" if name in DECODERS else "eager")
            # Rows of Gemma's embedding that have no token are left out.
            vocabulary = {"model": {"vocab": {str(token): token for token in range(23)}}, "added_tokens": []}
            (source / "tokenizer.json").write_text(json.dumps(vocabulary))
            target = arguments.directory / name
            target.mkdir(parents=True, exist_ok=True)
            convert(source, target / "model.gguf", converter)
            expected = load_file(source / "expected.safetensors")
            expected.pop("pooled", None)  # the converter leaves poolers out
            save_file(expected, target / "expected.safetensors")


if __name__ == "__main__":
    main()
