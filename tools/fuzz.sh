#!/bin/sh
# Runs one fuzz target, FOLDER/fuzz_NAME, on its seeds in tests/fuzz/corpus/NAME and on FUZZ_RUNS inputs derived from
# them, for at most FUZZ_SECONDS: fuzz.sh PROGRAM. The programs in build/fuzz use libFuzzer, which derives inputs from
# those that reached new code; the others use tests/fuzz/main.c. The random seed is fixed, so results are reproducible.
# Inputs that crash are saved in build/fuzz_found/.
BUILD=${BUILD:-build} FUZZ_RUNS=${FUZZ_RUNS:-5000} FUZZ_SECONDS=${FUZZ_SECONDS:-15}
program=$1
name=$(basename "$program")
seeds=tests/fuzz/corpus/${name#fuzz_}
found=$BUILD/fuzz_found/$name

fail() {
    echo "FAILED $name: $1"
    echo "0 passed, 1 failed"
    exit 1
}

[ -x "$program" ] || fail "$program does not exist"
rm -rf "$found" "$found.crash"
mkdir -p "$found"
case $program in
"$BUILD"/fuzz/*)
    tried='number_of_executed_units: *[1-9]'
    set -- -runs="$FUZZ_RUNS" -seed=1 -max_len=65536 -max_total_time="$FUZZ_SECONDS" -timeout=20 -rss_limit_mb=1024 \
        -print_final_stats=1 -artifact_prefix="$found." "$found" "$seeds"
    ;;
*)
    tried='^[1-9][0-9]* files and [1-9][0-9]* inputs made of them'
    export ASAN_OPTIONS="hard_rss_limit_mb=1024${ASAN_OPTIONS:+:$ASAN_OPTIONS}"
    set -- -runs="$FUZZ_RUNS" -max_total_time="$FUZZ_SECONDS" -input="$found.crash" "$seeds"/*
    ;;
esac
"$program" "$@" >"$found.log" 2>&1 || {
    tail -n 100 "$found.log"
    fail "$program $*"
}
rm -f "$found.crash"
grep "$tried" "$found.log" || fail "no inputs were tried, see $found.log"
echo "1 passed, 0 failed"
