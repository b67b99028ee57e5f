/* Hugging Face model directories. */
#include "base/log.h"
#include "io/variables.h"
#include "model/lora.h"

/* Joins directory and name, or fails for want of memory. */
static eitp_status eitp__path_in(const eitp_host *host, const char *directory, const char *name, char **path,
                                 eitp_error *error) {
    *path = eitp__join_path(host, directory, name);
    return *path ? EITP_OK : eitp__fail_memory(error, strlen(directory) + strlen(name) + 2, "a path");
}

static eitp_status eitp__is_file(const eitp_host *host, const char *path, int *is_file, eitp_error *error) {
    eitp_path_info info;
    eitp_status status = eitp__path_info(host, path, &info, error);
    *is_file = !status && info.kind == EITP_PATH_FILE;
    return status;
}

/* Opens model.safetensors, or else the index of shards. */
static eitp_status eitp__open_weights(const eitp_host *host, const char *directory, eitp__safetensors **collection,
                                      eitp_error *error) {
    static const char *const names[] = {"model.safetensors", "model.safetensors.index.json"};
    *collection = NULL;
    for (size_t i = 0; i < EITP__COUNT(names); i++) {
        char *path;
        int is_file;
        eitp_status status = eitp__path_in(host, directory, names[i], &path, error);
        if (status)
            return status;
        status = eitp__is_file(host, path, &is_file, error);
        if (!status && is_file)
            status = i ? eitp__safetensors_open_index(host, path, collection, error)
                       : eitp__safetensors_open(host, path, collection, error);
        eitp__release_text(host, path);
        if (status || is_file)
            return status;
    }
    return eitp__fail(
        error, EITP_ERROR_ARGUMENT,
        "'%s' has no model.safetensors and no model.safetensors.index.json; weights in other formats must be "
        "converted to safetensors",
        directory);
}

/* The tensor of a parameter: by its whole name, or without the prefix that a bare GPT2Model does not write. */
static const eitp__safetensors_entry *eitp__find_weights(const eitp__safetensors *collection, const char *name) {
    static const char prefix[] = "transformer.";
    const eitp__safetensors_entry *entry = eitp__safetensors_find(collection, name);
    if (!entry && !strncmp(name, prefix, sizeof prefix - 1))
        entry = eitp__safetensors_find(collection, name + sizeof prefix - 1);
    return entry;
}

eitp_status eitp_model_load_weights(eitp_model *model, const char *directory, eitp_error *error) {
    if (!model || !directory)
        return eitp__fail_null(error, "eitp_model_load_weights", "model and directory");
    eitp__safetensors *collection = NULL;
    char *source = eitp__copy_text(&model->host, directory);
    int64_t count = eitp__gpt2_parameter_count(&model->config);
    size_t stored;
    eitp_status status = source ? eitp__open_weights(&model->host, directory, &collection, error)
                                : eitp__fail_memory(error, strlen(directory) + 1, "the name of a directory");
    if (status) {
        eitp__release_text(&model->host, source);
        return status;
    }
    for (int64_t i = 0; i < count && !status; i++) {
        eitp__parameter parameter = eitp__gpt2_parameter(&model->config, i);
        eitp_variable variable =
            eitp_variable_at(model->context, (size_t)eitp_variable_find(model->context, parameter.name));
        const eitp__safetensors_entry *entry = eitp__find_weights(collection, parameter.name);
        status = entry ? eitp__variable_read_entry(model->context, &variable, collection, entry, NULL, error)
                       : eitp__fail(error, EITP_ERROR_FORMAT,
                                    "the weights in '%s' have no tensor '%s', which config.json asks for", directory,
                                    parameter.name);
    }
    stored = eitp__safetensors_count(collection);
    if (!status && stored > (size_t)count)
        eitp__log(&model->host, EITP_LOG_INFO, "%zu tensors in '%s' are no weights of the model and were left out",
                  stored - (size_t)count, directory);
    eitp__safetensors_close(collection);
    eitp__release_text(&model->host, status ? source : model->source);
    if (!status)
        model->source = source;
    return status;
}

eitp_status eitp_model_load(eitp_context *context, const char *directory, eitp_model **model, eitp_error *error) {
    if (!context || !directory || !model)
        return eitp__fail_null(error, "eitp_model_load", "context, directory and model");
    const eitp_host host = eitp_context_host(context);
    eitp_gpt2_config config;
    eitp_model *made = NULL;
    char *path;
    eitp_status status = eitp__path_in(&host, directory, "config.json", &path, error);
    *model = NULL;
    if (status)
        return status;
    status = eitp_gpt2_config_read(&host, path, &config, error);
    eitp__release_text(&host, path);
    if (!status)
        status = eitp_gpt2_create(context, &config, &made, error);
    if (!status)
        status = eitp_model_load_weights(made, directory, error);
    if (status) {
        eitp_model_destroy(made);
        return status;
    }
    *model = made;
    return EITP_OK;
}

static int eitp__is_no_adapter(const char *name) {
    return !eitp__lora_is_adapter(name);
}

eitp_status eitp_model_save(eitp_model *model, const char *directory, eitp_dtype dtype, int32_t end_of_text,
                            uint32_t *checksum, eitp_error *error) {
    if (!model || !directory)
        return eitp__fail_null(error, "eitp_model_save", "model and directory");
    eitp__selection selection;
    char *path;
    eitp_status status = eitp__path_in(&model->host, directory, "config.json", &path, error);
    if (status)
        return status;
    status = eitp_gpt2_config_write(&model->host, path, &model->config, end_of_text, dtype, error);
    eitp__release_text(&model->host, path);
    if (!status)
        status = eitp__path_in(&model->host, directory, "model.safetensors", &path, error);
    if (status)
        return status;
    selection.role = EITP_PARAMETER;
    selection.selects = model->lora.rank ? eitp__is_no_adapter : NULL;
    selection.prefix = "";
    status = eitp__variables_save(model->context, path, &selection, dtype, checksum, error);
    eitp__release_text(&model->host, path);
    return status;
}
