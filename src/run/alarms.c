/* Alarms: feeds their rules with what a run reports, and notifies those that they raise. */
#include "base/machine.h"
#include "run/alarm_rules.h"
#include "run/events.h"
#include "run/guard.h"
#include "run/sinks.h"
#include "train/trainer.h"

typedef struct eitp__alarms {
    eitp__alarm_rules rules;
    eitp_step_shape shape; /* of the last step */
    eitp_group_norms groups[EITP__RECORDED_GROUPS];
} eitp__alarms;

/* The memory of the process, without what it shares with files and other programs, which grows when files are read; 0
   if unknown. */
static double eitp__alarm_memory(const eitp_host *host) {
    uint64_t resident, shared;
    eitp__resident_read(host, &resident, &shared);
    return resident > shared ? (double)(resident - shared) : 0;
}

/* What was left when the guard last looked. */
static double eitp__alarm_left(const eitp_run *run) {
    const eitp__guard *guard = (const eitp__guard *)run->states[EITP__OBSERVER_GUARD];
    return run->config.memory_check_seconds < 0 ? 0 : (double)guard->memory.info.left;
}

static void eitp__alarms_notify_one(eitp_run *run, const eitp__alarm *alarm) {
    eitp_value values[3];
    values[0] = eitp__text_value("alarm", alarm->name);
    values[1] = eitp__number_value("value", alarm->value);
    values[2] = eitp__number_value("usual", alarm->usual);
    eitp__run_notify_values(run, EITP_EVENT_ALARM, EITP_LOG_WARNING, 0, alarm->message, values, EITP__COUNT(values));
}

static void eitp__alarms_notify(eitp_run *run, const eitp__alarm_list *list) {
    for (int i = 0; i < list->count; i++)
        eitp__alarms_notify_one(run, &list->alarms[i]);
}

/* A run that was shrunk has other step times. */
static void eitp__alarms_watch_shape(const eitp_run *run, eitp__alarms *alarms) {
    const eitp_step_shape shape = eitp_trainer_shape(run->trainer), *before = &alarms->shape;
    if (shape.batch_size != before->batch_size || shape.grad_accum != before->grad_accum ||
        shape.micro_batches_per_pass != before->micro_batches_per_pass)
        eitp__alarm_rules_forget_times(&alarms->rules);
    alarms->shape = shape;
}

static void eitp__alarms_after_step(eitp_run *run, void *state, eitp__decision *decision) {
    const eitp_step_report *report = &run->report.step;
    eitp__alarms *alarms = (eitp__alarms *)state;
    eitp__alarm_step step = EITP__ZERO;
    eitp__alarm_list list;
    (void)decision;
    if (!run->config.alarms)
        return;
    step.step = report->step;
    step.steps = run->report.steps;
    step.warms_up = report->step <= eitp__trainer_config(run->trainer)->schedule.warmup;
    step.applied = report->applied;
    step.loss = report->task_loss;
    step.grad_norm = report->grad_norm;
    step.parameter_norm = report->parameter_norm;
    step.seconds = run->seconds;
    if (report->step % EITP__ALARM_LOOK_STEPS == 0) {
        if (!eitp_trainer_group_norms(run->trainer, alarms->groups, EITP__COUNT(alarms->groups), &step.group_count,
                                      NULL))
            step.groups = alarms->groups;
        step.memory = eitp__alarm_memory(&run->host);
        step.left = eitp__alarm_left(run);
    }
    eitp__alarms_watch_shape(run, alarms);
    eitp__alarm_rules_step(&alarms->rules, &step, &list);
    eitp__alarms_notify(run, &list);
}

/* A metric by its name; NULL: the evaluation has none. */
static const eitp_metric *eitp__find_metric(const eitp_evaluation *evaluation, const char *name) {
    for (int i = 0; i < evaluation->metric_count; i++) {
        if (!strcmp(evaluation->metrics[i].name, name))
            return &evaluation->metrics[i];
    }
    return NULL;
}

/* Looks at the latent variable, if the task has one. */
static void eitp__alarms_look_at_latent(eitp_run *run, eitp__alarms *alarms, const eitp_evaluation *evaluation) {
    const eitp_metric *active = eitp__find_metric(evaluation, "active_units");
    const eitp_metric *kl = eitp__find_metric(evaluation, "kl");
    eitp__alarm_latent latent;
    eitp__alarm_list list;
    if (!active || !kl)
        return;
    latent.step = eitp_trainer_steps_done(run->trainer);
    latent.units = active->items;
    latent.active = active->mean;
    latent.kl = kl->mean;
    eitp__alarm_rules_latent(&alarms->rules, &latent, &list);
    eitp__alarms_notify(run, &list);
}

static void eitp__alarms_after_evaluation(eitp_run *run, void *state, eitp__decision *decision) {
    const eitp_evaluation *evaluation = &run->report.evaluation;
    eitp__alarm_list list;
    (void)decision;
    if (!run->config.alarms || run->report.partial_samples)
        return;
    eitp__alarm_rules_evaluation(&((eitp__alarms *)state)->rules, run->report.evaluated_step, evaluation->loss,
                                 evaluation->error, &list);
    eitp__alarms_notify(run, &list);
    eitp__alarms_look_at_latent(run, (eitp__alarms *)state, evaluation);
}

static void eitp__alarms_after_spot(eitp_run *run, void *state, const eitp_evaluation *evaluation) {
    if (run->config.alarms)
        eitp__alarms_look_at_latent(run, (eitp__alarms *)state, evaluation);
}

static void eitp__alarms_write(const eitp_run *run, const void *state, int is_counted, eitp__buffer *text) {
    (void)is_counted;
    if (run->config.alarms)
        eitp__alarm_rules_write(&((const eitp__alarms *)state)->rules, text);
}

static eitp_status eitp__alarms_read(eitp_run *run, void *state, const eitp_json *value, eitp_error *error) {
    return run->config.alarms ? eitp__alarm_rules_read(&((eitp__alarms *)state)->rules, value, error) : EITP_OK;
}

EITP__PRIVATE void eitp__alarms_observer(eitp__observer *observer) {
    observer->name = "alarms";
    observer->state_size = sizeof(eitp__alarms);
    observer->part = EITP_RUN_PART_ALARMS;
    observer->after_step = eitp__alarms_after_step;
    observer->after_evaluation = eitp__alarms_after_evaluation;
    observer->after_spot = eitp__alarms_after_spot;
    observer->write = eitp__alarms_write;
    observer->read = eitp__alarms_read;
}
