/* Statistics of the last steps, as records: the window of each scalar that the run watches. */
#include "run/records.h"
#include "run/window.h"

#include "base/memory.h"
#include "train/trainer.h"

/* Calls ENTRY(name in records, value of a step report) for each scalar. */
#define EITP__WINDOWS(ENTRY)                                                                                           \
    ENTRY("loss", step->loss)                                                                                          \
    ENTRY("grad_norm", step->grad_norm)                                                                                \
    ENTRY("update_ratio", step->parameter_norm > 0 ? step->update_norm / step->parameter_norm : 0)                     \
    ENTRY("step_time_s", step->times.total)

#define EITP__WINDOW_NAME(name, value) name,
static const char *const eitp__window_names[] = {EITP__WINDOWS(EITP__WINDOW_NAME)};
enum { EITP__WINDOW_COUNT = EITP__COUNT(eitp__window_names) };

typedef struct eitp__run_windows {
    eitp_window all[EITP__WINDOW_COUNT];
    double *memory; /* of all windows */
    size_t bytes;
} eitp__run_windows;

static eitp_status eitp__windows_begin(eitp_run *run, void *state, eitp_error *error) {
    eitp__run_windows *windows = (eitp__run_windows *)state;
    const size_t capacity = (size_t)run->config.metrics_window;
    windows->bytes = EITP__WINDOW_COUNT * capacity * sizeof *windows->memory;
    windows->memory = (double *)eitp__allocate(&run->host, windows->bytes);
    if (!windows->memory)
        return eitp__fail_memory(error, windows->bytes, "the windows of metrics_window");
    for (size_t i = 0; i < EITP__WINDOW_COUNT; i++)
        eitp_window_init(&windows->all[i], windows->memory + i * capacity, capacity);
    return EITP_OK;
}

/* They may be asked for while the run trains, and then have the steps before. */
static int eitp__windows_are_due(const eitp_run *run, int64_t step) {
    const int64_t every = run->config.metrics_every;
    return run->config.monitor == EITP_MONITOR_FULL && every > 0 && step % every == 0;
}

/* "window/loss_mean" and the others of a scalar. */
static void eitp__add_window(eitp__values *list, const char *name, const eitp_window *window) {
    eitp_window_statistics statistics;
    char prefix[48];
    eitp_window_summarize(window, &statistics);
    snprintf(prefix, sizeof prefix, "window/%s_", name);
    eitp__add_named(list, prefix, "mean", "", statistics.mean);
    eitp__add_named(list, prefix, "deviation", "", statistics.deviation);
    eitp__add_named(list, prefix, "median", "", statistics.median);
    eitp__add_named(list, prefix, "median_deviation", "", statistics.median_deviation);
    eitp__add_named(list, prefix, "minimum", "", statistics.minimum);
    eitp__add_named(list, prefix, "maximum", "", statistics.maximum);
    eitp__add_named(list, prefix, "slope", "", statistics.slope);
}

static void eitp__windows_after_step(eitp_run *run, void *state, eitp__decision *decision) {
    eitp__run_windows *windows = (eitp__run_windows *)state;
    const eitp_step_report *step = &run->report.step;
#define EITP__WINDOW_VALUE(name, value) value,
    const double values[] = {EITP__WINDOWS(EITP__WINDOW_VALUE)};
    eitp__values *list;
    (void)decision;
    for (size_t i = 0; i < EITP__WINDOW_COUNT; i++)
        eitp_window_add(&windows->all[i], values[i]);
    if (!eitp__windows_are_due(run, step->step))
        return;
    list = eitp__record_begin(run);
    eitp__add_integer(list, "window/steps", (int64_t)windows->all[0].count);
    for (size_t i = 0; i < EITP__WINDOW_COUNT; i++)
        eitp__add_window(list, eitp__window_names[i], &windows->all[i]);
    eitp__record(run, EITP_RECORD_WINDOW, step->step);
}

static void eitp__windows_end(eitp_run *run, void *state) {
    eitp__run_windows *windows = (eitp__run_windows *)state;
    if (windows->memory)
        eitp__release(&run->host, windows->memory, windows->bytes);
    windows->memory = NULL;
}

EITP__PRIVATE void eitp__windows_observer(eitp__observer *observer) {
    observer->state_size = sizeof(eitp__run_windows);
    observer->part = EITP_RUN_PART_RECORDS;
    observer->begin = eitp__windows_begin;
    observer->after_step = eitp__windows_after_step;
    observer->end = eitp__windows_end;
}
