/*
 * The factored update. Its second moment is the row and column means of the squared gradient (Shazeer and Stern,
 * "Adafactor", arXiv 1804.04235), without relative step sizes. Its first moment has rank EITP__DIRECTIONS. Without a
 * first moment a gradient changes a weight by the same total amount as in AdamW, but in a single step. That works
 * equally well in most directions. In the few steepest ones, where the first moment of AdamW damps the steps, it
 * overshoots. So the steepest directions of a matrix's rows are tracked by subspace iteration, and the gradient along
 * them is replaced by its running mean. Products with the directions are computed together with the squares for the
 * norm, so that a piece's gradient is needed only as often as for AdamW.
 */
#include "optim/optimizers.h"

EITP__PRIVATE void eitp__factored_squares(eitp__update_piece *piece, const eitp__update_piece *before) {
    eitp_tensor *inputs[3], *products;
    inputs[0] = piece->gradient;
    inputs[1] = before ? before->column_squares : NULL;
    piece->column_squares = eitp__apply(EITP__OP_COLUMN_SQUARES, inputs, 2, NULL);
    piece->squares =
        eitp__append_blocks(before ? before->squares : NULL, eitp__apply(EITP__OP_ROW_SQUARES, inputs, 1, NULL));
    inputs[1] = eitp__state_of_form(piece, EITP__FORM_DIRECTIONS);
    inputs[1] = products = eitp__apply(EITP__OP_ROW_PRODUCTS, inputs, 2, NULL);
    inputs[2] = before ? before->column_products : NULL;
    piece->column_products = eitp__apply(EITP__OP_COLUMN_PRODUCTS, inputs, 3, NULL);
    piece->row_products = eitp__append_blocks(before ? before->row_products : NULL, products);
}

/* Updates the means. `piece` is the last one of a parameter and has the squares of all pieces. */
static eitp__node *eitp__factored_means_node(const eitp_optimizer_config *config, const eitp_update *update,
                                             const eitp__update_piece *piece) {
    eitp__attributes attributes = EITP__ZERO;
    eitp_tensor *inputs[6];
    inputs[0] = eitp__state_of_form(piece, EITP__FORM_COLUMNS);
    inputs[1] = piece->column_squares;
    inputs[2] = update->rate_and_step;
    inputs[3] = update->commit;
    inputs[4] = eitp__state_of_form(piece, EITP__FORM_ROWS);
    inputs[5] = piece->squares;
    attributes.reals[0] = config->beta2;
    return eitp__node_create(piece->parameter->graph, EITP__OP_FACTORED_MEANS, inputs, 6, &attributes);
}

/* Updates the directions and the first moment along them. `piece` is the last one of a parameter. */
static eitp__node *eitp__factored_momentum_node(const eitp_optimizer_config *config, const eitp_update *update,
                                                const eitp__update_piece *piece) {
    eitp__attributes attributes = EITP__ZERO;
    eitp_tensor *inputs[7];
    inputs[0] = eitp__state_of_form(piece, EITP__FORM_DIRECTIONS);
    inputs[1] = eitp__state_of_form(piece, EITP__FORM_ROWS_OF_DIRECTIONS);
    inputs[2] = piece->row_products;
    inputs[3] = piece->column_products;
    inputs[4] = update->rate_and_step;
    inputs[5] = update->commit;
    inputs[6] = piece->column_squares;
    attributes.reals[0] = config->beta1;
    return eitp__node_create(piece->parameter->graph, EITP__OP_FACTORED_MOMENTUM, inputs, 7, &attributes);
}

/* Makes the updates read the roots of the second moment instead of its means, and the first moment's correction of the
   gradient: corrections [rows, k] times the directions before the step, [k, columns]. */
EITP__PRIVATE void eitp__factored_prepare(const eitp_optimizer_config *config, const eitp_update *update,
                                          eitp__update_piece *pieces, size_t count) {
    eitp__node *means = eitp__factored_means_node(config, update, &pieces[count - 1]);
    eitp__node *momentum = eitp__factored_momentum_node(config, update, &pieces[count - 1]);
    for (size_t i = 0; i < count && means && momentum; i++) {
        pieces[i].states[0] = means->outputs[2];
        pieces[i].states[1] = means->outputs[1];
        pieces[i].states[2] = momentum->outputs[2];
        pieces[i].states[3] = momentum->outputs[3];
    }
}
