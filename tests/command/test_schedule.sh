#!/bin/sh
# The command: warm-up as a fraction of the steps, and restarts of the learning rate.
. tests/command/command.sh

rates_of() { # directory of a run: the learning rates of its steps
    sed -n 's/.*"lr": \([0-9.e-]*\),.*/\1/p' "$1/metrics.jsonl" | tr '\n' ' '
}
train="$train --val-fraction 0 --lr 8e-3 -q"

exits 0 "--warmup-ratio" $train --steps 8 --warmup-ratio 0.3 --lr-schedule constant --output-dir ratio
check "--warmup-ratio: rounded up" test "$(grep -c '"lr": 0.008,' ratio/metrics.jsonl)" -eq 6
check "--warmup-ratio: recorded as steps" grep -q '"warmup-steps": 3,' ratio/run.json
exits 0 "--warmup-steps" $train --steps 8 --warmup-steps 3 --lr-schedule constant --output-dir steps
check "--warmup-ratio: the rates of --warmup-steps" test "$(rates_of ratio)" = "$(rates_of steps)"
exits 0 "--warmup-ratio with --epochs" $train --epochs 0.01 --batch-size 3 --grad-accum 2 --warmup-ratio 0.5 \
    --output-dir epochs
check "--warmup-ratio with --epochs: half of the steps" grep -q "\"warmup-steps\": $((($(grep -c '"loss": ' epochs/metrics.jsonl) + 1) / 2))," \
    epochs/run.json
exits 0 "--print-config" $train --steps 8 --warmup-ratio 0.3 --print-config
check "--print-config: the steps" grep -q '^warmup-steps  *3  (command line)' out
exits 0 "resume" train --resume ratio --steps 9 --threads 1
check "resume: the warm-up is kept" grep -q '"warmup_steps": 3,' ratio/checkpoint-9/trainer_state.json
refuses 1 "--warmup-ratio and --warmup-steps cannot be used together" $train --warmup-ratio 0.1 --warmup-steps 4 \
    --output-dir gone
refuses 1 "--warmup-ratio 1.5 is out of range" $train --warmup-ratio 1.5 --output-dir gone
echo '{"warmup_ratio": 0.5, "warmup_steps": 0}' >config.json
exits 0 "a ratio next to no steps" $train --steps 8 --config config.json --print-config
check "a ratio next to no steps: the ratio" grep -q '^warmup-steps  *4  (config.json:1)' out
exits 0 "steps over a file's ratio" $train --steps 8 --config config.json --warmup-steps 1 --print-config
check "steps over a file's ratio: the steps" grep -q '^warmup-steps  *1  (command line)' out

exits 0 "restarts" $train --steps 8 --lr-schedule cosine_with_restarts --lr-cycles 2 --output-dir restarts
check "restarts: two peaks" test "$(grep -c '"lr": 0.008,' restarts/metrics.jsonl)" -eq 2
exits 0 "restarts by other names" train --lr_scheduler_type cosine-with-restarts --num-cycles 3 --print-config
check "restarts by other names: cycles" grep -q '^lr-cycles  *3  (command line)' out
exits 0 "resume with other cycles" train --resume restarts --steps 9 --lr-cycles 4 --threads 1
check "resume with other cycles: logged" grep -q 'warning: lr_cycles was 2 in ' err
exits 0 "resume the restarts" train --resume restarts --steps 10 --threads 1
check "resume the restarts: kept" grep -q '"lr_cycles": 4,' restarts/checkpoint-10/trainer_state.json
refuses 1 "--lr-cycles requires --lr-schedule cosine_with_restarts (got cosine)" $train --lr-schedule cosine \
    --lr-cycles 2 --output-dir gone
refuses 1 "must be at least 1" $train --lr-cycles 0 --output-dir gone

finish
