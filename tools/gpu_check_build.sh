#!/bin/sh
# Builds what tools/gpu_check.sh needs into $BUILD/gpu_check, to be carried to a machine with a GPU: programs, compiled
# kernels, and the numbers that the processor computes. `make gpu-check-build` builds the programs before.
#   ARCH="80 90"      compute capabilities of the GPUs
#   EMULATED_GPU=1    for the emulated device, with small sizes, into $BUILD/gpu_check_emulated
#   PROGRAMS="..."    the programs
LC_ALL=C
export LC_ALL
BUILD=${BUILD:-build}
emulated=${EMULATED_GPU:-}
folder=$BUILD/gpu_check arch=${ARCH:-80 90} most=60
[ -z "$emulated" ] || folder=${folder}_emulated arch=86
made=$folder.made
root=$PWD
rm -rf "$made"
mkdir -p "$made/bin" "$made/lib" "$made/models" "$made/expected" || exit 1
made=$(cd "$made" && pwd)
case $BUILD in /*) ;; *) BUILD=$root/$BUILD ;; esac
unset EITP_CUDA_PRODUCTS EITP_CUDA_KERNELS EITP_ISA

stop() {
    echo "gpu_check_build.sh: $*" >&2
    exit 1
}

# ---- programs ----

for program in $PROGRAMS; do
    strip -o "$made/bin/$(basename "$program")" "$program" || stop "cannot strip $program"
done
# Libraries that a machine with only a C library lacks.
ldd "$made/bin/eitp" | sed -n 's/.* => \(.*gomp.*\) (.*/\1/p' | while read -r library; do cp -L "$library" "$made/lib/"; done
eitp=$made/bin/eitp

# ---- data and models ----

cat README.md docs/*.md | head -c 6000 >"$made/small.txt"
sizes='"num_hidden_layers": 1, "max_position_embeddings": 64, "vocab_size": 301'
printf '{"model_type": "gpt2", "n_embd": 64, "n_head": 2, "n_layer": 1, "n_positions": 64, "vocab_size": 301}\n' >"$made/models/gpt2.json"
printf '{"model_type": "bert", "hidden_size": 64, "num_attention_heads": 2, "intermediate_size": 128, %s}\n' "$sizes" >"$made/models/bert.json"
printf '{"model_type": "llama", "hidden_size": 64, "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 192, %s}\n' "$sizes" >"$made/models/llama.json"
mkdir "$made/words"
{ printf '%s\n' '[PAD]' '[UNK]' '[CLS]' '[SEP]' '[MASK]'
    for letter in a b c d e f g h i j k l m n o p q r s t u v w x y z; do printf '%s\n##%s\n' $letter $letter; done; } >"$made/words/vocab.txt"
"$eitp" tokenizer train --data "$made/small.txt" --vocab-size 300 --output "$made/bpe" >"$made/log" 2>&1 || stop "$(cat "$made/log")"
if [ -n "$emulated" ]; then
    batch=2 block=48 steps=6
    cp "$made/models/gpt2.json" "$made/models/large.json"
    echo "--init files/models/large.json --block-size $block --batch-size $batch" >"$made/large"
    echo "a small model, $batch x $block" >"$made/large.name"
else
    batch=4 block=1024 steps=20
    echo "--init gpt2 --vocab-size 50257 --block-size $block --batch-size $batch" >"$made/large"
    echo "GPT-2 124M, $batch x $block" >"$made/large.name"
fi
# As many windows as a step takes, and the target of the last token.
cat docs/*.md | head -c $((batch * block + 1)) >"$made/large.txt"

# ---- kernels ----

# Lists the kernels that tests request: these run on the emulated device, which executes nothing, so they fail. Products
# are missing, since the kernels of all modules include theirs.
list_kernels() { # capability, file
    for test in test_attention test_ops test_execute test_device_memory test_update test_factored test_kernels; do
        env EITP_EMULATED_LIST="$2" EITP_EMULATED_CUDA_CAPABILITY="${1%?}.${1#"${1%?}"}" EITP_TEST_CUDA=1 EITP_BACKEND=cuda \
            LD_LIBRARY_PATH="$BUILD/emulated_cuda" XDG_CACHE_HOME="$made/cache" "$made/bin/$test" >/dev/null 2>&1
    done
    rm -rf "$made/cache"
    [ -s "$2" ] || stop "the tests list no kernels"
    sort -u -o "$2" "$2"
}

# Compiled kernels are kept outside of the folder too, so that another build compiles only changed ones. The emulated
# device gets only the models, and compiles the rest.
prepare() { # capability, folder, models
    if [ -z "$emulated" ]; then
        capability=$1 prepared=$2
        shift 2
        list_kernels "$capability" "$made/list"
        XDG_CACHE_HOME=$BUILD/cuda_kernels/cache "$BUILD/split/cuda_kernels" prepare "$capability" "$prepared" all \
            list="$made/list" "$@" || return 1
        rm "$made/list"
    else
        LD_LIBRARY_PATH=$BUILD/emulated_cuda EITP_EMULATED_CACHE=$BUILD/emulated_cuda/modules \
            XDG_CACHE_HOME=$BUILD/emulated_cuda/cache "$BUILD/split/cuda_kernels" prepare "$@"
    fi
}
for capability in $arch; do
    echo "kernels for sm_$capability"
    prepare "$capability" "$made/kernels" "$made"/models/*.json || stop "no kernels for sm_$capability"
done
compiler=$(cat "$made/kernels/compiler")
tar -C "$made" -czf "$made/kernels.tar.gz" kernels && rm -rf "$made/kernels" || stop "cannot pack the kernels"

# ---- numbers ----

mkdir "$made/work"
ln -s "$made" "$made/work/files"
parts=$root/tools/gpu_check work=$made/work report=/dev/null details=/dev/null
. "$parts/common.sh"
. "$parts/runs.sh"
expect() { # name, arguments
    name=$1
    shift
    "$eitp" "$@" --device cpu --output-dir run >log 2>&1 || stop "$(cat log)"
    numbers run >"$made/expected/$name"
    [ -s "$made/expected/$name" ] || stop "no records of $name"
    rm -rf run
}
EITP_ISA=ref
export EITP_ISA
for model in $small_models; do
    for type in $small_types; do
        expect $model-$type $(small_run $model $type $steps)
    done
done
# Sets for 16 bits round activations to 16 bits in products, which the GPU does not.
for EITP_ISA in avx512 avx2 ref; do
    ! "$eitp" plan --init tiny >/dev/null 2>&1 || break
done
for type in fp32 bf16; do
    expect large-$type $(large_run $type 2)
done

cd "$root" || exit 1
rm -rf "$made/work" "$made/log"
{
    echo "built $(date -u +%Y-%m-%d) from $(git rev-parse --short HEAD 2>/dev/null || echo 'a copy without history')"
    echo "kernels for sm_$(echo $arch | sed 's/ /, sm_/g'), $compiler; expected numbers with $EITP_ISA"
} >"$made/built.txt"
size=$(du -sk "$made" | awk '{ printf "%.1f", $1 * 1.024 / 1000 }')
echo "$folder: $size MB"
[ -n "$emulated" ] || awk "BEGIN { exit !($size <= $most) }" || stop "$made is larger than $most MB; choose fewer devices (ARCH)"
rm -rf "$folder"
mv "$made" "$folder"
