#include "gguf/model_json.h"

#if EITP_WITHOUT_GGUF

EITP__PRIVATE eitp_status eitp__model_is_file(const eitp_host *host, const char *path, int *is_file,
                                              eitp_error *error) {
    (void)host, (void)path, (void)error;
    *is_file = 0;
    return EITP_OK;
}

EITP__PRIVATE eitp_status eitp__model_json_exists(const eitp_host *host, const char *path, int *exists,
                                                  eitp_error *error) {
    return eitp__path_is_file(host, path, exists, error);
}

/* True if the path is in a file instead of a directory. */
static int eitp__model_json_derives(const eitp_host *host, const char *path, eitp_json_document **document,
                                    eitp_status *status, eitp_error *error) {
    char *parent = eitp__parent_directory(host, path);
    int is_file = 0;
    (void)document;
    if (parent && !eitp__path_is_file(host, parent, &is_file, NULL) && is_file)
        *status = eitp__fail(error, EITP_ERROR_UNSUPPORTED,
                             "'%s' is not a directory; for GGUF files, this program was built with EITP_WITHOUT_GGUF",
                             parent);
    eitp__release_text(host, parent);
    return is_file;
}

#else

#include "gguf/architectures.h"
#include "gguf/tokenizer_text.h"

/* A file that is derived from keys. */
typedef struct eitp__gguf_text_file {
    const char *name;
    eitp_status (*write)(const eitp__gguf *gguf, eitp__buffer *text, eitp_error *error);
    int (*exists)(const eitp__gguf *gguf); /* NULL: always */
} eitp__gguf_text_file;

static const eitp__gguf_text_file eitp__gguf_text_files[] = {
    {"config.json", eitp__gguf_write_model_config, NULL},
    {"tokenizer.json", eitp__gguf_write_tokenizer, eitp__gguf_has_tokenizer},
    {"tokenizer_config.json", eitp__gguf_write_tokenizer_config, eitp__gguf_has_tokenizer},
    {"1_Pooling/config.json", eitp__gguf_write_pooling, eitp__gguf_has_pooling},
};

EITP__PRIVATE eitp_status eitp__model_is_file(const eitp_host *host, const char *path, int *is_file,
                                              eitp_error *error) {
    return eitp__path_is_gguf(host, path, is_file, error);
}

/* Splits "model.gguf/config.json", or "model.gguf/1_Pooling/config.json". *model, which the caller releases, is NULL if
   the path is not in a GGUF file. */
static eitp_status eitp__gguf_split_path(const eitp_host *host, const char *path, char **model, const char **name,
                                         eitp_error *error) {
    size_t size = strlen(path);
    eitp_status status = EITP_OK;
    *model = NULL;
    for (int depth = 0; depth < 2 && !status; depth++) {
        int is_gguf;
        while (size && path[size - 1] != '/')
            size--;
        if (size < 2)
            return EITP_OK;
        *name = path + size--;
        *model = eitp__copy_bytes(host, path, size);
        status = *model ? eitp__path_is_gguf(host, *model, &is_gguf, error) : eitp__fail_memory(error, size, "a path");
        if (!status && is_gguf)
            return EITP_OK;
        eitp__release_text(host, *model);
        *model = NULL;
    }
    return status;
}

static const eitp__gguf_text_file *eitp__gguf_text_file_find(const char *name) {
    for (size_t i = 0; i < EITP__COUNT(eitp__gguf_text_files); i++) {
        if (!strcmp(eitp__gguf_text_files[i].name, name))
            return &eitp__gguf_text_files[i];
    }
    return NULL;
}

/* Sets *exists if the GGUF file can stand for a file. */
static eitp_status eitp__gguf_has_file(const eitp_host *host, const char *model, const char *name, int *exists,
                                       eitp_error *error) {
    const eitp__gguf_text_file *file = eitp__gguf_text_file_find(name);
    eitp__gguf gguf = EITP__ZERO;
    eitp_status status = EITP_OK;
    *exists = file != NULL;
    if (!file || !file->exists)
        return EITP_OK;
    status = eitp__gguf_open(host, model, &gguf, error);
    *exists = !status && file->exists(&gguf);
    eitp__gguf_close(&gguf);
    return status;
}

EITP__PRIVATE eitp_status eitp__model_json_exists(const eitp_host *host, const char *path, int *exists,
                                                  eitp_error *error) {
    char *model;
    const char *name;
    eitp_status status = eitp__gguf_split_path(host, path, &model, &name, error);
    if (!status)
        status = model ? eitp__gguf_has_file(host, model, name, exists, error)
                       : eitp__path_is_file(host, path, exists, error);
    eitp__release_text(host, model);
    return status;
}

/* Derives a file and parses it. */
static eitp_status eitp__gguf_derive(const eitp_host *host, const char *model, const char *name,
                                     eitp_json_document **document, eitp_error *error) {
    const eitp__gguf_text_file *file = eitp__gguf_text_file_find(name);
    eitp__gguf gguf = EITP__ZERO;
    eitp__buffer text;
    eitp_status status = file ? eitp__gguf_open(host, model, &gguf, error)
                              : eitp__fail(error, EITP_ERROR_ARGUMENT, "%s has no %s", model, name);
    if (status) {
        eitp__gguf_close(&gguf);
        return status;
    }
    eitp__buffer_init(&text, host);
    status = file->write(&gguf, &text, error);
    eitp__gguf_close(&gguf);
    if (!status && text.failed)
        status = eitp__fail_memory(error, text.size, "the keys of a GGUF file");
    if (!status)
        status = eitp_json_parse(host, text.data, text.size, document, error);
    eitp__buffer_release(&text);
    return status && status != EITP_ERROR_MEMORY ? eitp__fail_prefix(error, status, "%s", model) : status;
}

/* True if the file is derived, and *document read. */
static int eitp__model_json_derives(const eitp_host *host, const char *path, eitp_json_document **document,
                                    eitp_status *status, eitp_error *error) {
    char *model;
    const char *name;
    *status = eitp__gguf_split_path(host, path, &model, &name, error);
    if (!*status && !model)
        return 0;
    if (!*status)
        *status = eitp__gguf_derive(host, model, name, document, error);
    eitp__release_text(host, model);
    return 1;
}

#endif

EITP__PRIVATE eitp_status eitp__model_json_read(const eitp_host *host, const char *path, size_t limit,
                                                eitp_json_document **document, eitp_error *error) {
    eitp_status status;
    *document = NULL;
    return eitp__model_json_derives(host, path, document, &status, error)
               ? status
               : eitp_json_read_file(host, path, limit, document, error);
}

EITP__PRIVATE eitp_status eitp__model_json_read_strict(const eitp_host *host, const char *path, size_t limit,
                                                       eitp_json_document **document, eitp_error *error) {
    eitp_status status;
    *document = NULL;
    return eitp__model_json_derives(host, path, document, &status, error)
               ? status
               : eitp__json_read_strict_file(host, path, limit, document, error);
}
