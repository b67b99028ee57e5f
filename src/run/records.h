/* Records of memory pressure, for all sinks. Those of steps and evaluations are made by the records' observer. */
#ifndef EITP_RECORDS_H
#define EITP_RECORDS_H

#include "run/run_loop.h"

/* A failing sink is reported, and ends nothing. */
EITP__PRIVATE void eitp__record_memory(eitp_run *run, int shrunk);

#endif
