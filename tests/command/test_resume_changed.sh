#!/bin/sh
# The command: resuming with a change in batches, profile, precision, kernels or data.
. tests/command/command.sh

train_straight

# ---- the split of a step ----

changed() { # name, what the log says, options
    name=$1
    says=$2
    shift 2
    mkdir $name
    cp -r straight/checkpoint-8 straight/run.json straight/metrics.jsonl $name
    exits 0 "$name" train --resume auto --output-dir $name --threads 1 "$@"
    check "$name: logged" grep -q "$says" err
}
# The products of AMX in 16 bits sum 32 rows at once. A micro-batch here has 16, so another split rounds differently.
bits=same end='$'
if [ "$precision" != fp32 ] && grep -q '"numerics": "cpu-amx-' straight/checkpoint-12/trainer_state.json; then
    bits=other end=', but the last bits of results differ$'
fi
check_bits() { # name
    if [ $bits = same ]; then
        check "$1: the same bits" same_checkpoints straight/checkpoint-12 "$1/checkpoint-12"
    else
        check "$1: other bits, with a warning" grep -q "the same samples per step$end" err
    fi
}
changed two_two "batch-size and --grad-accum changed from 1 and 4 to 2 and 2 since '.*': the same samples per step$end" --batch-size 2
check_bits two_two
changed one_pass " to 4 and 1 since " --grad-accum 1
check_bits one_pass
exits 0 "a changed split is kept" train --resume auto --output-dir one_pass --steps 13 --threads 1
check "a changed split is kept: nothing is logged" sh -c '! grep -q ": the same samples" err'
check "a changed split is kept: in the state" grep -q '"batch_size": 4' one_pass/checkpoint-13/trainer_state.json
refuses 1 "with 4 samples per step (--batch-size 1, --grad-accum 4), .* (got 2 and 4); set both accordingly" \
    train --resume straight/checkpoint-12 --batch-size 2 --grad-accum 4 --output-dir gone
refuses 1 "with 4 samples per step .* (got 1 and 3)" train --resume straight/checkpoint-12 --grad-accum 3 --output-dir gone

# ---- profile and precision ----

changed profile "profile safe: the resumed run keeps its 4 samples per step (batch size 4, accumulation 1), block size 16 and optimizer adamw" \
    --profile safe
check_bits profile
made_with=$(sed -n 's/.*"precision": "\([a-z0-9]*\)".*/\1/p' straight/checkpoint-12/trainer_state.json)
other=bf16
[ "$made_with" != bf16 ] || other=fp32
changed precision "^warning: the precision changed from $made_with to $other since '.*'$" --precision $other
exits 0 "a changed precision is kept" train --resume auto --output-dir precision --steps 13 --threads 1
check "a changed precision is kept: in the state" grep -q "\"precision\": \"$other\"" \
    precision/checkpoint-13/trainer_state.json

# ---- kernels ----

made_with=$(sed -n 's/.*"numerics": "cpu-\([a-z0-9]*\)-.*/\1/p' straight/checkpoint-12/trainer_state.json)
environment=${EITP_ISA-}
if [ "$made_with" != ref ]; then
    EITP_ISA=ref
    export EITP_ISA
    changed kernels "^warning: the kernels changed from cpu-$made_with-.* to cpu-ref-.* since '.*': the last bits of results differ"
fi
export EITP_ISA=foo
refuses 1 "unknown EITP_ISA 'foo' (choose from ref, avx2, avx512, avx512bf16, amx)" train --resume straight/checkpoint-12 --steps 14 \
    --output-dir gone
EITP_ISA=$environment
[ -n "$environment" ] || unset EITP_ISA

# A checkpoint with kernels that no machine has.
mkdir elsewhere
cp -r straight/checkpoint-8 straight/run.json straight/metrics.jsonl elsewhere
make_earlier elsewhere/checkpoint-8
sed 's/"numerics": "cpu-[a-z0-9]*-/"numerics": "cpu-abacus-/' elsewhere/checkpoint-8/trainer_state.json >abacus.json
mv abacus.json elsewhere/checkpoint-8/trainer_state.json
exits 0 "kernels that the machine lacks" train --resume auto --output-dir elsewhere --threads 1
check "kernels that the machine lacks: logged" grep -q '^warning: the kernels changed from cpu-abacus-' err
check "kernels that the machine lacks: the run ends" test -d elsewhere/checkpoint-12

# ---- data ----

mkdir moved
cp -r straight/checkpoint-8 straight/metrics.jsonl moved
mv straight/run.json run.json.kept
cp text.txt "text moved.txt"
exits 0 "data that were moved" train --resume moved/checkpoint-8 --data "text moved.txt" --output-dir moved --steps 12 --threads 1
check "data that were moved: the same bits" same_checkpoints straight/checkpoint-12 moved/checkpoint-12
mv run.json.kept straight/run.json

exits 0 "a token file" pack --data text.txt --output grows.tokens
exits 0 "training on it" train --init tiny.json --data grows.tokens --block-size 16 --steps 8 --save-steps 4 --eval-steps 4 \
    --threads 1 --output-dir grown -q
cp -r grown undisturbed
rm -r undisturbed/checkpoint-8
exits 0 "undisturbed" train --resume auto --output-dir undisturbed --threads 1
rm -r grown/checkpoint-8
cp text.txt more.txt
exits 0 "the token file grows" pack --data text.txt --data more.txt --output grows.tokens
exits 0 "data that have grown" train --resume auto --output-dir grown --threads 1
check "data that have grown: logged" grep -q '^warning: the data have grown from [0-9]* to [0-9]* tokens since .* continues with the first' err
check "data that have grown: the same bits" same_checkpoints undisturbed/checkpoint-8 grown/checkpoint-8
exits 0 "the validation part of grown data" eval --model grown/checkpoint-8 --split validation --threads 1 --json
loss_of out >grown.loss
exits 0 "the earlier data" pack --data text.txt --output grows.tokens
exits 0 "the earlier validation part" eval --model grown/checkpoint-8 --split validation --threads 1 --json
check "both are the same" agree "$(cat grown.loss)" "$(loss_of out)"

cp text.txt growing.txt
exits 0 "training on text" train --init tiny.json --data growing.txt --block-size 16 --steps 8 --save-steps 4 --eval-steps 4 \
    --threads 1 --output-dir text_grown -q
cp -r text_grown/checkpoint-8 text_straight
rm -r text_grown/checkpoint-8
echo "And one more line." >>growing.txt
exits 0 "text that has changed" train --resume auto --output-dir text_grown --threads 1
check "text that has changed: logged" grep -q '^warning: the text of --data has changed or moved since .* continues with the packed data' err
check "text that has changed: the same bits" same_checkpoints text_straight text_grown/checkpoint-8
rm -r text_grown/checkpoint-8 text_grown/data
refuses 1 "the training data differ" train --resume auto --output-dir text_grown --threads 1

# A run of each kind of task whose training and validation text were packed. After a row was added, and after the text
# was removed, it continues with the packed data and has the bits of an undisturbed run.
mkdir letters
printf '%s\n' '[PAD]' '[UNK]' '[CLS]' '[SEP]' '[MASK]' a b c d e f g h i j k l m n o p q r s t u v w x y z >letters/vocab.txt
printf '{"tokenizer_class": "BertTokenizer"}\n' >letters/tokenizer_config.json
cat >bert.json <<'END'
{"model_type": "bert", "architectures": ["BertModel"], "vocab_size": 32, "hidden_size": 16, "num_attention_heads": 2,
 "num_hidden_layers": 1, "intermediate_size": 32, "max_position_embeddings": 32}
END
rows() { # header, the label of an odd and of an even row
    awk -v header="$1" -v odd="$2" -v even="$3" 'BEGIN {
        print header
        for (i = 0; i < 40; i++) print (i % 2 ? "a x" : "b y") (i % 3 ? " c" : " d e") "," (i % 2 ? odd : even)
    }'
}
words() {
    awk 'BEGIN { for (i = 0; i < 40; i++) print (i % 2 ? "a B-X\nx O" : "b O\ny B-Y") "\nc O\n" }'
}
losses() {
    sed -n 's/.*"\(val_loss": [^,]*\),.*/\1/p' "$1/metrics.jsonl"
}
continues() { # name, data, validation data, one more row, options
    name=$1
    data=$2
    validation=$3
    row=$4
    shift 4
    held=${validation:+--val-data $validation}
    exits 0 "$name" train "$@" --data "$data" $held --block-size 16 --batch-size 4 --steps 8 --save-steps 4 --eval-steps 4 --lr 1e-3 \
        --seed 5 --threads 1 --precision $precision --output-dir "$name"
    cp -r "$name/checkpoint-8" "$name.straight"
    losses "$name" >"$name.losses"
    for split in train validation; do
        exits 0 "$name: eval --split $split" eval --model "$name.straight" --split $split --threads 1 --json
        loss_of out >"$name.$split"
    done
    for change in unchanged changed missing; do
        rm -rf "$name/checkpoint-8"
        [ $change != changed ] || printf '%b' "$row" | tee -a "$data" >/dev/null
        [ $change != changed ] || [ -z "$validation" ] || printf '%b' "$row" >>"$validation"
        [ $change != missing ] || rm "$data" $validation
        exits 0 "$name: $change" train --resume auto --output-dir "$name" --threads 1
        case $change in
        unchanged) check "$name: $change: no message" sh -c '! grep -q "continues with the packed data" err' ;;
        *) check "$name: $change: reported" grep -q "^warning: the text of --data .*$change.* continues with the packed data '$name/data/.*--model" err
            [ -z "$validation" ] || check "$name: $change: of the validation" grep -q "^warning: the text of --val-data .*$change" err ;;
        esac
        check "$name: $change: nothing is packed" sh -c '! grep -q "^packed" err'
        check "$name: $change: the same bits" same_checkpoints "$name.straight" "$name/checkpoint-8"
        check "$name: $change: the same evaluations" test "$(losses "$name")" = "$(cat "$name.losses")"
        for split in train validation; do
            exits 0 "$name: $change: eval --split $split" eval --model "$name" --split $split --threads 1 --json
            check "$name: $change: eval --split $split: the same" test "$(loss_of out)" = "$(cat "$name.$split")"
            check "$name: $change: eval --split $split: nothing is packed" sh -c '! grep -q "^packed" err'
            check "$name: $change: eval --split $split: reported" grep -q "'$name/data/" err
            [ $change != missing ] || check "$name: eval --split $split: a warning" grep -q \
                "^warning: the text of the run has gone missing .* evaluating the packed data" err
        done
    done
}
rows text,label up down >texts.csv
rows text,label up down >texts-held.csv
continues classify texts.csv texts-held.csv 'q r,other\n' --init bert.json --tokenizer letters
rows text,label 0.5 1.25 >numbers.csv
continues regress numbers.csv '' 'q r,7.5\n' --init bert.json --tokenizer letters --task regress
rows text,other up down >hidden.csv
continues mlm hidden.csv '' 'q r,up\n' --init bert.json --tokenizer letters --task mlm
words >words.conll
continues tokens words.conll '' 'q B-Z\n\n' --init bert.json --tokenizer letters
cp text.txt lines.txt
cp small.txt held.txt
continues lm lines.txt held.txt 'One more line.\n' --init tiny.json

# Data named with --data are other data.
rows text,label up down >texts.csv
printf 'q r,up\n' >>texts.csv
rm -rf classify/checkpoint-8
refuses 1 "the training data differ" train --resume auto --data texts.csv --output-dir classify --threads 1

finish
