#include "backends/cuda/blas.h"

#include "backends/cuda/libraries.h"
#include "base/library.h"
#include "base/log.h"

#if EITP__WITH_CUDA

/* The choice made by EITP_CUDA_PRODUCTS. */
typedef enum eitp__blas_choice { EITP__BLAS_IF_THERE, EITP__BLAS_NEVER, EITP__BLAS_ALWAYS } eitp__blas_choice;

/* Minimum compute capability for TF32. */
#define EITP__TF32_CAPABILITY 80

/* cublasStatus_t */
enum { EITP__LT_ALLOCATION_FAILED = 3 };

EITP__PRIVATE eitp_status eitp__cuda_blas_check(const eitp__cuda_blas *blas, int result, const char *name,
                                                eitp_error *error) {
    const char *text = result ? blas->status_text(result) : NULL;
    if (!result)
        return EITP_OK;
    return eitp__fail(error, result == EITP__LT_ALLOCATION_FAILED ? EITP_ERROR_MEMORY : EITP_ERROR_INTERNAL,
                      "%s failed: %s (error %d)", name, text ? text : "unknown error", result);
}

static eitp_status eitp__choose_blas(eitp__blas_choice *choice, eitp_error *error) {
    const char *name = getenv("EITP_CUDA_PRODUCTS");
    *choice = EITP__BLAS_IF_THERE;
    if (!name || !*name)
        return EITP_OK;
    if (!strcmp(name, "own"))
        *choice = EITP__BLAS_NEVER;
    else if (!strcmp(name, "cublaslt"))
        *choice = EITP__BLAS_ALWAYS;
    else
        return eitp__fail(error, EITP_ERROR_ARGUMENT,
                          "unknown matrix products '%s' in EITP_CUDA_PRODUCTS (choose from own, cublaslt)", name);
    return EITP_OK;
}

static eitp_status eitp__find_blas_functions(eitp__cuda_blas *blas, void *library, eitp_error *error) {
#define EITP__LT_FIND(member, name, result, parameters)                                                                \
    if (!eitp__find_function(library, name, (void *)&blas->member))                                                    \
        return eitp__fail(error, EITP_ERROR_UNSUPPORTED, "cuBLASLt has no function %s: install a newer one", name);
    EITP__LT_FUNCTIONS(EITP__LT_FIND)
#undef EITP__LT_FIND
    return EITP_OK;
}

static eitp_status eitp__open_blas_library(eitp__cuda_blas *blas, eitp_error *error) {
    char reason[540];
    void *library =
        eitp__cuda_open_library(blas->host, "cublasLt", "nvidia-cublas", blas->driver->version, reason, sizeof reason);
    eitp_status status;
    if (!library)
        return eitp__fail(error, EITP_ERROR_UNSUPPORTED, "no usable cuBLASLt: %s", reason);
    status = eitp__find_blas_functions(blas, library, error);
    return status ? status : eitp__cuda_blas_check(blas, blas->create(&blas->handle), "cublasLtCreate", error);
}

/* Copies the constant to the device. The products that read it are in the same stream. */
static eitp_status eitp__create_blas_one(eitp__cuda_blas *blas, eitp__cuda_stream stream, eitp_error *error) {
    static const float one = 1.0f;
    const eitp__cuda_driver *driver = blas->driver;
    const eitp_status status = eitp__cuda_check(driver, driver->allocate(&blas->one, sizeof one), "cuMemAlloc", error);
    return status ? status
                  : eitp__cuda_check(driver, driver->upload(blas->one, &one, sizeof one, stream), "cuMemcpyHtoDAsync",
                                     error);
}

/* Opens cuBLASLt as required by the choice, unless it is `own`. */
static eitp_status eitp__open_chosen_blas(eitp__cuda_blas *blas, eitp__blas_choice choice, eitp__cuda_stream stream,
                                          eitp_error *error) {
    eitp_error reason;
    eitp_status status = eitp__open_blas_library(blas, &reason);
    if (status && choice == EITP__BLAS_IF_THERE) {
        eitp__log_line(blas->host, EITP_LOG_WARNING,
                       "matrix products, most of the work of a step, will be slower with eitp's own kernels: %s",
                       reason.message);
        return EITP_OK;
    }
    if (status && error)
        *error = reason;
    if (!status)
        status = eitp__create_blas_one(blas, stream, error);
    blas->version = status ? 0 : (int)blas->get_version();
    blas->takes_small = choice == EITP__BLAS_ALWAYS;
    return status;
}

EITP__PRIVATE eitp_status eitp__cuda_blas_open(eitp__cuda_blas *blas, const eitp_host *host,
                                               const eitp__cuda_driver *driver, eitp__cuda_stream stream,
                                               int capability, int allow_tf32, eitp_error *error) {
    eitp__blas_choice choice;
    eitp_status status;
    memset(blas, 0, sizeof *blas);
    blas->host = host;
    blas->driver = driver;
    blas->capability = capability;
    status = eitp__choose_blas(&choice, error);
    if (!status && choice != EITP__BLAS_NEVER)
        status = eitp__open_chosen_blas(blas, choice, stream, error);
    blas->has_tf32 = allow_tf32 && blas->version && capability >= EITP__TF32_CAPABILITY;
    if (allow_tf32 && !blas->has_tf32 && !status)
        eitp__log_line(host, EITP_LOG_WARNING, "computing products in fp32 without TF32: %s",
                       blas->version ? "the GPU does not have it" : "eitp's own kernels compute them");
    return status;
}

EITP__PRIVATE void eitp__cuda_blas_close(eitp__cuda_blas *blas) {
    if (blas->one)
        blas->driver->release(blas->one);
    if (blas->handle)
        blas->destroy(blas->handle);
    blas->one = 0;
    blas->handle = NULL;
}

#endif
