#!/bin/sh
# Runs a program with the emulated CUDA libraries, on their device: on_emulated.sh BUILD PROGRAM [ARGUMENT...]
build=$(cd "$1" && pwd)
shift
mkdir -p "$build/emulated_cuda/counts"
LD_LIBRARY_PATH=$build/emulated_cuda EITP_TEST_CUDA=1 EITP_BACKEND=cuda \
    EITP_EMULATED_CUDA_COUNTS=$build/emulated_cuda/counts \
    EITP_EMULATED_CACHE=$build/emulated_cuda/modules XDG_CACHE_HOME=$build/emulated_cuda/cache exec "$@"
