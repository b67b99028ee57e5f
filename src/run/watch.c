/* Watches: a run without a loop and checkpoints; the program makes the steps. */
#include "run/watch.h"

#include "base/clock.h"
#include "base/memory.h"
#include "base/status.h"
#include "run/directory.h"
#include "run/internal.h"
#include "run/loop.h"
#include "train/trainer.h"

struct eitp_watch {
    eitp_run *run;
};

/* ---- Saving ---- */

/* Calls the program's `save`. `is_counted`: the program requested it, so an undisturbed run saves too. */
static eitp_status eitp__watch_write(eitp_run *run, int is_counted, eitp_error *error) {
    const long long step = (long long)eitp_trainer_steps_done(run->trainer);
    const double began = eitp__clock();
    double waited;
    eitp_status status = eitp__run_restore_directory(run, error);
    if (status)
        return status;
    eitp__run_before_save(run);
    eitp__error_clear(error);
    status = eitp__error_complete(error, run->config.save(run->config.save_user, run->directory, error),
                                  "the program's checkpoint after step %lld could not be written", step);
    if (status)
        return status;
    run->report.saved_step = step;
    waited = eitp__clock() - began;
    eitp__run_notify(run, EITP_EVENT_SAVED, EITP_LOG_INFO, waited, "saved step %lld in %.1f s", step, waited);
    eitp__run_saved(run, is_counted, waited);
    return EITP_OK;
}

/* A model that may be damaged must not replace a good one. */
static eitp_status eitp__watch_save_early(eitp_run *run, eitp_error *error) {
    return eitp__run_is_good(run) ? eitp__watch_write(run, 0, error) : EITP_OK;
}

eitp_status eitp_watch_save(eitp_watch *watch, eitp_error *error) {
    eitp__assessment assessment;
    eitp_error ignored;
    if (!watch)
        return eitp__fail_null(error, "eitp_watch_save", "watch");
    if (!watch->run->config.save)
        return eitp__fail_null(error, "eitp_watch_save", "config.save of eitp_watch_open");
    assessment = eitp__run_assess(watch->run);
    if (assessment.verdict == EITP__MODEL_DAMAGED)
        return eitp__fail(error, EITP_ERROR_NOT_FINITE, "not saved: %s", assessment.why);
    return eitp__watch_write(watch->run, 1, error ? error : &ignored);
}

/* ---- Opening ---- */

/* Returns a configuration without the members that a watch leaves to the program. */
static eitp_run_config eitp__watch_config(const eitp_run_config *config) {
    eitp_run_config used = *config;
    used.steps = 0; /* unknown */
    used.eval_fraction = 0;
    used.spot_samples = 0;
    return used;
}

static eitp_status eitp__watch_begin(eitp_run *run, eitp_trainer *trainer, eitp_error *error) {
    const int64_t done = eitp_trainer_steps_done(trainer);
    eitp_status status;
    eitp__run_start(run, trainer);
    run->report.start_step = run->report.steps_done = done;
    status = eitp__run_begin_observers(run, error);
    if (!status)
        eitp__run_notify(run, EITP_EVENT_STARTED, EITP_LOG_DEBUG, 0, "training from step %lld", (long long)done + 1);
    return status;
}

/* Ends the observers of a run, and the run. */
static void eitp__watch_end(eitp_run *run) {
    run->report.end =
        run->failure.status == EITP_END_OF_DATA ? EITP_RUN_END_OF_DATA : eitp__run_end_of(run, run->failure.status);
    if (run->report.end == EITP_RUN_END_OF_DATA || run->report.end == EITP_RUN_STOPPED)
        eitp__error_clear(&run->failure);
    run->is_ending = 1;
    eitp__run_end_observers(run);
    run->is_over = 1;
    eitp_run_close(run);
}

static eitp_status eitp__watch_open_run(const eitp_host *host, const eitp_run_config *config, eitp_trainer *trainer,
                                        eitp_run **run, eitp_error *error) {
    const eitp_run_config used = eitp__watch_config(config);
    eitp_run *created = NULL;
    eitp_status status = eitp__run_create(host, &used, 0, &created, error);
    if (status)
        return status;
    created->save_early = config->save ? eitp__watch_save_early : NULL;
    status = eitp__run_prepare_watched_directory(created, eitp_trainer_steps_done(trainer), error);
    if (!status)
        status = eitp__run_take_config(created, &used, error);
    if (status) {
        eitp_run_close(created);
        return status;
    }
    status = eitp__watch_begin(created, trainer, error);
    if (status) {
        created->stage = EITP__RUN_REFUSED; /* so that everything created is removed */
        eitp__watch_end(created);
    } else {
        *run = created;
    }
    return status;
}

eitp_status eitp_watch_open(const eitp_host *host, const eitp_run_config *config, eitp_trainer *trainer,
                            eitp_watch **watch, eitp_error *error) {
    eitp_error ignored;
    eitp_watch *created;
    eitp_status status;
    if (!host || !config || !trainer || !watch)
        return eitp__fail_null(error, "eitp_watch_open", "host, config, trainer and watch");
    *watch = NULL;
    if (!config->directory)
        return eitp__fail_null(error, "eitp_watch_open", "config.directory");
    created = (eitp_watch *)eitp__allocate(host, sizeof *created);
    if (!created)
        return eitp__fail_memory(error, sizeof *created, "a watch");
    status = eitp__watch_open_run(host, config, trainer, &created->run, error ? error : &ignored);
    if (status)
        eitp__release(host, created, sizeof *created);
    else
        *watch = created;
    return status;
}

void eitp_watch_close(eitp_watch *watch) {
    eitp_host host;
    if (!watch)
        return;
    host = watch->run->host;
    eitp__watch_end(watch->run);
    eitp__release(&host, watch, sizeof *watch);
}

/* ---- Steps and evaluations ---- */

/* Also calls the poll that the program may have set. */
static int eitp__watch_poll(void *user) {
    eitp_run *run = (eitp_run *)user;
    return eitp__poll_ask(&run->program_poll) || eitp__run_poll(run);
}

/* Does work that observers and requests may interrupt. The program's own work between steps is not interrupted. */
static eitp_status eitp__watch_polled(eitp_run *run, eitp_status (*work)(eitp_run *run, eitp_error *error),
                                      eitp_error *error) {
    eitp_context *context = eitp__trainer_task(run->trainer)->context;
    eitp_status status;
    run->program_poll = context->poll;
    eitp_context_set_poll(context, eitp__watch_poll, run);
    status = work(run, error);
    eitp_context_set_poll(context, run->program_poll.ask, run->program_poll.user);
    return status;
}

static eitp_status eitp__watch_make_step(eitp_run *run, eitp_error *error) {
    return eitp__watch_polled(run, eitp__run_make_step, error);
}

/* A request to stop interrupts the step at once. */
static eitp_status eitp__watch_try_step(eitp_run *run, eitp_error *error) {
    const eitp_status status = eitp__run_before_step(run, error);
    return status ? status : eitp__run_repeat(run, eitp__watch_make_step, error);
}

eitp_status eitp_watch_step(eitp_watch *watch, eitp_step_report *report, eitp_error *error) {
    eitp_error ignored, *why = error ? error : &ignored;
    eitp_status status;
    if (!watch || !report)
        return eitp__fail_null(error, "eitp_watch_step", "watch and report");
    status = eitp__watch_try_step(watch->run, why);
    if (status == EITP_END_OF_DATA)
        eitp__run_notify(watch->run, EITP_EVENT_END_OF_DATA, EITP_LOG_INFO, 0, "%s", why->message);
    if (!status) {
        *report = watch->run->report.step;
        status = eitp__run_decided(watch->run, why);
    }
    eitp__error_clear(&watch->run->failure);
    if (status)
        watch->run->failure = *why;
    return status;
}

static eitp_status eitp__watch_make_evaluation(eitp_run *run, eitp_error *error) {
    return eitp__watch_polled(run, eitp__run_make_evaluation, error);
}

eitp_status eitp_watch_evaluate(eitp_watch *watch, int64_t samples, eitp_evaluation *evaluation, eitp_error *error) {
    eitp_error ignored;
    eitp_status status;
    if (!watch || !evaluation)
        return eitp__fail_null(error, "eitp_watch_evaluate", "watch and evaluation");
    watch->run->config.eval_samples = samples;
    status = eitp__run_repeat(watch->run, eitp__watch_make_evaluation, error ? error : &ignored);
    if (!status)
        *evaluation = watch->run->report.evaluation;
    return status;
}

/* ---- Requests ---- */

eitp_status eitp_watch_record_value(eitp_watch *watch, const char *name, double value, eitp_error *error) {
    return watch && name ? eitp_run_record_value(watch->run, name, value, error)
                         : eitp__fail_null(error, "eitp_watch_record_value", "watch and name");
}

void eitp_watch_request_stop(eitp_watch *watch) {
    if (watch)
        eitp_run_request_stop(watch->run, 0);
}
