/* adapter_config.json of Hugging Face's PEFT. */
#include "base/files.h"
#include "base/json.h"
#include "io/lora_files.h"
#include "io/safetensors.h"
#include "model/lora.h"

/* Members that do not affect the use of the saved weights, or that are read elsewhere. */
static const char *const eitp__lora_known[] = {
    "auto_mapping",
    "base_model_name_or_path",
    "bias",
    "ensure_weight_tying",
    "exclude_modules",
    "fan_in_fan_out",
    "inference_mode",
    "lora_alpha",
    "layers_pattern",
    "layers_to_transform",
    "lora_dropout",
    "megatron_core",
    "modules_to_save",
    "init_lora_weights",
    "peft_type",
    "peft_version",
    "qalora_group_size",
    "r",
    "revision",
    "runtime_config",
    "target_modules",
    "task_type",
    "use_rslora",
};

static int eitp__lora_is_known(const char *name) {
    for (size_t i = 0; i < EITP__COUNT(eitp__lora_known); i++) {
        if (!strcmp(name, eitp__lora_known[i]))
            return 1;
    }
    return 0;
}

/* True if the value disables its feature. */
static int eitp__lora_is_off(const eitp_json *value) {
    return value->kind == EITP_JSON_NULL || (value->kind == EITP_JSON_BOOLEAN && !value->boolean) ||
           ((value->kind == EITP_JSON_OBJECT || value->kind == EITP_JSON_ARRAY) && !value->count);
}

/* Checks that a member is `word`, null or missing. */
static eitp_status eitp__lora_check_word(const eitp_json *root, const char *name, const char *word, eitp_error *error) {
    const char *text = word;
    eitp_status status = eitp__json_get_text(root, name, &text, error);
    if (!status && strcmp(text, word))
        status = eitp__fail(error, EITP_ERROR_UNSUPPORTED, "unsupported %s '%.60s' (supported: %s)", name, text, word);
    return status;
}

/* Refuses initializations that change the base weights, which the adapter then depends on. */
static eitp_status eitp__lora_check_start(const eitp_json *root, eitp_error *error) {
    static const char *const starts[] = {"gaussian", "orthogonal", "eva"};
    const eitp_json *start = eitp_json_member(root, "init_lora_weights");
    if (!start || start->kind == EITP_JSON_NULL || start->kind == EITP_JSON_BOOLEAN)
        return EITP_OK;
    for (size_t i = 0; i < EITP__COUNT(starts) && start->kind == EITP_JSON_STRING; i++) {
        if (!strcmp(start->text, starts[i]))
            return EITP_OK;
    }
    return eitp__fail(error, EITP_ERROR_UNSUPPORTED,
                      "line %zu: unsupported init_lora_weights '%.60s': it changes the weights of the base model",
                      start->line, start->kind == EITP_JSON_STRING ? start->text : "?");
}

/* Returns the task_type of a model with a head; NULL for masked language modelling, which PEFT does not have. */
static const char *eitp__lora_task(const eitp_transformer_config *model) {
    const char *const tasks[] = {model->bidirectional ? NULL : "CAUSAL_LM", "SEQ_CLS", "FEATURE_EXTRACTION",
                                 "TOKEN_CLS"}; /* eitp_head */
    return tasks[model->head];
}

static eitp_status eitp__lora_check_task(const eitp_json *root, eitp_error *error) {
    static const char *const tasks[] = {"CAUSAL_LM", "FEATURE_EXTRACTION", "SEQ_CLS", "TOKEN_CLS"};
    const char *name = NULL;
    eitp_status status = eitp__json_get_text(root, "task_type", &name, error);
    size_t i = 0;
    while (name && i < EITP__COUNT(tasks) && strcmp(name, tasks[i]))
        i++;
    if (!status && i == EITP__COUNT(tasks))
        status = eitp__fail(error, EITP_ERROR_UNSUPPORTED, "unsupported task_type '%.60s' (supported: %s, %s, %s, %s)",
                            name, tasks[0], tasks[1], tasks[2], tasks[3]);
    return status;
}

static eitp_status eitp__lora_check_features(const eitp_json *root, eitp_error *error) {
    eitp_status status = eitp__lora_check_word(root, "peft_type", "LORA", error);
    if (!status)
        status = eitp__lora_check_task(root, error);
    if (!status)
        status = eitp__lora_check_word(root, "bias", "none", error);
    if (!status)
        status = eitp__lora_check_start(root, error);
    for (const eitp_json *member = root->first_child; member && !status; member = member->next) {
        if (!eitp__lora_is_known(member->name) && !eitp__lora_is_off(member))
            status = eitp__fail(error, EITP_ERROR_UNSUPPORTED,
                                "line %zu: unsupported member %.60s (supported: plain LoRA of linear layers)",
                                member->line, member->name);
    }
    return status;
}

/* ---- Modules trained in full ---- */

/* Parses modules_to_save. For a classifier PEFT also writes the names that classifiers have in other architectures. */
static eitp_status eitp__lora_parse_saved(const eitp_json *root, const eitp_architecture *architecture,
                                          eitp_lora_config *config, eitp_error *error) {
    const eitp_json *list = eitp_json_member(root, "modules_to_save");
    const char *task = "";
    eitp_status status = eitp__json_get_text(root, "task_type", &task, error);
    const int is_classifier = !status && (!strcmp(task, "SEQ_CLS") || !strcmp(task, "TOKEN_CLS"));
    config->saved = 0;
    if (status || !list || eitp__lora_is_off(list))
        return status;
    if (list->kind != EITP_JSON_ARRAY)
        return eitp__fail(error, EITP_ERROR_FORMAT, "line %zu: modules_to_save must be a list of names", list->line);
    for (const eitp_json *name = list->first_child; name && !status; name = name->next) {
        unsigned saved = 0;
        if (name->kind != EITP_JSON_STRING || strchr(name->text, ',') || strlen(name->text) != name->text_size)
            return eitp__fail(error, EITP_ERROR_FORMAT, "line %zu: modules_to_save must be a list of names",
                              name->line);
        if (eitp_lora_saved_parse(architecture, name->text, &saved, is_classifier ? NULL : error) && !is_classifier)
            status = eitp__fail_prefix(error, EITP_ERROR_UNSUPPORTED, "line %zu: modules_to_save", name->line);
        config->saved |= saved;
    }
    return status;
}

/* ---- Targets ---- */

/* True if target_modules is a regular expression. */
static int eitp__lora_has_expression(const eitp_json *root) {
    const eitp_json *list = eitp_json_member(root, "target_modules");
    return list && list->kind == EITP_JSON_STRING && strcmp(list->text, "all-linear") != 0;
}

static int eitp__lora_has_member(const eitp_json *root, const char *name) {
    const eitp_json *member = eitp_json_member(root, name);
    return member && !eitp__lora_is_off(member);
}

/* Parses target_modules: a list of names, or "all-linear". An expression sets no targets. */
static eitp_status eitp__lora_parse_targets(const eitp_host *host, const eitp_json *root,
                                            const eitp_architecture *architecture, eitp_lora_config *config,
                                            eitp_error *error) {
    const eitp_json *list = eitp_json_member(root, "target_modules");
    eitp__buffer names;
    eitp_status status = EITP_OK;
    config->targets = eitp_lora_targets_default(architecture);
    if (!list || list->kind == EITP_JSON_NULL)
        return EITP_OK;
    config->targets = 0;
    if (eitp__lora_has_expression(root))
        return EITP_OK;
    if (list->kind == EITP_JSON_STRING) {
        config->targets = ((1u << EITP__LINEAR_SLOTS) - 1) | EITP__LORA_OUTSIDE; /* of any architecture */
        return EITP_OK;
    }
    if (list->kind != EITP_JSON_ARRAY || !list->count)
        return eitp__fail(error, EITP_ERROR_UNSUPPORTED,
                          "line %zu: target_modules must be a list of names or a regular expression", list->line);
    eitp__buffer_init(&names, host);
    for (const eitp_json *name = list->first_child; name && !status; name = name->next) {
        if (name->kind != EITP_JSON_STRING || strchr(name->text, ',') || strlen(name->text) != name->text_size)
            status =
                eitp__fail(error, EITP_ERROR_FORMAT, "line %zu: target_modules must be a list of names", name->line);
        eitp__buffer_add_text(&names, name == list->first_child ? "" : ",");
        eitp__buffer_add_text(&names, status ? "" : name->text);
    }
    if (!status && names.failed)
        status = eitp__fail_memory(error, names.size, "target_modules");
    if (!status)
        status = eitp_lora_targets_parse(architecture, names.size ? names.data : "", config, error);
    eitp__buffer_release(&names);
    return status;
}

/* Sets the targets to the layers for which the adapter file has tensors. */
static eitp_status eitp__lora_find_targets(const eitp_host *host, const char *directory,
                                           const eitp_architecture *architecture, eitp_lora_config *config,
                                           eitp_error *error) {
    const size_t prefix = strlen(EITP__LORA_PREFIX), end = strlen(".lora_A.weight");
    char *path = eitp__join_path(host, directory, EITP__LORA_WEIGHTS_FILE);
    eitp__safetensors *collection = NULL;
    eitp__buffer names;
    eitp_status status = path ? eitp__safetensors_open(host, path, &collection, error)
                              : eitp__fail_memory(error, strlen(directory), "a path");
    eitp__buffer_init(&names, host);
    for (size_t i = 0; !status && i < eitp__safetensors_count(collection); i++) {
        const char *name = eitp__safetensors_at(collection, i)->name;
        if (!eitp__lora_is_adapter(name) || !strstr(name, ".lora_A."))
            continue;
        name += strncmp(name, EITP__LORA_PREFIX, prefix) ? 0 : prefix;
        eitp__buffer_add_text(&names, names.size ? "," : "");
        eitp__buffer_add(&names, name, strlen(name) - end);
    }
    if (!status && names.failed)
        status = eitp__fail_memory(error, names.size, "names of layers");
    else if (!status && !names.size)
        status = eitp__fail(error, EITP_ERROR_FORMAT, EITP__LORA_WEIGHTS_FILE " has no adapters");
    if (!status) {
        status = eitp_lora_targets_parse(architecture, names.data, config, error);
        if (status)
            eitp__fail_prefix(error, status, EITP__LORA_WEIGHTS_FILE);
    }
    eitp__buffer_release(&names);
    eitp__safetensors_close(collection);
    eitp__release_text(host, path);
    return status;
}

/* True if layers_to_transform, a number or a list of numbers, includes a block, or is missing. */
static int eitp__lora_transforms(const eitp_json *root, int64_t block) {
    const eitp_json *list = eitp_json_member(root, "layers_to_transform");
    const eitp_json *first = list && list->kind == EITP_JSON_ARRAY ? list->first_child : list;
    if (!eitp__lora_has_member(root, "layers_to_transform"))
        return 1;
    for (const eitp_json *number = first; number; number = number == list ? NULL : number->next) {
        if (number->is_integer && number->integer == block)
            return 1;
    }
    return 0;
}

/* Checks that target_modules and layers_to_transform allow the targets; an expression allows any. */
static eitp_status eitp__lora_check_targets(const eitp_json *root, const eitp_lora_config *named,
                                            const eitp_lora_config *found, eitp_error *error) {
    int allows = eitp__lora_has_expression(root) || !(found->targets & ~named->targets);
    for (int i = 0; i < EITP_LORA_BLOCKS && !eitp__lora_has_expression(root); i++) {
        const unsigned targets = eitp__lora_transforms(root, i) ? named->targets : 0;
        allows &= !(found->block_targets[i] & ~(targets | named->block_targets[i]));
    }
    return allows ? EITP_OK
                  : eitp__fail(error, EITP_ERROR_FORMAT,
                               EITP__LORA_WEIGHTS_FILE
                               " has adapters of layers that target_modules or layers_to_transform exclude");
}

/* Replaces the targets named by target_modules with the layers that have tensors, if target_modules may name more. */
static eitp_status eitp__lora_select_targets(const eitp_host *host, const char *directory, const eitp_json *root,
                                             const eitp_architecture *architecture, eitp_lora_config *config,
                                             eitp_error *error) {
    const eitp_lora_config named = *config;
    eitp_status status;
    if (!eitp__lora_has_expression(root) && !eitp__lora_has_member(root, "layers_to_transform") &&
        !eitp__lora_has_member(root, "exclude_modules"))
        return EITP_OK;
    status = eitp__lora_find_targets(host, directory, architecture, config, error);
    return status ? status : eitp__lora_check_targets(root, &named, config, error);
}

static eitp_status eitp__lora_parse(const eitp_host *host, const eitp_json *root, const eitp_architecture *architecture,
                                    eitp_lora_config *config, const char **base, eitp_error *error) {
    eitp_status status;
    *config = eitp_lora_config_default();
    *base = "";
    if (!root || root->kind != EITP_JSON_OBJECT)
        return eitp__fail(error, EITP_ERROR_FORMAT, "an " EITP__LORA_CONFIG_FILE " must be a JSON object");
    if (!eitp_json_member(root, "peft_type"))
        return eitp__fail(error, EITP_ERROR_FORMAT, "missing 'peft_type'; not an " EITP__LORA_CONFIG_FILE);
    status = eitp__lora_check_features(root, error);
    if (!status)
        status = eitp__json_get_integer(root, "r", INT64_MIN, INT64_MAX, &config->rank, error);
    if (!status)
        status = eitp__json_get_number(root, "lora_alpha", -HUGE_VAL, HUGE_VAL, &config->alpha, error);
    if (!status)
        status = eitp__json_get_number(root, "lora_dropout", -HUGE_VAL, HUGE_VAL, &config->dropout, error);
    if (!status)
        status = eitp__json_get_boolean(root, "use_rslora", &config->rslora, error);
    if (!status)
        status = eitp__json_get_text(root, "base_model_name_or_path", base, error);
    if (!status)
        status = eitp__lora_parse_saved(root, architecture, config, error);
    return status ? status : eitp__lora_parse_targets(host, root, architecture, config, error);
}

eitp_status eitp_lora_config_read(const eitp_host *host, const char *directory, const eitp_architecture *architecture,
                                  eitp_lora_config *config, char *base, size_t base_size, eitp_error *error) {
    if (!host || !directory || !config)
        return eitp__fail_null(error, "eitp_lora_config_read", "host, directory and config");
    enum { LIMIT = 1 << 20 };
    eitp_json_document *document;
    eitp_lora_config parsed;
    const char *text;
    char *path = eitp__join_path(host, directory, EITP__LORA_CONFIG_FILE);
    eitp_status status;
    if (!path)
        return eitp__fail_memory(error, strlen(directory), "a path");
    status = eitp_json_read_file(host, path, LIMIT, &document, error);
    if (!status) {
        const eitp_json *root = eitp_json_root(document);
        status = eitp__lora_parse(host, root, architecture, &parsed, &text, error);
        if (!status)
            status = eitp__lora_select_targets(host, directory, root, architecture, &parsed, error);
        if (!status)
            status = eitp__lora_config_check(&parsed, error);
        if (!status) {
            *config = parsed;
            if (base)
                snprintf(base, base_size, "%s", strlen(text) < base_size ? text : "");
        } else {
            /* An invalid argument comes from the file. */
            status = status == EITP_ERROR_ARGUMENT ? EITP_ERROR_FORMAT : status;
            if (error)
                error->status = status;
            eitp__fail_prefix(error, status, "%s", path);
        }
        eitp_json_release(document);
    }
    eitp__release_text(host, path);
    return status;
}

EITP__PRIVATE eitp_status eitp__lora_config_check_tied(const eitp_host *host, const char *directory,
                                                       eitp_error *error) {
    const size_t limit = (size_t)1 << 20;
    char *path = eitp__join_path(host, directory, EITP__LORA_CONFIG_FILE);
    eitp_json_document *document = NULL;
    int ties = 0;
    eitp_status status = path ? eitp_json_read_file(host, path, limit, &document, error)
                              : eitp__fail_memory(error, strlen(directory), "a path");
    if (!status)
        status = eitp__json_get_boolean(eitp_json_root(document), "ensure_weight_tying", &ties, error);
    if (!status && !ties)
        status = eitp__fail(error, EITP_ERROR_UNSUPPORTED,
                            "%s: modules_to_save has the token embedding, which is tied to the model's head, but PEFT "
                            "trained an untied copy; set ensure_weight_tying in PEFT",
                            path);
    eitp_json_release(document);
    eitp__release_text(host, path);
    return status;
}

/* ---- Writing ---- */

/* Writes layer names, which are separated by commas. */
static void eitp__lora_write_targets(eitp__buffer *text, const char *names) {
    eitp__buffer_add_text(text, "  \"target_modules\": [");
    for (const char *word = names; *word; word += *word == ',') {
        size_t size = strcspn(word, ",");
        eitp__buffer_format(text, "%s\"%.*s\"", word == names ? "" : ", ", (int)size, word);
        word += size;
    }
    eitp__buffer_add_text(text, "],\n");
}

/* Writes the modules that are trained in full. */
static void eitp__lora_write_modules(eitp__buffer *text, const eitp_transformer_config *model, unsigned saved) {
    const char *last = "";
    size_t last_size = 0;
    eitp__buffer_add_text(text, "  \"modules_to_save\": ");
    for (int64_t i = 0; i < eitp__parameter_count(model); i++) {
        const eitp__parameter parameter = eitp__parameter_at(model, i);
        const char *name = parameter.row->name;
        const size_t size = strcspn(name, ".");
        if (!eitp__lora_trains(model, saved, &parameter) || (size == last_size && !strncmp(name, last, size)))
            continue;
        eitp__buffer_format(text, "%s\"%.*s\"", last_size ? ", " : "[", (int)size, name);
        last = name;
        last_size = size;
    }
    eitp__buffer_add_text(text, last_size ? "],\n" : "null,\n");
    if ((saved & EITP_LORA_SAVES_EMBEDDING) && eitp__is_tied(model))
        eitp__buffer_add_text(text, "  \"ensure_weight_tying\": true,\n");
}

/* True if weights of linear layers are [in, out] in files, which PEFT calls fan_in_fan_out. */
static int eitp__lora_fans_in(const eitp_transformer_config *model) {
    const eitp__parameter_row *row = eitp__row_find(model, EITP__ATTENTION_INPUT, EITP__WEIGHT);
    return row && !row->is_transposed;
}

/* Fails if PEFT would apply the target names to more layers. */
static eitp_status eitp__lora_check_names(const eitp_architecture *architecture, const eitp_lora_config *config,
                                          const char *names, eitp_error *error) {
    eitp_lora_config named = *config;
    eitp_status status = eitp_lora_targets_parse(architecture, names, &named, error);
    if (!status && !eitp__lora_configs_equal(&named, config))
        status =
            eitp__fail(error, EITP_ERROR_UNSUPPORTED,
                       "an " EITP__LORA_CONFIG_FILE " cannot name only these layers: '%s' also names others", names);
    return status;
}

EITP__PRIVATE eitp_status eitp__lora_config_write(const eitp_host *host, const char *path,
                                                  const eitp_transformer_config *model, const eitp_lora_config *config,
                                                  const char *base, eitp_error *error) {
    const char *task = eitp__lora_task(model);
    char *names = eitp__lora_targets_text(host, model->architecture, config);
    eitp__buffer text;
    eitp_status status = names ? eitp__lora_check_names(eitp__architecture_of(model), config, names, error)
                               : eitp__fail_memory(error, sizeof *config, "names of layers");
    if (status) {
        eitp__release_text(host, names);
        return status;
    }
    eitp__buffer_init(&text, host);
    eitp__buffer_format(&text, "{\n  \"peft_type\": \"LORA\",\n  \"task_type\": %s%s%s,\n", task ? "\"" : "",
                        task ? task : "null", task ? "\"" : "");
    eitp__buffer_add_text(&text, "  \"base_model_name_or_path\": ");
    if (base)
        eitp__json_write_name(&text, base);
    else
        eitp__buffer_add_text(&text, "null");
    eitp__buffer_format(&text, ",\n  \"r\": %lld,\n  \"lora_alpha\": ", (long long)config->rank);
    eitp__json_write_number(&text, config->alpha);
    eitp__buffer_add_text(&text, ",\n  \"lora_dropout\": ");
    eitp__json_write_number(&text, config->dropout);
    eitp__buffer_format(&text, ",\n  \"use_rslora\": %s,\n", config->rslora ? "true" : "false");
    eitp__lora_write_targets(&text, names);
    eitp__buffer_format(&text, "  \"fan_in_fan_out\": %s,\n", eitp__lora_fans_in(model) ? "true" : "false");
    eitp__buffer_add_text(&text, "  \"bias\": \"none\",\n  \"inference_mode\": true,\n"
                                 "  \"init_lora_weights\": true,\n");
    eitp__lora_write_modules(&text, model, config->saved);
    eitp__buffer_add_text(&text, "  \"rank_pattern\": {},\n  \"alpha_pattern\": {},\n  \"use_dora\": false\n}\n");
    status = eitp__store_text(host, NULL, path, &text, 0, error);
    eitp__release_text(host, names);
    return status;
}
