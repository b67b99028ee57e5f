/* Describes a node, and its place in a plan, for listings. */
#include "tensor/graph_listing.h"

EITP__PRIVATE void eitp__list(eitp__listing *out, const char *format, ...) {
    size_t room = out->size < out->capacity ? out->capacity - out->size : 0;
    va_list arguments;
    int length;
    va_start(arguments, format);
    length = vsnprintf(room ? out->text + out->size : NULL, room, format, arguments);
    va_end(arguments);
    out->size += length > 0 ? (size_t)length : 0;
}

/* ---- Entries ---- */

EITP__PRIVATE int eitp__starts_entry(const eitp_graph *graph, const eitp_tensor *tensor) {
    const eitp__node *node = tensor->node;
    /* The node of a refused op is not in the list, and a copy made by a plan is not its node's result. */
    return !node || ((size_t)node->id < graph->node_count && node->outputs[0] == tensor);
}

EITP__PRIVATE int eitp__entry_results(const eitp_tensor *first) {
    return first->node ? first->node->output_count : 1;
}

EITP__PRIVATE eitp_tensor *eitp__entry_result(eitp_tensor *first, int i) {
    return first->node ? first->node->outputs[i] : first;
}

EITP__PRIVATE const char *eitp__entry_word(const eitp_tensor *first) {
    static const char *const roles[EITP_ROLE_COUNT] = {"parameter", "optimizer", "gradient", "cache", "remainder"};
    if (first->node)
        return eitp__op(first->graph, first->node->op)->name;
    return first->leaf == EITP__INPUT ? "input" : roles[first->graph->context->variables[first->variable].info.role];
}

EITP__PRIVATE void eitp__list_types(eitp__listing *out, const eitp__graph_view *view, eitp_tensor *first) {
    (void)view;
    for (int r = 0; r < eitp__entry_results(first); r++) {
        const eitp_tensor *result = eitp__entry_result(first, r);
        eitp__list(out, "%s%s [", r ? ", " : "", eitp_dtype_name(result->dtype));
        for (int i = 0; i < result->rank; i++)
            eitp__list(out, "%s%lld", i ? ", " : result->rows ? "<=" : "", (long long)result->shape[i]);
        eitp__list(out, "]");
    }
}

/* ---- Steps of nodes ---- */

/* Records that a step stores results of a node. */
static void eitp__note_step(eitp__node_steps *node, int step) {
    if (!node->first)
        node->first = step;
    else if (!node->times++)
        node->recomputed = step;
}

EITP__PRIVATE eitp_status eitp__graph_view_open(eitp__graph_view *view, const eitp_graph *graph, const eitp_plan *plan,
                                                eitp_error *error) {
    const size_t bytes = graph->node_count * sizeof *view->steps;
    view->graph = graph;
    view->plan = plan;
    view->steps = NULL;
    if (!plan || !bytes)
        return EITP_OK;
    view->steps = (eitp__node_steps *)eitp__allocate(&graph->context->host, bytes);
    if (!view->steps)
        return eitp__fail_memory(error, bytes, "the listing of a graph");
    for (size_t s = 0; s < plan->step_count; s++) {
        const eitp__step *step = &plan->steps[s];
        const eitp__node *stored = NULL;
        for (int i = 0; i < step->output_count; i++) {
            if (step->outputs[i]->node != stored)
                eitp__note_step(&view->steps[step->outputs[i]->node->id], (int)s + 1);
            stored = step->outputs[i]->node;
        }
        if (!view->steps[step->node->id].first && !view->steps[step->node->id].fused_into)
            view->steps[step->node->id].fused_into = (int)s + 1;
    }
    return EITP_OK;
}

EITP__PRIVATE void eitp__graph_view_close(eitp__graph_view *view) {
    if (view->steps)
        eitp__release(&view->graph->context->host, view->steps, view->graph->node_count * sizeof *view->steps);
}

/* Returns the steps of a node with a plan; zeros for a leaf. */
static eitp__node_steps eitp__steps_of(const eitp__graph_view *view, const eitp_tensor *first) {
    const eitp__node_steps none = EITP__ZERO;
    return view->steps && first->node ? view->steps[first->node->id] : none;
}

EITP__PRIVATE int eitp__is_recomputed(const eitp__graph_view *view, const eitp_tensor *first) {
    return eitp__steps_of(view, first).times > 0;
}

/* ---- Memory ---- */

/* Returns the arena block of a tensor's memory; NULL if it has none in this plan. */
static const eitp__arena_block *eitp__listed_block(const eitp_plan *plan, eitp_tensor *tensor) {
    const eitp_tensor *owner = eitp__owner(tensor, NULL);
    int block =
        owner->leaf != EITP__VARIABLE && (size_t)owner->id < plan->tensor_count ? plan->block_of[owner->id] : -1;
    return block >= 0 ? &plan->blocks[block] : NULL;
}

EITP__PRIVATE int eitp__is_unplanned(const eitp__graph_view *view, eitp_tensor *first) {
    /* The fate of a view is the fate of the value that it is a view of. */
    const eitp_tensor *value = first->node && eitp__is_view(first->node) ? eitp__owner(first, NULL) : first;
    const eitp__node_steps steps = eitp__steps_of(view, value);
    return view->plan && value->node && !first->lowered && !steps.first && !steps.fused_into;
}

/* Adds a note, and a comma unless it is the first. */
#define EITP__NOTE(out, begin, ...)                                                                                    \
    (eitp__list(out, "%s", (out)->size > (begin) ? ", " : ""), eitp__list(out, __VA_ARGS__))

/* Writes the location of a tensor's value, and the step until which it is live. */
static void eitp__list_place(eitp__listing *out, size_t begin, const eitp_plan *plan, eitp_tensor *tensor) {
    const eitp__arena_block *block = eitp__listed_block(plan, tensor);
    const eitp_tensor *owner = eitp__owner(tensor, NULL);
    if (owner->leaf != EITP__COMPUTED && owner != tensor)
        EITP__NOTE(out, begin, "in %%%d", owner->id);
    else if (block && block->last >= (int)plan->step_count)
        EITP__NOTE(out, begin, "arena %zu+%zu to the end", block->offset, block->size);
    else if (block)
        EITP__NOTE(out, begin, "arena %zu+%zu to step %d", block->offset, block->size, block->last);
}

static void eitp__list_leaf(eitp__listing *out, size_t begin, const eitp__graph_view *view, eitp_tensor *leaf) {
    const int input = view->plan ? eitp__input_index(view->plan, leaf) : -1;
    if (leaf->is_kept)
        EITP__NOTE(out, begin, "kept");
    if (leaf->leaf == EITP__VARIABLE && leaf->graph->context->variables[leaf->variable].info.offloaded)
        EITP__NOTE(out, begin, "offloaded");
    if (input >= 0 && !view->plan->inputs[input].is_read)
        EITP__NOTE(out, begin, "unused");
    else if (input >= 0)
        eitp__list_place(out, begin, view->plan, leaf);
}

static void eitp__list_steps(eitp__listing *out, size_t begin, const eitp__graph_view *view, eitp_tensor *first) {
    const eitp__node_steps steps = eitp__steps_of(view, first);
    if (steps.first)
        EITP__NOTE(out, begin, "step %d", steps.first - 1);
    for (int i = 0; i < eitp__entry_results(first) && steps.first; i++)
        eitp__list_place(out, begin, view->plan, eitp__entry_result(first, i));
    if (!steps.first && steps.fused_into)
        EITP__NOTE(out, begin, "fused into step %d", steps.fused_into - 1);
    if (steps.times)
        EITP__NOTE(out, begin, "recomputed in step %d", steps.recomputed - 1);
    if (steps.times > 1)
        eitp__list(out, " and %d more", steps.times - 1);
}

EITP__PRIVATE void eitp__list_notes(eitp__listing *out, const eitp__graph_view *view, eitp_tensor *first) {
    const size_t begin = out->size;
    for (int i = 0; i < eitp__entry_results(first); i++) {
        if (eitp__entry_result(first, i)->is_output && out->size == begin)
            eitp__list(out, "output");
    }
    if (!first->node)
        eitp__list_leaf(out, begin, view, first);
    else if (first->lowered)
        EITP__NOTE(out, begin, "computed as %%%d", first->lowered->id);
    else if (eitp__is_unplanned(view, first))
        EITP__NOTE(out, begin, "not in the plan");
    else if (eitp__is_view(first->node))
        EITP__NOTE(out, begin, "view of %%%d", first->storage->id);
    else
        eitp__list_steps(out, begin, view, first);
}
