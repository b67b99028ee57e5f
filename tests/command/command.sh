# Shared by tests/command/test_*.sh, which source it first. Each works in its own directory.
#   EITP                  the command; $BUILD/eitp
#   EITP_TEST_PRECISION   the precision of training; fp32
#   EITP_TEST_ALL         includes the slow cases, which make nightly runs
LC_ALL=C
export LC_ALL
BUILD=${BUILD:-build}
case $BUILD in /*) ;; *) BUILD=$PWD/$BUILD ;; esac
eitp=${EITP:-$BUILD/eitp}
case $eitp in /*) ;; *) eitp=$PWD/$eitp ;; esac
precision=${EITP_TEST_PRECISION:-fp32}
starts=
passed=0
failed=0
mkdir -p "$BUILD"
work=$(mktemp -d "$BUILD/$(basename "$0" .sh).XXXXXX") && cd "$work" || exit 1
mkdir temporary
TMPDIR=$work/temporary
export TMPDIR

# Ends a test, printing its last line.
finish() {
    cd / && rm -rf "$work"
    echo "$passed passed, $failed failed"
    [ $failed -eq 0 ]
    exit
}

pass() {
    passed=$((passed + 1))
}

fail() {
    failed=$((failed + 1))
    echo "FAILED $*"
}

# check NAME COMMAND...: the command must succeed.
check() {
    what=$1
    shift
    if "$@"; then pass; else fail "$what"; fi
}

# exits CODE NAME ARGUMENTS...: eitp must exit with the code. Its output is in the files out and err.
exits() {
    expected=$1
    what=$2
    shift 2
    "$eitp" "$@" >out 2>err </dev/null
    got=$?
    if [ $got -eq "$expected" ]; then pass; else
        fail "$what: exit code $got, not $expected"
        sed 's/^/    /' err
    fi
}

# refuses CODE WORDS ARGUMENTS...: the same for a command that is refused. Requires the words in a single line on
# standard error, nothing on standard output, and no directory "gone" afterwards.
refuses() {
    expected=$1
    words=$2
    shift 2
    exits "$expected" "$words" "$@"
    if [ "$(wc -l <err)" -eq 1 ] && grep -q '^error: ' err && grep -q -e "$words" err; then pass; else
        fail "one line with \"$words\" was expected for: $*"
        sed 's/^/    /' err
    fi
    check "nothing on standard output: $*" test ! -s out
    check "nothing left behind: $*" test ! -e gone
    rm -rf gone
}

# start_until PATTERN ARGUMENTS...: starts eitp in the background, using the command $starts if set, as $process, with
# its output in running.out and running.err. Returns once the pattern is on standard error, or fails if eitp ends first.
start_until() {
    pattern=$1
    shift
    rm -f said
    mkfifo said
    $starts "$eitp" "$@" >running.out 2>said </dev/null &
    process=$!
    exec 3<said
    : >running.err
    while read -r line <&3; do
        echo "$line" >>running.err
        if echo "$line" | grep -q "$pattern"; then
            # The pipe needs a reader for the lines that follow.
            cat <&3 >>running.err &
            reader=$!
            exec 3<&-
            return 0
        fi
    done
    exec 3<&-
    return 1
}

# Waits for the process of start_until and all of its output. Returns its exit code.
wait_for_end() {
    wait $process
    set -- $?
    wait $reader
    return "$1"
}

same() {
    cmp -s "$1" "$2"
}

differ() {
    ! cmp -s "$1" "$2"
}

same_checkpoints() {
    same "$1/model.safetensors" "$2/model.safetensors" && same "$1/optimizer.safetensors" "$2/optimizer.safetensors"
}

# Prints the events in the records of a run, in order, with repeated ones once and alarms with their names: "started
# alarm:plateau saved".
happened() {
    sed -n -e 's/.*"event": "alarm", .*"alarm": "\([a-z_]*\)".*/alarm:\1/p' -e t \
        -e 's/^{"step": [0-9]*, "event": "\([a-z_]*\)".*/\1/p' "$1/metrics.jsonl" | uniq | tr '\n' ' ' | sed 's/ $//'
}

# happens EVENTS NAME FOUND: exactly these events occurred.
happens() {
    check "$2: \"$3\" happened, not \"$1\"" test "$3" = "$1"
}

# Prints the loss in the output of `eitp eval --json`.
loss_of() {
    sed 's/.*"loss": \([0-9.]*\),.*/\1/' "$1"
}

# Prints the number of processors that the command may use, by affinity and control group quota.
usable_processors() {
    "$eitp" check-system --init tiny.json --json | sed -n 's/.*"usable": \([0-9]*\), "caches".*/\1/p'
}

# True if two losses in fp32 differ only by the order of summation.
agree() {
    awk -v a="$1" -v b="$2" 'BEGIN { exit !((a - b) ^ 2 < 1e-12 && a > 0) }'
}

lines() {
    wc -l <"$1" | tr -d ' '
}

# ---- data and models ----

awk 'BEGIN {
    for (i = 0; i < 400; i++)
        printf "Line %d: a quick fox number %d jumps over %d lazy dogs, and it sees that %s.\n", i, i * 7 % 13,
            i * i % 97, i % 3 ? "all is well" : "the sky is blue"
}' >text.txt
head -c 6000 text.txt >small.txt
cat >tiny.json <<'END'
{"model_type": "gpt2", "vocab_size": 257, "n_positions": 64, "n_embd": 16, "n_head": 2, "n_layer": 2,
 "resid_pdrop": 0.1, "embd_pdrop": 0.1, "attn_pdrop": 0.1}
END
train="train --data text.txt --init tiny.json --block-size 16 --threads 1 --precision $precision"

# A model that is large compared with the process, so that budgets matter.
sed -e 's/"n_embd": 16/"n_embd": 192/' -e 's/"n_layer": [0-9]*/"n_layer": 4/' \
    -e 's/"vocab_size": [0-9]*/"vocab_size": 4000/' -e 's/"n_positions": [0-9]*/"n_positions": 512/' tiny.json >large.json
large="train --data text.txt --init large.json --block-size 32 --batch-size 8 --threads 1 --eval-steps 0 --save-steps 0
    --micro-batches-per-pass 4 --precision $precision"

# Trains twelve steps of the tiny model, with every checkpoint, in the directory "straight".
train_straight() {
    exits 0 "train" $train --steps 12 --save-steps 4 --save-total-limit 0 --eval-steps 5 --lr 3e-3 --output-dir straight
}

# Turns a checkpoint into one of an earlier version, without the files of the run.
make_earlier() {
    rm -f "$1/run.json" "$1/run_state.json" "$1/manifest.json"
    sed 's/"version": [0-9]*/"version": 4/' "$1/trainer_state.json" >earlier.json
    mv earlier.json "$1/trainer_state.json"
}

# Copies its model, to damage the copy.
spoil() {
    rm -rf spoiled
    cp -r straight/checkpoint-12 spoiled
}

# Trains a tokenizer of 360 tokens in the directory "tok". pack_text packs the text with it.
train_tokenizer() {
    exits 0 "tokenizer train" tokenizer train --data text.txt --vocab-size 360 --output tok
}

pack_text() {
    exits 0 "pack" pack --data text.txt --tokenizer tok --output packed.tok --json
}
