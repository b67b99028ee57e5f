# The times of the calls of a step. A build without EITP_CUDA_PROFILE ignores it; then this is a plain run.
. "$parts/common.sh"
. "$parts/runs.sh"

EITP_CUDA_PROFILE=1
export EITP_CUDA_PROFILE
if [ -n "$emulated" ]; then
    run=$(small_run gpt2 bf16 3)
else
    run="bench step --model gpt2 --block-size 1024 --batch-size 16 --precision bf16 --optimizer adamw --grad-accum 1 --steps 5"
fi
check "a run with EITP_CUDA_PROFILE=1" "$eitp" $run --device "$device"
show output
