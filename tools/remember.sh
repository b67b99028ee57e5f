# Records which tests passed, so that `make quick` and `make test` run only those affected by changes. tools/test.sh
# includes this file. A test is affected by changes of:
#   - the machine: processor, compilers, their libraries, environment;
#   - the command of the test, and the contents of the files that its line in the list names;
#   - the contents of the files that it opened, as reported by strace, except files that the test wrote itself.
# A test program fails if it opens a file of the tree that its line does not name. So the lists of programs are complete
# without strace, and also for sanitized programs, which cannot be traced because the leak sanitizer would not work.
# Scripts open more files than their lines name. Without strace, they always run, as do tests whose lines name no files
# (-).
#
# For each test that passed, $known has NAME.passed, its state at that time; NAME.since, the time and name of the
# commit; and NAME.opened, the files that it opened and its line does not name.

known=$BUILD/passed
root=$(pwd)
tracer='strace -f -qq -y -z --seccomp-bpf -e trace=?open,openat,execve -e signal=none'
can_trace=0

for hasher in sha256sum 'shasum -a 256' cksum; do
    command -v ${hasher%% *} >/dev/null 2>&1 && break
done

# Prints "HASH PATH" for each path on standard input.
hash_files() {
    tr '\n' '\0' | xargs -0 $hasher 2>/dev/null | sed -e 's/^\([0-9]*\) \([0-9]*\) /\1-\2  /' -e 's/ [ *]/ /'
}

# Prints everything that a program can see of the machine.
describe_machine() {
    uname -srm
    sed -n '/^\(model name\|flags\|Features\|isa\)/p' "${CPUINFO:-/proc/cpuinfo}" 2>/dev/null | sort | uniq -c
    for compiler in "$CC" "$CLANG"; do
        $compiler --version 2>/dev/null
        {
            command -v ${compiler%% *}
            $compiler -print-prog-name=cc1
            for library in libc.so.6 libm.so.6 libgomp.so.1 libasan.so libubsan.so libyaml-0.so.2 libopenblas.so.0; do
                $compiler -print-file-name=$library
            done
        } 2>/dev/null | grep / | hash_files
    done
    env | grep -v '^\(_\|PWD\|OLDPWD\|SHLVL\|M\(AKE\|FLAGS\)[A-Z_]*\|JOBS\|TEST\|CHECK\|PART\|FRESH\|INSTALL\|SSH_[A-Z]*\)=' |
        sort
}

# Adds "HASH PATH" to the table of hashes for the paths on standard input that are missing in it. FOLDER/... stands for
# all files below a folder, FOLDER/ for the names in it.
add_hashes() {
    awk 'what == "old" { old[$2]; next } !($0 in old) && !seen[$0]++' what=old "$logs/hashes" what=new - >"$logs/new"
    grep -v '/$\|/\.\.\.$' "$logs/new" | hash_files >"$logs/new.hashes"
    grep '/$\|/\.\.\.$' "$logs/new" | while read -r folder; do
        case $folder in
        */...) find "${folder%...}" -type f 2>/dev/null | sort | hash_files ;;
        *) ls -A "$folder" 2>/dev/null ;;
        esac | $hasher | echo "$(tr -d ' -') $folder"
    done >>"$logs/new.hashes"
    cat "$logs/new.hashes" >>"$logs/hashes"
}

# Writes NAME.now, the current state, for each test on standard input.
write_states() {
    awk -v known="$known/" -v machine="$(hash_files <<PATHS
$logs/machine
PATHS
)" '
        what == "hashes" { hash[$2] = $1; next }
        {
            state = $1
            gsub("/", "_", state)
            state = known state
            count = split($2, paths, ",")
            sub(/^[^ ]* [^ ]* /, "")
            print machine "\n" $0 >(state ".now")
            for (i = 1; i <= count; i++)
                print hash[paths[i]], paths[i] >(state ".now")
            while ((getline path <(state ".opened")) > 0)
                print hash[path], path >(state ".now")
            close(state ".now")
            close(state ".opened")
        }' what=hashes "$logs/hashes" what=list -
}

# Prints "N run, M remembered since COMMIT", with the earliest commit, at the end of the tests.
say_remembered() {
    sort -n "$logs/remembered" | awk -v run="$(wc -l <"$logs/list")" '
        NR == 1 { since = $0; sub(/^[0-9]* /, " since ", since) }
        END { printf "== %d run, %d remembered%s\n", run, NR, NR ? since " (FRESH=1 runs them too)" : "" }'
}

# Removes tests that passed in their current state from the list, and writes their commits to `remembered`.
leave_changed() {
    [ "${FRESH:-0}" = 0 ] || rm -rf "$known"
    mkdir -p "$known"
    describe_machine >"$logs/machine"
    : >"$logs/hashes"
    : >"$logs/remembered"
    { cut -d' ' -f2 "$logs/list" | tr , '\n' && cat "$known"/*.opened 2>/dev/null; } | add_hashes
    write_states <"$logs/list"
    commit=$(git log -1 --format='%ct %h' 2>/dev/null) || commit="$(date +%s) an unknown commit"
    while read -r name files command; do
        state=$known/$(file_of "$name")
        if [ "$files" != - ] && cmp -s "$state.now" "$state.passed"; then
            cat "$state.since" >>"$logs/remembered"
        else
            echo "$name $files $command"
        fi
    done <"$logs/list" >"$logs/changed"
    mv "$logs/changed" "$logs/list"
    $tracer -o "$logs/trace" true 2>/dev/null && grep -q execve "$logs/trace" && can_trace=1
}

# True for a test program. Its line names all files of the tree that it opens.
is_program() { # name
    case $1 in packed/* | split/* | sanitized/* | device/* | fuzz_*) ;; *) return 1 ;; esac
}

# Sets trace_command, the prefix of a test's command.
start_trace() { # name
    trace=$logs/$(file_of "$1").trace
    rm -f "$trace"*
    trace_command=
    case $can_trace$1 in 0* | 1sanitized/* | 1device/* | 1fuzz_*) return ;; esac
    : >"$trace.began"
    trace_command="$tracer -o $trace"
}

# Divides the files that a test opened into `undeclared` (files of the tree that a program's line does not name) and
# `opened`. Fails if one of them changed while the test ran, because then the result cannot be recorded.
sort_opened() { # name, files that its line names
    trace=$logs/$(file_of "$1").trace
    : >"$trace.undeclared"
    : >"$trace.opened"
    awk -v root="$root" -v files="$2" -v build="$BUILD" -f tools/opened.awk "$trace" >"$trace.paths"
    while read -r where path; do
        [ -e "$path" ] || continue
        [ ! -d "$path" ] || path=${path%/}/
        if [ "$path" -nt "$trace.began" ]; then
            [ $where = temporary ] || return 1
        elif [ $where = tree ] && is_program "$1"; then
            echo "$path" >>"$trace.undeclared"
        else
            case $path in *[!A-Za-z0-9_./+@:,=~%-]*) return 1 ;; esac
            echo "$path" >>"$trace.opened"
        fi
    done <"$trace.paths"
}

# Records that a test passed. Fails if it opened files of the tree that its line does not name: $undeclared.
remember() { # name
    [ "$remembers" = 1 ] || return 0
    state=$known/$(file_of "$1")
    trace=$logs/$(file_of "$1").trace
    line=$(grep "^$1 " "$logs/list")
    files=${line#* }
    [ -e "$trace" ] || is_program "$1" || return 0
    if [ -e "$trace" ]; then
        sort_opened "$1" "${files%% *}" || return 0
        undeclared=$(cat "$trace.undeclared")
        [ -z "$undeclared" ] || return 1
        add_hashes <"$trace.opened"
        mv "$trace.opened" "$state.opened"
        echo "$line" | write_states
        rm -f "$trace"*
    fi
    echo "$commit" >"$state.since"
    mv "$state.now" "$state.passed"
}
