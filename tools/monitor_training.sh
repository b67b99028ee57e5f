#!/bin/sh
# Shows a run that trains with eitp monitor, every 5 seconds.
#   monitor_training.sh [MONITOR_OPTIONS] [DIR ...]     eitp monitor --interval 5 MONITOR_OPTIONS DIR ...
# EITP names the command; otherwise it is the one installed or built with this script, or the one in PATH.
here=$(dirname "$0")
for command in "$here/../build/eitp" "$here/eitp" eitp; do
    EITP=${EITP:-$(command -v "$command")}
done
exec "${EITP:-eitp}" monitor --interval 5 "$@"
