#include "report/setting_differences.h"

enum {
    MEMBERS = 500,  /* compared in an object, at most */
    SETTINGS = 200, /* listed, at most */
    VALUE = 4096    /* bytes written of a value */
};

/* ---- Values ---- */

int setting_differences_are_equal(const eitp_json *a, const eitp_json *b) {
    const eitp_json *left, *right;
    if (!a || !b || a->kind != b->kind || a->count != b->count)
        return a == b;
    switch (a->kind) {
    case EITP_JSON_BOOLEAN:
        return a->boolean == b->boolean;
    case EITP_JSON_NUMBER:
        return !(a->number < b->number) && !(a->number > b->number);
    case EITP_JSON_STRING:
        return a->text_size == b->text_size && !memcmp(a->text, b->text, a->text_size);
    case EITP_JSON_OBJECT:
        if (a->count > MEMBERS)
            return 0;
        for (left = a->first_child; left; left = left->next) {
            if (!setting_differences_are_equal(left, eitp_json_member(b, left->name)))
                return 0;
        }
        return 1;
    default:
        for (left = a->first_child, right = b->first_child; left && right; left = left->next, right = right->next) {
            if (!setting_differences_are_equal(left, right))
                return 0;
        }
        return 1;
    }
}

static void add_json(const eitp_json *value, int is_inner, size_t end, text_buffer *t) {
    if (t->size >= end)
        return;
    switch (value->kind) {
    case EITP_JSON_NULL:
        text_format(t, "null");
        return;
    case EITP_JSON_BOOLEAN:
        text_format(t, value->boolean ? "true" : "false");
        return;
    case EITP_JSON_STRING:
        if (is_inner)
            text_json_string(t, value->text, value->text_size);
        else
            text_add(t, value->text, strlen(value->text));
        return;
    case EITP_JSON_NUMBER:
        text_add(t, value->text, value->text_size);
        return;
    default:
        text_format(t, value->kind == EITP_JSON_ARRAY ? "[" : "{");
        for (const eitp_json *child = value->first_child; child && t->size < end; child = child->next) {
            text_format(t, child == value->first_child ? "" : ", ");
            if (child->name) {
                text_json_string(t, child->name, child->name_size);
                text_format(t, ": ");
            }
            add_json(child, 1, end, t);
        }
        text_format(t, value->kind == EITP_JSON_ARRAY ? "]" : "}");
    }
}

void setting_differences_add_value(const eitp_json *value, text_buffer *t) {
    if (value)
        add_json(value, 0, t->size + VALUE, t);
    else
        text_format(t, "-");
}

/* ---- Differences ---- */

/* Members of run.json with settings, and the prefixes of their names in the list. */
static const struct {
    const char *path, *prefix;
} places[] = {{"configuration", ""},  {"run.version", NULL},       {"run.build", NULL},     {"run.device", NULL},
              {"run.numerics", NULL}, {"run.machine", "machine."}, {"run.model", "model."}, {"run.data", "data."}};

/* True for names and paths of the run, and for the memory that was free at its start. */
static int is_of_one_run(const char *name) {
    static const char *const names[] = {"output-dir", "log-dir",         "run-name",
                                        "notes",      "data.token_file", "machine.usable_bytes"};
    for (size_t i = 0; i < COMMAND_COUNT(names); i++) {
        if (!strcmp(name, names[i]))
            return 1;
    }
    return 0;
}

static const eitp_json *place_of(const recorded_run *r, size_t place) {
    return recorded_at(eitp_json_root(r->info), places[place].path);
}

/* Adds a setting unless it is the same in all runs with a run.json. Takes ownership of the name and the values. */
static void add_setting(const recorded_run *runs, char *name, const eitp_json **values, setting_differences *d) {
    size_t first = 0;
    int differs = 0;
    while (first < d->run_count && !runs[first].info)
        first++;
    for (size_t i = first; i < d->run_count; i++)
        differs |= runs[i].info && !setting_differences_are_equal(values[first], values[i]);
    if (differs && !is_of_one_run(name) && d->count < SETTINGS) {
        d->settings = (setting_difference *)command_resize(d->settings, (d->count + 1) * sizeof *d->settings);
        d->settings[d->count].name = name;
        d->settings[d->count++].values = values;
        return;
    }
    d->is_cut |= d->count == SETTINGS;
    free(name);
    free((void *)values);
}

static const eitp_json **new_values(const setting_differences *d) {
    return (const eitp_json **)command_allocate(d->run_count * sizeof(const eitp_json *));
}

/* Adds the members of an object of runs[owner] that no earlier run has. */
static void add_members(const recorded_run *runs, size_t owner, size_t place, setting_differences *d) {
    const eitp_json *object = place_of(&runs[owner], place);
    const eitp_json *member = recorded_members(object);
    size_t seen = 0;
    for (; member && seen < MEMBERS; member = member->next, seen++) {
        const eitp_json **values = new_values(d);
        int is_known = 0;
        for (size_t i = 0; i < d->run_count; i++) {
            values[i] = eitp_json_member(place_of(&runs[i], place), member->name);
            is_known |= i < owner && values[i];
        }
        if (is_known)
            free((void *)values);
        else
            add_setting(runs, command_format("%s%s", places[place].prefix, member->name), values, d);
    }
    d->is_cut |= member != NULL;
}

void setting_differences_make(const recorded_run *runs, size_t count, setting_differences *d) {
    memset(d, 0, sizeof *d);
    d->run_count = count;
    for (size_t place = 0; place < COMMAND_COUNT(places); place++) {
        const eitp_json **values;
        if (places[place].prefix) {
            for (size_t owner = 0; owner < count; owner++)
                add_members(runs, owner, place, d);
            continue;
        }
        values = new_values(d);
        for (size_t i = 0; i < count; i++)
            values[i] = place_of(&runs[i], place);
        add_setting(runs, command_copy(places[place].path + strlen("run.")), values, d);
    }
}

void setting_differences_release(setting_differences *d) {
    for (size_t i = 0; i < d->count; i++) {
        free(d->settings[i].name);
        free((void *)d->settings[i].values);
    }
    free(d->settings);
    memset(d, 0, sizeof *d);
}
