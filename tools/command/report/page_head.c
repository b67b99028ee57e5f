#include "report/page.h"

#include "report/numbers.h"

/* ---- State ---- */

static const struct {
    const char *state, *words;
    int is_bad;
} states[] = {
    {"running", "is training", 0},
    {"paused", "is paused because the machine is too hot", 0},
    {"finished", "finished: all steps are done", 0},
    {"end_of_data", "reached the end of its data", 0},
    {"stopped", "was stopped on request", 0},
    {"early_stop", "stopped early: the validation loss stopped falling", 0},
    {"not_finite", "ended: numbers became non-finite", 1},
    {"memory_pressure", "ended: memory ran low", 1},
    {"diverged", "ended: the loss diverged", 1},
    {"failed", "failed", 1},
    {"killed or crashed", "was killed or crashed: its process is gone and no end is recorded", 1},
    {"machine restarted", "is gone: the machine has rebooted since, and no end is recorded", 1},
    {"on another machine", "was training on another machine, and no end is recorded", 0},
};

static void add_state(page *p, const recorded_run *r) {
    const char *state = recorded_state(r), *words = "has no recorded state";
    int is_bad = 0;
    for (size_t i = 0; i < COMMAND_COUNT(states); i++) {
        if (!strcmp(states[i].state, state)) {
            words = states[i].words;
            is_bad = states[i].is_bad;
        }
    }
    text_format(&p->text, "<span%s>%s</span>", is_bad ? " class=\"bad\"" : "", words);
}

static void add_steps(page *p, const recorded_run *r) {
    if (r->last_step > 0)
        text_format(&p->text, "step %lld of %lld", (long long)r->step, (long long)r->last_step);
    else
        text_format(&p->text, "step %lld", (long long)r->step);
}

/* ---- Figures of a run ---- */

/* Adds a value with its name and a remark below it. */
static void add_tile(page *p, const char *name, const char *value, const char *remark) {
    text_format(&p->text, "<div><dt>");
    markup_text(&p->text, name);
    text_format(&p->text, "</dt><dd>");
    markup_text(&p->text, value);
    if (*remark) {
        text_format(&p->text, "<small>");
        markup_text(&p->text, remark);
        text_format(&p->text, "</small>");
    }
    text_format(&p->text, "</dd></div>\n");
}

static void add_number_tile(page *p, const char *name, chart_format format, double value, const char *remark) {
    if (isfinite(value))
        add_tile(p, name, chart_format_value(format, value, 4).text, remark);
}

/* Adds the best value of a measure, with its standard error and step. */
static void add_best_tile(page *p, const char *name, double value, double error, int64_t step) {
    char remark[100];
    if (isfinite(error))
        snprintf(remark, sizeof remark, "\xC2\xB1 %s, after step %lld", chart_format_value(CHART_NUMBER, error, 2).text,
                 (long long)step);
    else
        snprintf(remark, sizeof remark, "after step %lld", (long long)step);
    add_number_tile(p, name, CHART_NUMBER, value, remark);
}

static void add_best(page *p, const page_run *r) {
    const recorded_evaluation *best = recorded_best_evaluation(r->run);
    best_metric kept;
    if (run_details_best(r->run, &r->details, &kept)) {
        char *name = command_format("Best %s", kept.name);
        add_best_tile(p, name, kept.value, kept.error, kept.step);
        free(name);
    }
    if (best)
        add_best_tile(p, "Best validation loss", best->loss, best->error, best->step);
}

/* Returns the sum over all steps, extrapolated from the recorded ones. */
static double total(const page_run *r, curve_x x) {
    return r->places.count[x] ? r->places.totals[x][r->places.count[x] - 1].y : (double)NAN;
}

static double sum_of(const recorded_run *r, const char *name) {
    size_t count;
    eitp_history_point *points = recorded_points(r, name, &count);
    const double sum = numbers_total(points, count);
    free(points);
    return sum;
}

static double peak_memory(const recorded_run *r) {
    size_t count;
    eitp_history_point *points = recorded_points(r, "rss_bytes", &count);
    double most = recorded_last(r, "mem/peak_bytes");
    for (size_t i = 0; i < count; i++)
        most = points[i].maximum > most || !isfinite(most) ? points[i].maximum : most;
    free(points);
    return most;
}

static void add_saved(page *p, const recorded_run *r) {
    const recorded_checkpoint *saved = recorded_last_checkpoint(r);
    char text[60];
    if (!saved) {
        add_tile(p, "Last checkpoint", "none", "");
        return;
    }
    snprintf(text, sizeof text, "step %lld", (long long)saved->step);
    add_tile(p, "Last checkpoint", text, page_time(saved->time).text);
}

static void add_tiles(page *p, const page_run *r) {
    const recorded_pace pace = recorded_run_pace(r->run);
    const char *unit = recorded_unit(r->run);
    char text[100];
    text_format(&p->text, "<dl class=\"tiles\">\n");
    add_number_tile(p, "Loss", CHART_NUMBER, recorded_last(r->run, "loss"), "in the last step");
    add_best(p, r);
    snprintf(text, sizeof text, "%s", unit);
    text[0] = (char)(text[0] >= 'a' && text[0] <= 'z' ? text[0] - 'a' + 'A' : text[0]);
    add_number_tile(p, text, CHART_COUNT, total(r, CURVE_ITEMS), "");
    add_number_tile(p, "Training time", CHART_SECONDS, total(r, CURVE_TIME), "including evaluations and checkpoints");
    snprintf(text, sizeof text, "%s_per_s", unit);
    if (isfinite(recorded_last(r->run, text))) {
        const chart_value rate =
            chart_format_value(CHART_COUNT, sum_of(r->run, unit) / sum_of(r->run, "step_time_s"), 3);
        snprintf(text, sizeof text, "%s per second of steps", unit);
        add_tile(p, "Rate", rate.text, text);
    }
    if (r->run->process.state == EITP_RUN_PROCESS_ALIVE)
        add_number_tile(p, "Time left", CHART_SECONDS, pace.left, "");
    add_number_tile(p, "Peak memory", CHART_BYTES, peak_memory(r->run), "");
    add_saved(p, r->run);
    text_format(&p->text, "</dl>\n");
}

/* ---- One run, several runs ---- */

static void add_notes(page *p, const page_run *r) {
    const eitp_json *notes = recorded_at(r->run->run, "notes");
    if (r->run->process.message[0]) {
        text_format(&p->text, "<p class=\"note\">");
        markup_text(&p->text, r->run->process.message);
        text_format(&p->text, "</p>\n");
    }
    if (notes && notes->kind == EITP_JSON_STRING && notes->text_size) {
        text_format(&p->text, "<p class=\"note\">");
        markup_short(&p->text, notes->text, notes->text_size, 1 << 16);
        text_format(&p->text, "</p>\n");
    }
    if (r->run->missing.size) {
        text_format(&p->text, "<p class=\"note\"><strong>What is missing.</strong>\n");
        markup_short(&p->text, r->run->missing.data, r->run->missing.size - 1, 1 << 14);
        text_format(&p->text, "</p>\n");
    }
}

static void add_run(page *p, const page_run *r) {
    text_format(&p->text, "<h1>");
    markup_text(&p->text, r->run->name);
    text_format(&p->text, "</h1>\n<p class=\"state\">This run ");
    add_state(p, r->run);
    text_format(&p->text, ", ");
    add_steps(p, r->run);
    text_format(&p->text, ".</p>\n<p class=\"muted\">");
    markup_text(&p->text, r->run->directory);
    text_format(&p->text, ", started %s", page_time(r->run->event_count ? r->run->events[0].time : 0).text);
    text_format(&p->text, "</p>\n");
    add_notes(p, r);
    add_tiles(p, r);
}

/* Adds the metric of --keep-best with its value, or "-". */
static void add_best_cell(page *p, const page_run *r) {
    best_metric kept;
    char *text = NULL;
    if (run_details_best(r->run, &r->details, &kept))
        text = command_format("%s %s", kept.name, chart_format_value(CHART_NUMBER, kept.value, 4).text);
    page_add_cell(p, text ? text : "-");
    free(text);
}

static int has_best_metric(const page *p) {
    best_metric kept;
    for (size_t i = 0; i < p->run_count; i++) {
        if (run_details_best(p->runs[i].run, &p->runs[i].details, &kept))
            return 1;
    }
    return 0;
}

static void add_runs(page *p) {
    static const char *const headings[] = {"Run",         "State",      "Step", "Loss", "Best validation loss",
                                           "Peak memory", "Best metric"};
    const int has_metric = has_best_metric(p);
    text_format(&p->text, "<h1>%zu runs</h1>\n", p->run_count);
    page_open_table(p, "The runs on this page", headings, COMMAND_COUNT(headings) - !has_metric);
    for (size_t i = 0; i < p->run_count; i++) {
        const recorded_run *r = p->runs[i].run;
        const recorded_evaluation *best = recorded_best_evaluation(r);
        page_begin_row(p, r->name);
        text_format(&p->text, "<td class=\"s\">");
        add_state(p, r);
        text_format(&p->text, "</td><td class=\"w\">");
        add_steps(p, r);
        text_format(&p->text, "</td>");
        page_add_number(p, CHART_NUMBER, recorded_last(r, "loss"), 4);
        page_add_number(p, CHART_NUMBER, best ? best->loss : (double)NAN, 4);
        page_add_number(p, CHART_BYTES, peak_memory(r), 4);
        if (has_metric)
            add_best_cell(p, &p->runs[i]);
        page_end_row(p);
    }
    page_close_table(p);
    for (size_t i = 0; i < p->run_count; i++) {
        const size_t begin = p->text.size;
        size_t content;
        text_format(&p->text, "<h2>");
        markup_text(&p->text, p->runs[i].run->name);
        text_format(&p->text, "</h2>\n");
        content = p->text.size;
        add_notes(p, &p->runs[i]);
        if (p->text.size == content)
            p->text.size = begin;
    }
}

void page_add_head(page *p) {
    if (p->run_count == 1)
        add_run(p, &p->runs[0]);
    else
        add_runs(p);
}
