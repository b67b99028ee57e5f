#!/bin/sh
# Kills a run at random instants and restarts it. Every checkpoint is complete after each kill, no step reported as
# saved is lost, and the run ends with the bits of an undisturbed one. A run that ends before it is killed is checked
# and started from scratch, so that kills hit all of its parts.
#   RUN     the program of examples/run.c; $BUILD/examples/run
#   VERIFY  the program of tests/run/verify_checkpoints.c; $BUILD/split/tests/run/verify_checkpoints
#   KILLS   number of kills; 30
#   SEED    seed of the instants; from the clock
LC_ALL=C
export LC_ALL
BUILD=${BUILD:-build} KILLS=${KILLS:-30} SEED=${SEED:-$(date +%s)}
run=${RUN:-$BUILD/examples/run} verify=${VERIFY:-$BUILD/split/tests/run/verify_checkpoints}
case $run in /*) ;; *) run=$PWD/$run ;; esac
case $verify in /*) ;; *) verify=$PWD/$verify ;; esac
# Waiting threads must yield the processor to other programs.
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
        echo "FAILED $what (SEED=$SEED, kill $kills)"
    fi
}

awk 'BEGIN { for (i = 0; i < 250; i++) printf "Line %d: fox %d jumps over %d lazy dogs.\n", i, i * 7 % 13, i * i % 97 }' >text.txt
steps=60
kept=2 # save_total_limit
train() { # directory, seconds between checkpoints
    "$run" text.txt "$1" $steps "$2" >"$1.out" 2>&1
}

# Prints for each kill the number of lines that the run writes before it, and a delay in seconds after those. There are
# more instants than kills, since some runs end before.
instants() {
    awk -v seed="$SEED" -v count="$((3 * KILLS + 10))" 'BEGIN {
        srand(seed)
        rand()
        while (count-- > 0)
            printf "%d %.3f\n", rand() * 40, rand() * 0.06
    }'
}

# Starts the run, and kills it after a number of lines and seconds. Its output is in said.out. Fails if the run ended
# before.
kill_after() { # lines, seconds
    rm -f said
    mkfifo said
    "$run" text.txt killed $steps 0.02 >/dev/null 2>said &
    process=$!
    exec 3<said
    lines=0
    : >said.out
    while [ $lines -lt "$1" ] && read -r line <&3; do
        echo "$line" >>said.out
        lines=$((lines + 1))
    done
    cat <&3 >>said.out &
    reader=$!
    exec 3<&-
    sleep "$2"
    kill -9 $process 2>/dev/null
    wait $process 2>/dev/null
    ended=$?
    wait $reader
    [ $ended -eq 137 ]
}

# Checks that the run reported resuming from `committed` or a later step. Its first step must be the next one.
resumed_after() { # step
    awk -v committed="$1" '$1 == "step" { split($2, number, "/"); exit !(number[1] > committed) }' said.out
}

# Prints the newest step that the run reported as saved.
newest_saved() { # that before
    awk -v newest="$1" 'sub("^saved killed/checkpoint-", "") && $1 + 0 > newest + 0 { newest = $1 }
        END { print newest }' said.out
}

# With saves by seconds, the last but one checkpoint differs between runs.
others() { # directory
    ls -A "$1" | grep -v '^checkpoint-[0-9]*$'
}

# Checks that the run keeps the configured number of newest checkpoints, and the best one.
keeps_those_wanted() {
    best=$(sed -n 's/.*"best": {"step": \([0-9]*\),.*/\1/p' killed/best.json)
    ls -A killed | sed -n 's/^checkpoint-\([0-9]*\)$/\1/p' | sort -n | awk -v kept=$kept -v best="$best" -v last=$steps '
        { step[NR] = $1 }
        END {
            for (i = 1; i <= NR; i++) {
                newest += step[i] == last
                found += step[i] == best
                more += i <= NR - kept && step[i] != best
            }
            exit !(newest && found && !more)
        }'
}

same_result() {
    for file in model.safetensors optimizer.safetensors; do
        check "the same $file" cmp "straight/checkpoint-$steps/$file" "killed/checkpoint-$steps/$file"
    done
    check "the same best checkpoint" cmp straight/best.json killed/best.json
    sed '/"event": /d; /"perf\//d; s/, "tokens_per_s.*//; s/, "val_time_s.*//' killed/metrics.jsonl >killed.records
    check "the same records" cmp straight.records killed.records
    check "no incomplete files are left: $(ls -A killed | tr '\n' ' ')" test "$(others killed)" = "$names"
    check "the newest and the best checkpoint are left: $(ls -A killed | tr '\n' ' ')" keeps_those_wanted
}

kills=0
check "an undisturbed run" train straight 0.02
sed '/"event": /d; /"perf\//d; s/, "tokens_per_s.*//; s/, "val_time_s.*//' straight/metrics.jsonl >straight.records
names=$(others straight)
instants >instants
committed=0
ends=0
while [ $kills -lt "$KILLS" ] && read -r after seconds; do
    if kill_after "$after" "$seconds"; then
        kills=$((kills + 1))
        check "no committed step is lost: $committed was saved" resumed_after "$committed"
        check "every checkpoint is complete" "$verify" killed
        committed=$(newest_saved "$committed")
    else
        check "the run ends with 0 (it was $ended)" test $ended -eq 0
        ends=$((ends + 1))
        same_result
        rm -rf killed
        committed=0
    fi
done <instants
check "$KILLS kills" test $kills -eq "$KILLS"
check "the killed run finishes" train killed 0.02
same_result
echo "$kills random kills of a run of $steps steps that was begun $((ends + 1)) times (SEED=$SEED)"

cd / && rm -rf "$work"
echo "$passed passed, $failed failed"
[ $failed -eq 0 ]
