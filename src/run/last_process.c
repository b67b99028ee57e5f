#include "run/last_process.h"

#include "base/json.h"

#define EITP__RUN_INFO_LIMIT ((size_t)1 << 24)

static void eitp__last_process_text(const eitp__json *object, const char *name, char *text, size_t size) {
    const char *value = NULL;
    if (!eitp__json_get_text(object, name, &value, NULL) && value)
        snprintf(text, size, "%s", value);
}

EITP__PRIVATE eitp_status eitp__last_process_read(const eitp_host *host, const char *path, eitp__last_process *last,
                                                  eitp_error *error) {
    eitp__json_document *document = NULL;
    eitp_status status = eitp__json_read_file_with_names(host, path, EITP__RUN_INFO_LIMIT, &document, error);
    const eitp__json *process = NULL;
    int64_t start_time = 0;
    memset(last, 0, sizeof *last);
    if (!status)
        process = eitp__json_member(eitp__json_member(eitp__json_root(document), "run"), "process");
    eitp__json_get_integer(process, "pid", 0, INT64_MAX, &last->identity.process, NULL);
    eitp__json_get_integer(process, "start_time", 0, INT64_MAX, &start_time, NULL);
    last->identity.start_time = (uint64_t)start_time;
    eitp__json_get_integer(process, "step", 0, INT64_MAX, &last->step, NULL);
    eitp__json_get_number(process, "alive", 0, 1e12, &last->alive, NULL);
    eitp__last_process_text(process, "boot_id", last->identity.boot, sizeof last->identity.boot);
    eitp__last_process_text(process, "state", last->state, sizeof last->state);
    eitp__json_release(document);
    return status == EITP_ERROR_MEMORY ? status : EITP_OK;
}

EITP__PRIVATE int eitp__last_process_is_open(const eitp__last_process *last) {
    return !strcmp(last->state, "running") || !strcmp(last->state, "paused");
}
