#!/bin/sh
# The command: check-system reports the machine and what fits, and prints a command that runs; profiles.
. tests/command/command.sh

# Prints the value of a member of the JSON object in the file out: a string or a number.
member() {
    tr ',{}' '\n\n\n' <out | sed -n "s/^ *\"$1\": \"\{0,1\}\([^\"]*\)\"\{0,1\} *\$/\1/p" | head -n 1
}

is() { # name of a member, value
    check "$1 is $2; not $(member "$1")" test "$(member "$1")" = "$2"
}

suggested() {
    sed -n 's/.*"command": "\(.*\)", "note": .*/\1/p' out | sed 's/\\\(.\)/\1/g'
}

# Runs the command printed in the report in the file out, in this directory.
runs() {
    suggested >suggested.sh
    check "$1: a command" test -s suggested.sh
    check "$1: it runs: $(cat suggested.sh)" sh -c 'sh suggested.sh >run.out 2>run.err </dev/null'
}

# ---- the report ----

exits 0 "check-system" check-system
for line in processor caches kernels device memory budget swap GPU disk temperature tier profile batch workers; do
    check "a line for $line" grep -q "^$line  *[^ ]" out
done
check "nothing on standard error" test ! -s err
check "no rule for GPUs" grep -q 'never run on a GPU, .*; GPU memory does not count' out
exits 0 "check-system --json" check-system --json
if command -v python3 >/dev/null; then
    check "--json is one object" python3 -c '
import json
report = json.load(open("out"))
assert report["processor"]["usable"] >= 1 and report["processor"]["kernels"] in report["processor"]["instruction_sets"]
assert report["memory"]["usable"] >= report["memory"]["budget"] > 0
assert isinstance(report["gpus"], list) and isinstance(report["temperatures"], list)
assert all(0 <= share <= 1 for share in report["pressure"].values()) and report.get("load", 0) >= 0
assert {"tiny", "distilgpt2", "gpt2", "gpt2-medium", "minilm", "bert-base", "roberta-large"} <= {
    model["model"] for model in report["models"]}
assert report["fits"] is True and report["command"]
for model in report["models"]:
    assert not model["fits"] or model["bytes"] <= report["memory"]["budget"]
    assert model["batch_size"] * model["grad_accum"] == (16 if model["profile"] != "full" else 8)
'
else
    echo "SKIPPED the parsing of --json: python3 is missing"
fi

# ---- tiers: the boundaries belong to safe ----

for pair in 7.999G:low-memory 8G:safe 12G:safe 16G:safe 16.001G:full 64G:full; do
    exits 0 "--memory-budget ${pair%%:*}" check-system --init tiny.json --memory-budget "${pair%%:*}" --json
    is tier "${pair##*:}"
done
# The plan selects the profile, by the memory that the model needs.
is profile full

# auto is the largest that fits without approximation. Minimum memory of the optimizers for a profile, in MB:
needs() {
    "$eitp" plan --init large.json --threads 1 --precision "$precision" --profile "$1" --optimizer "$2" --memory-budget 5M 2>&1 |
        sed -n 's/.*that is enough is \([0-9]*\)M.*/\1/p'
}

chooses() { # profile, MB
    exits 0 "train --profile auto in $2 MB" train --data text.txt --init large.json --threads 1 --precision "$precision" \
        --profile auto --memory-budget "$2M" --print-config
    check "$1 in $2 MB; not $(grep '^profile ' out)" grep -q "^profile  *\"$1\" " out
}

larger=full
for profile in safe low-memory; do
    exact=$(needs $larger adamw8-sr)
    approximate=$(needs $larger factored)
    check "$larger: factored needs less: $exact, $approximate" test $((approximate + 2)) -lt "$exact"
    chooses $larger $((exact + 1))
    chooses $profile $(((exact + approximate) / 2))
    larger=$profile
done
chooses low-memory 20

exits 1 "nothing fits" check-system --init large.json --memory-budget 5M --json
check "nothing fits: the reason" grep -q '"why": "the run does not fit in 5.0 MB; the smallest --memory-budget' out
check "nothing fits: no command" grep -q '"command": null' out
# Finding that none of the usual models fits takes a minute.
few="--init large.json"
[ -z "$EITP_TEST_ALL" ] || few=
exits 1 "nothing fits, in words" check-system $few --memory-budget 5M
check "nothing fits, in words: names a remedy" grep -q '^advice  *the run does not fit in 5.0 MB' out

if [ -r /proc/self/status ] && (ulimit -v 3000000) 2>/dev/null; then
    (ulimit -v 3000000 && "$eitp" check-system --init tiny.json --json >out 2>err)
    is limited_by RLIMIT_AS
    is process_limit 3072000000
    is tier low-memory
else
    echo "SKIPPED a limit of the process: /proc/self/status or ulimit -v is missing"
fi

if command -v taskset >/dev/null && taskset -c 0 true 2>/dev/null; then
    taskset -c 0 "$eitp" check-system --init tiny.json --json >out 2>err
    is allowed 1
    is usable 1
else
    echo "SKIPPED affinity: taskset is missing, or there is no processor 0"
fi

# ---- threads ----

# device_is TEXT: checks how the report describes the device.
device_is() {
    check "device: $1; not $(sed -n 's/^device  *//p' out)" grep -q "^device  *cpu, $1" out
}

# quota VERSION FILE NUMBER...: a machine whose control group has this quota, in separate files.
quota() {
    rm -rf machine
    mkdir -p machine/proc/self machine/sys/fs/cgroup/cpu/job machine/sys/fs/cgroup/job
    if [ "$1" = v2 ]; then
        echo "0::/job" >machine/proc/self/cgroup
        echo "31 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw" >machine/proc/self/mountinfo
        echo "$2 100000" >machine/sys/fs/cgroup/job/cpu.max
    else
        echo "4:cpu,cpuacct:/job" >machine/proc/self/cgroup
        echo "31 23 0:26 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct" >machine/proc/self/mountinfo
        echo 100000 >machine/sys/fs/cgroup/cpu/job/cpu.cfs_period_us
        echo "$2" >machine/sys/fs/cgroup/cpu/job/cpu.cfs_quota_us
    fi
}

unset OMP_NUM_THREADS
exits 0 "all processors" check-system --init tiny.json
all=$(sed -n 's/^device  *cpu, \([0-9]*\) thread.*/\1/p' out)
if [ "${all:-1}" -gt 1 ]; then
    for version in v1 v2; do
        quota $version 100000
        EITP_SYSTEM_ROOT=machine exits 0 "$version: a quota of one" check-system --init tiny.json
        device_is '1 thread (quota of the control group: 1), kernels '
        EITP_SYSTEM_ROOT=machine exits 0 "$version: a quota of one, train" train --data text.txt --init tiny.json --block-size 16 \
            --steps 1 --eval no --precision "$precision" --output-dir quota$version
        check "$version: a quota of one, train: $(grep '^device' err)" grep -q '^device: cpu, 1 thread (quota of the control group: 1), ' err
        quota $version 40000
        EITP_SYSTEM_ROOT=machine exits 0 "$version: less than one" check-system --init tiny.json
        device_is '1 thread (quota of the control group: 0.4), kernels '
        quota $version 150000
        EITP_SYSTEM_ROOT=machine exits 0 "$version: one and a half" check-system --init tiny.json
        device_is '2 threads'
        EITP_SYSTEM_ROOT=machine exits 0 "$version: explicit threads" check-system --init tiny.json --threads 3
        device_is '3 threads, kernels '
    done
    quota v2 100000
    OMP_NUM_THREADS=2 EITP_SYSTEM_ROOT=machine exits 0 "threads of OpenMP" check-system --init tiny.json
    device_is '2 threads, kernels '
    quota v2 max
    EITP_SYSTEM_ROOT=machine exits 0 "no quota" check-system --init tiny.json
    device_is "$all threads"
    # A runtime that binds the thread reading the mask does not reduce the processors of other threads.
    for setting in OMP_PROC_BIND=true OMP_PROC_BIND=close OMP_PROC_BIND=spread OMP_PLACES=threads; do
        (export "${setting?}" && "$eitp" check-system --init tiny.json) >out 2>err
        device_is "$all threads"
        check "$setting: processors; not $(grep ^processor out)" grep -q "^processor .*, $all usable" out
        (export "${setting?}" GOMP_SPINCOUNT=1000 && "$eitp" check-system --init tiny.json) >out 2>err
        device_is "$all threads"
    done
    if command -v taskset >/dev/null && taskset -c 0 true 2>/dev/null; then
        (export OMP_PROC_BIND=true && taskset -c 0 "$eitp" check-system --init tiny.json) >out 2>err
        device_is '1 thread (affinity: 1 of '
        OMP_PROC_BIND=true "$eitp" safe-train --max-restarts 0 -- train --data text.txt --init tiny.json --block-size 16 --steps 1 \
            --eval no --precision "$precision" --output-dir bound >out 2>err
        check "safe-train, bound: $(grep -h '^device' out err bound/logs/*.log)" \
            grep -qh "^.*device: cpu, $all threads" out err bound/logs/*.log
    fi
else
    echo "SKIPPED the default number of threads: there is one processor"
fi

# ---- the command ----

mkdir empty texts
cp tiny.json empty
cd empty || exit 1
exits 0 "no text file" check-system --init tiny.json --memory-budget 900M --json --threads 1
check "no text file: reported" grep -q '"note": "trains on eitp.s help text for one epoch; use --data for your own text"' out
runs "no text"
check "no text file: it trained" test -e eitp_results/latest_model
exits 0 "again" check-system --init tiny.json --json --threads 1
check "again: another directory" grep -q -e '--data eitp_help.txt .*--output-dir eitp_results-2' out
cd ../texts || exit 1
cp ../small.txt "my own.txt"
head -c 500 ../small.txt >another.txt
cp ../tiny.json .
exits 0 "a text file" check-system --init tiny.json --json --threads 1
check "a text file: a checkpoint about every 10 minutes; $(member command)" awk 'BEGIN { interval = ARGV[1] * ARGV[2]
    exit !(interval > 379 && interval < 950 && ARGV[1] ~ /^[125]0*$/) }' "$(suggested | sed -n 's/.* --save-steps \([0-9]*\) .*/\1/p')" \
    "$(member nominal_seconds)"
is save_steps "$(suggested | sed -n 's/.* --save-steps \([0-9]*\) .*/\1/p')"
check "a text file: it is not chosen by chance" sh -c '! grep -q "my own.txt" out'
runs "a text"
exits 0 "a named text file" check-system --init tiny.json --data "my own.txt" --json --threads 1
check "a named text file" grep -q -e "--data 'my own.txt' " out
exits 0 "a short text file" check-system --init tiny.json --data another.txt --output-dir "it's" --json --threads 1
check "a short text file: shorter sequences" grep -q -e '--block-size 32 ' out
runs "a short text"
check "a short text file: its output directory" test -e "it's/latest_model"
cd .. || exit 1
exits 0 "an encoder" check-system --init minilm --json
check "an encoder is planned" grep -q '"command": "[^"]* plan --init minilm --profile ' out
runs "an encoder"
cp -r "texts/eitp_results/latest_model/." model
exits 0 "a directory" check-system --model model --data small.txt --json --threads 1
check "a directory" grep -q -e ' train --model model --data small.txt --profile ' out
check "a directory: no other models" test "$(grep -c '"nominal_seconds"' out)" -eq 1
runs "a directory"

# ---- refusals ----

refuses 1 "unknown option 'jsn'; did you mean 'json'" check-system --jsn
refuses 1 "unexpected argument 'gpt2'; values follow options, as in --model gpt2" check-system gpt2
refuses 1 "no model shape named 'gpt5'" check-system --init gpt5
refuses 1 "--model and --init cannot be used together" check-system --model gpt2 --init gpt2
refuses 1 "memory-budget: .lots. is not a number of bytes" check-system --memory-budget lots
refuses 1 "'eitp check-system' has no option --lr" check-system --lr 1
[ -e /proc/driver/nvidia ] || refuses 1 "no NVIDIA driver: .*libcuda.so.1.*; use device 'cpu'" check-system --device cuda
CUDA_VISIBLE_DEVICES=
export CUDA_VISIBLE_DEVICES
refuses 1 "NVIDIA driver.*; use device 'cpu'" check-system --device cuda
unset CUDA_VISIBLE_DEVICES
refuses 1 "device 'gpu'\|NVIDIA driver" check-system --device gpu
refuses 1 "unknown device 'cuda:x'" check-system --device cuda:x
(EITP_ISA=ref && export EITP_ISA && "$eitp" check-system --init tiny.json --json >out 2>err)
is kernels ref
is forced ref
(EITP_ISA=foo && export EITP_ISA && "$eitp" check-system >out 2>err && echo succeeded >out)
check "an unknown EITP_ISA" grep -q "^error: unknown instruction set 'foo'" err
check "an unknown EITP_ISA: nothing on standard output" test ! -s out

# ---- devices that this machine lacks ----

cat >devices.sh <<'END'
set -e
mount -t tmpfs none /proc/driver
[ ! -d /sys/bus/pci/devices ] || mount -t tmpfs none /sys/bus/pci/devices # a GPU that the machine has
mkdir -p /proc/driver/nvidia/gpus/0000:17:00.0
echo "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  550.54.15  Release Build" >/proc/driver/nvidia/version
printf 'Model: \t\t NVIDIA H200\nIRQ:   \t\t 12\n' >/proc/driver/nvidia/gpus/0000:17:00.0/information
mount -t tmpfs none /sys/class/thermal
mkdir /sys/class/thermal/thermal_zone0 /sys/class/thermal/thermal_zone1 /sys/class/thermal/cooling_device0
echo x86_pkg_temp >/sys/class/thermal/thermal_zone0/type
echo 61500 >/sys/class/thermal/thermal_zone0/temp
echo broken >/sys/class/thermal/thermal_zone1/type
echo -273000 >/sys/class/thermal/thermal_zone1/temp
"$1" check-system --init "$2" --json >out
"$1" check-system --init "$2" >words
END
if unshare -rm sh devices.sh "$eitp" "$PWD/tiny.json" 2>err; then
    check "a GPU" grep -q '"gpus": \[{"name": "NVIDIA H200", "driver": "nvidia 550.54.15", "bytes": null, "used": false}\]' out
    check "a GPU, in words" grep -q '^GPU  *NVIDIA H200, driver nvidia 550.54.15, .*; not used: eitp.s CUDA backend was never run on a GPU' words
    check "a temperature" grep -q '"temperatures": \[{"name": "x86_pkg_temp", "celsius": 61.5}\]' out
    check "a temperature, in words" grep -q '^temperature  *6[12] C (x86_pkg_temp)' words
else
    echo "SKIPPED devices: unshare -rm cannot mount here"
fi

# ---- profiles ----

shows() { # what --print-config shows, profile, options...
    wanted=$1
    shift
    exits 0 "--profile $*: $wanted" train --data text.txt --print-config --profile "$@"
    check "--profile $*: $wanted; not $(grep "^${wanted%% *} " out)" sh -c \
        'sed "s/  */ /" out | grep -qxF -e "$1"' sh "$wanted"
}

says() { # words in the log
    check "it says: $1; not $(cat err)" grep -q -e "$1" err
}

shows 'profile "none"  (command line)' none
shows 'batch-size 4  (profile quick)' quick --init gpt2
shows 'block-size 1000  (profile quick)' quick --init gpt2
shows 'grad-accum 2  (profile max)' max --init gpt2
shows 'precision "auto"  (default)' max --init gpt2
says "^profile max: mixed precision uses the type that this processor multiplies fastest"
shows 'block-size 64  (profile max)' maximum --init tiny.json
says "^profile max: block-size 64 instead of 1000, the positions of the model"
shows 'block-size 48  (command line)' max --init tiny.json --block-size 48
shows 'batch-size 2  (profile low-ram)' low-ram --init gpt2
shows 'block-size 500  (profile low-ram)' memory_limited --init gpt2
shows 'precision "bf16"  (profile low-ram)' low-ram --init gpt2
shows 'auto-shrink true  (profile low-ram)' low-ram --init gpt2
shows 'batch-size 1  (profile debug)' debug --init gpt2
shows 'block-size 100  (profile debug)' debug --init gpt2
shows 'precision "fp32"  (profile debug)' debug --init gpt2
shows 'check-finite "op"  (profile debug)' debug --init gpt2
shows 'block-size 64  (profile full)' full --init tiny.json
says "^profile full: block-size 64 instead of 512, the positions of the model"
workers=$(($(usable_processors) / 4))
[ $workers -ge 1 ] || workers=1
if [ $workers -lt 8 ]; then
    shows "data-workers $workers  (profile quick)" quick --init gpt2
    says "^profile quick: data-workers $workers instead of 8, one for every four processors"
else
    shows "data-workers 8  (profile quick)" quick --init gpt2
fi
shows 'profile "full"  (command line)' auto --init tiny.json --memory-budget 4G
says "^profile auto: full (8 x 64 x 1), the largest that fits in 4.0 GB (adamw in .*: "
shows 'data-workers 3  (command line)' quick --init gpt2 --data-workers 3
refuses 1 "profile: invalid value 'huge' (choose from none, auto, low-memory, safe, full, tiny, quick, max, low-ram, debug)" \
    train --profile huge
for profile in auto quick max low-ram debug; do
    exits 0 "train --profile $profile" train --data text.txt --init tiny.json --profile $profile --steps 1 --eval no \
        --threads 1 --output-dir $profile
done
head -c 3000 text.txt >short.txt
sed 's/"n_positions": 64/"n_positions": 512/' tiny.json >wide.json
exits 0 "--profile auto of a short text" train --data short.txt --init wide.json --profile auto --memory-budget 4G --steps 1 --threads 1 \
    --tokenizer bytes --output-dir short
says "^profile auto: safe (4 x 256 x 4), the largest that fits"
exits 0 "resume with --profile auto" train --resume debug --output-dir debug --steps 2 --threads 1 --profile auto
says "^profile auto: the resumed run keeps its 2 samples per step (batch size 1, accumulation 2), block size 64"

finish
