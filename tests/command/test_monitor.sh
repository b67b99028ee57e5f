#!/bin/sh
# The command: monitor, on a terminal, as lines and as JSON; and safe-train --monitor.
root=$PWD
. tests/command/command.sh
check "build tests/command/pseudo_terminal.c" "${CC:-cc}" -o pseudo_terminal "$root/tests/command/pseudo_terminal.c"
TERM=xterm
export TERM
unset NO_COLOR
ASAN_OPTIONS=${ASAN_OPTIONS:+$ASAN_OPTIONS:}handle_segv=0 # a crash ends the sanitized command like any other
export ASAN_OPTIONS

has_terminals=1
if ! echo 'end 0' | ./pseudo_terminal 80x24 true 2>err && grep -q 'no pseudo terminal' err; then
    has_terminals=
    echo "SKIPPED the screen of the monitor: this system has no pseudo terminals"
fi

# shows NAME COLUMNSxROWS ARGUMENTS...: runs the monitor in a terminal controlled by standard input.
shows() {
    what=$1
    size=$2
    shift 2
    [ "$has_terminals" ] || return 0
    if LC_ALL=${locale:-C.UTF-8} ./pseudo_terminal "$size" "$eitp" "$@" 2>err; then pass; else
        fail "$what"
        sed 's/^/    /' err
        return 1
    fi
}

# Prints the names, sizes, times and contents of all files.
state_of() {
    ls -lAR --time-style=full-iso "$@"
    find "$@" -type f -exec cksum {} +
}

# change DIRECTORY NAME VALUE...: changes members of "process" or "machine" in its run.json.
change() {
    file=$1/run.json
    shift
    while [ $# -gt 0 ]; do
        sed "s/\"$1\": \"*[^,\"}]*\"*\([,}]\)/\"$1\": $2\1/" "$file" >changed
        mv changed "$file"
        shift 2
    done
}

supervisor_of() {
    sed -n 's/^ *"process": \([0-9]*\),.*/\1/p' "$1/logs/supervisor.json"
}

# ---- names with escape sequences ----

# A window title, started by ESC ] or by U+009D. Only the command's own sequences, ESC [ K and J, reach a terminal.
if script -qec true typescript >out 2>err; then
    for begin in '\033]' '\302\235'; do
        name=$(printf "${begin}0;title\007")
        export eitp train name
        script -qec '"$eitp" $train --steps 3 --eval no --output-dir "$name"' typescript >out
        check "train to a terminal" test -f "$name/run.json"
        script -qec '"$eitp" report "$name"' typescript >>out
        check "the terminal shows the results" test "$(grep -c '0;title?/' out)" -ge 2
        sed 's/\x1b\[[KJ]//g' out | LC_ALL=C tr -d '\n\r\40-\176' >control
        check "the terminal gets no other sequences" test "$(wc -c <control)" -eq 0
        exits 0 "logs of it as JSON" logs "$name" --json
        check "JSON without control characters" test "$(LC_ALL=C tr -d '\n\40-\176' <out | wc -c)" -eq 0
        check "records without control characters" test "$(LC_ALL=C tr -d '\n\40-\176' <"$name/metrics.jsonl" | wc -c)" -eq 0
        rm -rf "$name"
    done
else
    echo "SKIPPED names with escape sequences on a terminal: script(1) is missing"
fi

# ---- a run that has finished ----

mkdir runs words
printf '%s\n' '[PAD]' '[UNK]' '[CLS]' '[SEP]' '[MASK]' a quick fox number jumps over lazy dogs >words/vocab.txt
printf '{"tokenizer_class": "BertTokenizer"}\n' >words/tokenizer_config.json
cat >bert.json <<'END'
{"model_type": "bert", "architectures": ["BertModel"], "vocab_size": 16, "hidden_size": 16, "num_attention_heads": 2,
 "num_hidden_layers": 1, "intermediate_size": 32, "max_position_embeddings": 32}
END
exits 0 "train" $train --steps 12 --save-steps 4 --eval-steps 5 --lr 3e-3 --output-dir runs/first
exits 0 "train on masked tokens" train --task mlm --data text.txt --init bert.json --tokenizer words --steps 4 --eval no --threads 1 \
    --precision $precision --output-dir masked
exits 0 "masked tokens" monitor --once masked
check "masked tokens: their rate" grep -q '^masked/s: [0-9]' out
state_of runs >before
exits 0 "once" monitor --once runs/first
for line in 'run: first' 'directory: runs/first' 'state: finished' 'step 12/12' 'loss: [0-9.]*' 'validation: [0-9.]* at step 12' \
    'checkpoint: checkpoint-12, [0-9]* s ago' 'continue with: eitp eval --model runs/first' 'disk free: .*B'; do
    check "once: $line" grep -q "^$line\$" out
done
check "once: no other output" test ! -s err
exits 0 "json" monitor --once --json runs
check "json: a line" test "$(lines out)" -eq 1
check "json: numbers" grep -q '^{"time": [0-9.]*, "runs": \[{"name": "first", .*"step": 12, "steps": 12, ' out
if command -v python3 >/dev/null 2>&1; then
    check "json: valid" python3 -c 'import json; assert json.load(open("out"))["runs"][0]["checkpoint_step"] == 12'
fi
(cd runs/first && "$eitp" monitor --once >../../out 2>../../err) </dev/null
check "once, here" grep -q '^step 12/12$' out
exits 0 "a pipe" monitor --interval 0.1 --log log runs
check "a pipe: it ends with the run" grep -q '^state: finished$' out
check "a pipe: the log" grep -q '^step 12/12$' log
exits 0 "updates" monitor --interval 0.1 --count 3 --log log --json runs
check "updates: as many" test "$(lines out)" -eq 3
check "updates: the log has the changes" test "$(grep -c '^step 12/12$' log)" -eq 2
TERM=dumb shows "a dumb terminal" 80x24 monitor --count 1 runs <<END
end 0
END
EITP=$eitp sh "$root/tools/monitor_training.sh" --once runs/first >out 2>err </dev/null
check "the wrapper" grep -q '^step 12/12$' out

for size in 80x24 200x50 60x20 50x16 300x100; do
    shows "a screen of $size" $size monitor runs/first <<END
wait step 12/12
row 1 first  runs/first
row 1 finished
row 4 continue with: eitp eval --model runs/first
wait Training
wait Events
size 90x30
wait temperature
size 30x8
wait needs 50x16, has 30x8
size $size
wait q quit
key q
end 0
END
done
shows "keys" 80x24 monitor runs <<END
wait step 12/12
key ?
wait save a checkpoint now (SIGUSR1)
key escape
gone save a checkpoint now (SIGUSR1)
key s
wait cannot save first: it has ended
key x
wait cannot stop first: it has ended
key z
gone cannot stop
type xx
key interrupt
end 130
END
shows "stopped and continued" 80x24 monitor runs <<END
wait step 12/12
key suspend
stopped
signal 18
wait step 12/12
signal 20
stopped
signal 18
wait step 12/12
signal 15
end 143
END
for signal in 1:129 2:130 3:131 11:139; do
    shows "signal $signal" 80x24 monitor runs <<END
wait step 12/12
signal ${signal%:*}
end ${signal#*:}
END
done
shows "a terminal that is gone" 80x24 monitor runs <<END
wait step 12/12
hang-up
end 129
END
shows "as many updates" 80x24 monitor --count 2 --interval 0.1 runs <<END
end 0
END
EXPECT_ASCII=1 locale=C shows "ASCII" 80x24 monitor runs <<END
wait step 12/12
wait #####
key q
end 0
END
EXPECT_ASCII=1 EXPECT_PLAIN=1 NO_COLOR=1 shows "no colours" 80x24 monitor runs --ascii <<END
wait step 12/12
key q
end 0
END
state_of runs >after
check "nothing was changed" same before after
refuses 1 "text.txt' is not a directory" monitor text.txt
refuses 1 "'no-such-run' does not exist; pass the output directory of a run, or leave out --once to wait" monitor --once no-such-run
refuses 1 "'no-such-run' does not exist" monitor --once --json runs/first no-such-run
refuses 1 "neither 'temporary' nor its subdirectories have a run" monitor --once temporary
exits 1 "updates without a run" monitor --interval 0.1 --count 2 no-such-run
check "updates without a run: reported" grep -q "^'no-such-run' does not exist: waiting for a run to start" err
check "updates without a run: the error" grep -q "^error: 'no-such-run' does not exist; pass the output directory of a run$" err
exits 1 "updates without a run, as JSON" monitor -q --interval 0.1 --count 2 --json no-such-run
check "updates without a run, as JSON: empty" grep -qx '{"time": [0-9.]*, "runs": \[\]}' out
check "updates without a run, as JSON: one line of words" test "$(lines err)" -eq 1
refuses 1 "no process 999999999" monitor --pid 999999999
refuses 1 "cannot find the run of process $$" monitor --pid $$
refuses 1 "cannot write 'no/log'" monitor --once --log no/log runs
[ ! -e /dev/full ] || refuses 5 "cannot write '/dev/full'" monitor --once --log /dev/full runs

# ---- a run that starts later ----

# The first guide's third usage: a terminal with the monitor, then another one with the run, in the same directory.
mkdir later
cp text.txt tiny.json later
(cd later && EITP=$eitp exec sh "$root/tools/monitor_training.sh" --interval 0.1 --log log >lines 2>said </dev/null) &
monitor=$!
(cd later && exec "$eitp" monitor --interval 0.1 --json missing/run >states 2>/dev/null </dev/null) &
other=$!
until grep -q "waiting for a run to start" later/said && grep -q '"runs": \[\]' later/states; do
    kill -0 $monitor || break
done
(cd later && "$eitp" $train --steps 3 --eval no) >out 2>err </dev/null
check "a run that starts later: it trains" test -d later/eitp_results/checkpoint-3
wait $monitor
check "a run that starts later: the monitor ends with it" test $? -eq 0
check "a run that starts later: its state" grep -q '^state: finished$' later/lines
check "a run that starts later: all facts first" grep -q '^directory: ./eitp_results$' later/lines
check "a run that starts later: the log" grep -q '^directory: ./eitp_results$' later/log
check "a run that starts later: reported once" test "$(grep -c waiting later/said)" -eq 1
(cd later && "$eitp" $train --steps 3 --eval no --output-dir missing/run) >out 2>err </dev/null
wait $other
check "a directory that appears later" test $? -eq 0
check "a directory that appears later: its state" grep -q '"state": "finished"' later/states
shows "a screen that waits" 80x24 monitor --interval 0.1 begun <<END
line waiting for a run to start
run cp -r runs/first begun
wait step 12/12
key q
end 0
END

# ---- runs that train ----

forever="$train --steps 100000000 --save-steps 0 --eval-steps 0 --log-every 1000"
check "a run" start_until '^step 1/' $forever --save-total-limit 0 --output-dir runs/second
exits 0 "a process" monitor --once --pid $process
check "a process: its run" grep -q '^run: second$' out
check "a process: it trains" grep -q '^state: running$' out
state_of runs/first >before
ls runs/second | grep -v '^checkpoint-\|^latest\|^summary' >files
shows "a run" 100x30 monitor --interval 0.2 runs <<END
wait > second
wait running
wait left
wait checkpoint: none yet
key k
wait > first
key down
wait > second
key s
wait sent SIGUSR1 to process $process: it will save after this step
wait saved runs/second/checkpoint-
gone checkpoint: none yet
wait a crash now would cost
key x
wait stop second with a checkpoint?  x: yes, any other key: no
key n
gone stop second
key x
wait stop second
key up
gone stop second
key j
key j
type xx
key q
end 0
END
check "a run: it continues" kill -0 $process
exits 0 "a run" monitor --once runs/second
if [ "$has_terminals" ]; then
    check "a run: its time" grep -q '^time left: .* (.* to .*)$' out
    check "a run: one checkpoint" test "$(ls -d runs/second/checkpoint-* | wc -l)" -eq 1
fi
ls runs/second | grep -v '^checkpoint-\|^latest\|^summary' >files_after
check "a run: no other files" same files files_after
shows "a run that is stopped" 80x24 monitor --interval 0.2 runs/second <<END || kill -9 $process
wait running
key x
wait stop second
key x
wait sent SIGTERM to process $process: it will save and stop after this step
wait continue with: eitp train --resume auto --output-dir runs/second
row 1 stopped
key s
wait cannot save second: it has ended
key q
end 0
END
[ "$has_terminals" ] || kill -TERM $process
wait_for_end
check "a run that is stopped: exit code" test $? -eq 143
[ ! "$has_terminals" ] || check "a run that is stopped: two checkpoints" test "$(ls -d runs/second/checkpoint-* | wc -l)" -eq 2
state_of runs/first >after
check "another run is untouched" same before after

check "a run to kill" start_until '^step 1/' $forever --output-dir killed
kill -9 $process
wait_for_end
exits 0 "killed" monitor --once killed
check "killed: its state" grep -q '^state: killed or crashed$' out
check "killed: the reason" grep -q '^reason: the process is gone, reason unknown$' out
check "killed: how to continue" grep -q '^continue with: eitp train --resume auto --output-dir killed$' out
shows "killed" 80x24 monitor killed <<END
wait the process is gone, reason unknown
row 1 killed or crashed
key x
wait cannot stop killed: it has ended
key q
end 0
END

# ---- other processes, which must get no signal ----

sleep 1000 &
process=$!
cp -r runs/first other
change other pid $process state '"running"'
exits 0 "a process number that is reused" monitor --once other
check "a process number that is reused: killed" grep -q '^state: killed or crashed$' out
shows "a number that is another's" 80x24 monitor other <<END
wait step 12/12
key s
wait cannot save other: it has ended
key q
end 0
END
change other start_time "$(sed 's/.*) //' /proc/$process/stat | cut -d' ' -f20)"
shows "a program without handlers" 80x24 monitor other <<END
wait running
key s
wait cannot save other: the program does not save on SIGUSR1, which would
key x
wait cannot stop other: the program would end without a checkpoint
type xx
key q
end 0
END
change other state '"paused"'
shows "a run that is paused" 80x24 monitor other <<END
wait paused
key s
wait cannot save other: it is paused because of heat
key q
end 0
END
change other boot_id '"another"' host '"elsewhere"'
shows "another machine" 80x24 monitor other <<END
wait on another machine
key s
wait cannot save other: its process is on another machine
key q
end 0
END
exits 0 "another machine" monitor --once other
check "another machine: nothing of this one" sh -c '! grep -q "^disk free\|^load\|^pressure" out'
check "no signal was sent" kill -0 $process
kill $process

# ---- possible states of files ----

cp -r runs/first cut
rm cut/summary.jsonl
head -c 1500 runs/first/metrics.jsonl >cut/metrics.jsonl
exits 0 "a truncated file" monitor --once cut
check "a truncated file: as far as it can be read" grep -q '^loss: [0-9.]*$' out
check "a truncated file: missing data are reported" grep -q '^missing: summary.jsonl is missing' out
printf '{"run": {"name": "x' >cut/run.json
exits 0 "a damaged run.json" monitor --once cut
check "a damaged run.json: reported" grep -q "^missing: .*cut/run.json" out
check "a damaged run.json: no state" grep -q '^state: unknown$' out
shows "a damaged run.json" 80x24 monitor cut <<END
wait unknown
key x
wait cannot stop cut: run.json does not name its process
key q
end 0
END
mkdir names
long=$(printf '\345\220\215\345\211\215%.0s' 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20)
evil=$(printf 'a\033[31m\033]0;title\007\233b\r\303\050\343\201\202\360\237\230\200e\314\201')
cp -r runs/first "names/$long"
cp -r runs/first "names/$evil"
sed 's/"message": "saved/"message": "\\u001b[2J\\u0007\\u009b1m\\r\\nsaved/' runs/first/metrics.jsonl >"names/$evil/metrics.jsonl"
rm "names/$evil/summary.jsonl"
for size in 50x16 61x20 80x24; do
    shows "names on $size" $size monitor names <<END
wait step 12/12
key j
key k
key k
wait > a?[31m?]
key q
end 0
END
done
exits 0 "names" monitor --once names
check "names: no control characters" sh -c '! tr -d "\n" <out | grep -q "[[:cntrl:]]"'

# ---- a machine with little memory, and one that is hot ----

zone=machine/sys/class/thermal/thermal_zone0
mkdir -p machine/proc machine/sys/class/hwmon $zone
for value in type:x86_pkg_temp temp:97000 trip_point_0_type:critical trip_point_0_temp:100000; do
    echo "${value#*:}" >"$zone/${value%:*}"
done
printf 'MemTotal: 1000000 kB\nMemFree: 50000 kB\nMemAvailable: 100000 kB\n' >machine/proc/meminfo
EITP_SYSTEM_ROOT=machine "$eitp" monitor --once runs/first >out 2>err
check "memory: a warning" grep -q '^warning: memory use of the machine is 90 % (warning above 85 %)$' out
check "heat: shown" grep -q '^temperature: 97 C$' out
check "heat: a warning" grep -q '^warning: the processor is at 97 C; its critical temperature is 100 C$' out
echo 60000 >$zone/temp
EITP_SYSTEM_ROOT=machine "$eitp" monitor --once --memory-warn 95 runs/first >out 2>err
check "memory and heat: no warning" sh -c '! grep -q "^warning" out'

# ---- safe-train --monitor ----

if [ "$has_terminals" ]; then
shows "safe-train" 80x24 safe-train --monitor -- $forever --output-dir supervised <<END
wait running
key q
end 0
END
child=$(sed -n 's/.*"child": \([0-9]*\),.*/\1/p' supervised/logs/supervisor.json)
check "safe-train: the command continues" kill -0 "$child"
exits 0 "safe-train: its process" monitor --once --pid "$(supervisor_of supervised)"
check "safe-train: its run" grep -q '^state: running$' out
kill "$(supervisor_of supervised)"
for i in $(seq 100); do
    ! grep -q '"state": "ended"' supervised/logs/supervisor.json || break
    sleep 0.1
done
check "safe-train: a checkpoint" test -d supervised/latest_model
mkdir refused
shows "safe-train: a command that ends before it trains" 80x24 safe-train --monitor --output-dir refused -- false <<END
wait ended before training
wait exit code 1; see
key s
wait cannot save refused: it has not started to train
key q
end 0
END
fi
exits 1 "train --monitor is another option" train --monitor
check "train --monitor: reported" grep -q 'monitor needs a value' err

finish
