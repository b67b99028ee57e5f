/* The table of optimizers: public information, and the functions of the update. */
#include "optim/update_rules.h"

typedef struct eitp__optimizer {
    eitp_optimizer_info info;
    eitp__update_rule rule;
} eitp__optimizer;

static const eitp__optimizer eitp__optimizers[EITP_OPTIMIZER_COUNT] = {
    {{"adamw", "f32 weights and moments", EITP_SAME_BITS, EITP_PARAMETERS_EXACT, EITP_MOMENTS_F32},
     {eitp__sum_piece_squares, NULL, eitp__adamw_node}},
    {{"adamw8", "bf16 weights with 8-bit corrections, 8-bit moments", EITP_SEED_NOISE, EITP_PARAMETERS_CORRECTED,
      EITP_MOMENTS_8BIT},
     {eitp__sum_piece_squares, NULL, eitp__adamw_node}},
    {{"adamw8-sr", "bf16 weights with stochastic rounding, 8-bit moments", EITP_SEED_NOISE, EITP_PARAMETERS_ROUNDED,
      EITP_MOMENTS_8BIT},
     {eitp__sum_piece_squares, NULL, eitp__adamw_node}},
    {{"factored", "bf16 weights with stochastic rounding, row and column means, momentum along 4 directions",
      EITP_APPROXIMATE, EITP_PARAMETERS_ROUNDED, EITP_MOMENTS_FACTORED},
     {eitp__factored_squares, eitp__factored_means, eitp__factored_node}},
    {{"sgd", "f32 weights and velocities", EITP_DIFFERENT_ALGORITHM, EITP_PARAMETERS_EXACT, EITP_MOMENTS_VELOCITY},
     {eitp__sum_piece_squares, NULL, eitp__sgd_node}},
};

const eitp_optimizer_info *eitp_optimizer_get(eitp_optimizer optimizer) {
    return (unsigned)optimizer < EITP_OPTIMIZER_COUNT ? &eitp__optimizers[optimizer].info : NULL;
}

EITP__PRIVATE const eitp__update_rule *eitp__update_rule_of(eitp_moments moments) {
    for (size_t i = 0; i < EITP_OPTIMIZER_COUNT; i++) {
        if (eitp__optimizers[i].info.moments == moments)
            return &eitp__optimizers[i].rule;
    }
    return NULL;
}
