/* The settings of runs. */
#include "base/setting_table.h"
#include "run/internal.h"
#include "run/run.h"

#define EITP__RUN_SETTING(member, name, kind, value, min, max, choices, help)                                          \
    EITP__SETTING(eitp_run_config, , member, name, kind, value, min, max, 0, ACCEPTED, choices, help)
/* A live setting, which may change while the run trains: it is read where it is used, and no result depends on it. */
#define EITP__RUN_LIVE_SETTING(member, name, kind, value, min, max, choices, help)                                     \
    EITP__SETTING(eitp_run_config, , member, name, kind, value, min, max, EITP_SETTING_LIVE, ACCEPTED, choices, help)
/* A period in epochs, or a fraction of the samples; 0: none. */
#define EITP__RUN_FRACTION(member, name, max, help)                                                                    \
    EITP__SETTING(eitp_run_config, , member, name, NUMBER, 0, 0, max, EITP_SETTING_OPTIONAL, ACCEPTED, NULL, help)
#define EITP__RUN_LOG_SETTING(member, kind, value, min, max, help)                                                     \
    EITP__SETTING(eitp_run_config, , member, #member, kind, value, min, max, EITP_SETTING_OPTIONAL, ACCEPTED, NULL,    \
                  help)

static const eitp_setting eitp__run_settings[] = {
    EITP__TEXT_SETTING(eitp_run_config, , directory, "output_dir", "out", ACCEPTED,
                       "directory for checkpoints and records"),
    EITP__TEXT_SETTING(eitp_run_config, , run_name, "run_name", NULL, ACCEPTED, "a name for the run, in run.json"),
    EITP__TEXT_SETTING(eitp_run_config, , notes, "notes", NULL, ACCEPTED, "notes about the run, in run.json"),
    EITP__RUN_SETTING(steps, "steps", INTEGER, 1000, 0, EITP__LARGEST_COUNT, NULL,
                      "total optimizer steps; 0: until the end of data"),
    EITP__RUN_SETTING(eval_steps, "eval_steps", INTEGER, 500, 0, EITP__LARGEST_COUNT, NULL,
                      "validate before step 1, every N steps and at the end; 0: only at the end"),
    EITP__RUN_FRACTION(eval_epochs, "eval_every_frac", EITP__UNBOUNDED,
                       "validate before step 1, after each such fraction of an epoch and at the end; 0: off"),
    EITP__RUN_SETTING(
        eval_samples, "eval_windows", INTEGER, 0, 0, EITP__LARGEST_COUNT, NULL,
        "validate on N windows drawn from the whole data with a fixed seed; 0: on all, but before step 1 on at most "
        "64"),
    EITP__RUN_FRACTION(eval_fraction, "eval_frac", 1, "validate on this fraction of the windows; 0: use eval_windows"),
    EITP__RUN_LIVE_SETTING(save_steps, "save_steps", INTEGER, 500, 0, EITP__LARGEST_COUNT, NULL,
                           "write a checkpoint every N steps and at the end; 0: only at the end"),
    EITP__SETTING(eitp_run_config, , save_epochs, "save_every_epochs", NUMBER, 0, 0, EITP__UNBOUNDED,
                  EITP_SETTING_OPTIONAL | EITP_SETTING_LIVE, ACCEPTED, NULL,
                  "write a checkpoint every N epochs; 0: off"),
    EITP__RUN_LIVE_SETTING(save_seconds, "save_seconds", NUMBER, 0, 0, EITP__UNBOUNDED, NULL,
                           "also write a checkpoint every X seconds; 0: off"),
    EITP__RUN_LIVE_SETTING(save_total_limit, "save_total_limit", INTEGER, 2, 0, EITP__LARGEST_COUNT, NULL,
                           "number of checkpoints to keep; 0: all"),
    EITP__TEXT_SETTING(
        eitp_run_config, , keep_best, "keep_best", NULL, ACCEPTED,
        "save after an evaluation with the best value so far of this metric, such as loss or macro_f1, and keep "
        "that checkpoint as well"),
    EITP__RUN_SETTING(patience, "patience", INTEGER, 0, 0, EITP__LARGEST_COUNT, NULL,
                      "stop after N consecutive evaluations without improvement, and keep the best checkpoint, like "
                      "keep_best; 0: never"),
    EITP__RUN_SETTING(max_nonfinite, "max_nonfinite", INTEGER, 5, 1, EITP__LARGEST_COUNT, NULL,
                      "stop after N consecutive steps whose gradient is not finite"),
    EITP__RUN_SETTING(check_finite, "check_finite", CHOICE, EITP_CHECK_FINITE_STEP, 0, 2, "step no op",
                      "check for non-finite numbers: in the gradient of each step; not at all; or in the result "
                      "of every op, to find the first one (slow)"),
    EITP__SETTING(eitp_run_config, , alarms, "alarms", FLAG, 1, 0, 1, EITP_SETTING_OPTIONAL, ACCEPTED, NULL,
                  "report anomalies compared with the run's own past: plateau, vanishing_gradient, exploding_gradient, "
                  "dead_layer, overfitting, posterior_collapse, memory_drift, slowdown"),
    EITP__RUN_SETTING(auto_shrink, "auto_shrink", FLAG, 0, 0, 1, NULL,
                      "when memory becomes short, continue with smaller passes; save and stop if that is not "
                      "enough"),
    EITP__RUN_SETTING(memory_check_seconds, "memory_check_seconds", NUMBER, 0.05, -EITP__UNBOUNDED, EITP__UNBOUNDED,
                      NULL, "minimum time between two memory checks; 0: also before every step; negative: never"),
    EITP__RUN_LIVE_SETTING(
        monitor, "monitor", CHOICE, EITP_MONITOR_LIGHT, 0, 2, "off light full",
        "records to write: evaluations and events; also each step; also norms and activations of layers"),
    EITP__RUN_LIVE_SETTING(log_full_every, "log_full_every", INTEGER, 100, 0, EITP__LARGEST_COUNT, NULL,
                           "with monitor full, record norms and activations of layers every N steps; 0: off"),
    EITP__SETTING(eitp_run_config, , spot_samples, "spot_samples", INTEGER, -1, -1, EITP__LARGEST_COUNT,
                  EITP_SETTING_OPTIONAL | EITP_SETTING_LIVE, ACCEPTED, NULL,
                  "validation samples in a spot evaluation, every log_full_every steps; 0: none; -1: 256 for task "
                  "vae, else none"),
    EITP__RUN_LIVE_SETTING(metrics_every, "metrics_every", INTEGER, 1000, 0, EITP__LARGEST_COUNT, NULL,
                           "with monitor full, record rolling statistics every N steps; 0: off"),
    EITP__RUN_SETTING(metrics_window, "metrics_window", INTEGER, 50, 1, 256, NULL,
                      "number of steps in rolling statistics"),
    EITP__RUN_LIVE_SETTING(perf_every, "perf_every", INTEGER, 100, 0, EITP__LARGEST_COUNT, NULL,
                           "record times, utilization and system usage every N steps; 0: only once per epoch"),
    EITP__SETTING(eitp_run_config, , gpu_report_every, "gpu_report_every", INTEGER, 50, 0, EITP__LARGEST_COUNT,
                  EITP_SETTING_OPTIONAL | EITP_SETTING_LIVE | EITP_SETTING_MINOR, ACCEPTED, NULL,
                  "on a GPU, report and record its memory, temperature and power every N steps; 0: off"),
    EITP__RUN_LIVE_SETTING(profile_every, "profile_every", INTEGER, 0, 0, EITP__LARGEST_COUNT, NULL,
                           "record the time of each kind of op in every N-th step, which takes longer; 0: off"),
    EITP__RUN_SETTING(
        peak_tflops, "peak_tflops", NUMBER, 0, 0, EITP__UNBOUNDED, NULL,
        "peak rate of this machine's matrix products in TFLOP/s, for model FLOPs utilization; 0: measure it"),
    EITP__RUN_LIVE_SETTING(cpu_mem_warn, "cpu_mem_warn", NUMBER, 85, 0, 100, NULL,
                           "warn when other programs use this percentage of the memory not used by the run; 0: off"),
    EITP__RUN_LIVE_SETTING(cpu_mem_max, "cpu_mem_max", NUMBER, 90, 0, 100, NULL,
                           "save when other programs use this percentage of the memory not used by the run; 0: off"),
    EITP__RUN_SETTING(cpu_mem_acts, "cpu_mem_acts", FLAG, 0, 0, 1, NULL,
                      "with auto_shrink, use less memory at cpu_mem_max; stop if that is not enough"),
    EITP__SETTING(eitp_run_config, , gpu_mem_warn, "gpu_mem_warn", NUMBER, 95, 0, 100, EITP_SETTING_OPTIONAL, ACCEPTED,
                  NULL, "on a GPU, warn when this percentage of its memory is used; 0: off"),
    EITP__RUN_LIVE_SETTING(
        temp_max, "temp_max", NUMBER, 0, -EITP__UNBOUNDED, EITP__UNBOUNDED, NULL,
        "pause before a step while a processor, or the GPU in use, is hotter than this (degrees Celsius), "
        "until it is 10 degrees cooler; 0: 5 degrees below its critical temperature, or 95; negative: never "
        "pause"),
    EITP__TEXT_SETTING(eitp_run_config, , report_to, "report_to", "jsonl", ACCEPTED,
                       "record files, separated by commas: jsonl (metrics.jsonl), tensorboard, csv (metrics.csv); "
                       "or none"),
    EITP__TEXT_SETTING(eitp_run_config, , log_dir, "log_dir", NULL, ACCEPTED,
                       "directory in which the run creates a folder for metrics.jsonl, metrics.csv and tensorboard "
                       "(default: the output directory)"),
    EITP__RUN_LOG_SETTING(log_flush_seconds, NUMBER, 1, 0, EITP__UNBOUNDED,
                          "minimum time between two writes to a record file"),
    EITP__SETTING(eitp_run_config, , log_every, "log_every", INTEGER, 10, 1, EITP__LARGEST_COUNT,
                  EITP_SETTING_OPTIONAL | EITP_SETTING_LIVE, ACCEPTED, NULL,
                  "steps between two records for TensorBoard and CSV"),
    EITP__RUN_LOG_SETTING(
        guide_tags, FLAG, 0, 0, 1,
        "TensorBoard: also write loss, learning rate, gradient norm and GPU memory as Training/Loss, Loss, LR, "
        "Training/GradientNorm, GradNorm, Performance/GPUMemory and GPUMemory"),
};

EITP__PRIVATE const eitp_setting *eitp__run_setting_table(size_t *count) {
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
