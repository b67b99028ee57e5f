#!/bin/sh
# The command: the first start after the output directory was moved.
. tests/command/command.sh

train_straight
mkdir old
cp text.txt old/text.txt
exits 0 "train" train --data old/text.txt --init tiny.json --block-size 16 --threads 1 --precision $precision --steps 8 \
    --save-steps 4 --eval-steps 5 --lr 3e-3 --offload states --offload-file old/offload.bin --output-dir old -q
mv old new
exits 0 "--resume NEW" train --resume new --steps 12 --threads 1 -q
check "--resume NEW: nothing is made at the old place" test ! -e old
check "--resume NEW: the new place is recorded" grep -q "\"data\": \[\"$work/new/text.txt\"\]" new/checkpoint-12/run.json
check "--resume NEW: and in the directory" grep -q "\"directory\": \"$work/new\"" new/run.json
mv new newer
exits 0 "--output-dir NEWER --resume auto" train --output-dir newer --resume auto --steps 13 --threads 1
check "--output-dir NEWER: resumed" grep -q "^resuming from 'newer/checkpoint-12'" err
check "--output-dir NEWER: nothing is made at the old places" test ! -e old -a ! -e new
exits 0 "links after a move" eval --model newer/latest_model --split validation --threads 1 -q

finish
