#include "run/run.h"

#include "data/permissions.h"
#include "files.h"
#include "model/adapt.h"
#include "model/hub.h"
#include "model/model.h"
#include "options/profile.h"
#include "output.h"
#include "plan/advice.h"
#include "process.h"
#include "run/directory.h"
#include "run/recipe.h"
#include "run/resume_changes.h"
#include "run/resume_options.h"
#include "run/show_data.h"
#include "task/task.h"

/* ---- Model ---- */

/* Resolves --model to its path or a directory in the hub's cache. Absolute for adapters, which are saved with it. */
static eitp_status find_model(training_run *r, eitp_error *error) {
    const char *given = options_text(&r->options, OPTION_MODEL);
    char *found = NULL, *absolute;
    eitp_status status;
    if (!given || r->model_directory || !(run_starts_from_model(r) || adapt_is_requested(&r->options)))
        return EITP_OK;
    status = model_find_directory(given, &found, error);
    if (status && r->options.values[OPTION_MODEL].source == SOURCE_PROFILE) {
        const eitp_error why = *error;
        return command_fail(error, status, "%s; or replace the model of --profile %s with --model or --init",
                            why.message, profile_name(&r->options));
    }
    if (status)
        return status;
    /* A model in the cache is recorded as its directory there, so that a resume finds it again. */
    if (files_info(given).kind == EITP_PATH_MISSING)
        options_set_text(&r->options, OPTION_MODEL, found, r->options.values[OPTION_MODEL].source);
    free(found);
    r->model_directory = command_copy(options_text(&r->options, OPTION_MODEL));
    absolute = adapt_is_requested(&r->options) ? realpath(r->model_directory, NULL) : NULL;
    if (absolute) {
        free(r->model_directory);
        r->model_directory = absolute;
    }
    return EITP_OK;
}

/* Resolves the encoder, which may be a model in the hub's cache. */
static void find_encoder(training_run *r) {
    option_set *o = &r->options;
    const char *given = options_text(o, OPTION_ENCODER);
    char *found = given && files_info(given).kind == EITP_PATH_MISSING ? hub_find(given) : NULL;
    if (found)
        options_set_text(o, OPTION_ENCODER, found, o->values[OPTION_ENCODER].source);
    free(found);
}

static eitp_status read_shape(training_run *r, eitp_error *error) {
    eitp_recipe recipe;
    eitp_status status = find_model(r, error);
    find_encoder(r);
    if (!status)
        status = recipe_describe(r, &recipe, error);
    if (!status)
        status = eitp_recipe_read_shape(&recipe, &r->shape, &r->kind, error);
    if (!status && !recipe.model.shape)
        status = fit_check_shape(&r->options, &r->shape, r->checkpoint ? r->checkpoint : r->model_directory, error);
    if (!status && eitp_head_has_labels(r->shape.head))
        task_set_classifier_batch(&r->options);
    /* A profile for windows is tried before being adapted to the model. */
    if (!status && (options_is_explicit(&r->options, OPTION_BLOCK_SIZE) ||
                    (task_has_rows(&r->options, &r->shape) && options_has(&r->options, OPTION_BLOCK_SIZE))))
        profile_lower_block_size(&r->options, eitp_transformer_config_positions(&r->shape));
    return status;
}

void run_complete_options(training_run *r) {
    eitp_error error;
    const int has_model =
        r->checkpoint || options_has(&r->options, OPTION_MODEL) || options_has(&r->options, OPTION_INIT);
    const eitp_transformer_config *shape = has_model && !read_shape(r, &error) ? &r->shape : NULL;
    eitp_training *training = NULL;
    if (shape && !r->checkpoint && !fit_open(&r->options, &training, &error))
        advice_resolve_profile(&r->options, training, &error);
    else if (shape)
        profile_adapt(&r->options, shape);
    eitp_training_close(training);
    fit_set_defaults(&r->options, shape);
}

/* ---- Stages ---- */

static eitp_status prepare_directory(training_run *r, eitp_error *error) {
    eitp_status status = EITP_OK;
    if (!r->run)
        status = directory_open(r, r->checkpoint ? EITP_RESUME_NAMED : EITP_RESUME_NONE, error);
    if (!status && options_integer(&r->options, OPTION_SHOW_DATA))
        leftovers_begin(&r->leftovers, r->directory);
    return status;
}

/* Packed data may be read only by those who may read the source text. */
static eitp_status open_training(training_run *r, eitp_error *error) {
    eitp_recipe recipe;
    eitp_status status = recipe_describe(r, &recipe, error);
    const mode_t before = permissions_lower(&r->options, OPTION_DATA, r->directory);
    if (r->rereads[0])
        output_info("reading the data again with %s", r->rereads);
    if (options_has(&r->options, OPTION_VAL_DATA))
        permissions_lower(&r->options, OPTION_VAL_DATA, r->directory);
    if (!status)
        status = eitp_training_open_run(&recipe, r->run, &r->training, error);
    status = resume_name_rereads(r, status, error);
    permissions_restore(before);
    if (status)
        return status;
    r->shape = *eitp_training_get_shape(r->training);
    if (eitp_training_get_data(r->training, EITP_TRAINING).is_labelled && !options_has(&r->options, OPTION_BLOCK_SIZE))
        options_set_integer(&r->options, OPTION_BLOCK_SIZE, eitp_training_get_recipe(r->training)->task.block_size,
                            SOURCE_DEFAULT);
    return EITP_OK;
}

/* Fails because nothing fits, and suggests changes of options. */
static eitp_status advise(training_run *r, eitp_error *error) {
    const eitp_recipe *recipe = eitp_training_get_recipe(r->training);
    eitp_fit_candidate ignored;
    eitp_error other;
    if (fit_choose(&r->options, eitp_training_get_fit(r->training), &recipe->task.block_size, &ignored, &other))
        *error = other;
    return error->status;
}

static eitp_status plan(training_run *r, eitp_error *error) {
    eitp_status status = advice_resolve_profile(&r->options, r->training, error);
    if (!status)
        status = recipe_follow_options(r, error);
    process_cancel_on_stop(PROCESS_CANCEL_ALL);
    if (!status)
        status = eitp_training_plan(r->training, &r->choice, error);
    if (status == EITP_ERROR_MEMORY && !process_stop_signal())
        status = advise(r, error);
    process_cancel_on_stop(PROCESS_CANCEL_READING);
    return status;
}

/* Stores the choices made, so that run.json records them and a resumed run keeps them. */
static void take_results(training_run *r) {
    option_set *o = &r->options;
    const eitp_recipe *recipe = eitp_training_get_recipe(r->training);
    const int64_t passes = eitp_trainer_micro_batches_per_pass(eitp_training_get_trainer(r->training));
    r->steps = recipe->run.steps;
    options_set_text(o, OPTION_PRECISION, r->choice.precision, o->values[OPTION_PRECISION].source);
    options_set_text(o, OPTION_OPTIMIZER, eitp_optimizer_get(r->choice.optimizer)->name,
                     o->values[OPTION_OPTIMIZER].source);
    options_set_integer(o, OPTION_MICRO_BATCHES_PER_PASS, passes, o->values[OPTION_MICRO_BATCHES_PER_PASS].source);
    options_set_integer(o, OPTION_WARMUP_STEPS, recipe->trainer.schedule.warmup, o->values[OPTION_WARMUP_STEPS].source);
}

static eitp_status create_trainer(training_run *r, eitp_error *error) {
    const eitp_status status = model_add_hint(eitp_training_prepare(r->training, error), error);
    if (status)
        return resume_name_rereads(r, status, error);
    take_results(r);
    return run_add_info(r, error);
}

static eitp_status check_stopped(eitp_error *error) {
    return process_stop_signal()
               ? command_fail(error, EITP_ERROR_INTERRUPTED, "stopped by %s before the first step", process_stop_name())
               : EITP_OK;
}

/* After a failure, reports if a run training there has removed the model in the meantime. */
static void name_removed(const training_run *r, eitp_error *error) {
    const char *given = options_text(&r->options, OPTION_MODEL);
    int attempts = 0;
    if (r->model_directory && files_info(r->model_directory).kind == EITP_PATH_MISSING)
        model_read_again(given, given, &attempts, error);
}

/* With --show-data the training ends as soon as its data and windows are known. */
static eitp_status create_or_show(training_run *r, eitp_error *error) {
    const int64_t shown = options_integer(&r->options, OPTION_SHOW_DATA);
    return shown ? show_data(r, shown, error) : create_trainer(r, error);
}

eitp_status run_prepare(training_run *r, eitp_error *error) {
    static eitp_status (*const stages[])(training_run *, eitp_error *) = {
        changes_find_numerics, prepare_directory, read_shape, open_training, plan, create_or_show};
    eitp_status status = run_check_options(r, error);
    process_cancel_on_stop(PROCESS_CANCEL_READING);
    for (size_t i = 0; i < COMMAND_COUNT(stages) && !status; i++) {
        status = stages[i](r, error);
        if (status)
            name_removed(r, error);
        if (process_stop_signal())
            status = check_stopped(error); /* also if a stage failed, which the signal caused */
    }
    process_cancel_on_stop(PROCESS_CANCEL_NOTHING);
    if (status || options_integer(&r->options, OPTION_SHOW_DATA))
        return status;
    model_warn_null(eitp_training_get_context(r->training));
    run_log(r);
    return EITP_OK;
}

size_t run_copy_bytes(const training_run *r) {
    return (size_t)eitp_training_get_recipe(r->training)->run.async_save_bytes;
}

void run_release(training_run *r) {
    leftovers_remove(&r->leftovers); /* while the directory is still locked */
    if (!r->training)
        eitp_run_close(r->run);
    eitp_training_close(r->training);
    if (!r->started)
        replace_undo(&r->replaced);
    free(r->directory);
    free(r->checkpoint);
    free(r->model_directory);
    replace_release(&r->replaced);
    options_release(&r->options);
    memset(r, 0, sizeof *r);
}
