/* Directional derivatives, by differentiating gradients, and random directions. */
#include "tensor/internal_ops.h"
#include "tensor/op_rules.h"

static eitp_status eitp__check_direction(const eitp_tensor *y, const eitp_tensor *x, const eitp_tensor *v,
                                         eitp_error *error) {
    char wanted[100], given[100];
    eitp_status status = eitp__require(x && v, error, "%s is NULL", x ? "the direction" : "x");
    if (!status)
        status = eitp__require(x->graph == y->graph && v->graph == y->graph, error,
                               "x and the direction must be tensors of y's graph");
    if (!status)
        status =
            eitp__require(eitp__is_floating(y->dtype) && eitp__is_floating(x->dtype) && eitp__is_floating(v->dtype),
                          error, "y, x and the direction are %s, %s and %s; they must be floating-point",
                          eitp_dtype_name(y->dtype), eitp_dtype_name(x->dtype), eitp_dtype_name(v->dtype));
    return status ? status
                  : eitp__require(eitp__same_shape(v, x) && v->rows == x->rows, error,
                                  "the direction is %s; it must have the shape of x, %s",
                                  eitp__shape_text(v, given, sizeof given), eitp__shape_text(x, wanted, sizeof wanted));
}

/* The gradient of y weighted by w, J^T w, is linear in w. So its own gradient with respect to w, weighted by v, is J v
   for any w. */
eitp_tensor *eitp_jacobian_product(eitp_tensor *y, eitp_tensor *x, eitp_tensor *v) {
    eitp_error error = EITP__ZERO;
    eitp_tensor *weights, *gradient = NULL, *product = NULL;
    eitp_status status;
    if (!y)
        return NULL;
    status = eitp__check_direction(y, x, v, &error);
    if (!status) {
        weights = eitp__fill_like(y, 0);
        status = eitp_gradients(y, weights, 1, &x, &gradient, &error);
        if (!status)
            status = eitp_gradients(gradient, eitp_cast(v, gradient->dtype), 1, &weights, &product, &error);
    }
    if (status)
        eitp__graph_fail(y->graph, status, "jacobian_product: %s", error.message);
    return status ? NULL : product;
}

EITP__PRIVATE eitp_tensor *eitp__random_signs(eitp_tensor *like, eitp_tensor *key) {
    if (!like)
        return NULL;
    if (!eitp__is_floating(like->dtype)) {
        eitp__graph_fail(like->graph, EITP_ERROR_ARGUMENT,
                         "random_signs: the tensor is %s; cast it to a floating-point dtype",
                         eitp_dtype_name(like->dtype));
        return NULL;
    }
    /* Dropped elements are 0, the others 2. */
    return eitp_affine(eitp_dropout(eitp__fill_like(like, 1), key, 0.5), 1, -1);
}
