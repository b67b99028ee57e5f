#!/bin/sh
# Monitors a training run with eitp monitor, every 5 seconds.
#   monitor_training.sh [MONITOR_OPTIONS] [DIR ...]     eitp monitor --interval 5 MONITOR_OPTIONS DIR ...
# EITP is the command. The default is the one installed or built with this script, or the one in PATH.
here=$(dirname "$0")
for command in "$here/../build/eitp" "$here/eitp" eitp; do
    EITP=${EITP:-$(command -v "$command")}
done
exec "${EITP:-eitp}" monitor --interval 5 "$@"
