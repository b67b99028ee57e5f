#!/bin/sh
# Checks eitp on the GPU of this machine in less than ten minutes, with the folder that `make gpu-check-build` wrote on
# any machine. Needs no compiler and no network. Run it from the root of the tree: see docs/testing.md.
#   gpu_check.sh [FOLDER]       the folder; $BUILD/gpu_check, or $BUILD/gpu_check_emulated for the emulated device
#   GPU_CHECK="kernels speed"   only these parts
#   DEVICE=cuda:1               another GPU
#   EMULATED_GPU=1              the emulated device of the tests, with small sizes
#   OUT=FOLDER                  the folder of the report; $BUILD/gpu_report
#   GPU_CHECK_PARTS=FOLDER      other parts than those in tools/gpu_check/
# Each part of parts.txt is a script with a time limit. The report, report.txt, is written while they run, so that nothing
# is lost at a limit; details.txt has the complete output of all programs. The last line has the numbers of passed and failed
# checks, the lines before it the skipped ones.
LC_ALL=C
export LC_ALL
BUILD=${BUILD:-build}
case $BUILD in /*) ;; *) BUILD=$PWD/$BUILD ;; esac
root=$PWD
parts=${GPU_CHECK_PARTS:-tools/gpu_check}
case $parts in /*) ;; *) parts=$root/$parts ;; esac
emulated=${EMULATED_GPU:-}
folder=$BUILD/gpu_check
[ -z "$emulated" ] || folder=${folder}_emulated
files=${1:-$folder}
case $files in /*) ;; *) files=$root/$files ;; esac
out=${OUT:-$BUILD/gpu_report}
case $out in /*) ;; *) out=$root/$out ;; esac
work=$BUILD/gpu_work
device=${DEVICE:-cuda}
report=$out/report.txt details=$out/details.txt
began=$(date +%s)
export BUILD root parts emulated files work device report details

stop() {
    echo "gpu_check.sh: $*" >&2
    exit 1
}

say() {
    echo "$*" | tee -a "$report"
}

fail() {
    say "FAILED $*"
}

# Prints "name seconds" of the parts, or of the one with this name.
table() {
    awk -v emulated="$emulated" -v name="$1" \
        '!/^#/ && NF && (name == "" || $1 == name) { print $1, emulated == "" ? $2 : $3 }' "$parts/parts.txt"
}

# Ends a part and everything that it started, if it still runs.
end_part() {
    [ -z "$child" ] || kill -s KILL -- "-$child" 2>/dev/null
    child=
}

# Runs a part. timeout gives it a process group. A failed check at its end is not a failure of the part.
run_part() { # name, seconds
    say ""
    say "== $1"
    since=$(date +%s)
    timeout -k 2 "$2" sh -c '. "$0"; exit 0' "$parts/$1.sh" 3>&1 >>"$details" 2>&1 </dev/null &
    child=$!
    wait $child 2>/dev/null
    code=$?
    end_part
    case $code in
    0) ;;
    124 | 137) fail "$1: stopped at its limit of $2 s" ;;
    *) fail "$1: ended with exit code $code" ;;
    esac
    say "       $(($(date +%s) - since)) s of $2 s"
}

finish() {
    trap - INT TERM HUP
    passed=$(grep -c '^ok ' "$report") failed=$(grep -c '^FAILED ' "$report") skipped=$(grep -c '^SKIPPED ' "$report")
    say ""
    say "$(($(date +%s) - began)) s; report: $report"
    [ "$skipped" -eq 0 ] || say "$skipped skipped:"
    grep '^SKIPPED ' "$report" | sed 's/^SKIPPED/      /' >"$work/skipped"
    tee -a "$report" <"$work/skipped"
    say "$passed passed, $failed failed"
    exit $((failed > 0))
}

cut_off() {
    trap '' INT TERM HUP
    end_part
    fail "stopped by a signal"
    finish
}

command -v timeout >/dev/null 2>&1 || stop "needs timeout, of coreutils"
[ -f "$files/built.txt" ] || stop "no $files/built.txt: run make gpu-check-build first, and carry the folder here"
[ -f "$parts/parts.txt" ] || stop "no $parts/parts.txt"
for name in $GPU_CHECK; do
    [ -n "$(table "$name")" ] || stop "unknown part '$name' in GPU_CHECK (choose from $(table | sed 's/ .*//' | tr '\n' ' ' | sed 's/ $//'))"
done
rm -rf "$work"
mkdir -p "$out" "$work" || exit 1
ln -s "$files" "$work/files"
: >"$report"
: >"$details"
trap cut_off INT TERM HUP
[ ! -f "$parts/environment.sh" ] || . "$parts/environment.sh"
say "eitp on a GPU, $(date -u '+%Y-%m-%d %H:%M'), $(uname -sr)"
sed 's/^/       /' "$files/built.txt" | tee -a "$report"
for name in ${GPU_CHECK:-$(table | sed 's/ .*//')}; do
    run_part $(table "$name")
done
finish
