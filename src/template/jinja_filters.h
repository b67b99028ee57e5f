/* Filters of chat templates: what follows `|`. */
#ifndef EITP_JINJA_FILTERS_H
#define EITP_JINJA_FILTERS_H

#include "template/jinja_value.h"

/* NULL if there is no such filter. */
EITP__PRIVATE const eitp__jinja_function *eitp__jinja_find_filter(const char *name, size_t size);

#endif
