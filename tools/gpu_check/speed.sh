# The speed of training steps, compared with the rate of large products on this device.
. "$parts/common.sh"

batches="16 64" steps=10
[ -z "$emulated" ] || batches=2 steps=1
for batch in $batches; do
    shape="--model gpt2 --block-size 1024"
    [ -z "$emulated" ] || shape="--model tiny --block-size 16"
    "$eitp" bench step $shape --precision bf16 --optimizer adamw --batch-size $batch --grad-accum 1 --steps $steps \
        --device "$device" >speed-$batch 2>&1
    code=$?
    if grep -q '^error: .* does not fit in ' speed-$batch; then
        skip "$batch x ${shape##* } tokens" "it does not fit in the memory of this GPU"
        continue
    fi
    report_check "$batch x ${shape##* } tokens" $code speed-$batch || continue
    show speed-$batch
    if [ -n "$emulated" ]; then
        skip "the speed" "the emulated device has none"
        continue
    fi
    use=$(sed -n 's/^model FLOPs utilization .*(best \([0-9.]*\) %).*/\1/p' speed-$batch)
    check "$batch x 1024: at least 55 % of the rate of a large product (${use:-none})" \
        awk "BEGIN { exit !(${use:-0} >= 55) }"
done
