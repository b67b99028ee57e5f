#!/usr/bin/env python3
"""Compare rendered chat templates of eitp and transformers.

    make build/split/tests/template/render_template
    python3 tools/peers/chat_templates.py DIRECTORY [--program build/split/tests/template/render_template] [--json]

DIRECTORY has chat templates, *.jinja, for example from models on the Hugging Face Hub. Each renders the conversations
below, with and without a generation prompt. If transformers fails, eitp must fail too. The parts of the output printed by
{% generation %} blocks are also compared. Does not need PyTorch.

    pip install transformers==5.23.0 jinja2==3.1.6
"""

import argparse
import collections
import datetime
import json
import pathlib
import re
import subprocess
import sys
import tempfile

import jinja2
import transformers
from transformers.utils import chat_template_utils

NOW = 1774000000
WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "The weather <now> & here, \"quoted\", caf\u00e9",
        "parameters": {
            "type": "object",
            "properties": {
                "city": {"type": "string", "description": "The city"},
                "unit": {"type": "string", "enum": ["C", "F"], "default": None},
                "days": {"type": "array", "items": {"type": "integer"}},
                "where": {"type": "object", "properties": {"x": {"type": ["number", "null"]}}, "required": ["x"]},
            },
            "required": ["city"],
        },
        "return": {"type": "string", "description": "A text"},
    },
}
ADD = {
    "type": "function",
    "function": {
        "name": "add",
        "description": "Adds",
        "parameters": {"type": "object", "properties": {"a": {"type": "number"}, "b": {"type": "number"}}},
    },
}


def user(content="Hello, how are you?"):
    return {"role": "user", "content": content}


def assistant(content="  Fine, thanks.\n", **others):
    return {"role": "assistant", "content": content, **others}


def call(name="get_weather", arguments=None, **others):
    function = {"name": name, "arguments": arguments if arguments is not None else {"city": "Paris", "days": [1, 2.5, None]}}
    return {"type": "function", "function": function, **others}


SYSTEM = {"role": "system", "content": "You are helpful: \u00e9\u6f22 \U0001f600 <b>&\"'.\n"}
PARTS = [{"type": "text", "text": "First part. "}, {"type": "text", "text": "Second part."}]
IMAGE = [{"type": "image"}, {"type": "text", "text": "What is this?"}]
RESULT = {"role": "tool", "name": "get_weather", "content": "22.5 degrees", "tool_call_id": "abcdefghi"}
CALLING = [user(), assistant("", tool_calls=[call(id="abcdefghi")]), RESULT]
CONVERSATIONS = {
    "user": ([user()], {}),
    "turns": ([user(), assistant(), user("More?"), assistant("Yes."), user("Thanks.")], {}),
    "answered": ([user(), assistant(), user("More?"), assistant("Yes.")], {}),
    "system": ([SYSTEM, user(), assistant(), user("\n\n  spaces around \t\n")], {}),
    "parts": ([user(PARTS), assistant(PARTS), user(PARTS)], {}),
    "system parts": ([{"role": "system", "content": PARTS}, user(PARTS), assistant("ok")], {}),
    "image": ([user(IMAGE), assistant("A cat."), user("Sure?")], {}),
    "think": ([user(), assistant("<think>\nhm, let me see\n</think>\n\nFine."), user("More?")], {}),
    "think last": ([user(), assistant("<think>\nhm, let me see\n</think>\n\nFine.")], {}),
    "reasoning": ([user(), assistant("Fine.", reasoning_content="hm, let me see"), user("More?"), assistant("Yes.", reasoning_content="well")], {}),
    "thinking off": ([user()], {"enable_thinking": False, "thinking": False}),
    "thinking on": ([SYSTEM, user()], {"enable_thinking": True, "thinking": True, "reasoning_effort": "high"}),
    "tools": ([SYSTEM, user()], {"tools": [WEATHER, ADD]}),
    "tools without system": ([user()], {"tools": [WEATHER]}),
    "call": (CALLING, {"tools": [WEATHER, ADD]}),
    "call answered": ([SYSTEM, *CALLING, assistant("It is 22.5 degrees."), user("And tomorrow?")], {"tools": [WEATHER]}),
    "call without tools": (CALLING + [assistant("22.5")], {}),
    "call in text": ([user(), assistant("I look.", tool_calls=[call(arguments='{"city": "Paris"}', id="abcdefghi")]), RESULT], {"tools": [WEATHER]}),
    "two calls": (
        [user(), assistant(None, tool_calls=[call(id="abcdefghi"), call("add", {"a": 1, "b": -0.5}, id="bcdefghij")]), RESULT, {**RESULT, "name": "add", "tool_call_id": "bcdefghij", "content": "0.5"}, assistant("done"), user("ok")],
        {"tools": [WEATHER, ADD]},
    ),
    "call without content": ([user(), {"role": "assistant", "tool_calls": [call(id="abcdefghi")]}, RESULT], {"tools": [WEATHER]}),
    "reasoning and call": ([SYSTEM, user(), assistant("", reasoning_content="hm", tool_calls=[call(id="abcdefghi")]), RESULT, assistant("22.5", reasoning_content="so")], {"tools": [WEATHER]}),
    "documents": ([user()], {"documents": [{"title": "T", "text": "Some text"}, {"title": "U", "text": "More"}]}),
    "date": ([SYSTEM, user()], {"date_string": "26 Jul 2024", "current_date": "2026-03-20", "today_date": "x"}),
    "custom tools": ([SYSTEM, user()], {"tools": [ADD], "tools_in_user_message": False, "add_vision_id": True, "model_identity": "I am"}),
    "two users": ([user(), user("again")], {}),
    "assistant first": ([assistant(), user()], {}),
    "unknown role": ([user(), {"role": "critic", "content": "bad"}], {}),
    "developer": ([{"role": "developer", "content": "Be brief."}, user()], {}),
    "only system": ([SYSTEM], {}),
    "empty content": ([user(""), assistant(""), user("")], {}),
    "none": ([], {}),
}
TOKENS = {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>", "unk_token": "<unk>"}


class Date(datetime.datetime):
    @classmethod
    def now(cls, tz=None):
        return cls.fromtimestamp(NOW, datetime.timezone.utc).replace(tzinfo=None)


def of_transformers(template, messages, variables, prompt):
    """Return text and the byte spans of generation blocks, or None and the error (only the message of raise_exception)."""
    variables = {**TOKENS, **variables}
    arguments = {name: variables.pop(name, None) for name in ("tools", "documents")}
    try:
        texts, spans = chat_template_utils.render_jinja_template(
            [messages], chat_template=template, add_generation_prompt=prompt, **arguments, **variables
        )
        if "generation" in template:
            texts, spans = chat_template_utils.render_jinja_template(
                [messages], chat_template=template, add_generation_prompt=prompt, return_assistant_tokens_mask=True, **arguments, **variables
            )
    except (jinja2.exceptions.TemplateError, TypeError, ValueError, KeyError, AttributeError, OverflowError, IndexError) as error:
        return None, f"{type(error).__name__}: {error}" if type(error) is not jinja2.exceptions.TemplateError else str(error)
    text = texts[0]
    sizes = [[len(text[:begin].encode()), len(text[:end].encode())] for begin, end in (spans[0] if spans else [])]
    return text, sizes


def aliased(messages):
    return chat_template_utils._alias_reasoning_fields(messages)


def of_eitp(program, cases):
    """Return the lines printed by the program, one per case."""
    with tempfile.TemporaryDirectory() as root:
        paths = []
        for i, (template, messages, variables, prompt) in enumerate(cases):
            context = {"tools": None, "documents": None, **TOKENS, **variables, "messages": aliased(messages), "add_generation_prompt": prompt}
            path = pathlib.Path(root) / f"{i}.json"
            path.write_text(json.dumps({"template": template, "now": NOW, "context": context}))
            paths.append(str(path))
        lines = subprocess.run([program, *paths], capture_output=True, text=True, check=True).stdout.splitlines()
    return [json.loads(line) for line in lines]


def compare(program, path):
    """Return counts of results, and the first of each kind of failure."""
    template = path.read_bytes().decode()
    cases = [(template, messages, variables, prompt) for messages, variables in CONVERSATIONS.values() for prompt in (False, True)]
    names = [f"{name}{' +prompt' if prompt else ''}" for name in CONVERSATIONS for prompt in (False, True)]
    counts, examples, messages_seen = collections.Counter(), {}, collections.Counter()
    for name, case, ours in zip(names, cases, of_eitp(program, cases)):
        text, spans = of_transformers(*case)
        if "error" in ours:
            kind = "refused" if ours["status"] == "unsupported" else "same error" if text is None else "fails"
            detail = ours["error"]
            if text is None and not re.match(r"\w+: ", spans) and " ".join(spans[:300].split()) not in " ".join(detail.split()):
                kind, detail = "other error", f"expected {spans!r}, got {detail!r}"
        elif text is None:
            kind, detail = "accepts", spans
        elif text != ours["text"]:
            at = next((i for i, (a, b) in enumerate(zip(text, ours["text"])) if a != b), min(len(text), len(ours["text"])))
            kind, detail = "different", f"expected {text[max(0, at - 30):at + 50]!r}, got {ours['text'][max(0, at - 30):at + 50]!r}"
        elif spans != [span[2:] for span in ours["spans"] if span[0] == "generation"]:
            kind, detail = "different spans", f"expected {spans}, got {ours['spans']}"
        else:
            kind, detail = "same", ""
            messages_seen["with spans" if any(span[0] == "message" for span in ours["spans"]) else "without"] += 1
        counts[kind] += 1
        if kind not in ("same", "same error"):
            examples.setdefault(kind, f"{name}: {detail}")
    return counts, examples, messages_seen


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", type=pathlib.Path)
    parser.add_argument("--program", default="build/split/tests/template/render_template")
    parser.add_argument("--json", action="store_true", help="print a line of JSON for each template")
    arguments = parser.parse_args()
    chat_template_utils.datetime = Date
    failed, total = 0, collections.Counter()
    for path in sorted(arguments.directory.glob("*.jinja")):
        counts, examples, seen = compare(str(pathlib.Path(arguments.program).resolve()), path)
        failed += bool(set(counts) - {"same", "same error"})
        total.update(counts)
        if arguments.json:
            print(json.dumps({"template": path.name, **counts, "message spans": seen["with spans"], "examples": examples}))
        else:
            print(f"{path.name:50} {', '.join(f'{kind} {count}' for kind, count in sorted(counts.items()))}")
            for kind, example in examples.items():
                print(f"    {kind}: {example}")
    print(json.dumps({"transformers": transformers.__version__, "jinja2": jinja2.__version__, "failed": failed, **total}))
    return failed != 0


if __name__ == "__main__":
    sys.exit(main())
