/* The regularizers by name, and the configuration that has none. */
#include "objective/objective.h"

#include "base/platform.h"

const char *eitp_regularizer_name(eitp_regularizer regularizer) {
    static const char *const names[EITP_REGULARIZERS] = {
        "path_norm", "entropy",  "coding_rate",         "chaos",   "jacobian_norm",     "coherence",
        "brier",     "variance", "participation_ratio", "balance", "attention_entropy", "self_repair",
        "energy"};
    return (int)regularizer >= 0 && regularizer < EITP_REGULARIZERS ? names[regularizer] : NULL;
}

eitp_objective_config eitp_objective_config_default(void) {
    eitp_objective_config config = EITP__ZERO;
    for (int i = 0; i < EITP_REGULARIZERS; i++) {
        config.terms[i].weight = -1;
        config.terms[i].start = 1;
    }
    config.entropy_low = 0.1;
    config.entropy_high = 0.9;
    config.coding_rate_epsilon = 0.5;
    config.chaos_tolerance = 0.1;
    config.chaos_samples = 1;
    config.coherence_temperature = 0.1;
    config.variance_target = 1;
    config.attention_entropy_floor = 0.1;
    config.self_repair_rate = 0.1;
    config.controller_rate = 0.01;
    config.controller_max = 100;
    return config;
}
