#!/usr/bin/env python3
"""Encode documents with eitp and with Hugging Face's tokenizers, and compare every id.

    python3 tools/peers/tokenizers_parity.py [--eitp build/eitp] [--megabytes 20] [--tokenizer FILE]... [TEXT...]

FILE is a tokenizer.json (default: tests/golden/tokenizer/tokenizer.json). Also compares byte-level BPE trained here by eitp, and
tokenizers trained here by the library on the files of this tree, Python's library and translations: WordPiece with 30,000 tokens,
uncased and cased; byte-level BPE with RoBERTa's special tokens and in the styles of Qwen2, Llama 3 and SmolLM; and BPE with byte
fallback in the styles of Gemma, Llama 2 and Mistral. TEXT defaults to random code points of every plane, scripts, marks, controls
and special tokens, with and without spaces; to words of random letters of every script; to the translations in the Python packages
Django, Faker and pycountry, if installed; and to the training files. Prints one line of JSON, with the scripts that have at least
1000 letters. Fails if an id differs, or if BPE with byte fallback decodes a text differently.
"""

import argparse
import collections
import gettext
import importlib.util
import json
import pathlib
import random
import subprocess
import sys
import sysconfig
import tempfile
import unicodedata


def parse_arguments():
    root = pathlib.Path(__file__).resolve().parent.parent.parent
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--eitp", type=pathlib.Path, default=pathlib.Path("build/eitp"))
    parser.add_argument("--megabytes", type=float, default=20)
    parser.add_argument("--tokenizer", type=pathlib.Path, action="append")
    parser.add_argument("text", nargs="*", type=pathlib.Path)
    arguments = parser.parse_args()
    arguments.tokenizer = arguments.tokenizer or [root / "tests/golden/tokenizer/tokenizer.json"]
    return arguments


def run_eitp(arguments, *words, given=""):
    done = subprocess.run([str(arguments.eitp.resolve()), *map(str, words)], capture_output=True, input=given.encode())
    if done.returncode:
        raise SystemExit(done.stderr.decode("utf-8", "replace"))
    return done.stdout


def script_of(character):
    """Return the first word of a letter's name: LATIN, CYRILLIC, ..."""
    return unicodedata.name(character, "?").split()[0] if character.isalpha() else None


def letters_by_script():
    scripts = collections.defaultdict(list)
    for point in range(0x80, 0x20000):
        if not 0xD800 <= point < 0xE000:
            scripts[script_of(chr(point))].append(chr(point))
    return {script: letters for script, letters in scripts.items() if script not in (None, "?") and len(letters) >= 20}


def invented_text(generator, scripts):
    """Return words of random letters, 3000 letters from each script."""
    lines = []
    for letters in scripts.values():
        words = ["".join(generator.choice(letters) for _ in range(generator.randint(1, 9))) for _ in range(600)]
        lines += [" ".join(words[first : first + 12]) + generator.choice([".", "!", "\u3002", ""]) for first in range(0, 600, 12)]
    generator.shuffle(lines)
    return "\n".join(lines)


def translations():
    """Yield the translations in the packages, in about 30 scripts."""
    for package in "django", "faker", "pycountry":
        found = importlib.util.find_spec(package)
        for root in found.submodule_search_locations if found else ():
            for file in sorted(pathlib.Path(root).rglob("*.mo")):
                with file.open("rb") as opened:
                    yield "\n".join(text for text in gettext.GNUTranslations(opened)._catalog.values() if text)
            if package == "faker":
                yield from (file.read_text("utf-8", "replace") for file in sorted(pathlib.Path(root).rglob("*.py")))


def source_files():
    root = pathlib.Path(__file__).resolve().parent.parent.parent
    return [
        *sorted(root.glob("*.md")), *sorted(root.glob("src/**/*.c")), *sorted(root.glob("tests/fuzz/corpus/**/*")),
        *sorted(pathlib.Path(sysconfig.get_paths()["stdlib"]).rglob("*.py")),
    ]


ATOMS = [
    "'s", "'LL", "9", "e\u0301", "\u0300", "\u0345", "\u0334", "\u302e", "\U0001d165", "\u1b44", "\u0130", "\u0391\u03a3",
    "\u200d", "\ufeff", "\u2060", "\x00", "\x7f", "\ufffd", "\ue000", "\ud55c\uad6d\uc5b4", "\uac01", "\u1100\u1161\u11a8",
    "\u6f22\u5b57", "\uf900", "\uff0c", "\u3002", "!", "foo", "##ing", "#", "\U0001f468\u200d\U0001f469", "Stra\xdfe", "NA\xcfVE",
    "\u0627\u0644\u0639\u064e\u0631\u064e\u0628\u0650\u064a\u0651\u0629", "\u0939\u093f\u0928\u094d\u0926\u0940",
    "\u05e9\u05c1\u05dc\u05d5\u05dd", "x" * 99, "x" * 100, "x" * 101, "\xe9" * 100, "\xe9" * 101, "[SEP]", "[CLS]", "[MASK]", "[UNK]",
    "'\u017f", "'S", "'Re", "'VE", "'lL", "'\u212a", "12", "3456", "\u0663\u0664", "\u2167", "\r\n", "\r", "\n\n ", "?!\r\n", "...\n\n", "\u00c5",
    "\u212b", "A\u030a", "\u1e9b\u0323", "\u09c7\u09be", "\u0f71\u0f72", "\u0344", "\u0958", "\ufb1d", "\u1100\u1161", "\uac00\u11a8", "\u0b47\u0b56",
    "<|im_start|>", "<think>", "foo\u0301 bar", "fo\u00f3 bar",
    "[sep]", "[SE", "<s>", "</s>", "<mask>", " <mask>", "  \n<mask> ", "<mask", "<|endoftext|>",
]
SPACES = [" ", "  ", "\n", "\t ", "\u3000", "\xa0", "\u2028", "\x85", "\x0b", "\x1c"]


def random_text(generator, count):
    """Return code points of every plane and strings that patterns or normalizers treat specially; half have short words."""
    limits = (0x80, 0x800, 0x3100, 0xA000, 0x20000, 0x110000)
    often = generator.choice((0.1, 0.6))
    parts = []
    for _ in range(count):
        point = generator.randrange(generator.choice(limits))
        parts.append("" if 0xD800 <= point < 0xE000 else chr(point))
        parts.append(generator.choice(ATOMS) if generator.random() < 0.2 else "")
        parts.append(generator.choice(SPACES) if generator.random() < often else "")
    return "".join(parts)


def texts(arguments):
    left = arguments.megabytes * 1e6
    if not arguments.text:
        for seed in range(12):
            text = random_text(random.Random(seed), 60000)
            left -= len(text.encode())
            yield text
        for text in (invented_text(random.Random(1), letters_by_script()), *translations()):
            left -= len(text.encode())
            yield text
    for file in arguments.text or source_files():
        if left <= 0:
            return
        if file.is_file():
            text = file.read_bytes().decode("utf-8", "replace")
            left -= len(text.encode())
            yield text


def train_peers():
    """Yield the library's tokenizers: names and files."""
    from tokenizers import AddedToken, Tokenizer, models, normalizers, pre_tokenizers, processors, trainers

    files = [str(file) for file in source_files() if file.is_file() and file.suffix in (".py", ".c", ".md")][:700]
    specials = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    for lowercase in True, False:
        words = Tokenizer(models.WordPiece(unk_token="[UNK]"))
        words.normalizer = normalizers.BertNormalizer(lowercase=lowercase)
        words.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        words.train(files, trainers.WordPieceTrainer(vocab_size=30000, special_tokens=specials, show_progress=False))
        yield "uncased" if lowercase else "cased", words
    roberta = Tokenizer(models.BPE())
    roberta.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    specials = ["<s>", "<pad>", "</s>", "<unk>"]
    roberta.train(files, trainers.BpeTrainer(
        vocab_size=30000, special_tokens=specials, show_progress=False, initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    roberta.add_special_tokens([AddedToken(token, normalized=True) for token in specials])
    roberta.add_special_tokens([AddedToken("<mask>", lstrip=True, normalized=False)])
    roberta.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0), True, False)
    yield "roberta", roberta
    for name in "smollm", "qwen2", "llama3":
        yield name, train_decoder(name, files)
    vocabulary, merges = train_characters(files)
    for name in "gemma", "llama2", "mistral", "metaspace":
        yield name, with_byte_fallback(name, vocabulary, merges)


SPACE = "\u2581"
BYTE_TOKENS = ["<0x%02X>" % byte for byte in range(256)]


def train_characters(files):
    """Return tokens and merges of characters from code and translations, with runs of spaces and line feeds as in Gemma."""
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers

    texts = [pathlib.Path(file).read_text("utf-8", "replace") for file in files] + list(translations())
    model = Tokenizer(models.BPE())
    model.pre_tokenizer = pre_tokenizers.Metaspace(replacement=SPACE, prepend_scheme="always", split=True)
    model.train_from_iterator(texts, trainers.BpeTrainer(
        vocab_size=30000, limit_alphabet=4000, show_progress=False, special_tokens=[SPACE, "\n", "\t"]))
    learnt = json.loads(model.to_str())["model"]
    merges = [tuple(merge) for merge in learnt["merges"]]
    for run in SPACE, "\n":
        merges += [(run * (count // 2), run * (count - count // 2)) for count in range(2, 17)]
    tokens = [*learnt["vocab"], *("".join(merge) for merge in merges)]
    return list(dict.fromkeys(tokens)), list(dict.fromkeys(merges))


def with_byte_fallback(name, vocabulary, merges):
    """Use the normalizer, pre-tokenizer, decoder and added tokens of these models' files. "metaspace" splits text at spaces,
    ignores merges, and has tokens for half of the bytes, so that some characters are unknown."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers

    specials = ["<pad>", "<eos>", "<bos>", "<unk>"] if name == "gemma" else ["<unk>", "<s>", "</s>"]
    tokens = [*specials, *(BYTE_TOKENS[::2] if name == "metaspace" else BYTE_TOKENS), *vocabulary]
    model = Tokenizer(models.BPE(
        {token: id for id, token in enumerate(dict.fromkeys(tokens))}, merges, unk_token="<unk>", fuse_unk=True,
        byte_fallback=True, ignore_merges=name == "metaspace"))
    model.decoder = decoders.Sequence([decoders.Replace(SPACE, " "), decoders.ByteFallback(), decoders.Fuse()])
    if name == "gemma":
        model.normalizer = normalizers.Replace(" ", SPACE)
        model.pre_tokenizer = pre_tokenizers.Split(" ", "merged_with_previous")
        model.add_tokens([AddedToken(text, normalized=False) for text in ("\n\n", "\n\n\n", SPACE * 2)])
    elif name == "llama2":
        model.normalizer = normalizers.Sequence([normalizers.Prepend(SPACE), normalizers.Replace(" ", SPACE)])
    else:
        scheme = "first" if name == "mistral" else "always"
        model.pre_tokenizer = pre_tokenizers.Metaspace(SPACE, prepend_scheme=scheme, split=name == "metaspace")
    if name != "gemma":
        steps = [decoders.Replace(SPACE, " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
        model.decoder = decoders.Sequence(steps)
    model.add_special_tokens([AddedToken(token, normalized=name == "llama2") for token in specials])
    model.add_tokens([AddedToken("<mask>", normalized=False, lstrip=True), AddedToken("foo\u0301 bar", normalized=True)])
    return model


CASELESS = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|%s| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)


def train_decoder(name, files):
    """Byte-level BPE with the normalizer, the pattern and the special tokens of these models' files."""
    from tokenizers import AddedToken, Regex, Tokenizer, models, normalizers, pre_tokenizers, trainers

    model = Tokenizer(models.BPE(ignore_merges=name == "llama3"))
    if name == "smollm":
        digits = pre_tokenizers.Digits(individual_digits=True)
        model.pre_tokenizer = pre_tokenizers.Sequence([digits, pre_tokenizers.ByteLevel(add_prefix_space=False)])
    else:
        pattern = Regex(CASELESS % (r"\p{N}" if name == "qwen2" else r"\p{N}{1,3}"))
        split = pre_tokenizers.Split(pattern, behavior="isolated", invert=False)
        level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
        model.pre_tokenizer = pre_tokenizers.Sequence([split, level])
    if name == "qwen2":
        model.normalizer = normalizers.NFC()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    model.train(files, trainers.BpeTrainer(vocab_size=20000, show_progress=False, initial_alphabet=alphabet))
    model.add_special_tokens(["<|endoftext|>", "<|im_start|>", "<|im_end|>"])
    model.add_tokens([AddedToken("<think>", normalized=False), AddedToken("foo\u0301 bar", normalized=True)])
    return model


def compare(arguments, scratch, name, tokenizer):
    import tokenizers

    reference = tokenizers.Tokenizer.from_file(str(tokenizer))
    decodes = json.loads(tokenizer.read_text("utf-8"))["model"].get("byte_fallback")
    reference.no_truncation()
    reference.no_padding()
    size = ids = 0
    characters, scripts = collections.Counter(), collections.Counter()
    batch = []
    file = scratch / "text.txt"

    def flush():
        nonlocal ids, size
        text = "".join(batch)
        batch.clear()
        file.write_bytes(text.encode())
        found = list(map(int, run_eitp(arguments, "tokenizer", "encode", "--tokenizer", tokenizer, "--data", file).split()))
        expected = reference.encode(text, add_special_tokens=False).ids
        if found != expected:
            at = next((i for i, pair in enumerate(zip(found, expected)) if pair[0] != pair[1]), min(len(found), len(expected)))
            raise SystemExit(f"{name}: id {at} differs: eitp {found[at - 3 : at + 4]}, tokenizers {expected[at - 3 : at + 4]}")
        decoded = decodes and run_eitp(
            arguments, "tokenizer", "decode", "--tokenizer", tokenizer, given=" ".join(map(str, expected)))
        if decodes and decoded != reference.decode(expected, skip_special_tokens=False).encode():
            raise SystemExit(f"{name}: a text that starts with {text[:40]!r} is decoded differently")
        ids += len(expected)
        size += file.stat().st_size

    for text in texts(arguments):
        batch.append(text)
        characters.update(text)
        if sum(map(len, batch)) > 1 << 18:
            flush()
    flush()
    for character, count in characters.items():
        scripts[script_of(character)] += count
    common = [script for script, count in scripts.items() if count >= 1000 and script not in (None, "?")]
    return {"bytes": size, "ids": ids, "different": 0, "scripts": len(common)}


def main():
    arguments = parse_arguments()
    import tokenizers

    with tempfile.TemporaryDirectory() as scratch:
        scratch = pathlib.Path(scratch)
        learnt = scratch / "learnt"
        source = pathlib.Path(__file__).resolve().parent.parent.parent / "CONTRIBUTING.md"
        run_eitp(arguments, "tokenizer", "train", "--data", source, "--vocab-size", 1200, "--output", learnt)
        result = {"tokenizers": tokenizers.__version__}
        files = [(str(file), file) for file in arguments.tokenizer] + [("learnt", learnt / "tokenizer.json")]
        for name, tokenizer in train_peers():
            files.append((name, scratch / f"{name}.json"))
            tokenizer.save(str(files[-1][1]))
        for name, file in files:
            result[name] = compare(arguments, scratch, name, file)
            print(name, json.dumps(result[name]), file=sys.stderr, flush=True)
    print(json.dumps(result))
    return 0


if __name__ == "__main__":
    sys.exit(main())
