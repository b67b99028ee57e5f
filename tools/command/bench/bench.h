/* What the benches share: the machine, the context, its limits, lines, earlier results. */
#ifndef COMMAND_BENCH_H
#define COMMAND_BENCH_H

#include "options/options.h"

EITP_BEGIN_DECLARATIONS

/* A kind of work: its times, and the arithmetic and bytes it needs. */
typedef struct bench_line {
    char name[80];
    double seconds, median; /* the best time, and the median */
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
    int argument_count; /* of the command line, after the kind */
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

/* Defaults of options that differ from those of other commands. */
void bench_step_defaults(option_set *o);
void bench_monitor_defaults(option_set *o);

/* Sets --memory-budget, by default to what the machine has left. */
eitp_status bench_read_budget(option_set *o, eitp_error *error);

/* Measures the limits, unless they are known. It takes seconds: check first what may be refused. */
eitp_status bench_measure(bench *b, eitp_error *error);

void bench_close(bench *b);

/* A lower bound of the seconds of a plan's step, from its arithmetic and its bytes. */
double bench_limit(const eitp_limits *limits, const eitp_profile *profile);

/* The median; sorts the values. */
double bench_median(double *values, size_t count);

/* Adds a line of the results; without --json it is printed too. */
void bench_add(bench *b, const bench_line *line);

/* Warns of lines of --compare's file that are not among the results; with --filter, only of those that match it. */
void bench_report_missing(const bench *b);

/* Prints the machine and the kernels in use, at the top of a table. */
void bench_print_machine(const bench *b);

/* Begins the object of --json with the machine and its limits, if they were measured; adds the lines by columns. */
void bench_json_begin(const bench *b, text_buffer *t);
void bench_json_lines(const bench *b, text_buffer *t);

/* The benches, from bench_open to the result. */
eitp_status bench_kernels(bench *b, eitp_error *error);
eitp_status bench_step(bench *b, eitp_error *error);
eitp_status bench_monitor(bench *b, eitp_error *error);

EITP_END_DECLARATIONS

#endif
