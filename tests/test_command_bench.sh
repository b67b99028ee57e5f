#!/bin/sh
# The command: measuring; what is said, never how long it took.
. tests/command.sh

train_straight

exits 0 "bench kernels" bench kernels --filter 'layer norm 64' --seconds 0 --threads 1 --precision fp32 --json
for word in '"bench": "kernels"' '"precision": "f32"' '"f32_flops": [1-9]' '"read_bytes": [1-9]' '"update_bytes": [1-9]' \
    '"name": \["layer norm 64x768"\]' '"seconds": \[[0-9.e-]*\]' '"bytes": \[399872\]' '"limit_seconds": \[[0-9]'; do
    check "bench kernels has $word" grep -q -e "$word" out
done
cp out kernels.json
exits 0 "bench kernels: compare" bench kernels --filter 'layer norm' --seconds 0 --threads 1 --precision fp32 \
    --compare kernels.json
check "bench kernels: a line for each" test "$(grep -c '^layer norm ' out)" -eq 9
check "bench kernels: the ratio" grep -q '^layer norm 64x768  .* % *[0-9.]*[0-9]$' out
check "bench kernels: only the ratio that there is" grep -q '^layer norm 256x768  .* %$' out
check "bench kernels: what is new is said" grep -q "^warning: 'kernels.json' has no 'layer norm 256x768'" err
sed 's/layer norm 64x768/layer norm 1x1/' kernels.json >other.json
exits 0 "bench kernels: compare" bench kernels --filter 'layer norm 64' --seconds 0 --threads 1 --precision fp32 \
    --compare other.json --json
check "bench kernels: what is missing is said" grep -q "^warning: 'other.json' has no 'layer norm 64x768'" err
exits 0 "bench kernels: compare" bench kernels --filter 'residual sum 64' --seconds 0 --threads 1 --precision fp32 \
    --compare kernels.json
check "bench kernels: --filter is for both" sh -c '! grep -q "not measured now" err'
exits 0 "bench step" bench step --model tiny.json --block-size 16 --grad-accum 2 --steps 2 --threads 1 --json
for word in '"bench": "step"' '"tokens": 32' '"batch_size": 1, "block_size": 16, "grad_accum": 2' '"tokens_per_s": [0-9]' \
    '"of_limit_best": [0-9]' '"name": \["products forward", .*"head", "attention", .*"update", .*"step"\]'; do
    check "bench step has $word" grep -q -e "$word" out
done
check "bench: no ratio without --compare" sh -c '! grep -q times out'
cp out step.json
exits 0 "bench step: a model" bench step --model straight --block-size 16 --steps 1 --threads 1 --compare step.json
check "bench step: tokens a second" grep -q '^64 tokens a step: [0-9.]* tokens/s (best ' out
check "bench step: the ratio" grep -q '^step  .* % *[0-9.]*[0-9]$' out
exits 0 "bench --print-config" bench step --print-config
check "bench: defaults" grep -q '^steps  *5  (default)' out
check "bench leaves no temporary file" test -z "$(ls -A temporary)"
refuses 1 "an action is missing" bench
refuses 1 "unknown action 'kernel'" bench kernel
refuses 1 "leaves nothing" bench kernels --filter nothing
refuses 1 "is out of range" bench kernels --seconds -1
refuses 1 "'eitp bench step' has no option --filter" bench step --filter x
refuses 1 "invalid value .fp64. (choose from auto, fp32, bf16, fp16)" bench kernels --precision fp64
refuses 1 "missing.json" bench kernels --compare missing.json
refuses 1 "is not what 'eitp bench kernels --json' prints" bench kernels --compare step.json
refuses 1 "is not what 'eitp bench step --json' prints" bench step --compare tiny.json
refuses 1 "no model shape" bench step --model gpt5
refuses 1 "positions" bench step --model tiny.json --block-size 65 --threads 1

finish
