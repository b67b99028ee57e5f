#!/bin/sh
# Trains with eitp safe-train: a log, the lock of the output directory, lower priority, restarts.
#   safe_train.sh TRAIN_OPTIONS                     eitp safe-train -- train TRAIN_OPTIONS
#   safe_train.sh SAFE_TRAIN_OPTIONS -- COMMAND     eitp safe-train SAFE_TRAIN_OPTIONS -- COMMAND
# EITP names the command; otherwise it is the one built here, or the one in PATH.
built=$(dirname "$0")/../build/eitp
if [ -z "$EITP" ]; then
    EITP=eitp
    [ ! -x "$built" ] || EITP=$built
fi
for argument; do
    [ "$argument" != -- ] || exec "$EITP" safe-train "$@"
done
exec "$EITP" safe-train -- train "$@"
