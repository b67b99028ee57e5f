#!/bin/sh
# The command: the vocabulary of a new model is that of its tokenizer.
. tests/command/command.sh

short="--block-size 16 --threads 1 --steps 1 --eval-steps 0 --precision $precision"
vocabulary_is() { # size, directory of a run
    check "$2 has a vocabulary of $1" grep -q "\"vocab_size\": $1," "$2/checkpoint-1/config.json"
}

train_tokenizer
pack_text
exits 0 "bytes" train --data text.txt --init tiny $short --output-dir bytes
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
check "plan --data: bytes" test "$parameters" -eq "$bytes"
logits_of --vocab-size 360
words=$parameters
logits_of --tokenizer tok
check "plan --tokenizer" test "$parameters" -eq "$words"
logits_of --data packed.tok
check "plan of a token file" test "$parameters" -eq "$words"
echo '{"data": "elsewhere.txt"}' >elsewhere.json
logits_of --config elsewhere.json
check "plan: a configuration whose data is elsewhere" test "$parameters" -eq "$own"
refuses 1 "no such file" plan --init tiny --data elsewhere.txt

finish
