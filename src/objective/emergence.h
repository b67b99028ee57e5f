/*
 * Emergence: numbers about what a trained model does beyond its loss, with how many items each is a mean over and its
 * standard error. See docs/emergence.md for the definition of each.
 */
#ifndef EITP_EMERGENCE_H
#define EITP_EMERGENCE_H

#include "task/task.h"

EITP_BEGIN_DECLARATIONS

/* How much is measured. Start from eitp_emergence_config_default(). A part whose number is 0 is left out. */
typedef struct eitp_emergence_config {
    int64_t sequences;           /* samples that predictions are measured on, at most; spread over all of the split */
    int64_t probes;              /* of these: for hidden states, attention and robustness */
    int64_t probe_tokens;        /* first tokens of a probe whose hidden states and attention are measured */
    int64_t sensitivity_rounds;  /* of power iteration, and vectors of random signs, for the Jacobian of a probe */
    int64_t retrieval_trials;    /* sequences for each distance of the retrieval task */
    int64_t texts;               /* texts that are generated */
    int64_t prompt_tokens;       /* first tokens of a sample that are the prompt of a text */
    int64_t text_tokens;         /* tokens that are generated for a text */
    double temperature;          /* of the generated texts; 0: the most likely tokens */
    double coding_rate_epsilon2; /* the distortion of the coding rate: epsilon^2 */
    int64_t matrix_side;         /* matrices whose smaller side is larger have no spectrum: it takes side^3 operations,
                                    and 8 side^2 bytes */
    int changes_weights; /* 1: the robustness to noise in the weights is measured, on the model itself; a copy of them
                            is kept, and restored bit for bit */
    uint64_t seed;       /* of the samples, corruption, noise, retrieval and texts */
    const eitp_tokenizer *tokenizer; /* for bytes of text, and the ids that are drawn; NULL: unknown */
    /* A model that predicts the next token, and its tokenizer: it judges the generated texts. NULL: none. */
    const eitp_model *reference;
    const eitp_tokenizer *reference_tokenizer;
} eitp_emergence_config;

/* 64 sequences, 16 of them probes of 256 tokens with 10 rounds; 16 trials; 8 texts of 64 tokens after 16, at
   temperature 1; epsilon^2 0.5; matrices of up to 1024; weights are changed; seed 0; no tokenizer. */
EITP_API eitp_emergence_config eitp_emergence_config_default(void);

#define EITP_EMERGENCE_NAME_SIZE 48

/* A number. */
typedef struct eitp_emergence_number {
    const char *group; /* "prediction", "long range", ... */
    char name[EITP_EMERGENCE_NAME_SIZE];
    double value;  /* finite */
    int64_t count; /* items that it is a mean over */
    double error; /* its standard error, 0 if it has none: over sequences, which are independent of each other, not over
                      tokens; of weights over matrices */
} eitp_emergence_number;

/* A number that could not be measured. */
typedef struct eitp_emergence_omission {
    char name[EITP_EMERGENCE_NAME_SIZE];
    const char *reason; /* one clause, without a full stop */
} eitp_emergence_omission;

/* The results. They belong to the host of the model's context. */
typedef struct eitp_emergence_report {
    eitp_host host;
    eitp_emergence_number *numbers;
    size_t number_count, number_room;
    eitp_emergence_omission *omissions;
    size_t omission_count, omission_room;
    int64_t sequences;    /* that were measured */
    uint64_t config_hash; /* of the configuration, the shape of the model and the number of samples: reports with the
                             same hash can be compared */
} eitp_emergence_report;

/*
 * Measures the model of a task on samples of a split. The task is one of eitp_language_task, eitp_masked_task or
 * eitp_classification_task. What makes no sense for its kind of model is left out, with the reason. Apart from times,
 * energy and memory, the same configuration gives the same numbers, with any number of threads.
 *
 * A sequence is computed at a time. Besides the model's memory it takes the hidden states of a sample twice, queries,
 * keys and values of all layers for a probe, what the gradient of a probe takes, 16 MiB of logits or those of one
 * position, four probe_tokens^2 matrices of doubles, 8 bytes for each predicted token, and with changes_weights a copy
 * of the weights.
 *
 * EITP_ERROR_ARGUMENT if the task has no model, no samples in the split or other inputs, or the configuration is
 * invalid; EITP_ERROR_INTERRUPTED if eitp_context_set_poll stops it. After a failure the report is empty. Release it.
 */
EITP_API eitp_status eitp_emergence_measure(const eitp_task *task, eitp_split split,
                                            const eitp_emergence_config *config, eitp_emergence_report *report,
                                            eitp_error *error);

/* Frees the lists of a report, and clears it. NULL is harmless. */
EITP_API void eitp_emergence_release(eitp_emergence_report *report);

EITP_END_DECLARATIONS

#endif
