/* Listings of graphs, as text and for Graphviz. */
#include "tensor/graph_listing.h"

/* Writes a name with escapes, so that it stays on its line and, in DOT, inside its quotes. */
static void eitp__list_name(eitp__listing *out, const char *name, int is_dot) {
    for (; *name; name++) {
        const unsigned char byte = (unsigned char)*name;
        if (byte == '\n')
            eitp__list(out, "\\n");
        else if (byte == '\\' || (byte == '"' && is_dot))
            eitp__list(out, "\\%c", byte);
        else if (byte < ' ' || byte == 0x7f)
            eitp__list(out, "%sx%02x", is_dot ? "\\\\" : "\\", byte);
        else
            eitp__list(out, "%c", byte);
    }
}

/* ---- Text ---- */

/* Writes "%12 = softmax(%11)". */
static void eitp__list_expression(eitp__listing *out, const eitp__graph_view *view, eitp_tensor *first) {
    (void)view;
    for (int i = 0; i < eitp__entry_results(first); i++)
        eitp__list(out, "%s%%%d", i ? ", " : "", eitp__entry_result(first, i)->id);
    eitp__list(out, " = %s", eitp__entry_word(first));
    for (int i = 0; first->node && i < first->node->input_count; i++) {
        const eitp_tensor *input = first->node->inputs[i];
        eitp__list(out, "%s", i ? ", " : "(");
        if (input)
            eitp__list(out, "%%%d", input->id);
        else
            eitp__list(out, "-");
    }
    if (first->node)
        eitp__list(out, "%s", first->node->input_count ? ")" : "()");
}

static void eitp__list_names(eitp__listing *out, const eitp__graph_view *view, eitp_tensor *first) {
    const char *separator = "";
    (void)view;
    for (int i = 0; i < eitp__entry_results(first); i++) {
        const char *name = eitp_tensor_name(eitp__entry_result(first, i));
        if (!*name)
            continue;
        eitp__list(out, "%s", separator);
        eitp__list_name(out, name, 0);
        separator = ", ";
    }
}

typedef void eitp__listing_column(eitp__listing *out, const eitp__graph_view *view, eitp_tensor *first);
static eitp__listing_column *const eitp__columns[] = {eitp__list_expression, eitp__list_types, eitp__list_notes,
                                                      eitp__list_names};
enum { EITP__COLUMNS = 4, EITP__WIDEST_COLUMN = 40 };

/* Measures the width of each column: its widest entry, ignoring entries wider than the widest column. */
static void eitp__measure_columns(const eitp__graph_view *view, size_t *widths) {
    memset(widths, 0, EITP__COLUMNS * sizeof *widths);
    for (size_t t = 0; t < view->graph->tensor_count; t++) {
        for (int c = 0; c < EITP__COLUMNS && eitp__starts_entry(view->graph, view->graph->tensors[t]); c++) {
            eitp__listing entry = EITP__ZERO;
            eitp__columns[c](&entry, view, view->graph->tensors[t]);
            if (entry.size > widths[c] && entry.size <= EITP__WIDEST_COLUMN)
                widths[c] = entry.size;
        }
    }
}

static void eitp__list_line(eitp__listing *out, const eitp__graph_view *view, eitp_tensor *first,
                            const size_t *widths) {
    size_t pending = 0; /* spaces before the next word, so that no line ends with spaces */
    for (int c = 0; c < EITP__COLUMNS; c++) {
        eitp__listing entry = EITP__ZERO;
        eitp__columns[c](&entry, view, first);
        if (entry.size) {
            eitp__list(out, "%*s", (int)pending, "");
            eitp__columns[c](out, view, first);
            pending = 0;
        }
        if (entry.size || widths[c])
            pending += 2 + (entry.size < widths[c] ? widths[c] - entry.size : 0);
    }
    eitp__list(out, "\n");
}

static void eitp__list_text(eitp__listing *out, const eitp__graph_view *view) {
    const eitp_graph *graph = view->graph;
    size_t widths[EITP__COLUMNS];
    eitp__measure_columns(view, widths);
    for (size_t t = 0; t < graph->tensor_count; t++) {
        if (eitp__starts_entry(graph, graph->tensors[t]))
            eitp__list_line(out, view, graph->tensors[t], widths);
    }
    if (graph->error.status) {
        eitp__list(out, "error: ");
        eitp__list_name(out, graph->error.message, 0);
        eitp__list(out, "\n");
    }
}

/* ---- DOT ---- */

static void eitp__list_dot_node(eitp__listing *out, const eitp__graph_view *view, eitp_tensor *first) {
    eitp__listing notes = EITP__ZERO;
    eitp__list(out, "    t%d [label=\"%s_%d\\n", first->id, eitp__entry_word(first), first->id);
    eitp__list_types(out, view, first);
    for (int i = 0; i < eitp__entry_results(first); i++) {
        const char *name = eitp_tensor_name(eitp__entry_result(first, i));
        eitp__list(out, "%s", *name ? "\\n" : "");
        eitp__list_name(out, name, 1);
    }
    eitp__list_notes(&notes, view, first);
    if (notes.size) {
        eitp__list(out, "\\n");
        eitp__list_notes(out, view, first);
    }
    eitp__list(out, "\"%s%s%s];\n", first->node ? "" : ", shape=ellipse",
               eitp__is_recomputed(view, first) ? ", style=dashed" : "",
               eitp__is_unplanned(view, first) ? ", color=gray, fontcolor=gray" : "");
}

/* Writes the edges to a node. Edges from a result other than the first are labelled with its number. */
static void eitp__list_dot_edges(eitp__listing *out, const eitp_tensor *first) {
    for (int i = 0; first->node && i < first->node->input_count; i++) {
        const eitp_tensor *input = first->node->inputs[i];
        const eitp_tensor *from = input && input->node ? input->node->outputs[0] : input;
        if (!input)
            continue;
        eitp__list(out, "    t%d -> t%d", from->id, first->id);
        if (from != input)
            eitp__list(out, " [label=\"%%%d\"]", input->id);
        eitp__list(out, ";\n");
    }
}

static void eitp__list_dot(eitp__listing *out, const eitp__graph_view *view) {
    const eitp_graph *graph = view->graph;
    eitp__list(out, "digraph eitp {\n    node [shape=box];\n");
    if (graph->error.status) {
        eitp__list(out, "    label=\"error: ");
        eitp__list_name(out, graph->error.message, 1);
        eitp__list(out, "\";\n");
    }
    for (size_t t = 0; t < graph->tensor_count; t++) {
        if (!eitp__starts_entry(graph, graph->tensors[t]))
            continue;
        eitp__list_dot_node(out, view, graph->tensors[t]);
        eitp__list_dot_edges(out, graph->tensors[t]);
    }
    eitp__list(out, "}\n");
}

eitp_status eitp_graph_format(const eitp_graph *graph, const eitp_plan *plan, eitp_graph_listing listing, char *text,
                              size_t capacity, size_t *size, eitp_error *error) {
    eitp__graph_view view;
    eitp__listing out = EITP__ZERO;
    eitp_status status;
    if (!graph || !size || (capacity && !text))
        return eitp__fail_null(error, "eitp_graph_format", "graph, size, and text with a capacity");
    if ((unsigned)listing > EITP_GRAPH_DOT)
        return eitp__fail(error, EITP_ERROR_ARGUMENT, "unknown eitp_graph_listing %d", (int)listing);
    if (plan && plan->graph != graph)
        return eitp__fail(error, EITP_ERROR_ARGUMENT, "eitp_graph_format: the plan belongs to another graph");
    status = eitp__graph_view_open(&view, graph, plan, error);
    if (status)
        return status;
    out.text = text;
    out.capacity = capacity;
    if (listing == EITP_GRAPH_TEXT)
        eitp__list_text(&out, &view);
    else
        eitp__list_dot(&out, &view);
    eitp__graph_view_close(&view);
    if (capacity && !out.size)
        *text = 0;
    *size = out.size;
    return EITP_OK;
}
