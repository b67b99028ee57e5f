#!/bin/sh
# Runs tests under Linux on Bochs, an emulator of a processor with AVX-512, AVX512-BF16 and AMX, for kernel sets that
# this machine lacks. Ends with "N passed, N failed". `make test-bochs` runs it from the root, on Debian.
#   TEST=word     only test programs with the word in their names
#   QUICK=1       fewer cases in test_matmul; all cases take hours
#   BOCHS_LIMIT   seconds for all tests together
# apt-get downloads the source of Bochs, and Debian's kernel, boot loader and shell, to $BUILD/bochs. Installs nothing.
set -u
LC_ALL=C
export LC_ALL
MAKE=${MAKE:-make} CC=${CC:-cc} BUILD=${BUILD:-build} TEST=${TEST:-} QUICK=${QUICK:-} BOCHS_LIMIT=${BOCHS_LIMIT:-36000}
work=$(mkdir -p "$BUILD/bochs" && cd "$BUILD/bochs" && pwd)

die() {
    echo "tools/bochs.sh: $1" >&2
    exit 1
}

# ---- Packages: from a Debian release with Bochs 3, and from one whose kernel supports setcpuid= ----

release=trixie
apt_options="-o Dir::Etc::SourceList=$work/apt/sources -o Dir::Etc::SourceParts=- -o Dir::State::Lists=$work/apt/lists
    -o Dir::Cache=$work/apt/cache -o APT::Sandbox::User=root -qq"

open_repository() {
    mirror=$(apt-get indextargets --format '$(ORIGIN) $(REPO_URI)' | awk '$1 == "Debian" && !/security/ { print $2; exit }')
    [ -n "$mirror" ] || die "no Debian repository in apt-get: this requires Debian, after 'apt-get update'"
    mkdir -p "$work/apt/lists/partial" "$work/apt/cache/archives/partial"
    for line in "deb $release" "deb-src $release" "deb $release-backports"; do
        echo "${line% *} [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror ${line#* } main"
    done >"$work/apt/sources"
    apt-get $apt_options update || die "cannot fetch the package lists"
}

newest_kernel() {
    apt-cache $apt_options search --names-only '^linux-binary-[0-9].*-cloud-amd64$' | cut -d' ' -f1 | sort -V | tail -n 1
}

fetch() {
    [ -e "$work/fetched" ] && return
    echo "downloading Bochs, Linux and a boot loader"
    open_repository
    rm -rf "$work/packages" "$work/files" "$work/source"
    mkdir -p "$work/packages" "$work/files" "$work/source"
    (cd "$work/packages" && apt-get $apt_options download "$(newest_kernel)" busybox-static seabios isolinux \
        syslinux-common && apt-get $apt_options source --tar-only bochs) || die "cannot fetch the packages"
    for package in "$work"/packages/*.deb; do
        dpkg-deb -x "$package" "$work/files"
    done
    tar -xJf "$work"/packages/bochs_*.orig.tar.xz -C "$work/source" --strip-components=1
    touch "$work/fetched"
}

build_bochs() {
    [ -x "$work/source/bochs" ] && return
    echo "building Bochs"
    (cd "$work/source" && ./configure --with-nogui --disable-docbook --enable-cpu-level=6 --enable-x86-64 --enable-avx \
        --enable-evex --enable-amx --enable-all-optimizations --enable-pci --enable-memtype --enable-long-phy-address \
        CXXFLAGS='-O2 -w' && $MAKE) >"$work/bochs.log" 2>&1 || die "cannot build Bochs: see $work/bochs.log"
}

# ---- A boot disc with the tests ----

# Emulated kernel sets are tested on the real machine.
test_programs() {
    for source in tests/*/test_*.c; do
        name=$(basename "$source" .c)
        case $source in tests/cuda/* | *_emulated.c) continue ;; esac
        case $name in *"$TEST"*) echo "$name" ;; esac
    done
}

# Prints the path of a test's program.
path_of() {
    path=$(echo tests/*/"$1".c)
    echo "$work/static/split/${path%.c}"
}

build_tests() {
    programs=$(test_programs)
    [ -n "$programs" ] || die "no test program has '$TEST' in its name"
    $MAKE -s BUILD="$work/static" CC="$CC" LDFLAGS=-static SANITIZE=0 FUZZER=0 \
        $(for program in $programs; do path_of "$program"; done) || die "cannot build the tests"
}

# Builds a program that runs another one so that threads do not preempt each other.
build_chrt() {
    cat >"$work/chrt.c" <<'END'
#include <sched.h>
#include <stdio.h>
#include <unistd.h>
int main(int argc, char **argv) {
    struct sched_param priority = {.sched_priority = 1};
    if (argc < 2 || sched_setscheduler(0, SCHED_FIFO, &priority) || execv(argv[1], argv + 1))
        perror("chrt");
    return 1;
}
END
    $CC -static -O2 "$work/chrt.c" -o "$root/bin/chrt" || die "cannot link a static program"
}

write_root() {
    root=$work/root
    rm -rf "$root"
    mkdir -p "$root/bin" "$root/proc" "$root/sys" "$root/dev" "$root/tmp" "$root/eitp/tests/fuzz"
    cp "$work/files/bin/busybox" "$root/bin/" 2>/dev/null || cp "$work/files/usr/bin/busybox" "$root/bin/"
    cp -r tests/golden "$root/eitp/tests/"
    cp -r tests/fuzz/corpus "$root/eitp/tests/fuzz/"
    build_chrt
    for program in $programs; do
        strip -o "$root/eitp/$program" "$(path_of "$program")"
    done
    {
        echo '#!/bin/busybox sh'
        echo '/bin/busybox --install -s /bin'
        echo 'mount -t proc proc /proc; mount -t sysfs sysfs /sys; mount -t devtmpfs dev /dev'
        echo "cd /eitp${QUICK:+; export EITP_TEST_QUICK=1}"
        echo "for program in $(echo $programs); do echo \"== \$program\"; chrt ./\$program; done"
        echo 'poweroff -f'
    } >"$root/init"
    chmod +x "$root/init"
}

# Linux disables AMX without XFD, which Bochs lacks. setcpuid=324 makes Linux assume XFD. Tiles are then not saved
# between threads, so each thread must run until it waits (build_chrt).
write_disc() {
    disc=$work/disc
    rm -rf "$disc"
    mkdir -p "$disc/isolinux"
    cp "$(find "$work/files" -name 'vmlinuz*' -type f | head -n 1)" "$disc/vmlinuz" || die "there is no kernel in the kernel package"
    (cd "$root" && find . | "$root/bin/busybox" cpio -o -H newc 2>/dev/null) >"$disc/initrd"
    cp "$work/files/usr/lib/ISOLINUX/isolinux.bin" "$work/files/usr/lib/syslinux/modules/bios/ldlinux.c32" "$disc/isolinux/"
    printf 'default eitp\nlabel eitp\nkernel /vmlinuz\nappend %s\n' "initrd=/initrd console=ttyS0 mitigations=off nokaslr \
setcpuid=324 dis_ucode_ldr tsc=reliable random.trust_cpu=on quiet loglevel=0" >"$disc/isolinux/isolinux.cfg"
    xorriso -as mkisofs -quiet -o "$work/disc.iso" -b isolinux/isolinux.bin -c isolinux/boot.cat -no-emul-boot \
        -boot-load-size 4 -boot-info-table "$disc" 2>"$work/disc.log" || die "cannot create the disc: see $work/disc.log"
}

# Linux expects every part of the saved state to be aligned. Bochs 3.0 aligns them only without protection keys.
write_machine() {
    cat >"$work/machine" <<END
cpu: model=sapphire_rapids, count=1, ips=10000000, reset_on_triple_fault=0, ignore_bad_msrs=1, exclude_features="pku pks cet"
memory: guest=2048, host=2048
romimage: file=$work/files/usr/share/seabios/bios.bin
vgaromimage: file=$work/files/usr/share/seabios/vgabios-stdvga.bin
ata0-master: type=cdrom, path=$work/disc.iso, status=inserted
boot: cdrom
com1: enabled=1, mode=file, dev=$work/output
log: $work/machine.log
panic: action=fatal
error: action=ignore
info: action=ignore
clock: sync=none
display_library: nogui
END
}

run() {
    echo "running $(echo $programs) (output: $work/output)"
    rm -f "$work/output" "$work"/disc.iso.lock
    timeout -k 5 "$BOCHS_LIMIT" "$work/source/bochs" -q -f "$work/machine" >"$work/run.log" 2>&1
    [ -e "$work/output" ] || die "Bochs did not start: see $work/run.log"
}

# Prints the result of each program and the totals. A program without a result counts as failed.
report() {
    tr -d '\r' <"$work/output" | awk -v programs="$(echo $programs)" '
        /^== / { name = $2; next }
        /^[0-9]+ passed, [0-9]+ failed$/ && name { result[name] = $0; passed += $1; failed += $3; next }
        /skipped|tested|kernels|CHECK|REQUIRE|FAILED/ { print }
        END {
            count = split(programs, names, " ")
            for (i = 1; i <= count; i++) {
                print names[i] ": " (names[i] in result ? result[names[i]] : "no result")
                failed += !(names[i] in result)
            }
            printf "%d passed, %d failed\n", passed, failed
            exit failed > 0
        }'
}

BUILD=$BUILD sh tools/install_dependencies.sh bochs
fetch
build_bochs
build_tests
write_root
write_disc
write_machine
run
report
