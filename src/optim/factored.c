/*
 * The factored update. Its second moment is the row and column means of the squared gradient (Shazeer and Stern,
 * "Adafactor", arXiv 1804.04235), without relative step sizes; its first moment has rank EITP__DIRECTIONS. Without a
 * first moment a gradient changes a weight by as much as in AdamW in total, but in one step. In most directions that
 * works as well, but in the few steepest ones, where the first moment of AdamW damps the steps, it overshoots. So the
 * steepest directions of a matrix's rows are tracked by subspace iteration, and the gradient along them is replaced by
 * its running mean. Products with the directions are computed together with the squares for the norm, so that the
 * gradient of a piece is needed no more often than for AdamW. Vectors have full moments: their update is AdamW's.
 */
#include "optim/update_rules.h"

/* Maximum root mean square of the update of a block: Adafactor's clipping threshold d. */
#define EITP__FACTORED_LIMIT 1.0

/* True if the moments of the parameter are factored; those of vectors are not. */
static int eitp__is_factored(const eitp_tensor *parameter) {
    return parameter->rank > 1;
}

static int64_t eitp__columns_of(const eitp_tensor *parameter) {
    return parameter->shape[parameter->rank - 1];
}

static eitp_tensor *eitp__directions_of(const eitp_tensor *parameter) {
    int64_t shape[2];
    shape[0] = EITP__DIRECTIONS;
    shape[1] = eitp__columns_of(parameter);
    return eitp__state_tensor(parameter, EITP__STATE_DIRECTIONS, EITP_F32, 2, shape);
}

EITP__PRIVATE void eitp__factored_squares(eitp__update_piece *piece, const eitp__update_piece *before) {
    eitp_tensor *inputs[3], *products;
    if (!eitp__is_factored(piece->parameter)) {
        eitp__sum_piece_squares(piece, before);
        return;
    }
    inputs[0] = piece->gradient;
    inputs[1] = before ? before->column_squares : NULL;
    piece->column_squares = eitp__apply(EITP__OP_COLUMN_SQUARES, inputs, 2, NULL);
    piece->squares =
        eitp__append_blocks(before ? before->squares : NULL, eitp__apply(EITP__OP_ROW_SQUARES, inputs, 1, NULL));
    inputs[1] = eitp__directions_of(piece->parameter);
    inputs[1] = products = eitp__apply(EITP__OP_ROW_PRODUCTS, inputs, 2, NULL);
    inputs[2] = before ? before->column_products : NULL;
    piece->column_products = eitp__apply(EITP__OP_COLUMN_PRODUCTS, inputs, 3, NULL);
    piece->row_products = eitp__append_blocks(before ? before->row_products : NULL, products);
}

/* Updates the means. `piece` is the last one of a parameter and has the squares of all. */
static eitp__node *eitp__factored_means_node(const eitp_optimizer_config *config, const eitp_update *update,
                                             const eitp__update_piece *piece) {
    const eitp_tensor *parameter = piece->parameter;
    int64_t columns = eitp__columns_of(parameter), rows = eitp__elements(parameter) / columns;
    eitp__attributes attributes = EITP__ZERO;
    eitp_tensor *inputs[6];
    inputs[0] = eitp__state_tensor(parameter, EITP__STATE_COLUMNS, EITP_F32, 1, &columns);
    inputs[1] = piece->column_squares;
    inputs[2] = update->rate_and_step;
    inputs[3] = update->commit;
    inputs[4] = eitp__state_tensor(parameter, EITP__STATE_ROWS, EITP_F32, 1, &rows);
    inputs[5] = piece->squares;
    attributes.reals[0] = config->beta2;
    return eitp__node_create(parameter->graph, EITP__OP_FACTORED_MEANS, inputs, 6, &attributes);
}

/* Updates the directions and the first moment along them. `piece` is as above. */
static eitp__node *eitp__factored_momentum_node(const eitp_optimizer_config *config, const eitp_update *update,
                                                const eitp__update_piece *piece) {
    const eitp_tensor *parameter = piece->parameter;
    eitp__attributes attributes = EITP__ZERO;
    eitp_tensor *inputs[7];
    int64_t shape[2];
    shape[0] = eitp__elements(parameter) / eitp__columns_of(parameter);
    shape[1] = EITP__DIRECTIONS;
    inputs[0] = eitp__directions_of(parameter);
    inputs[1] = eitp__state_tensor(parameter, EITP__STATE_DIRECTION_M, EITP_F32, 2, shape);
    inputs[2] = piece->row_products;
    inputs[3] = piece->column_products;
    inputs[4] = update->rate_and_step;
    inputs[5] = update->commit;
    inputs[6] = piece->column_squares;
    attributes.reals[0] = config->beta1;
    return eitp__node_create(parameter->graph, EITP__OP_FACTORED_MOMENTUM, inputs, 7, &attributes);
}

EITP__PRIVATE void eitp__factored_means(const eitp_optimizer_config *config, const eitp_update *update,
                                        eitp__update_piece *pieces, size_t count) {
    eitp__node *means, *momentum;
    if (!eitp__is_factored(pieces->parameter))
        return;
    means = eitp__factored_means_node(config, update, &pieces[count - 1]);
    momentum = eitp__factored_momentum_node(config, update, &pieces[count - 1]);
    for (size_t i = 0; i < count && means && momentum; i++) {
        pieces[i].column_roots = means->outputs[1];
        pieces[i].row_roots = means->outputs[2];
        pieces[i].corrections = momentum->outputs[2];
        pieces[i].old_directions = momentum->outputs[3];
    }
}

/* The piece's part of a tensor with one or more rows for each row of the parameter. */
static eitp_tensor *eitp__piece_rows(const eitp__update_piece *piece, eitp_tensor *rows) {
    int64_t each = rows ? rows->shape[0] / piece->parameter->shape[0] : 0;
    return rows ? eitp__rows(rows, piece->begin * each, piece->end * each) : NULL;
}

EITP__PRIVATE eitp_tensor *eitp__factored_node(const eitp_optimizer_config *config, const eitp_update *update,
                                               const eitp__update_piece *piece) {
    eitp_tensor *parameter = piece->parameter, *inputs[10] = EITP__ZERO;
    eitp__attributes attributes = EITP__ZERO;
    eitp__node *node;
    if (!eitp__is_factored(parameter))
        return eitp__adamw_node(config, update, piece);
    attributes.reals[0] = config->epsilon;
    attributes.reals[1] = eitp__weight_decay(config, parameter);
    attributes.reals[2] = EITP__FACTORED_LIMIT;
    inputs[7] = eitp__update_operands(update, piece, inputs, &attributes);
    inputs[2] = eitp__piece_rows(piece, piece->row_roots);
    inputs[3] = piece->column_roots;
    inputs[8] = eitp__piece_rows(piece, piece->corrections);
    inputs[9] = piece->old_directions;
    node = eitp__node_create(parameter->graph, EITP__OP_FACTORED, inputs, 10, &attributes);
    return node ? node->outputs[1] : NULL;
}
