/* Emergence: measurements of a trained model beyond its loss, each with its standard error and the number of items that
   it is a mean over. See docs/emergence.md for the definition of each. */
#ifndef EITP_EMERGENCE_H
#define EITP_EMERGENCE_H

#include "task/task.h"

EITP_BEGIN_DECLARATIONS

/* The extent of the measurement. Start from eitp_emergence_config_default(). A part whose number is 0 is left out. */
typedef struct eitp_emergence_config {
    int64_t sequences;           /* maximum number of samples for predictions, spread over the whole split */
    int64_t probes;              /* number of these samples used for hidden states, attention and robustness */
    int64_t probe_tokens;        /* first tokens of a probe whose hidden states and attention are measured */
    int64_t sensitivity_rounds;  /* rounds of power iteration, and vectors of random signs, for the Jacobian of a
                                    probe */
    int64_t retrieval_trials;    /* sequences for each distance of the retrieval task */
    int64_t texts;               /* number of samples to generate */
    int64_t prompt_tokens;       /* first tokens of a sample that are the prompt of a generated sample */
    int64_t text_tokens;         /* tokens to generate for each */
    double temperature;          /* temperature of generation; 0: the most likely tokens */
    double coding_rate_epsilon2; /* distortion of the coding rate: epsilon^2 */
    int64_t matrix_side;         /* maximum smaller side of matrices whose spectrum is computed, which takes side^3
                                    operations and 8 side^2 bytes */
    int changes_weights; /* 1: measure robustness to noise in the weights, on the model itself; a copy of the weights is
                            kept, and restored bit for bit */
    uint64_t seed;       /* seed of samples, corruption, noise, retrieval and generation */
    const eitp_tokenizer *tokenizer; /* for bytes of text, and the ids that are drawn; NULL: unknown */
    /* A model that predicts the next token, and its tokenizer, for the perplexity of the generated samples. NULL:
       none. */
    const eitp_model *reference;
    const eitp_tokenizer *reference_tokenizer;
} eitp_emergence_config;

/* 64 sequences, 16 of them probes of 256 tokens with 10 rounds; 16 retrieval trials; 8 generated samples of 64 tokens
   after 16, at temperature 1; epsilon^2 0.5; matrices up to 1024; weights are changed; seed 0; no tokenizer. */
EITP_API eitp_emergence_config eitp_emergence_config_default(void);

#define EITP_EMERGENCE_NAME_SIZE 48

/* A measured number. */
typedef struct eitp_emergence_number {
    const char *group; /* "prediction", "long range", ... */
    char name[EITP_EMERGENCE_NAME_SIZE];
    double value;  /* finite */
    int64_t count; /* number of items that it is a mean over */
    double error;  /* standard error, 0 if unavailable: over sequences, which are independent of each other, not over
                      tokens; for weights, over matrices */
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
    int64_t sequences;    /* number of sequences measured */
    uint64_t config_hash; /* hash of the configuration, the shape of the model and the number of samples; reports with
                             the same hash are comparable */
} eitp_emergence_report;

/*
 * Measures the model of a task on samples of a split. The task must come from eitp_language_task, eitp_masked_task or
 * eitp_classification_task. Measurements that make no sense for the kind of model are omitted, with the reason. Except
 * for times, energy and memory, the same configuration gives the same numbers with any number of threads.
 *
 * One sequence is computed at a time. In addition to the model's memory, this needs twice the hidden states of a
 * sample; queries, keys and values of all layers for a probe; the memory of the gradient of a probe; 16 MiB of logits,
 * or one position's logits if they are larger; four probe_tokens^2 matrices of doubles; 8 bytes for each predicted
 * token; and with changes_weights a copy of the weights.
 *
 * EITP_ERROR_ARGUMENT if the task has no model, no samples in the split or other inputs, or the configuration is
 * invalid. EITP_ERROR_INTERRUPTED if eitp_context_set_poll stops it. After a failure the report is empty. Release the
 * report.
 */
EITP_API eitp_status eitp_emergence_measure(const eitp_task *task, eitp_split split,
                                            const eitp_emergence_config *config, eitp_emergence_report *report,
                                            eitp_error *error);

/* Frees the lists of a report, and clears it. NULL is harmless. */
EITP_API void eitp_emergence_release(eitp_emergence_report *report);

EITP_END_DECLARATIONS

#endif
