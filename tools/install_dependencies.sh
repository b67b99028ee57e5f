#!/bin/sh
# Installs optional tools with apt-get, where it can do so without a question, and reports each:
#   install_dependencies.sh test | nightly | bochs
# None is required: tests whose tools are missing are skipped with a line that says so. INSTALL=0 installs nothing.
BUILD=${BUILD:-build} CC=${CC:-cc} CLANG=${CLANG:-clang}
mkdir -p "$BUILD"

links() {
    printf '%s\n' "$1" >"$BUILD/dependency.c"
    shift
    "$@" "$BUILD/dependency.c" -o "$BUILD/dependency" >/dev/null 2>&1
}

opens() { # library
    printf '#include <dlfcn.h>\nint main(void) { return !dlopen("%s", RTLD_NOW); }\n' "$1" >"$BUILD/dependency.c"
    "$CC" "$BUILD/dependency.c" -o "$BUILD/dependency" -ldl >/dev/null 2>&1 && "$BUILD/dependency"
}

has_fuzzer() {
    links 'int LLVMFuzzerTestOneInput(void); int LLVMFuzzerTestOneInput(void) { return 0; }' \
        "$CLANG" -fsanitize=fuzzer,address,undefined
}

compiles_cpp() {
    links 'int main() { return 0; }' "$CC" -x c++ -std=c++17 -lstdc++
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
        echo "$1 is not installed and can only be installed by root with apt-get: continuing without it"
        return 1
    fi
    echo "installing $1 with apt-get (INSTALL=0 prevents it)"
    if ! DEBIAN_FRONTEND=noninteractive $apt install -y --no-install-recommends "$1" >"$BUILD/install.log" 2>&1; then
        $apt update >>"$BUILD/install.log" 2>&1
        DEBIAN_FRONTEND=noninteractive $apt install -y --no-install-recommends "$1" >>"$BUILD/install.log" 2>&1 || {
            echo "$1 could not be installed (see $BUILD/install.log): continuing without it"
            return 1
        }
    fi
}

needs() { # program, package
    command -v "$1" >/dev/null 2>&1 || install "$2"
}

if [ "$1" = bochs ]; then
    needs g++ g++
    needs xorriso xorriso
    exit 0
fi
if [ "$1" = nightly ]; then
    needs musl-gcc musl-tools
    needs x86_64-w64-mingw32-gcc gcc-mingw-w64-x86-64
    # A cross compiler alone does not link: its C library is a package of its own.
    needs aarch64-linux-gnu-gcc gcc-aarch64-linux-gnu && [ -e /usr/aarch64-linux-gnu/lib/libc.a ] ||
        install libc6-dev-arm64-cross
    needs riscv64-linux-gnu-gcc gcc-riscv64-linux-gnu && [ -e /usr/riscv64-linux-gnu/lib/libc.a ] ||
        install libc6-dev-riscv64-cross
    needs qemu-aarch64 qemu-user
fi
if [ "$1" = test ] || [ "$1" = nightly ]; then
    opens libyaml-0.so.2 || install libyaml-0-2
    opens libopenblas.so.0 || install libopenblas0-pthread
    compiles_cpp || install g++
    needs "$CLANG" clang
    if command -v "$CLANG" >/dev/null 2>&1 && ! has_fuzzer; then
        major=$("$CLANG" -dumpversion | sed 's/\..*//')
        install "libclang-rt-$major-dev"
    fi
fi
exit 0
