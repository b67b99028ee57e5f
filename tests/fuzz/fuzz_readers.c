/*
 * Fuzzes the commands that read runs: report, logs, doctor and monitor. An input consists of the files of an output
 * directory, separated by U+001E: run.json, summary.jsonl, metrics.jsonl, evaluations.jsonl, logs/supervisor.json. Exit
 * code 1 refuses a run. The first inputs, which include the seeds and an input tried alone, go through all readers.
 * Each later input goes through one, chosen by its bytes, which gives ten times as many inputs a second.
 */
#include "command.h"

#include <sys/stat.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { SEPARATOR = 0x1E, MOST_ARGUMENTS = 4, MOST_PATH = 200, FIRST_INPUTS = 64 };

static const char *const files[] = {"run.json", "summary.jsonl", "metrics.jsonl", "evaluations.jsonl",
                                    "logs/supervisor.json"};

#define RUN "" /* the output directory */

static const struct {
    int (*call)(int count, char **arguments);
    const char *arguments[MOST_ARGUMENTS];
} readers[] = {{command_report, {RUN}},
               {command_report, {RUN, "--json"}},
               {command_report, {RUN, "--bottleneck"}},
               {command_report, {RUN, "--trend", "--json"}},
               {command_report, {"--compare", RUN, RUN}},
               {command_logs, {RUN}},
               {command_logs, {RUN, "--json"}},
               {command_logs, {RUN, RUN}},
               {command_doctor, {RUN}},
               {command_doctor, {RUN, "--json"}},
               {command_monitor, {RUN, "--once"}},
               {command_monitor, {RUN, "--json"}}};

static char root[MOST_PATH / 2], run[MOST_PATH];

static void require(int condition, const char *what) {
    if (!condition) {
        fprintf(stderr, "fuzz_readers: %s\n", what);
        abort();
    }
}

static void remove_directory(void) {
    char command[MOST_PATH + 10];
    snprintf(command, sizeof command, "rm -rf '%s'", root);
    require(!system(command), "cannot remove the directory");
}

static void make_directory(const char *name) {
    char path[MOST_PATH];
    snprintf(path, sizeof path, "%s/%s", root, name);
    require(!mkdir(path, 0777), "cannot create a directory");
}

/* Creates an output directory, and a machine without a kernel log. The sanitizers write to the descriptor of standard
   error, the command to these streams. */
static void begin(void) {
    const char *parent = getenv("TMPDIR");
    FILE *nothing = fopen("/dev/null", "w");
    snprintf(root, sizeof root, "%.60s/fuzz_readers.XXXXXX", parent ? parent : "/tmp");
    require(nothing && mkdtemp(root), "cannot create a directory");
    snprintf(run, sizeof run, "%s/run", root);
    make_directory("run");
    make_directory("run/logs");
    make_directory("dev");
    make_directory("dev/kmsg");
    setenv("EITP_SYSTEM_ROOT", root, 1);
    atexit(remove_directory);
    stdout = nothing;
    stderr = nothing;
}

static void write_file(const char *name, const uint8_t *data, size_t size) {
    char path[MOST_PATH + 40];
    FILE *file;
    snprintf(path, sizeof path, "%s/%s", run, name);
    file = fopen(path, "wb");
    require(file && fwrite(data, 1, size, file) == size && !fclose(file), "cannot write");
}

static void write_files(const uint8_t *data, size_t size) {
    for (size_t i = 0; i < COMMAND_COUNT(files); i++) {
        const uint8_t *end = size ? (const uint8_t *)memchr(data, SEPARATOR, size) : NULL;
        const size_t length = end ? (size_t)(end - data) : size;
        write_file(files[i], data, length);
        data += length + (end != NULL);
        size -= length + (end != NULL);
    }
}

static void read_run(size_t reader) {
    char arguments[MOST_ARGUMENTS][MOST_PATH], *list[MOST_ARGUMENTS + 1];
    int count = 0, code;
    for (; count < MOST_ARGUMENTS && readers[reader].arguments[count]; count++) {
        const char *argument = readers[reader].arguments[count];
        snprintf(arguments[count], MOST_PATH, "%s", *argument ? argument : run);
        list[count] = arguments[count];
    }
    list[count] = NULL;
    code = readers[reader].call(count, list);
    require(code == COMMAND_FINISHED || code == COMMAND_WRONG, "another exit code");
}

/* FNV-1a */
static uint32_t hash(const uint8_t *data, size_t size) {
    uint32_t value = 2166136261u;
    for (size_t i = 0; i < size; i++)
        value = (value ^ data[i]) * 16777619u;
    return value;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static int inputs;
    if (!*run)
        begin();
    write_files(data, size);
    if (inputs < FIRST_INPUTS)
        for (size_t i = 0; i < COMMAND_COUNT(readers); i++)
            read_run(i);
    else
        read_run(hash(data, size) % COMMAND_COUNT(readers));
    inputs += inputs < FIRST_INPUTS;
    return 0;
}
