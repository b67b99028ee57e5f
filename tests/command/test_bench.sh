#!/bin/sh
# The command: measuring. Checks the output, but never the times.
. tests/command/command.sh

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
check "bench kernels: only available ratios" grep -q '^layer norm 256x768  .* %$' out
check "bench kernels: a new line is reported" grep -q "^warning: no 'layer norm 256x768' in 'kernels.json'" err
sed 's/layer norm 64x768/layer norm 1x1/' kernels.json >other.json
exits 0 "bench kernels: compare" bench kernels --filter 'layer norm 64' --seconds 0 --threads 1 --precision fp32 \
    --compare other.json --json
check "bench kernels: a missing line is reported" grep -q "^warning: no 'layer norm 64x768' in 'other.json'" err
exits 0 "bench kernels: compare" bench kernels --filter 'residual sum 64' --seconds 0 --threads 1 --precision fp32 \
    --compare kernels.json
check "bench kernels: --filter applies to both" sh -c '! grep -q "not measured this time" err'
cat >bert.json <<'END'
{"model_type": "bert", "vocab_size": 40, "hidden_size": 16, "num_attention_heads": 2, "num_hidden_layers": 1,
 "intermediate_size": 32, "max_position_embeddings": 32}
END
exits 0 "bench step" bench step --model tiny.json --block-size 16 --grad-accum 2 --steps 2 --threads 1 --json
for word in '"bench": "step"' '"tokens": 32' '"batch_size": 1, "block_size": 16, "grad_accum": 2' '"tokens_per_s": [0-9]' \
    '"of_limit_best": [0-9]' '"name": \["products forward", .*"head", "attention", .*"update", .*"step"\]'; do
    check "bench step has $word" grep -q -e "$word" out
done
check "bench: no ratio without --compare" sh -c '! grep -q times out'
cp out step.json
exits 0 "bench step: a model" bench step --model straight --block-size 16 --steps 1 --threads 1 --compare step.json
check "bench step: tokens a second" grep -q '^64 tokens per step: [0-9.]* tokens/s (best ' out
for task in mlm classify tokens regress; do
    exits 0 "bench step: --task $task" bench step --model bert.json --task $task --block-size 16 --steps 1 --threads 1 --json
    check "bench step: its task" grep -q "\"task\": \"$task\"" out
done
exits 0 "bench step: a head missing from the directory" bench step --model straight --task classify --block-size 16 \
    --steps 1 --threads 1
exits 0 "bench step" bench step --model straight --block-size 16 --steps 1 --threads 1 --compare step.json
check "bench step: the ratio" grep -q '^step  .* % *[0-9.]*[0-9]$' out
check "bench step: the machine" grep -q '^machine: .* processors, memory [0-9]' out
check "bench step: planned memory" grep -q '^peak memory .*, planned .*; 0 tensors recomputed' out

# ---- configurations compared ----

tiny="bench step --model tiny.json --block-size 16 --threads 1 --precision fp32 --steps 2"

# Prints the values of a column of the JSON in "out", one a line.
column() {
    sed 's/.*"'"$1"'": \[\([^]]*\)\].*/\1/' out | tr -d ' "' | tr ',' '\n'
}

falling() { # column
    column "$1" | sort -n -r -u -c && test "$(column "$1" | wc -l)" -gt 1
}

rising() { # column
    column "$1" | sort -n -u -c && test "$(column "$1" | wc -l)" -gt 1
}

exits 0 "sweep of an option given by another name" $tiny --micro-batch-size 2 --sweep batch-size=1
exits 0 "sweep" $tiny --sweep batch-size=1,2,4 --json
for word in '"comparison": "sweep"' '"configuration": \["batch-size 1", "batch-size 2", "batch-size 4"\]' \
    '"machine": {"processor": ".*", "processors": [1-9]' '"tokens": \[64, 128, 256\]' '"high_gain_percent": \[null, '; do
    check "sweep has $word" grep -q -e "$word" out
done
check "sweep: larger batches need more memory" rising planned_bytes
for column in tokens_per_s seconds median_seconds planned_bytes memory_bytes memory_change_percent gain_percent; do
    check "sweep: three values of $column" test "$(column $column | grep -c '^-\{0,1\}[0-9]')" -eq 3
done
exits 0 "sweep: recompute" $tiny --sweep recompute --batch-size 4 --json
check "sweep: recompute has three values" test "$(column configuration | tr '\n' ' ')" = \
    "recomputenone recomputeattention recomputelayer "
check "sweep: recomputing lowers memory" falling planned_bytes
exits 0 "sweep: to the budget" $tiny --sweep batch --memory-budget 22M
check "sweep doubles" grep -q '^batch-size 2  ' out
check "sweep ends at the budget" grep -q '^batch-size [0-9]*: planned memory .* exceeds the budget of 22.0 MB$' err
exits 0 "sweep: to the model's positions" $tiny --sweep block-size
check "sweep ends at the positions" sh -c 'grep -q "^block-size 64 " out && ! grep -q "^block-size 128 " out'
exits 0 "sweep: values the model does not support" $tiny --sweep block-size=32,65
check "sweep skips it" grep -q '^warning: block-size 65 is skipped: .*positions' err
refuses 1 "--batch-size must be a whole number (got 'x')" $tiny --sweep batch-size=1,x
refuses 1 "cannot vary 'epochs'" $tiny --sweep epochs=1,2
refuses 1 "cannot vary 'b'" $tiny --sweep b=1
refuses 1 "requires values" $tiny --sweep batch-size=
refuses 1 "exclude each other" $tiny --sweep batch-size --matrix
refuses 1 "unexpected argument 'b.json'" $tiny b.json
exits 0 "matrix" $tiny --matrix --recompute attn
for row in 'precision bf16' 'precision fp16' 'recompute layer' 'batch-size 2' 'block-size 32' \
    'grad-accum 1' 'optimizer adamw8' 'optimizer factored' 'optimizer sgd' 'data-workers 1'; do
    check "matrix: $row" grep -q "^$row  .* [+-][0-9.]* %  *[+-][0-9.]* %  [+-][0-9.]* to [+-][0-9.]* %\$" out
done
check "matrix: the baseline of each ratio" test "$(grep -c '^[a-z0-9-]* [a-z0-9-]*  *[0-9][0-9]*\(  *[0-9][0-9.]*\)\{4\} [kMG]*B .* to ' out)" -ge 10
exits 0 "matrix with workers" $tiny --matrix --data-workers 2 --prefetch 1 --json
check "matrix: without workers" grep -q '"data-workers 0"' out
check "matrix: the baselines" test "$(column baseline_tokens_per_s | grep -c '^[1-9]')" -eq "$(($(column tokens | wc -l) - 1))"
check "matrix: the baseline has no separate row" sh -c '! grep -q "^precision fp32\|^optimizer adamw  \|^threads 1 \|^recompute attention " out'
echo '{"batch_size": 1, "steps": 2}' >a.json
echo '{"train": {"batch_size": 2, "recompute": "layer"}}' >b.json
echo '{"batch_size": 4}' >c.json
exits 0 "files in turn" $tiny --compare a.json b.json c.json --grad-accum 2 --json
for word in '"comparison": "configurations"' '"configuration": \["a.json", "b.json", "c.json"\]' \
    '"tokens": \[32, 64, 128\]' '"gain_percent": \[0, ' '"low_gain_percent": \[null, -\{0,1\}[0-9]'; do
    check "files in turn: $word" grep -q -e "$word" out
done
exits 0 "files in turn, with an option for each" $tiny --compare a.json --grad-accum 2 --compare=b.json c.json --json
check "files in turn, an option for each: in their order" grep -q '"configuration": \["a.json", "b.json", "c.json"\]' out
refuses 1 "nofile.json" $tiny --compare a.json nofile.json
refuses 1 "--compare takes one file here" bench kernels --compare step.json --compare kernels.json
refuses 2 "^error: planned memory .* exceeds the budget of 10.0 kB" $tiny --compare a.json b.json --memory-budget 10k
exits 0 "bench without an action is bench step" bench --model tiny.json --threads 1 --steps 1 --sweep recompute=none
check "bench without an action: its row" grep -q '^recompute none  ' out
exits 0 "bench step --recompute" $tiny --recompute layer --optimizer sgd --json
for word in '"recompute": "layer"' '"recomputed": [1-9]' '"optimizer": "sgd"' '"planned_bytes": [1-9]'; do
    check "bench step --recompute: $word" grep -q -e "$word" out
done

# ---- cost of a run besides training ----

monitor="--model tiny.json --block-size 16 --threads 1 --precision fp32"
exits 0 "bench monitor" bench monitor $monitor --steps 5 --report-to jsonl,csv --log-full-every 10 --json
for word in '"bench": "monitor"' '"report_to": "jsonl,csv", "log_full_every": 10, "metrics_every": 1000, "perf_every": 100' \
    '"steps": 40, "step_processor_seconds": [0-9]' '"count": \[20, 8, 8, 2, 2, 2, 2, 40, 40, 40, 20\]' \
    '"name": \["records, off", "records, light", "records, full", .*"guard", "others", "file threads, per record"\]'; do
    check "bench monitor has $word" grep -q -e "$word" out
done
for column in mean_seconds mean_percent; do
    check "bench monitor: eleven values of $column" test "$(column $column | grep -c '^-\{0,1\}[0-9]')" -eq 11
done
check "bench monitor: few pairs have no interval" test "$(column low_seconds | sed -n 4,7p | tr '\n' ' ')" = "null null null null "
check "bench monitor: many pairs have one" sh -c "grep -q '\"low_seconds\": \[[0-9]' out"
exits 0 "bench --monitor" bench $monitor --monitor light --steps 4
check "bench --monitor: up to that level" sh -c 'grep -q "^records, light  *9 .* %$" out && ! grep -q "^records, full" out'
check "bench --monitor: the guard" grep -q '^guard  *20 .* %$' out
exits 0 "bench --monitor off" bench monitor $monitor --monitor off --steps 1 --report-to none
check "bench --monitor off: nothing is recorded" sh -c 'grep -q "^records, off  *20 " out && ! grep -q "^light\|^threads" out'
refuses 1 "unknown destination 'all'" bench monitor $monitor --report-to all
check "bench monitor leaves no directory" sh -c '! ls -d eitp-bench-*'
refuses 1 "--steps must be at least 1 .*(got 0)" bench monitor $monitor --steps 0
refuses 1 "--steps must be at least 1 (got 0)" bench step $monitor --steps 0
refuses 1 "cannot create a directory in .missing.: No such file" bench monitor $monitor --output-dir missing
refuses 1 "has no option --sweep" bench monitor $monitor --sweep batch-size

exits 0 "bench --print-config" bench step --print-config
check "bench: defaults" grep -q '^steps  *5  (default)' out
check "bench leaves no temporary file" test -z "$(ls -A temporary)"
refuses 1 "missing action" bench
refuses 1 "unknown action 'kernel'" bench kernel
refuses 1 "no workload matches" bench kernels --filter nothing
refuses 1 "--seconds must be at least 0 and at most 3600 (got -1)" bench kernels --seconds -1
refuses 1 "'eitp bench step' has no option --filter" bench step --filter x
refuses 1 "invalid value .fp64. (choose from auto, fp32, bf16, fp16)" bench kernels --precision fp64
refuses 1 "missing.json" bench kernels --compare missing.json
refuses 1 "is not the output of 'eitp bench kernels --json'" bench kernels --compare step.json
refuses 1 "is not the output of 'eitp bench step --json'" bench step --compare tiny.json
refuses 1 "no model shape" bench step --model gpt5
refuses 1 "positions" bench step --model tiny.json --block-size 65 --threads 1

finish
