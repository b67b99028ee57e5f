/* A file of JSON lines: what the other sinks of files, and the run, use of it. */
#ifndef EITP_JSONL_H
#define EITP_JSONL_H

#include "run/record_file.h"
#include "run/run.h"

/* The file, for its times. */
EITP__PRIVATE eitp__record_file *eitp__jsonl_file(eitp_jsonl *jsonl);

#endif
