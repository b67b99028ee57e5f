#!/bin/sh
# Compiles eitp.h for another C library or processor, with warnings as errors, and runs an example and test programs:
#   ports.sh musl | aarch64 | riscv64
# qemu-user emulates other processors. A port is skipped if its tools are not installed.
LC_ALL=C EITP_TEST_QUICK=1
export LC_ALL EITP_TEST_QUICK
BUILD=${BUILD:-build}
port=$1
work=$BUILD/ports/$port
warnings='-Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wmissing-prototypes -Wundef -Werror'
tests='attention convert data execute files gpt2 json kernels ops safetensors tokenizer'
passed=0
failed=0

case $port in
musl) compiler=musl-gcc emulator= package=musl-tools ;;
aarch64) compiler=aarch64-linux-gnu-gcc emulator=qemu-aarch64 package=gcc-aarch64-linux-gnu ;;
riscv64) compiler=riscv64-linux-gnu-gcc emulator=qemu-riscv64 package=gcc-riscv64-linux-gnu ;;
*)
    echo "usage: ports.sh musl | aarch64 | riscv64" >&2
    exit 2
    ;;
esac

finish() {
    echo "$passed passed, $failed failed"
    [ "$failed" -eq 0 ]
    exit
}

skip() {
    echo "SKIPPED $port: $1"
    finish
}

check() { # what, command...
    what=$1
    shift
    if "$@" >"$work/log" 2>&1 </dev/null; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "FAILED $port: $what"
        sed 's/^/    /' "$work/log" | tail -n 40
        return 1
    fi
}

compile() { # options and files...
    "$compiler" -std=c11 -O1 $warnings -static "$@" -lm
}

# Tests call private functions, which tests/support/packed.c makes visible.
everything="-DEITP_SPLIT -I$BUILD/split -Isrc -I."

rm -rf "$work"
mkdir -p "$work"
command -v $compiler >/dev/null 2>&1 || skip "$compiler is not installed (package $package)"
[ -z "$emulator" ] || command -v $emulator >/dev/null 2>&1 || skip "$emulator is not installed (package qemu-user)"
printf '#include <stdio.h>\nint main(void) { return puts("") < 0; }\n' >"$work/probe.c"
"$compiler" -static "$work/probe.c" -o "$work/probe" >/dev/null 2>&1 && $emulator "$work/probe" >/dev/null 2>&1 ||
    skip "$compiler does not link a program that runs here (package libc6-dev-...-cross)"

check "eitp.h" compile -I. -c tests/support/packed.c -o "$work/eitp.o" || finish
sed '/^#define EITP_IMPLEMENTATION$/d' examples/hello.c >"$work/hello.c"
check "examples/hello.c" compile -I. "$work/hello.c" "$work/eitp.o" -o "$work/hello" &&
    check "hello" $emulator "$work/hello"
for test in $tests; do
    source=$(echo tests/*/test_$test.c)
    check "$source" compile $everything "$source" "$work/eitp.o" -o "$work/$test" &&
        check "test_$test" $emulator "$work/$test"
done
finish
