#include "data/sample_record.h"

#include "base/little_endian.h"

EITP__PRIVATE void eitp__sample_record_write(unsigned char bytes[EITP__SAMPLE_RECORD_SIZE],
                                             const eitp__sample_record *record) {
    eitp__put_number(bytes, 8, record->first);
    eitp__put_number(bytes + 8, 8, record->first_value);
    eitp__put_number(bytes + 16, 8, record->text_hash);
    eitp__put_number(bytes + 24, 4, record->length);
    eitp__put_number(bytes + 28, 4, record->boundary);
    eitp__put_number(bytes + 32, 4, record->value_count);
    eitp__put_number(bytes + 36, 4, record->crc);
}

EITP__PRIVATE eitp__sample_record eitp__sample_record_read(const unsigned char bytes[EITP__SAMPLE_RECORD_SIZE]) {
    eitp__sample_record record;
    record.first = eitp__get_number(bytes, 8);
    record.first_value = eitp__get_number(bytes + 8, 8);
    record.text_hash = eitp__get_number(bytes + 16, 8);
    record.length = (uint32_t)eitp__get_number(bytes + 24, 4);
    record.boundary = (uint32_t)eitp__get_number(bytes + 28, 4);
    record.value_count = (uint32_t)eitp__get_number(bytes + 32, 4);
    record.crc = (uint32_t)eitp__get_number(bytes + 36, 4);
    return record;
}

/* True if both sequences of a sample of two tokenizers have ids, and neither exceeds the longest one. */
static int eitp__sample_boundary_fits(const eitp__sample_record *record, const eitp_sample_file_info *info) {
    return record->boundary > 0 && record->boundary < record->length && record->boundary <= info->max_first &&
           record->length - record->boundary <= info->max_second;
}

EITP__PRIVATE int eitp__sample_record_fits(const eitp__sample_record *record, const eitp__sample_layout *layout) {
    const eitp_sample_file_info *info = &layout->info;
    const uint64_t length = record->length, values = record->value_count;
    if (!length || length > (uint64_t)info->max_length || record->boundary > length)
        return 0;
    if (info->second_vocabulary && !eitp__sample_boundary_fits(record, info))
        return 0;
    if (record->first > info->token_count || length > info->token_count - record->first ||
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

EITP__PRIVATE void eitp__sample_record_count(const eitp__sample_record *record, eitp_sample_file_info *info) {
    const int64_t length = record->length, first = info->second_vocabulary ? (int64_t)record->boundary : length;
    info->token_count += record->length;
    info->max_length = length > info->max_length ? length : info->max_length;
    info->max_first = first > info->max_first ? first : info->max_first;
    info->max_second = length - first > info->max_second ? length - first : info->max_second;
}

EITP__PRIVATE int eitp__sample_value_fits(uint32_t value, const eitp_sample_file_info *info) {
    const uint32_t exponent = 0x7F800000u;
    if (info->problem == EITP_PROBLEM_REGRESSION)
        return (value & exponent) != exponent;
    return value < (uint64_t)info->label_count || (info->problem == EITP_PROBLEM_TOKENS && value == EITP__NO_LABEL);
}
