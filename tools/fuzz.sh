#!/bin/sh
# Runs one fuzz target, fuzz_NAME: on its seeds in tests/fuzz/corpus/NAME and, if it was built with libFuzzer, on FUZZ_RUNS
# inputs derived from them, for at most FUZZ_SECONDS. The random seed is fixed, so results repeat. Inputs that crash are
# saved in build/fuzz/.
BUILD=${BUILD:-build} FUZZ_RUNS=${FUZZ_RUNS:-20000} FUZZ_SECONDS=${FUZZ_SECONDS:-15}
name=$1
program=$BUILD/fuzz/tests/fuzz/$name
seeds=tests/fuzz/corpus/${name#fuzz_}
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

fail() {
    echo "FAILED $name: $1"
    echo "0 passed, 1 failed"
    exit 1
}

# Only libFuzzer has this option.
if "$program" -help=1 2>&1 | grep -q -e '-max_total_time'; then
    [ -d "$seeds" ] && set -- "$seeds" || set --
    set -- -runs="$FUZZ_RUNS" -seed=1 -max_len=65536 -max_total_time="$FUZZ_SECONDS" -timeout=20 -rss_limit_mb=1024 \
        -print_final_stats=1 -artifact_prefix="$BUILD/fuzz/$name." "$found" "$@"
    "$program" "$@" >"$found.log" 2>&1 || {
        tail -n 100 "$found.log"
        fail "$program $*"
    }
    grep 'number_of_executed_units: *[1-9]' "$found.log" || fail "it tried nothing, see $found.log"
else
    "$program" "$@" || fail "$program $*"
fi
echo "1 passed, 0 failed"
