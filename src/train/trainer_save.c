/*
 * Saving: a checkpoint is a model directory with optimizer.safetensors, trainer_state.json and the files saved by the
 * task. If the model has adapters, they replace the frozen weights. Other trained parameters are in
 * parameters.safetensors. The upper plane of 16-bit weights is in the model directory, the lower plane in
 * optimizer.safetensors (io/weight_planes.h).
 *
 * A save has two halves. The first copies everything from the trainer: large files go through a queue, small files to
 * the disk. The second completes the checkpoint. The trainer may make steps in between, if the queue has room for
 * everything.
 */
#include "base/convert.h"
#include "base/files.h"
#include "base/log.h"
#include "io/checkpoint.h"
#include "io/lora_files.h"
#include "io/model_directory.h"
#include "io/variables.h"
#include "model/transformer.h"
#include "model/transformer_config.h"
#include "train/trainer_state.h"

/* A checkpoint being written. */
struct eitp__save {
    eitp_host host;
    eitp_trainer *trainer;
    const eitp__save_options *options; /* valid only in eitp__save_begin */
    eitp__pending_directory pending;
    eitp__manifest manifest;   /* manifest of the large files, whose checksums are computed while they are written */
    eitp__write_behind *queue; /* the caller's; NULL: each large file is written completely at once */
    eitp_save_dtype dtype;     /* dtype of the weights */
};

/* ---- The files ---- */

/* Adds a written file to the manifest. */
static eitp_status eitp__save_list(eitp__save *save, const char *name, const eitp__file_output *output,
                                   eitp_error *error) {
    return eitp__manifest_add(&save->manifest, name, &output->sum, error);
}

/* Writes a file of variables. */
static eitp_status eitp__save_parts(eitp__save *save, const char *name, const eitp__file_part *parts, size_t count,
                                    uint32_t *checksum, eitp_error *error) {
    eitp_context *context = save->trainer->plans.task.context;
    eitp__file_output output = EITP__ZERO;
    char *path = eitp__join_path(&save->host, save->pending.partial, name);
    eitp_status status;
    output.queue = save->queue;
    status = path ? eitp__variables_save_parts(context, path, parts, count, checksum, &output, error)
                  : eitp__fail_memory(error, strlen(save->pending.partial), "a path");
    eitp__release_text(&save->host, path);
    return status ? status : eitp__save_list(save, name, &output, error);
}

/* Lists the weight files in a checkpoint of the task, unless it has adapters instead. */
static int eitp__weights_of(const eitp_task *task, eitp__model_file files[EITP__MODEL_FILES]) {
    if (task->model)
        return eitp_model_lora_config(task->model).rank > 0 ? 0 : eitp__model_files(task->model, files);
    files[0].name = EITP__WEIGHTS_FILE;
    files[0].selection = eitp__select_role(EITP_PARAMETER);
    return 1;
}

/* Writes the parameters that are saved separately from the model, if there are any. */
static eitp_status eitp__save_others(eitp__save *save, int64_t *extra_parameters_checksum, eitp_error *error) {
    const eitp_task *task = &save->trainer->plans.task;
    const int has_adapters = eitp_model_lora_config(task->model).rank > 0;
    eitp__file_output output = EITP__ZERO;
    uint32_t checksum = 0;
    eitp_status status;
    *extra_parameters_checksum = -1;
    if (!task->model || !eitp__lora_has_separate(task->context, has_adapters))
        return EITP_OK;
    output.queue = save->queue;
    status = eitp__lora_save_others(task->context, has_adapters, save->pending.partial, &checksum, &output, error);
    *extra_parameters_checksum = checksum;
    return status ? status : eitp__save_list(save, EITP__LORA_OTHERS_FILE, &output, error);
}

/* Writes the adapters and their model's configuration. */
static eitp_status eitp__save_adapters(eitp__save *save, uint32_t *checksum, eitp__state *state, eitp_error *error) {
    eitp_model *model = save->trainer->plans.task.model;
    const char *directory = save->pending.partial;
    char *path = eitp__join_path(&save->host, directory, "config.json");
    eitp__file_output output = EITP__ZERO;
    uint32_t base = 0;
    eitp_status status = path ? EITP_OK : eitp__fail_memory(error, strlen(directory), "a path");
    output.queue = save->queue;
    if (!status)
        status = eitp__transformer_config_write(&save->host, path, &model->config, model->labels, model->other_keys, -1,
                                                EITP_F32, error);
    eitp__release_text(&save->host, path);
    if (!status)
        status = eitp__lora_save(model, directory, NULL, checksum, &output, error);
    if (!status)
        status = eitp__save_list(save, EITP__LORA_WEIGHTS_FILE, &output, error);
    if (!status)
        status = eitp__lora_base_checksum(model, &base, error);
    state->base_checksum = base;
    return status;
}

/* Chooses the dtype of the weights: F32 if F16 cannot represent them, so that the checkpoint loses nothing. */
static eitp_status eitp__save_choose_dtype(eitp__save *save, eitp_error *error) {
    const eitp_trainer *trainer = save->trainer;
    eitp__model_file files[EITP__MODEL_FILES];
    eitp_status status = EITP_OK;
    save->dtype = trainer->plans.config.save_dtype;
    for (int i = 0, count = eitp__weights_of(&trainer->plans.task, files); i < count && !status; i++) {
        const char *name;
        float value = 0;
        status = eitp__selection_find_overflow(trainer->plans.task.context, &files[i].selection, save->dtype, &name,
                                               &value, error);
        if (status || !name)
            continue;
        eitp__log_line(
            &save->host, EITP_LOG_WARNING,
            "the checkpoint of step %lld stores its weights in f32: f16 cannot represent the value %g of '%s'",
            (long long)trainer->step, (double)value, name);
        save->dtype = EITP_SAVE_F32;
    }
    return status;
}

/* Writes the weights: a model directory or, without an eitp_model, only the parameters. */
static eitp_status eitp__save_weights(eitp__save *save, uint32_t *checksum, eitp_error *error) {
    const eitp_task *task = &save->trainer->plans.task;
    eitp__model_file files[EITP__MODEL_FILES];
    eitp_status status =
        task->model ? eitp__model_save_configs(task->model, save->pending.partial, save->dtype, -1, error) : EITP_OK;
    for (int i = 0, count = eitp__weights_of(task, files); i < count && !status; i++) {
        eitp__file_part part;
        part.selection = &files[i].selection;
        part.dtype = save->dtype;
        part.plane = EITP__PLANE_UPPER;
        status = eitp__save_parts(save, files[i].name, &part, 1, i ? NULL : checksum, error);
    }
    return status;
}

/* Writes the optimizer's state, and the lower planes of the weights. */
static eitp_status eitp__save_optimizer(eitp__save *save, uint32_t *checksum, eitp_error *error) {
    const eitp__selection states = eitp__select_role(EITP_OPTIMIZER);
    eitp__model_file files[EITP__MODEL_FILES];
    eitp__file_part parts[EITP__MODEL_FILES + 1];
    const int count = eitp__weights_of(&save->trainer->plans.task, files);
    parts[0].selection = &states;
    parts[0].dtype = EITP_SAVE_F32;
    parts[0].plane = EITP__PLANE_ALONE;
    for (int i = 0; i < count; i++) {
        parts[i + 1].selection = &files[i].selection;
        parts[i + 1].dtype = save->dtype;
        parts[i + 1].plane = EITP__PLANE_LOWER;
    }
    return eitp__save_parts(save, EITP__OPTIMIZER_FILE, parts, (size_t)count + 1, checksum, error);
}

/* ---- The size of a checkpoint ---- */

/* Returns the bytes of a variable in a file, where floating-point numbers are f32. */
static uint64_t eitp__variable_file_bytes(const eitp_variable *variable) {
    const uint64_t header = 160 + 2 * (uint64_t)strlen(variable->name);
    const uint64_t elements = variable->size / eitp_dtype_size(variable->dtype);
    const eitp_dtype wide = eitp__wide(variable->dtype);
    return header + elements * eitp_dtype_size(wide == EITP_F32 ? wide : variable->dtype);
}

EITP__PRIVATE void eitp__checkpoint_size(const eitp_task *task, eitp_save_dtype dtype, uint64_t *total,
                                         uint64_t *largest) {
    const uint64_t others = 65536; /* configuration, state, tokenizer, and incomplete blocks of the file system */
    const int has_adapters = task->model && eitp_model_lora_config(task->model).rank > 0;
    uint64_t weights = 0, beside = 0, optimizer = 0;
    eitp__model_file files[EITP__MODEL_FILES];
    for (int i = 0, count = eitp__weights_of(task, files); i < count; i++)
        eitp__selection_bytes(task->context, &files[i].selection, dtype, &weights, &optimizer);
    for (size_t i = 0; i < eitp_variable_count(task->context); i++) {
        const eitp_variable variable = eitp_variable_at(task->context, i);
        const uint64_t bytes = eitp__variable_file_bytes(&variable);
        if (variable.role == EITP_OPTIMIZER)
            optimizer += bytes;
        else if (variable.role == EITP_PARAMETER && variable.of_learner && task->model)
            beside += bytes;
        else if (variable.role == EITP_PARAMETER && has_adapters && eitp__lora_is_adapter(variable.name))
            weights += bytes;
        else if (variable.role == EITP_PARAMETER && has_adapters && variable.trained)
            beside += bytes;
    }
    *total = weights + beside + optimizer + others;
    *largest = weights > optimizer ? weights : optimizer;
    if (beside > *largest)
        *largest = beside;
}

EITP__PRIVATE void eitp__trainer_checkpoint_size(const eitp_trainer *trainer, uint64_t *total, uint64_t *largest) {
    eitp__checkpoint_size(&trainer->plans.task, trainer->plans.config.save_dtype, total, largest);
}

/* ---- Saving ---- */

/* Writes all files except the manifest. */
static eitp_status eitp__save_fill(eitp__save *save, eitp_error *error) {
    const eitp__save_options *options = save->options;
    const eitp_trainer *trainer = save->trainer;
    const eitp_task *task = &trainer->plans.task;
    const char *directory = save->pending.partial;
    eitp__state state;
    uint32_t model_checksum = 0, optimizer_checksum = 0;
    char *path = eitp__join_path(&save->host, directory, EITP__STATE_FILE);
    eitp_status status = path ? EITP_OK : eitp__fail_memory(error, strlen(directory), "a path");
    if (!status)
        status = eitp__save_choose_dtype(save, error);
    if (!status)
        status = eitp__state_of(trainer, &state, error);
    if (!status && task->save)
        status = task->save(task->user, directory, error);
    if (!status && options->fill)
        status = options->fill(options->user, directory, error);
    /* Written after the program's files, which then cannot change these. The checksums are computed while writing. */
    if (!status && state.info.lora.rank)
        status = eitp__save_adapters(save, &model_checksum, &state, error);
    else if (!status)
        status = eitp__save_weights(save, &model_checksum, error);
    if (!status)
        status = eitp__save_others(save, &state.extra_parameters_checksum, error);
    if (!status)
        status = eitp__save_optimizer(save, &optimizer_checksum, error);
    state.model_checksum = model_checksum;
    state.optimizer_checksum = optimizer_checksum;
    if (!status)
        status = eitp__state_write(&save->host, eitp_model_config(task->model).architecture, path, &state, error);
    eitp__release_text(&save->host, path);
    /* A repeated save then depends only on the copy. */
    if (!status && save->queue)
        status = eitp__manifest_add_others(&save->manifest, directory, error);
    return status;
}

EITP__PRIVATE eitp_status eitp__save_create_queue(const eitp_trainer *trainer, eitp__write_behind **queue,
                                                  eitp_error *error) {
    const size_t files = EITP__MODEL_FILES + 2; /* weights, others and optimizer state */
    uint64_t bytes, largest;
    eitp__checkpoint_size(&trainer->plans.task, trainer->plans.config.save_dtype, &bytes, &largest);
    return eitp__write_behind_create(&trainer->host, bytes, files, queue, error);
}

EITP__PRIVATE eitp_status eitp__save_begin(eitp_trainer *trainer, const char *output_directory,
                                           const eitp__save_options *options, eitp__write_behind *queue,
                                           eitp__save **save, eitp_error *error) {
    eitp_status status = eitp__trainer_check_whole(trainer, error);
    eitp__save *created;
    *save = NULL;
    /* The task does not save while it reads. A program that is stopping does not wait for samples that it will not
       use. */
    if (eitp__read_ahead_wait(&trainer->plans.ahead, &trainer->plans.task.context->poll, NULL))
        eitp__read_ahead_cancel(&trainer->plans.ahead);
    if (status)
        return status;
    created = (eitp__save *)eitp__allocate(&trainer->host, sizeof *created);
    if (!created)
        return eitp__fail_memory(error, sizeof *created, "a checkpoint");
    created->host = trainer->host;
    created->trainer = trainer;
    created->options = options;
    created->queue = queue;
    eitp__manifest_init(&created->manifest, &created->host, trainer->step, !options->uncounted);
    status = eitp__checkpoint_begin(&created->host, output_directory, options->suffix, trainer->step, &created->pending,
                                    error);
    if (!status)
        status = eitp__save_fill(created, error);
    if (status)
        eitp__save_abandon(created);
    else
        *save = created;
    return status;
}

EITP__PRIVATE int eitp__save_is_written(const eitp__save *save) {
    return !save->queue || eitp__behind_is_idle(save->queue);
}

EITP__PRIVATE int64_t eitp__save_step(const eitp__save *save) {
    return save->manifest.step;
}

EITP__PRIVATE eitp_status eitp__save_commit(eitp__save *save, eitp_error *error) {
    eitp_status status = save->queue ? eitp__behind_finish(save->queue, error) : EITP_OK;
    if (!status)
        status = eitp__checkpoint_commit(&save->pending, &save->manifest, error);
    if (!status)
        eitp__save_abandon(save);
    return status;
}

EITP__PRIVATE int eitp__save_can_repeat(const eitp__save *save) {
    return save->queue && eitp__behind_can_repeat(save->queue);
}

EITP__PRIVATE eitp_status eitp__save_repeat(eitp__save *save, eitp_error *error) {
    return eitp__behind_repeat(save->queue, error);
}

EITP__PRIVATE void eitp__save_abandon(eitp__save *save) {
    eitp_host host;
    if (!save)
        return;
    host = save->host;
    if (save->queue)
        eitp__write_behind_clear(save->queue);
    eitp__pending_directory_abandon(&save->pending);
    eitp__manifest_release(&save->manifest);
    eitp__release(&host, save, sizeof *save);
}

EITP__PRIVATE eitp_status eitp__trainer_save(eitp_trainer *trainer, const char *output_directory,
                                             const eitp__save_options *options, eitp_error *error) {
    eitp__save *save;
    eitp_status status = eitp__save_begin(trainer, output_directory, options, NULL, &save, error);
    if (status)
        return status;
    status = eitp__save_commit(save, error);
    if (status)
        eitp__save_abandon(save);
    return status;
}

eitp_status eitp_trainer_save(eitp_trainer *trainer, const char *output_directory, eitp_error *error) {
    static const eitp__save_options options = {"", 0, NULL, NULL};
    if (!trainer || !output_directory)
        return eitp__fail_null(error, "eitp_trainer_save", "trainer and output_directory");
    return eitp__trainer_save(trainer, output_directory, &options, error);
}
