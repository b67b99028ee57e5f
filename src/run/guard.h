/* The memory guard: looks if memory is short, before and within steps, and saves and reduces the run before it is. */
#ifndef EITP_GUARD_H
#define EITP_GUARD_H

#include "base/machine.h"
#include "run/run.h"

/* ---- Shortage: a rule on what looks at memory find. It neither looks nor reads a clock itself. ---- */

typedef enum eitp__shortage {
    EITP__MEMORY_AMPLE = 0,
    EITP__MEMORY_RUNS_OUT = 1, /* at the rate of loss it would be used up before the run could react */
    EITP__MEMORY_LOW = 2,      /* less is left than eitp__memory_floor */
    EITP__MEMORY_FULL = 3      /* others have the percentage of eitp_run_config.cpu_mem_max; judged by the guard */
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

/* A step is complete, and has touched the whole arena. */
EITP__PRIVATE void eitp__pressure_step_done(eitp__pressure *pressure);

/* None of the arena is touched: it was released, or recreated with another size. `state` was read after that. */
EITP__PRIVATE void eitp__pressure_released(eitp__pressure *pressure, const eitp__memory_state *state,
                                           const eitp__arena_use *arena);

/* Set what a save or a shrink took. */
EITP__PRIVATE void eitp__pressure_saved(eitp__pressure *pressure, double seconds);

/* ---- Memory that others fill: a rule like the one above ---- */

/* Percentage points that the share must fall until it may be told again. */
#define EITP__OCCUPANCY_FALLS 5

/* A share that was reached, and is told once. */
typedef struct eitp__occupancy_level {
    int is_reached; /* and has not fallen far enough since */
    int is_news;    /* it was not told yet */
} eitp__occupancy_level;

/*
 * The share is what others have of the memory that is not this process's. A run that takes memory leaves less to
 * others, which raises their share. So a level counts as reached only if others have this percentage of all memory, or
 * more than when the run began.
 */
typedef struct eitp__occupancy {
    uint64_t limit; /* bytes of the machine or the control group */
    uint64_t began; /* what others had of them at the first look */
    double percent; /* of the last look; 0: unknown */
    int exceeds;    /* the last look found the higher level reached */
    eitp__occupancy_level high, full;
} eitp__occupancy;

/* Adds a look, with the levels in percent; 0 and 100: none. */
EITP__PRIVATE void eitp__occupancy_add(eitp__occupancy *occupancy, const eitp__memory_state *state, double high,
                                       double full);

/* Both levels were told. */
EITP__PRIVATE void eitp__occupancy_told(eitp__occupancy *occupancy);

/* ---- The guard ---- */

/* Its state. */
typedef struct eitp__guard {
    eitp__pressure pressure;
    eitp__occupancy occupancy;
    eitp__memory_state memory; /* the last look */
    double look_at;            /* time of the next look */
    double look_cost;          /* seconds that a look takes */
    double busy_from;          /* since then a step has not looked */
    unsigned polls;
    int watches;          /* not while the run resumes: there is nothing to save or to shrink */
    eitp__shortage alarm; /* what the last looks found, until the run reacts to it */
    double quiet_until;   /* until then a shortage is the one that the run reacted to last */
    int is_smallest;      /* no configuration uses less of the host's memory */
    int ignores;          /* until a step is done, since there is nothing to save or to shrink */
} eitp__guard;

/* True if the next polls look at memory; the others are a few instructions. */
EITP__PRIVATE int eitp__guard_look_is_due(const eitp_run *run, double now);

#endif
