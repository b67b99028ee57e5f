/* Trainings: created, opened and prepared in stages, released and closed. */
#include "base/setting_table.h"
#include "recipe/training.h"

/* Checks the recipe's own members. Settings of trainer and run are checked when these are created. */
static eitp_status eitp__check_recipe(const eitp_recipe *recipe, eitp_error *error) {
    eitp_status status = EITP_OK;
    for (size_t i = 0; eitp_recipe_group(i).settings && !status; i++) {
        const eitp_setting_group group = eitp_recipe_group(i);
        if (group.offset != offsetof(eitp_recipe, trainer) && group.offset != offsetof(eitp_recipe, run))
            status = eitp__settings_check(group.settings, group.count, (const char *)recipe + group.offset, error);
    }
    return status;
}

EITP__PRIVATE eitp_status eitp__training_create(const eitp_recipe *recipe, eitp_training **training,
                                                eitp_error *error) {
    eitp_training *created;
    eitp_status status = eitp__check_recipe(recipe, error);
    if (status)
        return status;
    created = (eitp_training *)eitp__allocate(&recipe->context.host, sizeof *created);
    if (!created)
        return eitp__fail_memory(error, sizeof *created, "a training");
    created->host = recipe->context.host;
    eitp__buffer_init(&created->sampled, &created->host);
    created->task_setting = recipe->task.kind;
    status = eitp__recipe_copy(&created->host, recipe, &created->recipe, error);
    if (status)
        eitp__release(&created->host, created, sizeof *created);
    else
        *training = created;
    return status;
}

EITP__PRIVATE eitp_status eitp__run_stages(eitp_training *training, const eitp__stage *stages, size_t count,
                                           eitp_error *error) {
    eitp_status status = EITP_OK;
    for (size_t i = 0; i < count && !status; i++) {
        training->stage = stages[i].name ? stages[i].name : training->stage;
        status = eitp__training_poll(training, error);
        if (!status)
            status = stages[i].run(training, error);
        if (status && eitp__training_poll(training, NULL))
            status = eitp__training_poll(training, error); /* the stage failed because of that */
    }
    training->discards_data = status && status != EITP_ERROR_MEMORY && status != EITP_ERROR_INTERRUPTED;
    return status;
}

/* Destroys everything prepared, in the order of its dependencies. */
EITP__PRIVATE void eitp__training_release_prepared(eitp_training *training) {
    eitp_trainer_destroy(training->trainer);
    eitp_task_release(&training->task);
    eitp_model_destroy(training->model);
    eitp_context_destroy(training->context);
    if (!training->trained) {
        eitp__release_text(&training->host, training->base);
        training->base = NULL;
    }
    training->trainer = NULL;
    training->model = NULL;
    training->context = NULL;
    training->is_prepared = 0;
}

/* Destroys everything prepared and opened, except the run. */
EITP__PRIVATE void eitp__training_release_stages(eitp_training *training) {
    eitp__training_release_prepared(training);
    for (int split = 0; split < 2; split++)
        eitp__part_close(&training->host, &training->parts[split]);
    memset(training->parts, 0, sizeof training->parts);
    eitp__training_release_input(training);
#if !EITP_WITHOUT_TEMPLATES
    eitp_chat_destroy(training->chat);
#endif
    eitp_tokenizer_destroy(training->tokenizer);
    eitp_tokenizer_destroy(training->encoder_tokenizer);
    eitp__release_text(&training->host, training->model_directory);
    eitp__release_text(&training->host, training->encoder_directory);
    eitp__release_text(&training->host, training->trained);
    eitp__release_text(&training->host, training->base);
    training->chat = NULL;
    training->tokenizer = training->encoder_tokenizer = NULL;
    training->encoder_directory = NULL;
    memset(&training->latent, 0, sizeof training->latent);
    training->model_directory = training->trained = training->base = NULL;
    training->is_planned = 0;
}

/* Removes everything created for a run without a step. */
static void eitp__remove_created(eitp_training *training) {
    const eitp_host *host = &training->host;
    char *data = training->recipe.run.directory ? eitp__join_path(host, training->recipe.run.directory, "data") : NULL;
    for (int split = 0; split < 2; split++) {
        const eitp__data_part *part = &training->parts[split];
        if (part->is_made && part->path && training->discards_data)
            eitp__remove_tree(host, part->path, NULL);
    }
    if (training->has_new_tokenizer)
        eitp__remove_new_tokenizer(training);
    if (data)
        eitp__remove_directories(host, data, 1); /* removed only if empty */
    eitp__release_text(host, data);
}

void eitp_training_close(eitp_training *training) {
    eitp_host host;
    if (!training)
        return;
    host = training->host;
    if (!training->has_begun)
        eitp__remove_created(training);
    eitp__training_release_stages(training);
    eitp_run_close(training->run);
    eitp__buffer_release(&training->sampled);
    eitp_recipe_release(&training->recipe);
    eitp__release(&host, training, sizeof *training);
}
