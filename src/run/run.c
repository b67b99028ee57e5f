/* Creating, starting and destroying runs. */
#include "base/files.h"
#include "run/run_directory.h"
#include "run/run_loop.h"

eitp_run_config eitp_run_config_default(void) {
    eitp_run_config config;
    memset(&config, 0, sizeof config);
    config.directory = "out";
    config.steps = 1000;
    config.eval_steps = 500;
    config.save_steps = 500;
    config.save_total_limit = 2;
    config.max_nonfinite = 5;
    config.memory_check_seconds = 1;
    config.metrics = 1;
    return config;
}

static eitp_status eitp__run_check(const eitp_run_config *config, eitp_error *error) {
    if (!config->directory)
        return eitp__fail_null(error, "eitp_run_create", "config.directory");
    if (config->resume == EITP_RESUME_NAMED && !config->checkpoint)
        return eitp__fail_null(error, "eitp_run_create", "config.checkpoint with EITP_RESUME_NAMED");
    if (config->sink_count && !config->sinks)
        return eitp__fail_null(error, "eitp_run_create", "config.sinks");
    for (size_t i = 0; i < config->sink_count; i++) {
        if (!config->sinks[i].record)
            return eitp__fail_null(error, "eitp_run_create", "the record function of a sink");
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

/* Copies strings and sinks, so that the program need not keep them. */
static eitp_status eitp__run_copy_config(eitp_run *run, const eitp_run_config *config, eitp_error *error) {
    const eitp_host *host = &run->host;
    const size_t sinks = config->sink_count + 1;
    run->config = *config;
    run->directory = eitp__copy_text(host, config->directory);
    run->keep_best = config->keep_best ? eitp__copy_text(host, config->keep_best) : NULL;
    run->sinks = (eitp_record_sink *)eitp__allocate(host, sinks * sizeof *run->sinks);
    if (!run->directory || (config->keep_best && !run->keep_best) || !run->sinks)
        return eitp__fail_memory(error, sinks * sizeof *run->sinks, "a run");
    if (config->sink_count)
        memcpy(run->sinks, config->sinks, config->sink_count * sizeof *run->sinks);
    run->sink_count = config->sink_count;
    return EITP_OK;
}

static eitp_status eitp__run_open_metrics(eitp_run *run, eitp_error *error) {
    eitp_path_info info = EITP__ZERO;
    eitp_status status;
    if (!run->config.metrics)
        return EITP_OK;
    run->metrics_path = eitp__join_path(&run->host, run->directory, "metrics.jsonl");
    if (!run->metrics_path)
        return eitp__fail_memory(error, strlen(run->directory), "a path");
    status = eitp__path_info(&run->host, run->metrics_path, &info, error);
    if (!status)
        status = eitp_jsonl_create(&run->host, run->metrics_path, &run->metrics, error);
    if (status)
        return status;
    run->created_metrics = info.kind == EITP_PATH_MISSING;
    run->sinks[run->sink_count++] = eitp_jsonl_sink(run->metrics);
    return EITP_OK;
}

eitp_status eitp_run_create(const eitp_host *host, const eitp_run_config *config, eitp_run **run, eitp_error *error) {
    eitp_run *created;
    eitp_status status;
    if (!host || !config || !run)
        return eitp__fail_null(error, "eitp_run_create", "host, config and run");
    *run = NULL;
    status = eitp__run_check(config, error);
    if (status)
        return status;
    created = (eitp_run *)eitp__allocate(host, sizeof *created);
    if (!created)
        return eitp__fail_memory(error, sizeof *created, "a run");
    created->host = *host;
    created->checkpoint_step = -1;
    status = eitp__run_copy_config(created, config, error);
    if (!status)
        status = eitp__run_prepare_directory(created, error);
    if (!status)
        status = eitp__run_open_metrics(created, error);
    /* Only the copies outlive this call. */
    created->config.directory = created->directory;
    created->config.checkpoint = created->checkpoint;
    created->config.keep_best = created->keep_best;
    created->config.sinks = created->sinks;
    if (status)
        eitp_run_destroy(created);
    else
        *run = created;
    return status;
}

void eitp_run_destroy(eitp_run *run) {
    eitp_host host;
    if (!run)
        return;
    host = run->host;
    eitp_jsonl_destroy(run->metrics);
    if (!run->started && run->created_metrics)
        host.files.remove(host.files.user, run->metrics_path);
    if (!run->started && run->directory)
        eitp__run_remove_directories(run);
    eitp__run_unlock(run);
    if (run->sinks)
        eitp__release(&host, run->sinks, (run->config.sink_count + 1) * sizeof *run->sinks);
    eitp__release_text(&host, run->metrics_path);
    eitp__release_text(&host, run->checkpoint);
    eitp__release_text(&host, run->keep_best);
    eitp__release_text(&host, run->directory);
    eitp__release(&host, run, sizeof *run);
}

const char *eitp_run_checkpoint(const eitp_run *run) {
    return run ? run->checkpoint : NULL;
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
    status = eitp__run_loop(run, error ? error : &ignored);
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
