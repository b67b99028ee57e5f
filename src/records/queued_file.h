/*
 * A file of records, appended to by a separate thread. The training thread copies each record into a queue of fixed
 * size: it makes no file call, allocates nothing and never waits, except in the functions documented to wait.
 *
 * The thread writes the queue if its last write was at least `flush_seconds` ago, or the queue is half full. After a
 * failure it truncates the file to its last whole record, keeps the queue and retries after 1 second, 2, 4 and so on up
 * to 32. A record that finds the queue full is dropped.
 *
 * If another program has removed, moved or truncated the file, as logrotate does, it is opened again by its path, and
 * records continue at its end. A warning reports this once.
 *
 * If threads are unavailable (EITP__WITH_WORKER), or the thread cannot be started, each record is written when it is
 * appended.
 */
#ifndef EITP_QUEUED_FILE_H
#define EITP_QUEUED_FILE_H

#include "base/files.h"

typedef struct eitp__queued_file eitp__queued_file;

/* Size in bytes of a queue: its records, each with its 4-byte length. */
#define EITP__QUEUE_BYTES ((size_t)1 << 20)

/* Opens the file, creating it if missing, and appends to it. Refuses a symbolic link. */
EITP__PRIVATE eitp_status eitp__queued_file_open(const eitp_host *host, const char *path, eitp__queued_file **file,
                                                 eitp_error *error);

/* Returns the memory of a file in bytes, without its thread's stack. */
EITP__PRIVATE size_t eitp__queued_file_bytes(void);

/* Sets the initial bytes of a file that is empty when it is reopened, such as a line of names: at most 8192 bytes,
   which are copied. */
EITP__PRIVATE void eitp__queued_file_set_lead(eitp__queued_file *file, const void *lead, size_t size);

/* Sets the minimum time between two writes (initially 1 second), and the maximum time that the functions below wait for
   the thread (initially 10 seconds). */
EITP__PRIVATE void eitp__queued_file_set_times(eitp__queued_file *file, double flush_seconds, double wait_seconds);

/* Queues a record of 1 byte or more. Fails if it is dropped, and as long as earlier records cannot be written. */
EITP__PRIVATE eitp_status eitp__queued_file_append(eitp__queued_file *file, const void *record, size_t size,
                                                   eitp_error *error);

/* Like eitp__queued_file_append, for the text in a buffer. If the buffer ran out of memory, the record is dropped. */
EITP__PRIVATE eitp_status eitp__queued_file_append_text(eitp__queued_file *file, const eitp__buffer *text,
                                                        eitp_error *error);

/* Waits until the queue is written and the file synced, or one of these has failed. EITP_ERROR_IO if that takes too
   long; later calls then fail without waiting until the thread's call has returned. */
EITP__PRIVATE eitp_status eitp__queued_file_sync(eitp__queued_file *file, eitp_error *error);

/* Returns the processor time of its thread in seconds; 0 without a thread, or if the time cannot be read. */
EITP__PRIVATE double eitp__queued_file_seconds(const eitp__queued_file *file);

/* Returns the number of dropped records, plus the queued ones if they cannot be written. */
EITP__PRIVATE int64_t eitp__queued_file_lost(eitp__queued_file *file);

/*
 * Prepares the file for reading: waits until the queue is written or has failed. The thread then makes no call until
 * eitp__queued_file_cut truncates the file and empties the queue. The emptied records do not count as lost: the count
 * restarts at 0.
 */
EITP__PRIVATE eitp_status eitp__queued_file_pause(eitp__queued_file *file, eitp_error *error);
EITP__PRIVATE eitp_status eitp__queued_file_read(eitp__queued_file *file, uint64_t offset, void *data, size_t size,
                                                 size_t *done, eitp_error *error);
EITP__PRIVATE eitp_status eitp__queued_file_cut(eitp__queued_file *file, uint64_t size, eitp_error *error);

/*
 * Waits until the queue is written or has failed, and closes the file. If a call of the thread has not returned by
 * then, the thread is abandoned: it ends when the call returns, without using the host or any memory except its stack,
 * from which it writes. The file is then not closed. NULL is harmless.
 */
EITP__PRIVATE void eitp__queued_file_close(eitp__queued_file *file);

#endif
