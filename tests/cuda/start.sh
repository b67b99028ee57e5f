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
all=$(ls cache/eitp/kernels | wc -l)
rm -rf cache
exits 1 "a kernel that cannot be compiled" $train --output-dir third
check "a kernel that cannot be compiled: one line" test "$(grep -c '^error: NVRTC 13.0 cannot compile kernels/cuda/[a-z_]*.cu (error 11): no message$' err)" -eq 1
unset EITP_EMULATED_NVRTC_FAIL EITP_CUDA_PRODUCTS

# A run that is stopped while it compiles keeps the finished kernels.
sed "s,EITP_EMULATED_CACHE=[^ ]*,EITP_EMULATED_CACHE=$work/modules," on_device >slow_device
chmod +x slow_device
rm -rf cache
EITP_CUDA_PRODUCTS=own ./slow_device $train --output-dir stopped >out 2>err &
process=$!
for i in $(seq 300); do
    [ "$(ls cache/eitp/kernels 2>/dev/null | wc -l)" -eq 0 ] || break
    sleep 0.1
done
kill -TERM $process
wait $process
check "stopped while it compiles: exit code" test $? -eq 143
check "stopped while it compiles: one line" test "$(cat err)" = "error: stopped by SIGTERM before the first step"
compiled=$(ls cache/eitp/kernels | wc -l)
# One kernel is only requested later.
check "stopped while it compiles: $compiled of $all kernels" test "$compiled" -ge 1 -a "$compiled" -lt $((all - 4))

install_wheel cublas cublasLt 12
if script -qec true /dev/null >/dev/null 2>&1; then
    script -qec "stty cols 200; '$eitp' $(echo $train) --output-dir shown" /dev/null 2>&1 </dev/null | tr '\r' '\n' | grep -an . >screen
    check "on a terminal, compiling is shown before the run is accepted" test \
        "$(sed -n 's/^\([0-9]*\):compiling .*/\1/p' screen | head -n 1)" -lt "$(sed -n 's/^\([0-9]*\):memory budget: .*/\1/p' screen | tail -n 1)"
    check "on a terminal, the stage does not replace it" sh -c \
        '! sed -n "/:compiling /,\$ p" screen | grep -q ":preparing the trainer"'
else
    echo "SKIPPED compiling on a terminal: script (util-linux) is missing"
fi
exits 0 "with cuBLASLt" $train --output-dir fourth
check "with cuBLASLt: no warning" no '^warning: matrix products' err
check "with cuBLASLt: the line of the device" grep -q "^device: cuda:0, .*, matrix products by cuBLASLt 13.1$" err

finish
