/* Reads model.safetensors.index.json, or the index of another format: the files of a sharded model, as one
   collection. */
#include "base/json.h"
#include "base/sort.h"
#include "io/safetensors_header.h"

/* Maximum size of an index, which lists every tensor of a model: 671 billion parameters need 9 MB. */
#define EITP__SAFETENSORS_MAX_INDEX ((size_t)32 << 20)

typedef struct eitp__weight {
    const char *name;
    const char *file;
} eitp__weight;

static int eitp__compare_weights(const void *left, const void *right) {
    const eitp__weight *a = (const eitp__weight *)left, *b = (const eitp__weight *)right;
    int order = strcmp(a->file, b->file);
    return order ? order : strcmp(a->name, b->name);
}

/* True if the name is a file name without a directory. */
static int eitp__is_plain_name(const char *name) {
    return *name && !strchr(name, '/') && !strchr(name, '\\') && strcmp(name, ".") && strcmp(name, "..");
}

static eitp_status eitp__read_weights(const eitp_json *map, eitp__weight *weights, eitp_error *error) {
    size_t count = 0;
    for (const eitp_json *member = map->first_child; member; member = member->next, count++) {
        if (member->kind != EITP_JSON_STRING || memchr(member->text, 0, member->text_size) ||
            !eitp__is_plain_name(member->text))
            return eitp__fail(error, EITP_ERROR_FORMAT,
                              "line %llu: the value of '%.100s' must be the name of a file in the same directory",
                              (unsigned long long)member->line, member->name);
        if (memchr(member->name, 0, member->name_size))
            return eitp__fail(error, EITP_ERROR_FORMAT, "line %llu: tensor name contains the character U+0000",
                              (unsigned long long)member->line);
        weights[count].name = member->name;
        weights[count].file = member->text;
    }
    eitp__sort(weights, count, sizeof *weights, eitp__compare_weights);
    return EITP_OK;
}

/* Adds one file, with its entries that are listed in weights[0, count). */
static eitp_status eitp__add_weights(eitp__safetensors *collection, const char *directory, const eitp__weight *weights,
                                     size_t count, eitp_error *error) {
    size_t first = collection->entry_count, kept = first;
    char *path = eitp__join_path(&collection->host, directory, weights[0].file);
    eitp_status status;
    if (!path)
        return eitp__fail_memory(error, strlen(directory) + strlen(weights[0].file) + 2, "the name of a file");
    status = eitp__safetensors_add(collection, path, error);
    eitp__release_text(&collection->host, path);
    if (status)
        return status;
    /* Both are sorted by name. */
    for (size_t i = first, next = 0; next < count; i++) {
        int order = i < collection->entry_count ? strcmp(collection->entries[i].name, weights[next].name) : 1;
        if (order > 0)
            return eitp__fail(error, EITP_ERROR_FORMAT,
                              "tensor '%.100s' is missing in '%.100s', where the index places it; download both again",
                              weights[next].name, weights[next].file);
        if (order < 0)
            continue;
        collection->entries[kept++] = collection->entries[i];
        next++;
    }
    collection->entry_count = kept;
    return EITP_OK;
}

static eitp_status eitp__add_weight_map(eitp__safetensors *collection, const char *directory, const eitp_json *map,
                                        eitp_error *error) {
    size_t bytes = map->count * sizeof(eitp__weight);
    eitp__weight *weights = (eitp__weight *)eitp__allocate_uninitialized(&collection->host, bytes);
    eitp_status status;
    if (bytes && !weights)
        return eitp__fail_memory(error, bytes, "the list of tensors");
    status = eitp__read_weights(map, weights, error);
    for (size_t begin = 0, end = 0; begin < map->count && !status; begin = end) {
        while (end < map->count && !strcmp(weights[begin].file, weights[end].file))
            end++;
        status = eitp__add_weights(collection, directory, weights + begin, end - begin, error);
    }
    eitp__release(&collection->host, weights, bytes);
    return status ? status : eitp__safetensors_sort(collection, 0, error);
}

/* Returns the directory part of a path, with its slash; empty if it has none. */
static char *eitp__copy_directory(const eitp_host *host, const char *path) {
    const char *slash = strrchr(path, '/');
    return eitp__copy_bytes(host, path, slash ? (size_t)(slash - path) + 1 : 0);
}

EITP__PRIVATE eitp_status eitp__safetensors_open_index_as(const eitp_host *host, const char *path,
                                                          eitp__tensor_format format, eitp__safetensors **collection,
                                                          eitp_error *error) {
    eitp_json_document *index = NULL;
    eitp__safetensors *created = NULL;
    const eitp_json *map;
    char *directory;
    eitp_status status = eitp__json_read_strict_file(host, path, EITP__SAFETENSORS_MAX_INDEX, &index, error);
    if (status)
        return status;
    directory = eitp__copy_directory(host, path);
    map = eitp_json_member(eitp_json_root(index), "weight_map");
    if (!directory)
        status = eitp__fail_memory(error, strlen(path) + 1, "the name of a directory");
    else if (!map || map->kind != EITP_JSON_OBJECT)
        status = eitp__fail(error, EITP_ERROR_FORMAT, "missing object \"weight_map\"; not an index of weights");
    else
        status = eitp__safetensors_create(host, format, &created, error);
    if (!status)
        status = eitp__add_weight_map(created, directory, map, error);
    eitp__release_text(host, directory);
    eitp_json_release(index);
    if (status) {
        eitp__safetensors_close(created);
        return eitp__fail_prefix(error, status, "%s", path);
    }
    *collection = created;
    return EITP_OK;
}

EITP__PRIVATE eitp_status eitp__safetensors_open_index(const eitp_host *host, const char *path,
                                                       eitp__safetensors **collection, eitp_error *error) {
    return eitp__safetensors_open_index_as(host, path, eitp__safetensors_read_header, collection, error);
}
