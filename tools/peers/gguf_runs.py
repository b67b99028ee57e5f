"""Parts of gguf_parity.py that run models: texts, chats, losses, training and perplexities."""

import json
import pathlib
import re
import tempfile

import gguf_models
from llama_cpp import keys_of, perplexity_in

TOKENS, MARGIN = 32, 0.02
PROMPTS = [
    "The capital of France is", "Once upon a time there was", "def fibonacci(n):", "The three primary colors are", "Water boils at a temperature of",
    "In 1969, the first humans", "My favourite recipe begins with", "The mitochondria is", "To be or not to be,", "A list of fruits: apple,",
    "The quick brown fox", "Dear Sir or Madam,", "Once the sun had set,", "The meaning of life is", "2 + 2 =", "import numpy as np",
    "The president of the United States", "Machine learning is a", "Shakespeare wrote", "Z\xfcrich is a city in",
]
TURNS = ["Say hello.", "What is the opposite of hot? Answer with one word.", "Name a colour."]
BLOCK, TEXTS = 64, 50
RATE = 2e-4  # of LoRA; at larger ones, roundings grow from step to step
WINDOW, WINDOWS = 255, 20  # llama-perplexity rounds contexts up to multiples of 256

# ---- Greedy texts ----


def complete(setup, *words):
    """Return the output and errors of llama-completion, which sometimes exits before it has written the last of them."""
    for _ in range(8):
        output, errors = setup.peer.outputs("llama-completion", *words)
        if "total time" in errors:
            return output, errors
    raise SystemExit("llama-completion ended without its times")


def by_llama_cpp(setup, file, prompt, count):
    words = ["-m", file, "-p", prompt, "-n", count, "--temp", 0, "-no-cnv", "-t", setup.threads, "--simple-io", "--no-warmup", "--no-escape"]
    text, _ = complete(setup, *words)
    return text[len(prompt) :].rstrip("\n").removesuffix(" [end of text]")


def by_eitp(setup, file, prompt, count):
    words = ["generate", "--model", file, "--prompt", prompt, "--tokens", count, "--temperature", 0, "--precision", "fp32", "--threads", setup.threads]
    return json.loads(setup.run(*words, "--json"))["samples"][0]["text"]


def common(first, second):
    """Return the number of equal elements at the start of two lists."""
    return next((i for i, (a, b) in enumerate(zip(first, second)) if a != b), min(len(first), len(second)))


def is_close(model, ids, candidates):
    """Return whether two tokens are the best ones after some ids, and nearly equally good."""
    import torch

    with torch.no_grad():
        logits = model(input_ids=torch.tensor([ids])).logits[0, -1].float()
    values, best = logits.topk(2)
    margin = (values[0] - values[1]).item()
    return set(best.tolist()) == set(candidates) and margin <= MARGIN, margin


def continue_prompt(setup, file, model, tokenizer, prompt):
    """Return whether the texts are equal but for close choices, and the number of these. After one, both continue with eitp's."""
    choices, left, start = 0, TOKENS, prompt
    while left > 0:
        theirs, own = by_llama_cpp(setup, file, start, left), by_eitp(setup, file, start, left)
        if theirs.rstrip() == own.rstrip():
            return True, choices
        a, b = (tokenizer.encode(start + text, add_special_tokens=False).ids for text in (theirs, own))
        same, first = common(a, b), len(tokenizer.encode(start, add_special_tokens=False).ids)
        is_choice, margin = (False, float("inf")) if same < first or same >= min(len(a), len(b)) else is_close(model, b[:same], [a[same], b[same]])
        print(f"{start!r}: {theirs!r} in llama.cpp, {own!r} in eitp, margin {margin:g}")
        if not is_choice:
            return False, choices
        choices, left = choices + 1, left - (same + 1 - first)
        start = tokenizer.decode(b[: same + 1], skip_special_tokens=False)
    return True, choices


def greedy(setup):
    """Texts equal llama.cpp's."""
    file = setup.exported("smollm2", "f16")
    model, tokenizer = gguf_models.llama_in_pytorch(setup.smollm2), gguf_models.smollm_tokenizer(setup.smollm2)
    found = [continue_prompt(setup, file, model, tokenizer, prompt) for prompt in PROMPTS]
    failed = sum(not is_equal for is_equal, _ in found)
    return failed, 0, f"texts of {len(PROMPTS)} differ from llama.cpp's; {sum(choices for _, choices in found)} choices between logits within {MARGIN:g}"


# ---- Chats ----


def rendered(keys, turn):
    """Return the prompt for an answer to one turn of a user."""
    import jinja2

    tokens = keys["tokenizer.ggml.tokens"]
    names = {name: tokens[keys[f"tokenizer.ggml.{role}_token_id"]] for name, role in (("bos_token", "bos"), ("eos_token", "eos"))}
    environment = jinja2.Environment(trim_blocks=True, lstrip_blocks=True)
    template = environment.from_string(keys["tokenizer.chat_template"])
    return template.render(messages=[{"role": "user", "content": turn}], add_generation_prompt=True, **names)


def answer(setup, file, turn, count):
    """Return the ids of the prompt in llama.cpp, and the text that it prints after the prompt."""
    words = ["-m", file, "-p", turn, "-cnv", "--jinja", "-st", "-n", count, "--temp", 0, "--simple-io", "--verbose-prompt", "--no-warmup", "-t", setup.threads]
    words += ["--no-escape", "--no-display-prompt"]
    output, errors = complete(setup, *words)
    return [int(number) for number in re.findall(r"^(?:\S+ I)? *(\d+) -> '", errors, re.MULTILINE)], output.strip()


def chat(setup):
    """Chat models answer and stop, and their prompts are those of their templates."""
    import tokenizers

    count, failed, answers = 96, 0, 0
    smollm = gguf_models.smollm_tokenizer(setup.smollm2)
    ending = tokenizers.Tokenizer.from_file(str(setup.directory("turns") / "tokenizer.json"))
    for name, file, tokenizer in (("SmolLM2", setup.exported("smollm2", "f16"), smollm), ("turns", setup.full("turns"), ending)):
        keys = keys_of(file)
        for turn in TURNS:
            expected = tokenizer.encode(rendered(keys, turn), add_special_tokens=False).ids
            ids, text = answer(setup, file, turn, count)
            begins = [i for i, number in enumerate(ids) if number == keys["tokenizer.ggml.bos_token_id"]]
            answers += 1
            print(f"{name}: {turn!r}: {len(ids)} tokens, {text!r}")
            if ids != expected or not text.endswith("[end of text]") or (name == "turns" and begins != [0]):
                failed += 1
                print(f"{ids} in llama.cpp, {expected} by the template")
    return failed, 0, f"chats of {answers} have other prompts than their template's or do not stop within {count} tokens"


# ---- Losses ----


def documents():
    return [path.read_text(encoding="utf-8") for path in sorted((gguf_models.ROOT / "docs").glob("*.md"))]


def paragraphs(tokenizer):
    """Return texts with at least a window of tokens."""
    texts = []
    for document in documents():
        for text in document.split("\n\n"):
            if BLOCK < len(tokenizer.encode(text, add_special_tokens=False).ids) < 6 * BLOCK:
                texts.append(text)
    return texts[:: max(1, len(texts) // TEXTS)][:TEXTS]


def eitp_eval(setup, file, text, block):
    path = setup.work / "text.txt"
    path.write_text(text, encoding="utf-8")
    words = ["eval", "--model", file, "--data", path, "--block-size", block, "--precision", "fp32", "--json", "--threads", setup.threads]
    return json.loads(setup.run(*words, "--document-separator", "none"))


def loss(setup):
    """Losses of texts equal those of transformers with the same weights."""
    from peft_roundtrip import logits_of

    model, tokenizer = gguf_models.llama_in_pytorch(setup.smollm2), gguf_models.smollm_tokenizer(setup.smollm2)
    worst, texts = 0.0, paragraphs(tokenizer)
    for text in texts:
        ids = [*tokenizer.encode(text, add_special_tokens=False).ids, model.config.eos_token_id]
        _, expected = logits_of(model, ids, BLOCK)
        worst = max(worst, abs(eitp_eval(setup, setup.smollm2, text, BLOCK)["loss"] / expected - 1))
    if len(texts) != TEXTS:
        raise SystemExit(f"{len(texts)} texts, expected {TEXTS}")
    return worst, 1e-5, f"relative difference of the losses of {len(texts)} texts"


# ---- Training ----


def exact_text(tokenizer, count):
    """Return a text of exactly `count` tokens, and their ids."""
    ids = tokenizer.encode(documents()[0], add_special_tokens=False).ids
    for first in range(100, 200):
        text = tokenizer.decode(ids[first : first + count])
        if tokenizer.encode(text, add_special_tokens=False).ids == ids[first : first + count] and not text.endswith("\n"):
            return text, ids[first : first + count]
    raise SystemExit("no text has this number of tokens")


def lora(setup):
    """Losses of steps of LoRA equal those of PyTorch and PEFT."""
    import peft

    import decoders

    decoders.RATE = RATE
    model, tokenizer = gguf_models.llama_in_pytorch(setup.smollm2), gguf_models.smollm_tokenizer(setup.smollm2)
    text, ids = exact_text(tokenizer, decoders.BLOCK * decoders.BATCH * decoders.ACCUMULATED)
    adapters = ["--lora-rank", 8, "--lora-targets", "q_proj,v_proj", "--threads", setup.threads, "--document-separator", "none"]
    with tempfile.TemporaryDirectory(dir=setup.work) as scratch:
        scratch = pathlib.Path(scratch)
        (scratch / "text.txt").write_text(text, encoding="utf-8")
        base = (setup.eitp, setup.smollm2, scratch / "text.txt")
        decoders.train_by_eitp(*base, scratch / "start", *adapters, "--steps", 1, "--lr", 1e-30)
        found = decoders.train_by_eitp(*base, scratch / "run", *adapters)
        start = peft.PeftModel.from_pretrained(model, scratch / "start" / "checkpoint-1", is_trainable=True)
        reference = decoders.train(start.double().train(), [*ids, model.config.eos_token_id], decoders.DECAY)
    losses, norms = decoders.largest(found, reference)
    if not reference[-1][0] < 0.95 * reference[0][0]:
        raise SystemExit("the adapters learn nothing, so nothing was compared")
    return losses, 1e-5, f"relative difference of the losses of {len(found)} steps, from {reference[0][0]:.4f} to {reference[-1][0]:.4f}; of norms: {norms:g}"


# ---- Perplexities ----


def perplexity(setup):
    """Perplexities of exports equal llama.cpp's, which rounds activations to 8 bits where matrices are quantized."""
    tokenizer, worst, texts = gguf_models.smollm_tokenizer(setup.smollm2), 0.0, []
    ids = tokenizer.encode("\n\n".join(documents()), add_special_tokens=False).ids
    text = tokenizer.decode(ids[: WINDOW * WINDOWS + WINDOW // 2])
    path = setup.work / "perplexity.txt"
    path.write_text(text, encoding="utf-8")
    for kind in ("f32", "q8_0", "q4_0"):
        file, context = setup.exported("smollm2", kind), WINDOW + 1 - WINDOW // 2
        words = ["-m", file, "-f", path, "-c", context, "-b", context, "--ppl-stride", WINDOW, "--chunks", WINDOWS, "-t", setup.threads]
        theirs = perplexity_in(setup.peer.program("llama-perplexity", *words).decode())
        own = eitp_eval(setup, file, text, WINDOW)["perplexity"]
        texts.append(f"{kind} {own:.4f} and {theirs:.4f}")
        worst = max(worst, abs(own / theirs - 1))
        if kind == "f32" and worst > 1e-4:
            raise SystemExit(f"{texts[0]} differ by more than 1e-4")
    return worst, 0.01, f"relative difference of perplexities: {', '.join(texts)}"
