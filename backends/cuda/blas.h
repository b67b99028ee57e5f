/*
 * cuBLASLt, opened at run time. It computes the products of MATMUL and HEAD that are large enough, if it is available.
 * eitp's own kernels compute all others, and the rest of such a call. The contract of kernels.h says how it rounds.
 */
#ifndef EITP_CUDA_BLAS_H
#define EITP_CUDA_BLAS_H

#include "backends/cuda/driver.h"
#include "backends/cuda/slots.h"

#if EITP__WITH_CUDA

/* cublasLtHandle_t, cublasLtMatrixLayout_t, cublasLtMatmulDesc_t, cublasLtMatmulPreference_t */
typedef struct eitp__lt_handle_object *eitp__lt_handle;
typedef struct eitp__lt_layout_object *eitp__lt_layout;
typedef struct eitp__lt_operation_object *eitp__lt_operation;
typedef struct eitp__lt_preference_object *eitp__lt_preference;

/* cublasLtMatmulAlgo_t */
typedef struct eitp__lt_algorithm {
    uint64_t data[8];
} eitp__lt_algorithm;

/* cublasLtMatmulHeuristicResult_t */
typedef struct eitp__lt_found {
    eitp__lt_algorithm algorithm;
    size_t workspace_size;
    int status;
    float waves;
    int reserved[4];
} eitp__lt_found;

/* The functions: member, name in the library, result, parameters. A result `int` is a cublasStatus_t; 0 is success. */
#define EITP__LT_FUNCTIONS(X)                                                                                          \
    X(get_version, "cublasLtGetVersion", size_t, (void))                                                               \
    X(status_text, "cublasLtGetStatusString", const char *, (int status))                                              \
    X(create, "cublasLtCreate", int, (eitp__lt_handle * handle))                                                       \
    X(destroy, "cublasLtDestroy", int, (eitp__lt_handle handle))                                                       \
    X(layout_create, "cublasLtMatrixLayoutCreate", int,                                                                \
      (eitp__lt_layout * layout, int type, uint64_t rows, uint64_t columns, int64_t stride))                           \
    X(layout_destroy, "cublasLtMatrixLayoutDestroy", int, (eitp__lt_layout layout))                                    \
    X(layout_set, "cublasLtMatrixLayoutSetAttribute", int,                                                             \
      (eitp__lt_layout layout, int attribute, const void *value, size_t size))                                         \
    X(operation_create, "cublasLtMatmulDescCreate", int,                                                               \
      (eitp__lt_operation * operation, int compute_type, int scale_type))                                              \
    X(operation_destroy, "cublasLtMatmulDescDestroy", int, (eitp__lt_operation operation))                             \
    X(operation_set, "cublasLtMatmulDescSetAttribute", int,                                                            \
      (eitp__lt_operation operation, int attribute, const void *value, size_t size))                                   \
    X(preference_create, "cublasLtMatmulPreferenceCreate", int, (eitp__lt_preference * preference))                    \
    X(preference_destroy, "cublasLtMatmulPreferenceDestroy", int, (eitp__lt_preference preference))                    \
    X(preference_set, "cublasLtMatmulPreferenceSetAttribute", int,                                                     \
      (eitp__lt_preference preference, int attribute, const void *value, size_t size))                                 \
    X(find, "cublasLtMatmulAlgoGetHeuristic", int,                                                                     \
      (eitp__lt_handle handle, eitp__lt_operation operation, eitp__lt_layout a, eitp__lt_layout b, eitp__lt_layout c,  \
       eitp__lt_layout d, eitp__lt_preference preference, int most, eitp__lt_found *found, int *count))                \
    X(algorithm_get, "cublasLtMatmulAlgoConfigGetAttribute", int,                                                      \
      (const eitp__lt_algorithm *algorithm, int attribute, void *value, size_t size, size_t *written))                 \
    X(multiply, "cublasLtMatmul", int,                                                                                 \
      (eitp__lt_handle handle, eitp__lt_operation operation, const void *alpha, const void *a,                         \
       eitp__lt_layout a_layout, const void *b, eitp__lt_layout b_layout, const void *beta, const void *c,             \
       eitp__lt_layout c_layout, void *d, eitp__lt_layout d_layout, const eitp__lt_algorithm *algorithm,               \
       void *workspace, size_t workspace_size, eitp__cuda_stream stream))

typedef struct eitp__cuda_blas {
    const eitp_host *host;
    const eitp__cuda_driver *driver;
    int version;     /* 130100 for 13.1.0; 0: eitp's own kernels compute all products */
    int capability;  /* of the device */
    int takes_small; /* 1: it computes all products that it can, regardless of size */
    int has_tf32;    /* 1: products of F32 round their factors to TF32 */
    eitp__lt_handle handle;
    eitp__cuda_address one; /* 1.0f in device memory */
#define EITP__LT_MEMBER(member, name, result, parameters) result(*member) parameters;
    EITP__LT_FUNCTIONS(EITP__LT_MEMBER)
#undef EITP__LT_MEMBER
} eitp__cuda_blas;

/*
 * Opens cuBLASLt in the current context, for a device of this capability, according to EITP_CUDA_PRODUCTS. "own": does
 * nothing. "cublaslt": EITP_ERROR_UNSUPPORTED if it is not available; it computes all products that it can. Not set: if
 * it is not available, the reason is logged. Also logs if TF32 is allowed but not available. Close it even after
 * a failure.
 */
EITP__PRIVATE eitp_status eitp__cuda_blas_open(eitp__cuda_blas *blas, const eitp_host *host,
                                               const eitp__cuda_driver *driver, eitp__cuda_stream stream,
                                               int capability, int allow_tf32, eitp_error *error);
EITP__PRIVATE void eitp__cuda_blas_close(eitp__cuda_blas *blas);

/* Returns EITP_OK if the result of the function `name` is success, else an error with the library's message. */
EITP__PRIVATE eitp_status eitp__cuda_blas_check(const eitp__cuda_blas *blas, int result, const char *name,
                                                eitp_error *error);

/* ---- blas_calls.c ---- */

/* Bits of an epilogue: cublasLtEpilogue_t. */
enum { EITP__LT_PLAIN = 1, EITP__LT_BIAS = 4, EITP__LT_GELU = 32, EITP__LT_DGELU = 64, EITP__LT_AUX = 128 };

/* Alignment of the workspace of cuBLASLt, and of a rounded bias. */
enum { EITP__BLAS_WORKSPACE_ALIGNMENT = 256, EITP__BLAS_BIAS_ALIGNMENT = 256 };

/* The sizes of a product as one strided batch. */
typedef struct eitp__blas_sizes {
    int64_t m, n, k, batch;
    int64_t a_stride, b_stride; /* elements between matrices; 0: the batch has one; -1: no constant stride */
    int transpose_a, transpose_b;
} eitp__blas_sizes;

/*
 * The calls that a call is divided into, in this order: cuBLASLt computes the product, which has a bias of y's type and
 * an activation only if cuBLASLt has it, and eitp's kernels compute the others.
 */
typedef struct eitp__blas_division {
    eitp__call rounding, product, rest;
    const eitp__cuda_kernels *rounding_kernels, *rest_kernels; /* NULL: no such call */
} eitp__blas_division;

/* True if cuBLASLt may compute the product of a call, MATMUL or HEAD, without knowing its addresses. */
EITP__PRIVATE int eitp__cuda_blas_takes(const eitp__cuda_blas *blas, const eitp__call *call);

/* True if such a call does not write y over an operand that is read after the product. */
EITP__PRIVATE int eitp__cuda_blas_allows_addresses(const eitp__call *call);

/* Returns the workspace in bytes that such a call needs, and cuBLASLt's maximum: the size that NVIDIA recommends. */
EITP__PRIVATE size_t eitp__cuda_blas_workspace(const eitp__cuda_blas *blas, const eitp__call *call);
EITP__PRIVATE size_t eitp__cuda_blas_workspace_limit(const eitp__cuda_blas *blas);

/* Returns the bytes of its bias in the type of y if that has to be rounded, otherwise 0. */
EITP__PRIVATE size_t eitp__cuda_blas_bias_bytes(const eitp__cuda_blas *blas, const eitp__call *call);

/* Divides such a call. rounded_bias: memory for the bias in the type of y; NULL: the bias is not rounded. */
EITP__PRIVATE void eitp__cuda_blas_divide(const eitp__cuda_blas *blas, const eitp__cuda_device *device,
                                          const eitp__call *call, void *rounded_bias, eitp__blas_division *division);

/* Return the sizes of a product, its bits of an epilogue, and the operand that the epilogue writes or reads in addition
   to y, or NULL. */
EITP__PRIVATE eitp__blas_sizes eitp__cuda_blas_sizes(const eitp__call *product);
EITP__PRIVATE unsigned eitp__cuda_blas_epilogue(const eitp__call *product);
EITP__PRIVATE const eitp__operand *eitp__cuda_blas_aux(const eitp__call *product);

/* True if a product sums over rows. Rows beyond the execution's must then be zeros in both factors. */
EITP__PRIVATE int eitp__cuda_blas_sums_rows(const eitp__call *product);

/* Returns the kernel that sets them to zero. */
EITP__PRIVATE const eitp__cuda_kernels *eitp__cuda_blas_clear(void);

/* Returns the kernel that computes losses, and gradients in place, from the logits of HEAD: see fused.c. */
EITP__PRIVATE const eitp__cuda_kernels *eitp__cuda_blas_loss_backward(void);

/* Returns the kernels that run only before or after products of cuBLASLt. */
EITP__PRIVATE eitp__cuda_list eitp__cuda_blas_kernels(void);

/* ---- blas_product.c ---- */

/* A product that cuBLASLt computes. */
typedef struct eitp__cuda_product eitp__cuda_product;

/* Prepares the product of a divided call. *product is NULL if cuBLASLt cannot compute it; the reason is logged. */
EITP__PRIVATE eitp_status eitp__cuda_product_create(const eitp__cuda_blas *blas, const eitp__call *call,
                                                    void *workspace, eitp__cuda_product **product, eitp_error *error);
EITP__PRIVATE void eitp__cuda_product_destroy(const eitp__cuda_blas *blas, eitp__cuda_product *product);

/* Adds the product to a stream. */
EITP__PRIVATE eitp_status eitp__cuda_product_issue(const eitp__cuda_blas *blas, const eitp__cuda_product *product,
                                                   eitp__cuda_stream stream, eitp_error *error);

#endif

#endif
