#!/bin/sh
# The command: evaluations.jsonl, with the confusion matrix, the worst mistakes and text samples.
. tests/command/command.sh

# Prints the members of each line, one evaluation after the other.
steps_of() {
    sed 's/^{"step": \([0-9]*\),.*/\1/' "$1" | tr '\n' ' '
}

# ---- A classifier ----

# A third of the labels contradict the text, so that there are more mistakes than are kept.
mkdir words
printf '%s\n' '[PAD]' '[UNK]' '[CLS]' '[SEP]' '[MASK]' a b c d e f g h i j k l m n o p q r s t u v w x y z >words/vocab.txt
printf '{"tokenizer_class": "BertTokenizer"}\n' >words/tokenizer_config.json
cat >shape.json <<'EOF'
{"model_type": "bert", "architectures": ["BertModel"], "vocab_size": 32, "hidden_size": 32, "num_attention_heads": 2,
 "num_hidden_layers": 1, "intermediate_size": 64, "max_position_embeddings": 32, "hidden_dropout_prob": 0.0,
 "attention_probs_dropout_prob": 0.0}
EOF
rows() { # first, count
    awk -v first="$1" -v count="$2" 'BEGIN {
        print "text,label"
        split("a b c d e f g h i j k l m n o p q r s t", letter, " ")
        for (i = first; i < first + count; i++) {
            text = i % 3 == 0 ? "x" : i % 3 == 1 ? "y" : "z"
            for (j = 0; j < 3 + i % 5; j++)
                text = text " " letter[(i * 7 + j * j * 3 + i * i) % 20 + 1]
            label = i * i % 7 < 2 ? i + 1 : i
            print text "," (label % 3 == 0 ? "cold" : label % 3 == 1 ? "mild" : "warm")
        }
    }'
}
rows 0 120 >train.csv
rows 1000 90 >val.csv
small="--init shape.json --tokenizer words --lr 2e-3 --threads 1 --precision $precision --data train.csv --val-data val.csv --batch-size 8"
exits 0 "a classifier" train $small --steps 12 --eval-steps 4 --save-steps 4 --output-dir run
check "an object for each evaluation" test "$(steps_of run/evaluations.jsonl)" = "0 4 8 12 "
check "with its metrics" test "$(grep -c '"val_loss": [0-9.]*, .*"val_accuracy": .*"confusion": {.*"time": [0-9.]*, "elapsed": ' run/evaluations.jsonl)" -eq 4
check "before step 1: a part" grep -q '^{"step": 0, .*"val_samples": 64, "val_partial_samples": 64, ' run/metrics.jsonl
check "before step 1: reported" grep -q '^validation after step 0: .*, 64 samples, 64 of 90 samples$' err
check "after it: all" test "$(grep -c '"val_samples": 90, "val_time_s"' run/metrics.jsonl)" -eq 3
cp -r run smaller
sed 's/"step": 0, "val_loss": [0-9.]*/"step": 0, "val_loss": 1e-9/' run/metrics.jsonl >smaller/metrics.jsonl
rm smaller/summary.jsonl
exits 0 "a monitor" monitor --once --json smaller
check "a part is never the best" grep -q '"best_validation_step": [1-9]' out
exits 0 "all before step 1, on request" train $small --steps 1 --eval-steps 4 --eval-windows 1000 --output-dir asked
check "all before step 1, on request" test "$(grep -c '"val_samples": 90, "val_time_s"' asked/metrics.jsonl)" -eq 2
head -n 2 val.csv >one.csv
exits 0 "a single sample" train --init shape.json --tokenizer words --threads 1 --precision $precision --data train.csv --val-data one.csv \
    --steps 1 --eval-steps 4 --output-dir single
check "a single sample has no standard error" grep -q '^validation after step 0: loss [0-9.]*, accuracy ' err
exits 0 "a single sample, evaluated" eval --model single --data one.csv --threads 1
check "a single sample has no standard error in eval" grep -q '^loss [0-9.]*, 1 samples$' out
exits 0 "held out" train --init shape.json --tokenizer words --threads 1 --precision $precision --data train.csv --steps 1 --output-dir held
check "held out: reported" grep -q '^held out for validation: 12 of 120 samples, drawn by the seed (--val-fraction 0.1; 0 trains on all)$' err
tail -1 run/evaluations.jsonl >last
check "labels of the matrix" grep -q '"confusion": {"labels": \["cold", "mild", "warm"\], "others": false, "counts": \[\[' last
sed 's/.*"counts": \[\[//; s/\]\]}.*//; s/\], \[/ /g; s/,//g' last >counts
accuracy=$(sed 's/.*"val_accuracy": \([0-9.e-]*\),.*/\1/' last)
check "the matrix has each sample, and the accuracy" awk -v accuracy="$accuracy" '{
    for (i = 1; i <= NF; i++) sum += $i
    exit !(NF == 9 && sum == 90 && (($1 + $5 + $9) / sum - accuracy) ^ 2 < 1e-12)
}' counts

# The mistakes match the output of predict with the checkpoint of the last evaluation.
exits 0 "predict" predict --model run/checkpoint-12 --data val.csv --text-column text --threads 1 --precision "$precision"
sed 1d val.csv | cut -d, -f1 >texts
sed 1d val.csv | cut -d, -f2 >expected
paste out expected texts | awk -F'\t' '$1 != $3 { print NR - 1 "\t" $3 "\t" $1 "\t" $2 "\t" $4 }' | sort -t'	' -k4,4gr >all
grep -o '{"sample": [^}]*}' last | sed 's/{"sample": \([0-9]*\), "label": "\([a-z]*\)", "predicted": "\([a-z]*\)", "probability": \([0-9.e-]*\), "text": "\([^"]*\)"}/\1	\2	\3	\4	\5/' >worst
check "more mistakes than are kept" test "$(lines all)" -gt 20 -a "$(lines worst)" -eq 20
check "the worst come first" sh -c 'sort -t"	" -k4,4gr -s worst | cmp -s - worst'
check "they match predict" awk -F'\t' 'NR == FNR { label[$1] = $2; guess[$1] = $3; p[$1] = $4; text[$1] = $5; if (FNR == 20) least = $4; next }
    label[$1] != $2 || guess[$1] != $3 || text[$1] != $5 || (p[$1] - $4) ^ 2 > 1e-6 || $4 < least - 1e-3 { bad = 1 }
    END { exit bad }' all worst

exits 0 "no records" train $small --steps 12 --eval-steps 4 --report-to none --output-dir silent
check "no records: no file" test ! -e silent/evaluations.jsonl
check "no records: the same weights" same_checkpoints run/checkpoint-12 silent/checkpoint-12
exits 0 "a resume" train $small --resume auto --steps 20 --eval-steps 4 --save-steps 4 --output-dir run
check "it repeats nothing" test "$(steps_of run/evaluations.jsonl)" = "0 4 8 12 16 20 "
exits 0 "another directory" train $small --steps 4 --eval-steps 4 --log-dir logs --output-dir elsewhere
check "another directory" test -s logs/elsewhere-*/evaluations.jsonl -a ! -e elsewhere/evaluations.jsonl
refuses 1 "--sample-prompt: a model that is trained for task classify does not generate text" train $small --sample-prompt a --output-dir gone

# ---- A language model ----

exits 0 "without prompts" $train --steps 400 --eval-steps 200 --lr 2e-2 --output-dir plain
exits 0 "prompts" $train --steps 400 --eval-steps 200 --lr 2e-2 --sample-prompt 'Line 1' --sample-prompt 'é "x"' --sample-tokens 30 --output-dir told
check "prompts: the same weights" same_checkpoints plain/checkpoint-400 told/checkpoint-400
check "nothing to describe: no file" test ! -e plain/evaluations.jsonl
check "a sample for each prompt and evaluation" test "$(grep -c '"samples": \[{"prompt": "Line 1", "text": "[^}]*", "tokens": 30, "end": "length"}, {"prompt": "é \\"x\\"", "text": ' told/evaluations.jsonl)" -eq 3
check "steps" test "$(steps_of told/evaluations.jsonl)" = "0 200 400 "
exits 0 "generate" generate --model told/checkpoint-400 --prompt 'Line 1' --tokens 30 --temperature 0 --threads 1 --precision "$precision" --no-echo --json
sed 's/.*"samples": \[{"text": \("[^}]*"\), "tokens": 30.*/\1/' out >generated
tail -1 told/evaluations.jsonl | sed 's/.*"samples": \[{"prompt": "Line 1", "text": \("[^}]*"\), "tokens": 30.*/\1/' >recorded
check "generate writes the same text" same generated recorded
check "which is more than spaces" grep -q '[^ "]' generated
echo '{"sample_prompt": ["Line 1", "a"], "sample_tokens": 5}' >prompts.json
exits 0 "prompts of a file" $train --config prompts.json --steps 2 --output-dir file
check "prompts of a file" grep -q '"prompt": "a", "text": "[^}]*", "tokens": 5,' file/evaluations.jsonl
refuses 1 "--sample-prompt requires validation data" $train --sample-prompt a --val-fraction 0 --steps 2 --output-dir gone
refuses 1 "--sample-prompt: got 9 prompts (maximum 8)" $train $(for i in 1 2 3 4 5 6 7 8 9; do printf ' --sample-prompt %s' $i; done) --steps 2 --output-dir gone

finish
