#!/bin/sh
# Compares measured times of kernels with the expected ones: compare.sh PROGRAM. The log has three steps with the times in
# docs/cuda-times.md, doubled.
program=$1
log=$(mktemp) && table=$(mktemp) && trap 'rm -f "$log" "$table"' EXIT
failed=0

fail() {
    echo "FAILED $*"
    failed=1
}

# The rows of a step of 16 x 1024 tokens, as a run logs them. One is divided by dtype, one is missing, one is not expected.
awk -F ' *[|] *' '
    /^## / { is_step = $0 ~ /^## 16 x / }
    !is_step || $2 !~ /^`/ || $2 == "`add`" { next }
    { split($7, time, " "); launches = 3 * $4; ms = 6 * time[1] }
    $2 == "`update_adamw`" { printf "| %s | f32 | 1 | 3 | 1.50 | 0 | 0.0 | 0 |\n", $2; launches -= 3; ms -= 1.5 }
    { printf "| %s | bf16 | %d | %d | %.2f | 1.0 | 0.0 | 0 |\n", $2, 3 * $3, launches, ms }' docs/cuda-times.md >"$log"
rows=$(cut -d'|' -f2 "$log" | sort -u | wc -l)
[ "$rows" -gt 12 ] || fail "$rows rows in docs/cuda-times.md"
echo '| transfers | u8 | 4 | 0 | 9.00 | 1.0 | 0.0 | 0 |
| all |  | 1 | 1 | 1000.00 | 100.0 | 0.0 | 0 |' >>"$log"

"$program" compare "$log" H100 16 >"$table" || fail "the comparison ends with $?"
grep -q ' a step, the mean of 3, and the expected one on H100 SXM$' "$table" || fail "the number of steps"
awk -F ' *[|] *' -v rows="$rows" '
    function is_near(a, b) { return a - b < 0.011 && b - a < 0.011 }
    FILENAME == ARGV[1] {
        if (/^## /)
            is_step = $0 ~ /^## 16 x /
        if (is_step && ($2 ~ /^`/ || $2 == "all")) { launches[$2] = $4; split($7, time, " "); ms[$2] = time[1]; expected[$2] = $7 }
        next
    }
    $2 == "all" { sum = $5; if ($6 != expected["all"]) bad("the sum of a step") ; next }
    $2 == "transfers" { if ($4 != "3.00" || $5 != "" || $7 != "") bad("a row that is not expected"); next }
    $2 == "`add`" { missing = $3 == "" && $5 == launches[$2] && $6 == expected[$2]; next }
    $2 !~ /^`/ || !($2 in ms) { next }
    {
        seen++
        if ($3 != launches[$2] || $5 != launches[$2] || $6 != expected[$2] || !is_near($4, 2 * ms[$2]) || $7 < 1.8 || $7 > 2.2)
            bad($0)
        if ($4 > before && seen > 1)
            bad("order: " $0)
        before = $4
    }
    function bad(what) { print "    " what; failures++ }
    END {
        if (seen != rows || !missing || sum != launches["all"])
            bad(seen " of " rows " rows")
        exit failures
    }' docs/cuda-times.md "$table" || fail "the table"

# refuses WORDS ARGUMENTS...
refuses() {
    words=$1
    shift
    "$program" compare "$@" >"$table" 2>&1 && fail "$*: not refused"
    grep -q "^cuda_kernels: $words" "$table" || fail "$*: $(cat "$table")"
}
refuses "unknown device 'V100' (choose from H100 SXM, H200, A100 SXM, RTX 4090)" "$log" V100 16
refuses "samples must be from 1 to 64" "$log" H100 0
refuses '`.*: [0-9]* launches, which is not a multiple of the [0-9]* in a step of 64 samples$' "$log" H100 64
refuses "cannot read $log.missing" "$log.missing" H100 16
: >"$log"
refuses "$log has no times of kernels: run with EITP_CUDA_PROFILE=1" "$log" H100 16
exit $failed
