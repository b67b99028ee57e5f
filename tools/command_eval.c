/* eitp eval: the loss of a model on data. */
#include "command_adapt.h"
#include "command_data.h"
#include "command_model.h"
#include "command_output.h"
#include "command_process.h"
#include "command_split.h"

typedef struct evaluating {
    option_set options;
    char *directory, *base, *adapter;
    eitp_context *context;
    eitp_model *model;
    eitp_tokenizer *tokenizer;
    data_file data;
    eitp_token_range range;
    int64_t block_size;
    eitp_evaluation result;
} evaluating;

/* The directory of what was trained: the adapters', or the model's. */
static const char *evaluating_checkpoint(const evaluating *e) {
    return e->adapter ? e->adapter : e->directory;
}

static eitp_status evaluating_open_model(evaluating *e, eitp_error *error) {
    const option_set *o = &e->options;
    eitp_status status = model_find_directory(options_text(o, OPTION_MODEL), &e->directory, error);
    if (!status)
        status = model_load_tokenizer(options_text(o, OPTION_TOKENIZER), e->directory, &e->tokenizer, error);
    if (!status)
        status = model_create_context(o, &e->context, error);
    if (!status)
        status = adapt_open_model(o, e->directory, e->context, &e->model, &e->base, &e->adapter, error);
    return status;
}

static eitp_status evaluating_open_data(evaluating *e, eitp_error *error) {
    const option_set *o = &e->options;
    const int64_t vocabulary = eitp_model_vocabulary(e->model);
    int is_token_file = 0;
    eitp_status status = data_is_token_file(o, OPTION_DATA, &is_token_file, error);
    if (!status && !e->tokenizer && !is_token_file)
        status = model_use_bytes(&e->tokenizer, error);
    if (!status && e->tokenizer)
        status = model_check_tokenizer(e->tokenizer, NULL, vocabulary, error);
    if (!status)
        status = data_open(o, OPTION_DATA, e->tokenizer, vocabulary, NULL, &e->data, error);
    if (!status && e->tokenizer)
        status = model_check_tokenizer(e->tokenizer, e->data.file, vocabulary, error);
    return status ? status : split_find_range(o, evaluating_checkpoint(e), &e->data, &e->range, error);
}

static void evaluating_close(evaluating *e) {
    data_close(&e->data);
    eitp_model_destroy(e->model);
    eitp_tokenizer_destroy(e->tokenizer);
    eitp_context_destroy(e->context);
    free(e->directory);
    free(e->base);
    free(e->adapter);
    e->model = NULL;
    e->tokenizer = NULL;
    e->context = NULL;
    e->directory = e->base = e->adapter = NULL;
}

/* Everything that is read from the checkpoint, and the data. */
static eitp_status evaluating_open_once(evaluating *e, eitp_error *error) {
    eitp_status status;
    output_progress("loading the model ...");
    status = evaluating_open_model(e, error);
    if (!status) {
        e->block_size = model_block_size(&e->options, evaluating_checkpoint(e), eitp_model_positions(e->model));
        status = split_find_data(&e->options, evaluating_checkpoint(e), error);
    }
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
    /* A run that trains may remove the checkpoint meanwhile. */
    for (int attempts = 0; !status; evaluating_close(e)) {
        status = evaluating_open_once(e, error);
        if (!status || !(model_read_again(options_text(o, OPTION_MODEL), e->directory, &attempts, error) ||
                         model_read_again(options_text(o, OPTION_ADAPTER), e->adapter, &attempts, error)))
            break;
        status = EITP_OK;
    }
    return status ? error->status : EITP_OK;
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
    config.model = e->model;
    config.training = eitp_token_file_source(e->data.file, e->range);
    config.block_size = e->block_size;
    status = eitp_language_task(&config, &task, error);
    output_progress("evaluating ...");
    if (!status)
        status = eitp_evaluate(&task, EITP_TRAINING, options_integer(o, OPTION_BATCH_SIZE),
                               evaluating_windows(o, &task), &e->result, error);
    eitp_task_release(&task);
    if (!status && !isfinite(e->result.loss))
        status =
            command_fail(error, EITP_ERROR_NOT_FINITE,
                         "the loss of '%s' on this data is not finite; evaluate an earlier checkpoint", e->directory);
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
    text_json_member_string(t, "model", e->directory);
    if (e->adapter)
        text_json_member_string(t, "adapter", e->adapter);
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
    evaluating_close(&e);
    options_release(&e.options);
    return output_finish(code);
}
