/*
 * All of eitp, private parts too, for a test: the modules' headers. The test is linked with the modules, compiled
 * apart, or with the implementation in eitp.h.
 */
#ifndef EITP_TEST_EVERYTHING_H
#define EITP_TEST_EVERYTHING_H

/* Tests call POSIX, which strict C hides; this must precede the first system header. */
#ifndef _DEFAULT_SOURCE
#define _DEFAULT_SOURCE 1
#endif

#include "everything_split.h" /* made from src/manifest by the Makefile */

#endif
