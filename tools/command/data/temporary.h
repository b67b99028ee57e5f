/* An unnamed file: no other process can open it, and it disappears when this process ends. */
#ifndef COMMAND_DATA_TEMPORARY_H
#define COMMAND_DATA_TEMPORARY_H

#include "text.h"

EITP_BEGIN_DECLARATIONS

/* Do not move it while its host is in use. */
typedef struct temporary_file {
    char *path; /* name in messages; no file has this path */
    char *partial;
    int descriptor;
} temporary_file;

/* Creates the file on the disk of TMPDIR or /tmp. Release it in any case. */
eitp_status temporary_create(temporary_file *t, eitp_error *error);
void temporary_release(temporary_file *t);

/* Returns the command's host with the file at t->path and at "<path>.partial", the path to which it is first
   written. */
eitp_host temporary_host(temporary_file *t);

EITP_END_DECLARATIONS

#endif
