/* The models of instructions and the kernels that use them, compiled once for all programs that link them. */
#define TEST_PART 1
#include "tests/support/emulated.h"

#if HAS_EMULATION

#include "kernels/narrow.h"
#include "kernels/spans.h"
#include "tests/support/test.h"

#pragma GCC push_options
#pragma GCC target("avx2,fma,f16c")
#pragma GCC diagnostic ignored "-Wpsabi"

#include "tests/support/emulated_avx512.h"

/* Tiles: a model of eight registers of 16 rows of 64 bytes, in the configured sizes. */
typedef struct emulated_tile {
    int rows, bytes;
    unsigned char data[16][64];
} emulated_tile;

static emulated_tile emulated_tiles[8];
static int emulated_is_configured;

static void emulated_configure(const void *configuration) {
    const unsigned char *bytes = (const unsigned char *)configuration;
    CHECK(bytes[0] == 1);
    for (int i = 0; i < 8; i++) {
        emulated_tiles[i].bytes = bytes[16 + 2 * i] | bytes[17 + 2 * i] << 8;
        emulated_tiles[i].rows = bytes[48 + i];
        CHECK(emulated_tiles[i].bytes <= 64 && emulated_tiles[i].rows <= 16);
        memset(emulated_tiles[i].data, 0, sizeof emulated_tiles[i].data);
    }
    emulated_is_configured = 1;
}

static void emulated_release(void) {
    emulated_is_configured = 0;
}

static void emulated_load(int to, const void *base, size_t stride) {
    emulated_tile *tile = &emulated_tiles[to];
    CHECK(emulated_is_configured);
    memset(tile->data, 0, sizeof tile->data);
    for (int row = 0; row < tile->rows; row++)
        memcpy(tile->data[row], (const char *)base + (size_t)row * stride, (size_t)tile->bytes);
}

static void emulated_store(int from, void *base, size_t stride) {
    const emulated_tile *tile = &emulated_tiles[from];
    CHECK(emulated_is_configured);
    for (int row = 0; row < tile->rows; row++)
        memcpy((char *)base + (size_t)row * stride, tile->data[row], (size_t)tile->bytes);
}

static float emulated_element(const unsigned char *at) {
    uint16_t bits;
    memcpy(&bits, at, sizeof bits);
    return emulated_bf16(bits);
}

static void emulated_zero(int tile) {
    CHECK(emulated_is_configured);
    memset(emulated_tiles[tile].data, 0, sizeof emulated_tiles[tile].data);
}

/* sums += a * b. The first and the second elements of pairs are summed separately. */
static void emulated_multiply(int sums, int a, int b) {
    emulated_tile *c = &emulated_tiles[sums];
    const emulated_tile *x = &emulated_tiles[a], *y = &emulated_tiles[b];
    CHECK(emulated_is_configured && c->rows == x->rows && c->bytes == y->bytes && y->rows == x->bytes / 4);
    for (int i = 0; i < c->rows; i++)
        for (int j = 0; j < c->bytes / 4; j++) {
            float sum, first = 0.0f, second = 0.0f;
            for (int p = 0; p < x->bytes / 4; p++) {
                first = fmaf(emulated_element(x->data[i] + 4 * p), emulated_element(y->data[p] + 4 * j), first);
                second =
                    fmaf(emulated_element(x->data[i] + 4 * p + 2), emulated_element(y->data[p] + 4 * j + 2), second);
            }
            memcpy(&sum, c->data[i] + 4 * j, sizeof sum);
            sum += first + second;
            memcpy(c->data[i] + 4 * j, &sum, sizeof sum);
        }
}

#undef _tile_loadconfig
#undef _tile_release
#undef _tile_zero
#undef _tile_loadd
#undef _tile_stored
#undef _tile_dpbf16ps
#define _tile_loadconfig(configuration) emulated_configure(configuration)
#define _tile_release() emulated_release()
#define _tile_zero(tile) emulated_zero(tile)
#define _tile_loadd(tile, base, stride) emulated_load(tile, base, stride)
#define _tile_stored(tile, base, stride) emulated_store(tile, base, stride)
#define _tile_dpbf16ps(sums, a, b) emulated_multiply(sums, a, b)

#define EITP__EMULATED
#define eitp__avx512_finish_tile emulated_avx512_finish_tile
#define eitp__register_avx512_kernels emulated_register_avx512
#define eitp__register_avx512bf16_kernels emulated_register_avx512bf16
#define eitp__register_amx_kernels emulated_register_amx
#undef EITP__PRIVATE
#define EITP__PRIVATE static EITP__UNUSED
#include "kernels/avx512/avx512.c"
#include "kernels/avx512bf16/avx512bf16.c"
#include "kernels/amx/amx.c"
#pragma GCC pop_options

void emulated_register_sets(eitp__kernel_table *table, eitp__isa isa) {
    eitp__register_ref_kernels(table);
    if (isa >= EITP__ISA_AVX512)
        emulated_register_avx512(table);
    if (isa >= EITP__ISA_AVX512BF16)
        emulated_register_avx512bf16(table);
    if (isa >= EITP__ISA_AMX)
        emulated_register_amx(table);
}

#else

typedef int emulated_nothing; /* ISO C requires a declaration in a file */

#endif
