/* The observer of heat: no step begins while the machine is too hot. */
#include "run/heat.h"

#include "base/clock.h"
#include "base/memory.h"
#include "run/events.h"
#include "run/run_gpu.h"
#include "train/trainer.h"

/* Seconds between looks, and how many times their cost that is at least: a driver may take milliseconds. */
#define EITP__HEAT_INTERVAL 1
#define EITP__HEAT_COST 200

enum { EITP__MOST_THERMOMETERS = 512 };

/* Keeps the thermometers that count. */
static eitp_status eitp__heat_find(const eitp_run *run, eitp__run_heat *heat, eitp_error *error) {
    const size_t size = EITP__MOST_THERMOMETERS * sizeof(eitp__thermometer);
    eitp__thermometer *found = (eitp__thermometer *)eitp__allocate(&run->host, size);
    size_t count = 0;
    eitp_status status = found ? eitp__thermometers_list(&run->host, found, EITP__MOST_THERMOMETERS, &count, error)
                               : eitp__fail_memory(error, size, "the thermometers of the machine");
    if (!status)
        eitp__heat_choose(&heat->probes, found, count, run->config.temp_max);
    if (!status && eitp__run_open_gpu(run, &heat->gpu))
        eitp__heat_add_gpu(&heat->probes, &heat->gpu, run->config.temp_max);
    for (size_t i = 0; i < count; i++)
        eitp__thermometer_release(&run->host, &found[i]);
    eitp__release(&run->host, found, size);
    return status;
}

/* A host that cannot wait cannot pause. */
static eitp_status eitp__heat_begin(eitp_run *run, void *state, eitp_error *error) {
    eitp__run_heat *heat = (eitp__run_heat *)state;
    heat->most = run->config.temp_max;
    return heat->most < 0 || !run->host.files.wait ? EITP_OK : eitp__heat_find(run, heat, error);
}

static void eitp__heat_forget(eitp_run *run, eitp__run_heat *heat) {
    eitp__heat_probes *probes = &heat->probes;
    for (size_t i = 0; i < probes->count; i++)
        eitp__thermometer_release(&run->host, &probes->all[i].thermometer);
    probes->count = probes->processors = 0;
    eitp__gpu_meter_close(&heat->gpu);
}

/* The limit has changed while the run trains: chooses again, and looks at once. Without thermometers, as with a limit
   below 0, nothing holds the run any more. */
static void eitp__heat_follow(eitp_run *run, eitp__run_heat *heat) {
    eitp_error error;
    eitp__heat_forget(run, heat);
    heat->look_at = 0;
    heat->is_blind = 0;
    if (eitp__heat_begin(run, heat, &error))
        eitp__run_notify(run, EITP_EVENT_WARNING, EITP_LOG_WARNING, 0,
                         "%s; the run does not look at temperatures until temp_max changes again", error.message);
}

static void eitp__heat_ignore(eitp_run *run, const eitp__heat_probe *probe) {
    eitp__run_notify(run, EITP_EVENT_WARNING, EITP_LOG_WARNING, 0,
                     "%s has shown %.1f C without any change for %d looks: it is ignored from now on",
                     probe->thermometer.sensor.name, probe->value, EITP__HEAT_STUCK);
}

static void eitp__heat_look(eitp_run *run, eitp__run_heat *heat, double now) {
    double cost, interval;
    for (size_t i = 0; i < heat->probes.count; i++) {
        eitp__heat_probe *probe = &heat->probes.all[i];
        if (!probe->is_ignored && eitp__heat_show(probe, eitp__heat_read(&run->host, probe), heat->is_paused))
            eitp__heat_ignore(run, probe);
    }
    cost = eitp__clock() - now;
    /* The least of all looks: on a busy machine one may take long. */
    if (heat->look_cost <= 0 || cost < heat->look_cost)
        heat->look_cost = cost;
    interval = EITP__HEAT_COST * heat->look_cost;
    heat->look_at = now + cost + (interval > EITP__HEAT_INTERVAL ? interval : EITP__HEAT_INTERVAL);
}

/* Reports that a pause begins, or has ended after `seconds`. */
static void eitp__heat_report(eitp_run *run, const eitp__run_heat *heat, double seconds) {
    const eitp__heat_probe *hottest = eitp__heat_hottest(&heat->probes);
    eitp_value values[3];
    char message[300];
    if (!hottest) {
        eitp__run_notify(run, EITP_EVENT_TEMPERATURE, EITP_LOG_INFO, seconds,
                         heat->most < 0 ? "training goes on after %.0f s: heat does not matter any more"
                                        : "training goes on after %.0f s: no thermometer can be read any more",
                         seconds);
        return;
    }
    values[0] = eitp__text_value("sensor", hottest->thermometer.sensor.name);
    values[1] = eitp__number_value("celsius", hottest->value);
    values[2] = eitp__number_value("limit_celsius", hottest->limit);
    if (heat->is_paused)
        snprintf(message, sizeof message,
                 "training pauses before step %lld: %s is at %.1f C, above %.1f C; it goes on at %.1f C",
                 (long long)eitp_trainer_steps_done(run->trainer) + 1, values[0].text, hottest->value, hottest->limit,
                 hottest->limit - EITP__HEAT_RECOVERY);
    else
        snprintf(message, sizeof message, "training goes on after %.0f s: %s is at %.1f C", seconds, values[0].text,
                 hottest->value);
    eitp__run_notify_values(run, EITP_EVENT_TEMPERATURE, heat->is_paused ? EITP_LOG_WARNING : EITP_LOG_INFO, seconds,
                            message, values, EITP__COUNT(values));
}

static void eitp__heat_report_blind(eitp_run *run, eitp__run_heat *heat) {
    if (!heat->is_blind && run->config.temp_max > 0)
        eitp__run_notify(run, EITP_EVENT_WARNING, EITP_LOG_WARNING, 0,
                         "temp_max has no effect: this machine has no thermometer of a processor that can be read");
    heat->is_blind = 1;
}

static eitp_status eitp__heat_before_step(eitp_run *run, void *state, eitp_error *error) {
    eitp__run_heat *heat = (eitp__run_heat *)state;
    const double now = eitp__clock();
    const int was_paused = heat->is_paused;
    (void)error;
    if (fabs(run->config.temp_max - heat->most) > 0)
        eitp__heat_follow(run, heat);
    if (!heat->probes.processors)
        eitp__heat_report_blind(run, heat);
    if (!was_paused && (!heat->probes.count || now < heat->look_at))
        return EITP_OK;
    eitp__heat_look(run, heat, now);
    heat->is_paused = eitp__heat_is_too_high(&heat->probes, was_paused);
    if (heat->is_paused == was_paused)
        return EITP_OK;
    if (heat->is_paused)
        heat->since = now;
    eitp__heat_report(run, heat, heat->is_paused ? 0 : now - heat->since);
    return EITP_OK;
}

static int eitp__heat_holds(const eitp_run *run, const void *state) {
    (void)run;
    return ((const eitp__run_heat *)state)->is_paused;
}

static void eitp__heat_end(eitp_run *run, void *state) {
    eitp__heat_forget(run, (eitp__run_heat *)state);
}

EITP__PRIVATE void eitp__heat_observer(eitp__observer *observer) {
    observer->state_size = sizeof(eitp__run_heat);
    observer->part = EITP_RUN_PART_GUARD;
    observer->begin = eitp__heat_begin;
    observer->before_step = eitp__heat_before_step;
    observer->holds = eitp__heat_holds;
    observer->end = eitp__heat_end;
}
