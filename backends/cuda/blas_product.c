/*
 * Products computed by cuBLASLt: the calls of MATMUL that qualify, and their descriptions.
 *
 * cuBLASLt stores matrices by columns. y = a b by rows is y^T = b^T a^T by columns: A is b, B is a, C is the addend and
 * D is y, without moving any data.
 */
#include "backends/cuda/blas.h"

#include "base/log.h"

#if EITP__WITH_CUDA

/* Values from cublasLt.h and library_types.h. */
enum {
    EITP__LT_F32 = 0,
    EITP__LT_F16 = 2,
    EITP__LT_BF16 = 14,
    EITP__LT_COMPUTE_F32 = 68,
    EITP__LT_COMPUTE_TF32 = 77, /* sums of F32; CUBLAS_COMPUTE_32F_FAST_TF32 */
    EITP__LT_INVALID_VALUE = 7,
    EITP__LT_ARCH_MISMATCH = 8,
    EITP__LT_NOT_SUPPORTED = 15,
    EITP__LT_LAYOUT_BATCH_COUNT = 5,
    EITP__LT_LAYOUT_BATCH_STRIDE = 6,
    EITP__LT_POINTER_MODE = 2,
    EITP__LT_TRANSPOSE_A = 3,
    EITP__LT_TRANSPOSE_B = 4,
    EITP__LT_EPILOGUE = 7,
    EITP__LT_BIAS_POINTER = 8,
    EITP__LT_AUX_POINTER = 11,
    EITP__LT_AUX_STRIDE = 12,
    EITP__LT_AUX_BATCH_STRIDE = 13,
    EITP__LT_MOST_WORKSPACE = 1,
    EITP__LT_REDUCTIONS = 3,
    EITP__LT_ALIGNMENT_A = 5,
    EITP__LT_ALIGNMENT_B = 6,
    EITP__LT_ALIGNMENT_C = 7,
    EITP__LT_ALIGNMENT_D = 8,
    EITP__LT_ALGORITHM_ID = 0,
    EITP__LT_TILE = 1,
    EITP__LT_SPLIT_K = 2
};

/* Bits of an epilogue: cublasLtEpilogue_t. */
enum { EITP__LT_PLAIN = 1, EITP__LT_BIAS = 4, EITP__LT_GELU = 32, EITP__LT_DGELU = 64, EITP__LT_AUX = 128 };

/* Minimum number of operations (m n k) for which a call is worthwhile. */
#define EITP__BLAS_LEAST ((double)(1 << 18))
#define EITP__BLAS_WORKSPACE_ALIGNMENT 256
/* Requirements of cuBLASLt on aux: bytes of its address, elements of its strides. */
enum { EITP__LT_AUX_ALIGNMENT = 16, EITP__LT_AUX_UNIT = 8 };

struct eitp__cuda_product {
    eitp__lt_operation operation;
    eitp__lt_layout a, b, d; /* C has the layout of D */
    const void *a_data, *b_data, *c_data;
    void *d_data;
    const void *alpha, *beta; /* both on the host, or both on the device */
    float one, host_beta;
    eitp__lt_algorithm algorithm;
    void *workspace;
    size_t workspace_size;
};

/* The sizes of a call as one strided batch. */
typedef struct eitp__blas_sizes {
    int64_t m, n, k, batch;
    int64_t a_stride, b_stride; /* elements between matrices; 0: the batch has one; -1: no constant stride */
    int transpose_a, transpose_b;
} eitp__blas_sizes;

static const eitp__operand *eitp__blas_input(const eitp__call *call, int i) {
    return i < call->input_count && call->inputs[i].elements ? &call->inputs[i] : NULL;
}

static const eitp__operand *eitp__blas_before(const eitp__call *call) {
    return call->output_count > 1 && call->outputs[1].elements ? &call->outputs[1] : NULL;
}

/* ---- Which calls ---- */

/* Returns the stride of x's matrices within y's batch: 0 if x has one matrix, -1 if it does not have one for each of y.
   Batches are contiguous. */
static int64_t eitp__blas_stride(const eitp__operand *x, int64_t batch) {
    const int64_t matrix = x->shape[x->rank - 2] * x->shape[x->rank - 1], count = matrix ? x->elements / matrix : 0;
    return count == 1 ? 0 : count == batch ? matrix : -1;
}

static eitp__blas_sizes eitp__blas_sizes_of(const eitp__call *call) {
    const eitp__matmul matmul = eitp__matmul_sizes(call);
    eitp__blas_sizes sizes;
    sizes.m = matmul.m;
    sizes.n = matmul.n;
    sizes.k = matmul.k;
    sizes.batch = matmul.batch;
    sizes.transpose_a = matmul.transpose_a;
    sizes.transpose_b = matmul.transpose_b;
    sizes.a_stride = eitp__blas_stride(&call->inputs[0], sizes.batch);
    sizes.b_stride = eitp__blas_stride(&call->inputs[1], sizes.batch);
    /* The rows of all matrices are multiplied by one matrix. */
    if (sizes.batch > 1 && sizes.a_stride > 0 && !sizes.b_stride && !sizes.transpose_a) {
        sizes.m *= sizes.batch;
        sizes.batch = 1;
        sizes.a_stride = 0;
    }
    return sizes;
}

/*
 * Returns cuBLASLt's epilogue that is equivalent to the call's, or 0. It rounds a bias to the type of y, which the
 * contract does not, and computes GELU from unrounded sums, where the contract uses those in `before`. So these
 * epilogues are not used for a 16-bit y. Other operands of both have the type of y.
 */
static unsigned eitp__blas_epilogue(const eitp__call *call) {
    const eitp_dtype y = call->outputs[0].dtype;
    const eitp__operand *bias = eitp__blas_input(call, 2), *operand = eitp__blas_input(call, 3);
    const eitp__operand *before = eitp__blas_before(call);
    const unsigned bias_bit = bias ? EITP__LT_BIAS : 0;
    if ((bias || before) && y != EITP_F32)
        return 0;
    if ((operand && operand->dtype != y) || (before && before->dtype != y))
        return 0;
    switch ((eitp__epilogue)call->integers[2]) {
    case EITP__EPILOGUE_NONE:
    case EITP__EPILOGUE_ADD:
        return before ? 0 : bias ? bias_bit : (unsigned)EITP__LT_PLAIN;
    case EITP__EPILOGUE_GELU_TANH:
        return EITP__LT_GELU | bias_bit | (before ? (unsigned)EITP__LT_AUX : 0);
    case EITP__EPILOGUE_GELU_TANH_BACKWARD:
        return bias || before ? 0 : EITP__LT_DGELU | EITP__LT_AUX;
    case EITP__EPILOGUE_GELU_ERF:
    case EITP__EPILOGUE_SILU:
    case EITP__EPILOGUE_GELU_ERF_BACKWARD:
    case EITP__EPILOGUE_SILU_BACKWARD:
    case EITP__EPILOGUE_COUNT:
    default:
        return 0;
    }
}

/* Returns the operand that the epilogue writes or reads in addition to y, or NULL. */
static const eitp__operand *eitp__blas_aux(const eitp__call *call) {
    return call->integers[2] == EITP__EPILOGUE_GELU_TANH            ? eitp__blas_before(call)
           : call->integers[2] == EITP__EPILOGUE_GELU_TANH_BACKWARD ? eitp__blas_input(call, 3)
                                                                    : NULL;
}

/* All products accumulate in F32. Devices before sm_80 lack BF16. */
static int eitp__blas_has_types(const eitp__cuda_blas *blas, const eitp__call *call) {
    const eitp_dtype x = call->dtype, y = call->outputs[0].dtype;
    return (x == EITP_F32 || x == EITP_F16 || (x == EITP_BF16 && blas->capability >= 80)) &&
           (y == x || y == EITP_F32) && call->inputs[1].dtype == x;
}

static int eitp__blas_has_sizes(const eitp__cuda_blas *blas, const eitp__call *call) {
    const eitp__blas_sizes sizes = eitp__blas_sizes_of(call);
    const double operations = (double)sizes.m * (double)sizes.n * (double)sizes.k * (double)sizes.batch;
    return operations > 0 && (blas->takes_small || operations >= EITP__BLAS_LEAST) && sizes.a_stride >= 0 &&
           sizes.b_stride >= 0 && sizes.m <= INT32_MAX && sizes.n <= INT32_MAX && sizes.k <= INT32_MAX &&
           sizes.batch <= INT32_MAX && (!eitp__blas_aux(call) || sizes.n % EITP__LT_AUX_UNIT == 0);
}

EITP__PRIVATE int eitp__cuda_blas_sums_rows(const eitp__call *call) {
    const eitp__operand *a = &call->inputs[0];
    return a->row_elements && a->rank == 2 && call->integers[0];
}

/* Rows of y, or matrices of a batch, beyond the execution's may contain anything. */
static int eitp__blas_allows_rows(const eitp__call *call) {
    const eitp__operand *b = &call->inputs[1];
    const int b_has_rows = b->row_elements && b->rank == 2;
    return eitp__cuda_blas_sums_rows(call) == (b_has_rows && !call->integers[1]) && !(b_has_rows && call->integers[1]);
}

EITP__PRIVATE int eitp__cuda_blas_takes(const eitp__cuda_blas *blas, const eitp__call *call) {
    return blas->version && call->slot == EITP__SLOT_MATMUL && eitp__blas_has_types(blas, call) &&
           eitp__blas_epilogue(call) && (!call->accumulates || call->integers[2] == EITP__EPILOGUE_NONE) &&
           eitp__blas_allows_rows(call) && eitp__blas_has_sizes(blas, call);
}

/* Returns the size that NVIDIA recommends. */
static size_t eitp__blas_workspace_limit(const eitp__cuda_blas *blas) {
    return (size_t)(blas->capability >= 90 ? 32 : 4) << 20;
}

EITP__PRIVATE size_t eitp__cuda_blas_workspace(const eitp__cuda_blas *blas, const eitp__call *call) {
    return eitp__cuda_blas_takes(blas, call) ? eitp__blas_workspace_limit(blas) + EITP__BLAS_WORKSPACE_ALIGNMENT : 0;
}

/* ---- Rows beyond the execution's ---- */

/* Returns the blocks of a kernel that clears between nothing and everything, usually little. */
static int64_t eitp__blas_clear_blocks(const eitp__call *call) {
    const int64_t a = call->inputs[0].elements, b = call->inputs[1].elements;
    const int64_t blocks = eitp__cuda_ceil_divide(a > b ? a : b, EITP__CUDA_THREADS * 8);
    return blocks < 256 ? blocks : 256;
}

EITP__PRIVATE const eitp__cuda_kernels *eitp__cuda_blas_clear(void) {
    static const eitp__cuda_kernels clear = {
        EITP__SLOT_MATMUL,
        EITP__CUDA_HALVES | EITP__CUDA_DTYPE(EITP_F32),
        "kernels/cuda/product_tail.cu",
        NULL,
        NULL,
        NULL,
        {{"matmul_tail_kernel", EITP__CUDA_THREADS, eitp__blas_clear_blocks, NULL}}};
    return &clear;
}

/* ---- Descriptions ---- */

/* An attribute of a cuBLASLt object. */
typedef struct eitp__lt_attribute {
    int attribute;
    const void *value;
    size_t size;
} eitp__lt_attribute;

static int eitp__lt_type(eitp_dtype dtype) {
    return dtype == EITP_BF16 ? EITP__LT_BF16 : dtype == EITP_F16 ? EITP__LT_F16 : EITP__LT_F32;
}

/* Creates a matrix of operand x with `rows` rows in row-major order; `stride` is the distance in elements to the next
   of its batch. */
static eitp_status eitp__create_lt_layout(const eitp__cuda_blas *blas, const eitp__operand *x, int64_t rows,
                                          int64_t columns, int64_t batch, int64_t stride, eitp__lt_layout *layout,
                                          eitp_error *error) {
    const int32_t count = (int32_t)batch;
    eitp_status status = eitp__cuda_blas_check(
        blas,
        blas->layout_create(layout, eitp__lt_type(x->dtype), (uint64_t)columns, (uint64_t)rows, eitp__row_stride_of(x)),
        "cublasLtMatrixLayoutCreate", error);
    if (status || batch == 1)
        return status;
    status = eitp__cuda_blas_check(blas, blas->layout_set(*layout, EITP__LT_LAYOUT_BATCH_COUNT, &count, sizeof count),
                                   "cublasLtMatrixLayoutSetAttribute", error);
    return status
               ? status
               : eitp__cuda_blas_check(blas,
                                       blas->layout_set(*layout, EITP__LT_LAYOUT_BATCH_STRIDE, &stride, sizeof stride),
                                       "cublasLtMatrixLayoutSetAttribute", error);
}

static eitp_status eitp__create_lt_layouts(const eitp__cuda_blas *blas, const eitp__call *call,
                                           const eitp__blas_sizes *sizes, eitp__cuda_product *product,
                                           eitp_error *error) {
    const int64_t m = sizes->m, n = sizes->n, k = sizes->k, batch = sizes->batch;
    const int ta = sizes->transpose_a, tb = sizes->transpose_b;
    eitp_status status = eitp__create_lt_layout(blas, &call->inputs[1], tb ? n : k, tb ? k : n, batch, sizes->b_stride,
                                                &product->a, error);
    if (!status)
        status = eitp__create_lt_layout(blas, &call->inputs[0], ta ? k : m, ta ? m : k, batch, sizes->a_stride,
                                        &product->b, error);
    return status ? status : eitp__create_lt_layout(blas, &call->outputs[0], m, n, batch, m * n, &product->d, error);
}

static eitp_status eitp__create_lt_operation(const eitp__cuda_blas *blas, const eitp__call *call,
                                             const eitp__blas_sizes *sizes, eitp__cuda_product *product,
                                             eitp_error *error) {
    const int32_t transpose_a = sizes->transpose_b, transpose_b = sizes->transpose_a;
    const int32_t is_on_device = product->alpha != &product->one;
    const uint32_t epilogue = eitp__blas_epilogue(call);
    const int compute = call->dtype == EITP_F32 && blas->has_tf32 ? EITP__LT_COMPUTE_TF32 : EITP__LT_COMPUTE_F32;
    const eitp__operand *bias = eitp__blas_input(call, 2), *aux = eitp__blas_aux(call);
    const void *bias_data = bias ? bias->data : NULL, *aux_data = aux ? aux->data : NULL;
    const int64_t aux_stride = aux ? sizes->n : 0, aux_batch = aux && sizes->batch > 1 ? sizes->m * sizes->n : 0;
    const eitp__lt_attribute attributes[] = {
        {EITP__LT_POINTER_MODE, &is_on_device, sizeof is_on_device},
        {EITP__LT_TRANSPOSE_A, &transpose_a, sizeof transpose_a},
        {EITP__LT_TRANSPOSE_B, &transpose_b, sizeof transpose_b},
        {EITP__LT_EPILOGUE, &epilogue, sizeof epilogue},
        {EITP__LT_BIAS_POINTER, &bias_data, sizeof bias_data},
        {EITP__LT_AUX_POINTER, &aux_data, sizeof aux_data},
        {EITP__LT_AUX_STRIDE, &aux_stride, sizeof aux_stride},
        {EITP__LT_AUX_BATCH_STRIDE, &aux_batch, sizeof aux_batch},
    };
    const size_t count = aux ? EITP__COUNT(attributes) : bias ? 5 : 4;
    eitp_status status = eitp__cuda_blas_check(blas, blas->operation_create(&product->operation, compute, EITP__LT_F32),
                                               "cublasLtMatmulDescCreate", error);
    for (size_t i = 0; i < count && !status; i++)
        status = eitp__cuda_blas_check(
            blas,
            blas->operation_set(product->operation, attributes[i].attribute, attributes[i].value, attributes[i].size),
            "cublasLtMatmulDescSetAttribute", error);
    return status;
}

/* ---- Algorithms ---- */

/* Returns the alignment of an operand that holds in all runs: the alignment of memory allocations. */
static uint32_t eitp__lt_alignment(const void *data) {
    const uintptr_t bits = (uintptr_t)data | EITP__ALIGNMENT;
    return (uint32_t)(bits & (~bits + 1));
}

/*
 * Allows split-k sums only if the parts are kept in F32 in the workspace and added in order: adding in place would
 * round each to the type of y.
 */
static eitp_status eitp__create_lt_preference(const eitp__cuda_blas *blas, const eitp__cuda_product *product,
                                              eitp__lt_preference *preference, eitp_error *error) {
    const uint64_t most = eitp__blas_workspace_limit(blas);
    const uint32_t reductions = 2; /* CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE */
    const uint32_t a = eitp__lt_alignment(product->a_data), b = eitp__lt_alignment(product->b_data);
    const uint32_t c = eitp__lt_alignment(product->c_data), d = eitp__lt_alignment(product->d_data);
    const eitp__lt_attribute attributes[] = {
        {EITP__LT_MOST_WORKSPACE, &most, sizeof most}, {EITP__LT_REDUCTIONS, &reductions, sizeof reductions},
        {EITP__LT_ALIGNMENT_A, &a, sizeof a},          {EITP__LT_ALIGNMENT_B, &b, sizeof b},
        {EITP__LT_ALIGNMENT_C, &c, sizeof c},          {EITP__LT_ALIGNMENT_D, &d, sizeof d},
    };
    eitp_status status =
        eitp__cuda_blas_check(blas, blas->preference_create(preference), "cublasLtMatmulPreferenceCreate", error);
    for (size_t i = 0; i < EITP__COUNT(attributes) && !status; i++)
        status = eitp__cuda_blas_check(
            blas, blas->preference_set(*preference, attributes[i].attribute, attributes[i].value, attributes[i].size),
            "cublasLtMatmulPreferenceSetAttribute", error);
    return status;
}

static void eitp__log_lt_algorithm(const eitp__cuda_blas *blas, const eitp__call *call, const eitp__blas_sizes *sizes,
                                   const eitp__lt_algorithm *algorithm) {
    const int attributes[] = {EITP__LT_ALGORITHM_ID, EITP__LT_TILE, EITP__LT_SPLIT_K};
    int32_t values[3] = {-1, -1, -1};
    size_t written;
    for (int i = 0; i < 3; i++)
        blas->algorithm_get(algorithm, attributes[i], &values[i], sizeof values[i], &written);
    eitp__log_line(blas->host, EITP_LOG_DEBUG,
                   "%s product %lld x %lld x %lld, %lld times: cuBLASLt algorithm %d, tile %d, split-k %d",
                   eitp_dtype_name(call->dtype), (long long)sizes->m, (long long)sizes->n, (long long)sizes->k,
                   (long long)sizes->batch, (int)values[0], (int)values[1], (int)values[2]);
}

/* Stores the algorithm that cuBLASLt ranks first. *is_found: there is one. */
static eitp_status eitp__find_lt_algorithm(const eitp__cuda_blas *blas, eitp__cuda_product *product, int *is_found,
                                           eitp_error *error) {
    eitp__lt_preference preference = NULL;
    eitp__lt_found found = EITP__ZERO;
    int count = 0, result;
    eitp_status status = eitp__create_lt_preference(blas, product, &preference, error);
    *is_found = 0;
    if (!status) {
        result = blas->find(blas->handle, product->operation, product->a, product->b, product->d, product->d,
                            preference, 1, &found, &count);
        if (result == EITP__LT_INVALID_VALUE || result == EITP__LT_ARCH_MISMATCH || result == EITP__LT_NOT_SUPPORTED)
            count = result = 0;
        status = eitp__cuda_blas_check(blas, result, "cublasLtMatmulAlgoGetHeuristic", error);
    }
    if (preference)
        blas->preference_destroy(preference);
    *is_found = !status && count > 0 && !found.status && found.workspace_size <= eitp__blas_workspace_limit(blas);
    product->algorithm = found.algorithm;
    product->workspace_size = found.workspace_size;
    return status;
}

/* ---- Products ---- */

EITP__PRIVATE int eitp__cuda_blas_has_addresses(const eitp__call *call) {
    const eitp__operand *aux = eitp__blas_aux(call);
    return !aux || ((uintptr_t)aux->data % EITP__LT_AUX_ALIGNMENT == 0 && aux->data != call->outputs[0].data);
}

/* Sets alpha and beta in the same memory. Host memory is faster. */
static void eitp__set_lt_operands(const eitp__cuda_blas *blas, const eitp__call *call, void *workspace,
                                  eitp__cuda_product *product) {
    const int adds_operand = call->integers[2] == EITP__EPILOGUE_ADD;
    const uintptr_t unit = EITP__BLAS_WORKSPACE_ALIGNMENT;
    product->a_data = call->inputs[1].data;
    product->b_data = call->inputs[0].data;
    product->d_data = call->outputs[0].data;
    product->c_data = adds_operand ? call->inputs[3].data : product->d_data;
    product->one = 1.0f;
    product->host_beta = call->accumulates || adds_operand ? 1.0f : 0.0f;
    product->alpha = &product->one;
    product->beta = &product->host_beta;
    if (call->accumulates && call->carry) {
        product->alpha = (const void *)(uintptr_t)blas->one;
        product->beta = call->carry;
    }
    product->workspace = (void *)(((uintptr_t)workspace + unit - 1) / unit * unit);
}

EITP__PRIVATE eitp_status eitp__cuda_product_create(const eitp__cuda_blas *blas, const eitp__call *call,
                                                    void *workspace, eitp__cuda_product **product, eitp_error *error) {
    const eitp__blas_sizes sizes = eitp__blas_sizes_of(call);
    eitp__cuda_product *created;
    eitp_status status;
    int is_found = 0;
    *product = NULL;
    if (!eitp__cuda_blas_has_addresses(call))
        return EITP_OK;
    created = (eitp__cuda_product *)eitp__allocate(blas->host, sizeof *created);
    if (!created)
        return eitp__fail_memory(error, sizeof *created, "a product");
    eitp__set_lt_operands(blas, call, workspace, created);
    status = eitp__create_lt_layouts(blas, call, &sizes, created, error);
    if (!status)
        status = eitp__create_lt_operation(blas, call, &sizes, created, error);
    if (!status)
        status = eitp__find_lt_algorithm(blas, created, &is_found, error);
    if (is_found) {
        eitp__log_lt_algorithm(blas, call, &sizes, &created->algorithm);
        *product = created;
        return EITP_OK;
    }
    if (!status)
        eitp__log_line(blas->host, EITP_LOG_DEBUG, "%s product %lld x %lld x %lld: cuBLASLt has no algorithm",
                       eitp_dtype_name(call->dtype), (long long)sizes.m, (long long)sizes.n, (long long)sizes.k);
    eitp__cuda_product_destroy(blas, created);
    return status;
}

EITP__PRIVATE void eitp__cuda_product_destroy(const eitp__cuda_blas *blas, eitp__cuda_product *product) {
    const eitp__lt_layout layouts[] = {product->a, product->b, product->d};
    for (size_t i = 0; i < EITP__COUNT(layouts); i++)
        if (layouts[i])
            blas->layout_destroy(layouts[i]);
    if (product->operation)
        blas->operation_destroy(product->operation);
    eitp__release(blas->host, product, sizeof *product);
}

EITP__PRIVATE eitp_status eitp__cuda_product_issue(const eitp__cuda_blas *blas, const eitp__cuda_product *product,
                                                   eitp__cuda_stream stream, eitp_error *error) {
    return eitp__cuda_blas_check(blas,
                                 blas->multiply(blas->handle, product->operation, product->alpha, product->a_data,
                                                product->a, product->b_data, product->b, product->beta, product->c_data,
                                                product->d, product->d_data, product->d, &product->algorithm,
                                                product->workspace_size ? product->workspace : NULL,
                                                product->workspace_size, stream),
                                 "cublasLtMatmul", error);
}

#endif
