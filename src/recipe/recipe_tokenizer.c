/* The tokenizer of a recipe, and the vocabulary derived from it. */
#include "io/latent_directory.h"
#include "recipe/training.h"

/* The tokenizers of an output directory are in its checkpoints. */
static eitp_status eitp__load_tokenizer_at(eitp_training *training, eitp_error *error) {
    const eitp_host *host = &training->host;
    const char *path = training->recipe.model.tokenizer;
    char *directory = NULL;
    eitp_path_kind kind;
    int has_tokenizer = 1;
    eitp_status status = eitp__recipe_path_kind(host, path, NULL, &kind, error);
    if (!status && kind == EITP_PATH_MISSING)
        status =
            eitp__fail(error, EITP_ERROR_ARGUMENT, "no tokenizer at '%s'; name a directory or a tokenizer.json", path);
    if (!status && kind == EITP_PATH_DIRECTORY)
        status = eitp__find_tokenizer(host, path, &has_tokenizer, error);
    if (!status && !has_tokenizer)
        status = eitp__find_directory(host, path, &directory, error);
    if (!status)
        status = eitp_tokenizer_load(host, directory ? directory : path, &training->tokenizer, error);
    eitp__release_text(host, directory);
    return status;
}

/* True for the built-in tokenizer; a directory of that name is "./bytes". */
static int eitp__names_bytes(const char *name) {
    return !strcmp(name, "bytes");
}

static eitp_status eitp__load_named_tokenizer(eitp_training *training, eitp_error *error) {
    return eitp__names_bytes(training->recipe.model.tokenizer)
               ? eitp_tokenizer_create_bytes(&training->host, &training->tokenizer, error)
               : eitp__load_tokenizer_at(training, error);
}

/* Loads the tokenizer of a directory, or of a part of it if it contains a model with a latent variable. Otherwise
   *tokenizer stays NULL. */
static eitp_status eitp__load_tokenizer_in(const eitp_training *training, const char *directory, const char *part,
                                           eitp_tokenizer **tokenizer, eitp_error *error) {
    char *found = NULL;
    int has_tokenizer;
    eitp_status status = eitp__latent_find_part(&training->host, directory, part, &found, error);
    if (!status)
        status = eitp__find_tokenizer(&training->host, found ? found : directory, &has_tokenizer, error);
    if (!status && has_tokenizer)
        status = eitp_tokenizer_load(&training->host, found ? found : directory, tokenizer, error);
    eitp__release_text(&training->host, found);
    return status;
}

static eitp_status eitp__load_stored_tokenizer(eitp_training *training, void *user, eitp_error *error) {
    const char *checkpoint = eitp__training_checkpoint(training);
    const char *const directories[] = {checkpoint ? checkpoint : training->model_directory, training->base};
    eitp_status status = EITP_OK;
    (void)user;
    for (size_t i = 0; i < EITP__COUNT(directories) && directories[i] && !training->tokenizer && !status; i++)
        status =
            eitp__load_tokenizer_in(training, directories[i], EITP__DECODER_DIRECTORY, &training->tokenizer, error);
    return status;
}

static eitp_status eitp__load_encoder_tokenizer_of(eitp_training *training, void *user, eitp_error *error) {
    const char *checkpoint = eitp__training_checkpoint(training);
    const char *directory = training->encoder_directory ? training->encoder_directory
                            : checkpoint                ? checkpoint
                                                        : training->model_directory;
    (void)user;
    return directory ? eitp__load_tokenizer_in(training, directory, EITP__ENCODER_DIRECTORY,
                                               &training->encoder_tokenizer, error)
                     : EITP_OK;
}

/* Loads the tokenizer of the encoder's directory, unless it is the decoder's. A random encoder has none. */
static eitp_status eitp__load_encoder_tokenizer(eitp_training *training, eitp_error *error) {
    const eitp_model_recipe *recipe = &training->recipe.model;
    eitp_status status = EITP_OK;
    if (!training->latent.size || (recipe->encoder && !training->encoder_directory && !training->is_resumed))
        return EITP_OK;
    if (training->encoder_directory)
        status = eitp__read_directory(training, recipe->encoder, &training->encoder_directory,
                                      eitp__load_encoder_tokenizer_of, NULL, error);
    else
        status = eitp__load_encoder_tokenizer_of(training, NULL, error);
    if (!status && training->encoder_tokenizer && training->tokenizer &&
        eitp_tokenizer_fingerprint(training->encoder_tokenizer) == eitp_tokenizer_fingerprint(training->tokenizer)) {
        eitp_tokenizer_destroy(training->encoder_tokenizer);
        training->encoder_tokenizer = NULL;
    }
    return status;
}

/* A resumed run keeps the tokenizer of its checkpoint, if that has one. */
static eitp_status eitp__check_named_tokenizer(eitp_training *training, eitp_error *error) {
    eitp_tokenizer *named = training->tokenizer;
    eitp_status status = EITP_OK;
    if (!training->is_resumed || training->trained)
        return EITP_OK;
    training->tokenizer = NULL;
    status = eitp__load_stored_tokenizer(training, NULL, error);
    if (!status && training->tokenizer &&
        eitp_tokenizer_fingerprint(training->tokenizer) != eitp_tokenizer_fingerprint(named))
        status = eitp__fail(
            error, EITP_ERROR_ARGUMENT,
            "the tokenizer '%s' differs from the one in '%s', which a resumed run keeps; leave tokenizer out",
            training->recipe.model.tokenizer, eitp__training_checkpoint(training));
    eitp_tokenizer_destroy(training->tokenizer);
    training->tokenizer = named;
    return status;
}

/* A named tokenizer takes precedence over the model's. For a resumed run it may be missing. */
static eitp_status eitp__load_own_tokenizer(eitp_training *training, eitp_error *error) {
    const eitp_model_recipe *model = &training->recipe.model;
    eitp_path_kind kind = EITP_PATH_MISSING;
    eitp_status status =
        model->tokenizer ? eitp__recipe_path_kind(&training->host, model->tokenizer, NULL, &kind, error) : EITP_OK;
    const int may_be_gone = training->is_resumed && !training->trained && kind == EITP_PATH_MISSING;
    if (status || (model->tokenizer && (eitp__names_bytes(model->tokenizer) || !may_be_gone))) {
        status = status ? status : eitp__load_named_tokenizer(training, error);
        return status ? status : eitp__check_named_tokenizer(training, error);
    }
    if (training->is_resumed)
        return eitp__load_stored_tokenizer(training, NULL, error);
    return model->directory ? eitp__read_directory(training, model->directory, &training->model_directory,
                                                   eitp__load_stored_tokenizer, NULL, error)
                            : EITP_OK;
}

EITP__PRIVATE eitp_status eitp__training_load_tokenizer(eitp_training *training, eitp_error *error) {
    eitp_status status = eitp__load_own_tokenizer(training, error);
    if (!status)
        status = eitp__training_set_chat_template(training, error);
    return status ? status : eitp__load_encoder_tokenizer(training, error);
}

EITP__PRIVATE void eitp__training_set_vocabulary(eitp_training *training, int64_t vocabulary, const char *from) {
    const eitp_model_recipe *recipe = &training->recipe.model;
    if (training->is_resumed || recipe->directory || recipe->vocabulary || vocabulary <= 0 ||
        vocabulary == training->shape.vocabulary || eitp__is_shape_file(&training->host, recipe->shape))
        return;
    eitp__log_line(&training->host, EITP_LOG_INFO,
                   "vocabulary: %lld (from the %s; %s has %lld; override with vocab_size)", (long long)vocabulary, from,
                   recipe->shape, (long long)training->shape.vocabulary);
    training->shape.vocabulary = vocabulary;
}

EITP__PRIVATE void eitp__training_follow_tokenizer(eitp_training *training) {
    eitp__training_set_vocabulary(training, eitp_tokenizer_size(training->tokenizer), "tokenizer");
}

EITP__PRIVATE eitp_status eitp__training_check_tokenizer(const eitp_training *training, const eitp_sample_file *file,
                                                         eitp_error *error) {
    const eitp_sample_file_info info = eitp_sample_file_get_info(file);
    const int32_t size = eitp_tokenizer_size(training->tokenizer);
    if (size > training->shape.vocabulary)
        return eitp__fail(error, EITP_ERROR_ARGUMENT,
                          "the tokenizer has %d tokens, more than the model's vocabulary of %lld; use the model's own "
                          "tokenizer, or with random weights set vocab_size to %d",
                          (int)size, (long long)training->shape.vocabulary, (int)size);
    if (!file || info.kind != EITP_SAMPLE_FILE_TOKENS)
        return EITP_OK;
    if (info.tokenizer_fingerprint != eitp_tokenizer_fingerprint(training->tokenizer))
        return eitp__fail(error, EITP_ERROR_ARGUMENT,
                          "the token file was packed with another tokenizer; pack it again, or name its own as "
                          "tokenizer");
    if (info.end_of_text != eitp_tokenizer_end_of_text(training->tokenizer))
        eitp__log_line(
            &training->host, EITP_LOG_WARNING,
            "the token file ends documents with token %d, but the tokenizer's end-of-text is %d (-1: none); pack "
            "the text again to use the tokenizer's",
            (int)info.end_of_text, (int)eitp_tokenizer_end_of_text(training->tokenizer));
    return EITP_OK;
}
