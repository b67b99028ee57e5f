#!/bin/sh
# A run on the emulated CUDA device whose context is lost: all later calls of the driver fail. One line names the cause, the
# last step saved and the command to resume; checkpoints stay as they were, and the resumed run ends like an undisturbed one.
root=$PWD
. tests/command/command.sh
. "$root/tests/cuda/device.sh"

head -c 6000 "$root/README.md" >text.txt
printf '{"model_type": "gpt2", "n_embd": 64, "n_head": 2, "n_layer": 1, "n_positions": 64, "vocab_size": 257}\n' >model.json
train="train --init model.json --data text.txt --block-size 16 --batch-size 2 --grad-accum 1 --precision fp32 --steps 6 --save-steps 2 --eval-steps 3 --eval-windows 2 --async-save no --save-total-limit 4"
mkdir counts
EITP_EMULATED_CUDA_COUNTS=$work/counts
export EITP_EMULATED_CUDA_COUNTS
sed -i 's/EITP_EMULATED_CUDA_COUNTS=[^ ]* //' on_device
runs "an undisturbed run" $train --output-dir whole
launches=$(cat counts/* | awk '$2 != "graphs" { sum += $1 } END { print sum }')
check "the undisturbed run launches kernels: $launches" test "$launches" -gt 100

# lost PART CODE ERROR: the run ends after this part of its launches, in tenths, because of this error.
lost() {
    at=$((launches * $1 / 10 + 1))
    loss="the context is lost at launch $at: $3"
    EITP_EMULATED_CUDA_LATE=$at:$2
    export EITP_EMULATED_CUDA_LATE
    eitp=$device
    exits 5 "$loss" $train --output-dir lost --device cuda
    eitp=$processor
    unset EITP_EMULATED_CUDA_LATE
    check "$loss: one line" test "$(grep -c '^error: ' err)" -eq 1
    check "$loss: the cause" grep -q "^error: .*the GPU's context is lost: .* ($3 in cu[A-Za-z]*); " err
    saved=$(ls -d lost/checkpoint-* 2>/dev/null | sed 's/.*-//' | sort -n | tail -n 1)
    if [ -z "$saved" ]; then
        check "$loss: nothing is saved" grep -q '; nothing is saved: start a new run$' err
        rm -rf lost
        return
    fi
    check "$loss: step $saved is saved" grep -q "; saved up to step $saved; to resume: .*eitp train --resume auto --output-dir lost\$" err
    check "$loss: the checkpoint is that of the undisturbed run" same_checkpoints whole/checkpoint-$saved lost/checkpoint-$saved
    runs "$loss: resumed" train --resume auto --output-dir lost
    check "$loss: the end is that of the undisturbed run" same_checkpoints whole/checkpoint-6 lost/checkpoint-6
    rm -rf lost
}

lost 0 700 CUDA_ERROR_ILLEGAL_ADDRESS
lost 4 719 CUDA_ERROR_LAUNCH_FAILED
parts='6 9'
[ -z "$EITP_TEST_ALL" ] || parts='1 2 3 5 6 7 8 9'
for part in $parts; do
    lost $part 700 CUDA_ERROR_ILLEGAL_ADDRESS
done

finish
