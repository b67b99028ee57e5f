/* Several updates in one step. Each has its own parameters, optimizer and norm. They share one backward pass. */
#ifndef EITP_MINIMIZE_H
#define EITP_MINIMIZE_H

#include "base/memory.h"
#include "optim/optim.h"

typedef struct eitp__updates {
    int count;
    /* count of each. The first configuration sets the penalty, the unique ids, and whether any gradient is capped. A
       gradient is capped if the configuration of its update has a cap. */
    const eitp_optimizer_config *configs;
    eitp_update *updates;
    int (*choose)(void *user, const char *parameter); /* returns the index of a parameter's update; NULL: 0 */
    void *user;
} eitp__updates;

/* Like eitp_minimize and eitp_apply_gradients, for several updates. Each must have a parameter. */
EITP__PRIVATE eitp_status eitp__minimize(eitp_tensor *loss, const eitp__updates *updates, eitp_error *error);
EITP__PRIVATE eitp_status eitp__apply_gradients(eitp_graph *graph, const eitp__updates *updates, eitp_error *error);

#endif
