/* Conversations of a recipe: how they are recognised, and what their samples are. */
#include "recipe/training.h"

/* ---- Recognising them ---- */

/* Reads the first row of the training data as a conversation. */
static eitp_status eitp__read_first_conversation(const eitp_training *training, int *is_one, eitp_error *error) {
    eitp_table_config config = eitp__part_table(training, EITP_TRAINING);
    eitp_example_source source;
    eitp_example example;
    eitp_table *table = NULL;
    int is_end = 0;
    eitp_status status;
    config.texts.format = EITP_FORMAT_CHAT;
    status = eitp_table_open(&training->host, &config, &table, error);
    if (!status) {
        source = eitp_table_source(table);
        status = source.read(source.user, &example, &is_end, error);
    }
    *is_one = !status && !is_end && eitp_is_conversation(&training->host, example.text.bytes, example.text.size);
    eitp_table_close(table);
    return status;
}

/* True if the first file is JSON Lines by its name, and no column says what of them is the text. */
static int eitp__may_be_conversations(const eitp_training *training) {
    const eitp_data_recipe *data = &training->recipe.data;
    const eitp_text_list *paths = training->parts[EITP_TRAINING].paths;
    const char *ending = paths->count ? strrchr(paths->texts[0], '.') : NULL;
    return data->format == EITP_FORMAT_AUTO && !data->text_column && !data->label_column && ending &&
           (!strcmp(ending, ".jsonl") || !strcmp(ending, ".ndjson") || !strcmp(ending, ".json"));
}

/* What cannot be read now is reported when it is packed; of a resumed run it may have gone missing. */
EITP__PRIVATE void eitp__find_conversations(eitp_training *training) {
    int is_one = 0;
    if (eitp__may_be_conversations(training) && eitp__read_first_conversation(training, &is_one, NULL) &&
        training->is_resumed)
        is_one = eitp__has_packed(training, EITP_TRAINING, 1);
    if (is_one)
        training->recipe.data.format = EITP_FORMAT_CHAT;
}

/* ---- Samples ---- */

static eitp_status eitp__open_chat(eitp_training *training, eitp_error *error) {
    eitp_status status;
    if (!training->tokenizer)
        return eitp__fail(error, EITP_ERROR_ARGUMENT,
                          "the data are conversations, which need the model's tokenizer; name one as tokenizer");
    status = eitp_chat_create(training->tokenizer, &training->chat, error);
    if (status != EITP_ERROR_ARGUMENT || eitp_tokenizer_chat_template(training->tokenizer, NULL))
        return status;
    return eitp__fail(error, EITP_ERROR_ARGUMENT,
                      "the data are conversations, and the tokenizer has no chat template to write them with; name a "
                      "file, or chatml, as chat_template");
}

EITP__PRIVATE eitp_status eitp__open_conversations(eitp_training *training, eitp_error *error) {
    eitp__sample_config config = EITP__ZERO;
    eitp_status status = eitp__open_chat(training, error);
    if (status)
        return status;
    eitp__training_set_vocabulary(training, eitp_tokenizer_size(training->tokenizer));
    status = eitp__training_check_tokenizer(training, NULL, error);
    config.max_length = eitp__training_max_length(training);
    config.chat = training->chat;
    if (!status)
        status = eitp__part_open_samples(training, EITP_TRAINING, &config, error);
    if (!status && training->recipe.data.validation.count)
        status = eitp__part_open_samples(training, EITP_VALIDATION, &config, error);
    return status;
}

EITP__PRIVATE eitp_status eitp__create_conversations(eitp_training *training, eitp_model *model, eitp_task *task,
                                                     eitp_error *error) {
    eitp_conversation_config config = eitp_conversation_config_default();
    config.model = model;
    config.training = eitp__part_samples(training, EITP_TRAINING);
    if (training->validates)
        config.validation = eitp__part_samples(training, EITP_VALIDATION);
    config.tokenizer = training->tokenizer;
    config.end_of_turn = eitp_chat_end_of_turn(training->chat);
    return eitp_conversation_task(&config, task, error);
}
