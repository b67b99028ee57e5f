#include "gguf/gguf.h"
#include "base/little_endian.h"
#include "base/sort.h"

/*
 * A file is: "GGUF", version (u32), number of tensors and of keys (u64 each); the keys, each with the type of its value
 * (u32) and the value; the tensors, each with its name, rank (u32), sizes, innermost first (u64), type (u32) and offset
 * in the data (u64); padding to the alignment; the data, each tensor padded to the alignment. A string is its length
 * (u64) and its bytes, an array the type of its elements (u32), their number (u64) and the elements. Versions 2 and 3
 * differ only in that 3 may be big-endian.
 */
#define EITP__GGUF_FIRST_READ ((size_t)256 << 10)
#define EITP__GGUF_MAX_NAME ((uint64_t)255)
#define EITP__GGUF_MAX_KEY ((uint64_t)65535)
#define EITP__GGUF_SMALLEST_TENSOR ((uint64_t)24) /* bytes of a tensor's entry without its name and sizes */

/* The part of a header that was read so far. */
typedef struct eitp__gguf_cursor {
    const unsigned char *bytes;
    size_t size, at;
    int ended; /* something lies beyond `size` */
} eitp__gguf_cursor;

/* Returns the next bytes, or NULL if they lie beyond the bytes that were read. */
static const unsigned char *eitp__gguf_take(eitp__gguf_cursor *cursor, uint64_t size) {
    if (cursor->ended || size > cursor->size - cursor->at) {
        cursor->ended = 1;
        return NULL;
    }
    cursor->at += (size_t)size;
    return cursor->bytes + (cursor->at - (size_t)size);
}

static uint64_t eitp__gguf_take_number(eitp__gguf_cursor *cursor, size_t size) {
    const unsigned char *bytes = eitp__gguf_take(cursor, size);
    return bytes ? eitp__get_number(bytes, size) : 0;
}

static eitp__gguf_text eitp__gguf_take_text(eitp__gguf_cursor *cursor) {
    const uint64_t size = eitp__gguf_take_number(cursor, 8);
    eitp__gguf_text text;
    text.data = (const char *)eitp__gguf_take(cursor, size);
    text.size = text.data ? (size_t)size : 0;
    return text;
}

static int eitp__gguf_excerpt(eitp__gguf_text text) {
    return text.size < 80 ? (int)text.size : 80;
}

/* ---- Keys ---- */

/* Skips the elements of a value. */
static void eitp__gguf_skip(eitp__gguf_cursor *cursor, const eitp__gguf_value *value) {
    if (value->kind != EITP__GGUF_STRING) {
        const uint64_t size = eitp__gguf_kind_size(value->kind);
        eitp__gguf_take(cursor, value->count > UINT64_MAX / size ? UINT64_MAX : value->count * size);
        return;
    }
    for (uint64_t i = 0; i < value->count && !cursor->ended; i++)
        eitp__gguf_take_text(cursor);
}

static eitp_status eitp__gguf_read_value(eitp__gguf_cursor *cursor, eitp__gguf_value *value, eitp_error *error) {
    uint64_t kind;
    value->key = eitp__gguf_take_text(cursor);
    kind = eitp__gguf_take_number(cursor, 4);
    value->is_array = kind == EITP__GGUF_ARRAY;
    value->count = 1;
    if (value->is_array) {
        kind = eitp__gguf_take_number(cursor, 4);
        value->count = eitp__gguf_take_number(cursor, 8);
    }
    if (cursor->ended)
        return EITP_OK;
    if (!value->key.size || value->key.size > EITP__GGUF_MAX_KEY)
        return eitp__fail(error, EITP_ERROR_FORMAT, "a key has %zu bytes", value->key.size);
    if (kind == EITP__GGUF_ARRAY)
        return eitp__fail(error, EITP_ERROR_UNSUPPORTED, "key '%.*s': unsupported array of arrays",
                          eitp__gguf_excerpt(value->key), value->key.data);
    if (kind >= EITP__GGUF_KINDS)
        return eitp__fail(error, EITP_ERROR_FORMAT, "key '%.*s' has unknown value type %llu",
                          eitp__gguf_excerpt(value->key), value->key.data, (unsigned long long)kind);
    value->kind = (eitp__gguf_kind)kind;
    value->at = cursor->bytes + cursor->at;
    eitp__gguf_skip(cursor, value);
    return EITP_OK;
}

static eitp_status eitp__gguf_read_values(eitp__gguf *gguf, eitp__gguf_cursor *cursor, uint64_t count,
                                          eitp_error *error) {
    eitp_status status = EITP_OK;
    gguf->value_count = 0;
    for (uint64_t i = 0; i < count && !cursor->ended && !status; i++) {
        void *values = gguf->values;
        if (!eitp__reserve(&gguf->host, &values, &gguf->value_capacity, (size_t)i + 1, sizeof *gguf->values))
            return eitp__fail_memory(error, ((size_t)i + 1) * sizeof *gguf->values, "the keys of a GGUF file");
        gguf->values = (eitp__gguf_value *)values;
        memset(&gguf->values[i], 0, sizeof *gguf->values);
        status = eitp__gguf_read_value(cursor, &gguf->values[i], error);
        gguf->value_count += !status;
    }
    return status;
}

static int eitp__gguf_compare_keys(const void *a, const void *b) {
    return eitp__gguf_compare_texts(((const eitp__gguf_value *)a)->key, ((const eitp__gguf_value *)b)->key);
}

/* Sorts the keys, which must be unique. */
static eitp_status eitp__gguf_sort_values(eitp__gguf *gguf, eitp_error *error) {
    eitp__sort(gguf->values, gguf->value_count, sizeof *gguf->values, eitp__gguf_compare_keys);
    for (size_t i = 1; i < gguf->value_count; i++) {
        const eitp__gguf_text key = gguf->values[i].key;
        if (!eitp__gguf_compare_texts(gguf->values[i - 1].key, key))
            return eitp__fail(error, EITP_ERROR_FORMAT, "key '%.*s' appears twice", eitp__gguf_excerpt(key), key.data);
    }
    return EITP_OK;
}

/* ---- Tensors ---- */

/* Reads the sizes of a tensor, and computes its elements and bytes. */
static eitp_status eitp__gguf_read_shape(eitp__gguf_cursor *cursor, eitp__gguf_tensor *tensor, eitp_error *error) {
    const uint64_t rank = eitp__gguf_take_number(cursor, 4);
    if (rank > EITP__GGUF_MAX_RANK)
        return eitp__fail(error, EITP_ERROR_FORMAT, "has %llu dimensions; a GGUF file allows %d",
                          (unsigned long long)rank, EITP__GGUF_MAX_RANK);
    tensor->rank = (int)rank;
    tensor->count = 1;
    for (int d = tensor->rank - 1; d >= 0; d--) {
        const uint64_t size = eitp__gguf_take_number(cursor, 8);
        if (size > INT64_MAX || __builtin_mul_overflow(tensor->count, (int64_t)size, &tensor->count))
            return eitp__fail(error, EITP_ERROR_FORMAT, "has more elements than 64 bits can count");
        tensor->shape[d] = (int64_t)size;
    }
    return EITP_OK;
}

/* Reads the type; a row must be whole blocks, as rows are stored one after the other. */
static eitp_status eitp__gguf_read_type(eitp__gguf_cursor *cursor, eitp__gguf_tensor *tensor, eitp_error *error) {
    const uint32_t number = (uint32_t)eitp__gguf_take_number(cursor, 4);
    const int64_t row = tensor->rank ? tensor->shape[tensor->rank - 1] : 1;
    uint64_t blocks;
    if (cursor->ended)
        return EITP_OK;
    tensor->type = eitp__gguf_type_find(number);
    if (!tensor->type)
        return eitp__fail(error, EITP_ERROR_UNSUPPORTED, "has unknown type number %lu", (unsigned long)number);
    if (row % tensor->type->values)
        return eitp__fail(error, EITP_ERROR_FORMAT, "has rows of %lld values, which %s blocks of %d do not divide",
                          (long long)row, tensor->type->name, tensor->type->values);
    blocks = (uint64_t)(tensor->count / tensor->type->values);
    if (__builtin_mul_overflow(blocks, (uint64_t)tensor->type->bytes, &tensor->size))
        return eitp__fail(error, EITP_ERROR_FORMAT, "has more bytes than 64 bits can count");
    return EITP_OK;
}

static eitp_status eitp__gguf_read_tensor(eitp__gguf_cursor *cursor, eitp__gguf_tensor *tensor, eitp_error *error) {
    eitp_status status;
    tensor->name = eitp__gguf_take_text(cursor);
    if (cursor->ended)
        return EITP_OK;
    if (!tensor->name.size || tensor->name.size > EITP__GGUF_MAX_NAME)
        return eitp__fail(error, EITP_ERROR_FORMAT, "a tensor's name has %zu bytes", tensor->name.size);
    status = eitp__gguf_read_shape(cursor, tensor, error);
    if (!status)
        status = eitp__gguf_read_type(cursor, tensor, error);
    tensor->offset = eitp__gguf_take_number(cursor, 8);
    return status == EITP_OK
               ? status
               : eitp__fail_prefix(error, status, "tensor '%.*s'", eitp__gguf_excerpt(tensor->name), tensor->name.data);
}

/* Reads the tensors of the last file, from number `first` on. */
static eitp_status eitp__gguf_read_tensors(eitp__gguf *gguf, eitp__gguf_cursor *cursor, size_t first, uint64_t count,
                                           eitp_error *error) {
    eitp_status status = EITP_OK;
    gguf->tensor_count = first;
    for (uint64_t i = 0; i < count && !cursor->ended && !status; i++) {
        void *tensors = gguf->tensors;
        eitp__gguf_tensor *tensor;
        if (!eitp__reserve(&gguf->host, &tensors, &gguf->tensor_capacity, gguf->tensor_count + 1, sizeof *tensor))
            return eitp__fail_memory(error, (gguf->tensor_count + 1) * sizeof *tensor, "the tensors of a GGUF file");
        gguf->tensors = (eitp__gguf_tensor *)tensors;
        tensor = &gguf->tensors[gguf->tensor_count];
        memset(tensor, 0, sizeof *tensor);
        tensor->file = gguf->file_count - 1;
        status = eitp__gguf_read_tensor(cursor, tensor, error);
        gguf->tensor_count += !status;
    }
    return status;
}

/* Returns the bytes up to the next multiple of the alignment, a power of two. */
static uint64_t eitp__gguf_padding(uint64_t at, uint64_t alignment) {
    return (alignment - at % alignment) % alignment;
}

/* Replaces the offsets of a file's tensors in its data by those in the file. Each tensor follows the one before it. */
static eitp_status eitp__gguf_place_tensors(eitp__gguf *gguf, size_t first, uint64_t start, uint64_t alignment,
                                            eitp_error *error) {
    const uint64_t size = gguf->files[gguf->file_count - 1].size, room = size > start ? size - start : 0;
    uint64_t at = 0;
    for (size_t i = first; i < gguf->tensor_count; i++) {
        eitp__gguf_tensor *tensor = &gguf->tensors[i];
        if (tensor->offset != at)
            return eitp__fail(error, EITP_ERROR_FORMAT, "tensor '%.*s' is at byte %llu of the data, expected %llu",
                              eitp__gguf_excerpt(tensor->name), tensor->name.data, (unsigned long long)tensor->offset,
                              (unsigned long long)at);
        if (at > room || tensor->size > room - at)
            return eitp__fail(error, EITP_ERROR_FORMAT,
                              "tensor '%.*s' ends after the file; the file is truncated: download it again",
                              eitp__gguf_excerpt(tensor->name), tensor->name.data);
        tensor->offset += start;
        at += tensor->size + eitp__gguf_padding(tensor->size, alignment);
    }
    return EITP_OK;
}

/* ---- The header ---- */

/* Reads "GGUF", the version and the numbers of tensors and keys. */
static eitp_status eitp__gguf_read_start(const eitp__gguf_file *file, eitp__gguf_cursor *cursor, uint64_t counts[2],
                                         eitp_error *error) {
    const unsigned char *magic = eitp__gguf_take(cursor, 4);
    const uint64_t version = eitp__gguf_take_number(cursor, 4);
    if (!magic || memcmp(magic, "GGUF", 4)) {
        const eitp_status status =
            eitp__check_lfs_pointer(file->path, (const char *)cursor->bytes, cursor->size, error);
        return status ? status : eitp__fail(error, EITP_ERROR_FORMAT, "not a GGUF file");
    }
    if (version == 0x02000000 || version == 0x03000000)
        return eitp__fail(error, EITP_ERROR_UNSUPPORTED, "unsupported: its numbers are big-endian");
    if (!cursor->ended && version != 2 && version != 3)
        return eitp__fail(error, EITP_ERROR_UNSUPPORTED, "unsupported GGUF version %llu (supported: 2 and 3)",
                          (unsigned long long)version);
    counts[0] = eitp__gguf_take_number(cursor, 8);
    counts[1] = eitp__gguf_take_number(cursor, 8);
    if (!cursor->ended && (counts[1] > EITP__GGUF_MAX_KEYS || counts[0] > file->size / EITP__GGUF_SMALLEST_TENSOR))
        return eitp__fail(error, EITP_ERROR_FORMAT, "states %llu keys and %llu tensors, more than it can have",
                          (unsigned long long)counts[1], (unsigned long long)counts[0]);
    return EITP_OK;
}

static eitp_status eitp__gguf_get_alignment(const eitp__gguf *gguf, int64_t *alignment, eitp_error *error) {
    eitp_status status = eitp__gguf_get_integer(gguf, "general.alignment", 1, (int64_t)1 << 30, alignment, error);
    if (!status && (*alignment & (*alignment - 1)))
        status = eitp__fail(error, EITP_ERROR_FORMAT, "general.alignment is %lld, which is not a power of two",
                            (long long)*alignment);
    return status;
}

/* Parses the header of the last file as far as it was read; *ended is 1 if it continues. */
static eitp_status eitp__gguf_parse(eitp__gguf *gguf, size_t first_tensor, int *ended, eitp_error *error) {
    const eitp__gguf_file *file = &gguf->files[gguf->file_count - 1];
    eitp__gguf_cursor cursor = EITP__ZERO;
    uint64_t counts[2] = {0, 0};
    int64_t alignment = 32;
    eitp_status status;
    cursor.bytes = file->header;
    cursor.size = file->header_size;
    status = eitp__gguf_read_start(file, &cursor, counts, error);
    if (!status)
        status = eitp__gguf_read_values(gguf, &cursor, counts[1], error);
    if (!status)
        status = eitp__gguf_read_tensors(gguf, &cursor, first_tensor, counts[0], error);
    *ended = cursor.ended;
    if (status || cursor.ended)
        return status;
    status = eitp__gguf_sort_values(gguf, error);
    if (!status)
        status = eitp__gguf_get_alignment(gguf, &alignment, error);
    return status ? status
                  : eitp__gguf_place_tensors(gguf, first_tensor,
                                             cursor.at + eitp__gguf_padding(cursor.at, (uint64_t)alignment),
                                             (uint64_t)alignment, error);
}

/* Reads the first `size` bytes of the last file. */
static eitp_status eitp__gguf_read_bytes(eitp__file *opened, eitp__gguf *gguf, size_t size, eitp_error *error) {
    eitp__gguf_file *file = &gguf->files[gguf->file_count - 1];
    eitp__release(&gguf->host, file->header, file->header_size);
    file->header = (unsigned char *)eitp__allocate_uninitialized(&gguf->host, size);
    file->header_size = file->header ? size : 0;
    return file->header || !size ? eitp__file_read(opened, 0, file->header, size, error)
                                 : eitp__fail_memory(error, size, "the header of a GGUF file");
}

static eitp_status eitp__gguf_read_header(eitp__file *opened, eitp__gguf *gguf, eitp_error *error) {
    const size_t first_tensor = gguf->tensor_count;
    const uint64_t file_size = gguf->files[gguf->file_count - 1].size;
    const size_t limit = file_size < EITP__GGUF_MAX_HEADER ? (size_t)file_size : EITP__GGUF_MAX_HEADER;
    int ended = 1;
    eitp_status status = EITP_OK;
    for (size_t size = EITP__GGUF_FIRST_READ; ended && !status; size *= 2) {
        status = eitp__gguf_read_bytes(opened, gguf, size < limit ? size : limit, error);
        if (status)
            return status;
        status = eitp__gguf_parse(gguf, first_tensor, &ended, error);
        if (!status && ended && size >= limit)
            status = limit == file_size
                         ? eitp__fail(error, EITP_ERROR_FORMAT, "the file ends in its header: download it again")
                         : eitp__fail(error, EITP_ERROR_UNSUPPORTED, "the header has more than %zu bytes", limit);
    }
    return status ? eitp__fail_prefix(error, status, "%s", opened->path) : status;
}

/* Adds a file: its tensors, and its keys in place of those before. */
static eitp_status eitp__gguf_add(eitp__gguf *gguf, const char *path, eitp_error *error) {
    eitp__file opened = EITP__ZERO;
    void *files = gguf->files;
    eitp__gguf_file *file;
    eitp_status status;
    if (!eitp__reserve(&gguf->host, &files, &gguf->file_capacity, gguf->file_count + 1, sizeof *file))
        return eitp__fail_memory(error, sizeof *file, "a GGUF file");
    gguf->files = (eitp__gguf_file *)files;
    file = &gguf->files[gguf->file_count++];
    memset(file, 0, sizeof *file);
    file->path = eitp__copy_text(&gguf->host, path);
    status = file->path ? eitp__file_open(&opened, &gguf->host, path, EITP_FILE_READ, error)
                        : eitp__fail_memory(error, strlen(path), "a path");
    if (!status)
        status = eitp__file_size(&opened, &file->size, error);
    if (!status)
        status = eitp__gguf_read_header(&opened, gguf, error);
    eitp__file_close(&opened, NULL);
    return status;
}

/* ---- Split files ---- */

/* Forms the name of file `number` of `count`, counted from 0, from the first one's. */
static eitp_status eitp__gguf_file_name(const char *first, int64_t number, int64_t count, eitp__buffer *name,
                                        eitp_error *error) {
    char ending[64];
    size_t size = strlen(first), length;
    snprintf(ending, sizeof ending, "-%05d-of-%05d.gguf", 1, (int)count);
    length = strlen(ending);
    if (size < length || strcmp(first + size - length, ending))
        return eitp__fail(error, EITP_ERROR_ARGUMENT, "%s: the first of %d files must be named NAME%s", first,
                          (int)count, ending);
    eitp__buffer_clear(name);
    eitp__buffer_add(name, first, size - length);
    eitp__buffer_format(name, "-%05d-of-%05d.gguf", (int)number + 1, (int)count);
    return name->failed ? eitp__fail_memory(error, size, "a path") : EITP_OK;
}

/* Fails unless the file that was added last has this number. */
static eitp_status eitp__gguf_check_number(const eitp__gguf *gguf, int64_t expected, eitp_error *error) {
    const char *path = gguf->files[gguf->file_count - 1].path;
    int64_t number = 0;
    const eitp_status status = eitp__gguf_get_integer(gguf, "split.no", 0, INT32_MAX, &number, error);
    if (status)
        return eitp__fail_prefix(error, status, "%s", path);
    if (number != expected && expected)
        return eitp__fail(error, EITP_ERROR_ARGUMENT, "%s is file %lld of a model, expected file %lld", path,
                          (long long)number + 1, (long long)expected + 1);
    return number == expected ? EITP_OK
                              : eitp__fail(error, EITP_ERROR_ARGUMENT,
                                           "%s is file %lld of a model in several files; name the first one", path,
                                           (long long)number + 1);
}

/* Adds the other files of a model, and restores the keys of the first. */
static eitp_status eitp__gguf_add_others(eitp__gguf *gguf, int64_t count, eitp_error *error) {
    eitp__gguf_value *values = gguf->values;
    const size_t value_count = gguf->value_count, capacity = gguf->value_capacity;
    eitp__buffer name;
    eitp_status status = EITP_OK;
    eitp__buffer_init(&name, &gguf->host);
    gguf->values = NULL;
    gguf->value_capacity = 0;
    for (int64_t i = 1; i < count && !status; i++) {
        status = eitp__gguf_file_name(gguf->files[0].path, i, count, &name, error);
        if (!status)
            status = eitp__gguf_add(gguf, name.data, error);
        if (!status)
            status = eitp__gguf_check_number(gguf, i, error);
    }
    eitp__release(&gguf->host, gguf->values, gguf->value_capacity * sizeof *gguf->values);
    gguf->values = values;
    gguf->value_count = value_count;
    gguf->value_capacity = capacity;
    eitp__buffer_release(&name);
    return status;
}

EITP__PRIVATE eitp_status eitp__gguf_open(const eitp_host *host, const char *path, eitp__gguf *gguf,
                                          eitp_error *error) {
    int64_t count = 1;
    eitp_status status;
    memset(gguf, 0, sizeof *gguf);
    gguf->host = *host;
    status = eitp__gguf_add(gguf, path, error);
    if (!status) {
        status = eitp__gguf_get_integer(gguf, "split.count", 0, EITP__GGUF_MAX_FILES, &count, error);
        if (status)
            return eitp__fail_prefix(error, status, "%s", path);
    }
    if (!status)
        status = eitp__gguf_check_number(gguf, 0, error);
    /* llama-gguf-split leaves a count of 0 in files that it has merged. */
    return status || count < 2 ? status : eitp__gguf_add_others(gguf, count, error);
}

EITP__PRIVATE void eitp__gguf_close(eitp__gguf *gguf) {
    const eitp_host host = gguf->host;
    for (size_t i = 0; i < gguf->file_count; i++) {
        eitp__release(&host, gguf->files[i].header, gguf->files[i].header_size);
        eitp__release_text(&host, gguf->files[i].path);
    }
    eitp__release(&host, gguf->files, gguf->file_capacity * sizeof *gguf->files);
    eitp__release(&host, gguf->values, gguf->value_capacity * sizeof *gguf->values);
    eitp__release(&host, gguf->tensors, gguf->tensor_capacity * sizeof *gguf->tensors);
    memset(gguf, 0, sizeof *gguf);
}

EITP__PRIVATE eitp_status eitp__path_is_gguf(const eitp_host *host, const char *path, int *is_gguf, eitp_error *error) {
    eitp__file file = EITP__ZERO;
    char magic[4] = {0};
    size_t done = 0;
    int is_file = 0;
    eitp_status status = eitp__path_is_file(host, path, &is_file, error);
    *is_gguf = 0;
    if (status || !is_file)
        return status;
    status = eitp__file_open(&file, host, path, EITP_FILE_READ, error);
    if (!status)
        status = eitp__file_read_some(&file, 0, magic, sizeof magic, &done, error);
    eitp__file_close(&file, NULL);
    *is_gguf = !status && !memcmp(magic, "GGUF", sizeof magic);
    return status;
}

/* ---- Tensors of an opened file ---- */

EITP__PRIVATE const eitp__gguf_tensor *eitp__gguf_find_tensor(const eitp__gguf *gguf, const char *name) {
    for (size_t i = 0; i < gguf->tensor_count; i++) {
        if (eitp__gguf_text_is(gguf->tensors[i].name, name))
            return &gguf->tensors[i];
    }
    return NULL;
}

EITP__PRIVATE eitp_status eitp__gguf_read_elements(eitp__file *file, const eitp__gguf_type *type, uint64_t offset,
                                                   int64_t first, int64_t count, float *values, eitp_error *error) {
    enum { CHUNK = 8192 };
    unsigned char bytes[CHUNK];
    float block[EITP__GGUF_BLOCK_VALUES];
    const int64_t most = CHUNK / type->bytes;
    const int64_t end = first + count;
    eitp_status status = EITP_OK;
    for (int64_t at = first / type->values; at * type->values < end && !status; at += most) {
        const int64_t last = (end + type->values - 1) / type->values, blocks = last - at < most ? last - at : most;
        status =
            eitp__file_read(file, offset + (uint64_t)(at * type->bytes), bytes, (size_t)(blocks * type->bytes), error);
        for (int64_t i = 0; i < blocks && !status; i++) {
            const int64_t start = (at + i) * type->values, low = start < first ? first : start;
            const int64_t high = start + type->values < end ? start + type->values : end;
            type->widen(bytes + i * type->bytes, block);
            memcpy(values + (low - first), block + (low - start), (size_t)(high - low) * sizeof *values);
        }
    }
    return status;
}

EITP__PRIVATE eitp_status eitp__gguf_read_f32(const eitp__gguf *gguf, const eitp__gguf_tensor *tensor, float *values,
                                              eitp_error *error) {
    eitp__file file = EITP__ZERO;
    eitp_status status =
        tensor->type->widen ? eitp__file_open(&file, &gguf->host, gguf->files[tensor->file].path, EITP_FILE_READ, error)
                            : eitp__fail(error, EITP_ERROR_UNSUPPORTED, "tensor '%.*s' has unsupported type %s",
                                         eitp__gguf_excerpt(tensor->name), tensor->name.data, tensor->type->name);
    if (!status)
        status = eitp__gguf_read_elements(&file, tensor->type, tensor->offset, 0, tensor->count, values, error);
    eitp__file_close(&file, NULL);
    return status;
}
