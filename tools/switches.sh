#!/bin/sh
# Measures the savings of eitp.h's switches and updates the table in docs/embedding.md. Compiles each case in parts, and
# parts that are the same in several cases only once. Seconds are processor time (user and system); bytes are code and
# data.
LC_ALL=C
export LC_ALL
BUILD=${BUILD:-build} CC=${CC:-cc}
work=$BUILD/switches
document=docs/embedding.md
rm -rf "$work"
mkdir -p "$work"
cp eitp.h "$work"
parts=$(sed -n 's/^part \([0-9]*\):.*/\1/p' src/manifest | sort -u)
printf '#define EITP_IMPLEMENTATION\n#include "eitp.h"\n' >"$work/eitp.c"

# Prints the processor seconds of finished child processes, from the output of `times`.
used_in() {
    awk 'NR == 2 { gsub(/[ms]/, " "); print 60 * ($1 + $3) + $2 + $4 }' "$1"
}

# Compiles a part, unless another case had the same part, and adds its seconds and bytes to the case.
measure_part() { # part, options...
    part=$1
    shift
    "$CC" -I"$work" "-DEITP_PART=$part" "$@" -E -P "$work/eitp.c" >"$work/part.i" || exit 1
    name=$work/$(cksum <"$work/part.i" | tr ' ' -)
    if [ ! -e "$name" ]; then
        times >"$work/before"
        "$CC" -O2 -I"$work" "-DEITP_PART=$part" "$@" -c "$work/eitp.c" -o "$work/part.o" || exit 1
        times >"$work/after"
        size "$work/part.o" | awk -v seconds="$(echo "$(used_in "$work/after") $(used_in "$work/before")" |
            awk '{ print $1 - $2 }')" 'NR == 2 { print seconds, $1 + $2 }' >"$name"
    fi
    cat "$name" >>"$work/case"
}

measure() { # case, switches without EITP_WITHOUT_...
    case=$1
    shift
    options=$(for switch in "$@"; do printf ' -DEITP_WITHOUT_%s=1' "$switch"; done)
    : >"$work/case"
    for part in $parts; do
        measure_part "$part" $options
    done
    awk -v name="$case" '{ seconds += $1; bytes += $2 } END { print name, seconds, bytes }' "$work/case" >>"$work/cases"
    tail -n 1 "$work/cases" >&2
}

measure everything
for switch in $(sed -n 's/^EITP_WITHOUT_\([A-Z_]*\) .*/\1/p' src/manifest | sort -u) CUDA AVX2 AVX512; do
    measure "$switch" "$switch"
done
measure core TEXT MODEL_FILES CUDA AVX512
measure kernels TEXT MODEL_FILES CUDA AVX512 AVX2

awk '
    NR == 1 { seconds = $2; bytes = $3 }
    { names[NR] = $1; left[NR] = $2; size[NR] = $3 }
    function row(name, i) {
        printf "| %s | %.1f | %.0f %% | %.0f | %.0f %% |\n", name, left[i], 100 * left[i] / seconds,
            size[i] / 1000, 100 * size[i] / bytes
    }
    END {
        print "| left out | seconds | | kB | |"
        print "|---|---|---|---|---|"
        row("nothing", 1)
        for (i = 2; i <= NR; i++)
            if (names[i] == "core")
                row("`TEXT`, `MODEL_FILES`, `CUDA` and `AVX512`: GPT-2 with a loop of your own", i)
            else if (names[i] == "kernels")
                row("the same and `AVX2`", i)
            else
                row("`" names[i] "`", i)
    }' "$work/cases" >"$work/table"
awk -v table="$work/table" '
    /^<!-- end -->$/ { skips = 0 }
    !skips { print }
    /^<!-- made by make switches -->$/ {
        skips = 1
        print ""
        while ((getline line <table) > 0)
            print line
        print ""
    }' "$document" >"$work/document" && mv "$work/document" "$document"
