#!/usr/bin/env python3
"""Write the golden values of tests/gguf/test_tokenizer_text.c: tests/golden/gguf_tokenizers, or the directory given.

    python3 tools/golden/make_gguf_tokenizers.py [DIRECTORY]

The keys that llama.cpp's converter writes into a GGUF file for small tokenizers, and the ids, segments and decoded texts of
the original tokenizers, from the library `tokenizers`. Merges of SentencePiece come from generate_merges of transformers.

    pip install tokenizers==0.23.3 transformers==5.24.0
"""

import argparse
import json
import pathlib
import random

import make_byte_fallback
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors
from transformers.tokenization_utils_base import generate_merges

ROOT = pathlib.Path(__file__).resolve().parents[2] / "tests/golden"
SPACE = "\u2581"
NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = 1, 2, 3, 4, 5, 6
TEXTS = [
    "", " ", "the cat", " the  cat", "The CAT caf\xe9", "cafe\u0301 \u212b", "don't DON'T we'LL", "1 12 2024 12345", "\u0663\u0664\u2167\xb2",
    "a\n\nb\n\n\nc", "\t x\r\n\r\n y ", "   three", "a" + " " * 7 + "b" + " " * 12, SPACE + "the" + SPACE * 2 + "x", "\u6f22\u5b57\u6f22", "\u0645\u0631\u062d\u0628\u0627 \ud55c\uad6d\uc5b4",
    "\U0001f468\u200d\U0001f469 \U0010ffff", "\x00\x1b\xa0\u3000\u2028\ufeff", "x=1; _a_b ...!?", "<s>the</s> <unk>", "<|im_start|>the<|im_end|> cat<think>", "[CLS] the [MASK] cat [SEP]", "the <mask>  cat",
    "zq zqz zq", "two words", "there\nthere12therethen", "<bos>the<start_of_turn> cat", "<0x41>",
]


def load(name):
    return json.loads((ROOT / name).read_text(encoding="utf-8")) | {"truncation": None, "padding": None}


def vocabulary_of(root):
    """Return the tokens by id and the added tokens, without those that a GGUF file cannot describe."""
    root["added_tokens"] = [token for token in root["added_tokens"] if not token["normalized"] or token["special"]]
    for token in root["added_tokens"]:
        token["normalized"] = False
    tokens = {id: token for token, id in root["model"]["vocab"].items()} | {token["id"]: token["content"] for token in root["added_tokens"]}
    return [tokens[id] for id in range(len(tokens))], {token["content"]: token["special"] for token in root["added_tokens"]}


def types_of(tokens, added):
    return [(CONTROL if added[token] else USER_DEFINED) if token in added else NORMAL for token in tokens]


def byte_level(architecture, pre, root, roles, flags=(), unused=0):
    """Return the keys of a byte-level BPE, and the tokenizer."""
    tokens, added = vocabulary_of(root)
    merges = [merge if isinstance(merge, str) else " ".join(merge) for merge in root["model"]["merges"]]
    types = types_of(tokens, added) + [UNUSED] * unused
    tokens += ["[PAD%d]" % (len(tokens) + i) for i in range(unused)]
    keys = {"general.architecture": architecture, "tokenizer.ggml.model": "gpt2"}
    if pre:
        keys["tokenizer.ggml.pre"] = pre
    keys |= {"tokenizer.ggml.tokens": tokens, "tokenizer.ggml.token_type": types, "tokenizer.ggml.merges": merges}
    for role, token in roles.items():
        keys["tokenizer.ggml.%s_token_id" % role] = tokens.index(token)
    return keys | {"tokenizer.ggml." + name: value for name, value in dict(flags).items()}, Tokenizer.from_str(json.dumps(root))


DECODER = {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True}


def gpt2(pre, adds_space=False):
    root = load("splits/smollm.json")
    root |= {"pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": adds_space, "trim_offsets": True, "use_regex": True}, "decoder": DECODER}
    flags = {"add_bos_token": False} | ({"add_space_prefix": True} if adds_space else {})
    return byte_level("gpt2", pre, root, {"bos": "<|endoftext|>", "eos": "<|endoftext|>"}, flags)


def split(name, pre, roles, flags=(), unused=0, template=None):
    root = load("splits/%s.json" % name)
    root["decoder"] = DECODER
    keys, tokenizer = byte_level("llama", pre, root, roles, flags, unused)
    if template:
        tokenizer.post_processor = template
    return keys, tokenizer


def smollm():
    return split("smollm", "smollm", {"bos": "<|im_start|>", "eos": "<|im_end|>", "unknown": "<|endoftext|>"}, {"add_bos_token": False, "add_space_prefix": False})


def lacking():
    """Return a vocabulary without some bytes, like SmolLM2's."""
    root = load("splits/smollm.json")
    names = ["\u0100", "\u010a", "\u0122", "q", "\xf0"]  # bytes 0, 10, 128, 113 and 240
    merges = [merge for merge in root["model"]["merges"] if not any(name in "".join(merge) for name in names)]
    kept = [token for token in root["model"]["vocab"] if not any(name in token for name in names)]
    root["model"] |= {"vocab": {token: id for id, token in enumerate(kept)}, "merges": merges}
    root["added_tokens"] = root["added_tokens"][:3]
    for id, token in enumerate(root["added_tokens"]):
        token["id"] = len(kept) + id
    root["decoder"] = DECODER
    return byte_level("llama", "smollm", root, {"eos": "<|im_end|>"})


def qwen2():
    return split("qwen2", "qwen2", {"eos": "<|im_end|>", "padding": "<|endoftext|>", "bos": "<|endoftext|>"}, {"add_bos_token": False}, unused=9)


def llama3():
    begin = ("<|endoftext|>", 501)
    template = processors.TemplateProcessing(single="<|endoftext|> $A", pair="<|endoftext|> $A <|endoftext|>:1 $B:1", special_tokens=[begin])
    return split("llama3", "llama-bpe", {"bos": "<|endoftext|>", "eos": "<|im_end|>"}, template=processors.Sequence([processors.ByteLevel(), template]))


def modern_bert():
    root = load("splits/smollm.json")
    root |= {"normalizer": {"type": "NFC"}, "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}}
    first = len(root["model"]["vocab"])
    root["added_tokens"] = [
        {"id": first + i, "content": token, "single_word": False, "lstrip": token == "[MASK]", "rstrip": False, "normalized": False, "special": True}
        for i, token in enumerate(["[UNK]", "[CLS]", "[SEP]", "[PAD]", "[MASK]"])
    ]
    root["decoder"] = DECODER
    roles = {"unknown": "[UNK]", "bos": "[CLS]", "cls": "[CLS]", "eos": "[SEP]", "seperator": "[SEP]", "padding": "[PAD]", "mask": "[MASK]"}
    keys, tokenizer = byte_level("modern-bert", "modern-bert", root, roles, {"add_bos_token": True, "add_eos_token": True, "add_sep_token": False})
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", first + 1), ("[SEP]", first + 2)]
    )
    return keys, tokenizer


def roberta():
    root = load("words/roberta.json")
    roles = {"bos": "<s>", "eos": "</s>", "cls": "<s>", "seperator": "</s>", "padding": "<pad>", "unknown": "<unk>", "mask": "<mask>"}
    return byte_level("bert", "roberta-bpe", root, roles, {"add_bos_token": True, "add_eos_token": True, "add_sep_token": True})


def sentencepiece(architecture, specials, users, adds_space, score_of, merge_score_of, flags):
    """Return the keys of SentencePiece's BPE, and the tokenizer. Scores are those of the original model; the converter
    replaces those of users' tokens, whose U+2581 become spaces."""
    names = [*specials, *users, *make_byte_fallback.BYTES]
    vocabulary, learnt = make_byte_fallback.train(names, ["\t", "\n"], make_byte_fallback.runs(SPACE, 4))
    ranks = {left + right: rank for rank, (left, right) in enumerate(learnt)}
    scores = {token: 0.0 if token in names else score_of(ranks.get(token, 1000 + id)) for token, id in vocabulary.items()}
    merges = generate_merges(vocabulary, {token: merge_score_of(id, scores[token]) for token, id in vocabulary.items()})
    tokenizer = Tokenizer(models.BPE(vocabulary, merges, unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    prefix = [normalizers.Prepend(SPACE)] if adds_space else []
    tokenizer.normalizer = normalizers.Sequence([*prefix, normalizers.Replace(" ", SPACE)])
    tokenizer.decoder = make_byte_fallback.decoder(*([decoders.Strip(" ", 1, 0)] if adds_space else []))
    tokenizer.add_special_tokens([AddedToken(token, normalized=False) for token in specials])
    tokenizer.add_tokens([AddedToken(token, normalized=False) for token in users])
    begin = specials[specials.index("<s>" if "<s>" in specials else "<bos>")]
    tokenizer.post_processor = processors.TemplateProcessing(
        single="%s $A" % begin, pair="%s $A %s:1 $B:1" % (begin, begin), special_tokens=[(begin, vocabulary[begin])]
    )
    types = [
        UNKNOWN if token == "<unk>" else CONTROL if token in specials else USER_DEFINED if token in users else BYTE if token in make_byte_fallback.BYTES else NORMAL
        for token in vocabulary
    ]
    keys = {
        "general.architecture": architecture,
        "tokenizer.ggml.model": "llama",
        "tokenizer.ggml.pre": "default",
        "tokenizer.ggml.tokens": [token.replace(SPACE, " ") if token in users else token for token in vocabulary],
        "tokenizer.ggml.scores": [-1000.0 if token in users else score for token, score in scores.items()],
        "tokenizer.ggml.token_type": types,
    }
    return keys | {"tokenizer.ggml." + name: value for name, value in flags.items()}, tokenizer, [" ".join(merge) for merge in merges]


def llama2():
    return sentencepiece("llama", ["<unk>", "<s>", "</s>"], [], True, lambda rank: -float(rank), lambda id, score: score, {})


def users():
    """Return a tokenizer whose users' tokens have equal scores."""
    specials = ["<pad>", "</s>", "<s>", "<unk>"]
    flags = {"bos_token_id": 2, "eos_token_id": 1, "unknown_token_id": 3, "padding_token_id": 0, "add_space_prefix": False, "add_bos_token": True}
    user = [SPACE * 2, SPACE * 3, SPACE * 5, "\n\n", "two words"]
    return sentencepiece("llama", specials, user, False, lambda rank: -float(rank), lambda id, score: score, flags)


def gemma3():
    specials = ["<pad>", "<eos>", "<bos>", "<unk>", "<mask>", "<start_of_turn>"]
    flags = {"bos_token_id": 2, "eos_token_id": 1, "unknown_token_id": 3, "padding_token_id": 0, "add_space_prefix": False}
    return sentencepiece("gemma3", specials, ["\n\n", "\n\n\n", SPACE * 2, SPACE * 3], False, lambda rank: -float(rank), lambda id, score: score, flags)


def unscored():
    """Return a tokenizer that was converted without its scores."""
    keys, tokenizer, merges = sentencepiece("llama", ["<unk>", "<s>", "</s>"], [], True, lambda rank: 0.0, lambda id, score: -id, {})
    keys["tokenizer.ggml.scores"] = [-1000.0] * len(keys["tokenizer.ggml.scores"])
    return keys, tokenizer, merges


def wordpiece(name, flags):
    root = load("words/%s.json" % name)
    tokens, added = vocabulary_of(root)
    types = types_of(tokens, added)
    stored = [token if type == CONTROL else token[2:] if token.startswith("##") else SPACE + token for token, type in zip(tokens, types)]
    roles = {"unknown": "[UNK]", "bos": "[CLS]", "cls": "[CLS]", "eos": "[SEP]", "seperator": "[SEP]", "padding": "[PAD]", "mask": "[MASK]"}
    keys = {"general.architecture": "bert", "tokenizer.ggml.model": "bert", "tokenizer.ggml.pre": "default"}
    keys |= {"tokenizer.ggml.tokens": stored, "tokenizer.ggml.token_type": types}
    keys |= {"tokenizer.ggml.%s_token_id" % role: tokens.index(token) for role, token in roles.items()}
    tokenizer = Tokenizer.from_str(json.dumps(root))
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    tokenizer.decoder = decoders.WordPiece("##", True)
    return keys | {"tokenizer.ggml." + key: value for key, value in flags.items()}, tokenizer


CASES = {
    "gpt2": lambda: gpt2("gpt-2"),
    "gpt2 without pre": lambda: gpt2(None, True),
    "smollm": smollm,
    "lacking bytes": lacking,
    "qwen2": qwen2,
    "llama3": llama3,
    "modern-bert": modern_bert,
    "roberta": roberta,
    "llama2": llama2,
    "users' tokens": users,
    "gemma3": gemma3,
    "without scores": unscored,
    "uncased": lambda: wordpiece("uncased", {}),
    "cased": lambda: wordpiece("cased", {"normalizer.lowercase": False}),
    "accents": lambda: wordpiece("accents", {"normalizer.lowercase": True, "normalizer.strip_accents": False}),
}


def samples(name):
    generator = random.Random(name)
    for text in TEXTS:
        yield text, None
    for _ in range(6):
        yield "".join(generator.choice(TEXTS) + generator.choice(["", " ", "\n"]) for _ in range(generator.randint(2, 4))), None
    yield "the cat", "there 12"
    yield " the", ""


def case(name, build):
    keys, tokenizer, *merges = build()
    texts = []
    for first, second in samples(name):
        encoded = tokenizer.encode(first, second) if second is not None else tokenizer.encode(first)
        row = {"text": first} if second is None else {"text": first, "pair": second}
        decoded = tokenizer.decode(encoded.ids, skip_special_tokens=False)
        if second is None and "\ufffd" not in decoded:  # eitp returns bytes that are not UTF-8 as they are
            row["decoded"] = decoded
        texts.append(row | {"ids": encoded.ids} | ({"segments": encoded.type_ids} if any(encoded.type_ids) else {}))
    return {"name": name, "keys": keys, "texts": texts} | ({"merges": merges[0]} if merges else {})


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("directory", nargs="?", type=pathlib.Path, default=ROOT / "gguf_tokenizers")
    directory = parser.parse_args().directory
    directory.mkdir(parents=True, exist_ok=True)
    lines = [json.dumps(case(name, build), separators=(",", ":")) for name, build in CASES.items()]
    (directory / "cases.json").write_text('{"cases":[\n' + ",\n".join(lines) + "\n]}\n", encoding="ascii")


if __name__ == "__main__":
    main()
