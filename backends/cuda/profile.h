/* The profile of EITP_CUDA_PROFILE=1: time and work of launches, by the kernels of their calls. */
#ifndef EITP_CUDA_PROFILE_H
#define EITP_CUDA_PROFILE_H

#include "backends/backend.h"
#include "backends/cuda/driver.h"
#include "backends/cuda/slots.h"

#if EITP__WITH_CUDA

/* ---- The work of launches ---- */

/* The maximum number of launches of a call: the stages of an entry, or a kernel and a product. */
enum { EITP__CUDA_CALL_LAUNCHES = EITP__CUDA_STAGES };

enum { EITP__CUDA_WORK_NAME = 200 };

/* Writes the names of the kernels of a call, without "_kernel", and the purpose of its product:
   "`cuBLASLt`, gradient of input". */
EITP__PRIVATE void eitp__cuda_work_name(const eitp__cuda_kernel *kernels, size_t count, const char *purpose,
                                        char text[EITP__CUDA_WORK_NAME]);

/* Changes the work of a call into the work of a part of it (divide.c). A product has all operations of the call. */
EITP__PRIVATE void eitp__cuda_part_work(const eitp__call *part, int is_product, eitp__call_work *work);

/* Returns the bytes that launch k of a call moves. The first one that reads the operands moves the `operands` bytes of
   all. The workspace is written by a kernel and read by the next one. */
EITP__PRIVATE double eitp__cuda_launch_bytes(const eitp__cuda_kernel *kernels, size_t count, size_t k,
                                             const eitp__call *call, double operands);

/* ---- The profile ---- */

/* The launches with the same name, of all measured executions. */
typedef struct eitp__cuda_profile_row {
    char name[EITP__CUDA_WORK_NAME];
    eitp_dtype dtype;
    uint64_t calls, launches;
    double seconds, flops, bytes;
} eitp__cuda_profile_row;

/* The time of a unit of a program. */
typedef struct eitp__cuda_unit_time {
    eitp__cuda_event before; /* in the compute stream */
    float milliseconds;
} eitp__cuda_unit_time;

typedef struct eitp__cuda_profile {
    const eitp_host *host;
    const eitp__cuda_driver *driver;
    int is_on;
    eitp__cuda_profile_row *rows;
    size_t count, capacity;
    eitp__cuda_unit_time *times; /* of the program that is executed, and the end; all programs share them */
    size_t time_count, time_capacity;
    uint64_t executions; /* measured ones */
    uint64_t left_out;   /* first executions of programs */
} eitp__cuda_profile;

/* Reads EITP_CUDA_PROFILE. The driver is not used before times are reserved. */
EITP__PRIVATE eitp_status eitp__cuda_profile_open(eitp__cuda_profile *profile, const eitp_host *host,
                                                  const eitp__cuda_driver *driver, eitp_error *error);
EITP__PRIVATE void eitp__cuda_profile_close(eitp__cuda_profile *profile);

/* Reserves times of this number of units, and rows for them. After a failure the profile is off, with a warning.
   Returns 0 if it is off. */
EITP__PRIVATE int eitp__cuda_profile_reserve(eitp__cuda_profile *profile, size_t units);

/* Logs the reason why nothing is measured from now on. */
EITP__PRIVATE void eitp__cuda_profile_stop(eitp__cuda_profile *profile, const eitp_error *reason);

/* Adds a unit to the row of its name and dtype. There must be a reserved row. */
EITP__PRIVATE void eitp__cuda_profile_add(eitp__cuda_profile *profile, const eitp__cuda_profile_row *unit);

/* Logs the rows as a table, the longest first. */
EITP__PRIVATE void eitp__cuda_profile_log(eitp__cuda_profile *profile);

#endif

#endif
