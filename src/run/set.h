/* The files by which settings of a run change while it trains (run/set.c). */
#ifndef EITP_SET_H
#define EITP_SET_H

#include "records/replaced_file.h"

#define EITP__SET_REQUEST "set.json"
#define EITP__SET_TAKEN "set.taken.json"
#define EITP__SET_REFUSED "set.refused.json" /* one that was refused, kept to be looked at */
#define EITP__SET_ANSWER "set.answer.json"

enum { EITP__SET_CHANGES = 16 }; /* settings of a request at most */

/* The state of the observer. */
typedef struct eitp__run_set {
    double look_at; /* time of the next look */
    char *request;  /* path of the file; NULL: it does not look */
    int has_failed; /* to take a request, which was reported */
    eitp__replaced_file answer;
} eitp__run_set;

#endif
