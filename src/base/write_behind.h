/* Write-behind: a background thread writes and syncs files from copies, while the caller does something else. A queue
   without room for copies writes immediately. */
#ifndef EITP_WRITE_BEHIND_H
#define EITP_WRITE_BEHIND_H

#include "base/checksum.h"
#include "base/files.h"
#include "base/worker.h"

typedef struct eitp__write_behind eitp__write_behind;
typedef struct eitp__behind_file eitp__behind_file;

/* Destination of a file, and its sum once written. */
typedef struct eitp__file_output {
    eitp__write_behind *queue; /* the file is complete when this queue is finished; NULL: when the function returns */
    eitp__file_sum sum;        /* of the whole file */
} eitp__file_output;

/* Creates a queue with room for copies of `files` files of `bytes` bytes in total; its thread starts to touch that
   memory. 0 bytes: the caller writes. */
EITP__PRIVATE eitp_status eitp__write_behind_create(const eitp_host *host, uint64_t bytes, size_t files,
                                                    eitp__write_behind **queue, eitp_error *error);

/* Drops the copies, and removes unfinished files. The queue can be used again. */
EITP__PRIVATE void eitp__write_behind_clear(eitp__write_behind *queue);

/* Like eitp__write_behind_clear, and releases the queue. NULL is harmless. */
EITP__PRIVATE void eitp__write_behind_destroy(eitp__write_behind *queue);

/* Opens "<path>.tmp". The queue owns the file. */
EITP__PRIVATE eitp_status eitp__behind_open(eitp__write_behind *queue, const char *path, eitp__behind_file **file,
                                            eitp_error *error);

/* Copies or writes data at an offset. Waits if the copies need more room than was requested. */
EITP__PRIVATE eitp_status eitp__behind_write(eitp__behind_file *file, uint64_t offset, const void *data, size_t size,
                                             eitp_error *error);

/* Ends a file: it can be written completely and synced. */
EITP__PRIVATE void eitp__behind_end(eitp__behind_file *file);

/* True if no ended file is still being written. */
EITP__PRIVATE int eitp__behind_is_idle(eitp__write_behind *queue);

/* Waits for all files, renames them to their paths and syncs the directories: each path has either the complete old
   file or the complete new one. The queue can be used again once it is cleared. */
EITP__PRIVATE eitp_status eitp__behind_finish(eitp__write_behind *queue, eitp_error *error);

/* True if the queue still has complete copies of its files. */
EITP__PRIVATE int eitp__behind_can_repeat(const eitp__write_behind *queue);

/* Starts to write all files again from their copies, after eitp__behind_finish, regardless of its result: after a
   failed sync, the system may have dropped written data. */
EITP__PRIVATE eitp_status eitp__behind_repeat(eitp__write_behind *queue, eitp_error *error);

#endif
