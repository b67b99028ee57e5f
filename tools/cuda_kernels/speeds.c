/*
 * The constants of the expected times, each with its source. They are published figures of hardware and of other
 * programs. None is adjusted to eitp.
 */
#include "cuda_kernels.h"

static const struct {
    const char *name;
    int capability;
} devices[DEVICES] = {{"H100 SXM", 90}, {"H200", 90}, {"A100 SXM", 80}, {"RTX 4090", 89}};

typedef struct speed_row {
    device_speed speed;
    const char *what, *unit;
    double values[DEVICES];
    const char *source;
} speed_row;

static const char nvidia[] = "NVIDIA: datasheets of H100 (2022), H200 (2023) and A100 (2020), whitepaper of Ada (2022)",
                  gpu_benches[] = "RRZE, *gpu-benches* (2025): GH200, A100, L40",
                  hopper[] = "Luo et al., *Dissecting the NVIDIA Hopper Architecture* (2025), arXiv:2501.12084",
                  tensor_kernels[] = "waynehacking8, *Blackwell Tensor Core Kernels* (2026)";

static const speed_row speeds[] = {
    {SPEED_CLOCK, "clock of the nominal rates", "MHz", {1830, 1830, 1410, 2520}, nvidia},
    {SPEED_MEMORY, "memory, nominal", "TB/s", {3.35, 4.8, 2.039, 1.008}, nvidia},
    {SPEED_MEMORY_REACHED,
     "share that copies reach",
     "",
     {0.887, 0.887, 0.854, 0.889},
     "TileOPs, profile of an H200 (2026); *gpu-benches*: A100, L40"},
    {SPEED_MEMORY_LATENCY, "latency of memory", "ns", {317, 317, 380, 232}, gpu_benches},
    {SPEED_CACHE_LATENCY, "latency of the L2 cache", "ns", {142, 142, 146, 110}, gpu_benches},
    {SPEED_LAUNCH,
     "the shortest kernel in a graph",
     "us",
     {1.26, 1.26, 1.34, 0.94},
     "*gpu-benches*, small kernels in a graph: H200, A100, L40"},
    {SPEED_ADD,
     "an addition in F32 that waits for the previous one",
     "cycles",
     {4, 4, 4, 4},
     "Jarmusch et al., *Dissecting the NVIDIA Blackwell Architecture with Microbenchmarks* (2025), arXiv:2507.10789"},
    {SPEED_ADD_DOUBLE,
     "the same in F64",
     "cycles",
     {8, 8, 8, 16},
     "*gpu-benches*, in-core: V100; RTX 4090: 2 results a cycle, *CUDA C++ Programming Guide*"},
    {SPEED_SHARED_LATENCY, "latency of shared memory", "cycles", {29, 29, 29, 29}, hopper},
    {SPEED_MMA,
     "share of the tensor cores' rate, `mma.sync`",
     "",
     {0.65, 0.65, 1, 1},
     "the same: 494 of 757 TFLOP/s; the only instruction before sm_90"},
    {SPEED_LARGE_TILE,
     "share of that, tiles of 128 x 128 with four warps",
     "",
     {0.85, 0.85, 0.85, 0.85},
     tensor_kernels},
    {SPEED_SMALL_TILE, "the same, warps with 32 x 32", "", {0.62, 0.62, 0.62, 0.62}, tensor_kernels},
    {SPEED_ATTENTION,
     "share of that, attention",
     "",
     {0.60, 0.60, 0.73, 0.73},
     "FlashAttention-2: on H100, *Blackwell Tensor Core Kernels*; on A100, Dao (2023), arXiv:2307.08691; on sm_86, "
     "gpu-mode/ring-attention, issue 10 (2024)"},
    {SPEED_ATTENTION_BACKWARD, "the same, backward pass", "", {0.50, 0.50, 0.63, 0.56}, "the same"},
    {SPEED_BLAS,
     "cuBLAS, large products in full waves",
     "TFLOP/s",
     {794, 794, 271, 163},
     "Bekman, *Machine Learning Engineering* (2026), maximum achievable matmul FLOPS; RTX 4090: "
     "mli/transformers-benchmarks, issue 4 (2023)"},
    {SPEED_BLAS_START,
     "its time besides, launch included",
     "us",
     {8.7, 8.7, 9.6, 5.7},
     "lines through measurements of 512 to 8192 rows: H100, *Blackwell Tensor Core Kernels*; A800 and RTX 4090, "
     "mli/transformers-benchmarks, issue 4"},
    {SPEED_BLAS_UNALIGNED,
     "its rate if rows are not aligned to 16 bytes",
     "",
     {0.28, 0.28, 0.70, 0.70},
     "H100: moondream, kestrel, pull request 143 (2026); RTX 4090: PyTorch, issue 181718 (2026), also for A100"},
};

const char *device_name(int device) {
    return devices[device].name;
}

const processor *device_processor(int device) {
    return processor_of(devices[device].capability);
}

double device_speed_of(int device, device_speed speed) {
    for (size_t i = 0; i < EITP__COUNT(speeds); i++)
        if (speeds[i].speed == speed)
            return speeds[i].values[device];
    stop("speed %d has no row in speeds.c", (int)speed);
}

double device_tensor_rate(int device) {
    const eitp__cuda_device described = processor_device(device_processor(device));
    return eitp__cuda_rates_of(&described).tensor * described.processors * device_speed_of(device, SPEED_CLOCK) * 1e6;
}

void print_speeds(void) {
    printf("| |");
    for (int d = 0; d < DEVICES; d++)
        printf(" %s |", devices[d].name);
    printf(" source |\n|---|");
    for (int d = 0; d < DEVICES; d++)
        printf("--:|");
    printf("---|\n| tensor cores, nominal, TFLOP/s |");
    for (int d = 0; d < DEVICES; d++)
        printf(" %.0f |", device_tensor_rate(d) / 1e12);
    printf(" operations of a multiprocessor per cycle: `backends/cuda/cuda.c` |\n");
    for (size_t i = 0; i < EITP__COUNT(speeds); i++) {
        printf("| %s%s%s |", speeds[i].what, *speeds[i].unit ? ", " : "", speeds[i].unit);
        for (int d = 0; d < DEVICES; d++)
            printf(" %g |", speeds[i].values[d]);
        printf(" %s |\n", speeds[i].source);
    }
}
