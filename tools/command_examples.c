#include "command_examples.h"

#include "command_files.h"

struct examples {
    const option_set *options;
    size_t next; /* of the paths of --data */
    FILE *file;  /* the current one, or NULL */
    char *line;  /* with `capacity` bytes */
    size_t capacity;
    uint64_t number; /* of the line in its file */
    int has_text;    /* --text is still to be read */
};

/* ---- Plain lines ---- */

static eitp_status open_next(examples *e, eitp_error *error) {
    const char *path = e->options->values[OPTION_DATA].texts[e->next++];
    e->file = strcmp(path, "-") ? fopen(path, "r") : stdin;
    e->number = 0;
    return e->file ? EITP_OK : files_fail(error, errno, "read", path);
}

static void close_current(examples *e) {
    if (e->file && e->file != stdin)
        fclose(e->file);
    e->file = NULL;
}

/* Reads a line without its end; *length is -1 at the end of the file. */
static eitp_status read_line(examples *e, ssize_t *length, eitp_error *error) {
    *length = getline(&e->line, &e->capacity, e->file);
    if (*length < 0 && ferror(e->file))
        return files_fail(error, errno, "read", e->options->values[OPTION_DATA].texts[e->next - 1]);
    while (*length > 0 && (e->line[*length - 1] == '\n' || e->line[*length - 1] == '\r'))
        --*length;
    e->number++;
    return EITP_OK;
}

static eitp_status read_data(examples *e, eitp_example *example, int *is_end, eitp_error *error) {
    ssize_t length = -1;
    eitp_status status = EITP_OK;
    while (length < 0 && !status) {
        if (!e->file && e->next == e->options->values[OPTION_DATA].count) {
            *is_end = 1;
            return EITP_OK;
        }
        status = e->file ? EITP_OK : open_next(e, error);
        if (!status)
            status = read_line(e, &length, error);
        if (length < 0)
            close_current(e);
    }
    if (status)
        return status;
    memset(example, 0, sizeof *example);
    example->text.bytes = e->line;
    example->text.size = (size_t)length;
    example->path = e->options->values[OPTION_DATA].texts[e->next - 1];
    example->line = e->number;
    return EITP_OK;
}

/* ---- One text ---- */

static eitp_status read_text(examples *e, eitp_example *example, int *is_end) {
    const char *text = options_text(e->options, OPTION_TEXT), *pair = options_text(e->options, OPTION_PAIR);
    *is_end = !e->has_text;
    if (!e->has_text)
        return EITP_OK;
    memset(example, 0, sizeof *example);
    example->text.bytes = text;
    example->text.size = strlen(text);
    example->pair.bytes = pair;
    example->pair.size = pair ? strlen(pair) : 0;
    e->has_text = 0;
    return EITP_OK;
}

static eitp_status read_example(void *user, eitp_example *example, int *is_end, eitp_error *error) {
    examples *e = (examples *)user;
    *is_end = 0;
    return options_has(e->options, OPTION_TEXT) ? read_text(e, example, is_end) : read_data(e, example, is_end, error);
}

eitp_status examples_open(const option_set *o, examples **opened, eitp_error *error) {
    const int has_text = options_has(o, OPTION_TEXT), has_data = options_has(o, OPTION_DATA);
    eitp_status status = EITP_OK;
    examples *e;
    *opened = NULL;
    if (has_text == has_data)
        return command_fail(error, EITP_ERROR_ARGUMENT,
                            has_text ? "--text and --data exclude each other; give one"
                                     : "--data is required: a file with a text in each line, or - for standard input; "
                                       "or --text");
    if (options_has(o, OPTION_PAIR) && !has_text)
        return command_fail(error, EITP_ERROR_ARGUMENT, "--pair needs --text, the first text of the pair");
    e = (examples *)command_allocate(sizeof *e);
    e->options = o;
    e->has_text = has_text;
    if (has_data)
        status = open_next(e, error);
    *opened = e;
    return status;
}

eitp_example_source examples_source(examples *e) {
    eitp_example_source source;
    source.user = e;
    source.read = read_example;
    return source;
}

void examples_close(examples *e) {
    if (!e)
        return;
    close_current(e);
    free(e->line);
    free(e);
}
