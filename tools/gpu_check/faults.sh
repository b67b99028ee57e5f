# Runs that are killed and resumed, that have too little memory, and whose variables are in the memory of the host.
. "$parts/common.sh"
. "$parts/runs.sh"

steps=600 every=50
[ -z "$emulated" ] || steps=8 every=2
run="$(small_run gpt2 bf16 $steps) --dropout 0.1 --save-steps $every --save-total-limit 0 --device $device"
last=checkpoint-$steps

same() { # what, run
    for file in model optimizer; do
        check "$1: the same bits of $file" cmp whole/$last/$file.safetensors "$2/$last/$file.safetensors"
    done
}

# Starts a run and kills it after its second checkpoint.
kill_run() {
    "$eitp" $run --output-dir killed >killed.out 2>&1 &
    process=$!
    while [ ! -d killed/checkpoint-$((2 * every)) ] && kill -0 $process 2>/dev/null; do
        sleep 0.05
    done
    kill -s KILL $process
    wait $process
    [ $? -eq 137 ]
}

check "a run that is not killed" "$eitp" $run --output-dir whole
check "a run is killed" kill_run
check "it was killed before the last step" test ! -d killed/$last
check "it resumes" "$eitp" train --resume auto --output-dir killed --device "$device"
same "resumed" killed

# A second start with too little memory, which must leave the first run as it was.
refused() { # attempt, words, options
    attempt=$1 words=$2
    shift 2
    cksum whole/*.json* whole/$last/* >before
    "$eitp" $run "$@" >refused.out 2>&1
    code=$?
    cksum whole/*.json* whole/$last/* >after
    { echo "---- $attempt: exit code $code"; cat refused.out; } >>"$details"
    grep '^error: ' refused.out >shown
    show shown
    check "$attempt: exit code 2" test $code -eq 2
    check "$attempt: one line" test "$(wc -l <shown)" -eq 1
    check "$attempt: the cause" grep -q "$words" shown
    check "$attempt: nothing is lost" cmp before after
}
refused "a budget that is too small" "does not fit in .* of the GPU's memory" --gpu-memory-budget 1M --output-dir whole \
    --resume whole/$last
large="--init gpt2 --tokenizer bytes --data files/large.txt --val-fraction 0 --block-size 1024 --recompute none
    --micro-batches-per-pass 1 --output-dir large"
refused "a batch that does not fit" "does not fit in .* memory" $large --batch-size 16384 --grad-accum 1
# The budget is larger than the memory, so that an allocation fails: on a GPU one of some 300 GB.
if [ -n "$emulated" ]; then
    EITP_EMULATED_CUDA_MEMORY=3000000
    export EITP_EMULATED_CUDA_MEMORY
    large="--output-dir large"
else
    large="$large --batch-size 1024 --grad-accum 1"
fi
refused "an allocation that fails" "cannot allocate" $large --gpu-memory-budget 900G
unset EITP_EMULATED_CUDA_MEMORY

check "the optimizer's state in the memory of the host" "$eitp" $run --offload states --output-dir states
same "the optimizer's state in the memory of the host" states
check "all variables in the memory of the host" "$eitp" $run --offload all --output-dir all
same "all variables in the memory of the host" all
