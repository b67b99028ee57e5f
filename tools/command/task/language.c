/* The task lm: the next token, of texts or of a token file. */
#include "files.h"
#include "output.h"
#include "run/resume_data.h"
#include "task/samples.h"
#include "task/task.h"

static eitp_status set_shape(training_run *r, const char *from, eitp_error *error) {
    return model_check_language(&r->shape, from, error);
}

/* ---- Data ---- */

/* Sets *has_text to 1 if some of the data is text rather than a token file. */
static eitp_status find_text(const training_run *r, int *has_text, eitp_error *error) {
    const option_set *o = &r->options;
    int is_token_file, validation_is_token_file = 1;
    eitp_status status = data_is_token_file(o, OPTION_DATA, &is_token_file, error);
    if (!status && options_has(o, OPTION_VAL_DATA))
        status = data_is_token_file(o, OPTION_VAL_DATA, &validation_is_token_file, error);
    *has_text = !status && !(is_token_file && validation_is_token_file);
    return status;
}

/* Text without a tokenizer is read as bytes. */
static eitp_status complete_tokenizer(training_run *r, eitp_error *error) {
    int has_text = 0;
    eitp_status status = r->tokenizer ? EITP_OK : find_text(r, &has_text, error);
    return status || !has_text ? status : model_use_bytes(&r->tokenizer, error);
}

/* For a token file without a tokenizer: its tokens may be bytes. Otherwise the model is saved without a tokenizer. */
static eitp_status recognize_tokenizer(training_run *r, eitp_error *error) {
    const eitp_host host = command_host();
    eitp_token_file_info info = eitp_token_file_get_info(r->training.file);
    eitp_tokenizer *bytes;
    eitp_status status = eitp_tokenizer_create_bytes(&host, &bytes, error);
    if (status)
        return status;
    if (info.kind == EITP_TOKEN_FILE_EITP && info.tokenizer_fingerprint == eitp_tokenizer_fingerprint(bytes)) {
        r->tokenizer = bytes;
        return EITP_OK;
    }
    eitp_tokenizer_destroy(bytes);
    output_warning("the tokenizer of '%s' is unknown and will not be saved with the model; name it with --tokenizer",
                   r->training.path);
    return EITP_OK;
}

/* Opens --data or --val-data; of a resumed run what the text was packed into, if it has changed. */
static eitp_status open_file(training_run *r, option_id id, const char *directory, data_file *data, eitp_error *error) {
    const option_set *o = &r->options;
    char *expected = r->tokenizer ? data_packed_path(o, id, r->tokenizer, directory) : NULL;
    if (expected)
        resume_use_packed(r, id, directory, expected, packed_has_tokens, data);
    free(expected);
    return data_open(o, id, r->tokenizer, r->shape.vocabulary, directory, data, error);
}

static eitp_status open_files(training_run *r, eitp_error *error) {
    const int64_t vocabulary = r->shape.vocabulary;
    char *directory = files_join(r->directory, "data");
    eitp_status status = EITP_OK;
    if (r->tokenizer)
        status = model_check_tokenizer(r->tokenizer, NULL, vocabulary, error);
    if (!status)
        status = open_file(r, OPTION_DATA, directory, &r->training, error);
    if (!status)
        status = resume_keep_tokens(r, error);
    if (!status && options_has(&r->options, OPTION_VAL_DATA))
        status = open_file(r, OPTION_VAL_DATA, directory, &r->validation, error);
    if (!status && !r->tokenizer)
        status = recognize_tokenizer(r, error);
    if (!status && r->tokenizer)
        status = model_check_tokenizer(r->tokenizer, r->training.file, vocabulary, error);
    if (!status && r->tokenizer && r->validation.file)
        status = model_check_tokenizer(r->tokenizer, r->validation.file, vocabulary, error);
    free(directory);
    return status;
}

static eitp_status open_data(training_run *r, eitp_error *error) {
    eitp_status status = complete_tokenizer(r, error);
    if (status)
        return status;
    run_set_vocabulary(r);
    return open_files(r, error);
}

static eitp_status split_data(training_run *r, int64_t block_size, eitp_error *error) {
    const double fraction = r->validation.file ? 0 : options_number(&r->options, OPTION_VAL_FRACTION);
    const uint64_t count = r->kept_tokens ? r->kept_tokens : eitp_token_file_get_info(r->training.file).token_count;
    eitp_token_range nothing;
    eitp_status status =
        eitp_split_tokens(count, fraction, block_size, &r->training_range, &r->validation_range, error);
    if (!status && r->validation.file)
        status = eitp_split_tokens(eitp_token_file_get_info(r->validation.file).token_count, 0, block_size,
                                   &r->validation_range, &nothing, error);
    r->validates = !status && r->validation_range.count > 0 && options_choice(&r->options, OPTION_EVAL) != 0;
    return status;
}

/* ---- The task ---- */

static eitp_status plan(const fit_plan *plan, eitp_model *model, eitp_task *task, eitp_error *error) {
    eitp_language_config config;
    memset(&config, 0, sizeof config);
    config.model = model;
    config.block_size = plan->block_size;
    config.training = samples_tokens(plan, SAMPLES_OF_TRAINING);
    if (plan->validates)
        config.validation = samples_tokens(plan, 1);
    return eitp_language_task(&config, task, error);
}

static eitp_status create_task(training_run *r, eitp_error *error) {
    eitp_language_config config;
    memset(&config, 0, sizeof config);
    config.model = r->model;
    config.training = eitp_token_file_source(r->training.file, r->training_range);
    if (r->kept_tokens)
        config.training.hash = r->resumed.data.hash;
    if (r->validates)
        config.validation =
            eitp_token_file_source(r->validation.file ? r->validation.file : r->training.file, r->validation_range);
    config.block_size = r->plan.block_size;
    config.tokenizer = r->tokenizer;
    return eitp_language_task(&config, &r->task, error);
}

/* ---- What is said of the data ---- */

static void log_data(const training_run *r) {
    output_info("data: %llu training windows, %llu validation tokens; %lld steps are %.2f epochs",
                (unsigned long long)r->task.samples[EITP_TRAINING], (unsigned long long)r->validation_range.count,
                (long long)r->steps, run_epochs(r));
}

static void record_data(const training_run *r, text_buffer *t) {
    text_json_member_string(t, "token_file", r->training.path);
    text_json_member_integer(t, "training_tokens", (int64_t)r->training_range.count);
    text_json_member_integer(t, "validation_tokens", (int64_t)r->validation_range.count);
}

const task_kind task_language = {
    "lm",        EITP_HEAD_LANGUAGE, EITP_PROBLEM_UNKNOWN, set_shape, open_data, split_data, plan,
    create_task, log_data,           record_data};
