#!/bin/sh
# The command: behaviour that depends on the instruction set, with each set that this machine has.
. tests/command/command.sh

cat >wide.json <<'END'
{"model_type": "gpt2", "vocab_size": 257, "n_positions": 64, "n_embd": 64, "n_head": 4, "n_layer": 3}
END
common="train --data text.txt --block-size 16 --steps 3 --lr 3e-3 --eval-steps 0"

# The set chosen by `auto`, and the bytes moved in it by a layer norm of 64 x 768.
auto_of() {
    case $1 in
    avx512bf16 | amx) auto=bf16 dtype=bf16 bytes=203264 ;;
    *) auto=fp32 dtype=f32 bytes=399872 ;;
    esac
}

choice() {
    exits 0 "$set: train" $common --init tiny.json --threads 1 --output-dir $set
    check "$set: its kernels" grep -q "^device: cpu, 1 thread, kernels $set, " err
    check "$set: auto is $auto" grep -q "^configuration: adamw in $auto, " err
    check "$set: the checkpoint has its name" grep -q "\"numerics\": \"cpu-$set-" $set/checkpoint-3/trainer_state.json
    exits 0 "$set: plan" plan --init tiny.json --json
    check "$set: a plan in $auto" grep -q "\"chosen\": {\"optimizer\": \"adamw\", \"precision\": \"$auto\"" out
    exits 0 "$set: bench" bench kernels --filter 'layer norm 64' --seconds 0 --threads 1 --json
    check "$set: a bench in $dtype" grep -q "\"precision\": \"$dtype\"" out
    check "$set: bytes in $dtype" grep -q "\"bytes\": \[$bytes\]" out
}

# Threads, resuming and recomputing change no bit.
same_bits() {
    run=$set-$1
    exits 0 "$run: train" $common --init wide.json --threads 1 --precision $1 --output-dir $run-1 --save-steps 1 \
        --save-total-limit 0
    exits 0 "$run: two threads" $common --init wide.json --threads 2 --precision $1 --output-dir $run-2
    check "$run: two threads give the same bits" same_checkpoints $run-1/checkpoint-3 $run-2/checkpoint-3
    exits 0 "$run: recompute" $common --init wide.json --threads 2 --precision $1 --output-dir $run-3 --recompute layer
    check "$run: recomputing gives the same bits" same_checkpoints $run-1/checkpoint-3 $run-3/checkpoint-3
    exits 0 "$run: resume" train --resume $run-1/checkpoint-2 --threads 2 --output-dir $run-4
    check "$run: resuming gives the same bits" same_checkpoints $run-1/checkpoint-3 $run-4/checkpoint-3
}

# Nor does the number of micro-batches per pass: odd numbers of rows, dropout, threads; all weights, and adapters.
same_passes() {
    run=$set-$1-passes
    passes="$common --block-size 17 --grad-accum 5 --precision $1"
    for way in "1 1" "2 2" "4 1" "4 2"; do
        merge=${way% *}
        threads=${way#* }
        exits 0 "$run: $way" $passes --init wide.json --dropout 0.1 --micro-batches-per-pass $merge --threads $threads --output-dir $run
        exits 0 "$run: $way, adapters" $passes --model "$set" --lora-rank 4 --lora-dropout 0.1 --micro-batches-per-pass $merge \
            --threads $threads --output-dir $run-adapted
        cat $run/checkpoint-3/*.safetensors >"$run.$merge.$threads"
        cat $run-adapted/checkpoint-3/*.safetensors >"$run-adapted.$merge.$threads"
        check "$run: $way gives the same bits" same "$run.1.1" "$run.$merge.$threads"
        check "$run: $way gives the same bits of adapters" same "$run-adapted.1.1" "$run-adapted.$merge.$threads"
        rm -r $run $run-adapted
    done
}

best=
for set in ref avx2 avx512 avx512bf16 amx; do
    EITP_ISA=$set
    export EITP_ISA
    if ! "$eitp" plan --init tiny.json >out 2>err; then
        check "$set: the reason for skipping it" grep -q "instruction set '$set'" err
        echo "SKIPPED $set: not on this machine"
        continue
    fi
    best=$set
    auto_of $set
    choice
    same_bits fp32
    same_bits bf16
    same_passes fp32
    same_passes bf16
done

# Intel's processors since Sapphire Rapids multiply pairs slowly.
if [ "$best" = avx512bf16 ] && grep -qs GenuineIntel /proc/cpuinfo && grep -qw avx512_fp16 /proc/cpuinfo; then
    best=avx512
fi
set=$best
auto_of $set
unset EITP_ISA
rm -r "$set"
choice

finish
