/* Hugging Face model directories. */
#include "io/model_directory.h"
#include "gguf/model_json.h"
#include "base/log.h"
#include "io/variables.h"
#include "io/weight_files.h"
#include "model/lora.h"
#include "model/parameters.h"
#include "model/transformer.h"
#include "model/transformer_config.h"
#include "tensor/variable.h"

/* Finds the tensor with this name, with or without the architecture's prefix, which models without a head omit. */
static const eitp__safetensors_entry *eitp__find_weights(const eitp_transformer_config *config,
                                                         const eitp__safetensors *collection, const char *name) {
    const char *prefix = eitp__architecture_of(config)->prefix, *bare = eitp__without_prefix(config, name);
    const eitp__safetensors_entry *entry = eitp__safetensors_find(collection, name);
    char prefixed[EITP__NAME_SIZE + 32];
    if (!entry)
        entry = eitp__safetensors_find(collection, bare);
    snprintf(prefixed, sizeof prefixed, "%s%s", prefix, bare);
    return entry ? entry : eitp__safetensors_find(collection, prefixed);
}

static int eitp__is_norm(eitp__model_slot slot) {
    return slot == EITP__ATTENTION_NORM || slot == EITP__MLP_NORM || slot == EITP__EMBEDDING_NORM ||
           slot == EITP__FINAL_NORM || slot == EITP__HEAD_NORM;
}

/* Finds the tensor of a norm's parameter under its TensorFlow name. */
static const eitp__safetensors_entry *eitp__find_gamma_or_beta(const eitp_transformer_config *config,
                                                               const eitp__safetensors *collection,
                                                               const eitp__parameter *parameter) {
    const int is_gain = parameter->row->part == EITP__WEIGHT;
    const size_t length = strlen(parameter->name) - strlen(is_gain ? "weight" : "bias");
    char name[EITP__NAME_SIZE + 8];
    snprintf(name, sizeof name, "%.*s%s", (int)length, parameter->name, is_gain ? "gamma" : "beta");
    return eitp__find_weights(config, collection, name);
}

/* Finds the tensor of a parameter under the name used by models with another head. */
static const eitp__safetensors_entry *eitp__find_other_name(const eitp_transformer_config *config,
                                                            const eitp__safetensors *collection,
                                                            const eitp__parameter *parameter) {
    const eitp_architecture *architecture = eitp__architecture_of(config);
    const eitp__safetensors_entry *entry = NULL;
    for (size_t i = 0; i < architecture->row_count && !entry; i++) {
        const eitp__parameter_row *row = &architecture->rows[i];
        eitp__parameter other;
        if (row == parameter->row || row->slot != parameter->row->slot || row->part != parameter->row->part)
            continue;
        other = eitp__row_parameter(config, row, "");
        entry = eitp__find_weights(config, collection, other.name);
    }
    return entry;
}

/* Finds the tensor of a parameter outside blocks; NULL if the weights or the architecture lack it. */
static const eitp__safetensors_entry *eitp__find_slot(const eitp_transformer_config *config,
                                                      const eitp__safetensors *collection, eitp__model_slot slot) {
    const eitp__parameter_row *row = eitp__row_find(config, slot, EITP__WEIGHT);
    eitp__parameter parameter;
    char name[EITP__NAME_SIZE];
    if (!row)
        return NULL;
    parameter = eitp__row_parameter(config, row, NULL);
    eitp__parameter_piece_name(&parameter, 0, name, sizeof name);
    return eitp__find_weights(config, collection, name);
}

/* Compares two tensors of the same shape, as f32. */
static eitp_status eitp__have_same_values(const eitp_host *host, const eitp__safetensors *collection,
                                          const eitp__safetensors_entry *a, const eitp__safetensors_entry *b, int *same,
                                          eitp_error *error) {
    const int64_t piece = 32768;
    const size_t bytes = 2 * (size_t)piece * sizeof(float);
    float *values = (float *)eitp__allocate_uninitialized(host, bytes);
    eitp_status status = EITP_OK;
    *same = 1;
    if (!values)
        return eitp__fail_memory(error, bytes, "reading weights");
    for (int64_t first = 0; first < a->count && !status && *same; first += piece) {
        const int64_t count = a->count - first < piece ? a->count - first : piece;
        status = eitp__safetensors_read_f32(collection, a, first, count, values, NULL, error);
        if (!status)
            status = eitp__safetensors_read_f32(collection, b, first, count, values + piece, NULL, error);
        *same = !status && !memcmp(values, values + piece, (size_t)count * sizeof *values);
    }
    eitp__release(host, values, bytes);
    return status;
}

/* Checks if the weights have an output head that differs from the token embedding. */
static eitp_status eitp__has_own_head(const eitp_host *host, const eitp_transformer_config *config,
                                      const eitp__safetensors *collection, int *has_own_head, eitp_error *error) {
    const eitp__safetensors_entry *embedding = eitp__find_slot(config, collection, EITP__TOKEN_EMBEDDING);
    const eitp__safetensors_entry *head = eitp__find_slot(config, collection, EITP__HEAD);
    int same = 1;
    eitp_status status = EITP_OK;
    if (embedding && head && embedding->rank == head->rank &&
        !memcmp(embedding->shape, head->shape, (size_t)head->rank * sizeof *head->shape))
        status = eitp__have_same_values(host, collection, embedding, head, &same, error);
    else
        same = !embedding || !head;
    *has_own_head = !status && !same;
    return status;
}

/* ---- Configurations ---- */

/* Reads generation_config.json; *document is NULL if the file does not exist. */
static eitp_status eitp__read_generation_config(const eitp_host *host, const char *directory,
                                                eitp_json_document **document, eitp_error *error) {
    enum { LIMIT = 16 << 20 };
    char *path;
    int is_file = 0;
    eitp_status status = eitp__path_in(host, directory, EITP__GENERATION_FILE, &path, error);
    *document = NULL;
    if (!status)
        status = eitp__model_json_exists(host, path, &is_file, error);
    if (!status && is_file)
        status = eitp__model_json_read_strict(host, path, LIMIT, document, error);
    eitp__release_text(host, path);
    return status;
}

/* Overrides special tokens of config.json with those in generation_config.json, as transformers does. */
static eitp_status eitp__apply_generation_config(const eitp_host *host, const char *directory,
                                                 eitp_transformer_config *config, eitp_error *error) {
    eitp_json_document *document;
    eitp_status status = eitp__read_generation_config(host, directory, &document, error);
    if (!status && document)
        status = eitp__config_read_special_tokens(eitp_json_root(document), config, error);
    if (status && document)
        status = eitp__fail_prefix(error, status, "%s/" EITP__GENERATION_FILE, directory);
    eitp_json_release(document);
    return status;
}

/* Unties the head if the weights have a different one, as transformers does since version 5. */
static eitp_status eitp__untie_own_head(const eitp_host *host, const char *directory,
                                        const eitp__safetensors *collection, eitp_transformer_config *config,
                                        eitp_error *error) {
    int has_own_head = 0;
    eitp_status status = eitp__has_own_head(host, config, collection, &has_own_head, error);
    if (has_own_head) {
        config->tied = 0;
        eitp__log_line(
            host, EITP_LOG_WARNING,
            "'%s': %s differs from the token embedding although tie_word_embeddings is true; the head is not tied",
            directory, eitp__row_find(config, EITP__HEAD, EITP__WEIGHT)->name);
    }
    return status;
}

/* Determines from the weights, if there are any, the settings that config.json lacks. */
static eitp_status eitp__apply_weights(const eitp_host *host, const char *directory, eitp_transformer_config *config,
                                       eitp_error *error) {
    eitp__safetensors *collection;
    eitp_status status = eitp__weights_open(host, directory, &collection, error);
    if (!status && collection && eitp__is_tied(config))
        status = eitp__untie_own_head(host, directory, collection, config, error);
    if (!status && collection && config->head == EITP_HEAD_NONE)
        config->pooler = eitp__find_slot(config, collection, EITP__POOLER) != NULL;
    eitp__safetensors_close(collection);
    return status;
}

static eitp_status eitp__read_own_config(const eitp_host *host, const char *directory, eitp_transformer_config *config,
                                         eitp_error *error) {
    eitp_transformer_config read;
    char *path;
    eitp_status status = eitp__path_in(host, directory, "config.json", &path, error);
    if (!status)
        status = eitp_transformer_config_read(host, path, &read, error);
    eitp__release_text(host, path);
    if (!status)
        status = eitp__apply_generation_config(host, directory, &read, error);
    if (!status && (eitp__is_tied(&read) || read.head == EITP_HEAD_NONE))
        status = eitp__apply_weights(host, directory, &read, error);
    if (!status)
        *config = read;
    return status;
}

eitp_status eitp_model_config_read(const eitp_host *host, const char *directory, eitp_transformer_config *config,
                                   eitp_error *error) {
    char *decoder = NULL;
    eitp_status status;
    if (!host || !directory || !config)
        return eitp__fail_null(error, "eitp_model_config_read", "host, directory and config");
    status = eitp__latent_find_part(host, directory, EITP__DECODER_DIRECTORY, &decoder, error);
    if (!status)
        status = eitp__read_own_config(host, decoder ? decoder : directory, config, error);
    eitp__release_text(host, decoder);
    return status;
}

EITP__PRIVATE eitp_status eitp__latent_config_read(const eitp_host *host, const char *directory,
                                                   eitp_latent_config *config, eitp_error *error) {
    eitp_latent_config read = EITP__ZERO;
    char *path = NULL;
    eitp_status status;
    if (!host || !directory || !config)
        return eitp__fail_null(error, "eitp__latent_config_read", "host, directory and config");
    status = eitp__latent_read(host, directory, &read, error);
    if (!status && read.size)
        status = eitp__path_in(host, directory, EITP__ENCODER_DIRECTORY, &path, error);
    if (!status && read.size)
        status = eitp_model_config_read(host, path, &read.encoder, error);
    eitp__release_text(host, path);
    if (!status)
        *config = read;
    return status;
}

/* True if a member of generation_config.json is not part of eitp_transformer_config. */
static int eitp__generation_keeps(const eitp_architecture *architecture, const eitp_json *member) {
    (void)architecture;
    return strcmp(member->name, "bos_token_id") && strcmp(member->name, "eos_token_id") &&
           strcmp(member->name, "pad_token_id");
}

/* Replaces *kept with the text of an object's members that are written back. */
static eitp_status eitp__keep_members(const eitp_host *host, const eitp_architecture *architecture,
                                      const eitp_json *object,
                                      int (*keeps)(const eitp_architecture *, const eitp_json *), char **kept,
                                      eitp_error *error) {
    eitp__buffer members;
    char *copy = NULL;
    size_t size;
    eitp__buffer_init(&members, host);
    for (const eitp_json *member = object->first_child; member; member = member->next) {
        if (!member->name || !keeps(architecture, member))
            continue;
        eitp__buffer_add_text(&members, "  ");
        eitp__json_write_text(&members, member->name, member->name_size);
        eitp__buffer_add_text(&members, ": ");
        eitp__json_write_value(&members, member);
        eitp__buffer_add_text(&members, ",\n");
    }
    size = members.size;
    if (!members.failed)
        copy = eitp__copy_bytes(host, members.data, size);
    eitp__buffer_release(&members);
    if (!copy)
        return eitp__fail_memory(error, size, "the keys of a configuration");
    eitp__release_text(host, *kept);
    *kept = copy;
    return EITP_OK;
}

EITP__PRIVATE eitp_status eitp__config_other_keys(const eitp_host *host, const eitp_architecture *architecture,
                                                  const char *path, char **keys, eitp_error *error) {
    enum { LIMIT = 16 << 20 };
    eitp_json_document *document = NULL;
    int is_file = 0;
    eitp_status status = eitp__model_json_exists(host, path, &is_file, error);
    if (status || !is_file)
        return status;
    status = eitp__model_json_read(host, path, LIMIT, &document, error);
    if (!status)
        status = eitp__keep_members(host, architecture, eitp_json_root(document), eitp__config_preserves, keys, error);
    eitp_json_release(document);
    return status;
}

static eitp_status eitp__keep_own_generation(eitp_model *model, const char *directory, eitp_error *error) {
    eitp_json_document *document;
    eitp_status status = eitp__read_generation_config(&model->host, directory, &document, error);
    if (!status && document)
        status = eitp__keep_members(&model->host, model->config.architecture, eitp_json_root(document),
                                    eitp__generation_keeps, &model->generation, error);
    eitp_json_release(document);
    return status;
}

static eitp_status eitp__keep_own_members(eitp_model *model, const char *directory, eitp_error *error) {
    char *path;
    eitp_status status = eitp__keep_own_generation(model, directory, error);
    if (!status)
        status = eitp__path_in(&model->host, directory, "config.json", &path, error);
    if (status)
        return status;
    status = eitp__config_other_keys(&model->host, model->config.architecture, path, &model->other_keys, error);
    eitp__release_text(&model->host, path);
    return status;
}

EITP__PRIVATE eitp_status eitp__model_keep_members(eitp_model *model, const char *directory, eitp_error *error) {
    static const char *const names[2] = {EITP__DECODER_DIRECTORY, EITP__ENCODER_DIRECTORY};
    eitp_model *const parts[2] = {model, eitp_model_encoder(model)};
    eitp_status status = EITP_OK;
    if (!model->latent)
        return eitp__keep_own_members(model, directory, error);
    for (int i = 0; i < 2 && !status; i++) {
        char *path;
        status = eitp__path_in(&model->host, directory, names[i], &path, error);
        if (!status)
            status = eitp__keep_own_members(parts[i], path, error);
        eitp__release_text(&model->host, path);
    }
    return status;
}

/* ---- Models ---- */

/* Finds the tensor of a piece of a parameter. A tied matrix may have the name of the embedding or of the head. */
static const eitp__safetensors_entry *eitp__find_parameter(const eitp_transformer_config *config,
                                                           const eitp__safetensors *collection,
                                                           const eitp__parameter *parameter, const eitp__piece *piece) {
    const eitp__safetensors_entry *entry =
        eitp__find_weights(config, collection, *piece->name ? piece->name : parameter->name);
    if (!entry && eitp__is_norm(parameter->row->slot))
        entry = eitp__find_gamma_or_beta(config, collection, parameter);
    if (!entry && eitp__is_tied(config) && parameter->row->slot == EITP__TOKEN_EMBEDDING)
        entry = eitp__find_slot(config, collection, EITP__HEAD);
    return entry || parameter->row->with == EITP__ALWAYS ? entry : eitp__find_other_name(config, collection, parameter);
}

/* The state of reading a directory. */
typedef struct eitp__load {
    const eitp_model *model;
    eitp_context *context; /* the context of the variables that are read: the model's, or another one */
    const char *directory;
    const eitp__safetensors *collection;
    const eitp_load_config *config;
    unsigned char *read; /* 1 for each tensor of the collection that was read; NULL: not recorded */
    eitp__buffer random; /* names of parameters that were initialized */
    int has_head;        /* the head was read from the directory */
    int ignores_head;    /* the directory has a head, but fresh_head is set */
    int lacks_head;      /* it has none, although its config.json has one */
} eitp__load;

/* Finds the variable of a parameter, and its pieces. */
static int eitp__parameter_variable(const eitp_context *context, const eitp_transformer_config *config,
                                    const eitp__parameter *parameter, eitp_variable *variable,
                                    eitp__piece pieces[EITP__PIECES]) {
    *variable = eitp_variable_at(context, (size_t)eitp_variable_find(context, parameter->name));
    return eitp__variable_pieces(variable, config, pieces);
}

/* Finds the tensor of a piece; fails if it is missing. */
static eitp_status eitp__require_tensor(const eitp__load *load, const eitp__parameter *parameter,
                                        const eitp__piece *piece, const eitp__safetensors_entry **entry,
                                        eitp_error *error) {
    *entry = eitp__find_parameter(&load->model->config, load->collection, parameter, piece);
    return *entry ? EITP_OK
                  : eitp__fail(error, EITP_ERROR_FORMAT,
                               "the weights in '%s' lack tensor '%s', which config.json requires", load->directory,
                               *piece->name ? piece->name : parameter->name);
}

static void eitp__load_mark(eitp__load *load, const eitp__safetensors_entry *entry) {
    if (entry && load->read)
        load->read[entry - eitp__safetensors_at(load->collection, 0)] = 1;
}

/* Reads the tensors of a parameter. */
static eitp_status eitp__read_parameter(eitp__load *load, const eitp__parameter *parameter, eitp_error *error) {
    const eitp_transformer_config *config = &load->model->config;
    eitp_variable variable;
    eitp__piece pieces[EITP__PIECES];
    int count = eitp__parameter_variable(load->context, config, parameter, &variable, pieces);
    eitp_status status = EITP_OK;
    for (int i = 0; i < count && !status; i++) {
        const eitp__safetensors_entry *entry = NULL;
        if (pieces[i].is_copy) {
            eitp__load_mark(load, eitp__find_weights(config, load->collection, pieces[i].name));
            continue;
        }
        status = eitp__require_tensor(load, parameter, &pieces[i], &entry, error);
        eitp__load_mark(load, entry);
        if (!status)
            status = eitp__variable_read_piece(load->context, &variable, &pieces[i], load->collection, entry, 1, NULL,
                                               error);
        if (!status)
            eitp__variable_note_dtype(load->context, variable.name, &pieces[i], entry->dtype);
    }
    return status;
}

/* Returns the number of optional parameters of a place. *present is the number of those with tensors. */
static int64_t eitp__count_optional(const eitp__load *load, eitp__parameter_scope place, int64_t *present) {
    const eitp_model *model = load->model;
    int64_t count = 0;
    *present = 0;
    for (int64_t i = 0; i < eitp__parameter_count(&model->config); i++) {
        const eitp__parameter parameter = eitp__parameter_at(&model->config, i);
        eitp_variable variable;
        eitp__piece pieces[EITP__PIECES];
        if (parameter.row->place != place || parameter.row->with == EITP__ALWAYS)
            continue;
        eitp__parameter_variable(model->context, &model->config, &parameter, &variable, pieces);
        count++;
        *present += eitp__find_parameter(&model->config, load->collection, &parameter, &pieces[0]) != NULL;
    }
    return count;
}

static int eitp__has_fresh_head(const eitp__load *load) {
    return load->config->fresh_head || load->config->head_is_replaced;
}

/* True if the optional parameters of a place are initialized instead of read. */
static int eitp__is_fresh(const eitp__load *load, eitp__parameter_scope place, int64_t *present) {
    return eitp__count_optional(load, place, present) &&
           (!*present || (eitp__has_fresh_head(load) && place == EITP__IN_HEAD));
}

/* Reads or initializes a parameter. */
static eitp_status eitp__load_parameter(eitp__load *load, const eitp__parameter *parameter, int is_fresh,
                                        eitp_error *error) {
    return is_fresh && parameter->row->with != EITP__ALWAYS
               ? eitp__parameter_fill(load->context, &load->model->config, parameter, load->config->seed, error)
               : eitp__read_parameter(load, parameter, error);
}

/* Records the names of the tensors of an initialized parameter, for the log. */
static void eitp__note_random(eitp__load *load, const eitp__parameter *parameter) {
    eitp_variable variable;
    eitp__piece pieces[EITP__PIECES];
    const int count = eitp__parameter_variable(load->context, &load->model->config, parameter, &variable, pieces);
    for (int i = 0; i < count; i++)
        eitp__buffer_format(&load->random, "%s%s", load->random.size ? ", " : "",
                            *pieces[i].name ? pieces[i].name : parameter->name);
}

/* Reads the parameters of a place. Initializes the optional ones if the weights have none of them. */
static eitp_status eitp__read_place(eitp__load *load, eitp__parameter_scope place, eitp_error *error) {
    const eitp_model *model = load->model;
    int64_t present;
    const int is_fresh = eitp__is_fresh(load, place, &present);
    const int is_told = is_fresh && !(place == EITP__IN_HEAD && load->config->head_is_replaced);
    eitp_status status = EITP_OK;
    if (place == EITP__IN_HEAD) {
        load->has_head = present && !is_fresh;
        load->ignores_head = present && is_fresh;
    }
    for (int64_t i = 0; i < eitp__parameter_count(&model->config) && !status; i++) {
        const eitp__parameter parameter = eitp__parameter_at(&model->config, i);
        if (parameter.row->place != place)
            continue;
        if (is_told && parameter.row->with != EITP__ALWAYS)
            eitp__note_random(load, &parameter);
        status = eitp__load_parameter(load, &parameter, is_fresh, error);
    }
    return status;
}

/* True if the config.json of the directory has a head of the model's kind. */
static int eitp__names_head(const eitp__load *load) {
    const eitp_host *host = &load->model->host;
    eitp_transformer_config own = EITP__ZERO;
    char *path = NULL;
    const eitp_status status = eitp__path_in(host, load->directory, "config.json", &path, NULL);
    const int is_same =
        !status && !eitp_transformer_config_read(host, path, &own, NULL) && own.head == load->model->config.head;
    eitp__release_text(host, path);
    return is_same;
}

/* Logs initialized parameters. A new head is the usual start of fine-tuning; a head that was or should be in the
   directory is worth a warning. */
static void eitp__log_random(eitp__load *load) {
    const eitp_host *host = &load->model->host;
    const int size = (int)load->random.size;
    const char *names = load->random.data;
    load->lacks_head = size && !load->ignores_head && eitp__names_head(load);
    if (!size || load->random.failed)
        return;
    if (load->ignores_head)
        eitp__log_line(host, EITP_LOG_WARNING,
                       "'%s': the head is not used; these parameters are random until they are trained: %.*s",
                       load->directory, size, names);
    else if (load->lacks_head)
        eitp__log_line(host, EITP_LOG_WARNING,
                       "'%s': the weights lack parameters of the head in config.json, which are random: %.*s",
                       load->directory, size, names);
    else
        eitp__log_line(host, EITP_LOG_INFO,
                       "'%s' lacks these parameters, which are random until they are trained: %.*s", load->directory,
                       size, names);
}

/* Fails if the weights have a classifier with another number of labels. */
static eitp_status eitp__check_labels(const eitp__load *load, eitp_error *error) {
    const eitp_transformer_config *config = &load->model->config;
    const eitp__safetensors_entry *entry = eitp_head_has_labels(config->head) && !eitp__has_fresh_head(load)
                                               ? eitp__find_slot(config, load->collection, EITP__CLASSIFIER)
                                               : NULL;
    if (!entry || entry->rank != 2 || entry->shape[0] == config->labels)
        return EITP_OK;
    return eitp__fail(error, EITP_ERROR_ARGUMENT,
                      "the classifier in '%s' has %lld labels, expected %lld; train a new head (fresh_head) or use its "
                      "labels",
                      load->directory, (long long)entry->shape[0], (long long)config->labels);
}

/* Logs tensors that no parameter has read; of many, only the first ones. */
static void eitp__report_ignored(const eitp__load *load) {
    enum { NAMED = 3 };
    char names[NAMED * 90] = "", more[40] = "";
    size_t count = 0, used = 0;
    for (size_t i = 0; i < eitp__safetensors_count(load->collection); i++) {
        if (load->read[i] || count++ >= NAMED)
            continue;
        used += (size_t)snprintf(names + used, sizeof names - used, "%s'%.80s'", used ? ", " : "",
                                 eitp__safetensors_at(load->collection, i)->name);
    }
    if (count > NAMED)
        snprintf(more, sizeof more, " and %zu more", count - NAMED);
    if (count)
        eitp__log_line(&load->model->host, EITP_LOG_INFO, "ignored %zu tensor%s in '%s' not used by the model: %s%s",
                       count, count == 1 ? "" : "s", load->directory, names, more);
}

static eitp_status eitp__read_parameters(eitp__load *load, eitp_error *error) {
    const eitp_model *model = load->model;
    const eitp_transformer_config *config = &model->config;
    int has_own_head = 0;
    eitp_status status = eitp__is_tied(config)
                             ? eitp__has_own_head(&model->host, config, load->collection, &has_own_head, error)
                             : EITP_OK;
    if (has_own_head)
        return eitp__fail(error, EITP_ERROR_ARGUMENT,
                          "'%s': %s differs from the token embedding, but the model's head is tied to it; create the "
                          "model with the configuration from eitp_model_config_read",
                          load->directory, eitp__row_find(config, EITP__HEAD, EITP__WEIGHT)->name);
    if (!status)
        status = eitp__check_labels(load, error);
    for (int place = EITP__BEFORE_BLOCKS; place < EITP__PLACES && !status; place++)
        status = eitp__read_place(load, (eitp__parameter_scope)place, error);
    if (!status)
        eitp__log_random(load);
    if (!status)
        eitp__report_ignored(load);
    return status;
}

/* Allocates the flags of tensors that were read, and calls eitp__read_parameters. */
static eitp_status eitp__read_collection(eitp__load *load, eitp_error *error) {
    const eitp_host *host = &load->model->host;
    const size_t count = eitp__safetensors_count(load->collection);
    eitp_status status;
    load->read = (unsigned char *)eitp__allocate(host, count);
    status = load->read || !count ? eitp__read_parameters(load, error)
                                  : eitp__fail_memory(error, count, "the list of tensors that were read");
    eitp__release(host, load->read, count);
    return status;
}

EITP__PRIVATE eitp_status eitp__model_read_labels(eitp_model *model, const char *directory, eitp_error *error) {
    eitp__labels *labels = NULL;
    char *path;
    int is_file = 0;
    eitp_status status;
    if (!model || !directory)
        return eitp__fail_null(error, "eitp__model_read_labels", "model and directory");
    status = eitp__path_in(&model->host, directory, "config.json", &path, error);
    if (!status)
        status = eitp__model_json_exists(&model->host, path, &is_file, error);
    if (!status && is_file)
        status = eitp__labels_read_file(&model->host, path, &labels, error);
    eitp__release_text(&model->host, path);
    if (labels && labels->count == model->config.labels) {
        eitp__labels_release(model->labels);
        model->labels = labels;
    } else {
        eitp__labels_release(labels);
    }
    return status;
}

eitp_load_config eitp_load_config_default(void) {
    eitp_load_config config = EITP__ZERO;
    return config;
}

eitp_status eitp_model_load_weights(eitp_model *model, const char *directory, eitp_error *error) {
    const eitp_load_config config = eitp_load_config_default();
    return eitp_model_load_weights_with(model, directory, &config, error);
}

/* Loads a model without its encoder. */
static eitp_status eitp__load_own_weights(eitp_model *model, const char *directory, const eitp_load_config *config,
                                          eitp_error *error) {
    eitp__safetensors *collection = NULL;
    eitp__load load = EITP__ZERO;
    eitp_status status;
    char *source = eitp__copy_text(&model->host, directory);
    status = source ? eitp__weights_open_exact(&model->host, directory, &collection, error)
                    : eitp__fail_memory(error, strlen(directory) + 1, "the name of a directory");
    if (!status && !collection)
        status = eitp__fail(error, EITP_ERROR_ARGUMENT,
                            "'%s' has no weights: no model.safetensors, no pytorch_model.bin, and no index "
                            "(.index.json) of either",
                            directory);
    load.model = model;
    load.context = model->context;
    load.directory = directory;
    load.collection = collection;
    load.config = config;
    eitp__buffer_init(&load.random, &model->host);
    if (!status)
        status = eitp__read_collection(&load, error);
    eitp__buffer_release(&load.random);
    if (!status)
        status = eitp__keep_own_members(model, directory, error);
    if (!status) {
        model->has_loaded_head = load.has_head;
        model->lacks_head = load.lacks_head;
    }
    if (!status && model->labels && model->has_loaded_head)
        status = eitp__model_read_labels(model, directory, error);
    eitp__safetensors_close(collection);
    eitp__release_text(&model->host, status ? source : model->source);
    if (!status)
        model->source = source;
    return status;
}

/* Loads the encoder and the projections of the latent variable. */
static eitp_status eitp__load_latent(eitp_model *model, const char *directory, const eitp_load_config *config,
                                     eitp_error *error) {
    eitp__model_file files[EITP__MODEL_FILES];
    char *encoder = NULL, *path = NULL, *lower = NULL;
    eitp_status status = eitp__path_in(&model->host, directory, EITP__ENCODER_DIRECTORY, &encoder, error);
    eitp__model_files(model, files);
    if (!status)
        status = eitp__load_own_weights(model->latent->encoder, encoder, config, error);
    if (!status)
        status = eitp__path_in(&model->host, directory, files[0].name, &path, error);
    if (!status)
        status = eitp__weights_find_lower(&model->host, directory, files[0].name, &lower, error);
    files[0].selection.lower = lower;
    if (!status)
        status = eitp__variables_read_selected(model->context, path, &files[0].selection, EITP__READ_LOAD, NULL, error);
    eitp__release_text(&model->host, encoder);
    eitp__release_text(&model->host, path);
    eitp__release_text(&model->host, lower);
    return status;
}

eitp_status eitp_model_load_weights_with(eitp_model *model, const char *directory, const eitp_load_config *config,
                                         eitp_error *error) {
    char *decoder = NULL;
    eitp_status status;
    if (!model || !directory || !config)
        return eitp__fail_null(error, "eitp_model_load_weights", "model, directory and config");
    status = eitp__latent_find_part(&model->host, directory, EITP__DECODER_DIRECTORY, &decoder, error);
    if (!status)
        status = eitp__load_own_weights(model, decoder ? decoder : directory, config, error);
    if (!status && decoder && model->latent)
        status = eitp__load_latent(model, directory, config, error);
    eitp__release_text(&model->host, decoder);
    return status;
}

eitp_status eitp_model_load(eitp_context *context, const char *directory, eitp_model **model, eitp_error *error) {
    if (!context || !directory || !model)
        return eitp__fail_null(error, "eitp_model_load", "context, directory and model");
    const eitp_host host = eitp_context_host(context);
    eitp_transformer_config config;
    eitp_latent_config latent = EITP__ZERO;
    eitp_model *created = NULL;
    eitp_status status = eitp_model_config_read(&host, directory, &config, error);
    *model = NULL;
    if (!status)
        status = eitp__latent_config_read(&host, directory, &latent, error);
    if (!status)
        status = eitp_model_create(context, &config, &created, error);
    if (!status && latent.size)
        status = eitp_model_add_encoder(created, &latent, error);
    if (!status)
        status = eitp_model_load_weights(created, directory, error);
    if (status) {
        eitp_model_destroy(created);
        return status;
    }
    *model = created;
    return EITP_OK;
}

/* ---- The values in the files, block by block ---- */

/* A parameter in the files that a model was loaded from. */
typedef struct eitp__source_parameter {
    eitp__load *load;
    const eitp__parameter *parameter;
    eitp_variable variable; /* the model's: only its shape is used */
    eitp__piece pieces[EITP__PIECES];
    const eitp__safetensors_entry *entries[EITP__PIECES];
    int count;
} eitp__source_parameter;

static eitp_status eitp__source_find(eitp__source_parameter *source, eitp__load *load, const eitp__parameter *parameter,
                                     eitp_error *error) {
    const eitp_model *model = load->model;
    eitp_status status = EITP_OK;
    source->load = load;
    source->parameter = parameter;
    source->count =
        eitp__parameter_variable(model->context, &model->config, parameter, &source->variable, source->pieces);
    for (int i = 0; i < source->count && !status; i++) {
        if (source->pieces[i].is_copy) {
            source->count = i;
            break;
        }
        status = eitp__require_tensor(load, parameter, &source->pieces[i], &source->entries[i], error);
        if (!status)
            status = eitp__variable_check_entry(&source->variable, &source->pieces[i], load->collection,
                                                source->entries[i], error);
    }
    return status;
}

/* Returns the block from element `first` on: as many whole rows as fit, or as much as fits of one row. */
static eitp__block eitp__source_block(const eitp_variable *variable, int64_t first, int64_t capacity) {
    const int64_t columns = variable->shape[variable->rank - 1];
    eitp__block block;
    block.row = first / columns;
    block.column = first % columns;
    block.rows = 1;
    block.columns = columns - block.column;
    if (!block.column && columns <= capacity) {
        const int64_t left = (variable->rank > 1 ? variable->shape[0] : 1) - block.row;
        block.rows = capacity / columns < left ? capacity / columns : left;
    }
    block.columns = block.columns < capacity ? block.columns : capacity;
    return block;
}

/* Visits the values of a parameter that is in the files. */
static eitp_status eitp__visit_read(const eitp__source_parameter *source, float *values, int64_t capacity,
                                    eitp__values_visit visit, void *user, eitp_error *error) {
    const int64_t elements = eitp__parameter_elements(source->parameter);
    eitp_status status = EITP_OK;
    for (int64_t first = 0; first < elements && !status;) {
        const eitp__block block = eitp__source_block(&source->variable, first, capacity);
        const int64_t count = block.rows * block.columns;
        for (int i = 0; i < source->count && !status; i++)
            status = eitp__piece_read_block(&source->variable, &source->pieces[i], source->load->collection,
                                            source->entries[i], &block, values, error);
        if (!status)
            visit(user, source->parameter, values, (size_t)count);
        first += count;
    }
    return status;
}

/* Visits the values of a parameter that the files lack: they are initialized in a separate context. */
static eitp_status eitp__visit_fresh(eitp__load *load, const eitp__parameter *parameter, float *values,
                                     int64_t capacity, eitp__values_visit visit, void *user, eitp_error *error) {
    const int64_t elements = eitp__parameter_elements(parameter);
    eitp_context_config config = eitp_context_config_default();
    eitp_status status;
    config.host = load->model->host;
    config.device = "cpu";
    config.threads = 1;
    status = eitp_context_create(&config, &load->context, error);
    if (!status)
        status = eitp__parameter_declare(load->context, parameter, error);
    if (!status)
        status = eitp__load_parameter(load, parameter, 1, error);
    for (int64_t first = 0; first < elements && !status; first += capacity) {
        const int64_t count = elements - first < capacity ? elements - first : capacity;
        status = eitp_variable_read_f32(load->context, parameter->name, first, values, count, error);
        if (!status)
            visit(user, parameter, values, (size_t)count);
    }
    eitp_context_destroy(load->context);
    load->context = NULL;
    return status;
}

static eitp_status eitp__visit_parameter(eitp__load *load, const eitp__parameter *parameter, float *values,
                                         int64_t capacity, eitp__values_visit visit, void *user, eitp_error *error) {
    int64_t present;
    eitp__source_parameter source;
    eitp_status status;
    if (eitp__is_fresh(load, parameter->row->place, &present) && parameter->row->with != EITP__ALWAYS)
        return eitp__visit_fresh(load, parameter, values, capacity, visit, user, error);
    status = eitp__source_find(&source, load, parameter, error);
    return status ? status : eitp__visit_read(&source, values, capacity, visit, user, error);
}

EITP__PRIVATE eitp_status eitp__model_visit_source(const eitp_model *model, eitp__parameter_choice chooses,
                                                   float *values, int64_t capacity, eitp__values_visit visit,
                                                   void *user, eitp_error *error) {
    const eitp_load_config as_stored = eitp_load_config_default();
    eitp__safetensors *collection = NULL;
    eitp__load load = EITP__ZERO;
    eitp_status status = eitp__weights_open_exact(&model->host, model->source, &collection, error);
    load.model = model;
    load.directory = model->source;
    load.config = &as_stored;
    if (!status && !collection)
        status = eitp__fail(error, EITP_ERROR_ARGUMENT, "'%s' no longer has weights", model->source);
    load.collection = collection;
    for (int64_t i = 0; i < eitp__parameter_count(&model->config) && !status; i++) {
        const eitp__parameter parameter = eitp__parameter_at(&model->config, i);
        if (chooses(user, model, &parameter))
            status = eitp__visit_parameter(&load, &parameter, values, capacity, visit, user, error);
    }
    eitp__safetensors_close(collection);
    return status;
}
