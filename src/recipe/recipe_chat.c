/* Conversations of a recipe: detecting them, and creating their samples. */
#include "data/row_reader.h"
#include "recipe/training.h"
#include "text/conversation.h"

/* ---- Detection ---- */

/* Kind of the first row of the data. */
typedef struct eitp__first_row {
    int is_conversation;
    int has_weight; /* text with a member "weight" */
    eitp_error why; /* EITP_ERROR_ARGUMENT: neither a conversation nor text */
} eitp__first_row;

/* Classifies the first row. A table, unlike JSON, contains conversations only if none of its columns is the text. */
static void eitp__judge_first_row(const eitp_host *host, const eitp_example *example, eitp__first_row *row) {
    const eitp_text *text = &example->text;
    const int is_json = eitp__format_of_name(example->path, EITP_FORMAT_JSONL) == EITP_FORMAT_JSONL;
    eitp_json_document *document = NULL;
    const eitp_json *root;
    if (eitp__json_parse_line(host, text->bytes, text->size, 1, &document, NULL))
        return;
    root = eitp_json_root(document);
    const int has_text = root->kind != EITP_JSON_OBJECT || eitp_json_member(root, "text") != NULL;
    row->is_conversation = (is_json || !has_text) && eitp__has_conversation(root);
    row->has_weight = is_json && !row->is_conversation && eitp_json_member(root, "weight") != NULL;
    if (!has_text)
        eitp__refuse_other_training(root, &row->why);
    if (!has_text && is_json && !row->why.status && !row->is_conversation &&
        !eitp__find_usual_member(root, EITP__COLUMN_TEXT))
        eitp__fail_advice(&row->why, eitp__fail_form(host, root, "text", &row->why),
                          "set text_column to the member with the text, or format to text if this is not a table");
    if (row->why.status)
        eitp__fail_prefix(&row->why, row->why.status, "%s: line %llu", example->path,
                          (unsigned long long)example->line);
    eitp_json_release(document);
}

/* Reads the first row of the training data as a conversation. */
static eitp_status eitp__read_first_row(const eitp_training *training, eitp__first_row *row) {
    eitp_table_config config = eitp__part_table(training, EITP_TRAINING);
    eitp_example_source source;
    eitp_example example;
    eitp_table *table = NULL;
    int is_end = 0;
    eitp_status status;
    config.texts.format = EITP_FORMAT_CHAT;
    status = eitp_table_open(&training->host, &config, &table, NULL);
    if (!status) {
        source = eitp_table_source(table);
        status = source.read(source.user, &example, &is_end, NULL);
    }
    if (!status && !is_end)
        eitp__judge_first_row(&training->host, &example, row);
    eitp_table_close(table);
    return status;
}

/* True if the first path is JSON or a table by name, or a directory and there are settings for conversations, and no
   setting names a text column. */
static int eitp__may_be_conversations(const eitp_training *training) {
    const eitp_data_recipe *data = &training->recipe.data;
    const eitp_text_list *paths = training->parts[EITP_TRAINING].paths;
    eitp_path_kind kind = EITP_PATH_MISSING;
    if (data->format != EITP_FORMAT_AUTO || data->text_column || data->label_column || !paths->count)
        return 0;
    if (eitp__has_chat_setting(training))
        eitp__recipe_path_kind(&training->host, paths->texts[0], NULL, &kind, NULL);
    const eitp_text_format format = eitp__format_of_name(paths->texts[0], EITP_FORMAT_TEXT);
    return kind == EITP_PATH_DIRECTORY || format == EITP_FORMAT_JSONL || format == EITP_FORMAT_CSV ||
           format == EITP_FORMAT_TSV;
}

/* Ignores read errors, which are reported when the data are packed; the files of a resumed run may be missing. A run
   that has packed its rows as text continues with that. */
EITP__PRIVATE eitp_status eitp__find_conversations(eitp_training *training, eitp_error *error) {
    eitp__first_row row = EITP__ZERO;
    if (!eitp__may_be_conversations(training))
        return EITP_OK;
    if (eitp__read_first_row(training, &row) && training->is_resumed)
        row.is_conversation = eitp__has_packed(training, EITP_TRAINING, 1);
    if (training->is_resumed && eitp__has_packed(training, EITP_TRAINING, 0))
        return EITP_OK;
    if (row.is_conversation)
        training->recipe.data.format = EITP_FORMAT_CHAT;
    if (row.has_weight && !training->trained)
        eitp__log_line(&training->host, EITP_LOG_WARNING,
                       "'weight' in the rows of '%s' is ignored: the text is cut into windows, which have no weight",
                       training->parts[EITP_TRAINING].paths->texts[0]);
    if (!row.why.status || training->recipe.data.skip_bad)
        return EITP_OK;
    if (error)
        *error = row.why;
    return row.why.status;
}

/* ---- Samples ---- */

#if EITP_WITHOUT_TEMPLATES

EITP__PRIVATE eitp_status eitp__open_chat(eitp_training *training, eitp_error *error) {
    (void)training;
    return eitp__fail(error, EITP_ERROR_UNSUPPORTED,
                      "the data are conversations, but this program was built with EITP_WITHOUT_TEMPLATES");
}

EITP__PRIVATE eitp_status eitp__open_conversations(eitp_training *training, eitp_error *error) {
    return eitp__open_chat(training, error);
}

EITP__PRIVATE eitp_status eitp__create_conversations(eitp_training *training, eitp_model *model, eitp_task *task,
                                                     eitp_error *error) {
    (void)model;
    (void)task;
    return eitp__open_chat(training, error);
}

#else

EITP__PRIVATE eitp_status eitp__open_chat(eitp_training *training, eitp_error *error) {
    eitp_status status;
    if (!training->tokenizer)
        return eitp__fail(error, EITP_ERROR_ARGUMENT,
                          "the data are conversations, which need a tokenizer with a chat template; start from a model "
                          "that has them, "
                          "or name one as tokenizer");
    status = eitp_chat_create(training->tokenizer, &training->chat, error);
    if (status != EITP_ERROR_ARGUMENT || eitp_tokenizer_chat_template(training->tokenizer, NULL))
        return status;
    return eitp__fail(error, EITP_ERROR_ARGUMENT,
                      "the data are conversations, but the tokenizer has no chat template; name a "
                      "file, or chatml, as chat_template");
}

EITP__PRIVATE eitp_status eitp__open_conversations(eitp_training *training, eitp_error *error) {
    eitp__sample_config config = EITP__ZERO;
    eitp_status status = eitp__open_chat(training, error);
    if (status)
        return status;
    eitp__training_follow_tokenizer(training);
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

#endif
