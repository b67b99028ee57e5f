"""llama.cpp as a peer: its sources and programs, its converter, and files read by its package gguf.

The directory comes from the variable LLAMA_CPP: sources with the programs in build/bin. Without it, install() takes the
sources from PyPI's llama-cpp-python and builds them with cmake, which may take an hour.
"""

import contextlib
import importlib
import logging
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile

PACKAGE = "llama-cpp-python==0.3.36"
PROGRAMS = ("llama-quantize", "llama-tokenize", "llama-completion", "llama-perplexity")
OPTIONS = ("CMAKE_BUILD_TYPE=Release", "LLAMA_CURL=OFF", "LLAMA_OPENSSL=OFF", "LLAMA_BUILD_TESTS=OFF", "LLAMA_BUILD_SERVER=OFF")
OPTIONS += ("LLAMA_BUILD_EXAMPLES=OFF", "LLAMA_BUILD_UI=OFF")


def outputs_of(*command, **options):
    """Return the standard output and errors of a command, and end with its errors if it fails."""
    words = [str(word) for word in command]
    done = subprocess.run(words, capture_output=True, stdin=options.pop("stdin", subprocess.DEVNULL), **options)
    if done.returncode:
        raise SystemExit(f"{' '.join(words)}: {done.stderr.decode(errors='replace')[-2000:]}")
    return done.stdout, done.stderr


def run(*command, **options):
    """Return the standard output of a command."""
    return outputs_of(*command, **options)[0]


def download(package, work):
    """Download the source package of llama.cpp, or the wheel of another package, into a directory. Return its path."""
    name = package.split("==")[0]
    binary = ["--no-binary", name] if package == PACKAGE else []
    run(sys.executable, "-m", "pip", "download", "-q", "--no-deps", *binary, "--dest", work, package)
    return next(path for path in work.glob(name.replace("-", "_") + "-*") if path.suffix in (".gz", ".whl"))


def unpack(archive, work):
    """Unpack llama.cpp from the source package of llama-cpp-python. Return its directory."""
    with tarfile.open(archive) as files:
        kept = [file for file in files.getmembers() if "/vendor/llama.cpp/" in file.name]
        files.extractall(work / "unpacking", kept, filter="data")
    next((work / "unpacking").glob("*/vendor/llama.cpp")).rename(work / "llama.cpp")
    shutil.rmtree(work / "unpacking")
    return work / "llama.cpp"


def install(work):
    """Return a directory with llama.cpp's sources and programs."""
    if os.environ.get("LLAMA_CPP"):
        return pathlib.Path(os.environ["LLAMA_CPP"])
    work.mkdir(parents=True, exist_ok=True)
    sources = work / "llama.cpp"
    if not sources.exists():
        unpack(download(PACKAGE, work), work)
    if not all((sources / "build/bin" / program).exists() for program in PROGRAMS):
        run("cmake", "-S", sources, "-B", sources / "build", *("-D" + option for option in OPTIONS))
        jobs = str(os.cpu_count() or 1)
        run("cmake", "--build", sources / "build", "--target", *PROGRAMS, "--parallel", jobs)
    return sources


class Peer:
    """llama.cpp's programs and converter."""

    def __init__(self, sources, threads):
        self.sources, self.threads = sources, str(threads)
        sys.path[:0] = [str(sources), str(sources / "gguf-py")]
        importlib.invalidate_caches()
        logging.disable(logging.WARNING)

    def program(self, name, *arguments, **options):
        return run(self.sources / "build/bin" / name, *arguments, **options)

    def outputs(self, name, *arguments):
        return [text.decode(errors="replace") for text in outputs_of(self.sources / "build/bin" / name, *arguments)]

    def quantize(self, source, target, name, *options):
        self.program("llama-quantize", *options, source, target, name, self.threads)

    def tokenize(self, file, text, add_special):
        words = ["-m", file, "--stdin", "--ids", "--log-disable"] + ([] if add_special else ["--no-bos"])
        with open_text(text) as stdin:
            return [int(word) for word in self.program("llama-tokenize", *words, stdin=stdin).strip(b" \n[]").split(b",") if word.strip()]

    def convert(self, source, target, pre):
        """Convert a directory as its converter does, with `pre` as the name of an unknown pre-tokenizer."""
        import torch

        converter = importlib.import_module("convert_hf_to_gguf")
        name = converter.get_model_architecture(converter.ModelBase.load_hparams(source, False), converter.ModelType.TEXT)
        model_class = converter.get_model_class(name)
        own = model_class.get_vocab_base_pre
        model_class.get_vocab_base_pre = lambda self, tokenizer: pre
        try:
            with torch.inference_mode():
                model_class(source, converter.gguf.LlamaFileType.ALL_F32, target).write()
        finally:
            model_class.get_vocab_base_pre = own


@contextlib.contextmanager
def open_text(text):
    """Open a file with a text, to be a program's standard input."""
    with tempfile.TemporaryFile() as file:
        file.write(text.encode())
        file.seek(0)
        yield file


def open_file(path):
    from gguf import GGUFReader

    return GGUFReader(path)


def keys_of(path):
    """Return the keys of a file and their values, without those that describe the file itself."""
    fields = open_file(path).fields
    return {name: field.contents() for name, field in fields.items() if not name.startswith("GGUF.")}


def tensors_of(path):
    """Return the tensors of a file by name."""
    return {tensor.name: tensor for tensor in open_file(path).tensors}


def widened(tensor):
    """Return the values of a tensor in float32, in the shape of PyTorch."""
    from gguf.quants import dequantize

    return dequantize(tensor.data, tensor.tensor_type).reshape([int(size) for size in reversed(tensor.shape)])


def perplexity_in(text):
    """Return the last running estimate in the output of llama-perplexity."""
    found = re.findall(r"\[\d+\]([0-9.]+)", text)
    return float(found[-1])
