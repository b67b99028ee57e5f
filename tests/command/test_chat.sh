#!/bin/sh
# Conversations: the tokens trained on, a run that is killed and resumed, adapters, and chatting with the result.
root=$PWD
. tests/command/command.sh

options="--precision $precision --threads 2"
tokenizer=$root/tests/golden/splits/qwen2.json
shape='"vocab_size": 512, "max_position_embeddings": 512, "hidden_size": 64, "num_attention_heads": 4, "num_key_value_heads": 2, "num_hidden_layers": 2, "intermediate_size": 128'
printf '{"model_type": "qwen2", %s, "tie_word_embeddings": true}\n' "$shape" >qwen2.json
awk 'BEGIN {
    split("red green blue grey pink teal gold plum", colours)
    split("sea sky sun fog rose pond coin fruit", things)
    for (i = 1; i <= 64; i++) {
        n = (i - 1) % 8 + 1
        printf "{\"messages\": [{\"role\": \"user\", \"content\": \"Colour of the %s?\"}, {\"role\": \"assistant\", \"content\": \"%s\"}]}\n", things[n], colours[n]
    }
}' >chats.jsonl
train="--init qwen2.json --tokenizer $tokenizer --chat-template chatml --data chats.jsonl --val-fraction 0 --batch-size 8 --grad-accum 1 --lr 4e-3 --optimizer adamw --weight-decay 0 $options"

# ---- Tokens trained on ----

exits 0 "show data" train $train --show-data 2 --output-dir shown
check "two samples" test "$(grep -c '^sample ' out)" -eq 2
check "says how many tokens" grep -q '^sample 1 of 64: [0-9]* tokens, [0-9]* of them (\*) trained on$' out
check "marks the answer" sh -c "awk '/^sample 2/ {exit} /^\\*/ {printf \"%s\", \$4}' out | tr -d '\"' | grep -q '^red<|im_end|>$'"
check "nothing is left" test ! -e shown
exits 0 "show every token" train $train --show-data 1 --train-on everything --output-dir shown
check "all are marked" test "$(grep -c '^\*' out)" -eq "$(sed -n 's/^sample 1 of 64: \([0-9]*\) tokens.*/\1/p' out)"
exits 0 "show windows of text" train --init tiny --data "$root/README.md" --block-size 16 --show-data 1 $options --output-dir shown
check "a window" grep -q '^sample 1 of [0-9]*: 16 tokens$' out
mkdir -p there/data
: >there/data/other
exits 0 "show data in a directory" train $train --show-data 1 --output-dir there
check "existing files are kept" test "$(find there | sort | tr '\n' ' ')" = "there there/data there/data/other "
exits 1 "show data that fails" train $train --block-size 8 --tokenizer nowhere --show-data 1 --output-dir shown
check "a failure leaves nothing behind" test ! -e shown

# ---- Training ----

exits 0 "train" train $train --steps 120 --save-steps 60 --output-dir chats
check "the end: the command to chat with the model" grep -q '^next: .*eitp chat --model chats$' err
check "counts the trained tokens" grep -q 'tokens are trained on' err
check "the template is saved" grep -q im_start chats/checkpoint-120/chat_template.jinja
find chats | sort >before
exits 0 "show the data of a run" train --resume chats --show-data 1
check "show the data of a run: its sample" grep -q '^sample 1 of 64: ' out
find chats | sort >after
check "a run is unchanged" same before after
check "text ends with a turn" grep -q '"eos_token_id": \[500, 502\]' chats/checkpoint-120/generation_config.json
exits 0 "with one thread" train $train --threads 1 --steps 120 --save-steps 60 --output-dir chats-1
check "the same weights" cmp -s chats/checkpoint-120/model.safetensors chats-1/checkpoint-120/model.safetensors
mkdir again && cp -r chats/checkpoint-60 chats/data again/
exits 0 "resume" train --resume again/checkpoint-60 --steps 120 $options --output-dir again
check "the same weights as without a pause" cmp -s chats/checkpoint-120/model.safetensors again/checkpoint-120/model.safetensors
mkdir moved && cp -r chats/checkpoint-60 chats/data chats/run.json moved/ && mv chats.jsonl other.jsonl
exits 0 "resume without the text" train --resume moved/checkpoint-60 --steps 120 $options --output-dir moved
check "the same weights from the packed data" cmp -s chats/checkpoint-120/model.safetensors moved/checkpoint-120/model.safetensors
mv other.jsonl chats.jsonl
exits 0 "eval" eval --model chats --data chats.jsonl --json $options
check "a loss of answers alone" sh -c "sed -n 's/.*\"loss\": \([0-9.e-]*\).*/\1/p' out | awk '{exit !(\$1 < 0.05)}'"

# ---- Chatting ----

exits 0 "chat" chat --model chats --prompt "Colour of the fog?" --temperature 0 $options
check "answers" test "$(cat out)" = grey
exits 0 "chat as JSON" chat --model chats --prompt "Colour of the fog?" --temperature 0 --json $options
check "answers" grep -q '^{"text": "grey", "prompt_tokens": [0-9]*, "tokens": [0-9]*, "stop": "end-of-text"}$' out
exits 0 "an answer that is too long" chat --model chats --prompt "Colour of the fog?" --temperature 0 --tokens 1 $options
check "reports it" grep -q 'the answer was cut after 1 token;' err
refuses 1 "context must be at most the model's 512 positions" chat --model chats --prompt a --context 513 $options
refuses 1 "the message has .* shorten it, or raise --context" chat --model chats --prompt "Colour of the fog?" --context 8 $options
printf 'Colour of the sun?\n/new\nColour of the \\\nsea?\n/new\nColour of the coin?\n/exit\nColour of the sky?\n' | "$eitp" chat --model chats --temperature 0 $options >out 2>err
check "reads messages from lines" test "$(sed -n '1p;3p' out | tr '\n' ' ')" = "blue gold "
check "ends with /exit" test "$(wc -l <out)" -eq 3
exits 0 "generate stops at the end of a turn" generate --model chats --prompt "<|im_start|>user
Colour of the sky?<|im_end|>
<|im_start|>assistant
" --temperature 0 --echo false --json $options
check "at the token that ends it" grep -q '"text": "green", "tokens": [0-9]*, "stop": "end-of-text"' out
exits 0 "adapters" train --model chats --lora-rank 4 --lora-targets all-linear --data chats.jsonl --val-fraction 0 --batch-size 8 --grad-accum 1 --steps 4 --lr 1e-4 $options --output-dir adapted
check "the end: the command with adapters" grep -q '^next: .*eitp chat --model .*/chats --adapter adapted$' err
exits 0 "a model of plain text" train --init qwen2.json --tokenizer "$tokenizer" --data "$root/README.md" --block-size 16 --steps 1 --eval no $options --output-dir plain
check "the end: plain text" grep -q '^next: .*eitp generate --model plain --prompt ' err
exits 0 "conversations on top of it" train --model plain --lora-rank 2 --chat-template chatml --data chats.jsonl --steps 1 --eval no $options \
    --output-dir talking
check "the end: a command that works" sh -c "$(sed -n 's/^next: //p' err) --prompt a --tokens 2 $options >out 2>&1"
exits 0 "chat with adapters" chat --model chats --adapter adapted --prompt "Colour of the fog?" --temperature 0 $options
check "answers" test "$(cat out)" = grey
exits 0 "draw with min-p" chat --model chats --prompt "Colour of the rose?" --temperature 1 --min-p 0.9 --seed 3 $options
check "answers" test "$(cat out)" = pink

no_room="error: cannot write to standard output: No space left on device; the result is incomplete"
if [ -c /dev/full ]; then
    for form in "" --json; do
        "$eitp" chat --model chats --prompt "Colour of the fog?" $form $options >/dev/full 2>err
        check "a full disk: exit code of chat $form" test $? -eq 5
        check "a full disk: chat $form reports it, and nothing else" test "$(grep '^error' err)" = "$no_room"
        "$eitp" generate --model chats --prompt "Colour" $form $options >/dev/full 2>err
        check "a full disk: exit code of generate $form" test $? -eq 5
        check "a full disk: generate $form reports it, and nothing else" test "$(grep '^error' err)" = "$no_room"
    done
else
    echo "SKIPPED conversations on a full disk: there is no /dev/full"
fi

# ---- Other forms, and refusals ----

printf '{"conversations": [{"from": "human", "value": "one"}, {"from": "gpt", "value": "two"}]}\n{"conversations": [{"from": "human", "value": "three"}, {"from": "gpt", "value": "four"}]}\n' >sharegpt.jsonl
exits 0 "ShareGPT" train --model chats --data sharegpt.jsonl --val-fraction 0 --steps 1 $options --output-dir sharegpt
printf '{"instruction": "one", "input": "", "output": "two"}\n{"instruction": "three", "output": "four"}\n' >alpaca.json
exits 0 "Alpaca" train --model chats --data alpaca.json --val-fraction 0 --steps 1 $options --output-dir alpaca
printf '[\n  {\n    "instruction": "one",\n    "input": "",\n    "output": "two"\n  },\n  {\n    "instruction": "three",\n    "output": "four"\n  }\n]\n' >list.json
exits 0 "Alpaca as a list" train --model chats --data list.json --val-fraction 0 --steps 1 $options --output-dir list
check "the same weights" cmp -s alpaca/checkpoint-1/model.safetensors list/checkpoint-1/model.safetensors
sed 's/"instruction"/"question"/; s/"output"/"answer"/; s/ "input": "",//' alpaca.json >questions.json
exits 0 "questions and answers" train --model chats --data questions.json --val-fraction 0 --steps 1 $options --output-dir questions
check "the same weights" cmp -s alpaca/checkpoint-1/model.safetensors questions/checkpoint-1/model.safetensors
printf 'instruction;response\none;two\n"three";four\n' >questions.csv
exits 0 "a table of questions and answers" train --model chats --data questions.csv --val-fraction 0 --steps 1 $options --output-dir table
check "the same weights" cmp -s alpaca/checkpoint-1/model.safetensors table/checkpoint-1/model.safetensors
printf '{"prompt": "q", "chosen": "a", "rejected": "b"}\n' >preferences.jsonl
refuses 1 "preferences.jsonl: line 1: rows with chosen and rejected are for preference training (DPO), which eitp does not support$" \
    train --model chats --data preferences.jsonl --steps 1 $options --output-dir gone
printf 'prompt,completion,label\none,two,True\n' >judged.csv
refuses 1 "judged.csv: line 2: rows with completion and a label true or false are for training on rated answers (KTO), which eitp does not support$" \
    train --model chats --data judged.csv --steps 1 $options --output-dir gone
mkdir folder && cp questions.json folder/
exits 0 "a directory of conversations" train $(printf %s "$train" | sed 's/chats.jsonl/folder/') --steps 1 --output-dir folders
check "with a chat template they are conversations" grep -q 'packed 2 samples' err
printf '[{"role": "x", "conversation": [{"role": "user", "content": "q"}]}]' >conversation.json
refuses 1 "conversation.json: line 1: the row has the members role, conversation; .*; the nearest is conversations" train --model chats --data conversation.json --steps 1 $options --output-dir gone
refuses 1 "conversation.json: line 1: the row has the members role, conversation; .*; the nearest is conversations" train --model chats --data conversation.json --data-format chat --steps 1 $options --output-dir gone
# ---- Weights, and tools ----

weighted="--val-fraction 0 --steps 2 --batch-size 2 --grad-accum 1 $options"
turns() { # members of the first answer, and of the row
    printf '{"conversations": [{"from": "human", "value": "one"}, {"from": "gpt", "value": "two"%s}, {"from": "human", "value": "three"}, {"from": "gpt", "value": "four"}]%s}\n' "$1" "$2"
}
{ turns '' ''; turns '' ''; } >equal.jsonl
{ turns ', "weight": 1' ', "weight": null'; turns '' ', "weight": 1.0'; } >ones.jsonl
{ turns ', "weight": 0' ''; turns '' ''; } >zero.jsonl
{ turns ', "weight": 0.5' ''; turns '' ', "weight": 3'; } >uneven.jsonl
{ turns ', "weight": 1' ', "weight": 0.25'; turns ', "weight": 1' ', "weight": 0.25'; } >scaled.jsonl
for name in equal ones zero uneven scaled; do
    exits 0 "weights: $name" train --model chats --data $name.jsonl $weighted --output-dir weighted-$name
done
weights() { # of two runs
    cmp -s "weighted-$1/checkpoint-2/model.safetensors" "weighted-$2/checkpoint-2/model.safetensors"
}
check "weights of 1 change no bit" weights equal ones
check "a weight of 0 is not trained on" sh -c "! cmp -s weighted-equal/checkpoint-2/model.safetensors weighted-zero/checkpoint-2/model.safetensors"
check "others count" sh -c "! cmp -s weighted-equal/checkpoint-2/model.safetensors weighted-uneven/checkpoint-2/model.safetensors"
check "a common factor changes no bit" weights equal scaled
exits 0 "weights in passes" train --model chats --data uneven.jsonl --val-fraction 0 --steps 2 --batch-size 1 --grad-accum 2 --micro-batches-per-pass 1 --precision $precision --threads 1 --output-dir weighted-one
exits 0 "in one pass" train --model chats --data uneven.jsonl --val-fraction 0 --steps 2 --batch-size 1 --grad-accum 2 --micro-batches-per-pass 2 $options --output-dir weighted-two
check "change no bit" weights one two
mkdir weighted-resumed && cp -r weighted-uneven/checkpoint-2 weighted-uneven/data weighted-resumed/
exits 0 "weights after a resume" train --resume weighted-resumed/checkpoint-2 --steps 3 $options --output-dir weighted-resumed
exits 0 "evaluation" eval --model chats --data zero.jsonl --json $options
cp out expected
{ printf '{"messages": [{"role": "user", "content": "one"}, {"role": "assistant", "content": "two", "weight": 0}, {"role": "user", "content": "three"}, {"role": "assistant", "content": "four"}]}\n'; turns '' ''; } >messages.jsonl
exits 0 "the same in messages" eval --model chats --data messages.jsonl --json $options
check "is the same" cmp -s out expected
exits 0 "show weights" train --model chats --data uneven.jsonl $weighted --show-data 1 --output-dir shown
check "of the tokens that have one" test "$(grep -c '^\*.*"  weight 0.5$' out)" -eq 4
exits 0 "evaluation without the weight" eval --model chats --data equal.jsonl --json $options
check "differs" sh -c "! cmp -s out expected"
{ turns ', "weight": -1' ''; turns '' ''; } >negative.jsonl
refuses 1 "negative.jsonl: line 1: message 2: 'weight' must be a number of at least 0 (got -1)" train --model chats --data negative.jsonl $weighted --output-dir gone
printf '{"messages": [{"role": "user", "content": "call it"}, {"role": "assistant", "content": "", "tool_calls": [{"type": "function", "function": {"name": "f", "arguments": {"a": 1}}}]}, {"role": "tool", "content": "2"}, {"role": "assistant", "content": "done"}], "tools": [{"name": "f"}]}\n' >calls.jsonl
refuses 1 "calls.jsonl: line 1: message 2 has 'tool_calls', which the chat template never reads; use a template that writes calls of tools" train --model chats --data calls.jsonl $weighted --output-dir gone
{ cat calls.jsonl; turns '' ', "tools": "[{\"name\": \"f\"}]"'; } >tools.jsonl
exits 0 "tools without calls" train --model chats --data tools.jsonl --on-bad-row skip $weighted --output-dir tools
check "are warned of" grep -q '^warning: 1 of 2 conversations have tools, which the chat template never reads: they are left out$' err

printf '{"prompt": "%0600d", "completion": "two"}\n{"prompt": "three", "completion": "four"}\n' 0 >long.jsonl
exits 0 "a truncated conversation" train --model chats --data long.jsonl --val-fraction 0 --steps 1 $options --output-dir long
check "is left out" grep -q 'skipped 1 of 2 conversations, which have no answer before they are cut at 512 tokens; a --block-size of [0-9]* would reach it' err
head -n 1 long.jsonl >longer.jsonl
refuses 1 "no conversation has an answer before it is cut at 64 tokens; a --block-size of [0-9]* would reach the answers" \
    train --model chats --data longer.jsonl --val-fraction 0 --steps 1 --block-size 64 $options --output-dir gone
printf '{"messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}]}\n{"messages": [{"role": "user"}]}\n' >bad.jsonl
refuses 1 "bad.jsonl: line 2: message 1 has no 'content'" train --model chats --data bad.jsonl --steps 1 $options --output-dir gone
exits 0 "bad rows are skipped" train --model chats --data bad.jsonl --on-bad-row skip --val-fraction 0 --steps 1 $options --output-dir skipped
refuses 1 "no chat template.*chatml" train --init qwen2.json --tokenizer $tokenizer --data chats.jsonl --steps 1 $options --output-dir gone
refuses 1 "error: --chat-template: .*nothing.jinja" train --init qwen2.json --tokenizer $tokenizer --chat-template nothing.jinja --data chats.jsonl --steps 1 $options --output-dir gone
printf '{%% for %%}' >broken.jinja
refuses 1 "line 1" train --init qwen2.json --tokenizer $tokenizer --chat-template broken.jinja --data chats.jsonl --steps 1 $options --output-dir gone
refuses 1 "model is required" chat --prompt a
finish
