#include "command_run.h"

#include "command_adapt.h"
#include "command_files.h"
#include "command_model.h"
#include "command_output.h"
#include "command_process.h"

#include <sys/statvfs.h>
#include <time.h>

/* ---- Which checkpoint, which options ---- */

static eitp_status find_newest(run *r, eitp_error *error) {
    const eitp_host host = command_host();
    int64_t step;
    eitp_status status = eitp_checkpoint_newest(&host, r->directory, &step, error);
    if (status)
        return status;
    if (step < 0)
        output_info("there is no checkpoint in '%s': a new run begins", r->directory);
    else
        r->checkpoint = command_format("%s/checkpoint-%lld", r->directory, (long long)step);
    return EITP_OK;
}

static eitp_status find_checkpoint(run *r, eitp_error *error) {
    const char *resume = options_text(&r->options, OPTION_RESUME);
    eitp_status status;
    if (!resume || !strcmp(resume, "no") || !strcmp(resume, "false"))
        return EITP_OK;
    if (!strcmp(resume, "auto") || !strcmp(resume, "true"))
        return find_newest(r, error);
    status = model_find_directory(resume, &r->checkpoint, error);
    if (!status && !files_is_file(r->checkpoint, "trainer_state.json"))
        status =
            command_fail(error, EITP_ERROR_ARGUMENT,
                         "'%s' is a model, not a checkpoint: it has no trainer_state.json; start from it with --model",
                         r->checkpoint);
    if (!status && !options_is_explicit(&r->options, OPTION_OUTPUT_DIR)) {
        free(r->directory);
        r->directory = files_parent(r->checkpoint);
        options_set_text(&r->options, OPTION_OUTPUT_DIR, r->directory, SOURCE_CHECKPOINT);
    }
    return status;
}

static int is_sgd(eitp_optimizer optimizer) {
    return eitp_optimizer_get(optimizer)->fidelity == EITP_DIFFERENT_ALGORITHM;
}

static double default_weight_decay(const option_set *o) {
    return is_sgd(fit_optimizer(o)) ? 0 : 0.01;
}

/* What SGD and AdamW call a learning rate differs by orders of magnitude: from one to the other none is taken over. */
static eitp_status drop_checkpoint_rates(run *r, eitp_error *error) {
    const eitp_trainer_config *c = &r->resumed.config;
    option_set *o = &r->options;
    eitp_optimizer optimizer = fit_optimizer(o);
    if (is_sgd(optimizer) == is_sgd(c->optimizer))
        return EITP_OK;
    if (!options_is_explicit(o, OPTION_LR))
        return command_fail(error, EITP_ERROR_ARGUMENT,
                            "'%s' was made with %s, whose learning rate %g means something else to %s; give the new "
                            "one with --lr",
                            r->checkpoint, eitp_optimizer_get(c->optimizer)->name, c->schedule.peak,
                            eitp_optimizer_get(optimizer)->name);
    options_set_number(o, OPTION_FINAL_LR, 0, SOURCE_CHECKPOINT);
    options_set_number(o, OPTION_WEIGHT_DECAY, default_weight_decay(o), SOURCE_CHECKPOINT);
    return EITP_OK;
}

/* Passes take what memory there is now, unless that would change bits or the run was shrunk. */
static int keeps_merged(const eitp_checkpoint_info *resumed) {
    return resumed->config.dense_rows ||
           resumed->config.micro_batches_per_pass != resumed->initial_shape.micro_batches_per_pass;
}

static eitp_status take_checkpoint_options(run *r, eitp_error *error) {
    const eitp_trainer_config *c = &r->resumed.config;
    size_t count;
    const eitp_setting *settings = eitp_trainer_settings(&count);
    option_set *o = &r->options;
    char value[64];
    for (size_t i = 0; i < count; i++) {
        const option_id id = options_setting(&settings[i]);
        if (id == OPTION_CAPACITY || (id == OPTION_MICRO_BATCHES_PER_PASS && !keeps_merged(&r->resumed)))
            continue;
        eitp_setting_format(&settings[i], c, value, sizeof value);
        options_set_text(o, id, value, SOURCE_CHECKPOINT);
    }
    options_set_integer(o, OPTION_BLOCK_SIZE, r->resumed.rows, SOURCE_CHECKPOINT);
    options_set_text(o, OPTION_PRECISION, r->resumed.precision, SOURCE_CHECKPOINT);
    options_set_text(o, OPTION_OPTIMIZER, eitp_optimizer_get(c->optimizer)->name, SOURCE_CHECKPOINT);
    adapt_take_options(o, &r->resumed.lora);
    return drop_checkpoint_rates(r, error);
}

/* Of a run that was shrunk: the command that began it goes on as it became. */
static void follow_shrinking(run *r) {
    static const option_id ids[] = {OPTION_BATCH_SIZE, OPTION_GRAD_ACCUM, OPTION_MICRO_BATCHES_PER_PASS};
    const eitp_trainer_config *c = &r->resumed.config;
    const eitp_step_shape *asked = &r->resumed.initial_shape;
    const int64_t values[][2] = {{asked->batch_size, c->batch_size},
                                 {asked->grad_accum, c->grad_accum},
                                 {asked->micro_batches_per_pass, c->micro_batches_per_pass}};
    option_set *o = &r->options;
    int is_shrunk = 0;
    for (size_t i = 0; i < COMMAND_COUNT(ids); i++) {
        is_shrunk |= values[i][0] != values[i][1];
        if (options_integer(o, ids[i]) == values[i][0])
            options_set_integer(o, ids[i], values[i][1], o->values[ids[i]].source);
    }
    if (is_shrunk)
        output_info("'%s' is of a run that was made smaller: batch size %lld, accumulation %lld, %lld merged, where it "
                    "began with %lld, %lld and %lld; it goes on so",
                    r->checkpoint, (long long)c->batch_size, (long long)c->grad_accum,
                    (long long)c->micro_batches_per_pass, (long long)asked->batch_size, (long long)asked->grad_accum,
                    (long long)asked->micro_batches_per_pass);
}

/* The library says to start from the weights; this is how. */
static eitp_status add_hint(eitp_status status, eitp_error *error) {
    static const char advice[] = "start from its weights";
    const size_t size = strlen(error->message), length = strlen(advice);
    if (status && size >= length && !strcmp(error->message + size - length, advice) &&
        size + strlen(" with --model") < sizeof error->message)
        strcat(error->message, " with --model");
    return status;
}

/* What the checkpoint and the run.json beside it say. */
static eitp_status take_resumed_options(run *r, eitp_error *error) {
    const eitp_host host = command_host();
    char *parent = files_parent(r->checkpoint), *record = files_join(parent, "run.json");
    eitp_status status = add_hint(eitp_checkpoint_read_info(&host, r->checkpoint, &r->resumed, error), error);
    if (!status)
        status = take_checkpoint_options(r, error);
    if (!status && files_info(record).kind == EITP_PATH_FILE)
        status = options_read_config(&r->options, record, NULL, SOURCE_RUN, error);
    if (!status)
        follow_shrinking(r);
    free(parent);
    free(record);
    return status;
}

/* Refused here where the options are known by name; the rest is compared when the trainer resumes. */
static eitp_status check_resumed_settings(const run *r, eitp_error *error) {
    size_t count;
    const eitp_setting *settings = eitp_trainer_settings(&count);
    eitp_trainer_config asked = r->resumed.config;
    char here[64], there[64];
    eitp_status status = options_to_config(&r->options, &asked, error);
    for (size_t i = 0; i < count && !status; i++) {
        if (settings[i].difference != EITP_DIFFERENCE_REFUSED)
            continue;
        eitp_setting_format(&settings[i], &r->resumed.config, there, sizeof there);
        eitp_setting_format(&settings[i], &asked, here, sizeof here);
        if (strcmp(there, here))
            status =
                command_fail(error, EITP_ERROR_ARGUMENT,
                             "'%s' was made with %s %s, and this run has %s; leave --%s out, or start from the "
                             "weights with --model",
                             r->checkpoint, settings[i].name, there, here, options_name(options_setting(&settings[i])));
    }
    return status;
}

/*
 * A run that is resumed keeps its kernels: others would give other bits. Who asks for others in the environment is
 * refused, as any other difference is, rather than not heard.
 */
static eitp_status check_resumed_kernels(const run *r, eitp_error *error) {
    char isa[MODEL_ISA_SIZE];
    const eitp_context_config config = model_context_config(&r->options, r->resumed.numerics, isa);
    const char *const kept[][2] = {{"EITP_ISA", config.isa}, {"EITP_PRODUCTS", config.products}};
    for (size_t i = 0; i < COMMAND_COUNT(kept); i++) {
        const char *asked = getenv(kept[i][0]);
        if (asked && *asked && kept[i][1] && strcmp(asked, kept[i][1]))
            return command_fail(error, EITP_ERROR_ARGUMENT,
                                "'%s' was made with %s %s, and the environment has %s: the bits would differ; unset it "
                                "to go on with %s, or start from the weights with --model",
                                r->checkpoint, kept[i][0], kept[i][1], asked, kept[i][1]);
    }
    return EITP_OK;
}

static eitp_status check_resumed(const run *r, eitp_error *error) {
    eitp_status status = check_resumed_settings(r, error);
    if (!status)
        status = check_resumed_kernels(r, error);
    if (!status && !options_has(&r->options, OPTION_DATA))
        status = command_fail(error, EITP_ERROR_ARGUMENT,
                              "--data is needed: there is no run.json beside '%s' that says which data it was",
                              r->checkpoint);
    return status;
}

static eitp_status check_combination(const run *r, eitp_error *error) {
    const option_set *o = &r->options;
    option_source model = o->values[OPTION_MODEL].source, init = o->values[OPTION_INIT].source;
    eitp_status status = adapt_check(o, r->checkpoint || model > init, error);
    if (status)
        return status;
    if (r->checkpoint)
        return check_resumed(r, error);
    if (!model && !init)
        return command_fail(error, EITP_ERROR_ARGUMENT,
                            "--model or --init is needed: weights to start from, or a shape such as tiny");
    if (model && model == init)
        return command_fail(error, EITP_ERROR_ARGUMENT,
                            "--model and --init exclude each other: weights from a directory, or random ones");
    if (model > init && options_is_explicit(o, OPTION_VOCAB_SIZE))
        return command_fail(error, EITP_ERROR_ARGUMENT, "--vocab-size goes with --init; a model has its vocabulary");
    if (!options_has(o, OPTION_DATA))
        return command_fail(error, EITP_ERROR_ARGUMENT, "--data is needed: text files, directories, or a token file");
    return EITP_OK;
}

static int starts_from_model(const run *r) {
    return r->options.values[OPTION_MODEL].source > r->options.values[OPTION_INIT].source;
}

static double default_rate(const run *r) {
    int is_tuned = starts_from_model(r) && !adapt_is_asked(&r->options);
    if (is_sgd(fit_optimizer(&r->options)))
        return is_tuned ? 0.02 : 0.1;
    return is_tuned ? 5e-5 : 3e-4;
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

eitp_status run_resolve(run *r, eitp_error *error) {
    option_set *o = &r->options;
    eitp_status status;
    r->directory = command_copy(options_text(o, OPTION_OUTPUT_DIR));
    status = find_checkpoint(r, error);
    if (!status && r->checkpoint)
        status = take_resumed_options(r, error);
    if (status)
        return status;
    fit_take_profile(o);
    if (!options_has(o, OPTION_LR))
        options_set_number(o, OPTION_LR, default_rate(r), SOURCE_DEFAULT);
    options_set_number(o, OPTION_WEIGHT_DECAY, default_weight_decay(o), SOURCE_DEFAULT);
    if (!options_has(o, OPTION_STEPS) && !options_has(o, OPTION_EPOCHS))
        options_set_integer(o, OPTION_EPOCHS, 1, SOURCE_DEFAULT);
    resolve_reports(o);
    return options_reconcile(o, error);
}

/* ---- The output directory ---- */

/* Of most measures more is better; of losses less. */
static int is_higher_better(const char *measure) {
    size_t size = strlen(measure);
    return !(size >= 4 && !strcmp(measure + size - 4, "loss")) && strcmp(measure, "perplexity") != 0;
}

static eitp_run_config run_config(const run *r) {
    const option_set *o = &r->options;
    eitp_run_config config = eitp_run_config_default();
    config.directory = r->directory;
    config.resume = r->checkpoint ? EITP_RESUME_NAMED : EITP_RESUME_NONE;
    config.checkpoint = r->checkpoint;
    /* Those that are not in force have no value: see options_reconcile. */
    config.eval_steps = options_integer(o, OPTION_EVAL_STEPS);
    config.eval_epochs = options_number(o, OPTION_EVAL_EVERY_FRAC);
    config.eval_samples = options_integer(o, OPTION_EVAL_WINDOWS);
    config.eval_fraction = options_number(o, OPTION_EVAL_FRAC);
    config.save_steps = options_integer(o, OPTION_SAVE_STEPS);
    config.save_epochs = options_choice(o, OPTION_SAVE_STRATEGY) == 2;
    config.metrics = options_choice(o, OPTION_REPORT_TO) == 0;
    config.save_seconds = options_number(o, OPTION_SAVE_SECONDS);
    config.save_total_limit = options_integer(o, OPTION_SAVE_TOTAL_LIMIT);
    config.keep_best = options_text(o, OPTION_KEEP_BEST);
    config.higher_is_better = config.keep_best && is_higher_better(config.keep_best);
    config.patience = options_integer(o, OPTION_PATIENCE);
    config.max_nonfinite = options_integer(o, OPTION_MAX_NONFINITE);
    config.auto_shrink = (int)options_integer(o, OPTION_AUTO_SHRINK);
    config.listener = r->listener;
    return config;
}

/* Names the options that change what the library refuses. */
static void name_options(eitp_error *error, const char *options) {
    size_t size = strlen(error->message);
    snprintf(error->message + size, sizeof error->message - size, " (%s)", options);
}

static eitp_status prepare_directory(run *r, eitp_error *error) {
    const eitp_host host = command_host();
    const eitp_run_config config = run_config(r);
    eitp_status status = eitp_run_create(&host, &config, &r->run, error);
    if (status == EITP_ERROR_ARGUMENT)
        name_options(error, "--output-dir, --resume auto");
    return status;
}

/* Refused before the first step, where the options are known by name. */
static eitp_status check_best(run *r, eitp_error *error) {
    const option_set *o = &r->options;
    const char *measure = options_text(o, OPTION_KEEP_BEST);
    if ((measure || options_integer(o, OPTION_PATIENCE)) && !r->validates)
        return command_fail(error, EITP_ERROR_ARGUMENT,
                            "--keep-best and --patience need validation data: give --val-data or --val-fraction");
    if (options_integer(o, OPTION_PATIENCE) && !options_integer(o, OPTION_EVAL_STEPS) &&
        !options_has(o, OPTION_EVAL_EVERY_FRAC))
        return command_fail(error, EITP_ERROR_ARGUMENT,
                            "--patience needs evaluations between steps: give --eval-steps");
    return EITP_OK;
}

/* Refused where it is known what the task measures. */
static eitp_status check_measure(run *r, eitp_error *error) {
    const char *measure = options_text(&r->options, OPTION_KEEP_BEST);
    return measure && !eitp_trainer_has_measure(r->trainer, measure)
               ? command_fail(error, EITP_ERROR_ARGUMENT, "--keep-best: unknown measure '%s' (choose from loss)",
                              measure)
               : EITP_OK;
}

/* ---- Model and tokenizer ---- */

/* The model's shape, with the dropout that was asked for. */
static eitp_status read_shape(run *r, eitp_error *error) {
    const option_set *o = &r->options;
    const eitp_host host = command_host();
    double dropout = options_number(o, OPTION_DROPOUT);
    char *directory = NULL;
    eitp_status status = EITP_OK;
    if (r->checkpoint)
        directory = command_copy(r->checkpoint);
    else if (starts_from_model(r))
        status = model_find_directory(options_text(o, OPTION_MODEL), &directory, error);
    else
        status = fit_read_shape(o, &r->shape, error);
    if (!status && directory)
        status = eitp_model_config_read(&host, directory, &r->shape, error);
    if (!status && directory)
        status = fit_check_shape(o, &r->shape, directory, error);
    if (!status && options_has(o, OPTION_DROPOUT) && !(r->checkpoint && !options_is_explicit(o, OPTION_DROPOUT)))
        r->shape.embedding_dropout = r->shape.attention_dropout = r->shape.residual_dropout = dropout;
    free(directory);
    return status;
}

void run_complete_options(run *r) {
    eitp_error error;
    const int has_model =
        r->checkpoint || options_has(&r->options, OPTION_MODEL) || options_has(&r->options, OPTION_INIT);
    fit_set_defaults(&r->options, has_model && !read_shape(r, &error) ? &r->shape : NULL);
}

static eitp_status make_model(run *r, eitp_error *error) {
    const eitp_host host = command_host();
    const option_set *o = &r->options;
    const uint64_t seed = (uint64_t)options_integer(o, OPTION_SEED);
    /* Those of a checkpoint come with the rest of the state, but for the ones below adapters. */
    int has_base = adapt_is_asked(o) || (!r->checkpoint && starts_from_model(r));
    eitp_transformer_config config;
    char *base = NULL;
    eitp_status status = has_base ? adapt_find_base(o, r->checkpoint, &base, error) : EITP_OK;
    if (!status && (r->checkpoint || base))
        status = eitp_model_config_read(&host, r->checkpoint ? r->checkpoint : base, &config, error);
    else if (!status)
        status = fit_read_shape(o, &config, error);
    if (!status)
        status = eitp_model_create(r->context, &config, &r->model, error);
    if (!status)
        status = adapt_model(o, r->model, error);
    if (!status && base)
        status = eitp_model_load_weights(r->model, base, error);
    else if (!status && !r->checkpoint)
        status = eitp_model_initialize(r->model, seed, error);
    free(base);
    return status ? status : eitp_model_initialize_lora(r->model, seed, error);
}

static eitp_status set_dropout(run *r, eitp_error *error) {
    const option_set *o = &r->options;
    eitp_transformer_config config = eitp_model_config(r->model);
    double dropout = options_number(o, OPTION_DROPOUT);
    if (!options_has(o, OPTION_DROPOUT) || (r->checkpoint && !options_is_explicit(o, OPTION_DROPOUT)))
        return EITP_OK;
    if (r->checkpoint && !(config.embedding_dropout >= dropout && config.embedding_dropout <= dropout &&
                           config.attention_dropout >= dropout && config.attention_dropout <= dropout &&
                           config.residual_dropout >= dropout && config.residual_dropout <= dropout))
        output_warning("dropout was %g, %g and %g in '%s' and is %g from here on", config.embedding_dropout,
                       config.attention_dropout, config.residual_dropout, r->checkpoint, dropout);
    return eitp_model_set_dropout(r->model, dropout, dropout, dropout, error);
}

static eitp_status load_tokenizer(run *r, eitp_error *error) {
    const option_set *o = &r->options;
    const char *given =
        !r->checkpoint || options_is_explicit(o, OPTION_TOKENIZER) ? options_text(o, OPTION_TOKENIZER) : NULL;
    char *directory = NULL;
    eitp_status status = EITP_OK;
    if (r->checkpoint)
        directory = command_copy(r->checkpoint);
    else if (starts_from_model(r))
        status = model_find_directory(options_text(o, OPTION_MODEL), &directory, error);
    if (!status)
        status = model_load_tokenizer(given, directory, &r->tokenizer, error);
    free(directory);
    return status;
}

/* ---- Data ---- */

/* A token file without a tokenizer: perhaps it has bytes; else the model is saved without one. */
static eitp_status recognise_tokenizer(run *r, eitp_error *error) {
    const eitp_host host = command_host();
    eitp_token_file_info info = eitp_token_file_get_info(r->training.file);
    eitp_tokenizer *bytes;
    eitp_status status = eitp_tokenizer_bytes(&host, &bytes, error);
    if (status)
        return status;
    if (info.kind == EITP_TOKEN_FILE_EITP && info.tokenizer_fingerprint == eitp_tokenizer_fingerprint(bytes)) {
        r->tokenizer = bytes;
        return EITP_OK;
    }
    eitp_tokenizer_destroy(bytes);
    output_warning("the token file's tokenizer is not known, and will not be saved with the model; give it with "
                   "--tokenizer");
    return EITP_OK;
}

static eitp_status open_data(run *r, eitp_error *error) {
    const option_set *o = &r->options;
    int64_t vocabulary = r->shape.vocabulary;
    int is_token_file, validation_is_token_file = 1;
    char *directory = files_join(r->directory, "data");
    eitp_status status = data_is_token_file(o, OPTION_DATA, &is_token_file, error);
    if (!status && options_has(o, OPTION_VAL_DATA))
        status = data_is_token_file(o, OPTION_VAL_DATA, &validation_is_token_file, error);
    if (!status && !r->tokenizer && !(is_token_file && validation_is_token_file))
        status = model_use_bytes(&r->tokenizer, error);
    if (!status && r->tokenizer)
        status = model_check_tokenizer(r->tokenizer, NULL, vocabulary, error);
    if (!status)
        status = data_open(o, OPTION_DATA, r->tokenizer, vocabulary, directory, &r->training, error);
    if (!status && options_has(o, OPTION_VAL_DATA))
        status = data_open(o, OPTION_VAL_DATA, r->tokenizer, vocabulary, directory, &r->validation, error);
    if (!status && !r->tokenizer)
        status = recognise_tokenizer(r, error);
    if (!status && r->tokenizer)
        status = model_check_tokenizer(r->tokenizer, r->training.file, vocabulary, error);
    if (!status && r->tokenizer && r->validation.file)
        status = model_check_tokenizer(r->tokenizer, r->validation.file, vocabulary, error);
    free(directory);
    return status;
}

static eitp_status split_data(run *r, int64_t block_size, eitp_error *error) {
    double fraction = r->validation.file ? 0 : options_number(&r->options, OPTION_VAL_FRACTION);
    eitp_token_range nothing;
    eitp_status status = eitp_split_tokens(eitp_token_file_get_info(r->training.file).token_count, fraction, block_size,
                                           &r->training_range, &r->validation_range, error);
    if (!status && r->validation.file)
        status = eitp_split_tokens(eitp_token_file_get_info(r->validation.file).token_count, 0, block_size,
                                   &r->validation_range, &nothing, error);
    r->validates = !status && r->validation_range.count > 0 && options_choice(&r->options, OPTION_EVAL) != 0;
    return status;
}

/* ---- The trainer ---- */

static eitp_status make_task(run *r, eitp_error *error) {
    eitp_language_config config;
    memset(&config, 0, sizeof config);
    config.model = r->model;
    config.training = eitp_token_file_source(r->training.file, r->training_range);
    if (r->validates)
        config.validation =
            eitp_token_file_source(r->validation.file ? r->validation.file : r->training.file, r->validation_range);
    config.block_size = r->plan.block_size;
    config.tokenizer = r->tokenizer;
    return eitp_language_task(&config, &r->task, error);
}

/* --drop-last: only steps that the data fill. */
static eitp_status drop_last_step(eitp_trainer_config *config, eitp_error *error) {
    const uint64_t step = (uint64_t)config->batch_size * (uint64_t)config->grad_accum;
    if (config->last_sample < step)
        return command_fail(error, EITP_ERROR_ARGUMENT,
                            "--drop-last: the data have %llu windows and a step takes %llu; leave it out, or lower "
                            "--batch-size or --grad-accum",
                            (unsigned long long)config->last_sample, (unsigned long long)step);
    config->last_sample -= config->last_sample % step;
    config->schedule.steps = (int64_t)(config->last_sample / step);
    return EITP_OK;
}

/* How long to train: as recorded, or by --steps or --epochs, whichever comes from the better source. */
static eitp_status set_length(run *r, eitp_trainer_config *config, eitp_error *error) {
    const option_set *o = &r->options;
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
    return status;
}

static eitp_status make_trainer(run *r, eitp_error *error) {
    const option_set *o = &r->options;
    eitp_trainer_config config = r->fit.trainer;
    eitp_status status;
    config.micro_batches_per_pass = r->rung.micro_batches_per_pass;
    config.optimizer = r->rung.optimizer;
    config.plan = r->rung.plan;
    status = make_task(r, error);
    if (!status)
        status = set_length(r, &config, error);
    if (!status)
        status = eitp_trainer_create(&r->task, &config, &r->trainer, error);
    if (!status)
        options_set_integer(&r->options, OPTION_MICRO_BATCHES_PER_PASS, eitp_trainer_micro_batches_per_pass(r->trainer),
                            o->values[OPTION_MICRO_BATCHES_PER_PASS].source);
    if (!status && r->checkpoint)
        status = add_hint(eitp_trainer_resume(r->trainer, r->checkpoint, error), error);
    return status;
}

/* ---- What the log and run.json begin with ---- */

static void log_memory(const run *r) {
    size_t parameters = eitp_context_variable_bytes(r->context, EITP_PARAMETER) +
                        eitp_context_variable_bytes(r->context, EITP_REMAINDER);
    size_t gradients = eitp_context_variable_bytes(r->context, EITP_GRADIENT);
    size_t state = eitp_context_variable_bytes(r->context, EITP_OPTIMIZER);
    size_t arena = eitp_context_arena_bytes(r->context);
    char text[200];
    output_info("memory: parameters %s, gradients %s, optimizer state %s, activations %s; %s in all with the process",
                output_bytes((double)parameters), output_bytes((double)gradients), output_bytes((double)state),
                output_bytes((double)arena), output_bytes((double)r->rung.total));
    output_info("it fits with %s", fit_describe(&r->fit, &r->rung, text, sizeof text));
    if (eitp_optimizer_get(r->rung.optimizer)->fidelity != EITP_SAME_BITS && r->fit.any_optimizer &&
        fit_wants_least(&r->options))
        output_warning("the profile low-memory takes less than full precision: %s (%s)",
                       eitp_optimizer_get(r->rung.optimizer)->name, eitp_optimizer_get(r->rung.optimizer)->keeps);
    else if (eitp_optimizer_get(r->rung.optimizer)->fidelity != EITP_SAME_BITS && r->fit.any_optimizer)
        output_warning("full precision does not fit into %s: %s (%s)", output_bytes((double)r->fit.budget),
                       eitp_optimizer_get(r->rung.optimizer)->name, eitp_optimizer_get(r->rung.optimizer)->keeps);
}

/* What offloading moves, and how much the disk must take. */
static void log_stream(const run *r) {
    double steps = (double)(r->steps - (r->checkpoint ? r->resumed.step : 0));
    if (!r->rung.offload || steps <= 0)
        return;
    output_info("offloaded: %s in a file; a step reads %s and writes %s", output_bytes((double)r->rung.offloaded),
                output_bytes(r->rung.file_reads), output_bytes(r->rung.file_writes));
    output_warning("this run writes %s to the disk of '%s'; solid-state disks are made for some hundred times their "
                   "size",
                   output_bytes(steps * r->rung.file_writes),
                   options_has(&r->options, OPTION_OFFLOAD_FILE) ? options_text(&r->options, OPTION_OFFLOAD_FILE)
                                                                 : r->directory);
}

static void log_run(const run *r) {
    const option_set *o = &r->options;
    int64_t block = r->task.rows;
    int64_t sequences = options_integer(o, OPTION_BATCH_SIZE) * options_integer(o, OPTION_GRAD_ACCUM);
    output_info("model: %lld parameters, vocabulary %lld; step: %lld sequences of %lld tokens, %lld of %lld "
                "micro-batches at a time",
                (long long)eitp_model_parameter_count(r->model), (long long)eitp_model_vocabulary(r->model),
                (long long)sequences, (long long)block, (long long)eitp_trainer_micro_batches_per_pass(r->trainer),
                (long long)options_integer(o, OPTION_GRAD_ACCUM));
    adapt_log(r->model);
    output_info("data: %llu windows to train on, %llu tokens for validation; %lld steps are %.2f epochs",
                (unsigned long long)r->task.samples[EITP_TRAINING], (unsigned long long)r->validation_range.count,
                (long long)r->steps, (double)(r->steps * sequences) / (double)r->task.samples[EITP_TRAINING]);
    if (r->checkpoint && r->resumed.step < r->steps)
        output_info("going on from '%s' at step %lld of %lld", r->checkpoint, (long long)r->resumed.step,
                    (long long)r->steps);
}

static void check_disk(const run *r) {
    struct statvfs disk;
    int64_t keep = options_integer(&r->options, OPTION_SAVE_TOTAL_LIMIT);
    int64_t saved =
        adapt_is_asked(&r->options) ? eitp_model_trained_count(r->model) : eitp_model_parameter_count(r->model);
    double checkpoint = 4.0 * (double)saved + (double)eitp_context_variable_bytes(r->context, EITP_OPTIMIZER);
    /* A new one is written before an old one goes; the best is one more. */
    int64_t most = (keep && keep < r->steps ? keep + 1 : 2) + options_has(&r->options, OPTION_KEEP_BEST);
    double needed = checkpoint * (double)most, there;
    if (statvfs(r->directory, &disk))
        return;
    there = (double)disk.f_bavail * (double)disk.f_frsize;
    if (there < needed)
        output_warning("the disk of '%s' has room for %s, and checkpoints will need about %s; free some space",
                       r->directory, output_bytes(there), output_bytes(needed));
}

/* Paths as they are found from anywhere. */
static void make_absolute(option_set *o, option_id id) {
    for (size_t i = 0; i < o->values[id].count; i++) {
        char *whole = realpath(o->values[id].texts[i], NULL);
        if (whole) {
            free(o->values[id].texts[i]);
            o->values[id].texts[i] = whole;
        }
    }
}

static eitp_status write_record(run *r, eitp_error *error) {
    static const option_id paths[] = {OPTION_DATA, OPTION_VAL_DATA, OPTION_MODEL, OPTION_TOKENIZER};
    text_buffer t = {NULL, 0, 0};
    char now[40], *path = files_join(r->directory, "run.json");
    time_t seconds = time(NULL);
    struct tm utc;
    int made = files_info(path).kind == EITP_PATH_MISSING;
    eitp_status status;
    strftime(now, sizeof now, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&seconds, &utc));
    for (size_t i = 0; i < COMMAND_COUNT(paths); i++)
        make_absolute(&r->options, paths[i]);
    text_format(&t, "{\"run\": {");
    text_json_member_string(&t, "version", eitp_version());
    text_json_member_string(&t, "build", eitp_build_info());
    text_json_member_string(&t, "device", eitp_context_description(r->context));
    text_json_member_string(&t, "numerics", eitp_context_numerics(r->context));
    text_json_member_string(&t, "started", now);
    text_json_member_integer(&t, "first_step", eitp_trainer_steps_done(r->trainer) + 1);
    text_json_member_integer(&t, "last_step", r->steps);
    text_json_member_integer(&t, "parameters", eitp_model_parameter_count(r->model));
    text_json_member_string(&t, "token_file", r->training.path);
    text_json_member_integer(&t, "training_tokens", (int64_t)r->training_range.count);
    text_json_member_integer(&t, "validation_tokens", (int64_t)r->validation_range.count);
    text_format(&t, "},\n\"configuration\": {");
    options_write(&r->options, &t);
    text_format(&t, "}}\n");
    status = files_replace(path, t.data, t.size, error);
    text_release(&t);
    if (!status && made)
        r->made_record = path;
    else
        free(path);
    return status;
}

static eitp_status check_stopped(eitp_error *error) {
    return process_stop_signal()
               ? command_fail(error, EITP_ERROR_INTERRUPTED, "stopped by %s before the first step", process_stop_name())
               : EITP_OK;
}

static eitp_status fit_run(run *r, eitp_error *error) {
    option_set *o = &r->options;
    const char *numerics = r->checkpoint ? r->resumed.numerics : NULL;
    eitp_status status = fit_from_options(o, &r->shape, numerics, r->isa, &r->plan, &r->fit, error);
    if (!status)
        status = split_data(r, r->plan.block_size, error);
    r->plan.validates = r->validates;
    if (!status)
        status = fit_choose(&r->fit, &r->rung, error);
    /* What "auto" was is recorded: a resumed run has the same. */
    if (!status)
        options_set_text(o, OPTION_PRECISION, r->rung.precision, o->values[OPTION_PRECISION].source);
    if (!status)
        options_set_text(o, OPTION_OPTIMIZER, eitp_optimizer_get(r->rung.optimizer)->name,
                         o->values[OPTION_OPTIMIZER].source);
    return status;
}

static eitp_status make_context(run *r, eitp_error *error) {
    eitp_context_config config = r->fit.context;
    char *path = options_has(&r->options, OPTION_OFFLOAD_FILE)
                     ? command_copy(options_text(&r->options, OPTION_OFFLOAD_FILE))
                     : files_join(r->directory, "offload.tmp");
    eitp_status status;
    config.precision = r->rung.precision;
    config.parameters = eitp_optimizer_get(r->rung.optimizer)->parameters;
    config.offload = r->rung.offload;
    config.offload_path = path;
    status = eitp_context_create(&config, &r->context, error);
    free(path);
    return status;
}

eitp_status run_prepare(run *r, eitp_error *error) {
    static eitp_status (*const stages[])(run *, eitp_error *) = {
        prepare_directory, read_shape, load_tokenizer, open_data,    fit_run,       check_best,
        make_context,      make_model, set_dropout,    make_trainer, check_measure, write_record,
    };
    eitp_status status = check_combination(r, error);
    for (size_t i = 0; i < COMMAND_COUNT(stages) && !status; i++) {
        status = stages[i](r, error);
        if (!status)
            status = check_stopped(error);
    }
    if (status)
        return status;
    eitp_run_set_steps(r->run, r->steps);
    log_run(r);
    log_memory(r);
    log_stream(r);
    check_disk(r);
    return EITP_OK;
}

/* Removes the files of a run that made no step, as far as they are the command's. */
static void remove_made(run *r, int keep_data) {
    char *data = files_join(r->directory, "data");
    if (r->made_record)
        files_remove(r->made_record);
    if (r->training.packed && !keep_data)
        files_remove(r->training.path);
    if (r->validation.packed && !keep_data)
        files_remove(r->validation.path);
    /* It goes where it is empty; the library does the same with the directories above. */
    files_remove(data);
    free(data);
}

void run_release(run *r, int keep_data) {
    if (r->run && !r->started)
        remove_made(r, keep_data);
    eitp_trainer_destroy(r->trainer);
    eitp_task_release(&r->task);
    eitp_model_destroy(r->model);
    data_close(&r->training);
    data_close(&r->validation);
    eitp_tokenizer_destroy(r->tokenizer);
    eitp_context_destroy(r->context);
    eitp_run_destroy(r->run);
    free(r->directory);
    free(r->checkpoint);
    free(r->made_record);
    options_release(&r->options);
    memset(r, 0, sizeof *r);
}
