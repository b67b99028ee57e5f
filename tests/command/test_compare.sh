#!/bin/sh
# The command: the analyses of eitp report. Records are made up where figures are compared with those of awk.
. tests/command/command.sh

# number NAME FILE: the first number, or null, of this name in JSON.
number() {
    sed -n "s/.*\"$1\": \([^,}]*\)[,}].*/\1/p" "$2" | head -n 1
}
# first NAME: the same after the last member that is named in $after, in the file out.
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
# near NAME FOUND EXPECTED [PART]: equal up to a part of 1e-5, as recorded points are in single precision.
near() {
    check "$1: $2, expected $3" awk -v a="$2" -v b="$3" -v part="${4:-1e-5}" 'BEGIN {
        exit !(a != "" && a != "null" && (a - b) ^ 2 <= (part * b) ^ 2 + 1e-18) }'
}
says() {
    check "\"$1\"" grep -q -e "$1" out
    grep -q -e "$1" out || sed 's/^/    /' out
}
# steps DIR PROGRAM: records of steps, which awk prints. step(s, seconds) prints one of 100 tokens.
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
    function noise() { return rand() - 0.5 }
    BEGIN { srand(7);'"$2"'}' >"$1/metrics.jsonl"
}

# ---- trend ----

# 45 steps in 6.4 minutes and 59 in 8.3: elapsed time, which grows with every step. No step became slower.
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

# A drift: the median slope of all pairs, and its part of the median, by awk.
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

# Jumps, up and back, with what happened near them.
steps jump 'for (s = 1; s <= 200; s++) {
    if (s == 120) event(s, "temperature", "the processor has 97 C \\u001b[2J")
    if (s == 121) event(s, "saved", "saved a checkpoint")
    step(s, (s > 120 ? 1.3 : 1) + 0.02 * noise()) }'
exits 0 "trend" report jump --trend
says '^jump, step time: steps take \(29\|30\|31\).[0-9] % longer from step 121 on: a jump, not a drift$'
says '^  jump at step 121: +.*, p < 0.001; near it, at step 120: temperature, the processor has 97 C ?\[2J$'
steps back 'for (s = 1; s <= 300; s++) step(s, (s > 100 && s <= 180 ? 1.5 : 1) + 0.02 * noise())'
exits 0 "trend" report back --trend
says '^back, step time: no lasting slowdown: step times have changed and changed back, in 2 jumps from step 101 on'
says '^  jump at step 181: -'

steps few 'for (s = 1; s <= 9; s++) step(s, s)'
exits 0 "trend" report few --trend
says '^few, step time: too few steps to tell: 9 records of step_time_s, and at least 10 are needed$'

# ---- bottleneck ----

# times STEP DATA FORWARD BACKWARD UPDATE TRANSFER OTHER: a record with its parts, in awk.
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
says '^no TFLOP/s and no MFU are recorded'
limited transfer '0, 0.3, 0.3, 0.1, 0.3, 0'
exits 0 "bottleneck" report transfer --bottleneck
says '^limit: transfer, 30.0 % of the steps (above 20 %); .*--offload'
limited update '0, 0.2, 0.3, 0.26, 0.24, 0'
exits 0 "bottleneck" report update --bottleneck
says '^limit: update, 26.0 % of the steps (above 25 %); .*--batch-size'
says '^also: transfer, 24.0 % of the steps'
limited other '0, 0.2, 0.3, 0.2, 0, 0.3'
exits 0 "bottleneck" report other --bottleneck
says '^limit: other, 30.0 % of the steps (above 20 %)'

# Records of performance, which have all steps and more: parts, rates weighted by time, evaluations and saves.
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
says '^also: small passes, MFU 12.5 % (below 40 %); products of 256 rows'
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
# A run that was killed: its steps go on after the last record of performance.
awk '/perf/ && !/"step": 10,/ { next } { print }' slow/metrics.jsonl >lines && mv lines slow/metrics.jsonl
exits 0 "bottleneck" report slow --bottleneck
says '^slow: 20 steps, 20 s of steps, 22.5 s of training; times of the steps. own records$'
says '^limit: data, 50.0 % of the steps'
says '^  evaluation .* 2.000 s '
mkdir off && echo '{"step": 3, "event": "started", "level": "info", "message": ""}' >off/metrics.jsonl
exits 0 "bottleneck" report off --bottleneck
says '^limit: unknown; no times of steps are recorded; train with --monitor light'

finish
