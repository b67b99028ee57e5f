/*
 * Reads the records of a run, for programs that inspect it during or after training, on its machine or another one.
 * Nothing is written, locked or signalled, so the run is not affected.
 */
#ifndef EITP_HISTORY_H
#define EITP_HISTORY_H

#include "base/base.h"

EITP_BEGIN_DECLARATIONS

/* A number in the records of some steps. */
typedef struct eitp_history_point {
    int64_t step;   /* the last of these steps */
    uint32_t count; /* number of records with a finite value, at least 1 */
    float mean, minimum, maximum;
} eitp_history_point;

/* The records of a run: numbers of steps in bounded memory, evaluations and events. */
typedef struct eitp_history eitp_history;

/*
 * Reads summary.jsonl of a directory of records, which is the output directory or --log-dir, and the newer records of
 * metrics.jsonl, or all of them without a summary. A record that is being written is left for the next update. A file
 * that is missing or cannot be opened, such as a loop of links, counts as empty, and unreadable lines are skipped.
 * EITP_ERROR_IO if metrics.jsonl can be opened but not read, and EITP_ERROR_ARGUMENT for NULL.
 */
EITP_API eitp_status eitp_history_open(const eitp_host *host, const char *directory, eitp_history **history,
                                       eitp_error *error);

/* Reads the records added since the last read. *changed (may be NULL) is 1 if there were any. If a resumed run has
   removed records of later steps, everything is read again. */
EITP_API eitp_status eitp_history_update(eitp_history *history, int *changed, eitp_error *error);

EITP_API void eitp_history_close(eitp_history *history); /* NULL is harmless */

/* Returns the last step with a record; 0 if there are no records, or for NULL. */
EITP_API int64_t eitp_history_step(const eitp_history *history);

/* Returns the name of a number, in the order of first records; NULL after the last. It is valid until the next
   update. */
EITP_API const char *eitp_history_name(const eitp_history *history, size_t index);

/* Stores the first `capacity` points of a number, in the order of steps, and returns the number of points available, at
   most EITP_HISTORY_POINTS. 0 if the name is unknown. Points may be NULL if `capacity` is 0. */
#define EITP_HISTORY_POINTS 2000
EITP_API size_t eitp_history_points(const eitp_history *history, const char *name, eitp_history_point *points,
                                    size_t capacity);

/* Returns the last value of a number recorded in step eitp_history_step or before; NaN if it has no value. */
EITP_API double eitp_history_last(const eitp_history *history, const char *name);

/* Returns evaluations and events as lines of metrics.jsonl, oldest first, each with a line feed: *size bytes. Only the
   newest half megabyte is kept: *left_out counts the lines dropped. Both may be NULL. Valid until the next update. */
EITP_API const char *eitp_history_lines(const eitp_history *history, size_t *size, int64_t *left_out);

EITP_END_DECLARATIONS

#endif
