# Prints functions with frames above `most` bytes, except kernels: awk -v most=N -f tools/frames.awk eitp.h eitp.su
# The second file is the output of -fstack-usage: a location that ends with :function, bytes and kind, in tab-separated
# columns.
# A line of the header belongs to the module named by the comment before it.
FNR == 1 { file++ }
file == 1 && /^\/\* >>kernels\// { kernels++ }
file == 1 && /^\/\* <<kernels\// { kernels-- }
file == 1 && kernels { is_kernel[FNR] = 1 }
file == 2 {
    parts = split($1, place, ":")
    if ($2 + 0 > most && !(place[2] in is_kernel)) {
        printf "eitp.h:%d: %s has a frame of %d bytes, the limit is %d\n", place[2], place[parts], $2, most
        found = 1
    }
    functions++
}
END {
    if (!functions)
        print "no frames in the compiler's output"
    exit found || !functions
}
