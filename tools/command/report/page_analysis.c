#include "report/page.h"

#include "report/bottleneck.h"
#include "report/comparison.h"
#include "report/slowdown.h"

/* ---- Comparison of runs ---- */

enum { MOST_SETTINGS = 60, MOST_VALUE = 300 };

/* Adds a cell with a sentence of an analysis, as printed on a terminal. */
static void add_sentence(page *p, const text_buffer *t) {
    const char *sign = t->data ? strstr(t->data, "+-") : NULL;
    const size_t size = sign ? (size_t)(sign - t->data) : t->size;
    text_format(&p->text, "<td class=\"t\">");
    markup_add(&p->text, t->data ? t->data : "", size);
    if (sign) {
        text_format(&p->text, "\xC2\xB1");
        markup_text(&p->text, sign + 2);
    }
    text_format(&p->text, "</td>");
}

/* Adds a row per setting with a cell per run. */
static void add_differences(page *p, const comparison *c) {
    const char **headings = (const char **)command_allocate((c->count + 1) * sizeof *headings);
    headings[0] = "Setting";
    for (size_t i = 0; i < c->count; i++)
        headings[i + 1] = c->runs[i].label;
    page_open_table(p, "Settings that differ", headings, c->count + 1);
    for (size_t i = 0; i < c->settings.count && i < MOST_SETTINGS; i++) {
        page_begin_row(p, c->settings.settings[i].name);
        for (size_t r = 0; r < c->count; r++) {
            text_buffer value = {0};
            setting_differences_add_value(c->settings.settings[i].values[r], &value);
            text_format(&p->text, "<td class=\"s\">");
            markup_short(&p->text, value.data ? value.data : "-", value.data ? value.size : 1, MOST_VALUE);
            text_format(&p->text, "</td>");
            text_release(&value);
        }
        page_end_row(p);
    }
    page_close_table(p);
    if (c->settings.count > MOST_SETTINGS || c->settings.is_cut)
        text_format(&p->text, "<p class=\"muted\">More are not shown.</p>\n");
    free(headings);
}

/* Writes "tokens, to 61.4k", or "training time, from 1 h to 1 h 7 min". */
static void add_range(page *p, const comparison *c, size_t pair, int axis, const comparison_difference *d) {
    const chart_format format = axis == COMPARISON_ITEMS ? CHART_COUNT : CHART_SECONDS;
    text_format(&p->text, "<td class=\"w\">%s", axis == COMPARISON_ITEMS ? c->runs[pair + 1].unit : "training time");
    if (d->is_known && d->from < d->to)
        text_format(&p->text, ", %s to", chart_format_value(format, d->from, 3).text);
    if (d->is_known)
        text_format(&p->text, " %s", chart_format_value(format, d->to, 3).text);
    text_format(&p->text, "</td>");
}

static void add_ratios(page *p, const comparison_pair *pair) {
    text_format(&p->text, "<p>");
    if (isfinite(pair->speed))
        text_format(&p->text, "Speed: %s times the baseline. ", chart_format_value(CHART_NUMBER, pair->speed, 3).text);
    if (isfinite(pair->memory))
        text_format(&p->text, "Peak memory: %s times the baseline.",
                    chart_format_value(CHART_NUMBER, pair->memory, 3).text);
    text_format(&p->text, "</p>\n");
}

static void add_pair(page *p, const comparison *c, size_t pair) {
    static const char *const headings[] = {"Loss", "At equal", "Baseline", "This run", "Difference"};
    static const char *const losses[COMPARISON_LOSSES] = {"validation", "training"};
    char *caption = command_format("%.80s against %.80s", c->runs[pair + 1].label, c->runs[0].label);
    page_open_table(p, caption, headings, COMMAND_COUNT(headings));
    for (int loss = 0; loss < COMPARISON_LOSSES; loss++) {
        for (int axis = 0; axis < COMPARISON_AXES; axis++) {
            const comparison_difference *d = &c->pairs[pair].differences[loss][axis];
            text_buffer verdict = {0};
            if (axis == COMPARISON_ITEMS && !c->pairs[pair].is_same_unit)
                continue;
            comparison_add_verdict(c, pair, d, &verdict);
            page_begin_row(p, losses[loss]);
            add_range(p, c, pair, axis, d);
            page_add_number(p, CHART_NUMBER, d->baseline, 4);
            page_add_number(p, CHART_NUMBER, d->value, 4);
            add_sentence(p, &verdict);
            page_end_row(p);
            text_release(&verdict);
        }
    }
    page_close_table(p);
    add_ratios(p, &c->pairs[pair]);
    if (c->pairs[pair].notes.size) {
        text_format(&p->text, "<p class=\"muted lines\">");
        markup_add(&p->text, c->pairs[pair].notes.data, c->pairs[pair].notes.size - 1);
        text_format(&p->text, "</p>\n");
    }
    free(caption);
}

void page_add_comparison(page *p) {
    comparison c;
    if (p->run_count < 2)
        return;
    comparison_make(p->records, p->run_count, &c);
    for (size_t i = 0; i + 1 < c.count; i++)
        add_pair(p, &c, i);
    add_differences(p, &c);
    text_format(&p->text, "<p class=\"muted\">\xC2\xB1 is one standard error of sampling; it does not include the "
                          "effect of another seed.</p>\n");
    comparison_release(&c);
}

/* ---- Limits of a run, and slowdown ---- */

static void add_findings(page *p, const bottleneck *b) {
    static const char *const headings[] = {"Limit", "Share", "Advice"};
    page_open_table(p, "Limits of the speed", headings, COMMAND_COUNT(headings));
    for (size_t i = 0; i < b->finding_count; i++) {
        page_begin_row(p, b->findings[i].limit);
        page_add_number(p, CHART_PERCENT, b->findings[i].percent, 3);
        text_format(&p->text, "<td class=\"t\">");
        markup_text(&p->text, b->findings[i].advice);
        text_format(&p->text, "</td>");
        page_end_row(p);
    }
    page_close_table(p);
}

static void add_trends(page *p, const slowdown *s) {
    static const char *const names[SLOWDOWN_KINDS] = {"Time of steps", "Rate", "Memory"};
    page_open_table(p, "Trends", NULL, 0);
    for (int kind = 0; kind < SLOWDOWN_KINDS; kind++) {
        text_buffer verdict = {0};
        slowdown_add_verdict(s, (slowdown_kind)kind, &verdict);
        page_begin_row(p, names[kind]);
        add_sentence(p, &verdict);
        page_end_row(p);
        text_release(&verdict);
    }
    page_close_table(p);
}

void page_add_limits(page *p) {
    for (size_t i = 0; i < p->run_count; i++) {
        bottleneck b;
        slowdown s;
        bottleneck_make(&p->records[i], &b);
        slowdown_make(&p->records[i], &s);
        if (!b.has_times && !s.last_step)
            continue;
        page_add_name(p, &p->runs[i]);
        if (b.has_times)
            add_findings(p, &b);
        if (s.last_step)
            add_trends(p, &s);
    }
}
