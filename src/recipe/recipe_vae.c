/* Models with a latent variable: two models, and one tokenizer or two. */
#include "gguf/model_json.h"
#include "io/model_directory.h"
#include "model/latent_state.h"
#include "recipe/training.h"

/* ---- Shapes ---- */

/* Shapes of decoder and encoder, with random weights. */
static const struct {
    const char *name;
    int64_t width, heads, layers, positions;
} eitp__latent_shapes[] = {{"vae-tiny", 128, 4, 4, 256}, {"vae-small", 384, 6, 6, 512}};

EITP__PRIVATE int eitp__take_latent_shape(eitp_training *training, const char *name) {
    eitp_transformer_config *const parts[2] = {&training->shape, &training->latent.encoder};
    size_t i = 0;
    while (i < EITP__COUNT(eitp__latent_shapes) && strcmp(eitp__latent_shapes[i].name, name) != 0)
        i++;
    if (i == EITP__COUNT(eitp__latent_shapes))
        return 0;
    training->shape = eitp_transformer_config_default();
    training->latent = eitp_latent_config_default();
    for (int part = 0; part < 2; part++) {
        parts[part]->width = eitp__latent_shapes[i].width;
        parts[part]->heads = eitp__latent_shapes[i].heads;
        parts[part]->layers = eitp__latent_shapes[i].layers;
        parts[part]->positions = eitp__latent_shapes[i].positions;
    }
    return 1;
}

static eitp_status eitp__read_encoder_config(eitp_training *training, void *user, eitp_error *error) {
    (void)user;
    return eitp_model_config_read(&training->host, training->encoder_directory, &training->latent.encoder, error);
}

/* Reads the encoder that the recipe names: a directory or GGUF file, or a shape. */
static eitp_status eitp__read_named_encoder(eitp_training *training, eitp_error *error) {
    const char *name = training->recipe.model.encoder;
    eitp_path_kind kind;
    int is_gguf;
    eitp_status status = eitp__recipe_path_kind(&training->host, name, NULL, &kind, error);
    if (!status)
        status = eitp__model_is_file(&training->host, name, &is_gguf, error);
    if (status)
        return status;
    training->latent = eitp_latent_config_default();
    return kind == EITP_PATH_DIRECTORY || is_gguf
               ? eitp__read_directory(training, name, &training->encoder_directory, eitp__read_encoder_config, NULL,
                                      error)
               : eitp_transformer_config_named(name, &training->latent.encoder, error);
}

EITP__PRIVATE eitp_status eitp__training_read_latent(eitp_training *training, eitp_error *error) {
    const eitp_model_recipe *recipe = &training->recipe.model;
    const char *checkpoint = eitp__training_checkpoint(training);
    const char *directory = checkpoint ? checkpoint : training->model_directory;
    eitp_status status = EITP_OK;
    if (directory)
        status = eitp__latent_config_read(&training->host, directory, &training->latent, error);
    if (!status && training->latent.size && directory) {
        if (checkpoint && recipe->latent_size && recipe->latent_size != training->latent.size)
            return eitp__fail(error, EITP_ERROR_ARGUMENT,
                              "latent_size is %lld, but '%s' has %lld latent units; leave it out to resume",
                              (long long)recipe->latent_size, directory, (long long)training->latent.size);
        if (!checkpoint && (recipe->encoder || (recipe->latent_size && recipe->latent_size != training->latent.size)))
            return eitp__fail(error, EITP_ERROR_ARGUMENT,
                              "'%s' has its own encoder and %lld latent units; leave out encoder and latent_size, "
                              "or start from its decoder directory",
                              directory, (long long)training->latent.size);
        return EITP_OK;
    }
    if (!status && recipe->encoder && !checkpoint)
        status = eitp__read_named_encoder(training, error);
    if (status || !training->latent.size)
        return status;
    training->latent.size = recipe->latent_size ? recipe->latent_size : training->latent.size;
    training->latent.input = recipe->latent_input;
    training->latent.encoder.pooler = training->encoder_directory && training->latent.encoder.pooler;
    training->latent.encoder.head = EITP_HEAD_NONE;
    return EITP_OK;
}

static eitp_status eitp__set_vae_shape(eitp_training *training, eitp_error *error) {
    const eitp_model_recipe *recipe = &training->recipe.model;
    if (!training->latent.size)
        return eitp__fail(error, EITP_ERROR_ARGUMENT,
                          "task vae needs an encoder: name a directory, or a shape such as minilm for random "
                          "weights, as encoder; or set init to vae-tiny or vae-small");
    if (training->shape.bidirectional || training->shape.head != EITP_HEAD_LANGUAGE)
        return eitp__fail(error, EITP_ERROR_UNSUPPORTED,
                          "task vae needs a decoder, a causal model such as gpt2; the model is a %s model",
                          eitp_architecture_name(training->shape.architecture));
    if (recipe->lora_rank)
        return eitp__fail(error, EITP_ERROR_ARGUMENT,
                          "a model with a latent variable cannot have adapters; leave out lora_rank, or set freeze to "
                          "encoder or decoder");
    if (recipe->dropout >= 0)
        training->latent.encoder.embedding_dropout = training->latent.encoder.attention_dropout =
            training->latent.encoder.residual_dropout = recipe->dropout;
    return EITP_OK;
}

/* ---- Data ---- */

/* Pretrained weights of an encoder come with their own vocabulary. */
EITP__PRIVATE eitp_status eitp__settle_encoder_vocabulary(eitp_training *training, eitp_error *error) {
    const eitp_tokenizer *reads = training->encoder_tokenizer ? training->encoder_tokenizer : training->tokenizer;
    eitp_transformer_config *encoder = &training->latent.encoder;
    const int is_random = !training->encoder_directory && !training->is_resumed &&
                          (!training->model_directory || training->recipe.model.encoder);
    const int64_t size = eitp_tokenizer_size(reads);
    if (is_random)
        encoder->vocabulary = size > training->shape.vocabulary ? size : training->shape.vocabulary;
    if (size <= encoder->vocabulary)
        return EITP_OK;
    return eitp__fail(error, EITP_ERROR_ARGUMENT,
                      "the encoder's vocabulary has %lld tokens, but the tokenizer it uses has %lld; the "
                      "encoder's own tokenizer is missing from '%s'",
                      (long long)encoder->vocabulary, (long long)size,
                      training->encoder_directory ? training->encoder_directory : "its directory");
}

EITP__PRIVATE int64_t eitp__vae_text_length(const eitp_training *training) {
    const int64_t reads = eitp_transformer_config_positions(&training->latent.encoder);
    const int64_t length = eitp__training_max_length(training);
    return training->encoder_tokenizer || length <= reads ? length : reads;
}

static eitp_status eitp__open_texts(eitp_training *training, eitp_error *error) {
    const int64_t reads = eitp_transformer_config_positions(&training->latent.encoder);
    eitp__sample_config config = EITP__ZERO;
    eitp_status status = training->tokenizer ? EITP_OK : eitp__training_make_tokenizer(training, 1, error);
    if (status)
        return status;
    eitp__training_follow_tokenizer(training);
    status = eitp__training_check_tokenizer(training, NULL, error);
    if (!status)
        status = eitp__settle_encoder_vocabulary(training, error);
    if (!status && eitp_tokenizer_end_of_text(training->tokenizer) < 0)
        status = eitp__fail(
            error, EITP_ERROR_ARGUMENT,
            "the decoder's tokenizer has no end-of-text token, which starts and ends each sample; name one as "
            "eos_token in its tokenizer_config.json");
    config.max_length = eitp__vae_text_length(training) - 1;
    config.drops_labels = config.is_bare = 1;
    config.second_max_length = training->encoder_tokenizer ? reads : 0;
    if (!status && config.max_length < 1)
        status = eitp__fail(error, EITP_ERROR_ARGUMENT, "block_size must be at least 2: a token, and end-of-text");
    if (!status)
        status = eitp__part_open_samples(training, EITP_TRAINING, &config, error);
    if (!status && training->recipe.data.validation.count)
        status = eitp__part_open_samples(training, EITP_VALIDATION, &config, error);
    return status;
}

static eitp_status eitp__create_vae(eitp_training *training, eitp_model *model, int is_planned, eitp_task *task,
                                    eitp_error *error) {
#if EITP_WITHOUT_LATENT
    (void)training;
    (void)model;
    (void)is_planned;
    (void)task;
    return eitp__fail(error, EITP_ERROR_UNSUPPORTED, "task vae: this program was built with EITP_WITHOUT_LATENT");
#else
    eitp_vae_config config = eitp_vae_config_default();
    (void)is_planned;
    if (training->is_plan && !training->tokenizer)
        config.end_of_text = 0; /* the end-of-text of a tokenizer that is not trained yet */
    config.model = model;
    config.training = eitp__part_samples(training, EITP_TRAINING);
    if (training->validates)
        config.validation = eitp__part_samples(training, EITP_VALIDATION);
    config.tokenizer = training->tokenizer;
    config.encoder_tokenizer = training->encoder_tokenizer;
    config.objective = training->recipe.task.vae;
    config.importance_samples = training->recipe.task.importance_samples;
    return eitp_vae_task(&config, task, error);
#endif
}

EITP__PRIVATE const eitp__recipe_task *eitp__vae_recipe(void) {
    static const eitp__recipe_task task = {EITP_TASK_VAE,
                                           "vae",
                                           EITP_HEAD_LANGUAGE,
                                           EITP_PROBLEM_UNKNOWN,
                                           eitp__set_vae_shape,
                                           eitp__open_texts,
                                           eitp__training_split_samples,
                                           eitp__create_vae};
    return &task;
}

/* ---- Weights ---- */

static eitp_status eitp__load_encoder(eitp_training *training, void *user, eitp_error *error) {
    (void)user;
    return eitp_model_load_weights(eitp_model_encoder(training->model), training->encoder_directory, error);
}

EITP__PRIVATE eitp_status eitp__training_fill_latent(eitp_training *training, eitp_error *error) {
    const eitp_model_recipe *recipe = &training->recipe.model;
    const uint64_t seed = training->recipe.trainer.seed;
    eitp_model *encoder = eitp_model_encoder(training->model);
    eitp_status status;
    if (!recipe->encoder)
        return EITP_OK;
    status = training->encoder_directory ? eitp__read_directory(training, recipe->encoder, &training->encoder_directory,
                                                                eitp__load_encoder, NULL, error)
                                         : eitp_model_initialize(encoder, seed, error);
    return status ? status : eitp__model_initialize_latent(training->model, seed, error);
}
