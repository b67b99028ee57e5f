/* Watches a supervised run from outside: its steps, checkpoints and output. */
#ifndef COMMAND_SUPERVISE_STEPS_H
#define COMMAND_SUPERVISE_STEPS_H

#include "command.h"

EITP_BEGIN_DECLARATIONS

typedef struct steps_watch {
    const char *directory;
    int64_t checkpoint;        /* newest when the child started; -1: none */
    int64_t step;              /* last recorded step of the child; -1: none */
    int has_stepped;           /* the child has recorded a step */
    int is_paused;             /* the run is paused until the machine is cooler */
    double median_s;           /* of recent steps; 0: unknown */
    double longest_s;          /* the longest evaluation or save so far */
    double alive_at;           /* process_time of the last sign of life */
    double checked_at;         /* process_time of the last check */
    eitp_path_info began, now; /* state of the records */
    int64_t saving;            /* bytes of checkpoints that are being written */
    int64_t output;            /* bytes of output */
} steps_watch;

/* Call before a child is started. `output` is the number of bytes of output so far. */
void steps_begin(steps_watch *w, const char *directory, int64_t output);

/* Checks for signs of life: records, growing checkpoints, and output until the child has recorded anything. */
void steps_poll(steps_watch *w, int64_t output);

/*
 * Returns the seconds without a sign of life after which a child has stalled; 0: never. `given` is --stall-timeout. If
 * it is negative, the timeout is 20 times the median step and 3 times the longest evaluation or save, at least 5
 * minutes, once the child has recorded a step and unless it is paused because of heat.
 */
double steps_stall_timeout(const steps_watch *w, double given);

/* Returns the step of the newest checkpoint in a directory, or -1. */
int64_t steps_newest_checkpoint(const char *directory);

EITP_END_DECLARATIONS

#endif
