/* A measurement in progress: its samples, shared passes, and parts. */
#ifndef EITP_EMERGENCE_STATE_H
#define EITP_EMERGENCE_STATE_H

#include "base/settings.h"
#include "objective/emergence_forward.h"
#include "objective/emergence_report.h"
#include "task/pass.h"

typedef struct eitp__emergence {
    const eitp_task *task;
    eitp_split split;
    const eitp_emergence_config *config;
    eitp_emergence_report *report;
    const eitp_model *model;
    eitp_host host;
    int has_head, is_causal;               /* a language head; one for the next token */
    int64_t rows, width, vocabulary;       /* maximum rows of a sample; width of hidden states; bound of the ids that
                                              are drawn */
    int64_t sequences, probes, probe_rows; /* numbers of sequences and probes measured; maximum rows of a probe */
    eitp_pass pass;                        /* pass of the task, for its inputs */
    int segments_at, targets_at;           /* indices of these inputs; -1: none */
    void *values[EITP_MAX_PASS_INPUTS];
    /* With a language head. */
    eitp__hidden_pass hidden_pass;
    eitp__head_pass head_pass;
    float *hidden;                 /* [rows, width] */
    int32_t *tokens, *targets;     /* [rows]: of a sequence made by a part; of the predicted rows */
    eitp__prediction *predictions; /* [rows] */
    /* Time and energy of predicting the sequences. */
    eitp__sampled speed; /* tokens per second */
    double seconds, flops;
    double joules; /* NaN: unknown */
    int64_t predicted_tokens;
} eitp__emergence;

/* Purposes of random numbers. */
typedef enum eitp__emergence_purpose {
    EITP__DRAW_SAMPLES = 1,
    EITP__DRAW_RETRIEVAL = 2,
    EITP__DRAW_CORRUPTION = 3,
    EITP__DRAW_REPLACEMENT = 4,
    EITP__DRAW_NOISE = 5,
    EITP__DRAW_SIGNS = 6
} eitp__emergence_purpose;

/* Prepares a measurement. Close it even after a failure. */
EITP__PRIVATE eitp_status eitp__emergence_open(eitp__emergence *e, const eitp_task *task, eitp_split split,
                                               const eitp_emergence_config *config, eitp_emergence_report *report,
                                               eitp_error *error);
EITP__PRIVATE void eitp__emergence_close(eitp__emergence *e);

/* Returns a fraction in [0, 1). `stream` distinguishes series with the same purpose. */
EITP__PRIVATE double eitp__emergence_uniform(const eitp__emergence *e, eitp__emergence_purpose purpose, uint64_t stream,
                                             uint64_t index);

/* Returns a token id that differs from two others, which may be equal or negative. */
EITP__PRIVATE int32_t eitp__emergence_token(const eitp__emergence *e, eitp__emergence_purpose purpose, uint64_t stream,
                                            uint64_t index, int32_t other, int32_t another);

/* Read sequence or probe `index`, and store its tokens. */
EITP__PRIVATE eitp_status eitp__emergence_read(eitp__emergence *e, int64_t index, int64_t *count, eitp_error *error);
EITP__PRIVATE eitp_status eitp__emergence_read_probe(eitp__emergence *e, int64_t index, int64_t *count,
                                                     eitp_error *error);

/* Return the tokens and segments of the sample that was read. Segments are NULL if the task has none. */
EITP__PRIVATE const int32_t *eitp__emergence_sample_tokens(const eitp__emergence *e);
EITP__PRIVATE const int32_t *eitp__emergence_sample_segments(const eitp__emergence *e);

/* With a language head, predicts the targets of the sample that was read. e->predictions and e->targets hold the
   *predicted rows that have a target, and e->hidden their hidden states. */
EITP__PRIVATE eitp_status eitp__emergence_predict(eitp__emergence *e, int64_t count, int64_t *predicted,
                                                  eitp_error *error);

/*
 * Fills e->tokens with a sequence that ends with a token A, `distance` tokens after the first A, which is followed by
 * B, and returns its length. Up to as many tokens precede the pair, so that it has no special position. No other token
 * is A or B. `distance` is 2 to e->rows - 1.
 */
EITP__PRIVATE int64_t eitp__emergence_make_retrieval(eitp__emergence *e, int64_t distance, int64_t trial,
                                                     int32_t *answer);

/* The parts of the measurement, each in its own file. */
EITP__PRIVATE eitp_status eitp__emergence_predictions(eitp__emergence *e, eitp_error *error);
EITP__PRIVATE eitp_status eitp__emergence_retrieval(eitp__emergence *e, eitp_error *error);
EITP__PRIVATE eitp_status eitp__emergence_states(eitp__emergence *e, eitp_error *error);
EITP__PRIVATE eitp_status eitp__emergence_sensitivity(eitp__emergence *e, eitp_error *error);
EITP__PRIVATE eitp_status eitp__emergence_spectra(eitp__emergence *e, eitp_error *error);
EITP__PRIVATE eitp_status eitp__emergence_path_norm(eitp__emergence *e, eitp_error *error);
EITP__PRIVATE eitp_status eitp__emergence_corruption(eitp__emergence *e, eitp_error *error);
EITP__PRIVATE eitp_status eitp__emergence_noise(eitp__emergence *e, eitp_error *error);
EITP__PRIVATE eitp_status eitp__emergence_texts(eitp__emergence *e, eitp_error *error);
/* Call it last, after the predictions, since it reports the peak of memory. */
EITP__PRIVATE eitp_status eitp__emergence_resources(eitp__emergence *e, eitp_error *error);

/* The numeric members of eitp_emergence_config, with their defaults and bounds. Stores their number in *count, unless
   `count` is NULL. */
EITP__PRIVATE const eitp_setting *eitp__emergence_setting_table(size_t *count);

#endif
