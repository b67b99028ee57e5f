"""Chat templates in the styles of thirteen model families, for make_chat.py. Each has its special tokens; the first two
start and end a text. G( and )G enclose the assistant's content. The templates differ in where they write the header of an
answer and the generation prompt: in the loop over messages or after it, with the answer or with the question before it."""

CHATML = """{% for message in messages %}{{ '<|im_start|>' + message.role + '\\n' }}{% if message.role == 'assistant' %}G({{ message.content + '<|im_end|>' }})G{{ '\\n' }}{% else %}{{ message.content + '<|im_end|>\\n' }}{% endif %}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"""

LLAMA2 = """{% if messages[0].role == 'system' %}{% set rest = messages[1:] %}{% set system = '<<SYS>>\\n' + messages[0].content + '\\n<</SYS>>\\n\\n' %}{% else %}{% set rest = messages %}{% set system = '' %}{% endif %}
{% for message in rest %}{% if message.role == 'user' %}{{ bos_token + '[INST] ' + (system if loop.first else '') + message.content.strip() + ' [/INST]' }}{% else %}G({{ ' ' + message.content.strip() + ' ' + eos_token }})G{% endif %}{% endfor %}"""

LLAMA3 = """{% for message in messages %}{% set header = '<|start_header_id|>' + message.role + '<|end_header_id|>\\n\\n' %}{% if loop.first %}{% set header = bos_token + header %}{% endif %}{{ header }}{% if message.role == 'assistant' %}G({{ message.content | trim + '<|eot_id|>' }})G{% else %}{{ message.content | trim + '<|eot_id|>' }}{% endif %}{% endfor %}
{% if add_generation_prompt %}{{ '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}{% endif %}"""

ZEPHYR = """{% for message in messages %}
{% if message.role == 'user' %}
{{ '<|user|>\\n' + message.content + eos_token }}
{% elif message.role == 'system' %}
{{ '<|system|>\\n' + message.content + eos_token }}
{% else %}
{{ '<|assistant|>\\n' }}G({{ message.content + eos_token }})G{{ '\\n' }}{% endif %}
{% if loop.last and add_generation_prompt %}
{{ '<|assistant|>' }}
{% endif %}
{% endfor %}"""

# The prompt lacks the final line end, so the model generates it.
TINYLLAMA = """{%- for message in messages -%}
{{- '<|' + message.role + '|>' -}}{%- if message.role == 'assistant' -%}G({{ '\\n' + message.content + eos_token }})G{{ '\\n' }}{%- else -%}{{ '\\n' + message.content + eos_token + '\\n' }}{%- endif -%}
{%- if loop.last and add_generation_prompt and message.role != 'assistant' -%}{{ '<|assistant|>' }}{%- endif -%}
{%- endfor -%}"""

MISTRAL = """{{ bos_token }}{% for message in messages %}{% if message.role == 'user' %}{{ '[INST] ' + message.content + ' [/INST]' }}{% elif message.role == 'assistant' %}G({{ message.content + eos_token }})G{% else %}{{ message.content + '\\n\\n' }}{% endif %}{% endfor %}"""

GEMMA = """{{ bos_token }}{% for message in messages %}{% if message.role == 'assistant' %}{% set role = 'model' %}{% else %}{% set role = 'user' %}{% endif %}{{ '<start_of_turn>' + role + '\\n' }}{% if role == 'model' %}G({{ message.content | trim + '<end_of_turn>' }})G{{ '\\n' }}{% else %}{{ message.content | trim + '<end_of_turn>\\n' }}{% endif %}{% endfor %}{% if add_generation_prompt %}{{ '<start_of_turn>model\\n' }}{% endif %}"""

# The question writes the header of the answer. The end of the text replaces the prompt.
PHI3 = """{% for message in messages %}{% if message.role == 'assistant' %}{{ '<|assistant|>\\n' }}G({{ message.content + '<|end|>' }})G{{ '\\n' }}{% else %}{{ '<|' + message.role + '|>\\n' + message.content + '<|end|>\\n' }}{% endif %}{% endfor %}{% if add_generation_prompt %}{{ '<|assistant|>\\n' }}{% else %}{{ eos_token }}{% endif %}"""

QWEN = """{%- if tools %}{{- '<|im_start|>system\\n' }}{% for tool in tools %}{{- tool | tojson + '\\n' }}{% endfor %}{{- '<|im_end|>\\n' }}{% endif %}
{%- for message in messages %}
{%- if message.role == 'tool' %}
{%- if loop.first or messages[loop.index0 - 1].role != 'tool' %}{{- '<|im_start|>user' }}{% endif %}{{- '\\n<tool_response>\\n' + message.content + '\\n</tool_response>' }}{% if loop.last or messages[loop.index0 + 1].role != 'tool' %}{{- '<|im_end|>\\n' }}{% endif %}
{%- elif message.role == 'assistant' %}
{{- '<|im_start|>assistant\\n' }}G({{- message.content or '' }}{% for call in message.tool_calls or [] %}{{- '\\n<tool_call>\\n' + call.function | tojson + '\\n</tool_call>' }}{% endfor %}{{- '<|im_end|>' }})G{{- '\\n' }}
{%- else %}{{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' }}{% endif %}
{%- endfor %}{% if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{% endif %}"""

# After a tool's result, the answer has no header, and there is no prompt.
DEEPSEEK = """{%- set ns = namespace(is_tool=false) %}{{- bos_token }}
{%- for message in messages %}
{%- if message.role == 'user' %}{%- set ns.is_tool = false %}{{- '<\uff5cUser\uff5c>' + message.content }}
{%- elif message.role == 'system' %}{{- message.content }}
{%- elif message.role == 'tool' %}{%- if not ns.is_tool %}{{- '<\uff5ctool\u2581outputs\u2581begin\uff5c>' }}{%- endif %}{%- set ns.is_tool = true %}{{- '<\uff5ctool\u2581output\u2581begin\uff5c>' + message.content + '<\uff5ctool\u2581output\u2581end\uff5c>' }}
{%- elif message.tool_calls %}{{- '<\uff5cAssistant\uff5c>' }}G({%- for call in message.tool_calls %}{{- '<\uff5ctool\u2581call\u2581begin\uff5c>' + call.function.name + '\\n' + call.function.arguments | tojson + '<\uff5ctool\u2581call\u2581end\uff5c>' }}{%- endfor %}{{- eos_token }})G
{%- elif ns.is_tool %}{%- set ns.is_tool = false %}{{- '<\uff5ctool\u2581outputs\u2581end\uff5c>' }}G({{- message.content + eos_token }})G
{%- else %}{{- '<\uff5cAssistant\uff5c>' }}G({{- message.content + eos_token }})G{%- endif %}
{%- endfor %}{% if ns.is_tool %}{{- '<\uff5ctool\u2581outputs\u2581end\uff5c>' }}{% elif add_generation_prompt %}{{- '<\uff5cAssistant\uff5c>' }}{% endif %}"""

# Only the end of a text is a special token. The model generates the space after the prompt.
VICUNA = """{% for message in messages %}{% if message.role == 'user' %}{{ 'USER: ' + message.content + ' ' }}{% elif message.role == 'assistant' %}{{ 'ASSISTANT:' }}G({{ ' ' + message.content + eos_token }})G{% else %}{{ message.content + ' ' }}{% endif %}{% endfor %}{% if add_generation_prompt %}{{ 'ASSISTANT:' }}{% endif %}"""

# No generation prompt, although answers have a header.
ALPACA = """{% for message in messages %}{% if message.role == 'user' %}{{ '### Instruction:\\n' + message.content + '\\n\\n' }}{% elif message.role == 'assistant' %}{{ '### Response:\\n' }}G({{ message.content + eos_token }})G{{ '\\n\\n' }}{% else %}{{ message.content + '\\n\\n' }}{% endif %}{% endfor %}"""

# After the token that ends an answer, the template writes the start of the next turn.
COMMAND = """{{ bos_token }}{% for message in messages %}{% if message.role == 'assistant' %}{{ '<|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>' }}G({{ message.content.strip() + '<|END_OF_TURN_TOKEN|>' }})G{{ '<|NEXT|>' }}{% else %}{{ '<|START_OF_TURN_TOKEN|>' + ('<|USER_TOKEN|>' if message.role == 'user' else '<|SYSTEM_TOKEN|>') + message.content + '<|END_OF_TURN_TOKEN|>' }}{% endif %}{% endfor %}{% if add_generation_prompt %}{{ '<|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>' }}{% endif %}"""

FAMILIES = {
    "ChatML": (["<|endoftext|>", "<|im_end|>", "<|im_start|>"], CHATML),
    "Llama 2": (["<s>", "</s>"], LLAMA2),
    "Llama 3": (["<|begin_of_text|>", "<|eot_id|>", "<|start_header_id|>", "<|end_header_id|>"], LLAMA3),
    "Zephyr": (["<s>", "</s>"], ZEPHYR),
    "TinyLlama": (["<s>", "</s>", "<|user|>", "<|assistant|>", "<|system|>"], TINYLLAMA),
    "Mistral": (["<s>", "</s>", "[INST]", "[/INST]"], MISTRAL),
    "Gemma": (["<bos>", "<eos>", "<start_of_turn>", "<end_of_turn>"], GEMMA),
    "Phi-3": (["<s>", "<|endoftext|>", "<|user|>", "<|assistant|>", "<|system|>", "<|end|>"], PHI3),
    "Qwen": (["<|endoftext|>", "<|im_end|>", "<|im_start|>", "<tool_call>", "</tool_call>"], QWEN),
    "DeepSeek": (
        ["<\uff5cbegin\u2581of\u2581sentence\uff5c>", "<\uff5cend\u2581of\u2581sentence\uff5c>", "<\uff5cUser\uff5c>", "<\uff5cAssistant\uff5c>"]
        + ["<\uff5ctool\u2581%s\uff5c>" % text for text in ("outputs\u2581begin", "outputs\u2581end", "output\u2581begin", "output\u2581end", "call\u2581begin", "call\u2581end")],
        DEEPSEEK,
    ),
    "Vicuna": (["<s>", "</s>"], VICUNA),
    "Alpaca": (["<s>", "</s>"], ALPACA),
    "Command": (
        ["<BOS_TOKEN>", "<|END_OF_TURN_TOKEN|>", "<|START_OF_TURN_TOKEN|>", "<|CHATBOT_TOKEN|>", "<|USER_TOKEN|>", "<|SYSTEM_TOKEN|>", "<|NEXT|>"],
        COMMAND,
    ),
}


def special_tokens():
    """Return the special tokens of all families, each once."""
    return list(dict.fromkeys(token for tokens, _ in FAMILIES.values() for token in tokens))
