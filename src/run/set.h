/* The files through which settings of a run are changed while it trains (run/set.c). */
#ifndef EITP_SET_H
#define EITP_SET_H

#include "records/replaced_file.h"

#define EITP__SET_REQUEST "set.json"
#define EITP__SET_TAKEN "set.taken.json"
#define EITP__SET_REFUSED "set.refused.json" /* the last refused request, kept for inspection */
#define EITP__SET_ANSWER "set.answer.json"

enum { EITP__SET_CHANGES = 16 }; /* maximum number of settings in a request */

/* State of the observer. */
typedef struct eitp__run_set {
    double look_at; /* time of the next check */
    char *request;  /* path of the request file; NULL: requests are not checked */
    int has_failed; /* a request could not be read, which was reported */
    eitp__replaced_file answer;
} eitp__run_set;

#endif
