#!/bin/sh
# The command: predict and embed, line by line, from files, standard input and options; refusals.
golden=$PWD/tests/golden/bert
. tests/command/command.sh

# A vocabulary for the golden models, which lack one.
for model in bert bert-class distilbert-class bert-mlm; do
    cp -r "$golden/$model" $model
    printf '%s\n' '[PAD]' '[UNK]' '[CLS]' '[SEP]' '[MASK]' a b c d e f g h i j k l m n o p q r >$model/vocab.txt
done
awk 'BEGIN {
    split("a b c d e f g h i j k l m n o p q r", word, " ")
    for (i = 0; i < 700; i++) {
        line = ""
        for (j = 0; j <= (i * 7) % 9; j++)
            line = line word[(i * j + i) % 18 + 1] " "
        print line
    }
}' >rows.txt
options="--threads 1 --precision $precision"

# ---- predict ----

exits 0 "a name with quotes" predict --model bert-class --text "a b" --json $options
check "it is quoted" grep -q '"gut, \\"sehr\\" gut": 0' out
sed 's/gut, ."sehr." gut/good/' bert-class/config.json >renamed && mv renamed bert-class/config.json
exits 0 "predict" predict --model bert-class --data rows.txt $options
cp out labels.txt
check "a line for each row" test "$(lines labels.txt)" -eq 700
check "a label and its probability, with four decimals" \
    test "$(grep -cE '^[A-Za-z_0-9 ]+	(0\.[0-9]{4}|1\.0000)$' labels.txt)" -eq 700
check "the throughput" grep -q '^700 inputs, ' err
exits 0 "predict --json" predict --model bert-class --data rows.txt --json $options
check "JSON lines" test "$(grep -c '^{"label": "[^"]*", "scores": {"[^"]*": [0-9.e-]*, "[^"]*": [0-9.e-]*, "[^"]*": [0-9.e-]*}}$' out)" -eq 700
sed 's/{"label": "\([^"]*\)".*/\1/' out >names
cut -f1 labels.txt >expected
check "the same labels as text" same names expected
sed 's/.*"scores": {//; s/"[^"]*": //g; s/}}$//' out |
    awk -F', ' '{ sum = $1 + $2 + $3; if ((sum - 1) ^ 2 > 1e-10) print "the sum is " sum }' >sums
check "probabilities add up to 1" test ! -s sums

"$eitp" predict --model bert-class --data - $options <rows.txt >piped 2>err
check "standard input" same piped labels.txt
head -350 rows.txt >first.txt
tail -350 rows.txt >second.txt
exits 0 "two files" predict --model bert-class --data first.txt --data second.txt --pass-tokens 64 $options
check "two files and small passes" same out labels.txt
exits 0 "--text" predict --model bert-class --text "$(sed -n 17p rows.txt)" $options
sed -n 17p labels.txt >expected
check "an input alone as among others" same out expected
check "an input alone: only its label" test ! -s err
exits 0 "an input alone, in detail" predict --model bert-class --text "a b" -v $options
check "an input alone, in detail" grep -q '^1 input, 4 tokens, ' err
check "an input alone, in detail: the device" grep -q '^device auto: cpu, ' err
printf 'a b\r\n\r\nc' >ends.txt
exits 0 "line ends" predict --model bert-class --data ends.txt $options
cp out ends
check "as many lines out as in" test "$(lines ends)" -eq 3
for text in "a b" "" c; do
    "$eitp" predict --model bert-class --text "$text" $options
done >expected
check "an empty line is an empty input" same ends expected
exits 0 "embeddings of the same" embed --model bert --data ends.txt $options
check "as many vectors as lines" test "$(lines out)" -eq 3
printf 'text,second,label\n"a b, c",d,x\n"e\nf",,y\n' >rows.csv
printf '{"sentence": "a b, c", "other": "d"}\n{"sentence": "e\\nf", "other": ""}\n' >rows.jsonl
exits 0 "a table" predict --model bert-class --data rows.csv --pair-column second $options
cp out table.txt
check "a line for each row" test "$(lines table.txt)" -eq 2
exits 0 "JSON Lines" predict --model bert-class --data rows.jsonl --text-column sentence --pair-column other $options
check "the same rows" same out table.txt
exits 0 "one row as options" predict --model bert-class --text "a b, c" --pair d $options
head -1 table.txt >expected
check "the same row" same out expected
printf 'text,n\na b,1\nbad\nc,2\n\n"d' >skipped.csv
exits 0 "skipped rows" predict --model bert-class --data skipped.csv --on-bad-row skip $options
sed -n '1p; 3p' ends >expected
sed -n '1p; 3p' out >written
check "labels of the others" same written expected
check "an empty line for each skipped row" test "$(sed -n '2p; 4p' out | tr '\n' .; lines out)" = "..4"
exits 0 "skipped rows in JSON" predict --model bert-class --data skipped.csv --on-bad-row skip --json $options
check "null for each skipped row" test "$(sed -n '2p; 4p' out | tr '\n' .; lines out)" = "null.null.4"
exits 0 "embeddings with skipped rows" embed --model bert --data skipped.csv --on-bad-row skip --json $options
check "null, too" test "$(grep -n null out | tr '\n' .; lines out)" = "2:null.4:null.4"

# --with-text and --output.
printf '{"text": "a"}\n{"text": "b"}\n{"text": 3\n' >bad.jsonl
exits 0 "--with-text" predict --model bert-class --data rows.csv --pair-column second --with-text $options
check "inputs and pairs, one a line" test "$(cut -f3- out | tr '\t\n' '|.')" = "a b, c|d.e f|."
cut -f1,2 out >written
check "the same labels with them" same written table.txt
exits 0 "--with-text --json" predict --model bert-class --data rows.csv --pair-column second --with-text --json $options
check "members" test "$(grep -c -e '^{"text": "a b, c", "pair": "d", "label": "' -e '^{"text": "e\\nf", "pair": "", "label": "' out)" -eq 2
exits 0 "vectors with their input" embed --model bert --text "a b" --with-text --json $options
check "an input and its vector" grep -q '^{"text": "a b", "embedding": \[[-0-9]' out
exits 0 "--output" predict --model bert-class --data rows.txt --output written.txt $options
check "the file has the lines" same written.txt labels.txt
check "standard output has none" test ! -s out
exits 0 "-o /dev/stdout" predict --model bert-class --data rows.txt -o /dev/stdout $options
check "standard output has the lines" same out labels.txt
exits 1 "a bad row" predict --model bert-class --data bad.jsonl --output written.txt $options
check "the file is unchanged" same written.txt labels.txt
check "nothing is left next to it" test ! -e written.txt.partial
exits 5 "a full disk" predict --model bert-class --data rows.txt --output /dev/full $options
check "the file is named" grep -q "^error: cannot write '/dev/full': No space left on device" err
exits 1 "a missing column" predict --model bert-class --data rows.csv --text-column missing $options
check "it is named" grep -q "^error: .*missing" err
exits 1 "a bad row" predict --model bert-class --data bad.jsonl $options
check "the rows before it are written" test "$(lines out)" -eq 2
check "its line is named" grep -q "^error: .*bad.jsonl.*3" err
: >empty.txt
exits 0 "no rows" predict --model bert-class --data empty.txt $options
check "no lines" test ! -s out
exits 0 "a pair" predict --model bert-class --text "a b" --pair "c d" --json $options
cp out pair.txt
exits 0 "no pair" predict --model bert-class --text "a b c d" --json $options
check "segments matter" differ out pair.txt
"$eitp" predict --model bert-class --data rows.txt $options 2>err | head -1 >first
head -1 labels.txt >expected
check "a closed pipe" same first expected
check "it ends quietly" test "$(grep -c '^error' err)" -eq 0

# Several labels, and numbers.
cp -r bert-class several
sed 's/single_label_classification/multi_label_classification/' bert-class/config.json >several/config.json
exits 0 "several labels" predict --model several --data rows.txt --json $options
check "a list of labels" test "$(grep -c '^{"labels": \[.*\], "scores": {' out)" -eq 700
awk '{ list = $0; sub(/.*"labels": \[/, "", list); sub(/\].*/, "", list)
       scores = $0; sub(/.*"scores": {/, "", scores); sub(/}}/, "", scores); count = split(scores, part, ", "); want = ""
       for (i = 1; i <= count; i++) { split(part[i], pair, ": "); if (pair[2] >= 0.5) want = want (want ? ", " : "") pair[1] }
       if (list != want) print list " is not " want }' out >wrong
check "labels of at least 0.5" test ! -s wrong
sed 's/.*"labels": \[\([^]]*\)\].*/\1/; s/"//g; s/, /|/g' out >expected
exits 0 "several labels as text" predict --model several --data rows.txt $options
cut -f1 out >names
check "names separated by |" same names expected
sed 's/single_label_classification/regression/' bert-class/config.json >several/config.json
exits 0 "numbers" predict --model several --text "a b" --json $options
check "a list of numbers" grep -q '^{"label": \[[-0-9.e]*, [-0-9.e]*, [-0-9.e]*\], "scores": {' out
exits 0 "numbers as text" predict --model several --text "a b" $options
check "three columns" test "$(awk -F'	' '{ print NF }' out)" -eq 3

# Long inputs.
echo "a b c d e f g h" >long.txt
exits 0 "cut" predict --model bert-class --data long.txt --max-length 5 $options
check "reports it" grep -q "warning: 1 of 1 inputs had more than 5 tokens and were cut" err
cp out cut.txt
exits 0 "truncated by hand" predict --model bert-class --text "a b c" --max-length 5 $options
check "the same" same out cut.txt
exits 1 "not truncated" predict --model bert-class --data long.txt --max-length 5 --truncation none $options
check "the input is named" grep -q "^error: text 1: the sequence has 10 tokens, more than the limit of 5" err

# ---- embed ----

exits 0 "embed" embed --model bert --data rows.txt $options
cp out vectors.txt
check "a line for each input" test "$(lines vectors.txt)" -eq 700
check "as many numbers as the model's width" test "$(awk -F'	' '{ print NF }' vectors.txt | sort -u)" -eq 8
awk '{ sum = 0; for (i = 1; i <= NF; i++) sum += $i * $i; if ((sum - 1) ^ 2 > 1e-8) print "the norm is " sum }' vectors.txt >wrong
check "normalized" test ! -s wrong
exits 0 "embed --json" embed --model bert --data rows.txt --json $options
sed 's/{"embedding": \[\(.*\)\]}/\1/; s/, /	/g' out >numbers
check "the same numbers" same numbers vectors.txt
exits 0 "--no-normalize" embed --model bert --data rows.txt --no-normalize $options
check "other numbers" differ out vectors.txt
mkdir bert/1_Pooling
echo '{"pooling_mode_cls_token": true, "pooling_mode_mean_tokens": false}' >bert/1_Pooling/config.json
exits 0 "1_Pooling" embed --model bert --data rows.txt $options
cp out cls.txt
check "another pooling" differ cls.txt vectors.txt
exits 0 "--pooling" embed --model bert --data rows.txt --pooling mean $options
check "the option overrules the file" same out vectors.txt
rm -r bert/1_Pooling
exits 0 "--pooling cls" embed --model bert --data rows.txt --pooling cls $options
check "the same as with the file" same out cls.txt
for pooling in max last mean-sqrt-len; do
    exits 0 "--pooling $pooling" embed --model bert --text "a b c" --pooling $pooling $options
done
exits 0 "a classifier's embeddings" embed --model bert-class --text "a b" $options
exits 0 "a masked language model's" embed --model bert-mlm --text "a b" $options

# A GPT-2 trained here: an output directory, and adapters on top of it.
exits 0 "train" $train --steps 2 --save-steps 0 --eval-steps 0 --output-dir straight
exits 0 "an output directory" embed --model straight --data small.txt --pooling last $options
check "16 numbers" test "$(awk -F'	' '{ print NF }' out | sort -u)" -eq 16
cp out base.txt
exits 0 "train adapters" train --data text.txt --model straight --lora-rank 2 --lr 0.1 --block-size 16 --threads 1 \
    --precision "$precision" --steps 4 --save-steps 0 --eval-steps 0 --output-dir adapted
exits 0 "--adapter" embed --model straight --adapter adapted --data small.txt --pooling last $options
check "adapters change them" differ out base.txt

# ---- Refusals ----

refuses 1 "'.*bert-mlm' is a bert model without a classifier; train one" predict --model bert-mlm --text a
refuses 1 "'.*straight.*' is a gpt2 model without a classifier" predict --model straight --text a
refuses 1 "model is required" predict --text a
refuses 1 "data is required" predict --model bert-class
refuses 1 "exclude each other" predict --model bert-class --text a --data rows.txt
refuses 1 "pair requires --text" predict --model bert-class --pair a --data rows.txt
refuses 1 "gone.txt" predict --model bert-class --data gone.txt
exits 0 "more than the positions" predict --model bert-class --text a --max-length 4000 --precision fp32
check "is lowered to them" grep -qE '^block-size [0-9]+ instead of 4000, the positions of the model' err
refuses 1 "--pass-tokens must be at least the" predict --model bert-class --text a --pass-tokens 2
printf 'text\na\n"b\n' >unclosed.csv
exits 1 "a bad row" predict --model bert-class --data unclosed.csv
check "a bad row: names a remedy" grep -q '^error: unclosed.csv: line 3, .*; --on-bad-row skip goes on with the next row$' err
refuses 2 "smallest --memory-budget that is enough is" predict --model bert-class --text a --memory-budget 1M
refuses 1 "invalid value 'sum'" embed --model bert --text a --pooling sum
cp -r bert untold
rm untold/vocab.txt
refuses 1 "has no tokenizer; name one with --tokenizer" embed --model untold --text a
echo '[{"type": "sentence_transformers.models.Dense"}]' >bert/modules.json
refuses 1 "unsupported module Dense" embed --model bert --text a
rm bert/modules.json
exits 0 "the named budget" predict --model distilbert-class --text a $options --memory-budget 64M
finish
