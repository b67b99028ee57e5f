/* Rounding of values to blocks of GGUF types: the bytes of llama.cpp (tools/golden/make_gguf_rounding.py). */
#include "tests/support/everything.h"
#include "tests/support/test.h"

enum { COUNT = 64 * 256 };

typedef struct expected {
    const char *type, *pattern;
    uint32_t crc;      /* of all blocks */
    const char *first; /* block, in hexadecimal */
} expected;

static const expected golden[] = {
#include "tests/golden/gguf/rounding.txt"
};

/* In the order of the generator, which seeds its random numbers by the index. */
static const char *const patterns[] = {"normal", "heavy",  "constant", "zero", "alternating", "tiny",
                                       "large",  "sparse", "positive", "grid", "uneven",      "any"};

/* ---- The formulas of tools/golden/make_gguf_rounding.py ---- */

static uint32_t random_word(uint64_t pattern, int i) {
    uint32_t words[4];
    eitp__philox(pattern, 0, 1, (uint64_t)i, words);
    return words[2];
}

static int bell(uint64_t pattern, int i) {
    uint32_t words[4];
    eitp__philox(pattern, 0, 1, (uint64_t)i, words);
    return (int)((words[0] & 0xffff) + (words[0] >> 16) + (words[1] & 0xffff) + (words[1] >> 16)) - 131070;
}

static float make_value(uint64_t pattern, int i) {
    const char *name = patterns[pattern];
    const uint32_t word = random_word(pattern, i);
    const int b = bell(pattern, i);
    if (!strcmp(name, "heavy"))
        return ldexpf((float)b, (int)(word & 15) - 30);
    if (!strcmp(name, "constant"))
        return ldexpf((float)bell(pattern, i & ~255), -22);
    if (!strcmp(name, "zero"))
        return i & 1 ? -0.0f : 0.0f;
    if (!strcmp(name, "alternating"))
        return ldexpf((float)bell(pattern, i & ~31), -22) * (i & 1 ? -1.0f : 1.0f);
    if (!strcmp(name, "tiny"))
        return ldexpf((float)b, (i >> 8) * 2 - 149);
    if (!strcmp(name, "large"))
        return (float)b;
    if (!strcmp(name, "sparse"))
        return word & 15 ? 0.0f : ldexpf((float)b, -22);
    if (!strcmp(name, "positive"))
        return ldexpf((float)(abs(b) + 1000), -22);
    if (!strcmp(name, "grid"))
        return ldexpf((float)((b + 131072) / 8192 - 16), -22);
    if (!strcmp(name, "uneven"))
        return ldexpf((float)b, (int)(random_word(pattern, i & ~15) & 15) - 36);
    if (!strcmp(name, "any"))
        return ldexpf((float)b, (int)(word % 200) - 140);
    return ldexpf((float)b, -22);
}

static int pattern_of(const char *name) {
    int p = 0;
    while (p < (int)EITP__COUNT(patterns) && strcmp(patterns[p], name))
        p++;
    return p;
}

/* ---- Tests ---- */

static void check_first_block(const expected *e, const eitp__gguf_type *type, const unsigned char *block) {
    for (int i = 0; i < type->bytes; i++) {
        const char digits[3] = {e->first[2 * i], e->first[2 * i + 1], 0};
        const unsigned long byte = strtoul(digits, NULL, 16);
        CHECK_THAT(block[i] == byte, "%s, %s: byte %d is 0x%02x, expected 0x%02lx", e->type, e->pattern, i, block[i],
                   byte);
        if (block[i] != byte)
            break;
    }
}

static void bytes_equal_llama(void) {
    static float values[COUNT];
    static unsigned char bytes[COUNT * 4];
    int made = -1, rounded = 0;
    for (size_t i = 0; i < EITP__COUNT(golden); i++) {
        const expected *e = &golden[i];
        const eitp__gguf_type *type = eitp__gguf_type_named(e->type);
        const int pattern = pattern_of(e->pattern);
        uint32_t crc;
        REQUIRE(type && type->round && pattern < (int)EITP__COUNT(patterns));
        for (int k = 0; k < COUNT && pattern != made; k++)
            values[k] = make_value((uint64_t)pattern, k);
        made = pattern;
        for (int b = 0; b < COUNT / type->values; b++)
            type->round(values + b * type->values, bytes + b * type->bytes);
        check_first_block(e, type, bytes);
        crc = eitp__crc32c(0, bytes, (size_t)(COUNT / type->values * type->bytes));
        CHECK_THAT(crc == e->crc, "%s, %s: checksum 0x%08x, expected 0x%08x", e->type, e->pattern, crc, e->crc);
        rounded++;
    }
    CHECK(rounded == 120);
}

/* Values that a type holds exactly are unchanged. */
static void widened_values_round_to_themselves(void) {
    static const char *const names[] = {"F32", "F16", "BF16", "Q4_0", "Q5_0", "Q8_0"};
    for (size_t t = 0; t < EITP__COUNT(names); t++) {
        const eitp__gguf_type *type = eitp__gguf_type_named(names[t]);
        float values[32], again[32];
        unsigned char block[EITP__GGUF_BLOCK_BYTES];
        for (int i = 0; i < 32; i++)
            values[i] = (float)(i % 16 - 8) / 64.0f;
        if (!strcmp(names[t], "Q8_0"))
            values[0] = 127.0f / 64.0f;
        for (int i = 0; i < 32; i += type->values) {
            type->round(values + i, block);
            type->widen(block, again + i);
        }
        CHECK_THAT(!memcmp(values, again, sizeof values), "%s", names[t]);
    }
}

/* Callers refuse values that are not finite; rounding them must still be defined and stay within the block. */
static void values_that_are_not_finite_are_harmless(void) {
    static const float bad[] = {INFINITY, -INFINITY, NAN, 3e38f, -3e38f};
    for (uint32_t number = 0; number < 43; number++) {
        const eitp__gguf_type *type = eitp__gguf_type_find(number);
        for (size_t k = 0; type && type->round && k < 2 * EITP__COUNT(bad); k++) {
            float values[EITP__GGUF_BLOCK_VALUES];
            unsigned char block[EITP__GGUF_BLOCK_BYTES];
            for (int i = 0; i < EITP__GGUF_BLOCK_VALUES; i++)
                values[i] = k % 2 && i % 3 ? 0.01f * (float)i : bad[k / 2];
            memset(block, 0x5a, sizeof block);
            type->round(values, block);
            for (size_t i = (size_t)type->bytes; i < sizeof block; i++)
                REQUIRE(block[i] == 0x5a);
        }
    }
}

int main(int argc, char **argv) {
    static const test_case tests[] = {TEST(bytes_equal_llama), TEST(widened_values_round_to_themselves),
                                      TEST(values_that_are_not_finite_are_harmless)};
    return RUN_TESTS(tests, argc, argv);
}
