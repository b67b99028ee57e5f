#!/bin/sh
# Adding a setting takes one line: the command, built with an eitp.h with three more rows in the trainer's table and one
# in the run's, offers, checks, records, saves, resumes and compares them.
LC_ALL=C
export LC_ALL
BUILD=${BUILD:-build} CC=${CC:-cc}
work=$BUILD/test_setting_line
passed=0
failed=0
rm -rf "$work"
mkdir -p "$work"

# The name of a check, and a command that must succeed.
check() {
    what=$1
    shift
    if "$@"; then passed=$((passed + 1)); else
        failed=$((failed + 1))
        echo "FAILED $what"
    fi
}

# The rows, and their members.
awk '/^} eitp_trainer_config;$/ { print "    double how_much; eitp_shuffle which_one; int keep_it;" }
    /^} eitp_run_config;$/ { print "    int64_t naps;" }
    { print }
    /^static const eitp_setting eitp__run_settings\[\] = {$/ {
        print "EITP__RUN_SETTING(naps, \"naps\", INTEGER, 2, 0, 9, NULL, \"made-up count\"),"
    }
    /^static const eitp_setting eitp__trainer_settings\[\] = {$/ {
        print "EITP__TRAINER_SETTING(keep_it, \"keep_it\", FLAG, 0, 0, 1, EITP_SETTING_OPTIONAL, LOGGED, NULL,"
        print "\"made-up flag\"),"
        print "EITP__TRAINER_SETTING(how_much, \"how_much\", NUMBER, 0, 0, 1, EITP_SETTING_BELOW | EITP_SETTING_OPTIONAL, REFUSED,"
        print "NULL, \"made-up number\"),"
        print "EITP__TRAINER_SETTING(which_one, \"which_one\", CHOICE, 0, 0, 1, EITP_SETTING_OPTIONAL, LOGGED, \"this that\","
        print "\"made-up choice\"),"
    }' eitp.h >"$work/eitp.h"
# The command includes only the declarations. Its output does not depend on kernels.
mkdir "$work/declarations"
sed '/^#if defined(EITP_IMPLEMENTATION) && !defined(EITP_IMPLEMENTED)$/,/^#endif \/\* EITP_IMPLEMENTATION/d' "$work/eitp.h" \
    >"$work/declarations/eitp.h"
printf '#define EITP_IMPLEMENTATION\n#include "eitp.h"\n' >"$work/eitp.c"
"$CC" -std=c11 -O0 -I"$work" -DEITP_WITHOUT_AVX2=1 -DEITP_WITHOUT_AVX512=1 -c "$work/eitp.c" -o "$work/implementation.o" &&
    "$CC" -std=c11 -O0 -I"$work/declarations" -Itools/command \
        $(find tools/command -name '*.c') "$work/implementation.o" -o "$work/eitp" -lm -lpthread || {
    echo "0 passed, 1 failed"
    exit 1
}
cd "$work" || exit 1
awk 'BEGIN { for (i = 0; i < 200; i++) printf "Line %d: a quick fox number %d.\n", i, i * 7 % 13 }' >text.txt
cat >tiny.json <<'END'
{"model_type": "gpt2", "vocab_size": 257, "n_positions": 16, "n_embd": 8, "n_head": 2, "n_layer": 1}
END
echo '{"how_much": 0.25}' >config.json
train="--data text.txt --init tiny.json --block-size 16 --threads 1 --precision fp32 --eval-steps 0 -q"

# Runs eitp with the arguments. Output is in the files out and err.
run() {
    ./eitp "$@" >out 2>err </dev/null
}

check "help" run train --help
check "help: a flag" grep -q '^  --keep-it  *made-up flag$' out
check "help: a number" grep -q '^  --how-much X  *made-up number (default: 0)$' out
check "help: a choice" grep -q '^  --which-one this|that  *made-up choice (default: this)$' out
check "help: of a run" grep -q '^  --naps N  *made-up count (default: 2)$' out
check "bounds: of a run" test "$(./eitp train --naps 10 2>&1)" = \
    "error: --naps must be at least 0 and at most 9 (got 10)"
check "--config, --print-config" run train --config config.json --which_one=that --print-config
check "--config" grep -q '^how-much  *0.25  (config.json:1)$' out
check "the command line" grep -q '^which-one  *"that"  (command line)$' out
check "the default" grep -q '^keep-it  *false  (default)$' out
check "bounds" test "$(./eitp train --how-much 1 2>&1)" = \
    "error: --how-much must be at least 0 and below 1 (got 1)"
check "another name is suggested" test "$(./eitp train --how-mach 1 2>&1)" = \
    "error: unknown option 'how-mach'; did you mean 'how-much'?"
check "without it" run train $train --steps 1 --output-dir without
check "checkpoints omit defaults" sh -c '! grep -q "keep_it\|how_much\|which_one" without/checkpoint-1/*.json'
check "with it" run train $train --steps 1 --how-much 0.25 --keep-it --which-one that --naps 3 --output-dir with
check "run.json" grep -q '"keep-it": true, .*"how-much": 0.25, "which-one": "that", .*"naps": 3' with/run.json
check "the checkpoint" grep -q '^  "how_much": 0.25,$' with/checkpoint-1/trainer_state.json
check "resuming keeps it" run train --resume auto --output-dir with --steps 2 --no-keep-it
check "a difference is logged" grep -q "^warning: --keep-it changed from true to false since '" err
check "equal values are not" sh -c '! grep -q "how_much\|which_one" err'
check "kept values" grep -q '^  "which_one": 1,$' with/checkpoint-2/trainer_state.json
check "a difference is refused" test "$(./eitp train --resume auto --output-dir with --steps 3 --how-much 0 2>&1)" = \
    "error: 'with/checkpoint-2' was trained with how_much 0.25, and a resumed run keeps it (got 0); leave --how-much out, \
or start from the weights with --model"
check "a checkpoint without it" run train --resume auto --output-dir without --steps 2 --which-one that
check "a checkpoint without it has the default" grep -q "^warning: --which-one changed from this to that since '" err
echo "$passed passed, $failed failed"
[ $failed -eq 0 ]
