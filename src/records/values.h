/* Values of records: building them, and writing them as text. */
#ifndef EITP_VALUES_H
#define EITP_VALUES_H

#include "base/json.h"
#include "base/memory.h"
#include "records/records.h"

/* ---- Building ---- */

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

/* ---- As text ---- */

/* Room in a buffer for the text of a record: a file allocates it when it is opened, and rarely more. */
#define EITP__RECORD_TEXT ((size_t)16384)

/* Bytes that such a buffer takes at most, while it grows for a record of EITP__RECORD_VALUES values. */
#define EITP__RECORD_TEXT_MOST ((size_t)200 << 10)

/* Initializes a buffer with room for a record; 0 if memory runs out. */
EITP__PRIVATE int eitp__record_text_init(eitp__buffer *text, const eitp_host *host);

/* Adds a value as JSON: a number that is not finite is null. */
EITP__PRIVATE void eitp__record_write_value(eitp__buffer *text, const eitp_value *value);

/* Adds `"name": value`. */
EITP__PRIVATE void eitp__record_write_member(eitp__buffer *text, const eitp_value *value);

/* Adds a record as an object: "step", its values, the members of `count` objects, which are texts or NULL, "time" and
   "elapsed". */
EITP__PRIVATE void eitp__record_write(eitp__buffer *text, const eitp_record *record, const char *const *objects,
                                      size_t count);

/* A time in seconds, with three decimals. */
EITP__PRIVATE void eitp__record_write_time(eitp__buffer *text, double seconds);

/* The value with this name, or NULL. */
EITP__PRIVATE const eitp_value *eitp__record_find(const eitp_record *record, const char *name);

#endif
