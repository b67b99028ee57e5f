#!/bin/sh
# The command: data that end, losses that are not finite, steps that fail.
. tests/command/command.sh

train_straight
exits 0 "epochs" $train --epochs 0.01 --batch-size 3 --grad-accum 2 --output-dir epochs --save-steps 0 --val-fraction 0
cp err epochs.err

# Training ends with the samples, even if the schedule is longer.
cp -r epochs ended
exits 0 "a longer schedule" set ended schedule-steps=9
exits 0 "the data ends" train --resume auto --output-dir ended --threads 1
check "the data ends: logged" grep -q 'training ends after step 4: all [0-9]* samples were used' err
check "the data ends: without a step" test "$(ls -d ended/checkpoint-*)" = ended/checkpoint-4
check "the data ends: the run is finished" grep -q '^finished: step 4 of 4' out

# ---- a loss that is not finite ----

spoil
printf '\000\000\300\177' | dd of=spoiled/model.safetensors bs=1 conv=notrunc \
    seek=$(($(wc -c <spoiled/model.safetensors) - 4)) 2>/dev/null
refuses 4 "the loss of 'spoiled' on this data is not finite" eval --model spoiled --data text.txt \
    --threads 1
exits 4 "training a model that is not finite" train --data text.txt --model spoiled --block-size 16 --threads 1 --steps 1 \
    --eval-steps 1 --output-dir not_finite
check "a validation loss that is not finite is logged" grep -q \
    '^warning: the validation loss after step 0 is not finite' err

check "a validation loss that is not finite: in the result" grep -q 'loss not finite, validation loss not finite after step 1,' out
check "nothing is nan" sh -c '! grep -q nan out err'

# ---- a loss that explodes ----

exits 4 "a rate that is too high" $train --steps 12 --lr 3 --max-grad-norm 0 --eval-steps 0 --output-dir diverged
check "it diverges: a warning at once" test "$(grep -c '^warning: the loss diverges: .* after step [2-6], up from 5.* lower the learning rate .* (--lr 3, --warmup-steps)' \
    err)" -eq 1
check "it diverges: an error at the end" test "$(grep -c '^error: the loss diverged: .* lower the learning rate .*--lr' err)" -eq 1
check "it does not diverge: no warning" sh -c '! grep -q diverge epochs.err'
export EITP_BACKEND=null
exits 0 "the null backend" $train --steps 1 --output-dir null
unset EITP_BACKEND
check "the null backend: a warning" grep -q '^warning: the backend is null, which computes nothing' err

# ---- steps that fail ----

# The token file is emptied before the next step reads it. The failed step changes nothing, so the previous steps are
# saved.
check "a step that cannot be read: a first step" start_until 'step 1/' $train --steps 100000000 --eval-steps 0 \
    --save-steps 0 --output-dir unread
for file in unread/data/*; do
    : >"$file"
done
wait_for_end
check "a step that cannot be read: exit code" test $? -eq 5
check "a step that cannot be read: logged" grep -q '^error: step [0-9]* failed, and nothing was changed: ' running.err
check "a step that cannot be read: the previous steps are saved" test "$(ls -d unread/checkpoint-* | wc -l)" -eq 1

# Another program overwrites the data of a run in place: a token file, the packed file of text or of a table, and data
# that are only evaluated. The run does not train on the new content, and saves the previous steps. With the old
# content, regardless of its time, the run continues.
overwritten() { # name, file, byte, options
    name=$1
    file=$2
    byte=$3
    shift 3
    check "$name: a first step" start_until 'step 1/' train "$@" --steps 100000 --save-steps 0 --threads 1 --precision $precision \
        --output-dir "$name"
    for packed in $file; do file=$packed; done
    cp "$file" "$name.kept"
    printf '\001' | dd of="$file" bs=1 seek="$byte" conv=notrunc 2>/dev/null
    check "$name: overwritten" differ "$file" "$name.kept"
    wait_for_end
    check "$name: exit code" test $? -eq 5
    check "$name: reported" grep -q "^error: .*changed while it was read.*" running.err
    check "$name: the previous steps are saved" test "$(ls -d "$name"/checkpoint-* | wc -l)" -eq 1
    cat "$name.kept" >"$file"
    exits 0 "$name: restored" train --resume auto --output-dir "$name" --threads 1 --steps 1
}
exits 0 "a token file" pack --data text.txt --output words.tok
exits 0 "another" pack --data small.txt --output val.tok
awk 'BEGIN { print "text,label"; for (i = 0; i < 60; i++) print (i % 2 ? "good " : "bad ") i "," (i % 2 ? "up" : "down") }' >rows.csv
train_tokenizer
overwritten named words.tok 300 --init tiny.json --block-size 16 --data words.tok --eval-steps 0 --data-workers 2
overwritten of_text 'of_text/data/*' 300 --init tiny.json --block-size 16 --data text.txt --eval-steps 0
overwritten evaluated val.tok 300 --init tiny.json --block-size 16 --data words.tok --val-data val.tok --eval-steps 1
overwritten labelled 'labelled/data/*' 256 --init tiny.json --vocab-size 360 --task classify --tokenizer tok --data rows.csv --eval-steps 0

# Offloaded weights that cannot be written back: the state is inconsistent and is not saved. The limit is below the 32
# MB of the offload file, and above the 11 and 21 MB of the files of a checkpoint.
if command -v prlimit >/dev/null 2>&1; then
    exits 0 "an undisturbed run" $large --steps 4 --lr-schedule constant --output-dir undisturbed
    exits 0 "steps before the inconsistent state" $large --steps 2 --lr-schedule constant --offload all --optimizer adamw \
        --output-dir torn
    check "inconsistent state: a first step" start_until 'step 3/' train --resume auto --output-dir torn --steps 100000000 --threads 1
    prlimit --pid $process --fsize=25000000
    wait_for_end
    check "inconsistent state: exit code" test $? -eq 5
    check "inconsistent state: one line" grep -q '^error: step [0-9]* failed half-way; resume from the last checkpoint: .*; saved up to step 2; to resume: .*eitp train --resume torn/checkpoint-2 --output-dir torn$' running.err
    check "inconsistent state: nothing is saved" test "$(ls -d torn/checkpoint-*)" = torn/checkpoint-2
    exits 0 "inconsistent state: resume" train --resume auto --output-dir torn --steps 4 --threads 1
    check "inconsistent state: the resumed run is bit-identical" same_checkpoints undisturbed/checkpoint-4 torn/checkpoint-4
else
    echo "SKIPPED a step that fails halfway: prlimit is missing"
fi

finish
