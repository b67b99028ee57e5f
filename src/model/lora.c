#include "model/lora.h"
#include "tensor/context.h"

/* Largest rank and scale that are taken: far beyond use, and no product of them overflows. */
#define EITP__LORA_RANKS (1 << 16)
#define EITP__LORA_ALPHA 1e9

/* The linear layers of a block; widths are those of the model, the inner one 0. */
static const struct {
    const char *name;
    unsigned target;
    int in, out; /* multiples of the width; 0: the MLP's inner width */
} eitp__lora_layers[] = {
    {"attn.c_attn", EITP_LORA_C_ATTN, 1, 3},
    {"attn.c_proj", EITP_LORA_ATTN_C_PROJ, 1, 1},
    {"mlp.c_fc", EITP_LORA_C_FC, 1, 0},
    {"mlp.c_proj", EITP_LORA_MLP_C_PROJ, 0, 1},
};

#define EITP__LORA_ALL (EITP_LORA_C_ATTN | EITP_LORA_ATTN_C_PROJ | EITP_LORA_C_FC | EITP_LORA_MLP_C_PROJ)

/* ---- Configurations ---- */

eitp_lora_config eitp_lora_config_default(void) {
    eitp_lora_config config;
    memset(&config, 0, sizeof config);
    config.rank = 8;
    config.alpha = 8;
    config.targets = EITP_LORA_C_ATTN;
    return config;
}

EITP__PRIVATE eitp_status eitp__lora_config_check(const eitp_lora_config *config, eitp_error *error) {
    if (config->rank < 1 || config->rank > EITP__LORA_RANKS)
        return eitp__fail(error, EITP_ERROR_ARGUMENT, "the adapters' rank is %lld; it must be 1 to %d",
                          (long long)config->rank, EITP__LORA_RANKS);
    if (!(config->alpha > 0 && config->alpha <= EITP__LORA_ALPHA))
        return eitp__fail(error, EITP_ERROR_ARGUMENT, "the adapters' alpha is %g; it must be above 0, at most %g",
                          config->alpha, EITP__LORA_ALPHA);
    if (!(config->dropout >= 0 && config->dropout <= 0.999))
        return eitp__fail(error, EITP_ERROR_ARGUMENT, "the adapters' dropout is %g; it must be 0 to 0.999",
                          config->dropout);
    if (!config->targets || (config->targets & ~(unsigned)EITP__LORA_ALL))
        return eitp__fail(error, EITP_ERROR_ARGUMENT, "the adapters' targets are %u; they must be a sum of targets",
                          config->targets);
    return EITP_OK;
}

EITP__PRIVATE int eitp__lora_configs_equal(const eitp_lora_config *a, const eitp_lora_config *b) {
    return a->rank == b->rank &&
           (!a->rank || (a->alpha >= b->alpha && a->alpha <= b->alpha && a->dropout >= b->dropout &&
                         a->dropout <= b->dropout && a->targets == b->targets && !a->rslora == !b->rslora));
}

/* Is `word` the layer's name, or the end of it after a dot? */
static int eitp__lora_word_names(const char *word, size_t size, const char *name) {
    size_t length = strlen(name);
    return length >= size && !strncmp(name + length - size, word, size) &&
           (length == size || name[length - size - 1] == '.');
}

eitp_status eitp_lora_targets_parse(const char *names, unsigned *targets, eitp_error *error) {
    unsigned all = 0;
    if (!names || !targets)
        return eitp__fail_null(error, "eitp_lora_targets_parse", "names and targets");
    for (const char *word = names;; word++) {
        size_t size = strcspn(word, ",");
        unsigned found = size == strlen("all-linear") && !strncmp(word, "all-linear", size) ? EITP__LORA_ALL : 0;
        for (size_t i = 0; i < EITP__COUNT(eitp__lora_layers) && size; i++)
            found |= eitp__lora_word_names(word, size, eitp__lora_layers[i].name) ? eitp__lora_layers[i].target : 0;
        if (!found)
            return eitp__fail(error, EITP_ERROR_ARGUMENT,
                              "'%.*s' is no linear layer of GPT-2; adapters go to c_attn, c_proj (attn.c_proj, "
                              "mlp.c_proj), c_fc or all-linear",
                              (int)(size < 60 ? size : 60), word);
        all |= found;
        word += size;
        if (!*word)
            break;
    }
    *targets = all;
    return EITP_OK;
}

void eitp_lora_targets_format(unsigned targets, char *names, size_t size) {
    const unsigned both = EITP_LORA_ATTN_C_PROJ | EITP_LORA_MLP_C_PROJ;
    static const struct {
        unsigned target;
        const char *name;
    } words[] = {{EITP_LORA_C_ATTN, "c_attn"},
                 {EITP_LORA_C_FC, "c_fc"},
                 {EITP_LORA_ATTN_C_PROJ | EITP_LORA_MLP_C_PROJ, "c_proj"},
                 {EITP_LORA_ATTN_C_PROJ, "attn.c_proj"},
                 {EITP_LORA_MLP_C_PROJ, "mlp.c_proj"}};
    size_t at = 0;
    *names = 0;
    for (size_t i = 0; i < EITP__COUNT(words) && at < size; i++) {
        int part_of_both = (words[i].target & both) && words[i].target != both;
        if ((targets & words[i].target) == words[i].target && !(part_of_both && (targets & both) == both))
            at += (size_t)snprintf(names + at, size - at, "%s%s", at ? "," : "", words[i].name);
    }
}

/* ---- Parameters ---- */

EITP__PRIVATE int64_t eitp__lora_parameter_count(const eitp_transformer_config *model, const eitp_lora_config *config) {
    int64_t count = 0;
    for (size_t i = 0; i < EITP__COUNT(eitp__lora_layers); i++)
        count += config->rank && (config->targets & eitp__lora_layers[i].target) ? 2 : 0;
    return count * model->layers;
}

EITP__PRIVATE eitp__parameter eitp__lora_parameter(const eitp_transformer_config *model, const eitp_lora_config *config,
                                                   int64_t index) {
    int64_t in_block = eitp__lora_parameter_count(model, config) / model->layers, at = index % in_block / 2;
    int is_b = (int)(index % 2), multiple;
    size_t i = 0;
    eitp__parameter parameter;
    memset(&parameter, 0, sizeof parameter);
    for (;; i++) {
        if ((config->targets & eitp__lora_layers[i].target) && at-- == 0)
            break;
    }
    multiple = is_b ? eitp__lora_layers[i].out : eitp__lora_layers[i].in;
    snprintf(parameter.name, sizeof parameter.name, "transformer.h.%d.%s.lora_%c.weight", (int)(index / in_block),
             eitp__lora_layers[i].name, is_b ? 'B' : 'A');
    parameter.rank = 2;
    parameter.shape[!is_b] = multiple ? multiple * model->width : model->inner;
    parameter.shape[is_b] = config->rank;
    return parameter;
}

EITP__PRIVATE int eitp__lora_is_adapter(const char *name) {
    static const char *const ends[] = {".lora_A.weight", ".lora_B.weight"};
    size_t length = strlen(name), end = strlen(ends[0]);
    return length > end && (!strcmp(name + length - end, ends[0]) || !strcmp(name + length - end, ends[1]));
}

eitp_lora_config eitp_model_lora(const eitp_model *model) {
    eitp_lora_config none = EITP__ZERO;
    return model ? model->lora : none;
}

static double eitp__lora_scale(const eitp_lora_config *config) {
    return config->alpha / (config->rslora ? sqrt((double)config->rank) : (double)config->rank);
}

/* Declares the adapters; where one cannot be, none is. */
static eitp_status eitp__lora_declare(eitp_model *model, const eitp_lora_config *config, eitp_error *error) {
    eitp_context *context = model->context;
    size_t before = eitp_variable_count(context);
    eitp_graph *graph = NULL;
    eitp_status status = eitp_graph_create(context, &graph, error);
    for (int64_t i = 0; i < eitp__lora_parameter_count(&model->config, config) && !status; i++) {
        eitp__parameter parameter = eitp__lora_parameter(&model->config, config, i);
        eitp_parameter(graph, parameter.name, parameter.rank, parameter.shape);
        status = eitp_graph_status(graph, error);
    }
    eitp_graph_destroy(graph);
    while (status && eitp_variable_count(context) > before)
        eitp__variable_remove(context, eitp_variable_count(context) - 1);
    return status;
}

eitp_status eitp_model_add_lora(eitp_model *model, const eitp_lora_config *config, eitp_error *error) {
    if (!model || !config)
        return eitp__fail_null(error, "eitp_model_add_lora", "model and config");
    eitp_status status = eitp__lora_config_check(config, error);
    if (!status && model->lora.rank)
        status = eitp__fail(error, EITP_ERROR_ARGUMENT, "the model has adapters already; merge them first");
    if (!status && model->context->graph_count)
        status = eitp__fail(error, EITP_ERROR_ARGUMENT, "adapters must be added before graphs are made");
    if (!status)
        status = eitp__lora_declare(model, config, error);
    for (int64_t i = 0; i < eitp__parameter_count(&model->config) && !status; i++) {
        eitp__parameter parameter = eitp__parameter_at(&model->config, i);
        status = eitp_variable_set_trained(model->context, parameter.name, 0, error);
    }
    if (!status)
        model->lora = *config;
    return status;
}

eitp_status eitp_model_initialize_lora(eitp_model *model, uint64_t seed, eitp_error *error) {
    eitp_status status = EITP_OK;
    if (!model)
        return eitp__fail_null(error, "eitp_model_initialize_lora", "model");
    for (int64_t i = 0; i < eitp__lora_parameter_count(&model->config, &model->lora) && !status; i++) {
        eitp__parameter parameter = eitp__lora_parameter(&model->config, &model->lora, i);
        /* Kaiming's uniform distribution with a = sqrt(5). */
        double bound = 1 / sqrt((double)parameter.shape[1]);
        status = i % 2 ? eitp_variable_fill(model->context, parameter.name, 0, error)
                       : eitp_variable_fill_uniform(model->context, parameter.name, -bound, bound, seed, error);
    }
    return status;
}

/* ---- The graph ---- */

/* A layer's adapter parameter, rounded to what its product takes. */
static eitp_tensor *eitp__lora_tensor(const eitp_model *model, const eitp_tensor *x, int64_t layer, const char *name,
                                      char which) {
    char full[96];
    snprintf(full, sizeof full, "transformer.h.%d.%s.lora_%c.weight", (int)layer, name, which);
    return eitp_cast(eitp__parameter_named(model, eitp_tensor_graph(x), full), eitp_tensor_dtype(x));
}

EITP__PRIVATE eitp_tensor *eitp__lora_apply(const eitp_model *model, eitp_tensor *x, int64_t layer, const char *name,
                                            eitp_tensor *key) {
    unsigned target = 0;
    eitp_tensor *low;
    for (size_t i = 0; i < EITP__COUNT(eitp__lora_layers); i++)
        target |= strcmp(name, eitp__lora_layers[i].name) ? 0 : eitp__lora_layers[i].target;
    if (!model->lora.rank || !(model->lora.targets & target))
        return NULL;
    low = eitp_matmul_wide(key ? eitp_dropout(x, key, model->lora.dropout) : x,
                           eitp__lora_tensor(model, x, layer, name, 'A'), 0, 1);
    /* Scaled as it was summed: rounded once, and the scale is not in what A and B are updated by. */
    low = eitp_cast(eitp_affine(low, eitp__lora_scale(&model->lora), 0), eitp_tensor_dtype(x));
    return eitp_matmul_transposed(low, eitp__lora_tensor(model, x, layer, name, 'B'), 0, 1);
}

/* ---- Merging ---- */

/* An adapter in memory, and a row of the weight that it belongs to. */
typedef struct eitp__lora_merge {
    const eitp_host *host;
    int64_t rank, in, out;
    double scale;
    float *a, *b, *row; /* one allocation */
    size_t bytes;
} eitp__lora_merge;

static void eitp__lora_add_row(const eitp__lora_merge *merge, int64_t i) {
    for (int64_t o = 0; o < merge->out; o++) {
        double sum = 0;
        for (int64_t r = 0; r < merge->rank; r++)
            sum += (double)merge->a[r * merge->in + i] * (double)merge->b[o * merge->rank + r];
        merge->row[o] = (float)((double)merge->row[o] + merge->scale * sum);
    }
}

/* Adds an adapter to its weight [in, out], which is the transpose of B A, and zeroes B. */
static eitp_status eitp__lora_merge_layer(eitp_context *context, const eitp__lora_merge *merge, const char *name_a,
                                          const char *name_b, eitp_error *error) {
    char weight[96];
    eitp_status status = eitp_variable_read_f32(context, name_a, 0, merge->a, merge->rank * merge->in, error);
    if (!status)
        status = eitp_variable_read_f32(context, name_b, 0, merge->b, merge->rank * merge->out, error);
    snprintf(weight, sizeof weight, "%.*s.weight", (int)(strlen(name_a) - strlen(".lora_A.weight")), name_a);
    for (int64_t i = 0; i < merge->in && !status; i++) {
        status = eitp_variable_read_f32(context, weight, i * merge->out, merge->row, merge->out, error);
        if (!status)
            eitp__lora_add_row(merge, i);
        if (!status)
            status = eitp_variable_write_f32(context, weight, i * merge->out, merge->row, merge->out, error);
    }
    return status ? status : eitp_variable_fill(context, name_b, 0, error);
}

eitp_status eitp_model_merge_lora(eitp_model *model, eitp_error *error) {
    if (!model)
        return eitp__fail_null(error, "eitp_model_merge_lora", "model");
    const eitp_lora_config *config = &model->lora;
    eitp_status status = EITP_OK;
    for (int64_t i = 0; i < eitp__lora_parameter_count(&model->config, config) && !status; i += 2) {
        eitp__parameter a = eitp__lora_parameter(&model->config, config, i);
        eitp__parameter b = eitp__lora_parameter(&model->config, config, i + 1);
        eitp__lora_merge merge = EITP__ZERO;
        merge.host = &model->host;
        merge.rank = config->rank;
        merge.in = a.shape[1];
        merge.out = b.shape[0];
        merge.scale = eitp__lora_scale(config);
        merge.bytes = (size_t)(merge.rank * (merge.in + merge.out) + merge.out) * sizeof *merge.a;
        merge.a = (float *)eitp__allocate_uninitialized(merge.host, merge.bytes);
        if (!merge.a)
            return eitp__fail_memory(error, merge.bytes, "merging adapters");
        merge.b = merge.a + merge.rank * merge.in;
        merge.row = merge.b + merge.rank * merge.out;
        status = eitp__lora_merge_layer(model->context, &merge, a.name, b.name, error);
        eitp__release(merge.host, merge.a, merge.bytes);
    }
    return status;
}
