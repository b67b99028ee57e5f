/* The best checkpoint of a run, and early stopping. */
#include "base/files.h"
#include "base/log.h"
#include "run/async_save.h"
#include "run/best.h"
#include "run/events.h"
#include "run/run_links.h"
#include "run/run_restore.h"
#include "run/run_schedule.h"
#include "train/trainer.h"

typedef struct eitp__best_checkpoint {
    eitp__best best;
    int was_read;   /* from the checkpoint's run_state.json */
    int is_behind;  /* best.json lacks an evaluation */
    int has_failed; /* it could not be written, which was reported */
} eitp__best_checkpoint;

static eitp__best_checkpoint *eitp__best_of(const eitp_run *run) {
    return (eitp__best_checkpoint *)run->states[EITP__OBSERVER_BEST];
}

/* best.json is information for programs and people: a resume takes the evaluations from its checkpoint. A failure is
   reported once, and the next save tries again. */
static void eitp__write_best(eitp_run *run) {
    eitp__best_checkpoint *kept = eitp__best_of(run);
    eitp_error error;
    if (!eitp__best_write(&kept->best, &run->host, run->directory, run->keep_best, 1, &error)) {
        kept->is_behind = 0;
        return;
    }
    kept->is_behind = 1;
    if (!kept->has_failed)
        eitp__run_notify(run, EITP_EVENT_WARNING, EITP_LOG_WARNING, 0,
                         "%s; the run continues, and tries again with each checkpoint", error.message);
    kept->has_failed = 1;
}

static void eitp__report_best(eitp_run *run) {
    const eitp__best_state *saved = &eitp__best_of(run)->best.saved;
    run->report.best_step = saved->step;
    run->report.best_value = saved->value;
}

static void eitp__best_save_complete(eitp_run *run, void *state, int64_t step) {
    eitp__best *best = &((eitp__best_checkpoint *)state)->best;
    if (!run->keep_best || best->now.step != step || best->saved.step == step)
        return;
    best->saved = best->now;
    eitp__report_best(run);
    eitp__write_best(run);
}

/* ---- Checkpoints that are gone ---- */

/* Marks evaluations as lost until the best one has a checkpoint, or can have one. */
static void eitp__choose_best(eitp_run *run, int64_t open) {
    eitp__best_checkpoint *kept = eitp__best_of(run);
    eitp__best *best = &kept->best;
    while (best->now.step >= 0 && best->now.step != open && !eitp__run_has_checkpoint(run, best->now.step))
        eitp__best_lose(best, best->now.step);
    if (best->now.step != open)
        best->saved = best->now;
    else if (!eitp__run_has_checkpoint(run, best->saved.step))
        best->saved = best->now, best->saved.step = -1, best->saved.value = (double)NAN;
    kept->is_behind = 1;
    eitp__report_best(run);
}

static void eitp__notify_lost_best(eitp_run *run, int64_t step, const char *why) {
    const eitp__best_state *best = &eitp__best_of(run)->best.now;
    char next[80] = "the next evaluation is the best so far";
    if (best->step >= 0)
        snprintf(next, sizeof next, "the best is now that of step %lld", (long long)best->step);
    eitp__run_notify(run, EITP_EVENT_NOT_KEPT, EITP_LOG_WARNING, 0,
                     "checkpoint-%lld, of the best evaluation so far, is not kept: %s; %s", (long long)step, why, next);
}

static void eitp__best_save_lost(eitp_run *run, void *state, int64_t step, const char *why) {
    eitp__best *best = &((eitp__best_checkpoint *)state)->best;
    const int is_best = best->now.step == step;
    if (!run->keep_best)
        return;
    eitp__best_lose(best, step);
    eitp__choose_best(run, eitp_trainer_steps_done(run->trainer));
    if (!is_best)
        return;
    eitp__notify_lost_best(run, step, why);
    eitp__write_best(run);
}

/* Chooses the best of the evaluations whose checkpoints are in the directory, and reports it if that is another one.
   `open`: a step whose checkpoint can still be written; -1: none. */
static void eitp__check_best(eitp_run *run, int64_t open) {
    const eitp__best *best = &eitp__best_of(run)->best;
    const int64_t step = best->now.step;
    if (!run->keep_best)
        return;
    eitp__choose_best(run, open);
    if (best->now.step != step)
        eitp__notify_lost_best(run, step, "the directory does not have it");
}

static void eitp__best_directory_replaced(eitp_run *run, void *state) {
    ((eitp__best_checkpoint *)state)->is_behind = eitp__run_follows_best(run);
    eitp__check_best(run, eitp_trainer_steps_done(run->trainer));
}

/* ---- After an evaluation ---- */

/* The value of a loss term or metric; for "loss", and unknown names, that of the loss. */
static double eitp__metric_value(const eitp_evaluation *evaluation, const char *name) {
    for (int i = 0; i < evaluation->metric_count && strcmp(name, "loss"); i++) {
        if (!strcmp(name, evaluation->metrics[i].name))
            return evaluation->metrics[i].mean;
    }
    return evaluation->loss;
}

/* Adds the last evaluation to those that decide. That of a model that may not be saved never is the best. */
static double eitp__add_best(eitp_run *run, eitp__best_checkpoint *kept) {
    const double metric = eitp__metric_value(&run->report.evaluation, run->keep_best);
    const double value = !eitp__run_is_good(run) ? (double)NAN : metric;
    eitp__best_add(&kept->best, run->report.evaluated_step, value);
    eitp__report_best(run);
    kept->is_behind = 1;
    return value;
}

/* An evaluation that is second to one whose checkpoint is being written is the best if that fails. */
static void eitp__await_best(eitp_run *run, const eitp__best *best, double value) {
    if (best->now.step != run->report.evaluated_step && best->now.step != best->saved.step &&
        eitp__best_is_better(best, value, best->saved.value))
        eitp__async_save_finish(run);
}

static void eitp__best_after_evaluation(eitp_run *run, void *state, eitp__decision *decision) {
    eitp__best_checkpoint *kept = (eitp__best_checkpoint *)state;
    const int64_t step = run->report.evaluated_step;
    eitp_error error;
    if (!eitp__run_follows_best(run) || step == 0)
        return;
    eitp__await_best(run, &kept->best, eitp__add_best(run, kept));
    if (eitp__run_restore_directory(run, &error)) {
        decision->fails = decision->fails.status ? decision->fails : error;
        return;
    }
    eitp__write_best(run);
    if (kept->best.now.step != step)
        return;
    decision->saves = 1;
    if (run->report.saved_step == step && !run->saves.is_early)
        eitp__best_save_complete(run, state, step);
}

/* ---- The observer ---- */

static int eitp__prefers_higher(const eitp_run *run) {
    return eitp_trainer_metric_direction(run->trainer, run->keep_best) == EITP_HIGHER_IS_BETTER;
}

/* Reads the best.json next to a checkpoint that has no state of a run. A damaged one is ignored. */
static eitp_status eitp__read_best(eitp_run *run, eitp__best *best, eitp_error *error) {
    char *parent = eitp__parent_directory(&run->host, run->checkpoint);
    eitp_status status = parent ? EITP_OK : eitp__fail_memory(error, strlen(run->checkpoint), "a path");
    if (!status)
        status = eitp__best_read(best, &run->host, parent, run->keep_best, run->checkpoint_step, error);
    if (status == EITP_ERROR_FORMAT) {
        eitp__run_notify(run, EITP_EVENT_WARNING, EITP_LOG_WARNING, 0,
                         "%s; the evaluations before step %lld do not count for the best or for stopping early",
                         error->message, (long long)run->checkpoint_step + 1);
        eitp__best_init(best, eitp__prefers_higher(run));
        status = EITP_OK;
    }
    eitp__release_text(&run->host, parent);
    return status;
}

/* True if the evaluation after the checkpoint's step is missing from those that decide: it was written before it. */
static int eitp__lacks_evaluation(const eitp_run *run, const eitp__best *best) {
    const int64_t step = run->report.start_step;
    return step > 0 && eitp__run_validates(run) && eitp__evaluation_is_due(run, step) && !eitp__best_has(best, step);
}

/* Chooses the best of the evaluations up to the checkpoint. */
static eitp_status eitp__resume_best(eitp_run *run, eitp__best_checkpoint *kept, eitp_error *error) {
    const eitp_status status = kept->was_read ? EITP_OK : eitp__read_best(run, &kept->best, error);
    eitp__report_best(run);
    if (status)
        return status;
    eitp__check_best(run, -1);
    eitp__write_best(run);
    return EITP_OK;
}

static eitp_status eitp__best_begin(eitp_run *run, void *state, eitp_error *error) {
    eitp__best_checkpoint *kept = (eitp__best_checkpoint *)state;
    eitp_status status = EITP_OK;
    if (!kept->was_read)
        eitp__best_init(&kept->best, eitp__prefers_higher(run));
    if (!run->checkpoint)
        status = eitp__best_remove(&run->host, run->directory, error); /* it belongs to an older run */
    else if (eitp__run_follows_best(run))
        status = eitp__resume_best(run, kept, error);
    if (!status && eitp__run_follows_best(run) && eitp__lacks_evaluation(run, &kept->best)) {
        run->saves.is_early = 1;
        run->report.evaluated_step = -1;
    }
    return status;
}

static void eitp__best_before_save(eitp_run *run, void *state) {
    if (((const eitp__best_checkpoint *)state)->is_behind)
        eitp__write_best(run);
}

static void eitp__best_write_state(const eitp_run *run, const void *state, int is_counted, eitp__buffer *text) {
    const eitp__best *best = &((const eitp__best_checkpoint *)state)->best;
    (void)is_counted;
    if (eitp__run_follows_best(run))
        eitp__best_format(best, &best->now, run->keep_best, 1, text);
}

static eitp_status eitp__best_read_state(eitp_run *run, void *state, const eitp_json *value, eitp_error *error) {
    eitp__best_checkpoint *kept = (eitp__best_checkpoint *)state;
    kept->was_read = 1;
    eitp__best_init(&kept->best, eitp__prefers_higher(run));
    return value && eitp__run_follows_best(run)
               ? eitp__best_parse(&kept->best, value, run->keep_best, run->checkpoint_step, error)
               : EITP_OK;
}

static int64_t eitp__best_keeps(const eitp_run *run, const void *state) {
    return run->keep_best ? ((const eitp__best_checkpoint *)state)->best.saved.step : -1;
}

static void eitp__best_end(eitp_run *run, void *state) {
    if (((const eitp__best_checkpoint *)state)->is_behind && eitp__run_follows_best(run))
        eitp__write_best(run);
}

EITP__PRIVATE void eitp__best_observer(eitp__observer *observer) {
    observer->name = "best";
    observer->state_size = sizeof(eitp__best_checkpoint);
    observer->needs_checkpoints = 1;
    observer->begin = eitp__best_begin;
    observer->after_evaluation = eitp__best_after_evaluation;
    observer->before_save = eitp__best_before_save;
    observer->write = eitp__best_write_state;
    observer->read = eitp__best_read_state;
    observer->save_complete = eitp__best_save_complete;
    observer->save_lost = eitp__best_save_lost;
    observer->keeps = eitp__best_keeps;
    observer->directory_replaced = eitp__best_directory_replaced;
    observer->end = eitp__best_end;
}

/* ---- Early stopping ---- */

static void eitp__patience_after_evaluation(eitp_run *run, void *state, eitp__decision *decision) {
    const eitp__best_state *best = &eitp__best_of(run)->best.now;
    char found[80] = "no finite value so far";
    (void)state;
    if (run->config.patience <= 0 || best->since < run->config.patience)
        return;
    if (best->step >= 0)
        snprintf(found, sizeof found, "best %.6g at step %lld", best->value, (long long)best->step);
    decision->stops = 1;
    snprintf(decision->why, sizeof decision->why,
             "early stop: no improvement of the validation %s in %lld evaluations (%s)", run->keep_best,
             (long long)best->since, found);
}

/* That of a run that is resumed may be exhausted. */
static eitp_status eitp__patience_begin(eitp_run *run, void *state, eitp_error *error) {
    (void)error;
    if (run->config.patience > 0 && !run->config.keep_best)
        eitp__log_line(&run->host, EITP_LOG_INFO, "patience keeps the checkpoint of the best validation loss");
    eitp__patience_after_evaluation(run, state, &run->decision);
    return EITP_OK;
}

EITP__PRIVATE void eitp__patience_observer(eitp__observer *observer) {
    observer->needs_checkpoints = 1;
    observer->begin = eitp__patience_begin;
    observer->after_evaluation = eitp__patience_after_evaluation;
}
