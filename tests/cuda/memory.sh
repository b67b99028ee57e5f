#!/bin/sh
# The command on the emulated CUDA device, whose memory has a separate budget: variables that move to the host, and
# refusals.
root=$PWD
. tests/command/command.sh
. "$root/tests/cuda/device.sh"

head -c 6000 "$root/README.md" >text.txt
printf '{"model_type": "gpt2", "n_embd": 96, "n_head": 2, "n_layer": 2, "n_positions": 64, "vocab_size": 300}\n' >gpt2.json
exits 0 "a tokenizer" tokenizer train --data text.txt --vocab-size 300 --output gpt2
train="train --init gpt2.json --tokenizer gpt2 --data text.txt --block-size 32 --batch-size 2 --grad-accum 2 --precision fp32
    --optimizer adamw --eval-steps 0 --steps 4"
plan="plan --init gpt2.json --block-size 32 --batch-size 2 --grad-accum 2 --precision fp32"

runs "without a budget" $train --output-dir whole
check "the default budget is what the device has free, less 5 % of its memory" grep -q '^GPU memory budget: .* of .* free' err
check "the device memory is in run.json" grep -q '"gpu_budget_bytes": [0-9]*, "gpu_planned_bytes": [0-9]*' whole/run.json

same() { # what, directory
    for file in model optimizer; do
        check "$1: the same bits of $file" cmp -s whole/checkpoint-4/$file.safetensors $2/checkpoint-4/$file.safetensors
    done
}
runs "the optimizer's state in the host's memory" $train --offload states --output-dir states
check "the log reports where it is" grep -q "^offloaded: .* in the host's memory; each step reads .* and writes " err
check "no disk wear" test "$(grep -c 'solid-state' err)" -eq 0
same "optimizer state in the host's memory" states
runs "all of it in the host's memory, which is not pinned" $train --offload all --no-pin-memory --output-dir all
same "all in memory that is not pinned" all
runs "all of it in a file" $train --offload all --offload-file file.tmp --output-dir file
same "all in a file" file

# Biases are rounded where they are while a step uses them.
half="$(echo "$train" | sed 's/--precision fp32/--precision bf16/; s/--steps 4/--steps 2/')"
runs "in 16 bits" $half --output-dir half
runs "in 16 bits, all of it in the host's memory" $half --offload all --output-dir half-all
check "in 16 bits: the same bits" cmp -s half/checkpoint-2/model.safetensors half-all/checkpoint-2/model.safetensors

exits_on_device() { # code, what, arguments
    eitp=$device
    code=$1
    shift
    exits "$code" "$@" --device ${EITP_GPU:-cuda}
    eitp=$processor
}
exits_on_device 0 "plan" $plan --optimizer adamw
check "plan: memory on the GPU" grep -q '^  on the GPU ' out
exits_on_device 2 "plan in too little" $plan --optimizer adamw --gpu-memory-budget 1M
check "too little: the smallest is named" grep -q "does not fit in 1.0 MB of the GPU's memory; the smallest --gpu-memory-budget that is enough is [0-9]*M" out
check "too little: offloading is offered" grep -q -e '--offload auto' out
least=$(sed -n 's/.*the smallest --gpu-memory-budget that is enough is \([0-9]*\)M.*/\1/p' out)
exits_on_device 0 "plan in the least" $plan --optimizer adamw --gpu-memory-budget ${least}M --json
check "the least is enough" grep -q '"gpu_budget": '$least'000000' out
exits_on_device 0 "plan in less, with auto" $plan --optimizer adamw --offload auto --gpu-memory-budget $((least - 1))M
check "less: variables are offloaded" grep -q '^  offloaded ' out
exits_on_device 2 "train in too little" $train --gpu-memory-budget 1M --output-dir none
check "train in too little: one line" grep -q "^error: the run does not fit in 1.0 MB of the GPU's memory; the smallest --gpu-memory-budget" err
check "train in too little: no run is left" test ! -e none/run.json

if [ -z "$EITP_GPU" ]; then
    EITP_EMULATED_CUDA_MEMORY=8000000 exits_on_device 2 "a small device" $train --output-dir none
    check "a small device: refused before anything is loaded" grep -q "^error: the run does not fit in .* of the GPU's memory" err
    EITP_EMULATED_CUDA_MEMORY=8000000 exits_on_device 0 "a small device, with room in the host" $train --offload auto --output-dir small
    same "on a small device" small
fi

finish
