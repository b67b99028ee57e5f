/*
 * Reverse-mode differentiation of the graph. Gradients are ordinary nodes. An op without a gradient rule is
 * differentiated through its expansion, so a gradient can be differentiated again through anything.
 */
#include "tensor/op_rules.h"

/* One of the terms that a gradient is the sum of. */
typedef struct eitp__term {
    eitp_tensor *value;
    struct eitp__term *next;
} eitp__term;

/* Gradients under construction, by the tensor's id; only for tensors that are there when it starts. */
typedef struct eitp__flow {
    eitp_graph *graph;
    size_t tensors;
    unsigned char *needed; /* does it depend on any of the xs? */
    eitp__term **terms;    /* in the order they arrived */
    eitp__term **latest;   /* the last of them */
} eitp__flow;

static void eitp__add_term(eitp__flow *flow, const eitp_tensor *tensor, eitp_tensor *value) {
    eitp__term *term, *latest;
    if (!value || (size_t)tensor->id >= flow->tensors || !flow->needed[tensor->id])
        return;
    value = eitp_cast(value, eitp__gradient_dtype(tensor));
    term = (eitp__term *)eitp__graph_allocate(flow->graph, sizeof *term);
    if (!term)
        return;
    term->value = value;
    latest = flow->latest[tensor->id];
    *(latest ? &latest->next : &flow->terms[tensor->id]) = term;
    flow->latest[tensor->id] = term;
}

static eitp_tensor *eitp__sum_terms(const eitp__term *term) {
    eitp_tensor *sum = NULL;
    for (; term; term = term->next)
        eitp__add_gradient(&sum, term->value);
    return sum;
}

/*
 * The same of a trained parameter: its terms are summed as eitp_accumulate_gradients and the update do it, each by
 * itself, and what embedding_unique sums by distinct id comes last.
 */
static eitp_tensor *eitp__sum_parameter_terms(const eitp__term *terms) {
    eitp_tensor *sum = NULL;
    for (int is_deferred = 0; is_deferred < 2; is_deferred++) {
        for (const eitp__term *term = terms; term; term = term->next) {
            if ((eitp__deferred_rows(term->value) != NULL) == is_deferred)
                sum = sum ? eitp__add_apart(sum, term->value) : term->value;
        }
    }
    return sum;
}

/* Marks what depends on the xs, among the nodes from `first` on. */
static void eitp__mark_needed(eitp__flow *flow, size_t first, int count, eitp_tensor *const *xs) {
    eitp_graph *graph = flow->graph;
    for (int i = 0; i < count; i++)
        flow->needed[xs[i]->id] = 1;
    for (size_t n = first; n < graph->node_count; n++) {
        const eitp__node *node = graph->nodes[n];
        int needed = 0;
        for (int i = 0; i < node->input_count; i++)
            needed |= node->inputs[i] && flow->needed[node->inputs[i]->id];
        for (int i = 0; i < node->output_count && needed; i++)
            flow->needed[node->outputs[i]->id] = eitp__is_floating(node->outputs[i]->dtype) ? 1 : 0;
    }
}

static void eitp__differentiate(eitp_graph *graph, size_t first, int y_count, eitp_tensor *const *ys,
                                eitp_tensor *const *seeds, int x_count, eitp_tensor *const *xs, eitp__term **terms);

/* dx through the node's expansion. */
static void eitp__differentiate_expansion(const eitp__node *node, const eitp__flow *flow, eitp_tensor *const *dy,
                                          eitp_tensor **dx) {
    eitp_graph *graph = node->graph;
    size_t first = graph->node_count;
    eitp_tensor *outputs[EITP__MAX_OUTPUTS] = EITP__ZERO, *xs[EITP__MAX_INPUTS];
    eitp__term *terms[EITP__MAX_INPUTS];
    int index[EITP__MAX_INPUTS], count = 0;
    if (!eitp__expand_node(node, outputs)) {
        eitp__graph_fail(graph, EITP_ERROR_UNSUPPORTED, "%s has no gradient", eitp__op(node->graph, node->op)->name);
        return;
    }
    for (int i = 0; i < node->input_count; i++) {
        eitp_tensor *x = node->inputs[i];
        if (x && (size_t)x->id < flow->tensors && flow->needed[x->id]) {
            index[count] = i;
            xs[count++] = x;
        }
    }
    eitp__differentiate(graph, first, node->output_count, outputs, dy, count, xs, terms);
    for (int i = 0; i < count; i++)
        dx[index[i]] = eitp__sum_terms(terms[i]);
}

static void eitp__differentiate_node(eitp__flow *flow, const eitp__node *node) {
    const eitp__op_info *info = eitp__op(node->graph, node->op);
    eitp_tensor *dy[EITP__MAX_OUTPUTS] = EITP__ZERO, *dx[EITP__MAX_INPUTS];
    int flows = 0, saved_flows = 0;
    for (int i = 0; i < node->output_count; i++) {
        int id = node->outputs[i]->id;
        if (!flow->needed[id])
            continue;
        dy[i] = eitp__sum_terms(flow->terms[id]);
        flows |= dy[i] != NULL;
        saved_flows |= i && dy[i];
    }
    if (!flows)
        return;
    memset(dx, 0, sizeof dx);
    /* A rule takes the gradient of the first output; others are what the op saved, and only an expansion knows their
     * part. */
    if (info->gradient && dy[0] && !saved_flows)
        info->gradient(node, dy, dx);
    else
        eitp__differentiate_expansion(node, flow, dy, dx);
    for (int i = 0; i < node->input_count; i++) {
        if (node->inputs[i])
            eitp__add_term(flow, node->inputs[i], dx[i]);
    }
}

/*
 * terms[i]: what flows from the ys, weighted by seeds (a NULL y or seed: nothing), to xs[i] through the nodes from
 * `first` on.
 */
static void eitp__differentiate(eitp_graph *graph, size_t first, int y_count, eitp_tensor *const *ys,
                                eitp_tensor *const *seeds, int x_count, eitp_tensor *const *xs, eitp__term **terms) {
    const eitp_host *host = NULL;
    eitp__flow flow;
    size_t nodes = graph->node_count;
    for (int i = 0; i < x_count; i++)
        terms[i] = NULL;
    if (graph->error.status)
        return;
    host = eitp__graph_host(graph);
    flow.graph = graph;
    flow.tensors = graph->tensor_count;
    flow.needed = (unsigned char *)eitp__allocate(host, flow.tensors);
    flow.terms = (eitp__term **)eitp__allocate(host, flow.tensors * sizeof *flow.terms);
    flow.latest = (eitp__term **)eitp__allocate(host, flow.tensors * sizeof *flow.latest);
    if (flow.needed && flow.terms && flow.latest) {
        eitp__mark_needed(&flow, first, x_count, xs);
        for (int i = 0; i < y_count; i++) {
            if (ys[i] && seeds[i])
                eitp__add_term(&flow, ys[i], seeds[i]);
        }
        for (size_t n = nodes; n > first && !graph->error.status; n--)
            eitp__differentiate_node(&flow, graph->nodes[n - 1]);
        for (int i = 0; i < x_count; i++)
            terms[i] = flow.terms[xs[i]->id];
    } else {
        eitp__graph_fail(graph, EITP_ERROR_MEMORY, "cannot allocate %zu bytes to differentiate the graph",
                         flow.tensors * (1 + 2 * sizeof *flow.terms));
    }
    eitp__release(host, flow.needed, flow.tensors);
    eitp__release(host, flow.terms, flow.tensors * sizeof *flow.terms);
    eitp__release(host, flow.latest, flow.tensors * sizeof *flow.latest);
}

/* A node of a 16-bit column as the same op in F32 between casts. 0: it is of another column, or changes a variable. */
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
    if (eitp__widen_node(node, outputs))
        return 1;
    if (info->expand) {
        info->expand(node, outputs);
        return 1;
    }
    if (!info->backward_of)
        return 0;
    /* The gradient of an op is what differentiating the op's expansion gives. */
    forward = (eitp__op_code)(info->backward_of - 1);
    original = *node;
    original.op = forward;
    eitp__op(node->graph, forward)->expand(&original, results);
    for (int i = 0; i < node->output_count; i++)
        xs[i] = node->inputs[info->wrt[i]];
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
                              "gradients: x number %d is NULL, of another graph or of a dtype without gradients", i);
    }
    return eitp__is_floating(y->dtype)
               ? EITP_OK
               : eitp__fail(error, EITP_ERROR_ARGUMENT, "gradients: y is %s; it must be floating",
                            eitp_dtype_name(y->dtype));
}

eitp_status eitp_gradients(eitp_tensor *y, eitp_tensor *seed, int count, eitp_tensor *const *xs,
                           eitp_tensor **gradients, eitp_error *error) {
    eitp_graph *graph;
    const eitp_host *host;
    eitp__term **terms;
    eitp_status status;
    if (!y)
        return eitp__fail(error, EITP_ERROR_ARGUMENT, "gradients: y is NULL; eitp_graph_status says why");
    if (count > 0 && (!xs || !gradients))
        return eitp__fail_null(error, "eitp_gradients", "xs and gradients");
    graph = y->graph;
    status = eitp__check_differentiable(y, count, xs, error);
    if (status || count < 1)
        return status;
    if (seed && (seed->graph != graph || seed->dtype != y->dtype || !eitp__same_shape(seed, y)))
        return eitp__fail(error, EITP_ERROR_ARGUMENT, "gradients: the seed must have y's graph, dtype and shape");
    host = eitp__graph_host(graph);
    terms = (eitp__term **)eitp__allocate(host, (size_t)count * sizeof *terms);
    if (!terms)
        return eitp__fail_memory(error, (size_t)count * sizeof *terms, "gradients");
    if (!seed)
        seed = eitp__fill_like(y, 1);
    eitp__differentiate(graph, 0, 1, &y, &seed, count, xs, terms);
    for (int i = 0; i < count; i++) {
        gradients[i] = eitp__is_trained(xs[i]) ? eitp__sum_parameter_terms(terms[i]) : eitp__sum_terms(terms[i]);
        if (!gradients[i])
            gradients[i] = eitp_cast(eitp__fill_like(xs[i], 0), eitp__gradient_dtype(xs[i]));
    }
    eitp__release(host, terms, (size_t)count * sizeof *terms);
    return eitp_graph_status(graph, error);
}

EITP__PRIVATE eitp_status eitp__rows_gradient_name(const char *parameter, int64_t rows, char *name, size_t size,
                                                   eitp_error *error) {
    if (snprintf(name, size, "gradient_rows.%lld.%s", (long long)rows, parameter) >= (int)size)
        return eitp__fail(error, EITP_ERROR_ARGUMENT, "the name of parameter '%.60s...' is too long", parameter);
    return EITP_OK;
}

/* Adds the deferred terms to a variable of their own, whose rows the update scatters: one sum of them for a step. */
static void eitp__accumulate_rows(eitp_tensor *parameter, eitp_tensor *rows, eitp_tensor *carry) {
    char name[256];
    eitp_error error;
    if (eitp__rows_gradient_name(eitp__variable_name(parameter), rows->shape[0], name, sizeof name, &error)) {
        eitp__graph_fail(parameter->graph, error.status, "%s", error.message);
        return;
    }
    eitp_accumulate(eitp_variable_tensor(parameter->graph, name, EITP_GRADIENT, rows->dtype, rows->rank, rows->shape),
                    rows, carry);
}

EITP__PRIVATE eitp_status eitp__gradient_name(const char *parameter, int term, char *name, size_t size,
                                              eitp_error *error) {
    int length = term ? snprintf(name, size, "gradient_term.%d.%s", term + 1, parameter)
                      : snprintf(name, size, "gradient.%s", parameter);
    return length < (int)size
               ? EITP_OK
               : eitp__fail(error, EITP_ERROR_ARGUMENT, "the name of parameter '%.60s...' is too long", parameter);
}

/* The variable that a term of a parameter's gradient is accumulated in. */
static eitp_tensor *eitp__gradient_variable(eitp_tensor *parameter, int term) {
    char name[256];
    eitp_error error;
    if (eitp__gradient_name(eitp__variable_name(parameter), term, name, sizeof name, &error)) {
        eitp__graph_fail(parameter->graph, error.status, "%s", error.message);
        return NULL;
    }
    return eitp_variable_tensor(parameter->graph, name, EITP_GRADIENT, eitp__gradient_dtype(parameter), parameter->rank,
                                parameter->shape);
}

/* Multiplies variables of terms by the carry that have no term in this graph, from number `term` on. */
static void eitp__carry_other_terms(eitp_tensor *parameter, int term, eitp_tensor *carry) {
    char name[256];
    for (; term < EITP__GRADIENT_TERMS && carry; term++) {
        if (eitp__gradient_name(eitp__variable_name(parameter), term, name, sizeof name, NULL) ||
            (term && eitp_variable_find(parameter->graph->context, name) < 0))
            return;
        eitp_accumulate(eitp__gradient_variable(parameter, term),
                        eitp_cast(eitp__fill_like(parameter, 0), eitp__gradient_dtype(parameter)), carry);
    }
}

/*
 * Adds the terms of one parameter's gradient to its variable, one after the other: no sum of them is ever stored. With
 * `apart`, unless they are too many, each to a variable of its own.
 */
static void eitp__accumulate_terms(eitp_tensor *parameter, const eitp__term *terms, eitp_tensor *carry, int apart) {
    eitp_tensor *target = eitp__gradient_variable(parameter, 0), *rows = NULL;
    int count = 0, added = 0;
    for (const eitp__term *term = terms; term; term = term->next)
        count += eitp__deferred_rows(term->value) == NULL;
    for (const eitp__term *term = terms; term; term = term->next) {
        eitp_tensor *deferred = eitp__deferred_rows(term->value);
        if (deferred) {
            eitp__add_gradient(&rows, deferred);
            continue;
        }
        if (!added || (apart && count <= EITP__GRADIENT_TERMS))
            target = eitp_accumulate(eitp__gradient_variable(parameter, added++), term->value, carry);
        else
            target = eitp_accumulate(target, term->value, NULL);
    }
    eitp__carry_other_terms(parameter, added, carry);
    if (rows)
        eitp__accumulate_rows(parameter, rows, carry);
}

EITP__PRIVATE eitp_status eitp__check_loss(const eitp_tensor *loss, eitp_error *error) {
    char text[100];
    if (!loss)
        return eitp__fail(error, EITP_ERROR_ARGUMENT, "the loss is NULL; eitp_graph_status says why");
    if (!eitp__is_floating(loss->dtype))
        return eitp__fail(error, EITP_ERROR_ARGUMENT, "the loss is %s; it must be floating",
                          eitp_dtype_name(loss->dtype));
    if (loss->rows || eitp__elements(loss) != 1)
        return eitp__fail(error, EITP_ERROR_ARGUMENT,
                          "the loss is a tensor of shape %s; it must be one number: see eitp_mean and eitp_sum",
                          eitp__shape_text(loss, text, sizeof text));
    return EITP_OK;
}

static eitp_status eitp__accumulate_loss(eitp_tensor *loss, eitp_tensor *carry, int apart, eitp_error *error) {
    eitp_graph *graph;
    const eitp_host *host;
    eitp_tensor **xs, *seed;
    eitp__term **terms;
    size_t bytes;
    int count = 0;
    eitp_status status = eitp__check_loss(loss, error);
    if (status)
        return status;
    graph = loss->graph;
    host = eitp__graph_host(graph);
    bytes = graph->tensor_count * sizeof *xs;
    xs = (eitp_tensor **)eitp__allocate(host, bytes);
    terms = (eitp__term **)eitp__allocate(host, bytes);
    if (xs && terms) {
        for (size_t i = 0; i < graph->tensor_count; i++) {
            if (eitp__is_trained(graph->tensors[i]))
                xs[count++] = graph->tensors[i];
        }
        seed = eitp__fill_like(loss, 1);
        eitp__differentiate(graph, 0, 1, &loss, &seed, count, xs, terms);
        for (int i = 0; i < count; i++)
            eitp__accumulate_terms(xs[i], terms[i], carry, apart);
    } else {
        eitp__graph_fail(graph, EITP_ERROR_MEMORY, "cannot allocate %zu bytes to differentiate the graph", 2 * bytes);
    }
    eitp__release(host, xs, bytes);
    eitp__release(host, terms, bytes);
    return eitp_graph_status(graph, error);
}

eitp_status eitp_accumulate_gradients(eitp_tensor *loss, eitp_tensor *carry, eitp_error *error) {
    return eitp__accumulate_loss(loss, carry, 0, error);
}

EITP__PRIVATE eitp_status eitp__accumulate_gradients_apart(eitp_tensor *loss, eitp_tensor *carry, eitp_error *error) {
    return eitp__accumulate_loss(loss, carry, 1, error);
}
