/* eitp tokenizer train, inspect, encode, decode. */
#include "data/data.h"
#include "files.h"
#include "model/model.h"
#include "output.h"
#include "process.h"

enum { LARGEST_INPUT = 1 << 30 };

/* ---- train ---- */

/* A text source that fails when a signal asks to stop. */
typedef struct stoppable {
    eitp_text_source source;
    double read, shown, total;
} stoppable;

static eitp_status read_stoppable(void *user, const char **piece, size_t *size, eitp_error *error) {
    stoppable *s = (stoppable *)user;
    eitp_status status;
    char line[120];
    if (process_stop_signal())
        return command_fail(error, EITP_ERROR_INTERRUPTED, "stopped by %s; no tokenizer was written",
                            process_stop_name());
    status = s->source.read(s->source.user, piece, size, error);
    if (!status)
        s->read += (double)*size;
    if (process_time() - s->shown > 0.2) {
        s->shown = process_time();
        snprintf(line, sizeof line, "reading: %s of %s", output_bytes(s->read), output_bytes(s->total));
        output_progress(line);
    }
    return status;
}

static eitp_status train_tokenizer(const option_set *o, eitp_tokenizer **tokenizer, eitp_error *error) {
    const eitp_host host = command_host();
    eitp_tokenizer_train_config config;
    eitp_text_files *files;
    eitp_text_source source;
    stoppable s;
    const eitp_text_files_config texts = data_texts(o, OPTION_DATA);
    eitp_status status = eitp_text_files_open(&host, &texts, &files, error);
    if (status)
        return status;
    memset(&config, 0, sizeof config);
    config.vocabulary_size = options_has(o, OPTION_VOCAB_SIZE) ? (int32_t)options_integer(o, OPTION_VOCAB_SIZE) : 50257;
    config.family = (eitp_tokenizer_family)options_choice(o, OPTION_FAMILY);
    config.minimum_frequency = options_integer(o, OPTION_MIN_FREQUENCY);
    s.source = eitp_text_files_source(files);
    s.read = s.shown = 0;
    s.total = (double)eitp_text_files_bytes(files);
    source.user = &s;
    source.read = read_stoppable;
    status = eitp_tokenizer_train(&host, &config, &source, tokenizer, error);
    eitp_text_files_close(files);
    return status;
}

static void print_tokenizer(const option_set *o, const eitp_tokenizer *tokenizer, const char *where) {
    text_buffer t = {NULL, 0, 0};
    int32_t size = eitp_tokenizer_size(tokenizer), end = eitp_tokenizer_end_of_text(tokenizer);
    unsigned long long fingerprint = eitp_tokenizer_fingerprint(tokenizer);
    char hexadecimal[24];
    snprintf(hexadecimal, sizeof hexadecimal, "%016llx", fingerprint);
    if (options_integer(o, OPTION_JSON)) {
        text_format(&t, "{");
        text_json_member_string(&t, "tokenizer", where);
        text_json_member_integer(&t, "tokens", size);
        text_json_member_integer(&t, "end_of_text", end);
        text_json_member_integer(&t, "begin_of_text", eitp_tokenizer_special(tokenizer, EITP_BEGIN_OF_TEXT));
        text_json_member_integer(&t, "padding", eitp_tokenizer_special(tokenizer, EITP_PADDING));
        text_json_member_integer(&t, "unknown", eitp_tokenizer_special(tokenizer, EITP_UNKNOWN));
        text_json_member_integer(&t, "classifier", eitp_tokenizer_special(tokenizer, EITP_CLASSIFIER));
        text_json_member_integer(&t, "separator", eitp_tokenizer_special(tokenizer, EITP_SEPARATOR));
        text_json_member_integer(&t, "mask", eitp_tokenizer_special(tokenizer, EITP_MASK));
        text_json_member_integer(&t, "added_to_text", eitp_tokenizer_added_count(tokenizer, 0));
        text_json_member_integer(&t, "added_to_pair", eitp_tokenizer_added_count(tokenizer, 1));
        text_json_member_integer(&t, "max_length", eitp_tokenizer_sequence_defaults(tokenizer).max_length);
        text_json_member_string(&t, "fingerprint", hexadecimal);
        text_format(&t, "}\n");
    } else {
        text_format(&t, "%s: %d tokens, end-of-text %d, fingerprint %s\n", where, (int)size, (int)end, hexadecimal);
    }
    output_result(t.data, t.size);
    text_release(&t);
}

/* A tokenizer to be trained and written. */
typedef struct training {
    const option_set *options;
    eitp_tokenizer *tokenizer;
} training;

static eitp_status fill_directory(void *user, const char *directory, eitp_error *error) {
    training *t = (training *)user;
    eitp_status status = train_tokenizer(t->options, &t->tokenizer, error);
    return status ? status : eitp_tokenizer_save(t->tokenizer, directory, error);
}

static eitp_status tokenizer_train(const option_set *o, eitp_error *error) {
    int is_token_file;
    training t;
    eitp_status status = options_require(o, OPTION_DATA, error);
    t.options = o;
    t.tokenizer = NULL;
    if (!status)
        status = options_require(o, OPTION_OUTPUT, error);
    if (!status)
        status = data_is_token_file(o, OPTION_DATA, &is_token_file, error);
    if (!status)
        status = model_create_directory(o, OPTION_OUTPUT, fill_directory, &t, error);
    if (!status) {
        output_start();
        print_tokenizer(o, t.tokenizer, options_text(o, OPTION_OUTPUT));
    }
    eitp_tokenizer_destroy(t.tokenizer);
    return status;
}

/* ---- encode ---- */

typedef struct id_printer {
    int json;
    size_t count;
} id_printer;

static eitp_status print_ids(void *user, const int32_t *ids, size_t count, eitp_error *error) {
    id_printer *printer = (id_printer *)user;
    (void)error;
    for (size_t i = 0; i < count; i++) {
        char number[24];
        int length = snprintf(number, sizeof number, "%s%d",
                              !printer->count++ ? ""
                              : printer->json   ? ", "
                                                : " ",
                              (int)ids[i]);
        output_result(number, (size_t)length);
    }
    return EITP_OK;
}

/* Reads --text, the files of --data one after the other, or standard input. */
static eitp_status read_input(const option_set *o, eitp_status (*use)(void *, const char *, size_t, eitp_error *),
                              void *user, eitp_error *error) {
    const option_value *paths = &o->values[OPTION_DATA];
    const char *given = options_text(o, OPTION_TEXT);
    eitp_status status = EITP_OK;
    if (given)
        return use(user, given, strlen(given), error);
    for (size_t i = 0; i < paths->count && !status; i++) {
        text_buffer content = {NULL, 0, 0};
        status = files_read(paths->texts[i], LARGEST_INPUT, &content, error);
        if (!status)
            status = use(user, content.data ? content.data : "", content.size, error);
        text_release(&content);
    }
    while (!paths->count && !status) {
        char piece[8192];
        size_t size = fread(piece, 1, sizeof piece, stdin);
        if (!size && ferror(stdin))
            return files_fail(error, errno, "read", "standard input");
        if (!size)
            break;
        status = use(user, piece, size, error);
    }
    return status;
}

static eitp_status encode_part(void *encoder, const char *text, size_t size, eitp_error *error) {
    return eitp_encoder_add((eitp_encoder *)encoder, text, size, error);
}

/* ---- encode --special-tokens ---- */

static eitp_status keep_part(void *text, const char *part, size_t size, eitp_error *error) {
    text_buffer *t = (text_buffer *)text;
    if (t->size + size > LARGEST_INPUT)
        return command_fail(error, EITP_ERROR_ARGUMENT, "the text exceeds 1 GiB; split it");
    text_add(t, part, size);
    return EITP_OK;
}

static void print_list(text_buffer *t, const char *name, const int32_t *values, size_t count) {
    text_format(t, "\"%s\": [", name);
    for (size_t i = 0; i < count; i++)
        text_format(t, "%s%d", i ? ", " : "", (int)values[i]);
    text_format(t, "], ");
}

static void print_sequence(const option_set *o, const int32_t *ids, const int32_t *segments,
                           const eitp_sequence_report *report) {
    text_buffer t = {NULL, 0, 0};
    if (options_integer(o, OPTION_JSON)) {
        text_format(&t, "{");
        print_list(&t, "ids", ids, report->count);
        print_list(&t, "segments", segments, report->count);
        text_format(&t, "\"count\": %zu, \"cut\": [%zu, %zu]}\n", report->count, report->cut_first, report->cut_second);
    } else {
        for (size_t i = 0; i < report->count; i++)
            text_format(&t, "%s%d", i ? " " : "", (int)ids[i]);
        text_format(&t, "\n");
        if (report->cut_first + report->cut_second)
            output_warning("%zu tokens were cut; --block-size 0 keeps them", report->cut_first + report->cut_second);
    }
    output_result(t.data, t.size);
    text_release(&t);
}

/* Returns the settings of the tokenizer's files, with options applied. */
static eitp_sequence_config sequence_config(const option_set *o, const eitp_tokenizer *tokenizer) {
    const eitp_sequence_defaults defaults = eitp_tokenizer_sequence_defaults(tokenizer);
    eitp_sequence_config config;
    memset(&config, 0, sizeof config);
    config.max_length = defaults.max_length;
    config.truncation = defaults.truncation;
    config.truncate_left = defaults.truncate_left;
    if (options_has(o, OPTION_BLOCK_SIZE))
        config.max_length = (int32_t)options_integer(o, OPTION_BLOCK_SIZE);
    if (options_has(o, OPTION_TRUNCATION)) /* in the order of eitp_truncation */
        config.truncation = (eitp_truncation)options_choice(o, OPTION_TRUNCATION);
    return config;
}

static eitp_status encode_sequence(const option_set *o, const eitp_tokenizer *tokenizer, eitp_error *error) {
    const eitp_sequence_config config = sequence_config(o, tokenizer);
    const char *pair = options_text(o, OPTION_PAIR);
    text_buffer content = {NULL, 0, 0};
    eitp_sequence_report report;
    eitp_text first, second;
    int32_t *ids = NULL, *segments = NULL;
    eitp_status status = read_input(o, keep_part, &content, error);
    first.bytes = content.data, first.size = content.size;
    second.bytes = pair, second.size = pair ? strlen(pair) : 0;
    if (!status)
        status = eitp_tokenizer_encode_sequence(tokenizer, &first, pair ? &second : NULL, &config, NULL, NULL, 0,
                                                &report, error);
    if (!status) {
        ids = (int32_t *)command_allocate(report.count * sizeof *ids + 1);
        segments = (int32_t *)command_allocate(report.count * sizeof *segments + 1);
        status = eitp_tokenizer_encode_sequence(tokenizer, &first, pair ? &second : NULL, &config, ids, segments,
                                                report.count, &report, error);
    }
    if (!status)
        print_sequence(o, ids, segments, &report);
    free(ids);
    free(segments);
    text_release(&content);
    return status;
}

/* ---- encode and decode, of plain text ---- */

static eitp_status tokenizer_encode(const option_set *o, const eitp_tokenizer *tokenizer, eitp_error *error) {
    eitp_encoder *encoder;
    id_printer printer;
    char end[48];
    eitp_status status;
    if (options_integer(o, OPTION_SPECIAL_TOKENS))
        return encode_sequence(o, tokenizer, error);
    if (options_has(o, OPTION_PAIR) || options_has(o, OPTION_BLOCK_SIZE) || options_has(o, OPTION_TRUNCATION))
        return command_fail(
            error, EITP_ERROR_ARGUMENT,
            "--pair, --block-size and --truncation require --special-tokens; without it all of one text is "
            "encoded");
    printer.json = (int)options_integer(o, OPTION_JSON);
    printer.count = 0;
    status = eitp_encoder_create(tokenizer, print_ids, &printer, &encoder, error);
    if (status)
        return status;
    if (printer.json)
        output_result("{\"ids\": [", 9);
    status = read_input(o, encode_part, encoder, error);
    if (!status)
        status = eitp_encoder_finish(encoder, error);
    snprintf(end, sizeof end, printer.json ? "], \"count\": %zu}\n" : "\n", printer.count);
    if (!status)
        output_result(end, strlen(end));
    eitp_encoder_destroy(encoder);
    return status;
}

/* Adds the ids in `text`, separated by spaces, commas or brackets. */
static eitp_status read_ids(const char *text, text_buffer *ids, eitp_error *error) {
    static const char between[] = " \t\r\n,[]";
    for (text += strspn(text, between); *text; text += strspn(text, between)) {
        char *end;
        long long id = strtoll(text, &end, 10);
        int32_t value = (int32_t)id;
        if (end == text || (*end && !strchr(between, *end)) || id < 0 || id > INT32_MAX)
            return command_fail(error, EITP_ERROR_ARGUMENT, "invalid token id '%.*s'; ids are integers from 0",
                                (int)strcspn(text, between), text);
        text_add(ids, (const char *)&value, sizeof value);
        text = end;
    }
    return EITP_OK;
}

static eitp_status print_decoded(const eitp_tokenizer *tokenizer, const text_buffer *ids, eitp_error *error) {
    const size_t count = ids->size / sizeof(int32_t);
    int32_t *values = (int32_t *)command_allocate(ids->size + 1); /* aligned */
    size_t size = 0;
    eitp_status status;
    if (ids->size)
        memcpy(values, ids->data, ids->size);
    status = eitp_tokenizer_decode(tokenizer, values, count, NULL, 0, &size, error);
    if (!status) {
        char *text = (char *)command_allocate(size + 1);
        status = eitp_tokenizer_decode(tokenizer, values, count, text, size, &size, error);
        output_result(text, size);
        free(text);
    }
    free(values);
    return status;
}

static eitp_status tokenizer_decode(const option_set *o, const eitp_tokenizer *tokenizer, eitp_error *error) {
    text_buffer content = {NULL, 0, 0}, ids = {NULL, 0, 0};
    eitp_status status = EITP_OK;
    for (size_t i = 0; i < o->positional_count && !status; i++)
        status = read_ids(o->positional[i], &ids, error);
    if (!o->positional_count)
        status = files_read_input(LARGEST_INPUT, &content, error);
    if (!status && content.data && strlen(content.data) != content.size)
        status = command_fail(error, EITP_ERROR_ARGUMENT, "standard input has a zero byte; token ids are integers");
    if (!status && content.data)
        status = read_ids(content.data, &ids, error);
    if (!status)
        status = print_decoded(tokenizer, &ids, error);
    text_release(&content);
    text_release(&ids);
    return status;
}

/* ---- The actions ---- */

static const struct {
    const char *name, *full_name;
    unsigned command;
} actions[] = {
    {"train", "tokenizer train", OPTIONS_TOKENIZER_TRAIN},
    {"inspect", "tokenizer inspect", OPTIONS_TOKENIZER_INSPECT},
    {"encode", "tokenizer encode", OPTIONS_TOKENIZER_ENCODE},
    {"decode", "tokenizer decode", OPTIONS_TOKENIZER_DECODE},
};

static eitp_status use_tokenizer(const option_set *o, eitp_error *error) {
    const char *given = options_text(o, OPTION_TOKENIZER);
    eitp_tokenizer *tokenizer = NULL;
    eitp_status status;
    if (!given)
        return command_fail(error, EITP_ERROR_ARGUMENT, "--tokenizer is required: a directory or a tokenizer.json");
    status = model_load_tokenizer(given, NULL, &tokenizer, error);
    if (!status)
        output_start();
    if (!status && o->command == OPTIONS_TOKENIZER_INSPECT)
        print_tokenizer(o, tokenizer, given);
    else if (!status)
        status = o->command == OPTIONS_TOKENIZER_ENCODE ? tokenizer_encode(o, tokenizer, error)
                                                        : tokenizer_decode(o, tokenizer, error);
    eitp_tokenizer_destroy(tokenizer);
    return status;
}

static int run_action(size_t action, int count, char **arguments) {
    option_set o;
    eitp_error error;
    int ended = 0, code = COMMAND_FINISHED;
    eitp_status status =
        options_read(&o, actions[action].full_name, actions[action].command, count, arguments, &ended, &error);
    if (!status && !ended && options_integer(&o, OPTION_PRINT_CONFIG))
        options_print(&o, (int)options_integer(&o, OPTION_JSON));
    else if (!status && !ended)
        status = o.command == OPTIONS_TOKENIZER_TRAIN ? tokenizer_train(&o, &error) : use_tokenizer(&o, &error);
    if (status)
        code = output_fail(&error);
    if (status == EITP_ERROR_INTERRUPTED && process_stop_signal())
        code = 128 + process_stop_signal();
    options_release(&o);
    return code;
}

int command_tokenizer(int count, char **arguments) {
    for (size_t i = 0; i < COMMAND_COUNT(actions) && count > 0; i++) {
        if (!strcmp(arguments[0], actions[i].name)) {
            if (actions[i].command == OPTIONS_TOKENIZER_TRAIN)
                process_catch_signals();
            return run_action(i, count - 1, arguments + 1);
        }
    }
    if (count > 0 && (!strcmp(arguments[0], "--help") || !strcmp(arguments[0], "-h"))) {
        for (size_t i = 0; i < COMMAND_COUNT(actions); i++)
            options_print_help(actions[i].full_name, actions[i].command);
        return COMMAND_FINISHED;
    }
    if (count > 0)
        output_error("unknown action '%s' (choose from train, inspect, encode, decode)", arguments[0]);
    else
        output_error("missing action (choose from train, inspect, encode, decode)");
    return COMMAND_WRONG;
}
