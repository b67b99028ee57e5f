#!/bin/sh
# The command: every option of a run when it is resumed. None is ignored: it is refused, or changes the results, or does
# not affect any result.
. tests/command/command.sh

awk 'BEGIN {
    print "text,label,other,value"
    for (i = 0; i < 20; i++)
        printf "caf\303\251 number %d,%s,%s,%d\n", i < 19 ? i : 17, i % 2 ? "odd" : "even", i % 3 ? "x" : "y", 1 + i % 4
}' >rows.csv
awk 'BEGIN {
    for (i = 0; i < 8; i++)
        printf "{\"messages\": [{\"role\": \"user\", \"content\": \"%d\"}, {\"role\": \"assistant\", \"content\": \"%d\"}]}\n", i, i * i
}' >chat.jsonl
echo '{% for m in messages %}{{ m.role }}: {{ m.content }}. {% endfor %}' >other.jinja
sed 's/"n_positions": 64/"n_positions": 128/; s/257/280/' tiny.json >long.json
cat >bert.json <<'END'
{"model_type": "bert", "vocab_size": 320, "max_position_embeddings": 64, "hidden_size": 16, "num_attention_heads": 2,
 "num_hidden_layers": 1, "intermediate_size": 32}
END
echo '{"gradient_clipping": 0.01}' >deepspeed.json
echo '{"beta1": 0.5}' >config.json
exits 0 "a tokenizer with a mask" tokenizer train --data text.txt --family roberta --vocab-size 320 --output masks
exits 0 "another tokenizer" tokenizer train --data text.txt --vocab-size 280 --output another

usual="--threads 1 --precision fp32 --batch-size 2 --grad-accum 2 --eval-steps 1 --steps 2 -q"
base() { # name, options: a run of two steps, and one step more without further options
    name=$1
    shift
    exits 0 "$name" train "$@" $usual --output-dir "$name"
    cp -r "$name" "$name-longer"
    exits 0 "$name, longer" train --resume "$name-longer" --steps 3 --threads 1 -q
}
base lm --data small.txt --init tiny.json --block-size 16
base rows --data rows.csv --task classify --init tiny.json --block-size 16
base mlm --data small.txt --init bert.json --tokenizer masks --block-size 16
base vae --data small.txt --data-format lines --task vae --init vae-tiny --width 16 --heads 2 --layers 1 --block-size 24 \
    --kl-anneal linear --kl-anneal-steps 100
base chat --data chat.jsonl --init long.json --tokenizer another --chat-template chatml --block-size 120

# Option, value, run, and outcome: "same" results, "other" ones, "refused" with these words, or "-" if another test
# covers it.
cat >table <<'END'
data rows.csv rows same
val-data rows.csv rows refused the training data differ
val-fraction 0.3 rows refused read again with --val-fraction: the training data differ
strict-utf8 yes rows same
data-format jsonl rows refused read again with --data-format: .*invalid JSON
data-format lines lm other
encoding latin1 rows other
text-column other rows other
pair-column other rows other
label-column other rows refused read again with --label-column: .*no label named
weight-column value rows other
delimiter ; rows refused read again with --delimiter: .*no column named 'text'
delimiter comma rows same
document-separator none lm same
document-separator % rows refused --document-separator is for files that are read as text
on-bad-row skip rows same
dedup yes rows refused read again with --dedup: the training data differ .* had 18 samples, and this run has 1[0-7];
save-dtype bf16 rows other
shuffle none rows refused leave --shuffle out
drop-last - - -
data-workers 1 rows same
prefetch 3 rows same
model lm rows refused was started without --model; leave it out
init tiny rows refused was started with --init .*, not tiny
vocab-size 300 rows refused --vocab-size is 300, but
layers 3 rows refused --layers is 3, but
heads 4 rows refused --heads is 4, but
width 32 rows refused --width is 32, but
positions 32 rows refused --positions is 32, but
encoder minilm vae refused was started without --encoder; leave it out
latent-size 16 vae refused --latent-size is 16, but .* has 32 latent units
latent-input added vae refused was started with --latent-input prefix, not added
tokenizer masks rows refused leave --tokenizer out
chat-template other.jinja chat other
chat-values {"add":1} chat same
train-on everything chat other
show-data - - -
task tokens rows refused was started with --task classify, not tokens
labels several rows refused gives a text one label; leave --labels out
mlm-probability 0.9 mlm other
whole-words yes mlm refused --whole-words
label-smoothing 0.2 rows other
class-weights 1,3 rows other
kl-weight 0.5 vae other
kl-anneal none vae other
kl-anneal-steps 7 vae other
kl-cycles - - -
free-bits 0.5 vae other
target-rate 3 vae other
word-dropout 0.5 vae other
importance-samples 2 vae same
dropout 0.4 rows other
lora-rank 2 rows refused has no adapters to resume
lora-alpha 2 rows refused requires --lora-rank
lora-dropout 0.1 rows refused requires --lora-rank
lora-targets all-linear rows refused requires --lora-rank
lora-modules-to-save lm_head rows refused requires --lora-rank
lora-rslora yes rows refused requires --lora-rank
freeze embeddings rows refused was started without --freeze; leave it out
output-dir - - -
overwrite-output-dir yes rows refused cannot be used together
resume - - -
steps - - -
epochs - - -
batch-size 4 rows same
batch-size 3 rows refused 4 samples per step
block-size 12 rows other
block-size 12 vae other
block-size 12 lm refused made with --block-size 16, and this run has 12
grad-accum 1 rows same
lr 0.01 rows other
final-lr 0.0002 rows other
lr-schedule cosine rows other
lr-cycles 2 rows refused requires --lr-schedule
plateau-factor 0.5 rows refused requires --lr-schedule
plateau-patience 3 rows refused requires --lr-schedule
plateau-threshold 0.5 rows refused requires --lr-schedule
plateau-cooldown 3 rows refused requires --lr-schedule
warmup-steps 7 rows other
warmup-from-zero yes rows same
warmup-ratio 1 rows other
weight-decay 0.9 rows other
beta1 0.5 rows other
beta2 0.5 rows other
epsilon 0.01 rows other
max-grad-norm 0.01 rows other
objective eitp-safe lm other
noise-scale-every 1 rows same
layer-lr-decay 0.1 rows other
sample-prompt hello lm same
sample-tokens 3 lm same
run-name x rows same
notes x rows same
alarms no rows same
metrics-window 10 rows same
perf-every 1 rows same
profile-every 1 rows same
peak-tflops 1 rows same
guide-tags yes rows same
spike-threshold 3 rows same
skip-spikes yes rows same
max-nonfinite 3 rows same
check-finite op rows same
eval no rows same
eval-steps 3 rows same
eval-every-frac 0.1 rows same
eval-windows 1 rows same
eval-frac 0.5 rows same
save-strategy no rows same
save-steps 1 rows same
save-seconds 9 rows same
async-save no rows same
save-total-limit 1 rows same
post-save-cmd true rows same
on-event-cmd true rows same
backup-steps 1 rows same
keep-best loss rows same
patience 9 rows same
log-every 1 rows same
report-to csv rows same
log-dir logs rows same
log-flush-seconds 9 rows same
precision - - -
tf32 yes rows same
micro-batches-per-pass 1 rows same
dense-rows yes rows refused leave --dense-rows out
optimizer factored rows other
recompute layer rows same
offload states rows same
offload-file offloaded rows same
profile safe rows same
memory-budget 500M rows same
gpu-memory-budget 1G rows same
gpu-mem-max - - -
pin-memory no rows same
auto-shrink yes rows same
cpu-mem-warn 99 rows same
cpu-mem-max - - -
temp-max - - -
oom-score-adj 1000 rows same
nice 1 rows same
spare-core yes rows same
deepspeed-config deepspeed.json rows other
monitor full rows same
log-full-every 1 rows same
spot-samples 1 rows same
metrics-every 1 rows same
metrics fast rows same
seed 3 rows refused leave --seed out
device cpu rows same
threads 2 rows same
config config.json rows other
print-config - - -
json yes rows same
quiet yes rows same
verbose yes rows same
help - - -
END

resume_with() { # option, value, run, outcome, words
    rm -rf gone
    cp -r "$3" gone
    case $4 in
    refused)
        exits 1 "--$1" train --resume gone --steps 3 --threads 1 -q "--$1=$2"
        check "--$1 $2: one line with \"$5\"" test "$(wc -l <err)" -eq 1 -a "$(grep -c -e "$5" err)" -eq 1
        check "--$1 $2: nothing was trained" test ! -e gone/checkpoint-3
        ;;
    *)
        exits 0 "--$1 $2" train --resume gone --steps 3 --threads 1 -q "--$1=$2"
        check "--$1 $2: no change of text is reported" sh -c '! grep "the text of" err'
        if same_checkpoints gone/checkpoint-3 "$3-longer/checkpoint-3"; then found=same; else found=other; fi
        check "--$1 $2: $4 results, not $found" test $found = "$4"
        ;;
    esac
    rm -rf gone
}
while read -r option value run outcome words; do
    [ "$outcome" = - ] || resume_with "$option" "$value" "$run" "$outcome" "$words"
done <table
exits 0 "the options" train --init tiny.json --data small.txt --print-config
for option in $(cut -d ' ' -f 1 out); do
    check "--$option is in the table" grep -q "^$option " table
done

# ---- data that are read again ----

cp -r rows read
exits 0 "shorter samples" train --resume read --steps 3 --max-length 12 --threads 1
check "shorter samples: the data are read again" grep -q '^reading the data again with --block-size$' err
check "shorter samples: logged" grep -q "^warning: --block-size changed from 15 to 12 since 'read/checkpoint-2'" err
check "shorter samples: the number of samples" grep -q '"sample_tokens": 12' read/run.json
check "shorter samples: the earlier data are kept until there is a checkpoint" test "$(ls read/data | wc -l)" -eq 2
check "shorter samples: recorded" grep -q '"block-size": 12' read/checkpoint-3/run.json
exits 0 "shorter samples, resumed" train --resume read --steps 4 --threads 1
check "shorter samples, resumed: the run's length" sh -c '! grep -q "read again\|changed from 1[25]" err'
check "shorter samples, resumed: the number of samples" grep -q '"sample_tokens": 12' read/run.json
check "shorter samples, resumed: other data are removed" test "$(ls read/data | wc -l)" -eq 1
exits 0 "the same command with a shorter length" train --data rows.csv --task classify --init tiny.json --max-length 10 \
    $usual --steps 5 --resume auto --output-dir read
check "the same command with a shorter length: the samples" grep -q '"sample_tokens": 10' read/run.json
exits 0 "by epochs" train --data rows.csv --task classify --init tiny.json --block-size 16 --val-fraction 0 --batch-size 8 \
    --epochs 1 --threads 1 -q --output-dir epochs
cp -r epochs epochs_dropped
exits 0 "by epochs: more" train --resume epochs --epochs 2 --threads 1 -q
check "by epochs: more: the last step is not full" test -d epochs/checkpoint-6
exits 0 "by epochs: --drop-last" train --resume epochs_dropped --epochs 2 --drop-last --threads 1 -q
check "by epochs: --drop-last: whole steps" test -d epochs_dropped/checkpoint-5 -a ! -e epochs_dropped/checkpoint-6

cp text.txt lost.txt
exits 0 "an open length" train --data lost.txt --init tiny.json $usual --output-dir open
rm lost.txt
exits 0 "an open length: without the data" train --resume open --steps 3 --threads 1
check "an open length: nothing is read" sh -c '! grep -q "packed 1\|read again" err'

mv rows.csv moved.csv
refuses 1 "--dedup, --block-size: the data must be read again, but '.*rows.csv' is gone; leave the option out to continue" train \
    --resume rows --steps 3 --max-length 12 --dedup
exits 0 "a length above the positions" train --data moved.csv --task classify --init tiny.json --block-size 99 $usual \
    --output-dir above
mv moved.csv kept.csv
for length in 99 64 0; do
    exits 0 "a length above the positions: $length" train --resume above --steps 3 --threads 1 --block-size $length -q
done
mv kept.csv moved.csv
exits 0 "the recorded value" train --resume rows-longer --steps 4 --threads 1 --max-length 16 -q
cp -r rows moved
exits 0 "data that were moved" train --resume moved --steps 3 --threads 1 --max-length 12 --data moved.csv -q
check "data that were moved: read again" grep -q '"sample_tokens": 12' moved/run.json
"$eitp" train --data - --data-format csv --task classify --init tiny.json --block-size 16 $usual --output-dir input <moved.csv 2>err
refuses 1 "--text-column: the data of the run came from standard input, which cannot be read again" train --resume input \
    --steps 3 --text-column other

finish
