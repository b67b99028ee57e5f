#include "run/heat.h"

#define EITP__LOWEST_CRITICAL 50 /* lower ones are mistakes of the firmware */

/* Names of drivers and thermal zones that measure a processor, or the board around it, begin like this. */
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

/* Its critical point; 0 if it is unknown. */
static double eitp__critical_point(const eitp_sensor *sensor) {
    return sensor->limit >= EITP__LOWEST_CRITICAL ? sensor->limit : 0;
}

/* True for a core of a processor whose package is measured too, by its hottest core. */
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

/* The limit of processors without a critical point of their own. */
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
    eitp__heat_probe *probe = &probes->all[probes->count]; /* eitp__heat_choose leaves room */
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
