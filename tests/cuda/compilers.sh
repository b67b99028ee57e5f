#!/bin/sh
# Compiles the kernels of the CUDA backend with NVIDIA's compilers (tools/cuda_kernels.sh):
#   compilers.sh PROGRAM ARCH nvrtc|nvcc
# Errors, warnings, spilled registers and products without tensor cores are failures. Skipped without the compiler.
output=$(sh tools/cuda_kernels.sh "$@" quiet)
case $? in
3)
    echo "SKIPPED kernels of CUDA for sm_$2 with $3: $output"
    echo "0 passed, 0 failed"
    exit 0
    ;;
esac
echo "$output" | sed '$d'
result=$(echo "$output" | sed -n '$s/^sm_[0-9]*, [a-z]*: \([0-9]*\) modules, \([0-9]*\) faults$/\1 \2/p')
modules=${result% *} faults=${result#* }
[ "${modules:-0}" -gt 0 ] || modules=0 faults=1
passed=$((modules > faults ? modules - faults : 0))
echo "$passed passed, $faults failed"
[ "$faults" -eq 0 ]
