#!/bin/sh
# The command: the names that options have in configuration files.
. tests/command.sh

# Options that a file has set, one to a line: "name value", from --print-config.
settings_of() { # file
    "$eitp" train --config "$1" --print-config >out 2>err </dev/null
    awk '/ \(config\)$/ { sub(/ *\(config\)$/, ""); sub(/ +/, " "); print }' out
}

# What the file "name" sets: the lines on standard input.
sets() { # file
    cat >wanted
    settings_of "$1" >got
    if cmp -s wanted got; then pass; else
        fail "settings of $1"
        diff wanted got | sed 's/^/    /'
        sed 's/^/    /' err
    fi
}

# A member of a path, in JSON.
nest() { # path, value
    awk -v path="$1" -v value="$2" 'BEGIN {
        count = split(path, names, ".")
        for (i = 1; i <= count; i++)
            printf "{\"%s\": ", names[i]
        printf "%s", value
        for (i = 1; i <= count; i++)
            printf "}"
        print ""
    }'
}

# ---- names in sections ----

while read -r path value setting; do
    case $path in '' | '#'*) continue ;; esac
    nest "$path" "$value" >nested.json
    got=$(settings_of nested.json)
    check "$path $value: '$got', not '$setting'; $(cat err)" test "$got" = "$setting"
done <<'END_OF_NAMES'
data.path "a" data ["a"]
dataset.files ["a","b"] data ["a", "b"]
data.train "a" data ["a"]
data.train.path "a" data ["a"]
data.text "a" data ["a"]
data.train_data "a" data ["a"]
data.val "a" val-data ["a"]
data.val.path "a" val-data ["a"]
validation.data "a" val-data ["a"]
validation.fraction 0.2 val-fraction 0.2
data.val_split 0.2 val-fraction 0.2
eval.steps 7 eval-steps 7
evaluation.every 7 eval-steps 7
evaluation.windows 7 eval-windows 7
eval_interval 7 eval-steps 7
training.eval_strategy "no" eval-steps 0
training.eval_strategy "steps"
model.name "dir" model "dir"
model.name_or_path "dir" model "dir"
model.config "c.json" init "c.json"
model.shape "tiny" init "tiny"
model.dtype "bf16" precision "bf16"
model.dropout 0.1 dropout 0.1
tokenizer.path "dir" tokenizer "dir"
lora.r 4 lora-rank 4
lora.rank 4 lora-rank 4
model.lora.alpha 4 lora-alpha 4
lora.dropout 0.2 lora-dropout 0.2
peft.lora_dropout 0.2 lora-dropout 0.2
lora.target_modules ["c_attn","c_fc"] lora-targets "c_attn,c_fc"
lora.targets "c_attn" lora-targets "c_attn"
lora.rslora true lora-rslora true
training.freeze ["embeddings","layers:2"] freeze "embeddings,layers:2"
optimizer.type "AdamW" optimizer "adamw"
optimizer.name "Adafactor" optimizer "adafactor"
optimizer "SGD" optimizer "sgd"
optimizer.lr 0.5 lr 0.5
optimizer.params.lr 0.5 lr 0.5
optimizer.params.betas [0.8] beta1 0.8
scheduler.type "cosine" lr-schedule "cosine"
training.lr_scheduler.name "linear" lr-schedule "linear"
scheduler.eta_min 0.1 final-lr 0.1
scheduler.warmup_num_steps 9 warmup-steps 9
gradient_clipping 1.5 max-grad-norm 1.5
training.epochs 2 epochs 2
trainer.max_epochs 2 epochs 2
train_micro_batch_size_per_gpu 2 batch-size 2
training.amp true precision "fp16"
training.amp false
training.mixed_precision "bf16" precision "bf16"
training.mixed_precision "no" precision "fp32"
training.mixed_precision false precision "fp32"
fp16.enabled true precision "fp16"
fp16.enabled false
bf16.enabled true precision "bf16"
amp.enabled true precision "fp16"
memory.budget "1.5GB" memory-budget 1500000000
memory.limit 1000000 memory-budget 1000000
output.dir "o" output-dir "o"
checkpoint.dir "o" output-dir "o"
checkpoint.interval 3 save-steps 3
checkpoint.keep 3 save-total-limit 3
save.steps 3 save-steps 3
checkpoint_freq 3 save-steps 3
training.max_checkpoints 3 save-total-limit 3
training.save_strategy "steps"
training.save_strategy "no" save-steps 0
logging.steps 3 log-every 3
log.interval 3 log-every 3
steps_per_print 3 log-every 3
some.section.batch_size 3 batch-size 3
lora-r 4 lora-rank 4
END_OF_NAMES

# Names that have no effect, and say so; in each section, whatever option has the name elsewhere.
for path in eval.batch_size validation.batch-size per_device_eval_batch_size persistent_workers drop_last \
    training.val_check_interval limit_val_batches use_dynamic_padding model.torch_dtype fp16.loss_scale \
    zero_optimization.stage zero_optimization.offload_optimizer.device memory_efficient_attention detect_anomaly \
    enable_model_summary sync_batchnorm monitor.verbose monitor.update_frequency monitor.all_freq.eval_log_freq \
    perf_log_freq gpu_log_freq flops_profile_freq lightweight_mode minimal_mode fast_detection \
    disable_metrics_monitoring tensorboard_flush_secs pin_memory; do
    nest "$path" 1 >nested.json
    check "$path sets nothing" test -z "$(settings_of nested.json)"
    exits 0 "$path" train -v --config nested.json --print-config
    tr _ - <err >dashes
    name=$(echo "${path##*.}" | tr _ -)
    check "$path has no effect, and says so" grep -q "^warning: $name has no effect: ." dashes
done

echo '{"optimizer": {"betas": [0.8, 0.95]}}' >nested.json
sets nested.json <<'END'
beta1 0.8
beta2 0.95
END
echo '{"amp": false, "bf16": {"enabled": true}}' >nested.json
sets nested.json <<'END'
precision "bf16"
END

# ---- names that are refused ----

refuses_text() { # words, text of the file
    printf '%b' "$2" >bad.json
    refuses 1 "^error: bad.json:[0-9]*: .*$1" train --config bad.json --data text.txt --init tiny.json --output-dir gone
}
refuses_text "amp was given in line 1 already" '{"precision": "bf16", "amp": true}'
refuses_text "dropout was given in line 1 already" '{"dropout": 0, "model": {"dropout": 0.1}}'
refuses_text "betas takes a list of 2 values" '{"betas": 0.9}'
refuses_text "betas takes a list of 2 values" '{"betas": [0.9, 0.9, 0.9]}'
refuses_text "betas was given in line 1 already" '{"beta2": 0.9, "betas": [0.9, 0.9]}'
refuses_text "data was given in line 1 already" '{"data": ["a"],\n"x": {"data": ["b"]}}'
refuses_text "save-steps 'epoch'" '{"save_strategy": "epoch"}'
refuses_text "unknown option 'type'" '{"model": {"type": "gpt2"}}'
refuses_text "unknown option 'hidden_dim'" '{"hypernetwork": {"hidden_dim": 64}}'
refuses_text "use_amp must be true or false" '{"use_amp": "yes"}'
refuses_text "a list may hold plain values only" '{"data": [["a"]]}'
awk 'BEGIN { for (i = 0; i < 10000; i++) printf "{\"a\": " }' >bad.json
refuses 1 "^error: bad.json:1: .*nested too deep" train --config bad.json

finish
