/* Training configurations that are timed in alternation, and the table of their results. */
#ifndef COMMAND_BENCH_ROUNDS_H
#define COMMAND_BENCH_ROUNDS_H

#include "bench/bench.h"
#include "bench/trainer.h"

EITP_BEGIN_DECLARATIONS

enum { BENCH_WARM_UP = 1 /* steps that are not timed */ };

/* A row of the table. Gains are in tokens per second over the first row, in percent. */
typedef struct bench_result {
    char name[80];
    int64_t tokens;      /* per step */
    double median, best; /* seconds per step */
    double planned;      /* bytes of the process */
    double memory;       /* resident bytes that the configuration added to the process */
    double baseline;     /* tokens per second of the first configuration in the same rounds; NAN: not alternating */
    double gain;
    double low, high;     /* range of the gain over rounds; NAN: not alternating */
    double memory_change; /* planned bytes relative to the first row, in percent */
} bench_result;

/* A configuration with its trainer, during measurement. */
typedef struct bench_configuration {
    char name[80];
    option_set options;
    bench_trainer trainer;
    double *seconds; /* per timed step */
    double memory;   /* resident bytes that it added to the process */
} bench_configuration;

typedef struct bench_comparison {
    bench *b;
    const char *kind; /* "sweep", "matrix" or "configurations" */
    size_t process;   /* resident bytes before the first configuration */
    int64_t budget;   /* bytes; 0: no limit */
    int64_t steps;    /* timed per configuration */
    bench_result *results;
    size_t count;
} bench_comparison;

/* Reads the command line again with one more argument, or none if it is "". */
eitp_status bench_configuration_options(const bench *b, const char *argument, option_set *options, eitp_error *error);

/*
 * Opens the configuration of the command line with one more argument, and warms it up. `others` is the planned bytes of
 * the other open configurations. Close it in any case.
 */
eitp_status bench_configuration_open(const bench_comparison *m, bench_configuration *c, const char *name,
                                     const char *argument, size_t others, eitp_error *error);
void bench_configuration_close(bench_configuration *c);

/* Returns the planned bytes that the configuration adds to the process. */
size_t bench_configuration_bytes(const bench_configuration *c);

/* Times configurations in rounds of one step each. Every other round has the opposite order. */
eitp_status bench_run_rounds(const bench_comparison *m, bench_configuration **list, size_t count, eitp_error *error);

/* True if a configuration failed because it does not suit the machine or the model. The others are still measured. */
int bench_is_skipped(eitp_status status);

/* Adds the row of a configuration and, without --json, prints it. `base`, which may be NULL, ran in the same rounds. */
void bench_add_result(bench_comparison *m, const bench_configuration *c, const bench_configuration *base);

/* Prints all rows as one JSON object, by columns. */
void bench_print_comparison(const bench_comparison *m);

/* Comma-separated lists of values: the names of all optimizers; and the next value of a list, 0 at the end. */
const char *bench_optimizer_names(void);
int bench_next_value(const char **list, char *value, size_t size);

/* The kinds of comparison. */
eitp_status bench_sweep(bench_comparison *m, eitp_error *error);
eitp_status bench_matrix(bench_comparison *m, eitp_error *error);

EITP_END_DECLARATIONS

#endif
