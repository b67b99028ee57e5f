#!/bin/sh
# The command: evaluation and generation.
. tests/command/command.sh

train_straight
exits 0 "eval" eval --model straight --data text.txt --json --threads 1 --precision fp32
loss=$(loss_of out)
exits 0 "eval in larger batches" eval --model straight/checkpoint-12 --data text.txt --json --threads 1 --precision fp32 \
    --batch-size 5
check "eval: block size of the checkpoint" grep -q '"block_size": 16' out
check "eval: independent of the batch size" agree "$loss" "$(loss_of out)"
check "eval leaves no temporary file" test -z "$(ls -A temporary)"
exits 0 "generate" generate --model straight --prompt 'Line 1' --tokens 20 --seed 5 --threads 1 -q
cp out first
check "generate starts with the prompt" grep -q '^Line 1' out
if command -v iconv >/dev/null 2>&1; then
    check "generate: only whole characters" sh -c 'iconv -f UTF-8 -t UTF-8 <out >/dev/null'
fi
exits 0 "generate again" generate --model straight --prompt 'Line 1' --tokens 20 --seed 5 --threads 3 -q
check "generate: the same text for the same seed" same out first
exits 0 "generate beyond the cache" generate --model straight --prompt 'Line 1' --tokens 200 --top-k 1 --threads 1 \
    --json
check "generate beyond the cache: all tokens" grep -q '"tokens": 200, "stop": "length"' out
check "generate beyond the cache: in the result" grep -q '"lost_beginning": true' out
check "generate beyond the cache: a warning" test "$(grep -c \
    "^warning: the text is longer than the model's 64 positions: its end was generated without seeing its start" err)" -eq 1
exits 0 "generate within the cache" generate --model straight --prompt 'Line 1' --tokens 58 --top-k 1 --threads 1 --json
check "generate within the cache: in the result" grep -q '"lost_beginning": false' out
check "generate within the cache: no warning" sh -c '! grep -q warning: err'
exits 0 "a prompt beyond the cache" generate --model straight --prompt-file text.txt --tokens 1 --threads 1 --no-echo
check "a prompt beyond the cache: a warning" grep -q \
    "^warning: the prompt has [0-9]* tokens but the model has 64 positions: it sees only the last 63 tokens" err
exits 0 "greedy" generate --model straight --prompt 'Line 1' --tokens 9 --temperature 0 --seed 1 --no-echo \
    --threads 1 -q
cp out first
exits 0 "greedy again" generate --model straight --prompt 'Line 1' --tokens 9 --top-k 1 --seed 2 --no-echo \
    --threads 1 -q
check "the most likely token does not depend on the seed" same out first
printf 'Line 1' | "$eitp" generate --model straight --tokens 9 --temperature 0 --no-echo --threads 1 -q >out 2>err
check "the prompt from standard input" same out first

finish
