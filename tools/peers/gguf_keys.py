"""Parts of gguf_parity.py: the keys of exported files, and the tokens that llama.cpp gets from them."""

import json
import re

import numpy

import gguf_models
from gguf_models import SPACE
from llama_cpp import keys_of, open_text, tensors_of, widened

# ---- Keys ----


def only_own(condition):
    """Accept a key that only eitp writes, if a condition on its value holds."""
    return lambda theirs, own, key: key not in theirs and condition(own, own[key])


def only_theirs(theirs, own, key):
    return key not in own


def only_theirs_for(*models):
    """Accept a key that only the converter writes for models of tokenizers, if it has what llama.cpp does without it."""
    return lambda theirs, own, key: key not in own and own["tokenizer.ggml.model"] in models and theirs[key] is not key.endswith("sep_token")


def head_width(keys):
    name = keys["general.architecture"]
    return keys.get(f"{name}.attention.key_length", keys[f"{name}.embedding_length"] // keys[f"{name}.attention.head_count"])


def is_default(own, value):
    """True for what llama.cpp takes for a key of the tokenizer that is missing."""
    return value is False or own["tokenizer.ggml.model"] == "llama"


def is_spelled(spelling):
    return only_own(lambda own, value: own["tokenizer.ggml.tokens"][value] == spelling)


def same_order(theirs, own, key):
    """True if the scores of tokens that merges produce have the same order. Those of other tokens are not used."""
    merged = [i for i, score in enumerate(own[key]) if score < 0 and own["tokenizer.ggml.token_type"][i] == 1]
    theirs, own = [numpy.array(keys[key])[merged] for keys in (theirs, own)]
    return numpy.array_equal(numpy.argsort(-theirs, kind="stable"), numpy.argsort(-own, kind="stable"))


def unscored(theirs, own, key):
    return set(theirs[key]) == {-1000.0}


def unknown_is_control(theirs, own, key):
    """True if the only difference is that the converter calls the unknown token a control token."""
    different = [(i, a, b) for i, (a, b) in enumerate(zip(theirs[key], own[key])) if a != b]
    return different == [(own["tokenizer.ggml.unknown_token_id"], 3, 2)]


DEFAULT = "states llama.cpp's default"
AROUND = "llama.cpp puts the tokens of BERT around each text without them"
UNNAMED = "states a role that the tokenizer's class has; without it, llama.cpp takes token 11, or none"

# Accepted differences: the end of the key, a condition, and the reason.
ACCEPTED = [
    ("general.name", only_theirs, "eitp writes no name unless the caller gives one"),
    ("general.size_label", only_theirs, "for pages of hubs; runners do not read it"),
    (".vocab_size", only_own(lambda own, value: value == len(own["tokenizer.ggml.tokens"])), "states the number of tokens"),
    (".attention.key_length", only_own(lambda own, value: value == head_width(own)), DEFAULT),
    (".attention.value_length", only_own(lambda own, value: value == head_width(own)), DEFAULT),
    (".rope.dimension_count", only_own(lambda own, value: value == head_width(own)), DEFAULT),
    (".pooling_type", only_own(lambda own, value: value == 1), "the mean, as eitp embed takes it without a file that says"),
    (".add_bos_token", only_own(is_default), DEFAULT),
    (".add_eos_token", only_own(lambda own, value: value is False), DEFAULT),
    (".add_sep_token", only_own(lambda own, value: value is False), DEFAULT),
    (".add_sep_token", only_theirs_for("gpt2", "llama"), "states llama.cpp's default, false"),
    (".add_bos_token", only_theirs_for("bert"), AROUND),
    (".add_eos_token", only_theirs_for("bert"), AROUND),
    (".add_sep_token", only_theirs_for("bert"), "only used for pairs, which need a classifier"),
    (".add_space_prefix", only_own(is_default), DEFAULT),
    (".eot_token_id", is_spelled("<|im_end|>"), "the end of a turn of the chat template, which llama.cpp knows by its spelling"),
    (".eot_token_id", is_spelled("</turn>"), "the end of a turn of the chat template, which llama.cpp would not stop at"),
    (".bos_token_id", is_spelled("<|endoftext|>"), UNNAMED),
    (".unknown_token_id", is_spelled("<|endoftext|>"), UNNAMED),
    (".cls_token_id", only_own(lambda own, value: value == own["tokenizer.ggml.bos_token_id"]), "the role of the first token; llama.cpp reads bos_token_id"),
    (".normalizer.strip_accents", only_own(lambda own, value: value == own["tokenizer.ggml.normalizer.lowercase"]), "null in tokenizer.json means: as lowercase"),
    ("tokenizer.ggml.scores", unscored, "without tokenizer.model, the converter writes no scores, and llama.cpp cannot order merges"),
    ("tokenizer.ggml.scores", same_order, "tokenizer.json has ranks of merges instead of scores; their order is the same"),
    ("tokenizer.ggml.token_type", unknown_is_control, "the converter says so only if tokenizer_config.json does not list the token as special"),
]


def same(a, b):
    """True if two values of keys are equal, numbers as float32."""
    if isinstance(a, float) or isinstance(b, float):
        return numpy.float32(a) == numpy.float32(b)
    if isinstance(a, list) and isinstance(b, list) and a and isinstance(a[0], float):
        return len(a) == len(b) and bool(numpy.array_equal(numpy.float32(a), numpy.float32(b)))
    return type(a) is type(b) and a == b


def short(value):
    text = repr(value)
    return text if len(text) < 70 else text[:60] + "..."


def describe(a, b):
    if isinstance(a, list) and isinstance(b, list) and len(a) == len(b):
        different = [i for i in range(len(a)) if a[i] != b[i]]
        return f"{len(different)} elements, the first at {different[0]}: {short(a[different[0]])}, {short(b[different[0]])}"
    return f"{short(a)}, {short(b)}"


def key_differences(theirs, own):
    """Yield the keys that differ, and what llama.cpp and eitp wrote."""
    for name in sorted(set(theirs) | set(own)):
        if name not in own:
            yield name, f"only llama.cpp: {short(theirs[name])}"
        elif name not in theirs:
            yield name, f"only eitp: {short(own[name])}"
        elif not same(theirs[name], own[name]):
            yield name, describe(theirs[name], own[name])


def tensor_differences(theirs, own):
    theirs, own = tensors_of(theirs), tensors_of(own)
    for name in sorted(set(theirs) | set(own)):
        if name not in own or name not in theirs:
            yield name, "only llama.cpp" if name in theirs else "only eitp"
            continue
        a, b = widened(theirs[name]), widened(own[name])
        if a.shape != b.shape or theirs[name].tensor_type != own[name].tensor_type:
            yield name, f"{theirs[name].tensor_type.name} {a.shape}, {own[name].tensor_type.name} {b.shape}"
        elif name == "rope_freqs.weight" and numpy.allclose(a, b, rtol=3e-7, atol=0):
            continue  # llama.cpp's converter computes them in float32
        elif not numpy.array_equal(a.view(numpy.uint32), b.view(numpy.uint32)):
            yield name, f"values, by up to {numpy.abs(a - b).max():g}"


def accepted(key, theirs, own):
    """Return the reason for an accepted difference, or None."""
    for end, condition, reason in ACCEPTED:
        if key.endswith(end) and condition(theirs, own, key):
            return reason
    return None


def convert(setup, name):
    """Return the converter's file of a model, with the name of the pre-tokenizer that eitp wrote."""
    file = setup.work / f"{name}.converter.gguf"
    file.unlink(missing_ok=True)
    setup.peer.convert(setup.directory(name), file, keys_of(setup.full(name)).get("tokenizer.ggml.pre"))
    return file


def keys(setup):
    """Keys and tensors equal those of llama.cpp's converter."""
    count, differ, reasons = 0, 0, {}
    for name in gguf_models.KEYS:
        file = convert(setup, name)
        theirs, own = keys_of(file), keys_of(setup.full(name))
        count += len(set(theirs) | set(own)) + len(tensors_of(file))
        for key, what in key_differences(theirs, own):
            reason = accepted(key, theirs, own)
            reasons[reason] = reasons.get(reason, 0) + 1
            differ += reason is None
            print(f"{name}: {key}: {what}; " + (f"accepted: {reason}" if reason else "NOT ACCEPTED"))
        for tensor, what in tensor_differences(file, setup.full(name)):
            differ += 1
            print(f"{name}: {tensor}: {what}")
    listed = sum(number for reason, number in reasons.items() if reason)
    return differ, 0, f"keys and tensors of {count} differ from the converter's; {listed} are listed differences"


# ---- Tokens ----

TEXTS = [
    "the cat", " the  cat", "The CAT caf\xe9", "don't DON'T we'LL I'm you've", "1 12 2024 12345 3.14 1,000,000", "a\n\nb\n\n\nc", "\t x\r\n\r\n y ", "   three",
    "a" + " " * 7 + "b" + " " * 12, "\u6f22\u5b57\u6f22 \u4e2d\u6587\u6587\u672c", "\u0645\u0631\u062d\u0628\u0627 \ud55c\uad6d\uc5b4", "\U0001f468\u200d\U0001f469 \U0001f600", "\xa0\u3000x\u2003y",
    "x=1; _a_b ...!?", "if (n > 0) {\n    return -1;\n}", "<s>the</s> <unk>", "<|im_start|>the<|im_end|> cat<think>", "[CLS] the [MASK] cat [SEP]", "the <mask>  cat",
    "<bos>the<start_of_turn> cat<end_of_turn>", "<|endoftext|>", "there\nthere12therethen", "<0x41>", "zq zqz zq", "Z\xfcrich stra\xdfe na\xefve", "\u0395\u03bb\u03bb\u03ac\u03b4\u03b1",
    "\u041c\u043e\u0441\u043a\u0432\u0430 \u041f\u0440\u0438\u0432\u0435\u0442", "\u65e5\u672c\u8a9e\u306e\u6587", "\u0939\u093f\u0928\u094d\u0926\u0940", "\u0e44\u0e17\u0e22", "\u0663\u0664\u2167\xb2\xbd", "--- == ====== ***", "https://example.org/a?b=c&d=%20",
    "user@example.org", "It's 5 o'clock.", "\"quoted\" 'text' `code`", "A.B.C. e.g. i.e.", "CamelCase snake_case kebab-case", "0xFF 1e-5 #fff", "\n", "\n\n", " \n ", "x\n", "\ttab\t\ttabs",
    "e\u0301 \u212b", "\u200b\u2028\u2029", "The quick brown fox jumps over the lazy dog.", "a-b\u2013c\u2014d", "\u20ac100 \xa35 $3", "100% & more", "(a[b]{c}<d>)", "!", "?!?!...", "\u2581the\u2581\u2581x",
    "I 'm , do not . It is", "unaffable running happiness", "x" * 101, "", "a <\uff5cuser\uff5c> two  spaces <unused1>b", "two  spacesx\xe9t\xe9 \u6f22y\xe9t\xe9",
]



# Texts that llama.cpp cuts differently whatever a file says: kinds of tokenizers, a pattern, and the reason.
LEFT_OUT = [
    ("qwen2", "e\u0301|\u212b", "it does not compose characters"),
    ("gemma", SPACE, "it looks for users' tokens of spaces in spaces only, not in U+2581"),
    ("roberta", " <mask>", "the format cannot say that a token takes the spaces before it"),
    ("uncased", "[\uac00-\ud7a3\u0900-\u097f]", "it does not decompose Hangul, and keeps Indic vowel signs"),
    ("uncased cased", r"\w{101}", "it has no limit to the length of words"),
]


def own_tokens(setup, tokenizer, text, add_special):
    words = ["tokenizer", "encode", "--tokenizer", tokenizer, "--json", *(["--special-tokens", "--truncation", "none"] if add_special else [])]
    with open_text(text) as stdin:
        return json.loads(setup.run(*words, stdin=stdin))["ids"]


def is_left_out(kind, text):
    return any(kind in kinds.split() and re.search(pattern, text) for kinds, pattern, _ in LEFT_OUT)


def tokenizers_of(setup):
    """Yield names, exports, originals, and the texts to compare."""
    for name in gguf_models.KEYS:
        kind = gguf_models.MODELS[name][1]
        yield name, setup.full(name), setup.directory(name), [text for text in TEXTS if not is_left_out(kind, text)]
    yield "SmolLM2", setup.exported("smollm2", "q8_0"), setup.smollm2, TEXTS


def tokens(setup):
    """Tokens of exported tokenizers in llama.cpp equal eitp's tokens of the original directories."""
    count, differ = 0, 0
    for name, exported, original, texts in tokenizers_of(setup):
        for text in texts:
            for add_special in (False, True):
                theirs = setup.peer.tokenize(exported, text, add_special)
                own = own_tokens(setup, original, text, add_special)
                count += 1
                if theirs != own:
                    differ += 1
                    print(f"{name}: {text!r}{' with special tokens' if add_special else ''}: {theirs} in llama.cpp, {own} in eitp")
    return differ, 0, f"texts of {count} have other tokens in llama.cpp; {len(TEXTS) * (len(gguf_models.KEYS) + 1) * 2 - count} are left out"
