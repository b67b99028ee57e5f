/* A kind of work that eitp bench kernels measures: an op, built from variables. */
#ifndef COMMAND_BENCH_WORK_H
#define COMMAND_BENCH_WORK_H

#include "command_bench.h"

EITP_BEGIN_DECLARATIONS

/* The plans of the work under way, which are run in turn, and the context that their variables live in. */
typedef struct kernel {
    bench *b;
    eitp_context *context;
    int count;
    eitp_graph **graphs;
    eitp_plan **plans;
    eitp_update update; /* of the plan, where it has one */
} kernel;

typedef struct work {
    const char *name, *op; /* of the line; of the steps that are measured */
    const char *op_16;     /* of those in 16-bit precision, where it is another; or NULL */
    void (*build)(kernel *k, int copy, const struct work *w);                 /* fills a graph; a failure shows in it */
    eitp_status (*write)(kernel *k, const struct work *w, eitp_error *error); /* the integers; NULL: there are none */
    int64_t m, in, out;                                                       /* sizes */
} work;

/* A variable of a graph, called by what it is, its copy and its shape [m, n], or [m] where n is 0. It is filled with
 * random numbers where it is floating. */
eitp_tensor *work_variable(kernel *k, int graph, const char *what, int copy, eitp_dtype dtype, int64_t m, int64_t n);

/* Writes 0, step, 2 step, ... modulo `limit` to copy 0 of an I32 variable [n]. */
eitp_status work_write_integers(kernel *k, const char *what, int64_t n, int64_t step, int64_t limit, eitp_error *error);

/* Is it among what --filter lets through? */
int work_is_wanted(const bench *b, const char *name);

/*
 * Measures it, in as many copies, and adds its line. What the precision or the device has not got is said, and left
 * out. Makes the context where there is none.
 */
eitp_status work_measure(kernel *k, const work *w, int copies, eitp_error *error);

EITP_END_DECLARATIONS

#endif
