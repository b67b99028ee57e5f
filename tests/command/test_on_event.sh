#!/bin/sh
# The command: --on-event-cmd.
. tests/command/command.sh

here=$(pwd -P)
RECORDS=$here/records
export RECORDS
mkdir records
unset EITP_EVENT EITP_MESSAGE EITP_STEP EITP_OUTPUT_DIR EITP_EXIT_REASON

# Each call writes its variables into a separate file, and its event into "events".
note='env | grep "^EITP_\(EVENT\|MESSAGE\|STEP\|OUTPUT_DIR\|ALARM\|EXIT_REASON\)=" | sort \
    >"$RECORDS/$(($(wc -l <"$RECORDS/events") + 1))"; echo "$EITP_EVENT" >>"$RECORDS/events"'
begin() {
    rm -rf records/*
    : >records/events
}
events() {
    tr '\n' ' ' <records/events
}

# ---- The end of a run ----

begin
EITP_ALARM=another
export EITP_ALARM
exits 0 "finished" $train --steps 3 --on-event-cmd "$note; echo a result" --output-dir finished --json
unset EITP_ALARM
cat >expected <<END
EITP_EVENT=end
EITP_EXIT_REASON=finished
EITP_MESSAGE=the run has ended: finished
EITP_OUTPUT_DIR=$here/finished
EITP_STEP=3
END
check "finished: once" test "$(events)" = "end "
check "finished: the variables" same records/1 expected
check "finished: standard output is the result alone" test "$(lines out)" -eq 1
check "finished: standard output of the command" grep -q '^a result$' err
check "finished: recorded" grep -q '"on-event-cmd": "env ' finished/run.json

begin
check "stopped" start_until 'saved ' $train --steps 100000000 --save-steps 5 --on-event-cmd "$note" --output-dir stopped
kill -TERM $process
wait_for_end
check "stopped: exit code" test $? -eq 143
check "stopped: reported" grep -q '^EITP_EXIT_REASON=stopped$' records/1
check "stopped: once" test "$(events)" = "end "
check "stopped: the step" test "EITP_STEP=$(ls -d stopped/checkpoint-* | sed 's/.*-//' | sort -n | tail -n 1)" = \
    "$(grep STEP records/1)"

begin
exits 4 "failed" $train --steps 200 --optimizer adamw --lr 1000 --warmup-steps 0 --max-grad-norm 0 --on-event-cmd "$note" \
    --output-dir failed
last=$(lines records/events)
check "failed: the end is the last event" test "$(tail -n 1 records/events)" = end
check "failed: the reason" grep -q '^EITP_EXIT_REASON=\(diverged\|not_finite\)$' "records/$last"
check "failed: the message is the error" grep -q "^EITP_MESSAGE=$(sed -n 's/^error: //p' err | cut -c 1-20)" "records/$last"
check "failed: the loss exploded before" grep -q '^diverging$' records/events

exits 0 "a command that fails" $train --steps 2 --on-event-cmd 'exit 7' --output-dir failing
check "a command that fails: one line" test "$(grep -c "^warning: --on-event-cmd failed for 'end' with exit code 7" err)" -eq 1

# ---- Heat, simulated ----

machine=$work/machine
zone=$machine/sys/class/thermal/thermal_zone0
mkdir -p "$zone" "$machine/sys/class/hwmon"
echo x86_pkg_temp >"$zone/type"
temperature() {
    echo "$1" >"$zone/new"
    mv "$zone/new" "$zone/temp"
}
EITP_SYSTEM_ROOT=$machine
export EITP_SYSTEM_ROOT

begin
temperature 120000
check "heat: pauses" start_until 'training pauses' $train --steps 3 --on-event-cmd "$note" --output-dir hot
until [ "$(lines records/events)" -eq 1 ]; do sleep 0.1; done
check "heat: no alarm, no end" sh -c '! grep -q "EITP_ALARM\|EITP_EXIT_REASON" records/1'
check "heat: the variables" sh -c 'grep -q "^EITP_EVENT=temperature$" records/1 && grep -q "^EITP_STEP=0$" records/1 &&
    grep -q "^EITP_MESSAGE=training pauses before step 1: x86_pkg_temp is at 120.0 C" records/1'
temperature 50000
wait_for_end
check "heat: ends" test $? -eq 0
check "heat: all events, in turn" test "$(events)" = "temperature temperature end "

# A command that hangs stalls nothing: one runs, and the others wait, even after the end of the run, and without its
# lock.
begin
mkfifo go
temperature 120000
check "a command that hangs: pauses" start_until 'training pauses' $train --steps 3 --output-dir hung \
    --on-event-cmd 'echo "$EITP_EVENT" >>"$RECORDS/events"; cat "$RECORDS/../go" >/dev/null; echo "$EITP_STEP" >>"$RECORDS/ended"'
temperature 50000
until grep -q '^waiting for --on-event-cmd' running.err; do sleep 0.1; done
check "a command that hangs: the run is finished" test -d hung/checkpoint-3
kill -TERM $process
wait $process
check "a command that hangs: exit code" test $? -eq 0
check "a command that hangs: one at a time" test "$(events)" = "temperature "
for n in 1 2 3; do
    until [ "$(lines records/events)" -eq $n ]; do sleep 0.1; done
    echo >go
done
until [ "$(lines records/ended)" -eq 3 ]; do sleep 0.1; done
wait $reader
check "a command that hangs: reported" grep -q "^warning: --on-event-cmd is still running for 'temperature' (process [0-9]*); not waiting for it$" running.err
check "a command that hangs: the others follow in turn" test "$(events)$(tr '\n' ' ' <records/ended)" = \
    "temperature temperature end 0 0 3 "

# A killed run leaves its lock to no command. The lock's descriptor is not inherited by commands.
begin
echo 'exec "$@" 3</dev/null 4</dev/null' >taken.sh
starts="sh taken.sh"
temperature 120000
check "a run that is killed: pauses" start_until 'training pauses' $train --steps 3 --output-dir killed \
    --on-event-cmd 'echo "$EITP_EVENT" >>"$RECORDS/events"; cat "$RECORDS/../go" >/dev/null'
until [ "$(lines records/events)" -eq 1 ]; do sleep 0.1; done
starts=
kill -KILL $process
wait $process
temperature 50000
exits 0 "a run that is killed: the lock is free" $train --steps 3 --output-dir killed
echo >go
wait $reader

# Processes it leaves in the background are not waited for.
begin
temperature 120000
check "a command that leaves something behind: pauses" start_until 'training pauses' $train --steps 3 --output-dir behind \
    --on-event-cmd 'while [ -d "$RECORDS" ]; do sleep 0.1; done >/dev/null 2>&1 & echo "$EITP_EVENT" >>"$RECORDS/events"'
temperature 50000
wait $process
check "a command that leaves something behind: ends" test $? -eq 0
check "a command that leaves something behind: the next ones run" test "$(events)" = "temperature temperature end "
check "a command that leaves something behind: not waited for" sh -c '! grep -q "on-event-cmd is still" running.err'

finish
