#include "train/evaluate.h"

#include "base/random.h"

static eitp__layout eitp__evaluator_layout(const eitp_task *task, int64_t samples) {
    eitp__layout layout = eitp__layout_plain(samples, task->rows);
    layout.rows_vary = task->rows_vary;
    return layout;
}

static size_t eitp__evaluator_value_bytes(const eitp__evaluator *evaluator) {
    return (size_t)eitp__batch_value_count(&evaluator->pass) * sizeof *evaluator->values;
}

EITP__PRIVATE eitp_status eitp__evaluator_create(const eitp_task *task, int64_t samples, eitp__evaluator *evaluator,
                                                 eitp_error *error) {
    const eitp__layout layout = eitp__evaluator_layout(task, samples);
    const eitp_host host = eitp_context_host(task->context);
    eitp_status status;
    memset(evaluator, 0, sizeof *evaluator);
    status = eitp__pass_build(&evaluator->pass, task, &layout, 0, samples * task->rows, error);
    if (!status)
        status = eitp_plan_create(evaluator->pass.graph, &evaluator->plan, error);
    if (!status)
        status = eitp__batch_create(&host, &evaluator->pass, &evaluator->batch, error);
    if (status)
        return status;
    evaluator->losses = (double *)eitp__allocate(&host, (size_t)samples * sizeof *evaluator->losses);
    evaluator->values = (float *)eitp__allocate(&host, eitp__evaluator_value_bytes(evaluator));
    return evaluator->losses && evaluator->values
               ? EITP_OK
               : eitp__fail_memory(error, eitp__evaluator_value_bytes(evaluator), "an evaluation");
}

EITP__PRIVATE eitp_status eitp__evaluator_estimate(const eitp_task *task, int64_t samples, size_t *bytes,
                                                   eitp_error *error) {
    const eitp__layout layout = eitp__evaluator_layout(task, samples);
    eitp_pass pass;
    eitp_plan_stats stats = EITP__ZERO;
    eitp_status status = eitp__pass_build(&pass, task, &layout, 0, samples * task->rows, error);
    if (!status)
        status = eitp_plan_estimate(pass.graph, NULL, &stats, error);
    eitp__pass_release(&pass);
    *bytes = stats.arena_bytes + stats.workspace_bytes;
    return status;
}

EITP__PRIVATE void eitp__evaluator_release(eitp__evaluator *evaluator) {
    const eitp_host host = evaluator->batch.host;
    if (evaluator->losses)
        eitp__release(&host, evaluator->losses, (size_t)evaluator->pass.layout.samples * sizeof *evaluator->losses);
    if (evaluator->values)
        eitp__release(&host, evaluator->values, eitp__evaluator_value_bytes(evaluator));
    eitp__batch_release(&evaluator->batch);
    eitp_plan_destroy(evaluator->plan);
    eitp__pass_release(&evaluator->pass);
    memset(evaluator, 0, sizeof *evaluator);
}

/* ---- Means over samples ---- */

/* Of one quantity: a mean over items, and the spread of the samples' own means, which are independent where the items
   of one sample are not (Welford, "Note on a method for calculating corrected sums of squares and products", 1962). */
typedef struct eitp__reduction {
    double sum;
    int64_t items;
    int64_t samples;
    double mean, squares;
} eitp__reduction;

static void eitp__reduction_add_sample(eitp__reduction *reduction, double value) {
    const double difference = value - reduction->mean;
    reduction->samples++;
    reduction->mean += difference / (double)reduction->samples;
    reduction->squares += difference * (value - reduction->mean);
}

static double eitp__reduction_mean(const eitp__reduction *reduction) {
    return reduction->items ? reduction->sum / (double)reduction->items : 0;
}

static double eitp__reduction_error(const eitp__reduction *reduction) {
    const double samples = (double)reduction->samples;
    return reduction->samples > 1 ? sqrt(reduction->squares / (samples - 1) / samples) : 0;
}

/* All quantities, and the loss, which is the weighted sum of terms. */
typedef struct eitp__reductions {
    eitp__reduction of[EITP_PASS_QUANTITIES], loss;
} eitp__reductions;

static eitp_status eitp__reduce_batch(eitp__evaluator *evaluator, int64_t step, eitp__reductions *reductions,
                                      eitp_error *error) {
    const eitp__batch *batch = &evaluator->batch;
    double *losses = evaluator->losses;
    eitp_status status = EITP_OK;
    for (int q = 0; q < evaluator->pass.quantity_count && !status; q++) {
        const eitp__quantity *quantity = &evaluator->pass.quantities[q];
        eitp__reduction *reduction = &reductions->of[q];
        const double weight = quantity->is_term ? eitp__term_weight(quantity, step) : 0;
        status = eitp__batch_read_values(batch, evaluator->plan, quantity, evaluator->values, error);
        for (int64_t s = 0; s < batch->count && !status; s++) {
            const int64_t items = batch->items[s].of[q];
            double sum = 0;
            eitp__batch_add_values(batch, quantity, evaluator->values, s, &reduction->sum);
            eitp__batch_add_values(batch, quantity, evaluator->values, s, &sum);
            reduction->items += items;
            if (quantity->kind != EITP__TOTAL && items)
                eitp__reduction_add_sample(reduction, sum / (double)items);
            losses[s] = (q ? losses[s] : 0) + (items ? weight * (sum / (double)items) : 0);
        }
    }
    for (int64_t s = 0; s < batch->count && !status; s++)
        eitp__reduction_add_sample(&reductions->loss, losses[s]);
    return status;
}

static void eitp__report_evaluation(const eitp_pass *pass, const eitp__reductions *reductions, int64_t step,
                                    eitp_evaluation *evaluation) {
    int has_total = 0; /* a term that belongs to no sample, so that samples have no losses to compare */
    memset(evaluation, 0, sizeof *evaluation);
    for (int q = 0; q < pass->quantity_count; q++) {
        const eitp__quantity *quantity = &pass->quantities[q];
        eitp_measure *measure = &evaluation->measures[evaluation->measure_count++];
        snprintf(measure->name, sizeof measure->name, "%s", quantity->name);
        measure->mean = eitp__reduction_mean(&reductions->of[q]);
        measure->error = eitp__reduction_error(&reductions->of[q]);
        measure->items = reductions->of[q].items;
        evaluation->term_count += quantity->is_term;
        has_total |= quantity->is_term && quantity->kind == EITP__TOTAL;
        if (quantity->is_term)
            evaluation->loss += eitp__term_weight(quantity, step) * measure->mean;
    }
    evaluation->error = has_total ? 0 : eitp__reduction_error(&reductions->loss);
    evaluation->items = evaluation->measures[0].items;
}

/* ---- Which samples ---- */

/* The first sample of a stretch: `count` stretches divide `total` samples, the longer ones first. */
static uint64_t eitp__stretch_start(uint64_t stretch, uint64_t count, uint64_t total) {
    const uint64_t longer = total % count;
    return stretch * (total / count) + (stretch < longer ? stretch : longer);
}

/* One sample of each stretch, so that the part represents all of the split; all samples where `count` is `total`. */
static uint64_t eitp__draw_sample(uint64_t number, uint64_t count, uint64_t total, uint64_t seed) {
    const uint64_t first = eitp__stretch_start(number, count, total);
    const uint64_t length = eitp__stretch_start(number + 1, count, total) - first;
    return first + eitp__random_bits(seed, 0, EITP__RNG_STREAM_EVALUATE, number) % length;
}

EITP__PRIVATE eitp_status eitp__evaluator_run(eitp__evaluator *evaluator, eitp_split split, int64_t samples,
                                              uint64_t seed, int64_t step, eitp_evaluation *evaluation,
                                              eitp_error *error) {
    const uint64_t total = evaluator->pass.task->samples[split];
    const uint64_t count = samples > 0 && (uint64_t)samples < total ? (uint64_t)samples : total;
    eitp__batch *batch = &evaluator->batch;
    eitp__reductions reductions = EITP__ZERO;
    eitp_status status = EITP_OK;
    uint64_t done = 0;
    while (done < count && !status) {
        const uint64_t left = count - done, most = (uint64_t)evaluator->pass.layout.samples;
        const uint64_t end = done + (left < most ? left : most);
        eitp__batch_clear(batch);
        for (; done < end && !status; done++)
            status = eitp__batch_add(batch, split, eitp__draw_sample(done, count, total, seed), error);
        if (!status)
            status = eitp__batch_write(batch, evaluator->plan, error);
        if (!status)
            status = eitp_plan_execute(evaluator->plan, error);
        if (!status)
            status = eitp__reduce_batch(evaluator, step, &reductions, error);
    }
    if (!status)
        eitp__report_evaluation(&evaluator->pass, &reductions, step, evaluation);
    return status;
}

eitp_status eitp_evaluate(const eitp_task *task, eitp_split split, int64_t batch_size, int64_t samples,
                          eitp_evaluation *evaluation, eitp_error *error) {
    eitp__evaluator evaluator;
    eitp_status status;
    if (!task || !evaluation)
        return eitp__fail_null(error, "eitp_evaluate", "task and evaluation");
    status = eitp__task_check(task, error);
    if (!status && (batch_size < 1 || batch_size > EITP__MAX_BATCH))
        status = eitp__fail(error, EITP_ERROR_ARGUMENT, "batch_size must be 1 to %d (got %lld)", EITP__MAX_BATCH,
                            (long long)batch_size);
    if (!status && ((unsigned)split > EITP_VALIDATION || !task->samples[split]))
        status = eitp__fail(error, EITP_ERROR_ARGUMENT, "the task has no samples to evaluate");
    if (status)
        return status;
    status = eitp__evaluator_create(task, batch_size, &evaluator, error);
    if (!status)
        status = eitp__evaluator_run(&evaluator, split, samples, 0, 1, evaluation, error);
    eitp__evaluator_release(&evaluator);
    return status;
}
