#include "io/safetensors.h"
#include "base/checksum.h"
#include "base/convert.h"
#include "io/safetensors_header.h"
#include "io/weight_planes.h"

#define EITP__SAFETENSORS_CHUNK ((size_t)8 << 10)
#define EITP__SAFETENSORS_RUN ((size_t)4 << 10)             /* part of a column of a transposed matrix */
#define EITP__SAFETENSORS_CHECKED_CHUNK ((size_t)256 << 10) /* fits in the cache for its checksum */

/* Files of this size are read by two threads, in pieces of this size: copying from the system's cache, and the first
   use of memory, are slower than a fast disk. */
#define EITP__SAFETENSORS_LARGE_FILE ((uint64_t)64 << 20)
#define EITP__SAFETENSORS_LARGE_PIECE ((size_t)1 << 20)

/* ---- Opening ---- */

EITP__PRIVATE eitp_status eitp__safetensors_add(eitp__safetensors *collection, const char *path, eitp_error *error) {
    eitp__safetensors_part *part;
    void *parts = collection->parts;
    eitp_status status;
    if (!eitp__reserve(&collection->host, &parts, &collection->part_capacity, collection->part_count + 1,
                       sizeof *collection->parts))
        return eitp__fail_memory(error, sizeof *part, "a safetensors file");
    collection->parts = (eitp__safetensors_part **)parts;
    part = (eitp__safetensors_part *)eitp__allocate(&collection->host, sizeof *part);
    if (!part)
        return eitp__fail_memory(error, sizeof *part, "a safetensors file");
    collection->parts[collection->part_count++] = part;
    status = eitp__file_open(&part->file, &collection->host, path, EITP_FILE_READ, error);
    if (!status)
        status = collection->format(collection, part, error);
    if (status)
        return status;
    if (part->data_size >= EITP__SAFETENSORS_LARGE_FILE && !collection->worker &&
        eitp__worker_create(&collection->host, 1, &collection->worker, NULL))
        collection->worker = NULL; /* continue with one thread */
    return EITP_OK;
}

EITP__PRIVATE eitp_status eitp__safetensors_create(const eitp_host *host, eitp__tensor_format format,
                                                   eitp__safetensors **collection, eitp_error *error) {
    eitp__safetensors *created = (eitp__safetensors *)eitp__allocate(host, sizeof *created);
    if (!created)
        return eitp__fail_memory(error, sizeof *created, "a safetensors file");
    created->host = *host;
    created->format = format;
    *collection = created;
    return EITP_OK;
}

EITP__PRIVATE eitp_status eitp__safetensors_open_as(const eitp_host *host, const char *path, eitp__tensor_format format,
                                                    eitp__safetensors **collection, eitp_error *error) {
    eitp__safetensors *created = NULL;
    eitp_status status = eitp__safetensors_create(host, format, &created, error);
    if (!status)
        status = eitp__safetensors_add(created, path, error);
    if (status)
        eitp__safetensors_close(created);
    else
        *collection = created;
    return status;
}

EITP__PRIVATE eitp_status eitp__safetensors_open(const eitp_host *host, const char *path,
                                                 eitp__safetensors **collection, eitp_error *error) {
    return eitp__safetensors_open_as(host, path, eitp__safetensors_read_header, collection, error);
}

EITP__PRIVATE void eitp__safetensors_close(eitp__safetensors *collection) {
    eitp_host host;
    if (!collection)
        return;
    host = collection->host;
    eitp__safetensors_close(collection->lower);
    eitp__worker_destroy(collection->worker);
    for (size_t i = 0; i < collection->part_count; i++) {
        eitp__safetensors_part *part = collection->parts[i];
        eitp__file_close(&part->file, NULL);
        eitp__release(&host, part->header, part->header_size);
        eitp_json_release(part->metadata);
        eitp__release(&host, part, sizeof *part);
    }
    eitp__release(&host, collection->parts, collection->part_capacity * sizeof *collection->parts);
    eitp__release(&host, collection->entries, collection->entry_capacity * sizeof *collection->entries);
    eitp__release(&host, collection, sizeof *collection);
}

/* ---- Lower planes ---- */

EITP__PRIVATE const eitp__safetensors_entry *eitp__safetensors_lower(const eitp__safetensors *collection,
                                                                     const eitp__safetensors_entry *entry) {
    char name[512];
    if (!collection->lower || (entry->dtype != EITP_BF16 && entry->dtype != EITP_F16))
        return NULL;
    snprintf(name, sizeof name, "%s%s", eitp__lower_plane_prefix((eitp_dtype)entry->dtype), entry->name);
    return eitp__safetensors_find(collection->lower, name);
}

/* Checks each lower plane that the collection uses. */
static eitp_status eitp__check_lower(const eitp__safetensors *collection, const char *path, eitp_error *error) {
    for (size_t i = 0; i < collection->entry_count; i++) {
        const eitp__safetensors_entry *entry = &collection->entries[i];
        const eitp__safetensors_entry *lower = eitp__safetensors_lower(collection, entry);
        if (lower && (lower->dtype != (int)eitp__lower_plane_dtype((eitp_dtype)entry->dtype) ||
                      lower->count != entry->count || entry->is_transposed))
            return eitp__fail(error, EITP_ERROR_FORMAT, "%s: tensor '%.100s' does not match '%s' in dtype or shape",
                              path, lower->name, eitp__safetensors_path(collection, entry));
    }
    return EITP_OK;
}

EITP__PRIVATE eitp_status eitp__safetensors_attach(eitp__safetensors *collection, const char *path, eitp_error *error) {
    const eitp_status status = eitp__safetensors_open(&collection->host, path, &collection->lower, error);
    return status ? status : eitp__check_lower(collection, path, error);
}

/* ---- Looking up and reading ---- */

EITP__PRIVATE size_t eitp__safetensors_count(const eitp__safetensors *collection) {
    return collection->entry_count;
}

EITP__PRIVATE const eitp__safetensors_entry *eitp__safetensors_at(const eitp__safetensors *collection, size_t index) {
    return index < collection->entry_count ? &collection->entries[index] : NULL;
}

EITP__PRIVATE const eitp__safetensors_entry *eitp__safetensors_find(const eitp__safetensors *collection,
                                                                    const char *name) {
    size_t low = 0, high = collection->entry_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int order = strcmp(collection->entries[middle].name, name);
        if (!order)
            return &collection->entries[middle];
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return NULL;
}

EITP__PRIVATE const char *eitp__safetensors_path(const eitp__safetensors *collection,
                                                 const eitp__safetensors_entry *entry) {
    return collection->parts[entry->part]->file.path;
}

EITP__PRIVATE const char *eitp__safetensors_metadata(const eitp__safetensors *collection, const char *key) {
    for (size_t i = 0; i < collection->part_count; i++) {
        const eitp_json_document *document = collection->parts[i]->metadata;
        const eitp_json *text = document ? eitp_json_member(eitp_json_root(document)->first_child, key) : NULL;
        if (text)
            return text->text;
    }
    return NULL;
}

/* Checks that elements can be read, and that the range is within them. */
static eitp_status eitp__check_elements(const eitp__safetensors *collection, const eitp__safetensors_entry *entry,
                                        int64_t first, int64_t count, eitp_error *error) {
    const char *path = eitp__safetensors_path(collection, entry);
    if (!entry->element_size)
        return eitp__fail(error, EITP_ERROR_UNSUPPORTED,
                          "%s: tensor '%.100s' has unsupported dtype %s (expected F32, F16 or BF16)", path, entry->name,
                          entry->type);
    if (first < 0 || count < 0 || count > entry->count || first > entry->count - count)
        return eitp__fail(error, EITP_ERROR_ARGUMENT,
                          "%s: tensor '%.100s' has %lld elements; cannot read %lld from element %lld", path,
                          entry->name, (long long)entry->count, (long long)count, (long long)first);
    return (uint64_t)count > SIZE_MAX / entry->element_size ? eitp__fail_memory(error, SIZE_MAX, entry->name) : EITP_OK;
}

/* A part of a file that one thread reads. */
typedef struct eitp__read_range {
    eitp__file *file;
    uint64_t offset;
    unsigned char *bytes;
    size_t size;
    int sums;
    uint32_t crc; /* running */
} eitp__read_range;

static eitp_status eitp__read_range_work(void *argument, eitp_error *error) {
    eitp__read_range *range = (eitp__read_range *)argument;
    eitp_status status = EITP_OK;
    for (size_t at = 0; at < range->size && !status;) {
        const size_t left = range->size - at;
        const size_t part =
            range->sums && left > EITP__SAFETENSORS_CHECKED_CHUNK ? EITP__SAFETENSORS_CHECKED_CHUNK : left;
        status = eitp__file_read(range->file, range->offset + at, range->bytes + at, part, error);
        if (!status && range->sums)
            range->crc = eitp__crc32c(range->crc, range->bytes + at, part);
        at += part;
    }
    return status;
}

/* Reads a range, its second half in the background. */
static eitp_status eitp__read_halves(eitp__worker *worker, eitp__read_range *range, eitp_error *error) {
    eitp__read_range rest = *range;
    eitp_error second;
    eitp_status status, other;
    rest.size -= range->size /= 2;
    rest.offset += range->size;
    rest.bytes += range->size;
    rest.crc = 0;
    eitp__worker_submit(worker, eitp__read_range_work, &rest);
    status = eitp__read_range_work(range, error);
    other = eitp__worker_finish(worker, &second);
    if (!status && other && error)
        *error = second;
    range->crc = eitp__crc32c_join(range->crc, rest.crc, rest.size);
    return status ? status : other;
}

/* Reads elements [first, first + count) in the order of the file. */
static eitp_status eitp__read_stored(const eitp__safetensors *collection, const eitp__safetensors_entry *entry,
                                     int64_t first, int64_t count, void *destination, uint32_t *crc,
                                     eitp_error *error) {
    eitp__read_range range = EITP__ZERO;
    eitp_status status;
    range.file = &collection->parts[entry->part]->file;
    if (entry->read_blocks)
        return entry->read_blocks(range.file, entry, first, count, (float *)destination, error);
    range.offset = entry->offset + (uint64_t)first * entry->element_size;
    range.size = (size_t)count * entry->element_size;
    range.bytes = (unsigned char *)destination;
    range.sums = crc != NULL;
    range.crc = crc ? *crc : 0;
    status = collection->worker && range.size >= EITP__SAFETENSORS_LARGE_PIECE
                 ? eitp__read_halves(collection->worker, &range, error)
                 : eitp__read_range_work(&range, error);
    if (!status && crc)
        *crc = range.crc;
    return status;
}

/*
 * Reads elements [first, first + count) of a transposed matrix, converted to f32 if `is_f32`. Element (r, c) is number
 * c * rows + r of the file, so each column of the requested rows is one contiguous range; the first and last of these
 * rows may be partial.
 */
static eitp_status eitp__read_transposed(const eitp__safetensors *collection, const eitp__safetensors_entry *entry,
                                         int64_t first, int64_t count, int is_f32, char *destination,
                                         eitp_error *error) {
    double run[EITP__SAFETENSORS_RUN / sizeof(double)]; /* aligned for any dtype */
    float converted[EITP__SAFETENSORS_RUN / sizeof(float)];
    const int converts = is_f32 && entry->dtype != EITP_F32;
    const size_t size = is_f32 ? sizeof(float) : entry->element_size;
    const char *bytes = converts ? (const char *)converted : (const char *)run;
    const int64_t rows = entry->shape[0], columns = entry->shape[1], end = first + count;
    const int64_t max_length = (int64_t)(sizeof run / (entry->element_size < size ? size : entry->element_size));
    eitp_status status = EITP_OK;
    for (int64_t c = 0; c < columns && !status; c++) {
        const int64_t last_row = (end - c + columns - 1) / columns;
        for (int64_t r = (first - c + columns - 1) / columns; r < last_row && !status;) {
            const int64_t length = last_row - r < max_length ? last_row - r : max_length;
            char *element = destination + (size_t)(r * columns + c - first) * size;
            status = eitp__read_stored(collection, entry, c * rows + r, length, run, NULL, error);
            if (!status && converts)
                eitp__convert_to_f32((eitp_dtype)entry->dtype, run, converted, (size_t)length);
            for (int64_t i = 0; i < length && !status; i++)
                memcpy(element + (size_t)(i * columns) * size, bytes + (size_t)i * size, size);
            r += length;
        }
    }
    return status;
}

/* Returns the row of the file that has a row of heads that are stored by rotary pair. */
static int64_t eitp__paired_row(const eitp__safetensors_entry *entry, int64_t row) {
    const int64_t width = entry->shape[0] / entry->paired_heads, within = row % width, half = width / 2;
    return row - within + within % half * 2 + within / half;
}

/* Reads elements [first, first + count) of a matrix or vector whose heads are stored by rotary pair. */
static eitp_status eitp__read_paired(const eitp__safetensors *collection, const eitp__safetensors_entry *entry,
                                     int64_t first, int64_t count, char *destination, eitp_error *error) {
    const int64_t columns = entry->count / entry->shape[0], end = first + count;
    eitp_status status = EITP_OK;
    while (first < end && !status) {
        const int64_t row = first / columns, column = first % columns;
        const int64_t length = end - first < columns - column ? end - first : columns - column;
        status = eitp__read_stored(collection, entry, eitp__paired_row(entry, row) * columns + column, length,
                                   destination, NULL, error);
        destination += (size_t)length * entry->element_size;
        first += length;
    }
    return status;
}

EITP__PRIVATE eitp_status eitp__safetensors_read(const eitp__safetensors *collection,
                                                 const eitp__safetensors_entry *entry, int64_t first, int64_t count,
                                                 void *destination, uint32_t *crc, eitp_error *error) {
    const eitp_status status = eitp__check_elements(collection, entry, first, count, error);
    if (status || !count)
        return status;
    if (entry->is_transposed)
        return eitp__read_transposed(collection, entry, first, count, 0, (char *)destination, error);
    if (entry->paired_heads)
        return eitp__read_paired(collection, entry, first, count, (char *)destination, error);
    return eitp__read_stored(collection, entry, first, count, destination, crc, error);
}

/* Adds the remainders to values of BF16. */
static eitp_status eitp__read_remainders(const eitp__safetensors *collection, const eitp__safetensors_entry *lower,
                                         int64_t first, int64_t count, float *values, eitp_error *error) {
    int16_t remainders[1024];
    const int64_t most = (int64_t)EITP__COUNT(remainders);
    eitp_status status = EITP_OK;
    for (int64_t done = 0; done < count && !status; done += most) {
        const int64_t part = count - done < most ? count - done : most;
        status = eitp__safetensors_read(collection->lower, lower, first + done, part, remainders, NULL, error);
        if (!status)
            eitp__join_planes(values + done, remainders, (size_t)part);
    }
    return status;
}

/* Replaces values of F16 with the values they were rounded from. */
static eitp_status eitp__read_master(const eitp__safetensors *collection, const eitp__safetensors_entry *lower,
                                     int64_t first, int64_t count, const unsigned char *upper, float *values,
                                     eitp_error *error) {
    const eitp_status status = eitp__safetensors_read(collection->lower, lower, first, count, values, NULL, error);
    for (int64_t i = 0; i < count && !status; i++) {
        uint16_t bits;
        memcpy(&bits, upper + (size_t)i * sizeof bits, sizeof bits);
        if (eitp__f32_to_f16(values[i]) != bits)
            return eitp__fail(error, EITP_ERROR_FORMAT,
                              "%s: tensor '%.100s' does not have the values of the weights in F16",
                              eitp__safetensors_path(collection->lower, lower), lower->name);
    }
    return status;
}

/* Completes values that were read from the upper plane of an entry. */
static eitp_status eitp__read_lower(const eitp__safetensors *collection, const eitp__safetensors_entry *entry,
                                    int64_t first, int64_t count, const unsigned char *upper, float *values,
                                    eitp_error *error) {
    const eitp__safetensors_entry *lower = eitp__safetensors_lower(collection, entry);
    if (!lower)
        return EITP_OK;
    return entry->dtype == EITP_BF16 ? eitp__read_remainders(collection, lower, first, count, values, error)
                                     : eitp__read_master(collection, lower, first, count, upper, values, error);
}

EITP__PRIVATE eitp_status eitp__safetensors_read_f32(const eitp__safetensors *collection,
                                                     const eitp__safetensors_entry *entry, int64_t first, int64_t count,
                                                     float *destination, uint32_t *crc, eitp_error *error) {
    unsigned char chunk[EITP__SAFETENSORS_CHUNK];
    int64_t max_count;
    eitp_status status;
    if (entry->dtype == EITP_F32)
        return eitp__safetensors_read(collection, entry, first, count, destination, crc, error);
    if (entry->dtype < 0 || !eitp__is_floating((eitp_dtype)entry->dtype))
        return eitp__fail(error, EITP_ERROR_UNSUPPORTED,
                          "%s: tensor '%.100s' has unsupported dtype %s (expected F32, F16, BF16 or F64)",
                          eitp__safetensors_path(collection, entry), entry->name, entry->type);
    /* Checks the range before anything is stored. */
    status = eitp__check_elements(collection, entry, first, count, error);
    if (status)
        return status;
    if (entry->is_transposed && count)
        return eitp__read_transposed(collection, entry, first, count, 1, (char *)destination, error);
    max_count = (int64_t)(sizeof chunk / entry->element_size);
    while (count) {
        int64_t part = count > max_count ? max_count : count;
        status = eitp__safetensors_read(collection, entry, first, part, chunk, crc, error);
        if (status)
            return status;
        eitp__convert_to_f32((eitp_dtype)entry->dtype, chunk, destination, (size_t)part);
        status = eitp__read_lower(collection, entry, first, part, chunk, destination, error);
        if (status)
            return status;
        destination += part;
        first += part;
        count -= part;
    }
    return EITP_OK;
}

/* ---- The sum of the file ---- */

/* A checksum is linear: a file's checksum is the exclusive or of its parts' checksums, each extended by zeros to the
   end of the file. So tensors can be added in any order. */
EITP__PRIVATE void eitp__safetensors_add_sum(const eitp__safetensors *collection, const eitp__safetensors_entry *entry,
                                             uint32_t crc) {
    eitp__safetensors_part *part = collection->parts[entry->part];
    const uint64_t end = part->data_start + part->data_size;
    part->crc ^= eitp__crc32c_join(crc, 0, end - entry->offset - entry->size);
}

EITP__PRIVATE eitp__file_sum eitp__safetensors_sum(const eitp__safetensors *collection) {
    const eitp__safetensors_part *part = collection->parts[0];
    eitp__file_sum sum;
    sum.size = part->data_start + part->data_size;
    sum.crc = part->crc;
    return sum;
}
