#include "data/labelled_part.h"

#include "base/checksum.h"
#include "base/little_endian.h"
#include "base/memory.h"
#include "base/sort.h"

EITP__PRIVATE eitp_status eitp__labelled_part_allocate(const eitp_sample_file *file, uint64_t count,
                                                       eitp_labelled_part **part, eitp_error *error) {
    eitp_labelled_part *created = (eitp_labelled_part *)eitp__allocate(&file->host, sizeof *created);
    size_t bytes = 0;
    if (!created)
        return eitp__fail_memory(error, sizeof *created, "a part of a labelled file");
    created->host = file->host;
    created->file = file;
    if (count <= SIZE_MAX && eitp__multiply_size((size_t)count, sizeof *created->samples, &bytes))
        created->samples = (uint64_t *)eitp__allocate_uninitialized(&file->host, bytes);
    if (count && !created->samples) {
        eitp__release(&file->host, created, sizeof *created);
        return eitp__fail_memory(error, bytes, "the list of a part of a labelled file");
    }
    created->count = count;
    *part = created;
    return EITP_OK;
}

static void eitp__labelled_part_measure(eitp_labelled_part *part, const eitp__sample_record *record) {
    const int64_t length = record->length, first = record->boundary;
    part->max_length = length > part->max_length ? length : part->max_length;
    if (!part->file->layout.info.second_vocabulary)
        return;
    part->max_first = first > part->max_first ? first : part->max_first;
    part->max_second = length - first > part->max_second ? length - first : part->max_second;
}

EITP__PRIVATE eitp_status eitp__labelled_part_finish(eitp_labelled_part *part, eitp_error *error) {
    eitp__index_reader reader;
    unsigned char bytes[8];
    eitp__put_number(bytes, sizeof bytes, part->file->layout.info.content_hash);
    uint64_t hash = eitp__fnv1a(EITP__FNV_START, bytes, sizeof bytes);
    eitp__index_reader_init(&reader, part->file);
    for (uint64_t i = 0; i < part->count; i++) {
        eitp__sample_record record;
        eitp_status status = eitp__index_reader_record(&reader, part->samples[i], &record, error);
        if (status != EITP_OK)
            return status;
        eitp__labelled_part_measure(part, &record);
        eitp__put_number(bytes, sizeof bytes, part->samples[i]);
        hash = eitp__fnv1a(hash, bytes, sizeof bytes);
    }
    part->hash = hash ? hash : 1;
    return EITP_OK;
}

EITP__PRIVATE eitp_status eitp__fail_no_samples(const eitp_sample_file *file, eitp_error *error) {
    return eitp__fail(error, EITP_ERROR_ARGUMENT,
                      "%s: the file has tokens, but no samples; create one with eitp_labelled_pack", file->file.path);
}

eitp_status eitp_labelled_part_create(const eitp_sample_file *file, const uint64_t *samples, uint64_t count,
                                      eitp_labelled_part **part, eitp_error *error) {
    eitp_labelled_part *created = NULL;
    if (!file || !part || (count && !samples))
        return eitp__fail_null(error, "eitp_labelled_part_create", "file, part and, with a count, samples");
    *part = NULL;
    const uint64_t all = file->layout.info.sample_count;
    if (!all)
        return eitp__fail_no_samples(file, error);
    for (uint64_t i = 0; i < count; i++) {
        if (samples[i] >= all)
            return eitp__fail(error, EITP_ERROR_ARGUMENT, "sample %llu is outside the %llu samples of the file",
                              (unsigned long long)samples[i], (unsigned long long)all);
    }
    eitp_status status = eitp__labelled_part_allocate(file, samples ? count : all, &created, error);
    if (status != EITP_OK)
        return status;
    for (uint64_t i = 0; i < created->count; i++)
        created->samples[i] = samples ? samples[i] : i;
    status = eitp__labelled_part_finish(created, error);
    if (status != EITP_OK)
        eitp_labelled_part_destroy(created);
    else
        *part = created;
    return status;
}

void eitp_labelled_part_destroy(eitp_labelled_part *part) {
    if (!part)
        return;
    eitp_host host = part->host;
    eitp__release(&host, part->samples, (size_t)part->count * sizeof *part->samples);
    eitp__release(&host, part, sizeof *part);
}

static eitp_status eitp__read_labelled_part(void *user, uint64_t number, eitp_labelled_sample *sample,
                                            eitp_error *error) {
    const eitp_labelled_part *part = (const eitp_labelled_part *)user;
    if (number >= part->count)
        return eitp__fail(error, EITP_ERROR_ARGUMENT, "sample %llu is outside the %llu samples of the part",
                          (unsigned long long)number, (unsigned long long)part->count);
    return eitp_sample_file_read_sample(part->file, part->samples[number], sample, error);
}

eitp_labelled_source eitp_labelled_part_source(const eitp_labelled_part *part) {
    eitp_labelled_source source = eitp_sample_file_labelled_source(part ? part->file : NULL);
    if (!part)
        return source;
    source.user = (void *)part; /* only read, never written */
    source.count = part->count;
    source.max_length = part->max_length;
    source.max_first = part->max_first;
    source.max_second = part->max_second;
    source.hash = part->hash;
    source.read = eitp__read_labelled_part;
    return source;
}

/* ---- Text in two parts ---- */

static int eitp__compare_text_hashes(const void *a, const void *b) {
    const uint64_t left = *(const uint64_t *)a, right = *(const uint64_t *)b;
    return left < right ? -1 : left > right;
}

static int eitp__has_text_hash(const uint64_t *sorted, uint64_t count, uint64_t hash) {
    uint64_t low = 0, high = count;
    while (low < high) {
        const uint64_t middle = low + (high - low) / 2;
        if (sorted[middle] < hash)
            low = middle + 1;
        else
            high = middle;
    }
    return low < count && sorted[low] == hash;
}

EITP__PRIVATE eitp_status eitp__labelled_overlap(const eitp_labelled_part *training,
                                                 const eitp_labelled_part *validation, uint64_t *count,
                                                 eitp_error *error) {
    eitp__sample_record record = EITP__ZERO;
    eitp__index_reader reader;
    eitp_status status = EITP_OK;
    uint64_t found = 0;
    if (!training || !validation || !count)
        return eitp__fail_null(error, "eitp__labelled_overlap", "training, validation and count");
    const size_t bytes = (size_t)training->count * sizeof(uint64_t);
    uint64_t *hashes = (uint64_t *)eitp__allocate_uninitialized(&training->host, bytes);
    if (bytes && !hashes)
        return eitp__fail_memory(error, bytes, "comparing the parts of a labelled file");
    eitp__index_reader_init(&reader, training->file);
    for (uint64_t i = 0; i < training->count && status == EITP_OK; i++) {
        status = eitp__index_reader_record(&reader, training->samples[i], &record, error);
        hashes[i] = record.text_hash;
    }
    eitp__sort(hashes, (size_t)training->count, sizeof *hashes, eitp__compare_text_hashes);
    eitp__index_reader_init(&reader, validation->file);
    for (uint64_t i = 0; i < validation->count && status == EITP_OK; i++) {
        status = eitp__index_reader_record(&reader, validation->samples[i], &record, error);
        found += status == EITP_OK && eitp__has_text_hash(hashes, training->count, record.text_hash);
    }
    eitp__release(&training->host, hashes, bytes);
    if (status == EITP_OK)
        *count = found;
    return status;
}
