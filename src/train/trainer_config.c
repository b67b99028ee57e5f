#include "model/transformer.h"
#include "objective/binding.h"
#include "objective/objective_settings.h"
#include "objective/resolve.h"
#include "optim/optim_settings.h"
#include "optim/optimizers.h"
#include "train/trainer.h"
#include "train/trainer_settings.h"
#include "train/trainer_state.h"

#define EITP__TRAINER_SETTING(member, name, kind, value, min, max, flags, difference, choices, help)                   \
    EITP__SETTING(eitp_trainer_config, , member, name, kind, value, min, max, flags, difference, choices, help)

static const eitp_setting eitp__trainer_settings[] = {
    EITP__TRAINER_SETTING(dense_rows, "dense_rows", FLAG, 0, 0, 1, EITP_SETTING_OPTIONAL, REFUSED, NULL,
                          "no padding between the micro-batches of a pass: slightly faster for odd shapes, but results "
                          "depend on their number per pass"),
    EITP__TRAINER_SETTING(batch_size, "batch_size", INTEGER, 1, 1, 1 << 20, 0, REFUSED, NULL,
                          "sequences per micro-batch"),
    EITP__TRAINER_SETTING(grad_accum, "grad_accum", INTEGER, 4, 1, 1 << 20, 0, REFUSED, NULL, "micro-batches per step"),
    EITP__TRAINER_SETTING(micro_batches_per_pass, "micro_batches_per_pass", INTEGER, 0, 0, 1 << 20, 0, ACCEPTED, NULL,
                          "micro-batches per forward and backward pass; 0: as many as memory allows"),
    EITP__TRAINER_SETTING(data_workers, "data_workers", INTEGER, 0, 0, 256, EITP_SETTING_OPTIONAL, ACCEPTED, NULL,
                          "threads that read batches ahead; 0: read in the training thread"),
    EITP__TRAINER_SETTING(prefetch, "prefetch", INTEGER, 2, 1, 1024, EITP_SETTING_OPTIONAL, ACCEPTED, NULL,
                          "steps that each data worker reads ahead"),
    EITP__TRAINER_SETTING(seed, "seed", UNSIGNED, 0, 0, EITP__UNBOUNDED, 0, REFUSED, NULL,
                          "seed of dropout and shuffling"),
    EITP__TRAINER_SETTING(shuffle, "shuffle", CHOICE, EITP_SHUFFLE_WINDOWS, 0, 1, 0, REFUSED, "none windows",
                          "order of the training windows in an epoch"),
    EITP__TRAINER_SETTING(schedule.kind, "lr_schedule", CHOICE, EITP_SCHEDULE_CONSTANT, 0, 4, 0, LOGGED,
                          "constant linear cosine cosine_with_restarts plateau",
                          "learning rate schedule after warm-up; plateau: reduce the rate when the validation loss has "
                          "stopped improving"),
    EITP__TRAINER_SETTING(schedule.cycles, "lr_cycles", INTEGER, 1, 1, EITP__LARGEST_COUNT, EITP_SETTING_OPTIONAL,
                          LOGGED, NULL, "cycles of cosine_with_restarts"),
    EITP__TRAINER_SETTING(plateau.factor, "plateau_factor", NUMBER, 0.1, 0, 1,
                          EITP_SETTING_OPTIONAL | EITP_SETTING_BELOW, LOGGED, NULL,
                          "factor by which plateau reduces the learning rate"),
    EITP__TRAINER_SETTING(plateau.patience, "plateau_patience", INTEGER, 10, 0, EITP__LARGEST_COUNT,
                          EITP_SETTING_OPTIONAL, LOGGED, NULL,
                          "plateau reduces the rate after more than N evaluations in a row without improvement"),
    EITP__TRAINER_SETTING(plateau.threshold, "plateau_threshold", NUMBER, 1e-4, 0, 1,
                          EITP_SETTING_OPTIONAL | EITP_SETTING_BELOW, LOGGED, NULL,
                          "smallest improvement of the validation loss that counts for plateau, as a fraction of it"),
    EITP__TRAINER_SETTING(plateau.cooldown, "plateau_cooldown", INTEGER, 0, 0, EITP__LARGEST_COUNT,
                          EITP_SETTING_OPTIONAL, LOGGED, NULL,
                          "evaluations after a reduction before plateau counts again"),
    EITP__TRAINER_SETTING(schedule.warmup, "warmup_steps", INTEGER, 0, 0, EITP__LARGEST_COUNT, 0, LOGGED, NULL,
                          "steps over which the learning rate rises to its peak"),
    EITP__TRAINER_SETTING(schedule.warmup_from_zero, "warmup_from_zero", FLAG, 0, 0, 1, EITP_SETTING_OPTIONAL, LOGGED,
                          NULL,
                          "start the warm-up at a rate of 0, as transformers does, which delays its rates by one step"),
    EITP__TRAINER_SETTING(schedule.steps, "schedule_steps", INTEGER, 0, 0, EITP__LARGEST_COUNT, 0, LOGGED, NULL,
                          "step at which the schedule ends"),
    EITP__TRAINER_SETTING(last_sample, "last_sample", UNSIGNED, 0, 0, EITP__LARGEST_COUNT, 0, LOGGED, NULL,
                          "samples after which training stops; 0: never"),
    EITP__TRAINER_SETTING(save_dtype, "save_dtype", CHOICE, EITP_SAVE_AS_LOADED, 0, EITP_SAVE_F16,
                          EITP_SETTING_OPTIONAL, ACCEPTED, "auto f32 bf16 f16",
                          "dtype of weights in files, which a resume restores exactly; auto: as in the model that the "
                          "run starts from, f32 for a new model and for adapters"),
    EITP__TRAINER_SETTING(max_grad_norm, "max_grad_norm", NUMBER, 0.5, 0, 1e30, 0, LOGGED, NULL,
                          "clip the gradient to this norm; 0: no clipping"),
    EITP__OBJECTIVE_SETTINGS(eitp_trainer_config, objective.),
    EITP__TRAINER_SETTING(spike_threshold, "spike_threshold", NUMBER, 10, 0, 1e30, EITP_SETTING_OPTIONAL, LOGGED, NULL,
                          "a loss or gradient norm this many deviations above the median of the last steps is a spike; "
                          "0: never"),
    EITP__TRAINER_SETTING(skip_spikes, "skip_spikes", FLAG, 0, 0, 1, EITP_SETTING_OPTIONAL, LOGGED, NULL,
                          "do not apply a step whose gradient norm is a spike"),
    EITP__TRAINER_SETTING(noise_scale_every, "noise_scale_every", INTEGER, 0, 0, EITP__LARGEST_COUNT,
                          EITP_SETTING_OPTIONAL, ACCEPTED, NULL,
                          "measure the gradient noise scale every N steps with several passes, which reads the "
                          "gradients once more; 0: never"),
    EITP__OPTIMIZER_SETTINGS(eitp_trainer_config, optimizer_config.),
    EITP__TRAINER_SETTING(schedule.peak, "lr", NUMBER, 5e-5, 0, 1000, 0, LOGGED, NULL, "peak learning rate"),
    EITP__TRAINER_SETTING(layer_lr_decay, "layer_lr_decay", NUMBER, 1, 0, 1, EITP_SETTING_OPTIONAL | EITP_SETTING_ABOVE,
                          LOGGED, NULL,
                          "factor of the learning rate from each layer to the one below it; 1: the same for all"),
    EITP__TRAINER_SETTING(schedule.final, "final_lr", NUMBER, 0, 0, 1000, 0, LOGGED, NULL,
                          "learning rate at the end of the schedule; with plateau, the lowest one"),
};

EITP__PRIVATE const eitp_setting *eitp__trainer_setting_table(size_t *count) {
    if (count)
        *count = EITP__COUNT(eitp__trainer_settings);
    return eitp__trainer_settings;
}

eitp_plateau_config eitp_plateau_config_default(void) {
    return eitp_trainer_config_default().plateau;
}

eitp_trainer_config eitp_trainer_config_default(void) {
    eitp_trainer_config config = EITP__ZERO;
    config.optimizer_config = eitp_optimizer_config_default();
    eitp__settings_reset(eitp__trainer_settings, EITP__COUNT(eitp__trainer_settings), &config);
    return config;
}

EITP__PRIVATE eitp_status eitp__trainer_settings_check(const eitp_trainer_config *config, eitp_error *error) {
    eitp_objective_config resolved;
    eitp_status status =
        eitp__settings_check(eitp__trainer_settings, EITP__COUNT(eitp__trainer_settings), config, error);
    if (!status && config->micro_batches_per_pass > config->grad_accum)
        status = eitp__fail(error, EITP_ERROR_ARGUMENT,
                            "micro_batches_per_pass must be 0 to grad_accum, which is %lld (got %lld)",
                            (long long)config->grad_accum, (long long)config->micro_batches_per_pass);
    if (!status)
        status = eitp__objective_resolve(&config->objective, &resolved, error);
    if (!status && config->skip_spikes && !(config->spike_threshold > 0))
        status = eitp__fail(error, EITP_ERROR_ARGUMENT, "skip_spikes needs a spike_threshold above 0 (got %g)",
                            config->spike_threshold);
    return status;
}

/* Checks that the context stores parameters in the form that the optimizer updates. */
static eitp_status eitp__check_optimizer(const eitp_trainer_config *config, const eitp_context *context,
                                         eitp_error *error) {
    const eitp_optimizer_info *optimizer = eitp_optimizer_get(config->optimizer_config.optimizer);
    if (!optimizer)
        return eitp__optimizer_check(config->optimizer_config.optimizer, error);
    if (eitp_context_precision(context) == EITP_F16 && optimizer->parameters != EITP_PARAMETERS_EXACT)
        return eitp__fail(error, EITP_ERROR_UNSUPPORTED, "%s does not support fp16; use bf16 or fp32", optimizer->name);
    if (eitp_context_precision(context) != EITP_F32 && eitp_context_parameters(context) != optimizer->parameters)
        return eitp__fail(error, EITP_ERROR_ARGUMENT,
                          "the context does not store 16-bit parameters in the form that %s needs; set "
                          "eitp_context_config.parameters to eitp_optimizer_get(optimizer)->parameters",
                          optimizer->name);
    return EITP_OK;
}

EITP__PRIVATE eitp_status eitp__trainer_config_check(const eitp_trainer_config *config, const eitp_task *task,
                                                     eitp_error *error) {
    eitp_status status = eitp__trainer_settings_check(config, error);
    if (!status && config->layer_lr_decay < 1 && (!task->model || task->model->config.layers < 1))
        status = eitp__fail(error, EITP_ERROR_ARGUMENT,
                            "layer_lr_decay is %g, but the task has no model with blocks; set it to 1",
                            config->layer_lr_decay);
    if (!status && config->save_dtype > EITP_SAVE_F32 && eitp_model_lora_config(task->model).rank > 0)
        status = eitp__fail(error, EITP_ERROR_ARGUMENT, "save_dtype: adapters are saved as f32; set it to auto or f32");
    if (!status)
        status = eitp__objective_check_task(&config->objective, task, config->batch_size, error);
    return status ? status : eitp__check_optimizer(config, task->context, error);
}

eitp_status eitp_trainer_config_set_epochs(eitp_trainer_config *config, const eitp_task *task, double epochs,
                                           eitp_error *error) {
    const double limit = 9e15; /* a double represents every smaller sample count exactly */
    const eitp__data_position start = EITP__ZERO;
    double samples;
    if (!config || !task)
        return eitp__fail_null(error, "eitp_trainer_config_set_epochs", "config and task");
    samples = (double)task->samples[EITP_TRAINING];
    /* Rounds up, unless the product exceeds a whole number only because of rounding errors. */
    samples = ceil(samples * epochs - 1e-9 * samples);
    if (!(epochs > 0) || !(samples <= limit))
        return eitp__fail(error, EITP_ERROR_ARGUMENT,
                          "epochs must be above 0 and at most %g samples in total (got %g epochs of %llu samples)",
                          limit, epochs, (unsigned long long)task->samples[EITP_TRAINING]);
    if (config->batch_size < 1 || config->grad_accum < 1 || config->batch_size > EITP__MAX_BATCH ||
        config->grad_accum > EITP__MAX_BATCH)
        return eitp__fail(error, EITP_ERROR_ARGUMENT, "set batch_size and grad_accum, 1 to %d each, before the epochs",
                          EITP__MAX_BATCH);
    config->last_sample = samples < 1 ? 1 : (uint64_t)samples;
    config->schedule.steps = eitp__steps_to_last(config, &start);
    return EITP_OK;
}
