/* eitp train: the loop, its records and its end. */
#include "command_output.h"
#include "command_pressure.h"
#include "command_process.h"
#include "command_run.h"

typedef struct training {
    run *r;
    eitp_step_report report;    /* of the last step */
    eitp_evaluation evaluation; /* the last */
    int64_t evaluated, saved;   /* the steps after which there was one; -1: none */
    int64_t first, nonfinite;   /* steps done at the start; steps in a row that were not applied */
    int64_t tokens, logged_tokens;
    double seconds, logged_seconds; /* in steps, in all and since the last line */
    double shown;
    pressure watch;
    int cannot_save; /* the last attempt failed */
} training;

/* ---- Records ---- */

static eitp_status record_step(training *t, double seconds, eitp_error *error) {
    const eitp_step_report *report = &t->report;
    text_buffer record = {NULL, 0, 0};
    eitp_status status;
    text_format(&record, "{");
    text_json_member_integer(&record, "step", report->step);
    text_json_member_number(&record, "loss", report->loss);
    text_json_member_number(&record, "lr", report->learning_rate);
    text_json_member_number(&record, "grad_norm", report->grad_norm);
    text_json_member_number(&record, "update_norm", report->update_norm);
    text_json_member_number(&record, "parameter_norm", report->parameter_norm);
    text_json_member_number(&record, "loss_scale", report->loss_scale);
    text_json_member_integer(&record, "tokens", report->items);
    text_json_member_number(&record, "tokens_per_s", seconds > 0 ? (double)report->items / seconds : 0);
    text_json_member_number(&record, "step_time_s", seconds);
    text_json_member_integer(&record, "rss_bytes", (int64_t)process_memory());
    text_json_name(&record, "applied");
    text_format(&record, "%s}", report->applied ? "true" : "false");
    status = metrics_add(&t->r->metrics, &record, error);
    text_release(&record);
    return status;
}

static eitp_status record_evaluation(training *t, double seconds, eitp_error *error) {
    const eitp_evaluation *evaluation = &t->evaluation;
    text_buffer record = {NULL, 0, 0};
    eitp_status status;
    text_format(&record, "{");
    text_json_member_integer(&record, "step", t->evaluated);
    text_json_member_number(&record, "val_loss", evaluation->loss);
    text_json_member_number(&record, "val_loss_error", evaluation->error);
    text_json_member_number(&record, "val_perplexity", exp(evaluation->loss));
    text_json_member_integer(&record, "val_tokens", evaluation->items);
    text_json_member_number(&record, "val_time_s", seconds);
    text_json_member_integer(&record, "rss_bytes", (int64_t)process_memory());
    text_format(&record, "}");
    status = metrics_add(&t->r->metrics, &record, error);
    text_release(&record);
    return status;
}

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

static void show_step(training *t) {
    const eitp_step_report *report = &t->report;
    int64_t every = options_integer(&t->r->options, OPTION_LOG_EVERY);
    int terminal = output_is_terminal(), last = report->step == t->r->steps;
    double now = process_time();
    char line[300], left[32];
    if (terminal ? now - t->shown < 0.1 && !last : report->step % every && report->step != t->first + 1 && !last)
        return;
    format_time(t->seconds / (double)(report->step - t->first) * (double)(t->r->steps - report->step), left,
                sizeof left);
    snprintf(line, sizeof line, "step %lld/%lld  loss %.4f  lr %.3g  norm %.3g  %.0f tokens/s  %s  %s left",
             (long long)report->step, (long long)t->r->steps, report->loss, report->learning_rate, report->grad_norm,
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

/* ---- What happens between steps ---- */

static eitp_status evaluate(training *t, eitp_error *error) {
    run *r = t->r;
    double began = process_time();
    eitp_status status =
        eitp_trainer_evaluate(r->trainer, options_integer(&r->options, OPTION_EVAL_WINDOWS), &t->evaluation, error);
    if (status)
        return status;
    t->evaluated = eitp_trainer_steps_done(r->trainer);
    output_info("validation after step %lld: loss %.4f (standard error %.4f), perplexity %.2f, %lld tokens",
                (long long)t->evaluated, t->evaluation.loss, t->evaluation.error, exp(t->evaluation.loss),
                (long long)t->evaluation.items);
    if (!isfinite(t->evaluation.loss))
        output_warning(
            "the validation loss after step %lld is not finite; lower --lr, or go on from an earlier checkpoint",
            (long long)t->evaluated);
    return record_evaluation(t, process_time() - began, error);
}

static eitp_status save(training *t, eitp_error *error) {
    run *r = t->r;
    const eitp_host host = eitp_context_host(r->context);
    double began = process_time();
    /* Records first: a checkpoint never has steps that the records lack. */
    eitp_status status = metrics_sync(&r->metrics, error);
    t->cannot_save = 1;
    if (!status)
        status = eitp_trainer_save(r->trainer, r->directory, error);
    if (status)
        return status;
    t->cannot_save = 0;
    t->saved = eitp_trainer_steps_done(r->trainer);
    output_info("saved %s/checkpoint-%lld in %.1f s", r->directory, (long long)t->saved, process_time() - began);
    return eitp_checkpoint_prune(&host, r->directory, options_integer(&r->options, OPTION_SAVE_TOTAL_LIMIT), error);
}

static eitp_status check_finite(training *t, eitp_error *error) {
    int64_t most = options_integer(&t->r->options, OPTION_MAX_NONFINITE);
    if (t->report.applied) {
        t->nonfinite = 0;
        return EITP_OK;
    }
    /* With a loss scale above 1 the next one, which is smaller, may do: the trainer says so. */
    if (t->report.loss_scale > 1)
        return EITP_OK;
    t->nonfinite++;
    output_warning("step %lld: the gradient is not finite; nothing was changed by it", (long long)t->report.step);
    return t->nonfinite < most
               ? EITP_OK
               : command_fail(error, EITP_ERROR_NOT_FINITE,
                              "%lld steps in a row had a gradient that is not finite: stopped after step "
                              "%lld; lower --lr, or go on from an earlier checkpoint",
                              (long long)most, (long long)t->report.step);
}

static int is_due(const training *t, option_id every, int64_t step) {
    int64_t steps = options_integer(&t->r->options, every);
    return steps > 0 && step % steps == 0;
}

static eitp_status make_step(training *t, eitp_error *error) {
    run *r = t->r;
    double began = process_time(), seconds;
    eitp_status status = eitp_trainer_step(r->trainer, &t->report, error);
    if (status)
        return status;
    seconds = process_time() - began;
    t->tokens += t->report.items;
    t->seconds += seconds;
    t->logged_tokens += t->report.items;
    t->logged_seconds += seconds;
    status = record_step(t, seconds, error);
    show_step(t);
    if (!status)
        status = check_finite(t, error);
    if (!status && r->validates && is_due(t, OPTION_EVAL_STEPS, t->report.step))
        status = evaluate(t, error);
    if (!status && is_due(t, OPTION_SAVE_STEPS, t->report.step))
        status = save(t, error);
    return status;
}

/*
 * The first evaluation is before step 1; one that was due at the checkpoint and is not in the records is made up for.
 */
static eitp_status begin(training *t, eitp_error *error) {
    run *r = t->r;
    int64_t done = eitp_trainer_steps_done(r->trainer);
    t->first = done;
    t->saved = r->checkpoint ? done : -1;
    t->evaluated = r->metrics.evaluated ? done : -1;
    if (r->validates && done < r->steps && t->evaluated < 0 && is_due(t, OPTION_EVAL_STEPS, done))
        return evaluate(t, error);
    return EITP_OK;
}

static eitp_status train(training *t, eitp_error *error) {
    run *r = t->r;
    eitp_status status = begin(t, error);
    while (!status && !process_stop_signal() && eitp_trainer_steps_done(r->trainer) < r->steps) {
        status = pressure_look(&t->watch, r, error);
        if (!status)
            status = make_step(t, error);
    }
    if (status == EITP_END_OF_DATA) {
        output_info("%s", error->message);
        r->steps = eitp_trainer_steps_done(r->trainer);
        status = EITP_OK;
    }
    if (!status && !process_stop_signal() && r->validates && t->evaluated != r->steps &&
        eitp_trainer_steps_done(r->trainer) == r->steps)
        status = evaluate(t, error);
    return status;
}

/* ---- The end ---- */

static void print_json(const training *t, const char *stopped) {
    text_buffer result = {NULL, 0, 0};
    char *checkpoint = command_format("%s/checkpoint-%lld", t->r->directory, (long long)t->saved);
    text_format(&result, "{");
    text_json_member_integer(&result, "step", eitp_trainer_steps_done(t->r->trainer));
    text_json_member_integer(&result, "steps", t->r->steps);
    text_json_member_number(&result, "loss", t->report.step ? t->report.loss : (double)NAN);
    if (t->evaluated >= 0 && t->evaluation.items) {
        text_json_member_number(&result, "val_loss", t->evaluation.loss);
        text_json_member_number(&result, "val_loss_error", t->evaluation.error);
        text_json_member_number(&result, "val_perplexity", exp(t->evaluation.loss));
        text_json_member_integer(&result, "val_step", t->evaluated);
    }
    text_json_member_integer(&result, "tokens", t->tokens);
    text_json_member_number(&result, "seconds", t->seconds);
    text_json_member_number(&result, "tokens_per_s", t->seconds > 0 ? (double)t->tokens / t->seconds : 0);
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
    int64_t done = eitp_trainer_steps_done(t->r->trainer), steps = t->r->steps;
    text_buffer line = {NULL, 0, 0};
    text_format(&line, "%s%s step %lld", stopped ? "stopped by " : "finished:", stopped ? stopped : "",
                (long long)done);
    text_format(&line, done > steps ? " (%lld were asked for)" : " of %lld", (long long)steps);
    if (t->report.step)
        text_format(&line, ", loss %.4f", t->report.loss);
    if (t->evaluation.items)
        text_format(&line, ", validation loss %.4f (perplexity %.2f)", t->evaluation.loss, exp(t->evaluation.loss));
    if (t->tokens)
        text_format(&line, ", %lld tokens at %.0f a second", (long long)t->tokens, (double)t->tokens / t->seconds);
    text_format(&line, ", peak memory %s; %s/checkpoint-%lld\n", output_bytes((double)process_peak_memory()),
                t->r->directory, (long long)t->saved);
    output_result(line.data, line.size);
    text_release(&line);
}

/* Of a step that failed half-way nothing can be saved: says from where to go on. */
static int fail_torn(const training *t, const eitp_error *error) {
    const run *r = t->r;
    int code = output_fail(error);
    if (r->checkpoint && t->saved == t->first)
        output_error("nothing was saved after the failure; go on with --resume %s", r->checkpoint);
    else if (t->saved >= 0)
        output_error("nothing was saved after the failure; go on with --resume %s/checkpoint-%lld", r->directory,
                     (long long)t->saved);
    else
        output_error("nothing was saved, and there is no checkpoint to go on from; begin the run again");
    return code;
}

/* Saves what there is, says how it ended, and gives the exit code. */
static int finish(training *t, eitp_status status, eitp_error *error) {
    const option_set *o = &t->r->options;
    int64_t done = eitp_trainer_steps_done(t->r->trainer);
    const char *stopped = process_stop_signal()             ? process_stop_name()
                          : status == EITP_ERROR_NOT_FINITE ? "nonfinite"
                          : status == EITP_ERROR_PRESSURE   ? "pressure"
                                                            : NULL;
    eitp_error second;
    int code = 0;
    if (status && eitp_trainer_is_torn(t->r->trainer))
        return fail_torn(t, error);
    if (status) {
        /* What failed changed nothing, so the steps before it are worth keeping. */
        command_fail(&second, EITP_ERROR_IO, "no checkpoint could be written");
        if (t->saved != done && done > t->first && !t->cannot_save)
            save(t, &second);
        code = output_fail(error);
        if (status != EITP_ERROR_NOT_FINITE && status != EITP_ERROR_PRESSURE)
            return code;
        /* These codes say that there is a checkpoint. */
        if (t->saved != done)
            return output_fail(&second);
    } else if (t->saved != done) {
        status = save(t, error);
        if (status)
            return output_fail(error);
    } else if (t->first == done) {
        output_info(done > t->r->steps ? "step %lld was made already, and %lld were asked for: nothing to do"
                                       : "step %lld of %lld was made already: nothing to do",
                    (long long)done, (long long)t->r->steps);
    }
    if (!code && process_stop_signal())
        code = 128 + process_stop_signal();
    if (options_integer(o, OPTION_JSON))
        print_json(t, stopped);
    else
        print_summary(t, stopped);
    return code;
}

static int run_training(run *r, eitp_error *error) {
    training t;
    eitp_status status;
    memset(&t, 0, sizeof t);
    t.r = r;
    r->started = 1;
    output_start();
    status = train(&t, error);
    return finish(&t, status, error);
}

int command_train(int count, char **arguments) {
    run r;
    eitp_error error;
    int ended = 0, code = COMMAND_FINISHED;
    eitp_status status;
    memset(&r, 0, sizeof r);
    r.lock = -1;
    process_catch_signals();
    status = options_read(&r.options, "train", OPTIONS_TRAIN, count, arguments, &ended, &error);
    if (!status && !ended)
        status = run_resolve(&r, &error);
    if (!status && !ended && options_integer(&r.options, OPTION_PRINT_CONFIG)) {
        options_print(&r.options, (int)options_integer(&r.options, OPTION_JSON));
        ended = 1;
    }
    if (!status && !ended)
        status = run_prepare(&r, &error);
    if (status)
        code = output_fail(&error);
    else if (!ended)
        code = run_training(&r, &error);
    if (status == EITP_ERROR_INTERRUPTED && process_stop_signal())
        code = 128 + process_stop_signal();
    run_release(&r, status == EITP_ERROR_MEMORY || status == EITP_ERROR_INTERRUPTED);
    return output_finish(code);
}
