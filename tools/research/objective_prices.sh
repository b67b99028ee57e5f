#!/bin/sh
# Measures the price of each regularizer: the extra time of a training step, and planned and measured memory.
#   objective_prices.sh          prints a table; writes the numbers to PRICES/report.json
# For each regularizer, steps without and with it alternate in one process, and the price is the median over pairs of
# steps. A separate process trains with the regularizer alone to measure peak memory. PRICES is the directory
# (build/prices). It keeps measurements, so remove it to measure again. EITP is the command, MODEL gpt2, BATCH 4, BLOCK
# 128, PAIRS 5, ONLY the names to measure. Run it on an idle machine.
set -u
LC_ALL=C
export LC_ALL
root=$(cd "$(dirname "$0")/../.." && pwd)
out=${PRICES:-${BUILD:-$root/build}/prices}
eitp=${EITP:-${BUILD:-$root/build}/eitp}
model=${MODEL:-gpt2} batch=${BATCH:-4} block=${BLOCK:-128} pairs=${PAIRS:-5} only=${ONLY:-}

# Prints names and members of option files. The first one shows the variation of steps without a regularizer.
# Regularizers with separate passes are computed in every step here; a run computes them in every 50th step as a metric
# and in every 10th as a loss.
configurations() {
    echo 'off-again '
    for name in path_norm entropy coding_rate coherence brier variance participation_ratio balance attention_entropy; do
        printf '%s-metric "%s": "metric"\n' $name $name
        printf '%s-loss "%s": "loss"\n' $name $name
    done
    for name in chaos jacobian_norm self_repair; do
        printf '%s-metric "%s": "metric", "%s_every": 1\n' $name $name $name
        printf '%s-loss "%s": "loss", "%s_every": 1\n' $name $name $name
    done
    cat <<'LIST'
self_repair_denoise-metric "self_repair": "metric", "self_repair_form": "denoise", "self_repair_every": 1
self_repair_denoise-loss "self_repair": "denoise", "self_repair_every": 1
eitp-safe-without-chaos "objective": "eitp-safe", "chaos": "off"
eitp-paper-without-chaos "objective": "eitp-paper", "chaos": "off"
eitp-safe-capped "objective": "eitp-safe", "chaos": "off", "reg_grad_cap": 0.2
LIST
}

fail() {
    echo "objective_prices: $*" >&2
    exit 1
}

bench() {
    "$eitp" bench step --quiet --json --model "$model" --batch-size "$batch" --block-size "$block" --grad-accum 1 \
        --precision fp32 --optimizer adamw --recompute none "$@"
}

# Writes one line of JSON: the pairs, and the trainer with the regularizer alone. $1: name, $2: members
measure() {
    [ ! -s "$out/$1.result" ] || return 0
    echo "{$2}" >"$out/$1.json"
    bench --steps "$pairs" --compare "$out/off.json" --compare "$out/$1.json" >"$out/$1.pairs" &&
        bench --steps 1 --config "$out/$1.json" >"$out/$1.alone" || return 1
    printf '{"name": "%s", "pairs": %s, "alone": %s}\n' "$1" "$(cat "$out/$1.pairs")" "$(cat "$out/$1.alone")" \
        >"$out/$1.new" && mv "$out/$1.new" "$out/$1.result"
}

is_wanted() {
    case " $only " in
    '  ' | *" $1 "* | *" ${1%-*} "*) return 0 ;;
    esac
    return 1
}

table() {
    awk '
        function second(name,   text) { # second of two numbers in a list
            if (!match($0, "\"" name "\": \\[[^]]*\\]"))
                return ""
            text = substr($0, RSTART, RLENGTH)
            sub(/.*, /, "", text)
            return text + 0
        }
        function number(name) {
            match($0, "\"" name "\": [0-9.e+]+")
            return substr($0, RSTART + length(name) + 4, RLENGTH - length(name) - 4) + 0
        }
        function longer(gain) { # percent of time from percent of speed
            return 100 / (1 + gain / 100) - 100
        }
        BEGIN {
            print "| regularizer | mode | longer step | range | planned | peak | planned / peak |"
            print "|---|---|---|---|---|---|---|"
        }
        {
            match($0, /"name": "[^"]*"/)
            name = substr($0, RSTART + 9, RLENGTH - 10)
            mode = ""
            if (match(name, /-(metric|loss)$/)) {
                mode = substr(name, RSTART + 1)
                name = substr(name, 1, RSTART - 1)
            }
            planned = number("planned_bytes")
            peak = number("peak_rss_bytes")
            printf "| `%s` | %s | %+.1f %% | %+.1f to %+.1f %% | %.1f MB | %.1f MB | %.3f |\n", name, mode,
                longer(second("gain_percent")), longer(second("high_gain_percent")), longer(second("low_gain_percent")),
                planned / 1e6, peak / 1e6, planned / peak
        }'
}

[ -x "$eitp" ] || fail "$eitp does not exist: run 'make' first"
mkdir -p "$out"
echo '{}' >"$out/off.json"
configurations >"$out/configurations"
failed=
while read -r name members; do
    is_wanted "$name" || continue
    echo "$name" >&2
    measure "$name" "$members" || failed="$failed $name"
done <"$out/configurations"
while read -r name members; do
    is_wanted "$name" && cat "$out/$name.result" 2>/dev/null
done <"$out/configurations" >"$out/results"
[ -s "$out/results" ] || fail "nothing was measured"
{
    printf '{"kind": "objective-prices", "date": "%s", "processor": "%s", "commit": "%s", "command": "%s",\n' \
        "$(date +%Y-%m-%d)" "$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo 2>/dev/null | head -n 1)" \
        "$(git -C "$root" rev-parse --short HEAD 2>/dev/null || echo unknown)" \
        "MODEL=$model BATCH=$batch BLOCK=$block PAIRS=$pairs make objective-prices"
    echo ' "results": ['
    sed '$!s/$/,/' "$out/results"
    echo ']}'
} >"$out/report.json"
table <"$out/results"
[ -z "$failed" ] || fail "cannot measure:$failed"
