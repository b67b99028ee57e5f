/*
 * An update whose only state is row and column means of the squared gradient (Shazeer and Stern, "Adafactor", arXiv
 * 1804.04235), without relative step sizes. The means are taken where the norm is, so that the gradient of a piece is
 * needed no more often than for AdamW. AdamW makes of a gradient g the same learning rate * g / sqrt(v) in all, but
 * spreads it over the steps that follow: learning rates mean the same. Only the largest that AdamW takes, whose first
 * moment damps, are too large here.
 */
#include "optim/update.h"

/* The largest root mean square of the directions of a block: Adafactor's d. */
#define EITP__FACTORED_LIMIT 1.0

/* A vector is one row, whose columns' means are all of its second moment. */
static int eitp__has_rows(const eitp_tensor *parameter) {
    return parameter->rank > 1;
}

EITP__PRIVATE eitp_tensor *eitp__factored_squares(eitp__update_piece *piece, const eitp__update_piece *before) {
    eitp_tensor *inputs[2];
    inputs[0] = piece->gradient;
    inputs[1] = before ? before->column_squares : NULL;
    piece->column_squares = eitp__apply(EITP__OP_COLUMN_SQUARES, inputs, 2, NULL);
    if (!eitp__has_rows(piece->parameter))
        return piece->column_squares;
    piece->row_squares =
        eitp__append_blocks(before ? before->row_squares : NULL, eitp__apply(EITP__OP_ROW_SQUARES, inputs, 1, NULL));
    return piece->row_squares;
}

/* `piece` is a parameter's last: it has the squares of all of them. */
static eitp__node *eitp__factored_means_node(const eitp_adamw_config *config, const eitp_update *update,
                                             const eitp__update_piece *piece) {
    const eitp_tensor *parameter = piece->parameter;
    int64_t columns = parameter->rank ? parameter->shape[parameter->rank - 1] : 1;
    int64_t rows = eitp__elements(parameter) / columns;
    int has_rows = eitp__has_rows(parameter);
    eitp__attributes attributes = EITP__ZERO;
    eitp_tensor *inputs[6];
    inputs[0] = eitp__state_tensor(parameter, "factored", has_rows ? "columns" : "v", EITP_F32, 1, &columns);
    inputs[1] = piece->column_squares;
    inputs[2] = update->hyper;
    inputs[3] = update->commit;
    inputs[4] = has_rows ? eitp__state_tensor(parameter, "factored", "rows", EITP_F32, 1, &rows) : NULL;
    inputs[5] = piece->row_squares;
    attributes.reals[0] = config->beta2;
    return eitp__node_create(parameter->graph, EITP__OP_FACTORED_MEANS, inputs, 6, &attributes);
}

EITP__PRIVATE void eitp__factored_means(const eitp_adamw_config *config, const eitp_update *update,
                                        const eitp__update_pieces *list) {
    for (size_t first = 0, end; first < list->count; first = end) {
        eitp__node *node;
        for (end = first + 1; end < list->count && list->pieces[end].parameter == list->pieces[first].parameter;)
            end++;
        node = eitp__factored_means_node(config, update, &list->pieces[end - 1]);
        for (size_t i = first; i < end && node; i++) {
            list->pieces[i].column_roots = node->outputs[1];
            list->pieces[i].row_roots = node->outputs[2];
        }
    }
}

EITP__PRIVATE eitp_tensor *eitp__factored_node(const eitp_adamw_config *config, const eitp_update *update,
                                               const eitp__update_piece *piece) {
    eitp_tensor *parameter = piece->parameter, *inputs[8] = EITP__ZERO;
    eitp__attributes attributes = EITP__ZERO;
    eitp__node *node;
    attributes.reals[0] = config->epsilon;
    attributes.reals[1] = eitp__weight_decay(config, parameter);
    attributes.reals[2] = EITP__FACTORED_LIMIT;
    inputs[7] = eitp__update_operands(update, piece, inputs, &attributes);
    inputs[2] = piece->row_roots;
    inputs[3] = piece->column_roots;
    if (eitp__has_rows(parameter) && piece->row_roots) {
        int64_t each = piece->row_roots->shape[0] / parameter->shape[0];
        inputs[2] = eitp__rows(piece->row_roots, piece->begin * each, piece->end * each);
    }
    node = eitp__node_create(parameter->graph, EITP__OP_FACTORED, inputs, 8, &attributes);
    return node ? node->outputs[1] : NULL;
}
