/* What a supervised run does, seen from outside: its steps, checkpoints and output. */
#ifndef COMMAND_SUPERVISE_STEPS_H
#define COMMAND_SUPERVISE_STEPS_H

#include "command.h"

EITP_BEGIN_DECLARATIONS

typedef struct steps_watch {
    const char *directory;
    int64_t checkpoint;        /* the newest when the child began; -1: none */
    int64_t step;              /* the last one in the records, if the child has written any; else -1 */
    int has_stepped;           /* the child has recorded a step */
    int is_paused;             /* the run waits until the machine is cooler */
    double median_s;           /* of recent steps; 0: unknown */
    double longest_s;          /* the longest evaluation or save so far */
    double alive_at;           /* the process_time of the last sign of life */
    double looked_at;          /* the last look */
    eitp_path_info began, now; /* the records */
    int64_t saving;            /* bytes of checkpoints that are being written */
    int64_t output;            /* bytes of output */
} steps_watch;

/* Before a child is started. The output has this many bytes. */
void steps_begin(steps_watch *w, const char *directory, int64_t output);

/* Looks for signs of life: records, checkpoints that grow, and until the child has recorded anything its output. */
void steps_look(steps_watch *w, int64_t output);

/*
 * Seconds without a sign of life after which a child has stalled; 0: never. `given` is --stall-timeout, or negative:
 * 20 times the median step and 3 times the longest evaluation or save, at least 5 minutes, once it has recorded a step
 * and unless it pauses because of heat.
 */
double steps_stall_timeout(const steps_watch *w, double given);

/* The step of the newest checkpoint in a directory; -1: none. */
int64_t steps_newest_checkpoint(const char *directory);

EITP_END_DECLARATIONS

#endif
