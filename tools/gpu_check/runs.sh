# The runs whose numbers are compared: on the processor by make gpu-check-build, and on the GPU. The current directory has
# the folder of make gpu-check-build as `files`.

small_models="gpt2 bert llama"
small_types="fp32 bf16 fp16"

# Prints the options of a small model.
small_run() { # model, precision, steps
    tokenizer=bpe task=
    [ "$1" != bert ] || tokenizer=words task="--task mlm"
    echo train --init files/models/"$1".json --tokenizer files/$tokenizer --data files/small.txt --block-size 21 \
        --batch-size 3 --grad-accum 2 --lr 2e-3 --eval-steps 0 --optimizer adamw --precision "$2" --steps "$3" $task
}

# Prints the options of the model of real size. Its text has exactly as many windows as a step, in this order.
large_run() { # precision, steps
    echo train --tokenizer bytes --data files/large.txt --val-fraction 0 --shuffle none --grad-accum 1 --lr 1e-5 \
        --dropout 0 --eval-steps 0 --optimizer adamw --save-strategy no --precision "$1" --steps "$2" $(cat files/large)
}
