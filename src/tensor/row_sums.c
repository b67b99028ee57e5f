#include "tensor/row_sums.h"

#include "tensor/op_rules.h"

/* Dependence of a tensor: on no sample, or on samples; or it is a trained parameter, possibly cast or reshaped. */
typedef enum eitp__dependence { EITP__ON_NOTHING, EITP__ON_SAMPLES, EITP__IS_PARAMETER } eitp__dependence;

typedef struct eitp__tensor_uses {
    eitp__dependence dependence;
    const eitp_tensor *parameter; /* the parameter */
    int uses;                     /* uses of a parameter, its casts and reshapes, except lookups by distinct id */
    int lookups;                  /* lookups by distinct id */
    int is_ignored;               /* the loss does not depend on it, or only through eitp_stop_gradient */
} eitp__tensor_uses;

/* True if the gradient of an input is summed row by row, continuing the sum of the previous pass. */
static int eitp__continues_row_sum(const eitp__node *node, int input, const eitp__tensor_uses *tensors) {
    const eitp__op_info *op = eitp__op(node->graph, node->op);
    const unsigned row_sums = op->row_sums_of ? op->row_sums_of(node) : op->row_sums;
    if (!(row_sums >> input & 1))
        return 0;
    for (int i = 0; i < node->input_count && op->joint >> input & 1; i++) {
        if (op->joint >> i & 1 && tensors[node->inputs[i]->id].dependence != EITP__IS_PARAMETER)
            return 0;
    }
    return 1;
}

/* Counts a use of a parameter. Returns 0 if its gradient then depends on the passes. */
static int eitp__count_use(const eitp__node *node, int input, eitp__tensor_uses *tensors) {
    const eitp_tensor *x = node->inputs[input];
    eitp__tensor_uses *itself = &tensors[x->id], *parameter = &tensors[itself->parameter->id];
    if (itself != parameter && itself->uses++)
        return 0;
    if (node->op == EITP__OP_EMBEDDING && node->input_count > 2)
        return input == 0 && !parameter->lookups++ && !(x->node && x->node->op == EITP__OP_RESHAPE);
    return ++parameter->uses <= EITP__GRADIENT_TERMS && eitp__continues_row_sum(node, input, tensors);
}

/* True if the node's inputs have a gradient. */
static int eitp__passes_gradient(const eitp__node *node, const eitp__tensor_uses *tensors) {
    int is_ignored = 1;
    for (int i = 0; i < node->output_count; i++)
        is_ignored &= tensors[node->outputs[i]->id].is_ignored;
    return !is_ignored && node->op != EITP__OP_STOP_GRADIENT && eitp__is_floating(node->outputs[0]->dtype);
}

/* Returns the first parameter among the node's inputs whose gradient depends on the passes, or NULL. */
static const eitp_tensor *eitp__visit_uses(const eitp__node *node, eitp__tensor_uses *tensors) {
    const eitp_tensor *parameter = NULL, *dependent = NULL;
    eitp__tensor_uses result = EITP__ZERO;
    int has_gradient = eitp__passes_gradient(node, tensors);
    for (int i = 0; i < node->input_count; i++) {
        const eitp__tensor_uses *x = node->inputs[i] ? &tensors[node->inputs[i]->id] : NULL;
        if (x && x->dependence == EITP__ON_SAMPLES)
            result.dependence = EITP__ON_SAMPLES;
        else if (x && x->dependence == EITP__IS_PARAMETER)
            parameter = x->parameter;
    }
    if (parameter && has_gradient && result.dependence == EITP__ON_NOTHING) {
        /* In a function of parameters alone, sums over rows are multiplied by something before they are accumulated. */
        dependent = (node->op == EITP__OP_RESHAPE || node->op == EITP__OP_CAST) &&
                            (node->inputs[0] == parameter || !tensors[node->inputs[0]->id].uses++)
                        ? NULL
                        : parameter;
        result.dependence = EITP__IS_PARAMETER;
        result.parameter = parameter;
    }
    for (int i = 0; i < node->input_count && has_gradient && result.dependence == EITP__ON_SAMPLES && !dependent; i++) {
        const eitp__tensor_uses *x = node->inputs[i] ? &tensors[node->inputs[i]->id] : NULL;
        if (x && x->dependence == EITP__IS_PARAMETER && !eitp__count_use(node, i, tensors))
            dependent = x->parameter;
    }
    for (int i = 0; i < node->output_count; i++) {
        result.is_ignored = tensors[node->outputs[i]->id].is_ignored;
        tensors[node->outputs[i]->id] = result;
    }
    return dependent;
}

/* Finds the tensors that the loss does not depend on. */
static void eitp__ignore_other_tensors(const eitp_tensor *loss, eitp__tensor_uses *tensors) {
    const eitp_graph *graph = loss->graph;
    for (size_t i = 0; i < graph->tensor_count; i++)
        tensors[i].is_ignored = graph->tensors[i] != loss;
    for (size_t n = graph->node_count; n > 0; n--) {
        const eitp__node *node = graph->nodes[n - 1];
        const int passes = eitp__passes_gradient(node, tensors);
        for (int i = 0; i < node->input_count && passes; i++) {
            if (node->inputs[i])
                tensors[node->inputs[i]->id].is_ignored = 0;
        }
    }
}

EITP__PRIVATE eitp_status eitp__find_pass_dependent_gradient(const eitp_tensor *loss, const char **parameter,
                                                             eitp_error *error) {
    const eitp_graph *graph = loss->graph;
    const eitp_host *host = eitp__graph_host(graph);
    const size_t bytes = graph->tensor_count * sizeof(eitp__tensor_uses);
    eitp__tensor_uses *tensors = (eitp__tensor_uses *)eitp__allocate(host, bytes);
    *parameter = NULL;
    if (!tensors)
        return eitp__fail_memory(error, bytes, "the uses of tensors");
    for (size_t i = 0; i < graph->tensor_count; i++) {
        const eitp_tensor *tensor = graph->tensors[i];
        if (eitp__is_trained(tensor)) {
            tensors[i].dependence = EITP__IS_PARAMETER;
            tensors[i].parameter = tensor;
        } else if (tensor->leaf == EITP__INPUT) {
            tensors[i].dependence = EITP__ON_SAMPLES;
        }
    }
    eitp__ignore_other_tensors(loss, tensors);
    for (size_t n = 0; n < graph->node_count && !*parameter; n++) {
        const eitp_tensor *dependent = eitp__visit_uses(graph->nodes[n], tensors);
        *parameter = dependent ? eitp__variable_name(dependent) : NULL;
    }
    eitp__release(host, tensors, bytes);
    return EITP_OK;
}
