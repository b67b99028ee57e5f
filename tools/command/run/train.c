/* eitp train: the lines of a run, and its end. */
#include "output.h"
#include "plan/suggestion.h"
#include "process.h"
#include "run/post_save.h"
#include "run/resume.h"
#include "run/run.h"

/* The metrics that the last line has. */
#define SHOWN_METRICS 2

typedef struct training {
    training_run *r;
    eitp_run_report report;
    post_save post_save;
    int64_t logged_items; /* since the last line */
    double logged_seconds;
    double shown; /* time of the last line */
} training;

/* ---- Lines ---- */

static void format_time(double seconds, char *text, size_t size) {
    long total = (long)(seconds + 0.5);
    if (!(seconds < 1e8))
        snprintf(text, size, "?");
    else if (total >= 86400)
        snprintf(text, size, "%ldd%02ldh", total / 86400, total / 3600 % 24);
    else if (total >= 3600)
        snprintf(text, size, "%ldh%02ldm", total / 3600, total / 60 % 60);
    else
        snprintf(text, size, "%ldm%02lds", total / 60, total % 60);
}

/* "1.2345", or "not finite" */
static void format_loss(double loss, char *text, size_t size) {
    if (isfinite(loss))
        snprintf(text, size, "%.4f", loss);
    else
        snprintf(text, size, "not finite");
}

/* The same with three digits. */
static void format_norm(double norm, char *text, size_t size) {
    if (isfinite(norm))
        snprintf(text, size, "%.3g", norm);
    else
        snprintf(text, size, "not finite");
}

static const char *unit_of(const training *t) {
    const eitp_task *task = eitp_training_get_task(t->r->training);
    return task->unit ? task->unit : "items";
}

/* The exponential of the loss is a perplexity. */
static int has_perplexity(const training *t) {
    return !strcmp(unit_of(t), "tokens");
}

/* A part of a line. If the line is too long, parts with the highest rank are left out first. */
typedef struct line_part {
    int rank;
    char text[60];
} line_part;

/* Joins as many parts as fit in `columns`; 0: all of them. */
static void join_parts(const line_part *parts, int count, int columns, char *line, size_t size) {
    size_t length;
    int most = count;
    do {
        length = 0;
        for (int i = 0; i < count; i++) {
            if (parts[i].rank <= most && length < size)
                length += (size_t)snprintf(line + length, size - length, "%s%s", length ? "  " : "", parts[i].text);
        }
    } while (columns && length >= (size_t)columns && most-- > 1);
}

/* Formats the line of a step for a terminal of so many columns, or for a file. */
static void format_step(const training *t, const eitp_run_report *report, int columns, char *line, size_t size) {
    const eitp_step_report *step = &report->step;
    line_part parts[] = {{1, ""}, {2, ""}, {6, ""}, {5, ""}, {4, ""}, {7, ""}, {3, ""}};
    char loss[32], norm[32], left[32];
    format_loss(step->loss, loss, sizeof loss);
    format_norm(step->grad_norm, norm, sizeof norm);
    format_time(report->seconds / (double)(step->step - report->start_step) * (double)(report->steps - step->step),
                left, sizeof left);
    snprintf(parts[0].text, sizeof parts[0].text, "step %lld/%lld", (long long)step->step, (long long)report->steps);
    snprintf(parts[1].text, sizeof parts[1].text, "loss %s", loss);
    snprintf(parts[2].text, sizeof parts[2].text, "lr %.3g", step->learning_rate);
    snprintf(parts[3].text, sizeof parts[3].text, "norm %s", norm);
    snprintf(parts[4].text, sizeof parts[4].text, "%.0f %.30s/s",
             t->logged_seconds > 0 ? (double)t->logged_items / t->logged_seconds : 0, unit_of(t));
    snprintf(parts[5].text, sizeof parts[5].text, "%s", output_bytes((double)process_memory()));
    snprintf(parts[6].text, sizeof parts[6].text, "%s left", left);
    join_parts(parts, COMMAND_COUNT(parts), columns, line, size);
}

static void show_step(training *t, const eitp_run_event *event) {
    const eitp_run_report *report = event->report;
    const eitp_step_report *step = &report->step;
    int64_t every = options_integer(&t->r->options, OPTION_LOG_EVERY);
    int terminal = output_is_terminal(), last = step->step == report->steps;
    double now = process_time();
    char line[500];
    t->logged_items += step->items;
    t->logged_seconds += event->seconds;
    if (terminal ? now - t->shown < 0.1 && !last : step->step % every && step->step != report->start_step + 1 && !last)
        return;
    format_step(t, report, output_columns(stderr), line, sizeof line);
    if (terminal)
        output_progress(line);
    else
        output_info("%s", line);
    t->shown = now;
    if (!terminal || t->logged_seconds > 1) {
        t->logged_items = 0;
        t->logged_seconds = 0;
    }
}

static void show_evaluation(const eitp_run_event *event) {
    if (isfinite(event->report->evaluation.loss))
        output_info("%s", event->message);
    else
        output_warning("the validation loss after step %lld is not finite; lower --lr, or resume from an earlier "
                       "checkpoint",
                       (long long)event->report->evaluated_step);
}

/* Prints an event of the library, and adds options where they help. */
static void notice(void *user, const eitp_run_event *event) {
    training *t = (training *)user;
    /* A run that is refused has no events, and one line. */
    output_start();
    if (event->kind == EITP_EVENT_STARTED)
        return;
    if (event->kind == EITP_EVENT_SAVED)
        post_save_saved(&t->post_save, event->report->saved_step);
    else
        post_save_poll(&t->post_save);
    if (event->kind == EITP_EVENT_STEP)
        show_step(t, event);
    else if (event->kind == EITP_EVENT_EVALUATION)
        show_evaluation(event);
    else if (event->kind == EITP_EVENT_MEMORY_SHORT && !options_integer(&t->r->options, OPTION_AUTO_SHRINK))
        output_warning("%s; --auto-shrink would make the run smaller", event->message);
    else if (event->kind == EITP_EVENT_DIVERGING)
        output_warning("%s (--lr %g, --warmup-steps)", event->message, options_number(&t->r->options, OPTION_LR));
    else if (event->level >= EITP_LOG_ERROR)
        output_error("%s", event->message);
    else if (event->level == EITP_LOG_WARNING)
        output_warning("%s", event->message);
    else
        output_info("%s", event->message);
}

/* ---- The end ---- */

/* What ended the run before its last step, as in the result of --json, or NULL. */
static const char *stop_name(const eitp_run_report *report) {
    switch (report->end) {
    case EITP_RUN_STOPPED:
        return process_stop_name();
    case EITP_RUN_NOT_FINITE:
        return "nonfinite";
    case EITP_RUN_DIVERGED:
        return "diverged";
    case EITP_RUN_MEMORY_PRESSURE:
        return "pressure";
    case EITP_RUN_EARLY_STOP:
        return "patience";
    default:
        return NULL;
    }
}

/* The path of the last good checkpoint, or NULL; the caller frees it. */
static char *last_checkpoint(const training *t) {
    const eitp_run_report *report = &t->report;
    if (report->saved_step < 0)
        return NULL;
    if (t->r->checkpoint && report->saved_step == report->start_step)
        return command_copy(t->r->checkpoint);
    return command_format("%s/checkpoint-%lld", t->r->directory, (long long)report->saved_step);
}

static void add_text(text_buffer *result, const char *name, const char *text) {
    text_json_name(result, name);
    if (text)
        text_json_string(result, text, strlen(text));
    else
        text_format(result, "null");
}

/* Metrics that are not loss terms, as in metrics.jsonl. */
static void add_json_metrics(const eitp_evaluation *evaluation, text_buffer *result) {
    char name[EITP_QUANTITY_NAME_SIZE + 8];
    for (int i = evaluation->term_count; i < evaluation->metric_count; i++) {
        snprintf(name, sizeof name, "val_%s", evaluation->metrics[i].name);
        text_json_member_number(result, name, evaluation->metrics[i].mean);
    }
}

static void print_json(const training *t, const char *stopped) {
    const eitp_run_report *report = &t->report;
    char rate[64];
    text_buffer result = {NULL, 0, 0};
    char *checkpoint = last_checkpoint(t);
    text_format(&result, "{");
    text_json_member_integer(&result, "step", report->steps_done);
    text_json_member_integer(&result, "steps", report->steps);
    text_json_member_number(&result, "loss", report->step.step ? report->step.loss : (double)NAN);
    if (report->evaluations) {
        text_json_member_number(&result, "val_loss", report->evaluation.loss);
        text_json_member_number(&result, "val_loss_error", report->evaluation.error);
        if (has_perplexity(t))
            text_json_member_number(&result, "val_perplexity", exp(report->evaluation.loss));
        add_json_metrics(&report->evaluation, &result);
        text_json_member_integer(&result, "val_step", report->evaluated_step);
    }
    if (report->best_step >= 0) {
        text_json_member_integer(&result, "best_step", report->best_step);
        text_json_member_number(&result, "best_value", report->best_value);
    }
    text_json_member_integer(&result, unit_of(t), report->items);
    text_json_member_number(&result, "seconds", report->seconds);
    snprintf(rate, sizeof rate, "%s_per_s", unit_of(t));
    text_json_member_number(&result, rate, report->seconds > 0 ? (double)report->items / report->seconds : 0);
    text_json_member_integer(&result, "spikes_skipped", report->step.spikes_skipped);
    text_json_member_integer(&result, "planned_bytes", (int64_t)(t->r->choice.total + run_copy_bytes(t->r)));
    text_json_member_integer(&result, "peak_rss_bytes", (int64_t)process_peak_memory());
    if (report->lost_records)
        text_json_member_integer(&result, "lost_records", report->lost_records);
    add_text(&result, "checkpoint", checkpoint);
    add_text(&result, "stopped", stopped);
    text_format(&result, "}\n");
    output_result(result.data, result.size);
    free(checkpoint);
    text_release(&result);
}

static void add_evaluation(const training *t, text_buffer *line) {
    const eitp_run_report *report = &t->report;
    const eitp_evaluation *evaluation = &report->evaluation;
    double loss = evaluation->loss;
    char text[32];
    format_loss(loss, text, sizeof text);
    text_format(line, ", validation loss %s", text);
    if (isfinite(exp(loss)) && has_perplexity(t))
        text_format(line, loss < 15 ? " (perplexity %.2f)" : " (perplexity %.3g)", exp(loss));
    for (int i = evaluation->term_count; i < evaluation->metric_count && i < evaluation->term_count + SHOWN_METRICS;
         i++)
        text_format(line, ", %s %.4f", evaluation->metrics[i].name, evaluation->metrics[i].mean);
    text_format(line, " after step %lld", (long long)report->evaluated_step);
    if (report->best_step >= 0)
        text_format(line, ", best %.4f after step %lld", report->best_value, (long long)report->best_step);
}

/* The end of a run in words, unless a signal stopped it. */
static const char *describe_end(const eitp_run_report *report) {
    switch (report->end) {
    case EITP_RUN_NOT_FINITE:
        return "stopped (gradients not finite)";
    case EITP_RUN_DIVERGED:
        return "stopped (the loss diverged)";
    case EITP_RUN_MEMORY_PRESSURE:
        return "stopped (short of memory)";
    case EITP_RUN_EARLY_STOP:
        return "stopped early";
    default:
        return "finished";
    }
}

static void print_summary(const training *t) {
    const eitp_run_report *report = &t->report;
    text_buffer line = {NULL, 0, 0};
    char loss[32], *checkpoint = last_checkpoint(t);
    if (report->end == EITP_RUN_STOPPED)
        text_format(&line, "stopped by %s", process_stop_name());
    else
        text_format(&line, "%s", describe_end(report));
    text_format(&line, ": step %lld", (long long)report->steps_done);
    text_format(&line, report->steps_done > report->steps ? " (requested: %lld)" : " of %lld",
                (long long)report->steps);
    format_loss(report->step.loss, loss, sizeof loss);
    if (report->step.step)
        text_format(&line, ", loss %s", loss);
    if (report->evaluations)
        add_evaluation(t, &line);
    if (report->items)
        text_format(&line, ", %lld %s at %.0f per second", (long long)report->items, unit_of(t),
                    (double)report->items / report->seconds);
    text_format(&line, ", peak memory %s; %s\n", output_bytes((double)process_peak_memory()),
                checkpoint ? checkpoint : "no checkpoint");
    output_result(line.data, line.size);
    free(checkpoint);
    text_release(&line);
}

/* How to continue a run that a signal stopped. */
static void suggest_to_resume(const training *t) {
    char *command;
    if (t->report.end != EITP_RUN_STOPPED || t->report.saved_step < 0)
        return;
    command = suggest_resume(t->r->directory);
    output_info("to continue: %s", command);
    free(command);
}

/* Says where to resume after a step that failed halfway, after which nothing can be saved. */
static void explain_torn(const training *t) {
    const training_run *r = t->r;
    const eitp_run_report *report = &t->report;
    if (r->checkpoint && report->saved_step == report->start_step)
        output_error("nothing was saved after the failure; resume with --resume %s", r->checkpoint);
    else if (report->saved_step >= 0)
        output_error("nothing was saved after the failure; resume with --resume %s/checkpoint-%lld", r->directory,
                     (long long)report->saved_step);
    else
        output_error("nothing was saved, and there is no checkpoint to resume from; start the run again");
}

static int fail(const training *t, const eitp_error *error) {
    if (error->status == EITP_ERROR_PRESSURE)
        output_error("%s; resume with --resume auto when more memory is free", error->message);
    else if (error->status == EITP_ERROR_NOT_FINITE)
        output_error("%s (--lr, --warmup-steps)", error->message);
    else
        output_error("%s", error->message);
    if (eitp_trainer_is_torn(eitp_training_get_trainer(t->r->training)))
        explain_torn(t);
    return command_exit_code(error->status);
}

/* A run that was stopped before it did or saved anything new. What the command created for it is removed. */
static int end_before_step(training *t) {
    output_error("stopped by %s before the first step", process_stop_name());
    t->r->started = t->report.start_step > 0;
    return 128 + t->report.stop_reason;
}

static int run_training(training *t, eitp_error *error) {
    training_run *r = t->r;
    eitp_status status;
    int code = COMMAND_FINISHED;
    r->started = 1;
    output_progress("starting ...");
    process_attach_run(r->run);
    post_save_begin(&t->post_save, &r->options, r->directory,
                    eitp_trainer_steps_done(eitp_training_get_trainer(r->training)), r->run);
    status = eitp_training_run(r->training, &t->report, error);
    process_attach_run(NULL);
    post_save_end(&t->post_save);
    if (status)
        code = fail(t, error);
    /* Refused before the first step: nothing is left behind. */
    if (status == EITP_ERROR_IO && !t->report.steps_done && t->report.saved_step < 0)
        r->started = 0;
    if (t->report.end == EITP_RUN_FAILED)
        return code;
    if (t->report.end == EITP_RUN_STOPPED && t->report.steps_done == t->report.start_step)
        return end_before_step(t);
    if (t->report.end == EITP_RUN_STOPPED)
        code = 128 + t->report.stop_reason;
    if (options_integer(&r->options, OPTION_JSON))
        print_json(t, stop_name(&t->report));
    else if (!options_integer(&r->options, OPTION_QUIET))
        print_summary(t);
    suggest_to_resume(t);
    return code;
}

/* Warns of a setting of PyTorch's allocator, which whoever sets it expects to save memory. */
static void report_allocator(const option_set *o) {
    static const char *const names[] = {"PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF"};
    for (size_t i = 0; i < COMMAND_COUNT(names) && !options_integer(o, OPTION_QUIET); i++) {
        const char *value = getenv(names[i]);
        if (value && *value) {
            output_warning("%s has no effect: eitp does not use PyTorch's allocator; it plans memory in advance",
                           names[i]);
            return;
        }
    }
}

/* Trains once. *starts_over is 1 if nothing was done since the checkpoint is damaged, and there is another: its options
   and shape may differ. */
static int train(int count, char **arguments, int *starts_over) {
    training_run r;
    training t;
    eitp_error error;
    int ended = 0, code = COMMAND_FINISHED;
    eitp_status status;
    memset(&r, 0, sizeof r);
    memset(&t, 0, sizeof t);
    t.r = &r;
    r.listener.user = &t;
    r.listener.notify = notice;
    status = options_read(&r.options, "train", OPTIONS_TRAIN, count, arguments, &ended, &error);
    if (!status && !ended)
        status = run_resolve(&r, &error);
    if (!status && !ended && options_integer(&r.options, OPTION_PRINT_CONFIG)) {
        run_complete_options(&r);
        options_print(&r.options, (int)options_integer(&r.options, OPTION_JSON));
        ended = 1;
    }
    if (!status && !ended)
        status = run_prepare(&r, &error);
    *starts_over = status && resume_starts_over(&r, &error);
    if (status && !*starts_over) {
        code = output_fail(&error);
    } else if (!status && !ended) {
        report_allocator(&r.options);
        code = run_training(&t, &error);
    }
    if (status == EITP_ERROR_INTERRUPTED && process_stop_signal())
        code = 128 + process_stop_signal();
    run_release(&r);
    return code;
}

int command_train(int count, char **arguments) {
    int code = COMMAND_FINISHED, starts_over = 1;
    process_catch_signals();
    process_survive_closed_pipes();
    while (starts_over)
        code = train(count, arguments, &starts_over);
    return code;
}
