#!/bin/sh
# The command: --overwrite-output-dir.
. tests/command/command.sh

train="$train --val-fraction 0"
new="$train --seed 1 --output-dir run --overwrite-output-dir"

exits 0 "the first run" $train --steps 3 --output-dir run -q
refuses 1 "already has checkpoint-3; .*--overwrite-output-dir)" $train --steps 2 --output-dir run
echo 'not of a run' >run/notes.txt
mkdir run/checkpoint-of-mine
cp -r run before
refuses 1 "cannot be used together" $new --resume auto
refuses 1 "vocabulary" $new --steps 2 --vocab-size 10
check "a command that is refused changes nothing" diff -r before run
exits 0 "another run" $new --steps 2
check "another run: logged" grep -q "^the earlier run in 'run' is now in 'run/replaced-1'; delete it" err
check "another run: the earlier one is kept" same_checkpoints before/checkpoint-3 run/replaced-1/checkpoint-3
for file in run.json metrics.jsonl; do
    check "another run: the earlier $file" same before/$file run/replaced-1/$file
done
check "another run: the links of the earlier" test "$(readlink run/replaced-1/latest_model)" = checkpoint-3 -a \
    -d run/replaced-1/latest_model
check "another run: its own checkpoint" test "$(ls -d run/checkpoint-[0-9]*)" = run/checkpoint-2
check "another run: its records" test "$(grep -vc 'event\|perf' run/metrics.jsonl)" -eq 2
check "other files stay" test -e run/notes.txt -a -d run/checkpoint-of-mine
exits 0 "a third run" $new --steps 1 -q
check "a third run: the second is kept" test -d run/replaced-2/checkpoint-2 -a -d run/replaced-1/checkpoint-3
exits 0 "in a new directory" $train --steps 1 --output-dir fresh --overwrite-output-dir
check "in a new directory: nothing is moved" test ! -e fresh/replaced-1
exits 0 "the earlier run resumes" train --resume run/replaced-1 --steps 4 --threads 1
check "a run in progress" start_until 'step 1/' $train --steps 100000000 --save-steps 1 --output-dir busy
refuses 1 "another process is training in 'busy'" $train --steps 1 --output-dir busy --overwrite-output-dir
kill -TERM $process
wait_for_end
check "a run in progress is not touched" test $? -eq 143 -a ! -e busy/replaced-1

finish
