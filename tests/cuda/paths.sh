#!/bin/sh
# Checks that the tests' quick cases take every path that training steps and generation with real models take in the CUDA
# backend (tests/support/cuda_paths.h). Executes no kernel.
#   paths.sh BUILD FOLDER FORM...    programs are in BUILD/FOLDER; forms of test_matmul: see tools/test.sh
LC_ALL=C
export LC_ALL
build=$1 programs=$1/$2
shift 2
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM HUP

# Adds the paths of a program's calls. Their results are not computed, so its tests fail.
take() { # program, arguments
    EITP_TEST_QUICK=1 EITP_TEST_CUDA_PATHS=$work/tested sh tests/cuda/on_emulated.sh "$build" "$programs/tests/$@" \
        >"$work/log" 2>&1
    grep -q '^[0-9]* passed, [0-9]* failed$' "$work/log" || {
        echo "test programs do not end: $*"
        tail -n 3 "$work/log"
        echo "0 passed, 1 failed"
        exit 1
    }
}

# Programs and arguments of on_cuda in tools/test.sh. The update by factors is not in these plans.
for test in kernels attention update matmul; do
    take kernels/test_$test
done
take backends/test_cuda missing_rows
take backends/test_cuda_groups
take backends/test_cuda_head
for form in "$@"; do
    capability=${form#*:}
    EITP_CUDA_PRODUCTS=${form%%:*} EITP_EMULATED_CUDA_CAPABILITY=${capability%:*} take kernels/test_matmul "${form##*:}"
done
sort -u "$work/tested" >"$work/known"

# A processor with much shared memory, one whose cuBLASLt ends products with GELU, one with little.
for arch in 80 90 120; do
    "$programs/cuda_kernels" paths $arch >"$work/$arch" || exit 1
done
awk -F '\t' -v known="$work/known" '
    BEGIN { while ((getline line <known) > 0) is_known[line] = 1 }
    { arch = FILENAME; sub(/.*\//, "", arch); calls[$1] += $2; at[$1] = at[$1] " sm_" arch; example[$1] = $3 }
    END {
        for (path in calls) {
            if (path in is_known)
                passed++
            else {
                failed++
                line = sprintf("no quick case takes \"%s\": %d calls on%s, such as %s", path, calls[path], at[path], example[path])
                print line | "sort"
            }
        }
        close("sort")
        printf "%d passed, %d failed\n", passed, failed
        exit failed > 0 || !passed
    }' "$work/80" "$work/90" "$work/120"
