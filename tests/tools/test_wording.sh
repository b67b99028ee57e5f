#!/bin/sh
# tools/wording.sh: finds phrases in comments, strings and documents, but not in code; a count may neither exceed its
# limit nor stay below it.
LC_ALL=C
export LC_ALL
BUILD=${BUILD:-build}
root=$(pwd)
work=$root/$BUILD/test_wording
passed=0
failed=0

check() { # name, command...
    name=$1
    shift
    if "$@" >"$work/log" 2>&1; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "FAILED $name:"
        sed 's/^/    /' "$work/log"
    fi
}

finds() { # name, phrase, expected places...
    name=$1
    phrase=$2
    shift 2
    (cd "$work/checkout" && sh tools/wording.sh "$phrase") >"$work/found" 2>&1
    printf '%s\n' "$@" >"$work/expected"
    check "$name" diff "$work/expected" "$work/found"
}

counts() { # name, exit code, expected output
    (cd "$work/checkout" && sh tools/wording.sh) >"$work/found" 2>&1
    check "$1: exit code" test $? -eq "$2"
    printf '%s' "$3" >"$work/expected"
    check "$1" diff "$work/expected" "$work/found"
}

if ! command -v git >/dev/null 2>&1; then
    echo "SKIPPED wording: git is not installed"
    echo "0 passed, 0 failed"
    exit 0
fi
rm -rf "$work"
mkdir -p "$work/checkout/tools" "$work/checkout/src"
cp tools/wording.sh tools/prose.awk "$work/checkout/tools"
cd "$work/checkout" && git init -q . || exit 1
cat >src/a.c <<'END'
/* Reads
 * it frob
   each time. */
int frob(int a) { /* one */ return a / 2; /* frob,
                                             frob */ }
// frob in a line
static const char text[] = "written frob", word[] = "frob", quoted[] = "\" /* frob"; /* the end */
static const char slash = '"'; /* Frob. */ static const char other = '\'';
END
printf 'Read frob.\nAnd `frob` in code.\n\n    frob in a block\n\n```c\nfrob\n```\n\n| frob | b |\n' >page.md
printf '#!/bin/sh\n# Once\n# frob\nfrob=1 # more frob\necho "${a#frob}"\n' >script.sh
printf '# limit, name, expression\n9 frob frob\n1 noun-clause ^what [^?]*$\n' >tools/wording.txt
printf '/* What is read. */\n/* What? */\n/* Says what is read. */\n' >src/b.h
git add -A
finds "places" frob "page.md:1: Read frob. And in code." "page.md:10: | frob | b |" "script.sh:2: Once frob" "script.sh:4: more frob" \
    "src/a.c:1: Reads it frob each time." "src/a.c:4: frob, frob" "src/a.c:6: frob in a line" "src/a.c:7: written frob" \
    "src/a.c:7: \\\" /* frob" "src/a.c:8: Frob."
finds "the start of a comment" noun-clause "src/b.h:1: What is read."
counts "above the limit" 1 "'frob' occurs 11 times in comments, messages and documents, the limit is 9; to list them: sh tools/wording.sh frob
"
sed -i 's/^9/11/' tools/wording.txt
counts "at the limit" 0 ""
sed -i 's/^11/12/' tools/wording.txt
counts "below the limit" 1 "'frob' occurs 11 times, its limit is 12: lower it in tools/wording.txt
"
finds "an unknown phrase" again "unknown phrase 'again' (choose from frob noun-clause)"

echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
