#!/bin/sh
# The command: resuming, bit for bit.
. tests/command/command.sh

train_straight
for threads in 1 2 3; do
    mkdir resumed$threads
    cp -r straight/checkpoint-4 straight/checkpoint-8 straight/metrics.jsonl straight/run.json resumed$threads
    exits 0 "resume with $threads threads" train --resume auto --output-dir resumed$threads --threads $threads
    check "resumed with $threads threads: the same bits" same_checkpoints \
        straight/checkpoint-12 resumed$threads/checkpoint-12
    for file in straight resumed$threads; do
        sed '/"event": /d; /"perf\//d; s/, "tokens_per_s.*//; s/, "val_time_s.*//' $file/metrics.jsonl >$file.records
    done
    check "resumed with $threads threads: the records of one run" same straight.records resumed$threads.records
done
rm -r resumed1/checkpoint-8 resumed1/checkpoint-12
printf '{"step": 5, "lo' >>resumed1/metrics.jsonl
exits 0 "resume DIR" train --resume_from_checkpoint=resumed1/checkpoint-4 --threads 1
check "resume DIR: the same bits" same_checkpoints straight/checkpoint-12 resumed1/checkpoint-12
check "incomplete records are removed" test "$(grep -c '"loss": ' resumed1/metrics.jsonl)" -eq 12
exits 0 "nothing left to do" train --auto-resume --output-dir resumed1
check "reports it" grep -q 'nothing to do' err
exits 0 "resume elsewhere" train --resume straight/checkpoint-8 --output-dir elsewhere --threads 1 -q
check "resume elsewhere: the same bits" same_checkpoints straight/checkpoint-12 elsewhere/checkpoint-12
exits 0 "longer" train --resume auto --output-dir elsewhere --steps 14 --threads 1
check "a longer schedule is logged" grep -q 'warning: the steps of the learning-rate schedule changed from 12 to [0-9]* since ' err
exits 0 "auto without a checkpoint" $train --steps 1 --resume auto --output-dir fresh
check "logs that a new run starts" grep -q 'starting a new run' err

refuses 1 "no checkpoint in 'nowhere'; pass --model or --init to start a new run" train --resume auto --output-dir nowhere
refuses 1 "already has checkpoint-12" $train --output-dir straight
exits 0 "another run" $train --steps 1 --eval-steps 0 --output-dir another -q
refuses 1 "of another run" train --resume straight/checkpoint-8 --output-dir another
refuses 1 "of later steps" train --resume straight/checkpoint-8
cp -r straight/checkpoint-12 other
make_earlier other
refuses 1 "trained with 4 samples per step (--batch-size 1, --grad-accum 4).* (got 3 and 4)" train --resume other --data text.txt --batch-size 3 --output-dir gone
sed 1d text.txt >shorter.txt
refuses 1 "the training data differ from the data of 'other', which had [0-9]* tokens, and this run has [0-9]*; use the same data, or start from its weights with --model" train --resume other --data shorter.txt --data text.txt --output-dir gone
refuses 1 "no run.json" train --resume other --output-dir gone
refuses 1 "no directory 'nowhere'" train --resume nowhere --output-dir gone
printf 'x' | dd of=other/model.safetensors bs=1 seek=5000 conv=notrunc 2>/dev/null
refuses 1 "damaged" train --resume other --data text.txt --output-dir gone
rm other/trainer_state.json
refuses 1 "start from it with --model" train --resume other --data text.txt --output-dir gone

# ---- settings that a resumed run may change ----

refuses 1 "trained with seed 0, and a resumed run keeps it (got 1); leave --seed out, or start from the weights with --model" train \
    --resume straight/checkpoint-12 --seed 1 --output-dir gone
refuses 1 "trained with --dense-rows false, and a resumed run keeps it (got true); leave --dense-rows out" train \
    --resume straight/checkpoint-12 --dense-rows --output-dir gone
refuses 1 "made with --block-size 16, and this run has 8; use the same, or start from its weights with --model" train \
    --resume straight/checkpoint-12 --block-size 8 --output-dir gone
exits 0 "other settings" train --resume straight/checkpoint-12 --steps 13 --lr-schedule cosine --beta1 0.8 \
    --final-lr 1e-5 --output-dir other_settings --threads 1
check "a choice that differs is named" grep -q -e "--lr-schedule changed from linear to cosine since '" err
check "a number that differs" grep -q -e "--beta1 changed from 0.9 to 0.8 since '" err
check "it is recorded" grep -q '"lr-schedule": "cosine", .*"beta1": 0.8' other_settings/run.json
exits 0 "set values are kept" train --resume other_settings/checkpoint-13 --steps 14 --threads 1
check "set values are kept: in the state" grep -q '"beta1": 0.8' other_settings/checkpoint-14/trainer_state.json
check "set values are kept: nothing is logged" sh -c '! grep -q "beta1\|lr_schedule" err'
cp -r other_settings/checkpoint-13 alone
make_earlier alone
exits 0 "without run.json" train --resume alone --data text.txt --steps 14 --output-dir from_alone --threads 1
check "without run.json: settings are the checkpoint's" grep -q '"beta1": 0.8' from_alone/checkpoint-14/trainer_state.json
check "without run.json: nothing is logged" sh -c '! grep -q "beta1\|lr_schedule\|final_lr" err'
exits 0 "one micro-batch per pass" $train --steps 1 --micro-batches-per-pass 1 --output-dir one -q
cp -r one/checkpoint-1 one_alone
make_earlier one_alone
exits 0 "several per pass" train --resume one_alone --data text.txt --steps 2 --output-dir many --threads 1
check "passes take the memory available now" grep -q ' whole step in one pass' err
exits 0 "to sgd" train --resume alone --data text.txt --steps 14 --optimizer sgd --lr 0.1 --output-dir to_sgd --threads 1
check "to sgd: rates are not carried over" grep -q '"final_lr": 0,$' to_sgd/checkpoint-14/trainer_state.json
exits 0 "fewer steps than already done" train --resume straight/checkpoint-12 --steps 2 --output-dir straight --threads 1
check "fewer steps than already done: logged" grep -q 'nothing to do: step 12 is done, 2 steps were requested' err
check "fewer steps than already done: the end" grep -q '^finished: step 12 (requested: 2)' out

# ---- a longer run ----

# Prints the number of samples or tokens read by the steps of a run.
items_of() {
    sed -n 's/.*"loss": .*"\(tokens\|samples\)": \([0-9]*\), .*/\2/p' "$1/metrics.jsonl" | awk '{ n += $1 } END { print n }'
}
evaluations_of() {
    sed -n 's/^{"step": \([0-9]*\), "val_loss".*/\1/p' "$1/metrics.jsonl" | tr '\n' ' '
}
head -c 600 text.txt >few.txt
awk 'BEGIN { print "text,label"; for (i = 0; i < 10; i++) print "number " i "," (i % 2 ? "odd" : "even") }' >ten.csv
few="--init tiny.json --val-fraction 0 --lr-schedule constant --threads 1 --precision $precision -q"
longer() { # name, items of an epoch, options: epochs 1, then 2, then 6, against 6 from the start
    name=$1
    epoch=$2
    shift 2
    exits 0 "$name: 6 epochs" train "$@" $few --epochs 6 --output-dir "$name-straight"
    exits 0 "$name: 1 epoch" train "$@" $few --epochs 1 --output-dir "$name"
    for epochs in 2 6; do
        exits 0 "$name: then $epochs" train --resume auto --epochs $epochs --output-dir "$name" --threads 1 -q
        check "$name: $epochs epochs: each sample once" test "$(items_of "$name")" -eq $((epochs * epoch))
    done
    check "$name: as many samples as from the start" test "$(items_of "$name")" -eq "$(items_of "$name-straight")"
}
longer windows 592 --data few.txt --block-size 16 --batch-size 4 --grad-accum 4
longer whole_steps 592 --data few.txt --block-size 16 --batch-size 37 --grad-accum 1
check "a longer run after a whole step: the bits of one that was longer from the start" same_checkpoints \
    whole_steps/checkpoint-6 whole_steps-straight/checkpoint-6
longer rows 10 --data ten.csv --task classify --batch-size 16
check "run.json has the number of samples read" grep -q '"process": {.*"samples": 60, ' rows/run.json
longer workers 10 --data ten.csv --task classify --batch-size 4 --data-workers 2
exits 0 "--drop-last" train --data ten.csv --task classify --batch-size 4 $few --drop-last --epochs 1 --output-dir dropped
check "--drop-last: whole steps" test "$(items_of dropped)" -eq 8
exits 0 "--drop-last: longer" train --resume auto --output-dir dropped --epochs 3 --threads 1 -q
check "--drop-last: whole steps, which continue after the last" test "$(items_of dropped)" -eq 28
exits 0 "epochs without an end of a step" train --data ten.csv --task classify --batch-size 4 $few --val-fraction 0.1 \
    --epochs 1 --eval epoch --output-dir by_epochs
exits 0 "epochs without an end of a step: longer" train --resume auto --output-dir by_epochs --epochs 4 --threads 1 -q
check "evaluations are after the step that ends an epoch" test "$(evaluations_of by_epochs)" = "0 3 6 8 10 "
exits 0 "nothing to add" train --resume auto --output-dir rows --epochs 6 --threads 1
check "nothing to add: reported" grep -q 'nothing to do: step \([0-9]*\) of \1 is done' err

# Every seed that a program can set is accepted.
exits 0 "the largest seed" $train --steps 2 --lr-schedule constant --seed 18446744073709551615 --output-dir largest
exits 0 "the largest seed, resumed" train --resume largest --steps 3
exits 0 "the same without a stop" $train --steps 3 --lr-schedule constant --seed 18446744073709551615 \
    --output-dir unstopped
check "the same bits" same_checkpoints largest/checkpoint-3 unstopped/checkpoint-3
refuses 1 "seed must be at least 0 (got -1)" $train --steps 2 --seed -1 --output-dir gone
refuses 1 "seed must be a whole number (got '18446744073709551616')" $train --steps 2 --seed 18446744073709551616 \
    --output-dir gone

printf x >checkpoint.pt
refuses 1 "'checkpoint.pt' is a file; an eitp checkpoint is a directory, such as checkpoint-500 .*; to start from another program's weights, pass the directory with them and their config.json to --model$" \
    train --resume checkpoint.pt
refuses 1 "'small.txt' is a file; an eitp checkpoint is a directory, such as checkpoint-500 in an output directory$" train --resume small.txt

finish
