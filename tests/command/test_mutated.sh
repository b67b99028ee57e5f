#!/bin/sh
# The command: each input file of merge, tokenizer train, pack, embed, eval, generate, export and set is damaged in many
# ways (tests/command/mutated_input.c). The command ends with one of its documented exit codes, in bounded time and memory:
# either after an error of one line, without any output, or with an output that loads.
#   EITP_TEST_SEEDS    damages of each kind for each file
#   EITP_TEST_STRIDE   tries every n-th of them; 1: all
root=$PWD
. tests/command/command.sh
stride=${EITP_TEST_STRIDE:-7}
seeds=${EITP_TEST_SEEDS:-2}

check "build tests/command/mutated_input.c" "${CC:-cc}" -DEITP_SPLIT -I"$root/src" -I"$root" -o mutated_input \
    "$root/tests/command/mutated_input.c" "$root/src/base/checksum.c"
ways=$(./mutated_input)
# Otherwise the command would execute itself again to set it.
GOMP_SPINCOUNT=1000
ASAN_OPTIONS=exitcode=99:hard_rss_limit_mb=2000:allocator_may_return_null=1
UBSAN_OPTIONS=exitcode=99:print_stacktrace=1
export GOMP_SPINCOUNT ASAN_OPTIONS UBSAN_OPTIONS
limit=$(command -v timeout >/dev/null 2>&1 && echo "timeout -k 1 60")
# Sanitizers reserve more addresses than any limit.
memory=3000000
(ulimit -v $memory && "$eitp" --version) >/dev/null 2>&1 || memory=unlimited
# Messages are text, regardless of the content of files.
is_text=cat
command -v iconv >/dev/null 2>&1 && is_text="iconv -f UTF-8 -t UTF-8"

# limited ARGUMENTS...: runs the command with its limits.
limited() {
    (
        ulimit -v $memory
        exec $limit "$eitp" "$@" </dev/null
    )
}

# Checks an error message: one line of text.
is_message() {
    [ "$(wc -l <err)" -eq 1 ] && grep -q '^error: ' err && ! tr -d '\n' <err | grep -q '[[:cntrl:]]' && $is_text <err >/dev/null 2>&1
}

# One damage of a case: an input file and a seed.
damage() {
    rm -rf in gone .gone.partial gone.partial
    cp -r inputs in
    ./mutated_input "in/$1" "$2"
    limited $arguments >out 2>err
    ended=$?
    damages=$((damages + 1))
    what="$case, $1, seed $2: exit code $ended"
    case $ended in
    0)
        loads >loaded 2>&1 || fail "$what, and the output does not load: $(tail -n 1 loaded)"
        accepted=$((accepted + 1))
        ;;
    1 | 2 | 4)
        if ! is_message; then
            fail "$what, without one line"
            sed 's/^/    /' err | head -n 40
        fi
        [ ! -e gone ] || fail "$what, and an output"
        # Inputs before the damaged one have a result.
        [ ! -s out ] || { [ "$case" = embed ] && [ -z "$(tail -c 1 out)" ]; } || fail "$what, and a result on standard output"
        ;;
    *)
        fail "$what"
        sed 's/^/    /' err | head -n 40
        ;;
    esac
    left=$(find . -name '.*.partial' -o -name '*.tmp' -o -name '*.partial' -o -name '.*.replaced' -o -path './temporary/*')
    [ -z "$left" ] || fail "$what, and left $left"
    passed=$((passed + 1))
}

# mutate CASE ARGUMENTS...: damages each of $inputs. The command reads copies in the directory "in".
mutate() {
    case=$1
    shift
    arguments=$*
    rm -rf in gone
    cp -r inputs in
    exits 0 "$case: undamaged" $arguments
    check "$case: undamaged, loads" loads >loaded 2>&1
    for input in $inputs; do
        while [ $next -lt $((ways * seeds)) ]; do
            damage "$input" $next
            next=$((next + stride))
        done
        next=$((next - ways * seeds))
    done
}
damages=0 accepted=0 next=0

# ---- Inputs ----

head -c 1500 text.txt >small.txt
mkdir inputs inputs/model inputs/lists inputs/words inputs/adapters inputs/labels inputs/labels/good inputs/labels/bad
exits 0 "a tokenizer" tokenizer train --family roberta --data small.txt --vocab-size 270 --output tokenizer
exits 0 "a model" train --data small.txt --tokenizer tokenizer --init tiny.json --vocab-size 270 --block-size 16 --steps 1 --threads 1 --output-dir run
exits 0 "adapters" train --data small.txt --model run --lora-rank 2 --block-size 16 --steps 1 --threads 1 --output-dir tuned
exits 0 "tokens" pack --data small.txt --tokenizer tokenizer --output inputs/small.tok
cp run/checkpoint-1/config.json run/checkpoint-1/model.safetensors tokenizer/tokenizer.json tokenizer/tokenizer_config.json inputs/model
cp tokenizer/tokenizer_config.json tokenizer/vocab.json tokenizer/merges.txt inputs/lists
cp tuned/checkpoint-1/adapter_config.json tuned/checkpoint-1/adapter_model.safetensors inputs/adapters
printf '%s\n' '[PAD]' '[UNK]' '[CLS]' '[SEP]' '[MASK]' a the quick fox '##s' '##e' line 1 2 3 >inputs/words/vocab.txt
cp -r run/checkpoint-1 inputs/checkpoint-1
mkdir inputs/earlier inputs/model/1_Pooling
cp -r run/checkpoint-1 inputs/earlier
make_earlier inputs/earlier/checkpoint-1
echo '{"word_embedding_dimension": 16, "pooling_mode_cls_token": false, "pooling_mode_mean_tokens": true}' >inputs/model/1_Pooling/config.json
mkdir inputs/torch inputs/sharded
printf '%s\n' '[PAD]' '[UNK]' '[CLS]' '[SEP]' '[MASK]' a b c d e f g h i j k l m n o p q r >inputs/torch/vocab.txt
cp "$root/tests/golden/bert/bert-class/config.json" inputs/torch
cp "$root/tests/golden/pytorch/bert-class.bin" inputs/torch/pytorch_model.bin
echo '{"cls_token": "[CLS]", "pad_token": {"content": "[PAD]", "lstrip": false}}' >inputs/torch/special_tokens_map.json
echo '{"max_seq_length": 8, "do_lower_case": false}' >inputs/torch/sentence_bert_config.json
echo '[{"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},
 {"idx": 1, "name": "1", "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"}]' >inputs/torch/modules.json
mkdir inputs/torch/1_Pooling
cp inputs/model/1_Pooling/config.json inputs/torch/1_Pooling
cp "$root"/tests/golden/gpt2/tanh-sharded/* inputs/sharded
cp small.txt inputs/text.txt
exits 0 "a GGUF file" export --model run --type q8_0 --threads 1 --output inputs/model.gguf
awk 'BEGIN { print "label,text"; for (i = 0; i < 20; i++) printf "%s,\"row %d, \"\"quoted\"\" fox\"\n", i % 2 ? "bad" : "good", i }' >inputs/rows.csv
awk 'BEGIN { for (i = 0; i < 20; i++) printf "{\"text\": \"row %d \\u00e4 fox\", \"label\": \"%s\", \"n\": [1, {}]}\n", i, i % 2 ? "bad" : "good" }' >inputs/rows.jsonl
awk 'BEGIN { for (i = 0; i < 20; i++) printf "fox%d O\njumps B-X\n%s", i, i % 3 ? "" : "\n" }' >inputs/rows.conll
iconv -f UTF-8 -t UTF-16 small.txt >inputs/wide.txt 2>/dev/null || cp small.txt inputs/wide.txt
echo '{"vocab_size": 270, "min_frequency": 3, "family": "roberta", "data": ["in/text.txt"], "output": "gone"}' >inputs/train.json
echo '{"tokenizer": {"path": "in/model"}, "data": "in/text.txt", "output": "gone", "json": true}' >inputs/pack.json

# ---- Commands ----

loads() {
    limited tokenizer inspect --tokenizer gone
}
inputs="text.txt"
mutate "tokenizer train" tokenizer train --data in/text.txt --vocab-size 270 --output gone
inputs="rows.csv rows.jsonl rows.conll"
mutate "tokenizer train from tables" tokenizer train --data in/rows.csv --data in/rows.jsonl --data in/rows.conll --vocab-size 270 --output gone
inputs="train.json"
mutate "tokenizer train with a configuration" tokenizer train --config in/train.json --data in/text.txt --output gone

# Weights that are not finite are reported.
loads() {
    limited embed --model gone --text fox --threads 1 || [ $? -eq 4 ]
}
inputs="model/config.json model/model.safetensors model/tokenizer.json model/tokenizer_config.json
    adapters/adapter_config.json adapters/adapter_model.safetensors"
mutate "merge" merge --model in/model --adapter in/adapters --threads 1 --output-dir gone
inputs="lists/tokenizer_config.json lists/vocab.json lists/merges.txt"
mutate "merge with lists" merge --model in/model --adapter in/adapters --tokenizer in/lists --threads 1 --output-dir gone

# A token file that loads may have tokens outside the model's vocabulary.
loads() {
    limited eval --model run --data gone --threads 1 || grep -q 'vocabulary\|too short\|token' loaded
}
inputs="text.txt model/tokenizer.json model/tokenizer_config.json"
mutate "pack" pack --data in/text.txt --tokenizer in/model --output gone
inputs="lists/tokenizer_config.json lists/vocab.json lists/merges.txt wide.txt"
mutate "pack with lists" pack --data in/wide.txt --encoding UTF-16 --tokenizer in/lists --output gone
inputs="words/vocab.txt"
mutate "pack with words" pack --data in/text.txt --tokenizer in/words --output gone
inputs="rows.csv rows.jsonl rows.conll"
mutate "pack tables" pack --data in/rows.csv --data in/rows.jsonl --data in/rows.conll --output gone
inputs="pack.json"
mutate "pack with a configuration" pack --config in/pack.json --data in/text.txt --output gone

loads() {
    [ -s out ]
}
inputs="rows.csv rows.jsonl model/config.json model/model.safetensors model/tokenizer.json model/1_Pooling/config.json
    adapters/adapter_config.json"
mutate "embed" embed --model in/model --adapter in/adapters --data in/rows.csv --data in/rows.jsonl --threads 1 --quiet
inputs="torch/pytorch_model.bin torch/config.json torch/vocab.txt torch/special_tokens_map.json
    torch/sentence_bert_config.json torch/modules.json torch/1_Pooling/config.json"
mutate "embed with PyTorch's weights" embed --model in/torch --text a --threads 1 --quiet
inputs="sharded/config.json sharded/model.safetensors.index.json sharded/model-00002-of-00003.safetensors"
mutate "embed with several files" embed --model in/sharded --tokenizer in/torch --text a --threads 1 --quiet
inputs="small.tok model/config.json"
mutate "eval" eval --model in/model --data in/small.tok --threads 1 --block-size 16 --quiet

inputs="model.gguf"
mutate "generate from a GGUF file" generate --model in/model.gguf --prompt fox --tokens 4 --temperature 0 --threads 1 --no-echo --quiet
# Weights that are not finite are reported.
loads() {
    limited generate --model gone --prompt fox --tokens 2 --threads 1 || [ $? -eq 4 ]
}
mutate "export of a GGUF file" export --model in/model.gguf --type q8_0 --threads 1 --output gone --quiet

# A value that was set can be set again.
loads() {
    limited $arguments
}
inputs="checkpoint-1/trainer_state.json checkpoint-1/manifest.json checkpoint-1/config.json
    checkpoint-1/model.safetensors"
mutate "set" set in/checkpoint-1 lr=1e-5 dropout=0.2
inputs="earlier/checkpoint-1/trainer_state.json earlier/checkpoint-1/config.json
    earlier/checkpoint-1/model.safetensors earlier/checkpoint-1/optimizer.safetensors"
mutate "set an earlier one" set in/earlier/checkpoint-1 lr=1e-5 dropout=0.2

echo "$damages damaged inputs: $accepted accepted (stride $stride, $seeds seeds)"
finish
