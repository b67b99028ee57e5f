#!/bin/sh
# The command: the analyses of eitp report. Records are synthetic where figures are compared with awk's.
. tests/command/command.sh

# first NAME: its first value in the JSON of the file out, after the members named in $after.
after=
first() {
    tr '\n' ' ' <out | awk -v after="$after" -v name="\"$1\": " '{
        n = split(after, names, " ")
        for (i = 1; i <= n; i++) {
            at = index($0, "\"" names[i] "\": ")
            if (!at) exit
            $0 = substr($0, at + length(names[i]) + 4)
        }
        at = index($0, name)
        if (!at) exit
        $0 = substr($0, at + length(name))
        match($0, /[,}\]]/)
        print substr($0, 1, RSTART - 1)
    }'
}
# near NAME FOUND EXPECTED [PART]: equal up to a relative error, by default 1e-5, since recorded points are in single
# precision.
near() {
    check "$1: $2, expected $3" awk -v a="$2" -v b="$3" -v part="${4:-1e-5}" 'BEGIN {
        exit !(a != "" && a != "null" && (a - b) ^ 2 <= (part * b) ^ 2 + 1e-18) }'
}
says() {
    check "\"$1\"" grep -q -e "$1" out
    grep -q -e "$1" out || sed 's/^/    /' out
}
# steps DIR PROGRAM: records of steps, printed by awk. step(s, seconds) prints a step of 100 tokens.
steps() {
    mkdir -p "$1"
    awk 'function step(s, seconds, rest) {
        printf "{\"step\": %d, \"loss\": %.9g, \"tokens\": 100, \"tokens_per_s\": %.9g, \"step_time_s\": %.9g, \"rss_bytes\": %d%s}\n",
            s, loss ? loss : 3, 100 / seconds, seconds, memory ? memory : 100000000, rest
    }
    function event(s, kind, text) {
        printf "{\"step\": %d, \"event\": \"%s\", \"level\": \"info\", \"message\": \"%s\"}\n", s, kind, text
    }
    function evaluation(s, loss, error, seconds) {
        printf "{\"step\": %d, \"val_loss\": %.9g, \"val_loss_error\": %.9g, \"val_tokens\": 1000, \"val_time_s\": %.9g}\n",
            s, loss, error, seconds
    }
    function noise() { state = state * 16807 % 2147483647; return state / 2147483647 - 0.5 }
    BEGIN { state = 7;'"$2"'}' >"$1/metrics.jsonl"
}

# ---- trend ----

# 45 steps in 6.4 minutes and 59 in 8.3: the elapsed time grows with every step, but no step became slower.
steps guide 'for (s = 1; s <= 59; s++) step(s, s <= 45 ? 6.4 * 60 / 45 : 1.9 * 60 / 14)'
exits 0 "trend" report guide --trend
says '^guide, step time: no slowdown: steps take 4.6 % less from step 46 on: a jump, not a drift$'
says 'jump at step 46: -4.6 %, from 8.533 s to 8.143 s, p < 0.001'
steps guide 'for (s = 1; s <= 59; s++) step(s, (s <= 45 ? 6.4 * 60 / 45 : 1.9 * 60 / 14) + noise())'
exits 0 "trend" report guide --trend
says '^guide, step time: no slowdown: '
steps guide 'for (s = 1; s <= 59; s++) step(s, 8.3 + noise())'
exits 0 "trend" report guide --trend
says '^guide, step time: no slowdown: the trend is '
says '^rate: no trend: '
says '^memory: no growth: the trend is 0.00 % per 1000 steps'
check "no jump in noise" test "$(grep -c jump out)" -eq 0

# A drift: the median slope of all pairs, and its ratio to the median, computed by awk.
steps drift 'for (s = 1; s <= 120; s++) { memory = 1e8 + 4096 * s; step(s, 2 + s * 0.001 + 0.02 * noise()) }'
exits 0 "trend" report drift --trend
says '^drift, step time: steps take [0-9.]* % longer per 1000 steps \[[0-9.]*, [0-9.]*\], p < 0.001; [0-9.]* % from step 1 to 120$'
says '^memory: memory grows by '
says '; 4096 bytes per step \[4096, 4096\]'
check "no jump in a drift" test "$(grep -c jump out)" -eq 0
exits 0 "trend" report drift --trend --json
sed -n 's/.*"step_time_s": \([0-9.]*\),.*/\1/p' drift/metrics.jsonl >times
slope=$(awk '{ y[NR] = $1 } END { for (i = 1; i <= NR; i++) for (k = i + 1; k <= NR; k++) print (y[k] - y[i]) / (k - i) }' times |
    sort -g | awk '{ v[NR] = $1 } END { print (v[int((NR + 1) / 2)] + v[int((NR + 2) / 2)]) / 2 }')
median=$(sort -g times | awk '{ v[NR] = $1 } END { print (v[int((NR + 1) / 2)] + v[int((NR + 2) / 2)]) / 2 }')
after=step_time_s
near "slope" "$(first slope)" "$slope" 1e-3
near "percent" "$(first percent_per_1000_steps)" "$(awk -v a="$slope" -v b="$median" 'BEGIN { print 1e5 * a / b }')" 1e-3
near "percent of the run" "$(first percent_of_run)" "$(awk -v a="$slope" -v b="$median" 'BEGIN { print 119e2 * a / b }')" 1e-3
near "median" "$(first median)" "$median"
near "first tenth" "$(first first_tenth)" "$(head -n 12 times | awk '{ s += $1 } END { print s / NR }')"
near "last tenth" "$(first last_tenth)" "$(tail -n 12 times | awk '{ s += $1 } END { print s / NR }')"
check "verdict" test "$(first verdict)" = '"rises"'
after=tokens_per_s
check "verdict of the rate" test "$(first verdict)" = '"falls"'

# A noisy drift is closer to a line than to levels.
steps noisy 'for (s = 1; s <= 600; s++) step(s, 2 + s * 0.001 + noise())'
exits 0 "trend" report noisy --trend
says '^noisy, step time: steps take [0-9.]* % longer per 1000 steps '
check "no jump in a noisy drift" test "$(grep -c jump out)" -eq 0

# Step times that wander: neighbours are alike, so an apparent change of level is chance.
steps wander 'for (s = 1; s <= 300; s++) { level = 0.9 * level + 0.2 * noise(); step(s, 2 + level) }'
exits 0 "trend" report wander --trend
check "no jump in step times that wander" test "$(grep -c jump out)" -eq 0

# Jumps, up and back, and the events near them.
steps jump 'for (s = 1; s <= 200; s++) {
    if (s == 120) event(s, "temperature", "the processor has 97 C \\u001b[2J")
    if (s == 121) event(s, "saved", "saved a checkpoint")
    step(s, (s > 120 ? 1.3 : 1) + 0.02 * noise()) }'
exits 0 "trend" report jump --trend
says '^jump, step time: steps take \(29\|30\|31\).[0-9] % longer from step 121 on: a jump, not a drift$'
says '^  jump at step 121: +.*, p < 0.001; near it, at step 120: temperature, the processor has 97 C ?\[2J$'
steps back 'for (s = 1; s <= 300; s++) step(s, (s > 100 && s <= 180 ? 1.5 : 1) + 0.02 * noise())'
exits 0 "trend" report back --trend
says '^back, step time: no lasting slowdown: step times changed and changed back, in 2 jumps from step 101 on'
says '^  jump at step 181: -'
# Without noise, one bound alone would gain nothing.
steps exact 'for (s = 1; s <= 300; s++) step(s, s > 100 && s <= 180 ? 1.5 : 1)'
exits 0 "trend" report exact --trend
says '^exact, step time: no lasting slowdown: step times changed and changed back, in 2 jumps from step 101 on'
# Twice slower, the second time until the end. The trend detects nothing, because half of the steps are unchanged.
steps twice 'for (s = 1; s <= 400; s++) step(s, (s > 100 && s <= 160 || s > 300 ? 1.4 : 1) + 0.05 * noise())'
exits 0 "trend" report twice --trend
says '^twice, step time: steps take \(39\|40\|41\).[0-9] % longer, in 3 jumps from step 101 on, not in a drift$'
says '^  jump at step 301: +.*, p < 0.001$'

steps few 'for (s = 1; s <= 9; s++) step(s, s)'
exits 0 "trend" report few --trend
says '^few, step time: too few steps to tell: 9 records of step_time_s, at least 10 required$'

# ---- bottleneck ----

# parts STEP DATA FORWARD BACKWARD UPDATE TRANSFER OTHER: a record with its parts, in awk.
parts='function parts(s, d, f, b, u, t, o) {
    step(s, d + f + b + u + t + o, sprintf(", \"data_s\": %g, \"forward_s\": %g, \"backward_s\": %g, \"update_s\": %g, \"transfer_s\": %g, \"other_s\": %g", d, f, b, u, t, o))
}'
limited() {
    steps "$1" '} '"$parts"' BEGIN { for (s = 1; s <= 20; s++) parts(s, '"$2"')'
}
limited data '0.25, 0.3, 0.4, 0.03, 0, 0.02'
printf '{"run": {}, "configuration": {"data-workers": 0}}\n' >data/run.json
exits 0 "bottleneck" report data --bottleneck
says '^limit: data, 25.0 % of the steps (above 20 %); read batches ahead with --data-workers (now 0), pack'
says '^data 25.0 %, compute 73.0 % of the steps$'
says '^roofline: eitp bench step --config data/run.json$'
exits 0 "bottleneck" report data --bottleneck --json
check "shares of the steps add up to 100" awk '{ n = split($0, a, "percent_of_steps\": "); for (i = 2; i <= n; i++) s += a[i]
    exit !(n == 7 && (s - 100) ^ 2 < 1e-6) }' out
after=
check "source" test "$(first source)" = '"steps"'
near "items/s" "$(first items_per_s)" 100
limited compute '0.19, 0.3, 0.4, 0.09, 0, 0.02'
exits 0 "bottleneck" report compute --bottleneck
says '^limit: compute, 79.0 % of the steps; '
says '^TFLOP/s and MFU are not recorded'
limited transfer '0, 0.3, 0.3, 0.1, 0.3, 0'
exits 0 "bottleneck" report transfer --bottleneck
says '^limit: transfer, 30.0 % of the steps (above 20 %); .*--offload'
limited update '0, 0.2, 0.3, 0.26, 0.24, 0'
exits 0 "bottleneck" report update --bottleneck
says '^limit: update, 26.0 % of the steps (above 25 %); .*--batch-size'
says '^also: transfer, 24.0 % of the steps'
echo '{"step": 20, "val_loss": 3, "val_time_s": 5}' >>transfer/metrics.jsonl
exits 0 "bottleneck" report transfer --bottleneck
says '^also: evaluation, 20.0 % of training (above 10 %)'
limited other '0, 0.2, 0.3, 0.2, 0, 0.3'
exits 0 "bottleneck" report other --bottleneck
says '^limit: other, 30.0 % of the steps (above 20 %)'

# Performance records, which cover all steps and more: parts, rates weighted by time, evaluations and saves.
perf() {
    printf '{"step": %d, "perf/steps": %d, "perf/step_time": %s, "perf/tflops": %s, "perf/mfu": %s, "perf/forward_time": %s, "perf/backward_time": %s, "perf/optimizer_time": %s, "perf/data_loading_time": %s, "perf/transfer_time": 0, "perf/other_time": 0, "perf/checkpoint_time": %s, "perf/evaluation_time": %s}\n' "$@" >>slow/metrics.jsonl
}
limited slow '0.5, 0.5, 0, 0, 0, 0'
perf 10 10 1 0.2 20 4 5 1 0 0.5 2
perf 20 10 3 0.1 10 12 15 3 0 4 6
echo '{"step": 20, "profile/backward/matmul_s": 2, "profile/backward/matmul_gflops": 30, "profile/backward/matmul_gb_per_s": 2, "profile/forward/add_s": 1, "profile/other_ops_s": 0.5, "profile/step_time_s": 4}' >>slow/metrics.jsonl
cat >slow/run.json <<'END'
{"run": {"plan": {"batch_size": 2, "micro_batches_per_pass": 1, "parameter_bytes": 4000, "optimizer_bytes": 8000},
 "model": {"parameters": 1000, "sample_tokens": 128}}, "configuration": {"init": "my 'model'", "eval-steps": 5}}
END
exits 0 "bottleneck" report slow --bottleneck
says '^limit: evaluation, 15.2 % of training (above 10 %); evaluate less often with --eval-steps (now 5)'
says '^also: small passes, MFU 12.5 % (below 40 %); matrix products with 256 rows'
says '^  checkpoints .* 8.6 % of training$'
says '^  backward/matmul  *50.0 %  *30 GFLOP/s .* 15 operations per byte$'
check "other ops and rates are not ops" test "$(grep -c '^  [a-z]*/' out)" -eq 2
says "^roofline: eitp bench step --model 'my '\\\\''model'\\\\''' --block-size 128 --config slow/run.json$"
exits 0 "bottleneck" report slow --bottleneck --json
after=
check "source" test "$(first source)" = '"perf"'
near "TFLOP/s" "$(first tflops)" 0.125
near "MFU" "$(first mfu)" 12.5
near "peak" "$(first peak_tflops)" 1
near "operations per byte" "$(first flops_per_weight_byte)" 128
near "bytes of an update" "$(first update_bytes)" 24000
near "GB/s of an update" "$(first update_gb_per_s)" 1.2e-4
# A run that was killed: its steps continue after the last performance record.
awk '/perf/ && !/"step": 10,/ { next } { print }' slow/metrics.jsonl >lines && mv lines slow/metrics.jsonl
exits 0 "bottleneck" report slow --bottleneck
says '^slow: 20 steps, 20 s of steps, 22.5 s of training; times from step records$'
says '^limit: data, 50.0 % of the steps'
says '^  evaluation .* 2.000 s '
mkdir off && echo '{"step": 3, "event": "started", "level": "info", "message": ""}' >off/metrics.jsonl
exits 0 "bottleneck" report off --bottleneck
says '^limit: unknown; no step times are recorded; train with --monitor light'

# ---- compare ----

# info DIR LR SETTINGS [TOKENS [TYPE]]: a run.json.
info() {
    cat >"$1/run.json" <<END
{"run": {"version": "0.1.0", "last_step": 100, "machine": {"host": "h", "processor": "P", "usable_processors": 2},
 "model": {"type": "${5:-gpt2}", "parameters": 1000, "vocabulary": 257},
 "data": {"token_file": "$1/x", "validation_samples": 10, "validation_tokens": ${4:-1000}, "tokens_per_byte": 1}},
 "configuration": {"task": "auto", "data": ["text"], "output-dir": "$1", "lr": $2, "seed": 0, "list": [1, 2.0]$3}}
END
}
# Evaluations take 2 s, saves 1 s for each 50 steps.
curve='loss = BASE + SLOPE / (10 + s) + 0.1 * noise(); step(s, SECONDS + 0.1 * noise()); if (s % EVERY == 0) evaluation(s, BASE + SLOPE / (10 + s), ERROR + s / 1e5, 2);
    if (s % 50 == 0) printf "{\"step\": %d, \"perf/steps\": 50, \"perf/checkpoint_time\": 1, \"mem/peak_bytes\": PEAK}\n", s'
learn() { # DIR STEPS BASE SLOPE SECONDS EVERY ERROR PEAK
    steps "$1" "$(printf "%s\n" "evaluation(0, BASE + SLOPE / 10, ERROR, 2); for (s = 1; s <= $2; s++) { $curve }" |
        sed -e "s/BASE/$3/g" -e "s/SLOPE/$4/g" -e "s/SECONDS/$5/g" -e "s/EVERY/$6/g" -e "s/ERROR/$7/g" -e "s/PEAK/$8/g")"
}
learn a 100 2 10 1 20 0.006 1e8
learn b 90 1.969 10 0.5 15 0.008 2e8
info a 0.001 ', "x": 1e-3'
info b 3e-3 ', "x": 0.001, "y": "\u001b[31m"'
exits 0 "compare" report --compare a b
cat >expected <<'END'
settings that differ, baseline first
  lr                      0.001               3e-3
  y                       -                   ?[31m
END
sed -n '/^settings/,/^  y/p' out >found
check "the settings that differ" same found expected
says '^baseline  a: unknown, step 100/100, 10.0 k tokens in '
says '^run 1     b: unknown, step 90/100, 9000 tokens in '
says '^b against a$'
says '^  validation loss at equal tokens: b is better by 0.032 +- 0.011 '
says '^  validation loss at equal time: b is better by '
says '^  training loss at equal tokens: b is better by '
says '^  memory: 2 times the baseline'
says 'note: both were evaluated on the same samples: .* is an upper bound$'
check "no control characters" test "$(tr -d '\n -~' <out | wc -c)" -eq 0
exits 0 "compare" report a --compare b --json

# The same in awk: step times, earlier evaluations, and saves; losses between evaluations.
cat >exact.awk <<'END'
function value(key) { return match($0, "\"" key "\": [-0-9.e+]*") ? substr($0, RSTART + length(key) + 4, RLENGTH - length(key) - 4) : "" }
/step_time_s/ { s = value("step") + 0; time += value("step_time_s"); losses[s] = value("loss"); done[s] = time; last = s; rates[s] = value("tokens_per_s") }
/val_loss/ { n++; at[n] = value("step") + 0; loss[n] = value("val_loss"); error[n] = value("val_loss_error") }
function seconds(step, i, sum) {
    for (i = 1; i <= n; i++) sum += at[i] < step ? 2 : 0
    return sum + done[step] + (step < int(last / 50) * 50 ? step / 50 : int(last / 50))
}
function place(step) { return by == "items" ? 100 * step : step ? seconds(step) : 0 }
END
sum() { awk -f exact.awk -v by="$2" -f /dev/stdin "$1/metrics.jsonl"; }
seconds_of() { printf "%s\n" "END { print seconds(last) + (last % $2 ? 0 : 2) }" | sum "$1"; }
near "items" "$(first items)" 10000
near "seconds" "$(first seconds)" "$(seconds_of a 20)"
interpolate() { # DIR BY X: loss, error
    printf "%s\n" "END { for (i = 1; place(at[i]) < $3 - 1e-6; i++); w = i > 1 ? ($3 - place(at[i - 1])) / (place(at[i]) - place(at[i - 1])) : 1
        printf \"%.12g %.12g\n\", loss[i - 1] + w * (loss[i] - loss[i - 1]), error[i - 1] + w * (error[i] - error[i - 1]) }" | sum "$1" "$2"
}
# differs AXIS X: the difference of validation losses, and its error.
differs() {
    set -- "$1" "$2" $(interpolate a "$1" "$2") $(interpolate b "$1" "$2")
    after=validation_at_$1
    near "validation at $1: x" "$(first to)" "$2"
    near "validation at $1: baseline" "$(first baseline)" "$3"
    near "validation at $1: value" "$(first value)" "$5"
    near "validation at $1: difference" "$(first difference)" "$(awk -v a="$3" -v b="$5" 'BEGIN { printf "%.12g", b - a }')" 1e-4
    near "validation at $1: error" "$(first error)" "$(awk -v a="$4" -v b="$6" 'BEGIN { printf "%.12g", sqrt(a * a + b * b) }')" 1e-4
    near "validation at $1: z" "$(first z)" "$(awk -v a="$3" -v b="$5" -v c="$4" -v d="$6" 'BEGIN { printf "%.12g", (b - a) / sqrt(c * c + d * d) }')" 1e-4
}
differs items 9000
end_a=$(printf "%s\n" 'END { printf "%.12g\n", seconds(100) }' | sum a)
end_b=$(printf "%s\n" 'END { printf "%.12g\n", seconds(90) }' | sum b)
differs seconds "$(awk -v a="$end_a" -v b="$end_b" 'BEGIN { print a < b ? a : b }')"

# The training loss: means over 0.2 of the range, because a tenth has 9 points, and their error.
average() { # DIR FROM TO
    printf "%s\n" "END { for (s = $2; s <= $3; s++) { v[++k] = losses[s]; m += losses[s] } m /= k
        for (i = 1; i <= k; i++) { xy += (i - (k + 1) / 2) * (v[i] - m); xx += (i - (k + 1) / 2) ^ 2 }
        for (i = 1; i <= k; i++) { e[i] = v[i] - m - xy / xx * (i - (k + 1) / 2); ss += e[i] ^ 2; if (i > 1) sp += e[i] * e[i - 1] }
        r = sp > 0 ? sp / ss : 0; r = (k * r + 2) / (k - 4); printf \"%.12g %.12g\n\", m, sqrt(ss / (k - 2) / k * (1 + r) / (1 - r)) }" | sum "$1"
}
set -- $(average a 73 90) $(average b 73 90)
after=training_at_items
near "training: from" "$(first from)" 7200
near "training: baseline" "$(first baseline)" "$1"
near "training: value" "$(first value)" "$3"
near "training: error" "$(first error)" "$(awk -v a="$2" -v b="$4" 'BEGIN { printf "%.12g", sqrt(a * a + b * b) }')" 1e-3
after=
near "speed" "$(first speed)" "$(for run in a b; do
    printf "%s\n" 'END { for (s in rates) print rates[s] }' | sum $run | sort -g |
        awk '{ v[NR] = $1 } END { print (v[int((NR + 1) / 2)] + v[int((NR + 2) / 2)]) / 2 }'
done | awk '{ v[NR] = $1 } END { print v[2] / v[1] }')"
near "memory" "$(first memory)" 2
# b's lowest loss, 2.069 after step 90, is below a's, 2.0909 after step 100: b reaches a's between steps 60 and 75.
near "the loss that both reach" "$(first common_loss)" "$(awk 'BEGIN { print 2 + 10 / 110 }')"
near "items to it" "$(first items_to_loss)" "$(awk 'BEGIN { l = 2 + 10 / 110; p = 1.969 + 10 / 70; q = 1.969 + 10 / 85
    print 6000 + 1500 * (p - l) / (p - q) }')" 1e-4
near "items to it, of the baseline" "$(first baseline_items_to_loss)" 10000
near "seconds to it, of the baseline" "$(first baseline_seconds_to_loss)" "$end_a"

# Verdicts.
learn c 100 2.004 10 1 20 0.006 1e8
info c 0.001 ', "x": 0.001'
exits 0 "compare" report --compare a c
says '^no settings differ$'
says '^  validation loss at equal tokens: no significant difference: +0.0040 +- 0.0099 '
exits 0 "compare" report --compare b a c
says '^a against b$'
says '^c against b$'
says '^  validation loss at equal tokens: b is better by '
info c 0.001 '' 2000
exits 0 "compare" report --compare a c
says 'validation loss at equal tokens: the difference is +0.0040 +- 0.0099, which is not conclusive'
says '^  note: the validation data differs: validation losses cannot be compared$'
info c 0.001 '' 1000 bert
exits 0 "compare" report --compare a c
says '^  note: the tasks differ: losses cannot be compared$'
info c 0.001 ', "val-data": ["other"]'
exits 0 "compare" report --compare a c
says '^  note: the validation samples may differ'
sed 's/"val_loss_error": [0-9.]*, //' b/metrics.jsonl >lines
mkdir noerror && mv lines noerror/metrics.jsonl
exits 0 "compare" report --compare a noerror
says 'validation loss at equal tokens: the difference is -0.0320, which is not conclusive: its error is unknown'
says '^settings: fewer than two runs have a run.json$'
says '^  note: the records do not show whether the validation data is the same$'
sed 's/tokens/samples/g' b/metrics.jsonl >lines
mkdir samples && mv lines samples/metrics.jsonl
exits 0 "compare" report --compare a samples
says '^  note: one counts tokens, the other samples: they cannot be compared at equal amounts$'
says '^  validation loss at equal time: the difference is '
check "nothing at equal items" test "$(grep -c 'equal tokens' out)" -eq 0
awk '!/"step_time_s"/ || ++n > 50' a/metrics.jsonl >lines
mkdir -p one/late && cp lines one/late/metrics.jsonl && mkdir -p two/late && cp lines two/late/metrics.jsonl
exits 0 "compare" report --compare one/late two/late
says '^  note: one/late: records start after step 50; its tokens and time count from there$'
says '^two/late against one/late$'
says ', 5000 tokens in '
exits 0 "compare" report --compare a off
says '^  note: off: no steps are recorded'
says '^  training loss at equal time: unknown: the runs have no common range$'

refuses 1 "requires the directories of at least two runs (got 1)" report --compare a
refuses 1 "'missing' is not a directory" report --compare a missing
refuses 1 "no run in 'temporary'" report --compare a temporary
refuses 1 "is not a directory" report missing --trend

# Damaged files are shown as far as they can be read.
mkdir damaged
printf '{"run": {"model": 3, "machine": [], "data": {"validation_tokens": "x"}, "plan": {"batch_size": -1}}, "configuration": [1]}' >damaged/run.json
awk '{ print } NR % 7 == 0 { print "{\"step\": " NR ", \"tokens\": -5, \"step_time_s\": -1, \"val_loss\": \"x\"" }
    NR == 30 { print "{\"step\": 30, \"step_time_s\": 1e300, \"tokens\": 1e38, \"tokens_per_s\": null, \"forward_s\": 1e38, \"perf/steps\": 1e38}"
        print "{\"step\": 30, \"val_loss\": -1e308, \"val_loss_error\": -1}"; print "{\"step\": 30, \"event\": 7, \"message\": []}"
        print "{\"step\": 9223372036854775807, \"val_loss\": 1e999}"; print "\377\000" }
    END { printf "{\"step\": 101, \"loss\": 2" }' a/metrics.jsonl >damaged/metrics.jsonl
mkdir far && cp a/metrics.jsonl far && for step in 9000000000000000000 9223372036854775807; do
    echo "{\"step\": $step, \"tokens\": 1, \"step_time_s\": 1, \"loss\": 1, \"forward_s\": 1}" >>far/metrics.jsonl
done
mkdir cut && head -c 3000 a/metrics.jsonl >cut/metrics.jsonl && head -c 100 a/run.json >cut/run.json
for analysis in --trend --bottleneck "--compare a" "--compare damaged"; do
    for run in damaged far cut; do
        exits 0 "$analysis of damaged files" report $run $analysis
        exits 0 "$analysis of damaged files as JSON" report $run $analysis --json
    done
done
exits 0 "compare" report --compare a cut
says '^  missing: .*run.json'

# Two runs with different learning rates.
for lr in 3e-3 3e-4; do
    exits 0 "train" $train --steps 30 --eval-steps 10 --save-steps 0 --lr $lr --output-dir lr$lr
done
exits 0 "compare" report --compare lr3e-3 lr3e-4
check "one setting differs" test "$(sed -n '/^settings/,/^lr3e-4 against/p' out | tr -s ' ' | tr '\n' ';')" = \
    "settings that differ, baseline first; lr 0.003 0.0003;lr3e-4 against lr3e-3;"
says '^  validation loss at equal tokens: lr3e-3 is better by '
says 'is an upper bound$'
check "the same amount" test "$(grep -c 'finished, step 30/30, ' out)" -eq 2
exits 0 "trend" report lr3e-3 --trend
exits 0 "bottleneck" report lr3e-3 --bottleneck
says 'times from performance records$'
says '^limit: '

finish
