/* Values of records: building them, and writing them as text. */
#ifndef EITP_VALUES_H
#define EITP_VALUES_H

#include "base/json.h"
#include "base/memory.h"
#include "records/records.h"

/* ---- Building ---- */

/* Maximum number of values in a record; the rest are left out. */
#define EITP__RECORD_VALUES 640
#define EITP__RECORD_NAME_SIZE 96

/* Returns a value of an event or record. */
EITP__PRIVATE eitp_value eitp__number_value(const char *name, double number);
EITP__PRIVATE eitp_value eitp__integer_value(const char *name, int64_t integer);
EITP__PRIVATE eitp_value eitp__boolean_value(const char *name, int boolean);
EITP__PRIVATE eitp_value eitp__text_value(const char *name, const char *text);

/* A list that is cleared for each record. Names and strings that are not composed must outlive the record. */
typedef struct eitp__values {
    eitp_value values[EITP__RECORD_VALUES];
    char names[EITP__RECORD_VALUES][EITP__RECORD_NAME_SIZE]; /* composed names */
    size_t count;
} eitp__values;

EITP__PRIVATE void eitp__add_number(eitp__values *list, const char *name, double number);
EITP__PRIVATE void eitp__add_integer(eitp__values *list, const char *name, int64_t integer);
EITP__PRIVATE void eitp__add_boolean(eitp__values *list, const char *name, int boolean);
EITP__PRIVATE void eitp__add_text(eitp__values *list, const char *name, const char *text);

/* Like the functions above, with the name prefix + name + suffix. */
EITP__PRIVATE void eitp__add_named(eitp__values *list, const char *prefix, const char *name, const char *suffix,
                                   double number);
/* Adds seconds, rounded to nanoseconds: clocks are no more precise. */
EITP__PRIVATE void eitp__add_seconds(eitp__values *list, const char *prefix, const char *name, double seconds);
EITP__PRIVATE void eitp__add_named_integer(eitp__values *list, const char *prefix, const char *name, int64_t integer);
EITP__PRIVATE void eitp__add_named_boolean(eitp__values *list, const char *prefix, const char *name, int boolean);

/* ---- As text ---- */

/* Initial size of a buffer for a record's text: a file allocates it when it is opened, and rarely more. */
#define EITP__RECORD_TEXT ((size_t)16384)

/* Maximum size of such a buffer, reached while it grows for a record of EITP__RECORD_VALUES values. */
#define EITP__RECORD_TEXT_MAX ((size_t)200 << 10)

/* Initializes a buffer of this size for a record's text; returns 0 if memory runs out. */
EITP__PRIVATE int eitp__record_text_init(eitp__buffer *text, const eitp_host *host);

/* Appends a value as JSON: a number that is not finite is null. */
EITP__PRIVATE void eitp__record_write_value(eitp__buffer *text, const eitp_value *value);

/* Appends `"name": value`. */
EITP__PRIVATE void eitp__record_write_member(eitp__buffer *text, const eitp_value *value);

/* Appends a record as an object: "step", its values, the members of `count` objects, which are strings or NULL, "time"
   and "elapsed". */
EITP__PRIVATE void eitp__record_write(eitp__buffer *text, const eitp_record *record, const char *const *objects,
                                      size_t count);

/* Appends a time in seconds, with three decimals. */
EITP__PRIVATE void eitp__record_write_time(eitp__buffer *text, double seconds);

/* Returns the value with this name, or NULL. */
EITP__PRIVATE const eitp_value *eitp__record_find(const eitp_record *record, const char *name);

#endif
