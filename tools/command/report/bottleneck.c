#include "report/bottleneck.h"

#include "report/numbers.h"

/* Names of the parts, and the records that have them. */
static const struct {
    const char *name, *of_step, *perf;
} parts[BOTTLENECK_PARTS] = {
    {"data", "data_s", "perf/data_loading_time"},         {"forward", "forward_s", "perf/forward_time"},
    {"backward", "backward_s", "perf/backward_time"},     {"update", "update_s", "perf/optimizer_time"},
    {"transfer", "transfer_s", "perf/transfer_time"},     {"other", "other_s", "perf/other_time"},
    {"evaluation", "val_time_s", "perf/evaluation_time"}, {"checkpoints", "", "perf/checkpoint_time"},
};

const char *bottleneck_part_name(bottleneck_part part) {
    return parts[part].name;
}

/* ---- Times ---- */

/* Returns the sum of all records of a number, 0 without records. *records (may be NULL) is their number. */
static double sum_of(const recorded_run *r, const char *name, double *records) {
    size_t count;
    eitp_history_point *points = recorded_points(r, name, &count);
    const double sum = numbers_total(points, count);
    if (records)
        *records = 0;
    for (size_t i = 0; records && i < count; i++)
        *records += (double)points[i].count;
    free(points);
    return sum;
}

static double evaluation_seconds(const recorded_run *r) {
    double sum = 0;
    for (size_t i = 0; i < r->all_evaluation_count; i++) {
        const double seconds = recorded_number(r->all_evaluations[i].record, parts[BOTTLENECK_EVALUATION].of_step);
        sum += isfinite(seconds) && seconds > 0 ? seconds : 0;
    }
    return sum;
}

static double percent_of(double part, double whole) {
    return whole > 0 ? 100 * part / whole : 0;
}

/* Uses the performance records or the step times, whichever cover more steps: a killed run lacks its last performance
   record, and some runs have only step times. */
static void find_times(const recorded_run *r, bottleneck *b) {
    double of_steps, of_perf = sum_of(r, "perf/steps", NULL), lines = evaluation_seconds(r);
    sum_of(r, "forward_s", &of_steps);
    b->is_of_perf = of_perf > 0 && of_perf >= of_steps;
    of_steps = b->is_of_perf ? of_perf : of_steps;
    b->steps = of_steps < 9e18 ? (int64_t)of_steps : 0;
    for (int part = 0; part < BOTTLENECK_PARTS; part++) {
        const int is_perf = b->is_of_perf || part >= BOTTLENECK_STEP_PARTS;
        const double seconds = sum_of(r, is_perf ? parts[part].perf : parts[part].of_step, NULL);
        b->seconds[part] = isfinite(seconds) && seconds > 0 ? seconds : 0;
    }
    if (lines > b->seconds[BOTTLENECK_EVALUATION])
        b->seconds[BOTTLENECK_EVALUATION] = lines;
    for (int part = 0; part < BOTTLENECK_PARTS; part++) {
        b->step_seconds += part < BOTTLENECK_STEP_PARTS ? b->seconds[part] : 0;
        b->all_seconds += b->seconds[part];
    }
    for (int part = 0; part < BOTTLENECK_PARTS; part++) {
        b->of_all[part] = percent_of(b->seconds[part], b->all_seconds);
        if (part < BOTTLENECK_STEP_PARTS)
            b->of_steps[part] = percent_of(b->seconds[part], b->step_seconds);
    }
    b->has_times = b->step_seconds > 0;
}

/* ---- Rates ---- */

/* Returns the time-weighted mean of a rate, or NaN if it is not recorded. */
static double rate_over_time(const recorded_run *r, const char *name) {
    size_t count, times, steps, at_time = 0, at_steps = 0;
    eitp_history_point *rate = recorded_points(r, name, &count);
    eitp_history_point *time = recorded_points(r, "perf/step_time", &times);
    eitp_history_point *number = recorded_points(r, "perf/steps", &steps);
    double sum = 0, seconds = 0;
    for (size_t i = 0; i < count; i++) {
        double weight;
        while (at_time < times && time[at_time].step < rate[i].step)
            at_time++;
        while (at_steps < steps && number[at_steps].step < rate[i].step)
            at_steps++;
        if (at_time == times || at_steps == steps)
            break;
        weight = (double)time[at_time].mean * (double)number[at_steps].mean * (double)rate[i].count;
        if (weight > 0 && rate[i].mean > 0) {
            sum += weight * (double)rate[i].mean;
            seconds += weight;
        }
    }
    free(rate);
    free(time);
    free(number);
    return seconds > 0 ? sum / seconds : (double)NAN;
}

static double median_rate(const recorded_run *r, const char *name) {
    size_t count;
    eitp_history_point *points = recorded_points(r, name, &count);
    double *values = (double *)command_allocate((count + 1) * sizeof *values), median;
    for (size_t i = 0; i < count; i++)
        values[i] = (double)points[i].mean;
    median = numbers_quantile(values, count, 0.5);
    free(values);
    free(points);
    return median;
}

static void find_rates(const recorded_run *r, bottleneck *b) {
    const char *unit = recorded_unit(r);
    const double seconds = sum_of(r, "step_time_s", NULL), items = sum_of(r, unit, NULL);
    char name[64];
    snprintf(name, sizeof name, "%s_per_s", unit);
    b->items_per_s = seconds > 0 && items > 0 ? items / seconds : (double)NAN;
    b->median_items_per_s = median_rate(r, name);
    b->tflops = rate_over_time(r, "perf/tflops");
    b->mfu = rate_over_time(r, "perf/mfu");
    b->peak_tflops = b->mfu > 0 ? 100 * b->tflops / b->mfu : (double)NAN;
}

/* Estimates the arithmetic intensity of matrix products, from the rows of a pass, and of the update. */
static void find_intensity(const recorded_run *r, bottleneck *b) {
    const double batch = recorded_number(r->run, "plan.batch_size"),
                 tokens = recorded_number(r->run, "model.sample_tokens");
    const double merged = recorded_number(r->run, "plan.micro_batches_per_pass");
    const double parameters = recorded_number(r->run, "model.parameters");
    const double bytes = recorded_number(r->run, "plan.parameter_bytes");
    const double states = recorded_number(r->run, "plan.optimizer_bytes");
    b->rows_per_pass = batch > 0 && merged > 0 && tokens > 0 ? batch * merged * tokens : (double)NAN;
    b->flops_per_weight_byte = parameters > 0 && bytes > 0 ? 2 * b->rows_per_pass * parameters / bytes : (double)NAN;
    b->update_bytes = 2 * (bytes + states);
    b->update_gb_per_s = b->seconds[BOTTLENECK_UPDATE] > 0
                             ? 1e-9 * b->update_bytes * (double)b->steps / b->seconds[BOTTLENECK_UPDATE]
                             : (double)NAN;
}

/* ---- Limits ---- */

enum { SMALL_MFU = 40, SMALL_ROWS = 512 };

static bottleneck_finding *add_finding(bottleneck *b, const char *limit, double percent, double threshold,
                                       int is_of_steps) {
    bottleneck_finding *f = &b->findings[b->finding_count++];
    snprintf(f->limit, sizeof f->limit, "%s", limit);
    f->percent = percent;
    f->threshold = threshold;
    f->is_of_steps = is_of_steps;
    return f;
}

/* Returns "(now 20)", or "" if the setting is unknown. The string is valid until the second next call. */
static const char *setting_now(const recorded_run *r, const char *name) {
    static char texts[2][40];
    static int next;
    char *text = texts[next ^= 1];
    const double value = recorded_number(r->configuration, name);
    const char *word = recorded_text(r->configuration, name, NULL);
    *text = 0;
    if (word && strlen(word) < 20 && word[strspn(word, "abcdefghijklmnopqrstuvwxyz0123456789-_.")] == 0)
        snprintf(text, sizeof texts[0], " (now %s)", word);
    else if (isfinite(value))
        snprintf(text, sizeof texts[0], " (now %g)", value);
    return text;
}

static void advise(const recorded_run *r, bottleneck_part part, bottleneck_finding *f) {
    char *text = f->advice;
    const size_t size = sizeof f->advice;
    switch (part) {
    case BOTTLENECK_DATA:
        snprintf(text, size,
                 "read batches ahead with --data-workers%s, pack the data once with eitp pack, and keep the packed "
                 "file on a fast local disk",
                 setting_now(r, "data-workers"));
        break;
    case BOTTLENECK_EVALUATION:
        snprintf(text, size, "evaluate less often with --eval-steps%s, or on part of the data with --eval-frac",
                 setting_now(r, "eval-steps"));
        break;
    case BOTTLENECK_SAVING:
        snprintf(text, size, "save less often with --save-steps%s, and in the background with --async-save auto%s",
                 setting_now(r, "save-steps"), setting_now(r, "async-save"));
        break;
    case BOTTLENECK_TRANSFER:
        snprintf(text, size,
                 "variables are read from the offload file: offload less with --offload%s (a smaller --batch-size, "
                 "--recompute block or --precision bf16 frees memory for it), or put --offload-file on a faster disk",
                 setting_now(r, "offload"));
        break;
    case BOTTLENECK_UPDATE:
        snprintf(text, size,
                 "the update takes as long for a small batch as for a large one: use a larger --batch-size%s, or more "
                 "micro-batches with --grad-accum%s, combined by --micro-batches-per-pass 0",
                 setting_now(r, "batch-size"), setting_now(r, "grad-accum"));
        break;
    default:
        snprintf(text, size,
                 "neither data nor arithmetic: full records%s, callbacks of the program, or other programs that use "
                 "the processors",
                 setting_now(r, "monitor"));
    }
}

static int compare_findings(const void *a, const void *b) {
    const bottleneck_finding *left = (const bottleneck_finding *)a, *right = (const bottleneck_finding *)b;
    return (left->percent < right->percent) - (left->percent > right->percent);
}

static void find_small_passes(bottleneck *b) {
    bottleneck_finding *f;
    if (!(b->mfu < SMALL_MFU && b->rows_per_pass < SMALL_ROWS))
        return;
    f = add_finding(b, "small passes", b->mfu, SMALL_MFU, 0);
    snprintf(
        f->advice, sizeof f->advice,
        "matrix products with %.0f rows do not saturate the processors (%d or more do): use a larger --batch-size, or "
        "micro-batches combined by --micro-batches-per-pass 0; eitp bench step --sweep batch-size finds the best",
        b->rows_per_pass, (int)SMALL_ROWS);
}

static void note_compute(bottleneck *b) {
    const double percent =
        b->of_steps[BOTTLENECK_FORWARD] + b->of_steps[BOTTLENECK_BACKWARD] + b->of_steps[BOTTLENECK_UPDATE];
    bottleneck_finding *f = add_finding(b, "compute", percent, (double)NAN, 1);
    snprintf(f->advice, sizeof f->advice, "%s",
             b->mfu < SMALL_MFU ? "arithmetic and memory, but well below the peak of matrix products: the roofline "
                                  "shows which ops take the time; --profile-every records it during a run"
                                : "arithmetic: reduce it with a smaller model, shorter sequences or no recomputation; "
                                  "speed it up with --precision bf16 if the processor supports it");
}

static void find_limits(const recorded_run *r, bottleneck *b) {
    static const struct {
        bottleneck_part part;
        double threshold;
        int is_of_steps;
    } rules[] = {{BOTTLENECK_DATA, 20, 1},  {BOTTLENECK_TRANSFER, 20, 1},   {BOTTLENECK_UPDATE, 25, 1},
                 {BOTTLENECK_OTHER, 20, 1}, {BOTTLENECK_EVALUATION, 10, 0}, {BOTTLENECK_SAVING, 10, 0}};
    if (!b->has_times) {
        bottleneck_finding *f = add_finding(b, "unknown", (double)NAN, (double)NAN, 0);
        snprintf(f->advice, sizeof f->advice, "no step times are recorded; train with --monitor light to record them");
        return;
    }
    for (size_t i = 0; i < COMMAND_COUNT(rules); i++) {
        const bottleneck_part part = rules[i].part;
        const double percent = rules[i].is_of_steps ? b->of_steps[part] : b->of_all[part];
        if (percent > rules[i].threshold)
            advise(r, part, add_finding(b, parts[part].name, percent, rules[i].threshold, rules[i].is_of_steps));
    }
    qsort(b->findings, b->finding_count, sizeof *b->findings, compare_findings);
    find_small_passes(b);
    if (!b->finding_count)
        note_compute(b);
}

/* ---- Ops ---- */

static int compare_ops(const void *a, const void *b) {
    const bottleneck_op *left = (const bottleneck_op *)a, *right = (const bottleneck_op *)b;
    return (left->seconds < right->seconds) - (left->seconds > right->seconds);
}

static double profile_mean(const recorded_run *r, const char *op, const char *ending) {
    char name[128];
    double records, sum;
    snprintf(name, sizeof name, "profile/%s_%s", op, ending);
    sum = sum_of(r, name, &records);
    return records > 0 ? sum / records : (double)NAN;
}

/* Reads the name of an op from "profile/<phase>/<op>_s". Returns 0 for other names, such as rates. */
static int parse_op(const char *name, bottleneck_op *op) {
    static const char prefix[] = "profile/", rate[] = "_gb_per_s";
    const char *begin = name + sizeof prefix - 1;
    const size_t size = strlen(name);
    size_t length;
    if (strncmp(name, prefix, sizeof prefix - 1) || !strchr(begin, '/') || strcmp(name + size - 2, "_s"))
        return 0;
    length = (size_t)(name + size - 2 - begin);
    if ((size > sizeof rate && !strcmp(name + size - (sizeof rate - 1), rate)) || length >= sizeof op->name)
        return 0;
    snprintf(op->name, sizeof op->name, "%.*s", (int)length, begin);
    return 1;
}

static void find_ops(const recorded_run *r, bottleneck *b) {
    const double all = sum_of(r, "profile/step_time_s", NULL);
    const char *name;
    bottleneck_op op;
    memset(&op, 0, sizeof op);
    for (size_t i = 0; (name = eitp_history_name(r->history, i)) != NULL; i++) {
        if (!parse_op(name, &op))
            continue;
        op.seconds = sum_of(r, name, NULL);
        op.percent = percent_of(op.seconds, all);
        op.gflops = profile_mean(r, op.name, "gflops");
        op.gb_per_s = profile_mean(r, op.name, "gb_per_s");
        op.flops_per_byte = op.gb_per_s > 0 ? op.gflops / op.gb_per_s : (double)NAN;
        if (b->op_count == BOTTLENECK_OPS && op.seconds <= b->ops[BOTTLENECK_OPS - 1].seconds)
            continue;
        b->op_count += b->op_count < BOTTLENECK_OPS;
        b->ops[b->op_count - 1] = op;
        qsort(b->ops, b->op_count, sizeof *b->ops, compare_ops);
    }
}

/* ---- All of it ---- */

/* Appends " NAME VALUE", with the value quoted for a shell if necessary. Appends nothing if there is no room. */
static void add_argument(char *command, size_t size, const char *name, const char *value) {
    text_buffer t;
    memset(&t, 0, sizeof t);
    text_format(&t, " %s ", name);
    if (value[strspn(value, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./")] == 0) {
        text_format(&t, "%s", value);
    } else {
        text_format(&t, "'");
        for (; *value; value++)
            text_add(&t, *value == '\'' ? "'\\''" : value, *value == '\'' ? 4 : 1);
        text_format(&t, "'");
    }
    if (strlen(command) + t.size < size)
        memcpy(command + strlen(command), t.data, t.size + 1);
    text_release(&t);
}

/* Names a benchmark of the run's model: a checkpoint, or the model that it started from. */
static void name_roofline(const recorded_run *r, bottleneck *b) {
    const char *init = recorded_text(r->configuration, "init", recorded_text(r->configuration, "model", ""));
    const double tokens = recorded_number(r->run, "model.sample_tokens");
    const char *model = recorded_last_checkpoint(r) ? r->directory : init;
    char number[32];
    snprintf(b->roofline, sizeof b->roofline, "eitp bench step");
    if (*model)
        add_argument(b->roofline, sizeof b->roofline, "--model", model);
    if (tokens > 0 && tokens < 1e9) {
        snprintf(number, sizeof number, "%.0f", tokens);
        add_argument(b->roofline, sizeof b->roofline, "--block-size", number);
    }
    if (r->info) {
        char *path = command_format("%s/run.json", r->directory);
        add_argument(b->roofline, sizeof b->roofline, "--config", path);
        free(path);
    }
}

void bottleneck_make(const recorded_run *r, bottleneck *b) {
    memset(b, 0, sizeof *b);
    b->run = r;
    find_times(r, b);
    find_rates(r, b);
    find_intensity(r, b);
    find_limits(r, b);
    find_ops(r, b);
    name_roofline(r, b);
}

/* ---- Text ---- */

static void print_shares(const bottleneck *b, text_buffer *t) {
    text_format(t, "%lld steps, ", (long long)b->steps);
    numbers_add_seconds(t, b->step_seconds);
    text_format(t, " of steps, ");
    numbers_add_seconds(t, b->all_seconds);
    text_format(t, " of training; times %s\n", b->is_of_perf ? "from performance records" : "from step records");
    for (int part = 0; part < BOTTLENECK_PARTS; part++) {
        text_format(t, "  %-12s %12.3f s", parts[part].name, b->seconds[part]);
        if (part < BOTTLENECK_STEP_PARTS)
            text_format(t, " %6.1f %% of the steps", b->of_steps[part]);
        else
            text_format(t, " %6s %14s", "", "");
        text_format(t, " %6.1f %% of training\n", b->of_all[part]);
    }
    text_format(t, "data %.1f %%, compute %.1f %% of the steps\n", b->of_steps[BOTTLENECK_DATA],
                b->of_steps[BOTTLENECK_FORWARD] + b->of_steps[BOTTLENECK_BACKWARD] + b->of_steps[BOTTLENECK_UPDATE]);
}

static void print_rates(const bottleneck *b, text_buffer *t) {
    if (b->items_per_s > 0) {
        numbers_add_amount(t, b->items_per_s);
        text_format(t, " %s/s (median step ", recorded_unit(b->run));
        numbers_add_amount(t, b->median_items_per_s);
        text_format(t, ")\n");
    }
    if (b->tflops > 0)
        text_format(t, "%.4g TFLOP/s", b->tflops);
    if (b->tflops > 0 && b->mfu > 0)
        text_format(t, ", MFU %.1f %% of a peak of %.4g TFLOP/s", b->mfu, b->peak_tflops);
    text_format(t, b->tflops > 0 ? "\n" : "TFLOP/s and MFU are not recorded (--perf-every)\n");
    if (b->flops_per_weight_byte > 0)
        text_format(t, "%.0f rows per pass: each byte of weights is used for %.0f operations in a forward pass\n",
                    b->rows_per_pass, b->flops_per_weight_byte);
    if (b->update_gb_per_s > 0)
        text_format(t, "an update reads and writes at least %.4g MB, at %.3g GB/s\n", 1e-6 * b->update_bytes,
                    b->update_gb_per_s);
}

static void print_ops(const bottleneck *b, text_buffer *t) {
    if (!b->op_count)
        return;
    text_format(t, "ops of profiled steps:\n");
    for (size_t i = 0; i < b->op_count; i++) {
        const bottleneck_op *op = &b->ops[i];
        text_format(t, "  ");
        numbers_add_padding(t, numbers_add_text(t, op->name, sizeof op->name), 32);
        text_format(t, "%6.1f %%", op->percent);
        if (op->gflops > 0)
            text_format(t, " %10.4g GFLOP/s", op->gflops);
        if (op->flops_per_byte > 0)
            text_format(t, " %10.3g GB/s %8.3g operations per byte", op->gb_per_s, op->flops_per_byte);
        text_format(t, "\n");
    }
}

static void print_finding(const bottleneck_finding *f, const char *label, text_buffer *t) {
    text_format(t, "%s: %s", label, f->limit);
    if (isfinite(f->percent) && !strcmp(f->limit, "small passes"))
        text_format(t, ", MFU %.1f %% (below %.0f %%)", f->percent, f->threshold);
    else if (isfinite(f->percent))
        text_format(t, ", %.1f %% of %s", f->percent, f->is_of_steps ? "the steps" : "training");
    if (isfinite(f->threshold) && strcmp(f->limit, "small passes") != 0)
        text_format(t, " (above %.0f %%)", f->threshold);
    text_format(t, "; %s\n", f->advice);
}

void bottleneck_print(const bottleneck *b, text_buffer *t) {
    numbers_add_text(t, b->run->name, 200);
    text_format(t, ": ");
    if (b->has_times) {
        print_shares(b, t);
        print_rates(b, t);
    } else {
        text_format(t, "no times\n");
    }
    print_ops(b, t);
    for (size_t i = 0; i < b->finding_count; i++)
        print_finding(&b->findings[i], i ? "also" : "limit", t);
    text_format(t, "roofline: ");
    numbers_add_text(t, b->roofline, sizeof b->roofline);
    text_format(t, "\n");
}

/* ---- JSON ---- */

static void print_parts_json(const bottleneck *b, text_buffer *t) {
    text_json_name(t, "parts");
    text_format(t, "{");
    for (int part = 0; part < BOTTLENECK_PARTS; part++) {
        text_json_name(t, parts[part].name);
        text_format(t, "{");
        text_json_member_number(t, "seconds", b->seconds[part]);
        text_json_member_number(t, "percent", b->of_all[part]);
        if (part < BOTTLENECK_STEP_PARTS)
            text_json_member_number(t, "percent_of_steps", b->of_steps[part]);
        text_format(t, "}");
    }
    text_format(t, "}");
}

static void print_lists_json(const bottleneck *b, text_buffer *t) {
    text_json_name(t, "findings");
    text_format(t, "[");
    for (size_t i = 0; i < b->finding_count; i++) {
        const bottleneck_finding *f = &b->findings[i];
        text_format(t, i ? ", {" : "{");
        text_json_member_string(t, "limit", f->limit);
        text_json_member_number(t, "percent", f->percent);
        text_json_member_number(t, "threshold", f->threshold);
        text_json_member_string(t, "of", f->is_of_steps ? "steps" : "training");
        text_json_member_string(t, "advice", f->advice);
        text_format(t, "}");
    }
    text_format(t, "]");
    text_json_name(t, "ops");
    text_format(t, "[");
    for (size_t i = 0; i < b->op_count; i++) {
        text_format(t, i ? ", {" : "{");
        text_json_member_string(t, "op", b->ops[i].name);
        text_json_member_number(t, "seconds", b->ops[i].seconds);
        text_json_member_number(t, "percent", b->ops[i].percent);
        text_json_member_number(t, "gflops", b->ops[i].gflops);
        text_json_member_number(t, "gb_per_s", b->ops[i].gb_per_s);
        text_json_member_number(t, "flops_per_byte", b->ops[i].flops_per_byte);
        text_format(t, "}");
    }
    text_format(t, "]");
}

void bottleneck_print_json(const bottleneck *b, text_buffer *t) {
    text_format(t, "{");
    text_json_member_string(t, "run", b->run->name);
    text_json_member_string(t, "directory", b->run->directory);
    text_json_member_integer(t, "steps", b->steps);
    text_json_member_string(t, "source", b->is_of_perf ? "perf" : "steps");
    text_json_member_number(t, "step_seconds", b->step_seconds);
    text_json_member_number(t, "seconds", b->all_seconds);
    print_parts_json(b, t);
    text_json_member_string(t, "unit", recorded_unit(b->run));
    text_json_member_number(t, "items_per_s", b->items_per_s);
    text_json_member_number(t, "median_items_per_s", b->median_items_per_s);
    text_json_member_number(t, "tflops", b->tflops);
    text_json_member_number(t, "mfu", b->mfu);
    text_json_member_number(t, "peak_tflops", b->peak_tflops);
    text_json_member_number(t, "rows_per_pass", b->rows_per_pass);
    text_json_member_number(t, "flops_per_weight_byte", b->flops_per_weight_byte);
    text_json_member_number(t, "update_bytes", b->update_bytes);
    text_json_member_number(t, "update_gb_per_s", b->update_gb_per_s);
    print_lists_json(b, t);
    text_json_member_string(t, "roofline", b->roofline);
    text_format(t, "}");
}
