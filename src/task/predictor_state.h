/* A predictor: its capacities, its graph, and its buffers. */
#ifndef EITP_PREDICTOR_STATE_H
#define EITP_PREDICTOR_STATE_H

#include "base/platform.h"
#include "base/settings.h"
#include "task/predictor.h"

/* Capacities. Inputs are encoded a chunk at a time, then packed into passes, the longest first. */
typedef struct eitp__predictor_shape {
    int64_t max_length;
    int64_t pass_tokens, pass_texts;
    int64_t chunk_tokens, chunk_texts;
    int64_t width;        /* values of an input */
    int64_t result_count; /* values of a pass: those of its inputs, or of its tokens */
} eitp__predictor_shape;

typedef struct eitp__predictor_graph {
    eitp_graph *graph;
    eitp_model_inputs inputs;
    /* F32: scores [pass_texts, labels] of inputs or [pass_tokens, labels] of tokens, hidden states [pass_tokens,
       width], or means [pass_texts, units]. */
    eitp_tensor *output;
} eitp__predictor_graph;

/* An encoded input. */
typedef struct eitp__encoded_text {
    int64_t text;  /* its index in the call of eitp_predict */
    int64_t first; /* index of its first id in the chunk */
    int64_t length;
    int64_t value; /* index of its first value, in rows of `width` values */
} eitp__encoded_text;

struct eitp_predictor {
    eitp_host host;
    const eitp_model *model;
    const eitp_tokenizer *tokenizer;
    eitp_predictor_config config;
    eitp_problem problem;
    eitp__predictor_shape shape;
    eitp__predictor_graph built;
    eitp_plan *plan;
    int64_t given;      /* number of inputs so far, for messages */
    int64_t next_value; /* index of the next input's first value in this call */
    /* The chunk. */
    int32_t *chunk_ids, *chunk_segments; /* [chunk_tokens] */
    int32_t *chunk_words;                /* [chunk_tokens]: with EITP_PREDICT_WORD_SCORES, the word of each id */
    eitp__encoded_text *chunk;           /* [chunk_texts], longest first; length 0: already computed */
    int64_t chunk_count, chunk_used;     /* inputs and tokens */
    /* A pass. */
    int32_t *ids, *segments, *positions; /* [pass_tokens] */
    int32_t *words;                      /* [pass_tokens] */
    int32_t *offsets;                    /* [pass_texts + 1] */
    int32_t *bounds;                     /* [pass_texts, 2] */
    eitp__encoded_text *pass;            /* [pass_texts]; `first` is the first row */
    int64_t pass_count, pass_used;
    float *results; /* [result_count] */
};

/* True if there is one result per input, not per token. */
EITP__PRIVATE int eitp__predicts_texts(eitp_prediction prediction);

/* Returns the model that reads the inputs: the encoder, or the model itself. */
EITP__PRIVATE const eitp_model *eitp__predictor_reader(const eitp_model *model, eitp_prediction prediction);

/* Returns the bytes that a predictor takes, as estimated by eitp_predictor_estimate. */
EITP__PRIVATE size_t eitp__predictor_bytes(const eitp_predictor *predictor);

/* The members of eitp_predictor_config, with their bounds, and the defaults used unless the model or the tokenizer sets
   them. Stores their number in *count, unless `count` is NULL. */
EITP__PRIVATE const eitp_setting *eitp__predictor_setting_table(size_t *count);

#endif
