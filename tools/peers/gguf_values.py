"""Parts of gguf_parity.py: the values of tensors as eitp reads them, and the bytes that it writes."""

import numpy

from llama_cpp import tensors_of, widened

# What llama-quantize writes; rows that blocks do not divide get other types.
READ = ("Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q2_K", "Q3_K_M", "Q4_K_M", "Q5_K_M", "Q6_K", "IQ4_NL", "IQ4_XS", "BF16", "F16")
WRITTEN = ("q8_0", "q4_0", "q4_k_m")


def compare_values(file, exported):
    """Return the tensors of a file, its types, and the tensors whose values in eitp's export in f32 differ."""
    theirs, own = tensors_of(file), tensors_of(exported)
    if set(theirs) != set(own):
        raise SystemExit(f"{file}: {sorted(set(theirs) ^ set(own))} are in one file only")
    differ = []
    for name, tensor in theirs.items():
        a, b = widened(tensor), widened(own[name])
        if a.shape != b.shape or not numpy.array_equal(a.view(numpy.uint32), b.view(numpy.uint32)):
            differ.append(name)
    return len(theirs), {tensor.tensor_type.name for tensor in theirs.values()}, differ


def read_values(setup, file, label):
    target = setup.work / "values.f32.gguf"
    setup.export(file, "f32", target)
    count, types, differ = compare_values(file, target)
    target.unlink()
    if differ:
        print(f"{label}: {differ[:5]}")
    return count, types, len(differ)


def quantized(setup, source):
    """Yield files of every type that llama-quantize and gguf write, and their names."""
    file = setup.work / "values.gguf"
    for name in READ:
        setup.peer.quantize(source, file, name)
        yield file, name
    setup.peer.quantize(source, file, "Q8_0", "--tensor-type", "ffn=mxfp4", "--tensor-type", "attn_output=mxfp4")
    yield file, "MXFP4"
    file.unlink()


def values(setup):
    """Values of tensors equal those of gguf, bit for bit."""
    count, types, differ = read_values(setup, setup.smollm2, "SmolLM2")
    for source, label in ((setup.full("smollm2"), "SmolLM2"), (setup.full("wide llama"), "wide llama")):
        for file, name in quantized(setup, source):
            found = read_values(setup, file, f"{label} {name}")
            count, types, differ = count + found[0], types | found[1], differ + found[2]
    return differ, 0, f"tensors of {count} differ from gguf's values; types {' '.join(sorted(types))}"


def compare_bytes(theirs, own):
    """Return the tensors, the types, and the tensors that differ in type or bytes."""
    theirs, own = tensors_of(theirs), tensors_of(own)
    if set(theirs) != set(own):
        raise SystemExit(f"{sorted(set(theirs) ^ set(own))} are in one file only")
    differ = [
        f"{name} {tensor.tensor_type.name} {own[name].tensor_type.name}"
        for name, tensor in theirs.items()
        if tensor.tensor_type != own[name].tensor_type or tensor.data.tobytes() != own[name].data.tobytes()
    ]
    return len(theirs), {tensor.tensor_type.name for tensor in theirs.values()}, differ


def exported_bytes(setup):
    """Types and bytes of exports equal those of llama-quantize."""
    count, types, differ = 0, set(), 0
    theirs, own = setup.work / "theirs.gguf", setup.work / "own.gguf"
    for label in ("smollm2", "wide llama", "wide gpt2", "wide gemma3", "wide qwen3", "narrow llama", "wide bert"):
        for name in WRITTEN:
            setup.peer.quantize(setup.full(label), theirs, name.upper())
            setup.export(setup.full(label), name, own)
            found = compare_bytes(theirs, own)
            if found[2]:
                print(f"{label} {name}: {len(found[2])} tensors, {found[2][:5]}")
            count, types, differ = count + found[0], types | found[1], differ + len(found[2])
    return differ, 0, f"tensors of {count} differ from llama-quantize's; types {' '.join(sorted(types))}"
