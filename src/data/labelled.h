/* Labelled samples: examples as token ids and numbers, as tasks read them. */
#ifndef EITP_LABELLED_H
#define EITP_LABELLED_H

#include "data/examples.h"

EITP_BEGIN_DECLARATIONS

/* A labelled sample, for `read` of a source to fill in. */
typedef struct eitp_labelled_sample {
    int32_t *ids;      /* room for max_length ids of the source */
    int32_t *segments; /* the segment of each id, the same number; NULL: not wanted */
    int64_t length;    /* number of ids, at least 1 */
    int32_t label;     /* EITP_PROBLEM_SINGLE_LABEL: its number; -1: the sample has none */
    float *targets;    /* room for label_count values; NULL: not wanted. EITP_PROBLEM_MULTI_LABEL: 1 for labels that the
                          sample has, else 0; EITP_PROBLEM_REGRESSION: the numbers to predict */
} eitp_labelled_sample;

/* Labelled samples in a file, in memory, or behind a function of the program. What `user` and `labels` point to must
   outlive the users of the source. */
typedef struct eitp_labelled_source {
    void *user;
    uint64_t count;            /* number of samples */
    int64_t max_length;        /* ids of the longest sample */
    eitp_problem problem;      /* what labels are; EITP_PROBLEM_UNKNOWN: samples have none */
    int64_t label_count;       /* labels, or numbers to predict */
    const char *const *labels; /* label_count names; NULL: they have none */
    uint64_t hash;             /* of the samples; a resume compares it; 0: unknown */
    /* Fills in sample `number`, from 0. Several threads may call it at the same time. */
    eitp_status (*read)(void *user, uint64_t number, eitp_labelled_sample *sample, eitp_error *error);
} eitp_labelled_source;

EITP_END_DECLARATIONS

#endif
