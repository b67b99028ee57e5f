/* eitp eval: the loss and the metrics of a model on data. */
#include "data/labelled.h"
#include "files.h"
#include "model/model.h"
#include "output.h"
#include "process.h"
#include "use/eval.h"
#include "use/split.h"

/* A classifier is evaluated by labels, other models by hidden tokens or the next one. */
static const evaluating_kind *kind_of(const evaluating *e) {
    const eitp_transformer_config config = eitp_model_config(e->trained.model);
    if (eitp_head_has_labels(config.head))
        return &evaluating_labels;
    return config.bidirectional && config.head == EITP_HEAD_LANGUAGE ? &evaluating_masked : &evaluating_language;
}

static void close_data(evaluating *e) {
    eitp_labelled_part_destroy(e->part);
    e->part = NULL;
    data_close(&e->data);
}

void evaluating_set_max_length(evaluating *e) {
    const eitp_transformer_config shape = eitp_model_config(e->trained.model);
    const int is_of_run = files_is_file(trained_model_checkpoint(&e->trained), "trainer_state.json");
    if (!is_of_run || options_has(&e->options, OPTION_BLOCK_SIZE))
        e->block_size = labelled_max_length(&e->options, e->trained.tokenizer, &shape);
}

eitp_status evaluating_use_packed(evaluating *e, packed_test has_data, eitp_error *error) {
    return split_use_packed(&e->options, e->of_run, trained_model_checkpoint(&e->trained), e->trained.tokenizer,
                            has_data, &e->data, error);
}

/* The data, which the checkpoint may name. */
static eitp_status read_data(void *user, eitp_error *error) {
    evaluating *e = (evaluating *)user;
    const char *checkpoint = trained_model_checkpoint(&e->trained);
    const evaluating_kind *kind = kind_of(e);
    eitp_status status = kind == &evaluating_language ? trained_model_check_language(&e->trained, error) : EITP_OK;
    if (status)
        return status;
    close_data(e);
    e->block_size = model_block_size(&e->options, checkpoint, eitp_model_positions(e->trained.model));
    split_copy_columns(&e->options, checkpoint);
    status = split_find_data(&e->options, checkpoint, &e->of_run, error);
    output_progress("reading the data ...");
    return status ? status : kind->open(e, error);
}

static eitp_status open_model(evaluating *e, eitp_error *error) {
    const option_set *o = &e->options;
    int is_token_file;
    eitp_status status = options_require(o, OPTION_MODEL, error);
    if (status)
        return status;
    if (!options_has(o, OPTION_DATA) && !options_has(o, OPTION_SPLIT))
        return command_fail(error, EITP_ERROR_ARGUMENT,
                            "--data is required, or --split to evaluate the data of the model's run");
    status = data_is_token_file(o, OPTION_DATA, &is_token_file, error);
    return status ? status : trained_model_open(o, &e->trained, read_data, e, error);
}

/* --eval-windows or --eval-frac; 0: all. */
static int64_t samples_of(const option_set *o, const eitp_task *task) {
    const double windows = ceil(options_number(o, OPTION_EVAL_FRAC) * (double)task->samples[EITP_TRAINING]);
    return options_has(o, OPTION_EVAL_FRAC) ? (int64_t)windows : options_integer(o, OPTION_EVAL_WINDOWS);
}

static eitp_status evaluate(evaluating *e, eitp_error *error) {
    const option_set *o = &e->options;
    eitp_status status = kind_of(e)->create(e, error);
    output_progress("evaluating ...");
    if (!status)
        status = eitp_evaluate(&e->task, EITP_TRAINING, options_integer(o, OPTION_BATCH_SIZE), samples_of(o, &e->task),
                               &e->result, error);
    if (!status && !isfinite(e->result.loss))
        status = command_fail(error, EITP_ERROR_NOT_FINITE,
                              "the loss of '%s' on this data is not finite; evaluate an earlier checkpoint",
                              e->trained.directory);
    return status;
}

static void add_json(const evaluating *e, text_buffer *t) {
    text_format(t, "{");
    text_json_member_string(t, "model", e->trained.directory);
    if (e->trained.adapter)
        text_json_member_string(t, "adapter", e->trained.adapter);
    text_json_member_number(t, "loss", e->result.loss);
    text_json_member_number(t, "loss_error", e->result.error);
    kind_of(e)->add_json(e, t);
    text_json_member_integer(t, "block_size", e->block_size);
    text_format(t, "}\n");
}

static void print_result(const evaluating *e) {
    text_buffer t = {NULL, 0, 0};
    if (options_integer(&e->options, OPTION_JSON))
        add_json(e, &t);
    else
        kind_of(e)->add_text(e, &t);
    output_result(t.data, t.size);
    text_release(&t);
}

int command_eval(int count, char **arguments) {
    evaluating e;
    eitp_error error;
    int ended = 0, code = COMMAND_FINISHED;
    eitp_status status;
    memset(&e, 0, sizeof e);
    e.of_run = OPTION_COUNT;
    process_end_on_signals();
    status = options_read(&e.options, "eval", OPTIONS_EVAL, count, arguments, &ended, &error);
    if (!status && !ended && options_integer(&e.options, OPTION_PRINT_CONFIG)) {
        options_print(&e.options, (int)options_integer(&e.options, OPTION_JSON));
        ended = 1;
    }
    if (!status && !ended) {
        status = open_model(&e, &error);
        if (!status)
            status = evaluate(&e, &error);
        if (!status) {
            output_start();
            print_result(&e);
        }
    }
    if (status)
        code = output_fail(&error);
    eitp_task_release(&e.task);
    close_data(&e);
    trained_model_close(&e.trained);
    options_release(&e.options);
    return code;
}
