/* Monitoring of the machine, except memory: temperatures, the GPU, and other programs. */
#ifndef EITP_RUN_MACHINE_H
#define EITP_RUN_MACHINE_H

#include "base/nvml.h"
#include "base/platform.h"
#include "base/sensors.h"

/* ---- Heat ---- */

/* Degrees Celsius. */
#define EITP__HEAT_DEFAULT 95  /* limit if no critical temperature is known */
#define EITP__HEAT_MARGIN 5    /* otherwise, distance of the limit below the critical temperature */
#define EITP__HEAT_RECOVERY 10 /* training continues when it is this much cooler */
#define EITP__HEAT_BROKEN 127  /* readings that no machine has: unconnected diodes show 127.5 or more */

enum {
    EITP__HEAT_PROBES = 32,
    EITP__HEAT_STUCK = 300 /* identical readings during a pause after which a sensor is ignored */
};

/* A temperature sensor in use. */
typedef struct eitp__heat_probe {
    eitp__thermometer thermometer; /* its path is NULL for a GPU */
    const eitp__gpu_meter *gpu;    /* NULL for other sensors */
    double limit;                  /* no step starts above it */
    double value;                  /* 0: implausible reading */
    int unchanged;
    int is_ignored;
} eitp__heat_probe;

typedef struct eitp__heat_probes {
    eitp__heat_probe all[EITP__HEAT_PROBES + 1]; /* one more for a GPU */
    size_t count, processors;                    /* `processors` of them measure a processor */
} eitp__heat_probes;

/* State of the observer (run/machine.c). */
typedef struct eitp__run_heat {
    eitp__heat_probes probes;
    eitp__gpu_meter gpu; /* the one that the run computes on */
    double most;         /* temp_max for which the sensors were chosen */
    double look_at;      /* time of the next reading */
    double check_cost;   /* seconds per reading */
    double since;        /* time when the pause started */
    int is_paused;
    int is_blind; /* no processor's sensor is readable, which was reported if the program has set a limit */
} eitp__run_heat;

/*
 * Chooses the sensors that count, and takes ownership of them; the others are unchanged. The limit of processors is
 * `most`. If that is 0, it is each one's own critical temperature less EITP__HEAT_MARGIN; without one, the lowest
 * critical temperature of the processors less the margin; else EITP__HEAT_DEFAULT. The limit of any other sensor with a
 * critical temperature, such as a disk's, is that temperature.
 */
EITP__PRIVATE void eitp__heat_choose(eitp__heat_probes *probes, eitp__thermometer *thermometers, size_t count,
                                     double most);

/* Adds the run's GPU with the limit `most`. If that is 0, the limit is its slowdown temperature less EITP__HEAT_MARGIN,
   or EITP__HEAT_DEFAULT if the driver does not report one. The meter must outlive the probes. Does nothing if the
   temperature cannot be read. */
EITP__PRIVATE void eitp__heat_add_gpu(eitp__heat_probes *probes, const eitp__gpu_meter *meter, double most);

/* Returns the current reading of a probe in degrees Celsius; 0 or NaN if it cannot be read. */
EITP__PRIVATE double eitp__heat_read(const eitp_host *host, const eitp__heat_probe *probe);

/* Stores a reading. Returns 1 if the sensor is ignored from now on, because it has not changed during a pause. */
EITP__PRIVATE int eitp__heat_show(eitp__heat_probe *probe, double value, int is_paused);

/* Returns the hottest sensor relative to its limit, or NULL if none has a reading. */
EITP__PRIVATE const eitp__heat_probe *eitp__heat_hottest(const eitp__heat_probes *probes);

/* True if it is too hot to start a step. */
EITP__PRIVATE int eitp__heat_is_too_high(const eitp__heat_probes *probes, int is_paused);

/* ---- Other programs ---- */

/* A condition that matters only if it lasts. Starts as zeros. */
typedef struct eitp__sustained_condition {
    int is_on, is_told;
    double since; /* time since which the condition is on */
} eitp__sustained_condition;

/* Adds a value: the condition turns on at `high` and off below `low`; in between it is unchanged. Returns 1, once, when
   it has been on for `seconds`. */
EITP__PRIVATE int eitp__sustained_condition_add(eitp__sustained_condition *lasting, double value, double high,
                                                double low, double seconds, double now);

/* State of the observer. */
typedef struct eitp__machine_watch {
    double look_at; /* time of the next check */
    eitp__sustained_condition stalls, load;
    double online, own; /* processors of the machine, and processors that the run keeps busy; 0: load is not checked */
} eitp__machine_watch;

#endif
