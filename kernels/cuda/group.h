/*
 * Kernels whose launches compute several calls: with GROUP, KERNEL takes an eitp__group and runs the kernel's body for
 * each call. Many small calls take less time than as many launches.
 */
#ifndef EITP_CUDA_GROUP_H
#define EITP_CUDA_GROUP_H

#include "kernels/cuda/launch.h"

#ifdef GROUP

/* The number of the block in its call, in shared memory. */
DEVICE shared<int64_t> number_in_call() {
    SHARED(int64_t, number, 1);
    return number;
}
DEVICE int64_t block_index() {
    return number_in_call()[0];
}

DEVICE eitp__group_block place_of_block(const eitp__group &group) {
    const int64_t block = launched_block();
    eitp__group_block place = {0, (uint32_t)block};
    if (group.blocks)
        place = constant_at<eitp__group_block>(group.blocks, block);
    return place;
}

/* Barriers order a call after the previous one of its chain. */
template <void (*run)(const eitp__launch &)> DEVICE void run_group(const eitp__group &group) {
    const eitp__group_block place = place_of_block(group);
    if (thread_index() == 0)
        number_in_call()[0] = place.block;
    barrier();
    for (int i = 0; i < group.chain; i++) {
        run(constant_at<eitp__launch>(group.calls, place.call + i));
        barrier();
    }
}

#undef KERNEL
#define KERNEL(name, threads)                                                                                          \
    DEVICE void name##_of_call(const eitp__launch &l);                                                                 \
    KERNEL_OF(eitp__group, name, threads) {                                                                            \
        run_group<name##_of_call>(l);                                                                                  \
    }                                                                                                                  \
    DEVICE void name##_of_call(const eitp__launch &l)

#else

DEVICE int64_t block_index() {
    return launched_block();
}

#endif

#endif
