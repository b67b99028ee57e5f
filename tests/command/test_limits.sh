#!/bin/sh
# Limits on the process's stack (ulimit -s) and addresses (ulimit -v), and libraries that may be missing: the command
# always ends with the requested result or one clear line.
. "$(dirname "$0")/command.sh"

# ---- linked libraries ----

if command -v ldd >/dev/null 2>&1 && ldd "$eitp" >linked 2>/dev/null; then
    grep -v 'linux-vdso\|linux-gate\|ld-linux\|ld64\|ld-musl\|lib\(c\|m\|dl\|rt\|pthread\|gcc_s\|gomp\|omp\|iomp5\)\.so' linked >rest
    check "no libraries except the compiler's: $(cat rest)" test ! -s rest
else
    echo "SKIPPED libraries that the command links: no ldd, or it is linked statically"
fi

# ---- OpenBLAS ----

start="train --data text.txt --init tiny.json --block-size 16 --precision fp32 --steps 2"
export EITP_PRODUCTS=openblas
EITP_LIBOPENBLAS=./missing.so refuses 1 "cannot open OpenBLAS (./missing.so: .*correct EITP_LIBOPENBLAS" $start --output-dir gone
other=$(sed -n 's/.*libm\.so[^ ]* => \([^ ]*\) .*/\1/p' linked 2>/dev/null | head -n 1)
if [ -n "$other" ]; then
    EITP_LIBOPENBLAS=$other refuses 1 "'$other' is not an OpenBLAS library" $start --output-dir gone
else
    echo "SKIPPED a library that is not OpenBLAS: the command links no libm.so"
fi
openblas=
if "$eitp" $start --output-dir by_openblas >out 2>err </dev/null; then
    openblas=openblas
    exits 0 "products with openblas" eval --model by_openblas/checkpoint-2 --data text.txt --precision fp32 --json
    cp out openblas.json
    EITP_PRODUCTS=own exits 0 "products with built-in kernels" eval --model by_openblas/checkpoint-2 --data text.txt \
        --precision fp32 --json
    check "they agree" agree "$(loss_of out)" "$(loss_of openblas.json)"
else
    echo "SKIPPED products by openblas: $(cat err)"
    refuses 1 "cannot open OpenBLAS (.*libopenblas.*install it" $start --output-dir gone
fi
unset EITP_PRODUCTS

# ---- limits on the stack ----

# fits CODE ARGUMENTS...: exits with a stack of 64 KiB, which also holds the environment.
fits() {
    expected=$1
    shift
    (ulimit -s 64 && exec env -i LC_ALL=C TMPDIR="$TMPDIR" "$eitp" "$@") >out 2>err </dev/null
    got=$?
    check "ulimit -s 64: exit code $got, not $expected: $*; $(cat err)" test $got -eq "$expected"
}

# deep OPEN VALUE CLOSE: prints a value nested in 100000 others.
deep() {
    awk -v open="$1" -v value="$2" -v close_="$3" 'BEGIN {
        for (i = 0; i < 100000; i++)
            printf "%s", open
        printf "%s", value
        for (i = 0; i < 100000; i++)
            printf "%s", close_
    }'
}

fits 0 help train
fits 0 tokenizer train --data text.txt --vocab-size 300 --output tok
fits 0 pack --data text.txt --tokenizer tok --output text.tokens
fits 0 plan --data text.txt --init tiny.json
fits 0 check-system --data text.txt --init tiny.json
for threads in 1 2; do
    fits 0 $start --threads $threads --save-steps 1 --eval-steps 1 --keep-best loss --output-dir small$threads
done
fits 0 train --resume auto --output-dir small1 --steps 4
fits 0 eval --model small1 --data text.txt
fits 0 generate --model small1 --prompt Line --tokens 4
fits 0 train --data text.txt --model small1 --block-size 16 --lora-rank 2 --steps 1 --output-dir adapted
fits 0 merge --adapter adapted --model small1 --output-dir merged
mkdir words
printf '%s\n' '[PAD]' '[UNK]' '[CLS]' '[SEP]' '[MASK]' good bad >words/vocab.txt
printf '{"tokenizer_class": "BertTokenizer"}\n' >words/tokenizer_config.json
printf 'text,label\ngood,yes\nbad,no\ngood good,yes\nbad bad,no\n' >labelled.csv
cat >shape.json <<'END'
{"model_type": "bert", "architectures": ["BertModel"], "vocab_size": 7, "hidden_size": 8, "num_attention_heads": 2,
 "num_hidden_layers": 2, "intermediate_size": 8, "max_position_embeddings": 8}
END
fits 0 train --data labelled.csv --init shape.json --tokenizer words --steps 2 --val-fraction 0.5 --output-dir judged
fits 0 eval --model judged --data labelled.csv
fits 0 predict --model judged --text good
cp -r small1/checkpoint-4 deep
deep '{"a": ' 1 '}' >deep/config.json
fits 1 eval --model deep --data text.txt
check "deep config.json" grep -q '^error: deep/config.json: invalid JSON .* at most 64 levels of nesting' err
deep '[' 1 ']' >deep/config.json
fits 1 eval --model deep --data text.txt
deep '{"a": ' 1 '}' >deep.json
fits 1 train --config deep.json --print-config
check "deep configuration" grep -q '^error: deep.json:1:[0-9]*: .*nested' err
deep '{"a": ' 1 '}' >deep.yaml
fits 1 train --config deep.yaml --print-config
cp tok/tokenizer.json deep/
deep '{"type": "Sequence", "normalizers": [' '' ']}' >nested
awk 'FNR == NR { nested = nested $0; next }
    { sub(/"normalizer": *null/, "\"normalizer\": " nested); print }' nested tok/tokenizer.json >deep/tokenizer.json
fits 1 tokenizer inspect deep/tokenizer.json

# ---- limits on addresses ----

# ends LIMIT CODES ARGUMENTS...: with this many KiB of addresses eitp ends with one of the codes. If not 0, it prints
# one error.
ends() {
    limit=$1
    codes=$2
    shift 2
    (ulimit -s "${stack:-$(ulimit -s)}" && ulimit -v "$limit" && exec timeout -k 5 120 "$eitp" "$@") >out 2>err </dev/null
    got=$?
    case " $codes " in
    *" $got "*) pass ;;
    *) fail "ulimit -v $limit, products ${EITP_PRODUCTS-}: exit code $got, not one of $codes: $*" && sed 's/^/    /' err ;;
    esac
    [ $got -eq 0 ] || check "one error with $limit: $*" [ "$(grep -c '^error: ' err)" = 1 ]
}

exits 0 "a model" $start --output-dir run --threads 1
if ! command -v timeout >/dev/null 2>&1 || ! (ulimit -v 400000 && "$eitp" help >/dev/null) 2>/dev/null; then
    echo "SKIPPED limits on addresses: no timeout, or no ulimit -v"
    finish
fi
for products in own $openblas; do
    few="0 2"
    export EITP_PRODUCTS=$products
    for limit in 40000 80000 160000 200000 400000; do
        [ $products = openblas ] || [ $limit -lt 120000 ] || few=0
        ends $limit "$few" $start --output-dir "run-$products-$limit" --threads 16
        ends $limit "$few" eval --model run/checkpoint-2 --data small.txt --threads 16
        ends $limit "$few" generate --model run/checkpoint-2 --prompt Line --max-new-tokens 4 --threads 16
        ends $limit "$few" plan --init tiny.json --threads 16
    done
done
unset EITP_PRODUCTS
[ -z "$openblas" ] || EITP_PRODUCTS=openblas ends 800000 0 $start --output-dir mapped --threads 1
# The command prevents OpenBLAS's own threads. A program has one for each processor, which cannot start here.
if [ -n "$openblas" ] && (ulimit -s 300000) 2>/dev/null; then
    EITP_PRODUCTS=openblas OPENBLAS_NUM_THREADS=64 stack=300000 ends 400000 "0 2" $start --output-dir threads --threads 1
    [ "$(nproc 2>/dev/null || echo 1)" -eq 1 ] || check "the remedy" grep -q \
        "^error: OpenBLAS maps .* for 1 thread and [0-9]* of its own, .*set OPENBLAS_NUM_THREADS=1" err
else
    echo "SKIPPED threads of OpenBLAS that lack addresses: no OpenBLAS, or no ulimit -s"
fi
ends 60000 2 $large --steps 1 --output-dir gone
if "$eitp" --version | grep -q openmp=1; then
    ends 160000 0 $start --output-dir few --threads 64
    check "fewer threads" grep -q '^warning: [0-9]* threads* instead of 64, because of limits on addresses or processes; raise' err
    check "the same bits" same_checkpoints run/checkpoint-2 few/checkpoint-2
    OMP_STACKSIZE=200M ends 300000 0 $start --output-dir wide --threads 2
    check "large stacks set by OMP_STACKSIZE" grep -q '^warning: 1 thread instead of 2, because of limits' err
fi

finish
