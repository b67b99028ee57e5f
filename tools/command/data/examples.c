#include "data/examples.h"

#include "data/data.h"
#include "files.h"

struct examples {
    const option_set *options;
    eitp_table *table; /* of --data, or NULL */
    int is_read;       /* --text was read */
};

eitp_table_config examples_config(const option_set *o, option_id id) {
    eitp_table_config config;
    memset(&config, 0, sizeof config);
    config.texts = data_texts(o, id);
    config.pair_column = options_text(o, OPTION_PAIR_COLUMN);
    config.label_column = options_text(o, OPTION_LABEL_COLUMN);
    return config;
}

static eitp_status read_text(void *user, eitp_example *example, int *is_end, eitp_error *error) {
    examples *e = (examples *)user;
    const char *text = options_text(e->options, OPTION_TEXT), *pair = options_text(e->options, OPTION_PAIR);
    (void)error;
    *is_end = e->is_read;
    if (e->is_read)
        return EITP_OK;
    memset(example, 0, sizeof *example);
    example->text.bytes = text;
    example->text.size = strlen(text);
    example->pair.bytes = pair;
    example->pair.size = pair ? strlen(pair) : 0;
    e->is_read = 1;
    return EITP_OK;
}

eitp_status examples_open(const option_set *o, int every_row, examples **opened, eitp_error *error) {
    const int has_text = options_has(o, OPTION_TEXT), has_data = options_has(o, OPTION_DATA);
    const eitp_host host = command_host();
    eitp_table_config config = examples_config(o, OPTION_DATA);
    eitp_status status = EITP_OK;
    config.every_row = every_row;
    *opened = NULL;
    if (has_text == has_data)
        return command_fail(error, EITP_ERROR_ARGUMENT,
                            has_text ? "--text and --data exclude each other; give one"
                                     : "--data is required: a table, a text file with one sample per line, or - for "
                                       "standard input; or --text");
    if (options_has(o, OPTION_PAIR) && !has_text)
        return command_fail(error, EITP_ERROR_ARGUMENT,
                            "--pair requires --text, the first text of the pair; for tables use --pair-column");
    *opened = (examples *)command_allocate(sizeof **opened);
    (*opened)->options = o;
    if (has_data)
        status = eitp_table_open(&host, &config, &(*opened)->table, error);
    return status;
}

eitp_example_source examples_source(examples *e) {
    eitp_example_source source;
    if (e->table)
        return eitp_table_source(e->table);
    source.user = e;
    source.read = read_text;
    return source;
}

void examples_close(examples *e) {
    if (!e)
        return;
    eitp_table_close(e->table);
    free(e);
}
