#!/bin/sh
# The command: help, configuration files, sizes, and refused commands.
. tests/command/command.sh

train_straight
train_tokenizer

# ---- help and version ----

exits 0 "help" help
check "help lists commands" grep -q 'eitp train' out
check "help has groups" grep -qx 'Use a model:' out
check "help has examples" grep -q '^  eitp train --resume auto ' out
exits 0 "version" --version
check "version has a number" grep -q '^eitp [0-9]*\.[0-9]' out
exits 0 "help of a command" help train
# The defaults of the optimizers, and their names, come from the library.
check "help: learning rates" grep -q \
    '(default: 5e-5 with --model, 3e-4 with --init or --lora-rank; sgd: 0.02 and 0.1)$' out
check "help: weight decay" grep -q '(default: 0.01; sgd: 0)$' out
check "help: optimizers" grep -q -- '^ *--optimizer auto|adamw|adamw8|adamw8-sr|factored|sgd *$' out
check "help: --log-every does not change the records" sh -c 'tr "\n" " " <out | tr -s " " | grep -q -e "--log-every .*TensorBoard and CSV, and between two log lines [^-]*; metrics.jsonl has every step"'
tr '\n' ' ' <out | tr -s ' ' >words
refuses 1 "no model shape named 'gpt5'" plan --init gpt5
for shape in $(sed 's/.*(choose from \(.*\))/\1/' err | tr -d ','); do
    check "help: --init has $shape" grep -q -e "--init NAME [^:]*[ ,]$shape," words
done
for profile in auto low-memory safe full tiny quick max low-ram debug; do
    exits 0 "--profile $profile" train --profile $profile --print-config
    grep -q '^auto-shrink  *true' out && shrinks=0 || shrinks=1
    grep -q -e "--auto-shrink [^(]*(default: only with --profile [^)]*$profile[ ,)]" words && helps=0 || helps=1
    check "help: --auto-shrink and the profile $profile" test $shrinks -eq $helps
done
exits 0 "help of a command" help train
check "help has defaults" grep -q 'default: 500' out
check "help of a command: the default of another is left out" sh -c '! grep -q -e "--model .*default: gpt2" out'
check "help has no empty defaults" sh -c '! grep -q "default: )" out'
# Behaviour of an option in other commands is not described.
for command in train eval generate chat predict embed pack merge export set plan check-system safe-train monitor report doctor logs \
    "bench kernels" "bench step" "bench monitor" "tokenizer train" "tokenizer inspect" "tokenizer encode" "tokenizer decode"; do
    exits 0 "help of $command" help $command
    check "help of $command: of this command alone" sh -c "! grep -E '(^ *--[^ ]+( [^ ]+)?  +|[;(] ?|, )(train|eval|generate|chat|predict|embed|pack|merge|plan|safe-train|report|bench|tokenizer train): ' out"
done
exits 0 "help of report" help report
check "help of report: --output" grep -q -e '--output PATH *-o: the page, .*(default: report.html in' out
exits 0 "help of plan" help plan
check "help of plan: its default model" grep -q -e '--model .*default: gpt2' out
exits 0 "--help" tokenizer encode --help
check "help of an action" grep -q -e '--tokenizer' out

# ---- results that cannot be written ----

# unwritten NAME ARGUMENTS...: runs with output to a full disk, and with standard output closed.
unwritten() {
    result=$1
    shift
    if [ -c /dev/full ]; then
        "$eitp" "$@" >/dev/full 2>err </dev/null
        check "$result to a full disk: code 5" test $? -eq 5
        check "$result to a full disk: reported" test "$(grep -c '^error: cannot write to standard output: No space' err)" -eq 1
    fi
    "$eitp" "$@" >&- 2>err </dev/null
    check "$result, standard output closed: code 5" test $? -eq 5
    check "$result, standard output closed: reported" test "$(grep -c '^error: cannot write to standard output: ' err)" -eq 1
}
[ -c /dev/full ] || echo "SKIPPED results to a full disk: there is no /dev/full"
unwritten "--version" --version
unwritten "help" help train
unwritten "--print-config" plan --print-config
unwritten "generate" generate --model straight --prompt 'Line 1' --tokens 20 --threads 1
unwritten "generate --json" generate --model straight --prompt 'Line 1' --tokens 20 --threads 1 --json
unwritten "eval" eval --model straight --data small.txt --threads 1
unwritten "embed" embed --model straight --data small.txt --threads 1
unwritten "tokenizer encode" tokenizer encode --tokenizer tok --text 'Line 1'
unwritten "tokenizer encode of a file" tokenizer encode --tokenizer tok --data text.txt
unwritten "tokenizer encode --special-tokens" tokenizer encode --tokenizer tok --text 'Line 1' --special-tokens
unwritten "tokenizer decode" tokenizer decode --tokenizer tok 1 2 3
unwritten "tokenizer inspect" tokenizer inspect --tokenizer tok
unwritten "pack" pack --data text.txt --output written.tok
unwritten "set" set straight/checkpoint-12 lr=1e-4
unwritten "check-system" check-system --init tiny.json
"$eitp" $train --steps 2 --output-dir quiet <&- >&- 2>&-
check "without standard streams: code 5" test $? -eq 5
check "without standard streams no message gets into a file" sh -c '! grep -qv "^{\"step\"" quiet/metrics.jsonl'

# ---- configuration ----

cat >config.json <<'END'
{"training": {"batch_size": 2, "gradient_accumulation_steps": 3, "num_epochs": 2, "use_amp": false,
              "empty_cache_every": 100},
 "data": ["text.txt"], "model": {"init": "tiny.json"}, "run": {"anything": [1, 2]}}
END
exits 0 "--config" train --config config.json --batch-size 5 --print-config
check "the command line beats the file" grep -q '^batch-size  *5  (command line)' out
check "the file beats the default" grep -q '^grad-accum  *3  (config.json:1)' out
check "defaults that follow from the data" grep -q "^block-size  *-  (not set)" out
check "lists" grep -q '^data  *\["text.txt"\]  (config.json:3)' out
exits 0 "--print-config --json" train --config config.json --print-config --json
check "json" grep -q '"epochs": {"value": 2, "source": "config", "place": "config.json:1"}' out
exits 0 "a run.json is a configuration" train --config straight/run.json --print-config
check "run.json: steps" grep -q '^steps  *12  (straight/run.json:[0-9]*)' out
exits 0 "aliases" train --per_device_train_batch_size 2 --max_length=32 --gradient_accumulation_steps 8 \
    --learning_rate 1e-4 \
    --num_epochs 3 --max_grad_norm 1 --save_total_limit 3 --precision 32 --no-strict-utf8 --print-config
check "aliases: block size" grep -q '^block-size  *32  (command line)' out

exits 0 "choices in other spellings" train --lr_scheduler_type=constant-with-warmup --shuffle false --print-config
check "another spelling of a choice" grep -q '^lr-schedule  *"constant"  (command line)' out
exits 0 "defaults of settings" train --print-config --json
check "defaults of settings: the library's, or the command's" grep -q '"lr-schedule": {"value": "linear", .*"epsilon": {"value": 1e-08, ' out
check "settings that are not options" sh -c '! grep -q "schedule-steps\|last-sample\|merged" out'

# ---- sizes ----

budget_is() { # bytes, options...
    bytes=$1
    shift
    exits 0 "--memory-budget: $*" "$@" --print-config --json
    check "--memory-budget: $* is $bytes" grep -q "\"memory-budget\": {\"value\": $bytes, \"source\"" out
}
for size in 0=0 1=1 1000000=1000000 1000000B=1000000 900M=900000000 900MB=900000000 1.5G=1500000000 0.29G=290000000 \
    1k=1000 1K=1000 2kB=2000 3T=3000000000000 512Mi=536870912 512MiB=536870912 2GiB=2147483648 1.5Gi=1610612736 \
    1KiB=1024 1.0009Ki=1025 1Ti=1099511627776 9007199254740992=9007199254740992; do
    budget_is "${size#*=}" train --memory-budget "${size%=*}"
done
budget_is 2048 train --max_memory=2Ki
budget_is 3000000 plan --memory-budget 3M
budget_is null train
echo '{"memory_budget": "1.5G"}' >size.json
budget_is 1500000000 train --config size.json
echo '{"memory_budget": 1000000}' >size.json
budget_is 1000000 train --config size.json
echo '{"memory_budget": "much"}' >size.json
refuses 1 "size.json:1: memory-budget: 'much' is not a number of bytes; .*" train --config size.json
for size in '' ' ' B M iB 1i 1m 1g 1b 1MBB 1MiM 1kB1 1KIB 1E 1P 1e9 1.5 1.5B 1. 1.M .5G 1.5.5G 1,5G 0x10 -1G +1G ' 1G' \
    '1 G' '1G ' 0.0001k 0.0000000000000000001T inf nan auto 90%; do
    refuses 1 "--memory-budget: '$size' is not .* unit such as 900M, 1.5G or 512Mi\|--memory-budget must not be empty" train --memory-budget "$size" \
        --data text.txt --init tiny.json --output-dir gone
done
for size in -1 9007199254740993000 99999T 18446744073709551616 1"$(printf '%0400d' 0)"; do
    refuses 1 "--memory-budget must be at least 0 and at most 9007199254740992 (got " train --memory-budget "$size" --data text.txt --init tiny.json \
        --output-dir gone
done
refuses 1 "needs a value" train --memory-budget
refuses 1 "'eitp eval' has no option --memory-budget" eval --memory-budget 1G
exits 0 "--memory-budget in the help" train --help
check "--memory-budget in the help: its argument" grep -q '^  --memory-budget SIZE  *memory limit .* 900M or 1.5Gi' out

# ---- refused configurations ----

for content in '' '{' '{"batch_size": }' '{"batch_size": 1} x' '[1]' '{"batch_size": "two"}' '{"batch_size": [1, 2]}' \
    '{"batch_size": 1, "a": {"batch-size": 2}}' '{"batchsize": 1}' '{"batch_size": 01}' '{"a": "\ud800"}' '{"a": "' \
        '{"lr": nan}' \
    '{"training": {"lr": {"lr": [[1]]}}}' '{"precision": "fp8"}' '{"use_amp": 1}'; do
    printf '%s' "$content" >bad.json
    refuses 1 "bad.json" train --config bad.json --data text.txt --init tiny.json --output-dir gone
done

# ---- invalid commands ----

refuses 1 "unknown command 'trian'; did you mean 'train'?" trian
refuses 1 "unknown command 'evaluate'; 'eitp help' lists the commands" evaluate
refuses 1 "unknown command 'tran'; did you mean 'train'?" help tran
refuses 1 "missing command" ""
refuses 1 "did you mean 'batch-size'" train --batchsize 2
refuses 1 "unknown option 'stpes'; did you mean 'steps'" train --stpes 2
refuses 1 "^error: --use-dora is not supported: adapters are LoRA, or rsLoRA with --lora-rslora$" train --use-dora
exits 0 "a word of other programs that is off" train --use-dora false --init tiny --print-config
for word in use-qlora load-in-4bit neftune-noise-alpha use-ema num-beams ref-model lora-plus lora-bias fsdp-config push-to-hub data-seed \
    rpo-alpha eval-delay label-names use-cpu logging-first-step auto-find-batch-size lr-scheduler-kwargs dataset-name; do
    "$eitp" train --$word --init tiny --print-config >out 2>err
    check "--$word is refused and no other word is suggested" sh -c '! grep -q "did you mean" err && grep -q "^error: .*'$word'" err'
done
refuses 1 "unknown option 'batch'" train --batch 2
refuses 1 "needs a value" train --batch-size
refuses 1 "--auto-resume must be true or false (got 'perhaps')" train --auto-resume=perhaps
refuses 1 "--batch-size must be at least 1 and at most 1048576 (got 0)" train --batch-size 0
refuses 1 "--beta1 must be at least 0 and below 1 (got 1)" train --beta1 1
refuses 1 "--epsilon must be above 0 and at most 1 (got 0)" train --epsilon 0
refuses 1 "--seed must be at least 0 (got -1)" train --seed -1
refuses 1 "--steps must be a whole number (got '1.5')" train --steps 1.5

# ---- values that mean an option is not set ----

echo '{"block_size": 8, "steps": 3, "lora_alpha": 4}' >given.json
exits 0 "values that mean an option is not set" train --config given.json --init tiny --layers 0 --vocab-size 0 --block-size -1 --dropout -1 \
    --lora-alpha 0 --eval-frac 0 --steps 0 --data text.txt --print-config
for option in layers dropout; do
    check "values that mean an option is not set: the shape's $option" grep -q "^$option  *[0-9.]*  (default)$" out
done
for option in block-size lora-alpha eval-frac vocab-size; do
    check "values that mean an option is not set: $option" grep -q "^$option  *-  (not set)$" out
done
check "values that mean an option is not set: --steps 0 uses epochs" grep -q '^epochs  *1  (default)$' out
refuses 1 "--lr must be a number (got 'nan')" train --lr nan
refuses 1 "--lr must be a number (got '0x10')" train --lr 0x10
refuses 1 "--lr-schedule: invalid value 'fast' (choose from constant, linear, cosine, cosine_with_restarts, plateau)" \
    train --lr-schedule fast
refuses 1 "--precision: invalid value 'fp8' (choose from auto, fp32, bf16, fp16)" train --precision fp8
refuses 1 "--micro-batches-per-pass must be 0 to --grad-accum, which is 2 (got 3)" train --data text.txt --init tiny.json --output-dir gone --grad-accum 2 --micro-batches-per-pass 3
refuses 1 "'eitp eval' has no option --lr" eval --lr 1
refuses 1 "unexpected argument 'text.txt'; values follow options, as in --data text.txt" train text.txt
mkdir -p model_directory
refuses 1 "unexpected argument 'model_directory'; values follow options, as in --model model_directory" eval model_directory
refuses 1 "values follow options, as in --data model_directory" predict --model model_directory model_directory
refuses 1 "values follow options, as in --model gpt2" generate gpt2
exits 0 "the overview" help
check "the overview fits 80 columns" sh -c '! awk "length > 80" out | grep -q .'
refuses 1 "two dashes" train -x
refuses 1 "--model or --init is required" train --data text.txt --output-dir gone
refuses 1 "cannot be used together" train --data text.txt --init tiny --model straight --output-dir gone
refuses 1 "--vocab-size requires --init" train --data text.txt --model straight --vocab-size 300 --output-dir gone
refuses 1 "--data is required" train --init tiny.json --output-dir gone
refuses 1 "cuda" $train --device cuda --output-dir gone
refuses 1 "cuda" eval --model straight --data text.txt --device cuda
refuses 1 "unknown action" tokenizer make
refuses 1 "--data is required, or --split" eval --model straight
refuses 1 "--model is required" generate --prompt x
refuses 1 "--output is required" pack --data text.txt
refuses 1 "no tokenizer" tokenizer inspect --tokenizer straight/data
refuses 1 "already has merges.txt; choose another directory (--output)" tokenizer train --data text.txt --output tok
refuses 1 "invalid token id" tokenizer decode --tokenizer tok 12x
refuses 1 "360" tokenizer decode --tokenizer tok 360

# ---- sources of a value ----

# ordered OPTION: standard input lists the ways to set it, from the strongest, each as "environment variable; arguments;
# resulting value". For any two, the stronger one counts.
ordered() {
    cat >ways
    field() { sed -n "$1p" ways | cut -d';' -f"$2"; }
    for strong in $(seq 1 $(($(lines ways) - 1))); do
        for weak in $(seq $((strong + 1)) "$(lines ways)"); do
            env $(field $strong 1) $(field $weak 1) "$eitp" train --print-config $(field $strong 2) $(field $weak 2) \
                >out 2>err </dev/null
            check "--$1 by '$(field $strong 1)$(field $strong 2)' and '$(field $weak 1)$(field $weak 2)': $(grep "^$1 " out)" \
                test "$(sed -n "s/^$1  *//p" out)" = "$(field $strong 3)"
        done
    done
}

exits 0 "a run with records elsewhere" $train --steps 1 --eval no --log-dir run --output-dir earlier
echo '{"log_dir": "config", "precision": "bf16"}' >sources.json
ordered log-dir <<'END'
;--log-dir command;"command"  (command line)
EITP_LOG_DIR=environment;;"environment"  (EITP_LOG_DIR)
;--config sources.json;"config"  (sources.json:1)
;--resume earlier;"run"  (run.json)
;;-  (not set)
END
ordered precision <<END
;--precision fp16;"fp16"  (command line)
;--config sources.json;"bf16"  (sources.json:1)
;--resume earlier;"$precision"  (checkpoint)
;--profile low-ram;"bf16"  (profile low-ram)
;;"auto"  (default)
END
EITP_LOG_DIR=environment "$eitp" train --profile low-ram --print-config --json >out 2>err
check "--print-config --json: the environment" grep -q \
    '"log-dir": {"value": "environment", "source": "environment", "place": "EITP_LOG_DIR"}' out
check "--print-config --json: a profile" grep -q \
    '"precision": {"value": "bf16", "source": "profile", "place": "profile low-ram"}' out
exits 0 "a suggestion of the command line" train --load-best-model-at-end --print-config
check "it uses the syntax of the command line" grep -q '^keep-best  *"loss"  (command line)' out
refuses 1 "requires evaluations; set --eval to steps or epoch (got no, from profile tiny)" \
    $train --lr-schedule plateau --profile tiny --output-dir gone

finish
