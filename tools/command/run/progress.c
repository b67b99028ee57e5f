/* The lines of a run while it trains. */
#include "output.h"
#include "process.h"
#include "run/training.h"

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

void training_format_loss(double loss, char *text, size_t size) {
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

const char *training_unit(const training *t) {
    const eitp_task *task = eitp_training_get_task(t->r->training);
    return task->unit ? task->unit : "items";
}

/* The exponential of the loss is a perplexity. */
int training_has_perplexity(const training *t) {
    return !strcmp(training_unit(t), "tokens");
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
    training_format_loss(step->loss, loss, sizeof loss);
    format_norm(step->grad_norm, norm, sizeof norm);
    format_time(report->seconds / (double)(step->step - report->start_step) * (double)(report->steps - step->step),
                left, sizeof left);
    snprintf(parts[0].text, sizeof parts[0].text, "step %lld/%lld", (long long)step->step, (long long)report->steps);
    snprintf(parts[1].text, sizeof parts[1].text, "loss %s", loss);
    snprintf(parts[2].text, sizeof parts[2].text, "lr %.3g", step->learning_rate);
    snprintf(parts[3].text, sizeof parts[3].text, "norm %s", norm);
    snprintf(parts[4].text, sizeof parts[4].text, "%.0f %.30s/s",
             t->logged_seconds > 0 ? (double)t->logged_items / t->logged_seconds : 0, training_unit(t));
    snprintf(parts[5].text, sizeof parts[5].text, "%s", output_bytes((double)process_memory()));
    snprintf(parts[6].text, sizeof parts[6].text, "%s left", left);
    join_parts(parts, COMMAND_COUNT(parts), columns, line, size);
}

static void show_step(training *t, const eitp_run_event *event) {
    const eitp_run_report *report = event->report;
    const eitp_step_report *step = &report->step;
    const int64_t every = t->log_every;
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

/* A setting has changed that lines depend on too. */
static void follow_setting(training *t, const eitp_run_event *event) {
    const char *name = "", *is = "";
    for (size_t i = 0; i < event->value_count; i++) {
        const eitp_value *value = &event->values[i];
        if (!strcmp(value->name, "name"))
            name = value->text;
        else if (!strcmp(value->name, "is"))
            is = value->text;
    }
    if (!strcmp(name, "log_every"))
        t->log_every = strtoll(is, NULL, 10);
}

/* Prints an event of the library, and adds options where they help. */
void training_notice(void *user, const eitp_run_event *event) {
    training *t = (training *)user;
    /* A run that is refused has no events, and one line. */
    output_start();
    if (event->kind == EITP_EVENT_STARTED)
        return;
    if (event->kind == EITP_EVENT_SAVED)
        post_save_saved(&t->post_save, event->report->saved_step);
    else
        post_save_poll(&t->post_save);
    on_event_notice(&t->on_event, event);
    if (event->kind == EITP_EVENT_SET)
        follow_setting(t, event);
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
