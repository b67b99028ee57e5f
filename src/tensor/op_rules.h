/* Entries of the table of ops, and functions shared by their rules. docs/extending.md describes how to add one. */
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

/* Sets the common members of elementwise ops with one or two inputs. */
EITP__PRIVATE void eitp__define_elementwise(eitp__op_info *op, int inputs, eitp__gradient_rule *gradient);

/* Sets the common members of the fused gradients of an op, whose code is the entry's backward_of. */
EITP__PRIVATE void eitp__define_backward(eitp__op_info *op, eitp__op_code of, eitp_work work, int inputs,
                                         eitp__shape_rule *shape);

/* Adds an epilogue to an op. */
EITP__PRIVATE void eitp__add_epilogue(eitp__op_info *op, eitp__epilogue epilogue, int product, int operand);

/* Checks the requirements of eitp_rotary for a configuration. */
EITP__PRIVATE eitp_status eitp__rotary_check(const eitp_rotary_config *config, eitp_error *error);

/* Returns x [n, heads d] with each head rotated by the angles of its row, [n, d]: see eitp_rotary. */
EITP__PRIVATE eitp_tensor *eitp__rotated(eitp_tensor *x, eitp_tensor *rotation);

/* Checks that a loss to be minimized is a single floating-point number. */
EITP__PRIVATE eitp_status eitp__check_loss(const eitp_tensor *loss, eitp_error *error);

/* Sums x over the dimensions that `like` lacks or in which it has extent 1: the transpose of broadcasting. */
EITP__PRIVATE eitp_tensor *eitp__sum_to(eitp_tensor *x, const eitp_tensor *like);

/* dx = dx + contribution; either may be NULL. */
EITP__PRIVATE void eitp__add_gradient(eitp_tensor **dx, eitp_tensor *contribution);

/* Returns a 1-element tensor of x's dtype in x's graph, which broadcasts to any shape. */
EITP__PRIVATE eitp_tensor *eitp__scalar_like(const eitp_tensor *x, double value);

/* Applies an activation to y. */
EITP__PRIVATE eitp_tensor *eitp__activate(eitp_tensor *y, eitp_activation activation);

/* Computes a matrix product stored as `dtype`: the operands' dtype, or the wider dtype of the sums. */
EITP__PRIVATE eitp_tensor *eitp__matmul_node(eitp_tensor *a, eitp_tensor *b, eitp_tensor *bias, int transpose_a,
                                             int transpose_b, eitp_dtype dtype);

/* Returns rows [begin, end) of a tensor with a fixed number of rows: a view of a leaf, otherwise computed from rows of
   the operands, so that the whole tensor is never stored. */
EITP__PRIVATE eitp_tensor *eitp__rows(eitp_tensor *x, int64_t begin, int64_t end);

/* For plans: returns a view of rows [begin, end). If the number of rows varies, the view has the ones that are in use.
   The rows of nodes that read it start there too. */
EITP__PRIVATE eitp_tensor *eitp__part_of_rows(eitp_tensor *x, int64_t begin, int64_t end);

/* Applies eitp_scatter_add along a non-negative axis. With `rows`, `extent` is the graph's capacity. */
EITP__PRIVATE eitp_tensor *eitp__scatter_add_axis(eitp_tensor *x, eitp_tensor *indices, int axis, int64_t extent,
                                                  int rows);

/* Returns zeros with as many rows as the table, with `rows` added at `ids`. Ids outside the table are ignored. */
EITP__PRIVATE eitp_tensor *eitp__scatter_rows(eitp_tensor *ids, eitp_tensor *rows, const eitp_tensor *table);

/* Like eitp__scatter_rows, with `count` rows. */
EITP__PRIVATE eitp_tensor *eitp__sum_rows(eitp_tensor *ids, eitp_tensor *rows, int64_t count);

/* Returns the rows of a gradient term of eitp_embedding_unique, which are scattered once per step; NULL for other
   terms. They are accumulated in a separate variable: EITP__KIND_GRADIENT_ROWS. */
EITP__PRIVATE eitp_tensor *eitp__deferred_rows(const eitp_tensor *gradient);

/* Gradients that are accumulated separately, and the variables that each is accumulated in. */
typedef enum eitp__gradient_set {
    EITP__TASK_GRADIENT,
    EITP__REGULARIZER_GRADIENT, /* gradients of regularizers whose norm is capped */
    EITP__GRADIENT_SETS
} eitp__gradient_set;
typedef enum eitp__gradient_part {
    EITP__GRADIENT_FIRST,   /* first term of each parameter */
    EITP__GRADIENT_OTHERS,  /* other terms; their numbers count from 2 */
    EITP__GRADIENT_LOOKUPS, /* rows of eitp_embedding_unique; the number is the number of ids */
    EITP__GRADIENT_PARTS
} eitp__gradient_part;
EITP__PRIVATE const char *eitp__gradient_kind(eitp__gradient_set set, eitp__gradient_part part);

/*
 * Like eitp_accumulate_gradients, but each term of a parameter's gradient is accumulated over the passes in a separate
 * variable, and the update adds the terms. So the gradient of a parameter with several uses has the same bits for any
 * division of rows into passes. The terms of a parameter with more than EITP__GRADIENT_TERMS share one variable.
 */
#define EITP__GRADIENT_TERMS 4
EITP__PRIVATE eitp_status eitp__accumulate_gradient_terms(eitp_tensor *loss, eitp__gradient_set set, eitp_tensor *carry,
                                                          eitp_error *error);

/* Used after the passes of a step: adds the gradient, all terms of a parameter, to the variable of its first term. */
EITP__PRIVATE eitp_status eitp__accumulate_more(eitp_tensor *loss, eitp__gradient_set set, eitp_error *error);

/* Sets all variables of a set to 0. Needed for eitp__accumulate_more if no pass of a step resets them. */
EITP__PRIVATE eitp_status eitp__clear_gradients(eitp_context *context, eitp__gradient_set set, eitp_error *error);

/* Returns the variable in which term 0, 1, ... of a parameter's gradient is accumulated, or NULL. */
EITP__PRIVATE eitp_tensor *eitp__accumulated_term(const eitp_tensor *parameter, eitp__gradient_set set, int term);

/* Returns a + b, of the same shape, as an addition that plans must not fuse into the computation of a term. The
   exceptions are terms of products and of eitp_embedding_unique, which add each number once. */
EITP__PRIVATE eitp_tensor *eitp__add_unfused(eitp_tensor *a, eitp_tensor *b);

/* Returns sum + product, where the product continues the sum, as if a single product had all the terms. */
EITP__PRIVATE eitp_tensor *eitp__continue_sum(eitp_tensor *sum, eitp_tensor *product);

/* Values of integers[0] of an addition. */
enum { EITP__ADD_ANY, EITP__ADD_UNFUSED, EITP__ADD_CONTINUES };

/* Returns the gradient of a loss of LINEAR_CROSS_ENTROPY with respect to the logits. */
EITP__PRIVATE eitp_tensor *eitp__gradient_of_logits(const eitp__node *node, eitp_tensor *dy);

/*
 * Adds all elements of x, F32, to an element of `totals`, a variable F64 [k], and returns the variable's new value.
 * They are added in order, so that a total over several executions has the same bits as over one. With `bounds`, I32
 * [p, 2], adds only the elements in the p ranges from the first number up to the second; with is_by_item, only the
 * elements i whose bounds are not negative. `carry`, F32 [1], is the factor of the element's old value; NULL: 0.
 */
EITP__PRIVATE eitp_tensor *eitp__add_total(eitp_tensor *x, eitp_tensor *totals, int64_t element, eitp_tensor *bounds,
                                           int is_by_item, eitp_tensor *carry);

/* Returns a tensor filled with a value, with the shape, dtype and rows of x. */
EITP__PRIVATE eitp_tensor *eitp__fill_like(eitp_tensor *x, double value);

EITP__PRIVATE eitp_status eitp__require(int condition, eitp_error *error, const char *format, ...) EITP__PRINTF(3, 4);

/* Rules shared by several ops. */
EITP__PRIVATE eitp__shape_rule eitp__shape_unary, eitp__shape_same;
EITP__PRIVATE eitp__gradient_rule eitp__gradient_none;
EITP__PRIVATE eitp__flops_rule eitp__flops_elements;

/*
 * If the offsets are an input, requires them to ascend from 0 to at most `rows`, with no sequence longer than
 * `max_length`.
 */
EITP__PRIVATE void eitp__add_offsets_rule(eitp_tensor *offsets, int64_t rows, int64_t max_length);

/* Forms of an update's states, for a parameter of r rows and c columns (its last dimension). */
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

/* Returns the dtype, rank and shape of a state. */
EITP__PRIVATE eitp_tensor eitp__state_like(const eitp_tensor *parameter, eitp__state_form form);

#endif
