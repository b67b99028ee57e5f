/*
 * A file of records, appended to by a thread of its own. The training thread copies each record into a queue of fixed
 * size: it makes no file call, allocates nothing and waits for nothing, except in the functions that say so.
 *
 * The thread writes what is queued once the last write is `flush_seconds` ago, or the queue is half full. After a
 * failure it truncates the file to its last whole record, keeps the queue and tries again after 1 second, 2, 4 and so
 * on up to 32. A record that finds the queue full is dropped.
 *
 * Where another program has removed, moved or truncated the file, as logrotate does, it is opened again by its path,
 * and records continue at its end. A warning says so, once.
 *
 * If threads are unavailable (EITP__WITH_WORKER), or the thread cannot be started, each record is written when it is
 * appended.
 */
#ifndef EITP_QUEUED_FILE_H
#define EITP_QUEUED_FILE_H

#include "base/files.h"

typedef struct eitp__queued_file eitp__queued_file;

/* Bytes of records, each with the 4 bytes of its length, that a queue holds. */
#define EITP__QUEUE_BYTES ((size_t)1 << 20)

/* Opens the file, or creates it, and appends to it. Refuses a symbolic link. */
EITP__PRIVATE eitp_status eitp__queued_file_open(const eitp_host *host, const char *path, eitp__queued_file **file,
                                                 eitp_error *error);

/* Bytes that a file takes, but not its thread's stack. */
EITP__PRIVATE size_t eitp__queued_file_bytes(void);

/* What a file that is empty when it is opened again begins with, such as a line of names: at most 8192 bytes, which are
   copied. */
EITP__PRIVATE void eitp__queued_file_set_lead(eitp__queued_file *file, const void *lead, size_t size);

/* Sets the least time between two writes (at first 1 second), and the longest time that the functions below wait for
   the thread (at first 10 seconds). */
EITP__PRIVATE void eitp__queued_file_set_times(eitp__queued_file *file, double flush_seconds, double wait_seconds);

/* Queues a record of 1 byte or more. Fails if it is dropped, and as long as earlier ones cannot be written. */
EITP__PRIVATE eitp_status eitp__queued_file_append(eitp__queued_file *file, const void *record, size_t size,
                                                   eitp_error *error);

/* The same for the text of a buffer. A text that memory did not suffice for is dropped. */
EITP__PRIVATE eitp_status eitp__queued_file_append_text(eitp__queued_file *file, const eitp__buffer *text,
                                                        eitp_error *error);

/* Waits until the queue is written and the file synced, or one of these has failed. EITP_ERROR_IO if that takes too
   long; then it is reported without waiting until the thread's call has returned. */
EITP__PRIVATE eitp_status eitp__queued_file_sync(eitp__queued_file *file, eitp_error *error);

/* Seconds of processor time that its thread has taken; 0 without one, and where that cannot be read. */
EITP__PRIVATE double eitp__queued_file_seconds(const eitp__queued_file *file);

/* Number of records that were dropped, and of those that are queued if they cannot be written. */
EITP__PRIVATE int64_t eitp__queued_file_lost(eitp__queued_file *file);

/*
 * For reading the file: waits until the queue is written or has failed, after which the thread makes no call until
 * eitp__queued_file_cut truncates the file and empties the queue. Records are not lost by that: the numbers start at 0
 * again.
 */
EITP__PRIVATE eitp_status eitp__queued_file_pause(eitp__queued_file *file, eitp_error *error);
EITP__PRIVATE eitp_status eitp__queued_file_read(eitp__queued_file *file, uint64_t offset, void *data, size_t size,
                                                 size_t *done, eitp_error *error);
EITP__PRIVATE eitp_status eitp__queued_file_cut(eitp__queued_file *file, uint64_t size, eitp_error *error);

/*
 * Waits until the queue is written or has failed, and closes the file. If a call of the thread has not returned by
 * then, the thread is abandoned: it ends when the call returns, without using the host or any memory but its stack,
 * from which it writes. The opened file is not closed then. NULL is harmless.
 */
EITP__PRIVATE void eitp__queued_file_close(eitp__queued_file *file);

#endif
