/* Sequences for models: one or two texts, truncated, with the special tokens of a template around them. */
#include "base/setting_table.h"
#include "text/sequence.h"
#include "text/tokenizer.h"

#define EITP__SEQUENCE_SETTING(member, kind, max, choices, help)                                                       \
    EITP__SETTING(eitp_sequence_config, , member, #member, kind, 0, 0, max, 0, REFUSED, choices, help)

static const eitp_setting eitp__sequence_settings[] = {
    EITP__SEQUENCE_SETTING(max_length, INTEGER, INT32_MAX, NULL,
                           "maximum tokens of a sequence, including special tokens; 0: any length"),
    EITP__SEQUENCE_SETTING(truncation, CHOICE, 0, "longest first second none",
                           "which text of a pair loses tokens if a sequence is too long"),
    EITP__SEQUENCE_SETTING(truncate_left, FLAG, 1, NULL, "cut tokens at the start of a text, not at its end"),
    EITP__SEQUENCE_SETTING(omit_special_tokens, FLAG, 1, NULL, "omit the special tokens around a text"),
};

EITP__PRIVATE const eitp_setting *eitp__sequence_setting_table(size_t *count) {
    if (count)
        *count = EITP__COUNT(eitp__sequence_settings);
    return eitp__sequence_settings;
}

eitp_sequence_config eitp_sequence_config_default(void) {
    eitp_sequence_config config = EITP__ZERO;
    eitp__settings_reset(eitp__sequence_settings, EITP__COUNT(eitp__sequence_settings), &config);
    return config;
}

EITP__PRIVATE int eitp__template_add(eitp__template *form, int32_t id, int32_t segment) {
    if (form->count == EITP__TEMPLATE_LIMIT)
        return 0;
    form->pieces[form->count].id = id;
    form->pieces[form->count++].segment = segment;
    return 1;
}

EITP__PRIVATE size_t eitp__template_special_count(const eitp__template *form) {
    size_t count = 0;
    for (size_t i = 0; i < form->count; i++)
        count += form->pieces[i].id >= 0;
    return count;
}

EITP__PRIVATE void eitp__truncate_pair(size_t room, size_t *first, size_t *second) {
    size_t *shorter = *first <= *second ? first : second;
    size_t *longer = shorter == first ? second : first;
    if (*shorter <= room / 2) {
        *longer = room - *shorter;
        return;
    }
    *shorter = room / 2;
    *longer = room - room / 2;
}

eitp_sequence_defaults eitp_tokenizer_sequence_defaults(const eitp_tokenizer *tokenizer) {
    const eitp_sequence_defaults none = EITP__ZERO;
    return tokenizer ? tokenizer->defaults : none;
}

int32_t eitp_tokenizer_added_count(const eitp_tokenizer *tokenizer, int pair) {
    return tokenizer ? (int32_t)eitp__template_special_count(pair ? &tokenizer->pair : &tokenizer->single) : 0;
}

/* Ids of one text, and the number that are kept. */
typedef struct eitp__text_ids {
    const eitp_host *host;
    int32_t *ids;
    size_t count, capacity;
    size_t kept;
    int32_t *words; /* word of each id, for text passed as words */
    size_t word_capacity;
    uint64_t unknown_bytes;
} eitp__text_ids;

static eitp_status eitp__text_ids_add(void *user, const int32_t *ids, size_t count, eitp_error *error) {
    eitp__text_ids *text = (eitp__text_ids *)user;
    if (!eitp__reserve(text->host, (void **)&text->ids, &text->capacity, text->count + count, sizeof *ids))
        return eitp__fail_memory(error, (text->count + count) * sizeof *ids, "the tokens of a text");
    memcpy(text->ids + text->count, ids, count * sizeof *ids);
    text->count = text->kept = text->count + count;
    return EITP_OK;
}

static eitp_status eitp__text_ids_encode(const eitp_tokenizer *tokenizer, const eitp_text *text, eitp__text_ids *out,
                                         eitp_error *error) {
    eitp_encoder *encoder;
    eitp_status status =
        eitp__encoder_allocate(tokenizer, eitp__cache_size(text->size), eitp__text_ids_add, out, &encoder, error);
    if (status != EITP_OK)
        return status;
    status = eitp_encoder_add(encoder, text->bytes, text->size, error);
    if (status == EITP_OK)
        status = eitp_encoder_finish(encoder, error);
    out->unknown_bytes = eitp_encoder_unknown_bytes(encoder);
    eitp_encoder_destroy(encoder);
    return status;
}

/* Encodes one word and ends the encoder's text. */
static eitp_status eitp__text_ids_add_word(eitp__text_ids *text, eitp_encoder *encoder, const eitp_text *word,
                                           int32_t number, eitp_error *error) {
    const size_t first = text->count;
    eitp_status status = eitp_encoder_add(encoder, word->bytes, word->size, error);
    if (status == EITP_OK)
        status = eitp_encoder_finish(encoder, error);
    if (status != EITP_OK)
        return status;
    if (!eitp__reserve(text->host, (void **)&text->words, &text->word_capacity, text->count, sizeof *text->words))
        return eitp__fail_memory(error, text->count * sizeof *text->words, "the words of a text");
    for (size_t i = first; i < text->count; i++)
        text->words[i] = number;
    return EITP_OK;
}

static eitp_status eitp__text_ids_encode_words(const eitp_tokenizer *tokenizer, const eitp_text *words, size_t count,
                                               eitp__text_ids *out, eitp_error *error) {
    eitp_encoder *encoder;
    size_t size = 0;
    for (size_t i = 0; i < count; i++)
        size += words[i].size;
    eitp_status status =
        eitp__encoder_allocate(tokenizer, eitp__cache_size(size), eitp__text_ids_add, out, &encoder, error);
    if (status != EITP_OK)
        return status;
    eitp__encoder_add_spaces(encoder);
    for (size_t i = 0; i < count && status == EITP_OK; i++)
        status = eitp__text_ids_add_word(out, encoder, &words[i], (int32_t)i, error);
    out->unknown_bytes = eitp_encoder_unknown_bytes(encoder);
    eitp_encoder_destroy(encoder);
    return status;
}

static void eitp__text_ids_release(eitp__text_ids *text) {
    eitp__release(text->host, text->ids, text->capacity * sizeof *text->ids);
    eitp__release(text->host, text->words, text->word_capacity * sizeof *text->words);
}

/* Cuts `excess` tokens from one text. */
static eitp_status eitp__cut_one(eitp__text_ids *text, size_t excess, const char *which, eitp_error *error) {
    if (text->count <= excess)
        return eitp__fail(error, EITP_ERROR_ARGUMENT,
                          "cutting %zu of the %zu tokens of the %s text would leave none; cut the longest text, "
                          "or allow longer sequences",
                          excess, text->count, which);
    text->kept = text->count - excess;
    return EITP_OK;
}

/* Decides how many tokens of each text are kept. `added` is the number of special tokens in the sequence. */
static eitp_status eitp__truncate(const eitp_sequence_config *config, size_t added, eitp__text_ids texts[2], int pair,
                                  eitp_error *error) {
    const size_t length = (size_t)config->max_length, total = texts[0].count + texts[1].count;
    if (!length || added + total <= length)
        return EITP_OK;
    if (length < added)
        return eitp__fail(
            error, EITP_ERROR_ARGUMENT,
            "sequences of at most %zu tokens have no room for the %zu special tokens; allow longer sequences", length,
            added);
    const size_t room = length - added;
    if (!room && config->truncation != EITP_TRUNCATE_NONE) { /* as in transformers */
        texts[0].kept = texts[1].kept = 0;
        return EITP_OK;
    }
    switch (config->truncation) {
    case EITP_TRUNCATE_LONGEST:
        if (pair)
            eitp__truncate_pair(room, &texts[0].kept, &texts[1].kept);
        else
            texts[0].kept = room;
        return EITP_OK;
    case EITP_TRUNCATE_FIRST:
        return eitp__cut_one(&texts[0], total - room, "first", error);
    case EITP_TRUNCATE_SECOND:
        return eitp__cut_one(&texts[1], total - room, "second", error);
    default:
        return eitp__fail(error, EITP_ERROR_ARGUMENT,
                          "the sequence has %zu tokens, more than the limit of %zu; shorten the text, allow longer "
                          "sequences, or allow truncation",
                          added + total, length);
    }
}

/* Output of a sequence. */
typedef struct eitp__sequence {
    int32_t *ids, *segments, *words;
    size_t capacity, count;
} eitp__sequence;

/* Adds ids. `words` is NULL if they belong to no word. */
static void eitp__sequence_add(eitp__sequence *sequence, const int32_t *ids, const int32_t *words, size_t count,
                               int32_t segment) {
    for (size_t i = 0; i < count && sequence->count + i < sequence->capacity; i++) {
        if (sequence->ids)
            sequence->ids[sequence->count + i] = ids[i];
        if (sequence->segments)
            sequence->segments[sequence->count + i] = segment;
        if (sequence->words)
            sequence->words[sequence->count + i] = words ? words[i] : -1;
    }
    sequence->count += count;
}

/* Returns the index of the first id of a text that is kept. */
static size_t eitp__first_kept(const eitp_sequence_config *config, const eitp__text_ids *text) {
    return config->truncate_left ? text->count - text->kept : 0;
}

static void eitp__sequence_fill(eitp__sequence *sequence, const eitp__template *form,
                                const eitp_sequence_config *config, const eitp__text_ids texts[2]) {
    for (size_t i = 0; i < form->count; i++) {
        const eitp__template_piece *piece = &form->pieces[i];
        if (piece->id >= 0) {
            eitp__sequence_add(sequence, &piece->id, NULL, config->omit_special_tokens ? 0 : 1, piece->segment);
            continue;
        }
        const eitp__text_ids *text = &texts[piece->id == EITP__TEMPLATE_FIRST ? 0 : 1];
        const size_t first = eitp__first_kept(config, text);
        if (text->kept)
            eitp__sequence_add(sequence, text->ids + first, text->words ? text->words + first : NULL, text->kept,
                               piece->segment);
    }
}

/* Counts the words that keep no id. */
static size_t eitp__cut_words(const eitp_sequence_config *config, const eitp__text_ids *text) {
    const size_t first = eitp__first_kept(config, text), end = first + text->kept;
    size_t cut = 0;
    for (size_t i = 0; i < text->count && text->words; i++) {
        const int begins = !i || text->words[i] != text->words[i - 1];
        const int ends = i + 1 == text->count || text->words[i] != text->words[i + 1];
        cut += (size_t)(i < first ? ends : i >= end && begins);
    }
    return cut;
}

static eitp_status eitp__sequence_check(const char *function, const eitp_sequence_config *config, eitp_error *error) {
    const int truncation = (int)config->truncation;
    if (config->max_length < 0 || truncation < EITP_TRUNCATE_LONGEST || truncation > EITP_TRUNCATE_NONE)
        return eitp__fail(error, EITP_ERROR_ARGUMENT,
                          "%s: max_length %ld and truncation %d must be at least 0 and one of eitp_truncation",
                          function, (long)config->max_length, truncation);
    return EITP_OK;
}

/* Truncates the encoded text, stores it in its template, and fills in the report. */
static eitp_status eitp__sequence_finish(eitp__sequence *sequence, const eitp__template *form, int pair,
                                         const eitp_sequence_config *config, eitp__text_ids texts[2],
                                         eitp_sequence_report *report, eitp_error *error) {
    const size_t added = config->omit_special_tokens ? 0 : eitp__template_special_count(form);
    eitp_status status = eitp__truncate(config, added, texts, pair, error);
    if (status != EITP_OK)
        return status;
    eitp__sequence_fill(sequence, form, config, texts);
    report->count = sequence->count;
    report->cut_first = texts[0].count - texts[0].kept;
    report->cut_second = texts[1].count - texts[1].kept;
    report->cut_words = eitp__cut_words(config, &texts[0]);
    report->unknown_bytes = texts[0].unknown_bytes + texts[1].unknown_bytes;
    return EITP_OK;
}

eitp_status eitp_tokenizer_encode_sequence(const eitp_tokenizer *tokenizer, const eitp_text *first,
                                           const eitp_text *second, const eitp_sequence_config *config, int32_t *ids,
                                           int32_t *segments, size_t capacity, eitp_sequence_report *report,
                                           eitp_error *error) {
    const eitp_sequence_config whole = eitp_sequence_config_default();
    eitp__sequence sequence = {ids, segments, NULL, capacity, 0};
    eitp__text_ids texts[2] = EITP__ZERO;
    if (!tokenizer || !first || !report)
        return eitp__fail_null(error, "eitp_tokenizer_encode_sequence", "tokenizer, first and report");
    memset(report, 0, sizeof *report);
    if ((first->size && !first->bytes) || (second && second->size && !second->bytes))
        return eitp__fail_null(error, "eitp_tokenizer_encode_sequence", "texts with a size");
    config = config ? config : &whole;
    const eitp__template *form = second ? &tokenizer->pair : &tokenizer->single;
    eitp_status status = eitp__sequence_check("eitp_tokenizer_encode_sequence", config, error);
    texts[0].host = texts[1].host = &tokenizer->host;
    if (status == EITP_OK)
        status = eitp__text_ids_encode(tokenizer, first, &texts[0], error);
    if (status == EITP_OK && second)
        status = eitp__text_ids_encode(tokenizer, second, &texts[1], error);
    if (status == EITP_OK)
        status = eitp__sequence_finish(&sequence, form, second != NULL, config, texts, report, error);
    eitp__text_ids_release(&texts[0]);
    eitp__text_ids_release(&texts[1]);
    return status;
}

eitp_status eitp_tokenizer_encode_words(const eitp_tokenizer *tokenizer, const eitp_text *words, size_t count,
                                        const eitp_sequence_config *config, int32_t *ids, int32_t *segments,
                                        int32_t *word_of, size_t capacity, eitp_sequence_report *report,
                                        eitp_error *error) {
    const eitp_sequence_config whole = eitp_sequence_config_default();
    eitp__sequence sequence = {ids, segments, word_of, capacity, 0};
    eitp__text_ids texts[2] = EITP__ZERO;
    if (!tokenizer || (count && !words) || !report)
        return eitp__fail_null(error, "eitp_tokenizer_encode_words", "tokenizer, words and report");
    memset(report, 0, sizeof *report);
    for (size_t i = 0; i < count; i++) {
        if (words[i].size && !words[i].bytes)
            return eitp__fail_null(error, "eitp_tokenizer_encode_words", "words with a size");
    }
    if (count > INT32_MAX)
        return eitp__fail(error, EITP_ERROR_ARGUMENT, "a text has %zu words; at most %ld are supported", count,
                          (long)INT32_MAX);
    config = config ? config : &whole;
    eitp_status status = eitp__sequence_check("eitp_tokenizer_encode_words", config, error);
    texts[0].host = texts[1].host = &tokenizer->host;
    if (status == EITP_OK)
        status = eitp__text_ids_encode_words(tokenizer, words, count, &texts[0], error);
    if (status == EITP_OK)
        status = eitp__sequence_finish(&sequence, &tokenizer->single, 0, config, texts, report, error);
    eitp__text_ids_release(&texts[0]);
    return status;
}
