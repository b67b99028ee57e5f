#include "base/json.h"
#include "base/unicode.h"

#include <float.h>

/* Stores the escape of a character below U+00A0 in `escape` and returns its length; 0 if it needs none. U+007F to
   U+009F are control characters for terminals, so they are escaped although JSON does not require it. */
static size_t eitp__json_escape(unsigned char c, char escape[8]) {
    static const char names[] = "\"\\bfnrt", values[] = "\"\\\b\f\n\r\t";
    const char *found = c ? strchr(values, (char)c) : NULL;
    if (found) {
        escape[0] = '\\';
        escape[1] = names[found - values];
        return 2;
    }
    return c < 0x20 || (c >= 0x7F && c < 0xA0) ? (size_t)snprintf(escape, 8, "\\u%04x", c) : 0;
}

/* `as_bytes`: bytes that are not UTF-8 become lone surrogates, one each. */
static void eitp__json_write_escaped(eitp__buffer *buffer, const char *text, size_t size, int as_bytes) {
    size_t plain = 0, at = 0;
    char escape[8];
    eitp__buffer_add(buffer, "\"", 1);
    /* text[plain, at) is copied unchanged. */
    while (at < size) {
        uint32_t code;
        int valid;
        size_t length = eitp__utf8_next((const unsigned char *)text + at, size - at, &code, &valid), escaped = 0;
        if (valid && code < 0xA0) {
            escaped = eitp__json_escape((unsigned char)code, escape);
        } else if (!valid && as_bytes) {
            length = 1;
            escaped = (size_t)snprintf(escape, sizeof escape, "\\udc%02x", (unsigned)(unsigned char)text[at]);
        } else if (!valid) {
            /* Invalid bytes become U+FFFD, so that the output is valid UTF-8. */
            escaped = 3;
            memcpy(escape, "\xef\xbf\xbd", 3);
        }
        if (escaped) {
            eitp__buffer_add(buffer, text + plain, at - plain);
            eitp__buffer_add(buffer, escape, escaped);
            plain = at + length;
        }
        at += length;
    }
    eitp__buffer_add(buffer, text + plain, at - plain);
    eitp__buffer_add(buffer, "\"", 1);
}

EITP__PRIVATE void eitp__json_write_text(eitp__buffer *buffer, const char *text, size_t size) {
    eitp__json_write_escaped(buffer, text, size, 0);
}

EITP__PRIVATE void eitp__json_write_name(eitp__buffer *buffer, const char *name) {
    eitp__json_write_escaped(buffer, name, strlen(name), 1);
}

/* Replaces the locale's decimal point, which may have several bytes. Returns the length. */
static size_t eitp__json_use_point(char text[40]) {
    const size_t length = strlen(text);
    size_t kept = 0;
    int in_point = 0;
    for (size_t i = 0; i < length; i++) {
        if (strchr("0123456789+-e", text[i])) {
            text[kept++] = text[i];
            in_point = 0;
        } else if (!in_point) {
            text[kept++] = '.';
            in_point = 1;
        }
    }
    text[kept] = 0;
    return kept;
}

EITP__PRIVATE size_t eitp__json_format_digits(double value, int digits, char text[40]) {
    if (!(value >= -DBL_MAX && value <= DBL_MAX)) {
        memcpy(text, "null", 5);
        return 4;
    }
    snprintf(text, 40, "%.*g", digits, value);
    return eitp__json_use_point(text);
}

EITP__PRIVATE size_t eitp__json_format_number(double value, char text[40]) {
    if (!(value >= -DBL_MAX && value <= DBL_MAX))
        return eitp__json_format_digits(value, 15, text);
    for (int digits = 15; digits <= 17; digits++) {
        snprintf(text, 40, "%.*g", digits, value);
        if (strtod(text, NULL) == value)
            break;
    }
    return eitp__json_use_point(text);
}

EITP__PRIVATE void eitp__json_write_number(eitp__buffer *buffer, double value) {
    char text[40];
    eitp__buffer_add(buffer, text, eitp__json_format_number(value, text));
}

EITP__PRIVATE void eitp__json_write_numbers(eitp__buffer *buffer, const char *name, const double *values,
                                            size_t count) {
    eitp__buffer_format(buffer, "\"%s\": [", name);
    for (size_t i = 0; i < count; i++) {
        eitp__buffer_add_text(buffer, i ? ", " : "");
        eitp__json_write_number(buffer, values[i]);
    }
    eitp__buffer_add_text(buffer, "]");
}

EITP__PRIVATE void eitp__json_write_fields(eitp__buffer *buffer, const eitp__json_field *fields, size_t count,
                                           const void *values) {
    for (size_t i = 0; i < count; i++) {
        const void *value = (const char *)values + fields[i].offset;
        eitp__buffer_format(buffer, "%s\"%s\": ", i ? ", " : "", fields[i].name);
        if (fields[i].kind == EITP__JSON_INTEGER)
            eitp__buffer_format(buffer, "%lld", (long long)*(const int64_t *)value);
        else if (fields[i].kind == EITP__JSON_NUMBER)
            eitp__json_write_number(buffer, *(const double *)value);
        else
            eitp__buffer_add_text(buffer, *(const int *)value ? "true" : "false");
    }
}

/* Writes whole numbers with all digits and without an exponent: other programs read other notations as floats. */
static void eitp__json_write_parsed_number(eitp__buffer *buffer, const eitp_json *value) {
    if (value->is_integer && value->integer) /* -0 is written as a float */
        eitp__buffer_format(buffer, "%lld", (long long)value->integer);
    else if (fabs(value->number) >= 9007199254740992.0 && fabs(value->number) < 1e40)
        eitp__buffer_format(buffer, "%.0f", value->number);
    else
        eitp__json_write_number(buffer, value->number);
}

EITP__PRIVATE void eitp__json_write_value(eitp__buffer *buffer, const eitp_json *value) {
    const int is_array = value->kind == EITP_JSON_ARRAY;
    switch (value->kind) {
    case EITP_JSON_NULL:
        eitp__buffer_add_text(buffer, "null");
        break;
    case EITP_JSON_BOOLEAN:
        eitp__buffer_add_text(buffer, value->boolean ? "true" : "false");
        break;
    case EITP_JSON_NUMBER:
        eitp__json_write_parsed_number(buffer, value);
        break;
    case EITP_JSON_STRING:
        eitp__json_write_text(buffer, value->text, value->text_size);
        break;
    case EITP_JSON_ARRAY:
    case EITP_JSON_OBJECT:
        eitp__buffer_add_text(buffer, is_array ? "[" : "{");
        for (const eitp_json *child = value->first_child; child; child = child->next) {
            if (!is_array) {
                eitp__json_write_text(buffer, child->name, child->name_size);
                eitp__buffer_add_text(buffer, ": ");
            }
            eitp__json_write_value(buffer, child);
            if (child->next)
                eitp__buffer_add_text(buffer, ", ");
        }
        eitp__buffer_add_text(buffer, is_array ? "]" : "}");
        break;
    }
}
