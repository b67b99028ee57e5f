#!/bin/sh
# README's first program: its length, and that it needs only README.md in its directory, leaks nothing, continues after
# it is killed, and reports its status when everything is done.
LC_ALL=C
export LC_ALL
BUILD=${BUILD:-build} CC=${CC:-cc}
work=$BUILD/test_first_program
passed=0
failed=0
rm -rf "$work"
mkdir -p "$work/alone"

# The name of a check, and a command that must succeed.
check() {
    what=$1
    shift
    if "$@"; then passed=$((passed + 1)); else
        failed=$((failed + 1))
        echo "FAILED $what"
        tail -n 5 "$work/log" 2>/dev/null
    fi
}

awk '/^```c$/ { inside = 1; next } inside && /^```$/ { exit } inside' README.md >"$work/program.c"
awk '/^int main/ { inside = 1; next } inside && /^}/ { exit } inside { count++ } END { exit !(count > 5 && count <= 20) }' \
    "$work/program.c"
check "the body of main has at most 20 lines" test $? -eq 0

# The implementation.
library=${LIBRARY:-$BUILD/packed/users.o}

# An address sanitizer also reports leaks of the library, which is compiled without it.
compile() { # options
    "$CC" -O2 -Wall -Wextra -Werror "$@" -I"$BUILD/declarations" "$work/program.c" "$library" \
        $(cat "$BUILD/libraries") -o "$work/program" >"$work/log" 2>&1
}
if ! compile -fsanitize=address; then
    echo "SKIPPED leaks of the first program: $CC cannot link sanitizers"
    check "it compiles" compile
fi

cp README.md "$work/alone"
cd "$work/alone" || exit 1
start() {
    ../program >../log 2>&1 </dev/null
}
../program >../log 2>&1 </dev/null &
process=$!
# Waits up to a minute.
for wait in $(seq 3000); do
    [ -d first_run/checkpoint-20 ] && break
    sleep 0.02
done
kill -9 $process
wait $process 2>/dev/null
work=..
check "it was killed half-way" test -d first_run/checkpoint-20 -a ! -d first_run/checkpoint-200
check "the second start succeeds" start
check "and with the last step" grep -q '^step 200/200  loss [0-9.]* ' ../log
check "and with the model's text" sh -c "tail -n +2 ../log | grep -q '^eitp ..'"
check "the third start succeeds" start
check "and reports its status" grep -q '^nothing to do: step 200 of 200 is done$' ../log
check "and writes again" grep -q '^eitp ..' ../log
check "the model exists" test -f first_run/latest_model/model.safetensors
check "nothing else was read or written" test "$(ls)" = "README.md
first_run"

echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
