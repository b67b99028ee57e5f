#!/bin/sh
# Checks that docs/cuda-times.md matches the output of tools/cuda_kernels/: times.sh PROGRAM
"$1" times | diff docs/cuda-times.md - || {
    echo "docs/cuda-times.md is out of date: make cuda-times"
    exit 1
}
