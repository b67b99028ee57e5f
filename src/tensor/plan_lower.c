/* The first passes of a plan: what is needed, what must be expanded, what can be fused. */
#include "tensor/plan.h"

EITP__PRIVATE eitp_tensor *eitp__lowered(eitp_tensor *tensor) {
    while (tensor && tensor->lowered)
        tensor = tensor->lowered;
    return tensor;
}

EITP__PRIVATE int eitp__is_view(const eitp__node *node) {
    return node->op == EITP__OP_RESHAPE || node->op == EITP__OP_STOP_GRADIENT;
}

/* Does the node change a variable? */
static int eitp__mutates(const eitp__node *node) {
    int shares = 0;
    for (int i = 0; i < node->output_count; i++)
        shares |= eitp__op(node->op)->shares[i];
    return shares && !eitp__is_view(node);
}

EITP__PRIVATE eitp_dtype eitp__node_dtype(const eitp__node *node) {
    if (node->op == EITP__OP_CAST)
        return node->outputs[0]->dtype;
    if (node->op == EITP__OP_WHERE || node->op == EITP__OP_SCATTER_ADD)
        return node->inputs[1]->dtype;
    for (int i = 0; i < node->input_count; i++) {
        if (node->inputs[i] && eitp__is_floating(node->inputs[i]->dtype))
            return node->inputs[i]->dtype;
    }
    return node->input_count ? node->inputs[0]->dtype : node->outputs[0]->dtype;
}

static int eitp__supported(const eitp_plan *plan, const eitp__node *node) {
    const eitp__backend *backend = plan->context->backend;
    return eitp__is_view(node) || backend->interface->supports(backend, (eitp__slot)node->op, eitp__node_dtype(node));
}

/* What is needed, by node id, and which of these were not looked at yet. Grows with the graph while nodes are expanded.
 */
typedef struct eitp__lowering {
    eitp_plan *plan;
    unsigned char *needed;
    size_t capacity;
    int *pending;
    size_t pending_count, pending_capacity;
} eitp__lowering;

static int eitp__lowering_reserve(eitp__lowering *lowering) {
    const eitp_host *host = &lowering->plan->context->host;
    size_t old = lowering->capacity, nodes = lowering->plan->graph->node_count;
    if (!eitp__reserve(host, (void **)&lowering->needed, &lowering->capacity, nodes, 1) ||
        !eitp__reserve(host, (void **)&lowering->pending, &lowering->pending_capacity, nodes,
                       sizeof *lowering->pending)) {
        eitp__graph_fail(lowering->plan->graph, EITP_ERROR_MEMORY, "cannot allocate the list of needed nodes");
        return 0;
    }
    if (lowering->capacity > old)
        memset(lowering->needed + old, 0, lowering->capacity - old);
    return 1;
}

static void eitp__need_node(eitp__lowering *lowering, const eitp__node *node) {
    if (lowering->needed[node->id])
        return;
    lowering->needed[node->id] = 1;
    lowering->pending[lowering->pending_count++] = node->id;
}

static void eitp__need(eitp__lowering *lowering, eitp_tensor *tensor) {
    tensor = eitp__lowered(tensor);
    if (tensor && tensor->node)
        eitp__need_node(lowering, tensor->node);
}

/* Replaces a node by primitives; they take its place in the order. */
static void eitp__expand_in_plan(eitp__lowering *lowering, eitp__node *node) {
    eitp_graph *graph = lowering->plan->graph;
    size_t first = graph->node_count;
    eitp_tensor *outputs[EITP__MAX_OUTPUTS] = EITP__ZERO;
    if (!eitp__expand_node(node, outputs)) {
        eitp__graph_fail(graph, EITP_ERROR_UNSUPPORTED, "%s has no kernel for %s on this device",
                         eitp__op(node->op)->name, eitp_dtype_name(eitp__node_dtype(node)));
        return;
    }
    if (graph->error.status || !eitp__lowering_reserve(lowering))
        return;
    for (size_t n = first; n < graph->node_count; n++)
        graph->nodes[n]->order = node->order;
    lowering->needed[node->id] = 0;
    for (int i = 0; i < node->output_count; i++) {
        if (!outputs[i] || outputs[i] == node->outputs[i])
            continue;
        node->outputs[i]->lowered = outputs[i];
        eitp__need(lowering, outputs[i]);
    }
}

/* Marks what the needed nodes need, until there is nothing new. */
static void eitp__lower_pending(eitp__lowering *lowering) {
    eitp_graph *graph = lowering->plan->graph;
    while (lowering->pending_count && !graph->error.status) {
        eitp__node *node = graph->nodes[lowering->pending[--lowering->pending_count]];
        if (!eitp__supported(lowering->plan, node)) {
            eitp__expand_in_plan(lowering, node);
            continue;
        }
        for (int i = 0; i < node->input_count; i++)
            eitp__need(lowering, node->inputs[i]);
    }
}

/* Uses of each tensor's value, by needed nodes and by whoever reads outputs; by the id of the tensor. */
static void eitp__count_uses(const eitp__lowering *lowering, int *uses) {
    const eitp_graph *graph = lowering->plan->graph;
    for (size_t n = 0; n < graph->node_count; n++) {
        if (!lowering->needed[n])
            continue;
        for (int i = 0; i < graph->nodes[n]->input_count; i++) {
            eitp_tensor *x = eitp__lowered(graph->nodes[n]->inputs[i]);
            if (x)
                uses[x->id]++;
        }
    }
    for (size_t t = 0; t < graph->tensor_count; t++) {
        if (graph->tensors[t]->is_output)
            uses[eitp__lowered(graph->tensors[t])->id]++;
    }
}

/* Does the node read the memory of this variable? */
static int eitp__reads_storage(const eitp__node *node, const eitp_tensor *variable) {
    for (int i = 0; i < node->input_count; i++) {
        eitp_tensor *x = eitp__lowered(node->inputs[i]);
        while (x && x->storage != x)
            x = eitp__lowered(x->storage);
        if (x == variable)
            return 1;
    }
    return 0;
}

/* The tensor that an accumulation alone uses, views looked through; NULL where something else needs it too. */
static const eitp_tensor *eitp__accumulated_value(const eitp__node *accumulation, const int *uses) {
    const eitp_tensor *value = eitp__lowered(accumulation->inputs[1]);
    while (uses[value->id] == 1 && !value->is_output && value->node && eitp__is_view(value->node))
        value = eitp__lowered(value->node->inputs[0]);
    return uses[value->id] == 1 && !value->is_output ? value : NULL;
}

/*
 * Stores the accumulations that node can do itself, one for each of its outputs, and returns 1; returns 0 where its
 * kernel cannot, an output goes elsewhere, the node reads what it would change, or the accumulations carry differently.
 * `accumulations` is by tensor id.
 */
static int eitp__absorb(const eitp__node *node, eitp__node *const *accumulations, eitp__node **absorbed) {
    if (!eitp__op(node->op)->accumulates)
        return 0;
    for (int i = 0; i < node->output_count; i++) {
        eitp__node *accumulation = accumulations[node->outputs[i]->id];
        if (!accumulation || eitp__reads_storage(node, accumulation->inputs[0]->storage) ||
            (i && eitp__lowered(accumulation->inputs[2]) != eitp__lowered(absorbed[0]->inputs[2])))
            return 0;
        absorbed[i] = accumulation;
    }
    return 1;
}

/* Finds, for each tensor, the accumulation that alone uses it. */
static void eitp__find_accumulations(const eitp__lowering *lowering, const int *uses, eitp__node **accumulations) {
    const eitp_graph *graph = lowering->plan->graph;
    for (size_t n = 0; n < graph->node_count; n++) {
        const eitp_tensor *value = NULL;
        if (lowering->needed[n] && graph->nodes[n]->op == EITP__OP_ACCUMULATE)
            value = eitp__accumulated_value(graph->nodes[n], uses);
        if (value)
            accumulations[value->id] = graph->nodes[n];
    }
}

static int eitp__add_step(eitp__lowering *lowering, eitp__node *node, eitp__node *const *accumulations) {
    eitp_plan *plan = lowering->plan;
    eitp__node *absorbed[EITP__MAX_OUTPUTS] = EITP__ZERO;
    eitp__step *step;
    if (!eitp__reserve(&plan->context->host, (void **)&plan->steps, &plan->step_capacity, plan->step_count + 1,
                       sizeof *plan->steps))
        return 0;
    step = &plan->steps[plan->step_count++];
    memset(step, 0, sizeof *step);
    step->node = node;
    step->mutates = eitp__mutates(node);
    if (!eitp__absorb(node, accumulations, absorbed))
        return 1;
    step->mutates = 1;
    for (int i = 0; i < node->output_count; i++) {
        step->absorbed[i] = absorbed[i];
        lowering->needed[absorbed[i]->id] = 0;
    }
    return 1;
}

/*
 * Makes the steps; accumulations that a node can do itself become part of it. An accumulation comes after what it adds,
 * so that it is known to be absorbed before its own turn.
 */
static eitp_status eitp__make_steps(eitp__lowering *lowering, eitp_error *error) {
    const eitp_graph *graph = lowering->plan->graph;
    const eitp_host *host = &lowering->plan->context->host;
    int *uses = (int *)eitp__allocate(host, graph->tensor_count * sizeof *uses);
    eitp__node **accumulations = (eitp__node **)eitp__allocate(host, graph->tensor_count * sizeof *accumulations);
    int made = !graph->tensor_count || (uses && accumulations);
    if (made) {
        eitp__count_uses(lowering, uses);
        eitp__find_accumulations(lowering, uses, accumulations);
    }
    for (size_t n = 0; n < graph->node_count && made; n++) {
        eitp__node *node = graph->nodes[n];
        if (lowering->needed[n] && !eitp__is_view(node))
            made = eitp__add_step(lowering, node, accumulations);
    }
    eitp__release(host, uses, graph->tensor_count * sizeof *uses);
    eitp__release(host, accumulations, graph->tensor_count * sizeof *accumulations);
    return made ? EITP_OK
                : eitp__fail_memory(error, graph->tensor_count * sizeof *accumulations, "the steps of a plan");
}

EITP__PRIVATE eitp_tensor *eitp__step_input(const eitp__step *step, int i) {
    const eitp__node *node = step->node;
    if (i < node->input_count)
        return eitp__lowered(node->inputs[i]);
    /* What absorbed accumulations read comes after the node's own inputs: the values before, and the carry. */
    i -= node->input_count;
    return eitp__lowered(i < node->output_count ? step->absorbed[i]->inputs[0] : step->absorbed[0]->inputs[2]);
}

EITP__PRIVATE int eitp__step_input_count(const eitp__step *step) {
    return step->node->input_count + (step->absorbed[0] ? step->node->output_count + 1 : 0);
}

EITP__PRIVATE eitp_tensor *eitp__step_output(const eitp__step *step, int i) {
    return step->absorbed[i] ? step->absorbed[i]->outputs[0] : step->node->outputs[i];
}

EITP__PRIVATE eitp_tensor *eitp__step_replaces(const eitp__step *step, int i) {
    int shared = eitp__op(step->node->op)->shares[i];
    if (step->absorbed[i])
        return eitp__lowered(step->absorbed[i]->inputs[0]);
    return shared ? eitp__lowered(step->node->inputs[shared - 1]) : NULL;
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
                eitp__need(&lowering, graph->tensors[t]);
        }
        for (size_t n = 0; n < graph->node_count; n++) {
            if (!eitp__mutates(graph->nodes[n]))
                continue;
            roots = 1;
            eitp__need_node(&lowering, graph->nodes[n]);
        }
        eitp__lower_pending(&lowering);
    }
    status = eitp_graph_status(graph, error);
    if (!status && !roots)
        status = eitp__fail(error, EITP_ERROR_ARGUMENT,
                            "the graph has no output and no update; mark what you want to read with eitp_output");
    if (!status)
        status = eitp__make_steps(&lowering, error);
    eitp__release(host, lowering.needed, lowering.capacity);
    eitp__release(host, lowering.pending, lowering.pending_capacity * sizeof *lowering.pending);
    return status;
}
