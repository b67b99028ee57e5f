#!/bin/sh
# The command: tables, encodings, standard input, and files that are not text.
. tests/command/command.sh

# packed ARGUMENTS...: packs bytes, and writes the documents to the file text, each followed by "|".
packed() {
    exits 0 "pack $*" pack --output packed.tok --json "$@"
    od -An -v -t u2 -j 256 packed.tok | tr -s ' ' '\n' | awk 'NF { printf "%s", $1 == 256 ? "|" : sprintf("%c", $1) }' >text
}

printf 'id,text\n1,"one, two"\n2,\n3,"a\nb"\n' >rows.csv
printf '{"text": "one, two"}\n\n{"text": "a\\nb", "label": 1}\n' >rows.jsonl
printf 'one, two|a\nb|' >expected
packed --data rows.csv
check "rows of CSV are documents" same text expected
check "two documents" grep -q '"documents": 2' out
packed --data rows.jsonl
check "rows of JSON Lines are documents" same text expected
cp rows.csv rows.data
packed --data rows.data --data-format csv
check "--data-format names the format" same text expected
packed --data rows.csv --text-column id
check "--text-column names the column" grep -q '^1|2|3|$' text
packed --data rows.csv --data-format text
check "--data-format text: the file is one document" grep -q '^id,text' text
packed --data rows.csv --data-format lines
check "--data-format lines: each line is a document" grep -q '^id,text|1,"one, two"|2,|' text
cp rows.jsonl rows.json
packed --data rows.json
check "rows of a .json file are documents" same text expected
printf '\357\273\277[\n {"text": "one, two"},\n {"text": "a\\nb"}\n]\n' >list.JSON
packed --data list.JSON
check "and so are rows of a list" same text expected
packed --data rows.json --data-format text
check "--data-format text: the file is one document" grep -q '^{"text": "one, two"}' text
mkdir folder && cp rows.json folder
packed --data folder
check "in a directory it is plain text" grep -q '^{"text": "one, two"}' text
printf '[{"role": "x", "conversation": []}]\n' >other.json
refuses 1 "other.json: line 1: no member named 'text' with text (members: role, conversation)" pack --data other.json --output gone
lm="train --init tiny.json --block-size 4 --batch-size 1 --grad-accum 1 --steps 1 --threads 1 --val-fraction 0"
refuses 1 "other.json: line 1: the row has the members role, conversation; it must have messages, or conversations, or prompt and completion, or prompt and response, or instruction and output, or instruction and response, or question and answer, or input and output, or text; the nearest is conversations; set --text-column to the member with the text, or --data-format to text if this is not a table$" \
    $lm --data other.json --output-dir gone
printf '{"text": "one two three", "weight": 2}\n' >heavy.jsonl
exits 0 "a document with a weight" $lm --data heavy.jsonl --output-dir heavy
check "which is not used, with a warning" grep -q "^warning: 'weight' in the rows of 'heavy.jsonl' is ignored: the text is cut into windows" err
exits 0 "bad rows of a .json file are skipped" $lm --data other.json --data rows.json --on-bad-row skip --output-dir skipped
exits 0 "plain text from .json files in a directory" $lm --data folder --output-dir texts-of-json
check "is packed unchanged" grep -q 'packed 1 document' err
exits 0 "eval of the same directory" eval --model texts-of-json --data folder --threads 1 --precision fp32
check "reads plain text too" grep -q 'packed 1 document' err
exits 0 "rows of .json files in a directory" $lm --data folder --task lm --output-dir rows-of-json
check "with a task they are rows" grep -q 'packed 2 documents' err
for content in '["a"]' '[["a"]]' '3' '"a"' 'null' '{"text": ["a b", "c"]}' '{"data": []}' '{"text": "a"}{"text": "b"}' '[]' ''; do
    printf '%s' "$content" >odd.json
    refuses 1 "" $lm --data odd.json --output-dir gone
done
refuses 1 "rows.csv: line 1: no column named 'body' (columns: id, text); set --text-column to one of these.*; or set --data-format to text" pack --data rows.csv --text-column body \
    --output gone
printf 'text\none\n"tw"o\nthree\n' >bad.csv
refuses 1 "bad.csv: line 3, column 5: text after a closing quote; .*; --on-bad-row skip" pack --data bad.csv --output gone
packed --data bad.csv --on-bad-row skip
check "--on-bad-row skip" grep -q '^one|three|$' text
check "skipped rows are reported" grep -q 'skipped a bad row: bad.csv: line 3, column 5' err
check "and counted" grep -q 'skipped 1 bad rows of 3' err

# The layout of a file is detected, and reported once.
printf 'id;review\n1;"one, two"\n2;"a\nb"\n' >found.csv
packed --data found.csv
check "separator and column are found" same text expected
check "and reported once" test "$(grep -c "^found.csv: read with --delimiter ';', --text-column 'review'$" err)" -eq 1
packed --data found.csv --delimiter ';' --text-column review
check "given ones are the same" same text expected
check "and not reported" sh -c '! grep -q "read with" err'
refuses 1 "found.csv: line 1: no column named 'text' (columns: id;review)" pack --data found.csv --delimiter comma --output gone
refuses 1 "rows.json: --delimiter is for the columns of CSV and TSV; leave it out, or set --data-format to csv" \
    pack --data rows.json --delimiter ';' --output gone
refuses 1 "delimiter 'ab' must be one ASCII character" pack --data found.csv --delimiter ab --output gone
printf 'text\rone, two\r' | sed 's/one, two/"one, two"/' >returns.csv
packed --data returns.csv
check "lines that end with CR" grep -qx 'one, two|' text
printf 'one\n%%\ntwo\n%%\nthree 3 %%\n%%\n' >fortunes
packed --data fortunes
check "lines of % separate documents" test "$(cat text)" = "$(printf 'one\n|two\n|three 3 %%\n|')"
check "which is reported once" test "$(grep -c "^fortunes: read with --document-separator '%'$" err)" -eq 1
packed --data fortunes --document-separator none
check "--document-separator none" test "$(cat text)" = "$(cat fortunes)
|"
packed --data fortunes --document-separator two
check "--document-separator two" test "$(cat text)" = "$(printf 'one\n%%\n|%%\nthree 3 %%\n%%\n|')"
packed --data found.csv --document-separator off
check "rows have no documents to separate" same text expected
exits 0 "a run on documents" $lm --data fortunes --output-dir fortune
exits 0 "it is resumed" train --resume fortune --steps 2 --threads 1
check "and keeps its documents" sh -c '! grep -q "packed [0-9]\|read again" err'
refuses 1 "read again with --document-separator: the training data differ" train --resume fortune --steps 3 --document-separator none
refuses 1 "rows.json: --document-separator is for files that are read as text" pack --data rows.json --document-separator % --output gone

# Standard input is read once, in pieces, from a pipe.
"$eitp" pack --data - --output input.tok --json <rows.csv >out 2>err
check "standard input is text" grep -q '"documents": 1,.*"text_bytes": 32' out
{
    printf 'id,te'
    sleep 0.1
    printf 'xt\n1,x\n'
} | "$eitp" pack --data - --data-format csv --output input.tok --json >out 2>err
check "standard input is a table" grep -q '"documents": 1,.*"text_bytes": 1,' out

# The pointer file that Git LFS stores in place of a file.
printf 'version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 548105171\n' >pointer.json
cp pointer.json pointer.txt
for data in pointer.json pointer.txt; do
    refuses 1 "'$data' is a Git LFS pointer; fetch the file with: git lfs pull$" pack --data $data --output gone
done
refuses 1 "'pointer.json' is a Git LFS pointer; fetch the file with: git lfs pull$" pack --data rows.csv --tokenizer pointer.json --output gone

# Encodings.
printf '\304\343\272\303\243\254\312\300\275\347\n' >chinese.txt
printf '\344\275\240\345\245\275\357\274\214\344\270\226\347\225\214\n' >utf8.txt
refuses 1 "'chinese.txt' is not UTF-8: .*; set --encoding to its encoding, .*iconv -f GB18030 -t UTF-8 'chinese.txt' > NEW$" pack --data chinese.txt \
    --output gone
refuses 1 "'chinese.txt' is not UTF-8" tokenizer train --data chinese.txt --vocab-size 300 --output gone
refuses 1 "'chinese.txt' is not UTF-8" train --data chinese.txt --init tiny.json --output-dir gone
exits 0 "pack GB18030" pack --data chinese.txt --encoding GB18030 --output chinese.tok --json
exits 0 "pack UTF-8" pack --data utf8.txt --output utf8.tok --json
mkdir other
ln -s other/utf8.tok link.tok
exits 0 "pack into a link" pack --data utf8.txt --output link.tok --json
check "pack into a link: it stays" test -L link.tok
check "pack into a link: its target is the token file" same other/utf8.tok utf8.tok
mkfifo pipe
refuses 1 "exists and is not a file" pack --data utf8.txt --output pipe
check "a token file is not a pipe" test -p pipe
check "the same tokens" same chinese.tok utf8.tok
refuses 1 "unknown encoding 'GB99'" pack --data chinese.txt --encoding GB99 --output gone
printf '\304\343\272\303\243\254\312\300\275\347\n\377' >broken.txt
refuses 1 "invalid GB18030 at byte 11 (0xFF).*set --encoding to the text's encoding, or use --no-strict-utf8 to replace" pack --data broken.txt --encoding GB18030 --strict-utf8 --output gone
gzip -c utf8.txt >utf8.txt.gz
refuses 1 "'utf8.txt.gz' is a gzip file; convert it to text first: gunzip -c 'utf8.txt.gz' > NEW" pack \
    --data utf8.txt.gz --output gone
refuses 1 "is a gzip file" tokenizer train --data utf8.txt.gz --vocab-size 300 --output gone
exits 0 "a tokenizer from a table" tokenizer train --data rows.csv --vocab-size 260 --output words --json
exits 0 "a tokenizer from another encoding" tokenizer train --data chinese.txt --encoding GBK --vocab-size 260 \
    --output hanzi --json

# A run records how its data are read. With another encoding or column they are read again, and refused if they differ.
for i in 1 2 3 4 5 6 7 8 9; do
    printf '{"a": "the text of row %s", "b": "another one"}\n' $i
done >long.jsonl
train="train --init tiny.json --block-size 8 --batch-size 1 --grad-accum 1 --threads 1 --precision $precision"
exits 0 "train on a table" $train --data long.jsonl --text-column a --steps 2 --output-dir run
check "one packed file" test "$(ls run/data | wc -l)" -eq 1
exits 0 "resume" train --resume auto --output-dir run --steps 3 --threads 1
check "the packed file is used" grep -q 'reusing packed data' err
exits 0 "eval of the run's data" eval --model run --split training --threads 1 --json
exits 0 "eval of a table" eval --model run --data long.jsonl --text-column b --threads 1 --json
refuses 1 "read again with --text-column: the training data differ" train --resume auto --output-dir run --text-column b --steps 4
sed 's/.*/&\n&/' long.jsonl | "$eitp" $train --data - --data-format jsonl --text-column a --steps 2 --output-dir piped \
    >out 2>err </dev/stdin
check "a run reads standard input" test -e piped/checkpoint-2
exits 0 "it resumes without it" train --resume auto --output-dir piped --steps 3 --threads 1
exits 0 "the file packed from standard input" eval --model piped --split training --threads 1
check "the file packed from standard input: reported" grep -q "^evaluating the packed data of the run: 'piped/data/" err
rm -r piped/data
refuses 1 "came from standard input" eval --model piped --split training --threads 1

# ---- Two processes that pack into one file ----

mkfifo slow
"$eitp" pack --data - --output both.tok <slow >slow.out 2>slow.err &
slow=$!
exec 4>slow
cat text.txt >&4
until [ -e both.tok.partial ]; do sleep 0.01; done
refuses 1 "another process is writing to 'both.tok'; wait for it, or choose another name" pack --data small.txt \
    --output both.tok
check "a second pack: the first continues" test -e both.tok.partial -a ! -e both.tok
exec 4>&-
wait $slow
check "a second pack: the first ends" test $? -eq 0
exits 0 "the same text alone" pack --data text.txt --output alone.tok
check "a second pack: the first is complete" same alone.tok both.tok
exits 0 "another pack, later" pack --data small.txt --output both.tok
cp text.txt left.tok.partial
exits 0 "a partial file left by a killed process" pack --data text.txt --output left.tok
check "a partial file left by a killed process: replaced" same alone.tok left.tok

# ---- Permissions of packed data ----

# mode FILE: prints its permissions, as in ls.
mode() {
    ls -ld "$1" | cut -c 1-10
}
umask 022
mkdir texts
cp text.txt texts/open.txt
cp text.txt texts/secret.txt
for case in 600:rw------- 644:rw-r--r-- 640:rw-r----- 604:rw----r-- 400:rw-------; do
    chmod "${case%%:*}" texts/secret.txt
    exits 0 "pack a text of mode ${case%%:*}" pack --data texts/secret.txt --output packed.tok
    check "the token file of a text of mode ${case%%:*}" test "$(mode packed.tok)" = "-${case#*:}"
    exits 0 "pack a directory with it" pack --data texts --output packed.tok
    check "the token file of a directory with a text of mode ${case%%:*}" test "$(mode packed.tok)" = "-${case#*:}"
done
chmod 600 texts/secret.txt
"$eitp" pack --data - --output packed.tok <texts/secret.txt >out 2>err
check "the token file of a redirected text" test "$(mode packed.tok)" = -rw-------
(
    umask 077
    "$eitp" pack --data texts/open.txt --output packed.tok >out 2>err
)
check "the token file under a stricter umask" test "$(mode packed.tok)" = -rw-------
exits 0 "train on a text that others may not read" train --data texts/secret.txt --init tiny.json --steps 1 --threads 1 --output-dir private
check "its packed copy" test "$(mode private/data/*.tokens)" = -rw-------
check "other files of the run" test "$(mode private/run.json)" = -rw-r--r--

# ---- Data packed by eval have no file name ----

mkfifo input
"$eitp" eval --model piped --data - --threads 1 <input >out 2>err &
process=$!
exec 4>input
# More than a pipe holds: when all of it is written, the process has started to pack.
for copy in 1 2 3 4 5 6 7 8; do cat text.txt; done >&4
check "no other process can open it" test -z "$(ls -A temporary)"
kill -KILL $process
wait $process 2>/dev/null
exec 4>&-
check "nothing is left of it" test -z "$(ls -A temporary)"

finish
