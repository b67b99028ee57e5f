/* Creating, starting and destroying runs. */
#include "base/files.h"
#include "io/checkpoint.h"
#include "run/poll.h"
#include "run/run_directory.h"
#include "run/run_loop.h"
#include "run/sinks.h"
#include "train/trainer.h"

eitp_run_config eitp_run_config_default(void) {
    eitp_run_config config;
    memset(&config, 0, sizeof config);
    config.directory = "out";
    config.steps = 1000;
    config.eval_steps = 500;
    config.save_steps = 500;
    config.save_total_limit = 2;
    config.max_nonfinite = 5;
    config.memory_check_seconds = 0.05;
    config.metrics = 1;
    return config;
}

/* Checks all but the directory and the checkpoint. */
static eitp_status eitp__run_check(const eitp_run_config *config, eitp_error *error) {
    if (config->sink_count && !config->sinks)
        return eitp__fail_null(error, "eitp_run_config", "config.sinks");
    for (size_t i = 0; i < config->sink_count; i++) {
        if (!config->sinks[i].record)
            return eitp__fail_null(error, "eitp_run_config", "the record function of a sink");
    }
    if (config->steps < 0 || config->eval_steps < 0 || config->eval_samples < 0 || config->save_steps < 0 ||
        !(config->eval_epochs >= 0) || !(config->save_epochs >= 0) || !(config->save_seconds >= 0) ||
        config->save_total_limit < 0 || config->patience < 0 || config->max_nonfinite < 1)
        return eitp__fail(error, EITP_ERROR_ARGUMENT,
                          "eitp_run_config: steps, eval_steps, eval_epochs, eval_samples, save_steps, save_epochs, "
                          "save_seconds, save_total_limit and patience must be 0 or more, max_nonfinite 1 or more");
    if ((unsigned)config->check_finite > EITP_CHECK_FINITE_OP)
        return eitp__fail(error, EITP_ERROR_ARGUMENT,
                          "eitp_run_config: unknown check_finite %d (see eitp_check_finite)",
                          (int)config->check_finite);
    if (!(config->eval_fraction >= 0 && config->eval_fraction <= 1))
        return eitp__fail(error, EITP_ERROR_ARGUMENT, "eitp_run_config: eval_fraction must be 0 to 1 (got %g)",
                          config->eval_fraction);
    return EITP_OK;
}

/* ---- Observers ---- */

/* Fills in their rows and allocates their states. */
static eitp_status eitp__create_observers(eitp_run *run, eitp_error *error) {
#define EITP__FILL_OBSERVER(NAME, name) eitp__##name##_observer(&run->observers[EITP__OBSERVER_##NAME]);
    EITP__OBSERVERS(EITP__FILL_OBSERVER)
#undef EITP__FILL_OBSERVER
    for (int i = 0; i < EITP__OBSERVER_COUNT; i++) {
        const size_t size = run->observers[i].state_size;
        if (size && !(run->states[i] = eitp__allocate(&run->host, size)))
            return eitp__fail_memory(error, size, "a run");
    }
    return EITP_OK;
}

static void eitp__release_observers(eitp_run *run) {
    for (int i = 0; i < EITP__OBSERVER_COUNT; i++) {
        if (run->states[i])
            eitp__release(&run->host, run->states[i], run->observers[i].state_size);
        run->states[i] = NULL;
    }
}

static int eitp__run_has_started(const eitp_run *run) {
    return run->stage >= EITP__RUN_STARTED;
}

/* ---- Creating and configuring ---- */

/* Copies what the run owns of its configuration, so that the program need not keep it. */
static eitp_status eitp__run_take_config(eitp_run *run, const eitp_run_config *config, eitp_error *error) {
    const eitp_run_resume resume = run->config.resume;
    char *keep_best = config->keep_best ? eitp__copy_text(&run->host, config->keep_best) : NULL;
    eitp_status status = EITP_OK;
    if (config->keep_best && !keep_best)
        status = eitp__fail_memory(error, strlen(config->keep_best), "a run");
    if (!status)
        status = eitp__sinks_configure(run, config, error);
    eitp__release_text(&run->host, status ? keep_best : run->keep_best);
    if (status)
        return status;
    run->keep_best = keep_best;
    run->config = *config;
    run->config.resume = resume;
    run->config.directory = run->directory;
    run->config.checkpoint = run->checkpoint;
    run->config.keep_best = run->keep_best;
    run->config.sinks = NULL;
    run->config.sink_count = 0;
    return EITP_OK;
}

eitp_status eitp_run_set_config(eitp_run *run, const eitp_run_config *config, eitp_error *error) {
    eitp_status status;
    if (!run || !config)
        return eitp__fail_null(error, "eitp_run_set_config", "run and config");
    status = eitp__run_check(config, error);
    if (!status && eitp__run_has_started(run))
        status = eitp__fail(error, EITP_ERROR_ARGUMENT, "the run in '%s' was trained already; create another run",
                            run->directory);
    return status ? status : eitp__run_take_config(run, config, error);
}

eitp_status eitp_run_create(const eitp_host *host, const eitp_run_config *config, eitp_run **run, eitp_error *error) {
    eitp_run *created;
    eitp_status status;
    if (!host || !config || !run)
        return eitp__fail_null(error, "eitp_run_create", "host, config and run");
    *run = NULL;
    status = config->directory ? EITP_OK : eitp__fail_null(error, "eitp_run_create", "config.directory");
    if (!status && config->resume == EITP_RESUME_NAMED && !config->checkpoint)
        status = eitp__fail_null(error, "eitp_run_create", "config.checkpoint with EITP_RESUME_NAMED");
    if (!status)
        status = eitp__run_check(config, error);
    if (status)
        return status;
    created = (eitp_run *)eitp__allocate(host, sizeof *created);
    if (!created)
        return eitp__fail_memory(error, sizeof *created, "a run");
    created->host = *host;
    created->checkpoint_step = created->kept_step = -1;
    created->config.resume = config->resume;
    created->directory = eitp__copy_text(host, config->directory);
    status = created->directory ? eitp__create_observers(created, error)
                                : eitp__fail_memory(error, strlen(config->directory), "a run");
    if (!status)
        status = eitp__run_prepare_directory(created, config, error);
    if (!status)
        status = eitp_run_set_config(created, config, error);
    if (status)
        eitp_run_destroy(created);
    else
        *run = created;
    return status;
}

/* Removes a checkpoint that was kept for a program until after the last save. */
static void eitp__run_prune_released(const eitp_run *run) {
    int64_t kept[EITP__KEPT_STEPS];
    eitp__run_list_kept(run, kept);
    eitp__checkpoint_prune(&run->host, run->directory, run->config.save_total_limit, kept, EITP__KEPT_STEPS, NULL);
}

void eitp_run_destroy(eitp_run *run) {
    eitp_host host;
    if (!run)
        return;
    host = run->host;
    eitp__run_end_prefetch(run);
    if (eitp__run_has_started(run) && run->prune_is_due)
        eitp__run_prune_released(run);
    if (eitp__run_has_started(run))
        eitp__run_clean(run, NULL); /* what cannot be removed now is removed at the next start */
    eitp__sinks_close(run);
    if (run->stage != EITP__RUN_STARTED && run->directory)
        eitp__run_remove_directories(run);
    eitp__run_unlock(run);
    eitp__release_observers(run);
    eitp__release_text(&host, run->keep_best);
    eitp__release_text(&host, run->checkpoint);
    eitp__release_text(&host, run->directory);
    eitp__release(&host, run, sizeof *run);
}

const char *eitp_run_checkpoint(const eitp_run *run) {
    return run ? run->checkpoint : NULL;
}

eitp_status eitp_run_resume_trainer(eitp_run *run, eitp_trainer *trainer, eitp_error *error) {
    int is_replaced;
    if (!run || !trainer)
        return eitp__fail_null(error, "eitp_run_resume_trainer", "run and trainer");
    return run->checkpoint ? eitp__run_try_resume(run, trainer, &is_replaced, error) : EITP_OK;
}

eitp_status eitp_run_recover(eitp_run *run, eitp_error *error) {
    if (!run)
        return eitp__fail_null(error, "eitp_run_recover", "run");
    return run->checkpoint ? eitp__run_recover(run, error) : EITP_OK;
}

void eitp_run_set_steps(eitp_run *run, int64_t steps) {
    if (run)
        run->config.steps = steps;
}

eitp_status eitp_run_train(eitp_run *run, eitp_trainer *trainer, eitp_run_report *report, eitp_error *error) {
    eitp_error ignored;
    eitp_status status;
    if (!run || !trainer)
        return eitp__fail_null(error, "eitp_run_train", "run and trainer");
    if (run->config.steps < 0)
        return eitp__fail(error, EITP_ERROR_ARGUMENT, "the steps of the run are %lld; they must be 0 or more",
                          (long long)run->config.steps);
    if (eitp__run_has_started(run))
        return eitp__fail(error, EITP_ERROR_ARGUMENT,
                          "the run in '%s' was trained already; create another run to resume", run->directory);
    run->stage = EITP__RUN_STARTED;
    run->trainer = trainer;
    memset(&run->report, 0, sizeof run->report);
    memset(&run->saves, 0, sizeof run->saves);
    memset(&run->decision, 0, sizeof run->decision);
    run->report.steps = run->config.steps;
    run->report.saved_step = run->report.evaluated_step = run->report.best_step = -1;
    eitp__run_begin_polling(run);
    status = eitp__run_loop(run, error ? error : &ignored);
    eitp__run_end_polling(run);
    if (run->report.end == EITP_RUN_STOPPED && !run->report.steps_done && !run->checkpoint)
        run->stage = EITP__RUN_EMPTY;
    if (report)
        *report = run->report;
    return status;
}

void eitp_run_request_stop(eitp_run *run, int reason) {
    if (!run)
        return;
    run->stop_reason = reason;
    run->stop = 1;
}

void eitp_run_request_save(eitp_run *run) {
    if (run)
        run->save = 1;
}

void eitp_run_keep_checkpoint(eitp_run *run, int64_t step) {
    if (!run)
        return;
    run->prune_is_due |= run->kept_step >= 0 && run->kept_step != step;
    run->kept_step = step;
}
