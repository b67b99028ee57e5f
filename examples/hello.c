/*
 * Teaches: a model of your own, made of tensor ops, trained with AdamW, saved and loaded again. Compile and run:
 *     cc -O2 -I. examples/hello.c -lm -o hello && ./hello
 */
#define EITP_IMPLEMENTATION
#include "eitp.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

enum { POINTS = 64, HIDDEN = 32, STEPS = 1000 };
static const int64_t column[] = {POINTS, 1}, wide[] = {1, HIDDEN}, tall[] = {HIDDEN, 1}, hidden[] = {HIDDEN};
static eitp_error error;

/* EITP_OK is 0: calls that build on each other are chained with ||, and `error` tells what stopped them. */
static void must(bool failed) {
    if (failed)
        exit((fprintf(stderr, "hello: %s\n", error.message), 1));
}

int main(void) {
    eitp_context_config config = eitp_context_config_default();
    eitp_adamw_config adamw = eitp_adamw_config_default();
    eitp_context *context = NULL; /* owns parameters and memory */
    eitp_graph *graph = NULL;     /* says what to compute */
    eitp_plan *plan = NULL;       /* is ready to compute it, and allocates no more */
    eitp_update update;
    float x[POINTS], y[POINTS], learned[POINTS], limit = 1, loss, hyper[2]; /* learning rate, step */
    for (int i = 0; i < POINTS; i++)
        y[i] = sinf(x[i] = 6.0f * (float)i / (POINTS - 1) - 3.0f);
    must(eitp_context_create(&config, &context, &error) || eitp_graph_create(context, &graph, &error));
    eitp_tensor *input = eitp_input(graph, "x", EITP_F32, 2, column);
    eitp_tensor *goal = eitp_input(graph, "y", EITP_F32, 2, column);
    eitp_tensor *bias = eitp_parameter(graph, "bias", 1, hidden);
    eitp_tensor *features = eitp_linear(input, eitp_parameter(graph, "weight", 2, wide), bias, EITP_TANH);
    eitp_tensor *output = eitp_output(eitp_matmul(features, eitp_parameter(graph, "head", 2, tall)));
    eitp_tensor *difference = eitp_subtract(output, goal);
    eitp_tensor *mean = eitp_output(eitp_mean(eitp_multiply(difference, difference), EITP_ALL_DIMENSIONS, 0));
    must(eitp_adamw_minimize(mean, &adamw, &update, &error) || eitp_plan_create(graph, &plan, &error) ||
         eitp_variable_fill_normal(context, "weight", 0, 1, 1, &error)); /* the others start as zeros */
    for (int step = 1; step <= STEPS + 1; step++) {
        if (step > STEPS) /* the parameters are saved, lost and loaded, and a learning rate of 0 leaves them alone */
            must(eitp_variables_save(context, "hello.safetensors", EITP_PARAMETER, EITP_F32, NULL, &error) ||
                 eitp_variable_fill(context, "head", 0, &error) ||
                 eitp_variables_load(context, "hello.safetensors", EITP_PARAMETER, NULL, &error));
        hyper[0] = step > STEPS ? 0 : 0.01f;
        hyper[1] = (float)step;
        must(eitp_plan_write(plan, input, x, sizeof x, &error) || eitp_plan_write(plan, goal, y, sizeof y, &error) ||
             eitp_plan_write(plan, update.hyper, hyper, sizeof hyper, &error) ||
             eitp_plan_write(plan, update.limit, &limit, sizeof limit, &error) || eitp_plan_run(plan, &error) ||
             eitp_plan_read(plan, mean, &loss, 4, &error) || eitp_plan_read(plan, output, learned, sizeof x, &error));
        if (step == 1 || step % 200 == 0 || step > STEPS)
            printf("step %4d  loss %.6f  sin(%.3f) = %.4f\n", step, (double)loss, (double)x[48], (double)learned[48]);
    }
    eitp_plan_destroy(plan), eitp_graph_destroy(graph), eitp_context_destroy(context);
    return loss < 1e-3f ? 0 : 1;
}
