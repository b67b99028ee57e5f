/* Training steps of the small transformer with AdamW, for tests of plans and their execution. */
#ifndef EITP_TEST_TRAINING_H
#define EITP_TEST_TRAINING_H

#include "tests/support/transformer.h"

/* The graph and plan of a training step. The caller owns the context. */
typedef struct training {
    eitp_context *context;
    eitp_graph *graph;
    transformer t;
    eitp_update update;
    eitp_plan *plan;
} training;

/* Uses AdamW's defaults if optimizer is NULL. Call training_end after a failure too. Sets no parameter. */
static GRAPHS_UNUSED eitp_status training_begin(training *s, eitp_context *context, const transformer_config *config,
                                                const eitp_optimizer_config *optimizer, eitp_error *error) {
    const eitp_optimizer_config defaults = eitp_optimizer_config_default();
    eitp_status status;
    memset(s, 0, sizeof *s);
    s->context = context;
    status = eitp_graph_create(context, &s->graph, error);
    if (status)
        return status;
    s->t = transformer_make(s->graph, config);
    eitp_output(s->t.loss);
    status = eitp_graph_status(s->graph, error);
    if (!status)
        status = eitp_minimize(s->t.loss, optimizer ? optimizer : &defaults, &s->update, error);
    return status ? status : eitp_plan_create(s->graph, &s->plan, error);
}

/* Starts with AdamW's defaults and initialized parameters. Returns 0 after a failure. */
static GRAPHS_UNUSED int training_begin_initialized(training *s, eitp_context *context,
                                                    const transformer_config *config) {
    eitp_error error = EITP__ZERO;
    eitp_status status = training_begin(s, context, config, NULL, &error);
    CHECK_THAT(!status, "%s", error.message);
    if (!status)
        transformer_initialize(context);
    return !status;
}

static GRAPHS_UNUSED void training_end(training *s) {
    eitp_plan_destroy(s->plan);
    eitp_graph_destroy(s->graph);
}

/* Executes step `step`, from 1, with gradients clipped to the norm `limit`; `loss` may be NULL. */
static GRAPHS_UNUSED eitp_status training_step(training *s, int64_t step, float limit, float *loss, eitp_error *error) {
    const float hyper[2] = {0.01f, (float)step};
    eitp_status status;
    transformer_write(&s->t, s->plan, s->t.config.rows, step);
    status = eitp_plan_write(s->plan, s->update.rate_and_step, hyper, sizeof hyper, error);
    if (!status)
        status = eitp_plan_write(s->plan, s->update.max_norm, &limit, sizeof limit, error);
    if (!status)
        status = eitp_plan_execute(s->plan, error);
    return status || !loss ? status : eitp_plan_read(s->plan, s->t.loss, loss, sizeof *loss, error);
}

#endif
