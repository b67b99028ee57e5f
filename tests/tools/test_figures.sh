#!/bin/sh
# The figures that the command reports about itself, compared with expected values. Times are never checked.
LC_ALL=C
export LC_ALL
BUILD=${BUILD:-build}
case $BUILD in /*) ;; *) BUILD=$PWD/$BUILD ;; esac
eitp=${EITP:-$BUILD/eitp}
case $eitp in /*) ;; *) eitp=$PWD/$eitp ;; esac
work=$BUILD/test_figures
passed=0
failed=0
rm -rf "$work"
mkdir -p "$work"
cd "$work" || exit 1

# The name of a check, and a command that must succeed.
check() {
    what=$1
    shift
    if "$@"; then passed=$((passed + 1)); else
        failed=$((failed + 1))
        echo "FAILED $what"
    fi
}

# Runs eitp with arguments that must succeed. Output is in the files out and err.
succeeds() {
    check "$*" "$eitp" "$@" >out 2>err </dev/null || sed 's/^/    /' err
}

# Prints the number of a member in the JSON object in the file out.
number() {
    sed "s/.*\"$1\": \(-\{0,1\}[0-9.e+-]*\).*/\1/" out
}

# Prints the number in a column and line of a bench, in the file out.
column() {
    sed "s/.*\"$1\": \[\([^]]*\)\].*/\1/" out | tr ',' '\n' | tr -d ' ' | sed -n "$(
        sed 's/.*"name": \[\([^]]*\)\].*/\1/; s/, /\n/g' out | grep -n -x -e "\"$2\"" | cut -d: -f1
    )p"
}

awk 'BEGIN {
    for (i = 0; i < 400; i++)
        printf "Line %d: a quick fox number %d jumps over %d lazy dogs.\n", i, i * 7 % 13, i * i % 97
}' >text.txt
cat >tiny.json <<'END'
{"model_type": "gpt2", "vocab_size": 257, "n_positions": 64, "n_embd": 16, "n_head": 2, "n_layer": 2}
END

# ---- peak memory: of the process, not of its parent ----

# The kernel includes the memory a process had before an exec in its ru_maxrss: here the 134 MB of awk.
awk -v "command=exec '$eitp' train --data text.txt --init tiny.json --block-size 16 --threads 1 --steps 1 --json \
    --output-dir run >out 2>err </dev/null" 'BEGIN {
    text = "0123456789abcdef"
    for (i = 0; i < 23; i++)
        text = text text
    failed = system(command)
    exit failed || length(text) != 134217728
}'
check "training under a large process" test $? -eq 0
check "the peak is not the parent's" test "$(number peak_rss_bytes)" -lt 60000000
check "the peak is reported" test "$(number peak_rss_bytes)" -gt 1000000

# ---- bench kernels: the kernels executed by a step, in their dtypes ----

# measure PRECISION BYTES LINES: the size of its elements e, and the lines to measure.
measure() {
    precision=$1
    e=$2
    succeeds bench kernels --precision $precision --filter "$3" --seconds 0 --threads 1 --json
    check "$precision: nothing is left out of '$3'" sh -c '! grep -q "left out" err'
}

# The name of a measured line, and its bytes as a shell expression.
line_has() {
    check "$precision: bytes of '$1'" test "$(column bytes "$1")" = $(($2))
}

blocks=$((768 * 3072 / 16384))
for each in 'fp32 4' 'bf16 2' 'fp16 2'; do
    measure $each 3072
    # The bias, and the activation, whose operand is kept, and its derivative.
    line_has 'product forward 64x768x3072' 'e * (64 * 768 + 768 * 3072 + 2 * 64 * 3072) + 4 * 3072'
    line_has 'product input gradient 64x3072x768' 'e * (64 * 768 + 3072 * 768 + 2 * 64 * 3072)'
    line_has 'product weight gradient 64x768x3072' 'e * 64 * (768 + 3072) + 4 * 768 * 3072'
    line_has 'bias gradient 64x3072' 'e * 64 * 3072 + 4 * 3072'
    # Parameter and remainder, moments and gradient, rate and scale; and two norms of each block.
    weight=4
    [ $precision = fp16 ] && weight=6
    line_has 'adamw 768x3072' '768 * 3072 * (2 * weight + 2 * 8 + 4) + 16 + blocks * 16'
done
measure bf16 2 'product forward 64x768x768'
line_has 'product forward 64x768x768' 'e * (64 * 768 + 768 * 768 + 2 * 64 * 768) + 4 * 768'
# Ids, the values added, and the rows of the table they are added to.
measure bf16 2 'embedding gradient 64'
line_has 'embedding gradient 64x768' '64 * 4 + 64 * 768 * e + 2 * 64 * 768 * 4'
# 16-bit logits are stored as exponentials, with the maximum and the sum of each block of 192, and the target's logit.
measure bf16 2 'cross-entropy 64'
line_has 'cross-entropy 64x50257' '64 * 4 * (2 * 262 + 1 + 1 + 2)'
measure fp32 4 'cross-entropy 64'
line_has 'cross-entropy 64x50257' '64 * 4 * (50257 + 1 + 2)'

# ---- bench step: the arithmetic of a step, computed by hand ----

# With 1 the whole step is one pass, which keeps no gradients. With 3 there are two passes, and the second is half full.
for accumulation in 1 3; do
    succeeds bench step --model tiny.json --precision fp32 --batch-size 8 --block-size 64 --grad-accum $accumulation \
        --steps 1 --threads 1 --json
    rows=$((8 * 64 * accumulation))
    layers=$((2 * rows * 2 * 12 * 16 * 16))
    for part in 'forward' 'input gradient' 'weight gradient'; do
        check "arithmetic of products, $part, of $rows rows" test "$(column flops "products $part")" = $layers
    done
    check "arithmetic of the head, of $rows rows" test "$(column flops head)" = $((3 * 2 * rows * 16 * 257))
    # Half the scores in the forward pass, and two and a half times as much in the backward pass.
    check "arithmetic of attention, of $rows rows" test "$(column flops attention)" = $((7 * rows * 64 * 16 * 2))
    model=$((3 * layers + 3 * 2 * rows * 16 * 257 + 7 * rows * 64 * 16 * 2))
    check "the model's arithmetic gives the utilization of the device, of $rows rows" awk \
        -v used="$(number flops_utilization)" -v limit="$(number f32_flops)" -v seconds="$(column median_seconds step)" \
        -v model=$model 'BEGIN { share = used * limit * seconds / model; exit !(share > 1 - 1e-9 && share < 1 + 1e-9) }'
    if sh -c 'echo 5 >/proc/self/clear_refs' 2>/dev/null; then
        check "the memory used to measure the limits is not counted in the step" test "$(number peak_rss_bytes)" -lt 60000000
    else
        echo "SKIPPED the peak of bench step: this system cannot count it anew"
    fi
    check "tokens a second, of $rows rows" awk -v rate="$(number tokens_per_s)" -v rows=$rows \
        -v seconds="$(column median_seconds step)" 'BEGIN { exit !((rate * seconds / rows - 1) ^ 2 < 1e-18) }'
done

cd / && rm -rf "$work"
echo "$passed passed, $failed failed"
[ $failed -eq 0 ]
