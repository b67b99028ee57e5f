#!/bin/sh
# The command on the emulated CUDA device with EITP_CUDA_PROFILE=1: the table counts the launches that the driver counts,
# and training gives the same bits.
root=$PWD
. tests/command/command.sh
. "$root/tests/cuda/device.sh"

head -c 3000 "$root/README.md" >text.txt
printf '{"model_type": "gpt2", "n_embd": 64, "n_head": 2, "n_layer": 1, "n_positions": 64, "vocab_size": 257}\n' >gpt2.json
train="train --init gpt2.json --tokenizer bytes --data text.txt --block-size 21 --batch-size 3 --grad-accum 2 --eval no --precision bf16 --optimizer adamw --save-steps 0"

no() {
    ! grep -q "$@"
}

# The launches of kernels and products that the driver has counted.
counted() {
    cat counts/* | awk '$2 != "graphs" { sum += $1 } END { print sum + 0 }'
}

runs "without a profile" $train --steps 3 --output-dir plain
check "without a profile: no table" no '^| ' err

mkdir counts
sed -i "s|EITP_EMULATED_CUDA_COUNTS=[^ ]* |EITP_EMULATED_CUDA_COUNTS=$work/counts |" on_device
EITP_CUDA_PROFILE=1
export EITP_CUDA_PROFILE
runs "with a profile" $train --steps 3 --output-dir profiled
check "the same bits" same_checkpoints plain/checkpoint-3 profiled/checkpoint-3
check "the heading" grep -q '^| kernels | dtype | calls | launches | ms | % | TFLOP/s | GB/s |$' err
check "products by purpose" test "$(grep -c '^| [^|]*`cuBLASLt`, \(forward\|gradient of input\|gradient of weight\) | bf16 | ' err)" -eq 3
check "rows by dtype" test "$(grep -c '^| `update_adamw` | \(bf16\|f32\) | ' err)" -eq 2
check "the sum of the rows" awk -F ' [|] ' '
    /^\| .*`/ { calls += $3; launches += $4; ms += $5; rows++ }
    /^\| all / { all = $3 == calls && $4 == launches && ms - $5 < 0.01 * rows && $5 - ms < 0.01 * rows }
    END { exit !(rows > 20 && all) }' err
measured=$(sed -n 's/^| all | *| [0-9]* | \([0-9]*\) .*/\1/p' err)
if [ -z "$EITP_GPU" ]; then
    check "no graphs" test "$(cat counts/* | sed -n 's/ graphs$//p')" = 0
    check "two of three steps are measured: $measured of $(counted) launches" test "$((3 * ${measured:-0}))" -eq "$((2 * $(counted)))"
fi

runs "with a profile and offloaded variables" $train --steps 2 --offload states --output-dir offloaded
check "transfers" grep -q '^| transfers | u8 | [1-9][0-9]* | 0 | ' err
runs "a single step" $train --steps 1 --output-dir single
check "a single step: no table" grep -q '^EITP_CUDA_PROFILE: no times, because no program was executed a second time$' err
check "a single step: no rows" no '^|' err

EITP_CUDA_PROFILE=2
eitp=$device
refuses 1 "unknown value '2' in EITP_CUDA_PROFILE (choose from 0, 1)" $train --steps 1 --output-dir gone --device cuda

finish
