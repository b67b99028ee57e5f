/* Conversions between floating-point types, checksums, sorting. */
#include "tests/support/everything.h"

#include "base/checksum.h"
#include "base/convert.h"
#include "base/random.h"
#include "base/sort.h"

#include "tests/support/faults.h"

/* The value of an f16 according to the format's definition. */
static double f16_by_definition(unsigned bits) {
    int exponent = (int)(bits >> 10 & 31), fraction = (int)(bits & 1023);
    double magnitude = exponent ? ldexp(1024 + fraction, exponent - 25) : ldexp(fraction, -24);
    return bits & 0x8000 ? -magnitude : magnitude;
}

static void f16_widens_exactly(void) {
    for (unsigned bits = 0; bits < 0x10000; bits++) {
        float value = eitp__f16_to_f32((uint16_t)bits);
        if ((bits & 0x7fff) > 0x7c00)
            CHECK(isnan(value));
        else if ((bits & 0x7fff) == 0x7c00)
            CHECK(isinf(value) && !signbit(value) == !(bits & 0x8000));
        else
            CHECK_THAT((double)value == f16_by_definition(bits) && !signbit(value) == !(bits & 0x8000), "%04x", bits);
    }
}

static void f16_rounds_to_nearest_even(void) {
    for (unsigned bits = 0; bits < 0x7bff; bits++) {
        float low = eitp__f16_to_f32((uint16_t)bits), high = eitp__f16_to_f32((uint16_t)(bits + 1));
        float middle = (low + high) / 2; /* exact: f32 has 13 more bits */
        unsigned even = bits & 1 ? bits + 1 : bits;
        CHECK_THAT(eitp__f32_to_f16(low) == bits, "%04x", bits);
        CHECK_THAT(eitp__f32_to_f16(middle) == even, "%04x", bits);
        CHECK_THAT(eitp__f32_to_f16(-middle) == (0x8000 | even), "%04x", bits);
        CHECK_THAT(eitp__f32_to_f16(nextafterf(middle, 0.0f)) == bits, "%04x", bits);
        CHECK_THAT(eitp__f32_to_f16(nextafterf(middle, 1e9f)) == bits + 1, "%04x", bits);
    }
    CHECK(eitp__f32_to_f16(65519.99f) == 0x7bff);
    CHECK(eitp__f32_to_f16(65520.0f) == 0x7c00);
    CHECK(eitp__f32_to_f16(3e38f) == 0x7c00);
    CHECK(eitp__f32_to_f16(-INFINITY) == 0xfc00);
    CHECK(eitp__f32_to_f16(1e-30f) == 0);
    CHECK(eitp__f32_to_f16(-0.0f) == 0x8000);
}

static void bf16_rounds_to_nearest_even(void) {
    for (unsigned bits = 0; bits < 0x7f7f; bits++) {
        float low = eitp__bf16_to_f32((uint16_t)bits), high = eitp__bf16_to_f32((uint16_t)(bits + 1));
        float middle = (float)(((double)low + (double)high) / 2);
        unsigned even = bits & 1 ? bits + 1 : bits;
        CHECK_THAT(eitp__f32_to_bf16(low) == bits, "%04x", bits);
        CHECK_THAT(eitp__f32_to_bf16(middle) == even, "%04x", bits);
        CHECK_THAT(eitp__f32_to_bf16(-middle) == (0x8000 | even), "%04x", bits);
        CHECK_THAT(eitp__f32_to_bf16(nextafterf(middle, 0.0f)) == bits, "%04x", bits);
        CHECK_THAT(eitp__f32_to_bf16(nextafterf(middle, INFINITY)) == bits + 1, "%04x", bits);
    }
    CHECK(eitp__f32_to_bf16(3.4028235e38f) == 0x7f80);
    CHECK(eitp__f32_to_bf16(INFINITY) == 0x7f80);
}

static void nan_stays_nan(void) {
    /* NaNs with both signs and with payloads that fit, do not fit, or would carry into the exponent. */
    static const uint32_t cases[] = {0x7fc00000, 0xffc00000, 0x7f800001, 0x7fffffff, 0xff812345, 0x7fc02000};
    for (size_t i = 0; i < EITP__COUNT(cases); i++) {
        float value;
        memcpy(&value, &cases[i], sizeof value);
        uint16_t half = eitp__f32_to_f16(value), brain = eitp__f32_to_bf16(value);
        CHECK((half & 0x7e00) == 0x7e00 && (brain & 0x7fc0) == 0x7fc0);
        CHECK((half & 0x8000) == (cases[i] >> 16 & 0x8000) && (brain & 0x8000) == (cases[i] >> 16 & 0x8000));
        CHECK((half & 0x1ff) == (cases[i] >> 13 & 0x1ff) && (brain & 0x3f) == (cases[i] >> 16 & 0x3f));
    }
}

static void arrays_convert_like_single_values(void) {
    static const eitp_dtype dtypes[] = {EITP_F32, EITP_F64, EITP_F16, EITP_BF16};
    float values[100], back[100];
    unsigned char bytes[801];
    for (size_t i = 0; i < 100; i++)
        values[i] = eitp__bf16_to_f32((uint16_t)(0x3f80 + i)); /* exact in every format: 1 to 2, at most 8 bits */
    for (size_t i = 0; i < EITP__COUNT(dtypes); i++) {
        CHECK(eitp__is_floating(dtypes[i]));
        memset(bytes, 0xee, sizeof bytes);
        memset(back, 0, sizeof back);
        eitp__convert_from_f32(dtypes[i], values, bytes + 1, 100);
        CHECK(bytes[0] == 0xee);
        CHECK(dtypes[i] == EITP_F64 || bytes[1 + 100 * eitp_dtype_size(dtypes[i])] == 0xee);
        eitp__convert_to_f32(dtypes[i], bytes + 1, back, 100);
        CHECK(!memcmp(values, back, sizeof values));
    }
    CHECK(!eitp__is_floating(EITP_I32) && !eitp__is_floating(EITP_U8));
}

/* Computes the CRC bit by bit from the polynomial. */
static uint32_t crc32c_by_definition(uint32_t crc, const unsigned char *data, size_t size) {
    crc = ~crc;
    for (size_t i = 0; i < size; i++) {
        crc ^= data[i];
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (crc & 1 ? 0x82f63b78u : 0);
    }
    return ~crc;
}

static void crc32c_matches_the_standard(void) {
    unsigned char bytes[32];
    CHECK(eitp__crc32c(0, "", 0) == 0);
    CHECK(eitp__crc32c(0, "123456789", 9) == 0xe3069283u);
    /* RFC 3720, B.4 */
    memset(bytes, 0, sizeof bytes);
    CHECK(eitp__crc32c(0, bytes, 32) == 0x8a9136aau);
    memset(bytes, 0xff, sizeof bytes);
    CHECK(eitp__crc32c(0, bytes, 32) == 0x62a8ab43u);
    for (unsigned i = 0; i < 32; i++)
        bytes[i] = (unsigned char)i;
    CHECK(eitp__crc32c(0, bytes, 32) == 0x46dd794eu);
}

static void crc32c_can_be_computed_in_pieces(void) {
    unsigned char bytes[3000];
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (unsigned char)eitp__random_bits(1, 0, 7, i);
    for (size_t begin = 0; begin < 9; begin++) {
        for (size_t size = 0; size < 40; size++)
            CHECK(eitp__crc32c(0, bytes + begin, size) == crc32c_by_definition(0, bytes + begin, size));
        for (size_t size = 0; size < 40; size++)
            CHECK(~eitp__crc32c_by_table(~0u, bytes + begin, size) == crc32c_by_definition(0, bytes + begin, size));
    }
    uint32_t whole = crc32c_by_definition(0, bytes, sizeof bytes), pieces = 0;
    for (size_t at = 0, size = 0; at < sizeof bytes; at += size) {
        size = (size_t)eitp__random_bits(2, 0, 7, at) % 50;
        if (size > sizeof bytes - at)
            size = sizeof bytes - at;
        pieces = eitp__crc32c(pieces, bytes + at, size);
    }
    CHECK(pieces == whole);
    CHECK(eitp__crc32c(0, bytes, sizeof bytes) == whole);
    for (size_t first = 0; first <= sizeof bytes; first += first < 20 || first > 2970 ? 1 : 67) {
        const uint32_t second = eitp__crc32c(0, bytes + first, sizeof bytes - first);
        CHECK(eitp__crc32c_join(eitp__crc32c(0, bytes, first), second, sizeof bytes - first) == whole);
    }
}

/* Sizes at which long runs of bytes are summed in parallel. */
static void crc32c_of_long_runs(void) {
    static const size_t sizes[] = {12287, 12288, 12289, 12295, 24575, 24576, 24577, 40003};
    unsigned char *bytes = (unsigned char *)malloc(40011);
    REQUIRE(bytes != NULL);
    for (size_t i = 0; i < 40011; i++)
        bytes[i] = (unsigned char)eitp__random_bits(3, 0, 7, i);
    for (size_t begin = 0; begin < 8; begin += 7) {
        for (size_t i = 0; i < EITP__COUNT(sizes); i++) {
            const uint32_t expected = crc32c_by_definition(17, bytes + begin, sizes[i]);
            CHECK_THAT(eitp__crc32c(17, bytes + begin, sizes[i]) == expected, "%zu bytes", sizes[i]);
        }
    }
    free(bytes);
}

static long comparisons;

static int compare_first_byte(const void *a, const void *b) {
    comparisons++;
    return (int)*(const unsigned char *)a - (int)*(const unsigned char *)b;
}

static int compare_integers(const void *a, const void *b) {
    uint32_t left, right;
    comparisons++;
    memcpy(&left, a, sizeof left);
    memcpy(&right, b, sizeof right);
    return left < right ? -1 : left > right;
}

static void sorts_items_of_any_size(void) {
    static const size_t sizes[] = {1, 3, 8, 64, 65, 150};
    unsigned char items[200 * 150];
    for (size_t s = 0; s < EITP__COUNT(sizes); s++) {
        for (size_t count = 0; count < 200; count += 7) {
            size_t size = sizes[s], sum = 0, sorted_sum = 0;
            /* All bytes of an item are equal, so mixed items are detected. */
            for (size_t i = 0; i < count; i++) {
                unsigned char value = (unsigned char)eitp__random_bits(3, count, 7, i);
                memset(items + i * size, value, size);
                sum += value;
            }
            eitp__sort(items, count, size, compare_first_byte);
            for (size_t i = 0; i < count; i++) {
                sorted_sum += items[i * size];
                CHECK(i == 0 || items[(i - 1) * size] <= items[i * size]);
                for (size_t k = 1; k < size; k++)
                    CHECK(items[i * size + k] == items[i * size]);
            }
            CHECK(sum == sorted_sum);
        }
    }
}

static void sorts_every_order_in_n_log_n(void) {
    enum { COUNT = 4096 };
    static uint32_t items[COUNT];
    for (int order = 0; order < 5; order++) {
        for (uint32_t i = 0; i < COUNT; i++) {
            uint32_t values[5];
            values[0] = i;
            values[1] = COUNT - i;
            values[2] = 7;
            values[3] = i < COUNT / 2 ? i : COUNT - i;
            values[4] = (uint32_t)eitp__random_bits(4, 0, 7, i);
            items[i] = values[order];
        }
        comparisons = 0;
        eitp__sort(items, COUNT, sizeof items[0], compare_integers);
        CHECK_THAT(comparisons < 3L * COUNT * 12, "%ld comparisons", comparisons);
        for (uint32_t i = 1; i < COUNT; i++)
            CHECK(items[i - 1] <= items[i]);
    }
}

int main(int argc, char **argv) {
    static const test_case tests[] = {
        TEST(f16_widens_exactly),
        TEST(f16_rounds_to_nearest_even),
        TEST(bf16_rounds_to_nearest_even),
        TEST(nan_stays_nan),
        TEST(arrays_convert_like_single_values),
        TEST(crc32c_matches_the_standard),
        TEST(crc32c_can_be_computed_in_pieces),
        TEST(crc32c_of_long_runs),
        TEST(sorts_items_of_any_size),
        TEST(sorts_every_order_in_n_log_n),
    };
    return RUN_TESTS(tests, argc, argv);
}
