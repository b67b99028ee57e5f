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
