#include "template/jinja_filters.h"

#include "template/jinja_arithmetic.h"
#include "template/jinja_lexer.h"
#include "template/jinja_methods.h"
#include "template/jinja_print.h"
#include "template/jinja_strings.h"
#include "template/jinja_tests.h"

/* ---- text ---- */

/* A filter that applies to the value as text. */
#define EITP__JINJA_TEXT_FILTER(name, expression)                                                                      \
    static eitp__jinja_value eitp__jinja_filter_##name(eitp__jinja *jinja, const eitp__jinja_call *call) {             \
        const eitp__jinja_value text = eitp__jinja_to_string(jinja, &call->self);                                      \
        return expression;                                                                                             \
    }

EITP__JINJA_TEXT_FILTER(string, text)
EITP__JINJA_TEXT_FILTER(trim, eitp__jinja_strip(jinja, &text, &call->slots[0], EITP__JINJA_LEFT | EITP__JINJA_RIGHT))
EITP__JINJA_TEXT_FILTER(upper, eitp__jinja_change_case(jinja, &text, EITP__JINJA_UPPER))
EITP__JINJA_TEXT_FILTER(lower, eitp__jinja_change_case(jinja, &text, EITP__JINJA_LOWER))
EITP__JINJA_TEXT_FILTER(title, eitp__jinja_change_case(jinja, &text, EITP__JINJA_TITLE_FILTER))
EITP__JINJA_TEXT_FILTER(capitalize, eitp__jinja_change_case(jinja, &text, EITP__JINJA_CAPITALIZE))
EITP__JINJA_TEXT_FILTER(format, eitp__jinja_format(jinja, &text, call->arguments->values, call->arguments->count))

static eitp__jinja_value eitp__jinja_filter_replace(eitp__jinja *jinja, const eitp__jinja_call *call) {
    const eitp__jinja_value text = eitp__jinja_to_string(jinja, &call->self);
    if (call->slots[0].kind != EITP__JINJA_STRING || call->slots[1].kind != EITP__JINJA_STRING)
        return eitp__jinja_fail(jinja, EITP_ERROR_ARGUMENT, "'replace' requires strings");
    return eitp__jinja_replace(
        jinja, &text, &call->slots[0], &call->slots[1],
        call->slots[2].kind == EITP__JINJA_NONE ? -1 : eitp__jinja_integer_argument(jinja, &call->slots[2], -1));
}

static eitp__jinja_value eitp__jinja_filter_escape(eitp__jinja *jinja, const eitp__jinja_call *call) {
    static const char special[] = "&<>'\"";
    static const char *const entities[] = {"&amp;", "&lt;", "&gt;", "&#39;", "&#34;"};
    const eitp__jinja_value text = eitp__jinja_to_string(jinja, &call->self);
    const size_t mark = jinja->text.size;
    for (size_t i = 0; i < text.size && jinja->status == EITP_OK; i++) {
        const char *found = text.as.text[i] ? strchr(special, text.as.text[i]) : NULL;
        if (found)
            eitp__jinja_add_text(jinja, entities[found - special]);
        else
            eitp__jinja_add(jinja, text.as.text + i, 1);
    }
    eitp__jinja_count_steps(jinja, text.size / 8);
    return eitp__jinja_finish_text(jinja, mark);
}

/* Adds the indentation of a line. */
static void eitp__jinja_add_indent(eitp__jinja *jinja, const eitp__jinja_value *width) {
    int64_t spaces = width->kind == EITP__JINJA_STRING ? 0 : eitp__jinja_integer_argument(jinja, width, 4);
    if (width->kind == EITP__JINJA_STRING)
        eitp__jinja_add(jinja, width->as.text, width->size);
    for (; spaces > 0 && eitp__jinja_count_steps(jinja, 1); spaces--)
        eitp__jinja_add(jinja, " ", 1);
}

static eitp__jinja_value eitp__jinja_filter_indent(eitp__jinja *jinja, const eitp__jinja_call *call) {
    const int first = eitp__jinja_true_argument(&call->slots[1], 0);
    const int blank = eitp__jinja_true_argument(&call->slots[2], 0);
    const eitp__jinja_value *text = &call->self;
    const size_t mark = jinja->text.size;
    size_t begin = 0;
    if (text->kind != EITP__JINJA_STRING)
        return eitp__jinja_fail(jinja, EITP_ERROR_ARGUMENT, "'indent' requires a string");
    if (first)
        eitp__jinja_add_indent(jinja, &call->slots[0]);
    for (size_t at = 0; at <= text->size && jinja->status == EITP_OK; at++) {
        if (at < text->size && text->as.text[at] != '\n') {
            if ((unsigned char)text->as.text[at] >= 0x0b && (unsigned char)text->as.text[at] <= 0x1e &&
                text->as.text[at] != '\t')
                return eitp__jinja_fail(jinja, EITP_ERROR_UNSUPPORTED, "'indent': unsupported line break");
            continue;
        }
        if (begin && (blank || at > begin))
            eitp__jinja_add_indent(jinja, &call->slots[0]);
        eitp__jinja_add(jinja, text->as.text + begin, at - begin);
        if (at < text->size)
            eitp__jinja_add(jinja, "\n", 1);
        begin = at + 1;
    }
    return eitp__jinja_finish_text(jinja, mark);
}

static eitp__jinja_value eitp__jinja_filter_tojson(eitp__jinja *jinja, const eitp__jinja_call *call) {
    const eitp__jinja_value *indent = &call->slots[1], *separators = &call->slots[2];
    const size_t mark = jinja->text.size;
    eitp__jinja_json_style style;
    memset(&style, 0, sizeof style);
    style.ascii = eitp__jinja_true_argument(&call->slots[0], 0);
    style.sorted = eitp__jinja_true_argument(&call->slots[3], 0);
    style.has_indent = indent->kind > EITP__JINJA_NONE;
    style.item = eitp__jinja_string(",  ", style.has_indent ? 1 : 2);
    style.colon = eitp__jinja_string(": ", 2);
    if (style.has_indent) {
        eitp__jinja_add_indent(jinja, indent);
        style.indent = eitp__jinja_finish_text(jinja, mark);
    }
    if (separators->kind == EITP__JINJA_TUPLE || separators->kind == EITP__JINJA_LIST) {
        const eitp__jinja_list *list = separators->as.list;
        if (list->count != 2 || list->items[0].kind != EITP__JINJA_STRING || list->items[1].kind != EITP__JINJA_STRING)
            return eitp__jinja_fail(jinja, EITP_ERROR_ARGUMENT, "'tojson': separators must be two strings");
        style.item = list->items[0];
        style.colon = list->items[1];
    } else if (separators->kind > EITP__JINJA_NONE) {
        return eitp__jinja_fail(jinja, EITP_ERROR_ARGUMENT, "'tojson': separators must be two strings");
    }
    eitp__jinja_print_json(jinja, &call->self, &style);
    return eitp__jinja_finish_text(jinja, mark);
}

/* ---- numbers ---- */

/* Reads digits of a base, with single underscores between them. Returns 0 unless the whole text is a number. */
static int eitp__jinja_read_integer(const eitp__jinja_value *text, int base, int64_t *value) {
    size_t at = 0;
    int is_negative = 0, seen = 0;
    *value = 0;
    if (at < text->size && (text->as.text[at] == '-' || text->as.text[at] == '+'))
        is_negative = text->as.text[at++] == '-';
    if (base == 16 && at + 2 < text->size && text->as.text[at] == '0' && (text->as.text[at + 1] | 0x20) == 'x')
        at += 2;
    for (; at < text->size; at++) {
        const char c = text->as.text[at], lower = (char)(c | 0x20);
        const int digit = c >= '0' && c <= '9' ? c - '0' : lower >= 'a' && lower <= 'z' ? lower - 'a' + 10 : 99;
        if (c == '_' && seen && at + 1 < text->size && text->as.text[at + 1] != '_')
            continue;
        if (digit >= base || *value > (INT64_MAX - digit) / base)
            return 0;
        *value = *value * base + digit;
        seen = 1;
    }
    *value = is_negative ? -*value : *value;
    return seen;
}

/* Evaluates float(text). Returns 0 if it is not a number. */
static int eitp__jinja_read_float(const eitp__jinja_value *text, double *number) {
    char plain[64];
    size_t size = 0, at = text->size && text->as.text[0] == '+' ? 1 : 0;
    for (; at < text->size; at++) {
        if (size + 3 >= sizeof plain)
            return 0;
        if (text->as.text[at] == '_' || text->as.text[at] == '+') {
            if (text->as.text[at] == '_' || !size || (plain[size - 1] | 0x20) != 'e')
                return 0;
        }
        if (text->as.text[at] == '.' && (!size || plain[size - 1] == '-'))
            plain[size++] = '0';
        else if ((text->as.text[at] | 0x20) == 'e' && size && plain[size - 1] == '.')
            plain[size++] = '0';
        plain[size++] = text->as.text[at];
    }
    if (size && plain[size - 1] == '.')
        plain[size++] = '0';
    return eitp__json_read_number(plain, size, number);
}

/* Truncates a float. */
static eitp__jinja_value eitp__jinja_truncate(eitp__jinja *jinja, double number) {
    if (!(number > -9.2e18 && number < 9.2e18))
        return eitp__jinja_fail(jinja, EITP_ERROR_UNSUPPORTED, "unsupported integer beyond 64 bits");
    return eitp__jinja_integer((int64_t)number);
}

static eitp__jinja_value eitp__jinja_filter_int(eitp__jinja *jinja, const eitp__jinja_call *call) {
    const eitp__jinja_value none = eitp__jinja_none();
    const int64_t base = eitp__jinja_integer_argument(jinja, &call->slots[1], 10);
    int64_t integer;
    double number;
    if (base != 10 && base != 16 && base != 8 && base != 2)
        return eitp__jinja_fail(jinja, EITP_ERROR_UNSUPPORTED, "'int': unsupported base");
    if (call->self.kind == EITP__JINJA_UNDEFINED)
        return eitp__jinja_fail_undefined(jinja, &call->self);
    if (eitp__jinja_to_integer(&call->self, &integer))
        return eitp__jinja_integer(integer);
    if (call->self.kind == EITP__JINJA_FLOAT && isfinite(call->self.as.number))
        return eitp__jinja_truncate(jinja, call->self.as.number);
    if (call->self.kind == EITP__JINJA_STRING) {
        const eitp__jinja_value text =
            eitp__jinja_strip(jinja, &call->self, &none, EITP__JINJA_LEFT | EITP__JINJA_RIGHT);
        if (eitp__jinja_read_integer(&text, (int)base, &integer))
            return eitp__jinja_integer(integer);
        if (eitp__jinja_read_float(&text, &number))
            return eitp__jinja_truncate(jinja, number);
    }
    return call->slots[0].kind == EITP__JINJA_MISSING ? eitp__jinja_integer(0) : call->slots[0];
}

static eitp__jinja_value eitp__jinja_filter_float(eitp__jinja *jinja, const eitp__jinja_call *call) {
    const eitp__jinja_value none = eitp__jinja_none();
    double number;
    if (call->self.kind == EITP__JINJA_UNDEFINED)
        return eitp__jinja_fail_undefined(jinja, &call->self);
    if (eitp__jinja_to_number(&call->self, &number))
        return eitp__jinja_float(number);
    if (call->self.kind == EITP__JINJA_STRING) {
        const eitp__jinja_value text =
            eitp__jinja_strip(jinja, &call->self, &none, EITP__JINJA_LEFT | EITP__JINJA_RIGHT);
        if (eitp__jinja_read_float(&text, &number))
            return eitp__jinja_float(number);
    }
    return call->slots[0].kind == EITP__JINJA_MISSING ? eitp__jinja_float(0) : call->slots[0];
}

static eitp__jinja_value eitp__jinja_filter_abs(eitp__jinja *jinja, const eitp__jinja_call *call) {
    int64_t integer;
    if (eitp__jinja_to_integer(&call->self, &integer))
        return integer < 0 ? eitp__jinja_negate(jinja, &call->self) : eitp__jinja_integer(integer);
    if (call->self.kind == EITP__JINJA_FLOAT)
        return eitp__jinja_float(fabs(call->self.as.number));
    return eitp__jinja_fail(jinja, EITP_ERROR_ARGUMENT, "'abs' requires a number");
}

/* Rounds like Python's round: to the nearest decimal, ties to even. */
static double eitp__jinja_round_float(double number, int precision) {
    char text[400];
    double rounded = number;
    if (precision < 0) {
        const double unit = pow(10.0, -precision);
        return nearbyint(number / unit) * unit;
    }
    if (!isfinite(number) || fabs(number) > 1e22)
        return number;
    snprintf(text, sizeof text, "%.*f", precision, number);
    for (char *c = text; *c; c++)
        if (*c == ',')
            *c = '.';
    eitp__json_read_number(text, strlen(text), &rounded);
    return rounded;
}

static eitp__jinja_value eitp__jinja_filter_round(eitp__jinja *jinja, const eitp__jinja_call *call) {
    const int64_t precision = eitp__jinja_integer_argument(jinja, &call->slots[0], 0);
    const eitp__jinja_value *method = &call->slots[1];
    const eitp__jinja_value common = eitp__jinja_string("common", 6), ceiling = eitp__jinja_string("ceil", 4),
                            floor_name = eitp__jinja_string("floor", 5);
    double number, unit;
    if (!eitp__jinja_to_number(&call->self, &number))
        return eitp__jinja_fail(jinja, EITP_ERROR_ARGUMENT, "'round' requires a number");
    if (precision < -20 || precision > 20)
        return eitp__jinja_fail(jinja, EITP_ERROR_UNSUPPORTED, "'round': unsupported precision");
    unit = pow(10.0, (double)precision);
    if (method->kind == EITP__JINJA_MISSING || eitp__jinja_equal(jinja, method, &common)) {
        if (call->self.kind == EITP__JINJA_FLOAT)
            return eitp__jinja_float(eitp__jinja_round_float(number, (int)precision));
        if (precision < 0)
            return eitp__jinja_fail(jinja, EITP_ERROR_UNSUPPORTED, "'round': unsupported precision of an integer");
        return eitp__jinja_integer(call->self.as.integer);
    }
    if (eitp__jinja_equal(jinja, method, &ceiling))
        return eitp__jinja_float(ceil(number * unit) / unit);
    if (eitp__jinja_equal(jinja, method, &floor_name))
        return eitp__jinja_float(floor(number * unit) / unit);
    return eitp__jinja_fail(jinja, EITP_ERROR_ARGUMENT, "'round': the method must be common, ceil or floor");
}

/* ---- elements ---- */

static eitp__jinja_value eitp__jinja_filter_default(eitp__jinja *jinja, const eitp__jinja_call *call) {
    const int replaces_false = eitp__jinja_true_argument(&call->slots[1], 0);
    (void)jinja;
    if (call->self.kind != EITP__JINJA_UNDEFINED && !(replaces_false && !eitp__jinja_is_true(&call->self)))
        return call->self;
    return call->slots[0].kind == EITP__JINJA_MISSING ? eitp__jinja_string("", 0) : call->slots[0];
}

static eitp__jinja_value eitp__jinja_filter_length(eitp__jinja *jinja, const eitp__jinja_call *call) {
    const eitp__jinja_value *value = &call->self;
    if (value->kind == EITP__JINJA_STRING && eitp__jinja_count_steps(jinja, value->size / 64))
        return eitp__jinja_integer((int64_t)eitp__jinja_length(value));
    if (value->kind == EITP__JINJA_DICT)
        return eitp__jinja_integer((int64_t)value->as.dict->count);
    if (eitp__jinja_is_sequence(value->kind) && value->kind != EITP__JINJA_GENERATOR)
        return eitp__jinja_integer((int64_t)value->as.list->count);
    if (value->kind == EITP__JINJA_UNDEFINED)
        return eitp__jinja_integer(0);
    if (value->kind == EITP__JINJA_LOOP)
        return eitp__jinja_integer((int64_t)value->as.loop->list->count);
    return eitp__jinja_fail(jinja, EITP_ERROR_ARGUMENT, "a value of type %s has no length",
                            eitp__jinja_type_name(value));
}

static eitp__jinja_value eitp__jinja_filter_first(eitp__jinja *jinja, const eitp__jinja_call *call) {
    static const char message[] = "no first item, the sequence is empty";
    const eitp__jinja_list *list;
    if (call->self.kind == EITP__JINJA_GENERATOR && call->self.as.list->count) {
        eitp__jinja_list *rest = call->self.as.list; /* the remaining elements can still be read */
        rest->count -= !rest->is_read;
        rest->capacity = rest->count;
        if (!rest->is_read)
            return *rest->items++;
    }
    list = eitp__jinja_iterate(jinja, &call->self);
    return list && list->count ? list->items[0]
                               : eitp__jinja_undefined(EITP__JINJA_MESSAGE, message, sizeof message - 1);
}

static eitp__jinja_value eitp__jinja_filter_last(eitp__jinja *jinja, const eitp__jinja_call *call) {
    static const char message[] = "no last item, the sequence is empty";
    const eitp__jinja_list *list;
    if (call->self.kind == EITP__JINJA_GENERATOR)
        return eitp__jinja_fail(jinja, EITP_ERROR_ARGUMENT, "a generator has no last item: add |list");
    list = eitp__jinja_iterate(jinja, &call->self);
    return list && list->count ? list->items[list->count - 1]
                               : eitp__jinja_undefined(EITP__JINJA_MESSAGE, message, sizeof message - 1);
}

static eitp__jinja_value eitp__jinja_filter_list(eitp__jinja *jinja, const eitp__jinja_call *call) {
    eitp__jinja_list *copy = eitp__jinja_new_list(jinja, 0);
    const eitp__jinja_list *list = eitp__jinja_iterate(jinja, &call->self);
    if (!copy || !list)
        return eitp__jinja_none();
    *copy = *list; /* lists are immutable */
    return eitp__jinja_list_value(EITP__JINJA_LIST, copy);
}

static eitp__jinja_value eitp__jinja_filter_reverse(eitp__jinja *jinja, const eitp__jinja_call *call) {
    const eitp__jinja_list *list = eitp__jinja_iterate(jinja, &call->self);
    const eitp__jinja_value nothing = eitp__jinja_string("", 0);
    eitp__jinja_value reversed;
    if (!list)
        return eitp__jinja_none();
    reversed = eitp__jinja_reversed(jinja, list, EITP__JINJA_GENERATOR);
    if (call->self.kind == EITP__JINJA_STRING && jinja->status == EITP_OK)
        return eitp__jinja_join(jinja, reversed.as.list, &nothing, 1);
    return reversed;
}

static eitp__jinja_value eitp__jinja_filter_items(eitp__jinja *jinja, const eitp__jinja_call *call) {
    if (call->self.kind == EITP__JINJA_UNDEFINED)
        return eitp__jinja_list_value(EITP__JINJA_GENERATOR, eitp__jinja_new_list(jinja, 0));
    if (call->self.kind != EITP__JINJA_DICT)
        return eitp__jinja_fail(jinja, EITP_ERROR_ARGUMENT, "'items' requires a dict");
    return eitp__jinja_list_value(EITP__JINJA_GENERATOR, eitp__jinja_items(jinja, call->self.as.dict));
}

/* Returns the element at a path such as "function.name". Numeric parts are indices. */
static eitp__jinja_value eitp__jinja_at_path(eitp__jinja *jinja, const eitp__jinja_value *value,
                                             const eitp__jinja_value *path, const eitp__jinja_value *missing) {
    eitp__jinja_value element = *value;
    if (path->kind != EITP__JINJA_STRING)
        return eitp__jinja_element(jinja, value, path);
    for (size_t begin = 0; begin <= path->size && jinja->status == EITP_OK;) {
        size_t end = begin;
        int64_t index;
        eitp__jinja_value part;
        while (end < path->size && path->as.text[end] != '.')
            end++;
        part = eitp__jinja_part(path, begin, end - begin);
        if (part.size && part.as.text[0] >= '0' && part.as.text[0] <= '9' &&
            eitp__jinja_read_integer(&part, 10, &index))
            part = eitp__jinja_integer(index);
        element = eitp__jinja_element(jinja, &element, &part);
        if (element.kind == EITP__JINJA_UNDEFINED && missing->kind > EITP__JINJA_NONE)
            element = *missing;
        begin = end + 1;
    }
    return element;
}

static eitp__jinja_value eitp__jinja_filter_join(eitp__jinja *jinja, const eitp__jinja_call *call) {
    const eitp__jinja_list *list = eitp__jinja_iterate(jinja, &call->self);
    const eitp__jinja_value missing = eitp__jinja_none();
    eitp__jinja_value between = call->slots[0];
    eitp__jinja_list *parts;
    if (between.kind == EITP__JINJA_MISSING)
        between = eitp__jinja_string("", 0);
    between = eitp__jinja_to_string(jinja, &between);
    if (!list || call->slots[1].kind <= EITP__JINJA_NONE)
        return list ? eitp__jinja_join(jinja, list, &between, 1) : eitp__jinja_none();
    parts = eitp__jinja_new_list(jinja, list->count);
    for (size_t i = 0; parts && i < list->count && jinja->status == EITP_OK; i++) {
        const eitp__jinja_value part = eitp__jinja_at_path(jinja, &list->items[i], &call->slots[1], &missing);
        eitp__jinja_push(jinja, parts, &part);
    }
    return parts ? eitp__jinja_join(jinja, parts, &between, 1) : eitp__jinja_none();
}

/* ---- order ---- */

/* Returns the sort key of a value: an attribute, in lower case unless `is_exact`. */
static eitp__jinja_value eitp__jinja_sort_key(eitp__jinja *jinja, const eitp__jinja_value *value,
                                              const eitp__jinja_value *attribute, int is_exact) {
    const eitp__jinja_value missing = eitp__jinja_none();
    eitp__jinja_value key = *value;
    if (attribute->kind > EITP__JINJA_NONE)
        key = eitp__jinja_at_path(jinja, value, attribute, &missing);
    return key.kind == EITP__JINJA_STRING && !is_exact ? eitp__jinja_change_case(jinja, &key, EITP__JINJA_LOWER) : key;
}

/* Merges two sorted runs of `from`, [begin, middle) and [middle, end), into `to`. */
static void eitp__jinja_merge(eitp__jinja *jinja, const eitp__jinja_entry *from, eitp__jinja_entry *to, size_t begin,
                              size_t middle, size_t end, int sign) {
    size_t left = begin, right = middle;
    for (size_t at = begin; at < end; at++) {
        const int strips_left =
            right == end || (left < middle && eitp__jinja_count_steps(jinja, 1) &&
                             sign * eitp__jinja_order(jinja, &from[left].key, &from[right].key) <= 0);
        to[at] = strips_left && left < middle ? from[left++] : right < end ? from[right++] : from[left++];
    }
}

/* Sorts entries by their keys; the sort is stable. Returns them, or NULL after a failure. */
static eitp__jinja_entry *eitp__jinja_sort_entries(eitp__jinja *jinja, eitp__jinja_entry *entries, size_t count,
                                                   int is_reverse) {
    eitp__jinja_entry *other = (eitp__jinja_entry *)eitp__jinja_allocate(jinja, (count ? count : 1) * sizeof *other);
    for (size_t width = 1; other && width < count; width *= 2) {
        eitp__jinja_entry *sorted = entries;
        for (size_t begin = 0; begin < count && jinja->status == EITP_OK; begin += 2 * width) {
            const size_t middle = begin + width < count ? begin + width : count;
            const size_t end = middle + width < count ? middle + width : count;
            eitp__jinja_merge(jinja, entries, other, begin, middle, end, is_reverse ? -1 : 1);
        }
        entries = other;
        other = sorted;
    }
    return jinja->status == EITP_OK ? entries : NULL;
}

/* Sorts values by eitp__jinja_sort_key. */
static eitp__jinja_value eitp__jinja_sort_values(eitp__jinja *jinja, const eitp__jinja_list *list,
                                                 const eitp__jinja_value *attribute, int is_exact, int is_reverse) {
    const size_t count = list ? list->count : 0;
    eitp__jinja_entry *entries =
        (eitp__jinja_entry *)eitp__jinja_allocate(jinja, (count ? count : 1) * sizeof *entries);
    eitp__jinja_list *sorted = eitp__jinja_new_list(jinja, count);
    for (size_t i = 0; entries && i < count && jinja->status == EITP_OK; i++) {
        entries[i].key = eitp__jinja_sort_key(jinja, &list->items[i], attribute, is_exact);
        entries[i].value = list->items[i];
    }
    if (entries)
        entries = eitp__jinja_sort_entries(jinja, entries, count, is_reverse);
    for (size_t i = 0; entries && i < count; i++)
        eitp__jinja_push(jinja, sorted, &entries[i].value);
    return eitp__jinja_list_value(EITP__JINJA_LIST, sorted);
}

static eitp__jinja_value eitp__jinja_filter_sort(eitp__jinja *jinja, const eitp__jinja_call *call) {
    const eitp__jinja_value *attribute = &call->slots[2];
    if (attribute->kind == EITP__JINJA_STRING && memchr(attribute->as.text, ',', attribute->size))
        return eitp__jinja_fail(jinja, EITP_ERROR_UNSUPPORTED, "'sort': unsupported list of attributes");
    return eitp__jinja_sort_values(jinja, eitp__jinja_iterate(jinja, &call->self), attribute,
                                   eitp__jinja_true_argument(&call->slots[1], 0),
                                   eitp__jinja_true_argument(&call->slots[0], 0));
}

static eitp__jinja_value eitp__jinja_filter_dictsort(eitp__jinja *jinja, const eitp__jinja_call *call) {
    const eitp__jinja_value key = eitp__jinja_string("key", 3), value = eitp__jinja_string("value", 5);
    const int by_value = eitp__jinja_equal(jinja, &call->slots[1], &value);
    const eitp__jinja_value attribute = eitp__jinja_integer(by_value);
    if (call->self.kind != EITP__JINJA_DICT)
        return eitp__jinja_fail(jinja, EITP_ERROR_ARGUMENT, "'dictsort' requires a dict");
    if (call->slots[1].kind != EITP__JINJA_MISSING && !by_value && !eitp__jinja_equal(jinja, &call->slots[1], &key))
        return eitp__jinja_fail(jinja, EITP_ERROR_ARGUMENT, "'dictsort' sorts by \"key\" or \"value\"");
    return eitp__jinja_sort_values(jinja, eitp__jinja_items(jinja, call->self.as.dict), &attribute,
                                   eitp__jinja_true_argument(&call->slots[0], 0),
                                   eitp__jinja_true_argument(&call->slots[2], 0));
}

/* Returns the first of the smallest values, or of the largest if `sign` is -1. */
static eitp__jinja_value eitp__jinja_extreme(eitp__jinja *jinja, const eitp__jinja_call *call, int sign) {
    static const char message[] = "no aggregated item, the sequence is empty";
    const eitp__jinja_list *list = eitp__jinja_iterate(jinja, &call->self);
    const int is_exact = eitp__jinja_true_argument(&call->slots[0], 0);
    eitp__jinja_value best;
    size_t at = 0;
    if (!list || !list->count)
        return eitp__jinja_undefined(EITP__JINJA_MESSAGE, message, sizeof message - 1);
    best = eitp__jinja_sort_key(jinja, &list->items[0], &call->slots[1], is_exact);
    for (size_t i = 1; i < list->count && eitp__jinja_count_steps(jinja, 1); i++) {
        const eitp__jinja_value key = eitp__jinja_sort_key(jinja, &list->items[i], &call->slots[1], is_exact);
        if (sign * eitp__jinja_order(jinja, &key, &best) >= 0)
            continue;
        best = key;
        at = i;
    }
    return list->items[at];
}

static eitp__jinja_value eitp__jinja_filter_min(eitp__jinja *jinja, const eitp__jinja_call *call) {
    return eitp__jinja_extreme(jinja, call, 1);
}

static eitp__jinja_value eitp__jinja_filter_max(eitp__jinja *jinja, const eitp__jinja_call *call) {
    return eitp__jinja_extreme(jinja, call, -1);
}

static eitp__jinja_value eitp__jinja_filter_unique(eitp__jinja *jinja, const eitp__jinja_call *call) {
    const eitp__jinja_list *list = eitp__jinja_iterate(jinja, &call->self);
    eitp__jinja_list *keys = eitp__jinja_new_list(jinja, 0), *unique = eitp__jinja_new_list(jinja, 0);
    const eitp__jinja_value seen = eitp__jinja_list_value(EITP__JINJA_LIST, keys);
    for (size_t i = 0; list && keys && i < list->count && jinja->status == EITP_OK; i++) {
        const eitp__jinja_value key = eitp__jinja_sort_key(jinja, &list->items[i], &call->slots[1],
                                                           eitp__jinja_true_argument(&call->slots[0], 0));
        if (key.kind == EITP__JINJA_LIST || key.kind == EITP__JINJA_DICT)
            return eitp__jinja_fail(jinja, EITP_ERROR_ARGUMENT, "'unique' requires values that can be keys");
        if (eitp__jinja_contains(jinja, &seen, &key))
            continue;
        eitp__jinja_push(jinja, keys, &key);
        eitp__jinja_push(jinja, unique, &list->items[i]);
    }
    return eitp__jinja_list_value(EITP__JINJA_GENERATOR, unique);
}

static eitp__jinja_value eitp__jinja_filter_sum(eitp__jinja *jinja, const eitp__jinja_call *call) {
    const eitp__jinja_list *list = eitp__jinja_iterate(jinja, &call->self);
    const eitp__jinja_value missing = eitp__jinja_none();
    eitp__jinja_value sum = call->slots[1].kind == EITP__JINJA_MISSING ? eitp__jinja_integer(0) : call->slots[1];
    if (sum.kind == EITP__JINJA_STRING)
        return eitp__jinja_fail(jinja, EITP_ERROR_ARGUMENT, "'sum' cannot add strings");
    for (size_t i = 0; list && i < list->count && eitp__jinja_count_steps(jinja, 1); i++) {
        eitp__jinja_value term = list->items[i];
        if (call->slots[0].kind > EITP__JINJA_NONE)
            term = eitp__jinja_at_path(jinja, &term, &call->slots[0], &missing);
        sum = eitp__jinja_calculate(jinja, EITP__JINJA_ADD, &sum, &term);
    }
    return sum;
}

/* ---- filters that apply others ---- */

/* Returns the arguments after the first `count`. */
static eitp__jinja_arguments eitp__jinja_rest(const eitp__jinja_arguments *arguments, size_t count) {
    eitp__jinja_arguments rest = *arguments;
    if (count) {
        rest.values += count;
        rest.count -= count;
    }
    return rest;
}

/* Returns the elements of a value, or none if it is false. */
static const eitp__jinja_list *eitp__jinja_elements(eitp__jinja *jinja, const eitp__jinja_value *value) {
    return eitp__jinja_is_true(value) ? eitp__jinja_iterate(jinja, value) : eitp__jinja_new_list(jinja, 0);
}

static eitp__jinja_value eitp__jinja_map_attribute(eitp__jinja *jinja, const eitp__jinja_call *call) {
    const eitp__jinja_list *list = eitp__jinja_elements(jinja, &call->self);
    const eitp__jinja_named *named = call->arguments->named;
    eitp__jinja_list *mapped = eitp__jinja_new_list(jinja, list ? list->count : 0);
    eitp__jinja_value path, missing = eitp__jinja_none();
    memset(&path, 0, sizeof path);
    for (size_t i = 0; i < call->arguments->named_count; i++) {
        if (named[i].size == 9 && !memcmp(named[i].name, "attribute", 9))
            path = named[i].value;
        else if (named[i].size == 7 && !memcmp(named[i].name, "default", 7))
            missing = named[i].value;
        else
            return eitp__jinja_fail(jinja, EITP_ERROR_ARGUMENT, "'map': unexpected argument");
    }
    if (path.kind == EITP__JINJA_MISSING)
        return eitp__jinja_fail(jinja, EITP_ERROR_ARGUMENT, "'map' requires a filter or an attribute");
    for (size_t i = 0; list && i < list->count && jinja->status == EITP_OK; i++) {
        const eitp__jinja_value value = eitp__jinja_at_path(jinja, &list->items[i], &path, &missing);
        eitp__jinja_push(jinja, mapped, &value);
    }
    return eitp__jinja_list_value(EITP__JINJA_GENERATOR, mapped);
}

static eitp__jinja_value eitp__jinja_filter_map(eitp__jinja *jinja, const eitp__jinja_call *call) {
    const eitp__jinja_value *name = call->arguments->values;
    const eitp__jinja_function *filter;
    const eitp__jinja_list *list;
    eitp__jinja_list *mapped;
    eitp__jinja_arguments rest;
    if (!call->arguments->count)
        return eitp__jinja_map_attribute(jinja, call);
    filter = name->kind == EITP__JINJA_STRING ? eitp__jinja_find_filter(name->as.text, name->size) : NULL;
    if (!filter || filter->call == eitp__jinja_filter_map)
        return eitp__jinja_fail(jinja, EITP_ERROR_UNSUPPORTED, "'map': unsupported filter");
    list = eitp__jinja_elements(jinja, &call->self);
    mapped = eitp__jinja_new_list(jinja, list ? list->count : 0);
    rest = eitp__jinja_rest(call->arguments, 1);
    for (size_t i = 0; list && i < list->count && jinja->status == EITP_OK; i++) {
        const eitp__jinja_value value = eitp__jinja_invoke(jinja, filter, &list->items[i], &rest);
        eitp__jinja_push(jinja, mapped, &value);
    }
    return eitp__jinja_list_value(EITP__JINJA_GENERATOR, mapped);
}

/* Returns the elements for which a test, of the element or of an attribute, has the result `wanted`. */
static eitp__jinja_value eitp__jinja_select(eitp__jinja *jinja, const eitp__jinja_call *call, int by_attribute,
                                            int wanted) {
    const eitp__jinja_arguments *arguments = call->arguments;
    const size_t given = by_attribute ? 1 : 0;
    const eitp__jinja_list *list = eitp__jinja_elements(jinja, &call->self);
    const eitp__jinja_value *name = arguments->count > given ? &arguments->values[given] : NULL;
    const eitp__jinja_value missing = eitp__jinja_none();
    eitp__jinja_list *chosen = eitp__jinja_new_list(jinja, 0);
    const eitp__jinja_function *test = NULL;
    eitp__jinja_arguments rest;
    if (arguments->count < given)
        return eitp__jinja_fail(jinja, EITP_ERROR_ARGUMENT, "selectattr and rejectattr require an attribute");
    if (name && name->kind == EITP__JINJA_STRING)
        test = eitp__jinja_find_test(name->as.text, name->size);
    if (name && !test)
        return eitp__jinja_fail(jinja, EITP_ERROR_UNSUPPORTED, "unsupported test '%.*s'",
                                name->kind == EITP__JINJA_STRING && name->size < 100 ? (int)name->size : 0,
                                name->kind == EITP__JINJA_STRING ? name->as.text : "");
    rest = eitp__jinja_rest(arguments, name ? given + 1 : given);
    for (size_t i = 0; list && i < list->count && jinja->status == EITP_OK; i++) {
        eitp__jinja_value value = list->items[i];
        if (by_attribute)
            value = eitp__jinja_at_path(jinja, &value, &arguments->values[0], &missing);
        if (test)
            value = eitp__jinja_invoke(jinja, test, &value, &rest);
        if (eitp__jinja_is_true(&value) == wanted)
            eitp__jinja_push(jinja, chosen, &list->items[i]);
    }
    return eitp__jinja_list_value(EITP__JINJA_GENERATOR, chosen);
}

static eitp__jinja_value eitp__jinja_filter_select(eitp__jinja *jinja, const eitp__jinja_call *call) {
    return eitp__jinja_select(jinja, call, 0, 1);
}

static eitp__jinja_value eitp__jinja_filter_reject(eitp__jinja *jinja, const eitp__jinja_call *call) {
    return eitp__jinja_select(jinja, call, 0, 0);
}

static eitp__jinja_value eitp__jinja_filter_selectattr(eitp__jinja *jinja, const eitp__jinja_call *call) {
    return eitp__jinja_select(jinja, call, 1, 1);
}

static eitp__jinja_value eitp__jinja_filter_rejectattr(eitp__jinja *jinja, const eitp__jinja_call *call) {
    return eitp__jinja_select(jinja, call, 1, 0);
}

static const eitp__jinja_function eitp__jinja_filter_functions[] = {
    {"abs", "", 0, eitp__jinja_filter_abs},
    {"capitalize", "", 0, eitp__jinja_filter_capitalize},
    {"count", "", 0, eitp__jinja_filter_length},
    {"d", "default_value boolean", 0, eitp__jinja_filter_default},
    {"default", "default_value boolean", 0, eitp__jinja_filter_default},
    {"dictsort", "case_sensitive by reverse", 0, eitp__jinja_filter_dictsort},
    {"e", "", 0, eitp__jinja_filter_escape},
    {"escape", "", 0, eitp__jinja_filter_escape},
    {"first", "", 0, eitp__jinja_filter_first},
    {"float", "default", 0, eitp__jinja_filter_float},
    {"format", NULL, 0, eitp__jinja_filter_format},
    {"indent", "width first blank", 0, eitp__jinja_filter_indent},
    {"int", "default base", 0, eitp__jinja_filter_int},
    {"items", "", 0, eitp__jinja_filter_items},
    {"join", "d attribute", 0, eitp__jinja_filter_join},
    {"last", "", 0, eitp__jinja_filter_last},
    {"length", "", 0, eitp__jinja_filter_length},
    {"list", "", 0, eitp__jinja_filter_list},
    {"lower", "", 0, eitp__jinja_filter_lower},
    {"map", NULL, 0, eitp__jinja_filter_map},
    {"max", "case_sensitive attribute", 0, eitp__jinja_filter_max},
    {"min", "case_sensitive attribute", 0, eitp__jinja_filter_min},
    {"reject", NULL, 0, eitp__jinja_filter_reject},
    {"rejectattr", NULL, 0, eitp__jinja_filter_rejectattr},
    {"replace", "old new count", 2, eitp__jinja_filter_replace},
    {"reverse", "", 0, eitp__jinja_filter_reverse},
    {"round", "precision method", 0, eitp__jinja_filter_round},
    {"safe", "", 0, eitp__jinja_filter_string},
    {"select", NULL, 0, eitp__jinja_filter_select},
    {"selectattr", NULL, 0, eitp__jinja_filter_selectattr},
    {"sort", "reverse case_sensitive attribute", 0, eitp__jinja_filter_sort},
    {"string", "", 0, eitp__jinja_filter_string},
    {"sum", "attribute start", 0, eitp__jinja_filter_sum},
    {"title", "", 0, eitp__jinja_filter_title},
    {"tojson", "ensure_ascii indent separators sort_keys", 0, eitp__jinja_filter_tojson},
    {"trim", "chars", 0, eitp__jinja_filter_trim},
    {"unique", "case_sensitive attribute", 0, eitp__jinja_filter_unique},
    {"upper", "", 0, eitp__jinja_filter_upper},
};

EITP__PRIVATE const eitp__jinja_function *eitp__jinja_find_filter(const char *name, size_t size) {
    return eitp__jinja_find_function(eitp__jinja_filter_functions, EITP__COUNT(eitp__jinja_filter_functions), name,
                                     size);
}
