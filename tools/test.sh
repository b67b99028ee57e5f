#!/bin/sh
# Builds and runs every test; ends with "N passed, N failed" and fails if any did. Run by `make test`, from the root.
#   TEST=word   only what has the word in its name
#   CHECK=1     starts with `make check`
#   FUZZ_RUNS   inputs each fuzz target is tried with
LC_ALL=C
export LC_ALL
MAKE=${MAKE:-make} BUILD=${BUILD:-build} CC=${CC:-cc} CLANG=${CLANG:-clang} TEST=${TEST:-} FUZZ_RUNS=${FUZZ_RUNS:-20000}
JOBS=${JOBS:-$(nproc 2>/dev/null || echo 1)}
export MAKE BUILD CC CLANG JOBS FUZZ_RUNS
logs=$BUILD/logs
limit=600
passed=0
failed=0
mkdir -p "$logs"

wanted() {
    case $1 in *"$TEST"*) return 0 ;; *) return 1 ;; esac
}

# Runs a command with the time limit; its output goes to the file $log.
run_limited() {
    if command -v timeout >/dev/null 2>&1; then
        timeout -k 10 "$limit" "$@" >"$log" 2>&1 </dev/null
    else
        "$@" >"$log" 2>&1 </dev/null
    fi
}

# Adds a result line "N passed, N failed" to the sums; fails on any other line.
add_result() {
    set -- $1
    [ $# -eq 4 ] && [ "$2" = passed, ] && [ "$4" = failed ] || return 1
    case $1$3 in *[!0-9]*) return 1 ;; esac
    passed=$((passed + $1))
    failed=$((failed + $3))
    result_failed=$3
}

fail() {
    failed=$((failed + 1))
    echo "FAILED $1: $2"
}

# One test: a program or script whose last line is its result.
run() {
    name=$1
    shift
    wanted "$name" || return 0
    if [ ! -e "$1" ]; then
        fail "$name" "was not built"
        return 0
    fi
    case $1 in *.sh) set -- sh "$@" ;; esac
    log=$logs/$(echo "$name" | tr / _).log
    run_limited "$@"
    status=$?
    result=$(tail -n 1 "$log")
    if add_result "$result"; then
        # What says more than the result: failures with their explanations, and what was left out.
        [ "$status" -eq 0 ] && [ "$result_failed" -eq 0 ] && grep '^SKIPPED' "$log"
        [ "$status" -eq 0 ] && [ "$result_failed" -eq 0 ] || sed '$d' "$log" | tail -n 200
        echo "$name: $result"
        [ "$status" -eq 0 ] || [ "$result_failed" -gt 0 ] || fail "$name" "exit status $status"
    else
        tail -n 200 "$log"
        [ "$status" -eq 124 ] && fail "$name" "still running after $limit seconds"
        [ "$status" -eq 124 ] || fail "$name" "exit status $status and no result line"
    fi
}

# A test that only has to build or to succeed.
run_simple() {
    name=$1
    shift
    wanted "$name" || return 0
    log=$logs/$name.log
    if run_limited "$@"; then
        passed=$((passed + 1))
        grep -i skipped "$log"
        echo "$name: 1 passed, 0 failed"
    else
        tail -n 200 "$log"
        fail "$name" "see above"
    fi
}

[ "${CHECK:-0}" = 1 ] && run_simple check "$MAKE" --no-print-directory check
sh tools/install_dependencies.sh test

# Where the jobs are not shared out by a make above, this one shares them out.
case ${MAKEFLAGS:-} in *jobserver*) jobs= ;; *) jobs=-j$JOBS ;; esac
$MAKE --no-print-directory -k $jobs test-programs >"$logs/build.log" 2>&1 ||
    grep -v "^$CC \|^$CLANG " "$logs/build.log" | tail -n 300
$MAKE --no-print-directory -s print-skipped | tee "$logs/skipped"

for source in tests/test_*.c; do
    [ -e "$source" ] || continue
    test=$(basename "$source" .c)
    run "split/$test" "$BUILD/split/tests/$test"
    case $test in *_emulated) continue ;; esac
    # What takes long and is the same code again has fewer cases.
    export EITP_TEST_QUICK=1
    run "packed/$test" "$BUILD/packed/tests/$test"
    grep -q 'SKIPPED sanitizers' "$logs/skipped" || run "sanitized/$test" "$BUILD/sanitized/tests/$test"
    unset EITP_TEST_QUICK
done
for source in tests/test_*.sh; do
    [ -e "$source" ] && run "$(basename "$source")" "$source"
done
for source in tests/fuzz_*.c; do
    [ -e "$source" ] && run "$(basename "$source" .c)" tools/fuzz.sh "$(basename "$source" .c)"
done
for source in examples/*.c; do
    [ -e "$source" ] && run_simple "example-$(basename "$source" .c)" test -x "$BUILD/examples/$(basename "$source" .c)"
done
run compile_matrix tools/compile_matrix.sh pairwise
run code_blocks tools/code_blocks.sh

echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
