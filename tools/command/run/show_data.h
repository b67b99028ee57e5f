/* --show-data: prints the first samples as the model sees them. */
#ifndef COMMAND_RUN_SHOW_DATA_H
#define COMMAND_RUN_SHOW_DATA_H

#include "run/run.h"

EITP_BEGIN_DECLARATIONS

/* Prints the first `count` samples of the data of a planned training: the id and text of each token, with * before
   trained tokens if a sample also has others. */
eitp_status show_data(training_run *r, int64_t count, eitp_error *error);

EITP_END_DECLARATIONS

#endif
