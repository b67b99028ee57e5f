#include "task/vae_outcomes.h"

#include "base/json.h"
#include "task/outcomes.h"

struct eitp__vae_outcomes {
    int64_t units;
    uint64_t samples, count; /* samples of the evaluation; added so far */
    eitp__vae_sums groups[EITP__GROUPS];
    double *divergence, *variance; /* [units]: sums over samples */
    float *kept;                   /* [texts, 3, units]: mean, log-deviation, draw */
    uint64_t kept_count, texts;
    double bound, bound_squares; /* sums of nll, and of its squared distances from the mean */
    uint64_t bounds;
};

static uint64_t eitp__vae_texts(uint64_t samples) {
    const uint64_t most = EITP__VAE_TEXTS;
    return samples < most ? samples : most;
}

EITP__PRIVATE size_t eitp__vae_outcomes_bytes(int64_t units, uint64_t samples) {
    return sizeof(eitp__vae_outcomes) + (2 * EITP__GROUPS + 2) * (size_t)units * sizeof(double) +
           3 * (size_t)eitp__vae_texts(samples) * (size_t)units * sizeof(float);
}

EITP__PRIVATE eitp__vae_outcomes *eitp__vae_outcomes_begin(void *memory, int64_t units, uint64_t samples) {
    eitp__vae_outcomes *outcomes = (eitp__vae_outcomes *)memory;
    double *sums = (double *)(void *)(outcomes + 1);
    memset(memory, 0, eitp__vae_outcomes_bytes(units, samples));
    outcomes->units = units;
    outcomes->samples = samples;
    outcomes->texts = eitp__vae_texts(samples);
    for (int g = 0; g < EITP__GROUPS; g++) {
        outcomes->groups[g].mean = sums + 2 * g * units;
        outcomes->groups[g].squares = sums + (2 * g + 1) * units;
    }
    outcomes->divergence = sums + 2 * EITP__GROUPS * units;
    outcomes->variance = outcomes->divergence + units;
    outcomes->kept = (float *)(void *)(outcomes->variance + units);
    return outcomes;
}

/* Keeps evenly spaced samples for the mutual information. */
static void eitp__vae_keep(eitp__vae_outcomes *outcomes, uint64_t index, const eitp__vae_text *text) {
    const size_t units = (size_t)outcomes->units;
    float *kept = outcomes->kept + 3 * (size_t)outcomes->kept_count * units;
    if (outcomes->kept_count == outcomes->texts || index * outcomes->texts / outcomes->samples < outcomes->kept_count)
        return;
    memcpy(kept, text->mean, units * sizeof *kept);
    memcpy(kept + units, text->log_deviation, units * sizeof *kept);
    for (size_t u = 0; u < units; u++)
        kept[2 * units + u] = text->mean[u] + expf(text->log_deviation[u]) * text->noise[u];
    outcomes->kept_count++;
}

EITP__PRIVATE void eitp__vae_outcomes_add(eitp__vae_outcomes *outcomes, uint64_t index, const eitp__vae_text *text) {
    eitp__vae_sums *group = &outcomes->groups[index * EITP__GROUPS / outcomes->samples];
    for (int64_t u = 0; u < outcomes->units; u++) {
        const double mean = (double)text->mean[u], logarithm = 2 * (double)text->log_deviation[u];
        group->mean[u] += mean;
        group->squares[u] += mean * mean;
        outcomes->variance[u] += exp(logarithm);
        outcomes->divergence[u] += 0.5 * (mean * mean + exp(logarithm) - logarithm - 1);
    }
    group->count++;
    outcomes->count++;
    eitp__vae_keep(outcomes, index, text);
}

EITP__PRIVATE void eitp__vae_outcomes_add_bound(eitp__vae_outcomes *outcomes, double nll) {
    const double before = outcomes->bounds ? outcomes->bound / (double)outcomes->bounds : 0;
    outcomes->bound += nll;
    outcomes->bounds++;
    outcomes->bound_squares += (nll - before) * (nll - outcomes->bound / (double)outcomes->bounds);
}

EITP__PRIVATE double eitp__vae_log_ratio(const eitp__vae_text *text, int64_t units) {
    double ratio = 0;
    for (int64_t u = 0; u < units; u++) {
        const double noise = (double)text->noise[u], deviation = exp((double)text->log_deviation[u]);
        const double z = (double)text->mean[u] + deviation * noise;
        ratio += 0.5 * noise * noise + (double)text->log_deviation[u] - 0.5 * z * z;
    }
    return ratio;
}

/* ---- Metrics ---- */

/* Returns the variance of a unit's means over the samples of all groups but one; -1: of all groups. */
static double eitp__vae_variance_of_means(const eitp__vae_outcomes *outcomes, int64_t unit, int without) {
    double mean = 0, squares = 0, count = 0;
    for (int g = 0; g < EITP__GROUPS; g++) {
        const eitp__vae_sums *group = &outcomes->groups[g];
        if (g == without)
            continue;
        mean += group->mean[unit];
        squares += group->squares[unit];
        count += group->count;
    }
    return count > 1 ? (squares - mean * mean / count) / (count - 1) : 0;
}

static double eitp__vae_active_units(const eitp__vae_outcomes *outcomes, int without) {
    double active = 0;
    for (int64_t u = 0; u < outcomes->units; u++)
        active += eitp__vae_variance_of_means(outcomes, u, without) > EITP__ACTIVE_VARIANCE;
    return active;
}

static double eitp__vae_mean_variance(const eitp__vae_outcomes *outcomes, int without) {
    double sum = 0;
    for (int64_t u = 0; u < outcomes->units; u++)
        sum += eitp__vae_variance_of_means(outcomes, u, without);
    return sum / (double)outcomes->units;
}

/* Computes a metric over all samples, and its jackknife standard error over the groups that have samples. */
static void eitp__vae_judge(const eitp__vae_outcomes *outcomes,
                            double (*compute)(const eitp__vae_outcomes *outcomes, int without), eitp_metric *result) {
    double values[EITP__GROUPS], mean = 0, squares = 0;
    int groups = 0;
    result->mean = compute(outcomes, -1);
    for (int g = 0; g < EITP__GROUPS; g++) {
        if (outcomes->groups[g].count > 0)
            values[groups++] = compute(outcomes, g);
    }
    for (int g = 0; g < groups; g++)
        mean += values[g];
    mean /= groups > 0 ? groups : 1;
    for (int g = 0; g < groups; g++)
        squares += (values[g] - mean) * (values[g] - mean);
    result->error = groups > 1 ? sqrt(squares * (groups - 1) / groups) : 0;
}

EITP__PRIVATE void eitp__vae_judge_active_units(const eitp__vae_outcomes *outcomes, eitp_metric *result) {
    eitp__vae_judge(outcomes, eitp__vae_active_units, result);
    result->items = outcomes->units;
}

EITP__PRIVATE void eitp__vae_judge_mean_variance(const eitp__vae_outcomes *outcomes, eitp_metric *result) {
    eitp__vae_judge(outcomes, eitp__vae_mean_variance, result);
    result->items = (int64_t)outcomes->count;
}

/* Returns the log density of a kept sample's posterior at z, without the common constant. */
static double eitp__vae_log_density(const eitp__vae_outcomes *outcomes, uint64_t text, const float *z) {
    const size_t units = (size_t)outcomes->units;
    const float *mean = outcomes->kept + 3 * (size_t)text * units, *log_deviation = mean + units;
    double density = 0;
    for (size_t u = 0; u < units; u++) {
        const double distance = (double)(z[u] - mean[u]) * (double)expf(-log_deviation[u]);
        density -= 0.5 * distance * distance + (double)log_deviation[u];
    }
    return density;
}

/* Returns log q(z | text) - log q(z), where q(z) is the mean over the kept samples. */
static double eitp__vae_information_of(const eitp__vae_outcomes *outcomes, uint64_t text) {
    const size_t units = (size_t)outcomes->units;
    const float *z = outcomes->kept + (3 * (size_t)text + 2) * units;
    const double own = eitp__vae_log_density(outcomes, text, z);
    double largest = own, sum = 0; /* of exp(density - largest) */
    for (uint64_t i = 0; i < outcomes->kept_count; i++) {
        const double density = eitp__vae_log_density(outcomes, i, z);
        if (density > largest)
            sum *= exp(largest - density);
        largest = density > largest ? density : largest;
        sum += exp(density - largest);
    }
    return own - largest - log(sum) + log((double)outcomes->kept_count);
}

EITP__PRIVATE void eitp__vae_judge_information(const eitp__vae_outcomes *outcomes, eitp_metric *result) {
    double mean = 0, squares = 0;
    for (uint64_t i = 0; i < outcomes->kept_count; i++) {
        const double value = eitp__vae_information_of(outcomes, i), distance = value - mean;
        mean += distance / (double)(i + 1);
        squares += distance * (value - mean);
    }
    result->mean = mean;
    result->items = (int64_t)outcomes->kept_count;
    result->error = result->items > 1 ? sqrt(squares / ((double)result->items - 1) / (double)result->items) : 0;
}

EITP__PRIVATE void eitp__vae_judge_bound(const eitp__vae_outcomes *outcomes, eitp_metric *result) {
    const double count = (double)outcomes->bounds;
    result->items = (int64_t)outcomes->bounds;
    result->mean = count > 0 ? outcomes->bound / count : (double)NAN;
    result->error = count > 1 ? sqrt(outcomes->bound_squares / (count - 1) / count) : 0;
}

/* ---- Units ---- */

static double eitp__vae_unit_divergence(const eitp__vae_outcomes *outcomes, int64_t unit) {
    return outcomes->divergence[unit] / (double)outcomes->count;
}

static double eitp__vae_unit_mean_variance(const eitp__vae_outcomes *outcomes, int64_t unit) {
    return eitp__vae_variance_of_means(outcomes, unit, -1);
}

static double eitp__vae_unit_variance(const eitp__vae_outcomes *outcomes, int64_t unit) {
    return outcomes->variance[unit] / (double)outcomes->count;
}

EITP__PRIVATE void eitp__vae_describe_units(const eitp__vae_outcomes *outcomes, eitp__buffer *text) {
    static const struct {
        const char *name;
        double (*value)(const eitp__vae_outcomes *outcomes, int64_t unit);
    } rows[] = {{"kl", eitp__vae_unit_divergence},
                {"mean_variance", eitp__vae_unit_mean_variance},
                {"variance", eitp__vae_unit_variance}};
    eitp__buffer_add_text(text, "{\"units\": {");
    for (size_t i = 0; i < EITP__COUNT(rows); i++) {
        eitp__buffer_format(text, i ? ", \"%s\": [" : "\"%s\": [", rows[i].name);
        for (int64_t u = 0; u < outcomes->units; u++) {
            const double value = rows[i].value(outcomes, u);
            eitp__buffer_add_text(text, u ? ", " : "");
            eitp__buffer_format(text, isfinite(value) ? "%.4g" : "null", value);
        }
        eitp__buffer_add_text(text, "]");
    }
    eitp__buffer_add_text(text, "}}");
}
