/* Filters of chat templates: functions after `|`. */
#ifndef EITP_JINJA_FILTERS_H
#define EITP_JINJA_FILTERS_H

#include "template/jinja_value.h"

/* Returns the filter with this name, or NULL if not found. */
EITP__PRIVATE const eitp__jinja_function *eitp__jinja_find_filter(const char *name, size_t size);

#endif
