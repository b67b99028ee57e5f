#!/bin/sh
# The command: the parts of a run's data, and bits per byte.
. tests/command/command.sh

value_of() { # name, file of JSON
    sed -n "s/.*\"$1\": \([0-9.]*\).*/\1/p" "$2"
}

train_straight
evaluate="eval --model straight --threads 1 --precision $precision"

# ---- the parts ----

exits 0 "a run's own data" $evaluate --data text.txt
check "a warning that it was trained on" grep -q \
    "^warning: 'straight/checkpoint-12' was trained on 90 % of this data; --split validation evaluates only" err
exits 0 "all of it" $evaluate --data text.txt --split all --json
check "--split all: no warning" sh -c '! grep -q warning: err'
check "--split all: from the start" grep -q '"first_token": 0,' out
cp out all
exits 0 "the validation part" $evaluate --data text.txt --split validation --json
check "--split validation: no warning" sh -c '! grep -q warning: err'
check "--split validation: the loss of the run's last evaluation" agree "$(loss_of out)" \
    "$(sed -n 's/.*"val_loss": \([0-9.]*\),.*/\1/p' straight/metrics.jsonl | tail -n 1)"
check "--split validation: after the training tokens" test "$(value_of first_token out)" -eq \
    "$(value_of training_tokens straight/run.json)"
cp out validation
exits 0 "the training part" $evaluate --data text.txt --split train --json
check "--split training: the rest" test "$(value_of first_token out)" -eq 0 -a \
    $(($(value_of tokens out) + $(value_of tokens validation))) -le "$(value_of tokens all)"
exits 0 "without --data" $evaluate --split validation --json
check "without --data: the run's data" same out validation
exits 0 "other data" $evaluate --data small.txt
check "other data: no warning" sh -c '! grep -q warning: err'
refuses 1 "the run was trained on other data ('straight/checkpoint-12'); evaluate with --split all" $evaluate \
    --data small.txt --split validation
spoil
rm spoiled/trainer_state.json spoiled/run.json
refuses 1 "this model is not a checkpoint" eval --model spoiled --data text.txt --split validation
refuses 1 "--data is required: no run.json next to 'spoiled'" eval --model spoiled --split validation
exits 0 "separate validation data" $train --steps 2 --val-data small.txt --output-dir own -q
exits 0 "separate validation data: evaluated" eval --model own --threads 1 --precision "$precision" --split validation \
    --json
check "separate validation data: the loss of the run" agree "$(loss_of out)" \
    "$(sed -n 's/.*"val_loss": \([0-9.]*\),.*/\1/p' own/metrics.jsonl | tail -n 1)"
refuses 1 "the run held out no part of this data" eval --model own --data text.txt --split validation
exits 0 "a run without validation data" $train --steps 2 --val-fraction 0 --output-dir none -q
exits 0 "a run without validation: evaluated" eval --model none --data text.txt --threads 1
check "a run without validation: all of the data" grep -q "^warning: 'none/checkpoint-2' was trained on this data" err

# ---- bits per byte ----

per_byte() { # file of JSON: bits per byte follow from the loss and the bytes of a token
    awk -v loss="$(loss_of "$1")" -v bits="$(value_of bits_per_byte "$1")" -v bytes="$(value_of bytes_per_token "$1")" \
        'BEGIN { exit !((bits / (loss / log(2) / bytes) - 1) ^ 2 < 1e-12) }'
}
check "bits per byte of bytes" per_byte all
check "bytes per token of bytes" grep -q '"bytes_per_token": 0.9999' all
exits 0 "a tokenizer" tokenizer train --data text.txt --vocab-size 300 --output tok
exits 0 "its model" train --data text.txt --tokenizer tok --init tiny --block-size 16 --threads 1 --steps 1 \
    --precision "$precision" --eval-steps 0 --output-dir words -q
exits 0 "eval of its model" eval --model words --data text.txt --threads 1 --json
check "bits per byte of words" per_byte out
check "bytes per token of words" grep -q '"bytes_per_token": [2-9]' out
exits 0 "eval in words" eval --model words --data text.txt --threads 1
check "eval in words: the line" grep -q \
    '^loss [0-9.]* nats per token (.*), perplexity [0-9.]*, [0-9.]* bits per byte ([0-9.]* bytes per token in the file), ' out

finish
