/* Settings of an optimizer, for the tables of its configuration and of structs that contain it. */
#ifndef EITP_OPTIM_SETTINGS_H
#define EITP_OPTIM_SETTINGS_H

#include "base/setting_table.h"
#include "optim/optim.h"

#define EITP__OPTIMIZER_SETTINGS(type, at)                                                                             \
    EITP__SETTING(type, at, beta1, "beta1", NUMBER, 0.9, 0, 1, EITP_SETTING_BELOW, LOGGED, NULL,                       \
                  "decay rate of AdamW's first moment; momentum of sgd"),                                              \
        EITP__SETTING(type, at, beta2, "beta2", NUMBER, 0.999, 0, 1, EITP_SETTING_BELOW, LOGGED, NULL,                 \
                      "decay rate of AdamW's second moment"),                                                          \
        EITP__SETTING(type, at, epsilon, "epsilon", NUMBER, 1e-8, 0, 1, EITP_SETTING_ABOVE, LOGGED, NULL,              \
                      "term that AdamW adds to the denominator"),                                                      \
        EITP__SETTING(type, at, weight_decay, "weight_decay", NUMBER, 0.01, 0, 1000, 0, LOGGED, NULL,                  \
                      "decoupled weight decay, of matrices and embeddings only")

#endif
