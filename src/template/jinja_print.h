/* Values as text: Python's str and repr, and json.dumps. */
#ifndef EITP_JINJA_PRINT_H
#define EITP_JINJA_PRINT_H

#include "template/jinja_value.h"

typedef struct eitp__jinja_json_style {
    int ascii;                /* escape all non-ASCII characters */
    int sorted;               /* sort by key */
    int has_indent;           /* one line for each element */
    eitp__jinja_value indent; /* indentation of one level: a string */
    eitp__jinja_value item;   /* separator of elements */
    eitp__jinja_value colon;  /* separator after a key */
} eitp__jinja_json_style;

/* Add a value to the text buffer. */
EITP__PRIVATE void eitp__jinja_print(eitp__jinja *jinja, const eitp__jinja_value *value);
EITP__PRIVATE void eitp__jinja_print_repr(eitp__jinja *jinja, const eitp__jinja_value *value);
EITP__PRIVATE void eitp__jinja_print_json(eitp__jinja *jinja, const eitp__jinja_value *value,
                                          const eitp__jinja_json_style *style);

/* Returns str(value): the value itself if it is a string. */
EITP__PRIVATE eitp__jinja_value eitp__jinja_to_string(eitp__jinja *jinja, const eitp__jinja_value *value);

#endif
