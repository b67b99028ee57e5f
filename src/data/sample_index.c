#include "data/sample_index.h"

#include "base/checksum.h"
#include "base/little_endian.h"

static eitp_status eitp__sample_fail_damaged(const eitp_sample_file *file, const char *what, uint64_t number,
                                             eitp_error *error) {
    return eitp__fail(error, EITP_ERROR_FORMAT, "%s: %s %llu is damaged: copy the file or pack the examples again",
                      file->file.path, what, (unsigned long long)number);
}

/* ---- Records and values ---- */

EITP__PRIVATE void eitp__index_reader_init(eitp__index_reader *reader, const eitp_sample_file *file) {
    reader->file = file;
    reader->first = reader->count = 0;
}

EITP__PRIVATE eitp_status eitp__index_reader_record(eitp__index_reader *reader, uint64_t number,
                                                    eitp__sample_record *record, eitp_error *error) {
    const eitp__sample_layout *layout = &reader->file->layout;
    if (number < reader->first || number - reader->first >= reader->count) {
        const uint64_t room = EITP__SAMPLE_CHUNK / EITP__SAMPLE_RECORD_SIZE;
        const uint64_t left = layout->info.sample_count - number, count = left < room ? left : room;
        const uint64_t offset = layout->records + number * EITP__SAMPLE_RECORD_SIZE;
        reader->count = 0;
        eitp_status status = eitp__sample_read_piece(reader->file, offset, reader->bytes,
                                                     (size_t)count * EITP__SAMPLE_RECORD_SIZE, error);
        if (status != EITP_OK)
            return status;
        reader->first = number;
        reader->count = count;
    }
    *record = eitp__sample_record_read(reader->bytes + (number - reader->first) * EITP__SAMPLE_RECORD_SIZE);
    if (!eitp__sample_record_fits(record, layout))
        return eitp__sample_fail_damaged(reader->file, "the index of sample", number, error);
    return EITP_OK;
}

EITP__PRIVATE eitp_status eitp__sample_read_values(const eitp_sample_file *file, uint64_t first, size_t count,
                                                   uint32_t *values, eitp_error *error) {
    unsigned char bytes[EITP__SAMPLE_CHUNK];
    const uint64_t offset = file->layout.values + first * EITP__SAMPLE_VALUE_SIZE;
    eitp_status status = eitp__sample_read_bytes(file, offset, bytes, count * EITP__SAMPLE_VALUE_SIZE, error);
    for (size_t i = 0; i < count && status == EITP_OK; i++) {
        values[i] = (uint32_t)eitp__get_number(bytes + i * EITP__SAMPLE_VALUE_SIZE, EITP__SAMPLE_VALUE_SIZE);
        if (!eitp__sample_value_fits(values[i], &file->layout.info))
            return eitp__sample_fail_damaged(file, "the label or number", first + i, error);
    }
    return status;
}

/* Reads weights [first, first + count), at most EITP__SAMPLE_CHUNK / 4, and checks that they are finite and not
   negative. */
static eitp_status eitp__sample_read_weights(const eitp_sample_file *file, uint64_t first, size_t count,
                                             uint32_t *weights, eitp_error *error) {
    const uint32_t infinity = 0x7F800000u;
    unsigned char bytes[EITP__SAMPLE_CHUNK];
    const uint64_t offset = file->layout.weights + first * EITP__SAMPLE_VALUE_SIZE;
    eitp_status status = eitp__sample_read_bytes(file, offset, bytes, count * EITP__SAMPLE_VALUE_SIZE, error);
    for (size_t i = 0; i < count && status == EITP_OK; i++) {
        weights[i] = (uint32_t)eitp__get_number(bytes + i * EITP__SAMPLE_VALUE_SIZE, EITP__SAMPLE_VALUE_SIZE);
        if (weights[i] >= infinity)
            return eitp__sample_fail_damaged(file, "the weight", first + i, error);
    }
    return status;
}

/* ---- The content hash ---- */

/* Reads the ids of a sample and compares their checksum; with `ids` NULL only compares. */
static eitp_status eitp__sample_read_checked_ids(const eitp_sample_file *file, uint64_t number,
                                                 const eitp__sample_record *record, int32_t *ids, int32_t *second,
                                                 eitp_error *error) {
    const uint32_t boundary = file->layout.info.second_vocabulary ? record->boundary : record->length;
    uint32_t crc = 0;
    eitp_status status = eitp__sample_read_ids(file, EITP__IDS_OF_FIRST, record->first, boundary, ids, &crc, error);
    if (status == EITP_OK)
        status = eitp__sample_read_ids(file, EITP__IDS_OF_SECOND, record->first + boundary, record->length - boundary,
                                       second || !ids ? second : ids + boundary, &crc, error);
    if (status == EITP_OK && crc != record->crc)
        return eitp__sample_fail_damaged(file, "sample", number, error);
    return status;
}

/* Checks that records follow each other without gaps, with `reads_ids` also the ids of samples, and hashes the
   records. */
static eitp_status eitp__sample_check_records(const eitp_sample_file *file, int reads_ids, uint64_t *hash,
                                              eitp_error *error) {
    const eitp__sample_layout *layout = &file->layout;
    unsigned char bytes[EITP__SAMPLE_RECORD_SIZE];
    eitp__index_reader reader;
    eitp_sample_file_info found = EITP__ZERO;
    uint64_t values = 0;
    found.second_vocabulary = layout->info.second_vocabulary;
    eitp__index_reader_init(&reader, file);
    for (uint64_t i = 0; i < layout->info.sample_count; i++) {
        eitp__sample_record record;
        eitp_status status = eitp__index_reader_record(&reader, i, &record, error);
        if (status == EITP_OK && (record.first != found.token_count || record.first_value != values))
            status = eitp__sample_fail_damaged(file, "the index of sample", i, error);
        if (status == EITP_OK && reads_ids)
            status = eitp__sample_read_checked_ids(file, i, &record, NULL, NULL, error);
        if (status != EITP_OK)
            return status;
        values += record.value_count;
        eitp__sample_record_count(&record, &found);
        eitp__sample_record_write(bytes, &record);
        *hash = eitp__fnv1a(*hash, bytes, sizeof bytes);
    }
    if (found.token_count != layout->info.token_count || values != layout->value_count ||
        found.max_length != layout->info.max_length || found.max_first != layout->info.max_first ||
        found.max_second != layout->info.max_second)
        return eitp__sample_fail_damaged(file, "the index after sample", layout->info.sample_count - 1, error);
    return EITP_OK;
}

/* Reads 4-byte numbers: values or weights. */
typedef eitp_status (*eitp__numbers_reader)(const eitp_sample_file *file, uint64_t first, size_t count,
                                            uint32_t *numbers, eitp_error *error);

static eitp_status eitp__sample_check_numbers(const eitp_sample_file *file, uint64_t all, eitp__numbers_reader read,
                                              uint64_t *hash, eitp_error *error) {
    uint32_t values[EITP__SAMPLE_CHUNK / EITP__SAMPLE_VALUE_SIZE];
    unsigned char bytes[EITP__SAMPLE_VALUE_SIZE];
    for (uint64_t first = 0; first < all;) {
        const uint64_t left = all - first;
        const size_t count = left < EITP__COUNT(values) ? (size_t)left : EITP__COUNT(values);
        eitp_status status =
            eitp__poll_ask(&file->poll) ? eitp__fail_interrupted(error) : read(file, first, count, values, error);
        if (status != EITP_OK)
            return status;
        for (size_t i = 0; i < count; i++) {
            eitp__put_number(bytes, sizeof bytes, values[i]);
            *hash = eitp__fnv1a(*hash, bytes, sizeof bytes);
        }
        first += count;
    }
    return EITP_OK;
}

static eitp_status eitp__sample_hash_names(const eitp_sample_file *file, uint64_t *hash, eitp_error *error) {
    unsigned char bytes[EITP__SAMPLE_CHUNK];
    const eitp__sample_layout *layout = &file->layout;
    for (uint64_t done = 0; done < layout->names_size;) {
        const uint64_t left = layout->names_size - done;
        const size_t count = left < sizeof bytes ? (size_t)left : sizeof bytes;
        eitp_status status = eitp__sample_read_piece(file, layout->names + done, bytes, count, error);
        if (status != EITP_OK)
            return status;
        *hash = eitp__fnv1a(*hash, bytes, count);
        done += count;
    }
    return EITP_OK;
}

EITP__PRIVATE eitp_status eitp__sample_index_hash(const eitp_sample_file *file, int reads_ids, uint64_t *hash,
                                                  eitp_error *error) {
    *hash = EITP__FNV_START;
    eitp_status status = eitp__sample_check_records(file, reads_ids, hash, error);
    if (status == EITP_OK)
        status = eitp__sample_check_numbers(file, file->layout.value_count, eitp__sample_read_values, hash, error);
    if (status == EITP_OK)
        status = eitp__sample_check_numbers(file, file->layout.weight_count, eitp__sample_read_weights, hash, error);
    return status == EITP_OK ? eitp__sample_hash_names(file, hash, error) : status;
}

/* ---- Names ---- */

/* Finds the label names in file->names_text. Returns 0 if their number is not the number of labels. */
static int eitp__sample_find_names(eitp_sample_file *file) {
    const char *at = file->names_text, *end = file->names_text + file->layout.names_size;
    for (int64_t i = 0; i < file->layout.info.label_count; i++) {
        const char *zero = at < end ? (const char *)memchr(at, 0, (size_t)(end - at)) : NULL;
        if (!zero)
            return 0;
        file->labels[i] = at;
        at = zero + 1;
    }
    return at == end;
}

/* A regression may have no names. */
EITP__PRIVATE eitp_status eitp__sample_read_names(eitp_sample_file *file, eitp_error *error) {
    const eitp__sample_layout *layout = &file->layout;
    const uint64_t size = layout->names_size, count = (uint64_t)layout->info.label_count;
    if (!size && (layout->info.problem == EITP_PROBLEM_REGRESSION || !count))
        return EITP_OK;
    if (size < count)
        return eitp__sample_fail_damaged(file, "the name of label", count - 1, error);
    file->names_text = (char *)eitp__allocate_uninitialized(&file->host, (size_t)size);
    file->labels = (const char **)eitp__allocate_uninitialized(&file->host, (size_t)count * sizeof *file->labels);
    if (!file->names_text || (count && !file->labels))
        return eitp__fail_memory(error, (size_t)(size + count * sizeof *file->labels), "the names of labels");
    eitp_status status = eitp__sample_read_bytes(file, layout->names, file->names_text, (size_t)size, error);
    if (status == EITP_OK && !eitp__sample_find_names(file))
        return eitp__sample_fail_damaged(file, "the name of label", count - 1, error);
    return status;
}

/* ---- Samples ---- */

/* Stores value `i` of a sample in the member for its problem. */
static void eitp__sample_store_value(eitp_problem problem, size_t i, uint32_t value, eitp_labelled_sample *sample) {
    switch (problem) {
    case EITP_PROBLEM_MULTI_LABEL:
        sample->targets[value] = 1;
        break;
    case EITP_PROBLEM_REGRESSION:
        memcpy(&sample->targets[i], &value, sizeof value);
        break;
    case EITP_PROBLEM_TOKENS:
        sample->token_labels[i] = value == EITP__NO_LABEL ? -1 : (int32_t)value;
        break;
    default:
        sample->label = (int32_t)value;
    }
}

/* Reads labels or numbers into the sample's member for the problem, if it is wanted. */
static eitp_status eitp__sample_read_labels(const eitp_sample_file *file, const eitp__sample_record *record,
                                            eitp_labelled_sample *sample, eitp_error *error) {
    const eitp_sample_file_info *info = &file->layout.info;
    uint32_t values[EITP__SAMPLE_CHUNK / EITP__SAMPLE_VALUE_SIZE];
    sample->label = -1;
    if (info->problem == EITP_PROBLEM_TOKENS ? !sample->token_labels
                                             : info->problem != EITP_PROBLEM_SINGLE_LABEL && !sample->targets)
        return EITP_OK;
    for (int64_t i = 0; i < info->label_count && info->problem == EITP_PROBLEM_MULTI_LABEL; i++)
        sample->targets[i] = 0;
    for (size_t done = 0; done < record->value_count;) {
        const size_t left = record->value_count - done, count = left < EITP__COUNT(values) ? left : EITP__COUNT(values);
        eitp_status status = eitp__sample_read_values(file, record->first_value + done, count, values, error);
        if (status != EITP_OK)
            return status;
        for (size_t i = 0; i < count; i++)
            eitp__sample_store_value(info->problem, done + i, values[i], sample);
        done += count;
    }
    return EITP_OK;
}

/* Reads the weight of the sample, or of its tokens if they are wanted; 1 in a file without weights. */
static eitp_status eitp__sample_read_weight(const eitp_sample_file *file, uint64_t number,
                                            const eitp__sample_record *record, eitp_labelled_sample *sample,
                                            eitp_error *error) {
    const int of_tokens = file->layout.info.problem == EITP_PROBLEM_TOKENS;
    uint32_t bits[EITP__SAMPLE_CHUNK / EITP__SAMPLE_VALUE_SIZE];
    eitp_status status = EITP_OK;
    sample->weight = 1;
    for (uint32_t i = 0; i < record->length && sample->token_weights; i++)
        sample->token_weights[i] = 1;
    if (!file->layout.weight_count || (of_tokens && !sample->token_weights))
        return EITP_OK;
    if (!of_tokens) {
        status = eitp__sample_read_weights(file, number, 1, bits, error);
        memcpy(&sample->weight, bits, sizeof sample->weight);
        return status;
    }
    for (size_t done = 0; done < record->value_count && status == EITP_OK;) {
        const size_t left = record->value_count - done, count = left < EITP__COUNT(bits) ? left : EITP__COUNT(bits);
        status = eitp__sample_read_weights(file, record->first_value + done, count, bits, error);
        memcpy(sample->token_weights + done, bits, count * sizeof *bits);
        done += count;
    }
    return status;
}

static eitp_status eitp__sample_read_record(const eitp_sample_file *file, uint64_t number, eitp__sample_record *record,
                                            eitp_error *error) {
    unsigned char bytes[EITP__SAMPLE_RECORD_SIZE];
    eitp_status status = eitp__sample_read_bytes(file, file->layout.records + number * EITP__SAMPLE_RECORD_SIZE, bytes,
                                                 sizeof bytes, error);
    if (status != EITP_OK)
        return status;
    *record = eitp__sample_record_read(bytes);
    return eitp__sample_record_fits(record, &file->layout)
               ? EITP_OK
               : eitp__sample_fail_damaged(file, "the index of sample", number, error);
}

EITP__PRIVATE eitp_status eitp__sample_read(const eitp_sample_file *file, uint64_t number, eitp_labelled_sample *sample,
                                            eitp_error *error) {
    eitp__sample_record record = EITP__ZERO;
    eitp_status status = eitp__sample_read_record(file, number, &record, error);
    int32_t *second = file->layout.info.second_vocabulary ? sample->second : NULL;
    if (status == EITP_OK && (sample->ids || second))
        status = eitp__sample_read_checked_ids(file, number, &record, sample->ids, second, error);
    if (status == EITP_OK)
        status = eitp__sample_read_labels(file, &record, sample, error);
    if (status == EITP_OK)
        status = eitp__sample_read_weight(file, number, &record, sample, error);
    if (status != EITP_OK)
        return status;
    sample->length = second ? record.boundary : record.length;
    sample->second_length = second ? (int64_t)(record.length - record.boundary) : 0;
    for (uint32_t i = 0; i < sample->length && sample->segments; i++)
        sample->segments[i] = i >= record.boundary;
    return EITP_OK;
}
