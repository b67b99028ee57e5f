/* The table of optimizers: public information, and how they update matrices and vectors. */
#include "optim/optimizers.h"

static const eitp__update_method eitp__adamw_method = {
    EITP__UPDATE_RULE_ADAMW,
    {{EITP__STATE_M, EITP__FORM_WIDE}, {EITP__STATE_V, EITP__FORM_WIDE}},
    eitp__sum_piece_squares,
    NULL};

static const eitp__update_method eitp__adamw8_method = {EITP__UPDATE_RULE_ADAMW,
                                                        {{EITP__STATE_M, EITP__FORM_SIGNED},
                                                         {EITP__STATE_V, EITP__FORM_UNSIGNED},
                                                         {EITP__STATE_M_SCALE, EITP__FORM_SCALES},
                                                         {EITP__STATE_V_SCALE, EITP__FORM_SCALES}},
                                                        eitp__sum_piece_squares,
                                                        NULL};

static const eitp__update_method eitp__factored_method = {EITP__UPDATE_RULE_FACTORED,
                                                          {{EITP__STATE_ROWS, EITP__FORM_ROWS},
                                                           {EITP__STATE_COLUMNS, EITP__FORM_COLUMNS},
                                                           {EITP__STATE_DIRECTION_M, EITP__FORM_ROWS_OF_DIRECTIONS},
                                                           {EITP__STATE_DIRECTIONS, EITP__FORM_DIRECTIONS}},
                                                          eitp__factored_squares,
                                                          eitp__factored_prepare};

static const eitp__update_method eitp__sgd_method = {
    EITP__UPDATE_RULE_SGD, {{EITP__STATE_VELOCITY, EITP__FORM_WIDE}}, eitp__sum_piece_squares, NULL};

/* In the order in which the planner tries them, but for those that are a different algorithm. */
static const eitp__optimizer eitp__optimizers[EITP_OPTIMIZER_COUNT] = {
    {{"adamw", "adamw-torch adamw-torch-fused", "f32 weights and moments", EITP_SAME_BITS, EITP_PARAMETERS_EXACT, 3e-4,
      5e-5, 0.01},
     &eitp__adamw_method,
     &eitp__adamw_method},
    {{"adamw8", "adamw-8bit adamw8bit adamw-bnb-8bit", "bf16 weights with 8-bit corrections, 8-bit moments",
      EITP_SEED_NOISE, EITP_PARAMETERS_CORRECTED, 3e-4, 5e-5, 0.01},
     &eitp__adamw8_method,
     &eitp__adamw_method},
    {{"adamw8-sr", "", "bf16 weights with stochastic rounding, 8-bit moments", EITP_SEED_NOISE, EITP_PARAMETERS_ROUNDED,
      3e-4, 5e-5, 0.01},
     &eitp__adamw8_method,
     &eitp__adamw_method},
    {{"factored", "adafactor",
      "bf16 weights with stochastic rounding, row and column means, momentum along 4 directions", EITP_APPROXIMATE,
      EITP_PARAMETERS_ROUNDED, 3e-4, 5e-5, 0.01},
     &eitp__factored_method,
     &eitp__adamw_method},
    {{"sgd", "", "f32 weights and velocities", EITP_DIFFERENT_ALGORITHM, EITP_PARAMETERS_EXACT, 0.1, 0.02, 0},
     &eitp__sgd_method,
     &eitp__sgd_method},
};

EITP__PRIVATE const eitp__optimizer *eitp__optimizer_row(eitp_optimizer optimizer) {
    return (unsigned)optimizer < EITP_OPTIMIZER_COUNT ? &eitp__optimizers[optimizer] : NULL;
}

const eitp_optimizer_info *eitp_optimizer_get(eitp_optimizer optimizer) {
    const eitp__optimizer *row = eitp__optimizer_row(optimizer);
    return row ? &row->info : NULL;
}
