/* When memory is short: a rule on what looks at memory find. It neither looks nor reads a clock itself. */
#ifndef EITP_PRESSURE_H
#define EITP_PRESSURE_H

#include "base/machine.h"

typedef enum eitp__shortage {
    EITP__MEMORY_AMPLE = 0,
    EITP__MEMORY_RUNS_OUT = 1, /* at the rate of loss it would be used up before the run could react */
    EITP__MEMORY_LOW = 2,      /* less is left than eitp_memory_floor */
    EITP__MEMORY_FULL = 3      /* others have the percentage of eitp_run_config.cpu_mem_max; judged by run/guard.c */
} eitp__shortage;

/*
 * The run's own use of memory changes nothing: losses are those of what is left together with what the run has, which
 * other programs make, and arena pages that the run has not touched since it released them count as used.
 */
typedef struct eitp__pressure {
    int has_looked;
    double looked_at;
    double total; /* what is left and what the run has, in bytes */
    double loss;  /* bytes of `total` that are lost per second; smoothed, quick to rise */

    /* Seconds that it takes to react. */
    double blind;     /* the longest time between looks in recent steps: an update is not interrupted */
    double blind_now; /* in the current step */
    double save, shrink;
    int has_shrunk;

    double expected; /* the run's memory once it has touched the whole arena again; 0: it has */
} eitp__pressure;

/* What a run has of the arena, in bytes. */
typedef struct eitp__arena_use {
    size_t needed; /* by its plans */
    size_t reserved;
} eitp__arena_use;

/* Initializes the rule for a run that saves `bytes`. */
EITP__PRIVATE void eitp__pressure_init(eitp__pressure *pressure, uint64_t bytes);

/* Adds a look. `busy` are the seconds before it in which a step could not look. */
EITP__PRIVATE void eitp__pressure_add(eitp__pressure *pressure, const eitp__memory_state *state, double now,
                                      double busy);

/* Judges the last look. */
EITP__PRIVATE eitp__shortage eitp__pressure_judge(const eitp__pressure *pressure, const eitp__memory_state *state,
                                                  const eitp__arena_use *arena);

/* The bytes that are left once the run has touched its whole arena. */
EITP__PRIVATE uint64_t eitp__pressure_left(const eitp__pressure *pressure, const eitp__memory_state *state,
                                           const eitp__arena_use *arena);

/* Seconds until all that is left, the untouched part of the arena included, is lost at this rate. */
EITP__PRIVATE double eitp__pressure_seconds(const eitp__pressure *pressure, const eitp__memory_state *state);

/* A step is complete, and has touched the whole arena. */
EITP__PRIVATE void eitp__pressure_step_done(eitp__pressure *pressure);

/* None of the arena is touched: it was released, or recreated with another size. `state` was read after that. */
EITP__PRIVATE void eitp__pressure_released(eitp__pressure *pressure, const eitp__memory_state *state,
                                           const eitp__arena_use *arena);

/* Set what a save or a shrink took. */
EITP__PRIVATE void eitp__pressure_saved(eitp__pressure *pressure, double seconds);
EITP__PRIVATE void eitp__pressure_shrunk(eitp__pressure *pressure, double seconds);

#endif
