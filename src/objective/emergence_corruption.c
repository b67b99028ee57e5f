/* Robustness to wrong tokens in the text: changes of the predictions where the text is correct. */
#include "objective/emergence_state.h"

static const double eitp__corruption_rates[] = {0.05, 0.1, 0.2};

enum { EITP__CORRUPTIONS = 3 };

typedef struct eitp__corrupting {
    eitp__head_pass compare;
    float *corrupt;             /* [rows, width] */
    eitp__prediction *compared; /* [rows] */
    eitp__sampled loss[EITP__CORRUPTIONS], divergence[EITP__CORRUPTIONS];
} eitp__corrupting;

/* Copies the tokens of the sample to e->tokens and replaces some of them. */
static void eitp__corrupt(eitp__emergence *e, int64_t probe, int rate, int64_t count) {
    const int32_t *tokens = eitp__emergence_sample_tokens(e);
    const uint64_t stream = ((uint64_t)probe << 8) | (uint64_t)rate;
    for (int64_t i = 0; i < count; i++) {
        const double drawn = eitp__emergence_uniform(e, EITP__DRAW_CORRUPTION, stream, (uint64_t)i);
        e->tokens[i] = drawn < eitp__corruption_rates[rate]
                           ? eitp__emergence_token(e, EITP__DRAW_REPLACEMENT, stream, (uint64_t)i, tokens[i], -1)
                           : tokens[i];
    }
}

/* Measures the probe that was read and predicted, at one rate: rows whose token and target are unchanged. */
static eitp_status eitp__measure_corruption(eitp__emergence *e, eitp__corrupting *c, int64_t probe, int rate,
                                            int64_t count, eitp_error *error) {
    const int32_t *tokens = eitp__emergence_sample_tokens(e);
    double loss = 0, divergence = 0, clean = 0;
    eitp_status status;
    eitp__corrupt(e, probe, rate, count);
    status = eitp__hidden_pass_execute(&e->hidden_pass, e->tokens, NULL, count, error);
    if (!status)
        status =
            eitp__hidden_pass_read(&e->hidden_pass, e->hidden_pass.final_state, count, e->width, c->corrupt, error);
    if (!status)
        status = eitp__head_pass_execute(&c->compare, e->hidden, c->corrupt, e->targets, count, c->compared, error);
    if (status)
        return status;
    for (int64_t i = 0; i < count; i++) {
        if (e->tokens[i] != tokens[i] || (i + 1 < count && e->tokens[i + 1] != tokens[i + 1]))
            continue;
        loss += (double)c->compared[i].loss - (double)e->predictions[i].loss;
        divergence += (double)c->compared[i].divergence;
        clean++;
    }
    eitp__sampled_add(&c->loss[rate], loss, clean);
    eitp__sampled_add(&c->divergence[rate], divergence, clean);
    return EITP_OK;
}

static eitp_status eitp__report_corruption(const eitp__emergence *e, const eitp__corrupting *c, eitp_error *error) {
    static const char reason[] = "no position is unchanged, or the model's predictions are not finite";
    char name[EITP_EMERGENCE_NAME_SIZE];
    eitp_status status = EITP_OK;
    for (int rate = 0; rate < EITP__CORRUPTIONS && !status; rate++) {
        const int percent = (int)(100 * eitp__corruption_rates[rate] + 0.5);
        snprintf(name, sizeof name, "corruption_loss_%d", percent);
        status = eitp__report_sampled(e->report, "robustness", name, &c->loss[rate], reason, error);
        snprintf(name, sizeof name, "corruption_kl_%d", percent);
        if (!status)
            status = eitp__report_sampled(e->report, "robustness", name, &c->divergence[rate], reason, error);
    }
    return status;
}

EITP__PRIVATE eitp_status eitp__emergence_corruption(eitp__emergence *e, eitp_error *error) {
    const size_t rows = (size_t)e->rows, bytes = rows * (size_t)e->width * sizeof(float);
    eitp__corrupting c = EITP__ZERO;
    eitp_status status = EITP_OK;
    if (!e->probes || e->vocabulary < 2)
        return eitp__report_omission(e->report, "corruption",
                                     e->probes ? "the vocabulary has a single token" : "no probes were requested",
                                     error);
    c.corrupt = (float *)eitp__allocate(&e->host, bytes);
    c.compared = (eitp__prediction *)eitp__allocate(&e->host, rows * sizeof *c.compared);
    if (!c.corrupt || !c.compared)
        status = eitp__fail_memory(error, bytes, "the hidden states of corrupted text");
    if (!status)
        status = eitp__head_pass_create(&c.compare, e->model, e->rows, 1, error);
    for (int64_t probe = 0; probe < e->probes && !status; probe++) {
        int64_t count, predicted;
        status = eitp__emergence_read_probe(e, probe, &count, error);
        if (!status)
            status = eitp__emergence_predict(e, count, &predicted, error);
        for (int rate = 0; rate < EITP__CORRUPTIONS && !status; rate++)
            status = eitp__measure_corruption(e, &c, probe, rate, count, error);
    }
    if (!status)
        status = eitp__report_corruption(e, &c, error);
    eitp__head_pass_release(&c.compare);
    eitp__release(&e->host, c.corrupt, bytes);
    eitp__release(&e->host, c.compared, rows * sizeof *c.compared);
    return status;
}
