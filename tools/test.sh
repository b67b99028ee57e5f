#!/bin/sh
# Builds the tests, runs them in parallel, and ends with "N passed, N failed". The Makefile runs it from the root:
#   test.sh test      every test
#   test.sh quick     the tests affected by changes since they last passed, with separately compiled modules and fewer
#                     cases: as many as fit in QUICK_SECONDS (90) with the build, the shortest first
#   test.sh nightly   the tests that take hours
#   test.sh torture   every fault, power loss and kill that can hit a run or a command
# TEST=word           only tests with the word in their names
# CHECK=1             also `make check`
# FRESH=1             with test and quick: also runs tests that passed and are unchanged
# REMEMBER=0          the same, and does not record which tests pass
# JOBS                number of programs that run at a time
# PART=k/n            with nightly: share k of n, about equally long; all shares together are the whole
# STRIDE, KILLS, SEEDS      with torture: number of calls between injected faults, power losses or kills (1: all calls),
#                           random kills (1000), random states of a disk for each power loss (8)
# FUZZ_RUNS, FUZZ_SECONDS   maximum for each fuzz target
# LIMIT               maximum processor seconds of each process of a program: 600, or 7200 for nightly and torture
# WALL_LIMIT          maximum seconds of each program: five times LIMIT, for programs that wait forever
# $BUILD/logs/times has the seconds, the name and the processor seconds of each program. The next run starts with the
# longest.
LC_ALL=C
export LC_ALL
mode=${1:-test}
MAKE=${MAKE:-make} BUILD=${BUILD:-build} CC=${CC:-cc} CLANG=${CLANG:-clang} TEST=${TEST:-}
JOBS=${JOBS:-$(nproc 2>/dev/null || echo 1)}
WERROR=${WERROR--Werror}
export MAKE BUILD CC CLANG WERROR
logs=$BUILD/logs
# Other load on the machine lengthens a program's run, but not its processor time.
case $mode in nightly | torture) : "${LIMIT:=7200}" ;; *) : "${LIMIT:=600}" ;; esac
: "${WALL_LIMIT:=$((5 * LIMIT))}"
mkdir -p "$logs"
case $mode in quick | test) remembers=${REMEMBER:-1} ;; *) remembers=0 ;; esac
. tools/remember.sh

# Prints the time in seconds, with a fraction if `date` supports it.
now() {
    date +%s.%N | sed 's/\.*N$//'
}

since() {
    echo "$1 $(now)" | awk '{ printf "%.1f", $2 - $1 }'
}

# Prints the processor seconds of finished child processes, from the output of `times`. In a subshell, `times` shows 0.
used_in() {
    awk 'NR == 2 { gsub(/[ms]/, " "); printf "%.2f", 60 * ($1 + $3) + $2 + $4 }' "$1"
}

# Prints the name of a test as a file name.
file_of() {
    echo "$1" | tr / _
}

# ---- The list of tests ----
#
# One line per test: its name, the files that it depends on, and its command. The files are programs to build, sources,
# and FOLDER/... for everything below a folder, separated by commas, or - if unknown. A command ends with its result, "N
# passed, N failed", except after "succeeds".

# Files read by the programs.
values=tests/golden/...,tests/fuzz/corpus/...,docs/config-keys.md

programs() { # kind, real or emulated kernel sets, prefix of the command, suffix of the name
    for source in tests/*/test_*.c; do
        case $source in tests/cuda/*) continue ;; esac # do not use eitp; on_cuda lists them
        test=$(basename "$source" .c)
        program=$BUILD/$1/${source%.c}
        case $test in *_emulated) sets=emulated ;; test_device*) sets=device ;; test_cuda_*) sets=cuda ;; *) sets=real ;; esac
        [ $sets = "$2" ] && echo "$1/$test$4 $program,$values $3$program"
    done
}

# Selects the programs with eitp.h that make test runs in addition to the sanitized ones: those whose results depend on
# optimization, those whose memory, stacks or processes the sanitizers change, and the sweeps over faults. Tests in
# train/ that do not train give the same results with the sanitizers.
not_repeated() {
    grep -e '/tests/\(kernels\|model\|objective\|template\|tensor\|train\)/' \
        -e '/test_\(directory_power_loss\|faults\|kills_in_calls\|power_loss\) ' |
        grep -v '^packed/test_\(budget_sweep\|data_position\|fit_sweep\|planner\|settings\) '
}

# Tests on the test device (tests/support/device.c).
on_device() { # prefix of the command, names of tests, or name:function for a single function
    prefix=$1
    shift
    for name in "$@"; do
        test=${name%%:*}
        program=$(echo tests/*/test_$test.c)
        program=$BUILD/sanitized/${program%.c}
        echo "device/test_$test $program,$values env EITP_BACKEND=test $prefix$program$(echo "${name#"$test"}" | tr : ' ')"
    done
}

# Further forms in which test_matmul runs on the emulated device: EITP_CUDA_PRODUCTS, a compute capability, and the
# functions whose names contain a word.
product_forms='cublaslt:8.6:test_epilogues cublaslt:8.6:test_head own:8.6:test_head own:8.6:test_products_of_models
    cublaslt:9.0:test_fused_gelu'

libraries=$BUILD/emulated_cuda/libcuda.so.1,$BUILD/emulated_cuda/libnvrtc.so.13,$BUILD/emulated_cuda/libcublasLt.so.13
libraries=$libraries,$BUILD/emulated_cuda/libnvidia-ml.so.1

# Tests on the emulated CUDA device (tests/cuda/).
on_cuda() { # kind of programs, env and settings, names of tests
    kind=$1 prefix=$2
    shift 2
    for test in "$@"; do
        program=$(echo tests/*/test_$test.c)
        program=$BUILD/$kind/${program%.c}
        echo "cuda/test_$test $program,$libraries,tests/cuda/...,$values $prefix sh tests/cuda/on_emulated.sh $BUILD $program"
    done
    program=$BUILD/$kind/tests/kernels/test_matmul
    for form in $product_forms; do
        echo "cuda/test_matmul@$form $program,$libraries,tests/cuda/...,$values $prefix EITP_CUDA_PRODUCTS=${form%%:*}" \
            "EITP_EMULATED_CUDA_CAPABILITY=$(echo "$form" | cut -d: -f2) sh tests/cuda/on_emulated.sh $BUILD $program ${form##*:}"
    done
    for script in tests/cuda/train.sh tests/cuda/aligned.sh tests/cuda/memory.sh tests/cuda/lost_context.sh tests/cuda/gpu.sh tests/cuda/start.sh tests/cuda/profile.sh; do
        echo "cuda/$(basename "$script" .sh) $BUILD/eitp,$libraries,tests/cuda/...,$(files_of "$script") $prefix EITP=$BUILD/eitp sh $script"
    done
    program=$BUILD/$kind/cuda_kernels script=tests/cuda/prepared.sh
    echo "cuda/prepared $BUILD/eitp,$program,$libraries,tests/cuda/...,$(files_of $script) $prefix EITP=$BUILD/eitp CUDA_KERNELS=$program sh $script"
    for source in tests/cuda/test_*.c; do
        program=$BUILD/${source%.c}
        echo "cuda/$(basename "$program") $program,$libraries,tests/cuda/... sh tests/cuda/on_emulated.sh $BUILD $program"
    done
}

# The paths of real plans, and of the quick cases of such tests. Executes no kernel.
cuda_paths() { # folder of programs
    programs=$BUILD/$1/cuda_kernels
    for test in test_cuda test_cuda_groups test_cuda_head; do
        programs=$programs,$BUILD/$1/tests/backends/$test
    done
    for test in kernels attention update matmul; do
        programs=$programs,$BUILD/$1/tests/kernels/test_$test
    done
    echo "cuda/paths $programs,$libraries,tests/cuda/... sh tests/cuda/paths.sh $BUILD $1" $product_forms
}

# Prints the names of the tests of the CUDA backend.
cuda_tests() {
    for source in tests/backends/test_cuda*.c; do
        basename "$source" .c | sed 's/^test_//'
    done
}

# The CUDA kernels with NVIDIA's compilers, their expected times, and a comparison with these. Needs no GPU.
with_compilers() { # compiler, architecture
    program=$BUILD/packed/cuda_kernels
    echo "cuda/compilers@$1-sm_$2 $program env JOBS=1 sh tests/cuda/compilers.sh $program $2 $1"
}

cuda_times() { # folder of programs
    echo "cuda/times $BUILD/$1/cuda_kernels,docs/cuda-times.md succeeds sh tests/cuda/times.sh $BUILD/$1/cuda_kernels"
    echo "cuda/compare $BUILD/$1/cuda_kernels,docs/cuda-times.md succeeds sh tests/cuda/compare.sh $BUILD/$1/cuda_kernels"
}

# Prints a script of the command, and the files in tests/ that it names.
files_of() {
    echo "$1" tests/command/command.sh $(sed -n 's/.*\(tests\/[a-z_/]*\.[chs]*\).*/\1/p' "$1" | sort -u) | tr ' ' ,
}

# Prints the programs of examples that a script names. They are in the command's directory.
examples_of() { # script, the command eitp
    sed -n 's/.*\(examples\/[a-z_]*\)\.c.*/\1/p' "$1" | sort -u | while read -r example; do
        printf ',%s' "$(dirname "$2")/$example"
    done
}

scripts() { # the command eitp, prefix of the command of a test, suffix of its name
    for script in tests/command/test_*.sh; do
        echo "command/$(basename "$script" .sh)$3 $1,$(files_of "$script")$(examples_of "$script" "$1") env EITP=$1 $2sh $script"
    done
}

other_scripts() { # the command eitp, the library
    files=$(echo README.md tools/*.sh tools/gpu_check/* tools/research/* $(find tools/amalgamate tools/command -name '*.[ch]' | sort) | tr ' ' ,)
    for script in tests/tools/test_*.sh; do
        echo "$(basename "$script" .sh) $1,$2,$BUILD/libraries,$(files_of "$script"),$files env EITP=$1 LIBRARY=$2 sh $script"
    done
}

killing() { # program of examples/run.c, folder of programs, number of kills, seed (default: from the clock)
    verify=$2/tests/run/verify_checkpoints
    echo "test_kill${4:+@seed-$4} $1,$verify,tests/run/test_kill.sh" \
        "env RUN=$1 VERIFY=$verify KILLS=$3 ${4:+SEED=$4 }sh tests/run/test_kill.sh"
}

fuzzers() { # kind of programs: sanitized, or fuzz with libFuzzer; suffix of the name; target to leave out
    for source in tests/fuzz/fuzz_*.c; do
        name=$(basename "$source" .c)
        [ "$name" = "${3:-}" ] && continue
        program=$BUILD/$1/${source%.c}
        echo "$name$2 $program,tests/fuzz/corpus/...,tools/fuzz.sh sh tools/fuzz.sh $program"
    done
}

examples() {
    for source in examples/*.c; do
        program=$BUILD/${source%.c}
        echo "example-$(basename "$program") $program succeeds test -x $program"
    done
}

documents() { # prefix of the command, suffix of the name
    echo "code_blocks$2 $BUILD/eitp,$BUILD/packed/users.o,$BUILD/declarations/eitp.h,$BUILD/libraries $1sh tools/code_blocks.sh"
}

list_test() {
    scripts "$BUILD/eitp"
    # The programs with eitp.h run every case, although sweeps take longer strides. The sanitized programs run the same
    # code with fewer cases.
    programs packed real 'env EITP_TEST_COARSE=3 ' | if [ "$sanitizers" = 0 ]; then cat; else not_repeated; fi
    programs packed emulated
    # The sanitizers see nothing of killed processes and power losses.
    [ "$sanitizers" = 0 ] || programs sanitized real 'env EITP_TEST_QUICK=1 ' |
        grep -v '^sanitized/test_\(kills_in_calls\|power_loss\) '
    [ "$sanitizers" = 0 ] || on_device EITP_TEST_QUICK=1\  device device_memory graph ops plan execute \
        guard:shrinking_is_for_the_memory_of_the_host offload trainer micro_batches classification masked
    on_cuda packed 'env EITP_TEST_QUICK=1' $(cuda_tests) kernels attention factored update matmul plan device_memory nvml
    cuda_times packed
    cuda_paths packed
    # fuzz_readers would compile the command's readers once more.
    [ "$sanitizers" = 0 ] || fuzzers sanitized "" fuzz_readers
    examples
    other_scripts "$BUILD/eitp" "$BUILD/packed/users.o"
    killing "$BUILD/examples/run" "$BUILD/packed" 30
    echo "compile_matrix - env JOBS=1 sh tools/compile_matrix.sh few"
    documents
}

list_quick() {
    scripts "$BUILD/eitp"
    programs split emulated
    programs split real 'env EITP_TEST_QUICK=1 '
    on_cuda split 'env EITP_TEST_QUICK=1' $(cuda_tests) kernels attention factored update matmul plan device_memory nvml
    cuda_times split
    cuda_paths split
    other_scripts "$BUILD/eitp" "$BUILD/split/libeitp.a"
    killing "$BUILD/examples/run" "$BUILD/split" 10
}

list_torture() {
    all="env EITP_TEST_STRIDE=${STRIDE:-1} EITP_TEST_SEEDS=${SEEDS:-8}"
    for test in test_faults test_power_loss test_kills_in_calls; do
        for variant in 0 1 2; do
            program=$BUILD/split/tests/run/$test
            echo "split/$test@all-$variant $program $all EITP_TEST_VARIANT=$variant $program"
        done
    done
    for test in torture power_loss; do
        script=tests/command/test_$test.sh
        echo "command_$test@all $BUILD/eitp,$(files_of $script) $all EITP=$BUILD/eitp sh $script"
    done
    script=tests/command/test_mutated.sh
    for program in eitp sanitized/eitp; do
        [ $program = eitp ] || [ "$sanitizers" != 0 ] || continue
        echo "command_mutated@$program $BUILD/$program,$(files_of $script) $all EITP=$BUILD/$program sh $script"
    done
    for seed in 1 2 3 4; do
        killing "$BUILD/examples/run" "$BUILD/split" $(((${KILLS:-1000} + 3) / 4)) $seed
    done
}

list_nightly() {
    programs packed real
    [ "$sanitizers" = 0 ] || programs sanitized real
    [ "$sanitizers" = 0 ] || programs sanitized emulated
    # All except tests of features that only the CPU has: polls within calls, measured limits, memory shared by
    # contexts, and allocation counts of the host's allocator.
    [ "$sanitizers" = 0 ] || on_device "" $(echo tests/*/test_*.c | tr ' ' '\n' | grep -v -e _emulated -e tests/cuda/ \
        -e 'test_\(guard\|measure\|predictor\|share\|stop\|trainer_memory\)\.c' | sed 's/.*\/test_\(.*\)\.c$/\1/') \
        guard:shrinking_is_for_the_memory_of_the_host
    on_cuda split 'env EITP_TEST_ALL=1 EITP_EMULATED_OPTIMIZE=-O1' $(cuda_tests) kernels attention factored update \
        matmul ops plan execute device_memory offload
    # Writes a folder and uses it, on the emulated device.
    echo "gpu_check $BUILD/eitp,$BUILD/split/cuda_kernels,$libraries env EMULATED_GPU=1 $MAKE --no-print-directory -s gpu-check"
    for arch in 75 80 86 89 90 100 120; do
        with_compilers nvrtc $arch
        with_compilers nvcc $arch
    done
    for set in $(instruction_sets); do
        programs split real "env EITP_ISA=$set " "@$set"
        for precision in fp32 bf16; do
            scripts "$BUILD/eitp" "env EITP_TEST_ALL=1 EITP_ISA=$set EITP_TEST_PRECISION=$precision " "@$set-$precision"
        done
    done
    list_torture
    if [ "$libfuzzer" = 1 ]; then fuzzers fuzz @long; elif [ "$sanitizers" = 1 ]; then fuzzers sanitized @long; fi
    # Other programs run in parallel, so its times are not checked.
    echo "soak $BUILD/packed/tests/run/soak succeeds $MAKE --no-print-directory soak SOAK=times=no"
    echo "analysis $BUILD/amalgamate,$BUILD/split/everything_split.h succeeds sh tools/check.sh analysis"
    for part in 1 2 3 4; do
        echo "compile_matrix_all@$part - env JOBS=1 sh tools/compile_matrix.sh all $part/4"
    done
    echo "switches_all eitp.h,$(files_of tests/tools/test_switches.sh) env ALL=1 sh tests/tools/test_switches.sh"
    for port in musl aarch64 riscv64; do
        echo "port-$port eitp.h,$BUILD/split/everything_split.h sh tools/ports.sh $port"
    done
    documents 'env ALONE=1 ' @alone
}

# Prints the instruction sets of this machine.
instruction_sets() {
    "$MAKE" --no-print-directory -s "$BUILD/eitp" >"$logs/eitp.log" 2>&1
    for set in ref avx2 avx512 avx512bf16 amx; do
        EITP_ISA=$set "$BUILD/eitp" plan --init tiny >/dev/null 2>&1 && echo $set
    done
}

# ---- make quick ----

# Keeps the shortest tests that fit in the time that the build left of QUICK_SECONDS, or in a third of QUICK_SECONDS,
# with JOBS at a time: at least one. The other tests stay marked as changed, so that the next `make quick` runs them.
leave_affordable() {
    expected <"$logs/list" | sort -s -k1,1n |
        awk -v most="$QUICK_SECONDS" -v built="$built" -v jobs="$JOBS" -v later="$logs/later" '
            BEGIN { budget = jobs * (most - built > most / 3 ? most - built : most / 3) }
            NR == 1 || (total += $1) <= budget { sub(/^[^ ]* /, ""); print; next }
            { print $2 >later }' >"$logs/affordable"
    mv "$logs/affordable" "$logs/list"
    [ ! -s "$logs/later" ] || echo "$(wc -l <"$logs/later") of them, the longest, are left to the next make quick," \
        "or to make test:" $(cat "$logs/later")
}

# ---- Running ----

# Runs a command within the limits. The system kills a process that exceeds the processor limit. A signal to this script
# also stops the command.
run_limited() {
    (
        ulimit -t "$LIMIT" 2>/dev/null
        command -v timeout >/dev/null 2>&1 && exec timeout -k 10 "$WALL_LIMIT" "$@"
        exec "$@"
    ) </dev/null &
    child=$!
    wait $child
}

# Runs one test, with its output in a log. Prints a line for `report`: name, exit status, seconds, processor seconds.
run_one() { # name, command
    name=$1
    log=$logs/$(file_of "$name").log
    times >"$log.before"
    shift
    start_trace "$name"
    began=$(now)
    if [ "$1" = succeeds ]; then
        shift
        run_limited $trace_command "$@" >"$log" 2>&1 && echo "1 passed, 0 failed" >>"$log"
    else
        run_limited $trace_command "$@" >"$log" 2>&1
    fi
    status=$?
    times >"$log.after"
    echo "$name $status $(since "$began") $(used_in "$log.before") $(used_in "$log.after")"
    rm -f "$log.before" "$log.after"
}

# Runs tests until none is left. Creating a directory claims a test, because it succeeds only once.
work_off() {
    trap 'kill $child 2>/dev/null; exit 130' INT TERM HUP
    number=0
    while read -r name files command; do
        number=$((number + 1))
        mkdir "$logs/taken/$number" 2>/dev/null && run_one "$name" $command
    done <"$logs/list"
}

# Prefixes each line of a list with the estimated processor seconds of the test, from the first pattern that matches its
# name. The order of a first run and the shares of make nightly depend only on these.
lengths() {
    awk '
        function length_of(name, i) {
            for (i = 1; i <= count; i++)
                if (name ~ patterns[i])
                    return seconds[i]
            return 3
        }
        what == "classes" { seconds[++count] = $1; patterns[count] = $2; next }
        { print length_of($1), $0 }' what=classes - what=list "$1" <<'CLASSES'
1800 ^soak$
1500 ^split/test_faults@all
1300 ^compile_matrix_all
1200 ^(analysis|switches_all)
800 ^(command_mutated@sanitized|port-(aarch64|riscv64))
600 ^fuzz_.*@long
500 ^cuda/compilers
400 ^gpu_check$
250 ^(command_(mutated|power_loss|torture)@|split/test_(power_loss|kills_in_calls)@all|test_kill@seed|port-musl|code_blocks@alone|cuda/test_(attention|execute|ops))
80 ^(compile_matrix|check)$
80 ^(sanitized|device)/test_(faults|kills_in_calls|power_loss|recipe_training|run|trainer_failures)$
60 ^(command/test_doctor|cuda/(test_(kernels|matmul)$|train|aligned))
30 ^(packed|split)/test_(disk|faults|kills_in_calls|micro_batches|power_loss|recipe_training|run)(@|$)
30 ^(code_blocks|test_figures|test_kill|test_setting_line|test_switches)$
20 ^command/test_(bench|budgets|files|isa|plan|pressure|safe_train|stop|system|trouble)
15 ^(packed|split)/test_(attention|autograd|budget_sweep|checkpoint|matmul|measure|ops|planner|shrinking|stop|trainer.*)(@|$)
15 ^(sanitized|device)/
10 ^cuda/
CLASSES
}

# Like lengths, with the time of the last run where it is known.
expected() {
    cat >"$logs/expected"
    lengths "$logs/expected" | awk '
        what == "times" { seconds[$2] = $1; next }
        { if ($2 in seconds) $1 = seconds[$2]; print }' what=times "$logs/times" what=list -
}

# Keeps share k of n of the list. Each test, from the longest, goes to the share with the smallest total.
leave_share() { # k/n
    lengths "$logs/list" | sort -s -k1,1nr | awk -v part="$1" '
        BEGIN { split(part, numbers, "/") }
        {
            least = 1
            for (i = 2; i <= numbers[2]; i++)
                if (total[i] < total[least])
                    least = i
            total[least] += $1
            if (least == numbers[1] + 0) {
                sub(/^[^ ]* /, "")
                print
            }
        }' >"$logs/share"
    mv "$logs/share" "$logs/list"
    echo "share $1: $(wc -l <"$logs/list") tests, about $(lengths "$logs/list" |
        awk -v jobs="$JOBS" '{ all += $1 } END { printf "%.0f", all / jobs / 60 }') minutes with $JOBS at a time"
}

run_all() {
    expected <"$logs/list" | sort -s -k1,1nr | cut -d' ' -f2- >"$logs/ordered" && mv "$logs/ordered" "$logs/list"
    rm -rf "$logs/taken" "$BUILD/emulated_cuda/counts"
    mkdir "$logs/taken"
    # Waiting threads must not spin, so that other programs get the processor.
    : "${GOMP_SPINCOUNT:=100}" "${KMP_BLOCKTIME:=0}"
    export GOMP_SPINCOUNT KMP_BLOCKTIME
    started=0
    while [ "$started" -lt "$JOBS" ]; do
        work_off &
        started=$((started + 1))
    done
    wait
}

# ---- Reporting ----

passed=0
failed=0

fail() {
    failed=$((failed + 1))
    echo "FAILED $1: $2" | tee -a "$logs/failures"
}

# Adds a result line to the totals; fails on any other line.
add_result() {
    set -- $1
    [ $# -eq 4 ] && [ "$2" = passed, ] && [ "$4" = failed ] || return 1
    case $1$3 in *[!0-9]*) return 1 ;; esac
    passed=$((passed + $1))
    failed=$((failed + $3))
    result_failed=$3
}

report_one() { # name, exit status
    log=$logs/$(file_of "$1").log
    if [ "$2" -eq 124 ]; then
        tail -n 200 "$log"
        fail "$1" "still running after $WALL_LIMIT seconds"
    elif [ "$2" -eq 137 ]; then
        tail -n 200 "$log"
        fail "$1" "killed, perhaps after $LIMIT seconds of processor time"
    elif ! add_result "$(tail -n 1 "$log")"; then
        tail -n 200 "$log"
        fail "$1" "exit status $2 and no result line"
    elif [ "$2" -eq 0 ] && [ "$result_failed" -eq 0 ]; then
        # Skipped parts, and the number of cases tried.
        grep '^SKIPPED\|^[0-9]* \(faults injected\|power losses\|kills\|random kills\|damaged inputs\)[ :]' "$log"
        echo "$1: $(tail -n 1 "$log")"
        remember "$1" || fail "$1" "opened files that its line in tools/test.sh does not name: $undeclared"
    else
        sed '$d' "$log" | tail -n 200
        echo "$1: $(tail -n 1 "$log")"
        [ "$result_failed" -gt 0 ] || fail "$1" "exit status $2"
        [ "$result_failed" -eq 0 ] || echo "FAILED $1: $(tail -n 1 "$log"), see $log" >>"$logs/failures"
    fi
}

# Reports the lines of run_one. A test without a line did not finish.
report() {
    : >"$logs/failures"
    : >"$logs/times.new"
    while read -r name status seconds before after; do
        report_one "$name" "$status"
        echo "$seconds $name $(echo "$before $after" | awk '{ printf "%.1f", $2 - $1 }')" >>"$logs/times.new"
    done
    while read -r name files command; do
        grep -q " $name " "$logs/times.new" || fail "$name" "did not finish"
    done <"$logs/list"
    # Tests that did not run keep their last time.
    awk '!seen[$2]++' "$logs/times.new" "$logs/times" | sort -nr >"$logs/times.all" &&
        mv "$logs/times.all" "$logs/times"
    echo "== seconds: build $built, tests $(since "$tests_began"); each in $logs/times, the longest:"
    sort -nr "$logs/times.new" | head -n 12 | awk '{ printf "%s%s %s", n++ ? ", " : "", $2, $1 } END { print "" }'
    add_up
    add_launches
    [ "$remembers" = 0 ] || say_remembered
    [ "$mode" != nightly ] || summarize
    if [ -s "$logs/failures" ]; then
        echo "== failed:"
        cat "$logs/failures"
    fi
    echo "$passed passed, $failed failed"
    [ "$failed" -eq 0 ]
}

# Prints the processor seconds of each part. The tests' are in the times of this run.
add_up() {
    awk -v build="$build_used" '
        { part = "others" }
        $2 ~ /^(packed|sanitized|device|split)\// { part = $2; sub(/\/.*/, "", part) }
        $2 ~ /^command\// { part = "command" }
        $2 ~ /^fuzz_/ { part = "fuzzing" }
        { seconds[part] += $3; all += $3 }
        END {
            printf "== processor seconds: build %.0f", build
            count = split("packed split sanitized device command fuzzing others", parts, " ")
            for (i = 1; i <= count; i++)
                if (parts[i] in seconds)
                    printf ", %s %.0f", parts[i], seconds[parts[i]]
            printf "; %.1f minutes in all\n", (build + all) / 60
        }' "$logs/times.new"
}

# Prints the counts of kernels executed on the emulated CUDA device.
add_launches() {
    cat "$BUILD"/emulated_cuda/counts/* 2>/dev/null | awk '
        $2 == "graphs" { graphs += $1; next }
        { launches += $1 }
        $2 == "product" { products += $1; next }
        !kernels[$2]++ { kinds++ }
        END {
            if (launches)
                printf "== emulated CUDA device: %d kernels, %d launches, of which %d products of cuBLASLt; %d graphs\n",
                    kinds, launches, products, graphs
        }'
}

# Prints a summary of a nightly run, one line per kind of test.
summarize() {
    echo "== tested:"
    cut -d' ' -f2 "$logs/times.new" | awk '
        /^packed\// { kind = "test programs packed, all shapes" }
        /^sanitized\// { kind = "test programs under the sanitizers, all shapes and emulated sets" }
        /^split\/.*@/ { sub(/.*@/, ""); kind = "test programs with the instruction set " $0 }
        $0 == "all" || /^test_kill/ || /^command_/ { kind = "tests of faults, power losses and kills" }
        /^command\/.*@/ { sub(/.*@/, ""); kind = "tests of the command with " $0 }
        /^fuzz_/ { kind = "fuzz targets, '"$FUZZ_SECONDS"' s each" }
        /^soak/ { kind = "a run of half an hour whose memory does not grow" }
        /^analysis/ { kind = "cppcheck and clang-tidy, where they are installed" }
        /^cuda\/compilers/ { kind = "kernels of CUDA with NVIDIA'"'"'s compilers, where they are installed" }
        /^port-/ { kind = "C libraries and processors other than this machine'"'"'s, where their tools are installed" }
        /^compile_matrix/ { kind = "every compiler, standard and option" }
        /^code_blocks/ { kind = "programs in the documents, each compiled alone" }
        { count[kind]++ }
        END { for (kind in count) printf "%4d  %s\n", count[kind], kind }' | sort -k2
}

# ---- ----

build() {
    began=$(now)
    times >"$logs/build.before"
    # Keeps the order of the list, in which the longest to compile come first.
    targets=$(cut -d' ' -f2 "$logs/list" | tr , '\n' | grep "^$BUILD/" | awk '!seen[$0]++')
    # Under a make with a job server, the server provides the jobs.
    case ${MAKEFLAGS:-} in *jobserver*) jobs= ;; *) jobs=-j$JOBS ;; esac
    $MAKE --no-print-directory -k $jobs eitp.h $targets >"$logs/build.log" 2>&1 ||
        grep -v '^\(CC\|LINK\|AR\|PACK\)  ' "$logs/build.log" | tail -n 300
    built=$(since "$began")
    times >"$logs/build.after"
    build_used=$(echo "$(used_in "$logs/build.before") $(used_in "$logs/build.after")" | awk '{ print $2 - $1 }')
}

case $mode in
nightly) : "${FUZZ_RUNS:=1000000000}" "${FUZZ_SECONDS:=600}" ;;
*) : "${FUZZ_RUNS:=5000}" "${FUZZ_SECONDS:=15}" ;;
esac
: "${QUICK_SECONDS:=90}"
export FUZZ_RUNS FUZZ_SECONDS

case $mode in
test | nightly) sh tools/install_dependencies.sh "$mode" ;;
esac
$MAKE --no-print-directory -s print-skipped >"$logs/skipped"
[ "$mode" = quick ] || cat "$logs/skipped"
sanitizers=1 libfuzzer=1
grep -q 'SKIPPED sanitizers' "$logs/skipped" && sanitizers=0
grep -q 'SKIPPED libFuzzer' "$logs/skipped" && libfuzzer=0

{
    [ "${CHECK:-0}" = 0 ] || echo "check - succeeds $MAKE --no-print-directory check"
    list_$mode
} | awk -v word="$TEST" 'index($1, word)' >"$logs/list"
refuse() {
    echo "FAILED $1"
    echo "0 passed, 1 failed"
    exit 1
}
[ -s "$logs/list" ] || refuse "no test name contains '$TEST'"
# Logs and records are named after a test.
again=$(cut -d' ' -f1 "$logs/list" | sort | uniq -d | head -1)
[ -z "$again" ] || refuse "two tests are named $again"
# A program in no list would never run.
if [ $mode = test ] && [ -z "$TEST" ]; then
    for source in tests/*/test_*.c; do
        grep -q "/$(basename "$source" .c)[ @]" "$logs/list" || refuse "$source is in no list of tools/test.sh"
    done
fi
[ -z "${PART:-}" ] || leave_share "$PART"
build
[ -e "$logs/times" ] || : >"$logs/times"
rm -f "$logs/later"
[ "$remembers" = 0 ] || leave_changed
[ "$mode" != quick ] || [ -n "$TEST" ] || leave_affordable
tests_began=$(now)
run_all | report
