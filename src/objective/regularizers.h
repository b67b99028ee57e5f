/* The regularizers of the library in a pass: what each measures and lowers. */
#ifndef EITP_REGULARIZERS_H
#define EITP_REGULARIZERS_H

#include "objective/binding.h"

/* A statistic of each group, or of each sample: [groups] or [samples]. */
typedef struct eitp__statistic {
    eitp_tensor *metric;  /* what is reported */
    eitp_tensor *loss;    /* what a term lowers */
    eitp_tensor *further; /* a second metric, and its name; NULL: none */
    const char *further_name;
} eitp__statistic;

/* The statistic of a regularizer in a pass. `trains`: the loss is needed, with its gradient. Members are NULL after an
   error, which the graph has. */
EITP__PRIVATE eitp__statistic eitp__regularizer_statistic(const eitp__objective *objective, eitp_pass *pass,
                                                          eitp_regularizer regularizer, int trains);

#endif
