#!/bin/sh
# tools/gpu_check.sh with parts that pass, fail, hang, and are killed: each is reported, none stops the others, and their
# processes end with them. And the functions of the real parts, with runs that are right and wrong.
LC_ALL=C
export LC_ALL
unset GPU_CHECK GPU_CHECK_PARTS EMULATED_GPU OUT DEVICE
root=$PWD
BUILD=${BUILD:-build}
case $BUILD in /*) ;; *) BUILD=$PWD/$BUILD ;; esac
work=$BUILD/test_gpu_check
passed=0
failed=0
rm -rf "$work"
mkdir -p "$work/parts" "$work/files"
BUILD=$work
export BUILD
echo "built by a test" >"$work/files/built.txt"
cp tools/gpu_check/common.sh "$work/parts"

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

# Runs the script. Its output is in out. True if the exit code is the first argument.
gpu_check() { # code, settings...
    code=$1
    shift
    env GPU_CHECK_PARTS="$work/parts" OUT="$work/report" "$@" sh tools/gpu_check.sh "$work/files" >"$work/out" 2>&1
    [ $? -eq "$code" ]
}

# True if a process has ended, within a minute. One without a waiting parent remains a zombie.
has_ended() {
    for look in $(seq 3000); do
        kill -0 "$1" 2>/dev/null || return 0
        grep -q '^State:.*Z' "/proc/$1/status" 2>/dev/null && return 0
        sleep 0.02
    done
    return 1
}

# True if the file exists within a minute.
appears() {
    for look in $(seq 3000); do
        [ ! -s "$1" ] || return 0
        sleep 0.02
    done
    return 1
}

part() { # name, seconds; its commands are on standard input
    echo "$1 $2 1000 content" >>"$work/parts/parts.txt"
    { echo '. "$parts/common.sh"'; cat; } >"$work/parts/$1.sh"
}

# ---- parts ----

part good 100 <<'END'
check "a command that succeeds" true
echo "output that is not in the report"
skip "a tool" "it is not installed"
sleep 1000 &
echo $! >../left
END
part bad 100 <<'END'
check "a command that fails" sh -c 'echo its output; exit 7'
check "a command that takes too long" limited 0.1 sleep 1000
END
part hanging 1 <<'END'
check "a check before the limit" true
sleep 1000 &
echo $! >../child
check "a check that waits" sleep 1000
END
part parallel 1 <<'END'
for name in quick slow wrong; do
    (
        [ $name != slow ] || sleep 1000
        echo "the output of $name" >$name.out
        [ $name != wrong ]
        echo $? >$name.code
    ) &
done
report_ended quick slow wrong
END
part crashing 100 <<'END'
check "a check before the crash" true
kill -s SEGV $$
END
part incomplete 100 <<'END'
if true; then
END
part last 100 <<'END'
check "a check of the last part" true
END

check "a run with failures: exit code" gpu_check 1
check "the parts that pass" test "$(grep -c '^ok     ' "$work/out")" -eq 5
check "a failed check" grep -qx 'FAILED a command that fails (exit code 7)' "$work/out"
check "a failed check: its output" grep -qx '       its output' "$work/out"
check "a check with a limit" grep -qx 'FAILED a command that takes too long: timed out' "$work/out"
check "a part at its limit" grep -qx 'FAILED hanging: stopped at its limit of 1 s' "$work/out"
check "a part at its limit: what it did before" grep -qx 'ok     a check before the limit' "$work/out"
check "commands in parallel: one that passes" grep -qx 'ok     quick: the output of quick' "$work/out"
check "commands in parallel: one that fails" grep -qx 'FAILED wrong: the output of wrong (exit code 1)' "$work/out"
check "commands in parallel: one that waits" grep -qx 'FAILED parallel: stopped at its limit of 1 s' "$work/out"
check "a part that is killed" grep -qx 'FAILED crashing: ended with exit code 139' "$work/out"
check "a part with an error" grep -qx 'FAILED incomplete: ended with exit code 2' "$work/out"
check "the last part" grep -qx 'ok     a check of the last part' "$work/out"
check "skipped checks" sh -c "grep -A 1 -x '1 skipped:' $work/out | grep -qx '       a tool: it is not installed'"
check "the last line" test "$(tail -n 1 "$work/out")" = "5 passed, 7 failed"
check "the report is the same" cmp "$work/out" "$work/report/report.txt"
check "other output" grep -qx "output that is not in the report" "$work/report/details.txt"
check "a process of a part that was stopped has ended" has_ended "$(cat "$work/child")"
check "a process of a part that has ended, too" has_ended "$(cat "$work/left")"

# ---- selected parts ----

check "selected parts: exit code" gpu_check 0 GPU_CHECK="last good"
check "selected parts: only these, in this order" test "$(sed -n 's/^== //p' "$work/out" | tr '\n' ' ')" = "last good "
check "selected parts: the last line" test "$(tail -n 1 "$work/out")" = "2 passed, 0 failed"
check "an unknown part: exit code" gpu_check 1 GPU_CHECK="last lost"
check "an unknown part: one line" grep -qx "gpu_check.sh: unknown part 'lost' in GPU_CHECK (choose from good bad hanging parallel crashing incomplete last)" "$work/out"
mv "$work/files/built.txt" "$work/files/moved"
check "a folder that was not built: exit code" gpu_check 1
check "a folder that was not built: one line" grep -q "^gpu_check.sh: no $work/files/built.txt: run make gpu-check-build first" "$work/out"
mv "$work/files/moved" "$work/files/built.txt"

# ---- a run that is stopped ----

rm -f "$work/parts/parts.txt"
part waiting 1000 <<'END'
check "a check before the signal" true
sleep 1000 &
echo $! >../child
wait
END
rm -f "$work/child"
env GPU_CHECK_PARTS="$work/parts" OUT="$work/report" sh tools/gpu_check.sh "$work/files" >"$work/out" 2>&1 &
script=$!
check "the part runs" appears "$work/child"
kill -s TERM $script
wait $script
check "a signal: exit code" test $? -eq 1
check "a signal: what was measured" grep -qx 'ok     a check before the signal' "$work/report/report.txt"
check "a signal: reported" grep -qx 'FAILED stopped by a signal' "$work/report/report.txt"
check "a signal: the last line" test "$(tail -n 1 "$work/report/report.txt")" = "1 passed, 1 failed"
check "a signal: the processes of the part have ended" has_ended "$(cat "$work/child")"

# ---- numbers ----

rm -f "$work/parts/parts.txt"
part numbers 100 <<'END'
for name in right wrong short lost; do
    agrees "$name" files/expected $name 2 1e-3
done
END
printf '1 5.5 2.25\n2 5.0 2.5\n3 4.5 2.5\n' >"$work/files/expected"
for name in right wrong short lost; do
    mkdir -p "$work/gpu_runs/$name"
    {
        echo '{"step": 1, "loss": 5.501, "lr": 0.1, "grad_norm": 2.251, "tokens": 3}'
        [ $name = short ] || echo '{"step": 2, "loss": 5.001, "lr": 0.1, "grad_norm": 2.5}'
        echo '{"step": 2, "event": "saved"}'
    } >"$work/gpu_runs/$name/metrics.jsonl"
done
sed -i 's/2\.251/2.26/' "$work/gpu_runs/wrong/metrics.jsonl"
sed -i 's/5\.001/NaN/' "$work/gpu_runs/lost/metrics.jsonl"
sed -i "s|^for name|cp -r ../gpu_runs/* .; for name|" "$work/parts/numbers.sh"
check "numbers: exit code" gpu_check 1
check "numbers: those that agree" grep -qx 'ok     right' "$work/out"
check "numbers: their difference" grep -qx '       2 steps: largest relative difference of the losses 2.0e-04, of two norms 4.4e-04 (at most 1e-3)' "$work/out"
for name in wrong short lost; do
    check "numbers: $name" grep -q "^FAILED $name " "$work/out"
done
check "numbers: the difference is named" grep -qx '       step 1: loss 5.5, found 5.501; norm 2.25, found 2.26' "$work/out"

# ---- the parts of make gpu-check ----

check "the limits on a GPU add up to less than ten minutes" \
    awk '!/^#/ { sum += $2 + 2 } END { exit !(NR > 5 && sum < 600) }' "$root/tools/gpu_check/parts.txt"
for name in $(sed -n '/^#/!s/ .*//p' "$root/tools/gpu_check/parts.txt"); do
    check "$name is a script" sh -n "$root/tools/gpu_check/$name.sh"
done
check "no process is ended by its name" sh -c "! grep -n 'pkill\|killall' $root/tools/gpu_check.sh $root/tools/gpu_check/*"

echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
