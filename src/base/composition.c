/* Canonical decomposition and composition (The Unicode Standard, sections 3.11 and 3.12). */
#include "base/unicode.h"

#include "base/composition_tables.inc"

enum {
    EITP__HANGUL_FIRST = 0xAC00,
    EITP__HANGUL_LAST = 0xD7A3,
    EITP__HANGUL_LEADS = 0x1100,
    EITP__HANGUL_VOWELS = 0x1161,
    EITP__HANGUL_TAILS = 0x11A7, /* no tail; the first tail is the next code point */
    EITP__HANGUL_VOWEL_COUNT = 21,
    EITP__HANGUL_TAIL_COUNT = 28
};

EITP__PRIVATE unsigned eitp__unicode_combining_class(uint32_t code_point) {
    size_t low = 0, high = EITP__COUNT(eitp__unicode_mark_ranges);
    if (code_point < eitp__unicode_mark_ranges[0].first || (code_point >= 0x3400 && code_point <= 0x9FFF))
        return 0;
    while (high - low > 1) { /* the last range that starts at or before the code point is in [low, high) */
        const size_t middle = (low + high) / 2;
        if (eitp__unicode_mark_ranges[middle].first <= code_point)
            low = middle;
        else
            high = middle;
    }
    return code_point > eitp__unicode_mark_ranges[low].last ? 0 : eitp__unicode_mark_ranges[low].order;
}

static size_t eitp__hangul_parts(uint32_t code_point, uint32_t parts[EITP__UNICODE_PARTS]) {
    const uint32_t index = code_point - EITP__HANGUL_FIRST, tail = index % EITP__HANGUL_TAIL_COUNT;
    parts[0] = EITP__HANGUL_LEADS + index / (EITP__HANGUL_VOWEL_COUNT * EITP__HANGUL_TAIL_COUNT);
    parts[1] = EITP__HANGUL_VOWELS + index / EITP__HANGUL_TAIL_COUNT % EITP__HANGUL_VOWEL_COUNT;
    parts[2] = EITP__HANGUL_TAILS + tail;
    return tail ? 3 : 2;
}

EITP__PRIVATE size_t eitp__unicode_decompose(uint32_t code_point, uint32_t parts[EITP__UNICODE_PARTS]) {
    size_t low = 0, high = EITP__COUNT(eitp__unicode_decompositions);
    parts[0] = code_point;
    if (code_point >= EITP__HANGUL_FIRST && code_point <= EITP__HANGUL_LAST)
        return eitp__hangul_parts(code_point, parts);
    if (code_point < eitp__unicode_decompositions[0].code_point || (code_point >= 0x3400 && code_point <= 0x9FFF))
        return 1;
    while (low < high) {
        const size_t middle = (low + high) / 2;
        if (eitp__unicode_decompositions[middle].code_point < code_point)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == EITP__COUNT(eitp__unicode_decompositions) || eitp__unicode_decompositions[low].code_point != code_point)
        return 1;
    for (size_t i = 0; i < eitp__unicode_decompositions[low].count; i++)
        parts[i] = eitp__unicode_parts[eitp__unicode_decompositions[low].at + i];
    return eitp__unicode_decompositions[low].count;
}

static uint32_t eitp__hangul_composed(uint32_t first, uint32_t second) {
    const uint32_t lead = first - EITP__HANGUL_LEADS, vowel = second - EITP__HANGUL_VOWELS;
    const uint32_t index = first - EITP__HANGUL_FIRST, tail = second - EITP__HANGUL_TAILS;
    if (lead < 19 && vowel < EITP__HANGUL_VOWEL_COUNT)
        return EITP__HANGUL_FIRST + (lead * EITP__HANGUL_VOWEL_COUNT + vowel) * EITP__HANGUL_TAIL_COUNT;
    if (first <= EITP__HANGUL_LAST && first >= EITP__HANGUL_FIRST && index % EITP__HANGUL_TAIL_COUNT == 0 &&
        tail >= 1 && tail < EITP__HANGUL_TAIL_COUNT)
        return first + tail;
    return 0;
}

EITP__PRIVATE uint32_t eitp__unicode_compose(uint32_t first, uint32_t second) {
    size_t low = 0, high = EITP__COUNT(eitp__unicode_compositions);
    const uint32_t hangul = eitp__hangul_composed(first, second);
    const uint64_t key = (uint64_t)first << 32 | second;
    if (hangul)
        return hangul;
    while (low < high) {
        const size_t middle = (low + high) / 2;
        const uint64_t at =
            (uint64_t)eitp__unicode_compositions[middle].first << 32 | eitp__unicode_compositions[middle].second;
        if (at == key)
            return eitp__unicode_compositions[middle].composed;
        if (at < key)
            low = middle + 1;
        else
            high = middle;
    }
    return 0;
}
