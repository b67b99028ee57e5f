#include "io/pytorch.h"
#include "io/pickle.h"
#include "io/safetensors_header.h"
#include "io/zip.h"

/*
 * The archive (torch/csrc and caffe2/serialize of PyTorch; its "serialization semantics") has the entries
 *   NAME/data.pkl      the pickle
 *   NAME/data/KEY      the bytes of a storage
 *   NAME/byteorder     "little" or "big"; files of older versions lack it
 * and others that are not needed here. Entries are stored uncompressed, so a tensor can be read in place.
 */
#define EITP__PYTORCH_PICKLE "data.pkl"

typedef struct eitp__pytorch {
    eitp__safetensors *collection;
    eitp__safetensors_part *part;
    eitp__zip zip;
    int root_size; /* bytes of "NAME/", the prefix of all entry names */
    const char *root;
} eitp__pytorch;

/* Returns a file's name for use in a command line. An index may contain any name: one that is unsafe in quotes is
   replaced by a placeholder. */
static const char *eitp__pytorch_quotable(const char *path) {
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    return name[strspn(name, plain)] ? "FILE" : name;
}

/* Fails for a file in a form that torch itself can convert. */
static eitp_status eitp__pytorch_fail_form(const eitp__pytorch *file, const char *form, eitp_error *error) {
    return eitp__fail(error, EITP_ERROR_UNSUPPORTED,
                      "%s, which is not supported; run this in its directory: python3 -c \"import os, torch; f = '%s'; "
                      "torch.save(torch.load(f, weights_only=True), f + '.tmp'); os.replace(f + '.tmp', f)\"",
                      form, eitp__pytorch_quotable(file->part->file.path));
}

/* ---- The archive ---- */

/* Fails for files that are not archives. */
static eitp_status eitp__pytorch_check_start(const eitp__pytorch *file, eitp_error *error) {
    static const char archive[] = "PK\3\4", pickle[] = "\200\2\212\n\154\374\234\106\371", pointer[] = "version ";
    char bytes[9] = {0};
    size_t done = 0;
    eitp_status status = eitp__file_read_some(&file->part->file, 0, bytes, sizeof bytes, &done, error);
    if (status || !memcmp(bytes, archive, sizeof archive - 1))
        return status;
    if (!memcmp(bytes, pickle, sizeof pickle - 1))
        return eitp__pytorch_fail_form(file, "this is the format of torch before 1.6", error);
    if (!memcmp(bytes, pointer, sizeof pointer - 1))
        return eitp__fail(error, EITP_ERROR_FORMAT, "this is a Git LFS pointer; fetch the file with: git lfs pull");
    return eitp__fail(error, EITP_ERROR_FORMAT, "not a file of torch.save (a zip archive); download it again");
}

/* Finds the entry NAME/data.pkl, and with it NAME. */
static eitp_status eitp__pytorch_find_pickle(eitp__pytorch *file, const eitp__zip_entry **pickle, eitp_error *error) {
    *pickle = NULL;
    for (size_t i = 0; i < file->zip.count; i++) {
        const char *slash = strchr(file->zip.entries[i].name, '/');
        if (!slash || strcmp(slash + 1, EITP__PYTORCH_PICKLE))
            continue;
        if (*pickle)
            return eitp__fail(error, EITP_ERROR_FORMAT, "the zip archive has several " EITP__PYTORCH_PICKLE);
        *pickle = &file->zip.entries[i];
        file->root = (*pickle)->name;
        file->root_size = (int)(slash + 1 - file->root);
    }
    if (!*pickle)
        return eitp__fail(error, EITP_ERROR_FORMAT,
                          "the zip archive has no " EITP__PYTORCH_PICKLE "; it is not a file of torch.save");
    if ((*pickle)->size > EITP__PICKLE_MAX_SIZE)
        return eitp__fail(error, EITP_ERROR_UNSUPPORTED, "the pickle has %llu bytes; the limit is %llu",
                          (unsigned long long)(*pickle)->size, (unsigned long long)EITP__PICKLE_MAX_SIZE);
    return (*pickle)->is_stored ? EITP_OK
                                : eitp__pytorch_fail_form(file, "the archive is compressed or encrypted", error);
}

/* Finds the entry NAME/folder/name; *entry is NULL if the archive lacks it. */
static eitp_status eitp__pytorch_find(const eitp__pytorch *file, const char *folder, const char *name,
                                      const eitp__zip_entry **entry, eitp_error *error) {
    eitp_status status = EITP_OK;
    eitp__buffer path;
    eitp__buffer_init(&path, file->zip.host);
    eitp__buffer_add(&path, file->root, (size_t)file->root_size);
    eitp__buffer_add_text(&path, folder);
    eitp__buffer_add_text(&path, name);
    if (path.failed)
        status = eitp__fail_memory(error, path.size, "the name of a storage");
    else
        *entry = eitp__zip_find(&file->zip, path.data);
    eitp__buffer_release(&path);
    return status;
}

static eitp_status eitp__pytorch_check_byte_order(const eitp__pytorch *file, eitp_error *error) {
    char order[6] = {0};
    const eitp__zip_entry *entry = NULL;
    eitp_status status = eitp__pytorch_find(file, "", "byteorder", &entry, error);
    if (!status && entry && entry->size >= 3)
        status = eitp__file_read(&file->part->file, entry->offset, order, entry->size < 6 ? 3 : 6, error);
    if (status || !entry || !memcmp(order, "little", sizeof order))
        return status;
    if (!memcmp(order, "big", 3))
        return eitp__pytorch_fail_form(file, "its numbers are big-endian", error);
    return eitp__fail(error, EITP_ERROR_FORMAT, "the archive's byteorder must be little or big");
}

/* ---- Tensors ---- */

/* Finds the bytes of a tensor's storage, which must be complete. */
static eitp_status eitp__pytorch_find_storage(const eitp__pytorch *file, const eitp__pickle_tensor *tensor,
                                              size_t element_size, const eitp__zip_entry **storage, eitp_error *error) {
    uint64_t size;
    eitp_status status = eitp__pytorch_find(file, "data/", tensor->key, storage, error);
    if (status)
        return status;
    if (!*storage)
        return eitp__fail(error, EITP_ERROR_FORMAT, "storage '%.100s' is missing in the archive; download it again",
                          tensor->key);
    if (!(*storage)->is_stored)
        return eitp__pytorch_fail_form(file, "the archive is compressed or encrypted", error);
    if (__builtin_mul_overflow((uint64_t)tensor->storage_count, (uint64_t)element_size, &size) ||
        size != (*storage)->size)
        return eitp__fail(error, EITP_ERROR_FORMAT,
                          "storage '%.100s' has %llu bytes, expected %lld elements of %zu; download it again",
                          tensor->key, (unsigned long long)(*storage)->size, (long long)tensor->storage_count,
                          element_size);
    return EITP_OK;
}

/* True if the elements are contiguous in index order; dimensions of size 1 may have any stride. */
static int eitp__pytorch_is_contiguous(const eitp__pickle_tensor *tensor) {
    int64_t expected = 1;
    for (int d = tensor->rank - 1; d >= 0; d--) {
        if (tensor->shape[d] != 1 && tensor->stride[d] != expected)
            return 0;
        expected *= tensor->shape[d];
    }
    return 1;
}

static int eitp__pytorch_is_transposed(const eitp__pickle_tensor *tensor) {
    return tensor->rank == 2 && tensor->stride[0] == 1 && tensor->stride[1] == tensor->shape[0];
}

/* Computes the number of elements, which must be contiguous within the storage in index order or transposed. */
static eitp_status eitp__pytorch_check_layout(const eitp__pickle_tensor *tensor, eitp__safetensors_entry *entry,
                                              eitp_error *error) {
    int fits = 1;
    entry->count = 1;
    for (int d = 0; d < tensor->rank && fits; d++)
        fits = !__builtin_mul_overflow(entry->count, tensor->shape[d], &entry->count);
    if (!fits || entry->count > tensor->storage_count - tensor->offset)
        return eitp__fail(error, EITP_ERROR_FORMAT,
                          "the shape does not fit storage '%.100s' of %lld elements, from element %lld on", tensor->key,
                          (long long)tensor->storage_count, (long long)tensor->offset);
    if (!entry->count || eitp__pytorch_is_contiguous(tensor))
        return EITP_OK;
    entry->is_transposed = eitp__pytorch_is_transposed(tensor);
    return entry->is_transposed
               ? EITP_OK
               : eitp__fail(error, EITP_ERROR_UNSUPPORTED,
                            "its strides do not match a whole tensor or a transposed matrix; save it after "
                            ".contiguous()");
}

static eitp_status eitp__pytorch_read_tensor(const eitp__pytorch *file, const eitp__pickle_tensor *tensor,
                                             eitp__safetensors_entry *entry, eitp_error *error) {
    const eitp__zip_entry *storage = NULL;
    eitp_status status;
    eitp__safetensors_set_type(entry, tensor->type);
    entry->rank = tensor->rank;
    memcpy(entry->shape, tensor->shape, sizeof entry->shape);
    status = eitp__pytorch_find_storage(file, tensor, entry->element_size, &storage, error);
    if (!status)
        status = eitp__pytorch_check_layout(tensor, entry, error);
    if (status)
        return status;
    entry->offset = storage->offset + (uint64_t)tensor->offset * entry->element_size;
    entry->size = (uint64_t)entry->count * entry->element_size;
    return EITP_OK;
}

static eitp_status eitp__pytorch_add_tensor(void *user, const char *name, const eitp__pickle_tensor *tensor,
                                            eitp_error *error) {
    const eitp__pytorch *file = (const eitp__pytorch *)user;
    eitp__safetensors_entry entry;
    eitp_status status;
    memset(&entry, 0, sizeof entry);
    entry.name = name;
    status = eitp__pytorch_read_tensor(file, tensor, &entry, error);
    return status ? eitp__fail_prefix(error, status, "tensor '%.100s'", name)
                  : eitp__safetensors_add_entry(file->collection, entry, error);
}

/* ---- Files ---- */

/* Reads the pickle into the part's memory, where the names stay. */
static eitp_status eitp__pytorch_read_pickle(eitp__pytorch *file, eitp_error *error) {
    const size_t first = file->collection->entry_count;
    eitp__safetensors_part *part = file->part;
    const eitp__zip_entry *pickle;
    eitp_status status = eitp__pytorch_find_pickle(file, &pickle, error);
    if (!status)
        status = eitp__pytorch_check_byte_order(file, error);
    if (status)
        return status;
    part->header = (char *)eitp__allocate_uninitialized(&file->collection->host, (size_t)pickle->size);
    if (pickle->size && !part->header)
        return eitp__fail_memory(error, (size_t)pickle->size, "the pickle in a PyTorch file");
    part->header_size = (size_t)pickle->size;
    status =
        pickle->size ? eitp__file_read(&part->file, pickle->offset, part->header, part->header_size, error) : EITP_OK;
    if (!status)
        status = eitp__pickle_read(&file->collection->host, part->header, part->header_size, pickle->offset,
                                   eitp__pytorch_add_tensor, file, error);
    return status ? status : eitp__safetensors_sort(file->collection, first, error);
}

static eitp_status eitp__pytorch_read_part(eitp__safetensors *collection, eitp__safetensors_part *part,
                                           eitp_error *error) {
    eitp__pytorch file = EITP__ZERO;
    eitp_status status = eitp__file_size(&part->file, &part->data_size, error);
    file.collection = collection;
    file.part = part;
    if (!status)
        status = eitp__pytorch_check_start(&file, error);
    if (!status)
        status = eitp__zip_open(&part->file, &file.zip, error);
    if (!status)
        status = eitp__pytorch_read_pickle(&file, error);
    eitp__zip_close(&file.zip);
    if (status != EITP_ERROR_FORMAT && status != EITP_ERROR_UNSUPPORTED)
        return status; /* a failure to read already names the file */
    return eitp__fail_prefix(error, status, "%s", part->file.path);
}

EITP__PRIVATE eitp_status eitp__pytorch_open(const eitp_host *host, const char *path, eitp__safetensors **collection,
                                             eitp_error *error) {
    return eitp__safetensors_open_as(host, path, eitp__pytorch_read_part, collection, error);
}

EITP__PRIVATE eitp_status eitp__pytorch_open_index(const eitp_host *host, const char *path,
                                                   eitp__safetensors **collection, eitp_error *error) {
    return eitp__safetensors_open_index_as(host, path, eitp__pytorch_read_part, collection, error);
}
