#!/bin/sh
# The limits of tools/test.sh: processor time ends a program, waiting time only at the backstop, and processes started
# by a program end with it.
LC_ALL=C
export LC_ALL
unset MAKEFLAGS MFLAGS MAKELEVEL CHECK TEST
BUILD=${BUILD:-build}
work=$BUILD/test_time_limits
script=$(pwd)/tools/test.sh
passed=0
failed=0
rm -rf "$work"
for folder in tests/command tests/tools tests/golden tests/fuzz/corpus tools/amalgamate tools/command; do
    mkdir -p "$work/$folder"
done
cp "$script" tools/remember.sh tools/opened.awk "$work/tools"
: >"$work/tests/command/test_none.sh"

check() { # what, command...
    what=$1
    shift
    if "$@"; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "FAILED $what"
        sed 's/^/    /' "$work/out"
    fi
}

# ---- limited programs ----

cat >"$work/tests/tools/test_busy.sh" <<'END'
while :; do :; done
END
cat >"$work/tests/tools/test_waiting.sh" <<'END'
sleep 2
echo "1 passed, 0 failed"
END
cat >"$work/tests/tools/test_endless.sh" <<'END'
sleep 1000 &
echo $! >child
wait
END

# Runs one of them. `make` builds nothing. The report is in out.
run() { # name, limits...
    name=$1
    shift
    (cd "$work" && env "$@" MAKE=true BUILD=build JOBS=1 TEST="test_$name" sh tools/test.sh quick >../test_time_limits.out 2>&1)
    code=$?
    mv "$work/../test_time_limits.out" "$work/out"
    return $code
}

refuses() {
    ! run "$@"
}

if (ulimit -t 1) 2>/dev/null; then
    check "a busy program fails" refuses busy LIMIT=1 WALL_LIMIT=100000
    check "and the processor time is named" \
        grep -q '^FAILED test_busy: killed, perhaps after 1 seconds of processor time$' "$work/out"
    check "a program that waits longer passes" run waiting LIMIT=1 WALL_LIMIT=100000
else
    echo "SKIPPED processor time: the shell has no ulimit -t"
fi

# True if a process has ended, within a minute. One without a waiting parent remains a zombie.
has_ended() {
    for look in $(seq 3000); do
        kill -0 "$1" 2>/dev/null || return 0
        grep -q '^State:.*Z' "/proc/$1/status" 2>/dev/null && return 0
        sleep 0.02
    done
    return 1
}

if command -v timeout >/dev/null 2>&1; then
    check "an endless program fails" refuses endless LIMIT=1000 WALL_LIMIT=1
    check "and the time is named" grep -q '^FAILED test_endless: still running after 1 seconds$' "$work/out"
    check "its child processes have ended" has_ended "$(cat "$work/child")"
else
    echo "SKIPPED the backstop: timeout is not installed"
fi

echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
