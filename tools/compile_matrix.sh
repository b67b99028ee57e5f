#!/bin/sh
# Compiles eitp.h in many ways, warnings being errors. `all` takes every combination of choices, optimizes, links and
# runs each. `pairwise` covers every pair of choices in eight cases; most of them ask the compiler for its opinion and no
# more, two are linked and run. A build is two translation units: one implements, one only declares. JOBS cases run at a
# time; results are printed in the order of the cases.
LC_ALL=C
export LC_ALL
BUILD=${BUILD:-build} CC=${CC:-cc} JOBS=${JOBS:-$(nproc 2>/dev/null || echo 1)}
mode=${1:-pairwise}
work=$BUILD/matrix
warnings='-Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wundef -Werror'
rm -rf "$work"
mkdir -p "$work"

# Of a case: the first word is what is counted. Its files, and the log of its commands, are in the directory $place.
place=$work

pass() {
    echo passed
}

fail() {
    echo "FAILED $1"
    sed 's/^/    /' "$place/log" | head -n 40
}

skip() {
    echo "SKIPPED $1"
}

# ---- the programs ----

# Headers that a program may include first: in a strict mode they hide what the implementation needs.
cat >"$work/before.h" <<'END'
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>
#include "eitp.h"
END
cat >"$work/implement.c" <<'END'
#ifdef BEFORE
#include "before.h"
#endif
#define EITP_IMPLEMENTATION
#include "eitp.h"
#include "eitp.h"
END
cat >"$work/use.c" <<'END'
#include "eitp.h"
#include "eitp.h"
#include <stdio.h>
#include <string.h>
int main(void) {
    eitp_host host = eitp_host_default();
    void *memory = host.allocator.allocate(host.allocator.user, 100, 64);
    host.allocator.release(host.allocator.user, memory, 100);
    puts(eitp_build_info());
#ifdef LEFT_OUT
    eitp_context_config settings = eitp_context_config_default();
    eitp_context *context;
    eitp_error error;
    settings.isa = LEFT_OUT;
    if (eitp_context_create(&settings, &context, &error) != EITP_ERROR_UNSUPPORTED ||
        !strstr(error.message, "this build has no kernels for instruction set '" LEFT_OUT "'"))
        return 1;
    puts(error.message);
#endif
    return !memory || strcmp(eitp_version(), EITP_VERSION_STRING) != 0;
}
END
printf '#define EITP_API static\n#define EITP_IMPLEMENTATION\n#include "eitp.h"\n' >"$work/hidden.c"

# ---- what this machine has ----

links() { # command..., with the program on standard input
    cat >"$place/probe.c"
    "$@" "$place/probe.c" -o "$place/probe" $libraries >/dev/null 2>&1
}

compilers=
libraries=
for compiler in gcc clang; do
    if printf 'int main(void) { return 0; }\n' | links $compiler; then
        compilers="$compilers $compiler"
    else
        skip "compile matrix: $compiler is not installed"
    fi
done
[ -n "$compilers" ] || compilers=" $CC"

has_openmp() {
    libraries=
    printf '#include <omp.h>\nint main(void) { return omp_get_max_threads() < 1; }\n' | links "$1" -fopenmp
}

has_standard() { # compiler, standard
    libraries=
    case $2 in
    c++*) printf 'int main() { return 0; }\n' | links "$1" -x c++ -std="$2" ;;
    *) printf 'int main(void) { return 0; }\n' | links "$1" -std="$2" ;;
    esac
}

libraries=-lopenblas
if printf '#include <cblas.h>\nint main(void) { return (int)cblas_dasum(0, 0, 1); }\n' | links "$CC"; then
    openblas_here=1
else
    openblas_here=0
    skip "compile matrix: OpenBLAS is not installed"
fi
libraries=

# ---- a case of the matrix ----

build_and_run() { # compiler standard openmp openblas before, what is wanted: run or syntax
    name="$place/$1-$2-$3$4$5"
    language='-x c -Wmissing-prototypes'
    runtime=
    case $2 in c++*) language='-x c++' runtime=-lstdc++ ;; esac
    flags="-std=$2 $warnings $language -I. -I$work"
    link=
    [ "$3" = 1 ] && flags="$flags -fopenmp" && link=-fopenmp
    [ "$4" = 1 ] && flags="$flags -DEITP_WITH_OPENBLAS=1" && link="$link -lopenblas"
    [ "$5" = 1 ] && flags="$flags -DBEFORE=1"
    if [ "$6" = syntax ]; then
        "$1" $flags -fsyntax-only "$work/implement.c" && "$1" $flags -fsyntax-only "$work/use.c"
        return
    fi
    "$1" $flags $optimize -c "$work/implement.c" -o "$name-implement.o" &&
        "$1" $flags $optimize -c "$work/use.c" -o "$name-use.o" &&
        "$1" "$name-implement.o" "$name-use.o" -o "$name" $link $runtime -lm &&
        "$name" >"$name.info" && cat "$name.info" &&
        grep -q "openmp=$3" "$name.info" && grep -q "openblas=$4" "$name.info"
}

matrix_case() { # compiler standard openmp openblas before, run or syntax
    case "$compilers " in *" $1 "*) ;; *) return ;; esac
    label="$1 -std=$2 openmp=$3 openblas=$4 headers before=$5"
    if ! has_standard "$1" "$2"; then
        skip "$label: $1 has no -std=$2"
    elif [ "$3" = 1 ] && ! has_openmp "$1"; then
        skip "$label: $1 has no OpenMP"
    elif [ "$4" = 1 ] && [ "$openblas_here" = 0 ]; then
        skip "$label: no OpenBLAS"
    elif build_and_run "$@" >"$place/log" 2>&1; then
        pass
    else
        fail "$label"
    fi
}

# ---- the plainest way, static linkage, the symbols ----

mkdir -p "$work/alone"
cp eitp.h examples/hello.c "$work/hidden.c" "$work/alone/"

# An example as its reader compiles it, with nothing beside it but eitp.h; `cc hello.c -lm` in two steps.
alone_case() {
    if (cd "$work/alone" && "$CC" -c hello.c && "$CC" hello.o -lm -o hello && ./hello) >"$place/log" 2>&1; then
        pass
        check_symbols
    else
        fail "eitp.h alone: $CC hello.c -lm"
    fi
}

hidden_case() {
    if (cd "$work/alone" && "$CC" -fsyntax-only hidden.c) >"$place/log" 2>&1; then pass; else
        fail "EITP_API static"
    fi
}

# Instruction sets that are left out: the switch, a set that is not there then, what is left, run or syntax.
without_case() {
    flags="-std=c11 $warnings -I. -DEITP_WITHOUT_$1=1"
    if [ "$4" = syntax ]; then
        "$CC" $flags -fsyntax-only "$work/implement.c" >"$place/log" 2>&1
    else
        "$CC" $flags $optimize -c "$work/implement.c" -o "$place/implement.o" >"$place/log" 2>&1 &&
            "$CC" $flags "-DLEFT_OUT=\"$2\"" "$work/use.c" "$place/implement.o" -o "$place/use" -lm >>"$place/log" 2>&1 &&
            "$place/use" >>"$place/log" 2>&1 && grep -q "kernels=$3\$" "$place/log"
    fi && pass || fail "without $1"
}

symbols_of() { # object: what others can see of it and what is not called eitp_ or, static linkage, anything at all
    nm -g "$1" | awk 'NF == 3 && $2 != "U" && $2 != "w" { print $3 }' | grep -v '^_\{0,1\}eitp_[a-z]'
}

check_symbols() {
    if ! command -v nm >/dev/null 2>&1; then
        skip "symbols: nm is not installed"
        return
    fi
    if symbols_of "$work/alone/hello.o" | grep -v '^_\{0,1\}main$' >"$place/log"; then
        fail "symbols other than eitp_..."
    elif nm -g "$work/alone/hello.o" | grep -q eitp_version; then
        pass
    else
        echo "eitp_version is not there" >"$place/log"
        fail "symbols"
    fi
}

# ---- all cases, a command each ----

matrix() {
    if [ "$mode" = all ]; then
        for compiler in gcc clang; do
            for standard in c11 c17 c2x c++17; do
                for choice in '0 0 0' '0 0 1' '0 1 0' '0 1 1' '1 0 0' '1 0 1' '1 1 0' '1 1 1'; do
                    echo "matrix_case $compiler $standard $choice run"
                done
            done
        done
    else
        # An orthogonal array: every pair of choices occurs.
        echo 'matrix_case gcc c11 0 0 0 syntax'
        echo 'matrix_case clang c11 1 1 1 syntax'
        echo 'matrix_case gcc c17 1 0 1 syntax'
        echo 'matrix_case clang c17 0 1 0 syntax'
        echo 'matrix_case gcc c2x 0 1 1 syntax'
        echo 'matrix_case clang c2x 1 0 0 syntax'
        echo 'matrix_case gcc c++17 1 1 0 run'
        echo 'matrix_case clang c++17 0 0 1 run'
    fi
}

if [ "$mode" = all ]; then optimize=-O2; else optimize=-O0; fi
{
    matrix
    echo alone_case
    echo hidden_case
    x86=,avx2,avx512,avx512bf16
    [ "$(uname -m)" = x86_64 ] || x86=
    if [ "$mode" = all ]; then other=run; else other=syntax; fi
    echo "without_case AVX2 avx2 ref${x86:+,avx512,avx512bf16,amx} $other"
    echo "without_case AVX512 amx ref${x86:+,avx2} run"
    echo "without_case AVX512BF16 avx512bf16 ref${x86:+,avx2,avx512,amx} $other"
    echo "without_case AMX amx ref$x86 $other"
} >"$work/cases"

# Takes one case after the other that no other worker has: making a directory succeeds once.
work_off() {
    number=0
    while read -r case; do
        number=$((number + 1))
        place=$work/case-$number
        mkdir "$place" 2>/dev/null || continue
        $case >"$place/part" </dev/null
        mv "$place/part" "$place/result"
    done <"$work/cases"
}

workers=
trap 'kill $workers 2>/dev/null; exit 130' INT TERM
started=0
while [ $started -lt "$JOBS" ]; do
    work_off &
    workers="$workers $!"
    started=$((started + 1))
done
wait

passed=0
failed=0
number=0
while read -r case; do
    number=$((number + 1))
    result=$work/case-$number/result
    if [ ! -e "$result" ]; then
        echo "FAILED $case: it did not end"
        failed=$((failed + 1))
    else
        grep -v '^passed$' "$result"
        passed=$((passed + $(grep -c '^passed$' "$result")))
        failed=$((failed + $(grep -c '^FAILED' "$result")))
    fi
done <"$work/cases"
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
