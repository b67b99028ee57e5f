#!/bin/sh
# A program compiled with one version of eitp.h does not link with the implementation of another, and the linker names
# the version. Tests each example, and a program that uses all functions with the version in their names.
LC_ALL=C
export LC_ALL
BUILD=${BUILD:-build} CC=${CC:-cc}
work=$BUILD/test_version
passed=0
failed=0
rm -rf "$work"
mkdir -p "$work/same" "$work/other" "$work/patch"

# The name of a check, and a command that must succeed.
check() {
    what=$1
    shift
    if "$@"; then passed=$((passed + 1)); else
        failed=$((failed + 1))
        echo "FAILED $what"
        tail -n 5 "$work/log" 2>/dev/null
    fi
}

# The implementation.
library=${LIBRARY:-$BUILD/packed/users.o}

header=$BUILD/declarations/eitp.h
cp "$header" "$work/same/eitp.h"
sed 's/^#define EITP_VERSION_MINOR .*/#define EITP_VERSION_MINOR 99/' "$header" >"$work/other/eitp.h"
sed 's/^#define EITP_VERSION_PATCH .*/#define EITP_VERSION_PATCH 99/' "$header" >"$work/patch/eitp.h"
major=$(sed -n 's/^#define EITP_VERSION_MAJOR //p' "$header")
names=$(sed -n 's/^#define \(eitp_[a-z0-9_]*\) EITP__VERSIONED(\1)$/\1/p' "$header")
check "functions have the version in their names" test "$(echo "$names" | wc -l)" -gt 5

compiles() { # version, file, options
    version=$1
    file=$2
    shift 2
    "$CC" "$@" -I"$work/$version" -c "$file" -o "$work/program.o" >"$work/log" 2>&1
}

links() { # libraries
    "$CC" "$work/program.o" "$library" $(cat "$BUILD/libraries") "$@" -o "$work/program" \
        >"$work/log" 2>&1
}

# True if linking fails because this function is missing.
lacks() { # function, libraries
    function=$1
    shift
    ! links "$@" && grep -q "undefined.*${function}_${major}_99\b" "$work/log"
}

{
    printf '#include "eitp.h"\n#include <stdio.h>\nint main() {\n'
    for name in $names; do
        printf '    printf("%%d\\n", (void *)&%s != (void *)main);\n' "$name"
    done
    printf '    return 0;\n}\n'
} >"$work/all.c"

in_language() { # options, and after "--" libraries
    options=
    while [ "$1" != -- ]; do
        options="$options $1"
        shift
    done
    shift
    check "all functions, the same version:$options" compiles same "$work/all.c" $options
    check "all functions, the same version:$options: linked" links "$@"
    check "all functions, another patch version:$options" compiles patch "$work/all.c" $options
    check "all functions, another patch version:$options: linked" links "$@"
    check "all functions, another version:$options" compiles other "$work/all.c" $options
    for name in $names; do
        check "$name, another version:$options: not linked" lacks "$name" "$@"
    done
}
in_language -std=c11 --
printf 'int main() { return 0; }\n' >"$work/probe.cc"
if "$CC" -std=c++17 "$work/probe.cc" -lstdc++ -o "$work/probe" >/dev/null 2>&1; then
    in_language -x c++ -std=c++17 -- -lstdc++
else
    echo "SKIPPED versions in C++: $CC compiles no C++"
fi

for example in examples/*.c; do
    check "$example, another version" compiles other "$example" -Iexamples
    check "$example, another version: not linked" lacks "eitp_[a-z_]*"
done

echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
