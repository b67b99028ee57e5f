/* What eitp bench kernels and eitp bench step share: the context and its limits, lines, an earlier result. */
#ifndef COMMAND_BENCH_H
#define COMMAND_BENCH_H

#include "command_options.h"

EITP_BEGIN_DECLARATIONS

/* A kind of work: what it took, and what it needs. */
typedef struct bench_line {
    char name[80];
    double seconds, median; /* the best, and the one in the middle */
    double flops, bytes;
    double limit;   /* seconds that it takes at least */
    double earlier; /* seconds that --compare gives it; 0: none */
} bench_line;

typedef struct bench_lines {
    bench_line *lines;
    size_t count;
} bench_lines;

typedef struct bench {
    option_set options;
    const char *kind; /* "kernels" or "step" */
    eitp_context *context;
    int measured; /* are the limits known? */
    eitp_limits limits;
    eitp_dtype dtype;    /* of --precision */
    bench_lines results; /* so far */
    bench_lines earlier; /* of --compare; of each line its name and the seconds */
} bench;

/* Opens what both need: --compare's file and the context. */
eitp_status bench_open(bench *b, eitp_error *error);

/* Measures the limits, unless they are known. It takes seconds, so what may be refused comes before it. */
eitp_status bench_measure(bench *b, eitp_error *error);

void bench_close(bench *b);

/* Seconds that a step of a plan takes at least, going by its arithmetic and its bytes. */
double bench_limit(const eitp_limits *limits, const eitp_profile *profile);

/* The one in the middle; puts the values in order. */
double bench_median(double *values, size_t count);

/* Adds a line of the results; without --json it is printed too. */
void bench_add(bench *b, const bench_line *line);

/* Says which lines of --compare's file are not among the results; with --filter, only those it lets through. */
void bench_report_missing(const bench *b);

/* Begins the object of --json: what was measured where, and the limits; and adds the lines to it, by columns. */
void bench_json_begin(const bench *b, text_buffer *t);
void bench_json_lines(const bench *b, text_buffer *t);

/* EITP_ERROR_INTERRUPTED where a signal asked to stop. */
eitp_status bench_check_stopped(eitp_error *error);

/* The two benches: all from bench_open to the result. */
eitp_status bench_kernels(bench *b, eitp_error *error);
eitp_status bench_step(bench *b, eitp_error *error);

EITP_END_DECLARATIONS

#endif
