/*
 * Demonstrates tensor names, and a listing of a model's operations with their order and memory. Compile and run:
 *     cc -O2 -I. examples/graph.c -lm -o graph && ./graph
 *     ./graph dot | dot -Tsvg >graph.svg
 */
#define EITP_IMPLEMENTATION
#include "eitp.h"

#include <stdio.h>
#include <stdlib.h>

enum { ROWS = 32, IN = 8, HIDDEN = 64, CLASSES = 3 };

/* A hidden layer, the scores of three classes, their loss, and its gradients. */
static eitp_status build(eitp_graph *graph, eitp_error *error) {
    const int64_t rows[2] = {ROWS, IN}, first[2] = {IN, HIDDEN}, second[2] = {HIDDEN, CLASSES};
    eitp_tensor *x = eitp_input_rows(graph, "x", EITP_F32, 2, rows);
    eitp_tensor *labels = eitp_input_rows(graph, "labels", EITP_I32, 1, rows);
    eitp_tensor *weight = eitp_parameter(graph, "hidden.weight", 2, first);
    eitp_tensor *bias = eitp_parameter(graph, "hidden.bias", 1, first + 1);
    eitp_tensor *hidden = eitp_tensor_set_name(eitp_linear(x, weight, bias, EITP_GELU_TANH), "hidden");
    eitp_tensor *scores = eitp_matmul(hidden, eitp_parameter(graph, "scores.weight", 2, second));
    eitp_tensor *losses = eitp_cross_entropy(eitp_tensor_set_name(scores, "scores"), labels, -100);
    eitp_tensor *loss = eitp_output(eitp_tensor_set_name(eitp_sum(losses, EITP_ALL_DIMENSIONS, 0), "loss"));
    return eitp_accumulate_gradients(loss, NULL, error);
}

/* Prints the listing. The first call returns its length. */
static eitp_status print_graph(const eitp_graph *graph, const eitp_plan *plan, eitp_graph_listing listing,
                               eitp_error *error) {
    size_t size;
    eitp_status status = eitp_graph_format(graph, plan, listing, NULL, 0, &size, error);
    char *text = status ? NULL : (char *)malloc(size + 1);
    if (text && !(status = eitp_graph_format(graph, plan, listing, text, size + 1, &size, error)))
        fputs(text, stdout);
    free(text);
    return status;
}

int main(int count, char **arguments) {
    const eitp_graph_listing listing = count > 1 && arguments[1][0] == 'd' ? EITP_GRAPH_DOT : EITP_GRAPH_TEXT;
    const eitp_context_config settings = eitp_context_config_default();
    eitp_context *context = NULL;
    eitp_graph *graph = NULL;
    eitp_plan *plan = NULL;
    eitp_error error;
    int failed = eitp_context_create(&settings, &context, &error) || eitp_graph_create(context, &graph, &error) ||
                 build(graph, &error) || eitp_plan_create(graph, &plan, &error) ||
                 print_graph(graph, plan, listing, &error);
    if (failed)
        fprintf(stderr, "%s\n", error.message);
    eitp_plan_destroy(plan);
    eitp_graph_destroy(graph);
    eitp_context_destroy(context);
    return failed;
}
