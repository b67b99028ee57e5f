# Facts: the driver, the device, its memory, and the tools that are installed. Nothing waits for PyTorch.
. "$parts/common.sh"

check "the programs run here" "$eitp" help
check "the device can be used" "$eitp" check-system --init files/models/gpt2.json --device "$device"
grep -E '^(GPU|CPU|memory)' output >shown
show shown
if command -v nvidia-smi >/dev/null 2>&1; then
    limited 10 nvidia-smi --query-gpu=name,driver_version,compute_cap,memory.total,memory.used,power.limit,clocks.max.sm \
        --format=csv,noheader >shown 2>&1
    show shown
else
    skip nvidia-smi "it is not installed"
fi
{
    echo "$(nproc) processors, $(awk '/^MemAvailable/ { printf "%.0f GB", $2 / 1e6 }' /proc/meminfo) of memory free"
    echo "compute-sanitizer: $(find_sanitizer || echo none)"
    echo "C library: $(ldd --version 2>/dev/null | head -n 1)"
    limited 10 python3 - <<'END' || echo "Python: none"
import importlib.metadata, platform
found = []
for name in ("torch", "transformers", "nvidia-cuda-nvrtc", "nvidia-cuda-nvrtc-cu12", "nvidia-cublas", "nvidia-cublas-cu12"):
    try:
        found.append(f"{name} {importlib.metadata.version(name)}")
    except importlib.metadata.PackageNotFoundError:
        pass
print(f"Python {platform.python_version()}: {', '.join(found) or 'none of the packages'}")
END
} >shown 2>&1
show shown
