#!/bin/sh
# The command: runs that stop early: signals, losses that are not finite, memory that runs short.
. tests/command/command.sh

# ---- signals ----

# A run with slow steps and evaluations. Its records, bits and checkpoints must not depend on being stopped.
slow="$large --steps 6 --eval-steps 3 --save-steps 3 --eval-windows 30 --seed 5 --log-every 1"

# Prints the records of a run without events and values that depend on time and memory.
records_of() {
    sed -e '/"event": /d' -e '/"perf\//d' -e 's/, "loss_scale".*//' -e 's/, "val_perplexity".*//' "$1/metrics.jsonl"
}

same_run() { # name, directory
    records_of straight >records.straight
    records_of "$2" >records.resumed
    check "$1: the same records" same records.straight records.resumed
    check "$1: the same bits" same_checkpoints straight/checkpoint-6 "$2/checkpoint-6"
}

exits 0 "an undisturbed run" $slow --output-dir straight

stop_by() {
    signal=$1
    code=$2
    check "$signal: a step" start_until 'step 1/' $slow --output-dir signal$signal
    refuses 1 "another process is training" $train --output-dir signal$signal
    kill -$signal $process
    wait_for_end
    check "$signal: exit code" test $? -eq "$code"
    check "$signal: one checkpoint" test "$(ls -d signal$signal/checkpoint-* | wc -l)" -eq 1
    check "$signal: reported" grep -q "^stopped by SIG$signal: step [0-9]* of .*signal$signal/checkpoint-[0-9]*$" running.out
    step=$(ls signal$signal | sed -n 's/checkpoint-//p')
    check "$signal: the records reach to the checkpoint" grep -q "^{\"step\": $step, " signal$signal/metrics.jsonl
    check "$signal: and not beyond" test "$(grep -c '"loss": ' signal$signal/metrics.jsonl)" -eq "$step"
    check "$signal: the command that continues" sh -c "$(sed -n 's/^to resume: //p' running.err) --threads 1 >out 2>err"
    same_run "$signal" signal$signal
}
stop_by TERM 143
stop_by HUP 129
stop_by XCPU 152
# A shell ignores SIGINT in its background jobs.
if env --default-signal=INT true 2>/dev/null; then
    starts="env --default-signal=INT"
    stop_by INT 130
    starts=
else
    echo "SKIPPED SIGINT: env --default-signal is missing"
fi

# The system repeats SIGXCPU each second of processor time, which does not count as a second request.
check "SIGXCPU again and again: a step" start_until 'step 2/' $slow --output-dir repeated
while kill -XCPU $process 2>/dev/null; do sleep 0.01; done
wait_for_end
check "SIGXCPU again and again: exit code" test $? -eq 152
check "SIGXCPU again and again: saved" test "$(ls -d repeated/checkpoint-* | wc -l)" -eq 1
exits 0 "SIGXCPU again and again: resume" train --resume auto --output-dir repeated --threads 1
same_run "SIGXCPU again and again" repeated

# A second signal ends the process at once. Both arrive while it is halted, in either order, in a run that neither saves
# nor ends by itself, however late they arrive.
check "a second signal: a step" start_until 'step 2/' $large --steps 100000000 --log-every 1 --output-dir twice
kill -STOP $process
kill -TERM $process
kill -HUP $process
kill -CONT $process
wait_for_end
ended=$?
check "a second signal: exit code" test $ended -eq 143 -o $ended -eq 129
check "a second signal: nothing is saved" test ! -s running.out -a -z "$(find twice -name 'checkpoint-*')"
exits 0 "a second signal: start again" $slow --output-dir twice
same_run "a second signal" twice

# An evaluation and a step that would take hours.
awk 'BEGIN { for (i = 0; i < 40000; i++) print "Line", i, "of many that are only there to pass the time." }' >long.txt
hours="$large --steps 2 --val-data long.txt --eval-windows 0 --batch-size 1 --micro-batches-per-pass 1 --log-every 1"
check "during an evaluation: a step" start_until 'step 2/' $hours --output-dir evaluating
kill -TERM $process
wait_for_end
check "during an evaluation: exit code" test $? -eq 143
check "during an evaluation: saved" test -d evaluating/checkpoint-2
check "during an evaluation: dropped" test "$(grep -c val_loss evaluating/metrics.jsonl)" -eq 0
exits 0 "during an evaluation: resume" train --resume auto --output-dir evaluating --eval-windows 4 --threads 1
check "during an evaluation: repeated" test "$(grep -c '^{"step": 2, "val_loss"' evaluating/metrics.jsonl)" -eq 1

check "before step 1: the evaluation" start_until 'configuration: ' $hours --eval-steps 1 --output-dir never/there
kill -TERM $process
wait_for_end
check "before step 1, evaluating: exit code" test $? -eq 143
check "before step 1, evaluating: reported" grep -q '^error: stopped by SIGTERM before the first step$' running.err
check "before step 1, evaluating: only packed data are left" test -z "$(find never -type f ! -name '*.tokens')"

check "before step 1: a long step" start_until 'configuration: ' $large --grad-accum 100000 --output-dir long_step
kill -HUP $process
wait_for_end
check "before step 1: exit code" test $? -eq 129
check "before step 1: no checkpoint, no records" test -z "$(find long_step -type f ! -name '*.tokens')"

# ---- SIGUSR1 ----

check "SIGUSR1: a first step" start_until 'step 1/' $train --steps 100000000 --eval-steps 0 --save-steps 0 \
    --output-dir saved_now
kill -USR1 $process
while kill -0 $process 2>/dev/null && ! grep -q '^saved ' running.err; do sleep 0.1; done
check "SIGUSR1: saved" grep -q '^saved saved_now/checkpoint-[0-9]* in ' running.err
kill -TERM $process
wait_for_end
check "SIGUSR1: the run continued" test $? -eq 143 -a "$(ls -d saved_now/checkpoint-* | wc -l)" -eq 2

check "SIGUSR1 while preparing" start_until '^tokenizer: ' $slow -v --output-dir early
kill -USR1 $process
wait_for_end
check "SIGUSR1 while preparing: the run finished" test $? -eq 0
same_run "SIGUSR1 while preparing" early

# ---- signals ignored at the start, as by nohup ----

cat >ignoring <<END
#!/bin/sh
trap '' HUP INT
exec "$eitp" "\$@"
END
chmod +x ignoring
real=$eitp
eitp=$PWD/ignoring
check "nohup: a step" start_until 'step 1/' $slow --output-dir nohup
eitp=$real
kill -HUP $process
kill -INT $process
wait_for_end
check "nohup: the run finished" test $? -eq 0
same_run "nohup" nohup

# ---- closed pipes ----

{
    "$eitp" $slow --output-dir closed 2>&1 </dev/null
    echo $? >code
} | true
check "output that is not read: the run finished" test "$(cat code)" -eq 0
same_run "output that nobody reads" closed
{
    "$eitp" $slow --output-dir closed_result 2>err </dev/null
    echo $? >code
} | true
check "a result that is not read: the run finished" test "$(cat code)" -eq 0
check "a result that is not read: no error" test "$(grep -c '^error' err)" -eq 0
{
    "$eitp" generate --model straight/checkpoint-6 --prompt 'Line' --tokens 100000000 2>err </dev/null
    echo $? >code
} | head -c 5 >first
check "generate | head ends" test "$(wc -c <first)" -eq 5 -a "$(cat code)" -ne 0
check "generate | head ends silently" test "$(grep -c '^error' err)" -eq 0

# ---- commands with nothing to lose ----

check "eval: started" start_until 'device ' eval -v --model straight/checkpoint-6 --data long.txt --threads 1 --batch-size 1
kill -TERM $process
wait_for_end
check "eval ends on the first signal" test $? -eq 143 -a ! -s running.out
check "eval: no file is left" test -z "$(ls temporary)"

# ---- records ----

check "records are written while a run trains" start_until 'step 2/' $slow --output-dir flushed
until grep -q '^{"step": 2, ' flushed/metrics.jsonl || ! kill -0 $process 2>/dev/null; do
    sleep 0.05
done
check "the record of the step" grep -q '^{"step": 2, "loss": ' flushed/metrics.jsonl
kill -KILL $process
wait_for_end 2>/dev/null

# ---- steps that are not finite ----

exits 4 "not finite" $train --steps 40 --lr 1000 --max-grad-norm 0 --weight-decay 1000 --eval-steps 0 \
    --max-nonfinite 3 \
    --output-dir infinite --json
check "not finite: no checkpoint to resume from" grep -q '"checkpoint": null' out
check "not finite: the model is kept" test "$(ls -d infinite/checkpoint-*)" = infinite/checkpoint-6.diverged
check "not finite: logged" grep -q '^error: 3 steps in a row' err
check "not finite: in the result" grep -q '"stopped": "nonfinite"' out

# ---- memory that runs short ----

short="$large --memory-budget 4G --optimizer adamw --recompute none"

# Prints the kB of addresses used by a run. A limit slightly above that simulates a machine short of memory on which the
# run still fits.
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
    check "shrinking: less memory is available than needed" awk '/memory is short: .* at least / {
        found++
        split("B 1 kB 1e3 MB 1e6 GB 1e9", words, " ")
        for (i = 1; i < 8; i += 2) unit[words[i]] = words[i + 1] + 0
        for (i = 1; i <= NF; i++) if ($i == "left" && !left) left = $(i - 2) * unit[$(i - 1)]
        for (i = 1; i <= NF; i++) if ($i == "least") needed = $(i + 1) * unit[$(i + 2)]
        if (left >= needed) wrong++
        left = 0
    } END { exit !(found && !wrong) }' err
    check "shrinking: the effect" grep -q '^warning: shrunk after step 0: arena and gradients take [0-9.]* MB instead of ' err
    check "shrinking: the record" grep -q '^{"step": 0, "event": "memory_pressure", .* "shrunk": true, "time": ' shrunk/metrics.jsonl
    check "shrinking: the checkpoint" grep -q '"shrunk_from": {"batch_size": 8, "grad_accum": 4, "micro_batches_per_pass": 4}' \
        shrunk/checkpoint-3/trainer_state.json
    cp -r shrunk again
    exits 0 "resume a shrunk run with the command that started it" $large --steps 5 --output-dir shrunk --resume auto
    check "the smaller shape is logged" grep -q "was shrunk: it continues with batch size 8, accumulation 4 and micro-batches per pass [12] (initially " err
    exits 0 "resume a shrunk run by its directory" train --resume again --steps 5 --threads 1
    check "both are the same run" same_checkpoints shrunk/checkpoint-5 again/checkpoint-5
    exits 0 "a shrunk run with another split" $large --steps 6 --output-dir shrunk --resume auto --batch-size 4
    check "a shrunk run with another split: logged" grep -q -e "--batch-size and --grad-accum changed from 8 and 4 to 4 and 8 since " err
    short_of_memory 12000 --steps 2 --output-dir unshrunk
    check "without --auto-shrink a warning names it" test $? -eq 0 -a "$(grep -c 'memory is short: .* --auto-shrink' err)" -eq 1

    addresses_of --batch-size 1 --grad-accum 1 --micro-batches-per-pass 1
    short_of_memory 6000 --batch-size 1 --grad-accum 1 --micro-batches-per-pass 1 --steps 100000000 --auto-shrink \
        --output-dir stopped --json
    check "a lasting shortage of memory ends a run with code 3" test $? -eq 3
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
check "--auto-shrink is on in the profile safe" grep -q '^auto-shrink  *true  (profile safe)' out
exits 0 "--no-auto-shrink" train --profile low-memory --no-auto-shrink --print-config
check "--no-auto-shrink turns it off" grep -q '^auto-shrink  *false  (command line)' out
exits 0 "--profile full" train --profile full --print-config
check "--auto-shrink is off in the profile full" grep -q '^auto-shrink  *false  (profile full)' out
refuses 1 "'eitp eval' has no option --auto-shrink" eval --auto-shrink

exits 0 "a profile" train --data text.txt --init tiny.json --profile low-memory --block-size 16 --print-config
check "a profile's batch" grep -q '^grad-accum  *16  (profile low-memory)' out

finish
