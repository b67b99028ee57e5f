#include "base/unicode.h"

#include "base/unicode_tables.inc"

static const unsigned char eitp__ascii_classes[128] = {
    0, 0, 0, 0, 0, 0, 0, 0, 0, 3, 3, 3, 3, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
    3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 0, 0, 0, 0, 0, 0,
    0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0,
    0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0,
};

EITP__PRIVATE int eitp__unicode_class(uint32_t code_point) {
    if (code_point < 128)
        return eitp__ascii_classes[code_point];
    if (code_point >= 0x110000)
        return EITP__UNICODE_OTHER;
    /* CJK ideographs and Hangul syllables: the most frequent code points in many languages. */
    if ((code_point >= 0x4E00 && code_point <= 0x9FFF) || (code_point >= 0xAC00 && code_point <= 0xD7A3))
        return EITP__UNICODE_LETTER;
    size_t low = 0,
           high = EITP__COUNT(eitp__unicode_changes); /* the last change at or before code_point is in [low, high) */
    const uint32_t key = code_point << 2 | 3;
    while (high - low > 1) {
        size_t middle = (low + high) / 2;
        if (eitp__unicode_changes[middle] <= key)
            low = middle;
        else
            high = middle;
    }
    return (int)(eitp__unicode_changes[low] & 3);
}

/* Returns the class of an ASCII character, as in eitp__bert_class. */
static int eitp__bert_ascii_class(uint32_t code_point) {
    if (code_point < 0x20 || code_point == 0x7F) {
        if (code_point == '\t' || code_point == '\n' || code_point == '\r')
            return EITP__BERT_SPACE;
        return code_point == '\v' || code_point == '\f' ? EITP__BERT_CONTROL_SPACE : EITP__BERT_CONTROL;
    }
    if (code_point == ' ')
        return EITP__BERT_SPACE;
    return eitp__ascii_classes[code_point] ? EITP__BERT_OTHER : EITP__BERT_PUNCTUATION;
}

EITP__PRIVATE int eitp__bert_class(uint32_t code_point) {
    if (code_point < 128)
        return eitp__bert_ascii_class(code_point);
    if (code_point >= 0x4E00 && code_point <= 0x9FFF) /* the most frequent in Chinese */
        return EITP__BERT_IDEOGRAPH;
    size_t low = 0, high = EITP__COUNT(eitp__unicode_word_changes);
    const uint32_t key = code_point << 3 | 7;
    while (high - low > 1) {
        size_t middle = (low + high) / 2;
        if (eitp__unicode_word_changes[middle] <= key)
            low = middle;
        else
            high = middle;
    }
    return (int)(eitp__unicode_word_changes[low] & 7);
}

/* Returns the index of the last of `count` ranges that starts at or before a code point, or 0 if there is none. Each
   range is a struct of `size` bytes whose first member is its first code point. */
static size_t eitp__last_range(const void *ranges, size_t count, size_t size, uint32_t code_point) {
    const unsigned char *bytes = (const unsigned char *)ranges;
    size_t low = 0, high = count;
    while (high - low > 1) {
        size_t middle = (low + high) / 2;
        uint32_t first;
        memcpy(&first, bytes + middle * size, sizeof first);
        if (first <= code_point)
            low = middle;
        else
            high = middle;
    }
    return low;
}

#define EITP__LAST_RANGE(ranges, code_point) eitp__last_range(ranges, EITP__COUNT(ranges), sizeof *(ranges), code_point)

/* Hangul syllables are composed by arithmetic (The Unicode Standard, section 3.12). */
static size_t eitp__hangul_letters(uint32_t code_point, uint32_t letters[3]) {
    const uint32_t index = code_point - 0xAC00;
    letters[0] = 0x1100 + index / 588;
    letters[1] = 0x1161 + index % 588 / 28;
    letters[2] = 0x11A7 + index % 28;
    return index % 28 ? 3 : 2;
}

EITP__PRIVATE size_t eitp__unicode_without_accents(uint32_t code_point, uint32_t letters[3]) {
    if (code_point >= 0xAC00 && code_point <= 0xD7A3)
        return eitp__hangul_letters(code_point, letters);
    letters[0] = code_point;
    if (code_point < eitp__unicode_letter_ranges[0].first || (code_point >= 0x3400 && code_point <= 0x9FFF))
        return 1;
    const size_t range = EITP__LAST_RANGE(eitp__unicode_letter_ranges, code_point);
    if (code_point > eitp__unicode_letter_ranges[range].last)
        return 1;
    const uint32_t letter = eitp__unicode_letters[eitp__unicode_letter_ranges[range].index + code_point -
                                                  eitp__unicode_letter_ranges[range].first];
    const uint32_t length = letter >> 24;
    if (!length) {
        letters[0] = letter;
        return 1;
    }
    memcpy(letters, eitp__unicode_sequences + (letter & 0xFFFFFF), length * sizeof *letters);
    return length;
}

EITP__PRIVATE unsigned eitp__unicode_mark_order(uint32_t code_point) {
    if (code_point < eitp__unicode_order_ranges[0].first || (code_point >= 0x3400 && code_point <= 0x9FFF))
        return 0;
    const size_t range = EITP__LAST_RANGE(eitp__unicode_order_ranges, code_point);
    return code_point > eitp__unicode_order_ranges[range].last ? 0 : eitp__unicode_order_ranges[range].order;
}

static char eitp__ascii_lowercase(char letter) {
    return letter >= 'A' && letter <= 'Z' ? (char)(letter - 'A' + 'a') : letter;
}

EITP__PRIVATE int eitp__equals_ignoring_case(const char *text, size_t size, const char *name) {
    size_t same = 0;
    while (same < size && name[same] && eitp__ascii_lowercase(text[same]) == eitp__ascii_lowercase(name[same]))
        same++;
    return same == size && !name[same];
}

EITP__PRIVATE size_t eitp__unicode_lowercase(uint32_t code_point, uint32_t letters[2]) {
    letters[0] = code_point;
    if (code_point < 128) {
        letters[0] += code_point >= 'A' && code_point <= 'Z' ? 32 : 0;
        return 1;
    }
    if (code_point == 0x130) { /* the only letter whose lower case has more than one code point */
        letters[0] = 'i';
        letters[1] = 0x307;
        return 2;
    }
    if (code_point >= 0x3000 && code_point <= 0x9FFF)
        return 1;
    const size_t i = EITP__LAST_RANGE(eitp__unicode_lowercase_ranges, code_point);
    if (code_point <= eitp__unicode_lowercase_ranges[i].last && code_point >= eitp__unicode_lowercase_ranges[i].first &&
        (code_point - eitp__unicode_lowercase_ranges[i].first) % eitp__unicode_lowercase_ranges[i].step == 0)
        letters[0] = (uint32_t)((int32_t)code_point + eitp__unicode_lowercase_ranges[i].difference);
    return 1;
}

/* Returns the length of the sequence that a lead byte starts, or 0 if it is not a lead byte. Stores the range of its
   second byte in *low and *high (The Unicode Standard, table 3-7). */
static size_t eitp__utf8_lead(unsigned char lead, unsigned char *low, unsigned char *high) {
    *low = 0x80;
    *high = 0xBF;
    if (lead < 0x80)
        return 1;
    if (lead < 0xC2 || lead > 0xF4)
        return 0;
    if (lead < 0xE0)
        return 2;
    if (lead < 0xF0) {
        if (lead == 0xE0)
            *low = 0xA0;
        else if (lead == 0xED)
            *high = 0x9F;
        return 3;
    }
    if (lead == 0xF0)
        *low = 0x90;
    else if (lead == 0xF4)
        *high = 0x8F;
    return 4;
}

/* Like eitp__utf8_next. *missing is the number of missing bytes if the text ends inside a well-formed sequence, else
   0. */
static size_t eitp__utf8_read(const unsigned char *text, size_t size, uint32_t *code_point, size_t *missing) {
    unsigned char low, high;
    size_t length = eitp__utf8_lead(text[0], &low, &high), i = 1;
    uint32_t value = length == 1 ? text[0] : length ? text[0] & (0x7Fu >> length) : 0;
    *missing = 0;
    *code_point = 0xFFFD;
    for (; i < length; i++) {
        if (i == size) {
            *missing = length - i;
            return i;
        }
        if (text[i] < low || text[i] > high)
            return i;
        value = value << 6 | (text[i] & 0x3Fu);
        low = 0x80;
        high = 0xBF;
    }
    if (length)
        *code_point = value;
    return i;
}

EITP__PRIVATE size_t eitp__utf8_next(const unsigned char *text, size_t size, uint32_t *code_point, int *valid) {
    size_t missing;
    size_t taken = eitp__utf8_read(text, size, code_point, &missing);
    /* U+FFFD is valid only if the text contains it. */
    *valid = *code_point != 0xFFFD || (taken == 3 && !memcmp(text, "\xEF\xBF\xBD", 3));
    return taken;
}

EITP__PRIVATE size_t eitp__utf8_incomplete(const unsigned char *text, size_t size) {
    for (size_t back = 1; back <= 3 && back <= size; back++) {
        uint32_t code_point;
        size_t missing;
        if ((text[size - back] & 0xC0) == 0x80)
            continue;
        return eitp__utf8_read(text + size - back, back, &code_point, &missing) == back && missing ? back : 0;
    }
    return 0;
}

EITP__PRIVATE size_t eitp__utf8_count(const char *text, size_t size) {
    size_t count = 0;
    for (size_t i = 0; i < size; i++)
        count += ((unsigned char)text[i] & 0xC0) != 0x80;
    return count;
}

EITP__PRIVATE size_t eitp__utf8_valid_prefix(const unsigned char *text, size_t size) {
    size_t i = 0;
    while (i < size) {
        uint64_t word;
        if (size - i >= sizeof word) {
            memcpy(&word, text + i, sizeof word);
            if (!(word & 0x8080808080808080u)) {
                i += sizeof word;
                continue;
            }
        }
        if (text[i] < 0x80) {
            i++;
            continue;
        }
        uint32_t code_point;
        int valid;
        size_t taken = eitp__utf8_next(text + i, size - i, &code_point, &valid);
        if (!valid)
            break;
        i += taken;
    }
    return i;
}

EITP__PRIVATE size_t eitp__utf8_trim(const char **text, size_t size) {
    uint32_t code_point;
    int valid;
    while (size) {
        const size_t length = eitp__utf8_next((const unsigned char *)*text, size, &code_point, &valid);
        if (eitp__unicode_class(code_point) != EITP__UNICODE_SPACE)
            break;
        *text += length;
        size -= length;
    }
    while (size) {
        size_t last = size - 1;
        while (last && ((unsigned char)(*text)[last] & 0xC0) == 0x80)
            last--;
        eitp__utf8_next((const unsigned char *)*text + last, size - last, &code_point, &valid);
        if (eitp__unicode_class(code_point) != EITP__UNICODE_SPACE)
            break;
        size = last;
    }
    return size;
}

EITP__PRIVATE size_t eitp__utf8_encode(uint32_t code_point, unsigned char bytes[4]) {
    if (code_point < 0x80) {
        bytes[0] = (unsigned char)code_point;
        return 1;
    }
    if (code_point < 0x800) {
        bytes[0] = (unsigned char)(0xC0 | code_point >> 6);
        bytes[1] = (unsigned char)(0x80 | (code_point & 0x3F));
        return 2;
    }
    if (code_point < 0x10000) {
        bytes[0] = (unsigned char)(0xE0 | code_point >> 12);
        bytes[1] = (unsigned char)(0x80 | (code_point >> 6 & 0x3F));
        bytes[2] = (unsigned char)(0x80 | (code_point & 0x3F));
        return 3;
    }
    bytes[0] = (unsigned char)(0xF0 | code_point >> 18);
    bytes[1] = (unsigned char)(0x80 | (code_point >> 12 & 0x3F));
    bytes[2] = (unsigned char)(0x80 | (code_point >> 6 & 0x3F));
    bytes[3] = (unsigned char)(0x80 | (code_point & 0x3F));
    return 4;
}
