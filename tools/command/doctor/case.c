#include "doctor/case.h"

#include "doctor/thresholds.h"
#include <signal.h>

/* ---- Records ---- */

double case_total(const doctor_case *c, const char *name) {
    size_t count;
    eitp_history_point *points = recorded_points(c->run, name, &count);
    double sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += (double)points[i].mean * (double)points[i].count;
    free(points);
    return isfinite(sum) ? sum : 0;
}

double case_mean(const doctor_case *c, const char *name) {
    size_t count;
    eitp_history_point *points = recorded_points(c->run, name, &count);
    double sum = 0, records = 0;
    for (size_t i = 0; i < count; i++) {
        sum += (double)points[i].mean * (double)points[i].count;
        records += (double)points[i].count;
    }
    free(points);
    return records > 0 ? sum / records : (double)NAN;
}

size_t case_events(const doctor_case *c, const char *kind) {
    size_t count = 0;
    for (size_t i = 0; i < c->run->event_count; i++)
        count += !strcmp(c->run->events[i].kind, kind);
    return count;
}

const recorded_event *case_alarm(const doctor_case *c, const char *name) {
    const recorded_event *found = NULL;
    for (size_t i = 0; i < c->run->event_count; i++) {
        const recorded_event *event = &c->run->events[i];
        if (!strcmp(event->kind, "alarm") && !strcmp(recorded_text(event->record, "alarm", ""), name))
            found = event;
    }
    return found;
}

double case_number(const doctor_case *c, const char *option) {
    return recorded_number(c->run->configuration, option);
}

const char *case_option(const doctor_case *c, const char *option) {
    return recorded_text(c->run->configuration, option, "");
}

const char *case_last_error(const doctor_case *c) {
    const eitp_json *lines = recorded_at(eitp_json_root(c->run->supervisor), "last_lines");
    const char *found = "";
    for (const eitp_json *line = recorded_items(lines); line; line = line->next) {
        if (line->kind == EITP_JSON_STRING && !strncmp(line->text, "error: ", 7))
            found = line->text;
    }
    return found;
}

static int compare_numbers(const void *a, const void *b) {
    const double left = *(const double *)a, right = *(const double *)b;
    return (left > right) - (left < right);
}

/* Returns the median of the means of at most DOCTOR_ENDS_POINTS points. */
static double median_of(const eitp_history_point *points, size_t count) {
    double values[DOCTOR_ENDS_POINTS];
    for (size_t i = 0; i < count; i++)
        values[i] = points[i].mean;
    qsort(values, count, sizeof *values, compare_numbers);
    return count % 2 ? values[count / 2] : 0.5 * (values[count / 2 - 1] + values[count / 2]);
}

/* Takes the first loss alone, of the untrained model: a median of several would hide a fast fall. */
static loss_summary summary_of_loss(const eitp_history_point *points, size_t count) {
    loss_summary summary = {(double)NAN, (double)NAN, (double)NAN, 0};
    const size_t used = count < DOCTOR_ENDS_POINTS ? count : (size_t)DOCTOR_ENDS_POINTS;
    if (!count)
        return summary;
    summary.first = points[0].mean;
    summary.last = median_of(points + count - used, used);
    summary.lowest = summary.last;
    for (size_t i = 0; i < count; i++) {
        summary.points += points[i].count;
        summary.lowest = points[i].mean < summary.lowest ? points[i].mean : summary.lowest;
    }
    return summary;
}

/* See doctor_case.falls. */
static double fall_at_end(const eitp_history_point *points, size_t count) {
    const size_t from = count - count / 3;
    double *values;
    eitp_trend trend;
    double fall = 0;
    if (count / 3 < DOCTOR_ENDS_POINTS)
        return 0;
    values = (double *)command_allocate((count - from) * sizeof *values);
    for (size_t i = from; i < count; i++)
        values[i - from] = points[i].mean;
    if (!eitp_trend_fit(NULL, values, count - from, &trend, NULL) && trend.slope < 0 && trend.p < DOCTOR_TREND_P)
        fall = -trend.slope * (double)(count - from);
    free(values);
    return fall;
}

/* Estimates the standard deviation of a series regardless of its trend, from the median distance of neighbours,
   assuming normal noise. */
static double noise_of(const eitp_history_point *points, size_t count) {
    double *distances = (double *)command_allocate(count * sizeof *distances), noise = HUGE_VAL;
    for (size_t i = 1; i < count; i++)
        distances[i - 1] = fabs((double)points[i].mean - (double)points[i - 1].mean);
    if (count > 1) {
        qsort(distances, count - 1, sizeof *distances, compare_numbers);
        noise = distances[(count - 1) / 2] / 0.954;
    }
    free(distances);
    return noise;
}

/* See doctor_case.fell. */
static void measure_fall(doctor_case *c, const eitp_history_point *points, size_t count) {
    double *steps = (double *)command_allocate((2 * count + 1) * sizeof *steps), *values = steps + count;
    const double at_once = c->loss.first - c->loss.last;
    eitp_trend trend;
    for (size_t i = 0; i < count; i++) {
        steps[i] = (double)points[i].step;
        values[i] = (double)points[i].mean;
    }
    if (at_once > DOCTOR_CLEAR_NOISE * noise_of(points, count))
        c->fell = at_once;
    if (!eitp_trend_fit(steps, values, count, &trend, NULL)) {
        const double length = steps[count - 1] - steps[0];
        if (trend.slope < 0 && trend.p < DOCTOR_FALL_P)
            c->fell = fmax(c->fell, -trend.slope * length);
        c->fell_at_most = fmax(-trend.slope_low * length, 0);
    }
    free(steps);
}

/* Evaluations use the same samples, so the model causes all of their difference. */
static void measure_fall_of_evaluations(doctor_case *c) {
    const recorded_evaluation *first = c->run->evaluation_count ? &c->run->evaluations[0] : NULL;
    const recorded_evaluation *best = recorded_best_evaluation(c->run);
    if (first && best && first->loss - best->loss > 0)
        c->fell = fmax(c->fell, first->loss - best->loss);
}

static void measure_losses(doctor_case *c) {
    size_t count, sizes;
    eitp_history_point *points = recorded_points(c->run, recorded_task_loss(c->run), &count);
    c->loss = summary_of_loss(points, count);
    c->falls = fall_at_end(points, count);
    measure_fall(c, points, count);
    measure_fall_of_evaluations(c);
    free(points);
    points = recorded_points(c->run, "parameter_norm", &sizes);
    if (sizes && points[0].mean > 0) {
        c->moved = case_total(c, "update_norm") / points[0].mean;
        c->grown = points[sizes - 1].mean / points[0].mean;
    }
    free(points);
}

/* ---- Time ---- */

/* Returns the number of samples read. Steps at the end of a run may have fewer. */
static double samples_read(const doctor_case *c) {
    const double step = recorded_number(c->run->run, "process.step");
    const double missing = c->samples * step - recorded_number(c->run->run, "process.samples");
    return c->samples * (double)c->run->step - (isfinite(missing) ? missing : 0);
}

static void measure_time(doctor_case *c) {
    static const char *const parts[] = {"perf/forward_time",      "perf/backward_time", "perf/optimizer_time",
                                        "perf/data_loading_time", "perf/transfer_time", "perf/other_time"};
    const eitp_json *run = c->run->run;
    for (size_t i = 0; i < COMMAND_COUNT(parts); i++)
        c->training += case_total(c, parts[i]);
    c->wall = case_total(c, "perf/wall_time");
    c->duration = fmax(c->wall, case_total(c, "step_time_s"));
    c->steps = case_total(c, "perf/steps");
    c->data = case_total(c, "perf/data_loading_time");
    c->transfer = case_total(c, "perf/transfer_time");
    c->checkpoint = case_total(c, "perf/checkpoint_time");
    c->evaluation = case_total(c, "perf/evaluation_time");
    c->samples = recorded_number(run, "plan.batch_size") * recorded_number(run, "plan.grad_accum");
    c->epochs = samples_read(c) / recorded_number(run, "data.training_samples");
    c->rows = recorded_number(run, "plan.batch_size") * recorded_number(run, "plan.micro_batches_per_pass") *
              recorded_number(run, "model.sample_tokens");
}

/* ---- Labels ---- */

/* Measures the labels of samples: a model that ignores the text can at best reach their entropy. */
static void measure_labels(doctor_case *c) {
    const eitp_json *labels = recorded_at(c->run->run, "data.labels");
    double sum = 0, most = 0, entropy = 0;
    c->labels = 0;
    for (const eitp_json *label = recorded_members(labels); label; label = label->next) {
        const double count = label->kind == EITP_JSON_NUMBER && label->number > 0 ? label->number : 0;
        sum += count;
        most = count > most ? count : most;
        c->labels += count > 0;
        entropy += count > 0 ? count * log(count) : 0;
    }
    if (!(sum > 0))
        return;
    c->majority = most / sum;
    if (!(case_number(c, "label-smoothing") > 0) && !strcmp(case_option(c, "class-weights"), "none"))
        c->base = log(sum) - entropy / sum;
}

static void measure_evaluations(doctor_case *c) {
    for (size_t i = 0; i < c->run->evaluation_count; i++) {
        const recorded_evaluation *evaluation = &c->run->evaluations[i];
        const double accuracy = recorded_number(evaluation->record, "val_accuracy");
        if (evaluation->step > 0 && isfinite(evaluation->loss) && (!c->best || evaluation->loss < c->best->loss))
            c->best = evaluation;
        if (evaluation->step > 0 && isfinite(accuracy) && !(accuracy <= c->accuracy)) {
            c->accuracy = accuracy;
            c->accuracy_error = recorded_number(evaluation->record, "val_accuracy_error");
        }
    }
}

static void measure_learning(doctor_case *c) {
    c->moved = c->grown = c->base = c->majority = c->labels = c->accuracy = c->accuracy_error = (double)NAN;
    c->fell_at_most = c->guessing = (double)NAN;
    c->is_pretrained = *case_option(c, "model") != 0;
    measure_losses(c);
    measure_evaluations(c);
    c->base = recorded_number(c->run->run, "data.unigram_entropy");
    if (isfinite(c->base))
        c->guessing = log(recorded_number(c->run->run, "model.vocabulary"));
    if (!isfinite(c->base) && isfinite(recorded_last(c->run, "samples")) && isfinite(c->accuracy))
        measure_labels(c);
}

/* ---- The end ---- */

/* Returns the last start by safe-train if it is the process in run.json, or if run.json has none. */
static const eitp_json *find_start(const recorded_run *r) {
    const eitp_json *starts = recorded_at(eitp_json_root(r->supervisor), "starts"), *last = NULL;
    const double alive = r->process.alive;
    double process;
    for (const eitp_json *start = recorded_items(starts); start; start = start->next)
        last = start;
    process = recorded_number(last, "process");
    if (!last || !isfinite(process))
        return NULL;
    /* There may be a shell between them; then the times must agree. */
    if (r->process.pid > 0 && process - (double)r->process.pid != 0 &&
        !(alive >= recorded_number(last, "time") && alive <= recorded_number(last, "end_time")))
        return NULL;
    return last;
}

static int is_crash(int number) {
    static const int crashes[] = {SIGSEGV, SIGBUS, SIGABRT, SIGILL, SIGFPE, SIGTRAP, SIGSYS};
    for (size_t i = 0; i < COMMAND_COUNT(crashes); i++) {
        if (number == crashes[i])
            return 1;
    }
    return 0;
}

/* Finds the end of a process that is gone although the machine has not rebooted. */
static doctor_end find_kill(doctor_case *c) {
    int is_memory = 0;
    double kills;
    if (is_crash(c->signal))
        return DOCTOR_END_CRASHED;
    c->kernel = kernel_says_of(c->run->process.pid, &is_memory);
    if (c->kernel)
        return is_memory ? DOCTOR_END_KERNEL : DOCTOR_END_CRASHED;
    kills = kernel_group_kills();
    if (kills > 0 && (!c->signal || c->signal == SIGKILL)) {
        c->kernel = command_format("oom_kill %.0f of this control group (memory.events)", kills);
        return DOCTOR_END_KERNEL;
    }
    return c->signal ? DOCTOR_END_KILLED : DOCTOR_END_VANISHED;
}

static int is_of_disk(const char *message) {
    static const char *const words[] = {"no space left", "ulimit -f", "quota", "File too large", "has space for"};
    for (size_t i = 0; i < COMMAND_COUNT(words); i++) {
        if (strstr(message, words[i]))
            return 1;
    }
    return 0;
}

static doctor_end find_recorded(const recorded_run *r) {
    static const struct {
        const char *name;
        doctor_end end;
    } ends[] = {{"finished", DOCTOR_END_FINISHED},       {"end_of_data", DOCTOR_END_OF_DATA},
                {"early_stop", DOCTOR_END_EARLY},        {"stopped", DOCTOR_END_STOPPED},
                {"not_finite", DOCTOR_END_NOT_FINITE},   {"diverged", DOCTOR_END_DIVERGED},
                {"memory_pressure", DOCTOR_END_PRESSURE}};
    for (size_t i = 0; i < COMMAND_COUNT(ends); i++) {
        if (!strcmp(r->process.recorded, ends[i].name))
            return ends[i].end;
    }
    if (!strcmp(r->process.recorded, "failed"))
        return is_of_disk(r->process.message) ? DOCTOR_END_DISK : DOCTOR_END_FAILED;
    return DOCTOR_END_UNKNOWN;
}

/* Finds the end of a run that safe-train started and that ended before writing a run.json. */
static doctor_end find_refusal(const doctor_case *c) {
    const double code = recorded_number(c->start, "exit_code");
    if (!(code > 0))
        return DOCTOR_END_UNKNOWN;
    if (c->signal)
        return is_crash(c->signal) ? DOCTOR_END_CRASHED : DOCTOR_END_KILLED;
    return code - COMMAND_NO_MEMORY == 0    ? DOCTOR_END_NO_ROOM
           : is_of_disk(case_last_error(c)) ? DOCTOR_END_DISK
                                            : DOCTOR_END_REFUSED;
}

static doctor_end find_end(doctor_case *c) {
    const recorded_run *r = c->run;
    const double code = recorded_number(c->start, "exit_code");
    c->signal = code > 128 && code < 128 + 65 ? (int)code - 128 : 0;
    if (r->process.state != EITP_RUN_PROCESS_ALIVE && !strncmp(recorded_text(c->start, "reason", ""), "stalled", 7))
        return DOCTOR_END_STALLED;
    switch (r->process.state) {
    case EITP_RUN_PROCESS_ALIVE:
        return !strcmp(r->process.recorded, "paused") ? DOCTOR_END_PAUSED : DOCTOR_END_RUNNING;
    case EITP_RUN_PROCESS_ENDED:
        return find_recorded(r);
    case EITP_RUN_PROCESS_VANISHED:
        return find_kill(c);
    case EITP_RUN_PROCESS_RESTARTED:
        return DOCTOR_END_RESTARTED;
    case EITP_RUN_PROCESS_ELSEWHERE:
        return DOCTOR_END_ELSEWHERE;
    default:
        return r->info ? DOCTOR_END_UNKNOWN : find_refusal(c);
    }
}

int case_is_over(const doctor_case *c) {
    const recorded_run *r = c->run;
    return c->end == DOCTOR_END_FINISHED || c->end == DOCTOR_END_OF_DATA || c->end == DOCTOR_END_EARLY ||
           (c->end == DOCTOR_END_UNKNOWN && r->last_step > 0 && r->step == r->last_step);
}

void case_open(doctor_case *c, const recorded_run *r) {
    memset(c, 0, sizeof *c);
    c->run = r;
    c->start = find_start(r);
    c->end = find_end(c);
    measure_time(c);
    measure_learning(c);
}

void case_close(doctor_case *c) {
    free(c->kernel);
    memset(c, 0, sizeof *c);
}
