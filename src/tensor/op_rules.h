/* The entries of the table of ops, and functions that their rules share. docs/extending.md describes how to add one. */
#ifndef EITP_OP_RULES_H
#define EITP_OP_RULES_H

#include "tensor/graph.h"

/* The entries of the table of ops. */
#define EITP__OP_ENTRY(NAME, name, family) EITP__PRIVATE void eitp__op_##name(eitp__op_info *op);
EITP__OPS(EITP__OP_ENTRY)
#undef EITP__OP_ENTRY

/* Bit masks of inputs. */
#define EITP__FIRST 1u
#define EITP__SECOND 2u
#define EITP__THIRD 4u

/* Sets what ops of one or two inputs that compute element by element have in common. */
EITP__PRIVATE void eitp__define_elementwise(eitp__op_info *op, int inputs, eitp__gradient_rule *gradient);

/* Sets what the fused gradients of an op have in common, by the entry's backward_of. */
EITP__PRIVATE void eitp__define_backward(eitp__op_info *op, eitp__op_code of, eitp_work work, int inputs,
                                         eitp__shape_rule *shape);

/* Adds to the epilogues of an op. */
EITP__PRIVATE void eitp__add_epilogue(eitp__op_info *op, eitp__epilogue epilogue, int product, int operand);

/* Checks what eitp_rotary requires of a configuration. */
EITP__PRIVATE eitp_status eitp__rotary_check(const eitp_rotary_config *config, eitp_error *error);

/* x [n, heads d] with each head turned by the angles of its row, [n, d]: see eitp_rotary. */
EITP__PRIVATE eitp_tensor *eitp__rotated(eitp_tensor *x, eitp_tensor *rotation);

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

/*
 * For plans: a view of rows [begin, end), of which it has those that an execution has, if their number varies. The rows
 * of nodes that read it begin there too.
 */
EITP__PRIVATE eitp_tensor *eitp__part_of_rows(eitp_tensor *x, int64_t begin, int64_t end);

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

/* Gradients that are accumulated apart, and what each is accumulated in. */
typedef enum eitp__gradient_set {
    EITP__TASK_GRADIENT,
    EITP__REGULARIZER_GRADIENT, /* of regularizers whose norm is capped */
    EITP__GRADIENT_SETS
} eitp__gradient_set;
typedef enum eitp__gradient_part {
    EITP__GRADIENT_FIRST,   /* the first term of each parameter */
    EITP__GRADIENT_OTHERS,  /* the others; their numbers count from 2 */
    EITP__GRADIENT_LOOKUPS, /* rows of eitp_embedding_unique; the number is that of the ids */
    EITP__GRADIENT_PARTS
} eitp__gradient_part;
EITP__PRIVATE const char *eitp__gradient_kind(eitp__gradient_set set, eitp__gradient_part part);

/*
 * As eitp_accumulate_gradients, but each term of a parameter's gradient is accumulated over the passes in a variable of
 * its own, and the update adds the terms. So the gradient of a parameter with several uses has the same bits for any
 * division of rows into passes. The terms of a parameter with more than EITP__GRADIENT_TERMS share one variable.
 */
#define EITP__GRADIENT_TERMS 4
EITP__PRIVATE eitp_status eitp__accumulate_gradient_terms(eitp_tensor *loss, eitp__gradient_set set, eitp_tensor *carry,
                                                          eitp_error *error);

/* The same after the passes of a step: adds the gradient, all terms of a parameter, to the variable of the first. */
EITP__PRIVATE eitp_status eitp__accumulate_more(eitp_tensor *loss, eitp__gradient_set set, eitp_error *error);

/* Sets all variables of a set to 0: for eitp__accumulate_more, where no pass of a step begins them anew. */
EITP__PRIVATE eitp_status eitp__clear_gradients(eitp_context *context, eitp__gradient_set set, eitp_error *error);

/* The variable in which term 0, 1, ... of a parameter's gradient is accumulated, or NULL. */
EITP__PRIVATE eitp_tensor *eitp__accumulated_term(const eitp_tensor *parameter, eitp__gradient_set set, int term);

/*
 * a + b, of one shape, as an addition that plans must not fuse into the computation of a term. Terms of products and of
 * eitp_embedding_unique, which add each number once, are the exception.
 */
EITP__PRIVATE eitp_tensor *eitp__add_unfused(eitp_tensor *a, eitp_tensor *b);

/* sum + product, where the product goes on from the sum: as if one product had all their terms. */
EITP__PRIVATE eitp_tensor *eitp__continue_sum(eitp_tensor *sum, eitp_tensor *product);

/* integers[0] of an addition. */
enum { EITP__ADD_ANY, EITP__ADD_UNFUSED, EITP__ADD_CONTINUES };

/* The gradient that a loss of LINEAR_CROSS_ENTROPY has with respect to the logits. */
EITP__PRIVATE eitp_tensor *eitp__gradient_of_logits(const eitp__node *node, eitp_tensor *dy);

/*
 * Adds all elements of x, F32, to an element of `totals`, a variable F64 [k], and returns the variable's new value.
 * They are added in order, so that a total over several executions has the bits of one. With `bounds`, I32 [p, 2], only
 * the elements from the first up to the second number of each of the p; with is_by_item only the elements i whose
 * bounds are not negative. `carry`, F32 [1], is the factor of the element's old value; NULL: 0.
 */
EITP__PRIVATE eitp_tensor *eitp__add_total(eitp_tensor *x, eitp_tensor *totals, int64_t element, eitp_tensor *bounds,
                                           int is_by_item, eitp_tensor *carry);

/* A tensor filled with a value, with the shape, dtype and rows of x. */
EITP__PRIVATE eitp_tensor *eitp__fill_like(eitp_tensor *x, double value);

EITP__PRIVATE eitp_status eitp__require(int condition, eitp_error *error, const char *format, ...) EITP__PRINTF(3, 4);

/* Rules of several ops. */
EITP__PRIVATE eitp__shape_rule eitp__shape_unary, eitp__shape_same;
EITP__PRIVATE eitp__gradient_rule eitp__gradient_none;
EITP__PRIVATE eitp__flops_rule eitp__flops_elements;

/*
 * If the offsets are an input, requires them to ascend from 0 to at most `rows`, with no sequence longer than
 * `max_length`.
 */
EITP__PRIVATE void eitp__add_offsets_rule(eitp_tensor *offsets, int64_t rows, int64_t max_length);

/* The forms of an update's states, for a parameter of r rows and c columns, its last dimension. */
typedef enum eitp__state_form {
    EITP__FORM_NONE,
    EITP__FORM_WIDE,               /* like the parameter, of the wide dtype */
    EITP__FORM_SIGNED,             /* like the parameter, I8 codes with scales */
    EITP__FORM_UNSIGNED,           /* like the parameter, U8 codes with scales */
    EITP__FORM_SCALES,             /* BF16, for each group of EITP__MOMENT_GROUP elements */
    EITP__FORM_ROWS,               /* F32 [r] */
    EITP__FORM_COLUMNS,            /* F32 [c] */
    EITP__FORM_ROWS_OF_DIRECTIONS, /* F32 [r, EITP__DIRECTIONS] */
    EITP__FORM_DIRECTIONS          /* F32 [EITP__DIRECTIONS, c] */
} eitp__state_form;

/* The dtype, rank and shape of a state. */
EITP__PRIVATE eitp_tensor eitp__state_like(const eitp_tensor *parameter, eitp__state_form form);

#endif
