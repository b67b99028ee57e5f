# Runs the command on the emulated CUDA device for the scripts in this folder, or on the GPU named by EITP_GPU. Source
# it after tests/command/command.sh.
processor=$eitp
libraries=$BUILD/emulated_cuda
mkdir -p "$libraries/counts"
cat >on_device <<END
#!/bin/sh
[ -n "$EITP_GPU" ] || export LD_LIBRARY_PATH=$libraries EITP_EMULATED_CUDA_COUNTS=$libraries/counts EITP_EMULATED_CACHE=$libraries/modules XDG_CACHE_HOME=$libraries/cache
exec "$processor" "\$@"
END
chmod +x on_device
device=$work/on_device

# Like exits, with the command on the device.
runs() {
    eitp=$device
    exits 0 "$@" --device ${EITP_GPU:-cuda}
    eitp=$processor
}

# numbers RUN MEMBER: this member of the records of its steps, such as "loss".
numbers() {
    sed -n "s/^{\"step\": \([0-9]*\), \"loss\":.* \"$2\": \([^,}]*\).*/\1 \2/p; s/^{\"step\": \([0-9]*\), \"$2\": \([^,]*\),.*/\1 \2/p" "$1/metrics.jsonl"
}

# agree A B STEPS [PART [MEMBER]]: the losses of the first steps of two runs, or another member, differ by at most this
# relative error, by default 1e-5.
agree() {
    numbers "$1" "${5:-loss}" | head -n "$3" >first
    numbers "$2" "${5:-loss}" | head -n "$3" >second
    paste first second | awk -v steps="$3" -v most="${4:-1e-5}" '
        { d = $2 - $4; d = d < 0 ? -d : d; if ($1 != $3 || $4 !~ /^[0-9]/ || d > most * $2) { print "    step " $1 ": " $2 ", " $4; bad = 1 } }
        END { exit bad || NR != steps }'
}
