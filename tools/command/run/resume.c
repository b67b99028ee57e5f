#include "run/resume.h"

#include "files.h"
#include "model/adapt.h"
#include "model/model.h"
#include "options/table.h"
#include "output.h"
#include "plan/fit.h"
#include "run/directory.h"
#include "run/record.h"
#include "run/resume_changes.h"
#include "run/resume_options.h"

/* ---- The checkpoint ---- */

int resume_is_requested(const option_set *o) {
    const char *resume = options_text(o, OPTION_RESUME);
    return resume && strcmp(resume, "no") && strcmp(resume, "false");
}

/* Finds the newest complete checkpoint. If the options are only printed, nothing is locked or written. */
static eitp_status find_newest(training_run *r, eitp_error *error) {
    const eitp_host host = command_host();
    char found[MODEL_PATH_SIZE];
    eitp_status status;
    if (!options_integer(&r->options, OPTION_PRINT_CONFIG))
        return directory_open(r, EITP_RESUME_NEWEST, error);
    if (!directory_is_output(r->directory))
        return EITP_OK;
    status = eitp_run_find_checkpoint(&host, r->directory, EITP_RUN_LATEST, found, sizeof found, error);
    if (!status)
        r->checkpoint = command_copy(found);
    return status == EITP_ERROR_ARGUMENT ? EITP_OK : status;
}

/* The run named by --resume continues in its directory unless another one is set. */
static void take_directory(training_run *r, char *directory) {
    free(r->directory);
    r->directory = directory;
    options_set_text(&r->options, OPTION_OUTPUT_DIR, r->directory, SOURCE_CHECKPOINT);
}

static eitp_status find_auto(training_run *r, eitp_error *error) {
    eitp_status status = find_newest(r, error);
    if (!status && !r->checkpoint)
        output_info("no checkpoint in '%s': starting a new run", r->directory);
    return status;
}

/* Fails for a file, which other programs call a checkpoint: its weights can start a run. */
static eitp_status fail_file(const char *path, eitp_error *error) {
    static const char *const weights[] = {".safetensors", ".bin", ".pt", ".pth", ".ckpt"};
    const char *ending = strrchr(path, '.');
    int is_weights = 0;
    for (size_t i = 0; i < COMMAND_COUNT(weights) && ending; i++)
        is_weights |= !strcmp(ending, weights[i]);
    return command_fail(
        error, EITP_ERROR_ARGUMENT,
        "'%s' is a file; an eitp checkpoint is a directory, such as checkpoint-500 in an output "
        "directory%s",
        path,
        is_weights
            ? "; to start from another program's weights, pass the directory with them and their config.json to --model"
            : "");
}

static eitp_status find_named(training_run *r, const char *path, eitp_error *error) {
    const eitp_host host = command_host();
    char found[MODEL_PATH_SIZE];
    eitp_status status;
    if (files_info(path).kind == EITP_PATH_FILE)
        return fail_file(path, error);
    status = eitp_run_find_checkpoint(&host, path, EITP_RUN_LATEST, found, sizeof found, error);
    if (status)
        return status;
    r->checkpoint = command_copy(found);
    if (!files_is_file(r->checkpoint, "trainer_state.json"))
        return command_fail(
            error, EITP_ERROR_ARGUMENT,
            "'%s' is a model, not a checkpoint: it has no trainer_state.json; start from it with --model",
            r->checkpoint);
    if (!options_is_explicit(&r->options, OPTION_OUTPUT_DIR))
        take_directory(r, files_parent(r->checkpoint));
    return EITP_OK;
}

eitp_status resume_find_checkpoint(training_run *r, eitp_error *error) {
    const char *resume = options_text(&r->options, OPTION_RESUME);
    eitp_status status;
    if (!resume_is_requested(&r->options))
        return EITP_OK;
    if (options_integer(&r->options, OPTION_OVERWRITE_OUTPUT_DIR))
        return command_fail(error, EITP_ERROR_ARGUMENT,
                            "--overwrite-output-dir and --resume cannot be used together: start a new run, or resume "
                            "the one in the directory");
    if (!strcmp(resume, "auto") || !strcmp(resume, "true"))
        return find_auto(r, error);
    /* The run's directory is locked before its checkpoint is chosen. */
    if (!directory_is_output(resume) ||
        (options_is_explicit(&r->options, OPTION_OUTPUT_DIR) && !directory_is_same(resume, r->directory)))
        return find_named(r, resume, error);
    if (!options_is_explicit(&r->options, OPTION_OUTPUT_DIR))
        take_directory(r, command_copy(resume));
    status = find_newest(r, error);
    if (!status && !r->checkpoint)
        status = command_fail(error, EITP_ERROR_ARGUMENT, "'%s' has no checkpoint to resume from", resume);
    return status;
}

static int has_another_checkpoint(const training_run *r) {
    const char *checkpoint = eitp_run_checkpoint(r->run);
    return checkpoint && strcmp(checkpoint, r->checkpoint) != 0;
}

int resume_starts_over(training_run *r, eitp_error *error) {
    eitp_error why;
    if (!r->run || !r->checkpoint || (error->status != EITP_ERROR_FORMAT && error->status != EITP_ERROR_UNSUPPORTED))
        return 0;
    if (!has_another_checkpoint(r) && eitp_run_recover(r->run, &why))
        *error = why;
    return has_another_checkpoint(r);
}

/* ---- Options from the checkpoint ---- */

/* Keeps learning rates only between optimizers with the same default: rates of SGD are orders of magnitude larger than
   rates of AdamW. */
static eitp_status drop_checkpoint_rates(training_run *r, eitp_error *error) {
    const eitp_trainer_config *c = &r->resumed.config;
    option_set *o = &r->options;
    const eitp_optimizer_info *optimizer = eitp_optimizer_get(fit_optimizer(o));
    const eitp_optimizer_info *resumed = eitp_optimizer_get(c->optimizer_config.optimizer);
    if (!(fabs(optimizer->rate - resumed->rate) > 0))
        return EITP_OK;
    if (!options_is_explicit(o, OPTION_LR))
        return command_fail(error, EITP_ERROR_ARGUMENT,
                            "'%s' was trained with %s at learning rate %g, which does not suit %s; set one with "
                            "--lr",
                            r->checkpoint, resumed->name, c->schedule.peak, optimizer->name);
    options_set_number(o, OPTION_FINAL_LR, 0, SOURCE_CHECKPOINT);
    options_set_number(o, OPTION_WEIGHT_DECAY, optimizer->weight_decay, SOURCE_CHECKPOINT);
    return EITP_OK;
}

/* True if passes keep their size because another would change results or the run was shrunk. Otherwise they are sized
   for the memory available now. */
static int keeps_pass_size(const eitp_checkpoint_info *resumed) {
    return resumed->config.dense_rows ||
           resumed->config.micro_batches_per_pass != resumed->initial_shape.micro_batches_per_pass;
}

static eitp_status take_checkpoint_options(training_run *r, eitp_error *error) {
    const eitp_trainer_config *c = &r->resumed.config;
    size_t count;
    const eitp_setting *settings = eitp_settings_of("eitp_trainer_config", &count);
    option_set *o = &r->options;
    char value[64];
    for (size_t i = 0; i < count; i++) {
        const option_id id = options_setting(&settings[i]);
        if (id == OPTION_CAPACITY || (id == OPTION_MICRO_BATCHES_PER_PASS && !keeps_pass_size(&r->resumed)))
            continue;
        eitp_setting_format(&settings[i], c, value, sizeof value);
        options_set_text(o, id, value, SOURCE_CHECKPOINT);
    }
    options_set_integer(o, OPTION_BLOCK_SIZE, r->resumed.rows, SOURCE_CHECKPOINT);
    options_set_text(o, OPTION_PRECISION, r->resumed.precision, SOURCE_CHECKPOINT);
    options_set_text(o, OPTION_OPTIMIZER, eitp_optimizer_get(c->optimizer_config.optimizer)->name, SOURCE_CHECKPOINT);
    adapt_take_options(o, &r->resumed);
    return drop_checkpoint_rates(r, error);
}

/* A shrunk run keeps its smaller shape if the options give its initial shape. */
static void follow_shrinking(training_run *r) {
    static const option_id ids[] = {OPTION_BATCH_SIZE, OPTION_GRAD_ACCUM, OPTION_MICRO_BATCHES_PER_PASS};
    const eitp_trainer_config *c = &r->resumed.config;
    const eitp_step_shape *initial = &r->resumed.initial_shape;
    const int64_t values[][2] = {{initial->batch_size, c->batch_size},
                                 {initial->grad_accum, c->grad_accum},
                                 {initial->micro_batches_per_pass, c->micro_batches_per_pass}};
    option_set *o = &r->options;
    int is_shrunk = 0;
    for (size_t i = 0; i < COMMAND_COUNT(ids); i++) {
        is_shrunk |= values[i][0] != values[i][1];
        if (options_integer(o, ids[i]) == values[i][0])
            options_set_integer(o, ids[i], values[i][1], o->values[ids[i]].source);
    }
    if (is_shrunk && options_integer(o, OPTION_BATCH_SIZE) == c->batch_size)
        output_info("the run of '%s' was shrunk: it continues with batch size %lld, accumulation %lld and "
                    "micro-batches per pass %lld (initially %lld, %lld and %lld)",
                    r->checkpoint, (long long)c->batch_size, (long long)c->grad_accum,
                    (long long)c->micro_batches_per_pass, (long long)initial->batch_size,
                    (long long)initial->grad_accum, (long long)initial->micro_batches_per_pass);
}

/* Reports values of the checkpoint that differ from its run.json because eitp set changed them. */
static void report_changes(const training_run *r, const option_set *recorded) {
    static const option_id shape[] = {OPTION_BATCH_SIZE, OPTION_GRAD_ACCUM, OPTION_MICRO_BATCHES_PER_PASS};
    eitp_trainer_config before = r->resumed.config;
    size_t count;
    const eitp_setting *settings = eitp_settings_of("eitp_trainer_config", &count);
    char is[64], was[64];
    eitp_error ignored;
    before.objective = eitp_objective_config_default(); /* run.json omits its defaults */
    if (options_to_config(recorded, &before, &ignored))
        return;
    for (size_t i = 0; i < COMMAND_COUNT(shape); i++) /* shrinking changes these */
        eitp_setting_set_integer(option_of(shape[i])->setting,
                                 eitp_setting_integer(option_of(shape[i])->setting, &r->resumed.config), &before,
                                 &ignored);
    for (size_t i = 0; i < count; i++) {
        const option_id id = options_setting(&settings[i]);
        if (id == OPTION_CAPACITY || options_is_explicit(&r->options, id))
            continue;
        if (!options_has(recorded, id) && !(settings[i].flags & EITP_SETTING_MINOR))
            continue;
        eitp_setting_format(&settings[i], &r->resumed.config, is, sizeof is);
        eitp_setting_format(&settings[i], &before, was, sizeof was);
        if (strcmp(is, was))
            output_info("%s is %s, as set in '%s' (run.json: %s)", options_name(id), is, r->checkpoint, was);
    }
}

/* The checkpoint has the rows of the longest sample. The length at which text is cut may be larger, or smaller if a
   sample's rows are an encoder's tokens. */
static void keep_block_size(training_run *r, const option_set *recorded) {
    if (options_has(recorded, OPTION_BLOCK_SIZE) && options_integer(recorded, OPTION_BLOCK_SIZE) > 0)
        options_set_integer(&r->options, OPTION_BLOCK_SIZE, options_integer(recorded, OPTION_BLOCK_SIZE),
                            SOURCE_CHECKPOINT);
}

static eitp_status take_recorded_options(training_run *r, eitp_error *error) {
    option_set recorded;
    int found;
    eitp_status status;
    options_create(&recorded, r->options.name, r->options.command);
    status = record_read(&recorded, r->checkpoint, &found, error);
    if (!status)
        status = found ? resume_compare_options(r, &recorded, error) : EITP_OK;
    if (!status) {
        report_changes(r, &recorded);
        keep_block_size(r, &recorded);
        record_copy(&recorded, &r->options);
    }
    options_release(&recorded);
    return status;
}

eitp_status resume_take_options(training_run *r, eitp_error *error) {
    const eitp_host host = command_host();
    eitp_status status = model_add_hint(eitp_checkpoint_read_info(&host, r->checkpoint, &r->resumed, error), error);
    if (!status)
        status = take_checkpoint_options(r, error);
    if (!status)
        status = take_recorded_options(r, error);
    if (!status) {
        follow_shrinking(r);
        changes_keep_samples(r);
    }
    return status;
}
