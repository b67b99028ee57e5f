/*
 * The second pass of a plan: creates steps from nodes. A product does the activation, the derivative of one, or the
 * addition that follows it. An op whose result is only added to a variable, or to a term that nothing else reads, adds
 * to it in place.
 */
#include "tensor/op_rules.h"
#include "tensor/plan.h"

typedef struct eitp__fusion {
    eitp_plan *plan;
    const eitp_graph *graph;
    const unsigned char *needed;
    int *uses;                  /* by tensor id: reads by needed nodes and outputs */
    eitp__node **accumulations; /* by tensor id: the accumulation that is its only reader */
    eitp__node **fused_into;    /* by node id: the product whose epilogue computes the node */
    eitp__node **epilogues;     /* by node id of a product: the node that its epilogue computes */
    eitp__node **adders;        /* by node id of a sum: the node of one term, which adds it to the other */
    eitp__node **sums;          /* by node id of an adder: the sum that it computes */
    eitp__node **chains;   /* by node id of a product: the accumulation of the sum that it goes on with, or begins */
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

/* The step of a node, before anything is fused into it. */
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

/*
 * True if the node may add its value to the other term of the sum. A sum of eitp__add_unfused allows only deferred
 * rows, one of eitp__continue_sum is of products, and other products are fused by eitp__find_epilogues.
 */
static int eitp__can_fuse_sum(const eitp__node *node, const eitp__node *sum) {
    if (sum->attributes.integers[0] == EITP__ADD_UNFUSED)
        return node->op == EITP__OP_EMBEDDING_BACKWARD && eitp__deferred_rows(node->outputs[0]);
    return (sum->attributes.integers[0] == EITP__ADD_CONTINUES) == (node->op == EITP__OP_MATMUL);
}

/* The node that computes one term of a sum and can add it to the other in place; NULL: none. */
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

/* ---- Epilogues of products ---- */

/* Makes a product's step compute its epilogue node. */
static void eitp__fuse_epilogue(const eitp__fusion *fusion, eitp__step *step, eitp__node *node) {
    eitp_tensor *p = step->node->outputs[0];
    const eitp__epilogue_rule *rule = eitp__op(node->graph, node->op)->epilogues;
    while (eitp__lowered(node->inputs[rule->product]) != p)
        rule++;
    step->epilogue = rule->epilogue;
    step->inputs[2] = step->input_count > 2 ? step->inputs[2] : NULL;
    step->inputs[3] = rule->operand >= 0 ? eitp__lowered(node->inputs[rule->operand]) : NULL;
    step->input_count = 4;
    step->outputs[0] = node->outputs[0];
    if (fusion->uses[p->id] > 1) {
        step->outputs[1] = p;
        step->output_count = 2;
    }
}

/* True if the backend implements the product with the node as its epilogue. */
static int eitp__is_epilogue_supported(const eitp__fusion *fusion, eitp__node *product, eitp__node *node) {
    const eitp__backend *backend = fusion->plan->context->backend;
    eitp__step step;
    eitp__call call;
    eitp__begin_step(&step, product);
    eitp__fuse_epilogue(fusion, &step, node);
    eitp__step_call(&step, &call);
    return backend->interface->supports(backend, &call);
}

/* The product whose epilogue can compute the node by `rule`; NULL: none. */
static eitp__node *eitp__fusable_product(const eitp__fusion *fusion, eitp__node *node,
                                         const eitp__epilogue_rule *rule) {
    const eitp_tensor *y = node->outputs[0], *p, *operand;
    eitp__node *product;
    p = eitp__lowered(node->inputs[rule->product]);
    operand = rule->operand >= 0 ? eitp__lowered(node->inputs[rule->operand]) : NULL;
    product = p->node;
    if (!product || product->op != EITP__OP_MATMUL || fusion->epilogues[product->id] || p == operand ||
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

/* The tensor that an accumulation adds, behind views, if the accumulation is its only reader; NULL otherwise. */
static const eitp_tensor *eitp__accumulated_value(const eitp__fusion *fusion, const eitp__node *accumulation) {
    const eitp_tensor *value = eitp__lowered(accumulation->inputs[1]);
    while (fusion->uses[value->id] == 1 && !value->is_output && value->node && eitp__is_view(value->node))
        value = eitp__lowered(value->node->inputs[0]);
    return fusion->uses[value->id] == 1 && !value->is_output ? value : NULL;
}

/* True if the node is a sum of eitp__continue_sum, which its second term computes. */
static int eitp__is_continued_sum(const eitp__fusion *fusion, const eitp__node *node) {
    return node && node->attributes.integers[0] == EITP__ADD_CONTINUES && fusion->adders[node->id];
}

/* The product that computes a tensor of a chain: a sum of eitp__continue_sum, or the product that it begins with. */
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

/*
 * If an accumulation adds a sum of eitp__continue_sum, lets its first product add to the target, and the others go on
 * there, so that the sum is never stored on its own.
 */
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

/*
 * True if the node can do the accumulations of all its outputs: its kernel supports that, it does not read what it
 * would change, and all accumulations have the same carry.
 */
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

/* True if the accumulation is done by the node whose value it adds. */
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
