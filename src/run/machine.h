/* What a run sees of its machine besides memory: temperatures, the GPU, and other programs. */
#ifndef EITP_RUN_MACHINE_H
#define EITP_RUN_MACHINE_H

#include "base/nvml.h"
#include "base/platform.h"
#include "base/sensors.h"

/* ---- Heat ---- */

/* In degrees Celsius. */
#define EITP__HEAT_DEFAULT 95  /* no step begins above it, if no critical point is known */
#define EITP__HEAT_MARGIN 5    /* and otherwise above what is this far below the critical point */
#define EITP__HEAT_RECOVERY 10 /* training goes on when it is this much cooler */
#define EITP__HEAT_BROKEN 127  /* unconnected diodes show 127.5 or more */

enum {
    EITP__HEAT_PROBES = 32,
    EITP__HEAT_STUCK = 300 /* looks during a pause in which a sensor shows the same value, after which it is ignored */
};

/* A thermometer that counts. */
typedef struct eitp__heat_probe {
    eitp__thermometer thermometer; /* its path is NULL for a GPU */
    const eitp__gpu_meter *gpu;    /* NULL for others */
    double limit;                  /* no step begins above it */
    double value;                  /* 0: it shows what no machine has */
    int unchanged;
    int is_ignored;
} eitp__heat_probe;

typedef struct eitp__heat_probes {
    eitp__heat_probe all[EITP__HEAT_PROBES + 1]; /* one more for a GPU */
    size_t count, processors;                    /* `processors` of them measure one */
} eitp__heat_probes;

/* The state of the observer (run/run_heat.c). */
typedef struct eitp__run_heat {
    eitp__heat_probes probes;
    eitp__gpu_meter gpu; /* that the run computes on */
    double most;         /* temp_max that they were chosen by */
    double look_at;      /* time of the next look */
    double look_cost;    /* seconds that a look takes */
    double since;        /* time when the pause began */
    int is_paused;
    int is_blind; /* it sees no processor, which was reported if the program has set a limit */
} eitp__run_heat;

/*
 * Chooses those that count, and takes them; the others are unchanged. The thermometers of processors have the limit
 * `most`; if that is 0, each has its own critical point less EITP__HEAT_MARGIN, without one the lowest of the
 * processors' critical points less that, else EITP__HEAT_DEFAULT. Any other with a critical point, such as a disk's,
 * has that itself.
 */
EITP__PRIVATE void eitp__heat_choose(eitp__heat_probes *probes, eitp__thermometer *thermometers, size_t count,
                                     double most);

/* Adds a probe of the run's GPU with the limit `most`. If that is 0, the limit is its slowdown temperature less
   EITP__HEAT_MARGIN, or EITP__HEAT_DEFAULT if the driver does not report one. The meter must outlast the probes. Does
   nothing if its temperature cannot be read. */
EITP__PRIVATE void eitp__heat_add_gpu(eitp__heat_probes *probes, const eitp__gpu_meter *meter, double most);

/* What a probe shows now, in degrees Celsius; 0 or NaN if it cannot be read. */
EITP__PRIVATE double eitp__heat_read(const eitp_host *host, const eitp__heat_probe *probe);

/* Takes what a thermometer shows. Returns 1 if it is ignored from now on, since it has not changed during a pause. */
EITP__PRIVATE int eitp__heat_show(eitp__heat_probe *probe, double value, int is_paused);

/* The one that is hottest in comparison with its limit; NULL if none shows anything. */
EITP__PRIVATE const eitp__heat_probe *eitp__heat_hottest(const eitp__heat_probes *probes);

/* True if no step may begin. */
EITP__PRIVATE int eitp__heat_is_too_high(const eitp__heat_probes *probes, int is_paused);

/* ---- Other programs ---- */

/* A condition that matters if it lasts. Starts as zeros. */
typedef struct eitp__lasting {
    int is_on, is_told;
    double since; /* the condition is on */
} eitp__lasting;

/* Adds a value: the condition begins at `high` and ends below `low`; in between it stays. Returns 1, once, when it has
   been on for `seconds`. */
EITP__PRIVATE int eitp__lasting_add(eitp__lasting *lasting, double value, double high, double low, double seconds,
                                    double now);

/* The state of the observer. */
typedef struct eitp__surroundings {
    double look_at; /* time of the next look */
    eitp__lasting stalls, load;
    double online, own; /* processors of the machine, and those that the run keeps busy; 0: the run does not look */
} eitp__surroundings;

#endif
