#!/bin/sh
# The command: train, eval and predict with a label for each word (--task tokens), from CoNLL columns and JSON lists.
. tests/command/command.sh

# A WordPiece vocabulary of letters, a shape, and sentences: x starts an entity continued by y, and z is an entity of
# another type.
mkdir words
{
    printf '%s\n' '[PAD]' '[UNK]' '[CLS]' '[SEP]' '[MASK]' a b c d e f g h i j k l m n o p q r s t u v w x y z
    printf '##%s\n' a b c d e f g h i j k l m n o p q r s t u v w x y z
} >words/vocab.txt
printf '{"tokenizer_class": "BertTokenizer"}\n' >words/tokenizer_config.json
cat >shape.json <<'END'
{"model_type": "bert", "architectures": ["BertModel"], "vocab_size": 57, "hidden_size": 32, "num_attention_heads": 2,
 "num_hidden_layers": 2, "intermediate_size": 64, "max_position_embeddings": 32, "hidden_dropout_prob": 0.0,
 "attention_probs_dropout_prob": 0.0}
END
sentences() { # first, count
    awk -v first="$1" -v count="$2" 'BEGIN {
        print "-DOCSTART- -X- O\n"
        split("a bc d ef g hi j kl m no", word, " ")
        for (i = first; i < first + count; i++) {
            for (j = 0; j < 2 + i % 5; j++) {
                print word[(i * 7 + j * j * 3) % 10 + 1] " N O"
                if ((i + j) % 3 == 0) print "xa N B-PER\nyb N I-PER"
                if ((i + j) % 4 == 0) print "z N B-LOC"
            }
            print ""
        }
    }'
}
sentences 0 200 >train.conll
sentences 1000 60 >val.conll
options="--threads 1 --precision $precision"
small="--init shape.json --tokenizer words --lr 2e-3 --lr-schedule constant --max-grad-norm 1 $options"

# ---- Training and evaluating ----

exits 0 "train" train $small --data train.conll --val-data val.conll --epochs 12 --eval-steps 50 --keep-best entity_f1 --output-dir run --json
check "it learns" awk -F'"val_entity_f1": ' '{ exit !($2 + 0 > 0.9) }' out
check "the task is inferred from the data" grep -q '^task: tokens (inferred; override with --task)' err
check "the labels are logged" grep -qE '; labels: B-LOC [0-9]+, B-PER [0-9]+, I-PER [0-9]+, O [0-9]+$' err
check "words, not samples" grep -q 'words/s' err
check "metrics are recorded" grep -q '"val_entity_precision_error": ' run/metrics.jsonl
check "the labels are in config.json" grep -q '"2": "I-PER"' run/best_model/config.json
check "and the class" grep -q 'BertForTokenClassification' run/best_model/config.json
check "and no problem" sh -c "! grep -q problem_type run/best_model/config.json"
exits 0 "eval" eval --model run --data val.conll $options
check "the loss of words" grep -qE '^loss [0-9.]+ \(standard error [0-9.]+\), [0-9]+ words$' out
check "the F1 of entities" grep -qE '^entity_f1 +(0\.9|1)' out
check "a table of labels" grep -qE '^I-PER +[01]\.[0-9]+ +[01]\.[0-9]+ +[01]\.[0-9]+ +[0-9]+$' out
check "a table of entities" grep -qE '^PER +[01]\.[0-9]+ +[01]\.[0-9]+ +[01]\.[0-9]+ +[0-9]+$' out
check "the confusion matrix" grep -qE '^B-LOC +[0-9]+ +[0-9]+ +[0-9]+ +[0-9]+$' out
exits 0 "eval --json" eval --model run --data val.conll --json $options
check "types in JSON" grep -q '"by_type": \[{"type": "LOC", "precision": ' out
exits 0 "eval of the validation samples" eval --model run --split validation $options

# ---- The same from JSON lists ----

awk 'BEGIN { words = labels = "" }
    $1 == "-DOCSTART-" { next }
    NF { words = words (words == "" ? "" : ", ") "\"" $1 "\""; labels = labels (labels == "" ? "" : ", ") "\"" $3 "\"" }
    !NF && words != "" { print "{\"tokens\": [" words "], \"ner_tags\": [" labels "]}"; words = labels = "" }' val.conll >val.jsonl
columns="--text-column tokens --label-column ner_tags"
exits 0 "eval of JSON lists" eval --model run --data val.jsonl $columns --json $options
cp out lists
exits 0 "and of columns" eval --model run --data val.conll --json $options
check "is the same" same out lists
exits 0 "training on lists" train $small --data val.jsonl $columns --steps 1 --output-dir lists_run
check "is inferred from the data" grep -q '^task: tokens' err

sed 's/}$/, "weight": 0.5}/' val.jsonl >halves.jsonl
awk '{ sub(/}$/, ", \"weight\": " NR % 3 "}"); print }' val.jsonl >weighted.jsonl
exits 0 "weights of a half" train $small --data halves.jsonl $columns --weight-column weight --steps 1 --output-dir halves
check "change no bit" same lists_run/checkpoint-1/model.safetensors halves/checkpoint-1/model.safetensors
exits 0 "several weights" train $small --data weighted.jsonl $columns --weight-column weight --steps 1 --output-dir row_weights
check "change something" sh -c "! cmp -s lists_run/checkpoint-1/model.safetensors row_weights/checkpoint-1/model.safetensors"

# ---- Labels as numbers ----

cp -r run/best_model/ unnamed
rm -f unnamed/manifest.json unnamed/trainer_state.json unnamed/run.json
awk -F'"' '/"id2label"/ { inside = 1 } /}/ { inside = 0 }
    inside && /"[0-9]+": "/ { sub("\"" $4 "\"", "\"LABEL_" $2 "\"") } { print }' run/best_model/config.json >unnamed/config.json
awk 'BEGIN { split("B-LOC B-PER I-PER O", name, " "); for (i = 1; i <= 4; i++) number[name[i]] = i - 1 }
    NF { $3 = number[$3] } { print }' val.conll >numbers.conll
exits 0 "eval with the numbers of labels" eval --model unnamed --data numbers.conll $options
check "a name that is a number" grep -qE '^(LABEL_)?1 ' out
check "is that of run" test "$(grep '^accuracy' out)" = "$("$eitp" eval --model run --data val.conll $options 2>/dev/null | grep '^accuracy')"
awk '$3 != "B-LOC"' val.conll >people.conll
awk '$3 != 0' numbers.conll >people_numbers.conll
exits 0 "eval without one of them" eval --model unnamed --data people_numbers.conll $options
check "is that of run" test "$(grep '^accuracy' out)" = "$("$eitp" eval --model run --data people.conll $options 2>/dev/null | grep '^accuracy')"

# ---- Predicting ----

exits 0 "predict" predict --model run --data val.conll $options
awk '$1 != "-DOCSTART-" && NF { print $1 "\t" $3 } !NF && begun { print "" } { begun = begun || ($1 != "-DOCSTART-" && NF) }' val.conll >expected
check "a line for each word, an empty one after each row" test "$(lines out)" -eq "$(lines expected)"
check "the labels" test "$(paste out expected | awk '$2 == $4' | wc -l)" -gt 500
cp out columns
exits 0 "predict of JSON lists" predict --model run --data val.jsonl --text-column tokens $options
check "the same" same out columns
cut -f1 columns >unlabelled.conll
exits 0 "predict without labels" predict --model run --data unlabelled.conll --pass-tokens 64 $options
check "the same" same out columns
exits 0 "predict --json" predict --model run --text "  xa yb 	 bc z " --json $options
printf '%s\n' '"labels": ["B-PER", "I-PER", "O", "B-LOC"]' '"entities": [{"type": "PER", "first": 0, "last": 1, "text": "xa yb"}, {"type": "LOC", "first": 3, "last": 3, "text": "z"}]' >expected
grep -oE '"labels": \[[^]]*\]|"entities": \[.*\]' out >found
check "labels and entities" same found expected
check "probabilities" grep -qE '"scores": \[[0-9.]+, [0-9.]+, [0-9.]+, [0-9.]+\]' out
printf '{"text": ["xa", "\\u200b", "yb", "a b"]}\n' >odd.jsonl
exits 0 "a word without a token" predict --model run --data odd.jsonl --json $options
check "has no label" grep -qE '"labels": \["B-PER", null, "[^"]*", "O"\], "scores": \[[0-9.]+, null' out
exits 0 "and in columns" predict --model run --data odd.jsonl $options
check "a mark; spaces are no columns" sh -c "sed -n 2p out | grep -q '	_\$' && sed -n 4p out | grep -q '^a_b	O\$'"
exits 0 "long rows" predict --model run --text "a bc d ef g hi j kl m no a bc d ef g hi j kl m no a bc d ef" --json $options
check "truncated words have no label" grep -q ', null\], "scores"' out
check "and are counted" grep -qE '^warning: [0-9]+ words were cut' err
exits 0 "no words" predict --model run --text "  " --json $options
check "no labels" grep -q '^{"labels": \[\], "scores": \[\], "entities": \[\]}$' out
printf 'xa yb\n\nbc\n' >blank.txt
exits 0 "an empty line" predict --model run --data blank.txt --json $options
check "is not a row of words" test "$(lines out)" -eq 2
exits 0 "embeddings of it" embed --model run --text "xa yb" $options

# ---- Refusals ----

printf 'a N O\nb N\n\nc N O\n' >bad.conll
printf '{"text": ["a", "b"], "label": ["O"]}\n' >bad.jsonl
printf 'a B-ORG\n' >other.conll
refuses 1 'bad.conll: line 2, column 4: the line has 2 columns, expected 3 as in line 1' train $small --data bad.conll --task tokens --output-dir gone
refuses 1 'bad.jsonl: line 1, column 10: 1 labels for 2 words; each word needs one' train $small --data bad.jsonl --output-dir gone
refuses 1 "no label named 'B-ORG' (labels: B-LOC, B-PER, I-PER, O)" eval --model run --data other.conll $options
refuses 1 'has a label for each word; train with --task tokens' train $small --task classify --data val.conll --output-dir gone
refuses 1 'choose from loss, accuracy, macro_f1, weighted_f1, entity_f1, entity_precision, entity_recall' train $small --data val.conll --val-data val.conll --keep-best auroc --output-dir gone
exits 0 "bad sentences are skipped" eval --model run --data bad.conll --on-bad-row skip $options
check "and counted" grep -q 'skipped 1 bad rows of 2' err

# ---- Other ways ----

printf 'a X\nb Y\n\nc X\n' >other.conll
exits 0 "labels that do not mark entities" train $small --data other.conll --val-data other.conll --steps 2 --output-dir plain --json
check "accuracy" grep -q '"val_accuracy": ' out
check "no entities" sh -c '! grep -q entity out'
exits 0 "predict them" predict --model plain --data other.conll --json $options
check "without entities" sh -c '! grep -q entities out'
exits 0 "adapters" train --model run --data train.conll --lora-rank 2 --steps 2 --output-dir adapted $options
check "with the classifier" grep -q '"TOKEN_CLS"' adapted/checkpoint-2/adapter_config.json
exits 0 "predict with adapters" predict --model run --adapter adapted --text "xa yb" $options
check "has their labels" grep -q '^xa	B-PER$' out
exits 0 "merge" merge --model run --adapter adapted --output-dir merged
check "keeps the labels" grep -q '"2": "I-PER"' merged/config.json
exits 0 "eval of adapters" eval --model run --adapter adapted --data val.conll $options
printf 'text,label\na b,x\nc d,y\ne f,x\ng h,y\n' >texts.csv
exits 0 "adapters on a token classifier, for text classification" train --model run --task classify --data texts.csv --lora-rank 2 --steps 2 --val-fraction 0 --output-dir texts_adapted $options
exits 0 "resume them" train --resume auto --output-dir texts_adapted --steps 3 $options
exits 0 "a text classifier from it" train --model run --task classify --data texts.csv --steps 1 --val-fraction 0 --output-dir texts $options
check "with a new head" grep -q 'the head is not used' err
check "and its tensors named: $(grep ignored err)" grep -q "^ignored [0-9]* tensors in '[^']*' not used by the model: '[^']*', '[^']*'" err
exits 0 "and back" train --model texts --task tokens --data train.conll --steps 1 --output-dir back $options
check "with another" grep -q 'the head is not used' err
exits 0 "GPT-2" train --init tiny --layers 1 --width 32 --heads 2 --tokenizer words --task tokens --data train.conll --steps 1 --output-dir gpt2 $options
check "GPT2ForTokenClassification" grep -q GPT2ForTokenClassification gpt2/latest_model/config.json
exits 0 "balanced weights and smoothing" train $small --data train.conll --class-weights balanced --label-smoothing 0.1 --steps 1 --output-dir weighted
exits 0 "plan" plan --init shape.json --task tokens --block-size 16 --json $options
exits 0 "long sentences" train $small --data train.conll --block-size 8 --steps 1 --output-dir cut
check "truncated words are counted" grep -qE 'the cut removed [0-9]+ words' err

# ---- A resume has the same bits ----

exits 0 "a straight run" train $small --data train.conll --dropout 0.1 --batch-size 4 --steps 6 --save-steps 3 --save-total-limit 0 --output-dir straight
mkdir again && cp -r straight/checkpoint-3 again && cp straight/run.json again
exits 0 "the rest of it, in other passes" train --resume auto --output-dir again --batch-size 2 --grad-accum 2 $options
check "has the same weights" same straight/checkpoint-6/model.safetensors again/checkpoint-6/model.safetensors
exits 0 "set" set straight/checkpoint-6 dropout=0.1
check "keeps the class and the labels" sh -c "grep -q BertForTokenClassification straight/checkpoint-6/config.json && grep -q I-PER straight/checkpoint-6/config.json"

finish
