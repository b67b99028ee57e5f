/* Creating, starting and destroying runs. */
#include "base/files.h"
#include "base/setting_table.h"
#include "io/checkpoint.h"
#include "run/meter.h"
#include "run/poll.h"
#include "run/reports.h"
#include "run/run_directory.h"
#include "run/run_loop.h"
#include "run/run_save.h"
#include "run/run_schedule.h"
#include "run/sinks.h"
#include "train/trainer.h"

#define EITP__RUN_SETTING(member, name, kind, value, min, max, choices, help)                                          \
    EITP__SETTING(eitp_run_config, , member, name, kind, value, min, max, 0, ACCEPTED, choices, help)
/* One that may change while the run trains: it is read where it is used, and no result depends on it. */
#define EITP__RUN_LIVE_SETTING(member, name, kind, value, min, max, choices, help)                                     \
    EITP__SETTING(eitp_run_config, , member, name, kind, value, min, max, EITP_SETTING_LIVE, ACCEPTED, choices, help)
/* A period in epochs, or a fraction of the samples, where 0 stands for none. */
#define EITP__RUN_FRACTION(member, name, max, help)                                                                    \
    EITP__SETTING(eitp_run_config, , member, name, NUMBER, 0, 0, max, EITP_SETTING_OPTIONAL, ACCEPTED, NULL, help)
#define EITP__RUN_LOG_SETTING(member, kind, value, min, max, help)                                                     \
    EITP__SETTING(eitp_run_config, , member, #member, kind, value, min, max, EITP_SETTING_OPTIONAL, ACCEPTED, NULL,    \
                  help)

static const eitp_setting eitp__run_settings[] = {
    EITP__TEXT_SETTING(eitp_run_config, , directory, "output_dir", "out", ACCEPTED,
                       "directory of checkpoints and records"),
    EITP__TEXT_SETTING(eitp_run_config, , run_name, "run_name", NULL, ACCEPTED, "a name for the run, in run.json"),
    EITP__TEXT_SETTING(eitp_run_config, , notes, "notes", NULL, ACCEPTED, "notes about the run, in run.json"),
    EITP__RUN_SETTING(steps, "steps", INTEGER, 1000, 0, EITP__LARGEST_COUNT, NULL,
                      "optimizer steps in total; 0: until the end of data"),
    EITP__RUN_SETTING(eval_steps, "eval_steps", INTEGER, 500, 0, EITP__LARGEST_COUNT, NULL,
                      "validate before step 1, every N steps and at the end; 0: only at the end"),
    EITP__RUN_FRACTION(eval_epochs, "eval_every_frac", EITP__UNBOUNDED,
                       "validate before step 1, after each such fraction of an epoch and at the end; 0: do not"),
    EITP__RUN_SETTING(
        eval_samples, "eval_windows", INTEGER, 0, 0, EITP__LARGEST_COUNT, NULL,
        "validate on N windows drawn from all of the data with a fixed seed; 0: on all, but before step 1 on at most "
        "64"),
    EITP__RUN_FRACTION(eval_fraction, "eval_frac", 1, "the same as a fraction of the windows; 0: on eval_windows"),
    EITP__RUN_LIVE_SETTING(save_steps, "save_steps", INTEGER, 500, 0, EITP__LARGEST_COUNT, NULL,
                           "write a checkpoint every N steps and at the end; 0: only at the end"),
    EITP__SETTING(eitp_run_config, , save_epochs, "save_every_epochs", NUMBER, 0, 0, EITP__UNBOUNDED,
                  EITP_SETTING_OPTIONAL | EITP_SETTING_LIVE, ACCEPTED, NULL,
                  "write a checkpoint every N epochs; 0: do not"),
    EITP__RUN_LIVE_SETTING(save_seconds, "save_seconds", NUMBER, 0, 0, EITP__UNBOUNDED, NULL,
                           "also write a checkpoint every X seconds; 0: do not"),
    EITP__RUN_LIVE_SETTING(save_total_limit, "save_total_limit", INTEGER, 2, 0, EITP__LARGEST_COUNT, NULL,
                           "checkpoints to keep; 0: all"),
    EITP__TEXT_SETTING(eitp_run_config, , keep_best, "keep_best", NULL, ACCEPTED,
                       "save when this metric of an evaluation, such as loss or macro_f1, is the best so far, and keep "
                       "that checkpoint as well"),
    EITP__RUN_SETTING(patience, "patience", INTEGER, 0, 0, EITP__LARGEST_COUNT, NULL,
                      "stop after N evaluations in a row without improvement, and keep the best checkpoint, as "
                      "keep_best does; 0: never"),
    EITP__RUN_SETTING(max_nonfinite, "max_nonfinite", INTEGER, 5, 1, EITP__LARGEST_COUNT, NULL,
                      "stop after N steps in a row whose gradient is not finite"),
    EITP__RUN_SETTING(
        check_finite, "check_finite", CHOICE, EITP_CHECK_FINITE_STEP, 0, 2, "step no op",
        "look for numbers that are not finite: in the gradient of each step; not at all; or in the result "
        "of every op, to find the first one (slow)"),
    EITP__SETTING(eitp_run_config, , alarms, "alarms", FLAG, 1, 0, 1, EITP_SETTING_OPTIONAL, ACCEPTED, NULL,
                  "report when the run differs from its own past: plateau, vanishing_gradient, exploding_gradient, "
                  "dead_layer, overfitting, posterior_collapse, memory_drift, slowdown"),
    EITP__RUN_SETTING(auto_shrink, "auto_shrink", FLAG, 0, 0, 1, NULL,
                      "when memory runs short, continue with smaller passes, and stop with a checkpoint if that is not "
                      "enough"),
    EITP__RUN_SETTING(memory_check_seconds, "memory_check_seconds", NUMBER, 0.05, -EITP__UNBOUNDED, EITP__UNBOUNDED,
                      NULL, "least time between two looks at free memory; 0: before every step too; negative: never"),
    EITP__RUN_LIVE_SETTING(
        monitor, "monitor", CHOICE, EITP_MONITOR_LIGHT, 0, 2, "off light full",
        "what to record: evaluations and events; also each step; also norms and activations of layers"),
    EITP__RUN_LIVE_SETTING(log_full_every, "log_full_every", INTEGER, 100, 0, EITP__LARGEST_COUNT, NULL,
                           "with monitor full, record norms and activations of layers every N steps; 0: do not"),
    EITP__SETTING(eitp_run_config, , spot_samples, "spot_samples", INTEGER, -1, -1, EITP__LARGEST_COUNT,
                  EITP_SETTING_OPTIONAL | EITP_SETTING_LIVE, ACCEPTED, NULL,
                  "validation samples of a spot evaluation, made every log_full_every steps; 0: none; -1: 256 of task "
                  "vae"),
    EITP__RUN_LIVE_SETTING(metrics_every, "metrics_every", INTEGER, 1000, 0, EITP__LARGEST_COUNT, NULL,
                           "with monitor full, record statistics of the last steps every N steps; 0: do not"),
    EITP__RUN_SETTING(metrics_window, "metrics_window", INTEGER, 50, 1, 256, NULL, "the number of these steps"),
    EITP__RUN_LIVE_SETTING(
        perf_every, "perf_every", INTEGER, 100, 0, EITP__LARGEST_COUNT, NULL,
        "record times, utilization and use of the system every N steps; 0: only those of each epoch"),
    EITP__SETTING(eitp_run_config, , gpu_report_every, "gpu_report_every", INTEGER, 50, 0, EITP__LARGEST_COUNT,
                  EITP_SETTING_OPTIONAL | EITP_SETTING_LIVE | EITP_SETTING_MINOR, ACCEPTED, NULL,
                  "on a GPU, report and record its memory, temperature and power every N steps; 0: do not"),
    EITP__RUN_LIVE_SETTING(profile_every, "profile_every", INTEGER, 0, 0, EITP__LARGEST_COUNT, NULL,
                           "in every N-th step, which takes longer, record what each kind of op takes; 0: do not"),
    EITP__RUN_SETTING(peak_tflops, "peak_tflops", NUMBER, 0, 0, EITP__UNBOUNDED, NULL,
                      "peak of this machine's matrix products in TFLOP/s, for model FLOPs utilization; 0: measure it"),
    EITP__RUN_LIVE_SETTING(
        cpu_mem_warn, "cpu_mem_warn", NUMBER, 85, 0, 100, NULL,
        "warn when other programs have this percentage of the memory that is not the run's; 0: do not"),
    EITP__RUN_LIVE_SETTING(
        cpu_mem_max, "cpu_mem_max", NUMBER, 90, 0, 100, NULL,
        "save when other programs have this percentage of the memory that is not the run's; 0: do not"),
    EITP__RUN_SETTING(cpu_mem_acts, "cpu_mem_acts", FLAG, 0, 0, 1, NULL,
                      "with auto_shrink, use less memory at cpu_mem_max, and stop if that is not enough"),
    EITP__SETTING(eitp_run_config, , gpu_mem_warn, "gpu_mem_warn", NUMBER, 95, 0, 100, EITP_SETTING_OPTIONAL, ACCEPTED,
                  NULL, "on a GPU, warn when this percentage of its memory is used; 0: do not"),
    EITP__RUN_LIVE_SETTING(
        temp_max, "temp_max", NUMBER, 0, -EITP__UNBOUNDED, EITP__UNBOUNDED, NULL,
        "begin no step while a processor, or the GPU in use, has more degrees Celsius than this, "
        "until it is 10 degrees cooler; 0: 5 degrees below its critical point, or 95; negative: never "
        "wait"),
    EITP__TEXT_SETTING(eitp_run_config, , report_to, "report_to", "jsonl", ACCEPTED,
                       "files of records, separated by commas: jsonl (metrics.jsonl), tensorboard, csv (metrics.csv); "
                       "or none"),
    EITP__TEXT_SETTING(eitp_run_config, , log_dir, "log_dir", NULL, ACCEPTED,
                       "directory in which the run gets a folder for metrics.jsonl, metrics.csv and tensorboard "
                       "(default: they are in the output directory)"),
    EITP__RUN_LOG_SETTING(log_flush_seconds, NUMBER, 1, 0, EITP__UNBOUNDED,
                          "least time between two writes to a file of records"),
    EITP__SETTING(eitp_run_config, , log_every, "log_every", INTEGER, 10, 1, EITP__LARGEST_COUNT,
                  EITP_SETTING_OPTIONAL | EITP_SETTING_LIVE, ACCEPTED, NULL,
                  "steps between two records for TensorBoard and CSV"),
    EITP__RUN_LOG_SETTING(guide_tags, FLAG, 0, 0, 1,
                          "TensorBoard: also write loss, rate, norm and memory of the GPU as Training/Loss, Loss, LR, "
                          "Training/GradientNorm, GradNorm, Performance/GPUMemory and GPUMemory"),
};

const eitp_setting *eitp_run_settings(size_t *count) {
    if (count)
        *count = EITP__COUNT(eitp__run_settings);
    return eitp__run_settings;
}

eitp_run_config eitp_run_config_default(void) {
    eitp_run_config config = EITP__ZERO;
    eitp__settings_reset(eitp__run_settings, EITP__COUNT(eitp__run_settings), &config);
    config.log_wait_seconds = 10;
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
    if (eitp__reports_check(config->report_to, error))
        return EITP_ERROR_ARGUMENT;
    return eitp__settings_check(eitp__run_settings, EITP__COUNT(eitp__run_settings), config, error);
}

/* ---- Observers ---- */

/* Fills in their rows and allocates their states. The row of one that the run does not have stays zeros. */
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

/* Texts of run.json, of run_state.json and its like, statistics of the last steps, the content of the disk reserve. */
#define EITP__RUN_TEXT_BYTES ((size_t)512 << 10)

/* True if the run writes this file: its sinks or settings may be changed while it trains. */
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

/* Texts of a configuration that the run keeps copies of. */
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
    run->config.report_to = run->config.log_dir = NULL; /* the sinks have used them */
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
    created->settings = eitp_run_settings(&created->setting_count);
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
        eitp__run_clean(run, NULL); /* what cannot be removed now is removed at the next start */
    eitp__release_observers(run);
    if (run->stage != EITP__RUN_STARTED && run->directory)
        eitp__run_remove_directories(run);
    eitp__run_unlock(run);
    eitp__release(&host, run->meter, sizeof *run->meter);
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
                          "the run in '%s' was trained already; create another run to resume", run->directory);
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
