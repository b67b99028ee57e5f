/* Reads the files in which sentence-transformers describes how embeddings are computed from hidden states. */
#include "base/files.h"
#include "base/json.h"
#include "gguf/model_json.h"
#include "task/predictor.h"

/* Larger files are refused. */
#define EITP__EMBEDDING_FILE_LIMIT ((size_t)1 << 20)

/* Reads a JSON file of the directory. *document is NULL if the file is missing. *path is the file's path, for
   messages. */
static eitp_status eitp__embedding_file(const eitp_host *host, const char *directory, const char *name, char **path,
                                        eitp_json_document **document, eitp_error *error) {
    int exists = 0;
    eitp_status status;
    *document = NULL;
    *path = eitp__join_path(host, directory, name);
    if (!*path)
        return eitp__fail_memory(error, strlen(directory) + strlen(name) + 2, "a path");
    status = eitp__model_json_exists(host, *path, &exists, error);
    if (!status && exists)
        status = eitp__model_json_read_strict(host, *path, EITP__EMBEDDING_FILE_LIMIT, document, error);
    if (!status)
        return EITP_OK;
    eitp__release_text(host, *path);
    *path = NULL;
    return status;
}

/* ---- Pooling ---- */

/* A kind of pooling: its name in "pooling_mode_<name>", and in "pooling_mode" of later versions. */
typedef struct eitp__pooling_name {
    const char *member, *word;
    int pooling; /* -1: unsupported */
} eitp__pooling_name;

static const eitp__pooling_name eitp__pooling_names[] = {
    {"pooling_mode_mean_tokens", "mean", EITP_EMBEDDING_MEAN},
    {"pooling_mode_cls_token", "cls", EITP_EMBEDDING_FIRST},
    {"pooling_mode_max_tokens", "max", EITP_EMBEDDING_MAX},
    {"pooling_mode_lasttoken", "lasttoken", EITP_EMBEDDING_LAST},
    {"pooling_mode_mean_sqrt_len_tokens", "mean_sqrt_len_tokens", EITP_EMBEDDING_MEAN_SQRT_LENGTH},
    {"pooling_mode_weightedmean_tokens", "weightedmean", -1},
};

/* True if the file selects this kind. `word` is its "pooling_mode", or NULL. */
static eitp_status eitp__pooling_is_chosen(const eitp_json *root, const eitp__pooling_name *name, const char *word,
                                           int *chosen, eitp_error *error) {
    *chosen = word && !strcmp(word, name->word);
    return word ? EITP_OK : eitp__json_get_boolean(root, name->member, chosen, error);
}

static eitp_status eitp__read_pooling(const eitp_json *root, eitp_embedding_pooling *pooling, eitp_error *error) {
    const eitp__pooling_name *found = NULL;
    const char *word = NULL;
    eitp_status status = eitp__json_get_text(root, "pooling_mode", &word, error);
    for (size_t i = 0; i < EITP__COUNT(eitp__pooling_names) && !status; i++) {
        const eitp__pooling_name *name = &eitp__pooling_names[i];
        int chosen = 0;
        status = eitp__pooling_is_chosen(root, name, word, &chosen, error);
        if (!status && chosen && found)
            return eitp__fail(error, EITP_ERROR_UNSUPPORTED,
                              "%s and %s cannot be combined; eitp supports one kind of pooling at a time",
                              found->member, name->member);
        found = chosen ? name : found;
    }
    if (status)
        return status;
    if (found && found->pooling >= 0) {
        *pooling = (eitp_embedding_pooling)found->pooling;
        return EITP_OK;
    }
    return eitp__fail(error, EITP_ERROR_UNSUPPORTED,
                      "%s is not supported (supported: mean_tokens, cls_token, max_tokens, lasttoken, "
                      "mean_sqrt_len_tokens)",
                      found  ? found->member
                      : word ? word
                             : "pooling without a pooling_mode");
}

static eitp_status eitp__read_pooling_file(const eitp_host *host, const char *directory, const char *folder,
                                           int is_required, eitp_embedding_pooling *pooling, eitp_error *error) {
    eitp_json_document *document = NULL;
    char *name = eitp__join_path(host, folder, "config.json"), *path = NULL;
    eitp_status status = name ? eitp__embedding_file(host, directory, name, &path, &document, error)
                              : eitp__fail_memory(error, strlen(folder) + 13, "a path");
    if (!status && document)
        status = eitp__read_pooling(eitp_json_root(document), pooling, error);
    else if (!status && is_required)
        status = eitp__fail(error, EITP_ERROR_FORMAT, "the file that modules.json needs is missing");
    if (status && path)
        eitp__fail_prefix(error, status, "%s", path);
    eitp_json_release(document);
    eitp__release_text(host, path);
    eitp__release_text(host, name);
    return status;
}

/* ---- Modules ---- */

/* Returns the last part of a class name, such as Pooling in "sentence_transformers.models.Pooling". */
static const char *eitp__module_class(const char *type) {
    const char *dot = strrchr(type, '.');
    return dot ? dot + 1 : type;
}

/* Checks a module. If it is the pooling module, stores its folder in *folder. */
static eitp_status eitp__read_module(const eitp_json *module, const char **folder, eitp_error *error) {
    const char *type = NULL, *path = "", *name;
    eitp_status status = eitp__json_get_text(module, "type", &type, error);
    if (!status)
        status = eitp__json_get_text(module, "path", &path, error);
    if (!status && !type)
        status = eitp__fail(error, EITP_ERROR_FORMAT, "line %zu: the module has no type", module->line);
    if (status)
        return status;
    name = eitp__module_class(type);
    if (!strcmp(name, "Pooling") && !*folder)
        *folder = path;
    else if (strcmp(name, "Transformer") && strcmp(name, "Normalize"))
        return eitp__fail(error, EITP_ERROR_UNSUPPORTED,
                          "line %zu: unsupported module %.80s (supported: Transformer, one Pooling, Normalize)",
                          module->line, name);
    return EITP_OK;
}

static eitp_status eitp__read_modules(const eitp_json *root, const char **folder, eitp_error *error) {
    eitp_status status = EITP_OK;
    if (root->kind != EITP_JSON_ARRAY)
        return eitp__fail(error, EITP_ERROR_FORMAT, "line %zu: the modules must be an array", root->line);
    for (const eitp_json *module = root->first_child; module && !status; module = module->next)
        status = eitp__read_module(module, folder, error);
    return status;
}

static eitp_status eitp__read_module_files(const eitp_host *host, const char *directory,
                                           eitp_embedding_pooling *pooling, eitp_error *error) {
    eitp_json_document *document;
    const char *folder = NULL;
    char *path;
    eitp_status status = eitp__embedding_file(host, directory, "modules.json", &path, &document, error);
    if (status)
        return status;
    if (document) {
        status = eitp__read_modules(eitp_json_root(document), &folder, error);
        if (status)
            eitp__fail_prefix(error, status, "%s", path);
    }
    if (!status && (folder || !document))
        status =
            eitp__read_pooling_file(host, directory, folder ? folder : "1_Pooling", folder != NULL, pooling, error);
    eitp_json_release(document);
    eitp__release_text(host, path);
    return status;
}

/* ---- Lengths ---- */

static eitp_status eitp__read_longest(const eitp_host *host, const char *directory, int64_t positions,
                                      int64_t *max_length, eitp_error *error) {
    eitp_json_document *document;
    char *path;
    int64_t length = 0;
    eitp_status status = eitp__embedding_file(host, directory, "sentence_bert_config.json", &path, &document, error);
    if (status)
        return status;
    if (document) {
        status = eitp__json_get_integer(eitp_json_root(document), "max_seq_length", 1, INT32_MAX, &length, error);
        if (status)
            eitp__fail_prefix(error, status, "%s", path);
    }
    if (!status && length)
        *max_length = length < positions ? length : positions;
    eitp_json_release(document);
    eitp__release_text(host, path);
    return status;
}

eitp_status eitp_embedding_config_read(const eitp_host *host, const char *directory, int64_t positions,
                                       eitp_predictor_config *config, eitp_error *error) {
    eitp_predictor_config read;
    eitp_status status;
    if (!host || !directory || !config)
        return eitp__fail_null(error, "eitp_embedding_config_read", "host, directory and config");
    read = *config;
    read.prediction = EITP_PREDICT_EMBEDDINGS;
    status = eitp__read_module_files(host, directory, &read.pooling, error);
    if (!status)
        status = eitp__read_longest(host, directory, positions, &read.max_length, error);
    if (!status)
        *config = read;
    return status;
}
