#!/usr/bin/env python3
"""Write tests/golden/words: small tokenizers like BERT's and RoBERTa's from the library `tokenizers`, and their results for
strings.

    pip install tokenizers==0.23.3
    python3 tools/golden/make_words.py [DIRECTORY]

uncased.json, accents.json, cased.json   WordPiece: lower case without accents; lower case with them; neither
roberta.json                             byte-level BPE with RoBERTa's special tokens and template
cases.json  "normalized": by settings of the normalizer ("clean_text", "handle_chinese_chars", "strip_accents", "lowercase" as
            0 and 1), FNV-1a (64 bits, hexadecimal) over its result for "a", each code point that is not a surrogate, and "b";
            "marks": random marks, and the remaining marks in order without accents (both "hex");
            "texts": the bytes of a string ("hex"), and for each tokenizer its ids and their decoding ("hex");
            "sequences": the indices of one or two strings, the settings, and for each tokenizer the ids and segments, or null
            if the library refuses them; truncation by number: longest first, only first, only second;
            "words": the indices of strings that are the words of one input, the settings, and for each tokenizer the ids and
            the word of each (-1: none); RoBERTa's with a space before each word
"""

import argparse
import json
import pathlib
import random

from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

WORDS = """the of and to in is it you that he was for on are with as his they be at one have this from or had by hot but some
what there we can out other were all your when up use word how said an each she which do their time if will way about many
then them would write like so these her long make thing see him two has look more day could go come did my sound no most
number who over know water than call first people may down side been now find unaffable tokenization embedding classifier
café naïve Zürich straße ΟΔΥΣΣΕΥΣ Ελλάδα Москва Київ İstanbul ıslak שָׁלוֹם العَرَبِيَّة हिन्दी বাংলা தமிழ் ไทย 한국어 각하 漢字 中文 日本語 かな カタカナ
don't can't I'm e-mail 3.14 2024 x+=1 foo_bar <b> ¿qué? «oui» „ja“ … — ！ 。""".split()
ATOMS = WORDS + [
    " ", "  ", "\n", "\t", "\r\n", "\xa0", "\u3000", "\u2028", "\x85", "\v", "\f", "\0", "\x01", "\x7f", "\u200b", "\u200d", "\ufeff",
    "\u2060", "\xad", "\ufffd", "\ue000", "\U000e0001", "\u0301", "\u0308", "e\u0301", "o\u0308\u0301", "\u0345\u0301", "\u0334", "\u302e",
    "\U0001d165", "\u1b44", "\u302e\U0001d165", "\U0001d165\u0301\u302e", "\u302e\u094d\U0001d165", "\U0001d160", "\u0958", "\u09cb", "\u1100\u1161\u11a8",
    "\uf900", "\U0002f800", "\U0002b820", "\u4dc0", "\u3400", "\U00020000", "İ", "I\u0307", "ß", "ẞ", "Σ", "ΑΣ", "ΑΣ.", "ﬁ", "Ǆ", "ǅ", "ſ", "K", "Å",
    "\U00010400", "Ⅷ", "٣", "😀", "👩‍🚀", "🇩🇪", "[SEP]", "[MASK]", "[mask]", "[UNK]", "[MAS", "[", "]", "<mask>", " <mask>", "\n <mask> ", "<mas",
    "<s>", "</s>", "<pad>", "  Foo Bar", "foo bar", "FOO  BAR", "x" * 99, "x" * 100, "x" * 101, "é" * 100, "é" * 101, "##ing", "$", "^", "`", "~", "|",
    "§", "©", "€", "\u0d4d\u302e", "\u0f71\u0f72", "\u1026", "\u0cca", "ཱི",
]
SETTINGS = [(1, 1, 1, 1), (1, 1, 0, 1), (0, 0, 1, 0), (0, 0, 0, 1), (1, 0, 0, 0), (0, 1, 0, 0)]
STRATEGIES = ["longest_first", "only_first", "only_second"]


def training_lines(generator):
    for _ in range(900):
        yield " ".join(generator.choices(WORDS, [1 / (rank + 9) for rank in range(len(WORDS))], k=generator.randint(3, 12)))


def word_vocabulary(generator, normalizer, size):
    """Return characters and parts of words. (The library's trainer gives a different vocabulary each time.)"""
    words = [word for text in WORDS for word, _ in pre_tokenizers.BertPreTokenizer().pre_tokenize_str(normalizer.normalize_str(text))]
    tokens = dict.fromkeys(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"])
    characters = sorted(set("".join(words)) - {"\u65e5", "\u045e"})
    tokens.update(dict.fromkeys(characters))
    tokens.update(dict.fromkeys("##" + character for character in characters if generator.random() < 0.9))
    while len(tokens) < size:
        word = generator.choice(words)
        begin = generator.randrange(len(word))
        end = generator.randint(begin + 1, len(word))
        tokens["##" * (begin > 0) + word[begin:end]] = None
    return {token: number for number, token in enumerate(tokens)}


def wordpiece(generator, size, **steps):
    normalizer = normalizers.BertNormalizer(**steps)
    tokenizer = Tokenizer(models.WordPiece(word_vocabulary(generator, normalizer, size), unk_token="[UNK]"))
    tokenizer.normalizer = normalizer
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    tokenizer.add_special_tokens(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"])
    return tokenizer


def make_tokenizers(generator, lines):
    uncased = wordpiece(generator, 700)
    uncased.post_processor = processors.TemplateProcessing(
        single="[CLS]:0 $A:0 [SEP]:0", pair="[CLS]:0 $A:0 [SEP]:0 $B:1 [SEP]:1", special_tokens=[("[CLS]", 2), ("[SEP]", 3)])
    uncased.enable_truncation(128)
    uncased.enable_padding(length=128, pad_to_multiple_of=8)
    accents = wordpiece(generator, 500, strip_accents=False)
    accents.add_tokens([AddedToken("Foo Bar", lstrip=True, rstrip=True), AddedToken("ÉTÉ")])
    accents.decoder = decoders.WordPiece(cleanup=False)
    cased = wordpiece(generator, 600, lowercase=False)
    cased.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    roberta = Tokenizer(models.BPE())
    roberta.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    roberta.decoder = decoders.ByteLevel()
    roberta.train_from_iterator(lines, trainers.BpeTrainer(
        vocab_size=500, special_tokens=["<s>", "<pad>", "</s>", "<unk>"], show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    roberta.add_special_tokens([AddedToken(token, normalized=True) for token in ("<s>", "<pad>", "</s>", "<unk>")])
    roberta.add_special_tokens([AddedToken("<mask>", lstrip=True, normalized=False)])
    roberta.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0), True, False)
    return {"uncased": uncased, "accents": accents, "cased": cased, "roberta": roberta}


def fnv(data, value=0xCBF29CE484222325):
    for byte in data:
        value = (value ^ byte) * 0x100000001B3 % 2**64
    return value


def normalized_hash(settings):
    normalize = normalizers.BertNormalizer(*map(bool, settings)).normalize_str
    value = 0xCBF29CE484222325
    for code_point in range(0x110000):
        if not 0xD800 <= code_point < 0xE000:
            value = fnv(normalize("a" + chr(code_point) + "b").encode(), value)
    return f"{value:016x}"


MARKS = ["a", "\u302e", "\u302e", "\U0001d165", "\U0001d16d", "\u1b44", "\u08d4", "\U00011446", "\u0301", "\u0334", "\u094d", "\u0902",
         "\u034f", "\U0001d15e", "\u200d", "\xe9"]


def marks(generator):
    """Yield random marks, and their canonical order without accents. Some accents limit the reordering, others do not."""
    strip = normalizers.BertNormalizer(False, False, True, False).normalize_str
    for _ in range(80):
        text = "".join(generator.choice(MARKS) for _ in range(generator.randint(2, 12)))
        yield {"hex": text.encode().hex(), "stripped": strip(text).encode().hex()}


def texts(generator):
    yield ""
    for atom in ATOMS:
        yield "a " + atom + "b"
    for _ in range(70):
        yield "".join(generator.choice(ATOMS) + generator.choice(["", "", " "]) for _ in range(generator.randint(2, 20)))
    for _ in range(20):
        points = (generator.randrange(generator.choice((0x80, 0x800, 0x3100, 0x10000, 0x110000))) for _ in range(30))
        yield "".join(chr(c) + generator.choice(["", " ", "a", "."]) for c in points if not 0xD800 <= c < 0xE000)


def describe(tokenizer, text):
    ids = tokenizer.encode(text, add_special_tokens=False).ids
    return {"ids": ids, "decoded": tokenizer.decode(ids, skip_special_tokens=False).encode().hex()}


def sequence(tokenizer, pair, length, strategy, left):
    if length:
        tokenizer.enable_truncation(length, strategy=strategy, direction="left" if left else "right")
    else:
        tokenizer.no_truncation()
    try:
        encoding = tokenizer.encode(*pair)
    except BaseException:  # the library's errors and panics
        return None
    return {"ids": encoding.ids, "segments": encoding.type_ids}


def sequences(generator, count):
    for _ in range(90):
        which = [generator.randrange(count) for _ in range(generator.choice((1, 2, 2)))]
        length = generator.choice((0, 5, 6, 7, 8, 11, 16, 17, 24))
        yield {"texts": which, "max_length": length, "truncation": generator.randrange(3), "left": generator.randrange(2)}


def words(tokenizers, generator, given):
    for _ in range(60):
        which = [generator.randrange(len(given)) for _ in range(generator.randint(1, 9))]
        row = {"texts": which, "max_length": generator.choice((0, 0, 7, 8, 12, 20)), "truncation": 0, "left": generator.randrange(2)}
        for name, tokenizer in tokenizers.items():
            if name == "roberta":
                tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
            tokenizer.no_truncation()
            if row["max_length"]:
                tokenizer.enable_truncation(row["max_length"], direction="left" if row["left"] else "right")
            encoding = tokenizer.encode([given[i] for i in which], is_pretokenized=True)
            row[name] = {"ids": encoding.ids, "words": [-1 if word is None else word for word in encoding.word_ids]}
        yield row


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    default = pathlib.Path(__file__).resolve().parent.parent.parent / "tests" / "golden" / "words"
    parser.add_argument("directory", nargs="?", type=pathlib.Path, default=default)
    directory = parser.parse_args().directory
    directory.mkdir(parents=True, exist_ok=True)
    generator = random.Random(3)
    tokenizers = make_tokenizers(generator, list(training_lines(generator)))
    for name, tokenizer in tokenizers.items():
        (directory / f"{name}.json").write_bytes(tokenizer.to_str(pretty=False).encode())
        tokenizer.no_truncation()
        tokenizer.no_padding()
    given = list(texts(generator))
    rows = [{"hex": text.encode().hex(), **{name: describe(t, text) for name, t in tokenizers.items()}} for text in given]
    cut = []
    for row in sequences(generator, min(160, len(given))):
        arguments = [given[i] for i in row["texts"]], row["max_length"], STRATEGIES[row["truncation"]], row["left"]
        cut.append({**row, **{name: sequence(t, *arguments) for name, t in tokenizers.items()}})
    split = list(words(tokenizers, random.Random(4), given[:160]))
    hashes = {" ".join(map(str, settings)): normalized_hash(settings) for settings in SETTINGS}

    def lines(values):
        return ",\n".join(json.dumps(value, separators=(",", ":")) for value in values)

    content = '{"normalized":%s,\n"marks":[\n%s\n],\n"texts":[\n%s\n],\n"sequences":[\n%s\n],\n"words":[\n%s\n]}\n' % (
        json.dumps(hashes), lines(marks(generator)), lines(rows), lines(cut), lines(split))
    (directory / "cases.json").write_bytes(content.encode())


if __name__ == "__main__":
    main()
