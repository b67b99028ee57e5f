/* The end of a run: its result, the reason, and the next command. */
#include "files.h"
#include "model/adapt.h"
#include "output.h"
#include "plan/suggestion.h"
#include "process.h"
#include "run/training.h"

/* Number of metrics in the last line. */
#define SHOWN_METRICS 2

/* Returns the reason why the run ended before its last step, as in the result of --json, or NULL. */
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

/* Returns the path of the last good checkpoint, or NULL. The caller frees it. */
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

/* Adds metrics other than loss terms, as in metrics.jsonl. */
static void add_json_metrics(const eitp_evaluation *evaluation, text_buffer *result) {
    char name[EITP_SCALAR_NAME_SIZE + 8];
    for (int i = evaluation->term_count; i < evaluation->metric_count; i++) {
        snprintf(name, sizeof name, "val_%s", evaluation->metrics[i].name);
        text_json_member_number(result, name, evaluation->metrics[i].mean);
    }
}

void training_print_json(const training *t) {
    const eitp_run_report *report = &t->report;
    const char *stopped = stop_name(report);
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
        if (training_has_perplexity(t))
            text_json_member_number(&result, "val_perplexity", exp(report->evaluation.loss));
        add_json_metrics(&report->evaluation, &result);
        text_json_member_integer(&result, "val_step", report->evaluated_step);
    }
    if (report->best_step >= 0) {
        text_json_member_integer(&result, "best_step", report->best_step);
        text_json_member_number(&result, "best_value", report->best_value);
    }
    text_json_member_integer(&result, training_unit(t), report->items);
    text_json_member_number(&result, "seconds", report->seconds);
    snprintf(rate, sizeof rate, "%s_per_s", training_unit(t));
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
    training_format_loss(loss, text, sizeof text);
    text_format(line, ", validation loss %s", text);
    if (isfinite(exp(loss)) && training_has_perplexity(t))
        text_format(line, loss < 15 ? " (perplexity %.2f)" : " (perplexity %.3g)", exp(loss));
    for (int i = evaluation->term_count; i < evaluation->metric_count && i < evaluation->term_count + SHOWN_METRICS;
         i++)
        text_format(line, ", %s %.4f", evaluation->metrics[i].name, evaluation->metrics[i].mean);
    text_format(line, " after step %lld", (long long)report->evaluated_step);
    if (report->best_step >= 0)
        text_format(line, ", best %.4f after step %lld", report->best_value, (long long)report->best_step);
}

/* Describes the end of a run, unless a signal stopped it. */
static const char *describe_end(const eitp_run_report *report) {
    switch (report->end) {
    case EITP_RUN_NOT_FINITE:
        return "stopped (non-finite gradients)";
    case EITP_RUN_DIVERGED:
        return "stopped (the loss diverged)";
    case EITP_RUN_MEMORY_PRESSURE:
        return "stopped (low memory)";
    case EITP_RUN_EARLY_STOP:
        return "stopped early";
    default:
        return "finished";
    }
}

void training_print_summary(const training *t) {
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
    training_format_loss(report->step.loss, loss, sizeof loss);
    if (report->step.step)
        text_format(&line, ", loss %s", loss);
    if (report->evaluations)
        add_evaluation(t, &line);
    if (report->items)
        text_format(&line, ", %lld %s at %.0f per second", (long long)report->items, training_unit(t),
                    (double)report->items / report->seconds);
    text_format(&line, ", peak memory %s; %s\n", output_bytes((double)process_peak_memory()),
                checkpoint ? checkpoint : "no checkpoint");
    output_result(line.data, line.size);
    free(checkpoint);
    text_release(&line);
}

/* ---- Results, files and next commands ---- */

/* Prints a label and a line. */
static void print_line(const char *label, text_buffer *line) {
    if (line->size)
        output_info("%s: %s", label, line->data);
    text_release(line);
}

/* Prints the newest checkpoint, and the best one if the run keeps it. */
static void print_model(const training *t) {
    const eitp_run_report *report = &t->report;
    const option_set *o = &t->r->options;
    const int keeps_loss = !options_has(o, OPTION_KEEP_BEST) && options_integer(o, OPTION_PATIENCE) > 0;
    const char *metric = keeps_loss ? "loss" : options_text(o, OPTION_KEEP_BEST);
    char *checkpoint = last_checkpoint(t), *best;
    text_buffer line = {NULL, 0, 0};
    if (!checkpoint)
        return;
    suggest_add(&line, checkpoint);
    best = command_format("%s/checkpoint-%lld", t->r->directory, (long long)report->best_step);
    if (metric && report->best_step >= 0 && files_info(best).kind == EITP_PATH_DIRECTORY) {
        text_format(&line, report->best_step == report->saved_step ? ", the best" : "; the best:");
        if (report->best_step != report->saved_step)
            suggest_add(&line, best);
        text_format(&line, " (%s %.4f)", metric, report->best_value);
    }
    print_line("model", &line);
    free(checkpoint);
    free(best);
}

static void add_seconds(text_buffer *line, const char *what, double seconds) {
    char text[32];
    if (seconds >= 60)
        training_format_time(seconds, text, sizeof text);
    else
        snprintf(text, sizeof text, "%.1f s", seconds);
    text_format(line, "%s%s", what, text);
}

/* Adds the peak since the start of the process: reading the data may have used more than training. */
static void add_peak(text_buffer *line, const training *t, size_t planned) {
    const size_t peak = process_peak_memory();
    if (peak > planned && peak <= t->peak_before)
        text_format(line, "; peak memory %s before training, with %s planned", output_bytes((double)peak),
                    output_bytes((double)planned));
    else
        text_format(line, "; peak memory %s of %s planned", output_bytes((double)peak), output_bytes((double)planned));
}

/* Reports if training exceeded the plan, which should be an upper bound. Plans do not include a GPU driver's memory in
   the process. */
static void print_defect(const training *t, size_t planned) {
    text_buffer line = {NULL, 0, 0};
    const size_t peak = process_peak_memory();
    char *record;
    if (t->r->choice.device || peak <= planned || peak <= t->peak_before)
        return;
    record = files_join(t->r->directory, "run.json");
    text_format(&line, "training used %s more memory than planned, which is a bug in eitp; please report it with",
                output_bytes((double)(peak - planned)));
    suggest_add(&line, record);
    print_line("defect", &line);
    free(record);
}

static void print_time(const training *t) {
    const eitp_run_report *report = &t->report;
    const size_t planned = t->r->choice.total + run_copy_bytes(t->r);
    text_buffer line = {NULL, 0, 0};
    if (!report->items)
        return;
    add_seconds(&line, "", process_time() - t->began);
    add_seconds(&line, ": training ", report->seconds);
    if (t->evaluation_seconds > 0)
        add_seconds(&line, ", evaluating ", t->evaluation_seconds);
    if (t->save_seconds > 0)
        add_seconds(&line, ", saving ", t->save_seconds);
    if (t->save_seconds > 0 && run_copy_bytes(t->r))
        text_format(&line, " (mostly in the background)");
    text_format(&line, "; %.0f %s/s", (double)report->items / report->seconds, training_unit(t));
    add_peak(&line, t, planned);
    print_line("time", &line);
    print_defect(t, planned);
}

/* Prints the location of records and the command to view them; trouble comes first. */
static void print_records(const training *t) {
    static const char *const names[] = {"metrics.jsonl", "metrics.csv", "tensorboard"};
    const char *directory = eitp_run_records_directory(t->r->run);
    text_buffer line = {NULL, 0, 0}, command = {NULL, 0, 0};
    for (size_t i = 0; i < COMMAND_COUNT(names) && !line.size; i++) {
        char *path = files_join(directory, names[i]);
        if (files_info(path).kind != EITP_PATH_MISSING)
            suggest_add(&line, path);
        /* The commands read only the first one. */
        if (line.size && !i) {
            suggest_begin(&command, t->warnings ? "doctor" : "report");
            suggest_add(&command, t->r->directory);
            if (t->warnings)
                text_format(&line, "; %lld warning%s", (long long)t->warnings, t->warnings == 1 ? "" : "s");
            text_format(&line, "; %s", command.data);
        }
        free(path);
    }
    print_line("records", &line);
    text_release(&command);
}

/* Adds the model, or the trained adapters and their base model. */
static void add_model(const training *t, text_buffer *line) {
    const char *base = options_text(&t->r->options, OPTION_MODEL);
    const int is_adapted = base && adapt_is_requested(&t->r->options);
    suggest_add_option(line, "--model", is_adapted ? base : t->r->directory);
    if (is_adapted)
        suggest_add_option(line, "--adapter", t->r->directory);
}

/* Adds a file of new rows with a name like the run's data, so that it is read in the same way. */
static void add_new_rows(const training *t, text_buffer *line) {
    static const option_id names[] = {OPTION_DATA_FORMAT, OPTION_ENCODING, OPTION_TEXT_COLUMN, OPTION_PAIR_COLUMN,
                                      OPTION_DELIMITER};
    const option_set *o = &t->r->options;
    const char *data = options_text(o, OPTION_DATA), *name = strrchr(data, '/');
    const char *ending = strrchr(name ? name : data, '.');
    char *rows = command_format("more%s", ending && files_info(data).kind == EITP_PATH_FILE ? ending : ".txt");
    suggest_add_option(line, "--data", rows);
    free(rows);
    for (size_t i = 0; i < COMMAND_COUNT(names); i++) {
        char *option = command_format("--%s", options_name(names[i]));
        if (options_is_explicit(o, names[i]))
            suggest_add_option(line, option, options_text(o, names[i]));
        free(option);
    }
}

/* True for a language model trained on conversations: only their samples have labels. */
static int is_of_conversations(const training *t) {
    return t->r->kind == EITP_TASK_LANGUAGE && eitp_training_get_data(t->r->training, EITP_TRAINING).is_labelled;
}

/* Returns the first words of some tokens on one line in a new string, or NULL if they have none. */
static char *first_words(const eitp_tokenizer *tokenizer, const int32_t *ids, size_t count) {
    enum { USUAL = 20 }; /* bytes */
    char text[1024];
    size_t size = 0, begin = 0, end = 0, cut = 0;
    eitp_error ignored;
    if (eitp_tokenizer_decode(tokenizer, ids, count, text, sizeof text, &size, &ignored) || size > sizeof text)
        return NULL;
    while (begin < size && (unsigned char)text[begin] <= ' ')
        begin++;
    for (size_t at = begin; at < size && at < begin + USUAL && (unsigned char)text[at] >= ' ';) {
        const int length = text_utf8_length(text + at, size - at);
        if (length < 1)
            break;
        at += (size_t)length;
        cut = at;
        if (at == size || (unsigned char)text[at] <= ' ')
            end = at;
    }
    end = end ? end : cut;
    return end ? command_format("%.*s", (int)(end - begin), text + begin) : NULL;
}

static int is_special(const eitp_tokenizer *tokenizer, int32_t id) {
    int kind = 0;
    while (kind < EITP_SPECIAL_TOKEN_COUNT && id != eitp_tokenizer_special(tokenizer, (eitp_special_token)kind))
        kind++;
    return kind < EITP_SPECIAL_TOKEN_COUNT;
}

/* Returns a prompt from the training data: the start of its first document, without special tokens, in a new string.
   NULL if it cannot be read. */
static char *find_prompt(const training *t) {
    enum { MOST = 48 };
    const eitp_host host = command_host();
    const eitp_tokenizer *tokenizer = eitp_training_get_tokenizer(t->r->training);
    const char *path = eitp_training_get_data(t->r->training, EITP_TRAINING).path;
    eitp_sample_file *file = NULL;
    int32_t ids[MOST];
    size_t kept = 0, count = MOST;
    eitp_error ignored;
    if (!tokenizer || !path || eitp_sample_file_open(&host, path, 0, &file, &ignored))
        return NULL;
    if (eitp_sample_file_get_info(file).token_count < count)
        count = (size_t)eitp_sample_file_get_info(file).token_count;
    if (eitp_sample_file_read_tokens(file, 0, count, ids, &ignored))
        count = 0;
    eitp_sample_file_close(file);
    for (size_t i = 0; i < count; i++) {
        const int is_end = is_special(tokenizer, ids[i]);
        if (is_end && kept)
            break;
        if (!is_end)
            ids[kept++] = ids[i];
    }
    return kept ? first_words(tokenizer, ids, kept) : NULL;
}

/* Adds a prompt for the model. */
static void add_prompt(const training *t, const char *option, text_buffer *line) {
    char *prompt = find_prompt(t);
    suggest_add_option(line, option, prompt ? prompt : "...");
    free(prompt);
}

/* Adds the command that uses the model. */
static void add_use(const training *t, text_buffer *line) {
    const int has_latent = t->r->kind == EITP_TASK_VAE, is_masked = t->r->kind == EITP_TASK_MASKED;
    const int has_labels = t->r->kind >= EITP_TASK_CLASSIFICATION && !has_latent, talks = is_of_conversations(t);
    suggest_begin(line, has_labels ? "predict" : is_masked ? "embed" : talks ? "chat" : "generate");
    add_model(t, line);
    if (talks)
        return;
    if (has_labels)
        add_new_rows(t, line);
    else if (has_latent)
        suggest_add_option(line, "--samples", "5");
    else
        add_prompt(t, is_masked ? "--text" : "--prompt", line);
}

static void print_next(const training *t) {
    text_buffer line = {NULL, 0, 0};
    char *resume;
    switch (t->report.end) {
    case EITP_RUN_STOPPED: /* see training_suggest_resume */
        break;
    case EITP_RUN_MEMORY_PRESSURE:
        resume = suggest_resume(t->r->directory, "auto");
        text_format(&line, "%s", resume);
        free(resume);
        break;
    case EITP_RUN_NOT_FINITE:
    case EITP_RUN_DIVERGED:
        suggest_begin(&line, "doctor");
        suggest_add(&line, t->r->directory);
        break;
    default:
        if (t->report.saved_step >= 0)
            add_use(t, &line);
    }
    print_line("next", &line);
}

void training_print_outcome(const training *t) {
    print_model(t);
    print_time(t);
    print_records(t);
    print_next(t);
}

/* Prints the command to resume a run that a signal stopped. */
void training_suggest_resume(const training *t) {
    char *command;
    if (t->report.end != EITP_RUN_STOPPED || t->report.saved_step < 0)
        return;
    command = suggest_resume(t->r->directory, "auto");
    output_info("to resume: %s", command);
    free(command);
}

/* Prints an error after which the state could not be saved, with the last step saved and the command to resume. */
static void print_lost_state(const training *t, const char *message) {
    const eitp_run_report *report = &t->report;
    const int is_unchanged = t->r->checkpoint && report->saved_step == report->start_step;
    char *command;
    if (report->saved_step < 0) {
        output_error("%s; nothing is saved: start a new run", message);
        return;
    }
    command = suggest_resume(t->r->directory, is_unchanged ? t->r->checkpoint : "auto");
    output_error("%s; saved up to step %lld; to resume: %s", message, (long long)report->saved_step, command);
    free(command);
}

int training_fail(const training *t, const eitp_error *error) {
    if (error->status == EITP_ERROR_DEVICE || eitp_trainer_is_inconsistent(eitp_training_get_trainer(t->r->training)))
        print_lost_state(t, error->message);
    else if (error->status == EITP_ERROR_PRESSURE)
        output_error("%s; resume with --resume auto when more memory is free", error->message);
    else if (error->status == EITP_ERROR_NOT_FINITE)
        output_error("%s (--lr, --warmup-steps)", error->message);
    else
        output_error("%s", error->message);
    return command_exit_code(error->status);
}

/* Ends a run that was stopped before it did or saved anything new. Removes the files created for it. */
int training_end_before_step(training *t) {
    output_error("stopped by %s before the first step", process_stop_name());
    t->r->started = t->report.start_step > 0;
    return 128 + t->report.stop_reason;
}
