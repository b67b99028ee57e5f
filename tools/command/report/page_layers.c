#include "report/page.h"

enum { MOST_GROUPS = 300 };

static const struct {
    const char *prefix, *title;
} columns[] = {{"grad_norm/", "Gradient norm"},       {"update_norm/", "Update norm"},
               {"parameter_norm/", "Parameter norm"}, {"update_ratio/", "Update / parameter"},
               {"activation_rms/", "Activation RMS"}, {"attention_entropy/", "Attention entropy"},
               {"dead_units/", "Dead units"}};

/* Returns the group in the name of a number, or NULL. */
static const char *group_of(const char *name) {
    for (size_t i = 0; i < COMMAND_COUNT(columns); i++) {
        if (!strncmp(name, columns[i].prefix, strlen(columns[i].prefix)))
            return name + strlen(columns[i].prefix);
    }
    return NULL;
}

/* Lists the groups of a run in the order of their first records. Returns their number; the history owns the names. */
static size_t find_groups(const recorded_run *r, const char **groups) {
    size_t count = 0;
    const char *name;
    for (size_t i = 0; (name = eitp_history_name(r->history, i)) && count < MOST_GROUPS; i++) {
        const char *group = group_of(name);
        int is_new = group != NULL;
        for (size_t g = 0; g < count && is_new; g++)
            is_new = strcmp(groups[g], group) != 0;
        if (is_new)
            groups[count++] = group;
    }
    return count;
}

static void add_group(page *p, const recorded_run *r, const char *group) {
    page_begin_row(p, group);
    for (size_t i = 0; i < COMMAND_COUNT(columns); i++) {
        char *name = command_format("%s%s", columns[i].prefix, group);
        page_add_number(p, CHART_NUMBER, recorded_last(r, name), 3);
        free(name);
    }
    page_end_row(p);
}

void page_add_layers(page *p) {
    const char **groups = (const char **)command_allocate(MOST_GROUPS * sizeof *groups);
    const char *headings[COMMAND_COUNT(columns) + 1] = {"Group"};
    for (size_t i = 0; i < COMMAND_COUNT(columns); i++)
        headings[i + 1] = columns[i].title;
    for (size_t i = 0; i < p->run_count; i++) {
        const recorded_run *r = p->runs[i].run;
        const size_t count = find_groups(r, groups);
        if (!count)
            continue;
        page_add_name(p, &p->runs[i]);
        page_open_table(p, "Last values of each group of parameters", headings, COMMAND_COUNT(headings));
        for (size_t g = 0; g < count; g++)
            add_group(p, r, groups[g]);
        page_close_table(p);
    }
    free(groups);
}
