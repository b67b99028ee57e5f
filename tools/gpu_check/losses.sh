# The losses of steps on the device, compared with the processor's.
. "$parts/common.sh"
. "$parts/runs.sh"

# The largest relative error of a precision.
most() {
    [ "$1" = fp32 ] && echo 1e-5 || echo 2e-3
}

# The model of real size first: its shapes are those that count. FP32 with cuBLASLt too has 24 significant bits.
for type in bf16 fp32; do
    for products in auto own; do
        [ $products = auto ] && unset EITP_CUDA_PRODUCTS || export EITP_CUDA_PRODUCTS=own
        run=large-$type-$products
        check "$(cat files/large.name) in $type, products: $products" "$eitp" $(large_run $type 2) --device "$device" --output-dir $run ||
            continue
        [ $type = fp32 ] && [ $products = auto ] && numbers $run | head -n 1 >"$work/large.loss"
        agrees "$(cat files/large.name) in $type, products: $products, losses and norms of 2 steps" files/expected/large-$type $run 2 $(most $type)
    done
done
unset EITP_CUDA_PRODUCTS
steps=$(wc -l <files/expected/gpt2-fp32)
for model in $small_models; do
    for type in $small_types; do
        run=small-$model-$type
        check "$model in $type" "$eitp" $(small_run $model $type $steps) --device "$device" --output-dir $run || continue
        agrees "$model in $type: losses and norms of $steps steps" files/expected/$model-$type $run $steps $(most $type)
    done
done
