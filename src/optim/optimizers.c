/* The table of optimizers: public information, and update methods for matrices and vectors. */
#include "optim/optimizers.h"

static const eitp__update_method eitp__adamw_method = {
    EITP__UPDATE_RULE_ADAMW,
    {{"adamw.m", EITP__FORM_WIDE, EITP__STATE_MEAN}, {"adamw.v", EITP__FORM_WIDE, EITP__STATE_SQUARES}},
    eitp__sum_piece_squares,
    NULL};

static const eitp__update_method eitp__adamw8_method = {EITP__UPDATE_RULE_ADAMW,
                                                        {{"adamw.m", EITP__FORM_SIGNED, EITP__STATE_MEAN},
                                                         {"adamw.v", EITP__FORM_UNSIGNED, EITP__STATE_SQUARES},
                                                         {"adamw.m_scale", EITP__FORM_SCALES, EITP__STATE_MEAN},
                                                         {"adamw.v_scale", EITP__FORM_SCALES, EITP__STATE_SQUARES}},
                                                        eitp__sum_piece_squares,
                                                        NULL};

static const eitp__update_method eitp__factored_method = {
    EITP__UPDATE_RULE_FACTORED,
    {{"factored.rows", EITP__FORM_ROWS, EITP__STATE_SQUARES},
     {"factored.columns", EITP__FORM_COLUMNS, EITP__STATE_SQUARES},
     {"factored.m", EITP__FORM_ROWS_OF_DIRECTIONS, EITP__STATE_OWN},
     {"factored.directions", EITP__FORM_DIRECTIONS, EITP__STATE_OWN}},
    eitp__factored_squares,
    eitp__factored_prepare};

static const eitp__update_method eitp__sgd_method = {
    EITP__UPDATE_RULE_SGD, {{"sgd.velocity", EITP__FORM_WIDE, EITP__STATE_SUM}}, eitp__sum_piece_squares, NULL};

typedef struct eitp__optimizer {
    eitp_optimizer_info info;
    const eitp__update_method *matrices, *vectors; /* for parameters with two or more dimensions, and with fewer */
} eitp__optimizer;

/* In the order in which the planner tries them, except optimizers that are a different algorithm. */
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

const eitp_optimizer_info *eitp_optimizer_get(eitp_optimizer optimizer) {
    return (unsigned)optimizer < EITP_OPTIMIZER_COUNT ? &eitp__optimizers[optimizer].info : NULL;
}

EITP__PRIVATE eitp_status eitp__optimizer_check(eitp_optimizer optimizer, eitp_error *error) {
    return eitp_optimizer_get(optimizer)
               ? EITP_OK
               : eitp__fail(error, EITP_ERROR_ARGUMENT, "unknown optimizer %d (see eitp_optimizer)", (int)optimizer);
}

EITP__PRIVATE const eitp__update_method *eitp__update_method_of(eitp_optimizer optimizer, int rank) {
    const eitp__optimizer *row = &eitp__optimizers[optimizer];
    return rank > 1 ? row->matrices : row->vectors;
}

EITP__PRIVATE const eitp__state_info *eitp__find_state(const eitp__update_method *method, eitp__state_content content,
                                                       eitp__state_form form) {
    for (int i = 0; i < EITP__UPDATE_STATES && method->states[i].kind; i++) {
        const eitp__state_info *state = &method->states[i];
        if (state->content == content && (form == EITP__FORM_NONE || state->form == form))
            return state;
    }
    return NULL;
}
