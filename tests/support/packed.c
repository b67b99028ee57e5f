/*
 * The implementation in eitp.h, or the part selected by EITP_PART, compiled once for all tests of it. Its private
 * functions can be called from outside.
 */
#define EITP__PRIVATE extern
#define EITP__LOCAL extern
#define EITP_IMPLEMENTATION
/* A function that is defined before it is called has no prototype in eitp.h. */
#pragma GCC diagnostic ignored "-Wmissing-prototypes"
#include "eitp.h"
