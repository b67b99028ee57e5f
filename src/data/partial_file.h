/* A file that appears under its path complete and synced, or not at all. */
#ifndef EITP_PARTIAL_FILE_H
#define EITP_PARTIAL_FILE_H

#include "base/files.h"

/* A file being written as "<path>.partial". It is locked, so that two processes do not write to one path. */
typedef struct eitp__partial_file {
    const eitp_host *host;
    char *path;
    char *partial_path;
    int exists; /* the partial file exists and belongs to this process */
    eitp__file file;
    void *lock;
    int has_lock;
} eitp__partial_file;

/* Fails early if `path` exists but is not a file. `what` is for the message, such as "token file". */
EITP__PRIVATE eitp_status eitp__partial_file_check(const eitp_host *host, const char *path, const char *what,
                                                   eitp_error *error);

/* Creates the partial file. Fails if another process is writing to it; a leftover of a killed process is replaced. Call
   eitp__partial_file_release even after a failure. */
EITP__PRIVATE eitp_status eitp__partial_file_open(eitp__partial_file *partial, const eitp_host *host, const char *path,
                                                  eitp_error *error);

/* Syncs and closes the file, renames it to its path, and syncs the directory. */
EITP__PRIVATE eitp_status eitp__partial_file_commit(eitp__partial_file *partial, eitp_error *error);

/* Removes a file that was not committed and releases the memory. Harmless if zeroed. */
EITP__PRIVATE void eitp__partial_file_release(eitp__partial_file *partial);

#endif
