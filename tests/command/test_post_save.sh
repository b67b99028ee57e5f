#!/bin/sh
# The command: --post-save-cmd and --backup-steps.
. tests/command/command.sh

# Copies to another place, and must find a complete checkpoint.
copy='cp -r "$EITP_CHECKPOINT" "$COPIES/$EITP_STEP" && echo "$EITP_STEP" >>"$COPIES/steps"'
COPIES=$work/copies
export COPIES
mkdir copies
exits 0 "each save" $train --steps 6 --save-steps 6 --post-save-cmd "$copy; echo a result" --output-dir each --json
check "each save: a copy" diff -r each/checkpoint-6 copies/6
check "each save: standard output is the result alone" test "$(lines out)" -eq 1
check "each save: recorded" grep -q '"post-save-cmd": "cp ' each/run.json
check "each save: the variables are not kept" test -z "$EITP_STEP"

# A command that runs until it is told to end. In the meantime its checkpoint stays, and no second command starts.
mkfifo go
slow='echo "$EITP_STEP" >>"$COPIES/begun"; cat "$COPIES/../go" >/dev/null; test -f "$EITP_CHECKPOINT/manifest.json" &&
    test -f "$EITP_CHECKPOINT/model.safetensors" && echo "$EITP_STEP" >>"$COPIES/ended"'
check "a slow command" start_until 'waiting for --post-save-cmd' $train --steps 8 --save-steps 1 --save-total-limit 1 \
    --post-save-cmd "$slow" --output-dir slow
check "a slow command: training does not wait for it" test -d slow/checkpoint-8
check "a slow command: its checkpoint is kept" test "$(ls -d slow/checkpoint-* | tr '\n' ' ')" = \
    "slow/checkpoint-1 slow/checkpoint-8 "
check "a slow command: one at a time" test "$(cat copies/begun)" = 1
echo >go
until [ "$(lines copies/begun)" -eq 2 ]; do sleep 0.1; done
echo >go
wait_for_end
check "a slow command: the run succeeds" test $? -eq 0
check "a slow command: then for the newest" test "$(tr '\n' ' ' <copies/ended)" = "1 8 "
check "a slow command: no checkpoint beyond the limit is left" test "$(ls -d slow/checkpoint-*)" = slow/checkpoint-8

# A command that hangs: eitp reports what it waits for, with -q too. When it gives up, the call for the newest
# checkpoint is not lost: it follows when the hanging one ends.
rm copies/begun copies/ended
check "a command that hangs: reported" start_until '^warning: waiting for --post-save-cmd for checkpoint-1, running for more than [0-9]* seconds .*Ctrl-C' \
    $train -q --steps 8 --save-steps 1 --save-total-limit 1 --post-save-cmd "$slow" --output-dir hung
kill -TERM $process
wait $process
check "a command that hangs: the run is finished" test $? -eq 0
check "a command that hangs: its checkpoint is kept" test -d hung/checkpoint-1
exits 0 "a command that hangs: resume" train --resume auto --output-dir hung --post-save-cmd true
check "a command that hangs: a resume removes its checkpoint" test "$(ls -d hung/checkpoint-*)" = hung/checkpoint-8
echo >go
until [ "$(lines copies/begun)" -eq 2 ]; do sleep 0.1; done
echo >go
until [ -s copies/ended ]; do sleep 0.1; done
wait $reader
check "a command that hangs: the outcome of the last call" grep -q \
    '^warning: --post-save-cmd is still running for checkpoint-1 (process [0-9]*); it will run for checkpoint-8 afterwards$' running.err
check "a command that hangs: then for the newest" test "$(tr '\n' ' ' <copies/begun)$(cat copies/ended)" = "1 8 8"

rm copies/steps
rm -r copies/[0-9]*
exits 0 "every 4 steps" $train --steps 9 --save-steps 3 --backup-steps 4 --post-save-cmd "$copy" --output-dir backup \
    --save-total-limit 0
check "every 4 steps: the newest is copied" diff -r backup/checkpoint-9 copies/9
check "every 4 steps: not the first" test ! -e copies/3

exits 0 "a command's output" $train --steps 2 --post-save-cmd 'echo printed; echo wrong >&2' --output-dir printing
check "a command's output is among the messages" test "$(grep -c -e '^printed$' -e '^wrong$' err)" -eq 2
exits 0 "a command that fails" $train --steps 2 --post-save-cmd 'exit 7' --output-dir failing
check "a command that fails: reported" grep -q \
    '^warning: --post-save-cmd failed for checkpoint-2 with exit code 7' err
exits 0 "a command that is killed" $train --steps 2 --post-save-cmd 'kill -9 $$' --output-dir killed
check "a command that is killed: reported" grep -q '^warning: --post-save-cmd failed for checkpoint-2: it was killed by signal 9' err
exits 0 "a command that does not exist" $train --steps 2 --post-save-cmd 'no-such-program' --output-dir missing
check "a command that does not exist: reported" grep -q '^warning: --post-save-cmd failed .*exit code 127' err

# A stopped run does not wait. Its commands wait for a file rather than the pipe: a second one, for a newer checkpoint,
# could read the input meant for the next run's commands.
check "a run in progress" start_until 'saved ' $train --steps 100000000 --save-steps 5 --output-dir stopped \
    --post-save-cmd 'tries=0; until [ -e "$COPIES/../released" -o $((tries += 1)) -gt 300 ]; do sleep 0.1; done; echo >"$COPIES/after"'
kill -TERM $process
wait $process
check "a run that is stopped does not wait" test $? -eq 143 -a ! -e copies/after
# As with 2>&1 | tee: a program that reads the run's messages to their end does not wait for the command.
wait $reader
check "its messages end with it" test ! -e copies/after
: >released
while [ ! -e copies/after ]; do sleep 0.1; done
check "and its command continues" test -e copies/after

# The checkpoint of a stopped run is announced too, even while the command still runs for an earlier one.
rm copies/begun
check "a run in progress with a slow command" start_until 'saved ' $train --steps 100000000 --save-steps 5 --output-dir halted \
    --post-save-cmd 'echo "$EITP_STEP" >>"$COPIES/begun"; cat "$COPIES/../go" >/dev/null'
until [ -s copies/begun ]; do sleep 0.1; done
kill -TERM $process
wait $process
check "a slow command and a stop" test $? -eq 143
last=$(ls -d halted/checkpoint-* | sed 's/.*-//' | sort -n | tail -n 1)
echo >go
until [ "$(lines copies/begun)" -eq 2 ]; do sleep 0.1; done
echo >go
wait $reader
check "a slow command and a stop: reported" grep -q "^warning: --post-save-cmd is still running .* it will run for checkpoint-$last afterwards" running.err
check "a slow command and a stop: for the last checkpoint" test "$(tail -n 1 copies/begun)" = "$last"

finish
