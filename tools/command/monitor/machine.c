#include "monitor/machine.h"

#include "files.h"

#include <time.h>
#include <unistd.h>

enum { MOST_SENSORS = 64, MOST_GPUS = 64, LINE = 256 };

/* Reads the first line of a system file; "" on failure. */
static void read_line(const char *name, char line[LINE]) {
    char *path = files_of_system(name);
    FILE *file = fopen(path, "r");
    free(path);
    if (!file || !fgets(line, LINE, file))
        *line = 0;
    line[strcspn(line, "\n")] = 0;
    if (file)
        fclose(file);
}

/* ---- Memory and processors ---- */

static double percent(uint64_t part, uint64_t whole) {
    return whole && part <= whole ? 100 * (double)part / (double)whole : (double)NAN;
}

static void read_memory(machine *m) {
    const eitp_host host = command_host();
    eitp_error ignored;
    double group;
    memset(&m->memory, 0, sizeof m->memory);
    if (eitp_memory_info_read(&host, &m->memory, &ignored))
        memset(&m->memory, 0, sizeof m->memory);
    m->memory_percent = percent(m->memory.total - m->memory.available, m->memory.total);
    group = percent(m->memory.cgroup_used, m->memory.cgroup_limit);
    if (!isfinite(m->memory_percent) || group > m->memory_percent)
        m->memory_percent = group;
}

/* Reads the line "cpu user nice system idle iowait irq softirq steal" of /proc/stat. */
static void read_processors(machine *m) {
    char line[LINE], *at = line + 3;
    const double busy_before = m->busy, all_before = m->all;
    m->busy = m->all = 0;
    m->processor_percent = (double)NAN;
    read_line("/proc/stat", line);
    if (strncmp(line, "cpu ", 4))
        return;
    for (int i = 0; i < 8; i++) {
        const double ticks = strtod(at, &at);
        m->all += ticks;
        m->busy += i == 3 || i == 4 ? 0 : ticks;
    }
    if (all_before > 0 && m->all > all_before)
        m->processor_percent = 100 * (m->busy - busy_before) / (m->all - all_before);
}

/* ---- Sensors ---- */

static int is_processor(const char *name) {
    static const char *const names[] = {"coretemp", "k10temp", "zenpower", "cpu",
                                        "soc",      "package", "x86_pkg",  "acpitz"};
    for (size_t i = 0; i < COMMAND_COUNT(names); i++) {
        if (!strncmp(name, names[i], strlen(names[i])))
            return 1;
    }
    return 0;
}

static void take_sensor(machine *m, const eitp_sensor *sensor) {
    if (sensor->kind == EITP_SENSOR_POWER && !(sensor->value <= m->power))
        m->power = sensor->value;
    if (sensor->kind == EITP_SENSOR_LOAD)
        m->load = sensor->value;
    if (sensor->kind == EITP_SENSOR_PRESSURE && !strcmp(sensor->name, "memory"))
        m->pressure = 100 * sensor->value;
    if (sensor->kind == EITP_SENSOR_TEMPERATURE && is_processor(sensor->name) && !(sensor->value <= m->temperature)) {
        m->temperature = sensor->value;
        m->temperature_limit = sensor->limit > 0 ? sensor->limit : (double)NAN;
    }
}

static void read_sensors(machine *m) {
    const eitp_host host = command_host();
    eitp_sensor *sensors = (eitp_sensor *)command_allocate(MOST_SENSORS * sizeof *sensors);
    eitp_error ignored;
    size_t count = 0;
    m->load = m->pressure = m->power = m->temperature = m->temperature_limit = (double)NAN;
    if (eitp_sensors_read(&host, sensors, MOST_SENSORS, &count, &ignored))
        count = 0;
    for (size_t i = 0; i < count && i < MOST_SENSORS; i++)
        take_sensor(m, &sensors[i]);
    free(sensors);
}

/* ---- */

void machine_read(machine *m) {
    const eitp_host host = command_host();
    eitp_processor_info processors;
    eitp_error ignored;
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    m->time = (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
    read_line("/proc/sys/kernel/hostname", m->name);
    read_memory(m);
    read_processors(m);
    read_sensors(m);
    m->processors = eitp_processor_info_read(&host, &processors, &ignored) ? 0 : processors.online;
}

int machine_has(const machine *m, const recorded_run *r) {
    if (r->process.state == EITP_RUN_PROCESS_ALIVE)
        return 1;
    return r->process.state != EITP_RUN_PROCESS_ELSEWHERE && *m->name &&
           !strcmp(recorded_text(r->run, "machine.host", ""), m->name);
}

int machine_read_gpu(const recorded_run *r, eitp_gpu *gpu) {
    const char *device = recorded_text(r->run, "device", "");
    eitp_gpu *gpus;
    eitp_error ignored;
    size_t count = 0;
    int is_found = 0;
    if (r->process.state != EITP_RUN_PROCESS_ALIVE || strncmp(device, "cuda:", 5))
        return 0;
    gpus = (eitp_gpu *)command_allocate(MOST_GPUS * sizeof *gpus);
    if (eitp_gpus_read(r->process.pid, gpus, MOST_GPUS, &count, &ignored))
        count = 0;
    for (size_t i = 0; i < count && !is_found; i++) {
        is_found = eitp_gpu_is_device(gpus[i].address, device);
        *gpu = gpus[i];
    }
    free(gpus);
    return is_found;
}

double machine_resident(int64_t process) {
    char line[LINE], *name = command_format("/proc/%lld/statm", (long long)process);
    unsigned long pages = 0;
    read_line(name, line);
    free(name);
    return sscanf(line, "%*u %lu", &pages) == 1 ? (double)pages * (double)sysconf(_SC_PAGESIZE) : (double)NAN;
}

double machine_disk(const char *path) {
    const eitp_host host = command_host();
    uint64_t free_bytes = 0, largest;
    if (!host.files.space || host.files.space(host.files.user, path, &free_bytes, &largest))
        return (double)NAN;
    return free_bytes == UINT64_MAX ? (double)NAN : (double)free_bytes;
}
