#!/bin/sh
# Installs the packages that `make test`, `make quickstart` or `make test-bochs` can use and that are missing, with apt-get,
# if that needs no question, and reports what it does. None is required: tests report what they skip. INSTALL=0 disables it.
BUILD=${BUILD:-build} CC=${CC:-cc} CLANG=${CLANG:-clang}
mkdir -p "$BUILD"

links() {
    printf '%s\n' "$1" >"$BUILD/dependency.c"
    shift
    "$@" "$BUILD/dependency.c" -o "$BUILD/dependency" >/dev/null 2>&1
}

has_openblas() {
    printf '#include <cblas.h>\nint main(void) { return (int)cblas_dasum(0, 0, 1); }\n' >"$BUILD/dependency.c"
    "$CC" "$BUILD/dependency.c" -o "$BUILD/dependency" -lopenblas >/dev/null 2>&1
}

has_libyaml() {
    printf '#include <dlfcn.h>\nint main(void) { return !dlopen("libyaml-0.so.2", RTLD_NOW); }\n' >"$BUILD/dependency.c"
    "$CC" "$BUILD/dependency.c" -o "$BUILD/dependency" -ldl >/dev/null 2>&1 && "$BUILD/dependency"
}

has_fuzzer() {
    links 'int LLVMFuzzerTestOneInput(void); int LLVMFuzzerTestOneInput(void) { return 0; }' \
        "$CLANG" -fsanitize=fuzzer,address,undefined
}

apt=
if [ "${INSTALL:-1}" = 1 ] && command -v apt-get >/dev/null 2>&1; then
    if [ "$(id -u)" = 0 ]; then
        apt=apt-get
    elif command -v sudo >/dev/null 2>&1 && sudo -n true 2>/dev/null; then
        apt='sudo -n apt-get'
    fi
fi

install() {
    if [ -z "$apt" ]; then
        echo "$1 is not installed, and installing it needs root and apt-get: continuing without it"
        return 1
    fi
    echo "installing $1 with apt-get (INSTALL=0 disables this)"
    if ! DEBIAN_FRONTEND=noninteractive $apt install -y --no-install-recommends "$1" >"$BUILD/install.log" 2>&1; then
        $apt update >>"$BUILD/install.log" 2>&1
        DEBIAN_FRONTEND=noninteractive $apt install -y --no-install-recommends "$1" >>"$BUILD/install.log" 2>&1 || {
            echo "$1 could not be installed (see $BUILD/install.log): continuing without it"
            return 1
        }
    fi
}

if [ "$1" = bochs ]; then
    command -v g++ >/dev/null 2>&1 || install g++
    command -v xorriso >/dev/null 2>&1 || install xorriso
    exit 0
fi
has_openblas || install libopenblas-dev
if [ "$1" = test ]; then
    has_libyaml || install libyaml-0-2
    command -v "$CLANG" >/dev/null 2>&1 || install clang
    if command -v "$CLANG" >/dev/null 2>&1 && ! has_fuzzer; then
        major=$("$CLANG" -dumpversion | sed 's/\..*//')
        install "libclang-rt-$major-dev"
    fi
fi
exit 0
