/* Options of a resumed run that differ from its run.json. */
#ifndef COMMAND_RUN_RESUME_OPTIONS_H
#define COMMAND_RUN_RESUME_OPTIONS_H

#include "run/run.h"

EITP_BEGIN_DECLARATIONS

/* Refuses options that a resumed run must keep, such as --init, if they differ from the recorded ones. Sets r->rereads
   to the differing options that determine how data is read. */
eitp_status resume_compare_options(training_run *r, const option_set *recorded, eitp_error *error);

/* With r->rereads set: fails if the data is gone. */
eitp_status resume_check_data(const training_run *r, eitp_error *error);

/* After a failure with r->rereads set: names the options. */
eitp_status resume_name_rereads(const training_run *r, eitp_status status, eitp_error *error);

EITP_END_DECLARATIONS

#endif
