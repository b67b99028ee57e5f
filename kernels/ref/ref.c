/* Reference kernels: plain C for any processor. Tests compare the other sets with them. */
#include "kernels/cholesky.h"
#include "kernels/ref/attention.h"
#include "kernels/ref/matmul.h"
#include "kernels/ref/ref.h"
#include "kernels/update.h"

/* Returns element i of an update's parameter, including its remainder. */
static double eitp__ref_parameter(const eitp__call *call, int64_t i) {
    const uint16_t *high = (const uint16_t *)call->inputs[0].data + i;
    const void *remainder = call->inputs[EITP__UPDATE_REMAINDER].data;
    switch (eitp__weight_form_of(call)) {
    case EITP__WEIGHT_DIFFERENCE:
        return (double)(eitp__f16_to_f32(*high) + ((const float *)remainder)[i]);
    case EITP__WEIGHT_EXACT:
        return (double)eitp__join_bf16(*high, ((const int16_t *)remainder)[i]);
    case EITP__WEIGHT_CORRECTED:
        return (double)eitp__join_correction(*high, ((const int8_t *)remainder)[i]);
    case EITP__WEIGHT_STOCHASTIC:
        return (double)eitp__bf16_to_f32(*high);
    case EITP__WEIGHT_WIDE:
    default:
        return call->dtype == EITP_F64 ? ((const double *)call->inputs[0].data)[i]
                                       : (double)((const float *)call->inputs[0].data)[i];
    }
}

static void eitp__ref_put_parameter(const eitp__call *call, int64_t i, double value) {
    uint16_t *high = (uint16_t *)call->inputs[0].data + i;
    void *remainder = call->inputs[EITP__UPDATE_REMAINDER].data;
    switch (eitp__weight_form_of(call)) {
    case EITP__WEIGHT_DIFFERENCE:
        *high = eitp__f32_to_f16((float)value);
        ((float *)remainder)[i] = (float)value - eitp__f16_to_f32(*high);
        break;
    case EITP__WEIGHT_EXACT:
        eitp__split_bf16((float)value, high, (int16_t *)remainder + i);
        break;
    case EITP__WEIGHT_CORRECTED:
        eitp__split_correction((float)value, high, (int8_t *)remainder + i);
        break;
    case EITP__WEIGHT_STOCHASTIC:
        *high = eitp__round_bf16((float)value, eitp__random_half(eitp__rounding_key(call), (uint32_t)call->integers[0],
                                                                 (uint64_t)(call->integers[1] + i)));
        break;
    case EITP__WEIGHT_WIDE:
    default:
        if (call->dtype == EITP_F64)
            ((double *)call->inputs[0].data)[i] = value;
        else
            ((float *)call->inputs[0].data)[i] = (float)value;
    }
}

static double eitp__ref_add_all(const float *x, int64_t begin, int64_t end, double sum) {
    for (int64_t i = begin; i < end; i++)
        sum += (double)x[i];
    return sum;
}

/* Adds in element order, so that a total over several calls is bit-identical to one over all elements. */
static void eitp__ref_total(const eitp__call *call, int64_t begin, int64_t end, void *workspace) {
    const float *x = (const float *)call->inputs[0].data;
    const int32_t *bounds = call->input_count > 2 ? (const int32_t *)call->inputs[2].data : NULL;
    const float *carry = call->input_count > 3 ? (const float *)call->inputs[3].data : NULL;
    double *total = (double *)call->outputs[0].data + call->integers[0];
    double sum = carry && carry[0] != 0 ? (double)carry[0] * *total : 0;
    (void)begin;
    (void)end;
    (void)workspace;
    if (!bounds)
        sum = eitp__ref_add_all(x, 0, call->inputs[0].elements, sum);
    for (int64_t i = 0; bounds && i < call->inputs[2].elements / 2; i++) {
        const int32_t *of = bounds + 2 * i;
        if (of[0] >= 0)
            sum = call->integers[1] ? eitp__ref_add_all(x, i, i + 1, sum) : eitp__ref_add_all(x, of[0], of[1], sum);
    }
    *total = sum;
}

/*
 * Computes the gradient factor, as torch.nn.utils.clip_grad_norm_ does, and whether to apply the step. A step is
 * skipped if its norm is not finite or exceeds the bound.
 */
static void eitp__ref_commit(const eitp__call *call, int64_t begin, int64_t end, void *workspace) {
    const float *loss_scale = call->input_count > 2 ? (const float *)call->inputs[2].data : NULL;
    const float *bound = call->input_count > 3 ? (const float *)call->inputs[3].data : NULL;
    double unscale = loss_scale ? 1 / (double)loss_scale[0] : 1;
    double norm = sqrt(((const double *)call->inputs[0].data)[0]) * unscale;
    double limit = (double)((const float *)call->inputs[1].data)[0], scale = 1;
    float *commit = (float *)call->outputs[0].data;
    const int applies = isfinite(norm) && !(bound && bound[0] > 0 && norm > (double)bound[0]);
    (void)begin;
    (void)end;
    (void)workspace;
    if (limit > 0 && limit < norm + 1e-6)
        scale = limit / (norm + 1e-6);
    commit[0] = applies ? (float)(scale * unscale) : 0;
    commit[1] = applies ? 1 : 0;
    ((float *)call->outputs[1].data)[0] = (float)norm;
}

/* Updates running means of squares; the new sum has weight `share`. Returns the mean of the means. */
static double eitp__ref_move_means(float *means, const double *squares, int64_t count, double keep, double share) {
    double sum = 0;
    for (int64_t i = 0; i < count; i++) {
        means[i] = (float)(keep * (double)means[i] + share * squares[i]);
        sum += (double)means[i];
    }
    return sum / (double)count;
}

/*
 * Row and column means approximate v: v[i, j] = rows[i] columns[j] / mean(rows) (Shazeer and Stern, "Adafactor", arXiv
 * 1804.04235). They decay like AdamW's v, with the same bias correction, so that optimizers can be switched.
 */
static void eitp__ref_factored_means(const eitp__call *call, int64_t begin, int64_t end, void *workspace) {
    const float *hyper = (const float *)call->inputs[2].data, *commit = (const float *)call->inputs[3].data;
    float *columns = (float *)call->inputs[0].data, *rows = (float *)call->inputs[4].data;
    float *column_roots = (float *)call->outputs[1].data, *row_roots = (float *)call->outputs[2].data;
    int64_t c = call->inputs[0].elements, r = rows ? call->inputs[4].elements : 1;
    double beta2 = call->reals[0], correction = 1 / (1 - pow(beta2, (double)hyper[1])), mean = 1;
    double take = (1 - beta2) * (double)commit[0] * (double)commit[0];
    (void)begin;
    (void)end;
    (void)workspace;
    if (commit[1] != 0)
        eitp__ref_move_means(columns, (const double *)call->inputs[1].data, c, beta2, take / (double)r);
    if (rows && commit[1] != 0)
        mean = eitp__ref_move_means(rows, (const double *)call->inputs[5].data, r, beta2, take / (double)c);
    for (int64_t j = 0; j < c; j++)
        column_roots[j] = (float)sqrt((double)columns[j] * correction);
    for (int64_t i = 0; i < r; i++)
        row_roots[i] = !rows ? 1.0f : mean > 0 ? (float)sqrt((double)rows[i] / mean) : 0.0f;
}

/*
 * Returns an element of an initial direction: as large as the column's gradient, with the signs of a row of a Hadamard
 * matrix. Columns without any gradient stay zero.
 */
static double eitp__ref_first_direction(const double *column_squares, int64_t j, int64_t t) {
    return t && !((j >> (t - 1)) & 1) ? -sqrt(column_squares[j]) : sqrt(column_squares[j]);
}

static double eitp__ref_dot(const float *a, const float *b, int64_t count) {
    double sum = 0;
    for (int64_t i = 0; i < count; i++)
        sum += (double)a[i] * (double)b[i];
    return sum;
}

/* Makes direction t orthogonal to the directions before it, with length 1. It becomes zeros if nothing remains. */
static void eitp__ref_orthogonal(float *directions, int64_t columns, int64_t t) {
    float *y = directions + t * columns;
    double before = sqrt(eitp__ref_dot(y, y, columns)), size;
    for (int64_t s = 0; s < t; s++) {
        double dot = eitp__ref_dot(y, directions + s * columns, columns);
        for (int64_t j = 0; j < columns; j++)
            y[j] -= (float)(dot * (double)directions[s * columns + j]);
    }
    size = sqrt(eitp__ref_dot(y, y, columns));
    for (int64_t j = 0; j < columns; j++)
        y[j] = size > 1e-5 * before ? (float)((double)y[j] / size) : 0;
}

/*
 * Moves the directions towards those with the largest gradient. This is only a partial step of subspace iteration,
 * because a single gradient is mostly noise.
 */
static void eitp__ref_rotate_directions(const eitp__call *call, const float *old, float *directions, int64_t columns) {
    const double *column_squares = (const double *)call->inputs[6].data;
    double keep = call->reals[0];
    for (int64_t t = 0; t < EITP__DIRECTIONS; t++) {
        const float *towards = (const float *)call->inputs[3].data + t * columns, *from = old + t * columns;
        double size = sqrt(eitp__ref_dot(towards, towards, columns));
        int begins = eitp__ref_dot(from, from, columns) < 0.5;
        for (int64_t j = 0; j < columns; j++) {
            double kept = begins ? eitp__ref_first_direction(column_squares, j, t) : keep * (double)from[j];
            double turned = !begins && size > 0 ? (1 - keep) * (double)towards[j] / size : 0;
            directions[t * columns + j] = (float)(kept + turned);
        }
        eitp__ref_orthogonal(directions, columns, t);
    }
}

/* Expresses m in the new directions: projects its part along the old ones onto the new ones. */
static void eitp__ref_project_m(float *m, int64_t rows, const float *old, const float *directions, int64_t columns) {
    double same[EITP__DIRECTIONS][EITP__DIRECTIONS];
    for (int64_t s = 0; s < EITP__DIRECTIONS; s++) {
        for (int64_t t = 0; t < EITP__DIRECTIONS; t++)
            same[s][t] = eitp__ref_dot(old + s * columns, directions + t * columns, columns);
    }
    for (int64_t i = 0; i < rows; i++, m += EITP__DIRECTIONS) {
        float before[EITP__DIRECTIONS];
        memcpy(before, m, sizeof before);
        for (int t = 0; t < EITP__DIRECTIONS; t++) {
            double sum = 0;
            for (int s = 0; s < EITP__DIRECTIONS; s++)
                sum += (double)before[s] * same[s][t];
            m[t] = (float)sum;
        }
    }
}

/*
 * A first moment of rank EITP__DIRECTIONS. The update uses the running mean along the gradient's steepest directions,
 * where a single gradient would overshoot, and the gradient itself in all other directions.
 */
static void eitp__ref_factored_momentum(const eitp__call *call, int64_t begin, int64_t end, void *workspace) {
    const float *hyper = (const float *)call->inputs[4].data, *commit = (const float *)call->inputs[5].data;
    const float *products = (const float *)call->inputs[2].data;
    float *directions = (float *)call->inputs[0].data, *m = (float *)call->inputs[1].data;
    float *corrections = (float *)call->outputs[2].data, *old_directions = (float *)call->outputs[3].data;
    int64_t columns = call->inputs[6].elements, rows = call->inputs[1].elements / EITP__DIRECTIONS;
    double beta1 = call->reals[0], bias_correction = 1 / (1 - pow(beta1, (double)hyper[1])), scale = (double)commit[0];
    (void)begin;
    (void)end;
    (void)workspace;
    memcpy(old_directions, directions, (size_t)(EITP__DIRECTIONS * columns) * sizeof *old_directions);
    for (int64_t i = 0; i < rows * EITP__DIRECTIONS; i++) {
        double now = scale * (double)products[i];
        if (commit[1] != 0)
            m[i] = (float)(beta1 * (double)m[i] + (1 - beta1) * now);
        corrections[i] = commit[1] != 0 ? (float)((double)m[i] * bias_correction - now) : 0;
    }
    if (commit[1] == 0)
        return;
    eitp__ref_rotate_directions(call, old_directions, directions, columns);
    eitp__ref_project_m(m, rows, old_directions, directions, columns);
}

/*
 * Template instances. EITP__REAL is the type of the arithmetic. Only attention and matrix products have instances for
 * another element type, EITP__ELEMENT, with the conversions EITP__GET and EITP__PUT. EITP__REF names a function of the
 * instance, EITP__REF_SUM a function for its sums of products.
 */
#define EITP__ELEMENT double
#define EITP__REAL double
#define EITP__GET(x) (x)
#define EITP__PUT(x) (x)
#define EITP__REF(name) eitp__ref_##name##_f64
#define EITP__REF_SUM(name) eitp__ref_##name##_f64
#define EITP__REF_MATH(name) name
#define EITP__CHOLESKY(name) eitp__ref_cholesky_##name
#define EITP__CHOLESKY_VECTOR eitp__ref_vector_f64
#define EITP__CHOLESKY_LANES 2
#define EITP__CHOLESKY_ZERO eitp__ref_broadcast_f64(0)
#define EITP__CHOLESKY_LOAD(p) eitp__ref_load_f64(p)
#define EITP__CHOLESKY_ADD_PRODUCT(c, a, b) ((c) + (a) * (b))
#define EITP__CHOLESKY_SUM(v) eitp__ref_add_lanes_f64(v)
#include "kernels/ref/update.inc"
#include "kernels/ref/matmul_instance.inc"
#include "kernels/matmul_vector.inc"
#include "kernels/cholesky.inc"

#undef EITP__ELEMENT
#undef EITP__REAL
#undef EITP__GET
#undef EITP__PUT
#undef EITP__REF
#undef EITP__REF_SUM
#undef EITP__REF_MATH

#define EITP__ELEMENT float
#define EITP__REAL float
#define EITP__GET(x) (x)
#define EITP__PUT(x) (x)
#define EITP__REF(name) eitp__ref_##name##_f32
#define EITP__REF_SUM(name) eitp__ref_##name##_f32
#define EITP__REF_MATH(name) name##f
#include "kernels/ref/update.inc"
#include "kernels/ref/attention.inc"
#include "kernels/ref/matmul_instance.inc"
#include "kernels/matmul_vector.inc"

#undef EITP__ELEMENT
#undef EITP__REAL
#undef EITP__GET
#undef EITP__PUT
#undef EITP__REF
#undef EITP__REF_SUM
#undef EITP__REF_MATH

#define EITP__ELEMENT uint16_t
#define EITP__REAL float
#define EITP__GET(x) eitp__bf16_to_f32(x)
#define EITP__PUT(x) eitp__f32_to_bf16(x)
#define EITP__REF(name) eitp__ref_##name##_bf16
#define EITP__REF_SUM(name) eitp__ref_##name##_f32
#define EITP__REF_MATH(name) name##f
#include "kernels/ref/attention.inc"
#include "kernels/ref/matmul_instance.inc"
#include "kernels/matmul_vector.inc"

#undef EITP__ELEMENT
#undef EITP__REAL
#undef EITP__GET
#undef EITP__PUT
#undef EITP__REF
#undef EITP__REF_SUM
#undef EITP__REF_MATH

#define EITP__ELEMENT uint16_t
#define EITP__REAL float
#define EITP__GET(x) eitp__f16_to_f32(x)
#define EITP__PUT(x) eitp__f32_to_f16(x)
#define EITP__REF(name) eitp__ref_##name##_f16
#define EITP__REF_SUM(name) eitp__ref_##name##_f32
#define EITP__REF_MATH(name) name##f
#include "kernels/ref/attention.inc"
#include "kernels/ref/matmul_instance.inc"
#include "kernels/matmul_vector.inc"

#undef EITP__ELEMENT
#undef EITP__REAL
#undef EITP__GET
#undef EITP__PUT
#undef EITP__REF
#undef EITP__REF_SUM
#undef EITP__REF_MATH

EITP__PRIVATE void eitp__ref_update(const eitp__call *call, int64_t begin, int64_t end, void *workspace) {
    eitp__ref_update_f32(call, begin, end, workspace);
}

EITP__PRIVATE void eitp__register_ref_kernels(eitp__kernel_table *table) {
    eitp__register_ref_casts(table);
    eitp__register_ref_movement(table);
    eitp__register_ref_elements(table);
    eitp__register_ref_network(table);
    eitp__register_ref_loss(table);
    eitp__register_ref_path(table);
    eitp__ref_register(table, EITP__SLOT_TOTAL, EITP_F32, eitp__ref_total);
    eitp__ref_register(table, EITP__SLOT_COMMIT, EITP_F64, eitp__ref_commit);
    eitp__ref_register(table, EITP__SLOT_UPDATE, EITP_F64, eitp__ref_update_f64);
    eitp__ref_register_converting(table, EITP__SLOT_UPDATE, eitp__ref_update_f32);
    for (int dtype = EITP_F32; dtype <= EITP_F16; dtype++)
        table->kernels[EITP__SLOT_UPDATE][dtype].workspace = eitp__update_workspace;
    eitp__ref_register(table, EITP__SLOT_FACTORED_MEANS, EITP_F32, eitp__ref_factored_means);
    eitp__ref_register(table, EITP__SLOT_FACTORED_MOMENTUM, EITP_F32, eitp__ref_factored_momentum);
    eitp__ref_cholesky_register(table, "ref");
    eitp__ref_attention_register_f32(table, EITP_F32);
    eitp__ref_attention_register_bf16(table, EITP_BF16);
    eitp__ref_attention_register_f16(table, EITP_F16);
    table->kernels[EITP__SLOT_MATMUL][EITP_F32] = eitp__ref_matmul_kernel_f32("ref");
    table->kernels[EITP__SLOT_MATMUL][EITP_F64] = eitp__ref_matmul_kernel_f64("ref");
    table->kernels[EITP__SLOT_MATMUL][EITP_BF16] = eitp__ref_matmul_kernel_bf16("ref");
    table->kernels[EITP__SLOT_MATMUL][EITP_F16] = eitp__ref_matmul_kernel_f16("ref");
    table->kernels[EITP__SLOT_HEAD][EITP_BF16] = eitp__ref_matmul_kernel_bf16("ref");
    table->kernels[EITP__SLOT_HEAD][EITP_F16] = eitp__ref_matmul_kernel_f16("ref");
}
