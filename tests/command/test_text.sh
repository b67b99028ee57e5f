#!/bin/sh
# The command: tokenizers and token files.
. tests/command/command.sh

train_tokenizer
exits 0 "tokenizer inspect" tokenizer inspect --tokenizer tok --json
check "inspect: size" grep -q '"tokens": 360, "end_of_text": 359' out
exits 0 "encode" tokenizer encode --tokenizer tok --data text.txt
check "fewer tokens than bytes" test "$(wc -w <out)" -lt 15000
"$eitp" tokenizer decode --tokenizer tok <out >back
check "decoding restores the text" same back text.txt
exits 0 "encode a word" tokenizer encode --tokenizer tok --text 'lazy dogs' --json
check "encode: count" grep -q '"count": [1-4]}' out
exits 0 "decode arguments" tokenizer decode --tokenizer tok 34 35
check "decode arguments: text" test "$(cat out)" = CD
# BERT's tokenizer, from a vocab.txt.
mkdir bert
printf '%s\n' '[PAD]' '[UNK]' '[CLS]' '[SEP]' '[MASK]' the dog '##s' , cafe >bert/vocab.txt
exits 0 "inspect vocab.txt" tokenizer inspect --tokenizer bert --json
check "its special tokens" grep -q '"padding": 0, "unknown": 1, "classifier": 2, "separator": 3, "mask": 4' out
exits 0 "encode with vocab.txt" tokenizer encode --tokenizer bert --text 'The DOGS, café cats'
check "ids of words" test "$(cat out)" = "5 6 7 8 9 1"
exits 0 "encode a pair" tokenizer encode --tokenizer bert --special-tokens --text 'the dog' --pair dogs --json
check "a pair has segments" grep -q '"ids": \[2, 5, 6, 3, 6, 7, 3\], "segments": \[0, 0, 0, 0, 1, 1, 1\], "count": 7' out
exits 0 "truncate a pair" tokenizer encode --tokenizer bert --special-tokens --text 'the dog' --pair dogs --block-size 6 --truncation \
    only-first
check "truncation is reported" grep -q '1 tokens were cut' err
check "the first is truncated" test "$(cat out)" = "2 5 3 6 7 3"
exits 1 "too long" tokenizer encode --tokenizer bert --special-tokens --text 'the dog' --block-size 3 --truncation none
exits 1 "a pair without special tokens" tokenizer encode --tokenizer bert --text 'the dog' --pair dogs
exits 0 "decode words" tokenizer decode --tokenizer bert 5 6 7 8 9
check "decoded words" test "$(cat out)" = "the dogs, cafe"
printf 'the dogs , the dog , cafe the dogs the dog' >bert.txt
exits 0 "train with vocab.txt" train --data bert.txt --tokenizer bert --init tiny.json --vocab-size 10 --steps 1 --val-fraction 0 \
    --block-size 4 --threads 1 --output-dir words
check "vocab.txt is saved with the model" same bert/vocab.txt words/checkpoint-1/vocab.txt
exits 0 "generate words" generate --model words --prompt 'the dog' --tokens 3 --temperature 0 --threads 1
check "generated words" test "$(grep -c '##' out)" -eq 0
pack_text
check "pack: the result" grep -q '"bytes_per_token": [2-9].*"unigram_entropy": [1-9]' out
# A tokenizer with another name for its end-of-text token: it separates documents, and checkpoints have its id.
mkdir renamed
sed 's/<|endoftext|>/<end>/' tok/tokenizer.json >renamed/tokenizer.json
printf '{"eos_token": {"content": "<end>", "lstrip": false}, "bos_token": null, "unk_token": null}' >renamed/tokenizer_config.json
exits 0 "inspect another end-of-text" tokenizer inspect --tokenizer renamed --json
check "another end-of-text" grep -q '"end_of_text": 359, "begin_of_text": -1, "padding": -1, "unknown": -1' out
exits 0 "pack with another end-of-text" pack --data text.txt --tokenizer renamed --output renamed.tok --json
check "another end-of-text is packed" grep -q '"documents": 1, "end_of_text": 359' out
exits 0 "train without that tokenizer" train --data renamed.tok --init tiny.json --vocab-size 360 --steps 1 --output-dir ended
check "the token file's end-of-text is named" grep -q '"eos_token_id": 359' ended/checkpoint-1/config.json
check "generation too" grep -q '"eos_token_id": 359' ended/checkpoint-1/generation_config.json
exits 0 "train on a token file" train --data packed.tok --tokenizer tok --init tiny.json --vocab-size 360 --steps 2 \
    --threads 1 \
    --output-dir tokens
check "the tokenizer is saved with the model" same tok/tokenizer.json tokens/checkpoint-2/tokenizer.json
exits 0 "eval finds the tokenizer" eval --model tokens --data text.txt --threads 1
exits 0 "generate finds the tokenizer" generate --model tokens --prompt 'Line' --tokens 3 --threads 1
exits 0 "fine-tune" train --model tokens --data text.txt --steps 2 --threads 1 --output-dir tuned \
    --val-data text.txt --print-config
check "fine-tuning has another learning rate" grep -q '^lr  *5e-05  (default)' out
check "--print-config does nothing" test ! -e tuned
exits 0 "fine-tune" train --model tokens --data text.txt --steps 2 --threads 1 --output-dir tuned --val-data text.txt
check "packed data of text and validation" test "$(ls tuned/data | wc -l)" -eq 1
exits 0 "packed once" train --model tokens --data text.txt --steps 2 --threads 1 --output-dir tuned2
rm -r tuned2/checkpoint-2
exits 0 "packed data is reused" train --model tokens --data text.txt --steps 2 --threads 1 --output-dir tuned2
check "packed data is reused: logged" grep -q 'reusing packed data' err
rm -r tuned2/checkpoint-2
printf 'x' | dd of="$(ls tuned2/data/*)" bs=1 seek=3000 conv=notrunc 2>/dev/null
exits 0 "damaged packed data" train --model tokens --data text.txt --steps 2 --threads 1 --output-dir tuned2
check "damaged packed data is packed again" same "$(ls tuned2/data/*)" "$(ls tuned/data/*)"

# Quotes from a damaged file are printed as text, in one line.
mkdir damaged
cp tok/vocab.json tok/tokenizer_config.json damaged
printf '#version: 0.2\n\304\033[2J\n' >damaged/merges.txt
refuses 1 'line 2: "??\[2J" must be two tokens separated by a space' tokenizer inspect --tokenizer damaged

# Packed files that are for other text, or incomplete, are removed when a run with this text starts. Other files stay.
kept=$(basename "$(ls tuned2/data/*)")
touch tuned2/data/0123456789abcdef.tokens tuned2/data/0123456789abcdef.tokens.partial tuned2/data/mine.tokens \
    tuned2/offload.tmp tuned2/run.json.partial
exits 0 "resume next to packed data of other text" train --resume auto --output-dir tuned2 --steps 3 --threads 1
check "unused packed data are removed" test "$(ls tuned2/data | sort | tr '\n' ' ')" = \
    "$(printf '%s\nmine.tokens\n' "$kept" | sort | tr '\n' ' ')"
check "unfinished files are removed" test ! -e tuned2/offload.tmp -a ! -e tuned2/run.json.partial
touch tuned2/data/0123456789abcdef.tokens
refuses 1 "training data differ" train --resume auto --output-dir tuned2 --data small.txt --steps 4 --threads 1
check "a run that is refused removes nothing" test -e tuned2/data/0123456789abcdef.tokens -a -e "tuned2/data/$kept"

# The configuration of a model is read more than once.
sed 's/^{/{"tie_word_embeddings": false, /' tiny.json >untied.json
exits 0 "a separate head" train --data text.txt --init untied.json --block-size 16 --steps 1 --threads 1 \
    --precision "$precision" --eval-steps 0 --output-dir untied -q
sed 's/"tie_word_embeddings": false/"tie_word_embeddings": true/' untied/checkpoint-1/config.json >config.json
mv config.json untied/checkpoint-1/config.json
exits 0 "a separate head, declared as tied" train --data text.txt --model untied/checkpoint-1 --block-size 16 --steps 1 --threads 1 \
    --precision "$precision" --eval-steps 0 --output-dir warned
check "a warning is not repeated" test "$(grep -c '^warning: .* the head is not tied' err)" -eq 1

finish
