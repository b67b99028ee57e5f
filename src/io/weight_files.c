#include "io/weight_files.h"
#include "base/files.h"
#include "base/log.h"
#include "io/gguf_weights.h"
#include "io/latent_directory.h"
#include "io/manifest.h"
#include "io/model_directory.h"
#include "io/pytorch.h"

/* The files that may contain a directory's weights; the first existing one is read. */
static const struct {
    const char *name;
    eitp_status (*open)(const eitp_host *host, const char *path, eitp__safetensors **collection, eitp_error *error);
} eitp__weight_files[] = {
    {"model.safetensors", eitp__safetensors_open},
    {"model.safetensors.index.json", eitp__safetensors_open_index},
    {"pytorch_model.bin", eitp__pytorch_open},
    {"pytorch_model.bin.index.json", eitp__pytorch_open_index},
};

static eitp_status eitp__weights_open_in(const eitp_host *host, const char *directory, eitp__safetensors **collection,
                                         eitp_error *error) {
    for (size_t i = 0; i < EITP__COUNT(eitp__weight_files); i++) {
        char *path;
        int is_file;
        eitp_status status = eitp__path_in(host, directory, eitp__weight_files[i].name, &path, error);
        if (status)
            return status;
        status = eitp__path_is_file(host, path, &is_file, error);
        if (!status && is_file)
            status = eitp__weight_files[i].open(host, path, collection, error);
        eitp__release_text(host, path);
        if (status || is_file)
            return status;
    }
    return EITP_OK;
}

EITP__PRIVATE eitp_status eitp__weights_open(const eitp_host *host, const char *directory,
                                             eitp__safetensors **collection, eitp_error *error) {
    int is_file;
    eitp_status status = eitp__path_is_file(host, directory, &is_file, error);
    *collection = NULL;
#if !EITP_WITHOUT_GGUF
    if (!status && is_file) /* or the error says that it is another format */
        return eitp__gguf_weights_open(host, directory, collection, error);
#endif
    return status ? status : eitp__weights_open_in(host, directory, collection, error);
}

/* ---- Exact values ---- */

/* Sets *lower to the file with the lower planes of a weight file, if both match a checkpoint's manifest. */
static eitp_status eitp__find_lower_in(const eitp_host *host, const char *checkpoint, const char *name, char **lower,
                                       eitp_error *error) {
    const char *const names[2] = {EITP__OPTIMIZER_FILE, name};
    char *paths[2] = {NULL, NULL};
    eitp_path_info infos[2];
    eitp__manifest manifest;
    int exists = 0, is_same = 0;
    eitp_status status = EITP_OK;
    eitp__manifest_init(&manifest, host, -1, 1);
    for (int i = 0; i < 2 && !status; i++) {
        status = eitp__path_in(host, checkpoint, names[i], &paths[i], error);
        if (!status)
            status = eitp__path_info(host, paths[i], &infos[i], error);
    }
    if (!status && infos[0].kind == EITP_PATH_FILE)
        status = eitp__manifest_read(&manifest, checkpoint, &exists, error);
    if (!status && exists)
        is_same = eitp__manifest_has_size(&manifest, names[0], infos[0].size) &&
                  eitp__manifest_has_size(&manifest, names[1], infos[1].size);
    if (!status && exists && !is_same)
        eitp__log_line(host, EITP_LOG_WARNING,
                       "'%s' was changed after the checkpoint was saved: its weights are read from %s alone, at "
                       "reduced precision",
                       checkpoint, name);
    if (!status && is_same) {
        *lower = paths[0];
        paths[0] = NULL;
    }
    eitp__manifest_release(&manifest);
    eitp__release_text(host, paths[0]);
    eitp__release_text(host, paths[1]);
    return status;
}

EITP__PRIVATE eitp_status eitp__weights_find_lower(const eitp_host *host, const char *directory, const char *name,
                                                   char **lower, eitp_error *error) {
    static const char *const parts[] = {EITP__DECODER_DIRECTORY, EITP__ENCODER_DIRECTORY};
    const size_t length = strlen(directory);
    eitp_status status;
    *lower = NULL;
    status = eitp__find_lower_in(host, directory, name, lower, error);
    for (size_t i = 0; i < EITP__COUNT(parts) && !status && !*lower; i++) {
        const size_t part = strlen(parts[i]);
        char *parent, inner[64];
        if (length <= part || strcmp(directory + length - part, parts[i]) || directory[length - part - 1] != '/')
            continue;
        parent = eitp__parent_directory(host, directory);
        snprintf(inner, sizeof inner, "%s/%s", parts[i], name);
        status = parent ? eitp__find_lower_in(host, parent, inner, lower, error)
                        : eitp__fail_memory(error, length, "a path");
        eitp__release_text(host, parent);
    }
    return status;
}

/* True if the collection has tensors that may have a lower plane. */
static int eitp__has_halves(const eitp__safetensors *collection) {
    int found = 0;
    for (size_t i = 0; i < eitp__safetensors_count(collection) && !found; i++) {
        const int dtype = eitp__safetensors_at(collection, i)->dtype;
        found = dtype == EITP_BF16 || dtype == EITP_F16;
    }
    return found;
}

/* Fails if a directory was removed after its weights were opened, so that its other files were not found. */
static eitp_status eitp__check_present(const eitp_host *host, const char *directory, eitp_error *error) {
    eitp_path_info info;
    const eitp_status status = eitp__path_info(host, directory, &info, error);
    return status || info.kind != EITP_PATH_MISSING
               ? status
               : eitp__fail(error, EITP_ERROR_ARGUMENT, "'%s' was removed while it was being read", directory);
}

EITP__PRIVATE eitp_status eitp__weights_open_exact(const eitp_host *host, const char *directory,
                                                   eitp__safetensors **collection, eitp_error *error) {
    char *lower = NULL;
    eitp_status status = eitp__weights_open(host, directory, collection, error);
    if (status || !*collection || !eitp__has_halves(*collection))
        return status;
    status = eitp__weights_find_lower(host, directory, EITP__WEIGHTS_FILE, &lower, error);
    if (!status)
        status =
            lower ? eitp__safetensors_attach(*collection, lower, error) : eitp__check_present(host, directory, error);
    eitp__release_text(host, lower);
    if (status) {
        eitp__safetensors_close(*collection);
        *collection = NULL;
    }
    return status;
}

eitp_status eitp_model_dtype_read(const eitp_host *host, const char *directory, eitp_dtype *dtype, eitp_error *error) {
    int64_t wide = 0, halves[2] = {0, 0};
    eitp__safetensors *collection = NULL;
    eitp_status status;
    if (!host || !directory || !dtype)
        return eitp__fail_null(error, "eitp_model_dtype_read", "host, directory and dtype");
    status = eitp__weights_open(host, directory, &collection, error);
    for (size_t i = 0; !status && collection && i < eitp__safetensors_count(collection); i++) {
        const eitp__safetensors_entry *entry = eitp__safetensors_at(collection, i);
        if (entry->dtype == EITP_BF16 || entry->dtype == EITP_F16)
            halves[entry->dtype == EITP_F16] += entry->count;
        else
            wide += entry->count;
    }
    eitp__safetensors_close(collection);
    if (status)
        return status;
    *dtype = halves[0] > wide && halves[0] >= halves[1] ? EITP_BF16 : halves[1] > wide ? EITP_F16 : EITP_F32;
    return EITP_OK;
}
