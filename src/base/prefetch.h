/* Files that are read soon, read into the system's cache meanwhile. */
#ifndef EITP_PREFETCH_H
#define EITP_PREFETCH_H

#include "base/platform.h"

typedef struct eitp__prefetch eitp__prefetch;

/* Creates a list of files. NULL if the host has no eitp_files.prefetch, or if memory is short: then files are read when
   they are needed. */
EITP__PRIVATE eitp__prefetch *eitp__prefetch_create(const eitp_host *host);

/* Opens a file and begins to read it, after those added before. All together may fill a quarter of the memory that is
   left; what exceeds it is not read. NULL, a missing file and further failures are ignored. */
EITP__PRIVATE void eitp__prefetch_add(eitp__prefetch *prefetch, const char *path);

/* Stops reading and closes the files. NULL is harmless. */
EITP__PRIVATE void eitp__prefetch_destroy(eitp__prefetch *prefetch);

#endif
