#!/bin/sh
# The command: the length of text windows without --block-size is the longest that data and memory allow.
. tests/command/command.sh

# A model with 256 positions. An epoch of 64 steps of 4 windows needs 65536 tokens for windows of 256, and 32768 for
# windows of 128.
awk 'BEGIN { for (i = 0; i < 16384; i++) printf "%c%c%c%c\n", 97 + i % 26, 97 + i * 7 % 26, 97 + i * i % 26, 97 + i * 3 % 25 }' >long.txt
head -c 40000 long.txt >half.txt
head -c 4000 long.txt >line.txt
train="train --init tiny --tokenizer bytes --threads 1 --precision $precision --eval no --steps 1"
trained() { # name, tokens of a window, words of the reason, options
    name=$1 size=$2 reason=$3
    shift 3
    exits 0 "$name" $train --output-dir "$name" "$@"
    check "$name: the size" grep -q "^model: .* step: [0-9]* sequences of $size tokens" err
    check "$name: it is reported" test "$(grep -c "^block size: $size tokens.*$reason.*; override with --block-size$" err)" -eq 1
}
trained all 256 'all positions of the model' --data long.txt
trained too_short 128 'of the model.s 256 positions, because an epoch of longer windows has fewer than 64 steps' --data half.txt
trained a_line 64 'because an epoch of longer windows has fewer than 64 steps' --data line.txt
trained larger_steps 64 'because an epoch of longer windows has fewer than 64 steps' --data long.txt --batch-size 4

# ---- memory ----

# With one micro-batch a step, which no pass can split, some budget lies between the needs of windows of 64 and of 256.
one="--data long.txt --batch-size 4 --grad-accum 1"
exits 0 "short windows" $train $one --block-size 64 --output-dir short
check "with an option there is no message" sh -c '! grep -q "^block size" err'
total_of() { # of the line about memory, in kB
    sed -n 's/.*total including the process \([0-9.]*\) MB.*/\1/p' err | awk '{ print int($1 * 1000) }'
}
short=$(total_of)
exits 0 "long windows" $train --data long.txt --block-size 256 --output-dir long
long=$(total_of)
check "longer windows take more memory" test "$long" -gt $((short + 1000))
# Longer windows take precedence over all other uses of memory. If they do not fit, their memory is reported.
exact="$one --optimizer adamw"
exits 2 "memory for long windows" $train $exact --block-size 256 --memory-budget 1M --output-dir least
least=$(sed -n 's/.*that is enough is \([0-9]*\)M.*/\1/p' err)
exits 0 "a budget for short windows" $train $exact --memory-budget $((least - 2))M --output-dir budget
check "a budget for short windows: shorter ones" grep -q \
    "^block size: \(64\|128\) tokens of the model.s 256 positions, because \(128\|256\) need [0-9.]* MB of memory; override" err
check "a budget for short windows: the compromises" grep -q '^given up to save memory: sequences of \(128\|256\) tokens ([0-9.]* MB)' err
exits 0 "a budget for long windows" $train $exact --memory-budget ${least}M --output-dir enough
check "a budget for long windows: long windows" grep -q '^block size: 256 tokens' err
check "a budget for long windows: the compromises" grep -q '^given up to save memory: nothing recomputed (' err

# With four, passes of one keep long windows, even if the planner prefers to recompute.
exits 0 "small passes" $train --data long.txt --block-size 256 --recompute none --memory-budget $((long * 1000 - 4000000)) --output-dir passes
small=$(total_of)
for part in 1 2 3 4 5 6 7 8; do
    exits 0 "small passes, $part" $train --data long.txt --memory-budget $((1000 * (small + (long - small) * part / 8))) --output-dir "passes_$part"
    check "small passes, $part: long windows" grep -q '^block size: 256 tokens' err
done
refuses 2 "the smallest --memory-budget that is enough is" $train --data long.txt --memory-budget 1M --output-dir none

# ---- consequences ----

exits 0 "resume" train --resume auto --output-dir too_short --steps 2 --threads 1
check "resume: the size of the checkpoint" grep -q "^model: .* sequences of 128 tokens" err
check "resume: no message" sh -c '! grep -q "^block size" err'
exits 0 "eval" eval --model too_short --data half.txt --threads 1 --json
check "eval: the checkpoint's block size" grep -q '"block_size": 128' out
cp -r too_short/latest_model/ plain
rm -f plain/trainer_state.json plain/manifest.json plain/run.json
exits 0 "eval of a model" eval --model plain --data half.txt --threads 1 --json
check "eval of a model: its positions" grep -q '"block_size": 256' out
head -c 100 long.txt >tiny.txt
exits 0 "eval of few tokens" eval --model plain --data tiny.txt --threads 1 --json
check "eval of few tokens: a window of them" grep -q '"block_size": 64' out
exits 0 "plan" plan --init tiny --threads 1
check "plan: as for sufficient data" grep -q "^step: .* sequences of 256 tokens" out

finish
