#!/bin/sh
# Compiles eitp.h in many ways, warnings being errors, then links and runs each: `pairwise` covers every pair of
# choices in eight builds, `all` takes every combination. A build is two translation units: one implements, one only
# declares.
LC_ALL=C
export LC_ALL
BUILD=${BUILD:-build} CC=${CC:-cc}
mode=${1:-pairwise}
work=$BUILD/matrix
warnings='-Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wundef -Werror'
passed=0
failed=0
rm -rf "$work"
mkdir -p "$work"

pass() {
    passed=$((passed + 1))
}

fail() {
    failed=$((failed + 1))
    echo "FAILED $1"
    sed 's/^/    /' "$work/log" | head -n 40
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
    return !memory || strcmp(eitp_version(), EITP_VERSION_STRING) != 0;
}
END
cat >"$work/single.c" <<'END'
#define EITP_IMPLEMENTATION
#include "eitp.h"
int main(void) { return eitp_version()[0] == 0; }
END
printf '#define EITP_API static\n#define EITP_IMPLEMENTATION\n#include "eitp.h"\n' >"$work/hidden.c"

# ---- what this machine has ----

links() { # command..., with the program on standard input
    cat >"$work/probe.c"
    "$@" "$work/probe.c" -o "$work/probe" $libraries >/dev/null 2>&1
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

# ---- one case ----

build_and_run() { # compiler standard openmp openblas before
    name="$work/$1-$2-$3$4$5"
    language='-x c -Wmissing-prototypes'
    runtime=
    case $2 in c++*) language='-x c++' runtime=-lstdc++ ;; esac
    flags="-std=$2 $warnings $language -I. -I$work"
    link=
    [ "$3" = 1 ] && flags="$flags -fopenmp" && link=-fopenmp
    [ "$4" = 1 ] && flags="$flags -DEITP_WITH_OPENBLAS=1" && link="$link -lopenblas"
    [ "$5" = 1 ] && flags="$flags -DBEFORE=1"
    "$1" $flags $optimize -c "$work/implement.c" -o "$name-implement.o" &&
        "$1" $flags $optimize -c "$work/use.c" -o "$name-use.o" &&
        "$1" "$name-implement.o" "$name-use.o" -o "$name" $link $runtime -lm &&
        "$name" >"$name.info" && cat "$name.info" &&
        grep -q "openmp=$3" "$name.info" && grep -q "openblas=$4" "$name.info"
}

matrix_case() { # compiler standard openmp openblas before
    case "$compilers " in *" $1 "*) ;; *) return ;; esac
    label="$1 -std=$2 openmp=$3 openblas=$4 headers before=$5"
    if ! has_standard "$1" "$2"; then
        skip "$label: $1 has no -std=$2"
    elif [ "$3" = 1 ] && ! has_openmp "$1"; then
        skip "$label: $1 has no OpenMP"
    elif [ "$4" = 1 ] && [ "$openblas_here" = 0 ]; then
        skip "$label: no OpenBLAS"
    elif build_and_run "$@" >"$work/log" 2>&1; then
        pass
    else
        fail "$label"
    fi
}

# ---- the matrix ----

if [ "$mode" = all ]; then
    optimize=-O2
    for compiler in gcc clang; do
        for standard in c11 c17 c2x c++17; do
            for choice in '0 0 0' '0 0 1' '0 1 0' '0 1 1' '1 0 0' '1 0 1' '1 1 0' '1 1 1'; do
                matrix_case $compiler $standard $choice
            done
        done
    done
else
    # An orthogonal array: every pair of choices occurs.
    optimize=-O1
    matrix_case gcc c11 0 0 0
    matrix_case clang c11 1 1 1
    matrix_case gcc c17 1 0 1
    matrix_case clang c17 0 1 0
    matrix_case gcc c2x 0 1 1
    matrix_case clang c2x 1 0 0
    matrix_case gcc c++17 1 1 0
    matrix_case clang c++17 0 0 1
fi

# ---- the plainest way, the symbols, static linkage ----

mkdir -p "$work/alone"
cp eitp.h "$work/single.c" "$work/hidden.c" "$work/alone/"
check_alone() {
    (cd "$work/alone" && "$CC" single.c -lm -o single && ./single)
}
if check_alone >"$work/log" 2>&1; then pass; else fail "eitp.h alone: $CC file.c -lm"; fi

if (cd "$work/alone" && "$CC" -c hidden.c -o hidden.o) >"$work/log" 2>&1; then pass; else fail "EITP_API static"; fi

symbols_of() { # object: what others can see of it and what is not called eitp_ or, static linkage, anything at all
    nm -g "$1" | awk 'NF == 3 && $2 != "U" && $2 != "w" { print $3 }' | grep -v '^_\{0,1\}eitp_[a-z]'
}
if ! command -v nm >/dev/null 2>&1; then
    skip "symbols: nm is not installed"
else
    (cd "$work/alone" && "$CC" -c single.c -o single.o) >"$work/log" 2>&1
    if symbols_of "$work/alone/single.o" | grep -v '^_\{0,1\}main$' >"$work/log"; then
        fail "symbols other than eitp_..."
    elif nm -g "$work/alone/single.o" | grep -q eitp_version; then
        pass
    else
        echo "eitp_version is not there" >"$work/log"
        fail "symbols"
    fi
fi

echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
