/* A file of JSON lines: what the other sinks of files, and the run, use of it. */
#ifndef EITP_JSONL_H
#define EITP_JSONL_H

#include "run/record_file.h"
#include "run/run.h"

/* Bytes that it takes at most, with records of so many objects. */
EITP__PRIVATE size_t eitp__jsonl_bytes(size_t objects);

/* The file, for its times. */
EITP__PRIVATE eitp__record_file *eitp__jsonl_file(eitp_jsonl *jsonl);

/*
 * Appends a record, after whose values the members of `count` objects follow: texts as eitp_task.describe gives them,
 * or NULL. EITP_ERROR_ARGUMENT if one is not an object on one line, or is too long: nothing is written then.
 */
EITP__PRIVATE eitp_status eitp__jsonl_add(eitp_jsonl *jsonl, const eitp_record *record, const char *const *objects,
                                          size_t count, eitp_error *error);

#endif
