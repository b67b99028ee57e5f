/* Shared by the benches: the machine, the context, its limits, lines, earlier results. */
#ifndef COMMAND_BENCH_H
#define COMMAND_BENCH_H

#include "options/options.h"

EITP_BEGIN_DECLARATIONS

/* A kind of work: its times, and the arithmetic and bytes it needs. */
typedef struct bench_line {
    char name[80];
    double seconds, median; /* best and median time */
    double flops, bytes;
    double limit;   /* lower bound of the seconds */
    double earlier; /* seconds in --compare's file; 0: none */
} bench_line;

typedef struct bench_lines {
    bench_line *lines;
    size_t count;
} bench_lines;

typedef struct bench {
    option_set options;
    int argument_count; /* arguments of the command line after the kind */
    char **arguments;
    const char *kind; /* "kernels", "step" or "monitor" */
    eitp_context *context;
    int measured; /* 1: the limits are known */
    eitp_limits limits;
    eitp_dtype dtype;    /* of --precision */
    bench_lines results; /* so far */
    bench_lines earlier; /* names and seconds of --compare's file */
} bench;

/* Reads --compare's file and creates the context. */
eitp_status bench_open(bench *b, eitp_error *error);

/* Sets defaults of options that differ from other commands. */
void bench_step_defaults(option_set *o);
void bench_monitor_defaults(option_set *o);

/* Sets --memory-budget, by default to the machine's free memory. */
eitp_status bench_read_budget(option_set *o, eitp_error *error);

/* Measures the limits unless they are known. Takes seconds: check everything that may be refused first. */
eitp_status bench_measure(bench *b, eitp_error *error);

void bench_close(bench *b);

/* Returns a lower bound of the seconds of a plan's step, from its arithmetic and its bytes. */
double bench_limit(const eitp_limits *limits, const eitp_profile *profile);

/* Returns the median. Sorts the values. */
double bench_median(double *values, size_t count);

/* Adds a line of results and, without --json, prints it. */
void bench_add(bench *b, const bench_line *line);

/* Warns of lines of --compare's file without a result; with --filter, only of matching lines. */
void bench_report_missing(const bench *b);

/* Prints the machine and the kernels in use, at the top of a table. */
void bench_print_machine(const bench *b);

/* Starts the object of --json with the machine and its limits, if measured; the second function adds the lines by
   columns. */
void bench_json_begin(const bench *b, text_buffer *t);
void bench_json_lines(const bench *b, text_buffer *t);

/* The benches, after bench_open and up to the result. */
eitp_status bench_kernels(bench *b, eitp_error *error);
eitp_status bench_step(bench *b, eitp_error *error);
eitp_status bench_monitor(bench *b, eitp_error *error);

EITP_END_DECLARATIONS

#endif
