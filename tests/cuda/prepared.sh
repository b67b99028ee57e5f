#!/bin/sh
# Kernels compiled before (EITP_CUDA_KERNELS), on the emulated device: a run without NVRTC, kernels of other definitions,
# damaged files, folders without kernels, a driver that cannot load them. CUDA_KERNELS is the program that compiles them.
root=$PWD
case $CUDA_KERNELS in /*) ;; *) CUDA_KERNELS=$PWD/$CUDA_KERNELS ;; esac
. tests/command/command.sh
processor=$eitp
libraries=$BUILD/emulated_cuda
mkdir driver counts
ln -s "$libraries/libcuda.so.1" "$libraries/libnvidia-ml.so.1" driver/
EITP_EMULATED_CACHE=$libraries/modules XDG_CACHE_HOME=$work/cache HOME=$work
export EITP_EMULATED_CACHE XDG_CACHE_HOME HOME
unset CUDA_HOME CUDA_PATH CONDA_PREFIX VIRTUAL_ENV EITP_CUDA_PRODUCTS
cat >on_device <<END
#!/bin/sh
LD_LIBRARY_PATH=\$LIBRARIES exec "$processor" "\$@"
END
chmod +x on_device
eitp=$work/on_device
export LIBRARIES EITP_EMULATED_CUDA_VERSION

with_nvrtc() {
    LIBRARIES=$libraries
    EITP_EMULATED_CUDA_VERSION=13000
}

# The driver is of CUDA 12, so that it cannot use a toolkit of this machine.
without_nvrtc() {
    LIBRARIES=$work/driver
    EITP_EMULATED_CUDA_VERSION=12080
}

no() {
    ! grep -q "$@"
}

# prepare FOLDER OPTION...: writes compiled kernels.
prepare() {
    LD_LIBRARY_PATH=$libraries "$CUDA_KERNELS" prepare 86 "$@" >prepared 2>&1 || cat prepared
}

train="train --data small.txt --init tiny.json --block-size 16 --batch-size 2 --grad-accum 1 --eval-steps 0 --save-steps 0
    --steps 2 --val-fraction 0 --gpu-report-every 0 --device cuda"

with_nvrtc
check "kernels are compiled" prepare "$work/kernels" precision=fp32 "$work/tiny.json"
check "their number" test "$(ls kernels | grep -c '\.kernels$')" -eq "$(sed -n 's/^\([0-9]*\) kernels, .*/\1/p' prepared)"
check "their compiler" grep -qx 'NVRTC 13.0' kernels/compiler
EITP_CUDA_PRODUCTS=own
export EITP_CUDA_PRODUCTS
exits 0 "a run with NVRTC" $train --precision fp32 --output-dir compiled

EITP_CUDA_KERNELS=$work/kernels
export EITP_CUDA_KERNELS
rm -rf cache
without_nvrtc
exits 0 "a run without NVRTC" $train --precision fp32 --output-dir own
check "without NVRTC: nothing is compiled" no compil err
check "without NVRTC: the device" grep -q '^device: cuda:0, .*, kernels of NVRTC 13.0, matrix products by ' err
check "without NVRTC: numerics" grep -q "\"numerics\": \"cuda-sm_86-nvrtc.13.0\"" own/checkpoint-2/trainer_state.json
check "without NVRTC: the same bits" same own/checkpoint-2/model.safetensors compiled/checkpoint-2/model.safetensors

refuses 1 "no kernel [a-z_]* of kernels/cuda/[a-z_]*.cu (SCALAR=[0-9].*) for sm_86 in '$work/kernels' (EITP_CUDA_KERNELS), and \
it cannot be compiled: no usable NVRTC" $train --precision bf16 --output-dir gone
with_nvrtc
EITP_EMULATED_NVRTC_FAIL=nvrtcCompileProgram:1
export EITP_EMULATED_NVRTC_FAIL
exits 0 "with NVRTC, nothing is compiled" $train --precision fp32 --output-dir second
exits 1 "with NVRTC, kernels of other definitions are compiled" $train --precision bf16 --output-dir third
check "other definitions: NVRTC was called" grep -q '^error: NVRTC 13.0 cannot compile kernels/cuda/' err
unset EITP_EMULATED_NVRTC_FAIL

# ---- damaged files ----

mkdir broken
cp kernels/* broken/
EITP_CUDA_KERNELS=$work/broken
first=$(ls "$work"/broken/*.kernels | head -n 1) second=$(ls "$work"/broken/*.kernels | tail -n 1)
damaged() { # what
    without_nvrtc
    refuses 1 "(EITP_CUDA_KERNELS): '$first' is damaged, and it cannot be compiled: " $train --precision fp32 --output-dir gone
    with_nvrtc
    exits 0 "$1, with NVRTC" $train --precision fp32 --output-dir "$1"
    check "$1: a warning" test "$(grep -c "^warning: '$first' is damaged; compiling the kernel [a-z_]*\$" err)" -eq 1
    check "$1: one kernel is compiled" grep -q '^compiling 1 GPU kernel with NVRTC 13.0' err
    rm -rf cache
}
truncate -s -1 "$first"
damaged truncated
cp "$second" "$first"
damaged other
EITP_CUDA_KERNELS=$work/kernels

# ---- kernels that a run requests when nothing is compiled or executed ----

with_nvrtc
unset EITP_CUDA_KERNELS
(EITP_EMULATED_LIST=$work/list XDG_CACHE_HOME=$work/listed && export EITP_EMULATED_LIST XDG_CACHE_HOME &&
    "$eitp" $train --precision fp32 --output-dir nothing >/dev/null 2>&1)
check "a list of kernels" prepare "$work/listed" list="$work/list"
EITP_CUDA_KERNELS=$work/listed
export EITP_CUDA_KERNELS
without_nvrtc
exits 0 "a run with the kernels of a list" $train --precision fp32 --output-dir from_list
EITP_CUDA_KERNELS=$work/kernels
with_nvrtc

# ---- folders, and the driver ----

for folder in "$work/none" "$work/driver" "$work/tiny.json"; do
    EITP_CUDA_KERNELS=$folder
    refuses 1 "no compiled kernels in EITP_CUDA_KERNELS: .*$folder" $train --precision fp32 --output-dir gone
done
mkdir empty
: >empty/compiler
EITP_CUDA_KERNELS=$work/empty
refuses 1 "no compiled kernels in EITP_CUDA_KERNELS: '$work/empty/compiler' does not name their compiler" $train --output-dir gone
EITP_CUDA_KERNELS=$work/kernels
rm -rf cache
EITP_EMULATED_CUDA_FAIL=cuModuleLoadData:1:200
export EITP_EMULATED_CUDA_FAIL
exits 0 "a driver that cannot load them" $train --precision fp32 --output-dir refused
check "a driver that cannot load them: a warning" test "$(grep -c "^warning: compiling all kernels, because the driver cannot load \
[a-z_]* of '$work/kernels' (EITP_CUDA_KERNELS): " err)" -eq 1
check "a driver that cannot load them: all are compiled" grep -q '^compiling [1-9][0-9]* GPU kernels with NVRTC 13.0' err
without_nvrtc
refuses 1 "the driver cannot load the kernel [a-z_]* of '$work/kernels' (EITP_CUDA_KERNELS), compiled with NVRTC 13.0: " \
    $train --precision fp32 --output-dir gone

finish
