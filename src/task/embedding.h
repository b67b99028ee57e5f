/* Pooling: combines the hidden states of an input into its embedding. */
#ifndef EITP_EMBEDDING_H
#define EITP_EMBEDDING_H

#include "base/platform.h"
#include "task/predictor.h"

/* Pools `count` rows, at least 1, of `width` values into `embedding`. */
EITP__PRIVATE void eitp__embedding_pool(eitp_embedding_pooling pooling, const float *rows, int64_t count, int64_t width,
                                        float *embedding);

/* Divides by the Euclidean norm, or by 1e-12 if the norm is smaller, as in PyTorch. */
EITP__PRIVATE void eitp__embedding_normalize(float *embedding, int64_t width);

#endif
