#!/bin/sh
# The command: runs that stop early: signals, losses that are not finite, memory that runs short.
. tests/command.sh

# ---- signals, and steps that are not finite ----

stop_by() {
    signal=$1
    code=$2
    check "$signal: a first step" start_until 'step 1/' $train --steps 100000000 --eval-steps 0 --save-steps 0 \
        --output-dir signal$signal
    refuses 1 "another process is training" $train --output-dir signal$signal
    kill -$signal $process
    wait_for_end
    check "$signal: exit code" test $? -eq "$code"
    check "$signal: one checkpoint" test "$(ls -d signal$signal/checkpoint-* | wc -l)" -eq 1
    check "$signal: says so" grep -q "^stopped by SIG$signal: step [0-9]* of " running.out
    step=$(ls signal$signal | sed -n 's/checkpoint-//p')
    check "$signal: the records reach to the checkpoint" grep -q "^{\"step\": $step, " signal$signal/metrics.jsonl
    exits 0 "$signal: resume" train --resume auto --output-dir signal$signal --steps $((step + 1)) --threads 1 -q
}
stop_by TERM 143
stop_by INT 130

check "SIGUSR1: a first step" start_until 'step 1/' $train --steps 100000000 --eval-steps 0 --save-steps 0 \
    --output-dir saved_now
kill -USR1 $process
while kill -0 $process 2>/dev/null && ! grep -q '^saved ' running.err; do sleep 0.1; done
check "SIGUSR1: saved" grep -q '^saved saved_now/checkpoint-[0-9]* in ' running.err
kill -TERM $process
wait_for_end
check "SIGUSR1: the run continued" test $? -eq 143 -a "$(ls -d saved_now/checkpoint-* | wc -l)" -eq 2

exits 4 "not finite" $train --steps 40 --lr 1000 --max-grad-norm 0 --weight-decay 1000 --eval-steps 0 \
    --max-nonfinite 3 \
    --output-dir infinite --json
check "not finite: no checkpoint that a resume takes" grep -q '"checkpoint": null' out
check "not finite: the model is kept" test "$(ls -d infinite/checkpoint-*)" = infinite/checkpoint-6.diverged
check "not finite: logged" grep -q '^error: 3 steps in a row' err
check "not finite: in the result" grep -q '"stopped": "nonfinite"' out

# ---- memory that runs short ----

short="$large --memory-budget 4G --optimizer adamw --recompute none"

# The kB of addresses that a run takes. A limit slightly above that is a machine short of memory on which the run still
# fits.
addresses_of() {
    check "a step to measure" start_until 'step 1/' $short --steps 100000000 --output-dir measured "$@"
    addresses=$(sed -n 's/^VmPeak:[^0-9]*\([0-9]*\) kB$/\1/p' /proc/$process/status)
    kill -9 $process
    wait_for_end 2>/dev/null
    rm -rf measured
}

short_of_memory() { # kB that are left, options
    left=$1
    shift
    (
        ulimit -v $((addresses + left))
        exec "$eitp" $short "$@" >out 2>err </dev/null
    )
}
if [ -r /proc/self/status ] && (ulimit -v 3000000) 2>/dev/null; then
    addresses_of
    short_of_memory 12000 --steps 3 --auto-shrink --output-dir shrunk
    check "a run that shrinks continues" test $? -eq 0 -a -d shrunk/checkpoint-3
    check "shrinking: the reason" grep -q '^warning: memory is short: [0-9.]* MB left (RLIMIT_AS), at least ' err
    check "shrinking: the effect" grep -q '^warning: shrunk after step 0: arena and gradients take [0-9.]* MB instead of ' err
    check "shrinking: the record" grep -q '^{"step": 0, "event": "memory_pressure", .* "shrunk": true}' shrunk/metrics.jsonl
    check "shrinking: the checkpoint" grep -q '"shrunk_from": {"batch_size": 8, "grad_accum": 4, "micro_batches_per_pass": 4}' \
        shrunk/checkpoint-3/trainer_state.json
    cp -r shrunk again
    exits 0 "resume a shrunk run with the command that started it" $large --steps 5 --output-dir shrunk --resume auto
    check "the smaller shape is logged" grep -q "was shrunk and continues with batch size 8, accumulation 4 and [12] micro-batches per pass" err
    exits 0 "resume a shrunk run by its directory" train --resume again --steps 5 --threads 1
    check "both are the same run" same_checkpoints shrunk/checkpoint-5 again/checkpoint-5
    refuses 1 "was trained with batch_size 8, and a resumed run keeps it (got 4)" $large --steps 6 --output-dir shrunk --resume auto \
        --batch-size 4
    short_of_memory 12000 --steps 2 --output-dir unshrunk
    check "without --auto-shrink a warning names it" test $? -eq 0 -a "$(grep -c 'memory is short: .* --auto-shrink' err)" -eq 1

    addresses_of --batch-size 1 --grad-accum 1 --micro-batches-per-pass 1
    short_of_memory 6000 --batch-size 1 --grad-accum 1 --micro-batches-per-pass 1 --steps 100000000 --auto-shrink \
        --output-dir stopped --json
    check "memory that stays short ends a run with code 3" test $? -eq 3
    check "stopped: nothing smaller" grep -q '^warning: no configuration uses less memory' err
    check "stopped: logged" grep -q '^error: memory stays short: .* resume with --resume auto' err
    check "stopped: in the result" grep -q '"stopped": "pressure"' out
    step=$(sed 's/.*"checkpoint": "stopped.checkpoint-\([0-9]*\).*/\1/' out)
    check "stopped: with a checkpoint" test -d "stopped/checkpoint-$step"
    exits 0 "stopped: resume" train --resume stopped --steps $((step + 1)) --threads 1
else
    echo "SKIPPED memory that runs short: /proc/self/status or ulimit -v is missing"
fi
exits 0 "--auto-shrink is off" train --print-config
check "--auto-shrink is off by default" grep -q '^auto-shrink  *false  (default)' out
exits 0 "--auto-shrink with a profile" train --profile safe --print-config
check "--auto-shrink is on in the profile safe" grep -q '^auto-shrink  *true  (default)' out
exits 0 "--no-auto-shrink" train --profile low-memory --no-auto-shrink --print-config
check "--no-auto-shrink turns it off" grep -q '^auto-shrink  *false  (command line)' out
exits 0 "--profile full" train --profile full --print-config
check "--auto-shrink is off in the profile full" grep -q '^auto-shrink  *false  (default)' out
refuses 1 "'eitp eval' has no option --auto-shrink" eval --auto-shrink

exits 0 "a profile" train --data text.txt --init tiny.json --profile low-memory --block-size 16 --print-config
check "a profile's batch" grep -q '^grad-accum  *16  (default)' out

finish
