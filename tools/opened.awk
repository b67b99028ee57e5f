# Prints the paths that a test read or executed, according to strace -f -y, except those declared by its line: "tree
# PATH"; "temporary PATH" in the build directory and in directories of temporary files; or "outside PATH". Variables:
# root, build, files (comma-separated; FOLDER/... is everything below a folder).
BEGIN {
    build = absolute(build)
    count = split(files, names, ",")
    for (i = 1; i <= count; i++)
        if (sub(/\.\.\.$/, "", names[i]))
            folders[absolute(names[i])]
        else
            declared[absolute(names[i])]
    temporary["/tmp"]
    temporary["/var/tmp"]
    if (ENVIRON["TMPDIR"])
        temporary[ENVIRON["TMPDIR"]]
}

function absolute(path) {
    return path ~ /^\// ? path : root "/" path
}

function is_below(path, folder) {
    return index(path "/", folder "/") == 1
}

function is_declared(path, folder) {
    if (path in declared || path "/" in declared)
        return 1
    for (folder in folders)
        if (index(path "/", folder) == 1)
            return 1
    return 0
}

function place_of(path, folder) {
    if (is_below(path, build))
        return "temporary"
    if (is_below(path, root))
        return "tree"
    for (folder in temporary)
        if (is_below(path, folder))
            return "temporary"
    return "outside"
}

/O_WRONLY/ { next }

{ path = "" }

/execve\("/ {
    path = $0
    sub(/^[^"]*"/, "", path)
    sub(/".*/, "", path)
    path = absolute(path)
}

match($0, / = [0-9]+<\/[^>]*>/) {
    path = substr($0, RSTART, RLENGTH - 1)
    sub(/^[^<]*</, "", path)
}

path == "" || path ~ /\\/ || path in seen { next }

{ seen[path] }

path ~ /^\/(proc|sys|dev)(\/|$)/ || is_declared(path) { next }

{ print place_of(path), path }
