/* Attributes of values: methods of strings, dicts, lists and loops, and the position of a loop. */
#ifndef EITP_JINJA_METHODS_H
#define EITP_JINJA_METHODS_H

#include "template/jinja_value.h"

/* Evaluates value.name: a method, or else the element with this key. */
EITP__PRIVATE eitp__jinja_value eitp__jinja_attribute(eitp__jinja *jinja, const eitp__jinja_value *value,
                                                      const char *name, size_t size);

/* Evaluates value[key]: an element, or else the method of this name. */
EITP__PRIVATE eitp__jinja_value eitp__jinja_element(eitp__jinja *jinja, const eitp__jinja_value *value,
                                                    const eitp__jinja_value *key);

/* Evaluates value[start:stop:step]. Bounds that are None or missing default to the value's. */
EITP__PRIVATE eitp__jinja_value eitp__jinja_slice(eitp__jinja *jinja, const eitp__jinja_value *value,
                                                  const eitp__jinja_value bounds[3]);

/* Joins strings, as str.join does, or values as text if `converts`. */
EITP__PRIVATE eitp__jinja_value eitp__jinja_join(eitp__jinja *jinja, const eitp__jinja_list *list,
                                                 const eitp__jinja_value *between, int converts);

/* Returns the elements in reverse order, as a value of this kind. */
EITP__PRIVATE eitp__jinja_value eitp__jinja_reversed(eitp__jinja *jinja, const eitp__jinja_list *list, int kind);

/* Returns the pairs of a dict. */
EITP__PRIVATE eitp__jinja_list *eitp__jinja_items(eitp__jinja *jinja, const eitp__jinja_dict *dict);

#endif
