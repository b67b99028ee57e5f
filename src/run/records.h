/* Records for all sinks. Those of steps and evaluations are made by the records' observer. */
#ifndef EITP_RECORDS_H
#define EITP_RECORDS_H

#include "run/record_values.h"
#include "run/run_loop.h"

/* The list of the values of a record, empty. One record is built at a time. */
EITP__PRIVATE eitp__values *eitp__record_begin(eitp_run *run);

/* Gives the record to the sinks. A failing sink is reported, and ends nothing. */
EITP__PRIVATE void eitp__record(eitp_run *run, eitp_record_kind kind, int64_t step);

/* Records memory pressure. */
EITP__PRIVATE void eitp__record_memory(eitp_run *run, int shrunk);

/* The resident set of the process in bytes; 0 if unknown. */
EITP__PRIVATE int64_t eitp__process_resident(const eitp_host *host);

#endif
