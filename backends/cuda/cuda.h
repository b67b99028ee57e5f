/* Shared declarations of the CUDA backend: the backend object and its programs. */
#ifndef EITP_CUDA_H
#define EITP_CUDA_H

#include "backends/backend.h"
#include "backends/cuda/blas.h"
#include "backends/cuda/modules.h"
#include "backends/cuda/profile.h"
#include "kernels/cuda/launch.h"

#if EITP__WITH_CUDA

/* Pinned memory between device and storage: two pieces, one in use while the other is copied. Not needed for storage
   that is itself in pinned memory. */
#define EITP__CUDA_STAGE_BYTES ((size_t)4 << 20)

typedef struct eitp__cuda {
    eitp__backend base;
    eitp__cuda_driver driver;
    eitp__cuda_compiler compiler;
    eitp__cuda_prepared prepared;
    eitp__cuda_modules modules;
    eitp__cuda_blas blas;
    eitp__cuda_device device;
    int pageable;    /* eitp__backend_config.pageable */
    int uses_graphs; /* 0: EITP_CUDA_GRAPH, or a capture has failed */
    int handle;      /* of the device, while its context is retained */
    eitp__cuda_context context;
    eitp__cuda_stream compute, copy;  /* copy: transfers, in order */
    eitp__cuda_event fork, join;      /* synchronize the two streams */
    eitp__cuda_event end;             /* the host sleeps until it is reached */
    char *stages[2];                  /* NULL until a program has transfers */
    eitp_error late;                  /* error of a transfer, reported by `wait` */
    struct eitp__cuda_program *timed; /* programs with executions whose times have not been read */
    eitp__cuda_profile profile;
} eitp__cuda;

static inline EITP__UNUSED eitp__cuda *eitp__cuda_of(const eitp__backend *backend) {
    return (eitp__cuda *)(uintptr_t)backend;
}

/* ---- cuda.c ---- */

/* Nominal operations of a multiprocessor per cycle, dense. */
typedef struct eitp__cuda_rates {
    double f32, tensor; /* in F32; on tensor cores, with 16-bit factors and sums in F32 */
} eitp__cuda_rates;

/* Returns the rates of a device, by its capability and name. */
EITP__PRIVATE eitp__cuda_rates eitp__cuda_rates_of(const eitp__cuda_device *device);

/* ---- context.c ---- */

/* Makes the device's context current on this thread. */
EITP__PRIVATE eitp_status eitp__cuda_enter(const eitp__cuda *cuda, eitp_error *error);

/* Enters the context and waits for the compute stream, even if entering failed. */
EITP__PRIVATE eitp_status eitp__cuda_finish(const eitp__cuda *cuda, eitp_error *error);

/* ---- divide.c ---- */

/* The execution of an instruction of a divided program. */
typedef struct eitp__cuda_part {
    eitp__cuda_product *product;       /* by cuBLASLt; NULL: by kernels */
    const eitp__cuda_kernels *kernels; /* NULL: those that eitp__cuda_find returns */
    size_t whole;                      /* instruction of the plan that this is a part of; of a fused call, its first */
} eitp__cuda_part;

/* In eitp__cuda_division.instead: nothing. */
#define EITP__CUDA_NOTHING SIZE_MAX

/* The instructions of a divided program. */
typedef struct eitp__cuda_division {
    eitp__instruction *instructions; /* [capacity] */
    eitp__cuda_part *parts;          /* [capacity] */
    size_t count, capacity;
    size_t *first; /* indexed by instruction of the plan, and one more: its first one here; fused calls follow */
    size_t plan_count;
    size_t *instead;            /* [capacity]: the instruction that a whole execution has in place of this one */
    eitp__blas_division *calls; /* [call_capacity] */
    size_t call_count, call_capacity;
    eitp__call *fused_calls; /* [fused_capacity] */
    size_t fused_count, fused_capacity;
    eitp__cuda_address biases; /* memory of rounded biases */
} eitp__cuda_division;

/* Divides the instructions of a plan. `division` is zeroed; *divided has its instructions. Release it even after a
   failure. */
EITP__PRIVATE eitp_status eitp__cuda_divide(eitp__cuda *cuda, const eitp__program_info *info,
                                            eitp__cuda_division *division, eitp__program_info *divided,
                                            eitp_error *error);
EITP__PRIVATE void eitp__cuda_division_release(eitp__cuda *cuda, eitp__cuda_division *division);

/* ---- fused.c ---- */

/*
 * Finds the HEAD_LOSS and HEAD_BACKWARD that one call can compute, after the product, with instructions[0], a HEAD:
 * (logits, none, targets, none, dloss) -> dlogits, loss, logsumexp. HEAD_LOSS is instruction 1. Returns the index of
 * HEAD_BACKWARD, or 0 if the three cannot be fused.
 */
#define EITP__CUDA_FUSED_DISTANCE 16
EITP__PRIVATE size_t eitp__cuda_fused_call(const eitp__instruction *instructions, size_t count, eitp__call *fused);

/* ---- groups.c ---- */

/* True if a call reads or writes memory of an operand; with only_writes, if it writes it. */
EITP__PRIVATE int eitp__cuda_call_uses(const eitp__call *call, const eitp__operand *x, int only_writes);

/* A kernel launch, or a cuBLASLt product. */
typedef struct eitp__cuda_launch {
    eitp__cuda_product *product; /* NULL: a kernel */
    eitp__cuda_function function;
    eitp__cuda_kernel kernel;
    unsigned blocks, threads, shared;
    size_t instruction;
    int is_grouped;    /* 1: the kernel takes an eitp__group */
    eitp__group group; /* the argument for this call alone, if it is grouped */
} eitp__cuda_launch;

/* A part of a program: all launches of an instruction, or one launch for a group of calls. */
typedef struct eitp__cuda_unit {
    size_t instruction;       /* of a group: the last that was added */
    size_t first_member;      /* of a group: its instructions in eitp__cuda_order.members */
    size_t call_count;        /* of a group; 0: an instruction */
    eitp__cuda_launch launch; /* of a group */
} eitp__cuda_unit;

/* The order in which a program is executed as a whole. */
typedef struct eitp__cuda_order {
    eitp__cuda_unit *units; /* [capacity] */
    size_t *members;        /* [capacity] */
    size_t count, member_count, capacity;
    eitp__cuda_address memory; /* arguments of groups */
} eitp__cuda_order;

/*
 * Orders the instructions of a program and merges calls of the same kernel into groups. Instruction i is executed as
 * instead[i], whose `launches` are those from first[instead[i]] on; sets their arguments. Release the order even after
 * a failure.
 */
EITP__PRIVATE eitp_status eitp__cuda_order_create(eitp__cuda *cuda, const eitp__program_info *info,
                                                  const size_t *instead, const eitp__launch *arguments,
                                                  eitp__cuda_launch *launches, const size_t *first,
                                                  eitp__cuda_order *order, eitp_error *error);
EITP__PRIVATE void eitp__cuda_order_release(eitp__cuda *cuda, eitp__cuda_order *order);

/* ---- limits.c: functions of eitp__backend_interface ---- */

EITP__PRIVATE double eitp__cuda_peak(const eitp__backend *backend, eitp_dtype dtype);
EITP__PRIVATE eitp_status eitp__cuda_measure(eitp__backend *backend, eitp__backend_limits *limits, eitp_error *error);

/* ---- transfers.c ---- */

/* A piece of a transfer: copied between device and pinned memory by the device, and between pinned memory and storage
   by the driver's thread, unless the storage is pinned. */
typedef struct eitp__cuda_piece {
    eitp__cuda *cuda;
    const eitp__storage *storage;
    uint64_t offset;
    size_t size;
    char *pinned;
    int is_direct; /* `pinned` is in the storage */
    int is_read;
} eitp__cuda_piece;

/* The pieces of a program's transfers. */
typedef struct eitp__cuda_transfers {
    eitp__cuda_piece *pieces; /* [capacity] */
    size_t count, capacity;
    size_t *first;           /* indexed by instruction: its first piece */
    eitp__cuda_event *begun; /* indexed by instruction: the end of its copies; NULL for others */
    size_t instruction_count;
} eitp__cuda_transfers;

/* Creates the transfers of a program: zeros if it has none. Release them even after a failure. */
EITP__PRIVATE eitp_status eitp__cuda_transfers_create(eitp__cuda *cuda, const eitp__program_info *info,
                                                      eitp__cuda_transfers *transfers, eitp_error *error);
EITP__PRIVATE void eitp__cuda_transfers_release(eitp__cuda *cuda, eitp__cuda_transfers *transfers);

/* Starts a transfer on the copy stream, or makes the compute stream wait for one. */
EITP__PRIVATE eitp_status eitp__cuda_transfer(eitp__cuda *cuda, const eitp__program_info *info,
                                              const eitp__cuda_transfers *transfers, size_t instruction,
                                              eitp_error *error);

/* ---- phases.c ---- */

/* A phase that starts before a unit, and its event in the compute stream. */
typedef struct eitp__cuda_phase {
    size_t first;
    eitp__phase phase;
    eitp__cuda_event begin;
} eitp__cuda_phase;

/* The phases of a complete execution. */
typedef struct eitp__cuda_phases {
    eitp__cuda_phase *changes; /* [capacity]: `count` phases, and the end of the last one */
    size_t count, capacity;
    double *seconds;     /* eitp__program_info.seconds */
    unsigned executions; /* not waited for yet. Events have the times of the last one, which are used for all */
} eitp__cuda_phases;

/* Creates the phases of a program: zeros if its times are not requested. Release them even after a failure. */
EITP__PRIVATE eitp_status eitp__cuda_phases_create(eitp__cuda *cuda, const eitp__program_info *info,
                                                   const eitp__cuda_order *order, eitp__cuda_phases *phases,
                                                   eitp_error *error);
EITP__PRIVATE void eitp__cuda_phases_release(eitp__cuda *cuda, eitp__cuda_phases *phases);

/* Records the event before a unit, or at the end, if there is one; *next is its number, starting from 0.
   is_captured: the event becomes a node of the graph being captured. */
EITP__PRIVATE eitp_status eitp__cuda_phases_record(eitp__cuda *cuda, const eitp__cuda_phases *phases, size_t *next,
                                                   size_t unit, int is_captured, eitp_error *error);

/* Adds the times of the executions since the last call, which have ended. */
EITP__PRIVATE eitp_status eitp__cuda_phases_add(const eitp__cuda *cuda, eitp__cuda_phases *phases, eitp_error *error);

/* ---- Programs ---- */

typedef struct eitp__cuda_program eitp__cuda_program;

struct eitp__cuda_program {
    eitp__cuda_division division; /* of the plan's instructions */
    eitp__program_info info;      /* the divided ones */
    eitp__launch *arguments;      /* one per instruction */
    eitp__cuda_launch *launches;
    size_t launch_count;
    size_t *first; /* indexed by instruction, and one more: its first launch */
    eitp__cuda_order order;
    eitp__cuda_transfers transfers;
    eitp__cuda_phases phases;
    int is_loaded;                  /* 1: executed as a whole, so the driver has loaded all its kernels */
    eitp__cuda_graph_exec graph;    /* of all instructions; NULL until their second execution */
    eitp__cuda_program *next_timed; /* in eitp__cuda.timed, if there are executions in `phases` */
};

/* ---- unit_times.c ---- */

/* Prepares to measure an execution, if the program has work and its kernels are loaded. Returns 0 if it is not to be
   measured. */
EITP__PRIVATE int eitp__cuda_unit_times_start(eitp__cuda *cuda, const eitp__cuda_program *program);

/* Records the event before a unit, or after the last one. */
EITP__PRIVATE eitp_status eitp__cuda_unit_times_record(const eitp__cuda *cuda, size_t unit, eitp_error *error);

/* Adds the times and the work of an execution that has ended to the profile. */
EITP__PRIVATE void eitp__cuda_unit_times_add(eitp__cuda *cuda, const eitp__cuda_program *program);

/* ---- program.c: functions of eitp__backend_interface ---- */

EITP__PRIVATE eitp_status eitp__cuda_prepare(eitp__backend *backend, const eitp__program_info *info,
                                             eitp__program **program, eitp_error *error);
EITP__PRIVATE void eitp__cuda_discard(eitp__backend *backend, eitp__program *program);
EITP__PRIVATE eitp_status eitp__cuda_execute(eitp__backend *backend, eitp__program *program, size_t first, size_t end,
                                             const eitp__poll *poll, size_t stoppable, size_t *begun,
                                             eitp_error *error);
EITP__PRIVATE eitp_status eitp__cuda_wait(eitp__backend *backend, eitp_error *error);

#endif

#endif
