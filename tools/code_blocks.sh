#!/bin/sh
# Compiles and runs the programs and commands that the documentation shows: the ```c and ```sh blocks of README.md and
# those of the comment that eitp.h begins with. A C block is a whole program, built with `cc block.c -lm`; an sh block
# is run as it stands. They share a directory in which the tree appears by links, so that `make` or `build/eitp` mean
# the real ones.
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

run_block() { # file, label
    case $1 in
    *.c) (cd "$work/run" && cp "../$1" block.c && "$CC" -O2 -I"$root" block.c -lm -o block && ./block) ;;
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

# The documentation in eitp.h has to show a program; without one nothing here would notice that it is gone.
run_blocks eitp.h 1
if ! grep -q '^run .*\.c ' "$work/list"; then
    echo "put a whole program between \`\`\`c and \`\`\` in src/documentation.h" >"$work/log"
    fail "eitp.h: its documentation has no program"
fi
if [ -e README.md ]; then
    run_blocks README.md 0
else
    echo "SKIPPED README.md: there is none"
fi

echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
