#!/bin/sh
# The command: the smallest budget named in a refusal is enough, and no larger than necessary, for every task, with
# everything in a run that takes memory. check-system, plan, bench and train agree on what fits.
root=$PWD
. tests/command/command.sh

options="--threads 1 --precision $precision --steps 2 --save-steps 0"

# named NAME ARGUMENTS...: trains with the budget named in a refusal, and is refused with 2 MB less.
named() {
    name=$1
    shift
    exits 2 "$name: refused" train "$@" $options --memory-budget 1M --output-dir refused
    least=$(sed -n 's/.* does not fit in 1.0 MB; the smallest --memory-budget that is enough is \([0-9]*\)M.*/\1/p' err)
    check "$name: a budget is named" test "${least:-0}" -gt 4
    exits 0 "$name: ${least}M is enough" train "$@" $options --memory-budget "${least}M" --output-dir enough --json
    check "$name: the plan keeps it" test "$(sed 's/.*"planned_bytes": \([0-9]*\).*/\1/' out)" -le "${least}000000"
    exits 2 "$name: less is not" train "$@" $options --memory-budget $((least - 2))M --output-dir less
    rm -rf refused enough less
}

# ---- Data ----

awk 'BEGIN {
    split("red old tiny brave green quiet", a, " "); split("cat bear owl horse whale mouse", b, " ")
    split("sings waits eats dreams hides jumps", c, " ")
    print "text,label" >"rows.csv"
    for (i = 1; i <= 6; i++) for (j = 1; j <= 6; j++) for (k = 1; k <= 6; k++) {
        text = "the " a[i] " " b[j] " " c[k] "."
        print text >"lines.txt"
        print text "," b[j] >"rows.csv"
        print "{\"messages\": [{\"role\": \"user\", \"content\": \"" a[i] " " b[j] "?\"}, {\"role\": \"assistant\", \"content\": \"it " c[k] "\"}]}" >"chats.jsonl"
        print "the N O\n" a[i] " N O\n" b[j] " N B-ANIMAL\n" c[k] " N O\n" >"words.conll"
    }
}'
mkdir words
printf '%s\n' '[PAD]' '[UNK]' '[CLS]' '[SEP]' '[MASK]' the it . red old tiny brave green quiet cat bear owl horse whale \
    mouse sings waits eats dreams hides jumps >words/vocab.txt
printf '{"tokenizer_class": "BertTokenizer"}\n' >words/tokenizer_config.json
bert='"vocab_size": 3000, "hidden_size": 64, "num_attention_heads": 4, "num_hidden_layers": 3, "intermediate_size": 192, "max_position_embeddings": 64'
printf '{"model_type": "bert", %s}\n' "$bert" >bert.json
decoder='"vocab_size": 2000, "max_position_embeddings": 256, "hidden_size": 64, "num_attention_heads": 4, "num_key_value_heads": 2, "num_hidden_layers": 3, "intermediate_size": 192'
qwen=$root/tests/golden/splits/qwen2.json

# ---- Every task, and other uses of memory besides steps ----

gpt2="--init tiny --data text.txt"
named "windows of text" $gpt2
named "an evaluation of many tokens" $gpt2 --block-size 128 --batch-size 1 --grad-accum 1 --eval-steps 2 --val-fraction 0.3
named "no evaluation" $gpt2 --block-size 64 --eval no
named "sample prompts" $gpt2 --block-size 64 --eval-steps 1 --sample-prompt "Line 1: a quick" --sample-tokens 100
named "every record" $gpt2 --block-size 64 --monitor full --report-to all --log-full-every 1
named "an objective" $gpt2 --block-size 64 --objective eitp-safe --optimizer adamw
# Each refusal plans some hundred graphs, so they are small except for their kinds of layers.
latent="--task vae --init vae-tiny --layers 2 --positions 64"
named "a latent variable" $latent --data lines.txt --eval-steps 2 --spot-samples 16
named "a latent variable, importance samples" $latent --data lines.txt --eval-steps 2 --importance-samples 4
named "labels" --task classify --init bert.json --tokenizer words --data rows.csv --eval-steps 1
named "labels of words" --task tokens --init bert.json --tokenizer words --data words.conll
named "hidden tokens" --task mlm --init bert.json --tokenizer words --data lines.txt --block-size 32
printf '{"model_type": "qwen2", %s, "tie_word_embeddings": true}\n' "$decoder" >qwen2.json
chats="--chat-template chatml --data chats.jsonl"
named "conversations" --init qwen2.json --tokenizer "$qwen" $chats
exits 0 "a model for adapters" train --init qwen2.json --tokenizer "$qwen" $chats $options --output-dir base
named "conversations, adapters" --model base/latest_model $chats --lora-rank 4 --lora-targets all-linear

# ---- One model of each family ----

printf '{"model_type": "llama", %s}\n' "$decoder" >llama.json
printf '{"model_type": "qwen3", %s, "head_dim": 16}\n' "$decoder" >qwen3.json
printf '{"model_type": "gemma3_text", %s, "head_dim": 16, "sliding_window": 16, "query_pre_attn_scalar": 16}\n' "$decoder" >gemma3.json
printf '{"model_type": "mistral", %s, "sliding_window": 24}\n' "$decoder" >mistral.json
for model in llama qwen3 gemma3 mistral; do
    named "$model" --init $model.json --tokenizer "$qwen" --data text.txt --block-size 64
done
printf '{"model_type": "roberta", %s, "pad_token_id": 1, "type_vocab_size": 1}\n' "$bert" >roberta.json
printf '{"model_type": "distilbert", "vocab_size": 3000, "dim": 64, "n_heads": 4, "n_layers": 2, "hidden_dim": 192, "max_position_embeddings": 64}\n' >distilbert.json
for model in roberta distilbert; do
    named "$model" --task classify --init $model.json --tokenizer words --data rows.csv
done

# ---- One verdict ----

step="--block-size 64 --batch-size 2 --threads 1 --precision $precision"
plans() { # command, options
    "$eitp" "$@" --memory-budget 1M 2>&1 | sed -n 's/.*is enough is \([0-9]*\)M.*/\1/p' | head -n 1
}
least=$(plans plan --init tiny $step)
timed=$(plans bench step --model tiny $step --dropout 0.1)
check "plan and bench agree: $least MB and $timed MB" test $((timed - least)) -ge -1 -a $((timed - least)) -le 1
exits 0 "bench: fitting configurations are timed" bench step --model tiny $step --dropout 0.1 --steps 1 --memory-budget $((timed + 1))M --json
check "bench: names the timed configuration" grep -q '^configuration: .* tensors recomputed' err
exits 2 "bench: others are not" bench step --model tiny $step --steps 1 --memory-budget $((timed - 2))M

# No profile fits, but a run without one does.
least=$(plans plan --init tiny --threads 1)
exits 2 "a profile that does not fit" plan --init tiny --threads 1 --profile low-memory --memory-budget $((least + 1))M
check "a profile that does not fit: it is named" grep -q '^nothing fits: the run with --profile low-memory does not fit in ' out
exits 0 "check-system accepts what plan accepts" check-system --init tiny --threads 1 --memory-budget $((least + 1))M
check "without a profile" grep -q '^profile  *none fits for tiny: low-memory, the smallest, needs ' out
check "its command" grep -q -e ' train --init tiny .* --profile none ' out
exits 1 "check-system refuses what plan refuses" check-system --init tiny --threads 1 --memory-budget $((least - 2))M
check "with the same figure" sh -c "grep -q '^advice  *the run does not fit in .* that is enough is \($((least - 1))\|$least\|$((least + 1))\)M' out"

finish
