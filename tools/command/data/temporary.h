/* A file without a name: no other process can open it, and it ends with this one, however that ends. */
#ifndef COMMAND_DATA_TEMPORARY_H
#define COMMAND_DATA_TEMPORARY_H

#include "text.h"

EITP_BEGIN_DECLARATIONS

/* It must not move while its host is used. */
typedef struct temporary_file {
    char *path; /* what messages call it; nothing is there */
    char *partial;
    int descriptor;
} temporary_file;

/* Creates the file on the disk of TMPDIR or /tmp. Release it in any case. */
eitp_status temporary_create(temporary_file *t, eitp_error *error);
void temporary_release(temporary_file *t);

/* The command's host, in which the file is at t->path, and at "<path>.partial" too, as which it is written first. */
eitp_host temporary_host(temporary_file *t);

EITP_END_DECLARATIONS

#endif
