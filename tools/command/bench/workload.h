/* A workload of eitp bench kernels: an op on variables. */
#ifndef COMMAND_BENCH_WORKLOAD_H
#define COMMAND_BENCH_WORKLOAD_H

#include "bench/bench.h"

EITP_BEGIN_DECLARATIONS

/* The plans of the current workload, which are executed alternately, and the context of their variables. */
typedef struct kernel_bench {
    bench *b;
    eitp_context *context;
    int count;
    eitp_graph **graphs;
    eitp_plan **plans;
    eitp_update update; /* the inputs of the plan's update, if it has one */
} kernel_bench;

typedef struct workload {
    const char *name;                                                   /* of its line */
    const char *op;                                                     /* the op of the plan steps that are timed */
    const char *op_16;                                                  /* the same in 16-bit precision; NULL: op */
    void (*build)(kernel_bench *k, int copy, const struct workload *w); /* fills a graph, which stores a failure */
    eitp_status (*write)(kernel_bench *k, const struct workload *w, eitp_error *error); /* integers; NULL: none */
    int64_t m, in, out;                                                                 /* sizes */
} workload;

/* Adds a variable of shape [m, n], or [m] if n is 0, to a graph; named after `what`, copy and shape. Floating-point
   variables are filled with random numbers. */
eitp_tensor *workload_variable(kernel_bench *k, int graph, const char *what, int copy, eitp_dtype dtype, int64_t m,
                               int64_t n);

/* Writes 0, step, 2 step, ... modulo `limit` to copy 0 of an I32 variable [n]. */
eitp_status workload_write_integers(kernel_bench *k, const char *what, int64_t n, int64_t step, int64_t limit,
                                    eitp_error *error);

/* True if the name matches --filter. */
int workload_is_selected(const bench *b, const char *name);

/*
 * Measures a workload with this many copies of its weights and adds its line. A workload that the precision or the
 * device does not support is skipped with a warning. Creates the context if there is none.
 */
eitp_status workload_measure(kernel_bench *k, const workload *w, int copies, eitp_error *error);

EITP_END_DECLARATIONS

#endif
