#!/bin/sh
# The command: eitp eval --emergence.
. tests/command/command.sh

train_straight
measure="eval --model straight --threads 1 --precision $precision --split validation --emergence --eval-windows 6"

# number NAME FILE: prints the value of a JSON member.
number() {
    sed -n "s/.*\"$1\": \([-0-9.e+]*\)[,}].*/\1/p" "$2"
}

# Prints the report without the values that differ between runs: times, energy and memory.
without_times() {
    sed 's/"time": [0-9]*, //; s/"tokens_per_second": [^,]*, "tokens_per_second_n": [^,]*, "tokens_per_second_error": [^,]*, //
        s/"mfu": [^,]*, "mfu_n": [^,]*, "mfu_error": [^,]*, //
        s/"joules_per_token": [0-9.e-]*, "joules_per_token_n": [^,]*, "joules_per_token_error": [^,]*, //
        s/"peak_bytes": [^,]*,/"peak_bytes": 1,/' "$1"
}

# ---- JSON ----

exits 0 "JSON" $measure --json
cp out first
check "one line" test "$(lines first)" -eq 1
exits 0 "once more, into a file too" $measure --json -o report.json
check "the file has the same" same out report.json
ln -s report.json link.json
: >report.json
exits 0 "into a link" $measure --json -o link.json
check "into a link: it stays" test -L link.json
check "into a link: its target has the result" same out report.json
without_times first >a
without_times out >b
check "the same seed, the same bytes" same a b
exits 0 "another seed" $measure --json --seed 7
without_times out >c
check "another seed, other numbers" differ a c
check "other corruption" test "$(number corruption_loss_20 first)" != "$(number corruption_loss_20 out)"
check "another hash" test "$(sed 's/.*"config_hash": "\([0-9a-f]*\)".*/\1/' first)" != \
    "$(sed 's/.*"config_hash": "\([0-9a-f]*\)".*/\1/' out)"
check "the weights of a file have one spectrum" test "$(number spectral_alpha first)" = "$(number spectral_alpha out)"

# Each number has its number of items, and an error. Missing numbers have a reason.
sed 's/.*"block_size": [0-9]*, //; s/"left_out": .*//' first | tr ',' '\n' | sed 's/^ *//' >members
check "every number with n and error" awk -F': ' 'NF == 2 {
    name = $1; gsub(/"/, "", name)
    if ($2 !~ /^-?[0-9.]+(e[-+][0-9]+)?$/) { print "    " name " is " $2; bad = 1 }
    if (NR % 3 == 1) { first = name }
    else if (name != first (NR % 3 == 2 ? "_n" : "_error")) { print "    " name " after " first; bad = 1 }
    if (NR % 3 == 2 && $2 < 1) { print "    " name " is " $2; bad = 1 }
    count++
} END { exit bad || count < 90 }' members
for name in loss perplexity bits_per_byte accuracy calibration_error error_auroc entropy in_context_gain retrieval_2 \
    retrieval_loss_8 participation_ratio_final coding_rate_middle two_nn_final correlation_dimension_final \
    correlation_r2_middle neighbour_cosine_final alignment_middle_last attention_entropy attention_entropy_0 \
    spectral_alpha spectral_distance path_norm lambda_f lambda_f_relative lambda_max corruption_loss_5 corruption_kl_10 \
    noise_loss_1 noise_loss_5 distinct_1 distinct_2 repeated_4 tokens_per_second mfu joules_per_token peak_bytes recovery reference_perplexity; do
    check "$name is measured or left out" grep -q "\"$name\": " first
done
check "energy is a number or unavailable, not 0" sh -c '! grep -q "\"joules_per_token\": 0," first'
check "its description" grep -q '^{"model": "straight/checkpoint-12", "version": "[0-9.]*", "time": [0-9]*, "seed": [0-9]*, "config_hash": "[0-9a-f]*", "sequences": 6, "block_size": ' first

exits 0 "an evaluation of all" eval --model straight --threads 1 --precision "$precision" --split validation --json
whole=$(loss_of out)
exits 0 "emergence of all" eval --model straight --threads 1 --precision "$precision" --split validation --emergence --json --eval-frac 1
check "the loss is that of an evaluation" agree "$whole" "$(number loss out)"
check "so are bits per byte, nearly" awk -v a="$(number bits_per_byte out)" -v loss="$whole" \
    'BEGIN { exit !(a > loss / log(2) / 8 && a < 2 * loss / log(2)) }'

# ---- A table ----

exits 0 "a table" $measure
check "groups and columns" grep -q '^long range  *value  *standard error  *n$' out
check "a row" grep -q '^  loss  *[0-9.]*  *[0-9.e-]*  *[0-9]*$' out
check "missing values" grep -q '^  recovery  *needs training' out

# ---- A reference ----

exits 0 "a reference" $measure --json --reference-model straight/checkpoint-12
check "which one" grep -q '"reference": "straight/checkpoint-12"' out
check "its perplexity on the text" awk -v x="$(number reference_perplexity out)" 'BEGIN { exit !(x > 1) }'
check "on all its tokens" awk -v n="$(number reference_perplexity_n out)" 'BEGIN { exit !(n > 100) }'
without_times out | sed 's/"reference": "[^"]*", //; s/"reference_perplexity[^,]*, //g' >c
without_times first | sed 's/"reference_perplexity": "[^"]*", //' >d
check "nothing else changes" same c d

# ---- Errors ----

refuses 1 "--reference-model requires --emergence" eval --model straight --data text.txt --reference-model straight
refuses 1 "missing" $measure --reference-model missing

refuses 1 "--seed requires --emergence" eval --model straight --data text.txt --seed 3
refuses 1 "--output requires --emergence" eval --model straight --data text.txt -o gone
refuses 1 "'eitp predict' has no option --emergence" predict --model straight --emergence
refuses 1 "--output: the directory of 'missing/report.json' does not exist" $measure -o missing/report.json

finish
