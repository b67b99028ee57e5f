/* Trained models: opened from the output directory of their run, or from their own, for use or evaluation. */
#include "gguf/model_json.h"
#include "io/model_directory.h"
#include "recipe/training.h"

/* ---- Directories ---- */

static int eitp__has_file(const eitp_host *host, const char *directory, const char *name) {
    eitp_path_kind kind;
    return !eitp__recipe_path_kind(host, directory, name, &kind, NULL) && kind == EITP_PATH_FILE;
}

static int eitp__has_weights(const eitp_host *host, const char *directory) {
    static const char *const names[] = {"model.safetensors", "model.safetensors.index.json", "pytorch_model.bin",
                                        "pytorch_model.bin.index.json"};
    size_t i = 0;
    while (i < EITP__COUNT(names) && !eitp__has_file(host, directory, names[i]))
        i++;
    return i < EITP__COUNT(names);
}

/* Finds the base weights of adapters: in model.directory, or in the directory that the adapters name. */
static eitp_status eitp__find_base(eitp_training *training, eitp_error *error) {
    const eitp_host *host = &training->host;
    const char *path = training->recipe.model.directory;
    char named[4096], *directory = NULL;
    eitp_lora_config lora;
    eitp_path_kind kind = EITP_PATH_DIRECTORY;
    int is_gguf = 0;
    eitp_status status = EITP_OK;
    if (!path) {
        status = eitp_lora_config_read(host, training->trained, NULL, &lora, named, sizeof named, error);
        path = named;
        if (!status)
            status = eitp__recipe_path_kind(host, path, NULL, &kind, error);
    }
    if (!status)
        status = eitp__model_is_file(host, path, &is_gguf, error);
    if (!status && kind != EITP_PATH_DIRECTORY && !is_gguf)
        return eitp__fail(error, EITP_ERROR_ARGUMENT,
                          "the base model '%s' of the adapters in '%s' is not a directory here; name its directory, or "
                          "GGUF file, as model",
                          path, training->trained);
    if (!status)
        status = eitp__find_directory(host, path, &directory, error);
    training->base = status ? NULL : eitp__absolute_path(host, directory);
    eitp__release_text(host, directory);
    return status || training->base ? status : eitp__fail_memory(error, strlen(path), "the path of a model");
}

/* Reads the checkpoint's information about its run, if it is a checkpoint. */
static eitp_status eitp__read_trained_state(eitp_training *training, eitp_error *error) {
    const eitp_host *host = &training->host;
    char *parent;
    eitp_status status;
    if (!eitp__has_file(host, training->trained, "trainer_state.json"))
        return EITP_OK;
    parent = eitp__parent_directory(host, training->trained);
    status = parent ? eitp_checkpoint_read_info(host, training->trained, &training->resumed, error)
                    : eitp__fail_memory(error, strlen(training->trained), "the path of a run");
    if (!status)
        status = eitp__recipe_set_text(host, &training->recipe, &training->recipe.run.directory, parent, error);
    eitp__release_text(host, parent);
    return status;
}

static eitp_status eitp__find_trained(eitp_training *training, eitp_error *error) {
    const eitp_host *host = &training->host;
    eitp_status status = eitp__find_directory(host, training->recipe.run.checkpoint, &training->trained, error);
    if (status)
        return status;
    training->is_resumed = 1;
    memset(&training->resumed, 0, sizeof training->resumed);
    if (eitp__has_file(host, training->trained, "adapter_config.json") &&
        (training->recipe.model.directory || !eitp__has_weights(host, training->trained)))
        status = eitp__find_base(training, error);
    return status ? status : eitp__read_trained_state(training, error);
}

/* ---- Shape ---- */

/* Reads the classifier that the adapters were trained with from their directory, if it has one. */
static void eitp__take_own_head(eitp_training *training) {
    char *path = eitp__join_path(&training->host, training->trained, "config.json");
    eitp_transformer_config own, *shape = &training->stored;
    training->has_own_head = path && eitp__recipe_is_file(&training->host, path) &&
                             !eitp_transformer_config_read(&training->host, path, &own, NULL) &&
                             eitp_head_has_labels(own.head);
    eitp__release_text(&training->host, path);
    if (!training->has_own_head)
        return;
    shape->head = own.head;
    shape->labels = own.labels;
    shape->problem = own.problem;
    shape->classifier_dropout = own.classifier_dropout;
}

/* Selects the task of a model with a latent variable. */
static eitp_status eitp__read_trained_latent(eitp_training *training, eitp_error *error) {
    const eitp_status status = eitp__training_read_latent(training, error);
    if (!status && training->latent.size)
        training->kind = eitp__vae_recipe();
    return status;
}

static eitp_status eitp__read_trained_shape(eitp_training *training, eitp_error *error) {
    const eitp_status status = eitp_model_config_read(
        &training->host, training->base ? training->base : training->trained, &training->stored, error);
    if (status)
        return status;
    if (training->base)
        eitp__take_own_head(training);
    training->shape = training->stored;
    training->kind = eitp__task_of_shape(&training->shape);
    if (training->base)
        return EITP_OK;
    return eitp__read_trained_latent(training, error);
}

/* ---- Data ---- */

static eitp_status eitp__open_trained_data(eitp_training *training, eitp_error *error) {
    const eitp_transformer_config *shape = &training->shape;
    eitp_status status;
    if (!training->samples)
        return EITP_OK;
    if (!training->recipe.data.training.count)
        return eitp__fail(error, EITP_ERROR_ARGUMENT,
                          "a recipe needs data to evaluate a model on: set data, or open it with EITP_SAMPLES_NONE");
    training->parts[EITP_TRAINING].paths = &training->recipe.data.training;
    training->parts[EITP_VALIDATION].paths = &training->recipe.data.validation;
    /* Without a head for masked tokens nothing can be evaluated: the next token is refused. */
    if (shape->bidirectional && shape->head != EITP_HEAD_LANGUAGE && !eitp_head_has_labels(shape->head))
        training->kind = eitp__language_recipe();
    training->recipe.task.kind = training->kind->kind;
    if (training->recipe.task.block_size < 0 && training->resumed.rows)
        training->recipe.task.block_size = training->resumed.rows;
    status = training->kind->set_shape(training, error);
    if (!status)
        status = training->kind->open(training, error);
    if (!status && training->parts[EITP_TRAINING].is_labelled)
        training->recipe.task.block_size = eitp__training_max_length(training);
    return status ? status : eitp__trained_select(training, error);
}

/* ---- Preparing ---- */

static eitp_status eitp__create_trained_context(eitp_training *training, eitp_error *error) {
    eitp_context_config config = training->recipe.context;
    eitp_status status;
    config.precision = training->recipe.memory.precision;
    config.parameters = EITP_PARAMETERS_ROUNDED;
    status = eitp_context_create(&config, &training->context, error);
    eitp_context_set_poll(training->context, eitp__training_is_stopped, training);
    return status;
}

static eitp_status eitp__load_trained(eitp_training *training, eitp_error *error) {
    eitp_load_config config = eitp_load_config_default();
    eitp_status status = eitp_model_create(training->context, &training->shape, &training->model, error);
    if (!status && training->latent.size)
        status = eitp_model_add_encoder(training->model, &training->latent, error);
    config.head_is_replaced = training->has_own_head;
    if (!status)
        status = eitp_model_load_weights_with(training->model, training->base ? training->base : training->trained,
                                              &config, error);
    if (!status && training->base)
        status = eitp_lora_load(training->model, training->trained, error);
    if (!status && training->base && eitp_head_has_labels(training->shape.head))
        status = eitp__model_read_labels(training->model, training->trained, error);
    return status || !training->samples ? status : eitp_model_check_head(training->model, error);
}

static eitp_status eitp__create_trained_task(eitp_training *training, eitp_error *error) {
    return training->samples ? training->kind->create(training, training->model, 0, &training->task, error) : EITP_OK;
}

/* ---- Both stages ---- */

/* True if a run has removed a directory that `path` referred to. Sets *removed to the path if it now refers to
   nothing. */
static int eitp__is_removed(const eitp_training *training, const char *directory, const char *path,
                            const char **removed) {
    const eitp_host *host = &training->host;
    eitp_path_kind kind;
    char *other = NULL;
    if (!directory || eitp__recipe_path_kind(host, directory, NULL, &kind, NULL) || kind != EITP_PATH_MISSING)
        return 0;
    *removed = path && eitp__find_directory(host, path, &other, NULL) ? path : NULL;
    eitp__release_text(host, other);
    return 1;
}

EITP__PRIVATE eitp_status eitp__trained_read(eitp_training *training, int prepares, eitp_error *error) {
    static const eitp__stage opening[] = {{"reading the model's configuration", eitp__find_trained},
                                          {NULL, eitp__read_trained_shape},
                                          {"loading the tokenizer", eitp__training_load_tokenizer},
                                          {"reading the data", eitp__open_trained_data}};
    static const eitp__stage preparing[] = {{"loading the model", eitp__create_trained_context},
                                            {NULL, eitp__load_trained},
                                            {NULL, eitp__create_trained_task}};
    enum { ATTEMPTS = 200 };
    eitp_status status = EITP_OK;
    for (int i = 0; i < ATTEMPTS; i++) {
        const char *removed;
        status = training->trained ? EITP_OK : eitp__run_stages(training, opening, EITP__COUNT(opening), error);
        if (!status && prepares)
            status = eitp__run_stages(training, preparing, EITP__COUNT(preparing), error);
        if (!status || (!eitp__is_removed(training, training->trained, training->recipe.run.checkpoint, &removed) &&
                        !eitp__is_removed(training, training->base, training->recipe.model.directory, &removed)))
            break;
        if (removed)
            return eitp__fail_removed(removed, error);
        eitp__training_release_stages(training);
    }
    return status;
}

eitp_status eitp_training_open_trained(const eitp_recipe *recipe, eitp_trained_samples samples,
                                       eitp_training **training, eitp_error *error) {
    eitp_training *opened;
    eitp_data_recipe *data;
    eitp_status status;
    if (!recipe || !training)
        return eitp__fail_null(error, "eitp_training_open_trained", "recipe and training");
    *training = NULL;
    status = eitp__recipe_check_host(recipe, error);
    if (status)
        return status;
    if ((unsigned)samples > EITP_SAMPLES_VALIDATION)
        return eitp__fail(error, EITP_ERROR_ARGUMENT, "unknown samples %d of a trained model", (int)samples);
    if (!recipe->run.directory)
        return eitp__fail(error, EITP_ERROR_ARGUMENT,
                          "a recipe needs run.directory, where the trained model is (output_dir in JSON)");
    status = eitp__training_create(recipe, &opened, error);
    if (status)
        return status;
    opened->samples = samples;
    opened->has_begun = 1; /* so that closing removes nothing */
    opened->recipe.run.checkpoint = opened->recipe.run.directory;
    opened->recipe.task.kind = opened->task_setting = EITP_TASK_AUTO;
    data = &opened->recipe.data;
    if (samples == EITP_SAMPLES_VALIDATION && data->validation.count) {
        opened->packed_as = EITP_VALIDATION;
        data->training = data->validation;
        data->rereads[EITP_TRAINING] = data->rereads[EITP_VALIDATION];
        data->validation_fraction = 0;
    }
    data->validation.count = 0;
    status = eitp__trained_read(opened, 0, error);
    if (!status)
        *training = opened;
    else
        eitp_training_close(opened);
    return status;
}
