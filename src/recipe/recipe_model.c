/* The model and the tokenizer of a recipe. */
#include "io/model_directory.h"
#include "io/weight_files.h"
#include "model/transformer.h"
#include "recipe/training.h"

/* ---- Shape ---- */

/* Replaces sizes of a shape. The MLP keeps its size relative to the width. */
static eitp_status eitp__resize_shape(const eitp_model_recipe *recipe, eitp_transformer_config *shape,
                                      eitp_error *error) {
    const int64_t width = shape->width;
    if (recipe->layers && recipe->layers != shape->layers && eitp__lists_sliding(shape))
        return eitp__fail(error, EITP_ERROR_ARGUMENT,
                          "layers is %lld, but '%s' lists layer_types of %lld layers; leave one of them out",
                          (long long)recipe->layers, recipe->shape, (long long)shape->layers);
    shape->vocabulary = recipe->vocabulary ? recipe->vocabulary : shape->vocabulary;
    shape->layers = recipe->layers ? recipe->layers : shape->layers;
    shape->heads = recipe->heads ? recipe->heads : shape->heads;
    shape->width = recipe->width ? recipe->width : shape->width;
    shape->positions = recipe->positions ? recipe->positions : shape->positions;
    shape->inner = (int64_t)((double)shape->inner / (double)width * (double)shape->width + 0.5);
    if (shape->width % shape->heads)
        return eitp__fail(error, EITP_ERROR_ARGUMENT, "width %lld must be a multiple of heads %lld",
                          (long long)shape->width, (long long)shape->heads);
    return EITP_OK;
}

static eitp_status eitp__read_named_shape(eitp_training *training, eitp_error *error) {
    const eitp_model_recipe *recipe = &training->recipe.model;
    eitp_status status = EITP_OK;
    if (eitp__is_shape_file(&training->host, recipe->shape))
        status = eitp_transformer_config_read(&training->host, recipe->shape, &training->shape, error);
    else if (eitp__take_latent_shape(training, recipe->shape))
        status = eitp__resize_shape(recipe, &training->latent.encoder, error);
    else
        status = eitp_transformer_config_named(recipe->shape, &training->shape, error);
    return status ? status : eitp__resize_shape(recipe, &training->shape, error);
}

static eitp_status eitp__read_stored_config(eitp_training *training, void *user, eitp_error *error) {
    const char *checkpoint = eitp__training_checkpoint(training);
    const char *directory = checkpoint ? checkpoint : training->model_directory;
    const eitp_status status = eitp_model_config_read(&training->host, directory, &training->stored, error);
    (void)user;
    /* Weights that cannot be opened cause an error when they are loaded. */
    if (!status && eitp_model_dtype_read(&training->host, directory, &training->stored_dtype, NULL))
        training->stored_dtype = EITP_F32;
    return status;
}

/* A resumed run keeps its model. If `init` can be read, it must still describe it. */
static eitp_status eitp__compare_named_shape(eitp_training *training, eitp_error *error) {
    const eitp_transformer_config *was = &training->stored, *is = &training->shape;
    if (eitp__read_named_shape(training, NULL) ||
        (is->layers == was->layers && is->heads == was->heads && is->width == was->width &&
         !strcmp(eitp_architecture_name(is->architecture), eitp_architecture_name(was->architecture))))
        return EITP_OK;
    return eitp__fail(
        error, EITP_ERROR_ARGUMENT,
        "'%s' has a %s model (layers %lld, heads %lld, width %lld), but init is a %s model (layers %lld, heads %lld, "
        "width %lld); set init as it was to resume, or choose another output_dir",
        eitp__training_checkpoint(training), eitp_architecture_name(was->architecture), (long long)was->layers,
        (long long)was->heads, (long long)was->width, eitp_architecture_name(is->architecture), (long long)is->layers,
        (long long)is->heads, (long long)is->width);
}

/* Checks the sizes in the recipe: they apply to random weights only; a directory has its own, and a resumed run keeps
   its own. */
static eitp_status eitp__check_asked_sizes(const eitp_training *training, eitp_error *error) {
    static const char *const names[] = {"vocab_size", "layers", "heads", "width", "positions"};
    const char *checkpoint = eitp__training_checkpoint(training);
    const eitp_model_recipe *recipe = &training->recipe.model;
    const eitp_transformer_config *has = &training->stored;
    const int64_t sizes[][2] = {{recipe->vocabulary, has->vocabulary},
                                {recipe->layers, has->layers},
                                {recipe->heads, has->heads},
                                {recipe->width, has->width},
                                {recipe->positions, has->positions}};
    for (size_t i = 0; i < EITP__COUNT(sizes); i++) {
        if (sizes[i][0] && !checkpoint)
            return eitp__fail(error, EITP_ERROR_ARGUMENT,
                              "vocab_size, layers, heads, width and positions change a shape with random weights; "
                              "'%s' has its own",
                              training->model_directory);
        if (sizes[i][0] && sizes[i][0] != sizes[i][1])
            return eitp__fail(error, EITP_ERROR_ARGUMENT,
                              "%s is %lld, but '%s' has %lld; leave it out to resume, or choose another output_dir",
                              names[i], (long long)sizes[i][0], checkpoint, (long long)sizes[i][1]);
    }
    return EITP_OK;
}

static eitp_status eitp__read_stored_shape(eitp_training *training, eitp_error *error) {
    const char *checkpoint = eitp__training_checkpoint(training);
    const eitp_model_recipe *recipe = &training->recipe.model;
    eitp_status status = checkpoint ? eitp__read_stored_config(training, NULL, error)
                                    : eitp__read_directory(training, recipe->directory, &training->model_directory,
                                                           eitp__read_stored_config, NULL, error);
    if (!status && checkpoint && recipe->shape)
        status = eitp__compare_named_shape(training, error);
    training->shape = training->stored;
    return status ? status : eitp__check_asked_sizes(training, error);
}

/* ---- Task ---- */

EITP__PRIVATE const eitp__recipe_task *eitp__task_of_shape(const eitp_transformer_config *shape) {
    if (shape->head == EITP_HEAD_TOKEN_CLASSIFIER)
        return eitp__tokens_recipe();
    if (shape->head == EITP_HEAD_CLASSIFIER)
        return shape->problem == EITP_PROBLEM_REGRESSION ? eitp__regression_recipe() : eitp__classification_recipe();
    return shape->bidirectional ? eitp__masked_recipe() : eitp__language_recipe();
}

/* A decoder learns the text of a table, unless the task is to learn the labels. */
static void eitp__report_unused_labels(const eitp_training *training) {
    static const char *const tasks[] = {"", "classify", "tokens"}; /* by eitp__labels_found */
    eitp__labels_found found = EITP__LABELS_NONE;
    if (!training->trained && eitp__part_has_rows(training, EITP_TRAINING) &&
        !eitp__find_labels(training, &found, NULL) && found != EITP__LABELS_NONE)
        eitp__log_line(
            &training->host, EITP_LOG_WARNING,
            "the rows of '%s' have labels%s, which a language model does not learn; for a classifier set task to %s",
            training->parts[EITP_TRAINING].paths->texts[0], found == EITP__LABELS_OF_WORDS ? " of their words" : "",
            tasks[found]);
}

/* For EITP_TASK_AUTO: infers the task from model and data. If either has labels, it is to predict them. */
static eitp_status eitp__choose_task(eitp_training *training, eitp_error *error) {
    const eitp_transformer_config *shape = &training->shape;
    const eitp__recipe_task *const kinds[] = {
        eitp__task_of_shape(shape), eitp__language_recipe(),   eitp__masked_recipe(), eitp__classification_recipe(),
        eitp__tokens_recipe(),      eitp__regression_recipe(), eitp__vae_recipe()};
    const eitp_task_kind kind =
        training->recipe.task.kind || !training->latent.size ? training->recipe.task.kind : EITP_TASK_VAE;
    const int has_column = training->recipe.data.label_column || training->recipe.data.weight_column;
    eitp__labels_found found;
    eitp_status status;
    training->kind = kinds[kind];
    if (kind != EITP_TASK_VAE)
        training->latent.size = 0;
    if (kind || training->is_resumed || eitp_head_has_labels(shape->head))
        return EITP_OK;
    if (!shape->bidirectional && !has_column) {
        eitp__report_unused_labels(training);
        return EITP_OK;
    }
    status = eitp__find_labels(training, &found, error);
    if (!status && found != EITP__LABELS_NONE)
        training->kind = kinds[found == EITP__LABELS_OF_WORDS ? EITP_TASK_TOKENS : EITP_TASK_CLASSIFICATION];
    return status;
}

/* Warns that a resumed run continues with another dropout. */
static void eitp__report_dropout(const eitp_training *training) {
    const double was[] = {training->stored.embedding_dropout, training->stored.attention_dropout,
                          training->stored.residual_dropout};
    const double is = training->recipe.model.dropout;
    if (fabs(was[0] - is) > 0 || fabs(was[1] - is) > 0 || fabs(was[2] - is) > 0)
        eitp__log_line(&training->host, EITP_LOG_WARNING, "dropout changed from %g, %g and %g to %g since '%s'", was[0],
                       was[1], was[2], is, eitp__training_checkpoint(training));
}

EITP__PRIVATE eitp_status eitp__training_read_shape(eitp_training *training, eitp_error *error) {
    const eitp_model_recipe *recipe = &training->recipe.model;
    eitp_status status;
    if (!training->is_resumed && recipe->directory && recipe->shape)
        return eitp__fail(error, EITP_ERROR_ARGUMENT,
                          "model and init exclude each other: model starts from the weights of a directory, init from "
                          "random weights; remove one");
    if (!training->is_resumed && !recipe->directory && !recipe->shape)
        return eitp__fail(error, EITP_ERROR_ARGUMENT,
                          "a recipe needs a model: set model to a directory, or init to a shape with random weights, "
                          "such as tiny");
    if (recipe->lora_rank && !recipe->directory && !training->is_resumed && !training->is_plan)
        return eitp__fail(error, EITP_ERROR_ARGUMENT,
                          "lora_rank requires model: adapters are trained on top of existing weights");
    status = training->is_resumed || recipe->directory ? eitp__read_stored_shape(training, error)
                                                       : eitp__read_named_shape(training, error);
    return status ? status : eitp__training_read_latent(training, error);
}

EITP__PRIVATE eitp_status eitp__training_set_shape(eitp_training *training, eitp_error *error) {
    const eitp_model_recipe *recipe = &training->recipe.model;
    eitp_status status = eitp__choose_task(training, error);
    if (!status && training->recipe.data.weight_column && !eitp_head_has_labels(training->kind->head))
        status = eitp__fail(error, EITP_ERROR_ARGUMENT,
                            "weight_column is for labels: task is %s; rows of conversations have their weight in a "
                            "member 'weight'",
                            training->kind->name);
    if (!status)
        status = training->kind->set_shape(training, error);
    if (!status && recipe->dropout >= 0 && training->is_resumed)
        eitp__report_dropout(training);
    if (!status && recipe->dropout >= 0)
        training->shape.embedding_dropout = training->shape.attention_dropout = training->shape.residual_dropout =
            recipe->dropout;
    return status;
}

/* ---- Model ---- */

/* Adds adapters, or freezes parameters. */
static eitp_status eitp__adapt_model(const eitp_model_recipe *recipe, eitp_model *model, eitp_error *error) {
    const eitp_architecture *architecture = eitp_model_config(model).architecture;
    eitp_lora_config lora = eitp_lora_config_default();
    eitp_status status = EITP_OK;
    if (!recipe->lora_rank)
        return recipe->freeze ? eitp_model_freeze(model, recipe->freeze, error) : EITP_OK;
    if (recipe->freeze)
        return eitp__fail(error, EITP_ERROR_ARGUMENT,
                          "freeze and lora_rank exclude each other: with adapters all other weights are frozen");
    lora.rank = recipe->lora_rank;
    lora.alpha = recipe->lora_alpha > 0 ? recipe->lora_alpha : 2 * (double)recipe->lora_rank;
    lora.dropout = recipe->lora_dropout;
    lora.rslora = recipe->lora_rslora;
    lora.targets = eitp_lora_targets_default(architecture);
    if (recipe->lora_targets)
        status = eitp_lora_targets_parse(architecture, recipe->lora_targets, &lora, error);
    if (!status && recipe->lora_modules_to_save)
        status = eitp_lora_saved_parse(architecture, recipe->lora_modules_to_save, &lora.saved, error);
    return status ? status : eitp_model_add_lora(model, &lora, error);
}

EITP__PRIVATE eitp_status eitp__training_create_model(const eitp_training *training, eitp_context *context,
                                                      eitp_model **model, eitp_error *error) {
    eitp_status status = eitp_model_create(context, &training->shape, model, error);
    if (!status && training->latent.size)
        status = eitp_model_add_encoder(*model, &training->latent, error);
    return status ? status : eitp__adapt_model(&training->recipe.model, *model, error);
}

/* Parameters missing from the directory are initialized from the seed; with adapters, whose checkpoints lack them,
   always in the same way. A classifier of another kind may have the same names there. */
static eitp_status eitp__load_start(eitp_training *training, void *user, eitp_error *error) {
    const char *directory = training->base ? training->base : training->model_directory;
    eitp_load_config config = EITP__ZERO;
    eitp_transformer_config own;
    const eitp_status status = eitp_model_config_read(&training->host, directory, &own, error);
    (void)user;
    config.seed = training->recipe.model.lora_rank ? 0 : training->recipe.trainer.seed;
    config.head_is_replaced = training->is_resumed && eitp_head_has_labels(training->shape.head);
    config.fresh_head = !status && eitp_head_has_labels(own.head) && own.head != training->shape.head;
    return status ? status : eitp_model_load_weights_with(training->model, directory, &config, error);
}

/* Refuses adapters on a random language head that is not trained with them: it would not be saved. */
static eitp_status eitp__check_adapted_head(const eitp_training *training, eitp_error *error) {
    const eitp_lora_config lora = eitp_model_lora_config(training->model);
    if (!lora.rank || eitp_head_has_labels(training->shape.head) || (lora.saved & EITP_LORA_SAVES_HEAD) ||
        !eitp_model_check_head(training->model, error))
        return EITP_OK;
    return eitp__fail(error, EITP_ERROR_ARGUMENT,
                      "the language head is random: the weights lack it; train it with the adapters (set "
                      "lora_modules_to_save to lm_head), or train without adapters first");
}

/* Loads the base weights of the adapters in a checkpoint, from the directory named by the recipe or by the adapters. */
static eitp_status eitp__load_base(eitp_training *training, const char *checkpoint, eitp_error *error) {
    char named[4096];
    eitp_lora_config lora;
    const char *path = training->recipe.model.directory;
    eitp_status status = EITP_OK;
    if (!path) {
        status = eitp_lora_config_read(&training->host, checkpoint, training->shape.architecture, &lora, named,
                                       sizeof named, error);
        path = named;
    }
    return status ? status : eitp__read_directory(training, path, &training->base, eitp__load_start, NULL, error);
}

/* Initializes a shape with random weights. Keys of its file that eitp does not use are kept. */
static eitp_status eitp__initialize_shape(eitp_training *training, eitp_error *error) {
    const char *shape = training->recipe.model.shape;
    eitp_status status = eitp_model_initialize(training->model, training->recipe.trainer.seed, error);
    return status || !eitp__is_shape_file(&training->host, shape)
               ? status
               : eitp__config_other_keys(&training->host, training->shape.architecture, shape,
                                         &training->model->other_keys, error);
}

/* A resume loads the weights with the rest of its state, except the base weights of adapters. */
EITP__PRIVATE eitp_status eitp__training_fill_model(eitp_training *training, eitp_error *error) {
    const eitp_model_recipe *recipe = &training->recipe.model;
    const char *checkpoint = eitp__training_checkpoint(training);
    eitp_status status = EITP_OK;
    if (checkpoint && recipe->lora_rank)
        status = eitp__load_base(training, checkpoint, error);
    else if (!checkpoint && recipe->directory)
        status = eitp__read_directory(training, recipe->directory, &training->model_directory, eitp__load_start, NULL,
                                      error);
    else if (!checkpoint)
        status = eitp__initialize_shape(training, error);
    if (!status && !checkpoint)
        status = eitp__check_adapted_head(training, error);
    if (!status && !checkpoint && training->latent.size)
        status = eitp__training_fill_latent(training, error);
    if (!status && checkpoint && eitp_head_has_labels(training->shape.head))
        status = eitp__model_read_labels(training->model, checkpoint, error);
    return status ? status : eitp_model_initialize_lora(training->model, training->recipe.trainer.seed, error);
}

/* ---- Without a directory ---- */

/* Reads shape and task into a training that is not opened. */
static eitp_status eitp__read_unopened_shape(const eitp_recipe *recipe, eitp_training *training, eitp_error *error) {
    eitp_status status;
    training->host = recipe->context.host;
    training->host.log.write = NULL; /* opening logs all messages */
    training->recipe = *recipe;
    training->task_setting = recipe->task.kind;
    training->parts[EITP_TRAINING].paths = &training->recipe.data.training;
    training->is_resumed = recipe->run.resume == EITP_RESUME_NAMED && recipe->run.checkpoint;
    status = eitp__training_read_shape(training, error);
    if (!status)
        status = eitp__training_set_shape(training, error);
    eitp__release_text(&training->host, training->model_directory);
    eitp__release_text(&training->host, training->encoder_directory);
    return status;
}

eitp_status eitp_recipe_read_shape(const eitp_recipe *recipe, eitp_transformer_config *shape, eitp_task_kind *kind,
                                   eitp_error *error) {
    eitp_training *training; /* too large for a small stack */
    eitp_status status;
    if (!recipe || !shape)
        return eitp__fail_null(error, "eitp_recipe_read_shape", "recipe and shape");
    status = eitp__recipe_check_host(recipe, error);
    if (status)
        return status;
    training = (eitp_training *)eitp__allocate(&recipe->context.host, sizeof *training);
    if (!training)
        return eitp__fail_memory(error, sizeof *training, "the description of a run");
    status = eitp__read_unopened_shape(recipe, training, error);
    if (!status)
        *shape = training->shape;
    if (!status && kind)
        *kind = training->kind->kind;
    eitp__release(&recipe->context.host, training, sizeof *training);
    return status;
}
