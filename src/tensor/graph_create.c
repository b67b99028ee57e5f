/* Creation and destruction of graphs. Separate from graph.c because it refers to the table of ops, and ops call
   graph.c. */
#include "tensor/context.h"
#include "tensor/graph.h"

/* Fills in the context's table of ops for its first graph. */
static eitp_status eitp__reserve_ops(eitp_context *context, eitp_error *error) {
    const size_t bytes = EITP__OP_COUNT * sizeof *context->ops;
    if (context->ops)
        return EITP_OK;
    context->ops = (eitp__op_info *)eitp__allocate(&context->host, bytes);
    if (!context->ops)
        return eitp__fail_memory(error, bytes, "the table of ops");
    context->ops_bytes = bytes;
    eitp__fill_op_table(context->ops);
    return EITP_OK;
}

eitp_status eitp_graph_create(eitp_context *context, eitp_graph **graph, eitp_error *error) {
    eitp_status status;
    if (!context || !graph)
        return eitp__fail_null(error, "eitp_graph_create", "context and graph");
    *graph = NULL;
    status = eitp__reserve_ops(context, error);
    if (status)
        return status;
    *graph = (eitp_graph *)eitp__allocate(&context->host, sizeof **graph);
    if (!*graph)
        return eitp__fail_memory(error, sizeof **graph, "a graph");
    (*graph)->context = context;
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
