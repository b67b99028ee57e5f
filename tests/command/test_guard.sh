#!/bin/sh
# The command on simulated machines (EITP_SYSTEM_ROOT): one that is hot, one whose memory is used by others, and how a
# run yields to other programs.
. tests/command/command.sh

# A directory in place of the root: one thermal zone, and no other sensors.
machine=$work/machine
zone=$machine/sys/class/thermal/thermal_zone0
mkdir -p "$zone" "$machine/sys/class/hwmon" "$machine/proc/self"
echo x86_pkg_temp >"$zone/type"
EITP_SYSTEM_ROOT=$machine
export EITP_SYSTEM_ROOT

temperature() {
    echo "$1" >"$zone/temp.new"
    mv "$zone/temp.new" "$zone/temp" # atomic, so that it is never read half-written
}

short="$train --steps 2 --eval-steps 0 --save-steps 0 --report-to jsonl"
temperature 50000
exits 0 "a cool machine" $short --output-dir straight
check "a cool machine: no pause" sh -c '! grep -q temperature straight/metrics.jsonl'

same_bits() {
    check "$1: the same bits" same_checkpoints straight/checkpoint-2 "$1/checkpoint-2"
}

# ---- heat ----

temperature 99000
check "a hot machine: pauses" start_until 'warning: training pauses before step 1: x86_pkg_temp is at 99.0 C (limit 95.0 C)' \
    $short --output-dir hot
temperature 50000
wait_for_end
check "a hot machine: continues when it is cooler" test $? -eq 0
check "a hot machine: reported" grep -q '^training continues after [0-9]* s: x86_pkg_temp is at 50.0 C$' running.err
check "a hot machine: both are recorded" test "$(grep -c '"event": "temperature", .*"sensor": "x86_pkg_temp", "celsius": ' hot/metrics.jsonl)" -eq 2
happens "started temperature saved" "a hot machine" "$(happened hot)"
same_bits hot

temperature 99000
check "a stop during the pause: pauses" start_until 'training pauses' $short --output-dir stopped
kill -TERM $process
wait_for_end
check "a stop during the pause: exit code" test $? -eq 143
check "a stop during the pause: no step was done" sh -c '! ls stopped | grep -q -e checkpoint -e metrics'
exits 0 "--temp-max: higher" $short --temp-max 100 --output-dir higher
same_bits higher
exits 0 "--temp-max: off" $short --temp-max -1 --output-dir off
same_bits off
check "--temp-max: no pause" sh -c '! grep -q temperature higher/metrics.jsonl off/metrics.jsonl'
temperature 71000
check "--temp-max: lower" start_until 'x86_pkg_temp is at 71.0 C (limit 70.0 C); it continues at 60.0 C' \
    $short --temp-max 70 --output-dir lower
temperature 60000
wait_for_end
check "--temp-max: lower: ends" test $? -eq 0
refuses 1 "temp-max" $short --temp-max warm --output-dir gone
temperature nothing
exits 0 "--temp-max without sensors" $short --temp-max 70 --output-dir blind
check "--temp-max without sensors: reported once" test "$(grep -c '^warning: --temp-max has no effect: ' err)" -eq 1

temperature 61500
echo critical >"$zone/trip_point_0_type"
echo 105000 >"$zone/trip_point_0_temp"
exits 0 "check-system" check-system --init tiny.json --json
check "check-system: a critical point" grep -q '"temperatures": \[{"name": "x86_pkg_temp", "celsius": 61.5, "critical": 105}\]' out
exits 0 "check-system in words" check-system --init tiny.json
check "check-system in words: a critical point" grep -q '^temperature  *6[12] C (x86_pkg_temp), critical at 105 C' out

# ---- memory in percent ----

echo "MemTotal: 100000000 kB
MemAvailable: 8000000 kB" >"$machine/proc/meminfo"
exits 0 "a full machine" $short --output-dir full
check "a full machine: reported once" test "$(grep -c '^warning: memory is filling up: other programs use 92 % of what this run leaves of the machine; ' err)" -eq 1
check "a full machine: recorded once" test "$(grep -c '"event": "memory_high", .*"percent": 9[12].*"own_bytes": .*"other_bytes": .*"left_bytes": ' full/metrics.jsonl)" -eq 1
check "a full machine: no further checkpoint" test "$(ls -d full/checkpoint-* | wc -l)" -eq 1
same_bits full
exits 0 "--cpu-mem-warn: higher" $short --cpu-mem-warn 95 --output-dir warned
exits 0 "--cpu-mem-warn: off" $short --cpu-mem-warn 0 --cpu-mem-max 0 --output-dir silent
check "--cpu-mem-warn: no event" sh -c '! grep -q memory_high warned/metrics.jsonl silent/metrics.jsonl'
exits 0 "--cpu-mem-max: acts if set" $short --cpu-mem-max 90 --output-dir acts
check "--cpu-mem-max: is a shortage" grep -q '"event": "memory_short", .*"percent": 9[12]' acts/metrics.jsonl
same_bits acts
exits 0 "--cpu-mem-max: --auto-shrink alone" $short --auto-shrink --output-dir alone
check "--cpu-mem-max: --auto-shrink alone is no shortage" sh -c '! grep -q memory_short alone/metrics.jsonl'
same_bits alone
refuses 1 "cpu-mem-max" $short --cpu-mem-max 101 --output-dir gone

# A control group of 4 GB, 3.8 GB of which are used by others.
rm "$machine/proc/meminfo"
mkdir -p "$machine/sys/fs/cgroup/job"
echo "0::/job" >"$machine/proc/self/cgroup"
echo "30 22 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup rw" >"$machine/proc/self/mountinfo"
echo 4000000000 >"$machine/sys/fs/cgroup/job/memory.max"
echo max >"$machine/sys/fs/cgroup/job/memory.high"
echo 3800000000 >"$machine/sys/fs/cgroup/job/memory.current"
echo "active_file 0" >"$machine/sys/fs/cgroup/job/memory.stat"
exits 0 "a full control group" $short --output-dir group
check "a full control group: reported" grep -q '^warning: memory is filling up: other programs use 9[45] % of what this run leaves of the control group; ' err
same_bits group
echo "active_file 3000000000" >"$machine/sys/fs/cgroup/job/memory.stat"
exits 0 "a control group of cached files" $short --output-dir cached
check "a control group of cached files is not full" sh -c '! grep -q "filling up.*control group" err'
rm -r "$machine/proc/self/cgroup" "$machine/proc/self/mountinfo" "$machine/sys/fs"

# ---- other programs come first ----

# while_paused NAME COMMAND ARGUMENTS...: the command must succeed while the run pauses as $process.
while_paused() {
    paused=$1
    condition=$2
    shift 2
    temperature 120000
    check "$paused: pauses" start_until 'training pauses' $short "$@" --output-dir polite
    check "$paused" sh -c "$condition" sh "$process"
    temperature 50000
    wait_for_end
    check "$paused: ends" test $? -eq 0
    rm -rf polite
}

own=$(cat /proc/self/oom_score_adj 2>/dev/null)
if [ -n "$own" ] && [ "$own" -lt 500 ] && (echo 600 >/proc/self/oom_score_adj) 2>/dev/null; then
    while_paused "the kernel ends the run first" 'test "$(cat /proc/$1/oom_score_adj)" -eq 500'
    while_paused "--oom-score-adj" 'test "$(cat /proc/$1/oom_score_adj)" -eq 900' --oom-score-adj 900
    while_paused "--oom-score-adj 0" "test \"\$(cat /proc/\$1/oom_score_adj)\" -eq $own" --oom-score-adj 0
    echo 'echo 700 >/proc/self/oom_score_adj && exec "$@"' >worse.sh
    starts="sh worse.sh"
    while_paused "--oom-score-adj lowers nothing" 'test "$(cat /proc/$1/oom_score_adj)" -eq 700'
    starts=
else
    echo "SKIPPED --oom-score-adj: /proc/self/oom_score_adj is not below 500, or cannot be written"
fi
if [ -r /proc/self/stat ]; then
    nice=$(cut -d' ' -f19 /proc/self/stat)
    higher=$((nice + 3))
    [ $higher -le 19 ] || higher=19
    while_paused "--nice" "test \"\$(cut -d' ' -f19 /proc/\$1/stat)\" -eq $higher" --nice 3
    while_paused "without --nice" "test \"\$(cut -d' ' -f19 /proc/\$1/stat)\" -eq $nice"
else
    echo "SKIPPED --nice: there is no /proc/self/stat"
fi

# device ARGUMENTS...: prints the line of a short run that names the compute device.
device() {
    exits 0 "$*" "$@" --output-dir spare
    rm -rf spare
    sed -n 's/^device: //p' err
}
processors() {
    printf 'VmRSS:\t20000 kB\nRssAnon:\t10000 kB\nCpus_allowed:\t%s\n' "$1" >"$machine/proc/self/status"
}
automatic=$(echo "$short" | sed 's/--threads 1/--threads 0/')
processors f
check "--spare-core: three of four" test "$(device $automatic --spare-core yes)" = "$(device $short --threads 3)"
check "--spare-core and --threads" test "$(device $short --threads 2 --spare-core yes)" = "$(device $short --threads 2)"
processors 3
check "--spare-core with two processors" test "$(device $automatic --spare-core yes)" = "$(device $automatic)"

finish
