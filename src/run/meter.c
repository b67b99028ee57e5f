/* Cost of a run besides training: the processor time of its observers, and of the threads that write its files. The
   meter replaces the observers' callbacks, so that a run that is not measured executes no extra code. */
#include "base/clock.h"
#include "base/statistics.h"
#include "run/guard.h"
#include "run/sinks.h"

typedef struct eitp__meter {
    eitp_run_meter program;
    eitp__observer observers[EITP__OBSERVER_COUNT]; /* the run's original callbacks */
    double clock_cost, poll_cost;                   /* seconds between two consecutive readings */
    double seconds[EITP_RUN_COST_COUNT];            /* since the last step */
    double files;                                   /* seconds of the file threads until the last step */
} eitp__meter;

/* ---- Times ---- */

static double eitp__meter_clock(const eitp__meter *meter) {
    return meter->program.clock(meter->program.user);
}

static double eitp__meter_steady_clock(const eitp__meter *meter) {
    (void)meter;
    return eitp__clock();
}

/* Returns the time between two consecutive readings. */
static double eitp__meter_cost(const eitp__meter *meter, double (*read)(const eitp__meter *meter)) {
    double taken[EITP__STATISTICS_VALUES];
    for (size_t i = 0; i < EITP__COUNT(taken); i++) {
        const double began = read(meter);
        taken[i] = read(meter) - began;
    }
    return eitp__median(taken, EITP__COUNT(taken));
}

static void eitp__meter_add(eitp__meter *meter, int at, double began) {
    meter->seconds[meter->observers[at].cost] += eitp__meter_clock(meter) - began - meter->clock_cost;
}

static double eitp__meter_files(const eitp_run *run) {
    const eitp__sinks *sinks = eitp__sinks_of(run);
    double seconds = 0;
    for (int i = 0; i < EITP__REPORTS; i++)
        seconds += eitp__report_seconds(&sinks->reports[i]);
    return seconds;
}

/* ---- The end of a step ---- */

/* Copies the members that the program may change. */
static void eitp__meter_set_config(eitp_run_config *config, const eitp_run_config *changed) {
    config->monitor = changed->monitor;
    config->log_full_every = changed->log_full_every;
    config->metrics_every = changed->metrics_every;
    config->perf_every = changed->perf_every;
}

static void eitp__meter_step(eitp_run *run) {
    eitp__meter *meter = run->meter;
    eitp_run_config config = run->config;
    const double files = eitp__meter_files(run);
    /* Fewer seconds: files were reopened, with other threads. */
    meter->seconds[EITP_RUN_COST_FILES] = files > meter->files ? files - meter->files : 0;
    meter->files = files;
    meter->program.step(meter->program.user, meter->seconds, &config);
    eitp__meter_set_config(&run->config, &config);
    memset(meter->seconds, 0, sizeof meter->seconds);
}

/* ---- Callbacks ---- */

static eitp_status eitp__metered_before_step(eitp_run *run, void *state, int at, eitp_error *error) {
    eitp__meter *meter = run->meter;
    const double began = eitp__meter_clock(meter);
    const eitp_status status = meter->observers[at].before_step(run, state, error);
    eitp__meter_add(meter, at, began);
    return status;
}

static void eitp__metered_after_step(eitp_run *run, void *state, int at, eitp__decision *decision) {
    eitp__meter *meter = run->meter;
    if (meter->observers[at].after_step) {
        const double began = eitp__meter_clock(meter);
        meter->observers[at].after_step(run, state, decision);
        eitp__meter_add(meter, at, began);
    }
    if (at == EITP__OBSERVER_COUNT - 1)
        eitp__meter_step(run);
}

/* A poll that does no check takes nanoseconds: if it took longer, its thread was interrupted. */
static int eitp__metered_poll(eitp_run *run, void *state, int at) {
    const double longest = 1e-6;
    eitp__meter *meter = run->meter;
    double began = eitp__clock(), taken;
    int drops;
    if (eitp__guard_check_is_due(run, began)) {
        began = eitp__meter_clock(meter);
        drops = meter->observers[at].poll(run, state);
        eitp__meter_add(meter, at, began);
        return drops;
    }
    drops = meter->observers[at].poll(run, state);
    taken = eitp__clock() - began - meter->poll_cost;
    meter->seconds[meter->observers[at].cost] += taken < longest ? taken : longest;
    return drops;
}

#define EITP__METERED(NAME, name)                                                                                      \
    static eitp_status eitp__metered_before_##name(eitp_run *run, void *state, eitp_error *error) {                    \
        return eitp__metered_before_step(run, state, EITP__OBSERVER_##NAME, error);                                    \
    }                                                                                                                  \
    static void eitp__metered_after_##name(eitp_run *run, void *state, eitp__decision *decision) {                     \
        eitp__metered_after_step(run, state, EITP__OBSERVER_##NAME, decision);                                         \
    }                                                                                                                  \
    static int eitp__metered_poll_##name(eitp_run *run, void *state) {                                                 \
        return eitp__metered_poll(run, state, EITP__OBSERVER_##NAME);                                                  \
    }
EITP__OBSERVERS(EITP__METERED)

typedef struct eitp__metered_calls {
    eitp_status (*before_step)(eitp_run *run, void *state, eitp_error *error);
    void (*after_step)(eitp_run *run, void *state, eitp__decision *decision);
    int (*poll)(eitp_run *run, void *state);
} eitp__metered_calls;

#define EITP__METERED_ROW(NAME, name)                                                                                  \
    {eitp__metered_before_##name, eitp__metered_after_##name, eitp__metered_poll_##name},
static const eitp__metered_calls eitp__metered[EITP__OBSERVER_COUNT] = {EITP__OBSERVERS(EITP__METERED_ROW)};

/* Replaces the callbacks that an observer has. The last observer always gets after_step, which ends the step. */
static void eitp__meter_observe(eitp__observer *observer, int at) {
    if (observer->before_step)
        observer->before_step = eitp__metered[at].before_step;
    if (observer->after_step || at == EITP__OBSERVER_COUNT - 1)
        observer->after_step = eitp__metered[at].after_step;
    if (observer->poll)
        observer->poll = eitp__metered[at].poll;
}

eitp_status eitp_run_measure(eitp_run *run, const eitp_run_meter *meter, eitp_error *error) {
    eitp__meter *created;
    if (!run || !meter || !meter->clock || !meter->step)
        return eitp__fail_null(error, "eitp_run_measure", "run, meter and its functions");
    if (run->meter || run->stage >= EITP__RUN_STARTED)
        return eitp__fail(error, EITP_ERROR_ARGUMENT, "the run in '%s' was already trained or is already measured",
                          run->directory);
    created = (eitp__meter *)eitp__allocate(&run->host, sizeof *created);
    if (!created)
        return eitp__fail_memory(error, sizeof *created, "the meter of a run");
    created->program = *meter;
    memcpy(created->observers, run->observers, sizeof created->observers);
    created->clock_cost = eitp__meter_cost(created, eitp__meter_clock);
    created->poll_cost = eitp__meter_cost(created, eitp__meter_steady_clock);
    created->files = eitp__meter_files(run);
    run->meter = created;
    for (int i = 0; i < EITP__OBSERVER_COUNT; i++)
        eitp__meter_observe(&run->observers[i], i);
    return EITP_OK;
}

EITP__PRIVATE void eitp__run_release_meter(eitp_run *run) {
    eitp__release(&run->host, run->meter, sizeof *run->meter);
}
