#!/bin/sh
# The command: regularizers as options, in configuration files and in checkpoints, and their refusals.
. tests/command/command.sh

# Prints options with a value that was set, one a line: "name value".
set_by() { # options...
    "$eitp" train "$@" --print-config >out 2>err </dev/null || cat err
    awk '/\((command line|[^()]*:[0-9]+)\)$/ { sub(/ *\([^()]*\)$/, ""); sub(/ +/, " "); if ($1 != "config") print }' out
}

# sets WANTED OPTIONS...: the lines, joined by "; ".
sets() {
    wanted=$1
    shift
    got=$(set_by "$@" | sed -e :a -e '$!N; s/\n/; /; ta')
    check "$*: '$got', not '$wanted'" test "$got" = "$wanted"
}

# ---- options ----

names="path-norm entropy coding-rate chaos jacobian-norm coherence brier variance participation-ratio balance \
attention-entropy self-repair energy"
exits 0 "--help" train --help
for name in $names; do
    check "help: --$name" grep -q -e "^  --$name preset|off|metric|loss" out
    for part in weight every start warmup target; do
        check "help leaves out --$name-$part" sh -c '! grep -q -e "--$1 " out' sh "$name-$part"
    done
done
check "help describes each" sh -c 'tr "\n" " " <out | tr -s " " |
    grep -q -e "--NAME-weight, -every, -start, -warmup and -target; see docs/objective.md (default: off)"'
for name in $names; do
    sets "$name \"metric\"" --$name metric
    sets "$name-weight 0.5; $name-every 3; $name-start 4; $name-warmup 5; $name-target 0.25" --$name-weight 0.5 \
        --$name-every 3 --$name-start 4 --$name-warmup 5 --$name-target 0.25
done
sets 'objective "eitp-safe"' --objective eitp-safe
sets 'objective "eitp-paper"' --objective paper
sets 'objective "off"' --objective none
sets 'objective "off"' --no-objective
sets 'coherence "off"' --no-coherence
sets 'coherence "off"' --coherence false
sets 'self-repair "off"' --self-repair off
sets 'self-repair "loss"; self-repair-form "denoise"' --self-repair denoise
sets 'self-repair "loss"; self-repair-form "kl"' --self-repair=kl
sets 'self-repair "loss"; self-repair-form "kl"' --self-repair kl --self-repair-form kl
sets 'self-repair "metric"; self-repair-form "denoise"' --self-repair metric --self-repair-form denoise
sets 'reg-grad-cap 0.2' --reg-grad-cap 0.2
sets 'group "micro-batch"' --group micro_batch
sets 'chaos-positions "last"' --chaos-positions last
sets 'path-norm-form "l1"' --path_norm_form l1
sets 'controller "dual"' --controller dual
sets 'monitor "off"' --no-monitor
refuses 1 "--self-repair kl and --self-repair-form denoise exclude each other; give one" train --self-repair kl \
    --self-repair-form denoise
refuses 1 "--chaos: invalid value 'on' (choose from preset, off, metric, loss)" train --chaos on
refuses 1 "--objective: invalid value 'eitp' (choose from off, eitp-safe, eitp-paper)" train --objective eitp
refuses 1 "--reg-grad-cap must be at least 0 and at most 1e+30 (got -1)" train --reg-grad-cap -1
refuses 1 "--brier-start must be at least 1 and at most 9007199254740992 (got 0)" train --brier-start 0
refuses 1 "--entropy-high must be at least 0 and at most 1 (got 1.5)" train --entropy-high 1.5
refuses 1 "unknown option 'path-norm-wieght'; did you mean 'path-norm-weight'" train --path-norm-wieght 1
refuses 1 "'eitp eval' has no option --coherence" eval --coherence loss
exits 0 "plan has them" plan --objective eitp-safe --path-norm-weight 0.1 --print-config
check "plan has them: the value" grep -q '^path-norm-weight  *0.1  (command line)' out

# Options with their default are left out, except in JSON.
exits 0 "--print-config" train --print-config
check "--print-config: the preset" grep -q '^objective  *"off"  (default)' out
check "--print-config: no more" sh -c '! grep -q "^path-norm\|^group\|^chaos\|^controller" out'
exits 0 "--print-config --json" train --print-config --json
check "--print-config --json: all" grep -q '"path-norm": {"value": "preset", .*"energy-target": {"value": 0, ' out

# ---- names of the guides, and of files for them ----

cat >guide.json <<'END'
{"objective": "safe",
 "losses": {"path_norm_weight": 1.0, "entropy_weight": 1.0, "chaos_weight": 1.0, "coherence_weight": 0.1,
            "thermodynamic_weight": 0.1},
 "hypernetwork": false, "text_coherence": false, "self_repair": "off"}
END
sets 'objective "eitp-safe"; self-repair "off"; path-norm-weight 1; entropy-weight 1; chaos-weight 1; coherence-weight 0.1; balance-weight 0.1' \
    --config guide.json
cat >guide.json <<'END'
{"loss_weights": {"ce": 1.0, "path_norm": 1, "entropy": 0.5, "chaos": 0.25, "coherence": 0.1, "thermodynamic": 0.1},
 "coherence_temperature": 0.2, "self_repair": "denoise"}
END
sets 'self-repair "loss"; path-norm-weight 1; entropy-weight 0.5; chaos-weight 0.25; coherence-weight 0.1; balance-weight 0.1; coherence-temperature 0.2; self-repair-form "denoise"' \
    --config guide.json
echo '{"lambda_path": 1, "lambda_entropy": 2, "lambda_chaos": 3, "jacobian_weight": 4, "target_lyapunov": 0.5}' >guide.json
sets 'path-norm-weight 1; entropy-weight 2; chaos-weight 3; jacobian-norm-weight 4; chaos-exponent 0.5' --config guide.json
sets 'balance "loss"' --thermodynamic loss
sets 'jacobian-norm-weight 0.1' --lambda_jacobian 0.1
sets 'max-nonfinite 10' --max-bad-steps 10
sets 'cpu-mem-warn 85' --cpu-mem-warn 85
sets 'metrics-window 50; metrics-every 1000' --metrics-every 1000 --metrics-window 50
for name in hyper-hidden hyper_hidden_dim hyper-every use_hypernetwork hypernetwork_hidden; do
    refuses 1 "--$name 64 is not supported: the controller hyper is not implemented; use --controller const, dual or pi" \
        train --$name 64
done
refuses 1 "--controller: invalid value 'hyper' (choose from const, dual, pi)" train --controller hyper
echo '{"hypernetwork": {"hidden_dim": 64}}' >hyper.json
refuses 1 "hyper.json:1: hidden_dim 64 is not supported: the controller hyper is not implemented" train --config hyper.json
for value in '' ' metric' ' loss'; do
    # shellcheck disable=SC2086
    refuses 1 "--text-coherence$value is not supported: text coherence is measured on generated text: eitp eval --emergence" \
        train --text-coherence$value
done
sets '' --text-coherence off
sets '' --no-text-coherence
refuses 1 "--ce-weight 2 is not supported: the task loss has weight 1" train --ce-weight 2
refuses 1 "--target_entropy 0 is not supported: entropy is regularized to a range: set --entropy-low" train --target_entropy 0
refuses 1 "--lang zh is not supported: messages are in English" train --lang zh
refuses 1 "'eitp train' has no option --plot-every; use 'eitp report', which draws runs" train --plot-every 1000
for option in '--target_fractal_dim 2.7:the box dimension' '--mi_weight 0.1:a deterministic network' \
    '--mem-check-every 10:within every step' '--hardware_weight 1:no gradient'; do
    # shellcheck disable=SC2086
    exits 0 "$option" train ${option%%:*} --print-config
    check "$option: $(cat err)" grep -q "^warning: .* has no effect: .*${option##*:}" err
done

# ---- runs ----

train="train --data small.txt --init tiny.json --block-size 16 --threads 1 --precision $precision --lr 1e-3 --eval no"

# Invalid values are refused before a directory is written.
refuses 1 "energy has no gradient and cannot be a loss; set it to metric or off" $train --energy loss \
    --steps 1 --output-dir gone
refuses 1 "energy has no gradient and cannot be a loss" $train --energy-weight 0.1 --steps 1 --output-dir gone
refuses 1 "entropy_low must be at most entropy_high, which is 0.9 (got 0.95)" $train --entropy-low 0.95 --steps 1 \
    --output-dir gone

# Checkpoints and run.json contain only values that differ from the default.
exits 0 "a run without regularizers" $train --steps 1 --output-dir without
check "a run without: nothing in the checkpoint" sh -c '! grep -q "objective\|path_norm\|chaos" without/checkpoint-1/trainer_state.json'
check "a run without: only the preset in run.json" sh -c \
    'grep -q "\"objective\": \"off\"" without/run.json && ! grep -q "\"path-norm\|\"chaos\|\"controller" without/run.json'
settings="--objective eitp-safe --path-norm off --entropy off --coding-rate off --chaos off --coherence off"
exits 0 "a run with settings" $train $settings --brier-every 3 --chaos-exponent 0.5 --steps 1 --output-dir with
for member in '"objective": 1' '"path_norm": 1' '"coherence": 1' '"brier_every": 3' '"chaos_exponent": 0.5'; do
    check "the checkpoint: $member" grep -q "^  $member,\{0,1\}$" with/checkpoint-1/trainer_state.json
done
check "run.json" grep -q '"objective": "eitp-safe", .*"chaos": "off", .*"chaos-exponent": 0.5' with/run.json
exits 0 "a resumed run keeps them" train --resume auto --output-dir with --steps 2
check "a resumed run keeps them: $(cat err)" sh -c '! grep -v "steps of the learning-rate" err | grep -q changed'
cp with/checkpoint-2/trainer_state.json kept.json
check "a resumed run keeps them: the next checkpoint" grep -q '^  "chaos_exponent": 0.5' kept.json
exits 0 "a difference is logged" train --resume auto --output-dir with --steps 3 --chaos-exponent 0.25 \
    --term-norms-every 0
check "a difference is logged: which" grep -q -e "--chaos-exponent changed from 0.5 to 0.25 since '" err
refuses 1 "was trained with group sample, and a resumed run keeps it (got micro-batch); leave --group out" train \
    --resume auto --output-dir with --steps 4 --group micro-batch
exits 0 "set" set with/checkpoint-3 path-norm-weight=0.125
check "set: what changed" grep -q 'path_norm_weight changed from -1 to 0.125' out
refuses 1 "unknown setting 'path-norm-wait'; did you mean 'path_norm_weight'?" set with/checkpoint-3 path-norm-wait=1
refuses 1 "energy has no gradient and cannot be a loss" set with/checkpoint-3 energy=loss
exits 0 "a resume after set" train --resume auto --output-dir with --steps 4
check "a resume after set: reported; $(cat err)" grep -q "path-norm-weight is 0.125, as set in '.*' (run.json: -1)" err

# Killed at random, stopped between two computations of a term, and resumed: the weights and states of an uninterrupted
# run.
every="--reg-grad-cap 0.2 --chaos-every 3 --brier-every 2 --self-repair-start 4 --entropy-warmup 6 --chaos-samples 2"
for name in $names; do
    [ $name = energy ] || every="$every --$name loss"
done
all="$train --batch-size 2 --grad-accum 2 --steps 12 --save-steps 4 --save-total-limit 0 --data-workers 2 $every"
exits 0 "all of them" $all --output-dir all --async-save no
kills=0
seed=${SEED:-$(date +%s)}
for wait in $(awk -v seed="$seed" 'BEGIN { srand(seed); for (i = 0; i < 5; i++) printf "%.3f\n", 0.05 + rand() * 0.2 }'); do
    "$eitp" $all --save-steps 2 --resume auto --output-dir killed >/dev/null 2>&1 </dev/null &
    process=$!
    sleep "$wait"
    kill -9 $process 2>/dev/null
    wait $process 2>/dev/null
    [ $? -eq 137 ] && kills=$((kills + 1))
done
exits 0 "all of them, killed" $all --resume auto --output-dir killed
check "killed and resumed: the same bits (SEED=$seed, $kills kills)" same_checkpoints all/checkpoint-12 killed/checkpoint-12
for step in 4 8; do
    exits 0 "the rest after $step" train --resume all/checkpoint-$step --output-dir rest-$step
    check "the rest after $step: the same bits" same_checkpoints all/checkpoint-12 rest-$step/checkpoint-12
done

# A term that starts late or is only computed in some steps does not make the loss count as diverged or as a spike.
exits 0 "a late term" $train --batch-size 4 --balance-weight 10 --balance-log-scale 3 --balance-start 12 --brier-weight 1 \
    --brier-every 4 --steps 30 --save-steps 5 --output-dir late
check "a late term: the loss has grown" sh -c 'grep "\"step\": 30, \"loss\": [0-9][0-9]" late/metrics.jsonl >line'
check "a late term: the model is kept" test -e late/checkpoint-30/model.safetensors
check "a late term: no spike, no divergence; $(grep -h warning err)" sh -c \
    '! grep -q "\"spike\": \"loss\|spike in step [0-9]*: loss\|\"event\": \"diverging" late/metrics.jsonl'

# Commands that read a run recognize the terms and metrics, by any name, and assess them by the task.
exits 0 "all records" $train --batch-size 2 --steps 12 --brier loss --entropy metric --chaos loss --chaos-every 1 --reg-grad-cap 0.5 \
    --report-to all --log-every 1 --output-dir seen
exits 0 "a report" report seen -o seen.html
for title in ce brier chaos entropy chaos_absolute "Gradient norm of the regularizers" "Factor of the regularizers"; do
    check "a report: $title" grep -q "<figcaption>$title<" seen.html
done
check "a report: the scale of fp16 is no term" sh -c '! grep -q "<figcaption>scale<" seen.html'
check "CSV" sh -c 'grep "^step,12," seen/metrics.csv | grep -q "\"\"metrics/chaos\"\": "'
check "TensorBoard" sh -c 'cat seen/tensorboard/* | grep -a -q "metrics/chaos"'
check "the summary" grep -q '"key": "metrics/chaos"' seen/summary.jsonl
exits 0 "logs" logs seen --columns loss_ce,metrics/chaos
check "logs: the names" sh -c 'head -n 1 out | grep -q "loss_ce.*metrics/chaos"'
exits 0 "doctor" doctor late
check "doctor: by the task's loss; $(cat out)" grep -q "loss [0-9.]* in the first step, [0-9.]* in the last ones (loss_ce)" out
check "doctor: nothing has diverged" sh -c '! grep -q "diverge\|too high\|risen" out'
exits 0 "perplexities" $train --data text.txt --eval steps --eval-steps 4 --steps 4 --brier-weight 5 --output-dir perplexity
check "perplexities: of the task" awk 'match($0, /"val_loss": [0-9.]*/) {
    loss = substr($0, RSTART + 12, RLENGTH - 12); match($0, /"val_perplexity": [0-9.]*/)
    found = 1; bad = bad || (log(substr($0, RSTART + 18, RLENGTH - 18)) - loss) ^ 2 > 1e-8 || loss > 6 }
    END { exit !found || bad }' perplexity/metrics.jsonl

# A weight that is set has the value of the option.
exits 0 "set a weight" set rest-4/checkpoint-8 brier-weight=0.5
exits 0 "set a weight: a resume" train --resume rest-4/checkpoint-8 --output-dir set
exits 0 "set a weight: by hand" train --resume all/checkpoint-8 --brier-weight 0.5 --output-dir by_hand
check "set a weight: the same bits" same_checkpoints set/checkpoint-12 by_hand/checkpoint-12
check "set a weight: other bits" sh -c '! cmp -s set/checkpoint-12/model.safetensors all/checkpoint-12/model.safetensors'

finish
