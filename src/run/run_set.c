/* The observer of changes of settings: looks for a request, once a second, and makes it before the next step. */
#include "base/clock.h"
#include "base/files.h"
#include "base/setting_table.h"
#include "run/events.h"
#include "run/set_request.h"
#include "train/trainer.h"

#define EITP__SET_INTERVAL 1 /* seconds between looks */

static eitp__run_set *eitp__set_of(const eitp_run *run) {
    return (eitp__run_set *)run->states[EITP__OBSERVER_SET];
}

static eitp_status eitp__set_begin(eitp_run *run, void *state, eitp_error *error) {
    eitp__run_set *set = (eitp__run_set *)state;
    set->request = eitp__set_path(&run->host, run->directory, EITP__SET_REQUEST);
    return set->request ? eitp__replaced_file_init(&set->answer, &run->host, run->directory, EITP__SET_ANSWER, error)
                        : eitp__fail_memory(error, strlen(run->directory), "a path");
}

/* ---- The answer ---- */

static void eitp__set_add_text(eitp__buffer *text, const char *value) {
    eitp__json_write_text(text, value, strlen(value));
}

static void eitp__set_add_change(eitp__buffer *text, const eitp_setting *setting, const eitp_run_config *before,
                                 const eitp_run_config *now) {
    char was[64], is[64];
    eitp_setting_format(setting, before, was, sizeof was);
    eitp_setting_format(setting, now, is, sizeof is);
    eitp__buffer_format(text, "\"%s\": {\"was\": ", setting->name);
    eitp__set_add_text(text, was);
    eitp__buffer_add_text(text, ", \"is\": ");
    eitp__set_add_text(text, is);
    eitp__buffer_add_text(text, "}");
}

/* Whoever waits for an answer that cannot be written is told that there is none. */
static void eitp__set_answer(eitp_run *run, const char *id, const eitp__set_change *changes, size_t count,
                             const eitp_run_config *before, const eitp_error *why) {
    eitp__replaced_file *file = &eitp__set_of(run)->answer;
    eitp__buffer *text = &file->text;
    eitp__buffer_clear(text);
    eitp__buffer_add_text(text, "{\"id\": ");
    eitp__set_add_text(text, id);
    eitp__buffer_format(text, ", \"step\": %lld, ", (long long)eitp_trainer_steps_done(run->trainer) + 1);
    eitp__buffer_add_text(text, why ? "\"error\": " : "\"settings\": {");
    if (why)
        eitp__set_add_text(text, why->message);
    for (size_t i = 0; i < count && !why; i++) {
        eitp__buffer_add_text(text, i ? ", " : "");
        eitp__set_add_change(text, changes[i].setting, before, &run->config);
    }
    eitp__buffer_add_text(text, why ? "}\n" : "}}\n");
    eitp__replaced_file_write(file, NULL);
}

/* ---- Changing ---- */

static void eitp__set_notify(eitp_run *run, const eitp_setting *setting, const eitp_run_config *before) {
    char was[64], is[64], message[200];
    eitp_value values[3];
    if (eitp__setting_equal(setting, before, &run->config))
        return;
    eitp_setting_format(setting, before, was, sizeof was);
    eitp_setting_format(setting, &run->config, is, sizeof is);
    values[0] = eitp__text_value("name", setting->name);
    values[1] = eitp__text_value("was", was);
    values[2] = eitp__text_value("is", is);
    snprintf(message, sizeof message, "%s: %s -> %s from step %lld", setting->name, was, is,
             (long long)eitp_trainer_steps_done(run->trainer) + 1);
    eitp__run_notify_values(run, EITP_EVENT_SET, EITP_LOG_INFO, 0, message, values, EITP__COUNT(values));
}

/* Makes all changes of a request, or none. */
static eitp_status eitp__set_change_config(eitp_run *run, const eitp_json *root, eitp_error *error) {
    const eitp_run_config before = run->config;
    eitp_run_config changed = run->config;
    eitp__set_change changes[EITP__SET_CHANGES];
    size_t count;
    eitp_status status = eitp__set_parse(root, run->settings, run->setting_count, changes, &count, error);
    for (size_t i = 0; i < count && !status; i++)
        status = eitp__setting_set_from_text(changes[i].setting, changes[i].value, &changed, error);
    if (!status && run->is_ending)
        status = eitp__fail(error, EITP_ERROR_ARGUMENT, "the run has ended");
    if (status)
        return status;
    run->config = changed;
    eitp__set_answer(run, eitp__set_id(root), changes, count, &before, NULL);
    for (size_t i = 0; i < count; i++)
        eitp__set_notify(run, changes[i].setting, &before);
    return EITP_OK;
}

/* Reads and makes the request at this path. */
static eitp_status eitp__set_follow(eitp_run *run, const char *path, eitp_error *error) {
    eitp_json_document *document = NULL;
    eitp_status status = eitp__json_read_strict_file(&run->host, path, EITP__SET_LIMIT, &document, error);
    if (status)
        return status;
    status = eitp__set_change_config(run, eitp_json_root(document), error);
    if (status)
        eitp__set_answer(run, eitp__set_id(eitp_json_root(document)), NULL, 0, NULL, error);
    eitp_json_release(document);
    return status;
}

/* Keeps what was refused. */
static void eitp__set_put_aside(eitp_run *run, const char *taken, const eitp_error *why) {
    char *refused = eitp__set_path(&run->host, run->directory, EITP__SET_REFUSED);
    const int is_kept = refused && !eitp__rename_path(&run->host, taken, refused, NULL);
    eitp__run_notify(run, EITP_EVENT_WARNING, EITP_LOG_WARNING, 0, "a change of settings was refused: %s%s%s%s",
                     why->message, is_kept ? "; it is kept in '" : "", is_kept ? refused : "", is_kept ? "'" : "");
    eitp__release_text(&run->host, refused);
}

static eitp_status eitp__set_take(eitp_run *run, const char *request, eitp_error *error) {
    const eitp_files *files = &run->host.files;
    char *taken = eitp__set_path(&run->host, run->directory, EITP__SET_TAKEN);
    eitp_error why;
    eitp_status status = taken ? eitp__rename_path(&run->host, request, taken, error)
                               : eitp__fail_memory(error, strlen(request), "a path");
    if (!status && eitp__set_follow(run, taken, &why))
        eitp__set_put_aside(run, taken, &why);
    else if (!status)
        files->remove(files->user, taken);
    eitp__release_text(&run->host, taken);
    return status;
}

static void eitp__set_look(eitp_run *run, eitp__run_set *set) {
    const eitp_files *files = &run->host.files;
    eitp_path_info info = EITP__ZERO;
    eitp_error error;
    eitp_status status;
    if (!set->request || files->info(files->user, set->request, &info) || info.kind != EITP_PATH_FILE)
        return;
    status = eitp__set_take(run, set->request, &error);
    if (status && !set->has_failed)
        eitp__run_notify(run, EITP_EVENT_WARNING, EITP_LOG_WARNING, 0,
                         "a change of settings cannot be made: %s; the run tries again", error.message);
    set->has_failed = status != EITP_OK;
}

static eitp_status eitp__set_before_step(eitp_run *run, void *state, eitp_error *error) {
    eitp__run_set *set = (eitp__run_set *)state;
    const double now = eitp__clock();
    (void)error;
    if (now < set->look_at)
        return EITP_OK;
    set->look_at = now + EITP__SET_INTERVAL;
    eitp__set_look(run, set);
    return EITP_OK;
}

/* Says what comes too late. */
static void eitp__set_end(eitp_run *run, void *state) {
    eitp__run_set *set = (eitp__run_set *)state;
    eitp__set_look(run, set);
    eitp__release_text(&run->host, set->request);
    set->request = NULL;
    eitp__replaced_file_release(&set->answer);
}

EITP__PRIVATE void eitp__set_observer(eitp__observer *observer) {
    observer->state_size = sizeof(eitp__run_set);
    observer->begin = eitp__set_begin;
    observer->before_step = eitp__set_before_step;
    observer->end = eitp__set_end;
}
