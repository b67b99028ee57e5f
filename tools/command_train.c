/* eitp train: what it says of a run, and how it ends. */
#include "command_output.h"
#include "command_process.h"
#include "command_run.h"

typedef struct training {
    run *r;
    eitp_run_report report;
    int64_t logged_tokens; /* since the last line */
    double logged_seconds;
    double shown;
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

static void show_step(training *t, const eitp_run_event *event) {
    const eitp_run_report *report = event->report;
    const eitp_step_report *step = &report->step;
    int64_t every = options_integer(&t->r->options, OPTION_LOG_EVERY);
    int terminal = output_is_terminal(), last = step->step == report->steps;
    double now = process_time();
    char line[300], left[32];
    t->logged_tokens += step->items;
    t->logged_seconds += event->seconds;
    if (terminal ? now - t->shown < 0.1 && !last : step->step % every && step->step != report->first + 1 && !last)
        return;
    format_time(report->seconds / (double)(step->step - report->first) * (double)(report->steps - step->step), left,
                sizeof left);
    snprintf(line, sizeof line, "step %lld/%lld  loss %.4f  lr %.3g  norm %.3g  %.0f tokens/s  %s  %s left",
             (long long)step->step, (long long)report->steps, step->loss, step->learning_rate, step->grad_norm,
             t->logged_seconds > 0 ? (double)t->logged_tokens / t->logged_seconds : 0,
             output_bytes((double)process_memory()), left);
    if (terminal)
        output_progress(line);
    else
        output_info("%s", line);
    t->shown = now;
    if (!terminal || t->logged_seconds > 1) {
        t->logged_tokens = 0;
        t->logged_seconds = 0;
    }
}

static void show_evaluation(const eitp_run_event *event) {
    output_info("%s", event->message);
    if (!isfinite(event->report->evaluation.loss))
        output_warning(
            "the validation loss after step %lld is not finite; lower --lr, or go on from an earlier checkpoint",
            (long long)event->report->evaluated);
}

/* What the library reports, in its words but where options are named. */
static void notice(void *user, const eitp_run_event *event) {
    training *t = (training *)user;
    if (event->kind == EITP_EVENT_STEP)
        show_step(t, event);
    else if (event->kind == EITP_EVENT_EVALUATION)
        show_evaluation(event);
    else if (event->kind == EITP_EVENT_MEMORY_SHORT && !options_integer(&t->r->options, OPTION_AUTO_SHRINK))
        output_warning("%s, for lack of --auto-shrink", event->message);
    else if (event->level >= EITP_LOG_ERROR)
        output_error("%s", event->message);
    else if (event->level == EITP_LOG_WARNING)
        output_warning("%s", event->message);
    else
        output_info("%s", event->message);
}

/* ---- The end ---- */

/* What ended the run before its last step; NULL: nothing. */
static const char *stop_name(const eitp_run_report *report) {
    switch (report->end) {
    case EITP_RUN_STOPPED:
        return process_stop_name();
    case EITP_RUN_NOT_FINITE:
        return "nonfinite";
    case EITP_RUN_PRESSURE:
        return "pressure";
    case EITP_RUN_EARLY_STOP:
        return "patience";
    default:
        return NULL;
    }
}

static void print_json(const training *t, const char *stopped) {
    const eitp_run_report *report = &t->report;
    text_buffer result = {NULL, 0, 0};
    char *checkpoint = command_format("%s/checkpoint-%lld", t->r->directory, (long long)report->saved);
    text_format(&result, "{");
    text_json_member_integer(&result, "step", report->done);
    text_json_member_integer(&result, "steps", report->steps);
    text_json_member_number(&result, "loss", report->step.step ? report->step.loss : (double)NAN);
    if (report->evaluations) {
        text_json_member_number(&result, "val_loss", report->evaluation.loss);
        text_json_member_number(&result, "val_loss_error", report->evaluation.error);
        text_json_member_number(&result, "val_perplexity", exp(report->evaluation.loss));
        text_json_member_integer(&result, "val_step", report->evaluated);
    }
    if (report->best_step >= 0) {
        text_json_member_integer(&result, "best_step", report->best_step);
        text_json_member_number(&result, "best_value", report->best_value);
    }
    text_json_member_integer(&result, "tokens", report->items);
    text_json_member_number(&result, "seconds", report->seconds);
    text_json_member_number(&result, "tokens_per_s", report->seconds > 0 ? (double)report->items / report->seconds : 0);
    text_json_member_integer(&result, "planned_bytes", (int64_t)t->r->rung.total);
    text_json_member_integer(&result, "peak_rss_bytes", (int64_t)process_peak_memory());
    text_json_member_string(&result, "checkpoint", checkpoint);
    text_json_name(&result, "stopped");
    if (stopped)
        text_json_string(&result, stopped, strlen(stopped));
    else
        text_format(&result, "null");
    text_format(&result, "}\n");
    output_result(result.data, result.size);
    free(checkpoint);
    text_release(&result);
}

static void print_summary(const training *t, const char *stopped) {
    const eitp_run_report *report = &t->report;
    text_buffer line = {NULL, 0, 0};
    if (report->end == EITP_RUN_EARLY_STOP)
        text_format(&line, "stopped early:");
    else
        text_format(&line, "%s%s", stopped ? "stopped by " : "finished:", stopped ? stopped : "");
    text_format(&line, " step %lld", (long long)report->done);
    text_format(&line, report->done > report->steps ? " (%lld were asked for)" : " of %lld", (long long)report->steps);
    if (report->step.step)
        text_format(&line, ", loss %.4f", report->step.loss);
    if (report->evaluations)
        text_format(&line, ", validation loss %.4f (perplexity %.2f)", report->evaluation.loss,
                    exp(report->evaluation.loss));
    if (report->best_step >= 0)
        text_format(&line, ", best %.4f after step %lld", report->best_value, (long long)report->best_step);
    if (report->items)
        text_format(&line, ", %lld tokens at %.0f a second", (long long)report->items,
                    (double)report->items / report->seconds);
    text_format(&line, ", peak memory %s; %s/checkpoint-%lld\n", output_bytes((double)process_peak_memory()),
                t->r->directory, (long long)report->saved);
    output_result(line.data, line.size);
    text_release(&line);
}

/* Of a step that failed half-way nothing can be saved: says from where to go on. */
static void explain_torn(const training *t) {
    const run *r = t->r;
    const eitp_run_report *report = &t->report;
    if (r->checkpoint && report->saved == report->first)
        output_error("nothing was saved after the failure; go on with --resume %s", r->checkpoint);
    else if (report->saved >= 0)
        output_error("nothing was saved after the failure; go on with --resume %s/checkpoint-%lld", r->directory,
                     (long long)report->saved);
    else
        output_error("nothing was saved, and there is no checkpoint to go on from; begin the run again");
}

static int fail(const training *t, const eitp_error *error) {
    if (error->status == EITP_ERROR_PRESSURE)
        output_error("%s; go on with --resume auto when there is more", error->message);
    else
        output_error("%s", error->message);
    if (eitp_trainer_is_torn(t->r->trainer))
        explain_torn(t);
    return command_exit_code(error->status);
}

static int run_training(training *t, eitp_error *error) {
    run *r = t->r;
    const char *stopped;
    eitp_status status;
    int code = COMMAND_FINISHED;
    r->started = 1;
    output_start();
    process_attach_run(r->run);
    status = eitp_run_train(r->run, r->trainer, &t->report, error);
    process_attach_run(NULL);
    if (status)
        code = fail(t, error);
    if (t->report.end == EITP_RUN_FAILED)
        return code;
    if (t->report.end == EITP_RUN_STOPPED)
        code = 128 + t->report.stop_reason;
    stopped = stop_name(&t->report);
    if (options_integer(&r->options, OPTION_JSON))
        print_json(t, stopped);
    else
        print_summary(t, stopped);
    return code;
}

int command_train(int count, char **arguments) {
    run r;
    training t;
    eitp_error error;
    int ended = 0, code = COMMAND_FINISHED;
    eitp_status status;
    memset(&r, 0, sizeof r);
    memset(&t, 0, sizeof t);
    t.r = &r;
    r.listener.user = &t;
    r.listener.notify = notice;
    process_catch_signals();
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
    if (status)
        code = output_fail(&error);
    else if (!ended)
        code = run_training(&t, &error);
    if (status == EITP_ERROR_INTERRUPTED && process_stop_signal())
        code = 128 + process_stop_signal();
    run_release(&r, status == EITP_ERROR_MEMORY || status == EITP_ERROR_INTERRUPTED);
    return output_finish(code);
}
