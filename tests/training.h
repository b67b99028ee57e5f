/* Steps that train the small transformer with AdamW, for tests of plans and of what runs them. */
#ifndef EITP_TEST_TRAINING_H
#define EITP_TEST_TRAINING_H

#include "tests/transformer.h"

/* A training step's graph, its plan, and what it takes to run it. The context is the caller's. */
typedef struct training {
    eitp_context *context;
    eitp_graph *graph;
    transformer t;
    eitp_update update;
    eitp_plan *plan;
} training;

/* Without `adamw` with its defaults. training_end is called after a failure too. Sets no parameter. */
static GRAPHS_UNUSED eitp_status training_begin(training *s, eitp_context *context, const transformer_config *config,
                                                const eitp_optimizer_config *adamw, eitp_error *error) {
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
        status = eitp_minimize(s->t.loss, adamw ? adamw : &defaults, &s->update, error);
    return status ? status : eitp_plan_create(s->graph, &s->plan, error);
}

/* Begins with AdamW's defaults and the parameters' first values; whether it did. */
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

/* Runs step `step`, 1 and more, with gradients clipped to the norm `limit`; the loss may be NULL. */
static GRAPHS_UNUSED eitp_status training_step(training *s, int64_t step, float limit, float *loss, eitp_error *error) {
    const float hyper[2] = {0.01f, (float)step};
    eitp_status status;
    transformer_write(&s->t, s->plan, s->t.config.rows, step);
    status = eitp_plan_write(s->plan, s->update.hyper, hyper, sizeof hyper, error);
    if (!status)
        status = eitp_plan_write(s->plan, s->update.limit, &limit, sizeof limit, error);
    if (!status)
        status = eitp_plan_execute(s->plan, error);
    return status || !loss ? status : eitp_plan_read(s->plan, s->t.loss, loss, sizeof *loss, error);
}

#endif
