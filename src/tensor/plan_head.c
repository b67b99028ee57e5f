/*
 * The pass of a plan that divides large output heads. Their logits, [rows, vocabulary], can take more memory than the
 * rest of a plan, and only the loss and its gradients need them. So they are computed for a part of the rows at a time:
 * the logits, the loss, the gradient of the logits, the rows of the gradient of x, and the part's contribution to the
 * gradient of the table. The next part then reuses the memory. No product is computed twice, because the gradient of a
 * loss does not depend on the loss's value; a head whose gradient does depend on it stays whole.
 *
 * Rows are independent of each other except in the gradient of the table. There, each part continues the sum of the
 * parts before (eitp__continue_sum), even if that sum started with the gradient of earlier passes. Parts start at
 * multiples of the number of rows that a product sums at once, so all results have the same bits.
 *
 * Like expansions, parts are nodes of the graph that only plans reach, through eitp_tensor.lowered.
 */
#include "tensor/op_rules.h"
#include "tensor/plan.h"

/* Parts start at multiples of this number, which is a multiple of every eitp__backend_interface.sum_group. Products of
   fewer rows take much longer than their share, since they still read the whole table. */
#define EITP__PART_ROWS 64
#define EITP__MAX_PARTS 4096

/* The gradient of a head's logits for one gradient of its losses. */
typedef struct eitp__head_gradient {
    const eitp__node *node;
    eitp_tensor *part; /* its current part */
    struct eitp__head_gradient *next;
} eitp__head_gradient;

/* A product that reads the gradient, or columns [begin, end) of it. */
typedef struct eitp__head_use {
    eitp__node *node;
    eitp__head_gradient *gradient;
    int64_t begin, end;
    eitp_tensor **parts; /* of the gradient of x; NULL: the product gives the gradient of the table */
    eitp_tensor *sum;    /* gradient of the table, summed up to the current part */
    struct eitp__head_use *next;
} eitp__head_use;

typedef struct eitp__head {
    eitp_graph *graph;
    eitp__node *node;
    eitp__head_gradient *gradients;
    eitp__head_use *uses;
    int64_t rows, part_rows, parts;
    eitp_tensor **losses, **logsumexps; /* by part */
} eitp__head;

/* ---- Readers of the logits ---- */

/* True if a node was created with the graph, not for a plan. */
static int eitp__is_built(const eitp__node *node) {
    return node->order == node->id && !node->part;
}

/* Returns the node that computes x if x is the gradient of a loss of the head with respect to its logits; otherwise
   NULL. */
static const eitp__node *eitp__head_gradient_node(const eitp__node *head, const eitp_tensor *x) {
    const eitp__node *node = x ? x->node : NULL;
    int targets;
    if (!node || (node->op != EITP__OP_CROSS_ENTROPY_BACKWARD && node->op != EITP__OP_HEAD_BACKWARD))
        return NULL;
    targets = node->op == EITP__OP_HEAD_BACKWARD ? 2 : 1;
    return eitp__is_built(node) && node->inputs[0] == head->outputs[2] && node->inputs[targets] == head->inputs[2] &&
                   node->inputs[targets + 1] == head->outputs[1]
               ? node
               : NULL;
}

/* Like eitp__head_gradient_node, for x or for the tensor whose columns x is. */
static const eitp__node *eitp__head_columns_node(const eitp__node *head, const eitp_tensor *x) {
    const eitp__node *slice = x ? x->node : NULL;
    const int is_columns = slice && slice->op == EITP__OP_SLICE && x->shape[0] == slice->inputs[0]->shape[0];
    return eitp__head_gradient_node(head, is_columns ? slice->inputs[0] : x);
}

/* True if the node is a product that computes a gradient of x or the table from the gradient of the logits. */
static int eitp__is_head_product(const eitp__node *head, const eitp__node *node) {
    const eitp_tensor *a = node->inputs[0];
    if (node->op != EITP__OP_MATMUL || node->input_count > 2 || node->attributes.integers[1] ||
        !eitp__head_columns_node(head, a))
        return 0;
    if (node->attributes.integers[0])
        return node->inputs[1] == head->inputs[0];
    return node->inputs[1] == head->inputs[1] && eitp__head_gradient_node(head, a);
}

/* True if parts can compute everything that the node reads through input i. */
static int eitp__is_divisible_use(const eitp__node *head, const eitp__node *node, int i) {
    const eitp_tensor *x = node->inputs[i];
    if (x == head->outputs[2] || x == head->outputs[3])
        return eitp__head_gradient_node(head, node->outputs[0]) && !node->outputs[0]->is_output;
    if (!eitp__head_columns_node(head, x))
        return 1;
    return eitp__is_head_product(head, node) ||
           (eitp__head_columns_node(head, node->outputs[0]) && !node->outputs[0]->is_output);
}

/* True if a 16-bit product could be fused with the node that reads it, which then reads the sums before rounding. Parts
   are not fused. */
static int eitp__has_head_epilogue(const eitp__node *head, const eitp__node *node) {
    const eitp__epilogue_rule *rules = eitp__op(node->graph, node->op)->epilogues;
    for (int e = 0; e < EITP__OP_EPILOGUES && rules[e].epilogue; e++) {
        const eitp_tensor *x = node->inputs[rules[e].product];
        if (x->node && eitp__wide(x->dtype) != x->dtype && eitp__is_head_product(head, x->node))
            return 1;
    }
    return 0;
}

/* True if the head can be divided: its logits are only read by gradients of the loss that do not depend on the loss.
   `depends` is indexed by tensor id and zeroed. */
static int eitp__is_divisible(const eitp__node *head, unsigned char *depends) {
    const eitp_graph *graph = head->graph;
    if (head->outputs[2]->is_output || head->outputs[3]->is_output)
        return 0;
    for (int i = 0; i < head->output_count; i++)
        depends[head->outputs[i]->id] = 1;
    for (size_t n = (size_t)head->id + 1; n < graph->node_count; n++) {
        const eitp__node *node = graph->nodes[n];
        if (!eitp__is_built(node))
            continue;
        for (int i = 0; i < node->input_count; i++) {
            if (!node->inputs[i] || !depends[node->inputs[i]->id])
                continue;
            if (!eitp__is_divisible_use(head, node, i))
                return 0;
            for (int o = 0; o < node->output_count; o++)
                depends[node->outputs[o]->id] = 1;
        }
        if (eitp__head_gradient_node(head, node->outputs[0]) && depends[node->inputs[node->input_count - 1]->id])
            return 0;
        if (eitp__has_head_epilogue(head, node))
            return 0;
    }
    return 1;
}

/* ---- Whole heads ---- */

EITP__PRIVATE int eitp__head_order(const eitp__node *head) {
    const eitp_graph *graph = head->graph;
    const eitp_host *host = eitp__graph_host(graph);
    unsigned char *depends = NULL;
    int order = head->order;
    for (size_t n = (size_t)head->id + 1; n < graph->node_count && eitp__is_built(head); n++) {
        const eitp__node *gradient = eitp__head_gradient_node(head, graph->nodes[n]->outputs[0]);
        if (!gradient)
            continue;
        depends = (unsigned char *)eitp__allocate(host, graph->tensor_count);
        order = depends && eitp__is_divisible(head, depends) ? gradient->order : order;
        break;
    }
    eitp__release(host, depends, graph->tensor_count);
    return order;
}

/* ---- Sizes ---- */

static size_t eitp__row_of_logits(const eitp__node *head) {
    return (size_t)head->inputs[1]->shape[0] * eitp_dtype_size(head->inputs[0]->dtype);
}

static size_t eitp__bytes_of_logits(const eitp__node *head) {
    return (size_t)head->inputs[0]->shape[0] * eitp__row_of_logits(head);
}

/* Returns the rows of a part: whole tiles of the products, if they fit. */
static int64_t eitp__rows_in_part(const eitp__node *head, size_t bytes) {
    const eitp__backend *backend = head->graph->context->backend;
    const int64_t rows = head->inputs[0]->shape[0], most = (int64_t)(bytes / eitp__row_of_logits(head));
    const int64_t tile = backend->interface->tile_rows(backend, head->inputs[0]->dtype);
    const int64_t unit = tile > 0 && tile <= most && tile % EITP__PART_ROWS == 0 ? tile : EITP__PART_ROWS;
    const int64_t fewest = (rows + EITP__MAX_PARTS - 1) / EITP__MAX_PARTS;
    int64_t units = most / unit;
    units = units * unit > fewest ? units : (fewest + unit - 1) / unit;
    return (units > 1 ? units : 1) * unit;
}

EITP__PRIVATE int64_t eitp__head_rows(const eitp__node *node) {
    return node->is_replaced ? eitp__rows_in_part(node, node->graph->head_divided) : node->inputs[0]->shape[0];
}

/* ---- Dividing ---- */

static eitp__head_gradient *eitp__find_head_gradient(eitp__head *head, const eitp__node *node) {
    eitp__head_gradient **last = &head->gradients;
    for (; *last; last = &(*last)->next) {
        if ((*last)->node == node)
            return *last;
    }
    *last = (eitp__head_gradient *)eitp__graph_allocate(head->graph, sizeof **last);
    if (*last)
        (*last)->node = node;
    return *last;
}

static eitp_tensor **eitp__allocate_parts(const eitp__head *head) {
    return (eitp_tensor **)eitp__graph_allocate(head->graph, (size_t)head->parts * sizeof(eitp_tensor *));
}

/* Lists the products that read gradients of the logits. */
static void eitp__find_head_uses(eitp__head *head) {
    eitp__head_use **last = &head->uses;
    for (size_t n = 0; n < head->graph->node_count && !head->graph->error.status; n++) {
        eitp__node *node = head->graph->nodes[n];
        const eitp_tensor *a = node->inputs[0];
        eitp__head_use *use;
        if (!eitp__is_built(node) || !eitp__is_head_product(head->node, node))
            continue;
        use = *last = (eitp__head_use *)eitp__graph_allocate(head->graph, sizeof *use);
        if (!use)
            return;
        use->node = node;
        use->gradient = eitp__find_head_gradient(head, eitp__head_columns_node(head->node, a));
        use->begin = a->node->op == EITP__OP_SLICE ? a->node->attributes.integers[1] : 0;
        use->end = use->begin + a->shape[1];
        use->parts = node->attributes.integers[0] ? NULL : eitp__allocate_parts(head);
        last = &use->next;
    }
}

/* Adds the products of a use for the part with rows x. */
static void eitp__add_head_products(const eitp__head *head, eitp__head_use *use, int64_t part, eitp_tensor *x) {
    eitp_tensor *d = use->gradient->part, *product;
    if (use->parts) {
        use->parts[part] = eitp__matmul_node(d, head->node->inputs[1], NULL, 0, 0, use->node->outputs[0]->dtype);
        return;
    }
    if (use->end - use->begin < head->node->inputs[1]->shape[0])
        d = eitp_slice(d, 1, use->begin, use->end);
    product = eitp__matmul_node(d, x, NULL, 1, 0, eitp__wide(x ? x->dtype : EITP_F32));
    use->sum = part ? eitp__continue_sum(use->sum, product) : product;
}

/* Orders the nodes from `first` on after all earlier parts. */
static void eitp__order_part(const eitp__head *head, size_t first, int64_t part) {
    for (size_t n = first; n < head->graph->node_count; n++) {
        head->graph->nodes[n]->order = head->gradients ? head->gradients->node->order : head->node->order;
        head->graph->nodes[n]->part = (int)part + 1;
    }
}

/* Adds the nodes of a part. */
static void eitp__add_head_part(eitp__head *head, int64_t part) {
    const int64_t begin = part * head->part_rows;
    const int64_t end = begin + head->part_rows < head->rows ? begin + head->part_rows : head->rows;
    const size_t first = head->graph->node_count;
    eitp_tensor *inputs[3];
    const eitp__node *node;
    head->graph->origin = head->node->origin;
    inputs[0] = eitp__part_of_rows(head->node->inputs[0], begin, end);
    inputs[1] = head->node->inputs[1];
    inputs[2] = eitp__part_of_rows(head->node->inputs[2], begin, end);
    node = eitp__node_create(head->graph, EITP__OP_LINEAR_CROSS_ENTROPY, inputs, 3, &head->node->attributes);
    if (!node)
        return;
    head->losses[part] = node->outputs[0];
    head->logsumexps[part] = node->outputs[1];
    for (eitp__head_gradient *gradient = head->gradients; gradient; gradient = gradient->next) {
        head->graph->origin = gradient->node->origin;
        gradient->part = eitp__gradient_of_logits(
            node, eitp__part_of_rows(gradient->node->inputs[gradient->node->input_count - 1], begin, end));
    }
    for (eitp__head_use *use = head->uses; use && !head->graph->error.status; use = use->next) {
        head->graph->origin = use->node->origin;
        eitp__add_head_products(head, use, part, inputs[0]);
    }
    eitp__order_part(head, first, part);
}

/* Makes plans compute y instead of output i of the node. */
static void eitp__replace_output(eitp__node *node, int i, eitp_tensor *y) {
    node->outputs[i]->lowered = y;
    node->is_replaced = 1;
}

static void eitp__divide_head(eitp_graph *graph, eitp__node *node, size_t bytes) {
    const eitp__origin origin = graph->origin;
    eitp__head head = EITP__ZERO;
    size_t first;
    head.graph = graph;
    head.node = node;
    head.rows = node->inputs[0]->shape[0];
    head.part_rows = eitp__rows_in_part(node, bytes);
    head.parts = (head.rows + head.part_rows - 1) / head.part_rows;
    head.losses = eitp__allocate_parts(&head);
    head.logsumexps = eitp__allocate_parts(&head);
    eitp__find_head_uses(&head);
    for (int64_t part = 0; part < head.parts && !graph->error.status; part++)
        eitp__add_head_part(&head, part);
    first = graph->node_count;
    if (!graph->error.status) {
        graph->origin = node->origin;
        eitp__replace_output(node, 0, eitp_concat(head.losses, (int)head.parts, 0));
        eitp__replace_output(node, 1, eitp_concat(head.logsumexps, (int)head.parts, 0));
    }
    for (eitp__head_use *use = head.uses; use && !graph->error.status; use = use->next) {
        graph->origin = use->node->origin;
        eitp__replace_output(use->node, 0,
                             use->parts ? eitp_concat(use->parts, (int)head.parts, 0)
                                        : eitp_cast(use->sum, use->node->outputs[0]->dtype));
    }
    eitp__order_part(&head, first, head.parts);
    graph->origin = origin;
}

/* Undoes the division. The nodes of parts stay, but nothing reaches them. */
static void eitp__join_heads(eitp_graph *graph) {
    for (size_t n = 0; n < graph->node_count; n++) {
        eitp__node *node = graph->nodes[n];
        for (int i = 0; i < node->output_count && node->is_replaced; i++)
            node->outputs[i]->lowered = NULL;
        node->is_replaced = 0;
    }
    graph->head_divided = 0;
}

/* True if the tensor is in an offloaded variable. */
static int eitp__is_in_file(const eitp_tensor *x) {
    const eitp_tensor *owner = x->storage;
    return owner->leaf == EITP__VARIABLE && owner->graph->context->variables[owner->variable].info.offloaded;
}

/* True if the node is a head whose logits take more than `bytes`. Excludes heads with a table in a file, which would be
   read for every part. */
static int eitp__is_large_head(const eitp__node *node, size_t bytes) {
    return node->op == EITP__OP_LINEAR_CROSS_ENTROPY && eitp__is_built(node) && eitp__bytes_of_logits(node) > bytes &&
           !eitp__is_in_file(node->inputs[1]);
}

EITP__PRIVATE int eitp__has_heads(const eitp_graph *graph, size_t bytes) {
    for (size_t n = 0; n < graph->node_count; n++) {
        if (eitp__is_large_head(graph->nodes[n], bytes))
            return 1;
    }
    return 0;
}

EITP__PRIVATE eitp_status eitp__divide_heads(eitp_graph *graph, size_t bytes, eitp_error *error) {
    const size_t nodes = graph->node_count;
    const eitp_host *host = eitp__graph_host(graph);
    if (graph->has_plan || graph->head_divided == bytes)
        return eitp_graph_status(graph, error);
    eitp__join_heads(graph);
    graph->head_divided = bytes;
    for (size_t n = 0; n < nodes && bytes && !graph->error.status; n++) {
        eitp__node *node = graph->nodes[n];
        const size_t tensors = graph->tensor_count;
        unsigned char *depends;
        if (!eitp__is_large_head(node, bytes) || node->inputs[0]->shape[0] <= eitp__rows_in_part(node, bytes))
            continue;
        depends = (unsigned char *)eitp__allocate(host, tensors);
        if (!depends)
            return eitp__fail_memory(error, tensors, "the tensors that depend on a loss");
        if (eitp__is_divisible(node, depends))
            eitp__divide_head(graph, node, bytes);
        eitp__release(host, depends, tensors);
    }
    return eitp_graph_status(graph, error);
}
