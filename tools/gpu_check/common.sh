# Functions of the parts, which source it first. They work in $work, where `files` links to the folder of
# make gpu-check-build. Lines for the report go through these functions; other output goes to details.txt.
cd "$work" || exit 1

say() {
    echo "$*" >>"$report"
    echo "$*" >&3
}

pass() {
    say "ok     $*"
}

fail() {
    say "FAILED $*"
}

skip() { # what, reason
    say "SKIPPED $1: $2"
}

# Adds a file to the report.
show() {
    sed 's/^/       /' "$1" | tee -a "$report" >&3
}

# check NAME COMMAND...: the command must succeed. The end of its output is shown if it fails.
check() {
    what=$1
    shift
    "$@" >output 2>&1
    report_check "$what" $? output
}

# report_check NAME CODE FILE: reports a command that has ended with this exit code and output.
report_check() {
    { echo "---- $1"; cat "$3"; } >>"$details"
    if [ "$2" -eq 0 ]; then
        pass "$1"
        return 0
    fi
    case $2 in 124 | 137) fail "$1: timed out" ;; *) fail "$1 (exit code $2)" ;; esac
    tail -n 20 "$3" >shown
    show shown
    return 1
}

# Reports commands in the background with their last lines, each when it ends, so that the limit of a part does not hide
# those that are done. NAME.out has the output of a command, NAME.code then its exit code.
report_ended() { # names
    left=$*
    while [ -n "$left" ]; do
        running=
        for name in $left; do
            if [ -s "$name.code" ]; then
                report_check "$name: $(tail -n 1 "$name.out")" "$(cat "$name.code")" "$name.out"
            else
                running="$running $name"
            fi
        done
        left=$running
        [ -z "$left" ] || sleep 0.2
    done
}

# limited SECONDS COMMAND...: ends a command that takes longer. It stays in the process group of its part.
limited() {
    timeout --foreground -k 2 "$@"
}

# Prints "step loss grad_norm" of a run's records.
numbers() {
    sed -n 's/^{"step": \([0-9]*\), "loss": \([^,]*\),.* "grad_norm": \([^,}]*\).*/\1 \2 \3/p' "$1/metrics.jsonl"
}

# agree EXPECTED RUN STEPS MOST: the losses of a run, and the norms of its first two gradients, have at most this relative
# error. Later, single norms are sensitive to roundings (tests/cuda/aligned.sh). Prints the largest.
agree() {
    numbers "$2" | head -n "$3" >found
    head -n "$3" "$1" | paste - found | awk -v steps="$3" -v most="$4" '
        function differ(a, b) { return a == b ? 0 : (a > b ? a - b : b - a) / (a < 0 ? -a : a) }
        {
            loss = differ($2, $5) > loss ? differ($2, $5) : loss
            later = NR > 2
            norm = !later && differ($3, $6) > norm ? differ($3, $6) : norm
            if ($1 != $4 || $5 !~ /^[0-9]/ || $6 !~ /^[0-9]/ || !(differ($2, $5) <= most) ||
                !(later || differ($3, $6) <= most)) {
                print "step " $1 ": loss " $2 ", found " $5 "; norm " $3 ", found " $6
                bad = 1
            }
        }
        END {
            printf "%d steps: largest relative difference of the losses %.1e, of two norms %.1e (at most %s)\n", NR, loss, norm, most
            exit bad || NR != steps
        }'
}

# agrees NAME EXPECTED RUN STEPS MOST: checks it and shows the differences.
agrees() {
    name=$1
    shift
    agree "$@" >agreement 2>&1
    code=$?
    report_check "$name" $code agreement
    [ $code -ne 0 ] || show agreement
}

# Prints the path of compute-sanitizer.
find_sanitizer() {
    command -v compute-sanitizer || ls "${CUDA_HOME:-/usr/local/cuda}/bin/compute-sanitizer" 2>/dev/null
}
