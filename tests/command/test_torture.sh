#!/bin/sh
# The command: each file system call of merge, tokenizer train, pack, export, embed, generate and set fails once, and kills
# the process once. No incomplete file is loaded afterwards, and the same command succeeds with the same bytes.
#   EITP_TEST_STRIDE   tries every n-th call; 1: all of them
root=$PWD
. tests/command/command.sh
stride=${EITP_TEST_STRIDE:-89}

skip() {
    echo "SKIPPED calls of the command that fail: $1"
    finish
}

if ! "${CC:-cc}" -shared -fPIC -o calls.so "$root/tests/command/failing_calls.c" -ldl 2>compiler; then
    skip "${CC:-cc} cannot build a shared object from tests/command/failing_calls.c"
fi
# Otherwise the command would execute itself again to set it.
GOMP_SPINCOUNT=1000
export GOMP_SPINCOUNT

# disturbed CALL CODE: runs the command in $arguments, with standard output in "result" and a failing call; 0: none.
disturbed() {
    : >result
    CALLS_COUNT=$work/count CALLS_AT=$1 CALLS_CODE=$2 LD_PRELOAD=$work/calls.so "$eitp" $arguments >result 2>err </dev/null
}

# Disturbs a case once: the call and its errno value, or 0 to kill.
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
            is_whole || fail "$disturbance: exit code 0, but the output is incomplete"
        elif [ $ended -gt 128 ] || ! grep -q '^error: ' err; then
            fail "$disturbance: exit code $ended"
            sed 's/^/    /' err
        fi
    fi
    check_repeated
}

# torture CASE ONCE ARGUMENTS...: disturbs a command at its calls.
torture() {
    begin_case "$@"
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

. "$root/tests/command/cases.sh"
echo "$kills kills and $faults faults at $total calls of commands (stride $stride)"
finish
