# One aligned step of a small model under compute-sanitizer. With eitp's own products every kernel is eitp's.
. "$parts/common.sh"
. "$parts/runs.sh"

if [ -n "$emulated" ]; then
    skip compute-sanitizer "the emulated device checks every access itself"
    exit 0
fi
if ! sanitizer=$(find_sanitizer); then
    skip compute-sanitizer "it is neither on the PATH nor in CUDA_HOME"
    exit 0
fi
export EITP_CUDA_PRODUCTS=own EITP_CUDA_GRAPH=0

# Starts a tool on the step.
start() { # tool, precision
    "$sanitizer" --tool "$1" --error-exitcode 9 --print-limit 20 "$eitp" $(small_run gpt2 "$2" 1) --dropout 0.1 \
        --device "$device" --output-dir "run-$1-$2" >"$1-$2.out" 2>&1
    echo $? >"$1-$2.code"
}

tools=
for tool in racecheck memcheck synccheck; do
    for type in bf16 fp32; do
        start $tool $type &
        tools="$tools $tool-$type"
    done
done
report_ended $tools
