#!/bin/sh
# The command: power is lost at each change that merge, tokenizer train, pack, export and set make to the disk, which
# keeps any part of the unsynced data, in any order (tests/support/simulated_disk.h). No incomplete file is loaded
# afterwards, and the same command succeeds with the same bytes. A power loss after the command has ended does not
# affect its result.
#   EITP_TEST_STRIDE   loses power at every n-th change; 1: at all of them
#   EITP_TEST_SEEDS    random disk states of each kind at each of them
root=$PWD
. tests/command/command.sh
stride=${EITP_TEST_STRIDE:-11}
seeds=${EITP_TEST_SEEDS:-2}

skip() {
    echo "SKIPPED power loss of the command: $1"
    finish
}

if ! "${CC:-cc}" -shared -fPIC -o recorded.so "$root/tests/command/recorded_calls.c" -ldl 2>compiler; then
    skip "${CC:-cc} cannot build a shared object from tests/command/recorded_calls.c"
fi
check "build tests/command/power_losses.c" "${CC:-cc}" -pthread -DEITP_SPLIT -I"$root/src" -I"$root" -o power_losses \
    "$root/tests/command/power_losses.c" "$root/src/base/checksum.c"
# Otherwise the command would execute itself again to set it.
GOMP_SPINCOUNT=1000
export GOMP_SPINCOUNT

# lose AT KIND SEED: writes the disk content after a loss.
lose() {
    rm -rf $disk
    ./power_losses calls before "$1" "$2" "$3" .
}

# Tries one loss of a case.
disturb() {
    disturbance="$case, power lost at change $1, $2, seed $3"
    states=$((states + 1))
    lose "$1" "$2" "$3"
    [ "$1" != end ] || is_whole || fail "$disturbance: the result of exit code 0 is lost"
    check_repeated
}

# torture CASE ONCE ARGUMENTS...: loses power at the changes made by a command.
torture() {
    begin_case "$@"
    rm -rf before
    mkdir before
    for name in $disk; do
        [ ! -e "$name" ] || cp -r "$name" before
    done
    rm -f calls
    RECORDED_CALLS=$work/calls LD_PRELOAD=$work/recorded.so "$eitp" $arguments >result 2>err </dev/null
    check "$case: undisturbed" is_whole
    [ -s calls ] || skip "calls of the command are not recorded (a static program?)"
    lose end nothing-lost 0
    check "$case: the recorded calls are all that change the disk" is_whole
    ./power_losses calls before "$stride" "$seeds" >losses 2>changes
    check "$case: power losses" test -s losses
    total=$((total + $(cat changes)))
    while read -r at kind seed; do
        disturb "$at" "$kind" "$seed"
    done <losses
}
states=0 total=0

. "$root/tests/command/cases.sh"
echo "$states power losses at $total changes of commands (stride $stride, $seeds seeds)"
finish
