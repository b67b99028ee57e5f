#!/bin/sh
# The command in simulated trouble: the events that a run records, and that it records no others.
#
#   trouble                                     tested here, and in
#   a learning rate that is too high            spikes, divergence; test_health.sh, test_failures.sh, run/test_health.c
#   slow data                                   the times in records
#   data that end, change or cannot be read     test_failures.sh
#   another program takes the memory            memory_high and a save; test_guard.sh, test_pressure.sh,
#                                               run/test_guard.c
#   tasks that wait for memory, load            after 30 s and 60 s: run/test_guard_heat.c
#   heat                                        during a run; test_guard.sh, run/test_guard_heat.c
#   a process that is killed or stalls          test_safe_train.sh, run/test_kill.sh
#   a machine that restarts                     interrupted; run/test_run_info.c
#   another process in the directory            test_safe_train.sh, test_stop.sh, test_set.sh
#   a full disk                                 test_disk.sh, run/test_disk.c
#   a disk that stalls                          run/test_record_file.c
root=$PWD
. tests/command/command.sh
run="$train --batch-size 2 --grad-accum 1 --lr-schedule constant --warmup-steps 10 --val-fraction 0.02"

# Whether a loss is a spike depends on its last bits, and so on the kernels.
EITP_ISA=${EITP_ISA:-ref}
export EITP_ISA

# An idle machine.
machine=$work/machine
zone=$machine/sys/class/thermal/thermal_zone0
mkdir -p "$zone" "$machine/sys/class/hwmon" "$machine/proc/pressure" "$machine/proc/sys/kernel/random"
# becomes FILE TEXT: replaces a file of the machine atomically.
becomes() {
    echo "$2" >"$machine/new"
    mv "$machine/new" "$machine/$1"
}
temperature() {
    becomes sys/class/thermal/thermal_zone0/temp "$1"
}
available() { # MB
    becomes proc/meminfo "MemTotal: 100000000 kB
MemAvailable: ${1}000 kB"
}
echo x86_pkg_temp >"$zone/type"
temperature 50000
available 60000
becomes proc/loadavg "0.10 0.10 0.10 1/100 1000"
becomes proc/pressure/memory "some avg10=0.00 avg60=0.00 avg300=0.00 total=0"
EITP_SYSTEM_ROOT=$machine
export EITP_SYSTEM_ROOT

# ---- none ----

good="$run --lr 3e-3 --steps 300 --eval-steps 50 --save-steps 100"
exits 0 "a good run" $good --output-dir good
happens "started saved" "a good run" "$(happened good)"
check "a good run: no warning" sh -c '! grep -q "^warning\|^error" err'

# ---- a learning rate that is too high ----

exits 0 "ten times too high" $run --lr 0.03 --dropout 0 --steps 600 --eval-steps 100 --save-steps 0 --output-dir tenfold
happens "started spike saved" "ten times too high" "$(happened tenfold)"

# Events that may occur when a run diverges, but need not.
without_gradients() {
    happened "$1" | sed -e 's/ spike//g' -e 's/ alarm:exploding_gradient//g'
}
exits 4 "a thousand times too high" $run --lr 3 --lr-schedule cosine --max-grad-norm 0 --steps 60 --eval-steps 20 --save-steps 20 --output-dir ruined
happens "started diverging not_saved" "a thousand times too high" "$(without_gradients ruined)"
check "a thousand times too high: nothing to resume from" test "$(ls ruined | grep -c '^checkpoint-[0-9]*$')" -eq 0

# The run continues from the last good checkpoint, as if nothing had happened.
cp -r good diverged
sed '/"event": /d' good/metrics.jsonl >diverged/metrics.jsonl
exits 4 "a higher rate later" train --resume auto --output-dir diverged --threads 1 --steps 400 --eval-steps 20 --save-steps 20 \
    --lr 3 --max-grad-norm 0
happens "started diverging not_saved" "a higher rate later" "$(without_gradients diverged)"
check "a higher rate later: one warning of divergence" test "$(grep -c '^warning: the loss diverges: ' err)" -eq 1
check "a higher rate later: names where to resume" grep -q '^error: the loss diverged: .*diverged/checkpoint-300' err
check "a higher rate later: the model is set aside" test -d diverged/checkpoint-400.diverged
exits 0 "with the old rate" train --resume auto --output-dir diverged --threads 1 --steps 310 --lr 3e-3 --max-grad-norm 0.5
exits 0 "undisturbed" train --resume auto --output-dir good --threads 1 --steps 310
check "with the old rate: the same bits" same_checkpoints good/checkpoint-310 diverged/checkpoint-310

# ---- slow data ----

# waits_for_data DIRECTORY: prints the percentage of time that the last steps waited for data.
waits_for_data() {
    sed -n 's/.*"perf\/data_loading_ratio": \([0-9]*\).*/\1/p' "$1/metrics.jsonl" | tail -n 1
}

timed="$run --lr 3e-3 --steps 40 --eval-steps 0 --save-steps 0 --perf-every 20"
exits 0 "fast data" $timed --output-dir fast
if "${CC:-cc}" -shared -fPIC -o calls.so "$root/tests/command/failing_calls.c" -ldl 2>compiler &&
    CALLS_COUNT=$work/count LD_PRELOAD=$work/calls.so "$eitp" --version >/dev/null 2>&1 && [ -e count ]; then
    # Otherwise the command would execute itself again to set it.
    GOMP_SPINCOUNT=1000 CALLS_SLOW=20 LD_PRELOAD=$work/calls.so "$eitp" $timed --output-dir slow >out 2>err </dev/null
    check "slow data: exit code" test $? -eq 0
    happens "started saved" "slow data" "$(happened slow)"
    check "slow data: most of the time is for data: $(waits_for_data slow) %" test "$(waits_for_data slow)" -gt 30
    check "slow data: the same bits" same_checkpoints fast/checkpoint-40 slow/checkpoint-40
else
    echo "SKIPPED slow data: ${CC:-cc} cannot build a shared object from tests/command/failing_calls.c"
fi

# ---- another program takes the memory, and heat, during a run ----

# says PATTERN: waits until the run prints it.
says() {
    tries=0
    while kill -0 $process 2>/dev/null && [ $tries -lt 600 ] && ! grep -q "$1" running.err; do
        sleep 0.05
        tries=$((tries + 1))
    done
    grep -q "$1" running.err
}

# Of 100 GB others use half, soon almost 90, and slowly more. Then they release everything, and take 90 at once.
long="$run --batch-size 4 --grad-accum 32 --lr 3e-3 --eval-steps 0 --save-steps 0"
available 10400
check "a neighbour: a first step" start_until '^step 1/' $long --steps 100000 --log-every 1 --output-dir disturbed
check "a neighbour: reported" says '^warning: memory is filling up: other programs use 90 % .*; the run continues unchanged$'
available 9700
check "a neighbour: saved" says '^saved disturbed/checkpoint-'
check "a neighbour: reported with the reason" grep -q '^warning: memory is filling up: other programs use 90 % .*; saving; then the run continues unchanged$' running.err
available 60000
temperature 99000
check "heat: pauses" says '^warning: training pauses before step [0-9]*: x86_pkg_temp is at 99.0 C'
temperature 80000
check "heat: continues" says '^training continues after '
available 6000
check "a greedy neighbour: reported" says '^warning: memory is short: 6.1 GB left .*, and other programs use .* more per second; saving;'
available 60000
kill -TERM $process
wait_for_end
check "trouble in a run: exit code" test $? -eq 143
happens "started memory_high saved temperature memory_short saved memory_pressure" "trouble in a run" \
    "$(happened disturbed | sed 's/memory_pressure saved$/memory_pressure/')"
check "a neighbour: reported at both thresholds" test "$(grep -c '"event": "memory_high"' disturbed/metrics.jsonl)" -eq 2
last=$(ls disturbed | sed -n 's/^checkpoint-//p' | sort -n | tail -n 1)
exits 0 "undisturbed" $long --steps "$last" --output-dir undisturbed
check "trouble in a run: the same bits" same_checkpoints "undisturbed/checkpoint-$last" "disturbed/checkpoint-$last"

# ---- the machine restarts during training ----

becomes proc/sys/kernel/random/boot_id before
check "a restart: a first save" start_until '^saved restarted/checkpoint-' $long --steps 100000 --save-steps 2 --output-dir restarted
kill -KILL $process
wait_for_end
becomes proc/sys/kernel/random/boot_id after
last=$(($(ls restarted | sed -n 's/^checkpoint-//p' | sort -n | tail -n 1) + 1))
exits 0 "a restart: resumed" train --resume auto --output-dir restarted --steps $last
check "a restart: reported" grep -q "^warning: the machine restarted during the previous run, after step $((last - 1)) or later; " err
happens "interrupted started saved" "a restart" "$(happened restarted | sed 's/.*interrupted/interrupted/')"
check "a restart: recorded" grep -q '"event": "interrupted", .*"machine_restarted": true' restarted/metrics.jsonl
exits 0 "without a restart" $long --steps $last --save-steps 2 --output-dir unbroken
check "a restart: the same bits" same_checkpoints "unbroken/checkpoint-$last" "restarted/checkpoint-$last"
exits 0 "a restart: reported once" train --resume auto --output-dir restarted --steps $((last + 1))
check "a restart: reported once" test "$(grep -c '"event": "interrupted"' restarted/metrics.jsonl)" -eq 1

finish
