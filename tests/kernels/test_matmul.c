/* The matrix product and the head compared with sums in double, on every kernel set that this machine can run. */
#include "tests/support/products.h"

#include "backends/cuda/cuda.h"

#include "tests/support/cuda_calls.h"

/* cuBLASLt rounds intermediate values to the type of a 16-bit y. */
static int rounds_on_cuda(const eitp__call *call) {
    return eitp__wide(call->outputs[0].dtype) != call->outputs[0].dtype &&
           eitp__cuda_blas_takes(&eitp__cuda_of(cuda_device)->blas, call);
}

static void register_set(eitp__kernel_table *table, eitp__isa isa) {
    static void (*const writers[EITP__ISA_COUNT])(eitp__kernel_table *) = {
#define REGISTER(isa, name, in_build, f32, bf16, group) eitp__register_##name##_kernels,
        EITP__ISAS(REGISTER)
#undef REGISTER
    };
    for (int i = 0; i <= (int)isa; i++)
        writers[i](table);
}

static void find_sets(void) {
    eitp__openblas_core core;
    eitp_error error;
    product_set *best = NULL;
    if (uses_cuda()) {
        best = &sets[set_count++];
        best->name = "cuda";
        rounds = rounds_on_cuda;
        cuda_register_kernels(&best->table);
        head_block = cuda_device->interface->head_block;
        return;
    }
    for (int i = 0; i < EITP__ISA_COUNT; i++) {
        const char *name = eitp__isa_name((eitp__isa)i);
        if (!eitp__isa_available((eitp__isa)i)) {
            printf("    skipped, not on this processor: %s\n", name);
            continue;
        }
        best = &sets[set_count++];
        best->name = name;
        best->step = i == EITP__ISA_AMX ? 32 : i == EITP__ISA_AVX512BF16 ? 2 : 1;
        register_set(&best->table, (eitp__isa)i);
        printf("    tested: %s\n", name);
    }
    sets[set_count] = *best;
    sets[set_count].name = "openblas";
    sets[set_count].step = 0;
    if (eitp__register_openblas_kernels(&sets[set_count].table, &core, &error))
        printf("SKIPPED products by openblas: %s\n", error.message);
    else
        printf("    tested: %s\n", sets[set_count++].name);
}

/* Sets with fused multiply-add and one chain per element agree bit for bit, regardless of their blocks. */
static void test_sets_agree(void) {
    enum { M = 133, N = 150, K = 300 };
    static float y[2][M * N];
    product_case at = product(EITP_F32, M, N, K);
    eitp__call call = matmul_call(&at);
    if (uses_cuda() || !eitp__isa_available(EITP__ISA_AVX512))
        return;
    for (int s = 0; s < 2; s++) {
        call.outputs[0].data = y[s];
        run_all(&sets[EITP__ISA_AVX2 + s].table.kernels[EITP__SLOT_MATMUL][EITP_F32], &call);
    }
    CHECK(memcmp(y[0], y[1], sizeof y[0]) == 0);
}

/* On a device, each operand in turn starts at an unaligned base, in products whose rows are whole vectors. */
static void test_bases(void) {
    for (size_t c = 0; uses_cuda() && c < EITP__COUNT(dtypes); c += dtype_step)
        for (int choice = 0; choice < 8; choice++) {
            product_case at = product(dtypes[c], 72, 80, 64);
            eitp__call call;
            at.transpose_a = choice & 1;
            at.transpose_b = choice >> 1 & 1;
            if (choice >> 2) {
                at.y = at.dtype;
                at.has_bias = at.has_before = 1;
                at.epilogue = EITP__EPILOGUE_ADD;
            }
            call = matmul_call(&at);
            while (cuda_displace_next(&call))
                every_set(&at);
            every_set(&at);
        }
}

/* Logits are stored in rows that start anywhere. */
static void test_head_bases(void) {
    static head_memory at;
    int32_t targets[HEAD_ROWS];
    const eitp__kernel *kernel = kernel_of(&sets[0], EITP__SLOT_HEAD, EITP_BF16);
    const eitp__call call = head_call(EITP_BF16, 33, 200, 64, 200, targets, &at);
    while (uses_cuda() && cuda_displace_next(&call))
        check_head(kernel, EITP_BF16, 33, 200, 64, 200);
}

/*
 * On a device, products as in models: whole tiles and vectors, or edges in one dimension, in the forms of layers, of
 * the head and of their gradients. Tiles are of 128 x 128, 64 x 64 or, with few rows, 16 x 32.
 */
static void test_products_of_models(void) {
    static const struct {
        int64_t m, n, k, stride;
        int transposes, carry, is_wide, has_bias, all_types; /* transposes: 1 a, 2 b; all_types: F16 too */
    } cases[] = {
        {128, 256, 128, 0, 0, 0, 0, 1, 0}, {128, 256, 128, 0, 2, 0, 0, 0, 0},  /* a layer, the gradient of its input */
        {256, 128, 128, 0, 1, 0, 1, 0, 0}, {128, 128, 2048, 0, 1, 0, 1, 0, 0}, /* and of its weight */
        {16, 16, 2048, 0, 1, 0, 1, 0, 0},  {16, 16, 2048, 0, 1, 4, 1, 0, 0},   {16, 16, 64, 0, 1, 4, 1, 0, 0},
        {128, 201, 128, 0, 2, 0, 1, 0, 0}, /* logits, the gradients of their factors */
        {128, 256, 136, 0, 0, 0, 0, 0, 0}, {128, 256, 131, 0, 0, 0, 0, 0, 0},  {200, 128, 128, 0, 1, 0, 1, 0, 0},
        {201, 128, 128, 0, 1, 0, 1, 0, 0}, {64, 64, 70, 128, 0, 0, 0, 0, 0},   {70, 64, 64, 128, 1, 0, 1, 0, 0},
        {70, 64, 64, 128, 1, 4, 1, 0, 0},  {64, 64, 64, 0, 1, 1, 1, 0, 0},     {64, 64, 64, 0, 1, 4, 1, 0, 0},
        {64, 128, 128, 0, 0, 0, 0, 0, 0},  {1, 131, 512, 0, 2, 0, 1, 0, 0},    {1, 128, 512, 0, 2, 0, 1, 0, 0},
        {64, 264, 16, 0, 0, 0, 0, 1, 1},   {520, 8, 8, 0, 0, 0, 0, 0, 0},    /* a long bias, more than 8 tiles down */
        {66, 128, 2048, 0, 1, 0, 1, 0, 0}, {64, 64, 2048, 0, 1, 0, 1, 0, 0}, /* in parts, with little memory */
        {64, 128, 131, 0, 0, 0, 0, 0, 0},  {50, 128, 128, 0, 1, 0, 1, 0, 0},   {64, 128, 128, 0, 2, 0, 0, 0, 0},
    };
    for (size_t c = 0; uses_cuda() && c < EITP__COUNT(dtypes); c++)
        for (size_t i = 0; i < EITP__COUNT(cases) && dtypes[c] != EITP_F64; i++) {
            product_case at = product(dtypes[c], cases[i].m, cases[i].n, cases[i].k);
            if (c % dtype_step && !cases[i].all_types)
                continue;
            at.y = cases[i].is_wide ? at.y : at.dtype;
            at.stride = cases[i].stride;
            at.transpose_a = cases[i].transposes & 1;
            at.transpose_b = cases[i].transposes >> 1;
            at.carry = cases[i].carry;
            at.has_bias = cases[i].has_bias;
            every_set(&at);
        }
}

/* On a device, every epilogue where rows of y are whole vectors. */
static void test_ends_of_products(void) {
    for (size_t c = 0; uses_cuda() && c < EITP__COUNT(dtypes); c += dtype_step)
        for (int choice = 0; choice < EITP__EPILOGUE_COUNT * 8; choice++) {
            product_case at = product(dtypes[c], 5, 8, 8);
            at.y = dtypes[c];
            at.transpose_b = choice & 1;
            at.has_bias = choice >> 1 & 1;
            at.has_before = choice >> 2 & 1;
            at.epilogue = (eitp__epilogue)(choice >> 3);
            every_set(&at);
        }
}

/* The products that cuBLASLt ends with GELU, or with its derivative, on some devices: there, each has a workspace of 32
   MiB. */
static void test_fused_gelu(void) {
    for (size_t c = 0; uses_cuda() && c < EITP__COUNT(dtypes); c += dtype_step)
        for (int form = 0; form < 3 && dtypes[c] != EITP_F64; form++) {
            product_case at = product(dtypes[c], 5, 8, 8);
            at.y = dtypes[c];
            at.transpose_b = form == 2;
            at.has_bias = form < 2;
            at.has_before = form == 1;
            at.epilogue = form == 2 ? EITP__EPILOGUE_GELU_TANH_BACKWARD : EITP__EPILOGUE_GELU_TANH;
            every_set(&at);
        }
}

/* On a device, logits in rows of whole tiles, in padded rows, and in many blocks of columns. */
static void test_head_of_models(void) {
    static const int64_t sizes[][4] = {{128, 256, 128, 256}, {128, 200, 128, 256}, {128, 200, 128, 200},
                                       {5, 640, 8, 640},     {5, 520, 8, 640},     {5, 521, 8, 521}};
    for (int dtype = EITP_BF16; dtype <= EITP_F16 && uses_cuda(); dtype += (int)dtype_step)
        for (size_t i = 0; i < EITP__COUNT(sizes); i++)
            check_head(kernel_of(&sets[0], EITP__SLOT_HEAD, (eitp_dtype)dtype), (eitp_dtype)dtype, sizes[i][0],
                       sizes[i][1], sizes[i][2], sizes[i][3]);
}

static void test_names(void) {
    CHECK(strcmp(eitp__slot_name(EITP__SLOT_FILL), "FILL") == 0);
    CHECK(strcmp(eitp__slot_name(EITP__SLOT_UPDATE), "UPDATE") == 0);
    CHECK(strcmp(eitp__slot_name(EITP__SLOT_COUNT), "?") == 0);
    CHECK(eitp__slot_family(EITP__SLOT_MATMUL) == EITP__FAMILY_TILES);
    CHECK(eitp__slot_family(EITP__SLOT_COMMIT) == EITP__FAMILY_WHOLE);
    CHECK(eitp__slot_family(EITP__SLOT_COUNT) == EITP__FAMILY_COUNT);
}

int main(int argc, char **argv) {
    static const test_case tests[] = {TEST(test_names),
                                      TEST(test_sizes),
                                      TEST(test_epilogues),
                                      TEST(test_batches),
                                      TEST(test_lower_rank),
                                      TEST(test_empty),
                                      TEST(test_head),
                                      TEST(test_accumulation),
                                      TEST(test_sets_agree),
                                      TEST(test_bases),
                                      TEST(test_head_bases),
                                      TEST(test_products_of_models),
                                      TEST(test_ends_of_products),
                                      TEST(test_fused_gelu),
                                      TEST(test_head_of_models)};
    is_quick = test_is_quick();
    dtype_step = is_quick && uses_cuda() ? 2 : 1; /* of F32 and F64, and of BF16 and F16, only the first */
    find_sets();
    return RUN_TESTS(tests, argc, argv);
}
