/* Tests of chat templates: functions after `is`. */
#ifndef EITP_JINJA_TESTS_H
#define EITP_JINJA_TESTS_H

#include "template/jinja_value.h"

/* Returns the test with this name, or NULL if not found. */
EITP__PRIVATE const eitp__jinja_function *eitp__jinja_find_test(const char *name, size_t size);

#endif
