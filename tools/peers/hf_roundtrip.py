#!/usr/bin/env python3
"""Open a model directory in transformers and print the model's results.

    python3 tools/peers/hf_roundtrip.py DIRECTORY [--text TEXT | --text-file FILE | --ids 1,2,3] [--generate 20]

Prints one line of JSON: the ids, the mean loss of each next id given the previous ids, and the greedy continuation.
Fails if transformers reports missing, unexpected or mismatched weights. Downloads nothing: the directory must be complete.
--ids needs no tokenizer.
"""

import argparse
import json
import os
import pathlib
import sys


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", type=pathlib.Path)
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--text")
    source.add_argument("--text-file", type=pathlib.Path)
    source.add_argument("--ids", help="token ids separated by commas, instead of text")
    parser.add_argument("--generate", type=int, default=20, help="tokens to continue with (default 20)")
    parser.add_argument("--float64", action="store_true", help="compute in double precision")
    arguments = parser.parse_args()
    if arguments.ids is not None:
        try:
            arguments.ids = [int(part) for part in arguments.ids.split(",")]
        except ValueError:
            parser.error("--ids must be integers separated by commas")
    if not arguments.directory.is_dir():
        parser.error(f"{arguments.directory} is not a directory")
    return arguments


def load_tokenizer(directory):
    """Return the tokenizer found by AutoTokenizer, or else read from tokenizer.json."""
    import transformers

    try:
        return transformers.AutoTokenizer.from_pretrained(directory)
    except Exception as error:  # the tokenizers library raises only this type
        file = directory / "tokenizer.json"
        if not file.exists():
            raise SystemExit(f"{directory}: transformers cannot open a tokenizer: {error}")
        return transformers.PreTrainedTokenizerFast(tokenizer_file=str(file))


def load_model(directory):
    import transformers

    # Mismatched shapes are accepted here and reported below with the other problems.
    model, report = transformers.AutoModelForCausalLM.from_pretrained(
        directory, output_loading_info=True, ignore_mismatched_sizes=True
    )
    problems = {key: sorted(map(str, value)) for key, value in report.items() if value and key.endswith("_keys")}
    if problems:
        raise SystemExit(f"{directory}: weights and config.json do not match: {json.dumps(problems)}")
    return model.eval()


def main():
    arguments = parse_arguments()
    os.environ["HF_HUB_OFFLINE"] = "1"
    import torch
    import transformers

    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    model = load_model(arguments.directory)
    if arguments.float64:
        model = model.double()

    tokenizer = None
    if arguments.ids is not None:
        ids = arguments.ids
    else:
        text = arguments.text if arguments.text is not None else arguments.text_file.read_text(encoding="utf-8")
        tokenizer = load_tokenizer(arguments.directory)
        ids = tokenizer(text, add_special_tokens=False)["input_ids"]
    positions = model.config.max_position_embeddings
    vocabulary = model.config.vocab_size
    if len(ids) < 2 or len(ids) > positions:
        raise SystemExit(f"the text has {len(ids)} tokens, expected 2 to {positions}")
    if min(ids) < 0 or max(ids) >= vocabulary:
        raise SystemExit(f"a token id is outside the model's vocabulary of {vocabulary}")

    with torch.no_grad():
        tokens = torch.tensor([ids])
        logits = model(input_ids=tokens[:, :-1]).logits[0]
        loss = torch.nn.functional.cross_entropy(logits, tokens[0, 1:]).item()
        count = min(arguments.generate, positions - len(ids))
        continuation = []
        if count > 0:
            model.generation_config.eos_token_id = None
            model.generation_config.pad_token_id = 0
            output = model.generate(
                tokens, attention_mask=torch.ones_like(tokens), max_new_tokens=count, do_sample=False, use_cache=True
            )
            continuation = output[0, len(ids) :].tolist()

    result = {"directory": str(arguments.directory), "model": type(model).__name__, "dtype": str(model.dtype)}
    result.update(tokens=len(ids), loss=loss, ids=ids[:64], continuation=continuation)
    if tokenizer is not None:
        result.update(tokenizer=type(tokenizer).__name__, continuation_text=tokenizer.decode(continuation))
        result["text_survives"] = tokenizer.decode(ids, clean_up_tokenization_spaces=False) == text
    print(json.dumps(result))
    return 0


if __name__ == "__main__":
    sys.exit(main())
