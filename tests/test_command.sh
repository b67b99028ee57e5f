#!/bin/sh
# The command: what each subcommand does, what it says of bad input and what it leaves behind, resuming bit for bit,
# signals.
LC_ALL=C
export LC_ALL
BUILD=${BUILD:-build}
case $BUILD in /*) ;; *) BUILD=$PWD/$BUILD ;; esac
eitp=$BUILD/eitp
work=$BUILD/test_command
passed=0
failed=0
rm -rf "$work"
mkdir -p "$work"
cd "$work" || exit 1
mkdir temporary
TMPDIR=$work/temporary
export TMPDIR

pass() {
    passed=$((passed + 1))
}

fail() {
    failed=$((failed + 1))
    echo "FAILED $*"
}

# The name of a check, and a command that must succeed.
check() {
    what=$1
    shift
    if "$@"; then pass; else fail "$what"; fi
}

# Exit code, what is said of it, and the arguments of eitp; output in files out and err.
exits() {
    expected=$1
    what=$2
    shift 2
    "$eitp" "$@" >out 2>err </dev/null
    got=$?
    if [ $got -eq "$expected" ]; then pass; else
        fail "$what: exit code $got, not $expected"
        sed 's/^/    /' err
    fi
}

# The same for input that is refused: the code, words of the one line on standard error, nothing on standard output, and
# no directory "gone" afterwards.
refuses() {
    expected=$1
    words=$2
    shift 2
    exits "$expected" "$words" "$@"
    if [ "$(wc -l <err)" -eq 1 ] && grep -q '^error: ' err && grep -q -e "$words" err; then pass; else
        fail "one line with \"$words\" is wanted for: $*"
        sed 's/^/    /' err
    fi
    check "nothing on standard output: $*" test ! -s out
    check "nothing left behind: $*" test ! -e gone
    rm -rf gone
}

same() {
    cmp -s "$1" "$2"
}

differ() {
    ! cmp -s "$1" "$2"
}

same_checkpoints() {
    same "$1/model.safetensors" "$2/model.safetensors" && same "$1/optimizer.safetensors" "$2/optimizer.safetensors"
}

lines() {
    wc -l <"$1" | tr -d ' '
}

awk 'BEGIN {
    for (i = 0; i < 400; i++)
        printf "Line %d: a quick fox number %d jumps over %d lazy dogs, and it sees that %s.\n", i, i * 7 % 13,
            i * i % 97, i % 3 ? "all is well" : "the sky is blue"
}' >text.txt
cat >tiny.json <<'END'
{"model_type": "gpt2", "vocab_size": 257, "n_positions": 64, "n_embd": 16, "n_head": 2, "n_layer": 2,
 "resid_pdrop": 0.1, "embd_pdrop": 0.1, "attn_pdrop": 0.1}
END
head -c 6000 text.txt >small.txt
train="train --data text.txt --init tiny.json --block-size 16 --threads 1"

# ---- help and version ----

exits 0 "help" help
check "help lists commands" grep -q 'eitp train' out
exits 0 "version" --version
check "version has a number" grep -q '^eitp [0-9]*\.[0-9]' out
exits 0 "help of a command" help train
check "help has defaults" grep -q 'default: 500' out
exits 0 "--help" tokenizer encode --help
check "help of an action" grep -q -e '--tokenizer' out
if [ -e /dev/full ]; then
    "$eitp" --version >/dev/full 2>err
    check "a result that cannot be written is code 5" test $? -eq 5
fi

# ---- training ----

exits 0 "train" $train --steps 12 --save-steps 4 --save-total-limit 0 --eval-steps 5 --lr 3e-3 --output-dir straight
check "all checkpoints are kept" test -d straight/checkpoint-4 -a -d straight/checkpoint-8 -a -d straight/checkpoint-12
check "a record for each step" test "$(grep -c '"loss": ' straight/metrics.jsonl)" -eq 12
check "a record for each evaluation" test "$(grep -c '"val_loss": ' straight/metrics.jsonl)" -eq 4
check "the first evaluation is before step 1" sh -c \
    'head -n 1 straight/metrics.jsonl | grep -q "{\"step\": 0, \"val_loss\""'
for key in step loss lr grad_norm tokens_per_s step_time_s rss_bytes; do
    check "records have $key" test "$(grep '"loss": ' straight/metrics.jsonl | grep -c "\"$key\": [0-9]")" -eq 12
done
check "the loss falls" awk -F '"val_loss": ' 'NF > 1 { split($2, a, ","); last = a[1]; if (!n++) first = last }
    END { exit !(last < first - 0.05) }' straight/metrics.jsonl
check "run.json" grep -q '"steps": 12' straight/run.json
for file in config.json model.safetensors optimizer.safetensors tokenizer.json trainer_state.json; do
    check "checkpoints have $file" test -s straight/checkpoint-12/$file
done
check "the log names the bytes" grep -q 'ids are bytes' err
check "the log says why it is the CPU" grep -q 'device auto: cpu.*no CUDA' err
check "the log has the memory" grep -q '^memory: parameters' err

exits 0 "prune" $train --steps 12 --save-steps 3 --lr 3e-3 --eval-steps 0 --output-dir pruned -q
check "the newest two are kept" test "$(ls -d pruned/checkpoint-* | tr '\n' ' ')" = \
    "pruned/checkpoint-12 pruned/checkpoint-9 "
check "quiet" test ! -s err
check "--eval-steps 0: only at the end" test "$(grep -n val_loss pruned/metrics.jsonl | cut -d: -f1)" = 13
check "how often it is saved changes nothing" same_checkpoints straight/checkpoint-12 pruned/checkpoint-12

exits 0 "epochs" $train --epochs 0.01 --batch-size 3 --grad-accum 2 --output-dir epochs --save-steps 0 \
    --val-fraction 0 --json
check "an epoch ends in the middle of a step" grep -q '"step": 4, "steps": 4.*"tokens": 352,.*"stopped": null' out
check "without validation there is none" sh -c '! grep -q val_loss epochs/metrics.jsonl'
check "--save-steps 0: only at the end" test "$(ls -d epochs/checkpoint-*)" = epochs/checkpoint-4

for threads in 2 3; do
    exits 0 "threads $threads" $train --steps 12 --lr 3e-3 --eval-steps 0 --output-dir threads$threads \
        --threads $threads -q
    check "$threads threads give the same bits" same_checkpoints straight/checkpoint-12 threads$threads/checkpoint-12
done
exits 0 "another seed" $train --steps 12 --lr 3e-3 --eval-steps 0 --output-dir seed --seed 1 -q
check "another seed gives other bits" differ \
    straight/checkpoint-12/model.safetensors seed/checkpoint-12/model.safetensors
exits 0 "no dropout" $train --steps 12 --lr 3e-3 --eval-steps 0 --output-dir dropout --dropout 0 -q
check "dropout is real" differ straight/checkpoint-12/model.safetensors dropout/checkpoint-12/model.safetensors
check "dropout is in config.json" grep -q '"attn_pdrop": 0,' dropout/checkpoint-12/config.json

# ---- resuming ----

for threads in 1 2 3; do
    mkdir resumed$threads
    cp -r straight/checkpoint-4 straight/checkpoint-8 straight/metrics.jsonl straight/run.json resumed$threads
    exits 0 "resume with $threads threads" train --resume auto --output-dir resumed$threads --threads $threads
    check "resumed with $threads threads: the same bits" same_checkpoints \
        straight/checkpoint-12 resumed$threads/checkpoint-12
    for file in straight resumed$threads; do
        sed 's/, "tokens_per_s.*//; s/, "val_time_s.*//' $file/metrics.jsonl >$file.records
    done
    check "resumed with $threads threads: the records of one run" same straight.records resumed$threads.records
done
rm -r resumed1/checkpoint-8 resumed1/checkpoint-12
printf '{"step": 5, "lo' >>resumed1/metrics.jsonl
exits 0 "resume DIR" train --resume_from_checkpoint=resumed1/checkpoint-4 --threads 1
check "resume DIR: the same bits" same_checkpoints straight/checkpoint-12 resumed1/checkpoint-12
check "records that were cut short are gone" test "$(grep -c '"loss": ' resumed1/metrics.jsonl)" -eq 12
exits 0 "nothing left to do" train --auto-resume --output-dir resumed1
check "says so" grep -q 'nothing to do' err
exits 0 "resume elsewhere" train --resume straight/checkpoint-8 --output-dir elsewhere --threads 1 -q
check "resume elsewhere: the same bits" same_checkpoints straight/checkpoint-12 elsewhere/checkpoint-12
exits 0 "longer" train --resume auto --output-dir elsewhere --steps 14 --threads 1
check "a longer schedule is said" grep -q 'warning: schedule_steps was 12' err
exits 0 "auto without a checkpoint" $train --steps 1 --resume auto --output-dir fresh
check "says that a new run begins" grep -q 'a new run begins' err

refuses 1 "has checkpoint-12 already" $train --output-dir straight
refuses 1 "of another run" train --resume straight/checkpoint-8 --output-dir pruned
refuses 1 "of later steps" train --resume straight/checkpoint-8
cp -r straight/checkpoint-12 other
refuses 1 "made with batch_size 1" train --resume other --data text.txt --batch-size 2 --output-dir gone
refuses 1 "made with data_hash" train --resume other --data tiny.json --data text.txt --output-dir gone
refuses 1 "no run.json" train --resume other --output-dir gone
refuses 1 "there is no directory" train --resume nowhere --output-dir gone
printf 'x' | dd of=other/model.safetensors bs=1 seek=5000 conv=notrunc 2>/dev/null
refuses 1 "damaged" train --resume other --data text.txt --output-dir gone
rm other/trainer_state.json
refuses 1 "start from it with --model" train --resume other --data text.txt --output-dir gone

# ---- signals, and steps that are not finite ----

# Waits for a pattern in a file: a minute at most.
wait_for() {
    tries=0
    until grep -q "$1" "$2" 2>/dev/null; do
        tries=$((tries + 1))
        [ $tries -lt 600 ] || return 1
        sleep 0.1
    done
}

stop_by() {
    signal=$1
    code=$2
    "$eitp" $train --steps 100000000 --eval-steps 0 --save-steps 0 \
        --output-dir signal$signal >running.out 2>running.err \
        </dev/null &
    process=$!
    wait_for 'step 1/' running.err
    refuses 1 "another process trains" $train --output-dir signal$signal
    kill -$signal $process
    wait_for 'stopped by' running.out || kill -9 $process
    wait $process
    check "$signal: exit code" test $? -eq "$code"
    check "$signal: one checkpoint" test "$(ls -d signal$signal/checkpoint-* | wc -l)" -eq 1
    check "$signal: says so" grep -q "stopped by SIG$signal" running.out
    step=$(ls signal$signal | sed -n 's/checkpoint-//p')
    check "$signal: the records reach to the checkpoint" grep -q "^{\"step\": $step, " signal$signal/metrics.jsonl
    exits 0 "$signal: resume" train --resume auto --output-dir signal$signal --steps $((step + 1)) --threads 1 -q
}
stop_by TERM 143
stop_by INT 130

exits 4 "not finite" $train --steps 40 --lr 1000 --max-grad-norm 0 --weight-decay 1000 --eval-steps 0 \
    --max-nonfinite 3 \
    --output-dir infinite --json
check "not finite: a checkpoint" \
    test -d infinite/checkpoint-"$(sed 's/.*"checkpoint": "infinite.checkpoint-\([0-9]*\).*/\1/' out)"
check "not finite: said" grep -q '^error: 3 steps in a row' err
check "not finite: in the result" grep -q '"stopped": "nonfinite"' out

# ---- evaluation and generation ----

exits 0 "eval" eval --model straight --data text.txt --json --threads 1
cp out first
exits 0 "eval in larger batches" eval --model straight/checkpoint-12 --data text.txt --json --threads 1 --batch-size 5
check "eval: block size of the checkpoint" grep -q '"block_size": 16' out
check "eval: the same whatever the batch" test \
    "$(sed 's/.*"loss": \([0-9.]*\)[0-9][0-9][0-9][0-9][0-9][0-9],.*/\1/' out)" = \
    "$(sed 's/.*"loss": \([0-9.]*\)[0-9][0-9][0-9][0-9][0-9][0-9],.*/\1/' first)"
check "eval leaves no temporary file" test -z "$(ls -A temporary)"
exits 0 "generate" generate --model straight --prompt 'Line 1' --tokens 20 --seed 5 --threads 1 -q
cp out first
check "generate begins with the prompt" grep -q '^Line 1' out
if command -v iconv >/dev/null 2>&1; then
    check "generate: only whole characters" sh -c 'iconv -f UTF-8 -t UTF-8 <out >/dev/null'
fi
exits 0 "generate again" generate --model straight --prompt 'Line 1' --tokens 20 --seed 5 --threads 3 -q
check "generate: the same text for the same seed" same out first
exits 0 "generate beyond the cache" generate --model straight --prompt 'Line 1' --tokens 200 --top-k 1 --threads 1 \
    --json
check "generate slides on" grep -q '"tokens": 200, "stop": "length"' out
exits 0 "greedy" generate --model straight --prompt 'Line 1' --tokens 9 --temperature 0 --seed 1 --no-echo \
    --threads 1 -q
cp out first
exits 0 "greedy again" generate --model straight --prompt 'Line 1' --tokens 9 --top-k 1 --seed 2 --no-echo \
    --threads 1 -q
check "the likeliest does not depend on the seed" same out first
printf 'Line 1' | "$eitp" generate --model straight --tokens 9 --temperature 0 --no-echo --threads 1 -q >out 2>err
check "the prompt from standard input" same out first

# ---- adapters, freezing, merging ----

lora="train --data text.txt --model straight --block-size 16 --threads 1 --lr 1e-2"
exits 0 "train adapters" $lora --steps 8 --save-steps 4 --save-total-limit 0 --lora-rank 4 --lora-targets c_attn,c_proj \
    --lora-dropout 0.1 --output-dir lora
check "what is trained is said" grep -q 'adapters of rank 4, alpha 8, for c_attn,c_proj: 1408 parameters' err
check "a checkpoint has adapters" test -f lora/checkpoint-8/adapter_model.safetensors
check "a checkpoint of adapters has no weights" test ! -e lora/checkpoint-8/model.safetensors
check "adapters name their model" grep -q "\"base_model_name_or_path\": \"$work/straight/checkpoint-12\"" \
    lora/checkpoint-8/adapter_config.json
cp -r lora lora2
rm -r lora2/checkpoint-8
exits 0 "resume adapters" train --resume lora2 --threads 2
check "resumed adapters have the same bits" same lora/checkpoint-8/adapter_model.safetensors \
    lora2/checkpoint-8/adapter_model.safetensors
check "and the same state" same lora/checkpoint-8/optimizer.safetensors lora2/checkpoint-8/optimizer.safetensors
refuses 1 'adapters of rank 4' train --resume lora2 --lora-rank 5 --steps 9
refuses 1 'has no adapters to go on with' train --resume straight --lora-rank 2 --steps 15
refuses 1 'other weights' train --resume lora2 --model straight/checkpoint-4 --steps 9
exits 0 "eval with adapters" eval --model straight --adapter lora --data text.txt --threads 1 --json
adapted=$(sed 's/.*"loss": \([0-9.]*\),.*/\1/' out)
check "eval: block size of the adapters' checkpoint" grep -q '"block_size": 16' out
exits 0 "eval of an adapter's directory" eval --model lora/checkpoint-8 --data text.txt --threads 1 --json
check "its model is found" grep -q "\"loss\": $adapted," out
exits 0 "generate with adapters" generate --model straight --adapter lora --prompt 'Line 1' --tokens 9 --temperature 0 \
    --threads 1 -q
cp out first
exits 0 "merge" merge --model straight --adapter lora --output-dir merged
exits 0 "merge by the adapters' own word" merge --adapter lora/checkpoint-8 --output-dir merged2 --json
check "merged alike" same merged/model.safetensors merged2/model.safetensors
check "a merged model has its tokenizer" same merged/tokenizer.json straight/checkpoint-12/tokenizer.json
exits 0 "generate from the merged model" generate --model merged --prompt 'Line 1' --tokens 9 --temperature 0 \
    --threads 1 -q
check "the merged model says the same" same out first
exits 0 "eval of the merged model" eval --model merged --data text.txt --block-size 16 --threads 1 --json
check "the merged loss is the same to rounding" awk -v a="$adapted" \
    -v b="$(sed 's/.*"loss": \([0-9.]*\),.*/\1/' out)" 'BEGIN { exit !((a - b) ^ 2 < 1e-12 && a != 0) }'
refuses 1 'has a model already' merge --adapter lora --output-dir merged
refuses 1 'has no adapters' merge --model straight --adapter straight --output-dir gone
refuses 1 'are needed' merge --adapter lora
sed 's/"n_embd": 16/"n_embd": 18/' tiny.json >wide.json
exits 0 "a wider model" train --data text.txt --init wide.json --block-size 16 --threads 1 --steps 1 --output-dir wide
refuses 1 'another model' merge --model wide --adapter lora --output-dir gone
mkdir foreign
sed 's/"use_dora": false/"use_dora": true/' lora/checkpoint-8/adapter_config.json >foreign/adapter_config.json
cp lora/checkpoint-8/adapter_model.safetensors foreign
refuses 1 'use_dora' eval --model straight --adapter foreign --data text.txt
sed 's/"base_model_name_or_path": "[^"]*"/"base_model_name_or_path": "gpt2"/' lora/checkpoint-8/adapter_config.json \
    >foreign/adapter_config.json
refuses 1 "of the model 'gpt2'" merge --adapter foreign --output-dir gone
exits 0 "adapters of PEFT with a model's own name" merge --model straight --adapter foreign --output-dir merged3
check "merged alike again" same merged/model.safetensors merged3/model.safetensors
exits 0 "freeze" $lora --steps 2 --freeze embeddings,layers:1 --output-dir frozen
check "what is frozen is said" grep -q '3312 parameters are trained, the others are frozen' err
check "a run with frozen parts has the whole model" test -f frozen/checkpoint-2/model.safetensors
exits 0 "resume a run with frozen parts" train --resume frozen --steps 3 --threads 1
refuses 1 'needs --model' train --data text.txt --init tiny.json --lora-rank 2 --output-dir gone
refuses 1 'goes with --lora-rank' $lora --lora-alpha 2 --output-dir gone
refuses 1 'exclude each other' $lora --lora-rank 2 --freeze embeddings --output-dir gone
refuses 1 'no linear layer' $lora --lora-rank 2 --lora-targets wte --output-dir gone
refuses 1 'freezes nothing' $lora --freeze layers:9 --output-dir gone
exits 0 "--print-config has adapters" $lora --lora-rank 2 --print-config
check "--print-config: rank" grep -q '^lora-rank  *2  (command line)' out

# ---- plans and budgets ----

# A model that is large beside the process, so that budgets decide.
sed -e 's/"n_embd": 16/"n_embd": 192/' -e 's/"n_layer": [0-9]*/"n_layer": 4/' \
    -e 's/"vocab_size": [0-9]*/"vocab_size": 4000/' -e 's/"n_positions": [0-9]*/"n_positions": 512/' tiny.json >large.json
plan="plan --init large.json --block-size 32 --batch-size 8 --threads 1"
exits 0 "plan" $plan
check "plan: what is chosen" grep -q '^chosen: adamw in .*, 4 of 4 micro-batches at a time; same bits' out
check "plan: components" test "$(grep -c '^  \(parameters\|gradients\|optimizer state\|activations\|process\|total\) ' out)" -eq 6
check "plan: one line is chosen" test "$(grep -c '^\* ' out)" -eq 1
check "plan: every optimizer has rungs" test "$(grep -c '^[ *-] \(adamw\|adamw8\|adamw8-sr\|factored\) ' out)" -ge 12
check "plan: another algorithm is there" grep -q '^  sgd .*another algorithm$' out
exits 0 "plan in fp16" $plan --precision fp16
check "plan: fp16 has what it can" sh -c "grep -q '^  adamw  *fp16' out && grep -q '^  sgd  *fp16' out && ! grep -q adamw8 out"
exits 2 "sgd in too little" $plan --optimizer sgd --memory-budget 12M
check "sgd is not given up for AdamW" sh -c "grep -q 'or change --' out && ! grep -q -e '--optimizer' out"
exits 0 "plan --json" $plan --json
check "plan --json: a rung is chosen" grep -q '"chosen": {"optimizer": "adamw"' out
total=$(sed -n 's/.*"chosen": {.*"total": \([0-9]*\).*/\1/p' out | head -n 1)
check "plan --json: its bytes" test "${total:-0}" -gt 20000000
exits 0 "plan within a budget" $plan --memory-budget "$((total * 7 / 10))" --json
check "a budget is kept" grep -q '"chosen": {.*"fits": true}' out
exits 2 "a budget that is too small" $plan --memory-budget 12M
check "too small: the smallest is named" grep -q 'the smallest --memory-budget that would do is [0-9]*M; or change --' out
exits 2 "a budget that is too small, little to change" plan --init large.json --block-size 3 --batch-size 2 --threads 1 \
    --memory-budget 12M
check "too small: every change that is named needs less" sh -c 'smallest=$(sed -n "s/.*would do is \([0-9]*\)M.*/\1/p" out)
    for change in $(sed "s/.*would do is [0-9]*M//" out | grep -o "[0-9]*M)" | tr -d "M)"); do
        test "$change" -lt "${smallest:-0}" || exit 1
    done'
exits 0 "plan --presets" plan --init large.json --threads 1 --presets
check "three profiles" test "$(grep -c ' tokens a step, ' out)" -eq 3
echo '{"batch-size": 2}' >a.json
echo '{"batch-size": 8, "optimizer": "adamw8"}' >b.json
exits 0 "plan --compare" $plan --compare a.json b.json
check "two configurations" test "$(wc -l <out)" -eq 2 -a "$(grep -c 'adamw8' out)" -eq 1
refuses 1 'needs two files' $plan --compare a.json
refuses 1 "'extra' is no option of plan" $plan extra
refuses 1 "'lion' is none of its values" $plan --optimizer lion
large="train --data text.txt --init large.json --block-size 32 --batch-size 8 --threads 1 --eval-steps 0 --save-steps 0
    --merge 4"
exits 0 "train without a budget" $large --steps 2 --output-dir roomy --json
check "the plan is not below what was taken" sh -c 'test "$(sed "s/.*\"planned_bytes\": \([0-9]*\).*/\1/" out)" -ge \
    "$(sed "s/.*\"peak_rss_bytes\": \([0-9]*\).*/\1/" out)"'
exits 0 "train within a budget" $large --steps 2 --output-dir tight --memory-budget "$((total * 7 / 10))" --optimizer adamw
check "what is computed again is said" grep -q 'it fits with adamw in .*values computed again' err
check "a budget changes no bit" same roomy/checkpoint-2/model.safetensors tight/checkpoint-2/model.safetensors
exits 0 "recompute layers" $large --steps 2 --output-dir layers --gradient-checkpointing --optimizer adamw
check "recomputing changes no bit" same roomy/checkpoint-2/model.safetensors layers/checkpoint-2/model.safetensors
exits 0 "train from a file" $large --steps 2 --output-dir streamed --stream all --optimizer adamw
check "streaming changes no bit" same roomy/checkpoint-2/model.safetensors streamed/checkpoint-2/model.safetensors
check "what a step moves is said" grep -q '^streamed: .* in a file; a step reads .* and writes ' err
check "what the disk takes is said" grep -q "^warning: this run writes .* to the disk of 'streamed'; solid-state" err
check "no file is left" test ! -e streamed/stream.tmp
exits 0 "a streamed run goes on" train --resume streamed --steps 3 --threads 1
check "it is streamed again" grep -q '^streamed: ' err
exits 0 "in memory if it is told so" train --resume streamed --steps 4 --threads 1 --stream none
check "it is in memory" test "$(grep -c '^streamed: ' err)" -eq 0
exits 2 "streaming is offered" $plan --memory-budget 12M
check "streaming is offered: what it would need" grep -q -- '--stream auto ([0-9]*M)' out
# Between what is needed in memory and with a file.
between=$(sed -n 's/.*would do is \([0-9]*\)M;.*--stream auto (\([0-9]*\)M).*/\1 + \2/p' out)
between=$(((${between:-0}) / 2))M
exits 0 "plan: as much in a file as must be" $plan --stream auto --memory-budget $between --json
check "plan: compact, and streamed" grep -q '"chosen": {"optimizer": "adamw8", .*"streamed": [1-9]' out
exits 0 "plan: no more than must be" $plan --stream auto --json
check "plan: all in memory" grep -q '"chosen": {"optimizer": "adamw", .*"streamed": 0' out
exits 2 "streaming would do" $plan --memory-budget $between
check "streaming would do: with what it needs" grep -q -- '--stream auto (fits: [0-9]*M)' out
refuses 1 "cannot open for writing 'nowhere/file'" $large --steps 2 --stream all --stream-file nowhere/file --output-dir gone
exits 2 "train in too little" $large --steps 2 --memory-budget 12M --output-dir gone
check "train in too little: one line" test "$(grep -c '^error: .* does not fit into 12 MB: the smallest --memory-budget' err)" -eq 1
check "only the packed data is kept" test "$(find gone -type f | wc -l)" -eq 1
rm -r gone
exits 0 "a compact optimizer" $large --steps 2 --optimizer adamw8 --output-dir compact
exits 0 "it goes on with itself" train --resume compact --steps 3 --threads 1
check "the checkpoint has its name" grep -q '"optimizer": "adamw8"' compact/checkpoint-3/trainer_state.json
exits 0 "it goes on with another" train --resume compact --steps 4 --threads 1 --optimizer adamw --precision fp32
check "that is said" grep -q 'converted to adamw and fp32' err
refuses 1 "made with adamw, whose learning rate 0.0003 means something else to sgd; give the new one with --lr" \
    train --resume compact --steps 5 --threads 1 --optimizer sgd
exits 0 "from adamw to sgd" train --resume compact --steps 5 --threads 1 --optimizer sgd --momentum 0.8 --lr 0.1
check "sgd: what is not taken over" grep -q 'weight_decay was 0.01 in .* and is 0 from here on' err
exits 0 "it goes on with sgd" train --resume compact --steps 6 --threads 1
check "the rate of sgd is kept" grep -q '"lr": 0.1,' compact/checkpoint-6/trainer_state.json
check "its momentum is kept" grep -q '"beta1": 0.8,' compact/checkpoint-6/trainer_state.json
refuses 1 "made with sgd, whose learning rate 0.1 means something else to adamw" \
    train --resume compact --steps 7 --threads 1 --optimizer auto
exits 0 "sgd from the beginning" train --data text.txt --init tiny.json --block-size 16 --optimizer sgd --print-config
check "sgd: its rate" grep -q '^lr  *0.1  (default)' out
check "sgd: no decay" grep -q '^weight-decay  *0  (default)' out

# ---- memory that goes short ----

short="$large --memory-budget 4G --optimizer adamw --precision fp32 --recompute none"

# How many kB of addresses a run takes that goes on as it began; a limit of little more is a machine that is short of
# memory from then on, though the run still fits.
addresses_of() {
    rm -f running.err
    "$eitp" $short --steps 100000 --output-dir measured "$@" >running.out 2>running.err </dev/null &
    process=$!
    wait_for 'step 1/' running.err
    addresses=$(sed -n 's/^VmPeak:[^0-9]*\([0-9]*\) kB$/\1/p' /proc/$process/status)
    kill -9 $process
    wait $process 2>/dev/null
    rm -rf measured
}

short_of_memory() { # kB that are left, options
    left=$1
    shift
    (
        ulimit -v $((addresses + left))
        exec "$eitp" $short "$@" >out 2>err </dev/null
    )
}
if [ -r /proc/self/status ] && (ulimit -v 3000000) 2>/dev/null; then
    addresses_of
    short_of_memory 12000 --steps 3 --auto-shrink --output-dir shrunk
    check "a run that shrinks goes on" test $? -eq 0 -a -d shrunk/checkpoint-3
    check "shrinking: why" grep -q '^warning: memory is short: [0-9.]* MB are left (RLIMIT_AS), and ' err
    check "shrinking: what" grep -q '^warning: shrunk after step 0: arena and gradients have [0-9.]* MB, not ' err
    check "shrinking: the record" grep -q '^{"step": 0, "event": "memory_pressure", .* "shrunk": true}' shrunk/metrics.jsonl
    check "shrinking: the checkpoint" grep -q '"shrunk_from": {"batch_size": 8, "grad_accum": 4, "merged": 4}' \
        shrunk/checkpoint-3/trainer_state.json
    cp -r shrunk again
    exits 0 "a shrunk run goes on with the command that began it" $large --steps 5 --output-dir shrunk --resume auto
    check "going on shrunk is said" grep -q "is of a run that was made smaller: batch size 8, accumulation 4, 2 merged" err
    exits 0 "a shrunk run goes on by itself" train --resume again --steps 5 --threads 1
    check "both are the same run" same_checkpoints shrunk/checkpoint-5 again/checkpoint-5
    refuses 1 "was made with batch_size 8, and this run has 4" $large --steps 6 --output-dir shrunk --resume auto \
        --batch-size 4
    short_of_memory 12000 --steps 2 --output-dir unshrunk
    check "without --auto-shrink it is said" test $? -eq 0 -a "$(grep -c 'memory is short: .* --auto-shrink' err)" -eq 1

    addresses_of --batch-size 1 --grad-accum 1 --merge 1
    short_of_memory 6000 --batch-size 1 --grad-accum 1 --merge 1 --steps 2000 --auto-shrink \
        --output-dir stopped --json
    check "memory that stays short stops a run with code 3" test $? -eq 3
    check "stopped: nothing smaller" grep -q '^warning: there is no smaller way to run' err
    check "stopped: said" grep -q '^error: memory stays short, with .* go on with --resume auto' err
    check "stopped: in the result" grep -q '"stopped": "pressure"' out
    step=$(sed 's/.*"checkpoint": "stopped.checkpoint-\([0-9]*\).*/\1/' out)
    check "stopped: with a checkpoint" test -d "stopped/checkpoint-$step"
    exits 0 "stopped: it goes on" train --resume stopped --steps $((step + 1)) --threads 1
else
    echo "SKIPPED memory that goes short: there is no /proc/self/status, or the shell has no ulimit -v"
fi
exits 0 "--auto-shrink is off" train --print-config
check "--auto-shrink is off by default" grep -q '^auto-shrink  *false  (default)' out
exits 0 "--auto-shrink with a profile" train --profile safe --print-config
check "--auto-shrink is on in a careful profile" grep -q '^auto-shrink  *true  (default)' out
exits 0 "--no-auto-shrink" train --profile low-memory --no-auto-shrink --print-config
check "--no-auto-shrink turns it off" grep -q '^auto-shrink  *false  (command line)' out
exits 0 "--profile full" train --profile full --print-config
check "--auto-shrink is off in the profile full" grep -q '^auto-shrink  *false  (default)' out
refuses 1 "is no option of 'eitp eval'" eval --auto-shrink

exits 0 "a profile" train --data text.txt --init tiny.json --profile low-memory --block-size 16 --print-config
check "a profile's batch" grep -q '^grad-accum  *16  (default)' out

# ---- tokenizers and token files ----

exits 0 "tokenizer train" tokenizer train --data text.txt --vocab-size 360 --output tok
exits 0 "tokenizer inspect" tokenizer inspect --tokenizer tok --json
check "inspect: size" grep -q '"tokens": 360, "end_of_text": 359' out
exits 0 "encode" tokenizer encode --tokenizer tok --data text.txt
check "fewer tokens than bytes" test "$(wc -w <out)" -lt 15000
"$eitp" tokenizer decode --tokenizer tok <out >back
check "decoding gives the text back" same back text.txt
exits 0 "encode a word" tokenizer encode --tokenizer tok --text 'lazy dogs' --json
check "encode: count" grep -q '"count": [1-4]}' out
exits 0 "decode arguments" tokenizer decode --tokenizer tok 34 35
check "decode arguments: text" test "$(cat out)" = CD
exits 0 "pack" pack --data text.txt --tokenizer tok --output packed.tok --json
check "pack: what it says" grep -q '"bytes_per_token": [2-9].*"unigram_entropy": [1-9]' out
# An end-of-text of another name separates documents, and is named in what a run saves.
mkdir renamed
sed 's/<|endoftext|>/<end>/' tok/tokenizer.json >renamed/tokenizer.json
printf '{"eos_token": {"content": "<end>", "lstrip": false}, "bos_token": null, "unk_token": null}' >renamed/tokenizer_config.json
exits 0 "inspect another end-of-text" tokenizer inspect --tokenizer renamed --json
check "another end-of-text" grep -q '"end_of_text": 359, "begin_of_text": -1, "padding": -1, "unknown": -1' out
exits 0 "pack with another end-of-text" pack --data text.txt --tokenizer renamed --output renamed.tok --json
check "another end-of-text is packed" grep -q '"documents": 1, "end_of_text": 359' out
exits 0 "train without that tokenizer" train --data renamed.tok --init tiny.json --vocab-size 360 --steps 1 --output-dir ended
check "the token file's end-of-text is named" grep -q '"eos_token_id": 359' ended/checkpoint-1/config.json
check "generation too" grep -q '"eos_token_id": 359' ended/checkpoint-1/generation_config.json

exits 0 "train on a token file" train --data packed.tok --tokenizer tok --init tiny.json --vocab-size 360 --steps 2 \
    --threads 1 \
    --output-dir tokens
check "the tokenizer is saved with the model" same tok/tokenizer.json tokens/checkpoint-2/tokenizer.json
exits 0 "eval finds the tokenizer" eval --model tokens --data text.txt --threads 1
exits 0 "generate finds the tokenizer" generate --model tokens --prompt 'Line' --tokens 3 --threads 1
exits 0 "fine-tune" train --model tokens --data text.txt --steps 2 --threads 1 --output-dir tuned \
    --val-data text.txt --print-config
check "fine-tuning has another learning rate" grep -q '^lr  *5e-05  (default)' out
check "--print-config does nothing" test ! -e tuned
exits 0 "fine-tune" train --model tokens --data text.txt --steps 2 --threads 1 --output-dir tuned --val-data text.txt
check "packed data of text and validation" test "$(ls tuned/data | wc -l)" -eq 1
exits 0 "packed once" train --model tokens --data text.txt --steps 2 --threads 1 --output-dir tuned2
rm -r tuned2/checkpoint-2
exits 0 "packed data is used again" train --model tokens --data text.txt --steps 2 --threads 1 --output-dir tuned2
check "packed data is used again: said" grep -q 'data as packed before' err
rm -r tuned2/checkpoint-2
printf 'x' | dd of="$(ls tuned2/data/*)" bs=1 seek=3000 conv=notrunc 2>/dev/null
exits 0 "damaged packed data" train --model tokens --data text.txt --steps 2 --threads 1 --output-dir tuned2
check "damaged packed data is made again" same "$(ls tuned2/data/*)" "$(ls tuned/data/*)"

# ---- configuration ----

cat >config.json <<'END'
{"training": {"batch_size": 2, "gradient_accumulation_steps": 3, "num_epochs": 2, "use_amp": false,
              "empty_cache_every": 100},
 "data": ["text.txt"], "model": {"init": "tiny.json"}, "run": {"anything": [1, 2]}}
END
exits 0 "--config" train --config config.json --batch-size 5 --print-config
check "the command line beats the file" grep -q '^batch-size  *5  (command line)' out
check "the file beats the default" grep -q '^grad-accum  *3  (config)' out
check "defaults" grep -q '^block-size  *-  (not set)' out
check "lists" grep -q '^data  *\["text.txt"\]  (config)' out
exits 0 "--print-config --json" train --config config.json --print-config --json
check "json" grep -q '"epochs": {"value": 2, "source": "config"}' out
exits 0 "a run.json is a configuration" train --config straight/run.json --print-config
check "run.json: steps" grep -q '^steps  *12  (config)' out
exits 0 "aliases" train --per_device_train_batch_size 2 --max_length=32 --gradient_accumulation_steps 8 \
    --learning_rate 1e-4 \
    --num_epochs 3 --max_grad_norm 1 --save_total_limit 3 --precision 32 --no-strict-utf8 --print-config
check "aliases: block size" grep -q '^block-size  *32  (command line)' out

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
refuses 1 "size.json:1: memory-budget 'much' is no size" train --config size.json
for size in '' ' ' B M iB 1i 1m 1g 1b 1MBB 1MiM 1kB1 1KIB 1E 1P 1e9 1.5 1.5B 1. 1.M .5G 1.5.5G 1,5G 0x10 -1 -1G +1G ' 1G' \
    '1 G' '1G ' 0.0001k inf nan auto 90%; do
    refuses 1 "--memory-budget '$size' is no size; .* 900M, 1.5G or 512Mi" train --memory-budget "$size" \
        --data text.txt --init tiny.json --output-dir gone
done
for size in 9007199254740993000 99999T 18446744073709551616 1"$(printf '%0400d' 0)"; do
    refuses 1 "--memory-budget $size is out of range" train --memory-budget "$size" --data text.txt --init tiny.json \
        --output-dir gone
done
refuses 1 "needs a value" train --memory-budget
refuses 1 "is no option of 'eitp eval'" eval --memory-budget 1G
exits 0 "--memory-budget in the help" train --help
check "--memory-budget in the help: its argument" grep -q '^  --memory-budget SIZE  *most memory .* 900M or 1.5Gi' out

# ---- configurations that are refused ----

for content in '' '{' '{"batch_size": }' '{"batch_size": 1} x' '[1]' '{"batch_size": "two"}' '{"batch_size": [1, 2]}' \
    '{"batch_size": 1, "a": {"batch-size": 2}}' '{"batchsize": 1}' '{"batch_size": 01}' '{"a": "\ud800"}' '{"a": "' \
        '{"lr": nan}' \
    '{"training": {"lr": {"lr": [[1]]}}}' '{"precision": "fp8"}' '{"use_amp": 1}'; do
    printf '%s' "$content" >bad.json
    refuses 1 "bad.json" train --config bad.json --data text.txt --init tiny.json --output-dir gone
done

# ---- measuring: what is said, never how long it took ----

exits 0 "bench kernels" bench kernels --filter 'layer norm 64' --seconds 0 --threads 1 --json
for word in '"bench": "kernels"' '"precision": "f32"' '"f32_flops": [1-9]' '"read_bytes": [1-9]' '"update_bytes": [1-9]' \
    '"name": \["layer norm 64x768"\]' '"seconds": \[[0-9.e-]*\]' '"bytes": \[399872\]' '"limit_seconds": \[[0-9]'; do
    check "bench kernels has $word" grep -q -e "$word" out
done
cp out kernels.json
exits 0 "bench kernels: compare" bench kernels --filter 'layer norm' --seconds 0 --threads 1 --compare kernels.json
check "bench kernels: a line for each" test "$(grep -c '^layer norm ' out)" -eq 9
check "bench kernels: the ratio" grep -q '^layer norm 64x768  .* % *[0-9.]*[0-9]$' out
check "bench kernels: only the ratio that there is" grep -q '^layer norm 256x768  .* %$' out
check "bench kernels: what is new is said" grep -q "^warning: 'kernels.json' has no 'layer norm 256x768'" err
sed 's/layer norm 64x768/layer norm 1x1/' kernels.json >other.json
exits 0 "bench kernels: compare" bench kernels --filter 'layer norm 64' --seconds 0 --threads 1 --compare other.json \
    --json
check "bench kernels: what is missing is said" grep -q "^warning: 'other.json' has no 'layer norm 64x768'" err
exits 0 "bench kernels: compare" bench kernels --filter 'residual sum 64' --seconds 0 --threads 1 \
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
refuses 1 "is no option of 'eitp bench step'" bench step --filter x
refuses 1 "is none of its values" bench kernels --precision fp64
refuses 1 "missing.json" bench kernels --compare missing.json
refuses 1 "is not what 'eitp bench kernels --json' prints" bench kernels --compare step.json
refuses 1 "is not what 'eitp bench step --json' prints" bench step --compare tiny.json
refuses 1 "no model shape" bench step --model gpt5
refuses 1 "positions" bench step --model tiny.json --block-size 65 --threads 1

# ---- bad commands ----

refuses 1 "unknown command 'trian'" trian
refuses 1 "a command is missing" ""
refuses 1 "did you mean 'batch-size'" train --batchsize 2
refuses 1 "unknown option 'batch'" train --batch 2
refuses 1 "needs a value" train --batch-size
refuses 1 "takes no value" train --auto-resume=yes
refuses 1 "out of range" train --batch-size 0
refuses 1 "is no whole number" train --steps 1.5
refuses 1 "is no number" train --lr nan
refuses 1 "is no number" train --lr 0x10
refuses 1 "is none of its values; use constant, linear or cosine" train --lr-schedule fast
refuses 1 "is none of its values; use auto, fp32, bf16 or fp16" train --precision fp8
refuses 1 "must be 0 to the" train --data text.txt --init tiny.json --output-dir gone --grad-accum 2 --merge 3
refuses 1 "is no option of 'eitp eval'" eval --lr 1
refuses 1 "unexpected argument" train text.txt
refuses 1 "two dashes" train -x
refuses 1 "--model or --init is needed" train --data text.txt --output-dir gone
refuses 1 "exclude each other" train --data text.txt --init tiny --model straight --output-dir gone
refuses 1 "goes with --init" train --data text.txt --model straight --vocab-size 300 --output-dir gone
refuses 1 "--data is needed" train --init tiny.json --output-dir gone
refuses 1 "cuda" $train --device cuda --output-dir gone
refuses 1 "cuda" eval --model straight --data text.txt --device cuda
refuses 1 "unknown action" tokenizer make
refuses 1 "are needed" eval --model straight
refuses 1 "is needed" generate --prompt x
refuses 1 "are needed" pack --data text.txt
refuses 1 "no tokenizer" tokenizer inspect --tokenizer straight/data
refuses 1 "has a tokenizer already" tokenizer train --data text.txt --output tok
refuses 1 "no token id" tokenizer decode --tokenizer tok 12x
refuses 1 "360" tokenizer decode --tokenizer tok 360

# ---- bad data ----

: >empty.txt
printf 'short' >short.txt
printf 'not UTF-8: \377 and on, for long enough to make a window of tokens of this' >latin.txt
head -c 3000 packed.tok >cut.tok
{
    printf '\210\330\064\001\001\000\000\000\220\001\000\000'
    head -c 1012 /dev/zero
    awk 'BEGIN { for (i = 0; i < 400; i++) printf "\377\001" }' # ids of 511
} >llmc.bin
refuses 1 "no such file" train --data missing.txt --init tiny.json --output-dir gone
refuses 1 "holds no text" train --data empty.txt --init tiny.json --output-dir gone
refuses 1 "short.txt\|tokens" train --data short.txt --init tiny.json --output-dir gone
refuses 1 "not UTF-8" train --data latin.txt --init tiny.json --strict-utf8 --output-dir gone
refuses 1 "cut short" train --data cut.tok --init tiny.json --vocab-size 360 --output-dir gone
refuses 1 "vocabulary" train --data packed.tok --init tiny.json --output-dir gone
refuses 1 "id 511\|511" train --data llmc.bin --init tiny.json --output-dir gone
refuses 1 "tokenizer has 360 tokens" train --data text.txt --tokenizer tok --init tiny.json --output-dir gone
refuses 1 "another tokenizer" train --data packed.tok --model straight --output-dir gone
refuses 1 "give it alone" train --data packed.tok --data text.txt --init tiny.json --output-dir gone
refuses 1 "there is no tokenizer" train --data text.txt --tokenizer missing --init tiny.json --output-dir gone
refuses 1 "positions" $train --block-size 65 --output-dir gone
exits 0 "an llm.c file" train --data llmc.bin --init tiny.json --vocab-size 512 --block-size 16 --steps 1 \
    --threads 1 --output-dir llmc
refuses 1 "no such file" eval --model straight --data missing.txt
refuses 1 "holds no text" eval --model straight --data empty.txt
check "eval leaves no temporary file" test -z "$(ls -A temporary)"
refuses 1 "missing.txt" generate --model straight --prompt-file missing.txt
refuses 1 "a token file already" pack --data packed.tok --output gone
refuses 1 "holds no text" pack --data empty.txt --output gone

# ---- bad models ----

refuses 1 "no model shape" train --data text.txt --init gpt5 --output-dir gone
refuses 1 "missing.json" train --data text.txt --init missing.json --output-dir gone
refuses 1 "there is no directory" train --data text.txt --model missing --output-dir gone
refuses 1 "no model directory" train --data text.txt --model tok --output-dir gone
for change in 's/"n_head": 2/"n_head": 3/' 's/"n_head": 2/"n_head": 0/' 's/"n_layer": 2/"n_layer": "two"/' \
    's/"n_embd": 16/"n_embd": -16/' 's/gpt2/bert/' 's/}//' 's/257/999999999999/'; do
    sed "$change" tiny.json >bad.json
    refuses 1 "bad.json" train --data text.txt --init bad.json --output-dir gone
done

# A copy of the model to spoil.
spoil() {
    rm -rf spoiled
    cp -r straight/checkpoint-12 spoiled
}
spoil
rm spoiled/model.safetensors
refuses 1 "no model.safetensors" train --data text.txt --model spoiled --output-dir gone
spoil
head -c 20000 straight/checkpoint-12/model.safetensors >spoiled/model.safetensors
refuses 1 "model.safetensors" train --data text.txt --model spoiled --output-dir gone
refuses 1 "model.safetensors" generate --model spoiled --prompt x
spoil
printf '\377\377\377\377\377\377\377\177{}' >spoiled/model.safetensors
refuses 1 "model.safetensors" train --data text.txt --model spoiled --output-dir gone
spoil
header='{"transformer.wte.weight":{"dtype":"F32","shape":[257,16],"data_offsets":[0,16448]}}       '
printf "\\$(printf %o ${#header})\000\000\000\000\000\000\000%s" "$header" >spoiled/model.safetensors
refuses 1 "model.safetensors" train --data text.txt --model spoiled --output-dir gone
for change in 's/"n_embd": 16/"n_embd": 32/' 's/"vocab_size": 257/"vocab_size": 300/' 's/"n_layer": 2/"n_layer": 3/'; do
    spoil
    sed "$change" straight/checkpoint-12/config.json >spoiled/config.json
    refuses 1 "spoiled" train --data text.txt --model spoiled --output-dir gone
done
spoil
: >spoiled/tokenizer.json
refuses 1 "tokenizer.json" eval --model spoiled --data text.txt

# ---- writing that fails ----

refuses 5 "text.txt/below" $train --output-dir text.txt/below
refuses 5 "cannot" $train --output-dir text.txt
refuses 5 "cannot" $train --output-dir /proc/eitp
refuses 5 "text.txt/below" tokenizer train --data text.txt --output text.txt/below
"$eitp" pack --data text.txt --output text.txt/below >out 2>err
check "pack below a file" test $? -ne 0 -a "$(lines err)" -eq 1

# A limit of file sizes, in units of 512 bytes: first below the packed text, then between that and the weights.
limited() {
    (
        ulimit -f "$1"
        shift
        exec "$eitp" "$@" >out 2>err </dev/null
    )
}
limited 20 $train --output-dir gone
check "packing to a full disk" test $? -eq 5 -a "$(lines err)" -eq 1 -a ! -e gone
blocks=$(($(wc -c <straight/checkpoint-12/model.safetensors) / 512 - 8))
limited $blocks train --data small.txt --init tiny.json --block-size 16 --threads 1 --steps 3 --output-dir full -q
check "saving to a full disk" test $? -eq 5 -a "$(lines err)" -eq 1
check "saving to a full disk leaves no part" test "$(ls -A full | tr '\n' ' ')" = "data metrics.jsonl run.json "
limited 1 tokenizer train --data text.txt --vocab-size 360 --output gone
check "a tokenizer to a full disk" test $? -eq 5 -a "$(lines err)" -eq 1
check "a tokenizer to a full disk leaves nothing" test ! -e gone

# The same on a real disk that is full.
mkdir -p disk
if [ "$(id -u)" = 0 ] && mount -t tmpfs -o size=120k tmpfs disk 2>/dev/null; then
    "$eitp" train --data small.txt --init tiny.json --block-size 16 --threads 1 --steps 3 \
        --output-dir disk/run -q >out 2>err
    check "a disk that is full" test $? -eq 5 -a "$(grep -c '^error: .*no space left' err)" -eq 1
    check "too little space is foreseen" grep -q '^warning: the disk' err
    check "a disk that is full has no checkpoint" test -z "$(ls -A disk/run 2>/dev/null | grep checkpoint)"
    umount disk
else
    echo "SKIPPED a full disk: mounting one needs root; a limit of file sizes stands for it"
fi

# More memory than there may be.
if (ulimit -v 3000000) 2>/dev/null; then
    (
        ulimit -v 3000000
        exec "$eitp" train --data text.txt --init gpt2-xl --output-dir gone --threads 1 >out 2>err
    )
    check "too little memory" test $? -eq 2 -a "$(lines err)" -eq 1
    rm -rf gone
else
    echo "SKIPPED too little memory: the shell has no ulimit -v"
fi

# ---- what goes on from a checkpoint, and what cannot ----

refuses 1 "made with grad_accum 4, and this run has 2; leave --grad-accum out" train --resume straight/checkpoint-12 \
    --grad-accum 2 --output-dir gone
refuses 1 "made with batch_size 1, and this run has 3; leave --batch-size out" train --resume straight/checkpoint-12 \
    --batch-size 3 --output-dir gone
exits 0 "fewer steps than were made" train --resume straight/checkpoint-12 --steps 2 --output-dir straight --threads 1
check "fewer steps than were made: said" grep -q 'step 12 was made already, and 2 were asked for: nothing to do' err
check "fewer steps than were made: the end" grep -q '^finished: step 12 (2 were asked for)' out

# Kernels that the environment asks for, and that are not the checkpoint's: of a run that is resumed, refused.
made_with=$(sed -n 's/.*"numerics": "cpu-\([a-z0-9]*\)-.*/\1/p' straight/checkpoint-12/trainer_state.json)
other=ref
[ "$made_with" != ref ] || other=avx2
environment=${EITP_ISA-}
export EITP_ISA=$other
refuses 1 "made with EITP_ISA $made_with, and the environment has $other" train --resume straight/checkpoint-12 --steps 14 \
    --output-dir gone
EITP_ISA=$made_with
exits 0 "the same kernels" train --resume straight/checkpoint-12 --steps 13 --output-dir same_kernels --threads 1
EITP_ISA=$environment
[ -n "$environment" ] || unset EITP_ISA
environment=${EITP_PRODUCTS-}
other=openblas
! grep -q '"numerics": ".*openblas' straight/checkpoint-12/trainer_state.json || other=own
export EITP_PRODUCTS=$other
refuses 1 "made with EITP_PRODUCTS [a-z]*, and the environment has $other" train --resume straight/checkpoint-12 \
    --steps 14 --output-dir gone
EITP_PRODUCTS=$environment
[ -n "$environment" ] || unset EITP_PRODUCTS

# The data ends where the samples do, whatever the schedule says.
cp -r epochs ended
sed 's/"schedule_steps": 4/"schedule_steps": 9/' epochs/checkpoint-4/trainer_state.json >ended/checkpoint-4/trainer_state.json
exits 0 "the data ends" train --resume auto --output-dir ended --threads 1
check "the data ends: said" grep -q 'training ends after step 4: all [0-9]* samples were used' err
check "the data ends: no step" test "$(ls -d ended/checkpoint-*)" = ended/checkpoint-4
check "the data ends: the run is finished" grep -q '^finished: step 4 of 4' out

# ---- a loss that is not finite ----

spoil
printf '\000\000\300\177' | dd of=spoiled/model.safetensors bs=1 conv=notrunc \
    seek=$(($(wc -c <spoiled/model.safetensors) - 4)) 2>/dev/null
refuses 4 "the loss of 'spoiled' on this data is -*nan, which is not finite" eval --model spoiled --data text.txt \
    --threads 1
exits 0 "training a model that is not finite" train --data text.txt --model spoiled --block-size 16 --threads 1 --steps 1 \
    --eval-steps 1 --output-dir not_finite
check "a validation that is not finite is said" grep -q \
    '^warning: the validation loss after step 0 is not finite' err

# ---- steps that fail ----

# Tokens that are gone when the next step reads them: nothing was changed, so what was done is saved.
"$eitp" $train --steps 100000000 --eval-steps 0 --save-steps 0 --output-dir unread >running.out 2>running.err </dev/null &
process=$!
wait_for 'step 1/' running.err
for file in unread/data/*; do
    : >"$file"
done
wait $process
check "a step that cannot be read: exit code" test $? -eq 1
check "a step that cannot be read: said" grep -q '^error: step [0-9]* was not made, and nothing was changed: ' running.err
check "a step that cannot be read: what was done is saved" test "$(ls -d unread/checkpoint-* | wc -l)" -eq 1

# Streamed weights that cannot be written back: the state is torn, and is not saved, though a checkpoint's files, of 11
# and 21 MB, could be written where the one of 32 MB cannot.
if command -v prlimit >/dev/null 2>&1; then
    exits 0 "an undisturbed run" $large --steps 4 --lr-schedule constant --output-dir undisturbed
    exits 0 "steps before a torn one" $large --steps 2 --lr-schedule constant --stream all --optimizer adamw \
        --output-dir torn
    "$eitp" train --resume auto --output-dir torn --steps 100000000 --threads 1 >running.out 2>running.err </dev/null &
    process=$!
    wait_for 'step 3/' running.err
    prlimit --pid $process --fsize=25000000
    wait $process
    check "torn: exit code" test $? -eq 5
    check "torn: said" grep -q '^error: step [0-9]* failed half-way; resume from the last checkpoint: ' running.err
    check "torn: from where to go on" grep -q \
        '^error: nothing was saved after the failure; go on with --resume torn/checkpoint-2' running.err
    check "torn: nothing is saved" test "$(ls -d torn/checkpoint-*)" = torn/checkpoint-2
    exits 0 "torn: resume" train --resume auto --output-dir torn --steps 4 --threads 1
    check "torn: resumed with the same bits" same_checkpoints undisturbed/checkpoint-4 torn/checkpoint-4
else
    echo "SKIPPED a step that fails half-way: there is no prlimit to make it fail"
fi

cd / && rm -rf "$work"
echo "$passed passed, $failed failed"
[ $failed -eq 0 ]
