#!/bin/sh
# The command: warm-up as a fraction of the steps, restarts of the learning rate, and its reductions on a plateau.
. tests/command/command.sh

rates_of() { # directory of a run: the learning rates of its steps
    sed -n 's/.*"lr": \([0-9.e-]*\),.*/\1/p' "$1/metrics.jsonl" | tr '\n' ' '
}
validating="$train --lr 8e-3"
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
refuses 1 "--warmup-ratio must be at least 0 and at most 1 (got 1.5)" $train --warmup-ratio 1.5 --output-dir gone
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
check "resume with other cycles: logged" grep -q 'warning: --lr-cycles changed from 2 to ' err
exits 0 "resume the restarts" train --resume restarts --steps 10 --threads 1
check "resume the restarts: kept" grep -q '"lr_cycles": 4,' restarts/checkpoint-10/trainer_state.json
refuses 1 "--lr-cycles requires --lr-schedule cosine_with_restarts (got cosine)" $train --lr-schedule cosine \
    --lr-cycles 2 --output-dir gone
refuses 1 "must be at least 1" $train --lr-cycles 0 --output-dir gone

# ---- plateau ----

# No loss falls by nine tenths, so every second evaluation after the first reduces the rate.
plateau="$validating --eval-windows 1000000 --lr-schedule plateau --plateau-patience 1 --plateau-threshold 0.9 --plateau-factor 0.25
    --final-lr 2e-4 --eval-steps 2 --save-steps 2 --save-total-limit 0"
exits 0 "plateau" $plateau --steps 12 --output-dir plateau
check "plateau: the rates" test "$(rates_of plateau)" = \
    "0.008 0.008 0.008 0.008 0.002 0.002 0.002 0.002 0.0005 0.0005 0.0005 0.0005 "
grep '^learning rate reduced' err >reductions
cat >expected <<'END'
learning rate reduced to 0.002: no improvement of the validation loss in 2 evaluations
learning rate reduced to 0.0005: no improvement of the validation loss in 2 evaluations
learning rate reduced to 0.0002: no improvement of the validation loss in 2 evaluations
END
check "plateau: each reduction is logged, the last to --final-lr" same reductions expected
check "plateau: after its evaluation" test "$(grep -A1 '^validation after step 4:' err | tail -1)" = "$(head -1 expected)"
exits 0 "plateau: a part before step 1" $(echo "$plateau" | sed 's/--eval-windows 1000000//') --steps 12 --output-dir part
check "plateau: a part before step 1 does not count, so reductions come one evaluation later" test \
    "$(rates_of part | cut -d' ' -f3-12)" = "$(rates_of plateau | cut -d' ' -f1-10)"
# Ended after one of two failures, and after a reduction.
for step in 2 8; do
    exits 0 "plateau: $step steps" $plateau --steps $step --output-dir ended-$step
    exits 0 "plateau: resume at $step" train --resume auto --output-dir ended-$step --steps 12 --threads 1
    check "plateau: the rates of a run resumed at $step" test "$(rates_of ended-$step)" = "$(rates_of plateau)"
    check "plateau: the bytes of a run resumed at $step" same_checkpoints ended-$step/checkpoint-12 plateau/checkpoint-12
done
# As left by a kill in a later step, with records of steps that the checkpoint lacks.
cp -r plateau killed
rm -r killed/checkpoint-8 killed/checkpoint-1?
exits 0 "plateau: resume after a kill" train --resume auto --output-dir killed --threads 1
check "plateau: a killed run resumes in the middle" grep -q "resuming from '.*killed/checkpoint-6' at step 6 of 12" err
check "plateau: the rates of a killed run" test "$(rates_of killed)" = "$(rates_of plateau)"
check "plateau: the bytes of a killed run" same_checkpoints killed/checkpoint-12 plateau/checkpoint-12
check "plateau: the state of a killed run" same killed/checkpoint-12/trainer_state.json \
    plateau/checkpoint-12/trainer_state.json
check "plateau: the state in a checkpoint" grep -q \
    '"plateau": {"best": [0-9.]*, "scale": 0.25, "failures": 1, "cooldown": 0, "evaluated_step": 6},' \
    plateau/checkpoint-6/trainer_state.json
check "other schedules write no state of it" sh -c '! grep plateau steps/checkpoint-8/trainer_state.json'
exits 0 "plateau: another schedule" train --resume auto --output-dir killed --steps 13 --lr-schedule constant --threads 1
check "plateau: another schedule has its own rate" grep -q '"step": 13, "loss": .*"lr": 0.008,' killed/metrics.jsonl
check "plateau: another schedule writes no state of it" sh -c \
    '! grep "\"plateau\"" killed/checkpoint-13/trainer_state.json'

exits 0 "plateau: --print-config" $plateau --plateau-cooldown 3 --print-config
check "plateau: --print-config: the schedule" grep -q '^lr-schedule  *"plateau"  (command line)' out
check "plateau: --print-config: the factor" grep -q '^plateau-factor  *0.25  (command line)' out
check "plateau: --print-config: the cooldown" grep -q '^plateau-cooldown  *3  (command line)' out
for name in ReduceLROnPlateau reduce_lr_on_plateau reduce-lr-on-plateau; do
    exits 0 "plateau as $name" train --lr_scheduler_type $name --print-config
    check "plateau as $name: the schedule" grep -q '^lr-schedule  *"plateau"' out
    check "plateau as $name: patience" grep -q '^plateau-patience  *10  (default)' out
done
refuses 1 "--lr-schedule plateau requires evaluations; set --eval to steps or epoch (got no)" $validating --steps 4 \
    --lr-schedule plateau --eval no --output-dir gone
refuses 1 "--lr-schedule plateau requires validation data; set --val-data or --val-fraction" $train --steps 4 \
    --lr-schedule plateau --output-dir gone
refuses 1 "--lr-schedule plateau requires evaluations between steps; set --eval-steps" $validating --steps 4 \
    --lr-schedule plateau --eval-steps 0 --output-dir gone
refuses 1 "--plateau-patience requires --lr-schedule plateau (got cosine)" $validating --steps 4 --lr-schedule cosine \
    --plateau-patience 3 --output-dir gone
refuses 1 "--plateau-factor must be at least 0 and below 1 (got 1)" $validating --steps 4 \
    --lr-schedule plateau --plateau-factor 1 --output-dir gone

finish
