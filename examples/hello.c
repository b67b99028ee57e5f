/* Demonstrates a model built from tensor ops, which learns the sine: cc -O2 -I. examples/hello.c -lm */
#define EITP_IMPLEMENTATION
#include "eitp.h"
#include <math.h>
#include <stdio.h>

static const int64_t one[] = {1}, wide[] = {1, 32}, tall[] = {32, 1};

/* Adds inputs, parameters, ops and the loss to the graph. Each row is a sample. */
static eitp_status build(void *user, eitp_pass *pass, eitp_error *error) {
    eitp_graph *graph = ((void)user, eitp_pass_graph(pass));
    eitp_tensor *x = eitp_pass_row_input(pass, "x", EITP_F32, 1, one, 0);
    eitp_tensor *y = eitp_pass_row_input(pass, "y", EITP_F32, 1, one, 0);
    eitp_tensor *weight = eitp_parameter(graph, "weight", 2, wide), *head = eitp_parameter(graph, "head", 2, tall);
    eitp_tensor *miss = eitp_subtract(eitp_matmul(eitp_tanh(eitp_matmul(x, weight)), head), y);
    eitp_pass_term(pass, "squared error", eitp_multiply(miss, miss), NULL);
    return eitp_graph_status(graph, error);
}

/* Fills in one sample: a point between -3 and 3, and its sine. */
static eitp_status draw(void *user, eitp_split split, uint64_t number, eitp_sample *sample, eitp_error *error) {
    float *x = (float *)sample->values[0], *y = (float *)sample->values[1];
    *x = 6 * (float)number / 999 - 3;
    return (void)user, (void)split, (void)error, *y = sinf(*x), EITP_OK;
}

int main(void) {
    const eitp_context_config settings = eitp_context_config_default();
    eitp_trainer_config config = eitp_trainer_config_default();
    eitp_task task = {0};
    eitp_trainer *trainer = NULL;
    eitp_step_report step = {0};
    eitp_error error = {EITP_OK, "trained", 0};
    task.rows = 1, task.samples[0] = 1000, task.build = build, task.read = draw, config.schedule.peak = 0.01;
    int ok = !eitp_context_create(&settings, &task.context, &error) &&
             !eitp_trainer_create(&task, &config, &trainer, &error) &&
             !eitp_variable_fill_normal(task.context, "weight", 0, 1, 1, &error); /* the others start at 0 */
    while (ok && step.step < 4000)
        ok = !eitp_trainer_step(trainer, &step, &error);
    printf("%s: squared error %g after step %d\n", error.message, step.loss, (int)step.step);
    return eitp_trainer_destroy(trainer), eitp_context_destroy(task.context), step.loss > 1e-2;
}
