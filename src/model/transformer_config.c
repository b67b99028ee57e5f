/* Configurations: by name, and as Hugging Face's config.json with the keys of the architecture. */
#include "model/transformer_config.h"
#include "gguf/model_json.h"
#include "model/decoder_config.h"
#include "base/files.h"

#include <stddef.h>

/* ---- Members ---- */

typedef enum eitp__field_kind {
    EITP__FIELD_IS_ACTIVATION,
    EITP__FIELD_IS_SIZE,
    EITP__FIELD_IS_COUNT,         /* may be 0 */
    EITP__FIELD_IS_OPTIONAL_SIZE, /* may be 0, written as null */
    EITP__FIELD_IS_SWITCH,        /* size stored as a boolean: false stands for 0 */
    EITP__FIELD_IS_NUMBER,
    EITP__FIELD_IS_BOOLEAN
} eitp__field_kind;

/* A member of eitp_transformer_config. Sizes are at least 1, except segments: 0 if the architecture has none. */
typedef struct eitp__field_entry {
    const char *name;
    eitp__field_kind kind;
    size_t offset;
    double max;
} eitp__field_entry;

#define EITP__FIELD(kind, member, max)                                                                                 \
    { #member, EITP__FIELD_IS_##kind, offsetof(eitp_transformer_config, member), max }

/* In the order of eitp__field. */
static const eitp__field_entry eitp__fields[EITP__FIELDS] = {
    EITP__FIELD(ACTIVATION, activation, 0),
    EITP__FIELD(SIZE, vocabulary, 1 << 24),
    EITP__FIELD(SIZE, positions, 1 << 24),
    EITP__FIELD(SIZE, width, 1 << 20),
    EITP__FIELD(SIZE, heads, 1 << 16),
    EITP__FIELD(SIZE, layers, 1 << 14),
    EITP__FIELD(SIZE, inner, 1 << 24),
    EITP__FIELD(SIZE, segments, 1 << 16),
    EITP__FIELD(NUMBER, embedding_dropout, 0.999),
    EITP__FIELD(NUMBER, attention_dropout, 0.999),
    EITP__FIELD(NUMBER, residual_dropout, 0.999),
    EITP__FIELD(NUMBER, classifier_dropout, 0.999),
    EITP__FIELD(NUMBER, epsilon, 1),
    EITP__FIELD(NUMBER, initializer_range, 10),
    EITP__FIELD(BOOLEAN, scale_attention, 0),
    EITP__FIELD(BOOLEAN, scale_attention_by_layer, 0),
    EITP__FIELD(BOOLEAN, tied, 0),
    EITP__FIELD(BOOLEAN, post_norm, 0),
    EITP__FIELD(BOOLEAN, bidirectional, 0),
    EITP__FIELD(OPTIONAL_SIZE, key_value_heads, 1 << 16),
    EITP__FIELD(OPTIONAL_SIZE, head_width, 1 << 16),
    EITP__FIELD(NUMBER, attention_scalar, 1e9),
    EITP__FIELD(OPTIONAL_SIZE, sliding_window, 1 << 24),
    EITP__FIELD(SWITCH, sliding_window, 1 << 24),
    EITP__FIELD(COUNT, sliding_first, 1 << 14),
    EITP__FIELD(OPTIONAL_SIZE, sliding_period, 1 << 14),
    EITP__FIELD(NUMBER, rotary.theta, 1e12),
    EITP__FIELD(NUMBER, local_rotary_theta, 1e12),
    EITP__FIELD(BOOLEAN, attention_bias, 0),
    EITP__FIELD(BOOLEAN, mlp_bias, 0),
};

static const void *eitp__field_of(const eitp_transformer_config *config, size_t field) {
    return (const char *)config + eitp__fields[field].offset;
}

static void *eitp__field_in(eitp_transformer_config *config, size_t field) {
    return (char *)config + eitp__fields[field].offset;
}

/* Returns the key of a member in the architecture's config.json, or NULL. */
static const char *eitp__field_key(const eitp_architecture *architecture, size_t field) {
    for (size_t i = 0; i < architecture->key_count; i++) {
        if ((size_t)architecture->keys[i].field == field && architecture->keys[i].form != EITP__KEY_ALIAS)
            return architecture->keys[i].name;
    }
    return NULL;
}

/* Returns the name of a member in messages: its key, which users know. */
static const char *eitp__field_name(const eitp_transformer_config *config, size_t field) {
    const char *key = eitp__field_key(eitp__architecture_of(config), field);
    return key ? key : eitp__fields[field].name;
}

static void eitp__complete_dropout(eitp_transformer_config *config) {
    if (config->classifier_dropout < 0)
        config->classifier_dropout = config->residual_dropout;
}

EITP__PRIVATE void eitp__config_complete(eitp_transformer_config *config) {
    const eitp_architecture *architecture = eitp__architecture_of(config);
    config->inner = eitp__extent_of(config, EITP__INNER);
    if (eitp__field_key(architecture, EITP__FIELD_KEY_VALUE_HEADS))
        config->key_value_heads = eitp__key_value_heads(config);
    if (eitp__field_key(architecture, EITP__FIELD_HEAD_WIDTH))
        config->head_width = eitp__head_width(config);
    eitp__complete_dropout(config);
}

int64_t eitp_transformer_config_positions(const eitp_transformer_config *config) {
    return config ? config->positions : 0;
}

eitp_transformer_config eitp_transformer_config_default(void) {
    eitp_transformer_config config = EITP__ZERO;
    eitp_transformer_config_named("gpt2", &config, NULL);
    return config;
}

static void eitp__set_field(eitp_transformer_config *config, const eitp__field_value *value) {
    void *member = eitp__field_in(config, value->field);
    switch (eitp__fields[value->field].kind) {
    case EITP__FIELD_IS_NUMBER:
        *(double *)member = value->value;
        break;
    case EITP__FIELD_IS_BOOLEAN:
        *(int *)member = value->value > 0;
        break;
    default:
        *(int64_t *)member = (int64_t)value->value;
        break;
    }
}

eitp_status eitp_transformer_config_named(const char *name, eitp_transformer_config *config, eitp_error *error) {
    const eitp_architecture *architecture;
    char known[600];
    size_t at = 0;
    if (!name || !config)
        return eitp__fail_null(error, "eitp_transformer_config_named", "name and config");
    for (size_t a = 0; (architecture = eitp__architecture_at(a)); a++) {
        for (size_t i = 0; i < architecture->shape_count; i++) {
            const eitp__named_shape *shape = &architecture->shapes[i];
            if (at < sizeof known)
                at += (size_t)snprintf(known + at, sizeof known - at, "%s%s", at ? ", " : "", shape->name);
            if (strcmp(name, shape->name))
                continue;
            *config = eitp__architecture_defaults(architecture);
            config->width = shape->width;
            config->heads = shape->heads;
            config->layers = shape->layers;
            config->positions = shape->positions;
            config->segments = shape->segments;
            config->inner = 0; /* 4 * width, even if the width is set later */
            config->epsilon = shape->epsilon;
            config->rotary.scaling = shape->scaling;
            config->rotary.factor = shape->factor;
            for (size_t k = 0; k < shape->other_count; k++)
                eitp__set_field(config, &shape->others[k]);
            config->head = EITP_HEAD_LANGUAGE;
            eitp__complete_dropout(config);
            return EITP_OK;
        }
    }
    return eitp__fail(error, EITP_ERROR_ARGUMENT, "no model shape named '%.60s' (choose from %s)", name, known);
}

static eitp_status eitp__check_size(const eitp_transformer_config *config, size_t field, eitp_error *error) {
    const int has_none =
        field == EITP__FIELD_SEGMENTS && !eitp__row_find(config, EITP__SEGMENT_EMBEDDING, EITP__WEIGHT);
    const int64_t size = *(const int64_t *)eitp__field_of(config, field);
    const int64_t min = !has_none && field != EITP__FIELD_INNER && eitp__fields[field].kind == EITP__FIELD_IS_SIZE;
    const int64_t max = has_none ? 0 : (int64_t)eitp__fields[field].max;
    if (size >= min && size <= max)
        return EITP_OK;
    return eitp__fail(error, EITP_ERROR_FORMAT, "%s is %lld; it must be %lld to %lld", eitp__field_name(config, field),
                      (long long)size, (long long)min, (long long)max);
}

/* Checks the head, the problem and labels, and the range of first_position. */
static eitp_status eitp__check_head_config(const eitp_transformer_config *config, eitp_error *error) {
    const int pads = eitp__architecture_of(config)->pads_positions;
    const int64_t max_first = pads ? 1 << 24 : 0;
    if (config->head < EITP_HEAD_LANGUAGE || config->head > EITP_HEAD_TOKEN_CLASSIFIER ||
        config->problem < EITP_PROBLEM_UNKNOWN || config->problem > EITP_PROBLEM_TOKENS)
        return eitp__fail(error, EITP_ERROR_FORMAT, "unknown head %d or problem %d", (int)config->head,
                          (int)config->problem);
    if (eitp_head_has_labels(config->head) && (config->labels < 1 || config->labels > EITP__MAX_LABELS))
        return eitp__fail(error, EITP_ERROR_FORMAT, "labels is %lld; it must be 1 to %lld", (long long)config->labels,
                          (long long)EITP__MAX_LABELS);
    if (config->first_position < pads || config->first_position > max_first)
        return eitp__fail(error, EITP_ERROR_FORMAT, "first_position is %lld; it must be %d to %lld",
                          (long long)config->first_position, pads, (long long)max_first);
    return EITP_OK;
}

EITP__PRIVATE eitp_status eitp__transformer_config_check(const eitp_transformer_config *config, eitp_error *error) {
    int64_t key_heads;
    eitp_status status = EITP_OK;
    for (size_t i = 0; i < EITP__FIELDS; i++) {
        const eitp__field_entry *field = &eitp__fields[i];
        double number = field->kind == EITP__FIELD_IS_NUMBER ? *(const double *)eitp__field_of(config, i) : 0;
        const int is_size = field->kind <= EITP__FIELD_IS_OPTIONAL_SIZE && field->kind >= EITP__FIELD_IS_SIZE;
        status = is_size ? eitp__check_size(config, i, error) : EITP_OK;
        if (status)
            return status;
        if (!(number >= 0 && number <= field->max))
            return eitp__fail(error, EITP_ERROR_FORMAT, "%s is %g; it must be 0 to %g", eitp__field_name(config, i),
                              number, field->max);
    }
    if ((!config->head_width || eitp__architecture_of(config)->whole_heads) && config->width % config->heads)
        return eitp__fail(error, EITP_ERROR_FORMAT, "%s %lld is not divisible by %s %lld",
                          eitp__field_name(config, EITP__FIELD_WIDTH), (long long)config->width,
                          eitp__field_name(config, EITP__FIELD_HEADS), (long long)config->heads);
    key_heads = eitp__key_value_heads(config);
    if (config->heads % key_heads)
        return eitp__fail(error, EITP_ERROR_FORMAT, "%s %lld is not divisible by %s %lld",
                          eitp__field_name(config, EITP__FIELD_HEADS), (long long)config->heads,
                          eitp__field_name(config, EITP__FIELD_KEY_VALUE_HEADS), (long long)key_heads);
    status = eitp__config_check_rotary(config, error);
    return status ? status : eitp__check_head_config(config, error);
}

/* Hugging Face's names of activations. If an activation has several, the first is written. */
static const struct {
    const char *name;
    eitp_activation activation;
} eitp__activations[] = {
    {"gelu_new", EITP_GELU_TANH},  {"gelu_pytorch_tanh", EITP_GELU_TANH},
    {"gelu_fast", EITP_GELU_TANH}, {"gelu", EITP_GELU_ERF},
    {"relu", EITP_RELU},           {"tanh", EITP_TANH},
    {"silu", EITP_SILU},           {"swish", EITP_SILU},
};

/* ---- Special tokens ---- */

static eitp_status eitp__add_token_id(const eitp_json *value, const char *name, eitp_token_ids *ids,
                                      eitp_error *error) {
    if (value->kind != EITP_JSON_NUMBER || !value->is_integer)
        return eitp__fail(error, EITP_ERROR_FORMAT, "line %zu: %s must be a whole number, a list of them, or null",
                          value->line, name);
    if (ids->count == EITP_MAX_TOKEN_IDS)
        return eitp__fail(error, EITP_ERROR_UNSUPPORTED, "line %zu: %s has more than %d ids", value->line, name,
                          EITP_MAX_TOKEN_IDS);
    if (value->integer >= 0 && value->integer <= INT32_MAX)
        ids->ids[ids->count++] = (int32_t)value->integer;
    return EITP_OK;
}

static eitp_status eitp__read_token_ids(const eitp_json *root, const char *name, eitp_token_ids *ids,
                                        eitp_error *error) {
    const eitp_json *value = eitp_json_member(root, name);
    const int is_list = value && value->kind == EITP_JSON_ARRAY;
    eitp_status status = EITP_OK;
    if (!value)
        return EITP_OK;
    memset(ids, 0, sizeof *ids);
    if (value->kind == EITP_JSON_NULL)
        return EITP_OK;
    for (value = is_list ? value->first_child : value; value && !status; value = is_list ? value->next : NULL)
        status = eitp__add_token_id(value, name, ids, error);
    return status;
}

EITP__PRIVATE int eitp__token_ids_have(const eitp_token_ids *ids, int32_t id) {
    for (int32_t i = 0; i < ids->count; i++) {
        if (ids->ids[i] == id)
            return 1;
    }
    return 0;
}

EITP__PRIVATE void eitp__token_ids_add(eitp_token_ids *ids, int32_t id) {
    if (!eitp__token_ids_have(ids, id) && ids->count < EITP_MAX_TOKEN_IDS)
        ids->ids[ids->count++] = id;
}

/* Returns the distinct ids below `vocabulary`: transformers writes GPT-2's 50256 into any configuration. */
static eitp_token_ids eitp__known_token_ids(const eitp_token_ids *ids, int64_t vocabulary) {
    eitp_token_ids known = EITP__ZERO;
    for (int32_t i = 0; i < ids->count; i++) {
        if (ids->ids[i] < vocabulary)
            eitp__token_ids_add(&known, ids->ids[i]);
    }
    return known;
}

EITP__PRIVATE eitp_status eitp__config_read_special_tokens(const eitp_json *root, eitp_transformer_config *config,
                                                           eitp_error *error) {
    eitp_status status = eitp__read_token_ids(root, "bos_token_id", &config->begin, error);
    if (!status)
        status = eitp__read_token_ids(root, "eos_token_id", &config->end, error);
    if (!status)
        status = eitp__read_token_ids(root, "pad_token_id", &config->padding, error);
    return status;
}

/* Writes null for an empty list: transformers assumes GPT-2's 50256 if bos_token_id or eos_token_id is missing. */
static void eitp__write_token_ids(eitp__buffer *text, const char *name, const eitp_token_ids *ids, int64_t vocabulary) {
    const eitp_token_ids known = eitp__known_token_ids(ids, vocabulary);
    eitp__buffer_format(text, "  \"%s\": %s", name, known.count > 1 ? "[" : known.count ? "" : "null");
    for (int32_t i = 0; i < known.count; i++)
        eitp__buffer_format(text, "%s%d", i ? ", " : "", (int)known.ids[i]);
    eitp__buffer_add_text(text, known.count > 1 ? "],\n" : ",\n");
}

EITP__PRIVATE void eitp__config_write_special_tokens(eitp__buffer *text, const eitp_transformer_config *config) {
    eitp__write_token_ids(text, "bos_token_id", &config->begin, config->vocabulary);
    eitp__write_token_ids(text, "eos_token_id", &config->end, config->vocabulary);
    eitp__write_token_ids(text, "pad_token_id", &config->padding, config->vocabulary);
}

static void eitp__set_token_id(eitp_token_ids *ids, int32_t id) {
    memset(ids, 0, sizeof *ids);
    ids->count = id >= 0;
    ids->ids[0] = id >= 0 ? id : 0;
}

EITP__PRIVATE void eitp__config_set_special_tokens(eitp_transformer_config *config, int32_t begin, int32_t end,
                                                   int32_t padding) {
    if (end >= 0 && !eitp__token_ids_have(&config->end, end)) {
        eitp__set_token_id(&config->end, end);
        eitp__set_token_id(&config->begin, end);
        eitp__set_token_id(&config->padding, -1);
    }
    if (begin >= 0)
        eitp__set_token_id(&config->begin, begin);
    if (padding >= 0)
        eitp__set_token_id(&config->padding, padding);
}

/* ---- Reading ---- */

static eitp_status eitp__read_activation(const eitp_json *root, const char *key, eitp_activation *activation,
                                         eitp_error *error) {
    const char *name = NULL;
    eitp_status status = eitp__json_get_text(root, key, &name, error);
    if (status || !name)
        return status;
    for (size_t i = 0; i < EITP__COUNT(eitp__activations); i++) {
        if (!strcmp(name, eitp__activations[i].name)) {
            *activation = eitp__activations[i].activation;
            return EITP_OK;
        }
    }
    return eitp__fail(error, EITP_ERROR_UNSUPPORTED, "unsupported %s '%s'", key, name);
}

/* True if a value is the only supported one. */
static int eitp__is_only(const eitp_json *value, const char *only) {
    double number;
    switch (value->kind) {
    case EITP_JSON_NULL:
        return !strcmp(only, "null");
    case EITP_JSON_BOOLEAN:
        return !strcmp(only, value->boolean ? "true" : "false");
    case EITP_JSON_NUMBER:
        return eitp__json_read_number(only, strlen(only), &number) && value->number >= number &&
               value->number <= number;
    case EITP_JSON_STRING:
        return !strcmp(only, value->text);
    case EITP_JSON_OBJECT:
        return !value->count && !strcmp(only, "{}");
    case EITP_JSON_ARRAY:
    default:
        return 0;
    }
}

/* Returns a value as text for a message. For an object that describes a quantization, returns its method. */
static const char *eitp__value_text(const eitp_json *value) {
    const eitp_json *method = eitp_json_member(value, "quant_method");
    if (value->text || (method && method->text))
        return value->text ? value->text : method->text;
    return value->kind == EITP_JSON_NULL      ? "null"
           : value->kind != EITP_JSON_BOOLEAN ? ""
           : value->boolean                   ? "true"
                                              : "false";
}

/* Checks a key for which only one value is supported. */
static eitp_status eitp__check_only(const eitp_json *value, const eitp__config_key *key, eitp_error *error) {
    const char *text = eitp__value_text(value);
    if (eitp__is_only(value, key->only))
        return EITP_OK;
    return eitp__fail(error, EITP_ERROR_UNSUPPORTED, "line %llu: unsupported %s%s%.60s (expected %s)",
                      (unsigned long long)value->line, key->name, *text ? " " : "", text, key->only);
}

/* Reads a boolean that switches the window on or off. If it is on without a size in the file, the row's applies. */
static eitp_status eitp__read_sliding_switch(const eitp_json *root, const eitp__config_key *key,
                                             eitp_transformer_config *config, eitp_error *error) {
    const char *size_key = eitp__field_key(eitp__architecture_of(config), EITP__FIELD_SLIDING);
    double size = 0;
    int is_on = 0;
    eitp_status status = eitp__json_get_boolean(root, key->name, &is_on, error);
    if (!is_on)
        config->sliding_window = 0;
    else if (key->only && !eitp_json_member(root, size_key) &&
             eitp__json_read_number(key->only, strlen(key->only), &size))
        config->sliding_window = (int64_t)size;
    return status;
}

/* Reads the member of a field. */
static eitp_status eitp__read_field(const eitp_json *root, const eitp__config_key *key, eitp_transformer_config *config,
                                    eitp_error *error) {
    const eitp__field_entry *field = &eitp__fields[key->field];
    void *value = eitp__field_in(config, key->field);
    switch (field->kind) {
    case EITP__FIELD_IS_ACTIVATION:
        return eitp__read_activation(root, key->name, (eitp_activation *)value, error);
    case EITP__FIELD_IS_SIZE:
        return eitp__json_get_integer(root, key->name, 1, (int64_t)field->max, (int64_t *)value, error);
    case EITP__FIELD_IS_COUNT:
        return eitp__json_get_integer(root, key->name, 0, (int64_t)field->max, (int64_t *)value, error);
    case EITP__FIELD_IS_OPTIONAL_SIZE:
        if (eitp_json_member(root, key->name))
            *(int64_t *)value = 0;
        return eitp__json_get_integer(root, key->name, 0, (int64_t)field->max, (int64_t *)value, error);
    case EITP__FIELD_IS_SWITCH:
        return eitp__read_sliding_switch(root, key, config, error);
    case EITP__FIELD_IS_NUMBER:
        return eitp__json_get_number(root, key->name, 0, field->max, (double *)value, error);
    case EITP__FIELD_IS_BOOLEAN:
    default:
        return eitp__json_get_boolean(root, key->name, (int *)value, error);
    }
}

static eitp_status eitp__read_key(const eitp_json *root, const eitp__config_key *key, eitp_transformer_config *config,
                                  eitp_error *error) {
    const eitp_json *value = eitp_json_member(root, key->name);
    const int is_null = value && value->kind == EITP_JSON_NULL;
    if (key->field == EITP__NO_FIELD)
        return !value || !key->only || (is_null && key->form == EITP__KEY_OR_NULL)
                   ? EITP_OK
                   : eitp__check_only(value, key, error);
    if (is_null && (key->form == EITP__KEY || key->form == EITP__KEY_ALIAS))
        return eitp__fail(error, EITP_ERROR_FORMAT, "line %llu: '%s' must not be null", (unsigned long long)value->line,
                          key->name);
    return eitp__read_field(root, key, config, error);
}

/* Reads the head from the first known class of "architectures". Weights of a bare GPT2Model also make up a language
   model, because its head is tied; so a class without a head means the architecture's own head. */
static void eitp__read_model_head(const eitp_json *root, eitp_transformer_config *config) {
    const eitp_architecture *architecture = eitp__architecture_of(config);
    const eitp_json *list = eitp_json_member(root, "architectures");
    const eitp_json *name = list && list->kind == EITP_JSON_ARRAY ? list->first_child : NULL;
    for (; name; name = name->next) {
        for (size_t i = 0; i < architecture->class_count && name->kind == EITP_JSON_STRING; i++) {
            if (strcmp(name->text, architecture->classes[i].name))
                continue;
            if (architecture->classes[i].head != EITP_HEAD_NONE || !config->tied)
                config->head = architecture->classes[i].head;
            return;
        }
    }
}

/* Values of problem_type, in the order of eitp_problem. A token classifier has none. */
static const char *const eitp__problems[] = {NULL, "single_label_classification", "multi_label_classification",
                                             "regression", NULL};

static eitp_status eitp__read_problem(const eitp_json *root, eitp_problem *problem, eitp_error *error) {
    const char *name = NULL;
    eitp_status status = eitp__json_get_text(root, "problem_type", &name, error);
    *problem = EITP_PROBLEM_UNKNOWN;
    for (int i = EITP_PROBLEM_SINGLE_LABEL; i <= EITP_PROBLEM_REGRESSION && name; i++) {
        if (!strcmp(name, eitp__problems[i]))
            *problem = (eitp_problem)i;
    }
    if (!status && name && *problem == EITP_PROBLEM_UNKNOWN)
        status = eitp__fail(error, EITP_ERROR_UNSUPPORTED, "unsupported problem_type '%.60s' (supported: %s, %s, %s)",
                            name, eitp__problems[1], eitp__problems[2], eitp__problems[3]);
    return status;
}

/* Converts positions of config.json, which count those up to the padding token's. */
static eitp_status eitp__read_first_position(eitp_transformer_config *config, eitp_error *error) {
    if (!eitp__architecture_of(config)->pads_positions)
        return EITP_OK;
    if (config->padding.count)
        config->first_position = (int64_t)config->padding.ids[0] + 1;
    if (config->positions <= config->first_position)
        return eitp__fail(error, EITP_ERROR_FORMAT, "%s is %lld; with pad_token_id %lld it must be %lld or more",
                          eitp__field_name(config, EITP__FIELD_POSITIONS), (long long)config->positions,
                          (long long)config->first_position - 1, (long long)config->first_position + 1);
    config->positions -= config->first_position;
    return EITP_OK;
}

EITP__PRIVATE eitp_status eitp__transformer_config_parse(const eitp_json *root, const eitp_architecture *architecture,
                                                         eitp_transformer_config *config, eitp_error *error) {
    eitp_status status = EITP_OK;
    *config = eitp__architecture_defaults(architecture);
    for (int is_alias = 0; is_alias < 2; is_alias++) {
        for (size_t i = 0; i < architecture->key_count && !status; i++) {
            if ((architecture->keys[i].form == EITP__KEY_ALIAS) == is_alias)
                status = eitp__read_key(root, &architecture->keys[i], config, error);
        }
    }
    if (!status)
        status = eitp__config_read_decoder(root, config, error);
    if (!status)
        status = eitp__config_read_special_tokens(root, config, error);
    if (!status)
        status = eitp__read_first_position(config, error);
    if (!status)
        status = eitp__labels_count(root, &config->labels, error);
    if (!status)
        status = eitp__read_problem(root, &config->problem, error);
    eitp__read_model_head(root, config);
    if (!status && config->problem == EITP_PROBLEM_SINGLE_LABEL && config->labels == 1)
        status = eitp__fail(error, EITP_ERROR_FORMAT,
                            "problem_type single_label_classification needs two labels or more; with one it is a "
                            "regression");
    if (config->head == EITP_HEAD_TOKEN_CLASSIFIER)
        config->problem = EITP_PROBLEM_TOKENS;
    eitp__complete_dropout(config);
    if (!status)
        status = eitp__transformer_config_check(config, error);
    eitp__config_complete(config);
    return status;
}

/* Finds the architecture of a config.json. Without a model_type it is GPT-2. */
static eitp_status eitp__read_architecture(const eitp_json *root, const eitp_architecture **architecture,
                                           eitp_error *error) {
    const char *type = eitp_architecture_name(NULL);
    char supported[200];
    size_t at = 0;
    eitp_status status;
    if (!root || root->kind != EITP_JSON_OBJECT)
        return eitp__fail(error, EITP_ERROR_FORMAT, "a config.json must be a JSON object");
    status = eitp__json_get_text(root, "model_type", &type, error);
    if (status)
        return status;
    *architecture = eitp_architecture_find(type);
    if (*architecture)
        return EITP_OK;
    for (size_t i = 0; eitp__architecture_at(i) && at < sizeof supported; i++)
        at += (size_t)snprintf(supported + at, sizeof supported - at, "%s%s", i ? ", " : "",
                               eitp__architecture_at(i)->model_type);
    return eitp__fail(error, EITP_ERROR_UNSUPPORTED, "unsupported model_type '%.60s' (supported: %s)", type, supported);
}

eitp_status eitp_transformer_config_read(const eitp_host *host, const char *path, eitp_transformer_config *config,
                                         eitp_error *error) {
    if (!host || !path || !config)
        return eitp__fail_null(error, "eitp_transformer_config_read", "host, path and config");
    enum { LIMIT = 16 << 20 };
    const eitp_architecture *architecture = NULL;
    eitp_json_document *document;
    eitp_transformer_config parsed;
    eitp_status status = eitp__model_json_read(host, path, LIMIT, &document, error);
    if (status)
        return status;
    status = eitp__read_architecture(eitp_json_root(document), &architecture, error);
    if (!status)
        status = eitp__transformer_config_parse(eitp_json_root(document), architecture, &parsed, error);
    eitp_json_release(document);
    if (status)
        return eitp__fail_prefix(error, status, "%s", path);
    *config = parsed;
    return EITP_OK;
}

/* ---- Writing ---- */

static const char *eitp__activation_name(eitp_activation activation) {
    for (size_t i = 0; i < EITP__COUNT(eitp__activations); i++) {
        if (eitp__activations[i].activation == activation)
            return eitp__activations[i].name;
    }
    return eitp__activations[0].name;
}

/* True if an earlier entry has the same key, because the key stands for several members. */
static int eitp__is_repeated(const eitp_architecture *architecture, const eitp__config_key *key) {
    for (const eitp__config_key *earlier = architecture->keys; earlier < key; earlier++) {
        if (!strcmp(earlier->name, key->name))
            return 1;
    }
    return 0;
}

/* True if a member differs from the architecture's value. Sizes always have keys, or are checked elsewhere. */
static int eitp__differs(const eitp_transformer_config *config, size_t field) {
    const eitp_transformer_config *defaults = eitp__architecture_of(config)->defaults;
    const void *value = eitp__field_of(config, field), *own = eitp__field_of(defaults, field);
    if (eitp__fields[field].kind == EITP__FIELD_IS_BOOLEAN)
        return !*(const int *)value != !*(const int *)own;
    if (eitp__fields[field].kind == EITP__FIELD_IS_OPTIONAL_SIZE || eitp__fields[field].kind == EITP__FIELD_IS_COUNT)
        return *(const int64_t *)value != *(const int64_t *)own;
    return eitp__fields[field].kind == EITP__FIELD_IS_NUMBER && memcmp(value, own, sizeof(double));
}

static void eitp__write_key(eitp__buffer *text, const eitp__config_key *key, const eitp_transformer_config *config) {
    const void *value;
    if (key->field == EITP__NO_FIELD || key->form == EITP__KEY_ALIAS ||
        eitp__is_repeated(eitp__architecture_of(config), key) ||
        (key->form == EITP__KEY_IF_SET && !eitp__differs(config, key->field)))
        return;
    value = eitp__field_of(config, key->field);
    if (eitp__fields[key->field].kind == EITP__FIELD_IS_OPTIONAL_SIZE && !*(const int64_t *)value &&
        key->form != EITP__KEY_OR_NULL)
        return;
    eitp__buffer_format(text, "  \"%s\": ", key->name);
    switch (eitp__fields[key->field].kind) {
    case EITP__FIELD_IS_ACTIVATION:
        eitp__buffer_format(text, "\"%s\"", eitp__activation_name(*(const eitp_activation *)value));
        break;
    case EITP__FIELD_IS_SIZE:
    case EITP__FIELD_IS_COUNT:
        eitp__buffer_format(text, "%lld", (long long)*(const int64_t *)value);
        break;
    case EITP__FIELD_IS_OPTIONAL_SIZE:
        if (*(const int64_t *)value)
            eitp__buffer_format(text, "%lld", (long long)*(const int64_t *)value);
        else
            eitp__buffer_add_text(text, "null");
        break;
    case EITP__FIELD_IS_SWITCH:
        eitp__buffer_add_text(text, *(const int64_t *)value ? "true" : "false");
        break;
    case EITP__FIELD_IS_NUMBER:
        eitp__json_write_number(text, *(const double *)value);
        break;
    case EITP__FIELD_IS_BOOLEAN:
    default:
        eitp__buffer_add_text(text, *(const int *)value ? "true" : "false");
        break;
    }
    eitp__buffer_add_text(text, ",\n");
}

/* Fails if a config.json of the architecture cannot express the configuration. */
static eitp_status eitp__check_has_keys(const eitp_transformer_config *config, eitp_error *error) {
    const eitp_architecture *architecture = eitp__architecture_of(config);
    const int has_layers = eitp__has_layer_types(architecture);
    for (size_t i = 0; i < EITP__FIELDS; i++) {
        if (has_layers && (i == EITP__FIELD_SLIDING_FIRST || i == EITP__FIELD_SLIDING_PERIOD))
            continue;
        if (!eitp__field_key(architecture, i) && eitp__differs(config, i))
            return eitp__fail(error, EITP_ERROR_UNSUPPORTED,
                              "a config.json of %s cannot express %s; save the weights with eitp_variables_save",
                              architecture->model_type, eitp__fields[i].name);
    }
    return EITP_OK;
}

static const char *eitp__class_name(const eitp_transformer_config *config) {
    const eitp_architecture *architecture = eitp__architecture_of(config);
    size_t i = 0;
    while (i + 1 < architecture->class_count && architecture->classes[i].head != config->head)
        i++;
    return architecture->classes[i].name;
}

/* Returns the configuration with positions and padding as stored in config.json. */
static eitp_transformer_config eitp__positions_as_in_files(const eitp_transformer_config *config) {
    eitp_transformer_config written = *config;
    if (eitp__architecture_of(config)->pads_positions) {
        written.positions += config->first_position;
        written.padding.count = 1;
        written.padding.ids[0] = (int32_t)config->first_position - 1;
    }
    return written;
}

EITP__PRIVATE int eitp__config_preserves(const eitp_architecture *architecture, const eitp_json *member) {
    const eitp__config_key *key = eitp__config_key_find(architecture, member->name, member->name_size);
    const int is_dtype = key && (!strcmp(key->name, "dtype") || !strcmp(key->name, "torch_dtype"));
    return !is_dtype && (!key || (key->field == EITP__NO_FIELD && (key->only || key->form == EITP__KEY_UNUSED)));
}

/* Writes the whole object. */
static void eitp__add_members(eitp__buffer *text, const eitp_transformer_config *config, const eitp__labels *labels,
                              const char *kept, eitp_dtype dtype) {
    const eitp_architecture *architecture = eitp__architecture_of(config);
    const eitp_transformer_config written = eitp__positions_as_in_files(config);
    eitp__buffer_format(text, "{\n  \"architectures\": [\"%s\"],\n  \"model_type\": \"%s\",\n",
                        eitp__class_name(config), architecture->model_type);
    for (size_t i = 0; i < architecture->key_count; i++)
        eitp__write_key(text, &architecture->keys[i], &written);
    eitp__config_write_decoder(text, &written);
    if (labels)
        eitp__labels_write(text, labels);
    if (labels && eitp__problems[config->problem])
        eitp__buffer_format(text, "  \"problem_type\": \"%s\",\n", eitp__problems[config->problem]);
    eitp__config_write_special_tokens(text, &written);
    eitp__buffer_add_text(text, kept ? kept : "");
    /* Both spellings, for older and newer versions of transformers. */
    for (int i = 0; i < 2; i++)
        eitp__buffer_format(text, "  \"%s\": \"%s\"%s\n", i ? "dtype" : "torch_dtype",
                            dtype == EITP_F16    ? "float16"
                            : dtype == EITP_BF16 ? "bfloat16"
                                                 : "float32",
                            i ? "" : ",");
    eitp__buffer_add_text(text, "}\n");
}

EITP__PRIVATE eitp_status eitp__transformer_config_write(const eitp_host *host, const char *path,
                                                         const eitp_transformer_config *config,
                                                         const eitp__labels *labels, const char *kept,
                                                         int32_t end_of_text, eitp_dtype dtype, eitp_error *error) {
    eitp_transformer_config named = *config;
    eitp__buffer text;
    eitp_status status = eitp__check_has_keys(config, error);
    if (status)
        return status;
    eitp__config_complete(&named);
    eitp__config_set_special_tokens(&named, -1, end_of_text, -1);
    eitp__buffer_init(&text, host);
    eitp__add_members(&text, &named, labels, kept, dtype);
    return eitp__store_text(host, NULL, path, &text, 0, error);
}

eitp_status eitp_transformer_config_write(const eitp_host *host, const char *path,
                                          const eitp_transformer_config *config, int32_t end_of_text, eitp_dtype dtype,
                                          eitp_error *error) {
    eitp__labels *labels = NULL;
    eitp_status status = EITP_OK;
    if (!host || !path || !config)
        return eitp__fail_null(error, "eitp_transformer_config_write", "host, path and config");
    status = eitp__check_head_config(config, error);
    if (!status && eitp_head_has_labels(config->head))
        status = eitp__labels_create(host, NULL, config->labels, &labels, error);
    if (!status)
        status = eitp__transformer_config_write(host, path, config, labels, NULL, end_of_text, dtype, error);
    eitp__labels_release(labels);
    return status;
}
