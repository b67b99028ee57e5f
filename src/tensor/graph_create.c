/*
 * Creation and destruction of graphs. Apart from graph.c because it refers to the table of ops, and ops call graph.c.
 */
#include "tensor/context.h"
#include "tensor/graph.h"

eitp_status eitp_graph_create(eitp_context *context, eitp_graph **graph, eitp_error *error) {
    if (!context || !graph)
        return eitp__fail_null(error, "eitp_graph_create", "context and graph");
    *graph = (eitp_graph *)eitp__allocate(&context->host, sizeof **graph);
    if (!*graph)
        return eitp__fail_memory(error, sizeof **graph, "a graph");
    (*graph)->context = context;
    (*graph)->ops = eitp__op_table();
    context->graph_count++;
    (*graph)->capacity = -1;
    return EITP_OK;
}

void eitp_graph_destroy(eitp_graph *graph) {
    const eitp_host *host;
    if (!graph)
        return;
    host = &graph->context->host;
    graph->context->graph_count--;
    while (graph->blocks) {
        eitp__graph_block *block = graph->blocks;
        graph->blocks = block->next;
        eitp__release(host, block, block->size);
    }
    eitp__release(host, graph->tensors, graph->tensor_capacity * sizeof *graph->tensors);
    eitp__release(host, graph->nodes, graph->node_capacity * sizeof *graph->nodes);
    eitp__release(host, graph->variables, graph->variable_capacity * sizeof *graph->variables);
    eitp__release(host, graph, sizeof *graph);
}
