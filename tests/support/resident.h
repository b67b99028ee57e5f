/* The resident memory of a test's process. */
#ifndef EITP_TEST_RESIDENT_H
#define EITP_TEST_RESIDENT_H

#include "tests/support/trainer_run.h"

/* A sanitizer's records grow, and it keeps released memory. */
#ifdef __SANITIZE_ADDRESS__
#define SHADOW_MEMORY 1
#else
#define SHADOW_MEMORY 0
#endif

/* Returns the resident kB not backed by a file (the kernel may drop pages of code at any time), or 0 if /proc does not
   report it. */
static RUN_UNUSED long resident_kilobytes(void) {
    FILE *file = fopen("/proc/self/status", "r");
    char line[256];
    long kilobytes = 0;
    while (file && fgets(line, sizeof line, file)) {
        if (sscanf(line, "RssAnon: %ld", &kilobytes) == 1)
            break;
    }
    if (file)
        fclose(file);
    return kilobytes;
}

#endif
