#include "data/labelled_format.h"

#include "base/checksum.h"
#include "base/little_endian.h"
#include "base/status.h"

enum { EITP__LABELLED_MAGIC_SIZE = 8, EITP__LABELLED_AT_VERSION = 8 };

/* Files have the first version that can express them: 2 adds labels of tokens. */
enum { EITP__LABELLED_FIRST_VERSION = 1, EITP__LABELLED_TOKENS_VERSION = 2 };
enum { EITP__LABELLED_AT_CRC = EITP__LABELLED_HEADER_SIZE - 4 };

static const char *eitp__labelled_magic(void) {
    return "EITPLAB"; /* including its zero byte */
}

/* The numbers of the header. */
typedef struct eitp__labelled_fields {
    uint64_t version, element_size, sample_count, id_count, value_count, names_size;
    uint64_t tokenizer_fingerprint, content_hash;
    uint64_t vocabulary_size, problem, label_count, max_length;
    uint64_t pair_count, cut_samples, cut_ids, skipped, repeated, ambiguous;
    uint64_t sequence_length, truncation, truncate_left, omit_special_tokens, dedup, cut_words;
} eitp__labelled_fields;

typedef struct eitp__labelled_field {
    size_t member; /* offset in eitp__labelled_fields */
    unsigned char at, size;
} eitp__labelled_field;

#define EITP__LABELLED_FIELD(member, at, size)                                                                         \
    { offsetof(eitp__labelled_fields, member), at, size }

static const eitp__labelled_field eitp__labelled_field_table[] = {
    EITP__LABELLED_FIELD(version, EITP__LABELLED_AT_VERSION, 4),
    EITP__LABELLED_FIELD(element_size, 12, 4),
    EITP__LABELLED_FIELD(sample_count, 16, 8),
    EITP__LABELLED_FIELD(id_count, 24, 8),
    EITP__LABELLED_FIELD(value_count, 32, 8),
    EITP__LABELLED_FIELD(names_size, 40, 8),
    EITP__LABELLED_FIELD(tokenizer_fingerprint, 48, 8),
    EITP__LABELLED_FIELD(content_hash, 56, 8),
    EITP__LABELLED_FIELD(vocabulary_size, 64, 4),
    EITP__LABELLED_FIELD(problem, 68, 4),
    EITP__LABELLED_FIELD(label_count, 72, 4),
    EITP__LABELLED_FIELD(max_length, 76, 4),
    EITP__LABELLED_FIELD(pair_count, 80, 8),
    EITP__LABELLED_FIELD(cut_samples, 88, 8),
    EITP__LABELLED_FIELD(cut_ids, 96, 8),
    EITP__LABELLED_FIELD(skipped, 104, 8),
    EITP__LABELLED_FIELD(repeated, 112, 8),
    EITP__LABELLED_FIELD(ambiguous, 120, 8),
    EITP__LABELLED_FIELD(sequence_length, 128, 4),
    EITP__LABELLED_FIELD(truncation, 132, 4),
    EITP__LABELLED_FIELD(truncate_left, 136, 4),
    EITP__LABELLED_FIELD(omit_special_tokens, 140, 4),
    EITP__LABELLED_FIELD(dedup, 144, 4),
    EITP__LABELLED_FIELD(cut_words, 152, 8),
};

EITP__PRIVATE void eitp__labelled_header_unfinished(unsigned char bytes[EITP__LABELLED_HEADER_SIZE]) {
    memset(bytes, 0, EITP__LABELLED_HEADER_SIZE);
    memcpy(bytes, eitp__labelled_magic(), EITP__LABELLED_MAGIC_SIZE);
}

static eitp__labelled_fields eitp__labelled_fields_of(const eitp__labelled_layout *layout) {
    const eitp_labelled_info *info = &layout->info;
    eitp__labelled_fields fields;
    fields.version =
        info->problem == EITP_PROBLEM_TOKENS ? EITP__LABELLED_TOKENS_VERSION : EITP__LABELLED_FIRST_VERSION;
    fields.element_size = (uint64_t)info->element_size;
    fields.sample_count = info->sample_count;
    fields.id_count = info->id_count;
    fields.value_count = layout->value_count;
    fields.names_size = layout->names_size;
    fields.tokenizer_fingerprint = info->tokenizer_fingerprint;
    fields.content_hash = info->content_hash;
    fields.vocabulary_size = (uint64_t)info->vocabulary_size;
    fields.problem = (uint64_t)info->problem;
    fields.label_count = (uint64_t)info->label_count;
    fields.max_length = (uint64_t)info->max_length;
    fields.pair_count = info->pair_count;
    fields.cut_samples = info->cut_samples;
    fields.cut_ids = info->cut_ids;
    fields.skipped = info->skipped;
    fields.repeated = info->repeated;
    fields.ambiguous = info->ambiguous;
    fields.sequence_length = (uint64_t)info->sequence.max_length;
    fields.truncation = (uint64_t)info->sequence.truncation;
    fields.truncate_left = info->sequence.truncate_left != 0;
    fields.omit_special_tokens = info->sequence.omit_special_tokens != 0;
    fields.dedup = info->dedup != 0;
    fields.cut_words = info->cut_words;
    return fields;
}

EITP__PRIVATE void eitp__labelled_header_write(unsigned char bytes[EITP__LABELLED_HEADER_SIZE],
                                               const eitp__labelled_layout *layout) {
    const eitp__labelled_fields fields = eitp__labelled_fields_of(layout);
    eitp__labelled_header_unfinished(bytes);
    for (size_t i = 0; i < EITP__COUNT(eitp__labelled_field_table); i++) {
        const eitp__labelled_field *field = &eitp__labelled_field_table[i];
        uint64_t value;
        memcpy(&value, (const char *)&fields + field->member, sizeof value);
        eitp__put_number(bytes + field->at, field->size, value);
    }
    eitp__put_number(bytes + EITP__LABELLED_AT_CRC, 4, eitp__crc32c(0, bytes, EITP__LABELLED_AT_CRC));
}

static void eitp__labelled_info_set(eitp_labelled_info *info, const eitp__labelled_fields *fields) {
    info->element_size = (int32_t)fields->element_size;
    info->vocabulary_size = (int32_t)fields->vocabulary_size;
    info->problem = (eitp_problem)fields->problem;
    info->label_count = (int64_t)fields->label_count;
    info->sample_count = fields->sample_count;
    info->id_count = fields->id_count;
    info->max_length = (int64_t)fields->max_length;
    info->pair_count = fields->pair_count;
    info->cut_samples = fields->cut_samples;
    info->cut_ids = fields->cut_ids;
    info->skipped = fields->skipped;
    info->repeated = fields->repeated;
    info->ambiguous = fields->ambiguous;
    info->dedup = fields->dedup != 0;
    info->cut_words = fields->cut_words;
    info->sequence.max_length = (int32_t)fields->sequence_length;
    info->sequence.truncation = (eitp_truncation)fields->truncation;
    info->sequence.truncate_left = fields->truncate_left != 0;
    info->sequence.omit_special_tokens = fields->omit_special_tokens != 0;
    info->tokenizer_fingerprint = fields->tokenizer_fingerprint;
    info->content_hash = fields->content_hash;
}

/* The name of the first number that no file has; NULL: all are possible. */
static const char *eitp__labelled_impossible(const eitp__labelled_fields *fields) {
    const uint64_t size = fields->element_size, vocabulary = fields->vocabulary_size;
    const int has_labels = fields->problem != EITP_PROBLEM_UNKNOWN;
    if (size != 2 && size != 4)
        return "size of an id";
    if (!vocabulary || vocabulary > (size == 2 ? 65536 : (uint64_t)INT32_MAX))
        return "vocabulary";
    if (fields->problem > EITP_PROBLEM_TOKENS ||
        (fields->problem == EITP_PROBLEM_TOKENS && fields->version < EITP__LABELLED_TOKENS_VERSION))
        return "problem";
    if (!fields->sample_count || fields->sample_count > EITP__MAX_SAMPLES)
        return "number of samples";
    if (!fields->max_length || fields->max_length > INT32_MAX)
        return "length of a sample";
    if (!fields->label_count != !has_labels || fields->label_count > INT32_MAX)
        return "number of labels";
    if (!has_labels && fields->names_size)
        return "size of names";
    if (fields->sequence_length > INT32_MAX || fields->truncation > EITP_TRUNCATE_NONE)
        return "truncation";
    return NULL;
}

/* Subtracts the size of a section from what is left of the file; returns 0 if there is less. */
static int eitp__labelled_take(uint64_t *left, uint64_t count, uint64_t size) {
    if (count > *left / size)
        return 0;
    *left -= count * size;
    return 1;
}

EITP__PRIVATE uint64_t eitp__labelled_place(eitp__labelled_layout *layout) {
    const uint64_t ids = layout->info.id_count * (uint64_t)layout->info.element_size;
    layout->records = EITP__LABELLED_HEADER_SIZE + (ids + 7) / 8 * 8;
    layout->values = layout->records + layout->info.sample_count * EITP__LABELLED_RECORD_SIZE;
    layout->names = layout->values + layout->value_count * EITP__LABELLED_VALUE_SIZE;
    return layout->names + layout->names_size;
}

/* Compares the counts with the size of the file. */
static eitp_status eitp__labelled_check_size(eitp__labelled_layout *layout, uint64_t file_size, eitp_error *error) {
    const eitp_labelled_info *info = &layout->info;
    uint64_t left = file_size;
    const int is_within = eitp__labelled_take(&left, EITP__LABELLED_HEADER_SIZE, 1) &&
                          eitp__labelled_take(&left, info->id_count, (uint64_t)info->element_size) &&
                          eitp__labelled_take(&left, info->sample_count, EITP__LABELLED_RECORD_SIZE) &&
                          eitp__labelled_take(&left, layout->value_count, EITP__LABELLED_VALUE_SIZE) &&
                          eitp__labelled_take(&left, layout->names_size, 1);
    if (!is_within || eitp__labelled_place(layout) != file_size)
        return eitp__fail(
            error, EITP_ERROR_FORMAT,
            "the header says %llu samples with %llu ids of %d bytes, %llu values and %llu bytes of names, "
            "but the file has %llu bytes; it is truncated or damaged: copy the file or pack the examples "
            "again",
            (unsigned long long)info->sample_count, (unsigned long long)info->id_count, (int)info->element_size,
            (unsigned long long)layout->value_count, (unsigned long long)layout->names_size,
            (unsigned long long)file_size);
    return EITP_OK;
}

static eitp_status eitp__labelled_header_check(const unsigned char *bytes, size_t size, eitp_error *error) {
    if (size < EITP__LABELLED_MAGIC_SIZE || memcmp(bytes, eitp__labelled_magic(), EITP__LABELLED_MAGIC_SIZE) != 0)
        return eitp__fail(
            error, EITP_ERROR_FORMAT,
            "not a labelled file: it does not begin with \"EITPLAB\"; create one with eitp_labelled_pack");
    if (size < EITP__LABELLED_HEADER_SIZE)
        return eitp__fail(error, EITP_ERROR_FORMAT,
                          "the file is truncated: it ends after %llu bytes, within its header of %d; copy the file or "
                          "pack the examples again",
                          (unsigned long long)size, (int)EITP__LABELLED_HEADER_SIZE);
    const uint64_t version = eitp__get_number(bytes + EITP__LABELLED_AT_VERSION, 4);
    const uint32_t crc = eitp__crc32c(0, bytes, EITP__LABELLED_AT_CRC);
    const uint32_t expected = (uint32_t)eitp__get_number(bytes + EITP__LABELLED_AT_CRC, 4);
    if (!version)
        return eitp__fail(error, EITP_ERROR_FORMAT, "packing was interrupted: pack the examples again");
    if (version > EITP__LABELLED_TOKENS_VERSION)
        return eitp__fail(error, EITP_ERROR_UNSUPPORTED,
                          "unsupported labelled file version %llu (supported: %d to %d): pack the examples again",
                          (unsigned long long)version, (int)EITP__LABELLED_FIRST_VERSION,
                          (int)EITP__LABELLED_TOKENS_VERSION);
    if (crc != expected)
        return eitp__fail(
            error, EITP_ERROR_FORMAT,
            "the header is damaged (its CRC32C is %08lx, expected %08lx): copy the file or pack the examples again",
            (unsigned long)crc, (unsigned long)expected);
    return EITP_OK;
}

EITP__PRIVATE eitp_status eitp__labelled_header_read(const unsigned char *bytes, size_t size, uint64_t file_size,
                                                     eitp__labelled_layout *layout, eitp_error *error) {
    eitp__labelled_fields fields;
    eitp_status status = eitp__labelled_header_check(bytes, size, error);
    if (status != EITP_OK)
        return status;
    for (size_t i = 0; i < EITP__COUNT(eitp__labelled_field_table); i++) {
        const eitp__labelled_field *field = &eitp__labelled_field_table[i];
        const uint64_t value = eitp__get_number(bytes + field->at, field->size);
        memcpy((char *)&fields + field->member, &value, sizeof value);
    }
    const char *impossible = eitp__labelled_impossible(&fields);
    if (impossible)
        return eitp__fail(error, EITP_ERROR_FORMAT, "the header says an impossible %s: pack the examples again",
                          impossible);
    memset(layout, 0, sizeof *layout);
    eitp__labelled_info_set(&layout->info, &fields);
    layout->value_count = fields.value_count;
    layout->names_size = fields.names_size;
    return eitp__labelled_check_size(layout, file_size, error);
}

/* ---- Records and values ---- */

EITP__PRIVATE void eitp__labelled_record_write(unsigned char bytes[EITP__LABELLED_RECORD_SIZE],
                                               const eitp__labelled_record *record) {
    eitp__put_number(bytes, 8, record->first);
    eitp__put_number(bytes + 8, 8, record->first_value);
    eitp__put_number(bytes + 16, 8, record->text_hash);
    eitp__put_number(bytes + 24, 4, record->length);
    eitp__put_number(bytes + 28, 4, record->boundary);
    eitp__put_number(bytes + 32, 4, record->value_count);
    eitp__put_number(bytes + 36, 4, record->crc);
}

EITP__PRIVATE eitp__labelled_record eitp__labelled_record_read(const unsigned char bytes[EITP__LABELLED_RECORD_SIZE]) {
    eitp__labelled_record record;
    record.first = eitp__get_number(bytes, 8);
    record.first_value = eitp__get_number(bytes + 8, 8);
    record.text_hash = eitp__get_number(bytes + 16, 8);
    record.length = (uint32_t)eitp__get_number(bytes + 24, 4);
    record.boundary = (uint32_t)eitp__get_number(bytes + 28, 4);
    record.value_count = (uint32_t)eitp__get_number(bytes + 32, 4);
    record.crc = (uint32_t)eitp__get_number(bytes + 36, 4);
    return record;
}

EITP__PRIVATE int eitp__labelled_record_fits(const eitp__labelled_record *record, const eitp__labelled_layout *layout) {
    const eitp_labelled_info *info = &layout->info;
    const uint64_t length = record->length, values = record->value_count;
    if (!length || length > (uint64_t)info->max_length || record->boundary > length)
        return 0;
    if (record->first > info->id_count || length > info->id_count - record->first ||
        record->first_value > layout->value_count || values > layout->value_count - record->first_value)
        return 0;
    switch (info->problem) {
    case EITP_PROBLEM_SINGLE_LABEL:
        return values == 1;
    case EITP_PROBLEM_MULTI_LABEL:
        return values <= (uint64_t)info->label_count;
    case EITP_PROBLEM_REGRESSION:
        return values == (uint64_t)info->label_count;
    case EITP_PROBLEM_TOKENS:
        return values == length;
    default:
        return values == 0;
    }
}

EITP__PRIVATE int eitp__labelled_value_fits(uint32_t value, const eitp_labelled_info *info) {
    const uint32_t exponent = 0x7F800000u;
    if (info->problem == EITP_PROBLEM_REGRESSION)
        return (value & exponent) != exponent;
    return value < (uint64_t)info->label_count || (info->problem == EITP_PROBLEM_TOKENS && value == EITP__NO_LABEL);
}
