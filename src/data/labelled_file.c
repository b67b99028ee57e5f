#include "data/labelled_file.h"

#include "base/checksum.h"
#include "base/little_endian.h"

EITP__PRIVATE eitp_status eitp__labelled_read_bytes(const eitp_labelled_file *file, uint64_t offset, void *bytes,
                                                    size_t size, eitp_error *error) {
    eitp__file handle = file->file;
    eitp_status status = eitp__file_read(&handle, offset, bytes, size, error);
    if (status == EITP_ERROR_FORMAT)
        return eitp__fail(error, EITP_ERROR_IO, "'%s' changed while it was read: it ends before byte %llu; restore it",
                          file->file.path, (unsigned long long)(offset + size));
    return status;
}

static eitp_status eitp__labelled_fail_damaged(const eitp_labelled_file *file, const char *what, uint64_t number,
                                               eitp_error *error) {
    return eitp__fail(error, EITP_ERROR_FORMAT, "%s: %s %llu is damaged: copy the file or pack the examples again",
                      file->file.path, what, (unsigned long long)number);
}

void eitp_labelled_file_set_poll(eitp_labelled_file *file, int (*poll)(void *user), void *user) {
    if (!file)
        return;
    file->poll.ask = poll;
    file->poll.user = user;
}

/* The next piece of what is read from the beginning to the end. */
static eitp_status eitp__labelled_read_piece(const eitp_labelled_file *file, uint64_t offset, void *bytes, size_t size,
                                             eitp_error *error) {
    return eitp__poll_ask(&file->poll) ? eitp__fail_interrupted(error)
                                       : eitp__labelled_read_bytes(file, offset, bytes, size, error);
}

/* ---- Records and values ---- */

EITP__PRIVATE void eitp__labelled_window_init(eitp__labelled_window *window, const eitp_labelled_file *file) {
    window->file = file;
    window->first = window->count = 0;
}

EITP__PRIVATE eitp_status eitp__labelled_window_record(eitp__labelled_window *window, uint64_t number,
                                                       eitp__labelled_record *record, eitp_error *error) {
    const eitp__labelled_layout *layout = &window->file->layout;
    if (number < window->first || number - window->first >= window->count) {
        const uint64_t room = EITP__LABELLED_CHUNK / EITP__LABELLED_RECORD_SIZE;
        const uint64_t left = layout->info.sample_count - number, count = left < room ? left : room;
        const uint64_t offset = layout->records + number * EITP__LABELLED_RECORD_SIZE;
        window->count = 0;
        eitp_status status = eitp__labelled_read_piece(window->file, offset, window->bytes,
                                                       (size_t)count * EITP__LABELLED_RECORD_SIZE, error);
        if (status != EITP_OK)
            return status;
        window->first = number;
        window->count = count;
    }
    *record = eitp__labelled_record_read(window->bytes + (number - window->first) * EITP__LABELLED_RECORD_SIZE);
    if (!eitp__labelled_record_fits(record, layout))
        return eitp__labelled_fail_damaged(window->file, "the index of sample", number, error);
    return EITP_OK;
}

EITP__PRIVATE eitp_status eitp__labelled_read_values(const eitp_labelled_file *file, uint64_t first, size_t count,
                                                     uint32_t *values, eitp_error *error) {
    unsigned char bytes[EITP__LABELLED_CHUNK];
    const uint64_t offset = file->layout.values + first * EITP__LABELLED_VALUE_SIZE;
    eitp_status status = eitp__labelled_read_bytes(file, offset, bytes, count * EITP__LABELLED_VALUE_SIZE, error);
    for (size_t i = 0; i < count && status == EITP_OK; i++) {
        values[i] = (uint32_t)eitp__get_number(bytes + i * EITP__LABELLED_VALUE_SIZE, EITP__LABELLED_VALUE_SIZE);
        if (!eitp__labelled_value_fits(values[i], &file->layout.info))
            return eitp__labelled_fail_damaged(file, "the label or number", first + i, error);
    }
    return status;
}

/* ---- Opening ---- */

/* Checks that records follow each other without gaps, and hashes them. */
static eitp_status eitp__labelled_check_records(const eitp_labelled_file *file, uint64_t *hash, eitp_error *error) {
    const eitp__labelled_layout *layout = &file->layout;
    unsigned char bytes[EITP__LABELLED_RECORD_SIZE];
    eitp__labelled_window window;
    uint64_t ids = 0, values = 0, longest = 0;
    eitp__labelled_window_init(&window, file);
    for (uint64_t i = 0; i < layout->info.sample_count; i++) {
        eitp__labelled_record record;
        eitp_status status = eitp__labelled_window_record(&window, i, &record, error);
        if (status != EITP_OK)
            return status;
        if (record.first != ids || record.first_value != values)
            return eitp__labelled_fail_damaged(file, "the index of sample", i, error);
        ids += record.length;
        values += record.value_count;
        longest = record.length > longest ? record.length : longest;
        eitp__labelled_record_write(bytes, &record);
        *hash = eitp__fnv1a(*hash, bytes, sizeof bytes);
    }
    if (ids != layout->info.id_count || values != layout->value_count || longest != (uint64_t)layout->info.max_length)
        return eitp__labelled_fail_damaged(file, "the index after sample", layout->info.sample_count - 1, error);
    return EITP_OK;
}

static eitp_status eitp__labelled_check_values(const eitp_labelled_file *file, uint64_t *hash, eitp_error *error) {
    uint32_t values[EITP__LABELLED_CHUNK / EITP__LABELLED_VALUE_SIZE];
    unsigned char bytes[EITP__LABELLED_VALUE_SIZE];
    for (uint64_t first = 0; first < file->layout.value_count;) {
        const uint64_t left = file->layout.value_count - first;
        const size_t count = left < EITP__COUNT(values) ? (size_t)left : EITP__COUNT(values);
        eitp_status status = eitp__poll_ask(&file->poll)
                                 ? eitp__fail_interrupted(error)
                                 : eitp__labelled_read_values(file, first, count, values, error);
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

/* Finds the names of labels in the bytes that hold them. Returns 0 if they are not as many as there are labels. */
static int eitp__labelled_find_names(eitp_labelled_file *file) {
    const char *at = file->names, *end = file->names + file->layout.names_size;
    for (int64_t i = 0; i < file->layout.info.label_count; i++) {
        const char *zero = at < end ? (const char *)memchr(at, 0, (size_t)(end - at)) : NULL;
        if (!zero)
            return 0;
        file->labels[i] = at;
        at = zero + 1;
    }
    return at == end;
}

/* Numbers to predict may be without names. */
static eitp_status eitp__labelled_read_names(eitp_labelled_file *file, uint64_t *hash, eitp_error *error) {
    const eitp__labelled_layout *layout = &file->layout;
    const uint64_t size = layout->names_size, count = (uint64_t)layout->info.label_count;
    if (!size && (layout->info.problem == EITP_PROBLEM_REGRESSION || !count))
        return EITP_OK;
    if (size < count)
        return eitp__labelled_fail_damaged(file, "the name of label", count - 1, error);
    file->names = (char *)eitp__allocate_uninitialized(&file->host, (size_t)size);
    file->labels = (const char **)eitp__allocate_uninitialized(&file->host, (size_t)count * sizeof *file->labels);
    if (!file->names || (count && !file->labels))
        return eitp__fail_memory(error, (size_t)(size + count * sizeof *file->labels), "the names of labels");
    eitp_status status = eitp__labelled_read_bytes(file, layout->names, file->names, (size_t)size, error);
    if (status != EITP_OK)
        return status;
    *hash = eitp__fnv1a(*hash, file->names, (size_t)size);
    return eitp__labelled_find_names(file) ? EITP_OK
                                           : eitp__labelled_fail_damaged(file, "the name of label", count - 1, error);
}

static eitp_status eitp__labelled_check_content(eitp_labelled_file *file, eitp_error *error) {
    uint64_t hash = EITP__FNV_START;
    eitp_status status = eitp__labelled_check_records(file, &hash, error);
    if (status == EITP_OK)
        status = eitp__labelled_check_values(file, &hash, error);
    if (status == EITP_OK)
        status = eitp__labelled_read_names(file, &hash, error);
    if (status == EITP_OK && hash != file->layout.info.content_hash)
        return eitp__fail(error, EITP_ERROR_FORMAT,
                          "%s: the index is damaged (its hash is %016llx, expected %016llx): copy the file or pack the "
                          "examples again",
                          file->file.path, (unsigned long long)hash,
                          (unsigned long long)file->layout.info.content_hash);
    return status;
}

static eitp_status eitp__labelled_file_begin(eitp_labelled_file *file, int32_t vocabulary_size, eitp_error *error) {
    unsigned char header[EITP__LABELLED_HEADER_SIZE];
    uint64_t file_size = 0;
    size_t size = 0;
    eitp_status status = eitp__file_size(&file->file, &file_size, error);
    if (status == EITP_OK)
        status = eitp__file_read_some(&file->file, 0, header, sizeof header, &size, error);
    if (status != EITP_OK)
        return status;
    status = eitp__labelled_header_read(header, size, file_size, &file->layout, error);
    if (status != EITP_OK)
        return eitp__fail_prefix(error, status, "%s", file->file.path);
    file->limit = (uint32_t)file->layout.info.vocabulary_size;
    if (vocabulary_size && (uint32_t)vocabulary_size < file->limit)
        file->limit = (uint32_t)vocabulary_size;
    return eitp__labelled_check_content(file, error);
}

eitp_status eitp_labelled_file_open(const eitp_host *host, const char *path, int32_t vocabulary_size,
                                    eitp_labelled_file **file, eitp_error *error) {
    if (!host || !path || !file)
        return eitp__fail_null(error, "eitp_labelled_file_open", "host, path and file");
    *file = NULL;
    if (vocabulary_size < 0)
        return eitp__fail(error, EITP_ERROR_ARGUMENT,
                          "%s: vocabulary_size must be at least 0 (got %d); 0 uses the file's own", path,
                          (int)vocabulary_size);
    eitp_labelled_file *opened = (eitp_labelled_file *)eitp__allocate(host, sizeof *opened);
    if (!opened)
        return eitp__fail_memory(error, sizeof *opened, "a labelled file");
    opened->host = *host;
    eitp_status status = eitp__file_open(&opened->file, &opened->host, path, EITP_FILE_READ, error);
    if (status == EITP_OK) {
        opened->stamp = eitp__file_stamp_of(&opened->file);
        status = eitp__labelled_file_begin(opened, vocabulary_size, error);
    }
    if (status != EITP_OK) {
        eitp_labelled_file_close(opened);
        return status;
    }
    *file = opened;
    return EITP_OK;
}

void eitp_labelled_file_close(eitp_labelled_file *file) {
    if (!file)
        return;
    eitp_host host = file->host;
    eitp__file_close(&file->file, NULL);
    eitp__release(&host, file->names, (size_t)file->layout.names_size);
    eitp__release(&host, file->labels, (size_t)file->layout.info.label_count * sizeof *file->labels);
    eitp__release(&host, file, sizeof *file);
}

eitp_labelled_info eitp_labelled_file_get_info(const eitp_labelled_file *file) {
    eitp_labelled_info none = EITP__ZERO;
    return file ? file->layout.info : none;
}

/* ---- Samples ---- */

/* Decodes stored ids and checks them. */
static eitp_status eitp__labelled_decode(const eitp_labelled_file *file, uint64_t number, const unsigned char *bytes,
                                         size_t count, int32_t *ids, eitp_error *error) {
    const size_t element = (size_t)file->layout.info.element_size;
    for (size_t i = 0; i < count; i++) {
        const uint32_t id = (uint32_t)eitp__get_number(bytes + i * element, element);
        if (id >= file->limit)
            return eitp__fail(error, EITP_ERROR_FORMAT,
                              "%s: sample %llu has id %lu, but the vocabulary has %lu; the file is damaged or was "
                              "packed with another tokenizer: pack the examples again",
                              file->file.path, (unsigned long long)number, (unsigned long)id,
                              (unsigned long)file->limit);
        if (ids)
            ids[i] = (int32_t)id;
    }
    return EITP_OK;
}

/* Reads the ids of a sample and compares their checksum; `ids` NULL: only that. */
static eitp_status eitp__labelled_read_ids(const eitp_labelled_file *file, uint64_t number,
                                           const eitp__labelled_record *record, int32_t *ids, eitp_error *error) {
    unsigned char bytes[EITP__LABELLED_CHUNK];
    const size_t element = (size_t)file->layout.info.element_size, chunk = sizeof bytes / element;
    const uint64_t offset = EITP__LABELLED_HEADER_SIZE + record->first * element;
    uint32_t crc = 0;
    for (size_t done = 0; done < record->length;) {
        const size_t left = record->length - done, count = left < chunk ? left : chunk;
        eitp_status status = eitp__labelled_read_bytes(file, offset + done * element, bytes, count * element, error);
        if (status == EITP_OK)
            status = eitp__labelled_decode(file, number, bytes, count, ids ? ids + done : NULL, error);
        if (status != EITP_OK)
            return status;
        crc = eitp__crc32c(crc, bytes, count * element);
        done += count;
    }
    return crc == record->crc ? EITP_OK : eitp__labelled_fail_damaged(file, "sample", number, error);
}

/* Stores value `i` of a sample in what its problem has. */
static void eitp__labelled_store_value(eitp_problem problem, size_t i, uint32_t value, eitp_labelled_sample *sample) {
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

/* Reads labels or numbers into what the problem has of a sample, if it is wanted. */
static eitp_status eitp__labelled_read_labels(const eitp_labelled_file *file, const eitp__labelled_record *record,
                                              eitp_labelled_sample *sample, eitp_error *error) {
    const eitp_labelled_info *info = &file->layout.info;
    uint32_t values[EITP__LABELLED_CHUNK / EITP__LABELLED_VALUE_SIZE];
    sample->label = -1;
    if (info->problem == EITP_PROBLEM_TOKENS ? !sample->token_labels
                                             : info->problem != EITP_PROBLEM_SINGLE_LABEL && !sample->targets)
        return EITP_OK;
    for (int64_t i = 0; i < info->label_count && info->problem == EITP_PROBLEM_MULTI_LABEL; i++)
        sample->targets[i] = 0;
    for (size_t done = 0; done < record->value_count;) {
        const size_t left = record->value_count - done, count = left < EITP__COUNT(values) ? left : EITP__COUNT(values);
        eitp_status status = eitp__labelled_read_values(file, record->first_value + done, count, values, error);
        if (status != EITP_OK)
            return status;
        for (size_t i = 0; i < count; i++)
            eitp__labelled_store_value(info->problem, done + i, values[i], sample);
        done += count;
    }
    return EITP_OK;
}

static eitp_status eitp__labelled_read_record(const eitp_labelled_file *file, uint64_t number,
                                              eitp__labelled_record *record, eitp_error *error) {
    unsigned char bytes[EITP__LABELLED_RECORD_SIZE];
    if (number >= file->layout.info.sample_count)
        return eitp__fail(error, EITP_ERROR_ARGUMENT, "%s: sample %llu is outside the %llu samples of the file",
                          file->file.path, (unsigned long long)number,
                          (unsigned long long)file->layout.info.sample_count);
    eitp_status status = eitp__labelled_read_bytes(file, file->layout.records + number * EITP__LABELLED_RECORD_SIZE,
                                                   bytes, sizeof bytes, error);
    if (status != EITP_OK)
        return status;
    *record = eitp__labelled_record_read(bytes);
    return eitp__labelled_record_fits(record, &file->layout)
               ? EITP_OK
               : eitp__labelled_fail_damaged(file, "the index of sample", number, error);
}

eitp_status eitp_labelled_file_verify(const eitp_labelled_file *file, eitp_error *error) {
    eitp__labelled_window window;
    if (!file)
        return eitp__fail_null(error, "eitp_labelled_file_verify", "file");
    eitp__labelled_window_init(&window, file);
    for (uint64_t i = 0; i < file->layout.info.sample_count; i++) {
        eitp__labelled_record record;
        eitp_status status = eitp__labelled_window_record(&window, i, &record, error);
        if (status == EITP_OK)
            status = eitp__labelled_read_ids(file, i, &record, NULL, error);
        if (status != EITP_OK)
            return status;
    }
    return EITP_OK;
}

static eitp_status eitp__labelled_hash_names(const eitp_labelled_file *file, uint64_t *hash, eitp_error *error) {
    unsigned char bytes[EITP__LABELLED_CHUNK];
    const eitp__labelled_layout *layout = &file->layout;
    for (uint64_t done = 0; done < layout->names_size;) {
        const uint64_t left = layout->names_size - done;
        const size_t count = left < sizeof bytes ? (size_t)left : sizeof bytes;
        eitp_status status = eitp__labelled_read_bytes(file, layout->names + done, bytes, count, error);
        if (status != EITP_OK)
            return status;
        *hash = eitp__fnv1a(*hash, bytes, count);
        done += count;
    }
    return EITP_OK;
}

/* Compares everything with what it was when the file was opened. */
static eitp_status eitp__labelled_file_compare(const void *owner, eitp_error *error) {
    const eitp_labelled_file *file = (const eitp_labelled_file *)owner;
    const uint64_t expected = file->layout.info.content_hash;
    uint64_t hash = EITP__FNV_START;
    eitp_status status = eitp__labelled_check_records(file, &hash, error);
    if (status == EITP_OK)
        status = eitp__labelled_check_values(file, &hash, error);
    if (status == EITP_OK)
        status = eitp__labelled_hash_names(file, &hash, error);
    if (status == EITP_OK && hash != expected)
        return eitp__fail(error, EITP_ERROR_IO,
                          "'%s' changed while it was read: the hash of its samples is %016llx, expected %016llx; "
                          "restore it",
                          file->file.path, (unsigned long long)hash, (unsigned long long)expected);
    return status == EITP_OK ? eitp_labelled_file_verify(file, error) : status;
}

eitp_status eitp_labelled_file_read(const eitp_labelled_file *file, uint64_t number, eitp_labelled_sample *sample,
                                    eitp_error *error) {
    eitp__labelled_record record = EITP__ZERO;
    if (!file || !sample)
        return eitp__fail_null(error, "eitp_labelled_file_read", "file and sample");
    eitp_status status = eitp__labelled_read_record(file, number, &record, error);
    if (status == EITP_OK && sample->ids)
        status = eitp__labelled_read_ids(file, number, &record, sample->ids, error);
    if (status == EITP_OK)
        status = eitp__labelled_read_labels(file, &record, sample, error);
    /* The object itself is not constant: eitp_labelled_file_open has allocated it. */
    if (status == EITP_OK)
        status = eitp__file_check_stamp(&file->file, &((eitp_labelled_file *)file)->stamp, eitp__labelled_file_compare,
                                        file, error);
    if (status != EITP_OK)
        return status;
    sample->length = record.length;
    for (uint32_t i = 0; i < record.length && sample->segments; i++)
        sample->segments[i] = i >= record.boundary;
    return EITP_OK;
}

static eitp_status eitp__read_labelled_file(void *user, uint64_t number, eitp_labelled_sample *sample,
                                            eitp_error *error) {
    return eitp_labelled_file_read((const eitp_labelled_file *)user, number, sample, error);
}

eitp_labelled_source eitp_labelled_file_source(const eitp_labelled_file *file) {
    eitp_labelled_source source;
    memset(&source, 0, sizeof source);
    if (!file)
        return source;
    source.user = (void *)file; /* only read, never written */
    source.count = file->layout.info.sample_count;
    source.max_length = file->layout.info.max_length;
    source.problem = file->layout.info.problem;
    source.label_count = file->layout.info.label_count;
    source.labels = file->labels;
    source.hash = file->layout.info.content_hash ? file->layout.info.content_hash : 1;
    source.read = eitp__read_labelled_file;
    return source;
}
