/*
 * The gradient noise scale (McCandlish et al., "An Empirical Model of Large-Batch Training", arXiv 1812.06162, appendix
 * A.1): tr(C) / |G|^2, with the mean G and the covariance C of the gradients of samples. It is the number of samples
 * whose mean gradient has as much noise as signal. Much smaller batches waste little data; much larger ones waste
 * arithmetic.
 *
 * The expected squared norm of a mean over n samples is |G|^2 + tr(C) / n. So two norms give both numbers: the norm of
 * the whole step, and the norm of its first pass, for which the gradients are read once more. Each is noisy, and their
 * quotient is biased, so numerator and denominator are averaged over steps first.
 */
#ifndef EITP_NOISE_SCALE_H
#define EITP_NOISE_SCALE_H

#include "base/json.h"
#include "tensor/context.h"

/* The weight of all earlier measurements in a mean, which covers about the last 20. */
#define EITP__NOISE_SCALE_KEPT 0.95

/* Starts as zeros. */
typedef struct eitp__noise_scale {
    int64_t count;        /* measurements */
    double signal, noise; /* running means of |G|^2 and tr(C), both times 1 - EITP__NOISE_SCALE_KEPT^count */
} eitp__noise_scale;

/* The norms of mean gradients over some samples of a step, and over all of them. */
typedef struct eitp__noise_norms {
    int64_t part_samples, samples; /* part_samples is below samples; 0: no part was measured */
    double part_squares, squares;  /* squares of the norms */
} eitp__noise_norms;

/* Adds a measurement. */
EITP__PRIVATE void eitp__noise_scale_add(eitp__noise_scale *scale, const eitp__noise_norms *norms);

/* Returns the noise scale in samples, or a negative value if it is unknown because the signal is lost in the noise. */
EITP__PRIVATE double eitp__noise_scale_value(const eitp__noise_scale *scale);

/* Sums the squares of the gradients accumulated in variables, except the gradients of learners. `ids` are the ids of
   the rows that eitp_embedding_unique accumulates: [capacity], the first `count` in use. */
EITP__PRIVATE eitp_status eitp__accumulated_squares(eitp_context *context, const int32_t *ids, int64_t count,
                                                    int64_t capacity, double *squares, eitp_error *error);

/* Adds the member "noise_scale" to a checkpoint's state, if anything was measured. */
EITP__PRIVATE void eitp__noise_scale_write(const eitp__noise_scale *scale, eitp__buffer *text);

/* Reads the member from a state. Without it, nothing was measured. */
EITP__PRIVATE eitp_status eitp__noise_scale_read(eitp__noise_scale *scale, const eitp_json *state, eitp_error *error);

#endif
