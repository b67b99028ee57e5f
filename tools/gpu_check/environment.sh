# Sets the environment of all parts. Sourced by tools/gpu_check.sh.
eitp=$files/bin/eitp
export eitp
unset EITP_CUDA_PRODUCTS EITP_CUDA_GRAPH EITP_CUDA_PROFILE EITP_BACKEND EITP_ISA EITP_LOG_DIR
tar -C "$work" -xozf "$files/kernels.tar.gz" || stop "cannot unpack $files/kernels.tar.gz"
EITP_CUDA_KERNELS=$work/kernels XDG_CACHE_HOME=$work/cache
export EITP_CUDA_KERNELS XDG_CACHE_HOME
libraries=$files/lib
if [ -n "$emulated" ]; then
    libraries=$BUILD/emulated_cuda:$libraries
    mkdir -p "$BUILD/emulated_cuda/counts"
    export EITP_EMULATED_CACHE="$BUILD/emulated_cuda/modules" EITP_EMULATED_CUDA_COUNTS="$BUILD/emulated_cuda/counts" \
        XDG_CACHE_HOME="$BUILD/emulated_cuda/cache"
fi
LD_LIBRARY_PATH=$libraries${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
export LD_LIBRARY_PATH
