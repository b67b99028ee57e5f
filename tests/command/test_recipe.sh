#!/bin/sh
# Runs started by a program with a recipe and resumed by the command, and vice versa (examples/recipe.c).
source=$PWD/examples/recipe.c
. tests/command/command.sh
program=$(dirname "$eitp")/examples/recipe

# The same settings as a recipe and as options.
cat >settings.json <<'END'
{"init": "tiny.json", "data": ["text.txt"], "block_size": 16, "threads": 1, "optimizer": "adamw", "batch_size": 4,
 "grad_accum": 1, "lr": 1e-3, "lr_schedule": "constant", "warmup_steps": 0, "eval_steps": 4, "eval_windows": 8,
 "save_total_limit": 0, "seed": 5}
END
options="--init tiny.json --data text.txt --block-size 16 --threads 1 --optimizer adamw --batch-size 4 --grad-accum 1 --lr 1e-3
    --lr-schedule constant --warmup-steps 0 --eval-steps 4 --eval-windows 8 --save-total-limit 0 --seed 5 --precision $precision"

# A recipe with the settings, preceded by other members.
recipe() { # file, members
    sed "s/^{/{$2, \"precision\": \"$precision\", /" settings.json >"$1"
}

runs_program() { # name, recipe, texts...
    name=$1
    shift
    if "$program" "$@" >out 2>err </dev/null; then pass; else
        fail "$name"
        sed 's/^/    /' err
    fi
}

# The whole program is short, not counting its first comment and the lines of /* */.
lines=$(sed '/^\/\*/,/\*\/$/d' "$source" | grep -cvE '^[[:space:]]*(/\*.*\*/)?$')
check "the program has fewer than 40 lines (it has $lines)" test "$lines" -lt 40

exits 0 "by the command" train $options --steps 8 --output-dir command
recipe recipe.json '"output_dir": "program", "steps": 8'
runs_program "by the program" recipe.json
check "both compute the same bits" same_checkpoints command/checkpoint-8 program/checkpoint-8

# Started by the program.
recipe recipe.json '"output_dir": "resumed", "steps": 4'
runs_program "begun by the program" recipe.json
exits 0 "resumed by the command" train --resume resumed --steps 8
check "resumed by the command: from its checkpoint" test -d resumed/checkpoint-4 -a -d resumed/checkpoint-8
check "resumed by the command: the same bits" same_checkpoints command/checkpoint-8 resumed/checkpoint-8
exits 0 "evaluated by the command" eval --model resumed --split validation --threads 1 --json
loss_of out >loss
exits 0 "the command's own" eval --model command --split validation --threads 1 --json
check "both have the same loss" test "$(loss_of out)" = "$(cat loss)"
exits 0 "text from the program's model" generate --model program --prompt Line --num-tokens 2

# Started by the command.
exits 0 "started by the command" train $options --steps 4 --output-dir begun
recipe recipe.json '"output_dir": "begun", "steps": 8'
runs_program "resumed by the program" recipe.json
check "resumed by the program: the same bits" same_checkpoints command/checkpoint-8 begun/checkpoint-8
exits 0 "resumed by the command again" train --resume begun --steps 10
check "resumed by the command again: on its own" test -d begun/checkpoint-10

# Labels, whose names are in the checkpoint.
awk 'BEGIN { print "text,label"; for (i = 0; i < 60; i++) print (i % 2 ? "one and " : "one less ") i "," (i % 2 ? "plus" : "minus") }' >sums.csv
echo '{"init": "minilm", "layers": 1, "width": 16, "heads": 2, "positions": 32, "data": "sums.csv", "threads": 1, "lr": 1e-3,
 "optimizer": "adamw", "batch_size": 4, "grad_accum": 1, "lr_schedule": "constant", "warmup_steps": 0}' >settings.json
recipe recipe.json '"output_dir": "labels", "steps": 8'
runs_program "labels" recipe.json "one and 3" "one less 4"
check "labels: the plan" grep -qE '^adamw in [a-z0-9]+, [0-9]+ MB$' out
check "labels: of one input" grep -qE '^one and 3: (plus|minus) \((0\.[5-9][0-9]|1\.00)\)$' out
check "labels: of the next input" grep -qE '^one less 4: (plus|minus) \((0\.[5-9][0-9]|1\.00)\)$' out
"$eitp" predict --model labels --threads 1 --precision "$precision" --text "one and 3" >predicted 2>/dev/null
check "labels: the command's" grep -q "^one and 3: $(cut -f 1 predicted) (" out
recipe recipe.json '"output_dir": "labels_resumed", "steps": 4'
runs_program "labels, begun by the program" recipe.json
exits 0 "labels, resumed by the command" train --resume labels_resumed --steps 8
check "labels: nothing is packed again" sh -c '! grep -q "^packed" err'
check "labels: the same bits" same_checkpoints labels/checkpoint-8 labels_resumed/checkpoint-8
exits 0 "labels, evaluated by the command" eval --model labels_resumed --split validation --threads 1 --json
check "labels: a metric" grep -q '"accuracy": ' out

# Errors are one line.
echo '{"learning_rate": 1}' >recipe.json
check "an unknown setting ends the program" sh -c '! "$1" recipe.json >out 2>err' - "$program"
check "an unknown setting: a line" grep -q "line 1: unknown setting 'learning_rate'" err

finish
