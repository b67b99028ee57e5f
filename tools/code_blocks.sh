#!/bin/sh
# Compiles and runs the programs and commands in the documentation: the ```c and ```sh blocks of README.md, of
# docs/command.md, and of the comment at the start of eitp.h. A C block is a whole program that includes eitp.h; an sh
# block is run unchanged. The blocks of a document share a directory with links to the tree, so that `make` and
# `build/eitp` work. C blocks are linked with eitp.h as users compile it. With ALONE=1, the implementation is compiled
# from a two-line file, as the documentation describes.
#   <!-- not run: reason -->   before a block: skips it and reports the reason
#   <!-- file: name -->        before a block: saves it under that name for the following blocks, without running it
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

# Built once per document, without OpenMP, as in the first command of the documentation.
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
            echo "block $file is not closed" >"$work/log"
            fail "$label"
            ;;
        run) run_block "$file" "$label" ;;
        esac
    done <"$work/list"
}

# Runs the blocks of a document. Prints messages, then the numbers of blocks that passed and failed.
document() { # document, 1 where the blocks are in its first comment
    run_blocks "$1" "$2"
    # Otherwise a missing program in eitp.h's documentation would go unnoticed.
    if [ "$2" = 1 ] && ! grep -q '^run .*\.c ' "$work/list"; then
        echo "put a whole program between \`\`\`c and \`\`\` in src/documentation.h" >"$work/log"
        fail "$1: the documentation has no program"
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
        echo "SKIPPED $name: it does not exist"
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
