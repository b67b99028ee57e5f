#!/bin/sh
# Compiles eitp.h in many ways, with warnings as errors. `few` checks for warnings with clang, which takes a tenth of
# gcc's time: each standard, and all pairs of OpenMP and headers before eitp.h. One case per compiler is linked and run.
# (The tests' own build of eitp.h shows gcc's warnings in C.) `all` optimizes, links and runs every combination for the
# installed compilers. `all K/N` is part K of N of these. A build has two translation units: one with the
# implementation, the other with the declarations. Runs JOBS cases at a time and prints the results in the order of the
# cases.
LC_ALL=C
export LC_ALL
BUILD=${BUILD:-build} CC=${CC:-cc} JOBS=${JOBS:-$(nproc 2>/dev/null || echo 1)}
mode=${1:-few} part=${2:-1/1}
work=$BUILD/matrix-${part%/*}
warnings='-Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wundef -Werror'
rm -rf "$work"
mkdir -p "$work"

# The directory of a case, for its files and the log of its commands.
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

# Headers that a program may include first. In strict modes, they hide POSIX from the implementation.
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
#ifdef WITHOUT_DLOPEN
    eitp_context_config settings = eitp_context_config_default();
    eitp_context *context;
    eitp_error error;
    settings.products = "openblas";
    if (eitp_context_create(&settings, &context, &error) != EITP_ERROR_UNSUPPORTED ||
        !strstr(error.message, "linked statically or without dlopen"))
        return 1;
#endif
    return !memory || strcmp(eitp_version(), EITP_VERSION_STRING) != 0;
}
END
cat >"$work/static.c" <<'END'
#define EITP_API static
#define EITP_IMPLEMENTATION
#include "eitp.h"
const char *version(void);
const char *version(void) {
    return eitp_version();
}
END
# The linker's names of the public functions, one per line.
awk '/^#define EITP_VERSION_(MAJOR|MINOR) / { version = version "_" $3 }
    /^#define eitp_[a-z0-9_]* EITP__VERSIONED\(/ { versioned[$2] = 1 }
    /^EITP_API / && match($0, /eitp_[a-z0-9_]*\(/) {
        name = substr($0, RSTART, RLENGTH - 1)
        print name (versioned[name] ? version : "")
    }' eitp.h | sort >"$work/public"
# eitp.h with another version number.
mkdir -p "$work/other"
sed 's/^#define EITP_VERSION_MINOR .*/#define EITP_VERSION_MINOR 99/' eitp.h >"$work/other/eitp.h"

# ---- compilers and libraries on this machine ----

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
# The fastest compiler without optimization.
case "$compilers " in *' clang '*) checker=clang ;; *) checker=${compilers##* } ;; esac

has_openmp() {
    libraries=
    printf '#include <omp.h>\nint main(void) { return omp_get_max_threads() < 1; }\n' | links "$1" -fopenmp
}

has_standard() { # compiler, standard
    libraries=
    case $2 in
    c++*) printf 'int main() { return 0; }\n' | links "$1" -x c++ -std="$2" -lstdc++ ;;
    *) printf 'int main(void) { return 0; }\n' | links "$1" -std="$2" ;;
    esac
}

# ---- a case of the matrix ----

build() { # compiler standard openmp before, kind: run, shared or syntax
    name="$place/$1-$2-$3$4"
    language='-x c -Wmissing-prototypes'
    runtime=
    case $2 in c++*) language='-x c++' runtime=-lstdc++ ;; esac
    flags="-std=$2 $warnings $language -I. -I$work"
    link=
    [ "$3" = 1 ] && flags="$flags -fopenmp" && link=-fopenmp
    [ "$4" = 1 ] && flags="$flags -DBEFORE=1"
    case $5 in
    syntax) "$1" $flags -fsyntax-only "$work/implement.c" && "$1" $flags -fsyntax-only "$work/use.c" ;;
    run)
        "$1" $flags $optimize -c "$work/implement.c" -o "$name.o" && build_use "$1" "$name.o"
        ;;
    shared)
        "$1" $flags $optimize -fPIC -fvisibility=hidden -DEITP_SHARED=1 -c "$work/implement.c" -o "$name.o" &&
            "$1" -shared "$name.o" -o "$name.so" $link $runtime -lm && exports_public "$name.so" &&
            build_use "$1" "$name.so" && refuses_other "$1" "$name.so"
        ;;
    esac
}

# Links a program with the implementation, as an object or a shared library, and runs it.
build_use() { # compiler, file
    "$1" $flags $optimize -c "$work/use.c" -o "$name-use.o" &&
        "$1" "$name-use.o" "$2" -o "$name" $link $runtime -lm && "$name" >"$name.info" && cat "$name.info"
}

# True if a program compiled with another version of the header fails to link, and the linker names that version.
refuses_other() { # compiler, file
    "$1" -I"$work/other" $flags -c "$work/use.c" -o "$name-other.o" &&
        ! "$1" "$name-other.o" "$2" -o "$name-other" $link $runtime -lm 2>"$name-other.log" &&
        grep -q 'undefined.*eitp_[a-z0-9_]*_99' "$name-other.log"
}

# True if a shared library exports exactly the public functions, apart from inline functions of C++'s std.
exports_public() {
    if command -v nm >/dev/null 2>&1; then
        nm -D --defined-only "$1" | awk '$3 !~ /^_ZSt/ { print $3 }' | sort | diff "$work/public" -
    fi
}

build_and_check() { # arguments of build
    build "$@" && { [ "$5" = syntax ] || grep -q "openmp=$3" "$name.info"; }
}

matrix_case() { # arguments of build
    case "$compilers " in *" $1 "*) ;; *) return ;; esac
    label="$1 -std=$2 openmp=$3 headers before=$4 ($5)"
    if ! has_standard "$1" "$2"; then
        skip "$label: $1 does not support -std=$2"
    elif [ "$3" = 1 ] && ! has_openmp "$1"; then
        skip "$label: $1 does not support OpenMP"
    elif build_and_check "$@" >"$place/log" 2>&1; then
        pass
    else
        fail "$label"
    fi
}

# ---- eitp.h alone, static linkage, unsupported systems, examples, symbols ----

mkdir -p "$work/alone"
cp eitp.h examples/hello.c "$work/alone/"

# Compiles an example as users do, in a directory that has only eitp.h: `cc hello.c -lm` in two steps.
alone_case() {
    if (cd "$work/alone" && "$CC" -c hello.c && "$CC" hello.o -lm -o hello && ./hello) >"$place/log" 2>&1; then
        pass
        check_symbols
    else
        fail "eitp.h alone: $CC hello.c -lm"
    fi
}

# Compiles the whole library as static functions in one file, mostly unused. gcc warns about unused functions only with
# -c.
static_case() { # compiler, language, -fsyntax-only or -c
    case "$compilers " in *" $1 "*) ;; *) return ;; esac
    if [ "$2" = c++ ] && ! has_standard "$1" c++17; then
        skip "EITP_API static: $1 does not compile C++"
    elif "$1" -x "$2" -Wall -Wextra -Werror -I. "$3" "$work/static.c" -o "$place/static.o" >"$place/log" 2>&1; then
        pass
    else
        fail "EITP_API static: $1 -x $2"
    fi
}

# A static program must report that it cannot load libraries. glibc warns about dlopen.
static_link() { # object of the implementation
    if ! printf '#include <stdio.h>\nint main(void) { return puts("") < 0; }\n' | links "$CC" -static; then
        skip "static programs: $CC -static does not link"
    elif "$CC" -I. -DWITHOUT_DLOPEN=1 "$work/use.c" "$1" -static -o "$place/static" -lm \
        >"$place/log" 2>&1 && "$place/static" >>"$place/log" 2>&1; then
        pass
    else
        fail "static programs"
    fi
}

# Leaves out instruction sets. Arguments: the switch, a missing set, the remaining sets, run or syntax. The preprocessor
# leaves them out, so any compiler will do.
without_case() {
    flags="-std=c11 $warnings -I. -DEITP_WITHOUT_$1=1"
    if [ "$mode" = all ]; then compiler=$CC; else compiler=$checker; fi
    if [ "$4" = syntax ]; then
        "$compiler" $flags -fsyntax-only "$work/implement.c" >"$place/log" 2>&1
    else
        "$compiler" $flags $optimize -c "$work/implement.c" -o "$place/implement.o" >"$place/log" 2>&1 &&
            "$compiler" $flags "-DLEFT_OUT=\"$2\"" "$work/use.c" "$place/implement.o" -o "$place/use" -lm >>"$place/log" 2>&1 &&
            "$place/use" >>"$place/log" 2>&1 && grep -q "kernels=$3\$" "$place/log"
    fi && pass || fail "without $1"
    [ ! -e "$place/implement.o" ] || static_link "$place/implement.o"
}

# An unsupported system must cause one error and no warning.
refused_case() { # what, compiler, options...
    what=$1
    shift
    if ! printf 'int main() { return 0; }\n' | links "$@"; then
        skip "$what: $* cannot compile and link here"
        return
    fi
    "$@" -Wall -Wextra -Wundef -I. -I"$work" -fsyntax-only "$work/implement.c" >"$place/log" 2>&1
    if [ "$(grep -c 'error:\|warning:' "$place/log")" -eq 1 ] &&
        grep -q 'error: .*eitp needs gcc or clang' "$place/log"; then
        pass
    else
        fail "$what: expected exactly one error"
    fi
}

# Examples must include the headers that they use.
example_case() {
    for example in examples/*.c; do
        sed '/^#define EITP_IMPLEMENTATION$/d' "$example" >"$place/example.c"
        if "$CC" -std=c11 $warnings -Wmissing-prototypes -I. -fsyntax-only "$place/example.c" >"$place/log" 2>&1; then
            pass
        else
            fail "$example"
        fi
    done
}

symbols_of() { # object; prints its global symbols not named eitp_
    nm -g "$1" | awk 'NF == 3 && $2 != "U" && $2 != "w" { print $3 }' | grep -v '^_\{0,1\}eitp_[a-z]'
}

check_symbols() {
    if ! command -v nm >/dev/null 2>&1; then
        skip "symbols: nm is not installed"
        return
    fi
    if nm -g "$work/alone/hello.o" | grep ' U _*dl' >"$place/log"; then
        fail "undefined references with C libraries without dlopen"
    else
        pass
    fi
    if symbols_of "$work/alone/hello.o" | grep -v '^_\{0,1\}main$' >"$place/log"; then
        fail "symbols not named eitp_"
    elif nm -g "$work/alone/hello.o" | grep -q eitp_version; then
        pass
    else
        echo "eitp_version is missing" >"$place/log"
        fail "symbols"
    fi
}

# ---- all cases, one command per case ----

matrix() {
    if [ "$mode" = all ]; then
        for compiler in gcc clang; do
            for standard in c11 c17 c2x c++17; do
                for choice in '0 0' '0 1' '1 0' '1 1'; do
                    echo "matrix_case $compiler $standard $choice run"
                done
            done
            for standard in c++11 c++14; do
                echo "matrix_case $compiler $standard 0 0 syntax"
            done
            for standard in c++20 c++2b; do
                echo "matrix_case $compiler $standard 0 0 run"
                echo "matrix_case $compiler $standard 1 1 run"
            done
            for standard in c11 c++17; do
                echo "matrix_case $compiler $standard 0 0 shared"
            done
            echo "static_case $compiler c -c"
            echo "static_case $compiler c++ -c"
        done
    else
        echo "matrix_case $checker c11 0 1 syntax"
        echo "matrix_case $checker c17 1 0 syntax"
        echo "matrix_case $checker c2x 0 1 syntax"
        echo 'matrix_case gcc c++17 1 1 run'
        echo 'matrix_case clang c++17 0 0 shared'
        echo "static_case $checker c -fsyntax-only"
        echo "static_case $checker c++ -fsyntax-only"
    fi
    echo alone_case
    echo example_case
    echo "refused_case C99 $CC -std=c99"
    echo "refused_case C++98 $CC -x c++ -std=c++98"
    echo "refused_case another_compiler $CC -U__GNUC__"
    echo 'refused_case Windows x86_64-w64-mingw32-gcc'
    x86=,avx2,avx512,avx512bf16
    [ "$(uname -m)" = x86_64 ] || x86=
    if [ "$mode" = all ]; then other=run; else other=syntax; fi
    echo "without_case AVX2 avx2 ref${x86:+,avx512,avx512bf16,amx} $other"
    echo "without_case AVX512 amx ref${x86:+,avx2} run"
    echo "without_case AVX512BF16 avx512bf16 ref${x86:+,avx2,avx512,amx} $other"
    echo "without_case AMX amx ref$x86 $other"
    echo "without_case CUDA none none syntax"
}

if [ "$mode" = all ]; then optimize=-O2; else optimize=-O0; fi
matrix | awk -v part="${part%/*}" -v parts="${part#*/}" 'NR % parts == part % parts' >"$work/cases"

# Runs cases until none is left. Creating a directory claims a case, because it succeeds only once.
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
        echo "FAILED $case: it did not finish"
        failed=$((failed + 1))
    else
        grep -v '^passed$' "$result"
        passed=$((passed + $(grep -c '^passed$' "$result")))
        failed=$((failed + $(grep -c '^FAILED' "$result")))
    fi
done <"$work/cases"
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
