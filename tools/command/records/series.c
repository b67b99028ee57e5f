#include "records/series.h"

#include "output.h"

/* ---- Names ---- */

static int is_evaluation_key(const eitp_json *member) {
    return member->kind == EITP_JSON_NUMBER && !strncmp(member->name, "val_", 4);
}

/* Calls `visit` with the name of each number in a run until it returns 1. */
static int each_name(const recorded_run *r, int (*visit)(void *user, const char *name), void *user) {
    const char *name;
    for (size_t i = 0; (name = eitp_history_name(r->history, i)) != NULL; i++) {
        if (visit(user, name))
            return 1;
    }
    if (!r->all_evaluation_count)
        return 0;
    for (const eitp_json *m = recorded_members(r->all_evaluations[r->all_evaluation_count - 1].record); m;
         m = m->next) {
        if (is_evaluation_key(m) && visit(user, m->name))
            return 1;
    }
    return 0;
}

/* The names nearest to an unknown one. */
typedef struct nearest {
    const char *wanted;
    enum { NEAREST = 3 } most;
    char names[NEAREST][100];
    size_t distances[NEAREST];
    size_t count;
} nearest;

static int compare_name(void *user, const char *name) {
    return !strcmp((const char *)user, name);
}

static int suggest(void *user, const char *name) {
    nearest *n = (nearest *)user;
    eitp_suggestion near = {NULL, 0, 0};
    size_t at;
    eitp_suggest_name(n->wanted, name, strlen(name), &near);
    if (!near.name)
        return 0;
    at = n->count < NEAREST ? n->count++ : NEAREST;
    for (; at > 0 && n->distances[at - 1] > near.distance; at--) {
        if (at == NEAREST)
            continue;
        memcpy(n->names[at], n->names[at - 1], sizeof n->names[at]);
        n->distances[at] = n->distances[at - 1];
    }
    if (at == NEAREST)
        return 0;
    snprintf(n->names[at], sizeof n->names[at], "%s", name);
    n->distances[at] = near.distance;
    return 0;
}

static eitp_status fail_unknown(const recorded_run *r, const char *name, eitp_error *error) {
    static const char *const others[] = {"items/s", "memory", "time"};
    text_buffer names = {NULL, 0, 0};
    eitp_status status;
    nearest n;
    memset(&n, 0, sizeof n);
    n.wanted = name;
    each_name(r, suggest, &n);
    for (size_t i = 0; i < COMMAND_COUNT(others); i++)
        suggest(&n, others[i]);
    for (size_t i = 0; i < n.count; i++)
        text_format(&names, "%s'%s'", !i ? "; did you mean " : i + 1 < n.count ? ", " : " or ", n.names[i]);
    status = command_fail(error, EITP_ERROR_ARGUMENT, "no records of '%s' in '%s'%s%s", name, r->directory,
                          n.count ? names.data : "; summary.jsonl has a line for each name", n.count ? "?" : "");
    text_release(&names);
    return status;
}

/* Returns the key of a name in a new string, or NULL if it is unknown. */
static char *find_key(const recorded_run *r, const char *name) {
    char *key = !strcmp(name, "items/s")  ? command_format("%s_per_s", recorded_unit(r))
                : !strcmp(name, "memory") ? command_copy("rss_bytes")
                                          : command_copy(name);
    if (!strcmp(key, "time") || each_name(r, compare_name, key))
        return key;
    free(key);
    return NULL;
}

static void add_one(series_list *list, const recorded_run *run, char *key) {
    series *s;
    list->all = (series *)command_resize(list->all, (list->count + 1) * sizeof *list->all);
    s = &list->all[list->count++];
    memset(s, 0, sizeof *s);
    s->run = run;
    s->name = key;
    s->taken = -1;
}

eitp_status series_add(series_list *list, const recorded_run *run, const char *names, const char *standard, int goes_on,
                       eitp_error *error) {
    const char *at = names ? names : standard;
    eitp_status status = EITP_OK;
    while (*at && !status) {
        const size_t size = strcspn(at, ",");
        char *name = command_format("%.*s", (int)size, at), *key;
        key = *name && strcmp(name, "step") ? find_key(run, name) : NULL;
        if (!key && goes_on && !strncmp(name, "val_", 4))
            key = command_copy(name);
        if (key)
            add_one(list, run, key);
        else if (names && *name && strcmp(name, "step"))
            status = fail_unknown(run, name, error);
        free(name);
        at += size + (at[size] == ',');
    }
    return status;
}

void series_release(series_list *list) {
    for (size_t i = 0; i < list->count; i++) {
        free(list->all[i].name);
        free(list->all[i].steps);
        free(list->all[i].values);
    }
    free(list->all);
    memset(list, 0, sizeof *list);
}

/* ---- Values ---- */

static void add_value(series *s, int64_t step, double value) {
    s->steps[s->count] = step;
    s->values[s->count++] = value;
}

static void read_points(series *s) {
    const int is_time = !strcmp(s->name, "time");
    size_t count;
    double sum = 0;
    eitp_history_point *points = recorded_points(s->run, is_time ? "step_time_s" : s->name, &count);
    s->steps = (int64_t *)command_resize(s->steps, count * sizeof *s->steps);
    s->values = (double *)command_resize(s->values, count * sizeof *s->values);
    for (size_t i = 0; i < count; i++) {
        sum += (double)points[i].mean * (double)points[i].count;
        if (points[i].step > s->taken)
            add_value(s, points[i].step, is_time ? sum : (double)points[i].mean);
    }
    free(points);
}

/* Reads the values of evaluations, which are stored one by one with their steps. */
static void read_evaluations(series *s) {
    const recorded_run *r = s->run;
    s->steps = (int64_t *)command_resize(s->steps, r->all_evaluation_count * sizeof *s->steps);
    s->values = (double *)command_resize(s->values, r->all_evaluation_count * sizeof *s->values);
    for (size_t i = 0; i < r->all_evaluation_count; i++) {
        const eitp_json *value = eitp_json_member(r->all_evaluations[i].record, s->name);
        const int64_t before = s->count ? s->steps[s->count - 1] : s->taken;
        /* An evaluation repeated after a resume replaces the earlier one. */
        if (s->count && r->all_evaluations[i].step == before)
            s->count--;
        else if (r->all_evaluations[i].step <= before)
            continue;
        if (value && value->kind == EITP_JSON_NUMBER)
            add_value(s, r->all_evaluations[i].step, value->number);
    }
}

void series_read(series_list *list) {
    for (size_t i = 0; i < list->count; i++) {
        series *s = &list->all[i];
        s->count = s->next = 0;
        s->taken = s->taken < s->run->step ? s->taken : s->run->step;
        if (!strncmp(s->name, "val_", 4))
            read_evaluations(s);
        else
            read_points(s);
    }
}

/* ---- Rows ---- */

static int ends_with(const char *text, const char *ending) {
    const size_t size = strlen(text), length = strlen(ending);
    return size >= length && !strcmp(text + size - length, ending);
}

static void format_seconds(double seconds, char *text, size_t size) {
    const long long total = (long long)(seconds + 0.5);
    if (seconds < 60)
        snprintf(text, size, "%.1fs", seconds);
    else if (total < 3600)
        snprintf(text, size, "%lldm%02llds", total / 60, total % 60);
    else if (total < 86400)
        snprintf(text, size, "%lldh%02lldm", total / 3600, total / 60 % 60);
    else
        snprintf(text, size, "%lldd%02lldh", total / 86400, total / 3600 % 24);
}

void series_format(const char *name, double value, char *text, size_t size) {
    if (!strcmp(name, "time") && value >= 0 && value < 1e12)
        format_seconds(value, text, size);
    else if (ends_with(name, "_bytes") && value >= 0)
        snprintf(text, size, "%s", output_bytes(value));
    else if (!strncmp(name, "loss", 4) || !strncmp(name, "val_loss", 8))
        snprintf(text, size, fabs(value) < 1e6 ? "%.4f" : "%.4g", value);
    else if (value == floor(value) && fabs(value) < 1e15)
        snprintf(text, size, "%.0f", value);
    else
        snprintf(text, size, fabs(value) >= 1000 && fabs(value) < 1e15 ? "%.0f" : "%.4g", value);
}

/* Returns the title of a name in a new string, and the rank by which its column is dropped. */
static char *title_of(const series *s, int *rank) {
    static const struct {
        const char *name;
        int rank;
    } known[] = {{"loss", 1}, {"val_loss", 2}, {"time", 4}, {"rss_bytes", 5}, {"lr", 6}, {"grad_norm", 7}};
    char *rate = command_format("%s_per_s", recorded_unit(s->run)), *title = NULL;
    *rank = 3;
    for (size_t i = 0; i < COMMAND_COUNT(known); i++)
        *rank = strcmp(s->name, known[i].name) ? *rank : known[i].rank;
    if (!strcmp(s->name, rate))
        title = command_format("%s/s", recorded_unit(s->run));
    free(rate);
    return title ? title : command_copy(strcmp(s->name, "rss_bytes") ? s->name : "memory");
}

/* Adds the column of a number of one of two runs. */
static void add_named_column(const series_list *list, const series *s, const char *title, text_table *t) {
    const recorded_run *first = list->all[0].run, *last = list->all[list->count - 1].run;
    const char *name = strcmp(first->name, last->name) ? s->run->name : s->run->directory;
    char *named = command_format("%s %s", name, title), *key = command_format("%s %s", s->run->directory, s->name);
    text_table_add_column(t, named, key, 0, 1);
    free(named);
    free(key);
}

void series_add_columns(const series_list *list, text_table *t) {
    text_table_add_column(t, "step", "step", 0, 0);
    for (size_t i = 0; i < list->count; i++) {
        const series *s = &list->all[i];
        int rank;
        char *title = title_of(s, &rank);
        if (list->all[0].run == list->all[list->count - 1].run)
            text_table_add_column(t, title, s->name, 0, rank);
        else
            add_named_column(list, s, title, t);
        free(title);
    }
}

static int compare_steps(const void *a, const void *b) {
    const int64_t left = *(const int64_t *)a, right = *(const int64_t *)b;
    return (left > right) - (left < right);
}

/* Returns the steps that have a number, each once, in a new array. */
static int64_t *list_steps(const series_list *list, size_t *count) {
    size_t total = 0, kept = 0;
    int64_t *steps;
    for (size_t i = 0; i < list->count; i++)
        total += list->all[i].count;
    steps = (int64_t *)command_allocate(total * sizeof *steps);
    for (size_t i = 0; i < list->count; i++) {
        if (list->all[i].count)
            memcpy(steps + kept, list->all[i].steps, list->all[i].count * sizeof *steps);
        kept += list->all[i].count;
    }
    qsort(steps, total, sizeof *steps, compare_steps);
    kept = 0;
    for (size_t i = 0; i < total; i++) {
        if (!kept || steps[i] != steps[kept - 1])
            steps[kept++] = steps[i];
    }
    *count = kept;
    return steps;
}

static eitp_log_level level_of(const recorded_event *event) {
    static const char *const levels[] = {"debug", "info", "warning", "error"};
    for (size_t i = 0; i < COMMAND_COUNT(levels); i++) {
        if (!strcmp(event->level, levels[i]))
            return (eitp_log_level)i;
    }
    return EITP_LOG_INFO;
}

/* Adds lines of the events up to a step, from number *next on. */
static void add_events(const series_events *events, size_t *next, int64_t step, text_table *t) {
    const recorded_run *r = events->run;
    for (; r && *next < r->event_count && r->events[*next].step <= step; ++*next) {
        const recorded_event *event = &r->events[*next];
        const char *alarm = recorded_text(event->record, "alarm", "");
        char *line;
        if (level_of(event) < events->least || event->time <= events->after)
            continue;
        line = command_format("step %lld, %s: %s%s%s: %s", (long long)event->step, event->level, event->kind,
                              *alarm ? " " : "", alarm, event->message);
        text_table_add_note(t, line);
        free(line);
    }
}

static void add_row(series_list *list, int64_t step, text_table *t) {
    table_cell *cells = text_table_add_row(t);
    char text[64];
    snprintf(text, sizeof text, "%lld", (long long)step);
    text_table_set_number(&cells[0], (double)step, text);
    for (size_t i = 0; i < list->count; i++) {
        series *s = &list->all[i];
        while (s->next < s->count && s->steps[s->next] <= step) {
            const double value = s->values[s->next];
            s->taken = s->steps[s->next++];
            series_format(s->name, value, text, sizeof text);
            text_table_set_number(&cells[i + 1], value, text);
        }
    }
}

void series_add_rows(series_list *list, size_t most, series_events *events, text_table *t) {
    size_t count, rows, next = 0;
    int64_t *steps = list_steps(list, &count);
    rows = most && most < count ? most : count;
    for (size_t i = 0; i < rows; i++) {
        const size_t at = rows > 1 ? i * (count - 1) / (rows - 1) : count - 1;
        add_row(list, steps[at], t);
        add_events(events, &next, steps[at], t);
    }
    add_events(events, &next, INT64_MAX, t);
    if (events->run && events->run->event_count)
        events->after = events->run->events[events->run->event_count - 1].time;
    free(steps);
}
