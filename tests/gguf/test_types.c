/* The data types of GGUF files: names and sizes, and the values of gguf (tools/golden/make_gguf_types.py). */
#include "tests/support/everything.h"
#include "tests/support/test.h"

typedef struct expected {
    const char *name;
    uint32_t number;
    int values, bytes;
    int halves[2]; /* offsets of F16 numbers, or -1 */
    int blocks;    /* 0: known by name only */
    uint32_t crc;  /* of all values */
    struct {
        int index;
        uint32_t bits;
    } shown[4];
} expected;

static const expected golden[] = {
#include "tests/golden/gguf/types.txt"
};

/* ---- The formulas of tools/golden/make_gguf_types.py ---- */

static void adjust_half(unsigned char *half, int which) {
    unsigned bits = (unsigned)eitp__get_number(half, 2);
    if (which == 0)
        bits &= 0x83ff;
    else if (which == 1)
        bits = (bits & 0x8000) | 0x7bff;
    else if (which == 2)
        bits &= 0x8000;
    if ((bits & 0x7c00) == 0x7c00)
        bits ^= 0x4000;
    eitp__put_number(half, 2, bits);
}

static unsigned char *make_blocks(const expected *type) {
    const size_t size = ((size_t)type->blocks * (size_t)type->bytes + 15) / 16 * 16;
    unsigned char *bytes = (unsigned char *)malloc(size);
    for (size_t i = 0; bytes && i < size; i += 16) {
        uint32_t words[4];
        eitp__philox(type->number, 0, 0, i / 16, words);
        for (size_t w = 0; w < 4; w++)
            eitp__put_number(bytes + i + 4 * w, 4, words[w]);
    }
    for (int b = 0; bytes && b < type->blocks; b++) {
        unsigned char *block = bytes + b * type->bytes;
        for (int h = 0; h < 2; h++)
            if (type->halves[h] >= 0)
                adjust_half(block + type->halves[h], (b + 3 * h) % 8);
        if (!strcmp(type->name, "MXFP4"))
            block[0] = (unsigned char)b;
    }
    return bytes;
}

/* ---- Tests ---- */

static void table_has_every_type(void) {
    for (size_t i = 0; i < EITP__COUNT(golden); i++) {
        const expected *e = &golden[i];
        const eitp__gguf_type *type = eitp__gguf_type_find(e->number);
        CHECK_THAT(type != NULL, "%s", e->name);
        if (!type)
            continue;
        CHECK_THAT(!strcmp(type->name, e->name), "%s, expected %s", type->name, e->name);
        CHECK_THAT(type->number == e->number && type->values == e->values && type->bytes == e->bytes,
                   "%s: %d values in %d bytes", type->name, type->values, type->bytes);
        CHECK_THAT(type->values <= EITP__GGUF_BLOCK_VALUES && type->bytes <= EITP__GGUF_BLOCK_BYTES, "%s", type->name);
        CHECK_THAT((type->widen != NULL) == (e->blocks > 0), "%s", type->name);
        CHECK_THAT(eitp__gguf_type_named(e->name) == type, "%s", e->name);
    }
}

static void table_has_no_other_types(void) {
    static const uint32_t unknown[] = {4, 5, 31, 32, 33, 36, 37, 38, 43, 1000, UINT32_MAX};
    for (size_t i = 0; i < EITP__COUNT(unknown); i++)
        CHECK_THAT(!eitp__gguf_type_find(unknown[i]), "%u", unknown[i]);
    CHECK(!eitp__gguf_type_named("") && !eitp__gguf_type_named("Q4") && !eitp__gguf_type_named("Q4_KM"));
}

static void names_ignore_case(void) {
    CHECK(eitp__gguf_type_named("q4_k") == eitp__gguf_type_find(12));
    CHECK(eitp__gguf_type_named("Bf16") == eitp__gguf_type_find(30));
}

static void widen_all(const expected *e, const eitp__gguf_type *type, const unsigned char *bytes, float *values) {
    const size_t count = (size_t)(e->blocks * e->values);
    uint32_t crc;
    for (int b = 0; b < e->blocks; b++)
        type->widen(bytes + b * e->bytes, values + b * e->values);
    for (size_t i = 0; i < EITP__COUNT(e->shown); i++) {
        const uint32_t bits = eitp__bits_of_float(values[e->shown[i].index]);
        CHECK_THAT(bits == e->shown[i].bits, "%s: value %d is 0x%08x, expected 0x%08x", e->name, e->shown[i].index,
                   bits, e->shown[i].bits);
    }
    crc = eitp__crc32c(0, values, count * sizeof *values);
    CHECK_THAT(crc == e->crc, "%s: checksum 0x%08x, expected 0x%08x", e->name, crc, e->crc);
}

static void values_equal_gguf(void) {
    int widened = 0;
    for (size_t i = 0; i < EITP__COUNT(golden); i++) {
        const expected *e = &golden[i];
        const eitp__gguf_type *type = eitp__gguf_type_find(e->number);
        unsigned char *bytes;
        float *values;
        if (!e->blocks)
            continue;
        REQUIRE(type && type->widen);
        bytes = make_blocks(e);
        values = (float *)malloc((size_t)(e->blocks * e->values) * sizeof *values);
        CHECK(bytes && values);
        if (bytes && values)
            widen_all(e, type, bytes, values);
        free(bytes);
        free(values);
        widened++;
    }
    CHECK(widened == 16);
}

int main(int argc, char **argv) {
    static const test_case tests[] = {TEST(table_has_every_type), TEST(table_has_no_other_types),
                                      TEST(names_ignore_case), TEST(values_equal_gguf)};
    return RUN_TESTS(tests, argc, argv);
}
