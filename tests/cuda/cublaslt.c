/*
 * libcublasLt.so.13 for machines without a GPU: matrix products on the emulated device, queued in a stream like any
 * kernel. It accepts only what real versions accept for f32, bf16 and f16. Bias and aux must have the type of D, and
 * epilogues need a column-major D. An algorithm is valid only for the problem it was found for.
 *
 * Environment: EITP_EMULATED_CUBLASLT_FAIL: the n-th call fails without effect: n, n:code or name:n:code. The count
 * restarts when the value changes. Destructions happen all the same.
 */
#include "tests/cuda/cublaslt_api.h"
#include "tests/cuda/emulated_faults.h"
#include "tests/cuda/emulated_hooks.h"

#include <dlfcn.h>
#include <pthread.h>

enum { ALGORITHM_ID = 7, ALGORITHM_WORKSPACE = 1024, MOST_SPANS = 9 };

#define LT_EXPORT __attribute__((visibility("default")))
#define LT_DECLARE(name, arguments) LT_EXPORT cublasStatus_t name arguments;
CUBLASLT_API(LT_DECLARE)
#undef LT_DECLARE
LT_EXPORT const char *cublasLtGetStatusString(cublasStatus_t status);
LT_EXPORT size_t cublasLtGetVersion(void);
LT_EXPORT int emulated_cublaslt_live(void);
LT_EXPORT unsigned long emulated_cublaslt_calls(void);
LT_EXPORT unsigned long emulated_cublaslt_products(void);

struct cublasLtContext {
    int is_handle;
};

struct lt_preference {
    uint64_t most_workspace;
    uint32_t alignments[4]; /* of A, B, C, D */
};

/* ---- The driver ---- */

#define LT_POINTER(name, result, arguments) result(*name) arguments;
static struct { DRIVER_HOOKS(LT_POINTER) } hooks_;
#undef LT_POINTER

static pthread_mutex_t lock_ = PTHREAD_MUTEX_INITIALIZER;
static emulated_fault fault_;
static char fault_text_[128]; /* value that fault_ was read from */
static int live_, is_linked_;
static unsigned long calls_, products_;

/* Data and function pointers have the same size wherever dlsym exists. */
static void find_hook(void *library, const char *name, void *pointer, size_t size) {
    void *found = dlsym(library, name);
    if (!found) {
        fprintf(stderr, "emulated cuda: %s is not in libcuda.so.1\n", name);
        abort();
    }
    memcpy(pointer, &found, size);
}

static void link_driver(void) {
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    if (!library) {
        fprintf(stderr, "emulated cuda: cuBLASLt is used without libcuda.so.1\n");
        abort();
    }
#define LT_FIND(name, result, arguments) find_hook(library, #name, &hooks_.name, sizeof hooks_.name);
    DRIVER_HOOKS(LT_FIND)
#undef LT_FIND
    is_linked_ = 1;
}

static cublasStatus_t enter(const char *function) {
    const char *text = getenv("EITP_EMULATED_CUBLASLT_FAIL");
    cublasStatus_t status;
    pthread_mutex_lock(&lock_);
    calls_++;
    if (!is_linked_)
        link_driver();
    if (strcmp(text ? text : "", fault_text_)) {
        emulated_fault_read(&fault_, "EITP_EMULATED_CUBLASLT_FAIL", CUBLAS_STATUS_INTERNAL_ERROR);
        snprintf(fault_text_, sizeof fault_text_, "%s", text ? text : "");
    }
    status = (cublasStatus_t)emulated_fault_strikes(&fault_, function);
    pthread_mutex_unlock(&lock_);
    return status;
}

static void count(int change) {
    pthread_mutex_lock(&lock_);
    live_ += change;
    pthread_mutex_unlock(&lock_);
}

int emulated_cublaslt_live(void) {
    int live;
    pthread_mutex_lock(&lock_);
    live = live_;
    pthread_mutex_unlock(&lock_);
    return live;
}

unsigned long emulated_cublaslt_calls(void) {
    unsigned long calls;
    pthread_mutex_lock(&lock_);
    calls = calls_;
    pthread_mutex_unlock(&lock_);
    return calls;
}

unsigned long emulated_cublaslt_products(void) {
    unsigned long products;
    pthread_mutex_lock(&lock_);
    products = products_;
    pthread_mutex_unlock(&lock_);
    return products;
}

static void lock_before_fork(void) {
    pthread_mutex_lock(&lock_);
}

static void unlock_after_fork(void) {
    pthread_mutex_unlock(&lock_);
}

static void __attribute__((constructor)) watch_forks(void) {
    pthread_atfork(lock_before_fork, unlock_after_fork, unlock_after_fork);
}

/* ---- Creation and destruction ---- */

static void *create(size_t size) {
    void *created = calloc(1, size);
    if (!created)
        abort();
    count(1);
    return created;
}

static cublasStatus_t destroy(cublasStatus_t injected, void *destroyed) {
    if (!destroyed)
        return injected ? injected : CUBLAS_STATUS_INVALID_VALUE;
    free(destroyed);
    count(-1);
    return injected;
}

const char *cublasLtGetStatusString(cublasStatus_t status) {
    switch (status) {
    case CUBLAS_STATUS_SUCCESS:
        return "success";
    case CUBLAS_STATUS_NOT_INITIALIZED:
        return "not initialized";
    case CUBLAS_STATUS_ALLOC_FAILED:
        return "too little memory";
    case CUBLAS_STATUS_INVALID_VALUE:
        return "an argument is invalid";
    case CUBLAS_STATUS_ARCH_MISMATCH:
        return "not on this device";
    case CUBLAS_STATUS_MAPPING_ERROR:
        return "memory cannot be mapped";
    case CUBLAS_STATUS_EXECUTION_FAILED:
        return "a kernel cannot be launched";
    case CUBLAS_STATUS_INTERNAL_ERROR:
        return "internal error";
    case CUBLAS_STATUS_NOT_SUPPORTED:
        return "not supported";
    case CUBLAS_STATUS_LICENSE_ERROR:
        return "no license";
    default:
        return "unknown status";
    }
}

size_t cublasLtGetVersion(void) {
    return 130100;
}

cublasStatus_t cublasLtCreate(cublasLtHandle_t *handle) {
    const cublasStatus_t injected = enter(__func__);
    if (injected)
        return injected;
    if (!handle)
        return CUBLAS_STATUS_INVALID_VALUE;
    *handle = (cublasLtHandle_t)create(sizeof **handle);
    (*handle)->is_handle = 1;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
    return destroy(enter(__func__), handle);
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *layout, cudaDataType type, uint64_t rows,
                                          uint64_t columns, int64_t ld) {
    const cublasStatus_t injected = enter(__func__);
    if (injected)
        return injected;
    if (!layout)
        return CUBLAS_STATUS_INVALID_VALUE;
    *layout = (cublasLtMatrixLayout_t)create(sizeof **layout);
    (*layout)->type = type;
    (*layout)->rows = rows;
    (*layout)->columns = columns;
    (*layout)->ld = ld;
    (*layout)->batch_count = 1;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) {
    return destroy(enter(__func__), layout);
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *description, cublasComputeType_t compute_type,
                                        cudaDataType scale_type) {
    const cublasStatus_t injected = enter(__func__);
    if (injected)
        return injected;
    if (!description)
        return CUBLAS_STATUS_INVALID_VALUE;
    *description = (cublasLtMatmulDesc_t)create(sizeof **description);
    (*description)->compute_type = compute_type;
    (*description)->scale_type = scale_type;
    (*description)->epilogue = CUBLASLT_EPILOGUE_DEFAULT;
    (*description)->bias_type = (*description)->aux_type = -1;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t description) {
    return destroy(enter(__func__), description);
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *preference) {
    const cublasStatus_t injected = enter(__func__);
    if (injected)
        return injected;
    if (!preference)
        return CUBLAS_STATUS_INVALID_VALUE;
    *preference = (cublasLtMatmulPreference_t)create(sizeof **preference);
    for (int i = 0; i < 4; i++)
        (*preference)->alignments[i] = 256;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) {
    return destroy(enter(__func__), preference);
}

/* ---- Attributes ---- */

/* `known` is NULL if the attribute is not supported here. */
static cublasStatus_t set(void *known, size_t known_size, const void *value, size_t size) {
    if (!known)
        return CUBLAS_STATUS_NOT_SUPPORTED;
    if (!value || size != known_size)
        return CUBLAS_STATUS_INVALID_VALUE;
    memcpy(known, value, size);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t layout,
                                                cublasLtMatrixLayoutAttribute_t attribute, const void *value,
                                                size_t size) {
    const cublasStatus_t injected = enter(__func__);
    if (injected || !layout)
        return injected ? injected : CUBLAS_STATUS_INVALID_VALUE;
    switch (attribute) {
    case CUBLASLT_MATRIX_LAYOUT_TYPE:
        return set(&layout->type, 4, value, size);
    case CUBLASLT_MATRIX_LAYOUT_ORDER:
        return set(&layout->order, 4, value, size);
    case CUBLASLT_MATRIX_LAYOUT_ROWS:
        return set(&layout->rows, 8, value, size);
    case CUBLASLT_MATRIX_LAYOUT_COLS:
        return set(&layout->columns, 8, value, size);
    case CUBLASLT_MATRIX_LAYOUT_LD:
        return set(&layout->ld, 8, value, size);
    case CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT:
        return set(&layout->batch_count, 4, value, size);
    case CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET:
        return set(&layout->stride, 8, value, size);
    default:
        return CUBLAS_STATUS_NOT_SUPPORTED;
    }
}

cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t description,
                                              cublasLtMatmulDescAttributes_t attribute, const void *value,
                                              size_t size) {
    const cublasStatus_t injected = enter(__func__);
    if (injected || !description)
        return injected ? injected : CUBLAS_STATUS_INVALID_VALUE;
    switch (attribute) {
    case CUBLASLT_MATMUL_DESC_COMPUTE_TYPE:
        return set(&description->compute_type, 4, value, size);
    case CUBLASLT_MATMUL_DESC_SCALE_TYPE:
        return set(&description->scale_type, 4, value, size);
    case CUBLASLT_MATMUL_DESC_POINTER_MODE:
        return set(&description->pointer_mode, 4, value, size);
    case CUBLASLT_MATMUL_DESC_TRANSA:
    case CUBLASLT_MATMUL_DESC_TRANSB:
    case CUBLASLT_MATMUL_DESC_TRANSC:
        return set(&description->transpose[attribute - CUBLASLT_MATMUL_DESC_TRANSA], 4, value, size);
    case CUBLASLT_MATMUL_DESC_EPILOGUE:
        return set(&description->epilogue, 4, value, size);
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER:
        return set(&description->bias, 8, value, size);
    case CUBLASLT_MATMUL_DESC_BIAS_BATCH_STRIDE:
        return set(&description->bias_stride, 8, value, size);
    case CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE:
        return set(&description->bias_type, 4, value, size);
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER:
        return set(&description->aux, 8, value, size);
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD:
        return set(&description->aux_ld, 8, value, size);
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_BATCH_STRIDE:
        return set(&description->aux_stride, 8, value, size);
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_DATA_TYPE:
        return set(&description->aux_type, 4, value, size);
    case CUBLASLT_MATMUL_DESC_SM_COUNT_TARGET:
        return set(&description->multiprocessors, 4, value, size);
    default:
        return CUBLAS_STATUS_NOT_SUPPORTED;
    }
}

cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t attribute, const void *value,
                                                    size_t size) {
    const cublasStatus_t injected = enter(__func__);
    uint64_t unused;
    if (injected || !preference)
        return injected ? injected : CUBLAS_STATUS_INVALID_VALUE;
    switch (attribute) {
    case CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES:
        return set(&preference->most_workspace, 8, value, size);
    case CUBLASLT_MATMUL_PREF_IMPL_MASK:
        return set(&unused, 8, value, size);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES:
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES:
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES:
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES:
        return set(&preference->alignments[attribute - CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES], 4, value, size);
    case CUBLASLT_MATMUL_PREF_SEARCH_MODE:
    case CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK:
    case CUBLASLT_MATMUL_PREF_MAX_WAVES_COUNT:
        return set(&unused, 4, value, size);
    default:
        return CUBLAS_STATUS_NOT_SUPPORTED;
    }
}

/* ---- What is supported ---- */

static int is_valid_layout(const struct lt_layout *layout) {
    const int64_t least = (int64_t)(layout->order == CUBLASLT_ORDER_ROW ? layout->columns : layout->rows);
    return layout->rows && layout->columns && layout->rows < 1u << 31 && layout->columns < 1u << 31 &&
           layout->ld >= least && layout->batch_count >= 1;
}

static int are_types_supported(const struct lt_description *description, const struct lt_layout *layouts) {
    const int input = layouts[0].type, output = layouts[3].type, compute = description->compute_type;
    const int is_exact = compute == CUBLAS_COMPUTE_32F || compute == CUBLAS_COMPUTE_32F_PEDANTIC;
    if (input != layouts[1].type || output != layouts[2].type || description->scale_type != CUDA_R_32F)
        return 0;
    if (input == CUDA_R_32F)
        return output == CUDA_R_32F && (is_exact || compute == CUBLAS_COMPUTE_32F_FAST_TF32);
    if (input == CUDA_R_16BF && hooks_.emulated_cuda_capability() < 80)
        return 0;
    return (input == CUDA_R_16F || input == CUDA_R_16BF) && (output == input || output == CUDA_R_32F) && is_exact;
}

static cublasStatus_t check_epilogue(const struct lt_description *description, const struct lt_layout *d) {
    const unsigned epilogue = description->epilogue;
    const int has_bias = (epilogue & CUBLASLT_EPILOGUE_BIAS) != 0, has_aux = (epilogue & 128) != 0;
    if (epilogue == CUBLASLT_EPILOGUE_DEFAULT)
        return CUBLAS_STATUS_SUCCESS;
    if ((epilogue & ~(unsigned)(CUBLASLT_EPILOGUE_GELU_AUX_BIAS) && epilogue != CUBLASLT_EPILOGUE_DGELU) ||
        epilogue == 128 || epilogue == (128 | CUBLASLT_EPILOGUE_BIAS) || !epilogue || d->order != CUBLASLT_ORDER_COL)
        return CUBLAS_STATUS_NOT_SUPPORTED;
    if ((has_bias && description->bias_type != -1 && description->bias_type != d->type) ||
        (has_aux && description->aux_type != -1 && description->aux_type != d->type))
        return CUBLAS_STATUS_NOT_SUPPORTED;
    if (has_aux && (description->aux_ld < (int64_t)d->rows || description->aux_ld % 8 || description->aux_stride % 8))
        return CUBLAS_STATUS_INVALID_VALUE;
    return CUBLAS_STATUS_SUCCESS;
}

static cublasStatus_t check_product(const struct lt_description *description, const struct lt_layout *layouts) {
    uint64_t rows[2], columns[2]; /* of op(A) and op(B) */
    for (int i = 0; i < 4; i++) {
        if (layouts[i].order < 0 || layouts[i].order > CUBLASLT_ORDER_ROW)
            return CUBLAS_STATUS_NOT_SUPPORTED;
        if (!is_valid_layout(&layouts[i]) || layouts[i].batch_count != layouts[3].batch_count)
            return CUBLAS_STATUS_INVALID_VALUE;
    }
    for (int i = 0; i < 2; i++) {
        const int is_transposed = description->transpose[i] != CUBLAS_OP_N;
        if (description->transpose[i] < 0 || description->transpose[i] > CUBLAS_OP_C)
            return CUBLAS_STATUS_INVALID_VALUE;
        rows[i] = is_transposed ? layouts[i].columns : layouts[i].rows;
        columns[i] = is_transposed ? layouts[i].rows : layouts[i].columns;
    }
    if (columns[0] != rows[1] || rows[0] != layouts[3].rows || columns[1] != layouts[3].columns ||
        layouts[2].rows != layouts[3].rows || layouts[2].columns != layouts[3].columns)
        return CUBLAS_STATUS_INVALID_VALUE;
    if (description->pointer_mode < 0 || description->pointer_mode > CUBLASLT_POINTER_MODE_DEVICE ||
        description->transpose[2] || layouts[2].order != layouts[3].order || !are_types_supported(description, layouts))
        return CUBLAS_STATUS_NOT_SUPPORTED;
    return check_epilogue(description, &layouts[3]);
}

/* ---- Algorithms ---- */

/* Returns the alignment of an address, at most 256. */
static uint64_t alignment_of(uint64_t address) {
    return address % 256 ? address & (~address + 1) : 256;
}

/* Returns the alignments of bias and aux in one number. A null pointer has the largest. */
static uint64_t vector_alignments(const struct lt_description *description) {
    return alignment_of(description->bias) | alignment_of(description->aux) << 32;
}

/* Returns a number for the problem. The algorithm of another problem is refused, as real versions may do. */
static uint64_t fingerprint(const struct lt_description *description, const struct lt_layout *layouts) {
    struct lt_description shape = *description;
    const unsigned char *bytes = (const unsigned char *)&shape;
    uint64_t hash = 0xcbf29ce484222325u;
    shape.bias = shape.aux = 0;
    for (size_t i = 0; i < sizeof shape; i++)
        hash = (hash ^ bytes[i]) * 0x100000001b3u;
    bytes = (const unsigned char *)layouts;
    for (size_t i = 0; i < 4 * sizeof *layouts; i++)
        hash = (hash ^ bytes[i]) * 0x100000001b3u;
    return hash;
}

static int fill_layouts(struct lt_layout *layouts, cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                        cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d) {
    if (!a || !b || !c || !d)
        return 0;
    memcpy(&layouts[0], a, sizeof *a);
    memcpy(&layouts[1], b, sizeof *b);
    memcpy(&layouts[2], c, sizeof *c);
    memcpy(&layouts[3], d, sizeof *d);
    return 1;
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle, cublasLtMatmulDesc_t description,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t preference, int requested,
                                              cublasLtMatmulHeuristicResult_t *results, int *returned) {
    const cublasStatus_t injected = enter(__func__);
    struct lt_layout layouts[4];
    cublasStatus_t status;
    if (returned)
        *returned = 0;
    if (injected)
        return injected;
    if (!handle || !description || !preference || requested < 1 || !results || !returned ||
        !fill_layouts(layouts, a, b, c, d))
        return CUBLAS_STATUS_INVALID_VALUE;
    status = check_product(description, layouts);
    if (status)
        return status;
    memset(results, 0, sizeof *results);
    results->workspaceSize = preference->most_workspace < ALGORITHM_WORKSPACE ? 0 : ALGORITHM_WORKSPACE;
    results->algo.data[0] = ALGORITHM_ID;
    results->algo.data[1] = results->workspaceSize;
    results->algo.data[2] = fingerprint(description, layouts);
    for (int i = 0; i < 4; i++)
        results->algo.data[3 + i] = preference->alignments[i];
    results->algo.data[7] = vector_alignments(description);
    results->wavesCount = 1;
    *returned = 1;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoConfigGetAttribute(const cublasLtMatmulAlgo_t *algo,
                                                    cublasLtMatmulAlgoConfigAttributes_t attribute, void *value,
                                                    size_t size, size_t *written) {
    const cublasStatus_t injected = enter(__func__);
    const int is_short =
        attribute == CUBLASLT_ALGO_CONFIG_INNER_SHAPE_ID || attribute == CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID;
    const size_t needed = is_short ? 2 : 4;
    const uint32_t answer = attribute == CUBLASLT_ALGO_CONFIG_ID           ? ALGORITHM_ID
                            : attribute == CUBLASLT_ALGO_CONFIG_TILE_ID    ? 15
                            : attribute == CUBLASLT_ALGO_CONFIG_SPLITK_NUM ? 1
                                                                           : 0;
    if (injected)
        return injected;
    if (!algo || algo->data[0] != ALGORITHM_ID || attribute < 0 || attribute > CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID ||
        (size ? !value || size != needed : !written))
        return CUBLAS_STATUS_INVALID_VALUE;
    if (size)
        memcpy(value, &answer, needed); /* little-endian: the low bytes come first */
    if (written)
        *written = needed;
    return CUBLAS_STATUS_SUCCESS;
}

/* ---- Products ---- */

static emulated_span span_of(const struct lt_layout *layout, uint64_t data) {
    const int is_row = layout->order == CUBLASLT_ORDER_ROW;
    const uint64_t outer = is_row ? layout->rows : layout->columns, inner = is_row ? layout->columns : layout->rows;
    const uint64_t elements =
        (uint64_t)layout->stride * (uint64_t)(layout->batch_count - 1) + (outer - 1) * (uint64_t)layout->ld + inner;
    const emulated_span span = {data, elements * lt_element_size(layout->type)};
    return span;
}

/* A beta on the device is not known yet. */
static int may_read_c(const lt_product *product) {
    return product->beta_at || product->beta != 0;
}

/* Lists the bytes of bias, aux, scales and workspace, shaped as a column, a matrix, numbers and bytes. */
static int list_spans(const lt_product *product, emulated_span *spans) {
    const struct lt_description *description = &product->description;
    struct lt_layout other = product->layouts[3];
    int span_count = 0;
    for (int i = 0; i < 4; i++) {
        if (i != 2 || may_read_c(product))
            spans[span_count++] = span_of(&product->layouts[i], product->data[i]);
    }
    if (description->epilogue & CUBLASLT_EPILOGUE_BIAS) {
        other.columns = 1;
        other.stride = description->bias_stride;
        spans[span_count++] = span_of(&other, description->bias);
    }
    if (description->epilogue & 128) {
        other = product->layouts[3];
        other.ld = description->aux_ld;
        other.stride = description->aux_stride;
        spans[span_count++] = span_of(&other, description->aux);
    }
    if (product->alpha_at) {
        spans[span_count].begin = product->alpha_at;
        spans[span_count++].size = sizeof product->alpha;
        spans[span_count].begin = product->beta_at;
        spans[span_count++].size = sizeof product->beta;
    }
    if (product->workspace_size) {
        spans[span_count].begin = product->workspace;
        spans[span_count++].size = product->workspace_size;
    }
    return span_count;
}

static int overlap(const emulated_span *a, const emulated_span *b) {
    return a->begin < b->begin + b->size && b->begin < a->begin + a->size;
}

/* D may be C. Otherwise outputs and workspace must not overlap any other operand. */
static void check_overlaps(const lt_product *product, const emulated_span *spans, int span_count) {
    const unsigned epilogue = product->description.epilogue;
    const int d = may_read_c(product) ? 3 : 2, writes_aux = (epilogue & 128) && epilogue != CUBLASLT_EPILOGUE_DGELU;
    const int aux = writes_aux ? d + 1 + ((epilogue & CUBLASLT_EPILOGUE_BIAS) != 0) : d;
    for (int i = 0; i < span_count; i++) {
        const int is_c = i == 2 && d == 3 && product->data[2] == product->data[3];
        if ((i != d && !is_c && overlap(&spans[i], &spans[d])) ||
            (i != aux && !is_c && overlap(&spans[i], &spans[aux])))
            hooks_.emulated_cuda_refuse("a product writes over what it reads");
        if (product->workspace_size && i != span_count - 1 && overlap(&spans[i], &spans[span_count - 1]))
            hooks_.emulated_cuda_refuse("the workspace of a product is not its own");
    }
}

static void run(void *arguments) {
    lt_compute((const lt_product *)arguments, hooks_.emulated_cuda_memory, hooks_.emulated_cuda_refuse);
}

static int is_aligned(const lt_product *product) {
    const struct lt_description *description = &product->description;
    for (int i = 0; i < 4; i++) {
        if (product->data[i] % lt_element_size(product->layouts[i].type))
            return 0;
    }
    return (!(description->epilogue & CUBLASLT_EPILOGUE_BIAS) ||
            (description->bias && description->bias % lt_element_size(product->layouts[3].type) == 0)) &&
           (!(description->epilogue & 128) || (description->aux && description->aux % 16 == 0)) &&
           product->alpha_at % 4 == 0 && product->beta_at % 4 == 0 && product->workspace % 256 == 0;
}

static void set_scales(lt_product *product, const void *alpha, const void *beta) {
    if (product->description.pointer_mode == CUBLASLT_POINTER_MODE_DEVICE) {
        product->alpha_at = (uint64_t)(uintptr_t)alpha;
        product->beta_at = (uint64_t)(uintptr_t)beta;
        return;
    }
    memcpy(&product->alpha, alpha, sizeof product->alpha);
    memcpy(&product->beta, beta, sizeof product->beta);
}

/* The algorithm may rely on the promised alignments, and on the alignment of bias and aux when it was found. */
static int keeps_alignments(const lt_product *product, const cublasLtMatmulAlgo_t *algo) {
    const struct lt_description *description = &product->description;
    for (int i = 0; i < 4; i++) {
        if (!algo->data[3 + i] || product->data[i] % algo->data[3 + i])
            return 0;
    }
    return description->bias % (uint32_t)algo->data[7] == 0 && description->aux % (algo->data[7] >> 32) == 0;
}

static cublasStatus_t enqueue(const lt_product *product, CUstream stream) {
    emulated_span spans[MOST_SPANS];
    const int span_count = list_spans(product, spans);
    CUresult result;
    check_overlaps(product, spans, span_count);
    result = hooks_.emulated_cuda_enqueue(stream, fingerprint(&product->description, product->layouts), run, product,
                                          sizeof *product, spans, (size_t)span_count);
    pthread_mutex_lock(&lock_);
    products_ += !result;
    pthread_mutex_unlock(&lock_);
    return !result ? CUBLAS_STATUS_SUCCESS
           : result == CUDA_ERROR_NOT_INITIALIZED || result == CUDA_ERROR_INVALID_CONTEXT
               ? CUBLAS_STATUS_NOT_INITIALIZED
               : CUBLAS_STATUS_EXECUTION_FAILED;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t description, const void *alpha,
                              const void *a, cublasLtMatrixLayout_t a_layout, const void *b,
                              cublasLtMatrixLayout_t b_layout, const void *beta, const void *c,
                              cublasLtMatrixLayout_t c_layout, void *d, cublasLtMatrixLayout_t d_layout,
                              const cublasLtMatmulAlgo_t *algo, void *workspace, size_t workspace_size,
                              CUstream stream) {
    const cublasStatus_t injected = enter(__func__);
    lt_product product;
    cublasStatus_t status;
    if (injected)
        return injected;
    memset(&product, 0, sizeof product);
    if (!handle || !description || !alpha || !beta || !a || !b || !d ||
        !fill_layouts(product.layouts, a_layout, b_layout, c_layout, d_layout))
        return CUBLAS_STATUS_INVALID_VALUE;
    memcpy(&product.description, description, sizeof *description);
    set_scales(&product, alpha, beta);
    product.data[0] = (uint64_t)(uintptr_t)a;
    product.data[1] = (uint64_t)(uintptr_t)b;
    product.data[2] = (uint64_t)(uintptr_t)c;
    product.data[3] = (uint64_t)(uintptr_t)d;
    product.workspace = (uint64_t)(uintptr_t)workspace;
    product.workspace_size = workspace ? workspace_size : 0;
    status = check_product(description, product.layouts);
    if (status)
        return status;
    if (!is_aligned(&product) || (!c && may_read_c(&product)) || (workspace_size && !workspace))
        return CUBLAS_STATUS_INVALID_VALUE;
    if (algo && (algo->data[0] != ALGORITHM_ID || workspace_size < algo->data[1] || !keeps_alignments(&product, algo)))
        return CUBLAS_STATUS_INVALID_VALUE;
    if (algo && algo->data[2] != fingerprint(description, product.layouts))
        return CUBLAS_STATUS_NOT_SUPPORTED;
    return enqueue(&product, stream);
}
