#include "train/trainer_state.h"

#include "base/files.h"
#include "io/lora_files.h"

/* A member of eitp__state that is not a setting. It is written before the setting named `before`; NULL: last. */
typedef struct eitp__state_field {
    eitp_setting value;
    const char *before;
} eitp__state_field;

#define EITP__STATE_FIELD(name, kind, member, min, max, difference, before)                                            \
    { EITP__SETTING(eitp__state, , member, name, kind, 0, min, max, 0, difference, NULL, ""), before }

/* eitp__compare_data compares the data, hence ACCEPTED here. */
static const eitp__state_field eitp__state_fields[] = {
    EITP__STATE_FIELD("step", INTEGER, info.step, 0, EITP__UNBOUNDED, ACCEPTED, "batch_size"),
    EITP__STATE_FIELD("block_size", INTEGER, info.rows, 1, 1 << 24, REFUSED, "grad_accum"),
    EITP__STATE_FIELD("data_hash_low", INTEGER, data_hash[0], 0, UINT32_MAX, ACCEPTED, "lr_schedule"),
    EITP__STATE_FIELD("data_hash_high", INTEGER, data_hash[1], 0, UINT32_MAX, ACCEPTED, "lr_schedule"),
    EITP__STATE_FIELD("data_first", INTEGER, data_first, 0, EITP__UNBOUNDED, ACCEPTED, "lr_schedule"),
    EITP__STATE_FIELD("data_count", INTEGER, data_count, 0, EITP__UNBOUNDED, ACCEPTED, "lr_schedule"),
    EITP__STATE_FIELD("scale_steps", INTEGER, scale_steps, 0, EITP__UNBOUNDED, ACCEPTED, "max_grad_norm"),
    EITP__STATE_FIELD("skipped_steps", INTEGER, skipped, 0, EITP__UNBOUNDED, ACCEPTED, "max_grad_norm"),
    EITP__STATE_FIELD("model_checksum", INTEGER, model_checksum, 0, UINT32_MAX, ACCEPTED, "max_grad_norm"),
    EITP__STATE_FIELD("optimizer_checksum", INTEGER, optimizer_checksum, 0, UINT32_MAX, ACCEPTED, "max_grad_norm"),
    EITP__STATE_FIELD("loss_scale", NUMBER, loss_scale, -EITP__UNBOUNDED, EITP__UNBOUNDED, ACCEPTED, NULL),
};

#undef EITP__STATE_FIELD

EITP__PRIVATE const eitp_setting *eitp__state_next(eitp__state_walk *walk) {
    size_t count;
    const eitp_setting *settings = eitp__trainer_setting_table(&count);
    const eitp__state_field *field = &eitp__state_fields[walk->field];
    walk->is_field =
        walk->field < EITP__COUNT(eitp__state_fields) &&
        (walk->setting == count || (field->before && !strcmp(field->before, settings[walk->setting].name)));
    if (walk->is_field)
        return &eitp__state_fields[walk->field++].value;
    return walk->setting < count ? &settings[walk->setting++] : NULL;
}

EITP__PRIVATE const void *eitp__state_values(const eitp__state_walk *walk, const eitp__state *state) {
    return walk->is_field ? (const void *)state : (const void *)&state->info.config;
}

/* Gets the identity of the data as integers that JSON can represent. */
static eitp_status eitp__identify_data(const eitp_task *task, eitp_task_identity *identity, eitp_error *error) {
    eitp_status status = task->identify ? task->identify(task->user, identity, error) : EITP_OK;
    if (!status && (identity->first > INT64_MAX || identity->count > INT64_MAX))
        status =
            eitp__fail(error, EITP_ERROR_ARGUMENT, "identify: first and count must be at most %lld (got %llu and %llu)",
                       (long long)INT64_MAX, (unsigned long long)identity->first, (unsigned long long)identity->count);
    return status;
}

EITP__PRIVATE eitp_status eitp__state_of(const eitp_trainer *trainer, eitp__state *state, eitp_error *error) {
    const eitp_task *task = &trainer->plans.task;
    eitp_task_identity identity = EITP__ZERO;
    eitp_status status = eitp__identify_data(task, &identity, error);
    memset(state, 0, sizeof *state);
    state->version = EITP__STATE_VERSION;
    state->info.step = trainer->step;
    state->info.samples = (int64_t)eitp__trainer_samples(trainer, trainer->step);
    state->info.config = trainer->plans.config;
    state->info.rows = task->rows;
    snprintf(state->info.numerics, sizeof state->info.numerics, "%s", eitp_context_numerics(task->context));
    snprintf(state->info.precision, sizeof state->info.precision, "%s", eitp_context_precision_name(task->context));
    state->info.lora = eitp_model_lora_config(task->model);
    state->info.initial_shape = trainer->initial_shape;
    state->loss_scale = trainer->loss_scale;
    state->scale_steps = trainer->scale_steps;
    state->skipped = trainer->skipped;
    state->spikes = trainer->spikes;
    state->plateau = trainer->plateau;
    state->noise_scale = trainer->noise_scale;
    state->data_hash[0] = (int64_t)(identity.hash & UINT32_MAX);
    state->data_hash[1] = (int64_t)(identity.hash >> 32);
    state->data_first = (int64_t)identity.first;
    state->data_count = (int64_t)identity.count;
    return status;
}

/* ---- Writing ---- */

/* Writes the member "lora" of a model with adapters. */
static void eitp__write_lora_state(const eitp_architecture *architecture, const eitp__state *state,
                                   eitp__buffer *text) {
    const eitp_lora_config *lora = &state->info.lora;
    char *targets; /* module names, as in adapter_config.json */
    char saved[200];
    if (!lora->rank)
        return;
    targets = eitp__lora_targets_text(text->host, architecture, lora);
    text->failed |= !targets;
    eitp__buffer_format(text, "  \"lora\": {\"rank\": %lld, \"alpha\": ", (long long)lora->rank);
    eitp__json_write_number(text, lora->alpha);
    eitp__buffer_add_text(text, ", \"dropout\": ");
    eitp__json_write_number(text, lora->dropout);
    eitp__buffer_format(text, ", \"model_type\": \"%s\"", eitp_architecture_name(architecture));
    eitp__buffer_format(text, ", \"targets\": \"%s\", \"rslora\": %s, \"base_checksum\": %lld", targets ? targets : "",
                        lora->rslora ? "true" : "false", (long long)state->base_checksum);
    eitp__release_text(text->host, targets);
    if (eitp_lora_saved_format(architecture, lora->saved, saved, sizeof saved))
        eitp__buffer_format(text, ", \"modules_to_save\": \"%s\"", saved);
    if (state->extra_parameters_checksum >= 0)
        eitp__buffer_format(text, ", \"extra_parameters_checksum\": %lld", (long long)state->extra_parameters_checksum);
    eitp__buffer_add_text(text, "},\n");
}

/* Writes the member "extra_parameters_checksum" of a whole model. */
static void eitp__write_others_state(const eitp__state *state, eitp__buffer *text) {
    if (!state->info.lora.rank && state->extra_parameters_checksum >= 0)
        eitp__buffer_format(text, "  \"extra_parameters_checksum\": %lld,\n",
                            (long long)state->extra_parameters_checksum);
}

/* Writes the member "samples", the position in the data. */
static void eitp__write_samples(const eitp__state *state, eitp__buffer *text) {
    eitp__buffer_format(text, "  \"samples\": %lld,\n", (long long)state->info.samples);
}

/* Writes the member "shrunk_from", the initial shape, if the run was shrunk. */
static void eitp__write_initial_shape(const eitp__state *state, eitp__buffer *text) {
    const eitp_step_shape *initial = &state->info.initial_shape, shape = eitp__step_shape_of(&state->info.config);
    if (!eitp__step_shapes_equal(initial, &shape))
        eitp__buffer_format(
            text,
            "  \"shrunk_from\": {\"batch_size\": %lld, \"grad_accum\": %lld, \"micro_batches_per_pass\": %lld},\n",
            (long long)initial->batch_size, (long long)initial->grad_accum, (long long)initial->micro_batches_per_pass);
}

/* Writes the members that the tables describe, and the end. */
static void eitp__write_state_values(const eitp__state *state, eitp__buffer *text) {
    const eitp_trainer_config defaults = eitp_trainer_config_default();
    eitp__state_walk walk = EITP__ZERO;
    const eitp_setting *setting;
    const char *separator = "";
    while ((setting = eitp__state_next(&walk)) != NULL) {
        const void *values = eitp__state_values(&walk, state);
        if (setting->flags & EITP_SETTING_OPTIONAL && eitp__setting_equal(setting, values, &defaults))
            continue;
        eitp__buffer_format(text, "%s  \"%s\": ", separator, setting->name);
        eitp__setting_write(setting, values, text);
        separator = ",\n";
    }
    eitp__buffer_add_text(text, "\n}\n");
}

EITP__PRIVATE eitp_status eitp__state_write(const eitp_host *host, const eitp_architecture *architecture,
                                            const char *path, const eitp__state *state, eitp_error *error) {
    eitp__buffer text;
    eitp__buffer_init(&text, host);
    eitp__buffer_format(&text, "{\n  \"format\": \"eitp checkpoint\",\n  \"version\": %lld,\n",
                        (long long)state->version);
    eitp__buffer_format(&text, "  \"precision\": \"%s\",\n  \"optimizer\": \"%s\",\n  \"numerics\": \"%s\",\n",
                        state->info.precision, eitp_optimizer_get(state->info.config.optimizer_config.optimizer)->name,
                        state->info.numerics);
    eitp__write_lora_state(architecture, state, &text);
    eitp__write_others_state(state, &text);
    eitp__write_samples(state, &text);
    eitp__write_initial_shape(state, &text);
    eitp__spikes_write(&state->spikes, &text);
    eitp__noise_scale_write(&state->noise_scale, &text);
    if (state->info.config.schedule.kind == EITP_SCHEDULE_PLATEAU)
        eitp__plateau_write(&state->plateau, &text);
    eitp__write_state_values(state, &text);
    return eitp__store_text(host, NULL, path, &text, 0, error);
}

/* ---- Reading ---- */

/* Returns the optimizer with this name, or EITP_OPTIMIZER_COUNT. */
static eitp_optimizer eitp__optimizer_named(const char *name) {
    int i = 0;
    while (i < EITP_OPTIMIZER_COUNT && strcmp(name, eitp_optimizer_get((eitp_optimizer)i)->name))
        i++;
    return (eitp_optimizer)i;
}

static eitp_status eitp__parse_lora_state(const eitp_json *root, eitp__state *state, eitp_error *error) {
    const eitp_json *object = eitp_json_member(root, "lora");
    eitp_lora_config *lora = &state->info.lora;
    const char *targets = "", *saved = "", *type = eitp_architecture_name(NULL);
    eitp_status status;
    memset(lora, 0, sizeof *lora);
    state->info.architecture = NULL;
    state->extra_parameters_checksum = -1;
    if (!object)
        return eitp__json_get_integer(root, "extra_parameters_checksum", 0, UINT32_MAX,
                                      &state->extra_parameters_checksum, error);
    status = eitp__json_get_integer(object, "rank", 1, INT32_MAX, &lora->rank, error);
    if (!status)
        status = eitp__json_get_number(object, "alpha", 0, HUGE_VAL, &lora->alpha, error);
    if (!status)
        status = eitp__json_get_number(object, "dropout", 0, 1, &lora->dropout, error);
    if (!status)
        status = eitp__json_get_boolean(object, "rslora", &lora->rslora, error);
    if (!status)
        status = eitp__json_get_integer(object, "base_checksum", 0, UINT32_MAX, &state->base_checksum, error);
    if (!status)
        status = eitp__json_get_integer(object, "extra_parameters_checksum", 0, UINT32_MAX,
                                        &state->extra_parameters_checksum, error);
    if (!status)
        status = eitp__json_get_text(object, "targets", &targets, error);
    if (!status)
        status = eitp__json_get_text(object, "modules_to_save", &saved, error);
    if (!status)
        status = eitp__json_get_text(object, "model_type", &type, error);
    state->info.architecture = eitp_architecture_find(type);
    if (!status && !state->info.architecture)
        status = eitp__fail(error, EITP_ERROR_FORMAT, "'lora' has unknown model_type '%.60s'", type);
    if (!status && eitp_lora_targets_parse(state->info.architecture, targets, lora, NULL))
        status = eitp__fail(error, EITP_ERROR_FORMAT, "'lora' has unknown targets '%.60s'", targets);
    if (!status && eitp_lora_saved_parse(state->info.architecture, saved, &lora->saved, NULL))
        status = eitp__fail(error, EITP_ERROR_FORMAT, "'lora' has unknown modules_to_save '%.60s'", saved);
    return status ? status : eitp__lora_config_check(lora, error);
}

/* Checkpoints of earlier versions lack the member: their steps were full, except the last step of the run. */
static eitp_status eitp__parse_samples(const eitp_json *root, eitp__state *state, eitp_error *error) {
    const eitp__data_position start = EITP__ZERO;
    state->info.samples = (int64_t)eitp__samples_after(&state->info.config, &start, state->info.step);
    return eitp__json_get_integer(root, "samples", 0, INT64_MAX, &state->info.samples, error);
}

static eitp_status eitp__parse_initial_shape(const eitp_json *root, eitp__state *state, eitp_error *error) {
    const eitp_json *object = eitp_json_member(root, "shrunk_from");
    eitp_step_shape *initial = &state->info.initial_shape;
    const eitp_trainer_config *config = &state->info.config;
    const char *passes;
    eitp_status status;
    *initial = eitp__step_shape_of(config);
    if (!object)
        return EITP_OK;
    passes = eitp__setting_name_in("micro_batches_per_pass", object);
    status = eitp__json_get_integer(object, "batch_size", 1, 1 << 20, &initial->batch_size, error);
    if (!status)
        status = eitp__json_get_integer(object, "grad_accum", 1, 1 << 20, &initial->grad_accum, error);
    if (!status)
        status = eitp__json_get_integer(object, passes, 1, 1 << 20, &initial->micro_batches_per_pass, error);
    if (!status && initial->batch_size * initial->grad_accum != config->batch_size * config->grad_accum)
        status =
            eitp__fail(error, EITP_ERROR_FORMAT, "'shrunk_from' has %lld samples per step, but the settings have %lld",
                       (long long)(initial->batch_size * initial->grad_accum),
                       (long long)(config->batch_size * config->grad_accum));
    return status;
}

/* Reads format, version, kernels, precision and optimizer. */
static eitp_status eitp__parse_head(const eitp_json *root, eitp__state *state, eitp_error *error) {
    const char *format = "", *numerics = "", *precision = "", *optimizer = "";
    eitp_status status = eitp__json_get_text(root, "format", &format, error);
    if (!status)
        status = eitp__json_get_integer(root, "version", 0, INT32_MAX, &state->version, error);
    if (!status)
        status = eitp__json_get_text(root, "numerics", &numerics, error);
    if (!status)
        status = eitp__json_get_text(root, "precision", &precision, error);
    if (!status)
        status = eitp__json_get_text(root, "optimizer", &optimizer, error);
    if (!status && strcmp(format, "eitp checkpoint"))
        status = eitp__fail(error, EITP_ERROR_FORMAT, "'format' must be 'eitp checkpoint' (got '%s')", format);
    state->info.config.optimizer_config.optimizer = eitp__optimizer_named(optimizer);
    if (!status && (state->version < EITP__OLDEST_STATE_VERSION || state->version > EITP__STATE_VERSION ||
                    strlen(precision) >= sizeof state->info.precision ||
                    state->info.config.optimizer_config.optimizer == EITP_OPTIMIZER_COUNT))
        status = eitp__fail(
            error, EITP_ERROR_UNSUPPORTED,
            "unsupported version %lld (supported: %d to %d), precision '%s' or optimizer '%s'; start from "
            "its weights",
            (long long)state->version, EITP__OLDEST_STATE_VERSION, EITP__STATE_VERSION, precision, optimizer);
    snprintf(state->info.numerics, sizeof state->info.numerics, "%s", numerics);
    snprintf(state->info.precision, sizeof state->info.precision, "%s", precision);
    return status;
}

/* Reads the members that the tables describe. */
static eitp_status eitp__parse_state_values(const eitp_json *root, eitp__state *state, eitp_error *error) {
    eitp__state_walk walk = EITP__ZERO;
    const eitp_setting *setting;
    eitp_status status = EITP_OK;
    while (!status && (setting = eitp__state_next(&walk)) != NULL)
        status = eitp__setting_read(setting, root, walk.is_field ? (void *)state : (void *)&state->info.config, error);
    /* 0 makes the trainer choose; a saved trainer has chosen. */
    if (!status && state->info.config.micro_batches_per_pass < 1)
        status = eitp__fail(error, EITP_ERROR_FORMAT, "'micro_batches_per_pass' must be at least 1 (got 0)");
    return status;
}

static eitp_status eitp__parse_state(const eitp_json *root, eitp__state *state, eitp_error *error) {
    eitp_status status;
    state->info.config = eitp_trainer_config_default(); /* for members that the file lacks */
    status = eitp__parse_head(root, state, error);
    if (!status)
        status = eitp__parse_state_values(root, state, error);
    if (!status)
        status = eitp__parse_samples(root, state, error);
    if (!status)
        status = eitp__parse_lora_state(root, state, error);
    if (!status)
        status = eitp__spikes_read(&state->spikes, root, error);
    if (!status)
        status = eitp__plateau_read(&state->plateau, root, error);
    if (!status)
        status = eitp__noise_scale_read(&state->noise_scale, root, error);
    return status ? status : eitp__parse_initial_shape(root, state, error);
}

EITP__PRIVATE eitp_status eitp__state_read(const eitp_host *host, const char *checkpoint, eitp__state *state,
                                           eitp_error *error) {
    const size_t limit = 1 << 20;
    eitp_json_document *document;
    char *path = eitp__join_path(host, checkpoint, EITP__STATE_FILE);
    eitp_status status;
    memset(state, 0, sizeof *state);
    if (!path)
        return eitp__fail_memory(error, strlen(checkpoint), "a path");
    status = eitp__json_read_strict_file(host, path, limit, &document, error);
    if (!status) {
        status = eitp__parse_state(eitp_json_root(document), state, error);
        eitp_json_release(document);
        if (status)
            eitp__fail_prefix(error, status, "%s", path);
    }
    eitp__release_text(host, path);
    return status;
}

eitp_status eitp_checkpoint_read_info(const eitp_host *host, const char *checkpoint, eitp_checkpoint_info *info,
                                      eitp_error *error) {
    if (!host || !checkpoint || !info)
        return eitp__fail_null(error, "eitp_checkpoint_read_info", "host, checkpoint and info");
    eitp__state state;
    eitp_status status = eitp__state_read(host, checkpoint, &state, error);
    if (status)
        return status;
    *info = state.info;
    info->data.hash = (uint64_t)state.data_hash[1] << 32 | (uint64_t)state.data_hash[0];
    info->data.first = (uint64_t)state.data_first;
    info->data.count = (uint64_t)state.data_count;
    return EITP_OK;
}
