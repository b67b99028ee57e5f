/* Comparison of training configurations: a sweep of one option, each switch alone, or configuration files. */
#ifndef COMMAND_BENCH_COMPARE_H
#define COMMAND_BENCH_COMPARE_H

#include "bench/bench.h"

EITP_BEGIN_DECLARATIONS

/* True if the options request a comparison: --sweep, --matrix, or --compare with several files. */
int bench_compares(const bench *b);

/* Measures the configurations and prints a table of them. */
eitp_status bench_compare(bench *b, eitp_error *error);

EITP_END_DECLARATIONS

#endif
