/* Generation from text to text: a prompt is encoded and fed, tokens are drawn, and their text is passed on. */
#ifndef EITP_GENERATE_TEXT_H
#define EITP_GENERATE_TEXT_H

#include "model/model.h"
#include "text/text.h"

EITP_BEGIN_DECLARATIONS

/* How a text is generated. Start from eitp_generate_config_default(), then set `piece`. */
typedef struct eitp_generate_config {
    eitp_sampling sampling; /* `vocabulary` 0: the tokenizer's size */
    int64_t max_tokens;     /* number of tokens to generate at most, 0 or more */
    eitp_token_ids ends;    /* further tokens that end the text, such as eitp_chat_end_of_turn */
    int keeps_cache;        /* nonzero: what of the prompt the generator has in its cache is not fed again */
    /* Receives the generated text, without the prompt, in pieces of whole characters of UTF-8 as they come; `text` is
       valid during the call, and size > 0. Any result but 0 ends the text: EITP_GENERATED_STOPPED. */
    int (*piece)(void *user, const char *text, size_t size);
    void *user;
} eitp_generate_config;

/* Up to 64 tokens, drawn as eitp_sampling_default says; no `piece`. */
EITP_API eitp_generate_config eitp_generate_config_default(void);

/* Why a generated text ended. */
typedef enum eitp_generate_end {
    EITP_GENERATED_MAX_TOKENS = 0,  /* it has max_tokens tokens */
    EITP_GENERATED_END_OF_TEXT = 1, /* the model has drawn a token that ends it */
    EITP_GENERATED_STOPPED = 2      /* `piece` has ended it */
} eitp_generate_end;

typedef struct eitp_generate_report {
    eitp_generate_end end;
    int64_t prompt_tokens; /* of the prompt, at least 1 */
    int64_t prompt_cut;    /* tokens at the beginning of the prompt that the model has not seen */
    int64_t prompt_fed;    /* tokens of the prompt that were fed; the others were in the cache, or cut */
    int64_t tokens;        /* generated, without the one that ended the text */
    int lost_beginning;    /* 1: the cache was full, and the end was generated without the beginning of the text */
} eitp_generate_report;

/*
 * Generates the text that follows a prompt of `size` bytes, which may be NULL if size is 0; an empty one is the
 * tokenizer's end-of-text. It ends with the tokenizer's end-of-text, with a token of the model's config.end (the
 * eos_token_id of generation_config.json), or with one of config->ends. The generator is reset first, unless
 * config->keeps_cache is set, and may be used again for other texts; its capacity limits how much of the text the model
 * sees:
 *   - Of a prompt that is longer the last capacity - 1 tokens are fed.
 *   - When the cache is full it begins again with the second half of its tokens, as often as necessary.
 * Bytes that are not valid UTF-8 become U+FFFD, one for each maximal subpart of an ill-formed sequence, and so does a
 * character that the end of the text leaves incomplete. The text of a token is what it adds after the one before, so
 * that words of WordPiece have spaces between them. The same seed gives the same text.
 *
 * EITP_ERROR_ARGUMENT if an argument or `piece` is NULL, max_tokens is negative, a token is outside the model's
 * vocabulary, or the prompt is empty and the tokenizer has no end-of-text; EITP_ERROR_INTERRUPTED if
 * eitp_context_set_poll stops it. Fills in *report, which may be NULL, after a failure too. Allocates the ids of the
 * prompt and of the cache, and the text of a token, through the tokenizer's host.
 */
EITP_API eitp_status eitp_generate_text(eitp_generator *generator, const eitp_tokenizer *tokenizer, const char *prompt,
                                        size_t size, const eitp_generate_config *config, eitp_generate_report *report,
                                        eitp_error *error);

/* The same from the ids of a prompt, for programs that encode it once for several texts. `ids` may be NULL if count is
   0: end-of-text. */
EITP_API eitp_status eitp_generate(eitp_generator *generator, const eitp_tokenizer *tokenizer, const int32_t *ids,
                                   size_t count, const eitp_generate_config *config, eitp_generate_report *report,
                                   eitp_error *error);

EITP_END_DECLARATIONS

#endif
