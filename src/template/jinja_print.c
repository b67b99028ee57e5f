#include "template/jinja_print.h"

#include "base/unicode.h"

#include <float.h>

static void eitp__jinja_print_integer(eitp__jinja *jinja, int64_t integer) {
    char text[32];
    snprintf(text, sizeof text, "%lld", (long long)integer);
    eitp__jinja_add_text(jinja, text);
}

/* Extracts digits and exponent from a number like "-1.25e-07": it is 0.DIGITS * 10^exponent. */
static size_t eitp__jinja_read_digits(const char *text, char digits[40], int *exponent) {
    size_t count = 0;
    int seen_point = 0;
    *exponent = 0;
    for (; *text && *text != 'e'; text++) {
        if (*text == '.')
            seen_point = 1;
        if (*text < '0' || *text > '9')
            continue;
        if (count || *text != '0') {
            digits[count++] = *text;
            *exponent += !seen_point;
        } else if (seen_point) {
            *exponent -= 1;
        }
    }
    if (*text == 'e')
        *exponent += (int)strtol(text + 1, NULL, 10);
    while (count && digits[count - 1] == '0')
        count--;
    return count;
}

/* Prints the repr of a float: the fewest digits that read back, with an exponent if it is below -4 or at least 16. */
static void eitp__jinja_print_float(eitp__jinja *jinja, double number) {
    char text[40], digits[40], laid_out[64];
    size_t count, length = 0;
    int exponent;
    eitp__json_format_number(number, text);
    /* Subnormal numbers can have fewer digits than that function tries first. */
    for (int precision = 1; precision < 15 && fabs(number) < DBL_MIN && number != 0; precision++) {
        double again = 0;
        const size_t size = eitp__json_format_digits(number, precision, text);
        if (eitp__json_read_number(text, size, &again) && again == number)
            break;
    }
    count = eitp__jinja_read_digits(text, digits, &exponent);
    if (signbit(number))
        laid_out[length++] = '-';
    if (!count) {
        length += (size_t)snprintf(laid_out + length, 8, "0.0");
    } else if (exponent > 16 || exponent < -3) {
        length += (size_t)snprintf(laid_out + length, 60, "%c%s%.*se%c%02d", digits[0], count > 1 ? "." : "",
                                   (int)count - 1, digits + 1, exponent > 0 ? '+' : '-', abs(exponent - 1));
    } else if (exponent <= 0) {
        length += (size_t)snprintf(laid_out + length, 60, "0.%.*s%.*s", -exponent, "000", (int)count, digits);
    } else {
        for (int i = 0; i < exponent || i <= (int)count - 1; i++) {
            if (i == exponent)
                laid_out[length++] = '.';
            laid_out[length++] = i < (int)count ? digits[i] : '0';
        }
        if ((int)count <= exponent)
            length += (size_t)snprintf(laid_out + length, 4, ".0");
    }
    eitp__jinja_add(jinja, laid_out, length);
}

static void eitp__jinja_print_number(eitp__jinja *jinja, const eitp__jinja_value *value, const char *infinity,
                                     const char *nan_text) {
    if (value->kind == EITP__JINJA_INTEGER) {
        eitp__jinja_print_integer(jinja, value->as.integer);
    } else if (value->kind == EITP__JINJA_BIG) {
        eitp__jinja_add(jinja, value->as.text, value->size);
    } else if (isnan(value->as.number)) {
        eitp__jinja_add_text(jinja, nan_text);
    } else if (isinf(value->as.number)) {
        eitp__jinja_add_text(jinja, value->as.number < 0 ? "-" : "");
        eitp__jinja_add_text(jinja, infinity);
    } else {
        eitp__jinja_print_float(jinja, value->as.number);
    }
}

/* ---- str and repr ---- */

/* False for characters that repr escapes: control, format and unassigned characters, and all spaces except " ". */
static int eitp__jinja_is_printable(uint32_t code_point) {
    const int class_of = eitp__bert_class(code_point);
    if (code_point < 0x7f)
        return code_point >= 0x20;
    return class_of != EITP__BERT_CONTROL && class_of != EITP__BERT_SPACE && class_of != EITP__BERT_CONTROL_SPACE;
}

static size_t eitp__jinja_repr_escape(uint32_t code_point, int quote, char escape[12]) {
    static const char plain[] = "\\\n\r\t", names[] = "\\nrt";
    const char *found = code_point && code_point < 0x80 ? strchr(plain, (int)code_point) : NULL;
    if (found)
        return (size_t)snprintf(escape, 12, "\\%c", names[found - plain]);
    if (code_point == (unsigned char)quote)
        return (size_t)snprintf(escape, 12, "\\%c", quote);
    if (eitp__jinja_is_printable(code_point))
        return 0;
    return (size_t)(code_point < 0x100     ? snprintf(escape, 12, "\\x%02x", (unsigned)code_point)
                    : code_point < 0x10000 ? snprintf(escape, 12, "\\u%04x", (unsigned)code_point)
                                           : snprintf(escape, 12, "\\U%08x", (unsigned)code_point));
}

/* Writes the escape of a character, of at most 16 bytes, and returns its length, or 0 to print the character
   unchanged. */
typedef size_t (*eitp__jinja_escape)(uint32_t code_point, int option, char *escape);

static void eitp__jinja_add_quoted(eitp__jinja *jinja, const char *text, size_t size, char quote,
                                   eitp__jinja_escape escape_of, int option) {
    size_t plain = 0;
    eitp__jinja_add(jinja, &quote, 1);
    for (size_t at = 0; at < size && jinja->status == EITP_OK;) {
        char escape[16];
        uint32_t code_point;
        int valid;
        const size_t length = eitp__utf8_next((const unsigned char *)text + at, size - at, &code_point, &valid);
        const size_t escaped = escape_of(code_point, option, escape);
        if (escaped) {
            eitp__jinja_add(jinja, text + plain, at - plain);
            eitp__jinja_add(jinja, escape, escaped);
            plain = at + length;
        }
        at += length;
    }
    eitp__jinja_add(jinja, text + plain, size - plain);
    eitp__jinja_add(jinja, &quote, 1);
}

static void eitp__jinja_repr_string(eitp__jinja *jinja, const char *text, size_t size) {
    const char quote = size && memchr(text, '\'', size) && !memchr(text, '"', size) ? '"' : '\'';
    eitp__jinja_add_quoted(jinja, text, size, quote, eitp__jinja_repr_escape, quote);
}

static void eitp__jinja_repr_list(eitp__jinja *jinja, const eitp__jinja_list *list, int is_tuple) {
    eitp__jinja_add_text(jinja, is_tuple ? "(" : "[");
    for (size_t i = 0; i < list->count && eitp__jinja_count_steps(jinja, 1); i++) {
        if (i)
            eitp__jinja_add_text(jinja, ", ");
        eitp__jinja_print_repr(jinja, &list->items[i]);
    }
    if (is_tuple && list->count == 1)
        eitp__jinja_add_text(jinja, ",");
    eitp__jinja_add_text(jinja, is_tuple ? ")" : "]");
}

static void eitp__jinja_repr_dict(eitp__jinja *jinja, const eitp__jinja_dict *dict) {
    eitp__jinja_add_text(jinja, "{");
    for (size_t i = 0; i < dict->count && eitp__jinja_count_steps(jinja, 1); i++) {
        if (i)
            eitp__jinja_add_text(jinja, ", ");
        eitp__jinja_print_repr(jinja, &dict->entries[i].key);
        eitp__jinja_add_text(jinja, ": ");
        eitp__jinja_print_repr(jinja, &dict->entries[i].value);
    }
    eitp__jinja_add_text(jinja, "}");
}

EITP__PRIVATE void eitp__jinja_print_repr(eitp__jinja *jinja, const eitp__jinja_value *value) {
    switch (value->kind) {
    case EITP__JINJA_STRING:
        eitp__jinja_repr_string(jinja, value->as.text, value->size);
        break;
    case EITP__JINJA_UNDEFINED:
        eitp__jinja_add_text(jinja, "Undefined");
        break;
    default:
        eitp__jinja_print(jinja, value);
    }
}

EITP__PRIVATE void eitp__jinja_print(eitp__jinja *jinja, const eitp__jinja_value *value) {
    switch (value->kind) {
    case EITP__JINJA_UNDEFINED:
        break;
    case EITP__JINJA_NONE:
        eitp__jinja_add_text(jinja, "None");
        break;
    case EITP__JINJA_BOOLEAN:
        eitp__jinja_add_text(jinja, value->as.integer ? "True" : "False");
        break;
    case EITP__JINJA_INTEGER:
    case EITP__JINJA_BIG:
    case EITP__JINJA_FLOAT:
        eitp__jinja_print_number(jinja, value, "inf", "nan");
        break;
    case EITP__JINJA_STRING:
        eitp__jinja_add(jinja, value->as.text, value->size);
        break;
    case EITP__JINJA_LIST:
    case EITP__JINJA_TUPLE:
        eitp__jinja_repr_list(jinja, value->as.list, value->kind == EITP__JINJA_TUPLE);
        break;
    case EITP__JINJA_DICT:
        eitp__jinja_repr_dict(jinja, value->as.dict);
        break;
    default:
        eitp__jinja_fail(jinja, EITP_ERROR_UNSUPPORTED, "a value of type %s cannot be printed",
                         eitp__jinja_type_name(value));
    }
}

EITP__PRIVATE eitp__jinja_value eitp__jinja_to_string(eitp__jinja *jinja, const eitp__jinja_value *value) {
    const size_t mark = jinja->text.size;
    if (value->kind == EITP__JINJA_STRING)
        return *value;
    eitp__jinja_print(jinja, value);
    return eitp__jinja_finish_text(jinja, mark);
}

/* ---- JSON ---- */

static size_t eitp__jinja_json_escape(uint32_t code_point, int ascii, char escape[16]) {
    static const char plain[] = "\"\\\b\f\n\r\t", names[] = "\"\\bfnrt";
    const char *found = code_point && code_point < 0x80 ? strchr(plain, (int)code_point) : NULL;
    if (found)
        return (size_t)snprintf(escape, 16, "\\%c", names[found - plain]);
    if (code_point >= 0x20 && (!ascii || code_point < 0x7f))
        return 0;
    if (code_point < 0x10000)
        return (size_t)snprintf(escape, 16, "\\u%04x", (unsigned)code_point);
    code_point -= 0x10000;
    return (size_t)snprintf(escape, 16, "\\u%04x\\u%04x", (unsigned)(0xD800 + (code_point >> 10)),
                            (unsigned)(0xDC00 + (code_point & 0x3FF)));
}

static void eitp__jinja_json_string(eitp__jinja *jinja, const char *text, size_t size, int ascii) {
    eitp__jinja_add_quoted(jinja, text, size, '"', eitp__jinja_json_escape, ascii);
}

static void eitp__jinja_json_any(eitp__jinja *jinja, const eitp__jinja_value *value,
                                 const eitp__jinja_json_style *style, int level);

static void eitp__jinja_json_line(eitp__jinja *jinja, const eitp__jinja_json_style *style, int level) {
    if (!style->has_indent)
        return;
    eitp__jinja_add_text(jinja, "\n");
    for (int i = 0; i < level; i++)
        eitp__jinja_add(jinja, style->indent.as.text, style->indent.size);
}

static void eitp__jinja_json_list(eitp__jinja *jinja, const eitp__jinja_list *list, const eitp__jinja_json_style *style,
                                  int level) {
    eitp__jinja_add_text(jinja, "[");
    for (size_t i = 0; i < list->count && eitp__jinja_count_steps(jinja, 1); i++) {
        if (i)
            eitp__jinja_add(jinja, style->item.as.text, style->item.size);
        eitp__jinja_json_line(jinja, style, level + 1);
        eitp__jinja_json_any(jinja, &list->items[i], style, level + 1);
    }
    if (list->count)
        eitp__jinja_json_line(jinja, style, level);
    eitp__jinja_add_text(jinja, "]");
}

/* Writes a key, converted to a string. */
static void eitp__jinja_json_key(eitp__jinja *jinja, const eitp__jinja_value *key,
                                 const eitp__jinja_json_style *style) {
    if (key->kind == EITP__JINJA_STRING) {
        eitp__jinja_json_any(jinja, key, style, 0);
    } else if (key->kind == EITP__JINJA_NONE || (key->kind >= EITP__JINJA_BOOLEAN && key->kind <= EITP__JINJA_FLOAT)) {
        eitp__jinja_add_text(jinja, "\"");
        eitp__jinja_json_any(jinja, key, style, 0);
        eitp__jinja_add_text(jinja, "\"");
    } else {
        eitp__jinja_fail(jinja, EITP_ERROR_ARGUMENT, "a value of type %s cannot be a key in JSON",
                         eitp__jinja_type_name(key));
    }
}

/* Returns the entries in ascending order of keys, using insertion sort. */
static const eitp__jinja_entry *eitp__jinja_sorted_entries(eitp__jinja *jinja, const eitp__jinja_dict *dict) {
    eitp__jinja_entry *sorted =
        (eitp__jinja_entry *)eitp__jinja_allocate(jinja, (dict->count ? dict->count : 1) * sizeof *sorted);
    for (size_t i = 0; sorted && i < dict->count; i++) {
        size_t at = i;
        for (; at && eitp__jinja_count_steps(jinja, 1); at--) {
            if (eitp__jinja_order(jinja, &sorted[at - 1].key, &dict->entries[i].key) <= 0)
                break;
            sorted[at] = sorted[at - 1];
        }
        sorted[at] = dict->entries[i];
    }
    return jinja->status == EITP_OK ? sorted : NULL;
}

static void eitp__jinja_json_dict(eitp__jinja *jinja, const eitp__jinja_dict *dict, const eitp__jinja_json_style *style,
                                  int level) {
    const eitp__jinja_entry *entries = style->sorted ? eitp__jinja_sorted_entries(jinja, dict) : dict->entries;
    eitp__jinja_add_text(jinja, "{");
    for (size_t i = 0; entries && i < dict->count && eitp__jinja_count_steps(jinja, 1); i++) {
        if (i)
            eitp__jinja_add(jinja, style->item.as.text, style->item.size);
        eitp__jinja_json_line(jinja, style, level + 1);
        eitp__jinja_json_key(jinja, &entries[i].key, style);
        eitp__jinja_add(jinja, style->colon.as.text, style->colon.size);
        eitp__jinja_json_any(jinja, &entries[i].value, style, level + 1);
    }
    if (dict->count)
        eitp__jinja_json_line(jinja, style, level);
    eitp__jinja_add_text(jinja, "}");
}

static void eitp__jinja_json_any(eitp__jinja *jinja, const eitp__jinja_value *value,
                                 const eitp__jinja_json_style *style, int level) {
    switch (value->kind) {
    case EITP__JINJA_NONE:
        eitp__jinja_add_text(jinja, "null");
        break;
    case EITP__JINJA_BOOLEAN:
        eitp__jinja_add_text(jinja, value->as.integer ? "true" : "false");
        break;
    case EITP__JINJA_INTEGER:
    case EITP__JINJA_BIG:
    case EITP__JINJA_FLOAT:
        eitp__jinja_print_number(jinja, value, "Infinity", "NaN");
        break;
    case EITP__JINJA_STRING:
        eitp__jinja_json_string(jinja, value->as.text, value->size, style->ascii);
        break;
    case EITP__JINJA_LIST:
    case EITP__JINJA_TUPLE:
        eitp__jinja_json_list(jinja, value->as.list, style, level);
        break;
    case EITP__JINJA_DICT:
        eitp__jinja_json_dict(jinja, value->as.dict, style, level);
        break;
    default:
        eitp__jinja_fail(jinja, EITP_ERROR_ARGUMENT, "a value of type %s cannot be written as JSON",
                         eitp__jinja_type_name(value));
    }
}

EITP__PRIVATE void eitp__jinja_print_json(eitp__jinja *jinja, const eitp__jinja_value *value,
                                          const eitp__jinja_json_style *style) {
    eitp__jinja_json_any(jinja, value, style, 0);
}
