#include "io/gguf_weights.h"
#include "gguf/architectures.h"
#include "io/gguf_names.h"
#include "io/safetensors_header.h"

/* The state of adding the tensors of a model to a collection. */
typedef struct eitp__gguf_weights {
    eitp__gguf gguf;
    const eitp__gguf_architecture *format;
    const eitp_architecture *architecture;
    int64_t heads, key_value_heads;
    eitp__safetensors *collection;
} eitp__gguf_weights;

/* Reads elements in the file's order, for eitp__safetensors_entry. */
static eitp_status eitp__gguf_read_entry(eitp__file *file, const eitp__safetensors_entry *entry, int64_t first,
                                         int64_t count, float *values, eitp_error *error) {
    const eitp_status status = eitp__gguf_read_elements(file, (const eitp__gguf_type *)entry->block_type, entry->offset,
                                                        first, count, values, error);
    if (entry->added > 0 || entry->added < 0) {
        for (int64_t i = 0; i < count && !status; i++)
            values[i] -= entry->added;
    }
    return status;
}

/* Sets the type, and how elements are read. */
static eitp_status eitp__gguf_entry_type(eitp__safetensors_entry *entry, const eitp__gguf_type *type,
                                         eitp_error *error) {
    if (!type->widen)
        return eitp__fail(error, EITP_ERROR_UNSUPPORTED,
                          "has unsupported type %s; requantize the model, to Q8_0 for instance", type->name);
    eitp__safetensors_set_type(entry, type->name);
    if (entry->element_size && entry->dtype >= 0 && !(entry->added > 0))
        return EITP_OK;
    entry->dtype = EITP_F32;
    entry->element_size = sizeof(float);
    entry->read_blocks = eitp__gguf_read_entry;
    entry->block_type = type;
    return EITP_OK;
}

/* Sets the heads whose rows are permuted, of queries and keys. */
static eitp_status eitp__gguf_entry_heads(const eitp__gguf_weights *weights, const eitp__gguf_place *place,
                                          eitp__safetensors_entry *entry, eitp_error *error) {
    const int is_paired =
        weights->format->permutes_heads && place->row->slot == EITP__ATTENTION_INPUT && place->piece < 2;
    const int64_t heads = place->piece ? weights->key_value_heads : weights->heads;
    if (!is_paired)
        return EITP_OK;
    entry->paired_heads = heads;
    return heads > 0 && entry->rank && entry->shape[0] > 0 && entry->shape[0] % (2 * heads) == 0
               ? EITP_OK
               : eitp__fail(error, EITP_ERROR_FORMAT, "has %lld rows for %lld heads",
                            (long long)(entry->rank ? entry->shape[0] : 0), (long long)heads);
}

static eitp_status eitp__gguf_fill_entry(const eitp__gguf_weights *weights, const eitp__gguf_tensor *tensor,
                                         const eitp__gguf_place *place, eitp__safetensors_entry *entry,
                                         eitp_error *error) {
    eitp_status status;
    entry->rank = tensor->rank;
    for (int d = 0; d < tensor->rank; d++)
        entry->shape[d] = tensor->shape[d];
    entry->count = tensor->count;
    entry->size = tensor->size;
    entry->offset = tensor->offset;
    if (weights->format->adds_one && eitp__gguf_is_norm(place->row))
        entry->added = 1;
    status = eitp__gguf_entry_type(entry, tensor->type, error);
    if (!status)
        status = eitp__gguf_entry_heads(weights, place, entry, error);
    if (eitp__gguf_is_transposed(place->row) && entry->rank == 2) {
        entry->is_transposed = 1;
        entry->shape[0] = tensor->shape[1];
        entry->shape[1] = tensor->shape[0];
    }
    return status;
}

/* Adds a tensor; its name goes to *names, and *names to the next one's. */
static eitp_status eitp__gguf_add_entry(const eitp__gguf_weights *weights, const eitp__gguf_tensor *tensor,
                                        char **names, eitp_error *error) {
    const int size = (int)tensor->name.size; /* at most 255 */
    eitp__safetensors_entry entry;
    eitp__gguf_place place = EITP__ZERO;
    eitp_status status;
    memset(&entry, 0, sizeof entry);
    if (eitp__gguf_text_is(tensor->name, "rope_freqs.weight"))
        return EITP_OK; /* part of the configuration */
    if (!eitp__gguf_place_find(weights->architecture, tensor->name.data, tensor->name.size, &place))
        return eitp__fail(error, EITP_ERROR_UNSUPPORTED, "unsupported tensor '%.*s': eitp's %s does not have it", size,
                          tensor->name.data, weights->format->model_type);
    eitp__gguf_place_name(weights->architecture, &place, *names, EITP__NAME_SIZE);
    entry.name = *names;
    status = eitp__gguf_fill_entry(weights, tensor, &place, &entry, error);
    if (status)
        return eitp__fail_prefix(error, status, "tensor '%.*s'", size, tensor->name.data);
    *names += strlen(*names) + 1;
    return eitp__safetensors_add_entry(weights->collection, entry, error);
}

/* Adds the tensors of the file that was added last. */
static eitp_status eitp__gguf_add_entries(const eitp__gguf_weights *weights, eitp_error *error) {
    const size_t file = weights->collection->part_count - 1;
    eitp__safetensors_part *part = weights->collection->parts[file];
    size_t count = 0;
    char *names;
    eitp_status status = EITP_OK;
    for (size_t i = 0; i < weights->gguf.tensor_count; i++)
        count += weights->gguf.tensors[i].file == file;
    names = part->header = (char *)eitp__allocate_uninitialized(&weights->collection->host, count * EITP__NAME_SIZE);
    if (count && !names)
        return eitp__fail_memory(error, count * EITP__NAME_SIZE, "the names of tensors");
    part->header_size = count * EITP__NAME_SIZE;
    for (size_t i = 0; i < weights->gguf.tensor_count && !status; i++) {
        if (weights->gguf.tensors[i].file == file)
            status = eitp__gguf_add_entry(weights, &weights->gguf.tensors[i], &names, error);
    }
    return status ? eitp__fail_prefix(error, status, "%s", part->file.path) : status;
}

/* An eitp__tensor_format: the tensors are added later, because the keys are in the first file only. */
static eitp_status eitp__gguf_read_part(eitp__safetensors *collection, eitp__safetensors_part *part,
                                        eitp_error *error) {
    (void)collection;
    return eitp__file_size(&part->file, &part->data_size, error);
}

static eitp_status eitp__gguf_weights_read(eitp__gguf_weights *weights, eitp_error *error) {
    eitp_status status = eitp__gguf_architecture_of(&weights->gguf, &weights->format, error);
    if (!status)
        status = eitp__gguf_heads(&weights->gguf, weights->format, &weights->heads, &weights->key_value_heads, error);
    if (status)
        return eitp__fail_prefix(error, status, "%s", weights->gguf.files[0].path);
    weights->architecture = eitp_architecture_find(weights->format->model_type);
    for (size_t i = 0; i < weights->gguf.file_count && !status; i++) {
        status = eitp__safetensors_add(weights->collection, weights->gguf.files[i].path, error);
        if (!status)
            status = eitp__gguf_add_entries(weights, error);
    }
    if (status)
        return status;
    status = eitp__safetensors_sort(weights->collection, 0, error);
    return status ? eitp__fail_prefix(error, status, "%s", weights->gguf.files[0].path) : status;
}

EITP__PRIVATE eitp_status eitp__gguf_weights_open(const eitp_host *host, const char *path,
                                                  eitp__safetensors **collection, eitp_error *error) {
    eitp__gguf_weights weights = EITP__ZERO;
    eitp_status status = eitp__gguf_open(host, path, &weights.gguf, error);
    *collection = NULL;
    if (!status)
        status = eitp__safetensors_create(host, eitp__gguf_read_part, &weights.collection, error);
    if (!status)
        status = eitp__gguf_weights_read(&weights, error);
    eitp__gguf_close(&weights.gguf);
    if (status)
        eitp__safetensors_close(weights.collection);
    else
        *collection = weights.collection;
    return status;
}
