#!/usr/bin/env python3
"""Recompute the golden values in another directory and compare them with the committed ones.

    python3 tools/peers/golden.py DIRECTORY [PART...]     parts: ops, gpt2, bert, llama, config_keys, ... (default: all)

The generators are tools/golden/make_*.py. With other versions or processors, numbers may differ by 1e-9 in float64 and 1e-6
in float32, relative to the largest in their tensor. Everything else must be the same. Prints one line of JSON.
"""

import argparse
import json
import pathlib
import subprocess
import sys

TOOLS = pathlib.Path(__file__).resolve().parent.parent
COMMITTED = TOOLS.parent / "tests" / "golden"


def compare_tensors(made, committed):
    """Return the largest difference, relative to the tolerance."""
    import numpy
    from safetensors.numpy import load_file

    try:
        new, old = load_file(made), load_file(committed)
    except (TypeError, AttributeError, KeyError):  # BF16, which numpy does not support
        return 0.0 if made.read_bytes() == committed.read_bytes() else float("inf")
    if {name: (a.dtype, a.shape) for name, a in new.items()} != {name: (a.dtype, a.shape) for name, a in old.items()}:
        return float("inf")
    worst = 0.0
    for name, a in new.items():
        b = old[name]
        if a.dtype.kind != "f":
            worst = max(worst, 0.0 if numpy.array_equal(a, b) else float("inf"))
            continue
        same = (a == b) | (numpy.isnan(a) & numpy.isnan(b))
        if same.all():
            continue
        allowed = {8: 1e-9, 4: 1e-6, 2: 1e-2}[a.dtype.itemsize] * max(float(numpy.abs(b[numpy.isfinite(b)]).max()), 1e-30)
        difference = numpy.where(same, 0, numpy.abs(a.astype(numpy.float64) - b.astype(numpy.float64)))
        worst = max(worst, float(difference.max()) / allowed)
    return worst


def compare(made, committed):
    result = {"files": 0, "same_bytes": 0, "worst": 0.0}
    for file in sorted(path for path in committed.rglob("*") if path.is_file()):
        other = made / file.relative_to(committed)
        result["files"] += 1
        if not other.exists():
            raise SystemExit(f"{file} was not generated")
        if other.read_bytes() == file.read_bytes():
            result["same_bytes"] += 1
        elif file.suffix == ".safetensors":
            worst = compare_tensors(other, file)
            result["worst"] = max(result["worst"], worst)
            if not worst <= 1:
                raise SystemExit(f"{other} and {file} differ by {worst} times the tolerance")
        elif file.name not in ("config.json", "generation_config.json"):  # they contain the version that wrote them
            raise SystemExit(f"{other} and {file} differ")
    return result


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", type=pathlib.Path)
    parser.add_argument("part", nargs="*", default=["ops", "gpt2", "bert", "llama", "config_keys", "pytorch", "tokenizer", "words", "splits", "vocabularies", "byte_fallback", "gguf_tokenizers", "chat", "chat_templates"])
    arguments = parser.parse_args()
    makers = {"ops": ("make_op.py", "ops/ops.safetensors"), "gpt2": ("make_gpt2.py", "gpt2")}
    makers["bert"] = ("make_bert.py", "bert")
    makers["llama"] = ("make_llama.py", "llama")
    makers["config_keys"] = ("make_config_keys.py", "config_keys")
    makers["pytorch"] = ("make_pytorch.py", "pytorch")
    makers["tokenizer"] = ("make_tokenizer.py", "tokenizer")
    makers["words"] = ("make_words.py", "words")
    makers["splits"] = ("make_splits.py", "splits")
    makers["vocabularies"] = ("make_vocabularies.py", "vocabularies")
    makers["byte_fallback"] = ("make_byte_fallback.py", "byte_fallback")
    makers["gguf_tokenizers"] = ("make_gguf_tokenizers.py", "gguf_tokenizers")
    makers["chat"] = ("make_chat.py", "chat")
    makers["chat_templates"] = ("make_chat_templates.py", "chat_templates")
    result = {}
    for part in arguments.part:
        maker, target = makers[part]
        target = arguments.directory / target
        subprocess.run([sys.executable, str(TOOLS / "golden" / maker), str(target)], check=True, stdout=subprocess.DEVNULL)
        result[part] = compare(arguments.directory / part, COMMITTED / part)
    print(json.dumps(result))
    return 0


if __name__ == "__main__":
    sys.exit(main())
