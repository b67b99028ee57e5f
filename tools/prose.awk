# Prints the prose of sources and documents: a line for each comment, each string with a space, and each paragraph, after
# its file and line ("src/io/pending_directory.h:20: Finds the names ..."). Code in documents is left out.
function print_prose(text) { # of the line `first` of `file`
    gsub(/[ \t]+/, " ", text)
    sub(/^ /, "", text)
    sub(/ $/, "", text)
    if (text != "")
        print file ":" first ": " text
}

# Ends a comment of several lines, or a paragraph.
function end_block() {
    if (block != "")
        print_prose(block)
    block = ""
}

function add_to_block(text) {
    if (block == "")
        first = FNR
    block = block " " text
}

# The next comment or literal in a line of C; sets RSTART.
function next_token(line) {
    return match(line, /\/\*|\/\/|"|'/)
}

function read_c(line, end, text) {
    while (line != "") {
        if (in_comment) {
            end = index(line, "*/")
            text = end ? substr(line, 1, end - 1) : line
            sub(/^[ \t]*\*/, "", text)
            add_to_block(text)
            if (!end)
                return
            end_block()
            in_comment = 0
            line = substr(line, end + 2)
        } else if (!next_token(line)) {
            return
        } else if (substr(line, RSTART, 2) == "/*") {
            in_comment = 1
            line = substr(line, RSTART + 2)
        } else if (substr(line, RSTART, 2) == "//") {
            first = FNR
            print_prose(substr(line, RSTART + 2))
            return
        } else {
            line = substr(line, RSTART)
            text = substr(line, 1, 1) == "\"" ? "^\"([^\"\\\\]|\\\\.)*\"" : "^'([^'\\\\]|\\\\.)*'"
            if (!match(line, text))
                return
            text = substr(line, 2, RLENGTH - 2)
            line = substr(line, RLENGTH + 1)
            if (text ~ /[^ ] [^ ]/) {
                first = FNR
                print_prose(text)
            }
        }
    }
}

function read_document(line) {
    if (line ~ /^ *```/)
        in_code = !in_code
    else if (!in_code && line !~ /^    / && line !~ /^ *$/) {
        gsub(/`[^`]*`/, "", line)
        add_to_block(line)
        if (line ~ /\|$/)
            end_block()
        return
    }
    end_block()
}

# Comments of scripts and makefiles that follow each other are one.
function read_script(line) {
    if (match(line, /^[ \t]*#+ /)) {
        add_to_block(substr(line, RSTART + RLENGTH))
        return
    }
    end_block()
    first = FNR
    if (match(line, /[^$]# /))
        print_prose(substr(line, RSTART + RLENGTH))
}

FNR == 1 {
    end_block()
    in_comment = in_code = 0
    file = FILENAME
    kind = FILENAME ~ /\.(c|h|inc|cu|cuh)$/ ? "c" : FILENAME ~ /\.md$/ ? "document" : "script"
}
kind == "c" { read_c($0) }
kind == "document" { read_document($0) }
kind == "script" { read_script($0) }
END { end_block() }
