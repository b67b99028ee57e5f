/* Values as text: Python's str and repr, and what json.dumps writes. */
#ifndef EITP_JINJA_PRINT_H
#define EITP_JINJA_PRINT_H

#include "template/jinja_value.h"

typedef struct eitp__jinja_json_style {
    int ascii;                /* escape all other characters */
    int sorted;               /* by key */
    int has_indent;           /* a line for each element */
    eitp__jinja_value indent; /* of one level: a string */
    eitp__jinja_value item;   /* between elements */
    eitp__jinja_value colon;  /* after a key */
} eitp__jinja_json_style;

/* Add a value to the text being made. */
EITP__PRIVATE void eitp__jinja_print(eitp__jinja *jinja, const eitp__jinja_value *value);
EITP__PRIVATE void eitp__jinja_print_repr(eitp__jinja *jinja, const eitp__jinja_value *value);
EITP__PRIVATE void eitp__jinja_print_json(eitp__jinja *jinja, const eitp__jinja_value *value,
                                          const eitp__jinja_json_style *style);

/* str(value): the value itself if it is a string. */
EITP__PRIVATE eitp__jinja_value eitp__jinja_to_string(eitp__jinja *jinja, const eitp__jinja_value *value);

#endif
