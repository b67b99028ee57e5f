#!/bin/sh
# The amalgamator on a small tree: its output, and that each violation of a rule is reported with its line and leaves
# the old eitp.h unchanged.
LC_ALL=C
export LC_ALL
BUILD=${BUILD:-build} CC=${CC:-cc}
work=$BUILD/test_amalgamate
passed=0
failed=0
rm -rf "$work"
mkdir -p "$work"
amalgamate=$work/amalgamate
"$CC" -std=c11 -o "$amalgamate" tools/amalgamate/*.c || {
    echo "0 passed, 1 failed"
    exit 1
}
tree=$work/tree

pass() {
    passed=$((passed + 1))
}

fail() {
    failed=$((failed + 1))
    echo "FAILED $*"
}

# A tree without findings.
fresh_tree() {
    rm -rf "$tree"
    for folder in src/base src/tensor src/optim kernels/ref kernels/cuda backends/cpu tools examples; do
        mkdir -p "$tree/$folder"
    done
    cat >"$tree/src/manifest" <<'END'
documentation:
src/documentation.h
public:
src/base/base.h # the first
private:
src/base/memory.h
kernels/kernels.h
implementation:
src/base/memory.c
kernels/ref/ref.c
END
    printf '/* A small tree. */\n' >"$tree/src/documentation.h"
    cat >"$tree/src/base/base.h" <<'END'
#ifndef EITP_BASE_H
#define EITP_BASE_H
#include <stddef.h>
#define EITP_API extern
#define EITP_LIMIT 3
typedef enum eitp_kind { EITP_KIND_A, EITP_KIND_B = (1 + 2) } eitp_kind;
typedef struct eitp_thing {
    int count;
    void (*visit)(void *user);
} eitp_thing;
EITP_API int eitp_count(const eitp_thing *thing);
#endif
END
    cat >"$tree/src/base/memory.h" <<'END'
#ifndef EITP_MEMORY_H
#define EITP_MEMORY_H
#include "base/base.h"
#define EITP__PRIVATE static __attribute__((unused))
typedef void (*eitp__visitor)(void *user);
EITP__PRIVATE void *eitp__allocate(size_t size);
EITP__PRIVATE void eitp__release(void *memory);
#endif
END
    cat >"$tree/src/base/memory.c" <<'END'
#include "base/memory.h"
#include <stdlib.h>
static const char *const eitp__names[] = {"one", "two"};
EITP__PRIVATE void *eitp__allocate(size_t size) {
    return malloc(size);
}
EITP__PRIVATE void eitp__release(void *memory) {
    free(memory);
}
int eitp_count(const eitp_thing *thing) {
    return thing->count + (int)eitp__names[0][0];
}
END
    printf '#ifndef EITP_KERNELS_H\n#define EITP_KERNELS_H\n#include "base/base.h"\n#endif\n' >"$tree/kernels/kernels.h"
    cat >"$tree/kernels/ref/ref.c" <<'END'
#include "kernels/kernels.h"
#define EITP__T float
#include "ref.inc"
#define EITP__T double
#include "ref.inc"
END
    cat >"$tree/kernels/ref/ref.inc" <<'END'
#define EITP__NAME_OF(t) eitp__twice_##t
#define EITP__NAME(t) EITP__NAME_OF(t)
__attribute__((unused)) static EITP__T EITP__NAME(EITP__T)(EITP__T x) {
    return x + x;
}
#undef EITP__T
#undef EITP__NAME
#undef EITP__NAME_OF
END
}

run() {
    "$amalgamate" --root "$tree" "$@" >"$work/out" 2>"$work/err"
}

# The tree is refused with this finding, and eitp.h is unchanged.
refused() {
    what=$1
    line=$2
    echo 'the old one' >"$tree/eitp.h"
    if run; then
        fail "$what: accepted"
    elif ! grep -qF "$line" "$work/err"; then
        fail "$what: no line with \"$line\" but"
        sed 's/^/    /' "$work/err"
    elif [ "$(cat "$tree/eitp.h")" != 'the old one' ] || [ -e "$tree/eitp.h.new" ]; then
        fail "$what: eitp.h was touched"
    else
        pass
    fi
    fresh_tree
}

accepted() {
    if run; then pass; else
        fail "$1: refused"
        sed 's/^/    /' "$work/err"
    fi
    fresh_tree
}

add() { # a module of the implementation, with its content
    printf '%b' "$2" >"$tree/$1"
    echo "$1" >>"$tree/src/manifest"
}

# The index: types and functions of public headers in order, each with the first sentence of its comment.
fresh_tree
sed 's|^EITP_API int eitp_count|/* ---- Things ---- */\n\n/*\n * Counts things, e.g. 3. Others\n * are not.\n */\n&|
    s|^#endif$|EITP_API void eitp_forget(void);\n/* A sentence that is longer than a line of the index has room for, and so it is cut at a word. */\nEITP_API char *eitp_name(int number);\n&|' \
    "$tree/src/base/base.h" >"$work/base.h"
cp "$work/base.h" "$tree/src/base/base.h"
cat >"$work/expected" <<'END'
 * INDEX: each public type and function, with the first sentence of its documentation below.
 *
 * TYPES
 *
 *   src/base/base.h
 *  eitp_kind
 *  eitp_thing
 *
 * FUNCTIONS
 *
 *   src/base/base.h
 *  eitp_count                              Counts things, e.g. 3
 *  eitp_forget
 *  eitp_name                               A sentence that is longer than a line of the index has room for, and so ...
 */
END
if run && sed -n '/^ \* INDEX/,/^ \*\//p' "$tree/eitp.h" | diff - "$work/expected"; then pass; else fail "the index"; fi
fresh_tree


# ---- output ----

if run && run --check; then pass; else fail "a tree without findings: $(cat "$work/err")"; fi
cp "$tree/eitp.h" "$work/first.h"
run
if cmp -s "$tree/eitp.h" "$work/first.h"; then pass; else fail "two runs differ"; fi
if [ "$(grep -c '>>kernels/ref/ref.inc' "$work/first.h")" = 2 ]; then pass; else fail "a short template is pasted each time"; fi
if grep -q EITP_FILE "$work/first.h"; then fail "eitp.h includes itself for short templates"; else pass; fi
if grep -q '#include "' "$work/first.h"; then fail "a local include is left"; else pass; fi
if grep -q 'EITP_MEMORY_H' "$work/first.h"; then fail "an include guard is left"; else pass; fi
cat >"$work/program.c" <<'END'
#include <stdio.h>
#include "eitp.h"
#define EITP_IMPLEMENTATION
#include "eitp.h"
#include "eitp.h"
int main(void) {
    eitp_thing thing = {1, NULL};
    return eitp_count(&thing) != 1 + 'o' || eitp__twice_float(2) != 4 || eitp__twice_double(3) != 6;
}
END
if "$CC" -std=c11 -Wall -I"$tree" "$work/program.c" -o "$work/program" && "$work/program"; then
    pass
else
    fail "a program"
fi

# Long templates are in eitp.h once. long.inc and last.inc have two instances each.
long_templates() {
    {
        printf '/* Long. */\n'
        yes '' | head -n 400
        printf '__attribute__((unused)) static EITP__T EITP__LONG(EITP__T x) {\n    return x * 3;\n}\n'
    } >"$tree/kernels/ref/long.inc"
    {
        printf '#include "kernels/ref/nested.inc"\n#undef EITP__T\n#undef EITP__LONG\n#undef EITP__NESTED\n'
    } >"$tree/kernels/ref/last.inc"
    printf '__attribute__((unused)) static EITP__T EITP__NESTED(EITP__T x) {\n    return x * 5;\n}\n' \
        >"$tree/kernels/ref/nested.inc"
    for type in int long; do
        printf '#define EITP__T %s\n#define EITP__LONG eitp__long_%s\n#define EITP__NESTED eitp__nested_%s\n' \
            $type $type $type
        printf '#include "long.inc"\n#include "last.inc"\n'
    done >>"$tree/kernels/ref/ref.c"
}

long_templates
run
header=$tree/eitp.h
if [ "$(grep -c 'x \* 3' "$header")" = 1 ] && [ "$(grep -c 'x \* 5' "$header")" = 1 ]; then pass; else
    fail "a long template is in eitp.h once"
fi
if [ "$(grep -c '^#include EITP_FILE$' "$header")" = 2 ]; then pass; else fail "one inclusion for consecutive lines"; fi

# The header under other names and in other directories, included in every way.
cat >"$work/long.c" <<'END'
#define EITP_IMPLEMENTATION
#include HEADER
#include HEADER
int main(void) {
    eitp_thing thing = {1, NULL};
    return eitp_count(&thing) != 1 + 'o' || eitp__long_int(2) != 6 || eitp__long_long(2) != 6 ||
           eitp__nested_int(2) != 10 || eitp__nested_long(2) != 10;
}
END
places=$work/places
mkdir -p "$places/include" "$places/link" "$places/a b"
cp "$header" "$places/include/eitp.h"
cp "$header" "$places/include/renamed.hpp"
cp "$header" "$places/a b/eitp.h"
ln -s ../include/eitp.h "$places/link/other.h"
cp "$work/long.c" "$places/link/long.c"

finds() { # what is tested, the file to compile, options
    what=$1
    file=$2
    shift 2
    if "$CC" -Wall -Werror "$@" "$file" -o "$work/program" >"$work/err" 2>&1 && "$work/program"; then pass; else
        fail "$what:"
        sed 's/^/    /' "$work/err"
    fi
}

finds "eitp.h in quotes" "$work/long.c" -std=c11 -I"$places/include" '-DHEADER="eitp.h"'
finds "eitp.h in angle brackets" "$work/long.c" -std=c11 -I"$places/include" '-DHEADER=<eitp.h>'
finds "a relative path" "$places/link/long.c" -std=c11 '-DHEADER="../include/eitp.h"'
finds "an absolute path" "$work/long.c" -std=c11 "-DHEADER=\"$(cd "$places" && pwd)/a b/eitp.h\""
finds "a compiler that does not know the name of a file" "$work/long.c" -std=c11 -I"$places/include" \
    '-DHEADER="eitp.h"' '-DEITP_FILE="eitp.h"'
finds "a name of the program's own" "$work/long.c" -std=c11 -I"$places/include" '-DHEADER="renamed.hpp"' \
    '-DEITP_FILE="renamed.hpp"'
printf 'int main() { return 0; }\n' >"$work/probe.cpp"
if "$CC" -std=c++17 "$work/probe.cpp" -o "$work/probe" 2>/dev/null; then
    finds "C++" "$work/long.c" -x c++ -std=c++17 -I"$places/include" '-DHEADER="eitp.h"'
else
    echo "SKIPPED eitp.h in C++: $CC compiles no C++"
fi
if printf '#ifndef __FILE_NAME__\n#error\n#endif\n' | "$CC" -fsyntax-only -x c - 2>/dev/null; then
    finds "another name" "$work/long.c" -std=c11 -I"$places/include" '-DHEADER="renamed.hpp"'
    finds "a symbolic link" "$work/long.c" -std=c11 -I"$places/link" '-DHEADER="other.h"'
fi
"$CC" -std=c11 -E -I"$places/include" '-DHEADER="eitp.h"' "$work/long.c" >"$work/preprocessed.i"
finds "preprocessed before" "$work/preprocessed.i" -std=c11
if "$CC" -std=c11 -E -fdirectives-only -I"$places/include" '-DHEADER="eitp.h"' "$work/long.c" >"$work/directives.c" \
    2>/dev/null; then
    finds "-fdirectives-only" "$work/directives.c" -std=c11 -fpreprocessed -fdirectives-only
fi
mkdir -p "$places/precompiled"
cp "$header" "$places/precompiled/eitp.h"
if "$CC" -std=c11 -Wall -DEITP_IMPLEMENTATION= -x c-header "$places/precompiled/eitp.h" -o "$places/precompiled/eitp.h.gch" 2>"$work/err"; then
    finds "a precompiled header" "$work/long.c" -std=c11 -Winvalid-pch -DEITP_IMPLEMENTATION= -I"$places/precompiled" '-DHEADER="eitp.h"'
else
    fail "a precompiled header: $(cat "$work/err")"
fi

says() { # what is tested, what the compiler says, options
    what=$1
    line=$2
    shift 2
    if "$CC" -std=c11 -fsyntax-only -I"$places/include" "$@" "$work/long.c" >"$work/err" 2>&1; then
        fail "$what: accepted"
    elif grep -qF "$line" "$work/err"; then pass; else
        fail "$what: no \"$line\" but"
        sed 's/^/    /' "$work/err"
    fi
}

says "a name that is not there" 'define it as that name, in quotes' '-DHEADER="renamed.hpp"' '-DEITP_FILE="gone.h"'
printf '/* not eitp */\n' >"$places/include/wrong.h"
says "the name of another file" 'EITP_FILE names another file' '-DHEADER="eitp.h"' '-DEITP_FILE="wrong.h"'
fresh_tree

run --list private
if [ "$(cat "$work/out")" = "src/base/memory.h
kernels/kernels.h" ]; then pass; else fail "--list private"; fi

# ---- private functions ----

# Modules with private functions of every kind. Nothing before last.c calls its functions.
private_tree() {
    sed '/^#endif$/d' "$tree/src/base/memory.h" >"$work/memory.h"
    cat >>"$work/memory.h" <<'END'

/* ---- Plain ---- */

/* Doubles. */
EITP__PRIVATE int eitp__double(int x);

/* Triples,
   in two lines. */
EITP__PRIVATE int eitp__triple(int x,
                               int y);
/* The same, halved; and squared. */
EITP__PRIVATE int eitp__half(int x), eitp__square(int x);

/* ---- Others ---- */

/* Called before it is defined. */
EITP__PRIVATE int eitp__even(int x);
#define EITP__NOTE __attribute__((nonnull))
/* Has an attribute. */
EITP__PRIVATE int eitp__first(const int *x) EITP__NOTE;
/* A header calls it. */
EITP__PRIVATE int eitp__low(void);
static __attribute__((unused)) int eitp__lower(void) {
    return eitp__low() - 1;
}
/* Declared by a macro, or called by one. */
#define EITP__DECLARE(name) EITP__PRIVATE int eitp__##name(void);
#define EITP__CALL(name) eitp__##name()
EITP__DECLARE(made)
EITP__PRIVATE int eitp__called(void);
/* Not called. */
EITP__PRIVATE int eitp__idle(void);
/* One is called before it is defined, the other stands beside it. */
EITP__PRIVATE int eitp__odd(int x), eitp__beside(int x);

/* Adds. */
EITP__PRIVATE int eitp__sum(void);
#endif
END
    cp "$work/memory.h" "$tree/src/base/memory.h"
    cat >"$tree/src/base/private.c" <<'END'
#include "base/memory.h"
EITP__PRIVATE int eitp__double(int x) {
    return 2 * x;
}
EITP__PRIVATE int eitp__triple(int x, int y) {
    return y ? 3 * x : eitp__triple(x, 1);
}
EITP__PRIVATE int eitp__half(int x) {
    return x / 2;
}
EITP__PRIVATE int eitp__square(int x) {
    return x * x;
}
EITP__PRIVATE int eitp__beside(int x) {
    return x && eitp__odd(x);
}
EITP__PRIVATE int eitp__odd(int x) {
    return x && eitp__even(x - 1);
}
EITP__PRIVATE int eitp__even(int x) {
    return !x || eitp__odd(x - 1);
}
EITP__PRIVATE int eitp__first(const int *x) {
    return *x;
}
EITP__PRIVATE int eitp__low(void) {
    return 1;
}
EITP__PRIVATE int eitp__made(void) {
    return EITP__CALL(called);
}
EITP__PRIVATE int eitp__called(void) {
    return 4;
}
EITP__PRIVATE int eitp__idle(void) {
    return 5;
}
END
    cat >"$tree/src/base/last.c" <<'END'
#include "base/memory.h"
EITP__PRIVATE int eitp__sum(void) {
    int x = 3;
    return eitp__double(1) + eitp__triple(1, 0) + eitp__half(2) + eitp__square(2) + eitp__even(2) + eitp__first(&x) +
           eitp__lower() + EITP__CALL(made) + eitp__beside(3);
}
int eitp_sum(void) {
    return eitp__sum();
}
END
}

# The prototypes expected in eitp.h, and for each the required text: its comment.
cat >"$work/expected" <<'END'
/* ---- Others ---- */

/* Called before it is defined. */
EITP__PRIVATE int eitp__even(int x);
#define EITP__NOTE __attribute__((nonnull))
/* Has an attribute. */
EITP__PRIVATE int eitp__first(const int *x) EITP__NOTE;
/* A header calls it. */
EITP__PRIVATE int eitp__low(void);
static __attribute__((unused)) int eitp__lower(void) {
    return eitp__low() - 1;
}
/* Declared by a macro, or called by one. */
#define EITP__DECLARE(name) EITP__PRIVATE int eitp__##name(void);
#define EITP__CALL(name) eitp__##name()
EITP__DECLARE(made)
EITP__PRIVATE int eitp__called(void);
/* Not called. */
EITP__PRIVATE int eitp__idle(void);
/* One is called before it is defined, the other stands beside it. */
EITP__PRIVATE int eitp__odd(int x), eitp__beside(int x);
/* <<src/base/memory.h */
END
private_tree
printf '%s\n' src/base/private.c src/base/last.c >>"$tree/src/manifest"
sed -i.old 's/EITP__CALL(called);/4;/' "$tree/src/base/private.c" && rm "$tree/src/base/private.c.old"
if run && sed -n '/---- /,/<</p' "$tree/eitp.h" | diff - "$work/expected" >"$work/err"; then pass; else
    fail "prototypes that are needed: $(cat "$work/err")"
fi
cat >"$work/private.c" <<'END'
int eitp_sum(void);
#define EITP_IMPLEMENTATION
#include "eitp.h"
int main(void) {
    return eitp_sum() != 2 + 3 + 1 + 4 + 1 + 3 + 0 + 4 + 1;
}
END
finds "functions without prototypes" "$work/private.c" -std=c11 -Wmissing-prototypes -I"$tree"

# A header of which nothing remains.
fresh_tree
printf '/* Empty. */\n#ifndef EITP_ONE_H\n#define EITP_ONE_H\n#include "base/memory.h"\n/* One. */\nEITP__PRIVATE int eitp__one(void);\n#endif\n' \
    >"$tree/src/base/one.h"
sed -i.old 's|^kernels/kernels.h$|&\nsrc/base/one.h|' "$tree/src/manifest" && rm "$tree/src/manifest.old"
add src/base/one.c '#include "base/one.h"\nEITP__PRIVATE int eitp__one(void) {\n    return 1;\n}\nint eitp_one(void) {\n    return eitp__one();\n}\n'
if run && ! grep -q 'one\.h\|One\.' "$tree/eitp.h"; then pass; else fail "a header of which nothing is left: $(cat "$work/err")"; fi
fresh_tree

# ---- parts ----

# The tree in two parts: private.c, which only calls itself, and last.c, which calls it.
parts_tree() {
    private_tree
    sed -i.old 's|#define EITP_LIMIT 3|&\n#define EITP__VERSIONED(name) name##_1|
        s|#define EITP_API extern|#ifndef EITP_API\n&\n#endif|
        s|^EITP_API int eitp_count|EITP_API int eitp_sum(void);\n&|' "$tree/src/base/base.h"
    sed -i.old '/^#define EITP__PRIVATE/d' "$tree/src/base/memory.h"
    sed -n '/^#ifdef EITP_SPLIT/,/^$/p' src/base/platform.h >"$work/linkage.h"
    sed -i.old "/^#include \"base\/base.h\"/r $work/linkage.h" "$tree/src/base/memory.h"
    sed -i.old 's|^typedef void (\*eitp__visitor|#define EITP__UNUSED __attribute__((unused))\n&|' "$tree/src/base/memory.h"
    sed -i.old 's|^src/base/memory\.c|part 1:\n&|' "$tree/src/manifest"
    printf '%s\n' src/base/private.c 'part 2:' src/base/last.c >>"$tree/src/manifest"
    find "$tree" -name '*.old' -exec rm {} +
}

compile_part() { # part, options
    part=$1
    shift
    "$CC" -std=c11 -Wall -Wextra -Wmissing-prototypes -Werror -I"$tree" -DEITP_IMPLEMENTATION "-DEITP_PART=$part" "$@" \
        -x c -c "$tree/eitp.h" -o "$work/part-$part.o" 2>"$work/err"
}

links() { # objects...
    "$CC" -std=c11 -x c "$work/sum.c" -x none "$@" -o "$work/program" 2>"$work/err" && "$work/program"
}

refuses() { # what is tested, what is said, command...
    what=$1
    line=$2
    shift 2
    if "$@"; then
        fail "$what: accepted"
    elif grep -q "$line" "$work/err"; then pass; else
        fail "$what: no \"$line\" but"
        sed 's/^/    /' "$work/err"
    fi
}

printf 'int eitp_sum(void);\nint main(void) {\n    return eitp_sum() != 19;\n}\n' >"$work/sum.c"
parts_tree
if run; then pass; else fail "a tree of parts: $(cat "$work/err")"; fi
if compile_part 1 && compile_part 2 && links "$work/part-1.o" "$work/part-2.o"; then pass; else
    fail "two parts: $(cat "$work/err")"
fi
finds "parts in one file" "$work/private.c" -std=c11 -Wmissing-prototypes -I"$tree"
refuses "a part that is missing" 'eitp__part_2_1' links "$work/part-1.o"
cp "$work/part-1.o" "$work/part-1-again.o"
refuses "a part that is there twice" 'eitp__part_1_1' links "$work/part-1.o" "$work/part-1-again.o" "$work/part-2.o"
refuses "a part that is not there" 'EITP_PART is the number of a part, 1 to 2' compile_part 3
refuses "a part without a number" 'EITP_PART is the number of a part, 1 to 2' compile_part ''
refuses "part 0" 'EITP_PART is the number of a part, 1 to 2' compile_part 0
refuses "parts and EITP_API static" 'so EITP_API cannot be static' compile_part 1 -DEITP_API=static
refuses "parts and EITP_API static inline" 'so EITP_API cannot be static' compile_part 1 '-DEITP_API=static inline'
if [ "$(grep -c 'error:.*cannot be static' "$work/err")" = 1 ]; then pass; else fail "one error: $(cat "$work/err")"; fi
if compile_part 1 '-DEITP_API=extern __attribute__((visibility("default")))'; then pass; else
    fail "parts and another EITP_API: $(cat "$work/err")"
fi
if grep -q '^EITP__LOCAL int eitp__sum' "$tree/eitp.h" && grep -q '^EITP__PRIVATE int eitp__double(int x) {' "$tree/eitp.h"; then
    pass
else
    fail "functions of one part are local, others are not"
fi
if ! command -v readelf >/dev/null 2>&1; then
    echo "SKIPPED hidden functions: readelf is not installed"
elif readelf -sW "$work/part-1.o" | grep -q 'HIDDEN .* eitp__double$' &&
    ! readelf -sW "$work/part-1.o" "$work/part-2.o" | grep -q 'GLOBAL *DEFAULT *[0-9]* eitp__'; then
    pass
else
    fail "functions that parts call are hidden: $(readelf -sW "$work/part-1.o")"
fi
fresh_tree

printf 'part 1:\nsrc/base/private.c\n' >>"$tree/src/manifest"
cp src/base/json.c "$tree/src/base/private.c"
refused "a module in no part" "src/manifest:9: src/base/memory.c is not in a part"
sed -i.old 's|^src/base/memory\.c|part 2:\n&|' "$tree/src/manifest" && rm "$tree/src/manifest.old"
refused "a number that is left out" "src/manifest:1: no module is in part 1 of 2"
sed -i.old 's|^src/base/memory\.c|part 10:\n&|' "$tree/src/manifest" && rm "$tree/src/manifest.old"
refused "too many parts" "src/manifest:9: there are at most 9 parts"
sed -i.old 's|^src/base/memory\.c|part one:\n&|' "$tree/src/manifest" && rm "$tree/src/manifest.old"
refused "a part without a number" "src/manifest:9: unknown section \`part one:\`"

# ---- switches ----

# more.c can be left out, with its functions in more.h, and last.c with either of two switches.
switches_tree() {
    sed -i.old 's|^EITP_API int eitp_count.*|&\
\
/* Of more.c. */\
EITP_API int eitp_more(void);\
\
/* Of more.c, too. */\
EITP_API int eitp_most(int x,\
                       int y);\
/* A type. */\
typedef int eitp_number;\
EITP_API int eitp_last(void); /* of last.c */|' "$tree/src/base/base.h" && rm "$tree/src/base/base.h.old"
    add src/base/more.c '#include "base/base.h"\nint eitp_more(void) {\n    return 1;\n}\nint eitp_most(int x, int y) {\n    return x + y;\n}\n'
    add src/base/last.c '#include "base/base.h"\nint eitp_last(void) {\n    return 2;\n}\n'
    printf 'switches:\nEITP_WITHOUT_MORE src/base/more src/base/last.c\nEITP_WITHOUT_LAST src/base/last.c\n' >>"$tree/src/manifest"
}

cat >"$work/expected" <<'END'
EITP_API int eitp_count(const eitp_thing *thing);

#if !EITP_WITHOUT_MORE
/* Of more.c. */
EITP_API int eitp_more(void);

/* Of more.c, too. */
EITP_API int eitp_most(int x,
                       int y);
#endif
/* A type. */
typedef int eitp_number;
#if !EITP_WITHOUT_MORE && !EITP_WITHOUT_LAST
EITP_API int eitp_last(void); /* of last.c */
#endif
/* <<src/base/base.h */

#if EITP_WITHOUT_MORE
#define eitp_more (eitp_more_is_left_out_by_EITP_WITHOUT_MORE)
#define eitp_most (eitp_most_is_left_out_by_EITP_WITHOUT_MORE)
#endif

#if EITP_WITHOUT_MORE
#define eitp_last (eitp_last_is_left_out_by_EITP_WITHOUT_MORE)
#endif

#if EITP_WITHOUT_LAST && !EITP_WITHOUT_MORE
#define eitp_last (eitp_last_is_left_out_by_EITP_WITHOUT_LAST)
#endif

#endif /* EITP_H */
END
switches_tree
if run && sed -n '/^EITP_API int eitp_count/,/^#endif .* EITP_H/p' "$tree/eitp.h" | diff - "$work/expected" >"$work/err"; then pass; else
    fail "what is left out: $(cat "$work/err")"
fi
cat >"$work/switched.c" <<'END'
#define EITP_IMPLEMENTATION
#include "eitp.h"
int main(void) {
    return CALL;
}
END
finds "nothing left out" "$work/switched.c" -std=c11 -I"$tree" '-DCALL=eitp_more() + eitp_last() - 3'
finds "one left out" "$work/switched.c" -std=c11 -I"$tree" -DEITP_WITHOUT_LAST=1 '-DCALL=eitp_most(1, 2) - 3'
finds "both left out" "$work/switched.c" -std=c11 -I"$tree" -DEITP_WITHOUT_MORE=1 '-DCALL=(eitp_number)0'
leaves_out() { # options
    "$CC" -std=c11 -fsyntax-only -I"$tree" "$@" "$work/switched.c" >"$work/err" 2>&1
}
refuses "a call of what is left out" 'eitp_last_is_left_out_by_EITP_WITHOUT_LAST' \
    leaves_out -DEITP_WITHOUT_LAST=1 '-DCALL=eitp_last()'
refuses "a call of what both leave out" 'eitp_last_is_left_out_by_EITP_WITHOUT_MORE' \
    leaves_out -DEITP_WITHOUT_LAST=1 -DEITP_WITHOUT_MORE=1 '-DCALL=eitp_last()'
fresh_tree
printf 'switches:\nEITP_WITHOUT_MORE src/base/more\n' >>"$tree/src/manifest"
refused "a switch of no module" "EITP_WITHOUT_MORE: the path of no module starts with src/base/more"
printf 'switches:\nMORE src/base/memory\n' >>"$tree/src/manifest"
refused "a switch with another name" "src/manifest:12: give a macro EITP_WITHOUT_..."
printf 'switches:\nEITP_WITHOUT_MORE\n' >>"$tree/src/manifest"
refused "a switch without modules" "src/manifest:12: give a macro EITP_WITHOUT_..."

# ---- the freshness check ----

run
echo '/* changed by hand */' >>"$tree/eitp.h"
if run --check || ! grep -q 'make eitp.h' "$work/err"; then fail "a changed eitp.h"; else pass; fi
rm "$tree/eitp.h"
if run --check || ! grep -q 'make eitp.h' "$work/err"; then fail "no eitp.h"; else pass; fi
run
echo '/* one more line */' >>"$tree/src/base/memory.c"
if run --check || ! grep -q 'make eitp.h' "$work/err"; then fail "a stale eitp.h"; else pass; fi
fresh_tree
mkdir "$tree/eitp.h.new"
echo 'the old one' >"$tree/eitp.h"
if run || [ "$(cat "$tree/eitp.h")" != 'the old one' ]; then fail "a write error"; else pass; fi
fresh_tree

# ---- the manifest ----

rm "$tree/src/manifest"
refused "no manifest" "src/manifest:1: cannot read it"
echo 'src/base/gone.c' >>"$tree/src/manifest"
refused "a missing file" "src/manifest:11: src/base/gone.c: cannot read it"
echo 'kernels/ref/ref.c' >>"$tree/src/manifest"
refused "a file listed twice" "src/manifest:11: kernels/ref/ref.c is listed twice"
echo 'secret:' >>"$tree/src/manifest"
refused "an unknown section" "src/manifest:11: unknown section"
echo 'src/base/base.inc' >>"$tree/src/manifest"
refused "a template in the list" "src/manifest:11: src/base/base.inc is not a .c file"
echo 'int eitp_x(void);' >"$tree/src/tensor/x.c"
refused "a file that nothing uses" "src/tensor/x.c:1: nothing uses this file"
touch "$tree/kernels/spare.inc"
refused "a template that nothing uses" "kernels/spare.inc:1: nothing uses this file"

# ---- files embedded as text ----

# A file that exercises every rule for removing text, and the expected remaining text.
text_tree() {
    fresh_tree
    mkdir "$tree/kernels/cuda/base"
    cat >"$tree/kernels/cuda/a.cu" <<'END'
/* Every rule
 * of "texts". */
#include "base/base.h"
#include <stdint.h>
  #  include <a.h> /* of the system */
#include \
    <b.h>
#include "base/platform.h" // "ours"

#define TWICE(x)    \
    /* doubled */   \
    ((x) + (x)) // not \
    thrice
#define NAME a\
/**/b
#define LONG /* over
    two lines */ 3 \

    #pragma unroll
static const char *const line = "a \"quoted\" // line /* and */ \\"; /* it's "gone" */
static const char quotes[] = {'"', '\'', '\\', '/'}; // '"'

	int tab = 1'000; /* 1'0 */ int	inner = 2;
    const char *two = "begin \
    end", *trigraph = "what??=???/", *tabbed = "	";

// nothing \
   but "comment"
/* a line that */ \
/* is empty */
    for (int i = 9; i > a/b / *p; --i) /**/ f(i/**/+1);   /* one */ /* two */
    int last = 0; /* ends
    here */ int really = 1;
END
    cat >"$work/a.expected" <<'END'
#include "base/base.h"
#include "base/platform.h"
#define TWICE(x)    \
    \
    ((x) + (x))
#define NAME a\
 b
#define LONG 3 \

#pragma unroll
static const char *const line = "a \"quoted\" // line /* and */ \\";
static const char quotes[] = {'"', '\'', '\\', '/'};
int tab = 1'000; int	inner = 2;
const char *two = "begin \
    end", *trigraph = "what??=???/", *tabbed = "	";
for (int i = 9; i > a/b / *p; --i) f(i +1);
int last = 0; int really = 1;
END
    # Far longer than a literal may be, with lines that are too long for a line of eitp.h.
    awk 'BEGIN { for (i = 0; i < 600; i++) printf "\"%d\\\\%s\"\n", i, i % 7 ? "\\\"\\\"\\\"\\\"\\\"\\\"\\\"\\\"" : "" }' \
        </dev/null >"$tree/kernels/cuda/long.cuh"
    awk 'BEGIN { for (i = 0; i < 9000; i++) printf "x"; printf ";\n%0116d\n", 1 }' </dev/null >>"$tree/kernels/cuda/long.cuh"
    printf '/* For kernels. */\n' >"$tree/kernels/cuda/base/platform.h"
    cat >"$tree/kernels/ref/texts.c" <<'END'
#include "base/base.h"
#include "kernels/cuda/texts.inc"
const char *eitp_text(size_t text, size_t piece) {
    if (text >= sizeof eitp__cuda_texts / sizeof *eitp__cuda_texts)
        return NULL;
    return piece == 0 ? eitp__cuda_texts[text].name : eitp__cuda_texts[text].pieces[piece - 1];
}
END
    sed 's/^EITP_API int/EITP_API const char *eitp_text(size_t text, size_t piece);\n&/' "$tree/src/base/base.h" \
        >"$work/base.h"
    cp "$work/base.h" "$tree/src/base/base.h"
    printf '%s\n' kernels/ref/texts.c texts: src/base/base.h kernels/cuda/base/platform.h kernels/cuda/a.cu \
        'kernels/cuda/long.cuh # the last' >>"$tree/src/manifest"
}

cat >"$work/print.c" <<'END'
#include <stdio.h>
#include <string.h>
#include "eitp.h"
int main(int argc, char **argv) {
    size_t text, piece;
    for (text = 0; eitp_text(text, 0); text++) {
        if (argc < 2)
            puts(eitp_text(text, 0));
        for (piece = 1; eitp_text(text, piece); piece++) {
            if (argc > 1 && strcmp(argv[1], eitp_text(text, 0)) == 0)
                fputs(eitp_text(text, piece), stdout);
            if (strlen(eitp_text(text, piece)) > 4000)
                return 1;
        }
    }
    return 0;
}
END
prints() { # what is tested, the file with what is expected, argument
    if "$work/print" $3 >"$work/out" && diff "$2" "$work/out" >"$work/err"; then pass; else
        fail "$1:"
        sed 's/^/    /' "$work/err"
    fi
}

text_tree
printf '%s\n' base/base.h base/platform.h kernels/cuda/a.cu kernels/cuda/long.cuh >"$work/names"
strict='-Wall -Wextra -Wpedantic -Woverlength-strings -Wtrigraphs -Wno-unused-function -Werror'
if run && run --check; then pass; else fail "a tree with texts: $(cat "$work/err")"; fi
if awk '/>>kernels\/cuda\/texts.inc/, /<<kernels\/cuda\/texts.inc/ { if (length($0) > 120) exit 1 }' "$tree/eitp.h"; then
    pass
else
    fail "texts are in lines of at most 120 columns"
fi
printf '#define EITP_IMPLEMENTATION\n#include "eitp.h"\n' >"$work/implementation.c"
run --texts
mkdir -p "$work/made/kernels/cuda"
cp "$work/out" "$work/made/kernels/cuda/texts.inc"
for way in "eitp.h" "modules apart"; do
    case $way in
    eitp.h) files=$work/implementation.c ;;
    *) files="-I$work/made -I$tree/src $tree/kernels/ref/texts.c" ;;
    esac
    if "$CC" -std=c11 $strict -I"$tree" "$work/print.c" $files -o "$work/print" 2>"$work/err"; then pass; else
        fail "$way with texts: $(cat "$work/err")"
    fi
    prints "$way: the names of texts" "$work/names"
    prints "$way: a text" "$work/a.expected" kernels/cuda/a.cu
    prints "$way: a long text" "$tree/kernels/cuda/long.cuh" kernels/cuda/long.cuh
    prints "$way: an empty text" /dev/null base/platform.h
    sed '/<stddef.h>/d; s/^  *//' "$tree/src/base/base.h" >"$work/base.expected"
    prints "$way: a text that is a module" "$work/base.expected" base/base.h
done
run --list texts
if [ "$(cat "$work/out")" = "src/base/base.h
kernels/cuda/base/platform.h
kernels/cuda/a.cu
kernels/cuda/long.cuh" ]; then pass; else fail "--list texts"; fi
echo 'int more;' >>"$tree/kernels/cuda/a.cu"
if run --check || ! grep -q 'make eitp.h' "$work/err"; then fail "a text that eitp.h contains unchanged"; else pass; fi
if run && run --check; then pass; else fail "a changed text"; fi
echo '/* a comment */' >>"$tree/kernels/cuda/a.cu"
if run --check; then pass; else fail "a text whose comments changed: $(cat "$work/err")"; fi
if run --texts --check || [ $? != 2 ]; then fail "--texts --check"; else pass; fi

text_tree
rm "$tree/kernels/cuda/a.cu"
refused "a text that is missing" "src/manifest:15: kernels/cuda/a.cu: cannot read it"
text_tree
rm "$tree/kernels/cuda/a.cu"
if run --texts || [ -s "$work/out" ] || ! grep -q 'kernels/cuda/a.cu: cannot read it' "$work/err"; then
    fail "--texts and a text that is missing"
else
    pass
fi
text_tree
echo 'kernels/cuda/a.cu' >>"$tree/src/manifest"
refused "a text listed twice" "src/manifest:17: kernels/cuda/a.cu is listed twice"
text_tree
touch "$tree/src/base/platform.h"
echo 'src/base/platform.h' >>"$tree/src/manifest"
refused "two texts of one name" \
    'src/manifest:17: src/base/platform.h and kernels/cuda/base/platform.h would both be included as "base/platform.h"'
text_tree
echo 'src/base/memory.c' >>"$tree/src/manifest"
refused "a text that is no header" "src/manifest:17: src/base/memory.c is not a .h, .inc, .cu or .cuh file"
text_tree
sed '/^texts:/,$d' "$tree/src/manifest" >"$work/manifest"
(cat "$work/manifest" && echo texts:) >"$tree/src/manifest"
refused "no texts, but a module that has them" "kernels/ref/texts.c:2: kernels/cuda/texts.inc is generated from the files under"
echo 'texts:' >>"$tree/src/manifest"
accepted "no texts"
text_tree
touch "$tree/kernels/cuda/b.cuh"
refused "a file for kernels that is no text" "kernels/cuda/b.cuh:1: nothing uses this file"
text_tree
touch "$tree/kernels/cuda/texts.inc"
refused "a file in the place of the template" "kernels/cuda/texts.inc:1: this template is generated from"
text_tree
printf '\n/* \303\251 */\n' >"$tree/kernels/cuda/base/platform.h"
refused "a text with a letter beyond ASCII" "kernels/cuda/base/platform.h:2: byte 0xc3"
text_tree
echo 'src/base/only.h' >>"$tree/src/manifest"
printf '/* \303\251 */\n' >"$tree/src/base/only.h"
refused "a text outside of kernels/cuda/ with a letter beyond ASCII" "src/base/only.h:1: byte 0xc3"
text_tree
printf '\nconst char *a = R"(x)";\n' >"$tree/kernels/cuda/base/platform.h"
refused "a text with a raw string" "kernels/cuda/base/platform.h:2: a raw string"

# ---- includes and layers ----

add src/base/a.c '#include "kernels/kernels.h"\n'
refused "base sees kernels" "src/base/a.c:1: src/base/ may not include kernels/kernels.h"
add kernels/ref/a.c '#include "base/memory.h"\n'
refused "a kernel sees memory" "kernels/ref/a.c:1: kernels/ may not include src/base/memory.h"
add src/optim/a.c '#include "kernels/kernels.h"\n'
refused "an optimizer sees kernels" "src/optim/a.c:1: src/optim/ may not include kernels/kernels.h"
add src/tensor/a.c '#include "kernels/kernels.h"\n#include "base/memory.h"\n'
accepted "a tensor module sees the slots"
mkdir "$tree/src/odd"
add src/odd/a.c '#include "base/memory.h"\n'
refused "a folder that is not a layer" "src/odd/a.c:1: the folder is not a layer"
echo '#include "base/memory.h"' >"$tree/examples/a.c"
refused "an example sees the inside" "examples/a.c:1: examples/ may not include src/base/memory.h"
echo '#include "eitp.h"' >"$tree/examples/a.c"
accepted "an example sees eitp.h"
mkdir -p "$tree/tools/command/base" "$tree/tools/command/data"
echo '#include "base/memory.h"' >"$tree/tools/command/data/a.c"
refused "the command sees the inside" 'tools/command/data/a.c:1: "base/memory.h" is not found next to the file, in tools/command/'
mkdir -p "$tree/tools/command/base" "$tree/tools/command/data"
echo '#include "base/memory.h"' >"$tree/tools/command/data/a.c"
touch "$tree/tools/command/base/memory.h"
accepted "a room of the command sees another one, whatever src/ has of this name"
echo '#include <immintrin.h>' >"$tree/kernels/cuda/a.cu"
refused "CUDA and immintrin.h" "kernels/cuda/a.cu:1: kernels/cuda/ must not include immintrin.h"
add src/base/a.c '#include "base/none.h"\n'
refused "an include of nothing" 'src/base/a.c:1: "base/none.h" is not found'
sed -i.old 's/#include "base\/base.h"/#include "base\/late.h"/' "$tree/src/base/memory.h" && rm "$tree/src/base/memory.h.old"
printf '#ifndef EITP_LATE_H\n#define EITP_LATE_H\n#endif\n' >"$tree/src/base/late.h"
sed -i.old 's/^kernels.kernels.h/&\nsrc\/base\/late.h/' "$tree/src/manifest" && rm "$tree/src/manifest.old"
refused "an include of what comes later" "src/base/memory.h:3: src/base/late.h comes later"
add src/base/a.c '#include "base/memory.c"\n'
refused "an include of a .c file" "src/base/a.c:1: src/base/memory.c is neither a header nor a template"
sed -i.old '1,2d' "$tree/kernels/kernels.h" && rm "$tree/kernels/kernels.h.old"
refused "no include guard" "kernels/kernels.h:1: no include guard"
echo '#include "ref.inc"' >>"$tree/kernels/ref/ref.inc"
refused "templates in a circle" "kernels/ref/ref.inc:1: templates include each other in a circle"

# ---- uses ----

add src/base/a.c 'int eitp_a(void) {\n    return 1;\n}\n'
add src/base/b.c 'int eitp_b(void) {\n    return eitp_a();\n}\n'
accepted "a module that uses an earlier one"
add src/base/a.c '#include "base/memory.h"\nint eitp_a(void) {\n    return eitp_b();\n}\n'
add src/base/b.c 'int eitp_b(void) {\n    return 1;\n}\n'
refused "a module that uses a later one" "src/base/a.c:3: \`eitp_b\` is defined in src/base/b.c, which comes later"
add src/base/a.c 'int eitp_a(void) {\n    return eitp_b();\n}\n'
add src/base/b.c 'int eitp_b(void) {\n    return eitp_a();\n}\n'
refused "two modules that need each other" \
    "src/base/a.c:2: modules depend on each other: src/base/a.c -> src/base/b.c (eitp_b) -> src/base/a.c (eitp_a); move"
add src/base/a.c 'EITP__PRIVATE int eitp__a(void) {\n    return eitp__b();\n}\n'
add src/base/b.c 'EITP__PRIVATE int eitp__b(void) {\n    return eitp__c(0);\n}\n'
add src/tensor/c.c 'EITP__PRIVATE int (*eitp__c(int x))(void) {\n    return x ? NULL : &eitp__a;\n}\n'
refused "a circle of three, by an address" \
    "src/base/a.c:2: modules depend on each other: src/base/a.c -> src/base/b.c (eitp__b) -> src/tensor/c.c (eitp__c) -> src/base/a.c"

# ---- names ----

add src/base/a.c '#define MAX 3\n'
refused "a macro without prefix" "src/base/a.c:1: macro MAX would be defined"
add src/base/a.c '#define EITP_MAX 3\n'
refused "a private macro with a public name" "src/base/a.c:1: macro EITP_MAX is private"
add src/base/a.c '\nstatic int helper(int x) {\n    return x;\n}\n'
refused "a static function without prefix" "src/base/a.c:2: function helper"
add src/base/a.c 'static int eitp_helper(int x) {\n    return x;\n}\n'
refused "a static function with a public name" "src/base/a.c:1: function eitp_helper"
add src/base/a.c 'int eitp__helper(int x) {\n    return x;\n}\n'
refused "a visible function with a private name" "src/base/a.c:1: function eitp__helper is private but visible"
add src/base/a.c '__attribute__((noinline)) static int *other(int (*f)(int), int y) {\n    return 0;\n}\n'
refused "a function behind an attribute" "src/base/a.c:1: function other"
add src/base/a.c 'typedef struct node {\n    int x;\n} eitp__node;\n'
refused "a tag without prefix" "src/base/a.c:1: tag node"
add src/base/a.c 'typedef int (*callback)(int);\n'
refused "a type without prefix" "src/base/a.c:1: type callback"
add src/base/a.c 'enum { EITP__A, RED };\n'
refused "an enumerator without prefix" "src/base/a.c:1: enumerator RED"
add src/base/a.c 'static const int table[3] = {1, 2, 3};\n'
refused "a table without prefix" "src/base/a.c:1: variable table"
add src/base/a.c 'static int eitp__calls;\n'
refused "a global" "src/base/a.c:1: variable eitp__calls is a global"
add src/base/a.c '#define EITP__INLINE static inline\nEITP__INLINE int eitp__a(int x) {\n    return x;\n}\n'
accepted "a private macro for static"
add src/base/a.c 'typedef int eitp__rule(int x);\nEITP__PRIVATE eitp__rule eitp__one, eitp__two;\n'
accepted "functions of a named type"
add src/base/a.c 'typedef int eitp__rule(int x);\nEITP__PRIVATE eitp__rule eitp__one, two;\n'
refused "a function of a named type without prefix" "src/base/a.c:2: variable two"
add src/base/a.c 'static int eitp__a(void);\nstatic int eitp__a(void) {\n    int count = 0;\n    return count;\n}\n'
accepted "locals without prefix"

# ---- the rest ----

add src/base/a.c '/* \0303\0251 */\n'
refused "a letter beyond ASCII" "src/base/a.c:1: byte 0xc3"
add src/base/a.c 'static int eitp__a(void) {\n    printf("x");\n    return 0;\n}\n'
refused "printing" "src/base/a.c:2: printf()"
add src/base/a.c 'static void eitp__a(void) {\n    abort();\n}\n'
refused "aborting" "src/base/a.c:2: abort()"
add src/tensor/a.c 'static void *eitp__a(void) {\n    return malloc(3);\n}\n'
refused "malloc outside of base" "src/tensor/a.c:2: malloc()"
add src/base/a.c 'static void *eitp__a(void) {\n    return malloc(3);\n}\n'
refused "malloc in a second file of base" "src/base/a.c:2: malloc()"
add src/base/a.c 'static void eitp__a(const eitp_thing *t) {\n    t->exit(1);\n    t->free(0); /* abort() "malloc(" */\n}\n'
accepted "members that are called exit and free"
add kernels/ref/a.c '#pragma omp parallel\n'
refused "OpenMP in a kernel" "kernels/ref/a.c:1: OpenMP in a kernel"
half=$(printf '%02100d' 0)
add src/base/a.c "static const char *const eitp__a =\n    \"$half\"\n    \"$half\";\n"
refused "a long string" "src/base/a.c:2: the string literal has more than 4095"
add src/base/a.c 'static const char *const eitp__hint = "out of memory; use "\n                                         "--micro-batches-per-pass 1";\n'
refused "an option of the command" "src/base/a.c:2: the string names an option of the command"
add src/base/a.c 'static const char *const eitp__dash = "a -- b, x--y, ---s, -1";\n'
accepted "dashes in a string"
half=$(printf '%02000d' 0)
add src/base/a.c "static const char *const eitp__a =\n    \"$half\"\n    \"$half\";\n"
accepted "a string of 4000 characters"

echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
