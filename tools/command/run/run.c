#include "run/run.h"

#include "data/labelled.h"
#include "files.h"
#include "model/adapt.h"
#include "model/model.h"
#include "options/profile.h"
#include "output.h"
#include "plan/advice.h"
#include "process.h"
#include "run/directory.h"
#include "run/record.h"
#include "run/resume.h"
#include "run/resume_changes.h"
#include "task/task.h"

#include <time.h>

/* ---- Options ---- */

static int starts_from_model(const training_run *r) {
    return r->options.values[OPTION_MODEL].source > r->options.values[OPTION_INIT].source;
}

static eitp_status check_start(const training_run *r, eitp_error *error) {
    const option_set *o = &r->options;
    option_source model = o->values[OPTION_MODEL].source, init = o->values[OPTION_INIT].source;
    if (!model && !init && resume_is_requested(o))
        return command_fail(error, EITP_ERROR_ARGUMENT,
                            "no checkpoint in '%s'; give --model or --init to start a new run", r->directory);
    if (!model && !init)
        return command_fail(
            error, EITP_ERROR_ARGUMENT,
            "--model or --init is required: a model directory to start from, or a shape with random weights as in "
            "--init tiny");
    if (model && model == init)
        return command_fail(error, EITP_ERROR_ARGUMENT,
                            "--model and --init cannot be used together: start from a model, or from random weights");
    if (starts_from_model(r) && options_is_explicit(o, OPTION_VOCAB_SIZE))
        return command_fail(error, EITP_ERROR_ARGUMENT,
                            "--vocab-size requires --init; the model of --model has a vocabulary");
    if (!options_has(o, OPTION_DATA))
        return command_fail(error, EITP_ERROR_ARGUMENT,
                            "--data is required: text files, directories of them, or a token file");
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
    return EITP_OK;
}

static eitp_status check_combination(const training_run *r, eitp_error *error) {
    const option_set *o = &r->options;
    eitp_status status = adapt_check(o, r->checkpoint || starts_from_model(r), error);
    if (status)
        return status;
    return r->checkpoint ? resume_check(r, error) : check_start(r, error);
}

static double default_rate(const training_run *r) {
    const eitp_optimizer_info *optimizer = eitp_optimizer_get(fit_optimizer(&r->options));
    int is_fine_tuning = starts_from_model(r) && !adapt_is_requested(&r->options);
    return is_fine_tuning ? optimizer->fine_tuning_rate : optimizer->rate;
}

/* --warmup-ratio as steps, rounded up; --warmup-steps from a better source stands. */
static void resolve_warmup(option_set *o, int64_t steps) {
    const option_source source = o->values[OPTION_WARMUP_RATIO].source;
    double ratio = options_number(o, OPTION_WARMUP_RATIO);
    if (ratio > 0 && source >= o->values[OPTION_WARMUP_STEPS].source)
        options_set_integer(o, OPTION_WARMUP_STEPS, (int64_t)ceil(ratio * (double)steps), source);
}

/* Other programs' names for where to report. */
static void resolve_reports(option_set *o) {
    char text[64];
    snprintf(text, sizeof text, "%s", options_text(o, OPTION_REPORT_TO));
    if (!options_choice(o, OPTION_REPORT_TO) && strcmp(text, "jsonl")) {
        output_warning("report-to %s: steps and evaluations are recorded in metrics.jsonl in the output directory",
                       text);
        options_set_text(o, OPTION_REPORT_TO, "jsonl", o->values[OPTION_REPORT_TO].source);
    }
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
    if (!options_has(o, OPTION_LR))
        options_set_number(o, OPTION_LR, default_rate(r), SOURCE_DEFAULT);
    options_set_number(o, OPTION_WEIGHT_DECAY, eitp_optimizer_get(fit_optimizer(o))->weight_decay, SOURCE_DEFAULT);
    if (!options_has(o, OPTION_STEPS) && !options_has(o, OPTION_EPOCHS))
        options_set_integer(o, OPTION_EPOCHS, 1, SOURCE_DEFAULT);
    status = check_schedule(o, error);
    if (status)
        return status;
    if (!r->checkpoint && options_has(o, OPTION_STEPS))
        resolve_warmup(o, options_integer(o, OPTION_STEPS));
    resolve_reports(o);
    status = options_reconcile(o, error);
    /* A run that is resumed keeps its data. */
    if (!status && !r->checkpoint && !options_choice(o, OPTION_EVAL))
        options_set_number(o, OPTION_VAL_FRACTION, 0, SOURCE_DEFAULT);
    return status;
}

/* ---- The output directory ---- */

/* Writes run.json into a checkpoint, which can be resumed without the one in the output directory. */
static eitp_status save_record(void *user, const char *directory, eitp_error *error) {
    const training_run *r = (const training_run *)user;
    char *path = files_join(directory, "run.json");
    eitp_status status = files_replace(path, r->record.data, r->record.size, error);
    free(path);
    return status;
}

/* True if a checkpoint is due before the last step. */
static int saves_between_steps(const training_run *r) {
    const option_set *o = &r->options;
    const int64_t every = options_integer(o, OPTION_SAVE_STEPS);
    const int64_t steps = r->steps - (r->checkpoint ? r->resumed.step : 0);
    return (every && (!r->steps || every < steps)) || options_choice(o, OPTION_SAVE_STRATEGY) == 2 ||
           options_number(o, OPTION_SAVE_SECONDS) > 0 || options_has(o, OPTION_KEEP_BEST);
}

size_t run_copy_bytes(const training_run *r) {
    const size_t budget = r->fit.budget, total = r->choice.total + r->choice.checkpoint;
    const int is_wanted = !options_choice(&r->options, OPTION_ASYNC_SAVE) && saves_between_steps(r);
    return is_wanted && (!budget || total <= budget) ? r->choice.checkpoint : 0;
}

static eitp_status run_config(training_run *r, eitp_run_config *config, eitp_error *error) {
    const option_set *o = &r->options;
    eitp_status status;
    *config = eitp_run_config_default();
    /* Options that are not in force have no value: see options_reconcile. */
    config->eval_steps = config->save_steps = 0;
    status = options_to_run_config(o, config, error);
    config->steps = r->steps;
    config->eval_epochs = options_number(o, OPTION_EVAL_EVERY_FRAC);
    config->eval_fraction = options_number(o, OPTION_EVAL_FRAC);
    config->save_epochs = options_choice(o, OPTION_SAVE_STRATEGY) == 2;
    config->metrics = options_choice(o, OPTION_REPORT_TO) == 0;
    config->async_save_bytes = run_copy_bytes(r);
    config->listener = r->listener;
    config->save = save_record;
    config->save_user = r;
    return status;
}

static eitp_status prepare_directory(training_run *r, eitp_error *error) {
    return r->run ? EITP_OK : directory_open(r, r->checkpoint ? EITP_RESUME_NAMED : EITP_RESUME_NONE, error);
}

/* Checked here, where the options have names. */
static eitp_status check_best(training_run *r, eitp_error *error) {
    const option_set *o = &r->options;
    const char *metric = options_text(o, OPTION_KEEP_BEST);
    if ((metric || options_integer(o, OPTION_PATIENCE)) && !r->validates)
        return command_fail(error, EITP_ERROR_ARGUMENT,
                            "--keep-best and --patience require validation data; set --val-data or --val-fraction");
    if (options_integer(o, OPTION_PATIENCE) && !options_integer(o, OPTION_EVAL_STEPS) &&
        !options_has(o, OPTION_EVAL_EVERY_FRAC))
        return command_fail(error, EITP_ERROR_ARGUMENT,
                            "--patience requires evaluations between steps; set --eval-steps");
    return EITP_OK;
}

/* Checked once the task's metrics are known. */
static eitp_status check_metric(training_run *r, eitp_error *error) {
    const char *metric = options_text(&r->options, OPTION_KEEP_BEST);
    text_buffer names = {NULL, 0, 0};
    eitp_status status;
    if (!metric || eitp_trainer_has_metric(r->trainer, metric))
        return EITP_OK;
    text_format(&names, "loss");
    for (int i = 0; i < r->task.metric_count; i++)
        text_format(&names, ", %s", r->task.metrics[i].name);
    status = command_fail(error, EITP_ERROR_ARGUMENT, "--keep-best: unknown metric '%s' (choose from %s)", metric,
                          names.data);
    text_release(&names);
    return status;
}

/* ---- Model and tokenizer ---- */

eitp_status run_read_model(training_run *r, eitp_status (*read)(training_run *r, void *user, eitp_error *error),
                           void *user, eitp_error *error) {
    const char *given = options_text(&r->options, OPTION_MODEL);
    int attempts = 0;
    for (;;) {
        const eitp_status status = read(r, user, error);
        if (!status || !model_read_again(given, r->model_directory, &attempts, error))
            return status ? error->status : EITP_OK;
        free(r->model_directory);
        r->model_directory = NULL;
    }
}

/* The directory that --model means, in a new text. It is found once: a run that trains there has others later. */
static eitp_status find_model(training_run *r, char **directory, eitp_error *error) {
    eitp_status status = EITP_OK;
    if (!r->model_directory)
        status = model_find_directory(options_text(&r->options, OPTION_MODEL), &r->model_directory, error);
    *directory = status ? NULL : command_copy(r->model_directory);
    return status;
}

/* The same as an absolute path, which adapters are saved with. */
static eitp_status find_base(training_run *r, char **base, eitp_error *error) {
    eitp_status status = find_model(r, base, error);
    char *absolute = status ? NULL : realpath(*base, NULL);
    if (absolute) {
        free(*base);
        *base = absolute;
    }
    return status;
}

/* The model's shape, with --dropout. */
static eitp_status try_shape(training_run *r, void *user, eitp_error *error) {
    const option_set *o = &r->options;
    const eitp_host host = command_host();
    double dropout = options_number(o, OPTION_DROPOUT);
    char *directory = NULL;
    eitp_status status = EITP_OK;
    (void)user;
    if (r->checkpoint)
        directory = command_copy(r->checkpoint);
    else if (starts_from_model(r))
        status = find_model(r, &directory, error);
    else
        status = fit_read_shape(o, &r->shape, error);
    if (!status && directory)
        status = eitp_model_config_read(&host, directory, &r->shape, error);
    if (!status && directory)
        r->directory_shape = r->shape;
    if (!status)
        r->kind =
            r->checkpoint && !options_choice(o, OPTION_TASK) ? task_of_shape(&r->shape) : task_choose(o, &r->shape);
    if (!status)
        status = r->kind->set_shape(r, directory ? directory : options_text(o, OPTION_INIT), error);
    if (!status && directory)
        status = fit_check_shape(o, &r->shape, directory, error);
    if (!status && options_has(o, OPTION_DROPOUT) && !(r->checkpoint && !options_is_explicit(o, OPTION_DROPOUT)))
        r->shape.embedding_dropout = r->shape.attention_dropout = r->shape.residual_dropout = dropout;
    free(directory);
    return status;
}

static eitp_status read_shape(training_run *r, eitp_error *error) {
    return run_read_model(r, try_shape, NULL, error);
}

/* What the directory lacks is random by --seed; with adapters, whose checkpoints do not have it, always the same. A
   classifier of the other kind may have the same names there. */
static eitp_status load_weights(const training_run *r, const char *base, uint64_t seed, eitp_error *error) {
    const eitp_host host = command_host();
    eitp_transformer_config own;
    eitp_load_config config;
    char *path = files_join(base, "config.json");
    eitp_status status = eitp_transformer_config_read(&host, path, &own, error);
    free(path);
    memset(&config, 0, sizeof config);
    config.seed = adapt_is_requested(&r->options) ? 0 : seed;
    config.head_is_replaced = r->checkpoint && eitp_head_has_labels(r->shape.head);
    config.fresh_head = !status && eitp_head_has_labels(own.head) && own.head != r->shape.head;
    return status ? status : eitp_model_load_weights_with(r->model, base, &config, error);
}

/* Loads the weights that the run starts from, or that the adapters of its checkpoint belong to. */
static eitp_status load_base(training_run *r, void *user, eitp_error *error) {
    char *base = NULL;
    eitp_status status =
        r->checkpoint ? adapt_find_base(&r->options, r->checkpoint, &base, error) : find_base(r, &base, error);
    (void)user;
    if (!status)
        status = load_weights(r, base, (uint64_t)options_integer(&r->options, OPTION_SEED), error);
    free(base);
    return status;
}

static eitp_status create_model(training_run *r, eitp_error *error) {
    const eitp_host host = command_host();
    const option_set *o = &r->options;
    const uint64_t seed = (uint64_t)options_integer(o, OPTION_SEED);
    /* A resume loads the weights of a checkpoint with the rest of its state, except those that adapters belong to. */
    int has_base = adapt_is_requested(o) || (!r->checkpoint && starts_from_model(r));
    eitp_transformer_config config = r->shape;
    eitp_status status = EITP_OK;
    /* With its own dropout, which set_dropout compares. */
    if (!status && r->checkpoint)
        status = eitp_model_config_read(&host, r->checkpoint, &config, error);
    if (!status)
        status = eitp_model_create(r->context, &config, &r->model, error);
    if (!status)
        status = adapt_model(o, r->model, error);
    if (!status && has_base)
        status = run_read_model(r, load_base, NULL, error);
    else if (!status && !r->checkpoint)
        status = eitp_model_initialize(r->model, seed, error);
    if (!status && r->checkpoint && eitp_head_has_labels(config.head))
        status = eitp_model_read_labels(r->model, r->checkpoint, error);
    return status ? status : eitp_model_initialize_lora(r->model, seed, error);
}

static eitp_status set_dropout(training_run *r, eitp_error *error) {
    const option_set *o = &r->options;
    eitp_transformer_config config = eitp_model_config(r->model);
    double dropout = options_number(o, OPTION_DROPOUT);
    if (!options_has(o, OPTION_DROPOUT) || (r->checkpoint && !options_is_explicit(o, OPTION_DROPOUT)))
        return EITP_OK;
    if (r->checkpoint && !(config.embedding_dropout >= dropout && config.embedding_dropout <= dropout &&
                           config.attention_dropout >= dropout && config.attention_dropout <= dropout &&
                           config.residual_dropout >= dropout && config.residual_dropout <= dropout))
        output_warning("dropout was %g, %g and %g in '%s' and is %g from now on", config.embedding_dropout,
                       config.attention_dropout, config.residual_dropout, r->checkpoint, dropout);
    return eitp_model_set_dropout(r->model, dropout, dropout, dropout, error);
}

/* The tokenizer of --tokenizer or of the model. */
static eitp_status try_tokenizer(training_run *r, void *user, eitp_error *error) {
    const option_set *o = &r->options;
    const char *given =
        !r->checkpoint || options_is_explicit(o, OPTION_TOKENIZER) ? options_text(o, OPTION_TOKENIZER) : NULL;
    char *directory = NULL;
    eitp_status status = EITP_OK;
    (void)user;
    if (r->checkpoint)
        directory = command_copy(r->checkpoint);
    else if (starts_from_model(r))
        status = find_model(r, &directory, error);
    if (!status)
        status = model_load_tokenizer(given, directory, &r->tokenizer, error);
    free(directory);
    return status;
}

static eitp_status load_tokenizer(training_run *r, eitp_error *error) {
    return run_read_model(r, try_tokenizer, NULL, error);
}

void run_complete_options(training_run *r) {
    eitp_error error;
    const int has_model =
        r->checkpoint || options_has(&r->options, OPTION_MODEL) || options_has(&r->options, OPTION_INIT);
    const eitp_transformer_config *shape = has_model && !read_shape(r, &error) ? &r->shape : NULL;
    if (shape && task_has_rows(&r->options, shape) && !load_tokenizer(r, &error))
        labelled_max_length(&r->options, r->tokenizer, shape);
    if (shape)
        advice_settle_profile(&r->options, shape, &error);
    fit_set_defaults(&r->options, shape);
}

void run_set_vocabulary(training_run *r) {
    if (!r->checkpoint && !starts_from_model(r))
        fit_set_vocabulary(&r->options, r->tokenizer, &r->shape);
}

static int is_stopped(void *user) {
    (void)user;
    return process_stop_signal() != 0;
}

static eitp_status open_data(training_run *r, eitp_error *error) {
    const eitp_status status = r->kind->open(r, error);
    data_file *const files[] = {&r->training, &r->validation};
    /* If another program touches a file, all of it is compared: a stop does not wait for that. */
    for (size_t i = 0; i < COMMAND_COUNT(files) && !status; i++) {
        eitp_token_file_set_poll(files[i]->file, is_stopped, NULL);
        eitp_labelled_file_set_poll(files[i]->labelled, is_stopped, NULL);
    }
    return status;
}

/* ---- The trainer ---- */

/* For --drop-last: only steps that the data fills. */
static eitp_status drop_last_step(eitp_trainer_config *config, eitp_error *error) {
    const uint64_t step = (uint64_t)config->batch_size * (uint64_t)config->grad_accum;
    if (config->last_sample < step)
        return command_fail(error, EITP_ERROR_ARGUMENT,
                            "--drop-last: the data has %llu windows and a step takes %llu; leave it out, or lower "
                            "--batch-size or --grad-accum",
                            (unsigned long long)config->last_sample, (unsigned long long)step);
    config->schedule.steps = (int64_t)(config->last_sample / step);
    return EITP_OK;
}

/* How long to train, and the warm-up: as recorded, or by --steps or --epochs, whichever is from the better source. */
static eitp_status set_length(training_run *r, eitp_trainer_config *config, eitp_error *error) {
    option_set *o = &r->options;
    option_source steps = o->values[OPTION_STEPS].source, epochs = o->values[OPTION_EPOCHS].source;
    eitp_status status = EITP_OK;
    config->last_sample = 0;
    if (r->checkpoint && steps <= SOURCE_CHECKPOINT && epochs <= SOURCE_CHECKPOINT &&
        r->resumed.config.schedule.steps) {
        config->schedule.steps = r->resumed.config.schedule.steps;
        config->last_sample = r->resumed.config.last_sample;
    } else if (steps >= epochs) {
        config->schedule.steps = options_integer(o, OPTION_STEPS);
    } else {
        status = eitp_trainer_config_set_epochs(config, &r->task, options_number(o, OPTION_EPOCHS), error);
        if (!status && options_integer(o, OPTION_DROP_LAST))
            status = drop_last_step(config, error);
    }
    r->steps = config->schedule.steps;
    resolve_warmup(o, r->steps);
    config->schedule.warmup = options_integer(o, OPTION_WARMUP_STEPS);
    return status;
}

static eitp_status create_trainer(training_run *r, eitp_error *error) {
    const option_set *o = &r->options;
    eitp_trainer_config config = r->fit.trainer;
    eitp_status status;
    config.micro_batches_per_pass = r->choice.micro_batches_per_pass;
    config.optimizer_config.optimizer = r->choice.optimizer;
    config.plan = r->choice.plan;
    status = r->kind->create(r, error);
    if (!status)
        status = set_length(r, &config, error);
    if (!status)
        status = eitp_trainer_create(&r->task, &config, &r->trainer, error);
    if (!status)
        options_set_integer(&r->options, OPTION_MICRO_BATCHES_PER_PASS, eitp_trainer_micro_batches_per_pass(r->trainer),
                            o->values[OPTION_MICRO_BATCHES_PER_PASS].source);
    if (!status && r->checkpoint)
        status = model_add_hint(eitp_run_resume_trainer(r->run, r->trainer, error), error);
    return status;
}

/* ---- The first lines of the log, and run.json ---- */

static void log_memory(const training_run *r) {
    size_t parameters = eitp_context_variable_bytes(r->context, EITP_PARAMETER) +
                        eitp_context_variable_bytes(r->context, EITP_REMAINDER);
    size_t gradients = eitp_context_variable_bytes(r->context, EITP_GRADIENT);
    size_t state = eitp_context_variable_bytes(r->context, EITP_OPTIMIZER);
    size_t arena = eitp_context_arena_bytes(r->context);
    const eitp_optimizer_info *optimizer = eitp_optimizer_get(r->choice.optimizer);
    char text[200];
    const size_t copy = run_copy_bytes(r);
    output_info(
        "memory: parameters %s, gradients %s, optimizer state %s, activations %s%s%s; total with the process %s",
        output_bytes((double)parameters), output_bytes((double)gradients), output_bytes((double)state),
        output_bytes((double)arena), copy ? ", copy of a checkpoint " : "", copy ? output_bytes((double)copy) : "",
        output_bytes((double)(r->choice.total + copy)));
    output_info("configuration: %s", fit_describe(&r->fit, &r->choice, text, sizeof text));
    if (optimizer->fidelity == EITP_SAME_BITS || !r->fit.any_optimizer)
        return;
    if (profile_takes_least(&r->options))
        output_warning("the profile low-memory uses %s (%s) instead of adamw in full precision", optimizer->name,
                       optimizer->state);
    else
        output_warning("adamw in full precision does not fit in %s: using %s (%s)", output_bytes((double)r->fit.budget),
                       optimizer->name, optimizer->state);
}

/* What offloading moves in a step, and writes to the disk in all. */
static void log_offload(const training_run *r) {
    double steps = (double)(r->steps - (r->checkpoint ? r->resumed.step : 0));
    if (!r->choice.offload || steps <= 0)
        return;
    output_info("offloaded: %s in a file; a step reads %s and writes %s", output_bytes((double)r->choice.offloaded),
                output_bytes(r->choice.file_reads), output_bytes(r->choice.file_writes));
    output_warning("this run writes %s to the disk of '%s'; solid-state disks last for some hundred times their size",
                   output_bytes(steps * r->choice.file_writes),
                   options_has(&r->options, OPTION_OFFLOAD_FILE) ? options_text(&r->options, OPTION_OFFLOAD_FILE)
                                                                 : r->directory);
}

double run_epochs(const training_run *r) {
    const option_set *o = &r->options;
    const int64_t samples = options_integer(o, OPTION_BATCH_SIZE) * options_integer(o, OPTION_GRAD_ACCUM);
    return (double)(r->steps * samples) / (double)r->task.samples[EITP_TRAINING];
}

static void log_run(const training_run *r) {
    const option_set *o = &r->options;
    int64_t block = r->task.rows;
    int64_t sequences = options_integer(o, OPTION_BATCH_SIZE) * options_integer(o, OPTION_GRAD_ACCUM);
    output_info("device: %s", eitp_context_description(r->context));
    output_info("model: %lld parameters, vocabulary %lld; step: %lld sequences of %lld tokens, %lld of %lld "
                "micro-batches per pass",
                (long long)eitp_model_parameter_count(r->model), (long long)eitp_model_vocabulary(r->model),
                (long long)sequences, (long long)block, (long long)eitp_trainer_micro_batches_per_pass(r->trainer),
                (long long)options_integer(o, OPTION_GRAD_ACCUM));
    adapt_log(r->model);
    if (r->kind != &task_language)
        output_info("task: %s%s", r->kind->name,
                    options_choice(o, OPTION_TASK) ? "" : " (inferred; override with --task)");
    r->kind->log(r);
    if (r->checkpoint && r->resumed.step < r->steps)
        output_info("resuming from '%s' at step %lld of %lld", r->checkpoint, (long long)r->resumed.step,
                    (long long)r->steps);
}

static eitp_status write_record(training_run *r, eitp_error *error) {
    text_buffer *t = &r->record;
    char now[40], *path = files_join(r->directory, "run.json");
    char *directory = realpath(r->directory, NULL);
    time_t seconds = time(NULL);
    struct tm utc;
    int is_new = files_info(path).kind == EITP_PATH_MISSING;
    eitp_status status;
    strftime(now, sizeof now, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&seconds, &utc));
    record_make_absolute(&r->options);
    text_format(t, "{\"run\": {");
    text_json_member_string(t, "version", eitp_version());
    text_json_member_string(t, "build", eitp_build_info());
    text_json_member_string(t, "device", eitp_context_description(r->context));
    text_json_member_string(t, "numerics", eitp_context_numerics(r->context));
    text_json_member_string(t, "started", now);
    if (directory)
        text_json_member_string(t, "directory", directory);
    text_json_member_integer(t, "first_step", eitp_trainer_steps_done(r->trainer) + 1);
    text_json_member_integer(t, "last_step", r->steps);
    text_json_member_integer(t, "parameters", eitp_model_parameter_count(r->model));
    r->kind->record(r, t);
    text_format(t, "},\n\"configuration\": {");
    options_write(&r->options, t);
    text_format(t, "}}\n");
    free(directory);
    status = files_replace(path, t->data, t->size, error);
    if (status)
        output_warning("%s; the run continues, since each checkpoint has its own", error->message);
    if (!status && is_new)
        r->made_record = path;
    else
        free(path);
    return EITP_OK;
}

/* Removes packed data that no longer belongs to the run, once nothing can refuse the run any more. */
static eitp_status clean_data(training_run *r, eitp_error *error) {
    char *directory = files_join(r->directory, "data");
    (void)error;
    data_clean(directory, &r->training, &r->validation);
    free(directory);
    return EITP_OK;
}

/* ---- Preparing ---- */

static eitp_status check_stopped(eitp_error *error) {
    return process_stop_signal()
               ? command_fail(error, EITP_ERROR_INTERRUPTED, "stopped by %s before the first step", process_stop_name())
               : EITP_OK;
}

static eitp_status fit_run(training_run *r, eitp_error *error) {
    option_set *o = &r->options;
    const char *numerics = NULL;
    eitp_status status = r->checkpoint ? changes_find_numerics(r, &numerics, error) : EITP_OK;
    if (!status)
        status = advice_settle_profile(o, &r->shape, error);
    if (!status)
        status = fit_from_options(o, &r->shape, numerics, r->isa, &r->plan, &r->fit, error);
    if (!status)
        status = r->kind->split(r, r->plan.block_size, error);
    r->plan.validates = r->validates;
    process_cancel_on_stop(PROCESS_CANCEL_ALL);
    if (!status)
        status = fit_choose(&r->fit, &r->choice, error);
    process_cancel_on_stop(PROCESS_CANCEL_READING);
    /* run.json records what "auto" resolved to, so that a resumed run keeps it. */
    if (!status)
        options_set_text(o, OPTION_PRECISION, r->choice.precision, o->values[OPTION_PRECISION].source);
    if (!status)
        options_set_text(o, OPTION_OPTIMIZER, eitp_optimizer_get(r->choice.optimizer)->name,
                         o->values[OPTION_OPTIMIZER].source);
    return status;
}

static eitp_status create_context(training_run *r, eitp_error *error) {
    eitp_context_config config = r->fit.context;
    char *path = options_has(&r->options, OPTION_OFFLOAD_FILE)
                     ? command_copy(options_text(&r->options, OPTION_OFFLOAD_FILE))
                     : files_join(r->directory, "offload.tmp");
    eitp_status status;
    config.precision = r->choice.precision;
    config.parameters = eitp_optimizer_get(r->choice.optimizer)->parameters;
    config.offload = r->choice.offload;
    config.offload_path = path;
    status = eitp_context_create(&config, &r->context, error);
    eitp_context_set_poll(r->context, is_stopped, NULL);
    free(path);
    return status;
}

/* Shows on a terminal what is under way until the first line of the log. */
static void show_stage(const char *what, const char *path) {
    char line[200];
    snprintf(line, sizeof line, "%s%s%.120s%s ...", what, path ? " '" : "", path ? path : "", path ? "'" : "");
    output_progress(line);
}

static eitp_status configure_run(training_run *r, eitp_error *error) {
    eitp_run_config config;
    const eitp_status status = run_config(r, &config, error);
    return status ? status : eitp_run_set_config(r->run, &config, error);
}

eitp_status run_prepare(training_run *r, eitp_error *error) {
    const option_set *o = &r->options;
    const struct {
        eitp_status (*run)(training_run *, eitp_error *);
        const char *what, *path;
    } stages[] = {{prepare_directory, "preparing", r->directory},
                  {read_shape, "reading the model's configuration", NULL},
                  {load_tokenizer, "loading the tokenizer", NULL},
                  {open_data, "reading", options_text(o, OPTION_DATA)},
                  {fit_run, "planning memory", NULL},
                  {check_best, NULL, NULL},
                  {create_context, NULL, NULL},
                  {create_model, "creating the model", NULL},
                  {set_dropout, NULL, NULL},
                  {create_trainer, "preparing the trainer", NULL},
                  {check_metric, NULL, NULL},
                  {write_record, NULL, NULL},
                  {clean_data, NULL, NULL}};
    eitp_status status = check_combination(r, error);
    process_cancel_on_stop(PROCESS_CANCEL_READING);
    for (size_t i = 0; i < COMMAND_COUNT(stages) && !status; i++) {
        if (stages[i].what)
            show_stage(stages[i].what, stages[i].path);
        status = stages[i].run(r, error);
        if (process_stop_signal())
            status = check_stopped(error); /* also if a stage failed: because of it */
    }
    process_cancel_on_stop(PROCESS_CANCEL_NOTHING);
    if (!status)
        status = configure_run(r, error);
    if (status)
        return status;
    model_warn_null(r->context);
    log_run(r);
    log_memory(r);
    log_offload(r);
    return EITP_OK;
}

/* Removes the files that the command created for a run without a step. */
static void remove_made(training_run *r, int keep_data) {
    char *data = files_join(r->directory, "data");
    if (r->made_record)
        files_remove(r->made_record);
    if (r->training.packed && !keep_data)
        files_remove(r->training.path);
    if (r->validation.packed && !keep_data)
        files_remove(r->validation.path);
    /* Only if it is empty. The library removes the directories above in the same way. */
    files_remove(data);
    free(data);
}

void run_release(training_run *r, int keep_data) {
    if (r->run && !r->started)
        remove_made(r, keep_data);
    eitp_trainer_destroy(r->trainer);
    eitp_task_release(&r->task);
    eitp_model_destroy(r->model);
    eitp_labelled_part_destroy(r->training_part);
    eitp_labelled_part_destroy(r->validation_part);
    data_close(&r->training);
    data_close(&r->validation);
    eitp_tokenizer_destroy(r->tokenizer);
    eitp_context_destroy(r->context);
    eitp_run_destroy(r->run);
    if (!r->started)
        replace_undo(&r->replaced);
    free(r->directory);
    free(r->checkpoint);
    free(r->model_directory);
    free(r->made_record);
    text_release(&r->record);
    replace_release(&r->replaced);
    options_release(&r->options);
    memset(r, 0, sizeof *r);
}
