#include "base/system_use.h"

#include "base/files.h"
#include "base/system_text.h"

#include <sys/resource.h>
#include <unistd.h>

/* Maximum number of sensors searched for energy. */
#define EITP__ENERGY_SENSORS 256

static double eitp__timeval_seconds(const struct timeval *time) {
    return (double)time->tv_sec + 1e-6 * (double)time->tv_usec;
}

static void eitp__read_resources(eitp__system_use *use) {
    struct rusage usage;
    if (getrusage(RUSAGE_SELF, &usage))
        return;
    use->processor_s = eitp__timeval_seconds(&usage.ru_utime) + eitp__timeval_seconds(&usage.ru_stime);
    use->voluntary_switches = (double)usage.ru_nvcsw;
    use->involuntary_switches = (double)usage.ru_nivcsw;
    use->major_faults = (double)usage.ru_majflt;
}

/* Returns the number after `name` in a text of lines; NaN if it is missing. */
static double eitp__find_number(const char *text, const char *name) {
    const char *found = strstr(text, name);
    char *end;
    double number;
    if (!found)
        return (double)NAN;
    found += strlen(name);
    number = strtod(found, &end);
    return end == found ? (double)NAN : number;
}

static eitp_status eitp__read_storage_use(const eitp_host *host, eitp__buffer *text, eitp__system_use *use,
                                          eitp_error *error) {
    eitp_status status = eitp__read_system_text(host, "/proc/self/io", text, error);
    if (status)
        return status;
    use->read_bytes = eitp__find_number(text->data, "\nread_bytes:");
    use->written_bytes = eitp__find_number(text->data, "\nwrite_bytes:");
    return EITP_OK;
}

/* Parses "cpu  user nice system idle iowait irq softirq steal guest guest_nice", in clock ticks. */
static eitp_status eitp__read_machine_use(const eitp_host *host, eitp__buffer *text, eitp__system_use *use,
                                          eitp_error *error) {
    enum { STEAL = 7, COUNTED = 8 };
    const double tick = 1.0 / (double)sysconf(_SC_CLK_TCK);
    double sum = 0;
    char *at, *end;
    eitp_status status = eitp__read_system_text(host, "/proc/stat", text, error);
    if (status || strncmp(text->data, "cpu ", 4) != 0)
        return status;
    at = text->data + 4;
    for (int i = 0; i < COUNTED; i++, at = end) {
        const double ticks = strtod(at, &end);
        if (end == at || ticks < 0)
            return EITP_OK;
        sum += ticks;
        use->stolen_s = i == STEAL ? ticks * tick : use->stolen_s;
    }
    use->machine_s = sum * tick;
    return EITP_OK;
}

/* On a machine with many processors, /proc/cpuinfo has megabytes: only its start is read. */
static double eitp__cpuinfo_frequency(const eitp_host *host) {
    char text[2048];
    size_t size = 0;
    eitp__file file;
    if (eitp__file_open(&file, host, "/proc/cpuinfo", EITP_FILE_READ, NULL))
        return (double)NAN;
    if (eitp__file_read_some(&file, 0, text, sizeof text - 1, &size, NULL))
        size = 0;
    eitp__file_close(&file, NULL);
    text[size] = 0;
    return 1e6 * eitp__find_number(text, "\ncpu MHz\t\t:");
}

static eitp_status eitp__read_frequency(const eitp_host *host, eitp__buffer *text, eitp__system_use *use,
                                        eitp_error *error) {
    eitp_status status =
        eitp__read_system_text(host, "/sys/devices/system/cpu/cpu0/cpufreq/scaling_cur_freq", text, error);
    if (status)
        return status;
    use->frequency = *text->data ? 1e3 * strtod(text->data, NULL) : eitp__cpuinfo_frequency(host);
    return EITP_OK;
}

/* Sums the energy over the processor packages; their parts are listed too. */
static eitp_status eitp__read_energy(const eitp_host *host, eitp__system_use *use, eitp_error *error) {
    const size_t bytes = EITP__ENERGY_SENSORS * sizeof(eitp_sensor);
    eitp_sensor *sensors = (eitp_sensor *)eitp__allocate(host, bytes);
    size_t count = 0;
    eitp_status status = sensors ? eitp_sensors_read(host, sensors, EITP__ENERGY_SENSORS, &count, error)
                                 : eitp__fail_memory(error, bytes, "sensors");
    for (size_t i = 0; i < count && !status; i++) {
        if (sensors[i].kind != EITP_SENSOR_ENERGY || strncmp(sensors[i].name, "package", 7) != 0)
            continue;
        use->energy_j = (isnan(use->energy_j) ? 0 : use->energy_j) + sensors[i].value;
        use->energy_range += sensors[i].range;
    }
    eitp__release(host, sensors, bytes);
    return status;
}

EITP__PRIVATE eitp_status eitp__system_use_read(const eitp_host *host, int energy, eitp__system_use *use,
                                                eitp_error *error) {
    const double unknown = (double)NAN;
    eitp__system_use found;
    eitp__buffer text;
    eitp_status status;
    memset(&found, 0, sizeof found);
    found.processor_s = found.voluntary_switches = found.involuntary_switches = found.major_faults = unknown;
    found.read_bytes = found.written_bytes = found.machine_s = found.stolen_s = unknown;
    found.frequency = found.energy_j = unknown;
    eitp__read_resources(&found);
    eitp__buffer_init(&text, host);
    status = eitp__read_storage_use(host, &text, &found, error);
    if (!status)
        status = eitp__read_machine_use(host, &text, &found, error);
    if (!status)
        status = eitp__read_frequency(host, &text, &found, error);
    eitp__buffer_release(&text);
    if (!status && energy)
        status = eitp__read_energy(host, &found, error);
    if (!status)
        *use = found;
    return status;
}
