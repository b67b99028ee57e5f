/* The first lines of a run, and its run.json. */
#include "files.h"
#include "model/adapt.h"
#include "options/profile.h"
#include "output.h"
#include "plan/fit.h"
#include "run/record.h"
#include "run/run.h"

#include <time.h>

/* ---- Lines ---- */

/* What it trains for, as in --task. */
static const char *task_name(const training_run *r) {
    static const char *const names[] = {"auto", "lm", "mlm", "classify", "tokens", "regress"};
    return names[r->kind];
}

static void log_memory(const training_run *r) {
    const eitp_context *context = eitp_training_get_context(r->training);
    const eitp_fit *fit = eitp_training_get_fit(r->training);
    size_t parameters =
        eitp_context_variable_bytes(context, EITP_PARAMETER) + eitp_context_variable_bytes(context, EITP_REMAINDER);
    size_t gradients = eitp_context_variable_bytes(context, EITP_GRADIENT);
    size_t state = eitp_context_variable_bytes(context, EITP_OPTIMIZER);
    size_t arena = eitp_context_arena_bytes(context);
    const eitp_optimizer_info *optimizer = eitp_optimizer_get(r->choice.optimizer);
    char text[200];
    const size_t copy = run_copy_bytes(r);
    output_info(
        "memory: parameters %s, gradients %s, optimizer state %s, activations %s%s%s; total including the process %s",
        output_bytes((double)parameters), output_bytes((double)gradients), output_bytes((double)state),
        output_bytes((double)arena), copy ? ", copy of a checkpoint " : "", copy ? output_bytes((double)copy) : "",
        output_bytes((double)(r->choice.total + copy)));
    output_info("configuration: %s", fit_describe(fit, &r->choice, text, sizeof text));
    if (optimizer->fidelity == EITP_SAME_BITS || !fit->any_optimizer)
        return;
    if (profile_takes_least(&r->options))
        output_warning("the profile low-memory uses %s (%s) instead of adamw in full precision", optimizer->name,
                       optimizer->state);
    else
        output_warning("adamw in full precision does not fit in %s: using %s (%s)", output_bytes((double)fit->budget),
                       optimizer->name, optimizer->state);
}

/* What offloading moves in a step, and writes to the disk in all. */
static void log_offload(const training_run *r) {
    double steps = (double)(r->steps - (r->checkpoint ? r->resumed.step : 0));
    if (!r->choice.offload || steps <= 0)
        return;
    output_info("offloaded: %s in a file; a step reads %s and writes %s", output_bytes((double)r->choice.offloaded),
                output_bytes(r->choice.file_reads), output_bytes(r->choice.file_writes));
    output_warning("this run writes %s to the disk of '%s'; a solid-state disk can be overwritten a few hundred times",
                   output_bytes(steps * r->choice.file_writes),
                   options_has(&r->options, OPTION_OFFLOAD_FILE) ? options_text(&r->options, OPTION_OFFLOAD_FILE)
                                                                 : r->directory);
}

static void log_run(const training_run *r) {
    const option_set *o = &r->options;
    const eitp_model *model = eitp_training_get_model(r->training);
    const int64_t sequences = options_integer(o, OPTION_BATCH_SIZE) * options_integer(o, OPTION_GRAD_ACCUM);
    output_info("device: %s", eitp_context_description(eitp_training_get_context(r->training)));
    output_info("model: %lld parameters, vocabulary %lld; step: %lld sequences of %lld tokens",
                (long long)eitp_model_parameter_count(model), (long long)eitp_model_vocabulary(model),
                (long long)sequences, (long long)eitp_training_get_task(r->training)->rows);
    adapt_log(model);
    if (r->kind != EITP_TASK_LANGUAGE)
        output_info("task: %s%s", task_name(r),
                    options_choice(o, OPTION_TASK) ? "" : " (inferred; override with --task)");
    if (r->checkpoint && r->resumed.step < r->steps)
        output_info("resuming from '%s' at step %lld of %lld", r->checkpoint, (long long)r->resumed.step,
                    (long long)r->steps);
}

void run_log(const training_run *r) {
    log_run(r);
    log_memory(r);
    log_offload(r);
}

/* ---- run.json ---- */

/* The data of the run, as members of "run". */
static void add_data(const training_run *r, text_buffer *t) {
    const eitp_training_data training = eitp_training_get_data(r->training, EITP_TRAINING);
    const eitp_training_data validation = eitp_training_get_data(r->training, EITP_VALIDATION);
    text_json_member_string(t, training.is_labelled ? "labelled_file" : "token_file", training.path);
    text_json_member_integer(t, training.is_labelled ? "training_samples" : "training_tokens",
                             (int64_t)(training.is_labelled ? training.samples : training.tokens.count));
    text_json_member_integer(t, training.is_labelled ? "validation_samples" : "validation_tokens",
                             (int64_t)(training.is_labelled ? validation.samples : validation.tokens.count));
}

void run_write_record(training_run *r) {
    text_buffer *t = &r->record;
    char now[40], *path = files_join(r->directory, "run.json");
    char *directory = realpath(r->directory, NULL);
    time_t seconds = time(NULL);
    struct tm utc;
    const eitp_context *context = eitp_training_get_context(r->training);
    eitp_error error;
    strftime(now, sizeof now, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&seconds, &utc));
    record_make_absolute(&r->options);
    text_format(t, "{\"run\": {");
    text_json_member_string(t, "version", eitp_version());
    text_json_member_string(t, "build", eitp_build_info());
    text_json_member_string(t, "device", eitp_context_description(context));
    text_json_member_string(t, "numerics", eitp_context_numerics(context));
    text_json_member_string(t, "started", now);
    if (directory)
        text_json_member_string(t, "directory", directory);
    text_json_member_integer(t, "first_step", eitp_trainer_steps_done(eitp_training_get_trainer(r->training)) + 1);
    text_json_member_integer(t, "last_step", r->steps);
    text_json_member_integer(t, "parameters", eitp_model_parameter_count(eitp_training_get_model(r->training)));
    add_data(r, t);
    text_format(t, "},\n\"configuration\": {");
    options_write(&r->options, t);
    text_format(t, "}}\n");
    free(directory);
    if (files_replace(path, t->data, t->size, &error))
        output_warning("%s; the run continues, since each checkpoint has its own", error.message);
    free(path);
}

/* Writes run.json into a checkpoint, which can be resumed without the one in the output directory. */
eitp_status run_save_record(void *user, const char *directory, eitp_error *error) {
    const training_run *r = (const training_run *)user;
    char *path = files_join(directory, "run.json");
    const eitp_status status = files_replace(path, r->record.data, r->record.size, error);
    free(path);
    return status;
}
