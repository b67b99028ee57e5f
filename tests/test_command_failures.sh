#!/bin/sh
# The command: data that ends, losses that are not finite, steps that fail.
. tests/command.sh

train_straight
exits 0 "epochs" $train --epochs 0.01 --batch-size 3 --grad-accum 2 --output-dir epochs --save-steps 0 --val-fraction 0

# The data ends where the samples do, whatever the schedule says.
cp -r epochs ended
sed 's/"schedule_steps": 4/"schedule_steps": 9/' epochs/checkpoint-4/trainer_state.json >ended/checkpoint-4/trainer_state.json
exits 0 "the data ends" train --resume auto --output-dir ended --threads 1
check "the data ends: said" grep -q 'training ends after step 4: all [0-9]* samples were used' err
check "the data ends: no step" test "$(ls -d ended/checkpoint-*)" = ended/checkpoint-4
check "the data ends: the run is finished" grep -q '^finished: step 4 of 4' out

# ---- a loss that is not finite ----

spoil
printf '\000\000\300\177' | dd of=spoiled/model.safetensors bs=1 conv=notrunc \
    seek=$(($(wc -c <spoiled/model.safetensors) - 4)) 2>/dev/null
refuses 4 "the loss of 'spoiled' on this data is -*nan, which is not finite" eval --model spoiled --data text.txt \
    --threads 1
exits 0 "training a model that is not finite" train --data text.txt --model spoiled --block-size 16 --threads 1 --steps 1 \
    --eval-steps 1 --output-dir not_finite
check "a validation that is not finite is said" grep -q \
    '^warning: the validation loss after step 0 is not finite' err

# ---- steps that fail ----

# Tokens that are gone when the next step reads them: nothing was changed, so what was done is saved.
check "a step that cannot be read: a first step" start_until 'step 1/' $train --steps 100000000 --eval-steps 0 \
    --save-steps 0 --output-dir unread
for file in unread/data/*; do
    : >"$file"
done
wait_for_end
check "a step that cannot be read: exit code" test $? -eq 1
check "a step that cannot be read: said" grep -q '^error: step [0-9]* failed, and nothing was changed: ' running.err
check "a step that cannot be read: what was done is saved" test "$(ls -d unread/checkpoint-* | wc -l)" -eq 1

# Streamed weights that cannot be written back: the state is torn, and is not saved, though a checkpoint's files, of 11
# and 21 MB, could be written where the one of 32 MB cannot.
if command -v prlimit >/dev/null 2>&1; then
    exits 0 "an undisturbed run" $large --steps 4 --lr-schedule constant --output-dir undisturbed
    exits 0 "steps before a torn one" $large --steps 2 --lr-schedule constant --offload all --optimizer adamw \
        --output-dir torn
    check "torn: a first step" start_until 'step 3/' train --resume auto --output-dir torn --steps 100000000 --threads 1
    prlimit --pid $process --fsize=25000000
    wait_for_end
    check "torn: exit code" test $? -eq 5
    check "torn: said" grep -q '^error: step [0-9]* failed half-way; resume from the last checkpoint: ' running.err
    check "torn: from where to go on" grep -q \
        '^error: nothing was saved after the failure; go on with --resume torn/checkpoint-2' running.err
    check "torn: nothing is saved" test "$(ls -d torn/checkpoint-*)" = torn/checkpoint-2
    exits 0 "torn: resume" train --resume auto --output-dir torn --steps 4 --threads 1
    check "torn: resumed with the same bits" same_checkpoints undisturbed/checkpoint-4 torn/checkpoint-4
else
    echo "SKIPPED a step that fails half-way: there is no prlimit to make it fail"
fi

finish
