/*
 * Order of a plan's steps. A topological sort that prefers creation order (forward as written, backward in reverse),
 * except that updates go as soon as their inputs are computed and the old value has no more readers, and norms as soon
 * as their operand is computed. So the memory that they consume is freed early.
 */
#include "tensor/plan.h"

/* An edge between steps. `next` is the next edge that leaves the same step. */
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
    int *producer;     /* by tensor id: the step that computes it; -1: a leaf */
    int *first_reader; /* by tensor id; -1: none */
    eitp__reader *readers;
    size_t reader_count, reader_capacity;
    int *first_edge; /* by step; -1: none */
    int *waiting;    /* by step: how many predecessors are not sorted yet */
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

/* The tensor behind views, which stands for the value. */
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

/* Orders all other readers of a value, or of the rows that are replaced, before step `writer`, which replaces it. */
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

/* True if the step is an update or a norm, after which most of what it reads can be freed. */
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

/* A binary heap of the ready steps, the next one at the top. */
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
