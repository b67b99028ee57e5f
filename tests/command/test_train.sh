#!/bin/sh
# The command: training, and changes that leave its results bit-identical.
. tests/command/command.sh

train_straight
check "all checkpoints are kept" test -d straight/checkpoint-4 -a -d straight/checkpoint-8 -a -d straight/checkpoint-12
check "a record for each step" test "$(grep -c '"loss": ' straight/metrics.jsonl)" -eq 12
check "a record for each evaluation" test "$(grep -c '"val_loss": ' straight/metrics.jsonl)" -eq 4
check "the first evaluation is before step 1" sh -c \
    'grep -v event straight/metrics.jsonl | head -n 1 | grep -q "{\"step\": 0, \"val_loss\""'
check "records have events" test "$(grep -c '^{"step": [0-9]*, "event": "saved", "level": "info", "message": "saved .*, "time": [0-9.]*, "elapsed": [0-9.]*}$' \
    straight/metrics.jsonl)" -eq 3
for key in step loss lr grad_norm tokens_per_s step_time_s rss_bytes time elapsed; do
    check "records have $key" test "$(grep '"loss": ' straight/metrics.jsonl | grep -c "\"$key\": [0-9]")" -eq 12
done
check "the loss falls" awk -F '"val_loss": ' 'NF > 1 { split($2, a, ","); last = a[1]; if (!n++) first = last }
    END { exit !(last < first - 0.05) }' straight/metrics.jsonl
check "run.json" grep -q '"steps": 12' straight/run.json
for file in config.json model.safetensors optimizer.safetensors tokenizer.json trainer_state.json; do
    check "checkpoints have $file" test -s straight/checkpoint-12/$file
done
check "the log names the bytes" grep -q 'the tokens are bytes' err
check "the log names the device" grep -q '^device: cpu, .* kernels ' err
[ -e /proc/driver/nvidia ] ||
    check "and why" grep -q '^device: cpu, .*; chosen by --device auto because there is no NVIDIA GPU$' err
check "the log has the memory" grep -q '^memory: parameters' err

check "the result names the step of the evaluation" grep -q ' after step 12, [0-9]* tokens at ' out

exits 0 "prune" $train --steps 12 --save-steps 3 --lr 3e-3 --eval-steps 0 --output-dir pruned -q
check "-q: nothing" test ! -s out -a ! -s err
check "the newest two are kept" test "$(ls -d pruned/checkpoint-* | tr '\n' ' ')" = \
    "pruned/checkpoint-12 pruned/checkpoint-9 "
check "quiet" test ! -s err
check "--eval-steps 0: only at the end" test "$(grep -v event pruned/metrics.jsonl | grep -n val_loss | cut -d: -f1)" = 13
check "the interval of checkpoints changes nothing" same_checkpoints straight/checkpoint-12 pruned/checkpoint-12

PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True
export PYTORCH_CUDA_ALLOC_CONF
mkdir -p system/proc/driver/nvidia/gpus
EITP_SYSTEM_ROOT=$PWD/system
export EITP_SYSTEM_ROOT
exits 0 "a GPU that is not used" $train --steps 1 --output-dir beside_gpu
check "a GPU that is not used: why" \
    grep -q '^device: cpu, .*; chosen by --device auto because eitp.s CUDA backend was never run on a GPU; --device cuda uses' err
exits 0 "--device cpu" $train --steps 1 --device cpu --output-dir named_device
check "--device cpu: no reason" sh -c "grep '^device: cpu, ' err | grep -vq auto"
unset EITP_SYSTEM_ROOT
exits 0 "PyTorch's allocator" $train --steps 2 --output-dir allocator
check "PyTorch's allocator: one warning" test "$(grep -c '^warning: PYTORCH_CUDA_ALLOC_CONF has no effect: .*PyTorch' err)" -eq 1
check "a line: the seconds of a step" grep -qE '^step 2/2  loss .*  [0-9.e-]+ s/step  [0-9]+ tokens/s  ' err
exits 0 "PyTorch's allocator, quiet" $train --steps 4 --resume auto --output-dir allocator -q
check "PyTorch's allocator, quiet: no warning" sh -c '! grep -q PYTORCH err'
unset PYTORCH_CUDA_ALLOC_CONF

exits 0 "epochs" $train --epochs 0.01 --batch-size 3 --grad-accum 2 --output-dir epochs --save-steps 0 \
    --val-fraction 0 --json
check "an epoch ends in the middle of a step" grep -q '"step": 4, "steps": 4.*"tokens": 352,.*"stopped": null' out
check "without validation data there is none" sh -c '! grep -q val_loss epochs/metrics.jsonl'
check "--save-steps 0: only at the end" test "$(ls -d epochs/checkpoint-*)" = epochs/checkpoint-4

for threads in 2 3; do
    exits 0 "threads $threads" $train --steps 12 --lr 3e-3 --eval-steps 0 --output-dir threads$threads \
        --threads $threads -q
    check "$threads threads: bit-identical" same_checkpoints straight/checkpoint-12 threads$threads/checkpoint-12
done
for workers in 1 3; do
    exits 0 "data workers $workers" $train --steps 12 --lr 3e-3 --eval-steps 4 --save-steps 4 --output-dir workers$workers \
        --data-workers $workers --prefetch 3 -q
    check "$workers data workers: bit-identical" same_checkpoints straight/checkpoint-12 workers$workers/checkpoint-12
done
check "run.json has the data workers" grep -q '"data-workers": 3, "prefetch": 3' workers3/run.json
check "the checkpoint too" grep -q '^  "data_workers": 3,$' workers3/checkpoint-12/trainer_state.json
exits 0 "data workers: resumed without" train --resume auto --output-dir workers3 --steps 14 --data-workers 0 --threads 1
exits 0 "data workers: auto" train --data-workers auto --print-config
check "data workers: auto is a number" grep -q '^data-workers  *[1-9][0-9]*  (command line)$' out
exits 0 "another seed" $train --steps 12 --lr 3e-3 --eval-steps 0 --output-dir seed --seed 1 -q
check "another seed changes the weights" differ \
    straight/checkpoint-12/model.safetensors seed/checkpoint-12/model.safetensors
exits 0 "no dropout" $train --steps 12 --lr 3e-3 --eval-steps 0 --output-dir dropout --dropout 0 -q
check "dropout changes the weights" differ straight/checkpoint-12/model.safetensors dropout/checkpoint-12/model.safetensors
check "dropout is in config.json" grep -q '"attn_pdrop": 0,' dropout/checkpoint-12/config.json

# ---- saves in the background ----

member() { # name: its number in the file out
    sed "s/.*\"$1\": \([0-9]*\).*/\1/" out
}
exits 0 "background saves" $train --steps 12 --lr 3e-3 --eval-steps 4 --save-steps 4 --output-dir beside --json
check "background saves: all but the last" test "$(grep -c '^saved beside/checkpoint-[48] in .* s; training paused for .* s$' err)" -eq 2
check "background saves: the memory is planned" grep -q '^memory: .*, copy of a checkpoint .*; total' err
check "background saves: bit-identical" same_checkpoints straight/checkpoint-12 beside/checkpoint-12
check "background saves: bit-identical in between" same_checkpoints straight/checkpoint-8 beside/checkpoint-8
exits 0 "synchronous saves" $train --steps 12 --lr 3e-3 --eval-steps 4 --save-steps 4 --output-dir waits --async-save no --json
check "synchronous saves: none in the background" sh -c '! grep -q "training paused\|copy of" err'
check "synchronous saves: bit-identical" same_checkpoints straight/checkpoint-8 waits/checkpoint-8
# The memory of the process itself, which plans include, varies by some 100 kB, so the copy must be much larger.
sed 's/"n_embd": 16/"n_embd": 128/' tiny.json >wide.json
wide="train --data text.txt --init wide.json --block-size 16 --batch-size 2 --threads 1 --precision fp32 --eval-steps 0
    --steps 2 --save-steps 1"
exits 0 "a large copy" $wide --output-dir copied --json
with=$(member planned_bytes)
exits 0 "no copy" $wide --output-dir uncopied --async-save no --json
without=$(member planned_bytes)
check "synchronous saves: less memory is planned" test $((with - without)) -gt 4000000
exits 0 "no room for a copy" $wide --output-dir tight --memory-budget "$(((with + without) / 2))"
check "no room for a copy: saves wait" sh -c '! grep -q "training paused\|copy of" err'

# ---- on a terminal ----

on_terminal() { # options: what a terminal shows, in the file screen, of a run that is refused after reading its data
    script -qec "'$eitp' $train --memory-budget 4M --output-dir gone $*" /dev/null >screen 2>&1 </dev/null
}
show_lines() { # the lines of the file screen, one after the other, in the file lines
    tr '\r' '\n' <screen | sed -e "s/$(printf '\033')\[[JK]//g" -e '/^$/d' >lines
}
if script -qec true /dev/null >/dev/null 2>&1; then
    on_terminal
    check "a terminal shows progress" grep -q "reading 'text.txt' \.\.\.$(printf '\033')\[K.*$(printf '\033')\[Kerror: the run does not fit in 4.0 MB" screen
    on_terminal -q
    check "a terminal shows nothing with -q" sh -c '! grep -q "\.\.\." screen && grep -q "^error: the run does not fit in 4.0 MB" screen'
    rm -rf gone
    for columns in 50 60 80; do
        script -qec "stty cols $columns; '$eitp' $train --steps 3 --output-dir shown" /dev/null >screen 2>&1 </dev/null
        show_lines
        check "$columns columns: the line of a step fits, and ends with the time left" sh -c \
            "grep -q '^step 3/3  loss .* left\$' lines && ! grep '^step ' lines | awk 'length >= $columns' | grep -q ."
        check "$columns columns: a stage is shown once" test "$(grep -c '^creating the model' lines)" -le 1
        script -qec "stty cols $columns; '$eitp' train --help" /dev/null 2>&1 </dev/null | tr -d '\r' >lines
        check "$columns columns: the help is wrapped between words" sh -c \
            "grep -q '^      *also: --train-data --train-file' lines && ! grep -v -e '|' lines | awk 'length >= $columns' | grep -q ."
        rm -rf shown
    done
    script -qec "stty cols 120; '$eitp' $train --steps 3 --eval-steps 2 --memory-budget 1G --output-dir shown" /dev/null \
        >screen 2>&1 </dev/null
    show_lines
    check "the line of a step has the memory and the budget" grep -q '^step 2/3  loss .* [0-9.]* MB of 1\.0 GB  ' lines
    check "an event is above the line, which is shown again" sh -c \
        "grep -A 1 '^validation after step 2' lines | tail -n 1 | grep -q '^step 2/3  '"
    check "the line is cleared at the end" sh -c "sed '1,/^finished: /d' lines | grep -c '^step' | grep -q '^0$'"
    rm -rf shown
    for plain in TERM=dumb NO_COLOR=1; do
        script -qec "env $plain '$eitp' $train --steps 3 --output-dir shown" /dev/null >screen 2>&1 </dev/null
        tr -d '\r' <screen >lines
        check "$plain: plain lines" sh -c "! grep -q '$(printf '\033')' lines && grep -q '^step 3/3  loss .* [0-9.]* MB  .* left\$' lines"
        rm -rf shown
    done
    # A step, and an evaluation, that would take hours.
    awk 'BEGIN { for (i = 0; i < 40000; i++) print "Line", i, "of many that are only there to pass the time." }' >long.txt
    takes_long() { # pattern of the line, options
        words=$1
        shift
        rm -f screen
        script -qefc "echo \$\$ >pid; exec '$eitp' $(echo $large) --micro-batches-per-pass 1 --steps 9 --output-dir shown $*" screen \
            >/dev/null 2>&1 </dev/null &
        shown=$!
        until grep -q "$words" screen 2>/dev/null || ! kill -0 $shown 2>/dev/null; do sleep 0.1; done
        kill "$(cat pid)"
        wait $shown
        show_lines
        check "a slow stage shows progress: $words" grep -q "^step 0/9  $words  " lines
        rm -rf shown
    }
    takes_long "step 1 in progress for 0m0[2-9]s" --grad-accum 100000
    # All windows are requested, even before step 1.
    takes_long "evaluating [0-9]*/[0-9]*, [0-9dhms]* left" --val-data long.txt --eval-windows 10000000 --eval-steps 3
else
    echo "SKIPPED the lines on a terminal: script (util-linux) is missing"
fi

# ---- messages at the end of a run ----

says() { # name, labels: those of the lines on standard error after the first lines of the run
    check "$1" test "$(sed -n -e '1,/^configuration: /d' -e 's/^\(model\|time\|records\|next\|to continue\): .*/\1/p' err | tr '\n' ' ')" = "$2"
}
exits 0 "the end" $train --steps 4 --eval-steps 2 --save-steps 2 --keep-best loss --lr 3e-3 --output-dir "the end"
says "the end: four lines" "model time records next "
check "the end: standard output has the first line" sh -c 'test "$(wc -l <out)" -eq 1 && grep -q "^finished: step 4 of 4, loss .*; the end/checkpoint-4$" out'
check "the end: the model" grep -q "^model: 'the end/checkpoint-4', the best (loss [0-9.]*)$" err
check "the end: the time" grep -q '^time: [0-9.]* s: training [0-9.]* s, evaluating [0-9.]* s, saving [0-9.]* s.*; [0-9]* tokens/s; peak memory [0-9.]* MB of [0-9.]* MB planned$' err
check "the end: the records" grep -q "^records: 'the end/metrics.jsonl'; .*eitp report 'the end'$" err
check "the end: a prompt from the data" grep -q "^next: .*eitp generate --model 'the end' --prompt 'Line 0: a quick fox'$" err
check "the end: the command that uses the model" sh -c "$(sed -n 's/^next: //p' err) --tokens 3 --threads 1 >out 2>&1"
awk 'BEGIN { print "text"; for (i = 0; i < 100; i++) print "row " i }' >rows.csv
exits 0 "the end: short documents" $(echo "$train" | sed s/text.txt/rows.csv/) --steps 2 --output-dir rows
check "the end: a prompt from one document" grep -q "^next: .* --prompt 'row 0'$" err
exits 0 "the end: another best" train --resume auto --output-dir "the end" --steps 6 --eval-steps 100 --lr 0 --threads 1
check "the end: another best" grep -q "^model: 'the end/checkpoint-6'; the best: 'the end/checkpoint-[46]' (loss \|^model: .*-6', the best (loss" err
exits 0 "the end: quiet" $train --steps 2 --output-dir quiet -q
says "the end: quiet" ""
exits 0 "the end: JSON" $train --steps 2 --output-dir object --json
says "the end: JSON" ""
exits 0 "the end: no validation" $train --steps 2 --eval no --report-to none --output-dir no_records
says "the end: no records" "model time next "
check "the end: no evaluation" sh -c '! grep -q "^time: .*evaluating" err'
exits 0 "the end: CSV" $train --steps 2 --report-to csv --output-dir table
check "the end: CSV" grep -q '^records: table/metrics.csv$' err
exits 0 "the end: a warning" $train --steps 12 --spike-threshold 0.001 --eval no --output-dir warned
exits 4 "the end: not finite" $train --steps 40 --lr 1000 --max-grad-norm 0 --weight-decay 1000 --eval no --max-nonfinite 3 --output-dir ruined
says "the end: not finite" "time records next "
check "the end: the records of trouble" grep -q '^records: ruined/metrics.jsonl; [0-9]* warnings; .*eitp doctor ruined$' err
check "the end: the doctor" grep -q '^next: .*eitp doctor ruined$' err
printf 'text,label\ngood day,1\nbad day,0\n%.0s' 1 2 3 4 5 6 7 8 9 >rows.csv
exits 0 "the end: a classifier" train --data rows.csv --init tiny.json --task classify --steps 2 --eval no --threads 1 --output-dir labels
check "the end: a classifier, on new rows" grep -q '^next: .*eitp predict --model labels --data more.csv$' err
printf 'text\ngood day\n' >more.csv
check "the end: a classifier" sh -c "$(sed -n 's/^next: //p' err) --threads 1 >predicted 2>&1 && test -s predicted"

# ---- the best checkpoint, and early stopping ----

# With a learning rate of 0 no evaluation is better than the first.
exits 0 "patience" $train --steps 12 --lr 0 --eval-steps 2 --save-steps 3 --save-total-limit 1 --keep-best loss --patience 2 \
    --output-dir patient --json
check "patience: stopped" grep -q '"step": 6, "steps": 12, .*"best_step": 2, .*"stopped": "patience"' out
check "patience: logged" grep -q '^early stop: no improvement of the validation loss in 2 evaluations (best .* at step 2)$' err
check "the best checkpoint is kept as well as the newest" test "$(ls -d patient/checkpoint-* | tr '\n' ' ')" = \
    "patient/checkpoint-2 patient/checkpoint-6 "
check "best.json" grep -q '"best": {"step": 2, ' patient/best.json
exits 0 "stopped early: resume" train --resume auto --output-dir patient --threads 1
check "stopped early: it stays stopped" grep -q '^stopped early: step 6 of 12, ' out
exits 0 "more patience" train --resume auto --output-dir patient --threads 1 --patience 3
check "more patience: it continues" grep -q '^stopped early: step 8 of 12, ' out
# Patience alone also keeps the best checkpoint.
exits 0 "patience alone" $train --steps 12 --lr 0 --eval-steps 2 --save-steps 3 --save-total-limit 1 --patience 2 --output-dir alone
check "patience alone: reported" grep -q '^patience keeps the checkpoint of the best validation loss$' err
check "patience alone: kept" test -d alone/checkpoint-2 -a -d alone/best_model
check "patience alone: where it is" grep -q '^model: alone/checkpoint-6; the best: alone/checkpoint-2 (loss ' err
# The same with the key of the records, and as spelled by transformers.
exits 0 "--keep-best val_loss" $train --steps 2 --eval-steps 1 --keep-best val_loss --output-dir keyed
check "val_loss: best.json" grep -q '"metric": "loss"' keyed/best.json
check "val_loss: run.json" grep -q '"keep-best": "loss"' keyed/run.json
exits 0 "--metric_for_best_model eval_loss" $train --steps 2 --eval-steps 1 --load_best_model_at_end True \
    --metric_for_best_model eval_loss --greater_is_better False --output-dir keyed --overwrite-output-dir
check "eval_loss: best.json" grep -q '"metric": "loss"' keyed/best.json
check "greater_is_better has no effect" grep -q '^warning: --greater_is_better has no effect: .*direction' err
refuses 1 "unknown metric 'val_' (choose from loss)" $train --steps 1 --keep-best val_ --output-dir gone
refuses 1 "unknown metric 'beauty' (choose from loss)" $train --steps 1 --keep-best val_beauty --output-dir gone
refuses 1 "unknown metric 'beauty' (choose from loss)" $train --steps 1 --keep-best beauty --output-dir gone
refuses 1 "require validation data" $train --steps 1 --val-fraction 0 --keep-best loss --output-dir gone
refuses 1 "set --eval-steps" $train --steps 1 --eval-steps 0 --patience 1 --output-dir gone

finish
