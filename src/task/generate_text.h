/* Text generation: encodes and feeds a prompt, draws tokens, and passes on their text. */
#ifndef EITP_GENERATE_TEXT_H
#define EITP_GENERATE_TEXT_H

#include "model/model.h"
#include "text/text.h"

EITP_BEGIN_DECLARATIONS

/* Options of text generation. Start from eitp_generate_config_default(), then set `piece`. */
typedef struct eitp_generate_config {
    eitp_sampling sampling; /* `vocabulary` 0: the tokenizer's size */
    int64_t max_tokens;     /* maximum number of tokens to generate, 0 or more */
    eitp_token_ids ends;    /* additional tokens that end the text, such as eitp_chat_end_of_turn */
    int keeps_cache;        /* nonzero: does not feed again the part of the prompt that is in the generator's cache */
    /* Receives the generated text, without the prompt, in pieces of whole UTF-8 characters as they are generated.
       `text` is valid during the call, and size > 0. A nonzero result ends the text (EITP_GENERATED_STOPPED). */
    int (*piece)(void *user, const char *text, size_t size);
    void *user;
} eitp_generate_config;

/* Up to 64 tokens, drawn with eitp_sampling_default(); no `piece`. */
EITP_API eitp_generate_config eitp_generate_config_default(void);

/* Reason why generation ended. */
typedef enum eitp_generate_end {
    EITP_GENERATED_MAX_TOKENS = 0,  /* max_tokens tokens were generated */
    EITP_GENERATED_END_OF_TEXT = 1, /* the model drew a token that ends the text */
    EITP_GENERATED_STOPPED = 2      /* `piece` returned nonzero */
} eitp_generate_end;

typedef struct eitp_generate_report {
    eitp_generate_end end;
    int64_t prompt_tokens; /* tokens of the prompt, at least 1 */
    int64_t prompt_cut;    /* tokens cut from the start of the prompt, which the model did not see */
    int64_t prompt_fed;    /* tokens of the prompt that were fed; the others were in the cache, or cut */
    int64_t tokens;        /* generated tokens, without the one that ended the text */
    int lost_beginning;    /* 1: the cache was full, and the end was generated without the start of the text */
} eitp_generate_report;

/*
 * Generates the continuation of a prompt of `size` bytes. The prompt may be NULL if size is 0; an empty prompt is the
 * tokenizer's end-of-text. Generation ends at the tokenizer's end-of-text, at a token of the model's config.end
 * (eos_token_id of generation_config.json), or at a token of config->ends. The generator is reset first, unless
 * config->keeps_cache is set, and can be used again for other prompts. Its capacity limits how much text the model
 * sees:
 *   - Of a longer prompt, only the last capacity - 1 tokens are fed.
 *   - Whenever the cache is full, it is reset and fed the second half of its tokens.
 * Bytes that are not valid UTF-8 become U+FFFD, one for each maximal subpart of an ill-formed sequence. So does a
 * character that is incomplete at the end of the text. The text of a token is what it adds to the tokens before it, so
 * WordPiece words are separated by spaces. The same seed gives the same text.
 *
 * EITP_ERROR_ARGUMENT if an argument or `piece` is NULL, max_tokens is negative, a token is outside the model's
 * vocabulary, or the prompt is empty and the tokenizer has no end-of-text. EITP_ERROR_INTERRUPTED if
 * eitp_context_set_poll stops it. Fills in *report, which may be NULL, after a failure too. Allocates the ids of the
 * prompt and of the cache, and the text of a token, through the tokenizer's host.
 */
EITP_API eitp_status eitp_generate_text(eitp_generator *generator, const eitp_tokenizer *tokenizer, const char *prompt,
                                        size_t size, const eitp_generate_config *config, eitp_generate_report *report,
                                        eitp_error *error);

/* Like eitp_generate_text, from the token ids of a prompt, for programs that encode a prompt once and use it several
   times. `ids` may be NULL if count is 0; the prompt is then end-of-text. */
EITP_API eitp_status eitp_generate(eitp_generator *generator, const eitp_tokenizer *tokenizer, const int32_t *ids,
                                   size_t count, const eitp_generate_config *config, eitp_generate_report *report,
                                   eitp_error *error);

EITP_END_DECLARATIONS

#endif
