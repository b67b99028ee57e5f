#!/bin/sh
# The command: a new model has the vocabulary of its tokenizer.
root=$PWD
. tests/command/command.sh

short="--block-size 16 --threads 1 --steps 1 --eval-steps 0 --precision $precision"
vocabulary_is() { # size, directory of a run
    check "$2 has a vocabulary of $1" grep -q "\"vocab_size\": $1," "$2/checkpoint-1/config.json"
}

train_tokenizer
pack_text
exits 0 "bytes" train --data text.txt --init tiny --tokenizer bytes $short --output-dir bytes
vocabulary_is 257 bytes
check "bytes: logged" grep -q '^vocabulary: 257 (from the tokenizer; tiny has 50257; override with --vocab-size)' err
exits 0 "a tokenizer" train --data text.txt --init tiny --tokenizer tok $short --output-dir tokenizer
vocabulary_is 360 tokenizer
exits 0 "a token file" train --data packed.tok --init tiny $short --output-dir file
vocabulary_is 360 file
check "a token file: logged" grep -q '^vocabulary: 360 (from the token file; ' err
exits 0 "--vocab-size" train --data text.txt --init tiny --vocab-size 300 $short --output-dir given
vocabulary_is 300 given
check "--vocab-size: not logged" sh -c '! grep -q ^vocabulary err'
sed 's/257/400/' tiny.json >larger.json
exits 0 "a config.json" train --data text.txt --init larger.json $short --output-dir config
vocabulary_is 400 config
refuses 1 "--vocab-size 360" train --data text.txt --init tiny.json --tokenizer tok $short --output-dir gone
refuses 1 "more than the model's vocabulary of 300; .* --vocab-size 360" train --data text.txt --init tiny --tokenizer tok \
    --vocab-size 300 $short --output-dir gone
refuses 1 "'bytes/checkpoint-1' was started with --init tiny, not gpt2" train --resume auto --init gpt2 --output-dir bytes --steps 2
exits 0 "resume" train --resume bytes --steps 2 --threads 1
check "resume: the checkpoint's vocabulary" grep -q '"vocab_size": 257,' bytes/checkpoint-2/config.json

# ---- a newly trained tokenizer ----

cat "$root"/docs/*.md | head -c 30000 >prose.txt
size=$((257 + 30000 / 64))
exits 0 "a trained tokenizer" train --data prose.txt --init tiny $short --output-dir trained
vocabulary_is $size trained
check "it is logged" grep -q "^tokenizer: trained [0-9]* tokens on [0-9.]* kB of text, saved in trained/data/tokenizer; override with --tokenizer" err
check "the checkpoint has it" same trained/data/tokenizer/tokenizer.json trained/checkpoint-1/tokenizer.json
exits 0 "the command that trains it" tokenizer train --data prose.txt --vocab-size $size --output own
check "it matches that command's" same own/tokenizer.json trained/data/tokenizer/tokenizer.json
exits 0 "a plan" plan --data prose.txt --init tiny
check "a plan: its size" grep -q "^vocabulary: $size (from the tokenizer" err
"$eitp" train --data - --init tiny $short --output-dir input <prose.txt >out 2>err
check "standard input: the same" same trained/data/tokenizer/tokenizer.json input/data/tokenizer/tokenizer.json
check "standard input: the same model" same trained/checkpoint-1/model.safetensors input/checkpoint-1/model.safetensors
check "standard input: no copy is left" test "$(ls input/data | grep -c input)" = 0
exits 0 "threads" train --data prose.txt --init tiny --threads 2 --block-size 16 --steps 1 --eval-steps 0 --precision $precision --output-dir threads
check "threads: the same model" same trained/checkpoint-1/model.safetensors threads/checkpoint-1/model.safetensors
echo "Other words, which come later and often: later and often, later and often." >>prose.txt
exits 0 "resume" train --resume trained --steps 2 --threads 1
check "resume: the tokenizer of the run" same own/tokenizer.json trained/checkpoint-2/tokenizer.json
exits 0 "text that is too short" train --data small.txt --init tiny $short --output-dir short
check "text that is too short: bytes" grep -q '^no tokenizer: the text is too short to train one; the tokens are bytes' err
head -c 40000 /dev/zero | tr "\0" a >symbol.txt
exits 0 "one symbol" train --data symbol.txt --init tiny $short --output-dir symbol
vocabulary_is 257 symbol
exits 0 "an encoder" train --data prose.txt --init minilm --layers 1 $short --output-dir encoder
check "an encoder has a mask token" grep -q '"<mask>"' encoder/data/tokenizer/tokenizer_config.json
mkdir ./bytes.d && mv own bytes.d/bytes
(cd bytes.d && "$eitp" train --data ../small.txt --init tiny --tokenizer ./bytes $short --output-dir named >out 2>err)
check "./bytes is a directory" same bytes.d/bytes/tokenizer.json bytes.d/named/checkpoint-1/tokenizer.json

# ---- plans ----

logits_of() { # arguments of plan
    exits 0 "plan $*" plan --init tiny --threads 1 --precision "$precision" --json "$@"
    parameters=$(sed -n 's/.*"chosen": {.*"parameters": \([0-9]*\).*/\1/p' out | head -n 1)
}
logits_of
own=$parameters
logits_of --vocab-size 257
bytes=$parameters
check "plan: the shape's vocabulary is larger" test "${own:-0}" -gt "${bytes:-0}"
logits_of --data text.txt
check "plan --data: more than bytes, less than the shape" test "$parameters" -gt "$bytes" -a "$parameters" -lt "$own"
logits_of --vocab-size 360
words=$parameters
logits_of --tokenizer tok
check "plan --tokenizer" test "$parameters" -eq "$words"
logits_of --data packed.tok
check "plan of a token file" test "$parameters" -eq "$words"
echo '{"data": "elsewhere.txt"}' >elsewhere.json
logits_of --config elsewhere.json
check "plan: a configuration whose data are elsewhere" test "$parameters" -eq "$own"
refuses 1 "no such file" plan --init tiny --data elsewhere.txt

finish
