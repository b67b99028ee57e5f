/* Compatibility decompositions (The Unicode Standard, section 3.7) and word characters, from tables of numbers encoded
   as text. */
#include "base/unicode.h"

#include "base/packed_tables.inc"

/* Reads a number: five bits per character, lowest first; the last character is below 32. */
static uint32_t eitp__read_packed(const char **text) {
    uint32_t value = 0, digit;
    unsigned shift = 0;
    do {
        digit = (uint32_t)(unsigned char)*(*text)++ - '#';
        value |= (digit & 31) << shift;
        shift += 5;
    } while (digit > 31);
    return value;
}

/* Reads a difference from `before`. */
static uint32_t eitp__read_packed_step(const char **text, uint32_t before) {
    const uint32_t number = eitp__read_packed(text);
    return number & 1 ? before - (number + 1) / 2 : before + number / 2;
}

/* Decomposes the code point at `index` in a group. */
static size_t eitp__read_group(const char *text, uint32_t index, uint32_t *parts) {
    uint32_t first = 0, length = 0;
    for (uint32_t i = 0; i <= index; i++) {
        length = eitp__read_packed(&text);
        for (uint32_t k = 0; k < length; k++)
            parts[k] = eitp__read_packed_step(&text, k ? parts[k - 1] : first);
        first = length ? parts[0] : first;
    }
    return length;
}

EITP__PRIVATE size_t eitp__unicode_decompose_compatibly(uint32_t code_point,
                                                        uint32_t parts[EITP__UNICODE_COMPATIBLE_PARTS]) {
    size_t low = 0, high = EITP__COUNT(eitp__unicode_compatible), length = 0;
    while (high - low > 1) { /* the last group that starts at or before the code point is in [low, high) */
        const size_t middle = (low + high) / 2;
        if (eitp__unicode_compatible[middle].first <= code_point)
            low = middle;
        else
            high = middle;
    }
    if (code_point - eitp__unicode_compatible[low].first < eitp__unicode_compatible[low].count)
        length = eitp__read_group(eitp__unicode_compatible[low].parts, code_point - eitp__unicode_compatible[low].first,
                                  parts);
    return length ? length : eitp__unicode_decompose(code_point, parts);
}

EITP__PRIVATE int eitp__unicode_is_word(uint32_t code_point) {
    const char *text = eitp__unicode_word_steps;
    int is_word = 0;
    for (uint32_t place = 0; *text; is_word = !is_word) {
        place += eitp__read_packed(&text);
        if (place > code_point)
            break;
    }
    return is_word;
}
