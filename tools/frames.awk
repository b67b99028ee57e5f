# Functions with a frame above `most` bytes, kernels excepted: awk -v most=N -f tools/frames.awk eitp.h eitp.su
# The second file is what -fstack-usage writes: a place that ends with :function, bytes and kind, separated by tabs.
# A line of the header belongs to the module that the comment before it names.
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
        print "no frames in what the compiler wrote"
    exit found || !functions
}
