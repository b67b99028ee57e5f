#include "run/best.h"

#include "base/files.h"
#include "base/json.h"

#define EITP__BEST_FILE "best.json"
#define EITP__BEST_FILE_LIMIT ((size_t)1 << 20)

EITP__PRIVATE void eitp__best_init(eitp__best *best, int higher_is_better) {
    memset(best, 0, sizeof *best);
    best->higher_is_better = higher_is_better;
    best->before.step = -1;
    best->before.value = best->before.seen = (double)NAN;
    best->now = best->saved = best->before;
}

EITP__PRIVATE int eitp__best_is_better(const eitp__best *best, double value, double than) {
    if (!isfinite(value) || !isfinite(than))
        return isfinite(value);
    return best->higher_is_better ? value > than : value < than;
}

static void eitp__best_advance(const eitp__best *best, eitp__best_state *state, const eitp__best_evaluation *next) {
    if (!next->is_lost && eitp__best_is_better(best, next->value, state->value)) {
        state->step = next->step;
        state->value = next->value;
    }
    state->since++;
    if (eitp__best_is_better(best, next->value, state->seen)) {
        state->seen = next->value;
        state->since = 0;
    }
}

static void eitp__best_replay(eitp__best *best) {
    best->now = best->before;
    for (size_t i = 0; i < best->count; i++)
        eitp__best_advance(best, &best->now, &best->evaluations[i]);
}

EITP__PRIVATE int eitp__best_add(eitp__best *best, int64_t step, double value) {
    eitp__best_evaluation *last;
    if (best->count && best->evaluations[best->count - 1].step == step)
        best->count--;
    if (best->count == EITP__BEST_EVALUATIONS) {
        eitp__best_advance(best, &best->before, &best->evaluations[0]);
        memmove(best->evaluations, best->evaluations + 1, (EITP__BEST_EVALUATIONS - 1) * sizeof *best->evaluations);
        best->count--;
    }
    last = &best->evaluations[best->count++];
    last->step = step;
    last->value = value;
    last->is_lost = 0;
    eitp__best_replay(best);
    return best->now.step == step;
}

EITP__PRIVATE void eitp__best_lose(eitp__best *best, int64_t step) {
    if (best->before.step == step) {
        best->before.step = -1;
        best->before.value = (double)NAN;
    }
    for (size_t i = 0; i < best->count; i++)
        best->evaluations[i].is_lost |= best->evaluations[i].step == step;
    eitp__best_replay(best);
}

EITP__PRIVATE int eitp__best_has(const eitp__best *best, int64_t step) {
    return best->count && best->evaluations[best->count - 1].step == step;
}

static void eitp__best_format_state(eitp__buffer *text, const char *name, const eitp__best_state *state) {
    eitp__buffer_format(text, "\"%s\": {\"step\": %lld, \"value\": ", name, (long long)state->step);
    eitp__json_write_number(text, state->value);
    if (isfinite(state->seen) && !(state->seen == state->value)) {
        eitp__buffer_add_text(text, ", \"seen\": ");
        eitp__json_write_number(text, state->seen);
    }
    eitp__buffer_format(text, ", \"evaluations_since\": %lld},\n", (long long)state->since);
}

EITP__PRIVATE void eitp__best_format(const eitp__best *best, const eitp__best_state *state, const char *metric,
                                     int kept, eitp__buffer *text) {
    eitp__buffer_add_text(text, "{\"metric\": ");
    eitp__json_write_text(text, metric, strlen(metric));
    eitp__buffer_format(text, ",\n\"kept\": %s,\n", kept ? "true" : "false");
    eitp__best_format_state(text, "best", state);
    eitp__best_format_state(text, "before", &best->before);
    eitp__buffer_add_text(text, "\"evaluations\": [");
    for (size_t i = 0; i < best->count; i++) {
        eitp__buffer_format(text, "%s\n{\"step\": %lld, \"value\": ", i ? "," : "",
                            (long long)best->evaluations[i].step);
        eitp__json_write_number(text, best->evaluations[i].value);
        eitp__buffer_add_text(text, best->evaluations[i].is_lost ? ", \"lost\": true}" : "}");
    }
    eitp__buffer_add_text(text, "]}");
}

EITP__PRIVATE eitp_status eitp__best_write(const eitp__best *best, const eitp_host *host, const char *directory,
                                           const char *metric, int kept, eitp_error *error) {
    char *path = eitp__join_path(host, directory, EITP__BEST_FILE);
    eitp__best_state named = best->now;
    eitp_status status;
    eitp__buffer text;
    if (kept) {
        named.step = best->saved.step;
        named.value = best->saved.value;
    }
    eitp__buffer_init(&text, host);
    eitp__best_format(best, &named, metric, kept, &text);
    eitp__buffer_add_text(&text, "\n");
    if (!path || text.failed)
        status = eitp__fail_memory(error, text.size, EITP__BEST_FILE);
    else
        status = eitp__replace_file(host, path, text.data, text.size, error);
    eitp__buffer_release(&text);
    eitp__release_text(host, path);
    return status;
}

EITP__PRIVATE eitp_status eitp__best_remove(const eitp_host *host, const char *directory, eitp_error *error) {
    eitp_path_info info = EITP__ZERO;
    char *path = eitp__join_path(host, directory, EITP__BEST_FILE);
    eitp_status status =
        path ? eitp__path_info(host, path, &info, error) : eitp__fail_memory(error, strlen(directory), EITP__BEST_FILE);
    const int code = !status && info.kind == EITP_PATH_FILE ? host->files.remove(host->files.user, path) : 0;
    if (code)
        status = eitp__fail(error, EITP_ERROR_IO, "cannot remove '%s': %s", path, strerror(code));
    eitp__release_text(host, path);
    return status;
}

/* A step, a value that is null if it was not finite, and whether it is lost. */
static eitp_status eitp__best_read_evaluation(const eitp_json *object, eitp__best_evaluation *evaluation,
                                              eitp_error *error) {
    eitp_status status;
    evaluation->step = -1;
    evaluation->value = (double)NAN;
    evaluation->is_lost = 0;
    status = eitp__json_get_integer(object, "step", -1, INT64_MAX, &evaluation->step, error);
    if (!status)
        status = eitp__json_get_number(object, "value", -HUGE_VAL, HUGE_VAL, &evaluation->value, error);
    return status ? status : eitp__json_get_boolean(object, "lost", &evaluation->is_lost, error);
}

static eitp_status eitp__best_read_before(eitp__best *best, const eitp_json *object, int64_t step, eitp_error *error) {
    eitp__best_evaluation found;
    int64_t since = 0;
    double seen;
    eitp_status status = eitp__best_read_evaluation(object, &found, error);
    seen = found.value;
    if (!status)
        status = eitp__json_get_number(object, "seen", -HUGE_VAL, HUGE_VAL, &seen, error);
    if (!status)
        status = eitp__json_get_integer(object, "evaluations_since", 0, INT32_MAX, &since, error);
    if (status || found.step > step)
        return status;
    best->before.step = found.step;
    best->before.value = found.step < 0 ? (double)NAN : found.value;
    best->before.seen = seen;
    best->before.since = since;
    return EITP_OK;
}

EITP__PRIVATE eitp_status eitp__best_parse(eitp__best *best, const eitp_json *root, const char *metric, int64_t step,
                                           eitp_error *error) {
    const eitp_json *list = eitp_json_member(root, "evaluations");
    const char *name = "";
    eitp_status status = eitp__json_get_text(root, "metric", &name, error);
    if (status || strcmp(name, metric))
        return status;
    status = eitp__best_read_before(best, eitp_json_member(root, "before"), step, error);
    for (const eitp_json *item = list ? list->first_child : NULL; item && !status; item = item->next) {
        eitp__best_evaluation found;
        status = eitp__best_read_evaluation(item, &found, error);
        if (status || found.step < 0 || found.step > step)
            continue;
        eitp__best_add(best, found.step, found.value);
        if (found.is_lost)
            eitp__best_lose(best, found.step);
    }
    eitp__best_replay(best);
    return status;
}

EITP__PRIVATE eitp_status eitp__best_read(eitp__best *best, const eitp_host *host, const char *directory,
                                          const char *metric, int64_t step, eitp_error *error) {
    eitp_path_info info = EITP__ZERO;
    eitp_json_document *document = NULL;
    char *path = eitp__join_path(host, directory, EITP__BEST_FILE);
    eitp_status status =
        path ? eitp__path_info(host, path, &info, error) : eitp__fail_memory(error, strlen(directory), EITP__BEST_FILE);
    if (!status && info.kind == EITP_PATH_FILE) {
        status = eitp__json_read_strict_file(host, path, EITP__BEST_FILE_LIMIT, &document, error);
        if (!status)
            status = eitp__best_parse(best, eitp_json_root(document), metric, step, error);
        if (status && document)
            eitp__fail_prefix(error, status, "'%s'", path);
        eitp_json_release(document);
    }
    eitp__release_text(host, path);
    return status;
}

EITP__PRIVATE int64_t eitp__best_kept_step(const eitp_json *root) {
    eitp_error ignored;
    eitp__best_evaluation found;
    int kept = 1; /* files of earlier versions do not say */
    if (eitp__json_get_boolean(root, "kept", &kept, &ignored) || !kept ||
        eitp__best_read_evaluation(eitp_json_member(root, "best"), &found, &ignored))
        return -1;
    return found.step;
}

EITP__PRIVATE int64_t eitp__best_read_kept_step(const eitp_host *host, const char *directory) {
    eitp_error ignored;
    eitp_json_document *document = NULL;
    char *path = eitp__join_path(host, directory, EITP__BEST_FILE);
    int64_t step = -1;
    if (path && !eitp__json_read_strict_file(host, path, EITP__BEST_FILE_LIMIT, &document, &ignored))
        step = eitp__best_kept_step(eitp_json_root(document));
    eitp_json_release(document);
    eitp__release_text(host, path);
    return step;
}
