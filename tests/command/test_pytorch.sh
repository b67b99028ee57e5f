#!/bin/sh
# The command: directories with weights in pytorch_model.bin give the same results as those with model.safetensors.
golden=$PWD/tests/golden
. tests/command/command.sh

# The same weights in both forms, with a vocabulary for the golden model, which lacks one.
for directory in safe torch; do
    mkdir $directory
    cp "$golden/bert/bert-class/config.json" $directory
    printf '%s\n' '[PAD]' '[UNK]' '[CLS]' '[SEP]' '[MASK]' a b c d e f g h i j k l m n o p q r >$directory/vocab.txt
done
cp "$golden/bert/bert-class/model.safetensors" safe
refuses 1 "torch' has no weights: no model.safetensors, no pytorch_model.bin" predict --model torch --text a
cp "$golden/pytorch/bert-class.bin" torch/pytorch_model.bin
awk 'BEGIN {
    print "text,label"
    for (i = 0; i < 60; i++)
        print substr("a b c d e f g h i j", 1, 3 + i % 9) "," (i % 2 ? "bad" : "so so")
}' >rows.csv
options="--threads 1 --precision $precision"

for command in "predict --data rows.csv" "predict --data rows.csv --json" "embed --data rows.csv" "eval --data rows.csv --json"; do
    for directory in safe torch; do
        exits 0 "$command" $command --model $directory $options
        sed 's/"model": "[a-z]*"//; s/"seconds": [0-9.e-]*//; s/[a-z_]*per_second": [0-9.e-]*//' out >$directory.out
    done
    check "the same: $command" same safe.out torch.out
done
for directory in safe torch; do
    exits 0 "plan" plan --model $directory --block-size 8 $options
    exits 0 "train" train --model $directory --data rows.csv --steps 2 --batch-size 4 --lora-rank 2 --output-dir lora.$directory $options
    exits 0 "merge" merge --model $directory --adapter lora.$directory/checkpoint-2 --output-dir merged.$directory
    exits 0 "fine-tune" train --model $directory --data rows.csv --steps 2 --batch-size 4 --output-dir tuned.$directory $options
    exits 0 "set" set tuned.$directory lr=1e-5
done
check "the same after training" same tuned.safe/checkpoint-2/model.safetensors tuned.torch/checkpoint-2/model.safetensors
check "the same adapters" same lora.safe/checkpoint-2/adapter_model.safetensors lora.torch/checkpoint-2/adapter_model.safetensors
check "the same after merging" same merged.safe/model.safetensors merged.torch/model.safetensors
check "nothing but safetensors is written" test -z "$(find merged.torch tuned.torch -name '*.bin')"

# Next to adapters, weights in either form are the model.
for directory in safe torch; do
    cp lora.$directory/checkpoint-2/adapter_* $directory
    exits 0 "weights and adapters" predict --model $directory --data rows.csv $options
    cp out $directory.out
done
check "the weights are used, and the adapters are not" same safe.out torch.out

# No code in the file is executed.
printf 'cos\nsystem\n' >call
size=$(wc -c <torch/pytorch_model.bin)
dd if=call of=torch/pytorch_model.bin bs=1 seek=66 conv=notrunc 2>/dev/null
check "the size is kept" test "$(wc -c <torch/pytorch_model.bin)" -eq "$size"
refuses 1 "torch/pytorch_model.bin: byte 66: refers to 'os.system'; only a dict of plain tensors is read" predict --model torch --text a
printf '\200\002\212\012l\374\234F\371 j\250P\031.' >torch/pytorch_model.bin
refuses 1 "torch/pytorch_model.bin: this is the format of torch before 1.6, which is not supported; run this in its directory: python3 -c" \
    train --model torch --data rows.csv --output-dir gone
finish
