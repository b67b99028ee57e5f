/* Array functions in double, each written from its definition without regard to speed: the reference for ops. */
#ifndef EITP_TEST_NAIVE_H
#define EITP_TEST_NAIVE_H

#include "tests/support/graphs.h"

static GRAPHS_UNUSED array *naive_map(build *b, const array *x, double (*f)(double)) {
    array *y = new_array(b, x->rank, x->shape);
    for (int64_t i = 0; i < y->count; i++)
        y->data[i] = f(x->data[i]);
    return y;
}

/* Applies f to two operands that broadcast. */
static GRAPHS_UNUSED array *naive_zip(build *b, const array *p, const array *q, double (*f)(double, double)) {
    int rank = p->rank > q->rank ? p->rank : q->rank;
    int64_t shape[EITP_MAX_RANK], index[EITP_MAX_RANK];
    array *y;
    for (int d = 0; d < rank; d++) {
        int64_t m = d < rank - p->rank ? 1 : p->shape[d - (rank - p->rank)];
        int64_t n = d < rank - q->rank ? 1 : q->shape[d - (rank - q->rank)];
        shape[d] = m > n ? m : n;
    }
    y = new_array(b, rank, shape);
    for (int64_t i = 0; i < y->count; i++) {
        unravel(y, i, index);
        y->data[i] = f(p->data[ravel(p, index, rank)], q->data[ravel(q, index, rank)]);
    }
    return y;
}

static GRAPHS_UNUSED array *naive_broadcast(build *b, const array *x, int rank, const int64_t *shape) {
    array *y = new_array(b, rank, shape);
    int64_t index[EITP_MAX_RANK];
    for (int64_t i = 0; i < y->count; i++) {
        unravel(y, i, index);
        y->data[i] = x->data[ravel(x, index, rank)];
    }
    return y;
}

static GRAPHS_UNUSED array *naive_reshape(build *b, const array *x, int rank, const int64_t *shape) {
    array *y = new_array(b, rank, shape);
    memcpy(y->data, x->data, (size_t)x->count * sizeof *y->data);
    return y;
}

static GRAPHS_UNUSED array *naive_permute(build *b, const array *x, const int *order) {
    int64_t shape[EITP_MAX_RANK], index[EITP_MAX_RANK], from[EITP_MAX_RANK];
    array *y;
    for (int d = 0; d < x->rank; d++)
        shape[d] = x->shape[order[d]];
    y = new_array(b, x->rank, shape);
    for (int64_t i = 0; i < y->count; i++) {
        unravel(y, i, index);
        for (int d = 0; d < x->rank; d++)
            from[order[d]] = index[d];
        y->data[i] = x->data[ravel(x, from, x->rank)];
    }
    return y;
}

/* `extent` elements of dimension `axis` starting at `begin`, with zeros outside: a slice or a padding. */
static GRAPHS_UNUSED array *naive_window(build *b, const array *x, int axis, int64_t begin, int64_t extent) {
    int64_t shape[EITP_MAX_RANK], index[EITP_MAX_RANK];
    array *y;
    memcpy(shape, x->shape, sizeof shape);
    shape[axis] = extent;
    y = new_array(b, x->rank, shape);
    for (int64_t i = 0; i < y->count; i++) {
        unravel(y, i, index);
        index[axis] += begin;
        if (index[axis] >= 0 && index[axis] < x->shape[axis])
            y->data[i] = x->data[ravel(x, index, x->rank)];
    }
    return y;
}

/* `extent` elements of dimension `axis` starting at `begin`, `step` apart. */
static GRAPHS_UNUSED array *naive_steps(build *b, const array *x, int axis, int64_t begin, int64_t extent,
                                        int64_t step) {
    int64_t shape[EITP_MAX_RANK], index[EITP_MAX_RANK];
    array *y;
    memcpy(shape, x->shape, sizeof shape);
    shape[axis] = extent;
    y = new_array(b, x->rank, shape);
    for (int64_t i = 0; i < y->count; i++) {
        unravel(y, i, index);
        index[axis] = begin + index[axis] * step;
        y->data[i] = x->data[ravel(x, index, x->rank)];
    }
    return y;
}

static GRAPHS_UNUSED array *naive_concat(build *b, const array *const *xs, int count, int axis) {
    int64_t shape[EITP_MAX_RANK], index[EITP_MAX_RANK], begin = 0;
    array *y;
    memcpy(shape, xs[0]->shape, sizeof shape);
    shape[axis] = 0;
    for (int i = 0; i < count; i++)
        shape[axis] += xs[i]->shape[axis];
    y = new_array(b, xs[0]->rank, shape);
    for (int i = 0; i < count; i++) {
        for (int64_t j = 0; j < xs[i]->count; j++) {
            unravel(xs[i], j, index);
            index[axis] += begin;
            y->data[ravel(y, index, y->rank)] = xs[i]->data[j];
        }
        begin += xs[i]->shape[axis];
    }
    return y;
}

/* An index out of range gives 0. */
static GRAPHS_UNUSED array *naive_gather(build *b, const array *x, const array *indices, int axis) {
    array *y = new_array(b, indices->rank, indices->shape);
    int64_t index[EITP_MAX_RANK];
    for (int64_t i = 0; i < y->count; i++) {
        unravel(y, i, index);
        index[axis] = (int64_t)indices->data[i];
        if (index[axis] >= 0 && index[axis] < x->shape[axis])
            y->data[i] = x->data[ravel(x, index, x->rank)];
    }
    return y;
}

/* Values for an index out of range are dropped. */
static GRAPHS_UNUSED array *naive_scatter_add(build *b, const array *x, const array *indices, int axis,
                                              int64_t extent) {
    int64_t shape[EITP_MAX_RANK], index[EITP_MAX_RANK];
    array *y;
    memcpy(shape, x->shape, sizeof shape);
    shape[axis] = extent;
    y = new_array(b, x->rank, shape);
    for (int64_t i = 0; i < x->count; i++) {
        unravel(x, i, index);
        index[axis] = (int64_t)indices->data[i];
        if (index[axis] >= 0 && index[axis] < extent)
            y->data[ravel(y, index, y->rank)] += x->data[i];
    }
    return y;
}

/* Reduces the dimensions in `mask`, which are kept with extent 1. */
static GRAPHS_UNUSED array *naive_reduce(build *b, const array *x, unsigned mask, int is_max) {
    int64_t shape[EITP_MAX_RANK], index[EITP_MAX_RANK];
    array *y;
    for (int d = 0; d < x->rank; d++)
        shape[d] = mask >> d & 1 ? 1 : x->shape[d];
    y = new_array(b, x->rank, shape);
    for (int64_t i = 0; i < y->count && is_max; i++)
        y->data[i] = -(double)INFINITY;
    for (int64_t i = 0; i < x->count; i++) {
        double *to;
        unravel(x, i, index);
        to = &y->data[ravel(y, index, y->rank)];
        *to = !is_max ? *to + x->data[i] : x->data[i] > *to ? x->data[i] : *to;
    }
    return y;
}

/* The index of the largest element along a dimension, which is kept with extent 1. */
static GRAPHS_UNUSED array *naive_argmax(build *b, const array *x, int axis) {
    int64_t shape[EITP_MAX_RANK], index[EITP_MAX_RANK];
    array *y;
    memcpy(shape, x->shape, sizeof shape);
    shape[axis] = 1;
    y = new_array(b, x->rank, shape);
    for (int64_t i = 0; i < x->count; i++) {
        int64_t best[EITP_MAX_RANK], place;
        unravel(x, i, index);
        memcpy(best, index, sizeof best);
        place = index[axis];
        index[axis] = 0;
        best[axis] = (int64_t)y->data[ravel(y, index, y->rank)];
        if (x->data[i] > x->data[ravel(x, best, x->rank)])
            y->data[ravel(y, index, y->rank)] = (double)place;
    }
    return y;
}

/* Removes the dimensions in `mask`; [1] if none remains. */
static GRAPHS_UNUSED array *naive_squeeze(build *b, const array *x, unsigned mask) {
    int64_t shape[EITP_MAX_RANK];
    int rank = 0;
    for (int d = 0; d < x->rank; d++)
        if (!(mask >> d & 1))
            shape[rank++] = x->shape[d];
    if (!rank)
        shape[rank++] = 1;
    return naive_reshape(b, x, rank, shape);
}

static GRAPHS_UNUSED array *naive_swap(build *b, const array *x) {
    int order[EITP_MAX_RANK];
    for (int d = 0; d < x->rank; d++)
        order[d] = d;
    order[x->rank - 1] = x->rank - 2;
    order[x->rank - 2] = x->rank - 1;
    return naive_permute(b, x, order);
}

/* [.., m, k] times [.., k, n]. */
static GRAPHS_UNUSED array *naive_matmul(build *b, const array *p, const array *q, int swap_p, int swap_q) {
    int rank = p->rank > q->rank ? p->rank : q->rank;
    int64_t shape[EITP_MAX_RANK], index[EITP_MAX_RANK], k;
    array *y;
    p = swap_p ? naive_swap(b, p) : p;
    q = swap_q ? naive_swap(b, q) : q;
    for (int d = 0; d < rank - 2; d++) {
        int64_t m = d < rank - p->rank ? 1 : p->shape[d - (rank - p->rank)];
        int64_t n = d < rank - q->rank ? 1 : q->shape[d - (rank - q->rank)];
        shape[d] = m > n ? m : n;
    }
    shape[rank - 2] = p->shape[p->rank - 2];
    shape[rank - 1] = q->shape[q->rank - 1];
    k = p->shape[p->rank - 1];
    y = new_array(b, rank, shape);
    for (int64_t i = 0; i < y->count; i++) {
        int64_t row, column;
        unravel(y, i, index);
        row = index[rank - 2];
        column = index[rank - 1];
        for (int64_t j = 0; j < k; j++) {
            double left, right;
            index[rank - 2] = row;
            index[rank - 1] = j;
            left = p->data[ravel(p, index, rank)];
            index[rank - 2] = j;
            index[rank - 1] = column;
            right = q->data[ravel(q, index, rank)];
            y->data[i] += left * right;
        }
    }
    return y;
}

#endif
