/* The table of ops: one entry each. CONTRIBUTING.md says how to add one. */
#include "tensor/op_rules.h"

#define EITP__NO_WRT                                                                                                   \
    { 0 }
#define EITP__NO_SHARES                                                                                                \
    { 0 }

/* An op with a gradient of its own kind, made of other ops; with a rule for rows of its result. */
#define EITP__PLAIN_BY_ROWS(name, low, high, shape, gradient, reuse, accumulates, flops, rows)                         \
    { name, low, high, 1, shape, gradient, NULL, 0, EITP__NO_WRT, EITP__NO_SHARES, reuse, accumulates, flops, rows }
#define EITP__PLAIN(name, low, high, shape, gradient, reuse, accumulates, flops)                                       \
    EITP__PLAIN_BY_ROWS(name, low, high, shape, gradient, reuse, accumulates, flops, NULL)

/* An op that has an expansion; with a rule for rows of its result. */
#define EITP__COMPOSITE_BY_ROWS(name, low, high, outputs, shape, gradient, expand, reuse, accumulates, flops, rows)    \
    {                                                                                                                  \
        name, low, high, outputs, shape, gradient, expand, 0, EITP__NO_WRT, EITP__NO_SHARES, reuse, accumulates,       \
            flops, rows                                                                                                \
    }
#define EITP__COMPOSITE(name, low, high, outputs, shape, gradient, expand, reuse, accumulates, flops)                  \
    EITP__COMPOSITE_BY_ROWS(name, low, high, outputs, shape, gradient, expand, reuse, accumulates, flops, NULL)

/* Inputs 0 and 1 as a bit mask. */
#define EITP__FIRST 1u
#define EITP__SECOND 2u

static const eitp__op_info eitp__ops[EITP__OP_COUNT] = {
    EITP__PLAIN_BY_ROWS("fill", 0, 0, eitp__shape_fill, eitp__gradient_none, 0, 0, NULL, eitp__rows_fill),
    EITP__PLAIN("arange", 0, 0, eitp__shape_arange, eitp__gradient_none, 0, 0, NULL),
    EITP__PLAIN("negate", 1, 1, eitp__shape_unary, eitp__gradient_negate, EITP__FIRST, 0, eitp__flops_elements),
    EITP__PLAIN("exp", 1, 1, eitp__shape_unary, eitp__gradient_exp, EITP__FIRST, 0, eitp__flops_elements),
    EITP__PLAIN("log", 1, 1, eitp__shape_unary, eitp__gradient_log, EITP__FIRST, 0, eitp__flops_elements),
    EITP__PLAIN("sqrt", 1, 1, eitp__shape_unary, eitp__gradient_sqrt, EITP__FIRST, 0, eitp__flops_elements),
    EITP__PLAIN("tanh", 1, 1, eitp__shape_unary, eitp__gradient_tanh, EITP__FIRST, 0, eitp__flops_elements),
    EITP__PLAIN("sigmoid", 1, 1, eitp__shape_unary, eitp__gradient_sigmoid, EITP__FIRST, 0, eitp__flops_elements),
    EITP__PLAIN("relu", 1, 1, eitp__shape_unary, eitp__gradient_relu, EITP__FIRST, 0, eitp__flops_elements),
    EITP__PLAIN("erf", 1, 1, eitp__shape_unary, eitp__gradient_erf, EITP__FIRST, 0, eitp__flops_elements),
    EITP__PLAIN("affine", 1, 1, eitp__shape_unary, eitp__gradient_affine, EITP__FIRST, 0, eitp__flops_elements),
    EITP__PLAIN("clamp", 1, 1, eitp__shape_unary, eitp__gradient_clamp, EITP__FIRST, 0, eitp__flops_elements),
    EITP__PLAIN_BY_ROWS("cast", 1, 1, eitp__shape_cast, eitp__gradient_cast, 0, 0, NULL, eitp__rows_cast),
    EITP__PLAIN_BY_ROWS("add", 2, 2, eitp__shape_binary, eitp__gradient_add, EITP__FIRST | EITP__SECOND, 0,
                        eitp__flops_elements, eitp__rows_add),
    EITP__PLAIN("subtract", 2, 2, eitp__shape_binary, eitp__gradient_subtract, EITP__FIRST | EITP__SECOND, 0,
                eitp__flops_elements),
    EITP__PLAIN("multiply", 2, 2, eitp__shape_binary, eitp__gradient_multiply, EITP__FIRST | EITP__SECOND, 0,
                eitp__flops_elements),
    EITP__PLAIN("divide", 2, 2, eitp__shape_binary, eitp__gradient_divide, EITP__FIRST | EITP__SECOND, 0,
                eitp__flops_elements),
    EITP__PLAIN("less", 2, 2, eitp__shape_compare, eitp__gradient_none, 0, 0, eitp__flops_elements),
    EITP__PLAIN("equal", 2, 2, eitp__shape_compare, eitp__gradient_none, 0, 0, eitp__flops_elements),
    EITP__PLAIN("where", 3, 3, eitp__shape_where, eitp__gradient_where, 0, 0, NULL),
    EITP__PLAIN("broadcast", 1, 1, eitp__shape_broadcast, eitp__gradient_broadcast, 0, 0, NULL),
    EITP__PLAIN("permute", 1, 1, eitp__shape_permute, eitp__gradient_permute, 0, 0, NULL),
    EITP__PLAIN("slice", 1, 1, eitp__shape_slice, eitp__gradient_slice, 0, 0, NULL),
    EITP__PLAIN("pad", 1, 1, eitp__shape_pad, eitp__gradient_pad, 0, 0, NULL),
    EITP__PLAIN("concat", 1, EITP__MAX_INPUTS, eitp__shape_concat, eitp__gradient_concat, 0, 0, NULL),
    EITP__PLAIN("sum", 1, 1, eitp__shape_reduce, eitp__gradient_sum, 0, 1, eitp__flops_elements),
    EITP__PLAIN("max", 1, 1, eitp__shape_reduce, eitp__gradient_max, 0, 0, eitp__flops_elements),
    EITP__PLAIN("gather", 2, 2, eitp__shape_gather, eitp__gradient_gather, 0, 0, NULL),
    EITP__PLAIN("scatter_add", 2, 2, eitp__shape_scatter_add, eitp__gradient_scatter_add, 0, 0, NULL),
    EITP__PLAIN_BY_ROWS("matmul", 2, 3, eitp__shape_matmul, eitp__gradient_matmul, 0, 1, eitp__flops_matmul,
                        eitp__rows_matmul),
    EITP__COMPOSITE("softmax", 1, 1, 1, eitp__shape_unary, eitp__gradient_softmax, eitp__expand_softmax, 0, 0,
                    eitp__flops_elements),
    EITP__COMPOSITE("softmax_backward", 2, 2, 1, eitp__shape_second, NULL, eitp__expand_softmax_backward, 0, 0,
                    eitp__flops_elements),
    EITP__COMPOSITE("log_softmax", 1, 1, 1, eitp__shape_unary, eitp__gradient_log_softmax, eitp__expand_log_softmax, 0,
                    0, eitp__flops_elements),
    EITP__COMPOSITE("log_softmax_backward", 2, 2, 1, eitp__shape_second, NULL, eitp__expand_log_softmax_backward, 0, 0,
                    eitp__flops_elements),
    EITP__COMPOSITE("gelu_tanh", 1, 1, 1, eitp__shape_unary, eitp__gradient_gelu_tanh, eitp__expand_gelu_tanh,
                    EITP__FIRST, 0, eitp__flops_elements),
    {"gelu_tanh_backward", 2, 2, 1, eitp__shape_second, NULL, NULL, EITP__OP_GELU_TANH + 1, EITP__NO_WRT,
     EITP__NO_SHARES, EITP__FIRST | EITP__SECOND, 0, eitp__flops_elements, NULL},
    EITP__COMPOSITE("gelu_erf", 1, 1, 1, eitp__shape_unary, eitp__gradient_gelu_erf, eitp__expand_gelu_erf, EITP__FIRST,
                    0, eitp__flops_elements),
    {"gelu_erf_backward", 2, 2, 1, eitp__shape_second, NULL, NULL, EITP__OP_GELU_ERF + 1, EITP__NO_WRT, EITP__NO_SHARES,
     EITP__FIRST | EITP__SECOND, 0, eitp__flops_elements, NULL},
    EITP__COMPOSITE("layer_norm", 3, 3, 3, eitp__shape_layer_norm, eitp__gradient_layer_norm, eitp__expand_layer_norm,
                    0, 0, eitp__flops_elements),
    {"layer_norm_backward_input", 6, 6, 1, eitp__shape_layer_norm_backward_input, NULL, NULL, EITP__OP_LAYER_NORM + 1,
     EITP__NO_WRT, EITP__NO_SHARES, 0, 0, eitp__flops_elements, NULL},
    {"layer_norm_backward_parameters",
     6,
     6,
     2,
     eitp__shape_layer_norm_backward_parameters,
     NULL,
     NULL,
     EITP__OP_LAYER_NORM + 1,
     {1, 2},
     EITP__NO_SHARES,
     0,
     1,
     eitp__flops_elements,
     NULL},
    EITP__COMPOSITE("embedding", 2, 2, 1, eitp__shape_embedding, eitp__gradient_embedding, eitp__expand_embedding, 0, 0,
                    NULL),
    EITP__COMPOSITE_BY_ROWS("embedding_backward", 2, 2, 1, eitp__shape_embedding_backward,
                            eitp__gradient_embedding_backward, eitp__expand_embedding_backward, 0, 1, NULL,
                            eitp__rows_embedding_backward),
    EITP__COMPOSITE("attention", 2, 4, 2, eitp__shape_attention, eitp__gradient_attention, eitp__expand_attention, 0, 0,
                    eitp__flops_attention),
    {"attention_backward", 2, 7, 1, eitp__shape_attention_backward, NULL, NULL, EITP__OP_ATTENTION + 1, EITP__NO_WRT,
     EITP__NO_SHARES, 0, 0, eitp__flops_attention_backward, NULL},
    {"attention_cached",
     4,
     4,
     3,
     eitp__shape_attention_cached,
     NULL,
     NULL,
     0,
     EITP__NO_WRT,
     {0, 2, 3},
     0,
     0,
     NULL,
     NULL},
    EITP__COMPOSITE("cross_entropy", 2, 2, 2, eitp__shape_cross_entropy, eitp__gradient_cross_entropy,
                    eitp__expand_cross_entropy, 0, 0, eitp__flops_elements),
    {"cross_entropy_backward", 4, 4, 1, eitp__shape_cross_entropy_backward, NULL, NULL, EITP__OP_CROSS_ENTROPY + 1,
     EITP__NO_WRT, EITP__NO_SHARES, EITP__FIRST, 0, eitp__flops_elements, NULL},
    {"head", 3, 3, 4, eitp__shape_head, NULL, NULL, 0, EITP__NO_WRT, EITP__NO_SHARES, 0, 0, eitp__flops_head, NULL},
    {"head_loss", 4, 4, 2, eitp__shape_head_loss, NULL, NULL, 0, EITP__NO_WRT, EITP__NO_SHARES, 0, 0, NULL, NULL},
    {"head_backward", 5, 5, 1, eitp__shape_head_backward, NULL, NULL, 0, EITP__NO_WRT, EITP__NO_SHARES, EITP__FIRST, 0,
     eitp__flops_elements, NULL},
    EITP__PLAIN("dropout", 2, 2, eitp__shape_dropout, eitp__gradient_dropout, EITP__FIRST, 0, NULL),
    {"accumulate", 2, 3, 1, eitp__shape_accumulate, NULL, NULL, 0, EITP__NO_WRT, {1}, 0, 0, eitp__flops_elements, NULL},
    EITP__COMPOSITE("sum_squares", 1, 1, 1, eitp__shape_sum_squares, NULL, eitp__expand_sum_squares, 0, 0, NULL),
    {"commit", 2, 3, 2, eitp__shape_commit, NULL, NULL, 0, EITP__NO_WRT, EITP__NO_SHARES, 0, 0, NULL, NULL},
    {"adamw",
     6,
     10,
     7,
     eitp__shape_adamw,
     NULL,
     NULL,
     0,
     EITP__NO_WRT,
     {1, 3, 4, 0, 7, 8, 9},
     0,
     0,
     eitp__flops_elements,
     NULL},
    {"rows", 1, 1, 1, eitp__shape_rows, eitp__gradient_rows, NULL, 0, EITP__NO_WRT, {1}, 0, 0, NULL, NULL},
    {"reshape", 1, 1, 1, eitp__shape_reshape, eitp__gradient_reshape, NULL, 0, EITP__NO_WRT, {1}, 0, 0, NULL, NULL},
    {"stop_gradient", 1, 1, 1, eitp__shape_same, eitp__gradient_none, NULL, 0, EITP__NO_WRT, {1}, 0, 0, NULL, NULL},
    EITP__COMPOSITE("linear_cross_entropy", 3, 3, 4, eitp__shape_linear_cross_entropy,
                    eitp__gradient_linear_cross_entropy, eitp__expand_linear_cross_entropy, 0, 0, eitp__flops_head),
};

EITP__PRIVATE const eitp__op_info *eitp__op(eitp__op_code op) {
    return &eitp__ops[op];
}
