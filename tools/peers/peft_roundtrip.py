#!/usr/bin/env python3
"""Exchange adapters with Hugging Face's PEFT and compare the results of both.

    python3 tools/peers/peft_roundtrip.py [--eitp build/eitp] [--targets c_attn,c_proj,c_fc] [--rslora]

In a scratch directory, with a small random GPT-2 from transformers: adapters trained by eitp are opened by PEFT, adapters
saved by PEFT are opened by eitp, and models merged by eitp are opened by transformers. Losses, and logits of the merged
models, must agree to 1e-5. The same is tested with targets that differ between blocks (by full names, expressions,
layers_to_transform and exclude_modules), with modules that are trained whole, and for encoders with all-linear and dense,
which also have adapters outside the blocks: eitp's merged models are compared with PEFT's adapted ones, and adapters trained
by eitp for an encoder are merged. Prints one line of JSON. Downloads nothing.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile

TOLERANCE = 1e-5


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--eitp", type=pathlib.Path, default=pathlib.Path("build/eitp"))
    parser.add_argument("--targets", default="c_attn,c_proj,c_fc")
    parser.add_argument("--rslora", action="store_true")
    return parser.parse_args()


def run_eitp(eitp, *arguments):
    command = [str(eitp.resolve()), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)}: {done.stderr}")
    return done.stdout


def eitp_loss(eitp, model, adapter, text, block):
    arguments = ["eval", "--model", model, "--data", text, "--block-size", block, "--precision", "fp32", "--json"]
    return json.loads(run_eitp(eitp, *arguments, *(["--adapter", adapter] if adapter else [])))["loss"]


def logits_of(model, ids, block):
    """Return logits and mean loss over whole windows of a text, split as by `eitp eval`."""
    import torch

    rows, losses = [], []
    with torch.no_grad():
        for first in range(0, len(ids) - 1, block):
            window = torch.tensor([ids[first : first + block + 1]])
            if window.shape[1] < block + 1:
                break
            logits = model(input_ids=window[:, :-1]).logits[0].float()
            rows.append(logits)
            losses.append(torch.nn.functional.cross_entropy(logits, window[0, 1:], reduction="sum").double())
    return torch.cat(rows), (sum(losses) / sum(row.shape[0] for row in rows)).item()


def make_base(directory):
    import torch
    import transformers

    torch.manual_seed(1)
    config = transformers.GPT2Config(
        vocab_size=257, n_positions=64, n_embd=32, n_head=4, n_layer=2, bos_token_id=256, eos_token_id=256
    )
    model = transformers.GPT2LMHeadModel(config)
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, 0, 0.2)
    model.save_pretrained(directory)


def open_base(directory):
    import transformers

    return transformers.AutoModelForCausalLM.from_pretrained(directory).eval()


# PEFT's ways to choose layers that differ between blocks. The first is also eitp's.
BLOCKS = [
    {"target_modules": ["transformer.h.0.attn.c_attn", "h.1.attn.c_proj", "1.mlp.c_proj", "transformer.h.1.mlp.c_fc"]},
    {"target_modules": ["c_attn", "mlp.c_proj"], "layers_to_transform": [1]},
    {"target_modules": ["c_attn", "transformer.h.1.mlp.c_fc"], "layers_to_transform": 0, "layers_pattern": "h"},
    {"target_modules": ["c_attn", "c_proj"], "exclude_modules": ["h.0.attn.c_attn", "1.mlp.c_proj"]},
    {"target_modules": r".*\.h\.(0\.attn\.c_attn|1\.mlp\.c_(fc|proj))"},
    {"target_modules": "all-linear", "exclude_modules": r".*\.1\.attn\..*"},
]


def save_by_peft(base, directory, rslora, **chosen):
    import peft
    import torch

    config = peft.LoraConfig(
        r=3, lora_alpha=7, use_rslora=rslora, task_type="CAUSAL_LM", fan_in_fan_out=True, **chosen
    )
    model = peft.get_peft_model(open_base(base), config)
    for name, parameter in model.named_parameters():
        if "lora_B" in name:
            torch.nn.init.normal_(parameter, 0, 0.1)
    model.save_pretrained(directory)


def compare(arguments, base, adapter, text, ids, block, merged):
    """Return the largest differences between PEFT's and eitp's use of adapters, and the change due to the adapters."""
    import peft

    plain, _ = logits_of(open_base(base), ids, block)
    adapted, loss = logits_of(peft.PeftModel.from_pretrained(open_base(base), adapter).eval(), ids, block)
    run_eitp(arguments.eitp, "merge", "--model", base, "--adapter", adapter, "--output-dir", merged)
    by_merge, _ = logits_of(open_base(merged), ids, block)
    result = {
        "loss": abs(loss - eitp_loss(arguments.eitp, base, adapter, text, block)),
        "merged_logits": ((by_merge - adapted).abs().max() / adapted.abs().max()).item(),
    }
    if not all(value < TOLERANCE for value in result.values()):
        raise SystemExit(f"{adapter}: PEFT and eitp differ: {json.dumps(result)}")
    result["change_of_logits"] = (adapted - plain).abs().max().item()
    if result["change_of_logits"] < 0.01:
        raise SystemExit(f"{adapter}: the adapters change nothing, so nothing was compared")
    return result


def adapted_layers(model):
    """Return the layers that have adapters in a PEFT model."""
    return {name.split(".lora_A.")[0] for name, _ in model.named_parameters() if ".lora_A." in name}


def check_layers(model, adapter):
    """Check that PEFT maps the names written by eitp to the layers whose tensors it wrote."""
    import safetensors

    with safetensors.safe_open(adapter / "adapter_model.safetensors", "pt") as file:
        written = {name.split(".lora_A.")[0] for name in file.keys() if ".lora_A." in name}
    if adapted_layers(model) != written:
        raise SystemExit(f"{adapter}: eitp wrote {sorted(written)}, PEFT adapts {sorted(adapted_layers(model))}")


def compare_blocks(arguments, base, text, ids, block, train, scratch):
    """Check every PEFT way to choose layers of blocks, and one of eitp."""
    import peft

    run_eitp(arguments.eitp, *train, "--lora-targets", ",".join(BLOCKS[0]["target_modules"]), "--output-dir", scratch)
    adapters = {"from_eitp": scratch / "checkpoint-20"}
    check_layers(peft.PeftModel.from_pretrained(open_base(base), adapters["from_eitp"]), adapters["from_eitp"])
    for i, chosen in enumerate(BLOCKS):
        adapters[f"from_peft_{i}"] = scratch / f"peft_{i}"
        save_by_peft(base, scratch / f"peft_{i}", arguments.rslora, **chosen)
    results = [
        compare(arguments, base, adapter, text, ids, block, scratch / f"merged_{name}")
        for name, adapter in adapters.items()
    ]
    return {"ways": len(results), **{key: max(result[key] for result in results) for key in ("loss", "merged_logits")}}


# Modules trained whole in addition to adapters: whether the head is tied, the modules, and their names for GPT-2.
SAVED = [(False, ["embed_tokens", "lm_head"], ["wte", "lm_head"]), (False, ["lm_head"], ["lm_head"])]
SAVED += [(False, ["embed_tokens"], ["wte"]), (True, ["embed_tokens"], None)]  # PEFT cannot keep wte tied


def make_decoder(model_type, is_tied, directory):
    import torch
    import transformers

    torch.manual_seed(1)
    sizes = {"vocab_size": 257, "tie_word_embeddings": is_tied, "bos_token_id": 256, "eos_token_id": 256}
    if model_type == "gpt2":
        model = transformers.GPT2LMHeadModel(
            transformers.GPT2Config(n_positions=64, n_embd=32, n_head=4, n_layer=2, **sizes)
        )
    else:
        config = transformers.Qwen2Config(
            hidden_size=32, intermediate_size=40, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
            max_position_embeddings=64, **sizes,
        )
        model = transformers.Qwen2ForCausalLM(config)
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, 0, 0.2)
    model.save_pretrained(directory)


def save_modules_by_peft(base, directory, modules, is_tied):
    """Return adapters and modules with values that differ from the base."""
    import peft
    import torch

    config = peft.LoraConfig(
        r=3, lora_alpha=7, task_type="CAUSAL_LM", target_modules="all-linear", modules_to_save=modules,
        ensure_weight_tying=is_tied,
    )
    model = peft.get_peft_model(open_base(base), config)
    for parameter in model.parameters():
        if parameter.requires_grad:
            torch.nn.init.normal_(parameter, 0, 0.2)
    model.save_pretrained(directory)


def compare_saved_modules(arguments, text, ids, block, scratch):
    """Return the largest differences with modules trained whole: adapters of PEFT and of eitp, GPT-2 and Qwen2."""
    results = []
    for i, (model_type, (is_tied, *names)) in enumerate((t, s) for t in ("qwen2", "gpt2") for s in SAVED):
        base, modules = scratch / f"base_{i}", names[model_type == "gpt2"]
        if not modules:
            continue
        make_decoder(model_type, is_tied, base)
        save_modules_by_peft(base, scratch / f"peft_{i}", modules, is_tied)
        train = ["train", "--model", base, "--data", text, "--block-size", block, "--precision", "fp32", "--lr", 0.02]
        train += ["--steps", 20, "--lora-rank", 3, "--lora-modules-to-save", ",".join(modules), "--eval-steps", 0]
        run_eitp(arguments.eitp, *train, "--output-dir", scratch / f"run_{i}")
        for adapter in (scratch / f"peft_{i}", scratch / f"run_{i}" / "checkpoint-20"):
            merged = scratch / f"merged_{len(results)}"
            results.append(compare(arguments, base, adapter, text, ids, block, merged))
    return {"ways": len(results), **{key: max(result[key] for result in results) for key in ("loss", "merged_logits")}}


ENCODERS = {
    "BertForMaskedLM": None,
    "RobertaForMaskedLM": None,
    "DistilBertForMaskedLM": None,
    "BertModel": "FEATURE_EXTRACTION",
    "RobertaModel": "FEATURE_EXTRACTION",
    "BertForSequenceClassification": "SEQ_CLS",
    "RobertaForSequenceClassification": "SEQ_CLS",
    "BertForTokenClassification": "TOKEN_CLS",
}


def make_encoder(class_name, directory):
    import torch
    import transformers

    torch.manual_seed(1)
    model_class = getattr(transformers, class_name)
    sizes = {"vocab_size": 40, "max_position_embeddings": 34, "num_labels": 3}
    if class_name.startswith("Distil"):
        sizes.update(dim=16, n_heads=2, n_layers=2, hidden_dim=24)
    else:
        sizes.update(hidden_size=16, num_attention_heads=2, num_hidden_layers=2, intermediate_size=24)
    model = model_class(model_class.config_class(**sizes))
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, 0, 0.2)
    model.save_pretrained(directory)


def outputs_of(model):
    """Return the output of an encoder's head or pooler for some tokens."""
    import torch

    ids = torch.arange(3, 35).reshape(2, 16)
    with torch.no_grad():
        output = model.eval()(input_ids=ids)
    return output.logits if hasattr(output, "logits") else output.pooler_output


def compare_encoder(eitp, class_name, targets, scratch):
    """Return the difference between PEFT's adapters on an encoder and the model merged from them by eitp."""
    import peft
    import torch
    import transformers

    base, adapter, merged = scratch / "base", scratch / "adapter", scratch / "merged"
    make_encoder(class_name, base)
    model_class = getattr(transformers, class_name)
    config = peft.LoraConfig(r=3, lora_alpha=7, target_modules=targets, task_type=ENCODERS[class_name])
    model = peft.get_peft_model(model_class.from_pretrained(base), config)
    for name, parameter in model.named_parameters():
        if parameter.requires_grad and "lora_A" not in name:
            torch.nn.init.normal_(parameter, 0, 0.2)
    model.save_pretrained(adapter)
    run_eitp(eitp, "merge", "--model", base, "--adapter", adapter, "--output-dir", merged)
    adapted, by_merge = outputs_of(model), outputs_of(model_class.from_pretrained(merged))
    difference = ((adapted - by_merge).abs().max() / adapted.abs().max()).item()
    if not difference < TOLERANCE:
        raise SystemExit(f"{class_name}, {targets}: PEFT and eitp differ by {difference}")
    return difference


def compare_trained_encoder(eitp, scratch):
    """Return the difference between adapters trained by eitp for layers of a classifier's blocks and its merged model."""
    import peft
    import transformers

    base, merged = scratch / "base", scratch / "merged"
    make_encoder("BertForSequenceClassification", base)
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *(f"w{i}" for i in range(35))]
    (scratch / "vocab.txt").write_text("\n".join(words) + "\n")
    transformers.BertTokenizerFast(str(scratch / "vocab.txt")).save_pretrained(base)
    rows = "".join(f"w{i} w{i % 7} w{i % 5},{i % 3}\n" for i in range(30))
    (scratch / "rows.csv").write_text("text,label\n" + rows)
    targets = "encoder.layer.0.attention.self.query,bert.encoder.layer.1.output.dense,layer.0.output.dense,pooler.dense"
    train = ["train", "--task", "classify", "--model", base, "--data", scratch / "rows.csv", "--block-size", 16]
    train += ["--precision", "fp32", "--lr", 0.02, "--steps", 20, "--lora-rank", 3, "--lora-targets", targets]
    run_eitp(eitp, *train, "--val-fraction", 0, "--output-dir", scratch / "run")
    adapter = scratch / "run" / "checkpoint-20"
    run_eitp(eitp, "merge", "--model", base, "--adapter", adapter, "--output-dir", merged)
    model_class = transformers.BertForSequenceClassification
    model = peft.PeftModel.from_pretrained(model_class.from_pretrained(base), adapter)
    check_layers(model, adapter)
    adapted, by_merge = outputs_of(model), outputs_of(model_class.from_pretrained(merged))
    difference = ((adapted - by_merge).abs().max() / adapted.abs().max()).item()
    if not difference < TOLERANCE:
        raise SystemExit(f"encoder adapted by eitp: PEFT and eitp differ by {difference}")
    return difference


def compare_encoders(eitp):
    """Return the largest difference of all encoders. PEFT cannot train all-linear for a token classifier."""
    worst = 0.0
    for class_name in ENCODERS:
        choices = [["dense"], "all-linear", r".*layer\.(0\..*\.query|1\..*\.output\.dense)"]
        if class_name.startswith("Distil"):
            choices = ["all-linear", ["vocab_transform", "q_lin"], ["transformer.layer.1.ffn.lin2", "vocab_transform"]]
        elif ENCODERS[class_name] == "TOKEN_CLS":
            choices = [["dense"], ["bert.encoder.layer.0.output.dense", "layer.1.attention.self.value"]]
        for targets in choices:
            with tempfile.TemporaryDirectory() as scratch:
                worst = max(worst, compare_encoder(eitp, class_name, targets, pathlib.Path(scratch)))
    with tempfile.TemporaryDirectory() as scratch:
        return max(worst, compare_trained_encoder(eitp, pathlib.Path(scratch)))


def main():
    arguments = parse_arguments()
    os.environ["HF_HUB_OFFLINE"] = "1"
    import peft
    import transformers

    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    block = 32
    with tempfile.TemporaryDirectory() as scratch:
        scratch = pathlib.Path(scratch)
        text, base = scratch / "text.txt", scratch / "base"
        text.write_text("".join(f"Line {i} of a text that is no longer than it must be.\n" for i in range(60)))
        # eitp appends the end-of-text token.
        ids = [*text.read_bytes(), 256]
        make_base(base)
        train = ["train", "--model", base, "--data", text, "--val-fraction", 0, "--precision", "fp32", "--lr", 0.02]
        train += ["--lora-rank", 4, "--lora-alpha", 6, "--steps", 20, "--block-size", block]
        train += ["--lora-rslora"] * arguments.rslora
        run_eitp(arguments.eitp, *train, "--lora-targets", arguments.targets, "--output-dir", scratch / "run")
        save_by_peft(base, scratch / "peft", arguments.rslora, target_modules=arguments.targets.split(","))
        result = {"peft": peft.__version__, "transformers": transformers.__version__}
        for name, adapter in ("from_eitp", scratch / "run" / "checkpoint-20"), ("from_peft", scratch / "peft"):
            result[name] = compare(arguments, base, adapter, text, ids, block, scratch / f"merged_{name}")
        result["blocks"] = compare_blocks(arguments, base, text, ids, block, train, scratch / "blocks")
        result["saved_modules"] = compare_saved_modules(arguments, text, ids, block, scratch)
        result["encoders"] = compare_encoders(arguments.eitp)
    print(json.dumps(result))
    return 0


if __name__ == "__main__":
    sys.exit(main())
