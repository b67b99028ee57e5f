/* eitp generate: generates text with a model. */
#include "files.h"
#include "model/model.h"
#include "output.h"
#include "process.h"
#include "use/latent.h"
#include "use/trained_model.h"

#include <unistd.h>

enum { LARGEST_PROMPT = 64 << 20 };

typedef struct generating {
    option_set options;
    trained_model trained;
    eitp_generator *generator;
    int32_t *tokens; /* of the prompt */
    size_t prompt_count;
    eitp_generate_report report; /* of the last sample */
    latent_values latent;
    text_buffer prompt;
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
    else if (!isatty(STDIN_FILENO) && !options_has(o, OPTION_INTERPOLATE))
        return files_read_input(LARGEST_PROMPT, &g->prompt, error);
    return EITP_OK;
}

/* Encodes the prompt; an empty prompt becomes end-of-text. A latent-variable decoder always starts with that and does
   not see the text that it reconstructs. */
static eitp_status encode_prompt(generating *g, eitp_error *error) {
    const int has_latent = eitp_model_encoder(g->trained.model) != NULL;
    const size_t size = latent_is_known(&g->latent) ? 0 : g->prompt.size;
    size_t count = 0, begins;
    int32_t end = eitp_tokenizer_end_of_text(g->trained.tokenizer);
    eitp_status status = eitp_tokenizer_encode(g->trained.tokenizer, g->prompt.data, size, NULL, 0, &count, error);
    if (status)
        return status;
    begins = !count || has_latent;
    if (begins && end < 0)
        return command_fail(error, EITP_ERROR_ARGUMENT,
                            "--prompt is required: the tokenizer has no end-of-text to start from");
    g->prompt_count = count + begins;
    g->tokens = (int32_t *)command_allocate(g->prompt_count * sizeof *g->tokens);
    g->tokens[0] = end;
    return eitp_tokenizer_encode(g->trained.tokenizer, g->prompt.data, size, g->tokens + begins, count, &count, error);
}

static eitp_status generating_check(const trained_model *m, eitp_error *error) {
    const eitp_status status = trained_model_check_language(m, error);
    if (status)
        return status;
    if (!m->tokenizer)
        return command_fail(error, EITP_ERROR_ARGUMENT, "'%s' has no tokenizer; name one with --tokenizer",
                            m->directory);
    return model_check_tokenizer(m->tokenizer, NULL, eitp_model_vocabulary(m->model), error);
}

/* Returns the capacity of the key-value cache in tokens: prompt and text, at most the model's positions. */
static int64_t cache_capacity(const generating *g) {
    const int64_t positions = eitp_model_positions(g->trained.model);
    const int64_t tokens = options_integer(&g->options, OPTION_TOKENS), prompt = (int64_t)g->prompt_count;
    return tokens < 1 || tokens >= positions - prompt ? 0 : prompt + tokens;
}

static eitp_status generating_open(generating *g, eitp_error *error) {
    eitp_status status = latent_check(&g->options, error);
    if (status)
        return status;
    if (!options_has(&g->options, OPTION_MODEL))
        return command_fail(error, EITP_ERROR_ARGUMENT,
                            "--model is required: a model directory or an output directory");
    status = trained_model_read(&g->options, &g->trained, error);
    if (!status)
        status = generating_check(&g->trained, error);
    if (!status)
        status = read_prompt(g, error);
    if (!status)
        status = latent_open(&g->latent, &g->options, &g->trained, g->prompt.data, g->prompt.size, error);
    if (!status)
        status = encode_prompt(g, error);
    if (!status)
        status = eitp_generator_create(g->trained.model, cache_capacity(g), &g->generator, error);
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

/* Writes the prompt, with U+FFFD for invalid characters. */
static void emit_prompt(generating *g) {
    size_t at = 0;
    while (at < g->prompt.size) {
        const int length = text_utf8_length(g->prompt.data + at, g->prompt.size - at);
        if (length > 0)
            emit(g, g->prompt.data + at, (size_t)length);
        else
            emit(g, "\xEF\xBF\xBD", 3);
        at += length > 0 ? (size_t)length : length < 0 ? (size_t)-length : g->prompt.size - at;
    }
}

/* ---- Samples ---- */

static int emit_piece(void *user, const char *text, size_t size) {
    emit((generating *)user, text, size);
    return !output_flush();
}

static eitp_status generate_sample(generating *g, int64_t number, eitp_error *error) {
    const option_set *o = &g->options;
    eitp_generate_config config = eitp_generate_config_default();
    eitp_status status;
    config.sampling.temperature = latent_is_known(&g->latent) && !options_is_explicit(o, OPTION_TEMPERATURE)
                                      ? 0
                                      : options_number(o, OPTION_TEMPERATURE);
    config.sampling.top_k = (int)options_integer(o, OPTION_TOP_K);
    config.sampling.top_p = options_number(o, OPTION_TOP_P);
    config.sampling.min_p = options_number(o, OPTION_MIN_P);
    config.sampling.seed = (uint64_t)options_integer(o, OPTION_SEED) + (uint64_t)number;
    config.max_tokens = options_integer(o, OPTION_TOKENS);
    config.piece = emit_piece;
    config.user = g;
    status = latent_set(&g->latent, &g->trained, g->generator, number, config.sampling.seed, error);
    if (status)
        return status;
    return eitp_generate(g->generator, g->trained.tokenizer, g->tokens, g->prompt_count, &config, &g->report, error);
}

static void print_sample_json(generating *g, int64_t number, double seconds) {
    text_buffer t = {NULL, 0, 0};
    text_format(&t, number ? ", {" : "{");
    text_json_name(&t, "text");
    text_json_string(&t, g->written.data ? g->written.data : "", g->written.size);
    text_json_member_integer(&t, "tokens", g->report.tokens);
    text_json_member_string(&t, "stop", g->report.end == EITP_GENERATED_END_OF_TEXT ? "end-of-text" : "length");
    text_json_member_number(&t, "tokens_per_s", seconds > 0 ? (double)g->report.tokens / seconds : 0);
    text_json_name(&t, "lost_beginning");
    text_format(&t, "%s", g->report.lost_beginning ? "true" : "false");
    text_format(&t, "}");
    output_result(t.data, t.size);
    text_release(&t);
    text_release(&g->written);
}

static eitp_status generate_samples(generating *g, eitp_error *error) {
    const option_set *o = &g->options;
    int64_t samples = latent_samples(&g->latent, o), capacity = eitp_generator_remaining(g->generator);
    int json = (int)options_integer(o, OPTION_JSON), lost_beginning = 0;
    eitp_status status = EITP_OK;
    if ((int64_t)g->prompt_count >= capacity)
        output_warning("the prompt has %zu tokens but the model has %lld positions: it sees only the last %lld tokens",
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
        if (!json && options_integer(o, OPTION_ECHO) && !latent_is_known(&g->latent))
            emit_prompt(g);
        status = generate_sample(g, i, error);
        lost_beginning |= g->report.lost_beginning;
        if (!status && json)
            print_sample_json(g, i, process_time() - began);
        else if (!status)
            output_result("\n", 1);
    }
    if (!status && json)
        output_result("]}\n", 3);
    if (!status && lost_beginning)
        output_warning("the text is longer than the model's %lld positions: its end was generated without seeing its "
                       "start; use fewer --tokens or a shorter prompt",
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
    latent_release(&g.latent);
    free(g.tokens);
    text_release(&g.prompt);
    text_release(&g.written);
    options_release(&g.options);
    return code;
}
