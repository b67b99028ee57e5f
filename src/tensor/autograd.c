/*
 * Reverse-mode differentiation of the graph. Gradients are ordinary nodes. An op without a gradient rule is
 * differentiated through its expansion, so a gradient can be differentiated again through anything.
 */
#include "tensor/op_rules.h"

/* A gradient term. A tensor's gradient is the sum of its terms. */
typedef struct eitp__term {
    eitp_tensor *value;
    struct eitp__term *next;
} eitp__term;

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

/*
 * The gradient of a trained parameter. Sums the terms as eitp_accumulate_gradients and the update do: one by one, with
 * the deferred rows of eitp_embedding_unique last.
 */
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

static void eitp__differentiate(eitp_graph *graph, size_t first, int y_count, eitp_tensor *const *ys,
                                eitp_tensor *const *seeds, int x_count, eitp_tensor *const *xs, eitp__term **terms);

/* Computes dx by differentiating the node's expansion. */
static void eitp__differentiate_expansion(const eitp__node *node, const eitp__backward_pass *pass,
                                          eitp_tensor *const *dy, eitp_tensor **dx) {
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
        if (x && (size_t)x->id < pass->tensors && pass->needed[x->id]) {
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
    for (int i = 0; i < node->output_count; i++) {
        int id = node->outputs[i]->id;
        if (!pass->needed[id])
            continue;
        dy[i] = eitp__sum_terms(pass->terms[id]);
        has_gradient |= dy[i] != NULL;
        has_saved_gradient |= i && dy[i];
    }
    if (!has_gradient)
        return;
    memset(dx, 0, sizeof dx);
    /*
     * A gradient rule takes the gradient of the first output only. Other outputs are values saved for the backward
     * pass; if one of these has a gradient, only the expansion can be differentiated.
     */
    if (info->gradient && dy[0] && !has_saved_gradient)
        info->gradient(node, dy, dx);
    else
        eitp__differentiate_expansion(node, pass, dy, dx);
    for (int i = 0; i < node->input_count; i++) {
        if (node->inputs[i])
            eitp__add_term(pass, node->inputs[i], dx[i]);
    }
}

/*
 * Computes the gradient terms of xs[i] as terms[i]: from the ys, weighted by seeds, through the nodes from `first` on.
 * A NULL y or seed contributes nothing.
 */
static void eitp__differentiate(eitp_graph *graph, size_t first, int y_count, eitp_tensor *const *ys,
                                eitp_tensor *const *seeds, int x_count, eitp_tensor *const *xs, eitp__term **terms) {
    const eitp_host *host = NULL;
    eitp__backward_pass pass;
    size_t nodes = graph->node_count;
    for (int i = 0; i < x_count; i++)
        terms[i] = NULL;
    if (graph->error.status)
        return;
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
    } else {
        eitp__graph_fail(graph, EITP_ERROR_MEMORY, "cannot allocate %zu bytes to differentiate the graph",
                         pass.tensors * (1 + 2 * sizeof *pass.terms));
    }
    eitp__release(host, pass.needed, pass.tensors);
    eitp__release(host, pass.terms, pass.tensors * sizeof *pass.terms);
    eitp__release(host, pass.last, pass.tensors * sizeof *pass.last);
}

/*
 * Replaces a node with a 16-bit dtype by the same op in F32 between casts. Returns 0 if its dtype is another, or it
 * changes a variable.
 */
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
    /* The fused gradient of an op is the derivative of the op's expansion. */
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
                              "gradients: xs[%d] must be a floating-point tensor of y's graph", i);
    }
    return eitp__is_floating(y->dtype)
               ? EITP_OK
               : eitp__fail(error, EITP_ERROR_ARGUMENT, "gradients: y is %s; it must be floating-point",
                            eitp_dtype_name(y->dtype));
}

eitp_status eitp_gradients(eitp_tensor *y, eitp_tensor *seed, int count, eitp_tensor *const *xs,
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

/* Adds deferred rows to a variable of their own. The update scatters its rows once per step. */
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

/* The variable in which a term of a parameter's gradient is accumulated. */
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

/* Multiplies by the carry the variables of terms that this graph lacks, from term number `term` on. */
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
 * Adds the terms of a parameter's gradient to its variable one by one, without storing their sum. With `separate`, each
 * term goes to a variable of its own, unless there are too many.
 */
static void eitp__accumulate_terms(eitp_tensor *parameter, const eitp__term *terms, eitp_tensor *carry, int separate) {
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
        if (!added || (separate && count <= EITP__GRADIENT_TERMS))
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
        return eitp__fail(error, EITP_ERROR_ARGUMENT, "the loss is NULL; see eitp_graph_status for the reason");
    if (!eitp__is_floating(loss->dtype))
        return eitp__fail(error, EITP_ERROR_ARGUMENT, "the loss is %s; it must be floating-point",
                          eitp_dtype_name(loss->dtype));
    if (loss->rows || eitp__elements(loss) != 1)
        return eitp__fail(error, EITP_ERROR_ARGUMENT,
                          "the loss has shape %s; it must be a single number, as of eitp_mean or eitp_sum",
                          eitp__shape_text(loss, text, sizeof text));
    return EITP_OK;
}

static eitp_status eitp__accumulate_loss(eitp_tensor *loss, eitp_tensor *carry, int separate, eitp_error *error) {
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
            eitp__accumulate_terms(xs[i], terms[i], carry, separate);
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

EITP__PRIVATE eitp_status eitp__accumulate_gradient_terms(eitp_tensor *loss, eitp_tensor *carry, eitp_error *error) {
    return eitp__accumulate_loss(loss, carry, 1, error);
}
