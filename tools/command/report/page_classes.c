#include "report/page.h"

enum { MOST_METRICS = 40, MOST_LABELS = 60, MOST_MISTAKES = 20 };

/* ---- Metrics ---- */

static int ends_with(const char *text, const char *ending) {
    const size_t length = strlen(text), size = strlen(ending);
    return length >= size && !strcmp(text + length - size, ending);
}

/* True for a number of an evaluation that measures the model's quality, other than its loss. */
static int is_metric(const eitp_json *member) {
    static const char *const others[] = {"val_loss",   "val_perplexity", "val_time_s",
                                         "val_tokens", "val_samples",    "val_words"};
    int found =
        !strncmp(member->name, "val_", 4) && member->kind == EITP_JSON_NUMBER && !ends_with(member->name, "_error");
    for (size_t i = 0; i < COMMAND_COUNT(others); i++)
        found &= strcmp(member->name, others[i]) != 0;
    return found || !strcmp(member->name, "val_calibration_error");
}

static void add_metric(page *p, const eitp_json *record, const char *name) {
    char *error = command_format("%s_error", name);
    const double value = recorded_number(record, name), spread = recorded_number(record, error);
    text_format(&p->text, "<td class=\"n\">%s", chart_format_value(CHART_NUMBER, value, 4).text);
    if (isfinite(value) && isfinite(spread))
        text_format(&p->text, " \xC2\xB1 %s", chart_format_value(CHART_NUMBER, spread, 2).text);
    text_format(&p->text, "</td>");
    free(error);
}

static void add_metrics(page *p, const page_run *r) {
    const recorded_evaluation *last = recorded_last_evaluation(r->run), *best = recorded_best_evaluation(r->run);
    char *headings[3] = {command_copy("Metric"), NULL, NULL};
    int count = 0;
    best = best ? best : last;
    headings[1] = command_format("After step %lld", (long long)last->step);
    headings[2] = command_format("Lowest loss, after step %lld", (long long)best->step);
    page_open_table(p, "Validation metrics, with standard errors", (const char *const *)headings, best == last ? 2 : 3);
    for (const eitp_json *member = recorded_members(last->record); member && count < MOST_METRICS;
         member = member->next) {
        if (strcmp(member->name, "val_loss") && strcmp(member->name, "val_perplexity") && !is_metric(member))
            continue;
        text_format(&p->text, "<tr><th scope=\"row\">");
        page_add_words(p, member->name + 4);
        text_format(&p->text, "</th>");
        add_metric(p, last->record, member->name);
        if (best != last)
            add_metric(p, best->record, member->name);
        page_end_row(p);
        count++;
    }
    page_close_table(p);
    for (size_t i = 0; i < COMMAND_COUNT(headings); i++)
        free(headings[i]);
}

/* ---- Confusion ---- */

/* Reads names and counts; returns 0 if they do not fit together. */
static size_t read_confusion(const eitp_json *confusion, char **names, double *counts) {
    const eitp_json *labels = eitp_json_member(confusion, "labels"), *rows = eitp_json_member(confusion, "counts");
    const int has_others = recorded_number(confusion, "others") > 0;
    const size_t size = labels && labels->kind == EITP_JSON_ARRAY ? labels->count + (size_t)has_others : 0;
    size_t row = 0, named = 0;
    if (!recorded_items(rows) || rows->count != size || size > MOST_LABELS)
        return 0;
    for (const eitp_json *r = recorded_items(rows); r; r = r->next, row++) {
        size_t column = 0;
        for (const eitp_json *count = recorded_items(r); count && column < size; count = count->next)
            counts[row * size + column++] = count->kind == EITP_JSON_NUMBER ? count->number : (double)NAN;
        if (column != size)
            return 0;
    }
    for (const eitp_json *label = recorded_items(labels); label; label = label->next)
        names[named++] =
            command_copy(label->kind == EITP_JSON_STRING || label->kind == EITP_JSON_NUMBER ? label->text : "?");
    if (has_others)
        names[named] = command_copy("others");
    return size;
}

static void add_confusion(page *p, const eitp_json *evaluation) {
    char **names = (char **)command_allocate(MOST_LABELS * sizeof *names);
    double *counts = (double *)command_allocate((size_t)MOST_LABELS * MOST_LABELS * sizeof *counts);
    chart_matrix m;
    memset(&m, 0, sizeof m);
    m.size = read_confusion(eitp_json_member(evaluation, "confusion"), names, counts);
    if (m.size) {
        m.frame.id = page_chart_id(p);
        m.frame.title = "Confusion matrix";
        m.frame.description = "Rows are true labels, columns are predictions; the colour is the share of the row.";
        m.names = (const char *const *)names;
        m.counts = counts;
        m.row_title = "true";
        m.column_title = "predicted";
        text_format(&p->text,
                    "<figure><figcaption>Confusion matrix<small>after step %.0f; rows are true labels, columns are "
                    "predictions</small></figcaption>\n"
                    "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Confusion matrix\">",
                    recorded_number(evaluation, "step"));
        chart_add_matrix(&p->text, &m);
        text_format(&p->text, "</div></figure>\n");
    }
    for (size_t i = 0; i < m.size; i++)
        free(names[i]);
    free(names);
    free(counts);
}

/* Adds a line for each label instead of a matrix, if samples may have several. */
static void add_labels(page *p, const eitp_json *evaluation) {
    static const char *const headings[] = {"Label", "True", "Predicted", "Both"};
    static const char *const members[] = {"true", "predicted", "both"};
    const eitp_json *labels = eitp_json_member(evaluation, "labels");
    if (!recorded_items(labels) || labels->count > MOST_LABELS)
        return;
    page_open_table(p, "Samples with a label, predicted to have it, and both", headings, COMMAND_COUNT(headings));
    for (const eitp_json *label = recorded_items(labels); label; label = label->next) {
        page_begin_row(p, recorded_text(label, "label", "?"));
        for (size_t i = 0; i < COMMAND_COUNT(members); i++)
            page_add_number(p, CHART_STEPS, recorded_number(label, members[i]), 6);
        page_end_row(p);
    }
    page_close_table(p);
}

/* ---- Mistakes ---- */

static void add_mistake_cell(page *p, const eitp_json *mistake, const char *name) {
    const eitp_json *value = eitp_json_member(mistake, name);
    text_format(&p->text, strcmp(name, "text") ? "<td>" : "<td class=\"t\">");
    if (value && value->kind == EITP_JSON_NUMBER && !value->is_integer)
        text_format(&p->text, "%s", chart_format_value(CHART_NUMBER, value->number, 3).text);
    else if (value)
        page_add_json(p, value, 400);
    text_format(&p->text, "</td>");
}

static void add_mistakes(page *p, const eitp_json *evaluation) {
    static const char *const names[] = {"sample", "word", "label", "target", "predicted", "probability", "text"};
    static const char *const titles[] = {"Sample", "Word", "True label", "Target", "Predicted", "Probability", "Text"};
    const eitp_json *mistakes = eitp_json_member(evaluation, "mistakes");
    const char *headings[COMMAND_COUNT(names)];
    size_t used[COMMAND_COUNT(names)], columns = 0;
    int left = MOST_MISTAKES;
    if (!recorded_items(mistakes))
        return;
    for (size_t i = 0; i < COMMAND_COUNT(names); i++) {
        if (eitp_json_member(recorded_items(mistakes), names[i])) {
            headings[columns] = titles[i];
            used[columns++] = i;
        }
    }
    page_open_table(p, "Most confident mistakes of the last evaluation", headings, columns);
    for (const eitp_json *mistake = recorded_items(mistakes); mistake && left > 0; mistake = mistake->next, left--) {
        page_begin_row(p, NULL);
        for (size_t i = 0; i < columns; i++)
            add_mistake_cell(p, mistake, names[used[i]]);
        page_end_row(p);
    }
    page_close_table(p);
}

/* ---- The section ---- */

static int has_metrics(const recorded_run *r) {
    const recorded_evaluation *last = recorded_last_evaluation(r);
    for (const eitp_json *member = recorded_members(last ? last->record : NULL); member; member = member->next) {
        if (is_metric(member))
            return 1;
    }
    return 0;
}

void page_add_metrics(page *p) {
    page_add_metric_figures(p);
    for (size_t i = 0; i < p->run_count; i++) {
        const page_run *r = &p->runs[i];
        const eitp_json *confusion = run_details_last(&r->details, "confusion");
        const eitp_json *labels = run_details_last(&r->details, "labels");
        const eitp_json *mistakes = run_details_last(&r->details, "mistakes");
        if (!has_metrics(r->run) && !confusion && !labels && !mistakes)
            continue;
        page_add_name(p, r);
        text_format(&p->text, "<div class=\"grid\"><div>\n");
        if (has_metrics(r->run))
            add_metrics(p, r);
        text_format(&p->text, "</div><div>\n");
        if (confusion)
            add_confusion(p, confusion);
        if (labels)
            add_labels(p, labels);
        text_format(&p->text, "</div></div>\n");
        if (mistakes)
            add_mistakes(p, mistakes);
    }
}
