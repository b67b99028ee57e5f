# Does bf16 run: two steps of small models, with the products that the backend chooses and with its own.
. "$parts/common.sh"
. "$parts/runs.sh"

for products in chosen own; do
    for model in $small_models; do
        run=bf16-$model-$products
        [ $products = chosen ] || export EITP_CUDA_PRODUCTS=own
        check "$model in bf16, $products products" "$eitp" $(small_run $model bf16 2) --device "$device" --output-dir $run ||
            continue
        if [ $model = gpt2 ]; then
            { grep '^device: ' output; grep '^warning: \|^compil' output | head -n 3; } >shown
            show shown
        fi
        agrees "$model in bf16, $products products: losses and norms of 2 steps" files/expected/$model-bf16 $run 2 2e-3
    done
done
