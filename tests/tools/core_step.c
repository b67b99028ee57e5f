/*
 * Trains a small GPT-2 using only the graph, which no switch leaves out. It prints the losses before and after a step;
 * the second must be lower. tests/tools/test_switches.sh links it with reduced implementations.
 */
#include "eitp.h"
#include <stdio.h>
#include <string.h>

enum { TOKENS = 16 };

typedef struct core {
    eitp_context *context;
    eitp_model *model;
    eitp_graph *graph;
    eitp_plan *plan;
    eitp_model_inputs inputs;
    eitp_tensor *targets, *loss;
    eitp_update update;
} core;

static eitp_status create_model(core *c, eitp_error *error) {
    const eitp_context_config settings = eitp_context_config_default();
    eitp_transformer_config shape = eitp_transformer_config_default();
    eitp_status status = eitp_context_create(&settings, &c->context, error);
    if (!status)
        status = eitp_transformer_config_named("tiny", &shape, error);
    shape.vocabulary = 32;
    if (!status)
        status = eitp_model_create(c->context, &shape, &c->model, error);
    return status ? status : eitp_model_initialize(c->model, 1, error);
}

static eitp_status create_plan(core *c, eitp_error *error) {
    const int64_t tokens[] = {TOKENS};
    const eitp_optimizer_config optimizer = eitp_optimizer_config_default();
    eitp_status status = eitp_graph_create(c->context, &c->graph, error);
    if (status)
        return status;
    c->inputs = eitp_model_inputs_create(c->graph, 1, TOKENS, 0);
    c->targets = eitp_input_rows(c->graph, "targets", EITP_I32, 1, tokens);
    c->loss = eitp_output(eitp_sum(eitp_model_losses(c->model, c->graph, &c->inputs, TOKENS, c->targets, -1), 1, 0));
    status = eitp_minimize(c->loss, &optimizer, &c->update, error);
    return status ? status : eitp_plan_create(c->graph, &c->plan, error);
}

static eitp_status write_inputs(core *c, int step, eitp_error *error) {
    const float rate[] = {1e-2f, (float)step}, no_limit = 0;
    const int32_t offsets[] = {0, TOKENS};
    int32_t tokens[TOKENS], targets[TOKENS], positions[TOKENS];
    eitp_status status = eitp_plan_set_rows(c->plan, TOKENS, error);
    for (int i = 0; i < TOKENS; i++) {
        tokens[i] = i * 7 % 32;
        targets[i] = (i + 1) * 7 % 32;
    }
    eitp_model_fill_positions(c->model, tokens, TOKENS, positions);
    if (!status)
        status = eitp_plan_write(c->plan, c->inputs.tokens, tokens, sizeof tokens, error);
    if (!status)
        status = eitp_plan_write(c->plan, c->inputs.positions, positions, sizeof positions, error);
    if (!status)
        status = eitp_plan_write(c->plan, c->inputs.offsets, offsets, sizeof offsets, error);
    if (!status)
        status = eitp_plan_write(c->plan, c->targets, targets, sizeof targets, error);
    if (!status)
        status = eitp_plan_write(c->plan, c->update.rate_and_step, rate, sizeof rate, error);
    return status ? status : eitp_plan_write(c->plan, c->update.max_norm, &no_limit, sizeof no_limit, error);
}

static eitp_status step(core *c, int number, float *loss, eitp_error *error) {
    eitp_status status = write_inputs(c, number, error);
    if (!status)
        status = eitp_plan_execute(c->plan, error);
    return status ? status : eitp_plan_read(c->plan, c->loss, loss, sizeof *loss, error);
}

int main(void) {
    core c;
    eitp_error error;
    float before = 0, after = 0;
    int failed;
    memset(&c, 0, sizeof c);
    failed = create_model(&c, &error) || create_plan(&c, &error) || step(&c, 1, &before, &error) ||
             step(&c, 2, &after, &error);
    if (failed)
        puts(error.message);
    else
        printf("loss %.3f, after a step %.3f\n", before, after);
    eitp_plan_destroy(c.plan);
    eitp_graph_destroy(c.graph);
    eitp_model_destroy(c.model);
    eitp_context_destroy(c.context);
    return failed || !(after < before);
}
