#include "train/controllers.h"

#include "base/status.h"
#include "objective/objective_settings.h"
#include "tensor/variable.h"

#define EITP__CONTROLLER_STATE "objective.controllers"

/* The state of a regularizer. It starts as zeros, so every factor is 1. */
typedef struct eitp__controller_state {
    double offset; /* dual: logarithm of the factor; pi: the factor minus 1 */
    double error;  /* pi: the last error */
    double steps;  /* steps that changed the state */
} eitp__controller_state;

enum { EITP__CONTROLLER_VALUES = sizeof(eitp__controller_state) / sizeof(double) };

EITP__PRIVATE eitp_status eitp__controllers_create(eitp_context *context, const eitp_objective_config *config,
                                                   eitp_error *error) {
    const int64_t shape[2] = {EITP_REGULARIZERS, EITP__CONTROLLER_VALUES};
    int64_t index;
    if (config->controller == EITP_CONTROLLER_CONST)
        return EITP_OK;
    return eitp__variable_declare(context, EITP__CONTROLLER_STATE, EITP_OPTIMIZER, EITP_F64, 2, shape, &index, error);
}

static eitp_status eitp__controllers_load(eitp_context *context, eitp__controller_state states[EITP_REGULARIZERS],
                                          eitp_error *error) {
    return eitp_variable_read(context, EITP__CONTROLLER_STATE, 0, states, EITP_REGULARIZERS * sizeof *states, error);
}

static double eitp__controller_factor(const eitp_objective_config *config, const eitp__controller_state *state) {
    const double factor = config->controller == EITP_CONTROLLER_DUAL ? exp(state->offset) : 1 + state->offset;
    const double least = factor > config->controller_min ? factor : config->controller_min;
    return least < config->controller_max ? least : config->controller_max;
}

/* True if a controller sets the factor of the regularizer. */
static int eitp__is_controlled(const eitp_objective_config *config, int regularizer) {
    const eitp_regularizer_config *term = &config->terms[regularizer];
    return config->controller != EITP_CONTROLLER_CONST && term->mode == EITP_TERM_LOSS && fabs(term->target) > 0;
}

EITP__PRIVATE eitp_status eitp__controllers_read(eitp_context *context, const eitp_objective_config *config,
                                                 eitp__controllers *controllers, eitp_error *error) {
    eitp__controller_state states[EITP_REGULARIZERS];
    eitp_status status = EITP_OK;
    controllers->kind = config->controller;
    if (config->controller != EITP_CONTROLLER_CONST)
        status = eitp__controllers_load(context, states, error);
    for (int i = 0; i < EITP_REGULARIZERS && !status; i++)
        controllers->factors[i] = eitp__is_controlled(config, i) ? eitp__controller_factor(config, &states[i]) : 1;
    return status;
}

/* Returns the offset that keeps the factor within its bounds. */
static double eitp__bounded_offset(const eitp_objective_config *config, double offset) {
    eitp__controller_state state = EITP__ZERO;
    state.offset = offset;
    return config->controller == EITP_CONTROLLER_DUAL ? log(fmax(eitp__controller_factor(config, &state), 1e-300))
                                                      : eitp__controller_factor(config, &state) - 1;
}

/* Dual: gradient ascent on the logarithm of the multiplier for the constraint "value <= target" (Rezende and Viola,
   arXiv 1810.00597). PI: proportional to the change of the error, and to the error. */
static void eitp__control(const eitp_objective_config *config, double value, double target,
                          eitp__controller_state *state) {
    const double error = value - target, before = state->steps > 0 ? state->error : error;
    double change = config->controller_rate * error;
    if (!isfinite(value))
        return;
    if (config->controller == EITP_CONTROLLER_DUAL)
        change /= fabs(target);
    else
        change += config->controller_proportional * (error - before);
    state->offset = eitp__bounded_offset(config, state->offset + change);
    state->error = error;
    state->steps += 1;
}

EITP__PRIVATE eitp_status eitp__controllers_update(eitp_context *context, const eitp_objective_config *config,
                                                   const eitp_step_report *report, eitp_error *error) {
    eitp__controller_state states[EITP_REGULARIZERS];
    eitp_status status;
    if (config->controller == EITP_CONTROLLER_CONST || !report->applied)
        return EITP_OK;
    status = eitp__controllers_load(context, states, error);
    for (int i = 0; i < EITP_REGULARIZERS && !status; i++) {
        const char *name = eitp__regularizer_name((eitp_regularizer)i);
        for (int t = 0; t < report->term_count && eitp__is_controlled(config, i); t++) {
            if (!strcmp(report->terms[t].name, name))
                eitp__control(config, report->terms[t].mean, config->terms[i].target, &states[i]);
        }
    }
    return status ? status : eitp_variable_write(context, EITP__CONTROLLER_STATE, 0, states, sizeof states, error);
}
