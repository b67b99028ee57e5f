#include "model/transformer.h"
#include "optim/optimizers.h"
#include "train/setting_table.h"
#include "train/trainer.h"

eitp_trainer_config eitp_trainer_config_default(void) {
    eitp_trainer_config config;
    memset(&config, 0, sizeof config);
    config.batch_size = 1;
    config.grad_accum = 4;
    config.max_grad_norm = 0.5;
    config.spike_threshold = 10;
    config.optimizer_config = eitp_optimizer_config_default();
    config.schedule.kind = EITP_SCHEDULE_CONSTANT;
    config.schedule.peak = 5e-5;
    config.schedule.cycles = 1;
    config.layer_lr_decay = 1;
    config.shuffle = EITP_SHUFFLE_WINDOWS;
    config.prefetch = 2;
    return config;
}

/* The context must keep parameters in the form that the optimizer updates. */
static eitp_status eitp__check_optimizer(const eitp_trainer_config *config, const eitp_context *context,
                                         eitp_error *error) {
    const eitp_optimizer_info *optimizer = eitp_optimizer_get(config->optimizer_config.optimizer);
    if (!optimizer)
        return eitp__optimizer_check(config->optimizer_config.optimizer, error);
    if (eitp_context_precision(context) == EITP_F16 && optimizer->parameters != EITP_PARAMETERS_EXACT)
        return eitp__fail(error, EITP_ERROR_UNSUPPORTED, "%s does not support fp16; use bf16 or fp32", optimizer->name);
    if (eitp_context_precision(context) != EITP_F32 && eitp_context_parameters(context) != optimizer->parameters)
        return eitp__fail(error, EITP_ERROR_ARGUMENT,
                          "the context keeps 16-bit parameters in another form than %s needs; set "
                          "eitp_context_config.parameters to eitp_optimizer_get(optimizer)->parameters",
                          optimizer->name);
    return EITP_OK;
}

EITP__PRIVATE eitp_status eitp__trainer_config_check(const eitp_trainer_config *config, const eitp_task *task,
                                                     eitp_error *error) {
    eitp_status status = eitp__settings_check(config, error);
    if (!status && config->layer_lr_decay < 1 && (!task->model || task->model->config.layers < 1))
        status = eitp__fail(error, EITP_ERROR_ARGUMENT,
                            "layer_lr_decay is %g, but the task has no model with blocks; set it to 1",
                            config->layer_lr_decay);
    return status ? status : eitp__check_optimizer(config, task->context, error);
}

eitp_status eitp_trainer_config_set_epochs(eitp_trainer_config *config, const eitp_task *task, double epochs,
                                           eitp_error *error) {
    const double limit = 9e15; /* below it a double counts every sample */
    double samples;
    int64_t step_samples;
    if (!config || !task)
        return eitp__fail_null(error, "eitp_trainer_config_set_epochs", "config and task");
    samples = (double)task->samples[EITP_TRAINING];
    /* Rounds up, unless only rounding errors put the product above a whole number. */
    samples = ceil(samples * epochs - 1e-9 * samples);
    if (!(epochs > 0) || !(samples <= limit))
        return eitp__fail(error, EITP_ERROR_ARGUMENT,
                          "epochs must be above 0 and at most %g samples in total (got %g epochs of %llu samples)",
                          limit, epochs, (unsigned long long)task->samples[EITP_TRAINING]);
    if (config->batch_size < 1 || config->grad_accum < 1 || config->batch_size > EITP__MAX_BATCH ||
        config->grad_accum > EITP__MAX_BATCH)
        return eitp__fail(error, EITP_ERROR_ARGUMENT, "set batch_size and grad_accum, 1 to %d each, before the epochs",
                          EITP__MAX_BATCH);
    step_samples = config->batch_size * config->grad_accum;
    config->last_sample = samples < 1 ? 1 : (uint64_t)samples;
    config->schedule.steps = ((int64_t)config->last_sample + step_samples - 1) / step_samples;
    return EITP_OK;
}
