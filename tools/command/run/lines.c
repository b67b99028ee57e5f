/* The first lines of a run, and its run.json. */
#include "model/adapt.h"
#include "options/profile.h"
#include "output.h"
#include "plan/fit.h"
#include "plan/machine.h"
#include "run/record.h"
#include "run/run.h"
#include "task/task.h"

/* ---- Lines ---- */

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
    const eitp_fit_price price = eitp_training_get_price(r->training);
    output_info(
        "memory: parameters %s, gradients %s, optimizer state %s, activations %s%s%s; total including the process %s",
        output_bytes((double)parameters), output_bytes((double)gradients), output_bytes((double)state),
        output_bytes((double)arena), copy ? ", copy of a checkpoint " : "", copy ? output_bytes((double)copy) : "",
        output_bytes((double)(r->choice.total + copy)));
    if (r->choice.device)
        output_info("planned GPU memory: %s", output_bytes((double)r->choice.device));
    output_info("configuration: %s", fit_describe(fit, &r->choice, text, sizeof text));
    if (*fit_describe_price(&price, text, sizeof text))
        output_info("given up to save memory: %s", text);
    if (optimizer->fidelity == EITP_SAME_BITS || !fit->any_optimizer)
        return;
    if (profile_takes_least(&r->options))
        output_warning("the profile low-memory uses %s (%s) instead of adamw in full precision", optimizer->name,
                       optimizer->state);
    else
        output_warning("adamw in full precision does not fit in %s with sequences of %lld tokens: using %s (%s)",
                       output_bytes((double)(r->choice.device ? fit->device_budget : fit->budget)),
                       (long long)eitp_training_get_task(r->training)->rows, optimizer->name, optimizer->state);
}

/* Logs the bytes that offloading moves per step, and writes to the disk in total. */
static void log_offload(const training_run *r) {
    double steps = (double)(r->steps - (r->checkpoint ? r->resumed.step : 0));
    const int in_memory = r->choice.device && !options_has(&r->options, OPTION_OFFLOAD_FILE);
    if (!r->choice.offload || steps <= 0)
        return;
    output_info("offloaded: %s in %s; each step reads %s and writes %s", output_bytes((double)r->choice.offloaded),
                in_memory ? "the host's memory" : "a file", output_bytes(r->choice.file_reads),
                output_bytes(r->choice.file_writes));
    if (in_memory)
        return;
    output_warning("this run writes %s to the disk of '%s'; a solid-state disk can be overwritten a few hundred times",
                   output_bytes(steps * r->choice.file_writes),
                   options_has(&r->options, OPTION_OFFLOAD_FILE) ? options_text(&r->options, OPTION_OFFLOAD_FILE)
                                                                 : r->directory);
}

/* Returns why --device auto chose the processor; "" if a device is named. */
static const char *why_processor(const option_set *o) {
    if (strcmp(options_text(o, OPTION_DEVICE), "auto") != 0)
        return "";
    return machine_has_nvidia() ? "; chosen by --device auto because eitp's CUDA backend was never run on a GPU; "
                                  "--device cuda uses this machine's GPU"
                                : "; chosen by --device auto because there is no NVIDIA GPU";
}

static void log_run(const training_run *r) {
    const option_set *o = &r->options;
    const eitp_model *model = eitp_training_get_model(r->training);
    const int64_t sequences = options_integer(o, OPTION_BATCH_SIZE) * options_integer(o, OPTION_GRAD_ACCUM);
    output_info("device: %s%s", eitp_context_description(eitp_training_get_context(r->training)), why_processor(o));
    output_info("model: %lld parameters, vocabulary %lld; step: %lld sequences of %lld tokens",
                (long long)eitp_model_parameter_count(model), (long long)eitp_model_vocabulary(model),
                (long long)sequences, (long long)eitp_training_get_task(r->training)->rows);
    adapt_log(model);
    if (r->kind != EITP_TASK_LANGUAGE)
        output_info("task: %s%s", task_name(r->kind),
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

/* Adds the current options as a configuration. */
static eitp_status add_options_info(training_run *r, eitp_error *error) {
    text_buffer t = {NULL, 0, 0};
    eitp_status status;
    record_make_absolute(&r->options);
    text_format(&t, "{");
    options_write(&r->options, &t);
    text_format(&t, "}");
    status = eitp_run_add_info(r->run, "configuration", t.data, error);
    text_release(&t);
    return status;
}

/* Adds the original command, to start the run again. */
static eitp_status add_command_info(const training_run *r, eitp_error *error) {
    text_buffer t = {NULL, 0, 0};
    eitp_status status;
    text_format(&t, "[\"eitp\", \"train\"");
    for (int i = 0; i < r->argument_count; i++) {
        text_format(&t, ", ");
        text_json_string(&t, r->arguments[i], strlen(r->arguments[i]));
    }
    text_format(&t, "]");
    status = eitp_run_add_info(r->run, "command", t.data, error);
    text_release(&t);
    return status;
}

/* Adds the memory budget and the planned memory of the whole process. */
static eitp_status add_memory_info(const training_run *r, eitp_error *error) {
    const eitp_fit *fit = eitp_training_get_fit(r->training);
    char text[240], device[120] = "";
    if (r->choice.device)
        snprintf(device, sizeof device, ", \"gpu_budget_bytes\": %llu, \"gpu_planned_bytes\": %llu",
                 (unsigned long long)fit->device_budget, (unsigned long long)r->choice.device);
    snprintf(text, sizeof text, "{\"budget_bytes\": %llu, \"planned_bytes\": %llu%s}", (unsigned long long)fit->budget,
             (unsigned long long)(r->choice.total + run_copy_bytes(r)), device);
    return eitp_run_add_info(r->run, "memory", text, error);
}

eitp_status run_add_info(training_run *r, eitp_error *error) {
    eitp_status status = add_options_info(r, error);
    if (!status)
        status = add_command_info(r, error);
    return status ? status : add_memory_info(r, error);
}
