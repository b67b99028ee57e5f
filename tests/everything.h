/*
 * All of eitp, private parts too, for a test: the modules' headers where the modules are compiled apart (EITP_SPLIT),
 * or eitp.h with its implementation where they are packed. A test may name single headers, "base/json.h": packed, they
 * lead here.
 */
#ifndef EITP_TEST_EVERYTHING_H
#define EITP_TEST_EVERYTHING_H

/* Tests call POSIX, which strict C hides; this must precede the first system header. */
#ifndef _DEFAULT_SOURCE
#define _DEFAULT_SOURCE 1
#endif

#ifdef EITP_SPLIT
#include "everything_split.h" /* made from src/manifest by the Makefile */
#else
#define EITP_IMPLEMENTATION
#include "eitp.h"
#endif

#endif
