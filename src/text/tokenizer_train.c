/* Training a tokenizer: counts the pieces of a text, trains merges on them, and builds the tokenizer. */
#include "base/log.h"
#include "text/bpe_train.h"
#include "text/tokenizer.h"

static eitp_status eitp__count_piece(void *user, const unsigned char *bytes, size_t size, int32_t id,
                                     eitp_error *error) {
    if (id >= 0 || size < 2) /* nothing to merge */
        return EITP_OK;
    return eitp__words_add((eitp__words *)user, bytes, size, error);
}

static eitp_status eitp__count_pieces(eitp__words *words, const eitp_text_source *source, eitp_error *error) {
    eitp__added_token end_of_text = EITP__ZERO;
    eitp__added_tokens added;
    eitp__splitter splitter;
    added.tokens = &end_of_text, added.count = 1;
    end_of_text.bytes = (const unsigned char *)EITP__END_OF_TEXT;
    end_of_text.size = strlen(EITP__END_OF_TEXT);
    eitp__splitter_init(&splitter, words->host, &added, eitp__piece_size, eitp__count_piece, words);
    eitp_status status = EITP_OK;
    while (status == EITP_OK) {
        const char *text = NULL;
        size_t size = 0;
        status = source->read(source->user, &text, &size, error);
        if (status == EITP_OK)
            status = text && size ? eitp__splitter_add(&splitter, (const unsigned char *)text, size, error)
                                  : eitp__splitter_finish(&splitter, error);
        if (!text)
            break;
    }
    eitp__splitter_release(&splitter);
    return status;
}

/* No merge yields the text of <|endoftext|>, because the splitter recognizes that first. */
static eitp_status eitp__tokenizer_from_trained(const eitp__trained *trained, eitp_tokenizer **out, eitp_error *error) {
    eitp_status status = EITP_OK;
    eitp_tokenizer *tokenizer =
        eitp__tokenizer_allocate(trained->host, trained->token_count + 1, trained->merge_count, error);
    if (!tokenizer)
        return EITP_ERROR_MEMORY;
    for (size_t id = 0; id < trained->token_count && status == EITP_OK; id++)
        status = eitp__tokenizer_set_token(tokenizer, id, trained->text.data + trained->tokens[id].offset,
                                           trained->tokens[id].size, 0, error);
    if (status == EITP_OK)
        status = eitp__tokenizer_set_token(tokenizer, trained->token_count, EITP__END_OF_TEXT,
                                           strlen(EITP__END_OF_TEXT), EITP__TOKEN_ADDED | EITP__TOKEN_SPECIAL, error);
    if (status == EITP_OK) {
        if (trained->merge_count)
            memcpy(tokenizer->bpe.merges, trained->merges, trained->merge_count * sizeof *trained->merges);
        status = eitp__tokenizer_complete(tokenizer, error);
    }
    if (status == EITP_OK)
        *out = tokenizer;
    else
        eitp_tokenizer_destroy(tokenizer);
    return status;
}

static eitp_status eitp__check_train_config(const eitp_tokenizer_train_config *config, eitp_error *error) {
    if (config->vocabulary_size < 257 || (size_t)config->vocabulary_size > EITP__VOCABULARY_LIMIT)
        return eitp__fail(error, EITP_ERROR_ARGUMENT, "vocabulary_size must be 257 (the bytes and %s) to %zu (got %ld)",
                          EITP__END_OF_TEXT, EITP__VOCABULARY_LIMIT, (long)config->vocabulary_size);
    if (config->minimum_frequency < 0)
        return eitp__fail(error, EITP_ERROR_ARGUMENT, "minimum_frequency must be at least 0 (got %lld)",
                          (long long)config->minimum_frequency);
    if (config->memory_limit && config->memory_limit < 1048576)
        return eitp__fail(error, EITP_ERROR_ARGUMENT,
                          "memory_limit must be 0 (the default) or at least 1048576 bytes (got %llu)",
                          (unsigned long long)config->memory_limit);
    return EITP_OK;
}

eitp_status eitp_tokenizer_train(const eitp_host *host, const eitp_tokenizer_train_config *config,
                                 const eitp_text_source *source, eitp_tokenizer **out, eitp_error *error) {
    const uint64_t limit_default = (uint64_t)512 << 20,
                   limit_largest = (uint64_t)128 << 30; /* positions have 32 bits */
    eitp__words words;
    eitp__trained trained;
    if (!host || !config || !source || !out)
        return eitp__fail_null(error, "eitp_tokenizer_train", "host, config, source and out");
    if (!source->read)
        return eitp__fail_null(error, "eitp_tokenizer_train", "source->read");
    *out = NULL;
    eitp_status status = eitp__check_train_config(config, error);
    if (status != EITP_OK)
        return status;
    const uint64_t limit = config->memory_limit ? config->memory_limit : limit_default;
    eitp__words_init(&words, host, limit < limit_largest ? limit : limit_largest);
    status = eitp__count_pieces(&words, source, error);
    if (status == EITP_OK && words.dropped)
        eitp__log(host, EITP_LOG_WARNING,
                  "tokenizer: dropped %llu occurrences of rare pieces to stay within %llu bytes",
                  (unsigned long long)words.dropped, (unsigned long long)words.limit);
    if (status == EITP_OK) {
        status = eitp__train_merges(&trained, &words, (size_t)config->vocabulary_size - 1,
                                    (uint64_t)config->minimum_frequency, error);
        if (status == EITP_OK)
            status = eitp__tokenizer_from_trained(&trained, out, error);
        eitp__trained_release(&trained);
    }
    if (status == EITP_OK)
        eitp__log(host, EITP_LOG_INFO, "tokenizer: trained %ld tokens on %zu distinct pieces",
                  (long)eitp_tokenizer_size(*out), words.count);
    eitp__words_release(&words);
    return status;
}
