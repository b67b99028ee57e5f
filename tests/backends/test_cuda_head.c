/*
 * HEAD, HEAD_LOSS and HEAD_BACKWARD on the emulated CUDA device, with eitp's products and with cuBLASLt's. Run with
 * LD_LIBRARY_PATH set (tests/cuda/on_emulated.sh).
 */
#include "tests/support/everything.h"

#include <dlfcn.h>

#include "tests/support/cuda_calls.h"

enum {
    ROWS = 5,
    WIDTH = 16,
    MOST_COLUMNS = 6201, /* more than the threads of a block read at once */
    MOST_STRIDE = 6272,
    MOST_BLOCKS = 49,
    IGNORED = -100
};

static unsigned long (*count_launches)(void);

/* The operands of a head whose rows of logits start at multiples of `stride` elements. */
typedef struct head {
    eitp_dtype dtype;
    int64_t columns, stride;
    int32_t targets[ROWS];
    uint16_t x[ROWS * WIDTH], table[MOST_COLUMNS * WIDTH], e[ROWS * MOST_STRIDE], gradient[ROWS * MOST_STRIDE];
    float top[ROWS * MOST_BLOCKS], sum[ROWS * MOST_BLOCKS], picked[ROWS], loss[ROWS], logsumexp[ROWS], dloss[ROWS];
} head;

static void open_device(const char *products) {
    setenv("EITP_CUDA_PRODUCTS", products, 1);
    cuda_open();
}

static float number_of(eitp_dtype dtype, uint16_t bits) {
    return dtype == EITP_BF16 ? eitp__bf16_to_f32(bits) : eitp__f16_to_f32(bits);
}

static void fill(uint16_t *to, int64_t count, eitp_dtype dtype, int seed) {
    for (int64_t i = 0; i < count; i++) {
        const float value = (float)((i * 7 + seed * 5) % 23 - 11) / 8;
        to[i] = dtype == EITP_BF16 ? eitp__f32_to_bf16(value) : eitp__f32_to_f16(value);
    }
}

static void fill_head(head *h, eitp_dtype dtype, int64_t columns, int64_t stride) {
    const int32_t targets[ROWS] = {0, 127, IGNORED, (int32_t)columns, (int32_t)columns - 1};
    memset(h, 0xff, sizeof *h);
    h->dtype = dtype;
    h->columns = columns;
    h->stride = stride;
    memcpy(h->targets, targets, sizeof targets);
    fill(h->x, ROWS * WIDTH, dtype, 1);
    fill(h->table, columns * WIDTH, dtype, 2);
    for (int i = 0; i < ROWS; i++)
        h->dloss[i] = 0.25f * (float)(i + 1);
}

/* ---- Calls ---- */

static eitp__operand array_of(void *data, eitp_dtype dtype, int64_t rows, int64_t columns) {
    eitp__operand x = EITP__ZERO;
    x.data = data;
    x.dtype = dtype;
    x.rank = columns ? 2 : 1;
    x.shape[0] = rows;
    x.shape[1] = columns;
    x.elements = rows * (columns ? columns : 1);
    return x;
}

static eitp__operand padded_rows(const head *h, void *data) {
    eitp__operand x = array_of(data, h->dtype, ROWS, h->columns);
    x.elements = ROWS * h->stride;
    x.row_stride = h->stride == h->columns ? 0 : h->stride;
    return x;
}

static int64_t blocks_of(const head *h) {
    const int64_t block = cuda_device->interface->head_block;
    return (h->columns + block - 1) / block;
}

static eitp__call call_of(eitp__slot slot, eitp_dtype dtype, int inputs, int outputs) {
    eitp__call call = EITP__ZERO;
    call.slot = slot;
    call.dtype = dtype;
    call.input_count = inputs;
    call.output_count = outputs;
    return call;
}

static eitp__call head_call(head *h) {
    eitp__call call = call_of(EITP__SLOT_HEAD, h->dtype, 3, 4);
    call.inputs[0] = array_of(h->x, h->dtype, ROWS, WIDTH);
    call.inputs[1] = array_of(h->table, h->dtype, h->columns, WIDTH);
    call.inputs[2] = array_of(h->targets, EITP_I32, ROWS, 0);
    call.outputs[0] = padded_rows(h, h->e);
    call.outputs[1] = array_of(h->top, EITP_F32, ROWS, blocks_of(h));
    call.outputs[2] = array_of(h->sum, EITP_F32, ROWS, blocks_of(h));
    call.outputs[3] = array_of(h->picked, EITP_F32, ROWS, 0);
    return call;
}

static eitp__call loss_call(head *h) {
    eitp__call call = call_of(EITP__SLOT_HEAD_LOSS, EITP_F32, 4, 2);
    call.inputs[0] = array_of(h->top, EITP_F32, ROWS, blocks_of(h));
    call.inputs[1] = array_of(h->sum, EITP_F32, ROWS, blocks_of(h));
    call.inputs[2] = array_of(h->picked, EITP_F32, ROWS, 0);
    call.inputs[3] = array_of(h->targets, EITP_I32, ROWS, 0);
    call.outputs[0] = array_of(h->loss, EITP_F32, ROWS, 0);
    call.outputs[1] = array_of(h->logsumexp, EITP_F32, ROWS, 0);
    call.integers[0] = IGNORED;
    call.integers[1] = h->columns;
    return call;
}

static eitp__call backward_call(head *h, uint16_t *gradient) {
    eitp__call call = call_of(EITP__SLOT_HEAD_BACKWARD, h->dtype, 5, 1);
    call.inputs[0] = padded_rows(h, h->e);
    call.inputs[1] = array_of(h->top, EITP_F32, ROWS, blocks_of(h));
    call.inputs[2] = array_of(h->targets, EITP_I32, ROWS, 0);
    call.inputs[3] = array_of(h->logsumexp, EITP_F32, ROWS, 0);
    call.inputs[4] = array_of(h->dloss, EITP_F32, ROWS, 0);
    call.outputs[0] = padded_rows(h, gradient);
    call.integers[0] = IGNORED;
    return call;
}

/* ---- Exponentials ---- */

/* Rows of logits that start at multiples of 128 elements have the same values, and zeros after the last. Sums may be
   added in another order. */
static void logits_are_padded(void) {
    static const char *const products[] = {"own", "cublaslt"};
    static head dense, padded;
    for (int k = 0; k < 2; k++) {
        int same = 1, zeros = 1;
        eitp__call call;
        open_device(products[k]);
        fill_head(&dense, EITP_BF16, 131, 131);
        fill_head(&padded, EITP_BF16, 131, 256);
        call = head_call(&dense);
        cuda_run(&call);
        call = head_call(&padded);
        cuda_run(&call);
        for (int i = 0; i < ROWS; i++)
            for (int j = 0; j < 256; j++)
                if (j < 131)
                    same &= dense.e[i * 131 + j] == padded.e[i * 256 + j];
                else
                    zeros &= padded.e[i * 256 + j] == 0;
        for (int i = 0; i < ROWS * 2; i++)
            same &= fabsf(dense.sum[i] - padded.sum[i]) <= 1e-5f * dense.sum[i];
        CHECK_THAT(same && !memcmp(dense.top, padded.top, sizeof dense.top) &&
                       !memcmp(dense.picked, padded.picked, sizeof dense.picked),
                   "%s: other values", products[k]);
        CHECK_THAT(zeros, "%s: no zeros after the last logit", products[k]);
        cuda_device->interface->destroy(cuda_device);
    }
}

/* ---- Losses and gradients ---- */

/* Computes the rounded logits of a head by a product with the same sums. */
static void compute_logits(head *h, uint16_t *logits) {
    eitp__call call = call_of(EITP__SLOT_MATMUL, h->dtype, 2, 1);
    call.inputs[0] = array_of(h->x, h->dtype, ROWS, WIDTH);
    call.inputs[1] = array_of(h->table, h->dtype, h->columns, WIDTH);
    call.outputs[0] = array_of(logits, h->dtype, ROWS, h->columns);
    call.integers[1] = 1;
    cuda_run(&call);
}

/* Checks row i: its loss within 1e-5, and gradients within `unit`, a part of the larger of gradient and probability. */
static void check_row(const head *h, const uint16_t *gradient, const uint16_t *logits, int i, double unit) {
    const uint16_t *row = logits + i * h->columns, *d = gradient + i * h->stride;
    const int target = h->targets[i], has_loss = target >= 0 && target < h->columns;
    double top = -INFINITY, sum = 0, loss = target == IGNORED ? 0 : NAN;
    for (int64_t j = 0; j < h->columns; j++)
        top = fmax(top, number_of(h->dtype, row[j]));
    for (int64_t j = 0; j < h->columns; j++)
        sum += exp(number_of(h->dtype, row[j]) - top);
    if (has_loss)
        loss = log(sum) + top - number_of(h->dtype, row[target]);
    CHECK_THAT(isnan(loss) ? isnan(h->loss[i]) : fabs(h->loss[i] - loss) <= 1e-5 * (1 + fabs(loss)),
               "row %d of %d columns: the loss is %g, not %g", i, (int)h->columns, h->loss[i], loss);
    CHECK_THAT(fabs(h->logsumexp[i] - log(sum) - top) <= 1e-5 * (1 + top), "row %d: logsumexp %g", i, h->logsumexp[i]);
    for (int64_t j = 0; j < h->stride; j++) {
        const double p = j < h->columns ? exp(number_of(h->dtype, row[j]) - top) / sum : 0;
        const double found = number_of(h->dtype, d[j]);
        const double right = (p - (j == target)) * h->dloss[i];
        if (j >= h->columns || target == IGNORED)
            CHECK_THAT(d[j] == 0, "row %d: gradient %g in column %d", i, found, (int)j);
        else if (!has_loss)
            CHECK_THAT(isnan(found), "row %d: gradient %g of a target out of range", i, found);
        else
            CHECK_THAT(fabs(found - right) <= unit * fmax(fabs(right), p * h->dloss[i]) + 1e-7,
                       "row %d of %d columns: the gradient in column %d is %g, not %g", i, (int)h->columns, (int)j,
                       found, right);
    }
}

/* A call between HEAD_LOSS and HEAD_BACKWARD. */
typedef enum between {
    NOTHING_BETWEEN,
    USES_LOSS,
    GIVES_DLOSS, /* the gradient of the loss */
    USES_E
} between;

static eitp__call call_between(head *h, between kind, void *to) {
    eitp__call call = call_of(EITP__SLOT_NEGATE, EITP_F32, 1, 1);
    call.inputs[0] = array_of(kind == GIVES_DLOSS ? h->dloss : h->loss, EITP_F32, ROWS, 0);
    call.outputs[0] = array_of(kind == GIVES_DLOSS ? h->dloss : to, EITP_F32, ROWS, 0);
    if (kind == USES_E) {
        call.dtype = h->dtype;
        call.inputs[0] = array_of(h->e, h->dtype, ROWS, 0);
        call.outputs[0] = array_of(to, h->dtype, ROWS, 0);
    }
    return call;
}

typedef struct head_case {
    int64_t columns, stride;
    int in_place;
    between between;
    int is_observed;
    int launches; /* expected */
} head_case;

/* Executes the calls as one program. Checks the results and the number of launches. */
static void check_head(eitp_dtype dtype, const head_case *c) {
    static head h;
    static uint16_t logits[ROWS * MOST_COLUMNS];
    /* Exponentials are rounded, and their gradients. */
    const double unit = (dtype == EITP_BF16 ? 1.0 / 256 : 1.0 / 2048) * (c->launches < 4 ? 1 : 3);
    float to[ROWS];
    unsigned long launches;
    eitp__call calls[4];
    int count = 0;
    fill_head(&h, dtype, c->columns, c->stride);
    compute_logits(&h, logits);
    calls[count++] = head_call(&h);
    calls[count++] = loss_call(&h);
    if (c->between)
        calls[count++] = call_between(&h, c->between, to);
    calls[count++] = backward_call(&h, c->in_place ? h.e : h.gradient);
    launches = count_launches();
    cuda_is_observed = c->is_observed;
    cuda_run_calls(calls, count);
    cuda_is_observed = 0;
    launches = count_launches() - launches;
    CHECK_THAT(launches == (unsigned long)c->launches, "%d columns: %lu launches", (int)c->columns, launches);
    for (int i = 0; i < ROWS; i++) {
        check_row(&h, c->in_place ? h.e : h.gradient, logits, i, unit);
        CHECK(c->between != USES_LOSS || to[i] == -h.loss[i] || isnan(h.loss[i]));
    }
}

/*
 * After a product of cuBLASLt one launch computes losses, and gradients in place, unless a call in between needs the
 * exponentials or computes the gradient of the loss.
 */
static void losses_and_gradients(void) {
    static const eitp_dtype dtypes[] = {EITP_BF16, EITP_F16};
    static const head_case cases[] = {
        {131, 131, 1, NOTHING_BETWEEN, 0, 2},
        {131, 256, 1, NOTHING_BETWEEN, 0, 2},
        {136, 136, 1, NOTHING_BETWEEN, 0, 2},
        {6200, MOST_STRIDE, 1, NOTHING_BETWEEN, 0, 2},
        {6200, 6200, 1, NOTHING_BETWEEN, 0, 2},
        {MOST_COLUMNS, MOST_COLUMNS, 1, NOTHING_BETWEEN, 0, 2},
        {131, 256, 1, USES_LOSS, 0, 3},
        {131, 256, 0, NOTHING_BETWEEN, 0, 4},
        {131, 256, 1, NOTHING_BETWEEN, 1, 4},
        {131, 256, 1, GIVES_DLOSS, 0, 5},
        {131, 256, 1, USES_E, 0, 5},
    };
    open_device("cublaslt");
    for (size_t i = 0; i < EITP__COUNT(cases); i++)
        for (int d = 0; d < 2; d++)
            check_head(dtypes[d], &cases[i]);
    cuda_device->interface->destroy(cuda_device);
}

int main(int argc, char **argv) {
    static const test_case tests[] = {TEST(logits_are_padded), TEST(losses_and_gradients)};
    void *driver = dlopen("libcuda.so.1", RTLD_NOW), *hook = driver ? dlsym(driver, "emulated_cuda_launches") : NULL;
    if (!hook) {
        printf("needs the emulated device: see tests/cuda/on_emulated.sh\n");
        return 1;
    }
    memcpy(&count_launches, &hook, sizeof hook);
    return RUN_TESTS(tests, argc, argv);
}
