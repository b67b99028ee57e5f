/*
 * Shared by the emulated driver (driver.c) and the modules compiled by the emulated NVRTC (nvrtc.c). A module is a
 * shared library. For each kernel it exports a function of type emulated_kernel with the kernel's name, and a size_t
 * with the name and "_arguments": the size of the kernel's only argument, a struct.
 *
 * A device address is the host address of the underlying memory plus EMULATED_TAG, which the host cannot access.
 */
#ifndef EMULATED_LAUNCH_H
#define EMULATED_LAUNCH_H

#include <stddef.h>
#include <stdint.h>

#define EMULATED_TAG ((uint64_t)0xa5 << 48)

/* One access to an element: the thread, block and launch, and the number of barriers before it. */
typedef struct emulated_access {
    uint32_t launch, block;
    uint16_t thread, barriers, warp_barriers, is_shared; /* is_shared, of a read: several threads read it */
} emulated_access;

/* Elements of one size: the last write and the last read of each. */
typedef struct emulated_shadow {
    emulated_access *writes, *reads; /* zeros until an access; NULL until the first */
} emulated_shadow;

/* An allocation. */
typedef struct emulated_range {
    uint64_t begin; /* device address */
    size_t size;
    unsigned char *written;     /* one for each byte: 1 if something was stored there */
    emulated_shadow shadows[4]; /* for elements of 1, 2, 4 and 8 bytes, indexed from the start */
} emulated_range;

typedef struct emulated_launch {
    const void *arguments;
    unsigned grid[3], block[3];
    size_t dynamic_shared;  /* in bytes */
    emulated_range *ranges; /* all allocations, sorted by address */
    size_t range_count;
    uint32_t number;   /* from 1, different for each launch */
    uint64_t seed;     /* of the order in which blocks and warps run */
    char message[400]; /* after a failure: the error and its location */
} emulated_launch;

/* Executes a launch. Returns 0, or 1 after a broken rule, with its message. */
typedef int (*emulated_kernel)(emulated_launch *launch);

#endif
