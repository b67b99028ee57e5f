/* Attributes of values: methods of strings, dicts, lists and loops, and what a loop says of its position. */
#ifndef EITP_JINJA_METHODS_H
#define EITP_JINJA_METHODS_H

#include "template/jinja_value.h"

/* value.name: a method, or else the element with this key. */
EITP__PRIVATE eitp__jinja_value eitp__jinja_attribute(eitp__jinja *jinja, const eitp__jinja_value *value,
                                                      const char *name, size_t size);

/* value[key]: an element, or else the method of this name. */
EITP__PRIVATE eitp__jinja_value eitp__jinja_element(eitp__jinja *jinja, const eitp__jinja_value *value,
                                                    const eitp__jinja_value *key);

/* value[start:stop:step]; None or missing bounds are those of the value. */
EITP__PRIVATE eitp__jinja_value eitp__jinja_slice(eitp__jinja *jinja, const eitp__jinja_value *value,
                                                  const eitp__jinja_value bounds[3]);

/* Joins strings, as str.join does, or values as text if `converts`. */
EITP__PRIVATE eitp__jinja_value eitp__jinja_join(eitp__jinja *jinja, const eitp__jinja_list *list,
                                                 const eitp__jinja_value *between, int converts);

/* The elements in reverse order, as a value of this kind. */
EITP__PRIVATE eitp__jinja_value eitp__jinja_reversed(eitp__jinja *jinja, const eitp__jinja_list *list, int kind);

/* Pairs of a dict. */
EITP__PRIVATE eitp__jinja_list *eitp__jinja_items(eitp__jinja *jinja, const eitp__jinja_dict *dict);

#endif
