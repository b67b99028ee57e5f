/* Opening a recipe, planning, training and closing it. */
#include "base/setting_table.h"
#include "recipe/training.h"
#include "run/sinks.h"
#include "train/trainer.h"

/* ---- Opening ---- */

static eitp_status eitp__check_data(eitp_training *training, eitp_error *error) {
    const eitp_data_recipe *data = &training->recipe.data;
    training->parts[EITP_TRAINING].paths = &data->training;
    training->parts[EITP_VALIDATION].paths = &data->validation;
    if (data->training.count)
        return EITP_OK;
    return eitp__fail(error, EITP_ERROR_ARGUMENT,
                      "a recipe needs data: paths of text files, tables, directories of them, or a token file");
}

/* Creates the run, unless the program has, and examines its checkpoint. */
static eitp_status eitp__open_directory(eitp_training *training, eitp_error *error) {
    eitp_run_config config = training->recipe.run;
    const char *checkpoint;
    eitp_status status = EITP_OK;
    config.report_to = NULL; /* set later by eitp__configure_run, with the rest */
    config.sink_count = 0;
    if (!training->run)
        status = eitp_run_open(&training->host, &config, &training->run, error);
    checkpoint = status ? NULL : eitp_run_checkpoint(training->run);
    if (status || !checkpoint)
        return status;
    training->is_resumed = 1;
    return eitp_checkpoint_read_info(&training->host, checkpoint, &training->resumed, error);
}

/* Adapters cannot be added to a run or removed from it. */
static eitp_status eitp__check_adapters(eitp_training *training, eitp_error *error) {
    const int64_t had = training->resumed.lora.rank;
    if (!training->is_resumed || (had != 0) == (training->recipe.model.lora_rank != 0))
        return EITP_OK;
    if (!had)
        return eitp__fail(error, EITP_ERROR_ARGUMENT,
                          "'%s' has no adapters to resume; start new ones from its weights in another directory",
                          eitp__training_checkpoint(training));
    return eitp__fail(error, EITP_ERROR_ARGUMENT, "'%s' has adapters of rank %lld; set lora_rank to it to resume them",
                      eitp__training_checkpoint(training), (long long)had);
}

static eitp_status eitp__open_parts(eitp_training *training, eitp_error *error) {
    const eitp_status status = training->kind->open(training, error);
    eitp__training_release_input(training);
    if (status)
        return eitp__training_name_reading(training, status, error);
    training->recipe.task.kind = training->kind->kind;
    if (training->parts[EITP_TRAINING].is_labelled)
        eitp__settle_block_size(training);
    return EITP_OK;
}

static eitp_status eitp__open_stages(eitp_training *training, eitp_error *error) {
    static const eitp__stage stages[] = {{NULL, eitp__check_data},
                                         {"preparing the directory", eitp__open_directory},
                                         {NULL, eitp__check_adapters},
                                         {"reading the model's configuration", eitp__training_read_shape},
                                         {NULL, eitp__training_compare_record},
                                         {"reading the data", eitp__training_set_shape},
                                         {"loading the tokenizer", eitp__training_load_tokenizer},
                                         {"reading the data", eitp__open_parts},
                                         {NULL, eitp__sample_texts_check}};
    training->stage = "opening";
    return eitp__run_stages(training, stages, EITP__COUNT(stages), error);
}

eitp_status eitp_training_open_run(const eitp_recipe *recipe, eitp_run *run, eitp_training **training,
                                   eitp_error *error) {
    eitp_training *opened;
    eitp_status status;
    if (!recipe || !training)
        return eitp__fail_null(error, "eitp_training_open", "recipe and training");
    *training = NULL;
    status = eitp__recipe_check_host(recipe, error);
    if (status)
        return status;
    if (!run && !recipe->run.directory)
        return eitp__fail(error, EITP_ERROR_ARGUMENT,
                          "a recipe needs run.directory, where checkpoints are saved (output_dir in JSON)");
    status = eitp__training_create(recipe, &opened, error);
    if (status)
        return status;
    opened->run = run;
    status = eitp__open_stages(opened, error);
    if (!status) {
        *training = opened;
        return EITP_OK;
    }
    if (opened->run == run)
        opened->run = NULL;
    eitp_training_close(opened);
    return status;
}

eitp_status eitp_training_open(const eitp_recipe *recipe, eitp_training **training, eitp_error *error) {
    return eitp_training_open_run(recipe, NULL, training, error);
}

eitp_status eitp_training_open_plan(const eitp_recipe *recipe, eitp_training **training, eitp_error *error) {
    static const eitp__stage stages[] = {{"reading the model's configuration", eitp__training_read_shape},
                                         {"reading the data", eitp__training_set_shape},
                                         {"loading the tokenizer", eitp__training_load_tokenizer},
                                         {"reading the data", eitp__open_planned}};
    eitp_training *opened;
    eitp_status status;
    if (!recipe || !training)
        return eitp__fail_null(error, "eitp_training_open_plan", "recipe and training");
    *training = NULL;
    status = eitp__recipe_check_host(recipe, error);
    if (!status)
        status = eitp__training_create(recipe, &opened, error);
    if (status)
        return status;
    opened->is_plan = 1;
    opened->has_begun = 1; /* so that closing removes nothing */
    opened->parts[EITP_TRAINING].paths = &opened->recipe.data.training;
    opened->parts[EITP_VALIDATION].paths = &opened->recipe.data.validation;
    status = eitp__run_stages(opened, stages, EITP__COUNT(stages), error);
    if (!status)
        *training = opened;
    else
        eitp_training_close(opened);
    return status;
}

/* ---- Planning ---- */

static eitp_status eitp__choose(eitp_training *training, eitp_error *error) {
    eitp_status status;
    memset(&training->price, 0, sizeof training->price);
    status = eitp_fit_choose(&training->fit, &training->choice, NULL, error);
    return status ? status : eitp_fit_find_price(&training->fit, &training->choice, &training->price, error);
}

/* ---- The size of windows ---- */

/* Minimum number of steps in an epoch of windows longer than the shortest. */
enum { EITP__EPOCH_STEPS = 64 };

static int eitp__has_enough_windows(const eitp_training *training) {
    const eitp_trainer_config *trainer = &training->recipe.trainer;
    const uint64_t step = (uint64_t)trainer->batch_size * (uint64_t)trainer->grad_accum;
    return training->is_plan ||
           training->parts[EITP_TRAINING].range.count / (uint64_t)training->rows / step >= EITP__EPOCH_STEPS;
}

/* True if neither the recipe nor a checkpoint sets the window size. An earlier failed planning may have left its size
   in the recipe. */
static int eitp__is_window_open(const eitp_training *training) {
    const int64_t size = training->recipe.task.block_size;
    return (size < 0 || (size && size == training->chosen_window)) && !training->parts[EITP_TRAINING].is_labelled &&
           !training->resumed.rows;
}

/* Lists the window sizes for which the data have enough windows, and the shortest. */
static void eitp__list_windows(eitp_training *training) {
    int64_t lengths[EITP_FIT_LENGTHS];
    const size_t count = eitp_fit_lengths(eitp_transformer_config_positions(&training->shape), lengths);
    training->length_count = 0;
    for (size_t i = 0; i < count; i++) {
        if (i + 1 == count ||
            (!eitp__training_use_length(training, lengths[i], NULL) && eitp__has_enough_windows(training)))
            training->lengths[training->length_count++] = lengths[i];
    }
    training->recipe.task.block_size = lengths[count - 1];
}

/* Logs the window size, and the reason why it is not larger. */
static void eitp__log_window(const eitp_training *training) {
    const int64_t positions = eitp_transformer_config_positions(&training->shape);
    const eitp_fit_candidate *longer = &training->price.longer;
    char reason[100], bytes[16];
    if (longer->total)
        snprintf(reason, sizeof reason, "%lld need %s%s", (long long)longer->length,
                 eitp_format_bytes(longer->device ? longer->device : longer->total, bytes, sizeof bytes),
                 longer->device ? " of the GPU's memory" : " of memory");
    else
        snprintf(reason, sizeof reason, "%s",
                 training->fit.least ? "this uses the least memory"
                 : training->rows < eitp__usual_positions(training)
                     ? "an epoch of longer windows has fewer than 64 steps"
                     : "longer ones must be requested");
    if (training->rows == positions)
        eitp__log_line(&training->host, EITP_LOG_INFO,
                       "block size: %lld tokens, all positions of the model; override with block_size",
                       (long long)positions);
    else
        eitp__log_line(&training->host, EITP_LOG_INFO,
                       "block size: %lld tokens of the model's %lld positions, because %s; override with block_size",
                       (long long)training->rows, (long long)positions, reason);
}

static eitp_status eitp__refuse_trained(eitp_error *error) {
    return eitp__fail(error, EITP_ERROR_ARGUMENT,
                      "a trained model is neither planned nor run; open its recipe with eitp_training_open to train");
}

/* Runs the stages of planning: the first two describe the run, the third chooses a configuration. */
static eitp_status eitp__plan_stages(eitp_training *training, size_t count, eitp_error *error) {
    static const eitp__stage stages[] = {
        {NULL, eitp__training_split}, {"planning memory", eitp__training_describe_fit}, {NULL, eitp__choose}};
    const int is_open = eitp__is_window_open(training);
    eitp_status status;
    training->length_count = 0;
    training->planned_length = 0;
    if (is_open)
        eitp__list_windows(training);
    status = eitp__run_stages(training, stages, count, error);
    training->chosen_window = is_open ? training->recipe.task.block_size : 0;
    return status;
}

eitp_status eitp_training_describe(eitp_training *training, eitp_error *error) {
    if (!training)
        return eitp__fail_null(error, "eitp_training_describe", "training");
    if (training->trained)
        return eitp__refuse_trained(error);
    return training->is_planned ? EITP_OK : eitp__plan_stages(training, 2, error);
}

eitp_status eitp_training_plan(eitp_training *training, eitp_fit_candidate *chosen, eitp_error *error) {
    eitp_status status = EITP_OK;
    if (!training)
        return eitp__fail_null(error, "eitp_training_plan", "training");
    if (training->trained)
        return eitp__refuse_trained(error);
    if (!training->is_planned) {
        status = eitp__plan_stages(training, 3, error);
        if (!status && training->length_count)
            eitp__log_window(training);
    }
    training->is_planned |= !status;
    if (!status && chosen)
        *chosen = training->choice;
    return status;
}

/* ---- Preparing ---- */

/* Returns the path of offloaded variables as a new string, or NULL if they are not in a file or memory ran out. */
static char *eitp__offload_path_of(const eitp_training *training) {
    const char *given = training->recipe.memory.offload_file;
    if (given)
        return eitp__copy_text(&training->host, given);
    return training->choice.device ? NULL
                                   : eitp__join_path(&training->host, training->recipe.run.directory, "offload.tmp");
}

static eitp_status eitp__create_context(eitp_training *training, eitp_error *error) {
    eitp_context_config config = training->fit.context;
    char *path = eitp__offload_path_of(training);
    eitp_status status;
    config.precision = training->choice.precision;
    config.parameters = eitp_optimizer_get(training->choice.optimizer)->parameters;
    config.offload = training->choice.offload;
    config.offload_path = path;
    status = path || training->choice.device
                 ? eitp_context_create(&config, &training->context, error)
                 : eitp__fail_memory(error, strlen(training->recipe.run.directory), "the path of offloaded variables");
    eitp_context_set_poll(training->context, eitp__training_is_stopped, training);
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

/* Omits a last step that the data fill only in part. */
static eitp_status eitp__drop_last_step(const eitp__data_position *start, eitp_trainer_config *config,
                                        eitp_error *error) {
    const uint64_t step = (uint64_t)config->batch_size * (uint64_t)config->grad_accum;
    if (config->last_sample < step)
        return eitp__fail(error, EITP_ERROR_ARGUMENT,
                          "drop_last: the data have %llu samples and a step needs %llu; leave it out, or lower "
                          "batch_size or grad_accum",
                          (unsigned long long)config->last_sample, (unsigned long long)step);
    config->schedule.steps -= config->last_sample > start->samples && (config->last_sample - start->samples) % step;
    return EITP_OK;
}

/* Sets the steps for a number of epochs. A resumed run continues after the samples that it has read. */
static eitp_status eitp__set_epochs(const eitp_training *training, eitp_trainer_config *config, eitp_error *error) {
    const eitp__data_position start = {training->resumed.step, (uint64_t)training->resumed.samples};
    const eitp_recipe *recipe = &training->recipe;
    const eitp_status status = eitp_trainer_config_set_epochs(config, &training->task, recipe->epochs, error);
    if (status)
        return status;
    config->schedule.steps = eitp__steps_to_last(config, &start);
    return recipe->drop_last ? eitp__drop_last_step(&start, config, error) : EITP_OK;
}

/* Sets the length of the training and the warm-up. */
static eitp_status eitp__set_length(const eitp_training *training, eitp_trainer_config *config, eitp_error *error) {
    const eitp_recipe *recipe = &training->recipe;
    eitp_status status = EITP_OK;
    config->schedule.steps = recipe->run.steps;
    if (!recipe->run.steps)
        status = eitp__set_epochs(training, config, error);
    if (!status && recipe->warmup_ratio > 0)
        config->schedule.warmup = (int64_t)ceil(recipe->warmup_ratio * (double)config->schedule.steps);
    return status;
}

/* Completes the recipe with the chosen values, for run.json and the run. */
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
    config.accepts_other_data = training->recipe.data.rereads[EITP_TRAINING] > 1;
    eitp__training_set_rates(training, &config);
    status = eitp__set_length(training, &config, error);
    if (!status)
        status = eitp_trainer_create(&training->task, &config, &training->trainer, error);
    return status ? status : eitp__complete_recipe(training, &config, error);
}

static eitp_status eitp__configure_run(eitp_training *training, eitp_error *error) {
    const eitp_run_config config = eitp__training_run_config(training);
    training->recipe.run.async_save_bytes = config.async_save_bytes;
    if (training->prompt_tokens && !eitp__reports_have(config.report_to, EITP__REPORT_JSONL))
        eitp__log_line(
            &training->host, EITP_LOG_WARNING,
            "sample_prompt has no effect: generated samples are written next to metrics.jsonl, and report_to does "
            "not have jsonl");
    return eitp_run_set_config(training->run, &config, error);
}

/* Checks that the task has the metric that selects the best checkpoint. */
static eitp_status eitp__check_metric(eitp_training *training, eitp_error *error) {
    const char *metric = training->recipe.run.keep_best;
    const eitp_task *task = &training->task;
    char names[300] = "loss";
    size_t used = strlen(names);
    if (!metric || eitp__trainer_has_metric(training->trainer, metric))
        return EITP_OK;
    for (int i = 0; i < task->metric_count && used < sizeof names; i++)
        used += (size_t)snprintf(names + used, sizeof names - used, ", %s", task->metrics[i].name);
    return eitp__fail(error, EITP_ERROR_ARGUMENT, "keep_best: unknown metric '%s' (choose from %s)", metric, names);
}

static eitp_status eitp__log_data(eitp_training *training, eitp_error *error) {
    (void)error;
    eitp__training_log_data(training);
    return EITP_OK;
}

static eitp_status eitp__resume(eitp_training *training, eitp_error *error) {
    const eitp_status status = eitp_run_resume_trainer(training->run, training->trainer, error);
    return eitp__training_name_reading(training, status, error);
}

/* Until there is a checkpoint of other data, the run may resume from the previous one, which has its own data. */
static eitp_status eitp__clean_data(eitp_training *training, eitp_error *error) {
    (void)error;
    if (!training->is_resumed || training->recipe.data.rereads[EITP_TRAINING] < 2)
        eitp__remove_unused_data(training);
    if (!training->is_resumed && !training->has_new_tokenizer)
        eitp__remove_new_tokenizer(training); /* left by an older run */
    return EITP_OK;
}

static eitp_status eitp__prepare_trained(eitp_training *training, eitp_error *error) {
    const eitp_status status = training->is_prepared ? EITP_OK : eitp__trained_read(training, 1, error);
    training->is_prepared = !status;
    if (status)
        eitp__training_release_prepared(training);
    return status;
}

eitp_status eitp_training_prepare(eitp_training *training, eitp_error *error) {
    static const eitp__stage stages[] = {{NULL, eitp__create_context},
                                         {"creating the model", eitp__create_model},
                                         {"preparing the trainer", eitp__create_recipe_task},
                                         {NULL, eitp__create_trainer},
                                         {NULL, eitp__check_metric},
                                         {NULL, eitp__configure_run},
                                         {NULL, eitp__resume},
                                         {NULL, eitp__training_add_info},
                                         {NULL, eitp__report_overlap},
                                         {NULL, eitp__log_data},
                                         {NULL, eitp__clean_data}};
    eitp_status status;
    int64_t steps;
    double warmup_ratio;
    if (training && training->trained)
        return eitp__prepare_trained(training, error);
    if (training && training->is_plan)
        return eitp__fail(error, EITP_ERROR_ARGUMENT,
                          "a training that was opened to plan it has no data; open its recipe with eitp_training_open");
    status = eitp_training_plan(training, NULL, error);
    if (status || training->is_prepared)
        return status;
    steps = training->recipe.run.steps;
    warmup_ratio = training->recipe.warmup_ratio;
    status = eitp__run_stages(training, stages, EITP__COUNT(stages), error);
    training->is_prepared = !status;
    if (!status)
        return EITP_OK;
    /* The length is open again, for a second attempt. */
    training->recipe.run.steps = steps;
    training->recipe.warmup_ratio = warmup_ratio;
    eitp__training_release_prepared(training);
    return status;
}

/* ---- Training ---- */

/* A damaged checkpoint was set aside, and the run resumes from an older one: reads everything again that was read from
   it. */
static eitp_status eitp__start_over(eitp_training *training, eitp_error *error) {
    eitp_status status;
    eitp__training_release_stages(training);
    status = eitp__open_stages(training, error);
    return status ? status : eitp_training_prepare(training, error);
}

eitp_status eitp_training_run(eitp_training *training, eitp_run_report *report, eitp_error *error) {
    eitp_run_report own = EITP__ZERO;
    eitp_error why;
    int64_t step;
    eitp_status status;
    if (!training)
        return eitp__fail_null(error, "eitp_training_run", "training");
    if (training->trained)
        return eitp__refuse_trained(error);
    status = eitp_training_prepare(training, error);
    while (status == EITP_ERROR_FORMAT && training->is_resumed) {
        step = training->resumed.step;
        if (eitp_run_recover(training->run, &why) ||
            eitp_checkpoint_read_info(&training->host, eitp_run_checkpoint(training->run), &training->resumed, &why) ||
            training->resumed.step == step)
            break;
        status = eitp__start_over(training, error);
    }
    if (status)
        return status;
    status = eitp_run_train(training->run, training->trainer, &own, error);
    training->has_begun = own.steps_done > 0 || own.saved_step >= 0;
    training->discards_data = status == EITP_ERROR_IO;
    if (report)
        *report = own;
    return status;
}

/* ---- Accessors ---- */

eitp_run *eitp_training_get_run(eitp_training *training) {
    return training ? training->run : NULL;
}

const eitp_tokenizer *eitp_training_get_tokenizer(const eitp_training *training) {
    return training ? training->tokenizer : NULL;
}

const eitp_tokenizer *eitp_training_get_encoder_tokenizer(const eitp_training *training) {
    return training ? training->encoder_tokenizer : NULL;
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

eitp_fit_price eitp_training_get_price(const eitp_training *training) {
    const eitp_fit_price none = EITP__ZERO;
    return training && training->is_planned ? training->price : none;
}

const eitp_fit *eitp_training_get_fit(const eitp_training *training) {
    return training ? &training->fit : NULL;
}

eitp_recipe *eitp_training_get_recipe(eitp_training *training) {
    return training ? &training->recipe : NULL;
}

const eitp_transformer_config *eitp_training_get_shape(const eitp_training *training) {
    return training ? &training->shape : NULL;
}

eitp_latent_config eitp_training_get_latent(const eitp_training *training) {
    const eitp_latent_config none = EITP__ZERO;
    return training ? training->latent : none;
}

eitp_training_source eitp_training_get_source(const eitp_training *training) {
    eitp_training_source source = EITP__ZERO;
    if (!training)
        return source;
    source.checkpoint = eitp__training_checkpoint(training);
    source.weights = training->base ? training->base : training->model_directory;
    return source;
}

eitp_training_data eitp_training_get_data(const eitp_training *training, eitp_split split) {
    eitp_training_data data = EITP__ZERO;
    eitp_sample_file_info info;
    if (!training || (unsigned)split > EITP_VALIDATION)
        return data;
    info = eitp_sample_file_get_info(training->parts[split].file);
    data.path = training->parts[split].path;
    data.is_labelled = training->parts[EITP_TRAINING].is_labelled;
    data.tokens = training->parts[split].range;
    data.bytes_per_token = info.token_count ? (double)info.text_bytes / (double)info.token_count : 0;
    data.samples = data.is_labelled ? eitp__part_samples(training, split).count : training->task.samples[split];
    data.trained = training->trained_fraction;
    return data;
}
