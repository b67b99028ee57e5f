#!/bin/sh
# The command: options used in guides for other programs do what they mean, or name the alternative in one line.
. tests/command/command.sh

# Checks the resolved value of an option: "value (source)".
shows() { # what --print-config shows, options...
    wanted=$1
    shift
    exits 0 "--print-config: $*" train "$@" --print-config
    check "--print-config: $*: $wanted; not $(grep "^${wanted%% *} " out)" sh -c \
        'sed "s/  */ /" out | grep -qxF -e "$1"' sh "$wanted"
}

# An option without effect prints one line and ends at once.
explains() { # words, options...
    words=$1
    shift
    exits 0 "$*" train "$@" --print-config
    check "$*: one line" test "$(lines err)" -eq 1
    check "$*: $words; $(cat err)" grep -q -e "^warning: .* has no effect: .*$words" err
}

# ---- flags ----

shows 'strict-utf8 true  (command line)' --strict-utf8
shows 'strict-utf8 true  (command line)' --strict-utf8 true
for off in '--strict-utf8 false' --strict-utf8=no --no-strict-utf8 '--strict_utf8 False' '--no-strict-utf8 true' \
    '--strict-utf8 --no-strict-utf8'; do
    # shellcheck disable=SC2086
    shows 'strict-utf8 false  (command line)' $off
done
shows 'strict-utf8 true  (command line)' --no-strict-utf8=false
shows 'precision "bf16"  (command line)' --bf16 true
shows 'precision "fp32"  (command line)' --bf16 false
shows 'precision "fp32"  (command line)' --no-amp
shows 'precision "fp16"  (command line)' --bf16 false --fp16
shows 'precision "fp16"  (command line)' --fp16 --no-bf16
shows 'precision "fp16"  (command line)' --fp16 --precision 16-mixed
shows 'recompute "none"  (command line)' --gradient_checkpointing False
shows 'recompute "layer"  (command line)' --gradient_checkpointing
shows 'shuffle "none"  (command line)' --no-shuffle
echo '{"bf16": true, "strict_utf8": true, "auto_resume": true}' >on.json
shows 'precision "bf16"  (on.json:1)' --config on.json
shows 'precision "fp32"  (command line)' --config on.json --no-bf16
shows 'strict-utf8 false  (command line)' --config on.json --strict-utf8 false
shows 'check-finite "op"  (command line)' --detect_anomaly
shows 'check-finite "op"  (command line)' --detect-anomaly true --check-finite op
shows 'check-finite "step"  (default)' --detect_anomaly False
shows 'check-finite "no"  (command line)' --no-detect-anomaly --check-finite no
echo '{"trainer": {"detect_anomaly": true}}' >anomaly.json
shows 'check-finite "op"  (anomaly.json:1)' --config anomaly.json
shows 'check-finite "step"  (command line)' --config anomaly.json --check-finite step
refuses 1 "--detect_anomaly and --check-finite set check-finite to different values" train --detect_anomaly --check-finite no
for name in report report-to report_to; do
    shows 'report-to "none"  (command line)' --$name none
    shows 'report-to "none"  (command line)' --no-$name
    echo "{\"$name\": \"none\"}" >report.json
    shows 'report-to "none"  (report.json:1)' --config report.json
    exits 0 "--$name wandb" train --$name wandb --print-config
    check "--$name wandb: the records" grep -q '^warning: report-to wandb: .* metrics.jsonl' err
    shows 'report-to "jsonl,tensorboard,csv"  (command line)' --$name all
    shows 'report-to "jsonl,csv"  (command line)' --$name csv,jsonl,csv
    echo "{\"$name\": [\"tensorboard\", \"csv\"]}" >report.json
    shows 'report-to "tensorboard,csv"  (report.json:1)' --config report.json
done
refuses 1 "--report-to: unknown destination 'sqlite' (choose from jsonl, tensorboard, csv, all, none)" \
    train --report-to sqlite --print-config
shows 'log-flush-seconds 30  (command line)' --tensorboard_flush_secs 30
shows 'log-flush-seconds 2.5  (command line)' --log-flush-secs 2.5
shows 'log-flush-seconds 1  (default)'
shows 'log-dir "tb"  (command line)' --logging_dir tb
shows 'guide-tags true  (command line)' --guide-tags
export EITP_LOG_DIR=elsewhere
shows 'log-dir "elsewhere"  (EITP_LOG_DIR)'
shows 'log-dir "tb"  (command line)' --log-dir tb
unset EITP_LOG_DIR
shows 'log-dir -  (not set)'
shows 'resume "no"  (command line)' --config on.json --no-auto-resume
refuses 1 "--strict-utf8 must be true or false (got 'perhaps')" train --strict-utf8=perhaps
refuses 1 "--fp16 must be true or false (got 'bf16')" train --fp16=bf16
refuses 1 "unexpected argument 'perhaps'" train --fp16 perhaps
refuses 1 "--no-eval takes no value" train --no-eval=1
train_tokenizer
exits 0 "a digit after a flag of a command with arguments" tokenizer decode --tokenizer tok --json 1
check "a digit after a flag is an id" test -s out

# ---- conflicts ----

refuses 1 "--bf16 and --fp16 set precision to different values; give one" train --bf16 --fp16
refuses 1 "--amp and --precision set precision to different values" train --amp --precision fp32
refuses 1 "--precision and --use_amp set precision to different values" train --precision bf16 --use_amp
refuses 1 "--no-fp16 conflicts with --fp16, which sets precision to fp16" train --fp16 --no-fp16
refuses 1 "--max-steps and --steps set steps to different values" train --max-steps 3 --steps 4
refuses 1 "--eval no and --eval-steps 5 exclude each other; give one" train --eval no --eval-steps 5
refuses 1 "--eval no and --patience 3 exclude each other" train --no-eval --patience 3
refuses 1 "--eval no and --keep-best loss exclude each other" train --no-eval --keep-best loss
refuses 1 "--eval epoch and --eval-steps 5 exclude each other" train --eval epoch --eval-steps 5
refuses 1 "--eval steps and --eval-every-frac 0.1 exclude each other" train --eval steps --eval-every-frac 0.1
refuses 1 "--eval-windows 5 and --eval-frac 0.1 exclude each other" train --eval-windows 5 --eval-frac 0.1
refuses 1 "--eval-windows 5 and --eval-frac 0.1 exclude each other" eval --eval-windows 5 --eval-frac 0.1
refuses 1 "--save-strategy no and --save-steps 5 exclude each other" train --save-strategy no --save-steps 5
refuses 1 "--save-strategy epoch and --save-steps 5 exclude each other" train --save-strategy epoch --save-steps 5
shows 'steps 4  (command line)' --steps 3 --steps 4
shows 'steps 4  (command line)' --max-steps 4 --steps 4
echo '{"eval": "no", "save_strategy": "no"}' >off.json
shows 'eval "steps"  (default)' --config off.json --eval-steps 5
shows 'eval-steps -  (not set)' --config off.json
shows 'save-strategy "epoch"  (command line)' --config off.json --save-strategy epoch
shows 'eval-steps -  (not set)' --eval epoch
shows 'eval-every-frac 1  (default)' --eval epoch
shows 'eval "epoch"  (default)' --eval-every-frac 0.1

# ---- levels of records ----

metrics() { # Prints the settings in one of their notations.
    "$eitp" train --print-config "$@" 2>err | grep -E '^(monitor|log-full-every|metrics-every) ' | tr -s ' ' | cut -d' ' -f2 | tr '\n' ' '
}
check "--metrics fast" test "$(metrics --metrics fast)" = '"full" 100 1000 '
check "--metrics standard" test "$(metrics --metrics standard)" = '"full" 200 2000 '
check "--metrics off" test "$(metrics --metrics off)" = '"light" 100 1000 '
check "--metrics, with one of its settings" test "$(metrics --metrics fast --log-full-every 7)" = '"full" 7 1000 '
check "--fast_detection" test "$(metrics --fast_detection)" = '"full" 100 1000 '
check "--disable_metrics_monitoring" test "$(metrics --disable_metrics_monitoring)" = '"light" 100 1000 '
shows 'profile-every 50  (command line)' --flops-every 50
shows 'gpu-report-every 20  (command line)' --gpu_log_freq 20
shows 'gpu-mem-max 80  (command line)' --gpu_mem_max 80
for profile in quick low-ram debug; do
    check "--profile $profile" test "$(metrics --profile $profile)" = '"full" 100 1000 '
done
check "--profile max" test "$(metrics --profile max)" = '"light" 100 1000 '
shows 'spot-samples 0  (profile)' --profile max
check "--profile, with another choice" test "$(metrics --profile quick --metrics standard)" = '"full" 200 2000 '
for option in log-full-every=7 metrics-every=7 metrics-window=7; do
    "$eitp" train --print-config --$option >out 2>err
    check "--$option names its requirement" \
        grep -qx "warning: --${option%=7} has no effect with --monitor light: it requires --monitor full" err
    "$eitp" train --print-config --$option --monitor full >out 2>err
    check "--$option --monitor full" test ! -s err
done
"$eitp" train --print-config --perf-every 7 --profile-every 0 --monitor off >out 2>err
check "--perf-every --monitor off" \
    test "$(cat err)" = "warning: --perf-every has no effect with --monitor off: it requires --monitor light"
"$eitp" train --print-config --log-full-every 7 --task vae >out 2>err
check "--log-full-every is for spot evaluations too" test ! -s err
check "no --metrics" test "$(metrics)" = '"light" 100 1000 '
shows 'spot-samples -1  (default)'
shows 'spot-samples 32  (command line)' --spot_samples 32
refuses 1 "--spot-samples must be at least -1 and at most 9007199254740992 (got -2)" train --spot-samples -2 --print-config

# ---- names of other programs ----

explains "a CPU needs no copy" --pin_memory
explains "a CPU needs no copy" --dataloader-pin-memory true
explains "on a CPU" --gpu-memory-budget 4G
explains "on a CPU" --gpu-mem-max 90
explains "a CPU needs no copy" --non-blocking
explains "a CPU needs no copy" --no-pin-memory
explains "on a CPU" --tf32
explains "on a CPU" --allow_tf32 true
explains "data worker threads always live" --persistent_workers
explains "the arena does not fragment" --empty_cache_every 100
explains "one block of memory" --max_split_size_mb 64
explains "plans and fuses" --compile
explains "plans and fuses" --compile_model false
explains "in tiles" --attn_implementation flash_attention_2
explains "in tiles" --memory_efficient_attention
explains "precision and optimizer set how weights are stored" --torch_dtype float16
explains "every evaluation" --eval_log_freq 50
explains "the number of parameters, eitp plan prints the memory" --enable_model_summary
explains "packed without padding" --use_dynamic_padding
refuses 1 "--devices 2 is not supported: eitp trains in one process on one device" train --devices 2
refuses 1 "--num_nodes 4 is not supported" train --num_nodes=4
refuses 1 "--strategy ddp is not supported" train --strategy ddp
shows 'block-size -  (not set)' --devices 1 --local_rank=-1
shows 'epochs 3  (command line)' --max_epochs 3
shows 'warmup-steps 7  (command line)' --warmup_num_steps 7
shows 'precision "fp32"  (command line)' --mixed_precision no
shows 'log-every 20  (command line)' --log-steps 20
shows 'log-every 20  (command line)' --training_log_freq 20
shows 'grad-accum 2  (command line)' --accumulate_grad_batches 2
shows 'eval "epoch"  (command line)' --eval_strategy epoch
shows 'save-strategy "no"  (command line)' --save_strategy no
refuses 1 "--betas is not an option; give --beta1" train --betas 0.9
refuses 1 "--warmup_num_steps needs a value" train --warmup_num_steps
refuses 1 "--eval: invalid value 'often' (choose from no, steps, epoch)" train --eval often
refuses 1 "--save-strategy: invalid value 'best' (choose from no, steps, epoch)" train --save-strategy best

# ---- resolved values ----

shows 'data-workers 0  (default)'
shows 'prefetch 2  (default)'
shows 'log-every 10  (default)'
shows 'eval-steps 500  (default)'
shows 'save-steps 500  (default)'
shows 'grad-accum 4  (default)'
shows 'data-workers 8  (command line)' --dataloader-num-workers 8
shows 'data-workers 3  (command line)' --num_workers 3
shows 'prefetch 4  (command line)' --dataloader_prefetch_factor 4
workers=$(($(usable_processors) / 4))
[ "$workers" -ge 1 ] || workers=1
[ "$workers" -le 16 ] || workers=16
shows "data-workers $workers  (command line)" --data-workers auto
refuses 1 "--data-workers must be a whole number (got 'many')" train --data-workers many
refuses 1 "--steps must be a whole number (got 'auto')" train --steps auto
shows 'block-size -  (not set)'
shows 'block-size -  (not set)' --init gpt2
sed 's/"n_positions": 64/"n_positions": 48/' tiny.json >short.json
shows 'block-size -  (not set)' --init short.json
shows 'lora-alpha 16  (default)' --lora-rank 8
shows 'dropout 0.1  (default)' --init tiny.json
shows 'layers 6  (default)' --init distilgpt2
shows 'heads 12  (default)' --init distilgpt2
shows 'layers 3  (command line)' --init gpt2 --n_layer 3
shows 'init "distilgpt2"  (profile tiny)' --preset tiny
shows 'layers 6  (default)' --preset tiny
shows 'block-size 32  (profile tiny)' --preset tiny
shows 'batch-size 1  (profile tiny)' --preset tiny
shows 'eval "no"  (profile tiny)' --preset tiny
shows 'eval "steps"  (default)' --preset tiny --eval-steps 7
shows 'init "gpt2"  (command line)' --preset tiny --init gpt2
shows 'batch-size 4  (profile safe)' --preset safe
shows 'grad-accum 16  (profile low-memory)' --preset low-memory
exits 0 "plan --print-config" plan --profile safe --print-config
check "plan --print-config: the profile" grep -q '^block-size  *256  (profile safe)' out
check "plan --print-config: the shape" grep -q '^layers  *12  (default)' out

# ---- runs ----

small="train --data small.txt --init tiny.json --block-size 16 --threads 1 --precision $precision --lr 1e-3"

# Prints the steps evaluated in metrics.jsonl.
evaluated() { # directory
    sed -n 's/.*"step": \([0-9]*\),.*"val_loss": .*/\1/p' "$1/metrics.jsonl" | tr '\n' ' '
}

exits 0 "--eval no, --report-to none" $small --steps 3 --eval no --report-to none --json --output-dir quiet
check "memory is in decimal units" grep -q '"peak_rss_bytes": [1-9]' out
check "memory is in decimal units, by name" grep -q '^memory: parameters [0-9.]* kB,' err
check "--eval no: no validation" sh -c '! grep -q "validation after\|val_loss" out err'
check "--report-to none: no metrics.jsonl" test ! -e quiet/metrics.jsonl
check "--report-to none: a checkpoint" test -e quiet/checkpoint-3
exits 0 "--report-to tensorboard" $small --steps 1 --report-to tensorboard --output-dir reported
check "--report-to tensorboard: the files" grep -q 'brain.Event:2' reported/tensorboard/events.out.tfevents.1*
check "--report-to tensorboard: and nothing else" sh -c '! test -e reported/metrics.jsonl && ! grep -q ^warning err'
exits 0 "--report-to all, --log-dir" $small --steps 25 --report-to all --log-dir logs/a --guide-tags --output-dir logged
check "--log-dir: the files" test "$(ls logs/a/logged-* | tr '\n' ' ')" = "metrics.csv metrics.jsonl owner.json summary.jsonl tensorboard "
check "--log-dir: not in the output directory" test ! -e logged/metrics.jsonl -a ! -e logged/tensorboard
check "metrics.csv: every 10 steps" test "$(grep '^step,' logs/a/logged-*/metrics.csv | cut -d, -f2 | tr '\n' ' ')" = "1 10 20 25 "
check "metrics.jsonl: every step" test "$(grep -c '"loss": ' logs/a/logged-*/metrics.jsonl)" -eq 25
check "--guide-tags" grep -q 'Training/GradientNorm' logs/a/logged-*/tensorboard/events.*
exits 0 "--log-every" $small --steps 25 --report-to csv --log-every 5 --output-dir fives
check "--log-every: CSV" test "$(grep -c '^step,' fives/metrics.csv)" -eq 6

# 337 windows at 32 a step: epochs end in steps 11 and 22.
epochs="$small --batch-size 4 --grad-accum 8"
exits 0 "--eval epoch" $epochs --epochs 2 --eval epoch --save-strategy epoch --save-total-limit 0 --output-dir epochs
check "--eval epoch: after each; $(evaluated epochs)" test "$(evaluated epochs)" = "0 11 22 "
check "--save-strategy epoch: after each" test "$(cd epochs && echo checkpoint-*)" = "checkpoint-11 checkpoint-22"
exits 0 "--eval-every-frac" $epochs --epochs 1 --eval-every-frac 0.25 --eval-frac 0.2 --save-strategy no \
    --output-dir quarters
check "--eval-every-frac; $(evaluated quarters)" test "$(evaluated quarters)" = "0 3 6 8 11 "
check "--eval-frac: a fifth of 37 windows" test "$(grep -c '"val_tokens": 128,' quarters/metrics.jsonl)" -eq 5
check "--eval-frac: its standard error" grep -q '"val_loss_error": 0.0*[1-9]' quarters/metrics.jsonl
check "--save-strategy no: the last" test "$(cd quarters && echo checkpoint-*)" = "checkpoint-11"
exits 0 "without --drop-last" $epochs --epochs 1 --json --eval no --val-fraction 0.1 --output-dir whole
check "without --drop-last: all windows" grep -q '"steps": 11,.*"tokens": 5392,' out
exits 0 "--drop-last" $epochs --epochs 1 --drop-last --json --eval no --val-fraction 0.1 --output-dir full
check "--drop-last: whole steps; $(cat out)" grep -q '"steps": 10,.*"tokens": 5120,' out
refuses 1 "--drop-last: the data have 34 samples and a step needs 64" $epochs --grad-accum 16 --epochs 0.1 --drop-last \
    --output-dir gone

# The drawn validation data are the same after a resume, and different with another seed.
exits 0 "--eval-windows" $small --steps 6 --eval-steps 2 --eval-windows 5 --save-steps 2 --save-total-limit 0 \
    --output-dir straight
check "--eval-windows: the number" test "$(grep -c '"val_tokens": 80,' straight/metrics.jsonl)" -eq 4
exits 0 "--eval-windows on resume" train --resume straight/checkpoint-2 --output-dir resumed --threads 1
for step in 4 6; do
    for run in straight resumed; do
        sed -n "s/.*\"step\": $step,.*\(\"val_loss\": [0-9.]*\).*/\1/p" $run/metrics.jsonl >$run.loss
    done
    check "--eval-windows: the same after a resume" same straight.loss resumed.loss
    check "--eval-windows: it is recorded" test -s straight.loss
done
cp -r straight/checkpoint-6 model
for seed in 1 2; do
    exits 0 "--seed $seed" train --data small.txt --model model --block-size 16 --threads 1 --precision "$precision" \
        --steps 1 --eval-windows 3 --seed $seed --output-dir seed$seed
    sed -n 's/.*"step": 0,.*\("val_loss": [0-9.]*\).*/\1/p' seed$seed/metrics.jsonl >seed$seed.loss
done
check "--eval-windows: another seed draws other windows" differ seed1.loss seed2.loss
exits 0 "eval --eval-frac" eval --model model --data small.txt --eval-frac 0.1 --threads 1 --json
check "eval --eval-frac: a tenth of 375 windows" grep -q '"tokens": 608,' out

# Shapes.
exits 0 "--layers" $small --layers 3 --heads 4 --width 32 --positions 20 --steps 1 --eval no --output-dir shaped
check "--layers, --heads, --width, --positions" grep -q '"n_layer": 3' shaped/checkpoint-1/config.json
for member in '"n_head": 4' '"n_embd": 32' '"n_positions": 20'; do
    check "$member" grep -q "$member" shaped/checkpoint-1/config.json
done
exits 0 "--layers on resume" $small --layers 3 --steps 2 --eval no --resume auto --output-dir shaped
refuses 1 "--layers is 2, but 'shaped/checkpoint-2' has 3; it only applies with --init" $small --layers 2 --resume auto \
    --output-dir shaped --steps 3
refuses 1 "width 33 must be a multiple of --heads 2" $small --width 33 --output-dir gone
refuses 1 "--layers is 9, but 'model' has 2" train --model model --layers 9 --data small.txt --output-dir gone
exits 0 "plan --layers" plan --init tiny.json --layers 1 --json
one=$(sed -n 's/.*"chosen": {.*"parameters": \([0-9]*\),.*/\1/p' out)
exits 0 "plan" plan --init tiny.json --json
two=$(sed -n 's/.*"chosen": {.*"parameters": \([0-9]*\),.*/\1/p' out)
check "plan --layers: fewer parameters" test "$one" -lt "$two"

# ---- data ----

printf 'PAR1 and columns' >columns.parquet
refuses 1 "'columns.parquet' is a Parquet file; convert it to text first: python3 -c" train --data columns.parquet \
    --init tiny.json --output-dir gone

# ---- profiles ----

total() {
    sed -n 's/.*"chosen": {[^}]*"total": \([0-9]*\),.*/\1/p' "$1"
}
plan="plan --init large.json --threads 1 --precision $precision --json"
exits 0 "plan --profile low-memory" $plan --profile low-memory
low=$(total out)
least=$(grep -v '"chosen"' out | grep '"offloaded": 0,' | sed 's/.*"total": \([0-9]*\),.*/\1/' | sort -n | head -n 1)
cp out low.json
check "--profile low-memory: no configuration needs less: $low, $least" test "$low" -le "$least"
exits 0 "plan with the same sizes" $plan --batch-size 1 --block-size 128 --grad-accum 16
check "--profile low-memory: less than the fastest" test "$((low + 1000000))" -lt "$(total out)"
exits 2 "plan --profile low-memory in too little" $plan --profile low-memory --memory-budget 10M
check "--profile low-memory: memory needed" grep -q 'does not fit in 10.0 MB; the smallest --memory-budget' out
exits 0 "train --profile low-memory" train --data small.txt --init large.json --profile low-memory --steps 1 --eval no \
    --threads 1 --precision "$precision" --output-dir low
check "train --profile low-memory: memory used" grep -q '^warning: the profile low-memory uses factored (.*) instead of adamw' err
check "train --profile low-memory: its optimizer" grep -q '"optimizer": "factored"' low/run.json

finish
