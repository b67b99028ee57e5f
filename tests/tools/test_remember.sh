#!/bin/sh
# tools/remember.sh in a small tree: a test that passed runs again only if any of its dependencies changed. The shares
# of make nightly together cover everything.
LC_ALL=C
export LC_ALL
unset MAKEFLAGS MFLAGS MAKELEVEL CHECK TEST REMEMBER FRESH PART
BUILD=${BUILD:-build}
work=$BUILD/test_remember
passed=0
failed=0
rm -rf "$work"
for folder in tests/command tests/tools tests/golden tests/fuzz/corpus tests/base docs tools build/split/tests/base; do
    mkdir -p "$work/$folder"
done
cp tools/test.sh tools/remember.sh tools/opened.awk "$work/tools"
cd "$work" || exit 1

check() { # what, command...
    what=$1
    shift
    if "$@"; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "FAILED $what"
        sed 's/^/    /' out
    fi
}

# ---- a test program, and a compiler, libraries and processor that can change ----

echo one >tests/golden/value
echo one >docs/config-keys.md
echo one >../test_remember.outside
echo 'model name : one' >processor
printf '#!/bin/sh\necho one\n' >compiler
: >tests/base/test_value.c
cat >build/split/tests/base/test_value <<'TEST'
#!/bin/sh
read -r value <../test_remember.outside
echo "1 passed, ${FAULTS:-0} failed"
[ "${FAULTS:-0}" = 0 ]
TEST
chmod +x compiler build/split/tests/base/test_value

run() { # variables...
    env MAKE=true BUILD=build CC=./compiler CLANG=./compiler CPUINFO=processor JOBS=1 TEST=split/test_value "$@" \
        sh tools/test.sh quick >out 2>&1
}

has_run() { # variables...
    run "$@" && grep -q '^== 1 run, 0 remembered$' out
}

is_remembered() { # variables...
    run "$@" && grep -q '^== 0 run, 1 remembered since ' out
}

# The test runs after a change, and is then remembered.
reruns() { # what, variables...
    what_changed=$1
    shift
    check "it runs after another $what_changed" has_run "$@"
    check "and is remembered" is_remembered "$@"
}

check "a first run" has_run
check "a second one has nothing to do" is_remembered
echo '# changed' >>build/split/tests/base/test_value
reruns program
echo two >tests/golden/value
reruns "golden value"
echo two >docs/config-keys.md
reruns "file that its line names"
sed 's/EITP_TEST_QUICK=1/EITP_TEST_QUICK=2/' tools/test.sh >changed && mv changed tools/test.sh
reruns argument
printf '#!/bin/sh\necho two\n' >compiler
reruns compiler
echo 'model name : two' >processor
reruns processor
reruns "environment variable" SETTING=two
check "FRESH=1 runs it" has_run FRESH=1

# Runs the test without remembering anything.
runs_alone() {
    run "$@" && grep -q '^split/test_value: 1 passed' out && ! grep -q 'remembered' out
}

check "REMEMBER=0 runs it" runs_alone REMEMBER=0

fails() { # variables...
    ! run "$@"
}

check "a failure" fails FAULTS=1
check "is not remembered" fails FAULTS=1

if strace -f -qq -y -z --seccomp-bpf -o trace true 2>/dev/null; then
    run
    echo two >../test_remember.outside
    reruns "file that it opened outside the tree"
    echo 'read -r value <tests/base/other' >>build/split/tests/base/test_value
    sed '/^echo/d;/^\[/d' build/split/tests/base/test_value >changed
    printf 'echo "1 passed, 0 failed"\n' >>changed
    chmod +x changed && mv changed build/split/tests/base/test_value
    echo one >tests/base/other
    check "it fails if it uses a file of the tree that its line does not name" fails
    check "and is named" grep -q '^FAILED split/test_value: opened files .*tests/base/other' out
else
    echo "SKIPPED files that a test opens: strace is not installed, or may not trace"
fi

# ---- shares of make nightly ----

nightly() { # variables...
    env MAKE=true BUILD=build CC=./compiler CLANG=./compiler JOBS=1 INSTALL=0 "$@" sh tools/test.sh nightly >out 2>&1
    cut -d' ' -f1 build/logs/list
}

: >tools/install_dependencies.sh
nightly | sort >whole
for part in 1 2 3; do
    nightly PART=$part/3 >share-$part
    check "share $part is not empty" test -s share-$part
done
check "the shares together cover everything" sh -c 'cat share-1 share-2 share-3 | sort | cmp -s - whole'

echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
