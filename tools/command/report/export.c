#include "report/export.h"

/* ---- JSON ---- */

/* Writes a value of a file as JSON. */
static void add_json(text_buffer *t, const eitp_json *value) {
    const int is_object = value->kind == EITP_JSON_OBJECT;
    if (value->kind == EITP_JSON_STRING) {
        text_json_string(t, value->text, value->text_size);
    } else if (value->kind == EITP_JSON_NUMBER) {
        text_add(t, value->text, value->text_size);
    } else if (value->kind == EITP_JSON_BOOLEAN) {
        text_format(t, value->boolean ? "true" : "false");
    } else if (value->kind == EITP_JSON_NULL) {
        text_format(t, "null");
    } else {
        text_add(t, is_object ? "{" : "[", 1);
        for (const eitp_json *child = value->first_child; child; child = child->next) {
            if (child != value->first_child)
                text_add(t, ", ", 2);
            if (is_object) {
                text_json_string(t, child->name, child->name_size);
                text_add(t, ": ", 2);
            }
            add_json(t, child);
        }
        text_add(t, is_object ? "}" : "]", 1);
    }
}

static void add_member(text_buffer *t, const char *name, const eitp_json *value) {
    if (!value)
        return;
    text_json_name(t, name);
    add_json(t, value);
}

typedef enum point_member { POINT_STEP, POINT_MEAN, POINT_MINIMUM, POINT_MAXIMUM, POINT_COUNT } point_member;

/* Writes a float with the digits it needs. */
static void add_float(text_buffer *t, float value) {
    if (isfinite(value))
        text_format(t, "%.7g", (double)value);
    else
        text_format(t, "null");
}

static void add_array(text_buffer *t, const char *name, const eitp_history_point *points, size_t count,
                      point_member m) {
    text_json_name(t, name);
    text_add(t, "[", 1);
    for (size_t i = 0; i < count; i++) {
        if (i)
            text_add(t, ",", 1);
        if (m == POINT_STEP || m == POINT_COUNT)
            text_format(t, "%lld", m == POINT_STEP ? (long long)points[i].step : (long long)points[i].count);
        else
            add_float(t, m == POINT_MEAN ? points[i].mean : m == POINT_MINIMUM ? points[i].minimum : points[i].maximum);
    }
    text_add(t, "]", 1);
}

static void add_curves(text_buffer *t, const recorded_run *r) {
    static const char *const members[] = {"step", "mean", "minimum", "maximum", "count"};
    const char *name;
    text_json_name(t, "curves");
    text_add(t, "{", 1);
    for (size_t i = 0; (name = eitp_history_name(r->history, i)); i++) {
        size_t count;
        eitp_history_point *points = recorded_points(r, name, &count);
        text_json_name(t, name);
        text_add(t, "{", 1);
        for (int m = 0; m < (int)COMMAND_COUNT(members); m++)
            add_array(t, members[m], points, count, (point_member)m);
        text_add(t, "}", 1);
        free(points);
    }
    text_add(t, "}", 1);
}

static void add_records(text_buffer *t, const recorded_run *r) {
    text_json_name(t, "evaluations");
    text_add(t, "[", 1);
    for (size_t i = 0; i < r->all_evaluation_count; i++) {
        text_add(t, ", ", i ? 2 : 0);
        add_json(t, r->all_evaluations[i].record);
    }
    text_add(t, "]", 1);
    text_json_name(t, "events");
    text_add(t, "[", 1);
    for (size_t i = 0; i < r->event_count; i++) {
        text_add(t, ", ", i ? 2 : 0);
        add_json(t, r->events[i].record);
    }
    text_add(t, "]", 1);
}

static void add_run(text_buffer *t, const page_run *p) {
    const recorded_run *r = p->run;
    text_add(t, "{", 1);
    text_json_member_string(t, "directory", r->directory);
    text_json_member_string(t, "name", r->name);
    text_json_member_string(t, "state", recorded_state(r));
    text_json_member_string(t, "message", r->process.message);
    text_json_member_integer(t, "step", r->step);
    text_json_member_integer(t, "last_step", r->last_step);
    text_json_member_string(t, "missing", r->missing.size ? r->missing.data : "");
    add_curves(t, r);
    add_records(t, r);
    if (p->details.count)
        add_member(t, "last_evaluation", eitp_json_root(p->details.evaluations[p->details.count - 1]));
    add_member(t, "run", r->run);
    add_member(t, "configuration", r->configuration);
    text_add(t, "}", 1);
}

void export_json(const page *p, text_buffer *t) {
    text_add(t, "{", 1);
    text_json_name(t, "runs");
    text_add(t, "[", 1);
    for (size_t i = 0; i < p->run_count; i++) {
        text_add(t, ",\n", i ? 2 : 0);
        add_run(t, &p->runs[i]);
    }
    text_add(t, "]}\n", 3);
}

/* ---- CSV ---- */

static void add_field(text_buffer *t, const char *text) {
    if (!strpbrk(text, ",\"\r\n")) {
        text_add(t, text, strlen(text));
        return;
    }
    text_add(t, "\"", 1);
    for (; *text; text++)
        text_add(t, *text == '"' ? "\"\"" : text, *text == '"' ? 2 : 1);
    text_add(t, "\"", 1);
}

static void add_rows(text_buffer *t, const recorded_run *r, const char *run) {
    const char *name;
    for (size_t i = 0; (name = eitp_history_name(r->history, i)); i++) {
        size_t count;
        eitp_history_point *points = recorded_points(r, name, &count);
        for (size_t k = 0; k < count; k++) {
            if (run) {
                add_field(t, run);
                text_add(t, ",", 1);
            }
            add_field(t, name);
            text_format(t, ",%lld,%.7g,%.7g,%.7g,%u\n", (long long)points[k].step, (double)points[k].mean,
                        (double)points[k].minimum, (double)points[k].maximum, (unsigned)points[k].count);
        }
        free(points);
    }
}

void export_csv(const page *p, text_buffer *t) {
    text_format(t, p->run_count > 1 ? "run,key,step,mean,minimum,maximum,count\n"
                                    : "key,step,mean,minimum,maximum,count\n");
    for (size_t i = 0; i < p->run_count; i++)
        add_rows(t, p->runs[i].run, p->run_count > 1 ? p->runs[i].run->directory : NULL);
}
