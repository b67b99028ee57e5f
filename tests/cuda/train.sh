#!/bin/sh
# The command on the emulated CUDA device: models train as on the CPU, and resume with the same bits.
root=$PWD
. tests/command/command.sh
. "$root/tests/cuda/device.sh"

head -c 6000 "$root/README.md" >text.txt
sizes='"num_hidden_layers": 2, "vocab_size": 300'
printf '{"model_type": "gpt2", "n_embd": 32, "n_head": 2, "n_layer": 2, "n_positions": 64, "vocab_size": 300}\n' >gpt2.json
printf '{"model_type": "bert", "hidden_size": 32, "num_attention_heads": 2, "intermediate_size": 64, "max_position_embeddings": 64, %s}\n' "$sizes" >bert.json
printf '{"model_type": "llama", "hidden_size": 32, "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 48, "max_position_embeddings": 64, %s}\n' "$sizes" >llama.json
common="--data text.txt --block-size 16 --batch-size 2 --grad-accum 2 --precision fp32 --lr 2e-3 --eval-steps 0 --optimizer adamw"

# A checkpoint is saved in the middle.
steps=4
[ -z "$EITP_TEST_ALL" ] || steps=20
half=$((steps / 2))

exits 0 "a tokenizer" tokenizer train --data text.txt --vocab-size 300 --output gpt2
mkdir bert
printf '%s\n' '[PAD]' '[UNK]' '[CLS]' '[SEP]' '[MASK]' a b c d e f g h i j k l m n o p q r s t u v w x y z \
    '##a' '##b' '##c' '##d' '##e' '##f' '##g' '##h' '##i' '##j' '##k' '##l' '##m' '##n' '##o' '##p' '##q' '##r' '##s' \
    '##t' '##u' '##v' '##w' '##x' '##y' '##z' >bert/vocab.txt

for model in gpt2 bert llama; do
    tokenizer=gpt2
    task=
    [ $model = bert ] && tokenizer=bert task="--task mlm"
    [ $model = gpt2 ] && task="--dropout 0.1"
    train="train --init $model.json --tokenizer $tokenizer $common $task"
    exits 0 "$model on the processor" $train --steps $steps --output-dir $model-cpu
    runs "$model on the device" $train --steps $steps --save-steps $half --output-dir $model
    check "$model: the losses of $steps steps" agree $model-cpu $model $steps
    mkdir $model-again && cp -r $model/checkpoint-$half $model/data $model-again/
    runs "$model resumes" train --resume $model-again/checkpoint-$half --steps $steps --output-dir $model-again
    check "$model: phases have times, which are less than the step's" awk '
        /"forward_s": / { steps++ }
        function seconds(name) { return match($0, "\"" name "\": [^,]*") ? substr($0, RSTART + length(name) + 4, RLENGTH - length(name) - 4) : 0 }
        /"forward_s": / { f = seconds("forward_s"); b = seconds("backward_s"); u = seconds("update_s"); t = seconds("step_time_s")
            if (!(f > 0 && b > 0 && u > 0 && f + b + u <= t)) bad = 1 }
        END { exit bad || !steps }' $model/metrics.jsonl
    for file in model optimizer; do
        check "$model: straight and resumed, the same bits of $file" cmp -s $model/checkpoint-$steps/$file.safetensors $model-again/checkpoint-$steps/$file.safetensors
    done
done

# In 16 bits a product rounds its factors, and the two devices round some sums differently.
few=$((steps < 6 ? steps : 6))
for type in bf16 fp16; do
    train="train --init gpt2.json --tokenizer gpt2 $common --precision $type"
    exits 0 "$type on the processor" $train --steps $few --output-dir $type-cpu
    runs "$type on the device" $train --steps $few --save-steps $((few / 2)) --output-dir $type
    check "$type: the losses of $few steps" agree $type-cpu $type $few 2e-3
    mkdir $type-again && cp -r $type/checkpoint-$((few / 2)) $type/data $type-again/
    runs "$type resumes" train --resume $type-again/checkpoint-$((few / 2)) --steps $few --output-dir $type-again
    check "$type: straight and resumed, the same bits" cmp -s $type/checkpoint-$few/model.safetensors $type-again/checkpoint-$few/model.safetensors
done

tf32() {
    export EITP_CUDA_PRODUCTS=cublaslt
    train="train --init gpt2.json --tokenizer gpt2 $common --dropout 0.1 --steps $steps --save-steps $steps"
    runs "without TF32" $train --output-dir fp32
    runs "with TF32" $train --output-dir tf32 --tf32
    unset EITP_CUDA_PRODUCTS
    check "TF32 is in the device description" grep -q '"numerics": "cuda-.*-tf32"' tf32/run.json
    check "TF32: losses are near" agree gpt2-cpu tf32 $steps 1e-3
    check "TF32: other bits" test "$(cksum <tf32/checkpoint-$steps/model.safetensors)" != "$(cksum <fp32/checkpoint-$steps/model.safetensors)"
    check "without TF32: losses match the CPU" agree gpt2-cpu fp32 $steps
}
if grep -q '"numerics": "cuda-sm_\([89]\|1[0-9]\)[0-9]-.*-cublaslt' gpt2/run.json; then tf32; else
    echo "SKIPPED TF32: it needs cuBLASLt and compute capability 8.0"
fi

finish
