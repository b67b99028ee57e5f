#!/bin/sh
# The command with decoders since Llama: train, resume, adapt, evaluate, generate. The bits do not depend on how it
# computes.
root=$PWD
. tests/command/command.sh

options="--precision $precision"
cat "$root"/README.md "$root"/docs/training.md "$root"/docs/memory.md >text.txt
shape='"vocab_size": 512, "max_position_embeddings": 4096, "hidden_size": 32, "num_attention_heads": 4, "num_key_value_heads": 2, "num_hidden_layers": 3, "intermediate_size": 48'
printf '{"model_type": "llama", %s, "rope_scaling": {"rope_type": "llama3", "factor": 4.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 32}}\n' "$shape" >llama.json
printf '{"model_type": "qwen2", %s, "tie_word_embeddings": true, "use_sliding_window": true, "sliding_window": 7, "max_window_layers": 1}\n' "$shape" >qwen2.json
printf '{"model_type": "qwen3", %s, "head_dim": 16}\n' "$shape" >qwen3.json
printf '{"model_type": "gemma3_text", %s, "head_dim": 12, "sliding_window": 9, "sliding_window_pattern": 2, "query_pre_attn_scalar": 9}\n' "$shape" >gemma3.json
printf '{"model_type": "mistral", %s, "sliding_window": 11}\n' "$shape" >mistral.json
steps="--data text.txt --block-size 24 --batch-size 4 --grad-accum 2 --lr 3e-3 --steps 6 --save-steps 3 --eval-steps 6 --eval-windows 8 --dropout 0.1 --optimizer adamw"

# True if the files of two directories have the same bytes.
same_bits() {
    check "the weights of $1 and $2" cmp -s $1/model.safetensors $2/model.safetensors
    check "the optimizer of $1 and $2" cmp -s $1/optimizer.safetensors $2/optimizer.safetensors
}

for model in llama qwen2 qwen3 gemma3 mistral; do
    tokenizer=$root/tests/golden/splits/qwen2.json
    case $model in llama) tokenizer=$root/tests/golden/splits/llama3.json ;; mistral) tokenizer=$root/tests/golden/splits/smollm.json ;; esac
    train="--init $model.json --tokenizer $tokenizer $steps $options"
    exits 0 "$model: train" train $train --threads 2 --output-dir $model
    exits 0 "$model: with recomputation" train $train --threads 1 --recompute layer --output-dir $model-recomputed
    same_bits $model/checkpoint-6 $model-recomputed/checkpoint-6
    exits 0 "$model: offloaded" train $train --threads 2 --offload all --output-dir $model-offloaded
    same_bits $model/checkpoint-6 $model-offloaded/checkpoint-6
    mkdir $model-again && cp -r $model/checkpoint-3 $model/data $model-again/
    exits 0 "$model: resume" train --resume $model-again/checkpoint-3 --steps 6 --threads 2 $options --output-dir $model-again
    same_bits $model/checkpoint-6 $model-again/checkpoint-6
    exits 0 "$model: eval" eval --model $model --split validation --json $options --threads 2
    check "$model: a loss" grep -q '"loss": [0-9]' out
    exits 0 "$model: generate" generate --model $model --prompt "eitp trains" --tokens 40 --temperature 0 $options --threads 1
    check "$model: text" test -s out
    exits 0 "$model: adapters" train --model $model/checkpoint-6 --lora-rank 2 --lora-targets all-linear $steps $options --threads 2 --output-dir $model-adapted
    check "$model: their layers" grep -q gate_proj $model-adapted/checkpoint-6/adapter_config.json
    exits 0 "$model: merge" merge --model $model/checkpoint-6 --adapter $model-adapted/checkpoint-6 --output-dir $model-merged
    check "$model: merged weights" test -s $model-merged/model.safetensors
done

# ---- Modules trained in full alongside adapters ----

# qwen2 has a tied head, llama a separate one.
for case in "qwen2 embed_tokens" "llama embed_tokens,lm_head" "llama lm_head"; do
    model=${case% *}
    modules=${case#* }
    saved=$model-saved
    train="--model $model/checkpoint-6 --lora-rank 2 --lora-modules-to-save $modules $steps $options"
    rm -rf $saved $saved-1 $saved-again $saved-merged
    exits 0 "$case: train" train $train --threads 2 --output-dir $saved
    exits 0 "$case: one thread, recomputed" train $train --threads 1 --recompute layer --output-dir $saved-1
    for file in adapter_model.safetensors optimizer.safetensors; do
        check "$case: the same bits of $file" cmp -s $saved/checkpoint-6/$file $saved-1/checkpoint-6/$file
    done
    mkdir $saved-again && cp -r $saved/checkpoint-3 $saved/data $saved-again/
    exits 0 "$case: resume" train --resume $saved-again/checkpoint-3 --steps 6 --threads 2 $options --output-dir $saved-again
    check "$case: with the same bits" cmp -s $saved/checkpoint-6/adapter_model.safetensors $saved-again/checkpoint-6/adapter_model.safetensors
    quoted=$(printf '%s' "$modules" | sed 's/,/", "/g')
    check "$case: their names" grep -q "\"modules_to_save\": \[\"$quoted\"\]" $saved/checkpoint-6/adapter_config.json
    exits 0 "$case: eval" eval --model $model/checkpoint-6 --adapter $saved/checkpoint-6 --data text.txt --block-size 24 --precision fp32 --json
    adapted=$(loss_of out)
    exits 0 "$case: merge" merge --model $model/checkpoint-6 --adapter $saved/checkpoint-6 --output-dir $saved-merged
    exits 0 "$case: eval of the merged model" eval --model $saved-merged --data text.txt --block-size 24 --precision fp32 --json
    check "$case: the merged loss agrees up to rounding" agree "$adapted" "$(loss_of out)"
    exits 0 "$case: eval without" eval --model $model/checkpoint-6 --data text.txt --block-size 24 --precision fp32 --json
    check "$case: they change the loss" test "$adapted" != "$(loss_of out)"
done
check "a tied head stays tied in PEFT" grep -q '"ensure_weight_tying": true' qwen2-saved/checkpoint-6/adapter_config.json
check "and has the tensors that PEFT expects" grep -q '"base_model.model.lm_head.weight"' qwen2-saved/checkpoint-6/adapter_model.safetensors
refuses 1 "modules to save" train --resume llama-saved --lora-modules-to-save embed_tokens --steps 9
refuses 1 "modules to save" train --resume qwen2-adapted --lora-modules-to-save embed_tokens --steps 9
adapted="train --data text.txt --lora-rank 2 --steps 1 --output-dir gone"
refuses 1 "this qwen2 model has no separate language head to train in full; its head is tied to the token embedding, name that instead" $adapted --model qwen2/checkpoint-6 --lora-modules-to-save lm_head
refuses 1 "unknown module to save 'norm' (choose from embed_tokens,lm_head, in GPT-2 wte)" $adapted --model qwen2/checkpoint-6 --lora-modules-to-save norm
refuses 1 "lora-modules-to-save requires --lora-rank" train --data text.txt --model qwen2/checkpoint-6 --lora-modules-to-save embed_tokens --output-dir gone
mkdir copied
cp qwen2-saved/checkpoint-6/adapter_model.safetensors copied/
sed '/ensure_weight_tying/d' qwen2-saved/checkpoint-6/adapter_config.json >copied/adapter_config.json
refuses 1 "copied/adapter_config.json: modules_to_save has the token embedding, which is tied to the model's head, but PEFT trained an untied copy" eval --model qwen2/checkpoint-6 --adapter copied --data text.txt

# ---- A head missing from the weights ----

cp -r qwen2/latest_model/ headless
rm -f headless/manifest.json headless/trainer_state.json headless/run.json
sed -i 's/"tie_word_embeddings": true/"tie_word_embeddings": false/; 1s/{/{"my_key": [1, {"a": null}],/' headless/config.json
lacks="headless': config.json has a language head, but the weights lack its parameters, so it is random; train it first"
refuses 1 "$lacks" eval --model headless --data text.txt --block-size 24
refuses 1 "$lacks" generate --model headless --prompt eitp --tokens 3
refuses 1 "$lacks" chat --model headless
adapters="train --model headless --lora-rank 2 $steps --steps 1 --save-steps 1 $options --threads 1"
refuses 1 "the language head is random: the weights lack it; train it with the adapters (--lora-modules-to-save lm_head)" $adapters --output-dir gone
exits 0 "adapters with the head" $adapters --lora-modules-to-save lm_head --output-dir with-head
exits 0 "are evaluated" eval --model headless --adapter with-head --data text.txt --block-size 24
exits 0 "and merged" merge --model headless --adapter with-head --output-dir head-merged
exits 0 "a model without its head is trained" train --model headless $steps --steps 1 --save-steps 1 $options --threads 1 --output-dir headed
check "which is reported" grep -q "^warning: '.*headless': the weights lack parameters of the head in config.json, which are random: lm_head.weight$" err
exits 0 "and evaluated" eval --model headed --data text.txt --block-size 24

# ---- Unused keys of config.json ----

for saved in headed/latest_model head-merged; do
    check "an unknown key is kept: $saved" grep -q '^  "my_key": \[1, *{"a": null}\],$' $saved/config.json
done
exits 0 "a run continues" train --resume headed --steps 2 --threads 1
exits 0 "and its dropout is set" set headed dropout=0.2
check "the key is kept" grep -q '^  "my_key": ' headed/latest_model/config.json
exits 0 "and it continues" train --resume headed --steps 3 --threads 1
check "the key is kept again" grep -q '^  "my_key": ' headed/checkpoint-3/config.json

printf '{"model_type": "llama", %s, "my_key": 0.5}\n' "$shape" >keyed.json
exits 0 "a shape with an unknown key" train --init keyed.json --data text.txt --block-size 24 --steps 1 $options --output-dir keyed
check "is saved with it" grep -q '^  "my_key": 0.5,$' keyed/latest_model/config.json
printf '{"model_type": "qwen3", %s, "use_sliding_window": true, "sliding_window": 5, "layer_types": ["sliding_attention", "full_attention", "sliding_attention"]}\n' "$shape" >listed.json
refuses 1 "layers is 2, but 'listed.json' lists layer_types of 3 layers; leave one of them out" train --init listed.json --layers 2 --data text.txt --output-dir gone
exits 0 "layers with a window in any order" train --init listed.json --data text.txt --block-size 24 --steps 1 $options --output-dir listed

# ---- Defaults ----

exits 0 "the usual length" train --init llama.json --tokenizer "$root/tests/golden/splits/llama3.json" --data text.txt --steps 1 $options --output-dir usual-length
check "not all positions" grep -q "of the model's 4096 positions" err
exits 0 "default layers of adapters" train --model llama/checkpoint-6 --lora-rank 2 $steps --steps 1 --save-steps 1 $options --threads 1 --output-dir usual
check "are those of PEFT" sh -c 'grep -q q_proj usual/checkpoint-1/adapter_config.json && grep -q v_proj usual/checkpoint-1/adapter_config.json && ! grep -q k_proj usual/checkpoint-1/adapter_config.json'
exits 0 "a named shape" plan --init smollm2-135m --block-size 128 --batch-size 1 --json $options
check "has its parameters" grep -q '"parameters": 538060032' out

# ---- Refusals ----

# Advice about table rows is not given for other files.
printf '{"model_type": "llama", %s, "rms_norm_eps": "small"}\n' "$shape" >kind.json
mkdir broken && cp kind.json broken/config.json
for command in "train --init kind.json --output-dir gone" "train --model broken --output-dir gone" "eval --model broken"; do
    refuses 1 "json: line 1: 'rms_norm_eps' must be a number from 0 to 1, not a string$" $command --data text.txt
done
cp llama.json broken/config.json && printf '{"model": 3,\n}\n' >broken/tokenizer.json
refuses 1 "tokenizer.json: .*line 2.*[^)]$" train --init llama.json --tokenizer broken --data text.txt --output-dir gone

printf '{"model_type": "llama", %s, "rope_scaling": {"rope_type": "yarn", "factor": 4.0}}\n' "$shape" >yarn.json
refuses 1 "yarn.json: .*unsupported rope_type 'yarn' (supported: default, linear, llama3)" train --init yarn.json --data text.txt --output-dir gone
printf '{"model_type": "gemma2", %s}\n' "$shape" >gemma2.json
refuses 1 "unsupported model_type 'gemma2' (supported: gpt2, bert, roberta, distilbert, llama, qwen2, qwen3, gemma3_text, mistral)" train --init gemma2.json --data text.txt --output-dir gone
finish
