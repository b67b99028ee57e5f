/* Tests of chat templates: what follows `is`. */
#ifndef EITP_JINJA_TESTS_H
#define EITP_JINJA_TESTS_H

#include "template/jinja_value.h"

/* NULL if there is no such test. */
EITP__PRIVATE const eitp__jinja_function *eitp__jinja_find_test(const char *name, size_t size);

#endif
