# The loss and the speed of the model of real size in PyTorch, if it is installed. The last part, so that nothing waits
# for its compiler.
. "$parts/common.sh"
. "$parts/runs.sh"

if [ -n "$emulated" ]; then
    skip PyTorch "it cannot use the emulated device"
    exit 0
fi
if ! reason=$(python3 -c 'import torch, sys; sys.exit(None if torch.cuda.is_available() else "it finds no GPU")' 2>&1); then
    skip PyTorch "$(echo "${reason:-python3 is not installed}" | tail -n 1)"
    exit 0
fi

# The weights before the first step.
"$eitp" $(large_run fp32 1) --lr 0 --save-strategy steps --device "$device" --output-dir start >start.out 2>&1
cat start.out
check "the loss of the first step, as PyTorch computes it" python3 "$root/tools/gpu_check/pytorch_loss.py" \
    start/checkpoint-1/model.safetensors files/large.txt "$(numbers start | cut -d ' ' -f 2)"
show output
for batch in 64 16; do
    check "PyTorch, $batch x 1024" python3 "$root/tools/peers/step.py" --device cuda --eitp "$eitp" --batch $batch --block 1024 \
        --modes eitp-bf16,autocast+compile --reference autocast+compile --rounds 1 --steps 10 --warmup 5
    show output
    ratio=$(sed -n 's/^| eitp-bf16 .*| *\([0-9.]*\) |$/\1/p' output)
    check "$batch x 1024: at least the speed of torch.compile (${ratio:-none})" awk "BEGIN { exit !(${ratio:-0} >= 1) }"
done
