/* Statistics of the posteriors of an evaluation's samples, in memory whose size is known in advance. */
#ifndef EITP_VAE_OUTCOMES_H
#define EITP_VAE_OUTCOMES_H

#include "base/memory.h"
#include "task/task.h"

/* Maximum number of samples from which the mutual information is computed. */
enum { EITP__VAE_TEXTS = 2048 };

/* A unit is active if its posterior mean varies by more than this over samples. */
#define EITP__ACTIVE_VARIANCE 0.01

/* The posterior of a sample, each [units], and its noise. */
typedef struct eitp__vae_text {
    const float *mean, *log_deviation, *noise;
} eitp__vae_text;

/* Sums over the samples of a group, for each unit. */
typedef struct eitp__vae_sums {
    double *mean, *squares; /* [units]: of posterior means */
    double count;
} eitp__vae_sums;

typedef struct eitp__vae_outcomes eitp__vae_outcomes;

/* Returns the bytes of memory needed by an evaluation of `samples` samples. */
EITP__PRIVATE size_t eitp__vae_outcomes_bytes(int64_t units, uint64_t samples);

/* Creates empty outcomes in memory of that size. */
EITP__PRIVATE eitp__vae_outcomes *eitp__vae_outcomes_begin(void *memory, int64_t units, uint64_t samples);

/* Adds sample `index`. */
EITP__PRIVATE void eitp__vae_outcomes_add(eitp__vae_outcomes *outcomes, uint64_t index, const eitp__vae_text *text);

/* Adds the importance-weighted bound of a sample, an upper bound of its negative log-likelihood. */
EITP__PRIVATE void eitp__vae_outcomes_add_bound(eitp__vae_outcomes *outcomes, double nll);

/* Returns log p(z) - log q(z | text) for the draw given by the noise. */
EITP__PRIVATE double eitp__vae_log_ratio(const eitp__vae_text *text, int64_t units);

/* Compute the metrics over all samples. */
EITP__PRIVATE void eitp__vae_judge_active_units(const eitp__vae_outcomes *outcomes, eitp_metric *result);
EITP__PRIVATE void eitp__vae_judge_mean_variance(const eitp__vae_outcomes *outcomes, eitp_metric *result);
EITP__PRIVATE void eitp__vae_judge_information(const eitp__vae_outcomes *outcomes, eitp_metric *result);
EITP__PRIVATE void eitp__vae_judge_bound(const eitp__vae_outcomes *outcomes, eitp_metric *result);

/* Adds a JSON object with one array per quantity, each with a value for each unit: divergence, variance of means, and
   mean variance of the posterior. */
EITP__PRIVATE void eitp__vae_describe_units(const eitp__vae_outcomes *outcomes, eitp__buffer *text);

#endif
