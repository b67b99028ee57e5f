/* The matrix product: every kernel set that this machine can run, against sums in double. */
#include "backends/cpu/openblas.h"
#include "kernels/ref/matmul.h"

#include "tests/test.h"

#include <sys/mman.h>

enum { SETS = 4, GUARD = 64, LIMIT = 1 << 17 };

typedef struct matmul_set {
    const char *name;
    eitp__kernel_table *table; /* NULL: not here */
    int chains;                /* an element is one chain of additions along k */
} matmul_set;

static eitp__kernel_table tables[SETS];
static matmul_set sets[SETS] = {{"ref", NULL, 1}, {"avx2", NULL, 1}, {"avx512", NULL, 1}, {"openblas", NULL, 0}};

/* Room for the operands of the largest case, for either type. */
static double memory_y[LIMIT + 2 * GUARD], memory_z[LIMIT + 2 * GUARD], exact[LIMIT], before[LIMIT];
static unsigned char workspace_memory[(1 << 20) + 64];
static uint32_t random_state = 1;

static void find_sets(void) {
    eitp__register_ref_matmul(&tables[0]);
    sets[0].table = &tables[0];
#if defined(__x86_64__)
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        sets[1].table = &tables[1];
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512vl"))
        sets[2].table = &tables[2];
#endif
    eitp__register_avx2_kernels(&tables[1]);
    eitp__register_avx512_kernels(&tables[2]);
    if (eitp__register_openblas_kernels(&tables[3]))
        sets[3].table = &tables[3];
    for (int i = 0; i < SETS; i++)
        if (!sets[i].table)
            printf("    skipped: %s, not in this build or not on this processor\n", sets[i].name);
}

/* In [-0.5, 0.5), a multiple of 2^-16. */
static double draw(void) {
    random_state = random_state * 1664525u + 1013904223u;
    return (double)(random_state >> 16) / 65536.0 - 0.5;
}

static double get(const void *array, eitp_dtype dtype, int64_t index) {
    return dtype == EITP_F64 ? ((const double *)array)[index] : (double)((const float *)array)[index];
}

static void put(void *array, eitp_dtype dtype, int64_t index, double value) {
    if (dtype == EITP_F64)
        ((double *)array)[index] = value;
    else
        ((float *)array)[index] = (float)value;
}

static void fill(void *array, eitp_dtype dtype, int64_t count) {
    for (int64_t i = 0; i < count; i++)
        put(array, dtype, i, draw());
}

static eitp__operand operand(void *data, eitp_dtype dtype, int rank, const int64_t *shape) {
    eitp__operand x = EITP__ZERO;
    x.data = data;
    x.dtype = dtype;
    x.rank = rank;
    x.elements = 1;
    for (int i = 0; i < rank; i++) {
        x.shape[i] = shape[i];
        x.elements *= shape[i];
    }
    return x;
}

/* Memory for input `which` that ends where a page starts that must not be read. */
static void *guarded(int which, int64_t elements, eitp_dtype dtype) {
    static char *regions[3];
    const size_t page = 65536, room = LIMIT * sizeof(double);
    if (!regions[which]) {
        void *region = mmap(NULL, room + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (region == MAP_FAILED || mprotect((char *)region + room, page, PROT_NONE)) {
            perror("mmap");
            exit(1);
        }
        regions[which] = (char *)region;
    }
    return regions[which] + room - (size_t)elements * eitp_dtype_size(dtype);
}

static unsigned char *workspace(void) {
    return workspace_memory + (64 - (uintptr_t)workspace_memory % 64) % 64;
}

static int64_t item_count(const eitp__kernel *kernel, const eitp__call *call) {
    eitp__matmul sizes = eitp__matmul_sizes(call);
    return sizes.batch * ((sizes.m + kernel->tile_rows - 1) / kernel->tile_rows) *
           ((sizes.n + kernel->tile_columns - 1) / kernel->tile_columns);
}

static void run_all(const eitp__kernel *kernel, const eitp__call *call) {
    kernel->run(call, 0, item_count(kernel, call), workspace());
}

/* A call whose batch dimensions are those of `batch_a` and `batch_b`, broadcast. */
static eitp__call matmul_call(eitp_dtype dtype, int rank, const int64_t *batch_a, const int64_t *batch_b, int64_t m,
                              int64_t n, int64_t k, int transpose_a, int transpose_b, int with_bias) {
    int64_t a[EITP_MAX_RANK], b[EITP_MAX_RANK], y[EITP_MAX_RANK];
    eitp__call call = EITP__ZERO;
    for (int i = 0; i < rank - 2; i++) {
        a[i] = batch_a[i];
        b[i] = batch_b[i];
        y[i] = batch_a[i] == 1 ? batch_b[i] : batch_a[i];
    }
    a[rank - 2] = transpose_a ? k : m;
    a[rank - 1] = transpose_a ? m : k;
    b[rank - 2] = transpose_b ? n : k;
    b[rank - 1] = transpose_b ? k : n;
    y[rank - 2] = m;
    y[rank - 1] = n;
    call.slot = EITP__SLOT_MATMUL;
    call.dtype = dtype;
    call.input_count = with_bias ? 3 : 2;
    call.output_count = 1;
    call.inputs[0] = operand(NULL, dtype, rank, a);
    call.inputs[1] = operand(NULL, dtype, rank, b);
    call.inputs[2] = operand(NULL, dtype, 1, &n);
    for (int i = 0; i < call.input_count; i++) {
        call.inputs[i].data = guarded(i, call.inputs[i].elements, dtype);
        fill(call.inputs[i].data, dtype, call.inputs[i].elements);
    }
    call.outputs[0] = operand((char *)memory_y + GUARD * eitp_dtype_size(dtype), dtype, rank, y);
    call.integers[0] = transpose_a;
    call.integers[1] = transpose_b;
    return call;
}

/* The product in double, from `before`. */
static void multiply_exactly(const eitp__call *call, double carry) {
    const eitp__operand *x = call->inputs, *y = &call->outputs[0];
    int64_t m = y->shape[y->rank - 2], n = y->shape[y->rank - 1];
    int transpose_a = call->integers[0] != 0, transpose_b = call->integers[1] != 0;
    int64_t k = x[0].shape[x[0].rank - (transpose_a ? 2 : 1)];
    for (int64_t index = 0; index < y->elements; index++) {
        int64_t row = index / n % m, column = index % n, rest = index / (m * n), start[2] = {0, 0};
        int64_t stride[2] = {m * k, k * n};
        for (int i = y->rank - 3; i >= 0; i--) {
            for (int which = 0; which < 2; which++) {
                if (x[which].shape[i] != 1)
                    start[which] += rest % y->shape[i] * stride[which];
                stride[which] *= x[which].shape[i];
            }
            rest /= y->shape[i];
        }
        double sum = carry != 0 ? carry * before[index] : 0;
        if (call->input_count > 2 && x[2].data)
            sum += get(x[2].data, call->dtype, column);
        for (int64_t p = 0; p < k; p++)
            sum += get(x[0].data, call->dtype, start[0] + (transpose_a ? p * m + row : row * k + p)) *
                   get(x[1].data, call->dtype, start[1] + (transpose_b ? column * k + p : p * n + column));
        exact[index] = sum;
    }
}

/* Runs one case on one kernel: values, what is around them, and that the cut into pieces changes no bit. */
static void check_case(const eitp__kernel *kernel, eitp__call *call, int carry_case) {
    static const float carries[] = {0.0f, 1.0f, 0.5f};
    eitp__operand *y = &call->outputs[0];
    eitp_dtype dtype = call->dtype;
    size_t size = eitp_dtype_size(dtype), bytes = (size_t)y->elements * size;
    char *whole = (char *)memory_y, *pieces = (char *)memory_z;
    size_t guarded = bytes + 2 * GUARD * size;
    double carry = 0, error = 0, norm = 0;
    int64_t items = item_count(kernel, call);
    size_t needed = kernel->workspace ? kernel->workspace(call) : 0;
    REQUIRE(needed <= sizeof workspace_memory - 64 - GUARD);
    memset(workspace() + needed, 0x5a, GUARD);

    /* Carry cases: does not accumulate; NULL; 0; 1; 0.5. */
    call->accumulates = carry_case > 0;
    call->carry = carry_case > 1 ? &carries[carry_case - 2] : NULL;
    if (carry_case)
        carry = call->carry ? (double)call->carry[0] : 1;
    memset(whole, 0x5a, guarded);
    for (int64_t i = 0; i < y->elements; i++) {
        before[i] = draw();
        put(y->data, dtype, i, carry == 0 ? (double)NAN : before[i]);
    }
    memcpy(pieces, whole, guarded);
    multiply_exactly(call, carry);

    run_all(kernel, call);
    for (int64_t i = 0; i < y->elements; i++) {
        double value = get(y->data, dtype, i), difference = value - exact[i];
        error += difference * difference;
        norm += exact[i] * exact[i];
    }
    double limit = dtype == EITP_F64 ? 1e-24 : 1e-11;
    CHECK_THAT(error <= limit * norm, "%s %s: NMSE %g", kernel->set, eitp_dtype_name(dtype), error / norm);
    for (size_t i = 0; i < GUARD * size; i++)
        if (whole[i] != 0x5a || whole[guarded - 1 - i] != 0x5a) {
            CHECK_THAT(0, "%s wrote outside its output", kernel->set);
            break;
        }
    for (size_t i = 0; i < GUARD; i++)
        if (workspace()[needed + i] != 0x5a) {
            CHECK_THAT(0, "%s wrote outside its workspace", kernel->set);
            break;
        }

    y->data = pieces + GUARD * size;
    for (int64_t i = items; i > 0; i--)
        kernel->run(call, i - 1, i, workspace());
    CHECK_THAT(memcmp(whole, pieces, guarded) == 0, "%s: its items one by one give other bits", kernel->set);
    y->data = whole + GUARD * size;
}

static void check_shape(const matmul_set *set, eitp_dtype dtype, int rank, const int64_t *batch_a,
                        const int64_t *batch_b, int64_t m, int64_t n, int64_t k) {
    const eitp__kernel *kernel = &set->table->kernels[EITP__SLOT_MATMUL][dtype];
    for (int choice = 0; choice < 40 && kernel->run; choice++) {
        int failures = test_failures_;
        eitp__call call =
            matmul_call(dtype, rank, batch_a, batch_b, m, n, k, choice & 1, choice >> 1 & 1, choice >> 2 & 1);
        check_case(kernel, &call, choice >> 3);
        if (test_failures_ != failures)
            printf("    in %s, %d x %d x %d, transposes %d %d, bias %d, carry case %d\n", set->name, (int)m, (int)n,
                   (int)k, choice & 1, choice >> 1 & 1, choice >> 2 & 1, choice >> 3);
    }
}

static void every_set(int rank, const int64_t *batch_a, const int64_t *batch_b, int64_t m, int64_t n, int64_t k) {
    for (int i = 0; i < SETS; i++) {
        if (!sets[i].table)
            continue;
        check_shape(&sets[i], EITP_F32, rank, batch_a, batch_b, m, n, k);
        check_shape(&sets[i], EITP_F64, rank, batch_a, batch_b, m, n, k);
    }
}

static void test_sizes(void) {
    static const int64_t shapes[][3] = {{1, 1, 1},    {2, 3, 4},       {4, 12, 5},     {5, 13, 7},     {8, 48, 16},
                                        {9, 49, 17},  {7, 24, 31},     {1, 200, 130},  {130, 1, 129},  {128, 96, 128},
                                        {129, 97, 9}, {133, 101, 300}, {260, 200, 33}, {300, 130, 257}};
    for (size_t i = 0; i < EITP__COUNT(shapes); i++)
        every_set(2, NULL, NULL, shapes[i][0], shapes[i][1], shapes[i][2]);
}

static void test_batches(void) {
    static const int64_t batches[][2][2] = {{{2, 3}, {2, 3}}, {{1, 3}, {2, 1}}, {{2, 3}, {1, 1}}, {{1, 1}, {3, 2}}};
    for (size_t i = 0; i < EITP__COUNT(batches); i++) {
        every_set(4, batches[i][0], batches[i][1], 5, 7, 11);
        every_set(4, batches[i][0], batches[i][1], 131, 98, 6);
    }
    /* An operand of lower rank than the output. */
    for (int s = 0; s < SETS; s++) {
        static const int64_t ones[] = {1, 1}, sizes[] = {2, 3};
        if (!sets[s].table)
            continue;
        eitp__call call = matmul_call(EITP_F32, 4, sizes, ones, 3, 4, 5, 0, 0, 0);
        multiply_exactly(&call, 0);
        call.inputs[1] = operand(call.inputs[1].data, EITP_F32, 2, call.inputs[1].shape + 2);
        run_all(&sets[s].table->kernels[EITP__SLOT_MATMUL][EITP_F32], &call);
        for (int64_t i = 0; i < call.outputs[0].elements; i++)
            CHECK(fabs(get(call.outputs[0].data, EITP_F32, i) - exact[i]) < 1e-6);
    }
}

/* No rows: no items. Nothing to sum over: the bias, the carried value, or zeros. */
static void test_empty(void) {
    for (int s = 0; s < SETS; s++) {
        if (!sets[s].table)
            continue;
        const eitp__kernel *kernel = &sets[s].table->kernels[EITP__SLOT_MATMUL][EITP_F32];
        eitp__call call = matmul_call(EITP_F32, 2, NULL, NULL, 0, 5, 6, 0, 0, 0);
        CHECK(item_count(kernel, &call) == 0);
        run_all(kernel, &call);
    }
    every_set(2, NULL, NULL, 3, 50, 0);
}

/* One product over 256 steps is the same bits as two accumulated ones over 128, and whatever else k is cut into. */
static void test_accumulation(void) {
    static const int64_t cuts[][3] = {{128, 128, 0}, {64, 64, 128}, {1, 254, 1}, {100, 56, 100}};
    enum { M = 50, N = 70, K = 256 };
    static float one_product[M * N], parts[M * N];
    for (int s = 0; s < SETS; s++) {
        if (!sets[s].table || !sets[s].chains)
            continue;
        const eitp__kernel *kernel = &sets[s].table->kernels[EITP__SLOT_MATMUL][EITP_F32];
        for (size_t c = 0; c < EITP__COUNT(cuts); c++) {
            eitp__call call = matmul_call(EITP_F32, 2, NULL, NULL, M, N, K, 1, 0, 0);
            float first = 0.0f;
            float *a = (float *)call.inputs[0].data, *b = (float *)call.inputs[1].data;
            memset(parts, 0xff, sizeof parts);
            memset(one_product, 0xff, sizeof one_product);
            call.outputs[0].data = one_product;
            run_all(kernel, &call);
            call.outputs[0].data = parts;
            call.accumulates = 1;
            call.carry = &first;
            for (int64_t part = 0, done = 0; part < 3; done += cuts[c][part], part++, first = 1.0f) {
                call.inputs[0].shape[0] = call.inputs[1].shape[0] = cuts[c][part];
                call.inputs[0].data = a + done * M;
                call.inputs[1].data = b + done * N;
                run_all(kernel, &call);
            }
            CHECK_THAT(memcmp(one_product, parts, sizeof parts) == 0, "%s, cut %d", sets[s].name, (int)c);
        }
    }
}

/* Fused products along one chain: the sets that have them agree to the bit, whatever their blocks are. */
static void test_sets_agree(void) {
    enum { M = 133, N = 150, K = 300 };
    static float y[2][M * N];
    if (!sets[1].table || !sets[2].table)
        return;
    eitp__call call = matmul_call(EITP_F32, 2, NULL, NULL, M, N, K, 0, 1, 0);
    for (int s = 0; s < 2; s++) {
        call.outputs[0].data = y[s];
        run_all(&sets[1 + s].table->kernels[EITP__SLOT_MATMUL][EITP_F32], &call);
    }
    CHECK(memcmp(y[0], y[1], sizeof y[0]) == 0);
}

static void test_names(void) {
    CHECK(strcmp(eitp__slot_name(EITP__SLOT_FILL), "FILL") == 0);
    CHECK(strcmp(eitp__slot_name(EITP__SLOT_ADAMW), "ADAMW") == 0);
    CHECK(strcmp(eitp__slot_name(EITP__SLOT_COUNT), "?") == 0);
    CHECK(eitp__slot_family(EITP__SLOT_MATMUL) == EITP__FAMILY_TILES);
    CHECK(eitp__slot_family(EITP__SLOT_COMMIT) == EITP__FAMILY_WHOLE);
    CHECK(eitp__slot_family(EITP__SLOT_COUNT) == EITP__FAMILY_COUNT);
}

int main(int argc, char **argv) {
    static const test_case tests[] = {TEST(test_names), TEST(test_sizes),        TEST(test_batches),
                                      TEST(test_empty), TEST(test_accumulation), TEST(test_sets_agree)};
    find_sets();
    return RUN_TESTS(tests, argc, argv);
}
