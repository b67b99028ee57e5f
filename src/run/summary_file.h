/* A sink that keeps summary.jsonl: see run/summary.h. */
#ifndef EITP_SUMMARY_FILE_H
#define EITP_SUMMARY_FILE_H

#include "run/summary.h"

typedef struct eitp__summary_file eitp__summary_file;

/* Of the records in the metrics.jsonl of a directory, which a resume reads: the sink that writes it comes before this
   one. */
EITP__PRIVATE eitp_status eitp__summary_file_open(const eitp_host *host, const char *directory,
                                                  eitp__summary_file **file, eitp_error *error);

/* Bytes that it takes at most. */
EITP__PRIVATE size_t eitp__summary_file_bytes(void);

/* Its sink. `record` copies the summary now and then, at the cost of a thousandth of the time, and a thread writes the
   copy. */
EITP__PRIVATE eitp_record_sink eitp__summary_file_sink(eitp__summary_file *file);

/* Waits for the thread. NULL is harmless. */
EITP__PRIVATE void eitp__summary_file_close(eitp__summary_file *file);

#endif
