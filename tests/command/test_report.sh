#!/bin/sh
# The command: eitp report, the page of a run and its values.
. tests/command/command.sh

# Fails unless the tags of a page are balanced, with quoted attributes. Prints the errors.
balanced() {
    awk 'BEGIN { RS = "<" }
    NR == 1 { next }
    {
        end = index($0, ">")
        if (!end) { print "a < without >: " substr($0, 1, 60); bad = 1; next }
        tag = substr($0, 1, end - 1)
        if (tag ~ /^!DOCTYPE html$/ || tag ~ /^(meta|input) / || tag ~ /\/$/) next
        quoted = tag
        if (gsub(/"/, "", quoted) % 2) { print "quotes: " tag; bad = 1 }
        split(tag, word, /[ \n]/)
        if (word[1] ~ /^\//) {
            if (depth == 0 || "/" open[depth] != word[1]) { print word[1] " closes " open[depth]; bad = 1; exit }
            depth--
        } else {
            if (word[1] !~ /^[a-z][a-zA-Z0-9]*$/) { print "not a tag: " tag; bad = 1 }
            open[++depth] = word[1]
        }
    }
    END { if (depth) { print depth " tags stay open"; bad = 1 } exit bad }' "$1"
}

# Checks that the page runs no scripts and loads nothing from elsewhere.
harmless() {
    ! grep -i -q -e '<script' -e 'http:' -e 'https:' -e '@import' -e 'url(' -e '<link' -e '<img' -e '<iframe' -e ' src=' -e 'javascript:' -e ' on[a-z]*=' "$1"
}

sections_of() {
    sed -n 's/^<h2 id="\([a-z]*\)">.*/\1/p' "$1" | tr '\n' ' '
}

# eitp reads JSON itself: a run.json that is not JSON counts as missing.
is_json() {
    rm -rf parsed && mkdir parsed && cp "$1" parsed/run.json && "$eitp" report parsed -o parsed.html >/dev/null 2>&1 &&
        ! grep -q "run.json:" parsed.html
}

# ---- A run of a language model ----

exits 0 "train" $train --steps 12 --eval-steps 4 --save-steps 4 --monitor full --log-full-every 4 --perf-every 4 \
    --sample-prompt '<i>Line</i>' --run-name 'a <script>alert(1)</script> & b' --notes "one
two" --output-dir run
page=run/report.html
exits 0 "a page" report run
check "a page: its path" test "$(cat out)" = run/report.html
check "a page: how to open it" grep -qx 'wrote a self-contained page of [0-9.]* [kM]B: open it in a browser, for example with xdg-open run/report.html' err
check "a page: one line" test "$(lines err)" -eq 1
exits 0 "a page, quietly" report -q run
check "a page, quietly: no messages" test ! -s err
exits 0 "a page with a name for a shell" report run -o "a page's.html"
check "a page with a name for a shell: quoted" grep -q "xdg-open 'a page'" err
exits 0 "values in a file" report run --json -o values.json
check "values in a file: reported" grep -qx 'wrote [0-9.]* kB to values.json' err
check "a page: no charts of a GPU" sh -c "! grep -q 'id=\"gpu\"' $page"
check "a page: tags are balanced" balanced $page
check "a page: nothing external" harmless $page
check "a page: sections" test "$(sections_of $page)" = "loss optimization health speed limits memory layers samples settings machine files commands "
check "a page: for browsers" sh -c "head -4 $page | grep -q '^<html lang=\"en\">' && grep -q '<meta charset=\"utf-8\">' $page && grep -q '<meta name=\"viewport\"' $page"
check "a page: a policy" grep -q "Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'" $page
check "a page: the name, escaped" grep -q '<h1>a &lt;script&gt;alert(1)&lt;/script&gt; &amp; b</h1>' $page
check "a page: how it ended" grep -q 'finished: all steps are done</span>, step 12 of 12' $page
check "a page: notes" sh -c "grep -A1 '<p class=\"note\">one\$' $page | grep -q '^two</p>'"
check "a page: both schemes" grep -q '@media screen and (prefers-color-scheme:dark)' $page
check "a page: print" grep -q '@media print' $page
check "a page: samples" grep -q '<pre><b>&lt;i&gt;Line&lt;/i&gt;</b>' $page
sed -n '/<caption>Settings that differ/,/<\/table>/p' $page >differ
sed -n '/<caption>Settings with default values/,/<\/table>/p' $page >defaults
check "a page: settings that differ" sh -c "grep -q '>steps</th><td>12<' differ && ! grep -q '>beta1</th>' differ"
check "a page: settings that are defaults" sh -c "grep -q '>beta1</th><td>0.9<' defaults && ! grep -q '>steps</th>' defaults"
check "a page: how to resume" grep -q 'eitp train --resume auto --output-dir run --steps 24' $page
check "a page: how to reproduce" grep -q "eitp train --data text.txt .*--run-name &#39;a &lt;script&gt;alert(1)&lt;/script&gt; &amp; b&#39;" $page
check "a page: layers" grep -q '<th scope="row">transformer.h.1</th>' $page
check "a page: checkpoints" grep -q '<th scope="row">checkpoint-12</th>' $page
check "a page: nothing is missing" sh -c "! grep -q 'What is missing' $page"
check "charts: alternative text" test "$(grep -c '<svg class="chart" role="img" aria-labelledby="chart[0-9]*-t chart[0-9]*-d"' $page)" -gt 20
check "charts: a word for each" sh -c "! grep -q '<desc id=\"[^\"]*\"></desc>' $page"
check "charts: values on hover" grep -q '<title>step 12$' $page
check "charts: ids are unique" sh -c "grep -o ' id=\"[^\"]*\"' $page | sort | uniq -d | grep -q . && exit 1 || exit 0"
check "charts: three horizontal axes" test "$(grep -c '<input type="radio" name="x"' $page)" -eq 3
check "charts: steps at first" grep -q 'name="x" id="x0" checked' $page
check "charts: the loss has six" test "$(sed -n '/id="loss"/,/<\/section>/p' $page | grep -c '<div class="v x')" -eq 6
check "charts: evaluations with their errors" sh -c "sed -n '/id=\"loss\"/,/<\/section>/p' $page | grep -q 'validation: from'"
check "charts: error bars" sh -c "sed -n '/id=\"loss\"/,/<\/section>/p' $page | grep -q 'class=\"c1 e1\" d=\"M'"

exits 0 "other axes" report run --x time --log-scale -o other.html
check "other axes" grep -q 'name="x" id="x2" checked' other.html
check "other axes: logarithmic" grep -q 'name="y" id="y1" checked' other.html
check "other axes: shown without :has" grep -q '<div class="v x2 y1 first">' other.html
check "-o: the path" test "$(cat out)" = other.html
# The lines of the loss with a point for each step, and with one for every 6.
points_of() {
    sed -n '/<div class="v x0 y0/,/<\/div>/p' "$1" | grep -o 'class="c0 s" d="[^"]*"' | head -n 1 | grep -o '[ML]' | wc -l | tr -d ' '
}
check "a point for each step" test "$(points_of $page)" = 12
exits 0 "--plot-every" report run --plot-every 6 -o every.html
check "--plot-every: a point for 6 steps" test "$(points_of every.html)" = 2
exits 0 "--smoothing" report run --smoothing 0.9 -o smooth.html
check "--smoothing: single values are pale" grep -q 'class="c0 t"' smooth.html
exits 0 "--smoothing 0" report run --smoothing 0 -o rough.html
check "--smoothing 0: no pale line besides evaluations" test "$(grep -o 'class="c0 t"' rough.html | wc -l)" -eq 0

exits 0 "--json" report run --json
cp out values.json
check "--json: no page" test ! -e values.json.html
check "--json: JSON" is_json values.json
check "--json: curves as arrays" grep -q '"loss": {"step": \[1,2,3,4,5,6,7,8,9,10,11,12\], "mean": \[[0-9.,]*\], "minimum": \[[0-9.,]*\], "maximum": \[[0-9.,]*\], "count": \[1,' values.json
check "--json: evaluations, settings" sh -c 'grep -q "\"evaluations\": \[{\"step\": 0, \"val_loss\": " values.json && grep -q "\"configuration\": {" values.json'
sed 's/"curves": {/"curves": {,/' values.json >wrong.json
check "invalid JSON is detected" sh -c '! { mkdir -p bad; cp wrong.json bad/run.json; "$1" report bad -o bad.html >/dev/null 2>&1 && ! grep -q run.json: bad.html; }' - "$eitp"
exits 0 "--csv" report run --csv
check "--csv: its header" test "$(head -n 1 out)" = key,step,mean,minimum,maximum,count
check "--csv: a row for each point" test "$(grep -c '^loss,[0-9]*,[0-9.]*,[0-9.]*,[0-9.]*,1$' out)" -eq 12
check "--csv: the value of the records" sh -c 'awk -F, "\$1 == \"loss\" && \$2 == 12 { print \$3 }" out >mean && sed -n "s/^{\"step\": 12, \"loss\": \([0-9.]*\),.*/\1/p" run/metrics.jsonl | awk "{ getline mean <\"mean\"; exit (\$1 - mean) ^ 2 > 1e-8 }"'

# ---- Figures of a GPU, as a run on one records them ----

cp -r run gpu
rm gpu/summary.jsonl
awk '{ print }
    match($0, "^{\"step\": [0-9]*, \"loss\"") {
        step = substr($0, 10) + 0
        printf "{\"step\": %d, \"gpu/allocated_gib\": %.2f, \"gpu/reserved_gib\": 0.68, \"gpu/memory_used_gib\": 1.5, ", step, step / 100
        printf "\"gpu/memory_gib\": 24, \"gpu/utilization\": %d, \"gpu/memory_utilization\": 20, \"gpu/celsius\": 63, ", 80 + step
        printf "\"gpu/power_w\": 214, \"gpu/energy_j\": 20, \"gpu/step_energy_j\": 2, \"gpu/frequency_mhz\": 1500, \"time\": 1, \"elapsed\": 1}\n"
    }' run/metrics.jsonl >gpu/metrics.jsonl
exits 0 "a GPU" report gpu
sed -n '/<h2 id="gpu">/,/<\/section>/p' gpu/report.html >section
check "a GPU: a chart for each value" test "$(grep -c '<figcaption>' section)" -eq 9
check "a GPU: its values" grep -q '92 %' section
check "a GPU: balanced" balanced gpu/report.html

# ---- The metric of --keep-best ----

printf 'text,label\n' >labelled.csv
awk 'BEGIN { for (i = 0; i < 60; i++) print "text " i % 7 " of " i "," (i % 3 ? "good" : "bad") }' >>labelled.csv
exits 0 "a classifier" train --init tiny.json --task classify --data labelled.csv --batch-size 8 --epochs 2 --eval-steps 4 --keep-best macro_f1 \
    --threads 1 --precision $precision --output-dir kept
exits 0 "a classifier's page" report kept
best=$(sed -n 's/^"best": {"step": \([0-9]*\), .*/\1/p' kept/best.json)
sed -n '/<dl class="tiles">/,/<\/dl>/p' kept/report.html >tiles
check "the head: the metric of --keep-best" grep -q "<dt>Best macro_f1</dt><dd>[01][0-9.]*<small>± [0-9.e-]*, after step $best</small>" tiles
check "the head: the loss as well" grep -q "<dt>Best validation loss</dt>" tiles
exits 0 "two runs with a metric" report kept run -o kept.html
check "two runs: a column for the metric" grep -q '<th scope="col">Best metric</th>' kept.html
check "two runs: the metric" grep -q '<td>macro_f1 [01][0-9.]*</td></tr>' kept.html

# ---- Several runs ----

exits 0 "another run" $train --steps 8 --eval-steps 4 --lr 3e-3 --output-dir second
exits 0 "two runs" report run second -o both.html
check "two runs: balanced" balanced both.html
check "two runs: nothing external" harmless both.html
check "two runs: curves of both" sh -c 'sed -n "/<div class=\"v x0 y0/,/<\/div>/p" both.html | head -n 30 >chart; grep -q "class=\"c0 s\"" chart && grep -q "class=\"c1 s\"" chart'
check "two runs: a comparison" grep -q '<caption>second against a &lt;script&gt;' both.html
check "two runs: settings that differ" sh -c "sed -n '/<caption>Settings that differ<\/caption>/,/<\/table>/p' both.html | grep -q '<th scope=\"row\">lr</th>'"
exits 0 "--compare with a file" report --compare run second -o compared.html
check "--compare with a file: a page" grep -q '<h1>2 runs</h1>' compared.html
exits 0 "two runs: CSV" report run second --csv
check "two runs: CSV" grep -q '^second,loss,8,' out

# ---- Results written to special files ----

exits 0 "the values" report run --json
cp out expected
# Devices and /dev/stdout are created here: a command that replaces them must not reach the machine's. eitp writes into
# the existing pipe. A writer of the test keeps its reader waiting until then.
mkfifo pipe
cat pipe >got &
reader=$!
exec 4>pipe
exits 0 "--json to a pipe" report run --json -o pipe
exec 4>&-
wait $reader
check "--json to a pipe: still a pipe" test -p pipe
check "--json to a pipe: written into" same got expected
if mknod device c 1 3 2>/dev/null; then
    for options in "" --json --csv; do
        exits 0 "$options to a device" report run $options -o device
        check "$options to a device: still a device" test -c device
    done
    exits 0 "a comparison to a device" report --compare run second -o device
    check "a comparison to a device: still a device" test -c device
    ln -s device to_device
    exits 0 "a link to a device" report run --json -o to_device
    check "a link to a device: both unchanged" test -L to_device -a -c device
    mknod full c 1 7
    exits 5 "a full device" report run --json -o full
    check "a full device: still a device" test -c full
else
    echo "SKIPPED reports written into a device: mknod needs root"
fi
mkdir elsewhere
echo before >elsewhere/target
ln -s elsewhere/target link
exits 0 "a link to a file" report run --json -o link
check "a link to a file: still a link" test -L link
check "a link to a file: its target is replaced" same elsewhere/target expected
rm elsewhere/target
exits 0 "a link to a file that is missing" report run --json -o link
check "a link to a file that is missing" sh -c 'test -L link && cmp -s elsewhere/target expected'
ln -s link twice
exits 0 "a link to a link" report run --csv -o twice
check "a link to a link: both stay" test -L twice -a -L link
check "a link to a link: its target is replaced" grep -q '^key,step,mean' elsewhere/target
ln -s loop loop
refuses 1 "cannot write 'loop': .*symbolic link" report run --json -o loop
ln -s /proc/self/fd/1 stdout
exits 0 "standard output by name" report run --json -o stdout
check "standard output by name: where the shell has opened it" same out expected
echo before >out
"$eitp" report run -o stdout >>out
check "standard output by name: added to a file" sh -c 'test "$(head -n 1 out)" = before && tail -n 1 out | grep -q "</html>"'
check "standard output by name: still a link" test -L stdout
"$eitp" report run --json -o /proc/self/fd/4 4>got 2>err
check "a descriptor by name" same got expected
check "nothing next to the results" test -z "$(find . -maxdepth 2 -name '*.partial')"

# ---- Synthetic files: classes, foreign text, damage ----

mkdir made
awk 'BEGIN {
    for (i = 1; i <= 40; i++) {
        loss = i == 21 ? "null" : 1 / i
        printf "{\"step\": %d, \"loss\": %s, \"samples\": 8, \"step_time_s\": 0.5, \"time\": %d, \"elapsed\": %d}\n", i, loss, 1700000000 + i, i
    }
    print "{\"step\": 40, \"val_loss\": 0.5, \"val_loss_error\": 0.1, \"val_accuracy\": 0.75, \"val_accuracy_error\": 0.05, \"time\": 1700000041, \"elapsed\": 41}"
    print "{\"step\": 40, \"event\": \"alarm\", \"level\": \"warning\", \"message\": \"</title></svg><script>alert(2)</script>\\u001b[31m\\u202e\", \"alarm\": \"plateau\", \"time\": 1700000042, \"elapsed\": 42}"
}' >made/metrics.jsonl
cat >made/evaluations.jsonl <<'END'
not JSON
{"step": 40, "val_loss": 0.5, "confusion": {"labels": ["cold", "<b>warm</b>"], "others": false, "counts": [[25, 5], [3, 27]]}, "mistakes": [{"sample": 7, "label": "cold", "predicted": "<b>warm</b>", "probability": 0.875, "text": "it <script>snows</script>"}], "time": 1, "elapsed": 1}
{"step": 42, "spot/loss": 0.4, "confusion": {"labels": ["cold", "<b>warm</b>"], "others": false, "counts": [[3, 0], [0, 3]]}, "time": 2, "elapsed": 2}
{"step": 44, "confusion": {"labels": ["a", "b"], "counts":
END
exits 0 "synthetic files" report made -o made.html
check "synthetic files: balanced" balanced made.html
check "synthetic files: nothing external" harmless made.html
check "synthetic files: escaped" grep -q 'it &lt;script&gt;snows&lt;/script&gt;' made.html
check "synthetic files: control characters are shown" sh -c 'grep -q "$(printf "\342\220\233")" made.html && ! LC_ALL=C grep -q "$(printf "\033")" made.html && ! grep -q "$(printf "\342\200\256")" made.html'
check "synthetic files: sections" test "$(sections_of made.html)" = "loss metrics health speed limits memory files commands "
check "synthetic files: the matrix" grep -q 'true cold, predicted &lt;b&gt;warm&lt;/b&gt;: 5 (16.7 %)' made.html
check "synthetic files: a metric with its error" grep -q '<td class="n">0.75 ± 0.05</td>' made.html
check "synthetic files: the alarm is a mark" grep -q 'class="[aq]" d="M1000 0V' made.html
check "synthetic files: missing data are reported" grep -q 'run.json is missing' made.html
check "synthetic files: no state" grep -q 'has no recorded state' made.html
printf '{"run": {"name": "n\\udcff", "last_step": 5}, "configuration": [1, 2' >made/run.json
exits 0 "a damaged run.json" report made -o made.html
check "a damaged run.json" grep -q "made/run.json" made.html
printf '{"run": {"name": "n\\udcff", "last_step": "x", "plan": [], "machine": 7, "command": ["eitp", "it'"'"'s", 3, "\\udcff"]}, "configuration": {"data": null, "lr": {"a": [[[1]]]}}}' >made/run.json
exits 0 "an odd run.json" report made -o made.html
check "an odd run.json: balanced" balanced made.html
check "an odd run.json: a name that is not UTF-8" grep -q "<h1>n$(printf '\357\277\275')</h1>" made.html
check "an odd run.json: a quoted command" grep -q "^<pre>eitp &#39;it&#39;\\\\&#39;&#39;s&#39; " made.html

# Values of an unexpected type in each file that a run records. Nothing may crash, and the page is complete.
mkdir -p odd/logs
cat >kinds <<'END'
run.json {"run": {"plan": [1]}}
run.json {"run": {"plan": "x", "model": [1], "data": {"labels": [1]}, "machine": [1], "command": {"eitp": 1}}, "configuration": [1]}
run.json {"run": [1], "configuration": 7}
run.json [{"run": {"last_step": 5}}]
metrics.jsonl [1, 2]
metrics.jsonl {"step": [1], "loss": {"a": 1}, "val_loss": [2], "event": ["saved"], "message": {}}
evaluations.jsonl [1, 2]
evaluations.jsonl {"confusion": {"labels": ["a"], "counts": {"a": [1]}}, "labels": {"a": 1}, "mistakes": {"a": 1}, "samples": {"a": [1]}}
evaluations.jsonl {"confusion": [1], "labels": [1], "mistakes": [1, [2]], "samples": [1, null], "step": "x"}
summary.jsonl [1]
logs/supervisor.json {"starts": {"a": {"reason": 1}}, "last_lines": {"a": 1}, "command": {"a": 1}, "state": [1]}
logs/supervisor.json [1]
END
while read -r file content; do
    rm -rf odd
    cp -r run odd
    mkdir -p odd/logs
    echo "$content" >"odd/$file"
    exits 0 "report of $file $content" report odd -o odd.html
    check "report of $file $content: balanced" balanced odd.html
    for reader in "logs odd" "logs odd --json" "doctor odd" "monitor odd --once" "report odd --json" "report --compare odd run"; do
        "$eitp" $reader >out 2>err
        got=$?
        check "$reader of $file $content: exit code $got" test $got -eq 0
    done
done <kinds

# A loop of links, and a directory in place of a file, are named, and the rest is shown.
for file in run.json metrics.jsonl summary.jsonl evaluations.jsonl logs/supervisor.json; do
    rm -rf odd
    cp -r run odd
    mkdir -p odd/logs
    rm -f "odd/$file"
    ln -s "$(basename "$file")" "odd/$file"
    exits 0 "report with a loop as $file" report odd -o odd.html
    check "report with a loop as $file: named" grep -q "&#39;odd/$file&#39;: .*symbolic link" odd.html
    check "report with a loop as $file: the rest" grep -q '<title>step 12$' odd.html
    exits 0 "logs with a loop as $file" logs odd
    check "logs with a loop as $file: named" grep -q "'odd/$file': .*symbolic link" err
    check "logs with a loop as $file: the rest" test "$(lines out)" -gt 12
    exits 0 "monitor with a loop as $file" monitor odd --once
    check "monitor with a loop as $file: named" grep -q "'odd/$file'" out
    "$eitp" doctor odd >out 2>err
    check "doctor with a loop as $file: named" grep -q "'odd/$file'" out
    rm "odd/$file"
    mkdir "odd/$file"
    exits 0 "report with a directory as $file" report odd -o odd.html
    check "report with a directory as $file: named" grep -q "&#39;odd/$file&#39;: .*directory" odd.html
done

# A million steps: 160 numbers of 2000 points, and more events than a page shows.
mkdir large
awk 'BEGIN {
    printf "{\"summary\": 1, \"step\": 1000000, \"steps_per_point\": 500, \"left_out\": 0}\n"
    for (i = 1; i <= 2000; i++) {
        comma = i > 1 ? "," : ""
        steps = steps comma i * 500
        counts = counts comma 500
        means = means comma 2 + 8 / sqrt(i) + i * 7919 % 101 / 500
        low = low comma 1.5 + 8 / sqrt(i) - i * 31 % 97 / 500
        high = high comma 2.5 + 8 / sqrt(i) + i * 37 % 89 / 500
    }
    split("loss lr grad_norm update_norm parameter_norm tokens tokens_per_s step_time_s rss_bytes clipped data_s forward_s backward_s update_s transfer_s other_s perf/tflops perf/mfu perf/data_loading_ratio gradient_noise_scale", names, " ")
    for (k = 1; k <= 160; k++)
        printf "{\"key\": \"%s\", \"step\": [%s], \"count\": [%s], \"mean\": [%s], \"minimum\": [%s], \"maximum\": [%s], \"last\": 2.5}\n", k <= 20 ? names[k] : "grad_norm/layer." k, steps, counts, means, low, high
    for (i = 0; i < 1000; i++)
        printf "{\"step\": %d, \"event\": \"alarm\", \"level\": \"warning\", \"message\": \"the loss has stopped falling for a long while: lower the learning rate, or end the run\", \"alarm\": \"plateau\", \"time\": 1795663354.6, \"elapsed\": 1}\n", i * 900 + 1
}' >large/summary.jsonl
exits 0 "a million steps" report large
check "a million steps: below 2 MB" test "$(wc -c <large/report.html)" -lt 2000000
check "a million steps: about 600 points a curve" sh -c "test \$(sed -n '/<div class=\"v x0 y0/,/<\/div>/p' large/report.html | grep -o 'class=\"c0 s\" d=\"[^\"]*\"' | head -n 1 | grep -o '[ML]' | wc -l) -le 600"
check "a million steps: the whole band" grep -q 'class="c0 b" d="M' large/report.html
check "a million steps: balanced" balanced large/report.html

# ---- Refusals ----

refuses 1 "eitp report requires the directory of a run" report
refuses 1 "is not a directory" report gone
mkdir empty
refuses 1 "has no run" report empty
check "a refusal writes nothing" test ! -e empty/report.html
refuses 1 "^error: --compare requires the directories of at least two runs" report --compare run
refuses 1 "^error: --json and --csv exclude each other" report run --json --csv
refuses 1 "exceed the limit of 16" report run run run run run run run run run run run run run run run run run
refuses 1 "smoothing must be at least 0 and at most 0.999 (got 1)" report run --smoothing 1
refuses 1 "^error: --x: invalid value" report run --x mass
refuses 1 "cannot write 'gone/report.html'" report run -o gone/report.html

finish
