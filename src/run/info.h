/*
 * run.json: the description of a run. It is written to the output directory and to each checkpoint. In the output
 * directory it also has "process": who trains there, since when, and how training ended. A thread rewrites it during
 * training, so that a stalled disk does not stall a step.
 */
#ifndef EITP_INFO_H
#define EITP_INFO_H

#include "base/process_identity.h"
#include "records/replaced_file.h"
#include "run/internal.h"

#define EITP__RUN_INFO_FILE "run.json"

/* Limits of the members added by the program: their number, and the size of a name. */
enum { EITP__INFO_MEMBERS = 16, EITP__INFO_NAME = 40 };

typedef struct eitp__info_member {
    char name[EITP__INFO_NAME];
    char *value; /* JSON */
} eitp__info_member;

typedef struct eitp__run_info {
    eitp__info_member members[EITP__INFO_MEMBERS];
    size_t count;
    eitp__buffer text; /* the file without "process"; empty until the run starts */
    size_t run_size;   /* bytes of it before the end of the object "run", which will contain "process" */
    eitp__process_identity identity;
    eitp__replaced_file file; /* its text is the whole file as last written */
    double next;              /* time of the next write */
    int is_new;               /* 1: the file did not exist before */
    int is_failing;           /* it could not be written, which was reported */
} eitp__run_info;

#endif
