/* Creating, starting and destroying runs. */
#include "base/files.h"
#include "io/checkpoint.h"
#include "run/poll.h"
#include "run/run_directory.h"
#include "run/run_loop.h"
#include "run/run_state.h"
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

/* What a run owns of its configuration: copies, so that the program need not keep the originals. */
typedef struct eitp__run_copies {
    char *keep_best;
    eitp_record_sink *sinks; /* with room for one more */
    eitp__sink_state *sink_states;
    size_t sink_count;
} eitp__run_copies;

static void eitp__run_release_copies(const eitp_host *host, eitp__run_copies *copies) {
    if (copies->sinks)
        eitp__release(host, copies->sinks, (copies->sink_count + 1) * sizeof *copies->sinks);
    if (copies->sink_states)
        eitp__release(host, copies->sink_states, (copies->sink_count + 1) * sizeof *copies->sink_states);
    eitp__release_text(host, copies->keep_best);
}

static eitp_status eitp__run_copy(const eitp_host *host, const eitp_run_config *config, eitp__run_copies *copies,
                                  eitp_error *error) {
    const size_t bytes = (config->sink_count + 1) * sizeof *copies->sinks;
    copies->sink_count = config->sink_count;
    copies->keep_best = config->keep_best ? eitp__copy_text(host, config->keep_best) : NULL;
    copies->sinks = (eitp_record_sink *)eitp__allocate(host, bytes);
    copies->sink_states =
        (eitp__sink_state *)eitp__allocate(host, (config->sink_count + 1) * sizeof *copies->sink_states);
    if (!copies->sinks || !copies->sink_states || (config->keep_best && !copies->keep_best)) {
        eitp__run_release_copies(host, copies);
        return eitp__fail_memory(error, bytes, "a run");
    }
    if (config->sink_count)
        memcpy(copies->sinks, config->sinks, config->sink_count * sizeof *copies->sinks);
    return EITP_OK;
}

/* ---- Creating and configuring ---- */

/* Replaces what the run owns of its configuration. */
static void eitp__run_take_config(eitp_run *run, const eitp_run_config *config, const eitp__run_copies *copies) {
    const eitp_run_resume resume = run->config.resume;
    eitp__run_copies old;
    old.keep_best = run->keep_best;
    old.sinks = run->sinks;
    old.sink_states = run->sink_states;
    old.sink_count = run->config.sink_count;
    eitp__run_release_copies(&run->host, &old);
    run->config = *config;
    run->config.resume = resume;
    run->keep_best = copies->keep_best;
    run->sinks = copies->sinks;
    run->sink_states = copies->sink_states;
    run->sink_count = copies->sink_count;
    if (run->metrics)
        run->sinks[run->sink_count++] = eitp_jsonl_sink(run->metrics);
    /* Only the copies outlive the program's configuration. */
    run->config.directory = run->directory;
    run->config.checkpoint = run->checkpoint;
    run->config.keep_best = run->keep_best;
    run->config.sinks = run->sinks;
}

eitp_status eitp_run_set_config(eitp_run *run, const eitp_run_config *config, eitp_error *error) {
    eitp__run_copies copies;
    eitp_status status;
    if (!run || !config)
        return eitp__fail_null(error, "eitp_run_set_config", "run and config");
    status = eitp__run_check(config, error);
    if (!status && run->started)
        status = eitp__fail(error, EITP_ERROR_ARGUMENT, "the run in '%s' was trained already; create another run",
                            run->directory);
    if (!status)
        status = eitp__run_copy(&run->host, config, &copies, error);
    if (status)
        return status;
    if (config->metrics && !run->metrics)
        status = eitp__run_open_metrics(run, error);
    if (status || !config->metrics)
        eitp__run_close_metrics(run);
    if (status)
        eitp__run_release_copies(&run->host, &copies);
    else
        eitp__run_take_config(run, config, &copies);
    return status;
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
    status = created->directory ? eitp__run_prepare_directory(created, config, error)
                                : eitp__fail_memory(error, strlen(config->directory), "a run");
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
    eitp__run_copies copies;
    eitp_host host;
    int is_unused;
    if (!run)
        return;
    host = run->host;
    eitp__run_end_prefetch(run);
    is_unused = !run->started || run->stopped_before_step_1;
    if (run->started && run->prune_is_due)
        eitp__run_prune_released(run);
    if (run->started)
        eitp__run_clean(run, NULL); /* what cannot be removed now is removed at the next start */
    eitp__run_close_metrics(run);
    if (is_unused && run->directory)
        eitp__run_remove_directories(run);
    eitp__run_unlock(run);
    copies.keep_best = run->keep_best;
    copies.sinks = run->sinks;
    copies.sink_states = run->sink_states;
    copies.sink_count = run->config.sink_count;
    eitp__run_release_copies(&host, &copies);
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
    if (run->started)
        return eitp__fail(error, EITP_ERROR_ARGUMENT,
                          "the run in '%s' was trained already; create another run to resume", run->directory);
    run->started = 1;
    run->trainer = trainer;
    memset(&run->report, 0, sizeof run->report);
    run->report.steps = run->config.steps;
    run->report.saved_step = run->report.evaluated_step = run->report.best_step = -1;
    eitp__run_begin_polling(run);
    status = eitp__run_loop(run, error ? error : &ignored);
    eitp__run_end_polling(run);
    run->stopped_before_step_1 = run->report.end == EITP_RUN_STOPPED && !run->report.steps_done && !run->checkpoint;
    run->started = !run->is_refused;
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
