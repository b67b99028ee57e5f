#include "io/safetensors_writer.h"
#include "base/convert.h"
#include "base/json.h"
#include "base/sort.h"
#include "base/unicode.h"
#include "io/safetensors.h"

#define EITP__SAFETENSORS_WRITE_CHUNK ((size_t)8 << 10)

/* A tensor of the file. */
typedef struct eitp__safetensors_slot {
    eitp_dtype dtype;
    size_t element_size;
    int64_t count;   /* elements */
    int64_t written; /* elements so far */
    uint64_t offset; /* from the start of the data; once the header is complete, of the file */
    size_t name;     /* offset in the writer's names */
    size_t next;     /* index of the next slot in the file */
    uint32_t crc;    /* of the data written */
} eitp__safetensors_slot;

struct eitp__safetensors_writer {
    eitp_host host;
    eitp__write_behind *queue;
    int owns_queue; /* the queue belongs to the writer and is finished with the file */
    eitp__behind_file *file;
    char *path;
    eitp__buffer names;
    eitp__safetensors_slot *slots; /* in the caller's order */
    size_t count;
    size_t first;            /* index of the first slot in the file */
    eitp__file_sum head_sum; /* of the header */
};

/* A tensor of the caller's list, for sorting. */
typedef struct eitp__tensor_order {
    const eitp__safetensors_tensor *tensor;
    size_t index;
} eitp__tensor_order;

static int eitp__compare_tensor_names(const void *left, const void *right) {
    const eitp__tensor_order *a = (const eitp__tensor_order *)left;
    const eitp__tensor_order *b = (const eitp__tensor_order *)right;
    return strcmp(a->tensor->name, b->tensor->name);
}

/* Sorts wider elements first, otherwise in the caller's order. */
static int eitp__compare_tensor_widths(const void *left, const void *right) {
    const eitp__tensor_order *a = (const eitp__tensor_order *)left;
    const eitp__tensor_order *b = (const eitp__tensor_order *)right;
    size_t wide = eitp_dtype_size(a->tensor->dtype), other = eitp_dtype_size(b->tensor->dtype);
    if (wide != other)
        return wide > other ? -1 : 1;
    return a->index < b->index ? -1 : a->index > b->index;
}

static eitp_status eitp__check_tensor(const eitp__safetensors_tensor *tensor, int64_t *count, eitp_error *error) {
    size_t length = strlen(tensor->name);
    int64_t bytes;
    if (!strcmp(tensor->name, "__metadata__") ||
        eitp__utf8_valid_prefix((const unsigned char *)tensor->name, length) != length)
        return eitp__fail(error, EITP_ERROR_ARGUMENT,
                          "invalid tensor name '%.100s': it must be valid UTF-8 and not __metadata__", tensor->name);
    if (!eitp_dtype_size(tensor->dtype) || tensor->rank < 0 || tensor->rank > EITP_MAX_RANK)
        return eitp__fail(error, EITP_ERROR_ARGUMENT, "tensor '%.100s' has an invalid dtype or rank (%d and %d)",
                          tensor->name, (int)tensor->dtype, tensor->rank);
    *count = 1;
    for (int i = 0; i < tensor->rank; i++) {
        if (tensor->shape[i] < 0 || __builtin_mul_overflow(*count, tensor->shape[i], count))
            return eitp__fail(error, EITP_ERROR_ARGUMENT, "tensor '%.100s' has a negative size, or is too large",
                              tensor->name);
    }
    if (__builtin_mul_overflow(*count, (int64_t)eitp_dtype_size(tensor->dtype), &bytes))
        return eitp__fail(error, EITP_ERROR_ARGUMENT, "tensor '%.100s' is too large", tensor->name);
    return EITP_OK;
}

/* Fills in the slots and their names, and checks that names are unique. */
static eitp_status eitp__make_slots(eitp__safetensors_writer *writer, const eitp__safetensors_tensor *tensors,
                                    eitp__tensor_order *order, eitp_error *error) {
    for (size_t i = 0; i < writer->count; i++) {
        eitp__safetensors_slot *slot = &writer->slots[i];
        eitp_status status = eitp__check_tensor(&tensors[i], &slot->count, error);
        if (status)
            return status;
        slot->dtype = tensors[i].dtype;
        slot->element_size = eitp_dtype_size(slot->dtype);
        slot->name = writer->names.size;
        eitp__buffer_add(&writer->names, tensors[i].name, strlen(tensors[i].name) + 1);
        order[i].tensor = &tensors[i];
        order[i].index = i;
    }
    if (writer->names.failed)
        return eitp__fail_memory(error, writer->names.size, "the names of tensors");
    eitp__sort(order, writer->count, sizeof *order, eitp__compare_tensor_names);
    for (size_t i = 1; i < writer->count; i++) {
        if (!eitp__compare_tensor_names(&order[i - 1], &order[i]))
            return eitp__fail(error, EITP_ERROR_ARGUMENT, "duplicate tensor name '%.100s'", order[i].tensor->name);
    }
    return EITP_OK;
}

/* Assigns offsets in `order`. */
static eitp_status eitp__place_slots(eitp__safetensors_writer *writer, eitp__tensor_order *order, eitp_error *error) {
    int64_t end = 0;
    eitp__sort(order, writer->count, sizeof *order, eitp__compare_tensor_widths);
    for (size_t i = 0; i < writer->count; i++) {
        eitp__safetensors_slot *slot = &writer->slots[order[i].index];
        slot->offset = (uint64_t)end;
        if (i)
            writer->slots[order[i - 1].index].next = order[i].index;
        else
            writer->first = order[i].index;
        if (__builtin_add_overflow(end, slot->count * (int64_t)slot->element_size, &end))
            return eitp__fail(error, EITP_ERROR_ARGUMENT, "the tensors are too large for one file");
    }
    return EITP_OK;
}

static void eitp__add_metadata(eitp__buffer *header, const eitp__safetensors_text *metadata, size_t count) {
    eitp__buffer_add_text(header, "\"__metadata__\":{");
    for (size_t i = 0; i < count; i++) {
        if (i)
            eitp__buffer_add_text(header, ",");
        eitp__json_write_text(header, metadata[i].key, strlen(metadata[i].key));
        eitp__buffer_add_text(header, ":");
        eitp__json_write_text(header, metadata[i].value, strlen(metadata[i].value));
    }
    eitp__buffer_add_text(header, "}");
}

static void eitp__add_tensor(eitp__buffer *header, const eitp__safetensors_tensor *tensor,
                             const eitp__safetensors_slot *slot) {
    uint64_t end = slot->offset + (uint64_t)slot->count * slot->element_size;
    eitp__json_write_text(header, tensor->name, strlen(tensor->name));
    eitp__buffer_format(header, ":{\"dtype\":\"%s\",\"shape\":[", eitp__safetensors_type(tensor->dtype));
    for (int i = 0; i < tensor->rank; i++)
        eitp__buffer_format(header, i ? ",%lld" : "%lld", (long long)tensor->shape[i]);
    eitp__buffer_format(header, "],\"data_offsets\":[%llu,%llu]}", (unsigned long long)slot->offset,
                        (unsigned long long)end);
}

/* Builds the start of the file: the size of the header, and the header. */
static eitp_status eitp__make_header(eitp__safetensors_writer *writer, const eitp__tensor_order *order,
                                     const eitp__safetensors_text *metadata, size_t metadata_count,
                                     eitp__buffer *header, eitp_error *error) {
    uint64_t size;
    eitp__buffer_add(header, "\0\0\0\0\0\0\0", 8);
    eitp__buffer_add_text(header, "{");
    if (metadata_count)
        eitp__add_metadata(header, metadata, metadata_count);
    for (size_t i = 0; i < writer->count; i++) {
        if (i || metadata_count)
            eitp__buffer_add_text(header, ",");
        eitp__add_tensor(header, order[i].tensor, &writer->slots[order[i].index]);
    }
    eitp__buffer_add_text(header, "}");
    while (!header->failed && header->size % EITP__ALIGNMENT)
        eitp__buffer_add(header, " ", 1);
    if (header->failed)
        return eitp__fail_memory(error, header->size, "the header of a safetensors file");
    size = header->size - 8;
    if (size > EITP__SAFETENSORS_MAX_HEADER)
        return eitp__fail(error, EITP_ERROR_ARGUMENT, "the header of the file would have %llu bytes; the limit is %llu",
                          (unsigned long long)size, (unsigned long long)EITP__SAFETENSORS_MAX_HEADER);
    for (size_t i = 0; i < 8; i++)
        header->data[i] = (char)(size >> (8 * i) & 255);
    for (size_t i = 0; i < writer->count; i++)
        writer->slots[i].offset += header->size;
    return EITP_OK;
}

/* Computes the layout of the file and writes its header. */
static eitp_status eitp__begin_file(eitp__safetensors_writer *writer, const eitp__safetensors_tensor *tensors,
                                    const eitp__safetensors_text *metadata, size_t metadata_count,
                                    eitp__tensor_order *order, eitp_error *error) {
    eitp__buffer header;
    eitp_status status = eitp__make_slots(writer, tensors, order, error);
    eitp__buffer_init(&header, &writer->host);
    if (!status)
        status = eitp__place_slots(writer, order, error);
    if (!status)
        status = eitp__make_header(writer, order, metadata, metadata_count, &header, error);
    if (!status && writer->owns_queue)
        status = eitp__write_behind_create(&writer->host, 0, 1, &writer->queue, error);
    if (!status)
        status = eitp__behind_open(writer->queue, writer->path, &writer->file, error);
    if (!status)
        status = eitp__behind_write(writer->file, 0, header.data, header.size, error);
    if (!status) {
        writer->head_sum.size = header.size;
        writer->head_sum.crc = eitp__crc32c(0, header.data, header.size);
    }
    eitp__buffer_release(&header);
    return status;
}

/* Releases the writer. Its own queue, if any, removes an unfinished file. */
static void eitp__release_writer(eitp__safetensors_writer *writer) {
    eitp_host host = writer->host;
    if (writer->owns_queue)
        eitp__write_behind_destroy(writer->queue);
    eitp__release_text(&host, writer->path);
    eitp__buffer_release(&writer->names);
    eitp__release(&host, writer->slots, writer->count * sizeof *writer->slots);
    eitp__release(&host, writer, sizeof *writer);
}

EITP__PRIVATE void eitp__safetensors_abandon(eitp__safetensors_writer *writer) {
    if (writer)
        eitp__release_writer(writer);
}

EITP__PRIVATE eitp_status eitp__safetensors_begin(const eitp_host *host, const char *path,
                                                  const eitp__safetensors_tensor *tensors, size_t count,
                                                  const eitp__safetensors_text *metadata, size_t metadata_count,
                                                  eitp__write_behind *queue, eitp__safetensors_writer **writer,
                                                  eitp_error *error) {
    const size_t bytes = count * sizeof(eitp__tensor_order);
    eitp__tensor_order *order = (eitp__tensor_order *)eitp__allocate_uninitialized(host, bytes);
    eitp__safetensors_writer *created = (eitp__safetensors_writer *)eitp__allocate(host, sizeof *created);
    eitp_status status;
    if (created) {
        created->host = *host;
        created->count = count;
        created->queue = queue;
        created->owns_queue = !queue;
        created->path = eitp__copy_text(host, path);
        created->slots = (eitp__safetensors_slot *)eitp__allocate(host, count * sizeof *created->slots);
        eitp__buffer_init(&created->names, &created->host);
    }
    if (!created || !created->path || (count && (!order || !created->slots)))
        status = eitp__fail_memory(error, bytes + count * sizeof *created->slots, "the list of tensors to write");
    else
        status = eitp__begin_file(created, tensors, metadata, metadata_count, order, error);
    eitp__release(host, order, bytes);
    if (status)
        eitp__safetensors_abandon(created);
    else
        *writer = created;
    return status;
}

/* Checks that a tensor lacks at least `count` elements. */
static eitp_status eitp__check_room(const eitp__safetensors_writer *writer, size_t index, int64_t count,
                                    eitp_error *error) {
    const eitp__safetensors_slot *slot;
    if (index >= writer->count)
        return eitp__fail(error, EITP_ERROR_ARGUMENT, "'%s' has %llu tensors, no tensor %llu", writer->path,
                          (unsigned long long)writer->count, (unsigned long long)index);
    slot = &writer->slots[index];
    if (count < 0 || count > slot->count - slot->written)
        return eitp__fail(error, EITP_ERROR_ARGUMENT,
                          "'%s': cannot write %lld elements of tensor '%.100s': %lld of %lld are written", writer->path,
                          (long long)count, writer->names.data + slot->name, (long long)slot->written,
                          (long long)slot->count);
    return EITP_OK;
}

EITP__PRIVATE eitp_status eitp__safetensors_write(eitp__safetensors_writer *writer, size_t index, const void *data,
                                                  int64_t count, uint32_t *crc, eitp_error *error) {
    eitp__safetensors_slot *slot;
    uint32_t sum;
    size_t size;
    eitp_status status = eitp__check_room(writer, index, count, error);
    if (status)
        return status;
    slot = &writer->slots[index];
    /* Cannot overflow: the data is in memory. */
    size = (size_t)count * slot->element_size;
    status = eitp__behind_write(writer->file, slot->offset + (uint64_t)slot->written * slot->element_size, data, size,
                                error);
    if (status)
        return status;
    slot->written += count;
    sum = eitp__crc32c(0, data, size);
    slot->crc = eitp__crc32c_join(slot->crc, sum, size);
    if (crc)
        *crc = eitp__crc32c_join(*crc, sum, size);
    return EITP_OK;
}

/* Fails if a finite value becomes infinite in the dtype of its tensor. */
static eitp_status eitp__check_representable(const eitp__safetensors_writer *writer, const eitp__safetensors_slot *slot,
                                             const float *values, size_t count, eitp_error *error) {
    for (size_t i = 0; i < count && eitp__wide(slot->dtype) != slot->dtype; i++) {
        if (isfinite(values[i]) && !eitp__is_in_range(slot->dtype, values[i]))
            return eitp__fail(error, EITP_ERROR_ARGUMENT,
                              "'%s': tensor '%.100s' has the value %g, which %s cannot represent; save the weights as "
                              "another dtype, such as f32",
                              writer->path, writer->names.data + slot->name, (double)values[i],
                              eitp_dtype_name(slot->dtype));
    }
    return EITP_OK;
}

EITP__PRIVATE eitp_status eitp__safetensors_write_f32(eitp__safetensors_writer *writer, size_t index, const float *data,
                                                      int64_t count, uint32_t *crc, eitp_error *error) {
    unsigned char chunk[EITP__SAFETENSORS_WRITE_CHUNK];
    const eitp__safetensors_slot *slot;
    int64_t max_count;
    eitp_status status = eitp__check_room(writer, index, count, error);
    if (status)
        return status;
    slot = &writer->slots[index];
    if (slot->dtype == EITP_F32)
        return eitp__safetensors_write(writer, index, data, count, crc, error);
    if (!eitp__is_floating(slot->dtype))
        return eitp__fail(error, EITP_ERROR_ARGUMENT, "'%s': cannot convert f32 to the dtype %s of tensor '%.100s'",
                          writer->path, eitp_dtype_name(slot->dtype), writer->names.data + slot->name);
    status = eitp__check_representable(writer, slot, data, (size_t)count, error);
    if (status)
        return status;
    max_count = (int64_t)(sizeof chunk / slot->element_size);
    while (count) {
        int64_t part = count > max_count ? max_count : count;
        eitp__convert_from_f32(slot->dtype, data, chunk, (size_t)part);
        status = eitp__safetensors_write(writer, index, chunk, part, crc, error);
        if (status)
            return status;
        data += part;
        count -= part;
    }
    return EITP_OK;
}

EITP__PRIVATE eitp_status eitp__safetensors_write_plane(eitp__safetensors_writer *writer, size_t index,
                                                        eitp__plane plane, float *values, int64_t count, uint32_t *crc,
                                                        eitp_error *error) {
    eitp_status status = eitp__check_room(writer, index, count, error);
    if (status)
        return status;
    if (plane == EITP__PLANE_LOWER && writer->slots[index].dtype == EITP_I16) {
        eitp__keep_lower_plane(values, (size_t)count);
        return eitp__safetensors_write(writer, index, values, count, crc, error);
    }
    if (plane == EITP__PLANE_UPPER && writer->slots[index].dtype == EITP_BF16) {
        status = eitp__check_representable(writer, &writer->slots[index], values, (size_t)count, error);
        eitp__keep_upper_plane(values, (size_t)count);
    }
    return status ? status : eitp__safetensors_write_f32(writer, index, values, count, crc, error);
}

static eitp_status eitp__check_whole(const eitp__safetensors_writer *writer, eitp_error *error) {
    for (size_t i = 0; i < writer->count; i++) {
        const eitp__safetensors_slot *slot = &writer->slots[i];
        if (slot->written < slot->count)
            return eitp__fail(error, EITP_ERROR_ARGUMENT,
                              "'%s' is incomplete: %lld of %lld elements of tensor '%.100s' are written", writer->path,
                              (long long)slot->written, (long long)slot->count, writer->names.data + slot->name);
    }
    return EITP_OK;
}

/* Returns the size and checksum of a complete file, computed from its parts. */
static eitp__file_sum eitp__sum_file(const eitp__safetensors_writer *writer) {
    eitp__file_sum sum = writer->head_sum;
    for (size_t i = 0, at = writer->first; i < writer->count; i++, at = writer->slots[at].next) {
        const eitp__safetensors_slot *slot = &writer->slots[at];
        const uint64_t size = (uint64_t)slot->count * slot->element_size;
        sum.crc = eitp__crc32c_join(sum.crc, slot->crc, size);
        sum.size += size;
    }
    return sum;
}

EITP__PRIVATE eitp_status eitp__safetensors_finish(eitp__safetensors_writer *writer, eitp__file_sum *sum,
                                                   eitp_error *error) {
    eitp_status status = eitp__check_whole(writer, error);
    if (!status)
        eitp__behind_end(writer->file);
    if (!status && writer->owns_queue)
        status = eitp__behind_finish(writer->queue, error);
    if (!status && sum)
        *sum = eitp__sum_file(writer);
    eitp__release_writer(writer);
    return status;
}
