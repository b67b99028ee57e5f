/* Rows of a tensor, either computed without the other rows by the rule of its op, or a view. */
#include "tensor/op_rules.h"

static eitp_tensor *eitp__rows_view(eitp_tensor *x, int64_t begin, int64_t end, int may_vary) {
    eitp__attributes attributes = EITP__ZERO;
    attributes.integers[0] = begin;
    attributes.integers[1] = end;
    attributes.integers[2] = may_vary;
    return eitp__apply(EITP__OP_ROWS, &x, 1, &attributes);
}

EITP__PRIVATE eitp_tensor *eitp__part_of_rows(eitp_tensor *x, int64_t begin, int64_t end) {
    return eitp__rows_view(x, begin, end, 1);
}

EITP__PRIVATE eitp_tensor *eitp__rows(eitp_tensor *x, int64_t begin, int64_t end) {
    eitp_tensor *(*rule)(const eitp__node *node, int64_t begin, int64_t end);
    eitp_tensor *rows = NULL;
    if (!x || (begin == 0 && x->rank && end == x->shape[0]))
        return x;
    rule = x->node && x->node->outputs[0] == x ? eitp__op(x->node->graph, x->node->op)->rows : NULL;
    if (rule) {
        const eitp_component component = eitp__graph_set_component(x->graph, x->node->origin.component);
        rows = rule(x->node, begin, end);
        eitp__graph_set_component(x->graph, component);
    }
    return rows ? rows : eitp__rows_view(x, begin, end, 0);
}
