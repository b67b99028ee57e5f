#!/bin/sh
# Runs one fuzz target, fuzz_NAME: on its seeds in tests/corpus/NAME, then, where it was built with libFuzzer, on
# FUZZ_RUNS inputs made from them. The seed is fixed, so a run can be repeated; what crashes is kept in build/fuzz/.
BUILD=${BUILD:-build} FUZZ_RUNS=${FUZZ_RUNS:-20000}
name=$1
program=$BUILD/fuzz/tests/$name
seeds=tests/corpus/${name#fuzz_}
if [ ! -x "$program" ]; then
    echo "FAILED $name: $program was not built"
    echo "0 passed, 1 failed"
    exit 1
fi
found=$BUILD/fuzz/$name.found
rm -rf "$found"
mkdir -p "$found"
set --
if [ -d "$seeds" ]; then
    set -- "$seeds"/*
    [ -e "$1" ] || set --
fi
# libFuzzer's own option; the program that stands in for it does not know it.
if grep -q 'LibFuzzer' "$program" 2>/dev/null || "$program" -help=1 2>/dev/null | grep -q runs; then
    [ -d "$seeds" ] && set -- "$seeds" || set --
    set -- -runs="$FUZZ_RUNS" -seed=1 -max_len=65536 -max_total_time=60 -timeout=20 -rss_limit_mb=1024 -verbosity=0 \
        -artifact_prefix="$BUILD/fuzz/$name." "$found" "$@"
fi
if "$program" "$@"; then
    echo "1 passed, 0 failed"
else
    echo "FAILED $name: $program $*"
    echo "0 passed, 1 failed"
    exit 1
fi
