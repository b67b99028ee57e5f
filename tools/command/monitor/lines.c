#include "monitor/lines.h"

#include "monitor/screen.h"

#include <time.h>

enum { EVENTS = 5 /* newest events that are listed */ };

/* Returns the first listed event; only warnings and errors count if `serious`. */
static size_t first_event(const recorded_run *r, int serious) {
    size_t first = r->event_count, found = 0;
    while (first > 0 && found < EVENTS) {
        const char *level = r->events[--first].level;
        found += strcmp(level, "debug") && (!serious || strcmp(level, "info"));
    }
    return first;
}

/* ---- Lines ---- */

static int should_warn(const watched_run *w, const fact *f) {
    const fact *before = facts_find(&w->before, f->key);
    return !before || strcmp(before->text, f->text);
}

static int has_news(const watched_run *w) {
    for (size_t i = 0; i < w->facts.count; i++) {
        if (w->facts.items[i].label && should_warn(w, &w->facts.items[i]))
            return 1;
    }
    return 0;
}

static void add_line(text_buffer *t, const char *label, const char *separator, const char *text, size_t size) {
    char *copy = command_format("%s%s%.*s", label, separator, (int)size, text);
    screen_add_printable(t, copy);
    text_format(t, "\n");
    free(copy);
}

/* Adds the lines of `lines`, each with a label. */
static void add_lines(text_buffer *t, const char *label, const char *lines) {
    while (lines && *lines) {
        const size_t size = strcspn(lines, "\n");
        add_line(t, label, ": ", lines, size);
        lines += size + (lines[size] == '\n');
    }
}

static void add_events(text_buffer *t, const recorded_run *r) {
    for (size_t i = first_event(r, 1); i < r->event_count; i++) {
        const recorded_event *event = &r->events[i];
        char label[80];
        if (strcmp(event->level, "warning") && strcmp(event->level, "error"))
            continue;
        snprintf(label, sizeof label, "%.20s after step %lld", event->level, (long long)event->step);
        add_line(t, label, ": ", event->message, strlen(event->message));
    }
}

void lines_add_run(text_buffer *t, const watched_run *w, int only_changes) {
    if (only_changes && !has_news(w))
        return;
    for (size_t i = 0; i < w->facts.count; i++) {
        const fact *f = &w->facts.items[i];
        const int names = !strcmp(f->key, "name"), is_step = !strcmp(f->key, "step");
        if (f->label && (names || !only_changes || should_warn(w, f)))
            add_line(t, f->label, is_step ? " " : ": ", f->text, strlen(f->text));
    }
    add_lines(t, "warning", w->facts.warnings.data);
    if (only_changes)
        return;
    add_events(t, &w->run);
    add_lines(t, "missing", w->facts.missing.data);
}

void lines_add(text_buffer *t, const watched_runs *l, int only_changes) {
    const time_t now = (time_t)l->machine.time;
    const size_t before = t->size;
    size_t named;
    struct tm utc;
    char text[40];
    gmtime_r(&now, &utc);
    strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &utc);
    add_line(t, "time", ": ", text, strlen(text));
    named = t->size;
    for (size_t i = 0; i < l->count; i++)
        lines_add_run(t, l->runs[i], only_changes);
    if (t->size == named) /* nothing changed: omit the time as well */
        t->size = before;
    if (l->left_out)
        text_format(t, "%zu other runs are not shown\n", l->left_out);
}

/* ---- JSON ---- */

static void add_json_event(text_buffer *t, const recorded_event *event) {
    text_format(t, "{");
    text_json_member_integer(t, "step", event->step);
    text_json_member_number(t, "time", event->time);
    text_json_member_string(t, "event", event->kind);
    text_json_member_string(t, "level", event->level);
    text_json_member_string(t, "message", event->message);
    text_format(t, "}");
}

/* Adds the lines of `lines` as an array of strings. */
static void add_json_lines(text_buffer *t, const char *name, const char *lines) {
    int is_first = 1;
    text_json_name(t, name);
    text_format(t, "[");
    for (; lines && *lines; is_first = 0) {
        const size_t size = strcspn(lines, "\n");
        if (!is_first)
            text_format(t, ", ");
        text_json_string(t, lines, size);
        lines += size + (lines[size] == '\n');
    }
    text_format(t, "]");
}

static void add_json_run(text_buffer *t, const watched_run *w) {
    const recorded_run *r = &w->run;
    int is_first = 1;
    text_format(t, "{");
    for (size_t i = 0; i < w->facts.count; i++) {
        const fact *f = &w->facts.items[i];
        if (isfinite(f->number))
            text_json_member_number(t, f->key, f->number);
        else
            text_json_member_string(t, f->key, f->text);
    }
    add_json_lines(t, "warnings", w->facts.warnings.data);
    text_json_name(t, "events");
    text_format(t, "[");
    for (size_t i = first_event(r, 0); i < r->event_count; i++) {
        if (!strcmp(r->events[i].level, "debug"))
            continue;
        if (!is_first)
            text_format(t, ", ");
        add_json_event(t, &r->events[i]);
        is_first = 0;
    }
    text_format(t, "]");
    add_json_lines(t, "missing", w->facts.missing.data);
    text_format(t, "}");
}

void lines_add_json(text_buffer *t, const watched_runs *l) {
    text_format(t, "{");
    text_json_member_number(t, "time", l->machine.time);
    text_json_name(t, "runs");
    text_format(t, "[");
    for (size_t i = 0; i < l->count; i++) {
        if (i)
            text_format(t, ", ");
        add_json_run(t, l->runs[i]);
    }
    text_format(t, "]}\n");
}
