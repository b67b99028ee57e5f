/* Sensors of the machine. */
#include "base/sensors.h"

#include "base/files.h"
#include "base/system_text.h"

/* Files with one number each, in the directories of a class: "<prefix><digits><suffix>". */
typedef struct eitp__sensor_files {
    eitp_sensor_kind kind;
    const char *class_directory;
    const char *name; /* the file in the directory that contains the device's name */
    const char *prefix, *suffix;
    const char *label;  /* suffix of the file with its label, or "" */
    const char *range;  /* name of the file with its range, or "" */
    const char *limit;  /* suffix of the file with its critical point, or "" */
    int trips;          /* the critical point is one of the device's trip points */
    double unit;        /* of the number */
    double above, most; /* a running machine's values are above, and at most */
} eitp__sensor_files;

static const eitp__sensor_files eitp__sensor_classes[] = {
    {EITP_SENSOR_TEMPERATURE, "/sys/class/hwmon", "name", "temp", "_input", "_label", "", "_crit", 0, 1e-3, 0, 150},
    {EITP_SENSOR_POWER, "/sys/class/hwmon", "name", "power", "_average", "_label", "", "", 0, 1e-6, 0, 1e5},
    {EITP_SENSOR_POWER, "/sys/class/hwmon", "name", "power", "_input", "_label", "", "", 0, 1e-6, 0, 1e5},
    {EITP_SENSOR_TEMPERATURE, "/sys/class/thermal", "type", "temp", "", "", "", "", 1, 1e-3, 0, 150},
    {EITP_SENSOR_ENERGY, "/sys/class/powercap", "name", "energy_uj", "", "", "max_energy_range_uj", "", 0, 1e-6, -1,
     1e15},
};

/* The list of sensors being read, and a reused text buffer. */
typedef struct eitp__sensor_list {
    const eitp_host *host;
    eitp_sensor *sensors;            /* array to store them in; NULL: stores temperatures in `thermometers`, and nothing
                                        else */
    eitp__thermometer *thermometers; /* thermometers with their paths */
    size_t capacity, count;
    eitp__buffer text;
} eitp__sensor_list;

/* Reads the first line of "<directory>/<name><suffix>" into `list->text`; "" on failure. */
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
    const size_t index = list->count++;
    eitp_sensor *sensor = list->sensors ? &list->sensors[index] : &list->thermometers[index].sensor;
    if (!list->sensors)
        list->thermometers[index].path = NULL;
    memset(sensor, 0, sizeof *sensor);
    sensor->kind = kind;
    sensor->value = value;
    return sensor;
}

/* Parses the line just read; NaN if it is not a number. */
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

/* Returns the number in its unit if it is plausible for this class of sensors; otherwise 0. */
static double eitp__sensor_value(const eitp__sensor_list *list, const eitp__sensor_files *files) {
    const double value = eitp__sensor_number(list) * files->unit;
    return value > 0 && value <= files->most ? value : 0;
}

/* Reads the lowest critical trip point of a thermal zone. */
static eitp_status eitp__read_trip_points(eitp__sensor_list *list, const eitp__sensor_files *files,
                                          const char *directory, double *limit, eitp_error *error) {
    enum { EITP__MAX_TRIPS = 12 }; /* the kernel's limit */
    eitp_status status = EITP_OK;
    for (int i = 0; i < EITP__MAX_TRIPS && !status; i++) {
        char name[32];
        const int size = snprintf(name, sizeof name, "trip_point_%d", i);
        double value;
        status = eitp__read_sensor_line(list, directory, name, (size_t)size, "_type", error);
        if (status || !*list->text.data)
            break;
        if (strcmp(list->text.data, "critical"))
            continue;
        status = eitp__read_sensor_line(list, directory, name, (size_t)size, "_temp", error);
        value = status ? 0 : eitp__sensor_value(list, files);
        if (value > 0 && (!(*limit > 0) || value < *limit))
            *limit = value;
    }
    return status;
}

/* Reads the names of a sensor. */
static eitp_status eitp__read_sensor_name(eitp__sensor_list *list, const eitp__sensor_files *files,
                                          const char *directory, const char *name, size_t stem, eitp_sensor *sensor,
                                          eitp_error *error) {
    eitp_status status = eitp__read_sensor_line(list, directory, files->name, strlen(files->name), "", error);
    if (!status)
        snprintf(sensor->name, sizeof sensor->name, "%.50s", list->text.data);
    if (status || !*files->label)
        return status;
    status = eitp__read_sensor_line(list, directory, name, stem, files->label, error);
    if (!status && *list->text.data)
        snprintf(sensor->name + strlen(sensor->name), sizeof sensor->name - strlen(sensor->name), " %.40s",
                 list->text.data);
    return status;
}

/* Reads the limits that a sensor's values are compared with. */
static eitp_status eitp__read_sensor_bounds(eitp__sensor_list *list, const eitp__sensor_files *files,
                                            const char *directory, const char *name, size_t stem, eitp_sensor *sensor,
                                            eitp_error *error) {
    eitp_status status = EITP_OK;
    if (*files->range) {
        status = eitp__read_sensor_line(list, directory, files->range, strlen(files->range), "", error);
        sensor->range = status ? 0 : eitp__sensor_value(list, files);
    }
    if (!status && *files->limit) {
        status = eitp__read_sensor_line(list, directory, name, stem, files->limit, error);
        sensor->limit = status ? 0 : eitp__sensor_value(list, files);
    }
    if (!status && files->trips)
        status = eitp__read_trip_points(list, files, directory, &sensor->limit, error);
    return status;
}

/* Sets the path of the file that contains the value. */
static eitp_status eitp__set_sensor_path(eitp__sensor_list *list, const char *directory, const char *name,
                                         eitp_error *error) {
    char **path = &list->thermometers[list->count - 1].path;
    *path = eitp__join_path(list->host, directory, name);
    return *path ? EITP_OK : eitp__fail_memory(error, strlen(directory), "a path");
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
    status = eitp__read_sensor_name(list, files, directory, name, stem, sensor, error);
    if (!status)
        status = eitp__read_sensor_bounds(list, files, directory, name, stem, sensor, error);
    if (!status && !list->sensors)
        status = eitp__set_sensor_path(list, directory, name, error);
    return status;
}

/* Lists the names in a directory; none if it cannot be listed. */
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
    char *found;
    size_t count = 0, at = 0;
    eitp_status status;
    eitp__buffer_init(&names, list->host);
    status = eitp__list_system_directory(list->host, files->class_directory, &found, &names, &count, error);
    for (size_t i = 0; i < count && !status; i++) {
        char *directory = eitp__join_path(list->host, found, names.data + at);
        at += strlen(names.data + at) + 1;
        status = directory ? eitp__read_sensor_device(list, files, directory, error)
                           : eitp__fail_memory(error, strlen(files->class_directory), "a path");
        eitp__release_text(list->host, directory);
    }
    eitp__release_text(list->host, found);
    eitp__buffer_release(&names);
    return status;
}

static eitp_status eitp__read_sensor_classes(eitp__sensor_list *list, eitp_error *error) {
    eitp_status status = EITP_OK;
    for (size_t i = 0; i < EITP__COUNT(eitp__sensor_classes) && !status; i++) {
        if (list->sensors || eitp__sensor_classes[i].kind == EITP_SENSOR_TEMPERATURE)
            status = eitp__read_sensor_class(list, &eitp__sensor_classes[i], error);
    }
    return status;
}

/* ---- Thermometers ---- */

static void eitp__sensor_list_init(eitp__sensor_list *list, const eitp_host *host, eitp_sensor *sensors,
                                   eitp__thermometer *thermometers, size_t capacity) {
    list->host = host;
    list->sensors = sensors;
    list->thermometers = thermometers;
    list->capacity = capacity;
    list->count = 0;
    eitp__buffer_init(&list->text, host);
}

EITP__PRIVATE void eitp__thermometer_release(const eitp_host *host, eitp__thermometer *thermometer) {
    eitp__release_text(host, thermometer->path);
    thermometer->path = NULL;
}

EITP__PRIVATE eitp_status eitp__thermometers_list(const eitp_host *host, eitp__thermometer *thermometers,
                                                  size_t capacity, size_t *count, eitp_error *error) {
    eitp__sensor_list list;
    eitp_status status;
    eitp__sensor_list_init(&list, host, NULL, thermometers, capacity);
    status = eitp__read_sensor_classes(&list, error);
    eitp__buffer_release(&list.text);
    for (size_t i = 0; i < list.count && status; i++)
        eitp__thermometer_release(host, &thermometers[i]);
    *count = status ? 0 : list.count;
    return status;
}

/* Reads the first number after `before` in a file of the system; -1 if it is missing. */
static eitp_status eitp__read_system_number(const eitp_host *host, const char *path, const char *before, double *number,
                                            eitp_error *error) {
    const size_t size = strlen(before);
    eitp__buffer text;
    eitp_status status;
    eitp__buffer_init(&text, host);
    status = eitp__read_system_text(host, path, &text, error);
    *number = -1;
    if (!status && !strncmp(text.data, before, size)) {
        char *end;
        const double found = strtod(text.data + size, &end);
        *number = end > text.data + size && strchr(" \n", *end) ? found : -1;
    }
    eitp__buffer_release(&text);
    return status;
}

EITP__PRIVATE double eitp__thermometer_read(const eitp_host *host, const eitp__thermometer *thermometer) {
    double number;
    return eitp__read_system_number(host, thermometer->path, "", &number, NULL) ? 0 : 1e-3 * number;
}

/* ---- /proc ---- */

/* Parses "some avg10=1.53 avg60=...". */
EITP__PRIVATE eitp_status eitp__read_pressure_percent(const eitp_host *host, const char *resource, double *percent,
                                                      eitp_error *error) {
    char path[40];
    eitp_status status;
    snprintf(path, sizeof path, "/proc/pressure/%.10s", resource);
    status = eitp__read_system_number(host, path, "some avg10=", percent, error);
    if (!(*percent >= 0 && *percent <= 100))
        *percent = -1;
    return status;
}

EITP__PRIVATE eitp_status eitp__read_load(const eitp_host *host, double *load, eitp_error *error) {
    const eitp_status status = eitp__read_system_number(host, "/proc/loadavg", "", load, error);
    if (!(*load >= 0))
        *load = -1;
    return status;
}

static eitp_status eitp__add_pressure(eitp__sensor_list *list, const char *name, eitp_error *error) {
    double percent;
    eitp_status status = eitp__read_pressure_percent(list->host, name, &percent, error);
    if (!status && percent >= 0 && list->count < list->capacity)
        snprintf(eitp__add_sensor(list, EITP_SENSOR_PRESSURE, percent / 100)->name, 100, "%s", name);
    return status;
}

static eitp_status eitp__add_load(eitp__sensor_list *list, eitp_error *error) {
    double load;
    eitp_status status = eitp__read_load(list->host, &load, error);
    if (!status && load >= 0 && list->count < list->capacity)
        eitp__add_sensor(list, EITP_SENSOR_LOAD, load);
    return status;
}

eitp_status eitp_sensors_read(const eitp_host *host, eitp_sensor *sensors, size_t capacity, size_t *count,
                              eitp_error *error) {
    static const char *const pressures[] = {"cpu", "memory", "io"};
    eitp__sensor_list list;
    eitp_status status;
    if (!host || !sensors || !count)
        return eitp__fail_null(error, "eitp_sensors_read", "host, sensors and count");
    eitp__sensor_list_init(&list, host, sensors, NULL, capacity);
    status = eitp__read_sensor_classes(&list, error);
    for (size_t i = 0; i < EITP__COUNT(pressures) && !status; i++)
        status = eitp__add_pressure(&list, pressures[i], error);
    if (!status)
        status = eitp__add_load(&list, error);
    eitp__buffer_release(&list.text);
    if (!status)
        *count = list.count;
    return status;
}
