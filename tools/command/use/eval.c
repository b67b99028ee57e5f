/* eitp eval: computes the loss and metrics of a model on data. */
#include "data/data.h"
#include "data/opening.h"
#include "data/temporary.h"
#include "files.h"
#include "options/profile.h"
#include "output.h"
#include "process.h"
#include "use/emergence.h"
#include "use/eval_result.h"
#include "use/split.h"

typedef struct evaluating {
    option_set options, run; /* of the command, and of the model's run */
    trained_model trained;
    temporary_file packed; /* for packed data */
    opening opening;
    eitp_evaluation result;
} evaluating;

/* ---- Opening ---- */

static eitp_status check_options(const option_set *o, int *is_token_file, eitp_error *error) {
    eitp_status status = options_require(o, OPTION_MODEL, error);
    if (!status)
        status = emergence_check(o, error);
    if (status)
        return status;
    if (!options_has(o, OPTION_DATA) && !options_has(o, OPTION_SPLIT))
        return command_fail(error, EITP_ERROR_ARGUMENT,
                            "--data is required, or --split to evaluate the data of the model's run");
    return data_is_token_file(o, OPTION_DATA, is_token_file, error);
}

/* Packs the data into an unnamed file. */
static eitp_status add_packed(evaluating *e, eitp_recipe *recipe, eitp_error *error) {
    const eitp_status status = temporary_create(&e->packed, error);
    if (status)
        return status;
    recipe->data.packed = e->packed.path;
    recipe->context.host = temporary_host(&e->packed);
    return EITP_OK;
}

/* Reports that rows will be cut to the model's positions. */
static void report_length(evaluating *e) {
    const int64_t positions = eitp_transformer_config_positions(eitp_training_get_shape(e->trained.training));
    if (eitp_training_get_data(e->trained.training, EITP_TRAINING).is_labelled &&
        options_has(&e->options, OPTION_BLOCK_SIZE))
        profile_lower_block_size(&e->options, positions);
}

static void warn_trained(const evaluating *e) {
    const double trained = eitp_training_get_data(e->trained.training, EITP_TRAINING).trained;
    const char *checkpoint = trained_model_checkpoint(&e->trained);
    if (options_has(&e->options, OPTION_SPLIT) || !(trained > 0))
        return;
    if (trained < 1)
        output_warning("'%s' was trained on %.0f %% of this data; --split validation evaluates only held-out data",
                       checkpoint, 100 * trained);
    else
        output_warning("'%s' was trained on this data; evaluate on other data to measure what it learned", checkpoint);
}

static eitp_status evaluating_open(evaluating *e, eitp_error *error) {
    option_set *o = &e->options;
    eitp_recipe recipe;
    const char *found;
    int is_token_file = 0;
    eitp_status status = check_options(o, &is_token_file, error);
    if (!status)
        status = trained_model_describe(o, &e->trained, &recipe, error);
    found = e->trained.found_adapter ? e->trained.found_adapter : e->trained.found_model;
    if (!status)
        status = split_add_data(o, found, &e->run, &recipe, error);
    if (!status && !is_token_file)
        status = add_packed(e, &recipe, error);
    if (status)
        return status;
    recipe.data.input = files_input();
    recipe.progress = opening_show;
    recipe.progress_user = &e->opening;
    status = trained_model_open(&e->trained, &recipe, split_samples(o), error);
    if (status)
        return status;
    report_length(e);
    status = trained_model_load(&e->trained, error);
    if (!status)
        warn_trained(e);
    return status;
}

/* ---- Evaluating ---- */

/* Returns the number of samples from --eval-windows or --eval-frac; 0: all. */
static int64_t count_samples(const option_set *o, const eitp_task *task) {
    const double windows = ceil(options_number(o, OPTION_EVAL_FRAC) * (double)task->samples[EITP_TRAINING]);
    return options_has(o, OPTION_EVAL_FRAC) ? (int64_t)windows : options_integer(o, OPTION_EVAL_WINDOWS);
}

static void print_result(const evaluating *e) {
    text_buffer t = {NULL, 0, 0};
    eval_result_add(&e->trained, &e->result, (int)options_integer(&e->options, OPTION_JSON), &t);
    output_result(t.data, t.size);
    text_release(&t);
}

static eitp_status evaluate(evaluating *e, eitp_error *error) {
    const option_set *o = &e->options;
    const eitp_task *task = eitp_training_get_task(e->trained.training);
    eitp_status status;
    output_progress("evaluating ...");
    status = eitp_evaluate(task, EITP_TRAINING, options_integer(o, OPTION_BATCH_SIZE), count_samples(o, task),
                           &e->result, error);
    if (!status && !isfinite(e->result.loss))
        status = command_fail(error, EITP_ERROR_NOT_FINITE,
                              "the loss of '%s' on this data is not finite; evaluate an earlier checkpoint",
                              e->trained.directory);
    if (status)
        return status;
    output_start();
    print_result(e);
    return EITP_OK;
}

static eitp_status measure_emergence(evaluating *e, eitp_error *error) {
    const int64_t samples = count_samples(&e->options, eitp_training_get_task(e->trained.training));
    output_progress("measuring ...");
    return emergence_print(&e->trained, &e->options, samples, error);
}

/* ---- The command ---- */

static void evaluating_close(evaluating *e) {
    trained_model_close(&e->trained);
    temporary_release(&e->packed);
    options_release(&e->run);
    options_release(&e->options);
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
        if (!status && options_integer(&e.options, OPTION_EMERGENCE))
            status = measure_emergence(&e, &error);
        else if (!status)
            status = evaluate(&e, &error);
    }
    if (status)
        code = output_fail(&error);
    evaluating_close(&e);
    return code;
}
