#!/usr/bin/env python3
"""Compare the keys of docs/config-keys.md with those of transformers.

    python3 tools/peers/config_keys.py [DOCUMENT]

The document must list, for each architecture, every key of its configuration class, every generic name that the class maps
to a key, and every configuration attribute read by the source of its models, including masks. Prints one line of JSON. Fails
with the missing keys. Downloads nothing.
"""

import argparse
import dataclasses
import json
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
FOLDERS = {"gemma3_text": "gemma3"}
SHARED = ("masking_utils.py",)
READ = re.compile(r'\bconfig\.(\w+)|getattr\(\s*(?:self\.|text_)*config,\s*"(\w+)"')

# Names that are not keys of these models: methods, file names, masks of other models, the image part of Gemma 3.
OTHERS = {
    "get_text_config", "json", "attention_chunk_size", "sliding_window", "layer_types",
    "text_config", "vision_config", "image_token_id", "mm_tokens_per_image",
}


def read_document(path):
    """Return the keys of each architecture, including the keys common to all."""
    tables, keys = {}, None
    for line in path.read_text().splitlines():
        if line.startswith("## "):
            keys = tables.setdefault(line[3:], set())
        elif keys is not None and (row := re.match(r"\| `(\w+)` \|", line)):
            keys.add(row[1])
    common = tables.pop("All architectures")
    return {name: common | own for name, own in tables.items()}


def class_keys(model_type):
    import transformers

    config = transformers.AutoConfig.for_model(model_type)
    keys = {field.name for field in dataclasses.fields(config)} | set(config.attribute_map) | set(vars(config)) | set(config.to_dict())
    return {key for key in keys if not key.startswith("_")}


def source_keys(model_type):
    import transformers

    package = pathlib.Path(transformers.__file__).parent
    folder = FOLDERS.get(model_type, model_type)
    files = [package / "models" / folder / f"modeling_{folder}.py", *(package / name for name in SHARED)]
    keys = {name for file in files for match in READ.findall(file.read_text()) for name in match if name}
    return {key for key in keys - OTHERS if not key.startswith("_")}


def main():
    import transformers

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("document", nargs="?", type=pathlib.Path, default=ROOT / "docs" / "config-keys.md")
    tables = read_document(parser.parse_args().document)
    missing = {}
    for model_type, keys in tables.items():
        lacking = sorted((class_keys(model_type) | source_keys(model_type)) - keys)
        if lacking:
            missing[model_type] = lacking
    if missing:
        raise SystemExit(f"keys of transformers {transformers.__version__} missing in the document: {json.dumps(missing)}")
    counts = {model_type: len(keys) for model_type, keys in tables.items()}
    print(json.dumps({"transformers": transformers.__version__, "keys": counts}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
