/* Values of records as text, for every sink that writes a file. */
#ifndef EITP_RECORD_TEXT_H
#define EITP_RECORD_TEXT_H

#include "base/json.h"
#include "run/run.h"

/* What a sink says that it has of the step of a checkpoint: see eitp_record_sink.resume. */
enum { EITP__RECORDED_EVALUATION = 1, EITP__RECORDED_SPOT = 2 };

/* Room in a buffer for the text of a record: a sink allocates it when it is opened, and rarely more. */
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
