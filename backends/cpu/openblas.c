#include "backends/cpu/openblas.h"
#include "kernels/matmul.h"

#include "base/library.h"
#include "base/threads.h"

#include <sys/resource.h>

/* The functions of OpenBLAS that are used; the enumerations of cblas.h are passed as int. */
typedef void (*eitp__sgemm)(int order, int transpose_a, int transpose_b, int m, int n, int k, float alpha,
                            const float *a, int lda, const float *b, int ldb, float beta, float *c, int ldc);

enum { EITP__CBLAS_ROW_MAJOR = 101, EITP__CBLAS_NO_TRANSPOSE = 111, EITP__CBLAS_TRANSPOSE = 112 };

typedef struct eitp__openblas {
    eitp__sgemm sgemm;
    void (*set_threads)(int threads);
    char *(*core)(void);
    char *(*config)(void);
} eitp__openblas;

/* The workspace contains the library's function (eitp__kernel.imported), then the sums of a tile. */
#define EITP__OPENBLAS_SUMS EITP__ALIGNMENT
#define EITP__OPENBLAS_TILE_ROWS 256
#define EITP__OPENBLAS_TILE_COLUMNS 192

typedef void (*eitp__openblas_finish)(const eitp__call *call, const eitp__matmul_tile *tile, const float *sums,
                                      int64_t stride);

/* sums = carry * sums + bias; sums are not read if carry is 0. */
static void eitp__openblas_start(const eitp__call *call, const eitp__matmul_tile *tile, float *sums, int64_t stride) {
    const eitp__operand *bias = eitp__matmul_input(call, 2);
    float carry = eitp__matmul_carry(call);
    for (int64_t i = 0; i < tile->rows; i++, sums += stride)
        for (int64_t j = 0; j < tile->columns; j++) {
            float start = bias ? ((const float *)bias->data)[tile->column + j] : 0.0f;
            sums[j] = carry != 0.0f ? carry * sums[j] + start : start;
        }
}

/* Sums a tile into y, or into the workspace if an epilogue or a second output follows. */
static void eitp__openblas_tile(const eitp__call *call, const eitp__matmul *sizes, const eitp__matmul_tile *tile,
                                void *workspace, eitp__openblas_finish finish) {
    eitp__sgemm sgemm = *(eitp__sgemm *)workspace;
    const float *a = (const float *)call->inputs[0].data + eitp__matmul_offset(call, 0, tile->batch) +
                     tile->row * (sizes->transpose_a ? 1 : sizes->lda);
    const float *b = (const float *)call->inputs[1].data + eitp__matmul_offset(call, 1, tile->batch) +
                     tile->column * (sizes->transpose_b ? sizes->ldb : 1);
    int is_plain = call->integers[2] == EITP__EPILOGUE_NONE && !eitp__matmul_output(call, 1);
    float *y = (float *)call->outputs[0].data + (tile->batch * sizes->m + tile->row) * sizes->n + tile->column;
    float *sums = is_plain ? y : (float *)(void *)((char *)workspace + EITP__OPENBLAS_SUMS);
    float carry = eitp__matmul_carry(call);
    int64_t stride = is_plain ? sizes->n : EITP__OPENBLAS_TILE_COLUMNS;
    if (eitp__matmul_input(call, 2) || sizes->k == 0) {
        eitp__openblas_start(call, tile, sums, stride);
        carry = 1.0f;
    }
    if (sizes->k > 0)
        sgemm(EITP__CBLAS_ROW_MAJOR, sizes->transpose_a ? EITP__CBLAS_TRANSPOSE : EITP__CBLAS_NO_TRANSPOSE,
              sizes->transpose_b ? EITP__CBLAS_TRANSPOSE : EITP__CBLAS_NO_TRANSPOSE, (int)tile->rows,
              (int)tile->columns, (int)sizes->k, 1.0f, a, (int)sizes->lda, b, (int)sizes->ldb, carry, sums,
              (int)stride);
    if (!is_plain)
        finish(call, tile, sums, stride);
}

static void eitp__openblas_tiles(const eitp__call *call, int64_t begin, int64_t end, void *workspace,
                                 eitp__openblas_finish finish) {
    eitp__matmul sizes = eitp__matmul_sizes(call);
    for (int64_t item = begin; item < end; item++) {
        eitp__matmul_tile tile =
            eitp__matmul_tile_at(&sizes, item, EITP__OPENBLAS_TILE_ROWS, EITP__OPENBLAS_TILE_COLUMNS);
        eitp__openblas_tile(call, &sizes, &tile, workspace, finish);
    }
}

/* One function for each set that implements the epilogues. */
static void eitp__openblas_on_ref(const eitp__call *call, int64_t begin, int64_t end, void *workspace) {
    eitp__openblas_tiles(call, begin, end, workspace, eitp__ref_finish_tile);
}

#if EITP__WITH_AVX2
static void eitp__openblas_on_avx2(const eitp__call *call, int64_t begin, int64_t end, void *workspace) {
    eitp__openblas_tiles(call, begin, end, workspace, eitp__avx2_finish_tile);
}
#endif

#if EITP__WITH_AVX512
static void eitp__openblas_on_avx512(const eitp__call *call, int64_t begin, int64_t end, void *workspace) {
    eitp__openblas_tiles(call, begin, end, workspace, eitp__avx512_finish_tile);
}
#endif

static size_t eitp__openblas_workspace(const eitp__call *call) {
    (void)call;
    return EITP__OPENBLAS_SUMS + (size_t)EITP__OPENBLAS_TILE_ROWS * EITP__OPENBLAS_TILE_COLUMNS * sizeof(float);
}

#ifdef __APPLE__
static const char *const eitp__openblas_names[] = {"libopenblas.0.dylib", "libopenblas.dylib"};
#else
static const char *const eitp__openblas_names[] = {"libopenblas.so.0", "libopenblas.so"};
#endif

static int eitp__openblas_is_open(void) {
    const char *name = getenv("EITP_LIBOPENBLAS");
    if (name && *name)
        return eitp__is_library_open(name);
    for (size_t i = 0; i < EITP__COUNT(eitp__openblas_names); i++) {
        if (eitp__is_library_open(eitp__openblas_names[i]))
            return 1;
    }
    return 0;
}

/* Returns the number of threads that OpenBLAS starts when it is opened: it reads these variables in this order. */
static int eitp__openblas_starts(void) {
    static const char *const variables[] = {"OPENBLAS_NUM_THREADS", "GOTO_NUM_THREADS", "OMP_NUM_THREADS"};
    const int processors = eitp__processor_count();
    for (size_t i = 0; i < EITP__COUNT(variables); i++) {
        const char *value = getenv(variables[i]);
        const int threads = value ? atoi(value) : 0;
        if (threads > 0)
            return (threads < processors ? threads : processors) - 1;
    }
    return processors - 1;
}

EITP__PRIVATE uint64_t eitp__openblas_addresses(int threads, int *started) {
    const uint64_t usual = (uint64_t)8 << 20; /* if the stack size is unlimited */
    struct rlimit stack;
    uint64_t bytes = usual;
    *started = eitp__openblas_is_open() ? 0 : eitp__openblas_starts();
    if (!getrlimit(RLIMIT_STACK, &stack) && stack.rlim_cur != RLIM_INFINITY)
        bytes = (uint64_t)stack.rlim_cur;
    return EITP__OPENBLAS_BUFFER * (uint64_t)(threads + *started) + bytes * (uint64_t)*started;
}

/* Opens the library named by EITP_LIBOPENBLAS, else the first one found. */
static eitp_status eitp__openblas_find(void **library, const char **name, eitp_error *error) {
    char reasons[EITP__COUNT(eitp__openblas_names)][160];
    *name = getenv("EITP_LIBOPENBLAS");
    if (*name && **name) {
        *library = eitp__open_library(*name, reasons[0], sizeof reasons[0]);
        return *library ? EITP_OK
                        : eitp__fail(error, EITP_ERROR_UNSUPPORTED,
                                     "cannot open OpenBLAS (%s); correct EITP_LIBOPENBLAS, or use the products "
                                     "'own'",
                                     reasons[0]);
    }
    for (size_t i = 0; i < EITP__COUNT(eitp__openblas_names); i++) {
        *name = eitp__openblas_names[i];
        *library = eitp__open_library(*name, reasons[i], sizeof reasons[i]);
        if (*library)
            return EITP_OK;
    }
    return eitp__fail(error, EITP_ERROR_UNSUPPORTED,
                      "cannot open OpenBLAS (%s; %s); install it (Debian package libopenblas0), name its "
                      "file in EITP_LIBOPENBLAS, or use the products 'own'",
                      reasons[0], reasons[1]);
}

static eitp_status eitp__openblas_open(eitp__openblas *openblas, eitp_error *error) {
    const char *name = NULL;
    void *library = NULL;
    eitp_status status;
    if (!eitp__can_open_libraries())
        return eitp__fail(error, EITP_ERROR_UNSUPPORTED,
                          "cannot open OpenBLAS: this program was linked statically or without dlopen; "
                          "link it with shared libraries and -Wl,-no-as-needed -ldl, or use the products 'own'");
    status = eitp__openblas_find(&library, &name, error);
    if (status)
        return status;
    if (!eitp__find_function(library, "cblas_sgemm", &openblas->sgemm) ||
        !eitp__find_function(library, "openblas_set_num_threads", &openblas->set_threads) ||
        !eitp__find_function(library, "openblas_get_corename", &openblas->core) ||
        !eitp__find_function(library, "openblas_get_config", &openblas->config))
        return eitp__fail(
            error, EITP_ERROR_UNSUPPORTED,
            "'%.300s' is not an OpenBLAS library with the C interface; name another file in EITP_LIBOPENBLAS, "
            "or use the products 'own'",
            name);
    if (strstr(openblas->config(), "USE64BITINT"))
        return eitp__fail(error, EITP_ERROR_UNSUPPORTED,
                          "'%.300s' is OpenBLAS with 64-bit integers; name one with 32-bit integers in "
                          "EITP_LIBOPENBLAS, or use the products 'own'",
                          name);
    return EITP_OK;
}

EITP__PRIVATE eitp_status eitp__register_openblas_kernels(eitp__kernel_table *table, eitp__openblas_core *core,
                                                          eitp_error *error) {
    eitp__kernel *kernel = &table->kernels[EITP__SLOT_MATMUL][EITP_F32];
    eitp__kernel_function run = eitp__openblas_on_ref;
    eitp__openblas openblas = EITP__ZERO;
    eitp_status status = eitp__openblas_open(&openblas, error);
    if (status)
        return status;
#if EITP__WITH_AVX2
    if (kernel->set && strcmp(kernel->set, "avx2") == 0)
        run = eitp__openblas_on_avx2;
#endif
#if EITP__WITH_AVX512
    if (kernel->set && strcmp(kernel->set, "avx512") == 0)
        run = eitp__openblas_on_avx512;
#endif
    kernel->run = run;
    kernel->imported = (eitp__imported)openblas.sgemm;
    kernel->workspace = eitp__openblas_workspace;
    kernel->tile_rows = EITP__OPENBLAS_TILE_ROWS;
    kernel->tile_columns = EITP__OPENBLAS_TILE_COLUMNS;
    kernel->set = "openblas";
    openblas.set_threads(1);
    snprintf(core->name, sizeof core->name, "%s", openblas.core());
    return EITP_OK;
}
