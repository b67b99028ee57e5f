#!/usr/bin/env python3
"""Compare the tokens of conversations that eitp trains on with the masks of transformers.

    python3 tools/peers/chat_masks.py DIRECTORY [--eitp build/eitp]

DIRECTORY has pairs of chat templates, NAME.jinja and NAME_training.jinja, for example from TRL. The second marks the
assistant's content with {% generation %} blocks. eitp gets the first template, in which it must find the answers without
marks, and then the second. transformers gets the second (return_assistant_tokens_mask). Without marks, eitp trains neither on
the generation prompt nor on white space and an end of text after the end of a turn, which some authors also mark. An answer
that differs only in these counts as "narrower". The tokenizer is SmolLM's in tests/golden/splits, with the special tokens in
the templates. Pairs that render different text, and conversations that a template refuses, are not compared. Prints a line
for each pair, then one line of JSON.

    pip install transformers==5.23.0 jinja2==3.1.6
"""

import argparse
import json
import pathlib
import re
import subprocess
import sys
import tempfile

import transformers

ROOT = pathlib.Path(__file__).resolve().parents[2]
SHAPE = {"model_type": "llama", "vocab_size": 2048, "max_position_embeddings": 8192, "hidden_size": 8, "num_attention_heads": 1}
SHAPE.update(num_key_value_heads=1, num_hidden_layers=1, intermediate_size=8)
CONVERSATIONS = [
    [{"role": "user", "content": "What is 12 times 12?"}, {"role": "assistant", "content": "It is 144."}],
    [
        {"role": "system", "content": "Be short."},
        {"role": "user", "content": "Hello"},
        {"role": "assistant", "content": "Hello, the sea."},
        {"role": "user", "content": "  more\n\nlines "},
        {"role": "assistant", "content": "a\n  b\n\n"},
    ],
    [
        {"role": "user", "content": "first"},
        {"role": "assistant", "content": "one"},
        {"role": "user", "content": "second"},
        {"role": "assistant", "content": "two"},
        {"role": "user", "content": "third"},
        {"role": "assistant", "content": "three \u4e09"},
    ],
]


def make_tokenizer(texts, directory):
    """Return a tokenizer with the special tokens in the templates."""
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_file=str(ROOT / "tests/golden/splits/smollm.json"), bos_token="<s>", eos_token="</s>"
    )
    found = re.findall(r"<[|\uff5c][^<>'\"\s]{1,40}[|\uff5c]>|<(?:start|end)_of_turn>|\[/?INST\]|<\|?turn\|?>", "".join(texts))
    tokenizer.add_special_tokens({"additional_special_tokens": sorted(set(found))})
    tokenizer.save_pretrained(directory)
    return tokenizer


def shown(eitp, scratch, template, conversation):
    """Return ids and marks from eitp train --show-data, or None if it refuses the conversation."""
    (scratch / "data.jsonl").write_text(json.dumps({"messages": conversation}) + "\n")
    (scratch / "template.jinja").write_text(template)
    command = [eitp, "train", "--init", scratch / "config.json", "--tokenizer", scratch, "--chat-template", scratch / "template.jinja"]
    command += ["--data", scratch / "data.jsonl", "--val-fraction", 0, "--show-data", 1, "--output-dir", scratch / "out"]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True)
    rows = re.findall(r"^([* ]) +\d+ +(\d+)  ", done.stdout, re.MULTILINE)
    return ([int(row[1]) for row in rows], [int(row[0] == "*") for row in rows]) if rows else None


def relation(tokenizer, found, expected, prompt):
    """Compare the marks of a conversation with those of transformers."""
    if found == expected:
        return "same"
    if found is None or found[0] != expected[0] or any(ours > theirs for ours, theirs in zip(found[1], expected[1])):
        return "different"
    runs = "".join(str(theirs - ours) for ours, theirs in zip(found[1], expected[1]))
    for run in re.finditer("1+", runs):
        text = "".join(tokenizer.convert_ids_to_tokens(found[0][run.start() : run.end()])).replace("\u010a", "\n").replace("\u0120", " ")
        if text.replace(tokenizer.eos_token, "").strip() and text not in prompt:
            return "different"
    return "narrower"


def compare(eitp, scratch, tokenizer, plain, marked):
    counts = {"same": 0, "narrower": 0, "different": 0, "left out": 0}
    for conversation in CONVERSATIONS:
        try:
            reference = tokenizer.apply_chat_template(
                conversation, chat_template=marked, tokenize=True, return_dict=True, return_assistant_tokens_mask=True
            )
            prompt = tokenizer.apply_chat_template(conversation[:-1], chat_template=plain, tokenize=False, add_generation_prompt=True)
            texts = {tokenizer.apply_chat_template(conversation, chat_template=text, tokenize=False) for text in (plain, marked)}
        except Exception:
            texts = set()
        if len(texts) != 1:
            counts["left out"] += 1
            continue
        expected = (list(reference["input_ids"]), list(reference["assistant_masks"]))
        for text in plain, marked:
            counts[relation(tokenizer, shown(eitp, scratch, text, conversation), expected, prompt)] += 1
    return counts


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", type=pathlib.Path)
    parser.add_argument("--eitp", type=pathlib.Path, default=pathlib.Path("build/eitp"))
    arguments = parser.parse_args()
    total = {"pairs": 0, "same": 0, "narrower": 0, "different": 0, "left out": 0}
    for path in sorted(arguments.directory.glob("*_training.jinja")):
        plain_path = path.with_name(path.name.replace("_training", ""))
        if not plain_path.exists():
            continue
        plain, marked = plain_path.read_text(), path.read_text()
        with tempfile.TemporaryDirectory() as name:
            scratch = pathlib.Path(name)
            (scratch / "config.json").write_text(json.dumps(SHAPE))
            counts = compare(arguments.eitp, scratch, make_tokenizer([plain, marked], scratch), plain, marked)
        total["pairs"] += 1
        for key, count in counts.items():
            total[key] += count
        print(f"{plain_path.name:44}", ", ".join(f"{key} {count}" for key, count in counts.items() if count))
    print(json.dumps({"transformers": transformers.__version__, **total}))
    return 1 if total["different"] or not total["same"] else 0


if __name__ == "__main__":
    sys.exit(main())
