#!/bin/sh
# The command: invalid data and models, and writes that fail.
. tests/command/command.sh

train_straight
train_tokenizer
pack_text

# ---- invalid data ----

: >empty.txt
printf 'short' >short.txt
printf 'not UTF-8: \377 and on, for long enough to make a window of tokens of this' >latin.txt
head -c 3000 packed.tok >cut.tok
{
    printf '\210\330\064\001\001\000\000\000\220\001\000\000'
    head -c 1012 /dev/zero
    awk 'BEGIN { for (i = 0; i < 400; i++) printf "\377\001" }' # ids of 511
} >llmc.bin
refuses 1 "no such file" train --data missing.txt --init tiny.json --output-dir gone
refuses 1 "no text found" train --data empty.txt --init tiny.json --output-dir gone
refuses 1 "short.txt\|tokens" train --data short.txt --init tiny.json --output-dir gone
mkdir loops
cp small.txt loops
ln -s . loops/a
ln -s . loops/b
refuses 1 "more than 32 deep, perhaps through a symbolic link" train --data loops --init tiny.json --output-dir gone
refuses 1 "invalid UTF-8" train --data latin.txt --init tiny.json --strict-utf8 --output-dir gone
refuses 1 "truncated" train --data cut.tok --init tiny.json --vocab-size 360 --output-dir gone
refuses 1 "vocabulary" train --data packed.tok --init tiny.json --output-dir gone
refuses 1 "id 511\|511" train --data llmc.bin --init tiny.json --output-dir gone
refuses 1 "tokenizer has 360 tokens" train --data text.txt --tokenizer tok --init tiny.json --output-dir gone
refuses 1 "another tokenizer" train --data packed.tok --model straight --output-dir gone
refuses 1 "must be the only --data" train --data packed.tok --data text.txt --init tiny.json --output-dir gone
refuses 1 "no tokenizer at" train --data text.txt --tokenizer missing --init tiny.json --output-dir gone
exits 0 "an llm.c file" train --data llmc.bin --init tiny.json --vocab-size 512 --block-size 16 --steps 1 \
    --threads 1 --output-dir llmc
refuses 1 "no such file" eval --model straight --data missing.txt
refuses 1 "no text found" eval --model straight --data empty.txt
check "eval leaves no temporary file" test -z "$(ls -A temporary)"
refuses 1 "missing.txt" generate --model straight --prompt-file missing.txt
refuses 1 "already a token file" pack --data packed.tok --output gone
refuses 1 "no text found" pack --data empty.txt --output gone

# ---- invalid models ----

refuses 1 "no model shape" train --data text.txt --init gpt5 --output-dir gone
refuses 1 "missing.json" train --data text.txt --init missing.json --output-dir gone
refuses 1 "no directory 'missing'" train --data text.txt --model missing --output-dir gone
refuses 1 "is not a model directory" train --data text.txt --model tok --output-dir gone
for change in 's/"n_head": 2/"n_head": 3/' 's/"n_head": 2/"n_head": 0/' 's/"n_layer": 2/"n_layer": "two"/' \
    's/"n_embd": 16/"n_embd": -16/' 's/gpt2/bert/' 's/}//' 's/257/999999999999/'; do
    sed "$change" tiny.json >bad.json
    refuses 1 "bad.json" train --data text.txt --init bad.json --output-dir gone
done

spoil
rm spoiled/model.safetensors
refuses 1 "no model.safetensors" train --data text.txt --model spoiled --output-dir gone
spoil
head -c 20000 straight/checkpoint-12/model.safetensors >spoiled/model.safetensors
refuses 1 "model.safetensors" train --data text.txt --model spoiled --output-dir gone
refuses 1 "model.safetensors" generate --model spoiled --prompt x
spoil
printf '\377\377\377\377\377\377\377\177{}' >spoiled/model.safetensors
refuses 1 "model.safetensors" train --data text.txt --model spoiled --output-dir gone
spoil
header='{"transformer.wte.weight":{"dtype":"F32","shape":[257,16],"data_offsets":[0,16448]}}       '
printf "\\$(printf %o ${#header})\000\000\000\000\000\000\000%s" "$header" >spoiled/model.safetensors
refuses 1 "model.safetensors" train --data text.txt --model spoiled --output-dir gone
for change in 's/"n_embd": 16/"n_embd": 32/' 's/"vocab_size": 257/"vocab_size": 300/' 's/"n_layer": 2/"n_layer": 3/'; do
    spoil
    sed "$change" straight/checkpoint-12/config.json >spoiled/config.json
    refuses 1 "spoiled" train --data text.txt --model spoiled --output-dir gone
done
spoil
: >spoiled/tokenizer.json
refuses 1 "tokenizer.json" eval --model spoiled --data text.txt

# ---- failing writes ----

refuses 1 "text.txt/below" $train --output-dir text.txt/below
refuses 1 "cannot" $train --output-dir text.txt
refuses 1 "cannot" $train --output-dir /proc/eitp
refuses 1 "text.txt/below" tokenizer train --data text.txt --output text.txt/below
"$eitp" pack --data text.txt --output text.txt/below >out 2>err
check "pack below a file" test $? -ne 0 -a "$(lines err)" -eq 1

# A limit on file sizes, in units of 512 bytes, below the packed text. More of these are in tests/command/test_disk.sh.
limited() {
    (
        ulimit -f "$1"
        shift
        exec "$eitp" "$@" >out 2>err </dev/null
    )
}
limited 20 $train --output-dir gone
check "packing to a full disk" test $? -eq 5 -a "$(lines err)" -eq 1 -a ! -e gone
limited 1 tokenizer train --data text.txt --vocab-size 360 --output gone
check "a tokenizer to a full disk" test $? -eq 5 -a "$(lines err)" -eq 1
check "a tokenizer to a full disk leaves nothing" test ! -e gone

# Memory needed exceeds the limit of the process.
if (ulimit -v 3000000) 2>/dev/null; then
    (
        ulimit -v 3000000
        exec "$eitp" train --data text.txt --init gpt2-xl --output-dir gone --threads 1 >out 2>err
    )
    check "too little memory" test $? -eq 2 -a "$(lines err)" -eq 1
    rm -rf gone
else
    echo "SKIPPED too little memory: the shell has no ulimit -v"
fi

# ---- files in the output directory that do not belong to the run ----

echo mine >victim
for name in metrics.csv metrics.jsonl; do
    mkdir planted
    ln -s ../victim "planted/$name"
    refuses 1 "'planted/$name' is a symbolic link" $train --steps 1 --report-to jsonl,csv --output-dir planted
    check "a planted $name: nothing is written through it" test "$(cat victim)" = mine
    rm -r planted
done

finish
