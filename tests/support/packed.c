/* The implementation in eitp.h, compiled once for all tests of it: its private functions can be called from outside. */
#define EITP__PRIVATE extern
#define EITP_IMPLEMENTATION
#include "eitp.h"
