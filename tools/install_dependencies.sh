#!/bin/sh
# Installs optional tools with apt-get, if it can do so without prompting. Lists them first:
#   install_dependencies.sh test | nightly | bochs
# None is required: tests are skipped, with a message, if their tools are missing. INSTALL=0 installs nothing.
BUILD=${BUILD:-build} CC=${CC:-cc} CLANG=${CLANG:-clang}
mkdir -p "$BUILD"

# ---- Method of installation ----

apt=
why='only root can install them, with apt-get'
if [ "${INSTALL:-1}" != 1 ]; then
    why="INSTALL=$INSTALL prevents their installation"
elif command -v apt-get >/dev/null 2>&1; then
    if [ "$(id -u)" = 0 ]; then
        apt=apt-get
    elif command -v sudo >/dev/null 2>&1 && sudo -n true 2>/dev/null; then
        apt='sudo -n apt-get'
    fi
fi

apt_install() { # package
    DEBIAN_FRONTEND=noninteractive $apt install -y --no-install-recommends "$1" >>"$BUILD/install.log" 2>&1
}

# ---- Missing packages ----

packages=

misses() { # package
    packages="$packages $1"
}

needs() { # program, package
    command -v "$1" >/dev/null 2>&1 || misses "$2"
}

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

# Prints the version of clang that is, or would be, installed.
clang_version() {
    if command -v "$CLANG" >/dev/null 2>&1; then
        "$CLANG" -dumpversion | sed 's/\..*//'
    else
        apt-cache depends clang 2>/dev/null | sed -n 's/.*Depends: clang-\([0-9]*\)$/\1/p' | head -n 1
    fi
}

case $1 in
bochs)
    needs g++ g++
    needs xorriso xorriso
    ;;
nightly)
    needs musl-gcc musl-tools
    needs x86_64-w64-mingw32-gcc gcc-mingw-w64-x86-64
    # A cross compiler cannot link without its C library, which is a separate package.
    needs aarch64-linux-gnu-gcc gcc-aarch64-linux-gnu
    [ -e /usr/aarch64-linux-gnu/lib/libc.a ] || misses libc6-dev-arm64-cross
    needs riscv64-linux-gnu-gcc gcc-riscv64-linux-gnu
    [ -e /usr/riscv64-linux-gnu/lib/libc.a ] || misses libc6-dev-riscv64-cross
    needs qemu-aarch64 qemu-user
    ;;
esac
case $1 in
test | nightly)
    opens libyaml-0.so.2 || misses libyaml-0-2
    opens libopenblas.so.0 || misses libopenblas0-pthread
    compiles_cpp || misses g++
    needs "$CLANG" clang
    if [ "$1" = nightly ] && ! has_fuzzer; then
        # Its version comes from the package lists, which a new machine lacks.
        [ -z "$apt" ] || [ -n "$(clang_version)" ] || $apt update >>"$BUILD/install.log" 2>&1
        version=$(clang_version)
        [ -z "$version" ] || misses "libclang-rt-$version-dev"
    fi
    ;;
esac

# ---- Installation ----

[ -n "$packages" ] || exit 0
if [ -z "$apt" ]; then
    echo "continuing without$packages: $why"
    exit 0
fi
echo "installing with apt-get, which INSTALL=0 prevents:$packages"
: >"$BUILD/install.log"
updated=0
for package in $packages; do
    apt_install "$package" && continue
    [ $updated = 1 ] || $apt update >>"$BUILD/install.log" 2>&1
    updated=1
    apt_install "$package" || echo "$package could not be installed (see $BUILD/install.log): continuing without it"
done
exit 0
