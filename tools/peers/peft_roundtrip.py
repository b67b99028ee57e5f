#!/usr/bin/env python3
"""Exchange adapters with Hugging Face's PEFT, and compare what both compute from them.

    python3 tools/peers/peft_roundtrip.py [--eitp build/eitp] [--targets c_attn,c_proj,c_fc] [--rslora]

In a scratch directory: a small random GPT-2 by transformers; adapters that eitp trains for it, opened by PEFT; adapters
that PEFT saves, opened by eitp; and eitp's merged models, opened by transformers. Each loss, and of the merged model
each logit, must agree to 1e-5. The same for encoders with all-linear and dense, which have adapters outside the blocks
too: eitp's merged models against PEFT's adapted ones. Prints one line of JSON. Nothing is downloaded.
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
    """Logits and mean loss over whole windows of a text, as `eitp eval` cuts it."""
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


def save_by_peft(base, directory, targets, rslora):
    import peft
    import torch

    config = peft.LoraConfig(
        r=3, lora_alpha=7, target_modules=targets, use_rslora=rslora, task_type="CAUSAL_LM", fan_in_fan_out=True
    )
    model = peft.get_peft_model(open_base(base), config)
    for name, parameter in model.named_parameters():
        if "lora_B" in name:
            torch.nn.init.normal_(parameter, 0, 0.1)
    model.save_pretrained(directory)


def compare(arguments, base, adapter, text, ids, block, merged):
    """The largest differences between PEFT's and eitp's use of adapters, and what the adapters change."""
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
    """What the head of an encoder, or its pooler, gives for some tokens."""
    import torch

    ids = torch.arange(3, 35).reshape(2, 16)
    with torch.no_grad():
        output = model.eval()(input_ids=ids)
    return output.logits if hasattr(output, "logits") else output.pooler_output


def compare_encoder(eitp, class_name, targets, scratch):
    """The difference between PEFT's adapters on an encoder and the model that eitp merges from them."""
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


def compare_encoders(eitp):
    """The largest difference of all encoders. PEFT cannot train all-linear of a classifier of tokens."""
    worst = 0.0
    for class_name in ENCODERS:
        choices = [["dense"], "all-linear"]
        if class_name.startswith("Distil"):
            choices = ["all-linear", ["vocab_transform", "q_lin"]]
        elif ENCODERS[class_name] == "TOKEN_CLS":
            choices = [["dense"]]
        for targets in choices:
            with tempfile.TemporaryDirectory() as scratch:
                worst = max(worst, compare_encoder(eitp, class_name, targets, pathlib.Path(scratch)))
    return worst


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
        # eitp ends a text with the end-of-text token.
        ids = [*text.read_bytes(), 256]
        make_base(base)
        train = ["train", "--model", base, "--data", text, "--val-fraction", 0, "--precision", "fp32", "--lr", 0.02]
        train += ["--lora-rank", 4, "--lora-alpha", 6, "--lora-targets", arguments.targets, "--steps", 20]
        train += ["--block-size", block, "--output-dir", scratch / "run", *(["--lora-rslora"] * arguments.rslora)]
        run_eitp(arguments.eitp, *train)
        save_by_peft(base, scratch / "peft", arguments.targets.split(","), arguments.rslora)
        result = {"peft": peft.__version__, "transformers": transformers.__version__}
        for name, adapter in ("from_eitp", scratch / "run" / "checkpoint-20"), ("from_peft", scratch / "peft"):
            result[name] = compare(arguments, base, adapter, text, ids, block, scratch / f"merged_{name}")
        result["encoders"] = compare_encoders(arguments.eitp)
    print(json.dumps(result))
    return 0


if __name__ == "__main__":
    sys.exit(main())
