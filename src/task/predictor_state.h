/* A predictor: its capacities, its graph, and its buffers. */
#ifndef EITP_PREDICTOR_STATE_H
#define EITP_PREDICTOR_STATE_H

#include "base/platform.h"
#include "base/settings.h"
#include "task/predictor.h"

/* Capacities. A chunk is what is encoded before its texts are packed, the longest first, into passes. */
typedef struct eitp__predictor_shape {
    int64_t max_length;
    int64_t pass_tokens, pass_texts;
    int64_t chunk_tokens, chunk_texts;
    int64_t width;        /* values of a text */
    int64_t result_count; /* values of a pass: of its texts, or of its tokens */
} eitp__predictor_shape;

typedef struct eitp__predictor_graph {
    eitp_graph *graph;
    eitp_model_inputs inputs;
    /* F32: scores [pass_texts, labels], or of tokens [pass_tokens, labels], hidden states [pass_tokens, width], or
       means [pass_texts, units]. */
    eitp_tensor *output;
} eitp__predictor_graph;

/* An encoded text. */
typedef struct eitp__encoded_text {
    int64_t text;  /* of those given to eitp_predict */
    int64_t first; /* of its ids in the chunk */
    int64_t length;
    int64_t value; /* the first of its values, of which each has the width */
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
    int64_t given;      /* texts so far, for messages */
    int64_t next_value; /* of the texts of this call */
    /* The chunk. */
    int32_t *chunk_ids, *chunk_segments; /* [chunk_tokens] */
    int32_t *chunk_words;                /* [chunk_tokens]: with EITP_PREDICT_WORD_SCORES, the word of each id */
    eitp__encoded_text *chunk;           /* [chunk_texts], longest first; length 0: it was computed */
    int64_t chunk_count, chunk_used;     /* texts and tokens */
    /* A pass. */
    int32_t *ids, *segments, *positions; /* [pass_tokens] */
    int32_t *words;                      /* [pass_tokens] */
    int32_t *offsets;                    /* [pass_texts + 1] */
    int32_t *bounds;                     /* [pass_texts, 2] */
    eitp__encoded_text *pass;            /* [pass_texts]; `first` is that of its rows */
    int64_t pass_count, pass_used;
    float *results; /* [result_count] */
};

/* True if there is a value for each text, not for each of its tokens. */
EITP__PRIVATE int eitp__predicts_texts(eitp_prediction prediction);

/* The model that reads the texts: the encoder, or the model itself. */
EITP__PRIVATE const eitp_model *eitp__predictor_reader(const eitp_model *model, eitp_prediction prediction);

/* The bytes that a predictor takes, which eitp_predictor_estimate foretells. */
EITP__PRIVATE size_t eitp__predictor_bytes(const eitp_predictor *predictor);

/* The members of eitp_predictor_config, with their bounds, and the defaults where model and tokenizer say nothing else.
   Stores their number in *count, unless `count` is NULL. */
EITP__PRIVATE const eitp_setting *eitp__predictor_setting_table(size_t *count);

#endif
