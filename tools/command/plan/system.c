#include "plan/system.h"

#include "files.h"
#include "model/model.h"
#include "options/profile.h"
#include "output.h"
#include "plan/suggestion.h"
#include "process.h"

#include <unistd.h>

/* In the order of the report, after the requested model. */
static const struct {
    const char *name;
    int has_adapters;
} usual[] = {{"tiny", 0},         {"distilgpt2", 0},      {"gpt2", 0},       {"gpt2-medium", 0},
             {"minilm", 0},       {"distilbert-base", 0}, {"bert-base", 0},  {"roberta-large", 0},
             {"smollm2-135m", 1}, {"gemma-3-270m", 1},    {"qwen2-0.5b", 1}, {"qwen3-0.6b", 1},
             {"llama-3.2-1b", 1}, {"qwen2.5-1.5b", 1}};

/* Without a requested model, the command uses the first of these that fits. */
static const char *const preferred[] = {"gpt2", "distilgpt2", "tiny"};

/* ---- Processor and kernels ---- */

/* Lists the instruction sets of the build whose kernels can run here. */
static void list_sets(const option_set *o, system_report *report) {
    const char *at = strstr(eitp_build_info(), "kernels=");
    at = at ? at + strlen("kernels=") : "";
    while (*at && *at != ' ' && report->set_count < SYSTEM_SETS) {
        char isa[MODEL_ISA_SIZE];
        eitp_context_config config = model_context_config(o, NULL, isa);
        eitp_context *context;
        eitp_error ignored;
        const size_t length = strcspn(at, ", ");
        char *name = report->sets[report->set_count];
        snprintf(name, sizeof report->sets[0], "%.*s", (int)length, at);
        config.device = "cpu";
        config.isa = name;
        config.plans_only = 1;
        config.threads = 1;
        config.host.log.write = NULL;
        if (!eitp_context_create(&config, &context, &ignored)) {
            report->set_count++;
            eitp_context_destroy(context);
        }
        at += length;
        at += *at == ',';
    }
}

/* Finds the device and kernels that will compute, considering EITP_ISA and similar variables. Fails if they request
   something unavailable. */
static eitp_status examine_device(const option_set *o, system_report *report, eitp_error *error) {
    char isa[MODEL_ISA_SIZE];
    eitp_context_config config = model_context_config(o, NULL, isa);
    eitp_context *context;
    const char *set;
    eitp_status status;
    config.plans_only = 1;
    status = eitp_context_create(&config, &context, error);
    if (status)
        return status;
    set = strchr(eitp_context_numerics(context), '-');
    if (set)
        snprintf(report->kernels, sizeof report->kernels, "%.*s", (int)strcspn(set + 1, "-"), set + 1);
    snprintf(report->device, sizeof report->device, "%s", eitp_context_description(context));
    snprintf(report->precision, sizeof report->precision, "%s", eitp_context_precision_name(context));
    eitp_context_destroy(context);
    for (size_t i = 0; i < report->gpu_count; i++) {
        if (eitp_gpu_is_device(report->gpus[i].address, report->device))
            report->gpu = &report->gpus[i];
    }
    list_sets(o, report);
    return EITP_OK;
}

/* ---- Memory and disk ---- */

static eitp_status examine_memory(const option_set *o, system_report *report, eitp_error *error) {
    const eitp_host host = command_host();
    eitp_status status = eitp_memory_info_read(&host, &report->memory, error);
    report->budget = (size_t)options_integer(o, OPTION_MEMORY_BUDGET);
    report->has_budget = report->budget > 0;
    if (!report->has_budget)
        report->budget = (size_t)eitp_memory_budget_default(&report->memory);
    report->tier = advice_tier(report->has_budget ? (double)report->budget : (double)report->memory.usable,
                               report->gpu && report->gpu->free >= 0 ? (double)report->gpu->free : (double)NAN);
    return status;
}

static void examine_disk(const option_set *o, system_report *report) {
    const eitp_host host = command_host();
    uint64_t largest;
    report->disk = command_copy(options_text(o, OPTION_OUTPUT_DIR));
    while (files_info(report->disk).kind != EITP_PATH_DIRECTORY && strcmp(report->disk, ".") != 0 &&
           strcmp(report->disk, "/") != 0) {
        char *parent = files_parent(report->disk);
        free(report->disk);
        report->disk = parent;
    }
    report->is_writable = access(report->disk, W_OK) == 0;
    if (!host.files.space || host.files.space(host.files.user, report->disk, &report->disk_free, &largest))
        report->disk_free = UINT64_MAX;
}

/* ---- Models ---- */

/* Reads the options of `eitp plan` for a model, with the limits given to check-system. */
static eitp_status read_plan(const option_set *o, const system_report *report, const system_model *model,
                             const char *profile, option_set *plan, eitp_error *error) {
    char *arguments[] = {command_format("--%s=%s", model->is_given ? "model" : "init", model->name),
                         command_format("--lora-rank=%d", model->has_adapters ? SYSTEM_LORA_RANK : 0),
                         command_copy("--lora-targets=all-linear"),
                         command_format("--profile=%s", profile),
                         command_copy("--quiet"),
                         command_format("--memory-budget=%llu", (unsigned long long)report->budget),
                         command_format("--threads=%lld", (long long)options_integer(o, OPTION_THREADS)),
                         command_format("--device=%s", options_text(o, OPTION_DEVICE))};
    int ended;
    eitp_status status =
        options_read(plan, "plan", OPTIONS_PLAN, (int)COMMAND_COUNT(arguments), arguments, &ended, error);
    for (size_t i = 0; i < COMMAND_COUNT(arguments); i++)
        free(arguments[i]);
    return status;
}

/* True if eitp train can train the model on unlabelled text. */
static int trains_on_text(const eitp_transformer_config *shape, const char *directory) {
    if (eitp_head_has_labels(shape->head))
        return 0;
    return !shape->bidirectional || (directory && model_has_tokenizer(directory));
}

/* Opens the run that `eitp plan` plans for a model. Release both in any case. */
static eitp_status open_plan(const option_set *o, const system_report *report, system_model *model, const char *profile,
                             option_set *plan, eitp_training **training, eitp_error *error) {
    eitp_status status = read_plan(o, report, model, profile, plan, error);
    *training = NULL;
    profile_apply(plan);
    if (!status)
        status = fit_open(plan, training, error);
    if (!status) {
        const char *directory = eitp_training_get_source(*training).weights;
        model->is_directory = directory != NULL;
        model->is_trained = trains_on_text(eitp_training_get_shape(*training), directory);
    }
    return status;
}

static void close_plan(option_set *plan, eitp_training *training) {
    eitp_training_close(training);
    options_release(plan);
}

static eitp_status examine_model(const option_set *o, system_report *report, const char *name, int is_given,
                                 int has_adapters, eitp_error *error) {
    system_model *model = &report->models[report->model_count++];
    const size_t process = (size_t)report->memory.resident;
    eitp_training *training;
    option_set plan;
    eitp_status status;
    model->name = command_copy(name);
    model->is_given = is_given;
    model->has_adapters = has_adapters;
    status = open_plan(o, report, model, "auto", &plan, &training, error);
    if (!status)
        status = advice_choose_profile(&plan, training, process, &model->advice, error);
    close_plan(&plan, training);
    if (status || model->advice.chosen.fits)
        return status;
    /* No profile fits: use the choice of `eitp plan` without one. */
    model->profile_bytes = model->advice.chosen.total;
    status = open_plan(o, report, model, "none", &plan, &training, error);
    if (!status)
        status = advice_without_profile(training, process, &model->advice, error);
    close_plan(&plan, training);
    return status;
}

/* --model also accepts names of shapes. */
static eitp_status examine_models(const option_set *o, system_report *report, eitp_error *error) {
    const char *given = options_text(o, OPTION_MODEL);
    eitp_status status = EITP_OK;
    if (given && options_has(o, OPTION_INIT))
        return command_fail(error, EITP_ERROR_ARGUMENT,
                            "--model and --init cannot be used together: check a model, or a shape");
    if (!given)
        given = options_text(o, OPTION_INIT);
    if (given)
        status = examine_model(o, report, given, 1, 0, error);
    for (size_t i = 0; i < COMMAND_COUNT(usual) && !given && !status; i++)
        status = examine_model(o, report, usual[i].name, 0, usual[i].has_adapters, error);
    return status;
}

/* ---- The model of the command ---- */

int system_has_room(const system_report *report, const system_model *model) {
    return report->disk_free / SYSTEM_CHECKPOINTS >= model->advice.chosen.checkpoint;
}

/* Returns the requested model, or the first preferred one that fits, if possible together with its checkpoints on the
   disk. If none fits, the smallest. */
static system_model *choose_model(system_report *report) {
    system_model *chosen = NULL;
    if (report->models[0].is_given)
        return &report->models[0];
    for (size_t i = 0; i < COMMAND_COUNT(preferred); i++) {
        for (size_t k = 0; k < report->model_count; k++) {
            system_model *model = &report->models[k];
            if (strcmp(model->name, preferred[i]) != 0 || !model->advice.chosen.fits)
                continue;
            chosen = model;
            if (system_has_room(report, model))
                return model;
        }
    }
    return chosen ? chosen : &report->models[0]; /* the first of the usual ones is the smallest */
}

/* Finds the largest batch that fits, or the reason why none does. */
static eitp_status find_largest_batch(const option_set *o, system_report *report, eitp_error *error) {
    system_model *model = choose_model(report);
    eitp_training *training;
    eitp_recipe *recipe;
    eitp_fit_candidate ignored;
    option_set plan;
    eitp_status status = open_plan(o, report, model, model->advice.profile, &plan, &training, error);
    recipe = eitp_training_get_recipe(training);
    if (!status)
        recipe->memory.process = (uint64_t)report->memory.resident;
    if (!status && model->advice.chosen.fits) {
        report->model = model;
        recipe->task.block_size = model->advice.block_size;
        status = advice_largest_batch(training, 64, &report->largest_batch, error);
    } else if (!status) {
        status = eitp_training_describe(training, error);
        if (!status && fit_choose(&plan, eitp_training_get_fit(training), &recipe->task.block_size, &ignored, error))
            snprintf(report->why, sizeof report->why, "%s", error->message);
    }
    close_plan(&plan, training);
    return status;
}

/* ---- The report ---- */

eitp_status system_examine(option_set *o, system_report *report, eitp_error *error) {
    const eitp_host host = command_host();
    eitp_status status = eitp_processor_info_read(&host, &report->processors, error);
    machine_processor_name(report->processor, sizeof report->processor);
    report->cache_count = machine_caches(report->caches);
    report->gpu_count = machine_gpus(report->gpus);
    if (!status)
        status = eitp_sensors_read(&host, report->sensors, SYSTEM_SENSORS, &report->sensor_count, error);
    if (!status)
        status = examine_device(o, report, error);
    if (!status)
        status = examine_memory(o, report, error);
    if (!status) {
        examine_disk(o, report);
        status = examine_models(o, report, error);
    }
    if (!status)
        status = find_largest_batch(o, report, error);
    if (!status)
        suggest_command(o, report);
    return status;
}

void system_release(system_report *report) {
    for (size_t i = 0; i < report->model_count; i++)
        free(report->models[i].name);
    free(report->disk);
    free(report->command);
    free(report->note);
    memset(report, 0, sizeof *report);
}
