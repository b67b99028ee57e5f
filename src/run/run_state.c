#include "run/run_state.h"

#include "base/files.h"
#include "base/json.h"
#include "run/best.h"

#define EITP__RUN_STATE_FILE "run_state.json"
#define EITP__RUN_STATE_FORMAT "eitp run"
#define EITP__RUN_STATE_VERSION 1
#define EITP__RUN_STATE_LIMIT ((size_t)1 << 22)

/* ---- Writing ---- */

static void eitp__run_state_format(const eitp_run *run, int is_counted, eitp__buffer *text) {
    eitp__buffer_format(text, "{\n\"format\": \"%s\",\n\"version\": %d", EITP__RUN_STATE_FORMAT,
                        EITP__RUN_STATE_VERSION);
    EITP__EACH_OBSERVER (run, i, write) {
        const size_t before = text->size;
        size_t named;
        eitp__buffer_format(text, ",\n\"%s\": ", run->observers[i].name);
        named = text->size;
        run->observers[i].write(run, run->states[i], is_counted, text);
        text->size = text->size == named ? before : text->size; /* it has nothing to write */
    }
    eitp__buffer_add_text(text, "\n}\n");
}

EITP__PRIVATE eitp_status eitp__run_state_write(const eitp_run *run, int is_counted, const char *directory,
                                                eitp_error *error) {
    const eitp_host *host = &run->host;
    char *path = eitp__join_path(host, directory, EITP__RUN_STATE_FILE);
    eitp_status status;
    eitp__buffer text;
    eitp__buffer_init(&text, host);
    eitp__run_state_format(run, is_counted, &text);
    if (!path || text.failed)
        status = eitp__fail_memory(error, text.size, EITP__RUN_STATE_FILE);
    else
        status = eitp__write_file(host, path, text.data, text.size, error);
    eitp__buffer_release(&text);
    eitp__release_text(host, path);
    return status;
}

/* ---- Reading ---- */

/* Parses a checkpoint's run_state.json. *document is NULL if there is none. */
static eitp_status eitp__run_state_open(const eitp_host *host, const char *checkpoint, eitp_json_document **document,
                                        eitp_error *error) {
    eitp_path_info info = EITP__ZERO;
    char *path = eitp__join_path(host, checkpoint, EITP__RUN_STATE_FILE);
    eitp_status status = path ? eitp__path_info(host, path, &info, error)
                              : eitp__fail_memory(error, strlen(checkpoint), EITP__RUN_STATE_FILE);
    *document = NULL;
    if (!status && info.kind != EITP_PATH_MISSING)
        status = eitp__json_read_strict_file(host, path, EITP__RUN_STATE_LIMIT, document, error);
    eitp__release_text(host, path);
    return status;
}

static eitp_status eitp__run_state_check(const eitp_json *root, eitp_error *error) {
    const char *format = "";
    int64_t version = 0;
    eitp_status status = eitp__json_get_text(root, "format", &format, error);
    if (!status)
        status = eitp__json_get_integer(root, "version", 0, INT32_MAX, &version, error);
    if (!status && strcmp(format, EITP__RUN_STATE_FORMAT))
        status =
            eitp__fail(error, EITP_ERROR_FORMAT, "'format' must be '%s' (got '%s'); resume from another checkpoint",
                       EITP__RUN_STATE_FORMAT, format);
    if (!status && version != EITP__RUN_STATE_VERSION)
        status = eitp__fail(error, EITP_ERROR_UNSUPPORTED,
                            "unsupported version %lld (supported: %d); resume with the version that wrote it",
                            (long long)version, EITP__RUN_STATE_VERSION);
    return status;
}

static eitp_status eitp__run_state_parse(eitp_run *run, const eitp_json *root, eitp_error *error) {
    eitp_status status = eitp__run_state_check(root, error);
    EITP__EACH_OBSERVER (run, i, read) {
        const eitp__observer *observer = &run->observers[i];
        if (!status)
            status = observer->read(run, run->states[i], eitp_json_member(root, observer->name), error);
    }
    return status;
}

EITP__PRIVATE eitp_status eitp__run_state_read(eitp_run *run, eitp_error *error) {
    eitp_json_document *document;
    eitp_status status = eitp__run_state_open(&run->host, run->checkpoint, &document, error);
    if (!status && document) {
        status = eitp__run_state_parse(run, eitp_json_root(document), error);
        if (status)
            eitp__fail_prefix(error, status, "'%s/%s'", run->checkpoint, EITP__RUN_STATE_FILE);
    }
    eitp_json_release(document);
    return status;
}

EITP__PRIVATE int64_t eitp__run_state_best(const eitp_host *host, const char *checkpoint) {
    eitp_error ignored;
    eitp_json_document *document;
    const eitp_json *best = NULL;
    int64_t step = -1;
    if (!eitp__run_state_open(host, checkpoint, &document, &ignored) && document)
        best = eitp_json_member(eitp_json_root(document), "best");
    if (best)
        step = eitp__best_kept_step(best);
    eitp_json_release(document);
    return step;
}
