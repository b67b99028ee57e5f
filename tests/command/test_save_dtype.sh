#!/bin/sh
# The command: the dtype of weights in files.
. tests/command/command.sh

# Prints the dtypes of the weights in a directory, each once.
dtypes() {
    tr ',' '\n' <"$1/model.safetensors" | sed -n 's/.*"dtype":"\([A-Z0-9]*\)".*/\1/p' | sort -u | tr '\n' ' '
}

losses() {
    sed -n 's/.*"loss": \([0-9.]*\),.*/\1/p' out
}

# Starts from weights in 16 bits, as left by another program.
for dtype in bf16 f16; do
    exits 0 "$dtype: a base" $train --steps 2 --save-dtype $dtype --output-dir made_$dtype
    mkdir $dtype
    cp made_$dtype/checkpoint-2/config.json made_$dtype/checkpoint-2/generation_config.json made_$dtype/checkpoint-2/model.safetensors \
        made_$dtype/checkpoint-2/tokenizer*.json $dtype
done
check "bf16: config.json" grep -q '"dtype": "bfloat16"' bf16/config.json
check "f16: config.json" grep -q '"dtype": "float16"' f16/config.json
exits 0 "a new model" $train --steps 1 --output-dir new
check "a new model is F32" test "$(dtypes new/checkpoint-1)" = "F32 "

# Files have the base's dtype, and a resumed run has the bits of an uninterrupted one.
tune="train --data text.txt --block-size 16 --batch-size 1 --grad-accum 2 --threads 1 --eval-steps 3 --lr 0.01 --lr-schedule constant"
for case in "bf16 fp32 adamw none" "bf16 bf16 adamw8 none" "bf16 bf16 adamw8-sr none" "f16 fp32 adamw all"; do
    set -- $case
    options="--model $1 --precision $2 --optimizer $3 --offload $4"
    rm -rf whole cut
    exits 0 "$case: straight" $tune $options --steps 6 --output-dir whole --json
    exits 0 "$case: the first half" $tune $options --steps 3 --output-dir cut
    exits 0 "$case: the second half" train --resume auto --output-dir cut --steps 6
    check "$case: the same bits" same_checkpoints whole/checkpoint-6 cut/checkpoint-6
    check "$case: the dtype of the base" test "$(dtypes whole/checkpoint-6)" = "$(dtypes $1)"
done

# The best checkpoint, and the weights read by eval and merge, are exact.
rm -rf whole
exits 0 "the last evaluation" $tune --model bf16 --precision fp32 --steps 6 --patience 9 --output-dir whole --json
wanted=$(sed -n 's/.*"val_loss": \([0-9.]*\),.*/\1/p' out)
exits 0 "eval" eval --model whole/checkpoint-6 --split validation --precision fp32 --threads 1 --json
check "eval: the loss of the run's end" test -n "$wanted" -a "$(losses)" = "$wanted"
exits 0 "eval in 16 bits" eval --model bf16 --data text.txt --block-size 16 --threads 1
best=$(sed -n 's/.*"best": {"step": \([0-9]*\),.*/\1/p' whole/best.json)
wanted=$(sed -n 's/.*"best": {"step": [0-9]*, "value": \([0-9.]*\)[,}].*/\1/p' whole/best.json)
exits 0 "eval of the best" eval --model whole/checkpoint-$best --split validation --precision fp32 --threads 1 --json
check "eval: the loss of the best evaluation" test -n "$wanted" -a "$(losses | cut -c1-9)" = "$(echo "$wanted" | cut -c1-9)"

# Another dtype on request, in usual spellings. A resume keeps it.
exits 0 "float32" $tune --model bf16 --steps 2 --save-dtype float32 --output-dir wide
check "float32: F32" test "$(dtypes wide/checkpoint-2)" = "F32 "
exits 0 "float32: resumed" train --resume auto --output-dir wide --steps 3 --threads 1
check "float32: kept" test "$(dtypes wide/checkpoint-3)" = "F32 "
exits 0 "bfloat16: resumed" train --resume auto --output-dir wide --steps 4 --threads 1 --save-dtype bfloat16
check "bfloat16: BF16" test "$(dtypes wide/checkpoint-4)" = "BF16 "
refuses 1 "save-dtype" $tune --model bf16 --steps 2 --save-dtype int8 --output-dir gone

# Commands that change a checkpoint keep its weights and their dtype.
cp -r whole changed
exits 0 "set" set changed dropout=0
check "set: config.json" grep -q '"dtype": "bfloat16"' changed/checkpoint-6/config.json
exits 0 "set: the weights" eval --model changed/checkpoint-6 --data text.txt --block-size 16 --precision fp32 --threads 1 --json
wanted=$(losses)
exits 0 "set: the weights before" eval --model whole/checkpoint-6 --data text.txt --block-size 16 --precision fp32 --threads 1 --json
check "set: the same weights" test -n "$wanted" -a "$(losses)" = "$wanted"

# The plan includes the copy of F16 weights in F32.
for dtype in bf16 f16; do
    exits 0 "plan of $dtype" plan --model $dtype --optimizer adamw --precision fp32 --block-size 16 --json
    tr ',' '\n' <out | sed -n 's/.*"checkpoint": \([0-9]*\).*/\1/p' | head -1 >planned_$dtype
done
check "the checkpoint of f16 is larger" test "$(cat planned_f16)" -gt "$(cat planned_bf16)"

# A decoder and an encoder in one checkpoint, each with its own dtype.
exits 0 "a tokenizer" tokenizer train --data text.txt --family roberta --vocab-size 300 --output words
cat >roberta.json <<'END'
{"model_type": "roberta", "vocab_size": 300, "max_position_embeddings": 66, "hidden_size": 16, "num_hidden_layers": 1,
 "num_attention_heads": 2, "intermediate_size": 32}
END
exits 0 "an encoder" train --data text.txt --init roberta.json --tokenizer words --task mlm --steps 1 --block-size 16 --threads 1 \
    --precision fp32 --save-dtype f16 --output-dir encoder
vae="train --data text.txt --model bf16 --encoder encoder/checkpoint-1 --task vae --latent-size 4 --block-size 16 --batch-size 2 --threads 1
    --precision fp32 --eval-steps 2 --lr-schedule constant"
exits 0 "vae: straight" $vae --steps 4 --output-dir latent --json
wanted=$(sed -n 's/.*"val_loss": \([0-9.]*\),.*/\1/p' out)
exits 0 "vae: the first half" $vae --steps 2 --output-dir latent_cut
exits 0 "vae: the second half" train --resume auto --output-dir latent_cut --steps 4
check "vae: the same bits" same_checkpoints latent/checkpoint-4 latent_cut/checkpoint-4
check "vae: dtypes" test "$(dtypes latent/checkpoint-4)$(dtypes latent/checkpoint-4/decoder)$(dtypes latent/checkpoint-4/encoder)" = "F32 BF16 F16 "
exits 0 "vae: eval" eval --model latent --split validation --precision fp32 --threads 1 --json
check "vae: the loss of the run's end" test -n "$wanted" -a "$(losses)" = "$wanted"

# Files changed since they were saved are not joined with the others.
exits 0 "half" $tune --model f16 --steps 2 --output-dir half
cp -r half/checkpoint-2 other
cp f16/model.safetensors other
refuses 1 "does not have the values of the weights in F16" eval --model other --data text.txt --block-size 16 --threads 1
cp -r whole/checkpoint-6 other2
cp wide/checkpoint-3/model.safetensors other2
exits 0 "another file of weights" eval --model other2 --data text.txt --block-size 16 --threads 1
printf 'x' >>other2/optimizer.safetensors
cp whole/checkpoint-6/model.safetensors other2
exits 0 "another optimizer's file" eval --model other2 --data text.txt --block-size 16 --threads 1
check "another optimizer's file: reported" grep -q "warning: 'other2' was changed after the checkpoint was saved" err
rm other2/optimizer.safetensors
exits 0 "without the optimizer's file" eval --model other2 --data text.txt --block-size 16 --threads 1

# Adapters are F32. Merged weights have the base's dtype, or another on request.
refuses 1 "error: --save-dtype: adapters are saved as f32" $tune --model bf16 --steps 2 --lora-rank 2 --save-dtype bf16 --output-dir gone
exits 0 "adapters" $tune --model bf16 --steps 2 --lora-rank 2 --output-dir adapters
check "adapters: F32" test "$(cp adapters/checkpoint-2/adapter_model.safetensors model.safetensors && dtypes .)" = "F32 "
exits 0 "merge" merge --model bf16 --adapter adapters --output-dir merged
check "merge: BF16" test "$(dtypes merged)" = "BF16 "
check "merge: config.json" grep -q '"torch_dtype": "bfloat16"' merged/config.json
exits 0 "merge --save-dtype fp16" merge --model bf16 --adapter adapters --output-dir merged16 --save-dtype fp16
check "merge --save-dtype fp16: F16" test "$(dtypes merged16)" = "F16 "

finish
