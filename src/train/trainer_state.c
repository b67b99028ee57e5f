/*
 * The trainer's checkpoints: the model directory, optimizer.safetensors, the tokenizer, and trainer_state.json with
 * step, data position (it follows from the step), and every choice that the bits of the run depend on. Where the model
 * has adapters, they are there in place of the weights, which do not change.
 */
#include "base/files.h"
#include "base/json.h"
#include "base/log.h"
#include "io/lora_files.h"
#include "io/model_directory.h"
#include "io/variables.h"
#include "train/moments.h"
#include "train/settings.h"
#include "train/trainer.h"

#define EITP__STATE_FILE "trainer_state.json"
#define EITP__OPTIMIZER_FILE "optimizer.safetensors"
#define EITP__WEIGHTS_FILE "model.safetensors"
#define EITP__STATE_VERSION 4
#define EITP__MOMENTUM_STATE_VERSION 4 /* before it factored moments had no first one */
#define EITP__OLDEST_STATE_VERSION 2   /* had no optimizer but adamw */

/* What trainer_state.json says. */
typedef struct eitp__state {
    eitp_checkpoint_info info;
    int64_t version;
    int64_t data_hash[2]; /* content hash of the training file, as two halves: JSON integers have 63 bits */
    int64_t data_first, data_count;
    int64_t scale_steps, skipped;
    double loss_scale;
    int64_t model_checksum, optimizer_checksum;
    int64_t base_checksum;   /* of the weights below adapters */
    int64_t others_checksum; /* of what is trained beside adapters; -1: nothing is */
} eitp__state;

/* A member of eitp__state other than a setting. It is written before the setting `before`, or last if NULL. */
typedef struct eitp__state_field {
    eitp_setting value;
    const char *before;
} eitp__state_field;

#define EITP__STATE_FIELD(name, kind, member, low, high, difference, before)                                           \
    {                                                                                                                  \
        {name, EITP_SETTING_##kind, offsetof(eitp__state, member), low, high, 0, EITP_DIFFERENCE_##difference, NULL,   \
         ""},                                                                                                          \
            before                                                                                                     \
    }

/* The data are compared by eitp__compare_data. */
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

/* Goes through what the file has, in its order: fields of the state and settings. Begins as zeros. */
typedef struct eitp__state_walk {
    size_t field, setting;
    int is_field; /* the last one was */
} eitp__state_walk;

/* The next one; NULL after the last. */
static const eitp_setting *eitp__state_next(eitp__state_walk *walk) {
    size_t count;
    const eitp_setting *settings = eitp_trainer_settings(&count);
    const eitp__state_field *field = &eitp__state_fields[walk->field];
    walk->is_field =
        walk->field < EITP__COUNT(eitp__state_fields) &&
        (walk->setting == count || (field->before && !strcmp(field->before, settings[walk->setting].name)));
    if (walk->is_field)
        return &eitp__state_fields[walk->field++].value;
    return walk->setting < count ? &settings[walk->setting++] : NULL;
}

/* The struct that it is in. */
static const void *eitp__state_values(const eitp__state_walk *walk, const eitp__state *state) {
    return walk->is_field ? (const void *)state : (const void *)&state->info.config;
}

/* The state of a trainer as it is now; checksums are the caller's. */
static eitp_status eitp__current_state(const eitp_trainer *trainer, eitp__state *state, eitp_error *error) {
    const eitp_task *task = &trainer->plans.task;
    eitp_task_identity identity = EITP__ZERO;
    eitp_status status = task->identify ? task->identify(task->user, &identity, error) : EITP_OK;
    memset(state, 0, sizeof *state);
    state->info.step = trainer->step;
    state->info.config = trainer->plans.config;
    state->info.rows = task->rows;
    snprintf(state->info.numerics, sizeof state->info.numerics, "%s", eitp_context_numerics(task->context));
    snprintf(state->info.precision, sizeof state->info.precision, "%s", eitp_context_precision_name(task->context));
    state->info.lora = eitp_model_lora(task->model);
    state->info.initial_shape = trainer->initial_shape;
    state->loss_scale = trainer->loss_scale;
    state->scale_steps = trainer->scale_steps;
    state->skipped = trainer->skipped;
    state->data_hash[0] = (int64_t)(identity.hash & UINT32_MAX);
    state->data_hash[1] = (int64_t)(identity.hash >> 32);
    state->data_first = (int64_t)identity.first;
    state->data_count = (int64_t)identity.count;
    return status;
}

/* ---- Saving ---- */

/* The member of a run with adapters. */
static void eitp__write_lora_state(const eitp_model *model, const eitp__state *state, eitp__buffer *text) {
    const eitp_lora_config *lora = &state->info.lora;
    char targets[200]; /* as in adapter_config.json: names of any architecture */
    if (!lora->rank)
        return;
    eitp_lora_targets_format(eitp_model_config(model).architecture, lora->targets, targets, sizeof targets);
    eitp__buffer_format(text, "  \"lora\": {\"rank\": %lld, \"alpha\": ", (long long)lora->rank);
    eitp__json_write_number(text, lora->alpha);
    eitp__buffer_add_text(text, ", \"dropout\": ");
    eitp__json_write_number(text, lora->dropout);
    eitp__buffer_format(text, ", \"targets\": \"%s\", \"rslora\": %s, \"base_checksum\": %lld", targets,
                        lora->rslora ? "true" : "false", (long long)state->base_checksum);
    if (state->others_checksum >= 0)
        eitp__buffer_format(text, ", \"others_checksum\": %lld", (long long)state->others_checksum);
    eitp__buffer_add_text(text, "},\n");
}

/* The member of a run that was shrunk: the shape that it began with. */
static void eitp__write_initial_shape(const eitp__state *state, eitp__buffer *text) {
    const eitp_step_shape *initial = &state->info.initial_shape, shape = eitp__step_shape_of(&state->info.config);
    if (!eitp__step_shapes_equal(initial, &shape))
        eitp__buffer_format(
            text,
            "  \"shrunk_from\": {\"batch_size\": %lld, \"grad_accum\": %lld, \"micro_batches_per_pass\": %lld},\n",
            (long long)initial->batch_size, (long long)initial->grad_accum, (long long)initial->micro_batches_per_pass);
}

/* The members that tables describe, and the end. */
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

static eitp_status eitp__write_state(const eitp_trainer *trainer, const char *path, const eitp__state *state,
                                     eitp_error *error) {
    eitp__buffer text;
    eitp_status status;
    eitp__buffer_init(&text, &trainer->host);
    eitp__buffer_format(&text, "{\n  \"format\": \"eitp checkpoint\",\n  \"version\": %d,\n", EITP__STATE_VERSION);
    eitp__buffer_format(&text, "  \"precision\": \"%s\",\n  \"optimizer\": \"%s\",\n  \"numerics\": \"%s\",\n",
                        state->info.precision, eitp_optimizer_get(state->info.config.optimizer)->name,
                        state->info.numerics);
    eitp__write_lora_state(trainer->plans.task.model, state, &text);
    eitp__write_initial_shape(state, &text);
    eitp__write_state_values(state, &text);
    status = text.failed ? eitp__fail_memory(error, text.size, "the trainer's state")
                         : eitp__write_file(&trainer->host, path, text.data, text.size, error);
    eitp__buffer_release(&text);
    return status;
}

/* Writes what is trained beside adapters, where there is something. */
static eitp_status eitp__fill_others(eitp_context *context, const char *directory, int64_t *others_checksum,
                                     eitp_error *error) {
    uint32_t checksum = 0;
    eitp_status status;
    *others_checksum = -1;
    if (!eitp__lora_has_others(context))
        return EITP_OK;
    status = eitp__lora_save_others(context, directory, &checksum, error);
    *others_checksum = checksum;
    return status;
}

/* Writes the adapters and the configuration of the model that they are of. */
static eitp_status eitp__fill_adapters(eitp_trainer *trainer, const char *directory, uint32_t *checksum,
                                       eitp__state *state, eitp_error *error) {
    const eitp_transformer_config config = eitp_model_config(trainer->plans.task.model);
    char *path = eitp__join_path(&trainer->host, directory, "config.json");
    uint32_t base = 0;
    eitp_status status = path ? EITP_OK : eitp__fail_memory(error, strlen(directory), "a path");
    if (!status)
        status = eitp_transformer_config_write(&trainer->host, path, &config, -1, EITP_F32, error);
    eitp__release_text(&trainer->host, path);
    if (!status)
        status = eitp_lora_save(trainer->plans.task.model, directory, NULL, checksum, error);
    if (!status)
        status = eitp__lora_base_checksum(trainer->plans.task.model, &base, error);
    state->base_checksum = base;
    return status ? status : eitp__fill_others(trainer->plans.task.context, directory, &state->others_checksum, error);
}

/* The weights: a model's directory, or of a task's own model the parameters alone. */
static eitp_status eitp__fill_weights(const eitp_task *task, const char *directory, uint32_t *checksum,
                                      eitp_error *error) {
    const eitp_host host = eitp_context_host(task->context);
    char *path;
    eitp_status status;
    if (task->model)
        return eitp_model_save(task->model, directory, EITP_F32, -1, checksum, error);
    path = eitp__join_path(&host, directory, EITP__WEIGHTS_FILE);
    status = path ? eitp_variables_save(task->context, path, EITP_PARAMETER, EITP_F32, checksum, error)
                  : eitp__fail_memory(error, strlen(directory), "a path");
    eitp__release_text(&host, path);
    return status;
}

/* Writes everything a checkpoint has into a directory. */
static eitp_status eitp__fill_checkpoint(void *user, const char *directory, eitp_error *error) {
    eitp_trainer *trainer = (eitp_trainer *)user;
    const eitp_task *task = &trainer->plans.task;
    eitp__state state;
    uint32_t model_checksum = 0, optimizer_checksum = 0;
    char *optimizer = eitp__join_path(&trainer->host, directory, EITP__OPTIMIZER_FILE);
    char *path = eitp__join_path(&trainer->host, directory, EITP__STATE_FILE);
    eitp_status status = optimizer && path ? EITP_OK : eitp__fail_memory(error, strlen(directory), "a path");
    if (!status)
        status = eitp__current_state(trainer, &state, error);
    if (!status && task->save)
        status = task->save(task->user, directory, error);
    if (!status && state.info.lora.rank)
        status = eitp__fill_adapters(trainer, directory, &model_checksum, &state, error);
    else if (!status)
        status = eitp__fill_weights(task, directory, &model_checksum, error);
    if (!status)
        status = eitp_variables_save(task->context, optimizer, EITP_OPTIMIZER, EITP_F32, &optimizer_checksum, error);
    state.model_checksum = model_checksum;
    state.optimizer_checksum = optimizer_checksum;
    if (!status)
        status = eitp__write_state(trainer, path, &state, error);
    eitp__release_text(&trainer->host, optimizer);
    eitp__release_text(&trainer->host, path);
    return status;
}

eitp_status eitp_trainer_save(eitp_trainer *trainer, const char *output_directory, eitp_error *error) {
    eitp_status status;
    if (!trainer || !output_directory)
        return eitp__fail_null(error, "eitp_trainer_save", "trainer and output_directory");
    status = eitp__trainer_check_whole(trainer, error);
    return status ? status
                  : eitp_checkpoint_create(&trainer->host, output_directory, trainer->step, eitp__fill_checkpoint,
                                           trainer, error);
}

/* ---- Reading ---- */

/* The optimizer of that name; EITP_OPTIMIZER_COUNT: there is none. */
static eitp_optimizer eitp__optimizer_named(const char *name) {
    int i = 0;
    while (i < EITP_OPTIMIZER_COUNT && strcmp(name, eitp_optimizer_get((eitp_optimizer)i)->name))
        i++;
    return (eitp_optimizer)i;
}

static eitp_status eitp__parse_lora_state(const eitp__json *root, eitp__state *state, eitp_error *error) {
    const eitp__json *object = eitp__json_member(root, "lora");
    eitp_lora_config *lora = &state->info.lora;
    const char *targets = "";
    eitp_status status;
    memset(lora, 0, sizeof *lora);
    if (!object)
        return EITP_OK;
    status = eitp__json_get_integer(object, "rank", 1, INT32_MAX, &lora->rank, error);
    if (!status)
        status = eitp__json_get_number(object, "alpha", 0, HUGE_VAL, &lora->alpha, error);
    if (!status)
        status = eitp__json_get_number(object, "dropout", 0, 1, &lora->dropout, error);
    if (!status)
        status = eitp__json_get_boolean(object, "rslora", &lora->rslora, error);
    if (!status)
        status = eitp__json_get_integer(object, "base_checksum", 0, UINT32_MAX, &state->base_checksum, error);
    state->others_checksum = -1;
    if (!status)
        status = eitp__json_get_integer(object, "others_checksum", 0, UINT32_MAX, &state->others_checksum, error);
    if (!status)
        status = eitp__json_get_text(object, "targets", &targets, error);
    if (!status && eitp_lora_targets_parse(NULL, targets, &lora->targets, NULL))
        status = eitp__fail(error, EITP_ERROR_FORMAT, "'lora' has no targets that eitp knows");
    return status ? status : eitp__lora_config_check(lora, error);
}

static eitp_status eitp__parse_initial_shape(const eitp__json *root, eitp__state *state, eitp_error *error) {
    const eitp__json *object = eitp__json_member(root, "shrunk_from");
    eitp_step_shape *initial = &state->info.initial_shape;
    const eitp_trainer_config *config = &state->info.config;
    eitp_status status;
    *initial = eitp__step_shape_of(config);
    if (!object)
        return EITP_OK;
    status = eitp__json_get_integer(object, "batch_size", 1, 1 << 20, &initial->batch_size, error);
    if (!status)
        status = eitp__json_get_integer(object, "grad_accum", 1, 1 << 20, &initial->grad_accum, error);
    if (!status)
        status = eitp__json_get_integer(object, "micro_batches_per_pass", 1, 1 << 20, &initial->micro_batches_per_pass,
                                        error);
    if (!status && initial->batch_size * initial->grad_accum != config->batch_size * config->grad_accum)
        status = eitp__fail(error, EITP_ERROR_FORMAT, "'shrunk_from' has other sequences in a step");
    return status;
}

/* What the file is, and of what: format, version, kernels, precision, optimizer. */
static eitp_status eitp__parse_head(const eitp__json *root, eitp__state *state, eitp_error *error) {
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
        status = eitp__fail(error, EITP_ERROR_FORMAT, "this is not the state of an eitp checkpoint");
    state->info.config.optimizer = eitp__optimizer_named(optimizer);
    if (!status &&
        (state->version < EITP__OLDEST_STATE_VERSION || state->version > EITP__STATE_VERSION ||
         strlen(precision) >= sizeof state->info.precision || state->info.config.optimizer == EITP_OPTIMIZER_COUNT))
        status = eitp__fail(error, EITP_ERROR_UNSUPPORTED,
                            "it is of version %lld with precision '%s' and optimizer '%s'; this eitp reads versions %d "
                            "to %d; start from its weights",
                            (long long)state->version, precision, optimizer, EITP__OLDEST_STATE_VERSION,
                            EITP__STATE_VERSION);
    snprintf(state->info.numerics, sizeof state->info.numerics, "%s", numerics);
    snprintf(state->info.precision, sizeof state->info.precision, "%s", precision);
    return status;
}

/* The members that tables describe. */
static eitp_status eitp__parse_state_values(const eitp__json *root, eitp__state *state, eitp_error *error) {
    eitp__state_walk walk = EITP__ZERO;
    const eitp_setting *setting;
    eitp_status status = EITP_OK;
    while (!status && (setting = eitp__state_next(&walk)) != NULL)
        status = eitp__setting_read(setting, root, walk.is_field ? (void *)state : (void *)&state->info.config, error);
    /* A setting of 0 asks for a choice, which a run that was saved has made. */
    if (!status && state->info.config.micro_batches_per_pass < 1)
        status = eitp__fail(error, EITP_ERROR_FORMAT, "'micro_batches_per_pass' must be at least 1 (got 0)");
    return status;
}

static eitp_status eitp__parse_state(const eitp__json *root, eitp__state *state, eitp_error *error) {
    eitp_status status;
    state->info.config = eitp_trainer_config_default(); /* of what the file lacks */
    status = eitp__parse_head(root, state, error);
    if (!status)
        status = eitp__parse_state_values(root, state, error);
    if (!status)
        status = eitp__parse_lora_state(root, state, error);
    return status ? status : eitp__parse_initial_shape(root, state, error);
}

static eitp_status eitp__read_state(const eitp_host *host, const char *checkpoint, eitp__state *state,
                                    eitp_error *error) {
    const size_t limit = 1 << 20;
    eitp__json_document *document;
    char *path = eitp__join_path(host, checkpoint, EITP__STATE_FILE);
    eitp_status status;
    memset(state, 0, sizeof *state);
    if (!path)
        return eitp__fail_memory(error, strlen(checkpoint), "a path");
    status = eitp__json_read_file(host, path, limit, &document, error);
    if (!status) {
        status = eitp__parse_state(eitp__json_root(document), state, error);
        eitp__json_release(document);
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
    eitp_status status = eitp__read_state(host, checkpoint, &state, error);
    if (status)
        return status;
    *info = state.info;
    info->data.hash = (uint64_t)state.data_hash[1] << 32 | (uint64_t)state.data_hash[0];
    info->data.first = (uint64_t)state.data_first;
    info->data.count = (uint64_t)state.data_count;
    return EITP_OK;
}

/* Adapters must be of the same configuration, and on the same weights. */
static eitp_status eitp__compare_adapters(const eitp_trainer *trainer, const eitp__state *current,
                                          const eitp__state *written, const char *checkpoint, eitp_error *error) {
    uint32_t base = 0;
    eitp_status status = EITP_OK;
    if (!eitp__lora_configs_equal(&current->info.lora, &written->info.lora))
        return eitp__fail(error, EITP_ERROR_ARGUMENT,
                          "'%s' was made with adapters of rank %lld (0: none), alpha %g, dropout %g, and this run has "
                          "rank %lld, alpha %g, dropout %g, or other targets; use the same",
                          checkpoint, (long long)written->info.lora.rank, written->info.lora.alpha,
                          written->info.lora.dropout, (long long)current->info.lora.rank, current->info.lora.alpha,
                          current->info.lora.dropout);
    if (written->info.lora.rank)
        status = eitp__lora_base_checksum(trainer->plans.task.model, &base, error);
    if (!status && written->info.lora.rank && (int64_t)base != written->base_checksum)
        status = eitp__fail(error, EITP_ERROR_ARGUMENT,
                            "'%s' has adapters of other weights than this run's model; load the weights they were "
                            "trained on",
                            checkpoint);
    return status;
}

/* True if the trainer is as a run began that was shrunk later, however many micro-batches its passes take. */
static int eitp__follows_shrinking(const eitp_trainer *trainer, const eitp__state *written) {
    const eitp_step_shape mine = eitp_trainer_shape(trainer), theirs = eitp__step_shape_of(&written->info.config);
    const eitp_step_shape *initial = &written->info.initial_shape;
    return !eitp__step_shapes_equal(initial, &theirs) && !eitp__step_shapes_equal(&mine, &theirs) &&
           mine.batch_size == initial->batch_size && mine.grad_accum == initial->grad_accum;
}

/* Weights and moments of another optimizer are converted; of the same one, bits depend on precision and kernels. */
static eitp_status eitp__compare_numerics(const eitp_trainer *trainer, const eitp_checkpoint_info *mine,
                                          const eitp_checkpoint_info *theirs, const char *checkpoint,
                                          eitp_error *error) {
    if (mine->config.optimizer != theirs->config.optimizer)
        eitp__log(&trainer->host, EITP_LOG_WARNING,
                  "'%s' was made with %s and precision %s: its weights and moments are converted to %s and %s",
                  checkpoint, eitp_optimizer_get(theirs->config.optimizer)->name, theirs->precision,
                  eitp_optimizer_get(mine->config.optimizer)->name, mine->precision);
    else if (strcmp(mine->precision, theirs->precision))
        return eitp__fail(
            error, EITP_ERROR_ARGUMENT,
            "'%s' was made with precision %s, and this run has %s; use the same, or start from its weights", checkpoint,
            theirs->precision, mine->precision);
    else if (strcmp(mine->numerics, theirs->numerics))
        return eitp__fail(error, EITP_ERROR_UNSUPPORTED,
                          "'%s' was made with the kernels %s, and this run has %s: the bits would differ; use the same "
                          "EITP_ISA and build, or start from its weights",
                          checkpoint, theirs->numerics, mine->numerics);
    return EITP_OK;
}

/* The data are told apart by where they begin, how much they are, and a hash, which says nothing to a reader. */
static eitp_status eitp__compare_data(const eitp_trainer *trainer, const eitp__state *mine, const eitp__state *theirs,
                                      const char *checkpoint, eitp_error *error) {
    const char *what_to_do = "use the same data, or start from its weights";
    const char *unit = trainer->plans.task.unit ? trainer->plans.task.unit : "items";
    if (mine->data_count != theirs->data_count)
        return eitp__fail(error, EITP_ERROR_ARGUMENT,
                          "the training data differ from those of '%s', which had %lld %s, and this run has %lld; %s",
                          checkpoint, (long long)theirs->data_count, unit, (long long)mine->data_count, what_to_do);
    if (mine->data_first != theirs->data_first)
        return eitp__fail(error, EITP_ERROR_ARGUMENT,
                          "the training data differ from those of '%s', which began after %lld %s, and those of this "
                          "run after %lld; %s",
                          checkpoint, (long long)theirs->data_first, unit, (long long)mine->data_first, what_to_do);
    if (mine->data_hash[0] != theirs->data_hash[0] || mine->data_hash[1] != theirs->data_hash[1])
        return eitp__fail(error, EITP_ERROR_ARGUMENT,
                          "the training data differ from those of '%s': as many %s, but other content; %s", checkpoint,
                          unit, what_to_do);
    return EITP_OK;
}

/* Where rows are dense, or sums over them cannot be cut, the number of micro-batches in a pass may decide bits. */
static eitp_status eitp__compare_merged(const eitp__step_plans *plans, const eitp_trainer_config *mine,
                                        const eitp_trainer_config *theirs, const char *checkpoint, eitp_error *error) {
    if (mine->micro_batches_per_pass == theirs->micro_batches_per_pass)
        return EITP_OK;
    if (mine->dense_rows)
        return eitp__fail(error, EITP_ERROR_ARGUMENT,
                          "'%s' was made with dense rows and %lld micro-batches in a pass, and this run has %lld: "
                          "the bits would differ; use the same, or start from its weights",
                          checkpoint, (long long)theirs->micro_batches_per_pass,
                          (long long)mine->micro_batches_per_pass);
    if (plans->cut_parameter[0])
        return eitp__fail(error, EITP_ERROR_ARGUMENT,
                          "'%s' was made with %lld micro-batches in a pass, and this run has %lld: the bits would "
                          "differ, as the gradient of parameter '%s' depends on that; use the same, or start from its "
                          "weights",
                          checkpoint, (long long)theirs->micro_batches_per_pass,
                          (long long)mine->micro_batches_per_pass, plans->cut_parameter);
    return EITP_OK;
}

/* Refuses, or logs, the differences in what tables describe. */
static eitp_status eitp__compare_values(const eitp_trainer *trainer, eitp_difference difference,
                                        const eitp__state *mine, const eitp__state *theirs, const char *checkpoint,
                                        eitp_error *error) {
    char here[64], there[64];
    eitp__state_walk walk = EITP__ZERO;
    const eitp_setting *setting;
    while ((setting = eitp__state_next(&walk)) != NULL) {
        const void *my_values = eitp__state_values(&walk, mine), *their_values = eitp__state_values(&walk, theirs);
        if (setting->difference != difference || eitp__setting_equal(setting, my_values, their_values))
            continue;
        eitp__setting_describe(setting, my_values, here, sizeof here);
        eitp__setting_describe(setting, their_values, there, sizeof there);
        if (difference == EITP_DIFFERENCE_REFUSED)
            return eitp__fail(error, EITP_ERROR_ARGUMENT,
                              "'%s' was made with %s %s, and this run has %s; use the same, or start from its weights",
                              checkpoint, setting->name, there, here);
        eitp__log(&trainer->host, EITP_LOG_WARNING, "%s was %s in '%s' and is %s from here on", setting->name, there,
                  checkpoint, here);
    }
    return EITP_OK;
}

/* Compares the run that wrote the checkpoint with this one: refuses, logs, or accepts each difference. */
static eitp_status eitp__compare_states(const eitp_trainer *trainer, const eitp__state *written, const char *checkpoint,
                                        eitp_error *error) {
    const eitp_step_shape shape = eitp__step_shape_of(&written->info.config);
    eitp__state current;
    eitp_status status = eitp__current_state(trainer, &current, error);
    if (status)
        return status;
    if (eitp__follows_shrinking(trainer, written))
        eitp__set_step_shape(&current.info.config, &shape);
    status = eitp__compare_numerics(trainer, &current.info, &written->info, checkpoint, error);
    if (!status)
        status = eitp__compare_values(trainer, EITP_DIFFERENCE_REFUSED, &current, written, checkpoint, error);
    if (!status)
        status = eitp__compare_merged(&trainer->plans, &current.info.config, &written->info.config, checkpoint, error);
    if (!status)
        status = eitp__compare_data(trainer, &current, written, checkpoint, error);
    if (!status)
        status = eitp__compare_adapters(trainer, &current, written, checkpoint, error);
    return status ? status
                  : eitp__compare_values(trainer, EITP_DIFFERENCE_LOGGED, &current, written, checkpoint, error);
}

/* ---- Loading: everything is read twice, and changes nothing the first time ---- */

static eitp_status eitp__check_checksum(const char *path, uint32_t checksum, int64_t expected, eitp_error *error) {
    return (int64_t)checksum == expected
               ? EITP_OK
               : eitp__fail(error, EITP_ERROR_FORMAT,
                            "%s is damaged: its checksum is %08x, not %08x; resume from another checkpoint", path,
                            (unsigned)checksum, (unsigned)expected);
}

/* Reads the model's weights, or its adapters. */
static eitp_status eitp__read_model_state(eitp_trainer *trainer, const char *checkpoint, int64_t expected, int loads,
                                          eitp_error *error) {
    const int has_adapters = eitp_model_lora(trainer->plans.task.model).rank > 0;
    uint32_t checksum = 0;
    char *path =
        eitp__join_path(&trainer->host, checkpoint, has_adapters ? EITP__LORA_WEIGHTS_FILE : EITP__WEIGHTS_FILE);
    eitp_status status = path ? EITP_OK : eitp__fail_memory(error, strlen(checkpoint), "a path");
    if (!status && has_adapters)
        status = eitp__lora_read(trainer->plans.task.model, checkpoint, loads, &checksum, error);
    else if (!status)
        status = trainer->plans.task.model
                     ? eitp__model_read(trainer->plans.task.model, path, loads, &checksum, error)
                     : eitp__variables_read(trainer->plans.task.context, path, EITP_PARAMETER, loads, &checksum, error);
    if (!status)
        status = eitp__check_checksum(path, checksum, expected, error);
    eitp__release_text(&trainer->host, path);
    return status;
}

/* Reads what is trained beside adapters. */
static eitp_status eitp__read_others_state(eitp_trainer *trainer, const char *checkpoint, const eitp__state *state,
                                           int loads, eitp_error *error) {
    eitp_context *context = trainer->plans.task.context;
    const int has_others = state->info.lora.rank && eitp__lora_has_others(context);
    uint32_t checksum = 0;
    char *path;
    eitp_status status;
    if (has_others != (state->info.lora.rank && state->others_checksum >= 0))
        return eitp__fail(error, EITP_ERROR_FORMAT,
                          "'%s' has %s parameters that were trained beside adapters, and "
                          "this run has %s; start from its weights",
                          checkpoint, has_others ? "no" : "the", has_others ? "some" : "none");
    if (!has_others)
        return EITP_OK;
    path = eitp__join_path(&trainer->host, checkpoint, EITP__LORA_OTHERS_FILE);
    if (!path)
        return eitp__fail_memory(error, strlen(checkpoint), "a path");
    status = eitp__lora_read_others(context, path, loads, &checksum, error);
    if (!status)
        status = eitp__check_checksum(path, checksum, state->others_checksum, error);
    eitp__release_text(&trainer->host, path);
    return status;
}

/* Is the optimizer's state what this version keeps? */
static int eitp__has_same_optimizer(const eitp_trainer *trainer, const eitp__state *written) {
    eitp_optimizer optimizer = trainer->plans.config.optimizer;
    return written->info.config.optimizer == optimizer &&
           (written->version >= EITP__MOMENTUM_STATE_VERSION ||
            eitp_optimizer_get(optimizer)->moments != EITP_MOMENTS_FACTORED);
}

/* Reads the state of the optimizer; that of another one, or of an earlier version, is converted. */
static eitp_status eitp__read_optimizer_state(eitp_trainer *trainer, const char *checkpoint, const eitp__state *state,
                                              int loads, eitp_error *error) {
    eitp_context *context = trainer->plans.task.context;
    uint32_t checksum = 0;
    char *path = eitp__join_path(&trainer->host, checkpoint, EITP__OPTIMIZER_FILE);
    eitp_status status = path ? EITP_OK : eitp__fail_memory(error, strlen(checkpoint), "a path");
    if (!status && eitp__has_same_optimizer(trainer, state)) {
        status = eitp__variables_read(context, path, EITP_OPTIMIZER, loads, &checksum, error);
        if (!status)
            status = eitp__check_checksum(path, checksum, state->optimizer_checksum, error);
    } else if (!status) {
        status = eitp__moments_read(context, path, &state->info, &trainer->plans.config.adamw, loads, error);
    }
    eitp__release_text(&trainer->host, path);
    return status;
}

static eitp_status eitp__read_variables(eitp_trainer *trainer, const char *checkpoint, const eitp__state *state,
                                        int loads, eitp_error *error) {
    eitp_status status = eitp__read_model_state(trainer, checkpoint, state->model_checksum, loads, error);
    if (!status)
        status = eitp__read_others_state(trainer, checkpoint, state, loads, error);
    return status ? status : eitp__read_optimizer_state(trainer, checkpoint, state, loads, error);
}

/* Changes the trainer to what was read and checked. */
static eitp_status eitp__load_checkpoint(eitp_trainer *trainer, const char *checkpoint, const eitp__state *state,
                                         eitp_error *error) {
    eitp_status status;
    trainer->torn = 1;
    status = eitp__read_variables(trainer, checkpoint, state, 1, error);
    if (status)
        return eitp__fail_prefix(error, status, "resuming from '%s' failed half-way; resume again", checkpoint);
    trainer->step = state->info.step;
    trainer->initial_shape = state->info.initial_shape;
    trainer->loss_scale = state->loss_scale;
    trainer->scale_steps = state->scale_steps;
    trainer->skipped = state->skipped;
    trainer->torn = 0;
    return EITP_OK;
}

eitp_status eitp_trainer_resume(eitp_trainer *trainer, const char *checkpoint, eitp_error *error) {
    if (!trainer || !checkpoint)
        return eitp__fail_null(error, "eitp_trainer_resume", "trainer and checkpoint");
    eitp__state state;
    eitp_status status = eitp__read_state(&trainer->host, checkpoint, &state, error);
    if (!status)
        status = eitp__compare_states(trainer, &state, checkpoint, error);
    if (!status)
        status = eitp__read_variables(trainer, checkpoint, &state, 0, error);
    if (!status && trainer->plans.task.model)
        status = eitp__model_keep_generation(trainer->plans.task.model, checkpoint, error);
    if (status)
        return status;
    if (eitp__follows_shrinking(trainer, &state)) {
        const eitp_step_shape shape = eitp__step_shape_of(&state.info.config);
        eitp_trainer_config config = trainer->plans.config;
        eitp__set_step_shape(&config, &shape);
        status = eitp__step_plans_remake(&trainer->plans, &config, trainer->plans.evaluation_samples, error);
    }
    return status ? status : eitp__load_checkpoint(trainer, checkpoint, &state, error);
}
