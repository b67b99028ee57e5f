#!/bin/sh
# The command on the emulated CUDA device: libraries of CUDA 12 in a virtual environment, the lines about missing
# libraries and compiled kernels, and a second start, which compiles nothing.
root=$PWD
. tests/command/command.sh
processor=$eitp
libraries=$BUILD/emulated_cuda
cat >on_device <<END
#!/bin/sh
export LD_LIBRARY_PATH=$work/driver EITP_EMULATED_CACHE=$libraries/modules XDG_CACHE_HOME=$work/cache
exec "$processor" "\$@"
END
chmod +x on_device
eitp=$work/on_device
unset CUDA_HOME CUDA_PATH CONDA_PREFIX VIRTUAL_ENV EITP_CUDA_PRODUCTS
HOME=$work
EITP_EMULATED_CUDA_VERSION=12080
export HOME EITP_EMULATED_CUDA_VERSION

# The driver, without the toolkit, and wheels as pip installs them.
mkdir driver
ln -s "$libraries/libcuda.so.1" "$libraries/libnvidia-ml.so.1" driver/
wheels=.venv/lib/python3.12/site-packages/nvidia
install_wheel() { # folder, library, version
    mkdir -p "$wheels/$1/lib"
    cp "$libraries/lib$2.so.13" "$wheels/$1/lib/lib$2.so.$3"
}

no() {
    ! grep -q "$@"
}

train="train --data small.txt --init tiny.json --block-size 16 --batch-size 2 --grad-accum 1 --precision fp32 --eval-steps 0
    --save-steps 0 --steps 2 --gpu-report-every 0 --device cuda"

refuses 1 "no usable NVRTC, CUDA's compiler: .*; install the CUDA 12 toolkit, or run: pip install nvidia-cuda-nvrtc-cu12" \
    $train --output-dir gone
install_wheel cu13 nvrtc 13
refuses 1 "nvidia-cuda-nvrtc-cu12" $train --output-dir gone
install_wheel cuda_nvrtc nvrtc 12

exits 0 "without cuBLASLt" $train --output-dir first
check "without cuBLASLt: a warning" test "$(grep -c "^warning: matrix products, most of the work of a step, will be slower with \
eitp's own kernels: no usable cuBLASLt: .*; install the CUDA 12 toolkit, or run: pip install nvidia-cublas-cu12\$" err)" -eq 1
check "without cuBLASLt: the line of the device" grep -q "^device: cuda:0, .*, matrix products by eitp's own kernels$" err
check "kernels are compiled" grep -q \
    "^compiling [1-9][0-9]* GPU kernels with NVRTC 13\.0 (once; cached in $work/cache/eitp/kernels)\$" err
check "kernels are compiled: seconds" grep -q "^compiled [1-9][0-9]* GPU kernels in [0-9.]* s\$" err
check "each kernel is compiled once" test "$(ls cache/eitp/kernels | wc -l)" -eq \
    "$(sed -n 's/^compiling \([0-9]*\) GPU kernels* .*/\1/p' err | awk '{ all += $1 } END { print all }')"

EITP_EMULATED_NVRTC_FAIL=nvrtcCompileProgram:1 EITP_CUDA_PRODUCTS=own
export EITP_EMULATED_NVRTC_FAIL EITP_CUDA_PRODUCTS
exits 0 "a second start compiles nothing" $train --output-dir second
check "a second start: no line" no compil err
check "a second start: no warning, since own products were chosen" no '^warning: matrix products' err
check "a second start: the same bits" cmp -s first/checkpoint-2/model.safetensors second/checkpoint-2/model.safetensors
rm -rf cache
exits 1 "a kernel that cannot be compiled" $train --output-dir third
check "a kernel that cannot be compiled: one line" test "$(grep -c '^error: NVRTC 13.0 cannot compile kernels/cuda/[a-z_]*.cu (error 11): no message$' err)" -eq 1
unset EITP_EMULATED_NVRTC_FAIL EITP_CUDA_PRODUCTS

install_wheel cublas cublasLt 12
exits 0 "with cuBLASLt" $train --output-dir fourth
check "with cuBLASLt: no warning" no '^warning: matrix products' err
check "with cuBLASLt: the line of the device" grep -q "^device: cuda:0, .*, matrix products by cuBLASLt 13.1$" err

finish
