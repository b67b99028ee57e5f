/* The rules that the table of ops refers to, one block per file, and functions that rules share. */
#ifndef EITP_OP_RULES_H
#define EITP_OP_RULES_H

#include "tensor/graph.h"

typedef eitp_status eitp__shape_rule(eitp__node *node, eitp_error *error);
typedef void eitp__gradient_rule(const eitp__node *node, eitp_tensor *const *dy, eitp_tensor **dx);
typedef void eitp__expand_rule(const eitp__node *node, eitp_tensor **outputs);
typedef double eitp__flops_rule(const eitp__node *node);
typedef eitp_tensor *eitp__rows_rule(const eitp__node *node, int64_t begin, int64_t end);

/* Checks that a loss to be minimized is a single floating-point number. */
EITP__PRIVATE eitp_status eitp__check_loss(const eitp_tensor *loss, eitp_error *error);

/* Sums x over the dimensions that `like` lacks or has extent 1 in: the transpose of broadcasting. */
EITP__PRIVATE eitp_tensor *eitp__sum_to(eitp_tensor *x, const eitp_tensor *like);

/* dx = dx + contribution; either may be NULL. */
EITP__PRIVATE void eitp__add_gradient(eitp_tensor **dx, eitp_tensor *contribution);

/* A 1-element tensor of x's dtype in x's graph; broadcasts to any shape. */
EITP__PRIVATE eitp_tensor *eitp__scalar_like(const eitp_tensor *x, double value);

/* Applies an activation to y. */
EITP__PRIVATE eitp_tensor *eitp__activate(eitp_tensor *y, eitp_activation activation);

/* A matrix product stored as `dtype`: the operands' dtype, or the wider dtype that sums are computed in. */
EITP__PRIVATE eitp_tensor *eitp__matmul_node(eitp_tensor *a, eitp_tensor *b, eitp_tensor *bias, int transpose_a,
                                             int transpose_b, eitp_dtype dtype);

/*
 * Rows [begin, end) of a tensor with a fixed number of rows: a view of a leaf, and otherwise computed from rows of the
 * operands, so that the whole tensor is never stored.
 */
EITP__PRIVATE eitp_tensor *eitp__rows(eitp_tensor *x, int64_t begin, int64_t end);

/* eitp_scatter_add along a non-negative axis. With `rows`, `extent` is the graph's capacity. */
EITP__PRIVATE eitp_tensor *eitp__scatter_add_axis(eitp_tensor *x, eitp_tensor *indices, int axis, int64_t extent,
                                                  int rows);

/* Zeros with as many rows as the table, to which `rows` are added at `ids`. Ids outside the table are ignored. */
EITP__PRIVATE eitp_tensor *eitp__scatter_rows(eitp_tensor *ids, eitp_tensor *rows, const eitp_tensor *table);

/* The same with `count` rows. */
EITP__PRIVATE eitp_tensor *eitp__sum_rows(eitp_tensor *ids, eitp_tensor *rows, int64_t count);

/*
 * The rows of a gradient term of eitp_embedding_unique, which are scattered once per step; NULL for other terms. They
 * are accumulated in a variable of their own: EITP__KIND_GRADIENT_ROWS.
 */
EITP__PRIVATE eitp_tensor *eitp__deferred_rows(const eitp_tensor *gradient);

/*
 * As eitp_accumulate_gradients, but each term of a parameter's gradient is accumulated over the passes in a variable of
 * its own, and the update adds the terms. So the gradient of a parameter with several uses has the same bits for any
 * division of rows into passes. The terms of a parameter with more than EITP__GRADIENT_TERMS share one variable.
 */
#define EITP__GRADIENT_TERMS 4
EITP__PRIVATE eitp_status eitp__accumulate_gradient_terms(eitp_tensor *loss, eitp_tensor *carry, eitp_error *error);

/* The variable in which term 0, 1, ... of a parameter's gradient is accumulated; NULL if there is none. */
EITP__PRIVATE eitp_tensor *eitp__accumulated_term(const eitp_tensor *parameter, int term);

/*
 * a + b, of one shape, as an addition that plans must not fuse into the computation of a term. Terms of products and of
 * eitp_embedding_unique, which add each number once, are the exception.
 */
EITP__PRIVATE eitp_tensor *eitp__add_unfused(eitp_tensor *a, eitp_tensor *b);

/* A tensor filled with a value, with the shape, dtype and rows of x. */
EITP__PRIVATE eitp_tensor *eitp__fill_like(eitp_tensor *x, double value);

EITP__PRIVATE eitp_status eitp__require(int condition, eitp_error *error, const char *format, ...) EITP__PRINTF(3, 4);

/* ops_elementwise.c */
EITP__PRIVATE eitp__shape_rule eitp__shape_fill, eitp__shape_arange, eitp__shape_unary, eitp__shape_cast,
    eitp__shape_binary, eitp__shape_compare, eitp__shape_where, eitp__shape_same;
EITP__PRIVATE eitp__gradient_rule eitp__gradient_negate, eitp__gradient_abs, eitp__gradient_exp, eitp__gradient_log,
    eitp__gradient_sqrt, eitp__gradient_rsqrt, eitp__gradient_sin, eitp__gradient_cos, eitp__gradient_tanh,
    eitp__gradient_sigmoid, eitp__gradient_relu, eitp__gradient_erf, eitp__gradient_affine, eitp__gradient_clamp,
    eitp__gradient_cast, eitp__gradient_add, eitp__gradient_subtract, eitp__gradient_multiply, eitp__gradient_divide,
    eitp__gradient_minimum, eitp__gradient_maximum, eitp__gradient_where, eitp__gradient_none;
EITP__PRIVATE eitp__flops_rule eitp__flops_elements;

/* ops_shape.c */
EITP__PRIVATE eitp__shape_rule eitp__shape_reshape, eitp__shape_broadcast, eitp__shape_permute, eitp__shape_slice,
    eitp__shape_pad, eitp__shape_concat, eitp__shape_gather, eitp__shape_scatter_add;
EITP__PRIVATE eitp__gradient_rule eitp__gradient_reshape, eitp__gradient_broadcast, eitp__gradient_permute,
    eitp__gradient_slice, eitp__gradient_pad, eitp__gradient_concat, eitp__gradient_gather, eitp__gradient_scatter_add;

/* ops_reduce.c */
EITP__PRIVATE eitp__shape_rule eitp__shape_reduce;
EITP__PRIVATE eitp__gradient_rule eitp__gradient_sum, eitp__gradient_max;

/* ops_rows.c */
EITP__PRIVATE eitp__shape_rule eitp__shape_rows;
EITP__PRIVATE eitp__gradient_rule eitp__gradient_rows;
EITP__PRIVATE eitp__rows_rule eitp__rows_fill, eitp__rows_cast, eitp__rows_add, eitp__rows_matmul,
    eitp__rows_embedding_backward, eitp__rows_pad;

/* ops_product.c */
EITP__PRIVATE eitp__shape_rule eitp__shape_matmul;
EITP__PRIVATE eitp__gradient_rule eitp__gradient_matmul;
EITP__PRIVATE eitp__flops_rule eitp__flops_matmul;

/* ops_network.c */
EITP__PRIVATE eitp__shape_rule eitp__shape_second, eitp__shape_layer_norm, eitp__shape_layer_norm_backward_input,
    eitp__shape_layer_norm_backward_parameters, eitp__shape_rms_norm, eitp__shape_embedding,
    eitp__shape_embedding_backward, eitp__shape_dropout;
EITP__PRIVATE eitp__gradient_rule eitp__gradient_softmax, eitp__gradient_log_softmax, eitp__gradient_gelu_tanh,
    eitp__gradient_gelu_erf, eitp__gradient_silu, eitp__gradient_layer_norm, eitp__gradient_rms_norm,
    eitp__gradient_embedding, eitp__gradient_embedding_backward, eitp__gradient_dropout;
EITP__PRIVATE eitp__expand_rule eitp__expand_softmax, eitp__expand_softmax_backward, eitp__expand_log_softmax,
    eitp__expand_log_softmax_backward, eitp__expand_gelu_tanh, eitp__expand_gelu_erf, eitp__expand_silu,
    eitp__expand_layer_norm, eitp__expand_rms_norm, eitp__expand_embedding, eitp__expand_embedding_backward;

/* ops_attention.c */
EITP__PRIVATE eitp__shape_rule eitp__shape_attention, eitp__shape_attention_backward, eitp__shape_attention_cached;
EITP__PRIVATE eitp__gradient_rule eitp__gradient_attention;
EITP__PRIVATE eitp__expand_rule eitp__expand_attention;
EITP__PRIVATE eitp__flops_rule eitp__flops_attention, eitp__flops_attention_backward;

/*
 * If the offsets are an input, requires them to ascend from 0 to at most `rows`, with no sequence longer than
 * `max_length`.
 */
EITP__PRIVATE void eitp__add_offsets_rule(eitp_tensor *offsets, int64_t rows, int64_t max_length);

/* ops_loss.c */
EITP__PRIVATE eitp__shape_rule eitp__shape_cross_entropy, eitp__shape_cross_entropy_backward, eitp__shape_head,
    eitp__shape_head_loss, eitp__shape_head_backward, eitp__shape_linear_cross_entropy;
EITP__PRIVATE eitp__gradient_rule eitp__gradient_cross_entropy, eitp__gradient_linear_cross_entropy;
EITP__PRIVATE eitp__expand_rule eitp__expand_cross_entropy, eitp__expand_linear_cross_entropy;
EITP__PRIVATE eitp__flops_rule eitp__flops_head;

/* ops_update.c */
EITP__PRIVATE eitp__shape_rule eitp__shape_accumulate, eitp__shape_sum_squares, eitp__shape_row_squares,
    eitp__shape_column_squares, eitp__shape_row_products, eitp__shape_column_products, eitp__shape_commit,
    eitp__shape_adamw, eitp__shape_factored_means, eitp__shape_factored_momentum, eitp__shape_factored, eitp__shape_sgd;
EITP__PRIVATE eitp__flops_rule eitp__flops_products, eitp__flops_adamw, eitp__flops_factored;
EITP__PRIVATE eitp__expand_rule eitp__expand_sum_squares, eitp__expand_row_squares, eitp__expand_column_squares;

#endif
