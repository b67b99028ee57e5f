/* Opening a recipe, planning, training and closing it. */
#include "base/setting_table.h"
#include "recipe/training.h"

/* ---- Opening ---- */

/* A program may save files of its own into a checkpoint; those of a training come first. */
static eitp_status eitp__open_directory(eitp_training *training, eitp_error *error) {
    eitp_run_config config = training->recipe.run;
    const char *checkpoint;
    eitp_status status;
    config.metrics = 0; /* the rest follows when it is known: eitp__configure_run */
    config.sink_count = 0;
    status = eitp_run_create(&training->host, &config, &training->run, error);
    checkpoint = status ? NULL : eitp_run_checkpoint(training->run);
    if (status || !checkpoint)
        return status;
    training->is_resumed = 1;
    return eitp_checkpoint_read_info(&training->host, checkpoint, &training->resumed, error);
}

/* Adapters of a checkpoint, and the block size, are those that the run began with. */
static eitp_status eitp__take_from_checkpoint(eitp_training *training, eitp_error *error) {
    eitp_model_recipe *model = &training->recipe.model;
    const eitp_lora_config *lora = &training->resumed.lora;
    if (training->is_resumed && (lora->rank != 0) != (model->lora_rank != 0))
        return eitp__fail(error, EITP_ERROR_ARGUMENT,
                          "'%s' was made %s adapters; set lora_rank to %lld to resume it, or name another directory",
                          eitp__training_checkpoint(training), lora->rank ? "with" : "without", (long long)lora->rank);
    return EITP_OK;
}

static eitp_status eitp__open_data(eitp_training *training, eitp_error *error) {
    const eitp_data_recipe *data = &training->recipe.data;
    training->parts[EITP_TRAINING].paths = &data->training;
    training->parts[EITP_VALIDATION].paths = &data->validation;
    if (!data->training.count)
        return eitp__fail(error, EITP_ERROR_ARGUMENT,
                          "a recipe needs data: paths of text files, tables, directories of them, or a token file");
    return EITP_OK;
}

static eitp_status eitp__open_parts(eitp_training *training, eitp_error *error) {
    return training->kind->open(training, error);
}

static eitp_status eitp__split_data(eitp_training *training, eitp_error *error) {
    const eitp_run_config *run = &training->recipe.run;
    const eitp_status status = training->kind->split(training, error);
    if (!status && !training->validates && (run->keep_best || run->patience))
        return eitp__fail(error, EITP_ERROR_ARGUMENT,
                          "keep_best and patience require validation data; set val_data or val_fraction");
    return status;
}

static eitp_status eitp__open_stages(eitp_training *training, eitp_error *error) {
    static eitp_status (*const stages[])(eitp_training *, eitp_error *) = {
        eitp__open_data,           eitp__open_directory,          eitp__take_from_checkpoint,
        eitp__training_read_shape, eitp__training_load_tokenizer, eitp__open_parts,
        eitp__split_data,          eitp__training_describe_fit};
    eitp_status status = EITP_OK;
    for (size_t i = 0; i < EITP__COUNT(stages) && !status; i++) {
        status = stages[i](training, error);
        if (!status)
            status = eitp__training_poll(training, error);
    }
    return status;
}

/* Settings that the recipe itself refuses; those of trainer and run are checked when these are created. */
static eitp_status eitp__check_recipe(const eitp_recipe *recipe, eitp_error *error) {
    eitp_status status = EITP_OK;
    for (size_t i = 0; eitp_recipe_group(i).settings && !status; i++) {
        const eitp_setting_group group = eitp_recipe_group(i);
        if (group.offset != offsetof(eitp_recipe, trainer) && group.offset != offsetof(eitp_recipe, run))
            status = eitp__settings_check(group.settings, group.count, (const char *)recipe + group.offset, error);
    }
    return status;
}

eitp_status eitp_training_open(const eitp_recipe *recipe, eitp_training **training, eitp_error *error) {
    eitp_training *opened;
    eitp_status status;
    if (!recipe || !training)
        return eitp__fail_null(error, "eitp_training_open", "recipe and training");
    *training = NULL;
    status = eitp__check_recipe(recipe, error);
    if (status)
        return status;
    opened = (eitp_training *)eitp__allocate(&recipe->context.host, sizeof *opened);
    if (!opened)
        return eitp__fail_memory(error, sizeof *opened, "a training");
    opened->host = recipe->context.host;
    eitp__buffer_init(&opened->record, &opened->host);
    status = eitp__recipe_copy(&opened->host, recipe, &opened->recipe, error);
    if (!status)
        status = eitp__open_stages(opened, error);
    if (status)
        eitp_training_close(opened);
    else
        *training = opened;
    return status;
}

/* ---- Planning ---- */

eitp_status eitp_training_plan(eitp_training *training, eitp_fit_candidate *chosen, eitp_error *error) {
    eitp_status status = EITP_OK;
    if (!training)
        return eitp__fail_null(error, "eitp_training_plan", "training");
    if (!training->is_planned)
        status = eitp_fit_choose(&training->fit, &training->choice, NULL, error);
    training->is_planned |= !status;
    if (!status && chosen)
        *chosen = training->choice;
    return status;
}

/* ---- Preparing ---- */

static eitp_status eitp__create_context(eitp_training *training, eitp_error *error) {
    eitp_context_config config = training->fit.context;
    const char *given = training->recipe.memory.offload_file;
    char *path = given ? eitp__copy_text(&training->host, given)
                       : eitp__join_path(&training->host, training->recipe.run.directory, "offload.tmp");
    eitp_status status;
    config.precision = training->choice.precision;
    config.parameters = eitp_optimizer_get(training->choice.optimizer)->parameters;
    config.offload = training->choice.offload;
    config.offload_path = path;
    status = path ? eitp_context_create(&config, &training->context, error)
                  : eitp__fail_memory(error, strlen(training->recipe.run.directory), "the path of offloaded variables");
    eitp_context_set_poll(training->context, training->recipe.poll, training->recipe.poll_user);
    eitp__release_text(&training->host, path);
    return status;
}

static eitp_status eitp__create_model(eitp_training *training, eitp_error *error) {
    const eitp_status status = eitp__training_create_model(training, training->context, &training->model, error);
    return status ? status : eitp__training_fill_model(training, error);
}

static eitp_status eitp__create_recipe_task(eitp_training *training, eitp_error *error) {
    return training->kind->create(training, training->model, 0, &training->task, error);
}

/* Leaves out a last step that the data fill only in part. */
static eitp_status eitp__drop_last_step(eitp_trainer_config *config, eitp_error *error) {
    const uint64_t step = (uint64_t)config->batch_size * (uint64_t)config->grad_accum;
    if (config->last_sample < step)
        return eitp__fail(error, EITP_ERROR_ARGUMENT,
                          "drop_last: the data has %llu samples and a step takes %llu; leave it out, or lower "
                          "batch_size or grad_accum",
                          (unsigned long long)config->last_sample, (unsigned long long)step);
    config->schedule.steps = (int64_t)(config->last_sample / step);
    return EITP_OK;
}

/* How long to train, and the warm-up. */
static eitp_status eitp__set_length(const eitp_training *training, eitp_trainer_config *config, eitp_error *error) {
    const eitp_recipe *recipe = &training->recipe;
    eitp_status status = EITP_OK;
    config->last_sample = 0;
    config->schedule.steps = recipe->run.steps;
    if (!recipe->run.steps)
        status = eitp_trainer_config_set_epochs(config, &training->task, recipe->epochs, error);
    if (!status && !recipe->run.steps && recipe->drop_last)
        status = eitp__drop_last_step(config, error);
    if (!status && recipe->warmup_ratio > 0)
        config->schedule.warmup = (int64_t)ceil(recipe->warmup_ratio * (double)config->schedule.steps);
    return status;
}

/* What was left open becomes part of the recipe, for run.json and the run. */
static eitp_status eitp__complete_recipe(eitp_training *training, const eitp_trainer_config *config,
                                         eitp_error *error) {
    eitp_recipe *recipe = &training->recipe;
    const eitp_optimizer_info *optimizer = eitp_optimizer_get(training->choice.optimizer);
    eitp_status status =
        eitp__recipe_set_text(&training->host, recipe, &recipe->memory.precision, training->choice.precision, error);
    if (!status)
        status = eitp__recipe_set_text(&training->host, recipe, &recipe->memory.optimizer, optimizer->name, error);
    recipe->trainer = *config;
    recipe->run.steps = config->schedule.steps;
    recipe->warmup_ratio = 0;
    return status;
}

static eitp_status eitp__create_trainer(eitp_training *training, eitp_error *error) {
    eitp_trainer_config config = training->fit.trainer;
    eitp_status status;
    config.micro_batches_per_pass = training->choice.micro_batches_per_pass;
    config.optimizer_config.optimizer = training->choice.optimizer;
    config.plan = training->choice.plan;
    eitp__training_set_rates(training, &config);
    status = eitp__set_length(training, &config, error);
    if (!status)
        status = eitp_trainer_create(&training->task, &config, &training->trainer, error);
    return status ? status : eitp__complete_recipe(training, &config, error);
}

static eitp_status eitp__configure_run(eitp_training *training, eitp_error *error) {
    const eitp_run_config config = eitp__training_run_config(training);
    return eitp_run_set_config(training->run, &config, error);
}

eitp_status eitp_training_prepare(eitp_training *training, eitp_error *error) {
    static eitp_status (*const stages[])(eitp_training *, eitp_error *) = {
        eitp__create_context, eitp__create_model,  eitp__create_recipe_task,
        eitp__create_trainer, eitp__configure_run, eitp__training_write_record};
    eitp_status status = eitp_training_plan(training, NULL, error);
    for (size_t i = 0; i < EITP__COUNT(stages) && !status && !training->is_prepared; i++) {
        status = stages[i](training, error);
        if (!status)
            status = eitp__training_poll(training, error);
    }
    if (!status && !training->is_prepared)
        eitp__remove_unused_data(training);
    if (!status)
        training->is_prepared = 1;
    return status;
}

/* ---- Training ---- */

eitp_status eitp_training_run(eitp_training *training, eitp_run_report *report, eitp_error *error) {
    eitp_run_report own = EITP__ZERO;
    eitp_status status = eitp_training_prepare(training, error);
    if (status)
        return status;
    status = eitp_run_train(training->run, training->trainer, &own, error);
    training->has_begun |= eitp_trainer_steps_done(training->trainer) > 0;
    if (report)
        *report = own;
    return status;
}

void eitp_training_close(eitp_training *training) {
    if (!training)
        return;
    if (training->made_record && !training->has_begun)
        eitp__remove_tree(&training->host, training->made_record, NULL);
    eitp_trainer_destroy(training->trainer);
    eitp_task_release(&training->task);
    eitp_model_destroy(training->model);
    for (int split = 0; split < 2; split++)
        eitp__part_close(&training->host, &training->parts[split]);
    eitp_tokenizer_destroy(training->tokenizer);
    eitp_context_destroy(training->context);
    eitp_run_destroy(training->run);
    eitp__release_text(&training->host, training->model_directory);
    eitp__release_text(&training->host, training->base);
    eitp__release_text(&training->host, training->made_record);
    eitp__buffer_release(&training->record);
    eitp_recipe_release(&training->recipe);
    {
        const eitp_host host = training->host;
        eitp__release(&host, training, sizeof *training);
    }
}

/* ---- What it has ---- */

eitp_run *eitp_training_get_run(eitp_training *training) {
    return training ? training->run : NULL;
}

const eitp_tokenizer *eitp_training_get_tokenizer(const eitp_training *training) {
    return training ? training->tokenizer : NULL;
}

eitp_context *eitp_training_get_context(eitp_training *training) {
    return training ? training->context : NULL;
}

eitp_model *eitp_training_get_model(eitp_training *training) {
    return training ? training->model : NULL;
}

const eitp_task *eitp_training_get_task(const eitp_training *training) {
    return training && training->task.build ? &training->task : NULL;
}

eitp_trainer *eitp_training_get_trainer(eitp_training *training) {
    return training ? training->trainer : NULL;
}

const eitp_fit *eitp_training_get_fit(const eitp_training *training) {
    return training ? &training->fit : NULL;
}

const eitp_recipe *eitp_training_get_recipe(const eitp_training *training) {
    return training ? &training->recipe : NULL;
}
