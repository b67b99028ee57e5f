#include "run/events.h"

#include "base/clock.h"
#include "base/status.h"
#include "run/records.h"

/* How many looks in a row find memory short before a run stops that cannot be made smaller. */
#define EITP__GUARD_PATIENCE 3

/* "12.3 MB". */
static const char *eitp__format_bytes(uint64_t bytes, char *text, size_t size) {
    static const char *const units[] = {"B", "kB", "MB", "GB", "TB"};
    double amount = (double)bytes;
    size_t unit = 0;
    for (; amount >= 999.95 && unit + 1 < EITP__COUNT(units); unit++)
        amount /= 1000;
    snprintf(text, size, unit ? "%.1f %s" : "%.0f %s", amount, units[unit]);
    return text;
}

static void eitp__guard_warn(eitp_run *run, const char *what) {
    const eitp_memory_info *memory = &run->report.memory;
    char left[32], least[32];
    eitp__run_notify(run, EITP_EVENT_MEMORY_SHORT, EITP_LOG_WARNING, 0,
                     "memory is short: %s are left (%s), and %s should be; %s",
                     eitp__format_bytes(memory->left, left, sizeof left), memory->source,
                     eitp__format_bytes(eitp_memory_floor(memory), least, sizeof least), what);
}

/* Makes the run smaller; *shrunk is 0 if it is not. */
static eitp_status eitp__guard_relieve(eitp_run *run, int *shrunk, eitp_error *error) {
    eitp_shrink_report report;
    eitp_error second;
    eitp_status status;
    *shrunk = 0;
    if (run->guard.is_smallest)
        return EITP_OK;
    eitp__guard_warn(run, "a smaller way to run is looked for");
    status = eitp_trainer_shrink(run->trainer, &report, &second);
    *shrunk = !status && report.shrunk;
    if (status) {
        eitp__run_notify(run, EITP_EVENT_NOT_SHRUNK, EITP_LOG_WARNING, 0,
                         "the run could not be made smaller, and goes on as it was: %s", second.message);
    } else if (!*shrunk) {
        eitp__run_notify(run, EITP_EVENT_NOT_SHRUNK, EITP_LOG_WARNING, 0,
                         "the run cannot be made smaller; it stops with a checkpoint if memory stays short");
        run->guard.is_smallest = 1;
    }
    return eitp__record_memory(run, *shrunk, error);
}

static eitp_status eitp__guard_fail(const eitp_run *run, eitp_error *error) {
    char left[32];
    return eitp__fail(error, EITP_ERROR_PRESSURE,
                      "memory stays short, with %s left (%s), and the run cannot be made smaller: stopped after step "
                      "%lld",
                      eitp__format_bytes(run->report.memory.left, left, sizeof left), run->report.memory.source,
                      (long long)eitp_trainer_steps_done(run->trainer));
}

static eitp_status eitp__guard_act(eitp_run *run, eitp_error *error) {
    eitp__guard *guard = &run->guard;
    int shrunk = 0;
    eitp_status status;
    if (!run->config.auto_shrink) {
        if (guard->warned)
            return EITP_OK;
        guard->warned = 1;
        eitp__guard_warn(run, "the run goes on as it is");
        return eitp__record_memory(run, 0, error);
    }
    status = eitp__guard_relieve(run, &shrunk, error);
    guard->in_a_row = shrunk ? 0 : guard->in_a_row + 1;
    if (!status && guard->in_a_row >= EITP__GUARD_PATIENCE)
        status = eitp__guard_fail(run, error);
    return status;
}

EITP__PRIVATE eitp_status eitp__guard_look(eitp_run *run, eitp_error *error) {
    eitp__guard *guard = &run->guard;
    const double now = eitp__clock(), between = run->config.memory_seconds;
    eitp_memory_info info;
    eitp_status status;
    if (between < 0 || (guard->has_looked && now - guard->looked < between))
        return EITP_OK;
    guard->has_looked = 1;
    guard->looked = now;
    status = eitp_memory_info_read(&run->host, &info, error);
    if (status)
        return status;
    if (!eitp_memory_is_short(&info)) {
        guard->in_a_row = 0;
        return EITP_OK;
    }
    run->report.memory = info;
    status = eitp__guard_act(run, error);
    /* Acting may take long; what was read before says nothing about memory now. */
    guard->looked = eitp__clock();
    return status;
}
