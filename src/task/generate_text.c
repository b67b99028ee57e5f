/* Text generation: feeding tokens, handling a full cache, and the text of each token. */
#include "task/generate_text.h"

#include "base/memory.h"
#include "base/status.h"
#include "data/utf8_repair.h"
#include "model/generate.h"
#include "model/transformer_config.h"
#include "text/tokenizer.h"

typedef struct eitp__generation {
    eitp_generator *generator;
    const eitp_tokenizer *tokenizer;
    const eitp_generate_config *config;
    eitp_sampling sampling;
    int64_t capacity; /* capacity of the cache */
    int32_t *ids;     /* [capacity + 1]: tokens in the cache, and the newest token */
    int64_t count;
    char *text; /* text of two tokens */
    size_t text_capacity;
    eitp__utf8_repair repair;
    eitp_generate_report report;
} eitp__generation;

eitp_generate_config eitp_generate_config_default(void) {
    eitp_generate_config config = EITP__ZERO;
    config.sampling = eitp_sampling_default();
    config.max_tokens = 64;
    return config;
}

/* ---- Tokens ---- */

/* Returns the maximum number of tokens to feed at once, which leaves room for one more. */
static int64_t eitp__generation_most(const eitp__generation *g) {
    return g->capacity > 1 ? g->capacity - 1 : 1;
}

/* Feeds the end of the prompt. */
static eitp_status eitp__feed_prompt(eitp__generation *g, const int32_t *ids, size_t count, eitp_error *error) {
    const int32_t end = eitp_tokenizer_end_of_text(g->tokenizer);
    if (!count && end < 0)
        return eitp__fail(error, EITP_ERROR_ARGUMENT,
                          "the prompt has no tokens, and the tokenizer has no end-of-text to start from");
    g->report.prompt_tokens = count ? (int64_t)count : 1;
    g->count = eitp__generation_most(g);
    if (g->count > g->report.prompt_tokens)
        g->count = g->report.prompt_tokens;
    g->report.prompt_cut = g->report.prompt_tokens - g->count;
    memcpy(g->ids, count ? ids + g->report.prompt_cut : &end, (size_t)g->count * sizeof *g->ids);
    const int64_t kept = eitp__generator_rewind(g->generator, g->ids, g->count);
    g->report.prompt_fed = g->count - kept;
    return eitp_generator_feed(g->generator, g->ids + kept, g->count - kept, error);
}

/* Feeds the newest token. If the cache is full, resets it and feeds the last half of its tokens. */
static eitp_status eitp__feed_newest(eitp__generation *g, eitp_error *error) {
    int64_t kept = g->capacity / 2;
    if (eitp_generator_remaining(g->generator) > 0)
        return eitp_generator_feed(g->generator, g->ids + g->count - 1, 1, error);
    g->report.lost_beginning = 1;
    eitp_generator_reset(g->generator);
    /* Random draws depend on the number of tokens fed, which restarts at 0. */
    g->sampling.seed += (uint64_t)1 << 32;
    kept = kept > 1 ? kept : 1;
    memmove(g->ids, g->ids + g->count - kept, (size_t)kept * sizeof *g->ids);
    g->count = kept;
    return eitp_generator_feed(g->generator, g->ids, kept, error);
}

/* ---- Text ---- */

/* Passes on whole characters. Stopping the text is not an error: the report tells the program. */
static eitp_status eitp__generation_pass(void *user, const char *text, size_t size, eitp_error *error) {
    eitp__generation *g = (eitp__generation *)user;
    (void)error;
    if (g->report.end != EITP_GENERATED_STOPPED && g->config->piece(g->config->user, text, size))
        g->report.end = EITP_GENERATED_STOPPED;
    return EITP_OK;
}

/* Adds the text that a token adds after the newest one; with WordPiece it depends on whether the token is the first.
   Characters whose bytes are separate tokens are assembled by the repair. */
static eitp_status eitp__generation_add_text(eitp__generation *g, int32_t token, eitp_error *error) {
    const int32_t ids[2] = {g->ids[g->count - 1], token};
    const int byte = eitp__token_byte(g->tokenizer, token);
    const char value = (char)byte;
    size_t before = 0, size = 0;
    if (byte >= 0)
        return eitp__utf8_repair_add(&g->repair, &value, 1, error);
    eitp_status status = eitp_tokenizer_decode(g->tokenizer, ids, 1, NULL, 0, &before, error);
    if (!status)
        status = eitp_tokenizer_decode(g->tokenizer, ids, 2, NULL, 0, &size, error);
    if (!status && !eitp__reserve(&g->tokenizer->host, (void **)&g->text, &g->text_capacity, size, 1))
        status = eitp__fail_memory(error, size, "the text of a token");
    if (!status)
        status = eitp_tokenizer_decode(g->tokenizer, ids, 2, g->text, size, &size, error);
    return status ? status : eitp__utf8_repair_add(&g->repair, g->text + before, size - before, error);
}

/* ---- Generating ---- */

static int eitp__generation_ends_with(const eitp__generation *g, int32_t token) {
    return token == eitp_tokenizer_end_of_text(g->tokenizer) || eitp__generator_ends_with(g->generator, token) ||
           eitp__token_ids_have(&g->config->ends, token);
}

static eitp_status eitp__generation_run(eitp__generation *g, eitp_error *error) {
    const int64_t max_tokens = g->config->max_tokens;
    eitp_status status = EITP_OK;
    while (!status && g->report.tokens < max_tokens) {
        const int32_t token = eitp_generator_sample(g->generator, &g->sampling);
        if (eitp__generation_ends_with(g, token)) {
            g->report.end = EITP_GENERATED_END_OF_TEXT;
            break;
        }
        status = eitp__generation_add_text(g, token, error);
        if (status)
            break;
        g->ids[g->count++] = token;
        g->report.tokens++;
        if (g->report.end == EITP_GENERATED_STOPPED)
            return EITP_OK;
        if (g->report.tokens < max_tokens)
            status = eitp__feed_newest(g, error);
    }
    return status ? status : eitp__utf8_repair_finish(&g->repair, error);
}

eitp_status eitp_generate(eitp_generator *generator, const eitp_tokenizer *tokenizer, const int32_t *ids, size_t count,
                          const eitp_generate_config *config, eitp_generate_report *report, eitp_error *error) {
    eitp__generation g = EITP__ZERO;
    eitp_status status;
    if (report)
        *report = g.report;
    if (!generator || !tokenizer || !config || !config->piece || (count && !ids))
        return eitp__fail_null(error, "eitp_generate",
                               "generator, tokenizer, ids with a count, config and config.piece");
    if (config->max_tokens < 0)
        return eitp__fail(error, EITP_ERROR_ARGUMENT, "max_tokens must be at least 0 (got %lld)",
                          (long long)config->max_tokens);
    g.capacity = eitp__generator_capacity(generator);
    if (!config->keeps_cache)
        eitp_generator_reset(generator);
    g.generator = generator;
    g.tokenizer = tokenizer;
    g.config = config;
    g.sampling = config->sampling;
    if (!g.sampling.vocabulary)
        g.sampling.vocabulary = eitp_tokenizer_size(tokenizer);
    eitp__utf8_repair_init(&g.repair, eitp__generation_pass, &g);
    const size_t bytes = ((size_t)g.capacity + 1) * sizeof *g.ids;
    g.ids = (int32_t *)eitp__allocate(&tokenizer->host, bytes);
    status = g.ids ? eitp__feed_prompt(&g, ids, count, error) : eitp__fail_memory(error, bytes, "the token ids");
    if (!status)
        status = eitp__generation_run(&g, error);
    if (report)
        *report = g.report;
    eitp__release(&tokenizer->host, g.ids, bytes);
    eitp__release(&tokenizer->host, g.text, g.text_capacity);
    return status;
}

eitp_status eitp_generate_text(eitp_generator *generator, const eitp_tokenizer *tokenizer, const char *prompt,
                               size_t size, const eitp_generate_config *config, eitp_generate_report *report,
                               eitp_error *error) {
    int32_t *ids = NULL;
    size_t count = 0, capacity = 0;
    eitp_status status;
    if (report)
        memset(report, 0, sizeof *report);
    if (!generator || !tokenizer || !config || (size && !prompt))
        return eitp__fail_null(error, "eitp_generate_text", "generator, tokenizer, prompt with a size, and config");
    status = eitp_tokenizer_encode(tokenizer, prompt, size, NULL, 0, &count, error);
    if (!status && !eitp__reserve(&tokenizer->host, (void **)&ids, &capacity, count, sizeof *ids))
        status = eitp__fail_memory(error, count * sizeof *ids, "the token ids of a prompt");
    if (!status)
        status = eitp_tokenizer_encode(tokenizer, prompt, size, ids, count, &count, error);
    if (!status)
        status = eitp_generate(generator, tokenizer, ids, count, config, report, error);
    eitp__release(&tokenizer->host, ids, capacity * sizeof *ids);
    return status;
}
