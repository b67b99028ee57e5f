#include "run/run_spot.h"

#include "base/clock.h"
#include "run/events.h"
#include "run/run_schedule.h"
#include "train/trainer.h"

typedef struct eitp__spot {
    int64_t step; /* of the last one, in a checkpoint, too; 0: none */
    eitp_evaluation evaluation;
} eitp__spot;

static eitp__spot *eitp__spot_of(const eitp_run *run) {
    return (eitp__spot *)run->states[EITP__OBSERVER_SPOT];
}

EITP__PRIVATE int eitp__spot_is_due(const eitp_run *run) {
    const eitp_run_config *config = &run->config;
    const int64_t step = eitp_trainer_steps_done(run->trainer);
    if (config->spot_samples <= 0 || config->log_full_every <= 0 || config->monitor == EITP_MONITOR_OFF)
        return 0;
    return step > 0 && step % config->log_full_every == 0 && eitp__spot_of(run)->step != step &&
           eitp__run_validates(run) && !eitp__evaluation_is_due(run, step);
}

EITP__PRIVATE eitp_status eitp__run_make_spot(eitp_run *run, eitp_error *error) {
    eitp__spot *spot = eitp__spot_of(run);
    const double began = eitp__clock();
    eitp_status status;
    run->report.work = EITP_RUN_EVALUATES;
    status = eitp_trainer_evaluate(run->trainer, run->config.spot_samples, &spot->evaluation, error);
    if (status)
        return status;
    run->seconds = eitp__clock() - began;
    spot->step = eitp_trainer_steps_done(run->trainer);
    EITP__EACH_OBSERVER (run, i, after_spot) {
        run->observers[i].after_spot(run, run->states[i], &spot->evaluation);
    }
    return EITP_OK;
}

/* ---- The observer ---- */

static eitp_status eitp__spot_begin(eitp_run *run, void *state, eitp_error *error) {
    (void)state, (void)error;
    if (run->config.spot_samples > 0 && !eitp__run_validates(run))
        eitp__run_notify(run, EITP_EVENT_WARNING, EITP_LOG_WARNING, 0,
                         "spot_samples has no effect: the task has no validation samples");
    return EITP_OK;
}

/* Runs without spot evaluations have no such member. */
static void eitp__spot_write(const eitp_run *run, const void *state, int is_counted, eitp__buffer *text) {
    const eitp__spot *spot = (const eitp__spot *)state;
    (void)run, (void)is_counted;
    if (spot->step > 0)
        eitp__buffer_format(text, "{\"step\": %lld}", (long long)spot->step);
}

static eitp_status eitp__spot_read(eitp_run *run, void *state, const eitp_json *value, eitp_error *error) {
    eitp__spot *spot = (eitp__spot *)state;
    (void)run;
    if (value && value->kind != EITP_JSON_OBJECT)
        return eitp__fail(error, EITP_ERROR_FORMAT, "line %llu: 'spot' must be an object",
                          (unsigned long long)value->line);
    return value ? eitp__json_get_integer(value, "step", 0, INT64_MAX - 1, &spot->step, error) : EITP_OK;
}

EITP__PRIVATE void eitp__spot_observer(eitp__observer *observer) {
    observer->name = "spot";
    observer->state_size = sizeof(eitp__spot);
    observer->needs_checkpoints = 1;
    observer->begin = eitp__spot_begin;
    observer->write = eitp__spot_write;
    observer->read = eitp__spot_read;
}
