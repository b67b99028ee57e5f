#!/bin/sh
# Compiles the CUDA backend's kernels with NVIDIA's compilers and reports the results. Needs no GPU.
#   cuda_kernels.sh PROGRAM ARCH nvrtc|nvcc [only=WORD] [quiet]
# PROGRAM is build/split/cuda_kernels. only=WORD selects modules with the word in their names; `quiet` prints only
# faults. Warnings are faults. The last line has the numbers of modules and of faults. The exit status is 3 if the
# compiler is missing or does not compile for ARCH; the last line then has the reason.
LC_ALL=C
export LC_ALL
BUILD=${BUILD:-build} JOBS=${JOBS:-$(nproc 2>/dev/null || echo 1)}
program=$1 arch=$2 compiler=$3
shift 3
choice= quiet=
for option in "$@"; do
    case $option in
    quiet) quiet=quiet ;;
    *) choice="$choice $option" ;;
    esac
done
folder=$BUILD/cuda_kernels/$compiler-$arch

# Finds nvcc in CUDA_HOME, in PATH, or where NVIDIA's installer puts it.
find_nvcc() {
    for nvcc in "${CUDA_HOME:-/usr/local/cuda}/bin/nvcc" "$(command -v nvcc)" /usr/local/cuda/bin/nvcc; do
        [ ! -x "$nvcc" ] || return 0
    done
    return 1
}

missing() {
    case $compiler in
    nvrtc) "$program" available "$arch" 2>&1 >/dev/null | sed 's/^cuda_kernels: //' ;;
    *)
        if ! find_nvcc; then
            echo "nvcc is neither in CUDA_HOME nor on the PATH"
        elif ! "$nvcc" --list-gpu-code | grep -qx "sm_$arch"; then
            echo "this nvcc does not compile for sm_$arch"
        fi
        ;;
    esac
}

with_nvrtc() {
    part=0
    while [ $part -lt "$JOBS" ]; do
        "$program" compile "$arch" "$folder" $choice part=$part/"$JOBS" >"$folder/log-$part" 2>&1 ||
            echo "FAULT part $part ended with faults" >>"$folder/log-$part" &
        part=$((part + 1))
    done
    wait
    cat "$folder"/log-*
}

# Each line is a module: name, file, definitions. kernels/cuda/base/ replaces headers of src/base/.
with_nvcc() {
    find_nvcc
    export nvcc arch folder
    "$program" list "$arch" $choice | xargs -P "$JOBS" -L 1 sh -c '
        name=$0 file=$1
        shift
        for definition in "$@"; do set -- "$@" "-D$definition"; shift; done
        "$nvcc" -std=c++17 -cubin -arch="sm_$arch" -Ikernels/cuda -Isrc -I. "$@" -Werror all-warnings \
            -o "$folder/$name.cubin" "$file" >"$folder/$name.log" 2>&1 || {
            cat "$folder/$name.log"
            echo "FAULT $name: does not compile, or has warnings"
        }'
}

reason=$(missing)
if [ -n "$reason" ]; then
    echo "$reason"
    exit 3
fi
rm -rf "$folder"
mkdir -p "$folder"
with_$compiler >"$folder/log"
"$program" report "$arch" "$folder" $choice $quiet >"$folder/report" 2>&1 || [ -s "$folder/report" ] ||
    echo "FAULT the report failed" >>"$folder/report"
cat "$folder/log" "$folder/report"
faults=$(cat "$folder/log" "$folder/report" | grep -c '^FAULT\|^cuda_kernels:')
echo "sm_$arch, $compiler: $("$program" list "$arch" $choice | wc -l) modules, $faults faults"
[ "$faults" -eq 0 ]
