#!/bin/sh
# The command: configuration files in JSON and YAML, and the names of options in them.
. tests/command/command.sh

# Prints the options set by a file, one a line: "name value", from --print-config.
settings_of() { # file
    "$eitp" train --config "$1" --print-config >out 2>err </dev/null
    awk '/ \([^()]*:[0-9]+\)$/ { sub(/ *\([^()]*\)$/, ""); sub(/ +/, " "); print }' out
}

# Checks that the file "name" sets the lines on standard input.
sets() { # file
    cat >wanted
    settings_of "$1" >got
    if cmp -s wanted got; then pass; else
        fail "settings of $1"
        diff wanted got | sed 's/^/    /'
        sed 's/^/    /' err
    fi
}

# Prints a member at a path, in JSON.
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

# A quarter of the processors, 1 to 16.
workers=$(($(usable_processors) / 4))
[ "$workers" -ge 1 ] || workers=1
[ "$workers" -le 16 ] || workers=16

# ---- names in sections ----

while read -r path value setting; do
    case $path in '' | '#'*) continue ;; esac
    nest "$path" "$value" >nested.json
    got=$(settings_of nested.json)
    setting=$(echo "$setting" | sed "s/WORKERS/$workers/")
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
training.eval_strategy "no" eval "no"
training.eval_strategy "steps" eval "steps"
eval_strategy "epoch" eval "epoch"
evaluation_strategy false eval "no"
eval.strategy "no" eval "no"
eval false eval "no"
do_eval false eval "no"
training.val_check_interval 0.1 eval-every-frac 0.1
limit_val_batches 0.2 eval-frac 0.2
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
optimizer.name "Adafactor" optimizer "factored"
optimizer "SGD" optimizer "sgd"
optimizer.name "adamw_torch" optimizer "adamw"
optimizer.name "adamw_torch_fused" optimizer "adamw"
optimizer.name "adamw_8bit" optimizer "adamw8"
optimizer.name "adamw8bit" optimizer "adamw8"
optimizer.name "adamw_bnb_8bit" optimizer "adamw8"
optimizer.lr 0.5 lr 0.5
optimizer.params.lr 0.5 lr 0.5
scheduler.type "cosine" lr-schedule "cosine"
training.lr_scheduler.name "linear" lr-schedule "linear"
scheduler.eta_min 0.1 final-lr 0.1
scheduler.warmup_num_steps 9 warmup-steps 9
scheduler.type "ReduceLROnPlateau" lr-schedule "plateau"
lr_scheduler.name "reduce_lr_on_plateau" lr-schedule "plateau"
lr_scheduler_type "reduce_lr_on_plateau" lr-schedule "plateau"
lr_scheduler_kwargs.min_lr 0.1 final-lr 0.1
scheduler.mode "min"
scheduler.threshold_mode "rel"
scheduler.monitor "val_loss"
gradient_clipping 1.5 max-grad-norm 1.5
training.epochs 2 epochs 2
trainer.max_epochs 2 epochs 2
train_micro_batch_size_per_gpu 2 batch-size 2
training.amp true precision "fp16"
training.amp false precision "fp32"
training.mixed_precision "bf16" precision "bf16"
training.mixed_precision "no" precision "fp32"
training.mixed_precision false precision "fp32"
fp16.enabled true precision "fp16"
fp16.enabled false precision "fp32"
bf16.enabled false precision "fp32"
gradient_checkpointing false recompute "none"
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
training.save_strategy "steps" save-strategy "steps"
training.save_strategy "no" save-strategy "no"
save_strategy "epoch" save-strategy "epoch"
checkpoint.strategy "no" save-strategy "no"
logging.steps 3 log-every 3
log.interval 3 log-every 3
steps_per_print 3 log-every 3
some.section.batch_size 3 batch-size 3
lora-r 4 lora-rank 4
model.n_layer 3 layers 3
model.num_attention_heads 4 heads 4
model.hidden_size 32 width 32
model.n_positions 99 positions 99
drop_last true drop-last true
metric_for_best_model "eval_loss" keep-best "loss"
metric_for_best_model "val_macro_f1" keep-best "macro_f1"
metric_for_best_model "val_perplexity" keep-best "loss"
metric_for_best_model "eval_perplexity" keep-best "loss"
metric_for_best_model "perplexity" keep-best "loss"
load_best_model_at_end true keep-best "loss"
load_best_model_at_end false
dataloader_num_workers 8 data-workers 8
dataloader_num_workers "auto" data-workers WORKERS
dataloader_prefetch_factor 4 prefetch 4
report_to "none" report-to "none"
training_log_freq 20 log-every 20
perf_log_freq 20 perf-every 20
gpu_log_freq 20 gpu-report-every 20
monitor.gpu_report_every 20 gpu-report-every 20
monitor.flops_profile_freq 50 profile-every 50
flops_every 50 profile-every 50
lightweight_mode true monitor "light"
lightweight_mode false monitor "full"
minimal_mode false
fast_detection true metrics "fast"
disable_metrics_monitoring true metrics "off"
monitor.update_frequency 100 log-full-every 100
monitor.plot_frequency 1000 metrics-every 1000
monitor.window_size 50 metrics-window 50
devices 1
devices "auto"
strategy "auto"
local_rank -1
accelerator "gpu" device "gpu"
END_OF_NAMES

# Names without effect are reported, in each section, regardless of options with the same name elsewhere.
for path in eval.batch_size validation.batch-size per_device_eval_batch_size persistent_workers \
    non_blocking compile empty_cache_every max_split_size_mb use_dynamic_padding \
    model.torch_dtype fp16.loss_scale memory_efficient_attention \
    scheduler.eps lr_scheduler_kwargs.verbose \
    enable_model_summary sync_batchnorm monitor.verbose monitor.all_freq.eval_log_freq; do
    nest "$path" 1 >nested.json
    check "$path sets nothing" test -z "$(settings_of nested.json)"
    exits 0 "$path" train -v --config nested.json --print-config
    tr _ - <err >dashes
    name=$(echo "${path##*.}" | tr _ -)
    check "$path has no effect, which is reported" grep -q "^warning: $name has no effect: ." dashes
done

for path in zero_optimization.stage zero_optimization.offload_optimizer.device; do
    nest "$path" 2 >nested.json
    exits 0 "$path" train --config nested.json --print-config
    check "$path: the alternative" grep -q "^warning: zero_optimization has no effect: .*factored.*offload" err
    check "$path: one line" test "$(lines err)" -eq 1
done

# A named metric replaces the loss that load_best_model_at_end implies, in any order and place.
for names in '"load_best_model_at_end": true, "metric_for_best_model": "f1"' '"metric_for_best_model": "f1", "load_best_model_at_end": true'; do
    echo "{$names}" >nested.json
    check "$names" test "$(settings_of nested.json)" = 'keep-best "f1"'
done
echo '{"keep-best": "f1"}' >nested.json
exits 0 "--load-best-model-at-end" train --config nested.json --load-best-model-at-end --print-config
check "--load-best-model-at-end and a metric in the file" grep -q '^keep-best  *"f1" ' out
exits 0 "--load-best-model-at-end" train --metric-for-best-model eval_f1 --load-best-model-at-end --print-config
check "--load-best-model-at-end and a metric" grep -q '^keep-best  *"f1" ' out

echo '{"optimizer": {"betas": [0.8, 0.95]}}' >nested.json
sets nested.json <<'END'
beta1 0.8
beta2 0.95
END
cat >nested.json <<'END'
{"lr_scheduler": {"name": "ReduceLROnPlateau", "mode": "min", "factor": 0.5, "patience": 3, "threshold": 0.01,
                  "cooldown": 2, "min_lr": 1e-6}}
END
sets nested.json <<'END'
final-lr 1e-06
lr-schedule "plateau"
plateau-factor 0.5
plateau-patience 3
plateau-threshold 0.01
plateau-cooldown 2
END
echo '{"lr_scheduler_type": "reduce_lr_on_plateau", "lr_scheduler_kwargs": {"patience": 4}}' >nested.json
sets nested.json <<'END'
lr-schedule "plateau"
plateau-patience 4
END
echo '{"amp": false, "bf16": {"enabled": true}}' >nested.json
sets nested.json <<'END'
precision "bf16"
END

# ---- refused names ----

refuses_text() { # words, text of the file
    printf '%b' "$2" >bad.json
    refuses 1 "^error: bad.json:[0-9]*: .*$1" train --config bad.json --data text.txt --init tiny.json --output-dir gone
}
refuses_line() { # line, words, text of the file
    printf '%b' "$3" >bad.json
    refuses 1 "^error: bad.json:$1: $2" train --config bad.json --data text.txt --init tiny.json --output-dir gone
}
refuses_text "'amp' and 'precision' (line 1) both set --precision; remove one" '{"precision": "bf16", "amp": true}'
refuses_text "'model.dropout' and 'dropout' (line 1) both set --dropout; remove one" '{"dropout": 0, "model": {"dropout": 0.1}}'
refuses_text "betas takes a list of 2 values" '{"betas": 0.9}'
refuses_text "betas takes a list of 2 values" '{"betas": [0.9, 0.9, 0.9]}'
refuses_text "betas takes a list of 2 values" '{"betas": [0.9]}'
refuses_text "betas takes a list of 2 values" '{"betas": [0.9, null]}'
refuses_line 2 "adam_betas takes a list of 2 values" '{"seed": 1,\n"optimizer": {"adam_betas": [0.9]},\n"steps": [1, 2]}'
refuses_text "'betas' and 'beta2' (line 1) both set --beta2" '{"beta2": 0.9, "betas": [0.9, 0.9]}'
refuses_text "'x.data' and 'data' (line 1) both set --data" '{"data": ["a"],\n"x": {"data": ["b"]}}'
refuses_text "save-strategy: invalid value 'often' (choose from no, steps, epoch)" '{"save_strategy": "often"}'
refuses_line 2 "betas is an empty list; give a value, or remove it" '{"seed": 1,\n"betas": []}'
refuses_text "data is an empty list" '{"data": [ ]}'
refuses_line 2 "output_dir must be text (got true)" '{"seed": 1,\n"output_dir": true}'
refuses_text "data must be text (got false)" '{"data": [false]}'
refuses_line 1 "batch-size must be a whole number (got 'true')" '{"batch_size": true}'
refuses_line 1 "devices 2 is not supported: eitp trains in one process" '{"trainer": {"devices": 2}}'
refuses_line 1 "strategy ddp is not supported: eitp trains in one process" '{"trainer": {"strategy": "ddp"}}'
refuses_line 1 "'model' is given twice, first in line 1; remove one" '{"model": "a", "model": "b"}'
refuses_line 1:8 "expected a JSON value, found 'foo'" '{"lr": foo}'
refuses_line 2:2 "expected a JSON value, found the end of the file" '{"lr":\n '
refuses_line 1:13 "expected ',' or '}' in an object, found '\"'" '{"lr": 1e-3 "x": 2}'
refuses_text "'fp16' and 'bf16' (line 1) both set --precision" '{"bf16": true, "fp16": true}'
refuses_line 1 "mode max is not supported: plateau follows the validation loss" '{"lr_scheduler": {"mode": "max"}}'
refuses_line 1 "monitor accuracy is not supported: plateau follows" '{"scheduler": {"monitor": "accuracy"}}'
refuses_text "eval no and bad.json:2: eval-steps 5 exclude each other" '{"eval": "no",\n"eval_steps": 5}'
refuses_text "eval-windows 5 and bad.json:1: eval-frac 0.1 exclude" '{"eval": {"windows": 5}, "limit_val_batches": 0.1}'
refuses_text "val_check_interval must be at most 1, a fraction of an epoch (got 500); set eval-steps" '{"val_check_interval": 500}'
refuses_text "unknown option 'type'" '{"model": {"type": "gpt2"}}'
refuses_text "unknown option 'hidden_dim'" '{"network": {"hidden_dim": 64}}'
refuses_text "use_amp must be true or false" '{"use_amp": "yes"}'
refuses_line 1:11 "a list can hold only plain values" '{"data": [["a"]]}'
awk 'BEGIN { for (i = 0; i < 10000; i++) printf "{\"a\": " }' >bad.json
refuses 1 "^error: bad.json:1:97: .*nested too deep" train --config bad.json

# ---- flags that request nothing ----

cat >off.json <<'END'
{"data": "text.txt", "init": "tiny.json", "steps": 2, "block-size": 16, "eval": "no", "pin_memory": false, "tf32": false,
 "persistent_workers": false, "enable_model_summary": false, "sync_batchnorm": false, "use_rslora": false,
 "greater_is_better": false, "use_dynamic_padding": false}
END
exits 0 "flags that are false" train --config off.json --precision $precision --output-dir off
check "flags that are false: no warnings" sh -c "! grep '^warning' err"
sed 's/"\(pin_memory\|tf32\|persistent_workers\|sync_batchnorm\)": false/"\1": true/g' off.json >on.json
exits 0 "flags that are true" train --config on.json --precision $precision --output-dir on
check "flags that are true: a warning for each" test "$(grep -c '^warning: .* has no effect' err)" -eq 4

# ---- a run.json as a configuration ----

# again NAME OPTIONS...: training with the run.json of a run prints nothing beyond that run's output, and has its bits.
again() {
    name=$1
    shift
    exits 0 "$name" train "$@" --threads 1 --precision $precision --output-dir first
    grep '^warning' err >said
    exits 0 "$name, by its run.json" train --config first/run.json --output-dir second
    grep '^warning' err >said_again
    check "$name, by its run.json: no other messages" sh -c 'cmp said said_again || diff said said_again'
    for file in first/checkpoint-*/*.safetensors; do
        check "$name, by its run.json: the same bits" cmp -s "$file" "second/${file#first/}"
    done
    rm -rf first second
}
printf 'text,label\n' >rows.csv
awk 'BEGIN { for (i = 0; i < 22; i++) print "row " i * 7 % 22 "," (i % 3 ? "good" : "bad") }' >>rows.csv
again "a language model" --data text.txt --init tiny.json --block-size 16 --steps 3
again "a classifier" --data rows.csv --task classify --init tiny.json --batch-size 8 --epochs 2
exits 0 "a model for adapters" train --data text.txt --init tiny.json --block-size 16 --steps 2 --eval no --precision $precision --output-dir base
again "adapters" --data small.txt --model base --block-size 16 --lora-rank 2 --steps 3
again "a plateau" --data small.txt --init tiny.json --block-size 16 --steps 6 --eval-steps 2 --lr-schedule plateau --keep-best loss
exits 0 "evaluation with a run.json" eval --config base/run.json --model base
exits 0 "a plan with a run.json" plan --config base/run.json

# The samples of whole epochs are counted, not the samples of full steps.
exits 0 "one epoch" train --data rows.csv --task classify --init tiny.json --val-fraction 0 --batch-size 16 --epochs 1 \
    --precision $precision --output-dir epoch
check "one epoch: reported" grep -q '; 2 steps are 1.00 epochs; ' err
exits 0 "twenty epochs" train --data rows.csv --task classify --init tiny.json --val-fraction 0 --batch-size 16 --epochs 20 \
    --precision $precision --output-dir epochs
check "twenty epochs: reported" grep -q '; 28 steps are 20.00 epochs; ' err
exits 0 "one step" train --data rows.csv --task classify --init tiny.json --val-fraction 0 --batch-size 22 --epochs 1 \
    --precision $precision --output-dir step
check "one step: reported" grep -q '; 1 step is 1.00 epochs; ' err

# ---- YAML without libyaml ----

echo 'batch_size: 3' >one.yaml
echo '{"batch_size": 3}' >one.json
for library in /nonexistent "$PWD/text.txt"; do
    EITP_LIBYAML=$library
    export EITP_LIBYAML
    refuses 1 "^error: one.yaml: .*libyaml, and '$library' cannot be opened; install libyaml .*JSON" train \
        --config one.yaml --output-dir gone
    exits 0 "JSON needs no libyaml" train --config one.json --print-config
done
unset EITP_LIBYAML
refuses 1 "cannot read 'none.yaml'" train --config none.yaml

if ! "$eitp" train --config one.yaml --print-config >out 2>err && grep -q 'cannot be opened' err; then
    echo "SKIPPED configurations in YAML: libyaml cannot be opened"
    finish
fi

# ---- the same in both languages ----

cat >all.json <<'END'
{
  "data": ["text.txt", "small.txt"], "model": {"init": "tiny.json"},
  "training": {"batch_size": 16, "learning_rate": 5e-5, "strict_utf8": true, "shuffle": false, "epochs": 0.5,
               "output_dir": "yes", "precision": "16-mixed", "mixed": null, "seed": 10},
  "optimizer": {"name": "sgd", "betas": [0.5, 0.75]}, "lora": {"targets": ["c_attn", "c_proj"]},
  "run": {"anything": [1, 2], "lr": "x"}
}
END
cat >all.yaml <<'END'
%YAML 1.1
---
# comments, and both forms of lists and mappings
data:
  - text.txt
  - 'small.txt'
model: {init: "tiny.json"}
training:
  batch_size: 0x10
  learning_rate: 5e-5   # a number in YAML 1.2
  strict_utf8: Yes
  shuffle: off
  epochs: .5
  output_dir: yes
  precision: 16-mixed
  mixed: ~
  seed: 0o12
optimizer:
  name: SGD
  betas: [0.5, 0.75]
lora:
  targets:
  - c_attn
  - c_proj
run:
  anything: [1, 2]
  lr: x
...
END
settings_of all.json >from_json
check "all.json is read" test "$(lines from_json)" -eq 14
sets all.yaml <from_json
cp all.yaml all.yml
sets all.yml <from_json
printf '\357\273\277batch_size: 3\r\n' >one.yaml
sets one.yaml <<'END'
batch-size 3
END
for word in true True TRUE yes Yes YES on On ON; do
    echo "{gradient_checkpointing: $word, strict_utf8: $word}" >word.yaml
    sets word.yaml <<'END'
strict-utf8 true
recompute "layer"
END
done
for word in false False FALSE no No NO off Off OFF; do
    echo "{gradient_checkpointing: $word, strict_utf8: $word, fp16: {enabled: $word}}" >word.yaml
    sets word.yaml <<'END'
strict-utf8 false
precision "fp32"
recompute "none"
END
done
for word in '~' null Null NULL ''; do
    echo "batch_size: $word" >word.yaml
    sets word.yaml </dev/null
done
for word in '"null"' '!!str null' "'null'" '! null'; do
    echo "output_dir: $word" >word.yaml
    sets word.yaml <<'END'
output-dir "null"
END
done
cat >word.yaml <<'END'
model: "a b\u00e9\x21"
output_dir: >-
  folded
  text
memory_budget: 1.5GB
eval_strategy: no
END
sets word.yaml <<'END'
model "a bé!"
output-dir "folded text"
eval "no"
memory-budget 1500000000
END

# ---- the guides ----

# Trainer arguments for a GPU with a few gigabytes.
cat >guide0.yaml <<'END'
training_args:
  output_dir: ./eitp_results
  per_device_train_batch_size: 1
  gradient_accumulation_steps: 4
  fp16: true
  block_size: 64
  max_grad_norm: 0.5
  save_strategy: steps
  save_steps: 500
  save_total_limit: 2
  eval_strategy: "no"
  dataloader_num_workers: 0
  report_to: none
model:
  name: models/gpt2
  low_cpu_mem_usage: true
  torch_dtype: float16
END
sets guide0.yaml <<'END'
data-workers 0
model "models/gpt2"
output-dir "./eitp_results"
batch-size 1
block-size 64
grad-accum 4
max-grad-norm 0.5
eval "no"
save-strategy "steps"
save-steps 500
save-total-limit 2
report-to "none"
precision "fp16"
END

# Script arguments for machines with little memory.
train_straight
cat >guide1.yaml <<'END'
model_name: bert-base-chinese
resume_from_checkpoint: straight/checkpoint-12
num_epochs: 1
batch_size: 1
max_length: 128
gradient_accumulation_steps: 16
use_amp: true
gradient_checkpointing: true
num_workers: 0
END
sets guide1.yaml <<'END'
data-workers 0
model "bert-base-chinese"
resume "straight/checkpoint-12"
epochs 1
batch-size 1
block-size 128
grad-accum 16
precision "fp16"
recompute "layer"
END

# Sections for training and monitoring, and a DeepSpeed file in the same directory.
cat >guide2.yaml <<'END'
training:
  gradient_checkpointing: true
  memory_efficient_attention: true
  amp: true
  dataloader_pin_memory: true
  dataloader_num_workers: 8
  dataloader_prefetch_factor: 2
  batch_size: 2
  save_steps: 100
monitor:
  all_freq:
    training_log_freq: 10
    eval_log_freq: 50
    perf_log_freq: 10      # a comment
    gpu_log_freq: 20
  flops_profile_freq: 50
END
sets guide2.yaml <<'END'
data-workers 8
prefetch 2
batch-size 2
perf-every 10
gpu-report-every 20
profile-every 50
save-steps 100
log-every 10
precision "fp16"
recompute "layer"
pin-memory true
END
cat >guide2.json <<'END'
{"bf16": {"enabled": true}, "fp16": {"enabled": false, "loss_scale": 0, "initial_scale_power": 16},
 "zero_optimization": {"stage": 2, "overlap_comm": true, "offload_optimizer": {"device": "cpu"}},
 "gradient_accumulation_steps": 4, "gradient_clipping": 1.0, "train_micro_batch_size_per_gpu": 2,
 "steps_per_print": 20, "wall_clock_breakdown": false}
END
sets guide2.json <<'END'
batch-size 2
grad-accum 4
max-grad-norm 1
log-every 20
precision "bf16"
END

# The same file as a DeepSpeed configuration, next to another one.
deepspeed() { # arguments
    "$eitp" train "$@" --print-config >out 2>err </dev/null
}
cat >ds.json <<'END'
{"train_batch_size": 64, "train_micro_batch_size_per_gpu": "auto", "gradient_accumulation_steps": 4,
 "gradient_clipping": 1.0,
 "bf16": {"enabled": "auto"}, "fp16": {"enabled": true, "loss_scale": 0},
 "optimizer": {"type": "Adam", "params": {"lr": 1e-4, "betas": [0.9, 0.95], "eps": 1e-7, "weight_decay": "auto"}},
 "scheduler": {"type": "WarmupDecayLR", "params": {"warmup_num_steps": 100, "total_num_steps": "auto"}},
 "zero_optimization": {"stage": 2, "overlap_comm": true, "offload_optimizer": {"device": "cpu"}},
 "aio": {"block_size": 1048576}}
END
deepspeed --deepspeed_config ds.json
awk '/ \(ds.json:[0-9]+\)$/ { print $1, $2, $3 }' out >got
cat >wanted <<'END'
batch-size 16 (ds.json:1)
grad-accum 4 (ds.json:1)
lr 0.0001 (ds.json:4)
lr-schedule "linear" (ds.json:5)
warmup-steps 100 (ds.json:5)
beta1 0.9 (ds.json:4)
beta2 0.95 (ds.json:4)
epsilon 1e-07 (ds.json:4)
max-grad-norm 1 (ds.json:2)
precision "fp16" (ds.json:3)
optimizer "adamw" (ds.json:4)
END
check "--deepspeed_config: the settings read; $(diff wanted got)" same wanted got
check "--deepspeed_config: train_batch_size needs no warning" test -z "$(grep train_batch_size err)"
check "--deepspeed_config: zero_optimization, once" \
    test "$(grep -c '^warning: zero_optimization has no effect: .*one process' err)" -eq 1
check "--deepspeed_config: others" grep -q '^warning: aio.block_size has no effect: ' err
# train_batch_size = micro-batch x gradient accumulation: any two give the third.
step_sequences() { # members, batch-size and grad-accum that they give, arguments
    members=$1 wanted="$2 $3"
    shift 3
    printf '{"gradient_clipping": 1.0%s}\n' "$members" >step.json
    deepspeed --deepspeed step.json "$@"
    check "DeepSpeed: ${members:-no batch} $* gives $wanted" \
        test "$(awk '$1 == "batch-size" { b = $2 } $1 == "grad-accum" { print b, $2 }' out)" = "$wanted"
}
step_sequences '' 1 4
step_sequences ', "train_batch_size": 32, "train_micro_batch_size_per_gpu": 4' 4 8
step_sequences ', "train_batch_size": 32, "gradient_accumulation_steps": 4' 8 4
step_sequences ', "train_micro_batch_size_per_gpu": 4, "gradient_accumulation_steps": 8' 4 8
step_sequences ', "train_batch_size": 32' 1 32
step_sequences ', "train_micro_batch_size_per_gpu": 4' 4 1
step_sequences ', "gradient_accumulation_steps": 8' 1 8
step_sequences ', "train_batch_size": 32, "train_micro_batch_size_per_gpu": 4, "gradient_accumulation_steps": 8' 4 8
step_sequences ', "train_batch_size": 32, "train_micro_batch_size_per_gpu": "auto"' 8 4 --batch-size 8
echo '{"train_batch_size": 32, "train_micro_batch_size_per_gpu": 4, "gradient_accumulation_steps": 4}' >step.json
refuses 1 '^error: step.json:1: train_batch_size 32 is not batch-size 4 x grad-accum 4 = 16; change or remove one$' train \
    --deepspeed step.json --print-config
echo '{"train_batch_size": 32, "train_micro_batch_size_per_gpu": 5}' >step.json
refuses 1 '^error: step.json:1: train_batch_size 32 is not a multiple of batch-size 5; change or remove one$' train \
    --deepspeed step.json --print-config
refuses 1 '^error: step.json:1: train_batch_size 32 is not batch-size 3 x grad-accum 3 = 9;' train \
    --deepspeed step.json --batch-size 3 --grad-accum 3 --print-config
echo '{"train_batch_size": 1.5}' >step.json
refuses 1 "^error: step.json:1: train_batch_size must be a whole number of sequences (got '1.5')$" train \
    --deepspeed step.json --print-config

echo '{"gradient_accumulation_steps": 4, "gradient_clipping": 0.5}' >beside.json
refuses 1 "^error: ds.json:2: max-grad-norm 1.0 conflicts with max-grad-norm 0.5 at beside.json:1; remove one" train \
    --deepspeed ds.json --config beside.json
echo '{"bf16": true}' >beside.json
refuses 1 "ds.json:3: precision fp16 conflicts with precision bf16 at beside.json:1" train --deepspeed ds.json \
    --config beside.json
deepspeed --deepspeed ds.json --bf16
check "the command line overrides a DeepSpeed configuration" grep -q '^precision  *"bf16"  (command line)' out

# Monitoring and checkpoint settings.
cat >guide3.yaml <<'END'
monitor:
  lightweight_mode: true
  minimal_mode: false
  log_interval: 50
  tensorboard_flush_secs: 120
checkpoint:
  save_every: 100
  max_checkpoints: 3
  auto_resume: true
END
sets guide3.yaml <<'END'
resume "auto"
save-steps 100
save-total-limit 3
log-every 50
log-flush-seconds 120
monitor "light"
END

# Arguments of PyTorch Lightning's Trainer.
cat >guide4.yaml <<'END'
data:
  batch_size: 4
  num_workers: 8
  pin_memory: true
  persistent_workers: true
  max_sequence_length: 1000
  use_dynamic_padding: true
  drop_last: false
trainer:
  precision: 16-mixed
  accumulate_grad_batches: 2
  compile_model: false
  val_check_interval: 0.1
  limit_val_batches: 0.1
  detect_anomaly: false
  enable_model_summary: false
  sync_batchnorm: false
monitor:
  update_frequency: 100
  plot_frequency: 1000
  window_size: 50
  verbose: false
  fast_detection: true
  disable_metrics_monitoring: false
END
sets guide4.yaml <<'END'
drop-last false
data-workers 8
batch-size 4
block-size 1000
grad-accum 2
metrics-window 50
eval-every-frac 0.1
eval-frac 0.1
precision "fp16"
pin-memory true
log-full-every 100
metrics-every 1000
metrics "fast"
END

# ---- refused YAML ----

refuses_yaml() { # line, words, text of the file
    printf '%b' "$3" >bad.yaml
    refuses 1 "^error: bad.yaml:$1: .*$2" train --config bad.yaml --data text.txt --init tiny.json --output-dir gone
}
refuses_yaml 1 "expected a YAML mapping" ''
refuses_yaml 1 "expected a YAML mapping" '- lr\n'
refuses_yaml 2 "second document" 'lr: 1\n--- \nlr: 2\n'
refuses_yaml 2 "'lr' is given twice, first in line 1" 'lr: 1\nlr: 2\n'
refuses_yaml 3 "'training' is given twice, first in line 1" 'training:\n  lr: 1\ntraining:\n  seed: 1\n'
refuses_yaml 2 "'training.learning_rate' and 'lr' (line 1) both set --lr" 'lr: 1\ntraining: {learning_rate: 2}\n'
refuses_yaml 2 "indented with a tab; use spaces" 'training:\n\tlr: 1\n'
refuses_yaml 5 "quoted scalar that starts in line 2" 'seed: 1\noutput_dir: "x\nlr: 1\n\n'
refuses_yaml 2 "UTF-8" 'seed: 1\noutput_dir: \0303\n'
refuses_yaml 1 "UTF-8" '\0377\0376l\0000r\0000'
refuses_yaml 2 "control characters" 'seed: 1\noutput_dir: \0001\n'
refuses_yaml 2 "zero byte" 'seed: 1\noutput_dir: "\\0"\n'
refuses_yaml 2 "aliases are not supported; write the value in place of \*x" 'seed: &x 1\nlr: *x\n'
refuses_yaml 2 "betas is an empty list" 'seed: 1\nbetas: []\n'
refuses_yaml 2 "data is an empty list" 'data:\n  [\n  ]\n'
refuses_yaml 1 "aliases are not supported" 'data: [&x a, *x]\n'
refuses_yaml 3 "merge keys (<<) are not supported" 'seed: 1\ntraining:\n  <<: {lr: 1}\n'
refuses_yaml 1 "the tag '!secret' is not supported" 'lr: !secret 1\n'
refuses_yaml 1 "the tag '!x' is not supported" 'data: !x [a]\n'
refuses_yaml 1 "a name must be text" '? [a, b]\n: 1\n'
refuses_yaml 1 "a list can hold only plain values" 'data: [[a]]\n'
refuses_yaml 2 "only plain values" 'data:\n- path: a\n'
refuses_yaml 2 "not valid YAML" 'data: [a\nlr: 1\n'
refuses_yaml 2 "unknown option 'batchsize'; did you mean 'batch-size'" 'training:\n  batchsize: 1\n'
refuses_yaml 1 "batch-size must be a whole number (got 'two')" 'batch_size: two\n'
refuses_yaml 1 "batch_size takes one value, not a list" 'batch_size: [1]\n'
refuses_yaml 1 "gradient_checkpointing must be true or false (got 'yes')" 'gradient_checkpointing: "yes"\n'
refuses_yaml 1 "lr must be a number (got '.inf')" 'lr: .inf\n'
awk 'BEGIN { for (i = 0; i < 10000; i++) printf "{a: " }' >bad.yaml
refuses 1 "^error: bad.yaml:1: .*nested too deep" train --config bad.yaml
awk 'BEGIN { for (i = 0; i < 100; i++) { printf "%sa:\n", indent; indent = indent " " } }' >bad.yaml
refuses 1 "^error: bad.yaml:17: .*nested too deep" train --config bad.yaml
awk 'BEGIN { printf "data: "; for (i = 0; i < 10000; i++) printf "[" }' >bad.yaml
refuses 1 "^error: bad.yaml:1: .*only plain values" train --config bad.yaml
awk 'BEGIN { for (i = 0; i < 5000; i++) printf "name%d:\n", i }' >bad.yaml
refuses 1 "^error: bad.yaml:4097: .*more than 4096 names" train --config bad.yaml
dd if=/dev/zero of=bad.yaml bs=1 count=1 seek=104857599 2>/dev/null
refuses 1 "'bad.yaml' is larger than 1048576 bytes" train --config bad.yaml
rm bad.yaml

# ---- a run ----

cat >run.yaml <<END
data: text.txt
model: {init: tiny.json}
training: {block_size: 16, steps: 2, precision: $precision, output_dir: trained, threads: 1}
END
exits 0 "a run from YAML" train --config run.yaml
check "a run from YAML: its checkpoint" test -e trained/checkpoint-2/model.safetensors

# ---- flags that request nothing ----

cat >off.yaml <<'END'
data: text.txt
init: tiny.json
steps: 2
block_size: 16
eval: "no"
pin_memory: false
tf32: no
persistent_workers: off
use_rslora: false
END
exits 0 "flags that are false, in YAML" train --config off.yaml --precision $precision --output-dir off_yaml
check "flags that are false, in YAML: no warnings" sh -c "! grep '^warning' err"

finish
