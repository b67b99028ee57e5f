/* eitp tokenizer train, inspect, encode, decode. */
#include "command_data.h"
#include "command_files.h"
#include "command_model.h"
#include "command_output.h"
#include "command_process.h"

enum { LARGEST_INPUT = 1 << 30 };

/* ---- train ---- */

/* A text source that ends with an error once a signal asks to stop. */
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
    eitp_status status = eitp_text_files_open(&host, (const char *const *)o->values[OPTION_DATA].texts,
                                              o->values[OPTION_DATA].count, 0, &files, error);
    if (status)
        return status;
    memset(&config, 0, sizeof config);
    config.vocabulary_size = options_has(o, OPTION_VOCAB_SIZE) ? (int32_t)options_integer(o, OPTION_VOCAB_SIZE) : 50257;
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
        text_json_member_string(&t, "fingerprint", hexadecimal);
        text_format(&t, "}\n");
    } else {
        text_format(&t, "%s: %d tokens, end-of-text %d, fingerprint %s\n", where, (int)size, (int)end, hexadecimal);
    }
    output_result(t.data, t.size);
    text_release(&t);
}

static eitp_status tokenizer_train(const option_set *o, eitp_error *error) {
    const char *directory = options_text(o, OPTION_OUTPUT);
    eitp_tokenizer *tokenizer = NULL;
    int is_token_file, created = 0;
    eitp_status status = options_require(o, OPTION_DATA, error);
    if (!status)
        status = options_require(o, OPTION_OUTPUT, error);
    if (status)
        return status;
    if (model_has_tokenizer(directory))
        return command_fail(error, EITP_ERROR_ARGUMENT, "'%s' already has a tokenizer; choose another --output",
                            directory);
    status = data_is_token_file(o, OPTION_DATA, &is_token_file, error);
    if (!status)
        status = files_create_directories(directory, &created, error);
    if (!status)
        status = files_check_writable(directory, error);
    if (!status)
        status = train_tokenizer(o, &tokenizer, error);
    if (!status)
        status = eitp_tokenizer_save(tokenizer, directory, error);
    if (status)
        files_remove_directories(directory, created);
    if (!status) {
        output_start();
        print_tokenizer(o, tokenizer, directory);
    }
    eitp_tokenizer_destroy(tokenizer);
    return status;
}

/* ---- encode and decode ---- */

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

/* Encodes --text, the files of --data one after the other, or standard input. */
static eitp_status encode_input(const option_set *o, eitp_encoder *encoder, eitp_error *error) {
    const option_value *paths = &o->values[OPTION_DATA];
    const char *given = options_text(o, OPTION_TEXT);
    eitp_status status = EITP_OK;
    if (given)
        status = eitp_encoder_add(encoder, given, strlen(given), error);
    for (size_t i = 0; i < paths->count && !given && !status; i++) {
        text_buffer content = {NULL, 0, 0};
        status = files_read(paths->texts[i], LARGEST_INPUT, &content, error);
        if (!status)
            status = eitp_encoder_add(encoder, content.data ? content.data : "", content.size, error);
        text_release(&content);
    }
    while (!given && !paths->count && !status) {
        char piece[65536];
        size_t size = fread(piece, 1, sizeof piece, stdin);
        if (!size && ferror(stdin))
            return files_fail(error, errno, "read", "standard input");
        if (!size)
            break;
        status = eitp_encoder_add(encoder, piece, size, error);
    }
    return status ? status : eitp_encoder_finish(encoder, error);
}

static eitp_status tokenizer_encode(const option_set *o, const eitp_tokenizer *tokenizer, eitp_error *error) {
    eitp_encoder *encoder;
    id_printer printer;
    char end[48];
    eitp_status status;
    printer.json = (int)options_integer(o, OPTION_JSON);
    printer.count = 0;
    status = eitp_encoder_create(tokenizer, print_ids, &printer, &encoder, error);
    if (status)
        return status;
    if (printer.json)
        output_result("{\"ids\": [", 9);
    status = encode_input(o, encoder, error);
    snprintf(end, sizeof end, printer.json ? "], \"count\": %zu}\n" : "\n", printer.count);
    if (!status)
        output_result(end, strlen(end));
    eitp_encoder_destroy(encoder);
    return status;
}

/* Prints the tokens whose ids a text has, separated by spaces, commas or brackets. */
static eitp_status decode_text(const eitp_tokenizer *tokenizer, const char *ids, eitp_error *error) {
    static const char between[] = " \t\r\n,[]";
    for (ids += strspn(ids, between); *ids; ids += strspn(ids, between)) {
        const char *bytes;
        size_t size;
        char *end;
        eitp_status status;
        long long id = strtoll(ids, &end, 10);
        if (end == ids || (*end && !strchr(between, *end)) || id < 0 || id > INT32_MAX)
            return command_fail(error, EITP_ERROR_ARGUMENT, "invalid token id '%.*s'; ids are integers from 0",
                                (int)strcspn(ids, between), ids);
        status = eitp_tokenizer_token(tokenizer, (int32_t)id, &bytes, &size, error);
        if (status)
            return status;
        output_result(bytes, size);
        ids = end;
    }
    return EITP_OK;
}

static eitp_status tokenizer_decode(const option_set *o, const eitp_tokenizer *tokenizer, eitp_error *error) {
    text_buffer content = {NULL, 0, 0};
    eitp_status status = EITP_OK;
    for (size_t i = 0; i < o->positional_count && !status; i++)
        status = decode_text(tokenizer, o->positional[i], error);
    if (!o->positional_count)
        status = files_read_input(LARGEST_INPUT, &content, error);
    if (!status && content.data && strlen(content.data) != content.size)
        status = command_fail(error, EITP_ERROR_ARGUMENT, "standard input has a zero byte; token ids are integers");
    if (!status && content.data)
        status = decode_text(tokenizer, content.data, error);
    text_release(&content);
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
    return output_finish(code);
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
        return output_finish(COMMAND_FINISHED);
    }
    if (count > 0)
        output_error("unknown action '%s' (choose from train, inspect, encode, decode)", arguments[0]);
    else
        output_error("missing action (choose from train, inspect, encode, decode)");
    return COMMAND_WRONG;
}
