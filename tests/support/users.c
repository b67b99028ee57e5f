#define EITP_IMPLEMENTATION
#include "eitp.h"
