#!/bin/sh
# Whether docs/cuda-times.md is what tools/cuda_kernels/ computes: times.sh PROGRAM
"$1" times | diff docs/cuda-times.md - || {
    echo "docs/cuda-times.md is out of date: make cuda-times"
    exit 1
}
