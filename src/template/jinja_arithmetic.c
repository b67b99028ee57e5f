#include "template/jinja_arithmetic.h"

#include "template/jinja_strings.h"

static eitp__jinja_value eitp__jinja_fail_overflow(eitp__jinja *jinja) {
    return eitp__jinja_fail(jinja, EITP_ERROR_UNSUPPORTED, "unsupported integer beyond 64 bits");
}

static eitp__jinja_value eitp__jinja_fail_zero(eitp__jinja *jinja) {
    return eitp__jinja_fail(jinja, EITP_ERROR_ARGUMENT, "division by zero");
}

static int eitp__jinja_multiply(int64_t a, int64_t b, int64_t *product) {
    if (a && b && ((a == -1 && b == INT64_MIN) || (b == -1 && a == INT64_MIN)))
        return 0;
    if (a && b &&
        (a > 0 ? (b > 0 ? a > INT64_MAX / b : b < INT64_MIN / a) : (b > 0 ? a < INT64_MIN / b : b < INT64_MAX / a)))
        return 0;
    *product = a * b;
    return 1;
}

static eitp__jinja_value eitp__jinja_integer_power(eitp__jinja *jinja, int64_t base, int64_t exponent) {
    int64_t power = 1;
    if (exponent < 0)
        return base ? eitp__jinja_float(pow((double)base, (double)exponent)) : eitp__jinja_fail_zero(jinja);
    if (base == 0 || base == 1)
        return eitp__jinja_integer(exponent ? base : 1);
    if (base == -1)
        return eitp__jinja_integer(exponent % 2 ? -1 : 1);
    for (; exponent > 0; exponent--)
        if (!eitp__jinja_multiply(power, base, &power))
            return eitp__jinja_fail_overflow(jinja);
    return eitp__jinja_integer(power);
}

/* Rounds towards negative infinity, as Python does. */
static eitp__jinja_value eitp__jinja_integer_divide(eitp__jinja *jinja, int64_t a, int64_t b, int is_modulo) {
    if (b == 0)
        return eitp__jinja_fail_zero(jinja);
    if (b == -1)
        return is_modulo        ? eitp__jinja_integer(0)
               : a == INT64_MIN ? eitp__jinja_fail_overflow(jinja)
                                : eitp__jinja_integer(-a);
    if (is_modulo)
        return eitp__jinja_integer(a % b != 0 && (a % b < 0) != (b < 0) ? a % b + b : a % b);
    return eitp__jinja_integer(a / b - (a % b != 0 && (a % b < 0) != (b < 0)));
}

static eitp__jinja_value eitp__jinja_integers(eitp__jinja *jinja, int operation, int64_t a, int64_t b) {
    int64_t result;
    switch (operation) {
    case EITP__JINJA_ADD:
        if (b > 0 ? a > INT64_MAX - b : a < INT64_MIN - b)
            return eitp__jinja_fail_overflow(jinja);
        return eitp__jinja_integer(a + b);
    case EITP__JINJA_SUBTRACT:
        if (b < 0 ? a > INT64_MAX + b : a < INT64_MIN + b)
            return eitp__jinja_fail_overflow(jinja);
        return eitp__jinja_integer(a - b);
    case EITP__JINJA_MULTIPLY:
        if (!eitp__jinja_multiply(a, b, &result))
            return eitp__jinja_fail_overflow(jinja);
        return eitp__jinja_integer(result);
    case EITP__JINJA_DIVIDE:
        return b ? eitp__jinja_float((double)a / (double)b) : eitp__jinja_fail_zero(jinja);
    case EITP__JINJA_POWER:
        return eitp__jinja_integer_power(jinja, a, b);
    default:
        return eitp__jinja_integer_divide(jinja, a, b, operation == EITP__JINJA_MODULO);
    }
}

/* Returns the remainder of floats, with the sign of the divisor. */
static double eitp__jinja_float_modulo(double a, double b) {
    const double rest = fmod(a, b);
    if (rest == 0)
        return copysign(0.0, b);
    return (rest < 0) != (b < 0) ? rest + b : rest;
}

static eitp__jinja_value eitp__jinja_floats(eitp__jinja *jinja, int operation, double a, double b) {
    switch (operation) {
    case EITP__JINJA_ADD:
        return eitp__jinja_float(a + b);
    case EITP__JINJA_SUBTRACT:
        return eitp__jinja_float(a - b);
    case EITP__JINJA_MULTIPLY:
        return eitp__jinja_float(a * b);
    case EITP__JINJA_POWER:
        if ((a == 0 && b < 0) || (a < 0 && b != floor(b)))
            return eitp__jinja_fail(jinja, EITP_ERROR_ARGUMENT, "a power is not a real number");
        return eitp__jinja_float(pow(a, b));
    default:
        break;
    }
    if (b == 0)
        return eitp__jinja_fail_zero(jinja);
    if (operation == EITP__JINJA_DIVIDE)
        return eitp__jinja_float(a / b);
    if (operation == EITP__JINJA_MODULO)
        return eitp__jinja_float(eitp__jinja_float_modulo(a, b));
    return eitp__jinja_float(floor((a - eitp__jinja_float_modulo(a, b)) / b + 0.5));
}

static eitp__jinja_value eitp__jinja_concatenate(eitp__jinja *jinja, const eitp__jinja_value *a,
                                                 const eitp__jinja_value *b) {
    const size_t mark = jinja->text.size;
    eitp__jinja_list *list;
    if (a->kind == EITP__JINJA_STRING) {
        eitp__jinja_add(jinja, a->as.text, a->size);
        eitp__jinja_add(jinja, b->as.text, b->size);
        return eitp__jinja_finish_text(jinja, mark);
    }
    list = eitp__jinja_new_list(jinja, a->as.list->count + b->as.list->count);
    for (size_t i = 0; i < a->as.list->count && jinja->status == EITP_OK; i++)
        eitp__jinja_push(jinja, list, &a->as.list->items[i]);
    for (size_t i = 0; i < b->as.list->count && jinja->status == EITP_OK; i++)
        eitp__jinja_push(jinja, list, &b->as.list->items[i]);
    return eitp__jinja_list_value(a->kind, list);
}

/* Repeats a string, list or tuple `times` times. */
static eitp__jinja_value eitp__jinja_repeat(eitp__jinja *jinja, const eitp__jinja_value *value, int64_t times) {
    const size_t mark = jinja->text.size;
    const int is_text = value->kind == EITP__JINJA_STRING;
    eitp__jinja_list *list = is_text ? NULL : eitp__jinja_new_list(jinja, 0);
    const size_t count = is_text ? value->size : value->as.list->count;
    for (int64_t i = 0; i < times && count && eitp__jinja_count_steps(jinja, 1); i++) {
        if (is_text)
            eitp__jinja_add(jinja, value->as.text, value->size);
        for (size_t k = 0; !is_text && k < count && jinja->status == EITP_OK; k++)
            eitp__jinja_push(jinja, list, &value->as.list->items[k]);
    }
    return is_text ? eitp__jinja_finish_text(jinja, mark) : eitp__jinja_list_value(value->kind, list);
}

static int eitp__jinja_repeats(int kind) {
    return kind == EITP__JINJA_STRING || kind == EITP__JINJA_LIST || kind == EITP__JINJA_TUPLE;
}

EITP__PRIVATE eitp__jinja_value eitp__jinja_calculate(eitp__jinja *jinja, int operation, const eitp__jinja_value *a,
                                                      const eitp__jinja_value *b) {
    static const char *const signs[] = {"+", "-", "*", "/", "//", "%", "**"};
    int64_t first, second;
    double left, right;
    if (eitp__jinja_to_integer(a, &first) && eitp__jinja_to_integer(b, &second))
        return eitp__jinja_integers(jinja, operation, first, second);
    if (eitp__jinja_to_number(a, &left) && eitp__jinja_to_number(b, &right))
        return eitp__jinja_floats(jinja, operation, left, right);
    if (a->kind == EITP__JINJA_STRING && operation == EITP__JINJA_MODULO)
        return b->kind == EITP__JINJA_TUPLE ? eitp__jinja_format(jinja, a, b->as.list->items, b->as.list->count)
                                            : eitp__jinja_format(jinja, a, b, 1);
    if (a->kind == EITP__JINJA_UNDEFINED || b->kind == EITP__JINJA_UNDEFINED)
        return eitp__jinja_fail_undefined(jinja, a->kind == EITP__JINJA_UNDEFINED ? a : b);
    if (a->kind == b->kind && eitp__jinja_repeats(a->kind) && operation == EITP__JINJA_ADD)
        return eitp__jinja_concatenate(jinja, a, b);
    if (operation == EITP__JINJA_MULTIPLY && eitp__jinja_repeats(a->kind) && eitp__jinja_to_integer(b, &second))
        return eitp__jinja_repeat(jinja, a, second);
    if (operation == EITP__JINJA_MULTIPLY && eitp__jinja_repeats(b->kind) && eitp__jinja_to_integer(a, &first))
        return eitp__jinja_repeat(jinja, b, first);
    return eitp__jinja_fail(jinja, EITP_ERROR_ARGUMENT, "unsupported operands of '%s': %s and %s", signs[operation],
                            eitp__jinja_type_name(a), eitp__jinja_type_name(b));
}

EITP__PRIVATE eitp__jinja_value eitp__jinja_negate(eitp__jinja *jinja, const eitp__jinja_value *value) {
    int64_t integer;
    if (eitp__jinja_to_integer(value, &integer))
        return integer == INT64_MIN ? eitp__jinja_fail_overflow(jinja) : eitp__jinja_integer(-integer);
    if (value->kind == EITP__JINJA_FLOAT)
        return eitp__jinja_float(-value->as.number);
    if (value->kind == EITP__JINJA_UNDEFINED)
        return eitp__jinja_fail_undefined(jinja, value);
    return eitp__jinja_fail(jinja, EITP_ERROR_ARGUMENT, "unsupported operand of '-': %s", eitp__jinja_type_name(value));
}
