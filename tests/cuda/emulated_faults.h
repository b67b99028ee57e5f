/*
 * Faults from the environment: VARIABLE=n, n:code or name:n:code. The n-th call, counting all functions or only the
 * named one, fails with the code. Callers hold a lock.
 */
#ifndef EMULATED_FAULTS_H
#define EMULATED_FAULTS_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct emulated_fault {
    char name[64]; /* of the function; empty: all */
    long at, count;
    int code;
} emulated_fault;

static inline void emulated_fault_read(emulated_fault *fault, const char *variable, int usual_code) {
    const char *text = getenv(variable), *digits;
    char *end;
    memset(fault, 0, sizeof *fault);
    if (!text || !*text)
        return;
    digits = text;
    if (*text < '0' || *text > '9') {
        const size_t length = strcspn(text, ":");
        snprintf(fault->name, sizeof fault->name, "%.*s", (int)length, text);
        digits = text + length + (text[length] == ':');
    }
    fault->at = strtol(digits, &end, 10);
    fault->code = *end == ':' ? (int)strtol(end + 1, NULL, 10) : usual_code;
    if (fault->at < 1) {
        fprintf(stderr, "emulated cuda: %s=%s is not n, n:code or name:n:code\n", variable, text);
        abort();
    }
}

/* Returns the error of this call, or 0. */
static inline int emulated_fault_strikes(emulated_fault *fault, const char *function) {
    if (!fault->at || (fault->name[0] && strcmp(fault->name, function)))
        return 0;
    return ++fault->count == fault->at ? fault->code : 0;
}

#endif
