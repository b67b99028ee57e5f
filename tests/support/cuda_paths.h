/*
 * Paths of calls in the CUDA backend: the code that a launch executes, as lines of text. tests/cuda/paths.sh compares
 * the paths of real plans (tools/cuda_kernels/paths.c) with the paths of the tests' quick cases, which may be small.
 *
 * A path of a kernel has its file, its name, the definitions that it is compiled with (types, tiles, widths of heads,
 * ALIGNED, SHIFTED, BUFFERS, GROUP), and these words, each for a choice of the kernel or of the backend:
 *
 *   blocks           there are several: a block finds its share by its number
 *   vectors, tail    elements are moved as vectors of 16 bytes, or one by one after the last vector; `single`: all are
 *                    moved one by one
 *   dense, strided   the elements of a thread are adjacent in a row and moved as vectors, or each is 32 columns after
 *                    the last one
 *   wide             a block computes a row, not a warp: other sums
 *   grid N           operands are not read in the order of the result, but in N dimensions; `repeats`: one of them has
 *                    one element for all columns
 *   adds, carries    adds to the output, or to the output times a number on the device: another start of a sum
 *   operand          a residual is added
 *   chunks, parts    a sum has several, which a second stage adds
 *   passes           a block processes several groups of elements, one after another
 *   copies           the cache is not extended in place: its positions are copied too
 *   tiles, sequences a head has several blocks; a call has several sequences
 *   steps            there are more steps of k, or of keys, than shared memory holds: its places are used again
 *   edges m n k      the matrix does not fill all tiles; k: nor the last step. Without edges all copies are whole
 *   base a b         rows of a factor start between the vectors that a copy moves
 *   padded           rows of logits have a stride
 *
 * Code that many kernels share, and that works alike in all of them, has separate lines:
 *
 *   elements.h       `vectors` and `tail` of a kernel are two lines, because vectors are independent of each other. All
 *                    kernels find the first element of a block in the same way
 *   products.h       the end of a product, which reads sums from shared memory, regardless of the tile: types,
 *                    epilogue, bias, `before`, the start of sums. The addition of parts. Tiles in several bands
 *   columns.cu       chunks of more than the least number of rows; the sorting of ids
 *   group.h          calls that share a launch: each has its blocks, or a block computes all, one after another
 *
 * A product of cuBLASLt has the words for its description (backends/cuda/blas_product.c).
 *
 * SCALAR=2 and 3, BF16 and F16, are one path, except in update.cu: the source of kernels is the same, and conversions
 * (kernels/cuda/device.h) have cases for both. Tests of the command train in both (tests/cuda/aligned.sh).
 *
 * Not in a path, because no kernel chooses code by them: numbers of rows, columns and blocks beyond one, values such as
 * targets, offsets and lengths, operands that share memory, and rows missing from an execution, which guards skip.
 */
#ifndef EITP_TEST_CUDA_PATHS_H
#define EITP_TEST_CUDA_PATHS_H

#include "tests/support/cuda_launches.h"

#include "kernels/cuda/attention_tiles.h"
#include "kernels/update.h"

#include <stdarg.h>

enum { CUDA_PATH = 256 };

typedef struct cuda_path {
    char text[CUDA_PATH];
    size_t length;
    int has_vectors, has_tail, is_single; /* each is a separate line */
} cuda_path;

/* Adds a word and a space before it. */
static EITP__PRINTF(2, 3) void path_add(cuda_path *path, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    if (path->length && path->length < CUDA_PATH)
        path->text[path->length++] = ' ';
    if (path->length < CUDA_PATH)
        path->length += (size_t)vsnprintf(path->text + path->length, CUDA_PATH - path->length, format, arguments);
    va_end(arguments);
    if (path->length >= CUDA_PATH) {
        fprintf(stderr, "a path is longer than %d characters: %s\n", CUDA_PATH - 1, path->text);
        exit(1);
    }
}

/* Adds a word if it applies. */
static void path_add_if(cuda_path *path, int applies, const char *word) {
    if (applies)
        path_add(path, "%s", word);
}

/* ---- Operands ---- */

static const eitp__operand *path_input(const eitp__call *call, int i) {
    return i < call->input_count && call->inputs[i].data ? &call->inputs[i] : NULL;
}

static const eitp__operand *path_output(const eitp__call *call, int o) {
    return o < call->output_count && call->outputs[o].data ? &call->outputs[o] : NULL;
}

static int path_is_aligned(const eitp__operand *x) {
    return !x || (uintptr_t)x->data % 16 == 0;
}

/* True if the first `inputs` inputs and `outputs` outputs are aligned: are_aligned and operands_are_aligned of
   kernels. */
static int path_are_aligned(const eitp__call *call, int inputs, int outputs) {
    int all = 1;
    for (int i = 0; i < inputs; i++)
        all = all && path_is_aligned(path_input(call, i));
    for (int o = 0; o < outputs; o++)
        all = all && path_is_aligned(path_output(call, o));
    return all;
}

/* Vectors of n of `count` elements: for_vectors of kernels/cuda/elements.h, and warps of UPDATE. */
static void path_add_vectors(cuda_path *path, int64_t count, int64_t n, int has_vectors) {
    path->has_vectors = has_vectors && count >= n;
    path->has_tail = has_vectors && count % n != 0;
    path->is_single = !has_vectors;
}

/* BF16 and F16 are the same source. */
static const char *path_type(eitp_dtype dtype) {
    return dtype == EITP_BF16 || dtype == EITP_F16 ? "half" : eitp_dtype_name(dtype);
}

static int path_scalar(eitp_dtype dtype) {
    return dtype == EITP_F16 ? (int)EITP_BF16 : (int)dtype;
}

/* The number of elements of two types that kernels move at once. */
static int64_t path_at_once(eitp_dtype a, eitp_dtype b) {
    const size_t x = eitp_dtype_size(a), y = eitp_dtype_size(b), most = x > y ? x : y;
    return (int64_t)(16 / (most < 2 ? 2 : most));
}

static void path_add_carry(cuda_path *path, const eitp__call *call) {
    path_add_if(path, call->accumulates, call->carry ? "carries" : "adds");
}

/* ---- Grids: kernels/cuda/elements.h ---- */

enum { PATH_GRID_OPERANDS = 3 };

typedef struct path_grid {
    int operands, rank;
    int64_t start, size[EITP_MAX_RANK + 1], stride[PATH_GRID_OPERANDS][EITP_MAX_RANK + 1];
} path_grid;

static path_grid path_grid_of(int operands) {
    path_grid grid;
    memset(&grid, 0, sizeof grid);
    grid.operands = operands;
    grid.rank = 1;
    grid.size[0] = 1;
    return grid;
}

/* Adds an outer dimension, to the last one if all operands are contiguous there. */
static void path_grid_add(path_grid *grid, int64_t size, const int64_t *stride) {
    int at = grid->rank - 1, joins = grid->size[at] != 1;
    const int64_t before = grid->size[at];
    if (size == 1)
        return;
    for (int k = 0; k < grid->operands; k++)
        joins = joins && grid->stride[k][at] * before == stride[k];
    if (joins) {
        grid->size[at] = before * size;
        return;
    }
    at += before != 1;
    grid->rank = at + 1;
    grid->size[at] = size;
    for (int k = 0; k < grid->operands; k++)
        grid->stride[k][at] = stride[k];
}

/* True if vectors of n elements are within one row of every operand. */
static int path_grid_has_vectors(const path_grid *grid, int64_t n, int are_aligned) {
    int fits = are_aligned && grid->size[0] % n == 0 && grid->start % n == 0;
    for (int k = 0; k < grid->operands; k++) {
        fits = fits && grid->stride[k][0] <= 1;
        for (int d = 1; d < grid->rank && grid->stride[k][0]; d++)
            fits = fits && grid->stride[k][d] % n == 0;
    }
    return fits;
}

static path_grid path_broadcast_grid(const eitp__call *call, int inputs) {
    const eitp__operand *y = &call->outputs[0];
    path_grid grid = path_grid_of(inputs);
    int64_t next[PATH_GRID_OPERANDS] = {1, 1, 1}, stride[PATH_GRID_OPERANDS];
    for (int d = y->rank - 1; d >= 0; d--) {
        for (int k = 0; k < inputs; k++) {
            const int from = d - y->rank + call->inputs[k].rank;
            const int64_t extent = from < 0 ? 1 : call->inputs[k].shape[from];
            stride[k] = extent == 1 ? 0 : next[k];
            next[k] *= extent;
        }
        path_grid_add(&grid, y->shape[d], stride);
    }
    return grid;
}

static void path_add_grid(cuda_path *path, const eitp__call *call, const path_grid *grid, int are_aligned) {
    const int64_t n = path_at_once(call->dtype, call->dtype);
    path_add(path, "grid %d", grid->rank);
    for (int k = 0; k < grid->operands; k++)
        path_add_if(path, !grid->stride[k][0], "repeats");
    path_add_vectors(path, call->outputs[0].elements, n, path_grid_has_vectors(grid, n, are_aligned));
}

/* ---- elementwise.cu, movement.cu ---- */

/* Operands that broadcast: without a grid if each has the size of the result or one element. */
static void path_broadcast(const eitp__call *call, int inputs, cuda_path *path) {
    const eitp__operand *y = &call->outputs[0];
    const path_grid grid = path_broadcast_grid(call, inputs);
    int is_linear = 1, is_aligned = path_is_aligned(y);
    for (int k = 0; k < inputs; k++) {
        const eitp__operand *x = &call->inputs[k];
        is_linear = is_linear && (x->elements == 1 || x->elements == y->elements);
        is_aligned = is_aligned && (x->elements == 1 || path_is_aligned(x));
    }
    if (!is_linear) {
        path_add_grid(path, call, &grid, is_aligned);
        return;
    }
    for (int k = 0; k < inputs; k++)
        path_add_if(path, call->inputs[k].elements == 1, k ? "repeats b" : "repeats a");
    path_add_vectors(path, y->elements, path_at_once(call->dtype, call->dtype), is_aligned);
}

static void path_elementwise(const eitp__call *call, const cuda_launch *launch, cuda_path *path) {
    const eitp__operand *y = &call->outputs[0];
    const int is_binary = call->slot >= EITP__SLOT_ADD && call->slot <= EITP__SLOT_EQUAL;
    (void)launch;
    if (is_binary || call->slot == EITP__SLOT_WHERE) {
        path_broadcast(call, is_binary ? 2 : 3, path);
        return;
    }
    if (call->slot == EITP__SLOT_CAST)
        path_add(path, "to %s", eitp_dtype_name(y->dtype));
    if (call->slot == EITP__SLOT_DROPOUT)
        path_add_if(path, path_input(call, 1) && call->reals[0] > 0, "drops");
    if (call->slot == EITP__SLOT_ACCUMULATE)
        path_add(path, path_input(call, 2) ? "carries" : "adds");
    path_add_vectors(
        path, y->elements, path_at_once(call->dtype, call->slot == EITP__SLOT_CAST ? y->dtype : call->dtype),
        path_are_aligned(call, call->slot == EITP__SLOT_DROPOUT || call->input_count < 2 ? call->input_count > 0 : 2,
                         1));
}

static int64_t path_inner(const eitp__operand *x, int64_t dimension) {
    int64_t inner = 1;
    for (int d = (int)dimension + 1; d < x->rank; d++)
        inner *= x->shape[d];
    return inner;
}

/* BROADCAST, PERMUTE and SLICE are copies by a grid. */
static path_grid path_copy_grid(const eitp__call *call) {
    const eitp__operand *x = &call->inputs[0];
    path_grid grid = path_grid_of(1);
    int64_t stride = 1;
    if (call->slot == EITP__SLOT_BROADCAST)
        return path_broadcast_grid(call, 1);
    for (int d = x->rank - 1; d >= 0; d--) {
        if (call->slot == EITP__SLOT_PERMUTE) {
            const int64_t from = call->integers[d];
            stride = path_inner(x, from);
            path_grid_add(&grid, x->shape[from], &stride);
            continue;
        }
        path_grid_add(&grid, call->outputs[0].shape[d], &stride);
        grid.start += call->integers[d] * stride;
        stride *= x->shape[d];
    }
    return grid;
}

static void path_movement(const eitp__call *call, const cuda_launch *launch, cuda_path *path) {
    const eitp__operand *y = &call->outputs[0];
    const int64_t n = path_at_once(call->dtype, call->dtype);
    const path_grid grid = path_copy_grid(call);
    int64_t bits = 0;
    int is_aligned = path_is_aligned(y);
    if (!strcmp(launch->stage->kernel, "permute_tiles_kernel")) {
        path_add_if(path, launch->blocks > 1, "blocks");
        return;
    }
    switch (call->slot) {
    case EITP__SLOT_BROADCAST:
    case EITP__SLOT_PERMUTE:
    case EITP__SLOT_SLICE:
        path_add_grid(path, call, &grid, path_are_aligned(call, 1, 1));
        break;
    case EITP__SLOT_EMBEDDING:
        path_add_if(path, launch->blocks > 1, "blocks");
        path_add(path, y->shape[1] % n == 0 && path_are_aligned(call, 1, 1) ? "dense" : "strided");
        break;
    case EITP__SLOT_CONCAT:
        for (int k = 0; k < call->input_count; k++) {
            const int64_t axis = call->integers[0];
            bits |= (call->inputs[k].shape[axis] * path_inner(y, axis)) % n;
            is_aligned = is_aligned && path_is_aligned(&call->inputs[k]);
        }
        path_add_if(path, call->integers[0] > 0, "columns");
        path_add_vectors(path, y->elements, n, is_aligned && !bits);
        break;
    default: /* GATHER: element by element. PAD and SCATTER_ADD: the least that has to be aligned */
        path_add_carry(path, call);
        path_add_if(path, path_are_aligned(call, call->input_count, call->output_count) && y->elements % n == 0,
                    "aligned");
    }
}

/* ---- columns.cu, reduce.cu ---- */

enum { PATH_LEAST_ROWS = 32, PATH_CHUNKS = 128 }; /* of chunks_of */

static int path_has_long_chunks(const eitp__call *call) {
    const int64_t columns = call->outputs[0].elements;
    return call->slot != EITP__SLOT_EMBEDDING_BACKWARD && columns &&
           call->inputs[0].elements / columns > PATH_CHUNKS * PATH_LEAST_ROWS;
}

static void path_columns(const eitp__call *call, const cuda_launch *launch, cuda_path *path) {
    const int is_embedding = call->slot == EITP__SLOT_EMBEDDING_BACKWARD;
    const int64_t columns = is_embedding ? call->outputs[0].shape[1] : call->outputs[0].elements;
    const int64_t rows = columns ? call->inputs[0].elements / columns : 0;
    const int is_dense = columns % 4 == 0 && path_are_aligned(call, call->input_count, call->output_count);
    const int is_first = launch->stage == launch->kernels->stages, sums_chunks = !is_embedding && !is_first;
    if (is_embedding && (is_first || launch->stage == launch->kernels->stages + 1)) /* sorts ids */
        return;
    if (!is_embedding)
        path_add_if(path, rows > PATH_LEAST_ROWS, "chunks");
    if (!sums_chunks)
        path_add(path, is_dense ? "dense" : "strided");
    if (is_embedding || sums_chunks)
        path_add_carry(path, call);
}

/* Sums, maxima and squares read single elements. */
static void path_reduce(const eitp__call *call, const cuda_launch *launch, cuda_path *path) {
    const eitp__operand *x = &call->inputs[0];
    path_grid kept = path_grid_of(1), reduced = path_grid_of(1);
    int64_t stride = 1;
    (void)launch;
    path_add_carry(path, call);
    if (call->slot == EITP__SLOT_TOTAL) {
        path_add_if(path, path_input(call, 2) != NULL, call->integers[1] ? "ranges of one" : "ranges");
        path_add_if(path, path_input(call, 3) != NULL, "carries");
    }
    if (call->slot == EITP__SLOT_COMMIT) {
        path_add_if(path, path_input(call, 2) != NULL, "unscales");
        path_add_if(path, path_input(call, 3) != NULL, "bound");
    }
    if (call->slot != EITP__SLOT_SUM && call->slot != EITP__SLOT_MAX && call->slot != EITP__SLOT_ARGMAX)
        return;
    for (int d = x->rank - 1; d >= 0; d--) {
        path_grid_add(call->integers[0] >> d & 1 ? &reduced : &kept, x->shape[d], &stride);
        stride *= x->shape[d];
    }
    path_add(path, "grids %d %d", kept.rank, reduced.rank);
}

/* ---- rows.cu ---- */

/* Losses and gradients of logits. A row with more parts than the block has threads takes several passes. */
static void path_head_loss_backward(const eitp__call *call, const cuda_launch *launch, cuda_path *path) {
    const eitp__operand *logits = &call->inputs[0];
    const int64_t stride = eitp__row_stride_of(logits);
    path_add(path, stride % 8 == 0 && path_are_aligned(call, 1, 0) ? "dense" : "strided");
    path_add_if(path, stride != eitp__operand_columns(logits), "padded");
    path_add_if(path, stride > 8 * (int64_t)launch->stage->threads, "passes");
}

static void path_rows(const eitp__call *call, const cuda_launch *launch, cuda_path *path) {
    const eitp__operand *x = &call->inputs[0];
    const int64_t columns = eitp__operand_columns(x), stride = eitp__row_stride_of(x);
    const int is_head = call->slot == EITP__SLOT_HEAD_BACKWARD;
    const int dense_head = stride % EITP__CUDA_HEAD_BLOCK == 0 && path_are_aligned(call, 1, 1);
    const int dense = columns % 8 == 0 && path_are_aligned(call, call->input_count, call->output_count);
    if (!strcmp(launch->stage->kernel, "head_loss_backward_kernel")) {
        path_head_loss_backward(call, launch, path);
        return;
    }
    path_add_if(path, columns > 1024, "wide"); /* EITP__CUDA_NARROW */
    path_add(path, (is_head ? dense_head : dense) ? "dense" : "strided");
    path_add_if(path, stride != columns, "padded");
    path_add_if(path, eitp__epilogue_of(call) == EITP__EPILOGUE_ADD, "operand");
    path_add_carry(path, call);
}

/* ---- update.cu ---- */

enum { PATH_UPDATE_SPAN = 128 }; /* SPAN: elements of a warp */

static void path_update(const eitp__call *call, const cuda_launch *launch, cuda_path *path) {
    static const eitp__update_operand vectors[] = {EITP__UPDATE_PARAMETER, EITP__UPDATE_GRADIENT,
                                                   EITP__UPDATE_REMAINDER};
    const eitp__operand *remainder = path_input(call, EITP__UPDATE_REMAINDER);
    const int is_factored = call->integers[2] == EITP__UPDATE_RULE_FACTORED;
    const int64_t count = call->inputs[EITP__UPDATE_PARAMETER].elements;
    int is_aligned = path_is_aligned(path_input(call, EITP__UPDATE_STATE + 1)) &&
                     path_is_aligned(path_input(call, EITP__UPDATE_STATE + (is_factored ? 3 : 0)));
    for (size_t i = 0; i < EITP__COUNT(vectors); i++)
        is_aligned = is_aligned && path_is_aligned(path_input(call, (int)vectors[i]));
    path_add(path, "gradient %s", eitp_dtype_name(call->inputs[EITP__UPDATE_GRADIENT].dtype));
    path_add(path, "remainder %s", remainder ? eitp_dtype_name(remainder->dtype) : "none");
    path_add_vectors(path, count, PATH_UPDATE_SPAN, is_aligned);
    path_add_if(path, count > (int64_t)launch->stage->threads * 4, "passes");
}

/* ---- Attention ---- */

static void path_attention(const eitp__call *call, const cuda_launch *launch, cuda_path *path) {
    const eitp__attention_sizes sizes = eitp__attention_sizes_of(call);
    const int is_cached = call->slot == EITP__SLOT_ATTENTION_CACHED;
    const int is_backward = call->slot == EITP__SLOT_ATTENTION_BACKWARD;
    const int64_t rows = call->inputs[0].shape[0];
    const int64_t longest = is_cached ? call->outputs[1].shape[0] : call->integers[1] < rows ? call->integers[1] : rows;
    const int is_general = !strcmp(launch->kernels->file, "kernels/cuda/attention_general.cu");
    const int64_t step = is_general ? 64 : EITP__ATTENTION_STEP(is_backward, sizes.width);
    const int64_t own = is_general ? 64 : EITP__ATTENTION_ROWS(is_backward, sizes.width);
    path_add(path, sizes.is_joined ? "joined" : "separate");
    path_add_if(path, sizes.group > 1, "shared keys");
    path_add_if(path, sizes.window != INT64_MAX, "window");
    if (!strcmp(launch->stage->kernel, "attention_rotate_kernel"))
        return;
    if (!strcmp(launch->stage->kernel, "attention_cached_store_kernel")) {
        path_add_if(path, call->inputs[1].data != call->outputs[1].data, "copies");
        return;
    }
    if (is_cached) {
        path_add_if(path, eitp__cached_parts(call) > 1, "parts");
    } else {
        path_add_if(path, call->integers[3] != 0, "both ways");
        path_add_if(path, path_input(call, EITP__ATTENTION_LENGTHS) != NULL, "lengths");
        path_add_if(path, call->inputs[EITP__ATTENTION_OFFSETS].elements > 2, "sequences");
        path_add_if(path, longest > own, "tiles");
    }
    path_add_if(path, longest > step, "steps");
}

/* ---- Products ---- */

/* Returns the number after a name in definitions, or `none`. */
static int64_t path_defined(const char *definitions, const char *name, int64_t none) {
    const char *at = strstr(definitions, name);
    return at ? strtoll(at + strlen(name), NULL, 10) : none;
}

static const char *const path_epilogues[EITP__EPILOGUE_COUNT] = {
    "", "ADD", "GELU_TANH", "GELU_ERF", "SILU", "GELU_TANH_BACKWARD", "GELU_ERF_BACKWARD", "SILU_BACKWARD"};

/* True if rows of y and of the epilogue's operands are moved as vectors: has_vectors. */
static int path_stores_vectors(const eitp__call *call) {
    const int64_t n = (int64_t)(16 / eitp_dtype_size(eitp__wide(call->dtype)));
    return eitp__operand_columns(&call->outputs[0]) % n == 0 && path_are_aligned(call, 0, 2) &&
           path_is_aligned(path_input(call, 3));
}

static void path_product(const eitp__call *call, const cuda_launch *launch, cuda_path *path) {
    static const char *const names[] = {"a", "b"};
    const eitp__matmul sizes = eitp__matmul_sizes(call);
    const eitp__product_parts parts = eitp__product_parts_of(call);
    const int is_head = call->slot == EITP__SLOT_HEAD;
    char definitions[EITP__CUDA_DEFINITIONS];
    int64_t depth, step;
    eitp__cuda_definitions(launch->kernels, call, definitions);
    depth = path_defined(definitions, "TILE_K=", 0);
    step = depth ? depth : 8;
    for (int i = 0; i < 2; i++) {
        /* Without tensor cores rows of either factor are read as vectors, or not. */
        const int64_t unit = depth ? 1 : (int64_t)(16 / eitp_dtype_size(eitp__wide(call->dtype)));
        const int64_t ld = i ? sizes.ldb : sizes.lda;
        if (depth ? !path_defined(definitions, "SHIFTED=", 0) && !path_is_aligned(&call->inputs[i])
                  : ld % unit || (uintptr_t)call->inputs[i].data % ((uintptr_t)unit * eitp_dtype_size(call->dtype)))
            path_add(path, "base %s", names[i]);
    }
    path_add_if(path, sizes.m % path_defined(definitions, "TILE_M=", 1) != 0, "edges m");
    path_add_if(path, sizes.n % path_defined(definitions, is_head ? "HEAD_BLOCK=" : "TILE_N=", 1) != 0, "edges n");
    path_add_if(path, sizes.k % step != 0, "edges k");
    path_add_if(path, (parts.count > 1 ? parts.size : sizes.k) > (depth ? 3 : 1) * step, "steps");
    path_add_if(path, parts.count > 1, "parts");
    path_add_if(path, sizes.batch > 1, "batch");
    path_add_if(path, is_head && call->outputs[0].row_stride && call->outputs[0].row_stride != sizes.n, "padded");
    if (!is_head)
        path_add(path, path_stores_vectors(call) ? "vectors" : "single");
}

/* The end of a product: finish_few of kernels/cuda/products.h. */
static void path_end_of_product(const eitp__call *call, cuda_path *path) {
    const eitp__operand *before = path_output(call, 1), *operand = path_input(call, 3);
    const int parts = eitp__product_parts_of(call).count > 1;
    path_add(path, "products.h end SCALAR=%d to %s", path_scalar(call->dtype), path_type(call->outputs[0].dtype));
    path_add_if(path, path_input(call, 2) != NULL, "bias");
    path_add_carry(path, call);
    path_add_if(path, call->integers[2] != EITP__EPILOGUE_NONE, path_epilogues[call->integers[2]]);
    if (before)
        path_add(path, "before %s", path_type(before->dtype));
    if (operand)
        path_add(path, "operand %s", path_type(operand->dtype));
    path_add_if(path, parts, "parts");
    path_add(path, path_stores_vectors(call) ? "vectors" : "single");
}

/* Kernels before and after products of cuBLASLt. */
static void path_of_blas(const eitp__call *call, const cuda_launch *launch, cuda_path *path) {
    const eitp__operand *e = &call->outputs[0];
    const uintptr_t bits = (uintptr_t)e->data | (uintptr_t)eitp__row_stride_of(e) * eitp_dtype_size(e->dtype);
    if (launch->kernels->slot == EITP__SLOT_CAST)
        path_add(path, "to %s", eitp_dtype_name(e->dtype));
    if (launch->kernels->slot == EITP__SLOT_MATMUL)
        path_add(path, path_are_aligned(call, 2, 0) ? "vectors" : "single");
    if (launch->kernels->slot != EITP__SLOT_HEAD)
        return;
    path_add(path, bits % (4 * eitp_dtype_size(e->dtype)) == 0 ? "vectors" : "single");
    path_add_if(path, e->shape[1] % EITP__CUDA_HEAD_BLOCK != 0, "edges n");
    path_add_if(path, eitp__row_stride_of(e) != e->shape[1], "padded");
    path_add_if(path, call->outputs[1].shape[1] > EITP__CUDA_HEAD_GROUP, "groups");
}

/* A product of cuBLASLt. */
static void path_product_of_cublaslt(const eitp__call *call, cuda_path *path) {
    const eitp__blas_sizes sizes = eitp__cuda_blas_sizes(call);
    const eitp__operand *y = &call->outputs[0];
    path_add(path, "cuBLASLt SCALAR=%d to %s", path_scalar(call->dtype), path_type(y->dtype));
    path_add(path, "TRANSPOSES=%d epilogue %u", (sizes.transpose_a ? 1 : 0) + (sizes.transpose_b ? 2 : 0),
             eitp__cuda_blas_epilogue(call));
    path_add_if(path, call->integers[2] == EITP__EPILOGUE_ADD, "operand");
    path_add_carry(path, call);
    path_add_if(path, sizes.batch > 1, "batch");
    path_add_if(path, y->row_stride && y->row_stride != sizes.n, "padded");
    path_add_if(path, call->inputs[0].row_stride || call->inputs[1].row_stride, "padded factors");
}

/* ---- Launches ---- */

typedef void cuda_path_writer(const eitp__call *call, const cuda_launch *launch, cuda_path *path);

/* The choices of a file's kernels. */
static const struct {
    const char *file;
    int has_elements;        /* uses for_vectors of kernels/cuda/elements.h */
    cuda_path_writer *write; /* NULL: none depends on the call */
} path_writers[] = {
    {"kernels/cuda/elementwise.cu", 1, path_elementwise},
    {"kernels/cuda/movement.cu", 1, path_movement},
    {"kernels/cuda/columns.cu", 0, path_columns},
    {"kernels/cuda/reduce.cu", 0, path_reduce},
    {"kernels/cuda/rows.cu", 0, path_rows},
    {"kernels/cuda/update.cu", 0, path_update},
    {"kernels/cuda/factored.cu", 0, NULL},
    {"kernels/cuda/matrix.cu", 0, NULL},
    {"kernels/cuda/attention.cu", 0, path_attention},
    {"kernels/cuda/attention_general.cu", 0, path_attention},
    {"kernels/cuda/attention_cached.cu", 0, path_attention},
    {"kernels/cuda/products.cu", 0, path_product},
    {"kernels/cuda/products_fma.cu", 0, path_product},
    {"kernels/cuda/product_bias.cu", 0, path_of_blas},
    {"kernels/cuda/product_tail.cu", 0, path_of_blas},
    {"kernels/cuda/product_head.cu", 0, path_of_blas},
};

/* True if a kernel of the file does not use SCALAR. */
static int path_has_no_type(const char *kernel) {
    return !strcmp(kernel, "embedding_backward_sort_kernel") || !strcmp(kernel, "embedding_backward_merge_kernel");
}

/* Writes the definitions of a kernel, in which 16-bit types are one. */
static void path_add_definitions(const eitp__call *call, const cuda_launch *launch, cuda_path *path) {
    const int has_forms = !strcmp(launch->kernels->file, "kernels/cuda/update.cu");
    char definitions[EITP__CUDA_DEFINITIONS];
    eitp__cuda_definitions(launch->kernels, call, definitions);
    if (path_has_no_type(launch->stage->kernel))
        return;
    if (!has_forms && call->dtype == EITP_F16)
        definitions[strlen("SCALAR=")] = '0' + EITP_BF16;
    path_add(path, "%s", definitions);
}

static void path_of_kernel(const eitp__call *call, const cuda_launch *launch, cuda_path *path) {
    const char *file = launch->kernels->file;
    path_add(path, "%s %s", strrchr(file, '/') + 1, launch->stage->kernel);
    path_add_definitions(call, launch, path);
    for (size_t i = 0; i < EITP__COUNT(path_writers); i++)
        if (!strcmp(path_writers[i].file, file)) {
            path_add_if(path, launch->blocks > 1 && !path_writers[i].has_elements, "blocks");
            if (path_writers[i].write)
                path_writers[i].write(call, launch, path);
            return;
        }
    fprintf(stderr, "tests/support/cuda_paths.h does not list the choices of kernels in %s\n", file);
    exit(1);
}

/* Adding the parts of a product is the same code for every tile. */
static void path_of_parts(const eitp__call *call, const cuda_launch *launch, cuda_path *path) {
    path_add(path, "products.h %s SCALAR=%d", launch->stage->kernel, path_scalar(call->dtype));
    path_add_if(path, launch->blocks > 1, "blocks");
    path_add(path, path_stores_vectors(call) ? "vectors" : "single");
}

typedef void cuda_path_visitor(void *user, const char *path);

static void path_visit_product(const eitp__call *call, const cuda_launch *launch, cuda_path_visitor *visit,
                               void *user) {
    const eitp__matmul sizes = eitp__matmul_sizes(call);
    char definitions[EITP__CUDA_DEFINITIONS];
    cuda_path end = EITP__ZERO;
    eitp__cuda_definitions(launch->kernels, call, definitions);
    if (sizes.m > 8 * path_defined(definitions, "TILE_M=", 1)) /* BAND */
        visit(user, "products.h bands of tiles");
    if (call->slot != EITP__SLOT_MATMUL)
        return;
    path_end_of_product(call, &end);
    visit(user, end.text);
}

/* Visits a path, once for each way to move its elements. */
static void path_visit(const cuda_path *path, cuda_path_visitor *visit, void *user) {
    const struct {
        int applies;
        const char *word;
    } ways[] = {{path->has_vectors, "vectors"}, {path->has_tail, "tail"}, {path->is_single, "single"}};
    int count = 0;
    for (size_t i = 0; i < EITP__COUNT(ways); i++)
        if (ways[i].applies) {
            cuda_path line = *path;
            path_add(&line, "%s", ways[i].word);
            visit(user, line.text);
            count++;
        }
    if (!count)
        visit(user, path->text);
}

/* Visits the paths of code that kernels share. */
static void path_visit_shared(const eitp__call *call, const cuda_launch *launch, const cuda_path *path,
                              cuda_path_visitor *visit, void *user) {
    const char *file = launch->kernels->file, *kernel = launch->stage->kernel;
    const int has_elements = path->has_vectors || path->has_tail || path->is_single;
    if (has_elements && launch->blocks > 1 && strcmp(file, "kernels/cuda/update.cu"))
        visit(user, path->is_single ? "elements.h blocks single" : "elements.h blocks vectors");
    if (!strcmp(file, "kernels/cuda/columns.cu") && path_has_long_chunks(call))
        visit(user, "columns.cu long chunks");
    if (!strcmp(kernel, "matmul_kernel") || !strcmp(kernel, "head_kernel"))
        path_visit_product(call, launch, visit, user);
}

static void path_visit_launch(const cuda_part *part, const cuda_launch *launch, cuda_path_visitor *visit, void *user) {
    const eitp__call *call = &part->call;
    cuda_path path = EITP__ZERO;
    if (!launch->kernels)
        path_product_of_cublaslt(call, &path);
    else if (!strcmp(launch->stage->kernel, "matmul_parts_kernel"))
        path_of_parts(call, launch, &path);
    else
        path_of_kernel(call, launch, &path);
    path_visit(&path, visit, user);
    if (launch->kernels)
        path_visit_shared(call, launch, &path, visit, user);
}

/* Visits the paths of a step's call, whose operands have addresses, and of the call that is executed instead of it and
   others. */
static EITP__UNUSED void cuda_visit_paths(const eitp__cuda *cuda, const eitp_plan *plan, size_t s,
                                          cuda_path_visitor *visit, void *user) {
    cuda_part parts[CUDA_MOST_PARTS + 1];
    cuda_launch launches[CUDA_MOST_LAUNCHES];
    int count = cuda_parts_of(cuda, &plan->calls[s], (void *)(uintptr_t)((uintptr_t)1 << 50), parts);
    count += cuda_fused_of(cuda, plan, s, &parts[count]) > 0;
    for (int p = 0; p < count; p++) {
        const int launched = cuda_launches_of(&parts[p], launches);
        for (int i = 0; i < launched; i++)
            path_visit_launch(&parts[p], &launches[i], visit, user);
    }
}

/* Visits the paths of launches that calls of a plan share. */
static EITP__UNUSED void cuda_visit_groups(eitp__cuda *cuda, const eitp_plan *plan, cuda_path_visitor *visit,
                                           void *user) {
    cuda_ordered_plan ordered;
    eitp_error error = EITP__ZERO;
    if (cuda_order_plan(cuda, plan, &ordered, &error)) {
        fprintf(stderr, "the order of a plan: %s\n", error.message);
        exit(1);
    }
    for (size_t u = 0; u < ordered.order.count; u++)
        if (ordered.order.units[u].call_count)
            visit(user, ordered.order.units[u].launch.group.chain > 1 ? "group.h chain" : "group.h calls");
    cuda_ordered_plan_release(cuda, &ordered);
}

#endif
