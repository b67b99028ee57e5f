#!/bin/sh
# Counts the phrases of tools/wording.txt in comments, messages and documents. `wording.sh` fails if one is more frequent
# than its limit, or less: then lower the limit, so that the text does not fall back. `wording.sh NAME` prints the places.
# Run it from the root of a checkout.
LC_ALL=C
export LC_ALL
tools=$(dirname "$0")
limits=$tools/wording.txt
if ! git rev-parse --git-dir >/dev/null 2>&1; then
    echo "skipped: wording, because this is not a checkout of git"
    exit 0
fi
work=$(mktemp -d) || exit 2
trap 'rm -rf "$work"' EXIT

# The same line of two files: where a piece of prose is, and its text.
git ls-files | grep -E '(\.(c|h|inc|cu|cuh|md|sh|awk)|Makefile)$' |
    grep -v -e '_tables\.inc$' -e '^tests/golden/' -e '^tests/fuzz/corpus/' -e '^eitp\.h$' |
    xargs awk -f "$tools/prose.awk" >"$work/prose"
sed 's/: .*//' "$work/prose" >"$work/places"
sed 's/^[^ ]*: //' "$work/prose" | tr '[:upper:]' '[:lower:]' >"$work/text"

if [ $# -gt 0 ]; then
    expression=$(sed -n "s/^[0-9]* $1 //p" "$limits")
    if [ -z "$expression" ]; then
        echo "unknown phrase '$1' (choose from$(grep -v '^#' "$limits" | cut -d' ' -f2 | sed 's/^/ /' | tr -d '\n'))" >&2
        exit 2
    fi
    grep -nwE -- "$expression" "$work/text" | cut -d: -f1 >"$work/lines"
    awk 'FILENAME == ARGV[1] { wanted[$1] = 1; next } FNR in wanted' "$work/lines" "$work/prose"
    exit
fi
status=0
while read -r limit name expression; do
    [ "$limit" != '#' ] || continue
    found=$(grep -owE -- "$expression" "$work/text" | wc -l)
    if [ "$found" -gt "$limit" ]; then
        echo "'$name' occurs $found times in comments, messages and documents, the limit is $limit; to list them: sh tools/wording.sh $name"
        status=1
    elif [ "$found" -lt "$limit" ]; then
        echo "'$name' occurs $found times, its limit is $limit: lower it in tools/wording.txt"
        status=1
    fi
done <"$limits"
exit $status
