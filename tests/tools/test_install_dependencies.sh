#!/bin/sh
# The packages that `make test` installs are listed before the first installation, and INSTALL=0 prevents it.
LC_ALL=C
export LC_ALL
BUILD=${BUILD:-build}
rm -rf "$BUILD/test_install_dependencies"
mkdir -p "$BUILD/test_install_dependencies/bin"
work=$(cd "$BUILD/test_install_dependencies" && pwd) || exit 1
passed=0
failed=0

check() { # what, command...
    what=$1
    shift
    if "$@"; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "FAILED $what"
        sed 's/^/    /' "$work/out"
    fi
}

# ---- A machine that lacks everything, with an apt-get that records its calls and any that were not announced ----

cat >"$work/bin/apt-get" <<'SCRIPT'
#!/bin/sh
[ "$1" = install ] || exit 0
for package in "$@"; do :; done
echo "$package" >>"$WORK/calls"
grep -q '^installing' "$WORK/out" || echo "$package" >>"$WORK/early"
[ "$package" != g++ ]
SCRIPT
printf '#!/bin/sh\necho 0\n' >"$work/bin/id"
printf '#!/bin/sh\necho "  Depends: clang-14"\n' >"$work/bin/apt-cache"
chmod +x "$work/bin/apt-get" "$work/bin/id" "$work/bin/apt-cache"

install() { # mode, variables...
    mode=$1
    shift
    rm -f "$work/calls" "$work/early"
    env "INSTALL=1" "$@" WORK="$work" PATH="$work/bin:$PATH" BUILD="$work" CC=false CLANG=no-such-clang \
        sh tools/install_dependencies.sh "$mode" >"$work/out" 2>&1
}

packages='libyaml-0-2 libopenblas0-pthread g++ clang'
check "installing" install test
check "one line lists the packages" \
    test "$(head -n 1 "$work/out")" = "installing with apt-get, which INSTALL=0 prevents: $packages"
check "nothing is installed before it" test -s "$work/calls" -a ! -e "$work/early"
check "exactly these are installed" test "$(uniq "$work/calls" | tr '\n' ' ')" = "$packages "
check "a failure is reported" test "$(sed 1d "$work/out")" = \
    "g++ could not be installed (see $work/install.log): continuing without it"
check "nightly" install nightly
check "its packages are in one line" \
    test "$(grep -c "^installing with apt-get, which INSTALL=0 prevents: .*$packages libclang-rt-14-dev\$" "$work/out")" -eq 1
check "nothing is installed before it" test -s "$work/calls" -a ! -e "$work/early"
check "INSTALL=0" install test INSTALL=0
check "nothing is installed" test ! -e "$work/calls"
check "missing packages are listed" \
    test "$(cat "$work/out")" = "continuing without $packages: INSTALL=0 prevents their installation"

echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
