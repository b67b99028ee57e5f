#!/bin/sh
# The command: eitp doctor, on slow runs and ends that take minutes to produce (make doctor-cases). Others are in
# test_doctor.sh.
root=$PWD
. tests/command/command.sh

diagnosed() { # NAME DIR PATTERN
    exits 0 "$1" doctor "$2"
    if head -n 1 out | grep -qxE "$3"; then pass; else
        fail "$1: the first line is not \"$3\""
        sed 's/^/    /' out
    fi
}
# Uses the machine's own files, regardless of the environment.
unset EITP_SYSTEM_ROOT
long="train --data text.txt --init tiny.json --block-size 64 --batch-size 4 --grad-accum 16 --dropout 0 --precision $precision
    --lr 1e-3 --lr-schedule constant --eval-steps 0 --save-steps 0 --steps 100000000"

# ---- other programs, and tasks that wait for memory: reports of the guard after a minute ----

# Creates a machine NAME with the files of an idle one.
make_machine() {
    mkdir -p "$1/proc/pressure" "$1/sys/class/hwmon" "$1/sys/class/thermal"
    echo "0.10 0.10 0.10 1/100 1000" >"$1/proc/loadavg"
    echo "some avg10=0.00 avg60=0.00 avg300=0.00 total=0" >"$1/proc/pressure/memory"
}
make_machine loaded
echo "99.00 99.00 99.00 1/100 1000" >loaded/proc/loadavg
make_machine waiting
echo "some avg10=60.00 avg60=60.00 avg300=0.00 total=0" >waiting/proc/pressure/memory
make_machine quiet
EITP_SYSTEM_ROOT=$work/loaded timeout -s TERM 100 "$eitp" $long --threads 1 --output-dir load >/dev/null 2>&1 </dev/null &
first=$!
EITP_SYSTEM_ROOT=$work/waiting timeout -s TERM 100 "$eitp" $long --threads 1 --output-dir pressure >/dev/null 2>&1 </dev/null &
wait $first $!
# slow NAME DIR PATTERN: it was stopped, and this is one of the other findings.
slow() {
    diagnosed "$1" "$2" "The run was stopped by a signal after step .*"
    if grep -qxE "$3" out; then pass; else
        fail "$1: no line is \"$3\""
        sed 's/^/    /' out
    fi
}
slow "load" load "The run is slow because other programs use its processors\."
slow "pressure" pressure "The run is slow because the machine is swapping: .*"

# Busy loops really take the processors: two for each.
for i in $(seq $(($(usable_processors) * 2))); do
    timeout 100 sh -c 'while :; do :; done' &
done
EITP_SYSTEM_ROOT=$work/quiet timeout -s TERM 90 "$eitp" $long --nice 5 --output-dir neighbours >out 2>err </dev/null
wait
slow "neighbours" neighbours "The run is slow because other programs use its processors\."

# ---- files ----

exits 0 "offloaded" $large --block-size 8 --batch-size 1 --grad-accum 4 --optimizer adamw --offload all --steps 100 --lr 1e-3 --output-dir offloaded
diagnosed "offloaded" offloaded "The run is slow because of offloading \(--offload all\): moving weights takes [0-9]* % of the time\."
if "${CC:-cc}" -shared -fPIC -o calls.so "$root/tests/command/failing_calls.c" -ldl 2>compiler; then
    GOMP_SPINCOUNT=1000 CALLS_SLOW_SYNC=500 LD_PRELOAD=$work/calls.so "$eitp" $large --save-steps 2 --grad-accum 4 --optimizer adamw \
        --steps 10 --async-save no \
        --lr 1e-3 --output-dir slow_disk >out 2>err </dev/null
    diagnosed "slow disk" slow_disk "The run is slow because its disk is slow: a checkpoint of .* takes .* s \(.* per second\)\."
else
    echo "SKIPPED slow disk: ${CC:-cc} cannot build a shared object from tests/command/failing_calls.c"
fi

# ---- the kernel ends a run that exceeds the memory of its control group ----

make_group() {
    for mount in /sys/fs/cgroup/memory /sys/fs/cgroup; do
        own=$(sed -n -e 's/^[0-9]*:memory:\(.*\)$/\1/p' -e 's/^0::\(.*\)$/\1/p' /proc/self/cgroup 2>/dev/null | head -n 1)
        for parent in "$mount$own" "$mount"; do
            made=$parent/eitp-doctor-$$
            mkdir "$made" 2>/dev/null || continue
            [ ! -e "$made/memory.limit_in_bytes" ] && [ ! -e "$made/memory.max" ] || { echo "$made" && return 0; }
            rmdir "$made"
        done
    done
    return 1
}
group=$(make_group) || {
    echo "SKIPPED the kernel ends a run: no control group with a memory controller can be made"
    finish
}
limit_group() {
    if [ -e "$group/memory.max" ]; then
        echo "$1" >"$group/memory.max" || return 1
        echo 0 >"$group/memory.swap.max"
    else
        echo "$1" >"$group/memory.limit_in_bytes" || return 1
        echo 0 >"$group/memory.swappiness"
        echo "$1" >"$group/memory.memsw.limit_in_bytes"
    fi
    return 0
}
if ! limit_group 150000000 2>/dev/null || ! "${CC:-cc}" -o neighbour "$root/tests/command/neighbour.c"; then
    rmdir "$group"
    echo "SKIPPED the kernel ends a run: $group takes no limit"
    finish
fi
cat >in_group <<END
#!/bin/sh
echo \$\$ >'$group/cgroup.procs' && exec "\$@"
END
chmod +x in_group
timeout -s KILL 60 ./in_group "$eitp" $long --threads 1 --output-dir oom >out 2>err </dev/null &
process=$!
for i in $(seq 100); do grep -q '^step 10/' err && break; sleep 0.1; done
./in_group ./neighbour 1000 1000 &
neighbour=$!
wait $process 2>/dev/null
check "the kernel: exit code" test $? -eq 137
kill -9 $neighbour 2>/dev/null
wait $neighbour 2>/dev/null
./in_group "$eitp" doctor oom >out 2>err
check "the kernel: reported" sh -c 'head -n 1 out | grep -qE "^The kernel (probably )?killed the run because memory ran out,? after step [0-9]+"'
for try in 1 2 3 4 5; do rmdir "$group" 2>/dev/null && break; sleep 0.2; done

finish
