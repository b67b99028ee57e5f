#!/bin/sh
# Tests whether a run's monitor distinguishes a collapsed posterior from a used one: trains a small variational
# autoencoder on verses in two settings, with several seeds each. Skips runs that have a result.
#   collapse.sh           trains
#   collapse.sh table     prints the results so far as a Markdown table
# COLLAPSE is the directory (build/collapse), EITP the command, SEEDS "1 2 3", STEPS 1200, and WORKERS (1) the number of
# parallel runs, with one thread each. With 1 worker, a run uses all processors. The text is Debian's bible-kjv-text, in
# the public domain.
set -u
LC_ALL=C
export LC_ALL
root=$(cd "$(dirname "$0")/../.." && pwd)
out=${COLLAPSE:-${BUILD:-$root/build}/collapse}
eitp=${EITP:-${BUILD:-$root/build}/eitp}
seeds=${SEEDS:-1 2 3} steps=${STEPS:-1200} workers=${WORKERS:-1}
[ "$workers" = 1 ] && threads=0 || threads=1

settings() { # name
    case $1 in
    plain) echo "" ;;
    used) echo "--free-bits 0.3 --word-dropout 0.4" ;;
    *) return 1 ;;
    esac
}

fail() {
    echo "collapse: $*" >&2
    exit 1
}

# Writes verses without their references, one per line. Holds out every tenth chapter.
prepare() {
    [ ! -e "$out/prepared" ] || return 0
    if ! command -v bible >/dev/null 2>&1; then
        [ "$(id -u)" = 0 ] && { apt-get update && apt-get install -y --no-install-recommends bible-kjv bible-kjv-text; } \
            >"$out/install.log" 2>&1
    fi
    command -v bible >/dev/null 2>&1 || fail "the text is missing: install Debian's bible-kjv and bible-kjv-text"
    bible -f gen1:1-rev22:21 </dev/null | awk -v out="$out" '
        $1 ~ /^[A-Za-z0-9]+:[0-9]+$/ {
            chapter = $1
            sub(/:.*/, "", chapter)
            if (chapter != last)
                file = out (++chapters % 10 == 5 ? "/heldout.txt" : "/train.txt")
            last = chapter
            sub(/^[^ ]+ +/, "")
            print >file
        }' && "$eitp" tokenizer train --quiet --data "$out/train.txt" --vocab-size 4096 --output "$out/tokenizer" >/dev/null ||
        fail "cannot prepare the text"
    : >"$out/prepared"
}

# The monitor checks a run every 100 steps. Evaluations, which record the latent units in detail, use the same interval.
train() { # setting, seed
    run=$out/$1-$2
    [ ! -e "$run/done" ] || return 0
    rm -rf "$run"
    # shellcheck disable=SC2046
    "$eitp" train --quiet --task vae --init vae-tiny --tokenizer "$out/tokenizer" --data "$out/train.txt" --val-data \
        "$out/heldout.txt" --block-size 48 --batch-size 32 --grad-accum 1 --lr 1e-3 --steps "$steps" --eval-steps 100 \
        --eval-windows 256 --seed "$2" --threads "$threads" --precision fp32 --output-dir "$run" $(settings "$1") 2>"$run.log" &&
        : >"$run/done" || fail "$run failed: $(tail -n 1 "$run.log")"
    echo "$1-$2: done"
}

# Prints the values of evaluations and the guide's risk for the same data: the mean of three conditions: KL < 0.01, mean
# posterior variance < 0.1, and fewer than a tenth of the units active, which the guide defines as a posterior variance
# above 0.01.
row() { # setting, seed
    run=$out/$1-$2
    [ -e "$run/done" ] || return 0
    awk -v name="$1" -v seed="$2" -v quarter="$((steps / 4))" '
        function number(line, key,   at) {
            at = index(line, "\"" key "\": ")
            return at ? substr(line, at + length(key) + 4) + 0 : "-"
        }
        FILENAME ~ /evaluations/ {
            step = number($0, "step")
            list = $0
            sub(/.*"variance": \[/, "", list)
            sub(/\].*/, "", list)
            n = split(list, variance, ", ")
            sum = active = 0
            for (i = 1; i <= n; i++) {
                sum += variance[i]
                active += variance[i] > 0.01
            }
            risk[step] = ((number($0, "val_kl") < 0.01) + (sum / n < 0.1) + (active / n < 0.1)) / 3
            called[step] = 100 * active / n
            kl[step] = number($0, "val_kl"); units[step] = number($0, "val_active_units")
            information[step] = number($0, "val_mutual_information")
            reconstruction[step] = number($0, "val_reconstruction")
            last = step
        }
        /"alarm": "posterior_collapse"/ { if (!alarm) alarm = number($0, "step") }
        END {
            printf "| %s | %d |", name, seed
            for (k = 0; k < 2; k++) {
                at = k ? last : quarter
                printf " %.2f | %d | %.2f | %.1f | %.2f, %.0f %% |", kl[at], units[at], information[at], reconstruction[at],
                    risk[at], called[at]
            }
            printf " %s |\n", alarm ? alarm : "none"
        }' "$run/evaluations.jsonl" "$run/metrics.jsonl"
}

mkdir -p "$out"
case ${1:-} in
table)
    echo "| setting | seed | KL | active units | mutual information | reconstruction | guide: risk, active | KL | active units | mutual information | reconstruction | guide: risk, active | alarm at step |"
    echo "|---|---|---|---|---|---|---|---|---|---|---|---|---|"
    for setting in plain used; do
        for seed in $seeds; do row $setting "$seed"; done
    done
    ;;
"")
    prepare
    for setting in plain used; do
        running=
        for seed in $seeds; do
            train $setting "$seed" &
            running="$running $!"
            if [ "$(echo "$running" | wc -w)" -ge "$workers" ]; then
                # shellcheck disable=SC2086
                wait $running || exit 1
                running=
            fi
        done
        # shellcheck disable=SC2086
        wait $running || exit 1
    done
    ;;
*) fail "unknown argument '$1' (expected table or nothing)" ;;
esac
