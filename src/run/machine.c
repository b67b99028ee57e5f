#include "run/machine.h"

#include "base/clock.h"
#include "base/memory.h"
#include "base/sensors.h"
#include "run/internal.h"
#include "train/trainer.h"

/* ---- Temperature limits ---- */

#define EITP__LOWEST_CRITICAL 50 /* lower values are firmware errors */

/* Prefixes of the names of drivers and thermal zones that measure a processor, or the board around it. */
static const char *const eitp__heat_processors[] = {"coretemp", "k10temp", "k8temp",     "zenpower", "via_cputemp",
                                                    "cpu",      "soc",     "package",    "bigcore",  "littlecore",
                                                    "acpitz",   "x86_pkg", "apple_core", "TCPU",     "scpi_sensors"};

static int eitp__is_processor(const char *name) {
    for (size_t i = 0; i < EITP__COUNT(eitp__heat_processors); i++) {
        if (!strncmp(name, eitp__heat_processors[i], strlen(eitp__heat_processors[i])))
            return 1;
    }
    return 0;
}

/* Returns the critical temperature of a sensor, or 0 if it is unknown. */
static double eitp__critical_point(const eitp_sensor *sensor) {
    return sensor->limit >= EITP__LOWEST_CRITICAL ? sensor->limit : 0;
}

/* True for a core of a processor whose package, which reports its hottest core, is measured too. */
static int eitp__is_covered(const eitp__thermometer *thermometers, size_t count, const char *name) {
    static const char core[] = "coretemp Core ", package[] = "coretemp Package ";
    if (strncmp(name, core, sizeof core - 1))
        return 0;
    for (size_t i = 0; i < count; i++) {
        if (!strncmp(thermometers[i].sensor.name, package, sizeof package - 1))
            return 1;
    }
    return 0;
}

/* Returns the limit of processors that report no critical temperature. */
static double eitp__common_limit(const eitp__thermometer *thermometers, size_t count) {
    double lowest = EITP__HEAT_DEFAULT + EITP__HEAT_MARGIN;
    int is_known = 0;
    for (size_t i = 0; i < count; i++) {
        const double critical = eitp__critical_point(&thermometers[i].sensor);
        if (critical > 0 && eitp__is_processor(thermometers[i].sensor.name) && (!is_known || critical < lowest)) {
            lowest = critical;
            is_known = 1;
        }
    }
    return lowest - EITP__HEAT_MARGIN;
}

EITP__PRIVATE void eitp__heat_choose(eitp__heat_probes *probes, eitp__thermometer *thermometers, size_t count,
                                     double most) {
    const double common = eitp__common_limit(thermometers, count);
    probes->count = probes->processors = 0;
    for (size_t i = 0; i < count && probes->count < EITP__HEAT_PROBES; i++) {
        const eitp_sensor *sensor = &thermometers[i].sensor;
        const double critical = eitp__critical_point(sensor);
        const int is_processor = eitp__is_processor(sensor->name);
        eitp__heat_probe *probe = &probes->all[probes->count];
        if ((!is_processor && !(critical > 0)) || eitp__is_covered(thermometers, count, sensor->name))
            continue;
        memset(probe, 0, sizeof *probe);
        probe->thermometer = thermometers[i];
        thermometers[i].path = NULL;
        probe->limit = !is_processor  ? critical
                       : most > 0     ? most
                       : critical > 0 ? critical - EITP__HEAT_MARGIN
                                      : common;
        probes->processors += is_processor != 0;
        probes->count++;
    }
}

EITP__PRIVATE void eitp__heat_add_gpu(eitp__heat_probes *probes, const eitp__gpu_meter *meter, double most) {
    eitp__heat_probe *probe = &probes->all[probes->count]; /* eitp__heat_choose leaves space for it */
    eitp_sensor *sensor;
    eitp_gpu gpu;
    eitp__gpu_meter_read(meter, 0, &gpu);
    if (isnan(gpu.temperature))
        return;
    memset(probe, 0, sizeof *probe);
    probe->gpu = meter;
    sensor = &probe->thermometer.sensor;
    sensor->kind = EITP_SENSOR_TEMPERATURE;
    sensor->limit = isnan(gpu.slowdown_temperature) ? 0 : gpu.slowdown_temperature;
    snprintf(sensor->name, sizeof sensor->name, "GPU %.90s", *gpu.name ? gpu.name : gpu.address);
    probe->limit = most > 0                           ? most
                   : eitp__critical_point(sensor) > 0 ? sensor->limit - EITP__HEAT_MARGIN
                                                      : EITP__HEAT_DEFAULT;
    probes->processors++;
    probes->count++;
}

EITP__PRIVATE double eitp__heat_read(const eitp_host *host, const eitp__heat_probe *probe) {
    return probe->gpu ? eitp__gpu_meter_temperature(probe->gpu) : eitp__thermometer_read(host, &probe->thermometer);
}

EITP__PRIVATE int eitp__heat_show(eitp__heat_probe *probe, double value, int is_paused) {
    const double critical = eitp__critical_point(&probe->thermometer.sensor);
    const double most = critical > 0 ? critical + 2 * EITP__HEAT_RECOVERY : EITP__HEAT_BROKEN;
    const double before = probe->value;
    probe->value = value > 0 && value < EITP__HEAT_BROKEN && value < most ? value : 0;
    if (!is_paused || fabs(probe->value - before) > 0)
        probe->unchanged = 0;
    else if (++probe->unchanged == EITP__HEAT_STUCK && probe->value > probe->limit - EITP__HEAT_RECOVERY)
        probe->is_ignored = 1;
    return probe->is_ignored && probe->unchanged == EITP__HEAT_STUCK;
}

EITP__PRIVATE const eitp__heat_probe *eitp__heat_hottest(const eitp__heat_probes *probes) {
    const eitp__heat_probe *hottest = NULL;
    for (size_t i = 0; i < probes->count; i++) {
        const eitp__heat_probe *probe = &probes->all[i];
        if (probe->is_ignored || !(probe->value > 0))
            continue;
        if (!hottest || probe->value - probe->limit > hottest->value - hottest->limit)
            hottest = probe;
    }
    return hottest;
}

EITP__PRIVATE int eitp__heat_is_too_high(const eitp__heat_probes *probes, int is_paused) {
    const eitp__heat_probe *hottest = eitp__heat_hottest(probes);
    return hottest && hottest->value > hottest->limit - (is_paused ? EITP__HEAT_RECOVERY : 0);
}

/* ---- The GPU ---- */

/* Steps between two checks of the memory without reports. */
enum { EITP__GPU_LOOK_STEPS = 50 };

/* Percentage points by which memory use must fall below the limit before a warning is repeated. */
enum { EITP__GPU_CALMER = 5 };

typedef struct eitp__run_gpu {
    eitp__gpu_meter meter;
    int is_used;   /* 1: the run computes on a GPU */
    int is_full;   /* gpu_mem_warn was exceeded, which was reported */
    double energy; /* at the last report; NaN: unknown */
    int64_t step;  /* of the last report */
} eitp__run_gpu;

/* The reported values. Unknown numbers are NaN. */
typedef struct eitp__gpu_report {
    eitp_gpu gpu;
    double allocated; /* bytes allocated by the context: variables, arena and workspace */
    double reserved;  /* bytes reserved by the process on the device, including the driver's own */
    double energy;    /* joules since the last report */
    int64_t steps;    /* since the last report */
} eitp__gpu_report;

static const double eitp__gibibyte = 1073741824;

static int eitp__run_open_gpu(const eitp_run *run, eitp__gpu_meter *meter) {
    const eitp_context *context = eitp__trainer_task(run->trainer)->context;
    memset(meter, 0, sizeof *meter);
    if (strcmp(context->backend->interface->name, "cuda") != 0)
        return 0;
    eitp__gpu_meter_open(meter, eitp_context_description(context));
    return 1;
}

/* ---- Reading ---- */

/* Inside a container a process may have a different process id from the one that the driver's library reports: a number
   smaller than the context's memory does not belong to this process. */
static void eitp__gpu_report_read(const eitp_run *run, eitp__run_gpu *state, eitp__gpu_report *report) {
    eitp_device_memory memory;
    eitp__gpu_meter_read(&state->meter, 0, &report->gpu);
    (void)eitp_context_device_memory(eitp__trainer_task(run->trainer)->context, &memory, NULL); /* may lack `free` */
    report->allocated = (double)memory.allocated;
    report->reserved = report->gpu.process_memory >= report->allocated ? report->gpu.process_memory : (double)NAN;
    report->energy = report->gpu.energy >= state->energy ? report->gpu.energy - state->energy : (double)NAN;
    report->steps = run->report.step.step - state->step;
    state->energy = report->gpu.energy;
    state->step = run->report.step.step;
}

/* ---- Reporting ---- */

static void eitp__add_known(eitp__values *list, const char *name, double number) {
    if (!isnan(number))
        eitp__add_number(list, name, number);
}

static void eitp__record_gpu(eitp_run *run, const eitp__gpu_report *report) {
    const eitp_gpu *gpu = &report->gpu;
    eitp__values *list = eitp__record_begin(run);
    eitp__add_known(list, "gpu/allocated_gib", report->allocated / eitp__gibibyte);
    eitp__add_known(list, "gpu/reserved_gib", report->reserved / eitp__gibibyte);
    eitp__add_known(list, "gpu/memory_used_gib", gpu->memory_used / eitp__gibibyte);
    eitp__add_known(list, "gpu/memory_gib", gpu->memory_total / eitp__gibibyte);
    eitp__add_known(list, "gpu/utilization", gpu->utilization);
    eitp__add_known(list, "gpu/memory_utilization", gpu->memory_utilization);
    eitp__add_known(list, "gpu/celsius", gpu->temperature);
    eitp__add_known(list, "gpu/power_w", gpu->power);
    eitp__add_known(list, "gpu/energy_j", report->energy);
    if (report->steps > 0)
        eitp__add_known(list, "gpu/step_energy_j", report->energy / (double)report->steps);
    eitp__add_known(list, "gpu/frequency_mhz", 1e-6 * gpu->clock);
    if (gpu->slowed_by && *gpu->slowed_by)
        eitp__add_text(list, "gpu/slowed_by", gpu->slowed_by);
    eitp__record(run, EITP_RECORD_PERFORMANCE, run->report.step.step);
}

/* Appends to a string of `size` bytes, unless the number is unknown. */
static void eitp__describe_known(char *text, size_t size, const char *before, const char *format, double number) {
    const size_t used = strlen(text);
    if (isnan(number))
        return;
    snprintf(text + used, size - used, "%s", before);
    snprintf(text + strlen(text), size - strlen(text), format, number);
}

/* Reports, for example, "GPU memory: 0.45 GiB allocated, 0.68 GiB reserved; 63 C, 214 W". */
static void eitp__notify_gpu(eitp_run *run, const eitp__gpu_report *report) {
    const eitp_gpu *gpu = &report->gpu;
    char text[200] = "GPU memory: ";
    eitp__describe_known(text, sizeof text, "", "%.2f GiB allocated", report->allocated / eitp__gibibyte);
    eitp__describe_known(text, sizeof text, ", ", "%.2f GiB reserved", report->reserved / eitp__gibibyte);
    eitp__describe_known(text, sizeof text, "; ", "%.0f C", gpu->temperature);
    eitp__describe_known(text, sizeof text, isnan(gpu->temperature) ? "; " : ", ", "%.0f W", gpu->power);
    eitp__run_notify(run, EITP_EVENT_GPU, EITP_LOG_INFO, 0, "%s%s%s", text,
                     gpu->slowed_by && *gpu->slowed_by ? "; slowed down by " : "",
                     gpu->slowed_by ? gpu->slowed_by : "");
}

/* Warns once when memory use reaches the limit. */
static void eitp__watch_gpu_memory(eitp_run *run, eitp__run_gpu *state, const eitp_gpu *gpu) {
    const double limit = run->config.gpu_mem_warn, percent = 100 * gpu->memory_used / gpu->memory_total;
    eitp_value value;
    char message[200];
    if (!(limit > 0 && limit < 100) || !(percent >= 0))
        return;
    if (percent >= limit && !state->is_full) {
        state->is_full = 1;
        snprintf(message, sizeof message,
                 "%.0f %% of the GPU's memory is used (limit %.0f %%); the run has already allocated its memory, but "
                 "other programs may cause it to fail",
                 percent, limit);
        value = eitp__number_value("gpu_memory_percent", percent);
        eitp__run_notify_values(run, EITP_EVENT_WARNING, EITP_LOG_WARNING, 0, message, &value, 1);
    }
    state->is_full &= percent > limit - (double)EITP__GPU_CALMER;
}

/* ---- The observer ---- */

static eitp_status eitp__gpu_begin(eitp_run *run, void *user, eitp_error *error) {
    eitp__run_gpu *state = (eitp__run_gpu *)user;
    eitp_gpu gpu;
    (void)error;
    state->is_used = eitp__run_open_gpu(run, &state->meter);
    eitp__gpu_meter_read(&state->meter, 0, &gpu);
    state->energy = gpu.energy;
    state->step = run->report.start_step;
    return EITP_OK;
}

static void eitp__gpu_after_step(eitp_run *run, void *user, eitp__decision *decision) {
    eitp__run_gpu *state = (eitp__run_gpu *)user;
    const int64_t every = run->config.gpu_report_every;
    eitp__gpu_report report;
    (void)decision;
    if (!state->is_used || run->report.step.step % (every > 0 ? every : (int64_t)EITP__GPU_LOOK_STEPS) != 0)
        return;
    eitp__gpu_report_read(run, state, &report);
    eitp__watch_gpu_memory(run, state, &report.gpu);
    if (every <= 0)
        return;
    if (run->config.monitor != EITP_MONITOR_OFF)
        eitp__record_gpu(run, &report);
    eitp__notify_gpu(run, &report);
}

static void eitp__gpu_end(eitp_run *run, void *user) {
    (void)run;
    eitp__gpu_meter_close(&((eitp__run_gpu *)user)->meter);
}

EITP__PRIVATE void eitp__gpu_observer(eitp__observer *observer) {
    observer->state_size = sizeof(eitp__run_gpu);
    observer->cost = EITP_RUN_COST_RECORDS;
    observer->begin = eitp__gpu_begin;
    observer->after_step = eitp__gpu_after_step;
    observer->end = eitp__gpu_end;
}

/* ---- The heat observer ---- */

/* Minimum interval between checks in seconds, and as a multiple of their cost: a driver may take milliseconds. */
#define EITP__HEAT_INTERVAL 1
#define EITP__HEAT_COST 200

enum { EITP__MOST_THERMOMETERS = 512 };

/* Finds the temperature sensors that count. */
static eitp_status eitp__heat_find(const eitp_run *run, eitp__run_heat *heat, eitp_error *error) {
    const size_t size = EITP__MOST_THERMOMETERS * sizeof(eitp__thermometer);
    eitp__thermometer *found = (eitp__thermometer *)eitp__allocate(&run->host, size);
    size_t count = 0;
    eitp_status status = found ? eitp__thermometers_list(&run->host, found, EITP__MOST_THERMOMETERS, &count, error)
                               : eitp__fail_memory(error, size, "the temperature sensors of the machine");
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

/* Applies a limit that has changed while the run trains: chooses the sensors again and checks at once. Without sensors,
   or with a limit below 0, the run is no longer held. */
static void eitp__heat_follow(eitp_run *run, eitp__run_heat *heat) {
    eitp_error error;
    eitp__heat_forget(run, heat);
    heat->look_at = 0;
    heat->is_blind = 0;
    if (eitp__heat_begin(run, heat, &error))
        eitp__run_notify(run, EITP_EVENT_WARNING, EITP_LOG_WARNING, 0,
                         "%s; temperatures are not checked until temp_max changes again", error.message);
}

static void eitp__heat_ignore(eitp_run *run, const eitp__heat_probe *probe) {
    eitp__run_notify(run, EITP_EVENT_WARNING, EITP_LOG_WARNING, 0,
                     "%s has reported %.1f C in %d consecutive readings; ignoring it from now on",
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
    /* The minimum over all checks: on a busy machine one may take long. */
    if (heat->check_cost <= 0 || cost < heat->check_cost)
        heat->check_cost = cost;
    interval = EITP__HEAT_COST * heat->check_cost;
    heat->look_at = now + cost + (interval > EITP__HEAT_INTERVAL ? interval : EITP__HEAT_INTERVAL);
}

/* Reports that a pause starts, or has ended after `seconds`. */
static void eitp__heat_report(eitp_run *run, const eitp__run_heat *heat, double seconds) {
    const eitp__heat_probe *hottest = eitp__heat_hottest(&heat->probes);
    eitp_value values[3];
    char message[300];
    if (!hottest) {
        eitp__run_notify(run, EITP_EVENT_TEMPERATURE, EITP_LOG_INFO, seconds,
                         heat->most < 0 ? "training continues after %.0f s: temperatures are no longer checked"
                                        : "training continues after %.0f s: no temperature sensor can be read any more",
                         seconds);
        return;
    }
    values[0] = eitp__text_value("sensor", hottest->thermometer.sensor.name);
    values[1] = eitp__number_value("celsius", hottest->value);
    values[2] = eitp__number_value("limit_celsius", hottest->limit);
    if (heat->is_paused)
        snprintf(message, sizeof message,
                 "training pauses before step %lld: %s is at %.1f C (limit %.1f C); it continues at %.1f C",
                 (long long)eitp_trainer_steps_done(run->trainer) + 1, values[0].text, hottest->value, hottest->limit,
                 hottest->limit - EITP__HEAT_RECOVERY);
    else
        snprintf(message, sizeof message, "training continues after %.0f s: %s is at %.1f C", seconds, values[0].text,
                 hottest->value);
    eitp__run_notify_values(run, EITP_EVENT_TEMPERATURE, heat->is_paused ? EITP_LOG_WARNING : EITP_LOG_INFO, seconds,
                            message, values, EITP__COUNT(values));
}

static void eitp__heat_report_blind(eitp_run *run, eitp__run_heat *heat) {
    if (!heat->is_blind && run->config.temp_max > 0)
        eitp__run_notify(run, EITP_EVENT_WARNING, EITP_LOG_WARNING, 0,
                         "temp_max has no effect: this machine has no readable temperature sensor of a processor");
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
    observer->cost = EITP_RUN_COST_GUARD;
    observer->begin = eitp__heat_begin;
    observer->before_step = eitp__heat_before_step;
    observer->holds = eitp__heat_holds;
    observer->end = eitp__heat_end;
}

/* ---- Other programs ---- */

#define EITP__MACHINE_WATCH_INTERVAL 10 /* seconds between checks; the values read are means of 10 and of 60 seconds */

/* Percentage of the time in which some task waits for memory, and number of seconds that it must last. */
#define EITP__STALLS_HIGH 10
#define EITP__STALLS_LOW 5
#define EITP__STALLS_LAST 20

/* Number of other programs' tasks per processor. */
#define EITP__LOAD_HIGH 2
#define EITP__LOAD_LOW 1.5
#define EITP__LOAD_LASTS 60

EITP__PRIVATE int eitp__sustained_condition_add(eitp__sustained_condition *lasting, double value, double high,
                                                double low, double seconds, double now) {
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

static eitp_status eitp__machine_watch_begin(eitp_run *run, void *state, eitp_error *error) {
    eitp__machine_watch *watch = (eitp__machine_watch *)state;
    eitp_processor_info info;
    eitp_status status;
    if (run->config.memory_check_seconds < 0)
        return EITP_OK;
    status = eitp_processor_info_read(&run->host, &info, error);
    if (status)
        return status;
    watch->online = info.online;
    watch->own = info.usable;
    watch->look_at = eitp__clock() + EITP__MACHINE_WATCH_INTERVAL;
    return EITP_OK;
}

static void eitp__machine_watch_sample(eitp_run *run, eitp__machine_watch *watch, double now) {
    double stalls, load;
    char message[300];
    eitp_value value;
    if (!eitp__read_pressure_percent(&run->host, "memory", &stalls, NULL) &&
        eitp__sustained_condition_add(&watch->stalls, stalls, EITP__STALLS_HIGH, EITP__STALLS_LOW, EITP__STALLS_LAST,
                                      now)) {
        snprintf(message, sizeof message,
                 "tasks on this machine wait for memory %.0f %% of the time; close other programs or lower the memory "
                 "budget",
                 stalls);
        value = eitp__number_value("percent", stalls);
        eitp__run_notify_values(run, EITP_EVENT_PRESSURE, EITP_LOG_WARNING, 0, message, &value, 1);
    }
    if (!eitp__read_load(&run->host, &load, NULL) &&
        eitp__sustained_condition_add(&watch->load, (load - watch->own) / watch->online, EITP__LOAD_HIGH,
                                      EITP__LOAD_LOW, EITP__LOAD_LASTS, now)) {
        snprintf(message, sizeof message,
                 "other programs keep the processors busy: load %.1f on %.0f processors; steps take longer", load,
                 watch->online);
        value = eitp__number_value("load", load);
        eitp__run_notify_values(run, EITP_EVENT_LOAD, EITP_LOG_INFO, 0, message, &value, 1);
    }
}

static eitp_status eitp__machine_watch_before_step(eitp_run *run, void *state, eitp_error *error) {
    eitp__machine_watch *watch = (eitp__machine_watch *)state;
    const double now = eitp__clock();
    (void)error;
    if (!(watch->online > 0) || now < watch->look_at)
        return EITP_OK;
    eitp__machine_watch_sample(run, watch, now);
    watch->look_at = now + EITP__MACHINE_WATCH_INTERVAL;
    return EITP_OK;
}

EITP__PRIVATE void eitp__machine_watch_observer(eitp__observer *observer) {
    observer->state_size = sizeof(eitp__machine_watch);
    observer->cost = EITP_RUN_COST_GUARD;
    observer->begin = eitp__machine_watch_begin;
    observer->before_step = eitp__machine_watch_before_step;
}
