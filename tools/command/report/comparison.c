#include "report/comparison.h"

#include "report/numbers.h"

/* Part of the common range over which training losses are averaged; up to four times as much in short runs, for enough
   points. */
#define LAST_PART 0.1

enum { LEAST_POINTS = 16 };

static double axis_of(const run_totals *totals, comparison_axis axis, double step) {
    return axis == COMPARISON_ITEMS ? run_totals_items(totals, step) : run_totals_seconds(totals, step);
}

/* ---- Validation ---- */

/* A loss at some items or seconds. */
typedef struct loss_at {
    double x, loss, error;
} loss_at;

/* Returns the evaluations of a run, in ascending order of items or seconds. The caller frees them. */
static loss_at *list_evaluations(const comparison_run *r, comparison_axis axis, size_t *count) {
    const recorded_run *run = r->run;
    loss_at *list = (loss_at *)command_allocate((run->evaluation_count + 1) * sizeof *list);
    *count = 0;
    for (size_t i = 0; i < run->evaluation_count; i++) {
        const recorded_evaluation *e = &run->evaluations[i];
        const double x = axis_of(&r->totals, axis, (double)e->step);
        if (e->step < 0 || !isfinite(e->loss) || !isfinite(x))
            continue;
        while (*count && list[*count - 1].x >= x) /* evaluated again, after a resume */
            --*count;
        list[*count].x = x;
        list[*count].loss = e->loss;
        list[(*count)++].error = e->error >= 0 ? e->error : (double)NAN;
    }
    return list;
}

/* Finds the loss at x. Returns 0 if x is not between two evaluations, 2 if the loss is interpolated, otherwise 1.
   Errors are interpolated like losses: all evaluations of a run use the same samples, so errors do not average out. */
static int loss_between(const loss_at *list, size_t count, double x, loss_at *found) {
    for (size_t i = 0; i < count; i++) {
        double part;
        if (list[i].x < x)
            continue;
        if (list[i].x <= x) {
            *found = list[i];
            return 1;
        }
        if (!i)
            return 0;
        part = (x - list[i - 1].x) / (list[i].x - list[i - 1].x);
        found->x = x;
        found->loss = list[i - 1].loss + part * (list[i].loss - list[i - 1].loss);
        found->error = list[i - 1].error + part * (list[i].error - list[i - 1].error);
        return 2;
    }
    return 0;
}

static void judge(comparison_difference *d, double baseline_error, double error, int is_comparable) {
    d->difference = d->value - d->baseline;
    d->error = sqrt(baseline_error * baseline_error + error * error);
    d->z = d->error > 0 ? d->difference / d->error : (double)NAN;
    d->verdict = COMPARISON_UNKNOWN;
    if (is_comparable && isfinite(d->z))
        d->verdict = fabs(d->z) < 2 ? COMPARISON_EQUAL : d->z < 0 ? COMPARISON_BETTER : COMPARISON_WORSE;
}

static void forget(comparison_difference *d) {
    memset(d, 0, sizeof *d);
    d->from = d->to = d->baseline = d->value = d->difference = d->error = d->z = (double)NAN;
}

/* Compares at the last evaluation of the run that is less far. */
static void compare_evaluations(const comparison_run *baseline, const comparison_run *run, comparison_axis axis,
                                int is_comparable, comparison_difference *d) {
    size_t count, baseline_count;
    loss_at *baseline_list = list_evaluations(baseline, axis, &baseline_count);
    loss_at *list = list_evaluations(run, axis, &count);
    loss_at a = {0, 0, 0}, b = {0, 0, 0};
    forget(d);
    if (count && baseline_count) {
        const double end = list[count - 1].x, baseline_end = baseline_list[baseline_count - 1].x;
        const double x = end < baseline_end ? end : baseline_end;
        const int of_a = loss_between(baseline_list, baseline_count, x, &a), of_b = loss_between(list, count, x, &b);
        d->is_known = of_a && of_b;
        d->is_interpolated = of_a == 2 || of_b == 2;
        if (d->is_known) {
            d->from = d->to = x;
            d->baseline = a.loss;
            d->value = b.loss;
            judge(d, a.error, b.error, is_comparable);
        }
    }
    free(baseline_list);
    free(list);
}

/* ---- Training ---- */

/* Returns the mean training loss after `from` items or seconds, up to `to`. */
static numbers_mean average_loss(const comparison_run *r, comparison_axis axis, double from, double to) {
    size_t count, used = 0;
    eitp_history_point *points = recorded_points(r->run, recorded_task_loss(r->run), &count);
    double *values = (double *)command_allocate((count + 1) * sizeof *values);
    numbers_mean mean;
    for (size_t i = 0; i < count; i++) {
        const double x = axis_of(&r->totals, axis, (double)points[i].step);
        if (x > from && x <= to)
            values[used++] = (double)points[i].mean;
    }
    mean = numbers_average(values, used);
    free(values);
    free(points);
    return mean;
}

static void compare_training(const comparison_run *baseline, const comparison_run *run, comparison_axis axis,
                             int is_comparable, comparison_difference *d) {
    const double baseline_end = axis_of(&baseline->totals, axis, run_totals_end(&baseline->totals));
    const double end = axis_of(&run->totals, axis, run_totals_end(&run->totals));
    const double to = end < baseline_end ? end : baseline_end;
    double part = 0.5 * LAST_PART;
    numbers_mean a, b;
    forget(d);
    if (!(to > 0))
        return;
    do {
        part *= 2;
        a = average_loss(baseline, axis, to * (1 - part), to);
        b = average_loss(run, axis, to * (1 - part), to);
    } while ((a.count < LEAST_POINTS || b.count < LEAST_POINTS) && part < 4 * LAST_PART);
    if (!a.count || !b.count)
        return;
    d->is_known = 1;
    d->from = to * (1 - part);
    d->to = to;
    d->baseline = a.mean;
    d->value = b.mean;
    judge(d, a.error, b.error, is_comparable);
}

/* ---- The same loss ---- */

/* Returns the interpolated position where the loss is first at most `loss`, or NaN if nowhere. */
static double reach(const comparison_run *r, comparison_axis axis, double loss) {
    size_t count;
    loss_at *list = list_evaluations(r, axis, &count);
    double x = (double)NAN;
    for (size_t i = 0; i < count && isnan(x); i++) {
        if (list[i].loss > loss)
            continue;
        x = list[i].x;
        if (i && list[i].loss < loss)
            x -= (x - list[i - 1].x) * (loss - list[i].loss) / (list[i - 1].loss - list[i].loss);
    }
    free(list);
    return x;
}

static void compare_times(const comparison_run *baseline, const comparison_run *run, comparison_pair *pair) {
    const recorded_evaluation *a = recorded_best_evaluation(baseline->run), *b = recorded_best_evaluation(run->run);
    pair->loss = pair->baseline_seconds = pair->seconds = pair->baseline_items = pair->items = (double)NAN;
    if (!a || !b || pair->validation == COMPARISON_VALIDATION_DIFFERENT)
        return;
    pair->loss = a->loss > b->loss ? a->loss : b->loss;
    pair->baseline_seconds = reach(baseline, COMPARISON_SECONDS, pair->loss);
    pair->seconds = reach(run, COMPARISON_SECONDS, pair->loss);
    if (!pair->is_same_unit)
        return;
    pair->baseline_items = reach(baseline, COMPARISON_ITEMS, pair->loss);
    pair->items = reach(run, COMPARISON_ITEMS, pair->loss);
}

/* ---- Comparability ---- */

static int are_alike(const recorded_run *a, const recorded_run *b, const char *path) {
    return setting_differences_are_equal(recorded_at(eitp_json_root(a->info), path),
                                         recorded_at(eitp_json_root(b->info), path));
}

static int are_all_alike(const recorded_run *a, const recorded_run *b, const char *const *paths, size_t count) {
    for (size_t i = 0; i < count; i++) {
        if (!are_alike(a, b, paths[i]))
            return 0;
    }
    return 1;
}

/* Returns the number of items in the last evaluation, or NaN if unknown. */
static double evaluated(const recorded_run *r) {
    const recorded_evaluation *last = recorded_last_evaluation(r);
    char name[64];
    snprintf(name, sizeof name, "val_%s", recorded_unit(r));
    return last ? recorded_number(last->record, name) : (double)NAN;
}

/* True if --task auto means the same task for both: it depends on the model type. */
static int predict_alike(const recorded_run *a, const recorded_run *b) {
    const char *left = recorded_text(a->run, "model.type", ""), *right = recorded_text(b->run, "model.type", "");
    return !strcmp(left, "gpt2") == !strcmp(right, "gpt2");
}

static comparison_validation compare_validation(const recorded_run *a, const recorded_run *b, text_buffer *notes) {
    static const char *const tokenizers[] = {"run.model.vocabulary", "run.data.tokens_per_byte"};
    static const char *const amounts[] = {"run.data.validation_samples", "run.data.validation_tokens"};
    static const char *const choices[] = {
        "configuration.data", "configuration.val-data",     "configuration.val-fraction", "configuration.block-size",
        "configuration.seed", "configuration.eval-windows", "configuration.eval-frac"};
    const int is_recorded = recorded_at(a->run, "data") && recorded_at(b->run, "data");
    if (strcmp(recorded_unit(a), recorded_unit(b)) != 0 ||
        (is_recorded && !(are_alike(a, b, "configuration.task") && predict_alike(a, b)))) {
        text_format(notes, "the tasks differ: losses cannot be compared\n");
        return COMPARISON_VALIDATION_DIFFERENT;
    }
    if (!is_recorded) {
        text_format(notes, "the records do not show whether the validation data is the same\n");
        return COMPARISON_VALIDATION_UNKNOWN;
    }
    if (!are_alike(a, b, amounts[0]) || !are_alike(a, b, amounts[1])) {
        text_format(notes, "the validation data differs: validation losses cannot be compared\n");
        return COMPARISON_VALIDATION_DIFFERENT;
    }
    if (!are_all_alike(a, b, tokenizers, COMMAND_COUNT(tokenizers))) {
        text_format(notes, "the tokenizers or the data differ: losses per %s cannot be compared\n",
                    strcmp(recorded_unit(a), "tokens") ? "item" : "token");
        return COMPARISON_VALIDATION_DIFFERENT;
    }
    if (are_all_alike(a, b, choices, COMMAND_COUNT(choices)) && evaluated(a) == evaluated(b)) {
        text_format(notes, "both were evaluated on the same samples: their errors are correlated, so the error of the "
                           "difference of validation losses is an upper bound\n");
        return COMPARISON_VALIDATION_SAME;
    }
    text_format(notes, "the validation samples may differ: their errors are treated as independent\n");
    return COMPARISON_VALIDATION_OTHER;
}

static void note_begin(const comparison_run *r, text_buffer *notes) {
    if (!r->totals.items.count || !r->totals.times.count) {
        numbers_add_text(notes, r->label, 80);
        text_format(notes, ": no steps are recorded, so its progress at the evaluations is unknown\n");
        return;
    }
    if (!(r->totals.begin > 0))
        return;
    numbers_add_text(notes, r->label, 80);
    text_format(notes, ": records start after step %.0f; its %s and time count from there\n", r->totals.begin, r->unit);
}

static void note_limits(const comparison_run *a, const comparison_run *b, comparison_pair *pair) {
    static const char *const machine[] = {"run.machine.host", "run.machine.processor", "run.machine.usable_processors"};
    const double before = recorded_number(a->run->run, "model.parameters");
    const double parameters = recorded_number(b->run->run, "model.parameters");
    text_buffer *notes = &pair->notes;
    if (!pair->is_same_unit)
        text_format(notes, "one counts %s, the other %s: they cannot be compared at equal amounts\n", a->unit, b->unit);
    if (isfinite(before) && isfinite(parameters) && (before < parameters || before > parameters)) {
        text_format(notes, "the models differ: ");
        numbers_add_amount(notes, parameters);
        text_format(notes, " parameters against ");
        numbers_add_amount(notes, before);
        text_format(notes, "\n");
    }
    if (!are_all_alike(a->run, b->run, machine, COMMAND_COUNT(machine)))
        text_format(notes, "the machines differ or are not recorded: times may differ regardless of the settings\n");
    note_begin(a, notes);
    note_begin(b, notes);
}

/* ---- All of it ---- */

static void find_rate(comparison_run *r) {
    size_t count;
    eitp_history_point *points;
    double *values;
    char name[64];
    snprintf(name, sizeof name, "%s_per_s", r->unit);
    points = recorded_points(r->run, name, &count);
    values = (double *)command_allocate((count + 1) * sizeof *values);
    for (size_t i = 0; i < count; i++)
        values[i] = (double)points[i].mean;
    r->rate = numbers_quantile(values, count, 0.5);
    r->rate_low = numbers_quantile(values, count, 0.25);
    r->rate_high = numbers_quantile(values, count, 0.75);
    free(values);
    free(points);
}

/* Returns the largest value of a number, or NaN if it has no records. */
static double largest_of(const recorded_run *r, const char *name) {
    size_t count;
    eitp_history_point *points = recorded_points(r, name, &count);
    double largest = (double)NAN;
    for (size_t i = 0; i < count; i++)
        largest = (double)points[i].maximum <= largest ? largest : (double)points[i].maximum;
    free(points);
    return largest;
}

static void open_run(const recorded_run *runs, size_t count, size_t at, comparison_run *r) {
    const char *label = runs[at].name;
    r->run = &runs[at];
    for (size_t i = 0; i < count; i++) {
        if (i != at && !strcmp(runs[i].name, runs[at].name))
            label = runs[at].directory;
    }
    r->label = command_copy(label);
    r->unit = recorded_unit(r->run);
    run_totals_make(r->run, &r->totals);
    r->items = run_totals_items(&r->totals, HUGE_VAL);
    r->seconds = run_totals_seconds(&r->totals, HUGE_VAL);
    find_rate(r);
    r->peak_bytes = largest_of(r->run, "mem/peak_bytes");
    if (isnan(r->peak_bytes))
        r->peak_bytes = largest_of(r->run, "rss_bytes");
}

static void compare_pair(const comparison_run *baseline, const comparison_run *run, comparison_pair *pair) {
    pair->is_same_unit = !strcmp(baseline->unit, run->unit);
    pair->validation = compare_validation(baseline->run, run->run, &pair->notes);
    for (int axis = 0; axis < COMPARISON_AXES; axis++) {
        const int is_comparable = pair->validation != COMPARISON_VALIDATION_DIFFERENT;
        comparison_difference *validation = &pair->differences[COMPARISON_VALIDATION][axis];
        comparison_difference *training = &pair->differences[COMPARISON_TRAINING][axis];
        forget(validation);
        forget(training);
        if (axis == COMPARISON_ITEMS && !pair->is_same_unit)
            continue;
        compare_evaluations(baseline, run, (comparison_axis)axis, is_comparable, validation);
        compare_training(baseline, run, (comparison_axis)axis, is_comparable, training);
    }
    pair->speed = pair->is_same_unit && baseline->rate > 0 ? run->rate / baseline->rate : (double)NAN;
    pair->memory = baseline->peak_bytes > 0 ? run->peak_bytes / baseline->peak_bytes : (double)NAN;
    compare_times(baseline, run, pair);
    note_limits(baseline, run, pair);
}

void comparison_make(const recorded_run *runs, size_t count, comparison *c) {
    memset(c, 0, sizeof *c);
    c->count = count;
    c->runs = (comparison_run *)command_allocate(count * sizeof *c->runs);
    c->pairs = (comparison_pair *)command_allocate(count * sizeof *c->pairs);
    for (size_t i = 0; i < count; i++)
        open_run(runs, count, i, &c->runs[i]);
    for (size_t i = 1; i < count; i++)
        compare_pair(&c->runs[0], &c->runs[i], &c->pairs[i - 1]);
    setting_differences_make(runs, count, &c->settings);
}

void comparison_release(comparison *c) {
    for (size_t i = 0; i < c->count; i++) {
        free(c->runs[i].label);
        run_totals_release(&c->runs[i].totals);
        text_release(&c->pairs[i].notes);
    }
    free(c->runs);
    free(c->pairs);
    setting_differences_release(&c->settings);
    memset(c, 0, sizeof *c);
}
