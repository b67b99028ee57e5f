/* Reading the files of a recipe. */
#include "data/row_reader.h"
#include "data/sample_header.h"
#include "recipe/training.h"

/* True if .json files in directories are tables. A trained model has a task without a setting, so plain text remains
   plain text unless that task learns from rows. */
static int eitp__reads_json_rows(const eitp_training *training) {
    const int needs_rows = training->trained && training->kind && training->kind->kind >= EITP_TASK_CLASSIFICATION;
    return training->task_setting != EITP_TASK_AUTO || needs_rows || eitp__has_chat_setting(training);
}

EITP__PRIVATE eitp_text_files_config eitp__part_texts(const eitp_training *training, eitp_split split) {
    const eitp_data_recipe *data = &training->recipe.data;
    eitp_text_files_config texts = EITP__ZERO;
    texts.paths = training->parts[split].paths->texts;
    texts.path_count = training->parts[split].paths->count;
    texts.format = data->format;
    texts.encoding = data->encoding;
    texts.text_column = data->text_column;
    texts.delimiter = data->delimiter;
    texts.document_separator = data->document_separator;
    texts.skip_bad = data->skip_bad;
    texts.json_rows = eitp__reads_json_rows(training);
    texts.strict_utf8 = data->strict_utf8;
    texts.input = data->input;
    return texts;
}

EITP__PRIVATE eitp_table_config eitp__part_table(const eitp_training *training, eitp_split split) {
    eitp_table_config table = EITP__ZERO;
    table.texts = eitp__part_texts(training, split);
    table.pair_column = training->recipe.data.pair_column;
    table.label_column = training->recipe.data.label_column;
    table.weight_column = training->recipe.data.weight_column;
    return table;
}

EITP__PRIVATE int eitp__part_has_rows(const eitp_training *training, eitp_split split) {
    const eitp_text_list *paths = training->parts[split].paths;
    const eitp_text_format format = training->recipe.data.format;
    for (size_t i = 0; i < paths->count && format == EITP_FORMAT_AUTO; i++) {
        if (eitp__format_of_name(paths->texts[i], EITP_FORMAT_TEXT) != EITP_FORMAT_TEXT)
            return 1;
    }
    return format > EITP_FORMAT_TEXT;
}

/* ---- Token files ---- */

/* Sets *is_one to 1 if a file starts like either kind of token file, complete or not. */
static eitp_status eitp__starts_as_token_file(const eitp_host *host, const char *path, int *is_one, eitp_error *error) {
    eitp__file file = EITP__ZERO;
    unsigned char bytes[EITP__SAMPLE_MAGIC_SIZE];
    eitp_sample_file_kind kind;
    size_t done = 0;
    eitp_status status = eitp__file_open(&file, host, path, EITP_FILE_READ, error);
    if (!status)
        status = eitp__file_read_some(&file, 0, bytes, sizeof bytes, &done, error);
    *is_one = !status && eitp__sample_kind_of(bytes, done, &kind) && kind != EITP_SAMPLE_FILE_LABELLED;
    eitp__file_close(&file, NULL);
    return status;
}

EITP__PRIVATE eitp_status eitp__part_is_token_file(const eitp_training *training, eitp_split split, int *is_token_file,
                                                   eitp_error *error) {
    const eitp_text_list *paths = training->parts[split].paths;
    *is_token_file = 0;
    for (size_t i = 0; i < paths->count; i++) {
        eitp_path_kind kind = EITP_PATH_MISSING;
        eitp_status status = EITP_OK;
        int is_one = 0;
        if (strcmp(paths->texts[i], "-"))
            status = eitp__recipe_path_kind(&training->host, paths->texts[i], NULL, &kind, error);
        if (!status && kind == EITP_PATH_FILE)
            status = eitp__starts_as_token_file(&training->host, paths->texts[i], &is_one, error);
        if (status)
            return status;
        *is_token_file |= is_one;
        if (is_one && paths->count > 1)
            return eitp__fail(error, EITP_ERROR_ARGUMENT,
                              "'%s' is a token file, which must be the only path of %s; to add text, pack all of it "
                              "into one file",
                              paths->texts[i], split == EITP_TRAINING ? "data" : "val_data");
    }
    return EITP_OK;
}
