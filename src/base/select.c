#include "base/select.h"

/* Integers in the order of the doubles, and back. */
static uint64_t eitp__order_of(double number) {
    const uint64_t sign = (uint64_t)1 << 63;
    uint64_t bits;
    memcpy(&bits, &number, sizeof bits);
    return bits & sign ? ~bits : bits | sign;
}

static double eitp__number_of(uint64_t order) {
    const uint64_t sign = (uint64_t)1 << 63, bits = order & sign ? order ^ sign : ~order;
    double number;
    memcpy(&number, &bits, sizeof number);
    return number;
}

EITP__PRIVATE double eitp__select(const eitp__counted *set, size_t index) {
    uint64_t low = eitp__order_of(-HUGE_VAL), high = eitp__order_of(HUGE_VAL);
    while (low < high) {
        const uint64_t middle = low + (high - low) / 2;
        if (set->at_most(set->numbers, eitp__number_of(middle)) > index)
            high = middle;
        else
            low = middle + 1;
    }
    return eitp__number_of(low) + 0.0; /* 0 rather than -0 */
}

EITP__PRIVATE double eitp__quantile(const eitp__counted *set, double fraction) {
    double position, low, high;
    size_t index;
    if (!set->count)
        return NAN;
    position = fraction * (double)(set->count - 1);
    index = (size_t)position;
    position -= (double)index;
    low = high = eitp__select(set, index);
    if (position > 0 && set->at_most(set->numbers, low) == index + 1)
        high = eitp__select(set, index + 1);
    return (1 - position) * low + position * high;
}
