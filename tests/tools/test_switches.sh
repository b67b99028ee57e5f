#!/bin/sh
# EITP_PART and EITP_WITHOUT_...: eitp.h in parts, and with modules left out. A program that trains a small GPT-2 for a
# step (core_step.c) is linked with implementations that lack everything else. ALL=1: with each switch alone and each
# pair too, which takes a quarter of an hour.
LC_ALL=C
export LC_ALL
BUILD=${BUILD:-build} CC=${CC:-cc}
work=$BUILD/test_switches
warnings='-Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wundef -Werror'
# Parts that take long to compile and make no difference to the rest.
quickly='-DEITP_WITHOUT_AVX2=1 -DEITP_WITHOUT_AVX512=1'
core="$quickly -DEITP_WITHOUT_TEXT=1 -DEITP_WITHOUT_MODEL_FILES=1 -DEITP_WITHOUT_CUDA=1"
switches=$(sed -n 's/^\(EITP_WITHOUT_[A-Z_]*\) .*/\1/p' src/manifest | sort -u)
parts=$(sed -n 's/^part \([0-9]*\):.*/\1/p' src/manifest | sort -u)
passed=0
failed=0
rm -rf "$work"
mkdir -p "$work"

pass() {
    passed=$((passed + 1))
}

fail() {
    failed=$((failed + 1))
    echo "FAILED $1:"
    sed 's/^/    /' "$work/log" | head -n 40
}

check() { # what, command...
    what=$1
    shift
    if "$@" >"$work/log" 2>&1; then pass; else fail "$what"; fi
}

# Runs a command that must fail and print this text.
refused() { # what, text, command...
    what=$1
    text=$2
    shift 2
    if "$@" >"$work/log" 2>&1; then
        fail "$what: accepted"
    elif grep -q -e "$text" "$work/log"; then pass; else
        fail "$what: no \"$text\""
    fi
}

printf '#define EITP_IMPLEMENTATION\n#include "eitp.h"\n' >"$work/eitp.c"
compile() { # output, options...
    output=$1
    shift
    "$CC" $warnings -I. "$@" -c "$work/eitp.c" -o "$output"
}
links_loader() { # options, objects...
    "$CC" -std=c11 $warnings -I. $1 -c tests/tools/load_model.c -o "$work/load_model.o" || return 1
    shift
    "$CC" "$work/load_model.o" "$@" -lm -o "$work/load_model"
}
trains() { # options, objects...
    "$CC" -std=c11 $warnings -I. $1 -c tests/tools/core_step.c -o "$work/core_step.o" || return 1
    shift
    "$CC" "$work/core_step.o" "$@" -lm -o "$work/core_step" && "$work/core_step"
}

# ---- parts ----

objects=
for part in $parts; do
    check "part $part" compile "$work/part-$part.o" -std=c11 -Wmissing-prototypes -fPIC $core "-DEITP_PART=$part"
    objects="$objects $work/part-$part.o"
done
check "a program of parts" trains "$core" $objects
for part in $parts; do
    refused "without part $part" "eitp__part_${part}_" trains "$core" $(echo "$objects" | tr ' ' '\n' | grep -v "part-$part")
done
refused "a part twice" 'eitp__part_2_' trains "$core" $objects "$work/part-2.o"
refused "a part that is not there" 'EITP_PART is the number of a part, 1 to 6' compile "$work/none.o" -DEITP_PART=7
refused "part 0" 'EITP_PART is the number of a part, 1 to 6' compile "$work/none.o" -DEITP_PART=0
refused "a part without a number" 'EITP_PART is the number of a part, 1 to 6' compile "$work/none.o" -DEITP_PART=
refused "parts that are static" 'EITP_API cannot be static' compile "$work/none.o" -DEITP_PART=1 -DEITP_API=static
if command -v nm >/dev/null 2>&1; then
    check "a shared library" "$CC" -shared $objects -o "$work/libeitp.so" -lm
    nm -D --defined-only "$work/libeitp.so" | awk '{ print $3 }' >"$work/exported"
    check "it exports public functions" grep -q '^eitp_model_create$' "$work/exported"
    check "it exports no others" sh -c "! grep '^eitp__' '$work/exported'"
else
    echo "SKIPPED what parts export: nm is not installed"
fi

# ---- left out ----

check "everything left out" compile "$work/core.o" -std=c11 $core
check "a program using the remaining parts" trains "$core" "$work/core.o"

# Writes a program that calls a function left out.
calls() { # switch, language and standard, call
    printf '#include "eitp.h"\nint main(void) {\n    eitp_error error;\n    %s;\n    (void)error;\n    return 0;\n}\n' \
        "$3" >"$work/call.c"
    "$CC" $2 -I. "-D$1=1" -c "$work/call.c" -o "$work/none.o"
}
left_out() { # switch, function, arguments
    for language in '-x c -std=c11' '-x c++ -std=c++17'; do
        case $language in *c++*) printf 'int main() { return 0; }\n' | "$CC" $language -fsyntax-only - 2>/dev/null || continue ;; esac
        check "$2 ($language)" calls EITP_UNUSED "$language" "(void)$2($3)"
        refused "$2 without it ($language)" "$2_is_left_out_by_$1" calls "$1" "$language" "(void)$2($3)"
        check "one error" test "$(grep -c 'error:' "$work/log")" -eq 1
        refused "its address ($language)" "$2_is_left_out_by_$1" calls "$1" "$language" "(void)&$2"
    done
}
left_out EITP_WITHOUT_RECIPES eitp_recipe_default ''
left_out EITP_WITHOUT_REPORTING eitp_tensorboard_open 'NULL, NULL, NULL, &error'
left_out EITP_WITHOUT_RUNS eitp_run_config_default ''
left_out EITP_WITHOUT_TRAINER eitp_trainer_config_default ''
left_out EITP_WITHOUT_OBJECTIVE eitp_emergence_config_default ''
left_out EITP_WITHOUT_LATENT eitp_vae_config_default ''
left_out EITP_WITHOUT_TASKS eitp_language_config_default ''
left_out EITP_WITHOUT_TEMPLATES eitp_chat_create 'NULL, NULL, &error'
left_out EITP_WITHOUT_TEXT eitp_pack_config_default ''
left_out EITP_WITHOUT_MODEL_FILES eitp_checkpoint_recover 'NULL, NULL, NULL, &error'
left_out EITP_WITHOUT_GGUF eitp_model_export 'NULL, NULL, NULL, NULL, &error'
refused "what follows" eitp_recipe_default_is_left_out_by_EITP_WITHOUT_RECIPES \
    calls EITP_WITHOUT_TEXT '-x c' '(void)eitp_recipe_default()'
refused "what cannot be had" 'EITP_WITHOUT_RUNS is 0, but runs require EITP_WITHOUT_TRAINER to be 0' \
    calls EITP_WITHOUT_TRAINER -DEITP_WITHOUT_RUNS=0 '(void)error'

# ---- GGUF files ----

for switch in 0 1; do
    loading="$quickly -DEITP_WITHOUT_CUDA=1 -DEITP_WITHOUT_TRAINER=1 -DEITP_WITHOUT_GGUF=$switch"
    check "EITP_WITHOUT_GGUF=$switch" compile "$work/loading.o" -std=c11 -Wmissing-prototypes $loading
    check "a program with EITP_WITHOUT_GGUF=$switch" links_loader "$loading" "$work/loading.o"
    check "a directory with EITP_WITHOUT_GGUF=$switch" "$work/load_model" tests/golden/gpt2/tanh
    [ $switch = 1 ] || check "a GGUF file" "$work/load_model" tests/golden/gguf/gpt2-lm/model.gguf
done
refused "a GGUF file without the switch" \
    "'tests/golden/gguf/gpt2-lm/model.gguf' is not a directory; .* built with EITP_WITHOUT_GGUF" \
    "$work/load_model" tests/golden/gguf/gpt2-lm/model.gguf

# ---- slow cases ----

if [ "${ALL:-0}" = 1 ]; then
    objects=
    for part in $parts; do
        check "part $part in C++" compile "$work/part-$part.o" -x c++ -std=c++17 "-DEITP_PART=$part"
        objects="$objects $work/part-$part.o"
    done
    check "a program of parts in C++" trains '' $objects -lstdc++
    for first in $switches EITP_WITHOUT_CUDA; do
        for second in $switches EITP_WITHOUT_CUDA; do
            [ "$(printf '%s\n' "$first" "$second" | sort | head -n 1)" = "$first" ] || continue
            pair="$quickly -D$first=1"
            [ "$first" = "$second" ] || pair="$pair -D$second=1"
            check "$pair" compile "$work/pair.o" -std=c11 -Wmissing-prototypes $pair
            check "a program with $pair" trains "$pair" "$work/pair.o"
        done
    done
fi

echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
