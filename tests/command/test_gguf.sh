#!/bin/sh
# The command: models in GGUF files, and files that it exports.
. tests/command/command.sh

train_straight
model=straight/checkpoint-12
fp32="--threads 1 --precision fp32"
exits 0 "export" export --model straight --type f32 --output model.gguf
check "the result is named" grep -q "^wrote '$model', f32: model.gguf, " out
check "nothing else is left" test ! -e model.gguf.tmp
exits 0 "generate from the directory" generate --model straight --prompt 'Line 1' --tokens 9 --temperature 0 $fp32 -q
cp out first
exits 0 "generate from the file" generate --model model.gguf --prompt 'Line 1' --tokens 9 --temperature 0 $fp32 -q
check "the same text" same out first
exits 0 "eval of the directory" eval --model straight --data text.txt --block-size 16 $fp32 --json
loss=$(loss_of out)
exits 0 "eval of the file" eval --model model.gguf --data text.txt --block-size 16 $fp32 --json
check "the same loss" agree "$loss" "$(loss_of out)"
exits 0 "its tokenizer" tokenizer encode --tokenizer model.gguf --data text.txt
cp out first
exits 0 "the directory's" tokenizer encode --tokenizer $model --data text.txt
check "the same tokens" same out first
exits 0 "plan" plan --model model.gguf --data text.txt --block-size 16
exits 0 "export a file again" export --model model.gguf --type f32 --output again.gguf --json
check "the result as JSON" grep -q '^{"model": ".*model.gguf", "file": "again.gguf", "type": "f32", "bytes": ' out
check "the same file" same model.gguf again.gguf
for type in f16 bf16 q8_0 q4_0 q4_k_m; do
    exits 0 "export as $type" export --model model.gguf --type $type -o $type.gguf
    exits 0 "generate from $type" generate --model $type.gguf --prompt 'Line 1' --tokens 3 --temperature 0 -q
done
# Training.
adapt="train --data text.txt --block-size 16 --threads 1 --precision $precision --lr 1e-2 --steps 8 --lora-rank 2"
exits 0 "adapters on a directory" $adapt --model straight --output-dir lora
exits 0 "adapters on its file" $adapt --model model.gguf --output-dir lora2
check "the same adapters" same lora/checkpoint-8/adapter_model.safetensors lora2/checkpoint-8/adapter_model.safetensors
check "they name the file" grep -q '"base_model_name_or_path": "/.*/model.gguf"' lora2/checkpoint-8/adapter_config.json
exits 0 "resume them" train --resume lora2 --steps 9
exits 0 "generate with them" generate --model straight --adapter lora --prompt 'Line 1' --tokens 9 --temperature 0 $fp32 -q
cp out first
exits 0 "merge" merge --adapter lora2/checkpoint-8 --output-dir merged
exits 0 "generate from the merged model" generate --model merged --prompt 'Line 1' --tokens 9 --temperature 0 $fp32 -q
check "the same text" same out first
exits 0 "export with adapters" export --adapter lora2/checkpoint-8 --type f32 --output merged.gguf
exits 0 "generate from it" generate --model merged.gguf --prompt 'Line 1' --tokens 9 --temperature 0 $fp32 -q
check "the same text again" same out first
exits 0 "export adapters" export --model model.gguf --adapter lora2 --adapter-only --output adapter.gguf
check "the result is named" grep -q ': only its adapters, f32: adapter.gguf, ' out
exits 0 "full training" train --model model.gguf --data text.txt --block-size 16 --threads 1 --precision $precision \
    --steps 2 --output-dir full
check "checkpoints are directories" test -f full/checkpoint-2/model.safetensors -a -f full/checkpoint-2/tokenizer.json
exits 0 "resume it" train --resume full --steps 3
# A Modelfile.
printf '%s' "{% for m in messages %}<{{ m.role }}>{{ m.content }}
{% endfor %}{% if add_generation_prompt %}<assistant>{% endif %}" >template.jinja
cp -r $model chatty
cp template.jinja chatty/chat_template.jinja
exits 0 "export with a Modelfile" export --model chatty --modelfile --output model.gguf
cat >expected <<'EOF'
FROM ./model.gguf
TEMPLATE """{{ if .System }}<system>{{ .System }}
<user>{{ else }}<user>{{ end }}{{ .Prompt }}
<assistant>{{ .Response }}
"""
EOF
check "the template" sh -c "head -5 Modelfile | cmp -s - expected"
# Refused files and options.
printf 'GGUF\003\000\000\000' >short.gguf
printf x >a_file
refuses 1 "'a_file' is neither a model directory nor a GGUF file" export --model a_file --output gone
refuses 1 "short.gguf: the file ends in its header: download it again" generate --model short.gguf --prompt x
refuses 1 "unknown value 'q9'\|q9" export --model straight --type q9 --output gone
refuses 2 "the weights of '$model' in fp32 need .* of memory, but --memory-budget has only" export --model straight --memory-budget 66M \
    --output gone
refuses 2 "but --memory-budget has only" merge --adapter lora/checkpoint-8 --memory-budget 66M --output-dir gone
refuses 1 "output is required" export --model straight
refuses 1 "model is required" export --output gone
refuses 1 "adapter is required" export --model straight --adapter-only --output gone
refuses 1 "leave out --type" export --adapter lora --adapter-only --type q8_0 --output gone
refuses 1 "leave out --adapter-only" export --adapter lora --adapter-only --modelfile --output gone
refuses 1 "general.type is 'adapter'" generate --model adapter.gguf --prompt x
refuses 1 "no_such/gone" export --model straight --output no_such/gone
finish
