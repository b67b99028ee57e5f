#!/bin/sh
# File names that are not UTF-8, and names with quotes, backslashes and line feeds: runs with them resume.
. "$(dirname "$0")/command.sh"

train_tokenizer
exits 0 "a model" $train --steps 1 --output-dir made

# ---- models of the hub ----

cached=cache/hub/models--google-bert--bert-tiny
mkdir -p $cached/refs $cached/snapshots/0123abcd
cp -r made/checkpoint-1/. $cached/snapshots/0123abcd
printf 0123abcd >$cached/refs/main
HF_HOME=$work/cache HF_HUB_CACHE=
export HF_HOME HF_HUB_CACHE
exits 0 "a model of the cache" generate --model google-bert/bert-tiny --prompt x --tokens 2 --threads 1
check "its location is reported" grep -q "^using model 'google-bert/bert-tiny' from the hub's cache: '.*/snapshots/0123abcd'" err
exits 0 "without its owner" generate --model bert-tiny --prompt x --tokens 2 --threads 1 -q
refuses 1 "or download one: 'pip install huggingface_hub', then 'hf download openai-community/gpt2 --local-dir gpt2'" \
    generate --model gpt2 --prompt x
refuses 1 "'hf download a/b --local-dir b'" generate --model a/b --prompt x
exits 0 "training a model of the cache" train --model bert-tiny --data text.txt --steps 1 --eval no --threads 1 --output-dir hub
exits 0 "resuming it" train --resume auto --steps 2 --threads 1 --output-dir hub
check "it is recorded as its directory in the cache" grep -q '"model": "/.*/snapshots/0123abcd"' hub/run.json
cp -r $cached cache/hub/models--google-bert--bert-base-chinese
exits 0 "the model of a profile" train --profile safe --data text.txt --steps 1 --eval no --threads 1 --output-dir profiled
check "it is named" grep -q "^profile safe: model bert-base-chinese; choose another with --model or --init$" err
exits 0 "a resume of it" train --resume auto --profile low-memory --steps 2 --threads 1 --output-dir profiled
check "keeps its model" sh -c '! grep -q ": model bert" err'
refuses 1 "'roberta-large'.*; or replace the model of --profile full with --model or --init$" \
    train --profile full --data text.txt
printf ../../refs >$cached/refs/main
printf x >a_file
refuses 1 "'a_file' is neither a model directory nor a GGUF file" generate --model a_file --prompt x
refuses 1 "no directory 'bert-tiny'" generate --model bert-tiny --prompt x
refuses 1 "no directory './gpt2'; name a model directory or a GGUF file$" generate --model ./gpt2 --prompt x
HF_HOME=

# runs_with NAME: trains and resumes with files and directories of that name.
runs_with() {
    name=$1
    if ! cp text.txt "$name.txt" 2>/dev/null || ! cp -r tok "$name.tokenizer"; then
        echo "SKIPPED $(echo "$name" | od -An -c | tr -s ' \n' ' '): this file system refuses the name"
        return
    fi
    cp small.txt "$name.val"
    cp -r made/checkpoint-1 "$name.model"
    set -- --data "$name.txt" --val-data "$name.val" --block-size 16 --threads 1 --precision "$precision" --save-steps 2 \
        --output-dir "$name.out"
    exits 0 "train" train "$@" --tokenizer "$name.tokenizer" --init tiny.json --vocab-size 360 --steps 2
    exits 0 "resume a directory" train --resume "$name.out" --steps 3
    check "it resumed" grep -q "resuming from '.*checkpoint-2' at step 2 of 3" err
    exits 0 "resume a checkpoint" train --resume "$name.out/checkpoint-3" --steps 4 --output-dir "$name.more"
    check "it resumed elsewhere" grep -q "at step 3 of 4" err
    exits 0 "resume the newest" train "$@" --tokenizer "$name.tokenizer" --init tiny.json --vocab-size 360 --steps 4 \
        --resume auto
    exits 0 "from a model" train --data "$name.txt" --model "$name.model" --block-size 16 --steps 1 --threads 1 \
        --precision "$precision" --output-dir "$name.tuned"
    exits 0 "resume from a model" train --resume "$name.tuned" --steps 2
    exits 0 "the configuration" train "$@" --tokenizer "$name.tokenizer" --init tiny.json --vocab-size 360 --steps 5 \
        --print-config --json
    cp out printed.json
    check "valid UTF-8" valid_utf8 printed.json
    check "valid UTF-8 in run.json" valid_utf8 "$name.out/run.json"
    exits 0 "adapters" train --data "$name.txt" --model "$name.model" --lora-rank 1 --block-size 16 --steps 1 --threads 1 \
        --precision "$precision" --output-dir "$name.lora"
    check "valid UTF-8 in adapter_config.json" valid_utf8 "$name.lora/checkpoint-1/adapter_config.json"
    exits 0 "eval of adapters" eval --model "$name.lora/checkpoint-1" --data small.txt
    exits 0 "eval" eval --model "$name.model" --data "$name.txt" --json
    check "valid UTF-8 from eval" valid_utf8 out
    rm -r "$name.lora" "$name.out" "$name.more" "$name.tuned" "$name.txt" "$name.tokenizer" "$name.val" "$name.model"
}

valid_utf8() {
    command -v iconv >/dev/null 2>&1 || return 0
    iconv -f UTF-8 -t UTF-8 <"$1" >/dev/null 2>&1
}

runs_with "$(printf 'd\377')"
runs_with "$(printf 'caf\351 \303\251')"
runs_with "$(printf '\355\262\200')"
runs_with "$(printf 'quote"back\\slash\nline')"

# ---- the config.json written by transformers for a directory with such a name ----

cp -r made/checkpoint-1 named
sed 's/^{/{"_name_or_path": "latin\\udce9", /' made/checkpoint-1/config.json >named/config.json
check "the name" grep -q 'latin.udce9' named/config.json
exits 0 "a byte in config.json" eval --model named --data small.txt
sed 's/^{/{"_name_or_path": "latin\\ud8e9", /' made/checkpoint-1/config.json >named/config.json
refuses 1 "config.json: invalid JSON at line 1, .*expected a low surrogate" eval --model named --data small.txt

# ---- input of --config ----

printf 'x' >"$(printf 'latin\351.txt')" 2>/dev/null && rm "$(printf 'latin\351.txt')" &&
    cp text.txt "$(printf 'latin\351.txt')" &&
    printf '{"data": "latin\\udce9.txt", "init": "tiny.json", "block_size": 16, "steps": 1}\n' >latin.json &&
    exits 0 "a byte in a configuration, as Python writes it" train --config latin.json --output-dir latin
for escape in 'udc7f' 'ud800' 'udd00' 'ud800\\udc00\\udfff' 'u0000'; do
    printf '{"data": "bad\\%b.txt", "init": "tiny.json"}\n' "$escape" >bad.json
    refuses 1 'bad.json:1:[0-9]*: invalid .u escape' train --config bad.json --output-dir gone
done

finish
