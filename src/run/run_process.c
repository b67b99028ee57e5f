#include "run/history.h"

#include "base/json.h"
#include "base/process_identity.h"
#include "run/run_info.h"

#define EITP__RUN_INFO_LIMIT ((size_t)1 << 24)

static void eitp__process_text(const eitp_json *object, const char *name, char *text, size_t size) {
    const char *value = NULL;
    if (!eitp__json_get_text(object, name, &value, NULL) && value)
        snprintf(text, size, "%s", value);
}

/* The process that run.json names, and its host. */
static void eitp__process_read_json(const eitp_json *run, eitp_run_process *process, eitp__process_identity *identity,
                                    char *host, size_t size) {
    const eitp_json *recorded = eitp_json_member(run, "process");
    int64_t start_time = 0;
    eitp__json_get_integer(recorded, "pid", 1, INT64_MAX, &process->pid, NULL);
    eitp__json_get_integer(recorded, "start_time", 0, INT64_MAX, &start_time, NULL);
    eitp__json_get_integer(recorded, "step", 0, INT64_MAX, &process->step, NULL);
    eitp__json_get_integer(recorded, "saved_step", 0, INT64_MAX, &process->saved_step, NULL);
    eitp__json_get_number(recorded, "alive", 0, 1e12, &process->alive, NULL);
    eitp__process_text(recorded, "state", process->recorded, sizeof process->recorded);
    eitp__process_text(recorded, "message", process->message, sizeof process->message);
    identity->process = process->pid;
    identity->start_time = (uint64_t)start_time;
    eitp__process_text(recorded, "boot_id", identity->boot, sizeof identity->boot);
    eitp__process_text(eitp_json_member(run, "machine"), "host", host, size);
}

/* The state of a process that has not recorded its end. */
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
