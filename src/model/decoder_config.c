#include "model/decoder_config.h"
#include "tensor/op_rules.h"

static int eitp__has_rotary(const eitp_architecture *architecture) {
    return architecture->defaults->rotary.theta > 0;
}

EITP__PRIVATE eitp_rotary_config eitp__config_rotary(const eitp_transformer_config *config, int is_local) {
    eitp_rotary_config rotary = config->rotary;
    if (is_local && config->local_rotary_theta > 0) {
        rotary.theta = config->local_rotary_theta;
        rotary.scaling = EITP_ROTARY_UNSCALED;
    }
    rotary.width = eitp__head_width(config);
    return rotary;
}

EITP__PRIVATE eitp_status eitp__config_check_rotary(const eitp_transformer_config *config, eitp_error *error) {
    const eitp_architecture *architecture = eitp__architecture_of(config);
    eitp_rotary_config rotary = eitp__config_rotary(config, 0);
    eitp_status status;
    if (!eitp__has_rotary(architecture))
        return config->rotary.theta > 0
                   ? eitp__fail(error, EITP_ERROR_FORMAT, "%s has no rotary positions; their theta is %g",
                                architecture->model_type, config->rotary.theta)
                   : EITP_OK;
    status = eitp__rotary_check(&rotary, error);
    rotary = eitp__config_rotary(config, 1);
    if (!status)
        status = eitp__rotary_check(&rotary, error);
    return status ? eitp__fail_prefix(error, EITP_ERROR_FORMAT, "%s", architecture->model_type) : EITP_OK;
}

/* ---- Rotary positions ---- */

/* Values of rope_type, in the order of eitp_rotary_scaling. */
static const char *const eitp__rotary_types[] = {"default", "linear", "llama3"};

static eitp_status eitp__read_rotary_type(const eitp_json *object, eitp_rotary_config *rotary, eitp_error *error) {
    const char *type = eitp__rotary_types[0];
    eitp_status status = eitp__json_get_text(object, "type", &type, error); /* the older name */
    if (!status)
        status = eitp__json_get_text(object, "rope_type", &type, error);
    for (size_t i = 0; i < EITP__COUNT(eitp__rotary_types) && !status; i++) {
        if (strcmp(type, eitp__rotary_types[i]))
            continue;
        rotary->scaling = (eitp_rotary_scaling)i;
        return EITP_OK;
    }
    return status ? status
                  : eitp__fail(error, EITP_ERROR_UNSUPPORTED,
                               "line %llu: unsupported rope_type '%.60s' (supported: default, linear, llama3)",
                               (unsigned long long)object->line, type);
}

/* Reads an object that describes rotary positions. `theta` remains if it has none. */
static eitp_status eitp__read_rotary(const eitp_json *object, double *theta, eitp_rotary_config *rotary,
                                     eitp_error *error) {
    const double most = 1e12;
    double part = 1;
    eitp_status status = eitp__read_rotary_type(object, rotary, error);
    if (!status)
        status = eitp__json_get_number(object, "rope_theta", 0, most, theta, error);
    if (!status)
        status = eitp__json_get_number(object, "partial_rotary_factor", 0, 1, &part, error);
    if (!status && part < 1)
        status =
            eitp__fail(error, EITP_ERROR_UNSUPPORTED, "line %llu: unsupported partial_rotary_factor %g (expected 1)",
                       (unsigned long long)object->line, part);
    if (!status)
        status = eitp__json_get_number(object, "factor", 0, most, &rotary->factor, error);
    if (!status)
        status = eitp__json_get_number(object, "low_freq_factor", 0, most, &rotary->low_frequency_factor, error);
    if (!status)
        status = eitp__json_get_number(object, "high_freq_factor", 0, most, &rotary->high_frequency_factor, error);
    if (!status)
        status = eitp__json_get_integer(object, "original_max_position_embeddings", 1, 1 << 24,
                                        &rotary->original_positions, error);
    return status;
}

/* The member called `name` if it is an object. Null and missing ones are NULL; others fail. */
static eitp_status eitp__object_member(const eitp_json *object, const char *name, const eitp_json **member,
                                       eitp_error *error) {
    const eitp_json *found = eitp_json_member(object, name);
    *member = NULL;
    if (!found || found->kind == EITP_JSON_NULL)
        return EITP_OK;
    if (found->kind != EITP_JSON_OBJECT)
        return eitp__fail(error, EITP_ERROR_FORMAT, "line %llu: '%s' must be an object or null",
                          (unsigned long long)found->line, name);
    *member = found;
    return EITP_OK;
}

/* Reads the parameters of layers with a window, which must not be scaled. */
static eitp_status eitp__read_local_rotary(const eitp_json *object, eitp_transformer_config *config,
                                           eitp_error *error) {
    eitp_rotary_config local = eitp_rotary_config_default();
    eitp_status status = eitp__read_rotary(object, &config->local_rotary_theta, &local, error);
    return status || local.scaling == EITP_ROTARY_UNSCALED
               ? status
               : eitp__fail(error, EITP_ERROR_UNSUPPORTED,
                            "line %llu: unsupported rope_type of sliding_attention (expected default)",
                            (unsigned long long)object->line);
}

static eitp_status eitp__read_rotaries(const eitp_json *root, eitp_transformer_config *config, eitp_error *error) {
    const eitp_json *scaling, *parameters, *full = NULL, *local = NULL;
    eitp_status status = eitp__object_member(root, "rope_scaling", &scaling, error);
    if (!status)
        status = eitp__object_member(root, "rope_parameters", &parameters, error);
    if (!status && parameters)
        status = eitp__object_member(parameters, "full_attention", &full, error);
    if (!status && parameters)
        status = eitp__object_member(parameters, "sliding_attention", &local, error);
    if (status)
        return status;
    if (full || local)
        parameters = full;
    if (parameters || scaling)
        status = eitp__read_rotary(parameters ? parameters : scaling, &config->rotary.theta, &config->rotary, error);
    return !status && local ? eitp__read_local_rotary(local, config, error) : status;
}

static void eitp__write_rotary(eitp__buffer *text, const eitp_rotary_config *rotary) {
    if (rotary->scaling == EITP_ROTARY_UNSCALED) {
        eitp__buffer_add_text(text, "  \"rope_scaling\": null,\n");
        return;
    }
    eitp__buffer_format(text, "  \"rope_scaling\": {\n    \"factor\": ");
    eitp__json_write_number(text, rotary->factor);
    if (rotary->scaling == EITP_ROTARY_LLAMA3) {
        eitp__buffer_add_text(text, ",\n    \"high_freq_factor\": ");
        eitp__json_write_number(text, rotary->high_frequency_factor);
        eitp__buffer_add_text(text, ",\n    \"low_freq_factor\": ");
        eitp__json_write_number(text, rotary->low_frequency_factor);
        eitp__buffer_format(text, ",\n    \"original_max_position_embeddings\": %lld",
                            (long long)rotary->original_positions);
    }
    eitp__buffer_format(text, ",\n    \"rope_type\": \"%s\"\n  },\n", eitp__rotary_types[rotary->scaling]);
}

/* ---- Layers with a window ---- */

/* True if layer `layer` of the list has a window; `is_known` becomes 0 for another type of layer. */
static int eitp__is_sliding(const eitp_json *type, int *is_known) {
    const int is_sliding = type->kind == EITP_JSON_STRING && !strcmp(type->text, "sliding_attention");
    *is_known = is_sliding || (type->kind == EITP_JSON_STRING && !strcmp(type->text, "full_attention"));
    return is_sliding;
}

/* True if the list says of each layer what the configuration's window does. */
static int eitp__layers_match(const eitp_json *list, const eitp_transformer_config *config) {
    int64_t layer = 0;
    int is_known;
    for (const eitp_json *type = list->first_child; type; type = type->next, layer++) {
        if (eitp__is_sliding(type, &is_known) != (eitp__layer_window(config, layer) != 0))
            return 0;
    }
    return 1;
}

/* Finds the pattern of a list: a window in no layer, in all from one on, or in all but the last of every so many. */
static int eitp__find_pattern(const eitp_json *list, eitp_transformer_config *config) {
    eitp_transformer_config tried = *config;
    tried.window_first = tried.window_period = 0;
    for (tried.window_first = 0; tried.window_first <= config->layers; tried.window_first++) {
        if (!eitp__layers_match(list, &tried))
            continue;
        config->window = tried.window_first < config->layers ? config->window : 0;
        config->window_first = tried.window_first < config->layers ? tried.window_first : 0;
        config->window_period = 0;
        return 1;
    }
    tried.window_first = 0;
    for (tried.window_period = 2; tried.window_period <= config->layers; tried.window_period++) {
        if (!eitp__layers_match(list, &tried))
            continue;
        config->window_first = 0;
        config->window_period = tried.window_period;
        return 1;
    }
    return 0;
}

static eitp_status eitp__read_layer_types(const eitp_json *root, eitp_transformer_config *config, eitp_error *error) {
    const eitp_json *list = eitp_json_member(root, "layer_types");
    int64_t count = 0;
    if (!list || list->kind == EITP_JSON_NULL)
        return EITP_OK;
    if (list->kind != EITP_JSON_ARRAY)
        return eitp__fail(error, EITP_ERROR_FORMAT, "line %llu: 'layer_types' must be an array",
                          (unsigned long long)list->line);
    for (const eitp_json *type = list->first_child; type; type = type->next, count++) {
        int is_known;
        if (!eitp__is_sliding(type, &is_known) || config->window) {
            if (is_known)
                continue;
            return eitp__fail(error, EITP_ERROR_UNSUPPORTED,
                              "line %llu: unsupported type of layer %lld in 'layer_types' (supported: full_attention, "
                              "sliding_attention)",
                              (unsigned long long)type->line, (long long)count);
        }
        return eitp__fail(error, EITP_ERROR_FORMAT,
                          "line %llu: layer %lld is sliding_attention, but there is no sliding_window",
                          (unsigned long long)type->line, (long long)count);
    }
    if (count != config->layers)
        return eitp__fail(error, EITP_ERROR_FORMAT, "line %llu: 'layer_types' has %lld layers, the model %lld",
                          (unsigned long long)list->line, (long long)count, (long long)config->layers);
    return eitp__find_pattern(list, config)
               ? EITP_OK
               : eitp__fail(error, EITP_ERROR_UNSUPPORTED,
                            "line %llu: unsupported 'layer_types': sliding layers must be all from one on, or all but "
                            "the last of every so many",
                            (unsigned long long)list->line);
}

static void eitp__write_layer_types(eitp__buffer *text, const eitp_transformer_config *config) {
    if (!config->window)
        return;
    eitp__buffer_add_text(text, "  \"layer_types\": [");
    for (int64_t layer = 0; layer < config->layers; layer++)
        eitp__buffer_format(text, "%s\n    \"%s_attention\"", layer ? "," : "",
                            eitp__layer_window(config, layer) ? "sliding" : "full");
    eitp__buffer_add_text(text, "\n  ],\n");
}

/* ---- Both ---- */

EITP__PRIVATE eitp_status eitp__config_read_decoder(const eitp_json *root, eitp_transformer_config *config,
                                                    eitp_error *error) {
    eitp_status status;
    if (!eitp__has_rotary(eitp__architecture_of(config)))
        return EITP_OK;
    status = eitp__read_rotaries(root, config, error);
    return status ? status : eitp__read_layer_types(root, config, error);
}

EITP__PRIVATE void eitp__config_write_decoder(eitp__buffer *text, const eitp_transformer_config *config) {
    if (!eitp__has_rotary(eitp__architecture_of(config)))
        return;
    eitp__write_rotary(text, &config->rotary);
    eitp__write_layer_types(text, config);
}
