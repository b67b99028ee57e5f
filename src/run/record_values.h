/* The values of a record being built. */
#ifndef EITP_RECORD_VALUES_H
#define EITP_RECORD_VALUES_H

#include "base/memory.h"
#include "run/run.h"

/* Values that a record has room for: further ones are left out. */
#define EITP__RECORD_VALUES 640
#define EITP__RECORD_NAME_SIZE 96

/* Values of an event or record. */
EITP__PRIVATE eitp_value eitp__number_value(const char *name, double number);
EITP__PRIVATE eitp_value eitp__integer_value(const char *name, int64_t integer);
EITP__PRIVATE eitp_value eitp__boolean_value(const char *name, int boolean);
EITP__PRIVATE eitp_value eitp__text_value(const char *name, const char *text);

/* A list that is cleared for each record. Names and texts that are not composed must outlive the record. */
typedef struct eitp__values {
    eitp_value values[EITP__RECORD_VALUES];
    char names[EITP__RECORD_VALUES][EITP__RECORD_NAME_SIZE]; /* of those that are composed */
    size_t count;
} eitp__values;

EITP__PRIVATE void eitp__add_number(eitp__values *list, const char *name, double number);
EITP__PRIVATE void eitp__add_integer(eitp__values *list, const char *name, int64_t integer);
EITP__PRIVATE void eitp__add_boolean(eitp__values *list, const char *name, int boolean);
EITP__PRIVATE void eitp__add_text(eitp__values *list, const char *name, const char *text);

/* The same with the name prefix + name + suffix. */
EITP__PRIVATE void eitp__add_named(eitp__values *list, const char *prefix, const char *name, const char *suffix,
                                   double number);
/* Seconds, which are rounded to nanoseconds: clocks know no more. */
EITP__PRIVATE void eitp__add_seconds(eitp__values *list, const char *prefix, const char *name, double seconds);
EITP__PRIVATE void eitp__add_named_integer(eitp__values *list, const char *prefix, const char *name, int64_t integer);
EITP__PRIVATE void eitp__add_named_boolean(eitp__values *list, const char *prefix, const char *name, int boolean);

#endif
