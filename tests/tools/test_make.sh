#!/bin/sh
# The Makefile: its output, the files it installs, and that uninstalling removes exactly those; that the implementation
# compiles without a warning; that `make check` refuses stray files at the root.
LC_ALL=C
export LC_ALL
unset MAKEFLAGS MFLAGS MAKELEVEL V DESTDIR PREFIX
MAKE=${MAKE:-make} BUILD=${BUILD:-build} CC=${CC:-cc}
work=$BUILD/test_make
passed=0
failed=0
rm -rf "$work"
mkdir -p "$work/build"

check() { # what, command...
    what=$1
    shift
    if "$@"; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "FAILED $what"
    fi
}

run_make() {
    "$MAKE" --no-print-directory BUILD="$work/build" CC="$CC" CFLAGS=-O0 OPENMP=0 SANITIZE=0 FUZZER=0 \
        DLOPEN_LIBRARY= "$@" >"$work/out" 2>&1
}

# ---- output of a build ----

program=$work/build/amalgamate
check "a build" run_make -B "$program"
printf '%-7s %s\n' LINK "$program" >"$work/expected"
check "one short line for each file" cmp -s "$work/out" "$work/expected"
check "a build with V=1" run_make -B V=1 "$program"
check "V=1: the whole command" sh -c "grep -q '^$CC -std=c11 .*tools/amalgamate/amalgamate.c .*-o $program\$' $work/out"
check "V=1: no short line" sh -c "! grep -q '^LINK' $work/out"
check "a silent build" run_make -s -B "$program"
check "make -s prints nothing" test ! -s "$work/out"
check "a silent build with -k" run_make -ks -B "$program"
check "make -ks prints nothing" test ! -s "$work/out"

# ---- compiler warnings about the implementation, optimized as users compile it ----

library=${LIBRARY:-$BUILD/packed/users.o}
case $library in
*.a) echo "SKIPPED warnings of eitp.h: modules are compiled separately" ;;
*) check "the implementation compiles without a message" test -f "$library.messages" -a ! -s "$library.messages" ;;
esac

# ---- files at the root ----

if command -v git >/dev/null 2>&1; then
    script=$(pwd)/tools/check.sh
    mkdir -p "$work/checkout/src"
    git init -q "$work/checkout"
    : >"$work/checkout/README.md"
    : >"$work/checkout/src/module.c"
    check_root() {
        (cd "$work/checkout" && sh "$script" root >../out 2>&1)
    }
    check "listed files" check_root
    check "no message about them" test ! -s "$work/out"
    : >"$work/checkout/prompts.json"
    check "another file is refused" sh -c "! (cd '$work/checkout' && sh '$script' root) >'$work/out' 2>&1"
    check "by its name" grep -q '^prompts.json: not in the list of files at the root' "$work/out"
    check "once, alone" test "$(wc -l <"$work/out")" -eq 1
else
    echo "SKIPPED files at the root: git is not installed"
fi

# ---- install and uninstall, without building ----

files() {
    (cd "$work/root" && find . | sort)
}

root=$(pwd)/$work/root
printf '#!/bin/sh\necho "installed: $*"\n' >"$work/build/eitp"
chmod +x "$work/build/eitp"
mkdir -p "$root/opt/eitp test/bin" "$root/opt/eitp test/include"
: >"$root/opt/eitp test/bin/other"
: >"$root/opt/eitp test/include/eitp.hpp"
files >"$work/before"
check "install" run_make -o all install DESTDIR="$root" PREFIX='/opt/eitp test'
files >"$work/installed"
check "five files are installed" test "$(grep -c -e '/include/eitp\.h$' -e '/bin/eitp$' -e '/pkgconfig/eitp\.pc$' \
    -e '/bin/monitor_training\.sh$' -e '/bin/safe_train\.sh$' "$work/installed")" -eq 5
# runs NAME EXPECTED SCRIPT ARGUMENTS...: an installed script starts the command installed in the same directory.
runs() {
    name=$1
    expected="installed: $2"
    shift 2
    check "$name" test "$(cd / && unset EITP && "$root/opt/eitp test/bin/$name" "$@")" = "$expected"
}
runs monitor_training.sh "monitor --interval 5 out" out
runs safe_train.sh "safe-train -- train --data text" --data text
runs safe_train.sh "safe-train --nice 3 -- train" --nice 3 -- train
check "the header is eitp.h" cmp -s eitp.h "$root/opt/eitp test/include/eitp.h"
check "eitp.pc has the version" grep -q '^Version: [0-9]*\.[0-9]*\.[0-9]*$' "$root/opt/eitp test/lib/pkgconfig/eitp.pc"
check "uninstall" run_make uninstall DESTDIR="$root" PREFIX='/opt/eitp test'
files | grep -v '/lib$\|/lib/pkgconfig$' >"$work/after"
check "uninstall removes what was installed, and nothing else" cmp -s "$work/before" "$work/after"
check "uninstall again" run_make uninstall DESTDIR="$root" PREFIX='/opt/eitp test'

echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
