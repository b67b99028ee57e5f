/* Robustness to noise in the weights. They are changed in place, and restored from a copy. */
#include "base/machine.h"
#include "base/random.h"
#include "objective/emergence_state.h"

/* Deviations of the noise, as fractions of the root mean square of a tensor. */
static const double eitp__noise_levels[] = {0.01, 0.05};

enum { EITP__NOISE_LEVELS = 2, EITP__NOISE_VALUES = 1024 };

/* The values of the parameters, and of their remainders, in the order of the variables. */
typedef struct eitp__weight_copy {
    unsigned char *bytes;
    size_t size;
} eitp__weight_copy;

static int eitp__is_weight(const eitp_variable *variable) {
    return variable->role == EITP_PARAMETER || variable->role == EITP_REMAINDER;
}

/* Reads the variables into the copy, or writes them from it. */
static eitp_status eitp__weights_transfer(const eitp__emergence *e, eitp__weight_copy *copy, int writes,
                                          eitp_error *error) {
    eitp_context *context = e->model->context;
    unsigned char *at = copy->bytes;
    eitp_status status = EITP_OK;
    for (size_t i = 0; i < eitp_variable_count(context) && !status; i++) {
        const eitp_variable variable = eitp_variable_at(context, i);
        if (!eitp__is_weight(&variable))
            continue;
        status = writes ? eitp_variable_write(context, variable.name, 0, at, variable.size, error)
                        : eitp_variable_read(context, variable.name, 0, at, variable.size, error);
        at += variable.size;
    }
    return status;
}

/* Stores the size of a copy, and the reason why noise is not measured, or NULL if it is. */
static eitp_status eitp__noise_obstacle(const eitp__emergence *e, size_t *size, const char **reason,
                                        eitp_error *error) {
    eitp_context *context = e->model->context;
    eitp_memory_info memory;
    const eitp_status status = eitp_memory_info_read(&e->host, &memory, error);
    *size = 0;
    *reason = e->probes ? NULL : "no probes were requested";
    if (!e->config->changes_weights)
        *reason = "changing the weights is not allowed";
    for (size_t i = 0; i < eitp_variable_count(context); i++) {
        const eitp_variable variable = eitp_variable_at(context, i);
        if (eitp__is_weight(&variable) && variable.borrowed)
            *reason = "the weights are shared with another context";
        *size += eitp__is_weight(&variable) ? variable.size : 0;
    }
    if (!status && !*reason && memory.usable && memory.left < *size + eitp__memory_floor(&memory))
        *reason = "there is not enough memory for a copy of the weights";
    return status;
}

/* Adds noise to `count` values of variable `index` from element `first` on. */
static void eitp__add_noise(const eitp__emergence *e, uint64_t index, double deviation, int64_t first, int64_t count,
                            float *values) {
    for (int64_t i = 0; i < count; i += 2) {
        double pair[2];
        eitp__random_normal(e->config->seed, ((uint64_t)EITP__DRAW_NOISE << 48) | index, EITP__RNG_STREAM_EMERGENCE,
                            (uint64_t)(first + i) / 2, pair);
        values[i] += (float)(deviation * pair[0]);
        if (i + 1 < count)
            values[i + 1] += (float)(deviation * pair[1]);
    }
}

static eitp_status eitp__perturb(const eitp__emergence *e, size_t index, double level, eitp_error *error) {
    eitp_context *context = e->model->context;
    const eitp_variable variable = eitp_variable_at(context, index);
    const int64_t elements = (int64_t)(variable.size / eitp_dtype_size(variable.dtype));
    const int64_t piece = EITP__NOISE_VALUES;
    float values[EITP__NOISE_VALUES];
    double squares = 0;
    eitp_status status = EITP_OK;
    for (int pass = 0; pass < 2; pass++) {
        const double deviation = level * sqrt(squares / (double)elements);
        for (int64_t first = 0; first < elements && !status; first += piece) {
            const int64_t left = elements - first, count = left < piece ? left : piece;
            status = eitp_variable_read_f32(context, variable.name, first, values, count, error);
            for (int64_t i = 0; i < count && !pass && !status; i++)
                squares += (double)values[i] * (double)values[i];
            if (!pass || status)
                continue;
            eitp__add_noise(e, (uint64_t)index, deviation, first, count, values);
            status = eitp_variable_write_f32(context, variable.name, first, values, count, error);
        }
    }
    return status;
}

/* Computes the loss of each probe; `weights` are their numbers of predictions. */
static eitp_status eitp__probe_losses(eitp__emergence *e, double *losses, double *weights, eitp_error *error) {
    eitp_status status = EITP_OK;
    for (int64_t probe = 0; probe < e->probes && !status; probe++) {
        int64_t count, predicted = 0;
        losses[probe] = 0;
        status = eitp__emergence_read_probe(e, probe, &count, error);
        if (!status)
            status = eitp__emergence_predict(e, count, &predicted, error);
        for (int64_t i = 0; i < predicted && !status; i++)
            losses[probe] += (double)e->predictions[i].loss;
        weights[probe] = (double)predicted;
    }
    return status;
}

static eitp_status eitp__measure_noise(eitp__emergence *e, eitp__weight_copy *copy, int level, double *losses,
                                       eitp_error *error) {
    double *clean = losses, *noisy = losses + e->probes, *weights = losses + 2 * e->probes;
    eitp__sampled change = EITP__ZERO;
    char name[EITP_EMERGENCE_NAME_SIZE];
    eitp_status status = EITP_OK, restored;
    eitp_error trouble = EITP__ZERO;
    for (size_t i = 0; i < eitp_variable_count(e->model->context) && !status; i++) {
        const eitp_role role = eitp_variable_at(e->model->context, i).role;
        status = eitp__context_poll(e->model->context, error);
        if (!status && role == EITP_PARAMETER)
            status = eitp__perturb(e, i, eitp__noise_levels[level], error);
    }
    if (!status)
        status = eitp__probe_losses(e, noisy, weights, error);
    restored = eitp__weights_transfer(e, copy, 1, status ? &trouble : error);
    if (restored && status && error)
        *error = trouble;
    if (restored)
        return eitp__fail_advice(error, restored, "the model's weights now contain noise; load them again");
    if (status)
        return status;
    for (int64_t probe = 0; probe < e->probes; probe++)
        eitp__sampled_add(&change, noisy[probe] - clean[probe], weights[probe]);
    snprintf(name, sizeof name, "noise_loss_%d", (int)(100 * eitp__noise_levels[level] + 0.5));
    return eitp__report_sampled(e->report, "robustness", name, &change, "the model's predictions are not finite",
                                error);
}

EITP__PRIVATE eitp_status eitp__emergence_noise(eitp__emergence *e, eitp_error *error) {
    eitp__weight_copy copy = EITP__ZERO;
    const size_t bytes = 3 * (size_t)e->probes * sizeof(double);
    const char *reason;
    eitp_status status = eitp__noise_obstacle(e, &copy.size, &reason, error);
    double *losses;
    if (status || reason)
        return status ? status : eitp__report_omission(e->report, "noise", reason, error);
    losses = (double *)eitp__allocate(&e->host, bytes);
    copy.bytes = (unsigned char *)eitp__allocate_uninitialized(&e->host, copy.size);
    if (!losses || !copy.bytes)
        status = eitp__fail_memory(error, copy.size, "a copy of the weights");
    if (!status)
        status = eitp__weights_transfer(e, &copy, 0, error);
    if (!status)
        status = eitp__probe_losses(e, losses, losses + 2 * e->probes, error);
    for (int level = 0; level < EITP__NOISE_LEVELS && !status; level++)
        status = eitp__measure_noise(e, &copy, level, losses, error);
    eitp__release(&e->host, losses, bytes);
    eitp__release(&e->host, copy.bytes, copy.size);
    return status;
}
