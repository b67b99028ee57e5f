#include "train/evaluator.h"

#include "base/random.h"
#include "tensor/context.h"

static eitp__layout eitp__evaluator_layout(const eitp_task *task, int64_t samples) {
    eitp__layout layout = eitp__layout_plain(samples, task->rows);
    layout.rows_vary = task->rows_vary;
    return layout;
}

static size_t eitp__evaluator_value_bytes(const eitp__evaluator *evaluator) {
    return (size_t)eitp__batch_value_count(&evaluator->pass) * sizeof *evaluator->values;
}

static size_t eitp__evaluator_output_bytes(const eitp__evaluator *evaluator, int output) {
    return (size_t)eitp__batch_output_count(&evaluator->pass, &evaluator->pass.outputs[output]) * sizeof(float);
}

/* Allocates the outputs that the task observes, and the memory for its outcomes. */
static eitp_status eitp__evaluator_create_observations(const eitp_host *host, const eitp_task *task, uint64_t most,
                                                       eitp__evaluator *evaluator, eitp_error *error) {
    if (!task->metric_count)
        return EITP_OK;
    for (int i = 0; i < evaluator->pass.output_count; i++) {
        const size_t bytes = eitp__evaluator_output_bytes(evaluator, i);
        evaluator->outputs[i] = (float *)eitp__allocate(host, bytes);
        if (!evaluator->outputs[i])
            return eitp__fail_memory(error, bytes, "the outputs of an evaluation");
    }
    evaluator->memory_bytes = task->observation_bytes(task->user, most);
    evaluator->memory = eitp__allocate(host, evaluator->memory_bytes);
    return evaluator->memory || !evaluator->memory_bytes
               ? EITP_OK
               : eitp__fail_memory(error, evaluator->memory_bytes, "the outcomes of an evaluation");
}

/* Checks that the names of a task's metrics differ from the names in its build. */
static eitp_status eitp__check_metric_names(const eitp_pass *pass, eitp_error *error) {
    const eitp_task *task = pass->task;
    for (int m = 0; m < task->metric_count; m++) {
        const char *name = task->metrics[m].name;
        int is_taken = !name || !*name || strlen(name) >= EITP_SCALAR_NAME_SIZE || !strcmp(name, "loss");
        for (int q = 0; q < pass->scalar_count && !is_taken; q++)
            is_taken = !strcmp(name, pass->scalars[q].name);
        for (int other = 0; other < m && !is_taken; other++)
            is_taken = !strcmp(name, task->metrics[other].name);
        if (is_taken)
            return eitp__fail(error, EITP_ERROR_ARGUMENT,
                              "'%.60s': the name of a metric must have 1 to %d characters and differ from 'loss' and "
                              "from other loss terms and metrics",
                              name ? name : "", EITP_SCALAR_NAME_SIZE - 1);
    }
    return EITP_OK;
}

EITP__PRIVATE eitp_status eitp__evaluator_create(const eitp_task *task, int64_t samples, uint64_t most,
                                                 eitp__evaluator *evaluator, eitp_error *error) {
    const eitp__layout layout = eitp__evaluator_layout(task, samples);
    const eitp_host host = eitp_context_host(task->context);
    eitp_status status;
    memset(evaluator, 0, sizeof *evaluator);
    evaluator->host = host;
    status = eitp__pass_build(&evaluator->pass, task, &layout, 0, 0, samples * task->rows, 0, error);
    if (!status)
        status = eitp__check_metric_names(&evaluator->pass, error);
    if (!status)
        status = eitp_plan_create(evaluator->pass.graph, &evaluator->plan, error);
    if (!status)
        status = eitp__batch_create(&evaluator->pass, &evaluator->batch, error);
    if (!status)
        status = eitp__evaluator_create_observations(&host, task, most, evaluator, error);
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
    eitp_status status = eitp__pass_build(&pass, task, &layout, 0, 0, samples * task->rows, 0, error);
    if (!status)
        status = eitp_plan_estimate(pass.graph, NULL, &stats, error);
    eitp__pass_release(&pass);
    *bytes = stats.arena_bytes + stats.workspace_bytes;
    return status;
}

EITP__PRIVATE void eitp__evaluator_release(eitp__evaluator *evaluator) {
    const eitp_host host = evaluator->host;
    if (evaluator->losses)
        eitp__release(&host, evaluator->losses, (size_t)evaluator->pass.layout.samples * sizeof *evaluator->losses);
    if (evaluator->values)
        eitp__release(&host, evaluator->values, eitp__evaluator_value_bytes(evaluator));
    for (int i = 0; i < evaluator->pass.output_count; i++) {
        if (evaluator->outputs[i])
            eitp__release(&host, evaluator->outputs[i], eitp__evaluator_output_bytes(evaluator, i));
    }
    if (evaluator->memory)
        eitp__release(&host, evaluator->memory, evaluator->memory_bytes);
    eitp__batch_release(&evaluator->batch);
    eitp_plan_destroy(evaluator->plan);
    eitp__pass_release(&evaluator->pass);
    memset(evaluator, 0, sizeof *evaluator);
}

/* ---- Means over samples ---- */

/* The mean of a scalar over items, and the variance of the samples' means: samples are independent, the items of a
   sample are not (Welford, "Note on a method for calculating corrected sums of squares and products", 1962). */
typedef struct eitp__reduction {
    double sum, weight; /* sum of the values, and of the items' weights in a weighted mean */
    int64_t items;
    int64_t samples;
    double mean, squares; /* mean of the samples' means, and sum of their squared deviations from it */
} eitp__reduction;

static void eitp__reduction_add_sample(eitp__reduction *reduction, double value) {
    const double difference = value - reduction->mean;
    reduction->samples++;
    reduction->mean += difference / (double)reduction->samples;
    reduction->squares += difference * (value - reduction->mean);
}

static double eitp__reduction_mean(const eitp__reduction *reduction) {
    return reduction->weight > 0 ? reduction->sum / reduction->weight : 0;
}

static double eitp__reduction_error(const eitp__reduction *reduction) {
    const double samples = (double)reduction->samples;
    return reduction->samples > 1 ? sqrt(reduction->squares / (samples - 1) / samples) : 0;
}

/* Reductions of each scalar, and of the loss, which is the weighted sum of the terms. */
typedef struct eitp__reductions {
    eitp__reduction of[EITP_MAX_STEP_SCALARS], loss;
} eitp__reductions;

static eitp_status eitp__reduce_batch(eitp__evaluator *evaluator, int64_t step, eitp__reductions *reductions,
                                      eitp_error *error) {
    const eitp__batch *batch = &evaluator->batch;
    double *losses = evaluator->losses;
    eitp_status status = EITP_OK;
    for (int q = 0; q < evaluator->pass.scalar_count && !status; q++) {
        const eitp__scalar *scalar = &evaluator->pass.scalars[q];
        eitp__reduction *reduction = &reductions->of[q];
        const double weight = scalar->is_term ? eitp__term_weight(scalar, step) : 0;
        status = eitp__batch_read_values(batch, evaluator->plan, scalar, evaluator->values, error);
        for (int64_t s = 0; s < batch->count && !status; s++) {
            double sum = 0, divisor;
            const int64_t items = eitp__batch_items_of(batch, q, s, &divisor);
            eitp__batch_add_values(batch, scalar, evaluator->values, s, &reduction->sum);
            eitp__batch_add_values(batch, scalar, evaluator->values, s, &sum);
            reduction->items += items;
            reduction->weight += divisor;
            if (scalar->kind != EITP__TOTAL && divisor > 0)
                eitp__reduction_add_sample(reduction, sum / divisor);
            losses[s] = (q ? losses[s] : 0) + (divisor > 0 ? weight * (sum / divisor) : 0);
        }
    }
    for (int64_t s = 0; s < batch->count && !status; s++)
        eitp__reduction_add_sample(&reductions->loss, losses[s]);
    return status;
}

/* Passes the samples of the batch to the task's `observe`. The first is sample `index` of the evaluation. */
static eitp_status eitp__observe_batch(eitp__evaluator *evaluator, uint64_t index, uint64_t samples,
                                       eitp_error *error) {
    const eitp_pass *pass = &evaluator->pass;
    const eitp__batch *batch = &evaluator->batch;
    const void *values[EITP_MAX_PASS_INPUTS];
    const float *outputs[EITP_MAX_PASS_OUTPUTS];
    eitp_observation observation;
    eitp_status status = EITP_OK;
    for (int i = 0; i < pass->output_count && pass->task->metric_count && !status; i++)
        status = eitp__batch_read_output(batch, evaluator->plan, &pass->outputs[i], evaluator->outputs[i], error);
    observation.values = values;
    observation.outputs = outputs;
    observation.samples = samples;
    for (int64_t s = 0; s < batch->count && pass->task->metric_count && !status; s++) {
        for (int i = 0; i < pass->input_count; i++)
            values[i] = eitp__batch_input_of(batch, i, s);
        for (int i = 0; i < pass->output_count; i++)
            outputs[i] = eitp__batch_output_of(batch, &pass->outputs[i], evaluator->outputs[i], s);
        observation.number = batch->numbers[s];
        observation.rows = batch->lengths[s];
        observation.index = index + (uint64_t)s;
        pass->task->observe(pass->task->user, evaluator->memory, &observation);
    }
    return status;
}

/* Adds the metrics of the whole evaluation. */
static void eitp__report_task_metrics(const eitp__evaluator *evaluator, uint64_t samples, eitp_evaluation *evaluation) {
    const eitp_task *task = evaluator->pass.task;
    eitp_metric *results = &evaluation->metrics[evaluation->metric_count];
    for (int m = 0; m < task->metric_count; m++) {
        snprintf(results[m].name, sizeof results[m].name, "%s", task->metrics[m].name);
        results[m].items = (int64_t)samples;
    }
    if (task->metric_count)
        task->compute_metrics(task->user, evaluator->memory, results);
    evaluation->metric_count += task->metric_count;
}

static void eitp__report_evaluation(const eitp_pass *pass, const eitp__reductions *reductions, int64_t step,
                                    eitp_evaluation *evaluation) {
    int has_total = 0; /* a term has no value per sample, so samples have no loss */
    memset(evaluation, 0, sizeof *evaluation);
    for (int q = 0; q < pass->scalar_count; q++) {
        const eitp__scalar *scalar = &pass->scalars[q];
        eitp_metric *metric = &evaluation->metrics[evaluation->metric_count++];
        snprintf(metric->name, sizeof metric->name, "%s", scalar->name);
        metric->mean = eitp__reduction_mean(&reductions->of[q]);
        metric->error = eitp__reduction_error(&reductions->of[q]);
        metric->items = reductions->of[q].items;
        evaluation->term_count += scalar->is_term;
        has_total |= scalar->is_term && scalar->kind == EITP__TOTAL;
        if (scalar->is_term)
            evaluation->loss += eitp__term_weight(scalar, step) * metric->mean;
    }
    evaluation->error = has_total ? 0 : eitp__reduction_error(&reductions->loss);
    evaluation->items = evaluation->metrics[0].items;
}

/* ---- Choosing samples ---- */

/* Returns the first sample of a stratum. `count` strata divide `total` samples, the larger strata first. */
static uint64_t eitp__stratum_start(uint64_t stratum, uint64_t count, uint64_t total) {
    const uint64_t longer = total % count;
    return stratum * (total / count) + (stratum < longer ? stratum : longer);
}

/* Returns a random sample of a stratum, so that a part represents the whole split. With as many strata as samples, each
   sample is drawn. */
static uint64_t eitp__draw_sample(uint64_t stratum, uint64_t count, uint64_t total, uint64_t seed) {
    const uint64_t first = eitp__stratum_start(stratum, count, total);
    const uint64_t length = eitp__stratum_start(stratum + 1, count, total) - first;
    return first + eitp__random_bits(seed, 0, EITP__RNG_STREAM_EVALUATE, stratum) % length;
}

EITP__PRIVATE uint64_t eitp__evaluation_size(const eitp_task *task, eitp_split split, int64_t samples) {
    const uint64_t total = task->samples[split];
    return samples > 0 && (uint64_t)samples < total ? (uint64_t)samples : total;
}

EITP__PRIVATE eitp_status eitp__evaluator_run(eitp__evaluator *evaluator, eitp_split split, int64_t samples,
                                              uint64_t seed, int64_t step, eitp_evaluation *evaluation,
                                              eitp_error *error) {
    const uint64_t total = evaluator->pass.task->samples[split];
    const uint64_t count = eitp__evaluation_size(evaluator->pass.task, split, samples);
    eitp__batch *batch = &evaluator->batch;
    eitp__reductions reductions = EITP__ZERO;
    eitp_status status = EITP_OK;
    uint64_t done = 0;
    evaluator->count = count;
    while (done < count && !status) {
        evaluator->done = done;
        const uint64_t left = count - done, capacity = (uint64_t)evaluator->pass.layout.samples;
        const uint64_t end = done + (left < capacity ? left : capacity);
        eitp__batch_clear(batch);
        for (; done < end && !status; done++) {
            eitp__draw draw = EITP__ZERO;
            draw.split = split;
            draw.number = eitp__draw_sample(done, count, total, seed);
            status = eitp__context_poll(evaluator->pass.task->context, error);
            if (!status)
                status = eitp__batch_add(batch, &draw, error);
        }
        if (!status)
            status = eitp__batch_write(batch, evaluator->plan, error);
        if (!status)
            status = eitp_plan_execute(evaluator->plan, error);
        if (!status)
            status = eitp__reduce_batch(evaluator, step, &reductions, error);
        if (!status)
            status = eitp__observe_batch(evaluator, end - (uint64_t)batch->count, count, error);
    }
    evaluator->done = evaluator->count = 0;
    if (status)
        return status;
    eitp__report_evaluation(&evaluator->pass, &reductions, step, evaluation);
    eitp__report_task_metrics(evaluator, count, evaluation);
    return EITP_OK;
}
