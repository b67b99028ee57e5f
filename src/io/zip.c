#include "io/zip.h"
#include "base/little_endian.h"
#include "base/sort.h"

/* Sizes of records, without names, extra fields and comments. */
#define EITP__ZIP_LOCAL_HEADER 30u
#define EITP__ZIP_CENTRAL_HEADER 46u
#define EITP__ZIP_END 22u
#define EITP__ZIP64_LOCATOR 20u
#define EITP__ZIP64_END 56u

#define EITP__ZIP_LOCAL_SIGNATURE 0x04034b50u
#define EITP__ZIP_CENTRAL_SIGNATURE 0x02014b50u
#define EITP__ZIP_END_SIGNATURE 0x06054b50u
#define EITP__ZIP64_LOCATOR_SIGNATURE 0x07064b50u
#define EITP__ZIP64_END_SIGNATURE 0x06064b50u

#define EITP__ZIP64_NUMBERS 1u            /* id of the extra field with numbers of 64 bits */
#define EITP__ZIP_IN_ZIP64 0xffffffffu    /* a 32-bit number that is in a zip64 record instead */
#define EITP__ZIP_COUNT_IN_ZIP64 0xffffu  /* the same for 16 bits */
#define EITP__ZIP_MAX_DIRECTORY 16777216u /* 160,000 entries */

/* The location of the central directory. */
typedef struct eitp__zip_span {
    uint64_t offset, size, count;
    uint64_t limit; /* offset of the record after it, or of a later one */
} eitp__zip_span;

/* Replaces the numbers of the end record with those in the zip64 record, whose locator is in front of it. */
static eitp_status eitp__zip_read_end64(eitp__file *file, const unsigned char *locator, eitp__zip_span *span,
                                        eitp_error *error) {
    unsigned char end[EITP__ZIP64_END] = {0};
    const uint64_t at = eitp__get_number(locator + 8, 8);
    const int is_located = eitp__get_number(locator, 4) == EITP__ZIP64_LOCATOR_SIGNATURE && span->limit >= sizeof end &&
                           at <= span->limit - sizeof end;
    eitp_status status = is_located ? eitp__file_read(file, at, end, sizeof end, error) : EITP_OK;
    if (status)
        return status;
    if (eitp__get_number(end, 4) != EITP__ZIP64_END_SIGNATURE)
        return eitp__fail(error, EITP_ERROR_FORMAT, "the zip archive has no valid zip64 record; download it again");
    span->count = eitp__get_number(end + 32, 8);
    span->size = eitp__get_number(end + 40, 8);
    span->offset = eitp__get_number(end + 48, 8);
    span->limit = at;
    return EITP_OK;
}

/* Finds the central directory by the records at the end of the file. */
static eitp_status eitp__zip_read_end(eitp__file *file, eitp__zip_span *span, eitp_error *error) {
    unsigned char bytes[EITP__ZIP64_LOCATOR + EITP__ZIP_END] = {0};
    const unsigned char *end = bytes + EITP__ZIP64_LOCATOR;
    uint64_t size = 0;
    eitp_status status = eitp__file_size(file, &size, error);
    if (!status && size >= sizeof bytes)
        status = eitp__file_read(file, size - sizeof bytes, bytes, sizeof bytes, error);
    if (status)
        return status;
    if (eitp__get_number(end, 4) != EITP__ZIP_END_SIGNATURE)
        return eitp__fail(error, EITP_ERROR_FORMAT,
                          "the end of the zip archive is missing; the file is truncated: download it again");
    span->count = eitp__get_number(end + 10, 2);
    span->size = eitp__get_number(end + 12, 4);
    span->offset = eitp__get_number(end + 16, 4);
    span->limit = size - sizeof bytes;
    if (span->count == EITP__ZIP_COUNT_IN_ZIP64 || span->size == EITP__ZIP_IN_ZIP64 ||
        span->offset == EITP__ZIP_IN_ZIP64)
        status = eitp__zip_read_end64(file, bytes, span, error);
    else
        span->limit = size - EITP__ZIP_END;
    if (status)
        return status;
    if (span->offset > span->limit || span->size > span->limit - span->offset ||
        span->count > span->size / EITP__ZIP_CENTRAL_HEADER)
        return eitp__fail(error, EITP_ERROR_FORMAT,
                          "the zip directory of %llu entries (%llu bytes at %llu) does not fit the file; download it "
                          "again",
                          (unsigned long long)span->count, (unsigned long long)span->size,
                          (unsigned long long)span->offset);
    if (span->size > EITP__ZIP_MAX_DIRECTORY)
        return eitp__fail(error, EITP_ERROR_FORMAT, "the zip directory has %llu bytes; the limit is %u",
                          (unsigned long long)span->size, EITP__ZIP_MAX_DIRECTORY);
    return EITP_OK;
}

/* Replaces the numbers that 32 bits cannot hold with those in the zip64 extra field, which contains only these, in this
   order. Returns 0 if it lacks one. */
static int eitp__zip_widen(const unsigned char *extra, size_t size, uint64_t *const numbers[3]) {
    size_t left = 0;
    while (size >= 4 && !left) {
        const size_t length = (size_t)eitp__get_number(extra + 2, 2);
        if (length > size - 4)
            return 0;
        if (eitp__get_number(extra, 2) == EITP__ZIP64_NUMBERS)
            left = length;
        extra += left ? 4 : 4 + length;
        size -= 4 + length;
    }
    for (int i = 0; i < 3; i++) {
        if (*numbers[i] != EITP__ZIP_IN_ZIP64)
            continue;
        if (left < 8)
            return 0;
        *numbers[i] = eitp__get_number(extra, 8);
        extra += 8;
        left -= 8;
    }
    return 1;
}

/* Reads the central header at `at`, and moves `at` to the next one. */
static eitp_status eitp__zip_read_central(const eitp__zip *zip, size_t *at, eitp__zip_entry *entry, eitp_error *error) {
    unsigned char *header = (unsigned char *)zip->directory + *at;
    const size_t left = zip->directory_size - *at;
    size_t name_size, extra_size, size;
    uint64_t whole;
    uint64_t *const numbers[3] = {&whole, &entry->size, &entry->header};
    if (left < EITP__ZIP_CENTRAL_HEADER || eitp__get_number(header, 4) != EITP__ZIP_CENTRAL_SIGNATURE)
        return eitp__fail(error, EITP_ERROR_FORMAT, "byte %zu of the zip directory does not start an entry", *at);
    name_size = (size_t)eitp__get_number(header + 28, 2);
    extra_size = (size_t)eitp__get_number(header + 30, 2);
    size = EITP__ZIP_CENTRAL_HEADER + name_size + extra_size + (size_t)eitp__get_number(header + 32, 2);
    entry->size = eitp__get_number(header + 20, 4);
    whole = eitp__get_number(header + 24, 4);
    entry->header = eitp__get_number(header + 42, 4);
    if (size > left || !eitp__zip_widen(header + EITP__ZIP_CENTRAL_HEADER + name_size, extra_size, numbers))
        return eitp__fail(error, EITP_ERROR_FORMAT, "byte %zu of the zip directory: the entry is cut off", *at);
    entry->is_stored = !eitp__get_number(header + 10, 2) && !(eitp__get_number(header + 8, 2) & 1);
    if (entry->is_stored && entry->size != whole)
        return eitp__fail(error, EITP_ERROR_FORMAT,
                          "byte %zu of the zip directory: %llu bytes are stored for an entry of %llu", *at,
                          (unsigned long long)entry->size, (unsigned long long)whole);
    /* The name moves over the last byte of the header, which has been read, to make room for its zero byte. */
    entry->name = (char *)header + EITP__ZIP_CENTRAL_HEADER - 1;
    memmove(header + EITP__ZIP_CENTRAL_HEADER - 1, header + EITP__ZIP_CENTRAL_HEADER, name_size);
    header[EITP__ZIP_CENTRAL_HEADER - 1 + name_size] = 0;
    *at += size;
    return EITP_OK;
}

static eitp_status eitp__zip_read_directory(eitp__file *file, eitp__zip *zip, const eitp__zip_span *span,
                                            eitp_error *error) {
    eitp_status status;
    size_t at = 0;
    zip->directory = (char *)eitp__allocate_uninitialized(zip->host, (size_t)span->size);
    if (span->size && !zip->directory)
        return eitp__fail_memory(error, (size_t)span->size, "the directory of a zip archive");
    zip->directory_size = (size_t)span->size;
    zip->entries = (eitp__zip_entry *)eitp__allocate(zip->host, (size_t)span->count * sizeof *zip->entries);
    if (span->count && !zip->entries)
        return eitp__fail_memory(error, (size_t)span->count * sizeof *zip->entries, "the directory of a zip archive");
    zip->count = (size_t)span->count;
    status = zip->count ? eitp__file_read(file, span->offset, zip->directory, zip->directory_size, error) : EITP_OK;
    for (size_t i = 0; i < zip->count && !status; i++)
        status = eitp__zip_read_central(zip, &at, &zip->entries[i], error);
    if (!status && at != zip->directory_size)
        status = eitp__fail(error, EITP_ERROR_FORMAT, "the zip directory has %zu bytes after its %zu entries",
                            zip->directory_size - at, zip->count);
    return status;
}

static int eitp__zip_compare_headers(const void *left, const void *right) {
    const eitp__zip_entry *a = (const eitp__zip_entry *)left, *b = (const eitp__zip_entry *)right;
    return a->header < b->header ? -1 : a->header > b->header;
}

static int eitp__zip_compare_names(const void *left, const void *right) {
    const eitp__zip_entry *a = (const eitp__zip_entry *)left, *b = (const eitp__zip_entry *)right;
    return strcmp(a->name, b->name);
}

/* Reads the local header of an entry. The header and the entry's bytes must lie before `end`. */
static eitp_status eitp__zip_locate(eitp__file *file, eitp__zip_entry *entry, uint64_t end, eitp_error *error) {
    unsigned char header[EITP__ZIP_LOCAL_HEADER] = {0};
    const int fits = end >= sizeof header && entry->header <= end - sizeof header;
    eitp_status status = fits ? eitp__file_read(file, entry->header, header, sizeof header, error) : EITP_OK;
    if (status)
        return status;
    entry->offset = entry->header + sizeof header + eitp__get_number(header + 26, 2) + eitp__get_number(header + 28, 2);
    if (!fits || eitp__get_number(header, 4) != EITP__ZIP_LOCAL_SIGNATURE || entry->offset > end ||
        entry->size > end - entry->offset)
        return eitp__fail(error, EITP_ERROR_FORMAT,
                          "'%.100s' (%llu bytes at %llu) does not fit its place in the zip archive; download it again",
                          entry->name, (unsigned long long)entry->size, (unsigned long long)entry->header);
    return EITP_OK;
}

EITP__PRIVATE eitp_status eitp__zip_open(eitp__file *file, eitp__zip *zip, eitp_error *error) {
    eitp__zip_span span = EITP__ZERO;
    eitp_status status = eitp__zip_read_end(file, &span, error);
    memset(zip, 0, sizeof *zip);
    zip->host = file->host;
    if (!status)
        status = eitp__zip_read_directory(file, zip, &span, error);
    if (!status)
        eitp__sort(zip->entries, zip->count, sizeof *zip->entries, eitp__zip_compare_headers);
    for (size_t i = 0; i < zip->count && !status; i++) {
        const uint64_t end = i + 1 < zip->count ? zip->entries[i + 1].header : span.offset;
        status = eitp__zip_locate(file, &zip->entries[i], end < span.offset ? end : span.offset, error);
    }
    if (!status)
        eitp__sort(zip->entries, zip->count, sizeof *zip->entries, eitp__zip_compare_names);
    for (size_t i = 1; i < zip->count && !status; i++) {
        if (!strcmp(zip->entries[i - 1].name, zip->entries[i].name))
            status =
                eitp__fail(error, EITP_ERROR_FORMAT, "the zip archive has two entries '%.100s'", zip->entries[i].name);
    }
    return status;
}

EITP__PRIVATE void eitp__zip_close(eitp__zip *zip) {
    if (!zip->host)
        return;
    eitp__release(zip->host, zip->directory, zip->directory_size);
    eitp__release(zip->host, zip->entries, zip->count * sizeof *zip->entries);
    memset(zip, 0, sizeof *zip);
}

EITP__PRIVATE const eitp__zip_entry *eitp__zip_find(const eitp__zip *zip, const char *name) {
    size_t low = 0, high = zip->count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        const int order = strcmp(zip->entries[middle].name, name);
        if (!order)
            return &zip->entries[middle];
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return NULL;
}
