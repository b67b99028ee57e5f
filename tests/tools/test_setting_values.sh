#!/bin/sh
# Every setting accepts the same values from C, JSON, the command line and an options file:
# tests/tools/setting_values.c, linked with the command.
LC_ALL=C
export LC_ALL
BUILD=${BUILD:-build} CC=${CC:-cc}
case $BUILD in /*) ;; *) BUILD=$PWD/$BUILD ;; esac
work=$BUILD/test_setting_values
rm -rf "$work"
mkdir -p "$work"
objects=$(find tools/command -name '*.c' ! -name eitp.c | sed "s,^,$BUILD/,; s/c\$/o/")
"$CC" -std=c11 -I"$BUILD/declarations" -Itools/command tests/tools/setting_values.c $objects "${LIBRARY:-$BUILD/packed/users.o}" \
    $(cat "$BUILD/libraries") -o "$work/values" || {
    echo "0 passed, 1 failed"
    exit 1
}
cd "$work" && exec ./values
