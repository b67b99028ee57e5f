/* Accumulates gradients in variables: the gradient terms of every trained parameter of a loss. */
#include "tensor/autograd.h"
#include "tensor/op_rules.h"

EITP__PRIVATE const char *eitp__gradient_kind(eitp__gradient_set set, eitp__gradient_part part) {
    static const char *const kinds[EITP__GRADIENT_SETS][EITP__GRADIENT_PARTS] = {
        {EITP__KIND_GRADIENT, EITP__KIND_GRADIENT_TERM, EITP__KIND_GRADIENT_ROWS},
        {"regularizer_gradient", "regularizer_gradient_term", "regularizer_gradient_rows"}};
    return kinds[set][part];
}

/* Returns the variable in which a term of a parameter's gradient is accumulated. */
static eitp_tensor *eitp__gradient_term(const eitp_tensor *parameter, eitp__gradient_set set, int term) {
    eitp__child_info child = EITP__ZERO;
    child.kind = eitp__gradient_kind(set, term ? EITP__GRADIENT_OTHERS : EITP__GRADIENT_FIRST);
    child.number = term ? term + 1 : 0;
    child.role = EITP_GRADIENT;
    child.dtype = eitp__gradient_dtype(parameter);
    child.rank = parameter->rank;
    child.shape = parameter->shape;
    return eitp__child_tensor(parameter, &child);
}

eitp_tensor *eitp_gradient_variable(eitp_tensor *parameter) {
    if (!parameter)
        return NULL;
    if (!eitp__is_parameter(parameter)) {
        eitp__graph_fail(parameter->graph, EITP_ERROR_ARGUMENT,
                         "eitp_gradient_variable: only parameters have accumulated gradients");
        return NULL;
    }
    return eitp__gradient_term(parameter, EITP__TASK_GRADIENT, 0);
}

EITP__PRIVATE eitp_tensor *eitp__accumulated_term(const eitp_tensor *parameter, eitp__gradient_set set, int term) {
    const char *kind = eitp__gradient_kind(set, term ? EITP__GRADIENT_OTHERS : EITP__GRADIENT_FIRST);
    return eitp__found_child_tensor(parameter, kind, term ? term + 1 : 0);
}

/* Adds deferred rows to a separate variable. The update scatters its rows once per step. */
static void eitp__accumulate_rows(const eitp_tensor *parameter, eitp__gradient_set set, eitp_tensor *rows,
                                  eitp_tensor *carry) {
    eitp__child_info child = EITP__ZERO;
    child.kind = eitp__gradient_kind(set, EITP__GRADIENT_LOOKUPS);
    child.number = rows->shape[0];
    child.role = EITP_GRADIENT;
    child.dtype = rows->dtype;
    child.rank = rows->rank;
    child.shape = rows->shape;
    eitp_accumulate(eitp__child_tensor(parameter, &child), rows, carry);
}

/* Multiplies the variables of terms that this graph lacks by the carry, from term number `term` on. */
static void eitp__carry_other_terms(eitp_tensor *parameter, eitp__gradient_set set, int term, eitp_tensor *carry) {
    for (; term < EITP__GRADIENT_TERMS && carry; term++) {
        eitp_tensor *variable =
            term ? eitp__accumulated_term(parameter, set, term) : eitp__gradient_term(parameter, set, term);
        if (!variable)
            return;
        eitp_accumulate(variable, eitp_cast(eitp__fill_like(parameter, 0), eitp__gradient_dtype(parameter)), carry);
    }
}

/* Adds the terms of a parameter's gradient to its variable one by one, without storing their sum. With `separate`, each
   term goes to a separate variable, unless there are too many. */
static void eitp__accumulate_terms(eitp_tensor *parameter, const eitp__term *terms, eitp__gradient_set set,
                                   eitp_tensor *carry, int separate) {
    eitp_tensor *target = eitp__gradient_term(parameter, set, 0), *rows = NULL;
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
            target = eitp_accumulate(eitp__gradient_term(parameter, set, added++), term->value, carry);
        else
            target = eitp_accumulate(target, term->value, NULL);
    }
    eitp__carry_other_terms(parameter, set, added, carry);
    if (rows)
        eitp__accumulate_rows(parameter, set, rows, carry);
}

EITP__PRIVATE eitp_status eitp__check_loss(const eitp_tensor *loss, eitp_error *error) {
    char text[100];
    if (!loss)
        return eitp__fail(error, EITP_ERROR_ARGUMENT, "the loss is NULL; see eitp_graph_status for the reason");
    if (!eitp__is_floating(loss->dtype))
        return eitp__fail(error, EITP_ERROR_ARGUMENT, "the loss is %s; it must be floating-point",
                          eitp_dtype_name(loss->dtype));
    if (loss->rows || eitp__elements(loss) != 1)
        return eitp__fail(
            error, EITP_ERROR_ARGUMENT,
            "the loss has shape %s; it must be a single number, such as the result of eitp_mean or eitp_sum",
            eitp__shape_text(loss, text, sizeof text));
    return EITP_OK;
}

static eitp_status eitp__accumulate_loss(eitp_tensor *loss, eitp__gradient_set set, eitp_tensor *carry, int separate,
                                         eitp_error *error) {
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
            eitp__accumulate_terms(xs[i], terms[i], set, carry, separate);
    } else {
        eitp__graph_fail(graph, EITP_ERROR_MEMORY, "cannot allocate %zu bytes to differentiate the graph", 2 * bytes);
    }
    eitp__release(host, xs, bytes);
    eitp__release(host, terms, bytes);
    return eitp_graph_status(graph, error);
}

eitp_status eitp_accumulate_gradients(eitp_tensor *loss, eitp_tensor *carry, eitp_error *error) {
    return eitp__accumulate_loss(loss, EITP__TASK_GRADIENT, carry, 0, error);
}

EITP__PRIVATE eitp_status eitp__accumulate_gradient_terms(eitp_tensor *loss, eitp__gradient_set set, eitp_tensor *carry,
                                                          eitp_error *error) {
    return eitp__accumulate_loss(loss, set, carry, 1, error);
}

EITP__PRIVATE eitp_status eitp__accumulate_more(eitp_tensor *loss, eitp__gradient_set set, eitp_error *error) {
    return eitp__accumulate_loss(loss, set, NULL, 0, error);
}

EITP__PRIVATE eitp_status eitp__clear_gradients(eitp_context *context, eitp__gradient_set set, eitp_error *error) {
    eitp_status status = EITP_OK;
    for (size_t i = 0; i < eitp_variable_count(context) && !status; i++) {
        const eitp_variable variable = eitp_variable_at(context, i);
        for (int part = 0; part < EITP__GRADIENT_PARTS && !status; part++) {
            if (!strcmp(variable.kind, eitp__gradient_kind(set, (eitp__gradient_part)part)))
                status = eitp_variable_fill(context, variable.name, 0, error);
        }
    }
    return status;
}
