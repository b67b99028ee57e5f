#!/bin/sh
# The command: adapters, freezing, merging.
. tests/command/command.sh

train_straight
fp32="--threads 1 --precision fp32"
lora="train --data text.txt --model straight --block-size 16 --threads 1 --precision $precision --lr 1e-2"
exits 0 "train adapters" $lora --steps 8 --save-steps 4 --save-total-limit 0 --lora-rank 4 --lora-targets c_attn,c_proj \
    --lora-dropout 0.1 --output-dir lora
check "the log names the trained parts" grep -q 'adapters: rank 4, alpha 8, layers c_attn,c_proj; training 1408 parameters' err
check "a checkpoint has adapters" test -f lora/checkpoint-8/adapter_model.safetensors
check "a checkpoint of adapters has no weights" test ! -e lora/checkpoint-8/model.safetensors
check "adapters name their model" grep -q "\"base_model_name_or_path\": \"$work/straight/checkpoint-12\"" \
    lora/checkpoint-8/adapter_config.json
cp -r lora lora2
rm -r lora2/checkpoint-8
exits 0 "resume adapters" train --resume lora2 --threads 2
check "resumed adapters are bit-identical" same lora/checkpoint-8/adapter_model.safetensors \
    lora2/checkpoint-8/adapter_model.safetensors
check "and so is the optimizer state" same lora/checkpoint-8/optimizer.safetensors lora2/checkpoint-8/optimizer.safetensors
refuses 1 'adapters of rank 4' train --resume lora2 --lora-rank 5 --steps 9
refuses 1 'has no adapters to resume' train --resume straight --lora-rank 2 --steps 15
refuses 1 'other weights' train --resume lora2 --model straight/checkpoint-4 --steps 9
exits 0 "eval with adapters" eval --model straight --adapter lora --data text.txt $fp32 --json
adapted=$(loss_of out)
check "eval: block size of the adapters' checkpoint" grep -q '"block_size": 16' out
exits 0 "eval of an adapter's directory" eval --model lora/checkpoint-8 --data text.txt $fp32 --json
check "the base model is found" grep -q "\"loss\": $adapted," out
exits 0 "generate with adapters" generate --model straight --adapter lora --prompt 'Line 1' --tokens 9 --temperature 0 \
    $fp32 -q
cp out first
exits 0 "merge" merge --model straight --adapter lora --output-dir merged
exits 0 "merge into the base model that the adapters name" merge --adapter lora/checkpoint-8 --output-dir merged2 --json
check "the same merged weights" same merged/model.safetensors merged2/model.safetensors
check "a merged model has its tokenizer" same merged/tokenizer.json straight/checkpoint-12/tokenizer.json
exits 0 "generate from the merged model" generate --model merged --prompt 'Line 1' --tokens 9 --temperature 0 \
    $fp32 -q
check "the merged model generates the same text" same out first
exits 0 "eval of the merged model" eval --model merged --data text.txt --block-size 16 $fp32 --json
check "the merged loss agrees up to rounding" agree "$adapted" "$(loss_of out)"
refuses 1 'already has model.safetensors; choose another directory (--output-dir)' merge --adapter lora --output-dir merged
refuses 1 'no adapters in' merge --model straight --adapter straight --output-dir gone
refuses 1 '--output-dir is required' merge --adapter lora
# Adapters of different layers in each block.
blocks=h.1.attn.c_attn,transformer.h.0.mlp.c_proj,c_fc
exits 0 "adapters that differ between blocks" $lora --steps 8 --save-steps 4 --save-total-limit 0 --lora-rank 2 \
    --lora-targets $blocks --output-dir blocks
check "the log names the layers" grep -q 'layers c_fc,h.0.mlp.c_proj,h.1.attn.c_attn; training 608 parameters' err
check "adapter_config.json does too" grep -q '"target_modules": \["c_fc", "h.0.mlp.c_proj", "h.1.attn.c_attn"\]' \
    blocks/checkpoint-8/adapter_config.json
cp -r blocks blocks2
rm -r blocks2/checkpoint-8
exits 0 "resume them" train --resume blocks2 --threads 2
check "with the same bits" same blocks/checkpoint-8/adapter_model.safetensors blocks2/checkpoint-8/adapter_model.safetensors
refuses 1 'other targets' train --resume blocks2 --lora-targets h.1.attn.c_attn,h.1.mlp.c_proj,c_fc --steps 9
exits 0 "resume with the same layers under other names" train --resume blocks2 --steps 9 \
    --lora-targets 0.mlp.c_proj,1.attn.c_attn,h.0.mlp.c_fc,h.1.mlp.c_fc
exits 0 "eval with them" eval --model straight --adapter blocks/checkpoint-8 --data text.txt --block-size 16 $fp32 --json
adapted=$(loss_of out)
cp -r blocks/checkpoint-8 expression
rm expression/trainer_state.json expression/manifest.json
sed 's/"target_modules": .*/"target_modules": ".*(0.*c_proj|1.*c_attn|c_fc)",/' blocks/checkpoint-8/adapter_config.json \
    >expression/adapter_config.json
exits 0 "an expression selects the layers that have tensors" eval --model straight --adapter expression --data text.txt \
    --block-size 16 $fp32 --json
check "the same loss" grep -q "\"loss\": $adapted," out
exits 0 "merge them" merge --model straight --adapter expression --output-dir merged5
exits 0 "eval of the merged model" eval --model merged5 --data text.txt --block-size 16 $fp32 --json
check "the merged loss agrees up to rounding" agree "$adapted" "$(loss_of out)"
echo '{"text": "Line 1"}' >rows.jsonl
exits 0 "embed with an expression" embed --model straight --adapter expression --data rows.jsonl $fp32 -q
cp out first
exits 0 "embed with names" embed --model straight --adapter blocks/checkpoint-8 --data rows.jsonl $fp32 -q
check "the same embedding" same out first
refuses 1 'name block 2; this gpt2 model has blocks 0 to 1' $lora --lora-rank 2 --lora-targets h.2.attn.c_attn --output-dir gone
refuses 1 "no linear layer named 'h.0.wte'" $lora --lora-rank 2 --lora-targets h.0.wte --output-dir gone
sed 's/"rank_pattern": {}/"rank_pattern": {"c_fc": 4}/' blocks/checkpoint-8/adapter_config.json >expression/adapter_config.json
refuses 1 'unsupported member rank_pattern' merge --model straight --adapter expression --output-dir gone
sed 's/"n_layer": 2/"n_layer": 8/' tiny.json >deep.json
exits 0 "a deeper model" train --data text.txt --init deep.json --block-size 16 --threads 1 --steps 1 --output-dir deep
all=
for i in 0 1 2 3 4 5 6; do all="$all,h.$i.attn.c_attn,h.$i.mlp.c_proj"; done
exits 0 "adapters of many layers" train --data text.txt --model deep --block-size 16 --threads 1 --steps 1 --lora-rank 1 \
    --lora-targets "${all#,}" --output-dir many
check "the log names the first of them" grep -q 'layers h.0.attn.c_attn,.*,h.4.mlp.c_proj,...; training' err
exits 0 "resume adapters of many layers" train --resume many --steps 2 --threads 1
sed 's/"n_embd": 16/"n_embd": 18/' tiny.json >wide.json
exits 0 "a wider model" train --data text.txt --init wide.json --block-size 16 --threads 1 --steps 1 \
    --output-dir wide
refuses 1 'another model' merge --model wide --adapter lora --output-dir gone
mkdir foreign
sed 's/"use_dora": false/"use_dora": true/' lora/checkpoint-8/adapter_config.json >foreign/adapter_config.json
cp lora/checkpoint-8/adapter_model.safetensors foreign
refuses 1 'use_dora' eval --model straight --adapter foreign --data text.txt
sed 's/"base_model_name_or_path": "[^"]*"/"base_model_name_or_path": "gpt2"/' lora/checkpoint-8/adapter_config.json \
    >foreign/adapter_config.json
refuses 1 "base model 'gpt2'" merge --adapter foreign --output-dir gone
exits 0 "adapters of PEFT that name the model on its hub" merge --model straight --adapter foreign --output-dir merged3
check "the same merged weights again" same merged/model.safetensors merged3/model.safetensors
# Adapters belong to the weights they were trained on.
other=straight/checkpoint-4
for command in "merge --output-dir gone" "generate --prompt x --tokens 2 $fp32" "eval --data text.txt $fp32"; do
    refuses 1 "trained on other weights than those in '$work/$other'.*load the right weights with --model" \
        $command --model $other --adapter lora
    check "${command%% *}: the error names the adapters" grep -q "adapters in 'lora/checkpoint-8'" err
done
refuses 1 'trained on other weights' embed --model $other --adapter lora --data rows.jsonl $fp32
refuses 1 'other weights.*load the right weights with --model' train --resume lora2 --model $other --steps 9
exits 0 "a resume in another precision" train --resume lora2 --precision bf16 --steps 9 --threads 1
for reading in fp32 bf16; do
    exits 0 "adapters of fp32 and bf16, read in $reading" eval --model straight --adapter lora2 --data text.txt --threads 1 \
        --precision $reading
done
# The newest base is damaged: an older one does not match the adapters, and an unused one is reported in any case.
cp -r straight damaged
# Four bytes, so that the weights differ in every precision.
printf xxxx | dd of=damaged/checkpoint-12/model.safetensors bs=1 seek=3000 conv=notrunc 2>dd.err
exits 1 "a damaged base" merge --model damaged --adapter lora --output-dir gone
check "the damage is reported" grep -q "^warning: .*damaged/checkpoint-12.*using another checkpoint" err
check "and that the older base does not match" grep -q "^error: .*other weights than those in '$work/damaged/checkpoint-8'" err
check "and nothing else" test "$(wc -l <err)" -eq 2
exits 0 "adapters for an older checkpoint" train --data text.txt --model damaged/checkpoint-8 --block-size 16 \
    --threads 1 --precision fp32 --steps 1 --lora-rank 2 --output-dir older
exits 0 "merge into an older base" merge --model damaged --adapter older --output-dir merged4
check "the damage of its newer checkpoint is reported" grep -q "^warning: .*damaged/checkpoint-12.*using another checkpoint" err
exits 1 "a damaged base by its own path" merge --model damaged/checkpoint-12 --adapter lora --output-dir gone
check "its damage is reported" grep -q "^warning: 'damaged/checkpoint-12/model.safetensors' is damaged" err
check "and that its weights differ" grep -q '^error: .*trained on other weights' err
check "and nothing is written" test ! -e gone
exits 0 "freeze" $lora --steps 2 --freeze embeddings,layers:1 --output-dir frozen
check "the log names the frozen parts" grep -q 'training 3312 of [0-9]* parameters; the others are frozen' err
check "a run with frozen parts has the whole model" test -f frozen/checkpoint-2/model.safetensors
exits 0 "resume a run with frozen parts" train --resume frozen --steps 3 --threads 1
refuses 1 'requires --model' train --data text.txt --init tiny.json --lora-rank 2 --output-dir gone
refuses 1 'requires --lora-rank' $lora --lora-alpha 2 --output-dir gone
refuses 1 'cannot be used together' $lora --lora-rank 2 --freeze embeddings --output-dir gone
refuses 1 "no linear layer named 'wte' in gpt2, bert, roberta, distilbert" $lora --lora-rank 2 --lora-targets wte --output-dir gone
refuses 1 'matches no parameter' $lora --freeze layers:9 --output-dir gone
exits 0 "--print-config has adapters" $lora --lora-rank 2 --print-config
check "--print-config: rank" grep -q '^lora-rank  *2  (command line)' out

finish
