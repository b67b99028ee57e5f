#include "report/page.h"

#include "report/numbers.h"

typedef enum figure_kind {
    FIGURE_NOISY, /* smoothed */
    FIGURE_EXACT, /* as recorded */
    FIGURE_SHARE, /* 0 or 1 per step, drawn as the share of steps */
    FIGURE_LOSS   /* smoothed and large; the axis can be logarithmic */
} figure_kind;

/* A chart of one number of all runs, from steps or evaluations. */
typedef struct figure {
    const char *title;
    const char *key;   /* in step records; NULL: none */
    const char *value; /* in evaluations, with its error; NULL: none */
    const char *error;
    const char *remark; /* below the title; NULL: none */
    chart_format format;
    figure_kind kind;
    int has_zero;
} figure;

/* ---- The curves of a figure ---- */

enum { MOST_POINTS = 600, MOST_MARKS = 40 };

/* All curves of a figure, by step, run by run. */
typedef struct figure_curves {
    curve *curves;
    chart_series *series;
    size_t *run; /* of each series */
    size_t curve_count, count;
    text_buffer *labels; /* of the runs */
} figure_curves;

static void add_curve(figure_curves *f, size_t run, int colour, const char *label, const chart_point *points,
                      size_t count, chart_kind kind) {
    chart_series s;
    memset(&s, 0, sizeof s);
    s.label = label;
    s.points = points;
    s.count = count;
    s.colour = colour % CHART_COLOURS;
    s.kind = kind;
    if (!count)
        return;
    f->run[f->count] = run;
    f->series[f->count++] = s;
}

static void read_run(const page *p, const figure *g, figure_curves *f, size_t index) {
    const recorded_run *r = p->runs[index].run;
    const int is_alone = p->run_count == 1;
    curve_settings settings = {p->smoothing, p->every, MOST_POINTS, is_alone};
    text_buffer *labels = &f->labels[2 * index];
    if (g->kind == FIGURE_EXACT)
        settings.smoothing = 0;
    if (g->kind == FIGURE_SHARE) {
        settings.smoothing = settings.smoothing > 0.95 ? settings.smoothing : 0.95;
        settings.has_band = 0;
    }
    if (!is_alone)
        settings.most = MOST_POINTS * 2 / p->run_count > 120 ? MOST_POINTS * 2 / p->run_count : 120;
    text_format(&labels[0], "%.60s", is_alone ? (g->value ? "training" : g->title) : r->name);
    text_format(&labels[1], is_alone ? "validation" : "%.60s, validation", r->name);
    if (g->key) {
        curve *c = &f->curves[f->curve_count++];
        curve_read(r, g->key, &settings, c);
        add_curve(f, index, (int)index, labels[0].data, c->raw, c->raw_count, CHART_FAINT);
        add_curve(f, index, (int)index, labels[0].data, c->points, c->count,
                  c->count < 2            ? CHART_DOTS
                  : index < CHART_COLOURS ? CHART_LINE
                                          : CHART_DASHED);
    }
    if (g->value) {
        curve *c = &f->curves[f->curve_count++];
        curve_read_evaluations(r, g->value, g->error, c);
        add_curve(f, index, is_alone && g->key ? 1 : (int)index, g->key ? labels[1].data : labels[0].data, c->points,
                  c->count, CHART_DOTS);
    }
}

static void read_curves(const page *p, const figure *g, figure_curves *f) {
    memset(f, 0, sizeof *f);
    f->curves = (curve *)command_allocate(2 * p->run_count * sizeof *f->curves);
    f->series = (chart_series *)command_allocate(3 * p->run_count * sizeof *f->series);
    f->run = (size_t *)command_allocate(3 * p->run_count * sizeof *f->run);
    f->labels = (text_buffer *)command_allocate(2 * p->run_count * sizeof *f->labels);
    memset(f->labels, 0, 2 * p->run_count * sizeof *f->labels);
    for (size_t i = 0; i < p->run_count; i++)
        read_run(p, g, f, i);
}

static void release_curves(const page *p, figure_curves *f) {
    for (size_t i = 0; i < f->curve_count; i++)
        curve_release(&f->curves[i]);
    for (size_t i = 0; i < 2 * p->run_count; i++)
        text_release(&f->labels[i]);
    free(f->curves);
    free(f->series);
    free(f->run);
    free(f->labels);
}

/* ---- Marks ---- */

/* Returns the last alarms, warnings and resumes of a single run. The caller frees the labels and the array. */
static chart_mark *read_marks(const page *p, curve_x x, size_t *count) {
    const page_run *r = &p->runs[0];
    chart_mark *marks = (chart_mark *)command_allocate(MOST_MARKS * sizeof *marks);
    *count = 0;
    for (size_t i = r->run->event_count; i > 0 && *count < MOST_MARKS && p->run_count == 1; i--) {
        const recorded_event *e = &r->run->events[i - 1];
        const int is_alarm = !strcmp(e->kind, "alarm"), is_bad = !strcmp(e->level, "error") || is_alarm;
        if (!is_bad && strcmp(e->level, "warning") && strcmp(e->kind, "resumed"))
            continue;
        marks[*count].at = curve_place(&r->places, x, (double)e->step);
        marks[*count].label =
            command_format("%.20s: %.80s", is_alarm ? recorded_text(e->record, "alarm", "alarm") : e->kind, e->message);
        marks[(*count)++].is_alarming = is_bad;
    }
    return marks;
}

/* ---- Drawing ---- */

static void draw(page *p, const figure *g, const figure_curves *f, curve_x x, int is_logarithmic,
                 const chart_mark *levels, size_t level_count) {
    static const chart_format formats[CURVE_X_COUNT] = {CHART_COUNT, CHART_COUNT, CHART_SECONDS};
    const char *const titles[CURVE_X_COUNT] = {"step", recorded_unit(p->runs[0].run), "training time"};
    chart_series *series = (chart_series *)command_allocate(f->count * sizeof *series);
    chart_curves c;
    memset(&c, 0, sizeof c);
    for (size_t i = 0; i < f->count; i++) {
        series[i] = f->series[i];
        series[i].points = curve_points_on(series[i].points, series[i].count, &p->runs[f->run[i]].places, x);
    }
    c.frame.id = page_chart_id(p);
    c.frame.title = g->title;
    c.frame.height = g->kind == FIGURE_LOSS ? 300 : 0;
    c.x.title = titles[x];
    c.x.format = formats[x];
    c.x.has_zero = 1;
    c.y.format = g->format;
    c.y.is_logarithmic = is_logarithmic;
    c.y.has_zero = g->has_zero;
    c.series = series;
    c.series_count = f->count;
    c.marks = read_marks(p, x, &c.mark_count);
    c.levels = levels;
    c.level_count = level_count;
    chart_add_curves(&p->text, &c);
    for (size_t i = 0; i < c.mark_count; i++)
        free((void *)(uintptr_t)c.marks[i].label);
    free((void *)(uintptr_t)c.marks);
    for (size_t i = 0; i < f->count; i++)
        free((void *)(uintptr_t)series[i].points);
    free(series);
}

static int has_places(const page *p, curve_x x) {
    int every = 1;
    for (size_t i = 0; i < p->run_count; i++)
        every &= x == CURVE_STEP || p->runs[i].places.count[x] > 0;
    return every;
}

/* Adds a figure with a chart for each selectable axis; nothing without values. */
static void add_figure(page *p, const figure *g, const chart_mark *levels, size_t level_count) {
    const int has_logarithm = g->kind == FIGURE_LOSS;
    figure_curves f;
    read_curves(p, g, &f);
    if (f.count) {
        text_format(&p->text, "<figure><figcaption>");
        markup_text(&p->text, g->title);
        if (g->remark) {
            text_format(&p->text, "<small>");
            markup_text(&p->text, g->remark);
            text_format(&p->text, "</small>");
        }
        text_format(&p->text, "</figcaption>\n");
        for (int x = 0; x < CURVE_X_COUNT; x++) {
            for (int y = 0; y <= has_logarithm && has_places(p, (curve_x)x); y++) {
                const int is_first = x == (int)p->x && (!has_logarithm || y == p->is_logarithmic);
                text_format(&p->text, "<div class=\"v x%d y%c%s\">", x, !has_logarithm ? 'a' : '0' + y,
                            is_first ? " first" : "");
                draw(p, g, &f, (curve_x)x, y, levels, level_count);
                text_format(&p->text, "</div>\n");
            }
        }
        text_format(&p->text, "</figure>\n");
    }
    release_curves(p, &f);
}

static void add_figures(page *p, const figure *figures, size_t count) {
    const size_t begin = p->text.size;
    size_t content;
    text_format(&p->text, "<div class=\"grid\">\n");
    content = p->text.size;
    for (size_t i = 0; i < count; i++)
        add_figure(p, &figures[i], NULL, 0);
    if (p->text.size == content)
        p->text.size = begin;
    else
        text_format(&p->text, "</div>\n");
}

/* ---- Sections ---- */

void page_add_loss(page *p) {
    static const char alone[] =
        "Pale: single steps. Line: their smoothed mean. Dots: validation with its standard error";
    static const char several[] = "Line: smoothed mean of the steps. Dots: validation with its standard error";
    figure loss = {"Loss", "loss", "val_loss", "val_loss_error", alone, CHART_NUMBER, FIGURE_LOSS, 0};
    if (p->run_count > 1)
        loss.remark = several;
    add_figures(p, &loss, 1);
}

/* Returns the rest of a name after a prefix, or NULL. */
static const char *name_after(const char *name, const char *prefix) {
    const size_t length = strlen(prefix);
    return !strncmp(name, prefix, length) ? name + length : NULL;
}

/* True if an earlier run has the number. */
static int is_drawn(const page *p, size_t run, const char *name) {
    size_t count = 0;
    for (size_t i = 0; i < run && !count; i++)
        count = eitp_history_points(p->runs[i].run->history, name, NULL, 0);
    return count > 0;
}

/* Adds a figure of a loss term, or of a measure with its value in evaluations. */
static void add_term(page *p, const char *name) {
    const char *term = name_after(name, "loss_"), *measure = name_after(name, "metrics/");
    char *value = measure ? command_format("val_%s", measure) : NULL;
    char *error = measure ? command_format("val_%s_error", measure) : NULL;
    figure f = {NULL, NULL, NULL, NULL, NULL, CHART_NUMBER, FIGURE_NOISY, 0};
    f.title = term ? term : measure;
    f.key = name;
    f.value = value;
    f.error = error;
    f.remark = term ? "term of the loss, before its weight" : "measured";
    if (f.title && strcmp(name, "loss_scale") != 0)
        add_figure(p, &f, NULL, 0);
    free(value);
    free(error);
}

/* Adds the numbers of one kind from all runs. */
static void add_terms_of(page *p, const char *prefix) {
    for (size_t i = 0; i < p->run_count; i++) {
        const char *name;
        for (size_t k = 0; (name = eitp_history_name(p->runs[i].run->history, k)) != NULL; k++) {
            if (name_after(name, prefix) && !is_drawn(p, i, name))
                add_term(p, name);
        }
    }
}

void page_add_terms(page *p) {
    static const figure cap[] = {
        {"Gradient norm of the task", "task_grad_norm", NULL, NULL, NULL, CHART_NUMBER, FIGURE_NOISY, 1},
        {"Gradient norm of the regularizers", "regularizer_grad_norm", NULL, NULL, "before the cap", CHART_NUMBER,
         FIGURE_NOISY, 1},
        {"Factor of the regularizers", "regularizer_scale", NULL, NULL, "1 if the cap is not reached", CHART_NUMBER,
         FIGURE_NOISY, 1},
    };
    const size_t begin = p->text.size;
    size_t content;
    text_format(&p->text, "<div class=\"grid\">\n");
    content = p->text.size;
    add_terms_of(p, "loss_");
    add_terms_of(p, "metrics/");
    for (size_t i = 0; i < COMMAND_COUNT(cap); i++)
        add_figure(p, &cap[i], NULL, 0);
    if (p->text.size == content)
        p->text.size = begin;
    else
        text_format(&p->text, "</div>\n");
}

void page_add_metric_figures(page *p) {
    static const figure figures[] = {
        {"Accuracy", NULL, "val_accuracy", "val_accuracy_error", "on validation data, with its standard error",
         CHART_NUMBER, FIGURE_EXACT, 0},
        {"Macro F1", NULL, "val_macro_f1", "val_macro_f1_error", NULL, CHART_NUMBER, FIGURE_EXACT, 0},
        {"F1 of entities", NULL, "val_entity_f1", "val_entity_f1_error", NULL, CHART_NUMBER, FIGURE_EXACT, 0},
        {"Mean squared error", NULL, "val_mse", "val_mse_error", NULL, CHART_NUMBER, FIGURE_EXACT, 0},
        {"Pearson's correlation", NULL, "val_pearson", "val_pearson_error", NULL, CHART_NUMBER, FIGURE_EXACT, 0},
        {"Divergence of the latent variable", "spot/kl", "val_kl", "val_kl_error",
         "in nats per sample; spot evaluations, and evaluations with their standard error", CHART_NUMBER, FIGURE_EXACT,
         1},
        {"Active units of the latent variable", "spot/active_units", "val_active_units", "val_active_units_error",
         "with a mean that varies over samples", CHART_NUMBER, FIGURE_EXACT, 1},
        {"Mutual information of text and latent variable", "spot/mutual_information", "val_mutual_information",
         "val_mutual_information_error", "in nats", CHART_NUMBER, FIGURE_EXACT, 1},
        {"Reconstruction", "spot/reconstruction", "val_reconstruction", "val_reconstruction_error",
         "in nats per sample", CHART_NUMBER, FIGURE_EXACT, 0},
    };
    add_figures(p, figures, COMMAND_COUNT(figures));
}

void page_add_optimization(page *p) {
    static const figure figures[] = {
        {"Learning rate", "lr", NULL, NULL, NULL, CHART_NUMBER, FIGURE_EXACT, 1},
        {"Gradient norm", "grad_norm", NULL, NULL, "before clipping", CHART_NUMBER, FIGURE_NOISY, 1},
        {"Steps with clipped gradients", "clipped", NULL, NULL, "share of steps", CHART_NUMBER, FIGURE_SHARE, 1},
        {"Update norm", "update_norm", NULL, NULL, NULL, CHART_NUMBER, FIGURE_NOISY, 1},
        {"Parameter norm", "parameter_norm", NULL, NULL, NULL, CHART_NUMBER, FIGURE_EXACT, 0},
        {"Gradient noise scale", "gradient_noise_scale", NULL, NULL, "in samples", CHART_NUMBER, FIGURE_EXACT, 1},
    };
    add_figures(p, figures, COMMAND_COUNT(figures));
}

/* Parts of the time, in seconds. */
enum { PARTS = 8 };
static const struct {
    const char *name, *key;
    int is_interval; /* in performance records, not step records */
} parts[PARTS] = {{"data", "data_s", 0},
                  {"forward", "forward_s", 0},
                  {"backward", "backward_s", 0},
                  {"update", "update_s", 0},
                  {"transfer", "transfer_s", 0},
                  {"evaluation", "perf/evaluation_time", 1},
                  {"checkpoints", "perf/checkpoint_time", 1},
                  {"other", "other_s", 0}};

static double sum_of(const recorded_run *r, const char *key) {
    size_t count;
    eitp_history_point *points = recorded_points(r, key, &count);
    const double sum = numbers_total(points, count);
    free(points);
    return sum;
}

/* Before the first performance record, uses the times of evaluations. */
static double sum_of_evaluations(const recorded_run *r) {
    double sum = 0;
    for (size_t i = 0; i < r->all_evaluation_count; i++) {
        const double time = recorded_number(r->all_evaluations[i].record, "val_time_s");
        sum += isfinite(time) ? time : 0;
    }
    return sum;
}

static void add_shares_table(page *p, const double *values, const chart_bar *bars) {
    static const char *const headings[] = {"Run", "Part", "Time", "Share"};
    page_open_table(p, "Time breakdown", headings + (p->run_count == 1), COMMAND_COUNT(headings) - (p->run_count == 1));
    for (size_t i = 0; i < p->run_count; i++) {
        double sum = 0;
        for (size_t k = 0; k < PARTS; k++)
            sum += values[i * PARTS + k];
        for (size_t k = 0; k < PARTS; k++) {
            page_begin_row(p, p->run_count == 1 ? parts[k].name : bars[i].label);
            if (p->run_count > 1)
                page_add_cell(p, parts[k].name);
            page_add_number(p, CHART_SECONDS, values[i * PARTS + k], 3);
            page_add_number(p, CHART_PERCENT, sum > 0 ? 100 * values[i * PARTS + k] / sum : 0, 3);
            page_end_row(p);
        }
    }
    page_close_table(p);
}

static void add_shares(page *p) {
    const char *names[PARTS];
    chart_value *texts = (chart_value *)command_allocate(p->run_count * sizeof *texts);
    double *values = (double *)command_allocate(p->run_count * PARTS * sizeof *values);
    chart_bar *bars = (chart_bar *)command_allocate(p->run_count * sizeof *bars);
    double all = 0;
    chart_bars b;
    memset(&b, 0, sizeof b);
    for (size_t k = 0; k < PARTS; k++)
        names[k] = parts[k].name;
    for (size_t i = 0; i < p->run_count; i++) {
        const recorded_run *r = p->runs[i].run;
        double sum = 0;
        for (size_t k = 0; k < PARTS; k++) {
            double value = sum_of(r, parts[k].key);
            if (!strcmp(parts[k].name, "evaluation") && value <= 0)
                value = sum_of_evaluations(r);
            values[i * PARTS + k] = value;
            sum += value;
        }
        texts[i] = chart_format_value(CHART_SECONDS, sum, 3);
        bars[i].label = p->run_count == 1 ? "all steps and the time between them" : r->name;
        bars[i].text = texts[i].text;
        bars[i].values = &values[i * PARTS];
        all += sum;
    }
    b.frame.id = page_chart_id(p);
    b.frame.title = "Time breakdown";
    b.bars = bars;
    b.bar_count = p->run_count;
    b.segments = names;
    b.segment_count = PARTS;
    b.format = CHART_SECONDS;
    if (all > 0) {
        text_format(&p->text, "<figure><figcaption>Time breakdown</figcaption>\n");
        chart_add_bars(&p->text, &b);
        add_shares_table(p, values, bars);
        text_format(&p->text, "</figure>\n");
    }
    free(texts);
    free(values);
    free(bars);
}

void page_add_speed(page *p) {
    char rate[60], title[80];
    figure figures[] = {
        {"Step time", "step_time_s", NULL, NULL, NULL, CHART_SECONDS, FIGURE_NOISY, 1},
        {NULL, NULL, NULL, NULL, NULL, CHART_COUNT, FIGURE_NOISY, 1},
        {"Arithmetic", "perf/tflops", NULL, NULL, "TFLOP/s, without recomputation", CHART_NUMBER, FIGURE_EXACT, 1},
        {"Share of the peak matrix throughput", "perf/mfu", NULL, NULL, NULL, CHART_PERCENT, FIGURE_EXACT, 1},
        {"Wait for data", "perf/data_loading_ratio", NULL, NULL, "share of step time", CHART_PERCENT, FIGURE_EXACT, 1},
    };
    snprintf(rate, sizeof rate, "%s_per_s", recorded_unit(p->runs[0].run));
    snprintf(title, sizeof title, "%s per second", recorded_unit(p->runs[0].run));
    title[0] = (char)(title[0] >= 'a' && title[0] <= 'z' ? title[0] - 'a' + 'A' : title[0]);
    figures[1].key = rate;
    figures[1].title = title;
    add_figures(p, figures, COMMAND_COUNT(figures));
    add_shares(p);
}

/* ---- Memory ---- */

static void add_memory_table(page *p, const page_run *r) {
    static const char *const headings[] = {"Memory", "Size"};
    const eitp_json *plan = recorded_at(r->run->run, "plan");
    page_add_name(p, r);
    page_open_table(p, "Planned and available memory", headings, COMMAND_COUNT(headings));
    for (const eitp_json *part = recorded_members(plan); part; part = part->next) {
        text_format(&p->text, "<tr><th scope=\"row\">");
        page_add_words(p, part->name);
        text_format(&p->text, "</th><td class=\"n\">");
        page_add_json(p, part, 100);
        text_format(&p->text, "</td></tr>\n");
    }
    page_begin_row(p, "planned for the whole process");
    page_add_number(p, CHART_BYTES, recorded_number(r->run->run, "memory.planned_bytes"), 4);
    page_end_row(p);
    page_begin_row(p, "budget");
    page_add_number(p, CHART_BYTES, recorded_number(r->run->run, "memory.budget_bytes"), 4);
    page_end_row(p);
    page_begin_row(p, "usable by programs");
    page_add_number(p, CHART_BYTES, recorded_number(r->run->run, "machine.usable_bytes"), 4);
    page_end_row(p);
    page_begin_row(p, "left at the last check");
    page_add_number(p, CHART_BYTES, recorded_last(r->run, "mem/left_bytes"), 4);
    page_end_row(p);
    page_close_table(p);
}

/* Finds lines for the plan, the budget and the machine, except if the curve would look flat below them. */
static size_t find_levels(const recorded_run *r, chart_mark *levels) {
    static const struct {
        const char *path, *label;
        int is_limit;
    } lines[] = {{"run.memory.planned_bytes", "planned", 0},
                 {"run.memory.budget_bytes", "budget", 1},
                 {"run.machine.usable_bytes", "usable", 1}};
    const eitp_json *root = eitp_json_root(r->info);
    size_t count = 0;
    for (size_t i = 0; i < COMMAND_COUNT(lines); i++) {
        const double value = recorded_number(root, lines[i].path);
        if (isfinite(value) && value > 0 && value < 3 * recorded_last(r, "rss_bytes")) {
            levels[count].at = value;
            levels[count].label = lines[i].label;
            levels[count++].is_alarming = lines[i].is_limit;
        }
    }
    return count;
}

void page_add_memory(page *p) {
    static const figure memory = {"Memory of the process", "rss_bytes", NULL, NULL, NULL, CHART_BYTES, FIGURE_EXACT, 1};
    chart_mark levels[3];
    const size_t count = p->run_count == 1 ? find_levels(p->runs[0].run, levels) : 0;
    text_format(&p->text, "<div class=\"grid\">\n");
    add_figure(p, &memory, levels, count);
    text_format(&p->text, "<div>\n");
    for (size_t i = 0; i < p->run_count; i++)
        add_memory_table(p, &p->runs[i]);
    text_format(&p->text, "</div></div>\n");
}

void page_add_gpu(page *p) {
    static const figure figures[] = {
        {"GPU utilization", "gpu/utilization", NULL, NULL, "share of time in which kernels ran", CHART_PERCENT,
         FIGURE_EXACT, 1},
        {"GPU memory utilization", "gpu/memory_utilization", NULL, NULL, "share of time in which it was accessed",
         CHART_PERCENT, FIGURE_EXACT, 1},
        {"Memory allocated by the run", "gpu/allocated_gib", NULL, NULL, "in GiB", CHART_NUMBER, FIGURE_EXACT, 1},
        {"Memory of the process", "gpu/reserved_gib", NULL, NULL, "in GiB, on the GPU", CHART_NUMBER, FIGURE_EXACT, 1},
        {"Memory used by all programs", "gpu/memory_used_gib", NULL, NULL, "in GiB, on the GPU", CHART_NUMBER,
         FIGURE_EXACT, 1},
        {"Temperature", "gpu/celsius", NULL, NULL, "in degrees Celsius", CHART_NUMBER, FIGURE_EXACT, 0},
        {"Power", "gpu/power_w", NULL, NULL, "in watts", CHART_NUMBER, FIGURE_EXACT, 1},
        {"Energy per step", "gpu/step_energy_j", NULL, NULL, "in joules, including evaluations and checkpoints",
         CHART_NUMBER, FIGURE_EXACT, 1},
        {"Clock", "gpu/frequency_mhz", NULL, NULL, "in MHz", CHART_NUMBER, FIGURE_EXACT, 1},
    };
    add_figures(p, figures, COMMAND_COUNT(figures));
}
