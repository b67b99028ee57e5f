#!/bin/sh
# The tables of tools/research/ablation.sh: paired differences, and Student's intervals.
LC_ALL=C
export LC_ALL
BUILD=${BUILD:-build}
work=$BUILD/test_ablation
passed=0
failed=0
rm -rf "$work"
mkdir -p "$work/results"

result() { # configuration, seed, loss
    printf '{"configuration": "%s", "seed": %s, "options": "", "commit": "abc", ' "$1" "$2"
    printf '"terms": {"metrics/brier": 0.5}, "evaluation": {"loss": %s, "left_out": {}}}\n' "$3"
}

has() { # what, text
    if grep -qF -- "$2" "$work/out"; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "FAILED $1"
        cat "$work/out"
    fi
}

# Differences 0.1, 0.2, 0.3: mean 0.2, deviation 0.1, half the interval 4.303 * 0.1 / sqrt(3). The differences in
# entropy are equal.
for seed in 1 2 3; do
    result off $seed $seed >"$work/results/off-$seed.json"
    result brier $seed $seed.$seed >"$work/results/brier-$seed.json"
    result entropy $seed $seed.25 >"$work/results/entropy-$seed.json"
done
result chaos 1 1.5 >"$work/results/chaos-1.json"
ABLATION=$work sh tools/research/ablation.sh table >"$work/out"
has "the mean without regularizers" '| `off` | 2.0000 |'
has "an interval that has 0" '| `brier` | +0.2000 +- 0.2484 |'
has "one that excludes 0" '| `entropy` | **+0.2500 +- 0.0000** |'
has "which seeds are missing" '| `chaos` (1 of 3 seeds) | +0.5000 |'
has "a regularizer's own measure" '| `brier` | 0.5 | 0.5 |'
ABLATION=$work sh tools/research/ablation.sh json >"$work/out"
has "the report" '"commit": "abc"'
has "a run of it" '"loss": 3.3,'
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
