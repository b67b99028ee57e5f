/* Changing settings of a run that trains, from outside. */
#include "base/clock.h"
#include "base/files.h"
#include "base/setting_table.h"
#include "run/set_request.h"

#define EITP__SET_PAUSE 0.02 /* seconds between two looks for the answer */

/* A change of settings on its way to a run. */
typedef struct eitp__set_order {
    const eitp_host *host;
    const char *directory;
    char *request, *answer; /* paths */
    char id[EITP__SET_ID_SIZE];
    eitp__set_change changes[EITP__SET_CHANGES];
    size_t count, given; /* the first `given` are those of this call */
} eitp__set_order;

/* ---- The run ---- */

/* True if a process has the lock, and where that cannot be known. */
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
                          "no directory '%s'; name the output directory of a run that trains", order->directory);
    if (eitp__set_has_run(order))
        return EITP_OK;
    return eitp__fail(error, EITP_ERROR_ARGUMENT,
                      "no run trains in '%s', and %s is a setting of a run: give it to the run that resumes",
                      order->directory, order->changes[0].setting->name);
}

/* ---- The request ---- */

static eitp_status eitp__set_check(eitp__set_order *order, const eitp_setting_change *changes, size_t count,
                                   eitp_error *error) {
    size_t setting_count;
    const eitp_setting *settings = eitp_run_settings(&setting_count);
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
            status = eitp__setting_set_from_text(change->setting, change->value, &config, error);
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

/* Adds those of a request that the run has not looked at yet. */
static void eitp__set_join(eitp__set_order *order, const eitp_json *pending) {
    size_t setting_count, count = 0;
    const eitp_setting *settings = eitp_run_settings(&setting_count);
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
    status = text.failed ? eitp__fail_memory(error, text.size, "a change of settings")
                         : eitp__replace_file(order->host, order->request, text.data, text.size, error);
    eitp_json_release(pending);
    eitp__buffer_release(&text);
    return status;
}

/* ---- The answer ---- */

static void eitp__set_copy(const eitp_json *object, const char *name, char *text, size_t size) {
    const char *value = NULL;
    if (!eitp__json_get_text(object, name, &value, NULL) && value)
        snprintf(text, size, "%s", value);
}

/* Reads the answer if there is one to this request: returns 1, and *status is what the run says. */
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
        eitp__set_copy(change, "was", changes[i].was, sizeof changes[i].was);
        eitp__set_copy(change, "is", changes[i].is, sizeof changes[i].is);
    }
    if (is_own && !eitp__json_get_integer(root, "step", 0, INT64_MAX, step, NULL) &&
        !eitp__json_get_text(root, "error", &why, NULL) && why)
        *status =
            eitp__fail(error, EITP_ERROR_ARGUMENT, "the run in '%s' has refused the change: %s", order->directory, why);
    eitp_json_release(document);
    return is_own;
}

/* Waits for the answer; *step stays -1 if there is none in this time. */
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

/* A run that has ended looks at nothing. */
static eitp_status eitp__set_withdraw(const eitp__set_order *order, eitp_error *error) {
    const eitp_files *files = &order->host->files;
    if (eitp__set_has_run(order))
        return EITP_OK;
    files->remove(files->user, order->request);
    return eitp__fail(error, EITP_ERROR_ARGUMENT,
                      "the run in '%s' has ended without an answer; give %s to the run that resumes", order->directory,
                      order->changes[0].setting->name);
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
        order.request = eitp__set_path(host, directory, EITP__SET_REQUEST);
        order.answer = eitp__set_path(host, directory, EITP__SET_ANSWER);
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
