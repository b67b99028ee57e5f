#!/bin/sh
# Trains a tokenizer and a small GPT-2 from scratch on the C headers of this machine. All files are in build/quickstart.
# Resumes if it was interrupted, starts over if it had finished. `make quickstart` builds the command and runs this from
# the root.
set -eu
LC_ALL=C
export LC_ALL
BUILD=${BUILD:-build} CC=${CC:-cc}
eitp=$BUILD/eitp
out=$BUILD/quickstart
vocabulary=2048 steps=2400
limit=8000000 # bytes of text

say() {
    printf '\n== %s\n' "$*"
}

# Finds the headers of libc and of the kernel, which differ little between machines: next to stdio.h and in these
# folders.
find_headers() {
    include=$(echo '#include <stdio.h>' | $CC -E -x c - 2>/dev/null |
        sed -n 's,^# [0-9]* "\(/.*\)/stdio\.h".*,\1,p' | head -n 1)
    [ -n "$include" ] || include=/usr/include
    set -- "$include"/*.h
    for part in arpa asm-generic linux net netinet sys; do
        [ -d "$include/$part" ] && set -- "$@" "$include/$part"
    done
    for part in "$include"/bits "$include"/*-linux-*/asm "$include"/*-linux-*/bits "$include"/*-linux-*/sys; do
        [ -d "$part" ] && set -- "$@" "$part"
    done
    find "$@" -type f -name '*.h' 2>/dev/null
}

# Takes each content once, ordered by checksum. So the order does not depend on names and dates, and the validation
# split has headers of all kinds.
gather_text() {
    find_headers | grep -v '[^A-Za-z0-9_./+-]' | xargs cksum | sort -n | awk -v limit="$limit" '
        NF > 2 && $1 != last && total + $2 <= limit { total += $2; print $3 }
        { last = $1 }' >"$out/headers"
    [ -s "$out/headers" ] || {
        echo "quickstart: '$CC' cannot find stdio.h; install the C library's headers, which are the training text" >&2
        exit 1
    }
    xargs awk 'FNR == 1 { printf "<|endoftext|>" } { print }' <"$out/headers" >"$out/headers.txt"
}

[ ! -e "$out/finished" ] || rm -rf "$out"
if [ ! -e "$out/headers.tok" ]; then
    rm -rf "$out"
    mkdir -p "$out"
    gather_text
    say "text: $(wc -l <"$out/headers" | tr -d ' ') C headers, $(wc -c <"$out/headers.txt" | tr -d ' ') bytes"
    "$eitp" tokenizer train --data "$out/headers.txt" --vocab-size $vocabulary --output "$out/tokenizer"
    "$eitp" pack --data "$out/headers.txt" --tokenizer "$out/tokenizer" --output "$out/headers.tok.new" --json \
        >"$out/pack.json"
    mv "$out/headers.tok.new" "$out/headers.tok"
fi
unigram=$(sed -n 's/.*"unigram_entropy": \([0-9.]*\).*/\1/p' "$out/pack.json")

say "training a GPT-2 with 4 layers of width 128 from random weights; Ctrl-C stops it, \`make quickstart\` resumes"
"$eitp" train --data "$out/headers.tok" --tokenizer "$out/tokenizer" --init tiny --dropout 0 \
    --block-size 128 --batch-size 4 --grad-accum 1 --steps $steps --lr 4e-3 --lr-schedule cosine --warmup-steps 100 \
    --weight-decay 0.1 --beta2 0.99 --max-grad-norm 1 --seed 1 --eval-steps 1000 --eval-windows 500 --save-steps 1000 \
    --log-every 200 --output-dir "$out/run" --resume auto
touch "$out/finished"

say "generated text after '#include <', '/* ' and 'struct '"
for prompt in '#include <' '/* ' 'struct '; do
    "$eitp" generate --quiet --model "$out/run" --prompt "$prompt" --tokens 80 --temperature 0.7 --top-k 40 --seed 1
done

losses=$(sed -n 's/.*"val_loss": \([0-9.]*\).*/\1/p' "$out/run/metrics.jsonl")
say "result"
echo "$losses" | awk -v unigram="$unigram" -v vocabulary=$vocabulary -v run="$out/run" -v eitp="$eitp" '
    NR == 1 { first = $1 }
    { final = $1 }
    END {
        printf "Loss on held-out headers, in nats per token (lower is better):\n"
        printf "  %.2f  guessing among %d tokens\n", log(vocabulary), vocabulary
        printf "  %.2f  the model before training\n", first
        printf "  %.2f  guessing by the frequency of each token (unigram entropy)\n", unigram
        printf "  %.2f  the model after training\n", final
        printf "The model is in %s. Try %s generate --model %s --prompt ...\n", run, eitp, run
        if (final > unigram - 1) {
            print "quickstart: the loss is not 1 below the unigram entropy, as expected"
            exit 1
        }
    }'
