#!/bin/sh
# The command on the emulated CUDA device: GPU figures in reports, records, heat, monitor and check-system.
root=$PWD
. tests/command/command.sh
processor=$eitp
libraries=$BUILD/emulated_cuda
figures=$work/figures
cat >on_device <<END
#!/bin/sh
export EITP_EMULATED_CACHE=$libraries/modules XDG_CACHE_HOME=$libraries/cache EITP_EMULATED_NVML=$figures
LD_LIBRARY_PATH=\${LIBRARIES:-$libraries} exec "$processor" "\$@"
END
chmod +x on_device
eitp=$work/on_device

# Sets the figures of the device from now on: "figure value"...
device_shows() {
    printf '%s\n' "$@" >figures.new
    mv figures.new figures # atomic, so that it is never read half-written
}

no() {
    ! grep -q "$@"
}

device_shows ''
on_gpu="train --data small.txt --init tiny.json --block-size 16 --batch-size 2 --grad-accum 1 --precision fp32 --eval-steps 0 --save-steps 0
    --device cuda"
gib='[0-9]\.[0-9][0-9] GiB'

# ---- reports and records ----

exits 0 "a run with reports" $on_gpu --steps 4 --gpu-report-every 2 --report-to all --guide-tags --output-dir run
check "the lines" test "$(grep -c "^GPU memory: $gib allocated, 0.68 GiB reserved; 63 C, 214 W\$" err)" -eq 2
check "the device has its address" grep -q '^device: cuda:0, Emulated GPU 0 at 0000:0a:00.0, sm_86, ' err
check "the records" test "$(grep -c '"gpu/allocated_gib": ' run/metrics.jsonl)" -eq 2
grep '^{"step": 4, "gpu/allocated_gib": ' run/metrics.jsonl >line
for member in '"gpu/allocated_gib": 0\.00' '"gpu/reserved_gib": 0\.6799' '"gpu/memory_used_gib": 0.75,' '"gpu/memory_gib": 2,' \
    '"gpu/utilization": 87,' '"gpu/memory_utilization": 31,' '"gpu/celsius": 63,' '"gpu/power_w": 214.3,' '"gpu/energy_j": 1.5,' \
    '"gpu/step_energy_j": 0.75,' '"gpu/frequency_mhz": 1410,'; do
    check "a record: $member: $(cat line)" grep -q "$member" line
done
check "no event for it" no '"event": "gpu"' run/metrics.jsonl
check "CSV" test "$(grep -c '^performance,[24],.*gpu/allocated_gib' run/metrics.csv)" -eq 2
for tag in gpu/allocated_gib Performance/GPUMemory GPUMemory gpu/step_energy_j; do
    check "TensorBoard: $tag" grep -aq "$tag" run/tensorboard/events.*
done
exits 0 "a run without reports" $on_gpu --steps 4 --gpu-report-every 0 --output-dir silent
check "a run without reports: no line" no '^GPU memory: ' err
check "a run without reports: no record" no 'gpu/' silent/metrics.jsonl
check "a run without reports: the same bits" same_checkpoints run/checkpoint-4 silent/checkpoint-4
exits 0 "a run on the processor" $on_gpu --device cpu --steps 2 --gpu-report-every 1 --output-dir cpu
check "a run on the processor: no line" no '^GPU memory' err
check "a run on the processor: no record" no 'gpu/' cpu/metrics.jsonl
exits 0 "the defaults" train --help
check "the defaults" test "$(grep -c -e '^  --gpu-report-every N .*(default: 50)$' -e '^  --gpu-mem-max P .*(default: 95)$' out)" -eq 2
echo '{"monitor": {"gpu_log_freq": 20}, "gpu_mem_max": 80}' >settings.json
exits 0 "settings" train --config settings.json --print-config
check "gpu_log_freq" grep -q '^gpu-report-every  *20  *(settings.json:1)' out
check "gpu_mem_max" grep -q '^gpu-mem-max  *80  *(settings.json:1)' out
refuses 1 "gpu-mem-max must be above 0 and at most 100 (got 101)" $on_gpu --gpu-mem-max 101 --output-dir gone

# ---- memory during training ----

device_shows 'used 2100000000'
exits 0 "a full device" $on_gpu --steps 4 --gpu-report-every 1 --output-dir full
check "a full device: reported once" \
    test "$(grep -c "^warning: 98 % of the GPU's memory is used (limit 95 %); " err)" -eq 1
check "a full device: recorded" grep -q '"event": "warning".*"gpu_memory_percent": 97\.7' full/metrics.jsonl
exits 0 "a full device: another limit" $on_gpu --steps 4 --gpu-report-every 1 --gpu-mem-max 99 --output-dir allowed
check "a full device: not said" no "GPU's memory is used" err
device_shows ''
exits 0 "a limit that is low" $on_gpu --steps 2 --gpu-report-every 1 --gpu-mem-max 30 --output-dir low
check "a limit that is low: reported" grep -q "^warning: 38 % of the GPU's memory is used (limit 30 %); " err

# ---- unknown figures are left out ----

short="$on_gpu --steps 1 --gpu-report-every 1"
device_shows 'temperature -' 'process -' 'energy -' 'gpu -'
exits 0 "a device with few figures" $short --output-dir few
check "a device with few figures: the line" grep -q "^GPU memory: $gib allocated; 214 W\$" err
check "a device with few figures: the record" no -e gpu/celsius -e gpu/reserved -e energy_j -e 'gpu/.*utilization' few/metrics.jsonl
check "a device with few figures: no zeros" no '"gpu/[a-z_]*": 0,' few/metrics.jsonl
device_shows 'process_used 1000' 'slowed 0x40'
exits 0 "the memory of another process" $short --output-dir other
check "the memory of another process: not this one's; the reason for low clocks" \
    grep -q "^GPU memory: $gib allocated; 63 C, 214 W; slowed down by heat\$" err
check "the reason for low clocks is recorded" grep -q '"gpu/slowed_by": "heat"' other/metrics.jsonl
device_shows ''
mkdir without
for library in "$libraries"/lib*; do
    case $library in *nvidia-ml*) ;; *) ln -s "$library" without/ ;; esac
done
(LIBRARIES=$work/without && export LIBRARIES && "$eitp" $short --output-dir missing >out 2>err)
check "without the library of the driver: the line" grep -q "^GPU memory: $gib allocated\$" err
check "without the library of the driver: the record" no -e gpu/celsius -e gpu/power missing/metrics.jsonl
check "without the library of the driver: the allocated memory" grep -q '"gpu/allocated_gib": 0\.00' missing/metrics.jsonl

# ---- heat, with a monitor running ----

device_shows 'temperature 95'
check "a hot GPU: pauses" start_until 'training pauses before step 1: GPU Emulated GPU 0 is at 95.0 C (limit 85.0 C); it continues at 75.0 C' \
    $on_gpu --steps 4 --gpu-report-every 2 --output-dir hot
device_shows 'temperature 95' "process $process"
exits 0 "monitor, of a run that pauses" monitor --once hot
for fact in 'GPU use: 87 %' 'GPU memory: 730.1 MB' 'GPU memory used: 805.3 MB of 2.1 GB' 'GPU temperature: 95 C' 'GPU power: 214 W' \
    'warning: the GPU is at 95 C and slows down at 90 C'; do
    check "monitor: $fact" grep -q "^$fact\$" out
done
device_shows 'process 1' 'process_used -' 'gpu -' 'temperature 84'
exits 0 "monitor --json" monitor --once --json hot
check "monitor --json: numbers" \
    grep -q '"gpu_used_bytes": 805306368, "gpu_bytes": 2147483648, "gpu_temperature_celsius": 84, "gpu_power_watts": 214.3' out
check "monitor --json: unknown figures are left out" no -e gpu_percent -e gpu_process_bytes out
device_shows 'temperature 70'
wait_for_end
check "a hot GPU: continues when it is cooler" test $? -eq 0
check "a hot GPU: reported" grep -q '^training continues after [0-9]* s: GPU Emulated GPU 0 is at 70.0 C$' running.err
happens "started temperature saved" "a hot GPU" "$(happened hot)"
check "a hot GPU: the same bits" same_checkpoints run/checkpoint-4 hot/checkpoint-4
exits 0 "monitor, of a run that has ended" monitor --once hot
for fact in 'GPU use: 87 % (last)' 'GPU memory: 730.1 MB (last)' 'GPU memory used: 805.3 MB of 2.1 GB (last)' \
    'GPU temperature: 70 C (last)'; do
    check "monitor: $fact" grep -q "^$fact\$" out
done
exits 0 "monitor, of a run on the processor" monitor --once cpu
check "monitor, of a run on the processor" no GPU out
device_shows 'temperature 90' 'slowdown -'
exits 0 "a GPU without its own limit" $short --output-dir warm
check "a GPU without its own limit: no pause" no pauses err
check "--temp-max" start_until 'GPU Emulated GPU 0 is at 90.0 C (limit 70.0 C)' $short --temp-max 70 --output-dir limited
device_shows 'temperature 60'
wait_for_end
check "--temp-max: ends" test $? -eq 0

# ---- the screen of the monitor ----

check "build tests/command/pseudo_terminal.c" "${CC:-cc}" -o pseudo_terminal "$root/tests/command/pseudo_terminal.c"
shows() { # directory; standard input has what the screen must show
    LC_ALL=C.UTF-8 TERM=xterm ./pseudo_terminal 120x40 "$eitp" monitor "$1" 2>screen.err || { cat screen.err && false; }
}
if echo 'end 0' | ./pseudo_terminal 80x24 true 2>err || no 'no pseudo terminal' err; then
    check "the screen" shows hot <<'END'
wait GPU memory    730.1 MB (last), GPU power 214 W (last)
wait GPU           70 C (last), GPU use 87 % (last)
key q
end 0
END
    check "the screen of a run on the processor" shows cpu <<'END'
wait memory left
gone GPU
key q
end 0
END
else
    echo "SKIPPED the screen of the monitor: this system has no pseudo terminals"
fi

# ---- check-system ----

examine="check-system --init tiny.json --memory-budget 20G"
device_shows ''
exits 0 "check-system" $examine
check "a GPU that is not used" \
    grep -q '^GPU  *Emulated GPU 0, driver nvidia 580.65, memory 2.1 GB, 1.3 GB free, 63 C; not used: .* was never run on a GPU' out
check "a GPU that is not used: no rule" grep -q 'never run on a GPU, .*; GPU memory does not count' out
check "a GPU that is not used: the tier" grep -q '^tier  *full, according to 20.0 GB of memory (full above 16 GB, safe from 8 GB)$' out
EITP_EMULATED_CUDA_MEMORY=12884901888
export EITP_EMULATED_CUDA_MEMORY
for pair in 3999999999:low-memory 4000000000:safe 8000000000:safe 8000000001:full; do
    device_shows "used $((12884901888 - ${pair%%:*}))"
    exits 0 "check-system --device cuda" $examine --device cuda --json
    check "${pair%%:*} bytes free on the GPU: tier ${pair##*:}" grep -q "\"tier\": \"${pair##*:}\"" out
    check "${pair%%:*} bytes free on the GPU: shown" \
        grep -q "\"bytes\": 12884901888, \"free\": ${pair%%:*}, \"celsius\": 63, \"slowdown_celsius\": 90, \"used\": true" out
done
exits 0 "the memory of the machine counts too" $examine --memory-budget 9G --device cuda
check "the memory of the machine counts too" \
    grep -q '^tier  *safe, according to 9.0 GB of memory .*, and 8.0 GB free on the GPU (full above 8 GB, safe from 4 GB)$' out
check "a GPU that is used" grep -q '63 C; used: eitp.s CUDA backend was never run on a GPU$' out
unset EITP_EMULATED_CUDA_MEMORY
device_shows 'used -' 'temperature -'
exits 0 "a GPU with unknown memory" $examine --device cuda
check "a GPU with unknown memory" grep -q '^GPU  *Emulated GPU 0, driver nvidia 580.65, memory unknown; used' out
check "a GPU with unknown memory: no rule" grep -q 'its memory does not count because its free memory is unknown' out
check "a GPU with unknown memory: the tier" grep -q '^tier  *full, according to 20.0 GB of memory (full above 16 GB, safe from 8 GB)$' out
device_shows ''
(EITP_EMULATED_CUDA_DEVICES=3 CUDA_VISIBLE_DEVICES=2,1 && export EITP_EMULATED_CUDA_DEVICES CUDA_VISIBLE_DEVICES &&
    "$eitp" $examine --device cuda:1 >out 2>err)
check "several GPUs: the one that is used" grep -q '^GPU  *Emulated GPU 1, .*, 73 C; used: ' out
check "several GPUs: the others" test "$(grep -c '^GPU  *Emulated GPU [02], .*; not used: --device selects another$' out)" -eq 2
(LIBRARIES=$work/without && export LIBRARIES && "$eitp" $examine --device cuda >out 2>err)
check "a GPU without the library of the driver" grep -q '^GPU  *unknown: NVIDIA.s driver library (libnvidia-ml.so.1) lists none$' out

finish
