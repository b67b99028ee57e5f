/* Opens shared libraries at run time, so that programs need not link what they may never use. */
#ifndef EITP_LIBRARY_H
#define EITP_LIBRARY_H

#include "base/platform.h"

/* 1 if this program contains the functions that open libraries, which older C libraries have in -ldl, and is not linked
   statically: opened libraries bring the shared C library, and two C libraries in a process crash it. */
EITP__PRIVATE int eitp__can_open_libraries(void);

/* Opens a library by name or path. It stays open: its threads may run until the process ends. Returns NULL after a
   failure, with what the system says about it in `reason`. */
EITP__PRIVATE void *eitp__open_library(const char *name, char *reason, size_t size);

/* 1 if a library is known to be open in this process. */
EITP__PRIVATE int eitp__is_library_open(const char *name);

/* Stores the address of a library's function in the function pointer at `function`. Returns 0 if it has none. */
EITP__PRIVATE int eitp__find_function(void *library, const char *name, void *function);

#endif
