# Shared by the tests that disturb commands, which source it: commands that write or read without a run. For each it
# calls `torture CASE ONCE ARGUMENTS...`; ONCE is yes if a command is refused when it is repeated after a complete
# result. Each case defines
#   begin      removes the files made by the last command
#   is_whole   its result is complete
#   is_sound   no incomplete file would be loaded
#   disk       the names that the command may change

same_trees() {
    diff -r "$1" "$2" >/dev/null 2>&1
}

has_leftovers() {
    find . -name '.*.partial' -o -name '.*.replaced' -o -name '.*.removed' -o -name '*.tmp' -o -name '*.partial' | grep -q .
}

# begin_case CASE ONCE ARGUMENTS...: sets these, and creates the files that the command reads.
begin_case() {
    case=$1
    once=$2
    shift 2
    arguments=$*
    begin
}

# Repeats the command of $arguments, unless its result is complete and is a directory that it does not replace.
repeat() {
    is_whole && ! has_leftovers && [ "$once" = yes ] && return 0
    "$eitp" $arguments >result 2>err </dev/null
    repeated=$?
    [ $repeated -eq 0 ] || sed 's/^/    /' err
    return $repeated
}

# Checks that a disturbed command can be repeated, with the result of an undisturbed one.
check_repeated() {
    is_sound || fail "$disturbance: an incomplete result is loaded"
    repeat || fail "$disturbance: refused when it is repeated, with exit code $repeated"
    is_whole || fail "$disturbance: not the same bytes when it is repeated"
    ! has_leftovers || fail "$disturbance: left $(find . -name '.*.partial' -o -name '*.tmp' -o -name '*.partial' -o -name '.*.replaced')"
    passed=$((passed + 1))
}

# ---- Directories that do not exist ----

disk="made .made.partial"
none_or_whole() {
    [ ! -e made ] || is_whole
}
begin() {
    rm -rf made .made.partial
}
is_whole() {
    same_trees made reference
}
is_sound() {
    none_or_whole
}
small="--data small.txt --vocab-size 270"
exits 0 "a tokenizer" tokenizer train --family roberta $small --output reference
torture "tokenizer train" yes tokenizer train --family roberta $small --output made

exits 0 "a model" train --data small.txt --tokenizer reference --init tiny.json --vocab-size 270 --block-size 16 --steps 2 --threads 1 --output-dir run
exits 0 "adapters" train --data small.txt --model run --lora-rank 2 --block-size 16 --steps 1 --threads 1 --output-dir adapters
mv reference tokenizer
merge="--model run --adapter adapters --threads 1 --output-dir"
exits 0 "a merged model" merge $merge reference
torture "merge" yes merge $merge made

# ---- Directories that have a file of the user ----

disk=made
begin() {
    rm -rf made
    mkdir made
    echo mine >made/notes
}
is_whole() {
    [ "$(cat made/notes)" = mine ] && rm made/notes && same_trees made reference
    whole=$?
    echo mine >made/notes
    return $whole
}
# The weights are written last.
is_sound() {
    [ "$(cat made/notes)" = mine ] || return 1
    [ ! -e made/model.safetensors ] ||
        [ -z "$(diff -rq made reference | grep -v 'Only in made: \(notes\|.eitp.partial\)$')" ]
}
torture "merge into a directory" yes merge $merge made

rm -rf reference
mv tokenizer reference
"$eitp" tokenizer inspect --tokenizer reference --json >inspected
# Only a complete tokenizer is loaded.
is_sound() {
    ! "$eitp" tokenizer inspect --tokenizer made --json >made.json 2>err || [ "$(sed 's/"made"/"reference"/' made.json)" = "$(cat inspected)" ]
}
torture "tokenizer train into a directory" yes tokenizer train --family roberta $small --output made

# ---- A file that may have earlier content ----

exits 0 "an earlier token file" pack --data tiny.json --data-format text --output earlier.tok
exits 0 "a token file" pack --data small.txt --tokenizer reference --output expected.tok
disk="made.tok made.tok.partial"
begin() {
    cp earlier.tok made.tok
}
is_whole() {
    same made.tok expected.tok
}
is_sound() {
    is_whole || same made.tok earlier.tok
}
torture "pack" no pack --data small.txt --tokenizer reference --output made.tok

exits 0 "an earlier GGUF file" export --model run --type f16 --output earlier.gguf
exits 0 "a GGUF file" export --model run --type f32 --threads 1 --output expected.gguf
disk="made.gguf made.gguf.tmp"
begin() {
    cp earlier.gguf made.gguf
}
is_whole() {
    same made.gguf expected.gguf
}
is_sound() {
    is_whole || same made.gguf earlier.gguf
}
torture "export" no export --model run --type f32 --threads 1 --output made.gguf
begin() {
    rm -f made.gguf
}
is_sound() {
    [ ! -e made.gguf ] || is_whole
}
torture "export without an earlier file" no export --model run --type f32 --threads 1 --output made.gguf

# ---- Standard output ----

printf 'a text\nand another\n' >rows.txt
embed="--model run --data rows.txt --threads 1"
"$eitp" embed $embed >expected 2>err
# A checkpoint may contain files of the user.
mkdir run/checkpoint-2/notes
echo mine >run/checkpoint-2/notes/mine
cp -r run kept
disk=run
begin() {
    rm -f result
}
is_whole() {
    same result expected
}
is_sound() {
    same_trees run kept
}
torture "embed" no embed $embed

cp expected.gguf kept.gguf
generate="--model kept.gguf --prompt fox --tokens 4 --temperature 0 --threads 1"
"$eitp" generate $generate >expected 2>err
check "a text of a GGUF file" test -s expected
disk=kept.gguf
is_sound() {
    same kept.gguf expected.gguf
}
torture "generate from a GGUF file" no generate $generate
disk=run

# ---- A checkpoint that is replaced ----

exits 0 "settings" set run/checkpoint-2 lr=1e-5
mv run/checkpoint-2 changed
begin() {
    rm -rf run
    cp -r kept run
}
is_whole() {
    same_trees run/checkpoint-2 changed
}
# Between two renames it has its temporary name, which a resume recognizes.
is_sound() {
    [ ! -e run/checkpoint-2 ] || is_whole || same_trees run/checkpoint-2 kept/checkpoint-2
}
torture "set" no set run/checkpoint-2 lr=1e-5
