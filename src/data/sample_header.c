#include "data/sample_header.h"

#include "base/checksum.h"
#include "base/little_endian.h"
#include "base/status.h"

enum { EITP__LLMC_MAGIC = 20240520, EITP__LLMC_VERSION = 1, EITP__LLMC_HEADER_SIZE = 1024 };
enum { EITP__SAMPLE_AT_VERSION = 8, EITP__SAMPLE_AT_CRC = EITP__SAMPLE_HEADER_SIZE - 4 };

/* Labelled files have the first version that can express them: 2 adds token labels, 3 a second tokenizer, 4 weights,
   and row rules. */
enum { EITP__LABELLED_TOKENS_VERSION = 2, EITP__LABELLED_SECOND_VERSION = 3, EITP__LABELLED_RULES_VERSION = 4 };

/* A number in the header. */
typedef struct eitp__sample_field {
    size_t member, member_size; /* in eitp__sample_layout */
    unsigned char at, size;     /* in the file */
    uint64_t min, max;
    const char *what;
    uint32_t version; /* the first with the field; in a file of an earlier one it is 0 */
} eitp__sample_field;

#define EITP__SAMPLE_FIELD_SINCE(version, member, at, size, min, max, what)                                            \
    {                                                                                                                  \
        offsetof(eitp__sample_layout, member), sizeof(((eitp__sample_layout *)0)->member), at, size, min, max, what,   \
            version                                                                                                    \
    }
#define EITP__SAMPLE_FIELD(member, at, size, min, max, what)                                                           \
    EITP__SAMPLE_FIELD_SINCE(1, member, at, size, min, max, what)
#define EITP__SECOND_FIELD(member, at, size, min, max, what)                                                           \
    EITP__SAMPLE_FIELD_SINCE(EITP__LABELLED_SECOND_VERSION, member, at, size, min, max, what)
#define EITP__RULES_FIELD(member, at, size, min, max, what)                                                            \
    EITP__SAMPLE_FIELD_SINCE(EITP__LABELLED_RULES_VERSION, member, at, size, min, max, what)

static const eitp__sample_field eitp__token_fields[] = {
    EITP__SAMPLE_FIELD(info.element_size, 12, 4, 2, 4, "size of an id"),
    EITP__SAMPLE_FIELD(info.token_count, 16, 8, 0, UINT64_MAX, "number of tokens"),
    EITP__SAMPLE_FIELD(info.document_count, 24, 8, 0, UINT64_MAX, "number of documents"),
    EITP__SAMPLE_FIELD(info.vocabulary_size, 32, 4, 1, INT32_MAX, "vocabulary"),
    EITP__SAMPLE_FIELD(info.end_of_text, 36, 4, 0, UINT32_MAX, "end-of-text id"),
    EITP__SAMPLE_FIELD(info.tokenizer_fingerprint, 40, 8, 0, UINT64_MAX, "fingerprint"),
    EITP__SAMPLE_FIELD(info.content_hash, 48, 8, 0, UINT64_MAX, "hash"),
    EITP__SAMPLE_FIELD(info.text_bytes, 56, 8, 0, UINT64_MAX, "size of the text"),
    EITP__SAMPLE_FIELD(info.invalid_bytes, 64, 8, 0, UINT64_MAX, "number of invalid bytes"),
    EITP__SAMPLE_FIELD(info.unigram_entropy, 72, 8, 0, UINT64_MAX, "unigram entropy"),
};

static const eitp__sample_field eitp__labelled_fields[] = {
    EITP__SAMPLE_FIELD(info.element_size, 12, 4, 2, 4, "size of an id"),
    EITP__SAMPLE_FIELD(info.sample_count, 16, 8, 1, EITP__MAX_SAMPLES, "number of samples"),
    EITP__SAMPLE_FIELD(info.token_count, 24, 8, 0, UINT64_MAX, "number of tokens"),
    EITP__SAMPLE_FIELD(value_count, 32, 8, 0, UINT64_MAX, "number of values"),
    EITP__SAMPLE_FIELD(names_size, 40, 8, 0, UINT64_MAX, "size of names"),
    EITP__SAMPLE_FIELD(info.tokenizer_fingerprint, 48, 8, 0, UINT64_MAX, "fingerprint"),
    EITP__SAMPLE_FIELD(info.content_hash, 56, 8, 0, UINT64_MAX, "hash"),
    EITP__SAMPLE_FIELD(info.vocabulary_size, 64, 4, 1, INT32_MAX, "vocabulary"),
    EITP__SAMPLE_FIELD(info.problem, 68, 4, 0, EITP_PROBLEM_TOKENS, "problem"),
    EITP__SAMPLE_FIELD(info.label_count, 72, 4, 0, INT32_MAX, "number of labels"),
    EITP__SAMPLE_FIELD(info.max_length, 76, 4, 1, INT32_MAX, "length of a sample"),
    EITP__SAMPLE_FIELD(info.pair_count, 80, 8, 0, UINT64_MAX, "number of pairs"),
    EITP__SAMPLE_FIELD(info.cut_samples, 88, 8, 0, UINT64_MAX, "number of cut samples"),
    EITP__SAMPLE_FIELD(info.cut_ids, 96, 8, 0, UINT64_MAX, "number of lost tokens"),
    EITP__SAMPLE_FIELD(info.skipped, 104, 8, 0, UINT64_MAX, "number of bad examples"),
    EITP__SAMPLE_FIELD(info.repeated, 112, 8, 0, UINT64_MAX, "number of repeated examples"),
    EITP__SAMPLE_FIELD(info.ambiguous, 120, 8, 0, UINT64_MAX, "number of ambiguous examples"),
    EITP__SAMPLE_FIELD(info.sequence.max_length, 128, 4, 0, INT32_MAX, "longest sequence"),
    EITP__SAMPLE_FIELD(info.sequence.truncation, 132, 4, 0, EITP_TRUNCATE_NONE, "truncation"),
    EITP__SAMPLE_FIELD(info.sequence.truncate_left, 136, 4, 0, UINT32_MAX, "truncation"),
    EITP__SAMPLE_FIELD(info.sequence.omit_special_tokens, 140, 4, 0, UINT32_MAX, "use of special tokens"),
    EITP__SAMPLE_FIELD(info.dedup, 144, 4, 0, UINT32_MAX, "use of repeated examples"),
    EITP__SAMPLE_FIELD(info.cut_words, 152, 8, 0, UINT64_MAX, "number of lost words"),
    EITP__RULES_FIELD(info.row_rules, 148, 4, 0, 1, "set of row rules"),
    EITP__SECOND_FIELD(info.second_fingerprint, 160, 8, 0, UINT64_MAX, "fingerprint of the second tokenizer"),
    EITP__SECOND_FIELD(info.second_vocabulary, 168, 4, 0, INT32_MAX, "second vocabulary"),
    EITP__SECOND_FIELD(info.max_first, 172, 4, 0, INT32_MAX, "length of a first sequence"),
    EITP__SECOND_FIELD(info.max_second, 176, 4, 0, INT32_MAX, "length of a second sequence"),
    EITP__SECOND_FIELD(info.second_sequence.max_length, 180, 4, 0, INT32_MAX, "longest second sequence"),
    EITP__SECOND_FIELD(info.second_sequence.truncation, 184, 4, 0, EITP_TRUNCATE_NONE, "second truncation"),
    EITP__SECOND_FIELD(info.second_sequence.truncate_left, 188, 4, 0, UINT32_MAX, "second truncation"),
    EITP__SECOND_FIELD(info.second_sequence.omit_special_tokens, 192, 4, 0, UINT32_MAX,
                       "use of special tokens in second sequences"),
    EITP__RULES_FIELD(weight_count, 200, 8, 0, UINT64_MAX, "number of weights"),
};

/* A kind of file that eitp writes. */
typedef struct eitp__sample_format {
    const char *magic; /* including its terminating zero */
    const char *name, *versions;
    const char *remedy; /* action that creates such a file */
    uint32_t newest;    /* version; 1 is the oldest */
    const eitp__sample_field *fields;
    size_t field_count;
} eitp__sample_format;

static const eitp__sample_format *eitp__sample_format_of(eitp_sample_file_kind kind) {
    static const eitp__sample_format tokens = {
        "EITPTOK", "token file", "1", "pack the text again", 1, eitp__token_fields, EITP__COUNT(eitp__token_fields)};
    static const eitp__sample_format labelled = {"EITPLAB",
                                                 "labelled file",
                                                 "1 to 4",
                                                 "pack the examples again",
                                                 EITP__LABELLED_RULES_VERSION,
                                                 eitp__labelled_fields,
                                                 EITP__COUNT(eitp__labelled_fields)};
    return kind == EITP_SAMPLE_FILE_LABELLED ? &labelled : &tokens;
}

EITP__PRIVATE int eitp__sample_kind_of(const unsigned char *bytes, size_t size, eitp_sample_file_kind *kind) {
    static const eitp_sample_file_kind own[] = {EITP_SAMPLE_FILE_TOKENS, EITP_SAMPLE_FILE_LABELLED};
    *kind = EITP_SAMPLE_FILE_LLMC;
    if (size >= 4 && eitp__get_number(bytes, 4) == EITP__LLMC_MAGIC)
        return 1;
    for (size_t i = 0; i < EITP__COUNT(own) && size >= EITP__SAMPLE_MAGIC_SIZE; i++) {
        *kind = own[i];
        if (!memcmp(bytes, eitp__sample_format_of(own[i])->magic, EITP__SAMPLE_MAGIC_SIZE))
            return 1;
    }
    return 0;
}

EITP__PRIVATE uint64_t eitp__token_hash(uint64_t hash, const int32_t *ids, size_t count) {
    for (size_t i = 0; i < count; i++)
        hash = (hash ^ (uint32_t)ids[i]) * 0x100000001B3u;
    return hash;
}

/* ---- Layout ---- */

EITP__PRIVATE uint64_t eitp__sample_weight_count(const eitp__sample_layout *layout) {
    return layout->info.problem == EITP_PROBLEM_TOKENS ? layout->value_count : layout->info.sample_count;
}

EITP__PRIVATE uint64_t eitp__sample_layout_place(eitp__sample_layout *layout) {
    const eitp_sample_file_info *info = &layout->info;
    const uint64_t size = info->token_count * (uint64_t)info->element_size;
    layout->ids =
        info->kind == EITP_SAMPLE_FILE_LLMC ? (uint64_t)EITP__LLMC_HEADER_SIZE : (uint64_t)EITP__SAMPLE_HEADER_SIZE;
    layout->records = layout->ids + (info->kind == EITP_SAMPLE_FILE_LABELLED ? (size + 7) / 8 * 8 : size);
    layout->values = layout->records + info->sample_count * EITP__SAMPLE_RECORD_SIZE;
    layout->weights = layout->values + layout->value_count * EITP__SAMPLE_VALUE_SIZE;
    layout->names = layout->weights + layout->weight_count * EITP__SAMPLE_VALUE_SIZE;
    return layout->names + layout->names_size;
}

/* Subtracts the size of a section from the remaining size of the file; returns 0 if there is less. */
static int eitp__sample_layout_take(uint64_t *left, uint64_t count, uint64_t size) {
    if (count > *left / size)
        return 0;
    *left -= count * size;
    return 1;
}

/* Sets the offsets of the sections, and compares the counts with the size of the file. */
static eitp_status eitp__sample_layout_check(eitp__sample_layout *layout, uint64_t file_size, eitp_error *error) {
    const eitp_sample_file_info *info = &layout->info;
    char samples[120] = "";
    uint64_t left = file_size;
    /* This cannot overflow, since each section is within the file. */
    const int is_within = eitp__sample_layout_take(&left, info->token_count, (uint64_t)info->element_size) &&
                          eitp__sample_layout_take(&left, info->sample_count, EITP__SAMPLE_RECORD_SIZE) &&
                          eitp__sample_layout_take(&left, layout->value_count, EITP__SAMPLE_VALUE_SIZE) &&
                          eitp__sample_layout_take(&left, layout->weight_count, EITP__SAMPLE_VALUE_SIZE) &&
                          eitp__sample_layout_take(&left, layout->names_size, 1);
    if (info->sample_count)
        snprintf(samples, sizeof samples, ", %llu samples, %llu values and %llu bytes of names",
                 (unsigned long long)info->sample_count, (unsigned long long)layout->value_count,
                 (unsigned long long)layout->names_size);
    if (eitp__sample_layout_place(layout) != file_size || !is_within)
        return eitp__fail(error, EITP_ERROR_FORMAT,
                          "the header has %llu tokens of %d bytes after %llu bytes%s, but the file has %llu bytes; "
                          "it is truncated or damaged: copy the file or %s",
                          (unsigned long long)info->token_count, (int)info->element_size,
                          (unsigned long long)layout->ids, samples, (unsigned long long)file_size,
                          eitp__sample_format_of(info->kind)->remedy);
    if (!info->token_count)
        return eitp__fail(error, EITP_ERROR_FORMAT, "the file has no tokens: pack the text again");
    return EITP_OK;
}

/* ---- Headers of eitp's files ---- */

EITP__PRIVATE void eitp__sample_header_unfinished(unsigned char bytes[EITP__SAMPLE_HEADER_SIZE],
                                                  eitp_sample_file_kind kind) {
    memset(bytes, 0, EITP__SAMPLE_HEADER_SIZE);
    memcpy(bytes, eitp__sample_format_of(kind)->magic, EITP__SAMPLE_MAGIC_SIZE);
}

/* Returns the first version that can express a file. */
static uint32_t eitp__sample_version_of(const eitp__sample_layout *layout) {
    const eitp_sample_file_info *info = &layout->info;
    if (info->kind != EITP_SAMPLE_FILE_LABELLED)
        return 1;
    if (info->row_rules || layout->weight_count)
        return EITP__LABELLED_RULES_VERSION;
    if (info->second_vocabulary)
        return EITP__LABELLED_SECOND_VERSION;
    return info->problem == EITP_PROBLEM_TOKENS ? EITP__LABELLED_TOKENS_VERSION : 1;
}

EITP__PRIVATE void eitp__sample_header_write(unsigned char bytes[EITP__SAMPLE_HEADER_SIZE],
                                             const eitp__sample_layout *layout) {
    const eitp__sample_format *format = eitp__sample_format_of(layout->info.kind);
    const uint32_t version = eitp__sample_version_of(layout);
    eitp__sample_header_unfinished(bytes, layout->info.kind);
    eitp__put_number(bytes + EITP__SAMPLE_AT_VERSION, 4, version);
    for (size_t i = 0; i < format->field_count; i++) {
        const eitp__sample_field *field = &format->fields[i];
        const char *member = (const char *)layout + field->member;
        uint32_t small;
        uint64_t value;
        if (field->version > version ||
            (field->version == EITP__LABELLED_SECOND_VERSION && !layout->info.second_vocabulary))
            continue;
        memcpy(&small, member, sizeof small);
        value = small;
        if (field->member_size == sizeof value)
            memcpy(&value, member, sizeof value);
        eitp__put_number(bytes + field->at, field->size, value);
    }
    eitp__put_number(bytes + EITP__SAMPLE_AT_CRC, 4, eitp__crc32c(0, bytes, EITP__SAMPLE_AT_CRC));
}

/* Checks the header as a whole, and reads its version. */
static eitp_status eitp__sample_header_check(const eitp__sample_format *format, const unsigned char *bytes, size_t size,
                                             uint64_t *version, eitp_error *error) {
    if (size < EITP__SAMPLE_HEADER_SIZE)
        return eitp__fail(error, EITP_ERROR_FORMAT,
                          "the file is truncated: it ends after %llu bytes, within its header of %d; copy the file or "
                          "%s",
                          (unsigned long long)size, (int)EITP__SAMPLE_HEADER_SIZE, format->remedy);
    *version = eitp__get_number(bytes + EITP__SAMPLE_AT_VERSION, 4);
    const uint32_t crc = eitp__crc32c(0, bytes, EITP__SAMPLE_AT_CRC);
    const uint32_t expected = (uint32_t)eitp__get_number(bytes + EITP__SAMPLE_AT_CRC, 4);
    if (!*version)
        return eitp__fail(error, EITP_ERROR_FORMAT, "packing was interrupted: %s", format->remedy);
    if (*version > format->newest)
        return eitp__fail(error, EITP_ERROR_UNSUPPORTED, "unsupported %s version %llu (supported: %s): %s",
                          format->name, (unsigned long long)*version, format->versions, format->remedy);
    if (crc != expected)
        return eitp__fail(error, EITP_ERROR_FORMAT,
                          "the header is damaged (its CRC32C is %08lx, expected %08lx): copy the file or %s",
                          (unsigned long)crc, (unsigned long)expected, format->remedy);
    return EITP_OK;
}

static eitp_status eitp__fail_impossible(const eitp__sample_format *format, const char *what, uint64_t value,
                                         eitp_error *error) {
    return eitp__fail(error, EITP_ERROR_FORMAT, "the header has an impossible %s (%llu): %s", what,
                      (unsigned long long)value, format->remedy);
}

/* Reads the fields and checks the bounds of each. */
static eitp_status eitp__sample_header_fields(const eitp__sample_format *format, const unsigned char *bytes,
                                              uint64_t version, eitp__sample_layout *layout, eitp_error *error) {
    for (size_t i = 0; i < format->field_count; i++) {
        const eitp__sample_field *field = &format->fields[i];
        const uint64_t value = eitp__get_number(bytes + field->at, field->size);
        const uint32_t small = (uint32_t)value;
        if (field->version > version)
            continue;
        if (value < field->min || value > field->max)
            return eitp__fail_impossible(format, field->what, value, error);
        if (field->member_size == sizeof small)
            memcpy((char *)layout + field->member, &small, sizeof small);
        else
            memcpy((char *)layout + field->member, &value, sizeof value);
    }
    return EITP_OK;
}

/* Checks that the fields of a second tokenizer are either all set or all zero. In files of the version that added it
   they must be set. */
static eitp_status eitp__sample_header_second(const eitp__sample_format *format, uint64_t version,
                                              eitp__sample_layout *layout, eitp_error *error) {
    eitp_sample_file_info *info = &layout->info;
    const int has_second = version == EITP__LABELLED_SECOND_VERSION || info->second_vocabulary || info->max_second ||
                           info->second_fingerprint;
    if (!info->second_vocabulary != !has_second)
        return eitp__fail_impossible(format, "second vocabulary", 0, error);
    if (!info->second_fingerprint != !has_second)
        return eitp__fail_impossible(format, "fingerprint of the second tokenizer", info->second_fingerprint, error);
    if (!info->max_first != !has_second)
        return eitp__fail_impossible(format, "length of a first sequence", (uint64_t)info->max_first, error);
    if (!info->max_second != !has_second)
        return eitp__fail_impossible(format, "length of a second sequence", (uint64_t)info->max_second, error);
    if (!has_second)
        info->max_first = info->max_length;
    return EITP_OK;
}

/* Checks fields that depend on others. */
static eitp_status eitp__sample_header_agree(const eitp__sample_format *format, const eitp__sample_layout *layout,
                                             uint64_t version, eitp_error *error) {
    const eitp_sample_file_info *info = &layout->info;
    if (info->element_size == 3)
        return eitp__fail_impossible(format, "size of an id", 3, error);
    if (info->element_size == 2 && info->vocabulary_size > 65536)
        return eitp__fail_impossible(format, "vocabulary", (uint64_t)info->vocabulary_size, error);
    if (info->element_size == 2 && info->second_vocabulary > 65536)
        return eitp__fail_impossible(format, "second vocabulary", (uint64_t)info->second_vocabulary, error);
    if (info->end_of_text < -1 || info->end_of_text >= info->vocabulary_size)
        return eitp__fail_impossible(format, "end-of-text id", (uint32_t)info->end_of_text, error);
    if (!(info->unigram_entropy >= 0 && info->unigram_entropy < 64)) /* at most ln 2^31 = 21.5; also false for NaN */
        return eitp__fail(error, EITP_ERROR_FORMAT, "the header has an impossible unigram entropy of %g: %s",
                          info->unigram_entropy, format->remedy);
    if (info->problem == EITP_PROBLEM_TOKENS && (version < EITP__LABELLED_TOKENS_VERSION || info->second_vocabulary))
        return eitp__fail_impossible(format, "problem", (uint64_t)info->problem, error);
    if (layout->weight_count && layout->weight_count != eitp__sample_weight_count(layout))
        return eitp__fail_impossible(format, "number of weights", layout->weight_count, error);
    if (info->second_vocabulary && info->pair_count)
        return eitp__fail_impossible(format, "number of pairs", info->pair_count, error);
    if (!info->label_count != (info->problem == EITP_PROBLEM_UNKNOWN))
        return eitp__fail_impossible(format, "number of labels", (uint64_t)info->label_count, error);
    if (info->problem == EITP_PROBLEM_UNKNOWN && layout->names_size)
        return eitp__fail_impossible(format, "size of names", layout->names_size, error);
    return EITP_OK;
}

/* ---- Reading ---- */

static eitp_status eitp__llmc_header_read(const unsigned char *bytes, size_t size, eitp_sample_file_info *info,
                                          eitp_error *error) {
    if (size < 12)
        return eitp__fail(error, EITP_ERROR_FORMAT,
                          "the file is truncated: it ends after %llu bytes, within llm.c's header of %d; copy it again",
                          (unsigned long long)size, (int)EITP__LLMC_HEADER_SIZE);
    const uint64_t version = eitp__get_number(bytes + 4, 4);
    if (version != EITP__LLMC_VERSION)
        return eitp__fail(error, EITP_ERROR_UNSUPPORTED,
                          "unsupported version %llu of an llm.c token file (supported: %d): pack the text with eitp",
                          (unsigned long long)version, (int)EITP__LLMC_VERSION);
    info->element_size = 2;
    info->token_count = eitp__get_number(bytes + 8, 4);
    if (info->token_count > INT32_MAX)
        return eitp__fail(error, EITP_ERROR_FORMAT,
                          "llm.c's header has a negative number of tokens: copy the file again");
    return EITP_OK;
}

EITP__PRIVATE eitp_status eitp__sample_header_read(const unsigned char *bytes, size_t size, uint64_t file_size,
                                                   eitp__sample_layout *layout, eitp_error *error) {
    eitp_sample_file_info *info = &layout->info;
    eitp_sample_file_kind kind;
    eitp_status status;
    if (!eitp__sample_kind_of(bytes, size, &kind))
        return eitp__fail(error, EITP_ERROR_FORMAT,
                          "not a token or labelled file: it starts with neither \"EITPTOK\", \"EITPLAB\" nor llm.c's "
                          "20240520; create one with eitp_pack or eitp_labelled_pack");
    memset(layout, 0, sizeof *layout);
    info->kind = kind;
    info->end_of_text = -1;
    if (kind == EITP_SAMPLE_FILE_LLMC) {
        status = eitp__llmc_header_read(bytes, size, info, error);
    } else {
        const eitp__sample_format *format = eitp__sample_format_of(kind);
        uint64_t version = 0;
        status = eitp__sample_header_check(format, bytes, size, &version, error);
        if (status == EITP_OK)
            status = eitp__sample_header_fields(format, bytes, version, layout, error);
        if (status == EITP_OK)
            status = eitp__sample_header_second(format, version, layout, error);
        if (status == EITP_OK)
            status = eitp__sample_header_agree(format, layout, version, error);
    }
    info->has_weights = layout->weight_count > 0;
    return status == EITP_OK ? eitp__sample_layout_check(layout, file_size, error) : status;
}
