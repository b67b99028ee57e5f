#!/bin/sh
# The command: eitp set.
. tests/command/command.sh

train_straight
value_of() {
    sed -n "s/.*\"$1\": \([^,}]*\).*/\1/p" "$2" | head -n 1
}
make_run() {
    rm -rf "$1"
    mkdir "$1"
    cp -r straight/checkpoint-4 straight/checkpoint-8 straight/metrics.jsonl straight/run.json "$1"
}

make_run run
cp -r run before
exits 0 "set" set run lr=0.001 weight-decay=0 lr-schedule=cosine dropout=0
cat >expected <<'END'
run/checkpoint-8: lr changed from 0.003 to 0.001
run/checkpoint-8: weight_decay changed from 0.01 to 0
run/checkpoint-8: lr_schedule changed from linear to cosine
run/checkpoint-8: dropout changed from 0.1 to 0
END
check "set: old and new values" same out expected
check "set: the effect on a resume" grep -q "lr, weight_decay, lr_schedule: a resume uses this value unless you pass another one" err
check "set: the weights stay" same_checkpoints before/checkpoint-8 run/checkpoint-8
check "set: older checkpoints stay" diff -r before/checkpoint-4 run/checkpoint-4
check "set: nothing is left over" test "$(ls -A run | tr '\n' ' ')" = "checkpoint-4 checkpoint-8 metrics.jsonl run.json "
exits 0 "resume" train --resume auto --output-dir run --threads 1
check "resume: the new values" test "$(value_of lr run/checkpoint-12/trainer_state.json)" = 0.001 -a \
    "$(value_of resid_pdrop run/checkpoint-12/config.json)" = 0
for change in "lr is 0.001, as set in 'run/checkpoint-8' (run.json: 0.003)" "lr-schedule is cosine"; do
    check "resume: $change" grep -q "$change" err
done
exits 0 "by hand" train --resume before/checkpoint-8 --lr 0.001 --weight-decay 0 --lr-schedule cosine --dropout 0 \
    --output-dir by_hand --threads 1 -q
check "the same bits as with these options" same_checkpoints by_hand/checkpoint-12 run/checkpoint-12
exits 0 "resume again" train --resume auto --output-dir run --steps 13 --threads 1
check "resume again: reported once" sh -c '! grep -q "run.json: " err'

make_run same
exits 0 "the same values" set same/checkpoint-8 learning-rate=0.003 --json
check "the same values: as JSON" grep -q '"changes": \[{"name": "lr", "was": "0.003", "is": "0.003"}\]' out
exits 0 "resume the same values" train --resume auto --output-dir same --threads 1
check "the same values: the same bits" same_checkpoints straight/checkpoint-12 same/checkpoint-12
check "the same values: no message" sh -c '! grep -q "run.json: " err'
exits 0 "one dropout" set same attention-dropout=0.25
check "one dropout: alone" test "$(value_of attn_pdrop same/checkpoint-12/config.json)" = 0.25 -a \
    "$(value_of resid_pdrop same/checkpoint-12/config.json)" = 0.1

exits 0 "another run" set run seed=5 batch-size=2 lr=0.001 micro-batches-per-pass=2
check "another run: a resume" grep -q "^warning: seed, batch_size: a resume continues as if .* refused" err
check "another run: where it continues" grep -q \
    "^8 samples per step instead of 4: a resume continues after the 52 samples that 13 steps have read" err
check "another run: settings without effect" grep -q "^micro_batches_per_pass: a resume may choose another" err
check "another run: no message about unchanged settings" sh -c '! grep -q "lr:" err'
exits 0 "another run continues" train --resume auto --output-dir run --steps 14 --threads 1
check "another run continues as set" grep -q "step: 8 sequences" err
refuses 1 "batch-size 2" train --resume auto --output-dir run --batch-size 1 --grad-accum 4 --steps 15

refuses 1 "micro_batches_per_pass must be 0 to grad_accum, which is 3 (got 4)" set same grad-accum=3
refuses 1 "--skip-spikes needs a --spike-threshold" set same skip-spikes=true spike-threshold=0
refuses 1 "unknown setting 'colour' (choose from dense_rows, .*, lr, .*, loss_scale, dropout, " set same colour=1
refuses 1 "beta1 must be at least 0 and below 1" set same beta1=1
refuses 1 "lr_schedule: invalid value 'square' (choose from constant, linear, " set same lr-schedule=square
refuses 1 "dropout must be at least 0" set same dropout=much
refuses 1 "write name=value" set same lr
refuses 1 "eitp set requires a directory and changes" set same
refuses 1 "no directory 'gone'" set gone lr=1
cp -r straight/checkpoint-8 other
refuses 1 "call it checkpoint-8" set other lr=1
echo >same/checkpoint-12/optimizer.safetensors
refuses 1 "damaged" set same/checkpoint-12 lr=1

# ---- A run in progress ----

check "a run in progress" start_until 'saved ' $train --steps 100000000 --save-steps 1 --report-to jsonl,csv --output-dir busy
refuses 1 "another process is training in 'busy'" set busy lr=1
refuses 1 "^error: eval_steps cannot be changed during training; stop the run" set busy eval-steps=3
refuses 1 "^error: lr, eval_steps cannot be changed during training; stop the run" set busy lr=1 eval-steps=3
refuses 1 "log_every must be at least 1" set busy log-every=0
# A wrong name or value changes nothing, regardless of which one it is and where it stands.
refuses 1 "log_every must be a whole number (got 'many')" set busy perf-every=9 log-every=many
refuses 1 "log_every must be a whole number (got 'many')" set busy log-every=many perf-every=9
refuses 1 "log_evry is not a setting of a run in progress, unlike others given; nothing was changed" set busy perf-every=9 log_evry=5
refuses 1 "^error: lr must be a number" set busy perf-every=9 lr=much
refuses 1 "^error: eval-steps must be a whole number" set busy eval-steps=many perf-every=9
check "a run in progress: a refused change changes nothing" sh -c '! grep -q "\"event\": \"set\"" busy/metrics.jsonl'
check "a run in progress: no request is sent" test -z "$(find busy -maxdepth 1 -name 'set*')"
exits 1 "a run in progress: some cannot change" set busy eval-steps=3 gpu-report-every=60 lr=1 log_flush_secs=120
check "a run in progress: the others change" grep -qx 'gpu_report_every: 50 -> 60 from step [0-9]*' out
check "a run in progress: those that cannot are named" \
    grep -q "^error: eval_steps, lr, log_flush_seconds cannot be changed during training; stop the run and resume it" err
exits 0 "a run in progress: set" set busy logging-steps=50 save-steps=0
check "a run in progress: old and new values" grep -q '^log_every: 10 -> 50 from step [0-9]*$' out
check "a run in progress: each" grep -q '^save_steps: 1 -> 0 from step [0-9]*$' out
check "a run in progress: reported by the run" grep -q '^log_every: 10 -> 50 from step ' running.err
from=$(sed -n 's/^log_every: .* from step //p' out)
# A run that does not check, here because it is stopped, makes the change later.
kill -STOP $process
exits 0 "a run that sleeps: set" set busy perf-every=7 --json
check "a run that sleeps: reported" grep -q "^written to 'busy'; the run has not applied it yet" err
check "a run that sleeps: as JSON" grep -q '^{"directory": "busy", "step": null, "changes": \[{"name": "perf_every", "is": "7"}\]}$' out
kill -CONT $process
until grep -q '"name": "perf_every", "was": "100", "is": "7"' busy/metrics.jsonl; do sleep 0.1; done
later=$(sed -n 's/^{"step": \([0-9]*\), "event": "set".*"name": "perf_every".*/\1/p' busy/metrics.jsonl)
until [ "$(sed -n 's/^step,\([0-9]*\),.*/\1/p' busy/metrics.csv | tail -n 1)" -gt $((later + 100)) ]; do sleep 0.1; done
check "a run in progress: recorded" grep -q "{\"step\": $((from - 1)), \"event\": \"set\", .*\"name\": \"log_every\", \"was\": \"10\", \"is\": \"50\"" busy/metrics.jsonl
kill -TERM $process
wait_for_end
check "a run in progress: CSV" sh -c 'sed -n "s/^step,\([0-9]*\),.*/\1/p" busy/metrics.csv | awk -v from='"$from"' "
    \$1 >= from { count++; wrong += \$1 % 50 != 0 } END { exit wrong || !count }"'
check "a run in progress: lines" sh -c 'sed -n "s/^step \([0-9]*\).*/\1/p" running.err | awk -v from='"$from"' "
    \$1 >= from { count++; wrong += \$1 % 50 != 0 } END { exit wrong || !count }"'
check "a run in progress: no save" test "$(ls -d busy/checkpoint-* | sed 's/.*-//' | sort -n | awk -v from="$from" '$1 >= from' | wc -l)" -eq 1
check "a run in progress: nothing is left over" sh -c '! ls -A busy | grep -q "^set"'
refuses 1 "^error: no run is training in 'busy'; set log_every when you resume it" set busy log-every=3
refuses 1 "no directory 'gone'" set gone log-every=3
exits 0 "a run that resumes: config" train --resume auto --output-dir busy --print-config
check "a run that resumes: uses the given settings" grep -q '^log-every  *10  *(run.json)' out

# ---- A process that was killed while it replaced a checkpoint ----

for path in run run/checkpoint-8 run/latest_model; do
    make_run run
    mv run/checkpoint-8 run/.checkpoint-8.replaced
    mkdir run/.checkpoint-8.partial
    exits 0 "set of $path after a kill" set $path lr=0.001
    check "set of $path after a kill: the same checkpoint" grep -q '^run/checkpoint-8: lr changed from 0.003 to 0.001' out
    check "set of $path after a kill: nothing is left over" test ! -e run/.checkpoint-8.replaced -a ! -e run/.checkpoint-8.partial
    make_run run
    mv run/checkpoint-8 run/.checkpoint-8.replaced
    exits 0 "eval of $path after a kill" eval --model $path --data small.txt --threads 1 --json
    check "eval of $path after a kill: the same checkpoint" grep -q 'run/checkpoint-8"' out
done

finish
