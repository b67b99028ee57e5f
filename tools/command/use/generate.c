/* eitp generate: generates text with a model. */
#include "files.h"
#include "model/model.h"
#include "output.h"
#include "process.h"
#include "use/trained_model.h"

#include <unistd.h>

enum { LARGEST_PROMPT = 64 << 20 };

typedef struct generating {
    option_set options;
    trained_model trained;
    eitp_generator *generator;
    int32_t *tokens; /* of the prompt, then generated ones */
    size_t prompt_count, count, capacity;
    int has_slid; /* the model no longer sees the beginning of the sample's text */
    text_buffer prompt;
    text_buffer bytes;   /* of an incomplete character */
    text_buffer written; /* for --json: the text of a sample */
} generating;

static eitp_status read_prompt(generating *g, eitp_error *error) {
    const option_set *o = &g->options;
    const char *given = options_text(o, OPTION_PROMPT), *file = options_text(o, OPTION_PROMPT_FILE);
    if (given && file)
        return command_fail(error, EITP_ERROR_ARGUMENT, "--prompt and --prompt-file cannot be used together");
    text_add(&g->prompt, "", 0);
    if (given)
        text_add(&g->prompt, given, strlen(given));
    else if (file)
        return files_read(file, LARGEST_PROMPT, &g->prompt, error);
    else if (!isatty(STDIN_FILENO))
        return files_read_input(LARGEST_PROMPT, &g->prompt, error);
    return EITP_OK;
}

static void add_token(generating *g, int32_t token) {
    if (g->count == g->capacity) {
        g->capacity = 2 * g->capacity + 64;
        g->tokens = (int32_t *)command_resize(g->tokens, g->capacity * sizeof *g->tokens);
    }
    g->tokens[g->count++] = token;
}

/* The prompt's tokens; for an empty prompt, end-of-text. */
static eitp_status encode_prompt(generating *g, eitp_error *error) {
    size_t count = 0;
    int32_t end = eitp_tokenizer_end_of_text(g->trained.tokenizer);
    eitp_status status =
        eitp_tokenizer_encode(g->trained.tokenizer, g->prompt.data, g->prompt.size, NULL, 0, &count, error);
    if (status)
        return status;
    if (!count && end < 0)
        return command_fail(error, EITP_ERROR_ARGUMENT,
                            "--prompt is required: the tokenizer has no end-of-text to start from");
    if (!count) {
        add_token(g, end);
    } else {
        g->capacity = g->count = count;
        g->tokens = (int32_t *)command_allocate(count * sizeof *g->tokens);
        status = eitp_tokenizer_encode(g->trained.tokenizer, g->prompt.data, g->prompt.size, g->tokens, count, &count,
                                       error);
    }
    g->prompt_count = g->count;
    return status;
}

static eitp_status generating_check(void *user, eitp_error *error) {
    const trained_model *m = &((const generating *)user)->trained;
    eitp_status status = trained_model_check_language(m, error);
    if (status)
        return status;
    if (!m->tokenizer)
        return command_fail(error, EITP_ERROR_ARGUMENT, "'%s' has no tokenizer; name one with --tokenizer",
                            m->directory);
    return model_check_tokenizer(m->tokenizer, NULL, eitp_model_vocabulary(m->model), error);
}

static eitp_status generating_open(generating *g, eitp_error *error) {
    eitp_status status;
    if (!options_has(&g->options, OPTION_MODEL))
        return command_fail(error, EITP_ERROR_ARGUMENT,
                            "--model is required: a model directory or an output directory");
    status = trained_model_open(&g->options, &g->trained, generating_check, g, error);
    if (!status)
        status = read_prompt(g, error);
    if (!status)
        status = encode_prompt(g, error);
    if (!status)
        status = eitp_generator_create(g->trained.model, 0, &g->generator, error);
    return status;
}

/* ---- Writing text ---- */

static void emit(generating *g, const char *data, size_t size) {
    if (options_integer(&g->options, OPTION_JSON)) {
        text_add(&g->written, data, size);
        return;
    }
    output_result(data, size);
    output_flush();
}

/* Writes complete characters; at the end, U+FFFD for an incomplete one. */
static void emit_characters(generating *g, const char *data, size_t size, int is_end) {
    size_t at = 0;
    text_add(&g->bytes, data, size);
    while (at < g->bytes.size) {
        int length = text_utf8_length(g->bytes.data + at, g->bytes.size - at);
        if (!length && !is_end)
            break;
        if (length > 0)
            emit(g, g->bytes.data + at, (size_t)length);
        else
            emit(g, "\xEF\xBF\xBD", 3);
        at += length > 0 ? (size_t)length : length < 0 ? (size_t)-length : g->bytes.size - at;
    }
    memmove(g->bytes.data, g->bytes.data + at, g->bytes.size - at);
    g->bytes.size -= at;
}

/* ---- Samples ---- */

/* Feeds the last `count` tokens, or as many as leave room for one more. */
static eitp_status feed_last(generating *g, size_t count, eitp_error *error) {
    size_t room = (size_t)eitp_generator_remaining(g->generator), most = room > 1 ? room - 1 : 1;
    if (count > most)
        count = most;
    return eitp_generator_feed(g->generator, g->tokens + g->count - count, (int64_t)count, error);
}

/* Feeds the newest token. If the cache is full, it starts again with the last half of its tokens. */
static eitp_status feed_next(generating *g, eitp_sampling *sampling, eitp_error *error) {
    size_t half;
    if (eitp_generator_remaining(g->generator) > 0)
        return eitp_generator_feed(g->generator, g->tokens + g->count - 1, 1, error);
    g->has_slid = 1;
    eitp_generator_reset(g->generator);
    half = (size_t)eitp_generator_remaining(g->generator) / 2;
    /* Random draws depend on the number of tokens fed, which starts again. */
    sampling->seed += (uint64_t)1 << 32;
    return feed_last(g, half > 1 ? half : 1, error);
}

/* Emits what a token adds to the text after the newest one. With WordPiece that depends on whether a token is first. */
static eitp_status emit_token(generating *g, int32_t token, eitp_error *error) {
    const eitp_tokenizer *tokenizer = g->trained.tokenizer;
    const int32_t tokens[] = {g->tokens[g->count - 1], token};
    size_t before = 0, size = 0;
    char *text = NULL;
    eitp_status status = eitp_tokenizer_decode(tokenizer, tokens, 1, NULL, 0, &before, error);
    if (!status)
        status = eitp_tokenizer_decode(tokenizer, tokens, 2, NULL, 0, &size, error);
    if (!status) {
        text = (char *)command_allocate(size + 1);
        status = eitp_tokenizer_decode(tokenizer, tokens, 2, text, size, &size, error);
    }
    if (!status)
        emit_characters(g, text + before, size - before, 0);
    free(text);
    return status;
}

static eitp_status generate_sample(generating *g, int64_t number, const char **stop, eitp_error *error) {
    const option_set *o = &g->options;
    int64_t most = options_integer(o, OPTION_TOKENS);
    int32_t end = eitp_tokenizer_end_of_text(g->trained.tokenizer);
    eitp_sampling sampling = eitp_sampling_default();
    eitp_status status;
    sampling.temperature = options_number(o, OPTION_TEMPERATURE);
    sampling.top_k = (int)options_integer(o, OPTION_TOP_K);
    sampling.top_p = options_number(o, OPTION_TOP_P);
    sampling.vocabulary = eitp_tokenizer_size(g->trained.tokenizer);
    sampling.seed = (uint64_t)options_integer(o, OPTION_SEED) + (uint64_t)number;
    g->count = g->prompt_count;
    g->has_slid = 0;
    eitp_generator_reset(g->generator);
    *stop = "length";
    status = feed_last(g, g->count, error);
    for (int64_t i = 0; i < most && !status && output_flush(); i++) {
        int32_t token = eitp_generator_sample(g->generator, &sampling);
        if (token == end) {
            *stop = "end-of-text";
            break;
        }
        status = emit_token(g, token, error);
        add_token(g, token);
        if (!status && i + 1 < most)
            status = feed_next(g, &sampling, error);
    }
    if (!status)
        emit_characters(g, "", 0, 1);
    return status;
}

static void print_sample_json(generating *g, int64_t number, const char *stop, double seconds) {
    text_buffer t = {NULL, 0, 0};
    int64_t generated = (int64_t)(g->count - g->prompt_count);
    text_format(&t, number ? ", {" : "{");
    text_json_name(&t, "text");
    text_json_string(&t, g->written.data ? g->written.data : "", g->written.size);
    text_json_member_integer(&t, "tokens", generated);
    text_json_member_string(&t, "stop", stop);
    text_json_member_number(&t, "tokens_per_s", seconds > 0 ? (double)generated / seconds : 0);
    text_json_name(&t, "lost_beginning");
    text_format(&t, "%s", g->has_slid ? "true" : "false");
    text_format(&t, "}");
    output_result(t.data, t.size);
    text_release(&t);
    text_release(&g->written);
}

static eitp_status generate_samples(generating *g, eitp_error *error) {
    const option_set *o = &g->options;
    int64_t samples = options_integer(o, OPTION_SAMPLES), capacity = eitp_generator_remaining(g->generator);
    int json = (int)options_integer(o, OPTION_JSON), has_slid = 0;
    eitp_status status = EITP_OK;
    if ((int64_t)g->prompt_count >= capacity)
        output_warning("the prompt has %zu tokens, and the model has %lld positions: it sees only the last %lld tokens",
                       g->prompt_count, (long long)capacity, (long long)(capacity > 1 ? capacity - 1 : 1));
    if (json) {
        text_buffer t = {NULL, 0, 0};
        text_format(&t, "{\"prompt\": ");
        text_json_string(&t, g->prompt.data, g->prompt.size);
        text_format(&t, ", \"prompt_tokens\": %zu, \"samples\": [", g->prompt_count);
        output_result(t.data, t.size);
        text_release(&t);
    }
    for (int64_t i = 0; i < samples && !status && output_flush(); i++) {
        double began = process_time();
        const char *stop;
        if (!json && options_integer(o, OPTION_ECHO))
            emit_characters(g, g->prompt.data, g->prompt.size, 1);
        status = generate_sample(g, i, &stop, error);
        has_slid |= g->has_slid;
        if (!status && json)
            print_sample_json(g, i, stop, process_time() - began);
        else if (!status)
            output_result("\n", 1);
    }
    if (!status && json)
        output_result("]}\n", 3);
    if (!status && has_slid)
        output_warning("the text is longer than the model's %lld positions: its end was generated without its "
                       "beginning; use fewer --tokens or a shorter prompt",
                       (long long)capacity);
    return status;
}

int command_generate(int count, char **arguments) {
    generating g;
    eitp_error error;
    int ended = 0, code = COMMAND_FINISHED;
    eitp_status status;
    memset(&g, 0, sizeof g);
    status = options_read(&g.options, "generate", OPTIONS_GENERATE, count, arguments, &ended, &error);
    if (!status && !ended && options_integer(&g.options, OPTION_PRINT_CONFIG)) {
        options_print(&g.options, (int)options_integer(&g.options, OPTION_JSON));
        ended = 1;
    }
    if (!status && !ended) {
        status = generating_open(&g, &error);
        if (!status) {
            output_start();
            status = generate_samples(&g, &error);
        }
    }
    if (status)
        code = output_fail(&error);
    eitp_generator_destroy(g.generator);
    trained_model_close(&g.trained);
    free(g.tokens);
    text_release(&g.prompt);
    text_release(&g.bytes);
    text_release(&g.written);
    options_release(&g.options);
    return code;
}
