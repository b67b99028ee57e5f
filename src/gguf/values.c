/* The keys of a GGUF file: looking them up, and reading their values. */
#include "base/little_endian.h"
#include "gguf/gguf.h"

static const unsigned char eitp__gguf_sizes[EITP__GGUF_KINDS] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};

EITP__PRIVATE size_t eitp__gguf_kind_size(eitp__gguf_kind kind) {
    return eitp__gguf_sizes[kind];
}

/* ---- Looking up ---- */

EITP__PRIVATE int eitp__gguf_compare_texts(eitp__gguf_text a, eitp__gguf_text b) {
    const size_t size = a.size < b.size ? a.size : b.size;
    const int order = memcmp(a.data, b.data, size);
    return order ? order : (a.size > b.size) - (a.size < b.size);
}

EITP__PRIVATE int eitp__gguf_text_is(eitp__gguf_text text, const char *other) {
    return text.size == strlen(other) && !memcmp(text.data, other, text.size);
}

EITP__PRIVATE const eitp__gguf_value *eitp__gguf_find(const eitp__gguf *gguf, const char *key) {
    const eitp__gguf_text text = {key, strlen(key)};
    size_t low = 0, high = gguf->value_count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        const int order = eitp__gguf_compare_texts(gguf->values[middle].key, text);
        if (!order)
            return &gguf->values[middle];
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return NULL;
}

/* ---- Values ---- */

static int eitp__gguf_is_integer(eitp__gguf_kind kind) {
    return kind <= EITP__GGUF_I32 || kind == EITP__GGUF_U64 || kind == EITP__GGUF_I64;
}

static int eitp__gguf_is_signed(eitp__gguf_kind kind) {
    return kind == EITP__GGUF_I8 || kind == EITP__GGUF_I16 || kind == EITP__GGUF_I32 || kind == EITP__GGUF_I64;
}

/* True for a U64 that an int64_t cannot hold. */
static int eitp__gguf_is_too_large(const eitp__gguf_value *value, uint64_t index) {
    return value->kind == EITP__GGUF_U64 && eitp__get_number(value->at + index * 8, 8) > INT64_MAX;
}

EITP__PRIVATE int64_t eitp__gguf_integer_at(const eitp__gguf_value *value, uint64_t index) {
    const size_t size = eitp__gguf_sizes[value->kind], unused = 64 - 8 * size;
    const uint64_t bits = eitp__get_number(value->at + index * size, size);
    if (eitp__gguf_is_too_large(value, index))
        return INT64_MAX;
    return eitp__gguf_is_signed(value->kind) ? (int64_t)(bits << unused) >> unused : (int64_t)bits;
}

EITP__PRIVATE double eitp__gguf_number_at(const eitp__gguf_value *value, uint64_t index) {
    const unsigned char *at = value->at + index * eitp__gguf_sizes[value->kind];
    float narrow;
    double wide;
    if (value->kind == EITP__GGUF_F32) {
        memcpy(&narrow, at, sizeof narrow);
        return (double)narrow;
    }
    if (value->kind == EITP__GGUF_F64) {
        memcpy(&wide, at, sizeof wide);
        return wide;
    }
    if (value->kind == EITP__GGUF_U64)
        return (double)eitp__get_number(value->at + index * 8, 8);
    return (double)eitp__gguf_integer_at(value, index);
}

EITP__PRIVATE eitp__gguf_text eitp__gguf_next_text(const unsigned char **at) {
    eitp__gguf_text text;
    text.size = (size_t)eitp__get_number(*at, 8);
    text.data = (const char *)*at + 8;
    *at += 8 + text.size;
    return text;
}

EITP__PRIVATE eitp_status eitp__gguf_get_integer(const eitp__gguf *gguf, const char *key, int64_t low, int64_t high,
                                                 int64_t *value, eitp_error *error) {
    const eitp__gguf_value *found = eitp__gguf_find(gguf, key);
    int64_t number;
    if (!found)
        return EITP_OK;
    if (found->is_array || !eitp__gguf_is_integer(found->kind))
        return eitp__fail(error, EITP_ERROR_FORMAT, "key '%s' must be an integer", key);
    if (eitp__gguf_is_too_large(found, 0))
        return eitp__fail(error, EITP_ERROR_FORMAT, "key '%s' is %llu, which is outside %lld to %lld", key,
                          (unsigned long long)eitp__get_number(found->at, 8), (long long)low, (long long)high);
    number = eitp__gguf_integer_at(found, 0);
    if (number < low || number > high)
        return eitp__fail(error, EITP_ERROR_FORMAT, "key '%s' is %lld, which is outside %lld to %lld", key,
                          (long long)number, (long long)low, (long long)high);
    *value = number;
    return EITP_OK;
}

EITP__PRIVATE eitp_status eitp__gguf_get_number(const eitp__gguf *gguf, const char *key, double low, double high,
                                                double *value, eitp_error *error) {
    const eitp__gguf_value *found = eitp__gguf_find(gguf, key);
    double number;
    if (!found)
        return EITP_OK;
    if (found->is_array || found->kind == EITP__GGUF_STRING || found->kind == EITP__GGUF_BOOL)
        return eitp__fail(error, EITP_ERROR_FORMAT, "key '%s' must be a number", key);
    number = eitp__gguf_number_at(found, 0);
    if (!(number >= low && number <= high))
        return eitp__fail(error, EITP_ERROR_FORMAT, "key '%s' is %g, which is outside %g to %g", key, number, low,
                          high);
    *value = number;
    return EITP_OK;
}

EITP__PRIVATE eitp_status eitp__gguf_get_flag(const eitp__gguf *gguf, const char *key, int *value, eitp_error *error) {
    const eitp__gguf_value *found = eitp__gguf_find(gguf, key);
    if (!found)
        return EITP_OK;
    if (found->is_array || found->kind != EITP__GGUF_BOOL || *found->at > 1)
        return eitp__fail(error, EITP_ERROR_FORMAT, "key '%s' must be true or false", key);
    *value = *found->at;
    return EITP_OK;
}

EITP__PRIVATE eitp_status eitp__gguf_get_text(const eitp__gguf *gguf, const char *key, eitp__gguf_text *value,
                                              eitp_error *error) {
    const eitp__gguf_value *found = eitp__gguf_find(gguf, key);
    const unsigned char *at;
    if (!found)
        return EITP_OK;
    if (found->is_array || found->kind != EITP__GGUF_STRING)
        return eitp__fail(error, EITP_ERROR_FORMAT, "key '%s' must be a string", key);
    at = found->at;
    *value = eitp__gguf_next_text(&at);
    return EITP_OK;
}

EITP__PRIVATE eitp_status eitp__gguf_get_array(const eitp__gguf *gguf, const char *key, int is_text,
                                               const eitp__gguf_value **value, eitp_error *error) {
    const eitp__gguf_value *found = eitp__gguf_find(gguf, key);
    *value = found;
    if (!found || (found->is_array && (found->kind == EITP__GGUF_STRING) == is_text))
        return EITP_OK;
    return eitp__fail(error, EITP_ERROR_FORMAT, "key '%s' must be an array of %s", key,
                      is_text ? "strings" : "numbers");
}
