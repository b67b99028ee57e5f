#!/bin/sh
# The command: eitp doctor, on real endings, slowdowns and failures to learn, and on good runs. Slow cases are in
# doctor_cases.sh (make doctor-cases).
root=$PWD
. tests/command/command.sh

# ---- an idle machine ----

machine=$work/machine
mkdir -p "$machine/sys/class/thermal/thermal_zone0" "$machine/sys/class/hwmon" "$machine/proc/pressure" \
    "$machine/proc/sys/kernel/random" "$machine/proc/self" "$machine/sys/fs/cgroup/group" "$machine/dev" \
    "$machine/sys/devices/system/cpu/cpu0/cpufreq"
# becomes FILE TEXT: replaces a file of the machine atomically.
becomes() {
    echo "$2" >"$machine/new"
    mv "$machine/new" "$machine/$1"
}
temperature() {
    becomes sys/class/thermal/thermal_zone0/temp "$1"
}
available() { # kB
    becomes proc/meminfo "MemTotal: 100000000 kB
MemAvailable: $1 kB"
}
becomes sys/class/thermal/thermal_zone0/type x86_pkg_temp
temperature 50000
available 60000000
becomes proc/loadavg "0.10 0.10 0.10 1/100 1000"
becomes proc/pressure/memory "some avg10=0.00 avg60=0.00 avg300=0.00 total=0"
becomes proc/sys/kernel/random/boot_id one
becomes proc/sys/kernel/hostname here
becomes proc/self/cgroup "0::/group"
becomes sys/fs/cgroup/group/memory.events "oom 0
oom_kill 0"
becomes sys/devices/system/cpu/cpu0/cpufreq/scaling_cur_freq 3000000
: >"$machine/dev/kmsg"
EITP_SYSTEM_ROOT=$machine
export EITP_SYSTEM_ROOT

# diagnosed NAME DIR PATTERN: the whole first line matches this extended regular expression.
diagnosed() {
    exits 0 "$1" doctor "$2"
    if head -n 1 out | grep -qxE "$3"; then pass; else
        fail "$1: the first line is not \"$3\""
        sed 's/^/    /' out
    fi
}
# shows NAME WORDS: a line of the last diagnosis has the words. lacks: none has.
shows() {
    check "$1: shows \"$2\"" grep -q -e "$2" out
}
lacks() {
    check "$1: does not show \"$2\"" sh -c "! grep -q -e '$2' out"
}
well="no trouble found"

# recorded NAME RUN PROGRAM: the run with changed records. An awk program runs for each line of metrics.jsonl, where
# value(NAME) returns a number in it, put(NAME, VALUE) replaces one, and noise() is about +1 or -1 percent of 1.
recorded() {
    rm -rf "$1"
    cp -r "$2" "$1"
    rm -f "$1/summary.jsonl"
    awk 'function value(name) { return match($0, "\"" name "\": [-+0-9.e]*") ? substr($0, RSTART + length(name) + 4, RLENGTH - length(name) - 4) + 0 : -1 }
        function put(name, number) { sub("\"" name "\": [-+0-9.e]*", "\"" name "\": " number) }
        function noise() { return ((++noises * 7919) % 101 - 50) / 5000 }
        { step = value("step") } '"$3"' { print }' "$2/metrics.jsonl" >"$1/metrics.jsonl"
}

long="train --data text.txt --init tiny.json --block-size 64 --batch-size 4 --grad-accum 1 --threads 1 --dropout 0
    --precision $precision --lr 3e-3 --lr-schedule constant --eval-steps 0 --steps 100000000"

# ---- good runs ----

good="train --data text.txt --init tiny.json --block-size 64 --batch-size 4 --grad-accum 1 --threads 1 --dropout 0
    --precision $precision"
exits 0 "a language model" $good --lr 3e-3 --steps 120 --eval-steps 60 --save-steps 50 --output-dir good
diagnosed "a language model" good "$well"
shows "a language model" "  measured: it finished: step 120 of 120"
shows "a language model" "validation loss [0-9.]* after step 120"
exits 0 "fine-tuning" train --model good --data small.txt --batch-size 4 --grad-accum 1 --threads 1 --lr 3e-4 --steps 40 \
    --precision $precision --output-dir tuned
diagnosed "fine-tuning" tuned "$well"
exits 0 "adapters" train --model good --data small.txt --batch-size 4 --grad-accum 1 --threads 1 --lr 1e-3 --steps 30 \
    --lora-rank 4 --precision $precision --output-dir adapted
diagnosed "adapters" adapted "$well"

# Samples whose label is a word they contain, or another one.
mkdir words
printf '%s\n' '[PAD]' '[UNK]' '[CLS]' '[SEP]' '[MASK]' a b c d e f g h i j k l m n o p q r s t u v w x y z >words/vocab.txt
printf '{"tokenizer_class": "BertTokenizer"}\n' >words/tokenizer_config.json
cat >shape.json <<'END'
{"model_type": "bert", "architectures": ["BertModel"], "vocab_size": 32, "hidden_size": 32, "num_attention_heads": 2,
 "num_hidden_layers": 2, "intermediate_size": 64, "max_position_embeddings": 32, "hidden_dropout_prob": 0.0,
 "attention_probs_dropout_prob": 0.0}
END
# rows FIRST COUNT [shuffled|noisy|one|nearly]: a table of text without repeats.
rows() {
    awk -v first="$1" -v count="$2" -v kind="$3" 'BEGIN {
        print "text,label"
        split("a b c d e f g h i j k l m n o p q r s t", letter, " ")
        split("cold mild warm", name, " ")
        for (i = first; i < first + count; i++) {
            text = i % 3 == 0 ? "x" : i % 3 == 1 ? "y" : "z"
            for (j = i * 7 + 8000; j > 0; j = int(j / 20))
                text = text " " letter[j % 20 + 1]
            label = i % 3
            if (kind == "shuffled") label = int(i * 7919 / 31) % 3
            if (kind == "noisy" && int(i * 7919 / 31) % 2) label = int(i * 6271 / 17) % 3
            if (kind == "one" || (kind == "nearly" && i % 50)) label = 0
            print text "," name[label + 1]
        }
    }'
}
rows 0 240 >train.csv
rows 1000 60 >val.csv
labelled="train --init shape.json --tokenizer words --lr 2e-3 --lr-schedule constant --max-grad-norm 1 --threads 1 --precision $precision"
exits 0 "a classifier" $labelled --data train.csv --val-data val.csv --epochs 12 --eval-steps 60 --output-dir classifier
diagnosed "a classifier" classifier "$well"
exits 0 "a masked model" $labelled --task mlm --data train.csv --steps 60 --output-dir masked
diagnosed "a masked model" masked "$well"
exits 0 "early stop" $labelled --data train.csv --val-data val.csv --epochs 60 --eval-steps 20 --patience 2 --keep-best accuracy \
    --output-dir early
diagnosed "early stop" early "$well"
# A guide called this a slowdown of 30 %: 6.4 minutes for 45 steps, and 8.3 for 59.
recorded even good '/"perf\// { next } { put("step_time_s", 8.4 + noise()) }'
diagnosed "step times of a guide" even "$well"
recorded larger good '{ put("step_time_s", (step < 70 ? 1 : 2) + noise()); put("tokens", step < 70 ? 256 : 512) }'
diagnosed "steps with more work" larger "$well"
recorded back good '{ put("step_time_s", (step < 40 || step > 70 ? 1 : 2) + noise()) }'
diagnosed "steps that were slower for a while" back "$well"
recorded brief good '{ put("step_time_s", (step < 70 ? 0.1 : 0.2) + 0.1 * noise()) }'
diagnosed "a jump in a run of seconds" brief "$well"
shows "a jump in a run of seconds" "The run became slower: steps take [0-9.]* % longer from step 70 on: a jump, not a drift\.$"
for rate in 1e-6 1e-5 1e-4; do
    exits 0 "a short fine-tuning, $rate" train --model good --data small.txt --batch-size 2 --grad-accum 1 --block-size 16 --threads 1 \
        --lr $rate --steps 30 --save-steps 0 --precision $precision --output-dir tuned-$rate
    diagnosed "a short fine-tuning, $rate" tuned-$rate "$well"
done
exits 0 "several" doctor good tuned --json
check "several: an object for each" test "$(grep -c '^{"directory": ".*, "trouble": false, "findings": \[.*{"name": "well", "area": "end", "trouble": false, ' out)" -eq 2
exits 1 "one of several is not a run" doctor good machine
check "one of several is not a run: the other is diagnosed" grep -qx "$well" out

# ---- ends by signals ----

check "running: a save" start_until '^saved ' $long --save-steps 30 --output-dir killed
diagnosed "running" killed "$well"
shows "running" "it is training: step [0-9]* of 100000000"
kill -KILL $process
wait_for_end 2>/dev/null
diagnosed "kill -9" killed "The run was killed or crashed after step [0-9]+ or later: .*"
shows "kill -9" 'process [0-9]* was "running", last sign of life 20'
shows "kill -9" "  do: eitp train --resume auto --output-dir killed$"
shows "kill -9" "  do: .*eitp safe-train -- train --resume auto --output-dir killed$"
pid=$(sed -n 's/.*"pid": \([0-9]*\),.*/\1/p' killed/run.json)
echo "6,900,1,-;Out of memory: Killed process 1$pid (eitp) total-vm:1kB" >"$machine/dev/kmsg"
diagnosed "the kernel ended another process" killed "The run was killed or crashed after step .*"
echo "6,901,2,-;Out of memory: Killed process $pid (eitp) total-vm:123456kB, anon-rss:100000kB" >>"$machine/dev/kmsg"
diagnosed "the kernel's log" killed "The kernel killed the run because memory ran out after step [0-9]+\."
shows "the kernel's log" "  measured: Out of memory: Killed process $pid (eitp) total-vm:123456kB"
shows "the kernel's log" "  do: eitp train --resume auto --output-dir killed --auto-shrink$"
echo "6,902,3,-;eitp[$pid]: segfault at 0 ip 0 sp 0 error 4 in eitp" >"$machine/dev/kmsg"
diagnosed "a crash in the kernel's log" killed "The run crashed after step [0-9]+\."
: >"$machine/dev/kmsg"
becomes sys/fs/cgroup/group/memory.events "oom 1
oom_kill 1"
diagnosed "the group's count" killed "The kernel probably killed the run because memory ran out, after step .*"
shows "the group's count" "measured: oom_kill 1 of this control group"
becomes sys/fs/cgroup/group/memory.events "oom 0
oom_kill 0"
becomes proc/sys/kernel/random/boot_id two
diagnosed "another start of the machine" killed "The machine rebooted during training, after step [0-9]+ or later; possible causes: .*"
shows "another start of the machine" "  do: sudo journalctl -b -1"
shows "another start of the machine" "  do: eitp train --resume auto --output-dir killed$"
becomes proc/sys/kernel/hostname elsewhere
diagnosed "another machine" killed "$well"
shows "another machine" "The run was a process on another machine"
shows "another machine" "  do: on here: eitp doctor "
becomes proc/sys/kernel/hostname here
becomes proc/sys/kernel/random/boot_id one

# supervised NAME SIGNAL OPTIONS...: safe-train, with a command that gets a signal after a save.
supervised() {
    name=$1
    number=$2
    shift 2
    check "$name: a save" start_until '^saved ' safe-train --max-restarts 0 --kill-after 1 "$@"
    child=$(sed -n 's/.*"child": \([0-9]*\),.*/\1/p' $name/logs/supervisor.json)
    kill -s "$number" "$child"
    wait_for_end 2>/dev/null
}
supervised crashed SEGV -- $long --save-steps 30 --output-dir crashed
diagnosed "SIGSEGV" crashed "The run crashed \(SIGSEGV\) after step [0-9]+\."
shows "SIGSEGV" "killed by SIGSEGV (logs/supervisor.json)"
shows "SIGSEGV" "more of its output: .*crashed/logs/error_"
supervised ended KILL -- $long --save-steps 30 --output-dir ended
diagnosed "SIGKILL" ended "The run was killed by SIGKILL after step [0-9]+, .*"
becomes sys/fs/cgroup/group/memory.events "oom_kill 3"
diagnosed "SIGKILL for memory" ended "The kernel probably killed the run because memory ran out, after step .*"
diagnosed "a crash is not" crashed "The run crashed \(SIGSEGV\) after step [0-9]+\."
becomes sys/fs/cgroup/group/memory.events "oom_kill 0"
# The records have step 60 or later, but the heartbeat in run.json has none.
seen=$(sed -n 's/.*"reason": "killed by SIGKILL", "exit_code": 137, "step": \([0-9]*\),.*/\1/p' ended/logs/supervisor.json)
sed 's/"state": "running", "step": [0-9]*/"state": "running", "step": 0/' ended/run.json >signs && mv signs ended/run.json
check "SIGKILL, resumed: a save" start_until '^saved ' train --resume auto --output-dir ended
kill -TERM $process
wait_for_end 2>/dev/null
diagnosed "SIGKILL, resumed" ended "The run was stopped by a signal after step [0-9]+; its steps are saved\."
shows "SIGKILL, resumed" "^An earlier process of this run was interrupted: killed by SIGKILL after step $seen\.$"
shows "SIGKILL, resumed" "  measured: killed by SIGKILL after step $seen (logs/supervisor.json)$"
rm ended/logs/supervisor.json
diagnosed "SIGKILL, resumed, without safe-train" ended "The run was stopped by a signal after step .*"
lacks "SIGKILL, resumed, without safe-train" "after step 0"
supervised stopped TERM -- $long --save-steps 30 --output-dir stopped
diagnosed "SIGTERM" stopped "The run was stopped by SIGTERM after step [0-9]+; its steps are saved\."
rm -r stopped/logs
diagnosed "SIGTERM without safe-train" stopped "The run was stopped by a signal after step [0-9]+; its steps are saved\."
supervised stalled STOP --stall-timeout 1 -- $long --save-steps 30 --output-dir stalled
diagnosed "a process that makes no progress" stalled "The run stalled: no sign of life for 1 s after step [0-9]+, so safe-train stopped it\."

# ---- ends recorded by the run ----

exits 2 "a budget that is too small" safe-train -q -- $good --steps 5 --memory-budget 1M --output-dir budget
diagnosed "a budget that is too small" budget "The run did not fit in memory and was refused before step 1 \(exit code 2\)\."
shows "a budget that is too small" "  do: eitp train .* --memory-budget [0-9]*M --output-dir budget-again$"
lacks "a budget that is too small" "memory-budget 1M .*-budget .*budget-again"
printf '{"model_type": "gpt2", "n_embd": 17}' >wrong.json
exits 1 "refused" safe-train -q -- train --data text.txt --init wrong.json --output-dir refused
diagnosed "refused" refused "The run was refused before step 1 \(exit code 1\)\."
shows "refused" "last line of output: error: "

check "pressure: a first step" start_until '^step 10/' $long --auto-shrink --save-steps 0 --output-dir pressed
available 1
wait_for_end 2>/dev/null
check "pressure: exit code" test $? -eq 3
available 60000000
diagnosed "memory that stays short" pressed "The run stopped because memory stayed low after step [0-9]+ \(exit code 3\)\."
shows "memory that stays short" "  do: eitp train --resume auto --output-dir pressed --auto-shrink$"
shows "memory that stays short" "measured: after step [0-9]*: memory is short"

# A separate machine becomes hot. The run writes that it pauses every 30 seconds, which is checked below.
cp -r "$machine" hot_machine
EITP_SYSTEM_ROOT=$work/hot_machine start_until '^step 10/' $long --save-steps 0 --output-dir hot
check "heat: a first step" test $? -eq 0
mv running.err hot.err
hot=$process hot_reader=$reader
machine=$work/hot_machine
temperature 99000
machine=$work/machine

exits 4 "divergence" $good --lr 3 --max-grad-norm 0 --lr-schedule constant --weight-decay 1000 --steps 40 --eval-steps 0 --save-steps 10 \
    --output-dir diverged
diagnosed "divergence" diverged "The run ended because its (loss diverged|numbers became non-finite) after step [0-9]+ .*"
shows "divergence" "  do: eitp train .*--lr 0.3"
cp -r good/checkpoint-120 spoiled
printf '\000\000\300\177' | dd of=spoiled/model.safetensors bs=1 conv=notrunc seek=$(($(wc -c <spoiled/model.safetensors) - 4)) \
    2>/dev/null
exits 4 "weights that are not finite" train --data text.txt --model spoiled --threads 1 --batch-size 4 --grad-accum 1 --steps 10 \
    --precision $precision --output-dir not_finite
diagnosed "weights that are not finite" not_finite "The run ended because the gradient was not finite from the first step on: .*"
shows "weights that are not finite" "  do: eitp train .* --check-finite op --output-dir not_finite-again$"

if command -v prlimit >/dev/null 2>&1; then
    check "a limit of file sizes: a save" start_until '^saved ' $long --save-steps 30 --output-dir full
    prlimit --pid $process --fsize=60000
    wait_for_end 2>/dev/null
    diagnosed "a limit of file sizes" full "The run ended because the disk was full or a file size limit was reached, after step [0-9]+ \(exit code 5\)\."
    shows "a limit of file sizes" "measured: .*ulimit -f"
else
    echo "SKIPPED a limit of file sizes: prlimit is missing"
fi
(ulimit -f 100 && exec "$eitp" safe-train -q --max-restarts 0 -- $good --steps 5 --output-dir room >out 2>err </dev/null)
diagnosed "no room before step 1" room "The run was refused because its checkpoints do not fit on the disk \(exit code 5\)\."
check "data that end: a first step" start_until '^step 10/' $long --save-steps 0 --output-dir unread
for file in unread/data/*; do
    : >"$file"
done
wait_for_end 2>/dev/null
diagnosed "data that end" unread "The run failed after step [0-9]+: step [0-9]+ failed, and nothing was changed: .*"

# ---- missing data ----

mkdir early_version
cp killed/metrics.jsonl early_version
diagnosed "no run.json" early_version "The end of the run is not recorded: its records stop after step [0-9]+\."
shows "no run.json" "^not examined: run.json is missing$"
shows "no run.json" "  do: restart it with the command that started it$"
refuses 1 "requires the directory of a run" doctor
refuses 1 "has no run" doctor machine

# ---- it does not learn ----

exits 0 "a hundred times too high" $good --lr 0.3 --steps 60 --output-dir high
diagnosed "a hundred times too high" high "The learning rate is too high: .*"
shows "a hundred times too high" "  do: eitp train .* --lr 0.009 --output-dir high-again$"
exits 0 "diverging" $good --lr 1 --steps 100 --save-steps 0 --output-dir diverging
diagnosed "diverging" diverging "The learning rate is too high: .*"
shows "diverging" "measured: the loss diverges: "
exits 0 "1e-7" $good --lr 1e-7 --steps 40 --output-dir low
diagnosed "1e-7" low "The learning rate is too low: .*"
shows "1e-7" "  do: eitp train .* --lr 0.001 --output-dir low-again$"
exits 0 "a rate of 0" $good --lr 0 --steps 30 --output-dir frozen
lacks "1e-7" "resume auto"
# A single noisy loss at the start hides that the loss did not fall.
recorded noisy_start low '{ put("loss", value("loss") - (step == 1 ? 0.2 : 0) + noise()) }'
diagnosed "1e-7, and a first loss by chance" noisy_start "The learning rate is too low: .*"
shows "1e-7, and a first loss by chance" "measured: 5.549 = ln 257 is the loss of a uniform prediction over all tokens"
shows "1e-7, and a first loss by chance" "measured: in 40 steps it fell by at most [0-9.]* (95 % limit of the trend of loss)"
exits 0 "fine-tuning at 1e-9" train --model good --data small.txt --batch-size 4 --grad-accum 1 --threads 1 --lr 1e-9 --steps 40 \
    --save-steps 0 --precision $precision --output-dir still
diagnosed "fine-tuning at 1e-9" still "The learning rate is too low: .*"
recorded flat good '{ put("loss", 5.55 + noise()); put("val_loss", 5.55) }'
diagnosed "a loss that does not fall" flat "The loss has not fallen: the model has learned nothing\."
shows "a loss that does not fall" "  do: eitp train .*--lr 0.0003 --output-dir flat-again$"
diagnosed "a rate of 0" frozen "Nothing is being trained: no update has changed a weight\."
exits 0 "warm-up" $good --lr 3e-3 --steps 30 --warmup-steps 25 --output-dir warming
diagnosed "warm-up" warming "Warm-up takes most of the run: 25 of 30 steps\."
exits 0 "too few steps" $good --lr 1e-4 --lr-schedule constant --steps 90 --output-dir short
diagnosed "too few steps" short "The run has too few steps: .*"
shows "too few steps" "  do: eitp train .* --steps 900 --output-dir short-again$"
rows 0 120 noisy >noisy.csv
rows 1000 120 noisy >noisy_val.csv
exits 0 "overfitting" $labelled --data noisy.csv --val-data noisy_val.csv --lr 3e-3 --epochs 60 --eval-steps 40 --save-steps 0 \
    --output-dir overfitted
diagnosed "overfitting" overfitted "The run overfits: its validation loss was lowest after step [0-9]+ and has risen since\."

{
    rows 0 240 shuffled
    rows 0 240 | sed 1d
} >contradicting.csv
exits 0 "labels that contradict each other" $labelled --data contradicting.csv --val-data val.csv --epochs 3 --output-dir contradicting
diagnosed "labels that contradict each other" contradicting "The labels contradict each other, as if they were shuffled: .*"
shows "labels that contradict each other" "data.ambiguous in run.json"
rows 0 240 shuffled >shuffled.csv
rows 1000 90 shuffled >shuffled_val.csv
exits 0 "shuffled labels" $labelled --data shuffled.csv --val-data shuffled_val.csv --lr 3e-3 --epochs 25 --eval-steps 100 --output-dir shuffled
diagnosed "shuffled labels" shuffled "The labels do not depend on the text, as if they were shuffled: .*"
shows "shuffled labels" "validation: best accuracy [0-9.]* (standard error [0-9.]*); the most frequent label alone gives 0.3"
rows 0 240 one >one.csv
exits 0 "one label" $labelled --data one.csv --val-data one.csv --epochs 2 --output-dir one
diagnosed "one label" one "All samples have the same label, so there is nothing to learn\."
rows 0 240 nearly >nearly.csv
exits 0 "nearly one label" $labelled --data nearly.csv --val-data val.csv --epochs 3 --output-dir nearly
diagnosed "nearly one label" nearly "Almost all samples have the same label: 9[0-9] %\."
{
    rows 0 120
    rows 0 120 | sed 1d
} >twice.csv
exits 0 "duplicate samples" $labelled --data twice.csv --epochs 12 --output-dir twice
diagnosed "duplicate samples" twice "Many samples are duplicates: 50 % of them repeat another one, so validation uses samples that were trained on\."
shows "duplicate samples" "  do: eitp train .* --dedup --output-dir twice-again$"
exits 0 "duplicates only in the training data" $labelled --data twice.csv --val-data val.csv --epochs 12 --output-dir apart
diagnosed "duplicates only in the training data" apart "$well"

# Letters of another alphabet, two bytes each, with an English tokenizer.
train_tokenizer
awk 'BEGIN { for (i = 0; i < 9000; i++) printf "\320%c", 176 + (i * i * 7 + i) % 15 }' >other.txt
exits 0 "another language's tokenizer" train --data other.txt --tokenizer tok --init tiny.json --vocab-size 360 --block-size 64 --batch-size 4 \
    --grad-accum 1 --threads 1 --precision $precision --lr 3e-3 --steps 60 --output-dir foreign
diagnosed "another language's tokenizer" foreign "The tokenizer does not fit the text: it splits it into single bytes, .*"
exits 0 "its own tokenizer" train --data text.txt --tokenizer tok --init tiny.json --vocab-size 360 --block-size 64 --batch-size 4 \
    --grad-accum 1 --threads 1 --precision $precision --lr 3e-3 --dropout 0 --steps 60 --output-dir own
diagnosed "its own tokenizer" own "$well"

sed 's/^\([xyz]\) /\1 \xc3\xa9t\xc3\xa9 /' train.csv >accents.csv
exits 0 "unknown words" $labelled --data accents.csv --val-data val.csv --epochs 12 --output-dir accents
diagnosed "unknown words" accents "The tokenizer does not fit the text: 1[0-9] % of the words are unknown to it\."

# ---- it is slow ----

exits 0 "profiled" $good --lr 3e-3 --steps 30 --profile-every 1 --output-dir profiled
diagnosed "profiled" profiled "The run is slow because every single step is profiled\."
exits 0 "recorded in full" $good --lr 3e-3 --steps 30 --monitor full --log-full-every 1 --output-dir full_records
diagnosed "recorded in full" full_records "The run is slow because many steps are recorded in full\."
wide="train --data text.txt --init large.json --block-size 16 --batch-size 1 --threads 1 --dropout 0 --precision $precision --lr 1e-3 --eval no
    --save-steps 0 --peak-tflops 10"
exits 0 "a small batch" $wide --grad-accum 1 --steps 20 --output-dir small_batch
diagnosed "a small batch" small_batch "The run is slow because its batch is too small: 16 tokens per step\."
shows "a small batch" "  do: eitp bench --sweep batch-size"
exits 0 "small passes" $wide --grad-accum 8 --micro-batches-per-pass 1 --steps 4 --output-dir small_passes
diagnosed "small passes" small_passes "The run is slow because its passes are small and limited by memory bandwidth: 16 tokens at a time\."
shows "small passes" "  do: eitp train .* --micro-batches-per-pass 8 --output-dir small_passes-again$"
exits 0 "a large batch" $wide --batch-size 4 --grad-accum 4 --steps 4 --output-dir large_batch
diagnosed "a large batch" large_batch "$well"

recorded jumped good '/"perf\// { next } step > 59 { next }
    { put("step_time_s", (step < 46 ? 8.5 : 11) + noise()); put("loss", 2 + 3 / (step + 1) + noise()) }'
diagnosed "a jump" jumped "The run became slower: steps take (29|30)\.[0-9] % longer from step 46 on: a jump, not a drift\."
shows "a jump" "  measured: 8.5[0-9]* s before, 11 s now, p < 0.001 (step_time_s; eitp report --trend)"
lacks "a jump" "resume auto"
recorded rising good '/"perf\// { next } { put("step_time_s", 1 + step / 200 + noise()) }'
diagnosed "a rise" rising "The run became slower: steps take .* % longer per 1000 steps .*\."

exits 0 "evaluates too often" $good --lr 3e-3 --steps 60 --eval-steps 1 --val-fraction 0.5 --save-steps 0 --output-dir evaluating
diagnosed "evaluates too often" evaluating "The run is slow because it evaluates too often: [5-9][0-9] % of its time\."
shows "evaluates too often" "  do: eitp train .* --eval-steps [0-9]* --output-dir evaluating-again$"

# The frequency falls between the two halves.
exits 0 "throttling: the first half" $good --lr 3e-3 --steps 100 --perf-every 20 --eval no --output-dir throttled
becomes sys/devices/system/cpu/cpu0/cpufreq/scaling_cur_freq 1200000
exits 0 "throttling: the second half" train --resume auto --output-dir throttled --steps 200
becomes sys/devices/system/cpu/cpu0/cpufreq/scaling_cur_freq 3000000
diagnosed "throttling" throttled "The run is slow because the processor lowered its frequency: 1200 MHz, down from 3000\."

# Slow reads and syncs.
if "${CC:-cc}" -shared -fPIC -o calls.so "$root/tests/command/failing_calls.c" -ldl 2>compiler &&
    CALLS_COUNT=$work/count LD_PRELOAD=$work/calls.so "$eitp" --version >/dev/null 2>&1 && [ -e count ]; then
    # Otherwise the command would execute itself again to set it.
    GOMP_SPINCOUNT=1000 CALLS_SLOW=8 LD_PRELOAD=$work/calls.so "$eitp" $good --lr 3e-3 --steps 40 --eval no --save-steps 0 \
        --output-dir slow_data >out 2>err </dev/null
    diagnosed "slow data" slow_data "The run is slow because it waits for data: [0-9]{2,3} % of its step time\."
    shows "slow data" "perf/data_loading_time"
    shows "slow data" "  do: eitp train .* --data-workers 2 --output-dir slow_data-again$"
    lacks "slow data" "resume auto"
    GOMP_SPINCOUNT=1000 CALLS_SLOW_SYNC=10 LD_PRELOAD=$work/calls.so "$eitp" $good --lr 3e-3 --steps 24 --eval no --save-steps 2 --async-save no \
        --output-dir saving >out 2>err </dev/null
    diagnosed "saves too often" saving "The run is slow because it saves too often: it waits [2-9][0-9] % of its time for checkpoints\."
    shows "saves too often" "  do: eitp train .* --save-steps [0-9]* --output-dir saving-again$"
else
    echo "SKIPPED slow data: ${CC:-cc} cannot build a shared object from tests/command/failing_calls.c"
fi

# ---- heat, from outside ----

process=$hot reader=$hot_reader
check "heat: pauses" sh -c "for i in \$(seq 600); do grep -q 'training pauses' hot.err && grep -q '\"state\": \"paused\"' hot/run.json && exit 0; sleep 0.05; done; exit 1"
diagnosed "heat" hot "The run is paused because a processor or device is too hot, after step [0-9]+\."
shows "heat" "training pauses before step [0-9]*: x86_pkg_temp is at 99.0 C"
sleep 1
machine=$work/hot_machine
temperature 50000
machine=$work/machine
check "heat: continues" sh -c "for i in \$(seq 600); do grep -q 'training continues' hot.err && exit 0; sleep 0.05; done; exit 1"
kill -TERM $process
wait_for_end 2>/dev/null
diagnosed "after the heat" hot "The run was stopped by a signal after step .*"
shows "after the heat" "^The run is slow because of heat: it was paused for [0-9]* % of its time"

# ---- text from files ----

cp -r killed odd
sed 's/"pid": [0-9]*/"pid": 3999999/; s/"state": "running"/"state": "failed"/; s/"alive": \([0-9.]*\)/"alive": \1, "message": "a \\u001b[31mred\\u0007 \\u009bline"/' \
    killed/run.json >odd/run.json
diagnosed "control characters" odd "The run failed after step [0-9]+: a \?\[31mred\? \?line"
check "control characters: none" sh -c "! tr -d '\n' <out | LC_ALL=C grep -q '[[:cntrl:]]'"
exits 0 "control characters in JSON" doctor odd --json
check "control characters in JSON: escaped" grep -q '"sentence": "The run failed after step [0-9]*: a \\u001b\[31mred\\u0007 ' out
for size in 0 1 100 1000 3000; do
    head -c $size killed/run.json >odd/run.json
    head -c $((size * 7)) killed/metrics.jsonl >odd/metrics.jsonl
    exits 0 "files cut off after $size bytes" doctor odd
done

finish
