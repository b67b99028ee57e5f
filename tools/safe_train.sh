#!/bin/sh
# Trains with eitp safe-train: log file, lock of the output directory, lower priority, restarts.
#   safe_train.sh TRAIN_OPTIONS                     eitp safe-train -- train TRAIN_OPTIONS
#   safe_train.sh SAFE_TRAIN_OPTIONS -- COMMAND     eitp safe-train SAFE_TRAIN_OPTIONS -- COMMAND
# EITP is the command. The default is the one installed or built with this script, or the one in PATH.
here=$(dirname "$0")
for command in "$here/../build/eitp" "$here/eitp" eitp; do
    EITP=${EITP:-$(command -v "$command")}
done
for argument; do
    [ "$argument" != -- ] || exec "${EITP:-eitp}" safe-train "$@"
done
exec "${EITP:-eitp}" safe-train -- train "$@"
