#!/bin/sh
# The command on the emulated CUDA device, with the shapes of real models: widths are multiples of 64, so that operands are
# aligned and products take their main path; rows and vocabulary are not, so that tiles have edges. In each precision
# losses and norms of gradients match the reference kernels of the processor: AVX512-BF16 and AMX round activations to 16 bits in
# products.
root=$PWD
. tests/command/command.sh
. "$root/tests/cuda/device.sh"
EITP_ISA=ref
export EITP_ISA

head -c 6000 "$root/README.md" >text.txt
sizes='"num_hidden_layers": 1, "max_position_embeddings": 64, "vocab_size": 301'
printf '{"model_type": "gpt2", "n_embd": 64, "n_head": 2, "n_layer": 1, "n_positions": 64, "vocab_size": 301}\n' >gpt2.json
printf '{"model_type": "bert", "hidden_size": 64, "num_attention_heads": 2, "intermediate_size": 128, %s}\n' "$sizes" >bert.json
printf '{"model_type": "llama", "hidden_size": 64, "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 192, %s}\n' "$sizes" >llama.json
exits 0 "a tokenizer" tokenizer train --data text.txt --vocab-size 300 --output bpe
mkdir words
{ printf '%s\n' '[PAD]' '[UNK]' '[CLS]' '[SEP]' '[MASK]'
    for letter in a b c d e f g h i j k l m n o p q r s t u v w x y z; do printf '%s\n##%s\n' $letter $letter; done; } >words/vocab.txt

steps=2
[ -z "$EITP_TEST_ALL" ] || steps=20
for model in gpt2 bert llama; do
    tokenizer=bpe task=
    [ $model != bert ] || tokenizer=words task="--task mlm"
    for type in fp32 bf16 fp16; do
        most=2e-3
        [ $type != fp32 ] || most=1e-5
        train="train --init $model.json --tokenizer $tokenizer --data text.txt --block-size 21 --batch-size 3 --grad-accum 2 --lr 2e-3 --eval-steps 0 --optimizer adamw --precision $type --steps $steps $task"
        exits 0 "$model, $type, on the processor" $train --output-dir $model-$type-cpu
        runs "$model, $type, on the device" $train --output-dir $model-$type
        check "$model, $type: the losses of $steps steps" agree $model-$type-cpu $model-$type $steps $most
        # Later a norm may be sensitive to roundings: at step 16 this Llama has norms that differ by 0.6 % in bf16 and fp32
        # on the processor, and losses by 0.01 %.
        check "$model, $type: the norms of two gradients" agree $model-$type-cpu $model-$type 2 $most grad_norm
    done
done

finish
