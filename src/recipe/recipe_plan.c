/* Planning: finds a configuration of a recipe that fits in memory. */
#include "io/model_directory.h"
#include "recipe/training.h"
#include "run/internal.h"

/* Parses the numerics of a run. "cpu-avx512-openblas.SkylakeX", with or without "-" and a precision, gives the kernels
   avx512 and products of openblas. All other products are eitp's own. */
static void eitp__follow_numerics(const char *numerics, char isa[EITP__ISA_SIZE], eitp_context_config *config) {
    const char *first = strchr(numerics, '-'), *second = first ? strchr(first + 1, '-') : NULL;
    if (!second || strncmp(numerics, "cpu-", 4) || config->isa)
        return;
    snprintf(isa, EITP__ISA_SIZE, "%.*s", (int)(second - first - 1), first + 1);
    config->isa = isa;
    config->products = strncmp(second + 1, "openblas", 8) ? "own" : "openblas";
}

static int eitp__can_create(const eitp_context_config *config) {
    eitp_context_config counting = *config;
    eitp_context *context = NULL;
    int can;
    counting.plans_only = 1;
    counting.host.log.write = NULL;
    can = !eitp_context_create(&counting, &context, NULL);
    eitp_context_destroy(context);
    return can;
}

/* True if an environment variable has a value other than this. */
static int eitp__names_another(const char *variable, const char *value) {
    const char *named = getenv(variable);
    return named && *named && value && strcmp(named, value) != 0;
}

/* A resumed run keeps its kernels, if the machine supports them and neither program nor environment sets others. */
static void eitp__keep_kernels(eitp_training *training, eitp_context_config *config) {
    const eitp_context_config given = *config;
    if (!training->is_resumed)
        return;
    eitp__follow_numerics(training->resumed.numerics, training->isa, config);
    if (eitp__names_another("EITP_ISA", config->isa) || eitp__names_another("EITP_PRODUCTS", config->products) ||
        !eitp__can_create(config))
        *config = given;
}

static eitp_status eitp__create_planned(const void *user, eitp_context *context, eitp_task *task, eitp_error *error) {
    eitp_training *training = (eitp_training *)(uintptr_t)user;
    eitp_model *model = NULL;
    eitp_status status = eitp__training_create_model(training, context, &model, error);
    if (!status && training->stored_dtype != EITP_F32)
        eitp__model_presume_dtype(model, training->stored_dtype);
    if (!status)
        status = training->kind->create(training, model, 1, task, error);
    if (status)
        eitp_model_destroy(model);
    return status;
}

static size_t eitp__record_bytes(const void *user, const eitp_task *task) {
    const eitp_training *training = (const eitp_training *)user;
    eitp_run_config config = training->recipe.run;
    if (training->prompt_tokens)
        config.describe = eitp__sample_texts_describe;
    return eitp_run_record_bytes(&config, task);
}

/* Returns the optimizer for a choice of the setting. */
static eitp_optimizer eitp__find_optimizer(const char *name) {
    int found = 0;
    while (found < EITP_OPTIMIZER_COUNT && strcmp(eitp_optimizer_get((eitp_optimizer)found)->name, name) != 0)
        found++;
    return found < EITP_OPTIMIZER_COUNT ? (eitp_optimizer)found : EITP_ADAMW;
}

static int eitp__is_auto(const char *text) {
    return !text || !strcmp(text, "auto");
}

/* A resumed run keeps its precision and optimizer if the recipe leaves them open. */
static void eitp__describe_numbers(eitp_training *training) {
    const eitp_memory_recipe *memory = &training->recipe.memory;
    eitp_fit *fit = &training->fit;
    fit->context.precision = training->is_resumed && eitp__is_auto(memory->precision) ? training->resumed.precision
                             : memory->precision                                      ? memory->precision
                                                                                      : "auto";
    if (training->is_resumed && eitp__is_auto(memory->optimizer)) {
        fit->trainer.optimizer_config.optimizer = training->resumed.config.optimizer_config.optimizer;
        return;
    }
    fit->any_optimizer = eitp__is_auto(memory->optimizer);
    fit->trainer.optimizer_config.optimizer = fit->any_optimizer ? EITP_ADAMW : eitp__find_optimizer(memory->optimizer);
}

/* Returns the recipe's budget, or the free memory. */
static eitp_status eitp__find_budget(const eitp_training *training, size_t *budget, eitp_error *error) {
    char text[16];
    eitp_memory_info info;
    eitp_status status;
    *budget = (size_t)training->recipe.memory.budget;
    if (*budget)
        return EITP_OK;
    status = eitp_memory_info_read(&training->host, &info, error);
    *budget = status ? 0 : (size_t)eitp_memory_budget_default(&info);
    if (*budget)
        eitp__log_line(&training->host, EITP_LOG_INFO, "memory budget: %s, from %s",
                       eitp_format_bytes(*budget, text, sizeof text), info.source);
    return status;
}

/* Like eitp__find_budget, for a GPU's own memory. */
static eitp_status eitp__find_device_budget(const eitp_training *training, eitp_fit *fit, eitp_error *error) {
    const eitp_memory_recipe *memory = &training->recipe.memory;
    eitp_device_memory found;
    char texts[2][16];
    eitp_status status;
    fit->device_budget = (size_t)memory->device_budget;
    if (fit->device_budget)
        return EITP_OK;
    status = eitp_fit_device_memory(fit, &found, error);
    fit->device_budget = status ? 0 : (size_t)eitp_device_budget_default(&found, memory->gpu_mem_max);
    if (fit->device_budget)
        eitp__log_line(&training->host, EITP_LOG_INFO, "GPU memory budget: %s of %s free",
                       eitp_format_bytes(fit->device_budget, texts[0], sizeof texts[0]),
                       eitp_format_bytes(found.free, texts[1], sizeof texts[1]));
    return status;
}

EITP__PRIVATE void eitp__training_set_rates(const eitp_training *training, eitp_trainer_config *config) {
    const eitp_optimizer_info *optimizer = eitp_optimizer_get(config->optimizer_config.optimizer);
    const eitp_trainer_config *given = &training->recipe.trainer;
    const int is_fine_tuning = training->recipe.model.directory && !training->recipe.model.lora_rank;
    const double usual = is_fine_tuning ? optimizer->fine_tuning_rate : optimizer->rate;
    config->schedule.peak = given->schedule.peak < 0 ? usual : given->schedule.peak;
    config->optimizer_config.weight_decay =
        given->optimizer_config.weight_decay < 0 ? optimizer->weight_decay : given->optimizer_config.weight_decay;
}

EITP__PRIVATE eitp_status eitp__training_split(eitp_training *training, eitp_error *error) {
    const eitp_run_config *run = &training->recipe.run;
    eitp_status status = EITP_OK;
    if (training->is_plan)
        eitp__training_split_random(training);
    else
        status = training->kind->split(training, error);
    if (!status && !training->validates && training->recipe.trainer.schedule.kind == EITP_SCHEDULE_PLATEAU)
        return eitp__fail(error, EITP_ERROR_ARGUMENT,
                          "lr_schedule plateau requires validation data; set val_data or val_fraction");
    if (!status && !training->validates && (run->keep_best || run->patience))
        return eitp__fail(error, EITP_ERROR_ARGUMENT,
                          "keep_best and patience require validation data; set val_data or val_fraction");
    if (!status && !training->validates && training->prompt_tokens)
        return eitp__fail(
            error, EITP_ERROR_ARGUMENT,
            "sample_prompt requires validation data, since samples are generated at evaluations; set val_data "
            "or val_fraction");
    return status;
}

EITP__PRIVATE eitp_status eitp__training_use_length(const void *user, int64_t length, eitp_error *error) {
    eitp_training *training = (eitp_training *)(uintptr_t)user;
    training->recipe.task.block_size = length;
    if (!training->parts[EITP_TRAINING].is_labelled)
        return eitp__training_split(training, error);
    training->planned_length = length; /* rows were cut when they were packed */
    return EITP_OK;
}

EITP__PRIVATE eitp_status eitp__training_describe_fit(eitp_training *training, eitp_error *error) {
    const eitp_memory_recipe *memory = &training->recipe.memory;
    const char *offload = memory->offload ? memory->offload : "none";
    eitp_fit *fit = &training->fit;
    eitp_memory_info info = EITP__ZERO;
    eitp_status status;
    memset(fit, 0, sizeof *fit);
    fit->least = memory->least;
    fit->context = training->recipe.context;
    fit->trainer = training->recipe.trainer;
    fit->trainer.plan.recompute = memory->recompute;
    fit->any_offload = eitp__is_auto(offload);
    fit->context.offload = !strcmp(offload, "states") ? EITP_OFFLOAD_STATES
                           : !strcmp(offload, "all")  ? EITP_OFFLOAD_ALL
                                                      : EITP_OFFLOAD_NONE;
    fit->context.offload_path = memory->offload_file;
    fit->create_task = eitp__create_planned;
    fit->user = training;
    fit->record_bytes = eitp__record_bytes;
    fit->lengths = training->lengths;
    fit->length_count = training->length_count;
    fit->use_length = eitp__training_use_length;
    fit->create_more = training->prompt_tokens ? eitp__sample_texts_plan : NULL;
    eitp__keep_kernels(training, &fit->context);
    status = eitp_memory_info_read(&training->host, &info, error);
    fit->process = memory->process ? (size_t)memory->process : (size_t)info.resident;
    eitp__describe_numbers(training);
    eitp__training_set_rates(training, &fit->trainer);
    if (!status)
        status = eitp__find_budget(training, &fit->budget, error);
    return status ? status : eitp__find_device_budget(training, fit, error);
}

/* ---- The run ---- */

/* Validation samples of a spot evaluation, enough to detect a posterior collapse. */
enum { EITP__VAE_SPOT_SAMPLES = 256 };

/* True if a checkpoint is due before the last step. */
static int eitp__saves_between_steps(const eitp_training *training) {
    const eitp_run_config *run = &training->recipe.run;
    const int64_t steps = run->steps - (training->is_resumed ? training->resumed.step : 0);
    return (run->save_steps && run->save_steps < steps) || run->save_epochs > 0 || run->save_seconds > 0 ||
           eitp__run_kept_metric(run);
}

EITP__PRIVATE eitp_run_config eitp__training_run_config(eitp_training *training) {
    eitp_run_config config = training->recipe.run;
    const eitp_fit_candidate *choice = &training->choice;
    const size_t budget = training->fit.budget, total = choice->total + choice->checkpoint;
    if (training->recipe.memory.async_save == EITP_ASYNC_SAVE_AUTO && eitp__saves_between_steps(training) &&
        (!budget || total <= budget))
        config.async_save_bytes = choice->checkpoint;
    if (!training->validates)
        config.eval_steps = 0;
    if (config.spot_samples < 0)
        config.spot_samples = training->validates && training->kind->kind == EITP_TASK_VAE ? EITP__VAE_SPOT_SAMPLES : 0;
    if (training->prompt_tokens) {
        config.describe = eitp__sample_texts_describe;
        config.describe_user = training;
    }
    return config;
}
