/* Directories that appear whole or not at all: they are written under another name and renamed. */
#ifndef EITP_PENDING_DIRECTORY_H
#define EITP_PENDING_DIRECTORY_H

#include "base/files.h"

/* A directory being written as ".<name>.partial" in the same parent directory as its final path. */
typedef struct eitp__pending_directory {
    eitp_host host;
    char *path;
    char *partial;  /* path that its files are written to */
    char *replaced; /* an earlier directory at `path` during its replacement, where names cannot be exchanged */
    int exists;     /* `partial` exists */
} eitp__pending_directory;

/* The suffixes of hidden names. */
#define EITP__PARTIAL_SUFFIX ".partial"
#define EITP__REPLACED_SUFFIX ".replaced"

/* Builds the names for the pending directory of `path`. Call eitp__pending_directory_abandon even after a failure. */
EITP__PRIVATE eitp_status eitp__pending_directory_name(eitp__pending_directory *pending, const eitp_host *host,
                                                       const char *path, eitp_error *error);

/* Makes the files of a pending directory durable and renames it to its path. An existing directory is replaced, and
   removed last. On failure the names are as before, because the caller may be about to remove others in favor of one
   that exists. */
EITP__PRIVATE eitp_status eitp__pending_directory_install(eitp__pending_directory *pending, eitp_error *error);

/* Removes a pending directory that was not installed, and releases it. Harmless if zeroed. */
EITP__PRIVATE void eitp__pending_directory_abandon(eitp__pending_directory *pending);

#endif
