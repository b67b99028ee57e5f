#!/bin/sh
# A run that is killed at random instants and restarted ends with the bits of an undisturbed run.
#   RUN     the program of examples/run.c; $BUILD/examples/run
#   KILLS   number of kills; 3
#   SEED    seed of the instants; from the clock
LC_ALL=C
export LC_ALL
BUILD=${BUILD:-build} KILLS=${KILLS:-3} SEED=${SEED:-$(date +%s)}
run=${RUN:-$BUILD/examples/run}
case $run in /*) ;; *) run=$PWD/$run ;; esac
# Waiting threads must leave the processor to other programs.
export GOMP_SPINCOUNT=${GOMP_SPINCOUNT:-100}
mkdir -p "$BUILD"
work=$(mktemp -d "$BUILD/test_kill.XXXXXX") && cd "$work" || exit 1
passed=0
failed=0
check() { # what, a command that must succeed
    what=$1
    shift
    if "$@"; then passed=$((passed + 1)); else
        failed=$((failed + 1))
        echo "FAILED $what (SEED=$SEED)"
    fi
}

awk 'BEGIN { for (i = 0; i < 900; i++) printf "Line %d: fox %d jumps over %d lazy dogs.\n", i, i * 7 % 13, i * i % 97 }' >text.txt
steps=$((90 * KILLS))
train() { # directory, seconds between checkpoints
    "$run" text.txt "$1" $steps "$2" >"$1.out" 2>&1
}

# For each kill: the number of lines that the run writes before it, and seconds after those.
instants() {
    awk -v seed="$SEED" -v count="$KILLS" 'BEGIN {
        srand(seed)
        rand()
        while (count-- > 0)
            printf "%d %.3f\n", 1 + rand() * 60, rand() * 0.05
    }'
}

# Starts the run, and kills it after a number of lines and seconds.
kill_after() { # lines, seconds
    rm -f said
    mkfifo said
    "$run" text.txt killed $steps 0.2 >/dev/null 2>said &
    process=$!
    exec 3<said
    lines=0
    while [ $lines -lt "$1" ] && read -r line <&3; do
        lines=$((lines + 1))
    done
    cat <&3 >/dev/null &
    exec 3<&-
    sleep "$2"
    kill -9 $process 2>/dev/null
    wait $process 2>/dev/null
    [ $? -eq 137 ]
}

check "an undisturbed run" train straight 1000
instants >instants
while read -r after seconds; do
    check "killed after $after lines and $seconds s" kill_after "$after" "$seconds"
done <instants
check "the killed run finishes" train killed 0.2
for file in model.safetensors optimizer.safetensors; do
    check "the same $file" cmp "straight/checkpoint-$steps/$file" "killed/checkpoint-$steps/$file"
done
check "the same best checkpoint" cmp straight/best.json killed/best.json
for name in straight killed; do
    sed 's/, "tokens_per_s.*//; s/, "val_time_s.*//' $name/metrics.jsonl >$name.records
done
check "the same records" cmp straight.records killed.records
check "nothing half-written is left" test "$(ls -A killed | grep -v '^checkpoint-' | tr '\n' ' ')" = \
    "best.json metrics.jsonl text.tok "

cd / && rm -rf "$work"
echo "$passed passed, $failed failed"
[ $failed -eq 0 ]
