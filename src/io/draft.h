/* Directories that appear whole or not at all: they are written under another name and renamed. */
#ifndef EITP_DRAFT_H
#define EITP_DRAFT_H

#include "base/files.h"

/* A directory that is being written as ".<name>.partial", beside the path that it gets. */
typedef struct eitp__draft {
    eitp_host host;
    char *path;
    char *partial;  /* where its files are written */
    char *replaced; /* an earlier directory at `path` while it is replaced, where names cannot be exchanged */
    int exists;     /* `partial` does */
} eitp__draft;

/* The endings of hidden names. */
#define EITP__PARTIAL_SUFFIX ".partial"
#define EITP__REPLACED_SUFFIX ".replaced"

/* Finds the names for a draft of `path`. Call eitp__draft_abandon even after a failure. */
EITP__PRIVATE eitp_status eitp__draft_name(eitp__draft *draft, const eitp_host *host, const char *path,
                                           eitp_error *error);

/* Makes the files of a draft durable and gives it its path. A directory that is there is replaced, and removed last.
   On failure the names are as before: others may be about to be removed for one that exists. */
EITP__PRIVATE eitp_status eitp__draft_install(eitp__draft *draft, eitp_error *error);

/* Removes a draft that was not installed, and releases it. Harmless on a zeroed one. */
EITP__PRIVATE void eitp__draft_abandon(eitp__draft *draft);

#endif
