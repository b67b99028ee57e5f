/* Creating, starting and destroying runs. */
#include "base/files.h"
#include "base/setting_table.h"
#include "io/checkpoint.h"
#include "run/directory.h"
#include "run/internal.h"
#include "run/loop.h"
#include "run/save.h"
#include "run/sinks.h"
#include "train/trainer.h"

/* Checks everything except the directory and the checkpoint. */
static eitp_status eitp__run_check(const eitp_run_config *config, eitp_error *error) {
    size_t count;
    const eitp_setting *settings = eitp__run_setting_table(&count);
    if (config->sink_count && !config->sinks)
        return eitp__fail_null(error, "eitp_run_config", "config.sinks");
    for (size_t i = 0; i < config->sink_count; i++) {
        if (!config->sinks[i].record)
            return eitp__fail_null(error, "eitp_run_config", "the record function of a sink");
    }
    if (eitp__reports_check(config->report_to, error))
        return EITP_ERROR_ARGUMENT;
    return eitp__settings_check(settings, count, config, error);
}

/* ---- Observers ---- */

/* Fills in the observers' callbacks and allocates their states. Observers that the run does not have stay zeroed. */
static eitp_status eitp__create_observers(eitp_run *run, eitp_error *error) {
#define EITP__FILL_OBSERVER(NAME, name) eitp__##name##_observer(&run->observers[EITP__OBSERVER_##NAME]);
    EITP__OBSERVERS(EITP__FILL_OBSERVER)
#undef EITP__FILL_OBSERVER
    for (int i = 0; i < EITP__OBSERVER_COUNT; i++) {
        size_t size;
        if (run->observers[i].needs_checkpoints && !run->writes_checkpoints)
            memset(&run->observers[i], 0, sizeof run->observers[i]);
        size = run->observers[i].state_size;
        if (size && !(run->states[i] = eitp__allocate(&run->host, size)))
            return eitp__fail_memory(error, size, "a run");
    }
    return EITP_OK;
}

static void eitp__release_observers(eitp_run *run) {
    for (int i = EITP__OBSERVER_COUNT - 1; i >= 0; i--) {
        if (run->states[i] && run->observers[i].close)
            run->observers[i].close(run, run->states[i]);
        if (run->states[i])
            eitp__release(&run->host, run->states[i], run->observers[i].state_size);
        run->states[i] = NULL;
    }
}

static int eitp__run_has_started(const eitp_run *run) {
    return run->stage >= EITP__RUN_STARTED;
}

/* ---- Memory ---- */

/* Maximum size of run.json, run_state.json and similar files, rolling statistics, and the disk reserve. */
#define EITP__RUN_TEXT_BYTES ((size_t)512 << 10)

/* True if the run writes this file, or may do so because its sinks or settings can be changed while it trains. */
static int eitp__run_reports(const eitp_run_config *config, const eitp_task *task, eitp__report_kind kind) {
    const int is_described = config->describe || (task && task->describe);
    return kind == EITP__REPORT_EVALUATIONS ? is_described && eitp__reports_have(config->report_to, EITP__REPORT_JSONL)
                                            : eitp__reports_have(config->report_to, kind);
}

size_t eitp_run_record_bytes(const eitp_run_config *config, const eitp_task *task) {
    eitp__observer observers[EITP__OBSERVER_COUNT];
    size_t bytes = sizeof(eitp_run) + EITP__RUN_TEXT_BYTES;
    if (!config)
        return 0;
    memset(observers, 0, sizeof observers);
#define EITP__FILL_OBSERVER(NAME, name) eitp__##name##_observer(&observers[EITP__OBSERVER_##NAME]);
    EITP__OBSERVERS(EITP__FILL_OBSERVER)
#undef EITP__FILL_OBSERVER
    for (int i = 0; i < EITP__OBSERVER_COUNT; i++)
        bytes += observers[i].state_size;
    for (int i = 0; i < EITP__REPORTS; i++)
        bytes += eitp__run_reports(config, task, (eitp__report_kind)i) ? eitp__report_bytes((eitp__report_kind)i) : 0;
    return bytes;
}

/* ---- Creating and configuring ---- */

/* Number of strings of a configuration that the run copies. */
enum { EITP__RUN_TEXTS = 3 };

static void eitp__release_texts(const eitp_host *host, char *texts[EITP__RUN_TEXTS]) {
    for (int i = 0; i < EITP__RUN_TEXTS; i++)
        eitp__release_text(host, texts[i]);
}

static eitp_status eitp__run_copy_texts(const eitp_host *host, const eitp_run_config *config,
                                        char *copies[EITP__RUN_TEXTS], eitp_error *error) {
    const char *const texts[EITP__RUN_TEXTS] = {eitp__run_kept_metric(config), config->run_name, config->notes};
    eitp_status status = EITP_OK;
    for (int i = 0; i < EITP__RUN_TEXTS; i++) {
        copies[i] = texts[i] && !status ? eitp__copy_text(host, texts[i]) : NULL;
        if (texts[i] && !copies[i] && !status)
            status = eitp__fail_memory(error, strlen(texts[i]), "a run");
    }
    if (status)
        eitp__release_texts(host, copies);
    return status;
}

static void eitp__run_replace_texts(eitp_run *run, char *const copies[EITP__RUN_TEXTS]) {
    char *before[EITP__RUN_TEXTS];
    before[0] = run->keep_best;
    before[1] = run->run_name;
    before[2] = run->notes;
    eitp__release_texts(&run->host, before);
    run->keep_best = copies[0];
    run->config.keep_best = run->config.keep_best ? copies[0] : NULL;
    run->config.run_name = run->run_name = copies[1];
    run->config.notes = run->notes = copies[2];
}

EITP__PRIVATE eitp_status eitp__run_take_config(eitp_run *run, const eitp_run_config *config, eitp_error *error) {
    const eitp_run_resume resume = run->config.resume;
    char *texts[EITP__RUN_TEXTS];
    eitp_status status = eitp__run_copy_texts(&run->host, config, texts, error);
    if (status)
        return status;
    status = eitp__sinks_configure(run, config, error);
    if (status) {
        eitp__release_texts(&run->host, texts);
        return status;
    }
    run->config = *config;
    run->config.resume = resume;
    run->config.directory = run->directory;
    run->config.checkpoint = run->checkpoint;
    eitp__run_replace_texts(run, texts);
    run->config.report_to = run->config.log_dir = NULL; /* the sinks have already used them */
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
        status = eitp__fail(error, EITP_ERROR_ARGUMENT, "the run in '%s' was already trained; create another run",
                            run->directory);
    return status ? status : eitp__run_take_config(run, config, error);
}

EITP__PRIVATE eitp_status eitp__run_create(const eitp_host *host, const eitp_run_config *config, int writes_checkpoints,
                                           eitp_run **run, eitp_error *error) {
    eitp_run *created;
    eitp_status status = eitp__run_check(config, error);
    if (status)
        return status;
    created = (eitp_run *)eitp__allocate(host, sizeof *created);
    if (!created)
        return eitp__fail_memory(error, sizeof *created, "a run");
    created->host = *host;
    created->writes_checkpoints = writes_checkpoints;
    created->checkpoint_step = created->kept_step = -1;
    created->settings = eitp__run_setting_table(&created->setting_count);
    created->directory = eitp__copy_text(host, config->directory);
    status = created->directory ? eitp__create_observers(created, error)
                                : eitp__fail_memory(error, strlen(config->directory), "a run");
    if (status)
        eitp_run_close(created);
    else
        *run = created;
    return status;
}

eitp_status eitp_run_open(const eitp_host *host, const eitp_run_config *config, eitp_run **run, eitp_error *error) {
    eitp_run *created = NULL;
    eitp_status status;
    if (!host || !config || !run)
        return eitp__fail_null(error, "eitp_run_open", "host, config and run");
    *run = NULL;
    status = config->directory ? EITP_OK : eitp__fail_null(error, "eitp_run_open", "config.directory");
    if (!status && config->resume == EITP_RESUME_NAMED && !config->checkpoint)
        status = eitp__fail_null(error, "eitp_run_open", "config.checkpoint with EITP_RESUME_NAMED");
    if (!status)
        status = eitp__run_create(host, config, 1, &created, error);
    if (status)
        return status;
    created->save_early = eitp__run_save_early;
    created->config.resume = config->resume;
    status = eitp__run_prepare_directory(created, config, error);
    if (!status)
        status = eitp_run_set_config(created, config, error);
    if (status)
        eitp_run_close(created);
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

void eitp_run_close(eitp_run *run) {
    eitp_host host;
    if (!run)
        return;
    host = run->host;
    eitp__run_end_prefetch(run);
    if (eitp__run_has_started(run) && run->prune_is_due)
        eitp__run_prune_released(run);
    if (eitp__run_has_started(run))
        eitp__run_clean(run, NULL); /* leftovers that cannot be removed now are removed at the next start */
    eitp__release_observers(run);
    if (run->stage != EITP__RUN_STARTED && run->directory)
        eitp__run_remove_directories(run);
    eitp__run_unlock(run);
    eitp__run_release_meter(run);
    eitp__release_text(&host, run->keep_best);
    eitp__release_text(&host, run->run_name);
    eitp__release_text(&host, run->notes);
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

EITP__PRIVATE void eitp__run_start(eitp_run *run, eitp_trainer *trainer) {
    run->stage = EITP__RUN_STARTED;
    run->trainer = trainer;
    memset(&run->report, 0, sizeof run->report);
    memset(&run->saves, 0, sizeof run->saves);
    memset(&run->decision, 0, sizeof run->decision);
    memset(&run->failure, 0, sizeof run->failure);
    run->report.steps = run->config.steps;
    run->report.saved_step = run->report.evaluated_step = run->report.best_step = -1;
}

eitp_status eitp_run_train(eitp_run *run, eitp_trainer *trainer, eitp_run_report *report, eitp_error *error) {
    eitp_error ignored;
    eitp_status status;
    if (!run || !trainer)
        return eitp__fail_null(error, "eitp_run_train", "run and trainer");
    if (eitp__run_has_started(run))
        return eitp__fail(error, EITP_ERROR_ARGUMENT,
                          "the run in '%s' was already trained; create another run to resume", run->directory);
    eitp__run_start(run, trainer);
    eitp__run_begin_polling(run);
    status = eitp__run_loop(run, error ? error : &ignored);
    eitp__run_end_polling(run);
    run->is_over = 1;
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
