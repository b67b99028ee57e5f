/* Packs examples into a labelled file: encodes text, infers the kind of labels, drops repeats, writes. */
#include "data/labelled.h"

#include "base/checksum.h"
#include "base/json.h"
#include "base/little_endian.h"
#include "base/log.h"
#include "base/setting_table.h"
#include "base/unicode.h"
#include "data/labelled_writer.h"
#include "data/row_reader.h"

#include <float.h>

/* Number of bad examples that are logged, and initial capacity in tokens for an example. */
enum { EITP__LOGGED_EXAMPLES = 10, EITP__FIRST_TOKENS = 16 };

static const eitp_setting eitp__labelled_pack_settings[] = {
    EITP__SETTING(eitp_labelled_pack_config, , problem, "labels", CHOICE, EITP_PROBLEM_UNKNOWN, 0, 0, 0, REFUSED,
                  "auto single several numbers words", "kind of labels; auto: inferred from the examples"),
    EITP__SETTING(eitp_labelled_pack_config, , skip_bad, "on_bad_row", CHOICE, 0, 0, 0, 0, REFUSED, "stop skip",
                  "stop at a bad example, or skip it"),
    EITP__SETTING(eitp_labelled_pack_config, , dedup, "dedup", FLAG, 0, 0, 1, 0, REFUSED, NULL,
                  "leave out examples that repeat the text of an earlier one"),
};

EITP__PRIVATE const eitp_setting *eitp__labelled_pack_setting_table(size_t *count) {
    if (count)
        *count = EITP__COUNT(eitp__labelled_pack_settings);
    return eitp__labelled_pack_settings;
}

eitp_labelled_pack_config eitp_labelled_pack_config_default(void) {
    eitp_labelled_pack_config config = EITP__ZERO;
    eitp__settings_reset(eitp__labelled_pack_settings, EITP__COUNT(eitp__labelled_pack_settings), &config);
    config.sequence = config.second_sequence = eitp_sequence_config_default();
    return config;
}

/* One tokenizer, and how it encodes text into sequences. */
typedef struct eitp__encoding_form {
    const eitp_tokenizer *tokenizer;
    const char *member, *ordinal; /* the member of the configuration, and its name in messages */
    eitp_sequence_config sequence;
    eitp_sequence_report report; /* of the current example */
} eitp__encoding_form;

typedef struct eitp__labelled_packer {
    const eitp_host *host;
    const eitp_labelled_pack_config *config;
    eitp_labelled_pack_config conversations; /* the configuration with the label of conversations, for `config` */
    eitp__encoding_form forms[2];            /* one for each tokenizer */
    size_t form_count;
    eitp__example_labels labels;
    eitp__labelled_index index;
    eitp__sample_writer writer; /* layout.info describes the file so far */
    eitp__label_meaning meaning;
    uint64_t examples;               /* number read */
    uint64_t unknown_bytes;          /* of their text: see eitp_encoder_unknown_bytes */
    uint64_t without_targets;        /* conversations left out because they have no trained tokens */
    uint64_t cut_targets;            /* of these, the ones with an answer that was cut */
    uint64_t shortest, longest;      /* minimum and maximum tokens needed to reach the first token of an answer */
    uint64_t without_tools;          /* conversations whose tools the template leaves out */
    int32_t *ids, *segments, *words; /* of the current example; `words` is for EITP_PROBLEM_TOKENS */
    size_t id_capacity, segment_capacity, word_capacity;
} eitp__labelled_packer;

/* ---- Length ---- */

static eitp_status eitp__labelled_check_length(const eitp__encoding_form *form, eitp_error *error) {
    const eitp_sequence_config *sequence = &form->sequence;
    const int32_t added = sequence->omit_special_tokens ? 0 : eitp_tokenizer_added_count(form->tokenizer, 0);
    const int truncation = (int)sequence->truncation;
    if (truncation < EITP_TRUNCATE_LONGEST || truncation > EITP_TRUNCATE_NONE)
        return eitp__fail(error, EITP_ERROR_ARGUMENT, "unknown %s.truncation %d", form->member, truncation);
    if (sequence->max_length < 0 || (sequence->max_length && sequence->max_length <= added))
        return eitp__fail(error, EITP_ERROR_ARGUMENT,
                          "%s.max_length must be more than the %ld special tokens of a sequence (got %ld)",
                          form->member, (long)added, (long)sequence->max_length);
    return EITP_OK;
}

/* Reads the length limit from the tokenizer's files unless the caller sets one. Logs a difference. */
static eitp_status eitp__labelled_set_length(const eitp_host *host, eitp__encoding_form *form, eitp_error *error) {
    const eitp_sequence_defaults defaults = eitp_tokenizer_sequence_defaults(form->tokenizer);
    eitp_sequence_config *sequence = &form->sequence;
    if (sequence->max_length) {
        if (defaults.max_length && defaults.max_length != sequence->max_length)
            eitp__log_line(host, EITP_LOG_WARNING,
                           "the %stokenizer's truncation at %ld tokens is not applied: %ssequences may have %ld",
                           form->ordinal, (long)defaults.max_length, form->ordinal, (long)sequence->max_length);
        return eitp__labelled_check_length(form, error);
    }
    if (defaults.max_length) {
        sequence->max_length = defaults.max_length;
        sequence->truncation = defaults.truncation;
        sequence->truncate_left = defaults.truncate_left;
    } else {
        sequence->max_length = defaults.model_max_length;
    }
    if (sequence->max_length)
        eitp__log_line(host, EITP_LOG_INFO, "%ssequences have at most %ld tokens, the limit in the %stokenizer's files",
                       form->ordinal, (long)sequence->max_length, form->ordinal);
    return eitp__labelled_check_length(form, error);
}

/* Sets how text is encoded. */
static eitp_status eitp__labelled_set_forms(eitp__labelled_packer *packer, const eitp_tokenizer *tokenizer,
                                            eitp_error *error) {
    const eitp_labelled_pack_config *config = packer->config;
    const eitp__encoding_form first = {tokenizer, "sequence", "", config->sequence, EITP__ZERO};
    const eitp__encoding_form second = {config->second, "second_sequence", "second ", config->second_sequence,
                                        EITP__ZERO};
    eitp_status status = EITP_OK;
    packer->forms[0] = first;
    packer->forms[1] = second;
    packer->form_count = config->second ? 2 : 1;
    if (config->second && config->problem == EITP_PROBLEM_TOKENS)
        return eitp__fail(error, EITP_ERROR_ARGUMENT,
                          "problem is EITP_PROBLEM_TOKENS, but a file of two tokenizers cannot have token labels; "
                          "set another problem, or remove the second tokenizer");
    for (size_t i = 0; i < packer->form_count && status == EITP_OK; i++)
        status = eitp__labelled_set_length(packer->host, &packer->forms[i], error);
    return status;
}

/* ---- An example ---- */

/* Allocates memory for `needed` tokens. */
static eitp_status eitp__labelled_reserve_tokens(eitp__labelled_packer *packer, size_t needed, eitp_error *error) {
    const size_t size = sizeof(int32_t);
    if (needed > INT32_MAX)
        return eitp__fail(error, EITP_ERROR_ARGUMENT, "the sequence has %llu tokens; at most %ld are supported",
                          (unsigned long long)needed, (long)INT32_MAX);
    if (!eitp__reserve(packer->host, (void **)&packer->ids, &packer->id_capacity, needed, size) ||
        !eitp__reserve(packer->host, (void **)&packer->segments, &packer->segment_capacity, needed, size) ||
        !eitp__reserve(packer->host, (void **)&packer->words, &packer->word_capacity, needed, size))
        return eitp__fail_memory(error, 3 * needed * size, "the tokens of an example");
    return EITP_OK;
}

/* Encodes the words or the text into packer->ids from `first` on, enlarging the memory if it is too small. */
static eitp_status eitp__labelled_encode(eitp__labelled_packer *packer, eitp__encoding_form *form, size_t first,
                                         const eitp_example *example, int as_words, eitp_error *error) {
    const eitp_text *pair = example->pair.bytes ? &example->pair : NULL;
    for (;;) {
        const size_t room = packer->word_capacity - first; /* `words` is the last of the three to be enlarged */
        int32_t *ids = packer->ids + first, *segments = packer->segments + first;
        eitp_status status =
            as_words
                ? eitp_tokenizer_encode_words(form->tokenizer, example->words, example->word_count, &form->sequence,
                                              ids, segments, packer->words + first, room, &form->report, error)
                : eitp_tokenizer_encode_sequence(form->tokenizer, &example->text, pair, &form->sequence, ids, segments,
                                                 room, &form->report, error);
        if (status != EITP_OK || form->report.count <= room)
            return status;
        status = eitp__labelled_reserve_tokens(packer, first + form->report.count, error);
        if (status != EITP_OK)
            return status;
    }
}

/* Checks that an example has at least one token of its text. */
static eitp_status eitp__labelled_check_tokens(const eitp__encoding_form *form, int is_pair, eitp_error *error) {
    const eitp_sequence_report *report = &form->report;
    const int32_t added = form->sequence.omit_special_tokens ? 0 : eitp_tokenizer_added_count(form->tokenizer, is_pair);
    if (report->count > (size_t)added)
        return EITP_OK;
    if (report->cut_first || report->cut_second)
        return eitp__fail(error, EITP_ERROR_ARGUMENT,
                          "%s.max_length %ld leaves no room for text after the %ld special tokens", form->member,
                          (long)form->sequence.max_length, (long)added);
    return eitp__fail(error, EITP_ERROR_ARGUMENT, "the text is empty: it has no tokens");
}

/* Finds the first id of segment 1 according to the tokenizer's template, or the number of ids if there is one
   segment. */
static eitp_status eitp__labelled_boundary(const int32_t *segments, size_t count, size_t *boundary, eitp_error *error) {
    size_t first = 0;
    while (first < count && segments[first] == 0)
        first++;
    for (size_t i = first; i < count; i++) {
        if (segments[i] != 1)
            return eitp__fail(error, EITP_ERROR_UNSUPPORTED,
                              "the tokenizer's template gives token %llu segment %ld; a labelled file has segments 0 "
                              "and then 1",
                              (unsigned long long)i, (long)segments[i]);
    }
    *boundary = first;
    return EITP_OK;
}

/* Encodes a sequence of an example after the previous ones in *entry, and adds it to the entry. */
static eitp_status eitp__labelled_add_sequence(eitp__labelled_packer *packer, eitp__encoding_form *form,
                                               const eitp_example *example, int as_words, eitp__labelled_entry *entry,
                                               eitp_error *error) {
    const size_t first = entry->record.length;
    const eitp_sequence_report *report = &form->report;
    size_t boundary = 0;
    eitp_status status = eitp__labelled_encode(packer, form, first, example, as_words, error);
    if (status == EITP_OK)
        status = eitp__labelled_check_tokens(form, entry->is_pair, error);
    if (status == EITP_OK)
        status = eitp__labelled_boundary(packer->segments + first, report->count, &boundary, error);
    if (status == EITP_OK && packer->form_count > 1 && boundary != report->count)
        status = eitp__fail(error, EITP_ERROR_UNSUPPORTED,
                            "the tokenizer's template gives token %llu segment 1, which is reserved for the second "
                            "tokenizer; use a tokenizer that gives a single text segment 0",
                            (unsigned long long)boundary);
    if (status != EITP_OK)
        return first ? eitp__fail_prefix(error, status, "second tokenizer") : status;
    entry->record.boundary = first ? (uint32_t)first : (uint32_t)boundary;
    entry->record.length += (uint32_t)report->count;
    entry->cut += (uint32_t)(report->cut_first + report->cut_second);
    entry->cut_words += (uint32_t)report->cut_words;
    packer->unknown_bytes += report->unknown_bytes;
    return EITP_OK;
}

/* Checks an example for two tokenizers: it must not be a pair or have word labels, as words have other tokens in
   each. */
static eitp_status eitp__labelled_check_second(const eitp__labelled_packer *packer, const eitp_example *example,
                                               eitp_error *error) {
    const eitp__example_labels *labels = &packer->labels;
    if (packer->form_count == 1)
        return EITP_OK;
    if (example->pair.bytes)
        return eitp__fail(error, EITP_ERROR_ARGUMENT,
                          "the example is a pair, but with two tokenizers a sample has one text; drop the second text");
    if (labels->problem == EITP_PROBLEM_UNKNOWN && !labels->labelled && example->words && example->labels_are_list)
        return eitp__fail(error, EITP_ERROR_ARGUMENT,
                          "the words have labels, which a file of two tokenizers cannot have; drop them, or set "
                          "problem to their meaning for the whole text");
    return EITP_OK;
}

static uint64_t eitp__text_hash(const eitp_example *example) {
    unsigned char size[8];
    uint64_t hash = eitp__fnv1a(EITP__FNV_START, example->text.bytes, example->text.size);
    if (!example->pair.bytes)
        return hash;
    eitp__put_number(size, sizeof size, example->text.size);
    hash = eitp__fnv1a(hash, size, sizeof size);
    return eitp__fnv1a(hash, example->pair.bytes, example->pair.size);
}

/* Returns the values of the tokens, overwriting their words: the first token of each word has its label. */
static const uint32_t *eitp__labelled_token_values(const eitp__labelled_packer *packer, size_t count) {
    uint32_t *values = (uint32_t *)(void *)packer->words;
    for (size_t i = count; i-- > 0;) {
        const int is_first = packer->words[i] >= 0 && (!i || packer->words[i] != packer->words[i - 1]);
        values[i] = is_first ? packer->labels.numbers[packer->words[i]] : EITP__NO_LABEL;
    }
    return values;
}

/* ---- A conversation ---- */

/* Returns the weights of the tokens of a conversation, overwriting their segments. */
static float *eitp__labelled_weights(const eitp__labelled_packer *packer) {
    return (float *)(void *)packer->segments;
}

/* Encodes a conversation into packer->ids, with the weight of each token. */
static eitp_status eitp__labelled_encode_chat(eitp__labelled_packer *packer, const eitp_example *example,
                                              eitp_chat_report *report, eitp_error *error) {
#if EITP_WITHOUT_TEMPLATES
    (void)packer;
    (void)example;
    (void)report;
    return eitp__fail(error, EITP_ERROR_UNSUPPORTED,
                      "conversations: this program was built with EITP_WITHOUT_TEMPLATES");
#else
    eitp_chat_config config = packer->config->chat_config;
    config.max_length = packer->forms[0].sequence.max_length;
    for (;;) {
        eitp_status status =
            eitp_chat_encode_weights(packer->config->chat, example->text.bytes, example->text.size, &config,
                                     packer->ids, eitp__labelled_weights(packer), packer->word_capacity, report, error);
        if (status != EITP_OK || report->count <= packer->word_capacity)
            return status;
        status = eitp__labelled_reserve_tokens(packer, report->count, error);
        if (status != EITP_OK)
            return status;
    }
#endif
}

/* Returns the values of the tokens: the only label, or none; the weight of an unlabelled token is irrelevant and
   becomes 1. */
static const uint32_t *eitp__labelled_chat_values(const eitp__labelled_packer *packer, size_t count) {
    float *weights = eitp__labelled_weights(packer);
    uint32_t *values = (uint32_t *)(void *)packer->words;
    for (size_t i = 0; i < count; i++) {
        values[i] = weights[i] > 0 ? 0 : EITP__NO_LABEL;
        weights[i] = weights[i] > 0 ? weights[i] : 1;
    }
    return values;
}

static void eitp__labelled_count_without_targets(eitp__labelled_packer *packer, const eitp_chat_report *report) {
    const uint64_t needed = report->before_trained + 1;
    packer->without_targets++;
    if (report->before_trained == report->count + report->cut)
        return;
    packer->shortest = !packer->cut_targets || needed < packer->shortest ? needed : packer->shortest;
    packer->longest = needed > packer->longest ? needed : packer->longest;
    packer->cut_targets++;
}

static eitp_status eitp__labelled_pack_conversation(eitp__labelled_packer *packer, const eitp_example *example,
                                                    eitp_error *error) {
    eitp__labelled_entry entry = EITP__ZERO;
    eitp_chat_report report = EITP__ZERO;
    const uint32_t *values;
    eitp_status status = eitp__labelled_encode_chat(packer, example, &report, error);
    if (status != EITP_OK)
        return status;
    if (!report.trained) {
        eitp__labelled_count_without_targets(packer, &report);
        return EITP_OK;
    }
    packer->without_tools += report.unread_tools != 0;
    values = eitp__labelled_chat_values(packer, report.count);
    status = eitp__labelled_index_reserve(&packer->index, report.count, error);
    if (status == EITP_OK)
        status = eitp__labelled_index_add_weights(&packer->index, eitp__labelled_weights(packer), report.count, error);
    if (status != EITP_OK)
        return status;
    entry.record.first = packer->writer.layout.info.token_count;
    entry.record.text_hash = eitp__text_hash(example);
    entry.record.length = entry.record.boundary = (uint32_t)report.count;
    entry.cut = (uint32_t)report.cut;
    packer->unknown_bytes += report.unknown_bytes;
    packer->labels.labelled++;
    packer->labels.label_count += report.trained;
    status = eitp__sample_writer_add(&packer->writer, 0, packer->ids, report.count, &entry.record.crc, error);
    if (status == EITP_OK)
        eitp__labelled_index_add(&packer->index, entry, values, report.count);
    return status;
}

/* Configures the label for trained tokens. */
static eitp_status eitp__labelled_use_chat(eitp__labelled_packer *packer, eitp_error *error) {
    static const char *const names[] = {"trained"};
    const eitp_labelled_pack_config *config = packer->config;
    if (!config->chat)
        return EITP_OK;
    if (config->second || config->labels || config->problem)
        return eitp__fail(error, EITP_ERROR_ARGUMENT,
                          "conversations use one tokenizer and have no other labels: leave second, problem and "
                          "labels unset");
    packer->conversations = *config;
    packer->index.weighs_values = 1;
    packer->conversations.problem = EITP_PROBLEM_TOKENS;
    packer->conversations.labels = names;
    packer->conversations.label_count = EITP__COUNT(names);
    packer->conversations.sequence.omit_special_tokens = 1;
    packer->config = &packer->conversations;
    return EITP_OK;
}

/* ---- Writing ---- */

/* Reads the loss weight of an example. */
static eitp_status eitp__example_weight(const eitp_example *example, float *weight, eitp_error *error) {
    const char *text = example->weight.bytes;
    const size_t size = text ? eitp__utf8_trim(&text, example->weight.size) : 0;
    double value = 1;
    if (size && (!eitp__json_read_number(text, size, &value) || !(value >= 0 && value <= FLT_MAX)))
        return eitp__fail(error, EITP_ERROR_ARGUMENT, "the weight must be a number of at least 0 (got '%.*s')",
                          (int)(size < 40 ? size : 40), text);
    *weight = value > 0 ? (float)value : 0; /* avoids negative zero */
    return EITP_OK;
}

/* Adds the weight of an example, which applies to all its words. */
static eitp_status eitp__labelled_add_weight(eitp__labelled_packer *packer, float weight, int as_words, size_t length,
                                             eitp_error *error) {
    float *weights = eitp__labelled_weights(packer);
    packer->index.weighs_values = as_words;
    for (size_t i = 0; i < length && as_words; i++)
        weights[i] = weight;
    return eitp__labelled_index_add_weights(&packer->index, as_words ? weights : &weight, as_words ? length : 1, error);
}

/* Writes the ids of an example, and sets their checksum. */
static eitp_status eitp__labelled_put_ids(eitp__labelled_packer *packer, eitp__sample_record *record,
                                          eitp_error *error) {
    const int32_t *ids = packer->ids;
    eitp_status status = EITP_OK;
    for (size_t i = 0; i < packer->form_count && status == EITP_OK; i++) {
        status =
            eitp__sample_writer_add(&packer->writer, i > 0, ids, packer->forms[i].report.count, &record->crc, error);
        ids += packer->forms[i].report.count;
    }
    return status;
}

/* Packs an example. EITP_ERROR_ARGUMENT: it is bad, and nothing has changed. */
static eitp_status eitp__labelled_pack_example(eitp__labelled_packer *packer, const eitp_example *example,
                                               eitp_error *error) {
    eitp__labelled_entry entry = EITP__ZERO;
    float weight = 1;
    eitp_status status = eitp__labelled_check_second(packer, example, error);
    if (status != EITP_OK || packer->config->chat)
        return status != EITP_OK ? status : eitp__labelled_pack_conversation(packer, example, error);
    status = eitp__example_weight(example, &weight, error);
    if (status != EITP_OK)
        return status;
    const int as_words = eitp__example_labels_are_of_words(&packer->labels, example);
    entry.is_pair = example->pair.bytes != NULL && !as_words;
    for (size_t i = 0; i < packer->form_count && status == EITP_OK; i++)
        status = eitp__labelled_add_sequence(packer, &packer->forms[i], example, as_words, &entry, error);
    if (status == EITP_OK)
        status = eitp__example_labels_add(&packer->labels, example, error);
    const size_t value_count = as_words ? entry.record.length : packer->labels.count;
    if (status == EITP_OK)
        status = eitp__labelled_index_reserve(&packer->index, value_count, error);
    if (status == EITP_OK)
        status = eitp__labelled_add_weight(packer, weight, as_words, entry.record.length, error);
    if (status != EITP_OK)
        return status;
    entry.record.first = packer->writer.layout.info.token_count;
    entry.record.text_hash = eitp__text_hash(example);
    status = eitp__labelled_put_ids(packer, &entry.record, error);
    if (status == EITP_OK)
        eitp__labelled_index_add(&packer->index, entry,
                                 as_words ? eitp__labelled_token_values(packer, value_count) : packer->labels.numbers,
                                 value_count);
    return status;
}

/* Prefixes a message with the location of an example. */
static eitp_status eitp__labelled_place_error(const eitp__labelled_packer *packer, const eitp_example *example,
                                              eitp_status status, eitp_error *error) {
    if (!example->path)
        return eitp__fail_prefix(error, status, "example %llu", (unsigned long long)packer->examples);
    if (!example->line)
        return eitp__fail_prefix(error, status, "%s", example->path);
    if (!example->column)
        return eitp__fail_prefix(error, status, "%s: line %llu", example->path, (unsigned long long)example->line);
    return eitp__fail_prefix(error, status, "%s: line %llu, column %llu", example->path,
                             (unsigned long long)example->line, (unsigned long long)example->column);
}

/* Packs an example, or skips a bad one. */
static eitp_status eitp__labelled_take_example(eitp__labelled_packer *packer, const eitp_example *example,
                                               eitp_error *error) {
    eitp_error why;
    eitp_status status = eitp__labelled_pack_example(packer, example, &why);
    if (status == EITP_OK)
        return EITP_OK;
    const int is_bad = status == EITP_ERROR_ARGUMENT;
    if (is_bad)
        why.status = status = EITP_ERROR_FORMAT;
    if (status == EITP_ERROR_FORMAT || status == EITP_ERROR_UNSUPPORTED)
        eitp__labelled_place_error(packer, example, status, &why);
    if (!is_bad || !packer->config->skip_bad) {
        if (is_bad)
            eitp__fail_advice(&why, status, EITP__SKIP_ADVICE);
        if (error)
            *error = why;
        return status;
    }
    if (packer->writer.layout.info.skipped++ < EITP__LOGGED_EXAMPLES)
        eitp__log_line(packer->host, EITP_LOG_WARNING, "skipped: %s", why.message);
    return EITP_OK;
}

static eitp_status eitp__labelled_report_progress(const eitp__labelled_packer *packer, const eitp_example *example,
                                                  eitp_error *error) {
    const eitp_labelled_pack_config *config = packer->config;
    eitp_labelled_progress progress;
    if (!config->progress)
        return EITP_OK;
    progress.path = example->path;
    progress.line = example->line;
    progress.examples = packer->examples;
    progress.ids = packer->writer.layout.info.token_count;
    if (config->progress(config->user, &progress))
        return eitp__fail(error, EITP_ERROR_INTERRUPTED,
                          "packing was stopped after %llu examples; no labelled file was written",
                          (unsigned long long)packer->examples);
    return EITP_OK;
}

/* ---- All examples ---- */

/* Returns the sequence settings as stored in a header: flags are 0 or 1. */
static eitp_sequence_config eitp__labelled_stored_sequence(const eitp__encoding_form *form) {
    eitp_sequence_config sequence = form->sequence;
    sequence.truncate_left = sequence.truncate_left != 0;
    sequence.omit_special_tokens = sequence.omit_special_tokens != 0;
    return sequence;
}

static eitp_status eitp__labelled_pack_begin(eitp__labelled_packer *packer, const eitp_tokenizer *tokenizer,
                                             const char *output_path, eitp_error *error) {
    const eitp__encoding_form *forms = packer->forms;
    eitp_sample_file_info *info = &packer->writer.layout.info;
    eitp_status status = eitp__partial_file_check(packer->host, output_path, "labelled file", error);
    if (status == EITP_OK)
        status = eitp__labelled_set_forms(packer, tokenizer, error);
    if (status == EITP_OK)
        status = eitp__example_labels_init(&packer->labels, packer->host, packer->config, error);
    if (status == EITP_OK)
        status = eitp__labelled_reserve_tokens(packer, EITP__FIRST_TOKENS, error);
    if (status == EITP_OK)
        status = eitp__sample_writer_open(&packer->writer, packer->host, output_path, EITP_SAMPLE_FILE_LABELLED,
                                          eitp_tokenizer_size(tokenizer), eitp_tokenizer_size(packer->config->second),
                                          error);
    info->tokenizer_fingerprint = eitp_tokenizer_fingerprint(tokenizer);
    info->sequence = eitp__labelled_stored_sequence(&forms[0]);
    info->second_fingerprint = eitp_tokenizer_fingerprint(packer->config->second);
    if (packer->form_count > 1)
        info->second_sequence = eitp__labelled_stored_sequence(&forms[1]);
    info->dedup = packer->config->dedup != 0;
    return status;
}

static eitp_status eitp__labelled_pack_all(eitp__labelled_packer *packer, const eitp_example_source *source,
                                           eitp_error *error) {
    for (;;) {
        eitp_example example = EITP__ZERO;
        int is_end = 0;
        eitp_status status = source->read(source->user, &example, &is_end, error);
        if (status != EITP_OK || is_end)
            return status;
        packer->examples++;
        status = eitp__labelled_take_example(packer, &example, error);
        if (status == EITP_OK)
            status = eitp__labelled_report_progress(packer, &example, error);
        if (status != EITP_OK)
            return status;
    }
}

/* Logs the conversations that were left out: those without an answer, and those whose answers were cut. */
static void eitp__labelled_warn_targets(const eitp__labelled_packer *packer) {
    const uint64_t silent = packer->without_targets - packer->cut_targets;
    if (silent)
        eitp__log_line(packer->host, EITP_LOG_WARNING,
                       "skipped %llu of %llu conversations, which have no answer to train on",
                       (unsigned long long)silent, (unsigned long long)packer->examples);
    if (packer->cut_targets)
        eitp__log_line(packer->host, EITP_LOG_WARNING,
                       "skipped %llu of %llu conversations, which have no answer before they are cut at %ld tokens; "
                       "a sequence.max_length of %llu would reach %s",
                       (unsigned long long)packer->cut_targets, (unsigned long long)packer->examples,
                       (long)packer->forms[0].sequence.max_length, (unsigned long long)packer->longest,
                       packer->cut_targets == 1 ? "it" : "them");
}

/* Fails because no conversation has trained tokens. */
static eitp_status eitp__labelled_fail_targets(const eitp__labelled_packer *packer, eitp_error *error) {
    if (!packer->cut_targets)
        return eitp__fail(error, EITP_ERROR_ARGUMENT,
                          "no conversation has an answer to train on; answers are messages with the role assistant");
    if (packer->shortest == packer->longest)
        return eitp__fail(error, EITP_ERROR_ARGUMENT,
                          "no conversation has an answer before it is cut at %ld tokens; a sequence.max_length of "
                          "%llu would reach the answers",
                          (long)packer->forms[0].sequence.max_length, (unsigned long long)packer->longest);
    return eitp__fail(
        error, EITP_ERROR_ARGUMENT,
        "no conversation has an answer before it is cut at %ld tokens; a sequence.max_length of %llu would reach the "
        "first answer, and one of %llu all of them",
        (long)packer->forms[0].sequence.max_length, (unsigned long long)packer->shortest,
        (unsigned long long)packer->longest);
}

/* Numbers the labels, counts repeats and drops them. */
static eitp_status eitp__labelled_pack_decide(eitp__labelled_packer *packer, eitp_error *error) {
    eitp_sample_file_info *info = &packer->writer.layout.info;
    if (info->skipped > EITP__LOGGED_EXAMPLES)
        eitp__log_line(packer->host, EITP_LOG_WARNING, "skipped %llu of %llu examples, the first %d of them above",
                       (unsigned long long)info->skipped, (unsigned long long)packer->examples,
                       (int)EITP__LOGGED_EXAMPLES);
    eitp__warn_unknown_bytes(packer->host, packer->unknown_bytes);
    if (!packer->examples)
        return eitp__fail(error, EITP_ERROR_ARGUMENT, "no examples found; give data with at least one");
    eitp__labelled_warn_targets(packer);
    if (packer->without_tools)
        eitp__log_line(packer->host, EITP_LOG_WARNING,
                       "%llu of %llu conversations have tools, which the chat template never reads: they are left out",
                       (unsigned long long)packer->without_tools, (unsigned long long)packer->examples);
    if (packer->without_targets == packer->examples)
        return eitp__labelled_fail_targets(packer, error);
    if (!packer->index.count)
        return eitp__fail(error, EITP_ERROR_ARGUMENT, "all %llu examples are bad and were skipped; see the log",
                          (unsigned long long)packer->examples);
    eitp_status status = eitp__example_labels_finish(&packer->labels, &packer->meaning, error);
    if (status != EITP_OK)
        return status;
    info->problem = packer->meaning.problem;
    info->row_rules = info->problem != EITP_PROBLEM_UNKNOWN;
    info->label_count = packer->meaning.label_count;
    eitp__labelled_index_set_values(&packer->index, &packer->meaning);
    status = eitp__labelled_index_repeats(&packer->index, info, error);
    if (status == EITP_OK && !packer->index.count)
        return eitp__fail(error, EITP_ERROR_ARGUMENT,
                          "no sample is left: the text of each of the %llu examples occurs with different labels",
                          (unsigned long long)info->ambiguous);
    eitp__labelled_index_count(&packer->index, info);
    return status;
}

static void eitp__labelled_packer_release(eitp__labelled_packer *packer) {
    eitp__label_meaning_release(&packer->meaning);
    eitp__sample_writer_release(&packer->writer);
    eitp__labelled_index_release(&packer->index);
    eitp__example_labels_release(&packer->labels);
    eitp__release(packer->host, packer->ids, packer->id_capacity * sizeof *packer->ids);
    eitp__release(packer->host, packer->segments, packer->segment_capacity * sizeof *packer->segments);
    eitp__release(packer->host, packer->words, packer->word_capacity * sizeof *packer->words);
}

eitp_status eitp_labelled_pack(const eitp_host *host, const eitp_tokenizer *tokenizer,
                               const eitp_labelled_pack_config *config, const eitp_example_source *source,
                               const char *output_path, eitp_sample_file_info *info, eitp_error *error) {
    eitp__labelled_packer packer;
    if (!host || !tokenizer || !config || !source || !source->read || !output_path)
        return eitp__fail_null(error, "eitp_labelled_pack", "host, tokenizer, config, source and output_path");
    memset(&packer, 0, sizeof packer);
    packer.host = host;
    packer.config = config;
    eitp__labelled_index_init(&packer.index, host);
    eitp_status status = eitp__labelled_use_chat(&packer, error);
    if (status == EITP_OK)
        status = eitp__labelled_pack_begin(&packer, tokenizer, output_path, error);
    if (status == EITP_OK)
        status = eitp__labelled_pack_all(&packer, source, error);
    if (status == EITP_OK)
        status = eitp__labelled_pack_decide(&packer, error);
    if (status == EITP_OK)
        status = eitp__labelled_writer_finish(&packer.writer, &packer.index, &packer.meaning.names, error);
    if (status == EITP_OK && info)
        *info = packer.writer.layout.info;
    eitp__labelled_packer_release(&packer);
    return status;
}
