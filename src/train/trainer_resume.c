/* Resuming: compares the run that wrote a checkpoint with this one, then loads weights and optimizer state. */
#include "base/files.h"
#include "base/log.h"
#include "io/checkpoint.h"
#include "io/lora_files.h"
#include "io/model_directory.h"
#include "io/variables.h"
#include "train/moments.h"
#include "train/trainer_state.h"

/* ---- Comparing ---- */

/* Checks that the adapters have the same configuration and the same frozen weights. */
static eitp_status eitp__compare_adapters(const eitp_trainer *trainer, const eitp__state *current,
                                          const eitp__state *written, const char *checkpoint, eitp_error *error) {
    if (!eitp__lora_configs_equal(&current->info.lora, &written->info.lora))
        return eitp__fail(error, EITP_ERROR_ARGUMENT,
                          "'%s' was made with adapters of rank %lld (0: none), alpha %g, dropout %g, and this run has "
                          "rank %lld, alpha %g, dropout %g, or other targets or modules to save; use the same",
                          checkpoint, (long long)written->info.lora.rank, written->info.lora.alpha,
                          written->info.lora.dropout, (long long)current->info.lora.rank, current->info.lora.alpha,
                          current->info.lora.dropout);
    return written->info.lora.rank ? eitp__lora_check_base(trainer->plans.task.model, checkpoint, error) : EITP_OK;
}

/* True if the trainer has the initial shape of a run that was later shrunk; micro_batches_per_pass may differ. */
static int eitp__follows_shrinking(const eitp_trainer *trainer, const eitp__state *written) {
    const eitp_step_shape mine = eitp_trainer_shape(trainer), theirs = eitp__step_shape_of(&written->info.config);
    const eitp_step_shape *initial = &written->info.initial_shape;
    return !eitp__step_shapes_equal(initial, &theirs) && !eitp__step_shapes_equal(&mine, &theirs) &&
           mine.batch_size == initial->batch_size && mine.grad_accum == initial->grad_accum;
}

/* True if a step takes the same samples as in the checkpoint, in micro-batches of another size. */
static int eitp__splits_otherwise(const eitp_trainer *trainer, const eitp__state *written) {
    const eitp_trainer_config *mine = &trainer->plans.config, *theirs = &written->info.config;
    return mine->batch_size != theirs->batch_size &&
           mine->batch_size * mine->grad_accum == theirs->batch_size * theirs->grad_accum;
}

static eitp_status eitp__compare_samples(const eitp_trainer_config *mine, const eitp_trainer_config *theirs,
                                         const char *checkpoint, eitp_error *error) {
    const int64_t here = mine->batch_size * mine->grad_accum, there = theirs->batch_size * theirs->grad_accum;
    if (here == there)
        return EITP_OK;
    return eitp__fail(error, EITP_ERROR_ARGUMENT,
                      "'%s' was made with %lld samples per step (batch_size %lld, grad_accum %lld), and this run has "
                      "%lld (%lld, %lld); set them to the same product, or start from its weights",
                      checkpoint, (long long)there, (long long)theirs->batch_size, (long long)theirs->grad_accum,
                      (long long)here, (long long)mine->batch_size, (long long)mine->grad_accum);
}

static void eitp__log_split(const eitp_trainer *trainer, const eitp__state *written, const char *checkpoint) {
    const eitp_step_shape mine = eitp_trainer_shape(trainer), theirs = eitp__step_shape_of(&written->info.config);
    const int same_bits = eitp__step_shapes_keep_bits(&trainer->plans, &mine, &theirs);
    eitp__log_line(
        &trainer->host, same_bits ? EITP_LOG_INFO : EITP_LOG_WARNING,
        "batch_size and grad_accum changed from %lld and %lld to %lld and %lld since '%s': the same samples per step%s",
        (long long)theirs.batch_size, (long long)theirs.grad_accum, (long long)mine.batch_size,
        (long long)mine.grad_accum, checkpoint, same_bits ? "" : ", but the last bits of results differ");
}

/* Logs a change of the optimizer, for which weights and moments are converted, of the precision, or of the kernels. */
static void eitp__log_numerics(const eitp_trainer *trainer, const eitp_checkpoint_info *mine,
                               const eitp_checkpoint_info *theirs, const char *checkpoint) {
    const char *here = eitp_optimizer_get(mine->config.optimizer_config.optimizer)->name;
    const char *there = eitp_optimizer_get(theirs->config.optimizer_config.optimizer)->name;
    if (strcmp(here, there))
        eitp__log_line(&trainer->host, EITP_LOG_WARNING,
                       "'%s' was made with %s and precision %s: its weights and moments are converted to %s and %s",
                       checkpoint, there, theirs->precision, here, mine->precision);
    else if (strcmp(mine->precision, theirs->precision))
        eitp__log_line(&trainer->host, EITP_LOG_WARNING, "the precision changed from %s to %s since '%s'",
                       theirs->precision, mine->precision, checkpoint);
    if (!strcmp(mine->precision, theirs->precision) && strcmp(mine->numerics, theirs->numerics))
        eitp__log_line(&trainer->host, EITP_LOG_WARNING,
                       "the kernels changed from %s to %s since '%s': the last bits of results differ",
                       theirs->numerics, mine->numerics, checkpoint);
}

/* True if the hashes differ. A hash of 0 is unknown. */
static int eitp__data_hashes_differ(const eitp__state *mine, const eitp__state *theirs) {
    return (mine->data_hash[0] || mine->data_hash[1]) && (theirs->data_hash[0] || theirs->data_hash[1]) &&
           (mine->data_hash[0] != theirs->data_hash[0] || mine->data_hash[1] != theirs->data_hash[1]);
}

/* Compares the number of items, their first position, and a hash, which is not shown in messages. */
static eitp_status eitp__compare_data(const eitp_trainer *trainer, const eitp__state *mine, const eitp__state *theirs,
                                      const char *checkpoint, eitp_error *error) {
    const char *what_to_do = "use the same data, or start from its weights";
    const char *unit = trainer->plans.task.unit ? trainer->plans.task.unit : "items";
    if (mine->data_count != theirs->data_count)
        return eitp__fail(
            error, EITP_ERROR_ARGUMENT,
            "the training data differ from the data of '%s', which had %lld %s, and this run has %lld; %s", checkpoint,
            (long long)theirs->data_count, unit, (long long)mine->data_count, what_to_do);
    if (mine->data_first != theirs->data_first)
        return eitp__fail(
            error, EITP_ERROR_ARGUMENT,
            "the training data differ from the data of '%s', which started after %lld %s; this run's data "
            "start after %lld; %s",
            checkpoint, (long long)theirs->data_first, unit, (long long)mine->data_first, what_to_do);
    if (eitp__data_hashes_differ(mine, theirs) && !trainer->plans.config.accepts_other_data)
        return eitp__fail(
            error, EITP_ERROR_ARGUMENT,
            "the training data differ from the data of '%s': the same number of %s, but different content; %s",
            checkpoint, unit, what_to_do);
    return EITP_OK;
}

/* True if samples may have another length: their number is the same, so the position in the data is too. */
static int eitp__accepts_rows(const eitp_trainer *trainer, const eitp__state *mine) {
    return trainer->plans.config.accepts_other_data &&
           (uint64_t)mine->data_count == trainer->plans.task.samples[EITP_TRAINING];
}

/* Logs a change of the data that the trainer accepts. */
static void eitp__log_other_data(const eitp_trainer *trainer, const eitp__state *mine, const eitp__state *theirs,
                                 const char *checkpoint) {
    const char *unit = trainer->plans.task.unit ? trainer->plans.task.unit : "items";
    if (eitp__data_hashes_differ(mine, theirs))
        eitp__log_line(&trainer->host, EITP_LOG_WARNING,
                       "the training data differ from the data of '%s': the same number of %s, but different content",
                       checkpoint, unit);
    if (trainer->plans.task.rows != theirs->info.rows)
        eitp__log_line(&trainer->host, EITP_LOG_WARNING, "block_size changed from %lld to %lld since '%s'",
                       (long long)theirs->info.rows, (long long)trainer->plans.task.rows, checkpoint);
}

/* Refuses another number of micro-batches per pass if it may change results: with dense rows, or if a gradient depends
   on it. */
static eitp_status eitp__compare_passes(const eitp__step_plans *plans, const eitp_trainer_config *mine,
                                        const eitp_trainer_config *theirs, const char *checkpoint, eitp_error *error) {
    if (mine->micro_batches_per_pass == theirs->micro_batches_per_pass)
        return EITP_OK;
    if (mine->dense_rows)
        return eitp__fail(error, EITP_ERROR_ARGUMENT,
                          "'%s' was made with dense rows and micro_batches_per_pass %lld, and this run has %lld: "
                          "results would differ; use the same, or start from its weights",
                          checkpoint, (long long)theirs->micro_batches_per_pass,
                          (long long)mine->micro_batches_per_pass);
    if (plans->pass_dependent_parameter[0])
        return eitp__fail(error, EITP_ERROR_ARGUMENT,
                          "'%s' was made with micro_batches_per_pass %lld, and this run has %lld: results would "
                          "differ, since the gradient of parameter '%s', or that state, depends on it; use the same, "
                          "or start from its weights",
                          checkpoint, (long long)theirs->micro_batches_per_pass,
                          (long long)mine->micro_batches_per_pass, plans->pass_dependent_parameter);
    return EITP_OK;
}

/* Refuses or logs the differences between members that the tables describe. */
static eitp_status eitp__compare_values(const eitp_trainer *trainer, eitp_difference difference,
                                        const eitp__state *mine, const eitp__state *theirs, const char *checkpoint,
                                        eitp_error *error) {
    char here[64], there[64];
    eitp__state_walk walk = EITP__ZERO;
    const eitp_setting *setting;
    while ((setting = eitp__state_next(&walk)) != NULL) {
        const void *my_values = eitp__state_values(&walk, mine), *their_values = eitp__state_values(&walk, theirs);
        if (setting->difference != difference || eitp__setting_equal(setting, my_values, their_values))
            continue;
        eitp_setting_format(setting, my_values, here, sizeof here);
        eitp_setting_format(setting, their_values, there, sizeof there);
        if (difference == EITP_DIFFERENCE_REFUSED)
            return eitp__fail(error, EITP_ERROR_ARGUMENT,
                              "'%s' was made with %s %s, and this run has %s; use the same, or start from its weights",
                              checkpoint, setting->name, there, here);
        eitp__log_line(&trainer->host, EITP_LOG_WARNING, "%s changed from %s to %s since '%s'", setting->name, there,
                       here, checkpoint);
    }
    return EITP_OK;
}

/* Compares the run that wrote the checkpoint with this one: refuses, logs, or accepts each difference. */
static eitp_status eitp__compare_states(const eitp_trainer *trainer, const eitp__state *written, const char *checkpoint,
                                        eitp_error *error) {
    const eitp_step_shape shape = eitp__step_shape_of(&written->info.config);
    eitp__state current;
    eitp_status status = eitp__state_of(trainer, &current, error);
    if (status)
        return status;
    status = eitp__compare_samples(&current.info.config, &written->info.config, checkpoint, error);
    if (eitp__accepts_rows(trainer, &current))
        current.info.rows = written->info.rows;
    if (eitp__follows_shrinking(trainer, written) || eitp__splits_otherwise(trainer, written))
        eitp__set_step_shape(&current.info.config, &shape);
    if (!status)
        status = eitp__compare_values(trainer, EITP_DIFFERENCE_REFUSED, &current, written, checkpoint, error);
    if (!status)
        status = eitp__compare_passes(&trainer->plans, &current.info.config, &written->info.config, checkpoint, error);
    if (!status)
        status = eitp__compare_data(trainer, &current, written, checkpoint, error);
    if (!status)
        status = eitp__compare_adapters(trainer, &current, written, checkpoint, error);
    if (status)
        return status;
    eitp__log_other_data(trainer, &current, written, checkpoint);
    eitp__log_numerics(trainer, &current.info, &written->info, checkpoint);
    if (!eitp__follows_shrinking(trainer, written) && eitp__splits_otherwise(trainer, written))
        eitp__log_split(trainer, written, checkpoint);
    return eitp__compare_values(trainer, EITP_DIFFERENCE_LOGGED, &current, written, checkpoint, error);
}

/*
 * ---- Loading ----
 *
 * A checkpoint is verified in one of two ways. eitp_trainer_resume compares all files with the manifest before it
 * changes anything, and then reads the tensors a second time into the variables. A run, whose trainer has no state to
 * lose, has compared all files except the tensors when it chose the checkpoint. Their files are read only once, into
 * the variables, and their checksums are computed on the way. The trainer is inconsistent until the checksum of the
 * last file matches.
 *
 * Tensors that are converted are not read in one pass, so their file is read again. Checkpoints of earlier versions
 * have no manifest; the checksums of their tensors are compared first.
 */

/* The checkpoint being resumed. */
typedef struct eitp__resumption {
    eitp_trainer *trainer;
    const char *checkpoint;
    eitp__checkpoint_head head;
    eitp__manifest manifest;
    eitp__state state;
} eitp__resumption;

/* Compares the contents read from a file with the manifest, and its tensors with the checksum in trainer_state.json if
   there is one (it is then not negative). */
static eitp_status eitp__check_sums(eitp__resumption *r, const char *path, const char *name,
                                    const eitp__read_sums *sums, int64_t expected, eitp_error *error) {
    eitp_status status = eitp__manifest_compare(&r->manifest, path, name, &sums->file, error);
    if (!status && expected >= 0 && (int64_t)sums->tensors != expected)
        status = eitp__fail(error, EITP_ERROR_FORMAT, "'%s' is damaged: its checksum is %08x, expected %08x", path,
                            (unsigned)sums->tensors, (unsigned)expected);
    return status == EITP_ERROR_FORMAT ? eitp__fail_advice(error, status, "resume from another checkpoint") : status;
}

/* Reads the adapters, or a file of weights and their parts in the optimizer's file. If `given` is NULL, reads the
   parameters of a task without a model. */
static eitp_status eitp__resume_weights(eitp__resumption *r, const char *name, const eitp__selection *given,
                                        int64_t expected, eitp__reading reading, eitp_error *error) {
    const eitp_task *task = &r->trainer->plans.task;
    const int has_adapters = eitp_model_lora_config(task->model).rank > 0;
    eitp__read_sums sums = EITP__ZERO;
    eitp__selection selection = given ? *given : eitp__select_role(EITP_PARAMETER);
    char *path = eitp__join_path(&r->trainer->host, r->checkpoint, name);
    char *lower = eitp__join_path(&r->trainer->host, r->checkpoint, EITP__OPTIMIZER_FILE);
    eitp_status status = path && lower ? EITP_OK : eitp__fail_memory(error, strlen(r->checkpoint), "a path");
    selection.lower = lower;
    if (!status && has_adapters)
        status = eitp__lora_read(task->model, r->checkpoint, reading, &sums, error);
    else if (!status)
        status = eitp__variables_read_selected(task->context, path, &selection, reading, &sums, error);
    if (!status && reading != EITP__READ_HEADER)
        status = eitp__check_sums(r, path, name, &sums, expected, error);
    eitp__release_text(&r->trainer->host, path);
    eitp__release_text(&r->trainer->host, lower);
    return status;
}

/* Reads the weights, or the adapters. The state holds the checksum of the first file. */
static eitp_status eitp__read_model_state(eitp__resumption *r, eitp__reading reading, eitp_error *error) {
    const eitp_model *model = r->trainer->plans.task.model;
    const int64_t expected = r->state.model_checksum;
    eitp__model_file files[EITP__MODEL_FILES];
    eitp_status status = EITP_OK;
    if (!model || eitp_model_lora_config(model).rank > 0)
        return eitp__resume_weights(r, model ? EITP__LORA_WEIGHTS_FILE : EITP__WEIGHTS_FILE, NULL, expected, reading,
                                    error);
    for (int i = 0, count = eitp__model_files(model, files); i < count && !status; i++)
        status = eitp__resume_weights(r, files[i].name, &files[i].selection, i ? -1 : expected, reading, error);
    return status;
}

/* Reads the parameters that are saved separately from the model. */
static eitp_status eitp__read_others_state(eitp__resumption *r, eitp__reading reading, eitp_error *error) {
    const eitp_task *task = &r->trainer->plans.task;
    const eitp__state *state = &r->state;
    const int has_adapters = state->info.lora.rank > 0;
    const int has_others = task->model && eitp__lora_has_separate(task->context, has_adapters);
    eitp__read_sums sums = EITP__ZERO;
    char *path;
    eitp_status status;
    if (has_others != (state->extra_parameters_checksum >= 0))
        return eitp__fail(error, EITP_ERROR_FORMAT,
                          "'%s' has %s parameters that were trained in addition to %s, and this run has %s; start "
                          "from its weights",
                          r->checkpoint, has_others ? "no" : "some", has_adapters ? "adapters" : "the model",
                          has_others ? "some" : "none");
    if (!has_others)
        return EITP_OK;
    path = eitp__join_path(&r->trainer->host, r->checkpoint, EITP__LORA_OTHERS_FILE);
    if (!path)
        return eitp__fail_memory(error, strlen(r->checkpoint), "a path");
    status = eitp__lora_read_others(task->context, has_adapters, path, reading, &sums, error);
    if (!status && reading != EITP__READ_HEADER)
        status = eitp__check_sums(r, path, EITP__LORA_OTHERS_FILE, &sums, state->extra_parameters_checksum, error);
    eitp__release_text(&r->trainer->host, path);
    return status;
}

/* True if the optimizer's state has the form of this version and this optimizer. */
static int eitp__has_same_optimizer(const eitp_trainer *trainer, const eitp__state *written) {
    eitp_optimizer optimizer = trainer->plans.config.optimizer_config.optimizer;
    return written->info.config.optimizer_config.optimizer == optimizer &&
           (written->version >= EITP__MOMENTUM_STATE_VERSION || optimizer != EITP_FACTORED);
}

/* Reads the optimizer state, and converts it if another optimizer or an earlier version wrote it. */
static eitp_status eitp__read_optimizer_state(eitp__resumption *r, eitp__reading reading, eitp_error *error) {
    eitp_trainer *trainer = r->trainer;
    eitp_context *context = trainer->plans.task.context;
    eitp__read_sums sums = EITP__ZERO;
    char *path = eitp__join_path(&trainer->host, r->checkpoint, EITP__OPTIMIZER_FILE);
    eitp_status status = path ? EITP_OK : eitp__fail_memory(error, strlen(r->checkpoint), "a path");
    if (!status && eitp__has_same_optimizer(trainer, &r->state)) {
        status = eitp__states_read(context, path, reading, &sums, error);
        if (!status && reading != EITP__READ_HEADER)
            status = eitp__check_sums(r, path, EITP__OPTIMIZER_FILE, &sums, r->state.optimizer_checksum, error);
    } else if (!status) {
        status = eitp__moments_read(context, path, &r->state.info, &trainer->plans.config.optimizer_config,
                                    reading == EITP__READ_LOAD, error);
    }
    eitp__release_text(&trainer->host, path);
    return status;
}

static eitp_status eitp__read_variables(eitp__resumption *r, eitp__reading reading, eitp_error *error) {
    eitp_status status = eitp__read_model_state(r, reading, error);
    if (!status)
        status = eitp__read_others_state(r, reading, error);
    return status ? status : eitp__read_optimizer_state(r, reading, error);
}

/* Verifies files of the checkpoint that were not yet compared. */
static eitp_status eitp__verify_files(eitp__resumption *r, eitp__verified verified, eitp_error *error) {
    eitp_status status =
        eitp__checkpoint_check(&r->trainer->host, r->checkpoint, &r->head, &r->manifest, verified, error);
    return status == EITP_ERROR_FORMAT ? eitp__fail_advice(error, status, "resume from another checkpoint") : status;
}

static eitp_status eitp__open_checkpoint(eitp__resumption *r, eitp_error *error) {
    eitp_status status = eitp__checkpoint_open(&r->trainer->host, r->checkpoint, &r->head, &r->manifest, error);
    return status == EITP_ERROR_FORMAT ? eitp__fail_advice(error, status, "resume from another checkpoint") : status;
}

/* Performs all checks that are possible before anything is changed. */
static eitp_status eitp__check_checkpoint(eitp__resumption *r, int is_recovered, eitp_error *error) {
    eitp_status status = eitp__open_checkpoint(r, error);
    if (!status && !is_recovered)
        status = eitp__verify_files(r, EITP__VERIFY_ALL, error);
    if (!status)
        status = eitp__state_read(&r->trainer->host, r->checkpoint, &r->state, error);
    if (!status && r->head.step != r->state.info.step)
        status = eitp__fail(error, EITP_ERROR_FORMAT,
                            "'%s' is damaged: " EITP__STATE_FILE " has step %lld and " EITP__MANIFEST_FILE
                            " step %lld; resume from another checkpoint",
                            r->checkpoint, (long long)r->state.info.step, (long long)r->head.step);
    if (!status)
        status = eitp__compare_states(r->trainer, &r->state, r->checkpoint, error);
    return status ? status : eitp__read_variables(r, r->head.has_manifest ? EITP__READ_HEADER : EITP__READ_ALL, error);
}

/* Loads a checkpoint after the checks. */
static eitp_status eitp__load_checkpoint(eitp__resumption *r, eitp_error *error) {
    eitp_trainer *trainer = r->trainer;
    const eitp__state *state = &r->state;
    const int is_split = eitp__splits_otherwise(trainer, state);
    eitp_status status;
    trainer->is_inconsistent = 1;
    status = eitp__read_variables(r, EITP__READ_LOAD, error);
    if (!status && r->head.has_manifest)
        status = eitp__verify_files(r, EITP__VERIFY_TENSORS, error);
    if (status)
        return status == EITP_ERROR_FORMAT
                   ? status
                   : eitp__fail_prefix(error, status, "resuming from '%s' failed half-way; resume again",
                                       r->checkpoint);
    trainer->step = trainer->start.step = state->info.step;
    trainer->start.samples = (uint64_t)state->info.samples;
    trainer->initial_shape = is_split ? eitp_trainer_shape(trainer) : state->info.initial_shape;
    trainer->skipped = state->skipped;
    /* In another precision, the loss scale restarts at its initial value. */
    if (!strcmp(state->info.precision, eitp_context_precision_name(trainer->plans.task.context))) {
        trainer->loss_scale = state->loss_scale;
        trainer->scale_steps = state->scale_steps;
    }
    trainer->spikes = state->spikes;
    trainer->noise_scale = state->noise_scale;
    trainer->plateau = state->plateau;
    trainer->is_inconsistent = 0;
    return EITP_OK;
}

/* Loads the checkpoint in the shape that the run was shrunk to. After a failure the trainer has its previous shape
   again, since it may resume from an earlier checkpoint. */
static eitp_status eitp__load_shrunk(eitp__resumption *r, eitp_error *error) {
    eitp__step_plans *plans = &r->trainer->plans;
    const eitp_step_shape shape = eitp__step_shape_of(&r->state.info.config);
    const eitp_trainer_config before = plans->config;
    eitp_trainer_config config = before;
    eitp_status status;
    eitp__set_step_shape(&config, &shape);
    status = eitp__step_plans_rebuild(plans, &config, plans->evaluation_samples, error);
    if (status)
        return status;
    status = eitp__load_checkpoint(r, error);
    if (status)
        eitp__step_plans_rebuild(plans, &before, plans->evaluation_samples, NULL);
    return status;
}

EITP__PRIVATE eitp__prefetch *eitp__trainer_prefetch(const eitp_host *host, const char *checkpoint) {
    static const char *const names[] = {EITP__WEIGHTS_FILE,
                                        EITP__DECODER_DIRECTORY "/" EITP__WEIGHTS_FILE,
                                        EITP__ENCODER_DIRECTORY "/" EITP__WEIGHTS_FILE,
                                        EITP__LORA_WEIGHTS_FILE,
                                        EITP__LORA_OTHERS_FILE,
                                        EITP__OPTIMIZER_FILE};
    eitp__prefetch *prefetch = eitp__prefetch_create(host);
    for (size_t i = 0; i < EITP__COUNT(names) && prefetch; i++) {
        char *path = eitp__join_path(host, checkpoint, names[i]);
        if (path)
            eitp__prefetch_add(prefetch, path);
        eitp__release_text(host, path);
    }
    return prefetch;
}

eitp_status eitp_trainer_resume(eitp_trainer *trainer, const char *checkpoint, eitp_error *error) {
    if (!trainer || !checkpoint)
        return eitp__fail_null(error, "eitp_trainer_resume", "trainer and checkpoint");
    return eitp__trainer_resume(trainer, checkpoint, 0, error);
}

EITP__PRIVATE eitp_status eitp__trainer_resume(eitp_trainer *trainer, const char *checkpoint, int is_recovered,
                                               eitp_error *error) {
    eitp__resumption *r = (eitp__resumption *)eitp__allocate(&trainer->host, sizeof *r); /* too large for a frame */
    eitp_status status;
    if (!r)
        return eitp__fail_memory(error, sizeof *r, "a checkpoint's state");
    r->trainer = trainer;
    r->checkpoint = checkpoint;
    eitp__manifest_init(&r->manifest, &trainer->host, -1, 1);
    eitp__read_ahead_cancel(&trainer->plans.ahead);
    status = eitp__check_checkpoint(r, is_recovered, error);
    if (!status && trainer->plans.task.model)
        status = eitp__model_keep_members(trainer->plans.task.model, checkpoint, error);
    if (!status)
        status =
            eitp__follows_shrinking(trainer, &r->state) ? eitp__load_shrunk(r, error) : eitp__load_checkpoint(r, error);
    eitp__manifest_release(&r->manifest);
    eitp__release(&trainer->host, r, sizeof *r);
    return status;
}
