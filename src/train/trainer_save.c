/*
 * Saving: a checkpoint is a model directory with optimizer.safetensors, trainer_state.json and what the task saves. If
 * the model has adapters, they replace the frozen weights.
 */
#include "base/convert.h"
#include "base/files.h"
#include "io/checkpoint.h"
#include "io/lora_files.h"
#include "io/model_directory.h"
#include "io/variables.h"
#include "train/trainer_state.h"

/* Writes the variables of a role. */
static eitp_status eitp__fill_variables(eitp_context *context, const char *directory, const char *name, eitp_role role,
                                        uint32_t *checksum, eitp__manifest *manifest, eitp_error *error) {
    const eitp_host host = eitp_context_host(context);
    eitp__file_sum sum = EITP__ZERO;
    char *path = eitp__join_path(&host, directory, name);
    eitp_status status = path ? eitp__variables_save_role(context, path, role, checksum, &sum, error)
                              : eitp__fail_memory(error, strlen(directory), "a path");
    eitp__release_text(&host, path);
    return status ? status : eitp__manifest_add(manifest, name, &sum, error);
}

/* Writes the parameters trained in addition to adapters, if there are any. */
static eitp_status eitp__fill_others(eitp_context *context, const char *directory, int64_t *others_checksum,
                                     eitp__manifest *manifest, eitp_error *error) {
    eitp__file_sum sum = EITP__ZERO;
    uint32_t checksum = 0;
    eitp_status status;
    *others_checksum = -1;
    if (!eitp__lora_has_others(context))
        return EITP_OK;
    status = eitp__lora_save_others(context, directory, &checksum, &sum, error);
    *others_checksum = checksum;
    return status ? status : eitp__manifest_add(manifest, EITP__LORA_OTHERS_FILE, &sum, error);
}

/* Writes the adapters and their model's configuration. */
static eitp_status eitp__fill_adapters(eitp_trainer *trainer, const char *directory, uint32_t *checksum,
                                       eitp__state *state, eitp__manifest *manifest, eitp_error *error) {
    const eitp_transformer_config config = eitp_model_config(trainer->plans.task.model);
    char *path = eitp__join_path(&trainer->host, directory, "config.json");
    eitp__file_sum sum = EITP__ZERO;
    uint32_t base = 0;
    eitp_status status = path ? EITP_OK : eitp__fail_memory(error, strlen(directory), "a path");
    if (!status)
        status = eitp_transformer_config_write(&trainer->host, path, &config, -1, EITP_F32, error);
    eitp__release_text(&trainer->host, path);
    if (!status)
        status = eitp__lora_save(trainer->plans.task.model, directory, NULL, checksum, &sum, error);
    if (!status)
        status = eitp__manifest_add(manifest, EITP__LORA_WEIGHTS_FILE, &sum, error);
    if (!status)
        status = eitp__lora_base_checksum(trainer->plans.task.model, &base, error);
    state->base_checksum = base;
    return status ? status
                  : eitp__fill_others(trainer->plans.task.context, directory, &state->others_checksum, manifest, error);
}

/* Writes the weights: a model directory or, without an eitp_model, the parameters alone. */
static eitp_status eitp__fill_weights(const eitp_task *task, const char *directory, uint32_t *checksum,
                                      eitp__manifest *manifest, eitp_error *error) {
    eitp__file_sum sum = EITP__ZERO;
    eitp_status status;
    if (!task->model)
        return eitp__fill_variables(task->context, directory, EITP__WEIGHTS_FILE, EITP_PARAMETER, checksum, manifest,
                                    error);
    status = eitp__model_save(task->model, directory, EITP_F32, -1, checksum, &sum, error);
    return status ? status : eitp__manifest_add(manifest, EITP__WEIGHTS_FILE, &sum, error);
}

/* ---- The size of a checkpoint ---- */

/* Bytes of a variable in a file: floating-point numbers are written as f32. */
static uint64_t eitp__variable_file_bytes(const eitp_variable *variable) {
    const uint64_t header = 160 + 2 * (uint64_t)strlen(variable->name);
    const uint64_t elements = variable->size / eitp_dtype_size(variable->dtype);
    const eitp_dtype wide = eitp__wide(variable->dtype);
    return header + elements * eitp_dtype_size(wide == EITP_F32 ? wide : variable->dtype);
}

EITP__PRIVATE void eitp__trainer_checkpoint_size(const eitp_trainer *trainer, uint64_t *total, uint64_t *largest) {
    const uint64_t others = 65536; /* configuration, state, tokenizer, and incomplete blocks of the file system */
    const eitp_task *task = &trainer->plans.task;
    const int has_adapters = task->model && eitp_model_lora_config(task->model).rank > 0;
    uint64_t weights = 0, beside_adapters = 0, optimizer = 0;
    for (size_t i = 0; i < eitp_variable_count(task->context); i++) {
        const eitp_variable variable = eitp_variable_at(task->context, i);
        const uint64_t bytes = eitp__variable_file_bytes(&variable);
        if (variable.role == EITP_OPTIMIZER)
            optimizer += bytes;
        else if (variable.role == EITP_PARAMETER && (!has_adapters || eitp__lora_is_adapter(variable.name)))
            weights += bytes;
        else if (variable.role == EITP_PARAMETER && variable.trained)
            beside_adapters += bytes;
    }
    *total = weights + beside_adapters + optimizer + others;
    *largest = weights > optimizer ? weights : optimizer;
    if (beside_adapters > *largest)
        *largest = beside_adapters;
}

/* ---- Writing it ---- */

/* A trainer, and what else a checkpoint holds. */
typedef struct eitp__checkpoint_content {
    eitp_trainer *trainer;
    const eitp__save_options *options;
    eitp__manifest manifest; /* of the large files, which are summed as they are written */
} eitp__checkpoint_content;

/* Writes all files of a checkpoint into a directory. */
static eitp_status eitp__fill_checkpoint(void *user, const char *directory, eitp_error *error) {
    eitp__checkpoint_content *content = (eitp__checkpoint_content *)user;
    eitp__manifest *manifest = &content->manifest;
    eitp_trainer *trainer = content->trainer;
    const eitp_task *task = &trainer->plans.task;
    eitp__state state;
    uint32_t model_checksum = 0, optimizer_checksum = 0;
    char *path = eitp__join_path(&trainer->host, directory, EITP__STATE_FILE);
    eitp_status status = path ? EITP_OK : eitp__fail_memory(error, strlen(directory), "a path");
    if (!status)
        status = eitp__state_of(trainer, &state, error);
    if (!status && task->save)
        status = task->save(task->user, directory, error);
    if (!status && content->options->fill)
        status = content->options->fill(content->options->user, directory, error);
    /* After the program's files, which cannot change these: their sums are known when they are written. */
    if (!status && state.info.lora.rank)
        status = eitp__fill_adapters(trainer, directory, &model_checksum, &state, manifest, error);
    else if (!status)
        status = eitp__fill_weights(task, directory, &model_checksum, manifest, error);
    if (!status)
        status = eitp__fill_variables(task->context, directory, EITP__OPTIMIZER_FILE, EITP_OPTIMIZER,
                                      &optimizer_checksum, manifest, error);
    state.model_checksum = model_checksum;
    state.optimizer_checksum = optimizer_checksum;
    if (!status)
        status = eitp__state_write(&trainer->host, eitp_model_config(task->model).architecture, path, &state, error);
    eitp__release_text(&trainer->host, path);
    return status;
}

EITP__PRIVATE eitp_status eitp__trainer_save(eitp_trainer *trainer, const char *output_directory,
                                             const eitp__save_options *options, eitp_error *error) {
    eitp_status status = eitp__trainer_check_whole(trainer, error);
    eitp__checkpoint_content content;
    content.trainer = trainer;
    content.options = options;
    eitp__manifest_init(&content.manifest, &trainer->host, trainer->step, !options->uncounted);
    /* The task does not save while it reads. A program that stops does not wait for samples that it will not use. */
    if (eitp__read_ahead_wait(&trainer->plans.ahead, &trainer->plans.task.context->poll, NULL))
        eitp__read_ahead_cancel(&trainer->plans.ahead);
    if (!status)
        status = eitp__checkpoint_create(&trainer->host, output_directory, options->suffix, &content.manifest,
                                         eitp__fill_checkpoint, &content, error);
    eitp__manifest_release(&content.manifest);
    return status;
}

eitp_status eitp_trainer_save(eitp_trainer *trainer, const char *output_directory, eitp_error *error) {
    static const eitp__save_options options = {"", 0, NULL, NULL};
    if (!trainer || !output_directory)
        return eitp__fail_null(error, "eitp_trainer_save", "trainer and output_directory");
    return eitp__trainer_save(trainer, output_directory, &options, error);
}
