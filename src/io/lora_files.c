#include "io/lora_files.h"
#include "base/convert.h"
#include "base/files.h"
#include "io/variables.h"

/* Builds the path of a file in a directory. */
static eitp_status eitp__lora_path(const eitp_model *model, const char *directory, const char *name, char **path,
                                   eitp_error *error) {
    *path = eitp__join_path(&model->host, directory, name);
    return *path ? EITP_OK : eitp__fail_memory(error, strlen(directory) + strlen(name) + 2, "a path");
}

static int eitp__is_adapter(const eitp_variable *variable) {
    return eitp__lora_is_adapter(variable->name);
}

eitp_status eitp_lora_save(eitp_model *model, const char *directory, const char *base, eitp_error *error) {
    return model && directory ? eitp__lora_save(model, directory, base, NULL, NULL, error)
                              : eitp__fail_null(error, "eitp_lora_save", "model and directory");
}

EITP__PRIVATE eitp_status eitp__lora_save(eitp_model *model, const char *directory, const char *base,
                                          uint32_t *checksum, eitp__file_output *output, eitp_error *error) {
    eitp__selection selection = EITP__ZERO;
    char *path;
    eitp_status status;
    if (!model->lora.rank)
        return eitp__fail(error, EITP_ERROR_ARGUMENT, "the model has no adapters to save");
    status = eitp__make_directories(&model->host, directory, error);
    if (!status)
        status = eitp__lora_path(model, directory, EITP__LORA_CONFIG_FILE, &path, error);
    if (status)
        return status;
    status =
        eitp__lora_config_write(&model->host, path, &model->config, &model->lora, base ? base : model->source, error);
    eitp__release_text(&model->host, path);
    if (!status)
        status = eitp__lora_path(model, directory, EITP__LORA_WEIGHTS_FILE, &path, error);
    if (status)
        return status;
    selection.role = EITP_PARAMETER;
    selection.selects = eitp__is_adapter;
    selection.prefix = EITP__LORA_PREFIX;
    selection.config = &model->config;
    selection.adapters = &model->lora;
    status = eitp__variables_save(model->context, path, &selection, EITP_SAVE_F32, checksum, output, error);
    eitp__release_text(&model->host, path);
    return status;
}

static const eitp__safetensors_entry *eitp__lora_entry(const eitp__safetensors *collection, const char *variable) {
    char name[EITP__NAME_SIZE + 32];
    snprintf(name, sizeof name, EITP__LORA_PREFIX "%.*s", EITP__NAME_SIZE, variable);
    return eitp__safetensors_find(collection, name);
}

/* Receives a tensor of a classifier or another module that is trained in full: its variable, the piece, and its entry,
   or NULL if the file lacks it. */
typedef eitp_status (*eitp__saved_visit)(void *user, const eitp_variable *variable, const eitp__piece *piece,
                                         const eitp__safetensors_entry *entry, eitp_error *error);

static eitp_status eitp__visit_saved(const eitp_model *model, unsigned saved, const eitp__safetensors *collection,
                                     eitp__saved_visit visit, void *user, eitp_error *error) {
    eitp_status status = EITP_OK;
    for (int64_t i = 0; i < eitp__parameter_count(&model->config) && !status; i++) {
        const eitp__parameter parameter = eitp__parameter_at(&model->config, i);
        eitp_variable variable;
        eitp__piece pieces[EITP__PIECES];
        int count;
        if (!eitp__lora_trains(&model->config, saved, &parameter))
            continue;
        variable = eitp_variable_at(model->context, (size_t)eitp_variable_find(model->context, parameter.name));
        count = eitp__saved_pieces(&variable, &model->config, saved, pieces);
        for (int k = 0; k < count && !status; k++)
            status = visit(user, &variable, &pieces[k],
                           eitp__lora_entry(collection, *pieces[k].name ? pieces[k].name : variable.name), error);
    }
    return status;
}

/* Numbers of tensors of modules trained in full: expected ones, and ones that a file has. */
typedef struct eitp__saved_count {
    int64_t all, present;
} eitp__saved_count;

static eitp_status eitp__count_saved(void *user, const eitp_variable *variable, const eitp__piece *piece,
                                     const eitp__safetensors_entry *entry, eitp_error *error) {
    eitp__saved_count *count = (eitp__saved_count *)user;
    (void)variable, (void)error;
    count->all += entry || !piece->is_copy;
    count->present += entry != NULL;
    return EITP_OK;
}

/* Checks that the file has exactly the tensors of adapters with this configuration. */
static eitp_status eitp__lora_check_tensors(const eitp_model *model, const eitp_lora_config *config,
                                            const eitp__safetensors *collection, const char *path, eitp_error *error) {
    int64_t count = eitp__lora_parameter_count(&model->config, config);
    eitp__saved_count saved = EITP__ZERO;
    char shape[80], expected[80];
    for (int64_t i = 0; i < count; i++) {
        eitp__parameter parameter = eitp__lora_parameter(&model->config, config, i);
        const eitp__safetensors_entry *entry = eitp__lora_entry(collection, parameter.name);
        if (!entry)
            return eitp__fail(error, EITP_ERROR_FORMAT,
                              "%s: missing tensor '" EITP__LORA_PREFIX "%s', required by " EITP__LORA_CONFIG_FILE
                              " and the model",
                              path, parameter.name);
        if (entry->dtype < 0 || !eitp__is_floating((eitp_dtype)entry->dtype))
            return eitp__fail(error, EITP_ERROR_FORMAT,
                              "%s: tensor '%.100s' has unsupported dtype %s (expected F32, F16 or BF16)", path,
                              entry->name, entry->type);
        if (entry->rank != 2 || entry->shape[0] != parameter.shape[0] || entry->shape[1] != parameter.shape[1])
            return eitp__fail(error, EITP_ERROR_FORMAT,
                              "%s: tensor '%.100s' has shape %s, expected %s; is it an adapter of another model?", path,
                              entry->name, eitp__format_shape(entry->rank, entry->shape, shape, sizeof shape),
                              eitp__format_shape(2, parameter.shape, expected, sizeof expected));
    }
    eitp__visit_saved(model, config->saved, collection, eitp__count_saved, &saved, error);
    if (saved.present != saved.all && (saved.present || config->saved))
        return eitp__fail(error, EITP_ERROR_FORMAT, "%s has %lld of the %lld tensors of modules_to_save", path,
                          (long long)saved.present, (long long)saved.all);
    count += saved.present;
    if (eitp__safetensors_count(collection) != (size_t)count)
        return eitp__fail(error, EITP_ERROR_FORMAT,
                          "%s has %zu tensors, expected %lld; is it an adapter of another model?", path,
                          eitp__safetensors_count(collection), (long long)count);
    return EITP_OK;
}

/* The state of reading modules that are trained in full. */
typedef struct eitp__saved_read {
    eitp_context *context;
    const eitp__safetensors *collection;
    int loads;
    uint32_t *sum;
} eitp__saved_read;

static eitp_status eitp__read_saved(void *user, const eitp_variable *variable, const eitp__piece *piece,
                                    const eitp__safetensors_entry *entry, eitp_error *error) {
    const eitp__saved_read *read = (const eitp__saved_read *)user;
    return entry ? eitp__variable_read_piece(read->context, variable, piece, read->collection, entry,
                                             read->loads && !piece->is_copy, read->sum, error)
                 : EITP_OK;
}

static eitp_status eitp__lora_read_tensors(eitp_model *model, const eitp__safetensors *collection, int loads,
                                           eitp__read_sums *sums, eitp_error *error) {
    uint32_t sum = 0;
    eitp__saved_read read;
    eitp_status status;
    read.context = model->context;
    read.collection = collection;
    read.loads = loads;
    read.sum = &sum;
    /* In the order of the variables, like the checksum. */
    status = eitp__visit_saved(model, model->lora.saved, collection, eitp__read_saved, &read, error);
    for (int64_t i = 0; i < eitp__lora_parameter_count(&model->config, &model->lora) && !status; i++) {
        eitp__parameter parameter = eitp__lora_parameter(&model->config, &model->lora, i);
        int64_t index = eitp_variable_find(model->context, parameter.name);
        eitp_variable variable = eitp_variable_at(model->context, (size_t)index);
        status = eitp__variable_read_entry(model->context, &variable, collection,
                                           eitp__lora_entry(collection, parameter.name), loads, &sum, error);
    }
    if (!status && sums) {
        sums->tensors = sum;
        sums->file = eitp__safetensors_sum(collection);
    }
    return status;
}

/* Opens the adapters in a directory, and checks them against the model. */
static eitp_status eitp__lora_open(const eitp_model *model, const char *directory, eitp_lora_config *config,
                                   eitp__safetensors **collection, eitp_error *error) {
    char *path;
    eitp_status status =
        eitp_lora_config_read(&model->host, directory, eitp__architecture_of(&model->config), config, NULL, 0, error);
    *collection = NULL;
    if (!status && eitp__lora_find_layers(&model->config, config, error)) {
        /* An invalid argument comes from the file. */
        status = EITP_ERROR_FORMAT;
        if (error)
            error->status = status;
        eitp__fail_prefix(error, status, "%s", directory);
    }
    if (!status && (config->saved & EITP_LORA_SAVES_EMBEDDING) && eitp__is_tied(&model->config))
        status = eitp__lora_config_check_tied(&model->host, directory, error);
    if (!status && model->lora.rank && !eitp__lora_configs_equal(config, &model->lora))
        status = eitp__fail(error, EITP_ERROR_ARGUMENT,
                            "the adapters in '%s' and the model's adapters have different configurations", directory);
    if (status)
        return status;
    status = eitp__lora_path(model, directory, EITP__LORA_WEIGHTS_FILE, &path, error);
    if (status)
        return status;
    status = eitp__safetensors_open(&model->host, path, collection, error);
    if (!status)
        status = eitp__lora_check_tensors(model, config, *collection, path, error);
    eitp__release_text(&model->host, path);
    return status;
}

/* Reads adapters. With `checks_base` their base, if known, must be the model's. */
static eitp_status eitp__lora_read_with(eitp_model *model, const char *directory, int checks_base,
                                        eitp__reading reading, eitp__read_sums *sums, eitp_error *error) {
    eitp_lora_config config;
    eitp__safetensors *collection;
    eitp_status status = eitp__lora_open(model, directory, &config, &collection, error);
    if (!status && checks_base)
        status = eitp__lora_check_base(model, directory, error);
    if (!status && !model->lora.rank)
        status = eitp_model_add_lora(model, &config, error);
    if (!status && reading != EITP__READ_HEADER)
        status = eitp__lora_read_tensors(model, collection, reading == EITP__READ_LOAD, sums, error);
    eitp__safetensors_close(collection);
    return status;
}

EITP__PRIVATE eitp_status eitp__lora_read(eitp_model *model, const char *directory, eitp__reading reading,
                                          eitp__read_sums *sums, eitp_error *error) {
    return eitp__lora_read_with(model, directory, 0, reading, sums, error);
}

eitp_status eitp_lora_load(eitp_model *model, const char *directory, eitp_error *error) {
    eitp_status status = model && directory ? eitp__lora_read_with(model, directory, 1, EITP__READ_LOAD, NULL, error)
                                            : eitp__fail_null(error, "eitp_lora_load", "model and directory");
    if (status || !eitp__lora_has_separate(model->context, 1))
        return status;
    model->has_loaded_head = 1;
    if (eitp_head_has_labels(model->config.head) || (model->lora.saved & EITP_LORA_SAVES_HEAD))
        model->lacks_head = 0;
    return EITP_OK;
}

/* ---- Parameters saved separately ---- */

static int eitp__is_of_learner(const eitp_variable *variable) {
    return variable->of_learner;
}

static int eitp__is_separate_from_adapters(const eitp_variable *variable) {
    return variable->of_learner || (variable->trained && !eitp__lora_is_adapter(variable->name));
}

static eitp__selection eitp__select_others(int has_adapters) {
    eitp__selection selection = EITP__ZERO;
    selection.role = EITP_PARAMETER;
    selection.selects = has_adapters ? eitp__is_separate_from_adapters : eitp__is_of_learner;
    selection.prefix = "";
    selection.config = NULL;
    return selection;
}

EITP__PRIVATE int eitp__lora_has_separate(const eitp_context *context, int has_adapters) {
    const eitp__selection selection = eitp__select_others(has_adapters);
    for (size_t i = 0; i < eitp_variable_count(context); i++) {
        const eitp_variable variable = eitp_variable_at(context, i);
        if (variable.role == EITP_PARAMETER && selection.selects(&variable))
            return 1;
    }
    return 0;
}

EITP__PRIVATE eitp_status eitp__lora_save_others(eitp_context *context, int has_adapters, const char *directory,
                                                 uint32_t *checksum, eitp__file_output *output, eitp_error *error) {
    const eitp_host host = eitp_context_host(context);
    const eitp__selection selection = eitp__select_others(has_adapters);
    char *path = eitp__join_path(&host, directory, EITP__LORA_OTHERS_FILE);
    eitp_status status = path ? eitp__variables_save(context, path, &selection, EITP_SAVE_F32, checksum, output, error)
                              : eitp__fail_memory(error, strlen(directory), "a path");
    eitp__release_text(&host, path);
    return status;
}

EITP__PRIVATE eitp_status eitp__lora_read_others(eitp_context *context, int has_adapters, const char *path,
                                                 eitp__reading reading, eitp__read_sums *sums, eitp_error *error) {
    const eitp__selection selection = eitp__select_others(has_adapters);
    return eitp__variables_read_selected(context, path, &selection, reading, sums, error);
}
