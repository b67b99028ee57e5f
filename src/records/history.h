/*
 * What a run has recorded: for programs that look at it while it trains or afterwards, on its machine or another one.
 * Nothing is written, locked or signalled: a run does not notice.
 */
#ifndef EITP_HISTORY_H
#define EITP_HISTORY_H

#include "base/base.h"

EITP_BEGIN_DECLARATIONS

/* A number in the records of some steps. */
typedef struct eitp_history_point {
    int64_t step;   /* the last of them */
    uint32_t count; /* of records with a finite value, at least 1 */
    float mean, minimum, maximum;
} eitp_history_point;

/* The records of a run: numbers of steps in bounded memory, evaluations and events. */
typedef struct eitp_history eitp_history;

/*
 * Reads summary.jsonl of a directory of records, which is the output directory or --log-dir, and what metrics.jsonl has
 * that is newer, or without a summary all of it. A record that is being written is left for the next update. A file
 * that is missing or cannot be opened, such as a loop of links, has no records, and unreadable lines are left out.
 * EITP_ERROR_IO if metrics.jsonl can be opened and not read, and EITP_ERROR_ARGUMENT for NULL.
 */
EITP_API eitp_status eitp_history_open(const eitp_host *host, const char *directory, eitp_history **history,
                                       eitp_error *error);

/* Reads what the run has recorded since. *changed (may be NULL) is 1 if there was anything. Where a resumed run has
   removed records of later steps, all is read again. */
EITP_API eitp_status eitp_history_update(eitp_history *history, int *changed, eitp_error *error);

EITP_API void eitp_history_close(eitp_history *history); /* NULL is harmless */

/* The last step with a record; 0: none. Of NULL 0. */
EITP_API int64_t eitp_history_step(const eitp_history *history);

/* The names of the numbers, in the order of their first records: NULL after the last. They are valid until the next
   update. */
EITP_API const char *eitp_history_name(const eitp_history *history, size_t index);

/* Stores the first `capacity` points of a number, in the order of steps, and returns how many there are, at most
   EITP_HISTORY_POINTS. 0 if the number is unknown. Points may be NULL if `capacity` is 0. */
#define EITP_HISTORY_POINTS 2000
EITP_API size_t eitp_history_points(const eitp_history *history, const char *name, eitp_history_point *points,
                                    size_t capacity);

/* The last value of a number that was recorded in step eitp_history_step or before; NaN if there is none. */
EITP_API double eitp_history_last(const eitp_history *history, const char *name);

/* Evaluations and events as lines of metrics.jsonl, oldest first, each with a line feed: *size bytes. The oldest of
   half a megabyte are not there any more: *left_out counts them. Both may be NULL. Valid until the next update. */
EITP_API const char *eitp_history_lines(const eitp_history *history, size_t *size, int64_t *left_out);

EITP_END_DECLARATIONS

#endif
