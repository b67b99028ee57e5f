# Prints the messages in string literals of C files, as "file:line<tab>text". Adjacent literals are joined. Skips
# comments, #include lines, single words, and the arguments of eitp__fail_null, which report misuse by the calling
# program.
function end_text() {
    if (text ~ /[a-z] [a-z%'(-]/ && !is_misuse)
        print place "\t" text
    text = ""
}

FNR == 1 { end_text(); is_comment = is_misuse = 0 }

/^#include/ { next }

{
    line = $0
    sub(/\\$/, "", line)
    while (line != "") {
        if (is_comment) {
            end = index(line, "*/")
            line = end ? substr(line, end + 2) : ""
            is_comment = !end
        } else if (match(line, /^[ \t]+/)) {
            line = substr(line, RLENGTH + 1)
        } else if (line ~ /^\/\*/) {
            is_comment = 1
            line = substr(line, 3)
        } else if (line ~ /^\/\//) {
            line = ""
        } else if (match(line, /^"([^"\\]|\\.)*"/)) {
            if (text == "")
                place = FILENAME ":" FNR
            text = text substr(line, 2, RLENGTH - 2)
            line = substr(line, RLENGTH + 1)
        } else {
            end_text()
            if (!match(line, /^'([^'\\]|\\.)[^']*'/) && !match(line, /^[^"'\/]+/))
                RLENGTH = 1
            code = substr(line, 1, RLENGTH)
            is_misuse = code ~ /eitp__fail_null\(/ || (is_misuse && code !~ /;/)
            line = substr(line, RLENGTH + 1)
        }
    }
}

END { end_text() }
