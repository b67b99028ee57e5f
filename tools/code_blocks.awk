# Splits the code blocks of Markdown, or of the comment at the start of eitp.h, into files OUT/001.c, OUT/002.sh, ...
# and lists them:
#   run 001.c LINE              a ```c or ```sh block
#   named 001.c LINE NAME       one after <!-- file: NAME -->: saved under that name for the following blocks
#   skipped 001.c LINE REASON   one after <!-- not run: REASON -->
# Strips the leading " * " from the lines of a comment.
BEGIN {
    count = 0
    file = ""
    mark = "run"
    detail = ""
}
COMMENT && /\*\// { exit }
{
    line = $0
    if (COMMENT)
        sub(/^ \* ?/, "", line)
}
file == "" && line ~ /^[ \t]*<!-- (not run|file): .* -->[ \t]*$/ {
    mark = line ~ /<!-- not run/ ? "skipped" : "named"
    detail = line
    sub(/^[^:]*: */, "", detail)
    sub(/ *-->.*$/, "", detail)
    next
}
file == "" && line ~ /^[ \t]*```/ {
    kind = line
    sub(/^[ \t]*```/, "", kind)
    sub(/[ \t].*$/, "", kind)
    count++
    file = sprintf("%03d.%s", count, kind == "" ? "text" : kind)
    if (kind == "c" || kind == "sh")
        print mark, file, NR, detail
    mark = "run"
    detail = ""
    next
}
file != "" && line ~ /^[ \t]*```[ \t]*$/ {
    close(OUT "/" file)
    file = ""
    next
}
file != "" {
    print line > (OUT "/" file)
    next
}
line !~ /^[ \t]*$/ {
    mark = "run"
    detail = ""
}
END {
    if (file != "")
        print "unclosed", file, NR, ""
}
