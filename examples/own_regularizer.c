/*
 * Demonstrates your own regularizers, added to a task of the library. One is a statistic of the hidden states: the
 * squared length of each sequence's mean state. The other is a penalty on a parameter and does not depend on samples.
 * Compile and run:
 *     cc -O2 -I. examples/own_regularizer.c -lm -o own_regularizer && ./own_regularizer
 */
#define EITP_IMPLEMENTATION
#include "eitp.h"
#include <stdio.h>

enum { VOCABULARY = 32, LENGTH = 16, WIDTH = 32, TOKENS = 4096, STEPS = 200 };
static eitp_error error;

/*
 * Returns F32 [groups]. Here, a group is a sequence. Rows after the last one of a group are 0 and do not contribute to
 * sums.
 */
static eitp_tensor *drift(eitp_pass *pass, const eitp_model *model) {
    eitp_tensor *hidden = eitp_model_tap(model, eitp_pass_graph(pass), EITP_TAP_FINAL, 0), *rows, *mean;
    eitp_tensor *states = eitp_pass_by_group(pass, eitp_cast(hidden, EITP_F32)); /* [groups, rows, width] */
    eitp_tensor *one = eitp_fill(eitp_pass_graph(pass), EITP_F32, 1, (const int64_t[]){1}, 1);
    rows = eitp_maximum(eitp_sum(eitp_pass_group_mask(pass), 2u, 1), one); /* [groups, 1]; 1 for empty groups */
    mean = eitp_divide(eitp_reshape(eitp_sum(states, 2u, 0), 2, (const int64_t[]){-1, WIDTH}), rows);
    return eitp_reshape(eitp_sum(eitp_multiply(mean, mean), 2u, 0), 1, (const int64_t[]){-1});
}

/* Returns F32 [1]: the sum of squares of the token embedding. */
static eitp_tensor *squares(void *user, eitp_graph *graph) {
    const int64_t shape[] = {VOCABULARY, WIDTH};
    eitp_tensor *w = eitp_variable_tensor(graph, "transformer.wte.weight", EITP_PARAMETER, EITP_F32, 2, shape);
    return (void)user, eitp_sum(eitp_multiply(w, w), EITP_ALL_DIMENSIONS, 0);
}

static eitp_status extend(void *user, eitp_pass *pass, eitp_error *why) {
    eitp_term_schedule often = eitp_term_schedule_default(), late = often;
    often.weight = 0.01;
    late.weight = 0.001;
    late.start = STEPS / 2;
    eitp_pass_statistic(pass, "drift", drift(pass, (const eitp_model *)user), &often);
    eitp_pass_penalty(pass, "squares", squares, NULL, &late);
    return eitp_graph_status(eitp_pass_graph(pass), why);
}

static void print(const eitp_step_report *step) {
    printf("step %3d: loss %.4f =", (int)step->step, step->loss);
    for (int i = 0; i < step->term_count; i++)
        printf("%s %g * %s %.4f", i ? " +" : "", step->terms[i].weight, step->terms[i].name, step->terms[i].mean);
    printf("\n");
}

int main(void) {
    static int32_t tokens[TOKENS];
    const eitp_token_range all = {0, TOKENS};
    eitp_context_config settings = eitp_context_config_default();
    eitp_language_config data = eitp_language_config_default();
    eitp_trainer_config training = eitp_trainer_config_default();
    eitp_transformer_config shape;
    eitp_context *context = NULL;
    eitp_task task = {0};
    eitp_trainer *trainer = NULL;
    eitp_step_report step = {0};
    eitp_status status = eitp_transformer_config_named("tiny", &shape, &error);
    settings.precision = "fp32", training.schedule.peak = 3e-3, data.block_size = LENGTH;
    shape.vocabulary = VOCABULARY, shape.positions = LENGTH, shape.width = WIDTH, shape.heads = 2, shape.layers = 2;
    for (int i = 0; i < TOKENS; i++)
        tokens[i] = i % 5 * (i % 7) % VOCABULARY;
    data.training = eitp_token_memory_source(tokens, TOKENS, all);
    if (!status && !(status = eitp_context_create(&settings, &context, &error)) &&
        !(status = eitp_model_create(context, &shape, &data.model, &error)) &&
        !(status = eitp_model_initialize(data.model, 1, &error)) &&
        !(status = eitp_language_task(&data, &task, &error))) {
        task.extend = extend, task.extension = data.model;
        status = eitp_trainer_create(&task, &training, &trainer, &error);
    }
    while (!status && step.step < STEPS && !(status = eitp_trainer_step(trainer, &step, &error)))
        if (step.step == 1 || step.step % 50 == 0)
            print(&step);
    eitp_trainer_destroy(trainer), eitp_task_release(&task), eitp_model_destroy(data.model);
    eitp_context_destroy(context);
    return status ? fprintf(stderr, "own_regularizer: %s\n", error.message), 1 : 0;
}
