/* Reads files in the background into the system's cache before they are needed. */
#ifndef EITP_PREFETCH_H
#define EITP_PREFETCH_H

#include "base/platform.h"

typedef struct eitp__prefetch eitp__prefetch;

/* Creates a list of files. NULL if the host has no eitp_files.prefetch or memory is short: files are then read when
   they are needed. */
EITP__PRIVATE eitp__prefetch *eitp__prefetch_create(const eitp_host *host);

/* Opens a file and queues it for reading, after the files added before. All files together may fill a quarter of the
   remaining memory; the excess is not read. NULL, a missing file and other failures are ignored. */
EITP__PRIVATE void eitp__prefetch_add(eitp__prefetch *prefetch, const char *path);

/* Stops reading and closes the files. NULL is harmless. */
EITP__PRIVATE void eitp__prefetch_destroy(eitp__prefetch *prefetch);

#endif
