#!/bin/sh
# Compiles and runs the programs and commands that the documentation shows: the ```c and ```sh blocks of README.md and
# docs/command.md, and those of the comment that eitp.h begins with. A C block is a whole program that includes eitp.h;
# an sh block is run unchanged. The blocks of a document share a directory in which the tree appears by links, so that
# `make` or `build/eitp` mean the real ones. C blocks are linked with eitp.h as users compile it; with ALONE=1 the implementation is compiled from a file
# of two lines, as readers are told to.
#   <!-- not run: reason -->   before a block: it is left out, and the reason is reported
#   <!-- file: name -->        before a block: it is saved under that name for the blocks after it, not run by itself
LC_ALL=C
export LC_ALL
BUILD=${BUILD:-build} CC=${CC:-cc}
root=$(pwd)
passed=0
failed=0

pass() {
    passed=$((passed + 1))
}

fail() {
    failed=$((failed + 1))
    echo "FAILED $1"
    sed 's/^/    /' "$work/log" | tail -n 40
}

prepare() {
    rm -rf "$work"
    mkdir -p "$work/run"
    for entry in "$root"/* "$root"/.ci; do
        [ -e "$entry" ] && ln -s "$entry" "$work/run/"
    done
}

# Once for each document. OpenMP is left out, as it is in what readers are told first.
build_implementation() {
    [ -e "$work/eitp.o" ] && return
    printf '#define EITP_IMPLEMENTATION\n#include "eitp.h"\n' >"$work/eitp.c"
    "$CC" -O2 -I"$root" -c "$work/eitp.c" -o "$work/eitp.o"
}

build_block() { # file
    if [ "${ALONE:-0}" = 1 ]; then
        build_implementation && "$CC" -O2 -I"$root" "$work/$1" "$work/eitp.o" -lm -o "$work/run/block"
    else
        "$CC" -O2 -Wall -Wextra -Werror -I"$root/$BUILD/declarations" "$work/$1" \
            "$root/$BUILD/packed/users.o" $(cat "$root/$BUILD/libraries") -o "$work/run/block"
    fi
}

run_block() { # file, label
    case $1 in
    *.c) build_block "$1" && (cd "$work/run" && ./block) ;;
    *.sh) (cd "$work/run" && CC="$CC" sh -eu "../$1") ;;
    esac >"$work/log" 2>&1 </dev/null
    if [ $? -eq 0 ]; then pass; else fail "$2"; fi
}

run_blocks() { # document, 1 where the blocks are in its first comment
    work=$root/$BUILD/blocks/$(basename "$1")
    prepare
    awk -v OUT="$work" -v COMMENT="$2" -f tools/code_blocks.awk "$1" >"$work/list"
    while read -r what file line detail; do
        label="$1:$line: ${detail:-code block}"
        case $what in
        skipped) echo "SKIPPED $1:$line: $detail" ;;
        named) cp "$work/$file" "$work/run/$detail" && pass ;;
        unclosed)
            echo "the block $file has no end" >"$work/log"
            fail "$label"
            ;;
        run) run_block "$file" "$label" ;;
        esac
    done <"$work/list"
}

# The blocks of a document: what there is to say of them, then how many passed and failed.
document() { # document, 1 where the blocks are in its first comment
    run_blocks "$1" "$2"
    # Without a program in eitp.h's documentation nothing here would notice that it is gone.
    if [ "$2" = 1 ] && ! grep -q '^run .*\.c ' "$work/list"; then
        echo "put a whole program between \`\`\`c and \`\`\` in src/documentation.h" >"$work/log"
        fail "$1: its documentation has no program"
    fi
    echo "$passed $failed"
}

results=$root/$BUILD/blocks
mkdir -p "$results"
document eitp.h 1 >"$results/eitp.h.result" &
for name in README.md docs/command.md; do
    if [ -e $name ]; then
        document $name 0 >"$results/$(basename $name).result" &
    else
        echo "SKIPPED $name: there is none"
        echo "0 0" >"$results/$(basename $name).result"
    fi
done
wait
for name in eitp.h README.md command.md; do
    result=$results/$name.result
    sed '$d' "$result"
    set -- $(tail -n 1 "$result")
    passed=$((passed + $1))
    failed=$((failed + $2))
done

echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
