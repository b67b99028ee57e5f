/*
 * Changes of settings of a run while it trains. They are passed through files in its output directory, each written
 * completely and renamed. The run takes a request {"id": "1", "settings": {"log_every": "50"}} by renaming it, so that
 * the next request is neither lost nor mixed with it. The answer is {"id": "1", "step": 8, "settings": {"log_every":
 * {"was": "10", "is": "50"}}}, with "error" instead of "settings" if the request was refused.
 */
#include "run/set.h"

#include "base/clock.h"
#include "base/files.h"
#include "base/setting_table.h"
#include "run/internal.h"
#include "train/trainer.h"

enum { EITP__SET_ID_SIZE = 64, EITP__SET_LIMIT = 1 << 16 };

/* A setting of a table, and its value as a string. */
typedef struct eitp__set_change {
    const eitp_setting *setting;
    const char *value;
} eitp__set_change;

/* Fails, listing the settings that may change. */
static eitp_status eitp__set_fail_name(const eitp_setting *settings, size_t count, const char *name,
                                       eitp_error *error) {
    char list[400] = "";
    size_t at = 0;
    for (size_t i = 0; i < count && at < sizeof list; i++) {
        if (settings[i].flags & EITP_SETTING_LIVE)
            at += (size_t)snprintf(list + at, sizeof list - at, "%s%s", at ? ", " : "", settings[i].name);
    }
    return eitp__fail(error, EITP_ERROR_ARGUMENT, "unknown setting '%.40s' (choose from %s)", name, list);
}

/* Finds a setting that may change while a run trains. EITP_ERROR_ARGUMENT if the name is unknown or the setting may
   not change. */
static eitp_status eitp__set_find(const eitp_setting *settings, size_t count, const char *name,
                                  const eitp_setting **found, eitp_error *error) {
    for (size_t i = 0; i < count; i++) {
        if (!eitp__setting_has_name(settings[i].name, name))
            continue;
        *found = &settings[i];
        return settings[i].flags & EITP_SETTING_LIVE
                   ? EITP_OK
                   : eitp__fail(error, EITP_ERROR_ARGUMENT,
                                "%s cannot change while the run trains; stop the run, and resume it with another value",
                                settings[i].name);
    }
    return eitp__set_fail_name(settings, count, name, error);
}

/* ---- Files ---- */

/* Returns the value of a member as a string, or NULL if it is not a valid value of a setting. */
static const char *eitp__set_value(const eitp_json *member) {
    if (member->kind == EITP_JSON_BOOLEAN)
        return member->boolean ? "true" : "false";
    return member->kind == EITP_JSON_STRING || member->kind == EITP_JSON_NUMBER ? member->text : NULL;
}

/* Returns the id of a request or an answer, or "" if it has none. */
static const char *eitp__set_id(const eitp_json *root) {
    const eitp_json *id = eitp_json_member(root, "id");
    return id && id->kind == EITP_JSON_STRING && id->text_size < EITP__SET_ID_SIZE ? id->text : "";
}

/* Reads the changes of a request. `id` becomes empty if it has none. The document must outlive the changes. */
static eitp_status eitp__set_parse(const eitp_json *root, const eitp_setting *settings, size_t setting_count,
                                   eitp__set_change changes[EITP__SET_CHANGES], size_t *count, eitp_error *error) {
    const eitp_json *members = eitp_json_member(root, "settings");
    *count = 0;
    if (!members || members->kind != EITP_JSON_OBJECT || !members->count)
        return eitp__fail(error, EITP_ERROR_FORMAT, "missing object \"settings\" with names and values");
    if (members->count > EITP__SET_CHANGES)
        return eitp__fail(error, EITP_ERROR_FORMAT, "got %llu settings (maximum %d)",
                          (unsigned long long)members->count, EITP__SET_CHANGES);
    for (const eitp_json *member = members->first_child; member; member = member->next) {
        eitp__set_change *change = &changes[*count];
        if (eitp__set_find(settings, setting_count, member->name, &change->setting, error))
            return EITP_ERROR_ARGUMENT;
        change->value = eitp__set_value(member);
        if (!change->value)
            return eitp__fail(error, EITP_ERROR_FORMAT, "line %llu: '%s' must be a string, a number, true or false",
                              (unsigned long long)member->line, change->setting->name);
        ++*count;
    }
    return EITP_OK;
}

static void eitp__set_write_request(eitp__buffer *text, const char *id, const eitp__set_change *changes, size_t count) {
    eitp__buffer_format(text, "{\"id\": \"%s\", \"settings\": {", id);
    for (size_t i = 0; i < count; i++) {
        eitp__buffer_format(text, "%s\"%s\": ", i ? ", " : "", changes[i].setting->name);
        eitp__json_write_text(text, changes[i].value, strlen(changes[i].value));
    }
    eitp__buffer_add_text(text, "}}\n");
}

/* ---- The observer ---- */

#define EITP__SET_INTERVAL 1 /* seconds between checks */

static eitp__run_set *eitp__set_of(const eitp_run *run) {
    return (eitp__run_set *)run->states[EITP__OBSERVER_SET];
}

static eitp_status eitp__set_begin(eitp_run *run, void *state, eitp_error *error) {
    eitp__run_set *set = (eitp__run_set *)state;
    set->request = eitp__join_path(&run->host, run->directory, EITP__SET_REQUEST);
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

/* Answers a request. If the answer cannot be written, the caller of eitp_run_set gets none. */
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

/* Applies all changes of a request, or none. */
static eitp_status eitp__set_change_config(eitp_run *run, const eitp_json *root, eitp_error *error) {
    const eitp_run_config before = run->config;
    eitp_run_config changed = run->config;
    eitp__set_change changes[EITP__SET_CHANGES];
    size_t count;
    eitp_status status = eitp__set_parse(root, run->settings, run->setting_count, changes, &count, error);
    for (size_t i = 0; i < count && !status; i++)
        status = eitp_setting_set_text(changes[i].setting, changes[i].value, &changed, error);
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

/* Reads and applies the request at this path. */
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

/* Keeps a refused request. */
static void eitp__set_put_aside(eitp_run *run, const char *taken, const eitp_error *why) {
    char *refused = eitp__join_path(&run->host, run->directory, EITP__SET_REFUSED);
    const int is_kept = refused && !eitp__rename_path(&run->host, taken, refused, NULL);
    eitp__run_notify(run, EITP_EVENT_WARNING, EITP_LOG_WARNING, 0, "refused a change of settings: %s%s%s%s",
                     why->message, is_kept ? "; it is kept in '" : "", is_kept ? refused : "", is_kept ? "'" : "");
    eitp__release_text(&run->host, refused);
}

static eitp_status eitp__set_take(eitp_run *run, const char *request, eitp_error *error) {
    const eitp_files *files = &run->host.files;
    char *taken = eitp__join_path(&run->host, run->directory, EITP__SET_TAKEN);
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
        eitp__run_notify(run, EITP_EVENT_WARNING, EITP_LOG_WARNING, 0, "cannot change settings: %s; trying again",
                         error.message);
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

/* Refuses requests that come too late. */
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

/* ---- Callers ---- */

#define EITP__SET_PAUSE 0.02 /* seconds between two checks for the answer */

/* A request in progress. */
typedef struct eitp__set_order {
    const eitp_host *host;
    const char *directory;
    char *request, *answer; /* paths of the files */
    char id[EITP__SET_ID_SIZE];
    eitp__set_change changes[EITP__SET_CHANGES];
    size_t count, given; /* the first `given` come from this call */
} eitp__set_order;

/* ---- The run ---- */

/* True if a process has the lock, or if that cannot be determined. */
static int eitp__set_has_run(const eitp__set_order *order) {
    const eitp_files *files = &order->host->files;
    void *lock = NULL;
    const int code = files->lock ? files->lock(files->user, order->directory, &lock) : EWOULDBLOCK;
    if (!code)
        files->unlock(files->user, lock);
    return code != 0;
}

static eitp_status eitp__set_check_run(const eitp__set_order *order, eitp_error *error) {
    eitp_path_info info = EITP__ZERO;
    eitp_status status = eitp__path_info(order->host, order->directory, &info, error);
    if (status)
        return status;
    if (info.kind != EITP_PATH_DIRECTORY)
        return eitp__fail(error, EITP_ERROR_ARGUMENT,
                          "no directory '%s'; pass the output directory of a run that is training", order->directory);
    if (eitp__set_has_run(order))
        return EITP_OK;
    return eitp__fail(error, EITP_ERROR_ARGUMENT, "no run is training in '%s'; set %s when you resume it",
                      order->directory, order->changes[0].setting->name);
}

/* ---- The request ---- */

static eitp_status eitp__set_check(eitp__set_order *order, const eitp_setting_change *changes, size_t count,
                                   eitp_error *error) {
    size_t setting_count;
    const eitp_setting *settings = eitp__run_setting_table(&setting_count);
    eitp_run_config config = eitp_run_config_default();
    eitp_status status = EITP_OK;
    if (!count || count > EITP__SET_CHANGES)
        return eitp__fail(error, EITP_ERROR_ARGUMENT, "eitp_run_set takes 1 to %d changes (got %llu)",
                          EITP__SET_CHANGES, (unsigned long long)count);
    for (size_t i = 0; i < count && !status; i++) {
        eitp__set_change *change = &order->changes[i];
        if (!changes[i].name || !changes[i].value)
            return eitp__fail_null(error, "eitp_run_set", "name and value of a change");
        status = eitp__set_find(settings, setting_count, changes[i].name, &change->setting, error);
        change->value = changes[i].value;
        if (!status)
            status = eitp_setting_set_text(change->setting, change->value, &config, error);
    }
    order->count = order->given = count;
    return status;
}

static int eitp__set_has_setting(const eitp__set_order *order, const eitp_setting *setting) {
    for (size_t i = 0; i < order->count; i++) {
        if (order->changes[i].setting == setting)
            return 1;
    }
    return 0;
}

/* Adds the changes of a request that the run has not read yet. */
static void eitp__set_join(eitp__set_order *order, const eitp_json *pending) {
    size_t setting_count, count = 0;
    const eitp_setting *settings = eitp__run_setting_table(&setting_count);
    eitp__set_change changes[EITP__SET_CHANGES];
    eitp_error ignored;
    if (eitp__set_parse(pending, settings, setting_count, changes, &count, &ignored))
        return;
    for (size_t i = 0; i < count && order->count < EITP__SET_CHANGES; i++) {
        if (!eitp__set_has_setting(order, changes[i].setting))
            order->changes[order->count++] = changes[i];
    }
}

static eitp_status eitp__set_request(eitp__set_order *order, eitp_error *error) {
    eitp_json_document *pending = NULL;
    eitp_error ignored;
    eitp__buffer text;
    eitp_status status;
    eitp__buffer_init(&text, order->host);
    snprintf(order->id, sizeof order->id, "%.9f", eitp__time_of_day());
    if (!eitp__json_read_strict_file(order->host, order->request, EITP__SET_LIMIT, &pending, &ignored))
        eitp__set_join(order, eitp_json_root(pending));
    eitp__set_write_request(&text, order->id, order->changes, order->count);
    status = eitp__store_text(order->host, NULL, order->request, &text, 1, error);
    eitp_json_release(pending);
    return status;
}

/* ---- The answer ---- */

/* Reads the answer to this request, if there is one: returns 1, and sets *status to the result. */
static int eitp__set_is_answered(const eitp__set_order *order, eitp_setting_change *changes, int64_t *step,
                                 eitp_status *status, eitp_error *error) {
    eitp_json_document *document = NULL;
    const char *why = NULL;
    const eitp_json *root, *settings;
    eitp_error ignored;
    int is_own;
    if (eitp__json_read_strict_file(order->host, order->answer, EITP__SET_LIMIT, &document, &ignored))
        return 0;
    root = eitp_json_root(document);
    settings = eitp_json_member(root, "settings");
    is_own = !strcmp(eitp__set_id(root), order->id);
    for (size_t i = 0; i < order->given && is_own; i++) {
        const eitp_json *change = eitp_json_member(settings, order->changes[i].setting->name);
        eitp__json_copy_text(change, "was", changes[i].was, sizeof changes[i].was);
        eitp__json_copy_text(change, "is", changes[i].is, sizeof changes[i].is);
    }
    if (is_own && !eitp__json_get_integer(root, "step", 0, INT64_MAX, step, NULL) &&
        !eitp__json_get_text(root, "error", &why, NULL) && why)
        *status =
            eitp__fail(error, EITP_ERROR_ARGUMENT, "the run in '%s' refused the change: %s", order->directory, why);
    eitp_json_release(document);
    return is_own;
}

/* Waits for the answer; *step stays -1 if it does not arrive within this time. */
static eitp_status eitp__set_wait(const eitp__set_order *order, eitp_setting_change *changes, double seconds,
                                  int64_t *step, eitp_error *error) {
    const eitp_files *files = &order->host->files;
    eitp_status status = EITP_OK;
    double waited = 0;
    while (!eitp__set_is_answered(order, changes, step, &status, error)) {
        if (!(waited < seconds))
            return EITP_OK;
        eitp__wait(order->host, EITP__SET_PAUSE);
        waited += EITP__SET_PAUSE;
    }
    files->remove(files->user, order->answer);
    return status;
}

/* Withdraws the request if the run has ended and will not read it. */
static eitp_status eitp__set_withdraw(const eitp__set_order *order, eitp_error *error) {
    const eitp_files *files = &order->host->files;
    if (eitp__set_has_run(order))
        return EITP_OK;
    files->remove(files->user, order->request);
    return eitp__fail(error, EITP_ERROR_ARGUMENT, "the run in '%s' ended without an answer; set %s when you resume it",
                      order->directory, order->changes[0].setting->name);
}

eitp_status eitp_run_set(const eitp_host *host, const char *directory, eitp_setting_change *changes, size_t count,
                         double seconds, int64_t *step, eitp_error *error) {
    eitp__set_order order = EITP__ZERO;
    int64_t from = -1;
    eitp_status status;
    if (!host || !directory || (!changes && count))
        return eitp__fail_null(error, "eitp_run_set", "host, directory and changes");
    order.host = host;
    order.directory = directory;
    status = eitp__set_check(&order, changes, count, error);
    if (!status)
        status = eitp__set_check_run(&order, error);
    for (size_t i = 0; i < count && !status; i++)
        changes[i].was[0] = changes[i].is[0] = 0;
    if (!status) {
        order.request = eitp__join_path(host, directory, EITP__SET_REQUEST);
        order.answer = eitp__join_path(host, directory, EITP__SET_ANSWER);
        if (!order.request || !order.answer)
            status = eitp__fail_memory(error, strlen(directory), "a path");
    }
    if (!status)
        status = eitp__set_request(&order, error);
    if (!status)
        status = eitp__set_wait(&order, changes, seconds, &from, error);
    if (!status && from < 0)
        status = eitp__set_withdraw(&order, error);
    if (!status && step)
        *step = from;
    eitp__release_text(host, order.request);
    eitp__release_text(host, order.answer);
    return status;
}
