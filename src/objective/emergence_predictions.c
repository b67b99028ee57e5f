/* Predictions of samples: loss, calibration, and gain from context; and the time and energy of computing them. */
#include "base/clock.h"
#include "base/system_use.h"
#include "objective/emergence_state.h"
#include "objective/judged.h"

typedef struct eitp__predicting {
    eitp__judged *judged; /* all predictions */
    int64_t count, room;
    int is_finite; /* all confidences are finite */
    eitp__sampled loss, right, entropy, bits, gain;
} eitp__predicting;

/* Adds the loss in bits per byte of the targets' text. */
static eitp_status eitp__add_bits(const eitp__emergence *e, eitp__predicting *p, int64_t count, double loss,
                                  eitp_error *error) {
    size_t bytes = 0;
    eitp_status status;
    if (!e->config->tokenizer || !e->is_causal)
        return EITP_OK;
    status = eitp_tokenizer_decode(e->config->tokenizer, e->targets, (size_t)count, NULL, 0, &bytes, error);
    if (!status && bytes)
        eitp__sampled_add(&p->bits, loss / log(2.0), (double)bytes);
    return status;
}

/* Adds the mean loss of the last quarter of a sequence minus the mean loss of the first quarter. */
static void eitp__add_gain(const eitp__emergence *e, eitp__predicting *p, int64_t count) {
    const int64_t quarter = count / 4;
    double gain = 0;
    if (!e->is_causal || !quarter)
        return;
    for (int64_t i = 0; i < quarter; i++)
        gain += ((double)e->predictions[count - 1 - i].loss - (double)e->predictions[i].loss) / (double)quarter;
    eitp__sampled_add(&p->gain, gain, 1);
}

static eitp_status eitp__add_predictions(const eitp__emergence *e, eitp__predicting *p, int64_t sequence, int64_t count,
                                         eitp_error *error) {
    double loss = 0, right = 0, entropy = 0;
    for (int64_t i = 0; i < count; i++) {
        const eitp__prediction *prediction = &e->predictions[i];
        const int is_right = prediction->predicted == e->targets[i];
        loss += (double)prediction->loss;
        entropy += (double)prediction->entropy;
        right += is_right;
        p->is_finite &= isfinite(prediction->confidence) != 0;
        if (p->count == p->room || !p->is_finite)
            continue;
        p->judged[p->count].confidence = prediction->confidence;
        p->judged[p->count].group = (int16_t)(sequence % EITP__JUDGED_GROUPS);
        p->judged[p->count++].is_right = (int16_t)is_right;
    }
    eitp__sampled_add(&p->loss, loss, (double)count);
    eitp__sampled_add(&p->right, right, (double)count);
    eitp__sampled_add(&p->entropy, entropy / log((double)e->model->config.vocabulary), (double)count);
    eitp__add_gain(e, p, count);
    return eitp__add_bits(e, p, count, loss, error);
}

static eitp_status eitp__predict_sequences(eitp__emergence *e, eitp__predicting *p, eitp_error *error) {
    eitp__system_use before, after;
    eitp_status status = eitp__system_use_read(&e->host, 1, &before, error);
    for (int64_t s = 0; s < e->sequences && !status; s++) {
        int64_t count, predicted;
        double began, seconds;
        status = eitp__emergence_read(e, s, &count, error);
        began = eitp__clock();
        if (!status)
            status = eitp__emergence_predict(e, count, &predicted, error);
        if (status)
            return status;
        seconds = eitp__clock() - began;
        eitp__sampled_add(&e->speed, (double)count, seconds);
        e->seconds += seconds;
        e->flops += eitp__hidden_pass_flops(&e->hidden_pass) + eitp__head_pass_flops(&e->head_pass, predicted);
        e->predicted_tokens += count;
        status = eitp__add_predictions(e, p, s, predicted, error);
    }
    if (!status)
        status = eitp__system_use_read(&e->host, 1, &after, error);
    if (status)
        return status;
    e->joules = after.energy_j - before.energy_j;
    e->joules += e->joules < 0 ? after.energy_range : 0;
    return EITP_OK;
}

static eitp_status eitp__report_predictions(const eitp__emergence *e, const eitp__predicting *p, eitp_error *error) {
    static const char not_finite[] = "the model's predictions are not finite";
    const double loss = eitp__sampled_mean(&p->loss), loss_error = eitp__sampled_error(&p->loss);
    const eitp__judged_result calibration = eitp__judged_calibration(p->judged, p->count);
    const eitp__judged_result area = eitp__judged_area(p->judged, p->count);
    static const char group[] = "prediction";
    eitp_emergence_report *r = e->report;
    eitp_status status = eitp__report_sampled(r, group, "loss", &p->loss, not_finite, error);
    if (!status)
        status = eitp__report_number(r, group, "perplexity", exp(loss), p->loss.items, exp(loss) * loss_error,
                                     not_finite, error);
    if (!status)
        status = eitp__report_sampled(r, group, "bits_per_byte", &p->bits,
                                      e->is_causal ? "the bytes of the text are unknown without a tokenizer"
                                                   : "the model does not predict the next token",
                                      error);
    if (!status)
        status = eitp__report_sampled(r, group, "accuracy", &p->right, not_finite, error);
    if (!status)
        status = eitp__report_number(r, group, "calibration_error", p->is_finite ? calibration.value : (double)NAN,
                                     p->count, calibration.error, not_finite, error);
    if (!status)
        status =
            eitp__report_number(r, group, "error_auroc", p->is_finite ? area.value : (double)NAN, p->count, area.error,
                                p->is_finite ? "all predictions are correct, or none" : not_finite, error);
    return status ? status : eitp__report_sampled(r, group, "entropy", &p->entropy, not_finite, error);
}

EITP__PRIVATE eitp_status eitp__emergence_predictions(eitp__emergence *e, eitp_error *error) {
    eitp__predicting p = EITP__ZERO;
    size_t bytes = 0;
    eitp_status status;
    if (!eitp__multiply_size((size_t)e->sequences, (size_t)e->rows * sizeof *p.judged, &bytes))
        return eitp__fail_memory(error, SIZE_MAX, "the predictions");
    p.judged = (eitp__judged *)eitp__allocate(&e->host, bytes);
    if (!p.judged)
        return eitp__fail_memory(error, bytes, "the predictions");
    p.room = e->sequences * e->rows;
    p.is_finite = 1;
    status = eitp__predict_sequences(e, &p, error);
    eitp__judged_sort(p.judged, p.count);
    if (!status)
        status = eitp__report_predictions(e, &p, error);
    if (!status)
        status = eitp__report_sampled(
            e->report, "long range", "in_context_gain", &p.gain,
            e->is_causal ? "samples have fewer than 4 tokens" : "the model does not predict the next token", error);
    eitp__release(&e->host, p.judged, bytes);
    return status;
}

/* Returns the fraction of the peak rate of products that the predictions reached, in percent; NaN: unknown. */
static double eitp__utilization(const eitp__emergence *e) {
    const eitp__backend *backend = e->model->context->backend;
    const double peak =
        backend->interface->peak ? backend->interface->peak(backend, eitp_context_precision(e->model->context)) : 0;
    return peak > 0 && e->seconds > 0 ? 100 * e->flops / e->seconds / peak : (double)NAN;
}

EITP__PRIVATE eitp_status eitp__emergence_resources(eitp__emergence *e, eitp_error *error) {
    static const char group[] = "resources";
    const double tokens = (double)e->predicted_tokens, speed = eitp__sampled_mean(&e->speed);
    const double speed_error = eitp__sampled_error(&e->speed), utilization = eitp__utilization(e);
    eitp_emergence_report *r = e->report;
    eitp_memory_info memory;
    eitp_status status = eitp_memory_info_read(&e->host, &memory, error);
    if (!status)
        status = eitp__report_number(r, group, "tokens_per_second", speed, e->predicted_tokens, speed_error,
                                     "unavailable: the clock did not advance", error);
    if (!status)
        status =
            eitp__report_number(r, group, "mfu", utilization, e->predicted_tokens, utilization * speed_error / speed,
                                "unavailable: the peak rate of the device is unknown", error);
    if (!status)
        status = eitp__report_number(r, group, "joules_per_token", e->joules > 0 ? e->joules / tokens : (double)NAN,
                                     e->predicted_tokens, 0, "unavailable: no energy counter can be read", error);
    return status ? status
                  : eitp__report_number(r, group, "peak_bytes", memory.peak ? (double)memory.peak : (double)NAN, 1, 0,
                                        "unavailable: the system does not report it", error);
}
