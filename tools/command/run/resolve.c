/* The options of a run, completed from its checkpoint, its profile and each other. */
#include "model/adapt.h"
#include "options/profile.h"
#include "options/table.h"
#include "output.h"
#include "plan/fit.h"
#include "run/resume.h"
#include "run/resume_changes.h"
#include "run/run.h"

int run_starts_from_model(const training_run *r) {
    return r->options.values[OPTION_MODEL].source > r->options.values[OPTION_INIT].source;
}

static eitp_status check_start(const training_run *r, eitp_error *error) {
    const option_set *o = &r->options;
    option_source model = o->values[OPTION_MODEL].source, init = o->values[OPTION_INIT].source;
    if (!model && !init && resume_is_requested(o))
        return command_fail(error, EITP_ERROR_ARGUMENT,
                            "no checkpoint in '%s'; pass --model or --init to start a new run", r->directory);
    if (!model && !init)
        return command_fail(
            error, EITP_ERROR_ARGUMENT,
            "--model or --init is required: a model directory to start from, or a shape with random weights such as "
            "--init tiny");
    if (model && model == init)
        return command_fail(error, EITP_ERROR_ARGUMENT,
                            "--model and --init cannot be used together: start from a model, or from random weights");
    if (run_starts_from_model(r) && options_is_explicit(o, OPTION_VOCAB_SIZE))
        return command_fail(error, EITP_ERROR_ARGUMENT,
                            "--vocab-size requires --init; with --model, the model has its own vocabulary");
    if (!options_has(o, OPTION_DATA))
        return command_fail(error, EITP_ERROR_ARGUMENT,
                            "--data is required: text files, directories of them, or a token file");
    return EITP_OK;
}

/* Accepts default values: a run.json, which has all options, may be used as a configuration. */
static eitp_status check_plateau_options(const option_set *o, const eitp_trainer_config *config, eitp_error *error) {
    const eitp_plateau_config plateau = config->plateau, defaults = eitp_trainer_config_default().plateau;
    const struct {
        option_id id;
        int differs;
    } options[] = {{OPTION_PLATEAU_FACTOR, fabs(plateau.factor - defaults.factor) > 0},
                   {OPTION_PLATEAU_PATIENCE, plateau.patience != defaults.patience},
                   {OPTION_PLATEAU_THRESHOLD, fabs(plateau.threshold - defaults.threshold) > 0},
                   {OPTION_PLATEAU_COOLDOWN, plateau.cooldown != defaults.cooldown}};
    for (size_t i = 0; i < COMMAND_COUNT(options) && config->schedule.kind != EITP_SCHEDULE_PLATEAU; i++) {
        if (options_is_explicit(o, options[i].id) && options[i].differs)
            return command_fail(error, EITP_ERROR_ARGUMENT, "--%s requires --lr-schedule plateau (got %s)",
                                options_name(options[i].id), options_text(o, OPTION_LR_SCHEDULE));
    }
    return EITP_OK;
}

static eitp_status check_schedule(const option_set *o, eitp_error *error) {
    const option_source ratio = o->values[OPTION_WARMUP_RATIO].source, steps = o->values[OPTION_WARMUP_STEPS].source;
    eitp_trainer_config config = eitp_trainer_config_default();
    eitp_status status = options_to_config(o, &config, error);
    if (status)
        return status;
    if (ratio && ratio == steps && options_number(o, OPTION_WARMUP_RATIO) > 0 && config.schedule.warmup > 0)
        return command_fail(error, EITP_ERROR_ARGUMENT,
                            "--warmup-ratio and --warmup-steps cannot be used together; give one of them");
    if (options_is_explicit(o, OPTION_LR_CYCLES) && config.schedule.cycles > 1 &&
        config.schedule.kind != EITP_SCHEDULE_COSINE_WITH_RESTARTS)
        return command_fail(error, EITP_ERROR_ARGUMENT,
                            "--lr-cycles requires --lr-schedule cosine_with_restarts (got %s)",
                            options_text(o, OPTION_LR_SCHEDULE));
    return check_plateau_options(o, &config, error);
}

static int evaluates_between_steps(const option_set *o) {
    return options_integer(o, OPTION_EVAL_STEPS) || options_has(o, OPTION_EVAL_EVERY_FRAC);
}

static eitp_status check_plateau(const option_set *o, eitp_error *error) {
    char origin[220];
    if (options_choice(o, OPTION_LR_SCHEDULE) != EITP_SCHEDULE_PLATEAU)
        return EITP_OK;
    if (!options_choice(o, OPTION_EVAL))
        return command_fail(error, EITP_ERROR_ARGUMENT,
                            "--lr-schedule plateau requires evaluations; set --eval to steps or epoch (got no%s)",
                            options_origin(o, OPTION_EVAL, origin, sizeof origin));
    if (!evaluates_between_steps(o))
        return command_fail(error, EITP_ERROR_ARGUMENT,
                            "--lr-schedule plateau requires evaluations between steps; set --eval-steps");
    return EITP_OK;
}

eitp_status run_check_options(const training_run *r, eitp_error *error) {
    const option_set *o = &r->options;
    eitp_status status = adapt_check(o, r->checkpoint || run_starts_from_model(r), error);
    if (status)
        return status;
    status = r->checkpoint ? changes_check(r, error) : check_start(r, error);
    if (!status && options_integer(o, OPTION_PATIENCE) && !evaluates_between_steps(o))
        status =
            command_fail(error, EITP_ERROR_ARGUMENT, "--patience requires evaluations between steps; set --eval-steps");
    return status ? status : check_plateau(o, error);
}

static double default_rate(const training_run *r) {
    const eitp_optimizer_info *optimizer = eitp_optimizer_get(fit_optimizer(&r->options));
    int is_fine_tuning = run_starts_from_model(r) && !adapt_is_requested(&r->options);
    return is_fine_tuning ? optimizer->fine_tuning_rate : optimizer->rate;
}

/* Converts --warmup-ratio to steps, rounded up. --warmup-steps from a stronger source wins. */
static void resolve_warmup(option_set *o, int64_t steps) {
    const option_source source = o->values[OPTION_WARMUP_RATIO].source;
    double ratio = options_number(o, OPTION_WARMUP_RATIO);
    if (ratio > 0 && source >= o->values[OPTION_WARMUP_STEPS].source)
        options_set_integer(o, OPTION_WARMUP_STEPS, (int64_t)ceil(ratio * (double)steps), source);
}

/* Sets an option implied by --metrics, unless it is set just as explicitly. */
static void set_metric_option(option_set *o, option_id id, const char *value) {
    const option_source source = o->values[OPTION_METRICS].source;
    if (o->values[id].source < source)
        options_set_text(o, id, value, source);
}

/* Resolves --metrics, a shorthand for other options. */
static void resolve_metrics(option_set *o) {
    static const char *const levels[] = {"full", "full", "light"}; /* fast, standard, off */
    static const char *const steps[][2] = {{"100", "1000"}, {"200", "2000"}};
    int chosen;
    if (!options_has(o, OPTION_METRICS))
        return;
    chosen = options_choice(o, OPTION_METRICS);
    set_metric_option(o, OPTION_MONITOR, levels[chosen]);
    if (chosen == (int)COMMAND_COUNT(steps)) {
        set_metric_option(o, OPTION_SPOT_SAMPLES, "0");
        return;
    }
    set_metric_option(o, OPTION_LOG_FULL_EVERY, steps[chosen][0]);
    set_metric_option(o, OPTION_METRICS_EVERY, steps[chosen][1]);
}

/* True if spot evaluations may run, every --log-full-every steps. -1 stands for the default of task vae. */
static int may_spot(const option_set *o) {
    const int64_t samples = options_integer(o, OPTION_SPOT_SAMPLES);
    const int task = options_choice(o, OPTION_TASK);
    const char *shape = options_text(o, OPTION_INIT);
    const int may_be_vae =
        task == EITP_TASK_VAE ||
        (task == EITP_TASK_AUTO && (options_has(o, OPTION_MODEL) || (shape && !strncmp(shape, "vae-", 4))));
    return samples > 0 || (samples < 0 && may_be_vae);
}

/* Warns of options that need a higher level of records. 0 turns most of them off. */
static void report_unrecorded(const option_set *o) {
    static const struct {
        const char *name;
        eitp_monitor least;
    } needs[] = {{"log-full-every", EITP_MONITOR_FULL}, {"metrics-every", EITP_MONITOR_FULL},
                 {"metrics-window", EITP_MONITOR_FULL}, {"spot-samples", EITP_MONITOR_LIGHT},
                 {"perf-every", EITP_MONITOR_LIGHT},    {"gpu-report-every", EITP_MONITOR_LIGHT},
                 {"profile-every", EITP_MONITOR_LIGHT}};
    const eitp_monitor level = (eitp_monitor)options_choice(o, OPTION_MONITOR);
    for (size_t i = 0; i < COMMAND_COUNT(needs); i++) {
        const option_id id = option_find(needs[i].name).id;
        const int is_spot = id == OPTION_LOG_FULL_EVERY && level == EITP_MONITOR_LIGHT && may_spot(o);
        char least[16];
        if (level >= needs[i].least || is_spot || !options_is_requested(o, id) || !options_integer(o, id))
            continue;
        option_choice_name(option_of(OPTION_MONITOR)->setting->choices, needs[i].least, least, sizeof least);
        output_warning("%s%s has no effect with --monitor %s: it requires --monitor %s",
                       *o->values[id].place ? "" : "--", options_name(id), options_text(o, OPTION_MONITOR), least);
    }
}

/* Report destinations: the library's names, in their order, and other programs' names. */
static const char *const report_names[] = {"jsonl", "tensorboard", "csv"};

enum { REPORTS = sizeof report_names / sizeof *report_names };

/* Reads a word of report-to. */
static eitp_status read_report(const char *word, int wanted[REPORTS], eitp_error *error) {
    static const char *const services = "wandb mlflow comet=comet-ml neptune clearml dagshub codecarbon swanlab";
    const int is_all = option_find_choice("all=true", word) >= 0;
    int is_known = is_all || option_find_choice("none=no=false", word) >= 0;
    for (int i = 0; i < REPORTS; i++) {
        const int is_this = option_names_equal(word, report_names[i], strlen(report_names[i]));
        wanted[i] |= is_all || is_this;
        is_known |= is_this;
    }
    if (is_known)
        return EITP_OK;
    if (option_find_choice(services, word) < 0)
        return command_fail(error, EITP_ERROR_ARGUMENT,
                            "--report-to: unknown destination '%s' (choose from jsonl, tensorboard, csv, all, none)",
                            word);
    output_warning("report-to %s: eitp uses no online services; steps and evaluations are recorded in metrics.jsonl",
                   word);
    wanted[0] = 1;
    return EITP_OK;
}

/* Converts the list of report-to for the library. */
static eitp_status resolve_reports(option_set *o, eitp_error *error) {
    int wanted[REPORTS] = {0};
    char *list = command_copy(options_text(o, OPTION_REPORT_TO)), settled[64] = "";
    eitp_status status = EITP_OK;
    for (char *word = strtok(list, ", "); word && !status; word = strtok(NULL, ", "))
        status = read_report(word, wanted, error);
    for (int i = 0; i < REPORTS; i++) {
        const size_t used = strlen(settled);
        if (wanted[i])
            snprintf(settled + used, sizeof settled - used, "%s%s", used ? "," : "", report_names[i]);
    }
    free(list);
    if (!status)
        options_set_text(o, OPTION_REPORT_TO, *settled ? settled : "none", o->values[OPTION_REPORT_TO].source);
    return status;
}

eitp_status run_resolve(training_run *r, eitp_error *error) {
    option_set *o = &r->options;
    eitp_status status;
    r->directory = command_copy(options_text(o, OPTION_OUTPUT_DIR));
    status = resume_find_checkpoint(r, error);
    if (!status && r->checkpoint)
        status = resume_take_options(r, error);
    if (status)
        return status;
    profile_apply(o);
    if (!r->checkpoint)
        profile_name_model(o);
    if (!options_has(o, OPTION_LR))
        options_set_number(o, OPTION_LR, default_rate(r), SOURCE_DEFAULT);
    options_set_number(o, OPTION_WEIGHT_DECAY, eitp_optimizer_get(fit_optimizer(o))->weight_decay, SOURCE_DEFAULT);
    if (!options_integer(o, OPTION_STEPS) && !options_has(o, OPTION_EPOCHS))
        options_set_integer(o, OPTION_EPOCHS, 1, SOURCE_DEFAULT);
    status = check_schedule(o, error);
    if (status)
        return status;
    if (!r->checkpoint && options_integer(o, OPTION_STEPS))
        resolve_warmup(o, options_integer(o, OPTION_STEPS));
    resolve_metrics(o);
    report_unrecorded(o);
    status = resolve_reports(o, error);
    if (!status)
        status = options_reconcile(o, error);
    /* A resumed run keeps its data. */
    if (!status && !r->checkpoint && !options_choice(o, OPTION_EVAL))
        options_set_number(o, OPTION_VAL_FRACTION, 0, SOURCE_DEFAULT);
    return status;
}
