#!/bin/sh
# Runs tests under Linux on Bochs, which emulates a processor with AVX-512, AVX512-BF16 and AMX, for kernel sets that this
# machine lacks. Ends with "N passed, N failed". Run by `make test-bochs`, from the root, on Debian.
#   TEST=word     only test programs with the word in their name
#   QUICK=1       fewer cases in test_matmul, which takes hours with all
#   BOCHS_LIMIT   seconds for all of them
# apt-get downloads Debian's sources of Bochs, its kernel, boot loader and shell to $BUILD/bochs; nothing is installed.
set -u
LC_ALL=C
export LC_ALL
MAKE=${MAKE:-make} CC=${CC:-cc} BUILD=${BUILD:-build} TEST=${TEST:-} QUICK=${QUICK:-} BOCHS_LIMIT=${BOCHS_LIMIT:-36000}
work=$(mkdir -p "$BUILD/bochs" && cd "$BUILD/bochs" && pwd)

die() {
    echo "tools/bochs.sh: $1" >&2
    exit 1
}

# ---- Packages: a Debian release with Bochs 3, and one whose kernel takes setcpuid= ----

release=trixie
apt_options="-o Dir::Etc::SourceList=$work/apt/sources -o Dir::Etc::SourceParts=- -o Dir::State::Lists=$work/apt/lists
    -o Dir::Cache=$work/apt/cache -o APT::Sandbox::User=root -qq"

open_repository() {
    mirror=$(apt-get indextargets --format '$(ORIGIN) $(REPO_URI)' | awk '$1 == "Debian" && !/security/ { print $2; exit }')
    [ -n "$mirror" ] || die "apt-get knows no Debian repository: this needs Debian, and 'apt-get update' before"
    mkdir -p "$work/apt/lists/partial" "$work/apt/cache/archives/partial"
    for line in "deb $release" "deb-src $release" "deb $release-backports"; do
        echo "${line% *} [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror ${line#* } main"
    done >"$work/apt/sources"
    apt-get $apt_options update || die "the lists of packages could not be fetched"
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
        syslinux-common && apt-get $apt_options source --tar-only bochs) || die "packages could not be fetched"
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
        CXXFLAGS='-O2 -w' && $MAKE) >"$work/bochs.log" 2>&1 || die "Bochs was not built: see $work/bochs.log"
}

# ---- A boot disc with the tests ----

# Emulated sets are tested on the real machine.
test_programs() {
    for source in tests/*/test_*.c; do
        name=$(basename "$source" .c)
        case $source in tests/cuda/* | *_emulated.c) continue ;; esac
        case $name in *"$TEST"*) echo "$name" ;; esac
    done
}

# The program of a test.
path_of() {
    path=$(echo tests/*/"$1".c)
    echo "$work/static/split/${path%.c}"
}

build_tests() {
    programs=$(test_programs)
    [ -n "$programs" ] || die "no test program has '$TEST' in its name"
    $MAKE -s BUILD="$work/static" CC="$CC" LDFLAGS=-static SANITIZE=0 FUZZER=0 \
        $(for program in $programs; do path_of "$program"; done) || die "the tests were not built"
}

# Runs a program so that no thread preempts another.
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
    $CC -static -O2 "$work/chrt.c" -o "$root/bin/chrt" || die "no static program can be linked"
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

# Bochs lacks XFD, without which Linux disables AMX; setcpuid=324 makes it believe otherwise. Tiles are then not saved
# between threads, so a thread runs until it waits (build_chrt).
write_disc() {
    disc=$work/disc
    rm -rf "$disc"
    mkdir -p "$disc/isolinux"
    cp "$(find "$work/files" -name 'vmlinuz*' -type f | head -n 1)" "$disc/vmlinuz" || die "the kernel's package has no kernel"
    (cd "$root" && find . | "$root/bin/busybox" cpio -o -H newc 2>/dev/null) >"$disc/initrd"
    cp "$work/files/usr/lib/ISOLINUX/isolinux.bin" "$work/files/usr/lib/syslinux/modules/bios/ldlinux.c32" "$disc/isolinux/"
    printf 'default eitp\nlabel eitp\nkernel /vmlinuz\nappend %s\n' "initrd=/initrd console=ttyS0 mitigations=off nokaslr \
setcpuid=324 dis_ucode_ldr tsc=reliable random.trust_cpu=on quiet loglevel=0" >"$disc/isolinux/isolinux.cfg"
    xorriso -as mkisofs -quiet -o "$work/disc.iso" -b isolinux/isolinux.bin -c isolinux/boot.cat -no-emul-boot \
        -boot-load-size 4 -boot-info-table "$disc" 2>"$work/disc.log" || die "no disc was made: see $work/disc.log"
}

# Without protection keys every part of the saved state is aligned, as Linux expects; Bochs 3.0 gets it wrong with them.
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

# The result of each program, and their sums. A program without a result failed.
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
