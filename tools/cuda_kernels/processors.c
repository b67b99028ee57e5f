#include "cuda_kernels.h"

enum { KIB = 1024, REGISTERS = 65536 };

static const processor processors[] = {
    {75, "GeForce RTX 2080 Ti", 68, 32, 16, 64 * KIB, 64 * KIB, 0},
    {80, "A100", 108, 64, 32, 163 * KIB, 164 * KIB, KIB},
    {86, "GeForce RTX 3090", 82, 48, 16, 99 * KIB, 100 * KIB, KIB},
    {89, "GeForce RTX 4090", 128, 48, 24, 99 * KIB, 100 * KIB, KIB},
    {90, "H100 SXM", 132, 64, 32, 227 * KIB, 228 * KIB, KIB},
    {100, "B200", 148, 64, 32, 227 * KIB, 228 * KIB, KIB},
    {120, "GeForce RTX 5090", 170, 48, 24, 99 * KIB, 100 * KIB, KIB},
};

const processor *processor_at(size_t i) {
    return i < EITP__COUNT(processors) ? &processors[i] : NULL;
}

const processor *processor_of(int capability) {
    for (size_t i = 0; i < EITP__COUNT(processors); i++)
        if (processors[i].capability == capability)
            return &processors[i];
    stop("no processor with compute capability %d; choose from 75, 80, 86, 89, 90, 100, 120", capability);
}

eitp__cuda_device processor_device(const processor *p) {
    eitp__cuda_device device = EITP__ZERO;
    snprintf(device.name, sizeof device.name, "%s", p->name);
    device.capability = p->capability;
    device.processors = p->count;
    device.shared_limit = p->block_shared;
    return device;
}

static int round_up(int x, int unit) {
    return (x + unit - 1) / unit * unit;
}

static int smaller(int a, int b) {
    return a < b ? a : b;
}

/* Registers are allocated to warps in units of 256. Warps are distributed over the four parts of a multiprocessor. */
int processor_warps(const processor *p, int threads, int registers, size_t shared) {
    const int warps = round_up(threads, 32) / 32;
    const int of_registers = registers ? REGISTERS / round_up(registers * 32, 256) / 4 * 4 : p->warps;
    const size_t bytes = shared + p->reserved;
    int blocks = smaller(p->blocks, p->warps / warps);
    blocks = smaller(blocks, of_registers / warps);
    if (bytes)
        blocks = smaller(blocks, (int)(p->shared / bytes));
    return blocks * warps;
}
