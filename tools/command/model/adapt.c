#include "model/adapt.h"

#include "files.h"
#include "model/model.h"
#include "output.h"

int adapt_is_requested(const option_set *o) {
    return options_integer(o, OPTION_LORA_RANK) > 0;
}

eitp_status adapt_check(const option_set *o, int starts_from_model, eitp_error *error) {
    static const option_id others[] = {OPTION_LORA_ALPHA, OPTION_LORA_DROPOUT, OPTION_LORA_TARGETS, OPTION_LORA_RSLORA};
    eitp_lora_config lora = eitp_lora_config_default();
    for (size_t i = 0; i < COMMAND_COUNT(others) && !adapt_is_requested(o); i++) {
        if (options_is_explicit(o, others[i]))
            return command_fail(error, EITP_ERROR_ARGUMENT, "--%s requires --lora-rank, which adds adapters",
                                options_name(others[i]));
    }
    if (!adapt_is_requested(o))
        return EITP_OK;
    if (!starts_from_model)
        return command_fail(error, EITP_ERROR_ARGUMENT,
                            "--lora-rank requires --model: adapters are trained on top of existing weights");
    if (options_has(o, OPTION_FREEZE))
        return command_fail(
            error, EITP_ERROR_ARGUMENT,
            "--freeze and --lora-rank cannot be used together: with adapters all other weights are frozen");
    return options_has(o, OPTION_LORA_TARGETS)
               ? eitp_lora_targets_parse(NULL, options_text(o, OPTION_LORA_TARGETS), &lora, error)
               : EITP_OK;
}

/* The names of the layers that adapters are for; the caller frees them. */
static char *format_targets(const eitp_architecture *architecture, const eitp_lora_config *lora) {
    const size_t size = eitp_lora_targets_format(architecture, lora, NULL, 0) + 1;
    char *names = (char *)command_allocate(size);
    eitp_lora_targets_format(architecture, lora, names, size);
    return names;
}

void adapt_take_options(option_set *o, const eitp_checkpoint_info *info) {
    const eitp_lora_config *lora = &info->lora;
    char *targets;
    if (!lora->rank)
        return;
    targets = format_targets(info->architecture, lora);
    options_set_integer(o, OPTION_LORA_RANK, lora->rank, SOURCE_CHECKPOINT);
    options_set_number(o, OPTION_LORA_ALPHA, lora->alpha, SOURCE_CHECKPOINT);
    options_set_number(o, OPTION_LORA_DROPOUT, lora->dropout, SOURCE_CHECKPOINT);
    options_set_text(o, OPTION_LORA_TARGETS, targets, SOURCE_CHECKPOINT);
    free(targets);
    options_set_integer(o, OPTION_LORA_RSLORA, lora->rslora, SOURCE_CHECKPOINT);
}

eitp_status adapt_model(const option_set *o, eitp_model *model, eitp_error *error) {
    const eitp_architecture *architecture = eitp_model_config(model).architecture;
    eitp_lora_config lora = eitp_lora_config_default();
    eitp_status status = EITP_OK;
    if (!adapt_is_requested(o))
        return options_has(o, OPTION_FREEZE) ? eitp_model_freeze(model, options_text(o, OPTION_FREEZE), error)
                                             : EITP_OK;
    lora.rank = options_integer(o, OPTION_LORA_RANK);
    lora.alpha = options_has(o, OPTION_LORA_ALPHA) ? options_number(o, OPTION_LORA_ALPHA) : 2 * (double)lora.rank;
    lora.dropout = options_number(o, OPTION_LORA_DROPOUT);
    lora.rslora = (int)options_integer(o, OPTION_LORA_RSLORA);
    lora.targets = eitp_lora_targets_default(architecture);
    if (options_has(o, OPTION_LORA_TARGETS))
        status = eitp_lora_targets_parse(architecture, options_text(o, OPTION_LORA_TARGETS), &lora, error);
    return status ? status : eitp_model_add_lora(model, &lora, error);
}

/* ---- Directories ---- */

/* The directory with adapters: `path`, or the checkpoint that it means. */
static eitp_status find_adapter(const char *path, char **directory, eitp_error *error) {
    eitp_status status = model_find_directory(path, directory, error);
    if (!status && files_is_file(*directory, "adapter_config.json"))
        return EITP_OK;
    free(*directory);
    *directory = NULL;
    if (status && status != EITP_ERROR_ARGUMENT)
        return status;
    if (files_info(path).kind != EITP_PATH_DIRECTORY)
        return command_fail(error, EITP_ERROR_ARGUMENT, "no directory '%s'; name one with adapters", path);
    return command_fail(error, EITP_ERROR_ARGUMENT,
                        "no adapters in '%s': it has neither an adapter_config.json nor a checkpoint with one", path);
}

/* True if a directory has adapters and no weights. */
static int has_adapters_only(const char *directory) {
    static const char *const weights[] = {"model.safetensors", "model.safetensors.index.json", "pytorch_model.bin",
                                          "pytorch_model.bin.index.json"};
    int has_weights = 0;
    for (size_t i = 0; i < COMMAND_COUNT(weights); i++)
        has_weights |= files_is_file(directory, weights[i]);
    return !has_weights && files_is_file(directory, "adapter_config.json");
}

/* The directory of the base model that the adapters in `adapter` name. */
static eitp_status find_named_base(const char *adapter, char **base, eitp_error *error) {
    const eitp_host host = command_host();
    eitp_lora_config config;
    char name[4096];
    eitp_status status = eitp_lora_config_read(&host, adapter, NULL, &config, name, sizeof name, error);
    if (!status && files_info(name).kind != EITP_PATH_DIRECTORY)
        status = command_fail(error, EITP_ERROR_ARGUMENT,
                              "the base model '%s' of the adapters in '%s' is not a directory here; name its directory "
                              "with --model",
                              name, adapter);
    return status ? status : model_find_directory(name, base, error);
}

static void make_absolute(char **path) {
    char *absolute = *path ? realpath(*path, NULL) : NULL;
    if (!absolute)
        return;
    free(*path);
    *path = absolute;
}

eitp_status adapt_find_model(const option_set *o, const char *directory, char **base, char **adapter,
                             eitp_error *error) {
    const char *given = options_text(o, OPTION_ADAPTER);
    eitp_status status = EITP_OK;
    *base = *adapter = NULL;
    if (given)
        status = find_adapter(given, adapter, error);
    else if (directory && has_adapters_only(directory))
        *adapter = command_copy(directory);
    if (!status && directory && (given || !*adapter))
        *base = command_copy(directory);
    else if (!status)
        status = find_named_base(*adapter, base, error);
    make_absolute(base);
    return status;
}

/* True if the adapters were trained with a classifier, which their directory has. */
static int read_classifier(const char *adapter, eitp_transformer_config *config) {
    const eitp_host host = command_host();
    char *path = files_join(adapter, "config.json");
    eitp_error ignored;
    const int has_one = files_is_file(adapter, "config.json") &&
                        !eitp_transformer_config_read(&host, path, config, &ignored) &&
                        eitp_head_has_labels(config->head);
    free(path);
    return has_one;
}

eitp_status adapt_read_config(const char *base, const char *adapter, eitp_transformer_config *config,
                              eitp_error *error) {
    const eitp_host host = command_host();
    eitp_transformer_config adapted;
    eitp_status status = eitp_model_config_read(&host, base, config, error);
    if (status || !adapter || !read_classifier(adapter, &adapted))
        return status;
    config->head = adapted.head;
    config->labels = adapted.labels;
    config->problem = adapted.problem;
    config->classifier_dropout = adapted.classifier_dropout;
    return EITP_OK;
}

/* Loads the weights of the base. A head that the adapters have is not looked for there. */
static eitp_status load_base(eitp_model *model, const char *base, const char *adapter, eitp_error *error) {
    eitp_load_config config = eitp_load_config_default();
    eitp_transformer_config adapted;
    config.head_is_replaced = adapter && read_classifier(adapter, &adapted);
    return eitp_model_load_weights_with(model, base, &config, error);
}

/* Reads the adapters, if they were trained on the model's weights. Other weights may be those of an older checkpoint
   that replaced a damaged one: the warnings say so. */
static eitp_status load_adapters(eitp_model *model, const char *adapter, eitp_error *error) {
    eitp_status status = eitp_lora_load(model, adapter, NULL, error);
    if (status == EITP_ERROR_ARGUMENT)
        output_warnings();
    return model_add_hint(status, error);
}

eitp_status adapt_load(eitp_context *context, const char *base, const char *adapter, eitp_model **model,
                       eitp_error *error) {
    eitp_transformer_config config;
    eitp_status status = adapt_read_config(base, adapter, &config, error);
    if (!status)
        status = eitp_model_create(context, &config, model, error);
    if (!status)
        status = load_base(*model, base, adapter, error);
    if (!status && adapter)
        status = load_adapters(*model, adapter, error);
    if (!status && adapter && eitp_head_has_labels(config.head))
        status = eitp_model_read_labels(*model, adapter, error);
    return status;
}

void adapt_log(const eitp_model *model) {
    enum { SHOWN = 160 };
    int64_t trained = eitp_model_trained_parameter_count(model), all = eitp_model_parameter_count(model);
    eitp_lora_config lora = eitp_model_lora_config(model);
    char targets[SHOWN + 1];
    int shown = SHOWN;
    const int is_cut =
        eitp_lora_targets_format(eitp_model_config(model).architecture, &lora, targets, sizeof targets) > SHOWN;
    while (is_cut && shown && targets[shown] != ',')
        shown--;
    if (lora.rank)
        output_info("adapters: rank %lld, alpha %g, layers %.*s%s; training %lld parameters, %.3g %% of the model's",
                    (long long)lora.rank, lora.alpha, shown, targets, is_cut ? ",..." : "", (long long)trained,
                    100 * (double)trained / (double)all);
    else if (trained < all)
        output_info("training %lld of %lld parameters; the others are frozen", (long long)trained, (long long)all);
}
