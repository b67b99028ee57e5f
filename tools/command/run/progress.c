/* The progress lines of a run. */
#include "files.h"
#include "output.h"
#include "process.h"
#include "run/training.h"

void training_format_time(double seconds, char *text, size_t size) {
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

/* Does the same with three digits. */
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

/* A part of a line. If the line is too long, parts with the highest rank are dropped first. */
typedef struct line_part {
    int rank;
    char text[80];
} line_part;

/* Joins as many parts as fit in `columns`; 0: all of them. */
static void join_parts(const line_part *parts, int count, int columns, char *line, size_t size) {
    size_t length;
    int most = count;
    do {
        length = 0;
        for (int i = 0; i < count; i++) {
            if (parts[i].rank <= most && *parts[i].text && length < size)
                length += (size_t)snprintf(line + length, size - length, "%s%s", length ? "  " : "", parts[i].text);
        }
    } while (columns && length >= (size_t)columns && most-- > 1);
}

/* Formats the process's memory: "67.1 MB", or with the budget "1.2 of 1.6 GB". */
static void format_memory(const training *t, int with_budget, char *text, size_t size) {
    const char *has = output_bytes((double)process_memory());
    const char *budget = output_bytes((double)eitp_training_get_fit(t->r->training)->budget);
    const char *unit = strchr(has, ' '), *budget_unit = strchr(budget, ' ');
    if (!with_budget)
        snprintf(text, size, "%s", has);
    else if (unit && budget_unit && !strcmp(unit, budget_unit))
        snprintf(text, size, "%.*s of %s", (int)(unit - has), has, budget);
    else
        snprintf(text, size, "%s of %s", has, budget);
}

/* Formats "evaluating 300/1200, 0m36s left", `seconds` after the evaluation started. */
static void format_evaluating(const training *t, double seconds, char *text, size_t size) {
    const double done = (double)t->now->evaluating, all = (double)t->now->evaluating_all;
    char left[32];
    training_format_time(seconds * (all - done) / done, left, sizeof left);
    snprintf(text, size, "evaluating %.0f/%.0f, %s left", done, all, left);
}

/* Formats work that is taking long since the last event: "saving for 0m12s"; "" if none is. */
static void format_work(const training *t, double seconds, char *text, size_t size) {
    enum { LONG = 2 }; /* seconds */
    static const char *const words[] = {"starting", "", "evaluating", "saving", "paused"};
    char spent[32];
    *text = 0;
    if (seconds < LONG || (unsigned)t->now->work >= COMMAND_COUNT(words))
        return;
    training_format_time(seconds, spent, sizeof spent);
    if (t->now->work == EITP_RUN_EVALUATES && t->now->evaluating)
        format_evaluating(t, seconds, text, size);
    else if (t->now->work == EITP_RUN_STEPS)
        snprintf(text, size, "step %lld in progress for %s", (long long)t->now->steps_done + 1, spent);
    else
        snprintf(text, size, "%s for %s", words[t->now->work], spent);
}

/* Formats the values of the last step. */
static void format_numbers(const training *t, line_part *loss, line_part *rate, line_part *norm, line_part *time,
                           line_part *items) {
    char text[32];
    training_format_loss(t->step.loss, text, sizeof text);
    snprintf(loss->text, sizeof loss->text, "loss %s", text);
    format_norm(t->step.grad_norm, text, sizeof text);
    snprintf(norm->text, sizeof norm->text, "norm %s", text);
    snprintf(rate->text, sizeof rate->text, "lr %.3g", t->step.learning_rate);
    snprintf(time->text, sizeof time->text, "%.3g s/step", t->step_seconds);
    snprintf(items->text, sizeof items->text, "%.0f %.30s/s", t->rate, training_unit(t));
}

/* Formats the line of a run, `seconds` after its last event, for a terminal with `columns`, or for a file if not
   `is_live`. */
static void format_line(const training *t, int is_live, double seconds, int columns, char *line, size_t size) {
    enum { STEP, WORK, LOSS, RATE, NORM, TIME, ITEMS, MEMORY, LEFT };
    line_part parts[] = {{1, ""}, {4, ""}, {2, ""}, {8, ""}, {7, ""}, {9, ""}, {5, ""}, {6, ""}, {3, ""}};
    char left[32];
    if (t->now->steps > 0)
        snprintf(parts[STEP].text, sizeof parts[STEP].text, "step %lld/%lld", (long long)t->now->steps_done,
                 (long long)t->now->steps);
    else
        snprintf(parts[STEP].text, sizeof parts[STEP].text, "step %lld", (long long)t->now->steps_done);
    format_memory(t, is_live, parts[MEMORY].text, sizeof parts[MEMORY].text);
    if (is_live)
        format_work(t, seconds, parts[WORK].text, sizeof parts[WORK].text);
    if (t->step.step) {
        format_numbers(t, &parts[LOSS], &parts[RATE], &parts[NORM], &parts[TIME], &parts[ITEMS]);
        training_format_time(t->left > seconds ? t->left - seconds : 0, left, sizeof left);
        if (t->now->steps > 0)
            snprintf(parts[LEFT].text, sizeof parts[LEFT].text, "%s left", left);
    }
    join_parts(parts, COMMAND_COUNT(parts), columns, line, size);
}

/* ---- The line on a terminal ---- */

static void draw(training *t, double now) {
    char line[500];
    format_line(t, 1, now - t->since, output_columns(stderr), line, sizeof line);
    output_live(line);
    t->shown = now;
}

/* Writes a line to a log from time to time during a long evaluation. */
static void log_evaluating(training *t, double now) {
    enum { BETWEEN = 30 }; /* seconds */
    char text[80];
    if (!t->now->evaluating || now - t->since < BETWEEN || now - t->shown < BETWEEN)
        return;
    format_evaluating(t, now - t->since, text, sizeof text);
    output_info("%s", text);
    t->shown = now;
}

/* Keeps the line current. Called before each use of a file. */
static void keep_current(void *user) {
    training *t = (training *)user;
    const double now = process_time();
    if (!output_is_terminal())
        log_evaluating(t, now);
    else if (now - t->shown >= 0.5)
        draw(t, now);
}

void training_watch(training *t, int is_on) {
    if (is_on && t->now)
        files_watch(keep_current, t);
    if (is_on)
        return;
    files_watch(NULL, NULL);
    output_live(NULL);
    t->now = NULL;
}

/* ---- Events ---- */

/* Takes the values of a step that lines show. */
static void take_step(training *t, const eitp_run_event *event) {
    const eitp_run_report *report = event->report;
    const double done = (double)(report->step.step - report->start_step);
    t->step = report->step;
    t->logged_steps++;
    t->logged_items += report->step.items;
    t->logged_seconds += event->seconds;
    t->step_seconds = t->logged_seconds / (double)t->logged_steps;
    t->rate = t->logged_seconds > 0 ? (double)t->logged_items / t->logged_seconds : 0;
    t->left = (report->seconds + t->between) / done * (double)(report->steps - report->step.step);
}

static void show_step(training *t, const eitp_run_event *event) {
    const eitp_run_report *report = event->report;
    const eitp_step_report *step = &report->step;
    const int64_t every = t->log_every;
    int terminal = output_is_terminal(), last = step->step == report->steps;
    double now = process_time();
    char line[500];
    take_step(t, event);
    if (terminal ? now - t->shown < 0.1 && !last : step->step % every && step->step != report->start_step + 1 && !last)
        return;
    if (terminal) {
        draw(t, now);
    } else {
        format_line(t, 0, 0, 0, line, sizeof line);
        output_info("%s", line);
        t->shown = now;
    }
    if (!terminal || t->logged_seconds > 1) {
        t->logged_steps = t->logged_items = 0;
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

/* Follows a changed setting that lines depend on. */
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

/* Counts events and times for the last lines. */
static void count_event(training *t, const eitp_run_event *event) {
    const int is_evaluation = event->kind == EITP_EVENT_EVALUATION;
    t->since = process_time();
    t->warnings += event->level >= EITP_LOG_WARNING || (is_evaluation && !isfinite(event->report->evaluation.loss));
    if (is_evaluation)
        t->evaluation_seconds += event->seconds;
    if (is_evaluation && t->step.step)
        t->between += event->seconds;
    if (event->kind == EITP_EVENT_SAVED)
        t->save_seconds += event->seconds;
}

/* Prints an event of the library, and adds options where they help. */
void training_notice(void *user, const eitp_run_event *event) {
    training *t = (training *)user;
    /* A refused run has no events, and prints one line. */
    output_start();
    count_event(t, event);
    t->now = event->report;
    if (event->kind == EITP_EVENT_STARTED) {
        training_watch(t, 1);
        return;
    }
    if (event->kind != EITP_EVENT_STEP && output_is_terminal())
        draw(t, process_time()); /* steps may have passed since it was drawn; it is drawn again below the event */
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
        output_warning("%s; --auto-shrink would shrink the run", event->message);
    else if (event->kind == EITP_EVENT_DIVERGING)
        output_warning("%s (--lr %g, --warmup-steps)", event->message, options_number(&t->r->options, OPTION_LR));
    else if (event->level >= EITP_LOG_ERROR)
        output_error("%s", event->message);
    else if (event->level == EITP_LOG_WARNING)
        output_warning("%s", event->message);
    else
        output_info("%s", event->message);
}
