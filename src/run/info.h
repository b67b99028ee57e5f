/*
 * run.json: what a run is. It is in the output directory and in each checkpoint, and in the output directory it also
 * has "process": who trains there, since when, and how it ended. That is rewritten while the run trains, by a thread,
 * so that a disk that stalls stalls no step.
 */
#ifndef EITP_INFO_H
#define EITP_INFO_H

#include "base/process_identity.h"
#include "records/replaced_file.h"
#include "run/internal.h"

#define EITP__RUN_INFO_FILE "run.json"

/* Members that a program adds. */
enum { EITP__INFO_MEMBERS = 16, EITP__INFO_NAME = 40 };

typedef struct eitp__info_member {
    char name[EITP__INFO_NAME];
    char *value; /* JSON */
} eitp__info_member;

typedef struct eitp__run_info {
    eitp__info_member members[EITP__INFO_MEMBERS];
    size_t count;
    eitp__buffer text; /* the file without "process"; empty before the run begins */
    size_t run_size;   /* bytes of it before the end of the object "run", which "process" is a member of */
    eitp__process_identity identity;
    eitp__replaced_file file; /* its text is the last sign of life: the whole file */
    double next;              /* when the next one is due */
    int is_new;               /* the file did not exist before */
    int is_failing;           /* it could not be written, which was reported */
} eitp__run_info;

#endif
