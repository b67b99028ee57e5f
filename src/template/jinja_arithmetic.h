/* Operators of chat templates on numbers, strings and lists. */
#ifndef EITP_JINJA_ARITHMETIC_H
#define EITP_JINJA_ARITHMETIC_H

#include "template/jinja_value.h"

enum {
    EITP__JINJA_ADD,
    EITP__JINJA_SUBTRACT,
    EITP__JINJA_MULTIPLY,
    EITP__JINJA_DIVIDE,
    EITP__JINJA_FLOOR_DIVIDE,
    EITP__JINJA_MODULO,
    EITP__JINJA_POWER
};

EITP__PRIVATE eitp__jinja_value eitp__jinja_calculate(eitp__jinja *jinja, int operation, const eitp__jinja_value *a,
                                                      const eitp__jinja_value *b);

EITP__PRIVATE eitp__jinja_value eitp__jinja_negate(eitp__jinja *jinja, const eitp__jinja_value *value);

#endif
