/* The task mlm: tokens that are hidden, in windows of text or in each row of a table. */
#include "data/labelled.h"
#include "files.h"
#include "output.h"
#include "task/samples.h"
#include "task/task.h"

static eitp_status set_shape(training_run *r, const char *from, eitp_error *error) {
    if (!r->shape.bidirectional)
        return command_fail(error, EITP_ERROR_UNSUPPORTED,
                            "'%s' is a %s model, which predicts the next token, not hidden ones; train it with --task "
                            "lm",
                            from, eitp_architecture_name(r->shape.architecture));
    r->shape.head = EITP_HEAD_LANGUAGE;
    return EITP_OK;
}

static int has_rows(const training_run *r) {
    return r->training.labelled != NULL;
}

/* ---- Data ---- */

static eitp_status open_rows(training_run *r, eitp_error *error) {
    char *directory = files_join(r->directory, "data");
    labelled_settings settings;
    eitp_status status;
    memset(&settings, 0, sizeof settings);
    settings.tokenizer = r->tokenizer;
    settings.vocabulary = r->shape.vocabulary;
    settings.max_length = labelled_max_length(&r->options, r->tokenizer, &r->shape);
    settings.drops_labels = 1;
    status = task_open_labelled(r, OPTION_DATA, &settings, directory, &r->training, error);
    if (!status && options_has(&r->options, OPTION_VAL_DATA))
        status = task_open_labelled(r, OPTION_VAL_DATA, &settings, directory, &r->validation, error);
    free(directory);
    return status;
}

/* Hidden tokens become the tokenizer's mask token. */
static eitp_status check_mask(const training_run *r, eitp_error *error) {
    const option_id id = options_has(&r->options, OPTION_MODEL) ? OPTION_MODEL : OPTION_INIT;
    if (!r->tokenizer)
        return command_fail(error, EITP_ERROR_ARGUMENT,
                            "'%s' is a %s model, which learns to predict hidden tokens (--task mlm) and has no "
                            "tokenizer; name one with --tokenizer",
                            options_text(&r->options, id), eitp_architecture_name(r->shape.architecture));
    if (eitp_tokenizer_special(r->tokenizer, EITP_MASK) < 0)
        return command_fail(error, EITP_ERROR_ARGUMENT,
                            "the tokenizer has no mask token, which --task mlm needs; name one as mask_token in its "
                            "tokenizer_config.json");
    return EITP_OK;
}

static eitp_status open_data(training_run *r, eitp_error *error) {
    eitp_status status = check_mask(r, error);
    if (status)
        return status;
    if (!data_is_table(&r->options, OPTION_DATA))
        return task_language.open(r, error);
    run_set_vocabulary(r);
    status = model_check_tokenizer(r->tokenizer, NULL, r->shape.vocabulary, error);
    return status ? status : open_rows(r, error);
}

static eitp_status split(training_run *r, int64_t block_size, eitp_error *error) {
    return has_rows(r) ? task_split_labelled(r, block_size, error) : task_language.split(r, block_size, error);
}

/* ---- The task ---- */

static eitp_status plan(const fit_plan *plan, eitp_model *model, eitp_task *task, eitp_error *error) {
    eitp_masked_config config;
    memset(&config, 0, sizeof config);
    config.model = model;
    config.training = samples_labelled(plan, SAMPLES_OF_TRAINING);
    if (plan->validates)
        config.validation = samples_labelled(plan, 1);
    return eitp_masked_task(&config, task, error);
}

/* The windows of a part of the token file. */
static eitp_status use_windows(training_run *r, eitp_text_windows *windows, const data_file *data,
                               eitp_token_range range, eitp_labelled_source *source, eitp_error *error) {
    const eitp_token_source tokens = eitp_token_file_source(data->file, range);
    eitp_status status = eitp_text_windows_init(windows, &tokens, r->tokenizer, r->plan.block_size, error);
    if (!status)
        *source = eitp_text_windows_source(windows);
    return status;
}

static eitp_status find_sources(training_run *r, eitp_masked_config *config, eitp_error *error) {
    const data_file *validation = r->validation.file ? &r->validation : &r->training;
    eitp_status status;
    if (has_rows(r)) {
        config->training = eitp_labelled_part_source(r->training_part);
        if (r->validates)
            config->validation = eitp_labelled_part_source(r->validation_part);
        return EITP_OK;
    }
    status = use_windows(r, &r->windows[EITP_TRAINING], &r->training, r->training_range, &config->training, error);
    if (!status && r->validates)
        status =
            use_windows(r, &r->windows[EITP_VALIDATION], validation, r->validation_range, &config->validation, error);
    return status;
}

static eitp_status create_task(training_run *r, eitp_error *error) {
    eitp_masked_config config;
    eitp_status status;
    memset(&config, 0, sizeof config);
    config.model = r->model;
    config.tokenizer = r->tokenizer;
    config.probability = options_number(&r->options, OPTION_MLM_PROBABILITY);
    config.whole_words = (int)options_integer(&r->options, OPTION_WHOLE_WORDS);
    status = find_sources(r, &config, error);
    return status ? status : eitp_masked_task(&config, &r->task, error);
}

const task_kind task_masked = {"mlm", EITP_HEAD_LANGUAGE, EITP_PROBLEM_UNKNOWN, set_shape,           open_data, split,
                               plan,  create_task,        task_log_labelled,    task_record_labelled};
