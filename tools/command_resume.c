#include "command_resume.h"

#include "command_adapt.h"
#include "command_files.h"
#include "command_output.h"
#include "command_resume_changes.h"

/* ---- The checkpoint ---- */

static eitp_status find_newest(run *r, eitp_error *error) {
    const eitp_host host = command_host();
    int64_t step;
    eitp_status status = eitp_checkpoint_newest(&host, r->directory, &step, error);
    if (status)
        return status;
    if (step < 0)
        output_info("no checkpoint in '%s': starting a new run", r->directory);
    else
        r->checkpoint = command_format("%s/checkpoint-%lld", r->directory, (long long)step);
    return EITP_OK;
}

int resume_is_requested(const option_set *o) {
    const char *resume = options_text(o, OPTION_RESUME);
    return resume && strcmp(resume, "no") && strcmp(resume, "false");
}

eitp_status resume_find_checkpoint(run *r, eitp_error *error) {
    const char *resume = options_text(&r->options, OPTION_RESUME);
    eitp_status status;
    if (!resume_is_requested(&r->options))
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

/* ---- Options from the checkpoint ---- */

/* Learning rates of SGD and AdamW differ by orders of magnitude, so they are not carried over between the two. */
static eitp_status drop_checkpoint_rates(run *r, eitp_error *error) {
    const eitp_trainer_config *c = &r->resumed.config;
    option_set *o = &r->options;
    eitp_optimizer optimizer = fit_optimizer(o);
    if (fit_is_sgd(optimizer) == fit_is_sgd(c->optimizer))
        return EITP_OK;
    if (!options_is_explicit(o, OPTION_LR))
        return command_fail(error, EITP_ERROR_ARGUMENT,
                            "'%s' was trained with %s at learning rate %g, which is not a rate for %s; set one with "
                            "--lr",
                            r->checkpoint, eitp_optimizer_get(c->optimizer)->name, c->schedule.peak,
                            eitp_optimizer_get(optimizer)->name);
    options_set_number(o, OPTION_FINAL_LR, 0, SOURCE_CHECKPOINT);
    options_set_number(o, OPTION_WEIGHT_DECAY, fit_default_weight_decay(o), SOURCE_CHECKPOINT);
    return EITP_OK;
}

/* Passes are sized for the memory available now, unless that would change results or the run was shrunk. */
static int keeps_pass_size(const eitp_checkpoint_info *resumed) {
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
        if (id == OPTION_CAPACITY || (id == OPTION_MICRO_BATCHES_PER_PASS && !keeps_pass_size(&r->resumed)))
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

/* A run that was shrunk continues with its smaller shape where the options give the shape that it began with. */
static void follow_shrinking(run *r) {
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
        output_info("the run of '%s' was shrunk and continues with batch size %lld, accumulation %lld and %lld "
                    "micro-batches per pass (at its start: %lld, %lld and %lld)",
                    r->checkpoint, (long long)c->batch_size, (long long)c->grad_accum,
                    (long long)c->micro_batches_per_pass, (long long)initial->batch_size,
                    (long long)initial->grad_accum, (long long)initial->micro_batches_per_pass);
}

eitp_status resume_add_hint(eitp_status status, eitp_error *error) {
    static const char advice[] = "start from its weights";
    const size_t size = strlen(error->message), length = strlen(advice);
    if (status && size >= length && !strcmp(error->message + size - length, advice) &&
        size + strlen(" with --model") < sizeof error->message)
        strcat(error->message, " with --model");
    return status;
}

/* --init of another shape than the run's would be ignored. */
static eitp_status check_init(const run *r, const char *record, eitp_error *error) {
    option_set *recorded = (option_set *)command_allocate(sizeof *recorded);
    const char *given = options_text(&r->options, OPTION_INIT);
    eitp_status status;
    recorded->name = r->options.name;
    recorded->command = r->options.command;
    status = options_read_config(recorded, record, NULL, SOURCE_RUN, error);
    if (!status && options_has(recorded, OPTION_INIT) && strcmp(options_text(recorded, OPTION_INIT), given))
        status =
            command_fail(error, EITP_ERROR_ARGUMENT,
                         "'%s' was started with --init %s, not %s; leave --init out to resume it, or choose another "
                         "--output-dir",
                         r->checkpoint, options_text(recorded, OPTION_INIT), given);
    options_release(recorded);
    free(recorded);
    return status;
}

eitp_status resume_take_options(run *r, eitp_error *error) {
    const eitp_host host = command_host();
    char *parent = files_parent(r->checkpoint), *record = files_join(parent, "run.json");
    eitp_status status = resume_add_hint(eitp_checkpoint_read_info(&host, r->checkpoint, &r->resumed, error), error);
    if (!status)
        status = take_checkpoint_options(r, error);
    if (!status && files_info(record).kind == EITP_PATH_FILE && options_is_explicit(&r->options, OPTION_INIT))
        status = check_init(r, record, error);
    if (!status && files_info(record).kind == EITP_PATH_FILE)
        status = options_read_config(&r->options, record, NULL, SOURCE_RUN, error);
    if (!status) {
        follow_shrinking(r);
        changes_keep_samples(r);
    }
    free(parent);
    free(record);
    return status;
}

/* ---- What may differ ---- */

/* `was` and `is` are the values of a setting that a resumed run keeps. */
static eitp_status refuse_setting(const run *r, const eitp_setting *setting, const char *was, const char *is,
                                  eitp_error *error) {
    const option_id id = options_setting(setting);
    return command_fail(error, EITP_ERROR_ARGUMENT,
                        "'%s' was trained with %s %s, and a resumed run keeps it (got %s); leave --%s out, or start "
                        "from the weights with --model",
                        r->checkpoint, setting->name, was, is, options_name(id));
}

static eitp_status check_settings(const run *r, eitp_error *error) {
    size_t count;
    const eitp_setting *settings = eitp_trainer_settings(&count);
    eitp_trainer_config requested = r->resumed.config;
    char is[64], was[64];
    eitp_status status = options_to_config(&r->options, &requested, error);
    if (!status)
        status = changes_check_samples(r, &requested, error);
    for (size_t i = 0; i < count && !status; i++) {
        const option_id id = options_setting(&settings[i]);
        if (settings[i].difference != EITP_DIFFERENCE_REFUSED || id == OPTION_BATCH_SIZE || id == OPTION_GRAD_ACCUM)
            continue;
        eitp_setting_format(&settings[i], &r->resumed.config, was, sizeof was);
        eitp_setting_format(&settings[i], &requested, is, sizeof is);
        if (strcmp(was, is))
            status = refuse_setting(r, &settings[i], was, is, error);
    }
    return status;
}

eitp_status resume_check(const run *r, eitp_error *error) {
    eitp_status status = check_settings(r, error);
    if (!status && !options_has(&r->options, OPTION_DATA))
        status = command_fail(error, EITP_ERROR_ARGUMENT, "--data is required: no run.json next to '%s' names the data",
                              r->checkpoint);
    return status;
}
