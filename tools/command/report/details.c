#include "report/details.h"

#include "files.h"

enum { MOST_BYTES = 4 << 20, MOST_EVALUATIONS = 64, MOST_BEST_BYTES = 1 << 20 };

/* Reads the last `MOST_BYTES` of a file. */
static int read_end(const char *path, text_buffer *content) {
    const eitp_host host = command_host();
    uint64_t size = 0, offset;
    void *file = NULL;
    size_t done = 0;
    char *bytes;
    int code;
    if (host.files.open(host.files.user, path, EITP_FILE_READ, &file))
        return 0; /* missing, or reported by recorded_run_open */
    code = host.files.size(host.files.user, file, &size);
    offset = size > MOST_BYTES ? size - MOST_BYTES : 0;
    bytes = (char *)command_allocate((size_t)(size - offset) + 1);
    if (!code)
        code = host.files.read(host.files.user, file, offset, bytes, (size_t)(size - offset), &done);
    host.files.close(host.files.user, file);
    if (!code) {
        const char *first = offset ? (const char *)memchr(bytes, '\n', done) : bytes;
        if (first)
            text_add(content, first, done - (size_t)(first - bytes));
    }
    free(bytes);
    return code;
}

/* Keeps a line, except of a spot evaluation, which has few samples. */
static void keep(run_details *d, eitp_json_document *line) {
    if (eitp_json_member(eitp_json_root(line), "spot/loss")) {
        eitp_json_release(line);
        return;
    }
    if (d->count == MOST_EVALUATIONS) {
        eitp_json_release(d->evaluations[0]);
        memmove(d->evaluations, d->evaluations + 1, --d->count * sizeof *d->evaluations);
    }
    d->evaluations[d->count++] = line;
}

/* Reads best.json. It is only informative, so an unreadable one is ignored. */
static eitp_status read_best(const recorded_run *r, run_details *d, eitp_error *error) {
    const eitp_host host = command_host();
    char *path = files_join(r->directory, "best.json");
    const eitp_status status = eitp_json_read_file(&host, path, MOST_BEST_BYTES, &d->best, error);
    free(path);
    return status == EITP_ERROR_MEMORY ? status : EITP_OK;
}

int run_details_best(const recorded_run *r, const run_details *d, best_metric *best) {
    const eitp_json *root = eitp_json_root(d->best);
    const double step = recorded_number(root, "best.step");
    char *error;
    best->name = recorded_text(root, "metric", "loss");
    best->value = recorded_number(root, "best.value");
    best->error = (double)NAN;
    if (!strcmp(best->name, "loss") || !isfinite(best->value) || !(step >= 0 && step < 9e18))
        return 0;
    best->step = (int64_t)step;
    error = command_format("val_%s_error", best->name);
    for (size_t i = 0; i < r->evaluation_count; i++) {
        if (r->evaluations[i].step == best->step)
            best->error = recorded_number(r->evaluations[i].record, error);
    }
    free(error);
    return 1;
}

eitp_status run_details_read(const recorded_run *r, run_details *d, text_buffer *missing, eitp_error *error) {
    const eitp_host host = command_host();
    char *path = files_join(r->records, "evaluations.jsonl");
    text_buffer content = {0};
    const char *at, *end;
    eitp_status status = EITP_OK;
    int code;
    memset(d, 0, sizeof *d);
    d->evaluations = (eitp_json_document **)command_allocate(MOST_EVALUATIONS * sizeof *d->evaluations);
    code = read_end(path, &content);
    if (code)
        text_format(missing, "cannot read '%s': %s\n", path, strerror(code));
    at = content.data ? content.data : "";
    end = at + content.size;
    while (at < end && status != EITP_ERROR_MEMORY) {
        const char *feed = (const char *)memchr(at, '\n', (size_t)(end - at));
        eitp_json_document *line = NULL;
        if (!feed)
            break;
        status = eitp_json_parse(&host, at, (size_t)(feed - at), &line, error);
        if (!status)
            keep(d, line);
        at = feed + 1;
    }
    text_release(&content);
    free(path);
    return status == EITP_ERROR_MEMORY ? status : read_best(r, d, error);
}

void run_details_release(run_details *d) {
    for (size_t i = 0; i < d->count; i++)
        eitp_json_release(d->evaluations[i]);
    free(d->evaluations);
    eitp_json_release(d->best);
    memset(d, 0, sizeof *d);
}

const eitp_json *run_details_last(const run_details *d, const char *name) {
    for (size_t i = d->count; i > 0; i--) {
        const eitp_json *value = eitp_json_member(eitp_json_root(d->evaluations[i - 1]), name);
        if (value)
            return eitp_json_root(d->evaluations[i - 1]);
    }
    return NULL;
}
