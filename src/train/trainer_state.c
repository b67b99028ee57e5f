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
#include "train/trainer.h"

#define EITP__STATE_FILE "trainer_state.json"
#define EITP__OPTIMIZER_FILE "optimizer.safetensors"
#define EITP__STATE_VERSION 4
#define EITP__MOMENTUM_STATE_VERSION 4 /* before it factored moments had no first one */
#define EITP__OLDEST_STATE_VERSION 2   /* had no optimizer but adamw */

/* What trainer_state.json says; numbers that are compared or handed over as they are. */
typedef struct eitp__state {
    eitp_checkpoint_info info;
    int64_t version;
    int64_t data_hash[2]; /* content hash of the training file, as two halves: JSON integers have 63 bits */
    int64_t data_first, data_count;
    int64_t scale_steps, skipped;
    double loss_scale;
    int64_t model_checksum, optimizer_checksum;
    int64_t base_checksum; /* of the weights below adapters */
} eitp__state;

/* An integer of the state: its name, where it is, its range, and what a difference on resume means. */
typedef enum eitp__difference { EITP__REFUSED, EITP__LOGGED, EITP__EXPECTED } eitp__difference;

typedef struct eitp__state_integer {
    const char *name;
    int64_t *value;
    int64_t low, high;
    eitp__difference difference;
} eitp__state_integer;

typedef struct eitp__state_number {
    const char *name;
    double *value;
    eitp__difference difference;
} eitp__state_number;

/* Fields of eitp_trainer_config that are not int64_t pass through here. */
typedef struct eitp__state_mirror {
    int64_t seed, shuffle, schedule, last_sample;
} eitp__state_mirror;

enum { EITP__STATE_INTEGERS = 19, EITP__STATE_NUMBERS = 8 };

static void eitp__state_fields(eitp__state *state, eitp__state_mirror *mirror,
                               eitp__state_integer integers[EITP__STATE_INTEGERS],
                               eitp__state_number numbers[EITP__STATE_NUMBERS]) {
    eitp_trainer_config *config = &state->info.config;
    const eitp__state_integer integer_list[EITP__STATE_INTEGERS] = {
        {"step", &state->info.step, 0, INT64_MAX, EITP__EXPECTED},
        {"batch_size", &config->batch_size, 1, 1 << 20, EITP__REFUSED},
        {"block_size", &config->block_size, 1, 1 << 24, EITP__REFUSED},
        {"grad_accum", &config->grad_accum, 1, 1 << 20, EITP__REFUSED},
        {"merged", &config->merged, 1, 1 << 20, EITP__EXPECTED},
        {"seed", &mirror->seed, INT64_MIN, INT64_MAX, EITP__REFUSED},
        {"shuffle", &mirror->shuffle, 0, 1, EITP__REFUSED},
        {"data_hash_low", &state->data_hash[0], 0, UINT32_MAX, EITP__REFUSED},
        {"data_hash_high", &state->data_hash[1], 0, UINT32_MAX, EITP__REFUSED},
        {"data_first", &state->data_first, 0, INT64_MAX, EITP__REFUSED},
        {"data_count", &state->data_count, 0, INT64_MAX, EITP__REFUSED},
        {"lr_schedule", &mirror->schedule, 0, 2, EITP__LOGGED},
        {"warmup_steps", &config->schedule.warmup, 0, INT64_MAX, EITP__LOGGED},
        {"schedule_steps", &config->schedule.steps, 0, INT64_MAX, EITP__LOGGED},
        {"last_sample", &mirror->last_sample, 0, INT64_MAX, EITP__LOGGED},
        {"scale_steps", &state->scale_steps, 0, INT64_MAX, EITP__EXPECTED},
        {"skipped_steps", &state->skipped, 0, INT64_MAX, EITP__EXPECTED},
        {"model_checksum", &state->model_checksum, 0, UINT32_MAX, EITP__EXPECTED},
        {"optimizer_checksum", &state->optimizer_checksum, 0, UINT32_MAX, EITP__EXPECTED},
    };
    const eitp__state_number number_list[EITP__STATE_NUMBERS] = {
        {"max_grad_norm", &config->max_grad_norm, EITP__LOGGED},
        {"beta1", &config->adamw.beta1, EITP__LOGGED},
        {"beta2", &config->adamw.beta2, EITP__LOGGED},
        {"epsilon", &config->adamw.epsilon, EITP__LOGGED},
        {"weight_decay", &config->adamw.weight_decay, EITP__LOGGED},
        {"lr", &config->schedule.peak, EITP__LOGGED},
        {"final_lr", &config->schedule.final, EITP__LOGGED},
        {"loss_scale", &state->loss_scale, EITP__EXPECTED},
    };
    memcpy(integers, integer_list, sizeof integer_list);
    memcpy(numbers, number_list, sizeof number_list);
}

static void eitp__state_to_mirror(const eitp__state *state, eitp__state_mirror *mirror) {
    mirror->seed = (int64_t)state->info.config.seed;
    mirror->shuffle = state->info.config.shuffle;
    mirror->schedule = state->info.config.schedule.kind;
    mirror->last_sample = (int64_t)state->info.config.last_sample;
}

static void eitp__mirror_to_state(const eitp__state_mirror *mirror, eitp__state *state) {
    state->info.config.seed = (uint64_t)mirror->seed;
    state->info.config.shuffle = (eitp_shuffle)mirror->shuffle;
    state->info.config.schedule.kind = (eitp_schedule_kind)mirror->schedule;
    state->info.config.last_sample = (uint64_t)mirror->last_sample;
}

/* The state of a trainer as it is now; checksums are the caller's. */
static eitp__state eitp__current_state(const eitp_trainer *trainer) {
    eitp__state state;
    uint64_t hash = eitp_token_file_get_info(trainer->training_file).content_hash;
    memset(&state, 0, sizeof state);
    state.info.step = trainer->step;
    state.info.config = trainer->config;
    snprintf(state.info.numerics, sizeof state.info.numerics, "%s",
             eitp_context_numerics(eitp_model_context(trainer->model)));
    snprintf(state.info.precision, sizeof state.info.precision, "%s",
             eitp_context_precision_name(eitp_model_context(trainer->model)));
    state.info.lora = eitp_model_lora(trainer->model);
    state.info.asked_shape = trainer->asked_shape;
    state.loss_scale = trainer->loss_scale;
    state.scale_steps = trainer->scale_steps;
    state.skipped = trainer->skipped;
    state.data_hash[0] = (int64_t)(hash & UINT32_MAX);
    state.data_hash[1] = (int64_t)(hash >> 32);
    state.data_first = (int64_t)trainer->windows.tokens.first;
    state.data_count = (int64_t)trainer->windows.tokens.count;
    return state;
}

/* ---- Saving ---- */

/* The member of a run with adapters. */
static void eitp__write_lora_state(const eitp_model *model, const eitp__state *state, eitp__buffer *text) {
    const eitp_lora_config *lora = &state->info.lora;
    char targets[64];
    if (!lora->rank)
        return;
    eitp_lora_targets_format(eitp_model_config(model).architecture, lora->targets, targets, sizeof targets);
    eitp__buffer_format(text, "  \"lora\": {\"rank\": %lld, \"alpha\": ", (long long)lora->rank);
    eitp__json_write_number(text, lora->alpha);
    eitp__buffer_add_text(text, ", \"dropout\": ");
    eitp__json_write_number(text, lora->dropout);
    eitp__buffer_format(text, ", \"targets\": \"%s\", \"rslora\": %s, \"base_checksum\": %lld},\n", targets,
                        lora->rslora ? "true" : "false", (long long)state->base_checksum);
}

/* The member of a run that was shrunk: the shape that it began with. */
static void eitp__write_asked_shape(const eitp__state *state, eitp__buffer *text) {
    const eitp_step_shape *asked = &state->info.asked_shape, shape = eitp__step_shape_of(&state->info.config);
    if (!eitp__step_shapes_equal(asked, &shape))
        eitp__buffer_format(text,
                            "  \"shrunk_from\": {\"batch_size\": %lld, \"grad_accum\": %lld, \"merged\": %lld},\n",
                            (long long)asked->batch_size, (long long)asked->grad_accum, (long long)asked->merged);
}

static eitp_status eitp__write_state(const eitp_trainer *trainer, const char *path, eitp__state *state,
                                     eitp_error *error) {
    eitp__state_integer integers[EITP__STATE_INTEGERS];
    eitp__state_number numbers[EITP__STATE_NUMBERS];
    eitp__state_mirror mirror;
    eitp__buffer text;
    eitp_status status;
    eitp__state_to_mirror(state, &mirror);
    eitp__state_fields(state, &mirror, integers, numbers);
    eitp__buffer_init(&text, &trainer->host);
    eitp__buffer_format(&text, "{\n  \"format\": \"eitp checkpoint\",\n  \"version\": %d,\n", EITP__STATE_VERSION);
    eitp__buffer_format(&text, "  \"precision\": \"%s\",\n  \"optimizer\": \"%s\",\n  \"numerics\": \"%s\",\n",
                        state->info.precision, eitp_optimizer_get(state->info.config.optimizer)->name,
                        state->info.numerics);
    eitp__write_lora_state(trainer->model, state, &text);
    eitp__write_asked_shape(state, &text);
    if (state->info.config.dense_rows)
        eitp__buffer_add_text(&text, "  \"dense_rows\": true,\n");
    for (size_t i = 0; i < EITP__COUNT(integers); i++)
        eitp__buffer_format(&text, "  \"%s\": %lld,\n", integers[i].name, (long long)*integers[i].value);
    for (size_t i = 0; i < EITP__COUNT(numbers); i++) {
        eitp__buffer_format(&text, "  \"%s\": ", numbers[i].name);
        eitp__json_write_number(&text, *numbers[i].value);
        eitp__buffer_add_text(&text, i + 1 < EITP__COUNT(numbers) ? ",\n" : "\n}\n");
    }
    status = text.failed ? eitp__fail_memory(error, text.size, "the trainer's state")
                         : eitp__write_file(&trainer->host, path, text.data, text.size, error);
    eitp__buffer_release(&text);
    return status;
}

/* Writes the adapters and the configuration of the model that they are of. */
static eitp_status eitp__fill_adapters(eitp_trainer *trainer, const char *directory, uint32_t *checksum,
                                       int64_t *base_checksum, eitp_error *error) {
    const eitp_transformer_config config = eitp_model_config(trainer->model);
    char *path = eitp__join_path(&trainer->host, directory, "config.json");
    uint32_t base = 0;
    eitp_status status = path ? EITP_OK : eitp__fail_memory(error, strlen(directory), "a path");
    if (!status)
        status = eitp_transformer_config_write(&trainer->host, path, &config, -1, EITP_F32, error);
    eitp__release_text(&trainer->host, path);
    if (!status)
        status = eitp_lora_save(trainer->model, directory, NULL, checksum, error);
    if (!status)
        status = eitp__lora_base_checksum(trainer->model, &base, error);
    *base_checksum = base;
    return status;
}

/* Gives the model the tokenizer's special tokens; without a tokenizer, the id that ends documents in the token file. */
static void eitp__set_special_tokens(eitp_trainer *trainer) {
    const eitp_tokenizer *tokenizer = trainer->tokenizer;
    if (tokenizer)
        eitp_model_set_special_tokens(trainer->model, eitp_tokenizer_special(tokenizer, EITP_BEGIN_OF_TEXT),
                                      eitp_tokenizer_special(tokenizer, EITP_END_OF_TEXT),
                                      eitp_tokenizer_special(tokenizer, EITP_PADDING));
    else
        eitp_model_set_special_tokens(trainer->model, -1, eitp_token_file_get_info(trainer->training_file).end_of_text,
                                      -1);
}

/* Writes everything a checkpoint has into a directory. */
static eitp_status eitp__fill_checkpoint(void *user, const char *directory, eitp_error *error) {
    eitp_trainer *trainer = (eitp_trainer *)user;
    eitp__state state = eitp__current_state(trainer);
    uint32_t model_checksum = 0, optimizer_checksum = 0;
    char *optimizer = eitp__join_path(&trainer->host, directory, EITP__OPTIMIZER_FILE);
    char *path = eitp__join_path(&trainer->host, directory, EITP__STATE_FILE);
    eitp_status status = optimizer && path ? EITP_OK : eitp__fail_memory(error, strlen(directory), "a path");
    eitp__set_special_tokens(trainer);
    if (!status && state.info.lora.rank)
        status = eitp__fill_adapters(trainer, directory, &model_checksum, &state.base_checksum, error);
    else if (!status)
        status = eitp_model_save(trainer->model, directory, EITP_F32, -1, &model_checksum, error);
    if (!status && trainer->tokenizer)
        status = eitp_tokenizer_save(trainer->tokenizer, directory, error);
    if (!status)
        status = eitp_variables_save(eitp_model_context(trainer->model), optimizer, EITP_OPTIMIZER, EITP_F32,
                                     &optimizer_checksum, error);
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
    if (!status)
        status = eitp__json_get_text(object, "targets", &targets, error);
    if (!status && eitp_lora_targets_parse(NULL, targets, &lora->targets, NULL))
        status = eitp__fail(error, EITP_ERROR_FORMAT, "'lora' has no targets that eitp knows");
    return status ? status : eitp__lora_config_check(lora, error);
}

static eitp_status eitp__parse_asked_shape(const eitp__json *root, eitp__state *state, eitp_error *error) {
    const eitp__json *object = eitp__json_member(root, "shrunk_from");
    eitp_step_shape *asked = &state->info.asked_shape;
    const eitp_trainer_config *config = &state->info.config;
    eitp_status status;
    *asked = eitp__step_shape_of(config);
    if (!object)
        return EITP_OK;
    status = eitp__json_get_integer(object, "batch_size", 1, 1 << 20, &asked->batch_size, error);
    if (!status)
        status = eitp__json_get_integer(object, "grad_accum", 1, 1 << 20, &asked->grad_accum, error);
    if (!status)
        status = eitp__json_get_integer(object, "merged", 1, 1 << 20, &asked->merged, error);
    if (!status && asked->batch_size * asked->grad_accum != config->batch_size * config->grad_accum)
        status = eitp__fail(error, EITP_ERROR_FORMAT, "'shrunk_from' has other sequences in a step");
    return status;
}

static eitp_status eitp__parse_state(const eitp__json *root, eitp__state *state, eitp_error *error) {
    eitp__state_integer integers[EITP__STATE_INTEGERS];
    eitp__state_number numbers[EITP__STATE_NUMBERS];
    eitp__state_mirror mirror;
    const char *format = "", *numerics = "", *precision = "", *optimizer = "";
    eitp_status status;
    memset(&mirror, 0, sizeof mirror);
    eitp__state_fields(state, &mirror, integers, numbers);
    status = eitp__json_get_text(root, "format", &format, error);
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
                            "to %d; start from its weights with --model",
                            (long long)state->version, precision, optimizer, EITP__OLDEST_STATE_VERSION,
                            EITP__STATE_VERSION);
    for (size_t i = 0; i < EITP__COUNT(integers) && !status; i++) {
        if (!eitp__json_member(root, integers[i].name))
            status = eitp__fail(error, EITP_ERROR_FORMAT, "'%s' is missing", integers[i].name);
        else
            status = eitp__json_get_integer(root, integers[i].name, integers[i].low, integers[i].high,
                                            integers[i].value, error);
    }
    for (size_t i = 0; i < EITP__COUNT(numbers) && !status; i++)
        status = eitp__json_get_number(root, numbers[i].name, -HUGE_VAL, HUGE_VAL, numbers[i].value, error);
    if (!status)
        status = eitp__parse_lora_state(root, state, error);
    if (!status)
        status = eitp__parse_asked_shape(root, state, error);
    if (!status && eitp__json_member(root, "dense_rows"))
        status = eitp__json_get_boolean(root, "dense_rows", &state->info.config.dense_rows, error);
    if (status)
        return status;
    eitp__mirror_to_state(&mirror, state);
    snprintf(state->info.numerics, sizeof state->info.numerics, "%s", numerics);
    snprintf(state->info.precision, sizeof state->info.precision, "%s", precision);
    return EITP_OK;
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
    if (!status)
        *info = state.info;
    return status;
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
        status = eitp__lora_base_checksum(trainer->model, &base, error);
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
    const eitp_step_shape *asked = &written->info.asked_shape;
    return !eitp__step_shapes_equal(asked, &theirs) && !eitp__step_shapes_equal(&mine, &theirs) &&
           mine.batch_size == asked->batch_size && mine.grad_accum == asked->grad_accum;
}

/* Where rows are dense, the number of micro-batches in a pass may decide bits. */
static eitp_status eitp__compare_rows(const eitp_trainer_config *mine, const eitp_trainer_config *theirs,
                                      const char *checkpoint, eitp_error *error) {
    if (mine->dense_rows != theirs->dense_rows)
        return eitp__fail(error, EITP_ERROR_ARGUMENT,
                          "'%s' was made %s dense rows, and this run is %s: the bits would differ; use the same, or "
                          "start from the weights with --model",
                          checkpoint, theirs->dense_rows ? "with" : "without", mine->dense_rows ? "with" : "without");
    if (mine->dense_rows && mine->merged != theirs->merged)
        return eitp__fail(error, EITP_ERROR_ARGUMENT,
                          "'%s' was made with dense rows and %lld micro-batches in a pass, and this run has %lld: the "
                          "bits would differ; use the same, or start from the weights with --model",
                          checkpoint, (long long)theirs->merged, (long long)mine->merged);
    return EITP_OK;
}

/* Compares the run that wrote the checkpoint with this one: refuses, logs, or accepts each difference. */
static eitp_status eitp__compare_states(const eitp_trainer *trainer, eitp__state *written, const char *checkpoint,
                                        eitp_error *error) {
    const eitp_step_shape shape = eitp__step_shape_of(&written->info.config);
    eitp__state current = eitp__current_state(trainer);
    eitp__state_integer mine[EITP__STATE_INTEGERS], theirs[EITP__STATE_INTEGERS];
    eitp__state_number my_numbers[EITP__STATE_NUMBERS], their_numbers[EITP__STATE_NUMBERS];
    eitp__state_mirror my_mirror, their_mirror;
    eitp_status status;
    if (eitp__follows_shrinking(trainer, written))
        eitp__set_step_shape(&current.info.config, &shape);
    eitp__state_to_mirror(&current, &my_mirror);
    eitp__state_to_mirror(written, &their_mirror);
    eitp__state_fields(&current, &my_mirror, mine, my_numbers);
    eitp__state_fields(written, &their_mirror, theirs, their_numbers);
    if (current.info.config.optimizer != written->info.config.optimizer)
        eitp__log(&trainer->host, EITP_LOG_WARNING,
                  "'%s' was made with %s and precision %s: its weights and moments are converted to %s and %s",
                  checkpoint, eitp_optimizer_get(written->info.config.optimizer)->name, written->info.precision,
                  eitp_optimizer_get(current.info.config.optimizer)->name, current.info.precision);
    else if (strcmp(current.info.precision, written->info.precision))
        return eitp__fail(error, EITP_ERROR_ARGUMENT,
                          "'%s' was made with precision %s, and this run has %s; use --precision %s, or start from the "
                          "weights with --model",
                          checkpoint, written->info.precision, current.info.precision, written->info.precision);
    else if (strcmp(current.info.numerics, written->info.numerics))
        return eitp__fail(error, EITP_ERROR_UNSUPPORTED,
                          "'%s' was made with the kernels %s, and this run has %s: the bits would differ; use the same "
                          "EITP_ISA and build, or start from the weights with --model",
                          checkpoint, written->info.numerics, current.info.numerics);
    status = eitp__compare_rows(&current.info.config, &written->info.config, checkpoint, error);
    if (status)
        return status;
    for (size_t i = 0; i < EITP__COUNT(mine); i++) {
        if (*mine[i].value == *theirs[i].value || mine[i].difference == EITP__EXPECTED)
            continue;
        if (mine[i].difference == EITP__REFUSED)
            return eitp__fail(
                error, EITP_ERROR_ARGUMENT,
                "'%s' was made with %s %lld, and this run has %lld; use the same settings and data, or start "
                "from the weights with --model",
                checkpoint, mine[i].name, (long long)*theirs[i].value, (long long)*mine[i].value);
        eitp__log(&trainer->host, EITP_LOG_WARNING, "%s was %lld in '%s' and is %lld from here on", mine[i].name,
                  (long long)*theirs[i].value, checkpoint, (long long)*mine[i].value);
    }
    for (size_t i = 0; i < EITP__COUNT(my_numbers); i++) {
        if (my_numbers[i].difference == EITP__LOGGED && *my_numbers[i].value != *their_numbers[i].value)
            eitp__log(&trainer->host, EITP_LOG_WARNING, "%s was %g in '%s' and is %g from here on", my_numbers[i].name,
                      *their_numbers[i].value, checkpoint, *my_numbers[i].value);
    }
    return eitp__compare_adapters(trainer, &current, written, checkpoint, error);
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
    const int has_adapters = eitp_model_lora(trainer->model).rank > 0;
    uint32_t checksum = 0;
    char *path =
        eitp__join_path(&trainer->host, checkpoint, has_adapters ? EITP__LORA_WEIGHTS_FILE : "model.safetensors");
    eitp_status status = path ? EITP_OK : eitp__fail_memory(error, strlen(checkpoint), "a path");
    if (!status && has_adapters)
        status = eitp__lora_read(trainer->model, checkpoint, loads, &checksum, error);
    else if (!status)
        status = eitp__model_read(trainer->model, path, loads, &checksum, error);
    if (!status)
        status = eitp__check_checksum(path, checksum, expected, error);
    eitp__release_text(&trainer->host, path);
    return status;
}

/* Is the optimizer's state what this version keeps? */
static int eitp__has_same_optimizer(const eitp_trainer *trainer, const eitp__state *written) {
    eitp_optimizer optimizer = trainer->config.optimizer;
    return written->info.config.optimizer == optimizer &&
           (written->version >= EITP__MOMENTUM_STATE_VERSION ||
            eitp_optimizer_get(optimizer)->moments != EITP_MOMENTS_FACTORED);
}

/* Reads the state of the optimizer; that of another one, or of an earlier version, is converted. */
static eitp_status eitp__read_optimizer_state(eitp_trainer *trainer, const char *checkpoint, const eitp__state *state,
                                              int loads, eitp_error *error) {
    eitp_context *context = eitp_model_context(trainer->model);
    uint32_t checksum = 0;
    char *path = eitp__join_path(&trainer->host, checkpoint, EITP__OPTIMIZER_FILE);
    eitp_status status = path ? EITP_OK : eitp__fail_memory(error, strlen(checkpoint), "a path");
    if (!status && eitp__has_same_optimizer(trainer, state)) {
        status = eitp__variables_read(context, path, EITP_OPTIMIZER, loads, &checksum, error);
        if (!status)
            status = eitp__check_checksum(path, checksum, state->optimizer_checksum, error);
    } else if (!status) {
        status = eitp__moments_read(context, path, &state->info, &trainer->config.adamw, loads, error);
    }
    eitp__release_text(&trainer->host, path);
    return status;
}

static eitp_status eitp__read_variables(eitp_trainer *trainer, const char *checkpoint, const eitp__state *state,
                                        int loads, eitp_error *error) {
    eitp_status status = eitp__read_model_state(trainer, checkpoint, state->model_checksum, loads, error);
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
    trainer->asked_shape = state->info.asked_shape;
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
    eitp_step_shape shape;
    eitp_status status = eitp__read_state(&trainer->host, checkpoint, &state, error);
    if (!status)
        status = eitp__compare_states(trainer, &state, checkpoint, error);
    if (!status)
        status = eitp__read_variables(trainer, checkpoint, &state, 0, error);
    if (!status)
        status = eitp__model_keep_generation(trainer->model, checkpoint, error);
    if (status)
        return status;
    shape = eitp__step_shape_of(&state.info.config);
    if (eitp__follows_shrinking(trainer, &state))
        status = eitp__trainer_reshape(trainer, &shape, error);
    return status ? status : eitp__load_checkpoint(trainer, checkpoint, &state, error);
}
