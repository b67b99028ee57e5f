#!/bin/sh
# The command: train and eval with labels, numbers and masked tokens (--task), from tables; refusals.
. tests/command/command.sh

# A WordPiece vocabulary, a shape, and samples whose label is a word they contain.
mkdir words
printf '%s\n' '[PAD]' '[UNK]' '[CLS]' '[SEP]' '[MASK]' a b c d e f g h i j k l m n o p q r s t u v w x y z >words/vocab.txt
printf '{"tokenizer_class": "BertTokenizer"}\n' >words/tokenizer_config.json
cat >shape.json <<'END'
{"model_type": "bert", "architectures": ["BertModel"], "vocab_size": 32, "hidden_size": 32, "num_attention_heads": 2,
 "num_hidden_layers": 2, "intermediate_size": 64, "max_position_embeddings": 32, "hidden_dropout_prob": 0.0,
 "attention_probs_dropout_prob": 0.0}
END
rows() { # first, count, separator, header
    awk -v first="$1" -v count="$2" -v separator="$3" -v header="$4" 'BEGIN {
        if (header) print "text" separator "label"
        split("a b c d e f g h i j k l m n o p q r s t", letter, " ")
        for (i = first; i < first + count; i++) {
            text = i % 3 == 0 ? "x" : i % 3 == 1 ? "y" : "z"
            for (j = 0; j < 2 + i % 5; j++)
                text = text " " letter[(i * 7 + j * j * 3) % 20 + 1]
            print text separator (i % 3 == 0 ? "cold" : i % 3 == 1 ? "mild" : "warm")
        }
    }'
}
rows 0 240 , 1 >train.csv
rows 1000 60 , 1 >val.csv
options="--threads 1 --precision $precision"
small="--init shape.json --tokenizer words --lr 2e-3 --lr-schedule constant --max-grad-norm 1 $options"

# ---- A classifier ----

(
    umask 022
    cp train.csv secret.csv
    chmod 600 secret.csv
    "$eitp" train $small --data secret.csv --steps 1 --output-dir private >out 2>err
)
check "a table that others may not read: its packed copy" test "$(ls -l private/data/*.labelled | cut -c 1-10)" = -rw-------
exits 0 "train" train $small --data train.csv --val-data val.csv --epochs 20 --eval-steps 100 --keep-best macro_f1 --output-dir run --json
check "run.json: all words are known" grep -q '"unknown_percent": 0, ' run/run.json
check "run.json: all parameters are trained" sh -c \
    'sed -n "s/.*\"parameters\": \([0-9]*\),.*\"trained_parameters\": \([0-9]*\)}.*/\1 \2/p" run/run.json | grep -q "^\([0-9]*\) \1$"'
check "it learns" awk -F'"val_accuracy": ' '{ exit !($2 + 0 > 0.9) }' out
check "the labels are logged" grep -q '; labels: cold 80, mild 80, warm 80$' err
check "samples, not tokens" grep -q 'samples/s' err
check "metrics in the log" grep -q 'validation after step .*, accuracy [0-9.]*, macro_f1 [0-9.]*, 60 samples' err
check "metrics are recorded" grep -q '"val_mcc": ' run/metrics.jsonl
check "the labels are in config.json" grep -q '"1": "mild"' run/best_model/config.json
check "and the problem" grep -q '"problem_type": "single_label_classification"' run/best_model/config.json
check "and the class" grep -q 'BertForSequenceClassification' run/best_model/config.json
exits 0 "eval" eval --model run --data val.csv $options
check "accuracy" grep -qE '^accuracy +(0\.9|1)' out
check "a table of the labels" grep -qE '^warm +[01]\.[0-9]+ +[01]\.[0-9]+ +[01]\.[0-9]+ +20$' out
check "the confusion matrix" grep -qE '^cold +[0-9]+ +[0-9]+ +[0-9]+$' out
exits 0 "eval --json" eval --model run --data val.csv --json $options
check "the matrix in JSON" grep -qE '"confusion": \[\[[0-9]+, [0-9]+, [0-9]+\], \[' out
check "labels in JSON" grep -q '"by_label": \[{"label": "cold", "precision": ' out
exits 0 "predict" predict --model run --data val.csv $options
cut -f1 out >predicted
sed 1d val.csv | cut -d, -f2 >expected
check "predict agrees with the labels" test "$(paste predicted expected | awk '$1 == $2' | wc -l)" -gt 54

# ---- Labels with several spellings ----

awk -F, 'NR == 1 { print; next } { print $1 "," (NR % 3 ? $2 : NR % 2 ? $2 " " : "\302\240" $2 "\343\200\200") }' train.csv >spaced.csv
exits 0 "labels without white space around them" train $small --data train.csv --eval no --steps 2 --output-dir unspaced
exits 0 "labels with it" train $small --data spaced.csv --eval no --steps 2 --output-dir spaced
check "are the same" cmp -s unspaced/checkpoint-2/model.safetensors spaced/checkpoint-2/model.safetensors
check "in config.json too" sh -c "grep -A 5 id2label spaced/checkpoint-2/config.json | grep -q '\"1\": \"mild\"'"
check "without a warning" sh -c "! grep -q 'the labels' err"
exits 0 "eval" eval --model unspaced --data spaced.csv --json $options
cp out expected
exits 0 "eval of the others" eval --model unspaced --data train.csv --json $options
check "the same" cmp -s out expected
printf 'text,label\na,yes\nb,Yes\nc,1\nd,01\ne,no\n' >similar.csv
exits 0 "labels that may be the same" train $small --data similar.csv --eval no --steps 1 --output-dir similar
check "are named" grep -q '^warning: the labels 01, 1, Yes, yes are the same Boolean, and are learned as 4 labels; spell them the same' err
cp -r run/best_model/ old_labels
rm -f old_labels/manifest.json old_labels/trainer_state.json old_labels/run.json
sed -i -e 's/: "mild"/: "mild "/; s/"mild":/"mild ":/' old_labels/config.json
sed 's/,mild$/,mild /' val.csv >old_labels.csv
exits 0 "eval with a label that a model has" eval --model run --data val.csv --json $options
sed 's/.*"accuracy"/"accuracy"/; s/, "block_size.*//; s/"mild"/"mild "/g' out >expected
exits 0 "with white space" eval --model old_labels --data old_labels.csv --json $options
sed 's/.*"accuracy"/"accuracy"/; s/, "block_size.*//' out >found
check "is the same" cmp -s found expected
exits 0 "predict" predict --model old_labels --data val.csv $options
check "prints its name like that" sh -c "cut -f1 out | grep -qx 'mild '"

# ---- Weights of rows ----

awk -F, 'NR == 1 { print $0 ",weight"; next } { print $0 "," NR % 4 / 2 }' train.csv >weighted.csv
awk -F, 'NR == 1 { print $0 ",weight"; next } { print $0 "," (NR % 2 ? "" : 1) }' train.csv >ones.csv
exits 0 "a column of weights, without the option" train $small --data weighted.csv --eval no --steps 2 --output-dir unnamed_weights
check "is not used, with a warning" grep -q "^warning: 'weighted.csv' has a column that may contain weights, which is ignored; name it with --weight-column if it contains the weight of each row in the loss" err
check "changes nothing" cmp -s unspaced/checkpoint-2/model.safetensors unnamed_weights/checkpoint-2/model.safetensors
exits 0 "weights of 1" train $small --data ones.csv --weight-column weight --eval no --steps 2 --output-dir ones
check "change no bit" cmp -s unspaced/checkpoint-2/model.safetensors ones/checkpoint-2/model.safetensors
exits 0 "other weights" train $small --data weighted.csv --weight-column weight --steps 2 --output-dir row_weights
check "without a warning" sh -c "! grep -q 'column that may contain weights' err"
check "change something" sh -c "! cmp -s unspaced/checkpoint-2/model.safetensors row_weights/checkpoint-2/model.safetensors"
check "are in run.json" grep -q '"weight-column": "weight"' row_weights/run.json
loss() {
    sed -n 's/.*"loss": \([0-9.]*\),.*/\1/p' out
}
exits 0 "eval of the run's data" eval --model row_weights --split all --json $options
whole=$(loss)
exits 0 "eval with weights" eval --model row_weights --data weighted.csv --weight-column weight --json $options
check "the same loss" test "$(loss)" = "$whole"
exits 0 "eval without weights" eval --model row_weights --data weighted.csv --json $options
check "another one" test "$(loss)" != "$whole"
exits 0 "resume" train --resume row_weights --steps 3 $options --output-dir row_weights
printf 'text,label,weight\na,cold,1\nb,mild,-2\n' >negative.csv
refuses 1 "negative.csv: line 3, column 1: the weight must be a number of at least 0 (got '-2')" train $small --data negative.csv --weight-column weight --output-dir gone
refuses 1 "no column named 'w'" train $small --data weighted.csv --weight-column w --output-dir gone
refuses 1 "weight-column is for labels: --task is mlm" train $small --task mlm --data weighted.csv --weight-column weight --output-dir gone

# ---- Task inference ----

exits 0 "--task auto without labels" train $small --data words/vocab.txt --data-format lines --steps 2 --output-dir mlm --eval no
check "masked tokens" grep -q 'masked_tokens/s' err
exits 0 "--task mlm with rows" train $small --task mlm --data train.csv --steps 2 --output-dir rows
check "the rows are samples" grep -q 'data: 216 training samples' err
exits 0 "--whole-words" train $small --task mlm --whole-words --data train.csv --steps 2 --output-dir wwm
rows 0 400 ' ' '' | tr '\n' ' ' >text.txt
exits 0 "--task mlm with text" train $small --task mlm --data text.txt --steps 2 --output-dir windows --block-size 16 --val-fraction 0
check "windows of text" grep -q 'at most 16 tokens' err
exits 0 "eval of rows" eval --model rows --data train.csv --json $options
check "masked tokens" grep -q '"masked_tokens": [1-9]' out
exits 0 "eval of windows" eval --model windows --data text.txt $options
check "their loss" grep -qE '^loss [0-9.]+ nats per masked token' out
exits 0 "eval --split validation of rows" eval --model rows --split validation $options
mkdir -p folders/cold folders/warm files
for i in 1 2 3 4 5 6; do
    echo "x a b $i" >folders/cold/$i.txt
    echo "z c d $i" >folders/warm/$i.txt
    echo "x y z a b c d" >files/$i.txt
done
exits 0 "a folder for each label" train $small --data folders --steps 1 --output-dir by_folder
check "is a classifier" grep -q '^task: classify (inferred; override with --task)' err
check "of the folders" grep -q 'warm' by_folder/latest_model/config.json
exits 0 "a directory of text files" train $small --data files --steps 1 --block-size 8 --val-fraction 0 --output-dir by_file
check "masked tokens of text files" grep -q '^task: mlm (inferred' err
exits 0 "a file for each label" train $small --task classify --data files --val-fraction 0 --steps 1 --output-dir by_file_label
check "has labels" grep -q '"5": "6"' by_file_label/latest_model/config.json
exits 0 "a classifier from it" train --model mlm --task classify --data train.csv --steps 2 --output-dir tuned $options
check "with a random head" grep -q "mlm/checkpoint-2' lacks these parameters, which are random until they are trained: bert.pooler.dense.weight, bert.pooler.dense.bias, classifier.weight, classifier.bias$" err
check "as usual: no warning" sh -c "! grep '^warning: .*random' err"
cp -r mlm/latest_model/ with_names
rm -f with_names/manifest.json with_names/trainer_state.json with_names/run.json
sed -i '1s/{/{"id2label": {"0": "x", "1": "y", "2": "z"},/' with_names/config.json
exits 0 "label names without a classifier" train --model with_names --task classify --data train.csv --steps 1 --output-dir from_names $options
check "do not apply to the new one" grep -q '"1": "mild"' from_names/latest_model/config.json
sed 's/BertForMaskedLM/BertForSequenceClassification/' with_names/config.json >lost.json
cp lost.json with_names/config.json
refuses 1 "with_names': config.json has a classifier, but the weights lack its parameters, so it is random; train it first" predict --model with_names --data val.csv
exits 0 "embeddings do without" embed --model with_names --data val.csv
exits 0 "gpt2 with labels" train --init tiny --layers 1 --width 32 --heads 2 --tokenizer words --task classify --data train.csv --steps 2 --output-dir gpt2 $options
check "GPT2ForSequenceClassification" grep -q GPT2ForSequenceClassification gpt2/latest_model/config.json
check "gpt2 with labels: no message" sh -c '! grep -q "have labels" err'
exits 0 "gpt2 without labels" train --init tiny --layers 1 --width 32 --heads 2 --tokenizer words --data train.csv --steps 2 --output-dir lm $options
check "gpt2 without labels: they are named" grep -q "^warning: the rows of 'train.csv' have labels, which .*; for a classifier train with --task classify$" err
check "predicts tokens" grep -q 'tokens/s' err

exits 0 "tokens without validation data" train --init tiny --layers 1 --width 32 --heads 2 --tokenizer words --task lm --data text.txt --block-size 8 --steps 1 --eval no --output-dir lm_all $options
check "all of them train" grep -qE 'data: [0-9]+ training windows, 0 validation tokens' err
check "as --print-config says" sh -c "'$eitp' train $small --data train.csv --eval no --print-config | grep -qE '^val-fraction +0 '"

exits 0 "plan a classifier" plan --init shape.json --task classify --block-size 16 --json $options
check "no logits of tokens" sh -c "! grep -o '\"logits\": [0-9]*' out | grep -q '[0-9][0-9][0-9][0-9]'"
exits 0 "plan a trained one" plan --model tuned --block-size 16 --json $options
check "a classifier too" sh -c "! grep -o '\"logits\": [0-9]*' out | grep -q '[0-9][0-9][0-9][0-9]'"

# ---- Resume, split ----

exits 0 "straight" train $small --data train.csv --steps 20 --save-steps 10 --save-total-limit 0 --output-dir straight
mkdir again && cp -r straight/checkpoint-10 again && cp straight/run.json again
exits 0 "resume" train --resume auto --output-dir again $options
check "the same weights" same straight/checkpoint-20/model.safetensors again/checkpoint-20/model.safetensors
mkdir off && cp -r straight/checkpoint-10 off && cp straight/run.json off
exits 0 "a resume without validation data" train --resume auto --eval no --output-dir off $options
check "keeps its data" grep -q 'data: 216 training samples' err
exits 0 "--split validation" eval --model straight --split validation --json $options
check "the run's validation samples" grep -q '"samples": 24' out
check "a warning without --split" sh -c "'$eitp' eval --model straight --data train.csv $options 2>&1 >/dev/null | grep -q 'was trained on 90 % of this data'"
exits 0 "LoRA" train --model mlm --task classify --lora-rank 2 --data train.csv --steps 2 --output-dir lora $options
check "adapters" test -s lora/latest_model/adapter_model.safetensors
exits 0 "adapters of a model without a classifier" eval --model mlm --adapter lora --data val.csv --json $options
check "have their labels" grep -q '"label": "mild"' out
check "and nothing random" sh -c "! grep 'random until.*classifier' err"
exits 0 "predict with adapters" predict --adapter lora --data val.csv $options
check "predict the same" sh -c "cut -f1 out | grep -qE '^(cold|mild|warm)$'"
exits 0 "resume LoRA" train --resume auto --output-dir lora --steps 3 $options
check "with its head" sh -c "! grep 'random until.*classifier' err"
exits 0 "merge" merge --model mlm --adapter lora --output-dir merged
check "the merged model has labels" grep -q '"1": "mild"' merged/config.json
exits 0 "heads by seed" train --model mlm --task classify --seed 2 --data train.csv --steps 2 --output-dir seed2 $options
check "another seed, another head" sh -c "! cmp -s seed2/latest_model/model.safetensors tuned/latest_model/model.safetensors"

exits 0 "set" set straight/checkpoint-20 dropout=0.1
check "keeps the labels" grep -q '"1": "mild"' straight/checkpoint-20/config.json

# ---- Several labels, numbers, pairs, weights ----

printf 'text,label\na b,cold|wet\nc d,warm\ng h,wet\na c,cold\nb d,warm|wet\n' >several.csv
exits 0 "several labels" train $small --data several.csv --val-fraction 0 --steps 4 --output-dir several
check "multi_label_classification" grep -q multi_label_classification several/latest_model/config.json
printf 'text,label\na b,cold|wet\nc d,\ng h,wet\n' >none.csv
exits 0 "--labels several" train $small --task classify --labels several --data none.csv --val-fraction 0 --steps 1 --output-dir none
check "a row without a label" grep -q 'data: 3 training samples' err
exits 0 "eval of several" eval --model several --data several.csv $options
check "subset accuracy" grep -q '^subset_accuracy' out
awk 'BEGIN { print "text\tother\tlabel"; for (i = 0; i < 40; i++) print "a b\tc d " (i % 2 ? "e" : "f") "\t" i / 7 }' >pairs.tsv
exits 0 "numbers and pairs" train $small --task regress --pair-column other --data pairs.tsv --steps 4 --output-dir numbers
check "regression" grep -q '"problem_type": "regression"' numbers/latest_model/config.json
exits 0 "eval of numbers" eval --model numbers --data pairs.tsv --pair-column other $options
check "mean squared error" grep -q '^mse' out
exits 0 "weights and smoothing" train $small --data train.csv --class-weights balanced --label-smoothing 0.1 --layer-lr-decay 0.9 --freeze embeddings --steps 2 --output-dir weighted
exits 0 "given weights" train $small --data train.csv --class-weights 1,2,0.5 --steps 2 --output-dir given
cat train.csv >repeats.csv
sed 1d train.csv | head -20 >>repeats.csv
printf '%s\n' "x a a,warm" "x a a,cold" >>repeats.csv
exits 0 "repeats" train $small --data repeats.csv --steps 1 --output-dir repeats
check "repeats are reported" grep -q 'rows repeat an earlier one' err
exits 0 "--dedup" train $small --data repeats.csv --dedup --steps 1 --val-fraction 0 --output-dir dedup
check "repeats are left out" grep -q 'dedup left them out' err

# ---- Label names ----

# Twelve labels, and a model without their names, as transformers writes one with num_labels=12.
awk 'BEGIN { print "text,label"; split("a b c d e f g h i j k l", letter, " ")
    for (i = 0; i < 240; i++) print letter[i % 12 + 1] " " letter[i * 5 % 12 + 1] "," i % 12 }' >twelve.csv
exits 0 "twelve labels" train $small --data twelve.csv --epochs 30 --eval no --output-dir twelve
check "without validation data all rows are used for training" grep -q 'data: 240 training samples, 0 validation samples' err
check "and overlap with no validation rows" sh -c "! grep -q 'also in the training data' err"
exits 0 "--eval no with a split" train $small --data twelve.csv --steps 1 --eval no --val-fraction 0.25 --output-dir split_off
check "which is kept" grep -q 'data: 180 training samples' err
check "and not compared" sh -c "! grep -q 'also in the training data' err"
exits 0 "--eval no with validation data" train $small --data twelve.csv --val-data twelve.csv --steps 1 --eval no --output-dir val_off
check "which is not compared" sh -c "! grep -q 'also in the training data' err"
forget_names() { # of a model directory
    sed -i -e '/"id2label"/,/}/s/: "\([0-9]*\)"/: "LABEL_\1"/' -e '/"label2id"/,/}/s/"\([0-9]*\)":/"LABEL_\1":/' "$1/config.json"
}
cp -r twelve/latest_model/ unnamed
rm -f unnamed/manifest.json unnamed/trainer_state.json unnamed/run.json
forget_names unnamed
exits 0 "predict" predict --model unnamed --data twelve.csv $options
cut -f1 out >predicted
check "of the twelve" test "$(sort -u predicted | wc -l)" -gt 10
check "labels without names" grep -qx LABEL_10 predicted
predicted_as() { # file of labels: the texts with them
    { echo text,label; sed 1d twelve.csv | cut -d, -f1 | paste -d, - "$1"; } >named.csv
}
accuracy() {
    sed -n 's/^accuracy *\([0-9.]*\).*/\1/p' out
}
predicted_as predicted
exits 0 "eval of the output of predict" eval --model unnamed --data named.csv $options
check "agrees with it" test "$(accuracy)" = 1.0000
check "without a warning" sh -c "! grep -q 'differ from the labels of the model' err"
exits 0 "training on it" train --model unnamed --data named.csv --steps 1 --lr 1e-9 --output-dir again_named $options
check "continues from there" awk '/^step 1/ { found = $4 < 1.5 } END { exit !found }' err
check "with the same names" grep -q '"10": "LABEL_10"' again_named/latest_model/config.json
sed 's/LABEL_//' predicted >digits
predicted_as digits
exits 0 "label numbers" eval --model unnamed --data named.csv $options
check "are these labels" test "$(accuracy)" = 1.0000
predicted_as predicted
{ echo text,label; grep -E 'LABEL_(2|10|11)$' named.csv; } >some.csv
exits 0 "some of the labels" eval --model unnamed --data some.csv $options
check "are these" test "$(accuracy)" = 1.0000
exits 0 "training on some of them" train --model unnamed --data some.csv --val-data named.csv --class-weights balanced --steps 1 --lr 1e-9 --output-dir some $options
check "continues, too" awk '/^step 1/ { found = $4 < 1.5 } END { exit !found }' err
check "validates on all" grep -qE '^validation after step 0: .*accuracy 1.0000' err
check "keeps all names" grep -q '"11": "LABEL_11"' some/latest_model/config.json
exits 0 "resume" train --resume auto --output-dir some --steps 2 $options
exits 0 "eval of the run" eval --model some --data named.csv $options
check "as before" test "$(accuracy)" = 1.0000
exits 0 "adapters" train --model unnamed --lora-rank 2 --data some.csv --val-fraction 0 --steps 1 --lr 1e-9 --output-dir some_adapted $options
exits 0 "eval of adapters" eval --model unnamed --adapter some_adapted --data named.csv $options
check "the same" test "$(accuracy)" = 1.0000
sed 's/,LABEL_/,topic/' named.csv >topics.csv
exits 0 "other names" eval --model unnamed --data topics.csv $options
check "are warned of" grep -qE '^warning: the labels of the data \(topic0, topic1, .* and 6 others\) differ from the labels of the model \(LABEL_0, LABEL_1, ' err
check "in the order of their numbers" test "$(accuracy)" = 1.0000
exits 0 "training with them" train --model unnamed --data topics.csv --steps 1 --output-dir topics $options
check "is warned of" grep -q '^warning: the labels of the data' err
check "names the labels" grep -q '"10": "topic10"' topics/latest_model/config.json
exits 0 "a resume" train --resume auto --output-dir topics --steps 2 $options
check "is not" sh -c "! grep -q 'the labels of the data' err"
refuses 1 "train.csv' has 3 labels (cold, mild, warm) that do not match the 12 of the model's classifier (LABEL_0" train --model unnamed --data train.csv --output-dir gone $options
refuses 1 "has 3 labels (cold, mild, warm) that do not match the 12" eval --model unnamed --data train.csv $options

# ---- Labels that cannot be learned ----

exits 0 "random weights without a tokenizer" train --task classify --init tiny.json --data train.csv --steps 1 --val-fraction 0 \
    --threads 1 --precision "$precision" --output-dir of_bytes
check "the tokens are bytes" grep -q '^no tokenizer: the tokens are bytes' err
exits 0 "predict with bytes" predict --model of_bytes --text 'any text' --threads 1
sed '1s/.*/review,stars/' train.csv >renamed.csv
exits 0 "columns of other names" train $small --data renamed.csv --text-column review --label-column stars --steps 1 --val-fraction 0 \
    --output-dir renamed
exits 0 "eval finds the columns of the run" eval --model renamed --data renamed.csv --threads 1
exits 0 "predict finds the columns of the run" predict --model renamed/checkpoint-1 --data renamed.csv --threads 1
check "predict: a line for each row" test "$(wc -l <out)" -eq "$(($(wc -l <renamed.csv) - 1))"
exits 1 "a named column takes precedence" predict --model renamed --data renamed.csv --text-column text --threads 1
exits 0 "a header among the rows" train $small --data train.csv --text-column 1 --label-column 2 --steps 1 --val-fraction 0 --output-dir header
check "is warned of" grep -q "^warning: 1 of the 4 labels of 'train.csv' occurs once (label)" err
exits 0 "a header that is one" train $small --data train.csv --steps 1 --output-dir no_header
check "is not" sh -c "! grep -q 'occurs\? once' err"
printf 'text,label\na b,x\nc d,x\ne f,x\n' >one.csv
exits 0 "one label" train $small --data one.csv --steps 1 --val-fraction 0 --output-dir one
check "is warned of" grep -q "^warning: all rows of 'one.csv' have the label x" err
printf 'text,label\na b,x\nc d,y\ne f,z\n' >each.csv
exits 0 "labels that occur once" train $small --data each.csv --steps 1 --val-fraction 0 --output-dir each
check "are warned of" grep -q "^warning: each of the 3 labels of 'each.csv' occurs once (x, y, z)" err

# The log counts the first ten labels.
labels_are_listed() { # number of labels, end of the line
    awk -v n="$1" 'BEGIN { print "text,label"; for (i = 0; i < 4 * n; i++) printf "a b,label%02d\n", i % n }' >labels.csv
    rm -rf listed
    exits 0 "$1 labels" train $small --data labels.csv --steps 1 --output-dir listed
    check "$1 labels: the log" grep -q "^data: .*; labels: label00 .* label09 [0-9]*$2$" err
}
labels_are_listed 10 ""
labels_are_listed 11 ", and 1 more label"
labels_are_listed 12 ", and 2 more labels"

# ---- Lengths ----

awk 'BEGIN { print "text,label"; split("a b c d e f g h i j k l", letter, " ")
    for (i = 0; i < 60; i++) {
        text = letter[i % 12 + 1]
        for (j = 0; j < i % 7 * 8; j++) text = text " " letter[(i + j) % 12 + 1]
        print text "," (i % 3 ? "warm" : "cold")
    }
}' >long.csv
lowered() { # the beginning of the line, arguments
    line=$1
    shift
    exits 0 "$*" "$@" $options
    check "says that the length is lowered: $*" test "$(grep -c "^$line, the positions of the model" err)" -eq 1
    check "says it once: $*" sh -c '! grep -q "is above the model.s" err'
}
long="--init shape.json --tokenizer words --steps 1"
lowered "profile safe: block-size 32 instead of 256" train $long --data long.csv --profile safe --output-dir safe
lowered "block-size 32 instead of 100" train $long --data long.csv --block-size 100 --output-dir lowered
check "samples are truncated there" grep -q 'samples exceed 32 tokens' err
lowered "block-size 32 instead of 100" train $long --task mlm --data long.csv --block-size 100 --output-dir lowered_mlm
lowered "profile full: block-size 32 instead of 512" train $long --task mlm --data long.csv --profile full --output-dir full_mlm
lowered "block-size 32 instead of 100" eval --model lowered --data long.csv --block-size 100
lowered "block-size 32 instead of 100" eval --model lowered_mlm --data long.csv --block-size 100
lowered "block-size 32 instead of 100" predict --model lowered --data long.csv --block-size 100
lowered "block-size 32 instead of 100" embed --model lowered --data long.csv --block-size 100
lowered "block-size 32 instead of 100" plan --init shape.json --task classify --block-size 100
lowered "block-size 32 instead of 100" train $long --task mlm --data text.txt --block-size 100 --output-dir lowered_windows
exits 0 "windows of eval" eval --model lowered_mlm --data text.txt --block-size 100 $options
check "are lowered, too" grep -q "^warning: --block-size is above the model's 32 positions (got 100): windows have 32 tokens" err
refuses 1 "block-size must be from 1 to the model's 32 positions (got 100)" bench step --model shape.json --task classify --block-size 100 $options
sed 's/"max_position_embeddings": 32/"max_position_embeddings": 128/' shape.json >wide.json
printed() { # expected values of block-size, batch-size and grad-accum, arguments
    wanted=$1
    shift
    exits 0 "$*" "$@" --print-config
    check "block size, batch size, accumulation $wanted: $*" test "$(awk '/^(block-size|batch-size|grad-accum) / { v[$1] = $2 }
        END { print v["block-size"], v["batch-size"], v["grad-accum"] }' out)" = "$wanted"
}
wide="--init wide.json --tokenizer words"
printed "128 16 1" train $wide --data train.csv
printed "128 16 1" train $wide --task tokens
printed "128 16 1" train $wide --task regress
printed "128 1 4" train $wide --task mlm --data train.csv
printed "- 1 4" train $wide --task mlm --data text.txt
printed "- 1 4" train --init tiny --data text.txt
printed "128 4 4" train $wide --data train.csv --profile safe
printed "100 16 1" train $wide --data train.csv --block-size 100
printed "128 16 1" plan $wide --task classify
printed "128 16 1" plan $wide --data train.csv
printed "- 1 4" plan $wide --data text.txt
printed "- 1 4" plan --init tiny
exits 0 "the printed options" train $wide --data train.csv --steps 1 --output-dir printed
check "is used" grep -q '"block-size": 128' printed/run.json
cp -r printed/latest_model/ plain
rm -f plain/manifest.json plain/trainer_state.json plain/run.json
exits 0 "eval of a model directory" eval --model plain --data train.csv --json $options
check "does not truncate samples that fit" grep -q '"block_size": 128' out
exits 0 "help train" help train
check "has both batch sizes" grep -q 'sequences per micro-batch (default: 1; 16 with --task classify, tokens or regress)$' out
check "and accumulations" grep -q 'micro-batches per step (default: 4; 1 with --task classify, tokens or regress)$' out

# ---- Refusals ----

# Messages name options, but no field or value of the library.
printf 'text,label\na b,cold\n,warm\nc d,warm\n' >empty.csv
printf 'text,label\na b,cold\nc d,\ne f,warm\n' >nameless.csv
printf '{"text": "a b", "label": ["cold", "warm"]}\n{"text": "c d", "label": ["cold"]}\n' >lists.jsonl
refuses 1 "empty.csv: line 3, column 1: the text is empty: it has no tokens; --on-bad-row skip goes on with the next row" \
    train $small --data empty.csv --output-dir gone
refuses 1 "nameless.csv: line 3, column 1: the label is missing; name it, or train with --labels several if samples may have none" \
    train $small --data nameless.csv --output-dir gone
refuses 1 "2 labels, but a sample has one; --labels several trains with any number" \
    train $small --data lists.jsonl --labels single --output-dir gone
refuses 1 "skip-spikes needs a --spike-threshold above 0 (got 0)" train $small --data train.csv --skip-spikes --spike-threshold 0 \
    --output-dir gone
for file in empty nameless; do
    exits 0 "$file.csv with --on-bad-row skip" train $small --data $file.csv --steps 1 --val-fraction 0 --on-bad-row skip --output-dir skipped-$file
done

cut -d, -f1 train.csv >unlabelled.csv
printf 'text,label\na b,cold\nc d,hot\n' >unknown.csv
refuses 1 "unlabelled.csv' has no labels (columns: [a-z, ]*); name their column with --label-column" train $small --task classify --data unlabelled.csv --output-dir gone
printf 'review,sentiment\ngood,x\nbad,y\ngood one,x\nbad one,y\n' >usual.csv
exits 0 "usual names of columns" train $small --task classify --data usual.csv --steps 1 --val-fraction 0 --output-dir usual
check "usual names of columns: reported once" test "$(grep -c "^usual.csv: read with --text-column 'review', --label-column 'sentiment'$" err)" -eq 1
check "usual names of columns: two labels" grep -q 'labels: x 2, y 2$' err
sed 's/review,sentiment/text,sentiment/; s/$/,z/; 1s/z$/category/' usual.csv >two.csv
refuses 1 "two.csv' has no labels (columns: text, sentiment, category); name their column with --label-column" \
    train $small --task classify --data two.csv --output-dir gone
refuses 1 "unknown.csv: line 3, column 1: no label named 'hot' (labels: cold, mild, warm)" train $small --data train.csv --val-data unknown.csv --output-dir gone
refuses 1 "train with --task regress" train $small --task classify --pair-column other --data pairs.tsv --output-dir gone
refuses 1 "no column named 'topic'" train $small --task classify --label-column topic --data train.csv --output-dir gone
refuses 1 "unknown metric 'f2' (choose from loss, accuracy, macro_f1" train $small --data train.csv --keep-best f2 --output-dir gone
refuses 1 "choose from none, balanced, or 3 numbers" train $small --data train.csv --class-weights 1,2 --output-dir gone
refuses 1 "train it with --task lm" train --init tiny --tokenizer words --task mlm --data train.csv --output-dir gone
refuses 1 "expected a language model" train --model straight --task lm --data train.csv --output-dir gone
refuses 1 "with --init set --vocab-size 257" train --init shape.json --task classify --data train.csv --output-dir gone
refuses 1 "invalid value 'words' (choose from auto, lm, mlm, classify, tokens, regress, vae)" train $small --task words --data train.csv --output-dir gone

finish
