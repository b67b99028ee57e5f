/* Opens shared libraries at run time, so that programs need not link libraries they may never use. */
#ifndef EITP_LIBRARY_H
#define EITP_LIBRARY_H

#include "base/platform.h"

/*
 * Returns 1 if the program can open libraries: it contains the functions for it, which older C libraries have in -ldl,
 * and is not statically linked. An opened library brings the shared C library, and two C libraries in a process crash
 * it.
 */
EITP__PRIVATE int eitp__can_open_libraries(void);

/* Opens a library by name or path. The library stays open, since its threads may run until the process ends. On
   failure, returns NULL and stores the system's message in `reason`. */
EITP__PRIVATE void *eitp__open_library(const char *name, char *reason, size_t size);

/* Returns 1 if a library is known to be open in this process. */
EITP__PRIVATE int eitp__is_library_open(const char *name);

/* Stores the address of a library's function in the function pointer at `function`. Returns 0 if the library lacks
   it. */
EITP__PRIVATE int eitp__find_function(void *library, const char *name, void *function);

#endif
