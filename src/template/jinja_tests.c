#include "template/jinja_tests.h"

#include "template/jinja_print.h"
#include "template/jinja_strings.h"

#define EITP__JINJA_TEST(name, condition)                                                                              \
    static eitp__jinja_value eitp__jinja_is_##name(eitp__jinja *jinja, const eitp__jinja_call *call) {                 \
        const eitp__jinja_value *value = &call->self, *other = &call->slots[0];                                        \
        (void)jinja, (void)other;                                                                                      \
        return eitp__jinja_boolean(condition);                                                                         \
    }

/* Integers are compared exactly; `order` is 0 after a failure. */
#define EITP__JINJA_ORDER_TEST(name, comparison)                                                                       \
    EITP__JINJA_TEST(name, eitp__jinja_order(jinja, value, other) comparison 0)

EITP__JINJA_TEST(defined, value->kind != EITP__JINJA_UNDEFINED)
EITP__JINJA_TEST(undefined, value->kind == EITP__JINJA_UNDEFINED)
EITP__JINJA_TEST(none, value->kind == EITP__JINJA_NONE)
EITP__JINJA_TEST(string, value->kind == EITP__JINJA_STRING)
EITP__JINJA_TEST(mapping, value->kind == EITP__JINJA_DICT)
EITP__JINJA_TEST(number, value->kind >= EITP__JINJA_BOOLEAN && value->kind <= EITP__JINJA_FLOAT)
EITP__JINJA_TEST(integer, value->kind == EITP__JINJA_INTEGER || value->kind == EITP__JINJA_BIG)
EITP__JINJA_TEST(float, value->kind == EITP__JINJA_FLOAT)
EITP__JINJA_TEST(boolean, value->kind == EITP__JINJA_BOOLEAN)
EITP__JINJA_TEST(true_value, value->kind == EITP__JINJA_BOOLEAN && value->as.integer)
EITP__JINJA_TEST(false, value->kind == EITP__JINJA_BOOLEAN && !value->as.integer)
EITP__JINJA_TEST(iterable, value->kind == EITP__JINJA_STRING || value->kind == EITP__JINJA_DICT ||
                               value->kind == EITP__JINJA_UNDEFINED || value->kind == EITP__JINJA_LOOP ||
                               eitp__jinja_is_sequence(value->kind))
/* jinja2 requires a length and elements by index or key; an undefined value has both. */
EITP__JINJA_TEST(sequence_value, value->kind == EITP__JINJA_STRING || value->kind == EITP__JINJA_DICT ||
                                     value->kind == EITP__JINJA_UNDEFINED ||
                                     (value->kind >= EITP__JINJA_LIST && value->kind < EITP__JINJA_VIEW))
EITP__JINJA_TEST(callable, (value->kind >= EITP__JINJA_MACRO && value->kind <= EITP__JINJA_LOOP) ||
                               value->kind == EITP__JINJA_UNDEFINED)
EITP__JINJA_TEST(equal, eitp__jinja_equal(jinja, value, other))
EITP__JINJA_TEST(unequal, !eitp__jinja_equal(jinja, value, other))
EITP__JINJA_TEST(in, eitp__jinja_contains(jinja, other, value))
EITP__JINJA_ORDER_TEST(greater, >)
EITP__JINJA_ORDER_TEST(at_least, >=)
EITP__JINJA_ORDER_TEST(less, <)
EITP__JINJA_ORDER_TEST(at_most, <=)

/* Returns value % divisor for integers. */
static int64_t eitp__jinja_remainder(eitp__jinja *jinja, const eitp__jinja_value *value,
                                     const eitp__jinja_value *divisor) {
    int64_t number, by;
    if (!eitp__jinja_to_integer(value, &number) || !eitp__jinja_to_integer(divisor, &by) || by == 0) {
        eitp__jinja_fail(jinja, EITP_ERROR_ARGUMENT,
                         "odd, even and divisibleby require integers, and a divisor other than 0");
        return 0;
    }
    return by == -1 ? 0 : (number % by + by) % by;
}

static eitp__jinja_value eitp__jinja_is_odd(eitp__jinja *jinja, const eitp__jinja_call *call) {
    const eitp__jinja_value two = eitp__jinja_integer(2);
    return eitp__jinja_boolean(eitp__jinja_remainder(jinja, &call->self, &two) == 1);
}

static eitp__jinja_value eitp__jinja_is_even(eitp__jinja *jinja, const eitp__jinja_call *call) {
    const eitp__jinja_value two = eitp__jinja_integer(2);
    return eitp__jinja_boolean(eitp__jinja_remainder(jinja, &call->self, &two) == 0);
}

static eitp__jinja_value eitp__jinja_is_divisible(eitp__jinja *jinja, const eitp__jinja_call *call) {
    return eitp__jinja_boolean(eitp__jinja_remainder(jinja, &call->self, &call->slots[0]) == 0);
}

/* Tests identity, which Python defines for None, booleans and containers. */
static eitp__jinja_value eitp__jinja_is_same(eitp__jinja *jinja, const eitp__jinja_call *call) {
    const eitp__jinja_value *a = &call->self, *b = &call->slots[0];
    if (a->kind != b->kind)
        return eitp__jinja_boolean(0);
    if (a->kind >= EITP__JINJA_INTEGER && a->kind <= EITP__JINJA_STRING)
        return eitp__jinja_fail(jinja, EITP_ERROR_UNSUPPORTED, "unsupported test 'sameas' of numbers and strings");
    return eitp__jinja_boolean(a->kind == EITP__JINJA_NONE || a->as.macro == b->as.macro);
}

/* Tests whether text is in one case. */
static eitp__jinja_value eitp__jinja_is_of_case(eitp__jinja *jinja, const eitp__jinja_call *call, int change) {
    const eitp__jinja_value text = eitp__jinja_to_string(jinja, &call->self);
    const eitp__jinja_value other =
        eitp__jinja_change_case(jinja, &text, change == EITP__JINJA_LOWER ? EITP__JINJA_UPPER : EITP__JINJA_LOWER);
    const eitp__jinja_value same = eitp__jinja_change_case(jinja, &text, change);
    return eitp__jinja_boolean(eitp__jinja_equal(jinja, &text, &same) && !eitp__jinja_equal(jinja, &text, &other));
}

static eitp__jinja_value eitp__jinja_is_lower(eitp__jinja *jinja, const eitp__jinja_call *call) {
    return eitp__jinja_is_of_case(jinja, call, EITP__JINJA_LOWER);
}

static eitp__jinja_value eitp__jinja_is_upper(eitp__jinja *jinja, const eitp__jinja_call *call) {
    return eitp__jinja_is_of_case(jinja, call, EITP__JINJA_UPPER);
}

static const eitp__jinja_function eitp__jinja_test_functions[] = {
    {"defined", "", 0, eitp__jinja_is_defined},
    {"undefined", "", 0, eitp__jinja_is_undefined},
    {"none", "", 0, eitp__jinja_is_none},
    {"string", "", 0, eitp__jinja_is_string},
    {"mapping", "", 0, eitp__jinja_is_mapping},
    {"number", "", 0, eitp__jinja_is_number},
    {"integer", "", 0, eitp__jinja_is_integer},
    {"float", "", 0, eitp__jinja_is_float},
    {"boolean", "", 0, eitp__jinja_is_boolean},
    {"true", "", 0, eitp__jinja_is_true_value},
    {"false", "", 0, eitp__jinja_is_false},
    {"iterable", "", 0, eitp__jinja_is_iterable},
    {"sequence", "", 0, eitp__jinja_is_sequence_value},
    {"callable", "", 0, eitp__jinja_is_callable},
    {"odd", "", 0, eitp__jinja_is_odd},
    {"even", "", 0, eitp__jinja_is_even},
    {"divisibleby", "num", 1, eitp__jinja_is_divisible},
    {"lower", "", 0, eitp__jinja_is_lower},
    {"upper", "", 0, eitp__jinja_is_upper},
    {"sameas", "other", 1, eitp__jinja_is_same},
    {"in", "seq", 1, eitp__jinja_is_in},
    {"eq", "other", 1, eitp__jinja_is_equal},
    {"==", "other", 1, eitp__jinja_is_equal},
    {"equalto", "other", 1, eitp__jinja_is_equal},
    {"ne", "other", 1, eitp__jinja_is_unequal},
    {"!=", "other", 1, eitp__jinja_is_unequal},
    {"gt", "other", 1, eitp__jinja_is_greater},
    {">", "other", 1, eitp__jinja_is_greater},
    {"greaterthan", "other", 1, eitp__jinja_is_greater},
    {"ge", "other", 1, eitp__jinja_is_at_least},
    {">=", "other", 1, eitp__jinja_is_at_least},
    {"lt", "other", 1, eitp__jinja_is_less},
    {"<", "other", 1, eitp__jinja_is_less},
    {"lessthan", "other", 1, eitp__jinja_is_less},
    {"le", "other", 1, eitp__jinja_is_at_most},
    {"<=", "other", 1, eitp__jinja_is_at_most},
};

EITP__PRIVATE const eitp__jinja_function *eitp__jinja_find_test(const char *name, size_t size) {
    return eitp__jinja_find_function(eitp__jinja_test_functions, EITP__COUNT(eitp__jinja_test_functions), name, size);
}
