/* The worst mistakes of an evaluation, kept while its samples pass by. */
#ifndef EITP_MISTAKES_H
#define EITP_MISTAKES_H

#include "base/platform.h"
#include "task/task.h"

/* Token ids that are kept of the beginning of a sample, and of a word. */
enum { EITP__MISTAKE_IDS = 208, EITP__MISTAKE_WORD = 8 };

typedef struct eitp__mistake {
    eitp_mistake is; /* `ids` and `word` are NULL: those below */
    double weight;   /* how bad it is: the logarithm of the odds of what was predicted, or the error of a number */
    int32_t ids[EITP__MISTAKE_IDS], word[EITP__MISTAKE_WORD];
} eitp__mistake;

typedef struct eitp__mistakes {
    int64_t count;
    eitp__mistake all[EITP_MAX_MISTAKES]; /* the worst first; of equal ones the first */
} eitp__mistakes;

/* A sample of an evaluation as a classifier sees it. */
typedef struct eitp__judged_sample {
    uint64_t number;
    const int32_t *ids; /* [rows] */
    int64_t rows;
    const float *scores; /* [labels]; with labels of tokens [rows, labels] */
    const void *target;  /* I32: the label, or that of each token; else F32 [labels] */
} eitp__judged_sample;

/* Keeps the mistake of a sample, or those of its tokens, if it is one of the worst. Scores that are not finite, and
   EITP__IGNORED_TARGET, are no mistakes. */
EITP__PRIVATE void eitp__mistakes_observe(eitp__mistakes *mistakes, eitp_problem problem, int64_t labels,
                                          const eitp__judged_sample *sample);

#endif
