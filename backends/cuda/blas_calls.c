/*
 * Chooses the calls whose products cuBLASLt computes, and divides them into the product and calls of eitp's kernels.
 * Before a product its bias is rounded to the type of a 16-bit y. After it come an activation that cuBLASLt does not
 * have, or the exponentials of HEAD.
 */
#include "backends/cuda/blas.h"

#if EITP__WITH_CUDA

/* Minimum number of operations (m n k) for which a call is worthwhile. */
#define EITP__BLAS_LEAST ((double)(1 << 18))

/* Requirements of cuBLASLt on aux: bytes of its address, elements of its strides. */
enum { EITP__LT_AUX_ALIGNMENT = 16, EITP__LT_AUX_UNIT = 8 };

/*
 * Capabilities from which on, and up to which, a product that ends with GELU is one kernel in cuBLASLt. On others it
 * starts a second kernel, which is slower than eitp's: measured on sm_89 (llm.c, pull requests 338 and 591) and sm_120
 * (SGLang, pull request 34350).
 */
enum { EITP__LT_GELU_FIRST = 90, EITP__LT_GELU_END = 120 };

/* The slot of the activation of an epilogue; EITP__SLOT_COUNT: none. */
static const eitp__slot eitp__blas_activations[EITP__EPILOGUE_COUNT] = {
    EITP__SLOT_COUNT,
    EITP__SLOT_COUNT,
    EITP__SLOT_GELU_TANH,
    EITP__SLOT_GELU_ERF,
    EITP__SLOT_SILU,
    EITP__SLOT_GELU_TANH_BACKWARD,
    EITP__SLOT_GELU_ERF_BACKWARD,
    EITP__SLOT_SILU_BACKWARD,
};

static const eitp__operand *eitp__blas_input(const eitp__call *call, int i) {
    return i < call->input_count && call->inputs[i].elements ? &call->inputs[i] : NULL;
}

static const eitp__operand *eitp__blas_before(const eitp__call *call) {
    return call->output_count > 1 && call->outputs[1].elements ? &call->outputs[1] : NULL;
}

static int eitp__blas_is_derivative(const eitp__call *call) {
    return call->integers[2] >= EITP__EPILOGUE_GELU_TANH_BACKWARD;
}

/* ---- Products ---- */

/* Returns HEAD as a MATMUL that gives its logits, and other calls unchanged. */
static eitp__call eitp__blas_matmul(const eitp__call *call) {
    eitp__call matmul = *call;
    if (call->slot != EITP__SLOT_HEAD)
        return matmul;
    matmul.slot = EITP__SLOT_MATMUL;
    matmul.input_count = 2;
    matmul.output_count = 1;
    memset(matmul.integers, 0, sizeof matmul.integers);
    matmul.integers[1] = 1;
    return matmul;
}

/* True if a product of this epilogue has the activation in cuBLASLt. Addresses count if they are known. */
static int eitp__blas_fuses(const eitp__cuda_blas *blas, const eitp__call *matmul) {
    const eitp__operand *aux = eitp__cuda_blas_aux(matmul);
    const int is_supported =
        matmul->integers[2] == EITP__EPILOGUE_GELU_TANH || (matmul->integers[2] == EITP__EPILOGUE_GELU_TANH_BACKWARD &&
                                                            !eitp__blas_input(matmul, 2) && !eitp__blas_before(matmul));
    return is_supported && blas->capability >= EITP__LT_GELU_FIRST && blas->capability < EITP__LT_GELU_END &&
           (!aux || (eitp__operand_columns(aux) % EITP__LT_AUX_UNIT == 0 &&
                     (uintptr_t)aux->data % EITP__LT_AUX_ALIGNMENT == 0));
}

EITP__PRIVATE unsigned eitp__cuda_blas_epilogue(const eitp__call *product) {
    const unsigned bias = eitp__blas_input(product, 2) ? EITP__LT_BIAS : 0;
    const unsigned aux = eitp__cuda_blas_aux(product) ? EITP__LT_AUX : 0;
    if (product->integers[2] == EITP__EPILOGUE_GELU_TANH)
        return EITP__LT_GELU | bias | aux;
    if (product->integers[2] == EITP__EPILOGUE_GELU_TANH_BACKWARD)
        return EITP__LT_DGELU | aux;
    return bias ? bias : (unsigned)EITP__LT_PLAIN;
}

EITP__PRIVATE const eitp__operand *eitp__cuda_blas_aux(const eitp__call *product) {
    return product->integers[2] == EITP__EPILOGUE_GELU_TANH            ? eitp__blas_before(product)
           : product->integers[2] == EITP__EPILOGUE_GELU_TANH_BACKWARD ? eitp__blas_input(product, 3)
                                                                       : NULL;
}

/* Returns the stride of x's matrices within y's batch: 0 if x has one matrix, -1 if it does not have one for each of y.
   Batches are contiguous. */
static int64_t eitp__blas_stride(const eitp__operand *x, int64_t batch) {
    const int64_t matrix = x->shape[x->rank - 2] * eitp__row_stride_of(x);
    const int64_t count = matrix ? x->elements / matrix : 0;
    return count == 1 ? 0 : count == batch ? matrix : -1;
}

EITP__PRIVATE eitp__blas_sizes eitp__cuda_blas_sizes(const eitp__call *product) {
    const eitp__matmul matmul = eitp__matmul_sizes(product);
    eitp__blas_sizes sizes;
    sizes.m = matmul.m;
    sizes.n = matmul.n;
    sizes.k = matmul.k;
    sizes.batch = matmul.batch;
    sizes.transpose_a = matmul.transpose_a;
    sizes.transpose_b = matmul.transpose_b;
    sizes.a_stride = eitp__blas_stride(&product->inputs[0], sizes.batch);
    sizes.b_stride = eitp__blas_stride(&product->inputs[1], sizes.batch);
    /* The rows of all matrices are multiplied by one matrix. */
    if (sizes.batch > 1 && sizes.a_stride > 0 && !sizes.b_stride && !sizes.transpose_a) {
        sizes.m *= sizes.batch;
        sizes.batch = 1;
        sizes.a_stride = 0;
    }
    return sizes;
}

/* ---- Which calls ---- */

/* All products accumulate in F32. Devices before sm_80 lack BF16. */
static int eitp__blas_has_types(const eitp__cuda_blas *blas, const eitp__call *call) {
    const eitp_dtype x = call->dtype, y = call->outputs[0].dtype;
    return (x == EITP_F32 || x == EITP_F16 || (x == EITP_BF16 && blas->capability >= 80)) &&
           (y == x || y == EITP_F32) && call->inputs[1].dtype == x;
}

/* True if the other operands of the epilogue have the type of y, and `before` is the input of an activation. */
static int eitp__blas_has_operands(const eitp__call *matmul) {
    const eitp_dtype y = matmul->outputs[0].dtype;
    const eitp__operand *operand = eitp__blas_input(matmul, 3), *before = eitp__blas_before(matmul);
    const int activates = eitp__blas_activations[matmul->integers[2]] != EITP__SLOT_COUNT;
    return (!operand || operand->dtype == y) && (!before || (before->dtype == y && activates)) &&
           (!matmul->accumulates || matmul->integers[2] == EITP__EPILOGUE_NONE);
}

static int eitp__blas_has_sizes(const eitp__cuda_blas *blas, const eitp__call *matmul) {
    const eitp__blas_sizes sizes = eitp__cuda_blas_sizes(matmul);
    const double operations = (double)sizes.m * (double)sizes.n * (double)sizes.k * (double)sizes.batch;
    return operations > 0 && (blas->takes_small || operations >= EITP__BLAS_LEAST) && sizes.a_stride >= 0 &&
           sizes.b_stride >= 0 && sizes.m <= INT32_MAX && sizes.n <= INT32_MAX && sizes.k <= INT32_MAX &&
           sizes.batch <= INT32_MAX;
}

EITP__PRIVATE int eitp__cuda_blas_sums_rows(const eitp__call *matmul) {
    const eitp__operand *a = &matmul->inputs[0];
    return a->row_elements && a->rank == 2 && matmul->integers[0];
}

/* Rows of y, or matrices of a batch, beyond the execution's may contain anything. */
static int eitp__blas_allows_rows(const eitp__call *matmul) {
    const eitp__operand *b = &matmul->inputs[1];
    const int b_has_rows = b->row_elements && b->rank == 2;
    return eitp__cuda_blas_sums_rows(matmul) == (b_has_rows && !matmul->integers[1]) &&
           !(b_has_rows && matmul->integers[1]);
}

EITP__PRIVATE int eitp__cuda_blas_takes(const eitp__cuda_blas *blas, const eitp__call *call) {
    const int is_head = call->slot == EITP__SLOT_HEAD;
    eitp__call matmul;
    if (!blas->version || (!is_head && call->slot != EITP__SLOT_MATMUL) ||
        (is_head &&
         call->outputs[1].shape[1] != eitp__cuda_ceil_divide(call->outputs[0].shape[1], EITP__CUDA_HEAD_BLOCK)))
        return 0;
    matmul = eitp__blas_matmul(call);
    return eitp__blas_has_types(blas, &matmul) && eitp__blas_has_operands(&matmul) && eitp__blas_allows_rows(&matmul) &&
           eitp__blas_has_sizes(blas, &matmul);
}

EITP__PRIVATE size_t eitp__cuda_blas_workspace_limit(const eitp__cuda_blas *blas) {
    return (size_t)(blas->capability >= 90 ? 32 : 4) << 20;
}

EITP__PRIVATE size_t eitp__cuda_blas_workspace(const eitp__cuda_blas *blas, const eitp__call *call) {
    return eitp__cuda_blas_takes(blas, call) ? eitp__cuda_blas_workspace_limit(blas) + EITP__BLAS_WORKSPACE_ALIGNMENT
                                             : 0;
}

/* ---- Kernels of eitp ---- */

/* Returns the blocks of a kernel that clears between nothing and everything, usually little. */
static int64_t eitp__blas_clear_blocks(const eitp__call *call) {
    const int64_t a = call->inputs[0].elements, b = call->inputs[1].elements;
    const int64_t blocks = eitp__cuda_ceil_divide(a > b ? a : b, EITP__CUDA_THREADS * 8);
    return blocks < 256 ? blocks : 256;
}

static int64_t eitp__blas_bias_blocks(const eitp__call *call) {
    return eitp__cuda_ceil_divide(call->outputs[0].elements, EITP__CUDA_THREADS);
}

/* A warp has EITP__CUDA_HEAD_GROUP blocks of columns of a row. */
static int64_t eitp__blas_head_blocks(const eitp__call *call) {
    const eitp__operand *top = &call->outputs[1];
    return eitp__cuda_ceil_divide(top->shape[0] * eitp__cuda_ceil_divide(top->shape[1], EITP__CUDA_HEAD_GROUP),
                                  EITP__CUDA_THREADS / 32);
}

#define EITP__BLAS_KERNEL(SLOT, dtypes, file, kernel, threads, blocks)                                                 \
    {                                                                                                                  \
        EITP__SLOT_##SLOT, dtypes, "kernels/cuda/" file, NULL, NULL, NULL, {                                           \
            { kernel, threads, blocks, NULL }                                                                          \
        }                                                                                                              \
    }

enum { EITP__BLAS_CLEAR, EITP__BLAS_ROUND_BIAS, EITP__BLAS_HEAD, EITP__BLAS_HEAD_LOSS_BACKWARD };

EITP__PRIVATE eitp__cuda_list eitp__cuda_blas_kernels(void) {
    enum { SINGLE = EITP__CUDA_DTYPE(EITP_F32), HALVES = EITP__CUDA_HALVES, ALL = HALVES | SINGLE };
    enum { USUAL = EITP__CUDA_THREADS, ROW = 512 };
    static const eitp__cuda_kernels kernels[] = {
        EITP__BLAS_KERNEL(MATMUL, ALL, "product_tail.cu", "matmul_tail_kernel", USUAL, eitp__blas_clear_blocks),
        EITP__BLAS_KERNEL(CAST, SINGLE, "product_bias.cu", "matmul_bias_kernel", USUAL, eitp__blas_bias_blocks),
        EITP__BLAS_KERNEL(HEAD, ALL, "product_head.cu", "head_blocks_kernel", USUAL, eitp__blas_head_blocks),
        EITP__BLAS_KERNEL(HEAD_BACKWARD, HALVES, "rows.cu", "head_loss_backward_kernel", ROW, eitp__cuda_row_blocks),
    };
    const eitp__cuda_list list = {kernels, EITP__COUNT(kernels)};
    return list;
}

#undef EITP__BLAS_KERNEL

EITP__PRIVATE const eitp__cuda_kernels *eitp__cuda_blas_clear(void) {
    return &eitp__cuda_blas_kernels().kernels[EITP__BLAS_CLEAR];
}

EITP__PRIVATE const eitp__cuda_kernels *eitp__cuda_blas_loss_backward(void) {
    return &eitp__cuda_blas_kernels().kernels[EITP__BLAS_HEAD_LOSS_BACKWARD];
}

/* ---- Dividing ---- */

EITP__PRIVATE size_t eitp__cuda_blas_bias_bytes(const eitp__cuda_blas *blas, const eitp__call *call) {
    const size_t unit = EITP__BLAS_BIAS_ALIGNMENT;
    const eitp_dtype y = call->outputs[0].dtype;
    const eitp__operand *bias = call->slot == EITP__SLOT_MATMUL ? eitp__blas_input(call, 2) : NULL;
    if (!bias || bias->dtype == y || !eitp__cuda_blas_takes(blas, call))
        return 0;
    return ((size_t)bias->elements * eitp_dtype_size(y) + unit - 1) / unit * unit;
}

/* Replaces the bias of a product by one of y's type in `rounded`. Returns the call that rounds it. */
static eitp__call eitp__divide_bias(eitp__call *product, void *rounded) {
    eitp__operand *bias = &product->inputs[2];
    eitp__call cast;
    memset(&cast, 0, sizeof cast);
    cast.slot = EITP__SLOT_CAST;
    cast.dtype = bias->dtype;
    cast.input_count = cast.output_count = 1;
    cast.inputs[0] = *bias;
    bias->dtype = product->outputs[0].dtype;
    bias->data = rounded;
    cast.outputs[0] = *bias;
    return cast;
}

/* Removes the activation from a product, which then writes its input to `before` or y. Returns the activation. */
static eitp__call eitp__divide_activation(eitp__call *product) {
    const eitp__operand *before = eitp__blas_before(product);
    const int is_derivative = eitp__blas_is_derivative(product);
    eitp__call activation;
    memset(&activation, 0, sizeof activation);
    activation.slot = eitp__blas_activations[product->integers[2]];
    activation.dtype = product->outputs[0].dtype;
    activation.outputs[0] = product->outputs[0];
    activation.output_count = 1;
    if (before)
        product->outputs[0] = *before;
    activation.inputs[0] = is_derivative ? product->inputs[3] : product->outputs[0];
    activation.inputs[1] = product->outputs[0];
    activation.input_count = is_derivative ? 2 : 1;
    product->output_count = 1;
    product->input_count = product->input_count < 3 ? product->input_count : 3;
    product->integers[2] = EITP__EPILOGUE_NONE;
    return activation;
}

/* Returns HEAD after its product: it reads the logits instead of x and the table. */
static eitp__call eitp__blas_head_rest(const eitp__call *call) {
    eitp__call rest = *call;
    rest.inputs[0] = call->outputs[0];
    memset(&rest.inputs[1], 0, sizeof rest.inputs[1]);
    return rest;
}

EITP__PRIVATE void eitp__cuda_blas_divide(const eitp__cuda_blas *blas, const eitp__cuda_device *device,
                                          const eitp__call *call, void *rounded_bias, eitp__blas_division *division) {
    memset(division, 0, sizeof *division);
    division->product = eitp__blas_matmul(call);
    if (rounded_bias) {
        division->rounding = eitp__divide_bias(&division->product, rounded_bias);
        division->rounding_kernels = &eitp__cuda_blas_kernels().kernels[EITP__BLAS_ROUND_BIAS];
    }
    if (call->slot == EITP__SLOT_HEAD) {
        division->rest = eitp__blas_head_rest(call);
        division->rest_kernels = &eitp__cuda_blas_kernels().kernels[EITP__BLAS_HEAD];
    } else if (eitp__blas_activations[call->integers[2]] != EITP__SLOT_COUNT &&
               !eitp__blas_fuses(blas, &division->product)) {
        division->rest = eitp__divide_activation(&division->product);
        division->rest_kernels = eitp__cuda_find(&division->rest, device);
    }
}

EITP__PRIVATE int eitp__cuda_blas_allows_addresses(const eitp__call *call) {
    return call->slot == EITP__SLOT_HEAD || !eitp__blas_is_derivative(call) ||
           call->inputs[3].data != call->outputs[0].data;
}

#endif
