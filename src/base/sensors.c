/* The sensors of the machine. */
#include "base/files.h"
#include "base/system_text.h"

/* Files with one number each, in the directories of a class: "<prefix><digits><suffix>". */
typedef struct eitp__sensor_files {
    eitp_sensor_kind kind;
    const char *class_directory;
    const char *name; /* the file in the directory that names the device */
    const char *prefix, *suffix;
    const char *label, *range; /* suffixes of the files with its label and its range, or "" */
    double unit;               /* of the number */
    double above, most;        /* a running machine's values are above, and at most */
} eitp__sensor_files;

static const eitp__sensor_files eitp__sensor_classes[] = {
    {EITP_SENSOR_TEMPERATURE, "/sys/class/hwmon", "name", "temp", "_input", "_label", "", 1e-3, 0, 150},
    {EITP_SENSOR_POWER, "/sys/class/hwmon", "name", "power", "_average", "_label", "", 1e-6, 0, 1e5},
    {EITP_SENSOR_POWER, "/sys/class/hwmon", "name", "power", "_input", "_label", "", 1e-6, 0, 1e5},
    {EITP_SENSOR_TEMPERATURE, "/sys/class/thermal", "type", "temp", "", "", "", 1e-3, 0, 150},
    {EITP_SENSOR_ENERGY, "/sys/class/powercap", "name", "energy_uj", "", "", "max_energy_range_uj", 1e-6, -1, 1e15},
};

/* The list of sensors being read, and a text that is reused. */
typedef struct eitp__sensor_list {
    const eitp_host *host;
    eitp_sensor *sensors;
    size_t capacity, count;
    eitp__buffer text;
} eitp__sensor_list;

/* Reads the first line of "<directory>/<name><suffix>" into `list->text`; "" if that is not possible. */
static eitp_status eitp__read_sensor_line(eitp__sensor_list *list, const char *directory, const char *name,
                                          size_t name_size, const char *suffix, eitp_error *error) {
    char file[80], *path;
    eitp_status status;
    snprintf(file, sizeof file, "%.*s%s", (int)name_size, name, suffix);
    path = eitp__join_path(list->host, directory, file);
    status = path ? eitp__read_system_text(list->host, path, &list->text, error)
                  : eitp__fail_memory(error, strlen(directory), "a path");
    eitp__release_text(list->host, path);
    if (!status)
        list->text.data[strcspn(list->text.data, "\n")] = 0;
    return status;
}

static eitp_sensor *eitp__add_sensor(eitp__sensor_list *list, eitp_sensor_kind kind, double value) {
    eitp_sensor *sensor = &list->sensors[list->count++];
    memset(sensor, 0, sizeof *sensor);
    sensor->kind = kind;
    sensor->value = value;
    return sensor;
}

/* Parses the line that was read; NaN if it is not a number. */
static double eitp__sensor_number(const eitp__sensor_list *list) {
    char *end;
    const double number = strtod(list->text.data, &end);
    return end == list->text.data ? (double)NAN : number;
}

/* ---- /sys/class ---- */

/* True if a file belongs to a class; *stem is the size of its name without the suffix. */
static int eitp__is_sensor_file(const eitp__sensor_files *files, const char *name, size_t *stem) {
    const size_t prefix = strlen(files->prefix);
    *stem = prefix;
    if (strncmp(name, files->prefix, prefix))
        return 0;
    *stem += strspn(name + prefix, "0123456789");
    return !strcmp(name + *stem, files->suffix) && (*stem > prefix || !*files->suffix);
}

static eitp_status eitp__read_sensor(eitp__sensor_list *list, const eitp__sensor_files *files, const char *directory,
                                     const char *name, size_t stem, eitp_error *error) {
    eitp_sensor *sensor;
    double value;
    eitp_status status = eitp__read_sensor_line(list, directory, name, stem, files->suffix, error);
    if (status)
        return status;
    value = eitp__sensor_number(list) * files->unit;
    if (!(value > files->above && value <= files->most))
        return EITP_OK;
    sensor = eitp__add_sensor(list, files->kind, value);
    status = eitp__read_sensor_line(list, directory, files->name, strlen(files->name), "", error);
    if (!status)
        snprintf(sensor->name, sizeof sensor->name, "%.50s", list->text.data);
    if (!status && *files->label) {
        status = eitp__read_sensor_line(list, directory, name, stem, files->label, error);
        if (!status && *list->text.data)
            snprintf(sensor->name + strlen(sensor->name), sizeof sensor->name - strlen(sensor->name), " %.40s",
                     list->text.data);
    }
    if (!status && *files->range) {
        status = eitp__read_sensor_line(list, directory, files->range, strlen(files->range), "", error);
        value = status ? 0 : eitp__sensor_number(list) * files->unit;
        sensor->range = value > 0 ? value : 0;
    }
    return status;
}

/* The names in a directory; none if it cannot be listed. */
static eitp_status eitp__list_sensors(const eitp__sensor_list *list, const char *directory, eitp__buffer *names,
                                      size_t *count, eitp_error *error) {
    eitp_error why;
    const eitp_status status = eitp__list_directory(list->host, directory, names, count, &why);
    if (status)
        *count = 0;
    return status == EITP_ERROR_MEMORY ? eitp__fail(error, status, "%s", why.message) : EITP_OK;
}

static eitp_status eitp__read_sensor_device(eitp__sensor_list *list, const eitp__sensor_files *files,
                                            const char *directory, eitp_error *error) {
    eitp__buffer names;
    size_t count = 0, at = 0, stem;
    eitp_status status;
    eitp__buffer_init(&names, list->host);
    status = eitp__list_sensors(list, directory, &names, &count, error);
    for (size_t i = 0; i < count && !status && list->count < list->capacity; i++) {
        const char *name = names.data + at;
        at += strlen(name) + 1;
        if (eitp__is_sensor_file(files, name, &stem))
            status = eitp__read_sensor(list, files, directory, name, stem, error);
    }
    eitp__buffer_release(&names);
    return status;
}

static eitp_status eitp__read_sensor_class(eitp__sensor_list *list, const eitp__sensor_files *files,
                                           eitp_error *error) {
    eitp__buffer names;
    size_t count = 0, at = 0;
    eitp_status status;
    eitp__buffer_init(&names, list->host);
    status = eitp__list_sensors(list, files->class_directory, &names, &count, error);
    for (size_t i = 0; i < count && !status; i++) {
        char *directory = eitp__join_path(list->host, files->class_directory, names.data + at);
        at += strlen(names.data + at) + 1;
        status = directory ? eitp__read_sensor_device(list, files, directory, error)
                           : eitp__fail_memory(error, strlen(files->class_directory), "a path");
        eitp__release_text(list->host, directory);
    }
    eitp__buffer_release(&names);
    return status;
}

/* ---- /proc ---- */

/* "some avg10=1.53 avg60=..." */
static eitp_status eitp__read_pressure(eitp__sensor_list *list, const char *name, eitp_error *error) {
    static const char begin[] = "some avg10=";
    char *end;
    double percent;
    eitp_status status = eitp__read_sensor_line(list, "/proc/pressure", name, strlen(name), "", error);
    if (status || strncmp(list->text.data, begin, sizeof begin - 1) || list->count == list->capacity)
        return status;
    percent = strtod(list->text.data + sizeof begin - 1, &end);
    if (*end == ' ' && percent >= 0 && percent <= 100)
        snprintf(eitp__add_sensor(list, EITP_SENSOR_PRESSURE, percent / 100)->name, 100, "%s", name);
    return EITP_OK;
}

static eitp_status eitp__read_load(eitp__sensor_list *list, eitp_error *error) {
    static const char name[] = "loadavg";
    double load;
    eitp_status status = eitp__read_sensor_line(list, "/proc", name, sizeof name - 1, "", error);
    load = status ? (double)NAN : eitp__sensor_number(list);
    if (load >= 0 && list->count < list->capacity)
        eitp__add_sensor(list, EITP_SENSOR_LOAD, load);
    return status;
}

eitp_status eitp_sensors_read(const eitp_host *host, eitp_sensor *sensors, size_t capacity, size_t *count,
                              eitp_error *error) {
    static const char *const pressures[] = {"cpu", "memory", "io"};
    eitp__sensor_list list;
    eitp_status status = EITP_OK;
    if (!host || !sensors || !count)
        return eitp__fail_null(error, "eitp_sensors_read", "host, sensors and count");
    list.host = host;
    list.sensors = sensors;
    list.capacity = capacity;
    list.count = 0;
    eitp__buffer_init(&list.text, host);
    for (size_t i = 0; i < EITP__COUNT(eitp__sensor_classes) && !status; i++)
        status = eitp__read_sensor_class(&list, &eitp__sensor_classes[i], error);
    for (size_t i = 0; i < EITP__COUNT(pressures) && !status; i++)
        status = eitp__read_pressure(&list, pressures[i], error);
    if (!status)
        status = eitp__read_load(&list, error);
    eitp__buffer_release(&list.text);
    if (!status)
        *count = list.count;
    return status;
}
