#!/bin/sh
# Shows a run that trains with eitp monitor, every 5 seconds.
#   monitor_training.sh [MONITOR_OPTIONS] [DIR ...]     eitp monitor --interval 5 MONITOR_OPTIONS DIR ...
# EITP names the command; otherwise it is the one built here, or the one in PATH.
built=$(dirname "$0")/../build/eitp
if [ -z "$EITP" ]; then
    EITP=eitp
    [ ! -x "$built" ] || EITP=$built
fi
exec "$EITP" monitor --interval 5 "$@"
