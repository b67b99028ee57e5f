/*
 * The second pass of a plan: steps from nodes. A product does the activation, the derivative of one, or the addition
 * that follows it; what only feeds an accumulation, or a sum whose other term nothing else needs, adds to it itself.
 */
#include "tensor/op_rules.h"
#include "tensor/plan.h"

typedef struct eitp__fusion {
    eitp_plan *plan;
    const eitp_graph *graph;
    const unsigned char *needed; /* by node id */
    int *uses;                   /* by tensor id: by needed nodes, and by whoever reads outputs */
    eitp__node **accumulations;  /* by tensor id: the one that alone uses it */
    eitp__node **products;       /* by node id: the product that does this node's work */
    eitp__node **endings;        /* by node id, of a product: the node whose work it does */
    eitp__node **adders;         /* by node id, of a sum: the node that adds its value to the other term */
    eitp__node **sums;           /* by node id, of an adder: the sum whose work it does */
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

/* ---- Sums ---- */

/* Does nothing need the tensor but one node, and is its memory its own? */
static int eitp__is_consumed(const eitp__fusion *fusion, const eitp_tensor *x) {
    return x->node && x->storage == x && fusion->uses[x->id] == 1 && !x->is_output;
}

/* Can the node's slot add to an output of this dtype instead of writing it? */
static int eitp__accumulates_in(const eitp__node *node, eitp_dtype dtype) {
    int accumulates = eitp__op(node->graph, node->op)->accumulates;
    eitp_dtype stored;
    if (!accumulates || !eitp__is_floating(dtype))
        return 0;
    stored = eitp__node_dtype(node);
    return dtype == (accumulates == EITP__ACCUMULATES_WIDE ? eitp__wide(stored) : stored);
}

/* May the node add its value to the other term of the sum, where that asks for terms that are summed apart? */
static int eitp__may_add(const eitp__node *node, const eitp__node *sum) {
    return !sum->attributes.integers[0] ||
           (node->op == EITP__OP_EMBEDDING_BACKWARD && eitp__deferred_rows(node->outputs[0]));
}

/*
 * The node that makes one term of a sum and can add it to the other in that one's place; NULL where there is none. Of
 * products see below.
 */
static eitp__node *eitp__adder_of(const eitp__fusion *fusion, const eitp__node *sum) {
    if (sum->op != EITP__OP_ADD)
        return NULL;
    for (int i = 1; i >= 0; i--) {
        const eitp_tensor *term = eitp__lowered(sum->inputs[i]), *other = eitp__lowered(sum->inputs[1 - i]);
        if (term == other || !eitp__is_consumed(fusion, term) || !eitp__is_consumed(fusion, other))
            continue;
        if (term->node->output_count == 1 && eitp__accumulates_in(term->node, term->dtype) &&
            eitp__may_add(term->node, sum) && term->node->op != EITP__OP_MATMUL && !fusion->sums[term->node->id] &&
            other->dtype == term->dtype && eitp__same_shape(term, other) && other->rows == term->rows)
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

/* Lets the step of an adder do the work of its sum. */
static void eitp__add_sum(eitp__step *step, const eitp__node *sum) {
    int term = eitp__lowered(sum->inputs[1]) == step->node->outputs[0];
    step->accumulates = 1;
    step->outputs[0] = sum->outputs[0];
    step->replaces[0] = eitp__lowered(sum->inputs[!term]);
}

/* ---- What follows a product ---- */

/* The epilogue that does a node's work, where its input `of` is a product, and which input is its operand. */
typedef struct eitp__ending {
    eitp__op_code op;
    eitp__epilogue epilogue;
    int of;
    int operand; /* -1: none */
    int shared;  /* other nodes may use the product too: it stores both */
} eitp__ending;

static const eitp__ending *eitp__endings(size_t *count) {
    static const eitp__ending endings[] = {
        {EITP__OP_GELU_TANH, EITP__EPILOGUE_GELU_TANH, 0, -1, 1},
        {EITP__OP_GELU_ERF, EITP__EPILOGUE_GELU_ERF, 0, -1, 1},
        {EITP__OP_SILU, EITP__EPILOGUE_SILU, 0, -1, 1},
        {EITP__OP_GELU_TANH_BACKWARD, EITP__EPILOGUE_GELU_TANH_BACKWARD, 1, 0, 0},
        {EITP__OP_GELU_ERF_BACKWARD, EITP__EPILOGUE_GELU_ERF_BACKWARD, 1, 0, 0},
        {EITP__OP_SILU_BACKWARD, EITP__EPILOGUE_SILU_BACKWARD, 1, 0, 0},
        {EITP__OP_ADD, EITP__EPILOGUE_ADD, 1, 0, 0},
        {EITP__OP_ADD, EITP__EPILOGUE_ADD, 0, 1, 0},
    };
    *count = EITP__COUNT(endings);
    return endings;
}

/* The product whose epilogue can do the node's work as `ending` says; NULL where there is none. */
static eitp__node *eitp__product_before(const eitp__fusion *fusion, const eitp__node *node,
                                        const eitp__ending *ending) {
    const eitp__backend *backend = fusion->plan->context->backend;
    const eitp_tensor *y = node->outputs[0], *p, *operand;
    eitp__node *product;
    if (node->op != ending->op)
        return NULL;
    p = eitp__lowered(node->inputs[ending->of]);
    operand = ending->operand >= 0 ? eitp__lowered(node->inputs[ending->operand]) : NULL;
    product = p->node;
    if (!product || product->op != EITP__OP_MATMUL || fusion->endings[product->id] || p == operand ||
        p->dtype != y->dtype || y->dtype != eitp__node_dtype(product) || !eitp__same_shape(p, y) || p->rows != y->rows)
        return NULL;
    if (operand && (!eitp__same_shape(operand, y) || operand->dtype != y->dtype || operand->rows != y->rows))
        return NULL;
    if (!backend->interface->supports_epilogue(backend, y->dtype, ending->epilogue))
        return NULL;
    if (!ending->shared && (fusion->uses[p->id] > 1 || p->is_output))
        return NULL;
    return product;
}

static void eitp__find_endings(eitp__fusion *fusion) {
    const eitp_graph *graph = fusion->graph;
    size_t count;
    const eitp__ending *endings = eitp__endings(&count);
    for (size_t n = 0; n < graph->node_count; n++) {
        for (size_t e = 0; e < count && fusion->needed[n] && !fusion->adders[n] && !fusion->products[n]; e++) {
            fusion->products[n] = eitp__product_before(fusion, graph->nodes[n], &endings[e]);
            if (fusion->products[n])
                fusion->endings[fusion->products[n]->id] = graph->nodes[n];
        }
    }
}

/* Lets a product's step do its ending's work. */
static void eitp__add_ending(const eitp__fusion *fusion, eitp__step *step, eitp__node *node) {
    eitp_tensor *p = step->node->outputs[0];
    size_t count;
    const eitp__ending *ending = eitp__endings(&count);
    while (!(ending->op == node->op && eitp__lowered(node->inputs[ending->of]) == p))
        ending++;
    step->epilogue = ending->epilogue;
    step->inputs[2] = step->input_count > 2 ? step->inputs[2] : NULL;
    step->inputs[3] = ending->operand >= 0 ? eitp__lowered(node->inputs[ending->operand]) : NULL;
    step->input_count = 4;
    step->outputs[0] = node->outputs[0];
    if (fusion->uses[p->id] > 1) {
        step->outputs[1] = p;
        step->output_count = 2;
    }
}

/* ---- Accumulations ---- */

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
static const eitp_tensor *eitp__accumulated_value(const eitp__fusion *fusion, const eitp__node *accumulation) {
    const eitp_tensor *value = eitp__lowered(accumulation->inputs[1]);
    while (fusion->uses[value->id] == 1 && !value->is_output && value->node && eitp__is_view(value->node))
        value = eitp__lowered(value->node->inputs[0]);
    return fusion->uses[value->id] == 1 && !value->is_output ? value : NULL;
}

static void eitp__find_accumulations(eitp__fusion *fusion) {
    const eitp_graph *graph = fusion->graph;
    for (size_t n = 0; n < graph->node_count; n++) {
        const eitp_tensor *value = NULL;
        if (fusion->needed[n] && graph->nodes[n]->op == EITP__OP_ACCUMULATE)
            value = eitp__accumulated_value(fusion, graph->nodes[n]);
        if (value)
            fusion->accumulations[value->id] = graph->nodes[n];
    }
}

/*
 * Can the node do the accumulations of all its outputs? Its kernel must know how, it must not read what it would
 * change, and all must carry the same.
 */
static int eitp__can_accumulate(const eitp__fusion *fusion, const eitp__node *node) {
    const eitp__node *first = fusion->accumulations[node->outputs[0]->id];
    if (fusion->endings[node->id])
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
    memset(step, 0, sizeof *step);
    step->node = node;
    step->input_count = node->input_count;
    step->output_count = node->output_count;
    step->accumulates = eitp__can_accumulate(fusion, node);
    for (int i = 0; i < node->input_count; i++)
        step->inputs[i] = eitp__lowered(node->inputs[i]);
    for (int i = 0; i < node->output_count; i++) {
        const eitp__node *accumulation = step->accumulates ? fusion->accumulations[node->outputs[i]->id] : NULL;
        step->outputs[i] = accumulation ? accumulation->outputs[0] : node->outputs[i];
        if (accumulation) {
            step->replaces[i] = eitp__lowered(accumulation->inputs[0]);
            step->carry = eitp__lowered(accumulation->inputs[2]);
        } else {
            step->replaces[i] = eitp__lowered(eitp__shared_input(node, i));
        }
    }
    if (fusion->endings[node->id])
        eitp__add_ending(fusion, step, fusion->endings[node->id]);
    if (fusion->sums[node->id])
        eitp__add_sum(step, fusion->sums[node->id]);
}

/* Is the accumulation done by the node whose value it adds? */
static int eitp__is_absorbed(const eitp__fusion *fusion, const eitp__node *node) {
    const eitp_tensor *value;
    if (node->op != EITP__OP_ACCUMULATE)
        return 0;
    value = eitp__accumulated_value(fusion, node);
    return value && value->node && eitp__can_accumulate(fusion, value->node);
}

static int eitp__make_steps(eitp__fusion *fusion) {
    eitp_plan *plan = fusion->plan;
    const eitp_graph *graph = fusion->graph;
    for (size_t n = 0; n < graph->node_count; n++) {
        eitp__node *node = graph->nodes[n];
        plan->visits.fuse++;
        if (!fusion->needed[n] || eitp__is_view(node) || fusion->products[n] || fusion->adders[n] ||
            eitp__is_absorbed(fusion, node))
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
    size_t bytes = (tensors + 4 * nodes) * sizeof(eitp__node *);
    eitp__node **lists = (eitp__node **)eitp__allocate(host, bytes);
    eitp__fusion fusion = EITP__ZERO;
    int made = 0;
    fusion.plan = plan;
    fusion.graph = plan->graph;
    fusion.needed = plan->needed;
    fusion.uses = (int *)eitp__allocate(host, tensors * sizeof *fusion.uses);
    if (lists && fusion.uses) {
        fusion.accumulations = lists;
        fusion.products = fusion.accumulations + tensors;
        fusion.endings = fusion.products + nodes;
        fusion.adders = fusion.endings + nodes;
        fusion.sums = fusion.adders + nodes;
        eitp__count_uses(&fusion);
        eitp__find_accumulations(&fusion);
        eitp__find_adders(&fusion);
        eitp__find_endings(&fusion);
        made = eitp__make_steps(&fusion);
    }
    eitp__release(host, fusion.uses, tensors * sizeof *fusion.uses);
    eitp__release(host, lists, bytes);
    return made || !bytes ? EITP_OK : eitp__fail_memory(error, bytes, "the steps of a plan");
}
