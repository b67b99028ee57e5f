/* Evaluation by a trainer, and of a task without a trainer. */
#include "base/log.h"
#include "train/trainer.h"

eitp_status eitp_trainer_evaluate(eitp_trainer *trainer, int64_t samples, eitp_evaluation *evaluation,
                                  eitp_error *error) {
    if (!trainer || !evaluation)
        return eitp__fail_null(error, "eitp_trainer_evaluate", "trainer and evaluation");
    eitp_status status = eitp__trainer_check_whole(trainer, error);
    if (!status && !trainer->plans.task.samples[EITP_VALIDATION])
        status = eitp__fail(error, EITP_ERROR_ARGUMENT, "the task has no validation samples");
    if (!status)
        status = eitp__trainer_restore_plans(trainer, error);
    if (!status)
        status = eitp__read_ahead_wait(&trainer->plans.ahead, &trainer->plans.task.context->poll, error);
    if (status)
        return status;
    return eitp__evaluator_run(&trainer->plans.evaluator, EITP_VALIDATION, samples, trainer->plans.config.seed,
                               trainer->step, evaluation, error);
}

EITP__PRIVATE void eitp__trainer_evaluation_progress(const eitp_trainer *trainer, uint64_t *done, uint64_t *count) {
    *done = trainer->plans.evaluator.done;
    *count = trainer->plans.evaluator.count;
}

EITP__PRIVATE int eitp__trainer_follows_plateau(const eitp_trainer *trainer) {
    const eitp_trainer_config *config = &trainer->plans.config;
    return config->schedule.kind == EITP_SCHEDULE_PLATEAU && !config->rate;
}

EITP__PRIVATE int eitp__trainer_lacks_evaluation(const eitp_trainer *trainer) {
    return eitp__trainer_follows_plateau(trainer) && trainer->plateau.evaluated_step != trainer->step;
}

int eitp_trainer_report_validation(eitp_trainer *trainer, double loss) {
    const eitp_trainer_config *config;
    int64_t evaluations;
    if (!trainer || !eitp__trainer_lacks_evaluation(trainer))
        return 0;
    config = &trainer->plans.config;
    evaluations = eitp__plateau_add(&trainer->plateau, &config->plateau, &config->schedule, trainer->step, loss);
    if (!evaluations)
        return 0;
    eitp__log_line(&trainer->host, EITP_LOG_INFO,
                   "learning rate reduced to %g: no improvement of the validation loss in %lld evaluation%s",
                   eitp__plateau_rate(&trainer->plateau, &config->schedule, trainer->step + 1), (long long)evaluations,
                   evaluations == 1 ? "" : "s");
    return 1;
}

/* True if the task has a loss term or a metric of this name, or if the name is "loss". */
static int eitp__find_direction(const eitp_trainer *trainer, const char *name, eitp_metric_direction *direction) {
    const eitp_pass *pass = &trainer->plans.evaluator.pass;
    const eitp_task *task = &trainer->plans.task;
    *direction = EITP_LOWER_IS_BETTER;
    for (int q = 0; q < pass->scalar_count; q++) {
        *direction = pass->scalars[q].direction;
        if (!strcmp(name, pass->scalars[q].name))
            return 1;
    }
    for (int m = 0; m < task->metric_count; m++) {
        *direction = task->metrics[m].direction;
        if (!strcmp(name, task->metrics[m].name))
            return 1;
    }
    *direction = EITP_LOWER_IS_BETTER;
    return !strcmp(name, "loss");
}

EITP__PRIVATE int eitp__trainer_has_metric(const eitp_trainer *trainer, const char *name) {
    eitp_metric_direction direction;
    return trainer && name && trainer->plans.task.samples[EITP_VALIDATION] &&
           eitp__find_direction(trainer, name, &direction);
}

EITP__PRIVATE eitp_metric_direction eitp__trainer_metric_direction(const eitp_trainer *trainer, const char *name) {
    eitp_metric_direction direction = EITP_DIRECTION_UNKNOWN;
    return trainer && name && eitp__find_direction(trainer, name, &direction) ? direction : EITP_DIRECTION_UNKNOWN;
}

static eitp_status eitp__check_split(const eitp_task *task, eitp_split split, eitp_error *error) {
    static const char *const names[] = {"training", "validation"};
    const eitp_split other = split == EITP_VALIDATION ? EITP_TRAINING : EITP_VALIDATION;
    if ((unsigned)split > EITP_VALIDATION)
        return eitp__fail(error, EITP_ERROR_ARGUMENT,
                          "unknown split %d (choose from EITP_TRAINING and EITP_VALIDATION)", (int)split);
    if (task->samples[split])
        return EITP_OK;
    if (task->samples[other])
        return eitp__fail(
            error, EITP_ERROR_ARGUMENT,
            "the task has no %s samples, but it has %llu %s samples; evaluate those, or add some to the task",
            names[split], (unsigned long long)task->samples[other], names[other]);
    return eitp__fail(error, EITP_ERROR_ARGUMENT, "the task has no samples to evaluate");
}

eitp_status eitp_evaluate(const eitp_task *task, eitp_split split, int64_t batch_size, int64_t samples,
                          eitp_evaluation *evaluation, eitp_error *error) {
    eitp__evaluator evaluator;
    eitp_status status;
    if (!task || !evaluation)
        return eitp__fail_null(error, "eitp_evaluate", "task and evaluation");
    status = eitp__task_check(task, error);
    if (!status && (batch_size < 1 || batch_size > EITP__MAX_BATCH))
        status = eitp__fail(error, EITP_ERROR_ARGUMENT, "batch_size must be 1 to %d (got %lld)", EITP__MAX_BATCH,
                            (long long)batch_size);
    if (!status)
        status = eitp__check_split(task, split, error);
    if (status)
        return status;
    status = eitp__evaluator_create(task, batch_size, eitp__evaluation_size(task, split, samples), &evaluator, error);
    if (!status)
        status = eitp__evaluator_run(&evaluator, split, samples, 0, 1, evaluation, error);
    eitp__evaluator_release(&evaluator);
    return status;
}
