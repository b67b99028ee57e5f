#!/usr/bin/env python3
"""Time training steps of GPT-2 or Qwen2 in PyTorch: the speed and memory peer of `eitp bench step`.

    python3 tools/peers/pytorch_step.py [--steps 10] [--batch 4] [--block 64] [--shape gpt2|qwen2-0.5b] [--layers N]
                                        [--dtype fp32|autocast|bf16] [--optimizer foreach|fused] [--threads 2]
                                        [--warmup 2] [--compile] [--lora-rank 0] [--device cpu|cuda]

Uses the shape with random weights and random tokens, without dropout. With --lora-rank, trains only PEFT adapters on all
linear layers. A step is forward, backward, clipping by the global norm and AdamW. Prints one line of JSON. --dtype autocast is
bf16 arithmetic with fp32 weights, like `bf16=True` in trainers; --dtype bf16 also keeps weights, gradients and moments in
bf16. tools/peers/step.py runs all of them.

It needs `pip install torch transformers numpy`, peft for --lora-rank, and a C++ compiler for --compile on the processor.
Without transformers, GPT-2 is the one of gpt2.py.
"""

import argparse
import contextlib
import json
import os
import statistics
import time


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--warmup", type=int, default=2)
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--block", type=int, default=64)
    parser.add_argument("--shape", choices=("gpt2", "qwen2-0.5b"), default="gpt2")
    parser.add_argument("--layers", type=int, help="number of layers (default: the shape's)")
    parser.add_argument("--lora-rank", type=int, default=0)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--dtype", choices=("fp32", "autocast", "bf16"), default="fp32")
    parser.add_argument("--optimizer", choices=("foreach", "fused"), default="fused")
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    arguments = parser.parse_args()
    for name in ("steps", "batch", "block", "layers", "threads"):
        if getattr(arguments, name) is not None and getattr(arguments, name) < 1:
            parser.error(f"--{name} must be at least 1")
    return arguments


def resident_bytes(field):
    """Return a field of /proc/self/status in bytes, or None if it is missing."""
    try:
        with open("/proc/self/status", encoding="ascii") as status:
            for line in status:
                if line.startswith(field + ":"):
                    return int(line.split()[1]) * 1024
    except OSError:
        pass
    return None


def find_transformers():
    """Return the package, or None."""
    try:
        import transformers
    except ImportError:
        return None
    transformers.logging.set_verbosity_error()
    return transformers


def make_model(arguments):
    import torch

    transformers = find_transformers()
    if transformers is None:
        if arguments.shape != "gpt2" or arguments.lora_rank:
            raise SystemExit("transformers is not installed: only --shape gpt2, without --lora-rank")
        import gpt2

        model = gpt2.GPT2(positions=max(1024, arguments.block), layers=arguments.layers or 12)
    elif arguments.shape == "gpt2":
        config = transformers.GPT2Config(
            n_layer=arguments.layers or 12,
            n_positions=max(1024, arguments.block),
            resid_pdrop=0.0,
            embd_pdrop=0.0,
            attn_pdrop=0.0,
        )
        model = transformers.GPT2LMHeadModel(config)
    else:
        config = transformers.Qwen2Config(
            vocab_size=151936, hidden_size=896, intermediate_size=4864, num_hidden_layers=arguments.layers or 24,
            num_attention_heads=14, num_key_value_heads=2, rope_theta=1e6, tie_word_embeddings=True,
        )
        model = transformers.Qwen2ForCausalLM(config)
    if arguments.dtype == "bf16":
        model = model.to(torch.bfloat16)
    if arguments.lora_rank:
        import peft

        adapters = peft.LoraConfig(r=arguments.lora_rank, lora_alpha=2 * arguments.lora_rank, target_modules="all-linear")
        model = peft.get_peft_model(model, adapters)
    return model


def main():
    arguments = parse_arguments()
    os.environ["OMP_NUM_THREADS"] = str(arguments.threads)
    import torch

    transformers = find_transformers()
    torch.set_num_threads(arguments.threads)
    torch.manual_seed(1)
    after_import = resident_bytes("VmRSS")
    if arguments.device == "cuda" and not torch.cuda.is_available():
        raise SystemExit("PyTorch finds no GPU")
    model = make_model(arguments).to(arguments.device).train()
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimizer = torch.optim.AdamW(
        trained,
        lr=1e-4,
        weight_decay=0.01,
        foreach=arguments.optimizer == "foreach",
        fused=arguments.optimizer == "fused",
    )
    run = torch.compile(model) if arguments.compile else model
    autocast = torch.autocast(arguments.device, torch.bfloat16) if arguments.dtype == "autocast" else contextlib.nullcontext()

    wait = torch.cuda.synchronize if arguments.device == "cuda" else lambda: None
    seconds, loss = [], None
    for step in range(arguments.warmup + arguments.steps):
        tokens = torch.randint(model.config.vocab_size, (arguments.batch, arguments.block + 1)).to(arguments.device)
        wait()
        start = time.perf_counter()
        optimizer.zero_grad(set_to_none=True)
        with autocast:
            logits = run(input_ids=tokens[:, :-1], use_cache=False).logits
            loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1).float(), tokens[:, 1:].flatten())
        loss.backward()
        torch.nn.utils.clip_grad_norm_(trained, 1.0)
        optimizer.step()
        wait()
        if step >= arguments.warmup:
            seconds.append(time.perf_counter() - start)

    median = statistics.median(seconds)
    result = {
        "peer": "pytorch",
        "torch": torch.__version__,
        "transformers": transformers.__version__ if transformers else "none: gpt2.py",
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        "shape": arguments.shape,
        "layers": model.config.num_hidden_layers,
        "lora_rank": arguments.lora_rank,
        "batch": arguments.batch,
        "block": arguments.block,
        "dtype": arguments.dtype,
        "optimizer": arguments.optimizer,
        "compile": arguments.compile,
        "gpu": torch.cuda.get_device_name() if arguments.device == "cuda" else None,
        "peak_gpu_bytes": torch.cuda.max_memory_allocated() if arguments.device == "cuda" else None,
        "threads": torch.get_num_threads(),
        "steps": arguments.steps,
        "step_seconds_median": round(median, 4),
        "step_seconds_best": round(min(seconds), 4),
        "tokens_per_second": round(arguments.batch * arguments.block / median, 1),
        "peak_rss_bytes": resident_bytes("VmHWM"),
        "rss_after_import_bytes": after_import,
        "last_loss": round(loss.item(), 4),
    }
    print(json.dumps(result))


if __name__ == "__main__":
    main()
