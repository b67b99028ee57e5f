/* The first pass of a plan: finds the needed nodes, and expands those that the backend has no kernel for. */
#include "tensor/plan.h"

/* True if the node changes a variable. */
static int eitp__is_update(const eitp__node *node) {
    int shares = 0;
    for (int i = 0; i < node->output_count; i++)
        shares |= eitp__shared_input(node, i) != NULL;
    return shares && !eitp__is_view(node);
}

/* Needed nodes that were not visited yet. This list and plan->needed grow with the graph while nodes are expanded. */
typedef struct eitp__lowering {
    eitp_plan *plan;
    int *pending;
    size_t pending_count, pending_capacity;
} eitp__lowering;

static int eitp__lowering_reserve(eitp__lowering *lowering) {
    const eitp_host *host = &lowering->plan->context->host;
    eitp_plan *plan = lowering->plan;
    size_t old = plan->needed_capacity, nodes = plan->graph->node_count;
    if (!eitp__reserve(host, (void **)&plan->needed, &plan->needed_capacity, nodes, 1) ||
        !eitp__reserve(host, (void **)&lowering->pending, &lowering->pending_capacity, nodes,
                       sizeof *lowering->pending)) {
        eitp__graph_fail(plan->graph, EITP_ERROR_MEMORY, "cannot allocate the list of needed nodes");
        return 0;
    }
    if (plan->needed_capacity > old)
        memset(plan->needed + old, 0, plan->needed_capacity - old);
    return 1;
}

static void eitp__mark_needed_node(eitp__lowering *lowering, const eitp__node *node) {
    if (lowering->plan->needed[node->id])
        return;
    lowering->plan->needed[node->id] = 1;
    lowering->pending[lowering->pending_count++] = node->id;
}

static void eitp__mark_needed_tensor(eitp__lowering *lowering, eitp_tensor *tensor) {
    tensor = eitp__lowered(tensor);
    if (tensor && tensor->node)
        eitp__mark_needed_node(lowering, tensor->node);
}

/* Replaces a node by its expansion, which takes its place in the order. */
static void eitp__expand_in_plan(eitp__lowering *lowering, eitp__node *node) {
    eitp_graph *graph = lowering->plan->graph;
    const size_t first = graph->node_count;
    const eitp__origin origin = graph->origin;
    eitp_tensor *outputs[EITP__MAX_OUTPUTS] = EITP__ZERO;
    int is_expanded;
    graph->origin = node->origin;
    is_expanded = eitp__expand_node(node, outputs);
    graph->origin = origin;
    if (!is_expanded) {
        eitp__graph_fail(graph, EITP_ERROR_UNSUPPORTED, "%s has no kernel for %s on this device",
                         eitp__op(node->graph, node->op)->name, eitp_dtype_name(eitp__node_dtype(node)));
        return;
    }
    if (graph->error.status || !eitp__lowering_reserve(lowering))
        return;
    for (size_t n = first; n < graph->node_count; n++) {
        graph->nodes[n]->order = node->order;
        graph->nodes[n]->part = node->part;
    }
    lowering->plan->needed[node->id] = 0;
    for (int i = 0; i < node->output_count; i++) {
        if (!outputs[i] || outputs[i] == node->outputs[i])
            continue;
        node->outputs[i]->lowered = outputs[i];
        eitp__mark_needed_tensor(lowering, outputs[i]);
    }
}

/* Marks what the needed nodes need, transitively. */
static void eitp__lower_pending(eitp__lowering *lowering) {
    eitp_graph *graph = lowering->plan->graph;
    while (lowering->pending_count && !graph->error.status) {
        eitp__node *node = graph->nodes[lowering->pending[--lowering->pending_count]];
        lowering->plan->visits.lower++;
        if (!eitp__is_view(node) && !eitp__has_kernel(node)) {
            eitp__expand_in_plan(lowering, node);
            continue;
        }
        for (int i = 0; i < node->input_count; i++)
            eitp__mark_needed_tensor(lowering, node->inputs[i]);
    }
}

EITP__PRIVATE eitp_status eitp__plan_lower(eitp_plan *plan, eitp_error *error) {
    eitp_graph *graph = plan->graph;
    const eitp_host *host = &plan->context->host;
    eitp__lowering lowering = EITP__ZERO;
    eitp_status status;
    int roots = 0;
    lowering.plan = plan;
    if (eitp__lowering_reserve(&lowering)) {
        for (size_t t = 0; t < graph->tensor_count; t++) {
            roots |= graph->tensors[t]->is_output;
            if (graph->tensors[t]->is_output)
                eitp__mark_needed_tensor(&lowering, graph->tensors[t]);
        }
        for (size_t n = 0; n < graph->node_count; n++) {
            if (!eitp__is_update(graph->nodes[n]))
                continue;
            roots = 1;
            eitp__mark_needed_node(&lowering, graph->nodes[n]);
        }
        eitp__lower_pending(&lowering);
    }
    status = eitp_graph_status(graph, error);
    if (!status && !roots)
        status = eitp__fail(error, EITP_ERROR_ARGUMENT,
                            "the graph has no output and no update; mark what you want to read with eitp_output");
    eitp__release(host, lowering.pending, lowering.pending_capacity * sizeof *lowering.pending);
    return status;
}
