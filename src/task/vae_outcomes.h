/* What an evaluation learns of the posteriors of texts, in memory of a known size. */
#ifndef EITP_VAE_OUTCOMES_H
#define EITP_VAE_OUTCOMES_H

#include "base/memory.h"
#include "task/task.h"

/* The most texts of which the mutual information is computed. */
enum { EITP__VAE_TEXTS = 2048 };

/* A unit whose posterior mean varies by more than this over texts is active. */
#define EITP__ACTIVE_VARIANCE 0.01

/* The posterior of a text, [units] each, and its noise. */
typedef struct eitp__vae_text {
    const float *mean, *log_deviation, *noise;
} eitp__vae_text;

/* Sums over the texts of a group, of each unit. */
typedef struct eitp__vae_sums {
    double *mean, *squares; /* [units]: of means */
    double count;
} eitp__vae_sums;

typedef struct eitp__vae_outcomes eitp__vae_outcomes;

/* Bytes of memory for an evaluation of `samples` texts. */
EITP__PRIVATE size_t eitp__vae_outcomes_bytes(int64_t units, uint64_t samples);

/* Lays out outcomes in such memory; they are empty. */
EITP__PRIVATE eitp__vae_outcomes *eitp__vae_outcomes_begin(void *memory, int64_t units, uint64_t samples);

/* Adds text `index`. */
EITP__PRIVATE void eitp__vae_outcomes_add(eitp__vae_outcomes *outcomes, uint64_t index, const eitp__vae_text *text);

/* Adds the importance-weighted bound of a text: its negative log-likelihood at most. */
EITP__PRIVATE void eitp__vae_outcomes_add_bound(eitp__vae_outcomes *outcomes, double nll);

/* log p(z) - log q(z | text) for the draw of the text's noise. */
EITP__PRIVATE double eitp__vae_log_ratio(const eitp__vae_text *text, int64_t units);

/* The metrics of all texts. */
EITP__PRIVATE void eitp__vae_judge_active_units(const eitp__vae_outcomes *outcomes, eitp_metric *result);
EITP__PRIVATE void eitp__vae_judge_mean_variance(const eitp__vae_outcomes *outcomes, eitp_metric *result);
EITP__PRIVATE void eitp__vae_judge_information(const eitp__vae_outcomes *outcomes, eitp_metric *result);
EITP__PRIVATE void eitp__vae_judge_bound(const eitp__vae_outcomes *outcomes, eitp_metric *result);

/* Adds an object with an array for each unit: divergence, variance of means, and mean variance of the posterior. */
EITP__PRIVATE void eitp__vae_describe_units(const eitp__vae_outcomes *outcomes, eitp__buffer *text);

#endif
