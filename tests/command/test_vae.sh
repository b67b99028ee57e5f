#!/bin/sh
# The command: a model with a latent variable (--task vae): train, resume, eval, generate, embed; refusals.
. tests/command/command.sh

awk 'BEGIN {
    split("red old tiny brave green quiet", a, " "); split("cat bear owl horse whale mouse", b, " ")
    split("sings waits eats dreams hides jumps", c, " ")
    for (i = 1; i <= 6; i++) for (j = 1; j <= 6; j++) for (k = 1; k <= 6; k++) print "the " a[i] " " b[j] " " c[k] "."
}' >texts.txt
mkdir words
printf '%s\n' '[PAD]' '[UNK]' '[CLS]' '[SEP]' '[MASK]' the . red old tiny brave green quiet cat bear owl horse whale \
    mouse sings waits eats dreams hides jumps >words/vocab.txt
printf '{"tokenizer_class": "BertTokenizer"}\n' >words/tokenizer_config.json
options="--threads 1 --precision $precision"
small="--task vae --init vae-tiny --width 32 --layers 1 --heads 2 --latent-size 4 $options"
steps="--batch-size 8 --grad-accum 2 --lr 3e-3 --eval-steps 6 --save-steps 6"

# ---- Train, resume, evaluate ----

exits 0 "train" train $small $steps --data texts.txt --steps 12 --importance-samples 3 --word-dropout 0.2 --kl-anneal cyclical \
    --free-bits 0.1 --output-dir run
check "the task is named" grep -q '^task: vae' err
for key in loss_reconstruction loss_kl val_reconstruction val_reconstruction_error val_kl val_kl_error val_active_units \
    val_active_units_error val_mutual_information val_mutual_information_error val_mean_variance val_nll val_nll_error; do
    check "$key" grep -q "\"$key\": " run/metrics.jsonl
done
check "units in detail" grep -q '"units": {"kl": \[' run/evaluations.jsonl
check "the kind of directory" grep -q '"model_type": "vae"' run/checkpoint-12/config.json
for part in encoder decoder; do
    for file in config.json model.safetensors tokenizer.json; do
        check "$part/$file" test -s run/checkpoint-12/$part/$file
    done
done
check "the suggestion" grep -q 'next: .*eitp generate --model run --samples 5' err
mkdir again && cp -r run/checkpoint-6 run/data again/
exits 0 "resume" train $steps --resume again/checkpoint-6 --output-dir again $options
for file in model.safetensors encoder/model.safetensors decoder/model.safetensors optimizer.safetensors; do
    check "the bits of $file" cmp -s run/checkpoint-12/$file again/checkpoint-12/$file
done
exits 0 "eval" eval --model run --data texts.txt --importance-samples 2 $options
check "its metrics" grep -q '^active_units ' out
check "and the bound" grep -q '^nll  *[0-9.]* (standard error' out
exits 0 "eval of the validation samples" eval --model run --split validation --json $options
check "as JSON" grep -q '"mutual_information": ' out

# ---- Collapse ----

exits 0 "nothing to report" train $small $steps --data texts.txt --steps 12 --log-full-every 2 --kl-weight 50 --latent-size 8 \
    --save-steps 0 --output-dir collapsed
check "the alarm" grep -q 'warning: posterior_collapse: 0 of 8 latent units are active' err
check "spot evaluations" grep -q '"spot/active_units": 0' collapsed/metrics.jsonl
exits 0 "the report" report collapsed -o report.html
for words in 'Active units of the latent variable' 'Mutual information of text' posterior_collapse; do
    check "has $words" grep -q "$words" report.html
done
"$eitp" doctor collapsed >out 2>err
check "the doctor knows" grep -q '^The posterior has collapsed' out
exits 0 "off" train $small --batch-size 8 --grad-accum 2 --data texts.txt --steps 4 --log-full-every 2 --metrics off --eval-steps 4 --save-steps 0 --output-dir unseen
check "no spot evaluations" sh -c '! grep -q spot/ unseen/metrics.jsonl'

# ---- Use ----

exits 0 "generate from the prior" generate --model run --samples 3 --tokens 8 --seed 5 --json $options
cp out first
exits 0 "again" generate --model run --samples 3 --tokens 8 --seed 5 --json $options
check "the same text" sh -c 'sed "s/\"tokens_per_s\": [^,]*,//g" first >a; sed "s/\"tokens_per_s\": [^,]*,//g" out >b; cmp -s a b'
exits 0 "reconstruct" generate --model run --reconstruct --prompt 'the old owl waits.' --tokens 20 $options
cp out first
exits 0 "again" generate --model run --reconstruct --prompt 'the old owl waits.' --tokens 20 --no-echo $options
check "the text is not repeated before it" cmp -s first out
exits 0 "interpolate" generate --model run --interpolate 'the old owl waits.' 'the red cat sings.' --samples 4 --tokens 8 --json $options
check "four points" sh -c 'test "$(grep -o "\"text\": " out | wc -l)" = 4'
exits 0 "embed" embed --model run --text 'the old owl waits.' --json $options
check "four numbers" awk -F, '{ exit NF != 4 }' out
refuses 1 'takes two inputs' generate --model run --interpolate a
refuses 1 'cannot be used together' generate --model run --reconstruct --interpolate a b
refuses 1 'reconstruct requires text' generate --model run --reconstruct
refuses 1 'requires a model with a latent variable' generate --model run/checkpoint-12/decoder --reconstruct --prompt a
refuses 1 'emergence does not measure together' eval --model run --split validation --emergence
refuses 1 'pooling and --normalize do not apply' embed --model run --text a --pooling max
exits 0 "the decoder alone is a language model" generate --model run/checkpoint-12/decoder --tokens 4 $options
exits 0 "the encoder alone embeds" embed --model run/checkpoint-12/encoder --text a $options

# ---- Two tokenizers ----

cat >bert.json <<'END'
{"model_type": "bert", "architectures": ["BertModel"], "vocab_size": 25, "hidden_size": 32, "num_attention_heads": 2,
 "num_hidden_layers": 1, "intermediate_size": 64, "max_position_embeddings": 16}
END
exits 0 "an encoder" train --task mlm --init bert.json --tokenizer words --data texts.txt --data-format lines --steps 2 \
    --output-dir bert $options
exits 0 "a decoder" train --init tiny --width 32 --layers 1 --heads 2 --positions 64 --data texts.txt --steps 2 --output-dir gpt2 $options
exits 0 "both from directories" train --encoder bert --decoder gpt2 $steps --latent-size 4 --latent-input added --data texts.txt \
    --steps 4 --task vae --output-dir two $options
check "run.json names both" grep -q '"type": "gpt2".*"encoder": "bert", "latent_size": 4}' two/run.json
check "the encoder has its own tokenizer" grep -q BertTokenizer two/checkpoint-4/encoder/tokenizer_config.json
check "how the parts are joined" grep -q '"latent_input": "added"' two/checkpoint-4/config.json
exits 0 "embed by its tokenizer" embed --model two --text 'the old owl waits.' $options
exits 0 "resume it" train --resume two/checkpoint-4 --steps 6 --output-dir two $options
exits 0 "start from it" train --model two --data texts.txt --steps 2 --freeze encoder --output-dir tuned $options
check "a frozen encoder" cmp -s two/checkpoint-6/encoder/model.safetensors tuned/checkpoint-2/encoder/model.safetensors
check "a trained decoder" sh -c '! cmp -s two/checkpoint-6/decoder/model.safetensors tuned/checkpoint-2/decoder/model.safetensors'
exits 0 "the decoder of a directory" train --task lm --model two --data texts.txt --steps 1 --output-dir plain $options
check "is a plain model" test ! -e plain/checkpoint-1/encoder

# ---- Plans ----

exits 0 "a plan, and the plan of train" train $small $steps --data texts.txt --steps 1 --block-size 16 \
    --json --output-dir planned
trained=$(sed 's/.*"planned_bytes": \([0-9]*\).*/\1/' out)
exits 0 "a plan" plan $small --batch-size 8 --grad-accum 2 --data texts.txt --block-size 16 --json
planned=$(sed -n 's/.*"chosen": {[^{}]*"total": \([0-9]*\).*/\1/p' out | head -n 1)
check "agree: $planned and $trained bytes" test $((planned - trained)) -ge -1500000 -a $((planned - trained)) -le 1500000
exits 0 "a plan with a separate encoder" plan --task vae --init tiny --encoder minilm --threads 1 --json
exits 0 "a bench" bench step --model vae-tiny --task vae --block-size 16 --steps 1 --threads 1 --json
check "its task" grep -q '"task": "vae"' out

# ---- Refusals ----

refuses 1 'task vae needs an encoder' train --task vae --init tiny --data texts.txt --steps 1 --output-dir gone $options
refuses 1 'must be a bidirectional model' train --task vae --init tiny --encoder gpt2 --data texts.txt --steps 1 --output-dir gone
refuses 1 'cannot have adapters' train --task vae --model two --lora-rank 2 --data texts.txt --steps 1 --output-dir gone
refuses 1 'has its own encoder and 4 latent units' train --model two --latent-size 5 --data texts.txt --steps 1 --output-dir gone
refuses 1 'word-dropout' train $small --word-dropout 2 --data texts.txt --steps 1 --output-dir gone

finish
