/* Converts the nodes of a graph to the ordered steps of a plan. */
#include "tensor/op_rules.h"
#include "tensor/plan.h"

/* ---- Lowering ---- */

/* The first pass of a plan: finds the needed nodes, and expands those without a kernel in the backend. */

/* True if the node changes a variable. */
static int eitp__is_update(const eitp__node *node) {
    int shares = 0;
    for (int i = 0; i < node->output_count; i++)
        shares |= eitp__shared_input(node, i) != NULL;
    return shares && !eitp__is_view(node);
}

/* Needed nodes not visited yet. This list and plan->needed grow with the graph while nodes are expanded. */
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

/* Replaces a node with its expansion, which takes its place in the order. */
static void eitp__expand_in_plan(eitp__lowering *lowering, eitp__node *node) {
    eitp_graph *graph = lowering->plan->graph;
    const size_t first = graph->node_count;
    const eitp__origin origin = graph->origin;
    const int order = node->op == EITP__OP_LINEAR_CROSS_ENTROPY ? eitp__head_order(node) : node->order;
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
        graph->nodes[n]->order = order;
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

/* Marks, transitively, the nodes that the needed nodes depend on. */
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
                            "the graph has no output and no update; mark the tensors to read with eitp_output");
    eitp__release(host, lowering.pending, lowering.pending_capacity * sizeof *lowering.pending);
    return status;
}

/* ---- Fusing ---- */

/*
 * The second pass of a plan: creates steps from nodes. A product computes the activation, the derivative of one, or the
 * addition that follows it, and the gradient of a norm the addition. An op whose result is only added to a variable, or
 * to a term that nothing else reads, adds to it in place.
 */

typedef struct eitp__fusion {
    eitp_plan *plan;
    const eitp_graph *graph;
    const unsigned char *needed;
    int *uses;                  /* by tensor id: number of reads by needed nodes and outputs */
    eitp__node **accumulations; /* by tensor id: the accumulation that is its only reader */
    eitp__node **fused_into;    /* by node id: the node whose epilogue computes it */
    eitp__node **epilogues;     /* by node id: the node that its epilogue computes */
    eitp__node **adders;        /* by node id of a sum: the node of one term, which adds it to the other */
    eitp__node **sums;          /* by node id of an adder: the sum that it computes */
    eitp__node **chains;        /* by node id of a product: the accumulation of the sum that it continues or starts */
    eitp_tensor **results; /* by node id of such a product: the value that it leaves in the accumulation's target */
} eitp__fusion;

static void eitp__count_uses(eitp__fusion *fusion) {
    const eitp_graph *graph = fusion->graph;
    for (size_t n = 0; n < graph->node_count; n++) {
        for (int i = 0; i < graph->nodes[n]->input_count && fusion->needed[n]; i++) {
            eitp_tensor *x = eitp__lowered(graph->nodes[n]->inputs[i]);
            if (x)
                fusion->uses[x->id]++;
        }
    }
    for (size_t t = 0; t < graph->tensor_count; t++) {
        if (graph->tensors[t]->is_output)
            fusion->uses[eitp__lowered(graph->tensors[t])->id]++;
    }
}

/* Initializes the step of a node, with nothing fused into it. */
static void eitp__begin_step(eitp__step *step, eitp__node *node) {
    memset(step, 0, sizeof *step);
    step->node = node;
    step->input_count = node->input_count;
    step->output_count = node->output_count;
    for (int i = 0; i < node->input_count; i++)
        step->inputs[i] = eitp__lowered(node->inputs[i]);
    memcpy(step->outputs, node->outputs, sizeof step->outputs);
}

/* ---- Sums ---- */

/* True if exactly one node reads the tensor and it owns its memory. */
static int eitp__has_single_reader(const eitp__fusion *fusion, const eitp_tensor *x) {
    return x->node && x->storage == x && fusion->uses[x->id] == 1 && !x->is_output;
}

/* True if the node's kernel can add to an output of this dtype instead of writing it. */
static int eitp__accumulates_in(const eitp__node *node, eitp_dtype dtype) {
    int accumulates = eitp__op(node->graph, node->op)->accumulates;
    eitp_dtype stored;
    if (!accumulates || !eitp__is_floating(dtype))
        return 0;
    stored = eitp__node_dtype(node);
    return dtype == (accumulates == EITP__ACCUMULATES_WIDE ? eitp__wide(stored) : stored);
}

/* True if the node may add its value to the other term of the sum. A sum of eitp__add_unfused allows only deferred
   rows, and a sum of eitp__continue_sum only products. Other products are fused by eitp__find_epilogues. */
static int eitp__can_fuse_sum(const eitp__node *node, const eitp__node *sum) {
    if (sum->attributes.integers[0] == EITP__ADD_UNFUSED)
        return node->op == EITP__OP_EMBEDDING_BACKWARD && eitp__deferred_rows(node->outputs[0]);
    return (sum->attributes.integers[0] == EITP__ADD_CONTINUES) == (node->op == EITP__OP_MATMUL);
}

/* Returns the node that computes one term of a sum and can add it to the other in place; NULL: none. */
static eitp__node *eitp__adder_of(const eitp__fusion *fusion, const eitp__node *sum) {
    if (sum->op != EITP__OP_ADD)
        return NULL;
    for (int i = 1; i >= 0; i--) {
        const eitp_tensor *term = eitp__lowered(sum->inputs[i]), *other = eitp__lowered(sum->inputs[1 - i]);
        if (term == other || !eitp__has_single_reader(fusion, term) || !eitp__has_single_reader(fusion, other))
            continue;
        if (term->node->output_count == 1 && eitp__accumulates_in(term->node, term->dtype) &&
            eitp__can_fuse_sum(term->node, sum) && !fusion->sums[term->node->id] && other->dtype == term->dtype &&
            eitp__same_shape(term, other) && other->rows == term->rows)
            return term->node;
    }
    return NULL;
}

static void eitp__find_adders(eitp__fusion *fusion) {
    const eitp_graph *graph = fusion->graph;
    for (size_t n = 0; n < graph->node_count; n++) {
        if (fusion->needed[n])
            fusion->adders[n] = eitp__adder_of(fusion, graph->nodes[n]);
        if (fusion->adders[n])
            fusion->sums[fusion->adders[n]->id] = graph->nodes[n];
    }
}

/* Makes the step of an adder compute its sum. */
static void eitp__fuse_sum(eitp__step *step, const eitp__node *sum) {
    int term = eitp__lowered(sum->inputs[1]) == step->node->outputs[0];
    step->accumulates = 1;
    step->outputs[0] = sum->outputs[0];
    step->replaces[0] = eitp__lowered(sum->inputs[!term]);
}

/* ---- Epilogues ---- */

/* Makes a step, usually of a product, compute its epilogue node. */
static void eitp__fuse_epilogue(const eitp__fusion *fusion, eitp__step *step, eitp__node *node) {
    const int operand = eitp__op(node->graph, step->node->op)->operand;
    eitp_tensor *p = step->node->outputs[0];
    const eitp__epilogue_rule *rule = eitp__op(node->graph, node->op)->epilogues;
    while (eitp__lowered(node->inputs[rule->product]) != p)
        rule++;
    step->epilogue = rule->epilogue;
    step->inputs[operand] = rule->operand >= 0 ? eitp__lowered(node->inputs[rule->operand]) : NULL;
    step->input_count = operand + 1;
    step->outputs[0] = node->outputs[0];
    if (fusion->uses[p->id] > 1) {
        step->outputs[1] = p;
        step->output_count = 2;
    }
}

/* True if the backend implements the op of a product with the node as its epilogue. */
static int eitp__is_epilogue_supported(const eitp__fusion *fusion, eitp__node *product, eitp__node *node) {
    const eitp__backend *backend = fusion->plan->context->backend;
    eitp__step step;
    eitp__call call;
    eitp__begin_step(&step, product);
    eitp__fuse_epilogue(fusion, &step, node);
    eitp__step_call(&step, &call);
    return backend->interface->supports(backend, &call);
}

/* Returns the node, usually a product, whose epilogue can compute this node by `rule`; NULL: none. */
static eitp__node *eitp__fusable_product(const eitp__fusion *fusion, eitp__node *node,
                                         const eitp__epilogue_rule *rule) {
    const eitp_tensor *y = node->outputs[0], *p, *operand;
    eitp__node *product;
    p = eitp__lowered(node->inputs[rule->product]);
    operand = rule->operand >= 0 ? eitp__lowered(node->inputs[rule->operand]) : NULL;
    product = p->node;
    if (!product || !eitp__op(product->graph, product->op)->operand || fusion->epilogues[product->id] || p == operand ||
        p->dtype != y->dtype || y->dtype != eitp__node_dtype(product) || !eitp__same_shape(p, y) || p->rows != y->rows)
        return NULL;
    if (operand && (!eitp__same_shape(operand, y) || operand->dtype != y->dtype || operand->rows != y->rows))
        return NULL;
    if (operand && (fusion->uses[p->id] > 1 || p->is_output))
        return NULL;
    return eitp__is_epilogue_supported(fusion, product, node) ? product : NULL;
}

static void eitp__find_epilogues(eitp__fusion *fusion) {
    const eitp_graph *graph = fusion->graph;
    for (size_t n = 0; n < graph->node_count; n++) {
        const eitp__epilogue_rule *rules = eitp__op(graph, graph->nodes[n]->op)->epilogues;
        for (int e = 0; e < EITP__OP_EPILOGUES && rules[e].epilogue; e++) {
            if (!fusion->needed[n] || fusion->adders[n] || fusion->fused_into[n])
                break;
            fusion->fused_into[n] = eitp__fusable_product(fusion, graph->nodes[n], &rules[e]);
            if (fusion->fused_into[n])
                fusion->epilogues[fusion->fused_into[n]->id] = graph->nodes[n];
        }
    }
}

/* ---- Accumulations ---- */

/* True if the node reads the memory of this variable. */
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

/* Returns the tensor that an accumulation adds, behind views, if the accumulation is its only reader; otherwise
   NULL. */
static const eitp_tensor *eitp__accumulated_value(const eitp__fusion *fusion, const eitp__node *accumulation) {
    const eitp_tensor *value = eitp__lowered(accumulation->inputs[1]);
    while (fusion->uses[value->id] == 1 && !value->is_output && value->node && eitp__is_view(value->node))
        value = eitp__lowered(value->node->inputs[0]);
    return fusion->uses[value->id] == 1 && !value->is_output ? value : NULL;
}

/* True if the node is a sum of eitp__continue_sum that is computed by its second term. */
static int eitp__is_continued_sum(const eitp__fusion *fusion, const eitp__node *node) {
    return node && node->attributes.integers[0] == EITP__ADD_CONTINUES && fusion->adders[node->id];
}

/* Returns the product that computes a tensor of a chain: a sum of eitp__continue_sum, or the product that it starts
   with. */
static eitp__node *eitp__chain_product(const eitp__fusion *fusion, eitp_tensor *x) {
    eitp__node *node = eitp__lowered(x)->node;
    return eitp__is_continued_sum(fusion, node) ? fusion->adders[node->id] : node;
}

/* True if the products of a sum of eitp__continue_sum can add to the accumulation's target. */
static int eitp__can_accumulate_chain(const eitp__fusion *fusion, const eitp__node *accumulation,
                                      const eitp__node *sum) {
    const eitp_tensor *target = accumulation->inputs[0];
    const eitp__node *product = NULL;
    if (!eitp__is_continued_sum(fusion, sum))
        return 0;
    for (const eitp__node *node = sum; node; node = product == node ? NULL : eitp__lowered(node->inputs[0])->node) {
        product = eitp__is_continued_sum(fusion, node) ? fusion->adders[node->id] : node;
        if (eitp__reads_storage(product, target->storage) || !eitp__accumulates_in(product, target->dtype))
            return 0;
    }
    return 1;
}

/* If an accumulation adds a sum of eitp__continue_sum, lets the first product add to the target and the others continue
   there, so that the sum is never stored separately. */
static void eitp__find_chain(eitp__fusion *fusion, eitp__node *accumulation, const eitp_tensor *value) {
    eitp_tensor *y = accumulation->outputs[0], *result = y;
    const eitp__node *sum = value->node;
    if (!eitp__can_accumulate_chain(fusion, accumulation, sum))
        return;
    for (eitp__node *product = fusion->adders[sum->id]; product && result;) {
        fusion->chains[product->id] = accumulation;
        fusion->results[product->id] = result;
        sum = fusion->sums[product->id];
        product = sum ? eitp__chain_product(fusion, sum->inputs[0]) : NULL;
        result = product ? eitp__tensor_copy(y, y->storage, y->first) : result;
    }
}

static void eitp__find_accumulations(eitp__fusion *fusion) {
    const eitp_graph *graph = fusion->graph;
    for (size_t n = 0; n < graph->node_count; n++) {
        const eitp_tensor *value = NULL;
        if (fusion->needed[n] && graph->nodes[n]->op == EITP__OP_ACCUMULATE)
            value = eitp__accumulated_value(fusion, graph->nodes[n]);
        if (!value)
            continue;
        fusion->accumulations[value->id] = graph->nodes[n];
        eitp__find_chain(fusion, graph->nodes[n], value);
    }
}

/* Makes the step of a product of a chain add to the target of the chain's accumulation. */
static void eitp__fuse_chain(const eitp__fusion *fusion, eitp__step *step) {
    const eitp__node *accumulation = fusion->chains[step->node->id], *sum = fusion->sums[step->node->id];
    step->accumulates = 1;
    step->outputs[0] = fusion->results[step->node->id];
    step->replaces[0] =
        sum ? fusion->results[eitp__chain_product(fusion, sum->inputs[0])->id] : eitp__lowered(accumulation->inputs[0]);
    step->carry = sum ? NULL : eitp__lowered(accumulation->inputs[2]);
}

/* True if the node can perform the accumulations of all its outputs: its kernel supports it, it does not read the
   memory it would change, and all accumulations have the same carry. */
static int eitp__can_accumulate(const eitp__fusion *fusion, const eitp__node *node) {
    const eitp__node *first = fusion->accumulations[node->outputs[0]->id];
    if (fusion->epilogues[node->id])
        return 0;
    for (int i = 0; i < node->output_count; i++) {
        const eitp__node *accumulation = fusion->accumulations[node->outputs[i]->id];
        if (!accumulation || eitp__reads_storage(node, accumulation->inputs[0]->storage) ||
            eitp__lowered(accumulation->inputs[2]) != eitp__lowered(first->inputs[2]) ||
            !eitp__accumulates_in(node, node->outputs[i]->dtype))
            return 0;
    }
    return 1;
}

/* ---- Steps ---- */

static void eitp__fill_step(const eitp__fusion *fusion, eitp__step *step, eitp__node *node) {
    eitp__begin_step(step, node);
    step->accumulates = eitp__can_accumulate(fusion, node);
    for (int i = 0; i < node->output_count; i++) {
        const eitp__node *accumulation = step->accumulates ? fusion->accumulations[node->outputs[i]->id] : NULL;
        if (accumulation) {
            step->outputs[i] = accumulation->outputs[0];
            step->replaces[i] = eitp__lowered(accumulation->inputs[0]);
            step->carry = eitp__lowered(accumulation->inputs[2]);
        } else {
            step->replaces[i] = eitp__lowered(eitp__shared_input(node, i));
        }
    }
    if (fusion->epilogues[node->id])
        eitp__fuse_epilogue(fusion, step, fusion->epilogues[node->id]);
    if (fusion->chains[node->id])
        eitp__fuse_chain(fusion, step);
    else if (fusion->sums[node->id])
        eitp__fuse_sum(step, fusion->sums[node->id]);
}

/* True if the accumulation is performed by the node whose value it adds. */
static int eitp__is_fused_accumulation(const eitp__fusion *fusion, const eitp__node *node) {
    const eitp_tensor *value;
    if (node->op != EITP__OP_ACCUMULATE)
        return 0;
    value = eitp__accumulated_value(fusion, node);
    if (!value || !value->node)
        return 0;
    return eitp__can_accumulate(fusion, value->node) ||
           (fusion->adders[value->node->id] && fusion->chains[fusion->adders[value->node->id]->id] == node);
}

static int eitp__create_steps(eitp__fusion *fusion) {
    eitp_plan *plan = fusion->plan;
    const eitp_graph *graph = fusion->graph;
    for (size_t n = 0; n < graph->node_count; n++) {
        eitp__node *node = graph->nodes[n];
        plan->visits.fuse++;
        if (!fusion->needed[n] || eitp__is_view(node) || fusion->fused_into[n] || fusion->adders[n] ||
            eitp__is_fused_accumulation(fusion, node))
            continue;
        if (!eitp__reserve(&plan->context->host, (void **)&plan->steps, &plan->step_capacity, plan->step_count + 1,
                           sizeof *plan->steps))
            return 0;
        eitp__fill_step(fusion, &plan->steps[plan->step_count++], node);
    }
    return 1;
}

EITP__PRIVATE eitp_status eitp__plan_fuse(eitp_plan *plan, eitp_error *error) {
    const eitp_host *host = &plan->context->host;
    size_t tensors = plan->graph->tensor_count, nodes = plan->graph->node_count;
    size_t bytes = (tensors + 5 * nodes) * sizeof(eitp__node *);
    eitp__node **lists = (eitp__node **)eitp__allocate(host, bytes);
    eitp__fusion fusion = EITP__ZERO;
    int done = 0;
    fusion.plan = plan;
    fusion.graph = plan->graph;
    fusion.needed = plan->needed;
    fusion.uses = (int *)eitp__allocate(host, tensors * sizeof *fusion.uses);
    fusion.results = (eitp_tensor **)eitp__allocate(host, nodes * sizeof(eitp_tensor *));
    if (lists && fusion.uses && fusion.results) {
        fusion.accumulations = lists;
        fusion.fused_into = fusion.accumulations + tensors;
        fusion.epilogues = fusion.fused_into + nodes;
        fusion.adders = fusion.epilogues + nodes;
        fusion.sums = fusion.adders + nodes;
        fusion.chains = fusion.sums + nodes;
        eitp__count_uses(&fusion);
        eitp__find_adders(&fusion);
        eitp__find_accumulations(&fusion);
        eitp__find_epilogues(&fusion);
        done = !plan->graph->error.status && eitp__create_steps(&fusion);
    }
    eitp__release(host, fusion.results, nodes * sizeof(eitp_tensor *));
    eitp__release(host, fusion.uses, tensors * sizeof *fusion.uses);
    eitp__release(host, lists, bytes);
    return done || !bytes ? EITP_OK : eitp__fail_memory(error, bytes, "the steps of a plan");
}

/* ---- Order ---- */

/*
 * Orders a plan's steps. A topological sort that prefers creation order (forward as written, backward in reverse),
 * except that updates go as soon as their inputs are computed and the old value has no more readers, and norms as soon
 * as their operand is computed. This frees the memory of their operands early.
 */

/* An edge between steps. `next` is the next edge from the same step. */
typedef struct eitp__edge {
    int to, next;
} eitp__edge;

/* A step that reads a tensor. `next` is the next reader of the same value. */
typedef struct eitp__reader {
    int step, next;
    eitp_tensor *tensor;
} eitp__reader;

typedef struct eitp__order {
    eitp_plan *plan;
    const eitp_host *host;
    int *producer;     /* by tensor id: step that computes it; -1: a leaf */
    int *first_reader; /* by tensor id; -1: none */
    eitp__reader *readers;
    size_t reader_count, reader_capacity;
    int *first_edge; /* by step; -1: none */
    int *waiting;    /* by step: number of predecessors that are not sorted yet */
    eitp__edge *edges;
    size_t edge_count, edge_capacity;
    int failed;
} eitp__order;

static void eitp__add_edge(eitp__order *order, int from, int to) {
    eitp__edge *edge;
    if (from < 0 || from == to || order->failed)
        return;
    if (!eitp__reserve(order->host, (void **)&order->edges, &order->edge_capacity, order->edge_count + 1,
                       sizeof *order->edges)) {
        order->failed = 1;
        return;
    }
    edge = &order->edges[order->edge_count];
    edge->to = to;
    edge->next = order->first_edge[from];
    order->first_edge[from] = (int)order->edge_count++;
    order->waiting[to]++;
}

/* Returns the tensor behind views, which represents the value. */
static eitp_tensor *eitp__behind_views(eitp_tensor *tensor) {
    tensor = eitp__lowered(tensor);
    while (tensor->node && eitp__is_view(tensor->node))
        tensor = eitp__lowered(tensor->node->inputs[0]);
    return tensor;
}

/* True if two views of one value share memory. */
static int eitp__overlap(eitp_tensor *a, eitp_tensor *b) {
    int64_t a_first, b_first;
    eitp__owner(a, &a_first);
    eitp__owner(b, &b_first);
    return a_first < b_first + eitp__elements(b) && b_first < a_first + eitp__elements(a);
}

static void eitp__add_reader(eitp__order *order, int step, eitp_tensor *tensor) {
    int *first = &order->first_reader[eitp__behind_views(tensor)->id];
    eitp__reader *reader;
    if (order->failed || !eitp__reserve(order->host, (void **)&order->readers, &order->reader_capacity,
                                        order->reader_count + 1, sizeof *order->readers)) {
        order->failed = 1;
        return;
    }
    reader = &order->readers[order->reader_count];
    reader->step = step;
    reader->tensor = tensor;
    reader->next = *first;
    *first = (int)order->reader_count++;
}

/* Orders all other readers of a value, or of the replaced rows, before step `writer`, which replaces it. */
static void eitp__wait_for_readers(eitp__order *order, int writer, eitp_tensor *replaced) {
    for (int r = order->first_reader[eitp__behind_views(replaced)->id]; r >= 0; r = order->readers[r].next) {
        order->plan->visits.order++;
        if (order->readers[r].step != writer && eitp__overlap(order->readers[r].tensor, replaced))
            eitp__add_edge(order, order->readers[r].step, writer);
    }
}

static void eitp__make_edges(eitp__order *order) {
    const eitp_plan *plan = order->plan;
    for (size_t s = 0; s < plan->step_count; s++) {
        for (int i = 0; i < plan->steps[s].output_count; i++)
            order->producer[plan->steps[s].outputs[i]->id] = (int)s;
    }
    for (size_t s = 0; s < plan->step_count; s++) {
        const eitp__step *step = &plan->steps[s];
        for (int i = 0; i < eitp__step_read_count(step); i++) {
            eitp_tensor *x = eitp__step_read(step, i);
            if (!x)
                continue;
            eitp__add_edge(order, order->producer[eitp__behind_views(x)->id], (int)s);
            eitp__add_reader(order, (int)s, x);
        }
    }
    for (size_t s = 0; s < plan->step_count; s++) {
        const eitp__step *step = &plan->steps[s];
        for (int i = 0; i < step->output_count; i++) {
            if (step->replaces[i])
                eitp__wait_for_readers(order, (int)s, step->replaces[i]);
        }
    }
}

/* True if the step is an update or a norm, after which most of its operands can be freed. */
static int eitp__frees_operands(const eitp__step *step) {
    return eitp__step_mutates(step) || eitp__op(step->node->graph, step->node->op)->runs_early;
}

/* True if step a goes before step b when both are ready. */
static int eitp__has_priority(const eitp__step *a, const eitp__step *b) {
    int a_frees = eitp__frees_operands(a);
    if (a_frees != eitp__frees_operands(b))
        return a_frees;
    if (a->node->order != b->node->order)
        return a->node->order < b->node->order;
    if (a->node->part != b->node->part)
        return a->node->part < b->node->part;
    return a->node->id < b->node->id;
}

static void eitp__swap_int(int *a, int *b) {
    int other = *a;
    *a = *b;
    *b = other;
}

/* Binary heap of the ready steps, with the next one at the top. */
static void eitp__heap_push(const eitp_plan *plan, int *heap, size_t count, int step) {
    size_t i = count;
    heap[i] = step;
    while (i && eitp__has_priority(&plan->steps[heap[i]], &plan->steps[heap[(i - 1) / 2]])) {
        eitp__swap_int(&heap[i], &heap[(i - 1) / 2]);
        i = (i - 1) / 2;
    }
}

static int eitp__heap_pop(const eitp_plan *plan, int *heap, size_t count) {
    int top = heap[0];
    size_t i = 0;
    heap[0] = heap[count - 1];
    for (count--;;) {
        size_t best = i;
        for (size_t child = 2 * i + 1; child <= 2 * i + 2 && child < count; child++) {
            if (eitp__has_priority(&plan->steps[heap[child]], &plan->steps[heap[best]]))
                best = child;
        }
        if (best == i)
            return top;
        eitp__swap_int(&heap[i], &heap[best]);
        i = best;
    }
}

static eitp_status eitp__sort_steps(eitp__order *order, int *heap, eitp__step *sorted, eitp_error *error) {
    eitp_plan *plan = order->plan;
    size_t ready = 0, done = 0;
    for (size_t s = 0; s < plan->step_count; s++) {
        if (!order->waiting[s])
            eitp__heap_push(plan, heap, ready++, (int)s);
    }
    while (ready) {
        int step = eitp__heap_pop(plan, heap, ready--);
        sorted[done++] = plan->steps[step];
        plan->visits.order++;
        for (int e = order->first_edge[step]; e >= 0; e = order->edges[e].next) {
            plan->visits.order++;
            if (--order->waiting[order->edges[e].to] == 0)
                eitp__heap_push(plan, heap, ready++, order->edges[e].to);
        }
    }
    if (done != plan->step_count)
        return eitp__fail(
            error, EITP_ERROR_ARGUMENT,
            "a variable is updated but its old value is read later; read the old value in a separate plan");
    if (done)
        memcpy(plan->steps, sorted, done * sizeof *sorted);
    return EITP_OK;
}

EITP__PRIVATE eitp_status eitp__plan_order(eitp_plan *plan, eitp_error *error) {
    const eitp_host *host = &plan->context->host;
    size_t steps = plan->step_count, tensors = plan->graph->tensor_count;
    eitp__order order = EITP__ZERO;
    int *heap = (int *)eitp__allocate(host, steps * sizeof *heap);
    eitp__step *sorted = (eitp__step *)eitp__allocate(host, steps * sizeof *sorted);
    eitp_status status;
    order.plan = plan;
    order.host = host;
    order.producer = (int *)eitp__allocate(host, tensors * sizeof *order.producer);
    order.first_reader = (int *)eitp__allocate(host, tensors * sizeof *order.first_reader);
    order.first_edge = (int *)eitp__allocate(host, steps * sizeof *order.first_edge);
    order.waiting = (int *)eitp__allocate(host, steps * sizeof *order.waiting);
    order.failed =
        steps && (!heap || !sorted || !order.producer || !order.first_reader || !order.first_edge || !order.waiting);
    if (steps && !order.failed) {
        memset(order.producer, -1, tensors * sizeof *order.producer);
        memset(order.first_reader, -1, tensors * sizeof *order.first_reader);
        memset(order.first_edge, -1, steps * sizeof *order.first_edge);
        eitp__make_edges(&order);
    }
    status = order.failed ? eitp__fail_memory(error, tensors * sizeof(int), "the order of a plan")
                          : eitp__sort_steps(&order, heap, sorted, error);
    eitp__release(host, heap, steps * sizeof *heap);
    eitp__release(host, sorted, steps * sizeof *sorted);
    eitp__release(host, order.producer, tensors * sizeof *order.producer);
    eitp__release(host, order.first_reader, tensors * sizeof *order.first_reader);
    eitp__release(host, order.readers, order.reader_capacity * sizeof *order.readers);
    eitp__release(host, order.first_edge, steps * sizeof *order.first_edge);
    eitp__release(host, order.waiting, steps * sizeof *order.waiting);
    eitp__release(host, order.edges, order.edge_capacity * sizeof *order.edges);
    return status;
}
