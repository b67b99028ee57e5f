#include "base/log.h"
#include "objective/objective_settings.h"
#include "train/trainer.h"

/* Dynamic loss scaling starts high and decreases within a few skipped steps. */
#define EITP__FIRST_LOSS_SCALE 65536.0

/* Logs the cost of separate passes for regularizers and of term norms, as a fraction of the arithmetic of an average
   step. */
static void eitp__log_prices(const eitp_trainer *trainer) {
    const eitp__step_plans *plans = &trainer->plans;
    const eitp__term_norms *norms = &plans->term_norms;
    const int64_t norms_every = plans->objective.config.term_norms_every;
    const double step = eitp__step_full_passes(&plans->config) * eitp_plan_statistics(plans->gradient_plan).flops;
    eitp_plan_stats all = EITP__ZERO;
    for (int i = 0; i < plans->probes.count; i++) {
        const eitp__probe *probe = &plans->probes.of[i];
        const double flops = eitp_plan_statistics(probe->plan).flops;
        eitp__log_line(
            &trainer->host, EITP_LOG_INFO,
            "%s takes a separate pass in one of %lld steps, which adds %.2g %% to the arithmetic of training",
            eitp__regularizer_name(probe->kind.regularizer), (long long)probe->kind.timing.every,
            100 * flops / (double)probe->kind.timing.every / step);
    }
    eitp__term_norms_count(norms, 1, &all);
    if (norms->count)
        eitp__log_line(
            &trainer->host, EITP_LOG_INFO,
            "measuring the gradient norms of terms in one of %lld steps adds %.2g %% to the arithmetic of training",
            (long long)norms_every, 100 * all.flops / (double)norms_every / step);
}

eitp_status eitp_trainer_create(const eitp_task *task, const eitp_trainer_config *config, eitp_trainer **trainer,
                                eitp_error *error) {
    eitp_trainer *created;
    eitp_status status;
    if (!task || !config || !trainer)
        return eitp__fail_null(error, "eitp_trainer_create", "task, config and trainer");
    *trainer = NULL;
    status = eitp__task_check(task, error);
    if (!status && !task->samples[EITP_TRAINING])
        status = eitp__fail(error, EITP_ERROR_ARGUMENT, "the task has no training samples");
    if (!status)
        status = eitp__trainer_config_check(config, task, error);
    if (status)
        return status;
    const eitp_host host = eitp_context_host(task->context);
    created = (eitp_trainer *)eitp__allocate(&host, sizeof *created);
    if (!created)
        return eitp__fail_memory(error, sizeof *created, "a trainer");
    created->host = host;
    created->loss_scale = eitp_context_precision(task->context) == EITP_F16 ? EITP__FIRST_LOSS_SCALE : 1;
    eitp__plateau_init(&created->plateau);
    eitp__step_plans_init(&created->plans, task, config, 0);
    status = eitp__readers_create(&host, config->data_workers, &created->readers, error);
    if (!status)
        status = eitp__controllers_create(task->context, &created->plans.objective.config, error);
    if (!status)
        status = eitp__step_plans_create(&created->plans, error);
    if (status) {
        eitp_trainer_destroy(created);
        return status;
    }
    eitp__log_prices(created);
    created->initial_shape = eitp__step_shape_of(&created->plans.config);
    *trainer = created;
    return EITP_OK;
}

void eitp_trainer_destroy(eitp_trainer *trainer) {
    eitp_host host;
    if (!trainer)
        return;
    host = trainer->host;
    eitp__step_plans_discard(&trainer->plans);
    eitp__readers_release(&trainer->readers);
    eitp__release(&host, trainer->activations, sizeof *trainer->activations);
    eitp__release(&host, trainer, sizeof *trainer);
}

int eitp_trainer_is_inconsistent(const eitp_trainer *trainer) {
    return trainer && trainer->is_inconsistent;
}

EITP__PRIVATE eitp_status eitp__trainer_check_whole(const eitp_trainer *trainer, eitp_error *error) {
    return trainer->is_inconsistent ? eitp__fail(error, EITP_ERROR_INCONSISTENT,
                                                 "a step or a resume failed half-way, so weights and optimizer state "
                                                 "are inconsistent; resume from the last checkpoint")
                                    : EITP_OK;
}

int64_t eitp_trainer_steps_done(const eitp_trainer *trainer) {
    return trainer ? trainer->step : 0;
}

EITP__PRIVATE uint64_t eitp__trainer_samples(const eitp_trainer *trainer, int64_t step) {
    return eitp__samples_after(&trainer->plans.config, &trainer->start, step);
}

eitp_step_shape eitp_trainer_shape(const eitp_trainer *trainer) {
    eitp_step_shape none = EITP__ZERO;
    return trainer ? eitp__step_shape_of(&trainer->plans.config) : none;
}

int64_t eitp_trainer_micro_batches_per_pass(const eitp_trainer *trainer) {
    return trainer ? trainer->plans.config.micro_batches_per_pass : 0;
}

eitp_plan_stats eitp_trainer_statistics(const eitp_trainer *trainer) {
    eitp_plan_stats none = EITP__ZERO;
    return trainer && trainer->plans.gradient_plan ? eitp_plan_statistics(trainer->plans.gradient_plan) : none;
}

EITP__PRIVATE eitp_status eitp__trainer_restore_plans(eitp_trainer *trainer, eitp_error *error) {
    eitp_status status;
    if (eitp__step_plans_exist(&trainer->plans))
        return EITP_OK;
    status =
        eitp__step_plans_rebuild(&trainer->plans, &trainer->plans.config, trainer->plans.evaluation_samples, error);
    return status == EITP_ERROR_MEMORY
               ? eitp__fail_prefix(
                     error, status,
                     "not enough memory to recreate the plans that shrinking released; weights and optimizer "
                     "state are intact and can be saved")
               : status;
}
