"""Metadata that every measurement records about itself, so that docs/measurements.md can cite it."""

import datetime
import os
import pathlib
import shlex
import sys

# Newest first. A processor's best instruction set is the first one in this list that it supports.
INSTRUCTION_SETS = (
    ("AMX", "amx_bf16"),
    ("AVX512-BF16", "avx512_bf16"),
    ("AVX-512", "avx512f"),
    ("AVX2", "avx2"),
)


def cpu_field(name):
    """Return the first value of a field of /proc/cpuinfo, or "" if it is missing."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as lines:
            for line in lines:
                if line.split(":")[0].strip() == name:
                    return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return ""


def machine():
    """Return the processor, its best instruction set, number of processors and memory, in one line."""
    flags = cpu_field("flags").split()
    instructions = next((name for name, flag in INSTRUCTION_SETS if flag in flags), "")
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    parts = [cpu_field("model name") or "unknown processor"]
    if cpu_field("cpu family"):
        parts.append(f"family {cpu_field('cpu family')} model {cpu_field('model')}")
    if instructions:
        parts.append(instructions)
    return ", ".join(parts + [f"{os.cpu_count()} processors", f"{memory:.0f} GiB"])


def command_line():
    """Return this command as typed from the root of the repository."""
    root = pathlib.Path(__file__).resolve().parent.parent.parent
    script = os.path.relpath(sys.argv[0], root)
    return shlex.join(["python3", script, *sys.argv[1:]])


def header(kind):
    """Return the members at the start of every report."""
    return {
        "kind": kind,
        "date": datetime.date.today().isoformat(),
        "machine": machine(),
        "command": command_line(),
    }
