#!/bin/sh
# Checks eitp on the GPU of this machine in less than ten minutes (make gpu-check). Parts:
#   device     reports of the driver, compiler and NVML
#   kernels    the tests of kernels, ops, plans and memory, on the device
#   parity     losses of GPT-2, BERT and a Llama-like model compared with the CPU; resumed runs; offloaded runs
#   sanitizer  a few steps under compute-sanitizer, if installed: memory, races, uninitialised values
#   kill       a killed and resumed run must have the same bits as an uninterrupted one
#   speed      GPT-2 124M in bf16 compared with the measured rate of a large product, and with PyTorch, if installed
# Writes the report to $BUILD/gpu_check/report.txt. The last line has the numbers of passed and failed checks.
#   GPU_CHECK="kernels speed"   only these parts
#   DEVICE=cuda:1               another GPU
#   EMULATED_GPU=1              the tests' emulated device, to check this script; skips sanitizer and speed
BUILD=${BUILD:-build}
case $BUILD in /*) ;; *) BUILD=$PWD/$BUILD ;; esac
LC_ALL=C
export LC_ALL BUILD
device=${DEVICE:-cuda}
eitp=$BUILD/eitp
folder=$BUILD/gpu_check
report=$folder/report.txt
passed=0 failed=0
began=$(date +%s)
[ -z "$EMULATED_GPU" ] || parts="device kernels parity kill"
parts=${GPU_CHECK:-${parts:-device kernels parity sanitizer kill speed}}
rm -rf "$folder" && mkdir -p "$folder" && cd "$folder" || exit 1
root=$OLDPWD

say() {
    echo "$*" | tee -a "$report"
}

# check NAME COMMAND...: the command must succeed. Shows its output if it fails.
check() {
    what=$1
    shift
    "$@" >"$folder/output" 2>&1
    code=$?
    if [ $code -eq 0 ]; then
        passed=$((passed + 1))
        say "ok     $what"
    else
        failed=$((failed + 1))
        [ $code -ne 124 ] || what="$what: timed out"
        say "FAILED $what (exit code $code)"
        tail -n 20 "$folder/output" | sed 's/^/       /' | tee -a "$report"
    fi
}

# Prints the remaining seconds of ten minutes, at most $1.
within() {
    left=$((590 - $(date +%s) + began))
    [ $left -gt 5 ] || left=5
    [ $left -lt "$1" ] && echo $left || echo "$1"
}

# Runs a program on the device.
on_gpu() {
    if [ -n "$EMULATED_GPU" ]; then
        (cd "$root" && sh tests/cuda/on_emulated.sh "$BUILD" "$@")
    else
        EITP_BACKEND=$device EITP_TEST_CUDA=1 "$@"
    fi
}

part() { # name; true if it is selected
    case " $parts " in *" $1 "*) say "" && say "== $1" ;; *) return 1 ;; esac
}

check_device() {
    check "the device can be used" on_gpu "$eitp" check-system --device "$device"
    grep -E '^(GPU|CPU|memory)' output | sed 's/^/       /' | tee -a "$report"
    ! command -v nvidia-smi >/dev/null || nvidia-smi --query-gpu=name,driver_version,memory.total,memory.used,power.limit \
        --format=csv,noheader | sed 's/^/       /' | tee -a "$report"
    if [ $failed -gt 0 ]; then
        finish
    fi
}

check_kernels() {
    tests="kernels/test_kernels kernels/test_matmul kernels/test_factored kernels/test_update train/test_device_memory"
    # An emulated device is too slow for these.
    [ -n "$EMULATED_GPU" ] || tests="$tests kernels/test_attention tensor/test_ops tensor/test_execute tensor/test_offload"
    for test in $tests; do
        program=$BUILD/split/tests/$test
        check "$(basename $test)" timeout "$(within 100)" sh -c "$(on_gpu_text "$program")"
        tail -n 1 output | sed 's/^/       /' | tee -a "$report"
    done
}

# Prints the command line of on_gpu, for timeout.
on_gpu_text() {
    if [ -n "$EMULATED_GPU" ]; then
        echo "cd '$root' && EITP_TEST_QUICK=1 sh tests/cuda/on_emulated.sh '$BUILD' '$1'"
    else
        echo "EITP_TEST_QUICK=1 EITP_BACKEND=$device EITP_TEST_CUDA=1 '$1'"
    fi
}

check_parity() {
    for script in train memory; do
        check "$script.sh" timeout "$(within 150)" sh -c \
            "cd '$root' && EITP='$eitp' EITP_GPU='$([ -n "$EMULATED_GPU" ] || echo "$device")' sh tests/cuda/$script.sh"
        tail -n 1 output | sed 's/^/       /' | tee -a "$report"
    done
}

# Prepares a small model and its text.
prepare_run() {
    [ ! -f text.txt ] || return 0
    head -c 20000 "$root/README.md" >text.txt
    printf '{"model_type": "gpt2", "n_embd": 128, "n_head": 2, "n_layer": 2, "n_positions": 128, "vocab_size": 300}\n' >gpt2.json
    "$eitp" tokenizer train --data text.txt --vocab-size 300 --output tokenizer >/dev/null 2>&1
}

small_run() { # arguments
    on_gpu "$eitp" train --init "$folder/gpt2.json" --tokenizer "$folder/tokenizer" --data "$folder/text.txt" --block-size 64 \
        --batch-size 4 --device "$device" --eval-steps 0 "$@"
}

check_sanitizer() {
    prepare_run
    sanitizer=$(command -v compute-sanitizer || ls "${CUDA_HOME:-/usr/local/cuda}"/bin/compute-sanitizer 2>/dev/null)
    if [ -z "$sanitizer" ]; then
        say "SKIPPED compute-sanitizer is not on the PATH"
        return
    fi
    for tool in memcheck racecheck initcheck synccheck; do
        for precision in fp32 bf16; do
            check "$tool, $precision" timeout "$(within 60)" "$sanitizer" --tool $tool --error-exitcode 9 "$eitp" train \
                --init gpt2.json --tokenizer tokenizer --data text.txt --block-size 64 --batch-size 4 --device "$device" \
                --eval-steps 0 --steps 2 --precision $precision --dropout 0.1 --output-dir $tool-$precision
        done
    done
}

check_kill() {
    prepare_run
    steps=60 every=5
    [ -z "$EMULATED_GPU" ] || steps=8 every=2
    check "a run that is not killed" small_run --steps $steps --save-steps $every --output-dir "$folder/whole"
    small_run --steps $steps --save-steps $every --output-dir "$folder/killed" >killed.log 2>&1 &
    for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30; do
        [ ! -d killed/checkpoint-$((2 * every)) ] || break
        sleep 1
    done
    pkill -KILL -f "output-dir $folder/killed"
    wait
    check "it was killed before the last step" test ! -d "killed/checkpoint-$steps"
    check "it resumes" small_run --steps $steps --save-steps $every --output-dir "$folder/killed" --resume auto
    for file in model optimizer; do
        check "the same bits of $file" cmp "whole/checkpoint-$steps/$file.safetensors" "killed/checkpoint-$steps/$file.safetensors"
    done
}

# Prints the largest batch of 1024-token sequences that fits on this GPU.
largest_batch() {
    for batch in 64 32 16 8 4 2 1; do
        ! on_gpu "$eitp" plan --init gpt2 --precision bf16 --optimizer adamw --block-size 1024 --batch-size $batch --grad-accum 1 \
            --device "$device" >/dev/null 2>&1 || break
    done
    echo $batch
}

check_speed() {
    batch=$(largest_batch)
    on_gpu "$eitp" bench step --model gpt2 --precision bf16 --optimizer adamw --batch-size $batch --block-size 1024 --grad-accum 1 \
        --steps 10 --device "$device" >speed.txt 2>&1
    sed 's/^/       /' speed.txt | tee -a "$report"
    use=$(sed -n 's/^model FLOPs utilization .*(best \([0-9.]*\) %).*/\1/p' speed.txt)
    check "GPT-2 124M, $batch x 1024 tokens in bf16: at least 55 % of the rate of a large product (${use:-none})" \
        awk "BEGIN { exit !(${use:-0} >= 55) }"
    if ! python3 -c 'import torch, transformers, sys; sys.exit(not torch.cuda.is_available())' 2>/dev/null; then
        say "SKIPPED comparison: PyTorch with a GPU and transformers are not installed"
        return
    fi
    check "alternating with PyTorch" timeout "$(within 240)" python3 "$root/tools/peers/step.py" --device cuda --eitp "$eitp" --batch $batch \
        --block 1024 --modes eitp-bf16,autocast+compile --reference autocast+compile --rounds 2 --steps 10 --warmup 5
    sed 's/^/       /' output | tee -a "$report"
    ratio=$(sed -n 's/^| eitp-bf16 .*| *\([0-9.]*\) |$/\1/p' output)
    check "at least 1.1 times torch.compile (${ratio:-none})" awk "BEGIN { exit !(${ratio:-0} >= 1.1) }"
}

finish() {
    say ""
    say "$(($(date +%s) - began)) s; report: $report"
    say "$passed passed, $failed failed"
    [ $failed -eq 0 ]
    exit
}

say "eitp on a GPU, $(date -u +%Y-%m-%d), $(uname -sr)"
for name in device kernels parity sanitizer kill speed; do
    ! part $name || check_$name
done
finish
