#include "supervise/history.h"

#include "files.h"

#include <time.h>
#include <unistd.h>

enum { MOST_STARTS = 100 };

double history_time(void) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

void history_release(history *h) {
    for (size_t i = 0; i < h->count; i++)
        free(h->starts[i].error_log);
    free(h->starts);
    text_release(&h->last_lines);
    memset(h, 0, sizeof *h);
}

history_start *history_add(history *h, int64_t process) {
    history_start *added;
    if (h->count == MOST_STARTS) {
        free(h->starts[0].error_log);
        memmove(h->starts, h->starts + 1, --h->count * sizeof *h->starts);
        h->forgotten++;
    }
    h->starts = (history_start *)command_resize(h->starts, (h->count + 1) * sizeof *h->starts);
    added = &h->starts[h->count++];
    memset(added, 0, sizeof *added);
    added->time = history_time();
    added->process = process;
    added->step = added->checkpoint = -1;
    return added;
}

history_start *history_last(const history *h) {
    return h->count ? &h->starts[h->count - 1] : NULL;
}

/* ---- JSON ---- */

/* Adds a step, or null for -1. */
static void add_step(text_buffer *t, const char *name, int64_t step) {
    if (step >= 0) {
        text_json_member_integer(t, name, step);
        return;
    }
    text_json_name(t, name);
    text_format(t, "null");
}

static void add_start(text_buffer *t, const history_start *start) {
    text_format(t, "{");
    text_json_member_number(t, "time", start->time);
    text_json_member_integer(t, "process", start->process);
    if (start->has_ended) {
        text_json_member_number(t, "end_time", start->end_time);
        text_json_member_string(t, "reason", start->reason);
        text_json_member_integer(t, "exit_code", start->exit_code);
        add_step(t, "step", start->step);
        add_step(t, "checkpoint", start->checkpoint);
        text_json_member_number(t, "stall_timeout", start->stall_timeout);
    }
    if (start->error_log)
        text_json_member_string(t, "error_log", start->error_log);
    text_format(t, "}");
}

static void add_lines(text_buffer *t, const text_buffer *lines) {
    const char *at = lines->data;
    for (int n = 0; at && *at; n++) {
        const size_t size = strcspn(at, "\n");
        text_format(t, n ? ",\n    " : "\n    ");
        text_json_string(t, at, size);
        at += size + (at[size] == '\n');
    }
}

static void begin_member(text_buffer *t, const char *name) {
    text_format(t, ",\n  \"%s\": ", name);
}

static void add_members(text_buffer *t, const history *h) {
    const history_start *last = history_last(h);
    text_format(t, "{\n  \"format\": \"eitp supervisor\",\n  \"version\": 1,\n  \"process\": %ld", (long)getpid());
    begin_member(t, "state");
    text_json_string(t, h->state, strlen(h->state));
    begin_member(t, "child");
    if (last && !last->has_ended)
        text_format(t, "%lld", (long long)last->process);
    else
        text_format(t, "null");
    begin_member(t, "command");
    text_format(t, "[");
    for (size_t i = 0; h->command[i]; i++) {
        text_format(t, i ? ", " : "");
        text_json_string(t, h->command[i], strlen(h->command[i]));
    }
    text_format(t, "]");
    begin_member(t, "output_dir");
    text_json_string(t, h->directory, strlen(h->directory));
    begin_member(t, "log");
    text_json_string(t, h->log, strlen(h->log));
    begin_member(t, "restarts");
    text_format(t, "%lld", (long long)h->restarts);
    begin_member(t, "earlier_starts");
    text_format(t, "%lld", (long long)h->forgotten);
}

eitp_status history_write(const history *h, const char *logs, eitp_error *error) {
    char *path = files_join(logs, "supervisor.json");
    text_buffer t = {NULL, 0, 0};
    eitp_status status;
    add_members(&t, h);
    begin_member(&t, "starts");
    text_format(&t, "[");
    for (size_t i = 0; i < h->count; i++) {
        text_format(&t, i ? ",\n    " : "\n    ");
        add_start(&t, &h->starts[i]);
    }
    text_format(&t, "]");
    begin_member(&t, "last_lines");
    text_format(&t, "[");
    add_lines(&t, &h->last_lines);
    text_format(&t, "]\n}\n");
    status = files_replace(path, t.data, t.size, error);
    text_release(&t);
    free(path);
    return status;
}
