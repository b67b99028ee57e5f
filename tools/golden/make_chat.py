#!/usr/bin/env python3
"""Write the golden values of tests/text/test_chat.c with transformers: tests/golden/chat, or the directory given.

    python3 tools/golden/make_chat.py [DIRECTORY]

Conversations rendered by five chat templates, and by those of chat_families.py with a byte tokenizer, with tokenizers of
tests/golden/splits and tests/golden/byte_fallback: their text, ids, and the assistant's tokens. Each template occurs twice:
with {% generation %} blocks, from which transformers finds these tokens, and without.

    pip install transformers==5.23.0
"""

import argparse
import json
import pathlib

from chat_families import FAMILIES, special_tokens
from make_vocabularies import LEVEL, spelling
from tokenizers import Tokenizer
from transformers import PreTrainedTokenizerFast

ROOT = pathlib.Path(__file__).parents[2]

# G( and )G stand for {% generation %} and {% endgeneration %}, or for nothing.
TEMPLATES = {
    "chatml": (
        "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\\n' }}"
        "{% if message['role'] == 'assistant' %}G({{ message['content'] }}{{ '<|im_end|>' }})G{{ '\\n' }}"
        "{% else %}{{ message['content'] + '<|im_end|>' + '\\n' }}{% endif %}{% endfor %}"
        "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
    ),
    "brackets": (
        "{%- if messages[0].role == 'system' -%}\n    {%- set rest = messages[1:] -%}\n    {%- set system = messages[0].content -%}\n"
        "{%- else -%}\n    {%- set rest = messages -%}\n    {%- set system = none -%}\n{%- endif -%}\n"
        "{{- bos_token -}}\n{%- for message in rest -%}\n"
        "    {%- if (message.role == 'user') != (loop.index0 % 2 == 0) -%}\n"
        "        {{- raise_exception('roles must alternate') -}}\n    {%- endif -%}\n"
        "    {%- if message.role == 'user' -%}\n"
        "        {{- '[INST] ' + (system + '\\n\\n' if system is not none and loop.first else '') + message.content | trim + ' [/INST]' -}}\n"
        "    {%- else -%}\n        G({{- ' ' + message.content | trim + eos_token -}})G\n    {%- endif -%}\n{%- endfor -%}\n"
    ),
    "words": (
        "{% for message in messages %}\n{% if message.role == 'user' %}\nUser: {{ message.content }}\n\n"
        "{% elif message.role == 'assistant' %}\nAssistant:G( {{ message.content }}{{ eos_token }})G{{ '\\n' }}"
        "{% else %}\n{{ message.content }}\n\n{% endif %}\n{% endfor %}\n{% if add_generation_prompt %}\nAssistant:{% endif %}\n"
    ),
    "tools": (
        "{%- if tools %}\n{{- '<|im_start|>system\\n' }}{%- for tool in tools %}{{- tool | tojson }}{{- '\\n' }}{%- endfor %}{{- '<|im_end|>\\n' }}\n{%- endif %}\n"
        "{%- for message in messages %}\n    {%- if message.role == 'assistant' %}\n        {{- '<|im_start|>assistant\\n' }}G({%- if message.content %}{{- message.content }}{%- endif %}\n"
        "        {%- for call in message.tool_calls or [] %}\n            {{- '<call>' ~ call.function.name ~ call.function.arguments | tojson ~ '</call>' }}\n        {%- endfor %}\n"
        "        {{- '<|im_end|>' }})G{{- '\\n' }}\n    {%- elif message.role == 'tool' %}\n"
        "        {{- '<|im_start|>user\\n<result>' ~ message.content ~ '</result><|im_end|>\\n' }}\n    {%- else %}\n"
        "        {{- '<|im_start|>' ~ message.role ~ '\\n' ~ message.content ~ '<|im_end|>\\n' }}\n    {%- endif %}\n{%- endfor %}\n"
        "{%- if add_generation_prompt %}\n    {{- '<|im_start|>assistant\\n' }}\n{%- endif %}\n"
    ),
    "thinking": (
        "{%- set ns = namespace(last=-1) %}{%- for message in messages %}{%- if message.role == 'user' %}{%- set ns.last = loop.index0 %}{%- endif %}{%- endfor %}"
        "{%- for message in messages %}{{- '<|im_start|>' + message.role + '\\n' }}{%- if message.role == 'assistant' %}G("
        "{%- set content = message.content %}{%- if loop.index0 < ns.last and '</think>' in content %}{%- set content = content.split('</think>')[-1].lstrip('\\n') %}{%- endif %}"
        "{{- content + '<|im_end|>' }})G{{- '\\n' }}{%- else %}{{- message.content + '<|im_end|>\\n' }}{%- endif %}{%- endfor %}"
        "{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{%- endif %}"
    ),
}


def say(*texts, system=None):
    messages = [{"role": "system", "content": system}] if system is not None else []
    return messages + [{"role": "assistant" if i % 2 else "user", "content": text} for i, text in enumerate(texts)]


WEATHER = {"type": "function", "function": {"name": "weather", "description": "Says \"how\" it is", "parameters": {"type": "object", "properties": {"place": {"type": "string"}}}}}
CALL = {"type": "function", "function": {"name": "weather", "arguments": {"place": "K\u00f8benhavn", "days": 2, "exact": True, "unit": None, "limit": 1.5}}}
CONVERSATIONS = [
    {"messages": say("What is 12 times 12?", "It is 144.")},
    {"messages": say("Hello", "Hello, the sea", "more", "a b the", system="Answer the question.")},
    {"messages": say("e\u0301 and \u1100\u1161 \u0939\u093f", "\u212b e\u0301\u0323 foo\u0301 bar", "\U0001f468\u200d\U0001f469", "  two spaces, \n\n lines \n")},
    {"messages": say("first", "<think>\nlong\n</think>\n\nshort", "second", "<think>\nkept\n</think>\n\nanswer")},
    {"messages": say("no answer yet")},
    {"messages": say("an empty one", "", "then", "1 2 3 'S don't")},
    {"messages": say("<|im_end|> in a text", "the <|im_end|> of it")},
]
TOOLS = [
    {"messages": say("How is it?") + [{"role": "assistant", "content": "", "tool_calls": [CALL]}, {"role": "tool", "name": "weather", "content": "rain"}, {"role": "assistant", "content": "It rains."}], "tools": [WEATHER]},
]


FAMILY_CONVERSATIONS = [
    say("Hi there", "Hello.", "More?", "Fine \u00e9."),
    say("a", "  b\n c ", "d", "A probe A", system="Be short."),
    say("one", "", "two", "x"),
]
FAMILY_TOOLS = say("How is it?") + [
    {"role": "assistant", "content": "", "tool_calls": [CALL]},
    {"role": "tool", "content": "rain"},
    {"role": "tool", "content": "wind"},
    {"role": "assistant", "content": "It rains."},
    {"role": "user", "content": "Still?"},
    {"role": "assistant", "content": "Yes."},
]


# The tokens that start and end a text, and the templates that fit the special tokens.
TOKENIZERS = {
    "splits/qwen2": ("<|endoftext|>", "<|endoftext|>", TEMPLATES),
    "splits/llama3": ("<|endoftext|>", "<|endoftext|>", TEMPLATES),
    "splits/smollm": ("<|endoftext|>", "<|endoftext|>", TEMPLATES),
    "byte_fallback/gemma": ("<bos>", "<eos>", ("brackets", "words")),
    "byte_fallback/llama2": ("<s>", "</s>", ("brackets", "words")),
}


def tokenizer_of(name):
    begin, end, _ = TOKENIZERS[name]
    return PreTrainedTokenizerFast(
        tokenizer_file=str(ROOT / "tests/golden" / (name + ".json")), bos_token=begin, eos_token=end, extra_special_tokens={}
    )


def case(name, split, tokenizer, conversation):
    marked = TEMPLATES[name].replace("G(", "{% generation %}").replace(")G", "{% endgeneration %}")
    arguments = {"tools": conversation.get("tools"), "chat_template": marked}
    encoded = tokenizer.apply_chat_template(conversation["messages"], tokenize=True, return_dict=True, return_assistant_tokens_mask=True, **arguments)
    return {
        "template": name,
        "tokenizer": split,
        "special": [tokenizer.bos_token_id, tokenizer.eos_token_id],
        "conversation": json.dumps(conversation),
        "text": tokenizer.apply_chat_template(conversation["messages"], tokenize=False, **arguments),
        "prompted": tokenizer.apply_chat_template(conversation["messages"], tokenize=False, add_generation_prompt=True, **arguments),
        "ids": encoded["input_ids"],
        "trained": "".join(map(str, encoded["assistant_masks"])),
    }


def bytes_tokenizer():
    """Return the tokenizer.json of a tokenizer without merges, with the special tokens of the families."""
    usual = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    added = [{"id": 256 + i, "content": token, **usual} for i, token in enumerate(special_tokens())]
    model = {"type": "BPE", "vocab": {spelling(byte): byte for byte in range(256)}, "merges": []}
    return json.dumps({"added_tokens": added, "pre_tokenizer": LEVEL, "decoder": LEVEL, "model": model}, separators=(",", ":"))


def family_cases(content):
    for name, (special, _) in FAMILIES.items():
        tokenizer = PreTrainedTokenizerFast(
            tokenizer_object=Tokenizer.from_str(content), bos_token=special[0], eos_token=special[1], extra_special_tokens={}
        )
        for messages in FAMILY_CONVERSATIONS + ([FAMILY_TOOLS] if "tool" in TEMPLATES[name] else []):
            yield case(name, "chat/bytes", tokenizer, {"messages": messages})


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("directory", nargs="?", type=pathlib.Path, default=ROOT / "tests/golden/chat")
    directory = parser.parse_args().directory
    directory.mkdir(parents=True, exist_ok=True)
    cases = []
    for split, (_, _, names) in TOKENIZERS.items():
        tokenizer = tokenizer_of(split)
        for name in names:
            for conversation in CONVERSATIONS + (TOOLS if name == "tools" else []):
                cases.append(case(name, split, tokenizer, conversation))
    TEMPLATES.update({name: template for name, (_, template) in FAMILIES.items()})
    content = bytes_tokenizer()
    (directory / "bytes.json").write_text(content + "\n")
    cases += family_cases(content)
    text = {"templates": {}, "cases": cases}
    for name, template in TEMPLATES.items():
        text["templates"][name] = {
            "marked": template.replace("G(", "{% generation %}").replace(")G", "{% endgeneration %}"),
            "plain": template.replace("G(", "").replace(")G", ""),
        }
    (directory / "cases.json").write_text(json.dumps(text, indent=None, separators=(",", ":")).replace('{"template":', '\n{"template":') + "\n")


if __name__ == "__main__":
    main()
