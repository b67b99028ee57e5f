/* Products of the emulated cuBLASLt compared with plain sums in double, and its refusals. */
#include "tests/cuda/cublaslt_api.h"
#include "tests/cuda/use_driver.h"

#include <math.h>

#define USE_PRODUCTS(name, arguments) cublasStatus_t(*name) arguments;
static struct {
    CUBLASLT_API(USE_PRODUCTS)
    int (*emulated_cublaslt_live)(void);
} lt;

static void open_products(void) {
    void *library = open_emulated("libcublasLt.so.13", "emulated_cublaslt_live");
#define USE_FIND(name, arguments) find_symbol(library, #name, &lt.name, sizeof lt.name);
    CUBLASLT_API(USE_FIND)
#undef USE_FIND
    find_symbol(library, "emulated_cublaslt_live", &lt.emulated_cublaslt_live, sizeof lt.emulated_cublaslt_live);
}

/* ---- A product ---- */

enum { MOST = 4096, WORKSPACE = 2048 };

typedef struct problem {
    int m, n, k, batches;
    int input, output, compute;   /* types */
    int transpose_a, transpose_b; /* and orders */
    int row_a, row_b, row_d;
    unsigned epilogue;
    float alpha, beta;
} problem;

/* A matrix of random numbers on both sides. */
typedef struct matrix {
    int rows, columns, is_row, ld, stride, type;
    double values[MOST]; /* as stored, in memory order */
    CUdeviceptr data;
    cublasLtMatrixLayout_t layout;
} matrix;

static matrix a, b, c, d, aux, bias;
static cublasLtHandle_t handle;
static cublasLtMatmulDesc_t description;
static cublasLtMatmulPreference_t preference;
static CUdeviceptr workspace;
static uint64_t random_state;

static double draw_value(void) {
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (double)(int64_t)(random_state >> 40) / (1 << 23) - 1; /* 24 bits */
}

/* Returns a number with so few bits that each type represents it exactly. */
static double draw_short(void) {
    return floor(draw_value() * 64) / 32;
}

static unsigned short to_bits(double value, int type) {
    float rounded = (float)value;
    unsigned bits;
    int exponent;
    memcpy(&bits, &rounded, 4);
    if (type == CUDA_R_16BF)
        return (unsigned short)(bits >> 16);
    if (value == 0)
        return 0;
    frexp(value, &exponent);
    return (unsigned short)((value < 0 ? 0x8000 : 0) | (exponent + 14) << 10 |
                            ((int)(fabs(ldexp(value, 11 - exponent))) & 1023));
}

static double from_bits(unsigned short half, int type) {
    const unsigned wide = (unsigned)half << 16;
    const int exponent = half >> 10 & 31, fraction = half & 1023;
    float value;
    memcpy(&value, &wide, 4);
    if (type == CUDA_R_16BF)
        return (double)value;
    return (half & 0x8000 ? -1.0 : 1.0) *
           (exponent ? ldexp(1024 + fraction, exponent - 25) : ldexp((double)fraction, -24));
}

static size_t size_of(const matrix *m) {
    return m->type == CUDA_R_32F ? 4 : 2;
}

static void make_matrix(matrix *made, int rows, int columns, int is_row, int type, int batches, int is_filled) {
    unsigned char bytes[4 * MOST];
    memset(made, 0, sizeof *made);
    made->rows = rows, made->columns = columns, made->is_row = is_row, made->type = type;
    made->ld = (is_row ? columns : rows) + 3;
    made->ld = (made->ld + 7) / 8 * 8;
    made->stride = made->ld * (is_row ? rows : columns) + 8;
    CHECK(made->stride * batches <= MOST);
    CHECK(!cu.cuMemAlloc_v2(&made->data, size_of(made) * MOST));
    for (int i = 0; i < MOST; i++) {
        const double value = made->values[i] = draw_short();
        const float single = (float)value;
        const unsigned short half = to_bits(value, type);
        memcpy(bytes + size_of(made) * (size_t)i, type == CUDA_R_32F ? (const void *)&single : (const void *)&half,
               size_of(made));
    }
    if (is_filled)
        CHECK(!cu.cuMemcpyHtoD_v2(made->data, bytes, size_of(made) * MOST));
    CHECK(!lt.cublasLtMatrixLayoutCreate(&made->layout, type, (uint64_t)rows, (uint64_t)columns, made->ld));
    if (is_row)
        CHECK(!lt.cublasLtMatrixLayoutSetAttribute(made->layout, CUBLASLT_MATRIX_LAYOUT_ORDER, &made->is_row, 4));
    if (batches > 1) {
        const int64_t stride = made->stride;
        CHECK(!lt.cublasLtMatrixLayoutSetAttribute(made->layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &batches, 4) &&
              !lt.cublasLtMatrixLayoutSetAttribute(made->layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &stride,
                                                   8));
    }
}

static int index_of(const matrix *m, int batch, int row, int column) {
    return batch * m->stride + (m->is_row ? row * m->ld + column : column * m->ld + row);
}

/* Copies the device's values to the host. */
static void fetch(matrix *m) {
    unsigned char bytes[4 * MOST];
    CHECK(!cu.cuMemcpyDtoH_v2(bytes, m->data, size_of(m) * MOST));
    for (int i = 0; i < MOST; i++) {
        float single = 0;
        unsigned short half = 0;
        if (m->type == CUDA_R_32F)
            memcpy(&single, bytes + 4 * (size_t)i, 4);
        else
            memcpy(&half, bytes + 2 * (size_t)i, 2);
        m->values[i] = m->type == CUDA_R_32F ? (double)single : from_bits(half, m->type);
    }
}

static void set_attribute(int attribute, const void *value, size_t size) {
    CHECK(!lt.cublasLtMatmulDescSetAttribute(description, attribute, value, size));
}

static void make_problem(const problem *p) {
    const int has_bias = p->epilogue & CUBLASLT_EPILOGUE_BIAS, has_aux = p->epilogue & 128;
    const uint64_t most = WORKSPACE;
    make_matrix(&a, p->transpose_a ? p->k : p->m, p->transpose_a ? p->m : p->k, p->row_a, p->input, p->batches, 1);
    make_matrix(&b, p->transpose_b ? p->n : p->k, p->transpose_b ? p->k : p->n, p->row_b, p->input, p->batches, 1);
    make_matrix(&c, p->m, p->n, p->row_d, p->output, p->batches, 1);
    make_matrix(&d, p->m, p->n, p->row_d, p->output, p->batches, 0);
    make_matrix(&aux, p->m, p->n, 0, p->output, p->batches, p->epilogue == CUBLASLT_EPILOGUE_DGELU);
    make_matrix(&bias, p->m, 1, 0, p->output, p->batches, 1);
    CHECK(!cu.cuMemAlloc_v2(&workspace, WORKSPACE));
    CHECK(!lt.cublasLtCreate(&handle) && !lt.cublasLtMatmulPreferenceCreate(&preference) &&
          !lt.cublasLtMatmulDescCreate(&description, p->compute, CUDA_R_32F) &&
          !lt.cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &most, 8));
    set_attribute(CUBLASLT_MATMUL_DESC_TRANSA, &p->transpose_a, 4);
    set_attribute(CUBLASLT_MATMUL_DESC_TRANSB, &p->transpose_b, 4);
    set_attribute(CUBLASLT_MATMUL_DESC_EPILOGUE, &p->epilogue, 4);
    if (has_bias) {
        const int64_t stride = bias.stride;
        set_attribute(CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias.data, 8);
        set_attribute(CUBLASLT_MATMUL_DESC_BIAS_BATCH_STRIDE, &stride, 8);
        set_attribute(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, &p->output, 4);
    }
    if (has_aux) {
        const int64_t ld = aux.ld, stride = aux.stride;
        set_attribute(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, &aux.data, 8);
        set_attribute(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, &ld, 8);
        set_attribute(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_BATCH_STRIDE, &stride, 8);
    }
}

static void end_problem(void) {
    matrix *all[] = {&a, &b, &c, &d, &aux, &bias};
    for (int i = 0; i < 6; i++)
        CHECK(!lt.cublasLtMatrixLayoutDestroy(all[i]->layout) && !cu.cuMemFree_v2(all[i]->data));
    CHECK(!lt.cublasLtDestroy(handle) && !lt.cublasLtMatmulPreferenceDestroy(preference) &&
          !lt.cublasLtMatmulDescDestroy(description) && !cu.cuMemFree_v2(workspace));
    CHECK(lt.emulated_cublaslt_live() == 0);
}

static cublasStatus_t ask(cublasLtMatmulHeuristicResult_t *found) {
    int count = -1;
    const cublasStatus_t status = lt.cublasLtMatmulAlgoGetHeuristic(handle, description, a.layout, b.layout, c.layout,
                                                                    d.layout, preference, 1, found, &count);
    CHECK(count == (status ? 0 : 1));
    return status;
}

static void *on_device(CUdeviceptr address) {
    return (void *)(uintptr_t)address;
}

static cublasStatus_t multiply_scaled(const void *alpha, const void *beta, const cublasLtMatmulAlgo_t *algo,
                                      size_t workspace_size, CUstream stream) {
    return lt.cublasLtMatmul(handle, description, alpha, on_device(a.data), a.layout, on_device(b.data), b.layout, beta,
                             on_device(c.data), c.layout, on_device(d.data), d.layout, algo, on_device(workspace),
                             workspace_size, stream);
}

static cublasStatus_t multiply(const problem *p, const cublasLtMatmulAlgo_t *algo, size_t workspace_size,
                               CUstream stream) {
    return multiply_scaled(&p->alpha, &p->beta, algo, workspace_size, stream);
}

/* ---- Values ---- */

static double gelu(double x) {
    return 0.5 * x * (1 + tanh(sqrt(2 / 3.14159265358979323846) * (x + 0.044715 * x * x * x)));
}

static int close_to(const problem *p, double found, double expected) {
    const double step = p->output == CUDA_R_32F ? 1e-5 : p->output == CUDA_R_16F ? 1.0 / 1024 : 1.0 / 128;
    return fabs(found - expected) <= step * (fabs(expected) + 0.05) + 1e-5;
}

static int check_element(const problem *p, int batch, int i, int j, double c_value, double aux_before) {
    double sum = 0, aux_value = aux.values[index_of(&aux, batch, i, j)];
    for (int k = 0; k < p->k; k++)
        sum += a.values[p->transpose_a ? index_of(&a, batch, k, i) : index_of(&a, batch, i, k)] *
               b.values[p->transpose_b ? index_of(&b, batch, j, k) : index_of(&b, batch, k, j)];
    sum = (double)p->alpha * sum + (double)p->beta * c_value;
    if (p->epilogue & CUBLASLT_EPILOGUE_BIAS)
        sum += bias.values[batch * bias.stride + i];
    if (p->epilogue == CUBLASLT_EPILOGUE_DGELU)
        sum *= (gelu(aux_before + 1e-4) - gelu(aux_before - 1e-4)) / 2e-4;
    else if ((p->epilogue & 128) && !close_to(p, aux_value, sum))
        return 0;
    if (p->epilogue & CUBLASLT_EPILOGUE_GELU)
        sum = gelu(sum);
    return close_to(p, d.values[index_of(&d, batch, i, j)], sum);
}

static void check_problem(const fixture *f, const problem *p) {
    cublasLtMatmulHeuristicResult_t found;
    static double aux_before[MOST];
    int wrong = 0;
    make_problem(p);
    memcpy(aux_before, aux.values, sizeof aux_before);
    CHECK(!ask(&found) && found.state == CUBLAS_STATUS_SUCCESS && found.workspaceSize <= WORKSPACE);
    CHECK(!multiply(p, &found.algo, found.workspaceSize, f->a));
    CHECK(!cu.cuStreamSynchronize(f->a));
    fetch(&d);
    fetch(&aux);
    for (int batch = 0; batch < p->batches; batch++) {
        for (int i = 0; i < p->m; i++) {
            for (int j = 0; j < p->n; j++)
                wrong += !check_element(p, batch, i, j, c.values[index_of(&c, batch, i, j)],
                                        aux_before[index_of(&aux, batch, i, j)]);
        }
    }
    CHECK_THAT(!wrong, "%d of %d wrong: types %d %d, epilogue %u, transposed %d %d, rows %d %d %d", wrong,
               p->m * p->n * p->batches, p->input, p->output, p->epilogue, p->transpose_a, p->transpose_b, p->row_a,
               p->row_b, p->row_d);
    end_problem();
}

static void products_are_right(void) {
    static const int types[][3] = {
        {CUDA_R_32F, CUDA_R_32F, CUBLAS_COMPUTE_32F},   {CUDA_R_32F, CUDA_R_32F, CUBLAS_COMPUTE_32F_FAST_TF32},
        {CUDA_R_16BF, CUDA_R_16BF, CUBLAS_COMPUTE_32F}, {CUDA_R_16BF, CUDA_R_32F, CUBLAS_COMPUTE_32F},
        {CUDA_R_16F, CUDA_R_16F, CUBLAS_COMPUTE_32F},   {CUDA_R_16F, CUDA_R_32F, CUBLAS_COMPUTE_32F},
    };
    fixture f;
    REQUIRE(begin(&f));
    for (int i = 0; i < 6; i++) {
        for (int bits = 0; bits < 32; bits++) {
            const problem p = {7,
                               11,
                               13,
                               1 + bits % 3,
                               types[i][0],
                               types[i][1],
                               types[i][2],
                               bits & 1,
                               bits >> 1 & 1,
                               bits >> 2 & 1,
                               bits >> 3 & 1,
                               bits >> 4 & 1,
                               CUBLASLT_EPILOGUE_DEFAULT,
                               bits % 4 ? 1.0f : 0.5f,
                               (float)(bits % 5) * 0.5f};
            check_problem(&f, &p);
        }
    }
    CHECK(end(&f));
}

static void epilogues_are_right(void) {
    static const unsigned epilogues[] = {CUBLASLT_EPILOGUE_BIAS,      CUBLASLT_EPILOGUE_GELU,
                                         CUBLASLT_EPILOGUE_GELU_BIAS, CUBLASLT_EPILOGUE_GELU_AUX,
                                         CUBLASLT_EPILOGUE_DGELU,     CUBLASLT_EPILOGUE_GELU_AUX_BIAS};
    fixture f;
    REQUIRE(begin(&f));
    for (int i = 0; i < 18; i++) {
        const int type = i % 3 == 0 ? CUDA_R_32F : i % 3 == 1 ? CUDA_R_16BF : CUDA_R_16F;
        const problem p = {9,
                           5,
                           6,
                           1 + i % 2,
                           type,
                           type,
                           CUBLAS_COMPUTE_32F,
                           1,
                           0,
                           0,
                           0,
                           0,
                           epilogues[i / 3],
                           0.25f,
                           i % 2 ? 0.5f : 0.0f};
        check_problem(&f, &p);
    }
    CHECK(end(&f));
}

/* Returns the nearest number with the bits of a 16-bit type. */
static double rounded(double value, int type) {
    const int bits = type == CUDA_R_16BF ? 8 : 11;
    int exponent;
    const double fraction = frexp(value, &exponent);
    return ldexp(rint(ldexp(fraction, bits)), exponent - bits);
}

/* Outer products, whose sums have more bits than 16-bit types: aux is rounded, and GELU computed from the sum. */
static void gelu_of_unrounded_sums(void) {
    cublasLtMatmulHeuristicResult_t found;
    fixture f;
    REQUIRE(begin(&f));
    for (int i = 0; i < 2; i++) {
        const int type = i ? CUDA_R_16F : CUDA_R_16BF;
        const problem p = {48, 30, 1, 1, type, type, CUBLAS_COMPUTE_32F, 0, 0, 0, 0, 0, CUBLASLT_EPILOGUE_GELU_AUX_BIAS,
                           1,  0};
        int differ = 0, wrong = 0;
        make_problem(&p);
        CHECK(!ask(&found) && !multiply(&p, &found.algo, found.workspaceSize, f.a) && !cu.cuStreamSynchronize(f.a));
        fetch(&d);
        fetch(&aux);
        for (int row = 0; row < p.m; row++) {
            for (int column = 0; column < p.n; column++) {
                const double sum = a.values[row] * b.values[index_of(&b, 0, 0, column)] + bias.values[row];
                const double y = d.values[index_of(&d, 0, row, column)], exact = gelu(sum),
                             near = 1e-5 * fabs(exact) + 2e-6;
                differ += rounded(gelu(rounded(sum, type)), type) != rounded(exact, type);
                wrong += aux.values[index_of(&aux, 0, row, column)] != rounded(sum, type) ||
                         y < rounded(exact - near, type) || y > rounded(exact + near, type);
            }
        }
        CHECK_THAT(!wrong && differ > 20, "type %d: %d wrong, %d distinguish", type, wrong, differ);
        end_problem();
    }
    CHECK(end(&f));
}

static const problem plain = {
    4, 5, 6, 1, CUDA_R_32F, CUDA_R_32F, CUBLAS_COMPUTE_32F, 0, 0, 0, 0, 0, CUBLASLT_EPILOGUE_DEFAULT, 1, 0};

/* 1 + 2^-11 has one bit more than TF32, and the tie is rounded away from zero. */
static void tf32_has_ten_bits(void) {
    float value = 1 + 1.0f / 2048, other = 1 + 1.0f / 8192, one = 1;
    problem p = plain;
    fixture f;
    REQUIRE(begin(&f));
    p.m = p.n = p.k = 1;
    p.compute = CUBLAS_COMPUTE_32F_FAST_TF32;
    make_problem(&p);
    CHECK(!cu.cuMemcpyHtoD_v2(a.data, &value, 4) && !cu.cuMemcpyHtoD_v2(b.data, &one, 4));
    CHECK(!multiply(&p, NULL, 0, f.a) && !cu.cuStreamSynchronize(f.a) && !cu.cuMemcpyDtoH_v2(&value, d.data, 4));
    CHECK(value == 1 + 1.0f / 1024);
    CHECK(!cu.cuMemcpyHtoD_v2(a.data, &other, 4) && !multiply(&p, NULL, 0, f.a) && !cu.cuStreamSynchronize(f.a) &&
          !cu.cuMemcpyDtoH_v2(&value, d.data, 4));
    CHECK(value == 1);
    end_problem();
    CHECK(end(&f));
}

/* ---- Scales on the device ---- */

/* Both are read when the product is computed. With a beta of 0 C is not read. */
static void scales_on_the_device(void) {
    static const float scales[][2] = {{1, 0.5f}, {2, 1}, {0.25f, 0}};
    const int on_the_device = CUBLASLT_POINTER_MODE_DEVICE, vector = 2;
    cublasLtMatmulHeuristicResult_t found;
    problem p = plain;
    CUdeviceptr scale = 0;
    fixture f;
    REQUIRE(begin(&f));
    for (int i = 0; i < 3; i++) {
        int wrong = 0;
        p.alpha = scales[i][0];
        p.beta = scales[i][1];
        make_problem(&p);
        set_attribute(CUBLASLT_MATMUL_DESC_POINTER_MODE, &vector, 4);
        CHECK(ask(&found) == CUBLAS_STATUS_NOT_SUPPORTED);
        set_attribute(CUBLASLT_MATMUL_DESC_POINTER_MODE, &on_the_device, 4);
        CHECK(!ask(&found) && !cu.cuMemAlloc_v2(&scale, 8));
        if (i == 2) /* leaves C unwritten */
            CHECK(!cu.cuMemFree_v2(c.data) && !cu.cuMemAlloc_v2(&c.data, 4 * MOST));
        CHECK(!cu.cuMemcpyHtoDAsync_v2(scale, scales[i], 8, f.a));
        CHECK(!multiply_scaled(on_device(scale), on_device(scale + 4), &found.algo, found.workspaceSize, f.a));
        CHECK(!cu.cuStreamSynchronize(f.a) && !cu.cuMemFree_v2(scale));
        fetch(&d);
        for (int row = 0; row < p.m; row++)
            for (int column = 0; column < p.n; column++)
                wrong +=
                    !check_element(&p, 0, row, column, p.beta != 0 ? c.values[index_of(&c, 0, row, column)] : 0, 0);
        CHECK_THAT(!wrong, "%d of %d wrong with %g, %g", wrong, p.m * p.n, (double)p.alpha, (double)p.beta);
        end_problem();
    }
    CHECK(end(&f));
}

/* ---- Timing and refusals ---- */

static void products_are_late_and_captured(void) {
    cublasLtMatmulHeuristicResult_t found;
    unsigned char scribbled[4] = {0, 0, 0, 0};
    float before = 0, after = 0;
    CUgraph graph = NULL;
    CUgraphExec exec = NULL;
    fixture f;
    REQUIRE(begin(&f));
    make_problem(&plain);
    CHECK(!cu.cuMemsetD32Async(d.data, 0x41100000, MOST, f.a) && !cu.cuMemsetD8Async(workspace, 0, WORKSPACE, f.a) &&
          !cu.cuStreamSynchronize(f.a));
    CHECK(!ask(&found) && found.workspaceSize == 1024);
    CHECK(multiply(&plain, &found.algo, found.workspaceSize - 1, f.a) == CUBLAS_STATUS_INVALID_VALUE);
    CHECK(!cu.cuStreamBeginCapture_v2(f.a, CU_STREAM_CAPTURE_MODE_RELAXED) &&
          multiply(&plain, &found.algo, WORKSPACE, f.a) && cu.cuStreamEndCapture(f.a, &graph)); /* not loaded yet */
    CHECK(!multiply(&plain, &found.algo, WORKSPACE, f.a) && !cu.cuMemsetD32Async(d.data, 0x41100000, MOST, f.a) &&
          !cu.cuMemsetD8Async(workspace, 0, WORKSPACE, f.a) && !cu.cuStreamSynchronize(f.a));
    CHECK(!cu.cuStreamBeginCapture_v2(f.a, CU_STREAM_CAPTURE_MODE_GLOBAL) &&
          !multiply(&plain, &found.algo, WORKSPACE, f.a) && !cu.cuStreamEndCapture(f.a, &graph));
    CHECK(!cu.cuGraphInstantiateWithFlags(&exec, graph, 0) && !cu.cuGraphDestroy(graph));
    CHECK(!cu.cuMemcpyDtoH_v2(&before, d.data, 4) && before == 9);
    CHECK(!cu.cuGraphLaunch(exec, f.a) && !cu.cuStreamSynchronize(f.a) && !cu.cuGraphExecDestroy(exec));
    CHECK(!cu.cuMemcpyDtoH_v2(&after, d.data, 4) && after != 9 && cu.emulated_cuda_launches() == 2);
    CHECK(!cu.cuMemcpyDtoH_v2(scribbled, workspace + WORKSPACE - 4, 4) && scribbled[3] == 0xff);
    end_problem();
    CHECK(end(&f));
}

static void problems_are_checked(void) {
    cublasLtMatmulHeuristicResult_t found;
    const int wrong_type = CUDA_R_16F, pedantic = CUBLAS_COMPUTE_32F_PEDANTIC, usual = CUBLAS_COMPUTE_32F, one = 1,
              zero = 0;
    const uint64_t rows = 5, right_rows = 4;
    const unsigned relu = 2, none = CUBLASLT_EPILOGUE_DEFAULT, with_bias = CUBLASLT_EPILOGUE_BIAS;
    fixture f;
    REQUIRE(begin(&f));
    make_problem(&plain);
    CHECK(!ask(&found));
    set_attribute(CUBLASLT_MATMUL_DESC_COMPUTE_TYPE, &pedantic, 4);
    CHECK(multiply(&plain, &found.algo, WORKSPACE, f.a) == CUBLAS_STATUS_NOT_SUPPORTED);
    set_attribute(CUBLASLT_MATMUL_DESC_COMPUTE_TYPE, &usual, 4);
    set_attribute(CUBLASLT_MATMUL_DESC_EPILOGUE, &relu, 4);
    CHECK(ask(&found) == CUBLAS_STATUS_NOT_SUPPORTED);
    set_attribute(CUBLASLT_MATMUL_DESC_EPILOGUE, &with_bias, 4);
    CHECK(!ask(&found) && multiply(&plain, &found.algo, WORKSPACE, f.a) == CUBLAS_STATUS_INVALID_VALUE);
    set_attribute(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, &wrong_type, 4);
    CHECK(ask(&found) == CUBLAS_STATUS_NOT_SUPPORTED);
    set_attribute(CUBLASLT_MATMUL_DESC_EPILOGUE, &none, 4);
    set_attribute(CUBLASLT_MATMUL_DESC_TRANSC, &one, 4);
    CHECK(ask(&found) == CUBLAS_STATUS_NOT_SUPPORTED);
    set_attribute(CUBLASLT_MATMUL_DESC_TRANSC, &zero, 4);
    CHECK(!lt.cublasLtMatrixLayoutSetAttribute(a.layout, CUBLASLT_MATRIX_LAYOUT_TYPE, &wrong_type, 4));
    CHECK(ask(&found) == CUBLAS_STATUS_NOT_SUPPORTED);
    CHECK(!lt.cublasLtMatrixLayoutSetAttribute(a.layout, CUBLASLT_MATRIX_LAYOUT_TYPE, &plain.input, 4) &&
          !lt.cublasLtMatrixLayoutSetAttribute(a.layout, CUBLASLT_MATRIX_LAYOUT_ROWS, &rows, 8));
    CHECK(ask(&found) == CUBLAS_STATUS_INVALID_VALUE);
    CHECK(lt.cublasLtMatrixLayoutSetAttribute(a.layout, CUBLASLT_MATRIX_LAYOUT_ROWS, &rows, 4) ==
          CUBLAS_STATUS_INVALID_VALUE);
    CHECK(!lt.cublasLtMatrixLayoutSetAttribute(a.layout, CUBLASLT_MATRIX_LAYOUT_ROWS, &right_rows, 8) && !ask(&found));
    end_problem();
    CHECK(end(&f));
}

static void write_over_an_input(fixture *f) {
    make_problem(&plain);
    cu.cuMemFree_v2(d.data);
    d.data = b.data;
    multiply(&plain, NULL, 0, f->a);
}

static void write_aux_over_the_bias(fixture *f) {
    problem p = plain;
    p.epilogue = CUBLASLT_EPILOGUE_GELU_AUX_BIAS;
    make_problem(&p);
    set_attribute(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, &bias.data, 8);
    multiply(&p, NULL, 0, f->a);
}

static void read_what_nobody_wrote(fixture *f) {
    make_problem(&plain);
    cu.cuMemFree_v2(a.data);
    cu.cuMemAlloc_v2(&a.data, 4 * MOST);
    multiply(&plain, NULL, 0, f->a);
    cu.cuStreamSynchronize(f->a);
}

static void scale_by_what_nobody_wrote(fixture *f) {
    const int on_the_device = CUBLASLT_POINTER_MODE_DEVICE;
    CUdeviceptr scale = 0;
    make_problem(&plain);
    set_attribute(CUBLASLT_MATMUL_DESC_POINTER_MODE, &on_the_device, 4);
    cu.cuMemAlloc_v2(&scale, 8);
    multiply_scaled(on_device(scale), on_device(scale + 4), NULL, 0, f->a);
    cu.cuStreamSynchronize(f->a);
}

static void scale_by_what_it_writes(fixture *f) {
    const int on_the_device = CUBLASLT_POINTER_MODE_DEVICE;
    make_problem(&plain);
    set_attribute(CUBLASLT_MATMUL_DESC_POINTER_MODE, &on_the_device, 4);
    multiply_scaled(on_device(a.data), on_device(d.data), NULL, 0, f->a);
}

static void free_too_early(fixture *f) {
    make_problem(&plain);
    multiply(&plain, NULL, 0, f->a);
    cu.cuMemFree_v2(a.data);
}

static void broken_rules_of_products(void) {
    CHECK_ENDS(write_over_an_input, "a product writes over what it reads");
    CHECK_ENDS(write_aux_over_the_bias, "a product writes over");
    CHECK_ENDS(read_what_nobody_wrote, "a product reads an input that nobody wrote");
    CHECK_ENDS(scale_by_what_nobody_wrote, "a product reads an alpha or a beta that nobody wrote");
    CHECK_ENDS(scale_by_what_it_writes, "a product writes over what it reads");
    CHECK_ENDS(free_too_early, "memory is freed that queued operations use");
}

/* A bias has the type of D. */
static void biases_have_the_type_of_d(void) {
    static const int types[][3] = {{CUDA_R_16BF, CUDA_R_16BF, CUDA_R_32F},
                                   {CUDA_R_16F, CUDA_R_16F, CUDA_R_32F},
                                   {CUDA_R_16BF, CUDA_R_32F, CUDA_R_16BF}};
    cublasLtMatmulHeuristicResult_t found;
    problem p = plain;
    fixture f;
    REQUIRE(begin(&f));
    p.epilogue = CUBLASLT_EPILOGUE_BIAS;
    for (int i = 0; i < 3; i++) {
        p.input = types[i][0];
        p.output = types[i][1];
        make_problem(&p);
        CHECK(!ask(&found));
        set_attribute(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, &types[i][2], 4);
        CHECK(ask(&found) == CUBLAS_STATUS_NOT_SUPPORTED);
        end_problem();
    }
    CHECK(end(&f));
}

/* An algorithm may need the promised alignment, which defaults to 256 bytes, and the alignment of the bias for which it
   was found. */
static void alignment_is_kept(void) {
    const uint32_t least = 4;
    cublasLtMatmulHeuristicResult_t found;
    problem p = plain;
    fixture f;
    REQUIRE(begin(&f));
    make_problem(&plain);
    CHECK(!ask(&found) && !multiply(&plain, &found.algo, WORKSPACE, f.a));
    b.data += 4;
    CHECK(multiply(&plain, &found.algo, WORKSPACE, f.a) == CUBLAS_STATUS_INVALID_VALUE);
    CHECK(!lt.cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, &least, 4));
    CHECK(!ask(&found) && !multiply(&plain, &found.algo, WORKSPACE, f.a) && !cu.cuStreamSynchronize(f.a));
    b.data -= 4;
    end_problem();
    p.epilogue = CUBLASLT_EPILOGUE_BIAS;
    make_problem(&p);
    CHECK(!ask(&found));
    bias.data += 16;
    set_attribute(CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias.data, 8);
    CHECK(multiply(&p, &found.algo, WORKSPACE, f.a) == CUBLAS_STATUS_INVALID_VALUE);
    CHECK(!ask(&found) && !multiply(&p, &found.algo, WORKSPACE, f.a) && !cu.cuStreamSynchronize(f.a));
    bias.data -= 16;
    end_problem();
    CHECK(end(&f));
}

static void calls_fail_as_told(void) {
    cublasLtMatmulHeuristicResult_t found;
    fixture f;
    REQUIRE(begin(&f));
    make_problem(&plain);
    CHECK(!ask(&found));
    setenv("EITP_EMULATED_CUBLASLT_FAIL", "cublasLtMatmul:2", 1);
    CHECK(!multiply(&plain, &found.algo, WORKSPACE, f.a));
    CHECK(multiply(&plain, &found.algo, WORKSPACE, f.a) == CUBLAS_STATUS_INTERNAL_ERROR);
    CHECK(!multiply(&plain, &found.algo, WORKSPACE, f.a));
    setenv("EITP_EMULATED_CUBLASLT_FAIL", "1:15", 1);
    CHECK(ask(&found) == CUBLAS_STATUS_NOT_SUPPORTED);
    unsetenv("EITP_EMULATED_CUBLASLT_FAIL");
    CHECK(!cu.cuStreamSynchronize(f.a));
    end_problem();
    CHECK(end(&f));
}

int main(int argc, char **argv) {
    static const test_case tests[] = {
        TEST(products_are_right),        TEST(epilogues_are_right),
        TEST(tf32_has_ten_bits),         TEST(products_are_late_and_captured),
        TEST(problems_are_checked),      TEST(broken_rules_of_products),
        TEST(calls_fail_as_told),        TEST(scales_on_the_device),
        TEST(alignment_is_kept),         TEST(gelu_of_unrounded_sums),
        TEST(biases_have_the_type_of_d),
    };
    open_driver();
    open_products();
    return RUN_TESTS(tests, argc, argv);
}
