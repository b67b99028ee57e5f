/*
 * Write-behind: files that a background thread writes and syncs from copies, while the caller does something else. A
 * queue without room for copies writes at once.
 */
#ifndef EITP_WRITE_BEHIND_H
#define EITP_WRITE_BEHIND_H

#include "base/checksum.h"
#include "base/files.h"
#include "base/worker.h"

typedef struct eitp__write_behind eitp__write_behind;
typedef struct eitp__behind_file eitp__behind_file;

/* Where a file is written, and what it was. */
typedef struct eitp__file_output {
    eitp__write_behind *queue; /* the file is complete when this is finished; NULL: when the function returns */
    eitp__file_sum sum;        /* of the whole file */
} eitp__file_output;

/* A queue with room for copies of `files` files of `bytes` bytes in all, which its thread begins to touch. 0 bytes: the
   caller writes. */
EITP__PRIVATE eitp_status eitp__write_behind_create(const eitp_host *host, uint64_t bytes, size_t files,
                                                    eitp__write_behind **queue, eitp_error *error);

/* Drops the copies, and removes files that are not finished. The queue can be used again. */
EITP__PRIVATE void eitp__write_behind_clear(eitp__write_behind *queue);

/* The same, and releases the queue. NULL is harmless. */
EITP__PRIVATE void eitp__write_behind_destroy(eitp__write_behind *queue);

/* Opens "<path>.tmp". The queue owns the file. */
EITP__PRIVATE eitp_status eitp__behind_open(eitp__write_behind *queue, const char *path, eitp__behind_file **file,
                                            eitp_error *error);

/* Copies or writes data at an offset. Waits if the copies need more room than was asked for. */
EITP__PRIVATE eitp_status eitp__behind_write(eitp__behind_file *file, uint64_t offset, const void *data, size_t size,
                                             eitp_error *error);

/* Ends a file: all of it can be written and synced. */
EITP__PRIVATE void eitp__behind_end(eitp__behind_file *file);

/* True if no file that was ended is still being written. */
EITP__PRIVATE int eitp__behind_is_idle(eitp__write_behind *queue);

/* Waits for all files, renames them to their paths and syncs the directories: a path has the whole old file or the
   whole new one. The queue can be used again once it is cleared. */
EITP__PRIVATE eitp_status eitp__behind_finish(eitp__write_behind *queue, eitp_error *error);

/* True if the queue still has whole copies of its files. */
EITP__PRIVATE int eitp__behind_can_repeat(const eitp__write_behind *queue);

/* Begins to write all files again from their copies, after eitp__behind_finish and whether or not that failed: after a
   failed sync the system may have dropped what was written. */
EITP__PRIVATE eitp_status eitp__behind_repeat(eitp__write_behind *queue, eitp_error *error);

#endif
