/*
 * All of eitp for a test, including private parts: the headers of the modules. The test is linked with the separately
 * compiled modules, or with the implementation in eitp.h.
 */
#ifndef EITP_TEST_EVERYTHING_H
#define EITP_TEST_EVERYTHING_H

/* Tests call POSIX functions, which strict C hides. This must precede the first system header. */
#ifndef _DEFAULT_SOURCE
#define _DEFAULT_SOURCE 1
#endif

#include "everything_split.h" /* generated from src/manifest by the Makefile */

#endif
