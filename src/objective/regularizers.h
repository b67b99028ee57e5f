/* The library's regularizers in a pass: their metrics and losses. */
#ifndef EITP_REGULARIZERS_H
#define EITP_REGULARIZERS_H

#include "objective/binding.h"

/* A statistic of each group, or of each sample: [groups] or [samples]. */
typedef struct eitp__statistic {
    eitp_tensor *metric;  /* the reported value */
    eitp_tensor *loss;    /* the value that a loss term minimizes */
    eitp_tensor *further; /* a second metric, with its name; NULL: none */
    const char *further_name;
} eitp__statistic;

/* Returns the statistic of a regularizer in a pass. `trains`: the loss is needed, with its gradient. Members are NULL
   after an error, which is stored in the graph. */
EITP__PRIVATE eitp__statistic eitp__regularizer_statistic(const eitp__objective *objective, eitp_pass *pass,
                                                          eitp_regularizer regularizer, int trains);

#endif
