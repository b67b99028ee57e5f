#!/usr/bin/env python3
"""Compare the loss of GPT-2 on bytes with the one that PyTorch computes from the same weights.

    python3 tools/gpu_check/pytorch_loss.py MODEL.safetensors TEXT LOSS [--device cuda]

The windows are the consecutive pieces of 1024 bytes of the text, as in tools/gpu_check/runs.sh. In fp32 the relative
difference may be at most 1e-5, in bf16 2e-3.
"""

import argparse
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "peers"))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=pathlib.Path)
    parser.add_argument("text", type=pathlib.Path)
    parser.add_argument("loss", type=float)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cuda")
    parser.add_argument("--block", type=int, default=1024)
    arguments = parser.parse_args()
    import gpt2
    import torch

    torch.backends.cuda.matmul.allow_tf32 = False
    model = gpt2.load(arguments.model).to(arguments.device)
    tokens = torch.tensor(list(arguments.text.read_bytes()), device=arguments.device)
    windows = (len(tokens) - 1) // arguments.block
    inputs = tokens[: windows * arguments.block].view(windows, arguments.block)
    targets = tokens[1 : windows * arguments.block + 1]
    is_wrong = False
    for name, most in (("fp32", 1e-5), ("bf16", 2e-3)):
        with torch.no_grad(), torch.autocast(arguments.device, torch.bfloat16, enabled=name == "bf16"):
            logits = model(input_ids=inputs).logits
            loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1).float(), targets).item()
        difference = abs(loss - arguments.loss) / loss
        is_wrong |= not difference <= most
        print(f"{windows} windows, {name}: PyTorch {loss:.7f}, eitp {arguments.loss:.7f}, difference {difference:.1e} (at most {most:.0e})")
    return is_wrong


if __name__ == "__main__":
    sys.exit(main())
