/* A file of comma-separated values: what the run uses of it. */
#ifndef EITP_RUN_CSV_H
#define EITP_RUN_CSV_H

#include "run/record_file.h"
#include "run/run.h"

/* Bytes that it takes at most. */
EITP__PRIVATE size_t eitp__csv_bytes(void);

/* The file, for its times. */
EITP__PRIVATE eitp__record_file *eitp__csv_file(eitp_csv *csv);

/* Sets the columns of a file that has no header yet, as eitp_csv_open does. */
EITP__PRIVATE eitp_status eitp__csv_set_columns(eitp_csv *csv, const char *const *columns, size_t count,
                                                eitp_error *error);

#endif
