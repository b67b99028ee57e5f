#!/bin/sh
# The command: --resume auto with a damaged checkpoint continues from the previous one.
. tests/command/command.sh

train_straight

# Copies the run as of checkpoint 8 to the directory $1, with checkpoint 4 to fall back to.
make_run() {
    rm -rf "$1"
    mkdir "$1"
    cp -r straight/checkpoint-4 straight/checkpoint-8 straight/metrics.jsonl straight/run.json "$1"
}

# damaged NAME: resumes the run in that directory, whose checkpoint-8 is damaged.
damaged() {
    exits 0 "$1" train --resume auto --output-dir "$1" --threads 1
    check "$1: continues from the previous one" grep -q "^resuming from '$1/checkpoint-4' at step 4" err
    check "$1: one warning" test "$(grep -c '^warning: ' err)" -eq 1
    check "$1: it names the checkpoint" grep -q "^warning: .*checkpoint-8" err
    check "$1: the same bits" same_checkpoints straight/checkpoint-12 "$1/checkpoint-12"
    check "$1: the damaged one is kept" test -d "$1/checkpoint-8.damaged" -a -d "$1/checkpoint-8"
}

size=$(wc -c <straight/checkpoint-8/model.safetensors)
make_run a_byte
printf '\252' | dd of=a_byte/checkpoint-8/model.safetensors bs=1 seek=$((size / 2)) conv=notrunc 2>/dev/null
exits 0 "--print-config" train --resume auto --output-dir a_byte --print-config
check "--print-config: the options of the run" grep -q '^steps  *12' out
check "--print-config changes nothing" test -d a_byte/checkpoint-8 -a ! -e a_byte/checkpoint-8.damaged
check "--print-config: no file" test "$(ls -A a_byte | tr '\n' ' ')" = "checkpoint-4 checkpoint-8 metrics.jsonl run.json "
damaged a_byte

# The header of the weights is read before their data, for the model's configuration.
make_run header
printf '\252' | dd of=header/checkpoint-8/model.safetensors bs=1 seek=9 conv=notrunc 2>/dev/null
damaged header

# The options of the damaged and the previous checkpoint differ.
make_run options
exits 0 "a setting of the newest checkpoint" set options/checkpoint-8 lr=1e-5
echo >>options/checkpoint-8/optimizer.safetensors
check "options: other weights, of the same size" test "$(wc -c <options/checkpoint-8/model.safetensors)" -eq "$size"
printf '\252' | dd of=options/checkpoint-8/model.safetensors bs=1 seek=$((size - 5)) conv=notrunc 2>/dev/null
damaged options
check "options: the previous one's" sh -c '! grep -q "1e-05\|changed from" err'

make_run truncated
head -c 1000 straight/checkpoint-8/optimizer.safetensors >truncated/checkpoint-8/optimizer.safetensors
damaged truncated

make_run no_tokenizer
rm no_tokenizer/checkpoint-8/tokenizer.json
damaged no_tokenizer

make_run empty
rm -r empty/checkpoint-8
mkdir empty/checkpoint-8
damaged empty

make_run run_json
printf '{"run": {}, "conf' >run_json/run.json
exits 0 "a truncated run.json" train --resume auto --output-dir run_json --threads 1
check "a truncated run.json: the same bits" same_checkpoints straight/checkpoint-12 run_json/checkpoint-12
check "a truncated run.json: no warning" sh -c '! grep -q "^warning: " err'

# Next to a checkpoint of an earlier version, which contains no run.json.
make_run earlier
make_earlier earlier/checkpoint-8
printf '{"configuration": {"steps": 1' >earlier/run.json
refuses 1 "no run.json in or next to 'earlier/checkpoint-8'" train --resume auto --output-dir earlier
exits 0 "a truncated run.json of an earlier version" train --resume auto --output-dir earlier --data text.txt --steps 12 \
    --eval-steps 5 --save-steps 4 --threads 1
check "a truncated run.json of an earlier version: reported" grep -q "^warning: earlier/run.json" err
check "a truncated run.json of an earlier version: the same bits" same_checkpoints \
    straight/checkpoint-12 earlier/checkpoint-12

make_run all
for step in 4 8; do
    echo >all/checkpoint-$step/optimizer.safetensors
done
refuses 1 "has only damaged checkpoints" train --resume auto --output-dir all
make_run named
echo >named/checkpoint-8/optimizer.safetensors
refuses 1 "damaged" train --resume named/checkpoint-8
check "by its name: it keeps the name" test -d named/checkpoint-8 -a ! -e named/checkpoint-8.damaged
cp straight/checkpoint-8/optimizer.safetensors named/checkpoint-8
printf '\252' | dd of=named/checkpoint-8/model.safetensors bs=1 seek=$((size - 5)) conv=notrunc 2>/dev/null
refuses 1 "checkpoint-8/model.safetensors' is damaged: its checksum is .*; resume from another checkpoint" \
    train --resume named/checkpoint-8 --output-dir gone
exits 0 "by the name of the output directory" train --resume named --threads 1
check "by the name of the output directory: the same bits" same_checkpoints straight/checkpoint-12 named/checkpoint-12

check "a run in progress" start_until 'saved ' $train --steps 100000000 --save-steps 1 --output-dir busy
refuses 1 "another process is training in 'busy'" train --resume auto --output-dir busy
exits 0 "the options of a run in progress" train --resume auto --output-dir busy --print-config
kill -TERM $process
wait_for_end
check "a run in progress ends" test $? -eq 143

finish
