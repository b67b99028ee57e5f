/* The tokenizer that a new run with random weights trains on its text. */
#include "recipe/training.h"

/* ---- Its size ---- */

static eitp_tokenizer_family eitp__new_family(const eitp_training *training) {
    return training->shape.bidirectional ? EITP_TOKENIZER_ROBERTA : EITP_TOKENIZER_GPT2;
}

/* Returns the size of the vocabulary, at most the model's if that is fixed. */
static int64_t eitp__new_vocabulary(const eitp_training *training, uint64_t text_bytes) {
    const eitp_model_recipe *recipe = &training->recipe.model;
    const int64_t size = eitp_tokenizer_train_size(eitp__new_family(training), text_bytes);
    const int is_fixed = recipe->vocabulary || eitp__is_shape_file(&training->host, recipe->shape);
    return is_fixed && training->shape.vocabulary < size ? training->shape.vocabulary : size;
}

/* Returns the size of a tokenizer that has learned nothing: bytes and special tokens. */
static int64_t eitp__least_vocabulary(const eitp_training *training) {
    return eitp_tokenizer_train_size(eitp__new_family(training), 0);
}

/* ---- Its text ---- */

/* The text of the training data, in pieces: from files, or from the rows of a table. */
typedef struct eitp__training_text {
    eitp_training *training;
    eitp_text_files *files;
    eitp_text_source source;
    eitp_table *table;
    eitp_example_source rows;
    eitp_text parts[2]; /* text and second text of the current row; bytes NULL: already returned */
    int is_between;     /* the last piece ended a document */
    uint64_t bytes, all_bytes;
} eitp__training_text;

static eitp_status eitp__read_next_row(eitp__training_text *text, int *is_end, eitp_error *error) {
    eitp_example example = EITP__ZERO;
    const eitp_status status = text->rows.read(text->rows.user, &example, is_end, error);
    text->parts[0] = example.text;
    text->parts[1] = example.pair;
    text->bytes = eitp_table_get_statistics(text->table).bytes;
    return status;
}

/* Returns each text column of a row as a piece and a separate document. */
static eitp_status eitp__read_row_text(eitp__training_text *text, const char **piece, size_t *size, eitp_error *error) {
    int is_end = 0;
    *piece = "";
    *size = 0;
    text->is_between = !text->is_between;
    while (text->is_between && !is_end) {
        for (size_t i = 0; i < EITP__COUNT(text->parts); i++) {
            eitp_text *part = &text->parts[i];
            if (!part->bytes || !part->size)
                continue;
            *piece = part->bytes;
            *size = part->size;
            part->bytes = NULL;
            return EITP_OK;
        }
        const eitp_status status = eitp__read_next_row(text, &is_end, error);
        if (status)
            return status;
    }
    *piece = is_end ? NULL : *piece;
    return EITP_OK;
}

static eitp_status eitp__read_file_text(eitp__training_text *text, const char **piece, size_t *size,
                                        eitp_error *error) {
    const eitp_status status = text->source.read(text->source.user, piece, size, error);
    text->bytes += status || !*piece ? 0 : *size;
    return status;
}

static eitp_status eitp__read_training_text(void *user, const char **piece, size_t *size, eitp_error *error) {
    eitp__training_text *text = (eitp__training_text *)user;
    const eitp_recipe *recipe = &text->training->recipe;
    eitp_training_progress now = EITP__ZERO;
    now.stage = text->training->stage;
    now.bytes = text->bytes;
    now.all_bytes = text->all_bytes;
    if (recipe->progress && recipe->progress(recipe->progress_user, &now))
        return eitp__fail(error, EITP_ERROR_INTERRUPTED, "stopped while %s", now.stage);
    return text->table ? eitp__read_row_text(text, piece, size, error) : eitp__read_file_text(text, piece, size, error);
}

/* Reports nothing about the text; packing does. */
static eitp_status eitp__open_training_text(eitp_training *training, int has_rows, eitp__training_text *text,
                                            eitp_error *error) {
    const eitp_table_config config = eitp__part_table(training, EITP_TRAINING);
    eitp_host host = training->host;
    eitp_status status;
    memset(text, 0, sizeof *text);
    eitp__input_copy_rewind(&training->input);
    host.log.write = NULL;
    text->training = training;
    if (has_rows) {
        status = eitp_table_open(&host, &config, &text->table, error);
        text->rows = eitp_table_source(text->table);
        text->all_bytes = eitp_table_get_statistics(text->table).bytes_total;
    } else {
        status = eitp_text_files_open(&host, &config.texts, &text->files, error);
        text->source = eitp_text_files_source(text->files);
        text->all_bytes = eitp_text_files_bytes(text->files);
    }
    text->all_bytes += training->input.size;
    return status;
}

static void eitp__close_training_text(eitp__training_text *text) {
    eitp_table_close(text->table);
    eitp_text_files_close(text->files);
}

/* The input of the program can be read only once: it is copied while the data are open. */
static eitp_status eitp__copy_input(eitp_training *training, eitp_error *error) {
    const char *directory = training->recipe.run.directory;
    eitp_text_source *input = &training->recipe.data.input;
    char *path;
    eitp_status status;
    if (!eitp__part_has_input(training, EITP_TRAINING) || !input->read)
        return EITP_OK;
    training->read_input = *input;
    path = eitp__join_path(&training->host, directory, "data/input");
    status = path ? eitp__input_copy_open(&training->input, &training->host, path, input, error)
                  : eitp__fail_memory(error, strlen(directory), "a path");
    eitp__release_text(&training->host, path);
    return status;
}

EITP__PRIVATE void eitp__training_release_input(eitp_training *training) {
    if (training->read_input.read)
        training->recipe.data.input = training->read_input;
    memset(&training->read_input, 0, sizeof training->read_input);
    eitp__input_copy_release(&training->input);
}

/* ---- Training it ---- */

/* Returns a small part of the run's memory budget. */
static uint64_t eitp__tokenizer_memory(const eitp_training *training) {
    const uint64_t least = (uint64_t)1 << 20, most = (uint64_t)64 << 20;
    uint64_t budget = training->recipe.memory.budget;
    eitp_memory_info info;
    if (!budget && !eitp_memory_info_read(&training->host, &info, NULL))
        budget = eitp_memory_budget_default(&info);
    return budget / 8 > most ? most : budget / 8 < least ? least : budget / 8;
}

static eitp_status eitp__learn_tokens(eitp_training *training, int has_rows, int64_t vocabulary, eitp_error *error) {
    eitp_tokenizer_train_config config = eitp_tokenizer_train_config_default();
    eitp_host host = training->host;
    eitp__training_text text;
    eitp_text_source source;
    eitp_status status = eitp__open_training_text(training, has_rows, &text, error);
    host.log.write = NULL;
    source.user = &text;
    source.read = eitp__read_training_text;
    config.family = eitp__new_family(training);
    config.vocabulary_size = (int32_t)(vocabulary ? vocabulary : eitp__new_vocabulary(training, text.all_bytes));
    config.memory_limit = eitp__tokenizer_memory(training);
    if (!status)
        status = eitp_tokenizer_train(&host, &config, &source, &training->tokenizer, error);
    training->tokenizer_bytes = text.bytes;
    eitp__close_training_text(&text);
    return status;
}

static eitp_status eitp__count_new_tokens(void *user, const int32_t *ids, size_t count, eitp_error *error) {
    (void)ids;
    (void)error;
    *(uint64_t *)user += count;
    return EITP_OK;
}

/* Shorter text may not fill a window of each part with tokens, although it does with bytes. */
enum { EITP__FEWEST_TOKENS = 4096 };

static eitp_status eitp__has_enough_tokens(eitp_training *training, int has_rows, int *has_enough, eitp_error *error) {
    eitp__training_text text;
    eitp_encoder *encoder = NULL;
    uint64_t count = 0;
    const char *piece = "";
    size_t size;
    eitp_status status = eitp__open_training_text(training, has_rows, &text, error);
    if (!status)
        status = eitp_encoder_create(training->tokenizer, eitp__count_new_tokens, &count, &encoder, error);
    while (!status && piece && count < EITP__FEWEST_TOKENS) {
        status = eitp__read_training_text(&text, &piece, &size, error);
        if (!status)
            status =
                piece && size ? eitp_encoder_add(encoder, piece, size, error) : eitp_encoder_finish(encoder, error);
    }
    eitp_encoder_destroy(encoder);
    eitp__close_training_text(&text);
    *has_enough = count >= EITP__FEWEST_TOKENS;
    return status;
}

static char *eitp__new_tokenizer_path(const eitp_training *training) {
    return eitp__join_path(&training->host, training->recipe.run.directory, "data/tokenizer");
}

EITP__PRIVATE void eitp__remove_new_tokenizer(const eitp_training *training) {
    char *path = eitp__new_tokenizer_path(training);
    if (path)
        eitp__remove_tree(&training->host, path, NULL);
    eitp__release_text(&training->host, path);
}

static eitp_status eitp__save_new_tokenizer(eitp_training *training, eitp_error *error) {
    const eitp_host *host = &training->host;
    char *path = eitp__new_tokenizer_path(training), bytes[16];
    eitp_status status = path ? eitp__remove_tree(host, path, error) : eitp__fail_memory(error, 100, "a path");
    training->has_new_tokenizer = 1;
    if (!status)
        status = eitp_tokenizer_save(training->tokenizer, path, error);
    if (!status)
        eitp__log_line(host, EITP_LOG_INFO,
                       "tokenizer: trained %d tokens on %s of text, saved in %s; override with tokenizer",
                       (int)eitp_tokenizer_size(training->tokenizer),
                       eitp_format_bytes(training->tokenizer_bytes, bytes, sizeof bytes), path);
    eitp__release_text(host, path);
    return status;
}

/* ---- Choosing ---- */

EITP__PRIVATE eitp_status eitp__training_use_bytes(eitp_training *training, const char *why, eitp_error *error) {
    eitp__log_line(&training->host, EITP_LOG_INFO,
                   "no tokenizer: %sthe tokens are bytes (0 to 255) and end-of-text (256)", why);
    return eitp_tokenizer_create_bytes(&training->host, &training->tokenizer, error);
}

/* Masked tokens need the special tokens of a tokenizer. */
static eitp_status eitp__learn_nothing(eitp_training *training, int has_rows, eitp_error *error) {
    eitp_status status;
    eitp_tokenizer_destroy(training->tokenizer);
    training->tokenizer = NULL;
    if (eitp__new_family(training) == EITP_TOKENIZER_GPT2)
        return eitp__training_use_bytes(training, "the text is too short to train one; ", error);
    status = eitp__learn_tokens(training, has_rows, eitp__least_vocabulary(training), error);
    return status ? status : eitp__save_new_tokenizer(training, error);
}

static eitp_status eitp__learn_from_text(eitp_training *training, int has_rows, eitp_error *error) {
    int has_enough = 0;
    eitp_status status = eitp__make_packed_directory(training, error);
    if (!status)
        status = eitp__copy_input(training, error);
    if (!status)
        status = eitp__learn_tokens(training, has_rows, 0, error);
    if (!status)
        status = eitp__has_enough_tokens(training, has_rows, &has_enough, error);
    if (!status)
        status =
            has_enough ? eitp__save_new_tokenizer(training, error) : eitp__learn_nothing(training, has_rows, error);
    eitp__input_copy_rewind(&training->input);
    return status;
}

EITP__PRIVATE int eitp__training_may_make_tokenizer(const eitp_training *training) {
    return !training->is_resumed && !training->trained && !training->recipe.model.directory &&
           eitp__new_vocabulary(training, UINT64_MAX) > eitp__least_vocabulary(training);
}

EITP__PRIVATE eitp_status eitp__training_presume_tokenizer(eitp_training *training, int has_rows, eitp_error *error) {
    eitp__training_text text;
    eitp_status status;
    if (!eitp__training_may_make_tokenizer(training))
        return eitp__training_use_bytes(training, "", error);
    status = eitp__open_training_text(training, has_rows, &text, error);
    eitp__training_set_vocabulary(training, eitp__new_vocabulary(training, text.all_bytes), "tokenizer");
    eitp__close_training_text(&text);
    return status;
}

EITP__PRIVATE eitp_status eitp__training_make_tokenizer(eitp_training *training, int has_rows, eitp_error *error) {
    const char *stage = training->stage;
    eitp_status status;
    if (!eitp__training_may_make_tokenizer(training))
        return eitp__training_use_bytes(training, "", error);
    training->stage = "training a tokenizer";
    status = eitp__learn_from_text(training, has_rows, error);
    training->stage = stage;
    return status;
}
