#include "task/embedding.h"

static void eitp__embedding_copy(const float *row, int64_t width, float *embedding) {
    memcpy(embedding, row, (size_t)width * sizeof *embedding);
}

static void eitp__embedding_max(const float *rows, int64_t count, int64_t width, float *embedding) {
    eitp__embedding_copy(rows, width, embedding);
    for (int64_t row = 1; row < count; row++) {
        for (int64_t i = 0; i < width; i++)
            embedding[i] = rows[row * width + i] > embedding[i] ? rows[row * width + i] : embedding[i];
    }
}

static void eitp__embedding_sum(const float *rows, int64_t count, int64_t width, float *embedding) {
    eitp__embedding_copy(rows, width, embedding);
    for (int64_t row = 1; row < count; row++) {
        for (int64_t i = 0; i < width; i++)
            embedding[i] += rows[row * width + i];
    }
}

static void eitp__embedding_divide(float *embedding, int64_t width, double divisor) {
    for (int64_t i = 0; i < width; i++)
        embedding[i] = (float)((double)embedding[i] / divisor);
}

EITP__PRIVATE void eitp__embedding_pool(eitp_embedding_pooling pooling, const float *rows, int64_t count, int64_t width,
                                        float *embedding) {
    switch (pooling) {
    case EITP_EMBEDDING_FIRST:
        eitp__embedding_copy(rows, width, embedding);
        break;
    case EITP_EMBEDDING_LAST:
        eitp__embedding_copy(rows + (count - 1) * width, width, embedding);
        break;
    case EITP_EMBEDDING_MAX:
        eitp__embedding_max(rows, count, width, embedding);
        break;
    default:
        eitp__embedding_sum(rows, count, width, embedding);
        eitp__embedding_divide(embedding, width, pooling == EITP_EMBEDDING_MEAN ? (double)count : sqrt((double)count));
    }
}

EITP__PRIVATE void eitp__embedding_normalize(float *embedding, int64_t width) {
    double sum = 0;
    for (int64_t i = 0; i < width; i++)
        sum += (double)embedding[i] * (double)embedding[i];
    eitp__embedding_divide(embedding, width, sum > 1e-24 ? sqrt(sum) : 1e-12);
}
