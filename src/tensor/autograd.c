/*
 * Reverse-mode differentiation of the graph. Gradients are ordinary nodes, and an op without a gradient rule is
 * differentiated through its expansion, so gradients can be differentiated to any order.
 */
#include "tensor/autograd.h"

#include "tensor/op_rules.h"

/* State of a backward pass, by tensor id, for the tensors that exist when it starts. */
typedef struct eitp__backward_pass {
    eitp_graph *graph;
    size_t tensors;
    unsigned char *needed; /* the tensor depends on one of the xs */
    eitp__term **terms;    /* a list, in order of arrival */
    eitp__term **last;     /* the last of each list */
} eitp__backward_pass;

static void eitp__add_term(eitp__backward_pass *pass, const eitp_tensor *tensor, eitp_tensor *value) {
    eitp__term *term, *last;
    if (!value || (size_t)tensor->id >= pass->tensors || !pass->needed[tensor->id])
        return;
    value = eitp_cast(value, eitp__gradient_dtype(tensor));
    term = (eitp__term *)eitp__graph_allocate(pass->graph, sizeof *term);
    if (!term)
        return;
    term->value = value;
    last = pass->last[tensor->id];
    *(last ? &last->next : &pass->terms[tensor->id]) = term;
    pass->last[tensor->id] = term;
}

static eitp_tensor *eitp__sum_terms(const eitp__term *term) {
    eitp_tensor *sum = NULL;
    for (; term; term = term->next)
        eitp__add_gradient(&sum, term->value);
    return sum;
}

/* Returns the gradient of a trained parameter. Sums the terms in the order of eitp_accumulate_gradients and the update:
   one by one, with the deferred rows of eitp_embedding_unique last. */
static eitp_tensor *eitp__sum_parameter_terms(const eitp__term *terms) {
    eitp_tensor *sum = NULL;
    for (int is_deferred = 0; is_deferred < 2; is_deferred++) {
        for (const eitp__term *term = terms; term; term = term->next) {
            if ((eitp__deferred_rows(term->value) != NULL) == is_deferred)
                sum = sum ? eitp__add_unfused(sum, term->value) : term->value;
        }
    }
    return sum;
}

/* Marks the tensors that depend on the xs, among the outputs of nodes from `first` on. */
static void eitp__mark_needed(eitp__backward_pass *pass, size_t first, int count, eitp_tensor *const *xs) {
    eitp_graph *graph = pass->graph;
    for (int i = 0; i < count; i++)
        pass->needed[xs[i]->id] = 1;
    for (size_t n = first; n < graph->node_count; n++) {
        const eitp__node *node = graph->nodes[n];
        int needed = 0;
        for (int i = 0; i < node->input_count; i++)
            needed |= node->inputs[i] && pass->needed[node->inputs[i]->id];
        for (int i = 0; i < node->output_count && needed; i++)
            pass->needed[node->outputs[i]->id] = eitp__is_floating(node->outputs[i]->dtype) ? 1 : 0;
    }
}

/* Computes dx by differentiating the node's expansion. */
static void eitp__differentiate_expansion(const eitp__node *node, const eitp__backward_pass *pass,
                                          eitp_tensor *const *dy, eitp_tensor **dx) {
    eitp_graph *graph = node->graph;
    size_t first = graph->node_count;
    eitp_tensor *outputs[EITP__MAX_OUTPUTS] = EITP__ZERO, *xs[EITP__MAX_INPUTS] = EITP__ZERO;
    eitp__term *terms[EITP__MAX_INPUTS];
    int index[EITP__MAX_INPUTS], count = 0;
    if (!eitp__expand_node(node, outputs)) {
        eitp__graph_fail(graph, EITP_ERROR_UNSUPPORTED, "%s has no gradient", eitp__op(node->graph, node->op)->name);
        return;
    }
    for (int i = 0; i < node->input_count; i++) {
        eitp_tensor *x = node->inputs[i];
        int is_repeated = 0;
        for (int j = 0; j < count; j++)
            is_repeated |= xs[j] == x;
        if (x && !is_repeated && (size_t)x->id < pass->tensors && pass->needed[x->id]) {
            index[count] = i;
            xs[count++] = x;
        }
    }
    eitp__differentiate(graph, first, node->output_count, outputs, dy, count, xs, terms);
    for (int i = 0; i < count; i++)
        dx[index[i]] = eitp__sum_terms(terms[i]);
}

static void eitp__differentiate_node(eitp__backward_pass *pass, const eitp__node *node) {
    const eitp__op_info *info = eitp__op(node->graph, node->op);
    eitp_tensor *dy[EITP__MAX_OUTPUTS] = EITP__ZERO, *dx[EITP__MAX_INPUTS];
    int has_gradient = 0, has_saved_gradient = 0;
    node->graph->origin.component = node->origin.component;
    for (int i = 0; i < node->output_count; i++) {
        int id = node->outputs[i]->id;
        if (!pass->needed[id])
            continue;
        dy[i] = eitp__sum_terms(pass->terms[id]);
        has_gradient |= dy[i] != NULL;
        has_saved_gradient |= i && dy[i] && !(info->differentiable >> i & 1);
    }
    if (!has_gradient)
        return;
    memset(dx, 0, sizeof dx);
    /*
     * A gradient rule takes the gradient of the first output, and of other outputs that are differentiable; these may
     * be NULL. The remaining outputs are values saved for the backward pass. If one of them has a gradient, only the
     * expansion can be differentiated.
     */
    if (info->gradient && (dy[0] || info->differentiable) && !has_saved_gradient)
        info->gradient(node, dy, dx);
    else
        eitp__differentiate_expansion(node, pass, dy, dx);
    for (int i = 0; i < node->input_count; i++) {
        if (node->inputs[i])
            eitp__add_term(pass, node->inputs[i], dx[i]);
    }
}

EITP__PRIVATE void eitp__differentiate(eitp_graph *graph, size_t first, int y_count, eitp_tensor *const *ys,
                                       eitp_tensor *const *seeds, int x_count, eitp_tensor *const *xs,
                                       eitp__term **terms) {
    const eitp_host *host = NULL;
    const eitp_component component = graph->origin.component;
    eitp__backward_pass pass;
    size_t nodes = graph->node_count;
    for (int i = 0; i < x_count; i++)
        terms[i] = NULL;
    if (graph->error.status)
        return;
    graph->origin.phase = EITP__PHASE_BACKWARD;
    host = eitp__graph_host(graph);
    pass.graph = graph;
    pass.tensors = graph->tensor_count;
    pass.needed = (unsigned char *)eitp__allocate(host, pass.tensors);
    pass.terms = (eitp__term **)eitp__allocate(host, pass.tensors * sizeof *pass.terms);
    pass.last = (eitp__term **)eitp__allocate(host, pass.tensors * sizeof *pass.last);
    if (pass.needed && pass.terms && pass.last) {
        eitp__mark_needed(&pass, first, x_count, xs);
        for (int i = 0; i < y_count; i++) {
            if (ys[i] && seeds[i])
                eitp__add_term(&pass, ys[i], seeds[i]);
        }
        for (size_t n = nodes; n > first && !graph->error.status; n--)
            eitp__differentiate_node(&pass, graph->nodes[n - 1]);
        for (int i = 0; i < x_count; i++)
            terms[i] = pass.terms[xs[i]->id];
        graph->origin.component = component;
    } else {
        eitp__graph_fail(graph, EITP_ERROR_MEMORY, "cannot allocate %zu bytes to differentiate the graph",
                         pass.tensors * (1 + 2 * sizeof *pass.terms));
    }
    eitp__release(host, pass.needed, pass.tensors);
    eitp__release(host, pass.terms, pass.tensors * sizeof *pass.terms);
    eitp__release(host, pass.last, pass.tensors * sizeof *pass.last);
}

/* Replaces a node of a 16-bit dtype with the same op in F32 between casts. Returns 0 if it has another dtype or changes
   a variable. */
static int eitp__widen_node(const eitp__node *node, eitp_tensor **outputs) {
    const eitp__op_info *info = eitp__op(node->graph, node->op);
    eitp_dtype dtype = eitp__node_dtype(node);
    eitp__attributes attributes = node->attributes;
    eitp_tensor *inputs[EITP__MAX_INPUTS];
    eitp__node *wide;
    if (eitp__wide(dtype) == dtype || (int)node->op >= (int)EITP__SLOT_COUNT || node->op == EITP__OP_CAST ||
        info->shares[0])
        return 0;
    for (int i = 0; i < node->input_count; i++)
        inputs[i] = node->inputs[i] ? eitp_cast(node->inputs[i], eitp__wide(node->inputs[i]->dtype)) : NULL;
    attributes.dtype = eitp__wide(attributes.dtype);
    wide = eitp__node_create(node->graph, node->op, inputs, node->input_count, &attributes);
    for (int i = 0; i < node->output_count && wide; i++)
        outputs[i] = eitp_cast(wide->outputs[i], node->outputs[i]->dtype);
    return 1;
}

EITP__PRIVATE int eitp__expand_node(const eitp__node *node, eitp_tensor **outputs) {
    const eitp__op_info *info = eitp__op(node->graph, node->op);
    eitp__op_code forward;
    eitp__node original;
    eitp_tensor *results[EITP__MAX_OUTPUTS] = EITP__ZERO, *xs[EITP__MAX_OUTPUTS];
    eitp__term *terms[EITP__MAX_OUTPUTS];
    size_t first = node->graph->node_count;
    int numbers[EITP__MAX_OUTPUTS];
    if (eitp__widen_node(node, outputs))
        return 1;
    if (info->expand) {
        info->expand(node, outputs);
        return 1;
    }
    if (!info->backward_of)
        return 0;
    /* The fused gradient of an op is the derivative of the op's expansion. */
    forward = (eitp__op_code)(info->backward_of - 1);
    original = *node;
    original.op = forward;
    eitp__differentiated_inputs(node, numbers);
    for (int i = 0; i < node->output_count; i++) {
        /* A view, so that a tensor that is used as several inputs has a separate gradient for each. */
        eitp_tensor *x = node->inputs[numbers[i]];
        xs[i] = original.inputs[numbers[i]] = eitp_reshape(x, x->rank, x->shape);
    }
    if (!node->graph->error.status)
        eitp__op(node->graph, forward)->expand(&original, results);
    if (!results[0])
        return 1;
    eitp__differentiate(node->graph, first, 1, results, &node->inputs[node->input_count - 1], node->output_count, xs,
                        terms);
    for (int i = 0; i < node->output_count; i++) {
        outputs[i] = eitp__sum_terms(terms[i]);
        if (!outputs[i])
            outputs[i] = eitp__fill_like(xs[i], 0);
    }
    return 1;
}

static eitp_status eitp__check_differentiable(const eitp_tensor *y, int count, eitp_tensor *const *xs,
                                              eitp_error *error) {
    for (int i = 0; i < count; i++) {
        if (!xs[i] || xs[i]->graph != y->graph || !eitp__is_floating(xs[i]->dtype))
            return eitp__fail(error, EITP_ERROR_ARGUMENT,
                              "gradients: xs[%d] must be a floating-point tensor of y's graph", i);
    }
    return eitp__is_floating(y->dtype)
               ? EITP_OK
               : eitp__fail(error, EITP_ERROR_ARGUMENT, "gradients: y is %s; it must be floating-point",
                            eitp_dtype_name(y->dtype));
}

EITP__PRIVATE eitp_status eitp__gradients_or_null(eitp_tensor *y, eitp_tensor *seed, int count, eitp_tensor *const *xs,
                                                  eitp_tensor **gradients, eitp_error *error) {
    eitp_graph *graph;
    const eitp_host *host;
    eitp__term **terms;
    eitp_status status;
    if (!y)
        return eitp__fail(error, EITP_ERROR_ARGUMENT, "gradients: y is NULL; see eitp_graph_status for the reason");
    if (count > 0 && (!xs || !gradients))
        return eitp__fail_null(error, "eitp_gradients", "xs and gradients");
    graph = y->graph;
    status = eitp__check_differentiable(y, count, xs, error);
    if (status || count < 1)
        return status;
    if (seed && (seed->graph != graph || seed->dtype != y->dtype || !eitp__same_shape(seed, y)))
        return eitp__fail(error, EITP_ERROR_ARGUMENT, "gradients: seed must match y in graph, dtype and shape");
    host = eitp__graph_host(graph);
    terms = (eitp__term **)eitp__allocate(host, (size_t)count * sizeof *terms);
    if (!terms)
        return eitp__fail_memory(error, (size_t)count * sizeof *terms, "gradients");
    if (!seed)
        seed = eitp__fill_like(y, 1);
    eitp__differentiate(graph, 0, 1, &y, &seed, count, xs, terms);
    for (int i = 0; i < count; i++) {
        gradients[i] = eitp__is_trained(xs[i]) ? eitp__sum_parameter_terms(terms[i]) : eitp__sum_terms(terms[i]);
    }
    eitp__release(host, terms, (size_t)count * sizeof *terms);
    return eitp_graph_status(graph, error);
}

eitp_status eitp_gradients(eitp_tensor *y, eitp_tensor *seed, int count, eitp_tensor *const *xs,
                           eitp_tensor **gradients, eitp_error *error) {
    eitp_status status = eitp__gradients_or_null(y, seed, count, xs, gradients, error);
    for (int i = 0; i < count && !status; i++) {
        if (!gradients[i])
            gradients[i] = eitp_cast(eitp__fill_like(xs[i], 0), eitp__gradient_dtype(xs[i]));
    }
    return status ? status : count > 0 ? eitp_graph_status(y->graph, error) : EITP_OK;
}
