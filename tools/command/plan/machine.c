#include "plan/machine.h"

#include "files.h"

#include <sys/utsname.h>
#include <unistd.h>

enum { SMALL_TEXT = 65536 };

/* Reads the first line of a small file and strips white space; "" if it cannot be read. */
static void read_line(const char *path, char *line, size_t size) {
    text_buffer content = {NULL, 0, 0};
    char *found = files_of_system(path);
    eitp_error ignored;
    *line = 0;
    if (!files_read(found, SMALL_TEXT, &content, &ignored) && content.data) {
        const char *begin = content.data + strspn(content.data, " \t");
        size_t length = strcspn(begin, "\n");
        while (length && strchr(" \t\r", begin[length - 1]))
            length--;
        snprintf(line, size, "%.*s", (int)length, begin);
    }
    free(found);
    text_release(&content);
}

static void read_line_in(const char *directory, const char *name, char *line, size_t size) {
    char *path = files_join(directory, name);
    read_line(path, line, size);
    free(path);
}

/* Finds the value after `label` and a colon in text such as /proc/cpuinfo; "" without such a line. */
static void find_value(const char *text, const char *label, char *value, size_t size) {
    const char *line = text, *colon;
    *value = 0;
    while (line && strncmp(line, label, strlen(label)))
        line = (line = strchr(line, '\n')) != NULL ? line + 1 : NULL;
    colon = line ? strchr(line, ':') : NULL;
    if (colon && (size_t)(colon - line) < strcspn(line, "\n")) {
        colon += 1 + strspn(colon + 1, " \t");
        snprintf(value, size, "%.*s", (int)strcspn(colon, "\n"), colon);
    }
}

/* ---- The processor ---- */

void machine_processor_name(char *name, size_t size) {
    enum { LARGEST_LIST = 16 << 20 };
    text_buffer content = {NULL, 0, 0};
    char *path = files_of_system("/proc/cpuinfo");
    struct utsname system;
    eitp_error ignored;
    *name = 0;
    if (!files_read(path, LARGEST_LIST, &content, &ignored) && content.data)
        find_value(content.data, "model name", name, size);
    free(path);
    text_release(&content);
    if (!*name)
        snprintf(name, size, "%s", uname(&system) < 0 ? "?" : system.machine);
}

/* Parses "48K", "32768K", "1M". */
static int64_t parse_cache_size(const char *text) {
    char *unit;
    const int64_t number = strtoll(text, &unit, 10);
    return number * (*unit == 'K' ? 1024 : *unit == 'M' ? 1048576 : 1);
}

size_t machine_caches(machine_cache caches[MACHINE_CACHES]) {
    size_t count = 0;
    for (int i = 0; i < MACHINE_CACHES; i++) {
        machine_cache *cache = &caches[count];
        char directory[80], line[40];
        snprintf(directory, sizeof directory, "/sys/devices/system/cpu/cpu0/cache/index%d", i);
        read_line_in(directory, "size", line, sizeof line);
        cache->bytes = parse_cache_size(line);
        read_line_in(directory, "level", line, sizeof line);
        cache->level = atoi(line);
        read_line_in(directory, "type", cache->type, sizeof cache->type);
        count += cache->bytes > 0;
    }
    return count;
}

/* ---- Lists of devices ---- */

/* The names in a directory, sorted. */
typedef struct name_list {
    char *names[128];
    size_t count;
} name_list;

static int keep_name(void *user, const char *name) {
    name_list *list = (name_list *)user;
    if (list->count < COMMAND_COUNT(list->names))
        list->names[list->count++] = command_copy(name);
    return 0;
}

static int compare_names(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static void list_names(const char *directory, name_list *list) {
    const eitp_host host = command_host();
    list->count = 0;
    host.files.list(host.files.user, directory, keep_name, list);
    if (list->count)
        qsort(list->names, list->count, sizeof *list->names, compare_names);
}

static void release_names(name_list *list) {
    for (size_t i = 0; i < list->count; i++)
        free(list->names[i]);
}

/* ---- GPUs ---- */

#define NVIDIA_DEVICES "/proc/driver/nvidia/gpus"

static const struct {
    unsigned long number;
    const char *name;
} vendors[] = {{0x10de, "NVIDIA"}, {0x1002, "AMD"}, {0x8086, "Intel"}};

/* Initializes a GPU with a known address and nothing else. */
static machine_gpu *begin_gpu(machine_gpu *gpu, const char *address) {
    memset(gpu, 0, sizeof *gpu);
    snprintf(gpu->address, sizeof gpu->address, "%s", address);
    gpu->free = -1;
    gpu->temperature = gpu->slowdown_temperature = (double)NAN;
    return gpu;
}

/* Reads the version of NVIDIA's driver: the first word of its description that starts with a digit and has a dot. */
static void read_nvidia_version(char *version, size_t size) {
    char line[400];
    const char *at = line;
    read_line("/proc/driver/nvidia/version", line, sizeof line);
    *version = 0;
    for (at += strspn(at, " \t"); *at && !*version; at += strspn(at, " \t")) {
        const size_t length = strcspn(at, " \t");
        if (strchr("0123456789", *at) && memchr(at, '.', length))
            snprintf(version, size, "%.*s", (int)length, at);
        at += length;
    }
}

/* Lists the GPUs of NVIDIA's driver, also in containers that hide the PCI bus. */
static size_t list_nvidia(machine_gpu gpus[MACHINE_GPUS]) {
    char version[60], *devices = files_of_system(NVIDIA_DEVICES);
    name_list list;
    size_t count = 0;
    read_nvidia_version(version, sizeof version);
    list_names(devices, &list);
    for (size_t i = 0; i < list.count && count < MACHINE_GPUS; i++) {
        char *path = command_format("%s/%s/information", devices, list.names[i]);
        text_buffer content = {NULL, 0, 0};
        eitp_error ignored;
        machine_gpu *gpu = begin_gpu(&gpus[count++], list.names[i]);
        if (!files_read(path, SMALL_TEXT, &content, &ignored) && content.data)
            find_value(content.data, "Model", gpu->name, sizeof gpu->name);
        if (!*gpu->name)
            snprintf(gpu->name, sizeof gpu->name, "NVIDIA %.80s", list.names[i]);
        snprintf(gpu->driver, sizeof gpu->driver, "nvidia%s%s", *version ? " " : "", version);
        text_release(&content);
        free(path);
    }
    release_names(&list);
    free(devices);
    return count;
}

/* Reads the driver of a device, with its version if the module reports it. */
static void read_driver(const char *device, char *driver, size_t size) {
    char *link = files_join(device, "driver"), *target = realpath(link, NULL), *module, version[60];
    const char *slash = target ? strrchr(target, '/') : NULL;
    *driver = 0;
    if (slash) {
        module = files_join("/sys/module", slash + 1);
        read_line_in(module, "version", version, sizeof version);
        snprintf(driver, size, "%.30s%s%.40s", slash + 1, *version ? " " : "", version);
        free(module);
    }
    free(target);
    free(link);
}

/* Reads a PCI device. Returns 0 if it is not for display or computing, or from another vendor, such as virtual
   displays. */
static int read_pci_gpu(const char *device, const char *address, machine_gpu *gpu) {
    char line[60];
    unsigned long kind, vendor;
    size_t i = 0;
    read_line_in(device, "class", line, sizeof line);
    kind = strtoul(line, NULL, 16) >> 16;
    read_line_in(device, "vendor", line, sizeof line);
    vendor = strtoul(line, NULL, 16);
    while (i < COMMAND_COUNT(vendors) && vendors[i].number != vendor)
        i++;
    /* Class 3: display; 0x12: processing accelerators. */
    if (i == COMMAND_COUNT(vendors) || (kind != 0x03 && kind != 0x12))
        return 0;
    begin_gpu(gpu, address);
    read_line_in(device, "device", line, sizeof line);
    snprintf(gpu->name, sizeof gpu->name, "%s %04lx:%04lx", vendors[i].name, vendor, strtoul(line, NULL, 16));
    read_driver(device, gpu->driver, sizeof gpu->driver);
    read_line_in(device, "mem_info_vram_total", line, sizeof line);
    gpu->bytes = strtoll(line, NULL, 10);
    return 1;
}

/* Returns the GPU with this address, or a new one; NULL if the array is full. */
static machine_gpu *find_gpu(machine_gpu gpus[MACHINE_GPUS], size_t *count, const char *address) {
    for (size_t i = 0; i < *count; i++) {
        if (!strcmp(gpus[i].address, address))
            return &gpus[i];
    }
    return *count < MACHINE_GPUS ? begin_gpu(&gpus[(*count)++], address) : NULL;
}

/* Adds information from NVIDIA's driver library, also about GPUs that /proc and /sys do not list. Returns the new
   number of GPUs. */
static size_t add_figures(machine_gpu gpus[MACHINE_GPUS], size_t count) {
    eitp_gpu *read = (eitp_gpu *)command_allocate(MACHINE_GPUS * sizeof *read);
    eitp_error ignored;
    size_t read_count = 0;
    if (eitp_gpus_read(0, read, MACHINE_GPUS, &read_count, &ignored))
        read_count = 0;
    for (size_t i = 0; i < read_count; i++) {
        machine_gpu *gpu = find_gpu(gpus, &count, read[i].address);
        if (!gpu)
            continue;
        if (!*gpu->name)
            snprintf(gpu->name, sizeof gpu->name, "%s", *read[i].name ? read[i].name : "NVIDIA");
        if (!*gpu->driver)
            snprintf(gpu->driver, sizeof gpu->driver, "nvidia%s%s", *read[i].driver ? " " : "", read[i].driver);
        if (read[i].memory_total > 0)
            gpu->bytes = (int64_t)read[i].memory_total;
        if (read[i].memory_free >= 0)
            gpu->free = (int64_t)read[i].memory_free;
        gpu->temperature = read[i].temperature;
        gpu->slowdown_temperature = read[i].slowdown_temperature;
    }
    free(read);
    return count;
}

int machine_has_nvidia(void) {
    char *devices = files_of_system(NVIDIA_DEVICES);
    const int has = files_info(devices).kind == EITP_PATH_DIRECTORY;
    free(devices);
    return has;
}

size_t machine_gpus(machine_gpu gpus[MACHINE_GPUS]) {
    char *bus = files_of_system("/sys/bus/pci/devices"), *nvidia = files_of_system(NVIDIA_DEVICES);
    size_t count = list_nvidia(gpus);
    name_list list;
    list_names(bus, &list);
    for (size_t i = 0; i < list.count && count < MACHINE_GPUS; i++) {
        char *device = files_join(bus, list.names[i]), *listed = files_join(nvidia, list.names[i]);
        if (files_info(listed).kind == EITP_PATH_MISSING)
            count += (size_t)read_pci_gpu(device, list.names[i], &gpus[count]);
        free(listed);
        free(device);
    }
    release_names(&list);
    free(nvidia);
    free(bus);
    return add_figures(gpus, count);
}
