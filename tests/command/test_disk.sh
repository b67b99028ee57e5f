#!/bin/sh
# The command: disks that are full or too small, limits on file sizes and open files, output that cannot be written.

# Mounting a disk needs a separate mount namespace. Otherwise others would see it, and it would be left behind.
if [ -z "$EITP_TEST_NAMESPACE" ]; then
    EITP_TEST_NAMESPACE=none
    for options in -m -rm; do
        [ $EITP_TEST_NAMESPACE = none ] && unshare $options true 2>/dev/null && EITP_TEST_NAMESPACE=$options
    done
    export EITP_TEST_NAMESPACE
    [ $EITP_TEST_NAMESPACE = none ] || exec unshare $EITP_TEST_NAMESPACE sh "$0" "$@"
fi
. tests/command/command.sh

sed 's/"n_embd": 16/"n_embd": 64/' tiny.json >medium.json
medium="train --data small.txt --init medium.json --block-size 16 --batch-size 2 --threads 1 --precision fp32
    --eval-steps 0 --lr 1e-3"

exits 0 "an undisturbed run" $medium --steps 12 --save-steps 2 --output-dir straight
checkpoint=$(du -sk straight/checkpoint-12 | cut -f1)
weights=$(wc -c <straight/checkpoint-12/model.safetensors)
optimizer=$(wc -c <straight/checkpoint-12/optimizer.safetensors)

nothing_partial() {
    test -z "$(find "$1" -name '*.partial*' -o -name '*.tmp' -o -name '.checkpoint*')"
}

# goes_on DIRECTORY STEP: resumed from its checkpoint, it has the weights of an undisturbed run three steps later.
goes_on() {
    last=$(($2 + 3))
    exits 0 "$1: resume" train --resume auto --output-dir "$1" --steps $last --threads 1 -q
    exits 0 "$1: without disturbance" $medium --lr-schedule constant --steps $last --save-steps 0 --output-dir undisturbed -q
    check "$1: the same bits" same_checkpoints undisturbed/checkpoint-$last "$1/checkpoint-$last"
    check "$1: nothing partial" nothing_partial "$1"
    rm -rf undisturbed
}

# ---- file size ----

limited() {
    (
        ulimit -f "$1"
        shift
        exec "$eitp" "$@" >out 2>err </dev/null
    )
}
# A limit between the sizes of the weights and the optimizer state, in units of 512 bytes.
between=$(((weights + optimizer) / 1024))
check "the optimizer's file is larger" test "$optimizer" -gt "$weights"
limited $between $medium --steps 12 --save-steps 2 --output-dir gone
check "a limit of file sizes: exit code" test $? -eq 5
check "a limit of file sizes: refused with figures" test "$(grep -c \
    '^error: a checkpoint has a file of .*, but files of this process are limited to .*; raise the limit' err)" -eq 1
check "a limit of file sizes: one line, no step, nothing left behind" test "$(lines err)" -eq 1 -a ! -e gone
if command -v prlimit >/dev/null 2>&1; then
    check "a limit set later: a save" start_until '^saved ' $medium --steps 100000000 --save-steps 20 \
        --lr-schedule constant --output-dir lowered
    prlimit --pid $process --fsize=$((between * 512))
    wait_for_end
    check "a limit set later: exit code" test $? -eq 5
    check "a limit set later: names where to resume" grep -q \
        "^error: cannot write '.*optimizer.safetensors.*ulimit -f.*; resume from 'lowered/checkpoint-[0-9]*'" running.err
    check "a limit set later: nothing partial" nothing_partial lowered
    step=$(ls lowered | sed -n 's/checkpoint-//p' | sort -n | tail -1)
    check "a limit set later: the checkpoint is the newest" grep -q "resume from 'lowered/checkpoint-$step'" running.err
    goes_on lowered "$step"
else
    echo "SKIPPED a limit of file sizes that is set later: prlimit is missing"
fi

# ---- open files ----

# Regardless of the number of files, a run either is refused or saves.
refused=0
saved=0
for files in 4 5 6 7 8 9 10 11 12 13 14 16 20; do
    # The shell redirects first, because that needs files.
    (
        exec >/dev/null 2>&1
        ulimit -n $files
        exec "$eitp" --version
    ) || continue
    (
        exec >out 2>err </dev/null
        ulimit -n $files
        exec "$eitp" $medium --steps 1 --output-dir gone --data-workers 2 --val-fraction 0.1
    )
    code=$?
    if [ $code -eq 0 ]; then
        saved=$((saved + 1))
        check "$files open files: a checkpoint" test -f gone/checkpoint-1/trainer_state.json
    else
        refused=$((refused + 1))
        check "$files open files: exit code" test $code -eq 5
        check "$files open files: one line" test "$(grep -c '^error: .*too many open files; .*ulimit -n' err)" -eq 1 \
            -a "$(lines err)" -eq 1
        check "$files open files: nothing is left" test ! -e gone
    fi
    rm -rf gone
done
check "open files: some numbers are too low ($refused), some are enough ($saved)" test $refused -gt 0 -a $saved -gt 0

# ---- output that cannot be written ----

if [ -c /dev/full ]; then
    "$eitp" $medium --steps 12 --save-steps 2 --output-dir silent 2>/dev/full >out
    check "messages that cannot be written do not end the run" test $? -eq 0
    check "messages that cannot be written: the same bits" same_checkpoints straight/checkpoint-12 silent/checkpoint-12
    "$eitp" $medium --steps 12 --output-dir muted --json >/dev/full 2>err
    check "a result that cannot be written: exit code" test $? -eq 5
    check "a result that cannot be written: the same bits" same_checkpoints straight/checkpoint-12 muted/checkpoint-12
    check "a result that cannot be written: reported" grep -q '^error: cannot write to standard output' err
else
    echo "SKIPPED output that cannot be written: there is no /dev/full"
fi

mkdir -p unrecorded/run.json/in
exits 0 "run.json that cannot be written" $medium --steps 12 --save-steps 2 --output-dir unrecorded
check "run.json that cannot be written: reported" grep -q "^warning: cannot update run.json: .*; each checkpoint has its own copy$" err
check "run.json that cannot be written: the same bits" same_checkpoints straight/checkpoint-12 unrecorded/checkpoint-12

# ---- wrong paths ----

refuses 1 "no such file" $medium --offload all --optimizer adamw --offload-file missing/file --output-dir gone
echo "chapter 1" >thesis.txt
refuses 1 "'thesis.txt' exists and is not a file of offloaded variables; choose another --offload-file" $medium \
    --offload all --optimizer adamw --offload-file thesis.txt --output-dir gone
check "an existing file at --offload-file is kept" grep -q '^chapter 1$' thesis.txt
refuses 1 "a file has that name" $medium --output-dir small.txt/gone
if [ -f /proc/self/mem ]; then
    refuses 1 "cannot read '/proc/self/mem': .*regular file" train --data /proc/self/mem --init tiny.json --output-dir gone
fi

# ---- full disk ----

mkdir -p disk
with_disk() { # kB
    mount -t tmpfs -o size="$1"k tmpfs disk 2>err
}

# Creates a disk with room for this many hundredths of a checkpoint, in addition to the data.
with_room() {
    with_disk $((checkpoint * $1 / 100 + 200))
}

# Another program uses all free space.
fill() {
    cat /dev/zero >disk/other 2>/dev/null
}

if [ "$EITP_TEST_NAMESPACE" = none ]; then
    echo "SKIPPED disks that are full: unshare makes no mount namespace here"
    finish
elif ! with_disk $((checkpoint * 9 / 10)); then
    echo "SKIPPED disks that are full: mounting one is not possible: $(cat err)"
    finish
fi
refuses 5 "a checkpoint needs .*, but the disk of 'disk/run' has space for .*; free some space" $medium --steps 1 \
    --output-dir disk/run
check "too little space: nothing is left behind" test -z "$(ls -A disk)"
refuses 5 "no space left" pack --data text.txt --data text.txt --data text.txt --data text.txt --data text.txt \
    --data text.txt --data text.txt --data text.txt --data text.txt --data text.txt --data text.txt --data text.txt \
    --data text.txt --data text.txt --data text.txt --data text.txt --data text.txt --data text.txt --data text.txt \
    --data text.txt --data text.txt --data text.txt --data text.txt --data text.txt --data text.txt --data text.txt \
    --data text.txt --data text.txt --data text.txt --data text.txt --data text.txt --data text.txt --data text.txt \
    --output disk/packed
check "packing to a full disk leaves nothing" test -z "$(ls -A disk)"
refuses 5 "offloaded variables need .* in 'disk/offload', but the disk has only .* free" $large --offload all \
    --optimizer adamw --offload-file disk/offload --output-dir gone
umount disk

# The log is on a full disk.
with_disk 40
fill
exits 0 "a log that cannot be written" $medium --steps 12 --save-steps 2 --log-dir disk --output-dir logged --json
lost=$(sed -n 's/.*"lost_records": \([0-9]*\),.*/\1/p' out)
check "a log that cannot be written: counted, 12 steps, an evaluation and 8 events or more" test "${lost:-0}" -ge 21
check "a log that cannot be written: reported once" test "$(grep -c \
    "^warning: cannot store records: .*'disk/logged-[0-9a-f]*/metrics.jsonl': no space left" err)" -eq 1
check "a log that cannot be written: the same bits" same_checkpoints straight/checkpoint-12 logged/checkpoint-12
umount disk

# Two checkpoints fit, but a third does not: the oldest is removed before the next is written.
with_room 250
exits 0 "a disk for two checkpoints" $medium --steps 12 --save-steps 2 --save-total-limit 2 --output-dir disk/run
check "a disk for two checkpoints: a warning at the start" grep -q \
    "^warning: the disk of 'disk/run' has .* free, but checkpoints will need .* (up to 4 of .* each, of which 0 exist)" err
check "a disk for two checkpoints: pruned" test "$(grep -c '^warning: .*removed the oldest 1 of 2 checkpoints' err)" -eq 4
check "a disk for two checkpoints: the same bits" same_checkpoints straight/checkpoint-12 disk/run/checkpoint-12
check "a disk for two checkpoints: two" test "$(ls -d disk/run/checkpoint-* | wc -l)" -eq 2
check "a disk for two checkpoints: nothing partial" nothing_partial disk/run
rm -rf disk/run

# Another program fills the disk. When it ends, the run continues. A request to stop ends the waiting.
check "another program: a save" start_until '^saved ' $medium --steps 100000000 --save-steps 20 --save-total-limit 1 \
    --lr-schedule constant --output-dir disk/run
fill
said() {
    while kill -0 $process 2>/dev/null && ! grep -q "$1" running.err; do sleep 0.1; done
    grep -q "$1" running.err
}
check "another program: the run waits" said '^warning: saving failed, retrying in [0-9]* s: .*no space left'
step=$(ls disk/run | sed -n 's/checkpoint-//p')
rm disk/other
while kill -0 $process 2>/dev/null && ls disk/run | grep -q "checkpoint-$step\$"; do sleep 0.1; done
check "another program: the run continues" kill -0 $process
fill
check "another program: the run waits again" sh -c "while kill -0 $process 2>/dev/null; do
    [ \$(grep -c 'retrying in 1 s' running.err) -ge 2 ] && exit 0; sleep 0.1; done; exit 1"
kill -TERM $process
wait_for_end
check "another program: exit code" test $? -eq 5
step=$(ls disk/run | sed -n 's/checkpoint-//p')
check "another program: names where to resume" grep -q \
    "^error: .*no space left .*; .* are missing: .*; resume from 'disk/run/checkpoint-$step'" running.err
check "another program: nothing partial" nothing_partial disk/run
rm disk/other
goes_on disk/run "$step"
umount disk

# A disk that cannot be written is not reported as a wrong path.
mount -t tmpfs -o ro tmpfs disk
refuses 5 "read-only" $medium --output-dir disk/run
umount disk

finish
