/* The observer of other programs: tasks that wait for memory, and processors that are kept busy. Both are reported and
   change nothing. */
#include "run/surroundings.h"

#include "base/clock.h"
#include "base/sensors.h"
#include "run/events.h"

#define EITP__SURROUNDINGS_INTERVAL 10 /* seconds between looks; what is read are means of 10 and of 60 seconds */

/* Percent of the time in which some task waits for memory, and how many seconds that must last. */
#define EITP__STALLS_HIGH 10
#define EITP__STALLS_LOW 5
#define EITP__STALLS_LAST 20

/* Tasks of others for each processor. */
#define EITP__LOAD_HIGH 2
#define EITP__LOAD_LOW 1.5
#define EITP__LOAD_LASTS 60

EITP__PRIVATE int eitp__lasting_add(eitp__lasting *lasting, double value, double high, double low, double seconds,
                                    double now) {
    if (value < low || (!lasting->is_on && value < high)) {
        lasting->is_on = lasting->is_told = 0;
        return 0;
    }
    if (!lasting->is_on)
        lasting->since = now;
    lasting->is_on = 1;
    if (lasting->is_told || now - lasting->since < seconds)
        return 0;
    lasting->is_told = 1;
    return 1;
}

static eitp_status eitp__surroundings_begin(eitp_run *run, void *state, eitp_error *error) {
    eitp__surroundings *around = (eitp__surroundings *)state;
    eitp_processor_info info;
    eitp_status status;
    if (run->config.memory_check_seconds < 0)
        return EITP_OK;
    status = eitp_processor_info_read(&run->host, &info, error);
    if (status)
        return status;
    around->online = info.online;
    around->own = info.usable;
    around->look_at = eitp__clock() + EITP__SURROUNDINGS_INTERVAL;
    return EITP_OK;
}

static void eitp__tell_value(eitp_run *run, eitp_run_event_kind kind, eitp_log_level level, const char *message,
                             const char *name, double number) {
    eitp_value value;
    memset(&value, 0, sizeof value);
    value.name = name;
    value.number = number;
    eitp__run_notify_values(run, kind, level, 0, message, &value, 1);
}

static void eitp__surroundings_look(eitp_run *run, eitp__surroundings *around, double now) {
    double stalls, load;
    char message[300];
    if (!eitp__read_pressure_percent(&run->host, "memory", &stalls, NULL) &&
        eitp__lasting_add(&around->stalls, stalls, EITP__STALLS_HIGH, EITP__STALLS_LOW, EITP__STALLS_LAST, now)) {
        snprintf(message, sizeof message,
                 "tasks of this machine wait for memory %.0f %% of the time; close other programs, or lower the memory "
                 "budget",
                 stalls);
        eitp__tell_value(run, EITP_EVENT_PRESSURE, EITP_LOG_WARNING, message, "percent", stalls);
    }
    if (!eitp__read_load(&run->host, &load, NULL) &&
        eitp__lasting_add(&around->load, (load - around->own) / around->online, EITP__LOAD_HIGH, EITP__LOAD_LOW,
                          EITP__LOAD_LASTS, now)) {
        snprintf(message, sizeof message,
                 "other programs keep the processors busy: a load of %.1f with %.0f processors; steps take longer",
                 load, around->online);
        eitp__tell_value(run, EITP_EVENT_LOAD, EITP_LOG_INFO, message, "load", load);
    }
}

static eitp_status eitp__surroundings_before_step(eitp_run *run, void *state, eitp_error *error) {
    eitp__surroundings *around = (eitp__surroundings *)state;
    const double now = eitp__clock();
    (void)error;
    if (!(around->online > 0) || now < around->look_at)
        return EITP_OK;
    eitp__surroundings_look(run, around, now);
    around->look_at = now + EITP__SURROUNDINGS_INTERVAL;
    return EITP_OK;
}

EITP__PRIVATE void eitp__surroundings_observer(eitp__observer *observer) {
    observer->state_size = sizeof(eitp__surroundings);
    observer->part = EITP_RUN_PART_GUARD;
    observer->begin = eitp__surroundings_begin;
    observer->before_step = eitp__surroundings_before_step;
}
