#!/bin/sh
# The command: a destroyed model never replaces good checkpoints; spikes; the op that produced a bad number.
. tests/command/command.sh

bits() {
    cat "$1/model.safetensors" "$1/optimizer.safetensors" | cksum
}

# checkpoint_is VALUE: checks the checkpoint in the result of --json.
checkpoint_is() {
    grep -q "\"checkpoint\": $1," out
}

# ---- a destroyed model and restarts ----

exits 0 "good steps" $train --steps 8 --lr 1e-3 --lr-schedule constant --max-grad-norm 0 --weight-decay 1000 \
    --eval-steps 0 --save-steps 4 --save-total-limit 2 --output-dir ruined
good=$(bits ruined/checkpoint-8)
for restart in 1 2 3; do
    exits 4 "restart $restart" train --resume auto --output-dir ruined --steps 40 --lr 1000 --save-steps 1 \
        --max-nonfinite 3 --threads 1 --json
    check "restart $restart: from the good checkpoint" grep -q "resuming from 'ruined/checkpoint-8' at step 8 of 40" err
    check "restart $restart: it remains the newest" test "$(ls -d ruined/checkpoint-* | grep -v '\.' | tail -n 1)" = \
        ruined/checkpoint-8
    check "restart $restart: it is unchanged" test "$(bits ruined/checkpoint-8)" = "$good"
    check "restart $restart: the previous one is kept" test -d ruined/checkpoint-4
    check "restart $restart: names where to resume" grep -q '^error: .*ruined/checkpoint-8' err
    check "restart $restart: names a remedy" grep -q '^error: .*--lr' err
    check "restart $restart: in the result" checkpoint_is '"ruined/checkpoint-8"'
done
exits 0 "with the old rate it continues" train --resume auto --output-dir ruined --steps 12 --lr 1e-3 --threads 1
check "with the old rate: a checkpoint" test -d ruined/checkpoint-12

# ---- spikes ----

# Text that is easy to learn, except for step 51, whose 128 bytes are strange.
awk 'BEGIN {
    for (i = 0; i < 80 * 128; i++)
        printf "%c", int(i / 128) == 50 ? 48 + i * 7919 % 75 : substr("a fern, a leaf. ", i % 16 + 1, 1)
}' >strange.txt
spiky="train --data strange.txt --init tiny.json --block-size 32 --batch-size 2 --grad-accum 2 --threads 1 --dropout 0
    --precision $precision --shuffle none --lr 1e-2 --lr-schedule constant --val-fraction 0 --eval-steps 0 --spike-threshold 4
    --report-to jsonl --json"
exits 0 "a spike" $spiky --steps 60 --output-dir spiked
check "a spike causes a warning" grep -q '^warning: spike in step 51: loss [0-9.]* (usually .*), gradient norm [0-9.]* (usually [0-9.]*)$' err
check "a spike is recorded" grep -q '^{"step": 51, .* "spike": "loss and grad_norm", "applied": true[,}]' spiked/metrics.jsonl
check "a spike is applied" grep -q '"spikes_skipped": 0,' out
warming=$(echo "$spiky" | sed 's/--lr-schedule constant/--lr-schedule cosine --warmup-steps 55/')
exits 0 "a spike during warm-up" $warming --lr 2e-2 --steps 60 --output-dir warmed
check "a spike during warm-up causes no warning" sh -c '! grep -q "spike in step" err'
check "a spike during warm-up is recorded" grep -q '^{"step": 51, .* "spike": ' warmed/metrics.jsonl
exits 0 "--skip-spikes" $spiky --steps 60 --skip-spikes --output-dir skipped
check "a skipped spike causes a warning" grep -q '^warning: spike in step 51: .*; the step was skipped' err
check "a skipped spike is recorded" grep -q '^{"step": 51, .* "spike": "loss and grad_norm", "applied": false[,}]' \
    skipped/metrics.jsonl
check "a skipped spike is counted" grep -q '"spikes_skipped": [1-9]' out
exits 0 "the steps before" $spiky --steps 45 --skip-spikes --output-dir resumed
exits 0 "a resumed run" train --resume resumed --steps 60 --threads 1 --json
check "a resumed run skips the same steps" same_checkpoints skipped/checkpoint-60 resumed/checkpoint-60
check "skipping changes the weights" differ skipped/checkpoint-60/model.safetensors spiked/checkpoint-60/model.safetensors
refuses 1 "--skip-spikes needs a --spike-threshold above 0" $spiky --skip-spikes --spike-threshold 0 --output-dir gone

# ---- the first op ----

exits 0 "a model" $train --steps 2 --output-dir source --eval-steps 0
cp -r source/checkpoint-2 spoiled
printf '\000\000\200\177' | dd of=spoiled/model.safetensors bs=1 conv=notrunc \
    seek=$(($(wc -c <spoiled/model.safetensors) - 4)) 2>/dev/null
from_spoiled="train --model spoiled --data text.txt --block-size 16 --threads 1 --precision $precision --steps 4 --eval-steps 0
    --max-nonfinite 2"
exits 4 "--check-finite step" $from_spoiled --output-dir by_step
check "a step is named" grep -q '^warning: step 1 skipped: the gradient is not finite$' err
exits 4 "--check-finite op" $from_spoiled --check-finite op --output-dir by_op
check "the weight is named" grep -q "^warning: step 1 skipped: the gradient is not finite: 'transformer[a-z0-9_.]*' (.*) holds inf in element [0-9]*, first read by op [a-z_]*\$" err
exits 4 "--check-finite no" $from_spoiled --check-finite no --output-dir unchecked
check "nothing is named" sh -c '! grep -q "^warning: step" err'
check "and nothing is saved" test -z "$(ls -d unchecked/checkpoint-* 2>/dev/null)"

finish
