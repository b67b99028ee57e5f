/* metrics.jsonl: a JSON object a line, for each step and each evaluation, in order. */
#ifndef COMMAND_METRICS_H
#define COMMAND_METRICS_H

#include "command_text.h"

EITP_BEGIN_DECLARATIONS

typedef struct metrics_file {
    eitp_host host;
    char *path;
    void *file;
    uint64_t offset;     /* bytes in the file */
    text_buffer waiting; /* records not yet written */
    double written;      /* when the last were */
    int made;            /* the file was not there before */
    int evaluated;       /* where records were kept: one of the last step kept has a val_loss */
} metrics_file;

/*
 * Opens the file. Records of steps after `step` are cut off, and so is a last one without an end, so that the file
 * reads as one run; with a step below 0 it is emptied.
 */
eitp_status metrics_open(metrics_file *m, const char *path, int64_t step, eitp_error *error);

/* Adds a line; it reaches the file within a second of the next. */
eitp_status metrics_add(metrics_file *m, const text_buffer *record, eitp_error *error);

/* Writes what is waiting, and makes sure that it lasts. */
eitp_status metrics_sync(metrics_file *m, eitp_error *error);

/* Writes what is waiting, as far as possible, and closes. */
void metrics_close(metrics_file *m);

EITP_END_DECLARATIONS

#endif
