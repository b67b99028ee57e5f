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
                   ? eitp__fail(error, EITP_ERROR_FORMAT, "%s has no rotary positions, but theta is %g",
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

/* The objects that describe the rotary positions of layers. The first one that has a member takes precedence. Either
   may be NULL. */
typedef struct eitp__rotary_objects {
    const eitp_json *first, *second;
} eitp__rotary_objects;

/* Returns the object whose member takes precedence, or NULL if neither has it. */
static const eitp_json *eitp__rotary_object(const eitp__rotary_objects *objects, const char *name) {
    if (eitp_json_member(objects->first, name))
        return objects->first;
    return eitp_json_member(objects->second, name) ? objects->second : NULL;
}

static uint64_t eitp__rotary_line(const eitp__rotary_objects *objects) {
    const eitp_json *object = objects->first ? objects->first : objects->second;
    return object ? object->line : 0;
}

static eitp_status eitp__read_rotary_type(const eitp__rotary_objects *objects, eitp_rotary_config *rotary,
                                          eitp_error *error) {
    const char *key = eitp__rotary_object(objects, "rope_type") ? "rope_type" : "type"; /* older name of the key */
    const eitp_json *object = eitp__rotary_object(objects, key);
    const eitp_json *type = eitp_json_member(object, key);
    if (!type)
        return EITP_OK;
    for (size_t i = 0; i < EITP__COUNT(eitp__rotary_types) && type->kind == EITP_JSON_STRING; i++) {
        if (strcmp(type->text, eitp__rotary_types[i]))
            continue;
        rotary->scaling = (eitp_rotary_scaling)i;
        return EITP_OK;
    }
    return eitp__fail(error, EITP_ERROR_UNSUPPORTED,
                      "line %llu: unsupported rope_type '%.60s' (supported: default, linear, llama3)",
                      (unsigned long long)type->line, type->kind == EITP_JSON_STRING ? type->text : "null");
}

/* Reads a number that the type of scaling requires. */
static eitp_status eitp__read_rotary_number(const eitp__rotary_objects *objects, const eitp_rotary_config *rotary,
                                            const char *name, double *number, eitp_error *error) {
    const double most = 1e12;
    const eitp_json *object = eitp__rotary_object(objects, name), *member = eitp_json_member(object, name);
    if (!member || member->kind == EITP_JSON_NULL)
        return eitp__fail(error, EITP_ERROR_FORMAT, "line %llu: rope_type %s requires '%s'",
                          (unsigned long long)eitp__rotary_line(objects), eitp__rotary_types[rotary->scaling], name);
    return eitp__json_get_number(object, name, 0, most, number, error);
}

/* Reads the number of positions that the angles of Llama 3 were trained for. A member of `root` overrides the objects'
   member. Without either, it is the model's number of positions. */
static eitp_status eitp__read_original_positions(const eitp__rotary_objects *objects, const eitp_json *root,
                                                 int64_t positions, eitp_rotary_config *rotary, eitp_error *error) {
    const char *name = "original_max_position_embeddings";
    const eitp_json *object = eitp_json_member(root, name) ? root : eitp__rotary_object(objects, name);
    const eitp_json *member = eitp_json_member(object, name);
    rotary->original_positions = positions;
    if (member && member->kind == EITP_JSON_NULL)
        return eitp__fail(error, EITP_ERROR_FORMAT, "line %llu: '%s' must not be null",
                          (unsigned long long)member->line, name);
    return eitp__json_get_integer(object, name, 1, 1 << 24, &rotary->original_positions, error);
}

static eitp_status eitp__read_rotary_scaling(const eitp__rotary_objects *objects, const eitp_json *root,
                                             int64_t positions, eitp_rotary_config *rotary, eitp_error *error) {
    eitp_status status = eitp__read_rotary_type(objects, rotary, error);
    if (status || rotary->scaling == EITP_ROTARY_UNSCALED)
        return status;
    status = eitp__read_rotary_number(objects, rotary, "factor", &rotary->factor, error);
    if (status || rotary->scaling != EITP_ROTARY_LLAMA3)
        return status;
    status = eitp__read_rotary_number(objects, rotary, "low_freq_factor", &rotary->low_frequency_factor, error);
    if (!status)
        status = eitp__read_rotary_number(objects, rotary, "high_freq_factor", &rotary->high_frequency_factor, error);
    return status ? status : eitp__read_original_positions(objects, root, positions, rotary, error);
}

/* Reads the objects that describe rotary positions. `theta` is unchanged if they have none. */
static eitp_status eitp__read_rotary(const eitp__rotary_objects *objects, const eitp_json *root, int64_t positions,
                                     double *theta, eitp_rotary_config *rotary, eitp_error *error) {
    const double most = 1e12;
    double part = 1;
    eitp_status status = eitp__read_rotary_scaling(objects, root, positions, rotary, error);
    if (!status)
        status = eitp__json_get_number(eitp__rotary_object(objects, "rope_theta"), "rope_theta", 0, most, theta, error);
    if (!status)
        status = eitp__json_get_number(eitp__rotary_object(objects, "partial_rotary_factor"), "partial_rotary_factor",
                                       0, 1, &part, error);
    return status || part >= 1 ? status
                               : eitp__fail(error, EITP_ERROR_UNSUPPORTED,
                                            "line %llu: unsupported partial_rotary_factor %g (expected 1)",
                                            (unsigned long long)eitp__rotary_line(objects), part);
}

/* Finds the member called `name` if it is an object. *member is NULL if it is missing or null; other types fail. */
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

/* Reads rotary positions that all layers share. A non-empty rope_scaling takes precedence over rope_parameters. */
static eitp_status eitp__read_one_rotary(const eitp_json *scaling, const eitp_json *parameters, const eitp_json *root,
                                         eitp_transformer_config *config, eitp_error *error) {
    static const char *const nested[] = {"full_attention", "sliding_attention"};
    eitp__rotary_objects objects = EITP__ZERO;
    objects.first = scaling && scaling->count ? scaling : parameters;
    for (size_t i = 0; i < EITP__COUNT(nested); i++) {
        if (eitp_json_member(objects.first, nested[i]))
            return eitp__fail(error, EITP_ERROR_UNSUPPORTED,
                              "line %llu: unsupported '%s' in rotary parameters: all layers of %s share one set",
                              (unsigned long long)objects.first->line, nested[i],
                              eitp_architecture_name(config->architecture));
    }
    return eitp__read_rotary(&objects, root, config->positions, &config->rotary.theta, &config->rotary, error);
}

/* Reads the rotary positions of layers with a window, which must not be scaled. */
static eitp_status eitp__read_local_rotary(const eitp_json *object, eitp_transformer_config *config,
                                           eitp_error *error) {
    eitp_rotary_config local = eitp_rotary_config_default();
    eitp__rotary_objects objects = EITP__ZERO;
    eitp_status status;
    objects.first = object;
    status = eitp__read_rotary(&objects, NULL, config->positions, &config->local_rotary_theta, &local, error);
    return status || local.scaling == EITP_ROTARY_UNSCALED
               ? status
               : eitp__fail(error, EITP_ERROR_UNSUPPORTED,
                            "line %llu: unsupported rope_type of sliding_attention (expected default)",
                            (unsigned long long)object->line);
}

/* Reads the rotary positions of layers without a window and of those with one. Members of rope_scaling override those
   of layers without a window. As in transformers, rope_parameters that are not nested by type of layer are ignored. */
static eitp_status eitp__read_two_rotaries(const eitp_json *scaling, const eitp_json *parameters,
                                           eitp_transformer_config *config, eitp_error *error) {
    const eitp_json *full, *local;
    eitp__rotary_objects objects;
    eitp_status status = eitp__object_member(parameters, "full_attention", &full, error);
    if (!status)
        status = eitp__object_member(parameters, "sliding_attention", &local, error);
    if (!status && scaling && parameters && !full)
        status =
            eitp__fail(error, EITP_ERROR_FORMAT, "line %llu: rope_scaling requires 'full_attention' in rope_parameters",
                       (unsigned long long)scaling->line);
    if (status)
        return status;
    objects.first = scaling;
    objects.second = full;
    status = eitp__read_rotary(&objects, NULL, config->positions, &config->rotary.theta, &config->rotary, error);
    return status ? status : eitp__read_local_rotary(local, config, error);
}

static eitp_status eitp__read_rotaries(const eitp_json *root, eitp_transformer_config *config, eitp_error *error) {
    const int has_two = eitp__architecture_of(config)->defaults->local_rotary_theta > 0;
    const eitp_json *scaling, *parameters;
    eitp_status status = eitp__object_member(root, "rope_scaling", &scaling, error);
    if (!status)
        status = eitp__object_member(root, "rope_parameters", &parameters, error);
    if (status)
        return status;
    return has_two ? eitp__read_two_rotaries(scaling, parameters, config, error)
                   : eitp__read_one_rotary(scaling, parameters, root, config, error);
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

/* True if a type in the list means layers with a window. Sets `is_known` to 0 for an unsupported type. As in
   transformers, "attention" stands for full_attention. */
static int eitp__is_sliding(const eitp_json *type, int *is_known) {
    const char *name = type->kind == EITP_JSON_STRING ? type->text : "";
    const int is_sliding = !strcmp(name, "sliding_attention");
    *is_known = is_sliding || !strcmp(name, "full_attention") || !strcmp(name, "attention");
    return is_sliding;
}

static eitp_status eitp__check_layer_type(const eitp_json *type, int64_t layer, const eitp_transformer_config *config,
                                          eitp_error *error) {
    int is_known;
    const int is_sliding = eitp__is_sliding(type, &is_known);
    if (!is_known)
        return eitp__fail(error, EITP_ERROR_UNSUPPORTED,
                          "line %llu: unsupported type of layer %lld in 'layer_types' (supported: full_attention, "
                          "sliding_attention)",
                          (unsigned long long)type->line, (long long)layer);
    return !is_sliding || config->sliding_window
               ? EITP_OK
               : eitp__fail(error, EITP_ERROR_FORMAT,
                            "line %llu: layer %lld is sliding_attention, but there is no sliding_window",
                            (unsigned long long)type->line, (long long)layer);
}

/* Sets the layers with a window to those in the list. */
static void eitp__set_sliding_layers(const eitp_json *list, eitp_transformer_config *config) {
    int64_t layer = 0, windows = 0;
    for (const eitp_json *type = list->first_child; type; type = type->next, layer++) {
        int is_known;
        const uint64_t bit = (uint64_t)eitp__is_sliding(type, &is_known);
        config->sliding_layers[layer / 64] |= bit << (layer % 64);
        windows += (int64_t)bit;
    }
    if (!windows)
        config->sliding_window = 0;
}

static eitp_status eitp__read_layer_types(const eitp_json *root, eitp_transformer_config *config, eitp_error *error) {
    const eitp_json *list = eitp_json_member(root, "layer_types");
    int64_t count = 0;
    eitp_status status = EITP_OK;
    if (!list || list->kind == EITP_JSON_NULL)
        return EITP_OK;
    if (list->kind != EITP_JSON_ARRAY)
        return eitp__fail(error, EITP_ERROR_FORMAT, "line %llu: 'layer_types' must be an array",
                          (unsigned long long)list->line);
    for (const eitp_json *type = list->first_child; type && !status; type = type->next)
        status = eitp__check_layer_type(type, count++, config, error);
    if (status)
        return status;
    if (count != config->layers)
        return eitp__fail(error, EITP_ERROR_FORMAT, "line %llu: 'layer_types' has %lld layers, the model has %lld",
                          (unsigned long long)list->line, (long long)count, (long long)config->layers);
    if (count > EITP_MAX_SLIDING_LAYERS)
        return eitp__fail(error, EITP_ERROR_UNSUPPORTED,
                          "line %llu: 'layer_types' has %lld layers; at most %d are "
                          "supported",
                          (unsigned long long)list->line, (long long)count, EITP_MAX_SLIDING_LAYERS);
    eitp__set_sliding_layers(list, config);
    return EITP_OK;
}

static void eitp__write_layer_types(eitp__buffer *text, const eitp_transformer_config *config) {
    eitp__buffer_add_text(text, "  \"layer_types\": [");
    for (int64_t layer = 0; layer < config->layers; layer++)
        eitp__buffer_format(text, "%s\n    \"%s_attention\"", layer ? "," : "",
                            eitp__layer_sliding_window(config, layer) ? "sliding" : "full");
    eitp__buffer_add_text(text, "\n  ],\n");
}

/* ---- Both ---- */

EITP__PRIVATE int eitp__has_layer_types(const eitp_architecture *architecture) {
    return eitp__config_key_find(architecture, "layer_types", strlen("layer_types")) != NULL;
}

EITP__PRIVATE eitp_status eitp__config_read_decoder(const eitp_json *root, eitp_transformer_config *config,
                                                    eitp_error *error) {
    const eitp_architecture *architecture = eitp__architecture_of(config);
    eitp_status status = eitp__has_rotary(architecture) ? eitp__read_rotaries(root, config, error) : EITP_OK;
    return status || !eitp__has_layer_types(architecture) ? status : eitp__read_layer_types(root, config, error);
}

EITP__PRIVATE void eitp__config_write_decoder(eitp__buffer *text, const eitp_transformer_config *config) {
    const eitp_architecture *architecture = eitp__architecture_of(config);
    if (eitp__has_rotary(architecture))
        eitp__write_rotary(text, &config->rotary);
    if (eitp__has_layer_types(architecture) && config->layers <= EITP_MAX_SLIDING_LAYERS)
        eitp__write_layer_types(text, config);
}
