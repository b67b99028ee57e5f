/* The memory guard: checks for a shortage of memory before and within steps, and saves and shrinks the run in time. */
#ifndef EITP_GUARD_H
#define EITP_GUARD_H

#include "base/machine.h"
#include "run/run.h"

/* ---- Shortage: rules on the guard's memory readings, which read neither memory nor a clock ---- */

typedef enum eitp__shortage {
    EITP__MEMORY_AMPLE = 0,
    EITP__MEMORY_RUNS_OUT = 1, /* at the rate of loss, memory would be used up before the run could react */
    EITP__MEMORY_LOW = 2,      /* less is available than eitp__memory_floor */
    EITP__MEMORY_FULL = 3      /* others use the percentage eitp_run_config.cpu_mem_max; decided by the guard */
} eitp__shortage;

/*
 * The run's own use of memory has no effect: losses are losses of the sum of available memory and the run's own, which
 * other programs cause. Arena pages that the run has not touched since it released them count as used.
 */
typedef struct eitp__pressure {
    int has_looked;
    double checked_at;
    double total; /* available memory and the run's own, in bytes */
    double loss;  /* bytes of `total` lost per second; smoothed, quick to rise */

    /* Components of the reaction time, in seconds. */
    double blind;     /* longest time between checks in recent steps: an update is not interrupted */
    double blind_now; /* in the current step */
    double save, shrink;
    int has_shrunk;

    double expected; /* the run's memory once it has touched the whole arena again; 0: it already has */
} eitp__pressure;

/* The run's use of the arena, in bytes. */
typedef struct eitp__arena_use {
    size_t needed; /* by its plans */
    size_t reserved;
} eitp__arena_use;

/* Initializes the rule for a run that saves `bytes`. */
EITP__PRIVATE void eitp__pressure_init(eitp__pressure *pressure, uint64_t bytes);

/* Adds a reading. `busy` is the number of seconds before it in which a step could not check. */
EITP__PRIVATE void eitp__pressure_add(eitp__pressure *pressure, const eitp__memory_state *state, double now,
                                      double busy);

/* Returns the shortage according to the last reading. */
EITP__PRIVATE eitp__shortage eitp__pressure_assess(const eitp__pressure *pressure, const eitp__memory_state *state,
                                                   const eitp__arena_use *arena);

/* Returns the bytes that will be available once the run has touched its whole arena. */
EITP__PRIVATE uint64_t eitp__pressure_left(const eitp__pressure *pressure, const eitp__memory_state *state,
                                           const eitp__arena_use *arena);

/* Records that a step is complete and has touched the whole arena. */
EITP__PRIVATE void eitp__pressure_step_done(eitp__pressure *pressure);

/* Records that none of the arena is touched: it was released, or recreated with another size. `state` was read after
   that. */
EITP__PRIVATE void eitp__pressure_released(eitp__pressure *pressure, const eitp__memory_state *state,
                                           const eitp__arena_use *arena);

/* Set the durations of a save and of a shrink. */
EITP__PRIVATE void eitp__pressure_saved(eitp__pressure *pressure, double seconds);

/* ---- Memory used by other programs: rules like those above ---- */

/* Percentage points by which the share must fall before it is reported again. */
#define EITP__OCCUPANCY_FALLS 5

/* A level of the share, reported once when it is reached. */
typedef struct eitp__occupancy_level {
    int is_reached;  /* reached, and the share has not fallen far enough since */
    int should_warn; /* 1: not reported yet */
} eitp__occupancy_level;

/*
 * The share is the part of the memory not used by this process that others use. A run that uses more memory leaves less
 * to others, which raises their share. So a level counts as reached only if others have this percentage of all memory,
 * or more than when the run started.
 */
typedef struct eitp__occupancy {
    uint64_t limit; /* bytes of the machine or the control group */
    uint64_t began; /* bytes of these that others had at the first reading */
    double percent; /* at the last reading; 0: unknown */
    int exceeds;    /* the last reading reached the higher level */
    eitp__occupancy_level high, full;
} eitp__occupancy;

/* Adds a reading, with the levels in percent; 0 and 100: none. */
EITP__PRIVATE void eitp__occupancy_add(eitp__occupancy *occupancy, const eitp__memory_state *state, double high,
                                       double full);

/* Marks both levels as reported. */
EITP__PRIVATE void eitp__occupancy_told(eitp__occupancy *occupancy);

/* ---- The guard ---- */

/* State of the guard. */
typedef struct eitp__guard {
    eitp__pressure pressure;
    eitp__occupancy occupancy;
    eitp__memory_state memory; /* the last reading */
    double look_at;            /* time of the next reading */
    double check_cost;         /* seconds per reading */
    double busy_from;          /* time since which a step has not checked */
    unsigned polls;
    int watches;          /* 0 while the run resumes, when there is nothing to save or to shrink */
    eitp__shortage alarm; /* shortage found by the last readings, until the run reacts to it */
    double quiet_until;   /* until then, a shortage counts as the one that the run reacted to last */
    int is_smallest;      /* no configuration uses less host memory */
    int ignores;          /* 1 until a step is done, since there is nothing to save or to shrink */
} eitp__guard;

/* True if the next poll reads memory. Other polls cost a few instructions. */
EITP__PRIVATE int eitp__guard_check_is_due(const eitp_run *run, double now);

#endif
