/* The tasks on windows of text: next tokens, and masked tokens, which also work with the rows of tables. */
#include "data/sample_bytes.h"
#include "recipe/training.h"

/* ---- Next tokens ---- */

static const char *eitp__training_source(const eitp_training *training) {
    const char *checkpoint = eitp__training_checkpoint(training);
    return checkpoint                  ? checkpoint
           : training->model_directory ? training->model_directory
                                       : training->recipe.model.shape;
}

static eitp_status eitp__set_language_shape(eitp_training *training, eitp_error *error) {
    const char *type = eitp_architecture_name(training->shape.architecture);
    if (eitp_head_has_labels(training->shape.head))
        return eitp__fail(error, EITP_ERROR_UNSUPPORTED, "'%s' is a %s classifier, expected a language model",
                          eitp__training_source(training), type);
    if (training->shape.bidirectional)
        return eitp__fail(error, EITP_ERROR_UNSUPPORTED,
                          "'%s' is a %s model, which does not predict the next token; use a causal model such as gpt2",
                          eitp__training_source(training), type);
    return EITP_OK;
}

/* Recognizes the tokenizer of bytes if no tokenizer is named for a token file. Any other tokenizer is unknown, and the
   model is saved without one. */
static eitp_status eitp__recognize_tokenizer(eitp_training *training, eitp_error *error) {
    const eitp_sample_file_info info = eitp_sample_file_get_info(training->parts[EITP_TRAINING].file);
    eitp_status status = eitp_tokenizer_create_bytes(&training->host, &training->tokenizer, error);
    if (status || (info.kind == EITP_SAMPLE_FILE_TOKENS &&
                   info.tokenizer_fingerprint == eitp_tokenizer_fingerprint(training->tokenizer)))
        return status;
    eitp_tokenizer_destroy(training->tokenizer);
    training->tokenizer = NULL;
    eitp__log_line(&training->host, EITP_LOG_WARNING,
                   "the tokenizer of '%s' is unknown and will not be saved with the model; name it as tokenizer",
                   training->parts[EITP_TRAINING].path);
    return EITP_OK;
}

/* If a token file has grown, keeps the tokens that the checkpoint knows. */
static eitp_status eitp__keep_tokens(eitp_training *training, eitp_error *error) {
    const eitp_sample_file *file = training->parts[EITP_TRAINING].file;
    const eitp_sample_file_info info = eitp_sample_file_get_info(file);
    const uint64_t hash = training->resumed.data.hash;
    eitp_status status;
    training->kept_tokens = 0;
    if (!training->is_resumed || !hash || info.content_hash == hash ||
        (training->trained && !eitp__trained_divides(training)))
        return EITP_OK;
    status = eitp__sample_file_find_prefix(file, hash, &training->kept_tokens, error);
    if (!status && training->kept_tokens && !training->trained)
        eitp__log_line(
            &training->host, EITP_LOG_WARNING,
            "the data have grown from %llu to %llu tokens since '%s' was written; the run continues with the "
            "first %llu; to train on all of them start a new run from the weights",
            (unsigned long long)training->kept_tokens, (unsigned long long)info.token_count,
            eitp__training_checkpoint(training), (unsigned long long)training->kept_tokens);
    return status;
}

static eitp_status eitp__open_windows(eitp_training *training, eitp_error *error) {
    const int has_validation = training->recipe.data.validation.count > 0;
    eitp_status status = eitp__part_open_tokens(training, EITP_TRAINING, error);
    if (!status)
        status = eitp__keep_tokens(training, error);
    if (!status && has_validation)
        status = eitp__part_open_tokens(training, EITP_VALIDATION, error);
    if (!status && !training->tokenizer)
        status = eitp__recognize_tokenizer(training, error);
    for (int split = 0; split < 2 && !status && training->tokenizer; split++)
        status = eitp__training_check_tokenizer(training, training->parts[split].file, error);
    return status;
}

EITP__PRIVATE int64_t eitp__training_window_size(const eitp_training *training) {
    const int64_t positions = eitp_transformer_config_positions(&training->shape);
    const int64_t asked = training->recipe.task.block_size;
    const int64_t size = asked > 0 ? asked : asked < 0 && training->resumed.rows ? training->resumed.rows : positions;
    if (size <= positions)
        return size;
    eitp__log_line(&training->host, EITP_LOG_WARNING,
                   "block_size is above the model's %lld positions (got %lld): windows have %lld tokens",
                   (long long)positions, (long long)size, (long long)positions);
    return positions;
}

static eitp_status eitp__split_windows(eitp_training *training, eitp_error *error) {
    eitp__data_part *parts = training->parts;
    const int has_file = parts[EITP_VALIDATION].file != NULL;
    const uint64_t count = training->kept_tokens ? training->kept_tokens
                                                 : eitp_sample_file_get_info(parts[EITP_TRAINING].file).token_count;
    eitp_token_range nothing;
    eitp_status status;
    training->rows = eitp__training_window_size(training);
    status = eitp_split_tokens(count, has_file ? 0 : training->recipe.data.validation_fraction, training->rows,
                               &parts[EITP_TRAINING].range, &parts[EITP_VALIDATION].range, error);
    if (!status && has_file)
        status = eitp_split_tokens(eitp_sample_file_get_info(parts[EITP_VALIDATION].file).token_count, 0,
                                   training->rows, &parts[EITP_VALIDATION].range, &nothing, error);
    training->recipe.task.block_size = training->rows;
    training->validates = !status && parts[EITP_VALIDATION].range.count > 0 && !training->recipe.data.holds_out_only;
    return status;
}

/* Conversations become samples; other text is cut into windows. */
static eitp_status eitp__open_language(eitp_training *training, eitp_error *error) {
    const eitp_status status = eitp__find_conversations(training, error);
    if (status)
        return status;
    return training->recipe.data.format == EITP_FORMAT_CHAT ? eitp__open_conversations(training, error)
                                                            : eitp__open_windows(training, error);
}

static eitp_status eitp__split_texts(eitp_training *training, eitp_error *error) {
    return training->parts[EITP_TRAINING].is_labelled ? eitp__training_split_samples(training, error)
                                                      : eitp__split_windows(training, error);
}

static eitp_status eitp__create_language(eitp_training *training, eitp_model *model, int is_planned, eitp_task *task,
                                         eitp_error *error) {
    eitp_language_config config = EITP__ZERO;
    (void)is_planned;
    if (training->chat)
        return eitp__create_conversations(training, model, task, error);
    config.model = model;
    config.block_size = training->rows;
    config.tokenizer = training->tokenizer;
    config.training = eitp__part_tokens(training, EITP_TRAINING);
    if (training->validates)
        config.validation = eitp__part_tokens(training, EITP_VALIDATION);
    return eitp_language_task(&config, task, error);
}

EITP__PRIVATE const eitp__recipe_task *eitp__language_recipe(void) {
    static const eitp__recipe_task task = {EITP_TASK_LANGUAGE,       "lm",
                                           EITP_HEAD_LANGUAGE,       EITP_PROBLEM_UNKNOWN,
                                           eitp__set_language_shape, eitp__open_language,
                                           eitp__split_texts,        eitp__create_language};
    return &task;
}

/* ---- Masked tokens ---- */

static eitp_status eitp__set_masked_shape(eitp_training *training, eitp_error *error) {
    if (!training->shape.bidirectional)
        return eitp__fail(error, EITP_ERROR_UNSUPPORTED,
                          "'%s' is a %s model, which cannot predict masked tokens; train it with task lm",
                          eitp__training_source(training), eitp_architecture_name(training->shape.architecture));
    training->shape.head = EITP_HEAD_LANGUAGE;
    return EITP_OK;
}

/* Checks that the tokenizer has a mask token, which replaces masked tokens. */
static eitp_status eitp__check_mask_token(const eitp_training *training, eitp_error *error) {
    if (!training->tokenizer && training->trained)
        return eitp__fail(error, EITP_ERROR_ARGUMENT,
                          "'%s' predicts masked tokens, which requires a tokenizer with a mask token; name one as "
                          "tokenizer",
                          training->trained);
    if (!training->tokenizer)
        return eitp__fail(error, EITP_ERROR_ARGUMENT,
                          "'%s' has no tokenizer, and task mlm, the default for a %s model and data without labels, "
                          "needs one with a mask token; name one as tokenizer",
                          eitp__training_source(training), eitp_architecture_name(training->shape.architecture));
    if (eitp_tokenizer_special(training->tokenizer, EITP_MASK) < 0)
        return eitp__fail(error, EITP_ERROR_ARGUMENT,
                          "the tokenizer has no mask token, which task mlm needs; name one as mask_token in its "
                          "tokenizer_config.json");
    return EITP_OK;
}

static eitp_status eitp__open_masked_rows(eitp_training *training, eitp_error *error) {
    eitp__sample_config config = EITP__ZERO;
    eitp_status status;
    eitp__training_follow_tokenizer(training);
    status = eitp__training_check_tokenizer(training, NULL, error);
    config.max_length = eitp__training_max_length(training);
    config.drops_labels = 1;
    if (!status)
        status = eitp__part_open_samples(training, EITP_TRAINING, &config, error);
    if (!status && training->recipe.data.validation.count)
        status = eitp__part_open_samples(training, EITP_VALIDATION, &config, error);
    return status;
}

/* Text can train a tokenizer; a token file already has one, which must be named. */
static eitp_status eitp__find_mask_token(eitp_training *training, int has_rows, eitp_error *error) {
    int is_token_file = 0;
    eitp_status status = EITP_OK;
    if (!training->tokenizer && eitp__training_may_make_tokenizer(training))
        status = eitp__part_is_token_file(training, EITP_TRAINING, &is_token_file, error);
    if (!status && !training->tokenizer && !is_token_file && eitp__training_may_make_tokenizer(training))
        status = eitp__training_make_tokenizer(training, has_rows, error);
    return status ? status : eitp__check_mask_token(training, error);
}

static eitp_status eitp__open_masked(eitp_training *training, eitp_error *error) {
    const int has_rows = eitp__part_has_rows(training, EITP_TRAINING);
    const eitp_status status = eitp__find_mask_token(training, has_rows, error);
    if (status)
        return status;
    return has_rows ? eitp__open_masked_rows(training, error) : eitp__open_windows(training, error);
}

/* Returns the samples of a part: its rows, or windows of its tokens. */
static eitp_status eitp__masked_source(eitp_training *training, eitp_split split, eitp_labelled_source *source,
                                       eitp_error *error) {
    eitp_text_windows *windows = &training->parts[split].windows;
    const eitp_token_source tokens = eitp__part_tokens(training, split);
    eitp_status status;
    *source = eitp__part_samples(training, split);
    if (training->is_plan || training->parts[EITP_TRAINING].is_labelled)
        return EITP_OK;
    status = eitp_text_windows_init(windows, &tokens, training->tokenizer, training->rows, error);
    *source = eitp_text_windows_source(windows);
    return status;
}

static eitp_status eitp__create_masked(eitp_training *training, eitp_model *model, int is_planned, eitp_task *task,
                                       eitp_error *error) {
    eitp_masked_config config = EITP__ZERO;
    eitp_status status;
    (void)is_planned;
    config.model = model;
    config.tokenizer = training->tokenizer;
    config.probability = training->recipe.task.mlm_probability;
    config.whole_words = training->recipe.task.whole_words && training->tokenizer;
    status = eitp__masked_source(training, EITP_TRAINING, &config.training, error);
    if (!status && training->validates)
        status = eitp__masked_source(training, EITP_VALIDATION, &config.validation, error);
    return status ? status : eitp_masked_task(&config, task, error);
}

EITP__PRIVATE const eitp__recipe_task *eitp__masked_recipe(void) {
    static const eitp__recipe_task task = {EITP_TASK_MASKED,       "mlm",
                                           EITP_HEAD_LANGUAGE,     EITP_PROBLEM_UNKNOWN,
                                           eitp__set_masked_shape, eitp__open_masked,
                                           eitp__split_texts,      eitp__create_masked};
    return &task;
}
