/*
 * Products computed by cuBLASLt: their descriptions and algorithms.
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

/* Creates x, a batch of matrices of `rows` rows; `stride` is the distance in elements from one to the next. */
static eitp_status eitp__create_lt_layout(const eitp__cuda_blas *blas, const eitp__operand *x, int64_t rows,
                                          int64_t batch, int64_t stride, eitp__lt_layout *layout, eitp_error *error) {
    const uint64_t columns = (uint64_t)x->shape[x->rank - 1];
    const int32_t count = (int32_t)batch;
    eitp_status status = eitp__cuda_blas_check(
        blas, blas->layout_create(layout, eitp__lt_type(x->dtype), columns, (uint64_t)rows, eitp__row_stride_of(x)),
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
    const int64_t a_rows = sizes->transpose_a ? sizes->k : sizes->m, b_rows = sizes->transpose_b ? sizes->n : sizes->k;
    const int64_t batch = sizes->batch, d_stride = sizes->m * eitp__row_stride_of(&call->outputs[0]);
    eitp_status status =
        eitp__create_lt_layout(blas, &call->inputs[1], b_rows, batch, sizes->b_stride, &product->a, error);
    if (!status)
        status = eitp__create_lt_layout(blas, &call->inputs[0], a_rows, batch, sizes->a_stride, &product->b, error);
    return status ? status
                  : eitp__create_lt_layout(blas, &call->outputs[0], sizes->m, batch, d_stride, &product->d, error);
}

static eitp_status eitp__create_lt_operation(const eitp__cuda_blas *blas, const eitp__call *call,
                                             const eitp__blas_sizes *sizes, eitp__cuda_product *product,
                                             eitp_error *error) {
    const int32_t transpose_a = sizes->transpose_b, transpose_b = sizes->transpose_a;
    const int32_t is_on_device = product->alpha != &product->one;
    const uint32_t epilogue = eitp__cuda_blas_epilogue(call);
    const int compute = call->dtype == EITP_F32 && blas->has_tf32 ? EITP__LT_COMPUTE_TF32 : EITP__LT_COMPUTE_F32;
    const eitp__operand *aux = eitp__cuda_blas_aux(call);
    const void *bias_data = call->inputs[2].data, *aux_data = aux ? aux->data : NULL;
    const int64_t aux_stride = aux ? eitp__row_stride_of(aux) : 0;
    const int64_t aux_batch = sizes->batch > 1 ? sizes->m * aux_stride : 0;
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
    const size_t count = aux ? EITP__COUNT(attributes) : epilogue & EITP__LT_BIAS ? 5 : 4;
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

/* Returns the alignment in bytes of the rows of x at an address, at most EITP__ALIGNMENT: memory allocations may have
   more in one run than in another. */
static uint32_t eitp__lt_alignment(const void *data, const eitp__operand *x) {
    const uintptr_t row = (uintptr_t)eitp__row_stride_of(x) * eitp_dtype_size(x->dtype);
    const uintptr_t bits = (uintptr_t)data | row | EITP__ALIGNMENT;
    return (uint32_t)(bits & (~bits + 1));
}

/*
 * Allows split-k sums only if the parts are kept in F32 in the workspace and added in order: adding in place would
 * round each to the type of y.
 */
static eitp_status eitp__create_lt_preference(const eitp__cuda_blas *blas, const eitp__call *call,
                                              const eitp__cuda_product *product, eitp__lt_preference *preference,
                                              eitp_error *error) {
    const uint64_t most = eitp__cuda_blas_workspace_limit(blas);
    const uint32_t reductions = 2; /* CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE */
    const uint32_t a = eitp__lt_alignment(product->a_data, &call->inputs[1]);
    const uint32_t b = eitp__lt_alignment(product->b_data, &call->inputs[0]);
    const uint32_t c = eitp__lt_alignment(product->c_data, &call->outputs[0]);
    const uint32_t d = eitp__lt_alignment(product->d_data, &call->outputs[0]);
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

/* Logs the algorithm of a product; NULL: cuBLASLt has none. */
static void eitp__log_lt_algorithm(const eitp__cuda_blas *blas, const eitp__call *call, const eitp__blas_sizes *sizes,
                                   const eitp__lt_algorithm *algorithm) {
    const int attributes[] = {EITP__LT_ALGORITHM_ID, EITP__LT_TILE, EITP__LT_SPLIT_K};
    int32_t values[3] = {-1, -1, -1};
    char what[80] = "has no algorithm";
    size_t written;
    for (int i = 0; i < 3 && algorithm; i++)
        blas->algorithm_get(algorithm, attributes[i], &values[i], sizeof values[i], &written);
    if (algorithm)
        snprintf(what, sizeof what, "algorithm %d, tile %d, split-k %d", (int)values[0], (int)values[1],
                 (int)values[2]);
    eitp__log_line(blas->host, EITP_LOG_DEBUG, "%s product %lld x %lld x %lld, %lld times, epilogue %u: cuBLASLt %s",
                   eitp_dtype_name(call->dtype), (long long)sizes->m, (long long)sizes->n, (long long)sizes->k,
                   (long long)sizes->batch, eitp__cuda_blas_epilogue(call), what);
}

/* Stores the algorithm that cuBLASLt ranks first. *is_found: there is one. */
static eitp_status eitp__find_lt_algorithm(const eitp__cuda_blas *blas, const eitp__call *call,
                                           eitp__cuda_product *product, int *is_found, eitp_error *error) {
    eitp__lt_preference preference = NULL;
    eitp__lt_found found = EITP__ZERO;
    int count = 0, result;
    eitp_status status = eitp__create_lt_preference(blas, call, product, &preference, error);
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
    *is_found = !status && count > 0 && !found.status && found.workspace_size <= eitp__cuda_blas_workspace_limit(blas);
    product->algorithm = found.algorithm;
    product->workspace_size = found.workspace_size;
    return status;
}

/* ---- Products ---- */

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
    const eitp__blas_sizes sizes = eitp__cuda_blas_sizes(call);
    eitp__cuda_product *created = (eitp__cuda_product *)eitp__allocate(blas->host, sizeof *created);
    eitp_status status;
    int is_found = 0;
    *product = NULL;
    if (!created)
        return eitp__fail_memory(error, sizeof *created, "a product");
    eitp__set_lt_operands(blas, call, workspace, created);
    status = eitp__create_lt_layouts(blas, call, &sizes, created, error);
    if (!status)
        status = eitp__create_lt_operation(blas, call, &sizes, created, error);
    if (!status)
        status = eitp__find_lt_algorithm(blas, call, created, &is_found, error);
    if (!status)
        eitp__log_lt_algorithm(blas, call, &sizes, is_found ? &created->algorithm : NULL);
    if (is_found)
        *product = created;
    else
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
