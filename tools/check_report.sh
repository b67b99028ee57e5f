#!/bin/sh
# Generates pages of eitp report and checks them in a browser: for a language model, a classifier, a run that diverged,
# and all three together. With SCREENSHOTS=DIR, saves screenshots there.
BUILD=${BUILD:-build}
case $BUILD in /*) ;; *) BUILD=$PWD/$BUILD ;; esac
if ! command -v python3 >/dev/null 2>&1; then
    echo "skipped: pages in a browser: python3 is not installed"
    exit 0
fi
case $SCREENSHOTS in /* | '') ;; *) SCREENSHOTS=$PWD/$SCREENSHOTS ;; esac
checker=$PWD/tools/check_report.py
docs=$PWD/docs
work=$(mktemp -d "$BUILD/report_check.XXXXXX") && cd "$work" || exit 1
trap 'rm -rf "$work"' EXIT

mkdir words
printf '%s\n' '[PAD]' '[UNK]' '[CLS]' '[SEP]' '[MASK]' a b c d e f g h i j k l m n o p q r s t u v w x y z >words/vocab.txt
printf '{"tokenizer_class": "BertTokenizer"}\n' >words/tokenizer_config.json
cat >shape.json <<'END'
{"model_type": "bert", "architectures": ["BertModel"], "vocab_size": 32, "hidden_size": 32, "num_attention_heads": 2,
 "num_hidden_layers": 1, "intermediate_size": 64, "max_position_embeddings": 32}
END
awk 'BEGIN {
    print "text,label"
    for (i = 0; i < 300; i++) {
        text = i % 3 == 0 ? "x" : i % 3 == 1 ? "y" : "z"
        for (j = 0; j < 3 + i % 5; j++)
            text = text " " substr("abcdefghijklmnopqrst", (i * 7 + j * j * 3 + i * i) % 20 + 1, 1)
        label = i * i % 7 < 2 ? i + 1 : i
        print text "," (label % 3 == 0 ? "cold" : label % 3 == 1 ? "a long name of a label" : "warm")
    }
}' >labels.csv
language="train --data $docs --init tiny --batch-size 2 --grad-accum 1 --eval-steps 10 --save-steps 10 -q"
"$BUILD/eitp" $language --lr 1e-3 --steps 30 --monitor full --log-full-every 10 --perf-every 10 --sample-prompt 'A kernel' \
    --notes 'A run whose page is looked at.' --output-dir language >/dev/null || exit 1
"$BUILD/eitp" $language --lr 20 --max-grad-norm 0 --spike-threshold 3 --steps 30 --output-dir diverged >/dev/null 2>&1
"$BUILD/eitp" train --init shape.json --tokenizer words --lr 2e-3 --data labels.csv --val-fraction 0.3 --batch-size 8 --steps 120 \
    --eval-steps 20 --save-steps 40 -q --output-dir classes >/dev/null 2>&1 || exit 1
for run in language diverged classes; do
    "$BUILD/eitp" report $run -o $run.html >/dev/null || exit 1
done
"$BUILD/eitp" report language diverged classes -o several.html >/dev/null || exit 1
python3 "$checker" ${SCREENSHOTS:+--screenshots "$SCREENSHOTS"} language.html diverged.html classes.html several.html
