#!/bin/sh
# Checks the sources without running them. `check.sh` checks the generated header, defaults, line lengths and format
# (quick). `check.sh analysis` runs cppcheck and clang-tidy. `check.sh root` checks only the files at the root.
LC_ALL=C
export LC_ALL
BUILD=${BUILD:-build}
status=0
# Files and directories allowed at the root of the repository.
root='.ci .clang-format .editorconfig .gitattributes .github .gitignore CHANGELOG.md CONTRIBUTING.md LICENSE Makefile
    README.md backends docs eitp.h examples figures kernels src tests tools'
sources=$(find src kernels backends tools tests examples -type f 2>/dev/null | grep '\.\(c\|h\|inc\|cu\|cuh\)$' | sort)

check_format() {
    for tool in clang-format-14 clang-format; do
        command -v $tool >/dev/null 2>&1 && break
        tool=
    done
    if [ -z "$tool" ]; then
        echo "skipped: clang-format is not installed"
    elif ! $tool --version | grep -q 'version 14\.'; then
        echo "skipped: format: requires clang-format 14, found $($tool --version)"
    else
        # Prints one line per file. Generated tables are not formatted.
        $tool --dry-run -Werror $(echo "$sources" | grep -v '_tables\.inc$') 2>&1 | awk -v tool="$tool" -F: '
            / error: / && !seen[$1]++ {
                printf "%s:%d: not formatted with .clang-format: %s -i %s\n", $1, $2, tool, $1
                bad = 1
            }
            END { exit bad }' || status=1
    fi
}

check_lines() {
    awk '
        length($0) > 120 {
            printf "%s:%d: line has %d characters, the limit is 120\n", FILENAME, FNR, length($0)
            bad = 1
        }
        /[ \t]$/ {
            printf "%s:%d: trailing space\n", FILENAME, FNR
            bad = 1
        }
        END { exit bad }' $sources || status=1
}

# Each public struct of options must have a function that returns its defaults.
check_defaults() {
    awk '
        /^typedef struct eitp_[a-z][a-z_]*_config \{$/ { name = $3; structs[name] = FILENAME ":" FNR }
        /^EITP_API / && match($0, / eitp_[a-z_]*_default\(/) { functions[substr($0, RSTART + 1, RLENGTH - 10)] = 1 }
        END {
            for (name in structs)
                if (!functions[name]) {
                    printf "%s: %s has no %s_default\n", structs[name], name, name
                    bad = 1
                }
            exit bad
        }' $(echo "$sources" | grep '^src/.*\.h$') || status=1
}

# In the command, a function that creates an error status must give a message: it returns command_fail(...).
check_messages() {
    grep -nE 'return ([^;]*: )?EITP_ERROR_[A-Z_]+;' $(echo "$sources" | grep '^tools/command/.*\.c$') |
        sed 's/$/ without a message; return command_fail(...)/' | grep . && status=1
}

# Finds private names used by two modules, which separate compilation hides.
check_header() {
    ${CC:-cc} -std=c11 -fsyntax-only -DEITP_IMPLEMENTATION -x c eitp.h || status=1
}

# Finds files left at the root by mistake, such as the output of a test.
check_root() {
    if ! git rev-parse --git-dir >/dev/null 2>&1; then
        echo "skipped: files at the root: not a git checkout"
        return
    fi
    git ls-files --cached --others --exclude-standard | cut -d/ -f1 | sort -u | while read -r name; do
        [ ! -e "$name" ] || echo $root | tr ' ' '\n' | grep -qxF -e "$name" ||
            echo "$name: not in the list of files at the root in tools/check.sh; remove or list it"
    done | grep . && status=1
}

# The figures in README.md and docs/measurements.md must match the reports.
check_measurements() {
    if command -v python3 >/dev/null 2>&1; then
        python3 tools/measurements.py --check || status=1
    else
        echo "skipped: figures of the documents: python3 is not installed"
    fi
}

analyse() {
    modules=$("$BUILD/amalgamate" --list implementation)
    if command -v cppcheck >/dev/null 2>&1; then
        cppcheck --quiet --error-exitcode=1 --enable=warning,portability --inline-suppr --std=c11 \
            --suppress=missingIncludeSystem --suppress="invalidFunctionArg:kernels/ref/*" \
            -DEITP_SPLIT -D__GNUC__=12 -D__x86_64__=1 "-I$BUILD/split" -Isrc -I. $modules || status=1
    else
        echo "skipped: cppcheck is not installed"
    fi
    if command -v clang-tidy >/dev/null 2>&1; then
        # Disables checks with false positives in clang 14. It does not see that another file returns a status other
        # than EITP_OK (core.*), and ignores va_start in all files except the first. The sanitizers check both.
        checks='-*,clang-analyzer-*,-clang-analyzer-core.*,-clang-analyzer-valist.Uninitialized'
        checks="$checks,-clang-analyzer-optin.performance.Padding"
        checks="$checks,-clang-analyzer-security.insecureAPI.DeprecatedOrUnsafeBufferHandling"
        clang-tidy --quiet --warnings-as-errors='*' --checks="$checks" $modules -- \
            -std=c11 -DEITP_SPLIT "-I$BUILD/split" -Isrc -I. 2>&1 | awk '
                / warnings? generated/ || /^Suppressed/ { next }
                / error: / { bad = 1 }
                { print }
                END { exit bad }' || status=1
    else
        echo "skipped: clang-tidy is not installed"
    fi
}

if [ "$1" = analysis ]; then
    analyse
elif [ "$1" = root ]; then
    check_root
else
    "$BUILD/amalgamate" --check || status=1
    check_header
    check_defaults
    check_messages
    check_lines
    check_format
    check_root
    check_measurements
    sh tools/wording.sh || status=1
fi
exit $status
