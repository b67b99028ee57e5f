/* Training a tokenizer: counts the pieces of a text, trains merges on them, and builds the tokenizer. */
#include "base/log.h"
#include "base/setting_table.h"
#include "text/bpe_train.h"
#include "text/loader.h"
#include "text/special_tokens.h"

static eitp_status eitp__count_piece(void *user, const unsigned char *bytes, size_t size, int32_t id,
                                     eitp_error *error) {
    if (id >= 0 || size < 2) /* nothing to merge */
        return EITP_OK;
    return eitp__words_add((eitp__words *)user, bytes, size, error);
}

/* Special tokens of a family, and their positions. */
typedef struct eitp__trained_family {
    int family; /* EITP__FAMILY_GPT2, ... */
    int come_first;
    int32_t count;
    const char *tokens[5];
} eitp__trained_family;

/* Indexed by eitp_tokenizer_family. RoBERTa's tokens are in the order of the library `tokenizers`; its <mask> takes the
   space before it. */
static const eitp__trained_family eitp__trained_families[] = {
    {EITP__FAMILY_GPT2, 0, 1, {EITP__END_OF_TEXT}},
    {EITP__FAMILY_ROBERTA, 1, 5, {"<s>", "<pad>", "</s>", "<unk>", "<mask>"}},
};

static eitp_status eitp__count_pieces(eitp__words *words, const eitp__trained_family *family,
                                      const eitp_text_source *source, eitp_error *error) {
    eitp__added_token special[5];
    eitp__added_tokens added;
    eitp__splitter splitter;
    memset(special, 0, sizeof special);
    added.tokens = special, added.count = (size_t)family->count;
    for (size_t i = 0; i < added.count; i++) {
        special[i].bytes = (const unsigned char *)family->tokens[i];
        special[i].size = strlen(family->tokens[i]);
    }
    eitp__added_tokens_sort(&added);
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

static eitp_status eitp__set_special_tokens(eitp_tokenizer *tokenizer, const eitp__trained_family *family, size_t first,
                                            eitp_error *error) {
    eitp_status status = EITP_OK;
    for (int32_t i = 0; i < family->count && status == EITP_OK; i++) {
        const char *text = family->tokens[i];
        const int is_mask = eitp__family_token(family->family, EITP_MASK) &&
                            !strcmp(text, eitp__family_token(family->family, EITP_MASK));
        status = eitp__tokenizer_set_token(
            tokenizer, first + (size_t)i, text, strlen(text),
            EITP__TOKEN_ADDED | EITP__TOKEN_SPECIAL | (is_mask ? (unsigned)EITP__TOKEN_TAKES_LEFT : 0), error);
    }
    return status;
}

/* Sets the merges of a tokenizer whose first trained token has the id `first`. */
static void eitp__set_merges(eitp_tokenizer *tokenizer, const eitp__trained *trained, int32_t first) {
    for (size_t i = 0; i < trained->merge_count; i++) {
        tokenizer->bpe.merges[i] = trained->merges[i];
        tokenizer->bpe.merges[i].left += first;
        tokenizer->bpe.merges[i].right += first;
        tokenizer->bpe.merges[i].result += first;
    }
}

/* Sets the template of sequences. */
static eitp_status eitp__set_trained_template(eitp_tokenizer *tokenizer, eitp_error *error) {
    const int32_t ids[] = {tokenizer->special[EITP_CLASSIFIER], tokenizer->special[EITP_SEPARATOR]};
    tokenizer->is_from_vocabulary_files = ids[0] >= 0;
    return ids[0] >= 0 ? eitp__make_template(tokenizer, ids, 0, error) : EITP_OK;
}

/* Creates the tokenizer. No merge yields the text of a special token, because the splitter recognizes that first. */
static eitp_status eitp__tokenizer_from_trained(const eitp__trained *trained, const eitp__trained_family *family,
                                                eitp_tokenizer **out, eitp_error *error) {
    const size_t first = family->come_first ? (size_t)family->count : 0;
    eitp_status status;
    eitp_tokenizer *tokenizer = eitp__tokenizer_allocate(trained->host, trained->token_count + (size_t)family->count,
                                                         trained->merge_count, error);
    if (!tokenizer)
        return EITP_ERROR_MEMORY;
    tokenizer->family = family->family;
    status = eitp__set_special_tokens(tokenizer, family, family->come_first ? 0 : trained->token_count, error);
    for (size_t id = 0; id < trained->token_count && status == EITP_OK; id++)
        status = eitp__tokenizer_set_token(tokenizer, first + id, trained->text.data + trained->tokens[id].offset,
                                           trained->tokens[id].size, 0, error);
    eitp__set_merges(tokenizer, trained, (int32_t)first);
    if (status == EITP_OK)
        status = eitp__tokenizer_complete(tokenizer, error);
    if (status == EITP_OK)
        status = eitp__set_trained_template(tokenizer, error);
    if (status == EITP_OK)
        *out = tokenizer;
    else
        eitp_tokenizer_destroy(tokenizer);
    return status;
}

/* Minimum and default memory limit of training. */
#define EITP__TRAIN_MEMORY_MIN ((uint64_t)1 << 20)
#define EITP__TRAIN_MEMORY ((uint64_t)512 << 20)

#define EITP__TRAIN_SETTING(member, kind, value, min, max, choices, help)                                              \
    EITP__SETTING(eitp_tokenizer_train_config, , member, #member, kind, value, min, max, 0, REFUSED, choices, help)

static const eitp_setting eitp__tokenizer_train_settings[] = {
    EITP__TRAIN_SETTING(vocabulary_size, INTEGER, 50257, 257, EITP__VOCABULARY_LIMIT, NULL,
                        "tokens, including the 256 bytes and the special ones"),
    EITP__TRAIN_SETTING(family, CHOICE, EITP_TOKENIZER_GPT2, 0, 0, "gpt2 roberta",
                        "special tokens, and their positions in sequences"),
    EITP__TRAIN_SETTING(minimum_frequency, INTEGER, 1, 1, EITP__LARGEST_COUNT, NULL,
                        "occurrences that a pair of tokens needs to be merged"),
    EITP__TRAIN_SETTING(memory_limit, UNSIGNED, EITP__TRAIN_MEMORY, EITP__TRAIN_MEMORY_MIN, EITP__LARGEST_COUNT, NULL,
                        "approximate memory that training may use, in bytes"),
};

EITP__PRIVATE const eitp_setting *eitp__tokenizer_train_setting_table(size_t *count) {
    if (count)
        *count = EITP__COUNT(eitp__tokenizer_train_settings);
    return eitp__tokenizer_train_settings;
}

eitp_tokenizer_train_config eitp_tokenizer_train_config_default(void) {
    eitp_tokenizer_train_config config = EITP__ZERO;
    eitp__settings_reset(eitp__tokenizer_train_settings, EITP__COUNT(eitp__tokenizer_train_settings), &config);
    return config;
}

/* See eitp_tokenizer_train_size and docs/tokenizers.md. */
enum { EITP__BYTES_PER_TOKEN = 64, EITP__LARGEST_NEW_VOCABULARY = 8192 };

int32_t eitp_tokenizer_train_size(eitp_tokenizer_family family, uint64_t text_bytes) {
    const int32_t least = 256 + ((size_t)family < EITP__COUNT(eitp__trained_families)
                                     ? eitp__trained_families[family].count
                                     : eitp__trained_families[EITP_TOKENIZER_GPT2].count);
    const uint64_t learned = text_bytes / EITP__BYTES_PER_TOKEN;
    return learned < (uint64_t)(EITP__LARGEST_NEW_VOCABULARY - least) ? least + (int32_t)learned
                                                                      : EITP__LARGEST_NEW_VOCABULARY;
}

static eitp_status eitp__check_train_config(const eitp_tokenizer_train_config *config, eitp_error *error) {
    const int is_family = (size_t)config->family < EITP__COUNT(eitp__trained_families);
    const int32_t least = is_family ? 256 + eitp__trained_families[config->family].count : 0;
    if (!is_family)
        return eitp__fail(error, EITP_ERROR_ARGUMENT, "unknown tokenizer family %d", (int)config->family);
    if (config->vocabulary_size < least || (size_t)config->vocabulary_size > EITP__VOCABULARY_LIMIT)
        return eitp__fail(error, EITP_ERROR_ARGUMENT,
                          "vocabulary_size must be %ld (the bytes and special tokens) to %zu (got %ld)", (long)least,
                          EITP__VOCABULARY_LIMIT, (long)config->vocabulary_size);
    if (config->minimum_frequency < 0)
        return eitp__fail(error, EITP_ERROR_ARGUMENT, "minimum_frequency must be at least 0 (got %lld)",
                          (long long)config->minimum_frequency);
    if (config->memory_limit && config->memory_limit < EITP__TRAIN_MEMORY_MIN)
        return eitp__fail(error, EITP_ERROR_ARGUMENT,
                          "memory_limit must be 0 (the default) or at least 1048576 bytes (got %llu)",
                          (unsigned long long)config->memory_limit);
    return EITP_OK;
}

eitp_status eitp_tokenizer_train(const eitp_host *host, const eitp_tokenizer_train_config *config,
                                 const eitp_text_source *source, eitp_tokenizer **out, eitp_error *error) {
    const uint64_t limit_largest = (uint64_t)128 << 30; /* positions have 32 bits */
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
    const uint64_t limit = config->memory_limit ? config->memory_limit : EITP__TRAIN_MEMORY;
    const eitp__trained_family *family = &eitp__trained_families[config->family];
    eitp__words_init(&words, host, limit < limit_largest ? limit : limit_largest);
    status = eitp__count_pieces(&words, family, source, error);
    if (status == EITP_OK && words.dropped)
        eitp__log_line(host, EITP_LOG_WARNING,
                       "tokenizer: dropped %llu occurrences of rare pieces to stay within %llu bytes",
                       (unsigned long long)words.dropped, (unsigned long long)words.limit);
    if (status == EITP_OK) {
        status = eitp__train_merges(&trained, &words, (size_t)(config->vocabulary_size - family->count),
                                    (uint64_t)config->minimum_frequency, error);
        if (status == EITP_OK)
            status = eitp__tokenizer_from_trained(&trained, family, out, error);
        eitp__trained_release(&trained);
    }
    if (status == EITP_OK)
        eitp__log_line(host, EITP_LOG_INFO, "tokenizer: trained %ld tokens on %zu distinct pieces",
                       (long)eitp_tokenizer_size(*out), words.count);
    eitp__words_release(&words);
    return status;
}
