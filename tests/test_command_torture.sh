#!/bin/sh
# The command: each call of the system's files of merge, tokenizer train, pack, embed and set fails once, and kills the
# process once. Nothing half-made is loaded afterwards, and the same command succeeds with the same bytes.
#   EITP_TEST_STRIDE   every how many calls; 1: at all of them
root=$PWD
. tests/command.sh
stride=${EITP_TEST_STRIDE:-89}

skip() {
    echo "SKIPPED calls of the command that fail: $1"
    finish
}

if ! "${CC:-cc}" -shared -fPIC -o calls.so "$root/tests/failing_calls.c" -ldl 2>compiler; then
    skip "${CC:-cc} cannot build a shared object from tests/failing_calls.c"
fi
# Otherwise the command executes itself, to set it.
GOMP_SPINCOUNT=1000
export GOMP_SPINCOUNT

# disturbed CALL CODE: the command in $arguments, with standard output in "result" and a call that fails; 0: none.
disturbed() {
    : >result
    CALLS_COUNT=$work/count CALLS_AT=$1 CALLS_CODE=$2 LD_PRELOAD=$work/calls.so "$eitp" $arguments >result 2>err </dev/null
}

# ---- Cases ----
#
# Each defines begin, which removes what the last command has made; is_whole: its result is complete; and is_sound:
# nothing half-made would be loaded.

same_trees() {
    diff -r "$1" "$2" >/dev/null 2>&1
}

has_leftovers() {
    find . -name '.*.partial' -o -name '.*.replaced' -o -name '.*.removed' -o -name '*.tmp' -o -name '*.partial' | grep -q .
}

# Repeats the command, unless its result is complete and, as a directory, not replaced.
repeat() {
    is_whole && ! has_leftovers && [ "$once" = yes ] && return 0
    "$eitp" $arguments >result 2>err </dev/null
    repeated=$?
    [ $repeated -eq 0 ] || sed 's/^/    /' err
    return $repeated
}

# One disturbance of a case: the call and its errno value, 0 to kill.
disturb() {
    begin
    disturbed "$1" "$2" 2>/dev/null
    ended=$?
    if [ "$2" -eq 0 ]; then
        disturbance="$case killed at call $1"
        kills=$((kills + 1))
    else
        disturbance="$case with error $2 at call $1"
        faults=$((faults + 1))
        if [ $ended -eq 0 ]; then
            is_whole || fail "$disturbance: exit code 0, and not all is written"
        elif [ $ended -gt 128 ] || ! grep -q '^error: ' err; then
            fail "$disturbance: exit code $ended"
            sed 's/^/    /' err
        fi
    fi
    is_sound || fail "$disturbance: a half-made result is loaded"
    repeat || fail "$disturbance: refused when it is repeated, with exit code $repeated"
    is_whole || fail "$disturbance: not the same bytes when it is repeated"
    ! has_leftovers || fail "$disturbance: left $(find . -name '.*.partial' -o -name '*.tmp' -o -name '*.partial' -o -name '.*.replaced')"
    passed=$((passed + 1))
}

# torture CASE ONCE ARGUMENTS...: disturbs a command at its calls.
torture() {
    case=$1
    once=$2
    shift 2
    arguments=$*
    begin
    disturbed 0 0
    check "$case: undisturbed" is_whole
    count=$(cat count 2>/dev/null)
    [ "${count:-0}" -gt 10 ] || skip "calls of the command are not counted (a static program?)"
    total=$((total + count))
    for code in 0 5 28; do # a kill, EIO, ENOSPC
        at=$((1 + (code + total) % stride))
        while [ $at -le "$count" ]; do
            disturb $at $code
            at=$((at + stride))
        done
    done
}
kills=0 faults=0 total=0

# ---- Directories that do not exist ----

none_or_whole() {
    [ ! -e made ] || is_whole
}
begin() {
    rm -rf made .made.partial
}
is_whole() {
    same_trees made reference
}
is_sound() {
    none_or_whole
}
small="--data small.txt --vocab-size 270"
exits 0 "a tokenizer" tokenizer train --family roberta $small --output reference
torture "tokenizer train" yes tokenizer train --family roberta $small --output made

exits 0 "a model" train --data small.txt --tokenizer reference --init tiny.json --vocab-size 270 --block-size 16 --steps 2 --threads 1 --output-dir run
exits 0 "adapters" train --data small.txt --model run --lora-rank 2 --block-size 16 --steps 1 --threads 1 --output-dir adapters
mv reference tokenizer
merge="--model run --adapter adapters --threads 1 --output-dir"
exits 0 "a merged model" merge $merge reference
torture "merge" yes merge $merge made

# ---- Directories that have a file of the user ----

begin() {
    rm -rf made
    mkdir made
    echo mine >made/notes
}
is_whole() {
    [ "$(cat made/notes)" = mine ] && rm made/notes && same_trees made reference
    whole=$?
    echo mine >made/notes
    return $whole
}
# The weights are the last file.
is_sound() {
    [ "$(cat made/notes)" = mine ] || return 1
    [ ! -e made/model.safetensors ] ||
        [ -z "$(diff -rq made reference | grep -v 'Only in made: \(notes\|.eitp.partial\)$')" ]
}
torture "merge into a directory" yes merge $merge made

rm -rf reference
mv tokenizer reference
"$eitp" tokenizer inspect --tokenizer reference --json >inspected
# What is loaded is the whole tokenizer.
is_sound() {
    ! "$eitp" tokenizer inspect --tokenizer made --json >made.json 2>err || [ "$(sed 's/"made"/"reference"/' made.json)" = "$(cat inspected)" ]
}
torture "tokenizer train into a directory" yes tokenizer train --family roberta $small --output made

# ---- A file, which may have an earlier content ----

exits 0 "an earlier token file" pack --data tiny.json --output earlier.tok
exits 0 "a token file" pack --data small.txt --tokenizer reference --output expected.tok
begin() {
    cp earlier.tok made.tok
}
is_whole() {
    same made.tok expected.tok
}
is_sound() {
    is_whole || same made.tok earlier.tok
}
torture "pack" no pack --data small.txt --tokenizer reference --output made.tok

# ---- Standard output ----

printf 'a text\nand another\n' >rows.txt
embed="--model run --data rows.txt --threads 1"
"$eitp" embed $embed >expected 2>err
cp -r run kept
begin() {
    rm -f result
}
is_whole() {
    same result expected
}
is_sound() {
    same_trees run kept
}
torture "embed" no embed $embed

# ---- A checkpoint that is replaced ----

exits 0 "settings" set run/checkpoint-2 lr=1e-5
mv run/checkpoint-2 changed
begin() {
    rm -rf run
    cp -r kept run
}
is_whole() {
    same_trees run/checkpoint-2 changed
}
# Between two renames it has its other name, which a resume knows.
is_sound() {
    [ ! -e run/checkpoint-2 ] || is_whole || same_trees run/checkpoint-2 kept/checkpoint-2
}
torture "set" no set run/checkpoint-2 lr=1e-5

echo "$kills kills and $faults faults at $total calls of commands (stride $stride)"
finish
