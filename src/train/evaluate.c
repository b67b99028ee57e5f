#include "train/evaluate.h"

/* Everything but the plan; what was made is the caller's to release, of a failure too. */
static eitp_status eitp__evaluator_build(const eitp_model *model, int64_t sequences, int64_t longest,
                                         eitp__evaluator *evaluator, eitp_error *error) {
    eitp_graph *graph;
    int64_t rows = sequences * longest;
    eitp_status status;
    memset(evaluator, 0, sizeof *evaluator);
    evaluator->model = model;
    evaluator->layout = eitp__layout_plain(sequences, longest);
    status = eitp_graph_create(eitp_model_context(model), &evaluator->graph, error);
    if (status)
        return status;
    graph = evaluator->graph;
    evaluator->inputs = eitp__layout_inputs(&evaluator->layout, graph, 0);
    evaluator->targets = eitp_input_rows(graph, "targets", EITP_I32, 1, &rows);
    evaluator->losses = eitp_output(
        eitp_model_losses(model, graph, &evaluator->inputs, longest, evaluator->targets, EITP__IGNORED_TARGET));
    return eitp_graph_status(graph, error);
}

EITP__PRIVATE eitp_status eitp__evaluator_create(const eitp_model *model, int64_t sequences, int64_t longest,
                                                 eitp__evaluator *evaluator, eitp_error *error) {
    eitp_status status = eitp__evaluator_build(model, sequences, longest, evaluator, error);
    if (!status)
        status = eitp_plan_create(evaluator->graph, &evaluator->plan, error);
    if (status)
        eitp__evaluator_release(evaluator);
    return status;
}

EITP__PRIVATE eitp_status eitp__evaluator_estimate(const eitp_model *model, int64_t sequences, int64_t longest,
                                                   size_t *bytes, eitp_error *error) {
    eitp__evaluator evaluator;
    eitp_plan_stats stats = EITP__ZERO;
    eitp_status status = eitp__evaluator_build(model, sequences, longest, &evaluator, error);
    if (!status)
        status = eitp_plan_estimate(evaluator.graph, NULL, &stats, error);
    eitp__evaluator_release(&evaluator);
    *bytes = stats.arena_bytes + stats.workspace_bytes;
    return status;
}

EITP__PRIVATE void eitp__evaluator_release(eitp__evaluator *evaluator) {
    eitp_plan_destroy(evaluator->plan);
    eitp_graph_destroy(evaluator->graph);
    memset(evaluator, 0, sizeof *evaluator);
}

/* The mean loss of one sequence. */
static double eitp__sequence_loss(const eitp__batch *batch, int64_t sequence) {
    int64_t longest = batch->layout.longest, row = eitp__layout_row(&batch->layout, sequence);
    double sum = 0;
    for (int64_t i = 0; i < longest; i++)
        sum += (double)batch->losses[row + i];
    return sum / (double)longest;
}

EITP__PRIVATE eitp_status eitp__evaluator_run(eitp__evaluator *evaluator, eitp__batch *batch,
                                              const eitp_windows *windows, uint64_t count, eitp_evaluation *evaluation,
                                              eitp_error *error) {
    int64_t vocabulary = eitp_model_config(evaluator->model).vocabulary;
    double sum = 0, mean = 0, squares = 0;
    int64_t valid = 0;
    uint64_t done = 0;
    eitp_status status = EITP_OK;
    while (done < count && !status) {
        int64_t most = evaluator->layout.sequences;
        int64_t part = count - done < (uint64_t)most ? (int64_t)(count - done) : most;
        status = eitp__batch_read(batch, windows, done, part, vocabulary, error);
        if (!status)
            status = eitp__batch_write(batch, part, evaluator->plan, &evaluator->inputs, evaluator->targets, error);
        if (!status)
            status = eitp_plan_run(evaluator->plan, error);
        if (!status)
            status = eitp__batch_losses(batch, part, evaluator->plan, evaluator->losses, &sum, &valid, error);
        /* The spread over sequences (Welford): tokens of one sequence are not independent. */
        for (int64_t i = 0; i < part && !status; i++) {
            double loss = eitp__sequence_loss(batch, i), difference = loss - mean;
            done++;
            mean += difference / (double)done;
            squares += difference * (loss - mean);
        }
    }
    if (status)
        return status;
    evaluation->loss = valid ? sum / (double)valid : 0;
    evaluation->tokens = valid;
    evaluation->error = done > 1 ? sqrt(squares / (double)(done - 1) / (double)done) : 0;
    return EITP_OK;
}

eitp_status eitp_evaluate(const eitp_model *model, const eitp_token_file *file, eitp_token_range tokens,
                          int64_t batch_size, int64_t block_size, int64_t windows, eitp_evaluation *evaluation,
                          eitp_error *error) {
    if (!model || !file || !evaluation)
        return eitp__fail_null(error, "eitp_evaluate", "model, file and evaluation");
    const eitp_host host = eitp_context_host(eitp_model_context(model));
    eitp__evaluator evaluator;
    eitp__batch batch;
    eitp_windows list;
    uint64_t count;
    eitp_status status;
    memset(&batch, 0, sizeof batch);
    memset(&evaluator, 0, sizeof evaluator);
    if (batch_size < 1 || block_size < 1 || block_size > eitp_model_config(model).positions)
        return eitp__fail(
            error, EITP_ERROR_ARGUMENT,
            "batch size %lld and block size %lld must be at least 1, and the block at most the model's %lld "
            "positions",
            (long long)batch_size, (long long)block_size, (long long)eitp_model_config(model).positions);
    status = eitp_windows_init(&list, file, tokens, block_size, EITP_SHUFFLE_NONE, 0, error);
    if (status)
        return status;
    count = windows > 0 && (uint64_t)windows < list.count ? (uint64_t)windows : list.count;
    status = eitp__evaluator_create(model, batch_size, block_size, &evaluator, error);
    if (!status)
        status = eitp__batch_create(&host, &evaluator.layout, &batch, error);
    if (!status)
        status = eitp__evaluator_run(&evaluator, &batch, &list, count, evaluation, error);
    if (batch.tokens)
        eitp__batch_release(&batch);
    eitp__evaluator_release(&evaluator);
    return status;
}
