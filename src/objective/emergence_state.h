/* A measurement in progress: the samples, the passes that parts share, and the parts. */
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
    int has_head, is_causal;               /* a language head; of next tokens */
    int64_t rows, width, vocabulary;       /* of a sample, at most; of hidden states; ids that are drawn are below */
    int64_t sequences, probes, probe_rows; /* that there are */
    eitp_pass pass;                        /* of the task, for its inputs */
    int segments_at, targets_at;           /* which of its inputs; -1: none */
    void *values[EITP_MAX_PASS_INPUTS];
    /* With a language head. */
    eitp__hidden_pass hidden_pass;
    eitp__head_pass head_pass;
    float *hidden;                 /* [rows, width] */
    int32_t *tokens, *targets;     /* [rows]: of a sequence that a part has made; of the predicted rows */
    eitp__prediction *predictions; /* [rows] */
    /* What predicting the sequences took. */
    eitp__sampled speed; /* tokens per second */
    double seconds, flops;
    double joules; /* NaN: unknown */
    int64_t predicted_tokens;
} eitp__emergence;

/* What random numbers are for. */
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

/* A fraction in [0, 1). `stream` tells series of one purpose apart. */
EITP__PRIVATE double eitp__emergence_uniform(const eitp__emergence *e, eitp__emergence_purpose purpose, uint64_t stream,
                                             uint64_t index);

/* A token id that differs from two others, which may be the same or negative. */
EITP__PRIVATE int32_t eitp__emergence_token(const eitp__emergence *e, eitp__emergence_purpose purpose, uint64_t stream,
                                            uint64_t index, int32_t other, int32_t another);

/* Reads sequence `index`, or probe `index`, and stores its tokens. */
EITP__PRIVATE eitp_status eitp__emergence_read(eitp__emergence *e, int64_t index, int64_t *count, eitp_error *error);
EITP__PRIVATE eitp_status eitp__emergence_read_probe(eitp__emergence *e, int64_t index, int64_t *count,
                                                     eitp_error *error);

/* Of the sample that was read. Segments are NULL if the task has none. */
EITP__PRIVATE const int32_t *eitp__emergence_sample_tokens(const eitp__emergence *e);
EITP__PRIVATE const int32_t *eitp__emergence_sample_segments(const eitp__emergence *e);

/* Predicts the targets of the sample that was read, with language heads: e->predictions and e->targets of the
   *predicted rows that have one, and their hidden states in e->hidden. */
EITP__PRIVATE eitp_status eitp__emergence_predict(eitp__emergence *e, int64_t count, int64_t *predicted,
                                                  eitp_error *error);

/* Fills e->tokens with a sequence that ends with a token A, `distance` tokens after the first A, which B follows, and
   returns its length. Before the pair are up to as many tokens, so that it is at no special position. No other token is
   A or B. `distance` is 2 to e->rows - 1. */
EITP__PRIVATE int64_t eitp__emergence_make_retrieval(eitp__emergence *e, int64_t distance, int64_t trial,
                                                     int32_t *answer);

/* The parts, in files of their own. */
EITP__PRIVATE eitp_status eitp__emergence_predictions(eitp__emergence *e, eitp_error *error);
EITP__PRIVATE eitp_status eitp__emergence_retrieval(eitp__emergence *e, eitp_error *error);
EITP__PRIVATE eitp_status eitp__emergence_states(eitp__emergence *e, eitp_error *error);
EITP__PRIVATE eitp_status eitp__emergence_sensitivity(eitp__emergence *e, eitp_error *error);
EITP__PRIVATE eitp_status eitp__emergence_spectra(eitp__emergence *e, eitp_error *error);
EITP__PRIVATE eitp_status eitp__emergence_path_norm(eitp__emergence *e, eitp_error *error);
EITP__PRIVATE eitp_status eitp__emergence_corruption(eitp__emergence *e, eitp_error *error);
EITP__PRIVATE eitp_status eitp__emergence_noise(eitp__emergence *e, eitp_error *error);
EITP__PRIVATE eitp_status eitp__emergence_texts(eitp__emergence *e, eitp_error *error);
/* After the predictions; last, for the peak of memory. */
EITP__PRIVATE eitp_status eitp__emergence_resources(eitp__emergence *e, eitp_error *error);

/* The members of eitp_emergence_config that are numbers, with their defaults and bounds. Stores their number in *count,
   unless `count` is NULL. */
EITP__PRIVATE const eitp_setting *eitp__emergence_setting_table(size_t *count);

#endif
