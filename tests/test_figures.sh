#!/bin/sh
# The figures that the command reports about itself, held against what they must be. Never how long anything took.
LC_ALL=C
export LC_ALL
BUILD=${BUILD:-build}
case $BUILD in /*) ;; *) BUILD=$PWD/$BUILD ;; esac
eitp=$BUILD/eitp
work=$BUILD/test_figures
passed=0
failed=0
rm -rf "$work"
mkdir -p "$work"
cd "$work" || exit 1

# The name of a check, and a command that must succeed.
check() {
    what=$1
    shift
    if "$@"; then passed=$((passed + 1)); else
        failed=$((failed + 1))
        echo "FAILED $what"
    fi
}

# The arguments of eitp, which must succeed; output in files out and err.
succeeds() {
    check "$*" "$eitp" "$@" >out 2>err </dev/null || sed 's/^/    /' err
}

# The number of a member in the JSON object in the file out.
number() {
    sed "s/.*\"$1\": \(-\{0,1\}[0-9.e+-]*\).*/\1/" out
}

awk 'BEGIN {
    for (i = 0; i < 400; i++)
        printf "Line %d: a quick fox number %d jumps over %d lazy dogs.\n", i, i * 7 % 13, i * i % 97
}' >text.txt
cat >tiny.json <<'END'
{"model_type": "gpt2", "vocab_size": 257, "n_positions": 64, "n_embd": 16, "n_head": 2, "n_layer": 2}
END

# ---- peak memory: of the process, not of the one that started it ----

# The kernel counts what a process had before an exec into its ru_maxrss: here the 134 MB of awk.
awk -v "command=exec '$eitp' train --data text.txt --init tiny.json --block-size 16 --threads 1 --steps 1 --json \
    --output-dir run >out 2>err </dev/null" 'BEGIN {
    text = "0123456789abcdef"
    for (i = 0; i < 23; i++)
        text = text text
    failed = system(command)
    exit failed || length(text) != 134217728
}'
check "training under a large process" test $? -eq 0
check "the peak is not that of the parent" test "$(number peak_rss_bytes)" -lt 60000000
check "the peak is there" test "$(number peak_rss_bytes)" -gt 1000000

cd / && rm -rf "$work"
echo "$passed passed, $failed failed"
[ $failed -eq 0 ]
