#!/bin/sh
# The command: safe-train, which restarts a command that was killed, and keeps the lock of its directory.
root=$PWD
. tests/command/command.sh

# A run whose steps take a while.
slow="$train --batch-size 4 --grad-accum 256 --steps 6 --eval-steps 3 --save-steps 2 --save-total-limit 0 --seed 5
    --log-every 1 --async-save no"

# Prints the number in a member of supervisor.json, the last one with this name.
number_of() { # directory, name
    sed -n "s/.*\"$2\": \([0-9][0-9]*\).*/\1/p" "$1/logs/supervisor.json" | tail -n 1
}

starts_of() {
    grep -c '^ *{"time": ' "$1/logs/supervisor.json"
}

has_ended() {
    grep -q '"state": "ended"' "$1/logs/supervisor.json" 2>/dev/null
}

# Creates a program whose N-th start executes line N of a file of shell commands.
program() { # directory, lines
    mkdir -p "$1"
    printf '%s\n' "$2" >"$1/program"
    cat >"$1/run" <<'END'
dir=$(dirname "$0")
echo >>"$dir/starts"
eval "$(sed -n "$(wc -l <"$dir/starts")p" "$dir/program")"
END
}

# supervises CODE NAME DIRECTORY LINES OPTIONS...: the same, supervised.
supervises() {
    expected=$1
    what=$2
    dir=$3
    program "$3" "$4"
    shift 4
    exits "$expected" "$what" safe-train --restart-delay 0 --output-dir "$dir" "$@" -- sh "$dir/run"
}

started() { # directory, times
    test "$(lines "$1/starts")" -eq "$2" -a "$(starts_of "$1")" -eq "$2"
}

# ---- a run that is killed ----

exits 0 "an undisturbed run" $slow --output-dir straight
check "kill -9: a checkpoint" start_until 'saved killed/checkpoint-2 ' safe-train --restart-delay 0 -- $slow --output-dir killed
kill -KILL "$(number_of killed child)"
wait_for_end
check "kill -9: exit code" test $? -eq 0
check "kill -9: the same bits" same_checkpoints straight/checkpoint-6 killed/checkpoint-6
# The records of the last second before it, such as the one of the first save, are lost.
happens "interrupted saved started" "kill -9" "$(echo $(happened killed | tr ' ' '\n' | sort -u))"
check "kill -9: reported" grep -q '^warning: safe-train: killed by SIGKILL after step [0-9]*: restart 1 of 3 in 0 s; last lines in killed/logs/error_' running.err
check "kill -9: it resumed" grep -q "resuming from '.*checkpoint-\([24]\)' at step \1 of 6" running.err
check "kill -9: the log equals the output" same running.err killed/logs/training_*.log
check "kill -9: two starts" test "$(starts_of killed)" -eq 2
check "kill -9: the reason" grep -q '"reason": "killed by SIGKILL", "exit_code": 137, "step": [0-9]*, "checkpoint": [24]' \
    killed/logs/supervisor.json
check "kill -9: the end" grep -q '"reason": "exit code 0", "exit_code": 0, "step": 6, "checkpoint": 6' killed/logs/supervisor.json
check "kill -9: last lines" grep -q 'saved killed/checkpoint-6 ' killed/logs/supervisor.json
if command -v python3 >/dev/null 2>&1; then
    check "supervisor.json is valid" python3 -c 'import json; json.load(open("killed/logs/supervisor.json"))'
fi

# A command that names the checkpoint to resume from continues from later ones, whichever name the option has.
exits 0 "a first part" $train --steps 4 --save-steps 2 --lr 3e-3 --output-dir whole
cp -r whole named
exits 0 "resume" train --resume whole --steps 10 --threads 1 --lr 3e-3
once='test -e once || { echo >once; kill -9 $PPID; }'
exits 0 "resume, killed after a save" safe-train --restart-delay 0 -- train --resume_from_checkpoint named --steps 10 --threads 1 \
    --lr 3e-3 --post-save-cmd "$once"
check "resume, killed: two starts" test "$(starts_of named)" -eq 2
check "resume, killed: the same bits" same_checkpoints whole/checkpoint-10 named/checkpoint-10

# ---- ends that are followed by a restart ----

for code in 3 5 137; do
    supervises $code "exit code $code" "code$code" "exit $code
exit $code
exit $code" --max-restarts 1
    check "exit code $code: restarted" started "code$code" 2
done
for code in 0 1 2 4 7 129 130 143 152 255; do
    supervises $code "exit code $code" "code$code" "exit $code
exit 0"
    check "exit code $code: not restarted" started "code$code" 1
done
for signal in KILL SEGV BUS ABRT; do
    supervises 0 "SIG$signal" "signal$signal" "kill -$signal \$\$
exit 0"
    check "SIG$signal: restarted" started "signal$signal" 2
done
for signal in TERM:143 HUP:129 XCPU:152; do
    supervises "${signal#*:}" "SIG${signal%:*}" "signal${signal%:*}" "kill -${signal%:*} \$\$
exit 0"
    check "SIG${signal%:*}: not restarted" started "signal${signal%:*}" 1
done
check "not restarted: reported" grep -q '^error: safe-train: killed by SIGXCPU: not restarted; last lines in signalXCPU/logs/error_' err

# ---- giving up ----

die='kill -9 $$'
record() { # step, seconds
    echo "echo '{\"step\": $1, \"loss\": 1, \"step_time_s\": $2}' >>\$dir/metrics.jsonl; $die"
}
save() { # step
    echo "mkdir \$dir/checkpoint-$1; $die"
}
supervises 137 "the same step" same_step "$(record 7 100; record 7 100; echo exit 0)"
check "the same step: one restart" started same_step 2
check "the same step: one line" test "$(grep -c '^error: ' err)" -eq 1
check "the same step: reported" grep -q \
    '^error: safe-train: killed by SIGKILL after step 7: giving up: it ended twice at the same step without a new checkpoint; ' err
check "20 times the median step" test "$(number_of same_step stall_timeout)" -eq 2000
supervises 0 "other steps" other_step "$(record 7 1; record 8 1; record 9 1; echo exit 0)"
check "other steps: three restarts" started other_step 4
check "at least 5 minutes" test "$(grep -c '"stall_timeout": 300,' other_step/logs/supervisor.json)" -eq 3
heat() { # the end of the record
    echo "echo '{\"step\": 7, \"event\": \"temperature\", \"time\": 1, \"message\": \"hot\"$1}' >>\$dir/metrics.jsonl; $die"
}
supervises 137 "a pause because of heat" paused "$(record 7 1 | sed 's/; kill.*//'); $(heat)" --max-restarts 0
check "a pause because of heat: not a stall" test "$(number_of paused stall_timeout)" -eq 0
supervises 137 "after such a pause" cooled "$(record 7 1 | sed 's/; kill.*//'); $(heat ', "seconds": 900')" --max-restarts 0
check "after such a pause: the usual timeout" test "$(number_of cooled stall_timeout)" -eq 300
supervises 0 "the same step with a new checkpoint" new_checkpoint "$(record 7 1 | sed 's/^/mkdir $dir\/checkpoint-5; /'; record 7 1 |
    sed 's/^/mkdir $dir\/checkpoint-6; /'; echo exit 0)"
supervises 137 "no progress" no_progress "$die
$die
$die
exit 0" --max-restarts 2
check "no progress: reported" grep -q '^error: safe-train: killed by SIGKILL: giving up after 2 restarts without a new checkpoint; ' err
supervises 137 "--max-restarts 0" no_restarts "$die" --max-restarts 0
check "--max-restarts 0: one start" started no_restarts 1
supervises 0 "progress" progress "$(save 1; save 2; echo "$die"; save 10; echo "$die"; echo exit 0)" --max-restarts 2
check "progress: every restart" started progress 6
supervises 137 "an older checkpoint" older "$(save 9; save 8; save 7)" --max-restarts 1
check "an older checkpoint is not progress" started older 2

# ---- signals ----

stop_by() {
    signal=$1
    code=$2
    check "$signal: a step" start_until 'step 1/' safe-train -- $slow --output-dir "stop$signal"
    kill "-$signal" $process
    wait_for_end
    check "$signal: exit code" test $? -eq "$code"
    check "$signal: saved" test "$(ls -d "stop$signal"/checkpoint-* | wc -l)" -ge 1
    check "$signal: one start" test "$(starts_of "stop$signal")" -eq 1
    check "$signal: recorded" grep -q "\"reason\": \"exit code $code, stopped by SIG$signal\"" "stop$signal/logs/supervisor.json"
    check "$signal: no error file" test -z "$(find "stop$signal/logs" -name 'error_*')"
}
stop_by TERM 143
exits 0 "TERM: the plain command continues" train --resume auto --output-dir stopTERM --threads 1
check "TERM: the same bits" same_checkpoints straight/checkpoint-6 stopTERM/checkpoint-6
stop_by HUP 129
if env --default-signal=INT true 2>/dev/null; then
    starts="env --default-signal=INT"
    stop_by INT 130
    starts=
else
    echo "SKIPPED SIGINT: env --default-signal is missing"
fi
program stopped "trap 'exit 3' TERM; echo ready; while :; do sleep 0.1; done
exit 0"
check "a program that is stopped" start_until ready safe-train --restart-delay 0 --output-dir stopped -- sh stopped/run
kill -TERM $process
wait_for_end
check "a program that is stopped: its exit code" test $? -eq 3
check "a program that is stopped: not restarted" started stopped 1
check "USR1: a step" start_until 'step 1/' safe-train -- $train --steps 100000000 --eval-steps 0 --save-steps 0 --output-dir saved
kill -USR1 $process
while kill -0 $process 2>/dev/null && ! grep -q '^saved ' running.err; do sleep 0.1; done
check "USR1: saved" grep -q '^saved saved/checkpoint-[0-9]* in ' running.err
kill -TERM $process
wait_for_end
check "USR1: the run continued" test $? -eq 143

# ---- the lock ----

program locked "$die"
check "lock: waiting" start_until 'restart 1 of' safe-train --output-dir locked --restart-delay 1000 -- sh locked/run
check "lock: the state" grep -q '"state": "waiting"' locked/logs/supervisor.json
refuses 1 "another process is training in 'locked'" $train --output-dir locked
refuses 1 "another process is training in 'locked'" safe-train -- $train --output-dir locked
refuses 1 "another process is training in 'locked'" safe-train --output-dir locked -- true
for number in 0 20 21 x; do
    EITP_LOCK_FD=$number
    export EITP_LOCK_FD
    exec 9<locked
    refuses 1 "another process is training in 'locked'" $train --output-dir locked
done
EITP_LOCK_FD=9
refuses 1 "another process is training in 'locked'" $train --output-dir locked
exec 9<&-
unset EITP_LOCK_FD
kill -TERM $process
wait_for_end
check "a signal between two starts: exit code" test $? -eq 143
check "a signal between two starts: reported" grep -q '^safe-train: stopped by SIGTERM before the restart$' running.err
exits 0 "afterwards the directory is free" $train --steps 1 --output-dir locked

# A started program gets the lock with the descriptor, regardless of how many processes lie between.
echo "exec $eitp $train --steps 2 --output-dir let_in" >let_in.sh
exits 0 "a program that trains" safe-train --output-dir let_in -- sh -c 'sh let_in.sh; exit $?'
check "a program that trains: trained" test -d let_in/checkpoint-2
exits 0 "a process started by a run" safe-train -- $train --steps 2 --output-dir not_in \
    --post-save-cmd "'$eitp' $train --steps 3 --resume auto --output-dir not_in 2>not_in.err; echo \$? >not_in.code"
check "a process started by a run does not get the lock" grep -q "another process is training in 'not_in'" not_in.err

# Processes left by a program do not keep the lock, and are killed before a restart.
supervises 0 "a process is left behind" left 'sleep 100 & echo $! >$dir/process'
exits 0 "a process is left behind: the lock is released" $train --steps 1 --output-dir left
[ ! -d /proc/self ] || check "a process is left behind: it was not killed" grep -q '^State:.*[RSD] ' "/proc/$(cat left/process)/status"
kill "$(cat left/process)"
supervises 0 "a process is left behind before a restart" left_before "sleep 100 & echo \$! >\$dir/process; $die
for i in 1 2 3 4 5 6 7 8 9; do grep -q '^State:.*[RSD] ' /proc/\$(cat \$dir/process)/status 2>/dev/null || exit 0; sleep 0.1; done; exit 1"
check "a process is left behind before a restart: restarted" started left_before 2

# The supervisor is killed: the child continues with the lock, and with its log.
check "the supervisor: a step" start_until 'step 1/' safe-train -- $slow --output-dir orphan
child=$(number_of orphan child)
kill -STOP "$child"
kill -KILL $process
wait_for_end 2>/dev/null
check "the supervisor is killed: the child is alive" kill -0 "$child"
refuses 1 "another process is training in 'orphan'" safe-train -- $train --output-dir orphan
kill -CONT "$child"
while kill -0 "$child" 2>/dev/null; do sleep 0.1; done
check "the supervisor is killed: the child finished" same_checkpoints straight/checkpoint-6 orphan/checkpoint-6
check "the supervisor is killed: the log continues" grep -q '^finished: step 6 of 6' orphan/logs/training_*.log
exits 0 "the supervisor is killed: the lock is released" train --resume auto --output-dir orphan --threads 1

# A directory that is removed is created, locked and used for the log again.
echo "test -e once_removed && exit 0; echo >once_removed; rm -r removed; $die" >remove.sh
exits 0 "a directory that is removed" safe-train --output-dir removed --restart-delay 0 -- sh remove.sh
check "a directory that is removed: logs" grep -q '"reason": "exit code 0"' removed/logs/supervisor.json

# ---- stalls ----

supervises 143 "a stall" stalled "echo alive; sleep 100
echo alive; sleep 100" --stall-timeout 0.5 --max-restarts 1
check "a stall: restarted" started stalled 2
check "a stall: reported" grep -q '^warning: safe-train: no sign of life for [0-9]*\.[0-9] s: stopping process [0-9]*; ' err
check "a stall: the reason" grep -q '"reason": "stalled, then exit code 143"' stalled/logs/supervisor.json
supervises 0 "a stall that SIGTERM does not end" stubborn "trap '' TERM; sleep 100 & wait; sleep 100
exit 0" --stall-timeout 0.5 --kill-after 0
check "a stall that SIGTERM does not end: killed" grep -q '"reason": "stalled, then exit code 137"' stubborn/logs/supervisor.json
supervises 0 "a stall that SIGTERM ends cleanly" waiting "trap 'exit 0' TERM; sleep 100 & wait
exit 3" --stall-timeout 0.5
check "a stall that SIGTERM ends cleanly: not restarted" started waiting 1
supervises 0 "without --stall-timeout a program may be silent" silent "exit 0"
check "without --stall-timeout: none" test "$(number_of silent stall_timeout)" -eq 0
check "a halted run: a step" start_until 'step 2/' safe-train --restart-delay 0 --max-restarts 100 --stall-timeout 2 --kill-after 100 \
    -- $slow --output-dir halted
kill -STOP "$(number_of halted child)"
wait_for_end
check "a halted run: exit code" test $? -eq 0
check "a halted run: it stalled" grep -q '^warning: safe-train: stalled, then exit code 143 after step' running.err
check "a halted run: the same bits" same_checkpoints straight/checkpoint-6 halted/checkpoint-6

# ---- log, limits, background ----

supervises 1 "a log" logged 'awk "BEGIN { for (i = 1; i <= 150; i++) print \"line\", i }"; echo to stderr >&2; exit 1'
check "a log: all lines" test "$(grep -c '^line ' logged/logs/training_*.log)" -eq 150
check "a log: standard error too" grep -qx 'to stderr' logged/logs/training_*.log
check "a log: on standard error" test "$(grep -c '^line ' err)" -eq 150
check "a log: its name" sh -c 'ls logged/logs | grep -qx "training_20[0-9]\{6\}_[0-9]\{6\}.log"'
check "the last lines" test "$(lines logged/logs/error_*.log)" -eq 100
check "the last lines: from" test "$(head -n 1 logged/logs/error_*.log)" = "line 52"
check "the last lines: to" test "$(tail -n 1 logged/logs/error_*.log)" = "to stderr"
supervises 1 "-q" silenced 'echo hidden; exit 1' -q
check "-q: one line" test "$(lines err)" -eq 1 -a "$(grep -c '^error: safe-train: exit code 1: not restarted' err)" -eq 1
check "-q: the log has all" grep -qx hidden silenced/logs/training_*.log

# Prints the nice value increased by a number; 19 is the highest.
nicer_by() {
    awk -v before="$(nice)" -v by="$1" 'BEGIN { print before + by < 19 ? before + by : 19 }'
}
program limits 'nice; ulimit -c; ulimit -d; readlink /proc/self/fd/0; echo "spins: $GOMP_SPINCOUNT"'
(
    ulimit -S -c "$(ulimit -H -c)"
    exec "$eitp" safe-train --output-dir limits --nice 7 --memory-limit 100Mi -- sh limits/run 2>err <text.txt
)
check "limits: exit code" test $? -eq 0
check "limits" test "$(tr '\n' ' ' <err)" = "$(nicer_by 7) 0 102400 /dev/null spins: $GOMP_SPINCOUNT "
supervises 0 "default limits" defaults 'nice; ulimit -d'
check "default limits" test "$(tr '\n' ' ' <err)" = "$(nicer_by 10) $(ulimit -d) "

exits 0 "--restart-args" safe-train --output-dir arguments --restart-delay 0 --restart-args " --more  2" -- sh -c \
    'echo "got: $*"; test "$2" = 2 || kill -9 $$' name
check "--restart-args" grep -qx 'got: --more 2' err

exits 0 "--background" safe-train --background -- $train --steps 3 --output-dir behind
check "--background: process and log" grep -qx 'supervisor [0-9]*, log behind/logs/training_[0-9_]*.log' out
check "--background: nothing else" test ! -s err
until has_ended behind; do sleep 0.1; done
check "--background: finished" grep -q '^finished: step 3 of 3' behind/logs/training_*.log
check "--background: its process" grep -q "\"process\": $(sed 's/supervisor \([0-9]*\),.*/\1/' out)" behind/logs/supervisor.json

# A terminal or pipe that stalls, or that is not read, delays nothing.
mkfifo unread
program flood 'awk "BEGIN { for (i = 0; i < 20000; i++) print \"a line of many\", i }"; echo >flood/done; exit 0'
"$eitp" safe-train --output-dir flood -- sh flood/run 2>unread </dev/null &
process=$!
exec 4<unread
until [ -e flood/done ]; do sleep 0.1; done
wait $process
check "a pipe that stalls" test $? -eq 0 -a "$(grep -c '^a line' flood/logs/training_*.log)" -eq 20000
exec 4<&-
{
    "$eitp" safe-train -- $train --steps 3 --output-dir unheard 2>&1 </dev/null
    echo $? >code
} | true
check "a pipe that is not read" test "$(cat code)" -eq 0 -a -d unheard/checkpoint-3

EITP=$eitp "$root/tools/safe_train.sh" --data text.txt --init tiny.json --block-size 16 --threads 1 --steps 1 --output-dir wrapped >out 2>err
check "safe_train.sh: options of train" test $? -eq 0 -a -f wrapped/logs/supervisor.json
EITP=$eitp "$root/tools/safe_train.sh" --output-dir wrapped_too --nice 3 -- true >out 2>err
check "safe_train.sh: options and a command" test $? -eq 0 -a -f wrapped_too/logs/supervisor.json

# ---- refused ----

refuses 1 "missing -- and a command" safe-train
refuses 1 "missing -- and a command" safe-train train --output-dir gone
refuses 1 "missing command after --" safe-train --output-dir gone --
refuses 1 "no program 'trian'; did you mean 'train'?" safe-train --output-dir gone -- trian
refuses 1 "no program 'no-such-program'; after -- write 'train'" safe-train --output-dir gone -- no-such-program
refuses 1 "no program './gone'" safe-train --output-dir gone -- ./gone
refuses 1 "no program './temporary'" safe-train --output-dir gone -- ./temporary
refuses 1 "--output-dir is required before --" safe-train -- true
refuses 1 "--output-dir is an option of train" safe-train --output-dir gone -- $train
refuses 1 "unknown option 'stepz'; did you mean 'steps'?" safe-train -- $train --stepz 1 --output-dir gone
refuses 1 "unknown option 'max-restart'; did you mean 'max-restarts'?" safe-train --max-restart 1 -- $train --output-dir gone
refuses 1 "'eitp safe-train' has no option --steps" safe-train --steps 1 -- $train --output-dir gone
refuses 1 "'eitp train' has no option --max-restarts" safe-train -- $train --max-restarts 1 --output-dir gone
refuses 1 "cannot read standard input again" safe-train -- train --data - --init tiny --output-dir gone
refuses 1 "cannot repeat --overwrite-output-dir" safe-train -- $train --overwrite-output-dir --output-dir gone
refuses 1 "--nice must be at least 0 and at most 19 (got 20)" safe-train --nice 20 -- $train --output-dir gone
exits 0 "--print-config" safe-train -- $train --output-dir gone --print-config
check "--print-config: train's" grep -q '^output-dir  *"gone"  (command line)' out
check "--print-config: nothing is created" test ! -e gone
exits 0 "--help" safe-train --help
check "--help: usage" grep -q '^usage: eitp safe-train \[options\] -- train \[options\] | PROGRAM' out

# ---- options that are refused before anything is created ----

refuses 1 "^error: --memory-limit must be at least 4194304 and at most" safe-train --memory-limit 1 -- $train --steps 1 --output-dir gone
refuses 1 "^error: --restart-args: unknown option 'bogus'" safe-train --restart-args '--bogus 1' -- $train --steps 1 --output-dir gone
refuses 1 "^error: --restart-args: --lr must be a number" safe-train --restart-args '--lr x' -- $train --steps 1 --output-dir gone

finish
