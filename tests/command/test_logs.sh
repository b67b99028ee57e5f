#!/bin/sh
# The command: logs. A run's records as a table, several runs, two runs in parallel columns, files, logs of safe-train.
. tests/command/command.sh

train_straight
exits 0 "another run" $train --steps 12 --save-steps 0 --eval-steps 5 --lr 1e-3 --run-name 'Lauf 試運転' --output-dir runs/other -q
cp -r straight runs/straight

# ---- one directory of records for several runs ----

exits 0 "a first run" $train --steps 6 --eval no --log-dir shared --output-dir sharing/a/out -q
exits 0 "a second run" $train --steps 4 --eval no --lr 1e-3 --log-dir shared --output-dir sharing/b/out -q
for run in a:6 b:4; do
    directory=sharing/${run%:*}/out
    steps=${run#*:}
    check "$run: its records" test "$(cat shared/*/metrics.jsonl | grep -c '"loss": ')" -eq 10
    exits 0 "$run: logs" logs "$directory" --csv
    check "$run: logs of it alone" test "$(lines out)" -eq $((steps + 1))
    exits 0 "$run: report" report "$directory" --json
    check "$run: its curve" sh -c "grep -q '\"loss\": {\"step\": \[[0-9,]*,$steps\],' out"
done
check "each folder has its owner" test "$(cat shared/*/owner.json | grep -c '/sharing/[ab]/out"}$')" -eq 2
exits 0 "the first is resumed" train --resume auto --output-dir sharing/a/out --steps 8 --threads 1 -q
check "the first continues in its folder" test "$(grep -c '"loss": ' shared/*/metrics.jsonl | sed 's/.*://' | sort | tr '\n' ' ')" = "4 8 "
mv sharing/a sharing/moved
exits 0 "it is moved and resumed" train --resume auto --output-dir sharing/moved/out --steps 9 --threads 1 -q
check "a moved run continues in its folder" test "$(grep -c '"loss": ' shared/*/metrics.jsonl | sed 's/.*://' | sort | tr '\n' ' ')" = "4 9 "
exits 0 "logs of the moved run" logs sharing/moved/out --csv
check "logs of the moved run: all of it" test "$(lines out)" -eq 10
# A copy next to its original has no part in the original's records.
cp -r sharing/b sharing/copy
exits 0 "a copy is resumed" train --resume auto --output-dir sharing/copy/out --steps 5 --threads 1 -q
check "a copy has its own folder" test "$(grep -c '"loss": ' shared/*/metrics.jsonl | sed 's/.*://' | sort | tr '\n' ' ')" = "1 4 9 "
# While a run trains, its folder is locked. Another run gets a separate one.
check "at once: a step" start_until 'step 1/' $train --steps 100000000 --eval no --save-steps 0 --log-dir shared --output-dir sharing/long
exits 0 "at once: another run" $train --steps 3 --eval no --log-dir shared --output-dir sharing/short -q
kill -TERM $process
wait_for_end
check "at once: whole lines" sh -c "! cat shared/*/metrics.jsonl | grep -v -q '^{.*}\$'"
check "at once: each has all" test "$(grep -c '"loss": ' shared/short-*/metrics.jsonl)" -eq 3
# A run of an earlier version has its records directly in the directory, and names no folder in its run.json.
exits 0 "an earlier run" $train --steps 3 --eval no --output-dir earlier -q
mkdir old
mv earlier/metrics.jsonl earlier/summary.jsonl old/
sed -e 's/"records": "[^"]*", //' -e 's/"configuration": {/&"log-dir": "old", /' earlier/run.json >run.json
mv run.json earlier/run.json
exits 0 "an earlier run: its logs" logs earlier --csv
check "an earlier run: its logs" test "$(lines out)" -eq 4
exits 0 "an earlier run is resumed" train --resume auto --log-dir old --output-dir earlier --steps 5 --threads 1 -q
check "an earlier run continues in place" test "$(grep -c '"loss": ' old/metrics.jsonl)" -eq 5
check "an earlier run has an owner now" grep -q '/earlier"}$' old/owner.json

# ---- one run ----

exits 0 "a table" logs straight
check "a table: nothing else" test ! -s err
check "a table: the columns" grep -q '^step  *loss  *val_loss  *lr  *grad_norm  *tokens/s  *memory  *time$' out
check "a table: a row for each step, and for the evaluation before step 1" test "$(lines out)" -eq 14
check "a table: numbers are aligned" test "$(sed 's/^\( *[^ ]* *[^ ]*\).*/\1/' out | sed -n '3,$p' | awk '{ print length }' | uniq | wc -l)" -eq 1
exits 0 "CSV" logs straight --columns loss,val_loss,grad_norm --csv
check "CSV: the header" test "$(head -n 1 out)" = "step,loss,val_loss,grad_norm"
exits 0 "JSON" logs straight --columns loss --json
check "JSON: an object" grep -q '^{"name": "straight", "directory": "straight", "state": "finished", "step": 12, "steps": 12, "rows": \[{"step": 1, "loss": [0-9.]*}, ' out
check "JSON: the events" test "$(grep -o '"event": "saved"' out | wc -l)" -eq 3
# The values match the records: to the six digits of summary.jsonl, or exactly.
exact() { # name, key
    sed -n "s/^{\"step\": \([0-9]*\),.* \"$2\": \([0-9.e-]*\),.*/\1,\2/p" straight/metrics.jsonl | grep -v event >expected
    "$eitp" logs straight --columns "$2" --csv | sed -e 1d -e 's/,$//' >found
    check "$1: the values of $2" sh -c "test -s expected && paste -d, expected found | awk -F, '
        { if (\$1 != \$3 || (\$2 - \$4) ^ 2 > (\$2 * 5e-6) ^ 2) wrong++ } END { exit wrong || !NR }'"
}
for key in loss grad_norm lr val_loss; do
    exact "with a summary" $key
done
mv straight/summary.jsonl kept
for key in loss grad_norm val_loss val_perplexity; do
    exact "without" $key
done
exits 0 "without a summary" logs straight
check "without a summary: reported" grep -q '^summary.jsonl is missing' err
mv kept straight/summary.jsonl
exits 0 "--columns" logs straight --columns step,memory,items/s,time,loss
check "--columns: in this order" grep -q '^step  *memory  *tokens/s  *time  *loss$' out
refuses 1 "no records of 'grad_nrm' in 'straight'; did you mean 'grad_norm'?" logs straight --columns loss,grad_nrm
refuses 1 "no records of 'beauty' in 'straight'; summary.jsonl has a line for each name" logs straight --columns beauty
refuses 1 "--json and --csv exclude" logs straight --json --csv
exits 0 "--filter" logs straight --filter SAVED
check "--filter: events" sh -c "test \$(wc -l <out) -eq 4 && grep -q '^step [0-9]*, info: saved: saved straight/checkpoint-4 in ' out"
exits 0 "--filter: rows" logs straight --filter 0.003
check "--filter: rows" sh -c "test \$(wc -l <out) -eq 2 && grep -q '^ *1 ' out"

# ---- many steps, and longest messages ----

mkdir many
awk 'BEGIN { for (i = 1; i <= 1000; i++) {
    printf "{\"step\": %d, \"loss\": %.3f, \"time\": %d, \"elapsed\": %d}\n", i, 10 - i / 200, 1e9 + i, i
    if (i % 300 == 0)
        printf "{\"step\": %d, \"val_loss\": %d.25, \"val_loss_error\": 0.5, \"time\": %d, \"elapsed\": 1}\n", i, i / 300, 1e9 + i
    if (i == 500)
        printf "{\"step\": 500, \"event\": \"alarm\", \"level\": \"warning\", \"message\": \"\\u001b[2J \\u0007 red\", \"alarm\": \"plateau\", \"time\": %d}\n", 1e9 + i
} }' >many/metrics.jsonl
exits 0 "many steps" logs many
check "many steps: twenty rows and the alarm" test "$(lines out)" -eq 22
check "many steps: the first and the last" sh -c "sed -n 2p out | grep -q '^ *1  9\.9950' && tail -n 1 out | grep -q '^1000  5\.0000'"
check "many steps: no evaluation is lost" test "$(awk 'NF == 3 && $3 ~ /\.2500$/' out | wc -l)" -eq 3
check "an alarm is printed between the rows, without control characters" grep -q '^step 500, warning: alarm plateau: ?\[2J ? red$' out
exits 0 "many steps: all" logs many --columns loss
check "many steps: all" test "$(lines out)" -eq 1002
check "missing records are reported" grep -q '^run.json is missing$' err
printf '{"step": 1001, "loss": ' >>many/metrics.jsonl
printf '\377\n not a record\n' >>many/metrics.jsonl
exits 0 "damaged records" logs many
check "damaged records: the others" sh -c "tail -n 1 out | grep -q '^1000  5\.0000'"

# ---- several runs ----

cp -r straight/checkpoint-4 runs/model
exits 0 "a directory of runs" logs runs
check "a directory of runs: a checkpoint is not a run" test "$(lines out)" -eq 3
rm -r runs/model
check "a directory of runs: the columns" grep -q '^name  *state  *step  *steps  *best  *at  *loss  *items/s  *time  *started  *directory$' out
check "a directory of runs: by name" grep -q '^Lauf 試運転  finished    12     12  [0-9.]*  12 ' out
check "wide characters are aligned" grep -q '^straight     finished    12     12  [0-9.]*  12 ' out
mkdir runs/empty
: >runs/empty/metrics.jsonl
exits 0 "--sort" logs runs --sort best --csv
check "--sort: upwards, empty ones last" test "$(sed -n -e 's/.*,runs\/straight$/s/p' -e 's/.*,runs\/other$/o/p' -e 's/^empty,no records,.*/e/p' out | tr -d '\n')" = soe
exits 0 "--sort downwards" logs runs --sort -best --csv
check "--sort: downwards" test "$(sed -n -e 's/.*,runs\/straight$/s/p' -e 's/.*,runs\/other$/o/p' -e 's/^empty,no records,.*/e/p' out | tr -d '\n')" = ose
refuses 1 "no column 'bets'; did you mean 'best'?" logs runs --sort bets
exits 0 "several: --filter" logs runs --filter lauf --json
check "several: --filter" grep -q '^{"runs": \[{"name": "Lauf 試運転", "state": "finished", [^{}]*"directory": "runs/other"}\]}$' out
rm -r runs/empty
exits 0 "side by side" logs runs --side-by-side
check "side by side: the columns" grep -q '^step  Lauf 試運転 loss  Lauf 試運転 val_loss  straight loss  straight val_loss$' out
exits 0 "side by side: columns" logs straight runs/other --columns lr --csv
check "side by side: columns" sh -c "head -n 1 out | grep -qx 'step,straight lr,runs/other lr' && sed -n 2p out | grep -qx '1,0.003,0.001'"
refuses 1 "requires two runs (got 3)" logs straight runs --side-by-side
refuses 1 "requires two runs (got 3)" logs straight runs --columns loss
refuses 1 "require a single run (got 2)" logs runs --follow
refuses 1 "'gone' is not a directory" logs gone
mkdir nothing
refuses 1 "no run in 'nothing'" logs nothing
refuses 1 "requires the output directory of a run" logs

# ---- the width of a terminal ----

if script -qec true /dev/null >/dev/null 2>&1; then
    for columns in 30 60; do
        script -qec "stty cols $columns; '$eitp' logs straight" /dev/null 2>/dev/null </dev/null | tr -d '\r' >lines
        check "$columns columns: the table fits" awk "length >= $columns { wrong++ } END { exit wrong || NR != 14 }" lines
        check "$columns columns: the loss is there" grep -q '^step  *loss' lines
    done
else
    echo "SKIPPED the width of a terminal: script (util-linux) is missing"
fi

# ---- files ----

exits 0 "--sizes" logs straight --sizes
total=$(find straight -type f -exec cat {} + | wc -c)
check "--sizes: a file" grep -q "^ *[0-9.]* kB  ....-..-..T..:..:..Z  checkpoint-12/model.safetensors$" out
check "--sizes: the sum" grep -q '^[0-9.]* [kM]B in total$' out
exits 0 "--sizes --json" logs straight --sizes --json
check "--sizes --json: the sum" grep -q "\"total_bytes\": $total}$" out
check "--sizes --json: each file once" test "$(grep -o '"file": ' out | wc -l)" -eq "$(find straight -type f | wc -l)"

# ---- logs of safe-train, and following ----

refuses 1 "no log in 'straight/logs': safe-train writes" logs straight --last
mkdir straight/logs
echo "the old one" >straight/logs/training_20260101_120000.log
printf 'the new one \033[2J\n' >straight/logs/training_20261126_120000.log
echo "no log of training" >straight/logs/zzz.log
exits 0 "--last" logs straight --last
check "--last: the newest, without control characters" test "$(cat out)" = "the new one ?[2J"
exits 0 "--last --follow: a run that has ended" logs straight --last --follow
exits 0 "--follow: a run that has ended" logs straight --follow
check "--follow: reports how it ended" grep -q '^straight: finished, step 12 of 12$' err
check "a run to follow" start_until 'step 1/' $large --steps 100000 --batch-size 1 --micro-batches-per-pass 1 --eval-steps 1 --eval-windows 1 --grad-accum 1 --save-steps 3 --output-dir followed
mkdir -p followed/logs
: >followed/logs/training_20261126_120000.log
until test -s followed/metrics.jsonl && grep -q '"loss": ' followed/metrics.jsonl; do sleep 0.05; done
"$eitp" logs followed --columns loss,val_loss --csv --follow >rows 2>err &
follower=$!
"$eitp" logs followed --last --follow >log 2>&1 &
reader=$!
until test "$(lines rows)" -ge 3; do sleep 0.05; done
before=$(lines rows)
until test "$(lines rows)" -gt "$before"; do sleep 0.05; done
echo "a late line" >>followed/logs/training_20261126_120000.log
until grep -q 'a late line' log; do sleep 0.05; done
kill -TERM $process
wait $process
wait $follower
check "--follow: it ends with the run" test $? -eq 0
wait $reader
check "--last --follow: it ends with the run" test $? -eq 0
check "--follow: the header once" test "$(grep -c '^step,loss,val_loss$' rows)" -eq 1
check "--follow: in order" sh -c "sed -e 1d -e 's/,.*//' rows | sort -n -c"
check "--follow: the loss of each step once" sh -c "sed -n 's/^\([0-9]*\),[0-9].*/\1/p' rows | sort -n -c -u"
check "--follow: no evaluation is lost" test "$(grep -c ',[0-9][0-9.]*$' rows)" -eq "$(grep -c '"val_loss": ' followed/metrics.jsonl)"
"$eitp" logs followed --columns loss --csv | sed -n '$s/,.*//p' >last
check "--follow: to the last step" test "$(sed -n '$s/,.*//p' rows)" = "$(cat last)"
check "--follow: reports that it was stopped" grep -q '^followed: stopped, step ' err

finish
