#!/bin/sh
# Takes the screenshots in README.md: the monitor of a training run in a 100 x 30 terminal (tmux), and the top of its
# report page (headless Chromium). Writes figures/monitor.svg and figures/report.png.
BUILD=${BUILD:-build}
case $BUILD in /*) ;; *) BUILD=$PWD/$BUILD ;; esac
for program in python3 tmux chromium-headless-shell; do
    if ! command -v $program >/dev/null 2>&1; then
        echo "error: $program is not installed; on Debian: apt-get install python3 tmux chromium-headless-shell" >&2
        exit 1
    fi
done
root=$PWD
work=$(mktemp -d "$BUILD/screenshots.XXXXXX") && cd "$work" || exit 1
run=
trap 'tmux -S "$work/tmux" kill-server 2>/dev/null; rm -rf "$work"' EXIT

"$BUILD/eitp" train --data "$root/docs" --data "$root/README.md" --init tiny --batch-size 4 --grad-accum 1 --lr 1e-3 \
    --steps 600 --eval-steps 50 --save-steps 100 --perf-every 50 --keep-best loss --sample-prompt 'A kernel' --run-name demo \
    --notes 'A small GPT-2 on these documents.' --output-dir demo -q >/dev/null 2>&1 &
run=$!
until [ "$(cat demo/metrics.jsonl 2>/dev/null | grep -c '"val_loss"')" -ge 6 ]; do
    kill -0 $run || exit 1
    sleep 0.2
done
LC_ALL=C.UTF-8 TERM=xterm-256color tmux -S "$work/tmux" -f /dev/null new-session -d -x 100 -y 30 \
    "'$BUILD/eitp' monitor --interval 1 demo"
sleep 3
tmux -S "$work/tmux" capture-pane -p -e >screen || exit 1
python3 "$root/tools/terminal_svg.py" <screen >"$root/figures/monitor.svg" || exit 1
wait $run
"$BUILD/eitp" report demo >/dev/null || exit 1
chromium-headless-shell --headless --no-sandbox --hide-scrollbars --window-size=1000,1180 \
    --screenshot="$root/figures/report.png" "file://$work/demo/report.html" 2>/dev/null
