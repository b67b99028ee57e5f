/* Collects the worst mistakes of an evaluation. */
#ifndef EITP_MISTAKES_H
#define EITP_MISTAKES_H

#include "base/platform.h"
#include "task/task.h"

/* Number of token ids kept from the start of a sample, and of a word. */
enum { EITP__MISTAKE_IDS = 208, EITP__MISTAKE_WORD = 8 };

typedef struct eitp__mistake {
    eitp_mistake is; /* `ids` and `word` are NULL; the ids are in the members below */
    double weight;   /* severity: the log odds of the prediction, or the error of a number */
    int32_t ids[EITP__MISTAKE_IDS], word[EITP__MISTAKE_WORD];
} eitp__mistake;

typedef struct eitp__mistakes {
    int64_t count;
    eitp__mistake all[EITP_MAX_MISTAKES]; /* the worst first, equal ones in order of appearance */
} eitp__mistakes;

/* A sample of an evaluation, with its scores and target. */
typedef struct eitp__judged_sample {
    uint64_t number;
    const int32_t *ids; /* [rows] */
    int64_t rows;
    const float *scores; /* [labels], or [rows, labels] with labels of tokens */
    const void *target;  /* I32: the label, or one for each token; otherwise F32 [labels] */
} eitp__judged_sample;

/* Records the mistake of a sample, or the mistakes of its tokens, if it is among the worst. Scores that are not finite
   and EITP__IGNORED_TARGET are not mistakes. */
EITP__PRIVATE void eitp__mistakes_observe(eitp__mistakes *mistakes, eitp_problem problem, int64_t labels,
                                          const eitp__judged_sample *sample);

#endif
