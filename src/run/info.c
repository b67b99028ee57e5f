#include "run/info.h"

#include "base/clock.h"
#include "base/files.h"
#include "base/json.h"
#include "base/machine.h"
#include "base/setting_table.h"
#include "base/system_text.h"
#include "records/history.h"
#include "records/values.h"
#include "run/directory.h"
#include "run/internal.h"
#include "train/trainer.h"
#include "train/trainer_settings.h"
#include "train/trainer_state.h"

#include <time.h>

/* ---- The process that trains ---- */

#define EITP__RUN_INFO_LIMIT ((size_t)1 << 24)

/* Reads the process that run.json names, and its host. */
static void eitp__process_read_json(const eitp_json *run, eitp_run_process *process, eitp__process_identity *identity,
                                    char *host, size_t size) {
    const eitp_json *recorded = eitp_json_member(run, "process");
    int64_t start_time = 0;
    eitp__json_get_integer(recorded, "pid", 1, INT64_MAX, &process->pid, NULL);
    eitp__json_get_integer(recorded, "start_time", 0, INT64_MAX, &start_time, NULL);
    eitp__json_get_integer(recorded, "step", 0, INT64_MAX, &process->step, NULL);
    eitp__json_get_integer(recorded, "saved_step", 0, INT64_MAX, &process->saved_step, NULL);
    eitp__json_get_number(recorded, "alive", 0, 1e12, &process->alive, NULL);
    eitp__json_copy_text(recorded, "state", process->recorded, sizeof process->recorded);
    eitp__json_copy_text(recorded, "message", process->message, sizeof process->message);
    identity->process = process->pid;
    identity->start_time = (uint64_t)start_time;
    eitp__json_copy_text(recorded, "boot_id", identity->boot, sizeof identity->boot);
    eitp__json_copy_text(eitp_json_member(run, "machine"), "host", host, size);
}

/* Finds the state of a process that has not recorded its end. */
static eitp_status eitp__process_find_state(const eitp_host *host, const eitp__process_identity *identity,
                                            const char *recorded_host, eitp_run_process_state *state,
                                            eitp_error *error) {
    eitp__process_identity own;
    char own_host[100];
    int is_alive = 0;
    eitp_status status = eitp__process_identity_read(host, &own, error);
    if (status)
        return status;
    eitp__host_name_read(host, own_host, sizeof own_host);
    if (*identity->boot && *own.boot && strcmp(identity->boot, own.boot)) {
        *state =
            *recorded_host && strcmp(recorded_host, own_host) ? EITP_RUN_PROCESS_ELSEWHERE : EITP_RUN_PROCESS_RESTARTED;
        return EITP_OK;
    }
    status = eitp__process_is_alive(host, identity, &is_alive, error);
    *state = is_alive ? EITP_RUN_PROCESS_ALIVE : EITP_RUN_PROCESS_VANISHED;
    return status;
}

eitp_status eitp_run_process_read(const eitp_host *host, const char *directory, eitp_run_process *process,
                                  eitp_error *error) {
    eitp_json_document *document = NULL;
    eitp__process_identity identity = EITP__ZERO;
    char *path, recorded_host[100] = "";
    eitp_status status;
    if (!host || !directory || !process)
        return eitp__fail_null(error, "eitp_run_process_read", "host, directory and process");
    memset(process, 0, sizeof *process);
    process->pid = process->step = process->saved_step = -1;
    path = eitp__join_path(host, directory, EITP__RUN_INFO_FILE);
    if (!path)
        return eitp__fail_memory(error, strlen(directory), "a path");
    status = eitp_json_read_file(host, path, EITP__RUN_INFO_LIMIT, &document, error);
    eitp__release_text(host, path);
    if (status)
        return status == EITP_ERROR_MEMORY ? status : EITP_OK;
    eitp__process_read_json(eitp_json_member(eitp_json_root(document), "run"), process, &identity, recorded_host,
                            sizeof recorded_host);
    eitp_json_release(document);
    if (!*process->recorded)
        return EITP_OK;
    process->state = EITP_RUN_PROCESS_ENDED;
    if (!strcmp(process->recorded, "running") || !strcmp(process->recorded, "paused"))
        return eitp__process_find_state(host, &identity, recorded_host, &process->state, error);
    return EITP_OK;
}

#define EITP__SIGN_INTERVAL 30 /* seconds between two updates of "alive" */

static eitp__run_info *eitp__run_info_of(const eitp_run *run) {
    return (eitp__run_info *)run->states[EITP__OBSERVER_INFO];
}

static void eitp__info_name(eitp__buffer *text, const char *name) {
    if (text->size && text->data[text->size - 1] != '{')
        eitp__buffer_add_text(text, ", ");
    eitp__buffer_format(text, "\"%s\": ", name);
}

/* Appends a string, which may be a file name, unless it is NULL or "". */
static void eitp__info_text(eitp__buffer *text, const char *name, const char *value) {
    if (!value || !*value)
        return;
    eitp__info_name(text, name);
    eitp__json_write_name(text, value);
}

static void eitp__info_integer(eitp__buffer *text, const char *name, uint64_t value) {
    eitp__info_name(text, name);
    eitp__buffer_format(text, "%llu", (unsigned long long)value);
}

/* ---- The run ---- */

static void eitp__info_start(const eitp_run *run, eitp__buffer *text) {
    const eitp_context *context = eitp__trainer_task(run->trainer)->context;
    char *directory = eitp__absolute_path(&run->host, run->directory);
    char *records = eitp__absolute_path(&run->host, eitp_run_records_directory(run));
    const time_t seconds = time(NULL);
    struct tm utc;
    char now[40] = "";
    if (gmtime_r(&seconds, &utc))
        strftime(now, sizeof now, "%Y-%m-%dT%H:%M:%SZ", &utc);
    eitp__info_text(text, "name", run->run_name);
    eitp__info_text(text, "notes", run->notes);
    eitp__info_text(text, "version", eitp_version());
    eitp__info_text(text, "build", eitp_build_info());
    eitp__info_text(text, "device", eitp_context_description(context));
    eitp__info_text(text, "numerics", eitp_context_numerics(context));
    eitp__info_text(text, "started", now);
    eitp__info_text(text, "directory", directory);
    eitp__info_text(text, "records", records);
    eitp__info_integer(text, "first_step", (uint64_t)run->report.start_step + 1);
    if (run->report.steps)
        eitp__info_integer(text, "last_step", (uint64_t)run->report.steps);
    eitp__info_text(text, "resumed_from", run->checkpoint);
    text->failed |= !directory || !records;
    eitp__release_text(&run->host, records);
    eitp__release_text(&run->host, directory);
}

/* Stores the value of the first line that starts with `name` in a file like /proc/cpuinfo, or "". */
static void eitp__find_system_value(const eitp_host *host, const char *path, const char *name, char *value,
                                    size_t size) {
    eitp__buffer text;
    const char *at = NULL;
    eitp__buffer_init(&text, host);
    *value = 0;
    if (!eitp__read_system_text(host, path, &text, NULL) && text.size)
        at = strstr(text.data, name);
    at = at ? at + strcspn(at, ":\n") : NULL;
    if (at && *at == ':') {
        at += 1 + strspn(at + 1, " \t");
        snprintf(value, size, "%.*s", (int)strcspn(at, "\n"), at);
    }
    eitp__buffer_release(&text);
}

static void eitp__info_machine(const eitp_run *run, eitp__buffer *text) {
    eitp_processor_info processors;
    eitp_memory_info memory;
    char line[200];
    eitp__host_name_read(&run->host, line, sizeof line);
    eitp__info_text(text, "host", line);
    eitp__find_system_value(&run->host, "/proc/cpuinfo", "model name", line, sizeof line);
    eitp__info_text(text, "processor", line);
    if (!eitp_processor_info_read(&run->host, &processors, NULL)) {
        eitp__info_integer(text, "processors", (uint64_t)processors.online);
        eitp__info_integer(text, "usable_processors", (uint64_t)processors.usable);
    }
    if (!eitp_memory_info_read(&run->host, &memory, NULL)) {
        eitp__info_integer(text, "memory_bytes", memory.total);
        eitp__info_integer(text, "usable_bytes", memory.usable);
    }
}

static void eitp__info_plan(const eitp_run *run, eitp__buffer *text) {
    const eitp_context *context = eitp__trainer_task(run->trainer)->context;
    const eitp_step_shape shape = eitp_trainer_shape(run->trainer);
    eitp__info_integer(text, "parameter_bytes",
                       eitp_context_variable_bytes(context, EITP_PARAMETER) +
                           eitp_context_variable_bytes(context, EITP_REMAINDER));
    eitp__info_integer(text, "gradient_bytes", eitp_context_variable_bytes(context, EITP_GRADIENT));
    eitp__info_integer(text, "optimizer_bytes", eitp_context_variable_bytes(context, EITP_OPTIMIZER));
    eitp__info_integer(text, "arena_bytes", eitp_context_arena_bytes(context));
    eitp__info_integer(text, "checkpoint_copy_bytes", run->config.async_save_bytes);
    eitp__info_integer(text, "batch_size", (uint64_t)shape.batch_size);
    eitp__info_integer(text, "grad_accum", (uint64_t)shape.grad_accum);
    eitp__info_integer(text, "micro_batches_per_pass", (uint64_t)shape.micro_batches_per_pass);
}

static void eitp__info_settings(const eitp_setting *settings, size_t count, const void *values, eitp__buffer *text) {
    for (size_t i = 0; i < count; i++) {
        if (settings[i].kind == EITP_SETTING_TEXT && !eitp__setting_text(&settings[i], values))
            continue;
        if ((settings[i].flags & EITP_SETTING_MINOR) && eitp_setting_number(&settings[i], values) == settings[i].value)
            continue;
        eitp__info_name(text, settings[i].name);
        eitp__setting_write(&settings[i], values, text);
    }
}

/* Appends the settings of trainer and run, for a program that has not added its configuration. */
static void eitp__info_configuration(const eitp_run *run, eitp__buffer *text) {
    size_t count;
    const eitp_setting *settings = eitp__trainer_setting_table(&count);
    eitp__info_settings(settings, count, eitp__trainer_config(run->trainer), text);
    settings = eitp__run_setting_table(&count);
    eitp__info_settings(settings, count, &run->config, text);
}

/* ---- Members added by the program ---- */

static eitp__info_member *eitp__info_find(eitp__run_info *info, const char *name) {
    for (size_t i = 0; i < info->count; i++) {
        if (!strcmp(info->members[i].name, name))
            return &info->members[i];
    }
    return NULL;
}

static eitp_status eitp__info_check(const eitp_run *run, const char *name, const char *value, eitp_error *error) {
    static const char *const reserved[] = {"name",     "notes",   "version",   "build",        "device",
                                           "numerics", "started", "directory", "first_step",   "last_step",
                                           "machine",  "plan",    "process",   "resumed_from", "records"};
    const size_t size = strlen(name);
    eitp_status status;
    if (run->trainer)
        return eitp__fail(error, EITP_ERROR_ARGUMENT,
                          "the run is already training; call eitp_run_add_info before eitp_run_train");
    if (!size || size >= EITP__INFO_NAME || size != strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_"))
        return eitp__fail(error, EITP_ERROR_ARGUMENT,
                          "invalid member name '%.80s' for run.json: 1 to %d lower-case letters, digits and _ are",
                          name, EITP__INFO_NAME - 1);
    for (size_t i = 0; i < EITP__COUNT(reserved); i++) {
        if (!strcmp(name, reserved[i]))
            return eitp__fail(error, EITP_ERROR_ARGUMENT, "run.json already has a member '%s'; choose another name",
                              name);
    }
    status = eitp__json_check(&run->host, value, error);
    return !status || status == EITP_ERROR_MEMORY
               ? status
               : eitp__fail_prefix(error, EITP_ERROR_ARGUMENT, "the value of '%s'", name);
}

eitp_status eitp_run_add_info(eitp_run *run, const char *name, const char *value, eitp_error *error) {
    eitp__run_info *info;
    eitp__info_member *member;
    eitp_status status;
    char *copy;
    if (!run || !name || !value)
        return eitp__fail_null(error, "eitp_run_add_info", "run, name and value");
    status = eitp__info_check(run, name, value, error);
    if (status)
        return status;
    info = eitp__run_info_of(run);
    member = eitp__info_find(info, name);
    if (!member && info->count == EITP__INFO_MEMBERS)
        return eitp__fail(error, EITP_ERROR_ARGUMENT, "run.json already has %d members of the program, the maximum",
                          EITP__INFO_MEMBERS);
    copy = eitp__copy_text(&run->host, value);
    if (!copy)
        return eitp__fail_memory(error, strlen(value), "the info of a run");
    if (!member) {
        member = &info->members[info->count++];
        snprintf(member->name, sizeof member->name, "%s", name);
    }
    eitp__release_text(&run->host, member->value);
    member->value = copy;
    return EITP_OK;
}

/* ---- The text ---- */

static void eitp__info_part(const eitp_run *run, const char *name, void (*add)(const eitp_run *run, eitp__buffer *text),
                            eitp__buffer *text) {
    eitp__buffer_format(text, ",\n\"%s\": {", name);
    add(run, text);
    eitp__buffer_add_text(text, "}");
}

/* Formats the file without "process". */
static eitp_status eitp__run_info_format(const eitp_run *run, eitp__run_info *info, eitp_error *error) {
    const eitp__info_member *configuration = eitp__info_find(info, "configuration");
    eitp__buffer *text = &info->text;
    eitp__buffer_clear(text);
    eitp__buffer_add_text(text, "{\"run\": {");
    eitp__info_start(run, text);
    eitp__info_part(run, "machine", eitp__info_machine, text);
    eitp__info_part(run, "plan", eitp__info_plan, text);
    for (size_t i = 0; i < info->count; i++) {
        const eitp__info_member *member = &info->members[i];
        if (member != configuration)
            eitp__buffer_format(text, ",\n\"%s\": %s", member->name, member->value);
    }
    info->run_size = text->size;
    eitp__buffer_add_text(text, "},\n\"configuration\": ");
    eitp__buffer_add_text(text, configuration ? configuration->value : "{");
    if (!configuration)
        eitp__info_configuration(run, text);
    eitp__buffer_add_text(text, configuration ? "}\n" : "}}\n");
    return text->failed ? eitp__fail_memory(error, text->size, EITP__RUN_INFO_FILE) : EITP_OK;
}

/* Formats the whole file, with the process and its state. */
static eitp_status eitp__sign_format(const eitp_run *run, eitp__run_info *info, const char *state, const char *message,
                                     eitp_error *error) {
    const eitp__process_identity *identity = &info->identity;
    const int64_t step = eitp_trainer_steps_done(run->trainer);
    const eitp__buffer *all = &info->text;
    eitp__buffer *text = &info->file.text;
    eitp__buffer_clear(text);
    eitp__buffer_add(text, all->data, info->run_size);
    eitp__buffer_format(text, ",\n\"process\": {\"pid\": %lld", (long long)identity->process);
    if (identity->start_time)
        eitp__info_integer(text, "start_time", identity->start_time);
    eitp__info_text(text, "boot_id", identity->boot);
    eitp__info_text(text, "state", state);
    eitp__info_integer(text, "step", (uint64_t)step);
    eitp__info_integer(text, "samples", eitp__trainer_samples(run->trainer, step));
    eitp__buffer_format(text, ", \"saved_step\": %lld, \"alive\": ", (long long)run->report.saved_step);
    eitp__record_write_time(text, eitp__time_of_day());
    eitp__info_text(text, "message", message);
    eitp__buffer_add_text(text, "}");
    eitp__buffer_add(text, all->data + info->run_size, all->size - info->run_size);
    return text->failed ? eitp__fail_memory(error, text->size, EITP__RUN_INFO_FILE) : EITP_OK;
}

/* ---- Updates of the process state ---- */

static void eitp__sign_give(eitp_run *run, eitp__run_info *info) {
    const double now = eitp__clock();
    if (now < info->next)
        return;
    info->next = now + EITP__SIGN_INTERVAL;
    if (info->text.size && eitp__replaced_file_is_idle(&info->file) &&
        !eitp__sign_format(run, info, eitp__run_is_held(run) ? "paused" : "running", NULL, NULL))
        eitp__replaced_file_submit(&info->file);
}

/* Replaces run.json durably. The first failure is reported; it does not end the run. */
static void eitp__run_info_store(eitp_run *run, eitp__run_info *info, const char *state, const char *message) {
    eitp_error error;
    eitp_status status = eitp__sign_format(run, info, state, message, &error);
    if (!status)
        status = eitp__replaced_file_store(&info->file, &error);
    if (status && !info->is_failing)
        eitp__run_notify(run, EITP_EVENT_WARNING, EITP_LOG_WARNING, 0,
                         "cannot update run.json: %s; each checkpoint has its own copy", error.message);
    info->is_failing = status != EITP_OK;
}

/* ---- The previous process ---- */

static void eitp__report_interrupted(eitp_run *run, const eitp_run_process *last) {
    const int is_restarted = last->state == EITP_RUN_PROCESS_RESTARTED;
    const time_t alive = (time_t)last->alive;
    /* The last update may be half a minute old: the checkpoint that this process resumed from may be newer. */
    const int64_t resumed = eitp_trainer_steps_done(run->trainer);
    struct tm utc;
    eitp_value values[3];
    char seen[40] = "unknown", message[300];
    values[0] = eitp__integer_value("last_step", last->step > resumed ? last->step : resumed);
    values[1] = eitp__number_value("last_time", last->alive);
    values[2] = eitp__boolean_value("machine_restarted", is_restarted);
    if (last->alive > 0 && gmtime_r(&alive, &utc))
        strftime(seen, sizeof seen, "%Y-%m-%d %H:%M:%S UTC", &utc);
    snprintf(message, sizeof message,
             is_restarted ? "the machine restarted during the previous run, after step %lld or "
                            "later; last seen %s"
                          : "the previous run was killed or crashed, after step %lld or later; "
                            "last seen %s",
             (long long)values[0].integer, seen);
    eitp__run_notify_values(run, EITP_EVENT_INTERRUPTED, is_restarted ? EITP_LOG_WARNING : EITP_LOG_INFO, 0, message,
                            values, EITP__COUNT(values));
}

/* Checks the state left by the previous process. The directory is locked, so it is no longer training. */
static eitp_status eitp__look_at_last_process(eitp_run *run, eitp_error *error) {
    eitp_run_process last;
    const eitp_status status = eitp_run_process_read(&run->host, run->directory, &last, error);
    if (!status && last.state != EITP_RUN_PROCESS_UNKNOWN && last.state != EITP_RUN_PROCESS_ENDED)
        eitp__report_interrupted(run, &last);
    return status;
}

/* ---- The observer ---- */

static eitp_status eitp__run_info_begin(eitp_run *run, void *state, eitp_error *error) {
    eitp__run_info *info = (eitp__run_info *)state;
    const eitp_host *host = &run->host;
    eitp_path_info file = EITP__ZERO;
    eitp_status status = eitp__process_identity_read(host, &info->identity, error);
    if (!status)
        status = eitp__replaced_file_init(&info->file, host, run->directory, EITP__RUN_INFO_FILE, error);
    if (status)
        return status;
    info->is_new = !eitp__path_info(host, info->file.path, &file, NULL) && file.kind == EITP_PATH_MISSING;
    eitp__buffer_init(&info->text, host);
    if (!info->is_new)
        status = eitp__look_at_last_process(run, error);
    if (!status)
        status = eitp__run_info_format(run, info, error);
    if (status)
        return status;
    eitp__run_info_store(run, info, "running", NULL);
    eitp__disk_reserve_create(run);
    info->next = eitp__clock() + EITP__SIGN_INTERVAL;
    return EITP_OK;
}

static eitp_status eitp__run_info_before_step(eitp_run *run, void *state, eitp_error *error) {
    (void)error;
    eitp__sign_give(run, (eitp__run_info *)state);
    return EITP_OK;
}

static void eitp__run_info_after_evaluation(eitp_run *run, void *state, eitp__decision *decision) {
    (void)decision;
    eitp__sign_give(run, (eitp__run_info *)state);
}

static eitp_status eitp__run_info_write_files(const eitp_run *run, const void *state, const char *directory,
                                              eitp_error *error) {
    const eitp__buffer *text = &((const eitp__run_info *)state)->text;
    char *path = eitp__join_path(&run->host, directory, EITP__RUN_INFO_FILE);
    const eitp_status status = path ? eitp__write_file(&run->host, path, text->data, text->size, error)
                                    : eitp__fail_memory(error, strlen(directory), "a path");
    eitp__release_text(&run->host, path);
    return status;
}

/* The new directory has no run.json and no reserved space. */
static void eitp__run_info_replaced(eitp_run *run, void *state) {
    eitp__run_info *info = (eitp__run_info *)state;
    info->is_new = 1;
    eitp__replaced_file_await(&info->file);
    eitp__run_info_store(run, info, "running", NULL);
    eitp__disk_reserve_create(run);
}

/* Called as the first `end`: releases the reserve, so that on a full disk the others can store their last records. */
static void eitp__run_info_end(eitp_run *run, void *state) {
    eitp__run_info *info = (eitp__run_info *)state;
    const char *early = run->report.end == EITP_RUN_EARLY_STOP ? run->decision.why : "";
    eitp__replaced_file_await(&info->file);
    if (!info->text.size)
        return;
    eitp__reserve_release(run);
    eitp__run_info_store(run, info, eitp_run_end_name(run->report.end),
                         run->failure.status ? run->failure.message : early);
}

/* Removes run.json if the run made no step. */
static void eitp__run_info_close(eitp_run *run, void *state) {
    eitp__run_info *info = (eitp__run_info *)state;
    const eitp_files *files = &run->host.files;
    if (run->stage != EITP__RUN_STARTED && info->is_new)
        files->remove(files->user, info->file.path);
    for (size_t i = 0; i < info->count; i++)
        eitp__release_text(&run->host, info->members[i].value);
    eitp__buffer_release(&info->text);
    eitp__replaced_file_release(&info->file);
}

EITP__PRIVATE void eitp__info_observer(eitp__observer *observer) {
    observer->state_size = sizeof(eitp__run_info);
    observer->begin = eitp__run_info_begin;
    observer->before_step = eitp__run_info_before_step;
    observer->after_evaluation = eitp__run_info_after_evaluation;
    observer->write_files = eitp__run_info_write_files;
    observer->directory_replaced = eitp__run_info_replaced;
    observer->end = eitp__run_info_end;
    observer->close = eitp__run_info_close;
}
