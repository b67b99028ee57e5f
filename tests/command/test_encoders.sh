#!/bin/sh
# The command: BERT, RoBERTa and DistilBERT are planned and measured, and refused for next-token prediction.
# tests/command/test_classify.sh trains them.
golden=$PWD/tests/golden/bert
. tests/command/command.sh

small="--layers 1 --block-size 16 --batch-size 1 --threads 1 --precision $precision"
for shape in bert-base bert-large minilm roberta-base roberta-large distilbert-base; do
    exits 0 "plan $shape" plan --init $shape $small
    check "plan $shape: it has a configuration" grep -q '^chosen: ' out
done
exits 0 "a model directory" plan --model "$golden/bert-class" --block-size 8 --threads 1 --precision "$precision"
exits 0 "bench" bench step --model "$golden/distilbert-mlm" --block-size 8 --steps 1 --threads 1 --precision "$precision"
echo "some text" >text.txt
refuses 1 "'minilm' has no tokenizer, and --task mlm, the default for a bert model" train --init minilm --vocab-size 261 --data text.txt --output-dir gone
refuses 1 "'minilm' is a bert model, which does not predict the next token" train --task lm --init minilm --data text.txt --output-dir gone
for model in bert roberta-mlm; do
    refuses 1 "does not predict the next token" train --task lm --model "$golden/$model" --data text.txt --output-dir gone
    refuses 1 "does not predict the next token" generate --model "$golden/$model" --prompt "some"
done
refuses 1 "does not predict the next token" eval --model "$golden/bert" --data text.txt
refuses 1 "predicts masked tokens, which requires a tokenizer with a mask token" eval --model "$golden/roberta-mlm" --data text.txt
refuses 1 "is a gpt2 classifier, expected a language model; use 'eitp predict' for its labels" generate --model "$golden/gpt2-class" --prompt "some"
refuses 1 "the model has no tokenizer" eval --model "$golden/gpt2-class" --data text.txt
check "nothing is written" test ! -e gone
finish
