#!/bin/sh
# A program with its own loop, with and without the records and guards of a run (examples/own_loop.c).
source=$PWD/examples/own_loop.c
. tests/command/command.sh
program=$(dirname "$eitp")/examples/own_loop

runs() { # name, directory
    if "$program" "$2" >out 2>err </dev/null; then pass; else
        fail "$1"
        sed 's/^/    /' err
    fi
}

# Counts the lines of each loop, without comments and empty lines.
lines_of() { # a word of its heading
    sed -n "/^\/\* ---- $1/,/^\/\* ---- /p" "$source" | grep -cvE '^(/\*.*\*/)?$'
}

more=$(($(lines_of 'With ') - $(lines_of Without)))
check "at most 15 lines more (there are $more)" test "$more" -le 15
check "the first comment has their number" grep -q "the same with $more lines more" "$source"

runs "trains" out.d
check "both compute the same bits" same_checkpoints out.d/plain/checkpoint-300 out.d/watched/checkpoint-300
check "every step is recorded" test "$(grep -c '"loss": ' out.d/watched/metrics.jsonl)" = 300
check "and every evaluation" test "$(grep -c '"val_loss": ' out.d/watched/metrics.jsonl)" = 3
check "and the times of the steps" grep -q '"perf/steps": 100, ' out.d/watched/metrics.jsonl
runs "is done" out.d
check "nothing is recorded twice" test "$(grep -c '"loss": ' out.d/watched/metrics.jsonl)" = 300
finish
