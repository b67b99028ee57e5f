#!/bin/sh
# The command: a neighbour takes memory in the same control group. Needs a separate group with a limit.
root=$PWD
. tests/command/command.sh

# ---- a control group ----

# Prints a new group with a memory controller, of version 1 or 2.
make_group() {
    for mount in /sys/fs/cgroup/memory /sys/fs/cgroup; do
        own=$(sed -n -e 's/^[0-9]*:memory:\(.*\)$/\1/p' -e 's/^0::\(.*\)$/\1/p' /proc/self/cgroup 2>/dev/null | head -n 1)
        for parent in "$mount$own" "$mount"; do
            made=$parent/eitp-test-$$
            mkdir "$made" 2>/dev/null || continue
            if [ -e "$made/memory.limit_in_bytes" ] || [ -e "$made/memory.max" ]; then
                echo "$made"
                return 0
            fi
            rmdir "$made"
        done
    done
    return 1
}

# limit_group BYTES: the group's limit, without swap.
limit_group() {
    if [ -e "$group/memory.max" ]; then
        echo "$1" >"$group/memory.max" || return 1
        echo 0 >"$group/memory.swap.max" 2>/dev/null
    else
        echo "$1" >"$group/memory.limit_in_bytes" || return 1
        echo 0 >"$group/memory.swappiness"
        echo "$1" >"$group/memory.memsw.limit_in_bytes" 2>/dev/null
    fi
    return 0
}

skip() {
    echo "SKIPPED a neighbour that takes memory: $1"
    finish
}

group=$(make_group 2>/dev/null) || skip "no control group with a memory controller can be made"
remove_group() {
    [ -z "$neighbour" ] || kill -9 "$neighbour" 2>/dev/null
    for try in 1 2 3 4 5 6 7 8 9 10; do
        rmdir "$group" 2>/dev/null && break
        sleep 0.1
    done
}
neighbour=
trap remove_group EXIT
limit_group 1000000000 2>/dev/null || skip "$group takes no limit"
(echo 0 >"$group/cgroup.procs") 2>/dev/null || skip "no process may enter $group"
"${CC:-cc}" -o neighbour "$root/tests/command/neighbour.c" || fail "the neighbour does not compile"

# ---- a run without a neighbour ----

sed -e 's/"n_embd": 16/"n_embd": 256/' -e 's/"n_head": [0-9]*/"n_head": 4/' -e 's/"n_layer": [0-9]*/"n_layer": 4/' \
    -e 's/"vocab_size": [0-9]*/"vocab_size": 8000/' tiny.json >medium.json
steps=4
medium="train --data text.txt --init medium.json --block-size 64 --batch-size 16 --grad-accum 1 --threads 2 --steps $steps
    --memory-budget 4G --eval-steps 0 --save-steps 0 --precision $precision"
exits 0 "alone" $medium --output-dir alone --json
peak=$(sed 's/.*"peak_rss_bytes": \([0-9]*\).*/\1/' out)
check "alone: the memory it takes" test "$peak" -gt 100000000

program=$eitp
cat >in_group <<END
#!/bin/sh
echo \$\$ >'$group/cgroup.procs' && exec '$program' "\$@"
END
chmod +x in_group

# ---- with one ----

# The number of the last line that matches a pattern, or 0 if none does, and the step in it.
last_step() {
    sed -n "s/$1/\\1/p" running.err | tail -n 1
}

# beside RATE TOTAL: the run in a group with a quarter more memory than it needs, next to a neighbour that starts after
# step 1.
beside() {
    name=beside_$1_$2
    limit_group $((peak * 5 / 4)) || fail "$name: no limit"
    eitp=$work/in_group
    check "$name: a first step" start_until '^step 1/' $medium --auto-shrink --output-dir $name
    eitp=$program
    (echo 0 >"$group/cgroup.procs" && exec ./neighbour "$1" "$2") &
    neighbour=$!
    wait_for_end 2>/dev/null
    code=$?
    kill -9 $neighbour
    wait $neighbour 2>/dev/null
    neighbour=
    shrunk=$(last_step '^warning: shrunk after step \([0-9]*\).*')
    saved=$(last_step "^saved $name.checkpoint-\\([0-9]*\\) .*")
    echo "$name: exit code $code, last shrunk after step ${shrunk:-none}, last checkpoint ${saved:-none}"
    case $code in
    0 | 3) check "$name: a checkpoint" test -n "$saved" ;;
    137) check "$name: killed after step ${shrunk:-0} or later, with a checkpoint of step ${saved:--1}" \
        test "${saved:--1}" -ge "${shrunk:-0}" ;;
    *)
        fail "$name: exit code $code"
        cat running.err
        ;;
    esac
    if [ $code -ne 0 ]; then
        exits 0 "$name: resume" $medium --output-dir $name --resume auto
    fi
    check "$name: the same bits" same_checkpoints alone/checkpoint-$steps $name/checkpoint-$steps
}
beside 25 1000
beside 200 1000
# A neighbour that stops growing.
beside 25 40

finish
