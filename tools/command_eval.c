/* eitp eval: the loss of a model on data. */
#include "command_data.h"
#include "command_model.h"
#include "command_output.h"
#include "command_process.h"
#include "command_split.h"
#include "command_trained_model.h"

typedef struct evaluating {
    option_set options;
    trained_model trained;
    data_file data;
    eitp_token_range range;
    int64_t block_size;
    eitp_evaluation result;
} evaluating;

static eitp_status evaluating_open_data(evaluating *e, eitp_error *error) {
    const option_set *o = &e->options;
    const int64_t vocabulary = eitp_model_vocabulary(e->trained.model);
    int is_token_file = 0;
    eitp_status status = data_is_token_file(o, OPTION_DATA, &is_token_file, error);
    if (!status && !e->trained.tokenizer && !is_token_file)
        status = model_use_bytes(&e->trained.tokenizer, error);
    if (!status && e->trained.tokenizer)
        status = model_check_tokenizer(e->trained.tokenizer, NULL, vocabulary, error);
    if (!status)
        status = data_open(o, OPTION_DATA, e->trained.tokenizer, vocabulary, NULL, &e->data, error);
    if (!status && e->trained.tokenizer)
        status = model_check_tokenizer(e->trained.tokenizer, e->data.file, vocabulary, error);
    return status ? status : split_find_range(o, trained_model_checkpoint(&e->trained), &e->data, &e->range, error);
}

/* The data, which the checkpoint may name. */
static eitp_status evaluating_read(void *user, eitp_error *error) {
    evaluating *e = (evaluating *)user;
    const char *checkpoint = trained_model_checkpoint(&e->trained);
    eitp_status status = trained_model_check_language(&e->trained, error);
    if (status)
        return status;
    data_close(&e->data);
    e->block_size = model_block_size(&e->options, checkpoint, eitp_model_positions(e->trained.model));
    status = split_find_data(&e->options, checkpoint, error);
    output_progress("reading the data ...");
    return status ? status : evaluating_open_data(e, error);
}

static eitp_status evaluating_open(evaluating *e, eitp_error *error) {
    const option_set *o = &e->options;
    int is_token_file;
    eitp_status status = options_require(o, OPTION_MODEL, error);
    if (status)
        return status;
    if (!options_has(o, OPTION_DATA) && !options_has(o, OPTION_SPLIT))
        return command_fail(error, EITP_ERROR_ARGUMENT,
                            "--data is required, or --split to evaluate the data of the model's run");
    status = data_is_token_file(o, OPTION_DATA, &is_token_file, error);
    return status ? status : trained_model_open(o, &e->trained, evaluating_read, e, error);
}

/* --eval-windows or --eval-frac; 0: all. */
static int64_t evaluating_windows(const option_set *o, const eitp_task *task) {
    const double windows = ceil(options_number(o, OPTION_EVAL_FRAC) * (double)task->samples[EITP_TRAINING]);
    return options_has(o, OPTION_EVAL_FRAC) ? (int64_t)windows : options_integer(o, OPTION_EVAL_WINDOWS);
}

static eitp_status evaluating_run(evaluating *e, eitp_error *error) {
    const option_set *o = &e->options;
    eitp_language_config config;
    eitp_task task;
    eitp_status status;
    memset(&config, 0, sizeof config);
    config.model = e->trained.model;
    config.training = eitp_token_file_source(e->data.file, e->range);
    config.block_size = e->block_size;
    status = eitp_language_task(&config, &task, error);
    output_progress("evaluating ...");
    if (!status)
        status = eitp_evaluate(&task, EITP_TRAINING, options_integer(o, OPTION_BATCH_SIZE),
                               evaluating_windows(o, &task), &e->result, error);
    eitp_task_release(&task);
    if (!status && !isfinite(e->result.loss))
        status = command_fail(error, EITP_ERROR_NOT_FINITE,
                              "the loss of '%s' on this data is not finite; evaluate an earlier checkpoint",
                              e->trained.directory);
    return status;
}

/* The mean over the whole token file, of which the evaluated tokens may be a part; 0 if the file does not say. */
static double evaluating_bytes_per_token(const evaluating *e) {
    const eitp_token_file_info info = eitp_token_file_get_info(e->data.file);
    return (double)info.text_bytes / (double)info.token_count;
}

/* Bits per byte of text: loss / ln 2 for a token of the file's mean length. */
static double evaluating_bits_per_byte(const evaluating *e) {
    return e->result.loss / (log(2.0) * evaluating_bytes_per_token(e));
}

static void evaluating_add_json(const evaluating *e, text_buffer *t) {
    text_format(t, "{");
    text_json_member_string(t, "model", e->trained.directory);
    if (e->trained.adapter)
        text_json_member_string(t, "adapter", e->trained.adapter);
    text_json_member_number(t, "loss", e->result.loss);
    text_json_member_number(t, "loss_error", e->result.error);
    text_json_member_number(t, "perplexity", exp(e->result.loss));
    text_json_member_number(t, "bits_per_byte", evaluating_bits_per_byte(e)); /* null if it is not known */
    text_json_member_number(t, "bytes_per_token", evaluating_bytes_per_token(e));
    text_json_member_integer(t, "tokens", e->result.items);
    text_json_member_integer(t, "first_token", (int64_t)e->range.first);
    text_json_member_integer(t, "block_size", e->block_size);
    text_format(t, "}\n");
}

static void evaluating_add_text(const evaluating *e, text_buffer *t) {
    text_format(t, "loss %.6f nats per token (standard error %.6f), perplexity %.4f", e->result.loss, e->result.error,
                exp(e->result.loss));
    if (evaluating_bytes_per_token(e) > 0)
        text_format(t, ", %.4f bits per byte (%.3f bytes per token in the file)", evaluating_bits_per_byte(e),
                    evaluating_bytes_per_token(e));
    text_format(t, ", %lld tokens\n", (long long)e->result.items);
}

static void evaluating_print(const evaluating *e) {
    text_buffer t = {NULL, 0, 0};
    if (options_integer(&e->options, OPTION_JSON))
        evaluating_add_json(e, &t);
    else
        evaluating_add_text(e, &t);
    output_result(t.data, t.size);
    text_release(&t);
}

int command_eval(int count, char **arguments) {
    evaluating e;
    eitp_error error;
    int ended = 0, code = COMMAND_FINISHED;
    eitp_status status;
    memset(&e, 0, sizeof e);
    process_end_on_signals();
    status = options_read(&e.options, "eval", OPTIONS_EVAL, count, arguments, &ended, &error);
    if (!status && !ended && options_integer(&e.options, OPTION_PRINT_CONFIG)) {
        options_print(&e.options, (int)options_integer(&e.options, OPTION_JSON));
        ended = 1;
    }
    if (!status && !ended) {
        status = evaluating_open(&e, &error);
        if (!status)
            status = evaluating_run(&e, &error);
        if (!status) {
            output_start();
            evaluating_print(&e);
        }
    }
    if (status)
        code = output_fail(&error);
    data_close(&e.data);
    trained_model_close(&e.trained);
    options_release(&e.options);
    return output_finish(code);
}
