#include "base/log.h"
#include "run/internal.h"
#include "run/sinks.h"
#include "train/trainer.h"

static const char *const eitp__event_names[] = {
    "step",       "evaluation",    "saved",       "skipped_step", "memory_short", "not_shrunk",  "end_of_data",
    "early_stop", "nothing_to_do", "save_failed", "records",      "warning",      "disk",        "started",
    "diverging",  "not_saved",     "spike",       "not_kept",     "alarm",        "temperature", "memory_high",
    "pressure",   "load",          "set",         "interrupted",  "gpu"};

enum {
    EITP__EVENT_VALUES = 8, /* maximum number of an event's own values */
    EITP__RECORD_SCHEMA = 1 /* version of the value names */
};

typedef char eitp__every_event_has_a_name[EITP__COUNT(eitp__event_names) == EITP_EVENT_COUNT ? 1 : -1];

const char *eitp_run_event_name(eitp_run_event_kind kind) {
    return (unsigned)kind < EITP_EVENT_COUNT ? eitp__event_names[kind] : NULL;
}

const char *eitp_run_end_name(eitp_run_end end) {
    static const char *const names[] = {"failed",     "finished",   "end_of_data",     "stopped",
                                        "early_stop", "not_finite", "memory_pressure", "diverged"};
    return (unsigned)end < EITP__COUNT(names) ? names[end] : NULL;
}

EITP__PRIVATE const char *eitp__run_unit(const eitp_run *run) {
    const char *unit = eitp__trainer_task(run->trainer)->unit;
    return unit ? unit : "items";
}

static void eitp__record_event(eitp_run *run, const eitp_run_event *event) {
    static const char *const levels[] = {"debug", "info", "warning", "error"};
    eitp_value values[5 + EITP__EVENT_VALUES];
    size_t count = 0;
    values[count++] = eitp__text_value("event", eitp_run_event_name(event->kind));
    values[count++] = eitp__text_value("level", levels[event->level]);
    values[count++] = eitp__text_value("message", event->message);
    if (event->seconds > 0)
        values[count++] = eitp__number_value("seconds", event->seconds);
    if (event->kind == EITP_EVENT_STARTED)
        values[count++] = eitp__integer_value("schema", EITP__RECORD_SCHEMA);
    for (size_t i = 0; i < event->value_count && i < EITP__EVENT_VALUES; i++)
        values[count++] = event->values[i];
    eitp__sinks_record(run, EITP_RECORD_EVENT, eitp_trainer_steps_done(run->trainer), values, count);
}

/* True if another record contains the information of the event. */
static int eitp__has_own_record(eitp_run_event_kind kind) {
    return kind == EITP_EVENT_STEP || kind == EITP_EVENT_EVALUATION || kind == EITP_EVENT_GPU;
}

/* Sends an event to the listener, or logs it without one. */
static void eitp__tell_event(eitp_run *run, eitp_run_event *event, int is_recorded) {
    run->report.steps_done = eitp_trainer_steps_done(run->trainer);
    event->report = &run->report;
    if (run->config.listener.notify)
        run->config.listener.notify(run->config.listener.user, event);
    else
        eitp__log_line(&run->host, event->level, "%s", event->message);
    if (is_recorded && !eitp__has_own_record(event->kind))
        eitp__record_event(run, event);
}

static void eitp__send_event(eitp_run *run, eitp_run_event_kind kind, eitp_log_level level, double seconds,
                             const char *message, int is_recorded) {
    eitp_run_event event = EITP__ZERO;
    event.kind = kind;
    event.level = level;
    event.message = message;
    event.seconds = seconds;
    eitp__tell_event(run, &event, is_recorded);
}

EITP__PRIVATE void eitp__run_notify_values(eitp_run *run, eitp_run_event_kind kind, eitp_log_level level,
                                           double seconds, const char *message, const eitp_value *values,
                                           size_t count) {
    eitp_run_event event = EITP__ZERO;
    event.kind = kind;
    event.level = level;
    event.message = message;
    event.seconds = seconds;
    event.values = values;
    event.value_count = count;
    eitp__tell_event(run, &event, 1);
    eitp__run_report_sinks(run);
}

EITP__PRIVATE void eitp__run_report_sinks(eitp_run *run) {
    const eitp__sinks *sinks = eitp__sinks_of(run);
    for (size_t i = 0; i < sinks->count; i++) {
        eitp__sink *sink = &sinks->all[i];
        char message[300];
        if (!sink->has_changed)
            continue;
        sink->has_changed = 0;
        if (sink->is_failing)
            snprintf(message, sizeof message, "cannot store records: %s; the run continues without them", sink->why);
        else
            snprintf(message, sizeof message, "records are stored again (lost so far: %lld)",
                     (long long)run->report.lost_records);
        eitp__send_event(run, EITP_EVENT_RECORDS, sink->is_failing ? EITP_LOG_WARNING : EITP_LOG_INFO, 0, message, 1);
    }
}

EITP__PRIVATE void eitp__run_notify(eitp_run *run, eitp_run_event_kind kind, eitp_log_level level, double seconds,
                                    const char *format, ...) {
    char message[600];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    eitp__send_event(run, kind, level, seconds, message, 1);
    eitp__run_report_sinks(run);
}

EITP__PRIVATE void eitp__run_report_lost(eitp_run *run) {
    char message[80];
    snprintf(message, sizeof message, "%lld records could not be stored", (long long)run->report.lost_records);
    if (run->report.lost_records)
        eitp__send_event(run, EITP_EVENT_RECORDS, EITP_LOG_WARNING, 0, message, 0);
}

/* ---- Records ---- */

EITP__PRIVATE eitp__values *eitp__record_begin(eitp_run *run) {
    eitp__values *values = &eitp__sinks_of(run)->values;
    values->count = 0;
    return values;
}

EITP__PRIVATE void eitp__record(eitp_run *run, eitp_record_kind kind, int64_t step) {
    const eitp__values *values = &eitp__sinks_of(run)->values;
    eitp__sinks_record(run, kind, step, values->values, values->count);
    eitp__run_report_sinks(run);
}
