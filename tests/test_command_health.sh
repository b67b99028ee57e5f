#!/bin/sh
# The command: a ruined model never takes the place of good checkpoints; spikes; the op that made a bad number.
. tests/command.sh

bits() {
    cat "$1/model.safetensors" "$1/optimizer.safetensors" | cksum
}

# checkpoint_is VALUE: the checkpoint in the result of --json.
checkpoint_is() {
    grep -q "\"checkpoint\": $1," out
}

# ---- a ruined model and restarts ----

exits 0 "good steps" $train --steps 8 --lr 1e-3 --lr-schedule constant --max-grad-norm 0 --weight-decay 1000 \
    --eval-steps 0 --save-steps 4 --save-total-limit 2 --output-dir ruined
good=$(bits ruined/checkpoint-8)
for restart in 1 2 3; do
    exits 4 "restart $restart" train --resume auto --output-dir ruined --steps 40 --lr 1000 --save-steps 1 \
        --max-nonfinite 3 --threads 1 --json
    check "restart $restart: from the good checkpoint" grep -q "resuming from 'ruined/checkpoint-8' at step 8 of 40" err
    check "restart $restart: it stays the newest" test "$(ls -d ruined/checkpoint-* | grep -v '\.' | tail -n 1)" = \
        ruined/checkpoint-8
    check "restart $restart: it is unchanged" test "$(bits ruined/checkpoint-8)" = "$good"
    check "restart $restart: the one before it stays" test -d ruined/checkpoint-4
    check "restart $restart: says where to resume" grep -q '^error: .*ruined/checkpoint-8' err
    check "restart $restart: says what to do" grep -q '^error: .*--lr' err
    check "restart $restart: in the result" checkpoint_is '"ruined/checkpoint-8"'
done
exits 0 "with the old rate it goes on" train --resume auto --output-dir ruined --steps 12 --lr 1e-3 --threads 1
check "with the old rate: a checkpoint" test -d ruined/checkpoint-12

finish
